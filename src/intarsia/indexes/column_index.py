"""The page index as bounds over the pages of a column."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import fields
from functools import cache, partial
from itertools import chain, repeat, starmap
from typing import TypeAlias

import numpy as np

from intarsia.errors import CorruptFileError
from intarsia.file import ChunkKey, ParquetInput
from intarsia.file.writers import Claim
from intarsia.format.enums import BoundaryOrder
from intarsia.format.page_index import PageLocations
from intarsia.format.structs import ColumnIndex
from intarsia.indexes.proof import ProofCost, Savings, Verdict, Wanted, evaluate_conditions, groups_by_leaf
from intarsia.indexes.statistics import bounds_of_keys, column_statistics, exact_bounds, judge_bounds
from intarsia.predicate.bound import Condition
from intarsia.rows.bounds import UNKNOWN, Bools, Bounds, boundary_order
from intarsia.rows.ordering import Ordering
from intarsia.rows.selection import RowSelection

#: The bounds of pages of a column, and the rows of the other row groups.
_Pages: TypeAlias = tuple[Bounds, RowSelection]


class ColumnIndexes:
    """The ColumnIndexes of a file as a proof. Row groups without one are undecided."""

    name = "column_index"
    is_lookup = False
    counts_pages = True

    def __init__(self, file: ParquetInput) -> None:
        self._file = file
        self._reach: dict[int, Bools] = {}

    def reach(self, condition: Condition) -> Bools | None:
        """Return the row groups whose ColumnIndex could exclude more than their statistics."""
        leaf = self._file.schema.leaves_of_values.get(condition.path)
        if leaf is None or not self._file.trust(leaf).order_is_known:
            return None
        if leaf.ordinal not in self._reach:
            (outlines,) = self._file.metadata.outlines([leaf])
            reach = outlines.has_column_index
            if reach.any():
                bounds = column_statistics(self._file, condition.path)
                if bounds is not None:  # if they are complete, they are also the bounds of a single page
                    complete = bounds.known & (bounds.null_counts >= 0) & (bounds.nan_counts >= 0)
                    reach = reach & ~(complete & (outlines.data_pages == 1))
            self._reach[leaf.ordinal] = reach
        return self._reach[leaf.ordinal]

    def cost(self, wanted: Wanted) -> ProofCost:
        """Return the cost of the ColumnIndexes and of their OffsetIndexes.

        Those with an invalid location cost nothing, because they are ignored with a note.
        """
        groups_of = groups_by_leaf(self._file, wanted)
        outlines_of = self._file.metadata.outlines(list(map(self._file.footer.leaves.__getitem__, groups_of)))
        num_bytes = num_chunks = 0
        for outlines, row_groups in zip(outlines_of, groups_of.values(), strict=True):
            num_bytes += int(outlines.page_index_bytes[row_groups].sum())
            num_chunks += int(row_groups.sum())
        return ProofCost(num_bytes, 2 * num_chunks)

    def evaluate(self, wanted: Wanted, savings: Savings) -> Iterator[Verdict]:
        """Read the missing parts of the page index, and evaluate conditions with it."""
        groups_of = groups_by_leaf(self._file, wanted)
        keys = list(chain.from_iterable(starmap(_keys, groups_of.items())))
        self._file.load_page_index(keys, keys)
        pages_of = cache(partial(self._pages, groups_of))
        return evaluate_conditions(self._file, self.name, partial(self._judge, pages_of), wanted)

    def keys(self, condition: Condition, scope: RowSelection) -> list[ChunkKey]:
        """Return the chunks of the condition's column with a ColumnIndex, in row groups of ``scope``."""
        reach = self.reach(condition)
        if reach is None:
            return []
        edges, leaf = self._file.footer.row_group_starts, self._file.schema.leaves_of_values[condition.path]
        return _keys(leaf.ordinal, reach & scope.overlaps(edges[:-1], edges[1:]))

    def _judge(self, pages_of: Callable[[int], _Pages | None], condition: Condition) -> Verdict:
        """Return the rows of pages that might match, and of row groups that are not evaluated."""
        found = pages_of(self._file.schema.leaves_of_values[condition.path].ordinal)
        if found is None:
            return Verdict(condition, None, None)
        bounds, others = found
        _, possible, certain = judge_bounds(condition, bounds)
        return Verdict(condition, others if possible is None else possible | others, certain)

    def _pages(self, groups_of: Mapping[int, Bools], leaf: int) -> _Pages | None:
        """Return the bounds of the pages of a column in the row groups that matter; None without any."""
        edges = self._file.footer.row_group_starts
        found = self.bounds_by_group(_keys(leaf, groups_of[leaf]))
        absent = np.ones(len(edges) - 1, dtype=bool)
        absent[list(found)] = False
        others = RowSelection.union_of(edges[:-1][absent], edges[1:][absent])
        return (concat_bounds(list(found.values())), others) if found else None

    def bounds_by_group(self, keys: Iterable[ChunkKey]) -> dict[int, Bounds]:
        """Return the bounds of the pages of some chunks of a column that have a loaded ColumnIndex."""
        return {key.row_group: found for key in keys if (found := self.bounds(key)) is not None}

    def bounds(self, key: ChunkKey) -> Bounds | None:
        """Return the bounds of a chunk's pages from its loaded ColumnIndex."""
        if self._file.column_index(key) is None:
            return None
        metadata = self._file.metadata
        has_no_nan = key.row_group in metadata.without_nan(self._file.footer.leaves[key.leaf])
        read = partial(self._read_bounds, key, has_no_nan=has_no_nan)
        return metadata.derived(("column index", key, has_no_nan), read)

    def _read_bounds(self, key: ChunkKey, *, has_no_nan: bool) -> Bounds | None:
        index, locations = self._file.column_index(key), self._file.locations(key)
        assert index is not None
        if locations is None:
            return None
        leaf = self._file.footer.leaves[key.leaf]
        ordering = self._file.schema.ordering(leaf)
        if not leaf.is_flat or self._file.trust(leaf).doubt(Claim.PAGE_NULL_COUNT) is not None:
            index = index._replace(null_counts=None)
        if leaf.max_definition_level == 0:  # a required column has no nulls
            index = index._replace(null_counts=[0] * len(locations))
        if has_no_nan and index.nan_counts is None:
            index = index._replace(nan_counts=[0] * len(locations))
        try:
            found = column_index_bounds(
                index, locations, ordering, int(self._file.footer.row_group_starts[key.row_group])
            )
        except CorruptFileError as error:
            self._file.distrust_column_index(key, error)
            return None
        try:
            statistics = column_statistics(self._file, leaf.path)
            if statistics is not None:
                is_exact = ordering is not None and bool(
                    exact_bounds(self._file, leaf, ordering, [key.row_group])[key.row_group]
                )
                check_page_bounds(found, statistics, key.row_group, is_exact=is_exact)
        except CorruptFileError as error:  # which of the two is wrong is unknown
            self._file.distrust_bounds(key, error)
            return None
        return found


