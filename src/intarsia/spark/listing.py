"""The paths of lakes, tables by their names, and the files of a frame.

The files of a frame come from Spark, not from `intarsia.lake.discovery`. The two differ in details of hidden
names and partition columns, and an additional or missing file would change the result.
"""

from __future__ import annotations

import contextlib
import os
import re
import uuid
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import suppress
from functools import partial
from typing import TYPE_CHECKING, Any, TypeAlias, cast
from urllib.parse import unquote

from intarsia.errors import UnsupportedFeatureError
from intarsia.lake.data_file import DataFile, Partition
from intarsia.lake.discovery import HIVE_NULL
from intarsia.lake.opening import log_in
from intarsia.records import dataclass
from intarsia.spark.sessions import changed_setting, is_connect, setting
from intarsia.spark.spark_types import partition_value, quoted
from intarsia.storage import find_store, local_path, split_url
from intarsia.storage.object_errors import object_errors
from intarsia.storage.objects import objects_below

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, DataFrameReader, SparkSession

_LISTING_THRESHOLD = "spark.sql.sources.parallelPartitionDiscovery.threshold"
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
    return Listing(tuple(files), exact_path(next(iter(roots)))) if len(roots) == 1 else None


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
    partition = _partition_of(folders)
    path = python_path(uri, decode=False)
    try:
        status = os.stat(path)
    except (OSError, ValueError):  # the size of an object is requested when it is opened
        return DataFile(path, 0, partition, uri=uri)
    times = (status.st_mtime_ns, status.st_ctime_ns)
    return DataFile(path, status.st_size, partition, uri=uri, times_ns=times)


def _partition_of(folders: Sequence[str]) -> Partition:
    """Return the partition values in the names of folders."""
    values: dict[str, str | None] = {}
    for folder in folders:
        name, equals, value = folder.partition("=")
        if equals:
            values[_unescape(name)] = None if value == HIVE_NULL else _unescape(value)
    return tuple(values.items())


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


def rows_of_files(spark: SparkSession, whole: DataFrame, listing: Listing, files: Sequence[str]) -> DataFrame:
    """Return a DataFrame over some of the files, with the schema of all files."""
    reader = uncached(spark).schema(whole.schema)
    if listing.base_path is not None:
        reader = reader.option("basePath", listing.base_path)
    with _listing_on_the_driver(spark, len(files)):
        return reader.parquet(*files)


def _listing_on_the_driver(spark: SparkSession, count: int) -> contextlib.AbstractContextManager[None]:
    """List on the driver: above 32 paths Spark starts a job, which takes 20 times as long."""
    before = setting(spark, _LISTING_THRESHOLD)
    # a Connect session lists later, when the frame runs
    if is_connect(spark) or not before.isdigit() or int(before) >= count:
        return contextlib.nullcontext()
    return changed_setting(spark, _LISTING_THRESHOLD, str(count))


def selected(whole: DataFrame, columns: Sequence[str]) -> list[str]:
    """Return names for ``select``; a name that equals a column's whole name is quoted because of its dots."""
    if isinstance(columns, str):
        columns = [columns]
    dotted = {name for name in whole.columns if "." in name or "`" in name}
    return [quoted(name) if name in dotted else name for name in columns]


#: A part of the name of a table that is in backquotes.
_QUOTED_NAME = re.compile(r"`(?:[^`]|``)*`")

#: A name of a table, and the clause of a query for an older snapshot.
_AS_OF = re.compile(r"(.+?)\s+(?:FOR\s+)?(?:SYSTEM_)?(?:VERSION|TIME|TIMESTAMP)\s+AS\s+OF\s.+", re.I | re.S)

#: The row of DESCRIBE FORMATTED that precedes the facts about the table.
_FACTS = "# Detailed Table Information"


