"""Tables of the session's catalog, whose names are accepted instead of paths."""

from __future__ import annotations

import os
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

from intarsia.errors import UnsupportedFeatureError
from intarsia.storage import local_path

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

#: Names in a folder that mark it as a table of another format, with the name of the format.
_LOGS = {"_delta_log": "Delta Lake", ".hoodie": "Hudi"}

#: The row of DESCRIBE FORMATTED that precedes the facts about the table.
_FACTS = "# Detailed Table Information"


@dataclass(frozen=True)
class CatalogTable:
    """A table of Parquet files in the catalog.

    Attributes:
        name: The name as the caller wrote it.
        location: The URI of its folder, in which no character is encoded.
        partition_columns: The names of its partition columns.
    """

    name: str
    location: str
    partition_columns: tuple[str, ...]


def find_table(spark: SparkSession, path: object) -> CatalogTable | None:
    """Return the table with this name; None if it is a path.

    An existing path is a path, even if a table has the same name.

    Raises:
        UnsupportedFeatureError: If it is a view, or a table that does not consist of Parquet files alone.
    """
    if not isinstance(path, str) or "/" in path or os.sep in path or local_path(path) is None:
        return None
    if os.path.lexists(path) or not _exists(spark, path):
        return None
    rows = [(row[0], row[1]) for row in spark.sql(f"DESCRIBE FORMATTED {path}").collect()]
    names = [name for name, _ in rows]
    # the rows before are columns, which may have any name
    start = names.index(_FACTS) if _FACTS in names else len(names)
    facts = dict(rows[start:])
    if facts.get("Type") == "VIEW" or "Location" not in facts:
        raise UnsupportedFeatureError(
            f"{path} is not a table with files of its own; pass the table or the path that it reads",
            reason="not-a-table-of-files",
            path=path,
        )
    described = f"{facts.get('Provider', '')} {facts.get('Serde Library', '')}".strip()
    if "parquet" not in described.lower():
        raise UnsupportedFeatureError(
            f"{path} is a table of format {described or 'unknown'}, which is not supported; pass a Parquet "
            "table or a path",
            reason="not-a-parquet-table",
            path=path,
        )
    columns = spark.catalog.listColumns(path)
    partitions = tuple(column.name for column in columns if column.isPartition)
    return CatalogTable(path, facts["Location"], partitions)


def refuse_managed_folder(folder: str) -> None:
    """Raise an error if a local folder belongs to a table format that keeps a log of its files.

    Raises:
        UnsupportedFeatureError: If it is the folder of a Delta, Hudi or Iceberg table.
    """
    path = os.path.realpath(folder)
    for parent in (path, *map(str, Path(path).parents)):  # the folder may be a part of the table
        found = _format_of(parent)
        if found is not None:
            raise UnsupportedFeatureError(
                f"{folder}: the files belong to a {found} table, whose log specifies which of them are "
                f"current; rewrite the table with the commands of {found}",
                reason="managed-table",
                path=folder,
            )


def _format_of(folder: str) -> str | None:
    """Return the name of the format of the table in a folder."""
    found = next((known for name, known in _LOGS.items() if os.path.isdir(os.path.join(folder, name))), None)
    metadata = os.path.join(folder, "metadata")
    if found is None and os.path.isdir(metadata):
        with suppress(OSError):
            if any(name.endswith(".metadata.json") for name in os.listdir(metadata)):
                return "Iceberg"
    return found


def _exists(spark: SparkSession, name: str) -> bool:
    try:
        return bool(spark.catalog.tableExists(name))
    except Exception:  # noqa: BLE001  a text that cannot be the name of a table
        return False
