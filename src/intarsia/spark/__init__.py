"""Intarsia as Spark jobs: index a lake, and read it through its indexes.

The only place that imports pyspark, and only in functions: these take a session, so it is there.

    >>> from intarsia import spark as ias
    >>> ias.index(spark, "lake/", [ia.PageIndex(), ia.Distinct("dest")])    # doctest: +SKIP
    >>> ias.read(spark, "lake/", where="dest = 'BOS'").show()               # doctest: +SKIP
"""

from __future__ import annotations

from intarsia.embed.index_report import IndexedFile, IndexReport
from intarsia.spark.indexing import index
from intarsia.spark.java import JavaNotFoundError, ensure_java
from intarsia.spark.reading import explain, read

__all__ = ["IndexReport", "IndexedFile", "JavaNotFoundError", "ensure_java", "explain", "index", "read"]
