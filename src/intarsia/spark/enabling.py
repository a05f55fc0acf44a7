"""Plain Spark SQL skips what the indexes exclude, in a whole session; `frames` plans a single DataFrame."""

from __future__ import annotations

import sys
import warnings
from collections.abc import Callable
from typing import TYPE_CHECKING, Any

from intarsia.errors import IntarsiaWarning, UnsupportedFeatureError
from intarsia.spark.procedures import CATALOG, CATALOG_KEY, offer_procedures
from intarsia.spark.rules import (
    JAR,
    RuleLoader,
    add_strategy,
    refuse_unplannable,
    set_own_rules,
    skipping_of,
)
from intarsia.spark.sessions import is_connect
from intarsia.spark.skipping import SkippingPlanner

if TYPE_CHECKING:
    from pyspark.sql import SparkSession


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
    skipping = loader.new_skipping(
        planner or SkippingPlanner().answer,
        shared=_shared_planner(spark, loader),
        timeout_ms=round(timeout_seconds * 1000),
    )
    add_strategy(spark, loader)
    set_own_rules(spark, loader, skipping)
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
    if not is_connect(spark) and skipping_of(spark) is not None:
        loader = RuleLoader(spark)
        _shared_planner(spark, loader).set(None, 0)
        set_own_rules(spark, loader, None)


def _shared_planner(spark: SparkSession, loader: RuleLoader) -> Any:
    """Return the planner of this session and of those that ``newSession()`` creates."""
    return loader.call("intarsia.spark.Extensions", "planner", spark._jsparkSession.extensions())
