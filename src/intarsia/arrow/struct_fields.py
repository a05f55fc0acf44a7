"""Fields of structs, by the names that lead to them: their types, and their values."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TypeVar

import pyarrow as pa
import pyarrow.compute as pc

Values = TypeVar("Values", pa.Array, pa.ChunkedArray)


def field_type(data_type: pa.DataType, names: Sequence[str]) -> pa.DataType | None:
    """The type of a field of structs in structs; None if there is no such field.

    Args:
        data_type: The type of the outermost struct.
        names: The way from there; if it is empty, the type is the answer.

    Example:
        >>> field_type(pa.struct({"b": pa.struct({"c": pa.int64()})}), ["b", "c"])
        DataType(int64)
    """
    for name in names:
        place = data_type.get_field_index(name) if pa.types.is_struct(data_type) else -1
        if place < 0:
            return None
        data_type = data_type.field(place).type
    return data_type


def field_values(values: Values, names: Sequence[str]) -> Values:
    """The values of such a field, which is there; null where a struct above it is null."""
    for name in names:
        values = pc.struct_field(values, [values.type.get_field_index(name)])
    return values
