"""Parquet's structures as bytes and as frozen structs: no I/O, no Arrow."""
