"""How sessions of Spark differ: classic or Connect, and the Python that their workers run.

PySpark takes ``python3`` from PATH unless ``PYSPARK_PYTHON`` is set. In a session that the Python of a
virtual environment starts, that is often another Python, without this package.
"""

from __future__ import annotations

import contextlib
import gc
import os
import re
import sys
import tempfile
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from functools import cache
from typing import TYPE_CHECKING, Any

from intarsia.spark.java import ensure_java

if TYPE_CHECKING:
    import pyarrow as pa
    from pyspark.sql import DataFrame, SparkSession


def is_connect(spark: SparkSession) -> bool:
    """Return whether a session uses Spark Connect, where the JVM is not accessible."""
    return type(spark).__module__.startswith("pyspark.sql.connect")


def worker_python(spark: SparkSession) -> str:
    """Return the Python of a session's workers: the user's choice, or that of the driver if it is local.

    Args:
        spark: A classic session.
    """
    context = spark.sparkContext
    usual = str(context.pythonExec)
    if "PYSPARK_PYTHON" in os.environ:
        return usual
    chosen = context.getConf().get("spark.pyspark.python")
    if chosen is None and context.master.startswith("local"):
        chosen = sys.executable
    return chosen or usual


@contextmanager
def using_worker_python(spark: SparkSession) -> Iterator[None]:
    """Let functions that are passed to Spark within the block run in `worker_python`.

    Other functions of the session keep their Python. On Spark Connect, the server decides.
    """
    if is_connect(spark):
        yield
        return
    context = spark.sparkContext
    before = context.pythonExec
    context.pythonExec = worker_python(spark)
    try:
        yield
    finally:
        context.pythonExec = before


def map_in_arrow(
    frame: DataFrame, function: Callable[[Iterator[pa.RecordBatch]], Iterator[pa.RecordBatch]], schema: Any
) -> DataFrame:
    """Return ``frame.mapInArrow`` with a function that imports this package.

    Args:
        frame: The frame.
        function: As for ``mapInArrow``.
        schema: The types of the result, as for ``mapInArrow``.
    """

    def run(batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        yield from function(batches)
        keep_modules()

    with using_worker_python(frame.sparkSession):
        return frame.mapInArrow(run, schema)


def map_tasks(
    spark: SparkSession, tasks: Sequence[Any], work: Callable[[Any], Iterator[pa.RecordBatch]], schema: Any
) -> DataFrame:
    """Return the rows that a function yields for each of some tasks of Spark, as for `map_in_arrow`."""

    # a closure, because Spark serializes it; the functions that it calls are imported on the executors
    def run(batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        for batch in batches:
            for ordinal in batch.column(0).to_pylist():
                yield from work(tasks[ordinal])

    # as many rows as partitions, so that range puts exactly one into each
    return map_in_arrow(spark.range(0, len(tasks), 1, len(tasks)), run, schema)


@cache
def keep_modules() -> None:
    """Keep modules out of the garbage collections that PySpark's workers run after each task.

    Each would look at all objects of all modules, which takes longer than most tasks.
    """
    gc.collect()
    gc.freeze()


def setting(spark: SparkSession, key: str) -> str:
    """Return a setting as a string; empty if this version of Spark does not have it."""
    try:
        # without a default, because Spark checks its type
        return str(spark.conf.get(key))
    except Exception:  # noqa: BLE001  the error for an unknown key depends on Spark's version
        return ""


def is_on(spark: SparkSession, key: str) -> bool:
    """Return whether a setting is true."""
    return setting(spark, key).lower() == "true"


@contextmanager
def changed_setting(spark: SparkSession, key: str, value: str) -> Iterator[None]:
    """Change a setting within the block."""
    before = spark.conf.get(key, None)
    spark.conf.set(key, value)
    try:
        yield
    finally:
        if before is None:
            spark.conf.unset(key)
        else:
            spark.conf.set(key, before)


@contextlib.contextmanager
def command_session(master: str | None) -> Iterator[SparkSession]:
    """Return a session for a command, and stop it at the end.

    Args:
        master: The URL of a master, such as ``"local[4]"`` or ``"yarn"``, or of a Connect server,
            ``"sc://host"``. None for the master of ``spark-submit``, or, without it, for all cores of this
            machine.

    Raises:
        JavaNotFoundError: If Java 17 or 21 is not installed.
    """
    if master is None and "PYSPARK_GATEWAY_PORT" not in os.environ:  # which spark-submit sets
        master = "local[*]"
    with contextlib.ExitStack() as held:
        if master is not None and master.startswith("local"):
            threads = re.fullmatch(r"local(?:\[(\d+|\*)\])?", master)
            if threads is None:
                raise ValueError(f"the master is {master!r}; use 'local[N]' for N threads, or 'local[*]'")
            folder = held.enter_context(tempfile.TemporaryDirectory(prefix="intarsia-spark-"))
            session = local_session(folder, threads=threads[1] or 1)
        else:
            from pyspark.sql import SparkSession

            builder = SparkSession.builder.appName("intarsia")
            if master is not None and master.startswith("sc://"):
                builder = builder.remote(master)
            elif master is not None:
                ensure_java()
                builder = builder.master(master)
            session = builder.getOrCreate()
        held.callback(session.stop)
        yield session


def local_session(
    folder: str | os.PathLike[str],
    *,
    name: str = "intarsia",
    threads: int | str = 2,
    more: Mapping[str, str] | None = None,
) -> SparkSession:
    """Start Spark in a JVM of this process, in UTC, not reachable over the network.

    Args:
        folder: Folder for the temporary files of Spark.
        name: Name of the application.
        threads: Number of concurrent tasks; ``"*"`` for the number of cores.
        more: More settings.

    Raises:
        JavaNotFoundError: If Java 17 or 21 is not installed.
    """
    ensure_java()
    # the Python of the executors needs this package
    os.environ["PYSPARK_PYTHON"] = os.environ["PYSPARK_DRIVER_PYTHON"] = sys.executable
    os.environ.setdefault("SPARK_LOCAL_IP", "127.0.0.1")

    from pyspark.sql import SparkSession

    root = os.path.abspath(folder)
    settings = {
        "spark.driver.bindAddress": "127.0.0.1",
        "spark.driver.host": "127.0.0.1",
        "spark.driver.extraJavaOptions": f"-Dderby.system.home={root}",
        "spark.local.dir": os.path.join(root, "local"),
        "spark.log.level": "ERROR",
        "spark.sql.artifact.isolation.enabled": "false",  # avoids a folder "artifacts" in the working folder
        "spark.sql.execution.arrow.pyspark.enabled": "true",
        "spark.sql.session.timeZone": "UTC",
        "spark.sql.warehouse.dir": os.path.join(root, "warehouse"),
        "spark.ui.enabled": "false",
        "spark.ui.showConsoleProgress": "false",
    }
    builder = SparkSession.builder.master(f"local[{threads}]").appName(name)
    for key, value in {**settings, **(more or {})}.items():
        builder = builder.config(key, value)
    return builder.getOrCreate()
