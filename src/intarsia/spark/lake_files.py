"""The files that a job processes: those of paths, or of tables in the catalog."""

from __future__ import annotations

import glob
import os
from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, TypeAlias

from intarsia.errors import ListingError
from intarsia.lake.data_file import DataFile
from intarsia.lake.discovery import FileRole, find_files, role_of_name
from intarsia.spark.listing import list_by_spark, python_path
from intarsia.spark.tables import find_table

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

Source: TypeAlias = "str | os.PathLike[str] | Sequence[str | os.PathLike[str]]"


@dataclass(frozen=True)
class LakeFiles:
    """The files of a lake.

    Attributes:
        files: The files by path, under names that Python can open.
        others: The number of other files in the folders.
        names: The paths for `intarsia.open`.
    """

    files: dict[str, DataFile]
    others: int
    names: str | list[str]

    @property
    def sizes(self) -> dict[str, int]:
        """The size of each file in bytes."""
        return {path: file.size_bytes for path, file in self.files.items()}


def list_lake(spark: SparkSession, source: Source) -> LakeFiles:
    """Find the distinct files of a path, of several, or of a table.

    Raises:
        FileNotFoundError: If a path does not exist.
        UnsupportedFeatureError: If a name is that of a view, or of a table that has not only Parquet files.
    """
    items = [path for item in _items(source) for path in _paths_of(spark, item)]
    files: dict[str, DataFile] = {}
    others: set[str] = set()
    for item in items:
        name = python_path(os.fspath(item))
        try:
            chosen = find_files(name)
            listed: Sequence[DataFile] = chosen.files
            others.update(chosen.others)
        except (FileNotFoundError, ListingError):
            raise
        except Exception:  # noqa: BLE001  a store that only Spark can list; Spark then raises the clearer error
            listed, beside = _choose(os.fspath(item), list_by_spark(spark, os.fspath(item)))
            others.update(beside)
        for file in listed:
            files.setdefault(file.path if file.is_remote else os.path.abspath(file.path), file)
    names = [python_path(os.fspath(item)) for item in items]
    return LakeFiles(files, len(others), names[0] if len(names) == 1 else names)


def _items(source: Source) -> Sequence[str | os.PathLike[str]]:
    return [source] if isinstance(source, str | os.PathLike) else source


def _paths_of(spark: SparkSession, item: str | os.PathLike[str]) -> list[str | os.PathLike[str]]:
    """Return the folder of a table, and its files elsewhere: partitions can have other locations."""
    table = find_table(spark, item)
    if table is None:
        return [item]
    folder = python_path(table.location, decode=False).rstrip("/")
    files = [python_path(uri) for uri in spark.table(table.name).inputFiles()]
    return [folder, *(path for path in files if not path.startswith(f"{folder}/"))]


def _choose(item: str, listed: Sequence[DataFile]) -> tuple[list[DataFile], list[str]]:
    """Divide the files that Spark listed below a path into those to index and the paths of the others."""
    names = {file.uri: file.uri.rpartition("/")[2] for file in listed}
    is_named = list(names.values()) == [item.rstrip("/").rpartition("/")[2]]
    others = [uri for uri, name in names.items() if role_of_name(name) is FileRole.OTHER]
    if is_named or glob.has_magic(item):
        others = []
    # files without an extension are tried, because Python may be unable to read their first bytes
    return [file for file in listed if file.uri not in others], others
