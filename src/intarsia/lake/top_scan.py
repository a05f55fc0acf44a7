"""The first rows of a table in an order: only files that can contain them are read."""

from __future__ import annotations

import contextlib
from collections.abc import Callable, Hashable, Sequence
from functools import partial
from typing import NamedTuple

import numpy as np
import pyarrow as pa

from intarsia.errors import ReplacedWhileReadError
from intarsia.file import ParquetInput
from intarsia.file.schema import FileSchema
from intarsia.lake.binding import TableBinder
from intarsia.lake.data_file import DataFile
from intarsia.lake.split import file_identity
from intarsia.lake.survivors import find_survivors
from intarsia.lake.table_files import TableFiles
from intarsia.predicate import And, Path, Predicate
from intarsia.read.ahead import ahead
from intarsia.read.counts import ReadCounts
from intarsia.read.file_plan import current_plan, plan_file
from intarsia.read.file_query import FileQuery
from intarsia.read.file_rows import read_known_rows
from intarsia.read.output_columns import OutputColumn, concat_rows, with_constants
from intarsia.read.report import ScanReport
from intarsia.read.retry import retry_without_wrong_index
from intarsia.read.sort_key import Rank, SortKey, TopRows
from intarsia.read.top_rows import file_rank, search_file
from intarsia.rows.selection import RowSelection

_UNKNOWN: Rank = (0, "", 0)


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
        self._opened: set[int] = set()

    def rows(self, *, is_current: bool) -> pa.Table:
        """Return the rows in order.

        Args:
            is_current: The table's metadata was read in the same run.
        """
        table, report = self._table, self._report
        binder = self._binder(None)
        found = find_survivors(table, binder, report, is_current=is_current).files
        pending = np.zeros(len(table.files), dtype=bool)
        pending[list(found)] = True
        num_searched, next_check = 0, 1
        for file in self._best_first(list(found), is_current=is_current):
            if not pending[file]:
                continue
            self._search(file, is_current=is_current or file in self._opened)
            pending[file] = False
            num_searched += 1
            if num_searched == next_check and pending.any() and self._top.threshold is not None:
                binder = self._binder(self._top.threshold)
                left = find_survivors(table, binder, report, is_current=True, among=pending).files
                pending[:] = False
                pending[list(left)] = True
                next_check *= 2
            elif num_searched == next_check:
                next_check += 1
        return self._winners()

    def _binder(self, threshold: pa.Scalar | None) -> TableBinder:
        """Bind the query for the rows that precede a value."""
        where = self._where
        if threshold is not None:
            better = self._key.better_than(threshold)
            where = better if where is None else And((where, better))
        return TableBinder(self._table, where, self._searched)

    def _search(self, file: int, *, is_current: bool) -> None:
        entry = self._table.files[file]
        with self._table.open_file(entry, is_current=is_current) as opened:

            def query_for(threshold: pa.Scalar | None) -> FileQuery:
                with opened.named_errors():
                    return self._binder(threshold).query(entry, opened)

            query, outcome = search_file(query_for, file, self._key, self._top)
            self._report.add_file(query, outcome)
            self._identities[file] = _Identity(opened.source.identity, file_identity(opened))
            self._table.remember(entry, opened)

    # --- the order of the files --------------------------------------------------------------------

    def _best_first(self, files: list[int], *, is_current: bool) -> list[int]:
        """Return files in the order in which they are searched, the one with the best bound first."""
        if len(files) < 2:
            return files
        ranks = self._known_ranks()
        entries = {file: self._table.files[file] for file in files if file not in ranks}
        paths = {entry.path: file for file, entry in entries.items()}
        open_file: Callable[[DataFile], ParquetInput] = partial(self._table.open_file, is_current=is_current)
        opened = ahead(open_file, entries.values(), self._table.files_at_once, ParquetInput.close)
        with contextlib.closing(opened):
            for entry, future in opened:
                with future.result() as file, file.named_errors():
                    ordinal = paths[entry.path]
                    ranks[ordinal] = (
                        file_rank(file, self._path_in(file.schema, file.path), self._key) or _UNKNOWN
                    )
                    self._opened.add(ordinal)
                    self._report.add_reads(file.source.counts)
        return [files[place] for place in self._key.best_first([ranks[file] for file in files])]

    def _known_ranks(self) -> dict[int, Rank]:
        """Return the ranks of the files whose bounds a lake index contains, or that have one value."""
        ranks: dict[int, Rank] = {}
        path = self._key.column.path
        if path in self._table.partition_values and self._table.partition_columns.replaces_columns:
            values = self._table.partition_values[path].to_pylist()
            return {
                file: _UNKNOWN if value is None else (1, type(value).__name__, value)
                for file, value in enumerate(values)
            }
        known = self._table.known_files(is_current=True)
        for files in known.families() if known is not None else ():
            first = self._table.files[int(files.files[0])].path
            found = files.family.bounds(self._path_in(files.family.schema, first))
            if found is not None:
                of_family = self._key.ranks(found.bounds)
                ranks |= {
                    file: of_family[place]
                    for file, place in zip(files.files.tolist(), files.within.tolist(), strict=True)
                }
        return ranks

    def _path_in(self, schema: FileSchema, path: str) -> Path:
        """Return the path of the key in files with a schema; ``path`` is one of them."""
        names = self._table.names_in(schema, path)
        return self._key.column.path if names is None else names.path(self._key.column.path)

    # --- the rows ----------------------------------------------------------------------------------

    def _winners(self) -> pa.Table:
        """Read the rows that were found, in order."""
        rows = self._top.rows
        files, numbers = rows["file"].to_numpy(), rows["row"].to_numpy()
        nothing = pa.Table.from_batches([], self._schema)
        binder = TableBinder(self._table, None, self._columns)
        pieces = [self._rows_of(file, numbers[files == file], binder) for file in np.unique(files).tolist()]
        result = concat_rows([nothing, *pieces])
        if not self._columns:
            return result
        place = np.empty(len(files), dtype=np.int64)
        place[np.lexsort((numbers, files))] = np.arange(len(files))
        return result.take(pa.array(place))

    def _rows_of(self, file: int, numbers: np.ndarray, binder: TableBinder) -> pa.Table:
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
            self._report.add_further_reads(query, counts)
            columns = [query.own(column) for column in self._columns]
            return with_constants(rows, query.columns, query.constants, columns, self._schema)
