"""Functions of text. Characters are Unicode code points."""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, Final

import pyarrow as pa
import pyarrow.compute as pc

from intarsia.predicate.bind_condition import bind_null, bind_prefix
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
from intarsia.predicate.functions import compare_operand, listed, no_result, refuse_argument, refuse_type

if TYPE_CHECKING:
    from intarsia.predicate.columns import Column
    from intarsia.predicate.nodes import Call

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
