"""Rows selected from columns of any type, and results that own their memory."""

from __future__ import annotations

import operator
from collections.abc import Callable, Iterator
from itertools import pairwise
from typing import Any, TypeVar

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.types as pat

from intarsia.arrow.comparison import comparison_type
from intarsia.arrow.nested import Values, with_leaves


def take_rows(table: pa.Table, ordinals: npt.ArrayLike | pa.Array | pa.ChunkedArray) -> pa.Table:
    """Return rows of a table in a given order.

    Args:
        ordinals: The ordinals of the rows, integers.

    Example:
        >>> table = pa.table({"x": pa.array(["a", "b", "c"], pa.string_view())})
        >>> take_rows(table, [2, 0]).to_pylist()
        [{'x': 'c'}, {'x': 'a'}]
    """
    positions = _positions(ordinals)
    return _selected_rows(table, lambda plain: _taken(plain, positions))


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
    return _selected(values, lambda plain: _taken(plain, positions))


def by_key(
    keys: pa.ChunkedArray | pa.Array, values: npt.NDArray[np.int64]
) -> dict[Any, npt.NDArray[np.int64]]:
    """Group values by keys, of which there may be millions.

    Args:
        keys: The key of each value, none of them null.

    Example:
        >>> found = by_key(pa.chunked_array([["a", "b", "a"]]), np.arange(3))
        >>> found["a"].tolist(), found["b"].tolist()
        ([0, 2], [1])
    """
    keys = keys.combine_chunks() if isinstance(keys, pa.ChunkedArray) else keys
    encoded = keys.dictionary_encode()
    names, codes = encoded.dictionary.to_pylist(), encoded.indices.to_numpy()
    order = np.argsort(codes, kind="stable")
    edges = np.searchsorted(codes[order], np.arange(len(names) + 1)).tolist()
    values = values[order]
    return {name: values[start:stop] for name, (start, stop) in zip(names, pairwise(edges), strict=True)}


def places_in(ordinals: npt.NDArray[np.integer], length: int) -> pa.Array:
    """Return where each number below a length is among some ordinals, for `take_values`; null if it is not.

    Example:
        >>> places_in(np.array([2, 0]), 4).to_pylist()
        [1, None, 0, None]
    """
    places = np.full(length, -1)
    places[ordinals] = np.arange(len(ordinals))
    return pa.array(places, mask=places < 0)


def filter_rows(table: pa.Table, mask: pa.BooleanArray | pa.ChunkedArray) -> pa.Table:
    """Return the rows of a table whose flag is true.

    Args:
        mask: One flag for each row, not null.
    """
    return _selected_rows(table, lambda plain: plain.filter(mask))


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


def _taken(values: Any, positions: pa.Array | pa.ChunkedArray) -> Any:
    try:
        return values.take(positions)
    except pa.ArrowInvalid:
        if not isinstance(values, pa.ChunkedArray):
            raise
    # pyarrow joins chunks before it takes from them, and the text of all of them exceeds one array
    among = np.unique(positions.drop_null().to_numpy())
    needed = values.filter(pa.array(np.isin(np.arange(len(values)), among)))
    places = pc.index_in(positions, value_set=pa.array(among))
    try:
        return needed.take(places)
    except pa.ArrowInvalid:
        half = len(places) // 2
        if not half:
            raise
        parts = _taken(needed, places[:half]), _taken(needed, places[half:])
        return pa.chunked_array([chunk for part in parts for chunk in part.chunks], values.type)


def _selected_rows(table: pa.Table, select: Callable[[Any], Any]) -> pa.Table:
    if not table.num_columns:
        return select(table)
    return pa.Table.from_arrays([_selected(column, select) for column in table.columns], schema=table.schema)


def _selected(values: Values, select: Callable[[Values], Values]) -> Values:
    plain = selectable(values.type)
    return select(values) if plain == values.type else select(values.cast(plain)).cast(values.type)


def selectable(data_type: pa.DataType) -> pa.DataType:
    """Return a type without views, and without extensions of views, from which pyarrow cannot select values.

    Example:
        >>> selectable(pa.list_(pa.string_view())), selectable(pa.uuid())
        (ListType(list<item: large_string>), UuidType(extension<arrow.uuid>))
    """
    return with_leaves(data_type, _selectable_leaf)


