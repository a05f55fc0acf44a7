"""Convert functions in pyarrow expressions to calls, if they have the same results.

Arithmetic is not converted: pyarrow computes in the type of the column, where integers overflow and 32-bit
floats are rounded.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Final

import pyarrow as pa

from intarsia.predicate.nodes import Call, Operand

_FUNCTIONS: Final = {
    "utf8_lower": "lower",
    "utf8_upper": "upper",
    "utf8_length": "length",
    "abs_checked": "abs",
    **{part: part for part in ("year", "quarter", "month", "day", "hour", "minute")},
}
#: `CalendarUnit` of pyarrow.
_UNITS: Final = {
    1: "microsecond",
    2: "millisecond",
    3: "second",
    4: "minute",
    5: "hour",
    6: "day",
    7: "week",
    8: "month",
    9: "quarter",
    10: "year",
}
_SQL_TYPES: Final = {
    pa.string(): "TEXT",
    pa.large_string(): "TEXT",
    pa.int8(): "TINYINT",
    pa.int16(): "SMALLINT",
    pa.int32(): "INT",
    pa.int64(): "BIGINT",
    pa.float64(): "DOUBLE",
}


def call_of(function: str, operand: Operand, options: Mapping[str, Any]) -> Call | None:
    """Return a function of pyarrow as a call; None if it has no equivalent.

    Args:
        function: The name of the function in pyarrow. Its only argument is the operand.
        operand: The operand.
        options: The options of the function.

    Example:
        >>> str(call_of("utf8_slice_codeunits", "s", {"start": 0, "stop": 3, "step": 1}))
        'substr(s, 1, 3)'
    """
    if function in _FUNCTIONS:
        return Call(_FUNCTIONS[function], operand)
    if function == "utf8_slice_codeunits" and options.get("step") == 1:
        start, stop = options.get("start"), options.get("stop")
        if isinstance(start, int) and isinstance(stop, int) and 0 <= start <= stop:
            return Call("substr", operand, (start + 1, stop - start))
    if function == "floor_temporal" and options.get("multiple") == 1 and options.get("week_starts_monday"):
        unit = _UNITS.get(options.get("unit", 0))
        return None if unit is None else Call("date_trunc", operand, (unit,))
    if function == "cast":
        target = options.get("to_type")
        if target == pa.date32():
            return Call("date", operand)
        if target in _SQL_TYPES:
            return Call("cast", operand, (_SQL_TYPES[target],))
    return None
