"""`enable` and `disable`: plain Spark SQL of a running session reads only what the indexes leave."""

from __future__ import annotations

import json
import re
import sys
import warnings
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final
from weakref import WeakKeyDictionary

from intarsia.errors import IntarsiaError, IntarsiaWarning
from intarsia.spark.job import is_connect
from intarsia.spark.skipping import SkippingPlanner

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

#: The versions of Spark whose internal interfaces are known.
SUPPORTED_SPARK: Final = ("4.1", "4.2", "4.3")

#: The jar with the classes that run inside Spark.
JAR: Final = Path(__file__).parent / "jars" / "intarsia-spark.jar"

_RULE: Final = "intarsia.spark.SkipRule"

#: The class loader of the jar in each JVM, so that enabling again gives the same classes.
_LOADERS: WeakKeyDictionary[Any, Any] = WeakKeyDictionary()


@dataclass(frozen=True)
class ScanSkip:
    """The files, row groups, pages and rows that one scan of the last query skipped.

    Attributes:
        paths: The paths of the scanned relation.
        condition: The condition, in Spark SQL.
        reason: Why nothing was skipped; None if something was.
        report: The report of the plan, with the keys of `intarsia.ScanReport.to_dict`; empty without one.
        planning_ms: The time of planning in milliseconds.
    """

    paths: tuple[str, ...]
    condition: str
    reason: str | None
    report: dict[str, Any]
    planning_ms: float

    def __str__(self) -> str:
        if self.reason is not None:
            return f"{', '.join(self.paths)}: nothing skipped: {self.reason}"
        files, groups, rows = (self.report[key] for key in ("files", "row_groups", "rows"))
        by = ", ".join(f"{entry['index']} of {entry['column']}" for entry in self.report["pruned_by"])
        return (
            f"{', '.join(self.paths)}: {files['read']} of {files['total']} files, "
            f"{groups['read']} of {groups['total']} row groups, "
            f"{rows['candidates']} of {rows['total']} rows; by {by}"
        )


def enable(
    spark: SparkSession,
    *,
    timeout_seconds: float = 10.0,
    planner: Callable[[str], str] | None = None,
) -> None:
    r"""Make plain Spark SQL on plain Parquet files skip by the indexes of Intarsia, in this session.

    From now on, every query of the session (``spark.read.parquet``, SQL on tables and views, subqueries,
    streams) reads only the files, row groups, pages and rows that the indexes leave. Results do not change:
    Spark still evaluates every condition. If Intarsia fails or does not support a query, Spark reads without
    skipping.

    Other sessions of the application are not changed. For sessions that are configured at start, see
    `spark_conf`.

    Args:
        spark: A classic session. On Spark Connect, use `intarsia.spark.read`.
        timeout_seconds: The longest time to plan one scan. Planning single files stops after a quarter of it.
        planner: Answers the requests of the optimizer; None for the planner of this process.

    Raises:
        IntarsiaError: If the session is a Connect client, which cannot reach the optimizer.

    Example:
        >>> from intarsia import spark as ias
        >>> ias.enable(spark)  # doctest: +SKIP
        >>> spark.sql("SELECT * FROM parquet.`lake/` WHERE user = 42").show()  # doctest: +SKIP
        >>> print(*ias.last_skips(spark), sep="\n")  # doctest: +SKIP
    """
    if not _is_supported(spark):
        return
    from pyspark.java_gateway import ensure_callback_server_started

    gateway = spark.sparkContext._gateway
    loader = _loader(spark)
    ensure_callback_server_started(gateway)
    callback = _new(
        gateway, loader, "intarsia.spark.PythonCallback", _Callback(planner or SkippingPlanner().answer)
    )
    skipping = _new(gateway, loader, "intarsia.spark.Skipping", callback, round(timeout_seconds * 1000))
    rule = _new(gateway, loader, _RULE, skipping)
    disable(spark)
    _set_rules(spark, [*_rules(spark), rule])
    runtime_rule = _new(gateway, loader, "intarsia.spark.JoinKeyRule", skipping)
    _set_runtime_rule(spark, loader, runtime_rule)


