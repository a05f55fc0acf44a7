"""Nested types: other leaves, fields by path, columns rebuilt from leaves."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import TypeVar

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc


def children(data_type: pa.DataType) -> list[pa.Field] | None:
    """Return the fields of a struct, key and item of a map, or the item of a list; None for other types."""
    if pa.types.is_struct(data_type):
        return list(data_type)
    if pa.types.is_map(data_type):
        return [data_type.key_field, data_type.item_field]
    if any(is_type(data_type) for is_type in _LISTS):
        return [data_type.value_field]
    return None


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
    if pa.types.is_fixed_size_list(data_type):
        return _join_fixed_size(arrays, data_type)
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
    if pa.types.is_large_list(data_type):
        return pa.LargeListArray.from_arrays(pa.array(offsets, pa.int64()), values, type=data_type, mask=mask)
    if pa.types.is_list(data_type):
        return pa.ListArray.from_arrays(pa.array(offsets, pa.int32()), values, type=data_type, mask=mask)
    wide = pa.types.is_large_list_view(data_type)
    view = pa.LargeListViewArray if wide else pa.ListViewArray
    integer = pa.int64() if wide else pa.int32()
    return view.from_arrays(
        pa.array(offsets[:-1], integer), pa.array(lengths, integer), values, type=data_type, mask=mask
    )


def _join_fixed_size(arrays: list[pa.Array], data_type: pa.DataType) -> pa.Array:
    """Join fixed-size lists, including the values under null lists, which Arrow also stores."""
    size = data_type.list_size
    values = _join(
        [array.values.slice(array.offset * size, len(array) * size) for array in arrays],
        data_type.field(0).type,
    )
    return pa.FixedSizeListArray.from_arrays(values, type=data_type, mask=arrays[0].is_null())
