"""Arithmetic with constants in SQL text, such as ``DATE '1994-01-01' + INTERVAL '1' YEAR``."""

from __future__ import annotations

import decimal
import operator
from collections.abc import Callable
from decimal import Decimal
from fractions import Fraction
from typing import Any, Final

from intarsia.predicate.literals import (
    NS_PER_DAY,
    NS_PER_WORD,
    Temporal,
    exact,
    first_of_month,
    month_of,
    plain,
    to_python,
)

_OPERATIONS: Final[dict[str, Callable[[Any, Any], Any]]] = {
    "Add": operator.add,
    "Sub": operator.sub,
    "Mul": operator.mul,
}
SIGNS: Final = tuple(_OPERATIONS)
"""The operators by their class names in sqlglot."""

_MONTHS: Final = {"month": 1, "quarter": 3, "year": 12}

#: More digits than a column can have.
_DIGITS: Final = 100


def combined(sign: str, left: object, right: object) -> int | Decimal | None:
    """Return the exact result of an operation on two numbers; None for other constants, and for floats.

    Raises:
        ValueError: If the result has too many digits.

    Example:
        >>> combined("Sub", Decimal("0.06"), Decimal("0.01")), combined("Mul", 2, 3)
        (Decimal('0.05'), 6)
    """
    if not all(type(number) in (int, Decimal) for number in (left, right)):
        return None
    with decimal.localcontext(decimal.Context(_DIGITS, traps=[decimal.Inexact, decimal.Overflow])):
        try:
            found: int | Decimal = _OPERATIONS[sign](left, right)
        except decimal.DecimalException:
            raise ValueError(sign) from None
    return found


def shifted(moment: object, count: int | Decimal, unit: str) -> object | None:
    """Return a date or a timestamp that is some units later.

    The day of a month that has fewer days becomes the last one, as in all engines.

    Args:
        moment: The date or timestamp. One with a time zone can only be shifted by hours and smaller units,
            because the length of a day depends on the zone of the session.
        unit: The unit in the singular, such as ``month``.

    Returns:
        The shifted value; None if the constants are others.

    Raises:
        ValueError: If the number of months or nanoseconds is not whole.
        OverflowError: If the value is out of the range of all types.

    Example:
        >>> import datetime as dt
        >>> shifted(dt.date(2024, 1, 31), 1, "month"), shifted(dt.date(2024, 1, 31), Decimal("-0.5"), "hour")
        (datetime.date(2024, 2, 29), datetime.datetime(2024, 1, 30, 23, 30))
    """
    start = plain(moment)
    if not isinstance(start, Temporal) or start.form not in ("date", "timestamp"):
        return None
    if unit in _MONTHS and not start.aware:
        days, of_day = divmod(start.ns, NS_PER_DAY)
        month = month_of(days)
        day, month = days - first_of_month(month), month + _whole(count, _MONTHS[unit])
        days = min(first_of_month(month) + day, first_of_month(month + 1) - 1)
        return to_python(Temporal(start.form, days * NS_PER_DAY + of_day))
    length = NS_PER_WORD.get(unit)
    if length is None or (start.aware and length >= NS_PER_DAY):
        return None
    ns = start.ns + _whole(count, length)
    return to_python(Temporal("timestamp" if ns % NS_PER_DAY else start.form, ns, start.aware))


def _whole(count: int | Decimal, length: int) -> int:
    number = exact(count)
    if not isinstance(number, Fraction) or number * length % 1:
        raise ValueError(count)
    return int(number * length)
