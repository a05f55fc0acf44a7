"""The page index as bounds over the pages of a column."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import NamedTuple

import numpy as np
import numpy.typing as npt

from intarsia.errors import CorruptFileError
from intarsia.file import ChunkKey, ParquetInput
from intarsia.file.trust import Claim
from intarsia.format.enums import BoundaryOrder
from intarsia.format.footer import Leaf
from intarsia.format.page_index import PageLocations
from intarsia.format.structs import ColumnIndex
from intarsia.indexes.proof import ProofCost, Savings, Verdict, Wanted, evaluate_conditions
from intarsia.indexes.statistics import (
    RowGroupStatistics,
    bounds_of_keys,
    column_statistics,
    exact_bounds,
    judge_bounds,
)
from intarsia.predicate.bound import Condition
from intarsia.rows.bounds import UNKNOWN, Bools, Bounds, boundary_order
from intarsia.rows.ordering import Keys, Ordering
from intarsia.rows.selection import RowSelection
from intarsia.storage import ByteRange


class _Pages(NamedTuple):
    """The bounds of a column.

    Attributes:
        bounds: The bounds of its pages in the row groups that are evaluated and have a ColumnIndex.
        others: The rows of the other row groups.
    """

    bounds: Bounds
    others: RowSelection


class ColumnIndexes:
    """The ColumnIndexes of a file, as an index and as a proof. Row groups without one are undecided."""

    name = "column_index"
    is_lookup = False
    counts_pages = True

    def __init__(self, file: ParquetInput) -> None:
        self._file = file
        self._reach: dict[int, Bools] = {}
        self._evaluated: dict[int, set[int]] = {}
        self._columns: dict[int, _Pages | None] = {}

    def reach(self, condition: Condition) -> Bools | None:
        """Return the row groups whose ColumnIndex could exclude more than their statistics."""
        leaf = self._leaf(condition)
        if leaf is None or not self._file.trust(leaf).order_is_known:
            return None
        if leaf.ordinal not in self._reach:
            reach = self._file.has_column_indexes(leaf)
            if reach.any():
                (outlines,) = self._file.metadata.outlines([leaf])
                bounds = RowGroupStatistics(self._file).bounds(condition)
                if bounds is not None:  # if they are complete, they are also the bounds of a single page
                    complete = bounds.known & (bounds.null_counts >= 0) & (bounds.nan_counts >= 0)
                    reach = reach & ~(complete & (outlines.data_pages == 1))
            self._reach[leaf.ordinal] = reach
        return self._reach[leaf.ordinal]

    def cost(self, wanted: Wanted) -> ProofCost:
        """Return the cost of the ColumnIndexes and of their OffsetIndexes.

        Those with an invalid location cost nothing, because they are ignored with a note.
        """
        num_bytes = 0
        keys = self._keys(wanted)
        for row_group, ordinal in keys:
            chunk = self._file.footer.metadata.row_groups[row_group].columns[ordinal]
            for start, length in (
                (chunk.column_index_offset or 0, chunk.column_index_length or 0),
                (chunk.offset_index_offset or 0, chunk.offset_index_length or 0),
            ):
                if self._file.contains_range(row_group, ByteRange(start, start + length)):
                    num_bytes += length
        return ProofCost(num_bytes, 2 * len(keys))

    def evaluate(self, wanted: Wanted, savings: Savings) -> Iterator[Verdict]:
        """Read the missing parts of the page index, and evaluate conditions with it."""
        keys = self._keys(wanted)
        self._file.load_page_index(keys, keys)
        self._columns.clear()
        self._evaluated.clear()
        for row_group, ordinal in keys:
            self._evaluated.setdefault(ordinal, set()).add(row_group)
        return evaluate_conditions(self._file, self.name, self._judge, wanted)

    def _keys(self, wanted: Wanted) -> set[ChunkKey]:
        return {
            ChunkKey(row_group, leaf.ordinal)
            for condition, row_groups in wanted.items()
            if (leaf := self._leaf(condition)) is not None
            for row_group in np.flatnonzero(row_groups).tolist()
        }

    def keys(self, predicate: Condition, scope: RowSelection) -> list[ChunkKey]:
        """Return the chunks of the condition's column with a ColumnIndex, in row groups of ``scope``."""
        leaf, reach = self._leaf(predicate), self.reach(predicate)
        if leaf is None or reach is None:
            return []
        edges = self._file.footer.row_group_starts
        touched = np.flatnonzero(reach & scope.overlaps(edges[:-1], edges[1:])).tolist()
        return [ChunkKey(row_group, leaf.ordinal) for row_group in touched]

    def _judge(self, condition: Condition) -> Verdict:
        """Return the rows of pages that might match, and of row groups that are not evaluated."""
        pages = self._pages(condition)
        if pages is None:
            return Verdict(condition, None, None)
        verdict = judge_bounds(condition, pages.bounds)
        assert verdict.possible is not None
        return verdict._replace(possible=verdict.possible | pages.others)

    def _pages(self, predicate: Condition) -> _Pages | None:
        """Return the pages of the condition's column, or None if none of its ColumnIndexes is evaluated."""
        leaf = self._leaf(predicate)
        if leaf is None:
            return None
        if leaf.ordinal not in self._columns:
            edges = self._file.footer.row_group_starts
            absent = np.ones(len(edges) - 1, dtype=bool)
            loaded = []
            for row_group in sorted(self._evaluated.get(leaf.ordinal, ())):
                bounds = self.bounds(ChunkKey(row_group, leaf.ordinal))
                if bounds is not None:
                    loaded.append(bounds)
                    absent[row_group] = False
            others = RowSelection.union_of(edges[:-1][absent], edges[1:][absent])
            self._columns[leaf.ordinal] = _Pages(concat_bounds(loaded), others) if loaded else None
        return self._columns[leaf.ordinal]

    def _leaf(self, predicate: Condition) -> Leaf | None:
        leaf = self._file.leaves_by_path.get(predicate.path)
        return leaf if leaf is not None and leaf.is_flat else None

    def bounds(self, key: ChunkKey) -> Bounds | None:
        """Return the bounds of a chunk's pages from its loaded ColumnIndex."""
        if self._file.column_index(key) is None:
            return None
        return self._file.metadata.derived(("column index", key), lambda: self._read_bounds(key))

    def _read_bounds(self, key: ChunkKey) -> Bounds | None:
        index, locations = self._file.column_index(key), self._file.locations(key)
        assert index is not None
        if locations is None:
            return None
        leaf = self._file.footer.leaves[key.leaf]
        ordering = self._file.schema.ordering(leaf)
        if self._file.trust(leaf).doubt(Claim.NULL_COUNT) is not None:
            index = index._replace(null_counts=None)
        if leaf.max_definition_level == 0:  # a required column has no nulls
            index = index._replace(null_counts=[0] * len(locations))
        try:
            found = column_index_bounds(
                index, locations, ordering, int(self._file.footer.row_group_starts[key.row_group])
            )
        except CorruptFileError as error:
            self._file.distrust_column_index(key, error)
            return None
        try:
            self._compare(found, key, leaf, ordering)
        except CorruptFileError as error:  # which of the two is wrong is unknown
            self._file.distrust_bounds(key, error)
            return None
        return found

    def _compare(self, pages: Bounds, key: ChunkKey, leaf: Leaf, ordering: Ordering | None) -> None:
        """Compare the bounds of a chunk's pages with the statistics of the chunk."""
        statistics = column_statistics(self._file, leaf.path)
        if statistics is not None:
            is_exact = ordering is not None and bool(
                exact_bounds(self._file, leaf, ordering, [key.row_group])[key.row_group]
            )
            check_page_bounds(pages, statistics, key.row_group, is_exact=is_exact)


