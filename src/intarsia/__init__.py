"""Intarsia: indexes inlaid in Parquet.

>>> import intarsia as ia
>>> table = ia.open("lake/")                                        # doctest: +SKIP
>>> table.scan("user = 42", columns=["ts", "amount"]).to_arrow()    # doctest: +SKIP
"""

from __future__ import annotations

from intarsia.errors import (
    ColumnNotFoundError,
    CorruptFileError,
    FormatError,
    IndexBuildError,
    IndexPayloadError,
    IntarsiaError,
    IntarsiaWarning,
    PredicateError,
    ReplaceError,
    UnsupportedFeatureError,
)
from intarsia.indexes.distinct import Distinct
from intarsia.inspection import FileInspection, inspect
from intarsia.table import Scan, Table, open
from intarsia.tally import ScanReport

__all__ = [
    "ColumnNotFoundError",
    "CorruptFileError",
    "Distinct",
    "FileInspection",
    "FormatError",
    "IndexBuildError",
    "IndexPayloadError",
    "IntarsiaError",
    "IntarsiaWarning",
    "PredicateError",
    "ReplaceError",
    "Scan",
    "ScanReport",
    "Table",
    "UnsupportedFeatureError",
    "inspect",
    "open",
]
