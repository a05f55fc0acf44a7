"""The order of rows: parsing ``sort_by``, sorting a table, and recording the order in the footer."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TypeAlias

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq

from intarsia.arrow.comparison import comparison_array, comparison_type, sortable_type
from intarsia.arrow.owned_rows import no_rows, take_rows
from intarsia.errors import ColumnNotFoundError, WriteError
from intarsia.file import ParquetInput

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
    columns = [_sortable(table.column(name)) for name, _ in keys]
    named = pa.table(columns, names=[name for name, _ in keys])
    try:
        order = pc.sort_indices(named, sort_keys=list(keys))  # nulls at the end
        # rows that are already sorted, such as by Spark, are not copied; the sort is stable
        is_sorted = bool(np.array_equal(order.to_numpy(), np.arange(len(order))))
        return table if is_sorted else take_rows(table, order)
    except (pa.ArrowNotImplementedError, pa.ArrowTypeError) as error:
        raise WriteError(
            f"rows cannot be sorted by {keys}: {error}; cast the column, or sort the rows yourself",
            reason="not-sortable",
        ) from error


def _sortable(column: pa.ChunkedArray) -> pa.ChunkedArray:
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
