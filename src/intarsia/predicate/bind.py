"""Bind a predicate to a schema: resolve names, convert literals exactly, push NOT down.

``bind_condition`` binds each condition, ``functions`` binds the functions of columns, and ``bound`` lists the
guarantees of the result.
"""

from __future__ import annotations

import functools
from typing import TYPE_CHECKING, Final

from intarsia.errors import PredicateError
from intarsia.predicate.bind_condition import bind_condition
from intarsia.predicate.bound import Bound, BoundConstant, conjoin, disjoin
from intarsia.predicate.columns import resolve_column
from intarsia.predicate.functions import bind_call
from intarsia.predicate.nodes import NODE_TYPES, And, Call, Constant, Not, Or, Predicate

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    import pyarrow as pa

    from intarsia.predicate.columns import Column
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
    return _bind(predicate, functools.cache(functools.partial(resolve_column, schema)), negate=False, depth=0)


def _bind(node: Predicate, resolve: Callable[[ColumnName], Column], *, negate: bool, depth: int) -> Bound:
    while isinstance(node, Not):
        node, negate = node.child, not negate
    if isinstance(node, (And, Or)):
        if depth == MAX_NESTING:
            raise PredicateError(
                f"the predicate is nested too deeply; the limit is {MAX_NESTING} levels of AND and OR",
                reason="nested-too-deeply",
            )
        children = [
            _bind(child, resolve, negate=negated, depth=depth + 1)
            for child, negated in _operands(node, negate=negate)
        ]
        return conjoin(children) if isinstance(node, And) is not negate else disjoin(children)
    if isinstance(node, Constant):
        return BoundConstant(node.value is not None and node.value is not negate)
    if not isinstance(node, NODE_TYPES):
        raise PredicateError(
            f"{node!r} is not a predicate; write SQL text, or nodes such as ia.Comparison('a', '=', 1)",
            reason="not-a-predicate",
        )
    if isinstance(node.column, Call):
        return bind_call(node, node.column, resolve, negate=negate)
    return bind_condition(node, resolve(node.column), negate=negate)


def _operands(node: Predicate, *, negate: bool) -> Iterator[tuple[Predicate, bool]]:
    """Yield the operands of a AND (b AND (c AND …)), each with whether it is negated, without recursion."""
    is_and = isinstance(node, And) is not negate
    pending = [(node, negate)]
    while pending:
        current, negated = pending.pop()
        while isinstance(current, Not):
            current, negated = current.child, not negated
        if isinstance(current, (And, Or)) and (isinstance(current, And) is not negated) is is_and:
            pending += [(child, negated) for child in reversed(current.children)]
        else:
            yield current, negated
