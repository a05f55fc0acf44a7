"""The runs in which row groups are read.

Planning and decoding a row group takes at least about a millisecond. Files of streaming writers may have
thousands of small row groups, and a query of many files has as many. So pyarrow decodes up to a few megabytes
of them in one call.
"""

from __future__ import annotations

from collections.abc import Iterator
from functools import cached_property
from typing import Any, NamedTuple

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from intarsia.file.chunks import Bools, ChunkOutlines, Int64s
from intarsia.format.footer import Leaf
from intarsia.read.file_plan import FilePlan
from intarsia.read.file_query import FileQuery
from intarsia.rows.selection import RowSelection
from intarsia.tuning import ISLAND_BYTES, ISLAND_GROUPS, RUN_BYTES, RUN_ROWS, SMALL_GROUP_BYTES

#: How a row group can be read with others: not at all, whole chunks, or pages.
_ALONE, _CHUNKS, _PAGES = range(3)


class Run(NamedTuple):
    """Row groups that are read as one.

    Attributes:
        groups: Their ordinals, ascending.
        is_proven: Whether the wanted rows are proven to match.
        reads_chunks: Whether whole chunks are read, without their page index.
    """

    groups: Int64s
    is_proven: bool
    reads_chunks: bool


class Runs:
    """The row groups that contain some rows, divided into runs.

    Several row groups are a run if either all of their rows are read and none of their columns has pages that
    could be skipped, or if they are small and only some of their pages are read. pyarrow stops early only in
    the last row group of a call, so a large row group is a run by itself.

    Attributes:
        groups: Ordinals of the row groups.
    """

    def __init__(self, query: FileQuery, plan: FilePlan, rows: RowSelection) -> None:
        self._edges = query.file.footer.row_group_starts
        self.groups: Int64s = rows.overlaps(self._edges[:-1], self._edges[1:]).nonzero()[0]
        self._query = query
        self._plan = plan
        self._rows = rows

    def __iter__(self) -> Iterator[Run]:
        position = 0
        while position < len(self.groups):
            run = self.run_at(position)
            yield run
            position += len(run.groups)

    def run_at(self, position: int, most_rows: int | None = None) -> Run:
        """Return the run that starts at a position in `groups`.

        Args:
            most_rows: Maximum number of rows in a run of several row groups; None for no limit.
        """
        kind = self._kind[position] if len(self.groups) > 1 else _ALONE
        # a limit may need only some pages of one row group
        if kind == _ALONE or (kind == _PAGES and most_rows is not None):
            return Run(self.groups[position : position + 1], is_proven=False, reads_chunks=False)
        most_rows = RUN_ROWS if most_rows is None else min(most_rows, RUN_ROWS)
        stop = min(
            int(np.searchsorted(self._bytes, self._bytes[position] + RUN_BYTES, side="right")) - 1,
            int(np.searchsorted(self._num_rows, self._num_rows[position] + most_rows, side="right")) - 1,
            int(self._stretch_ends[np.searchsorted(self._stretch_ends, position, side="right")]),
        )
        stop = max(stop, position + 1)
        return Run(self.groups[position:stop], bool(self._is_proven[position]), kind == _CHUNKS)

    @cached_property
    def _kind(self) -> Int64s:
        """How each of the row groups can be read with others."""
        query, groups, num_rows = self._query, self.groups, np.diff(self._edges)
        if not all(_is_plain(query, leaf) for leaf in query.leaves):
            return np.full(len(groups), _ALONE)
        is_covered = self._rows.covers(self._edges[:-1], self._edges[1:])[groups]
        in_chunks, is_small = is_covered, np.diff(self._bytes) <= SMALL_GROUP_BYTES
        for outlines in self._outlines:
            is_sound = _is_sound(outlines, num_rows)[groups]
            has_no_pages = ((outlines.data_pages == 1) | ~outlines.has_offset_index)[groups]
            in_chunks, is_small = in_chunks & is_sound & has_no_pages, is_small & is_sound
        # an iterator reads no further than the row group from which rows are taken, unless these are few
        return np.where(in_chunks, _CHUNKS, np.where(is_small & ~is_covered, _PAGES, _ALONE))

    @property
    def _outlines(self) -> list[ChunkOutlines]:
        return self._query.file.metadata.outlines(self._query.leaves)

    @cached_property
    def _is_proven(self) -> Bools:
        """Whether each row group is proven to match, so that the predicate's columns are not needed.

        A few proven row groups between others are read like these, because reading them separately costs
        more. At least one column has to be read, because its values determine the number of rows.
        """
        query, groups = self._query, self.groups
        if query.predicate is None:
            return np.ones(len(groups), dtype=bool)
        if not query.output_leaves:
            return np.zeros(len(groups), dtype=bool)
        known = (self._rows & self._plan.proven).count_between(self._edges)
        proven: Bools = (known == self._rows.count_between(self._edges))[groups]
        extra_bytes = np.zeros(len(groups), dtype=np.int64)
        written = {leaf.ordinal for leaf in query.output_leaves}
        only_judged = [leaf for leaf in query.leaves if leaf.ordinal not in written]
        for outlines in query.file.metadata.outlines(only_judged):
            extra_bytes += (outlines.stops - outlines.starts)[groups]
        ends = _stretch_ends(proven)
        starts = np.concatenate([[0], ends[:-1]])
        is_island = proven[starts] & (starts > 0) & (ends < len(groups)) & (ends - starts <= ISLAND_GROUPS)
        islands = np.repeat(is_island, ends - starts) & (extra_bytes <= ISLAND_BYTES)
        return np.asarray(proven & ~islands)

    @cached_property
    def _stretch_ends(self) -> Int64s:
        """The end of each sequence of row groups that are read in the same way."""
        return _stretch_ends(self._kind * 2 + self._is_proven)

    @cached_property
    def _bytes(self) -> Int64s:
        """Bytes of the row groups before each position: the larger of compressed and uncompressed sizes."""
        total = np.zeros(len(self.groups), dtype=np.int64)
        for outlines in self._outlines:
            chunk_bytes = np.maximum(outlines.uncompressed_bytes, outlines.stops - outlines.starts)
            total += np.minimum(chunk_bytes[self.groups], RUN_BYTES)
        return np.concatenate([[0], np.cumsum(total)])

    @cached_property
    def _num_rows(self) -> Int64s:
        """Number of rows in the row groups before each position."""
        return np.concatenate([[0], np.cumsum(np.diff(self._edges)[self.groups])])


