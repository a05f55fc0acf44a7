"""Predicates: parsing, binding to a schema, and evaluation.

A predicate is SQL text, pyarrow ``filters`` or a tree of nodes (``nodes``). ``bind`` resolves it against a
schema. Indexes prune with the bound form (``bound``), and ``evaluate`` filters decoded rows with it.
"""

from __future__ import annotations

from intarsia.predicate.bind import bind
from intarsia.predicate.bound import (
    Bound,
    BoundAnd,
    BoundCompare,
    BoundConstant,
    BoundFunction,
    BoundIn,
    BoundMatch,
    BoundNull,
    BoundOr,
    BoundPrefix,
    Condition,
    Path,
    conditions,
    fold_case,
    ignores_case,
    required_texts,
)
from intarsia.predicate.columns import find_column, resolve_column
from intarsia.predicate.evaluate import condition_mask, evaluate
from intarsia.predicate.expressions import parse_expression
from intarsia.predicate.filters import Where, parse_filters, parse_predicate
from intarsia.predicate.nodes import (
    And,
    Call,
    ColumnName,
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
    contains,
    ends_with,
    has_calls,
    starts_with,
)
from intarsia.predicate.sql import SqlTemplate, parse_sql, parse_template
from intarsia.predicate.sql_literals import Parameters

__all__ = [
    "And",
    "Bound",
    "BoundAnd",
    "BoundCompare",
    "BoundConstant",
    "BoundFunction",
    "BoundIn",
    "BoundMatch",
    "BoundNull",
    "BoundOr",
    "BoundPrefix",
    "Call",
    "ColumnName",
    "Comparison",
    "Condition",
    "Constant",
    "In",
    "IsNull",
    "Like",
    "Not",
    "Op",
    "Or",
    "Parameters",
    "Path",
    "Predicate",
    "RegexpLike",
    "SqlTemplate",
    "Where",
    "bind",
    "condition_mask",
    "conditions",
    "contains",
    "ends_with",
    "evaluate",
    "find_column",
    "fold_case",
    "has_calls",
    "ignores_case",
    "parse_expression",
    "parse_filters",
    "parse_predicate",
    "parse_sql",
    "parse_template",
    "required_texts",
    "resolve_column",
    "starts_with",
]
