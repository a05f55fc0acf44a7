"""Convert literals in SQL text to Python values, also casts and parameters.

sqlglot creates several objects for each literal, which takes 50 µs. So a long list of plain numbers or texts
is cut out of the text, and becomes a parameter.
"""

from __future__ import annotations

import functools
import re
import struct
import uuid
from collections.abc import Callable, Iterable, Mapping, Sequence
from decimal import Decimal
from typing import Any, Final, NamedTuple, TypeAlias

import pyarrow as pa

from intarsia.errors import PredicateError, near_matches
from intarsia.predicate.literals import (
    NS_PER_DAY,
    NS_PER_WORD,
    Temporal,
    exact,
    parse_number,
    parse_time,
    parse_timestamp,
    to_python,
)
from intarsia.predicate.sql_arithmetic import SIGNS, combined, shifted
from intarsia.predicate.sql_dialect import fragment, short, unsupported

Parameters: TypeAlias = "Sequence[object] | Mapping[str, object]"
"""The values of ``?`` in the order of the text, or those of ``:name`` by name."""

#: The name under which the value of a parameter is kept in the node that sqlglot parsed.
_VALUE: Final = "value of a parameter"


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


def attach_parameters(tree: Any, parameters: Parameters, text: str) -> None:
    """Attach the values of parameters to the nodes that sqlglot parsed; see `ordered_values`."""
    # depth first, which is the order of the text
    nodes = [node for node in tree.dfs() if type(node).__name__ == "Placeholder" and _VALUE not in node.meta]
    values = ordered_values([node.this for node in nodes], parameters, text)
    for node, value in zip(nodes, values, strict=True):
        node.meta[_VALUE] = value


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


def value_of(value: object, name: str | None) -> object:
    """Return the value of a parameter that stands for one literal.

    Raises:
        PredicateError: If it is a list.
    """
    if isinstance(value, (list, tuple, set, frozenset)):
        raise PredicateError(
            f"the parameter {_shown(name)} is a list; write IN {_shown(name)}, without parentheses",
            reason="parameter-is-a-list",
        )
    return value


def list_of(values: object, name: str | None) -> tuple[object, ...]:
    """Return the values of a parameter that stands for a whole list, as in ``IN ?``.

    Raises:
        PredicateError: If it is not a list.
    """
    if isinstance(values, (str, bytes)) or not isinstance(values, Iterable):
        raise PredicateError(
            f"IN {_shown(name)} needs a list of values, not {values!r:.80}", reason="not-a-list"
        )
    return tuple(values)


def attached_list(node: Any) -> tuple[object, ...] | None:
    """Return the values of a parameter that stands for a whole list; None if the node is not a parameter.

    Raises:
        PredicateError: If it has no value, or is not a list.
    """
    return list_of(_attached(node), node.this) if type(node).__name__ == "Placeholder" else None


def _attached(node: Any) -> object:
    if _VALUE not in node.meta:
        raise _without_value(node.this)
    return node.meta[_VALUE]


def _without_value(name: str | None) -> PredicateError:
    return PredicateError(
        f"the parameter {_shown(name)} has no value; pass parameters=[…] for ?, or a dict for :name",
        reason="missing-parameter",
    )


def _shown(name: str | None) -> str:
    return f":{name}" if name else "?"


_Number: TypeAlias = int | float | Decimal


def literal(node: Any) -> object:
    """Return the value of a sqlglot expression that must be a literal.

    Raises:
        PredicateError: If the expression is not a literal, or not a valid one.
    """
    value = literal_or_none(node)
    if value is None:
        raise unsupported(node)
    return value[0]


