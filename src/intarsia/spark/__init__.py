"""Spark jobs: index a lake, rewrite it, and read it through its indexes.

Only this package imports pyspark, and only inside functions that take a session.

    >>> from intarsia import spark as ias
    >>> ias.index(spark, "lake/", [ia.PageIndex(), ia.Distinct("dest")])    # doctest: +SKIP
    >>> ias.read(spark, "lake/", where="dest = 'BOS'").show()               # doctest: +SKIP
"""

from __future__ import annotations

from intarsia.check.verification.findings import LakeVerifyReport
from intarsia.embed.report import IndexedFile, IndexReport
from intarsia.spark.advising import ArrangementAdvice, MeasuredArrangement, advise
from intarsia.spark.deleting import DeleteReport, delete
from intarsia.spark.enabling import (
    disable,
    disable_writes,
    enable,
    enable_writes,
    last_write,
    spark_conf,
    write_options,
)
from intarsia.spark.frames import map
from intarsia.spark.indexing import index
from intarsia.spark.lake_jobs import describe, detach, report_frame, verify
from intarsia.spark.matches import ErasedFile
from intarsia.spark.optimize import OptimizeReport, optimize
from intarsia.spark.paged import register
from intarsia.spark.querying import DistinctEstimate, aggregate, approx_distinct, locate
from intarsia.spark.reading import ReadChoice, explain, last_read, read
from intarsia.spark.rules import ScanSkip, last_skips
from intarsia.spark.sessions import JavaNotFoundError, ensure_java

__all__ = [
    "ArrangementAdvice",
    "DeleteReport",
    "DistinctEstimate",
    "ErasedFile",
    "IndexReport",
    "IndexedFile",
    "JavaNotFoundError",
    "LakeVerifyReport",
    "MeasuredArrangement",
    "OptimizeReport",
    "ReadChoice",
    "ScanSkip",
    "advise",
    "aggregate",
    "approx_distinct",
    "delete",
    "describe",
    "detach",
    "disable",
    "disable_writes",
    "enable",
    "enable_writes",
    "ensure_java",
    "explain",
    "index",
    "last_read",
    "last_skips",
    "last_write",
    "locate",
    "map",
    "optimize",
    "read",
    "register",
    "report_frame",
    "spark_conf",
    "verify",
    "write_options",
]
