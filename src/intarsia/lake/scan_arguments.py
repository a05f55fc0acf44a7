"""Arguments of a scan: the order of its rows, and the rows chosen by their numbers."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace
from numbers import Integral
from typing import TypeAlias, TypeGuard, TypeVar

import numpy as np
import pyarrow as pa

from intarsia.arrow.owned_rows import by_key
from intarsia.errors import PredicateError
from intarsia.lake.data_file import RowsNotChosen
from intarsia.lake.snapshot import Snapshot
from intarsia.lake.table_files import TableFiles
from intarsia.predicate import ColumnName, find_column, resolve_column
from intarsia.read.output_columns import OutputColumn
from intarsia.read.sort_key import SortKey
from intarsia.rows.selection import Rows, RowSelection

OrderBy: TypeAlias = "str | tuple[str, str] | Sequence[str | tuple[str, str]]"
"""SQL text, or a list of columns, each as SQL text or as pyarrow's ``(name, "descending")``."""

_PART = re.compile(r"\"(?:[^\"]|\"\")*\"|[^\s\",().]+")

_COLUMN = re.compile(
    rf"\s*(?P<name>(?:{_PART.pattern})(?:\.(?:{_PART.pattern}))*|[^\s\",()]+)"
    r"(?:\s+(?P<direction>ASC|DESC))?"
    r"(?:\s+NULLS\s+(?P<nulls>FIRST|LAST))?\s*(?P<end>,|\Z)",
    re.IGNORECASE,
)


def parse_order(order: OrderBy, schema: pa.Schema) -> SortKey:
    """Parse an order.

    Args:
        order: Columns separated by commas, or a list of columns. A column is its name, which may be quoted or
            dotted; ``ASC`` (the default) or ``DESC``; and ``NULLS LAST`` (the default) or ``NULLS FIRST``. Or
            it is a tuple of its name and ``"ascending"`` or ``"descending"``.

    Raises:
        PredicateError: If the order has another form, or the values of a column have no order.
        ColumnNotFoundError: If the table has no such column.

    Example:
        >>> key = parse_order("x desc, y", pa.schema({"x": pa.int64(), "y": pa.int64()}))
        >>> [(one.column.name, one.descending, one.nulls_first) for one in (key, *key.then)]
        [('x', True, False), ('y', False, False)]
    """
    by_column: dict[tuple[str, ...], SortKey] = {}
    for name, descending, nulls_first in _columns(order):
        resolve_column(schema, name)
        path, data_type = find_column(schema, name)
        column = OutputColumn(path[-1], path, data_type)
        by_column.setdefault(path, SortKey(column, descending=descending, nulls_first=nulls_first))
    if not by_column:
        raise _not_an_order(order)
    first, *others = by_column.values()
    return replace(first, then=tuple(others))


def _columns(order: object) -> Iterator[tuple[ColumnName, bool, bool]]:
    """Yield the name of each column, whether it is descending, and whether nulls come first."""
    if isinstance(order, str):
        yield from _in_text(order)
    elif _is_named(order):
        yield order[0], order[1] == "descending", False
    elif isinstance(order, (list, tuple)):
        for column in order:
            if not isinstance(column, str) and not _is_named(column):
                raise _not_an_order(column)
            yield from _columns(column)
    else:
        raise _not_an_order(order)


def _is_named(order: object) -> TypeGuard[tuple[str, str]]:
    """Return whether an order is pyarrow's form of one column."""
    return (
        isinstance(order, tuple)
        and len(order) == 2
        and isinstance(order[0], str)
        and order[1] in ("ascending", "descending")
    )


def _in_text(text: str) -> Iterator[tuple[ColumnName, bool, bool]]:
    position, end = 0, ","
    while end:
        match = _COLUMN.match(text, position)
        if match is None:
            raise _not_an_order(text)
        position, end = match.end(), match["end"]
        yield (
            _column_name(match["name"]),
            (match["direction"] or "").upper() == "DESC",
            (match["nulls"] or "").upper() == "FIRST",
        )


def _column_name(text: str) -> ColumnName:
    """Return a name; a path of exact names if some of several parts are quoted, as in a predicate."""
    if '"' not in text:
        return text
    parts = [part[1:-1].replace('""', '"') if part[0] == '"' else part for part in _PART.findall(text)]
    return parts[0] if len(parts) == 1 else tuple(parts)


def _not_an_order(order: object) -> PredicateError:
    return PredicateError(
        f"cannot order by {order!r:.80}; write columns, such as 'amount DESC, day NULLS FIRST', or "
        "[('amount', 'descending'), 'day']",
        reason="unsupported-order",
    )


