"""Functions of columns in plain Python, on the exact values of ``tests.predicate.oracle``.

Numbers are fractions, infinite or NaN; text is UTF-8; moments are nanoseconds since 1970.
"""

from __future__ import annotations

import datetime as dt
import math
import zoneinfo
from fractions import Fraction

import pyarrow as pa

DAY = 86_400 * 10**9
EPOCH = dt.datetime(1970, 1, 1, tzinfo=dt.timezone.utc)
UNITS = {
    "microsecond": 10**3,
    "millisecond": 10**6,
    "second": 10**9,
    "minute": 60 * 10**9,
    "hour": 3600 * 10**9,
    "day": DAY,
}
EXACT = pa.decimal256(76, 10)


def call(function, arguments, value, type_):
    """Return the value of a function, and a type with the same rules for literals."""
    result = EXACT if function in "+-*abs" and not pa.types.is_floating(type_) else RESULTS.get(function)
    if function == "date_trunc":
        zone = getattr(type_, "tz", None)
        result = type_ if zone in (None, "UTC") else pa.timestamp(type_.unit)
    if function == "cast":
        result = {"TEXT": pa.string(), "BIGINT": pa.int64(), "DOUBLE": pa.float64()}[arguments[0]]
    result = result or pa.float64()
    if value is None:
        return None, result
    if function in ("+", "-", "*") and result == EXACT:
        number = Fraction(arguments[0])
        return {"+": value + number, "-": value - number, "*": value * number}[function], result
    if function in "+-*/":
        return double(function, as_float(value), float(arguments[0])), result
    if function == "%":
        remainder = abs(int(value)) % abs(arguments[0])
        return Fraction(-remainder if value < 0 else remainder), result
    if function == "abs":
        return abs(value), result
    if function == "cast":
        return cast(value, type_, arguments[0]), result
    if function in ("lower", "upper", "length", "substr"):
        return text(function, value.decode(), *arguments), result
    return moment(function, local(value, type_), *arguments), result


RESULTS = {
    "lower": pa.string(),
    "upper": pa.string(),
    "substr": pa.string(),
    "date": pa.date32(),
    **dict.fromkeys(("length", "year", "quarter", "month", "day", "hour", "minute", "%"), pa.int64()),
}


def as_float(value):
    return float(value)


def double(operator, left, right):
    """One operation on doubles, as a fraction if it is finite."""
    if operator == "+":
        found = left + right
    elif operator == "-":
        found = left - right
    elif operator == "*":
        found = left * right
    else:
        try:
            found = left / right
        except OverflowError:
            found = math.inf
    return Fraction(found) if math.isfinite(found) else found


def cast(value, type_, target):
    if target == "TEXT":
        if isinstance(value, bool):
            return b"true" if value else b"false"
        return str(int(value)).encode()
    if target == "DOUBLE":
        return Fraction(float(value)) if math.isfinite(value) else value
    return value


def text(function, value, *arguments):
    if function == "length":
        return Fraction(len(value))
    if function == "substr":
        start = arguments[0] - 1
        return (value[start:] if len(arguments) == 1 else value[start : start + arguments[1]]).encode()
    return (value.lower() if function == "lower" else value.upper()).encode()


def local(ns, type_):
    zone = getattr(type_, "tz", None)
    if zone in (None, "UTC"):
        return ns
    when = EPOCH + dt.timedelta(microseconds=ns // 1000)
    return ns + when.astimezone(zoneinfo.ZoneInfo(zone)).utcoffset() // dt.timedelta(microseconds=1) * 1000


def civil(days):
    """The year, month and day of days since 1970, by counting 400-year cycles from 0000-03-01."""
    cycle, day = divmod(days + 719_468, 146_097)
    year_of_cycle = (day - day // 1460 + day // 36_524 - day // 146_096) // 365
    day_of_year = day - (365 * year_of_cycle + year_of_cycle // 4 - year_of_cycle // 100)
    shifted = (5 * day_of_year + 2) // 153
    month = shifted + 3 if shifted < 10 else shifted - 9
    return cycle * 400 + year_of_cycle + (month <= 2), month, day_of_year - (153 * shifted + 2) // 5 + 1


def days_of(year, month):
    year -= month <= 2
    cycle, year_of_cycle = divmod(year, 400)
    day_of_year = (153 * (month - 3 if month > 2 else month + 9) + 2) // 5
    return (
        cycle * 146_097
        + year_of_cycle * 365
        + year_of_cycle // 4
        - year_of_cycle // 100
        + day_of_year
        - 719_468
    )


def moment(function, ns, unit=None):
    days, of_day = divmod(ns, DAY)
    year, month, day = civil(days)
    if function == "date":
        return days * DAY
    if function == "date_trunc":
        if unit in UNITS:
            return ns // UNITS[unit] * UNITS[unit]
        if unit == "week":
            return (days - (days + 3) % 7) * DAY
        return days_of(year, {"year": 1, "quarter": (month - 1) // 3 * 3 + 1, "month": month}[unit]) * DAY
    hour, minute = of_day // UNITS["hour"], of_day // UNITS["minute"] % 60
    parts = {
        "year": year,
        "quarter": (month + 2) // 3,
        "month": month,
        "day": day,
        "hour": hour,
        "minute": minute,
    }
    return Fraction(parts[function])
