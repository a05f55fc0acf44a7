"""Comparison types: the logical type of values, independent of their physical layout."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc

from intarsia.tuning import SELECTED_PART


def comparison_type(type_: pa.DataType) -> pa.DataType:
    """Return the type in which values of ``type_`` are compared, independent of their physical layout.

    It is the value type of dictionaries and run-end encoding, the plain ``string`` or ``binary`` of large and
    view layouts, and the storage type of extension types. Any other type is its own comparison type.

    Example:
        >>> comparison_type(pa.dictionary(pa.int8(), pa.large_string()))
        DataType(string)
    """
    if isinstance(type_, pa.BaseExtensionType):
        return comparison_type(type_.storage_type)
    if isinstance(type_, (pa.DictionaryType, pa.RunEndEncodedType)):
        return comparison_type(type_.value_type)
    return _PLAIN.get(type_.id, type_)


_PLAIN = {
    large.id: plain
    for plain, others in {
        pa.string(): (pa.large_string(), pa.string_view()),
        pa.binary(): (pa.large_binary(), pa.binary_view()),
    }.items()
    for large in others
}


def compares_alike(stored: pa.DataType, literal: pa.DataType) -> bool:
    """Return whether bounds and values of ``stored`` compare with literals of ``literal`` without a cast.

    They do if the comparison types are equal, or if ``stored`` is a narrower integer or float.

    Args:
        stored: The type of a column in a file.
        literal: The comparison type of a predicate's literals.

    Example:
        >>> compares_alike(pa.int32(), pa.int64()), compares_alike(pa.timestamp("ms"), pa.timestamp("us"))
        (True, False)
    """
    plain = comparison_type(stored)
    if plain == literal:
        return True
    if pa.types.is_timestamp(plain) and pa.types.is_timestamp(literal):
        return bool(plain.unit == literal.unit and (plain.tz is None) == (literal.tz is None))
    families = (pa.types.is_signed_integer, pa.types.is_unsigned_integer, pa.types.is_floating)
    return any(of(plain) and of(literal) for of in families) and bool(plain.bit_width <= literal.bit_width)


def comparison_array(array: pa.Array | pa.ChunkedArray, type_: pa.DataType) -> pa.Array | pa.ChunkedArray:
    """Convert an array to its comparison type.

    Dictionaries and run ends are decoded, large and view layouts become plain ones, and extension arrays
    become their storage.

    Args:
        array: Values of any type whose comparison type is ``type_``.

    Returns:
        An array of exactly ``type_``, chunked if ``array`` is, or if the text exceeds one array.

    Example:
        >>> comparison_array(pa.array(["a", "b"]).dictionary_encode(), pa.string()).to_pylist()
        ['a', 'b']
    """
    if array.type == type_:
        return array
    if isinstance(array, pa.ChunkedArray):
        parts: list[pa.Array] = []
        for chunk in array.chunks:
            part = comparison_array(chunk, type_)
            parts.extend(part.chunks if isinstance(part, pa.ChunkedArray) else [part])
        return pa.chunked_array(parts, type_)
    if isinstance(array, pa.ExtensionArray):
        return comparison_array(array.storage, type_)
    if isinstance(array, pa.RunEndEncodedArray):
        return comparison_array(pc.run_end_decode(array), type_)
    try:
        if isinstance(array, pa.DictionaryArray):
            return comparison_array(array.dictionary, type_).take(array.indices)
        return array.cast(type_)
    except pa.ArrowInvalid:
        half = len(array) // 2
        if half == 0 or not (pa.types.is_string(type_) or pa.types.is_binary(type_)):
            raise
        return comparison_array(pa.chunked_array([array[:half], array[half:]]), type_)


def sortable_type(type_: pa.DataType) -> pa.DataType:
    """Return the type in which pyarrow can hash, sort and group values of a comparison type.

    Example:
        >>> sortable_type(pa.float16()), sortable_type(pa.string())
        (DataType(float), DataType(string))
    """
    if pa.types.is_float16(type_):
        return pa.float32()
    if pa.types.is_decimal(type_) and type_.bit_width < 128:
        return pa.decimal128(type_.precision, type_.scale)
    return pa.int64() if pa.types.is_duration(type_) else type_


def first_in_order(table: pa.Table, sort_keys: Sequence[tuple[str, str]], limit: int | None) -> pa.Array:
    """Return the ordinals of the first rows, in order.

    Args:
        sort_keys: The columns, in which no two rows are equal, each with ``"ascending"`` or ``"descending"``.
            The first one has no nulls.
        limit: The maximum number of rows; None for all.

    Example:
        >>> first_in_order(pa.table({"x": [5, 7, 6]}), [("x", "descending")], 2).to_pylist()
        [1, 2]
    """
    if limit is not None and limit * SELECTED_PART < table.num_rows:
        return pc.select_k_unstable(table, k=limit, sort_keys=sort_keys)
    return pc.sort_indices(table, sort_keys=sort_keys)[:limit]


_BITS = np.arange(8)


def true_positions(mask: pa.BooleanArray) -> npt.NDArray[np.int64]:
    """Return the ordinals of the true values, in ascending order.

    If few values are true, this takes a fraction of the time of `pyarrow.compute.indices_nonzero`, which
    looks at each bit.

    Args:
        mask: Flags without nulls.

    Example:
        >>> true_positions(pa.array([False, True, True, False])).tolist()
        [1, 2]
    """
    octets = _octets(mask)
    places = octets.nonzero()[0]
    flags = np.unpackbits(octets[places], bitorder="little").reshape(-1, 8).view(bool)
    found = (places[:, np.newaxis] * 8 + _BITS)[flags] - mask.offset % 8
    # the bits before and after the values are undefined
    positions: npt.NDArray[np.int64] = found[(found >= 0) & (found < len(mask))]
    return positions


def flags_of(mask: pa.BooleanArray) -> npt.NDArray[np.bool_]:
    """Return the values as an array, in a tenth of the time of ``mask.to_numpy(zero_copy_only=False)``.

    Args:
        mask: Flags without nulls.

    Example:
        >>> flags_of(pa.array([False, True, True])).tolist()
        [False, True, True]
    """
    before = mask.offset % 8
    return np.unpackbits(_octets(mask), count=before + len(mask), bitorder="little")[before:].view(bool)


def _octets(mask: pa.BooleanArray) -> npt.NDArray[np.uint8]:
    """Return the bytes that have the values, and up to 7 undefined bits before and after them."""
    first, stop = mask.offset // 8, (mask.offset + len(mask) + 7) // 8
    return np.frombuffer(mask.buffers()[1], np.uint8)[first:stop]
