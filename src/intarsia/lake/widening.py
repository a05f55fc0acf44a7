"""The narrowest type for the values of two types: a column whose type differs between files."""

from __future__ import annotations

from typing import Literal, TypeAlias

import pyarrow as pa

from intarsia.arrow.conforming import repeats_names

#: The fields of a struct that two files have in common types: those of both, or those of the first.
FieldsOf: TypeAlias = Literal["union", "first"]


def widest(a: pa.DataType, b: pa.DataType, fields: FieldsOf = "union") -> pa.DataType | None:
    """Return the narrowest type that can represent the values of two types; None if there is none.

    Integers widen to wider integers (unsigned ones to a wider signed one), to decimals and to ``float64``;
    floats to wider floats; decimals to more digits; dates to timestamps; times, timestamps and durations to
    the finer unit; text to bytes; lists and maps like their items. Structs have the fields of both, by name.
    An ``int64`` in a ``float64`` column, or a timestamp in a finer unit, may still not fit. Reading such a
    value raises an error.

    Args:
        a: The first type, whose physical layout (dictionary, large, view) the result has.
        b: The second type.
        fields: The fields of structs: those of both, or those of the first. In the second case, fields
            without a common type have the type of the first.

    Example:
        >>> widest(pa.uint8(), pa.int16()), widest(pa.decimal128(10, 2), pa.decimal128(18, 4))
        (DataType(int16), Decimal128Type(decimal128(18, 4)))
        >>> widest(pa.date32(), pa.timestamp("us")), widest(pa.string(), pa.int8())
        (TimestampType(timestamp[us]), None)
        >>> widest(pa.struct({"x": pa.int8()}), pa.struct({"y": pa.int8(), "x": pa.int16()}))
        StructType(struct<x: int16, y: int8>)
    """
    if a.equals(b):
        return a
    if pa.types.is_null(a) or pa.types.is_null(b):
        return b if pa.types.is_null(a) else a
    if _is_encoded(a) or _is_encoded(b):
        return _encoded(a, b, fields)
    for is_type, find in (
        (pa.types.is_integer, _integer),
        (_is_number, _number),
        (pa.types.is_temporal, _temporal),
        (_is_bytes, _bytes),
    ):
        if is_type(a) and is_type(b):
            return find(a, b)
    for is_type, find_nested in ((pa.types.is_struct, _struct), (pa.types.is_map, _map), (is_list, _list)):
        if is_type(a) and is_type(b):
            return find_nested(a, b, fields)
    return None


def _is_number(data_type: pa.DataType) -> bool:
    return bool(
        pa.types.is_integer(data_type) or pa.types.is_floating(data_type) or pa.types.is_decimal(data_type)
    )


def is_text(data_type: pa.DataType) -> bool:
    """Return whether a type is text, in any physical layout."""
    return bool(
        pa.types.is_string(data_type)
        or pa.types.is_large_string(data_type)
        or pa.types.is_string_view(data_type)
    )


def _is_plain_bytes(data_type: pa.DataType) -> bool:
    return bool(
        pa.types.is_binary(data_type)
        or pa.types.is_large_binary(data_type)
        or pa.types.is_binary_view(data_type)
    )


def _is_bytes(data_type: pa.DataType) -> bool:
    return is_text(data_type) or _is_plain_bytes(data_type) or bool(pa.types.is_fixed_size_binary(data_type))


def is_list(data_type: pa.DataType) -> bool:
    """Return whether a type is a list of any physical layout but a view."""
    return bool(
        pa.types.is_list(data_type)
        or pa.types.is_large_list(data_type)
        or pa.types.is_fixed_size_list(data_type)
    )


def list_of(like: pa.DataType, item: pa.DataType) -> pa.DataType:
    """Return the same kind of list type with another item type; a list for one of fixed size."""
    field = like.value_field.with_type(item)
    return pa.large_list(field) if pa.types.is_large_list(like) else pa.list_(field)


def _list(a: pa.DataType, b: pa.DataType, fields: FieldsOf) -> pa.DataType | None:
    item = widest(a.value_type, b.value_type, fields)
    if item is None:
        return None
    is_fixed = [pa.types.is_fixed_size_list(data_type) for data_type in (a, b)]
    if all(is_fixed) and a.list_size == b.list_size:
        return pa.list_(a.value_field.with_type(item), a.list_size)
    return list_of(b if is_fixed[0] else a, item)


def _map(a: pa.DataType, b: pa.DataType, fields: FieldsOf) -> pa.DataType | None:
    key, item = widest(a.key_type, b.key_type, fields), widest(a.item_type, b.item_type, fields)
    if key is None or item is None:
        return None
    return pa.map_(a.key_field.with_type(key), a.item_field.with_type(item), a.keys_sorted and b.keys_sorted)


