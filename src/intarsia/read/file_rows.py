"""Reading the rows of a plan: the predicate's columns first, then the other columns of the matching rows.

The predicate's columns are read together, unless an index estimates that one condition keeps few rows. Then
its columns are read first, and those of the other conditions only for the remaining rows.
"""

from __future__ import annotations

import contextlib
from bisect import bisect_left
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import field, replace
from functools import partial

import numpy as np
import pyarrow as pa

from intarsia.ahead import ahead
from intarsia.arrow.owned_rows import own_rows
from intarsia.errors import FormatError
from intarsia.file import ChunkKey
from intarsia.format.footer import Leaf
from intarsia.format.page_index import Int64s
from intarsia.once import cached_property
from intarsia.predicate import Bound
from intarsia.predicate.bound import conjoin
from intarsia.read.counts import ReadCounts
from intarsia.read.file_plan import (
    FilePlan,
    WrongPageIndexError,
    retry_without_wrong_index,
    with_current_plan,
)
from intarsia.read.file_query import FileQuery, leaves_under
from intarsia.read.matching import RowReader
from intarsia.read.output_columns import OutputColumn
from intarsia.read.pruner import PruneStep
from intarsia.read.run_columns import Run, RunColumns, Runs, run_of_group
from intarsia.records import dataclass
from intarsia.rows.bounds import Bools
from intarsia.rows.selection import Rows, RowSelection, union
from intarsia.storage.local import refuse_other_names
from intarsia.tuning import CONCURRENT_BYTES, RUNS_AT_ONCE

_OUTDATED = "it contradicts the pages"


@dataclass(frozen=True)
class FileOutcome:
    """The outcome of a query of one file.

    Attributes:
        counts: The counts of the reads after planning, and of the matching rows.
        answered: The rows that were summarized by indexes instead of read.
        rows_estimated: The estimated number of matching rows; None if no index of the file gives an estimate.
        counts_pages: Whether the pages that the query reads are known.
        files_read: The number of files from which a row group was read; None for all that have candidates.
    """

    plan: FilePlan
    counts: ReadCounts = field(default_factory=ReadCounts)
    answered: tuple[PruneStep, ...] = ()
    rows_estimated: float | None = None
    counts_pages: bool = True
    files_read: int | None = None


@dataclass(frozen=True)
class Piece:
    """Some matching rows, and the counts of reading them.

    Attributes:
        rows: The columns of the query without constant columns.
        counts: The counts for these rows and for the candidate rows that do not match.
        numbers: The rows, as row numbers of the file.
        groups: Ordinals of the row groups that were read.
    """

    rows: pa.Table
    counts: ReadCounts
    numbers: RowSelection
    groups: Int64s

    def head(self, num_rows: int) -> Piece:
        """Return the first rows, and all counts except that of the matching rows."""
        if self.rows.num_rows <= num_rows:
            return self
        rows = own_rows(self.rows.slice(0, num_rows))
        counts = replace(self.counts, rows_matched=rows.num_rows)
        return replace(self, rows=rows, counts=counts, numbers=self.numbers.head(rows.num_rows))


def read_rows(
    query: FileQuery, plan: FilePlan, limit: int | None = None, *, runs_at_once: int = 1
) -> Iterator[Piece]:
    """Return the matching rows in the order of the file, which are read when they are taken.

    If a page index is found to be wrong, its row group is read again without it.

    Args:
        limit: Stop after this many rows.
        runs_at_once: Maximum number of runs of row groups that are being read or wait to be taken. More
            than 1 is only for callers that take all rows.
    """
    candidates = plan.candidates
    if query.predicate is None and limit is not None:
        candidates = candidates.head(limit)
    return PlanReader(query, plan).pieces(candidates, limit, runs_at_once)


def read_known_rows(query: FileQuery, plan: FilePlan, rows: RowSelection) -> Iterator[Piece]:
    """Return the matching rows among some rows, for callers that handle the other candidates themselves.

    Up to `RUNS_AT_ONCE` runs of row groups are read concurrently.

    Args:
        rows: The rows to read; rows that are not candidates are skipped.

    Raises:
        WrongPageIndexError: If a page index is found to be wrong, so that the caller's results for the other
            rows may be wrong, too.
    """
    return PlanReader(query, plan, recovers=False).pieces(plan.candidates & rows, at_once=RUNS_AT_ONCE)


