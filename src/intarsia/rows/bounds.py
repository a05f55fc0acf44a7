"""One evaluator for everything that knows bounds.

Row-group statistics, a column index, a zone map: all present what they know in one columnar form over
granules (`Bounds`), and the same vectorized code judges pages and row groups, all at once.

The verdicts (after DataFusion's pruning contract: *false only if provable*):

- `might_match`: False for a granule only if no row in it can meet the predicate.
- `surely_matches`: True for a granule only if every row in it meets the predicate.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt

from intarsia.format.structs import BoundaryOrder
from intarsia.predicate.bound import BoundCompare, BoundIn, BoundMatch, BoundNull, BoundPrefix, Condition
from intarsia.rows.ordering import ArrowOrdering, Keys, successor

Bools = npt.NDArray[np.bool_]
Counts = npt.NDArray[np.int64]

#: A count that is not known.
UNKNOWN = -1


@dataclass(frozen=True)
class Bounds:
    """What is known of one leaf over a row of granules; all arrays have one length.

    Attributes:
        ordering: How the leaf's keys compare; None if they do not, and then only counts are known.
        starts, stops: Rows of each granule, in the file's numbering.
        known: Whether ``minima`` and ``maxima`` hold bounds for the granule.
        minima, maxima: Keys that no value (NaN aside) is below or above; arbitrary where not known.
        null_counts: Nulls in each granule, or `UNKNOWN`.
        nan_counts: NaNs in each granule, or `UNKNOWN`; zero for types without NaN.
        all_null: Whether the granule surely holds nothing but nulls.
        order: Whether both bounds are monotone over the granules, which allows binary search; only
            claimed when it was checked.
    """

    ordering: ArrowOrdering | None
    starts: Counts
    stops: Counts
    known: Bools
    minima: Keys
    maxima: Keys
    null_counts: Counts
    nan_counts: Counts
    all_null: Bools
    order: BoundaryOrder = BoundaryOrder.UNORDERED

    def __len__(self) -> int:
        return len(self.starts)


def boundary_order(minima: Keys, maxima: Keys) -> BoundaryOrder:
    """The order in which both bounds are monotone; ascending if both are constant.

    Example:
        >>> boundary_order(np.array([1, 3, 3]), np.array([2, 3, 9])).name
        'ASCENDING'
    """
    if (minima[1:] >= minima[:-1]).all() and (maxima[1:] >= maxima[:-1]).all():
        return BoundaryOrder.ASCENDING
    if (minima[1:] <= minima[:-1]).all() and (maxima[1:] <= maxima[:-1]).all():
        return BoundaryOrder.DESCENDING
    return BoundaryOrder.UNORDERED


def might_match(leaf: Condition, bounds: Bounds) -> Bools:
    """For each granule, False only if no row of it can meet ``leaf``."""
    if isinstance(leaf, BoundNull):
        return ~bounds.all_null if leaf.negated else (bounds.null_counts != 0) | bounds.all_null
    possible = ~bounds.all_null  # from here on a null never matches
    if bounds.ordering is None:
        return possible
    inside = _might_hold(leaf, bounds)
    if inside is None:
        return possible
    if leaf.or_nan:  # bounds leave NaN out
        return possible & (inside | ~bounds.known | (bounds.nan_counts != 0))
    return _truth(possible & (inside | ~bounds.known) & ~_no_numbers(bounds))


def surely_matches(leaf: Condition, bounds: Bounds) -> Bools:
    """For each granule, True only if every row of it meets ``leaf``."""
    no_null = bounds.null_counts == 0
    if isinstance(leaf, BoundNull):
        return no_null & ~bounds.all_null if leaf.negated else bounds.all_null
    if bounds.ordering is None:
        return np.zeros(len(bounds), dtype=bool)
    holds = _surely_holds(leaf, bounds)
    if holds is None:
        return np.zeros(len(bounds), dtype=bool)
    if not leaf.or_nan:
        return _truth(holds & bounds.known & (bounds.nan_counts == 0) & no_null & ~bounds.all_null)
    return _truth((holds & bounds.known | _no_numbers(bounds)) & no_null & ~bounds.all_null)


def _no_numbers(bounds: Bounds) -> Bools:
    """Whether every value of a granule is NaN or null; bounds would contradict that."""
    is_full = bounds.null_counts + bounds.nan_counts == bounds.stops - bounds.starts
    return _truth(is_full & (bounds.null_counts != UNKNOWN) & (bounds.nan_counts > 0) & ~bounds.known)


def _might_hold(leaf: Condition, bounds: Bounds) -> Bools | None:
    """Whether some key between a granule's bounds could meet the leaf; None if bounds cannot tell."""
    assert bounds.ordering is not None
    low, high = bounds.minima, bounds.maxima
    match leaf:
        case BoundCompare(op=op, value=value):
            key = bounds.ordering.cell(bounds.ordering.key(value))
            if op == "<>":
                return ~_truth((low == key) & (high == key))
            low_end = None if op in ("<", "<=") else key
            return _between(bounds, low_end, None if op in (">", ">=") else key, op)
        case BoundIn(negated=negated):
            keys = _sorted_keys(bounds.ordering, leaf)
            if negated:
                return ~(_truth(low == high) & _listed(keys, low))
            return np.searchsorted(keys, low, side="left") < np.searchsorted(keys, high, side="right")
        case BoundPrefix(prefix=prefix, negated=negated):
            first, after = _prefix_cells(bounds.ordering, prefix)
            if negated:
                return ~_truth((low >= first) & ((high < after) if after is not None else True))
            return _between(bounds, first, after, "[)")
        case BoundMatch(prefix=prefix, negated=False) if prefix:
            return _between(bounds, *_prefix_cells(bounds.ordering, prefix), "[)")
    return None


