"""Parquet's structures as bytes and as frozen structs, without I/O and without Arrow."""
