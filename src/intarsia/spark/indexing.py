"""`index`: attach indexes to every file of a lake, in a Spark job."""

from __future__ import annotations

import os
import pickle
import time
from collections.abc import Iterator, Mapping, Sequence
from functools import partial
from itertools import groupby
from operator import itemgetter
from typing import TYPE_CHECKING, Literal

import pyarrow as pa

from intarsia.embed.attach import Part, PartWork, attach_file, build_part, checked_indexes, divide_work
from intarsia.embed.many import check_location, check_named_columns, without_lake_index
from intarsia.embed.report import IndexedFile, IndexReport, Progress
from intarsia.embed.structures import Attachable, Attachables
from intarsia.errors import FilesFailedError, IntarsiaError, RunInterrupted
from intarsia.file import ParquetInput
from intarsia.lake.data_file import DataFile, FileFailure
from intarsia.lake.discovery import find_files
from intarsia.lake.index.build import LakeIndexReport
from intarsia.lake.index.folder import Location
from intarsia.spark.job import (
    MIN_TASKS,
    OUTCOME,
    TASK_BYTES,
    TaskProgress,
    collect_rows,
    pickled,
    reporter,
    run_on_files,
    unpickled,
)
from intarsia.spark.lake_files import Age, Choice, Only, find_unchanged, list_lake
from intarsia.spark.lake_jobs import build_lake_index
from intarsia.spark.listing import Source, refresh_tables
from intarsia.spark.registering import DeltaLog
from intarsia.spark.sessions import map_in_arrow, map_tasks
from intarsia.spark.shipping import Shipped, pack_index, unpack_index
from intarsia.spark.spark_stores import with_stores_of_spark
from intarsia.storage import current_options, offered_options

if TYPE_CHECKING:
    from pyspark.sql import SparkSession


#: Smaller files are indexed by one task.
LARGE_BYTES = 4 * TASK_BYTES

#: The schema of the rows in which parts are sent, and the size of a row.
_PIECES, _PIECE_BYTES = "file int, part int, number int, bytes binary", 1 << 20

#: Larger parts are dropped, and built again: Spark took 9 s of CPU time to move a RowMap of 146 MB, which
#: took 2 s to build.
_MAX_BYTES = 64 << 20