def decoded_type(data_type: pa.DataType) -> pa.DataType:
    """Return the type to which a column is decoded, of which some rows are selected; see `selectable`.

    A column is decoded to several chunks if its text exceeds one, but text in lists is not.

    Example:
        >>> decoded_type(pa.string_view()), decoded_type(pa.list_(pa.string_view())), decoded_type(pa.int8())
        (DataType(string), ListType(list<item: large_string>), DataType(int8))
    """
    return comparison_type(data_type) if _is_view(data_type) else selectable(data_type)


def _selectable_leaf(data_type: pa.DataType) -> pa.DataType:
    if not isinstance(data_type, pa.BaseExtensionType):
        return without_view(data_type)
    storage = selectable(data_type.storage_type)
    return data_type if storage == data_type.storage_type else storage


def without_view(data_type: pa.DataType) -> pa.DataType:
    """Return large text or binary in place of a view."""
    if pa.types.is_string_view(data_type):
        return pa.large_string()
    return pa.large_binary() if pa.types.is_binary_view(data_type) else data_type


Rows = TypeVar("Rows", pa.Table, pa.RecordBatch, pa.ChunkedArray, pa.Array)

#: A column is copied if its buffers have more than this many times the bytes of its rows.
_MAX_RATIO = 2

#: Buffers below this size are not worth a copy.
_MIN_BYTES = 4096

#: Views of values of at most this many bytes contain the value itself.
_INLINE_BYTES = 12
_VIEW_BYTES = 16

_INDIRECT = frozenset(
    data_type.id
    for data_type in (pa.string_view(), pa.binary_view(), pa.dictionary(pa.int8(), pa.null()), pa.uuid())
)


def own_rows(rows: Rows) -> Rows:
    """Return the same rows in buffers that contain little else, with no struct at an offset.

    Each column is decided separately. It is copied if its buffers are more than twice the size of its rows.
    Of a large dictionary only the used values are copied. So a column of the result references at most about
    twice its size, provided that each of its buffers is a separate allocation. Unions are not copied.

    Structs at an offset are rebuilt around slices of their fields, without a copy of the values, because
    DataFusion 55 panics on nested structs with offsets.

    Args:
        rows: A table, record batch, chunked array or array.

    Returns:
        The same values, of the same type, in the same chunks, or ``rows`` itself if there is nothing to
        copy. The decision is linear in columns and chunks, and for views also in rows, whose lengths are
        summed.

    Example:
        >>> table = pa.table({"text": ["x" * 1000] * 1000}).slice(500, 2)
        >>> table.get_total_buffer_size(), own_rows(table).get_total_buffer_size()
        (1004004, 2012)
    """
    if isinstance(rows, pa.Array):
        return _own_chunks(rows, [rows])[0]
    if isinstance(rows, pa.ChunkedArray):
        chunks = rows.chunks
        owned = _own_chunks(rows, chunks)
        return rows if owned is chunks else pa.chunked_array(owned, type=rows.type)
    columns = rows.columns
    owned = []
    for column, nested in zip(columns, _nested(rows.schema), strict=True):
        is_small = not nested and column.get_total_buffer_size() <= _MIN_BYTES
        owned.append(column if is_small else own_rows(column))
    is_same = all(map(operator.is_, owned, columns))
    return rows if is_same else type(rows).from_arrays(owned, schema=rows.schema)


def to_batches(table: pa.Table, max_rows: int | None = None) -> Iterator[pa.RecordBatch]:
    """Yield batches of a table with no struct at an offset; no value is copied.

    Batches begin where a chunk of any column does, within the chunks of others. DuckDB and DataFusion refuse
    nested structs at an offset.

    Args:
        max_rows: Maximum number of rows of a batch; None for no limit.

    Example:
        >>> table = pa.table({"place": [{"x": {"y": 1}}, {"x": {"y": 2}}, {"x": {"y": 3}}]})
        >>> [batch.column("place").offset for batch in table.to_batches(2)]
        [0, 2]
        >>> [batch.column("place").offset for batch in to_batches(table, 2)]
        [0, 0]
    """
    may_begin_later = any(_nested(table.schema))
    for batch in table.to_batches(max_rows):
        columns = batch.columns
        begun = _begun(columns) if may_begin_later else columns
        yield batch if begun is columns else pa.RecordBatch.from_arrays(begun, schema=batch.schema)


