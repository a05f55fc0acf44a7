"""The files of a lake for a job, and those that it shall index: new, large enough, settled, not indexed."""

from __future__ import annotations

import glob
import os
import re
import time
from collections.abc import Mapping, Sequence
from contextlib import closing
from dataclasses import field
from datetime import timedelta
from typing import TYPE_CHECKING, Literal, TypeAlias

import numpy as np

from intarsia.ahead import ahead
from intarsia.amounts import count
from intarsia.embed.attach import unchanged_report
from intarsia.embed.report import IndexedFile
from intarsia.embed.structures import Attachable
from intarsia.errors import IndexBuildError, IntarsiaError, ListingError, UnsupportedFeatureError
from intarsia.file import ParquetInput
from intarsia.lake.data_file import DataFile
from intarsia.lake.definition import listed_file
from intarsia.lake.discovery import FileRole, find_files, role_of_name
from intarsia.lake.opening import open as open_table
from intarsia.lake.table import Table
from intarsia.records import dataclass
from intarsia.spark.listing import (
    Source,
    delta_frame,
    exists,
    file_of_other_values,
    folder_of_table,
    location_of,
    managed_folders,
    not_a_table,
    paths_of,
    python_path,
    refuse_snapshots,
    snapshot_format,
    uncached,
)
from intarsia.spark.sessions import setting
from intarsia.spark.spark_types import quoted

if TYPE_CHECKING:
    from pyspark.sql import SparkSession


@dataclass(frozen=True)
class LakeFiles:
    """The files of a lake.

    Attributes:
        files: The files by path, under names that Python can open.
        others: The number of other files in the folders.
        names: The paths for `intarsia.open`.
        refused: The files to which no indexes may be attached, with the reason.
        root: The folder with the data of the table whose snapshot has these files; None for other sources.
    """

    files: dict[str, DataFile]
    others: int
    names: str | list[str]
    refused: Mapping[str, IntarsiaError] = field(default_factory=dict)
    root: str | None = None

    def open(self) -> Table:
        """Open the lake under names that executors can open, too: they have another current folder."""
        names = [self.names] if isinstance(self.names, str) else self.names
        found = [name if "://" in name else os.path.abspath(name) for name in names]
        return open_table(found[0] if len(found) == 1 else found)

    @property
    def sizes(self) -> dict[str, int]:
        """The size of each file in bytes."""
        return {path: file.size_bytes for path, file in self.files.items()}


def list_lake(spark: SparkSession, source: Source, *, with_snapshots: bool = False) -> LakeFiles:
    """Find the distinct files of a path, of several, or of a table.

    Args:
        spark: The session.
        source: The paths, or names of tables.
        with_snapshots: Whether a table of Delta or Iceberg stands for the data files of its current snapshot,
            in which rows may be deleted. It is given by its name, or by its folder if it is of Delta.

    Raises:
        FileNotFoundError: If a path does not exist.
        UnsupportedFeatureError: If a name is that of a view, or of a table that has not only Parquet files.
    """
    named = [source] if isinstance(source, str | os.PathLike) else source
    files: dict[str, DataFile] = {}
    in_folders: dict[str, DataFile] = {}
    refused: dict[str, IntarsiaError] = {}
    others: set[str] = set()
    names: list[str] = []
    root: str | None = None
    for one in named:
        managed = snapshot_format(spark, one) if with_snapshots else None
        if managed is not None:
            listed, fixed = _SNAPSHOTS[managed](spark, os.fspath(one))
            files |= {file.path: file for file in listed}
            names += [file.path for file in listed]
            refused |= fixed
            if len(named) == 1:
                folder = python_path(location_of(spark, one), decode=False).rstrip("/")
                root = f"{folder}/data" if managed == "iceberg" else folder
            continue
        for item in _files_of(spark, one):
            names.append(python_path(item, decode=False))
            found, beside = _list_path(spark, item)
            others.update(beside)
            for file in found:
                in_folders.setdefault(file.path if file.is_remote else os.path.abspath(file.path), file)
    if with_snapshots:
        refused |= _small_files_of_iceberg(in_folders)
    files = in_folders | files
    return LakeFiles(files, len(others), names[0] if len(names) == 1 else names, refused, root)


