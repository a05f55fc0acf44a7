"""Nested types with other types in place of their leaves."""

from __future__ import annotations

from collections.abc import Callable

import pyarrow as pa


def with_leaves(data_type: pa.DataType, replace: Callable[[pa.DataType], pa.DataType]) -> pa.DataType:
    """Return a type in which other types replace those that are not nested.

    Args:
        data_type: Any type.
        replace: Returns the type in place of one that is neither a struct, a map nor a list.

    Example:
        >>> data_type = pa.struct({"x": pa.list_(pa.uuid()), "y": pa.int8()})
        >>> with_leaves(data_type, storage_of).field("x").type
        ListType(list<item: fixed_size_binary[16]>)
    """
    if pa.types.is_struct(data_type):
        return pa.struct([_with_leaves(field, replace) for field in data_type])
    if pa.types.is_map(data_type):
        key, item = (_with_leaves(field, replace) for field in (data_type.key_field, data_type.item_field))
        return pa.map_(key, item, data_type.keys_sorted)
    if pa.types.is_list(data_type):
        return pa.list_(_with_leaves(data_type.value_field, replace))
    if pa.types.is_large_list(data_type):
        return pa.large_list(_with_leaves(data_type.value_field, replace))
    if pa.types.is_fixed_size_list(data_type):
        return pa.list_(_with_leaves(data_type.value_field, replace), data_type.list_size)
    return replace(data_type)


def _with_leaves(field: pa.Field, replace: Callable[[pa.DataType], pa.DataType]) -> pa.Field:
    return field.with_type(with_leaves(field.type, replace))


def storage_of(data_type: pa.DataType) -> pa.DataType:
    """Return the storage type of an extension type, or another type itself."""
    if isinstance(data_type, pa.BaseExtensionType):
        return with_leaves(data_type.storage_type, storage_of)
    return data_type


def text_of_json(data_type: pa.DataType) -> pa.DataType:
    """Return the type of the text of JSON, or another type itself."""
    return data_type.storage_type if isinstance(data_type, pa.JsonType) else data_type
