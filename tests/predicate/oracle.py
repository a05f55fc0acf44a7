"""An oracle that evaluates predicates row by row in plain Python, with exact numbers and three-valued logic.

It shares only the nodes with ``intarsia.predicate``. It does not bind or rewrite them.
"""

from __future__ import annotations

import datetime as dt
import math
import operator
import re
import uuid
from decimal import Decimal
from fractions import Fraction

import pyarrow as pa

from intarsia.predicate import And, Call, Comparison, Constant, In, IsNull, Like, Not, Or, RegexpLike
from tests.predicate import function_oracle
from tests.predicate.strategies import is_list

NS = {"s": 10**9, "ms": 10**6, "us": 10**3, "ns": 1}
DAY = 86_400 * 10**9
EPOCH = dt.datetime(1970, 1, 1)
OPS = {
    "=": operator.eq,
    "<>": operator.ne,
    "<": operator.lt,
    "<=": operator.le,
    ">": operator.gt,
    ">=": operator.ge,
}


def matches(node, row, types):
    """Return True, False or None (NULL) for one row, a dict of exact values by column name."""
    if isinstance(node, And):
        verdicts = [matches(child, row, types) for child in node.children]
        return False if False in verdicts else None if None in verdicts else True
    if isinstance(node, Or):
        verdicts = [matches(child, row, types) for child in node.children]
        return True if True in verdicts else None if None in verdicts else False
    if isinstance(node, Not):
        verdict = matches(node.child, row, types)
        return None if verdict is None else not verdict
    if isinstance(node, Constant):
        return node.value
    value, type_ = operand(node.column, row, types)
    if isinstance(node, IsNull):
        return (value is None) != node.negated
    if isinstance(node, Comparison):
        return compare(value, node.op, literal(node.value, type_))
    if isinstance(node, In):
        verdicts = [compare(value, "=", literal(item, type_)) for item in node.values]
        verdict = True if True in verdicts else None if None in verdicts else False
        return None if verdict is None else verdict != node.negated
    if isinstance(node, Like):
        if value is None:
            return None
        escape = "\\" if node.escape is None else node.escape
        return like(value.decode(), node.pattern, escape, node.ignore_case) != node.negated
    if isinstance(node, RegexpLike):
        if value is None:
            return None
        flags = re.IGNORECASE if node.ignore_case else 0
        return (re.search(python_regex(node.regex), value.decode(), flags) is not None) != node.negated
    raise AssertionError(node)


def operand(column, row, types):
    """Return the value of a column, or of a function of a column, in a row, and its type."""
    if not isinstance(column, Call):
        return row[column], types[column]
    value, type_ = operand(column.operand, row, types)
    if column.function == "array_contains":
        wanted = literal(column.arguments[0], type_.value_type)
        return None if value is None else any(compare(one, "=", wanted) for one in value), pa.bool_()
    if column.function == "element_at":
        wanted = literal(column.arguments[0], type_.key_type)
        found = [item for key, item in value or () if compare(key, "=", wanted)]
        return found[0] if found else None, type_.item_type
    return function_oracle.call(column.function, column.arguments, value, type_)


def compare(left, op, right):
    if left is None or right is None:
        return None
    for side in (left, right):
        if isinstance(side, float) and math.isnan(side):
            return op == "<>"
    return OPS[op](left, right)


def like(text, pattern, escape, ignore_case=False):
    if not pattern:
        return not text
    first, rest = pattern[0], pattern[1:]
    if escape and first == escape:
        return text[:1] == rest[0] and like(text[1:], rest[1:], escape, ignore_case)
    if first == "%":
        return any(like(text[start:], rest, escape, ignore_case) for start in range(len(text) + 1))
    if not text:
        return False
    same = first.casefold() == text[0].casefold() if ignore_case else first == text[0]
    return (first == "_" or same) and like(text[1:], rest, escape, ignore_case)


