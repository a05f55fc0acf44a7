"""Nested types: other leaves, fields by path, conversion by names of fields, columns rebuilt from leaves."""

from __future__ import annotations

import ctypes
import struct
from collections.abc import Callable, Sequence
from typing import TypeVar

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from intarsia.arrow.comparison import comparison_type


def children(data_type: pa.DataType) -> list[pa.Field] | None:
    """Return the fields of a struct, key and item of a map, or the item of a list; None for other types."""
    if pa.types.is_struct(data_type):
        return list(data_type)
    if pa.types.is_map(data_type):
        return [data_type.key_field, data_type.item_field]
    return [data_type.value_field] if is_list(data_type) else None


def is_list(data_type: pa.DataType) -> bool:
    """Return whether a type is a list, of any size of offsets or of a fixed length."""
    return any(is_type(data_type) for is_type in _LISTS)


_LISTS = (pa.types.is_list, pa.types.is_large_list, pa.types.is_fixed_size_list)


def with_children(data_type: pa.DataType, fields: Sequence[pa.Field]) -> pa.DataType:
    """Return a type with other fields in place of its `children`."""
    if pa.types.is_struct(data_type):
        return pa.struct(fields)
    if pa.types.is_map(data_type):
        return pa.map_(*fields, data_type.keys_sorted)
    if pa.types.is_fixed_size_list(data_type):
        return pa.list_(*fields, data_type.list_size)
    return pa.large_list(*fields) if pa.types.is_large_list(data_type) else pa.list_(*fields)


def with_leaves(data_type: pa.DataType, replace: Callable[[pa.DataType], pa.DataType]) -> pa.DataType:
    """Return a type in which other types replace those that are not nested.

    Args:
        replace: Returns the type in place of one that is neither a struct, a map nor a list.

    Example:
        >>> data_type = pa.struct({"x": pa.list_(pa.uuid()), "y": pa.int8()})
        >>> with_leaves(data_type, storage_of).field("x").type
        ListType(list<item: fixed_size_binary[16]>)
    """
    fields = children(data_type)
    if fields is None:
        return replace(data_type)
    return with_children(data_type, [field.with_type(with_leaves(field.type, replace)) for field in fields])


def storage_of(data_type: pa.DataType) -> pa.DataType:
    """Return the storage type of an extension type, or another type itself."""
    if isinstance(data_type, pa.BaseExtensionType):
        return with_leaves(data_type.storage_type, storage_of)
    return data_type


def text_of_json(data_type: pa.DataType) -> pa.DataType:
    """Return the type of the text of JSON, or another type itself."""
    return data_type.storage_type if isinstance(data_type, pa.JsonType) else data_type


Values = TypeVar("Values", pa.Array, pa.ChunkedArray)


def field_type(data_type: pa.DataType, names: Sequence[str]) -> pa.DataType | None:
    """Return the type of a field in nested structs, or None if the field does not exist.

    Args:
        data_type: The type of the outermost struct.
        names: The path from there. If it is empty, ``data_type`` is returned.

    Example:
        >>> field_type(pa.struct({"b": pa.struct({"c": pa.int64()})}), ["b", "c"])
        DataType(int64)
    """
    for name in names:
        ordinal = data_type.get_field_index(name) if pa.types.is_struct(data_type) else -1
        if ordinal < 0:
            return None
        data_type = data_type.field(ordinal).type
    return data_type


def field_values(values: Values, names: Sequence[str]) -> Values:
    """Return the values of an existing field in nested structs. They are null where a parent is null."""
    for name in names:
        values = pc.struct_field(values, [values.type.get_field_index(name)])
    return values


def conform(values: Values, data_type: pa.DataType) -> Values:
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


def rename_fields(values: pa.ChunkedArray, data_type: pa.DataType) -> pa.ChunkedArray:
    """Return nested values with other names of fields; no value is copied.

    Args:
        data_type: A type of the same shape. Only the names of struct fields differ.

    Example:
        >>> values = pa.chunked_array([[[{"x": 1}], None]])
        >>> rename_fields(values, pa.list_(pa.struct({"y": pa.int64()}))).to_pylist()
        [[{'y': 1}], None]
    """
    return pa.chunked_array([chunk.view(data_type) for chunk in values.chunks], data_type)


def repeats_names(struct: pa.DataType) -> bool:
    """Return whether several fields of a struct have the same name."""
    return bool(len({field.name for field in struct}) < struct.num_fields)


def _cast(values: Values, data_type: pa.DataType) -> Values:
    """Cast values that are not nested.

    pyarrow has no casts between extension types, between dictionaries and views, of fixed-size bytes to
    dictionaries, and of nulls to views of lists, and does not check floats that it narrows.
    """
    of = pa.types
    if of.is_null(values.type):
        nulls = pa.nulls(len(values), data_type)
        return nulls if isinstance(values, pa.Array) else pa.chunked_array([nulls], data_type)
    if isinstance(values.type, pa.BaseExtensionType):
        values = values.cast(values.type.storage_type)
    if of.is_dictionary(values.type) != of.is_dictionary(data_type):
        values = values.cast(comparison_type(values.type))
    if of.is_fixed_size_binary(values.type) and of.is_dictionary(data_type):
        values = values.cast(pa.binary())
    is_large = of.is_large_string(values.type) or of.is_large_binary(values.type)
    if is_large and (of.is_string_view(data_type) or of.is_binary_view(data_type)):
        return _views(values, data_type)
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


