"""Bind one condition to its column.

A comparison with a literal that the column's type cannot represent is rewritten as follows, where ``floor``
is the largest value of the type below the literal:

====================  ======================
``x = 1.5``           matches nothing
``x <> 1.5``          ``x IS NOT NULL``
``x < 1.5, x <= 1.5`` ``x <= floor``
``x > 1.5, x >= 1.5`` ``x > floor``
====================  ======================

These rewrites treat NULL as FALSE. They would be wrong under a NOT, so `bind` pushes NOT down first.
"""

from __future__ import annotations

from typing import Final, TypeAlias

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
)
from intarsia.predicate.coercion import LocatedLiteral, locate, locate_list
from intarsia.predicate.columns import Column
from intarsia.predicate.literals import plain, render_literal
from intarsia.predicate.nodes import OPPOSITE, Comparison, In, IsNull, Like, Op, RegexpLike

#: No row matches.
NOTHING: Final = BoundConstant(False)

OnOperand: TypeAlias = Comparison | In | IsNull | Like | RegexpLike
"""A condition on a column or on a function of one."""


def bind_condition(node: OnOperand, column: Column, *, negate: bool) -> Bound:
    """Bind a condition to its column.

    Args:
        node: The condition. Its own column is not used.
        negate: Whether the result is the rows for which the condition is FALSE.

    Raises:
        PredicateError: If the column cannot be compared at all, or with the literals of the condition.
    """
    if not isinstance(node, Comparison):
        negated = node.negated is not negate
        if isinstance(node, IsNull):
            return bind_null(column, negated=negated)
        if isinstance(node, In):
            return bind_in(node, column, negated=negated)
        if pa.types.is_null(column.type):
            return NOTHING
        if isinstance(node, Like):
            return _bind_like(node, column, negated)
        return _bind_regexp_like(node, column, negated)
    if node.op not in OPPOSITE:
        raise PredicateError(
            f"unknown operator {node.op!r} in {node}; use one of {', '.join(OPPOSITE)}",
            reason="unknown-operator",
        )
    op = OPPOSITE[node.op] if negate else node.op
    literal = plain(node.value)
    if literal is None or pa.types.is_null(column.type):
        return NOTHING
    located = locate(column, literal)
    if located is None:  # NaN: every comparison but <> is false, so a negated one is true unless NULL
        return bind_null(column, negated=True) if op == "<>" or (negate and op != "=") else NOTHING
    return bind_located(column, op, located, negate=negate)


def bind_null(column: Column, *, negated: bool) -> Bound:
    """Return the condition that a column is null, or that it is not null."""
    if pa.types.is_null(column.type):
        return BoundConstant(not negated)
    return BoundNull(column.path, column.type, negated)


def bind_located(column: Column, op: Op, located: LocatedLiteral, *, negate: bool) -> Bound:
    """Compare a column with a located literal.

    Args:
        op: The operator, after negation.
        located: The position of the literal among the values of the column's type.
        negate: Whether the condition was negated, so that NaN matches.
    """
    path, type_ = column.path, column.type
    if located.value is None:
        always_true = op in (("<", "<=", "<>") if located.side > 0 else (">", ">=", "<>"))
        return bind_null(column, negated=True) if always_true else NOTHING
    if located.side:
        if op == "=":
            return NOTHING
        if op == "<>":
            return bind_null(column, negated=True)
        below = op in ("<", "<=")
        op = ("<=" if below else ">") if located.side > 0 else ("<" if below else ">=")
    or_nan = pa.types.is_floating(type_) and (op == "<>" or (negate and op != "="))
    return BoundCompare(path, type_, op, located.value, or_nan)


def bind_in(node: In, column: Column, *, negated: bool) -> Bound:
    """Bind a list of literals to its column."""
    if not node.values:
        return BoundConstant(negated)
    if pa.types.is_null(column.type):
        return NOTHING
    values, has_null = locate_list(column, node.values)
    if negated and has_null:
        return NOTHING
    if len(values) == 0:
        return bind_null(column, negated=True) if negated else NOTHING
    if len(values) == 1:
        return bind_located(column, "<>" if negated else "=", LocatedLiteral(values[0], 0), negate=False)
    return BoundIn(column.path, column.type, values, negated)


def _bind_like(node: Like, column: Column, negated: bool) -> Bound:
    """Bind a LIKE to its column: as ``=``, as a prefix, or as a pattern."""
    from intarsia.predicate.pattern import parse_pattern, skeleton_of  # its expressions take 10 ms to compile

    _require_string(column, "LIKE")
    pattern = parse_pattern(node)
    for part in pattern.parts:
        if isinstance(part, str):
            locate(column, part)  # raises if the text has no UTF-8 form
    regex = pattern.regex(ignore_case=node.ignore_case)
    skeleton = skeleton_of(regex)
    ignore_case = skeleton.ignores_case
    if pattern.literal is not None and not ignore_case:
        return bind_in(In("", (pattern.literal,)), column, negated=negated)
    if skeleton.is_prefix and not ignore_case:
        return bind_prefix(column, skeleton.prefix, negated=negated)
    condition = f"{'ILIKE' if ignore_case else 'LIKE'} {render_literal(str(pattern))}"
    try:
        pc.match_substring_regex(pa.array([""]), regex)
    except pa.ArrowInvalid:  # RE2 limits the size of the compiled program
        raise PredicateError(
            f"the pattern {node.pattern[:60]!r}… is too large for RE2; split it into several conditions "
            "joined by AND",
            reason="pattern-too-large",
        ) from None
    return BoundMatch(column.path, column.type, condition, regex, skeleton, negated)


def _bind_regexp_like(node: RegexpLike, column: Column, negated: bool) -> Bound:
    """Bind a regular expression to its column: as a prefix, or as a pattern."""
    from intarsia.predicate.pattern import check_regex, skeleton_of

    _require_string(column, "a regular expression")
    locate(column, node.regex)  # raises if the text has no UTF-8 form
    check_regex(node)
    skeleton = skeleton_of(node.regex, ignore_case=node.ignore_case)
    if skeleton.is_prefix:
        return bind_prefix(column, skeleton.prefix, negated=negated)
    regex = f"(?i){node.regex}" if node.ignore_case else node.regex
    return BoundMatch(column.path, column.type, f"RLIKE {render_literal(regex)}", regex, skeleton, negated)


def bind_prefix(column: Column, prefix: str, *, negated: bool) -> Bound:
    """Return the condition that a string starts with a prefix, or that it does not."""
    if not prefix:
        return NOTHING if negated else bind_null(column, negated=True)
    return BoundPrefix(column.path, column.type, prefix.encode(), negated)


def _require_string(column: Column, operation: str) -> None:
    if not pa.types.is_string(column.type):
        raise PredicateError(
            f"{operation} needs a string column; {column.name!r} is of type {column.declared}",
            reason="not-a-string-column",
        )
