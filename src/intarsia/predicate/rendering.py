"""Render literals as SQL text that parses back to the same value."""

from __future__ import annotations

import datetime as dt
import math
import uuid
from decimal import Decimal
from typing import Final

import numpy as np
import pyarrow as pa

from intarsia.errors import PredicateError
from intarsia.predicate.literals import NS_PER_DAY, NS_PER_UNIT, Temporal, plain, render_day

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
    return render_literal(value.as_py())


def _render_temporal(moment: Temporal, unit: str) -> str:
    """Render a time with as many fractional digits as its unit has, which is exact."""
    if moment.form == "duration":
        return f"INTERVAL '{moment.ns // NS_PER_UNIT[unit]}' {_INTERVAL_UNITS[unit]}"
    days, of_day = divmod(moment.ns, NS_PER_DAY)
    if moment.form == "date":
        return f"DATE '{render_day(days)}'"
    seconds, fraction = divmod(of_day, NS_PER_UNIT["s"])
    clock = f"{seconds // 3600:02}:{seconds // 60 % 60:02}:{seconds % 60:02}"
    if digits := _FRACTION_DIGITS[unit]:
        clock += "." + f"{fraction:09}"[:digits]
    if moment.form == "time":
        return f"TIME '{clock}'"
    return f"TIMESTAMP '{render_day(days)} {clock}{'Z' if moment.aware else ''}'"
