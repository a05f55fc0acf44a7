"""Conditions as Spark evaluates them, in predicate nodes: for SQL text and for Catalyst's expressions alike.

Every function returns nodes that are true for every row for which Spark's condition is true. They may be
weaker than the condition, but never stronger: if it is uncertain, the result is TRUE.

The nodes compare values as Spark does: NaN equals itself and is greater than every number. For columns of
floats they express this by comparing with infinity (only NaN is ``> inf``), and `spark_semantics` converts
bound nodes accordingly.
"""

from __future__ import annotations

import dataclasses
import datetime as dt
import math
import re
from collections.abc import Sequence
from typing import Any, Final

import pyarrow as pa

from intarsia.predicate import (
    And,
    Comparison,
    Constant,
    In,
    IsNull,
    Op,
    Or,
    Path,
    Predicate,
    contains,
    ends_with,
    starts_with,
)
from intarsia.predicate.bound import Bound, BoundAnd, BoundCompare, BoundOr, conjoin, disjoin
from intarsia.spark.spark_types import FLOATS, OLDEST_CERTAIN, Literal, SparkColumn, comparable

# Regular expressions of only these characters mean the same in Java and RE2.
_PLAIN_REGEX: Final = re.compile(r"(\^?)([A-Za-z0-9 _/:,@=%-]+)")

TRUE: Final = Constant(True)
FALSE: Final = Constant(False)
MIRRORED: Final[dict[Op, Op]] = {"=": "=", "<>": "<>", "<": ">", "<=": ">=", ">": "<", ">=": "<="}
OPPOSITE: Final[dict[Op, Op]] = {"=": "<>", "<>": "=", "<": ">=", "<=": ">", ">": "<=", ">=": "<"}

_REPLACEMENT: Final = "\N{REPLACEMENT CHARACTER}"
_EPOCH: Final = dt.datetime(1970, 1, 1)
_NEWEST_CERTAIN_YEAR: Final = 9990


def compare(column: SparkColumn, op: Op, literal: Literal) -> Predicate:
    """Compare a column that is not temporal with a literal."""
    if literal.type == "null":
        return FALSE
    if literal.type in ("double", "float") and math.isnan(literal.value):
        return _compare_nan(column.path, op) if column.type in FLOATS else TRUE
    value = comparable(column, literal)
    return TRUE if value is None else Comparison(column.path, op, value)


def _compare_nan(path: Path, op: Op) -> Predicate:
    """Compare a column of floats with NaN, which is greater than every number."""
    if op in ("=", ">="):
        return Comparison(path, ">", math.inf)
    return FALSE if op == ">" else IsNull(path, negated=True)


def is_nan(column: SparkColumn, *, negate: bool) -> Predicate:
    """Return whether a value is NaN, or is not; null is not NaN."""
    if column.type not in FLOATS:
        return TRUE
    return TRUE if negate else Comparison(column.path, ">", math.inf)


def moment(column: SparkColumn, value: dt.date | int | None) -> Any:
    """Return a point in time as a value of a temporal column; None if comparing with it is uncertain.

    Args:
        column: The column.
        value: A date, a datetime without time zone, or microseconds since 1970.
    """
    if isinstance(value, int):
        try:
            value = _EPOCH + dt.timedelta(microseconds=value)
        except OverflowError:
            return None
    if value is None:
        return None
    day = dt.datetime(value.year, value.month, value.day)
    if day < OLDEST_CERTAIN or day.year > _NEWEST_CERTAIN_YEAR:
        return None
    if column.type == "timestamp" and isinstance(value, dt.datetime):
        return pa.scalar(value, pa.timestamp("us", "UTC"))
    return value


def null_safe(column: SparkColumn, equal: Predicate, unequal: Predicate, *, negate: bool) -> Predicate:
    """Return ``column <=> literal`` for a literal that is not null.

    Args:
        column: The column.
        equal: The result of ``column = literal``.
        unequal: The result of ``column <> literal``.
        negate: Whether to return the negation.
    """
    return Or((unequal, IsNull(column.path))) if negate else equal


def among(column: SparkColumn, values: Sequence[Any], *, has_null: bool, negate: bool) -> Predicate:
    """Return whether a column is one of some values.

    Args:
        column: The column.
        values: The values, as `comparable` or `moment` return them, or NaN.
        has_null: Whether the list also contains NULL.
        negate: Whether to return the negation.
    """
    if has_null and negate:
        return FALSE
    numbers = tuple(value for value in values if not (isinstance(value, float) and math.isnan(value)))
    if negate:
        return In(column.path, numbers, negated=True) if numbers else IsNull(column.path, negated=True)
    predicate: Predicate = In(column.path, numbers) if numbers else FALSE
    return predicate if len(numbers) == len(values) else Or((predicate, _compare_nan(column.path, "=")))


def truth(column: SparkColumn | None, value: bool, *, negate: bool) -> Predicate:
    """Return whether a boolean column has a value."""
    if column is None or column.type != "boolean":
        return TRUE
    return Comparison(column.path, "=", value is not negate)


def weak_like(path: Path, pattern: str, *, negated: bool) -> Predicate:
    """Weaken LIKE, without an escape character in the pattern, to the literal text in it.

    Strings in files may be invalid UTF-8. Spark then reads replacement characters, which wildcards and
    patterns can match, but Arrow's regular expressions cannot. Valid strings have the same bytes in both.
    """
    if _REPLACEMENT in pattern:
        return TRUE
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


def weak_rlike(path: Path, pattern: str, *, negated: bool) -> Predicate:
    """Return RLIKE as a search for a text; TRUE if the pattern may mean more than a text in Java."""
    plain = _PLAIN_REGEX.fullmatch(pattern)
    if plain is None:
        return TRUE
    found = starts_with(path, plain[2]) if plain[1] else contains(path, plain[2])
    return dataclasses.replace(found, negated=negated)


def is_trivial(predicate: Predicate) -> bool:
    """Return whether the predicate can never exclude a row."""
    if isinstance(predicate, And):
        return all(is_trivial(child) for child in predicate.children)
    if isinstance(predicate, Or):
        return any(is_trivial(child) for child in predicate.children)
    return isinstance(predicate, Constant) and bool(predicate.value)


def spark_semantics(bound: Bound) -> Bound:
    """Return a bound predicate that NaN matches as in Spark, where it is greater than every number.

    Only for the nodes of this module, which contain no negation, under which Arrow treats NaN differently.

    Example:
        >>> from intarsia.predicate import bind, parse_sql
        >>> str(spark_semantics(bind(parse_sql("x > 1.5"), pa.schema({"x": pa.float64()}))))
        '(x > 1.5 OR x IS NAN)'
    """
    if isinstance(bound, BoundAnd):
        return conjoin([spark_semantics(child) for child in bound.children])
    if isinstance(bound, BoundOr):
        return disjoin([spark_semantics(child) for child in bound.children])
    if isinstance(bound, BoundCompare) and pa.types.is_floating(bound.type):
        return dataclasses.replace(bound, or_nan=bound.op in (">", ">=", "<>"))
    return bound