def needed_bytes(table: pa.Table) -> int:
    """Estimate the size of the rows of a table in bytes.

    Example:
        >>> table = pa.table({"text": pa.array(["x" * 1000] * 1000, pa.string_view())}).slice(500, 2)
        >>> table.nbytes, needed_bytes(table)
        (1000032, 2032)
    """
    return int(sum(_needed_bytes(chunk) for column in table.columns for chunk in column.chunks))


def _nested(schema: pa.Schema) -> list[bool]:
    """Return for each column whether its type, or the storage of its type, has fields."""
    return [bool(one.num_fields) or isinstance(one, pa.BaseExtensionType) for one in schema.types]


def _own_chunks(column: pa.Array | pa.ChunkedArray, chunks: list[pa.Array]) -> list[pa.Array]:
    """Decide for all chunks of a column together, because they may be slices of the same buffers."""
    buffer_bytes = column.get_total_buffer_size()
    spare_bytes = buffer_bytes - _MIN_BYTES
    if spare_bytes > 0 and spare_bytes > _MAX_RATIO * sum(map(_needed_bytes, chunks)):
        return [_rebuilt(chunk, _copied) for chunk in chunks]
    return _begun(chunks)


def _begun(arrays: list[pa.Array]) -> list[pa.Array]:
    """Return arrays with no struct at an offset; the same list if there is none."""
    if all(map(_begins_at_zero, arrays)):
        return arrays
    return [array if _begins_at_zero(array) else _rebuilt(array, lambda leaf: leaf) for array in arrays]


def _needed_bytes(array: pa.Array) -> float:
    """Estimate the size of a copy in bytes.

    ``nbytes`` is too large: it counts all data of views and list views, and all values of dictionaries.
    """
    data_type, count = array.type, len(array)
    if count == 0:
        return 0
    if _is_flat(data_type):
        return float(array.nbytes)
    if isinstance(array, pa.ExtensionArray):
        return _needed_bytes(array.storage)
    if pat.is_union(data_type):
        return float(array.get_total_buffer_size())
    if _is_view(data_type):
        views = np.frombuffer(array.buffers()[1], np.int32, 4 * count, _VIEW_BYTES * array.offset)
        lengths = views[::4]
        return _VIEW_BYTES * count + int(lengths.sum(where=lengths > _INLINE_BYTES, dtype=np.int64))
    if pat.is_dictionary(data_type):
        values = array.dictionary
        return float(array.indices.nbytes) + _needed_bytes(values) * min(1, count / max(len(values), 1))
    if pat.is_struct(data_type):
        return count / 8 + sum(_needed_bytes(array.field(ordinal)) for ordinal in range(data_type.num_fields))
    if _is_list_view(data_type):
        used = pc.sum(array.sizes, min_count=0).as_py() / max(len(array.values), 1)
        return float(8 * count + _needed_bytes(array.values) * min(1, used))
    if _is_list(data_type):
        return 4 * count + _needed_bytes(_items(array))
    if pat.is_fixed_size_list(data_type):
        return count / 8 + _needed_bytes(_items(array))
    return float(array.nbytes)


def _begins_at_zero(array: pa.Array) -> bool:
    """Return whether no struct is at an offset, nor any fixed-size list of structs."""
    data_type = array.type
    if isinstance(array, pa.ExtensionArray):
        return _begins_at_zero(array.storage)
    if not data_type.num_fields:
        return True
    if pat.is_struct(data_type):
        return array.offset == 0 and all(
            _begins_at_zero(array.field(ordinal)) for ordinal in range(data_type.num_fields)
        )
    if pat.is_fixed_size_list(data_type):
        return _begins_at_zero(_items(array))
    if _is_list(data_type) or _is_list_view(data_type):
        return _begins_at_zero(array.values)
    return True