def _list_path(spark: SparkSession, item: str) -> tuple[Sequence[DataFile], Sequence[str]]:
    """List the files of a path, and the paths of other files."""
    from pyspark.errors import PySparkException

    try:
        chosen = find_files(python_path(item, decode=False))
    except (FileNotFoundError, PermissionError, ListingError):
        raise
    except Exception as error:  # noqa: BLE001  a store that only Spark can list
        try:
            frame = uncached(spark).format("binaryFile").option("recursiveFileLookup", "true").load(item)
        except Exception as of_spark:
            # it is the clearer error, unless Spark lacks the store, or it is a stack trace of Java
            lacks_store = re.search("No FileSystem for scheme|ClassNotFoundException", str(of_spark))
            if lacks_store or not isinstance(of_spark, PySparkException):
                raise error from None
            raise
        rows = frame.select("path", "length").collect()
        files = [
            DataFile(python_path(row["path"], decode=False), row["length"], uri=row["path"]) for row in rows
        ]
        names = {file.uri: file.uri.rpartition("/")[2] for file in files}
        if glob.has_magic(item) or list(names.values()) == [item.rstrip("/").rpartition("/")[2]]:
            return files, []
        # files without an extension are tried, because Python may be unable to read their first bytes
        others = [uri for uri, name in names.items() if role_of_name(name) is FileRole.OTHER]
        return [file for file in files if file.uri not in others], others
    return chosen.files, chosen.others


def _files_of(spark: SparkSession, item: str | os.PathLike[str]) -> list[str]:
    """Return the folder of a table, and its files elsewhere: partitions can have other locations."""
    location = folder_of_table(spark, item)
    if location is None:
        return [os.fspath(item)]
    folder = python_path(location, decode=False).rstrip("/")
    files = _files_of_table(spark, os.fspath(item))
    return [folder, *(path for path in files if not path.startswith(f"{folder}/"))]


def _files_of_table(spark: SparkSession, name: str) -> list[str]:
    """Return the files that Spark reads of a table of Parquet files, also if it has cached the rows."""
    return [python_path(uri) for uri in uncached(spark).table(name).inputFiles()]


def list_rows(spark: SparkSession, source: Source, *, with_partitions: bool) -> LakeFiles:
    """Find the files of a lake, as `list_lake`, for a job that answers from all of their rows.

    Args:
        spark: The session.
        source: The paths, or names of tables.
        with_partitions: Whether the job needs the partition values in the names of folders.

    Raises:
        UnsupportedFeatureError: If the folder of a table has files that are not in a partition of the table,
            such as those of an external table that has dropped the partition; if the values that a job needs
            are not those of the catalog; or if it is a table of Delta or Iceberg, whose files have more rows.
    """
    refuse_snapshots(spark, source)
    lake = list_lake(spark, source)
    for name in paths_of(source):
        location = folder_of_table(spark, name)
        if location is None or not any(one.isPartition for one in spark.catalog.listColumns(name)):
            continue
        folder = python_path(location, decode=False).rstrip("/")
        unknown = {path for path in lake.files if path.startswith(f"{folder}/")}
        known = _files_of_table(spark, name)
        if not unknown.issubset(known):  # the session may not have seen new files
            spark.catalog.refreshTable(name)
            known = _files_of_table(spark, name)
        unknown.difference_update(known)
        if unknown:
            first = min(unknown)
            raise UnsupportedFeatureError(
                f"the folder of {name} has {count(len(unknown), 'file')} in no partition of the table, such "
                f"as {first}; run MSCK REPAIR TABLE {name} if their rows count, or else remove them",
                reason="unknown-partition",
                path=first,
            )
        if not with_partitions:
            continue
        files = [lake.files[path] for path in known if path in lake.files]
        other = file_of_other_values(spark, name, files)
        if other is not None:
            raise UnsupportedFeatureError(
                f"{name} has a partition in a folder that is not named after its values; aggregate the rows "
                "of intarsia.spark.read instead",
                reason="partition-elsewhere",
                path=other.path,
            )
    return lake


#: Smaller files of Iceberg tables must keep their length. Iceberg 1.12 reads files of up to 1 MiB at once,
#: and refuses them if they are longer than its manifest says. A later version may do so with larger files.
_LEAST_ICEBERG_BYTES = 8 << 20


#: The name of a table in the current namespace.
_ONE_PART = re.compile(r"[^.`]+|`(?:[^`]|``)+`")

#: The name of a branch or a tag of an Iceberg table.
_REF = re.compile(r"(.+)\.((?:branch|tag)_[^.]+)")


