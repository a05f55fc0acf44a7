"""Parse literals, given as text or as Python values, into exact numbers. No column is involved.

Times become integers in nanoseconds, which are exact for a column of any unit.
"""

from __future__ import annotations

import contextlib
import datetime as dt
import math
import re
import uuid
from decimal import Decimal, InvalidOperation
from fractions import Fraction
from typing import Final, Literal, TypeAlias

import numpy as np
import pyarrow as pa

from intarsia.errors import PredicateError
from intarsia.records import dataclass

TemporalForm: TypeAlias = Literal["date", "timestamp", "time", "duration"]

#: The nanoseconds of units of time, by their names in SQL, in Arrow and in NumPy.
NS_PER_WORD: Final = {
    "nanosecond": 1,
    "microsecond": 1_000,
    "millisecond": 1_000_000,
    "second": 1_000_000_000,
    "minute": 60_000_000_000,
    "hour": 3_600_000_000_000,
    "day": 86_400_000_000_000,
    "week": 604_800_000_000_000,
}
_NUMPY_UNITS = dict(zip(("ns", "us", "ms", "s", "m", "h", "D", "W"), NS_PER_WORD.values(), strict=True))
NS_PER_UNIT = {unit: _NUMPY_UNITS[unit] for unit in ("s", "ms", "us", "ns")}
NS_PER_DAY = NS_PER_WORD["day"]
_DAYS_PER_CYCLE = 146_097
_EPOCH_ORDINAL = dt.date(1970, 1, 1).toordinal()
# Outside the range of every double and decimal(76), so that the digits of the number do not matter.
_EXPONENT_LIMIT = 400

_CLOCK = r"(\d\d):(\d\d)(?::(\d\d)(?:\.(\d{1,9}))?)?"
_TIME = re.compile(_CLOCK, re.ASCII)
_TIMESTAMP = re.compile(
    rf"(\d{{4}}|[+-]\d{{4,12}})-(\d\d)-(\d\d)(?:[ T]{_CLOCK} ?(Z|UTC|[+-]\d\d(?::?\d\d)?)?)?",
    re.ASCII | re.IGNORECASE,
)
_NUMBER = re.compile(r"[+-]?(\d+\.?\d*|\.\d+)(e[+-]?\d{1,18})?", re.ASCII | re.IGNORECASE)


@dataclass(frozen=True, slots=True)
class Temporal:
    """A point in time (since 1970-01-01, UTC if ``aware``), a time of day, or a duration, in nanoseconds."""

    form: TemporalForm
    ns: int
    aware: bool = False


def parse_timestamp(text: str) -> Temporal:
    """Parse ``YYYY-MM-DD[ HH:MM[:SS[.fffffffff]][zone]]``, where the zone is Z, UTC or an offset.

    Years outside 0 to 9999 have a sign, as in ISO 8601: ``+12345-01-01``, and ``-0001`` before year 0.

    Example:
        >>> parse_timestamp("1970-01-01T00:00:01.000000001+00:00")
        Temporal(form='timestamp', ns=1000000001, aware=True)

    Raises:
        ValueError: If the text has another form, or the time does not exist.
    """
    match = _TIMESTAMP.fullmatch(text.strip())
    if match is None:
        raise ValueError(text)
    year, month, day, hour, minute, second, fraction, zone = match.groups()
    ns = _day(int(year), int(month), int(day)) * NS_PER_DAY
    if hour is not None:
        ns += _clock_ns(hour, minute, second, fraction)
    if zone is None:
        return Temporal("timestamp", ns)
    if zone.upper() not in ("Z", "UTC"):
        hours, minutes = int(zone[1:3]), int(zone[3:].lstrip(":") or 0)
        if hours > 23 or minutes > 59:
            raise ValueError(text)
        offset = (hours * 60 + minutes) * 60 * NS_PER_UNIT["s"]
        ns -= -offset if zone[0] == "-" else offset
    return Temporal("timestamp", ns, aware=True)


def _day(year: int, month: int, day: int) -> int:
    """Return the days since 1970-01-01. The calendar repeats every 400 years."""
    cycles, year = divmod(year, 400)
    return dt.date(400 + year, month, day).toordinal() - _EPOCH_ORDINAL + (cycles - 1) * _DAYS_PER_CYCLE


def render_day(days: int) -> str:
    """Render days since 1970-01-01 as a date that `parse_timestamp` accepts.

    Example:
        >>> render_day(0), render_day(-719_529), render_day(2_932_897)
        ('1970-01-01', '-0001-12-31', '+10000-01-01')
    """
    cycles, of_cycle = divmod(days + _EPOCH_ORDINAL - 1, _DAYS_PER_CYCLE)
    date = dt.date.fromordinal(of_cycle + 1)
    year = date.year + 400 * cycles
    return f"{f'{year:04}' if 0 <= year <= 9999 else f'{year:+05}'}-{date.month:02}-{date.day:02}"


