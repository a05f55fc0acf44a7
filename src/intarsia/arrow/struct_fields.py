"""Look up the types and values of struct fields by path."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TypeVar

import pyarrow as pa
import pyarrow.compute as pc

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
