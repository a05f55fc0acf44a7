"""Membership of integers in a long list, by a table of the hashes of its values.

Most rows of a column are in no list. A lookup in a small table proves this for almost all of them in a
fraction of the time that Arrow's ``is_in`` takes, and the others are searched in the sorted list.
"""

from __future__ import annotations

from functools import lru_cache
from typing import Final

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from intarsia.predicate.bound import BoundIn

#: Lists with fewer values, and columns with fewer, are left to Arrow.
_MIN_VALUES: Final = 64
_MIN_ROWS: Final = 1024

#: Longer lists are left to Arrow, because their table would exceed the caches of a core.
_MAX_VALUES: Final = 1 << 15

#: If a larger share of the first rows is likely in the list, Arrow takes less time.
_MAX_FOUND: Final = 1 / 8

#: The minimum number of slots of a table per value. At most 1 row in 32 is then searched without a match.
_SLOTS_PER_VALUE: Final = 32

#: Multiplication by this odd number spreads values over the upper bits (the golden ratio in 64 bits).
_SPREAD: Final = np.uint64(0x9E3779B97F4A7C15)

_REMEMBERED: Final = 16


def integer_membership(leaf: BoundIn, values: pa.Array) -> pa.BooleanArray | None:
    """Return which values are in a list; None if Arrow is to evaluate it.

    Args:
        leaf: The list; whether it is negated is ignored.
        values: Values of the type of the list.

    Example:
        >>> hundreds = BoundIn(("x",), pa.int64(), pa.array(range(0, 10_000, 100)))
        >>> found = integer_membership(hundreds, pa.array(range(2_000)))
        >>> found.to_numpy(zero_copy_only=False).nonzero()[0].tolist()[:3]
        [0, 100, 200]
        >>> integer_membership(hundreds, pa.array([1, 2])) is None  # it is too short
        True
    """
    if not _MIN_VALUES <= len(leaf.values) <= _MAX_VALUES or len(values) < _MIN_ROWS:
        return None
    if values.null_count or not pa.types.is_integer(values.type) or values.type != leaf.values.type:
        return None
    table, shift, among = _table_of(leaf)
    numbers = values.to_numpy()
    if np.count_nonzero(table[_slots(numbers[:_MIN_ROWS], shift)]) > _MIN_ROWS * _MAX_FOUND:
        return None
    found = table[_slots(numbers, shift)]
    positions = np.flatnonzero(found)
    wanted = numbers[positions]
    nearest = np.minimum(np.searchsorted(among, wanted), len(among) - 1)
    found[positions] = among[nearest] == wanted
    return pa.array(found)


@lru_cache(maxsize=_REMEMBERED)
def _table_of(leaf: BoundIn) -> tuple[npt.NDArray[np.bool_], np.uint64, npt.NDArray[np.integer]]:
    """Return the table of a list, the shift that makes slots of hashes, and the sorted values."""
    among = leaf.values.to_numpy()
    bits = (len(among) * _SLOTS_PER_VALUE - 1).bit_length()
    shift = np.uint64(64 - bits)
    table = np.zeros(1 << bits, dtype=bool)
    table[_slots(among, shift)] = True
    return table, shift, among


def _slots(numbers: npt.NDArray[np.integer], shift: np.uint64) -> npt.NDArray[np.uint64]:
    slots = numbers.astype(np.uint64) * _SPREAD
    slots >>= shift
    return slots
