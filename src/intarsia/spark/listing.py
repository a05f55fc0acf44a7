"""List the files that Spark would read, with their partition values, and convert their names for Python.

The list comes from Spark, not from `intarsia.lake.discovery`. The two differ in details of hidden names and
partition columns, and an additional or missing file would change the result.
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
        files: All files.
        base_path: The folder below which partition columns begin; None without partition columns.
    """

    files: tuple[DataFile, ...]
    base_path: str | None


def uncached(spark: SparkSession) -> DataFrameReader:
    """Return a reader whose frames never come from Spark's cache, on classic sessions and on Connect.

    Spark substitutes cached data for every relation with the same paths and options as a cached one. The
    resulting frame has no input files, and contains the rows from the time of caching. A unique option, which
    Spark ignores, prevents the substitution.
    """
    return spark.read.option("intarsia.read", str(uuid.uuid4()))


def list_files(frame: DataFrame, paths: Sequence[str]) -> Listing | None:
    """Return the files of a frame made by ``uncached(spark).parquet(*paths)``.

    Returns:
        The listing. None if it is unclear where partition columns begin, or if Spark lists no files, which
        does not prove that there are none.
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
    # Spark supports only one base path, so with several the partition columns of a file are unclear
    return Listing(tuple(files), _GLOB.sub(r"\\\g<0>", next(iter(roots)))) if len(roots) == 1 else None


def spark_path(file: DataFile) -> str:
    """Return the argument for ``spark.read.parquet`` that selects exactly this file."""
    return exact_path(file.uri)


def exact_path(path: str) -> str:
    r"""Return a path for Spark with its wildcards escaped.

    Example:
        >>> print(exact_path("/lake/[new]"))
        /lake/\[new\]
    """
    return _GLOB.sub(r"\\\g<0>", path)


def fixed_folder(path: str) -> str:
    """Return the part of a path before the first folder or file with a wildcard.

    Example:
        >>> fixed_folder("/lake/month=*/*.parquet"), fixed_folder("/lake/a.parquet")
        ('/lake', '/lake/a.parquet')
    """
    match = _GLOB.search(path)
    return path if match is None else path[: match.start()].rpartition("/")[0] or "/"


def _data_file(uri: str, folders: Sequence[str]) -> DataFile:
    """Return a file of a frame.

    Args:
        uri: Its name in Hadoop's form: ``file:/lake/x.parquet``, ``s3a://bucket/x.parquet``.
        folders: The folders between the user's path and the file.
    """
    values: dict[str, str | None] = {}
    for folder in folders:
        name, equals, value = folder.partition("=")
        if equals:
            values[_unescape(name)] = None if value == HIVE_NULL else _unescape(value)
    path = python_path(uri, decode=False)
    try:
        status = os.stat(path)
    except (OSError, ValueError):  # the size of an object is requested when it is opened
        return DataFile(path, 0, tuple(values.items()), uri=uri)
    times = (status.st_mtime_ns, status.st_ctime_ns)
    return DataFile(path, status.st_size, tuple(values.items()), uri=uri, times_ns=times)


def list_by_spark(spark: SparkSession, path: str) -> list[DataFile]:
    """List files below a path that only Spark can list, without reading their content."""
    frame = uncached(spark).format("binaryFile").option("recursiveFileLookup", "true").load(path)
    rows = frame.select("path", "length").collect()
    return [DataFile(python_path(row["path"]), row["length"], uri=row["path"]) for row in rows]


def python_path(uri: str, *, decode: bool = True) -> str:
    """Convert a path or URI from Spark to a local path, or to a URL that obstore supports.

    Example:
        >>> python_path("file:///lake/a%20b.parquet"), python_path("s3a://bucket/x.parquet")
        ('/lake/a b.parquet', 's3://bucket/x.parquet')
        >>> python_path("lake/100%20.parquet")
        'lake/100%20.parquet'
    """
    if not decode and uri.startswith("file:/") and not uri.startswith("file://"):
        return uri[len("file:") :]  # how Spark names local files; there may be many
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
    """Return a user's path without scheme and host, made absolute as Spark does."""
    scheme = _SCHEME.match(path)
    return path[scheme.end() :] if scheme else os.path.abspath(path)


def _segments(path: str) -> list[str]:
    return [part for part in path.split("/") if part not in ("", ".")]


def _lies_below(segments: list[str], pattern: list[str]) -> bool:
    """Return whether a file may be equal to or below a path or glob; a wildcard matches one segment."""
    if len(pattern) > len(segments) or any("{" in part for part in pattern):
        return False
    return all(
        _GLOB.search(wanted) is not None or wanted == part
        for wanted, part in zip(pattern, segments, strict=False)
    )


def _unescape(text: str) -> str:
    """Decode a partition's name or value as Spark does: each ``%XX`` is one character."""
    return _ESCAPED.sub(lambda match: chr(int(match[1], 16)), text)
