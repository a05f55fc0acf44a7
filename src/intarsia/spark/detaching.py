"""`detach`: restore the original of each file of a lake, in a Spark job."""

from __future__ import annotations

import time
from dataclasses import asdict
from typing import TYPE_CHECKING, Any

from intarsia.embed.original import detach_file
from intarsia.embed.report import DetachReport, Progress, RestoreReport
from intarsia.spark.each_file import act_on_files
from intarsia.spark.lake_files import Source, list_lake
from intarsia.spark.progress_line import reporter

if TYPE_CHECKING:
    from pyspark.sql import SparkSession


def detach(spark: SparkSession, path: Source, *, progress: Progress | bool = True) -> RestoreReport:
    """Restore the original of each Parquet file of a lake, if indexes are attached to it.

    Bad files are reported; the rest are still restored. The job can be stopped and run again at any time.

    Args:
        spark: The session; classic or Connect.
        path: As for `index`.
        progress: As for `index`.

    Returns:
        The same report as that of `intarsia.detach` over many files.

    Raises:
        FileNotFoundError: If the path does not exist.

    Example:
        >>> from intarsia import spark as ias
        >>> print(ias.detach(spark, "lake/"))  # doctest: +SKIP
        12 of 12 files restored, 1.4 MB removed
    """
    started = time.perf_counter()
    lake = list_lake(spark, path)
    done, failed = act_on_files(spark, lake.sizes, _detach, reporter(progress, "files"), "detaching")
    reports = [DetachReport(**{**values, "removed": tuple(values["removed"])}) for values in done.values()]
    return RestoreReport(tuple(reports), tuple(failed), time.perf_counter() - started, lake.others)


def _detach(path: str) -> dict[str, Any]:
    return asdict(detach_file(path))
