"""One DataFrame: its plan for Spark's own reader, its condition, and a picture of what its scans read.

`ias.read` skips in Spark's own reader, whether its session is enabled or not: the rule of enabled sessions
plans the relation of the DataFrame, and replaces it by the planned one. Other DataFrames of the session are
not changed. `ias.map` draws the scans of a DataFrame: the files, row groups and pages that they read.
"""

from __future__ import annotations

import json
import os
from collections.abc import Callable, Collection, Mapping, Sequence
from dataclasses import replace
from typing import TYPE_CHECKING, Any, Final, TypeAlias
from weakref import WeakKeyDictionary

from intarsia.amounts import count
from intarsia.errors import IntarsiaError
from intarsia.lake.page_map import page_map
from intarsia.lake.table_files import TableFiles
from intarsia.picture import PageMap
from intarsia.read.trace import QueryTrace
from intarsia.records import dataclass
from intarsia.spark.binding import binder_of
from intarsia.spark.conditions import Node
from intarsia.spark.planning import FilePlanner
from intarsia.spark.requested_files import RequestedFiles
from intarsia.spark.rules import (
    SKIP_RULE,
    RuleLoader,
    add_strategy,
    java_class,
    last_skips,
    refuse_unplannable,
    scala_items,
    scala_sequence,
    set_own_rules,
    skipping_of,
    skips_of,
)
from intarsia.spark.sessions import changed_setting, setting
from intarsia.spark.skipping import SkippingPlanner
from intarsia.spark.spark_stores import SparkObjects, SparkStores

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

NativePlan: TypeAlias = "tuple[DataFrame | None, str | None, dict[str, Any]]"

_RELATION: Final = "LogicalRelation"
_INDEX: Final = "intarsia.spark.SkippingIndex"

#: Turns skipping off for the queries of a session.
_SWITCH: Final = "spark.intarsia.enabled"

#: One planner for each session, whose reads share its caches.
_PLANNERS: WeakKeyDictionary[Any, SkippingPlanner] = WeakKeyDictionary()


def plan_natively(spark: SparkSession, frame: DataFrame, *, is_required: bool) -> NativePlan:
    """Plan the files of a frame with one condition; a failure is returned as the reason.

    Args:
        spark: A classic session of a known version.
        frame: A frame on a path or a table of Parquet files, with a condition on it.
        is_required: Whether it is planned in a session whose queries do not skip.

    Returns:
        The frame with a plan, or why there is none; and the report, empty without one.
    """
    if not is_required and setting(spark, _SWITCH).lower() not in ("", "true"):
        return None, f"{_SWITCH} is false", {}
    try:
        with changed_setting(spark, _SWITCH, "true"):
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

    rows = java_class(jvm, "org.apache.spark.sql.classic.Dataset").ofRows(spark._jsparkSession, narrowed)
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
    return None if child is None else plan.withNewChildren(scala_sequence(jvm, [child]))


def _name(plan: Any) -> str:
    return str(plan.getClass().getSimpleName())


# --- pictures -----------------------------------------------------------------------------------------------

#: The reason with which the requests of the rule are refused, because their scans are only drawn.
_DRAWN: Final = "drawn"

#: Maximum length of a condition in a picture, which can have thousands of keys.
_MOST_CHARACTERS: Final = 1000

_CONDITION: Final = "condition on Parquet files that an index can evaluate"


@dataclass(frozen=True)
class _RequestedScan:
    """A scan for which the rule of the optimizer has requested a plan.

    Attributes:
        request: The request of ``ScanPlanner.java``.
        name: The path of the relation, or the name of the table.
        condition: The condition in SQL.
    """

    request: Mapping[str, Any]
    name: str
    condition: str


def map(frame: DataFrame, scan: int | None = None, *, run: bool = False) -> PageMap:
    """Return a picture of the files, row groups and pages that a scan of an enabled session reads.

    The picture is of the plan, made from metadata as `intarsia.spark.enable` makes it, whether the session is
    enabled or not. Nothing is run, so keys of joins and values of subqueries, which Spark learns while it
    runs, exclude more; with ``run=True``, the picture has them.

    Args:
        frame: A DataFrame of a classic session, with a condition on Parquet files.
        scan: The ordinal of the scan, among those with a condition; None for the one with the most bytes.
            With ``run=True``, scans are in the order in which Spark planned them, and a scan that it planned
            again with keys or values is another one.
        run: Whether to run the query, without its rows, and to draw the scans that Spark planned meanwhile.

    Raises:
        IntarsiaError: If the session is a Connect client, or no scan of the frame can be planned; the message
            has the reason.
        UnsupportedFeatureError: If this version of Spark is unknown.
        IndexError: If there is no such scan.

    Example:
        >>> from intarsia import spark as ias
        >>> frame = spark.read.parquet("lake/").where("dest = 'BOS'")  # doctest: +SKIP
        >>> ias.map(frame).save("map.html")  # doctest: +SKIP
    """
    spark = frame.sparkSession
    refuse_unplannable(spark)
    with changed_setting(spark, _SWITCH, "false"):  # so that the rule of an enabled session plans no scan
        execution = frame.select("*")._jdf.queryExecution()
        execution.sparkPlan()
    scans = _scans_of_run(spark, frame) if run else _requested_scans(spark, execution.optimizedPlan())
    if scan is not None:
        if not 0 <= scan < len(scans):
            raise IndexError(f"scan is {scan}, but the DataFrame has {count(len(scans), 'planned scan')}")
        scans = [scans[scan]]
    # the last one of a relation has the most conditions
    largest = max(reversed(scans), key=lambda one: sum(one.request["sizes"]))
    leaves = scala_items(execution.sparkPlan().collectLeaves())
    columns = {column.name() for leaf in leaves for column in scala_items(leaf.output())}
    return _draw(largest, columns)


