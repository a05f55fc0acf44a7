"""A session skips what the indexes exclude in plain Spark SQL, and the files that it writes get indexes.

`intarsia.spark.frames` plans a single DataFrame.
"""

from __future__ import annotations

import sys
import warnings
from collections.abc import Callable
from typing import TYPE_CHECKING, Any, Final, Literal, TypeAlias

from intarsia.embed.attach import checked_indexes
from intarsia.embed.report import IndexedFile, IndexReport
from intarsia.embed.structures import Attachables
from intarsia.errors import IntarsiaWarning, UnsupportedFeatureError
from intarsia.spark.listing import python_path
from intarsia.spark.procedures import CATALOG, CATALOG_KEY, offer_procedures
from intarsia.spark.rules import (
    JAR,
    RuleLoader,
    add_strategy,
    has_class,
    load_jar,
    refuse_unplannable,
    set_own_rules,
    set_rule,
    skipping_of,
)
from intarsia.spark.sessions import is_connect, worker_python
from intarsia.spark.shipping import INDEXES_OPTION, indexes_to_text
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
        ValueError: If the time limit is not a positive number.

    Example:
        >>> from intarsia import spark as ias
        >>> ias.enable(spark)  # doctest: +SKIP
        >>> spark.sql("SELECT * FROM parquet.`lake/` WHERE user = 42").show()  # doctest: +SKIP
        >>> print(*ias.last_skips(spark), sep="\n")  # doctest: +SKIP
    """
    if not 0 < timeout_seconds < float("inf"):
        raise ValueError(f"timeout_seconds is {timeout_seconds!r}; it must be a positive number")
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


# --- writes ---------------------------------------------------------------------------------------------

#: Whether a file that cannot be indexed is noted, or fails its task.
OnError: TypeAlias = Literal["note", "fail"]

_PROTOCOL: Final = "intarsia.spark.IndexingCommitProtocol"
_PROTOCOL_KEY: Final = "spark.sql.sources.commitProtocolClass"
_SPARK_PROTOCOL: Final = "org.apache.spark.sql.execution.datasources.SQLHadoopMapReduceCommitProtocol"
#: Its committers are those of `_PROTOCOL` as well: the ones that Hadoop's settings choose.
_CLOUD_PROTOCOL: Final = "org.apache.spark.internal.io.cloud.PathOutputCommitProtocol"
_STREAM_PROTOCOL: Final = "intarsia.spark.IndexingStreamCommitProtocol"
_STREAM_PROTOCOL_KEY: Final = "spark.sql.streaming.commitProtocolClass"
_SPARK_STREAM_PROTOCOL: Final = "org.apache.spark.sql.execution.streaming.ManifestFileCommitProtocol"
_FILES: Final = "intarsia.spark.WrittenFiles"
_TABLE_RULE: Final = "intarsia.spark.TableIndexesRule"
_SETTINGS: Final = "spark.intarsia.write."


def enable_writes(spark: SparkSession, indexes: Attachables = (), *, on_error: OnError = "note") -> None:
    """Add indexes to the Parquet files that this session writes, before they are committed.

    From now on, ``df.write.parquet``, ``insertInto``, ``saveAsTable``, CTAS and INSERT write indexed files,
    also with ``partitionBy`` and dynamic overwrite, and so do streams to Parquet files
    (``df.writeStream.format("parquet")``). Each task adds the indexes to its files before it commits. Spark's
    own protocols commit the files.

    A stream keeps the indexes with which it was started. Streams with another commit protocol are not changed
    and get no indexes.

    Args:
        spark: A classic session. Other sessions of the application are not changed.
        indexes: The indexes of all tables, as for `index`. Those on columns that a table lacks are noted and
            left out. Options of a writer replace them (see `write_options`), and so does the property
            ``intarsia.indexes`` of a table, such as ``'page_index, bloom(user)'``.
        on_error: What happens if a file cannot be indexed: ``"note"`` leaves it as Spark wrote it, and
            `last_write` has the error; ``"fail"`` fails the task, which Spark retries.

    Raises:
        UnsupportedFeatureError: If the session is a Connect client, or has another commit protocol.
        IndexBuildError: If an element of ``indexes`` is not an index, or no installed package registers its
            class as an entry point.

    Example:
        >>> from intarsia import spark as ias
        >>> ias.enable_writes(spark, [ia.PageIndex(), ia.Bloom("user")])  # doctest: +SKIP
        >>> frame.write.partitionBy("day").parquet("lake/")  # doctest: +SKIP
        >>> print(ias.last_write(spark))  # doctest: +SKIP
    """
    settings = write_options(indexes, on_error=on_error)
    if is_connect(spark):
        raise UnsupportedFeatureError(
            "a Connect client cannot change how its server commits files; index the folder afterwards with "
            "intarsia.spark.index",
            reason="connect",
        )
    before = spark.conf.get(_PROTOCOL_KEY)
    if before not in (_SPARK_PROTOCOL, _PROTOCOL, _CLOUD_PROTOCOL):
        raise UnsupportedFeatureError(
            f"{_PROTOCOL_KEY} is {before}, whose files are hidden until they are committed; index the folder "
            "afterwards with intarsia.spark.index",
            reason="other-commit-protocol",
        )
    load_jar(spark)
    for name, value in settings.items():
        spark.conf.set(_SETTINGS + name.partition(".")[2], value)
    spark.conf.set(f"{_SETTINGS}python", worker_python(spark))
    spark.conf.set(_PROTOCOL_KEY, _PROTOCOL)
    # it gives writers the properties of their table
    set_rule(spark, _TABLE_RULE, RuleLoader(spark).new(_TABLE_RULE, spark._jsparkSession))
    if spark.conf.get(_STREAM_PROTOCOL_KEY) == _SPARK_STREAM_PROTOCOL and has_class(spark, _STREAM_PROTOCOL):
        spark.conf.set(_STREAM_PROTOCOL_KEY, _STREAM_PROTOCOL)


def disable_writes(spark: SparkSession) -> None:
    """Undo `enable_writes`; does nothing if it was not called.

    Args:
        spark: The session.
    """
    if not is_connect(spark) and spark.conf.get(_PROTOCOL_KEY) == _PROTOCOL:
        spark.conf.unset(_PROTOCOL_KEY)
        set_rule(spark, _TABLE_RULE, None)
        if spark.conf.get(_STREAM_PROTOCOL_KEY) == _STREAM_PROTOCOL:
            spark.conf.unset(_STREAM_PROTOCOL_KEY)
        for name in ("indexes", "on_error", "python"):
            spark.conf.unset(_SETTINGS + name)


def write_options(indexes: Attachables, *, on_error: OnError = "note") -> dict[str, str]:
    """Return the options of a writer that replace the indexes of `enable_writes`.

    Args:
        indexes: The indexes of this table; ``()`` for none.
        on_error: As for `enable_writes`.

    Raises:
        ValueError: If ``on_error`` is unknown.
        IndexBuildError: As for `enable_writes`.

    Example:
        >>> import intarsia as ia
        >>> write_options(ia.Distinct("dest", granularity="file"))["intarsia.on_error"]
        'note'
        >>> frame.write.options(**ias.write_options(ia.Bloom("user"))).parquet("lake/")  # doctest: +SKIP
    """
    if on_error not in ("note", "fail"):
        raise ValueError(f"on_error is {on_error!r}; use 'note' or 'fail'")
    checked = checked_indexes(indexes)
    text = indexes_to_text(checked) if checked else ""
    return {INDEXES_OPTION: text, "intarsia.on_error": on_error}


def last_write(spark: SparkSession) -> IndexReport | None:
    """Return the outcome for each file of the last job that wrote indexed files; None before the first.

    Each micro-batch of a stream is a job.

    Args:
        spark: A session of an application in which `enable_writes` was called.
    """
    if is_connect(spark):
        return None
    jobs = RuleLoader(spark, needs_executors=False).call(_FILES, "jobs")
    if not jobs:
        return None
    files = sorted(map(_outcome, jobs[0]), key=lambda file: file.path)
    return IndexReport(tuple(files), sum(file.seconds for file in files))


def _outcome(text: str) -> IndexedFile:
    if text.startswith("A"):
        return IndexedFile.from_json(text[1:])
    path, error = text[1:].split("\0", 1)
    return IndexedFile(python_path(path), error=error, code="not-indexed")
