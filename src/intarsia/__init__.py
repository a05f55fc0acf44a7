"""Read only the pages of Parquet files that can match a predicate, and add indexes to existing files.

===================  =====================================================================================
read                 `open` returns a `Table`: `Table.scan`, `count`, `aggregate`, `approx_distinct`, `sample`
tables of files      a `FileSource` lists the files of a table, each a `DataFile`
other engines        `Table.dataset` for DuckDB, Polars and DataFusion; `Table.plan` divides a `Scan` into
                     `Split` objects for the tasks of a cluster
what was read        `Table.explain`, `Scan.report`: a `ScanReport` of `PageCounts`, `PrunedBy`, `Ignored`;
                     for monitoring, a `FinishedQuery`
index                `attach`, `detach`: add indexes to existing files, remove them; `advise`: which to add
write                `write_table`, `Writer`
examine a file       `inspect` (show its metadata), `verify` (check its metadata against its data)
standard indexes     `PageIndex`, `Statistics`, `Bloom`: defined by Parquet, so that all readers can use them
embedded indexes     `Distinct`, `ZoneMap`, `Ngram`, `RowMap`, `BloomGranule`, `Hll`, `Histogram`, `Sample`
predicates           SQL text, pyarrow filters, expressions of pyarrow or Polars, or a `Predicate` of
                     `And`, `Or`, `Not`, `Comparison`, `In`, `IsNull`, `Like`, `RegexpLike`, `Constant`,
                     `contains`, `starts_with`, `ends_with`, of a column or a `Call` (a function of one)
errors               `IntarsiaError` and its subclasses; `IntarsiaWarning`, such as for an ignored index
`intarsia.polars`    scan a lake lazily with Polars
`intarsia.spark`     index and read a lake with Spark
`intarsia.testing`   test your own index
===================  =====================================================================================

Example:
    >>> import intarsia as ia, pyarrow as pa, pyarrow.parquet as pq, tempfile, os
    >>> path = os.path.join(tempfile.mkdtemp(), "cities.parquet")
    >>> pq.write_table(pa.table({"city": ["Bern", "Basel", "Bern"], "visitors": [3, 5, 4]}), path)
    >>> ia.attach(path, [ia.PageIndex(), ia.Distinct("city")]).built
    ('page_index', 'distinct(city):page')
    >>> ia.open(path).scan("city = 'Basel'", columns=["visitors"]).to_arrow().to_pylist()
    [{'visitors': 5}]
    >>> ia.detach(path).detached
    True
"""

from __future__ import annotations

from importlib import import_module
from typing import TYPE_CHECKING

from intarsia.errors import (
    ChangedMeanwhileError,
    ColumnNotFoundError,
    CorruptFileError,
    FilesFailedError,
    FormatError,
    IndexBuildError,
    IndexPayloadError,
    IntarsiaError,
    IntarsiaWarning,
    ListingError,
    NewerDirectoryError,
    NotTabularError,
    ObjectStoreError,
    PredicateError,
    QueryTimeoutError,
    ReplacedWhileReadError,
    ReplaceError,
    RunInterrupted,
    SourceError,
    UnsupportedFeatureError,
    WriteError,
)

if TYPE_CHECKING:
    from intarsia.advice import Advice, advise
    from intarsia.check.inspection import inspect
    from intarsia.check.report import FileInspection
    from intarsia.check.verification import Finding, VerifyReport, verify
    from intarsia.embed import (
        AttachReport,
        Bloom,
        DetachReport,
        IndexedFile,
        IndexReport,
        Note,
        PageIndex,
        RestoreReport,
        Statistics,
    )
    from intarsia.embed.many import attach, detach
    from intarsia.file import Ignored
    from intarsia.indexes.bloom_granule import BloomGranule
    from intarsia.indexes.distinct import Distinct
    from intarsia.indexes.histogram import Histogram
    from intarsia.indexes.hll import Hll
    from intarsia.indexes.ngram import Ngram
    from intarsia.indexes.rowmap import RowMap
    from intarsia.indexes.sample import Sample
    from intarsia.indexes.zonemap import ZoneMap
    from intarsia.lake.data_file import DataFile, FileSource
    from intarsia.lake.opening import open
    from intarsia.lake.prepared import PreparedQuery
    from intarsia.lake.scan import Scan
    from intarsia.lake.split import Split
    from intarsia.lake.table import Table
    from intarsia.predicate import (
        And,
        Call,
        Comparison,
        Constant,
        In,
        IsNull,
        Like,
        Not,
        Or,
        Predicate,
        RegexpLike,
        contains,
        ends_with,
        starts_with,
    )
    from intarsia.read.aggregate import Aggregate
    from intarsia.read.approximate import ApproximateCount
    from intarsia.read.counts import PageCounts, PrunedBy
    from intarsia.read.finished_query import FinishedQuery
    from intarsia.read.report import ScanReport
    from intarsia.write import Writer, WriteReport, write_table