def folder_of_table(spark: SparkSession, name: object) -> str | None:
    """Return the URI of the folder of the Parquet table with this name, not encoded; None if it is a path.

    An existing path is a path, even if a table has the same name.

    Raises:
        UnsupportedFeatureError: If it is a view, or a table that does not consist of Parquet files alone.
    """
    if _DELTA_PATH.fullmatch(str(name)):
        raise _has_snapshots("delta", str(name))
    facts = _facts_of_table(spark, name)
    if facts is None:
        return None
    described = _format_in(facts)
    if described.lower() in _SNAPSHOT_FORMATS:
        raise _has_snapshots(described, str(name))
    if "parquet" not in described.lower():
        raise UnsupportedFeatureError(
            f"a table of format {described or 'unknown'} is not supported; pass a Parquet table or a path",
            reason="not-a-parquet-table",
            path=str(name),
        )
    return facts["Location"]


def refuse_snapshots(spark: SparkSession, source: Source) -> None:
    """Raise an error if a source is a table of Delta or Iceberg, given by its name, or by its folder.

    Raises:
        UnsupportedFeatureError: If it is one.
    """
    for name in paths_of(source):
        found = snapshot_format(spark, name)
        if found is not None:
            raise _has_snapshots(found, name)


def _has_snapshots(table_format: str, name: str) -> UnsupportedFeatureError:
    return UnsupportedFeatureError(
        f"this is a table of {table_format.title()}, and its files can have rows that it has deleted; query "
        "the table itself, in a session after intarsia.spark.enable",
        reason="not-a-parquet-table",
        path=name,
    )


def file_of_other_values(spark: SparkSession, table: str, files: Iterable[DataFile]) -> DataFile | None:
    """Return a file of a table whose folders do not name the values of a partition; None if there is none.

    The catalog may have a partition in any folder, and Spark then returns the values of the catalog.

    Args:
        spark: The session.
        table: The name of the table.
        files: Its files, with the values in the names of their folders.
    """
    from pyspark.errors import AnalysisException

    types = {one.name.lower(): one.dataType for one in spark.catalog.listColumns(table) if one.isPartition}

    def values(partition: Partition) -> tuple[tuple[str, object], ...]:
        typed = {
            name.lower(): (text, partition_value(text, types.get(name.lower(), "")))
            for name, text in partition
        }
        return tuple(
            (name, text if value is None else value.as_py()) for name, (text, value) in typed.items()
        )

    known = None
    if types:
        with suppress(AnalysisException):  # its partitions are not in the catalog, but in folders alone
            rows = spark.sql(f"SHOW PARTITIONS {table}").collect()
            known = {values(_partition_of(row[0].split("/"))) for row in rows}
    for file in files:
        found = values(file.partition)
        if [name for name, _ in found] != list(types) or (known is not None and found not in known):
            return file
    return None


def location_of(spark: SparkSession, item: str | os.PathLike[str]) -> str:
    """Return the folder of a table of any format; a path itself.

    Raises:
        UnsupportedFeatureError: If it is a view.
    """
    named = _DELTA_PATH.fullmatch(os.fspath(item))
    if named is not None:
        return named[1].replace("``", "`")
    facts = _facts_of_table(spark, item)
    return os.fspath(item) if facts is None else facts["Location"]


def _facts_of_table(spark: SparkSession, path: object) -> dict[str, str] | None:
    """Return the facts about the table with this name; None if it is a path.

    Raises:
        UnsupportedFeatureError: If it is a view, or an older snapshot.
    """
    if not isinstance(path, str) or "/" in path or os.sep in path or local_path(path) is None:
        return None
    if os.path.lexists(path):
        return None
    if not exists(spark, path):
        older = _AS_OF.fullmatch(path)
        if older is not None and exists(spark, older[1]):
            raise UnsupportedFeatureError(
                f"jobs use the current snapshot of a table; pass {older[1]} alone",
                reason="not-current-snapshot",
                path=path,
            )
        if _is_read(spark, path):
            raise not_a_table(path)
        return None
    rows = [(row[0], row[1]) for row in spark.sql(f"DESCRIBE FORMATTED {path}").collect()]
    names = [name for name, _ in rows]
    # the rows before are columns, which may have any name
    start = names.index(_FACTS) if _FACTS in names else len(names)
    facts = dict(rows[start:])
    if facts.get("Type") == "VIEW" or "Location" not in facts:
        raise not_a_table(path)
    return facts


