"""Plain Spark SQL skips what the indexes exclude: in a session (`enable`), or for one DataFrame of `read`.

For one DataFrame, the rule of enabled sessions plans its relation, and replaces it by the planned one. Other
DataFrames of the session are not changed.
"""

from __future__ import annotations

import json
import sys
import warnings
from collections.abc import Callable
from typing import TYPE_CHECKING, Any, Final, TypeAlias
from weakref import WeakKeyDictionary

from intarsia.errors import IntarsiaWarning, UnsupportedFeatureError
from intarsia.spark.conditions import Node
from intarsia.spark.procedures import CATALOG, CATALOG_KEY, offer_procedures
from intarsia.spark.rules import (
    JAR,
    SKIP_RULE,
    RuleLoader,
    is_own,
    java_class,
    last_skips,
    refuse_unplannable,
    rules_of,
    scala_items,
    scala_sequence,
    set_rules,
    skips_of,
)
from intarsia.spark.sessions import is_connect
from intarsia.spark.skipping import SkippingPlanner

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

#: The class that plans scans whose excluded files are compared in each run.
_STRATEGY: Final = "intarsia.spark.SkippingStrategy"


def enable(
    spark: SparkSession,
    *,
    timeout_seconds: float = 10.0,
    planner: Callable[[str], str] | None = None,
) -> None:
    r"""Make plain Spark SQL on Parquet files skip with Intarsia's indexes, in this session and its new ones.

    From now on, every query of the session (``spark.read.parquet``, SQL on tables and views, subqueries,
    streams) reads only the files, row groups, pages and rows that the indexes do not exclude. Results do not
    change: Spark still evaluates every condition. If Intarsia fails or does not support a query, Spark reads
    without skipping.

    Sessions that ``newSession()`` creates from this one afterwards skip, too, with the same planner. Other
    sessions of the application are not changed. For sessions that are configured at start, see `spark_conf`.

    The session also gets the procedures of the catalog ``intarsia``, such as ``CALL intarsia.index(table =>
    'flights', bloom => array('tailnum'))``, unless ``spark.intarsia.procedures`` is ``false``.

    Args:
        spark: A classic session. On Spark Connect, use `intarsia.spark.read`.
        timeout_seconds: The time limit for planning one scan. Planning single files stops after a quarter of
            it.
        planner: Answers the requests of the optimizer; None for the planner of this process.

    Raises:
        IntarsiaError: If the session is a Connect client, which cannot reach the optimizer.

    Example:
        >>> from intarsia import spark as ias
        >>> ias.enable(spark)  # doctest: +SKIP
        >>> spark.sql("SELECT * FROM parquet.`lake/` WHERE user = 42").show()  # doctest: +SKIP
        >>> print(*ias.last_skips(spark), sep="\n")  # doctest: +SKIP
    """
    try:
        refuse_unplannable(spark)
    except UnsupportedFeatureError as error:
        warnings.warn(
            f"{error}; queries run without skipping and return the same rows", IntarsiaWarning, stacklevel=2
        )
        return
    loader = RuleLoader(spark)
    disable(spark)
    shared = _shared_planner(spark, loader)
    loader.set_planner(shared, round(timeout_seconds * 1000), planner)
    skipping = loader.new_skipping(shared)
    rule = loader.new(SKIP_RULE, skipping)
    set_rules(spark, [*rules_of(spark), rule])
    add_strategy(spark, loader)
    _set_runtime_rule(spark, loader, loader.new("intarsia.spark.JoinKeyRule", skipping))
    offer_procedures(spark)


def spark_conf(*, procedures: bool = False) -> dict[str, str]:
    """Return the settings with which all sessions of an application skip from the start.

    They are for applications that `enable` cannot reach: a Spark Connect server, ``spark-sql``, the Thrift
    server, and Scala programs. The planner is a process of the Python that runs this function, started by the
    driver. So the driver's machine needs this environment.

    Args:
        procedures: Whether to offer the procedures of the catalog ``intarsia``, such as ``CALL
            intarsia.index``. Whoever can run SQL can then rewrite files, with the rights of the driver.

    Example:
        >>> conf = spark_conf()
        >>> conf["spark.sql.extensions"]
        'intarsia.spark.Extensions'
        >>> print(*(f"--conf {key}={value}" for key, value in conf.items()))
        --conf spark.jars=.../intarsia-spark.jar --conf spark.sql.extensions=... --conf ...
    """
    return {
        "spark.jars": str(JAR),
        "spark.sql.extensions": "intarsia.spark.Extensions",
        "spark.intarsia.python": sys.executable,
        **({CATALOG_KEY: CATALOG} if procedures else {}),
    }


def disable(spark: SparkSession) -> None:
    """Undo `enable`. DataFrames that were planned before keep their plans.

    It turns skipping off in all sessions that `enable` has enabled together: this one, those that its
    ``newSession()`` has created, and the one from which it was created. For one of them alone, set
    ``spark.intarsia.enabled`` to ``false``.

    Args:
        spark: The session.
    """
    if is_connect(spark):
        return
    own = [rule for rule in rules_of(spark) if is_own(rule)]
    if own:
        loader = RuleLoader(spark)
        _shared_planner(spark, loader).set(None, 0)
        set_rules(spark, [rule for rule in rules_of(spark) if not is_own(rule)])
        _set_runtime_rule(spark, loader, None)


def add_strategy(spark: SparkSession, loader: RuleLoader) -> None:
    """Add the strategy that plans scans with a plan of Intarsia; it does not change other scans.

    It stays when skipping is turned off, because there may be frames with plans.
    """
    methods = spark._jsparkSession.experimental()
    strategies = scala_items(methods.extraStrategies())
    if all(one.getClass().getName() != _STRATEGY for one in strategies):
        added = scala_sequence(spark.sparkContext._jvm, [loader.new(_STRATEGY), *strategies])
        getattr(methods, "extraStrategies_$eq")(added)


def _set_runtime_rule(spark: SparkSession, loader: RuleLoader, rule: Any | None) -> None:
    """Set the rule of adaptive execution, or remove it."""
    holder = spark._jsparkSession.sessionState().adaptiveRulesHolder()
    loader.call("intarsia.spark.RuntimeRules", "set", holder, rule)


def _shared_planner(spark: SparkSession, loader: RuleLoader) -> Any:
    """Return the planner of this session and of those that ``newSession()`` creates."""
    return loader.call("intarsia.spark.Extensions", "planner", spark._jsparkSession.extensions())


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
    planner = loader.new_planner()
    loader.set_planner(planner, 0, _PLANNERS.setdefault(spark, SkippingPlanner()).answer)
    skipping = loader.new_skipping(planner)
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
