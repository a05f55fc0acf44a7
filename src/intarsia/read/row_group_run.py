"""Runs of small row groups that are read as one.

Planning and decoding a row group takes at least about a millisecond. Files of streaming writers may have
thousands of small row groups, so pyarrow decodes up to a few megabytes of them in one call.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace
from functools import cached_property
from typing import Any, NamedTuple

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from intarsia.errors import CorruptFileError
from intarsia.file.decode import RowTaker
from intarsia.file.outlines import ChunkOutlines
from intarsia.file.pages import check_value_counts
from intarsia.file.synthetic import decode_chunks
from intarsia.format.footer import Leaf
from intarsia.read.counts import ReadCounts
from intarsia.read.file_plan import FilePlan
from intarsia.read.file_query import FileQuery
from intarsia.rows.selection import RowSelection
from intarsia.storage import BufferedSource, ByteRange, coalesce

#: Maximum size of a run in bytes, both compressed and uncompressed.
_RUN_BYTES = 8 << 20

#: Maximum number of rows in a run.
_RUN_ROWS = 1 << 18

#: At most this many row groups that are proven to match do not interrupt a run, if reading the predicate's
#: columns takes at most this many bytes of each.
_ISLAND_GROUPS = 16
_ISLAND_BYTES = 1 << 12

#: If fewer than one row in this many is needed, texts with few distinct values are decoded to dictionaries.
_SPARSE = 4

Bools = npt.NDArray[np.bool_]
Int64s = npt.NDArray[np.int64]


class RowGroupRun(NamedTuple):
    """Row groups that are read as one.

    Attributes:
        groups: Their ordinals, ascending.
        is_proven: Whether all of their rows are proven to match.
    """

    groups: Sequence[int]
    is_proven: bool


class RowGroupRuns:
    """The row groups that contain some rows, divided into runs.

    A run has several row groups only if all of their rows are read, and none of their columns has pages that
    could be skipped.

    Args:
        query: The query.
        plan: The plan of the query.
        rows: The rows to read.

    Attributes:
        groups: Ordinals of the row groups.
    """

    def __init__(self, query: FileQuery, plan: FilePlan, rows: RowSelection) -> None:
        self.groups = query.groups_with(rows)
        self._query = query
        self._plan = plan
        self._rows = rows

    def __iter__(self) -> Iterator[RowGroupRun]:
        position = 0
        while position < len(self.groups):
            run = self.run_at(position)
            yield run
            position += len(run.groups)

    def run_at(self, position: int, most_rows: int | None = None) -> RowGroupRun:
        """Return the run that starts at a position in `groups`.

        Args:
            position: The position.
            most_rows: Maximum number of rows in a run of several row groups; None for no limit.
        """
        if len(self.groups) < 2 or not self.can_be_joined[position]:
            return RowGroupRun(self.groups[position : position + 1], is_proven=False)
        most_rows = _RUN_ROWS if most_rows is None else min(most_rows, _RUN_ROWS)
        stop = min(
            int(np.searchsorted(self._bytes, self._bytes[position] + _RUN_BYTES, side="right")) - 1,
            int(np.searchsorted(self._num_rows, self._num_rows[position] + most_rows, side="right")) - 1,
            int(self._stretch_ends[np.searchsorted(self._stretch_ends, position, side="right")]),
        )
        return RowGroupRun(self.groups[position : max(stop, position + 1)], bool(self._is_proven[position]))

    @cached_property
    def can_be_joined(self) -> Bools:
        """Whether each of the row groups can be in a run with others."""
        query, groups = self._query, self.groups
        if not all(_is_plain(query, leaf) for leaf in query.leaves):
            return np.zeros(len(groups), dtype=bool)
        edges = query.file.footer.row_group_starts
        joined = self._rows.covers(edges[:-1], edges[1:])[groups]
        for outlines in self._outlines:
            joined = joined & _is_one_page(outlines, np.diff(edges))[groups]
        return joined

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
        edges = query.file.footer.row_group_starts
        proven = self._plan.proven.covers(edges[:-1], edges[1:])[groups]
        extra_bytes = np.zeros(len(groups), dtype=np.int64)
        written = {leaf.ordinal for leaf in query.output_leaves}
        only_judged = [leaf for leaf in query.leaves if leaf.ordinal not in written]
        for outlines in query.file.metadata.outlines(only_judged):
            extra_bytes += (outlines.stops - outlines.starts)[groups]
        ends = _stretch_ends(proven)
        starts = np.concatenate([[0], ends[:-1]])
        is_island = proven[starts] & (starts > 0) & (ends < len(groups)) & (ends - starts <= _ISLAND_GROUPS)
        return proven & ~(np.repeat(is_island, ends - starts) & (extra_bytes <= _ISLAND_BYTES))

    @cached_property
    def _stretch_ends(self) -> Int64s:
        """The end of each sequence of row groups that are read in the same way."""
        return _stretch_ends(self.can_be_joined * 2 + self._is_proven)

    @cached_property
    def _bytes(self) -> Int64s:
        """Bytes of the row groups before each position: the larger of compressed and uncompressed sizes."""
        total = np.zeros(len(self.groups), dtype=np.int64)
        for outlines in self._outlines:
            chunk_bytes = np.maximum(outlines.uncompressed_bytes, outlines.stops - outlines.starts)
            total += np.minimum(chunk_bytes[self.groups], _RUN_BYTES)
        return np.concatenate([[0], np.cumsum(total)])

    @cached_property
    def _num_rows(self) -> Int64s:
        """Number of rows in the row groups before each position."""
        counts = np.diff(self._query.file.footer.row_group_starts)[self.groups]
        return np.concatenate([[0], np.cumsum(counts)])


def _stretch_ends(values: npt.NDArray[Any]) -> Int64s:
    """Return the end of each sequence of equal values."""
    return np.append(np.flatnonzero(values[1:] != values[:-1]) + 1, len(values))


def _is_plain(query: FileQuery, leaf: Leaf) -> bool:
    """Return whether a leaf is a top-level column that pyarrow does not decode to a dictionary array."""
    data_type = query.file.leaf_types.get(leaf.ordinal)
    return data_type is not None and len(leaf.path) == 1 and not pa.types.is_dictionary(data_type)


def _is_one_page(outlines: ChunkOutlines, num_rows: Int64s) -> Bools:
    """Return whether chunks have as many values as rows, and no pages that can be skipped."""
    whole = (outlines.data_pages == 1) | ~outlines.has_offset_index
    is_sound = outlines.is_sound & (outlines.starts < outlines.stops)
    return np.asarray(is_sound & whole & (outlines.num_values == num_rows), dtype=bool)


class RunColumns:
    """The columns of a run of small row groups, whose rows are numbered from 0.

    Args:
        query: The query.
        groups: Ordinals of the row groups.
        dictionary_pages: Dictionary pages that were read while planning, by offset.
    """

    def __init__(
        self, query: FileQuery, groups: Sequence[int], dictionary_pages: Mapping[int, bytes] | None = None
    ) -> None:
        self._query = query
        self._groups = np.array(groups)
        self._known_dictionaries = dictionary_pages or {}
        edges = query.file.footer.row_group_starts
        self._edges = np.concatenate([[0], np.cumsum(np.diff(edges)[self._groups])])
        self._dictionaries_read = np.zeros(len(groups), dtype=np.int64)

    @property
    def num_rows(self) -> int:
        """Number of rows in the run."""
        return int(self._edges[-1])

    def row_numbers(self, rows: RowSelection) -> RowSelection:
        """Return rows of the run as row numbers of the file."""
        firsts = self._query.file.footer.row_group_starts[self._groups]
        if self._groups[-1] - self._groups[0] == len(self._groups) - 1:
            return rows.shift(int(firsts[0]))
        numbers = rows.rows()
        positions = np.searchsorted(self._edges, numbers, side="right") - 1
        return RowSelection.from_rows(numbers + (firsts - self._edges[:-1])[positions])

    def decode(self, leaves: list[Leaf], rows: RowSelection) -> dict[int, pa.ChunkedArray]:
        """See `DecodedColumns`.

        Raises:
            CorruptFileError: If pages are damaged, or their number of values differs from the footer.
        """
        starts, stops = self._edges[:-1], self._edges[1:]
        touched = np.flatnonzero(rows.overlaps(starts, stops))
        covered = RowSelection.union_of(starts[touched], stops[touched])
        is_sparse = rows.num_rows * _SPARSE < covered.num_rows
        with self._query.file.named_errors():
            table = self._read(leaves, touched, is_sparse=is_sparse)
        roots = sorted({leaf.root_ordinal for leaf in leaves})
        taken = RowTaker(covered, rows)
        found = {root: taken.of(column) for root, column in zip(roots, table.columns, strict=True)}
        for leaf in leaves:
            found[leaf.root_ordinal] = _plain(
                found[leaf.root_ordinal], self._query.file.leaf_types[leaf.ordinal]
            )
        return found

    def counts(self) -> ReadCounts:
        """See `DecodedColumns`."""
        return self.counts_of(0, len(self._groups))

    def counts_of(self, start: int, stop: int) -> ReadCounts:
        """Return the counts of all reads so far of some of the row groups, given by position in the run."""
        return ReadCounts(
            row_groups=stop - start,
            dictionary_pages=int(self._dictionaries_read[start:stop].sum()),
        )

    def _read(self, leaves: list[Leaf], touched: Int64s, *, is_sparse: bool) -> pa.Table:
        """Read all rows of some columns in some of the row groups, given by position in the run.

        If few of the rows are needed, texts with few distinct values are dictionary arrays.
        """
        file, groups = self._query.file, self._groups[touched]
        outlines = file.metadata.outlines(leaves)
        starts = np.concatenate([of_leaf.starts[groups] for of_leaf in outlines])
        stops = np.concatenate([of_leaf.stops[groups] for of_leaf in outlines])
        locations = coalesce(map(ByteRange, starts.tolist(), stops.tolist()), file.source.coalesce_bytes)
        data = b"".join(self._fetch(locations, starts))
        for leaf, of_leaf in zip(leaves, outlines, strict=True):
            self._query.pages.add_chunks(leaf.ordinal, groups.tolist())
            is_new = of_leaf.has_offset_index[groups] & ~self._is_known(of_leaf.starts[groups])
            self._dictionaries_read[touched] += np.where(
                is_new, np.maximum(of_leaf.dictionary_pages[groups], 0), 0
            )
        moved = [_moved(of_leaf.of_groups(groups), locations) for of_leaf in outlines]
        # pyarrow detects a wrong number of values only for all row groups together
        edges = np.concatenate([np.stack([chunks.starts, chunks.stops], axis=1) for chunks in moved])
        check_value_counts(data, edges.tolist(), np.concatenate([of.num_values for of in moved]).tolist())
        table = decode_chunks(
            file.schema.part(tuple(leaf.root_ordinal for leaf in leaves)),
            moved,
            np.diff(file.footer.row_group_starts)[groups].tolist(),
            data,
            f"row groups {groups[0]} to {groups[-1]}",
            [
                leaf.name
                for leaf, chunks in zip(leaves, moved, strict=True)
                if is_sparse and _repeats_texts(file.leaf_types[leaf.ordinal], chunks)
            ],
            checksums=file.page_checksums,
        )
        expected = int(outlines[0].num_values[groups].sum())
        if table.num_rows != expected:
            raise CorruptFileError(
                f"the row groups have {table.num_rows} rows, not {expected}",
                reason="row-count-mismatch",
                struct="RowGroup",
            )
        return table

    def _fetch(self, locations: Sequence[ByteRange], starts: Int64s) -> list[bytes]:
        """Read ranges of complete chunks, without the dictionary pages that are known."""
        known = starts[self._is_known(starts)].tolist()
        if not known:
            return self._query.file.source.read_ranges(locations)
        source = BufferedSource(self._query.file.source)
        with source.buffering() as buffer:
            for start in known:
                buffer(start, self._known_dictionaries[start])
            return source.read_ranges(locations)

    def _is_known(self, starts: Int64s) -> Bools:
        """Whether the dictionary page at the start of each chunk is known."""
        return np.isin(starts, list(self._known_dictionaries))


def _moved(chunks: ChunkOutlines, locations: Sequence[ByteRange]) -> ChunkOutlines:
    """Return chunks at their offsets in the concatenated bytes of some ranges, which are ascending."""
    starts, stops = np.array(locations, dtype=np.int64).T
    shifts = np.cumsum(stops - starts) - stops
    shift = shifts[np.searchsorted(starts, chunks.starts, side="right") - 1]
    return replace(chunks, starts=chunks.starts + shift, stops=chunks.stops + shift)


def _repeats_texts(data_type: pa.DataType, chunks: ChunkOutlines) -> bool:
    """Return whether a column of texts has few distinct values, all of which are in dictionary pages.

    Text without a dictionary takes at least 4 bytes for its length.
    """
    if data_type not in (pa.string(), pa.large_string()):
        return False
    has_dictionary = (chunks.dictionary_pages == 1) & (chunks.data_pages == 1)
    return bool((has_dictionary & (chunks.uncompressed_bytes <= 2 * chunks.num_values)).all())


def _plain(column: pa.ChunkedArray, data_type: pa.DataType) -> pa.ChunkedArray:
    """Return the values of dictionary arrays; other columns have the type already."""
    if column.type == data_type or not pa.types.is_dictionary(column.type):
        return column
    return column.cast(column.type.value_type).cast(data_type)
