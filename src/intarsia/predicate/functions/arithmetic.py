"""Arithmetic with a constant.

Integers and decimals are added and multiplied exactly, in decimals that are wide enough, so nothing overflows
or is rounded. All other arithmetic is in 64-bit floats.
"""

from __future__ import annotations

import math
from decimal import Decimal
from fractions import Fraction
from typing import TYPE_CHECKING, Any, Final

import pyarrow as pa
import pyarrow.compute as pc

from intarsia.arrow.comparison import sortable_type
from intarsia.errors import PredicateError
from intarsia.predicate.bound import (
    ANY_VALUE,
    BoundCompare,
    BoundIn,
    Function,
    Inverse,
    OnResult,
    conjoin,
    disjoin,
)
from intarsia.predicate.functions import (
    compare_operand,
    listed,
    no_result,
    operand_among,
    refuse_argument,
    refuse_type,
    solve,
)
from intarsia.predicate.literals import plain
from intarsia.predicate.nodes import MIRRORED, Call
from intarsia.records import dataclass

if TYPE_CHECKING:
    from intarsia.predicate.columns import Column

_MAX_DIGITS: Final = 76
_MAX_NARROW_DIGITS: Final = 38
_KERNELS: Final = {"+": "add", "-": "subtract", "*": "multiply", "/": "divide"}

#: Twice the error of some roundings of a double. Generous, because it only decides what is read.
_RELATIVE_SLACK: Final = Fraction(1, 2**40)
_ABSOLUTE_SLACK: Final = Fraction(1, 2**1000)


def is_exact_number(type_: pa.DataType) -> bool:
    """Return whether values are integers or decimals."""
    return bool(pa.types.is_integer(type_) or pa.types.is_decimal(type_))


def arithmetic(call: Call, operand: Column) -> Function:
    """Bind an operator and its constant to the type of the operand."""
    if len(call.arguments) != 1:
        refuse_argument(call.function, call.arguments, "write one number")
    number = plain(call.arguments[0])
    if isinstance(number, bool) or not isinstance(number, (int, float, Decimal)):
        refuse_argument(call.function, call.arguments[0], "write a finite number")
    if not isinstance(number, int) and not math.isfinite(number):  # of long integers, it fails
        refuse_argument(call.function, call.arguments[0], "write a finite number")
    if number == 0 and call.function in ("*", "/", "%"):
        refuse_argument(call.function, number, "write a number other than 0")
    if not is_exact_number(operand.type) and not pa.types.is_floating(operand.type):
        refuse_type(call.function, operand, "a column of numbers")
    if call.function == "%":
        return _remainder(number, operand)
    if is_exact_number(operand.type) and call.function != "/" and not isinstance(number, float):
        return _exact(call.function, Decimal(number), operand)
    try:
        nearest = float(number)
    except OverflowError:
        nearest = math.inf
    if not math.isfinite(nearest) or (nearest == 0 and call.function in ("*", "/")):
        refuse_argument(call.function, number, "the number is not in the range of a 64-bit float")
    return FloatArithmetic(call.function, (nearest,), pa.float64())


def absolute(call: Call, operand: Column) -> Absolute:
    """Bind ``abs`` to the type of the operand."""
    if not is_exact_number(operand.type) and not pa.types.is_floating(operand.type):
        refuse_type("abs", operand, "a column of numbers")
    is_float = pa.types.is_floating(operand.type)
    return Absolute(call.function, (), pa.float64() if is_float else _decimal(*digits(operand.type)))


