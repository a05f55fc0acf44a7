"""A Spark session on this machine, for demos and notebooks."""

from __future__ import annotations

import os
import sys
from typing import TYPE_CHECKING

from intarsia.spark.java import ensure_java

if TYPE_CHECKING:
    from pyspark.sql import SparkSession


def local_session(
    folder: str | os.PathLike[str], *, name: str = "intarsia", threads: int = 2
) -> SparkSession:
    """Start Spark in a JVM of this process, in UTC, not reachable over the network.

    Args:
        folder: Folder for the temporary files of Spark.
        name: Name of the application.
        threads: Number of concurrent tasks.

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
