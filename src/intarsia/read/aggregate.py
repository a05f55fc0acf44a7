"""Aggregate functions: in SQL (``count(*), sum(distance) AS far``), and their values from summaries."""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Container, Iterable, Mapping, Sequence
from decimal import Decimal
from typing import Any, TypeAlias

import pyarrow as pa

from intarsia.arrow.comparison import comparison_type
from intarsia.errors import PredicateError, near_matches
from intarsia.indexes.summaries import sum_type
from intarsia.predicate.nodes import ColumnName, render_column
from intarsia.predicate.sql_dialect import column_name, dialect, fragment, short
from intarsia.read.output_columns import OutputColumn
from intarsia.read.report import ScanReport
from intarsia.records import dataclass

#: The functions of a column.
FUNCTIONS = ("count", "sum", "min", "max", "avg")

#: Represents rows, in place of a column.
ROWS = "*"

#: An average of decimals has this many more decimal digits than the column.
AVERAGE_DIGITS = 4


class Aggregate(dict[str, dict[str, Any]]):
    """The requested values for each column, such as ``{"amount": {"sum": 12, "count": 3}}``.

    Attributes:
        report: The report of the query; ``answered_by`` lists the rows that were not read.
    """

    def __init__(self, values: Mapping[str, dict[str, Any]], report: ScanReport) -> None:
        super().__init__(values)
        self.report = report


@dataclass(frozen=True)
class Question:
    """The functions requested for one column.

    Attributes:
        name: The column, as the caller named it.
        functions: Functions from `FUNCTIONS`.
        column: The column; None for rows.
    """

    name: str
    functions: tuple[str, ...]
    column: OutputColumn | None

    @property
    def data_type(self) -> pa.DataType:
        """The type in which values are compared and added; null if only nulls are counted."""
        if self.column is None or set(self.functions) <= {"count"}:
            return pa.null()
        return comparison_type(self.column.type)

    def value(self, function: str, summary: Mapping[str, pa.Scalar]) -> Any:
        """Return the value of a function, given a summary of all matching rows."""
        num_rows, nulls, nans = (summary[name].as_py() for name in ("num_rows", "null_count", "nan_count"))
        count = num_rows - nulls
        if function == "count":
            return count
        if count == 0:
            return None
        if function in ("min", "max"):
            # NaN is greater than every number
            is_nan = nans > 0 if function == "max" else nans == count
            return math.nan if is_nan else self._python(summary[function])
        total = summary["sum"].as_py()
        if pa.types.is_integer(self.data_type):
            return int(total) if function == "sum" else int(total) / count
        if function == "sum" or not pa.types.is_decimal(self.data_type):
            return total if function == "sum" else total / count
        return _decimal_average(total, count, self.data_type.scale)

    def _python(self, scalar: pa.Scalar) -> Any:
        assert self.column is not None
        if isinstance(self.column.type, pa.BaseExtensionType):
            storage = pa.array([scalar], scalar.type).cast(self.column.type.storage_type)
            scalar = self.column.type.wrap_array(storage)[0]
        data_type = scalar.type
        try:
            if pa.types.is_temporal(data_type) and getattr(data_type, "unit", None) == "ns":
                # to Python's types, even if pandas is installed; raises if that would lose digits
                return scalar.cast(_microseconds(data_type)).as_py()
            return scalar.as_py()
        except (ValueError, OverflowError):  # nanoseconds, years beyond 9999
            return scalar


def _microseconds(data_type: pa.DataType) -> pa.DataType:
    """Convert a type in nanoseconds to microseconds."""
    if pa.types.is_timestamp(data_type):
        return pa.timestamp("us", data_type.tz)
    return pa.time64("us") if pa.types.is_time64(data_type) else pa.duration("us")


def questions(
    functions: Mapping[str, Sequence[str] | str], columns: Sequence[OutputColumn]
) -> tuple[Question, ...]:
    """Check the requested functions.

    Args:
        functions: The argument of `intarsia.Table.aggregate`.
        columns: The columns in it, in the same order, without ``"*"``.

    Raises:
        ValueError: If a function is unknown, or not defined for the column's type.
    """
    found = iter(columns)
    out = []
    for name, wanted in functions.items():
        column = None if name == ROWS else next(found)
        values: Any = wanted
        requested = (
            (values,) if isinstance(values, str) or not isinstance(values, Iterable) else tuple(values)
        )
        for function in requested:
            _check(name, function, column)
        out.append(Question(name, requested, column))
    return tuple(out)


def _check(name: str, function: str, column: OutputColumn | None) -> None:
    if function not in FUNCTIONS:
        raise ValueError(f"unknown function {function!r} of {name!r}; use {', '.join(FUNCTIONS)}")
    if function == "count":
        return
    if column is None:
        raise ValueError(f"{function} of {ROWS!r} is not defined; use a column, or count")
    data_type = comparison_type(column.type)
    is_known = (
        not pa.types.is_nested(data_type) if function in ("min", "max") else sum_type(data_type) != pa.null()
    )
    if not is_known:
        raise ValueError(f"{function} of {name!r} is not defined for its type {column.type}; use count")


def _decimal_average(total: Decimal, count: int, scale: int) -> Decimal:
    """Compute the average with four more digits, halves rounded away from zero, as in Spark."""
    sign, digits, exponent = total.as_tuple()
    assert isinstance(exponent, int)
    units = int("".join(map(str, digits))) * 10 ** (scale + AVERAGE_DIGITS + exponent)
    rounded = (2 * units + count) // (2 * count)
    return Decimal(f"{'-' if sign else ''}{rounded}E{-(scale + AVERAGE_DIGITS)}")


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


def requested_functions(requested: Requested, names: Container[str]) -> Mapping[str, Sequence[str] | str]:
    """Return the functions for each column.

    Args:
        requested: The argument of `intarsia.Table.aggregate`: a mapping, a text, or several texts.
        names: The names of the table's columns, without those of fields.

    Raises:
        PredicateError: As for `parse_calls`, or if a function is approximate, a result is renamed, or the
            name of a column is also that of another result.

    Example:
        >>> requested_functions("count(*), sum(a.b), max(a.b)", ["a"])
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
        is_field = isinstance(call.column, tuple) and len(call.column) > 1
        if (is_field and dotted in names) or (call.column is not None and dotted == ROWS):
            raise PredicateError(
                f"the column of {plain} is ambiguous, because results are keyed by name, and {dotted!r} is "
                "the name of another one; aggregate the rows of a scan of this column",
                reason="ambiguous-column",
                column=dotted,
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