def python_regex(regex):
    """Translate an RE2 regular expression to Python's ``re``, where a piece of the strategies differs.

    In Python, ``$`` also matches before a final newline. Two more differences do not occur in the strategies:
    Python folds the dotless i, and its classes such as ``\\d`` match beyond ASCII.
    """
    return regex.replace("$", r"\Z").replace(r"\z", r"\Z")


def exact_values(array):
    """Return the values of an array as exact Python values that compare with those of :func:`literal`."""
    if isinstance(array, pa.ChunkedArray):
        return [value for chunk in array.chunks for value in exact_values(chunk)]
    if isinstance(array, pa.ExtensionArray):
        return exact_values(array.storage)
    if isinstance(array, pa.DictionaryArray):
        distinct = exact_values(array.dictionary)
        return [None if ordinal is None else distinct[ordinal] for ordinal in array.indices.to_pylist()]
    type_ = array.type
    if is_list(type_):
        lists = [array[row].values for row in range(len(array))]
        return [None if one is None else exact_values(one) for one in lists]
    if pa.types.is_map(type_):
        maps = [array[row].values for row in range(len(array))]
        parts = [None if one is None else map(exact_values, one.flatten()) for one in maps]
        return [None if one is None else list(zip(*one, strict=True)) for one in parts]
    if pa.types.is_date32(type_):
        return [None if v is None else v * DAY for v in array.view(pa.int32()).to_pylist()]
    if pa.types.is_date64(type_):
        return [None if v is None else v * NS["ms"] for v in array.view(pa.int64()).to_pylist()]
    if pa.types.is_timestamp(type_) or pa.types.is_time(type_) or pa.types.is_duration(type_):
        bits = pa.int32() if pa.types.is_time32(type_) else pa.int64()
        return [None if v is None else v * NS[type_.unit] for v in array.view(bits).to_pylist()]
    return [number(v) for v in array.to_pylist()]


def number(value):
    if isinstance(value, str):
        return value.encode()
    if isinstance(value, bool) or not isinstance(value, (int, float, Decimal)):
        return value
    return Fraction(value) if isinstance(value, int) or math.isfinite(value) else float(value)


def literal(value, type_):
    """Return the exact value of a literal for a column of a type."""
    if value is None:
        return None
    if isinstance(type_, pa.DictionaryType):
        return literal(value, type_.value_type)
    if isinstance(type_, pa.UuidType):
        return uuid.UUID(value).bytes if isinstance(value, str) else getattr(value, "bytes", value)
    if isinstance(value, str) and pa.types.is_decimal(type_):
        return Fraction(value)
    if isinstance(value, str) and pa.types.is_temporal(type_):
        read = dt.time.fromisoformat if pa.types.is_time(type_) else dt.datetime.fromisoformat
        return literal(read(value), type_)
    if isinstance(value, pa.Scalar):
        return value.value * NS[value.type.unit]
    if isinstance(value, dt.datetime):
        if value.tzinfo is not None:
            value = (value - value.utcoffset()).replace(tzinfo=None)
        return (value - EPOCH) // dt.timedelta(microseconds=1) * 1000
    if isinstance(value, dt.date):
        return (value - EPOCH.date()).days * DAY
    if isinstance(value, dt.time):
        value = dt.timedelta(
            hours=value.hour, minutes=value.minute, seconds=value.second, microseconds=value.microsecond
        )
    if isinstance(value, dt.timedelta):
        return value // dt.timedelta(microseconds=1) * 1000
    if isinstance(value, Decimal) and pa.types.is_floating(type_):
        return number(float(value))
    if isinstance(value, float) and math.isfinite(value) and pa.types.is_decimal(type_):
        return Fraction(repr(value))
    return number(value)


def selected(node, columns, num_rows):
    """Return one boolean per row, whether the predicate is TRUE."""
    exact = {name: exact_values(array) for name, array in columns.items()}
    types = {name: array.type for name, array in columns.items()}
    rows = [{name: values[ordinal] for name, values in exact.items()} for ordinal in range(num_rows)]
    return [matches(node, row, types) is True for row in rows]
