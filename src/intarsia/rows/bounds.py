"""The evaluator for bounds.

Row-group statistics, column indexes and zone maps all present their bounds as `Bounds`, in columnar form over
granules. The same vectorized code evaluates a condition on all pages or row groups at once.

There are two questions (as in DataFusion's pruning contract, *false only if provable*):

- `might_match` is False for a granule only if none of its rows can match the condition.
- `certainly_matches` is True for a granule only if all of its rows match the condition.
"""

from __future__ import annotations

from functools import lru_cache
from typing import Any

import numpy as np
import numpy.typing as npt

from intarsia.format.enums import BoundaryOrder
from intarsia.predicate.bound import BoundCompare, BoundIn, BoundMatch, BoundNull, BoundPrefix, Condition
from intarsia.predicate.nodes import OPPOSITE
from intarsia.records import dataclass
from intarsia.rows.ordering import ArrowOrdering, Keys, successor

Bools = npt.NDArray[np.bool_]
Counts = npt.NDArray[np.int64]

#: An unknown count.
UNKNOWN = -1

#: The number of lists whose sorted keys are cached.
_REMEMBERED_LISTS = 16


@dataclass(frozen=True)
class Bounds:
    """The bounds and counts of one leaf column over consecutive granules. All arrays have equal length.

    Attributes:
        ordering: The order of the leaf's keys. None if the type has no order; then only counts are known.
        starts, stops: The row range of each granule, as row ordinals of the file.
        known: Whether the granule has bounds in ``minima`` and ``maxima``.
        minima, maxima: Keys that no value other than NaN is below or above. Arbitrary if not known.
        null_counts: The number of nulls in each granule, or `UNKNOWN`.
        nan_counts: The number of NaNs in each granule, or `UNKNOWN`. Zero for types without NaN.
        all_null: Whether the granule is proven to contain only nulls.
        order: The order in which both bounds are monotone over the granules, which allows binary search. It
            is checked, not copied from the file.
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
    """Return the order in which both bounds are monotone, ascending if both are constant.

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
    """Return, for each granule, False only if none of its rows can match ``leaf``."""
    if isinstance(leaf, BoundNull):
        return ~bounds.all_null if leaf.negated else (bounds.null_counts != 0) | bounds.all_null
    possible: Bools = ~bounds.all_null  # nulls match none of the remaining conditions
    inside = _any_key_matches(leaf, bounds)
    if inside is None:
        return possible
    possible &= inside | ~bounds.known | (leaf.or_nan and bounds.nan_counts != 0)  # bounds ignore NaN
    has_nan = not leaf.or_nan and bounds.ordering is not None and bounds.ordering.is_float
    return possible & ~_no_numbers(bounds) if has_nan else possible


def certainly_matches(leaf: Condition, bounds: Bounds) -> Bools:
    """Return, for each granule, True only if all of its rows match ``leaf``."""
    has_no_null: Bools = (bounds.null_counts == 0) & ~bounds.all_null
    if isinstance(leaf, BoundNull):
        return has_no_null if leaf.negated else bounds.all_null
    contrary = _any_key_matches(leaf, bounds, negate=True)
    if contrary is None:
        return np.zeros(len(bounds), dtype=bool)
    all_match = bounds.known & ~contrary
    if leaf.or_nan:
        return has_no_null & (all_match | _no_numbers(bounds))
    has_no_nan: Bools = bounds.nan_counts == 0
    return has_no_null & has_no_nan & all_match


def _no_numbers(bounds: Bounds) -> Bools:
    """Return the granules without bounds in which every value is NaN or null."""
    is_full = bounds.null_counts + bounds.nan_counts == bounds.stops - bounds.starts
    found: Bools = is_full & (bounds.null_counts != UNKNOWN) & (bounds.nan_counts > 0) & ~bounds.known
    return found


