"""Assemble columns of structs, lists and maps from columns that each have some of the leaves."""

from __future__ import annotations

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc


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
