"""The first rows of a table in an order: only files that can contain them are read."""

from __future__ import annotations

import contextlib
from collections.abc import Hashable, Sequence
from dataclasses import replace
from functools import partial
from typing import NamedTuple

import numpy as np
import pyarrow as pa

from intarsia.errors import ReplacedWhileReadError
from intarsia.file import ParquetInput
from intarsia.lake.binding import TableBinder
from intarsia.lake.data_file import DataFile
from intarsia.lake.joined_files import exclude_joined
from intarsia.lake.planning import OpenPlan, plan_files
from intarsia.lake.split import file_identity
from intarsia.lake.survivors import find_survivors
from intarsia.lake.table_files import TableFiles
from intarsia.lake.top_candidates import TopCandidates
from intarsia.predicate import And, Predicate
from intarsia.read.ahead import ahead
from intarsia.read.counts import ReadCounts
from intarsia.read.file_plan import current_plan, plan_file
from intarsia.read.file_query import FileQuery
from intarsia.read.file_rows import read_known_rows
from intarsia.read.output_columns import OutputColumn, concat_rows, with_constants
from intarsia.read.report import FileOutcome, ScanReport
from intarsia.read.retry import retry_without_wrong_index
from intarsia.read.sort_key import SortKey, TopRows
from intarsia.read.top_rows import search_file, values_of
from intarsia.rows.selection import RowSelection

#: Rows that were found are sorted when there are more than this many.
_MAX_FOUND_ROWS = 1 << 18

#: The number of files to search first, if bounds prove that other files cannot contain the rows.
_FIRST_FILES = 8


class _Identity(NamedTuple):
    """The identity of a file when it was searched.

    Attributes:
        source: The identity of its source; None if unknown, as for a file that was just written.
        content: Its length and a hash of its footer.
    """

    source: Hashable | None
    content: str

    def is_of(self, file: ParquetInput) -> bool:
        """Return whether an open file is the same."""
        now = file.source.identity
        if self.source is not None and now is not None:
            return now == self.source
        return file_identity(file) == self.content


class _OneColumn:
    """A query that reads only one column.

    Args:
        binder: The query.
        column: The column.
    """

    def __init__(self, binder: TableBinder, column: OutputColumn) -> None:
        self._binder = binder
        self._column = column

    def query(self, entry: DataFile, file: ParquetInput) -> FileQuery:
        """See `intarsia.lake.planning.Binder`."""
        return self._binder.query(entry, file).for_columns([self._column])


class _FoundRows:
    """Rows that were found in several files, to be sorted together.

    Args:
        top: The rows that come first so far.
    """

    def __init__(self, top: TopRows) -> None:
        self._top = top
        self._values: list[pa.Array] = []
        self._files: list[np.ndarray] = []
        self._numbers: list[np.ndarray] = []
        self._num_rows = 0

    def add(self, values: pa.ChunkedArray, file: int, numbers: np.ndarray) -> None:
        """Add rows of a file."""
        self._values += values.chunks
        self._files.append(np.full(len(numbers), file))
        self._numbers.append(numbers)
        self._num_rows += len(numbers)
        if self._num_rows > _MAX_FOUND_ROWS:
            self.take()

    def take(self) -> None:
        """Sort the rows."""
        if self._num_rows:
            values = pa.chunked_array(self._values)
            self._top.add(values, np.concatenate(self._files), np.concatenate(self._numbers))
        self._values, self._files, self._numbers, self._num_rows = [], [], [], 0


