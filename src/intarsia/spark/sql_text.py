"""Spark SQL: predicates as its text, for pyarrow expressions, and its text as conditions.

Spark compares by its own rules. So a rendered predicate selects rows by Spark's rules: NaN, for example, is
greater than all numbers.

Text is only parsed where Spark's analyzer is not accessible, such as on Spark Connect. Settings and redefined
functions may give a text another meaning, so what depends on them is unknown.
"""

from __future__ import annotations

import datetime as dt
import math
import re
from collections.abc import Callable, Sequence
from decimal import Decimal
from typing import Any, Final

from intarsia.errors import PredicateError
from intarsia.predicate import (
    And,
    Call,
    ColumnName,
    Comparison,
    Constant,
    In,
    IsNull,
    Like,
    Not,
    Or,
    Predicate,
)
from intarsia.predicate.literals import (
    NS_PER_DAY,
    NS_PER_UNIT,
    Temporal,
    plain,
    render_clock,
    render_day,
    render_literal,
)
from intarsia.predicate.nodes import dotted
from intarsia.spark.conditions import EPOCH, UNKNOWN, Node
from intarsia.spark.spark_types import TEMPORAL, Literal, SparkColumn, cast, number, quoted

#: Text that is the same in a string literal under every setting of Spark.
_PLAIN_TEXT = re.compile(r"[^\\'\"\x00-\x1f\x7f]*")

_MAX_DECIMAL_DIGITS = 38

_COMPARISONS: Final = {
    "EQ": "EqualTo",
    "LT": "LessThan",
    "LTE": "LessThanOrEqual",
    "GT": "GreaterThan",
    "GTE": "GreaterThanOrEqual",
    "NullSafeEQ": "EqualNullSafe",
}
_NEGATED: Final = {"NEQ": "EqualTo", "NullSafeNEQ": "EqualNullSafe"}

# The meaning of escapes and doubled quotes depends on Spark's version and settings; comments may be hints.
_AMBIGUOUS: Final = re.compile(r"""\\|--|/\*|''|\"\"""")

# Sessions can redefine functions, so contains() and similar ones are left to Spark; operators are safe.
# sqlglot does not distinguish like(a, b) from a LIKE b.
_TEXT_FUNCTION: Final = re.compile(r"(like|regexp\w*)[\s`]*\(", re.IGNORECASE)

# Ambiguous datetime strings (such as 'now', or a bare time of day) do not start like this.
_MOMENT: Final = re.compile(r"\d{4}(-[0-9A-Za-z:+./_ \-]*)?")

# The meaning of TIMESTAMP alone depends on a setting.
_SQL_TYPES: Final = {"date": "date", "timestamp": "timestamp_ltz", "timestamp_ntz": "timestamp_ntz"}

#: Returns the values of constant expressions in Spark SQL: dates, datetimes without zone, microseconds, None.
Evaluate = Callable[[Sequence[str]], Sequence["dt.date | int | None"]]

#: Returns the column for identifiers.
Resolver = Callable[[tuple[str, ...]], "SparkColumn | None"]


