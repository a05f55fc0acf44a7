"""Small files that are searched together for the rows that come first in an order.

Opening, planning and reading a single file takes at least about a thousand function calls, whatever it
contains. So the files that were planned as one file are read as one file, too: the columns of the predicate
and of the order are decoded for several megabytes of row groups at once, and the rows that match are found by
a few array operations.
"""

from __future__ import annotations

import contextlib
from collections.abc import Callable, Iterator, Sequence
from dataclasses import replace
from functools import partial
from typing import NamedTuple

import numpy as np
import pyarrow as pa

from intarsia.arrow.owned_rows import take_values
from intarsia.errors import IntarsiaError, ObjectStoreError, QueryTimeoutError
from intarsia.file.joined import JoinedInput, JoinedPart
from intarsia.lake.binding import TableBinder
from intarsia.lake.joined_files import PlannedFamily
from intarsia.lake.planning import SMALL_BYTES
from intarsia.lake.table_files import TableFiles
from intarsia.predicate import Bound
from intarsia.read.ahead import ahead
from intarsia.read.counts import ReadCounts
from intarsia.read.estimate import order_conditions
from intarsia.read.file_plan import FilePlan
from intarsia.read.file_query import FileQuery
from intarsia.read.file_rows import RUNS_AT_ONCE, Piece
from intarsia.read.output_columns import OutputColumn
from intarsia.read.pages_read import PagesRead
from intarsia.read.report import ScanReport
from intarsia.read.row_group import RowReader
from intarsia.read.row_group_run import RowGroupRun, RowGroupRuns, RunColumns
from intarsia.read.sort_key import SortKey, TopRows
from intarsia.read.top_rows import values_of
from intarsia.rows.bounds import Bools
from intarsia.rows.selection import RowSelection

#: Rows that were found are sorted when there are more than this many.
_MAX_FOUND_ROWS = 1 << 18


class FoundRows:
    """Rows that were found in several files, to be sorted together.

    Args:
        top: The rows that come first so far; they change when rows are sorted.
    """

    def __init__(self, top: TopRows) -> None:
        self.top = top
        self._values: list[pa.Table] = []
        self._files: list[np.ndarray] = []
        self._numbers: list[np.ndarray] = []
        self._num_rows = 0

    def add(self, values: pa.Table, files: np.ndarray, numbers: np.ndarray) -> None:
        """Add rows.

        Args:
            values: The values of the columns of the order, as `SortKey.values` returns them.
            files: The ordinal of the file of each row.
            numbers: The number of each row in its file.
        """
        self._values.append(values)
        self._files.append(files)
        self._numbers.append(numbers)
        self._num_rows += len(numbers)
        if self._num_rows > _MAX_FOUND_ROWS:
            self.sort()

    def sort(self) -> None:
        """Sort the rows, and keep those that come first."""
        if self._num_rows:
            values = pa.concat_tables(self._values)
            self.top.add(values, np.concatenate(self._files), np.concatenate(self._numbers))
        self._values, self._files, self._numbers, self._num_rows = [], [], [], 0


class SearchedFiles(NamedTuple):
    """Files that were searched together.

    Attributes:
        parts: The files, by ordinal in the table.
        top: The rows that come first in them.
        num_matching: The number of files with rows that match.
        pages_of: Returns the pages of a file that were read, given its ordinal in the table.
    """

    parts: dict[int, JoinedPart]
    top: TopRows
    num_matching: int
    pages_of: Callable[[int], PagesRead]