def not_a_table(name: str) -> UnsupportedFeatureError:
    """Return the error for the name of a view, or of another table without files of its own."""
    return UnsupportedFeatureError(
        "this is not a table with files of its own; pass the table or the path that it reads",
        reason="not-a-table-of-files",
        path=name,
    )


def _format_in(facts: Mapping[str, str]) -> str:
    return f"{facts.get('Provider', '')} {facts.get('Serde Library', '')}".strip()


def delta_frame(spark: SparkSession, name: str) -> DataFrame:
    """Return the rows of a Delta table, given by its name, or by its folder."""
    if os.path.isdir(name):
        name = os.path.abspath(name)
    is_folder = "/" in name and _DELTA_PATH.fullmatch(name) is None
    return spark.read.format("delta").load(name) if is_folder else spark.table(name)


def refuse_managed_folders(folders: Iterable[str]) -> None:
    """Raise an error if a folder belongs to a table format that keeps a log of its files.

    Args:
        folders: Local paths, or URLs.

    Raises:
        UnsupportedFeatureError: If one is the folder of a Delta, Hudi, Iceberg or Paimon table, or in it.
    """
    for folder, owner in managed_folders(folders):
        raise UnsupportedFeatureError(
            f"the files belong to a table of {owner}, whose log specifies which of them are current; "
            f"rewrite the table with the commands of {owner}",
            reason="managed-table",
            path=folder,
        )


def managed_folders(folders: Iterable[str]) -> Iterator[tuple[str, str]]:
    """Yield the folders that belong to a table format that keeps a log of its files, and the format.

    Args:
        folders: Local paths, or URLs.
    """
    owners: dict[str, str | None] = {}
    for folder in folders:
        names = _names_in_store if local_path(folder) is None else _names_below
        path = folder.rstrip("/") if local_path(folder) is None else os.path.realpath(folder)
        for parent in _with_parents(path):  # the folder may be a part of the table
            if parent not in owners:
                log = log_in(partial(names, parent))
                owners[parent] = None if log is None else log.owner
            owner = owners[parent]
            if owner is not None:
                yield folder, owner
                break


def refuse_managed_files(source: Source, uris: Iterable[str]) -> None:
    """Raise the error of `refuse_managed_folders` for the folders of files: a lake may have tables in it.

    Args:
        source: The lake. Folders in a store, of which each costs requests, are searched only if its names
            have wildcards.
        uris: Its files, as Spark returns them.
    """
    has_wildcards = any(name != fixed_folder(name) for name in paths_of(source))
    folders = {os.path.dirname(python_path(uri)) for uri in uris}
    refuse_managed_folders(one for one in folders if has_wildcards or local_path(one) is not None)


def _with_parents(path: str) -> list[str]:
    """Return a local path or a URL, and the folders that contain it."""
    root, key = ("", path) if "://" not in path else split_url(path)
    parts = key.strip("/").split("/")
    return [f"{root}/{'/'.join(parts[:depth])}".rstrip("/") or "/" for depth in range(len(parts), -1, -1)]


def _names_below(parent: str, name: str) -> list[str]:
    """Return the names in a folder of a local folder; its own if it is empty."""
    with suppress(OSError):
        return os.listdir(os.path.join(parent, name)) or [name]
    return []


def _names_in_store(parent: str, name: str) -> list[str]:
    """Return the names of objects in a folder of a folder in a store."""
    store, key = find_store(f"{parent}/{name}")
    with object_errors(parent):
        return [found["path"].removeprefix(f"{key}/") for found in objects_below(store, f"{key}/")]


def exists(spark: SparkSession, name: str) -> bool:
    """Return whether a text is the name of a table or a view that the catalog has."""
    if "--" in _QUOTED_NAME.sub("", name):  # after a comment, statements about the table would lose their end
        return False
    try:
        return bool(spark.catalog.tableExists(name))
    except Exception:  # noqa: BLE001  a text that cannot be the name of a table
        return False


