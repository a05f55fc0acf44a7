"""Lookups: the values of ``=`` and IN, their value hash, and their bytes in a page.

The value hash is that of lookup indexes. Equal values have equal hashes, independent of their storage type.

The hash is XXH64 (seed 0) of a value's PLAIN encoding in its widest type: integers in 8 bytes, floats as
doubles (``-0.0`` as ``0.0``), decimals as fixed-length bytes of the smallest width for their precision,
temporal values as Arrow's integer. So the hash of a literal equals the hash of an equal value.
"""

from __future__ import annotations

from functools import lru_cache

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc

from intarsia.arrow.comparison import comparison_array, comparison_type
from intarsia.arrow.hashing import Hashes, xxh64
from intarsia.arrow.owned_rows import places_in
from intarsia.errors import IndexBuildError
from intarsia.format.enums import Type
from intarsia.format.footer import Leaf
from intarsia.indexes.layout import refuse_nested
from intarsia.predicate.bound import BoundCompare, BoundIn, Condition, is_lookup
from intarsia.rows.ordering import ordering_for

#: The number of lookups whose values are cached, shared by all files.
REMEMBERED_LOOKUPS = 64


def check_hashable(index: object, column: str, type_: pa.DataType) -> None:
    """Check that the values of a column can be hashed.

    Raises:
        IndexBuildError: If the type is boolean, nested, or cannot be compared.
    """
    plain = refuse_nested(index, column, type_)
    try:
        hash_values(pa.array([], plain))
    except (TypeError, pa.ArrowException) as error:
        raise IndexBuildError(
            f"{type(index).__name__}: values of {column!r} ({plain}) cannot be hashed; use Distinct",
            reason="type-not-hashable",
            column=column,
        ) from error


def hash_values(values: pa.Array | pa.ChunkedArray) -> tuple[npt.NDArray[np.int64], Hashes]:
    """Hash the values that ``=`` can match, that is, all but nulls and NaN.

    Args:
        values: Values of a type that `check_hashable` accepts.

    Returns:
        The ordinals of these values, ascending, and their hashes.

    Example:
        >>> ordinals, hashes = hash_values(pa.array([7, None, 8], pa.int8()))
        >>> ordinals.tolist(), bool(hashes[0] == hash_values(pa.array([7]))[1][0])
        ([0, 2], True)
    """
    if isinstance(values, pa.ChunkedArray):
        starts = np.cumsum([0, 0, *map(len, values.chunks)])
        parts = [(np.empty(0, np.int64), np.empty(0, np.uint64)), *map(hash_values, values.chunks)]
        found = [ordinals + start for (ordinals, _), start in zip(parts, starts, strict=False)]
        return np.concatenate(found), np.concatenate([hashes for _, hashes in parts])
    if isinstance(values, pa.DictionaryArray):
        return _of_dictionary(values)
    plain = comparison_array(values, comparison_type(values.type))
    if isinstance(plain, pa.ChunkedArray):  # the text exceeds one array
        return hash_values(plain)
    data_type = plain.type
    if pa.types.is_floating(data_type):
        present = pc.is_valid(plain).to_numpy(zero_copy_only=False)
        # adding np.float64(0) turns -0.0 into 0.0; nulls are NaN here
        numbers = plain.to_numpy(zero_copy_only=False).astype(np.float64) + np.float64(0)
        ordinals = np.flatnonzero(present & ~np.isnan(numbers))
        return ordinals, xxh64(pa.array(numbers[ordinals]))
    if plain.null_count:
        ordinals = np.flatnonzero(pc.is_valid(plain).to_numpy(zero_copy_only=False))
        plain = plain.drop_null()
    else:
        ordinals = np.arange(len(plain))
    if pa.types.is_integer(data_type):
        plain = plain.cast(pa.int64() if pa.types.is_signed_integer(data_type) else pa.uint64())
    return ordinals, xxh64(plain)


def _of_dictionary(values: pa.DictionaryArray) -> tuple[npt.NDArray[np.int64], Hashes]:
    known, hashes = hash_values(values.dictionary)
    places = places_in(known, len(values.dictionary)).take(values.indices)
    return np.flatnonzero(places.is_valid()), hashes[places.drop_null().to_numpy()]


def lookup_values(predicate: Condition) -> pa.Array | None:
    """Return the values in a lookup, or None if the condition is not a lookup.

    Example:
        >>> lookup_values(BoundCompare(("x",), pa.int64(), "=", pa.scalar(7))).to_pylist()
        [7]
    """
    if not is_lookup(predicate):
        return None
    if isinstance(predicate, BoundIn):
        return predicate.values
    assert isinstance(predicate, BoundCompare)
    return pa.array([predicate.value], predicate.type)


def lookup_hashes(predicate: Condition) -> Hashes | None:
    """Return the distinct hashes of the values in a lookup, or None if the condition is not a lookup."""
    values = lookup_values(predicate)
    return None if values is None else np.unique(hash_values(values)[1])


@lru_cache(maxsize=REMEMBERED_LOOKUPS)
def stored_values(leaf: Leaf, arrow_type: pa.DataType, condition: Condition) -> tuple[bytes, ...] | None:
    """Return the values of a lookup in PLAIN encoding, byte arrays without their length.

    Returns:
        The values; None if the condition is not a lookup, or equal values may have several encodings.
    """
    values, ordering = lookup_values(condition), ordering_for(leaf, arrow_type)
    if values is None or ordering is None or (ordering.decimal and leaf.type == Type.BYTE_ARRAY):
        return None
    keys = ordering.keys(values).tolist()
    if ordering.is_float:  # 0.0 equals -0.0, but their bytes differ
        keys += [-0.0 for key in keys if key == 0]
    with np.errstate(over="ignore"):  # a literal may exceed the range of float32
        return tuple(ordering.encode(key) for key in keys)
