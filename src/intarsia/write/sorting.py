"""The order of rows: as it is asked for, applied to a table, and as the footer has it."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TypeAlias

import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq

from intarsia.arrow.comparison import comparison_array, comparison_type, sortable_type
from intarsia.errors import ColumnNotFoundError, WriteError
from intarsia.file import ParquetInput

#: ``"col"``, or columns in the order in which they count, each perhaps with ``"descending"``.
SortBy: TypeAlias = "str | Sequence[str | tuple[str, str]]"

#: A column, and ``"ascending"`` or ``"descending"``.
SortKey: TypeAlias = tuple[str, str]


def sort_keys(sort_by: SortBy | None, schema: pa.Schema) -> list[SortKey]:
    """The columns to sort by, each with its direction.

    Raises:
        ColumnNotFoundError: If there is no such column at the top level.
        WriteError: If a direction is unknown, or rows cannot be sorted by a column.

    Example:
        >>> sort_keys(["a", ("b", "descending")], pa.schema({"a": pa.int64(), "b": pa.int64()}))
        [('a', 'ascending'), ('b', 'descending')]
    """
    asked = [sort_by] if isinstance(sort_by, str) else list(sort_by or ())
    keys: list[SortKey] = []
    for item in asked:
        name, direction = (item, "ascending") if isinstance(item, str) else tuple(item)
        if name not in schema.names:
            raise ColumnNotFoundError(name, schema.names)
        if direction not in ("ascending", "descending"):
            raise WriteError(f"sort_by: {name!r} is {direction!r}; use 'ascending' or 'descending'")
        if name in dict(keys):
            raise WriteError(f"sort_by: {name!r} is given twice")
        keys.append((name, direction))
    if keys:
        sorted_rows(pa.Table.from_batches([], schema), keys)
    return keys


def sorted_rows(table: pa.Table, keys: Sequence[SortKey]) -> pa.Table:
    """The rows in order, nulls last; equal ones stay as they were.

    Raises:
        WriteError: If a column cannot be sorted by, or its rows not be put in order.
    """
    columns = [_sortable(table.column(name)) for name, _ in keys]
    named = pa.table(columns, names=[name for name, _ in keys])
    try:
        order = pc.sort_indices(named, sort_keys=list(keys))  # nulls at the end
        return table.take(order)
    except (pa.ArrowNotImplementedError, pa.ArrowTypeError) as error:
        raise WriteError(f"rows cannot be sorted by {keys}: {error}; sort them before, or cast") from error


def _sortable(column: pa.ChunkedArray) -> pa.ChunkedArray:
    """What pyarrow sorts by as it should: not dictionaries, and decimals of 32 and 64 bits only seemingly."""
    data_type = comparison_type(column.type)
    return comparison_array(column, data_type).cast(sortable_type(data_type))


def sorting_columns(keys: Sequence[SortKey], file: ParquetInput) -> list[pq.SortingColumn] | None:
    """The order as the footer has it, as far as every reader understands the same by it.

    A floating-point column ends it: Parquet does not say where NaN stands, and readers differ. So does a
    struct, which is no leaf.

    Args:
        keys: How rows are sorted.
        file: A file of the same schema.
    """
    out = []
    for name, direction in keys:
        if pa.types.is_floating(comparison_type(file.arrow_schema.field(name).type)):
            break
        leaf = file.leaves_by_path.get((name,))
        if leaf is None:
            break
        out.append(pq.SortingColumn(leaf.ordinal, direction == "descending", False))
    return out or None
