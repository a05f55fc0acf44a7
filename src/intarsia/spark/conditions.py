"""Conditions of Spark as predicate nodes, which compare as Spark does and may be weaker.

A condition is an expression of Catalyst, Spark's optimizer, as ``ExpressionJson.java`` writes it: ``op``,
``type`` and ``args``, with values in Catalyst's internal form, so days and microseconds since 1970 represent
dates and timestamps. `intarsia.spark.sql_text` writes the same from SQL text where the JVM is not accessible.

Spark decides which rows match; the nodes only decide which rows can be excluded. So they are true for every
row for which the condition is true. What is not certain becomes TRUE, and NOT is pushed down to the
conditions, so that TRUE is always the weaker answer.

NaN equals itself and is greater than every number. The nodes express this for columns of floats by comparing
with infinity (only NaN is ``> inf``), and `spark_semantics` converts bound nodes accordingly.
"""

from __future__ import annotations

import dataclasses
import datetime as dt
import math
import re
from collections.abc import Hashable, Mapping, Sequence
from decimal import Decimal
from typing import Any, Final, NamedTuple

import pyarrow as pa

from intarsia.predicate import (
    And,
    Call,
    Comparison,
    Constant,
    In,
    IsNull,
    Like,
    Op,
    Or,
    Path,
    Predicate,
    contains,
    ends_with,
    starts_with,
)
from intarsia.predicate.bound import Bound, BoundCompare, BoundConstant, Condition, conjoin, disjoin, fold
from intarsia.predicate.nodes import MIRRORED, OPPOSITE, Leaf, escaped, fold_nodes, innermost
from intarsia.spark.spark_types import (
    ARRAY,
    DECIMAL,
    FLOATS,
    INTEGER_BITS,
    MAP,
    OLDEST_CERTAIN,
    TEMPORAL,
    Literal,
    SparkColumn,
    comparable,
)

#: An expression as the JVM sends it.
Node = Mapping[str, Any]

#: An expression that excludes nothing.
UNKNOWN: Final[Node] = {"op": "?"}

TRUE: Final = Constant(True)
FALSE: Final = Constant(False)

_COMPARISONS: Final[dict[str, Op]] = {
    "EqualTo": "=",
    "EqualNullSafe": "=",
    "LessThan": "<",
    "LessThanOrEqual": "<=",
    "GreaterThan": ">",
    "GreaterThanOrEqual": ">=",
}
_TEXT_TESTS: Final = {"StartsWith": starts_with, "EndsWith": ends_with, "Contains": contains}

#: Conditions of which those on ``lower(s)`` imply others on the column.
_ON_LOWER: Final = {*_TEXT_TESTS, "Like", "RLike", "EqualTo", "EqualNullSafe", "In"}

#: The value of a key in a map.
_LOOKUPS: Final = ("GetMapValue", "ElementAt")

# In some languages, the lower case of these is an i, which other accents may follow.
_LIKE_I: Final = "\N{LATIN CAPITAL LETTER I WITH DOT ABOVE}ÌÍĨ"
_MOST_PATTERNS: Final = 64

# Regular expressions of only these characters mean the same in Java and RE2.
_PLAIN_REGEX: Final = re.compile(r"(\^?)([A-Za-z0-9 _/:,@=%-]+)")

_REPLACEMENT: Final = "\N{REPLACEMENT CHARACTER}"
EPOCH: Final = dt.datetime(1970, 1, 1)
_DAY: Final = dt.timedelta(days=1)
_TOO_NEW: Final = dt.datetime(9991, 1, 1)


class Operand(NamedTuple):
    """A column, or a cast of it that neither changes values nor their order.

    Attributes:
        column: The column.
        type: The type to which it is cast, or its own.
        is_utc: Whether the session's time zone is UTC; only for a cast to a timestamp.
    """

    column: SparkColumn
    type: str
    is_utc: bool = False