def spark_sql(predicate: Predicate) -> str:
    """Render a predicate as Spark SQL.

    Raises:
        PredicateError: If a literal or a condition has no counterpart in Spark.

    Example:
        >>> from intarsia.predicate import parse_sql
        >>> print(spark_sql(parse_sql("x = 1 AND (s LIKE 'a%' OR d > DATE '2020-01-31')")))
        (`x` = 1) AND ((`s` LIKE 'a%') OR (`d` > DATE '2020-01-31'))
    """
    if isinstance(predicate, And | Or):
        word = " AND " if isinstance(predicate, And) else " OR "
        return word.join(f"({spark_sql(child)})" for child in predicate.children)
    if isinstance(predicate, Not):
        return f"NOT ({spark_sql(predicate.child)})"
    if isinstance(predicate, Constant):
        return "CAST(NULL AS BOOLEAN)" if predicate.value is None else str(predicate.value).lower()
    if isinstance(predicate.column, Call):
        raise PredicateError(
            f"cannot use {predicate} with Spark, whose functions may differ; write it as Spark SQL",
            reason="not-in-spark",
            column=dotted(predicate.column),
        )
    column = _column(predicate.column)
    if isinstance(predicate, Comparison):
        return f"{column} {predicate.op} {_literal(predicate.value, predicate.column)}"
    if isinstance(predicate, IsNull):
        return f"{column} IS {'NOT ' if predicate.negated else ''}NULL"
    negated = "NOT " if predicate.negated else ""
    if isinstance(predicate, In):
        values = ", ".join(_literal(value, predicate.column) for value in predicate.values)
        return f"{column} {negated}IN ({values})"
    if isinstance(predicate, Like) and predicate.escape is None:
        word = "ILIKE" if predicate.ignore_case else "LIKE"
        return f"{column} {negated}{word} {_text(predicate.pattern)}"
    raise PredicateError(
        f"cannot use {predicate} with Spark, whose regular expressions differ; write it as Spark SQL",
        reason="not-in-spark",
        column=dotted(predicate.column),
    )


def _column(name: ColumnName) -> str:
    parts = (name,) if isinstance(name, str) else name
    return ".".join(map(quoted, parts))


def _literal(value: object, column: ColumnName) -> str:
    literal = plain(value)
    if literal is None:
        return "NULL"
    if isinstance(literal, bool):
        return str(literal).lower()
    if isinstance(literal, str):
        return _text(literal)
    if isinstance(literal, bytes):
        return f"X'{literal.hex()}'"
    if isinstance(literal, float) and math.isfinite(literal):
        return repr(literal)
    if isinstance(literal, float):
        name = "NaN" if math.isnan(literal) else "Infinity" if literal > 0 else "-Infinity"
        return f"CAST('{name}' AS DOUBLE)"
    if isinstance(literal, Decimal) and _fits_spark(literal):
        return f"{literal:f}"
    if isinstance(literal, int) and abs(literal) < 10**_MAX_DECIMAL_DIGITS:
        return str(literal)
    if isinstance(literal, Temporal):
        return _moment(literal, value, column)
    raise _refusal(value, column)


def _fits_spark(number: Decimal) -> bool:
    """Return whether a decimal literal of Spark can have these digits."""
    _, digits, exponent = number.as_tuple()
    if not isinstance(exponent, int):  # NaN or infinity
        return False
    return max(len(digits) + max(exponent, 0), -exponent) <= _MAX_DECIMAL_DIGITS


def _moment(moment: Temporal, value: object, column: ColumnName) -> str:
    days, of_day = divmod(moment.ns, NS_PER_DAY)
    day = render_day(days)
    if (
        moment.form not in ("date", "timestamp")
        or len(day) != len("2020-01-31")
        or of_day % NS_PER_UNIT["us"]
    ):
        raise _refusal(value, column)
    if moment.form == "date":
        return f"DATE '{day}'"
    clock = render_clock(of_day, 6 if of_day % NS_PER_UNIT["s"] else 0)
    return f"TIMESTAMP '{day} {clock}+00:00'" if moment.aware else f"TIMESTAMP_NTZ '{day} {clock}'"


def _text(text: str) -> str:
    """Render a string; if it depends on Spark's settings for escapes, as the bytes of its UTF-8."""
    return f"'{text}'" if _PLAIN_TEXT.fullmatch(text) else f"CAST(X'{text.encode().hex()}' AS STRING)"


def _refusal(value: object, column: ColumnName) -> PredicateError:
    return PredicateError(
        f"cannot compare column {dotted(column)!r} with {render_literal(value)} in Spark; write the "
        "predicate as Spark SQL",
        reason="not-in-spark",
        column=dotted(column),
    )


