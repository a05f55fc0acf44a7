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
from intarsia.predicate.nodes import NODE_TYPES, Call, Constant, Leaf, Predicate, fold

if TYPE_CHECKING:
    from collections.abc import Callable

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
    resolve = functools.cache(functools.partial(resolve_column, schema))
    return fold(
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
