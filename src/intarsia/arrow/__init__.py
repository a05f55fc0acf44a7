"""Additions to pyarrow: comparison types, struct fields, joining, hashing, results that own their rows."""
