"""The page index as bounds over the pages of a column, row group by row group."""

from __future__ import annotations

import numpy as np
import numpy.typing as npt

from intarsia.errors import CorruptFileError
from intarsia.file import ChunkKey, ParquetInput
from intarsia.format.footer import Leaf
from intarsia.format.page_index import PageLocations
from intarsia.format.structs import ColumnIndex
from intarsia.format.writers import distrusts_null_counts
from intarsia.indexes.statistics import bounds_of_keys, column_order_is_known
from intarsia.predicate.bound import Condition
from intarsia.rows.bounds import UNKNOWN, Bools, Bounds, might_match, surely_matches
from intarsia.rows.ordering import Ordering, ordering_for
from intarsia.rows.selection import RowSelection


class ColumnIndexes:
    """The column indexes of a file, as an index; row groups without one cannot be told."""

    def __init__(self, file: ParquetInput) -> None:
        self._file = file
        self._bounds: dict[ChunkKey, Bounds | None] = {}

    def keys(self, predicate: Condition, scope: RowSelection) -> list[ChunkKey]:
        """Chunks of the predicate's column that have a column index, in row groups that ``scope`` touches."""
        leaf = self._leaf(predicate)
        if leaf is None or not column_order_is_known(self._file.footer, leaf):
            return []
        edges = self._file.footer.row_group_starts
        touched = np.flatnonzero(scope.overlaps(edges[:-1], edges[1:])).tolist()
        keys = (ChunkKey(row_group, leaf.ordinal) for row_group in touched)
        return [key for key in keys if self._file.has_column_index(key)]

    def candidate_rows(self, predicate: Condition) -> RowSelection | None:
        """Rows of the pages that might match, and of row groups whose column index was not loaded."""
        return self._judge(predicate, sure=False)

    def certain_rows(self, predicate: Condition) -> RowSelection | None:
        """Rows of the pages that match as a whole."""
        return self._judge(predicate, sure=True)

    def _judge(self, predicate: Condition, *, sure: bool) -> RowSelection | None:
        leaf = self._leaf(predicate)
        if leaf is None:
            return None
        starts, stops = [], []
        told = False
        edges = self._file.footer.row_group_starts
        for row_group in range(len(edges) - 1):
            bounds = self.bounds(ChunkKey(row_group, leaf.ordinal))
            if bounds is not None:
                told = True
                hit = surely_matches(predicate, bounds) if sure else might_match(predicate, bounds)
                starts.append(bounds.starts[hit])
                stops.append(bounds.stops[hit])
            elif not sure:
                starts.append(edges[row_group : row_group + 1])
                stops.append(edges[row_group + 1 : row_group + 2])
        return (
            RowSelection.union_of(np.concatenate(starts), np.concatenate(stops)) if told and starts else None
        )

    def _leaf(self, predicate: Condition) -> Leaf | None:
        leaf = self._file.leaves_by_path.get(predicate.path)
        return leaf if leaf is not None and leaf.is_flat else None

    def bounds(self, key: ChunkKey) -> Bounds | None:
        """What a loaded column index says of a chunk's pages."""
        if self._file.column_index(key) is None:
            return None
        if key not in self._bounds:
            self._bounds[key] = self._read_bounds(key)
        return self._bounds[key]

    def _read_bounds(self, key: ChunkKey) -> Bounds | None:
        index, locations = self._file.column_index(key), self._file.locations(key)
        assert index is not None
        if locations is None:
            return None
        leaf = self._file.footer.leaves[key.leaf]
        ordering = ordering_for(leaf, self._file.leaf_types[leaf.ordinal])
        if distrusts_null_counts(self._file.footer.created_by, leaf):
            index = index._replace(null_counts=None)
        try:
            return column_index_bounds(
                index, locations, ordering, int(self._file.footer.row_group_starts[key.row_group])
            )
        except CorruptFileError as error:
            self._file.distrust_column_index(key, error.message)
            return None


def column_index_bounds(
    index: ColumnIndex, locations: PageLocations, ordering: Ordering | None, first_row: int
) -> Bounds:
    """A column index as bounds.

    Args:
        index: The column index.
        locations: The pages that it is about.
        ordering: How the leaf's keys compare, or None.
        first_row: First row of the row group, in the file's numbering.

    Raises:
        CorruptFileError: If it contradicts itself or the pages, and is therefore not to be used at all.
    """
    rows = locations.row_stops - locations.row_starts
    null_counts = np.full(len(rows), UNKNOWN, dtype=np.int64)
    if index.null_counts:
        null_counts[:] = index.null_counts
    null_pages = np.array(index.null_pages, dtype=bool)
    no_bounds = np.array(
        [not low and not high for low, high in zip(index.min_values, index.max_values, strict=True)],
        dtype=bool,
    )
    _refuse(null_counts > rows, "counts more nulls than it has rows")
    _refuse(null_pages & (null_counts != UNKNOWN) & (null_counts != rows), "is a null page, and not all null")
    _refuse(null_pages & (null_counts == UNKNOWN) & ~no_bounds, "is a null page, and has bounds")
    # a null page that carries bounds is not believed, though its nulls are counted
    all_null = null_pages & no_bounds
    nan_counts = np.zeros(len(rows), dtype=np.int64)
    if ordering is not None and ordering.is_float:
        nan_counts[:] = index.nan_counts if index.nan_counts else UNKNOWN
    bounded = np.flatnonzero(~null_pages & ~(no_bounds if ordering and not ordering.is_bytes else False))
    low = high = np.empty(0, dtype=object)
    if ordering is not None:
        low, high = ordering.decode_pages(index, bounded.tolist())
        _refuse(np.asarray(low > high, dtype=bool), "has a lower bound above its upper one", bounded)
    return bounds_of_keys(
        ordering,
        locations.row_starts + first_row,
        locations.row_stops + first_row,
        bounded,
        low,
        high,
        null_counts,
        nan_counts,
        all_null,
    )


def _refuse(wrong: Bools, what: str, pages: npt.NDArray[np.int64] | None = None) -> None:
    """Raise if anything is wrong with a page, and say which page it is."""
    if wrong.any():
        first = int(np.argmax(wrong))
        raise CorruptFileError(
            f"page {first if pages is None else pages[first]} {what}", struct="ColumnIndex"
        )
