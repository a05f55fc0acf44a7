"""What is missing in pyarrow: the types in which values are compared, fields of structs, joining, hashing."""
