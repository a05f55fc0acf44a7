"""The files that a frame reads, to find out whether they have changed since it was created."""

from __future__ import annotations

import os
from contextlib import suppress
from typing import TYPE_CHECKING, NamedTuple

from intarsia.spark.listing import python_path

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession


class SourceFile(NamedTuple):
    """A file at one point in time.

    Attributes:
        uri: Its URI, as Spark returns it.
        size: Its size in bytes.
        modified: The time of its last modification, in the finest unit of the file system.
    """

    uri: str
    size: int
    modified: int


def source_files(spark: SparkSession, frame: DataFrame) -> list[SourceFile]:
    """Return the files of a frame as they are now, ordered by URI, without those that have been removed.

    Args:
        spark: The session.
        frame: A frame on Parquet files.
    """
    uris = sorted(frame.inputFiles())
    found = []
    for uri in uris:
        with suppress(OSError):
            state = os.stat(python_path(uri))
            found.append(SourceFile(uri, state.st_size, state.st_mtime_ns))
    # without any, they are in an object store, or on a machine that only the server of Connect can access
    return found or _from_spark(spark, uris)


def _from_spark(spark: SparkSession, uris: list[str]) -> list[SourceFile]:
    if not uris:
        return []
    found = spark.read.format("binaryFile").load(uris)
    rows = found.selectExpr("path", "length", "unix_micros(modificationTime)").collect()
    return sorted(SourceFile(*row) for row in rows)