def iceberg_table_of_files(spark: SparkSession, name: str) -> str:
    """Return the name of the table with the data files of an Iceberg table, branch or tag, as of now.

    Raises:
        UnsupportedFeatureError: If there is none: it is a table of metadata, or an older snapshot.
    """
    if _ONE_PART.fullmatch(name):  # Spark would take it for the namespace of the table of files
        known = quoted(spark.catalog.currentCatalog()), spark.catalog.currentDatabase(), name
        name = ".".join(filter(None, known))
    tables, is_ref = {f"{name}.data_files": name}, _REF.fullmatch(name)
    branch = setting(spark, "spark.wap.branch")
    if branch and stages_writes(spark, name):  # queries of the session read the branch if there is one
        tables = {f"{name}.data_files.{quoted(f'branch_{branch}')}": name} | tables
    if is_ref:  # a table may have the name of a branch
        tables[f"{is_ref[1]}.data_files.{is_ref[2]}"] = is_ref[1]
    for files, table in tables.items():
        if exists(spark, files):
            spark.catalog.refreshTable(table)  # the catalog of a session caches it, without commits of others
            return files
    raise not_a_table(name)


def stages_writes(spark: SparkSession, name: str) -> bool:
    """Return whether a session can write to an Iceberg table without changing its current snapshot.

    The settings ``spark.wap.branch`` and ``spark.wap.id`` apply to these tables alone.
    """
    try:
        rows = spark.sql(f"SHOW TBLPROPERTIES {name} ('write.wap.enabled')").collect()
    except Exception:  # noqa: BLE001  it is a branch, or a table of metadata
        return False
    return [row[1].lower() for row in rows] == ["true"]


def _iceberg_snapshot(spark: SparkSession, name: str) -> tuple[list[DataFile], dict[str, IntarsiaError]]:
    """List the Parquet files of the current snapshot of an Iceberg table.

    Returns:
        The files; and for those that must keep their length, why.

    Raises:
        FileNotFoundError: If there are none.
        UnsupportedFeatureError: If it is a table of metadata, or an older snapshot.
    """
    table = iceberg_table_of_files(spark, name)
    rows = spark.sql(
        f"SELECT file_path, file_size_in_bytes, key_metadata IS NOT NULL FROM {table} "
        "WHERE lower(file_format) = 'parquet'"
    ).collect()
    if not rows:
        raise FileNotFoundError(f"{name} has no Parquet files in its current snapshot")
    files: list[DataFile] = []
    refused: dict[str, IntarsiaError] = {}
    for uri, size, is_encrypted in rows:
        file = listed_file(python_path(uri, decode=False), size, (), None)
        files.append(file)
        if is_encrypted:
            refused[file.path] = IntarsiaError(
                "Iceberg has encrypted the file", reason="encrypted", path=file.path
            )
        elif size < _LEAST_ICEBERG_BYTES:
            refused[file.path] = _is_small(file.path, size)
    return files, refused


def _small_files_of_iceberg(files: Mapping[str, DataFile]) -> dict[str, IntarsiaError]:
    """Return the local files that must keep their length: metadata of Iceberg is in a folder above them."""
    small = {
        path: file.size_bytes
        for path, file in files.items()
        if not file.is_remote and file.size_bytes < _LEAST_ICEBERG_BYTES
    }
    folders = dict(managed_folders({os.path.dirname(path) for path in small}))
    return {
        path: _is_small(path, size)
        for path, size in small.items()
        if folders.get(os.path.dirname(path)) == "Iceberg"
    }


def _is_small(path: str, size: int) -> IntarsiaError:
    return IntarsiaError(
        f"the file has {size:,} bytes, and Iceberg may refuse files of less than "
        f"{_LEAST_ICEBERG_BYTES >> 20} MiB that are longer than its manifest says; compact the table",
        reason="small-iceberg-file",
        path=path,
    )


def _delta_snapshot(spark: SparkSession, name: str) -> tuple[list[DataFile], dict[str, IntarsiaError]]:
    """List the files of the current snapshot of a Delta table, given by its name, or by its folder.

    Returns:
        The files; and an empty dictionary, because each of them may become longer.

    Raises:
        FileNotFoundError: If there are none.
    """
    frame = delta_frame(spark, name)
    # with a metadata column, because Spark lists no files for a frame that it has cached
    frame = frame.select(frame.metadataColumn("_metadata").getField("file_path"))
    uris = frame.inputFiles()  # not encoded, unlike those of other tables
    if not uris:
        raise FileNotFoundError(f"{name} has no files in its current snapshot")
    return [listed_file(python_path(uri, decode=False), 0, (), None) for uri in uris], {}


#: The functions that list the current snapshot of a table, by its format.
_SNAPSHOTS = {"iceberg": _iceberg_snapshot, "delta": _delta_snapshot}


# --- the files to index -------------------------------------------------------------------------------------

#: All files, or those that were not indexed before.
Only: TypeAlias = Literal["all", "new"]

#: A duration; a number is in seconds.
Age: TypeAlias = "timedelta | float"


