"""Render predicate nodes as Spark SQL, so that a pyarrow expression can be passed to Spark's reader.

Spark compares by its own rules. So a rendered predicate selects rows by Spark's rules: NaN, for example, is
greater than all numbers.
"""

from __future__ import annotations

import math
import re
from decimal import Decimal

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
from intarsia.predicate.literals import NS_PER_DAY, NS_PER_UNIT, Temporal, plain, render_day, render_literal
from intarsia.predicate.nodes import dotted

#: Text that is the same in a string literal under every setting of Spark.
_PLAIN_TEXT = re.compile(r"[^\\'\"\x00-\x1f\x7f]*")

_MAX_DECIMAL_DIGITS = 38


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
    return ".".join("`" + part.replace("`", "``") + "`" for part in parts)


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
    seconds, fraction = divmod(of_day, NS_PER_UNIT["s"])
    clock = f"{seconds // 3600:02}:{seconds // 60 % 60:02}:{seconds % 60:02}"
    if fraction:
        clock += f".{fraction // NS_PER_UNIT['us']:06}"
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
