"""Functions of text. Characters are Unicode code points."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Final

import pyarrow as pa
import pyarrow.compute as pc

from intarsia.predicate.bind_condition import bind_null, bind_prefix
from intarsia.predicate.bound import Bound, BoundCompare, BoundConstant, BoundIn, conjoin, disjoin
from intarsia.predicate.functions.inverse import (
    ANY_VALUE,
    Inverse,
    OnResult,
    compare_operand,
    no_result,
    refuse_argument,
    refuse_type,
)

if TYPE_CHECKING:
    from intarsia.predicate.columns import Column
    from intarsia.predicate.nodes import Call

_KERNELS: Final[dict[str, Callable[[pa.Array], pa.Array]]] = {
    "lower": pc.utf8_lower,
    "upper": pc.utf8_upper,
    "length": lambda values: pc.utf8_length(values).cast(pa.int64()),
}
_MAX_PREFIXES: Final = 32


def text_function(call: Call, operand: Column) -> TextFunction:
    """Bind ``lower``, ``upper`` or ``length``."""
    _check_text(call.function, operand)
    return TextFunction(call.function, pa.int64() if call.function == "length" else pa.string())


def substr(call: Call, operand: Column) -> Substring:
    """Bind ``substr``."""
    _check_text("substr", operand)
    numbers = call.arguments
    if not 1 <= len(numbers) <= 2 or any(type(number) is not int for number in numbers):
        refuse_argument("substr", numbers, "write a start and a length, as in substr(column, 1, 3)")
    start, length = numbers[0], numbers[1] if len(numbers) == 2 else None
    assert isinstance(start, int)
    assert length is None or isinstance(length, int)
    if not 1 <= start < 1 << 31 or (length is not None and not 0 <= length < 1 << 31):
        refuse_argument("substr", numbers, "the first character is 1, and a length is 0 or more")
    return Substring(start, length)


@dataclass(frozen=True, slots=True)
class TextFunction:
    """``lower`` and ``upper`` by Unicode's simple case mapping, and ``length`` in characters."""

    name: str
    type: pa.DataType

    @property
    def arguments(self) -> tuple[Any, ...]:
        """The constants in SQL."""
        return ()

    def apply(self, values: pa.Array) -> pa.Array:
        """Return the results.

        Raises:
            PredicateError: If a value is not valid UTF-8.
        """
        return _applied(self.name, _KERNELS[self.name], values)

    def invert(self, condition: OnResult, operand: Column) -> Inverse:  # noqa: ARG002
        """Return no restriction: the operand can have any value."""
        return ANY_VALUE

    def text(self, operand: str) -> str:
        """Render the function as SQL text."""
        return f"{self.name}({operand})"


@dataclass(frozen=True, slots=True)
class Substring:
    """``length`` characters from the character ``start``, which counts from 1; to the end if it is None."""

    start: int
    length: int | None

    @property
    def type(self) -> pa.DataType:
        """Text."""
        return pa.string()

    @property
    def name(self) -> str:
        """The name in SQL."""
        return "substr"

    @property
    def arguments(self) -> tuple[Any, ...]:
        """The constants in SQL."""
        return (self.start,) if self.length is None else (self.start, self.length)

    def apply(self, values: pa.Array) -> pa.Array:
        """Return the parts.

        Raises:
            PredicateError: If a value is not valid UTF-8.
        """
        stop = None if self.length is None else self.start - 1 + self.length
        return _applied("substr", lambda text: pc.utf8_slice_codeunits(text, self.start - 1, stop), values)

    def invert(self, condition: OnResult, operand: Column) -> Inverse:
        """Return the start of a text as a prefix."""
        if self.start != 1 or self.length is None:
            return ANY_VALUE
        if isinstance(condition, BoundCompare) and condition.op in ("=", "<>"):
            return Inverse(self._starts(operand, condition.value.as_py(), negated=condition.op == "<>"), True)
        if isinstance(condition, BoundIn) and len(condition.values) <= _MAX_PREFIXES:
            sides = [
                self._starts(operand, text, negated=condition.negated)
                for text in condition.values.to_pylist()
            ]
            return Inverse(conjoin(sides) if condition.negated else disjoin(sides), True)
        return ANY_VALUE

    def _starts(self, operand: Column, text: str, *, negated: bool) -> Bound:
        assert self.length is not None
        if len(text) > self.length:
            return bind_null(operand, negated=True) if negated else BoundConstant(False)
        if len(text) < self.length:  # the whole value
            return compare_operand(operand, "<>" if negated else "=", text)
        return bind_prefix(operand, text, negated=negated)

    def text(self, operand: str) -> str:
        """Render the function as SQL text."""
        length = "" if self.length is None else f", {self.length}"
        return f"substr({operand}, {self.start}{length})"


def _check_text(function: str, operand: Column) -> None:
    if not pa.types.is_string(operand.type):
        refuse_type(function, operand, "a column of text")


def _applied(name: str, kernel: Callable[[pa.Array], pa.Array], values: pa.Array) -> pa.Array:
    try:
        return kernel(values)
    except pa.ArrowInvalid as error:  # the text is not UTF-8, or the result exceeds 2 GiB
        raise no_result(name, error) from error
