"""Convert literals in SQL text to Python values, also casts and parameters."""

from __future__ import annotations

import functools
import re
import struct
import uuid
from collections.abc import Callable, Iterable, Mapping, Sequence
from decimal import Decimal
from typing import Any, Final, TypeAlias

import pyarrow as pa

from intarsia.errors import PredicateError, near_matches
from intarsia.predicate.literals import (
    NS_PER_DAY,
    Temporal,
    exact,
    parse_number,
    parse_time,
    parse_timestamp,
    to_python,
)
from intarsia.predicate.sql_parser import Tree, short

Parameters: TypeAlias = "Sequence[object] | Mapping[str, object]"
"""The values of ``?`` in the order of the text, or those of ``:name`` by name."""


def ordered_values(names: Sequence[str | None], parameters: Parameters | None, text: str) -> Sequence[object]:
    """Return the values of parameters in the order of the text.

    Args:
        names: The names of the parameters in the order of the text; None for ``?``.
        parameters: The values; None if there are none.
        text: The text, for messages.

    Raises:
        PredicateError: If the text has other parameters.
    """
    if parameters is None:
        if names:
            raise _without_value(names[0])
        return ()
    values = _by_name(names, parameters) if isinstance(parameters, Mapping) else _in_order(names, parameters)
    if not names:
        raise PredicateError(
            f"the predicate {short(text)} has no parameters; write ? or :name in place of a literal",
            reason="no-parameters-in-text",
        )
    return values


def _in_order(names: Sequence[str | None], parameters: Any) -> Sequence[object]:
    if isinstance(parameters, (str, bytes)) or not isinstance(parameters, Iterable):
        raise PredicateError(
            f"parameters is {parameters!r:.80}; pass a list for ?, or a dict for :name",
            reason="not-a-list-of-parameters",
        )
    values = list(parameters)
    if named := [name for name in names if name]:
        raise PredicateError(
            f"the parameter :{named[0]} is named; pass a dict, such as {{{named[0]!r}: …}}",
            reason="named-parameter-without-name",
        )
    if len(values) != len(names):
        raise PredicateError(
            f"the number of parameters in the predicate is {len(names)}, but that of values is {len(values)}",
            reason="wrong-number-of-parameters",
        )
    return values


def _by_name(names: Sequence[str | None], parameters: Mapping[str, object]) -> Sequence[object]:
    values = []
    for name in names:
        if name is None:
            raise PredicateError(
                "the parameter ? has no name; pass a list, or write :name", reason="parameter-without-name"
            )
        if name not in parameters:
            near = near_matches(name, list(parameters))
            hint = f"; did you mean {near[0]!r}?" if near else f"; pass {{{name!r}: …}}"
            raise PredicateError(f"the parameter :{name} has no value{hint}", reason="missing-parameter")
        values.append(parameters[name])
    unused = [name for name in parameters if name not in names]
    if names and unused:
        raise PredicateError(
            f"the predicate has no parameter :{unused[0]}; remove it from parameters",
            reason="unused-parameter",
        )
    return values


def _without_value(name: str | None) -> PredicateError:
    return PredicateError(
        f"the parameter {_shown(name)} has no value; pass parameters=[…] for ?, or a dict for :name",
        reason="missing-parameter",
    )


def _shown(name: str | None) -> str:
    return f":{name}" if name else "?"


_Number: TypeAlias = int | float | Decimal

_INTERVAL: Final = re.compile(r"\s*(-?[0-9]+(?:\.[0-9]+)?)\s*([a-zA-Z]+)\s*")
_NANOSECONDS: Final = {
    "NANOSECOND": 1,
    "MICROSECOND": 1_000,
    "MILLISECOND": 1_000_000,
    "SECOND": 1_000_000_000,
    "MINUTE": 60_000_000_000,
    "HOUR": 3_600_000_000_000,
    "DAY": NS_PER_DAY,
    "WEEK": 7 * NS_PER_DAY,
}


_SUPPORTED: Final = (
    "compare a column, or a function of one column (lower, upper, length, substr, abs, year to minute, date, "
    "date_trunc, CAST, or + - * / % with a number), with a literal; or use IN, BETWEEN, IS NULL or text "
    "search (LIKE, RLIKE, contains, starts_with, ends_with), combined by AND, OR and NOT"
)
_COMPARED: Final = ("=", "<>", "<", "<=", ">", ">=")