class PlanReader:
    """A reader of the rows of a plan, of one file or of several that are joined.

    Args:
        recovers: Whether a row group with a wrong page index is read again without it. If not, the error is
            raised, because the caller has results for other rows of the row group.
        matches: The rows that match each stage of the plan, if they are known. Pages are then fetched and
            counted, but not decoded, and pieces have no rows.
    """

    def __init__(
        self,
        query: FileQuery,
        plan: FilePlan,
        *,
        recovers: bool = True,
        matches: Sequence[RowSelection] | None = None,
    ) -> None:
        self._query = query
        self._plan = plan
        self._recovers = recovers
        self._matches = matches
        self._dictionaries = sorted(plan.dictionary_pages)

    def pieces(self, rows: RowSelection, limit: int | None = None, at_once: int = 1) -> Iterator[Piece]:
        """Yield the matching rows among some candidates, in order.

        Args:
            rows: The rows that might match.
            limit: Stop after this many rows. Only the pages that are needed for them are read, and up to as
                many more.
            at_once: Maximum number of runs that are being read or wait to be taken.
        """
        query = self._query
        runs = Runs(query, self._plan, rows, takes_all=at_once > 1 and limit is None)
        at_once = min(at_once, len(runs.groups)) if limit is None else 1
        is_local = not query.file.source.coalesce_bytes
        if at_once > 1 and not (is_local and runs.num_bytes < CONCURRENT_BYTES):
            found = ahead(lambda run: list(self.read(run, rows)), runs, at_once)
            with contextlib.closing(found):
                for _, future in found:
                    yield from future.result()
            return
        position = 0
        while position < len(runs.groups) and limit != 0:
            run = runs.run_at(position, limit)
            for piece in self.read(run, rows, limit):
                if limit is not None:  # the rows of one run determine whether another one is needed
                    piece = piece.head(limit)
                    limit -= piece.rows.num_rows
                yield piece
            position += len(run.groups)

    def read(self, run: Run, rows: RowSelection, limit: int | None = None) -> Iterator[Piece]:
        """Read the matching rows of a run, in one piece unless something in it is damaged.

        Args:
            rows: The rows that might match.
            limit: Maximum number of rows, at least 1; None for all.

        Raises:
            WrongPageIndexError: If the page index of a row group is wrong, or has been found to be wrong
                since the plan was made, possibly by a scan in another thread. Other rows might match then.
        """
        together = self._read_together(run, rows) if len(run.groups) > 1 else None
        if together is not None:
            yield together
            return
        for group in run.groups.tolist():
            work = partial(self._read_group, group, rows, limit)
            yield retry_without_wrong_index(self._query.file, work) if self._recovers else work()

    def _read_together(self, run: Run, rows: RowSelection) -> Piece | None:
        """Read several row groups at once; None if something in them, or in their metadata, is damaged."""
        if self._is_outdated(run.groups):
            return None
        edges = self._query.file.footer.row_group_starts
        wanted = rows.clip(int(edges[run.groups[0]]), int(edges[run.groups[-1] + 1]))
        try:
            found = self._read(run, wanted, None)
        except FormatError:  # reading each row group names the file, the row group and the column
            return None
        return None if self._is_outdated(run.groups) else found

    def _read_group(self, group: int, rows: RowSelection, limit: int | None) -> Piece:
        """Read a row group; if its page index has been found to be wrong, all rows that are not deleted."""
        query, plan = self._query, self._plan
        is_outdated = self._is_outdated(np.array([group]))
        if is_outdated:
            if not self._recovers:
                raise WrongPageIndexError(group, _OUTDATED)
            rows, plan = query.present, replace(plan, proven=RowSelection.none())
        edges = query.file.footer.row_group_starts
        wanted = rows.clip(int(edges[group]), int(edges[group + 1]))
        run = run_of_group(query, plan, group, wanted)
        if run.is_proven and limit is not None and limit < wanted.num_rows:
            wanted = wanted.head(limit)
            run = run._replace(reads_chunks=False)
        piece = self._read(run, wanted, limit)
        if not is_outdated and self._is_outdated(run.groups):
            raise WrongPageIndexError(group, _OUTDATED)
        return piece

    def _read(self, run: Run, wanted: RowSelection, limit: int | None) -> Piece:
        columns = RunColumns(self._query, run, self._unpruned[run.groups], self._known_dictionaries(run))
        stages = () if run.is_proven else self._plan.stages
        parts = [wanted] if limit is None or not stages else columns.parts(wanted, limit)
        reader = RowReader(self._query, columns, self._matches)
        source = self._query.file.source
        try:
            rows, numbers, num_candidates = reader.read(parts, stages, limit)
        except FormatError:
            source.check_unchanged()
            raise
        source.check_unchanged()
        counts = ReadCounts(
            row_groups=len(run.groups),
            dictionary_pages=columns.dictionary_pages,
            rows_candidate=num_candidates,
            rows_matched=rows.num_rows,
            index_bytes=columns.index_bytes,
        )
        return Piece(rows, counts, numbers, run.groups)

    @cached_property
    def _unpruned(self) -> Bools:
        """Whether no row of each row group was excluded or proven with the page index."""
        edges, plan = self._query.file.footer.row_group_starts, self._plan
        proven = plan.certain - plan.proven
        return plan.candidates.covers(edges[:-1], edges[1:]) & ~proven.overlaps(edges[:-1], edges[1:])

    def _known_dictionaries(self, run: Run) -> Mapping[int, bytes]:
        """Return the dictionary pages in a run that were read while planning, by offset."""
        pages, known = self._plan.dictionary_pages, self._dictionaries
        if not known or len(self._query.file.footer.metadata.row_groups) == len(run.groups):
            return pages
        outlines = self._query.file.metadata.outlines(self._query.leaves, run.groups)
        first = min([int(of_leaf.starts[run.groups[0]]) for of_leaf in outlines], default=0)
        stop = max([int(of_leaf.stops[run.groups[-1]]) for of_leaf in outlines], default=0)
        return {at: pages[at] for at in known[bisect_left(known, first) : bisect_left(known, stop)]}

    def _is_outdated(self, groups: Int64s) -> bool:
        """Return whether metadata of row groups has been found to be wrong since the plan was made."""
        found = self._query.file.metadata.contradictions
        if found == self._plan.contradictions:
            return False
        return not {one.row_group for one in found - self._plan.contradictions}.isdisjoint(groups.tolist())


