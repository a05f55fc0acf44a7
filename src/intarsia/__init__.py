"""Intarsia: indexes inlaid in Parquet.

>>> import intarsia as ia
>>> table = ia.open("lake/")                                        # doctest: +SKIP
>>> table.scan("user = 42", columns=["ts", "amount"]).to_arrow()    # doctest: +SKIP
>>> ia.attach("lake/a.parquet", [ia.PageIndex(), ia.Distinct("country")])    # doctest: +SKIP
"""

from __future__ import annotations

from importlib import import_module
from typing import TYPE_CHECKING

from intarsia.aggregate import Aggregate
from intarsia.errors import (
    ChangedMeanwhileError,
    ColumnNotFoundError,
    CorruptFileError,
    FormatError,
    IndexBuildError,
    IndexPayloadError,
    IntarsiaError,
    IntarsiaWarning,
    NewerDirectoryError,
    NotTabularError,
    PredicateError,
    ReplacedWhileReadError,
    ReplaceError,
    UnsupportedFeatureError,
    WriteError,
)
from intarsia.indexes.bloom_granule import BloomGranule
from intarsia.indexes.distinct import Distinct
from intarsia.indexes.histogram import Histogram
from intarsia.indexes.hll import Hll
from intarsia.indexes.ngram import Ngram
from intarsia.indexes.rowmap import RowMap
from intarsia.indexes.sample import Sample
from intarsia.indexes.zonemap import ZoneMap
from intarsia.scan import Scan
from intarsia.table import Table, open
from intarsia.tally import ScanReport

if TYPE_CHECKING:
    from intarsia.inspection import FileInspection, inspect
    from intarsia.retrofit import (
        AttachReport,
        Bloom,
        DetachReport,
        PageIndex,
        Statistics,
        attach,
        detach,
    )
    from intarsia.verification import Finding, VerifyReport, verify
    from intarsia.writing import Writer, WriteReport, write_table

__all__ = [
    "Aggregate",
    "AttachReport",
    "Bloom",
    "BloomGranule",
    "ChangedMeanwhileError",
    "ColumnNotFoundError",
    "CorruptFileError",
    "DetachReport",
    "Distinct",
    "FileInspection",
    "Finding",
    "FormatError",
    "Histogram",
    "Hll",
    "IndexBuildError",
    "IndexPayloadError",
    "IntarsiaError",
    "IntarsiaWarning",
    "NewerDirectoryError",
    "Ngram",
    "NotTabularError",
    "PageIndex",
    "PredicateError",
    "ReplaceError",
    "ReplacedWhileReadError",
    "RowMap",
    "Sample",
    "Scan",
    "ScanReport",
    "Statistics",
    "Table",
    "UnsupportedFeatureError",
    "VerifyReport",
    "WriteError",
    "WriteReport",
    "Writer",
    "ZoneMap",
    "attach",
    "detach",
    "inspect",
    "open",
    "verify",
    "write_table",
]

# Who only reads does not pay for what writes and checks: these modules are loaded when they are used.
_LOADED_WHEN_USED = {
    "AttachReport": "intarsia.retrofit",
    "Bloom": "intarsia.retrofit",
    "DetachReport": "intarsia.retrofit",
    "FileInspection": "intarsia.inspection",
    "PageIndex": "intarsia.retrofit",
    "Statistics": "intarsia.retrofit",
    "Finding": "intarsia.verification",
    "VerifyReport": "intarsia.verification",
    "WriteReport": "intarsia.writing",
    "Writer": "intarsia.writing",
    "attach": "intarsia.retrofit",
    "detach": "intarsia.retrofit",
    "inspect": "intarsia.inspection",
    "verify": "intarsia.verification",
    "write_table": "intarsia.writing",
}


def __getattr__(name: str) -> object:
    if name not in _LOADED_WHEN_USED:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    value: object = getattr(import_module(_LOADED_WHEN_USED[name]), name)
    globals()[name] = value
    return value


def __dir__() -> list[str]:
    return sorted({*globals(), *__all__})
