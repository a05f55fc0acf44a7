"""Bind a predicate to a schema: resolve names, convert literals exactly, push NOT down.

``conditions`` binds each condition, ``functions`` inverts the functions of columns, and ``bound`` lists
the guarantees of the result.
"""

from __future__ import annotations

import functools
from collections.abc import Callable, Sequence
from typing import Final

import pyarrow as pa

from intarsia.arrow.nested import is_list
from intarsia.errors import PredicateError
from intarsia.predicate.bound import (
    Bound,
    BoundConstant,
    BoundFunction,
    BoundNull,
    Condition,
    Function,
    conjoin,
    disjoin,
    fold,
)
from intarsia.predicate.columns import Column, resolve_column
from intarsia.predicate.conditions import OnOperand, bind_condition
from intarsia.predicate.functions import arithmetic, casts, lists, maps, moments, refuse_argument
from intarsia.predicate.nodes import ARITHMETIC, Call, Constant, Leaf, Predicate, dotted, fold_nodes

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

    def leaf_of(leaf: Leaf, negate: bool) -> Bound:
        if isinstance(leaf, Constant):
            return BoundConstant(leaf.value is not None and leaf.value is not negate)
        if not isinstance(leaf, Predicate):
            raise PredicateError(
                f"{leaf!r} is not a predicate; write SQL text, or nodes such as ia.Comparison('a', '=', 1)",
                reason="not-a-predicate",
            )
        try:
            if isinstance(leaf.column, Call):
                return _bind_call(leaf, leaf.column, resolve, negate=negate)
            return bind_condition(leaf, resolve(leaf.column), negate=negate)
        except PredicateError as error:
            error.at(column=dotted(leaf.column))
            raise

    return fold_nodes(predicate, leaf_of, conjoin, disjoin, max_levels=MAX_NESTING)


#: The maximum number of functions around one column.
MAX_FUNCTIONS: Final = 20

#: Binds a function to the type of its operand; None if it changes no value.
_Maker = Callable[[Call, Column], Function | None]

_FUNCTIONS: Final[dict[str, _Maker]] = {
    **dict.fromkeys(ARITHMETIC, arithmetic.arithmetic),
    "abs": arithmetic.absolute,
    **dict.fromkeys(("lower", "upper", "length", "substr"), casts.text_function),
    **dict.fromkeys(("year", "quarter", "month", "day", "hour", "minute"), moments.date_part),
    "date": moments.date,
    "date_trunc": moments.date_trunc,
    "cast": casts.cast,
    "array_contains": lists.contains,
    "element_at": maps.element_at,
}

#: The nested types that functions take.
_NESTED: Final = {"array_contains": is_list, "element_at": pa.types.is_map}


def _bind_call(node: OnOperand, call: Call, resolve: Callable[..., Column], *, negate: bool) -> Bound:
    """Bind a condition on a function of a column, which may be nested."""
    calls = [call]
    while isinstance(operand := calls[-1].operand, Call):
        calls.append(operand)
        if len(calls) > MAX_FUNCTIONS:
            raise PredicateError(
                f"{len(calls)} or more functions are nested; the limit is {MAX_FUNCTIONS}",
                reason="nested-too-deeply",
            )
    operands, made = [resolve(operand, is_nested=_NESTED.get(calls[-1].function))], list[Function]()
    for each in reversed(calls):
        function = _made(each, operands[-1])
        if function is not None:
            made.append(function)
            operands.append(Column((function.text(operands[-1].name),), function.type, function.type))
    bound = bind_condition(node, operands[-1], negate=negate)
    return _on_column(bound, operands, made)


def _made(call: Call, operand: Column) -> Function | None:
    make = _FUNCTIONS.get(call.function)
    if make is None:
        raise PredicateError(
            f"unknown function {call.function!r}; use one of {', '.join(_FUNCTIONS)}",
            reason="unknown-function",
        )
    if pa.types.is_null(operand.type):
        return None
    if call.arguments and call.function in ("abs", "date"):
        refuse_argument(call.function, call.arguments, "it has no constants")
    return make(call, operand)


def _on_column(bound: Bound, operands: Sequence[Column], made: Sequence[Function]) -> Bound:
    """Return conditions on a column that are true where a condition on functions of the column is true.

    Args:
        bound: The condition, on the last of the operands.
        operands: The column, and the result of each function.
        made: The functions, in the order in which they are applied.
    """

    def leaf_of(leaf: Condition | BoundConstant) -> Bound:
        if isinstance(leaf, BoundConstant):
            return leaf
        if isinstance(leaf, BoundNull):
            return made[0].is_null(operands[0], negated=leaf.negated)
        assert not isinstance(leaf, BoundFunction)
        inverse, inner = made[-1].invert(leaf, operands[-2]), operands[-2]
        restriction = inverse.bound
        if restriction == BoundConstant(True) and len(made) > 1:  # at least, a map has the key
            restriction = BoundNull(inner.path, inner.type, negated=True)
        implied = _on_column(restriction, operands[:-1], made[:-1])
        if inverse.is_exact:
            return implied
        return conjoin([implied, BoundFunction(operands[0].path, operands[0].type, tuple(made), leaf)])

    return fold(bound, leaf_of, conjoin, disjoin) if made else bound
