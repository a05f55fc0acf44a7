"""Exact comparison of tables: NaN equals itself, -0.0 differs from 0.0, and nanoseconds are compared."""

from __future__ import annotations

import pyarrow as pa


def bits(array):
    """The values of an array as Python values that are equal only if their bits are equal."""
    if isinstance(array, pa.ChunkedArray):
        return [value for chunk in array.chunks for value in bits(chunk)]
    if isinstance(array, pa.ExtensionArray):
        return bits(array.storage)
    kind = array.type
    if pa.types.is_dictionary(kind):
        distinct = bits(array.dictionary)
        return [None if ordinal is None else distinct[ordinal] for ordinal in array.indices.to_pylist()]
    if pa.types.is_struct(kind):
        children = [bits(child) for child in array.flatten()]
        return [
            tuple(child[row] for child in children) if valid else None
            for row, valid in enumerate(array.is_valid().to_pylist())
        ]
    if pa.types.is_map(kind) or _is_list(kind):
        return [None if not item.is_valid else tuple(bits(item.values)) for item in array]
    if pa.types.is_floating(kind):
        return _viewed(array, {16: pa.uint16(), 32: pa.uint32(), 64: pa.uint64()}[kind.bit_width])
    if pa.types.is_temporal(kind):
        return _viewed(array, pa.int32() if kind.bit_width == 32 else pa.int64())
    return array.to_pylist()


def _viewed(array, kind):
    return array.view(kind).to_pylist()


def _is_list(kind):
    return (
        pa.types.is_list(kind)
        or pa.types.is_large_list(kind)
        or pa.types.is_fixed_size_list(kind)
        or pa.types.is_list_view(kind)
        or pa.types.is_large_list_view(kind)
    )


def assert_same_rows(found: pa.Table, expected: pa.Table, keep=None) -> None:
    """Assert equal types, names and metadata, and equal rows; ``keep`` selects rows of ``expected``."""
    assert found.schema.equals(expected.schema, check_metadata=True), f"{found.schema}\n!=\n{expected.schema}"
    found.validate(full=True)
    for name, one, other in zip(expected.column_names, found.columns, expected.columns, strict=True):
        values = bits(other)
        if keep is not None:
            values = [value for value, kept in zip(values, keep, strict=True) if kept]
        assert bits(one) == values, name
    count = expected.num_rows if keep is None else sum(keep)
    assert found.num_rows == count


def leaf_at(table: pa.Table, path: str) -> pa.ChunkedArray:
    """A column, or a struct field by dotted path, which is null where a struct is null."""
    first, *rest = path.split(".")
    column = table[first]
    for name in rest:
        place = column.type.get_field_index(name)
        kind = column.type.field(place).type
        column = pa.chunked_array([chunk.flatten()[place] for chunk in column.chunks], kind)
    return column
