"""The first rows of a table in an order.

The files that can contain them are searched in batches, the best first by the bounds in a lake index or in
the log of a table format, or by partition values. The files of a batch with the same columns are searched as
one. As soon as enough rows have been found, the worst of them excludes other files. The other columns are
read only in the rows of the result.
"""

from __future__ import annotations

import contextlib
from collections import Counter
from collections.abc import Sequence
from dataclasses import replace
from functools import partial
from typing import NamedTuple

import numpy as np
import pyarrow as pa

from intarsia.arrow.owned_rows import no_rows, take_rows, take_values
from intarsia.errors import (
    FormatError,
    IntarsiaError,
    ObjectStoreError,
    PredicateError,
    ReplacedWhileReadError,
)
from intarsia.file import ParquetInput
from intarsia.file.joined import JoinedInput
from intarsia.lake.axes import AxisPlan
from intarsia.lake.binding import TableBinder
from intarsia.lake.index.of_table import FamilyFiles
from intarsia.lake.planner import Planner
from intarsia.lake.snapshot import Snapshot
from intarsia.lake.split import file_identity
from intarsia.lake.table_files import TableFiles
from intarsia.predicate import Bound, Predicate
from intarsia.read.counts import ReadCounts
from intarsia.read.file_plan import FilePlan, plan_file, with_current_plan
from intarsia.read.file_query import FileQuery
from intarsia.read.file_rows import FileOutcome, read_known_rows
from intarsia.read.first_rows import AxisSearch
from intarsia.read.output_columns import OutputColumn, concat_rows
from intarsia.read.report import ScanReport
from intarsia.read.sort_key import Ranks, SortKey, TopRows
from intarsia.rows.bounds import Bools
from intarsia.rows.selection import Rows, RowSelection
from intarsia.storage import reading_indexes
from intarsia.tuning import AXIS_FILES


class _Ranked(NamedTuple):
    """Files that can be ordered before their footers are read."""

    ranks: Ranks
    files: Rows
    num_rows: Rows


