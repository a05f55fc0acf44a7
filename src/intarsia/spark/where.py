"""Convert a predicate in Spark SQL to predicate nodes that are true for every row that Spark selects.

Spark decides which rows match; these nodes only decide which files can be excluded. So they may be weaker
than the SQL text, but never stronger: conditions that are not fully supported become TRUE. NOT is pushed
down to the conditions, and the result contains none, so that TRUE is always the weaker answer.

`intarsia.spark.conditions` has the conditions themselves, which are the same for Catalyst's expressions.
"""

from __future__ import annotations

import datetime as dt
import math
import re
from collections.abc import Callable
from typing import Any, Final

from intarsia.predicate import (
    And,
    Comparison,
    Constant,
    IsNull,
    Op,
    Or,
    Predicate,
)
from intarsia.predicate.sql_dialect import operands
from intarsia.spark.conditions import (
    MIRRORED,
    OPPOSITE,
    TRUE,
    among,
    compare,
    moment,
    null_safe,
    truth,
    weak_like,
    weak_rlike,
)
from intarsia.spark.spark_types import FLOATS, TEMPORAL, Literal, SparkColumn, cast, comparable, number

_COMPARISONS: Final[dict[str, Op]] = {"EQ": "=", "NEQ": "<>", "LT": "<", "LTE": "<=", "GT": ">", "GTE": ">="}

# The meaning of escapes and doubled quotes depends on Spark's version and settings; comments may be hints.
_AMBIGUOUS: Final = re.compile(r"""\\|--|/\*|''|\"\"""")

# Sessions can redefine functions, so contains() and similar ones are left to Spark; operators are safe.
# sqlglot does not distinguish like(a, b) from a LIKE b.
_TEXT_FUNCTION: Final = re.compile(r"(like|regexp\w*)[\s`]*\(", re.IGNORECASE)

# Ambiguous datetime strings (such as 'now', or a bare time of day) do not start like this.
_MOMENT: Final = re.compile(r"\d{4}(-[0-9A-Za-z:+./_ \-]*)?")
_DAY: Final = dt.timedelta(days=1)

# The meaning of TIMESTAMP alone depends on a setting.
_SQL_TYPES: Final = {"date": "date", "timestamp": "timestamp_ltz", "timestamp_ntz": "timestamp_ntz"}

#: The value of a constant expression in Spark SQL: a date, a datetime without zone, microseconds, or None.
Moments = Callable[[str], "dt.date | int | None"]

#: Returns the column for identifiers.
Resolver = Callable[[tuple[str, ...]], "SparkColumn | None"]


def weaken(
    text: str, resolve: Resolver, moments: Moments, *, utc: bool, double_quotes_name: bool
) -> Predicate:
    """Return nodes that are true for every row for which a predicate in Spark SQL is true.

    Args:
        text: The predicate.
        resolve: Resolves columns.
        moments: Evaluates datetime expressions in Spark, because their value depends on its session.
        utc: Whether the session's time zone is UTC.
        double_quotes_name: Whether double quotes delimit names instead of strings.

    Returns:
        Nodes of the types ``And``, ``Or``, ``Constant``, ``Comparison``, ``In``, ``IsNull`` and ``Like``;
        columns are paths in Spark's schema.
    """
    import sqlglot
    from sqlglot import exp
    from sqlglot.errors import SqlglotError

    if _AMBIGUOUS.search(text) or (double_quotes_name and '"' in text) or _TEXT_FUNCTION.search(text):
        return TRUE
    try:
        tree = sqlglot.parse_one(text, dialect="spark", into=exp.Condition)
        return _Weakener(resolve, moments, utc).node(tree, negate=False)
    except (SqlglotError, RecursionError):  # Spark may still understand it
        return TRUE


