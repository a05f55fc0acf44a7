"""``CAST(x AS type)`` where all engines agree on the result."""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass
from fractions import Fraction
from typing import TYPE_CHECKING, Any, Final

import pyarrow as pa

from intarsia.errors import PredicateError
from intarsia.predicate.bound import BoundCompare, BoundIn
from intarsia.predicate.functions import arithmetic, moments
from intarsia.predicate.functions.inverse import (
    ANY_VALUE,
    Inverse,
    Invertible,
    OnResult,
    compare_operand,
    no_result,
    operand_among,
    refuse_argument,
)
from intarsia.predicate.literals import plain

if TYPE_CHECKING:
    from intarsia.predicate.columns import Column
    from intarsia.predicate.nodes import Call

_TEXT: Final = ("TEXT", "VARCHAR", "STRING")
_INTEGERS: Final = {
    "TINYINT": pa.int8(),
    "SMALLINT": pa.int16(),
    "INT": pa.int32(),
    "INTEGER": pa.int32(),
    "BIGINT": pa.int64(),
}
_DECIMAL: Final = re.compile(r"(?:DECIMAL|NUMERIC)\((\d{1,3})(?:, ?(\d{1,3}))?\)")
_INTEGER_TEXT: Final = re.compile(r"0|-?[1-9][0-9]*", re.ASCII)


def cast(call: Call, operand: Column) -> Invertible | None:
    """Bind a cast to the type of the operand. None if it changes no value.

    Raises:
        PredicateError: If the cast is not supported, because it may fail or because engines differ.
    """
    if len(call.arguments) != 1 or not isinstance(call.arguments[0], str):
        refuse_argument("CAST", call.arguments, "write a type, such as TEXT, BIGINT or DATE")
    name = call.arguments[0].upper()
    type_ = operand.type
    decimal = _DECIMAL.fullmatch(name)
    if name in _TEXT:
        if pa.types.is_string(type_):
            return None
        if pa.types.is_integer(type_) or pa.types.is_boolean(type_):
            return ToText(is_boolean=pa.types.is_boolean(type_))
    elif name in _INTEGERS and pa.types.is_integer(type_):
        return _to_integers(type_, _INTEGERS[name], name)
    elif decimal is not None and arithmetic.is_exact_number(type_):
        precision, scale = int(decimal[1]), int(decimal[2] or 0)
        if not 0 < precision <= 38 or scale > precision:
            refuse_argument("CAST", name, "a decimal has up to 38 digits")
        if not pa.types.is_decimal(type_) or type_.scale <= scale:
            return _to_decimals(type_, pa.decimal128(precision, scale), name)
    elif name in ("DOUBLE", "DOUBLE PRECISION") and arithmetic.is_exact_number(type_):
        return ToDouble()
    elif name in ("DOUBLE", "DOUBLE PRECISION") and pa.types.is_floating(type_):
        return Recast(name, pa.float64(), is_exact=True)
    elif name == "DATE" and (pa.types.is_date(type_) or pa.types.is_timestamp(type_)):
        return moments.date(operand)
    elif name == "TIMESTAMP" and pa.types.is_date(type_):
        return Recast(name, pa.timestamp("us"), is_exact=True)
    elif name == "TIMESTAMP" and pa.types.is_timestamp(type_) and type_.tz is None:
        return None
    raise PredicateError(
        f"cannot cast {operand.name!r} of type {operand.declared} to {name} in a predicate: only casts "
        "with exact results, equal in all engines, are supported; compare the column with a literal of its "
        "own type",
        reason="unsupported-cast",
        column=operand.name,
    )


