"""The files that Spark would read, where they lie below what the user named, and how Python opens them.

Spark's own list is taken, not `intarsia.lake.discovery`'s: which folders count, which names hide, and where
partition columns begin differ in small ways, and a file more or less would be a wrong answer.
"""

from __future__ import annotations

import os
import re
import uuid
from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING
from urllib.parse import unquote

from intarsia.lake.data_file import DataFile
from intarsia.lake.discovery import HIVE_NULL

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, DataFrameReader, SparkSession

_SCHEME = re.compile(r"^([a-zA-Z][a-zA-Z0-9+.\-]*):(?://[^/]*)?(?=/)")
_GLOB = re.compile(r"[\\*?\[\]{}]")
_ESCAPED = re.compile(r"%([0-9A-Fa-f]{2})")


@dataclass(frozen=True)
class Listing:
    """The files of a frame.

    Attributes:
        files: All of them.
        base_path: The folder below which partition columns begin; None where there are none.
    """

    files: tuple[DataFile, ...]
    base_path: str | None


def uncached(spark: SparkSession) -> DataFrameReader:
    """A reader whose frames never come from Spark's cache, on classic sessions and on Connect.

    Spark puts cached data in the place of every relation that has the same paths and the same options as a
    cached one. Such a frame names no input files, and has the rows that the files held when it was cached.
    An option that no other frame has keeps them apart; Spark itself does not know it.
    """
    return spark.read.option("intarsia.read", str(uuid.uuid4()))


def list_files(frame: DataFrame, paths: Sequence[str]) -> Listing | None:
    """The files of a frame that ``uncached(spark).parquet(*paths)`` gave.

    Returns:
        None where it cannot be told where partition columns begin, and where Spark names no file: that is no
        proof that there are none.
    """
    files = []
    roots: dict[str, None] = {}
    patterns = [_segments(_absolute(path)) for path in paths]
    for uri in frame.inputFiles():
        path = unquote(uri)
        scheme = _SCHEME.match(path)
        segments = _segments(path[scheme.end() :] if scheme else path)
        depths = {len(pattern) for pattern in patterns if _lies_below(segments, pattern)}
        if len(depths) != 1:
            return None
        depth = depths.pop()
        root = (path[: scheme.end()] if scheme else "") + "/" + "/".join(segments[:depth])
        if depth < len(segments):
            roots[root] = None
        files.append(_data_file(path, segments[depth:-1]))
    if not files:
        return None
    if not any(file.partition for file in files):
        return Listing(tuple(files), None)
    # Spark takes one base path only; with several it could not be told which columns each file has
    return Listing(tuple(files), _GLOB.sub(r"\\\g<0>", next(iter(roots)))) if len(roots) == 1 else None


def spark_path(file: DataFile) -> str:
    """The argument for ``spark.read.parquet`` that means a file, whatever its name."""
    return _GLOB.sub(r"\\\g<0>", file.uri)


def _data_file(uri: str, folders: Sequence[str]) -> DataFile:
    """A file of a frame.

    Args:
        uri: Its name as Hadoop writes it: ``file:/lake/x.parquet``, ``s3a://bucket/x.parquet``.
        folders: The folders between what the user named and the file.
    """
    values: dict[str, str | None] = {}
    for folder in folders:
        name, equals, value = folder.partition("=")
        if equals:
            values[_unescape(name)] = None if value == HIVE_NULL else _unescape(value)
    path = python_path(uri, decode=False)
    # an object's size is asked for when it is opened
    size_bytes = os.path.getsize(path) if os.path.exists(path) else 0
    return DataFile(path, size_bytes, tuple(values.items()), uri=uri)


def list_by_spark(spark: SparkSession, path: str) -> list[DataFile]:
    """Files below a path that only Spark can list; their content is not read."""
    frame = uncached(spark).format("binaryFile").option("recursiveFileLookup", "true").load(path)
    rows = frame.select("path", "length").collect()
    return [DataFile(python_path(row["path"]), row["length"], uri=row["path"]) for row in rows]


def python_path(uri: str, *, decode: bool = True) -> str:
    """A path or URI of Spark's as Python opens it: a local path, or a URL that obstore knows.

    Example:
        >>> python_path("file:///lake/a%20b.parquet"), python_path("s3a://bucket/x.parquet")
        ('/lake/a b.parquet', 's3://bucket/x.parquet')
        >>> python_path("lake/100%20.parquet")
        'lake/100%20.parquet'
    """
    scheme = _SCHEME.match(uri)
    if scheme is None:
        return uri
    if decode:
        uri = unquote(uri)
    if scheme[1] == "file":
        return uri[scheme.end() :]
    if scheme[1] in ("s3a", "s3n"):
        return "s3" + uri[len(scheme[1]) :]
    return uri


def _absolute(path: str) -> str:
    """A user's path without scheme and host; Spark's working directory is this process's."""
    scheme = _SCHEME.match(path)
    return path[scheme.end() :] if scheme else os.path.abspath(path)


def _segments(path: str) -> list[str]:
    return [part for part in path.split("/") if part not in ("", ".")]


def _lies_below(segments: list[str], pattern: list[str]) -> bool:
    """Whether a file may be, or lie below, what a path or glob means; a wildcard stands for one segment."""
    if len(pattern) > len(segments) or any("{" in part for part in pattern):
        return False
    return all(
        _GLOB.search(wanted) is not None or wanted == part
        for wanted, part in zip(pattern, segments, strict=False)
    )


def _unescape(text: str) -> str:
    """A partition's name or value from a folder's name, as Spark reads it: each ``%XX`` is one character."""
    return _ESCAPED.sub(lambda match: chr(int(match[1], 16)), text)
