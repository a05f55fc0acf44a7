"""Intarsia beside other readers of Parquet: `python -m benchmarks`, or `make bench`."""
