"""Bind a predicate to a schema: resolve names, convert literals exactly, push NOT down.

A comparison with a literal that the column's type cannot represent is rewritten as follows, where ``floor``
is the largest value of the type below the literal:

====================  ======================
``x = 1.5``           matches nothing
``x <> 1.5``          ``x IS NOT NULL``
``x < 1.5, x <= 1.5`` ``x <= floor``
``x > 1.5, x >= 1.5`` ``x > floor``
====================  ======================

These rewrites treat NULL as FALSE. They would be wrong under a NOT, so NOT is pushed down first. ``bound``
lists the guarantees of the result.
"""

from __future__ import annotations

import functools
from typing import TYPE_CHECKING, Final

import pyarrow as pa
import pyarrow.compute as pc

from intarsia.errors import PredicateError
from intarsia.predicate.bound import (
    Bound,
    BoundCompare,
    BoundConstant,
    BoundIn,
    BoundMatch,
    BoundNull,
    BoundPrefix,
    conjoin,
    disjoin,
)
from intarsia.predicate.coercion import Place, locate
from intarsia.predicate.columns import resolve_column
from intarsia.predicate.lists import locate_list
from intarsia.predicate.literals import plain
from intarsia.predicate.nodes import (
    NODE_TYPES,
    And,
    Comparison,
    Constant,
    In,
    IsNull,
    Like,
    Not,
    Op,
    Or,
    Predicate,
    RegexpLike,
)
from intarsia.predicate.pattern import parse_pattern
from intarsia.predicate.regex import check_regex, skeleton_of
from intarsia.predicate.rendering import render_literal

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    from intarsia.predicate.columns import Column
    from intarsia.predicate.nodes import ColumnName

#: The maximum number of alternating levels of AND and OR in a predicate.
MAX_NESTING: Final = 100

_OPPOSITE: Final[dict[Op, Op]] = {"=": "<>", "<>": "=", "<": ">=", "<=": ">", ">": "<=", ">=": "<"}
_NOTHING: Final = BoundConstant(False)


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
        ColumnNotFoundError: A column does not exist. The error suggests similar names.
        PredicateError: A column cannot be compared at all or with its literal, or AND and OR are nested more
            than `MAX_NESTING` levels deep.

    Example:
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
        raise PredicateError(f"{node!r} is not a predicate", reason="not-a-predicate")
    column = resolve(node.column)
    if isinstance(node, IsNull):
        return _null(column, negated=node.negated is not negate)
    if isinstance(node, Comparison):
        return _comparison(node, column, negate=negate)
    if isinstance(node, In):
        return _in(node, column, negated=node.negated is not negate)
    if isinstance(node, RegexpLike):
        return _regexp_like(node, column, negated=node.negated is not negate)
    return _like(node, column, negated=node.negated is not negate)


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


def _null(column: Column, *, negated: bool) -> Bound:
    if pa.types.is_null(column.type):
        return BoundConstant(not negated)
    return BoundNull(column.path, column.type, negated)


def _comparison(node: Comparison, column: Column, *, negate: bool) -> Bound:
    if node.op not in _OPPOSITE:
        raise PredicateError(
            f"unknown operator {node.op!r} in {node}; use one of {', '.join(_OPPOSITE)}",
            reason="unknown-operator",
            column=column.name,
        )
    op = _OPPOSITE[node.op] if negate else node.op
    literal = plain(node.value)
    if literal is None or pa.types.is_null(column.type):
        return _NOTHING
    place = locate(column, literal)
    if place is None:  # NaN: every comparison but <> is false, so a negated one is true unless NULL
        return _null(column, negated=True) if op == "<>" or (negate and op != "=") else _NOTHING
    return _compare(column, op, place, negate=negate)


def _compare(column: Column, op: Op, place: Place, *, negate: bool) -> Bound:
    path, type_ = column.path, column.type
    if place.value is None:
        always_true = op in (("<", "<=", "<>") if place.side > 0 else (">", ">=", "<>"))
        return _null(column, negated=True) if always_true else _NOTHING
    if place.side:
        if op == "=":
            return _NOTHING
        if op == "<>":
            return _null(column, negated=True)
        below = op in ("<", "<=")
        op = ("<=" if below else ">") if place.side > 0 else ("<" if below else ">=")
    or_nan = pa.types.is_floating(type_) and (op == "<>" or (negate and op != "="))
    return BoundCompare(path, type_, op, place.value, or_nan)


def _in(node: In, column: Column, *, negated: bool) -> Bound:
    if not node.values:
        return BoundConstant(negated)
    if pa.types.is_null(column.type):
        return _NOTHING
    values, has_null = locate_list(column, node.values)
    if negated and has_null:
        return _NOTHING
    if len(values) == 0:
        return _null(column, negated=True) if negated else _NOTHING
    if len(values) == 1:
        return _compare(column, "<>" if negated else "=", Place(values[0], 0), negate=False)
    return BoundIn(column.path, column.type, values, negated)


def _like(node: Like, column: Column, *, negated: bool) -> Bound:
    if pa.types.is_null(column.type):
        return _NOTHING
    _require_string(column, "LIKE")
    pattern = parse_pattern(node)
    for part in pattern.parts:
        if isinstance(part, str):
            locate(column, part)  # raises if the text has no UTF-8 form
    skeleton = pattern.skeleton(ignore_case=node.ignore_case)
    ignore_case = skeleton.ignores_case
    if pattern.literal is not None and not ignore_case:
        place = locate(column, pattern.literal)
        assert place is not None
        return _compare(column, "<>" if negated else "=", place, negate=False)
    if pattern.is_prefix and not ignore_case:
        return _prefix(column, pattern.prefix, negated=negated)
    condition = f"{'ILIKE' if ignore_case else 'LIKE'} {render_literal(str(pattern))}"
    regex = pattern.regex(ignore_case=ignore_case)
    try:
        pc.match_substring_regex(pa.array([""]), regex)
    except pa.ArrowInvalid:  # RE2 limits the size of the compiled program
        raise PredicateError(
            f"the pattern {node.pattern[:60]!r}… is too large for RE2; split it into several conditions "
            "joined by AND",
            reason="pattern-too-large",
            column=column.name,
        ) from None
    return BoundMatch(column.path, column.type, condition, regex, skeleton, negated)


def _regexp_like(node: RegexpLike, column: Column, *, negated: bool) -> Bound:
    if pa.types.is_null(column.type):
        return _NOTHING
    _require_string(column, "a regular expression")
    locate(column, node.regex)  # raises if the text has no UTF-8 form
    check_regex(node)
    skeleton = skeleton_of(node.regex, ignore_case=node.ignore_case)
    if skeleton.is_prefix:
        return _prefix(column, skeleton.prefix, negated=negated)
    regex = f"(?i){node.regex}" if node.ignore_case else node.regex
    return BoundMatch(column.path, column.type, f"RLIKE {render_literal(regex)}", regex, skeleton, negated)


def _prefix(column: Column, prefix: str, *, negated: bool) -> Bound:
    if not prefix:
        return _NOTHING if negated else _null(column, negated=True)
    return BoundPrefix(column.path, column.type, prefix.encode(), negated)


def _require_string(column: Column, operation: str) -> None:
    if not pa.types.is_string(column.type):
        raise PredicateError(
            f"{operation} needs a string column; {column.name!r} is of type {column.declared}",
            reason="not-a-string-column",
            column=column.name,
        )