class Weakened(NamedTuple):
    """A weakened condition.

    Attributes:
        predicate: Nodes of the types ``And``, ``Or``, ``Constant``, ``Comparison``, ``In``, ``IsNull`` and
            ``Like``; columns are paths in Spark's schema, or ``array_contains`` or ``element_at`` of one.
        types: Spark's types of the columns in them, by path in Spark's schema.
        filled: Names, in lower case, of the columns that have a default in files without them.
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
    return Weakened(weakener.node(condition, negate=False), weakener.types, frozenset(weakener.filled))


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
        if any(child["op"] == "Lower" for child in args):
            if negate or op not in _ON_LOWER:
                return TRUE
            within = [child["args"][0] if child["op"] == "Lower" else child for child in args]
            return _ignoring_case(self.node({**node, "args": within}, negate=False))
        if op == "Literal":
            value = node["value"]
            return FALSE if value is None else Constant(value is not negate) if type(value) is bool else TRUE
        if op in _COMPARISONS:
            return self._comparison(op, args, negate=negate)
        if op == "In":
            return self._in(args, negate=negate)
        if op == "ArrayContains":
            return TRUE if negate else self._array_contains(*args)
        if op in _TEXT_TESTS or op in ("Like", "RLike"):
            return self._text_test(node, negate=negate)
        if op == "Column" or op in _LOOKUPS:
            column = self._column(node)
            is_boolean = column is not None and column.type == "boolean"
            return Comparison(column.path, "=", not negate) if column and is_boolean else TRUE
        column = self._column(args[0]) if op in ("IsNull", "IsNotNull", "IsNaN") else None
        if column is None:
            return TRUE
        if op == "IsNaN":
            is_certain = column.type in FLOATS and not negate
            return Comparison(column.path, ">", math.inf) if is_certain else TRUE
        return IsNull(column.path, negated=(op == "IsNotNull") is not negate)

    def _column(self, node: Node) -> SparkColumn | None:
        if node["op"] in _LOOKUPS:
            return self._map_value(*node["args"])
        if node["op"] != "Column":
            return None
        path = tuple(node["name"])
        self.types[path] = node["type"]
        if node.get("filled"):
            self.filled.add(path[0].lower())
        return SparkColumn(path, node["type"])

    def _operand(self, node: Node) -> Operand | None:
        if node["op"] == "Cast":
            inner = self._operand(node["args"][0])
            if inner is None or inner.type == node["type"]:
                return inner
            cast = Operand(inner.column, node["type"], node.get("utc", False))
            return cast if _is_exact_cast(inner, cast.type) else None
        column = self._column(node)
        return None if column is None else Operand(column, column.type)

    def _comparison(self, name: str, args: Sequence[Node], *, negate: bool) -> Predicate:
        left, right = args
        is_mirrored = left["op"] == "Literal"
        operand, literal = (self._operand(right), left) if is_mirrored else (self._operand(left), right)
        if operand is None or literal["op"] != "Literal":
            return TRUE
        path, is_null_safe = operand.column.path, name == "EqualNullSafe"
        if is_null_safe and literal["value"] is None:
            # a cast of a value that is not null may be null
            return IsNull(path, negated=negate) if operand.type == operand.column.type else TRUE
        op = MIRRORED[_COMPARISONS[name]] if is_mirrored else _COMPARISONS[name]
        found = _compare(operand, OPPOSITE[op] if negate else op, literal)
        return Or((found, IsNull(path))) if is_null_safe and negate else found

    def _in(self, args: Sequence[Node], *, negate: bool) -> Predicate:
        operand, *literals = self._operand(args[0]), *args[1:]
        if operand is None or not literals or any(item["op"] != "Literal" for item in literals):
            return TRUE
        present = [item for item in literals if item["value"] is not None]
        values = [_value(operand, item) for item in present]
        if any(value is None for value in values):
            return TRUE
        if negate and len(present) < len(literals):
            return FALSE
        path = operand.column.path
        numbers = tuple(value for value in values if not _is_nan(value))
        if negate:
            return In(path, numbers, negated=True) if numbers else IsNull(path, negated=True)
        predicate: Predicate = In(path, numbers) if numbers else FALSE
        return predicate if len(numbers) == len(values) else Or((predicate, _compare_nan(path, "=")))

    def _array_contains(self, array: Node, literal: Node) -> Predicate:
        column = self._column(array)
        found = None if column is None else ARRAY.fullmatch(column.type)
        if column is None or found is None:
            return TRUE
        equal = _equal_element(column, found[1], literal)
        if not isinstance(equal, Comparison):
            return equal
        return Comparison(Call("array_contains", column.path, (equal.value,)), "=", True)

    def _map_value(self, node: Node, key: Node) -> SparkColumn | None:
        column = self._column(node)
        found = None if column is None else MAP.fullmatch(column.type)
        if column is None or found is None:
            return None
        equal = _equal_element(column, found[1], key)
        if not isinstance(equal, Comparison):
            return None
        return SparkColumn(Call("element_at", column.path, (equal.value,)), found[2])

    def _text_test(self, node: Node, *, negate: bool) -> Predicate:
        column, literal = self._column(node["args"][0]), node["args"][1]
        # the types of strings with a collation have other names
        if column is None or column.type != "string" or literal["op"] != "Literal":
            return TRUE
        text, path = literal["value"], column.path
        # files may contain other bytes that Spark reads as the replacement character
        if literal["type"] != "string" or text is None or _REPLACEMENT in text:
            return TRUE
        if node["op"] == "Like":
            return TRUE if node["escape"] in text else _like(path, text, negated=negate)
        if node["op"] == "RLike":
            plain = _PLAIN_REGEX.fullmatch(text)
            if plain is None:
                return TRUE
            found = starts_with(path, plain[2]) if plain[1] else contains(path, plain[2])
        elif not text:
            return IsNull(path, negated=True)
        else:
            found = _TEXT_TESTS[node["op"]](path, text)
        return dataclasses.replace(found, negated=negate)


def _equal_element(column: SparkColumn, element_type: str, literal: Node) -> Predicate:
    """Return the condition that elements equal a literal; a constant if that is null, or uncertain."""
    if literal["op"] != "Literal":
        return TRUE
    element = SparkColumn(column.path, element_type)
    equal = _compare(Operand(element, element_type), "=", literal)
    return equal if isinstance(equal, Comparison) or equal == FALSE else TRUE


def _compare(operand: Operand, op: Op, node: Node) -> Predicate:
    """Compare an operand with a literal."""
    column = operand.column
    if node["value"] is None:
        return FALSE
    if column.type not in TEMPORAL:
        value = _value(operand, node)
        if _is_nan(value):
            return _compare_nan(column.path, op)
        return TRUE if value is None else Comparison(column.path, op, value)
    moment = _moment(operand, node)
    if moment is None:
        return TRUE
    if operand.type == column.type or operand.is_utc:
        return Comparison(column.path, op, moment)
    # Spark reads the values in the session's time zone, where an hour may occur twice or not at all
    if op == "<>":
        return IsNull(column.path, negated=True)
    later, earlier = Comparison(column.path, "<", moment + _DAY), Comparison(column.path, ">", moment - _DAY)
    return And((later, earlier)) if op == "=" else later if op in ("<", "<=") else earlier


def _compare_nan(path: Path | Call, op: Op) -> Predicate:
    """Compare a column of floats with NaN, which is greater than every number."""
    if op in ("=", ">="):
        return Comparison(path, ">", math.inf)
    return FALSE if op == ">" else IsNull(path, negated=True)


def _is_nan(value: object) -> bool:
    return isinstance(value, float) and math.isnan(value)


def _value(operand: Operand, node: Node) -> Any:
    """Return the value of a literal that is compared or in a list; None if it is uncertain."""
    column = operand.column
    if column.type in TEMPORAL:
        return _moment(operand, node) if operand.type == column.type or operand.is_utc else None
    literal = _literal(node)
    if literal is not None and _is_nan(literal.value):
        return literal.value if column.type in FLOATS else None
    return None if literal is None else comparable(column, literal)


def _literal(node: Node) -> Literal | None:
    """Return a value that is not null and not temporal as a literal; None if it is not supported."""
    spark_type, value = node["type"], node["value"]
    if spark_type in INTEGER_BITS:
        return Literal("int", value) if type(value) is int else None
    if spark_type in FLOATS:
        return Literal(spark_type, float(value))
    if DECIMAL.fullmatch(spark_type):
        return Literal("decimal", Decimal(value))
    if spark_type == "boolean":
        return Literal("boolean", value)
    if spark_type == "binary":
        return Literal("binary", bytes.fromhex(value))
    if spark_type == "string" and _REPLACEMENT not in value:
        return Literal("string", value)
    return None


def _moment(operand: Operand, node: Node) -> Any:
    """Return days or microseconds since 1970 as a value of a temporal column; None if that is uncertain."""
    value = node["value"]
    if node["type"] != operand.type or type(value) is not int:
        return None
    try:
        found = EPOCH + (dt.timedelta(value) if operand.type == "date" else dt.timedelta(microseconds=value))
    except OverflowError:
        return None
    if not OLDEST_CERTAIN <= found < _TOO_NEW:
        return None
    if operand.column.type == "timestamp":
        return pa.scalar(found, pa.timestamp("us", "UTC"))
    return found.date() if operand.column.type == "date" else found


def _is_exact_cast(operand: Operand, target: str) -> bool:
    """Return whether a cast to another type keeps values distinct and in order.

    `comparable` decides which fractions represent the same integers. Timestamps without time zone are
    compared with a margin.
    """
    source = operand.type
    if source in INTEGER_BITS:
        if target in INTEGER_BITS:
            return INTEGER_BITS[source] <= INTEGER_BITS[target]
        return target in FLOATS or DECIMAL.fullmatch(target) is not None
    if source == "float":
        return target == "double" and operand.column.type == "float"
    if source == "timestamp_ntz":
        return target == "timestamp"
    before, after = DECIMAL.fullmatch(source), DECIMAL.fullmatch(target)
    if before is None or after is None:
        return False
    scale, wider = int(before[2]), int(after[2])
    return wider >= scale and int(after[1]) - wider >= int(before[1]) - scale


def _like(path: Path | Call, pattern: str, *, negated: bool) -> Predicate:
    """Weaken LIKE, without an escape character in the pattern, to the literal text in it.

    Strings in files may be invalid UTF-8. Spark then reads replacement characters, which wildcards and
    patterns can match, but Arrow's regular expressions cannot. Valid strings have the same bytes in both.
    """
    first, *rest = re.split("[%_]+", pattern)
    if not rest:
        return Comparison(path, "<>" if negated else "=", pattern)
    *inner, last = rest
    found = [contains(path, text) for text in inner]
    found += [starts_with(path, first)] if first else []
    found += [ends_with(path, last)] if last else []
    if negated:
        is_all = len(found) == 1 and "_" not in pattern
        return dataclasses.replace(found[0], negated=True) if is_all else IsNull(path, negated=True)
    return And(tuple(found)) if len(found) > 1 else found[0] if found else IsNull(path, negated=True)


def _ignoring_case(predicate: Predicate) -> Predicate:
    """Return what a predicate on the lower case of a string implies for the string."""
    if isinstance(predicate, (And, Or)):
        return type(predicate)(tuple(map(_ignoring_case, predicate.children)))
    if isinstance(predicate, Like):
        path, patterns = predicate.column, [predicate.pattern]
    elif isinstance(predicate, (Comparison, In)):
        values = predicate.values if isinstance(predicate, In) else (predicate.value,)
        path, patterns = predicate.column, [escaped(str(value)) for value in values]
    else:
        return predicate
    found = [one for pattern in patterns for one in _upper_forms(pattern)]
    if len(found) > _MOST_PATTERNS or not all(pattern.isascii() for pattern in patterns):
        return IsNull(path, negated=True)
    return Or(tuple(Like(path, one, ignore_case=True) for one in found))


def _upper_forms(pattern: str) -> list[str]:
    """Return patterns that match, if case is ignored, each string whose lower case matches a pattern.

    Only A to Z and the Kelvin sign have a lower case in ASCII, and also forms of I. Where one of these
    stands, all other i's may have any form.

    Example:
        >>> _upper_forms("fail%")
        ['fail%', 'faİl%', 'faÌl%', 'faÍl%', 'faĨl%']
    """
    wild = pattern.replace("i", "_")
    places = [place for place, letter in enumerate(pattern) if letter == "i"]
    return [pattern, *(f"{wild[:place]}{form}{wild[place + 1 :]}" for place in places for form in _LIKE_I)]


def is_trivial(predicate: Predicate) -> bool:
    """Return whether the predicate can never exclude a row."""
    return fold_nodes(predicate, lambda leaf, _: bool(leaf == TRUE), all, any)


def kind_of(predicate: Predicate) -> Hashable:
    """Return the columns and operators of a weakened predicate, without its literals.

    Example:
        >>> kind_of(Comparison(("user",), "=", 1)) == kind_of(Comparison(("user",), "=", 2))
        True
    """

    def kind(leaf: Leaf, negated: bool) -> Hashable:
        assert not negated
        if isinstance(leaf, Constant):
            return leaf
        variant = leaf.op if isinstance(leaf, Comparison) else getattr(leaf, "negated", None)
        function = leaf.column.function if isinstance(leaf.column, Call) else None
        return type(leaf), function, innermost(leaf.column), variant

    return fold_nodes(predicate, kind, lambda kinds: ("And", *kinds), lambda kinds: ("Or", *kinds))


def spark_semantics(bound: Bound) -> Bound:
    """Return a bound predicate that NaN matches as in Spark, where it is greater than every number.

    Only for the nodes of `weaken`, which contain no negation, under which Arrow treats NaN differently.

    Example:
        >>> from intarsia.predicate import bind, parse_sql
        >>> str(spark_semantics(bind(parse_sql("x > 1.5"), pa.schema({"x": pa.float64()}))))
        '(x > 1.5 OR x IS NAN)'
    """

    def with_nan(leaf: Condition | BoundConstant) -> Bound:
        if isinstance(leaf, BoundCompare) and pa.types.is_floating(leaf.type):
            return dataclasses.replace(leaf, or_nan=leaf.op in (">", ">=", "<>"))
        return leaf

    return fold(bound, with_nan, conjoin, disjoin)
