"""Row-group statistics as bounds over the row groups of a file; they cost no I/O, the footer holds them."""

from __future__ import annotations

import numpy as np

from intarsia.errors import CorruptFileError
from intarsia.file import ParquetInput
from intarsia.format.footer import Footer, Leaf
from intarsia.format.structs import BoundaryOrder, Statistics
from intarsia.format.writers import (
    distrusts_deprecated_statistics,
    distrusts_null_counts,
    distrusts_statistics,
)
from intarsia.predicate.bound import Condition
from intarsia.rows.bounds import UNKNOWN, Bounds, boundary_order, might_match, surely_matches
from intarsia.rows.ordering import Keys, Ordering, ordering_for
from intarsia.rows.selection import RowSelection


class RowGroupStatistics:
    """The statistics of a file's row groups, as an index."""

    def __init__(self, file: ParquetInput) -> None:
        self._file = file
        self._bounds: dict[int, Bounds] = {}

    def candidate_rows(self, predicate: Condition) -> RowSelection | None:
        """Rows of the row groups that might match."""
        bounds = self.bounds(predicate)
        return None if bounds is None else _rows(bounds, might_match(predicate, bounds))

    def certain_rows(self, predicate: Condition) -> RowSelection | None:
        """Rows of the row groups that match as a whole."""
        bounds = self.bounds(predicate)
        return None if bounds is None else _rows(bounds, surely_matches(predicate, bounds))

    def bounds(self, predicate: Condition) -> Bounds | None:
        """What the statistics say of the predicate's column."""
        leaf = self._file.leaves_by_path.get(predicate.path)
        if leaf is None or not leaf.is_flat:
            return None
        if leaf.ordinal not in self._bounds:
            ordering = ordering_for(leaf, self._file.leaf_types[leaf.ordinal])
            self._bounds[leaf.ordinal] = statistics_bounds(self._file.footer, leaf, ordering)
        return self._bounds[leaf.ordinal]


def statistics_bounds(footer: Footer, leaf: Leaf, ordering: Ordering | None) -> Bounds:
    """The statistics of a flat leaf, over all row groups."""
    groups = len(footer.metadata.row_groups)
    null_counts = np.full(groups, UNKNOWN, dtype=np.int64)
    nan_counts = np.full(groups, UNKNOWN if ordering and ordering.is_float else 0, dtype=np.int64)
    all_null = np.zeros(groups, dtype=bool)
    lows: list[bytes] = []
    highs: list[bytes] = []
    bounded: list[int] = []
    for ordinal, group in enumerate(footer.metadata.row_groups):
        meta = group.columns[leaf.ordinal].meta_data
        statistics = meta.statistics if meta is not None else None
        if statistics is None:
            continue
        pair = _believed_pair(footer, leaf, statistics)
        nulls = None if distrusts_null_counts(footer.created_by, leaf) else statistics.null_count
        # some writers put 0 for "not counted" where they write no bounds either
        if nulls is not None and 0 <= nulls <= group.num_rows and (nulls or _has_bounds(statistics)):
            null_counts[ordinal] = nulls
            all_null[ordinal] = nulls == group.num_rows
        if (
            statistics.nan_count is not None
            and 0 <= statistics.nan_count <= group.num_rows
            and nan_counts[ordinal]
        ):
            nan_counts[ordinal] = statistics.nan_count
        if ordering is not None and pair is not None:
            bounded.append(ordinal)
            lows.append(pair[0])
            highs.append(pair[1])
    edges = footer.row_group_starts
    minima, maxima = _decoded(ordering, lows, highs)
    places = np.array(bounded if len(minima) else [], dtype=np.int64)
    return bounds_of_keys(
        ordering, edges[:-1], edges[1:], places, minima, maxima, null_counts, nan_counts, all_null
    )


def _decoded(ordering: Ordering | None, lows: list[bytes], highs: list[bytes]) -> tuple[Keys, Keys]:
    """Bounds as keys; none, if there are some of a wrong length."""
    nothing = np.empty(0, dtype=object)
    if ordering is None:
        return nothing, nothing
    try:
        return ordering.decode(lows), ordering.decode(highs)
    except CorruptFileError:
        return nothing, nothing


def bounds_of_keys(
    ordering: Ordering | None,
    starts: np.ndarray,
    stops: np.ndarray,
    bounded: np.ndarray,
    low: Keys,
    high: Keys,
    null_counts: np.ndarray,
    nan_counts: np.ndarray,
    all_null: np.ndarray,
) -> Bounds:
    """Bounds over granules; those that are NaN or contradict each other are left out.

    Args:
        ordering: How the leaf's keys compare, or None.
        starts: First row of each granule.
        stops: Row after the last of each granule.
        bounded: Ordinals of the granules that have bounds.
        low: Lower bounds of those granules.
        high: Upper bounds, likewise.
        null_counts: See `Bounds`.
        nan_counts: See `Bounds`.
        all_null: See `Bounds`.
    """
    count = len(starts)
    dtype = ordering.dtype if ordering is not None else np.dtype(np.int64)
    minima = np.zeros(count, dtype=dtype)
    maxima = np.zeros(count, dtype=dtype)
    if ordering is not None and ordering.is_bytes:
        minima[:] = maxima[:] = b""
    known = np.zeros(count, dtype=bool)
    order = BoundaryOrder.UNORDERED
    if ordering is not None and len(bounded):
        sound = np.asarray(low <= high, dtype=bool)  # false for NaN, too
        places = bounded[sound]
        minima[places], maxima[places], known[places] = low[sound], high[sound], True
        if known.all():
            order = boundary_order(minima, maxima)
    return Bounds(
        ordering, starts, stops, known, minima, maxima, null_counts, nan_counts, all_null & ~known, order
    )


def column_order_is_known(footer: Footer, leaf: Leaf) -> bool:
    """Whether the footer says that bounds of this leaf follow an order that is known here."""
    orders = footer.metadata.column_orders
    if orders is None:
        return False
    order = orders[leaf.ordinal]
    return order.TYPE_ORDER is not None or order.IEEE_754_TOTAL_ORDER is not None


def _has_bounds(statistics: Statistics) -> bool:
    return any(
        bound is not None
        for bound in (statistics.min, statistics.max, statistics.min_value, statistics.max_value)
    )


def _believed_pair(footer: Footer, leaf: Leaf, statistics: Statistics) -> tuple[bytes, bytes] | None:
    low, high = statistics.min_value, statistics.max_value
    if low is not None and high is not None:
        if column_order_is_known(footer, leaf) and not distrusts_statistics(footer.created_by, leaf):
            return low, high
        return None
    low, high = statistics.min, statistics.max
    if low is not None and high is not None and not distrusts_deprecated_statistics(leaf):
        return low, high
    return None


def _rows(bounds: Bounds, hit: np.ndarray) -> RowSelection:
    return RowSelection.union_of(bounds.starts[hit], bounds.stops[hit])
