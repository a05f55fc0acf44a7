"""Jobs on each file of a lake: `describe`, `detach`, `verify`, and its lake index; `report_frame`."""

from __future__ import annotations

import os
import time
from collections.abc import Iterator, Sequence
from dataclasses import replace
from functools import partial
from typing import TYPE_CHECKING, Any, Final

import pyarrow as pa

from intarsia.check.inspection import inspect
from intarsia.check.verification import verify as verify_file
from intarsia.check.verification.findings import LakeVerifyReport
from intarsia.embed.many import write_lake_index
from intarsia.embed.original import detach_file
from intarsia.embed.report import DetachReport, IndexReport, Progress, RestoreReport
from intarsia.errors import IntarsiaError
from intarsia.lake.data_file import DataFile, FileFailure, ShowDone
from intarsia.lake.index.build import FactsReader, LakeIndexReport, Outcome, reader_of
from intarsia.lake.index.facts import FileFacts, read_facts
from intarsia.lake.index.folder import Location, find_folders
from intarsia.lake.index.segment import MAX_SEGMENT_BYTES, MAX_SEGMENT_FILES
from intarsia.spark.job import act_on_files, reporter
from intarsia.spark.lake_files import list_lake
from intarsia.spark.listing import Source, refresh_tables
from intarsia.spark.spark_stores import with_stores_of_spark
from intarsia.spark.spark_types import arrow_schema

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

#: The columns of `describe`.
_DESCRIPTION: Final = (
    "path STRING, size_bytes BIGINT, created_by STRING, rows BIGINT, row_groups INT, columns INT, "
    "chunks BIGINT, chunks_with_page_index BIGINT, chunks_with_bloom_filter BIGINT, "
    "indexes ARRAY<STRING>, index_bytes BIGINT, ignored ARRAY<STRING>, error STRING"
)

#: The columns of `report_frame`, and of the procedure that indexes files.
OUTCOMES: Final = (
    "path STRING, bytes_before BIGINT, bytes_after BIGINT, built ARRAY<STRING>, kept ARRAY<STRING>, "
    "notes ARRAY<STRING>, error STRING, code STRING, seconds DOUBLE"
)


@with_stores_of_spark
def describe(spark: SparkSession, path: Source, *, progress: Progress | bool = True) -> DataFrame:
    """Return a row for each file of a lake: its size, rows and indexes. The job runs immediately.

    Args:
        spark: The session; classic or Connect.
        path: As for `index`.
        progress: As for `index`.

    Returns:
        A DataFrame with the columns ``path``, ``size_bytes``, ``created_by``, ``rows``, ``row_groups``,
        ``columns`` (leaves), ``chunks``, ``chunks_with_page_index``, ``chunks_with_bloom_filter``,
        ``indexes`` (names of embedded indexes), ``index_bytes`` (of embedded indexes, page indexes and Bloom
        filters), ``ignored`` (indexes, with the reason) and ``error`` (of files that cannot be read).

    Raises:
        FileNotFoundError: If the path does not exist.

    Example:
        >>> from intarsia import spark as ias
        >>> files = ias.describe(spark, "lake/")  # doctest: +SKIP
        >>> files.where("size(indexes) = 0").select("path").show()  # doctest: +SKIP
    """
    lake = list_lake(spark, path, with_snapshots=True)
    # footers are read, so the length of a file has little influence
    sizes = dict.fromkeys(lake.sizes, 1)
    done, failed = act_on_files(spark, sizes, _description, reporter(progress, "files"), "describing")
    rows = [{"path": file, **values} for file, values in done.items()]
    rows += [{"path": failure.path, "error": failure.reason} for failure in failed]
    rows.sort(key=lambda row: row["path"])
    return spark.createDataFrame(pa.Table.from_pylist(rows, arrow_schema(_DESCRIPTION)))


def _description(path: str) -> dict[str, Any]:
    inspection = inspect(path)
    chunks = [chunk for group in inspection.row_groups for chunk in group.columns]
    sizes = inspection.sizes
    directory = inspection.directory
    return {
        "size_bytes": inspection.size_bytes,
        "created_by": inspection.created_by,
        "rows": inspection.num_rows,
        "row_groups": len(inspection.row_groups),
        "columns": len(inspection.schema),
        "chunks": len(chunks),
        "chunks_with_page_index": sum(chunk.has_offset_index for chunk in chunks),
        "chunks_with_bloom_filter": sum(chunk.bloom_filter is not None for chunk in chunks),
        "indexes": [entry.name for entry in directory.entries] if directory and directory.is_trusted else [],
        "index_bytes": sizes.column_indexes
        + sizes.offset_indexes
        + sizes.bloom_filters
        + sizes.embedded_indexes,
        "ignored": [f"{note.index}: {note.reason}" for note in inspection.ignored],
    }


