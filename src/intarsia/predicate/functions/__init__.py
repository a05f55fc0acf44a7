"""Functions of columns in conditions: their values, and what a condition implies for the column.

A function restricts its operand exactly, partly, or not at all. The engine reads only the rows that match the
restriction, and evaluates the function on these rows if the restriction is not exact.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, NoReturn

from intarsia.errors import PredicateError
from intarsia.predicate.bound import Bound, BoundCompare, BoundConstant, BoundIn, OnResult
from intarsia.predicate.coercion import locate
from intarsia.predicate.conditions import bind_in, bind_located, bind_null
from intarsia.predicate.literals import render_literal
from intarsia.predicate.nodes import MIRRORED, In, Op

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    import pyarrow as pa

    from intarsia.predicate.columns import Column


def listed(condition: OnResult) -> tuple[list[Any], bool] | None:
    """Return the values of IN or ``=`` as scalars, and whether it is negated; None for other conditions."""
    if isinstance(condition, BoundIn):
        return list(condition.values), condition.negated
    if isinstance(condition, BoundCompare) and condition.op in ("=", "<>"):
        return [condition.value], condition.op == "<>"
    return None


def compare_operand(operand: Column, op: Op, literal: object, *, or_nan: bool = False) -> Bound:
    """Compare an operand with a literal that its type may not represent.

    Args:
        literal: A number, a `Fraction`, or a `Temporal`. Not NaN.
        or_nan: Whether NaN matches as well.
    """
    located = locate(operand, literal)
    assert located is not None
    return bind_located(operand, op, located, negate=or_nan)


def solve(
    condition: OnResult, operand: Column, value_of: Callable[[pa.Scalar], Any], *, mirror: bool = False
) -> Bound:
    """Return a comparison or a list of results as that of the operand.

    Args:
        value_of: Returns the value of the operand that has a result.
        mirror: Whether larger operands have smaller results.
    """
    tests = listed(condition)
    if tests is not None:
        return operand_among(operand, [*map(value_of, tests[0])], negated=tests[1])
    assert isinstance(condition, BoundCompare)
    op = MIRRORED[condition.op] if mirror else condition.op
    return compare_operand(operand, op, value_of(condition.value), or_nan=condition.or_nan)


def operand_among(operand: Column, literals: Sequence[object], *, negated: bool) -> Bound:
    """Return the condition that an operand is, or is not, in a list. The list may be empty."""
    if not literals:
        return bind_null(operand, negated=True) if negated else BoundConstant(False)
    return bind_in(In("", tuple(literals)), operand, negated=negated)


def refuse_type(function: str, operand: Column, needs: str) -> NoReturn:
    """Raise the error for a function that the type of its operand does not have."""
    raise PredicateError(
        f"{function} needs {needs}; {operand.name!r} is of type {operand.declared}", reason="function-type"
    )


def refuse_argument(function: str, argument: object, needs: str) -> NoReturn:
    """Raise the error for a constant, or a tuple of constants, that a function does not accept."""
    shown = ", ".join(map(render_literal, argument if isinstance(argument, tuple) else (argument,)))
    raise PredicateError(f"{function} does not accept ({shown:.80}); {needs}", reason="invalid-argument")


def no_result(function: str, problem: object) -> PredicateError:
    """Return the error for a value that has no result in the type of a function."""
    return PredicateError(f"{function} has no result for a value: {problem}", reason="function-failed")
