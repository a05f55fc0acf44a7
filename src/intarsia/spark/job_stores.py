"""The stores of jobs on objects, which have the settings and the credentials of Spark."""

from __future__ import annotations

import functools
import inspect
import json
import warnings
from collections.abc import Callable
from typing import TYPE_CHECKING, ParamSpec, TypeVar

from intarsia.errors import IntarsiaWarning
from intarsia.spark.listing import Source, location_of, paths_of, python_path
from intarsia.spark.rules import RuleLoader
from intarsia.spark.sessions import is_connect
from intarsia.spark.spark_stores import options_of_store
from intarsia.storage import StorageOptions, offered_options

if TYPE_CHECKING:
    from pyspark.sql import SparkSession


#: The schemes of objects in Hadoop.
_SCHEMES = ("s3a://", "s3://", "abfs://", "abfss://", "gs://")


def options_of_spark(spark: SparkSession, source: Source) -> dict[str, StorageOptions]:
    """Return the options of the stores of some paths or tables, by their URLs.

    Args:
        spark: The session. A client of Connect has no options, nor has one without the store's file system.
        source: The paths and tables.
    """
    found: dict[str, StorageOptions] = {}
    if is_connect(spark):
        return found
    for name in paths_of(source):
        location = location_of(spark, name)
        if not location.startswith(_SCHEMES):
            continue
        conf = spark._jsparkSession.sessionState().newHadoopConf()
        loader = RuleLoader(spark, needs_executors=False)
        settings = str(loader.call("intarsia.spark.StoreSettings", "json", location, conf))
        options = options_of_store(python_path(location, decode=False), settings)
        if (reason := json.loads(settings).get("reason")) is not None:
            warnings.warn(
                f"{location}: the job has the settings of the environment, not those of Spark: {reason}",
                IntarsiaWarning,
                stacklevel=4,
            )
        found |= options
    return found


_Arguments = ParamSpec("_Arguments")
_Result = TypeVar("_Result")


def with_stores_of_spark(job: Callable[_Arguments, _Result]) -> Callable[_Arguments, _Result]:
    """Let a job on a lake, and its tasks, access objects with the settings and the credentials of Spark.

    Args:
        job: A function of a session, ``spark``, and of the lake, ``path``.
    """
    signature = inspect.signature(job)

    @functools.wraps(job)
    def run(*arguments: _Arguments.args, **named: _Arguments.kwargs) -> _Result:
        called = signature.bind(*arguments, **named).arguments
        with offered_options(options_of_spark(called["spark"], called["path"])):
            return job(*arguments, **named)

    return run