def run_of_group(query: FileQuery, plan: FilePlan, group: int, rows: RowSelection) -> Run:
    """Return the run of a single row group.

    Args:
        group: Ordinal of the row group.
        rows: The rows to read in it.
    """
    is_proven = query.predicate is None
    # at least one column has to be read, because its values determine the number of rows
    if not is_proven and not plan.proven.is_empty and query.output_leaves:
        is_proven = (rows - plan.proven).is_empty
    whole = is_proven and rows.num_rows == query.file.footer.metadata.row_groups[group].num_rows
    return Run(np.array([group]), is_proven, reads_chunks=whole)


def _stretch_ends(values: npt.NDArray[Any]) -> Int64s:
    """Return the end of each sequence of equal values."""
    return np.append(np.flatnonzero(values[1:] != values[:-1]) + 1, len(values))


def _is_plain(query: FileQuery, leaf: Leaf) -> bool:
    """Return whether a leaf is a top-level column that pyarrow does not decode to a dictionary array."""
    data_type = query.file.leaf_types.get(leaf.ordinal)
    return data_type is not None and len(leaf.path) == 1 and not pa.types.is_dictionary(data_type)


def _is_sound(outlines: ChunkOutlines, num_rows: Int64s) -> Bools:
    """Return whether chunks have as many values as rows."""
    is_sound = outlines.is_sound & (outlines.starts < outlines.stops)
    return np.asarray(is_sound & (outlines.num_values == num_rows), dtype=bool)