@dataclass(frozen=True)
class Choice:
    """Which files are indexed.

    Attributes:
        only: ``"new"`` leaves out the files that the lake index contains unchanged and that have an embedded
            index or a mark of one, so that the job takes one listing and no footer of these files.
        min_file_size: Smaller files are left out; in bytes.
        older_than: Files that were written in this time are left out, in seconds.

    Raises:
        ValueError: If an argument is invalid.
    """

    only: Only = "all"
    min_file_size: int = 0
    older_than: Age = 0

    def __post_init__(self) -> None:
        if self.only not in ("all", "new"):
            raise ValueError(f"only is {self.only!r}; use 'all' or 'new'")
        if self.min_file_size < 0:
            raise ValueError(f"min_file_size is {self.min_file_size!r}; use 0 or more bytes")
        if not self._seconds >= 0:  # NaN, too
            raise ValueError(f"older_than is {self.older_than!r}; use 0 or more seconds")

    @property
    def _seconds(self) -> float:
        age = self.older_than
        return age.total_seconds() if isinstance(age, timedelta) else float(age)

    def of(self, lake: LakeFiles, *, needs_lake_index: bool) -> dict[str, DataFile]:
        """Return the chosen files by path.

        Args:
            lake: The files.
            needs_lake_index: Whether an error is raised if new files cannot be found because there is no
                lake index; else all files are new.

        Raises:
            IndexBuildError: If there is no lake index, but one is needed.
        """
        files = lake.files
        if self.only == "new":
            indexed = _indexed_before(lake, needs_lake_index=needs_lake_index)
            files = {path: file for path, file in files.items() if path not in indexed}
        latest = time.time() - self._seconds
        return {
            path: file
            for path, file in files.items()
            if file.size_bytes >= self.min_file_size and (not self._seconds or _modified(file) <= latest)
        }


def _indexed_before(lake: LakeFiles, *, needs_lake_index: bool) -> set[str]:
    """Return the paths of the files that the lake index contains unchanged and that have been indexed."""
    table = lake.open()
    known = table.lake_index.known_files()
    if known is None:
        if needs_lake_index and len(table.files) > 1:  # a single file is asked itself
            raise IndexBuildError(
                "only='new' finds new files by the lake index, and there is none; build one with "
                "lake_index='beside' or 'cache'",
                reason="no-lake-index",
            )
        return set()
    paths = [file.path for file in table.files]
    return {paths[file] for file in np.flatnonzero(known.have_directory(paths)).tolist()}


def _modified(file: DataFile) -> float:
    """Return the time of the last write in seconds since 1970; now if the store does not say."""
    if file.times_ns is not None:
        return file.times_ns[0] / 1e9
    if file.modified is not None:
        return file.modified
    return time.time() if file.is_remote else os.stat(file.path).st_mtime


#: Footers read on the driver before it is decided whether to read the others.
PROBED = 64

#: The share of the probed files that have all indexes, from which the other footers are read, too.
MIN_SHARE = 0.5

#: Maximum number of footers read on the driver.
MAX_FOOTERS = 10_000

#: Number of footers read at a time, which bounds the load of the driver and of the object store.
_THREADS = 16


def find_unchanged(files: Mapping[str, DataFile], indexes: Sequence[Attachable]) -> dict[str, IndexedFile]:
    """Return the outcome of each file whose footer shows that it has all indexes.

    A new lake costs `PROBED` footers. In a lake that was indexed before, the driver reads the footers of at
    most `MAX_FOOTERS` files, which is faster than tasks for them. All other files are left to the tasks.

    Args:
        files: The files by path.
        indexes: The indexes to attach.
    """

    def unchanged(chosen: Sequence[str]) -> dict[str, IndexedFile]:
        with closing(ahead(lambda path: _outcome(files[path], indexes), chosen, _THREADS)) as outcomes:
            found = {path: outcome.result() for path, outcome in outcomes}
        return {path: outcome for path, outcome in found.items() if outcome is not None}

    paths = list(files)
    step = max(1, len(paths) // PROBED)
    probed = paths[::step][:PROBED]
    found = unchanged(probed)
    if len(found) < len(probed) * MIN_SHARE:
        return found
    chosen = set(probed)
    rest = [path for path in paths if path not in chosen][: MAX_FOOTERS - len(probed)]
    return found | unchanged(rest)


def _outcome(file: DataFile, indexes: Sequence[Attachable]) -> IndexedFile | None:
    """Return the outcome of a file that has all indexes; errors are left to the task of the file."""
    try:
        with ParquetInput(file.open()) as opened:
            report = unchanged_report(opened, indexes)
    except (IntarsiaError, OSError):
        return None
    return None if report is None else IndexedFile.of(report)
