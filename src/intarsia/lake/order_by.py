"""Parse the order of a scan, such as ``"amount DESC NULLS LAST, day"``."""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from dataclasses import replace
from typing import TypeAlias, TypeGuard

import pyarrow as pa

from intarsia.errors import PredicateError
from intarsia.predicate import find_column, resolve_column
from intarsia.read.output_columns import OutputColumn
from intarsia.read.sort_key import SortKey

OrderBy: TypeAlias = "str | tuple[str, str] | Sequence[str | tuple[str, str]]"
"""SQL text, or a list of columns, each as SQL text or as pyarrow's ``(name, "descending")``."""

_COLUMN = re.compile(
    r"\s*(?P<name>\"(?:[^\"]|\"\")+\"|[^\s\",()]+)"
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
        schema: The schema of the table.

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


def _columns(order: object) -> Iterator[tuple[str, bool, bool]]:
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


def _in_text(text: str) -> Iterator[tuple[str, bool, bool]]:
    position, end = 0, ","
    while end:
        match = _COLUMN.match(text, position)
        if match is None:
            raise _not_an_order(text)
        name, position, end = match["name"], match.end(), match["end"]
        if name.startswith('"'):
            name = name[1:-1].replace('""', '"')
        yield (
            name,
            (match["direction"] or "").upper() == "DESC",
            (match["nulls"] or "").upper() == "FIRST",
        )


def _not_an_order(order: object) -> PredicateError:
    return PredicateError(
        f"cannot order by {order!r:.80}; write columns, such as 'amount DESC, day NULLS FIRST', or "
        "[('amount', 'descending'), 'day']",
        reason="unsupported-order",
    )
