"""Predicates: what rows are asked for.

A predicate comes as SQL text, as pyarrow's ``filters`` or as nodes (``nodes``) and is bound to a schema
(``bind``). The bound form (``bound``) is what indexes are asked about and what decoded rows are filtered
with (``evaluate``).
"""

from __future__ import annotations

from intarsia.predicate.bind import bind
from intarsia.predicate.bound import (
    Bound,
    BoundAnd,
    BoundCompare,
    BoundConstant,
    BoundIn,
    BoundMatch,
    BoundNull,
    BoundOr,
    BoundPrefix,
    Condition,
    Path,
    conditions,
)
from intarsia.predicate.columns import Column, find_column, resolve_column
from intarsia.predicate.evaluate import condition_mask, evaluate
from intarsia.predicate.filters import Filters, Where, parse_filters, parse_predicate
from intarsia.predicate.nodes import (
    And,
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
    starts_with,
)
from intarsia.predicate.required import fold_case, ignores_case, required_texts
from intarsia.predicate.sql import parse_sql

__all__ = [
    "And",
    "Bound",
    "BoundAnd",
    "BoundCompare",
    "BoundConstant",
    "BoundIn",
    "BoundMatch",
    "BoundNull",
    "BoundOr",
    "BoundPrefix",
    "Column",
    "ColumnName",
    "Comparison",
    "Condition",
    "Constant",
    "Filters",
    "In",
    "IsNull",
    "Like",
    "Not",
    "Op",
    "Or",
    "Path",
    "Predicate",
    "RegexpLike",
    "Where",
    "bind",
    "condition_mask",
    "conditions",
    "contains",
    "ends_with",
    "evaluate",
    "find_column",
    "fold_case",
    "ignores_case",
    "parse_filters",
    "parse_predicate",
    "parse_sql",
    "required_texts",
    "resolve_column",
    "starts_with",
]
