"""The lake index is built by tasks: executors read the facts of files, and the driver writes the segments."""

from __future__ import annotations

import os
from collections.abc import Iterator, Sequence
from dataclasses import replace
from typing import TYPE_CHECKING, Final

from intarsia.embed.many import write_lake_index
from intarsia.errors import IntarsiaError
from intarsia.lake.data_file import DataFile, FileFailure, ShowDone
from intarsia.lake.index.build import FactsReader, LakeIndexReport, Outcome, reader_of
from intarsia.lake.index.facts import FileFacts, read_facts
from intarsia.lake.index.folder import Location, find_folders
from intarsia.lake.index.segment import MAX_SEGMENT_BYTES, MAX_SEGMENT_FILES
from intarsia.spark.job import act_on_files

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
                outcome = found[file.path]
                num_bytes += outcome.num_bytes if isinstance(outcome, FileFacts) else 0
                yield outcome
            start += len(part)
            num_files = max(1, min(MAX_SEGMENT_FILES, MAX_SEGMENT_BYTES * start // max(1, num_bytes)))

    return read


def _read_by_tasks(spark: SparkSession, files: Sequence[DataFile], show: ShowDone) -> dict[str, Outcome]:
    """Return the outcome of each file by its path."""
    # executors have another current folder
    absolute = {file.path: file.path if file.is_remote else os.path.abspath(file.path) for file in files}
    sent = {file.path: replace(file, path=absolute[file.path], store=None, deletes=None) for file in files}

    def act(path: str) -> FileFacts | None:
        return read_facts(sent[path].input_of(sent[path].open()))

    # footers are read, so the length of a file has little influence
    done, failed = act_on_files(spark, dict.fromkeys(sent, 1), act, lambda done, *_: show(done), "")
    return {**done, **{failure.path: failure.error for failure in failed}}
