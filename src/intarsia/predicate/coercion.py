"""Locate a literal among the values of a column's type.

Literals are not cast or rounded. A literal that the type cannot represent lies *between* two of its values.
``bind`` rewrites a comparison with it to a comparison with an adjacent value that selects the same rows.
"""

from __future__ import annotations

import datetime as dt
import math
import uuid
from decimal import Decimal
from fractions import Fraction
from typing import TYPE_CHECKING, Any, Final, NamedTuple, NoReturn

import numpy as np
import pyarrow as pa

from intarsia.amounts import cut
from intarsia.errors import PredicateError
from intarsia.predicate.bound import ascending
from intarsia.predicate.literals import (
    NS_PER_DAY,
    NS_PER_UNIT,
    Temporal,
    exact,
    parse_number,
    parse_time,
    parse_timestamp,
    plain,
    render_literal,
)
from intarsia.records import dataclass

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    import numpy.typing as npt

    from intarsia.predicate.columns import Column


@dataclass(frozen=True, slots=True)
class LocatedLiteral:
    """The position of a literal among the values of a type.

    Attributes:
        value: A scalar of the type that equals or adjoins the literal. ``None`` if the literal is outside the
            range of the type.
        side: 0 if the literal equals ``value``. 1 if it lies between ``value`` and the next value, or above
            the range. -1 if it lies between the previous value and ``value``, or below the range.
    """

    value: pa.Scalar | None
    side: int


_BELOW_ALL = LocatedLiteral(None, -1)
_ABOVE_ALL = LocatedLiteral(None, 1)
_FLOATS: Final[dict[int, Any]] = {16: np.float16, 32: np.float32, 64: np.float64}


def locate(column: Column, literal: object) -> LocatedLiteral | None:
    """Return the position of a literal, or ``None`` for NaN.

    Args:
        column: The column, for its type and its name.
        literal: A value returned by ``literals.plain`` that is not NULL.

    Raises:
        PredicateError: If the column's type cannot be compared with the literal.
    """
    kind = _KINDS.get(column.type.id)
    if kind is None:
        raise PredicateError(
            f"column {column.name!r} of type {column.declared} cannot be compared; only IS [NOT] NULL "
            "applies",
            reason="type-not-comparable",
        )
    return kind.locate(column, literal)


def _in_booleans(column: Column, literal: object) -> LocatedLiteral:
    if not isinstance(literal, bool):
        _mismatch(column, literal)
    return LocatedLiteral(pa.scalar(literal, column.type), 0)


def _number(column: Column, literal: object) -> int | float | Decimal | Fraction:
    if isinstance(literal, bool) or not isinstance(literal, (int, float, Decimal, Fraction)):
        _mismatch(column, literal)
    return literal


def _in_integers(column: Column, literal: object) -> LocatedLiteral | None:
    target = literal if type(literal) is int else exact(_number(column, literal))
    return None if target is None else _between(column, target, *_INTEGERS[column.type])