def _between(bounds: Bounds, low: Any, high: Any, op: str) -> Bools:
    """Granules that may hold a key of the interval: from ``low`` (None: no lower end) to ``high``.

    The interval is open at an end where ``op`` says so: ``<`` and ``[)`` exclude ``high``, ``>``
    excludes ``low``.
    """
    minima, maxima = bounds.minima, bounds.maxima
    before, after = ("left" if op in ("<", "[)") else "right"), ("right" if op == ">" else "left")
    if bounds.order == BoundaryOrder.UNORDERED or not bounds.known.all():
        inside = np.ones(len(bounds), dtype=bool)
        if high is not None:
            inside &= _truth(minima < high if before == "left" else minima <= high)
        if low is not None:
            inside &= _truth(maxima > low if after == "right" else maxima >= low)
        return inside
    if bounds.order == BoundaryOrder.DESCENDING:
        minima, maxima = minima[::-1], maxima[::-1]
    first = 0 if low is None else int(np.searchsorted(maxima, low, side=after))  # type: ignore[call-overload]
    last = len(bounds) if high is None else int(np.searchsorted(minima, high, side=before))  # type: ignore[call-overload]
    inside = np.zeros(len(bounds), dtype=bool)
    inside[first:last] = True
    return inside[::-1] if bounds.order == BoundaryOrder.DESCENDING else inside


def _surely_holds(leaf: Condition, bounds: Bounds) -> Bools | None:
    """Whether every key between a granule's bounds meets the leaf; None if bounds cannot tell."""
    assert bounds.ordering is not None
    low, high = bounds.minima, bounds.maxima
    match leaf:
        case BoundCompare(op=op, value=value):
            key = bounds.ordering.cell(bounds.ordering.key(value))
            match op:
                case "=":
                    return _truth((low == key) & (high == key))
                case "<>":
                    return _truth((high < key) | (low > key))
                case "<":
                    return _truth(high < key)
                case "<=":
                    return _truth(high <= key)
                case ">":
                    return _truth(low > key)
                case ">=":
                    return _truth(low >= key)
        case BoundIn(negated=negated):
            keys = _sorted_keys(bounds.ordering, leaf)
            if negated:
                return np.asarray(
                    np.searchsorted(keys, low, side="left") == np.searchsorted(keys, high, side="right")
                )
            return _truth(low == high) & _listed(keys, low)
        case BoundPrefix(prefix=prefix, negated=negated):
            first, after = _prefix_cells(bounds.ordering, prefix)
            if negated:
                return _truth((high < first) | ((low >= after) if after is not None else False))
            return _truth((low >= first) & ((high < after) if after is not None else True))
    return None


def _sorted_keys(ordering: ArrowOrdering, leaf: BoundIn) -> Keys:
    return np.sort(ordering.keys(leaf.values))


def _listed(keys: Keys, wanted: Keys) -> Bools:
    """Whether each wanted key is among the sorted ``keys``."""
    place = np.minimum(np.searchsorted(keys, wanted), len(keys) - 1)
    return _truth(keys[place] == wanted)


def _prefix_cells(ordering: ArrowOrdering, prefix: bytes) -> tuple[Keys, Keys | None]:
    """The interval of keys that start with ``prefix``."""
    after = successor(prefix)
    return ordering.cell(prefix), None if after is None else ordering.cell(after)


def _truth(verdict: Any) -> Bools:
    """Comparisons of object arrays give objects; these are booleans."""
    return np.asarray(verdict, dtype=bool)
