"""`aggregate`: from indexes and statistics as far as possible; Spark's tasks read the other rows."""

from __future__ import annotations

import base64
import os
import pickle
from typing import TYPE_CHECKING

from intarsia.embed.report import Progress
from intarsia.errors import FilesFailedError
from intarsia.lake.opening import open as open_table
from intarsia.lake.query_run import OnError
from intarsia.lake.shared_aggregate import SharedAggregate
from intarsia.predicate import Where
from intarsia.read.aggregate import Aggregate
from intarsia.read.aggregate.calls import Requested, requested_functions
from intarsia.spark.each_file import act_on_files
from intarsia.spark.lake_files import Source, list_lake
from intarsia.spark.progress_line import reporter

if TYPE_CHECKING:
    from pyspark.sql import SparkSession


def aggregate(
    spark: SparkSession,
    path: Source,
    functions: Requested,
    where: Where = None,
    *,
    on_error: OnError = "raise",
    progress: Progress | bool = True,
) -> Aggregate:
    """Compute aggregates of the rows that match, as `intarsia.Table.aggregate` does, in a Spark job.

    The driver answers from partition values and the lake index. Tasks open the other files. They answer from
    statistics and embedded indexes, and read only the rows that these do not cover. If nothing is left, no
    job runs. The rules are those of Intarsia's SQL, not of Spark's.

    Args:
        spark: The session; classic or Connect.
        path: As for `index`.
        functions: As for `intarsia.Table.aggregate`.
        where: As for `intarsia.Table.aggregate`.
        on_error: ``"skip"`` leaves damaged and missing files out, with a warning.
        progress: As for `index`.

    Returns:
        A ``dict`` of Python values with the attribute ``report``. Its ``answered_by`` lists the indexes that
        answered instead of rows, and ``files_opened`` the files that tasks opened.

    Raises:
        FileNotFoundError: If the path does not exist.
        ValueError: If a function is unknown, or not defined for the column's type.
        PredicateError: If ``where`` or the SQL text cannot be parsed.
        ColumnNotFoundError: If the lake has no such column.
        FilesFailedError: If files could not be read.

    Example:
        >>> answer = ias.aggregate(spark, "lake/", "count(*), max(dep_delay)")  # doctest: +SKIP
        >>> answer["dep_delay"]["max"], answer.report.files_opened  # doctest: +SKIP
        (1301.0, 0)
    """
    wanted = requested_functions(functions)
    lake = list_lake(spark, path)
    names = [lake.names] if isinstance(lake.names, str) else lake.names
    # executors have another current folder
    found = [name if "://" in name else os.path.abspath(name) for name in names]
    shared = SharedAggregate(open_table(found[0] if len(found) == 1 else found), wanted, where, on_error)
    files = shared.files

    def act(file: str) -> str:
        return base64.b64encode(pickle.dumps(files.run(file))).decode()

    if files.ordinals:
        listed = files.table.files
        sizes = {file: listed[ordinal].size_bytes for file, ordinal in files.ordinals.items()}
        done, failed = act_on_files(spark, sizes, act, reporter(progress, "files"), "aggregating")
        if failed:
            raise FilesFailedError(
                {failure.path: failure.error for failure in failed},
                shared.report,
                f"{len(failed):,} of {len(sizes):,} files failed; the first is {failed[0].path}: "
                f"{failed[0].reason}",
            )
        for share in done.values():
            shared.add(pickle.loads(base64.b64decode(share)))  # noqa: S301  tasks of this job made it
    return shared.result()