class TopScan:
    """A search for the rows of a table that come first in an order.

    Args:
        table: The table.
        where: The rows to search; None for all.
        columns: The columns of the result.
        schema: The schema of the result.
        key: The order.
        limit: The maximum number of rows.
        report: The report of the scan.
    """

    def __init__(
        self,
        table: TableFiles,
        where: Predicate | None,
        columns: Sequence[OutputColumn],
        schema: pa.Schema,
        key: SortKey,
        limit: int,
        report: ScanReport,
    ) -> None:
        self._table = table
        self._where = where
        self._columns = list(columns)
        self._schema = schema
        self._key = key
        self._top = TopRows(key, limit)
        self._report = report
        known = {column.path for column in columns}
        self._searched = [*columns, *([] if key.column.path in known else [key.column])]
        self._identities: dict[int, _Identity] = {}

    def rows(self, *, is_current: bool) -> pa.Table:
        """Return the rows in order.

        Args:
            is_current: The table's metadata was read in the same run.
        """
        if self._top.limit:
            self._search_all(is_current=is_current, uses_floor=True)
            if self._top.has_wrong_floor:  # bounds that are not values, although the files claim it
                self._top = TopRows(self._key, self._top.limit)
                self._search_all(is_current=is_current, uses_floor=False)
        return self._winners()

    def _search_all(self, *, is_current: bool, uses_floor: bool) -> None:
        table, report = self._table, self._report
        binder = self._binder(None)
        # with a lake index, footers of few files are needed
        has_index = table.known_files(is_current=is_current) is not None
        joins = None if self._where is None or has_index else binder
        found = find_survivors(table, binder, report, is_current=is_current, joins=joins, reads=False).files
        candidates = TopCandidates(table, self._key, self._searched, report, found, is_current=is_current)
        num_files = 1
        condition: Predicate | None = None
        if self._where is None and uses_floor:
            floor = candidates.floor(self._top.limit)
            if floor is not None:
                self._top = TopRows(self._key, self._top.limit, floor)
                condition = self._key.at_least(floor)
                candidates.exclude(condition)
                num_files = min(self._top.limit, _FIRST_FILES)
        while files := candidates.take(num_files):
            current = is_current or candidates.has_read(files)
            if len(files) > 1 and (self._where is not None or condition is not None):
                self._search_together(files, is_current=current)
            else:
                for file in files:
                    self._search(file, is_current=current)
            if self._top.condition is not None and self._top.condition != condition:
                condition = self._top.condition
                candidates.exclude(condition)
            num_files *= 2

    def _binder(self, condition: Predicate | None) -> TableBinder:
        """Bind the query for the rows that match another condition, too."""
        where = [one for one in (self._where, condition) if one is not None]
        return TableBinder(
            self._table, And(tuple(where)) if len(where) > 1 else next(iter(where), None), self._searched
        )

    # --- the search --------------------------------------------------------------------------------

    def _search(self, file: int, *, is_current: bool) -> None:
        entry = self._table.files[file]
        with self._table.open_file(entry, is_current=is_current) as opened:
            self._search_open(file, opened)

    def _search_open(self, file: int, opened: ParquetInput) -> None:
        entry = self._table.files[file]

        def query_for(condition: Predicate | None) -> FileQuery:
            with opened.named_errors():
                return self._binder(condition).query(entry, opened)

        query, outcome = search_file(query_for, file, self._key, self._top)
        self._report.add_file(query, outcome)
        self._identities[file] = _Identity(opened.source.identity, file_identity(opened))
        self._table.remember(entry, opened)

    def _search_together(self, files: Sequence[int], *, is_current: bool) -> None:
        """Search files with a query that has a condition; the small ones are planned and read together."""
        table, binder = self._table, self._binder(self._top.condition)
        ordinals = {table.files[file].path: file for file in files}
        left, known = exclude_joined(table, binder, self._report, files, reads=True, is_current=is_current)
        planned = plan_files(
            [table.files[file] for file in left],
            _OneColumn(binder, self._key.column),
            partial(table.open_file, is_current=is_current),
            min(table.files_at_once, max(len(left), 1)),
            reads_all=True,
            known=known,
            joined=table.joined,
        )
        found = _FoundRows(self._top)
        with contextlib.closing(planned):
            for entry, future in planned:
                plan = future.result()
                with contextlib.closing(plan.query), plan.query.file.named_errors():
                    if plan.pieces is None:
                        found.take()
                        self._search_open(ordinals[entry.path], plan.query.file)
                    else:
                        self._add_rows(ordinals[entry.path], plan, found)
        found.take()

    def _add_rows(self, file: int, plan: OpenPlan, found: _FoundRows) -> None:
        query, counts = plan.query, ReadCounts()
        for piece in plan.pieces or ():
            counts += replace(piece.counts, rows_matched=0)
            if piece.rows.num_rows:
                found.add(values_of(query, self._key, piece), file, piece.numbers.rows())
                self._identities[file] = _Identity(query.file.source.identity, file_identity(query.file))
        self._report.add_file(query.for_columns(self._searched), FileOutcome(plan.plan, counts))
        self._table.remember(self._table.files[file], query.file)

    # --- the rows ----------------------------------------------------------------------------------

    def _winners(self) -> pa.Table:
        """Read the rows that were found, in order."""
        rows = self._top.rows
        files, numbers = rows["file"].to_numpy(), rows["row"].to_numpy()
        nothing = pa.Table.from_batches([], self._schema)
        binder = TableBinder(self._table, None, self._columns)
        wanted = np.unique(files).tolist()
        read = ahead(
            lambda file: self._rows_of(file, numbers[files == file], binder),
            wanted,
            min(self._table.files_at_once, max(len(wanted), 1)),
        )
        pieces = []
        with contextlib.closing(read):
            for _, future in read:
                query, counts, found = future.result()
                self._report.add_further_reads(query, counts)
                pieces.append(found)
        result = concat_rows([nothing, *pieces])
        if not self._columns:
            return result
        position = np.empty(len(files), dtype=np.int64)
        position[np.lexsort((numbers, files))] = np.arange(len(files))
        return result.take(pa.array(position))

    def _rows_of(
        self, file: int, numbers: np.ndarray, binder: TableBinder
    ) -> tuple[FileQuery, ReadCounts, pa.Table]:
        """Read some rows of a file, and return its query, which is closed, too."""
        entry = self._table.files[file]
        wanted = RowSelection.from_rows(np.sort(numbers))
        with self._table.open_file(entry, is_current=True) as opened:
            if not self._identities[file].is_of(opened):
                raise ReplacedWhileReadError(
                    f"{entry.path}: the file was replaced while it was read; scan again",
                    reason="file-replaced",
                    path=entry.path,
                )
            query = binder.query(entry, opened)
            plan = plan_file(query)
            pieces = retry_without_wrong_index(
                opened, lambda: list(read_known_rows(query, current_plan(query, plan), wanted))
            )
            rows = concat_rows([piece.rows for piece in pieces])
            counts = sum((piece.counts for piece in pieces), ReadCounts())
            columns = [query.own(column) for column in self._columns]
            return query, counts, with_constants(rows, query.columns, query.constants, columns, self._schema)
