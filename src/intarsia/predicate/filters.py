"""Parse pyarrow ``filters`` into predicate nodes, and dispatch on the form of a predicate."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable, Sequence
from typing import TYPE_CHECKING, Any, Final, TypeAlias, cast

import pyarrow as pa
import pyarrow.compute as pc

from intarsia.errors import PredicateError
from intarsia.predicate.expressions import parse_expression
from intarsia.predicate.nodes import (
    And,
    ColumnName,
    Comparison,
    Constant,
    In,
    IsNull,
    Op,
    Or,
    Predicate,
    dotted,
)
from intarsia.predicate.sql import parse_template
from intarsia.predicate.sql_literals import Parameters

if TYPE_CHECKING:
    import polars as pl

Filter: TypeAlias = tuple[ColumnName, str, object]
"""``(column, op, value)``."""

Filters: TypeAlias = Sequence[Filter] | Sequence[Sequence[Filter]]
"""A conjunction of filters, or a disjunction of conjunctions."""

Where: TypeAlias = "str | Predicate | Filters | pc.Expression | pl.Expr | None"
"""Every accepted form of a predicate."""

_OPS: Final[dict[str, Op]] = {"=": "=", "==": "=", "!=": "<>", "<": "<", ">": ">", "<=": "<=", ">=": ">="}


def parse_predicate(
    where: Where, schema: Callable[[], pa.Schema] | None = None, parameters: Parameters | None = None
) -> Predicate | None:
    """Parse a predicate in any accepted form.

    Args:
        where: SQL text, pyarrow's ``filters``, a pyarrow expression, a Polars expression, a node, or ``None``
            for every row.
        schema: Returns the schema of the rows, which only Polars expressions need.
        parameters: The values of the parameters in SQL text; see `parse_sql`.

    Returns:
        The predicate; ``None`` for ``None`` and for an empty list of filters.

    Raises:
        PredicateError: If ``where`` has another form, is not supported, or has other parameters.

    Example:
        >>> parse_predicate("a = 1") == parse_predicate([("a", "=", 1)])
        True
        >>> parse_predicate("a = 1") == parse_predicate(pc.field("a") == 1)
        True
    """
    if isinstance(where, str):
        return parse_template(where).bind(parameters)
    if parameters is not None:
        raise PredicateError(
            "parameters need SQL text with ? or :name; put the values into the other forms of a predicate",
            reason="parameters-without-text",
        )
    if where is None:
        return None
    if isinstance(where, Predicate):
        return where
    if isinstance(where, pc.Expression):
        return parse_expression(where)
    if isinstance(where, Sequence):
        return parse_filters(cast("Filters", where)) if len(where) else None
    if schema is not None and type(where).__module__.partition(".")[0] == "polars":
        from intarsia.predicate.polars_expressions import parse_polars

        return parse_polars(where, schema())
    raise PredicateError(
        "a predicate must be SQL text, a list of (column, op, value), a pyarrow or Polars expression, or a "
        "node, not "
        f"{type(where).__name__}",
        reason="not-a-predicate",
    )


def parse_filters(filters: Filters) -> Predicate:
    """Parse ``filters`` as ``pyarrow.parquet.read_table`` does.

    ``[a, b]`` is a AND b. ``[[a, b], [c]]`` is (a AND b) OR c. Lists treat NULL as pyarrow does, not as SQL
    does: ``in`` matches NULL rows if the list contains ``None``, and ``not in`` matches them if it does not.

    Raises:
        PredicateError: If the shape or an operator is not valid in pyarrow, or a list contains NaN.

    Example:
        >>> str(parse_filters([("a", ">=", 3), ("b", "not in", ["x"])]))
        "a >= 3 AND (b NOT IN ('x') OR b IS NULL)"
    """
    if not _is_list(filters):
        raise _not_a_filter(filters)
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
        raise _not_a_filter(group)
    terms = tuple(_filter(item) for item in group)
    return terms[0] if len(terms) == 1 else And(terms)


def _filter(item: object) -> Predicate:
    if not isinstance(item, tuple) or len(item) != 3:
        raise _not_a_filter(item)
    column, op, value = item
    if not isinstance(column, str) and not (
        isinstance(column, tuple) and all(isinstance(p, str) for p in column)
    ):
        raise _not_a_filter(item)
    if op in _OPS:
        return Comparison(column, _OPS[op], value)
    if op in ("in", "not in"):
        return _membership(column, value, negated=op == "not in")
    raise PredicateError(
        f"unknown operator {op!r} in the filter {item!r}; use one of {', '.join(_OPS)}, in, not in",
        reason="unknown-operator",
        column=dotted(column),
    )


def _membership(column: ColumnName, value: object, *, negated: bool) -> Predicate:
    if isinstance(value, (str, bytes)) or not isinstance(value, Iterable):
        raise PredicateError(
            f"{'not in' if negated else 'in'} needs a list of values for {column!r}, not {value!r}",
            reason="not-a-list",
            column=dotted(column),
        )
    values = tuple(value)
    python_types = set(map(type, values))  # a long list of one type need not be checked value by value
    if any(issubclass(python_type, float) for python_type in python_types) and any(map(_is_nan, values)):
        raise PredicateError(
            f"the list for {column!r} contains NaN, which equals nothing; remove it",
            reason="nan-in-list",
            column=dotted(column),
        )
    present = values
    if any(issubclass(python_type, (type(None), pa.Scalar)) for python_type in python_types):
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


def _not_a_filter(item: object) -> PredicateError:
    return PredicateError(
        f"{item!r} is not a filter; write [('column', '=', value), …] for AND, or a list of these for OR",
        reason="not-a-filter",
    )
