"""Bind a predicate to a schema: resolve names, convert literals exactly, push NOT down.

``bind_condition`` binds each condition, ``functions`` inverts the functions of columns, and ``bound`` lists
the guarantees of the result.
"""

from __future__ import annotations

import functools
from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, Final

import pyarrow as pa

from intarsia.errors import PredicateError
from intarsia.predicate.bind_condition import bind_condition, bind_null
from intarsia.predicate.bound import (
    Bound,
    BoundConstant,
    BoundFunction,
    BoundNull,
    Condition,
    conjoin,
    disjoin,
    fold,
)
from intarsia.predicate.columns import Column, resolve_column
from intarsia.predicate.functions import arithmetic, casts, moments, text
from intarsia.predicate.functions.inverse import Invertible, refuse_argument
from intarsia.predicate.nodes import (
    ARITHMETIC,
    NODE_TYPES,
    Call,
    Comparison,
    Constant,
    In,
    IsNull,
    Leaf,
    Like,
    Predicate,
    RegexpLike,
    dotted,
    fold_nodes,
)

if TYPE_CHECKING:
    from intarsia.predicate.nodes import ColumnName


#: The maximum number of alternating levels of AND and OR in a predicate.
MAX_NESTING: Final = 100


def bind(predicate: Predicate, schema: pa.Schema) -> Bound:
    """Resolve a predicate against a schema.

    Literals are compared exactly. They are never rounded, wrapped or cast silently. Text is parsed as a
    date, time, timestamp, decimal or UUID if the column has such a type. Numbers do not compare with text or
    with booleans. A timestamp literal without a zone is in UTC if the column has a zone. A date literal is
    midnight of that day. For float columns, a literal with a decimal point is the nearest double, and the
    column's values are widened to double, as in pyarrow (so a float32 value never equals 0.1). NaN compares
    as in Arrow.

    Args:
        predicate: The predicate as written.
        schema: The schema of the rows that the predicate selects from.

    Raises:
        ColumnNotFoundError: If a column does not exist. The error suggests similar names.
        PredicateError: If a column cannot be compared at all or with its literal, or AND and OR are nested
            more than `MAX_NESTING` levels deep.

    Example:
        >>> import pyarrow as pa
        >>> from intarsia.predicate import parse_sql
        >>> schema = pa.schema({"n": pa.int8(), "s": pa.string()})
        >>> str(bind(parse_sql("NOT (n < 1.5 OR s LIKE 'ab%')"), schema))
        "n > 1 AND s NOT LIKE 'ab%'"
        >>> bind(parse_sql("n = 300"), schema)
        BoundConstant(value=False)
    """
    # looking up a name in a schema is linear in the number of fields, so the results are cached
    resolve = functools.cache(functools.partial(resolve_column, schema))
    return fold_nodes(
        predicate,
        lambda leaf, negated: _bind(leaf, resolve, negate=negated),
        conjoin,
        disjoin,
        max_levels=MAX_NESTING,
    )


def _bind(leaf: Leaf, resolve: Callable[[ColumnName], Column], *, negate: bool) -> Bound:
    if isinstance(leaf, Constant):
        return BoundConstant(leaf.value is not None and leaf.value is not negate)
    if not isinstance(leaf, NODE_TYPES):
        raise PredicateError(
            f"{leaf!r} is not a predicate; write SQL text, or nodes such as ia.Comparison('a', '=', 1)",
            reason="not-a-predicate",
        )
    if isinstance(leaf.column, Call):
        return bind_call(leaf, leaf.column, resolve, negate=negate)
    return bind_condition(leaf, resolve(leaf.column), negate=negate)


#: The maximum number of functions around one column.
MAX_FUNCTIONS: Final = 20

#: Returns a function that was bound to the type of its operand; None if it changes no value.
_Maker = Callable[[Call, Column], Invertible | None]


def _without_arguments(make: Callable[[Column], Invertible | None]) -> _Maker:
    def checked(call: Call, operand: Column) -> Invertible | None:
        if call.arguments:
            refuse_argument(call.function, call.arguments, "it has no constants")
        return make(operand)

    return checked


_FUNCTIONS: Final[dict[str, _Maker]] = {
    **dict.fromkeys(ARITHMETIC, arithmetic.arithmetic),
    "abs": _without_arguments(arithmetic.absolute),
    **dict.fromkeys(("lower", "upper", "length"), text.text_function),
    "substr": text.substr,
    **dict.fromkeys(("year", "quarter", "month", "day", "hour", "minute"), moments.date_part),
    "date": _without_arguments(moments.date),
    "date_trunc": moments.date_trunc,
    "cast": casts.cast,
}


def bind_call(
    node: Comparison | In | IsNull | Like | RegexpLike,
    call: Call,
    resolve: Callable[[ColumnName], Column],
    *,
    negate: bool,
) -> Bound:
    """Bind a condition on a function of a column.

    Args:
        node: The condition.
        call: The function, which may be applied to the result of another one.
        resolve: Returns the column of a name.
        negate: Whether the result is the rows for which the condition is FALSE.

    Raises:
        ColumnNotFoundError: If the column does not exist.
        PredicateError: If a function is unknown, does not accept the type of its operand or its constants, or
            the literal cannot be compared with its result.
    """
    calls = [call]
    while isinstance(operand := calls[-1].operand, Call):
        calls.append(operand)
        if len(calls) > MAX_FUNCTIONS:
            raise PredicateError(
                f"{len(calls)} or more functions are nested; the limit is {MAX_FUNCTIONS}",
                reason="nested-too-deeply",
                column=dotted(operand),
            )
    column = resolve(operand)
    operands, functions = [column], []
    try:
        for each in reversed(calls):
            made = _make(each, operands[-1])
            if made is not None:
                functions.append(made)
                operands.append(Column((made.text(operands[-1].name),), made.type, made.type))
        bound = bind_condition(node, operands[-1], negate=negate)
    except PredicateError as error:
        raise PredicateError(str(error), reason=error.reason, column=column.name) from None
    return _on_column(bound, operands, functions)


def _make(call: Call, operand: Column) -> Invertible | None:
    make = _FUNCTIONS.get(call.function)
    if make is None:
        raise PredicateError(
            f"unknown function {call.function!r}; use one of {', '.join(_FUNCTIONS)}",
            reason="unknown-function",
        )
    return None if pa.types.is_null(operand.type) else make(call, operand)


def _on_column(bound: Bound, operands: Sequence[Column], functions: Sequence[Invertible]) -> Bound:
    """Return conditions on a column that are true where a condition on functions of the column is true.

    Args:
        bound: The condition, on the last of the operands.
        operands: The column, and the result of each function.
        functions: The functions, in the order in which they are applied.
    """
    if not functions:
        return bound
    return fold(bound, lambda leaf: _leaf_on_column(leaf, operands, functions), conjoin, disjoin)


def _leaf_on_column(
    bound: Condition | BoundConstant, operands: Sequence[Column], functions: Sequence[Invertible]
) -> Bound:
    if isinstance(bound, BoundConstant):
        return bound
    if isinstance(bound, BoundNull):
        return bind_null(operands[0], negated=bound.negated)
    assert not isinstance(bound, BoundFunction)
    inverse = functions[-1].invert(bound, operands[-2])
    implied = _on_column(inverse.bound, operands[:-1], functions[:-1])
    if inverse.is_exact:
        return implied
    column = operands[0]
    return conjoin([implied, BoundFunction(column.path, column.type, tuple(functions), bound)])
