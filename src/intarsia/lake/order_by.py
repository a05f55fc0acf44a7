"""Parse the order of a scan, such as ``"amount DESC NULLS LAST"``."""

from __future__ import annotations

import re

import pyarrow as pa

from intarsia.errors import PredicateError
from intarsia.predicate import find_column, resolve_column
from intarsia.read.output_columns import OutputColumn
from intarsia.read.sort_key import SortKey

_ORDER = re.compile(
    r"\s*(?P<name>\"(?:[^\"]|\"\")+\"|[^\s\",()]+)"
    r"(?:\s+(?P<direction>ASC|DESC))?"
    r"(?:\s+NULLS\s+(?P<nulls>FIRST|LAST))?\s*",
    re.IGNORECASE,
)


def parse_order(text: str, schema: pa.Schema) -> SortKey:
    """Parse an order.

    Args:
        text: The name of a column, which may be quoted or dotted; ``ASC`` (the default) or ``DESC``; and
            ``NULLS LAST`` (the default) or ``NULLS FIRST``.
        schema: The schema of the table.

    Raises:
        PredicateError: If the text has another form, or the values of the column have no order.
        ColumnNotFoundError: If the table has no such column.

    Example:
        >>> key = parse_order("x desc", pa.schema({"x": pa.int64()}))
        >>> key.column.name, key.descending, key.nulls_first
        ('x', True, False)
    """
    match = _ORDER.fullmatch(text)
    if match is None:
        raise PredicateError(
            f"cannot order by {text!r}; write one column, such as 'amount DESC' or 'amount NULLS FIRST'",
            reason="unsupported-order",
        )
    name = match["name"]
    if name.startswith('"'):
        name = name[1:-1].replace('""', '"')
    resolve_column(schema, name)
    path, data_type = find_column(schema, name)
    return SortKey(
        OutputColumn(path[-1], path, data_type),
        descending=(match["direction"] or "").upper() == "DESC",
        nulls_first=(match["nulls"] or "").upper() == "FIRST",
    )