class SqlLiterals:
    """The literals of a text, given the values of its parameters.

    Args:
        text: The text.
        values: The values of the parameters in the order of the text.
    """

    def __init__(self, text: str, values: Sequence[object]) -> None:
        self._text = text
        self._values = values

    def fragment(self, tree: Tree) -> str:
        """Return the text of an expression, shortened for a message."""
        return short(self._text[tree.start : tree.stop])

    def unsupported(self, tree: Tree) -> PredicateError:
        """Return the error for an expression that parses but is not supported in a predicate."""
        fragment, needs = self.fragment(tree), " in a predicate"
        if tree.kind in _COMPARED:
            needs = ": a comparison needs one column and one literal"
            if all(side.kind == "column" for side in tree.parts):
                return PredicateError(
                    f"two columns cannot be compared, as in {fragment}; if {tree.parts[1].parts[0][-1]!r} is "
                    "text, put it in single quotes",
                    reason="two-columns",
                )
        return PredicateError(f"cannot use {fragment}{needs}; {_SUPPORTED}", reason="unsupported-expression")

    def value(self, tree: Tree) -> object:
        """Return the value of an expression that must be a literal.

        Raises:
            PredicateError: If the expression is not a literal, or not a valid one.
        """
        value = self.value_or_none(tree)
        if value is None:
            raise self.unsupported(tree)
        return value[0]

    def value_or_none(self, tree: Tree) -> tuple[object] | None:
        """Return the value of a literal (maybe NULL) in a tuple, or None if it is not a literal.

        Raises:
            PredicateError: If the literal is not valid, or is a list.
        """
        kind, parts = tree.kind, tree.parts
        if kind in ("text", "constant"):
            return (parts[0],)
        if kind == "number":
            return (self._parsed(tree, parse_number, parts[0]),)
        if kind == "hex":
            return (self._parsed(tree, bytes.fromhex, parts[0][2:].removesuffix("'")),)
        if kind == "interval":
            return (self._interval(tree),)
        if kind == "parameter":
            ordinal, name = parts
            if isinstance(self._values[ordinal], (list, tuple, set, frozenset)):
                raise PredicateError(
                    f"the parameter {_shown(name)} is a list; write IN {_shown(name)}, without parentheses",
                    reason="parameter-is-a-list",
                )
            return (self._values[ordinal],)
        inner = self.value_or_none(parts[0]) if kind in ("paren", "negative", "cast") else None
        if inner is None or kind == "paren":
            return inner
        (value,) = inner
        if kind == "cast":
            return (self._cast(tree, value),)
        if isinstance(value, bool) or not isinstance(value, (int, float, Decimal)):
            return None
        return (value.copy_negate() if isinstance(value, Decimal) else -value,)

    def listed(self, tree: Tree) -> tuple[object, ...]:
        """Return the values of a list, or of a parameter that stands for a whole list, as in ``IN ?``.

        Raises:
            PredicateError: If one of them is not a literal, or the parameter is not a list.
        """
        if tree.kind == "values":
            return tree.parts[0]  # type: ignore[no-any-return]
        if tree.kind == "list":
            return tuple(map(self.value, tree.parts))
        ordinal, name = tree.parts
        values = self._values[ordinal]
        if isinstance(values, (str, bytes)) or not isinstance(values, Iterable):
            raise PredicateError(
                f"IN {_shown(name)} needs a list of values, not {values!r:.80}", reason="not-a-list"
            )
        return tuple(values)

    def _parsed(self, tree: Tree, parse: Callable[[Any], Any], value: object) -> Any:
        try:
            return parse(value)
        except (ValueError, OverflowError, pa.ArrowInvalid):
            message = f"{short(str(value))!r} is not valid in {self.fragment(tree)}"
            if tree.kind == "cast":
                name = tree.parts[1]
                form = f"; write it as in {_EXAMPLES[name]}" if name in _EXAMPLES else ""
                message = f"{short(str(value))!r} is not a valid {name}{form}"
            raise PredicateError(message, reason="invalid-literal") from None

    def _interval(self, tree: Tree) -> object:
        counted, unit = tree.parts
        count = self.value(counted)
        if unit is None and (both := _INTERVAL.fullmatch(str(count))):
            count, unit = both[1], both[2].upper()
        scale = None if unit is None else _NANOSECONDS.get(unit.removesuffix("S"))
        if scale is None:
            raise PredicateError(
                f"cannot use {self.fragment(tree)}; the unit of an interval is one of "
                f"{', '.join(_NANOSECONDS).lower()}",
                reason="unknown-interval-unit",
            )

        def parse(count: object) -> object:
            number = parse_number(count) if isinstance(count, str) else count
            ns = exact(number) if isinstance(number, (int, Decimal)) else None
            if ns is None or ns * scale % 1:
                raise ValueError(count)
            return to_python(Temporal("duration", int(ns * scale)))

        return self._parsed(tree, parse, count)

    def _cast(self, tree: Tree, value: object) -> object:
        """Cast a literal at parse time."""
        _, target, sizes = tree.parts
        if value is None:
            return None
        if isinstance(value, str) and target in _FROM_TEXT:
            return self._parsed(tree, _FROM_TEXT[target], value)
        if isinstance(value, bool) and target == "BOOLEAN":
            return value
        convert = _FROM_NUMBER.get(target)
        if isinstance(value, str) and convert is not None:
            value = self._parsed(tree, float if target in ("DOUBLE", "FLOAT") else parse_number, value)
        if convert is None or isinstance(value, bool) or not isinstance(value, (int, float, Decimal)):
            raise self.unsupported(tree)
        has_sizes = bool(sizes) and target == "DECIMAL"
        return self._parsed(tree, functools.partial(convert, sizes=sizes) if has_sizes else convert, value)