def divide_large_files(
    files: Mapping[str, DataFile], sizes: Mapping[str, int], indexes: Sequence[Attachable]
) -> dict[str, list[PartWork]]:
    """Divide the files that would keep one core busy while the other cores are idle.

    Args:
        files: The files by path.
        sizes: The size in bytes of each file to index.
        indexes: The indexes to attach.

    Returns:
        The parts of each such file, at most `MIN_TASKS`. The footers of these files are read.
    """
    least = max(LARGE_BYTES, sum(sizes.values()) // MIN_TASKS)
    found = {}
    for path, size in sizes.items():
        if size >= least:
            try:
                with ParquetInput(files[path].open()) as file:
                    works = divide_work(file, indexes, max(LARGE_BYTES // 2, size // MIN_TASKS))
            except (IntarsiaError, OSError):  # the task of the file reports it
                continue
            if len(works) > 1:
                found[path] = works
    return found


def run_by_row_groups(
    spark: SparkSession,
    divided: Mapping[str, Sequence[PartWork]],
    shipped: Sequence[Shipped],
    progress: TaskProgress,
) -> list[IndexedFile]:
    """Index large files in one job.

    Args:
        spark: The session.
        divided: The parts of each file.
        shipped: The indexes to attach.
        progress: As for `collect_rows`.

    Returns:
        The outcomes in undefined order.
    """
    paths, options = tuple(divided), current_options()
    works = [(ordinal, work) for ordinal, path in enumerate(paths) for work in divided[path]]

    def build(numbered: tuple[int, tuple[int, PartWork]]) -> Iterator[pa.RecordBatch]:
        work_ordinal, (ordinal, work) = numbered
        indexes = [unpack_index(item) for item in shipped]
        try:
            with offered_options(options):
                part = pickle.dumps(build_part(paths[ordinal], indexes, work))
            part = part if len(part) <= _MAX_BYTES else b""
        except Exception:  # noqa: BLE001  the task that attaches raises the same error, and reports it
            part = b""
        yield from _pieces(ordinal, work_ordinal, part)

    # a closure, because Spark serializes it; the functions that it calls are imported on the executors
    def attach_all(batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        for ordinal, parts in _joined(batches).items():
            with offered_options(options):
                outcome = _attach_one(paths[ordinal], parts, shipped=shipped)
            yield pickled(outcome)

    built = map_tasks(spark, list(enumerate(works)), build, _PIECES)
    attached = map_in_arrow(built.repartitionById(len(paths), "file"), attach_all, OUTCOME)
    total = len(works) + len(paths)
    rows = collect_rows(spark, attached, lambda done, _: progress(min(done, total), total))
    return [unpickled(row[0]) for row in rows]


def _pieces(file: int, ordinal: int, part: bytes) -> Iterator[pa.RecordBatch]:
    """Divide a part into rows, because Spark copies each of them several times in its heap."""
    for start in range(0, max(len(part), 1), _PIECE_BYTES):
        piece = part[start : start + _PIECE_BYTES]
        arrays = [pa.array([number], pa.int32()) for number in (file, ordinal, start // _PIECE_BYTES)]
        yield pa.record_batch(
            [*arrays, pa.array([piece], pa.binary())], names=["file", "part", "number", "bytes"]
        )


def _joined(batches: Iterator[pa.RecordBatch]) -> dict[int, list[Part]]:
    """Return the parts of each file."""
    pieces: dict[tuple[int, int, int], bytes] = {}
    for batch in batches:
        *places, data = (column.to_pylist() for column in batch.columns)
        pieces |= zip(zip(*places, strict=True), data, strict=True)
    joined: dict[int, list[Part]] = {}
    for (file, _), numbered in groupby(sorted(pieces), itemgetter(0, 1)):
        parts = joined.setdefault(file, [])
        if part := b"".join(pieces[place] for place in numbered):
            parts.append(pickle.loads(part))  # noqa: S301
    return joined


@with_stores_of_spark
def index(
    spark: SparkSession,
    path: Source,
    indexes: Attachables,
    *,
    lake_index: Location | None = None,
    only: Only = "all",
    min_file_size: int = 0,
    older_than: Age = 0,
    on_error: Literal["report", "raise"] = "report",
    max_failures: int | None = None,
    register: bool = False,
    progress: Progress | bool = True,
) -> IndexReport:
    """Attach indexes to every Parquet file of a lake.

    A task processes one file or several small ones. A file of at least 64 MiB that has at least 1/32 of the
    bytes to index is divided by row groups if it has several: tasks build its indexes, and one attaches them.

    Each file is replaced atomically (see `intarsia.attach`), so the job can be stopped, retried and run
    again at any time. Files that already have the indexes are not changed. Bad files are reported; the rest
    are still indexed.

    The executors need this package. On a cluster, set the environment variable ``PYSPARK_PYTHON`` to a Python
    that has it before the session starts. The executors must reach the files under the same paths, in a
    shared folder or an object store.

    Args:
        spark: The session; classic or Connect.
        path: A file, a folder, a glob, a URL, the name of a table in the catalog, or a list of these. The
            name of a Delta or Iceberg table, and the local folder of a Delta table, stand for the data files
            of its current snapshot. Files that must keep their length, such as those of less than 8 MiB of
            Iceberg, are reported as failed.
        indexes: The indexes to attach, such as ``[ia.PageIndex(), ia.Distinct("country")]``.
        lake_index: Where to build the lake index (see `intarsia.Table.build_lake_index`) at the end:
            ``"cache"`` for the cache folder of the driver's user, ``"beside"`` for the folder ``_intarsia``
            in the lake. None updates an existing lake index, but does not create one. Tasks read the footers
            and indexes, and the driver writes it.
        only: ``"new"`` for the files that were not indexed before: those that the lake index does not contain
            unchanged, or that have no index of Intarsia. They are found without opening a file. It needs a
            lake index, or ``lake_index`` to build one, and then takes all files as new. An index that older
            files lack is not added to them.
        min_file_size: Smaller files are left out; in bytes. Small files are better merged first.
        older_than: Files that were written in the last seconds, or in this ``timedelta``, are left out, for
            folders to which another program writes in place.
        on_error: ``"raise"`` to raise `FilesFailedError` at the end if files failed.
        max_failures: Stop when more files have failed, and raise `FilesFailedError`. The job then runs in
            parts, which double in size, because results arrive at the end of each part.
        register: True to commit the new lengths of the files to the log of a Delta table, in one version that
            changes no data. Readers that take the length from the log then find the page indexes and Bloom
            filters, too. These indexes stay: such files cannot be detached, or get other indexes.
        progress: Called as ``progress(done, total, label)``; True to print a line on stderr if it is a
            terminal.

    Returns:
        The outcome for each file; `report_frame` converts it to a DataFrame.

    Raises:
        FilesFailedError: If files failed, as requested by ``on_error`` and ``max_failures``, or if the
            requested lake index could not be written; ``report`` has the files that were processed.
        UnsupportedFeatureError: If a name is that of a view, or of a table of another format. With
            ``register``, if the path is not one Delta table, or its log has a feature with which lengths
            cannot be changed.
        WriteError: If the lengths were not registered, because other transactions were faster; the files are
            indexed.
        FileNotFoundError: If the path does not exist.
        IndexBuildError: If an element of ``indexes`` is not an index or names a partition column, if no
            installed package registers its class as an entry point, or if ``only="new"`` finds no lake index.
        ValueError: If an argument is invalid, or a lake index cannot be stored there, such as ``"beside"`` on
            a web server.
        ColumnNotFoundError: If none of the files that were read has a column of an index. These are the first
            file, the last and up to 62 others. Nothing is indexed then.
        RunInterrupted: If the job is interrupted (Ctrl-C). It is cancelled, and another run skips the files
            that are done. ``report`` has these files: those of this run with their sizes, but without names
            of indexes.

    Example:
        >>> import intarsia as ia
        >>> from intarsia import spark as ias
        >>> report = ias.index(spark, "lake/", [ia.PageIndex(), ia.Distinct("dest")])  # doctest: +SKIP
        >>> print(report)  # doctest: +SKIP
        indexed 12 of 12 files in 3.1 s
        1.4 MB added to 31.0 MB (4.5%)
    """
    started = time.perf_counter()
    if on_error not in ("report", "raise"):
        raise ValueError(f"on_error is {on_error!r}; use 'report' or 'raise'")
    if max_failures is not None and (type(max_failures) is not int or max_failures < 0):
        raise ValueError(f"max_failures is {max_failures!r}; use None, or an integer of 0 or more")
    log = DeltaLog(spark, path) if register else None
    choice = Choice(only, min_file_size, older_than)
    requested = checked_indexes(indexes)
    shipped = tuple(map(pack_index, requested))
    lake = list_lake(spark, path, with_snapshots=True)
    chosen = choice.of(lake, needs_lake_index=lake_index is None)
    files = {path: file for path, file in chosen.items() if path not in lake.refused}
    if chosen:
        check_named_columns(list(chosen.values()), requested)
    place = check_location(find_files(lake.names), lake_index, lake.root) if lake_index else ""
    report = reporter(progress, "files")
    outcomes: dict[str, IndexedFile] = {}

    def show(done: int) -> None:
        report(done, len(files), "indexing")

    def report_of_all(added: LakeIndexReport | None = None, registered: int = 0) -> IndexReport:
        skipped, seconds = len(lake.files) - len(chosen), time.perf_counter() - started
        per_file = tuple(outcomes[file] for file in sorted(outcomes))
        return IndexReport(per_file, seconds, lake.others, added, len(chosen), skipped, registered)

    show(0)
    outcomes |= find_unchanged(files, requested)
    known = len(outcomes)
    for file, error in lake.refused.items():  # these must not be changed
        if file in chosen:
            size = chosen[file].size_bytes
            outcomes[file] = IndexedFile(
                file, size, size, error=str(error).removeprefix(f"{file}: "), code=error.reason
            )
    show(known)
    sizes = {path: file.size_bytes for path, file in files.items() if path not in outcomes}
    divided = divide_large_files(files, sizes, requested)
    found: list[IndexedFile] = []

    def has_too_many_failures() -> bool:
        failures = sum(outcome.error is not None for outcome in found)
        return max_failures is not None and failures > max_failures

    try:
        if divided:
            found += run_by_row_groups(
                spark, divided, shipped, lambda done, total: show(known + done * len(divided) // total)
            )
            known += len(divided)
        left = {file: size for file, size in sizes.items() if file not in divided}
        parts = run_on_files(
            spark,
            left,
            partial(_attach_one, shipped=shipped),
            lambda done: show(known + done),
            in_parts=max_failures is not None,
        )
        while not has_too_many_failures() and (part := next(parts, None)) is not None:
            found += part
    except KeyboardInterrupt as stop:
        outcomes |= _replaced_files(spark, path, files)
        raise RunInterrupted(len(outcomes), len(chosen), report_of_all()) from stop
    # by path, because Spark may return two results of a task that ran twice
    outcomes |= {outcome.path: outcome for outcome in found}
    if any(outcome.bytes_after != outcome.bytes_before for outcome in found):
        refresh_tables(spark, path)
    done = {file for file, outcome in outcomes.items() if outcome.error is None}
    registered = 0 if log is None else log.register(done)
    try:
        added = build_lake_index(
            spark,
            lake.names,
            lake_index,
            lambda done: report(int(done), len(files), "lake index"),
            lake.root,
        )
    except (IntarsiaError, OSError) as error:  # the files are done
        indexed = report_of_all(None, registered)
        raise without_lake_index(indexed, _errors_in(indexed), place, error) from error
    result = report_of_all(added, registered)
    too_many = max_failures is not None and result.files_failed > max_failures
    if too_many or (on_error == "raise" and result.files_failed):
        raise _failed(result)
    return result


def _errors_in(report: IndexReport) -> dict[str, Exception]:
    return {
        file["path"]: IntarsiaError(file["error"], reason=file["code"], path=file["path"])
        for file in report.failed
    }


def _failed(report: IndexReport) -> FilesFailedError:
    num_processed, total = len(report.per_file), report.files_total
    left = total - num_processed
    rest = f"; {left:,} of {total:,} files were not processed" if left else "; the rest are indexed"
    first = report.failed[0]
    return FilesFailedError(
        _errors_in(report),
        report,
        f"{report.files_failed:,} of {num_processed:,} files failed{rest}; the first is "
        f"{first['path']}: {first['error']}",
    )


def _replaced_files(
    spark: SparkSession, path: Source, before: Mapping[str, DataFile]
) -> dict[str, IndexedFile]:
    """Return the files whose sizes changed since they were listed; a cancelled job returns no results."""
    sizes = list_lake(spark, path, with_snapshots=True).sizes
    return {
        file: IndexedFile(file, listed.size_bytes, sizes[file])
        for file, listed in before.items()
        if sizes.get(file, listed.size_bytes) != listed.size_bytes
    }


def _attach_one(path: str, parts: Sequence[Part] = (), *, shipped: Sequence[Shipped]) -> IndexedFile:
    """Attach indexes to one file, on an executor."""
    started = time.perf_counter()
    try:
        report = attach_file(path, [unpack_index(item) for item in shipped], parts=parts)
    except Exception as error:  # noqa: BLE001  one bad file must not stop the others
        size = os.path.getsize(path) if os.path.isfile(path) else 0
        text = f"{type(error).__name__}: {str(error).removeprefix(f'{path}: ')}"
        code = FileFailure(path, error).code
        return IndexedFile(path, size, size, error=text, code=code, seconds=time.perf_counter() - started)
    return IndexedFile.of(report)
