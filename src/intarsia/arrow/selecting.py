"""Select rows of columns of any type; pyarrow 26 cannot select from views."""

from __future__ import annotations

from collections.abc import Callable

import numpy.typing as npt
import pyarrow as pa

from intarsia.arrow.conforming import conform


def take_rows(table: pa.Table, ordinals: npt.ArrayLike) -> pa.Table:
    """Return rows of a table in a given order.

    Args:
        table: The table.
        ordinals: The ordinals of the rows, int64.

    Example:
        >>> table = pa.table({"x": pa.array(["a", "b", "c"], pa.string_view())})
        >>> take_rows(table, [2, 0]).to_pylist()
        [{'x': 'c'}, {'x': 'a'}]
    """
    positions = pa.array(ordinals, pa.int64())
    if not table.num_columns:
        return table.take(positions)
    columns = [_selected(column, lambda plain: plain.take(positions)) for column in table.columns]
    return pa.Table.from_arrays(columns, schema=table.schema)


def filter_values(column: pa.ChunkedArray, mask: pa.BooleanArray) -> pa.ChunkedArray:
    """Return the values of a column whose flag is true.

    Args:
        column: The column.
        mask: One flag for each value, not null.
    """
    return _selected(column, lambda plain: plain.filter(mask))


def _selected(
    column: pa.ChunkedArray, select: Callable[[pa.ChunkedArray], pa.ChunkedArray]
) -> pa.ChunkedArray:
    if isinstance(column.type, pa.BaseExtensionType):
        storage = pa.chunked_array([chunk.storage for chunk in column.chunks], column.type.storage_type)
        chunks = [column.type.wrap_array(chunk) for chunk in _selected(storage, select).chunks]
        return pa.chunked_array(chunks, column.type)
    return conform(select(conform(column, _without_views(column.type))), column.type)


def _without_views(data_type: pa.DataType) -> pa.DataType:
    """Return a type with large text and binary in place of views."""
    if pa.types.is_string_view(data_type):
        return pa.large_string()
    if pa.types.is_binary_view(data_type):
        return pa.large_binary()
    if pa.types.is_struct(data_type):
        return pa.struct([field.with_type(_without_views(field.type)) for field in data_type])
    if pa.types.is_map(data_type):
        key, item = data_type.key_field, data_type.item_field
        return pa.map_(
            key.with_type(_without_views(key.type)),
            item.with_type(_without_views(item.type)),
            data_type.keys_sorted,
        )
    if pa.types.is_list(data_type) or pa.types.is_large_list(data_type):
        field = data_type.value_field.with_type(_without_views(data_type.value_type))
        return pa.list_(field) if pa.types.is_list(data_type) else pa.large_list(field)
    if pa.types.is_fixed_size_list(data_type):
        field = data_type.value_field.with_type(_without_views(data_type.value_type))
        return pa.list_(field, data_type.list_size)
    return data_type