class FirstRows:
    """A search for the rows of a table that come first in an order.

    Args:
        where: The rows to search; None for all.
        limit: The maximum number of rows.
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
        snapshot: Snapshot,
    ) -> None:
        self._table = table
        self._columns = list(columns)
        self._schema = schema
        self._key = key
        self._top = TopRows(key, limit)
        self._report = report
        self._snapshot = snapshot
        known = {column.path for column in columns}
        searched = [*columns, *(column for column in key.columns if column.path not in known)]
        self._binder = TableBinder(table, where, searched)
        self._planner = Planner(table, self._binder, report, snapshot)
        self._searches: list[AxisSearch] = []  # single files are closed
        self._groups = Counter[str]()

    def rows(self) -> pa.Table:
        """Return the rows in order."""
        if self._top.limit:
            self._search_all()
        return self._winners()

    def _search_all(self) -> None:
        table, report, snapshot = self._table, self._report, self._snapshot
        pending = np.zeros(len(table.files), dtype=bool)
        pending[self._planner.survivors()] = True
        known = snapshot.known
        is_ranked = np.zeros_like(pending) if known is None else known.is_known.copy()
        members = [] if known is None else list(known.families)
        ranked = [_Ranked(self._ranks(one), one.files, one.family.num_rows[one.within]) for one in members]
        without_index = self._ranks_without_index(np.flatnonzero(~is_ranked))
        if without_index is not None:
            ranked.append(without_index)
            is_ranked[:] = True
        threshold: Predicate | None = None
        num_searched = 0
        while pending.any():
            # each batch has as many files as all before it: single files take five times as long
            batch = self._best(ranked, pending & is_ranked, num_searched)
            # the others have no bounds before their footers are read
            batch = batch or np.flatnonzero(pending & ~is_ranked)[:AXIS_FILES].tolist()
            pending[batch] = False
            num_searched += len(batch)
            self._search(batch)
            if (pending & ~is_ranked).any() and not self._top.num_missing:
                rest = np.flatnonzero(pending & ~is_ranked)[:AXIS_FILES].tolist()
                pending[rest] = False
                self._search(rest)
            condition = self._top.condition
            if condition is not None and condition != threshold and (pending & is_ranked).any():
                threshold = condition
                binder, among = self._binder_of(condition), pending & is_ranked
                left = Planner(table, binder, report, snapshot).survivors(among=among)
                pending &= ~is_ranked
                pending[left] = True
        table.cache.drop_tails()

    def _binder_of(self, condition: Predicate) -> TableBinder:
        return TableBinder(self._table, condition, self._binder.queried)

    # --- the order of files ------------------------------------------------------------------------

    def _best(self, ranked: Sequence[_Ranked], among: Bools, least: int) -> list[int]:
        """Return the best files by what is known without their footers; see `SortKey.next_granules`.

        Args:
            ranked: The files that have ranks.
            among: The files that may be returned.
            least: The minimum number of files, if there are as many.
        """
        found: list[int] = []
        if ranked and among.any():
            files = np.concatenate([one.files for one in ranked])
            counts = np.concatenate([np.where(among[one.files], one.num_rows, 0) for one in ranked])
            missing = max(self._top.num_missing, 1)
            mean_rows = int(counts.sum()) // max(1, int(np.count_nonzero(counts)))
            parts = [one.ranks for one in ranked]
            best = self._key.next_granules(parts, counts, missing, max(missing, least * mean_rows))
            found = files[best][:AXIS_FILES].tolist()
        # all others are files without rows
        return found or np.flatnonzero(among)[:AXIS_FILES].tolist()

    def _ranks_without_index(self, files: Rows) -> _Ranked | None:
        """Return the ranks of files that no lake index has; None without partition values and a log."""
        path, log = self._key.column.path, self._table.log_statistics
        partitions = self._table.partition_columns
        num_rows = np.ones(len(files), dtype=np.int64) if log is None else np.maximum(log.num_rows[files], 1)
        if path in partitions.values and path not in partitions.is_known:
            values = take_values(partitions.values[path], files)
            return _Ranked(self._key.ranks_of_values(values), files, num_rows)
        bounds = None if log is None else log.bounds_of(path, self._key.type)
        return None if bounds is None else _Ranked(self._key.ranks(bounds).take(files), files, num_rows)

    def _ranks(self, one: FamilyFiles) -> Ranks:
        unknown = self._key.unknown_ranks(len(one.files))
        schema, first = one.family.schema, self._table.files[int(one.files[0])].path
        with contextlib.suppress(FormatError, PredicateError):  # searching the files raises it
            _, constants = self._binder.bind_family(schema, first, one.files)
            names = self._table.names_in(schema, first)
            path = self._key.column.path if names is None else names.path(self._key.column.path)
            if path in constants:
                return self._key.ranks_of_values(constants[path])
            try:
                with reading_indexes():
                    found = one.family.bounds(path)
            except (ObjectStoreError, TimeoutError):
                raise
            except OSError:  # the segment was damaged after it was opened; the bounds only order the files
                return unknown
            if found is not None:
                return self._key.ranks(found.bounds).take(one.within)
        return unknown

    # --- the search --------------------------------------------------------------------------------

    def _search(self, files: Sequence[int]) -> None:
        """Search files; those with the same columns as one, unless one of them is damaged or was replaced."""
        files = sorted(files)
        left = set(files)
        if len(files) > 1:
            for axis in self._planner.axes(files, reads=False, makes_requests=True):
                left.difference_update(axis.ordinals[~axis.is_left].tolist())
                if axis.is_left.any() and self._search_axis(axis):
                    left.difference_update(axis.ordinals.tolist())
        for file in sorted(left):
            self._search_file(file)

    def _search_axis(self, axis: AxisPlan) -> bool:
        """Search files as one; return False if they have to be searched one by one."""
        rows_before = self._top.rows
        entries = [self._table.files[ordinal] for ordinal in axis.ordinals[axis.is_left].tolist()]
        query, plan = axis.of_files(axis.is_left, entries)
        search = AxisSearch(query, plan, axis.ordinals, self._groups)
        try:
            search.search(self._key, self._top, partial(self._bind, axis.ordinals, query))
        except (ObjectStoreError, TimeoutError):
            raise
        except (IntarsiaError, OSError):  # its error names the file
            self._top.restore(rows_before)
            return False
        self._report.add_file(query, self._outcome(search), axis.is_left)
        self._searches.append(search)
        return True

    def _search_file(self, file: int) -> None:
        entry = self._table.files[file]
        with self._snapshot.open(entry) as opened:
            ordinals = np.array([file])
            with opened.named_errors():
                query = self._binder.query(entry, opened)
                search = AxisSearch(query, plan_file(query, reads=False), ordinals, self._groups)
                search.search(self._key, self._top, partial(self._bind, ordinals, query))
            self._report.add_file(query, self._outcome(search))
            self._searches.append(search)
            self._snapshot.remember(entry, opened)

    def _bind(self, ordinals: np.ndarray, query: FileQuery, condition: Predicate) -> Bound | None:
        path = self._table.files[int(ordinals[0])].path
        return self._binder_of(condition).bind_family(query.file.schema, path, ordinals)[0]

    def _outcome(self, search: AxisSearch) -> FileOutcome:
        """Return the counts of a search, and the rows that each index and the order excluded."""
        plan = search.plan
        is_counted = isinstance(search.file, JoinedInput)  # when the files were planned
        plan = replace(
            plan, steps=tuple(search.steps(self._key)), index_bytes=0 if is_counted else plan.index_bytes
        )
        return FileOutcome(plan, search.counts, files_read=search.query.num_files_with(search.done))

    # --- the rows ----------------------------------------------------------------------------------

    def _winners(self) -> pa.Table:
        """Read the rows that were found, in order."""
        rows = self._top.rows
        files, numbers = rows["file"].to_numpy(), rows["row"].to_numpy()
        pieces, places = [no_rows(self._schema)], [np.empty(0, dtype=np.int64)]
        for search in self._searches:
            mine = np.flatnonzero(np.isin(files, search.ordinals))
            if len(mine):
                position = np.searchsorted(search.ordinals, files[mine])
                wanted = search.edges[position] + numbers[mine]
                order = np.argsort(wanted)
                pieces.append(self._rows_of(search, RowSelection.from_rows(wanted[order])))
                places.append(mine[order])
        result = concat_rows(pieces)
        return take_rows(result, np.argsort(np.concatenate(places))) if self._columns else result

    def _rows_of(self, search: AxisSearch, wanted: RowSelection) -> pa.Table:
        """Read the columns of the result in some rows."""
        if isinstance(search.file, JoinedInput):
            return self._read(search, search.file, wanted)
        entry = self._table.files[int(search.ordinals[0])]
        with self._snapshot.open(entry) as opened:
            now, then = opened.source.identity, search.file.source.identity
            is_same = now == then
            if now is None or then is None:  # as of a file that was just written
                is_same = file_identity(opened) == file_identity(search.file)
            if not is_same:
                raise ReplacedWhileReadError(
                    "the file was replaced while it was read; scan again",
                    reason="file-replaced",
                    path=entry.path,
                )
            return self._read(search, opened, wanted)

    def _read(self, search: AxisSearch, file: ParquetInput, wanted: RowSelection) -> pa.Table:
        query = replace(search.query, file=file, predicate=None).for_columns(self._columns)
        before = query.page_states()

        def read(plan: FilePlan) -> tuple[list[pa.Table], ReadCounts]:
            pieces = list(read_known_rows(query, plan, wanted))
            found = [query.result(piece.rows, piece.numbers, self._columns, self._schema) for piece in pieces]
            return found, sum((piece.counts for piece in pieces), ReadCounts())

        found, counts = with_current_plan(query, plan_file(query), read)
        self._report.add_further_reads(query, counts, before)
        return concat_rows([no_rows(self._schema), *found])
