"""Convert literals in SQL text, including casts of literals, to Python values."""

from __future__ import annotations

import datetime as dt
import functools
import struct
import uuid
from collections.abc import Callable
from decimal import Decimal
from typing import Any, Final, TypeAlias

import pyarrow as pa

from intarsia.errors import PredicateError
from intarsia.predicate.literals import (
    NS_PER_DAY,
    NS_PER_UNIT,
    exact,
    parse_number,
    parse_time,
    parse_timestamp,
)
from intarsia.predicate.sql_dialect import fragment, short, unsupported
from intarsia.predicate.sql_parameters import attached_value

_Number: TypeAlias = int | float | Decimal

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
_MIN_TIMEDELTA_NS: Final = dt.timedelta.min // dt.timedelta(microseconds=1) * 1_000
_MAX_TIMEDELTA_NS: Final = dt.timedelta.max // dt.timedelta(microseconds=1) * 1_000
_EPOCH_ORDINAL: Final = dt.date(1970, 1, 1).toordinal()
_INTEGER_BITS: Final = {"TINYINT": 8, "SMALLINT": 16, "INT": 32, "BIGINT": 64}


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
    if node_type == "Paren":
        return literal_or_none(node.this)
    if node_type == "Neg":
        inner = literal_or_none(node.this)
        if inner is None or isinstance(inner[0], bool) or not isinstance(inner[0], (int, float, Decimal)):
            return None
        return (inner[0].copy_negate() if isinstance(inner[0], Decimal) else -inner[0],)
    if node_type == "Literal":
        return (node.this,) if node.is_string else (_parsed(node, parse_number, node.this),)
    if node_type in ("Boolean", "Null"):
        return (bool(node.this) if node_type == "Boolean" else None,)
    if node_type == "HexString":
        return (_parsed(node, bytes.fromhex, node.this),)
    if node_type == "Placeholder":
        return (attached_value(node),)
    if node_type == "Interval":
        return None if node.this is None else (_interval(node),)
    if node_type == "Cast":
        inner = literal_or_none(node.this)
        return None if inner is None else (_cast(node, inner[0]),)
    return None


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


def _interval(node: Any) -> dt.timedelta | pa.Scalar:
    unit = node.args.get("unit")
    scale = None if unit is None else _NANOSECONDS.get(str(unit.name).upper().removesuffix("S"))
    if scale is None:
        raise PredicateError(
            f"cannot use {fragment(node)}; the unit of an interval is one of "
            f"{', '.join(_NANOSECONDS).lower()}",
            reason="unknown-interval-unit",
        )

    def parse(count: object) -> dt.timedelta | pa.Scalar:
        number = parse_number(count) if isinstance(count, str) else count
        ns = exact(number) if isinstance(number, (int, Decimal)) else None
        if ns is None or ns * scale % 1:
            raise ValueError(count)
        ns = int(ns * scale)
        if ns % 1_000 or not _MIN_TIMEDELTA_NS <= ns <= _MAX_TIMEDELTA_NS:
            return _arrow_scalar(ns, pa.duration)
        return dt.timedelta(microseconds=ns // 1_000)

    return _parsed(node, parse, literal(node.this))


def _cast(node: Any, value: object) -> object:
    """Cast a literal at parse time."""
    target = node.to.this.name
    if value is None:
        return None
    if isinstance(value, str) and target in _FROM_TEXT:
        return _parsed(node, _FROM_TEXT[target], value)
    if isinstance(value, str) and (target in _FROM_NUMBER or target in _INTEGER_BITS):
        value = _parsed(node, float if target in ("DOUBLE", "FLOAT") else parse_number, value)
    if isinstance(value, bool):
        if target == "BOOLEAN":
            return value
    elif isinstance(value, (int, float, Decimal)):
        if target in _INTEGER_BITS:
            return _parsed(node, functools.partial(_integer, bits=_INTEGER_BITS[target]), value)
        if target == "DECIMAL":
            sizes = [int(param.this.this) for param in node.to.expressions]
            return _parsed(node, functools.partial(_decimal, sizes=sizes), value)
        if target in _FROM_NUMBER:
            return _parsed(node, _FROM_NUMBER[target], value)
    raise unsupported(node)


def _arrow_scalar(ns: int, type_of: Callable[[str], pa.DataType]) -> pa.Scalar:
    """Return a scalar for a time without a Python type: nanoseconds, years outside 1 to 9999, long durations.

    Raises:
        OverflowError: If no unit represents the value exactly in 64 bits.
    """
    for unit, ns_per_unit in reversed(NS_PER_UNIT.items()):
        units, rest = divmod(ns, ns_per_unit)
        if rest == 0 and -(1 << 63) <= units < 1 << 63:
            return pa.scalar(units, type_of(unit))
    raise OverflowError(ns)


def _date(text: str) -> dt.date | pa.Scalar:
    moment = parse_timestamp(text)
    days, of_day = divmod(moment.ns, NS_PER_DAY)
    if moment.aware or of_day:
        raise ValueError(text)
    if not _has_python_date(moment.ns):
        return _arrow_scalar(moment.ns, pa.timestamp)  # repr() of a date32 outside Python's range raises
    return dt.date(1970, 1, 1) + dt.timedelta(days=days)


def _timestamp(text: str, *, aware: bool = False) -> dt.datetime | pa.Scalar:
    moment = parse_timestamp(text)
    zone = "UTC" if aware or moment.aware else None
    if moment.ns % 1_000 or not _has_python_date(moment.ns):
        return _arrow_scalar(moment.ns, functools.partial(pa.timestamp, tz=zone))
    epoch = dt.datetime(1970, 1, 1, tzinfo=dt.timezone.utc if zone else None)
    return epoch + dt.timedelta(microseconds=moment.ns // 1_000)


def _has_python_date(ns: int) -> bool:
    """Return whether the date is in the range of Python's ``date``."""
    return dt.date.min.toordinal() <= ns // NS_PER_DAY + _EPOCH_ORDINAL <= dt.date.max.toordinal()


def _time(text: str) -> dt.time | pa.Scalar:
    moment = parse_time(text)
    if moment.ns % 1_000:
        return pa.scalar(moment.ns, pa.time64("ns"))
    return (dt.datetime(1970, 1, 1) + dt.timedelta(microseconds=moment.ns // 1_000)).time()


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


def _decimal(number: _Number, sizes: list[int]) -> Decimal:
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
_FROM_NUMBER: Final[dict[str, Callable[[Any], object]]] = {
    "DOUBLE": float,
    "FLOAT": _single,
    "DECIMAL": Decimal,
}
