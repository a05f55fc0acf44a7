"""Plain Spark SQL before and after `ias.enable`: `python -m benchmarks.spark`, or `make bench-spark`."""
