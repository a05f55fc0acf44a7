"""Benchmarks of Intarsia and other Parquet readers: `python -m benchmarks`, or `make bench`."""