def column_index_bounds(
    index: ColumnIndex, locations: PageLocations, ordering: Ordering | None, first_row: int
) -> Bounds:
    """Convert a ColumnIndex to bounds.

    Args:
        index: The ColumnIndex.
        locations: The locations of its pages.
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
    no_bounds = np.array(
        [not low and not high for low, high in zip(index.min_values, index.max_values, strict=True)],
        dtype=bool,
    )
    _reject(null_counts > rows, "has more nulls than rows", "null-count")
    not_all_null = null_pages & (null_counts != UNKNOWN) & (null_counts != rows)
    _reject(not_all_null, "is a null page, but not all of its rows are null", "null-page")
    _reject(null_pages & (null_counts == UNKNOWN) & ~no_bounds, "is a null page with bounds", "null-page")
    # a null page with bounds is not trusted to be all null, but its null count is
    all_null = null_pages & no_bounds
    nan_counts = np.zeros(len(rows), dtype=np.int64)
    if ordering is not None and ordering.is_float:
        nan_counts[:] = index.nan_counts if index.nan_counts else UNKNOWN
    bounded = np.flatnonzero(~null_pages & ~(no_bounds if ordering and not ordering.is_bytes else False))
    low = high = np.empty(0, dtype=object)
    if ordering is not None:
        low, high = ordering.decode_pages(index, bounded.tolist())
        is_reversed = np.asarray(low > high, dtype=bool)
        _reject(is_reversed, "has a lower bound above its upper bound", "bounds-reversed", bounded)
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


def _reject(wrong: Bools, problem: str, reason: str, pages: npt.NDArray[np.int64] | None = None) -> None:
    """Raise an error that names the first wrong page."""
    if wrong.any():
        first = int(np.argmax(wrong))
        page = first if pages is None else pages[first]
        raise CorruptFileError(f"page {page} {problem}", reason=reason, struct="ColumnIndex")


def concat_bounds(parts: Sequence[Bounds]) -> Bounds:
    """Concatenate bounds of consecutive granules of one leaf.

    Args:
        parts: The bounds, at least one, all of the same ordering.
    """
    if len(parts) == 1:
        return parts[0]
    joined = {
        name: np.concatenate([getattr(part, name) for part in parts])
        for name in (
            "starts",
            "stops",
            "known",
            "minima",
            "maxima",
            "null_counts",
            "nan_counts",
            "all_null",
        )
    }
    is_known = parts[0].ordering is not None and bool(joined["known"].all())
    order = boundary_order(joined["minima"], joined["maxima"]) if is_known else BoundaryOrder.UNORDERED
    return Bounds(parts[0].ordering, **joined, order=order)


# --- contradictions between the statistics of a column chunk and the bounds of its pages ----------------
# Bounds may be truncated, so lower bounds may be below all values, and upper bounds above them. There is a
# contradiction only if no values fit both.


def check_page_bounds(pages: Bounds, chunk: Bounds, row_group: int, *, is_exact: bool) -> None:
    """Compare the bounds of the pages of a chunk with the statistics of the chunk.

    Args:
        pages: The bounds of all pages of the chunk.
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
        ("nulls", pages.null_counts, all_nulls, chunk.null_counts[row_group]),
        ("NaNs", pages.nan_counts, np.zeros_like(all_nulls), chunk.nan_counts[row_group]),
    ):
        _check_counts(what, of_pages, least, int(of_chunk))
    if chunk.known[row_group] and pages.known.any():
        # arrays of one key, because NumPy drops zero bytes at the end of a single one
        group = slice(row_group, row_group + 1)
        _check_bounds(pages, chunk.minima[group], chunk.maxima[group], is_exact=is_exact)


def _check_counts(
    what: str, of_pages: npt.NDArray[np.int64], least: npt.NDArray[np.int64], of_chunk: int
) -> None:
    """Compare counts of pages with that of the chunk; negative ones are unknown, but at least ``least``."""
    total = int(np.where(of_pages < 0, least, of_pages).sum())
    if of_chunk >= 0 and (total > of_chunk or (total < of_chunk and (of_pages >= 0).all())):
        _refuse(f"the pages have {total} {what}, but the statistics count {of_chunk}")


def _check_bounds(pages: Bounds, low: Keys, high: Keys, *, is_exact: bool) -> None:
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