@dataclass(frozen=True, slots=True)
class ExactArithmetic(Function):
    """``x + number``, ``x - number`` or ``x * number`` of integers or decimals, as a decimal.

    Attributes:
        values: The decimal type to which the operand is cast.
    """

    values: pa.DataType
    constant: pa.DataType

    def apply(self, values: pa.Array) -> pa.Array:
        """Return the results as decimals."""
        number = pa.scalar(self.arguments[0], self.constant)
        return pc.call_function(_KERNELS[self.name], [values.cast(self.values), number]).cast(self.type)

    def invert(self, condition: OnResult, operand: Column) -> Inverse:
        """Solve for the operand, exactly."""
        number = Fraction(self.arguments[0])

        def value_of(result: pa.Scalar) -> Fraction:
            target = Fraction(result.as_py())
            if self.name == "*":
                return target / number
            return target - number if self.name == "+" else target + number

        return Inverse(solve(condition, operand, value_of, mirror=self.name == "*" and number < 0), True)


class FloatArithmetic(Function):
    """``x + number``, ``x - number``, ``x * number`` or ``x / number`` in 64-bit floats."""

    __slots__ = ()

    def apply(self, values: pa.Array) -> pa.Array:
        """Return the results as doubles."""
        return pc.call_function(_KERNELS[self.name], [to_double(values), pa.scalar(self.arguments[0])])

    def invert(self, condition: OnResult, operand: Column) -> Inverse:
        """Solve for the operand, with a margin for rounding."""
        number = Fraction(self.arguments[0])
        factor, offset = number, Fraction(0)
        if self.name in ("+", "-"):
            factor, offset = Fraction(1), number if self.name == "+" else -number
        elif self.name == "/":
            factor = 1 / number
        return invert_rounded(condition, operand, factor, offset)


def invert_rounded(condition: OnResult, operand: Column, factor: Fraction, offset: Fraction) -> Inverse:
    """Solve ``factor * x + offset``, computed in 64-bit floats, for x. The result is not exact.

    Rounding is monotone, so results above a bound belong to operands above the solution for the bound, less
    the error of the roundings.
    """
    if isinstance(condition, BoundCompare):
        if condition.op == "<>":
            return ANY_VALUE
        op, low, high = condition.op, condition.value.as_py(), condition.value.as_py()
    elif isinstance(condition, BoundIn) and not condition.negated:
        op, low, high = "=", condition.values[0].as_py(), condition.values[-1].as_py()
    else:
        return ANY_VALUE
    if not (math.isfinite(low) and math.isfinite(high)):
        return ANY_VALUE
    or_nan = condition.or_nan and pa.types.is_floating(operand.type)
    least, most = (_widened(low, offset, -1) - offset) / factor, (_widened(high, offset, 1) - offset) / factor
    found = []
    if op in ("=", ">", ">="):
        found.append(compare_operand(operand, ">=" if factor > 0 else "<=", least, or_nan=or_nan))
    if op in ("=", "<", "<="):
        found.append(compare_operand(operand, "<=" if factor > 0 else ">=", most, or_nan=or_nan))
    return Inverse(conjoin(found), False)


def _widened(result: float, offset: Fraction, direction: int) -> Fraction:
    exact = Fraction(result)
    return exact + direction * (_RELATIVE_SLACK * (abs(exact) + abs(offset)) + _ABSOLUTE_SLACK)


class Absolute(Function):
    """``abs(x)``. Integers and decimals stay exact, including the smallest integer of a type."""

    __slots__ = ()

    def apply(self, values: pa.Array) -> pa.Array:
        """Return the absolute values."""
        return pc.abs(to_double(values) if pa.types.is_floating(self.type) else values.cast(self.type))

    def invert(self, condition: OnResult, operand: Column) -> Inverse:
        """Return the values and their opposites."""
        tests = listed(condition)
        if tests is not None:
            sizes = [size for size in map(comparable, tests[0]) if size >= 0]
            both = [*sizes, *(-size for size in sizes)]
            return Inverse(operand_among(operand, both, negated=tests[1]), True)
        assert isinstance(condition, BoundCompare)
        op, size = condition.op, comparable(condition.value)
        # also right for a negative size: no x is below it and above its opposite, and every x is one of them
        if size == -math.inf:
            size = -1
            op = "<" if op in ("<", "<=") else ">"
        sides = [
            compare_operand(operand, op, size, or_nan=condition.or_nan),
            compare_operand(operand, MIRRORED[op], -size, or_nan=condition.or_nan),
        ]
        return Inverse(conjoin(sides) if op in ("<", "<=") else disjoin(sides), True)


