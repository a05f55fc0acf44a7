"""Parts of dates and timestamps. A timestamp with a time zone is converted to the local time of that zone."""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, Any, Final

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc

from intarsia.errors import PredicateError
from intarsia.predicate.bound import (
    ANY_VALUE,
    Bound,
    BoundCompare,
    BoundConstant,
    Function,
    Inverse,
    OnResult,
    conjoin,
    disjoin,
)
from intarsia.predicate.functions import compare_operand, listed, no_result, refuse_argument, refuse_type
from intarsia.predicate.literals import (
    NS_PER_DAY,
    NS_PER_UNIT,
    NS_PER_WORD,
    Temporal,
    first_of_month,
    month_of,
    plain,
)
from intarsia.predicate.nodes import Call

if TYPE_CHECKING:
    from intarsia.predicate.columns import Column

_UTC: Final = ("UTC", "Etc/UTC", "GMT", "Z", "+00:00", "-00:00")
_MONTHS: Final = {"month": 1, "quarter": 3, "year": 12}
_SIZES_NS: Final = {unit: ns for unit, ns in NS_PER_WORD.items() if unit != "nanosecond"}
#: The epoch is a Thursday, and weeks start on Monday.
_DAYS_AFTER_MONDAY: Final = 3
#: Longer lists are not inverted value by value.
_MAX_INTERVALS: Final = 32

_Ints = npt.NDArray[np.int64]


def date_part(call: Call, operand: Column) -> DatePart:
    """Bind ``year``, ``quarter``, ``month``, ``day``, ``hour`` or ``minute`` to the type of the operand."""
    _check_moments(call.function, operand)
    return DatePart(call.function, (), pa.int64())


def date(call: Call, operand: Column) -> DateOf | None:  # noqa: ARG001
    """Bind ``date`` to the type of the operand. None for dates."""
    _check_moments("date", operand)
    return None if pa.types.is_date32(operand.type) else DateOf("date", (), pa.date32())


def date_trunc(call: Call, operand: Column) -> Truncation | None:
    """Bind ``date_trunc`` to the type of the operand. None if it changes no value."""
    _check_moments("date_trunc", operand)
    unit = str(call.arguments[0]).lower() if len(call.arguments) == 1 else ""
    if unit not in (*_MONTHS, *_SIZES_NS):
        units = ", ".join((*_SIZES_NS, *_MONTHS))
        refuse_argument("date_trunc", call.arguments[0] if call.arguments else "", f"the units are {units}")
    type_ = operand.type
    tick_ns = NS_PER_DAY // _ticks_per_day(type_)
    zone = getattr(type_, "tz", None)
    if unit in _SIZES_NS and _SIZES_NS[unit] <= tick_ns and zone in (None, *_UTC):
        return None
    # without a zone that is not UTC, because the result is local time
    return Truncation("date_trunc", (unit,), type_ if zone in (None, *_UTC) else pa.timestamp(type_.unit))


class DatePart(Function):
    """A part of a date or a timestamp, as a number."""

    __slots__ = ()

    def apply(self, values: pa.Array) -> pa.Array:
        """Return the parts as integers."""
        ticks, per_day = _local_ticks(values)
        return pa.array(self._of(ticks, per_day), pa.int64(), mask=_nulls(values))

    def _of(self, ticks: _Ints, per_day: int) -> _Ints:
        if self.name in ("hour", "minute"):
            of_day = ticks % per_day
            return of_day * 24 // per_day if self.name == "hour" else of_day * 1_440 // per_day % 60
        days = ticks // per_day
        months = _months(days)
        if self.name == "day":
            return days - _days(months) + 1
        if self.name == "year":
            return months // 12 + 1970
        return months % 12 + 1 if self.name == "month" else months % 12 // 3 + 1

    def invert(self, condition: OnResult, operand: Column) -> Inverse:
        """Return intervals for years, and no restriction for the other parts, which repeat."""
        if self.name != "year":
            return ANY_VALUE
        return _invert_monotone(condition, operand, _first_of_year, lambda year: _first_of_year(year + 1))


