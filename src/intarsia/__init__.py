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

from intarsia import errors as errors  # for `except intarsia.errors.FormatError` before anything is used

if TYPE_CHECKING:
    from intarsia.advice import advise as advise
    from intarsia.advice.report import Advice as Advice
    from intarsia.check.inspection import inspect as inspect
    from intarsia.check.report import FileInspection as FileInspection
    from intarsia.check.verification import Finding as Finding
    from intarsia.check.verification import VerifyReport as VerifyReport
    from intarsia.check.verification import verify as verify
    from intarsia.embed import AttachReport as AttachReport
    from intarsia.embed import Bloom as Bloom
    from intarsia.embed import DetachReport as DetachReport
    from intarsia.embed import IndexedFile as IndexedFile
    from intarsia.embed import IndexReport as IndexReport
    from intarsia.embed import Note as Note
    from intarsia.embed import PageIndex as PageIndex
    from intarsia.embed import RestoreReport as RestoreReport
    from intarsia.embed import Statistics as Statistics
    from intarsia.embed.many import attach as attach
    from intarsia.embed.many import detach as detach
    from intarsia.errors import ChangedMeanwhileError as ChangedMeanwhileError
    from intarsia.errors import ColumnNotFoundError as ColumnNotFoundError
    from intarsia.errors import CorruptFileError as CorruptFileError
    from intarsia.errors import FilesFailedError as FilesFailedError
    from intarsia.errors import FormatError as FormatError
    from intarsia.errors import IndexBuildError as IndexBuildError
    from intarsia.errors import IndexPayloadError as IndexPayloadError
    from intarsia.errors import IntarsiaError as IntarsiaError
    from intarsia.errors import IntarsiaWarning as IntarsiaWarning
    from intarsia.errors import ListingError as ListingError
    from intarsia.errors import NewerDirectoryError as NewerDirectoryError
    from intarsia.errors import NotTabularError as NotTabularError
    from intarsia.errors import ObjectStoreError as ObjectStoreError
    from intarsia.errors import PredicateError as PredicateError
    from intarsia.errors import QueryTimeoutError as QueryTimeoutError
    from intarsia.errors import ReplacedWhileReadError as ReplacedWhileReadError
    from intarsia.errors import ReplaceError as ReplaceError
    from intarsia.errors import RunInterrupted as RunInterrupted
    from intarsia.errors import SourceError as SourceError
    from intarsia.errors import UnsupportedFeatureError as UnsupportedFeatureError
    from intarsia.errors import WriteError as WriteError
    from intarsia.file import Ignored as Ignored
    from intarsia.indexes.bloom_granule import BloomGranule as BloomGranule
    from intarsia.indexes.distinct import Distinct as Distinct
    from intarsia.indexes.histogram import Histogram as Histogram
    from intarsia.indexes.hll import Hll as Hll
    from intarsia.indexes.ngram import Ngram as Ngram
    from intarsia.indexes.rowmap import RowMap as RowMap
    from intarsia.indexes.sample import Sample as Sample
    from intarsia.indexes.zonemap import ZoneMap as ZoneMap
    from intarsia.lake.data_file import DataFile as DataFile
    from intarsia.lake.data_file import FileSource as FileSource
    from intarsia.lake.opening import open as open
    from intarsia.lake.scan import Scan as Scan
    from intarsia.lake.snapshot import FinishedQuery as FinishedQuery
    from intarsia.lake.split import Split as Split
    from intarsia.lake.table import PreparedQuery as PreparedQuery
    from intarsia.lake.table import Table as Table
    from intarsia.predicate import And as And
    from intarsia.predicate import Call as Call
    from intarsia.predicate import Comparison as Comparison
    from intarsia.predicate import Constant as Constant
    from intarsia.predicate import In as In
    from intarsia.predicate import IsNull as IsNull
    from intarsia.predicate import Like as Like
    from intarsia.predicate import Not as Not
    from intarsia.predicate import Or as Or
    from intarsia.predicate import Predicate as Predicate
    from intarsia.predicate import RegexpLike as RegexpLike
    from intarsia.predicate import contains as contains
    from intarsia.predicate import ends_with as ends_with
    from intarsia.predicate import starts_with as starts_with
    from intarsia.read.aggregate import Aggregate as Aggregate
    from intarsia.read.approximate import ApproximateCount as ApproximateCount
    from intarsia.read.counts import PageCounts as PageCounts
    from intarsia.read.counts import PrunedBy as PrunedBy
    from intarsia.read.report import ScanReport as ScanReport
    from intarsia.write import Writer as Writer
    from intarsia.write import WriteReport as WriteReport
    from intarsia.write import write_table as write_table

# Imported on first use: `intarsia --help` does not need pyarrow, and few programs write or verify.
_LOADED_WHEN_USED = {
    "intarsia.advice": "advise",
    "intarsia.advice.report": "Advice",
    "intarsia.check.inspection": "inspect",
    "intarsia.check.report": "FileInspection",
    "intarsia.check.verification": "Finding VerifyReport verify",
    "intarsia.embed": "AttachReport Bloom DetachReport IndexedFile IndexReport Note PageIndex RestoreReport "
    "Statistics",
    "intarsia.embed.many": "attach detach",
    "intarsia.errors": "ChangedMeanwhileError ColumnNotFoundError CorruptFileError FilesFailedError "
    "FormatError IndexBuildError IndexPayloadError IntarsiaError IntarsiaWarning ListingError "
    "NewerDirectoryError NotTabularError ObjectStoreError PredicateError QueryTimeoutError ReplaceError "
    "ReplacedWhileReadError RunInterrupted SourceError UnsupportedFeatureError WriteError",
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
    "intarsia.lake.scan": "Scan",
    "intarsia.lake.snapshot": "FinishedQuery",
    "intarsia.lake.split": "Split",
    "intarsia.lake.table": "PreparedQuery Table",
    "intarsia.predicate": "And Call Comparison Constant In IsNull Like Not Or Predicate RegexpLike contains "
    "ends_with starts_with",
    "intarsia.read.aggregate": "Aggregate",
    "intarsia.read.approximate": "ApproximateCount",
    "intarsia.read.counts": "PageCounts PrunedBy",
    "intarsia.read.report": "ScanReport",
    "intarsia.write": "Writer WriteReport write_table",
}
_MODULES = {name: module for module, names in _LOADED_WHEN_USED.items() for name in names.split()}

__all__ = list(_MODULES)


def __getattr__(name: str) -> object:
    if name not in _MODULES:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    value: object = getattr(import_module(_MODULES[name]), name)
    globals()[name] = value
    return value


def __dir__() -> list[str]:
    # without the names that this module imports for itself
    return sorted({*(name for name in globals() if name.startswith("__")), *__all__})