def literal_or_none(node: Any) -> tuple[object] | None:
    """Return the value of a literal (maybe NULL) in a tuple, or ``None`` if ``node`` is not a literal.

    Raises:
        PredicateError: If the literal is not valid, or is a parameter without a value.
    """
    node_type = type(node).__name__
    if node_type == "Literal":
        return (node.this,) if node.is_string else (_parsed(node, parse_number, node.this),)
    if node_type in ("Boolean", "Null"):
        return (bool(node.this) if node_type == "Boolean" else None,)
    if node_type == "HexString":
        return (_parsed(node, bytes.fromhex, node.this),)
    if node_type == "Interval":
        return None if node.this is None else (_interval(node),)
    if node_type == "Placeholder":
        return (value_of(_attached(node), node.this),)
    if node_type in SIGNS:
        return _arithmetic(node, node_type)
    inner = literal_or_none(node.this) if node_type in ("Paren", "Neg", "Cast") else None
    if inner is None or node_type == "Paren":
        return inner
    (value,) = inner
    if node_type == "Cast":
        return (_cast(node, value),)
    if isinstance(value, bool) or not isinstance(value, (int, float, Decimal)):
        return None
    return (negative(value),)


def negative(number: _Number) -> _Number:
    """Return a number with the other sign, exactly."""
    return number.copy_negate() if isinstance(number, Decimal) else -number


def _parsed(node: Any, parse: Callable[[Any], Any], value: object) -> Any:
    try:
        return parse(value)
    except (ValueError, OverflowError, pa.ArrowInvalid):
        if type(node).__name__ == "Cast":
            type_name = node.to.sql().upper()
            form = f"; write it as in {_EXAMPLES[type_name]}" if type_name in _EXAMPLES else ""
            message = f"{short(str(value))!r} is not a valid {type_name}{form}"
        else:
            message = f"{short(str(value))!r} is not valid in {fragment(node)}"
        raise PredicateError(message, reason="invalid-literal") from None


def _arithmetic(node: Any, sign: str) -> tuple[object] | None:
    """Return the result of an operation on literals as `literal_or_none`."""
    left, right = node.this, node.expression
    if sign == "Add" and type(left).__name__ == "Interval":
        left, right = right, left
    first = literal_or_none(left)
    if first is None or type(left).__name__ == "Interval":
        return None
    (value,) = first
    if type(right).__name__ == "Interval" and sign != "Mul":
        found = _shifted(node, value, right, is_back=sign == "Sub")
    else:
        second = literal_or_none(right)
        if second is None:
            return None
        found = _parsed(node, functools.partial(combined, sign, value), second[0])
    return None if found is None else (found,)


def _shifted(node: Any, moment: object, interval: Any, *, is_back: bool) -> object | None:
    count, unit = literal(interval.this), interval.args.get("unit")
    number = _parsed(node, parse_number, count) if isinstance(count, str) else count
    if unit is None or type(number) not in (int, Decimal):
        return None
    word = str(unit.name).lower().removesuffix("s")
    found: object = _parsed(
        node, lambda number: shifted(moment, -number if is_back else number, word), number
    )
    return found


def _interval(node: Any) -> object:
    unit = node.args.get("unit")
    scale = None if unit is None else NS_PER_WORD.get(str(unit.name).lower().removesuffix("s"))
    if scale is None:
        raise PredicateError(
            f"cannot use {fragment(node)}; the unit of an interval is one of {', '.join(NS_PER_WORD)}",
            reason="unknown-interval-unit",
        )

    def parse(count: object) -> object:
        number = parse_number(count) if isinstance(count, str) else count
        ns = exact(number) if isinstance(number, (int, Decimal)) else None
        if ns is None or ns * scale % 1:
            raise ValueError(count)
        return to_python(Temporal("duration", int(ns * scale)))

    return _parsed(node, parse, literal(node.this))


def _cast(node: Any, value: object) -> object:
    """Cast a literal at parse time."""
    target = node.to.this.name
    if value is None:
        return None
    if isinstance(value, str) and target in FROM_TEXT:
        return _parsed(node, FROM_TEXT[target], value)
    if isinstance(value, bool) and target == "BOOLEAN":
        return value
    convert = _FROM_NUMBER.get(target)
    if isinstance(value, str) and convert is not None:
        value = _parsed(node, float if target in ("DOUBLE", "FLOAT") else parse_number, value)
    if convert is None or isinstance(value, bool) or not isinstance(value, (int, float, Decimal)):
        raise unsupported(node)
    sizes = [int(param.this.this) for param in node.to.expressions] if target == "DECIMAL" else []
    return _parsed(node, functools.partial(convert, sizes=sizes) if sizes else convert, value)


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