def report_frame(spark: SparkSession, report: IndexReport) -> DataFrame:
    """Return the outcomes of `index` as a DataFrame, with a row for each file.

    Args:
        spark: The session.
        report: The report.

    Returns:
        A DataFrame with the columns ``path``, ``bytes_before``, ``bytes_after``, ``built``, ``kept``,
        ``notes`` (as texts), ``error``, ``code`` and ``seconds``.

    Example:
        >>> report = ias.index(spark, "lake/", ia.PageIndex())  # doctest: +SKIP
        >>> ias.report_frame(spark, report).where("error IS NOT NULL").show()  # doctest: +SKIP
    """
    rows = [
        {
            **vars(file),
            "notes": [
                f"{note['index']}{' of ' + note['column'] if note.get('column') else ''}: {note['reason']}"
                for note in file.notes
            ],
        }
        for file in report.per_file
    ]
    return spark.createDataFrame(pa.Table.from_pylist(rows, arrow_schema(OUTCOMES)))


@with_stores_of_spark
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
    lake = list_lake(spark, path, with_snapshots=True)
    done, failed = act_on_files(spark, lake.sizes, detach_file, reporter(progress, "files"), "detaching")
    reports = tuple(_since_listed(report, lake.sizes[file]) for file, report in done.items())
    if any(report.detached for report in reports):
        refresh_tables(spark, path)
    return RestoreReport(reports, tuple(failed), time.perf_counter() - started, lake.others)


def _since_listed(report: DetachReport, listed: int) -> DetachReport:
    """Return the report of a file, with what an earlier attempt has done of which the task died at the end.

    Args:
        report: The report of the last attempt.
        listed: The length of the file in bytes when it was listed.
    """
    if report.detached or report.bytes_after >= listed:
        return report
    return replace(report, detached=True, bytes_before=listed)


@with_stores_of_spark
def verify(
    spark: SparkSession,
    path: Source,
    *,
    quick: bool = False,
    sample: int | None = None,
    seed: int = 0,
    progress: Progress | bool = True,
) -> LakeVerifyReport:
    """Check statistics, page indexes, Bloom filters and embedded indexes of each file against its data.

    Args:
        spark: The session; classic or Connect.
        path: As for `index`.
        quick: Read no data pages; see `intarsia.verify`.
        sample: Read this many column chunks of each file, drawn at random.
        seed: Seed for ``sample``.
        progress: As for `index`.

    Returns:
        The reports of all files; ``report.ok`` is False if one has an error or could not be read.

    Raises:
        FileNotFoundError: If the path does not exist.
        ValueError: If ``sample`` is less than 1, or combined with ``quick``.

    Example:
        >>> from intarsia import spark as ias
        >>> ias.verify(spark, "lake/", sample=10).ok  # doctest: +SKIP
        True
    """
    if sample is not None and (quick or sample < 1):
        raise ValueError(f"sample is {sample!r}; it must be 1 or more, and cannot be combined with quick")
    started = time.perf_counter()
    lake = list_lake(spark, path, with_snapshots=True)
    act = partial(verify_file, quick=quick, sample=sample, seed=seed)
    done, failed = act_on_files(spark, lake.sizes, act, reporter(progress, "files"), "verifying")
    return LakeVerifyReport(tuple(done.values()), tuple(failed), time.perf_counter() - started, lake.others)


# --- the lake index: executors read the facts of files, and the driver writes the segments ------------------

#: Fewer files are read by the driver, which takes less time than a job.
MIN_FILES: Final = 256

#: Files of the first job. The next ones have as many as make a segment, by the size of the facts so far.
FIRST_FILES: Final = 2_000

_THREADS: Final = 16


def build_lake_index(
    spark: SparkSession,
    names: str | list[str],
    location: Location | None,
    show: ShowDone = lambda _: None,
    root: str | None = None,
) -> LakeIndexReport | None:
    """Build the lake index of files, or update an existing one; see `write_lake_index`.

    Args:
        spark: The session.
        names: The paths for `intarsia.open`.
        location: Where to build it; None to update an existing lake index without creating one.
        show: Called with the number of files that are done.
        root: The folder of the table whose snapshot has these files; None for other sources.
    """
    try:
        return write_lake_index(names, location, show, read=facts_reader(spark), root=root)
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
