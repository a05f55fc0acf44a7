"""Select rows of columns of any type; pyarrow 26 cannot select from views."""

from __future__ import annotations

from collections.abc import Callable
from typing import TypeVar

import numpy.typing as npt
import pyarrow as pa

from intarsia.arrow.conforming import conform
from intarsia.arrow.nested_types import with_leaves

Values = TypeVar("Values", pa.Array, pa.ChunkedArray)


def take_rows(table: pa.Table, ordinals: npt.ArrayLike | pa.Array | pa.ChunkedArray) -> pa.Table:
    """Return rows of a table in a given order.

    Args:
        table: The table.
        ordinals: The ordinals of the rows, integers.

    Example:
        >>> table = pa.table({"x": pa.array(["a", "b", "c"], pa.string_view())})
        >>> take_rows(table, [2, 0]).to_pylist()
        [{'x': 'c'}, {'x': 'a'}]
    """
    positions = _positions(ordinals)
    if not table.num_columns:
        return table.take(positions)
    columns = [take_values(column, positions) for column in table.columns]
    return pa.Table.from_arrays(columns, schema=table.schema)


def take_values(values: Values, ordinals: npt.ArrayLike | pa.Array | pa.ChunkedArray) -> Values:
    """Return values in a given order.

    Args:
        values: An array or chunked array of any type.
        ordinals: The ordinals of the values, integers; the result is null where they are null.

    Example:
        >>> take_values(pa.array(["a", "b"], pa.string_view()), pa.array([1, None])).to_pylist()
        ['b', None]
    """
    positions = _positions(ordinals)
    return _selected(values, lambda plain: plain.take(positions))


def filter_rows(table: pa.Table, mask: pa.BooleanArray | pa.ChunkedArray) -> pa.Table:
    """Return the rows of a table whose flag is true.

    Args:
        table: The table.
        mask: One flag for each row, not null.
    """
    if not table.num_columns:
        return table.filter(mask)
    columns = [filter_values(column, mask) for column in table.columns]
    return pa.Table.from_arrays(columns, schema=table.schema)


def filter_values(values: Values, mask: pa.BooleanArray | pa.ChunkedArray) -> Values:
    """Return the values whose flag is true.

    Args:
        values: An array or chunked array of any type.
        mask: One flag for each value, not null.
    """
    return _selected(values, lambda plain: plain.filter(mask))


def no_rows(schema: pa.Schema) -> pa.Table:
    """Return a table without rows; ``schema.empty_table()`` fails for nested extension types."""
    return pa.Table.from_batches([], schema)


def _positions(ordinals: npt.ArrayLike | pa.Array | pa.ChunkedArray) -> pa.Array | pa.ChunkedArray:
    is_arrow = isinstance(ordinals, pa.Array | pa.ChunkedArray)
    return ordinals if is_arrow else pa.array(ordinals, pa.int64())


def _selected(values: Values, select: Callable[[Values], Values]) -> Values:
    data_type = values.type
    if not isinstance(data_type, pa.BaseExtensionType):
        return conform(select(conform(values, with_leaves(data_type, _without_view))), data_type)
    if isinstance(values, pa.Array):
        return data_type.wrap_array(_selected(values.storage, select))
    storage = pa.chunked_array([chunk.storage for chunk in values.chunks], data_type.storage_type)
    chunks = [data_type.wrap_array(chunk) for chunk in _selected(storage, select).chunks]
    return pa.chunked_array(chunks, data_type)


def _without_view(data_type: pa.DataType) -> pa.DataType:
    """Return large text or binary in place of a view."""
    if pa.types.is_string_view(data_type):
        return pa.large_string()
    return pa.large_binary() if pa.types.is_binary_view(data_type) else data_type
