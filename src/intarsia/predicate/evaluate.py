"""Evaluate a bound predicate on Arrow arrays, vectorized."""

from __future__ import annotations

from functools import lru_cache, partial, reduce
from typing import TYPE_CHECKING, Final

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc

from intarsia.arrow.comparison import comparison_array, sortable_type
from intarsia.errors import PredicateError
from intarsia.predicate.bound import (
    Bound,
    BoundCompare,
    BoundConstant,
    BoundFunction,
    BoundIn,
    BoundNull,
    BoundPrefix,
    Condition,
    Path,
    fold,
)

if TYPE_CHECKING:
    from collections.abc import Mapping

    from intarsia.predicate.nodes import Op


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


def _slots(numbers: npt.NDArray[np.integer], shift: np.uint64) -> npt.NDArray[np.int64]:
    slots = numbers.astype(np.uint64) * _SPREAD
    slots >>= shift
    return slots.view(np.int64)  # NumPy would convert other integers to index a table


#: The comparisons of pyarrow.
KERNELS: Final[dict[Op, str]] = {
    "=": "equal",
    "<>": "not_equal",
    "<": "less",
    "<=": "less_equal",
    ">": "greater",
    ">=": "greater_equal",
}


def evaluate(
    bound: Bound, columns: Mapping[Path, pa.Array | pa.ChunkedArray], num_rows: int
) -> pa.BooleanArray:
    """Return a mask of the rows that match.

    Args:
        columns: The leaf columns in ``bound.paths()``, each with ``num_rows`` values, in the type of the
            schema or in any type with the same comparison type. Values under a NULL struct must be NULL.

    Returns:
        One boolean per row, never NULL.

    Example:
        >>> from intarsia.predicate import bind, parse_sql
        >>> ages = pa.array([1, None, 30])
        >>> bound = bind(parse_sql("age > 18 OR age IS NULL"), pa.schema({"age": pa.int64()}))
        >>> evaluate(bound, {("age",): ages}, 3).to_pylist()
        [False, True, True]
    """

    def leaf(node: Condition | BoundConstant) -> pa.BooleanArray:
        if isinstance(node, BoundConstant):
            return pa.repeat(pa.scalar(node.value), num_rows)
        return condition_mask(node, columns[node.path])

    # two masks at a time, so that the memory does not grow with the conditions
    return fold(bound, leaf, partial(reduce, pc.and_), partial(reduce, pc.or_), batch=2)


def condition_mask(leaf: Condition, array: pa.Array | pa.ChunkedArray) -> pa.BooleanArray:
    """Return a mask of the values in ``array`` that match a condition.

    The array need not be a column of a file. It may contain the distinct values of an index, for example.

    Returns:
        One boolean per value, never NULL.

    Example:
        >>> leaf = BoundCompare(("x",), pa.int64(), "<>", pa.scalar(1))
        >>> condition_mask(leaf, pa.array([1, 2, None])).to_pylist()
        [False, True, False]
    """
    if isinstance(array, pa.ChunkedArray):
        masks = list(map(partial(condition_mask, leaf), array.chunks))
        return pa.concat_arrays(masks) if masks else pa.array([], pa.bool_())
    if isinstance(array, pa.DictionaryArray) and len(array.dictionary) < len(array):
        # Evaluate each distinct value once. A NULL in the indices is a NULL value.
        found, codes = condition_mask(leaf, array.dictionary), array.indices
        if found.true_count == 1:  # comparing codes takes a fifth of the time
            mask = pc.equal(codes, pc.index(found, True).cast(codes.type))
        else:
            mask = found.take(codes)
        return pc.fill_null(mask, isinstance(leaf, BoundNull) and not leaf.negated)
    values = comparison_array(array, leaf.type)
    if isinstance(values, pa.ChunkedArray):  # the text exceeds the 2 GiB of one array
        return condition_mask(leaf, values)
    mask = _mask(leaf, values)
    return pc.fill_null(mask, False) if mask.null_count else mask


def _mask(leaf: Condition, values: pa.Array) -> pa.BooleanArray:
    """Return a mask of the values that match. A NULL in the mask means no match."""
    if isinstance(leaf, BoundNull):
        return pc.is_valid(values) if leaf.negated else pc.is_null(values)
    if isinstance(leaf, BoundFunction):
        try:
            return condition_mask(leaf.condition, _applied(leaf, values))
        except pa.ArrowCapacityError:  # the results may exceed the 2 GiB of one array
            half = len(values) // 2
            if not half:
                raise
            return condition_mask(leaf, pa.chunked_array([values[:half], values[half:]]))
    if isinstance(leaf, BoundCompare):
        value = leaf.value
        if pa.types.is_float16(values.type):  # Arrow has no comparison kernels; float32 is lossless
            values, value = values.cast(pa.float32()), value.cast(pa.float32())
        mask = pc.call_function(KERNELS[leaf.op], [values, value])
        return pc.or_(mask, pc.is_nan(values)) if leaf.or_nan and leaf.op != "<>" else mask
    if isinstance(leaf, BoundIn):
        mask = _is_in(leaf, values)
        return pc.and_not(pc.is_valid(values), mask) if leaf.negated else mask
    if isinstance(leaf, BoundPrefix):
        mask = pc.starts_with(values, leaf.prefix)
    else:
        mask = pc.match_substring_regex(values, leaf.regex)
    return pc.invert(mask) if leaf.negated else mask


def _applied(leaf: BoundFunction, values: pa.Array) -> pa.Array:
    """Return the results of the functions of a condition.

    Raises:
        PredicateError: If a value has no result.
    """
    try:
        for function in leaf.functions:
            values = function.apply(values)
    except PredicateError as error:
        column = ".".join(leaf.path)
        raise PredicateError(
            f"cannot evaluate {leaf} on column {column!r}: {error}; exclude the value by another query, or "
            "compare the column itself",
            reason=error.reason,
            column=column,
        ) from error
    return values


def _is_in(leaf: BoundIn, values: pa.Array) -> pa.BooleanArray:
    found = integer_membership(leaf, values)
    if found is not None:
        return found
    type_ = sortable_type(values.type)
    values, among = values.cast(type_), leaf.values.cast(type_)
    if pa.types.is_floating(type_):  # is_in distinguishes -0.0 from 0.0; adding 0.0 turns both into 0.0
        values = pc.add(values, pa.scalar(0.0, type_))
    return pc.is_in(values, value_set=among)
