"""Recognize tables of table formats, without importing libraries that the caller does not use."""

from __future__ import annotations

import sys
from typing import Any

from intarsia.lake.definition import TableDefinition
from intarsia.storage import StorageOptions

#: URLs of Delta tables start with this.
DELTA_PREFIX = "delta+"


def define_table(source: Any, options: StorageOptions | None) -> TableDefinition | None:
    """Return the definition of a table in a table format; None for everything else.

    Args:
        source: A ``deltalake.DeltaTable``; a URL of a Delta table, such as ``delta+file:///lake/trips``; a
            ``pyiceberg.table.Table`` or a scan of one.
        options: Options of the stores of URLs; None for those of the table.

    Raises:
        ModuleNotFoundError: If the library of the format is not installed.
        FileNotFoundError: If there is no table at the URL.
        UnsupportedFeatureError: If the table uses a feature that Intarsia does not implement.
    """
    if isinstance(source, str) and source.startswith(DELTA_PREFIX):
        from intarsia.lake.delta import open_delta_url

        return open_delta_url(source.removeprefix(DELTA_PREFIX), options)
    if isinstance(source, _loaded("deltalake", "DeltaTable")):
        from intarsia.lake.delta import define_delta_table

        return define_delta_table(source, options)
    if isinstance(source, _loaded("pyiceberg.table", "Table")):
        from intarsia.lake.iceberg import define_iceberg_scan

        return define_iceberg_scan(source.scan(), options)
    if isinstance(source, _loaded("pyiceberg.table", "DataScan")):
        from intarsia.lake.iceberg import define_iceberg_scan

        return define_iceberg_scan(source, options)
    return None


def _loaded(module: str, name: str) -> Any:
    """Return a class of a module that is imported; without it, no object is an instance."""
    found = sys.modules.get(module)
    return () if found is None else getattr(found, name, ())
