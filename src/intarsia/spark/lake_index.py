"""The lake index is built by tasks: executors read the facts of files, and the driver writes the segments."""

from __future__ import annotations

import os
import pickle
from collections.abc import Iterator, Sequence
from dataclasses import replace
from itertools import accumulate
from typing import TYPE_CHECKING, Final

from intarsia.embed.many import write_lake_index
from intarsia.errors import IntarsiaError
from intarsia.lake.data_file import DataFile, FileFailure, ShowDone
from intarsia.lake.index.build import FactsReader, LakeIndexReport, Outcome, reader_of
from intarsia.lake.index.folder import Location, find_folders
from intarsia.lake.index.segment import MAX_SEGMENT_BYTES, MAX_SEGMENT_FILES
from intarsia.spark.job import run_tasks, tasks_of

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

#: Fewer files are read by the driver, which takes less time than a job.
MIN_FILES: Final = 256

#: Files of the first job. The next ones have as many as make a segment, by the size of the facts so far.
FIRST_FILES: Final = 2_000

_THREADS: Final = 16


def build_lake_index(
    spark: SparkSession, names: str | list[str], location: Location | None, show: ShowDone = lambda _: None
) -> LakeIndexReport | None:
    """Build the lake index of files, or update an existing one; see `write_lake_index`.

    Args:
        spark: The session.
        names: The paths for `intarsia.open`.
        location: Where to build it; None to update an existing lake index without creating one.
        show: Called with the number of files that are done.
    """
    try:
        return write_lake_index(names, location, show, read=facts_reader(spark))
    except Exception:
        if location is not None:
            raise
        return None  # a store that only Spark can list


def update_lake_indexes(
    spark: SparkSession, folders: Sequence[str]
) -> tuple[list[LakeIndexReport], list[FileFailure]]:
    """Update all lake indexes with files of some folders; of local ones, also those of folders above.

    Facts about files that were replaced or removed are dropped.

    Args:
        spark: The session.
        folders: The folders.

    Returns:
        The reports, and the lake indexes that could not be updated.
    """
    reports, failures = [], []
    found = {one.path: one for folder in folders for one in find_folders(folder, [])}
    for path, one in found.items():
        try:
            report = build_lake_index(spark, one.root, one.location) if one.names() else None
        except (IntarsiaError, OSError) as error:
            failures.append(FileFailure(path, error))
            continue
        if report is not None:
            reports.append(report)
    return reports, failures


def facts_reader(
    spark: SparkSession, *, min_files: int = MIN_FILES, first_files: int = FIRST_FILES
) -> FactsReader:
    """Return a reader of facts with one job for each segment, so that the driver keeps those of one segment.

    Args:
        spark: The session.
        min_files: Fewer files are read by the driver.
        first_files: The number of files of the first job.
    """

    def read(files: Sequence[DataFile], show: ShowDone) -> Iterator[Outcome]:
        if len(files) < min_files:
            yield from reader_of(lambda file: file.input_of(file.open()), _THREADS)(files, show)
            return
        start, num_files, num_bytes = 0, first_files, 0
        while start < len(files):
            part = files[start : start + num_files]
            found = _read_by_tasks(spark, part, lambda done, start=start: show(start + done))  # type: ignore[misc]
            for file in part:
                outcome, size = found[file.path]
                num_bytes += size
                yield outcome
            start += len(part)
            num_files = max(1, min(MAX_SEGMENT_FILES, MAX_SEGMENT_BYTES * start // num_bytes))

    return read


def _read_by_tasks(
    spark: SparkSession, files: Sequence[DataFile], show: ShowDone
) -> dict[str, tuple[Outcome, int]]:
    """Return the outcome of each file by its path, with the number of bytes that were sent."""
    # footers are read, so the length of a file has little influence
    tasks = tasks_of({file.path: 1 for file in files})
    items = {file.path: (file.path, _to_send(file)) for file in files}
    edges = list(accumulate(map(len, tasks), initial=0))
    sent = run_tasks(
        spark,
        [[items[path] for path in task] for task in tasks],
        _read_one,
        lambda done, _: show(edges[done]),
        "binary",
    )
    found: dict[str, tuple[Outcome, int]] = {}
    for data in sent:
        path, outcome = pickle.loads(data)  # noqa: S301  from our own tasks
        if isinstance(outcome, tuple):
            message, code = outcome
            outcome = IntarsiaError(message, reason=code, path=path)
        found[path] = outcome, len(data)
    return found


def _to_send(file: DataFile) -> DataFile:
    """Return a file under the name that executors can open: they have another current folder."""
    path = file.path if file.is_remote else os.path.abspath(file.path)
    return replace(file, path=path, store=None, deletes=None)


def _read_one(item: tuple[str, DataFile]) -> bytes:
    """Read the facts of a file, on an executor; an error is sent as its message and its code."""
    path, file = item
    (outcome,) = reader_of(lambda one: one.input_of(one.open()), 1)([file], lambda _: None)
    if isinstance(outcome, Exception):
        failure = FileFailure(file.path, outcome)
        return pickle.dumps((path, (failure.reason, failure.code)))
    return pickle.dumps((path, outcome))
