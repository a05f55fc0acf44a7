"""`index`: attach indexes to every file of a lake, in a Spark job."""

from __future__ import annotations

import os
import time
from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Literal

from intarsia.embed.attach import attach_file, checked_indexes
from intarsia.embed.many import check_location, check_named_columns, write_lake_index
from intarsia.embed.parts import Part
from intarsia.embed.report import IndexedFile, IndexReport, Progress
from intarsia.embed.structures import Attachables
from intarsia.errors import FilesFailedError, IntarsiaError, RunInterrupted
from intarsia.lake.data_file import DataFile
from intarsia.lake.discovery import find_files
from intarsia.lake.each_file import FileFailure, ShowDone
from intarsia.lake.index.folder import Location
from intarsia.spark.each_file import run_on_files
from intarsia.spark.lake_files import Source, list_lake
from intarsia.spark.large_files import divide_large_files, run_by_row_groups
from intarsia.spark.progress_line import reporter
from intarsia.spark.shipping import Shipped, pack_index, unpack_index
from intarsia.spark.unchanged import find_unchanged

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

    from intarsia.lake.index.build import LakeIndexReport


def index(
    spark: SparkSession,
    path: Source,
    indexes: Attachables,
    *,
    lake_index: Location | None = None,
    on_error: Literal["report", "raise"] = "report",
    max_failures: int | None = None,
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
        path: A file, a folder, a glob, a URL, the name of a table in the catalog, or a list of these.
        indexes: The indexes to attach, such as ``[ia.PageIndex(), ia.Distinct("country")]``.
        lake_index: Where to build the lake index (see `intarsia.Table.build_lake_index`) at the end:
            ``"cache"`` for the cache folder of the driver's user, ``"beside"`` for the folder ``_intarsia``
            in the lake. None updates an existing lake index, but does not create one. The driver builds it
            from footers and indexes.
        on_error: ``"raise"`` to raise `FilesFailedError` at the end if files failed.
        max_failures: Stop when more files have failed, and raise `FilesFailedError`. The job then runs in
            parts, which double in size, because results arrive at the end of each part.
        progress: Called as ``progress(done, total, label)``; True to print a line on stderr if it is a
            terminal.

    Returns:
        The outcome for each file; `report_frame` converts it to a DataFrame.

    Raises:
        FilesFailedError: If files failed, as requested by ``on_error`` and ``max_failures``; ``report`` has
            the files that were processed.
        UnsupportedFeatureError: If a name is that of a view, or of a table of another format.
        FileNotFoundError: If the path does not exist.
        IndexBuildError: If an element of ``indexes`` is not an index or names a partition column, or if no
            installed package registers its class as an entry point.
        ValueError: If a lake index cannot be stored there, such as ``"beside"`` on a web server.
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
    requested = checked_indexes(indexes)
    shipped = tuple(map(pack_index, requested))
    lake = list_lake(spark, path)
    files = lake.files
    check_named_columns(list(files.values()), requested)
    if lake_index is not None:
        check_location(find_files(lake.names), lake_index)
    report = reporter(progress, "files")

    def work(file: str, parts: Sequence[Part] = ()) -> str:
        return _attach_one(file, shipped, parts).to_json()

    def is_failure(outcome: str) -> bool:
        return IndexedFile.from_json(outcome).error is not None

    report(0, len(files), "indexing")
    outcomes = find_unchanged(files, requested)
    known = len(outcomes)
    report(known, len(files), "indexing")
    sizes = {file: size for file, size in lake.sizes.items() if file not in outcomes}
    divided = divide_large_files(files, sizes, requested)
    found: list[str] = []
    try:
        if divided:
            found += run_by_row_groups(
                spark,
                divided,
                shipped,
                work,
                lambda done, total: report(known + done * len(divided) // total, len(files), "indexing"),
            )
            known += len(divided)
        allowed = None if max_failures is None else max_failures - sum(map(is_failure, found))
        if allowed is None or allowed >= 0:
            found += run_on_files(
                spark,
                {file: size for file, size in sizes.items() if file not in divided},
                work,
                lambda done: report(known + done, len(files), "indexing"),
                is_failure,
                allowed,
            )
    except KeyboardInterrupt as stop:
        outcomes |= _replaced_files(spark, path, files)
        seconds = time.perf_counter() - started
        stopped = IndexReport(_by_path(outcomes), seconds, lake.others, files_found=len(files))
        raise RunInterrupted(len(outcomes), len(files), stopped) from stop
    # by path, because Spark may return two results of a task that ran twice
    outcomes |= {outcome.path: outcome for outcome in map(IndexedFile.from_json, found)}
    added = _write_lake_index(
        lake.names, lake_index, lambda done: report(int(done), len(files), "lake index")
    )
    seconds = time.perf_counter() - started
    result = IndexReport(_by_path(outcomes), seconds, lake.others, added, len(files))
    too_many = max_failures is not None and result.files_failed > max_failures
    if too_many or (on_error == "raise" and result.files_failed):
        raise _failed(result)
    return result


def _failed(report: IndexReport) -> FilesFailedError:
    errors = {
        file["path"]: IntarsiaError(file["error"], reason=file["code"], path=file["path"])
        for file in report.failed
    }
    num_processed, total = len(report.per_file), report.files_total
    left = total - num_processed
    rest = f"; {left:,} of {total:,} files were not processed" if left else "; the rest are indexed"
    first = report.failed[0]
    return FilesFailedError(
        errors,
        report,
        f"{report.files_failed:,} of {num_processed:,} files failed{rest}; the first is "
        f"{first['path']}: {first['error']}",
    )


def _write_lake_index(
    names: str | list[str], location: Location | None, show: ShowDone
) -> LakeIndexReport | None:
    try:
        return write_lake_index(names, location, show)
    except Exception:
        if location is not None:
            raise
        return None  # a store that only Spark can list


def _by_path(outcomes: Mapping[str, IndexedFile]) -> tuple[IndexedFile, ...]:
    return tuple(outcomes[file] for file in sorted(outcomes))


def _replaced_files(
    spark: SparkSession, path: Source, before: Mapping[str, DataFile]
) -> dict[str, IndexedFile]:
    """Return the files whose sizes changed since they were listed; a cancelled job returns no results."""
    sizes = list_lake(spark, path).sizes
    return {
        file: IndexedFile(file, listed.size_bytes, sizes[file])
        for file, listed in before.items()
        if sizes.get(file, listed.size_bytes) != listed.size_bytes
    }


def _attach_one(path: str, shipped: Sequence[Shipped], parts: Sequence[Part]) -> IndexedFile:
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