def parse_condition(
    text: str, resolve: Resolver, evaluate: Evaluate, *, utc: bool, double_quotes_name: bool
) -> Node:
    """Parse a condition in Spark SQL, for `intarsia.spark.conditions.weaken`; its unknown parts become ``?``.

    Args:
        text: The condition.
        resolve: Resolves columns.
        evaluate: Evaluates datetime expressions in Spark, because their value depends on its session.
        utc: Whether the session's time zone is UTC.
        double_quotes_name: Whether double quotes delimit names instead of strings.
    """
    import sqlglot
    from sqlglot import exp
    from sqlglot.errors import SqlglotError

    if _AMBIGUOUS.search(text) or (double_quotes_name and '"' in text) or _TEXT_FUNCTION.search(text):
        return UNKNOWN
    parser = _Parser(resolve, utc)
    try:
        condition = parser.condition(sqlglot.parse_one(text, dialect="spark", into=exp.Condition))
    except (SqlglotError, RecursionError):  # Spark may still understand it
        return UNKNOWN
    if parser.moments:
        found = evaluate([moment["sql"] for moment in parser.moments])
        for moment, value in zip(parser.moments, found, strict=True):
            moment.update(value=_internal(value), op="?" if value is None else "Literal")
    return condition


class _Parser:
    """Converts expressions of sqlglot; ``moments`` are the literals that Spark has to evaluate."""

    def __init__(self, resolve: Resolver, utc: bool) -> None:
        self._resolve = resolve
        self._utc = utc
        self.moments: list[dict[str, Any]] = []

    def condition(self, node: Any) -> Node:
        """Convert a condition."""
        name = type(node).__name__
        if name == "Paren":
            return self.condition(node.this)
        if name == "Like":
            like = self._text_test("Like", node)
            return _call("Not", like) if node.args.get("negate") else like
        if node.args.get("negate"):  # some versions of sqlglot express NOT like this
            return UNKNOWN
        if name == "Not":
            return _call("Not", self.condition(node.this))
        if name in ("And", "Or"):
            return _call(name, *map(self.condition, node.flatten(unnest=False)))
        if name in ("Boolean", "Null"):
            return _literal_node(_literal_of(node))
        if name in _COMPARISONS:
            return self._comparison(_COMPARISONS[name], node.this, node.expression)
        if name in _NEGATED:
            return _call("Not", self._comparison(_NEGATED[name], node.this, node.expression))
        if name == "Between" and not node.args.get("symmetric"):
            low = self._comparison("GreaterThanOrEqual", node.this, node.args["low"])
            return _call("And", low, self._comparison("LessThanOrEqual", node.this, node.args["high"]))
        if name == "In":
            return self._in(node)
        if name == "Is":
            if type(node.expression).__name__ == "Null":
                return _call("IsNull", self._column(node.this))
            return self._comparison("EqualNullSafe", node.this, node.expression)
        if name == "RegexpLike" and not node.args.get("flag") and not node.args.get("full_match"):
            return self._text_test("RLike", node)
        return self._column(node)

    def _column(self, node: Any) -> Node:
        while type(node).__name__ == "Paren":
            node = node.this
        if type(node).__name__ not in ("Column", "Dot"):
            return UNKNOWN
        if any(type(part).__name__ != "Identifier" for part in node.parts):
            return UNKNOWN
        column = self._resolve(tuple(part.name for part in node.parts))
        return UNKNOWN if column is None else {"op": "Column", "type": column.type, "name": column.path}

    def _comparison(self, op: str, left: Any, right: Any) -> Node:
        literal, column = _literal_of(right), self._column(left)
        if literal is not None:
            return _call(op, *self._operands(column, literal))
        literal, column = _literal_of(left), self._column(right)
        return UNKNOWN if literal is None else _call(op, *reversed(self._operands(column, literal)))

    def _operands(self, column: Node, literal: Literal) -> tuple[Node, Node]:
        """Return a column and a literal as Spark compares them."""
        if column.get("type") not in TEMPORAL or literal.type == "null":
            return column, _literal_node(literal)
        spark_type, text = column["type"], literal.value
        if literal.type not in ("string", *TEMPORAL) or not _MOMENT.fullmatch(text):
            return column, UNKNOWN
        # Spark parses a string as the column's type, and a typed literal in the same way
        own_type = spark_type if literal.type == "string" else literal.type
        if own_type != spark_type == "date":
            return column, UNKNOWN
        if (spark_type, own_type) == ("timestamp_ntz", "timestamp"):
            spark_type = own_type
            column = {"op": "Cast", "type": own_type, "args": [column], "utc": self._utc}
        sql = f"try_cast('{text}' AS {_SQL_TYPES[own_type]})"
        if own_type != spark_type:
            sql = f"CAST({sql} AS {_SQL_TYPES[spark_type]})"
        moment = {"type": spark_type, "sql": sql if spark_type != "timestamp" else f"unix_micros({sql})"}
        self.moments.append(moment)
        return column, moment

    def _in(self, node: Any) -> Node:
        column = self._column(node.this)
        literals = [_literal_of(item) for item in node.expressions]
        types = {item.type for item in literals if item is not None} - {"null"}
        if any(node.args.get(other) for other in ("query", "unnest", "field")) or None in literals:
            return UNKNOWN
        # Spark casts lists of several types to a common one, and may compare both sides as strings
        if len(types) > 1 or (column.get("type") in TEMPORAL and types - {column["type"]}):
            return UNKNOWN
        items = [self._operands(column, item)[1] for item in literals if item is not None]
        return _call("In", column, *items)

    def _text_test(self, op: str, node: Any) -> Node:
        literal = _literal_of(node.expression)
        if literal is None:
            return UNKNOWN
        return {**_call(op, self._column(node.this), _literal_node(literal)), "escape": "\\"}


