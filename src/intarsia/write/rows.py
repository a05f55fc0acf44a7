"""The rows of a file: their order, and the leaf columns that Parquet stores."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from typing import TypeAlias

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq

from intarsia.arrow.comparison import comparison_array, comparison_type, sortable_type
from intarsia.arrow.nested import with_leaves
from intarsia.arrow.owned_rows import no_rows, take_rows, without_view
from intarsia.errors import ColumnNotFoundError, WriteError
from intarsia.file import ParquetInput
from intarsia.format.footer import MAX_SCHEMA_DEPTH

#: ``"col"``, or columns in order of significance, each optionally with ``"descending"``.
SortBy: TypeAlias = "str | Sequence[str | tuple[str, str]]"

#: A column, and ``"ascending"`` or ``"descending"``.
SortKey: TypeAlias = tuple[str, str]

_DIRECTIONS = ("ascending", "descending")


def sort_keys(sort_by: SortBy | None, schema: pa.Schema) -> list[SortKey]:
    """Return the columns to sort by, each with its direction.

    Raises:
        ColumnNotFoundError: If the schema has no such top-level column.
        WriteError: If an element is neither a name nor a pair, a direction is unknown, or the type of a
            column cannot be sorted.

    Example:
        >>> sort_keys(["a", ("b", "descending")], pa.schema({"a": pa.int64(), "b": pa.int64()}))
        [('a', 'ascending'), ('b', 'descending')]
    """
    if sort_by is not None and not isinstance(sort_by, str | list | tuple):
        raise _not_keys(sort_by)
    items = [sort_by] if isinstance(sort_by, str) else list(sort_by or ())
    keys: list[SortKey] = []
    for item in items:
        name, direction = _name_and_direction(item)
        if name not in schema.names:
            if item in _DIRECTIONS:  # a pair without the list around it
                raise _not_keys(sort_by)
            raise ColumnNotFoundError(name, schema.names)
        if direction not in _DIRECTIONS:
            raise WriteError(
                f"sort_by: the direction of {name!r} is {direction!r}; use 'ascending' or 'descending'",
                reason="unknown-direction",
                column=name,
            )
        if name in dict(keys):
            raise WriteError(
                f"sort_by: {name!r} is given twice; remove one", reason="duplicate-sort-column", column=name
            )
        keys.append((name, direction))
    if keys:
        sorted_rows(no_rows(schema), keys)
    return keys


def _name_and_direction(item: object) -> SortKey:
    if isinstance(item, str):
        return item, "ascending"
    if isinstance(item, tuple | list) and len(item) == 2 and isinstance(item[0], str):
        return item[0], item[1]
    raise _not_keys(item)


def _not_keys(item: object) -> WriteError:
    return WriteError(
        f"sort_by: {item!r} is not a column; pass a name, or a list of names and pairs such as "
        "('name', 'descending')",
        reason="invalid-sort-by",
    )


def sorted_rows(table: pa.Table, keys: Sequence[SortKey]) -> pa.Table:
    """Sort the rows stably, nulls last.

    Raises:
        WriteError: If the type of a column cannot be sorted, or pyarrow cannot reorder the rows.
    """
    columns = [sortable(table.column(name)) for name, _ in keys]
    named = pa.table(columns, names=[name for name, _ in keys])
    try:
        # nulls at the end; pyarrow takes a text that starts with a dot as a path
        order = pc.sort_indices(named, sort_keys=[(pc.field(name), direction) for name, direction in keys])
        # rows that are already sorted, such as by Spark, are not copied; the sort is stable
        is_sorted = bool(np.array_equal(order.to_numpy(), np.arange(len(order))))
        return table if is_sorted else take_rows(table, order)
    except (pa.ArrowNotImplementedError, pa.ArrowTypeError) as error:
        raise WriteError(
            f"rows cannot be sorted by {keys}: {error}; cast the column, or sort the rows yourself",
            reason="not-sortable",
        ) from error


def sortable(column: pa.Array | pa.ChunkedArray) -> pa.Array | pa.ChunkedArray:
    """Cast to a type that pyarrow sorts correctly; it fails on dictionaries and missorts small decimals."""
    data_type = comparison_type(column.type)
    return comparison_array(column, data_type).cast(sortable_type(data_type))


def sorting_columns(keys: Sequence[SortKey], file: ParquetInput) -> list[pq.SortingColumn] | None:
    """Return the order for the footer, up to the first column on which readers disagree.

    That is a floating-point column, because Parquet does not define the position of NaN, or a struct, which
    is not a leaf. The file has the same schema.
    """
    out = []
    for name, direction in keys:
        if pa.types.is_floating(comparison_type(file.arrow_schema.field(name).type)):
            break
        leaf = file.schema.leaves_by_path.get((name,))
        if leaf is None:
            break
        out.append(pq.SortingColumn(leaf.ordinal, direction == "descending", False))
    return out or None


#: The size of the sample that decides whether the values of a leaf repeat, in values.
_SAMPLED_VALUES = 1 << 16

#: A leaf gets a dictionary if at most this share of its sampled values is distinct.
_MAX_DISTINCT = 0.5


def leaf_arrays(table: pa.Table) -> list[list[pa.Array]]:
    """Return the leaves of a table in Parquet's order, each in chunks.

    A leaf may include the values of structs and lists that are null.

    Example:
        >>> table = pa.table({"s": [{"a": 1, "b": [2.0, 3.0]}]})
        >>> [[chunk.to_pylist() for chunk in leaf] for leaf in leaf_arrays(table)]
        [[[1]], [[2.0, 3.0]]]
    """
    chunks_of = [column.chunks or [pa.array([], column.type)] for column in table.columns]
    return [list(leaf) for chunks in chunks_of for leaf in zip(*map(_leaves, chunks), strict=True)]


def _leaves(array: pa.Array) -> Iterator[pa.Array]:
    if isinstance(array, pa.ExtensionArray):
        array = array.storage
    if pa.types.is_struct(array.type):
        for child in array.flatten():
            yield from _leaves(child)
    elif pa.types.is_map(array.type):
        start, stop = (array.offsets[ordinal].as_py() for ordinal in (0, -1))
        yield from _leaves(array.keys.slice(start, stop - start))
        yield from _leaves(array.items.slice(start, stop - start))
    elif pa.types.is_nested(array.type):
        yield from _leaves(array.flatten())
    else:
        yield array


def writable_schema(schema: pa.Schema) -> pa.Schema:
    """Replace views in dictionaries, and views and dictionaries within nested types, by plain types.

    pyarrow 26 writes no dictionaries of views, and cannot split nested views into pages. For nested
    dictionaries it does not count the nulls of the surrounding struct or list, so that readers that trust
    ``null_count`` lose rows.

    Raises:
        WriteError: If a column is nested too deeply for readers.

    Example:
        >>> schema = pa.schema({"s": pa.struct({"x": pa.string_view()}), "v": pa.string_view()})
        >>> writable_schema(schema).types
        [StructType(struct<x: large_string>), DataType(string_view)]
    """
    for field in schema:
        _check_depth(field)
    encoded = without_encoded_views(schema)
    return _with_types(
        encoded, lambda kind: with_leaves(kind, _plain_leaf) if pa.types.is_nested(kind) else kind
    )


def without_encoded_views(schema: pa.Schema) -> pa.Schema:
    """Replace the views in dictionaries, as Polars has in categorical columns.

    pyarrow 26 casts such a dictionary to another dictionary only.

    Example:
        >>> schema = pa.schema({"c": pa.dictionary(pa.int8(), pa.string_view()), "v": pa.string_view()})
        >>> without_encoded_views(schema).types
        [DictionaryType(dictionary<values=large_string, indices=int8, ordered=0>), DataType(string_view)]
    """
    return _with_types(schema, lambda kind: with_leaves(kind, _without_encoded_view))


def _with_types(schema: pa.Schema, replace: Callable[[pa.DataType], pa.DataType]) -> pa.Schema:
    for ordinal, field in enumerate(schema):
        data_type = replace(field.type)
        if data_type != field.type:
            schema = schema.set(ordinal, field.with_type(data_type))
    return schema


def _check_depth(column: pa.Field) -> None:
    """Refuse a column that pyarrow could write, but neither pyarrow nor Intarsia could read."""
    # without recursion, which deep types would exceed; the root is a level, too
    pending = [(column.type, 2)]
    while pending:
        data_type, depth = pending.pop()
        if depth > MAX_SCHEMA_DEPTH:
            raise WriteError(
                f"column {column.name!r} is nested more than {MAX_SCHEMA_DEPTH} levels deep, which readers "
                "refuse; flatten it",
                reason="nested-too-deeply",
                column=column.name,
            )
        # Parquet has a level between a list and its elements; Arrow's maps have the structs of their entries
        levels = 1 if pa.types.is_struct(data_type) or pa.types.is_map(data_type) else 2
        pending += [(data_type.field(child).type, depth + levels) for child in range(data_type.num_fields)]


def _without_encoded_view(data_type: pa.DataType) -> pa.DataType:
    if not pa.types.is_dictionary(data_type):
        return data_type
    return pa.dictionary(data_type.index_type, without_view(data_type.value_type), data_type.ordered)


def _plain_leaf(data_type: pa.DataType) -> pa.DataType:
    if pa.types.is_dictionary(data_type):
        return with_leaves(data_type.value_type, _plain_leaf)
    return without_view(data_type)


def contains_nan(leaf: list[pa.Array]) -> bool:
    """Return whether a leaf contains NaN.

    Example:
        >>> contains_nan([pa.array([1.0, None])]), contains_nan([pa.array([1.0, float("nan")])])
        (False, True)
    """
    for values in leaf:
        if pa.types.is_dictionary(values.type):
            values = values.dictionary
        if not pa.types.is_floating(values.type):
            return False
        if pa.types.is_float16(values.type):
            values = values.cast(pa.float32())
        if pc.any(pc.is_nan(values)).as_py():
            return True
    return False


def repeats(leaf: list[pa.Array]) -> bool:
    """Return whether values of a sample repeat often enough for a dictionary to make the leaf smaller.

    The sample is random, so that short runs of equal values do not look like few distinct values.

    Example:
        >>> repeats([pa.array(range(1000))]), repeats([pa.array([1, 2] * 500)])
        (False, True)
    """
    if pa.types.is_dictionary(leaf[0].type):
        return True
    edges = np.cumsum([0, *map(len, leaf)])
    chosen = np.arange(edges[-1])
    if edges[-1] > _SAMPLED_VALUES:
        chosen = np.sort(np.random.default_rng(0).choice(edges[-1], _SAMPLED_VALUES, replace=False))
    cuts = np.searchsorted(chosen, edges)
    try:
        sample = pa.chunked_array(
            [
                values.cast(without_view(values.type)).take(pa.array(chosen[start:stop] - first))
                for values, first, start, stop in zip(leaf, edges[:-1], cuts[:-1], cuts[1:], strict=True)
            ]
        )
        distinct = len(pc.unique(sample.drop_null()))
    except pa.ArrowNotImplementedError:  # the type cannot be hashed: use pyarrow's default
        return True
    return bool(distinct <= _MAX_DISTINCT * (len(sample) - sample.null_count))