def check_number(name: str, number: object, least: int = 0) -> None:
    """Check that an argument is an integer that is large enough, or None.

    Raises:
        TypeError: If it is not an integer.
        ValueError: If it is less.
    """
    if number is None:
        return
    if isinstance(number, bool) or not isinstance(number, Integral):
        raise TypeError(f"{name} is {number!r:.80}; it must be an integer or None")
    if number < least:
        raise ValueError(f"{name} is {number}; it must be {least} or more, or None")


RowNumbers: TypeAlias = "Sequence[int] | np.ndarray | pa.Array | pa.ChunkedArray | pa.Table | pa.RecordBatch"
"""Numbers of rows in a table, or a table with the columns ``path`` and ``row``, as `Table.locate` returns."""

_Files = TypeVar("_Files", bound=TableFiles)


def choose_rows(table: _Files, rows: RowNumbers, snapshot: Snapshot) -> _Files:
    """Return a table that has only some of the rows, and only the files with them.

    Numbers of rows in a table of several files need the number of rows of each file, from the footers.

    Args:
        rows: The rows, in any order; one that is repeated is chosen once.

    Raises:
        ValueError: If there is no such row, or no such file.
        TypeError: If the rows are not integers.
    """
    if isinstance(rows, pa.RecordBatch):
        rows = pa.Table.from_batches([rows])
    is_table = isinstance(rows, pa.Table)
    by_file = _by_path(table, rows, snapshot) if is_table else _by_number(table, _numbers(rows), snapshot)
    chosen = {file: RowSelection.from_rows(np.unique(numbers)) for file, numbers in by_file.items()}
    ordinals = sorted(chosen) or list(range(len(table.files)))[:1]
    files = [table.files[ordinal] for ordinal in ordinals]
    nothing = RowSelection.none()
    table.read_schema(snapshot)
    return table.part(
        ordinals,
        [
            replace(file, deletes=RowsNotChosen(chosen.get(ordinal, nothing), file.deletes))
            for ordinal, file in zip(ordinals, files, strict=True)
        ],
    )


def _by_number(table: TableFiles, numbers: Rows, snapshot: Snapshot) -> Mapping[int, Rows]:
    """Return the numbers of rows in each file, given those in the table."""
    if not len(numbers):
        return {}
    edges = np.cumsum([0, *(file.footer.num_rows for _, file in table.opened(snapshot))])
    wrong = numbers[(numbers < 0) | (numbers >= edges[-1])]
    if len(wrong):
        raise ValueError(f"there is no row {wrong[0]:,}; {table.name} has {edges[-1]:,} rows, counted from 0")
    numbers = np.sort(numbers)
    cuts = np.searchsorted(numbers, edges)
    files = np.flatnonzero(np.diff(cuts)).tolist()
    return {file: numbers[cuts[file] : cuts[file + 1]] - edges[file] for file in files}


def _by_path(table: TableFiles, rows: pa.Table, snapshot: Snapshot) -> Mapping[int, Rows]:
    """Return the numbers of rows in each file, given the locations of rows."""
    missing = [name for name in ("path", "row") if name not in rows.column_names]
    if missing:
        raise ValueError(
            f"rows has no column {missing[0]!r}; pass the result of Table.locate, or row numbers"
        )
    if rows["path"].null_count:
        raise ValueError("rows contains null in the column 'path'; pass the path of each row")
    ordinals, by_file = table.ordinals, {}
    for path, mine in by_key(rows["path"], _numbers(rows["row"])).items():
        if path not in ordinals:
            raise ValueError(f"{path} is not a file of the table {table.name}")
        by_file[ordinals[path]] = mine
    for file, mine in by_file.items():
        with snapshot.open(table.files[file]) as opened:
            num_rows = opened.footer.num_rows
        wrong = mine[(mine < 0) | (mine >= num_rows)]
        if len(wrong):
            path = table.files[file].path
            raise ValueError(f"there is no row {wrong[0]:,} in {path}; its rows are 0 to {num_rows - 1:,}")
    return by_file


def _numbers(rows: object) -> Rows:
    if isinstance(rows, (pa.Array, pa.ChunkedArray)):
        if rows.null_count:
            raise TypeError("rows contains null; pass integers")
        found = np.asarray(rows.to_numpy() if isinstance(rows, pa.ChunkedArray) else rows.to_numpy(False))
    else:
        found = np.asarray(rows)
    if found.size == 0 and found.ndim == 1:
        return np.empty(0, dtype=np.int64)
    if found.ndim != 1 or found.dtype.kind not in "iu":
        raise TypeError(f"rows is {rows!r:.80}; pass a list of integers, or the result of Table.locate")
    return found.astype(np.int64)
