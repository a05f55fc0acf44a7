"""Functions of text, and ``CAST(x AS type)`` where all engines agree on the result.

Characters are Unicode code points.
"""

from __future__ import annotations

import re
from collections.abc import Callable
from fractions import Fraction
from typing import TYPE_CHECKING, Final

import pyarrow as pa
import pyarrow.compute as pc

from intarsia.errors import PredicateError
from intarsia.predicate.bound import (
    ANY_VALUE,
    Bound,
    BoundConstant,
    Function,
    Inverse,
    OnResult,
    conjoin,
    disjoin,
)
from intarsia.predicate.conditions import bind_null, bind_prefix
from intarsia.predicate.functions import (
    arithmetic,
    compare_operand,
    listed,
    moments,
    no_result,
    operand_among,
    refuse_argument,
    refuse_type,
    solve,
)
from intarsia.records import dataclass

if TYPE_CHECKING:
    from intarsia.predicate.columns import Column
    from intarsia.predicate.nodes import Call


_INTEGERS: Final = {
    "TINYINT": pa.int8(),
    "SMALLINT": pa.int16(),
    "INT": pa.int32(),
    "INTEGER": pa.int32(),
    "BIGINT": pa.int64(),
}
_DECIMAL: Final = re.compile(r"(?:DECIMAL|NUMERIC)\((\d{1,3})(?:, ?(\d{1,3}))?\)")
_INTEGER_TEXT: Final = re.compile(r"0|-?[1-9][0-9]*", re.ASCII)


def cast(call: Call, operand: Column) -> Function | None:
    """Bind a cast to the type of the operand. None if it changes no value.

    Raises:
        PredicateError: If the cast is not supported, because it may fail or because engines differ.
    """
    if len(call.arguments) != 1 or not isinstance(call.arguments[0], str):
        refuse_argument("CAST", call.arguments, "write a type, such as TEXT, BIGINT or DATE")
    name = call.arguments[0].upper()
    type_ = operand.type
    decimal = _DECIMAL.fullmatch(name)
    if name in ("TEXT", "VARCHAR", "STRING"):
        if pa.types.is_string(type_):
            return None
        if pa.types.is_integer(type_) or pa.types.is_boolean(type_):
            return ToText("CAST", ("TEXT",), pa.string())
    elif name in _INTEGERS and pa.types.is_integer(type_):
        target = _INTEGERS[name]
        bits = type_.bit_width + pa.types.is_unsigned_integer(type_)
        return Recast("CAST", (name,), target, is_exact=bits <= target.bit_width)
    elif decimal is not None and arithmetic.is_exact_number(type_):
        precision, scale = int(decimal[1]), int(decimal[2] or 0)
        if not 0 < precision <= 38 or scale > precision:
            refuse_argument("CAST", name, "a decimal has up to 38 digits")
        if not pa.types.is_decimal(type_) or type_.scale <= scale:
            digits, of_fraction = arithmetic.digits(type_)
            is_exact = digits - of_fraction <= precision - scale
            return Recast("CAST", (name,), pa.decimal128(precision, scale), is_exact)
    elif name in ("DOUBLE", "DOUBLE PRECISION") and arithmetic.is_exact_number(type_):
        return ToDouble("CAST", ("DOUBLE",), pa.float64())
    elif name in ("DOUBLE", "DOUBLE PRECISION") and pa.types.is_floating(type_):
        return Recast("CAST", (name,), pa.float64(), is_exact=True)
    elif name == "DATE" and (pa.types.is_date(type_) or pa.types.is_timestamp(type_)):
        return moments.date(call, operand)
    elif name == "TIMESTAMP" and pa.types.is_date(type_):
        return Recast("CAST", (name,), pa.timestamp("us"), is_exact=True)
    elif name == "TIMESTAMP" and pa.types.is_timestamp(type_) and type_.tz is None:
        return None
    raise PredicateError(
        f"cannot cast {operand.name!r} of type {operand.declared} to {name} in a predicate: only casts "
        "with exact results, equal in all engines, are supported; compare the column with a literal of its "
        "own type",
        reason="unsupported-cast",
    )


@dataclass(frozen=True, slots=True)
class Recast(Function):
    """A cast that keeps every value, or fails.

    Attributes:
        is_exact: Whether no value of the operand's type fails.
    """

    is_exact: bool

    def apply(self, values: pa.Array) -> pa.Array:
        """Return the values in the other type.

        Raises:
            PredicateError: If a value is not in the range of the type.
        """
        try:
            if pa.types.is_decimal(self.type) and pa.types.is_integer(values.type):
                values = values.cast(pa.decimal128(20, 0))
            return values.cast(self.type)
        except pa.ArrowInvalid as error:
            raise no_result(f"CAST AS {self.arguments[0]}", error) from error

    def invert(self, condition: OnResult, operand: Column) -> Inverse:
        """Return the same condition on the operand."""
        return Inverse(solve(condition, operand, arithmetic.comparable), self.is_exact)