class Truncation(Function):
    """The start of the unit of time that contains a moment."""

    __slots__ = ()

    @property
    def _unit(self) -> str:
        return str(self.arguments[0])

    def apply(self, values: pa.Array) -> pa.Array:
        """Return the starts.

        Raises:
            PredicateError: If a start is before the first moment of the type.
        """
        ticks, per_day = _local_ticks(values)
        if self._unit in _MONTHS:
            size = _MONTHS[self._unit]
            found = _days(_months(ticks // per_day) // size * size) * per_day
        else:
            size = max(1, _SIZES_NS[self._unit] * per_day // NS_PER_DAY)
            shift = _DAYS_AFTER_MONDAY * per_day if self._unit == "week" else 0
            found = ticks - (ticks % size + shift) % size
        nulls = _nulls(values)
        least = np.iinfo(np.int32 if pa.types.is_date32(self.type) else np.int64).min
        if (((found > ticks) | (found < least)) & ~nulls).any():
            raise no_result("date_trunc", "the start of the unit is out of range")
        starts = pa.array(found, pa.int64(), mask=nulls)
        return (starts.cast(pa.int32()) if pa.types.is_date32(self.type) else starts).view(self.type)

    def invert(self, condition: OnResult, operand: Column) -> Inverse:
        """Return the units as intervals."""

        def first(value: object) -> int:
            ns = _ns(value)
            start, stop = self._unit_of(ns)
            return ns if start == ns else stop

        return _invert_monotone(condition, operand, first, lambda value: self._unit_of(_ns(value))[1])

    def _unit_of(self, ns: int) -> tuple[int, int]:
        """Return the start and the end of the unit that contains a moment, in nanoseconds."""
        if self._unit in _MONTHS:
            size = _MONTHS[self._unit]
            first = month_of(ns // NS_PER_DAY) // size * size
            return first_of_month(first) * NS_PER_DAY, first_of_month(first + size) * NS_PER_DAY
        size, shift = _SIZES_NS[self._unit], _DAYS_AFTER_MONDAY * NS_PER_DAY if self._unit == "week" else 0
        start = (ns + shift) // size * size - shift
        return start, start + size


class DateOf(Truncation):
    """The date of a timestamp."""

    __slots__ = ()
    _unit = "day"

    def apply(self, values: pa.Array) -> pa.Array:
        """Return the dates.

        Raises:
            PredicateError: If a year is beyond the 5.8 million years of Arrow's dates.
        """
        ticks, per_day = _local_ticks(values)
        days, nulls = ticks // per_day, _nulls(values)
        try:
            return pa.array(days, pa.int64(), mask=nulls).cast(pa.int32()).view(pa.date32())
        except pa.ArrowInvalid as error:
            raise no_result("date", error) from error


def _invert_monotone(
    condition: OnResult, operand: Column, first: Callable[[Any], int], after: Callable[[Any], int]
) -> Inverse:
    """Invert a function that never decreases.

    Args:
        first: Returns the first moment whose result is a value or more, in nanoseconds of local time.
        after: Returns the first moment whose result is more than a value.
    """
    zone = getattr(operand.type, "tz", None)
    is_exact = zone in (None, *_UTC)
    # local time is at most a day from UTC, and does not always increase
    slack = 0 if is_exact else NS_PER_DAY

    def at_least(ns: int) -> Bound:
        return compare_operand(operand, ">=", Temporal("timestamp", ns - slack, zone is not None))

    def below(ns: int) -> Bound:
        return compare_operand(operand, "<", Temporal("timestamp", ns + slack, zone is not None))

    def within(low: pa.Scalar, high: pa.Scalar) -> Bound:
        start, stop = first(_python(low)), after(_python(high))
        # no moment has a result within a unit
        return conjoin([at_least(start), below(stop)]) if start < stop else BoundConstant(False)

    def outside(value: pa.Scalar) -> Bound:
        return disjoin([below(first(_python(value))), at_least(after(_python(value)))])

    tests = listed(condition)
    if tests is None:
        assert isinstance(condition, BoundCompare)
        value = _python(condition.value)
        limit = (after if condition.op in ("<=", ">") else first)(value)
        return Inverse(below(limit) if condition.op in ("<", "<=") else at_least(limit), is_exact)
    values, negated = tests
    if negated:
        if not is_exact or len(values) > _MAX_INTERVALS:
            return ANY_VALUE
        return Inverse(conjoin([outside(value) for value in values]), True)
    if len(values) > _MAX_INTERVALS:
        return Inverse(within(values[0], values[-1]), False)
    return Inverse(disjoin([within(value, value) for value in values]), is_exact)


def _check_moments(function: str, operand: Column) -> None:
    type_ = operand.type
    if not pa.types.is_date(type_) and not pa.types.is_timestamp(type_):
        refuse_type(function, operand, "a column of dates or timestamps")
    if pa.types.is_timestamp(type_) and type_.tz not in (None, *_UTC):
        try:
            pc.local_timestamp(pa.array([0], type_))
        except pa.ArrowInvalid as error:
            raise PredicateError(
                f"{function} needs the local time of {operand.name!r}, and its time zone {type_.tz!r} is not "
                "known; compare the column with timestamps",
                reason="unknown-time-zone",
            ) from error


def _ticks_per_day(type_: pa.DataType) -> int:
    if pa.types.is_date32(type_):
        return 1
    return NS_PER_DAY // NS_PER_UNIT["ms" if pa.types.is_date64(type_) else type_.unit]


def _local_ticks(values: pa.Array) -> tuple[_Ints, int]:
    """Return moments in local time since 1970, in units of their type, and the number of units per day."""
    type_ = values.type
    per_day = _ticks_per_day(type_)
    ticks = _ticks(values)
    if getattr(type_, "tz", None) in (None, *_UTC):
        return ticks, per_day
    local = _ticks(pc.local_timestamp(values))
    if (np.abs(local - ticks) > per_day)[~_nulls(values)].any():
        raise no_result("local time", "it is out of range")
    return local, per_day


def _ticks(values: pa.Array) -> _Ints:
    bits = pa.int32() if pa.types.is_date32(values.type) else pa.int64()
    return np.asarray(values.view(bits).fill_null(0).to_numpy(zero_copy_only=False), dtype=np.int64)


def _nulls(values: pa.Array) -> npt.NDArray[np.bool_]:
    return np.asarray(values.is_null().to_numpy(zero_copy_only=False), dtype=bool)


def _months(days: _Ints) -> _Ints:
    """Return the months since January 1970 of days since 1970-01-01."""
    return days.astype("datetime64[D]").astype("datetime64[M]").astype(np.int64)


def _days(months: _Ints) -> _Ints:
    return months.astype("datetime64[M]").astype("datetime64[D]").astype(np.int64)


def _first_of_year(year: int) -> int:
    return first_of_month((year - 1970) * 12) * NS_PER_DAY


def _python(value: pa.Scalar) -> object:
    """Return an integer as a number, and a moment unchanged, because Python has none with nanoseconds."""
    return value.as_py() if pa.types.is_integer(value.type) else value


def _ns(value: object) -> int:
    moment = plain(value)
    assert isinstance(moment, Temporal)
    return moment.ns
