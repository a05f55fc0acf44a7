"""Convert functions of columns in SQL text to calls."""

from __future__ import annotations

from decimal import Decimal
from typing import Any, Final

from intarsia.predicate.nodes import Call, Operand
from intarsia.predicate.sql_dialect import column_name, unsupported
from intarsia.predicate.sql_literals import literal_or_none

#: Functions without arguments, by their class names in sqlglot and by their names.
_SIMPLE: Final = {
    "Lower": "lower",
    "Upper": "upper",
    "Length": "length",
    "Abs": "abs",
    "Year": "year",
    "Quarter": "quarter",
    "Month": "month",
    "Day": "day",
    "DayOfMonth": "day",
    "Hour": "hour",
    "Minute": "minute",
    "Date": "date",
}
_NAMES: Final = {name.lower(): name for name in _SIMPLE} | {
    "lcase": "Lower",
    "ucase": "Upper",
    "len": "Length",
    "char_length": "Length",
    "character_length": "Length",
    "dayofmonth": "Day",
}
_OPERATORS: Final = {"Add": "+", "Sub": "-", "Mul": "*", "Div": "/", "Mod": "%"}
_SUBSTRINGS: Final = ("Substring", "substr", "substring")
_TRUNCATIONS: Final = ("DateTrunc", "TimestampTrunc", "date_trunc")
_PARTS: Final = ("year", "quarter", "month", "day", "hour", "minute")
#: Details of a parsed function that do not change its meaning.
_DETAILS: Final = ("typed", "safe", "unabbreviate", "binary", "encoding")


def operand(node: Any) -> Operand:
    """Return the column, or the function of a column, that a sqlglot expression is.

    Raises:
        PredicateError: If the expression is neither.
    """
    class_name = type(node).__name__
    if class_name == "Paren":
        return operand(node.this)
    if class_name in ("Column", "Dot"):
        name = column_name(node)
        if name is None:
            raise unsupported(node)
        return name
    if class_name in _OPERATORS:
        return _operator(node, _OPERATORS[class_name])
    if class_name == "Neg":
        return Call("*", operand(node.this), (-1,))
    if class_name == "Cast":
        return _cast(node)
    if class_name == "Extract":
        return _part(node, node.this.name, node.expression)
    arguments = _arguments(node)
    function = class_name
    if class_name == "Anonymous":  # which functions have a class of their own depends on sqlglot's version
        name = str(node.this).lower()
        function = _NAMES.get(name, name)
    if function in _SIMPLE and len(arguments) == 1:
        return Call(_SIMPLE[function], operand(arguments[0]))
    if function == "date_part" and len(arguments) == 2:
        return _part(node, _constant(node, arguments[0]), arguments[1])
    if function in _SUBSTRINGS and len(arguments) in (2, 3):
        return _substr(node, arguments[0], *arguments[1:])
    if function in ("Left", "left") and len(arguments) == 2:
        return _substr(node, arguments[0], 1, arguments[1])
    if function in _TRUNCATIONS and len(arguments) == 2:
        return _truncation(node, arguments, first=function == "date_trunc")
    raise unsupported(node)


def _operator(node: Any, operator: str) -> Call:
    left, right = literal_or_none(node.this), literal_or_none(node.expression)
    if right is not None and left is None:
        return Call(operator, operand(node.this), (_number(node, right[0]),))
    if left is None or right is not None or operator not in ("+", "-", "*"):
        raise unsupported(node)
    column, number = operand(node.expression), _number(node, left[0])
    return (
        Call("+", Call("*", column, (-1,)), (number,))
        if operator == "-"
        else Call(operator, column, (number,))
    )


def _number(node: Any, value: object) -> object:
    if isinstance(value, bool) or not isinstance(value, (int, float, Decimal)):
        raise unsupported(node)
    return value


def _cast(node: Any) -> Call:
    target = str(node.to.sql()).upper()
    if target == "DATE":
        return Call("date", operand(node.this))
    return Call("cast", operand(node.this), (target,))


def _part(node: Any, part: object, moment: Any) -> Call:
    name = str(part).lower()
    if name not in _PARTS:
        raise unsupported(node)
    return Call(name, operand(moment))


def _substr(node: Any, text: Any, *numbers: Any) -> Call:
    return Call("substr", operand(text), tuple(_constant(node, number) for number in numbers))


def _truncation(node: Any, arguments: list[Any], *, first: bool) -> Call:
    unit, moment = arguments if first else (node.args.get("unit"), node.this)
    name = _constant(node, unit)
    if not isinstance(name, str):
        raise unsupported(node)
    return Call("date_trunc", operand(moment), (name.lower(),))


def _constant(node: Any, value: Any) -> object:
    if isinstance(value, int):
        return value
    if type(value).__name__ == "Var":
        return value.name
    literal = literal_or_none(value)
    if literal is None:
        raise unsupported(node)
    return literal[0]


def _arguments(node: Any) -> list[Any]:
    """Return the arguments of a function, in order."""
    if type(node).__name__ == "Anonymous":
        return list(node.expressions)
    found: list[Any] = []
    for name, value in node.args.items():
        if name in _DETAILS or value is None or value is False or value == []:
            continue
        found += value if isinstance(value, list) else [value]
    return found