FROM_TEXT: Final[dict[str, Callable[[str], object]]] = {
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
"""Parse the text of a literal, by the name of its type in sqlglot."""
_FROM_NUMBER: Final[dict[str, Callable[..., object]]] = {
    "DOUBLE": float,
    "FLOAT": _single,
    "DECIMAL": _decimal,
    "TINYINT": functools.partial(_integer, bits=8),
    "SMALLINT": functools.partial(_integer, bits=16),
    "INT": functools.partial(_integer, bits=32),
    "BIGINT": functools.partial(_integer, bits=64),
}


#: Shorter lists are parsed by sqlglot.
_MIN_LITERALS: Final = 16

# digits are limited because Python refuses to convert thousands of them
_NUMBER: Final = re.compile(r"\s*(-?\d{1,40}(?:\.\d{1,40})?)\s*([,)])")
_TEXT: Final = re.compile(r"\s*'([^']*(?:''[^']*)*)'\s*([,)])")

# quoted text, quoted names and comments come first, so that no list is found inside them
_QUOTED_OR_IN: Final = re.compile(
    r"""'[^']*'|"[^"]*"|`[^`]*`|--[^\n]*|/\*.*?(?:\*/|\Z)|(?P<list>\bIN\s*\(\s*)""", re.IGNORECASE | re.DOTALL
)


class CutText(NamedTuple):
    """SQL text without its long lists.

    Attributes:
        text: The text, with a parameter in place of each long list.
        lists: The values of the lists, by parameter.
    """

    text: str
    lists: Mapping[str, tuple[object, ...]]


def cut_lists(text: str) -> CutText:
    """Replace each long list of plain numbers or texts by one parameter.

    Args:
        text: SQL text, valid or not.

    Example:
        >>> cut = cut_lists(f"x > 1 AND y IN ({', '.join(map(str, range(100)))})")
        >>> cut.text, [len(values) for values in cut.lists.values()]
        ('x > 1 AND y IN :list_1_of_100_literals ', [100])
    """
    lists: dict[str, tuple[object, ...]] = {}
    parts: list[str] = []
    prefix = "list"
    while f":{prefix}" in text:
        prefix += "_"
    kept, position = 0, 0  # where the part that is not yet in `parts` starts, and where to search
    while found := _QUOTED_OR_IN.search(text, position):
        position = found.end()
        literals, stop = _read_list(text, position) if found["list"] else ((), position)
        if len(literals) >= _MIN_LITERALS:
            name = f"{prefix}_{len(lists) + 1}_of_{len(literals)}_literals"
            lists[name] = literals
            parts += [text[kept : found.start()], f"IN :{name} "]
            kept = position = stop
    return CutText("".join(parts) + text[kept:], lists)


def attach_lists(tree: Any, lists: Mapping[str, tuple[object, ...]]) -> bool:
    """Attach the values of lists to their parameters.

    Args:
        tree: The parsed text of `CutText`.

    Returns:
        Whether each is the list of an IN. If not, the whole text has to be parsed.
    """
    found = 0
    for node in tree.walk():
        if type(node).__name__ == "Placeholder" and node.arg_key == "field" and node.this in lists:
            node.meta[_VALUE] = lists[node.this]
            found += 1
    return found == len(lists)


def _read_list(text: str, position: int) -> tuple[tuple[object, ...], int]:
    """Read a list of literals of one kind from behind its opening parenthesis.

    A regular expression for the whole list would take 400 bytes of memory for each literal.

    Returns:
        The values, empty if it is another list, and the position behind the closing parenthesis.
    """
    start, is_text = position, text.startswith("'", position)
    match_literal = (_TEXT if is_text else _NUMBER).match
    written: list[str] = []
    while found := match_literal(text, position):
        written.append(found[1])
        position = found.end()
        if found[2] == ")":
            if is_text:
                return tuple(text.replace("''", "'") for text in written), position
            convert = parse_number if "." in text[start:position] else int
            return tuple(map(convert, written)), position
    return (), position
