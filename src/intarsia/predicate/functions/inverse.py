"""The protocol of functions, and the conditions on an operand that a condition on its result implies."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final, NamedTuple, NoReturn, Protocol

import pyarrow as pa

from intarsia.errors import PredicateError
from intarsia.predicate.bind_condition import bind_in, bind_located, bind_null
from intarsia.predicate.bound import (
    Bound,
    BoundCompare,
    BoundConstant,
    BoundIn,
    BoundMatch,
    BoundPrefix,
    Function,
)
from intarsia.predicate.coercion import locate
from intarsia.predicate.nodes import In, Op

if TYPE_CHECKING:
    from collections.abc import Sequence

    from intarsia.predicate.columns import Column

OnResult = BoundCompare | BoundIn | BoundPrefix | BoundMatch
"""A condition on the result of a function. It is not on NULL, because only NULL has the result NULL."""


class Inverse(NamedTuple):
    """The conditions on the operand of a function that a condition on its result implies.

    Attributes:
        bound: The conditions: true for each value for which the condition on the result is true.
        is_exact: Whether they are true for no other value.
    """

    bound: Bound
    is_exact: bool


#: The operand can have any value.
ANY_VALUE: Final = Inverse(BoundConstant(True), False)


class Invertible(Function, Protocol):
    """A function that was bound to the type of its operand."""

    @property
    def type(self) -> pa.DataType:
        """The type in which the result is compared."""
        ...

    def invert(self, condition: OnResult, operand: Column) -> Inverse:
        """Return the conditions on the operand that a condition on the result implies."""
        ...


def compare_operand(operand: Column, op: Op, literal: object, *, or_nan: bool = False) -> Bound:
    """Compare an operand with a literal that its type may not represent.

    Args:
        operand: The operand.
        op: The operator.
        literal: A number, a `Fraction`, or a `Temporal`. Not NaN.
        or_nan: Whether NaN matches, too.
    """
    located = locate(operand, literal)
    assert located is not None
    return bind_located(operand, op, located, negate=or_nan)


def operand_among(operand: Column, literals: Sequence[object], *, negated: bool) -> Bound:
    """Return the condition that an operand is, or is not, in a list. The list may be empty."""
    if not literals:
        return bind_null(operand, negated=True) if negated else BoundConstant(False)
    return bind_in(In("", tuple(literals)), operand, negated=negated)


def refuse_type(function: str, operand: Column, needs: str) -> NoReturn:
    """Raise the error for a function that the type of its operand does not have."""
    raise PredicateError(
        f"{function} needs {needs}; {operand.name!r} is of type {operand.declared}",
        reason="function-type",
        column=operand.name,
    )


def refuse_argument(function: str, argument: object, needs: str) -> NoReturn:
    """Raise the error for a constant, or a tuple of constants, that a function does not accept."""
    shown = ", ".join(map(repr, argument if isinstance(argument, tuple) else (argument,)))
    raise PredicateError(f"{function} does not accept ({shown:.80}); {needs}", reason="invalid-argument")


def no_result(function: str, problem: object) -> PredicateError:
    """Return the error for a value that has no result in the type of a function."""
    return PredicateError(f"{function} has no result for a value: {problem}", reason="function-failed")