def _call(op: str, *args: Node) -> Node:
    return {"op": op, "args": args}


def _literal_node(literal: Literal | None) -> Node:
    """Return a literal that is not temporal in Catalyst's form."""
    if literal is None or literal.type in TEMPORAL:
        return UNKNOWN
    value = literal.value
    if literal.type == "decimal":
        return {"op": "Literal", "type": "decimal(38,18)", "value": value}
    spark_type = "bigint" if literal.type == "int" else literal.type
    return {"op": "Literal", "type": spark_type, "value": value.hex() if type(value) is bytes else value}


def _internal(value: dt.date | int | None) -> int | None:
    """Return a date as days, and a datetime without time zone as microseconds since 1970."""
    if isinstance(value, dt.datetime):
        return (value - EPOCH) // dt.timedelta(microseconds=1)
    return (value - EPOCH.date()).days if isinstance(value, dt.date) else value


def _literal_of(node: Any) -> Literal | None:
    """Return a literal with Spark's type; None if it is not a literal, or an unusual one."""
    node_type = type(node).__name__
    if node_type == "Paren":
        return _literal_of(node.this)
    if node_type == "Null":
        return Literal("null", None)
    if node_type == "Boolean":
        return Literal("boolean", bool(node.this))
    if node_type == "HexString":
        text = str(node.this)
        return Literal("binary", bytes.fromhex(text)) if re.fullmatch(r"([0-9A-Fa-f]{2})*", text) else None
    if node_type == "Literal":
        return Literal("string", str(node.this)) if node.is_string else number(str(node.this))
    if node_type == "Neg":
        inner = _literal_of(node.this)
        numeric = inner is not None and inner.type in ("int", "decimal", "double", "float")
        return Literal(inner.type, -inner.value) if inner is not None and numeric else None
    if node_type in ("Cast", "TryCast") and not node.args.get("format"):
        inner = _literal_of(node.this)
        sizes = tuple(
            int(str(size.this.this)) for size in node.to.expressions if str(size.this.this).isdigit()
        )
        return None if inner is None else cast(inner, str(node.to.this.name), sizes)
    return None