def _is_read(spark: SparkSession, name: str) -> bool:
    """Return whether a query can read a name, such as that of a view in a catalog of Iceberg.

    Spark's catalog says that such a view does not exist.
    """
    try:
        return spark.table(name).schema is not None
    except Exception:  # noqa: BLE001  likewise, or a path
        return False


Source: TypeAlias = "str | os.PathLike[str] | Sequence[str | os.PathLike[str]]"


def refresh(spark: SparkSession, source: Source) -> None:
    """Let the session forget what it has cached of a lake: listings, and rows."""
    for name in paths_of(source):
        if location_of(spark, name) == name:
            spark.catalog.refreshByPath(name)
        else:
            spark.catalog.refreshTable(name)


def refresh_tables(spark: SparkSession, source: Source) -> None:
    """Let the session list the files of Parquet tables again, which it does once for each table.

    It misses new files, and an enabled session reads files as a whole if they have changed since.
    """
    for name in paths_of(source):
        if snapshot_format(spark, name) is None and location_of(spark, name) != name:
            spark.catalog.refreshTable(name)


#: The formats whose logs specify the current files of a table, and deleted rows in them.
_SNAPSHOT_FORMATS = ("delta", "iceberg")

#: The extension of sessions that read Delta tables.
_DELTA = "DeltaSparkSessionExtension"

#: The name of a Delta table that is not in the catalog.
_DELTA_PATH = re.compile(r"delta\.`((?:[^`]|``)+)`", re.IGNORECASE)


def snapshot_format(spark: SparkSession, item: str | os.PathLike[str]) -> str | None:
    """Return the format of a table whose log specifies its current files; None for others, and for paths."""
    if _is_delta_folder(spark, os.fspath(item)):
        # without Delta, it is a folder of files
        return "delta" if _DELTA in setting(spark, "spark.sql.extensions") else None
    if _DELTA_PATH.fullmatch(os.fspath(item)):
        return "delta"
    facts = _facts_of_table(spark, item)
    found = None if facts is None else _format_in(facts).lower()
    return found if found in _SNAPSHOT_FORMATS else None


def _is_delta_folder(spark: SparkSession, path: str) -> bool:
    """Return whether a folder has a log of Delta; folders in a store only in sessions that can read it."""
    if "://" not in path or path.startswith("file:"):
        return os.path.isdir(os.path.join(python_path(path, decode=False), "_delta_log"))
    if _DELTA not in setting(spark, "spark.sql.extensions"):
        return False
    folder = f"{path.rstrip('/')}/_delta_log"
    try:
        if is_connect(spark):
            return uncached(spark).format("binaryFile").load(folder).schema is not None
        log = cast(Any, spark._jvm).org.apache.hadoop.fs.Path(folder)
        return bool(log.getFileSystem(spark._jsparkSession.sessionState().newHadoopConf()).exists(log))
    except Exception:  # noqa: BLE001  Spark cannot list it; the job raises the clearer error
        return False


def paths_of(source: Source) -> list[str]:
    """Return one path or several as a list."""
    items = [source] if isinstance(source, str | os.PathLike) else source
    return [os.fspath(item) for item in items]


def source_files(spark: SparkSession, frame: DataFrame) -> dict[str, tuple[int, int]]:
    """Return the files of a frame as they are now, without those that have been removed.

    Args:
        spark: The session.
        frame: A frame on Parquet files.

    Returns:
        For each URI, as Spark returns it, the size in bytes, and the time of the last modification in the
        finest unit of the file system.
    """
    uris = frame.inputFiles()
    found = {}
    for uri in uris:
        with suppress(OSError):
            state = os.stat(python_path(uri))
            found[uri] = state.st_size, state.st_mtime_ns
    if found or not uris:
        return found
    # they are in an object store, or on a machine that only the server of Connect can access
    files = spark.read.format("binaryFile").load(uris)
    rows = files.selectExpr("path", "length", "unix_micros(modificationTime)").collect()
    return {uri: (size, modified) for uri, size, modified in rows}
