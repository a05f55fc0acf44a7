"""Keys of rows along a space-filling curve, which store rows with similar values in several columns together.

Each column is first reduced to ranks: the buckets of its values among bounds that divide a sample into parts
of equal size. So columns of any type and distribution have the same weight. The ranks of a row are the
coordinates of a cell in a grid, and the key is the position of this cell on the curve.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from itertools import pairwise
from typing import TypeAlias

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc

from intarsia.arrow.comparison import comparison_array, comparison_type, sortable_type

Ranks: TypeAlias = npt.NDArray[np.int64]

#: Computes keys from the ranks of each column and the number of bits of a rank.
Curve: TypeAlias = Callable[[Sequence[Ranks], int], Ranks]

#: The bits of all ranks of a row have to fit into a positive 64-bit integer.
_KEY_BITS = 63

#: More bits would not separate pages of lakes below a trillion rows, and take more time.
_MAX_BITS = 12

#: Maximum number of columns of a key; each needs at least a few bits.
MAX_COLUMNS = 8


def bits_per_column(num_columns: int) -> int:
    """Return the number of bits of a rank.

    Example:
        >>> bits_per_column(2), bits_per_column(8)
        (12, 7)
    """
    return min(_MAX_BITS, _KEY_BITS // num_columns)


def quantile_bounds(sample: pa.Array | pa.ChunkedArray, bits: int) -> pa.Array:
    """Return sorted, distinct bounds that divide a sample into at most ``2**bits`` parts of equal size.

    Nulls are ignored; they have the last rank.

    Example:
        >>> quantile_bounds(pa.array([4, 1, None, 3, 2]), 1).to_pylist()
        [3]
    """
    values = _sortable(sample).drop_null()
    ordered = values.take(pc.sort_indices(values))
    parts = min(1 << bits, len(ordered))
    positions = np.arange(1, parts) * len(ordered) // max(parts, 1)
    return pc.unique(ordered.take(pa.array(positions)))


def ranks(values: pa.Array, bounds: pa.Array, bits: int) -> Ranks:
    """Return for each value the number of bounds that are not above it; for nulls, the last rank.

    Args:
        values: Values of any type that can be sorted.
        bounds: The result of `quantile_bounds` for the column.
        bits: The number of bits of a rank.

    Example:
        >>> ranks(pa.array([0, 3, 9, None]), pa.array([3, 5]), 4)
        array([ 0,  1,  2, 15])
    """
    found = np.full(len(values), (1 << bits) - 1, dtype=np.int64)
    known = _sortable(values)
    positions = np.flatnonzero(known.is_valid().to_numpy(zero_copy_only=False))
    if len(positions):
        # sorted together with the bounds, which precede equal values because the sort is stable
        merged = pa.concat_arrays([bounds, known.drop_null()])
        order = pc.sort_indices(merged).to_numpy()
        is_bound = order < len(bounds)
        below = np.cumsum(is_bound)
        found[positions[order[~is_bound] - len(bounds)]] = below[~is_bound]
    return found


def z_order(coordinates: Sequence[Ranks], bits: int) -> Ranks:
    """Return the position of each cell on the Z-order curve: the bits of its coordinates, interleaved.

    Example:
        >>> z_order([np.array([0, 0, 1, 1]), np.array([0, 1, 0, 1])], 1)
        array([0, 1, 2, 3])
    """
    keys = np.zeros(len(coordinates[0]), dtype=np.int64)
    for bit in reversed(range(bits)):
        for ranks_of_column in coordinates:
            keys <<= 1
            keys |= (ranks_of_column >> bit) & 1
    return keys


def hilbert(coordinates: Sequence[Ranks], bits: int) -> Ranks:
    """Return the position of each cell on the Hilbert curve, on which consecutive cells are neighbors.

    After Skilling, "Programming the Hilbert curve" (2004).

    Example:
        >>> hilbert([np.array([0, 0, 1, 1]), np.array([0, 1, 1, 0])], 1)
        array([0, 1, 2, 3])
    """
    axes = [ranks_of_column.copy() for ranks_of_column in coordinates]
    first = axes[0]
    for bit in reversed(range(1, bits)):
        low = (1 << bit) - 1
        for axis in axes:
            is_set = (axis >> bit) & 1 == 1
            swapped = np.where(is_set, 0, (first ^ axis) & low)
            first ^= np.where(is_set, low, swapped)
            if axis is not first:
                axis ^= swapped
    for previous, axis in pairwise(axes):
        axis ^= previous
    flips = np.zeros(len(first), dtype=np.int64)
    for bit in reversed(range(1, bits)):
        flips ^= np.where((axes[-1] >> bit) & 1 == 1, (1 << bit) - 1, 0)
    return z_order([axis ^ flips for axis in axes], bits)


def curve_keys(columns: Sequence[pa.Array], bounds: Sequence[pa.Array], curve: Curve) -> Ranks:
    """Return the key of each row.

    Args:
        columns: The values of each column.
        bounds: The bounds of each column.
        curve: `z_order` or `hilbert`.
    """
    bits = bits_per_column(len(columns))
    coordinates = [ranks(values, edges, bits) for values, edges in zip(columns, bounds, strict=True)]
    return curve(coordinates, bits)


def _sortable(values: pa.Array | pa.ChunkedArray) -> pa.Array:
    """Cast to a type that pyarrow sorts correctly, in one array."""
    data_type = comparison_type(values.type)
    array = comparison_array(values, data_type).cast(sortable_type(data_type))
    return array.combine_chunks() if isinstance(array, pa.ChunkedArray) else array