class ToDouble(Function):
    """A cast of integers or decimals to the nearest double."""

    __slots__ = ()

    def apply(self, values: pa.Array) -> pa.Array:
        """Return the doubles."""
        return arithmetic.to_double(values)

    def invert(self, condition: OnResult, operand: Column) -> Inverse:
        """Return the condition on the operand, with a margin for rounding."""
        return arithmetic.invert_rounded(condition, operand, Fraction(1), Fraction(0))


class ToText(Function):
    """The decimal digits of integers, or ``true`` and ``false``."""

    __slots__ = ()

    def apply(self, values: pa.Array) -> pa.Array:
        """Return the texts."""
        return values.cast(pa.string())

    def invert(self, condition: OnResult, operand: Column) -> Inverse:
        """Return the values that have one of the texts. The order of the texts is not that of the values."""
        tests = listed(condition)
        if tests is None:
            return ANY_VALUE
        texts = [text.as_py() for text in tests[0]]
        found: list[object]
        if pa.types.is_boolean(operand.type):
            found = [text == "true" for text in texts if text in ("true", "false")]
        else:  # longer digits are not the text of any integer
            found = [int(text) for text in texts if len(text) <= 20 and _INTEGER_TEXT.fullmatch(text)]
        return Inverse(operand_among(operand, found, negated=tests[1]), True)


_KERNELS: Final[dict[str, Callable[[pa.Array], pa.Array]]] = {
    "lower": pc.utf8_lower,
    "upper": pc.utf8_upper,
    "length": lambda values: pc.utf8_length(values).cast(pa.int64()),
}
_MAX_PREFIXES: Final = 32


def text_function(call: Call, operand: Column) -> Function:
    """Bind ``lower``, ``upper``, ``length`` or ``substr``."""
    name, numbers = call.function, call.arguments
    if not pa.types.is_string(operand.type):
        refuse_type(name, operand, "a column of text")
    if name != "substr":
        return TextFunction(name, (), pa.int64() if name == "length" else pa.string())
    if not 1 <= len(numbers) <= 2 or any(type(number) is not int for number in numbers):
        refuse_argument(name, numbers, "write a start and a length, as in substr(column, 1, 3)")
    if not 1 <= numbers[0] < 1 << 31 or not 0 <= numbers[-1] < 1 << 31:  # type: ignore[operator]
        refuse_argument(name, numbers, "the first character is 1, and a length is 0 or more")
    return Substring(name, numbers, pa.string())


class TextFunction(Function):
    """``lower`` and ``upper`` by Unicode's simple case mapping, and ``length`` in characters."""

    __slots__ = ()

    def apply(self, values: pa.Array) -> pa.Array:
        """Return the results.

        Raises:
            PredicateError: If a value is not valid UTF-8.
        """
        try:
            return self.compute(values)
        except pa.ArrowInvalid as error:  # the text is not UTF-8, or the result exceeds 2 GiB
            raise no_result(self.name, error) from error

    def compute(self, values: pa.Array) -> pa.Array:
        """Return the results of valid values."""
        return _KERNELS[self.name](values)


class Substring(TextFunction):
    """``substr(x, start, length)``; characters count from 1. To the end if there is no length."""

    __slots__ = ()

    def compute(self, values: pa.Array) -> pa.Array:
        """Return the parts."""
        start, *length = self.arguments
        return pc.utf8_slice_codeunits(values, start - 1, start - 1 + length[0] if length else None)

    def invert(self, condition: OnResult, operand: Column) -> Inverse:
        """Return the start of a text as a prefix."""
        tests = listed(condition)
        if self.arguments[0] != 1 or len(self.arguments) == 1 or tests is None:
            return ANY_VALUE
        texts, negated = tests
        if len(texts) > _MAX_PREFIXES:
            return ANY_VALUE
        sides = [self._starts(operand, text.as_py(), negated=negated) for text in texts]
        return Inverse(conjoin(sides) if negated else disjoin(sides), True)

    def _starts(self, operand: Column, text: str, *, negated: bool) -> Bound:
        length = self.arguments[1]
        if len(text) > length:
            return bind_null(operand, negated=True) if negated else BoundConstant(False)
        if len(text) < length:  # the whole value
            return compare_operand(operand, "<>" if negated else "=", text)
        return bind_prefix(operand, text, negated=negated)