def _planner(answer: Callable[[Mapping[str, Any]], str]) -> Callable[[str], str]:
    """Return a planner that answers complete requests; the JVM completes others, and sends them again."""

    def planner(text: str) -> str:
        request = json.loads(text)
        if "paths" not in request:
            return json.dumps({"unknown": "list"})
        return json.dumps({"unknown": "versions"}) if "logged_ms" in request else answer(request)

    return planner


def _requested_scans(spark: SparkSession, plan: Any) -> Sequence[_RequestedScan]:
    """Return the scans of an optimized plan for which the rule requests a plan of files.

    Raises:
        IntarsiaError: If there are none.
    """
    requests: list[Mapping[str, Any]] = []

    def answer(request: Mapping[str, Any]) -> str:
        requests.append(request)
        return json.dumps({"reason": _DRAWN})

    loader = RuleLoader(spark)
    skipping = loader.new_skipping(_planner(answer))
    with changed_setting(spark, _SWITCH, "true"):
        loader.new(SKIP_RULE, skipping).apply(plan)
        # these are planned by a strategy, after Delta's own one
        loader.call("intarsia.spark.SkippingStrategy", "planDelta", plan, skipping)
    skips = skips_of(skipping)
    drawn = [one for one in skips if one.reason == _DRAWN]
    if not drawn:
        reasons = [one.reason for one in skips if one.reason is not None]
        raise _nothing_planned(reasons[0] if reasons else f"it has no {_CONDITION}")
    return [
        _RequestedScan(request, ", ".join(one.paths), one.condition)
        for request, one in zip(requests, drawn, strict=True)
    ]


def _scans_of_run(spark: SparkSession, frame: DataFrame) -> Sequence[_RequestedScan]:
    """Run a frame, and return the scans for which the rules of an enabled session request a plan of files.

    Raises:
        IntarsiaError: If there are none.
    """
    planner, scans = SkippingPlanner(), []

    def answer(request: Mapping[str, Any]) -> str:
        folder = os.path.commonpath([os.path.dirname(path) for path in request["paths"]])
        while request["partition_columns"] and "=" in os.path.basename(folder):
            folder = os.path.dirname(folder)
        condition = str(binder_of(request).predicate)
        scans.append(_RequestedScan(request, folder, condition[:_MOST_CHARACTERS]))
        return planner.answer(json.dumps(request))

    loader, before = RuleLoader(spark), skipping_of(spark)
    add_strategy(spark, loader)
    set_own_rules(spark, loader, loader.new_skipping(_planner(answer)))
    try:
        with changed_setting(spark, _SWITCH, "true"):
            frame.select("*").write.format("noop").mode("overwrite").save()
    finally:
        set_own_rules(spark, loader, before)
    if not scans:
        raise _nothing_planned(f"no scan has a {_CONDITION}")
    return scans


def _nothing_planned(why: str) -> IntarsiaError:
    return IntarsiaError(f"no scan of the DataFrame can be drawn: {why}", reason="nothing-planned")


def _draw(scan: _RequestedScan, columns: Collection[str]) -> PageMap:
    """Plan a scan as the planner of enabled sessions does, and draw the plan."""
    request = scan.request
    requested, objects = RequestedFiles(request), SparkObjects(request, SparkStores())
    listing = requested.plannable(objects, requested.lake_indexes(objects))
    if not len(listing.files):
        why = listing.unplannable or "they are changed, or newer than two seconds"
        raise IntarsiaError(f"{scan.name}: no file can be planned: {why}", reason="nothing-planned")
    table = TableFiles(listing.files)
    trace = QueryTrace([], page_map)
    planner = FilePlanner(
        binder_of(request, list(columns)),
        count_pages=True,
        whole_row_groups=request.get("iceberg") is not None,
        trace=trace,
    )
    planner.planned(table)
    if planner.failure is not None:
        raise planner.failure
    facts = page_map(table, scan.condition, sorted(columns), trace, planner.report).facts
    title, result = os.path.basename(scan.name.rstrip("/")) or scan.name, facts.result
    others = listing.total - len(listing.files)
    if others:
        result += f", and {count(others, 'file')} that changed or are new are read as a whole"
    return PageMap(replace(facts, title=title, result=result))