def month_of(days: int) -> int:
    """Return the number of months from January 1970 to the month of a day since 1970-01-01.

    Example:
        >>> month_of(31), month_of(-1), month_of(10**12)
        (1, -1, 32854884083)
    """
    cycles, of_cycle = divmod(days + _EPOCH_ORDINAL - 1, _DAYS_PER_CYCLE)
    date = dt.date.fromordinal(of_cycle + 1)
    return (date.year + 400 * cycles - 1970) * 12 + date.month - 1


def first_of_month(months: int) -> int:
    """Return the first day, since 1970-01-01, of a month since January 1970.

    Example:
        >>> first_of_month(1), first_of_month(-1), month_of(first_of_month(-(10**12)))
        (31, -31, -1000000000000)
    """
    years, month = divmod(months, 12)
    return _day(1970 + years, month + 1, 1)


def parse_time(text: str) -> Temporal:
    """Parse ``HH:MM[:SS[.fffffffff]]``.

    Raises:
        ValueError: If the text has another form, or the time does not exist.
    """
    match = _TIME.fullmatch(text.strip())
    if match is None:
        raise ValueError(text)
    return Temporal("time", _clock_ns(*match.groups()))


def parse_number(text: str) -> int | Decimal:
    """Parse a number exactly, as an ``int`` if the text has no point and no exponent, else as a ``Decimal``.

    Example:
        >>> parse_number("0.10"), parse_number("-7")
        (Decimal('0.10'), -7)

    Raises:
        ValueError: If the text is not a finite number, or has too many digits.
    """
    text = text.strip()
    if not _NUMBER.fullmatch(text):
        raise ValueError(text)
    if text.lstrip("+-").isdigit():
        return int(text)
    try:
        return Decimal(text)
    except InvalidOperation:
        raise ValueError(text) from None


def _clock_ns(hour: str, minute: str, second: str | None, fraction: str | None) -> int:
    clock = dt.time(int(hour), int(minute), int(second or 0))
    return _ns_of_day(clock) + int((fraction or "").ljust(9, "0"))


def _ns_of_day(clock: dt.time | dt.datetime) -> int:
    seconds = (clock.hour * 60 + clock.minute) * 60 + clock.second
    return seconds * NS_PER_UNIT["s"] + clock.microsecond * 1_000


def plain(value: object) -> object:
    """Convert a literal to a plain Python value or a :class:`Temporal`, or ``None`` if it is NULL or NaT.

    NumPy and pyarrow scalars are unwrapped. pandas timestamps keep their nanoseconds.
    """
    if isinstance(value, (np.datetime64, np.timedelta64)):
        return _numpy_temporal(value)
    if isinstance(value, np.generic):
        value = value.item()
    if isinstance(value, pa.Scalar):
        value = _from_arrow(value)
    if isinstance(value, dt.datetime):
        return None if repr(value) == "NaT" else _from_datetime(value)  # pandas' NaT is a datetime
    if isinstance(value, dt.date):
        return Temporal("date", (value.toordinal() - _EPOCH_ORDINAL) * NS_PER_DAY)
    if isinstance(value, dt.time):
        if value.tzinfo is not None:
            raise PredicateError(
                f"a time of day with a time zone cannot be compared: {value}; remove the zone",
                reason="unexpected-time-zone",
            )
        return Temporal("time", _ns_of_day(value))
    if isinstance(value, dt.timedelta):
        micros = value // dt.timedelta(microseconds=1)
        return Temporal("duration", micros * 1_000 + int(getattr(value, "nanoseconds", 0)))
    if isinstance(value, (bytearray, memoryview)):
        return bytes(value)
    if isinstance(value, Decimal) and value.is_snan():  # Python raises on arithmetic with a signaling NaN
        return Decimal("NaN")
    return value