#: The size of the bytes that a cast turns into one buffer of views.
_MAX_VIEWED_BYTES = (1 << 31) - 1


def _views(values: Values, data_type: pa.DataType) -> Values:
    """Return views of large text or bytes, in as many buffers as they need."""
    if isinstance(values, pa.ChunkedArray):
        return pa.chunked_array([_views(chunk, data_type) for chunk in values.chunks], data_type)
    if len(values) < 2 or values.nbytes <= _MAX_VIEWED_BYTES:
        return values.cast(data_type)
    middle = len(values) // 2
    halves = [pa.concat_arrays([half]) for half in (values[:middle], values[middle:])]
    return pa.concat_arrays([_views(half, data_type) for half in halves])


def _nested(array: pa.Array, data_type: pa.DataType) -> pa.Array:
    if pa.types.is_struct(array.type) and pa.types.is_struct(data_type) and not repeats_names(array.type):
        found = []
        for field in data_type:
            ordinal = array.type.get_field_index(field.name)
            is_missing = ordinal < 0
            found.append(
                pa.nulls(len(array), field.type) if is_missing else conform(array.field(ordinal), field.type)
            )
        mask = array.is_null() if array.null_count else None
        return pa.StructArray.from_arrays(found, fields=list(data_type), mask=mask)
    for is_type in (pa.types.is_map, *_LISTS):
        if is_type(data_type) and is_type(array.type):
            return _with_items(array, data_type)
    if any(is_type(data_type) for is_type in _LISTS):
        same_items = [data_type.value_field.with_type(array.type.value_type)]
        return _with_items(array.cast(with_children(data_type, same_items)), data_type)
    return array.cast(data_type)


def _with_items(array: pa.Array, data_type: pa.DataType) -> pa.Array:
    """Return a list or map with the same offsets and nulls, whose values conform to another type."""
    num_buffers = 1 if pa.types.is_fixed_size_list(data_type) else 2
    if pa.types.is_map(data_type):
        fields = [data_type.key_field, data_type.item_field]
        pairs = [conform(array.keys, fields[0].type), conform(array.items, fields[1].type)]
        values = pa.StructArray.from_arrays(pairs, fields=fields)
    else:
        values = conform(array.values, data_type.value_type)
    return pa.Array.from_buffers(
        data_type, len(array), array.buffers()[:num_buffers], array.null_count, array.offset, [values]
    )


def join_columns(columns: list[pa.ChunkedArray], data_type: pa.DataType) -> pa.ChunkedArray:
    """Join columns of the same rows with different leaves into one column of type ``data_type``."""
    return pa.chunked_array(
        [_join([pa.concat_arrays(column.chunks) for column in columns], data_type)], type=data_type
    )


def _join(arrays: list[pa.Array], data_type: pa.DataType) -> pa.Array:
    """Join arrays as `join_columns` does."""
    if len(arrays) == 1:
        return arrays[0] if arrays[0].type == data_type else arrays[0].cast(data_type)
    first = arrays[0]
    if pa.types.is_struct(data_type):
        children = []
        for ordinal in range(data_type.num_fields):
            field = data_type.field(ordinal)
            parts = [
                array.flatten()[array.type.get_field_index(field.name)]
                for array in arrays
                if array.type.get_field_index(field.name) >= 0
            ]
            children.append(_join(parts, field.type))
        return pa.StructArray.from_arrays(children, fields=list(data_type), mask=first.is_null())
    if pa.types.is_fixed_size_list(data_type):  # Arrow stores the values under null lists, too
        size = data_type.list_size
        parts = [array.values.slice(array.offset * size, len(array) * size) for array in arrays]
        values = _join(parts, data_type.field(0).type)
        return pa.FixedSizeListArray.from_arrays(values, type=data_type, mask=first.is_null())
    if pa.types.is_map(data_type):  # maps reduced to their keys or values are lists already
        arrays = [array.cast(pa.list_(array.type.field(0))) for array in arrays]
        first = arrays[0]
    values = _join([array.flatten() for array in arrays], data_type.field(0).type)
    lengths = pc.fill_null(pc.list_value_length(first), 0).to_numpy(zero_copy_only=False)
    offsets = np.concatenate([[0], np.cumsum(lengths)])
    mask = first.is_null()
    if pa.types.is_map(data_type):
        pairs = values.flatten()
        return pa.MapArray.from_arrays(
            pa.array(offsets, pa.int32()), pairs[0], pairs[1], type=data_type, mask=mask
        )
    wide = pa.types.is_large_list(data_type) or pa.types.is_large_list_view(data_type)
    integer = pa.int64() if wide else pa.int32()
    if pa.types.is_list(data_type) or pa.types.is_large_list(data_type):
        array_class = pa.LargeListArray if wide else pa.ListArray
        return array_class.from_arrays(pa.array(offsets, integer), values, type=data_type, mask=mask)
    view = pa.LargeListViewArray if wide else pa.ListViewArray
    return view.from_arrays(
        pa.array(offsets[:-1], integer), pa.array(lengths, integer), values, type=data_type, mask=mask
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