def rehearse(query: FileQuery, plan: FilePlan, matching: Callable[[Bound], RowSelection]) -> ReadCounts:
    """Fetch the pages that `read_rows` fetches, as the source of the file counts them.

    Args:
        matching: A function that returns the rows of the file that match a predicate.

    Returns:
        The counts of the row groups and rows. The pages are added to those of the query.
    """
    matches = [matching(conjoin(plan.stages[: number + 1])) for number in range(len(plan.stages))]
    pieces = PlanReader(query, plan, matches=matches).pieces(plan.candidates)
    return sum((piece.counts for piece in pieces), ReadCounts())


# --- locations -----------------------------------------------------------------------------------------


#: The columns of the result of `locate_rows`.
LOCATIONS = pa.schema(
    [
        ("path", pa.string()),
        ("row_group", pa.int32()),
        ("page", pa.int32()),
        ("row", pa.int64()),
    ]
)


def locate_rows(query: FileQuery, plan: FilePlan, column: OutputColumn) -> tuple[pa.Table, FileOutcome]:
    """Locate the rows that match in a file, or in several that are joined.

    Args:
        query: The query, without columns.
        column: The column whose pages are numbered; if it is nested, those of its first leaf.

    Returns:
        A row of `LOCATIONS` for each row, and the outcome of the query.
    """
    file = query.file
    rows, outcome = matching_rows(query, plan)
    numbers = rows.rows()
    groups = np.searchsorted(file.footer.row_group_starts, numbers, side="right") - 1
    leaves = leaves_under(file, [query.own(column).path])
    with file.named_errors():
        pages = _page_numbers(query, leaves[0], numbers, groups) if leaves else np.full(len(numbers), -1)
    touched, which = np.unique(groups, return_inverse=True)
    parts = [(file.path_of(group), file.metadata.part_of(group)[1]) for group in touched.tolist()]
    files = file.extent.row_edges
    refuse_other_names([path for path, _ in parts])
    arrays = [
        pa.array([path for path, _ in parts], pa.string()).take(pa.array(which)),
        pa.array([own for _, own in parts], pa.int32()).take(pa.array(which)),
        pa.array(pages, pa.int32(), mask=pages < 0),
        pa.array(numbers - files[np.searchsorted(files, numbers, side="right") - 1], pa.int64()),
    ]
    return pa.Table.from_arrays(arrays, schema=LOCATIONS), outcome


def matching_rows(query: FileQuery, plan: FilePlan) -> tuple[RowSelection, FileOutcome]:
    """Return the rows of a file that match, and the outcome; rows that are proven to match are not read.

    Args:
        query: The query, without columns.
    """

    def read(plan: FilePlan) -> tuple[RowSelection, FileOutcome]:
        known = plan.proven & plan.candidates
        query.check_row_counts(known)
        left = plan.candidates - known
        pieces = list(read_known_rows(query, plan, left))
        counts = ReadCounts(rows_candidate=known.num_rows, rows_matched=known.num_rows)
        counts = sum((piece.counts for piece in pieces), counts)
        outcome = FileOutcome(plan, counts, files_read=query.num_files_with(left))
        return union([known, *(piece.numbers for piece in pieces)]), outcome

    return with_current_plan(query, plan, read)


def _page_numbers(query: FileQuery, leaf: Leaf, numbers: Rows, groups: Rows) -> Rows:
    """Return the ordinal of the page of a leaf that contains each row; -1 without an OffsetIndex."""
    file = query.file
    pages = np.full(len(numbers), -1, dtype=np.int64)
    touched = np.unique(groups).tolist()
    file.load_page_index([ChunkKey(group, leaf.ordinal) for group in touched])
    for group in touched:
        locations = file.locations(ChunkKey(group, leaf.ordinal))
        if locations is not None:
            here = slice(*np.searchsorted(groups, [group, group + 1]))
            within = numbers[here] - int(file.footer.row_group_starts[group])
            pages[here] = np.searchsorted(locations.rows.starts, within, side="right") - 1
    return pages