def _from_datetime(value: dt.datetime) -> Temporal:
    day = (value.toordinal() - _EPOCH_ORDINAL) * NS_PER_DAY
    ns = day + _ns_of_day(value) + int(getattr(value, "nanosecond", 0))
    offset = value.utcoffset()
    if offset is None:
        return Temporal("timestamp", ns)
    return Temporal("timestamp", ns - (offset // dt.timedelta(microseconds=1)) * 1_000, aware=True)


def _numpy_temporal(value: np.datetime64 | np.timedelta64) -> Temporal | None:
    if np.isnat(value):
        return None
    form: TemporalForm = "timestamp" if isinstance(value, np.datetime64) else "duration"
    if form == "timestamp" and np.datetime_data(value.dtype)[0] in ("Y", "M"):
        value = value.astype("datetime64[D]")
    unit, count = np.datetime_data(value.dtype)
    ns_per_unit = _NUMPY_UNITS.get(unit)
    if ns_per_unit is None:
        raise PredicateError(
            f"cannot use {value!r} as a literal; its unit {unit!r} is not a whole number of nanoseconds",
            reason="inexact-unit",
        )
    return Temporal(form, int(value.astype(np.int64)) * count * ns_per_unit)


def _from_arrow(value: pa.Scalar) -> object:
    if value is None or not value.is_valid:
        return None
    if isinstance(value, (pa.ExtensionScalar, pa.DictionaryScalar)):
        return _from_arrow(value.value)
    type_, of = value.type, pa.types
    if not of.is_temporal(type_) or of.is_interval(type_):
        try:
            return value.as_py()
        except UnicodeDecodeError as error:
            raise PredicateError(
                f"text that is not UTF-8 cannot be compared: {error.object!r:.80}; pass valid Unicode",
                reason="not-utf8",
            ) from None
    form: TemporalForm = "time" if of.is_time(type_) else "duration" if of.is_duration(type_) else "timestamp"
    if of.is_date32(type_):
        return Temporal("date", value.value * NS_PER_DAY)
    ns_per_unit = NS_PER_UNIT[getattr(type_, "unit", "ms")]  # date64 has milliseconds
    return Temporal(form, value.value * ns_per_unit, aware=getattr(type_, "tz", None) is not None)


def to_python(moment: Temporal) -> object:
    """Return a value of Python; or a scalar of Arrow, if it has nanoseconds or is out of Python's range.

    Example:
        >>> to_python(Temporal("date", NS_PER_DAY)), to_python(Temporal("duration", 1)).type
        (datetime.date(1970, 1, 2), DurationType(duration[ns]))

    Raises:
        OverflowError: If no unit represents the value exactly in 64 bits.
    """
    zone = "UTC" if moment.aware else None
    if moment.ns % 1_000 == 0:
        with contextlib.suppress(OverflowError):
            since = dt.timedelta(microseconds=moment.ns // 1_000)
            if moment.form == "duration":
                return since
            value = dt.datetime(1970, 1, 1, tzinfo=dt.timezone.utc if zone else None) + since
            return {"date": value.date, "time": value.time}.get(moment.form, lambda: value)()
    for unit, ns_per_unit in reversed(NS_PER_UNIT.items()):
        units, rest = divmod(moment.ns, ns_per_unit)
        if rest == 0 and -(1 << 63) <= units < 1 << 63:
            if moment.form == "time":
                return pa.scalar(units, pa.time64(unit))
            type_ = pa.duration(unit) if moment.form == "duration" else pa.timestamp(unit, zone)
            return pa.scalar(units, type_)  # repr() of a date32 outside Python's range raises
    raise OverflowError(moment)


def exact(number: int | float | Decimal | Fraction) -> Fraction | float | None:
    """Convert a number to a fraction. ``inf`` and ``-inf`` stay floats, and NaN becomes ``None``.

    A float converts to its exact value. An exponent out of range for every column type is clamped, so that a
    literal such as ``1E999999999`` is cheap and still compares correctly.

    Example:
        >>> exact(0.5), exact(float("inf")), exact(float("nan"))
        (Fraction(1, 2), inf, None)
    """
    if isinstance(number, (float, Decimal)) and not math.isfinite(number):
        return None if math.isnan(number) else float(number)
    if isinstance(number, Decimal) and number and abs(number.adjusted()) > _EXPONENT_LIMIT:
        size = Fraction(10) ** (_EXPONENT_LIMIT if number.adjusted() > 0 else -_EXPONENT_LIMIT)
        return -size if number.is_signed() else size
    if isinstance(number, Decimal) and not number:
        return Fraction(0)
    return Fraction(number)


_INTERVAL_UNITS: Final = {"s": "SECOND", "ms": "MILLISECOND", "us": "MICROSECOND", "ns": "NANOSECOND"}
_FRACTION_DIGITS: Final = {"s": 0, "ms": 3, "us": 6, "ns": 9}
# From here on, the shortest text of a float may parse as a different integer, so it is rendered with a cast.
_MIN_FLOAT_TO_CAST: Final = 2.0**53
_MAX_INTEGER_BITS: Final = 10_000  # Python does not convert integers of more than 4,300 digits to text


def render_literal(value: object) -> str:
    """Render a literal as SQL text that :func:`intarsia.predicate.parse_sql` parses back.

    Example:
        >>> import datetime
        >>> render_literal(datetime.date(2020, 1, 31)), render_literal("it's")
        ("DATE '2020-01-31'", "'it''s'")
        >>> render_literal(pa.scalar(2**31 - 1, pa.date32()))
        "DATE '+5881580-07-11'"
    """
    if isinstance(value, np.generic) and not isinstance(value, (np.datetime64, np.timedelta64)):
        value = value.item()
    if isinstance(value, pa.Scalar):
        return _render_scalar(value)
    if value is None or isinstance(value, bool):
        return {None: "NULL", True: "TRUE", False: "FALSE"}[value]
    if isinstance(value, str):
        return "'" + value.replace("'", "''") + "'"
    if isinstance(value, (bytes, bytearray, memoryview)):
        return f"X'{bytes(value).hex()}'"
    if isinstance(value, dt.time):
        return f"TIME '{value.isoformat()}'"
    if isinstance(value, (dt.date, dt.timedelta, np.datetime64, np.timedelta64)):
        return _render_moment(value)
    if isinstance(value, uuid.UUID):
        return f"CAST('{value}' AS UUID)"
    if isinstance(value, Decimal):
        value = plain(value)  # turns a signaling NaN into a quiet one
    if isinstance(value, (int, float, Decimal)):
        return _render_number(value)
    return repr(value)


def _render_number(value: float | Decimal) -> str:
    if isinstance(value, int):
        if value.bit_length() <= _MAX_INTEGER_BITS:
            return str(value)
        sign = "-" if value < 0 else ""  # out of range for every type, as is the power of ten
        return f"{sign}1E+{int(value.bit_length() * math.log10(2))}"
    if not math.isfinite(value):
        return f"CAST('{float(value)}' AS DOUBLE)"
    if isinstance(value, float) and abs(value) >= _MIN_FLOAT_TO_CAST:
        return f"CAST({value!r} AS DOUBLE)"
    return str(value)


def _render_moment(value: dt.date | dt.timedelta | np.datetime64 | np.timedelta64) -> str:
    try:
        moment = plain(value)
    except PredicateError:  # the unit is not valid in a literal
        return repr(value)
    if moment is None:
        return "NULL"
    assert isinstance(moment, Temporal)
    return _render_temporal(moment, "ns" if moment.ns % 1_000 else "us" if moment.ns % 10**9 else "s")


def _render_scalar(value: pa.Scalar) -> str:
    if not value.is_valid:
        return "NULL"
    if isinstance(value, (pa.ExtensionScalar, pa.DictionaryScalar)) and not isinstance(value, pa.UuidScalar):
        return render_literal(value.value)
    if pa.types.is_temporal(value.type) and not pa.types.is_interval(value.type):
        moment = plain(value)
        assert isinstance(moment, Temporal)
        if pa.types.is_date64(value.type) and moment.ns % NS_PER_DAY == 0:
            moment = Temporal("date", moment.ns)
        return _render_temporal(moment, getattr(value.type, "unit", "ms"))
    try:
        return render_literal(value.as_py())
    except UnicodeDecodeError as error:  # of `In`, whose values may be any text of a file
        return render_literal(error.object)


def render_clock(of_day: int, digits: int) -> str:
    """Render nanoseconds since midnight with a number of fractional digits.

    Example:
        >>> render_clock(3_723_004_005_006, 3), render_clock(0, 0)
        ('01:02:03.004', '00:00:00')
    """
    seconds, fraction = divmod(of_day, NS_PER_UNIT["s"])
    clock = f"{seconds // 3600:02}:{seconds // 60 % 60:02}:{seconds % 60:02}"
    return f"{clock}.{f'{fraction:09}'[:digits]}" if digits else clock


def _render_temporal(moment: Temporal, unit: str) -> str:
    """Render a time with as many fractional digits as its unit has, which is exact."""
    if moment.form == "duration":
        return f"INTERVAL '{moment.ns // NS_PER_UNIT[unit]}' {_INTERVAL_UNITS[unit]}"
    days, of_day = divmod(moment.ns, NS_PER_DAY)
    if moment.form == "date":
        return f"DATE '{render_day(days)}'"
    clock = render_clock(of_day, _FRACTION_DIGITS[unit])
    if moment.form == "time":
        return f"TIME '{clock}'"
    return f"TIMESTAMP '{render_day(days)} {clock}{'Z' if moment.aware else ''}'"
