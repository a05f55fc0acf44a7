"""Parse aggregates in SQL: ``count(*), sum(distance) AS far``."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, TypeAlias

from intarsia.errors import PredicateError, near_matches
from intarsia.predicate.nodes import ColumnName, render_column
from intarsia.predicate.sql_dialect import column_name, dialect, fragment, short
from intarsia.read.aggregate.result import ROWS

Requested: TypeAlias = "str | Sequence[str] | Mapping[str, Sequence[str] | str]"
"""SQL text, several texts, or the functions for each column."""

#: The only function that returns an estimate.
APPROX_DISTINCT = "approx_distinct"

#: Functions by the names of sqlglot's classes.
_FUNCTIONS = {
    "Count": "count",
    "Sum": "sum",
    "Min": "min",
    "Max": "max",
    "Avg": "avg",
    "ApproxDistinct": APPROX_DISTINCT,
}
_FORM = f"write count(*), or one of {', '.join(_FUNCTIONS.values())} of a column, as in sum(distance) AS far"


@dataclass(frozen=True)
class AggregateCall:
    """One function of one column.

    Attributes:
        function: The name of the function.
        column: The column; None for ``count(*)``.
        name: The name of the result.
    """

    function: str
    column: ColumnName | None
    name: str


def parse_calls(texts: Sequence[object]) -> list[AggregateCall]:
    """Parse texts, each of which could follow SELECT, into calls.

    Raises:
        PredicateError: If a text contains anything but aggregates, or an unknown function.

    Example:
        >>> [(call.function, call.column, call.name) for call in parse_calls(["count(*), max(a.b) AS most"])]
        [('count', None, 'count(*)'), ('max', 'a.b', 'most')]
    """
    calls = [_call(node) for text in texts for node in _expressions(text)]
    if not calls:
        raise PredicateError(f"no aggregates were requested; {_FORM}", reason="no-functions")
    name, times = Counter(call.name for call in calls).most_common(1)[0]
    if times > 1:
        raise PredicateError(f"{times} results are named {name}; rename one with AS", reason="duplicate-name")
    return calls


def requested_functions(requested: Requested) -> Mapping[str, Sequence[str] | str]:
    """Return the functions for each column.

    Args:
        requested: The argument of `intarsia.Table.aggregate`: a mapping, a text, or several texts.

    Raises:
        PredicateError: As for `parse_calls`, or if a function is approximate, or a result is renamed.

    Example:
        >>> requested_functions("count(*), sum(a.b), max(a.b)")
        {'*': ['count'], 'a.b': ['sum', 'max']}
    """
    if isinstance(requested, Mapping):
        return requested
    functions: dict[str, list[str]] = {}
    for call in parse_calls(requested if isinstance(requested, (list, tuple)) else [requested]):
        if call.function == APPROX_DISTINCT:
            raise PredicateError(
                f"{call.name} is an estimate; use the function approx_distinct instead",
                reason="not-an-exact-function",
            )
        dotted = call.column if isinstance(call.column, str) else ".".join(call.column or (ROWS,))
        plain = "count(*)" if call.column is None else f"{call.function}({render_column(call.column)})"
        if call.name != plain:
            raise PredicateError(
                f"{plain} has the name {call.name}, but results are keyed by column and function; omit AS",
                reason="renamed-aggregate",
            )
        functions.setdefault(dotted, []).append(call.function)
    return functions


def _expressions(text: object) -> list[Any]:
    import sqlglot
    from sqlglot.errors import SqlglotError

    if not isinstance(text, str):
        raise PredicateError(f"{text!r:.80} is not an aggregate; {_FORM}", reason="invalid-aggregate")
    try:
        (select,) = sqlglot.parse(f"SELECT {text}", dialect=dialect())
    except (SqlglotError, RecursionError, ValueError):
        select = None
    clauses = {} if select is None else {part: value for part, value in select.args.items() if value}
    if type(select).__name__ != "Select" or set(clauses) != {"expressions"}:
        raise PredicateError(
            f"cannot parse {short(text) or 'an empty text'}; {_FORM}", reason="invalid-aggregate"
        )
    return list(clauses["expressions"])


def _call(node: Any) -> AggregateCall:
    alias = None
    if type(node).__name__ == "Alias":
        node, alias = node.this, node.alias
    function = _FUNCTIONS.get(type(node).__name__)
    if function is None:
        raise PredicateError(_unknown(node), reason="unknown-function")
    given = {part: value for part, value in node.args.items() if value and part != "big_int"}
    argument = given.pop("this", None)
    if function == "count" and type(argument).__name__ == "Star" and not given:
        return AggregateCall(function, None, alias or "count(*)")
    column = column_name(argument)
    if column is None or given:
        hint = f"to estimate distinct values, write {APPROX_DISTINCT}(column)"
        plain = f"{function} needs one column, quoted if its name is not a plain word"
        remedy = hint if type(argument).__name__ == "Distinct" else plain
        raise PredicateError(f"cannot use {fragment(node)}; {remedy}", reason="invalid-aggregate")
    return AggregateCall(function, column, alias or f"{function}({render_column(column)})")


def _unknown(node: Any) -> str:
    """Return the message about an unknown function."""
    from sqlglot import exp

    name = ""
    if isinstance(node, exp.Func):
        name = str(node.this) if isinstance(node, exp.Anonymous) else node.sql_name()
    near = near_matches(name, _FUNCTIONS.values())
    remedy = f"did you mean {near[0]}? {_FORM[:1].upper()}{_FORM[1:]}" if near else _FORM
    return f"cannot use {fragment(node)}; {remedy}"
