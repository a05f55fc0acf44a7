"""Convert a condition of Catalyst, Spark's optimizer, to predicate nodes.

The nodes are true for every row for which the condition is true.

The JVM sends the condition as `ExpressionJson` writes it: each expression has an ``op``, a ``type`` and
``args``. Values are in Catalyst's internal form, so days and microseconds since 1970 represent dates and
timestamps, and no text has to be parsed. Casts are explicit, and both sides of a comparison have the same
type. A condition that is not fully supported becomes TRUE.
"""

from __future__ import annotations

import dataclasses
import datetime as dt
import re
from collections.abc import Mapping, Sequence
from decimal import Decimal
from typing import Any, Final, NamedTuple

from intarsia.predicate import (
    And,
    Comparison,
    Constant,
    IsNull,
    Op,
    Or,
    Path,
    Predicate,
    contains,
    ends_with,
    starts_with,
)
from intarsia.spark.conditions import (
    FALSE,
    MIRRORED,
    OPPOSITE,
    TRUE,
    among,
    compare,
    is_nan,
    moment,
    null_safe,
    truth,
    weak_like,
    weak_rlike,
)
from intarsia.spark.spark_types import FLOATS, INTEGER_BITS, TEMPORAL, Literal, SparkColumn, comparable

#: An expression as the JVM sends it.
Node = Mapping[str, Any]

_COMPARISONS: Final[dict[str, Op]] = {
    "EqualTo": "=",
    "LessThan": "<",
    "LessThanOrEqual": "<=",
    "GreaterThan": ">",
    "GreaterThanOrEqual": ">=",
}
_TEXT_TESTS: Final = {"StartsWith": starts_with, "EndsWith": ends_with, "Contains": contains}
_REPLACEMENT: Final = "\N{REPLACEMENT CHARACTER}"
_EPOCH_DAY: Final = dt.date(1970, 1, 1)
_DECIMAL: Final = re.compile(r"decimal\((\d+),(-?\d+)\)")


class Operand(NamedTuple):
    """A column, or a cast of it that neither changes values nor their order.

    Attributes:
        column: The column.
        type: The type to which it is cast, or its own.
    """

    column: SparkColumn
    type: str


class Weakened(NamedTuple):
    """A weakened condition.

    Attributes:
        predicate: Nodes of the types ``And``, ``Or``, ``Constant``, ``Comparison``, ``In``, ``IsNull`` and
            ``Like``.
        types: Spark's types of the columns in them, by path in Spark's schema.
        filled: Names of the columns that have a default in files without them.
    """

    predicate: Predicate
    types: dict[Path, str]
    filled: frozenset[str]


def weaken(condition: Node) -> Weakened:
    """Return nodes that are true for every row for which a condition is true.

    Args:
        condition: The condition.

    Example:
        >>> column = {"op": "Column", "type": "bigint", "name": ["user"]}
        >>> literal = {"op": "Literal", "type": "bigint", "value": 42}
        >>> found = weaken({"op": "LessThan", "type": "boolean", "args": [literal, column]})
        >>> print(found.predicate, found.types)
        "user" > 42 {('user',): 'bigint'}
    """
    weakener = _Weakener()
    predicate = weakener.node(condition, negate=False)
    return Weakened(predicate, weakener.types, frozenset(weakener.filled))


