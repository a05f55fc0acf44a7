"""Convert columns to a wider type; fields of structs are found by name, and missing ones are null."""

from __future__ import annotations

import ctypes
import struct
from typing import TypeVar

import pyarrow as pa
import pyarrow.compute as pc

from intarsia.arrow.comparison import comparison_type

_Column = TypeVar("_Column", pa.Array, pa.ChunkedArray)


def conform(values: _Column, data_type: pa.DataType) -> _Column:
    """Return values in another type.

    Unlike a cast by pyarrow, this finds the fields of structs by name, even inside lists and maps. Missing
    fields are null, and fields that the type does not have are left out.

    Raises:
        pyarrow.ArrowException: If a value does not fit into the type.

    Example:
        >>> values = pa.array([{"x": 1, "y": 2}, None])
        >>> conform(values, pa.struct({"z": pa.string(), "x": pa.float64()})).to_pylist()
        [{'z': None, 'x': 1.0}, None]
    """
    if values.type == data_type:
        return values
    if not pa.types.is_nested(data_type) or not pa.types.is_nested(values.type):
        return _cast(values, data_type)
    if isinstance(values, pa.ChunkedArray):
        return pa.chunked_array([_nested(chunk, data_type) for chunk in values.chunks], data_type)
    return _nested(values, data_type)


def rename_fields(values: _Column, data_type: pa.DataType) -> _Column:
    """Return nested values with other names of fields; no value is copied.

    Args:
        data_type: A type of the same shape. Only the names of struct fields differ.

    Example:
        >>> values = pa.array([[{"x": 1}], None])
        >>> rename_fields(values, pa.list_(pa.struct({"y": pa.int64()}))).to_pylist()
        [[{'y': 1}], None]
    """
    if isinstance(values, pa.ChunkedArray):
        return pa.chunked_array([rename_fields(chunk, data_type) for chunk in values.chunks], data_type)
    if pa.types.is_struct(data_type):
        fields = list(data_type)
        children = [rename_fields(values.field(ordinal), field.type) for ordinal, field in enumerate(fields)]
        mask = values.is_null() if values.null_count else None
        return pa.StructArray.from_arrays(children, fields=fields, mask=mask)
    if pa.types.is_map(data_type):
        fields = [data_type.key_field, data_type.item_field]
        children = [rename_fields(values.keys, fields[0].type), rename_fields(values.items, fields[1].type)]
        return _with_children(values, data_type, pa.StructArray.from_arrays(children, fields=fields))
    if pa.types.is_nested(data_type):
        return _with_children(values, data_type, rename_fields(values.values, data_type.value_type))
    return values


def repeats_names(struct: pa.DataType) -> bool:
    """Return whether several fields of a struct have the same name."""
    return bool(len({field.name for field in struct}) < struct.num_fields)


def _cast(values: _Column, data_type: pa.DataType) -> _Column:
    """Cast values that are not nested.

    pyarrow has no casts between dictionaries and views, and does not check floats that it narrows.
    """
    of = pa.types
    if of.is_dictionary(values.type) != of.is_dictionary(data_type):
        values = values.cast(comparison_type(values.type))
    found = values.cast(data_type)
    if (
        of.is_floating(data_type)
        and of.is_floating(values.type)
        and data_type.bit_width < values.type.bit_width
    ):
        is_rounded = pc.and_(pc.not_equal(found.cast(values.type), values), pc.invert(pc.is_nan(values)))
        if pc.any(is_rounded).as_py():
            raise pa.ArrowInvalid(f"a value of type {values.type} does not fit into {data_type}")
    return found


def _nested(array: pa.Array, data_type: pa.DataType) -> pa.Array:
    if pa.types.is_struct(array.type) and pa.types.is_struct(data_type) and not repeats_names(array.type):
        return _struct(array, data_type)
    if pa.types.is_map(array.type) and pa.types.is_map(data_type):
        fields = [data_type.key_field, data_type.item_field]
        children = [conform(array.keys, fields[0].type), conform(array.items, fields[1].type)]
        return _with_children(array, data_type, pa.StructArray.from_arrays(children, fields=fields))
    for is_type in (pa.types.is_list, pa.types.is_large_list, pa.types.is_fixed_size_list):
        if is_type(data_type):
            if is_type(array.type):
                break
            same_items = data_type.value_field.with_type(array.type.value_type)
            as_list = pa.large_list if pa.types.is_large_list(data_type) else pa.list_
            array = array.cast(as_list(same_items))
            break
    else:
        return array.cast(data_type)
    return _with_children(array, data_type, conform(array.values, data_type.value_type))


def _struct(array: pa.Array, data_type: pa.DataType) -> pa.Array:
    children = []
    for field in data_type:
        ordinal = array.type.get_field_index(field.name)
        child = pa.nulls(len(array), field.type) if ordinal < 0 else conform(array.field(ordinal), field.type)
        children.append(child)
    mask = array.is_null() if array.null_count else None
    return pa.StructArray.from_arrays(children, fields=list(data_type), mask=mask)


def _with_children(array: pa.Array, data_type: pa.DataType, values: pa.Array) -> pa.Array:
    """Return a list or map with the same offsets and nulls, and other values."""
    num_buffers = 1 if pa.types.is_fixed_size_list(data_type) else 2
    return pa.Array.from_buffers(
        data_type, len(array), array.buffers()[:num_buffers], array.null_count, array.offset, [values]
    )


class _ArrowSchema(ctypes.Structure):
    """The first members of `struct ArrowSchema` of the Arrow C data interface."""

    _fields_ = (("format", ctypes.c_char_p), ("name", ctypes.c_char_p), ("metadata", ctypes.c_void_p))


_INT32 = struct.Struct("=i")

_capsule_pointer = ctypes.PYFUNCTYPE(ctypes.c_void_p, ctypes.py_object, ctypes.c_char_p)(
    ("PyCapsule_GetPointer", ctypes.pythonapi)
)


def metadata_pairs(schema: pa.Schema) -> list[tuple[bytes, bytes]]:
    """Return the keys and values of a schema's metadata in order, including repeated keys.

    Example:
        >>> metadata_pairs(pa.schema([], metadata={"b": "1", "a": "2"}))
        [(b'b', b'1'), (b'a', b'2')]
    """
    capsule = schema.__arrow_c_schema__()
    position = _ArrowSchema.from_address(_capsule_pointer(capsule, b"arrow_schema")).metadata
    if not position:
        return []

    def take(num_bytes: int) -> bytes:
        nonlocal position
        taken = ctypes.string_at(position, num_bytes)
        position += num_bytes
        return taken

    def take_length() -> int:
        return int(_INT32.unpack(take(_INT32.size))[0])

    # the number of pairs, then each key and each value after its length; the capsule owns these bytes
    return [(take(take_length()), take(take_length())) for _ in range(take_length())]