__all__ = [
    "Advice",
    "Aggregate",
    "And",
    "ApproximateCount",
    "AttachReport",
    "Bloom",
    "BloomGranule",
    "Call",
    "ChangedMeanwhileError",
    "ColumnNotFoundError",
    "Comparison",
    "Constant",
    "CorruptFileError",
    "DataFile",
    "DetachReport",
    "Distinct",
    "FileInspection",
    "FileSource",
    "FilesFailedError",
    "Finding",
    "FinishedQuery",
    "FormatError",
    "Histogram",
    "Hll",
    "Ignored",
    "In",
    "IndexBuildError",
    "IndexPayloadError",
    "IndexReport",
    "IndexedFile",
    "IntarsiaError",
    "IntarsiaWarning",
    "IsNull",
    "Like",
    "ListingError",
    "NewerDirectoryError",
    "Ngram",
    "Not",
    "NotTabularError",
    "Note",
    "ObjectStoreError",
    "Or",
    "PageCounts",
    "PageIndex",
    "Predicate",
    "PredicateError",
    "PreparedQuery",
    "PrunedBy",
    "QueryTimeoutError",
    "RegexpLike",
    "ReplaceError",
    "ReplacedWhileReadError",
    "RestoreReport",
    "RowMap",
    "RunInterrupted",
    "Sample",
    "Scan",
    "ScanReport",
    "SourceError",
    "Split",
    "Statistics",
    "Table",
    "UnsupportedFeatureError",
    "VerifyReport",
    "WriteError",
    "WriteReport",
    "Writer",
    "ZoneMap",
    "advise",
    "attach",
    "contains",
    "detach",
    "ends_with",
    "inspect",
    "open",
    "starts_with",
    "verify",
    "write_table",
]

# Imported on first use: `intarsia --help` does not need pyarrow, and few programs write or verify.
_LOADED_WHEN_USED = {
    "intarsia.advice": "Advice advise",
    "intarsia.check.inspection": "inspect",
    "intarsia.check.report": "FileInspection",
    "intarsia.check.verification": "Finding VerifyReport verify",
    "intarsia.embed": "AttachReport Bloom DetachReport IndexedFile IndexReport Note PageIndex RestoreReport "
    "Statistics",
    "intarsia.embed.many": "attach detach",
    "intarsia.file": "Ignored",
    "intarsia.indexes.bloom_granule": "BloomGranule",
    "intarsia.indexes.distinct": "Distinct",
    "intarsia.indexes.histogram": "Histogram",
    "intarsia.indexes.hll": "Hll",
    "intarsia.indexes.ngram": "Ngram",
    "intarsia.indexes.rowmap": "RowMap",
    "intarsia.indexes.sample": "Sample",
    "intarsia.indexes.zonemap": "ZoneMap",
    "intarsia.lake.data_file": "DataFile FileSource",
    "intarsia.lake.opening": "open",
    "intarsia.lake.prepared": "PreparedQuery",
    "intarsia.lake.scan": "Scan",
    "intarsia.lake.split": "Split",
    "intarsia.lake.table": "Table",
    "intarsia.predicate": "And Call Comparison Constant In IsNull Like Not Or Predicate RegexpLike contains "
    "ends_with starts_with",
    "intarsia.read.aggregate": "Aggregate",
    "intarsia.read.approximate": "ApproximateCount",
    "intarsia.read.counts": "PageCounts PrunedBy",
    "intarsia.read.finished_query": "FinishedQuery",
    "intarsia.read.report": "ScanReport",
    "intarsia.write": "Writer WriteReport write_table",
}
_MODULES = {name: module for module, names in _LOADED_WHEN_USED.items() for name in names.split()}


def __getattr__(name: str) -> object:
    if name not in _MODULES:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    value: object = getattr(import_module(_MODULES[name]), name)
    globals()[name] = value
    return value


def __dir__() -> list[str]:
    # without the names that this module imports for itself
    return sorted({*(name for name in globals() if name.startswith("__")), *__all__})