class _Weakener:
    def __init__(self) -> None:
        self.types: dict[Path, str] = {}
        self.filled: set[str] = set()

    def node(self, node: Node, *, negate: bool) -> Predicate:
        """Convert a condition or its negation."""
        op, args = node["op"], node.get("args", ())
        if op in ("And", "Or"):
            children = tuple(self.node(child, negate=negate) for child in args)
            return And(children) if (op == "And") is not negate else Or(children)
        if op == "Not":
            return self.node(args[0], negate=not negate)
        if op == "Literal":
            value = node["value"]
            return (
                FALSE if value is None else Constant(value is not negate) if value in (True, False) else TRUE
            )
        if op == "Column":
            return truth(self._column(node), True, negate=negate)
        if op in _COMPARISONS:
            return self._comparison(args, _COMPARISONS[op], negate=negate)
        if op == "EqualNullSafe":
            return self._null_safe(args, negate=negate)
        if op == "In":
            return self._in(args, negate=negate)
        if op in ("IsNull", "IsNotNull"):
            column = self._column(args[0])
            return TRUE if column is None else IsNull(column.path, negated=(op == "IsNotNull") is not negate)
        if op == "IsNaN":
            column = self._column(args[0])
            return TRUE if column is None else is_nan(column, negate=negate)
        if op in _TEXT_TESTS or op in ("Like", "RLike"):
            return self._text_test(node, negate=negate)
        return TRUE

    def _column(self, node: Node) -> SparkColumn | None:
        if node["op"] != "Column":
            return None
        column = SparkColumn(tuple(node["name"]), node["type"])
        self.types[column.path] = column.type
        if node.get("filled"):
            self.filled.add(column.path[0])
        return column

    def _operand(self, node: Node) -> Operand | None:
        if node["op"] == "Cast":
            inner = self._operand(node["args"][0])
            if inner is None or not _is_exact_cast(inner, node["type"]):
                return None
            return inner._replace(type=node["type"])
        column = self._column(node)
        return None if column is None else Operand(column, column.type)

    def _sides(self, args: Sequence[Node]) -> tuple[Operand, Node, bool] | None:
        """Return the column and the literal of a comparison, and whether the literal is on the left."""
        left, right = args
        is_mirrored = left["op"] == "Literal"
        operand, literal = (self._operand(right), left) if is_mirrored else (self._operand(left), right)
        if operand is None or literal["op"] != "Literal" or literal["type"] != operand.type:
            return None
        return operand, literal, is_mirrored

    def _comparison(self, args: Sequence[Node], op: Op, *, negate: bool) -> Predicate:
        sides = self._sides(args)
        if sides is None:
            return TRUE
        operand, literal, is_mirrored = sides
        if is_mirrored:
            op = MIRRORED[op]
        return _compare(operand, OPPOSITE[op] if negate else op, literal["value"])

    def _null_safe(self, args: Sequence[Node], *, negate: bool) -> Predicate:
        sides = self._sides(args)
        if sides is None:
            return TRUE
        operand, literal, _ = sides
        value = literal["value"]
        if value is None:
            # a cast of a value that is not null may be null
            is_plain = operand.type == operand.column.type
            return IsNull(operand.column.path, negated=negate) if is_plain else TRUE
        equal, unequal = _compare(operand, "=", value), _compare(operand, "<>", value)
        return null_safe(operand.column, equal, unequal, negate=negate)

    def _in(self, args: Sequence[Node], *, negate: bool) -> Predicate:
        operand = self._operand(args[0])
        literals = args[1:]
        if operand is None or not literals:
            return TRUE
        if any(item["op"] != "Literal" or item["type"] != operand.type for item in literals):
            return TRUE
        present = [item["value"] for item in literals if item["value"] is not None]
        values = [_listed(operand, value) for value in present]
        if any(value is None for value in values):
            return TRUE
        has_null = len(present) < len(literals)
        return among(operand.column, values, has_null=has_null, negate=negate)

    def _text_test(self, node: Node, *, negate: bool) -> Predicate:
        column, literal = self._column(node["args"][0]), node["args"][1]
        # the types of strings with a collation have other names
        if column is None or column.type != "string" or literal["op"] != "Literal":
            return TRUE
        text = literal["value"]
        if literal["type"] != "string" or text is None:
            return TRUE
        if _REPLACEMENT in text:  # files may contain other bytes that Spark reads as this character
            return TRUE
        if node["op"] == "Like":
            return TRUE if node["escape"] in text else weak_like(column.path, text, negated=negate)
        if node["op"] == "RLike":
            return weak_rlike(column.path, text, negated=negate)
        if not text:
            return IsNull(column.path, negated=True)
        return dataclasses.replace(_TEXT_TESTS[node["op"]](column.path, text), negated=negate)


def _compare(operand: Operand, op: Op, value: Any) -> Predicate:
    """Compare an operand with a value in Catalyst's internal form and the operand's type."""
    if value is None:
        return FALSE
    column = operand.column
    if operand.type in TEMPORAL:
        found = _moment(operand, value)
        return TRUE if found is None else Comparison(column.path, op, found)
    literal = _literal(operand, value)
    if literal is None:
        return TRUE
    if literal.type == "decimal" and column.type.startswith("decimal"):
        return Comparison(column.path, op, literal.value)
    return compare(column, op, literal)


def _listed(operand: Operand, value: Any) -> Any:
    """Return a value of a list; None if it is uncertain."""
    if operand.type in TEMPORAL:
        return _moment(operand, value)
    literal = _literal(operand, value)
    if literal is None:
        return None
    if literal.type in ("double", "float") and literal.value != literal.value:
        return literal.value if operand.column.type in FLOATS else None
    if literal.type == "decimal" and operand.column.type.startswith("decimal"):
        return literal.value
    return comparable(operand.column, literal)


def _literal(operand: Operand, value: Any) -> Literal | None:
    """Return a value in Catalyst's internal form as a literal; None if it is not supported."""
    spark_type = operand.type
    if spark_type in INTEGER_BITS:
        return Literal("int", value) if type(value) is int else None
    if spark_type in FLOATS:
        return Literal(spark_type, float(value))
    if _DECIMAL.fullmatch(spark_type):
        return Literal("decimal", Decimal(value))
    if spark_type == "boolean":
        return Literal("boolean", value)
    if spark_type == "binary":
        return Literal("binary", bytes.fromhex(value))
    if spark_type == "string" and _REPLACEMENT not in value:
        return Literal("string", value)
    return None


def _moment(operand: Operand, value: Any) -> Any:
    """Return days or microseconds since 1970 as a value of a column; None if that is uncertain."""
    if operand.type != operand.column.type or type(value) is not int:
        return None
    if operand.type != "date":
        return moment(operand.column, value)
    try:
        return moment(operand.column, _EPOCH_DAY + dt.timedelta(days=value))
    except OverflowError:
        return None


def _is_exact_cast(operand: Operand, target: str) -> bool:
    """Return whether a cast keeps values distinct and in order, or is supported by `comparable`."""
    source = operand.type
    if source == target:
        return True
    if source in INTEGER_BITS:
        # `comparable` decides which fractions represent the same integers
        if target in INTEGER_BITS:
            return INTEGER_BITS[source] <= INTEGER_BITS[target]
        return target in FLOATS or _DECIMAL.fullmatch(target) is not None
    if source == "float":
        return target == "double" and operand.column.type == "float"
    before, after = _DECIMAL.fullmatch(source), _DECIMAL.fullmatch(target)
    if before is None or after is None:
        return False
    scale, wider = int(before[2]), int(after[2])
    return wider >= scale >= 0 and int(after[1]) - wider >= int(before[1]) - scale
