"""Intarsia as Spark jobs: index a lake, read it through its indexes, make plain Spark SQL skip files.

The only place that imports pyspark.
"""