def _encoded(a: pa.DataType, b: pa.DataType, fields: FieldsOf) -> pa.DataType | None:
    """Return the widest type of dictionaries and extension types, from their values and storage."""
    if isinstance(a, pa.BaseExtensionType) or isinstance(b, pa.BaseExtensionType):
        return widest(_storage(a), _storage(b), fields)
    values = widest(_values(a), _values(b), fields)
    if values is None or not pa.types.is_dictionary(a):
        return values
    return pa.dictionary(a.index_type, values, a.ordered)


def _is_encoded(data_type: pa.DataType) -> bool:
    return pa.types.is_dictionary(data_type) or isinstance(data_type, pa.BaseExtensionType)


def _storage(data_type: pa.DataType) -> pa.DataType:
    return data_type.storage_type if isinstance(data_type, pa.BaseExtensionType) else data_type


def _values(data_type: pa.DataType) -> pa.DataType:
    return data_type.value_type if pa.types.is_dictionary(data_type) else data_type


def _bytes(a: pa.DataType, b: pa.DataType) -> pa.DataType | None:
    """Return the type of text if both are text, and of bytes otherwise."""
    if is_text(a) and is_text(b):
        return a
    return next((data_type for data_type in (a, b) if _is_plain_bytes(data_type)), pa.binary())


def _integer(a: pa.DataType, b: pa.DataType) -> pa.DataType | None:
    signed = [pa.types.is_signed_integer(data_type) for data_type in (a, b)]
    if signed[0] == signed[1]:
        return a if a.bit_width > b.bit_width else b
    unsigned_bits = (b if signed[0] else a).bit_width
    bits = max((a if signed[0] else b).bit_width, 2 * unsigned_bits)
    return {16: pa.int16(), 32: pa.int32(), 64: pa.int64()}.get(bits)


def _number(a: pa.DataType, b: pa.DataType) -> pa.DataType | None:
    floats = [data_type for data_type in (a, b) if pa.types.is_floating(data_type)]
    if len(floats) == 2:
        return a if a.bit_width > b.bit_width else b
    if floats:
        other = b if floats[0] is a else a
        return pa.float64() if pa.types.is_integer(other) else None
    digits = [_digits(data_type) for data_type in (a, b)]
    scale = max(scale for _, scale in digits)
    precision = max(whole for whole, _ in digits) + scale
    if precision > 76 or scale < 0:
        return None
    wide = pa.decimal128 if precision <= 38 else pa.decimal256
    return wide(precision, scale)


def _digits(data_type: pa.DataType) -> tuple[int, int]:
    """Return the numbers of decimal digits before and after the point."""
    if pa.types.is_decimal(data_type):
        return data_type.precision - data_type.scale, data_type.scale
    return {8: 3, 16: 5, 32: 10}.get(data_type.bit_width, 20), 0


def _temporal(a: pa.DataType, b: pa.DataType) -> pa.DataType | None:
    if pa.types.is_date(a) and pa.types.is_date(b):
        return pa.date64()
    if pa.types.is_date(a) or pa.types.is_date(b):
        other = b if pa.types.is_date(a) else a
        return other if pa.types.is_timestamp(other) and other.tz is None else None
    for is_type in (pa.types.is_timestamp, pa.types.is_time, pa.types.is_duration):
        if is_type(a) and is_type(b):
            if (getattr(a, "tz", None) is None) != (getattr(b, "tz", None) is None):
                return None
            unit = max(a.unit, b.unit, key=("s", "ms", "us", "ns").index)
            if pa.types.is_timestamp(a):
                return pa.timestamp(unit, a.tz)
            if pa.types.is_duration(a):
                return pa.duration(unit)
            return pa.time32(unit) if unit in ("s", "ms") else pa.time64(unit)
    return None


def _struct(a: pa.DataType, b: pa.DataType, fields: FieldsOf) -> pa.DataType | None:
    """Return a struct with widened fields, in the order in which they are first seen."""
    if repeats_names(a) or repeats_names(b):
        return None
    found = []
    for field in a:
        ordinal = b.get_field_index(field.name)
        other = field.with_nullable(True) if ordinal < 0 else b.field(ordinal)
        data_type = widest(field.type, other.type, fields)
        if data_type is None:
            if fields == "union":
                return None
            data_type = field.type
        found.append(field.with_type(data_type).with_nullable(field.nullable or other.nullable))
    if fields == "union":
        found += [field.with_nullable(True) for field in b if a.get_field_index(field.name) < 0]
    return pa.struct(found)
