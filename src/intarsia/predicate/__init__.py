"""Predicates: parsing, binding to a schema, and evaluation.

A predicate is SQL text, pyarrow ``filters`` or a tree of nodes (``nodes``). ``bind`` resolves it against a
schema. Indexes prune with the bound form (``bound``), and ``evaluate`` filters decoded rows with it.
"""

from __future__ import annotations

from intarsia.predicate.bind import bind as bind
from intarsia.predicate.bound import Bound as Bound
from intarsia.predicate.bound import BoundAnd as BoundAnd
from intarsia.predicate.bound import BoundCompare as BoundCompare
from intarsia.predicate.bound import BoundConstant as BoundConstant
from intarsia.predicate.bound import BoundFunction as BoundFunction
from intarsia.predicate.bound import BoundIn as BoundIn
from intarsia.predicate.bound import BoundMatch as BoundMatch
from intarsia.predicate.bound import BoundNull as BoundNull
from intarsia.predicate.bound import BoundOr as BoundOr
from intarsia.predicate.bound import BoundPrefix as BoundPrefix
from intarsia.predicate.bound import Condition as Condition
from intarsia.predicate.bound import Path as Path
from intarsia.predicate.bound import conditions as conditions
from intarsia.predicate.bound import fold_case as fold_case
from intarsia.predicate.bound import ignores_case as ignores_case
from intarsia.predicate.bound import required_texts as required_texts
from intarsia.predicate.columns import find_column as find_column
from intarsia.predicate.columns import is_utf8 as is_utf8
from intarsia.predicate.columns import resolve_column as resolve_column
from intarsia.predicate.evaluate import condition_mask as condition_mask
from intarsia.predicate.evaluate import evaluate as evaluate
from intarsia.predicate.expressions import parse_expression as parse_expression
from intarsia.predicate.filters import Where as Where
from intarsia.predicate.filters import parse_filters as parse_filters
from intarsia.predicate.filters import parse_predicate as parse_predicate
from intarsia.predicate.nodes import And as And
from intarsia.predicate.nodes import Call as Call
from intarsia.predicate.nodes import ColumnName as ColumnName
from intarsia.predicate.nodes import Comparison as Comparison
from intarsia.predicate.nodes import Constant as Constant
from intarsia.predicate.nodes import In as In
from intarsia.predicate.nodes import IsNull as IsNull
from intarsia.predicate.nodes import Like as Like
from intarsia.predicate.nodes import Not as Not
from intarsia.predicate.nodes import Op as Op
from intarsia.predicate.nodes import Or as Or
from intarsia.predicate.nodes import Predicate as Predicate
from intarsia.predicate.nodes import RegexpLike as RegexpLike
from intarsia.predicate.nodes import contains as contains
from intarsia.predicate.nodes import ends_with as ends_with
from intarsia.predicate.nodes import has_calls as has_calls
from intarsia.predicate.nodes import starts_with as starts_with
from intarsia.predicate.sql import SqlTemplate as SqlTemplate
from intarsia.predicate.sql import parse_sql as parse_sql
from intarsia.predicate.sql import parse_template as parse_template
from intarsia.predicate.sql_literals import Parameters as Parameters