def _keys(leaf: int, row_groups: Bools) -> list[ChunkKey]:
    return list(map(ChunkKey, row_groups.nonzero()[0].tolist(), repeat(leaf)))


def column_index_bounds(
    index: ColumnIndex, locations: PageLocations, ordering: Ordering | None, first_row: int
) -> Bounds:
    """Convert a ColumnIndex to bounds.

    Args:
        ordering: The order of the leaf's keys, or None.
        first_row: The first row of the row group, as a row ordinal of the file.

    Raises:
        CorruptFileError: If the ColumnIndex contradicts itself or the pages, and must be ignored entirely.
    """
    rows = locations.rows.stops - locations.rows.starts
    null_counts = np.full(len(rows), UNKNOWN, dtype=np.int64)
    if index.null_counts:
        null_counts[:] = index.null_counts
    null_pages = np.array(index.null_pages, dtype=bool)
    num_bytes = np.fromiter(map(len, index.min_values), np.int64)
    num_bytes += np.fromiter(map(len, index.max_values), np.int64)
    no_bounds = num_bytes == 0
    is_known = null_counts != UNKNOWN
    wrong = [
        (null_counts > rows, "has more nulls than rows", "null-count"),
        (
            null_pages & is_known & (null_counts != rows),
            "is a null page, but not all of its rows are null",
            "null-page",
        ),
        (null_pages & ~is_known & ~no_bounds, "is a null page with bounds", "null-page"),
    ]
    # a null page with bounds is not trusted to be all null, but its null count is
    all_null = null_pages & no_bounds
    nan_counts = np.zeros(len(rows), dtype=np.int64)
    if ordering is not None and ordering.is_float:
        nan_counts[:] = index.nan_counts if index.nan_counts else UNKNOWN
    may_be_empty = ordering is None or ordering.is_bytes
    bounded = np.flatnonzero(~null_pages if may_be_empty else ~(null_pages | no_bounds))
    low = high = np.empty(0, dtype=object)
    if ordering is not None:
        low, high = ordering.decode_pages(index, bounded.tolist())
        is_reversed = np.zeros(len(rows), dtype=bool)
        is_reversed[bounded] = low > high
        wrong.append((is_reversed, "has a lower bound above its upper bound", "bounds-reversed"))
    for pages, problem, reason in wrong:
        if pages.any():
            page = int(np.argmax(pages))
            raise CorruptFileError(f"page {page} {problem}", reason=reason, struct="ColumnIndex")
    return bounds_of_keys(
        ordering,
        locations.rows.starts + first_row,
        locations.rows.stops + first_row,
        bounded,
        low,
        high,
        null_counts,
        nan_counts,
        all_null,
    )