def _date(text: str) -> object:
    moment = parse_timestamp(text)
    if moment.aware or moment.ns % NS_PER_DAY:
        raise ValueError(text)
    return to_python(Temporal("date", moment.ns))


def _timestamp(text: str, *, aware: bool = False) -> object:
    moment = parse_timestamp(text)
    return to_python(Temporal("timestamp", moment.ns, aware or moment.aware))


def _time(text: str) -> object:
    return to_python(parse_time(text))


def _boolean(text: str) -> bool:
    word = text.strip().lower()
    if word not in ("true", "false"):
        raise ValueError(text)
    return word == "true"


def _single(number: _Number) -> float:
    """Round to the nearest 32-bit float, so that the result can equal a value of a float32 column."""
    return float(struct.unpack("<f", struct.pack("<f", float(number)))[0])


def _integer(number: _Number, bits: int) -> int:
    whole = exact(number)  # clamps the exponent, so that CAST(1E999999999 AS INT) is cheap
    if whole is None or whole % 1 or not -(1 << bits - 1) <= whole < 1 << bits - 1:
        raise ValueError(number)
    return int(whole)


def _decimal(number: _Number, sizes: Sequence[int] = ()) -> Decimal:
    value = Decimal(repr(number)) if isinstance(number, float) else Decimal(number)
    if sizes:
        precision, scale = (*sizes, 0)[:2]
        units = exact(value)
        if units is None or units * 10**scale % 1 or abs(units * 10**scale) >= 10**precision:
            raise ValueError(number)
    return value


#: How to write a literal of a type, for errors.
_EXAMPLES: Final[dict[str, str]] = {
    "DATE": "DATE '2013-07-04'",
    "TIME": "TIME '05:30:00'",
    "TIMESTAMP": "TIMESTAMP '2013-07-04 05:30:00'",
    "TIMESTAMPTZ": "TIMESTAMPTZ '2013-07-04 05:30:00+02:00'",
}

_FROM_TEXT: Final[dict[str, Callable[[str], object]]] = {
    "DATE": _date,
    "TIMESTAMP": _timestamp,
    "DATETIME": _timestamp,
    "TIMESTAMPNTZ": _timestamp,
    "TIMESTAMPTZ": functools.partial(_timestamp, aware=True),
    "TIMESTAMPLTZ": functools.partial(_timestamp, aware=True),
    "TIME": _time,
    "TEXT": str,
    "VARCHAR": str,
    "BINARY": str.encode,
    "VARBINARY": str.encode,
    "UUID": uuid.UUID,
    "BOOLEAN": _boolean,
}
_FROM_NUMBER: Final[dict[str, Callable[..., object]]] = {
    "DOUBLE": float,
    "FLOAT": _single,
    "DECIMAL": _decimal,
    "TINYINT": functools.partial(_integer, bits=8),
    "SMALLINT": functools.partial(_integer, bits=16),
    "INT": functools.partial(_integer, bits=32),
    "BIGINT": functools.partial(_integer, bits=64),
}
