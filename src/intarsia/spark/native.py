"""One DataFrame of `read` skips in Spark's own reader, whether its session is enabled or not.

The rule of enabled sessions plans the relation of the DataFrame, and replaces it by the planned one. Other
DataFrames of the session are not changed.
"""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, Any, Final, TypeAlias
from weakref import WeakKeyDictionary

from intarsia.spark.conditions import Node
from intarsia.spark.rules import (
    SKIP_RULE,
    RuleLoader,
    add_strategy,
    java_class,
    last_skips,
    scala_items,
    scala_sequence,
    skips_of,
)
from intarsia.spark.skipping import SkippingPlanner

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

NativePlan: TypeAlias = "tuple[DataFrame | None, str | None, dict[str, Any]]"

_RELATION: Final = "LogicalRelation"
_INDEX: Final = "intarsia.spark.SkippingIndex"

#: One planner for each session, whose reads share its caches.
_PLANNERS: WeakKeyDictionary[Any, SkippingPlanner] = WeakKeyDictionary()


def plan_natively(spark: SparkSession, frame: DataFrame) -> NativePlan:
    """Plan the files of a frame with one condition; a failure is returned as the reason.

    Args:
        spark: A classic session of a known version.
        frame: A frame on a path or a table of Parquet files, with a condition on it.

    Returns:
        The frame with a plan, or why there is none; and the report, empty without one.
    """
    try:
        return _planned(spark, frame)
    except Exception as error:  # noqa: BLE001  such as an internal class of Spark that has changed
        first = next(iter(str(error).splitlines()), "")
        return None, f"failed: {type(error).__name__}: {first}", {}


def _planned(spark: SparkSession, frame: DataFrame) -> NativePlan:
    jvm: Any = spark.sparkContext._jvm
    execution = frame._jdf.queryExecution()
    analyzed = execution.analyzed()
    patterns = java_class(jvm, "org.apache.spark.sql.catalyst.trees.TreePattern")
    if analyzed.containsPattern(patterns.CURRENT_LIKE()):
        return None, "the condition depends on the time at which the DataFrame runs", {}
    if analyzed.containsPattern(patterns.PLAN_EXPRESSION()):
        return None, "the condition contains a subquery", {}
    loader = RuleLoader(spark)
    skipping = loader.new_skipping(_PLANNERS.setdefault(spark, SkippingPlanner()).answer)
    planned = loader.new(SKIP_RULE, skipping).apply(execution.optimizedPlan())
    relation = _planned_relation(planned)
    skips = skips_of(skipping)
    if relation is not None and not skips:
        skips = last_skips(spark)  # the rule of an enabled session has planned before
    report = skips[-1].report if skips else {}
    why = skips[-1].reason if skips else "no index can evaluate the condition"
    if relation is None and why is not None:
        return None, why, report
    narrowed = None if relation is None else _with_relation(jvm, analyzed, relation)
    if narrowed is None:
        return None, "the table has columns that Spark computes when it reads them", {}
    add_strategy(spark, loader)
    from pyspark.sql import DataFrame

    dataset = java_class(jvm, "org.apache.spark.sql.classic.Dataset")
    rows = dataset.ofRows(spark._jsparkSession, narrowed)
    return DataFrame(rows, spark), None, report


def analyzed_condition(spark: SparkSession, frame: DataFrame) -> Node:
    """Return the condition of a frame on a relation, with the meaning that it has in its session.

    Args:
        spark: A classic session of a known version.
        frame: The frame.
    """
    analyzed = frame._jdf.queryExecution().analyzed()
    loader = RuleLoader(spark, needs_executors=False)
    found: Node = json.loads(loader.call("intarsia.spark.ExpressionJson", "ofAnalyzed", analyzed))
    return found


def _planned_relation(plan: Any) -> Any | None:
    """Return the relation of a plan that is a condition on it; None if its files have no plan."""
    if _name(plan) != "Filter" or _name(plan.child()) != _RELATION:
        return None
    relation = plan.child()
    return relation if relation.relation().location().getClass().getName() == _INDEX else None


def _with_relation(jvm: Any, plan: Any, relation: Any) -> Any | None:
    """Return a plan with another relation, which has the same columns; None for other plans.

    The condition is that of the analyzed plan. In the optimized plan, Spark has replaced parts by values.
    """
    if _name(plan) == _RELATION:
        same = [column.exprId() for column in scala_items(plan.output())] == [
            column.exprId() for column in scala_items(relation.output())
        ]
        return relation if same else None
    if _name(plan) not in ("Filter", "SubqueryAlias"):
        return None
    child = _with_relation(jvm, plan.child(), relation)
    if child is None:
        return None
    return plan.withNewChildren(scala_sequence(jvm, [child]))


def _name(plan: Any) -> str:
    return str(plan.getClass().getSimpleName())
