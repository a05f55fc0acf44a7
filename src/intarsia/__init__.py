"""Intarsia: indexes inlaid in Parquet."""