class _Weakener:
    def __init__(self, resolve: Resolver, moments: Moments, utc: bool) -> None:
        self._resolve = resolve
        self._moments = moments
        self._utc = utc

    def node(self, node: Any, *, negate: bool) -> Predicate:
        """Convert a sqlglot expression or its negation."""
        node_type = type(node).__name__
        if node.args.get("negate") and node_type != "Like":  # some versions of sqlglot express NOT like this
            return TRUE
        if node_type == "Paren":
            return self.node(node.this, negate=negate)
        if node_type == "Not":
            return self.node(node.this, negate=not negate)
        if node_type in ("And", "Or"):
            children = tuple(self.node(child, negate=negate) for child in operands(node, node_type))
            return And(children) if (node_type == "And") is not negate else Or(children)
        if node_type in ("Boolean", "Null"):
            value = bool(node.this) is not negate if node_type == "Boolean" else False
            return Constant(value)
        if node_type in _COMPARISONS:
            return self._comparison(node.this, _COMPARISONS[node_type], node.expression, negate=negate)
        if node_type in ("NullSafeEQ", "NullSafeNEQ"):
            return self._null_safe(node, negate=negate is not (node_type == "NullSafeNEQ"))
        if node_type == "Between" and not node.args.get("symmetric"):
            low = self._comparison(node.this, ">=", node.args["low"], negate=negate)
            high = self._comparison(node.this, "<=", node.args["high"], negate=negate)
            return Or((low, high)) if negate else And((low, high))
        if node_type == "In":
            return self._in(node, negate=negate)
        if node_type == "Is":
            return self._is(node, negate=negate)
        if node_type == "Like":
            return self._like(node, negate=negate)
        if node_type == "RegexpLike":
            return self._rlike(node, negate=negate)
        if node_type in ("Column", "Dot"):
            return truth(self._column(node), True, negate=negate)
        return TRUE

    def _column(self, node: Any) -> SparkColumn | None:
        while type(node).__name__ == "Paren":
            node = node.this
        if type(node).__name__ not in ("Column", "Dot"):
            return None
        parts = node.parts
        if any(type(part).__name__ != "Identifier" for part in parts):
            return None
        return self._resolve(tuple(part.name for part in parts))

    def _comparison(self, left: Any, op: Op, right: Any, *, negate: bool) -> Predicate:
        literal = _literal(right)
        if literal is None:
            left, op, literal = right, MIRRORED[op], _literal(left)
        column = self._column(left)
        if literal is None or column is None:
            return TRUE
        return self._compare(column, OPPOSITE[op] if negate else op, literal)

    def _compare(self, column: SparkColumn, op: Op, literal: Literal) -> Predicate:
        if column.type in TEMPORAL and literal.type != "null":
            return self._compare_moment(column, op, literal)
        return compare(column, op, literal)

    def _compare_moment(self, column: SparkColumn, op: Op, literal: Literal) -> Predicate:
        found = self._moment(column, literal)
        if found is None:
            return TRUE
        path = column.path
        if not (column.type == "timestamp_ntz" and literal.type == "timestamp") or self._utc:
            return Comparison(path, op, found)
        # Spark reads the values in the session's time zone, where an hour may occur twice or not at all
        assert isinstance(found, dt.datetime)
        if op == "<>":
            return IsNull(path, negated=True)
        later, earlier = Comparison(path, "<", found + _DAY), Comparison(path, ">", found - _DAY)
        return And((later, earlier)) if op == "=" else later if op in ("<", "<=") else earlier

    def _moment(self, column: SparkColumn, literal: Literal) -> Any:
        """Return a literal as a value of a temporal column; None if that is uncertain."""
        if literal.type not in ("string", *TEMPORAL) or not _MOMENT.fullmatch(literal.value):
            return None
        if column.type == "date" and literal.type not in ("string", "date"):
            return None
        # Spark parses a string as the column's type, and a typed literal in the same way
        own_type = column.type if literal.type == "string" else literal.type
        sql = f"try_cast('{literal.value}' AS {_SQL_TYPES[own_type]})"
        if own_type != column.type:
            sql = f"CAST({sql} AS {_SQL_TYPES[column.type]})"
        return moment(column, self._moments(sql if column.type != "timestamp" else f"unix_micros({sql})"))

    def _null_safe(self, node: Any, *, negate: bool) -> Predicate:
        column, literal = self._column(node.this), _literal(node.expression)
        if column is None:
            column, literal = self._column(node.expression), _literal(node.this)
        if column is None or literal is None:
            return TRUE
        if literal.type == "null":
            return IsNull(column.path, negated=negate)
        equal, unequal = self._compare(column, "=", literal), self._compare(column, "<>", literal)
        return null_safe(column, equal, unequal, negate=negate)

    def _in(self, node: Any, *, negate: bool) -> Predicate:
        column = self._column(node.this)
        if column is None or any(node.args.get(other) for other in ("query", "unnest", "field")):
            return TRUE
        literals = [_literal(item) for item in node.expressions]
        present = [item for item in literals if item is not None and item.type != "null"]
        if None in literals or not literals or len({item.type for item in present}) > 1:
            return TRUE  # Spark casts lists of several types to a common one
        values = [self._listed(column, item) for item in present]
        if any(value is None for value in values):
            return TRUE
        return among(column, values, has_null=len(present) < len(literals), negate=negate)

    def _listed(self, column: SparkColumn, literal: Literal) -> Any:
        """Return a value of a list; None if it is uncertain."""
        if column.type in TEMPORAL:  # with a string in the list Spark may compare both sides as strings
            return self._moment(column, literal) if literal.type == column.type else None
        if literal.type in ("double", "float") and math.isnan(literal.value):
            return literal.value if column.type in FLOATS else None
        return comparable(column, literal)

    def _is(self, node: Any, *, negate: bool) -> Predicate:
        column, class_name = self._column(node.this), type(node.expression).__name__
        if column is None:
            return TRUE
        if class_name == "Null":
            return IsNull(column.path, negated=negate)
        if class_name == "Boolean":
            same = truth(column, bool(node.expression.this), negate=negate)
            return Or((same, IsNull(column.path))) if negate else same
        return TRUE

    def _like(self, node: Any, *, negate: bool) -> Predicate:
        column, literal = self._column(node.this), _literal(node.expression)
        if column is None or column.type != "string" or literal is None or literal.type != "string":
            return TRUE
        return weak_like(column.path, literal.value, negated=negate is not bool(node.args.get("negate")))

    def _rlike(self, node: Any, *, negate: bool) -> Predicate:
        column, literal = self._column(node.this), _literal(node.expression)
        if column is None or column.type != "string" or literal is None or literal.type != "string":
            return TRUE
        if node.args.get("flag") or node.args.get("full_match"):
            return TRUE
        return weak_rlike(column.path, literal.value, negated=negate)


def _literal(node: Any) -> Literal | None:
    """Return a literal with Spark's type; None if it is not a literal, or an unusual one."""
    node_type = type(node).__name__
    if node_type == "Paren":
        return _literal(node.this)
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
        inner = _literal(node.this)
        numeric = inner is not None and inner.type in ("int", "decimal", "double", "float")
        return Literal(inner.type, -inner.value) if inner is not None and numeric else None
    if node_type in ("Cast", "TryCast") and not node.args.get("format"):
        inner = _literal(node.this)
        sizes = tuple(
            int(str(size.this.this)) for size in node.to.expressions if str(size.this.this).isdigit()
        )
        return None if inner is None else cast(inner, str(node.to.this.name), sizes)
    return None
