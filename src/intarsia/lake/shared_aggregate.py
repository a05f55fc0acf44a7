"""A table whose files are read by other processes, one file at a time, and aggregates of it."""

from __future__ import annotations

import time
from collections.abc import Mapping, Sequence
from dataclasses import field

import pyarrow as pa

from intarsia.lake.binding import TableBinder
from intarsia.lake.planner import Planner
from intarsia.lake.query_run import OnError
from intarsia.lake.scan import Scan
from intarsia.lake.table import Table
from intarsia.predicate import Predicate, Where, parse_predicate
from intarsia.read.aggregate import ROWS, Aggregate
from intarsia.read.output_columns import output_columns
from intarsia.read.report import ScanReport, warn_of_failed, warn_of_ignored
from intarsia.read.totals import Totals
from intarsia.records import dataclass
from intarsia.storage import counting


@dataclass(frozen=True)
class FileShare:
    """The aggregates of one file; it can be pickled.

    Attributes:
        summaries: A row for each question, in the order of the functions.
    """

    summaries: tuple[pa.Table, ...]
    report: ScanReport


@dataclass(frozen=True)
class FilesLeft:
    """The files of a table that might have rows that match; any process can read one of them.

    Attributes:
        ordinals: The ordinal of each of the files, by its path.
        predicate: The rows to select; None for all.
    """

    table: Table = field(repr=False)
    ordinals: Mapping[str, int]
    predicate: Predicate | None

    @classmethod
    def of(cls, table: Table, where: Where) -> FilesLeft:
        """Return the files that partition values, the log of a table format and a lake index leave."""
        predicate = parse_predicate(where, lambda: table.dataset().schema)
        left = Planner(table, TableBinder(table, predicate, []), ScanReport()).survivors()
        return cls(table, {table.files[ordinal].path: ordinal for ordinal in left}, predicate)

    @property
    def sizes(self) -> dict[str, int]:
        """The size of each file in bytes, by its path."""
        return {path: self.table.files[ordinal].size_bytes for path, ordinal in self.ordinals.items()}

    def scan(self, path: str, on_error: OnError = "raise") -> Scan:
        """Return a scan of one of the files."""
        return self.table.part([self.ordinals[path]]).scan(self.predicate, [], on_error=on_error)


@dataclass(frozen=True)
class FileAggregation(FilesLeft):
    """The work on single files.

    Attributes:
        functions: The argument of `intarsia.Table.aggregate`.
    """

    functions: Mapping[str, Sequence[str] | str]
    on_error: OnError

    def run(self, path: str) -> FileShare:
        """Aggregate one file, from its statistics and indexes as far as possible."""
        scan = self.scan(path, self.on_error)
        return FileShare(tuple(scan.totals(self.functions).summaries().values()), scan.report)


class SharedAggregate:
    """An aggregate of the matching rows; a lake index answers a part of it immediately.

    Args:
        functions: The argument of `intarsia.Table.aggregate`.

    Raises:
        ValueError: If a function is unknown, or not defined for the column's type.
        PredicateError: If ``where`` cannot be parsed.
        ColumnNotFoundError: If the table has no such column.
    """

    def __init__(
        self,
        table: Table,
        functions: Mapping[str, Sequence[str] | str],
        where: Where = None,
        on_error: OnError = "raise",
    ) -> None:
        self._started = time.perf_counter()
        self.report = ScanReport(files_total=len(table.files), files_other=len(table.other_files))
        with counting(self.report.reads):
            predicate = parse_predicate(where, lambda: table.dataset().schema)
            columns = output_columns(table.schema, [name for name in functions if name != ROWS])
            self._totals = Totals(functions, columns)
            left = Planner(table, TableBinder(table, predicate, columns), self.report).survivors(self._totals)
        ordinals = {table.files[ordinal].path: ordinal for ordinal in left}
        self.files = FileAggregation(table, ordinals, predicate, functions, on_error)

    def add(self, share: FileShare) -> None:
        """Add the aggregates of a file."""
        self._totals.add_summaries(dict(zip(self._totals.questions, share.summaries, strict=True)))
        self.report.add_report(share.report)

    def result(self) -> Aggregate:
        """Return the values of all files added so far; warns of what was ignored and of files left out."""
        self.report.add_time(self._started)
        warn_of_ignored(self.report.ignored)
        warn_of_failed(self.report.files_failed)
        return Aggregate(self._totals.values(), self.report)
