"""Recognize tables of table formats, without importing libraries that the caller does not use."""

from __future__ import annotations

import os
import re
import sys
from typing import Any

from intarsia.errors import UnsupportedFeatureError
from intarsia.lake.definition import TableDefinition
from intarsia.storage import StorageOptions

#: URLs of Delta tables start with this.
DELTA_PREFIX = "delta+"

#: The names of commits and checkpoints in the log of a Delta table.
_COMMIT = re.compile(r"[0-9]{20}\.")


def define_table(source: Any, options: StorageOptions | None) -> TableDefinition | None:
    """Return the definition of a table in a table format; None for everything else.

    Args:
        source: A ``deltalake.DeltaTable``; a URL of a Delta table, such as ``delta+file:///lake/trips``, also
            as the only item of a list; a ``pyiceberg.table.Table`` or a scan of one.
        options: Options of the stores of URLs; None for those of the table.

    Raises:
        FileNotFoundError: If there is no table at the URL.
        UnsupportedFeatureError: If the table uses a feature that Intarsia does not implement, the library of
            the format is not installed, or a list has the URL of a table and other paths.
    """
    if isinstance(source, (list, tuple)) and any(map(is_table_url, source)):
        if len(source) > 1:
            raise UnsupportedFeatureError(
                "a table cannot be opened together with other paths; open each on its own",
                reason="several-tables",
                path=next(filter(is_table_url, source)),
            )
        source = source[0]
    if is_table_url(source):
        from intarsia.lake.delta import open_delta_url

        return open_delta_url(source.removeprefix(DELTA_PREFIX), options)
    if isinstance(source, _loaded("deltalake", "DeltaTable")):
        from intarsia.lake.delta import define_delta_table

        return define_delta_table(source, options)
    if isinstance(source, _loaded("pyiceberg.table", "Table")):
        from intarsia.lake.iceberg import define_iceberg_scan

        return define_iceberg_scan(source.scan(), options, ".".join(source.name()))
    if isinstance(source, _loaded("pyiceberg.table", "DataScan")):
        from intarsia.lake.iceberg import define_iceberg_scan

        return define_iceberg_scan(source, options)
    return None


def is_table_url(source: object) -> bool:
    """Return whether a path is the URL of a table in a table format.

    Example:
        >>> is_table_url("delta+s3://lake/trips"), is_table_url("s3://lake/trips")
        (True, False)
    """
    return isinstance(source, str) and source.startswith(DELTA_PREFIX)


def has_delta_log(folder: str) -> bool:
    """Return whether a local folder contains a Delta table; False for folders in object stores."""
    try:
        with os.scandir(os.path.join(folder, "_delta_log")) as entries:
            return any(_COMMIT.match(entry.name) for entry in entries)
    except OSError:  # there is no such folder
        return False


def _loaded(module: str, name: str) -> Any:
    """Return a class of a module that is imported; without it, no object is an instance."""
    found = sys.modules.get(module)
    return () if found is None else getattr(found, name, ())
