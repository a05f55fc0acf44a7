"""Convert the literals of a list to a column's type, as whole arrays where they have one Python type."""

from __future__ import annotations

import datetime as dt
import uuid
from decimal import Decimal
from typing import TYPE_CHECKING, Any, Final

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from intarsia.errors import PredicateError
from intarsia.predicate.bound import ascending
from intarsia.predicate.coercion import locate
from intarsia.predicate.literals import plain

if TYPE_CHECKING:
    from collections.abc import Sequence

    import numpy.typing as npt

    from intarsia.predicate.columns import Column

_MAX_EXACT_INTEGER_IN_DOUBLE: Final = 2**53


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
    groups: dict[type, list[Any]] = {python_type: [] for python_type in dict.fromkeys(map(type, literals))}
    if len(groups) == 1:
        groups = {python_type: list(literals) for python_type in groups}
    else:
        for literal in literals:
            groups[type(literal)].append(literal)
    has_null = groups.pop(type(None), None) is not None
    arrays = []
    for python_type, group in groups.items():
        array = _locate_all(column, python_type, group)
        if array is None:
            array, group_has_null = _locate_each(column, group)
            has_null = has_null or group_has_null
        arrays.append(array)
    if any(isinstance(array, pa.ChunkedArray) for array in arrays):
        raise PredicateError(
            f"the list for column {column.name!r} has 2 GiB of values or more; split it into several queries",
            reason="list-too-large",
            column=column.name,
        )
    return ascending(pa.concat_arrays([pa.array([], column.type), *arrays])), has_null


def _locate_each(column: Column, literals: list[object]) -> tuple[pa.Array, bool]:
    found = []
    has_null = False
    for literal in map(plain, literals):
        if literal is None:
            has_null = True
            continue
        located = locate(column, literal)
        if located is not None and located.value is not None and located.side == 0:
            found.append(located.value)
    return pa.array(found, column.type), has_null


def _locate_all(column: Column, python_type: type, literals: list[Any]) -> pa.Array | None:
    """Convert literals of exactly one Python type at once, or return None if each needs a check."""
    if issubclass(python_type, (np.integer, np.floating)) and np.dtype(python_type).itemsize <= 8:
        literals = [literal.item() for literal in literals]
        python_type = type(literals[0])
    try:
        array = _converted(column, python_type, literals)
    except (pa.ArrowException, OverflowError, TypeError, ValueError):  # a literal has no equal in the type
        return None
    return None if array is None or array.null_count else array


def _converted(column: Column, python_type: type, literals: list[Any]) -> pa.Array | None:
    """Convert literals to the column's type if Arrow's conversion is either exact or fails.

    Raises:
        pa.ArrowException, OverflowError, TypeError, ValueError: If a literal has no equal in the type.
    """
    type_ = column.type
    if issubclass(python_type, pa.Scalar):  # floats may be NaN or -0.0
        is_same = not pa.types.is_floating(type_) and all(literal.type == type_ for literal in literals)
        return pa.array(literals, type_) if is_same else None
    if pa.types.is_integer(type_):
        return _integers(type_, literals) if python_type is int else None
    if pa.types.is_floating(type_):
        return _floats(type_, python_type, literals)
    if pa.types.is_decimal(type_):
        if python_type not in (int, Decimal) or type_.scale < 0:
            return None
        # pyarrow 26 converts some decimals with too many digits to zero
        if python_type is Decimal and any(-literal.as_tuple().exponent > type_.scale for literal in literals):
            return None
        return pa.array(literals, type_)
    if pa.types.is_string(type_):
        return pa.array(literals, type_) if python_type is str else None
    if pa.types.is_binary(type_) or pa.types.is_fixed_size_binary(type_):
        if python_type is uuid.UUID:
            literals = [literal.bytes for literal in literals]
        elif python_type is str and not isinstance(column.declared, pa.UuidType):
            literals = [literal.encode() for literal in literals]
        elif python_type is not bytes:
            return None
        return pa.array(literals, type_)
    if pa.types.is_date(type_):
        return pa.array(literals, type_) if python_type is dt.date else None
    if pa.types.is_timestamp(type_):
        return _timestamps(type_, python_type, literals)
    if pa.types.is_time(type_) and python_type is dt.time:
        has_zone = any(literal.tzinfo is not None for literal in literals)
        return None if has_zone else pa.array(literals, pa.time64("us")).cast(type_)
    if pa.types.is_duration(type_) and python_type is dt.timedelta:
        return pa.array(literals, pa.duration("us")).cast(type_)
    return None


def _integers(type_: pa.DataType, literals: list[int]) -> pa.Array:
    if pa.types.is_uint64(type_) and min(literals) >= 0:
        return pa.array(literals, type_)
    numbers = pa.array(literals, pa.int64())
    if type_.bit_width < 64:
        bits = type_.bit_width
        low, high = (
            (-(1 << bits - 1), (1 << bits - 1) - 1)
            if pa.types.is_signed_integer(type_)
            else (0, (1 << bits) - 1)
        )
        numbers = numbers.filter(pc.and_(pc.greater_equal(numbers, low), pc.less_equal(numbers, high)))
    return numbers.cast(type_)


def _floats(type_: pa.DataType, python_type: type, literals: list[Any]) -> pa.Array | None:
    if python_type is int:
        if max(literals) > _MAX_EXACT_INTEGER_IN_DOUBLE or min(literals) < -_MAX_EXACT_INTEGER_IN_DOUBLE:
            return None
    elif python_type is Decimal:  # a literal with a decimal point means the nearest double
        literals = [float(literal) for literal in literals]
    elif python_type is not float:
        return None
    numbers: npt.NDArray[np.float64] = np.array(literals, np.float64)
    if python_type is Decimal and np.isinf(numbers).any():  # a finite literal may overflow a double
        return None
    numbers = numbers[~np.isnan(numbers)] + 0.0  # no negative zero
    with np.errstate(over="ignore"):
        narrow = numbers.astype(type_.to_pandas_dtype())
    return pa.array(narrow[narrow.astype(np.float64) == numbers], type_)


def _timestamps(type_: pa.TimestampType, python_type: type, literals: list[Any]) -> pa.Array | None:
    if python_type is dt.date:
        return pa.array(literals, pa.date32()).cast(pa.timestamp(type_.unit)).view(type_)
    if python_type is not dt.datetime:
        return None
    aware = {literal.tzinfo is not None for literal in literals}
    if len(aware) > 1 or (aware == {True} and type_.tz is None):
        return None
    zone = "UTC" if aware == {True} else None
    return pa.array(literals, pa.timestamp("us", zone)).cast(pa.timestamp(type_.unit, zone)).view(type_)
