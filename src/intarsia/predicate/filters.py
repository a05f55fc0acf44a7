"""pyarrow's ``filters`` form -> predicate nodes, and the one door for every form a predicate may come in."""

from __future__ import annotations

import math
from collections.abc import Iterable, Sequence
from typing import Any, Final, TypeAlias, cast

import pyarrow as pa
import pyarrow.compute as pc

from intarsia.errors import PredicateError
from intarsia.predicate.nodes import (
    NODE_TYPES,
    And,
    ColumnName,
    Comparison,
    Constant,
    In,
    IsNull,
    Op,
    Or,
    Predicate,
)
from intarsia.predicate.sql import parse_sql

Filter: TypeAlias = tuple[ColumnName, str, object]
"""``(column, op, value)``."""

Filters: TypeAlias = Sequence[Filter] | Sequence[Sequence[Filter]]
"""A conjunction of filters, or a disjunction of conjunctions."""

Where: TypeAlias = str | Predicate | Filters | None
"""Every form in which a predicate is taken."""

_OPS: Final[dict[str, Op]] = {"=": "=", "==": "=", "!=": "<>", "<": "<", ">": ">", "<=": "<=", ">=": ">="}


def parse_predicate(where: Where) -> Predicate | None:
    """Reads a predicate in whatever form it comes.

    Args:
        where: SQL text, pyarrow's ``filters``, a node, or ``None`` for every row.

    Returns:
        The predicate; ``None`` for ``None`` and for an empty list of filters.

    Raises:
        PredicateError: It is none of these, or says something that is not supported.

    Example:
        >>> parse_predicate("a = 1") == parse_predicate([("a", "=", 1)])
        True
    """
    if where is None:
        return None
    if isinstance(where, str):
        return parse_sql(where)
    if isinstance(where, NODE_TYPES):
        return where
    if isinstance(where, pc.Expression):
        raise PredicateError(
            "pyarrow expressions cannot be taken apart reliably; write the predicate as SQL text, such as "
            "\"a = 1 AND b IN ('x', 'y')\", or as filters, such as [('a', '=', 1)]"
        )
    if isinstance(where, Sequence):
        return parse_filters(cast("Filters", where)) if len(where) else None
    raise PredicateError(
        f"a predicate is SQL text, a list of (column, op, value) or a node, not {type(where).__name__}"
    )


def parse_filters(filters: Filters) -> Predicate:
    """Reads the ``filters`` of ``pyarrow.parquet.read_table``, with its meaning.

    ``[a, b]`` is a AND b; ``[[a, b], [c]]`` is (a AND b) OR c. Where lists meet NULL, pyarrow differs from
    SQL, and here it is followed: ``in`` matches NULL rows if the list holds ``None``, ``not in`` if it does
    not.

    Raises:
        PredicateError: The shape or an operator is not one of pyarrow's, or NaN is in a list.

    Example:
        >>> str(parse_filters([("a", ">=", 3), ("b", "not in", ["x"])]))
        "a >= 3 AND (b NOT IN ('x') OR b IS NULL)"
    """
    if not _is_list(filters):
        raise _shape(filters)
    if _is_filter(filters[0]):
        return _conjunction(filters)
    disjuncts = [_conjunction(group) for group in filters]
    return disjuncts[0] if len(disjuncts) == 1 else Or(tuple(disjuncts))


def _is_filter(item: object) -> bool:
    return isinstance(item, tuple) and len(item) == 3 and isinstance(item[1], str)


def _is_list(item: object) -> bool:
    return isinstance(item, Sequence) and not isinstance(item, (str, bytes)) and len(item) > 0


def _conjunction(group: Any) -> Predicate:
    if not _is_list(group):
        raise _shape(group)
    terms = tuple(_filter(item) for item in group)
    return terms[0] if len(terms) == 1 else And(terms)


def _filter(item: object) -> Predicate:
    if not isinstance(item, tuple) or len(item) != 3:
        raise _shape(item)
    column, op, value = item
    if not isinstance(column, str) and not (
        isinstance(column, tuple) and all(isinstance(p, str) for p in column)
    ):
        raise _shape(item)
    if op in _OPS:
        return Comparison(column, _OPS[op], value)
    if op in ("in", "not in"):
        return _membership(column, value, negated=op == "not in")
    raise PredicateError(
        f"unknown operator {op!r} in the filter {item!r}; there are {', '.join(_OPS)}, in, not in"
    )


def _membership(column: ColumnName, value: object, *, negated: bool) -> Predicate:
    if isinstance(value, (str, bytes)) or not isinstance(value, Iterable):
        raise PredicateError(
            f"{'not in' if negated else 'in'} needs a list of values for {column!r}, not {value!r}"
        )
    values = tuple(value)
    kinds = set(map(type, values))  # most lists are long, and of one kind that needs no look at each value
    if any(issubclass(data_type, float) for data_type in kinds) and any(map(_is_nan, values)):
        raise PredicateError(f"NaN is in the list for {column!r}; it equals nothing, so no list can hold it")
    present = values
    if any(issubclass(data_type, (type(None), pa.Scalar)) for data_type in kinds):
        present = tuple(item for item in values if not _is_null(item))
    has_null = len(present) < len(values)
    among: Predicate = In(column, present, negated) if present else Constant(negated)
    if has_null and negated:
        return And((among, IsNull(column, negated=True))) if present else IsNull(column, negated=True)
    if has_null is not negated:
        return Or((among, IsNull(column))) if present else (IsNull(column) if has_null else among)
    return among


def _is_nan(item: object) -> bool:
    return isinstance(item, float) and math.isnan(item)


def _is_null(item: object) -> bool:
    return item is None or (isinstance(item, pa.Scalar) and not item.is_valid)


def _shape(item: object) -> PredicateError:
    return PredicateError(
        f"{item!r} is not a filter; write [('column', '=', value), …] for AND, or a list of such lists for OR"
    )
