"""The predicate and the columns of a SELECT statement."""

from __future__ import annotations

import re
from typing import Any, Final

from intarsia.errors import PredicateError
from intarsia.predicate.nodes import Predicate
from intarsia.predicate.sql import parse_condition, parse_text
from intarsia.predicate.sql_dialect import column_name, short

_SELECT: Final = re.compile(r"\s*(SELECT|WITH|FROM)\s", re.IGNORECASE)
_ALLOWED: Final = frozenset(
    ("kind", "expressions", "from", "from_", "where", "order", "limit", "offset", "group", "having")
    + ("distinct",)
)


def is_select(text: str) -> bool:
    """Return whether a text is a statement instead of a predicate.

    Example:
        >>> is_select("select 1"), is_select("selected = 1")
        (True, False)
    """
    return _SELECT.match(text) is not None


def parse_select(text: str) -> tuple[Predicate | None, tuple[str, ...] | None]:
    """Return the condition of a SELECT of one table, and the other columns that it reads.

    Args:
        text: ``SELECT … FROM one_table WHERE …``, optionally with GROUP BY, HAVING, ORDER BY and LIMIT.

    Returns:
        The predicate, None without WHERE; and the columns, None for all.

    Raises:
        PredicateError: If the text cannot be parsed, or selects from several tables.

    Example:
        >>> predicate, columns = parse_select("SELECT a, sum(t.b) FROM lake AS t WHERE t.c > 3 GROUP BY a")
        >>> str(predicate), columns
        ('c > 3', ('a', 'b'))
        >>> parse_select("SELECT * FROM lake")
        (None, None)
    """
    tree = parse_text(text, is_condition=False)
    if type(tree).__name__ != "Select":
        raise _refused(text, "it is not a SELECT")
    used = {name for name, value in tree.args.items() if value}
    source = tree.args.get("from_") or tree.args.get("from")
    table: Any = None if source is None else source.this
    if not used <= _ALLOWED or type(table).__name__ != "Table" or table.args.get("joins"):
        raise _refused(text, "it does not select from one table, without joins and subqueries")
    if sum(type(node).__name__ == "Select" for node in tree.walk()) > 1:
        raise _refused(text, "it has a subquery")
    _drop_table_names(tree, {table.alias_or_name, table.name})
    where = tree.args.get("where")
    predicate = None if where is None else parse_condition(where.this)
    if any(type(item).__name__ == "Star" for item in tree.expressions):
        return predicate, None
    columns: dict[str, None] = {}
    for name in ("expressions", "group", "having", "order"):
        part = tree.args.get(name)
        for item in part if isinstance(part, list) else [part] if part is not None else []:
            columns |= dict.fromkeys(_columns_of(item))
    aliases = {item.alias for item in tree.expressions if type(item).__name__ == "Alias"}
    return predicate, tuple(name for name in columns if name not in aliases)


def _columns_of(node: Any) -> list[str]:
    """Return the names of the columns in an expression, in order."""
    found = []
    inside: set[int] = set()
    for one in node.walk(bfs=False):
        if id(one) in inside:
            continue
        name = column_name(one)
        if name is not None:
            inside |= {id(part) for part in one.walk()}
            found.append(name if isinstance(name, str) else ".".join(name))
    return found


def _drop_table_names(tree: Any, names: set[str]) -> None:
    """Remove the name of the table from columns such as ``t.user``."""
    for node in list(tree.walk()):
        if type(node).__name__ == "Column" and node.parts[0].name in names and len(node.parts) > 1:
            first = next(key for key in ("catalog", "db", "table") if node.args.get(key))
            node.set(first, None)


def _refused(text: str, why: str) -> PredicateError:
    return PredicateError(
        f"cannot extract a predicate from {short(text)}: {why}; pass only its predicate",
        reason="unsupported-statement",
    )