def _between(
    column: Column, target: int | float | Fraction, least: int, most: int, scale: int | None = None
) -> LocatedLiteral:
    """Return the position of a number among integers, or among decimals of a scale."""
    if target < least:
        return _BELOW_ALL
    if target >= most + 1:
        return _ABOVE_ALL
    floor = int(target // 1)
    value = floor if scale is None else Decimal(f"{floor}E{-scale}")
    return LocatedLiteral(pa.scalar(value, column.type), int(target != floor))


def _in_floats(column: Column, literal: object) -> LocatedLiteral | None:
    number = _number(column, literal)
    if isinstance(number, Decimal) and not number.is_nan():
        # A literal with a decimal point means the nearest double, as in other languages: 0.1 is not a double.
        number = number if math.isinf(float(number)) else float(number)
    target = exact(number)
    if target is None:
        return None
    if isinstance(target, float):
        return LocatedLiteral(pa.scalar(target, column.type), 0)
    floor = _float_floor(target, _FLOATS[column.type.bit_width])
    return LocatedLiteral(pa.scalar(floor, column.type), 1 if math.isinf(floor) else int(floor != target))


def _float_floor(target: Fraction, float_type: Any) -> float:
    """Return the largest value of a NumPy float type that is at most ``target``, or minus infinity."""
    infinity = float_type(np.inf)
    with np.errstate(all="ignore"):
        try:
            value = float_type(float(target))
        except OverflowError:
            value = infinity if target > 0 else -infinity
        # The conversion may round twice, so step to the exact floor.
        while float(value) > target:
            value = np.nextafter(value, -infinity)
        while float(above := np.nextafter(value, infinity)) <= target:
            value = above
    return float(value) + 0.0  # no negative zero


def _in_decimals(column: Column, literal: object) -> LocatedLiteral | None:
    if isinstance(literal, str):
        literal = _parsed(column, literal, parse_number)
    number = _number(column, literal)
    if isinstance(number, float) and math.isfinite(number):
        number = Decimal(repr(number))  # as written: 0.1 is one tenth, not the nearest double
    target = exact(number)
    if target is None:
        return None
    precision, scale = column.type.precision, column.type.scale
    if scale < 0:
        raise PredicateError(
            f"column {column.name!r} of type {column.declared} cannot be compared; Arrow does not compare "
            "decimals of negative scale",
            reason="type-not-comparable",
        )
    units = target if isinstance(target, float) else target * Fraction(10) ** scale
    most = 10**precision - 1
    return _between(column, units, -most, most, scale)


def _in_time(column: Column, literal: object) -> LocatedLiteral:
    type_ = column.type
    if isinstance(literal, str) and not pa.types.is_duration(type_):
        literal = _parsed(column, literal, parse_time if pa.types.is_time(type_) else parse_timestamp)
    forms: tuple[str, ...] = ("date", "timestamp")
    if pa.types.is_time(type_) or pa.types.is_duration(type_):
        forms = ("time",) if pa.types.is_time(type_) else ("duration",)
    if not isinstance(literal, Temporal) or literal.form not in forms:
        _mismatch(column, literal)
    if literal.aware and getattr(type_, "tz", None) is None:
        raise PredicateError(
            f"column {column.name!r} of type {column.declared} has no time zone and cannot be compared with "
            f"a literal that has one; write {_example(column)}",
            reason="unexpected-time-zone",
        )
    # date64 has milliseconds
    ns_per_unit = NS_PER_DAY if pa.types.is_date32(type_) else NS_PER_UNIT[getattr(type_, "unit", "ms")]
    limit = 1 << type_.bit_width - 1
    return _between(column, Fraction(literal.ns, ns_per_unit), -limit, limit - 1)


def _in_texts(column: Column, literal: object) -> LocatedLiteral:
    if not isinstance(literal, str):
        _mismatch(column, literal)
    _utf8(column, literal)
    return LocatedLiteral(pa.scalar(literal, column.type), 0)


def _in_bytes(column: Column, literal: object) -> LocatedLiteral:
    if isinstance(literal, str):
        is_uuid = isinstance(column.declared, pa.UuidType)
        literal = _parsed(column, literal, uuid.UUID) if is_uuid else _utf8(column, literal)
    if isinstance(literal, uuid.UUID):
        literal = literal.bytes
    if not isinstance(literal, bytes):
        _mismatch(column, literal)
    if pa.types.is_binary(column.type):
        return LocatedLiteral(pa.scalar(literal, column.type), 0)
    width = column.type.byte_width
    # A longer literal is just above its own prefix. A shorter one is just below itself padded with zeros.
    side = (len(literal) > width) - (len(literal) < width)
    return LocatedLiteral(pa.scalar(literal[:width].ljust(width, b"\0"), column.type), side)


def _parsed(column: Column, literal: str, parse: Callable[[str], object]) -> object:
    """Parse text as a value of a column's type."""
    try:
        return parse(literal)
    except ValueError:
        _mismatch(column, literal)


def _utf8(column: Column, literal: str) -> bytes:
    try:
        return literal.encode()
    except UnicodeEncodeError:
        raise PredicateError(
            f"column {column.name!r} of type {column.declared} cannot be compared with {literal!r}, which "
            "contains half of a surrogate pair and has no UTF-8 form; pass valid Unicode",
            reason="not-utf8",
        ) from None


def _mismatch(column: Column, literal: object) -> NoReturn:
    shown = cut(f"a {literal.form}" if isinstance(literal, Temporal) else render_literal(literal), 80)
    declared = column.declared
    if pa.types.is_dictionary(declared):  # as partition columns are
        declared = declared.value_type
    problem = f"column {column.name!r} of type {declared} cannot be compared with {shown}; write"
    if isinstance(literal, bool):  # SQL text that is only a column is a comparison with TRUE
        problem = (
            f"column {column.name!r} of type {declared} is not boolean: it is neither a condition by itself "
            f"nor comparable with {shown}; compare it with"
        )
    raise PredicateError(f"{problem} {_example(column)}", reason="type-mismatch")


def _example(column: Column) -> str:
    if isinstance(column.declared, pa.UuidType):
        return "a UUID such as '123e4567-e89b-12d3-a456-426614174000'"
    zone = "+00:00" if getattr(column.type, "tz", None) is not None else ""
    return _KINDS[column.type.id].example.format(zone=zone)


def locate_list(column: Column, literals: Sequence[object]) -> tuple[pa.Array, bool]:
    """Return the values of a column's type that equal one of the literals.

    Args:
        column: The column, for its type and its name.
        literals: Values of any Python types, with or without NULL.

    Returns:
        The distinct values as an array of ``column.type``, ascending, without NULL, NaN or -0.0; and whether
        the literals include NULL.

    Raises:
        PredicateError: If the column's type cannot be compared with a literal.
    """
    groups: dict[type, list[Any]] = {}
    for literal in literals:
        groups.setdefault(type(literal), []).append(literal)
    has_null = groups.pop(type(None), None) is not None
    arrays = [pa.array([], column.type)]
    for python_type, group in groups.items():
        array = _converted(column, python_type, group)
        if array is None:
            present = [literal for literal in map(plain, group) if literal is not None]
            has_null |= len(present) < len(group)
            found = [locate(column, literal) for literal in present]
            equal = [one.value for one in found if one is not None and one.side == 0]
            array = pa.array(equal, column.type)
        if isinstance(array, pa.ChunkedArray):
            raise PredicateError(
                f"the list for column {column.name!r} has 2 GiB of values or more; split it into several "
                "queries",
                reason="list-too-large",
            )
        arrays.append(array)
    return ascending(pa.concat_arrays(arrays)), has_null


def _converted(column: Column, python_type: type, literals: list[Any]) -> pa.Array | None:
    """Convert literals of exactly one Python type at once, or return None if each needs a check."""
    if issubclass(python_type, (np.integer, np.floating)) and np.dtype(python_type).itemsize <= 8:
        literals = [literal.item() for literal in literals]
        python_type = type(literals[0])
    try:
        if issubclass(python_type, pa.Scalar):  # floats may be NaN or -0.0
            type_ = column.type
            is_same = not pa.types.is_floating(type_) and all(literal.type == type_ for literal in literals)
            array = pa.array(literals, type_) if is_same else None
        else:
            kind = _KINDS.get(column.type.id)  # without one, `locate` raises the error
            array = None if kind is None else kind.convert(column, python_type, literals)
    except (pa.ArrowException, OverflowError, TypeError, ValueError):  # a literal has no equal in the type
        return None
    return None if array is None or array.null_count else array


# Each converts literals of one Python type if the conversion is either exact or fails. None if it is neither.


def _integers(column: Column, python_type: type, literals: list[Any]) -> pa.Array | None:
    if python_type is not int:
        return None
    least, most = _INTEGERS[column.type]
    return pa.array([literal for literal in literals if least <= literal <= most], column.type)


def _floats(column: Column, python_type: type, literals: list[Any]) -> pa.Array | None:
    if python_type is int:
        literals = [literal for literal in literals if float(literal) == literal]
    elif python_type is not float and python_type is not Decimal:
        return None
    # a literal with a decimal point means the nearest double
    numbers: npt.NDArray[np.float64] = np.array([*map(float, literals)], np.float64)
    if python_type is Decimal and np.isinf(numbers).any():  # a finite literal may overflow a double
        return None
    numbers = numbers[~np.isnan(numbers)] + 0.0  # no negative zero
    with np.errstate(over="ignore"):
        narrow = numbers.astype(column.type.to_pandas_dtype())
    return pa.array(narrow[narrow.astype(np.float64) == numbers], column.type)


def _decimals(column: Column, python_type: type, literals: list[Any]) -> pa.Array | None:
    scale = column.type.scale
    if python_type not in (int, Decimal) or scale < 0:
        return None
    # pyarrow 26 converts some decimals with too many digits to zero
    if python_type is Decimal and any(-literal.as_tuple().exponent > scale for literal in literals):
        return None
    return pa.array(literals, column.type)


def _texts(column: Column, python_type: type, literals: list[Any]) -> pa.Array | None:
    return pa.array(literals, column.type) if python_type is str else None


def _bytes(column: Column, python_type: type, literals: list[Any]) -> pa.Array | None:
    if python_type is uuid.UUID:
        literals = [literal.bytes for literal in literals]
    elif python_type is str and not isinstance(column.declared, pa.UuidType):
        literals = [literal.encode() for literal in literals]
    elif python_type is not bytes:
        return None
    return pa.array(literals, column.type)


def _times(column: Column, python_type: type, literals: list[Any]) -> pa.Array | None:
    type_ = column.type
    natural, targets = _PYTHON_TIMES.get(python_type, (None, ()))
    if all(type_.id != target.id for target in targets):
        return None
    has_zone = {getattr(literal, "tzinfo", None) is not None for literal in literals}
    zone = getattr(type_, "tz", None)
    if len(has_zone) > 1 or (True in has_zone and zone is None):
        return None
    if not pa.types.is_timestamp(type_):
        return pa.array(literals, natural).cast(type_)
    # without a zone, a literal is in UTC
    zone = "UTC" if True in has_zone else None
    source = pa.timestamp("us", zone) if python_type is dt.datetime else natural
    return pa.array(literals, source).cast(pa.timestamp(type_.unit, zone)).view(type_)


class _Kind(NamedTuple):
    """How the columns of some types are compared with literals.

    Attributes:
        locate: Returns the position of a literal.
        convert: Converts a list of literals of one Python type.
        example: A literal, for messages.
    """

    locate: Callable[[Column, Any], LocatedLiteral | None]
    convert: Callable[[Column, type, list[Any]], pa.Array | None]
    example: str


_DATES: Final = (pa.date32(), pa.date64())
_TIMESTAMPS: Final = (pa.timestamp("s"),)
_CLOCKS: Final = (pa.time32("s"), pa.time64("us"))
_DURATIONS: Final = (pa.duration("s"),)
#: The Arrow type of each type of times in Python, and the types of columns to which it converts exactly.
_PYTHON_TIMES: Final[dict[type, tuple[pa.DataType, tuple[pa.DataType, ...]]]] = {
    dt.date: (pa.date32(), (*_DATES, *_TIMESTAMPS)),
    dt.datetime: (pa.timestamp("us"), _TIMESTAMPS),
    dt.time: (pa.time64("us"), _CLOCKS),
    dt.timedelta: (pa.duration("us"), _DURATIONS),
}
#: The smallest and the largest value of each type.
_INTEGERS: Final = {
    pa.from_numpy_dtype(name): (int(np.iinfo(name).min), int(np.iinfo(name).max))
    for name in ("int8", "int16", "int32", "int64", "uint8", "uint16", "uint32", "uint64")
}
_KINDS: Final = {
    type_.id: kind
    for kind, types in (
        (_Kind(_in_booleans, lambda *_: None, "TRUE or FALSE"), (pa.bool_(),)),
        (_Kind(_in_integers, _integers, "a number such as 42"), tuple(_INTEGERS)),
        (_Kind(_in_floats, _floats, "a number such as 1.5"), (pa.float16(), pa.float32(), pa.float64())),
        (
            _Kind(_in_decimals, _decimals, "a number such as 1.5"),
            (pa.decimal32(1), pa.decimal64(1), pa.decimal128(1), pa.decimal256(1)),
        ),
        (_Kind(_in_time, _times, "a time such as TIMESTAMP '2020-01-31 12:00:00{zone}'"), _TIMESTAMPS),
        (_Kind(_in_time, _times, "a date such as DATE '2020-01-31'"), _DATES),
        (_Kind(_in_time, _times, "a time of day such as TIME '12:00:00'"), _CLOCKS),
        (
            _Kind(_in_time, _times, "a duration such as INTERVAL '1' HOUR (in Python: datetime.timedelta)"),
            _DURATIONS,
        ),
        (_Kind(_in_texts, _texts, "text such as 'abc'"), (pa.string(),)),
        (
            _Kind(_in_bytes, _bytes, "bytes such as X'0aff' or text such as 'abc'"),
            (pa.binary(), pa.binary(1)),
        ),
    )
    for type_ in types
}
