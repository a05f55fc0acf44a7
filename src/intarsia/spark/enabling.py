"""`enable` and `disable`: plain Spark SQL of a running session skips what the indexes exclude."""

from __future__ import annotations

import sys
import warnings
from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, Any, Final

from intarsia.errors import IntarsiaWarning, UnsupportedFeatureError
from intarsia.spark.java_classes import scala_sequence
from intarsia.spark.rules import JAR, SKIP_RULE, RuleLoader, ScanSkip, refuse_unplannable, skips_of
from intarsia.spark.sessions import is_connect

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

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
    _set_rules(spark, [*_rules(spark), rule])
    add_strategy(spark, loader)
    _set_runtime_rule(spark, loader, loader.new("intarsia.spark.JoinKeyRule", skipping))


def spark_conf() -> dict[str, str]:
    """Return the settings with which all sessions of an application skip from the start.

    They are for applications that `enable` cannot reach: a Spark Connect server, ``spark-sql``, the Thrift
    server, and Scala programs. The planner is a process of the Python that runs this function, started by the
    driver. So the driver's machine needs this environment.

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
    """Undo `enable`. DataFrames that were planned before keep their plans.

    It turns skipping off in all sessions that `enable` has enabled together: this one, those that its
    ``newSession()`` has created, and the one from which it was created. For one of them alone, set
    ``spark.intarsia.enabled`` to ``false``.

    Args:
        spark: The session.
    """
    if is_connect(spark):
        return
    own = [rule for rule in _rules(spark) if _is_own(rule)]
    if own:
        loader = RuleLoader(spark)
        _shared_planner(spark, loader).set(None, 0)
        _set_rules(spark, [rule for rule in _rules(spark) if not _is_own(rule)])
        _set_runtime_rule(spark, loader, None)


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
    return skips_of(rules[0].skipping())


def _rules(spark: SparkSession) -> list[Any]:
    return _items(spark._jsparkSession.experimental().extraOptimizations())


def _set_rules(spark: SparkSession, rules: Sequence[Any]) -> None:
    getattr(spark._jsparkSession.experimental(), "extraOptimizations_$eq")(_sequence(spark, rules))


def add_strategy(spark: SparkSession, loader: RuleLoader) -> None:
    """Add the strategy that plans scans with a plan of Intarsia; it does not change other scans.

    It stays when skipping is turned off, because there may be frames with plans.
    """
    methods = spark._jsparkSession.experimental()
    strategies = _items(methods.extraStrategies())
    if all(one.getClass().getName() != _STRATEGY for one in strategies):
        added = _sequence(spark, [loader.new(_STRATEGY), *strategies])
        getattr(methods, "extraStrategies_$eq")(added)


def _items(sequence: Any) -> list[Any]:
    return [sequence.apply(ordinal) for ordinal in range(sequence.size())]


def _sequence(spark: SparkSession, items: Sequence[Any]) -> Any:
    return scala_sequence(spark.sparkContext._jvm, items)


def _set_runtime_rule(spark: SparkSession, loader: RuleLoader, rule: Any | None) -> None:
    """Set the rule of adaptive execution, or remove it."""
    holder = spark._jsparkSession.sessionState().adaptiveRulesHolder()
    loader.call("intarsia.spark.RuntimeRules", "set", holder, rule)


def _shared_planner(spark: SparkSession, loader: RuleLoader) -> Any:
    """Return the planner of this session and of those that ``newSession()`` creates."""
    return loader.call("intarsia.spark.Extensions", "planner", spark._jsparkSession.extensions())


def _is_own(rule: Any) -> bool:
    return bool(rule.getClass().getName() == SKIP_RULE)