@dataclass(frozen=True, slots=True)
class Recast:
    """A cast that keeps every value, or fails.

    Attributes:
        sql_type: The SQL type.
        type: The Arrow type.
        is_exact: Whether no value of the operand's type fails.
    """

    sql_type: str
    type: pa.DataType
    is_exact: bool

    @property
    def name(self) -> str:
        """The name in SQL."""
        return "CAST"

    @property
    def arguments(self) -> tuple[Any, ...]:
        """The constants in SQL."""
        return (self.sql_type,)

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
            raise no_result(f"CAST AS {self.sql_type}", error) from error

    def invert(self, condition: OnResult, operand: Column) -> Inverse:
        """Return the same condition on the operand."""
        if isinstance(condition, BoundCompare):
            value = _comparable(condition.value)
            found = compare_operand(operand, condition.op, value, or_nan=condition.or_nan)
            return Inverse(found, self.is_exact)
        assert isinstance(condition, BoundIn)
        values = [_comparable(value) for value in condition.values]
        return Inverse(operand_among(operand, values, negated=condition.negated), self.is_exact)

    def text(self, operand: str) -> str:
        """Render the function as SQL text."""
        return f"CAST({operand} AS {self.sql_type})"


@dataclass(frozen=True, slots=True)
class ToDouble:
    """A cast of integers or decimals to the nearest double."""

    @property
    def type(self) -> pa.DataType:
        """Double."""
        return pa.float64()

    @property
    def name(self) -> str:
        """The name in SQL."""
        return "CAST"

    @property
    def arguments(self) -> tuple[Any, ...]:
        """The constants in SQL."""
        return ("DOUBLE",)

    def apply(self, values: pa.Array) -> pa.Array:
        """Return the doubles."""
        return arithmetic.to_double(values)

    def invert(self, condition: OnResult, operand: Column) -> Inverse:
        """Return the condition on the operand, with a margin for rounding."""
        return arithmetic.invert_rounded(condition, operand, Fraction(1), Fraction(0))

    def text(self, operand: str) -> str:
        """Render the function as SQL text."""
        return f"CAST({operand} AS DOUBLE)"


@dataclass(frozen=True, slots=True)
class ToText:
    """The decimal digits of integers, or ``true`` and ``false``."""

    is_boolean: bool

    @property
    def type(self) -> pa.DataType:
        """Text."""
        return pa.string()

    @property
    def name(self) -> str:
        """The name in SQL."""
        return "CAST"

    @property
    def arguments(self) -> tuple[Any, ...]:
        """The constants in SQL."""
        return ("TEXT",)

    def apply(self, values: pa.Array) -> pa.Array:
        """Return the texts."""
        return values.cast(pa.string())

    def invert(self, condition: OnResult, operand: Column) -> Inverse:
        """Return the values that have one of the texts. The order of the texts is not that of the values."""
        if isinstance(condition, BoundIn):
            found, negated = self._parsed(condition.values.to_pylist()), condition.negated
        elif isinstance(condition, BoundCompare) and condition.op in ("=", "<>"):
            found, negated = self._parsed([condition.value.as_py()]), condition.op == "<>"
        else:
            return ANY_VALUE
        return Inverse(operand_among(operand, found, negated=negated), True)

    def _parsed(self, texts: Sequence[str]) -> list[Any]:
        if self.is_boolean:
            return [text == "true" for text in texts if text in ("true", "false")]
        # longer digits are not the text of any integer
        return [int(text) for text in texts if len(text) <= 20 and _INTEGER_TEXT.fullmatch(text)]

    def text(self, operand: str) -> str:
        """Render the function as SQL text."""
        return f"CAST({operand} AS TEXT)"


def _comparable(value: pa.Scalar) -> Any:
    return Fraction(value.as_py()) if pa.types.is_decimal(value.type) else plain(value)


def _to_integers(source: pa.DataType, target: pa.DataType, name: str) -> Recast:
    bits = source.bit_width + pa.types.is_unsigned_integer(source)
    return Recast(name, target, is_exact=bits <= target.bit_width)


def _to_decimals(source: pa.DataType, target: pa.DataType, name: str) -> Recast:
    precision, scale = arithmetic.digits(source)
    return Recast(name, target, is_exact=precision - scale <= target.precision - target.scale)