class FamilySearch:
    """A search in files that were planned together.

    Args:
        table: The table.
        family: The files, which are local.
        binder: The query by which they were planned.
        key: The order.
        has_digests: Whether a lake index has excluded files by digests of the embedded indexes, for each file
            of the table.
        starts_with_key: Whether the column of the order is read before those of other conditions.
    """

    def __init__(
        self,
        table: TableFiles,
        family: PlannedFamily,
        binder: TableBinder,
        key: SortKey,
        has_digests: Bools,
        *,
        starts_with_key: bool,
    ) -> None:
        self._table = table
        self._family = family
        self._binder = binder
        self._key = key
        self._has_digests = has_digests
        self._starts_with_key = starts_with_key

    def searched(
        self, columns: Sequence[OutputColumn], limit: int, report: ScanReport
    ) -> Iterator[SearchedFiles]:
        """Search the files that can be read together, and add them to a report.

        Args:
            columns: The columns of the scan, for the report.
            limit: The maximum number of rows.
            report: The report.

        Yields:
            Files that were searched. The others are searched separately, also those that are damaged or were
            replaced, so that errors name the file.
        """
        parts = list(self._family.parts.items())
        for members in self._same_constants():
            file, found = JoinedInput(self._family.joined), FoundRows(TopRows(self._key, limit))
            try:
                query, counts, matching = self._search(file, members, found)
            except (ObjectStoreError, QueryTimeoutError):
                raise
            except (IntarsiaError, OSError):
                continue
            report.add_searched_together(
                query.for_columns(columns), self._family.joined, self._family.known, members, counts
            )
            pages_of = partial(self._pages_of, query.pages)
            yield SearchedFiles(dict(parts[one] for one in members.tolist()), found.top, matching, pages_of)

    def _pages_of(self, read: PagesRead, file: int) -> PagesRead:
        position = int(np.flatnonzero(self._family.ordinals == file)[0])
        start, stop = self._family.joined.group_edges[position : position + 2].tolist()
        pages = PagesRead()
        pages.add_of_groups(read, start, stop)
        return pages

    def _search(
        self, file: JoinedInput, members: np.ndarray, found: FoundRows
    ) -> tuple[FileQuery, ReadCounts, int]:
        """Search files with the same constants.

        Args:
            file: The joined file.
            members: The files, by position in the family.
            found: The rows are added to it.

        Returns:
            The query, the counts, and the number of files with rows that match.
        """
        family, edges = self._family, self._family.joined.row_edges
        entry = self._table.files[int(family.ordinals[members[0]])]
        query = self._binder.query(replace(entry, deletes=None), file).for_columns(self._key.columns)
        rows = family.plan.candidates & RowSelection.union_of(edges[members], edges[members + 1])
        plan = replace(family.plan, candidates=rows, stages=tuple(self._stages(query)))
        counts, matching = ReadCounts(), np.zeros(len(family.ordinals), dtype=bool)
        runs = RowGroupRuns(query, plan, rows)
        at_once = min(RUNS_AT_ONCE, len(runs.groups))
        with contextlib.closing(ahead(lambda run: _read_run(query, plan, run), runs, at_once)) as pieces:
            for _, future in pieces:
                piece = future.result()
                counts += replace(piece.counts, rows_matched=0)
                numbers = piece.numbers.rows()
                positions = np.searchsorted(edges, numbers, side="right") - 1
                matching[positions] = True
                values = values_of(query, self._key, piece)
                found.add(values, family.ordinals[positions], numbers - edges[positions])
        found.sort()
        return query, counts, int(matching.sum())

    def _stages(self, query: FileQuery) -> list[Bound]:
        """Return the predicate, divided into the condition on the column of the order and the others."""
        key = query.own(self._key.column).path

        def share(condition: Bound) -> float | None:
            return 0.0 if (condition.paths() == {key}) == self._starts_with_key else None

        return order_conditions(self._family.predicate, share, query.column_bytes)

    def _same_constants(self) -> list[np.ndarray]:
        """Return the positions of the files that can be read together, at least two each.

        The query of a joined file has one value for each constant column.
        """
        family = self._family
        members = np.flatnonzero(self._can_be_read())
        own = (family.query.own(column) for column in self._key.columns)
        used = {*family.predicate.paths(), *(column.path for column in own)}
        constants = [values for path, values in family.constants.items() if path in used]
        groups: dict[tuple[object, ...], list[int]] = {}
        if constants:
            columns = [take_values(values, members).to_pylist() for values in constants]
            for member, values in zip(members.tolist(), zip(*columns, strict=True), strict=True):
                groups.setdefault(values, []).append(member)
        else:
            groups[()] = members.tolist()
        return [np.array(group) for group in groups.values() if len(group) > 1]

    def _can_be_read(self) -> Bools:
        """Return whether each file is small, and needs only whole row groups of one page."""
        family, joined = self._family, self._family.joined
        query = family.query.for_columns(self._key.columns)
        first_groups = joined.group_edges[:-1]
        has_digests = self._has_digests[family.ordinals] & (np.diff(joined.group_edges) == 1)
        found = family.is_left & family.is_whole & ~self._table.has_deletes[family.ordinals]
        found &= ~family.has_indexes(found & ~has_digests)
        if joined.is_remote or not query.leaves or not found.any():
            return np.zeros_like(found)
        runs = RowGroupRuns(query, family.plan, family.plan.candidates)
        can_be_joined = np.ones(query.num_row_groups, dtype=bool)
        can_be_joined[runs.groups] = runs.can_be_joined
        try:
            num_bytes = query.estimated_bytes_by_group(family.plan.candidates)
        except IntarsiaError:  # reading the files separately raises it
            return np.zeros_like(found)
        is_small = np.add.reduceat(num_bytes, first_groups) <= SMALL_BYTES
        return np.asarray(found & is_small & np.logical_and.reduceat(can_be_joined, first_groups))


def _read_run(query: FileQuery, plan: FilePlan, run: RowGroupRun) -> Piece:
    """Read the matching rows of a run; errors do not name the file."""
    columns = RunColumns(query, run.groups, plan.dictionary_pages)
    stages = () if run.is_proven else plan.stages
    rows, counts, found = RowReader(query, columns).read([RowSelection.all(columns.num_rows)], stages)
    return Piece(rows, counts, columns.row_numbers(found))
