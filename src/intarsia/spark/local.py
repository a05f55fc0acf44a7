"""Spark sessions of the command, of demos and of notebooks."""

from __future__ import annotations

import contextlib
import os
import re
import sys
import tempfile
from collections.abc import Iterator
from typing import TYPE_CHECKING

from intarsia.spark.java import ensure_java

if TYPE_CHECKING:
    from pyspark.sql import SparkSession


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
    if master is not None and master.startswith("local"):
        with tempfile.TemporaryDirectory(prefix="intarsia-spark-") as folder:
            threads = re.fullmatch(r"local(?:\[(\d+|\*)\])?", master)
            if threads is None:
                raise ValueError(f"the master is {master!r}; use 'local[N]' for N threads, or 'local[*]'")
            session = local_session(folder, threads=threads[1] or 1)
            try:
                yield session
            finally:
                session.stop()
        return

    from pyspark.sql import SparkSession

    builder = SparkSession.builder.appName("intarsia")
    if master is not None:
        builder = builder.remote(master) if master.startswith("sc://") else builder.master(master)
    if master is not None and not master.startswith("sc://"):
        ensure_java()
    session = builder.getOrCreate()
    try:
        yield session
    finally:
        session.stop()


def local_session(
    folder: str | os.PathLike[str], *, name: str = "intarsia", threads: int | str = 2
) -> SparkSession:
    """Start Spark in a JVM of this process, in UTC, not reachable over the network.

    Args:
        folder: Folder for the temporary files of Spark.
        name: Name of the application.
        threads: Number of concurrent tasks; ``"*"`` for the number of cores.

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
    for key, value in settings.items():
        builder = builder.config(key, value)
    return builder.getOrCreate()