def _rebuilt(array: pa.Array, leaf: Callable[[pa.Array], pa.Array]) -> pa.Array:
    """Rebuild nested levels so that they begin at zero, with ``leaf`` applied to the innermost arrays."""
    data_type = array.type
    if isinstance(array, pa.ExtensionArray):
        return pa.ExtensionArray.from_storage(data_type, _rebuilt(array.storage, leaf))
    mask = array.is_null() if array.null_count else None
    if pat.is_struct(data_type) and data_type.num_fields:
        fields = [_rebuilt(array.field(ordinal), leaf) for ordinal in range(data_type.num_fields)]
        return pa.StructArray.from_arrays(fields, fields=list(data_type), mask=mask)
    if pat.is_fixed_size_list(data_type) and data_type.list_size:
        return pa.FixedSizeListArray.from_arrays(_rebuilt(_items(array), leaf), type=data_type, mask=mask)
    if _is_list(data_type):
        offsets = pc.subtract(array.offsets, array.offsets[0])
        items = _rebuilt(_items(array), leaf)
        if pat.is_map(data_type):
            return pa.MapArray.from_arrays(offsets, items.field(0), items.field(1), type=data_type, mask=mask)
        return type(array).from_arrays(offsets, items, type=data_type, mask=mask)
    if _is_list_view(data_type):
        array = pa.concat_arrays([array])  # keeps only the values that the rows reference
        return type(array).from_arrays(
            array.offsets, array.sizes, _rebuilt(array.values, leaf), type=data_type, mask=mask
        )
    return leaf(array)


def _copied(array: pa.Array) -> pa.Array:
    """Copy an array that is not nested."""
    if _is_view(array.type):
        return array.cast(without_view(array.type)).cast(array.type)
    if pat.is_dictionary(array.type):
        return _copied_dictionary(array)
    return pa.concat_arrays([array])


def _copied_dictionary(array: pa.DictionaryArray) -> pa.DictionaryArray:
    """Copy a dictionary array. If few of its values are used, drop the others."""
    values, used = array.dictionary, pc.unique(array.indices.drop_null())
    if len(values) <= _MAX_RATIO * len(used) or values.get_total_buffer_size() <= _MIN_BYTES:
        return pa.concat_arrays([array])
    return _with_values(array, used)


def with_short_dictionaries(table: pa.Table, max_values: int = 0) -> pa.Table:
    """Drop the values that no row has from dictionaries with more values than a maximum.

    Example:
        >>> words = pa.array(["a", "b", "c"]).dictionary_encode()
        >>> table = with_short_dictionaries(pa.table({"word": words.slice(2)}))
        >>> table["word"].chunk(0).dictionary.to_pylist()
        ['c']
    """
    for ordinal, field in enumerate(table.schema):
        if pat.is_dictionary(field.type):
            chunks = table.column(ordinal).chunks
            if max((len(chunk.dictionary) for chunk in chunks), default=0) > max_values:
                used = [_with_values(chunk, pc.unique(chunk.indices.drop_null())) for chunk in chunks]
                table = table.set_column(ordinal, field, pa.chunked_array(used, field.type))
    return table


def _with_values(array: pa.DictionaryArray, used: pa.Array) -> pa.DictionaryArray:
    used = used.take(pc.sort_indices(used))
    codes = pc.index_in(array.indices, used).cast(array.type.index_type)
    values = take_values(array.dictionary, used)
    return pa.DictionaryArray.from_arrays(codes, values, ordered=array.type.ordered)


def _items(array: pa.Array) -> pa.Array:
    """Return the values of lists from first to last, including those of null lists, without a copy."""
    if pat.is_fixed_size_list(array.type):
        size = array.type.list_size
        return array.values.slice(array.offset * size, len(array) * size)
    first, last = array.offsets[0].as_py(), array.offsets[-1].as_py()
    return array.values.slice(first, last - first)


def _is_flat(data_type: pa.DataType) -> bool:
    """Return whether arrays of this type store the bytes of their rows directly, as most types do."""
    return data_type.num_fields == 0 and data_type.id not in _INDIRECT


def _is_view(data_type: pa.DataType) -> bool:
    return bool(pat.is_string_view(data_type) or pat.is_binary_view(data_type))


def _is_list(data_type: pa.DataType) -> bool:
    """Return whether arrays of this type have offsets and values: lists and maps."""
    return bool(pat.is_list(data_type) or pat.is_large_list(data_type) or pat.is_map(data_type))


def _is_list_view(data_type: pa.DataType) -> bool:
    return bool(pat.is_list_view(data_type) or pat.is_large_list_view(data_type))