def spark_conf() -> dict[str, str]:
    """Return the settings with which all sessions of an application skip from the start.

    They are for applications that `enable` cannot reach: a Spark Connect server, ``spark-sql``, the Thrift
    server, Scala programs, and sessions made by ``newSession()``. The planner is a process of the Python that
    runs this function, started by the driver. So the driver's machine needs this environment.

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
    }


def disable(spark: SparkSession) -> None:
    """Undo `enable`. Frames that were planned before keep their plans.

    Args:
        spark: The session.
    """
    if is_connect(spark):
        return
    own = [rule for rule in _rules(spark) if _is_own(rule)]
    for rule in own:
        rule.skipping().setEnabled(False)
    if own:
        _set_rules(spark, [rule for rule in _rules(spark) if not _is_own(rule)])
        _set_runtime_rule(spark, _loader(spark), None)


def last_skips(spark: SparkSession) -> Sequence[ScanSkip]:
    """Return what each scan of the last query with a condition on Parquet files skipped, and why.

    Args:
        spark: An enabled session.

    Returns:
        One entry for each scan; empty if nothing was planned yet.
    """
    rules = [] if is_connect(spark) else [rule for rule in _rules(spark) if _is_own(rule)]
    if not rules:
        return []
    return [
        ScanSkip(
            tuple(record.get("paths", ())),
            record.get("condition", ""),
            record["reason"],
            record.get("report") or {},
            record.get("planning_ms", 0.0),
        )
        for record in json.loads(rules[0].skipping().lastSkips())
    ]


class _Callback:
    """The planner as a ``java.util.function.Function``."""

    def __init__(self, planner: Callable[[str], str]) -> None:
        self._planner = planner

    def apply(self, request: str) -> str:
        return self._planner(request)

    class Java:
        """The attributes that py4j reads."""

        implements = ("java.util.function.Function",)


def _is_supported(spark: SparkSession) -> bool:
    if is_connect(spark):
        raise IntarsiaError(
            "a Spark Connect client cannot reach the optimizer; use intarsia.spark.read, or start the server "
            "with intarsia.spark.spark_conf()",
            reason="connect-session",
        )
    version = re.match(r"\d+\.\d+", spark.version)
    if version is not None and version[0] in SUPPORTED_SPARK:
        return True
    warnings.warn(
        f"Spark {spark.version} is unknown to this version of Intarsia, which supports "
        f"{', '.join(SUPPORTED_SPARK)}; queries run without skipping and return the same rows",
        IntarsiaWarning,
        stacklevel=3,
    )
    return False


def _loader(spark: SparkSession) -> Any:
    """Return a class loader with the jar, and make the jar known to executors."""
    context = spark.sparkContext
    gateway, jvm = context._gateway, context._jvm
    # each context of a JVM has its own jars; adding one again changes nothing
    context._jsc.addJar(str(JAR))
    found = _LOADERS.get(gateway)
    if found is not None:
        return found
    parent = jvm.org.apache.spark.util.Utils.getContextOrSparkClassLoader()
    urls = gateway.new_array(jvm.java.net.URL, 1)
    urls[0] = jvm.java.io.File(str(JAR)).toURI().toURL()
    # the parent comes first: with spark.jars, the classes are there already
    loader = jvm.java.net.URLClassLoader(urls, parent)
    _LOADERS[gateway] = loader
    return loader


def _new(gateway: Any, loader: Any, name: str, *arguments: Any) -> Any:
    """Create an object of a class that the JVM's own class loader does not have."""
    items = gateway.jvm.java.util.ArrayList()
    for argument in arguments:
        items.add(argument)
    return loader.loadClass(name).getConstructors()[0].newInstance(items.toArray())


def _rules(spark: SparkSession) -> list[Any]:
    rules = spark._jsparkSession.experimental().extraOptimizations()
    return [rules.apply(place) for place in range(rules.size())]


def _set_rules(spark: SparkSession, rules: Sequence[Any]) -> None:
    jvm = spark.sparkContext._jvm
    items = jvm.java.util.ArrayList()
    for rule in rules:
        items.add(rule)
    sequence = jvm.scala.jdk.javaapi.CollectionConverters.asScala(items).toSeq()
    getattr(spark._jsparkSession.experimental(), "extraOptimizations_$eq")(sequence)


def _set_runtime_rule(spark: SparkSession, loader: Any, rule: Any | None) -> None:
    """Set the rule of adaptive execution, or remove it."""
    jvm = spark.sparkContext._jvm
    holder = spark._jsparkSession.sessionState().adaptiveRulesHolder()
    (method,) = [
        found
        for found in loader.loadClass("intarsia.spark.RuntimeRules").getMethods()
        if found.getName() == "set"
    ]
    arguments = jvm.java.util.ArrayList()
    arguments.add(holder)
    arguments.add(rule)
    method.invoke(None, arguments.toArray())


def _is_own(rule: Any) -> bool:
    return bool(rule.getClass().getName() == _RULE)