class Remainder(Function):
    """``x % divisor`` of integers. The sign is that of x, as in SQL."""

    __slots__ = ()

    def apply(self, values: pa.Array) -> pa.Array:
        """Return the remainders.

        Raises:
            PredicateError: If a value of the operand is not a 64-bit integer.
        """
        try:
            integers = values.cast(self.type)
        except pa.ArrowInvalid as error:
            raise no_result("%", error) from error
        divisor = pa.scalar(abs(self.arguments[0]), self.type)
        return pc.subtract(integers, pc.multiply(pc.divide(integers, divisor), divisor))


def _remainder(number: float | Decimal, operand: Column) -> Remainder:
    type_ = operand.type
    is_whole = pa.types.is_integer(type_) or (pa.types.is_decimal(type_) and type_.scale == 0)
    if not is_whole:
        refuse_type("%", operand, "a column of integers")
    if isinstance(number, float) or number % 1 or abs(number) >= 1 << 63:
        refuse_argument("%", number, "write an integer of up to 63 bits")
    return Remainder("%", (int(number),), pa.uint64() if pa.types.is_uint64(type_) else pa.int64())


def _exact(operator: str, number: Decimal, operand: Column) -> ExactArithmetic:
    if not -_MAX_DIGITS <= number.adjusted() <= _MAX_DIGITS:
        refuse_argument(operator, number, f"write a number of at most {_MAX_DIGITS} digits")
    number = Decimal(f"{number:f}")
    precision, scale = digits(operand.type)
    _, figures, exponent = number.as_tuple()
    assert isinstance(exponent, int)
    number_scale = -exponent
    number_precision = max(len(figures), number_scale, 1)
    if operator == "*":
        whole, found_scale = precision - scale + number_precision - number_scale + 1, scale + number_scale
    else:
        whole = max(precision - scale, number_precision - number_scale) + 1
        found_scale = max(scale, number_scale)
    total = whole + found_scale
    if total > _MAX_DIGITS:
        raise PredicateError(
            f"{operand.name} {operator} {number} may have {total} digits; the limit is {_MAX_DIGITS}",
            reason="too-many-digits",
        )
    # all have the width of the result
    make = pa.decimal128 if total <= _MAX_NARROW_DIGITS else pa.decimal256
    return ExactArithmetic(
        operator,
        (number,),
        make(total, found_scale),
        values=make(precision, scale),
        constant=make(number_precision, number_scale),
    )


def digits(type_: pa.DataType) -> tuple[int, int]:
    """Return the precision and the scale of integers or decimals, in digits."""
    if pa.types.is_decimal(type_):
        return max(type_.precision, type_.precision - type_.scale), max(type_.scale, 0)
    return {8: 3, 16: 5, 32: 10, 64: 20 if pa.types.is_unsigned_integer(type_) else 19}[type_.bit_width], 0


def _decimal(precision: int, scale: int) -> pa.DataType:
    return (pa.decimal128 if precision <= _MAX_NARROW_DIGITS else pa.decimal256)(precision, scale)


def to_double(values: pa.Array) -> pa.Array:
    """Convert numbers to the nearest doubles."""
    if pa.types.is_decimal(values.type):  # pyarrow's cast of decimals to doubles rounds twice
        return values.cast(sortable_type(values.type)).cast(pa.string()).cast(pa.float64())
    return values.cast(pa.float64(), safe=False)


def comparable(value: pa.Scalar) -> Any:
    """Return a value that `locate` compares exactly: a decimal as a fraction."""
    return Fraction(value.as_py()) if pa.types.is_decimal(value.type) else plain(value)