def concat_bounds(parts: Sequence[Bounds]) -> Bounds:
    """Concatenate bounds of consecutive granules of one leaf.

    Args:
        parts: The bounds, at least one, all of the same ordering.
    """
    if len(parts) == 1:
        return parts[0]
    names = [field.name for field in fields(Bounds) if field.name not in ("ordering", "order")]
    joined = {name: np.concatenate([getattr(part, name) for part in parts]) for name in names}
    is_known = parts[0].ordering is not None and bool(joined["known"].all())
    order = boundary_order(joined["minima"], joined["maxima"]) if is_known else BoundaryOrder.UNORDERED
    return Bounds(parts[0].ordering, **joined, order=order)


# --- contradictions between the statistics of a column chunk and the bounds of its pages ----------------
# Bounds may be truncated, so lower bounds may be below all values, and upper bounds above them. There is a
# contradiction only if no values fit both.


def check_page_bounds(pages: Bounds, chunk: Bounds, row_group: int, *, is_exact: bool) -> None:
    """Compare the bounds of the pages of a chunk with the statistics of the chunk.

    Args:
        chunk: The statistics of the column in all row groups.
        row_group: Ordinal of the row group.
        is_exact: Whether the bounds in the statistics are values of the chunk.

    Raises:
        CorruptFileError: If no values fit both.
    """
    if chunk.all_null[row_group] and pages.known.any():
        _refuse("all values are null according to the statistics, but pages have bounds")
    all_nulls = np.where(pages.all_null, pages.stops - pages.starts, 0)
    for what, of_pages, least, of_chunk in (
        ("nulls", pages.null_counts, all_nulls, int(chunk.null_counts[row_group])),
        ("NaNs", pages.nan_counts, 0, int(chunk.nan_counts[row_group])),
    ):
        # negative counts are unknown, but at least `least`
        total = int(np.where(of_pages < 0, least, of_pages).sum())
        if of_chunk >= 0 and (total > of_chunk or (total < of_chunk and (of_pages >= 0).all())):
            _refuse(f"the pages have {total} {what}, but the statistics count {of_chunk}")
    if not chunk.known[row_group] or not pages.known.any():
        return
    # arrays of one key, because NumPy drops zero bytes at the end of a single one
    low, high = chunk.minima[row_group : row_group + 1], chunk.maxima[row_group : row_group + 1]
    minima, maxima = pages.minima[pages.known], pages.maxima[pages.known]
    # a page with bounds has a value, which is within the bounds of the page and of the chunk
    if bool((minima > high).any()) or bool((maxima < low).any()):
        _refuse("a page has no value within the bounds of the statistics")
    if not is_exact or not (pages.known | pages.all_null).all():
        return
    assert pages.ordering is not None
    if bool((minima > low).all()) or bool((maxima < high).all()):
        _refuse("no page can have the bounds of the statistics, which are values")
    # numbers are not truncated
    if not pages.ordering.is_bytes and (bool((minima < low).any()) or bool((maxima > high).any())):
        _refuse("a page has a bound that is not within those of the statistics")


def _refuse(problem: str) -> None:
    raise CorruptFileError(problem, reason="bounds-contradict-statistics", struct="ColumnIndex")
