"""The schema of many files: the first file's columns, each in the widest type that any file has for it."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass

import pyarrow as pa

from intarsia.arrow.comparison import comparison_type

#: Number of preceding schemas that a schema is compared with.
_LOOK_BACK = 8

#: At most this many names are listed in a warning.
_NAMES_SHOWN = 5


@dataclass(frozen=True)
class TableSchema:
    """The common schema of a table's files.

    Attributes:
        schema: The columns of the first file, in the widest types.
        mixed: Columns with different types in different files.
        notes: Warnings for the user, about columns that most files lack while they have others.
    """

    schema: pa.Schema
    mixed: frozenset[str]
    notes: tuple[str, ...]


def table_schema(schemas: Iterable[pa.Schema]) -> TableSchema:
    """Return the common schema of a table's files.

    Args:
        schemas: The schemas of the readable files in the order of the files; at least one.

    Example:
        >>> found = table_schema([pa.schema({"a": pa.int32()}), pa.schema({"a": pa.int64(), "b": pa.int8()})])
        >>> found.schema.field("a").type, found.mixed
        (DataType(int64), frozenset({'a'}))
    """
    counted: list[_Counted] = []
    for schema in schemas:
        # neighbouring files mostly have the same schema; counting a schema twice is harmless
        near = counted[-_LOOK_BACK:]
        known = next((seen for seen in near if seen.schema is schema or seen.schema.equals(schema)), None)
        if known is None:
            known = _Counted(schema)
            counted.append(known)
        known.num_files += 1
    first = counted[0].schema
    fields, mixed = [], set()
    for field in first:
        data_type = field.type
        for other in counted[1:]:
            found = _field_of(other.schema, field.name)
            if found is None or found.type == data_type:
                continue
            if comparison_type(found.type) != comparison_type(data_type):
                mixed.add(field.name)
            data_type = widest(data_type, found.type) or data_type
        fields.append(field.with_type(data_type))
    schema = pa.schema(fields, metadata=first.metadata)
    return TableSchema(schema, frozenset(mixed), tuple(_notes(counted)))


@dataclass
class _Counted:
    """A schema and the number of files that have it."""

    schema: pa.Schema
    num_files: int = 0


def _notes(counted: Sequence[_Counted]) -> Iterable[str]:
    first, total = counted[0].schema, sum(one.num_files for one in counted)
    columns = set(first.names)
    names = [(set(one.schema.names), one.num_files) for one in counted]
    for column in first.names:
        lacking = [(found, num_files) for found, num_files in names if column not in found]
        others = sorted(set().union(*(found - columns for found, _ in lacking)))
        num_lacking = sum(num_files for _, num_files in lacking)
        if others and 2 * num_lacking > total:
            shown = ", ".join(repr(other) for other in others[:_NAMES_SHOWN])
            more = f" and {len(others) - _NAMES_SHOWN} more" if len(others) > _NAMES_SHOWN else ""
            yield (
                f"{num_lacking:,} of {total:,} files have no column {column!r}, so it is null in their rows, "
                f"but they have {shown}{more}, which the first file lacks; if the column was renamed, as "
                "Iceberg and Delta do without rewriting files, open the files of each name separately"
            )


def widest(a: pa.DataType, b: pa.DataType) -> pa.DataType | None:
    """Return the narrowest type that can represent the values of two types; None if there is none.

    Integers widen to wider integers (unsigned ones to a wider signed one), to decimals and to ``float64``;
    floats to wider floats; decimals to more digits; dates to timestamps; times, timestamps and durations to
    the finer unit; structs and lists like their children. An ``int64`` in a ``float64`` column, or a
    timestamp in a finer unit, may still not fit. Reading such a value raises an error.

    Example:
        >>> widest(pa.uint8(), pa.int16()), widest(pa.decimal128(10, 2), pa.decimal128(18, 4))
        (DataType(int16), Decimal128Type(decimal128(18, 4)))
        >>> widest(pa.date32(), pa.timestamp("us")), widest(pa.string(), pa.int8())
        (TimestampType(timestamp[us]), None)
    """
    if a.equals(b):
        return a
    if pa.types.is_null(a) or pa.types.is_null(b):
        return b if pa.types.is_null(a) else a
    if pa.types.is_dictionary(a) or pa.types.is_dictionary(b):
        values = widest(
            *(
                data_type.value_type if pa.types.is_dictionary(data_type) else data_type
                for data_type in (a, b)
            )
        )
        return None if values is None else _like_first(a, values)
    if pa.types.is_integer(a) and pa.types.is_integer(b):
        return _integer(a, b)
    if _is_number(a) and _is_number(b):
        return _number(a, b)
    if pa.types.is_temporal(a) and pa.types.is_temporal(b):
        return _temporal(a, b)
    if pa.types.is_struct(a) and pa.types.is_struct(b):
        return _struct(a, b)
    if _is_text(a) and _is_text(b):
        return a
    if _is_list(a) and _is_list(b) and type(a) is type(b):
        item = widest(a.value_type, b.value_type)
        return None if item is None else type_of_list(a, item)
    return None


def _is_number(data_type: pa.DataType) -> bool:
    return bool(
        pa.types.is_integer(data_type) or pa.types.is_floating(data_type) or pa.types.is_decimal(data_type)
    )


def _is_text(data_type: pa.DataType) -> bool:
    return bool(
        pa.types.is_string(data_type)
        or pa.types.is_large_string(data_type)
        or pa.types.is_string_view(data_type)
    )


def _is_list(data_type: pa.DataType) -> bool:
    return bool(pa.types.is_list(data_type) or pa.types.is_large_list(data_type))


def type_of_list(like: pa.DataType, item: pa.DataType) -> pa.DataType:
    """Return the same kind of list type with another item type."""
    field = like.value_field.with_type(item)
    return pa.large_list(field) if pa.types.is_large_list(like) else pa.list_(field)


def _like_first(data_type: pa.DataType, values: pa.DataType) -> pa.DataType:
    return (
        pa.dictionary(data_type.index_type, values, data_type.ordered)
        if pa.types.is_dictionary(data_type)
        else values
    )


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
    for is_kind in (pa.types.is_timestamp, pa.types.is_time, pa.types.is_duration):
        if is_kind(a) and is_kind(b):
            if (getattr(a, "tz", None) is None) != (getattr(b, "tz", None) is None):
                return None
            unit = max(a.unit, b.unit, key=("s", "ms", "us", "ns").index)
            if pa.types.is_timestamp(a):
                return pa.timestamp(unit, a.tz)
            if pa.types.is_duration(a):
                return pa.duration(unit)
            return pa.time32(unit) if unit in ("s", "ms") else pa.time64(unit)
    return None


def _struct(a: pa.DataType, b: pa.DataType) -> pa.DataType | None:
    """Return the first struct with widened fields; None if the second one's fields do not correspond."""
    fields = []
    for field in a:
        place = b.get_field_index(field.name)
        data_type = widest(field.type, b.field(place).type) if place >= 0 else None
        if data_type is None:
            return None
        fields.append(field.with_type(data_type))
    return pa.struct(fields) if len(b) == len(a) else None


def file_view(table: Sequence[pa.Field], file: pa.Schema) -> pa.Schema:
    """Return the table's columns with their types in one file, to bind a predicate to.

    Names are the table's, types are the file's. If no type can represent the values of both, the column has
    the table's type, and the file's values are cast before they are compared.
    """
    return pa.schema([_field_view(field, _field_of(file, field.name)) for field in table])


def _field_of(schema: pa.Schema, name: str) -> pa.Field | None:
    place = schema.get_field_index(name)
    return None if place < 0 else schema.field(place)


def _field_view(table: pa.Field, file: pa.Field | None) -> pa.Field:
    if file is None:
        return table
    if not (pa.types.is_struct(table.type) and pa.types.is_struct(file.type)):
        return table if widest(table.type, file.type) is None else table.with_type(file.type)
    children = []
    for child in table.type:
        place = file.type.get_field_index(child.name)
        children.append(_field_view(child, file.type.field(place) if place >= 0 else None))
    return table.with_type(pa.struct(children))