def _any_key_matches(leaf: Condition, bounds: Bounds, *, negate: bool = False) -> Bools | None:
    """Return whether any key between a granule's bounds matches the leaf, or None if bounds do not decide.

    Args:
        negate: Whether a key matches if the condition is false for it.
    """
    ordering, low, high = bounds.ordering, bounds.minima, bounds.maxima
    if ordering is None:
        return None
    match leaf:
        case BoundCompare(op=op, value=value):
            op = OPPOSITE[op] if negate else op
            key = ordering.cell(ordering.key(value))
            if op == "<>":
                return np.asarray((low != key) | (high != key), dtype=bool)
            low_end = None if op in ("<", "<=") else key
            return _between(bounds, low_end, None if op in (">", ">=") else key, op)
        case BoundIn(negated=negated):
            keys = _sorted_keys(ordering, leaf)
            first = np.searchsorted(keys, low, side="left")
            if negated is not negate:
                return np.asarray((low != high) | (keys[np.minimum(first, len(keys) - 1)] != low), dtype=bool)
            last = np.searchsorted(keys, high, side="right")
            # the bounds of a granule of only NaN may be an empty interval, which decides nothing about a list
            return np.asarray(first != last if negate else first < last)
        case BoundPrefix(prefix=prefix, negated=negated) | BoundMatch(prefix=prefix, negated=negated):
            if isinstance(leaf, BoundMatch) and (negated or negate or not prefix):
                return None  # a key with the prefix may match or not
            end = successor(prefix)
            first, after = ordering.cell(prefix), None if end is None else ordering.cell(end)
            if negated is negate:
                return _between(bounds, first, after, "[)")
            return np.asarray((low < first) | (False if after is None else high >= after), dtype=bool)
    return None


def _between(bounds: Bounds, low: Any, high: Any, op: str) -> Bools:
    """Return the granules that may have a key from ``low`` to ``high``. None means an open end.

    ``op`` excludes an end of the interval: ``<`` and ``[)`` exclude ``high``, ``>`` excludes ``low``.
    """
    minima, maxima = bounds.minima, bounds.maxima
    before, after = ("left" if op in ("<", "[)") else "right"), ("right" if op == ">" else "left")
    inside: Bools
    if bounds.order == BoundaryOrder.UNORDERED or not bounds.known.all():
        inside = np.ones(len(bounds), dtype=bool)
        if high is not None:
            inside &= minima < high if before == "left" else minima <= high
        if low is not None:
            inside &= maxima > low if after == "right" else maxima >= low
        return inside
    if bounds.order == BoundaryOrder.DESCENDING:
        minima, maxima = minima[::-1], maxima[::-1]
    first = 0 if low is None else int(maxima.searchsorted(low, side=after))  # type: ignore[call-overload]
    last = len(bounds) if high is None else int(minima.searchsorted(high, side=before))  # type: ignore[call-overload]
    inside = np.zeros(len(bounds), dtype=bool)
    inside[first:last] = True
    return inside[::-1] if bounds.order == BoundaryOrder.DESCENDING else inside


def chances_of_absence(
    leaf: Condition, bounds: Bounds | None, num_distinct: Counts
) -> npt.NDArray[np.float64] | None:
    """Estimate the probability that a granule has no value of a list, if it lacks the first of them.

    Distinct integers are assumed to be spread evenly between the bounds.

    Args:
        bounds: The bounds of the column; None if they are not known.
        num_distinct: The number of distinct values in each granule, or more.

    Returns:
        The probability for each granule, 1 for a condition without a list; None if it is unknown.
    """
    if not isinstance(leaf, BoundIn) or leaf.negated:
        return np.ones(len(num_distinct))
    ordering = None if bounds is None else bounds.ordering
    if bounds is None or ordering is None or ordering.dtype.kind not in "iu" or not bounds.known.all():
        return None
    width = bounds.maxima.astype(np.float64) - bounds.minima.astype(np.float64) + 1
    share = np.clip(num_distinct / np.maximum(width, 1), 0, 1)
    keys = _sorted_keys(ordering, leaf)
    before = np.searchsorted(keys, bounds.minima, side="left")
    others_within = np.searchsorted(keys, bounds.maxima, side="right") - before - 1
    return np.asarray((1 - share) ** np.maximum(others_within, 0))


@lru_cache(maxsize=_REMEMBERED_LISTS)
def _sorted_keys(ordering: ArrowOrdering, leaf: BoundIn) -> Keys:
    """Return the keys of a list, for all granules and all files with the same column."""
    keys = np.sort(ordering.keys(leaf.values))
    keys.setflags(write=False)
    return keys
