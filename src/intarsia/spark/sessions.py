"""How sessions of Spark differ: classic or Connect, and the Python that their workers run.

PySpark takes ``python3`` from PATH unless ``PYSPARK_PYTHON`` is set. In a session that the Python of a
virtual environment starts, that is often another Python, without this package.
"""

from __future__ import annotations

import os
import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any

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
    with using_worker_python(frame.sparkSession):
        return frame.mapInArrow(function, schema)
