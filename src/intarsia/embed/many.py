"""`attach` and `detach`, for one file and for many."""

from __future__ import annotations

import os
import time
from collections.abc import Callable, Sequence
from dataclasses import replace
from functools import partial
from typing import Any, TypeAlias, TypeVar, overload

from intarsia.embed.attach import Attachable, Attachables, attach_file, checked_indexes
from intarsia.embed.detach import detach_file
from intarsia.embed.index_report import IndexedFile, IndexReport
from intarsia.embed.lake_index import check_location, write_lake_index
from intarsia.embed.named_columns import check_named_columns
from intarsia.embed.progress import Progress, no_progress
from intarsia.embed.report import AttachReport, DetachReport
from intarsia.embed.restore_report import RestoreReport
from intarsia.errors import CorruptFileError, FilesFailedError, RunInterrupted
from intarsia.lake.discovery import FoundFiles, find_files, is_table_url
from intarsia.lake.each_file import FileFailure, FileResults, ShowDone, for_each_file
from intarsia.lake.index.folder import Location
from intarsia.storage import StorageOptions, local_path

Path: TypeAlias = "str | os.PathLike[str]"

_Report = TypeVar("_Report")


# Whether a path is one file or a folder is not in its type: `| Any` makes type checkers accept the report of
# one file. A list always has the combined report; the overloads overlap, because a str is a sequence, too.
@overload
def attach(  # type: ignore[overload-overlap]
    path: Path,
    indexes: Attachables,
    *,
    lake_index: Location | None = None,
    progress: Progress | None = None,
    storage_options: StorageOptions | None = None,
) -> AttachReport | Any: ...
@overload
def attach(
    path: Sequence[Path],
    indexes: Attachables,
    *,
    lake_index: Location | None = None,
    progress: Progress | None = None,
    storage_options: StorageOptions | None = None,
) -> IndexReport: ...
def attach(
    path: Path | Sequence[Path],
    indexes: Attachables,
    *,
    lake_index: Location | None = None,
    progress: Progress | None = None,
    storage_options: StorageOptions | None = None,
) -> AttachReport | IndexReport:
    """Add indexes to a Parquet file, or to each file of a lake.

    The original bytes remain unchanged at the start of the file, and `detach` restores them. Each file is
    replaced atomically and keeps its modification time, because its rows do not change. An index that is
    already attached is kept. An index of the same kind, columns and granularity but with other parameters
    replaces the old one. A run over many files can be interrupted and started again.

    Args:
        path: A local file, or the URL of an object in a store that supports conditional puts; or a folder, a
            glob or a list of these. In a folder, it selects the same files as `intarsia.open`. The URL of a
            Delta table, such as ``delta+file:///lake/trips``, selects the files of its current version.
        indexes: One index or several.
        lake_index: For many files, where to build their lake index (see `Table.build_lake_index`):
            ``"cache"`` or ``"beside"``. None updates an existing lake index, but does not create one.
        progress: Called as ``progress(done_units, total_units, label)``. For many files the unit is a file,
            and the label is its path.
        storage_options: Options of the stores of URLs, as for `intarsia.open`. An object of more than 5,000
            MiB is replaced only with ``"overwrite": "last-writer-wins"``.

    Returns:
        For the path of one file, its report. For a folder, a glob or a list, whatever the number of
        files, the combined report. Both have ``built``, ``kept``, ``notes``, ``changed``, ``bytes_before``,
        ``bytes_after``, ``bytes_added``, ``seconds`` and ``to_dict()``.

    Raises:
        FileNotFoundError: If the path does not exist, or a folder has no Parquet file.
        CorruptFileError: If the file is not a Parquet file, or is damaged.
        UnsupportedFeatureError: If the file is encrypted, signed or has no columns.
        NewerDirectoryError: If a later version of Intarsia attached indexes to the file.
        IndexBuildError: If an element of ``indexes`` is not an index, occurs twice, has invalid parameters,
            names a partition column that files lack, or cannot be built on its columns.
        ColumnNotFoundError: If a column does not exist; the message suggests similar names. For many files,
            the first file, the last and up to 62 others are read; if none has the column, no file is changed.
        ReplaceError: If the new file cannot be written, or an object is too large.
        ChangedMeanwhileError: If another process changed the file, in two attempts in a row.
        ReplacedWhileReadError: If the file was replaced while it was read, in two attempts in a row.
        ObjectStoreError: If the store of a URL cannot be reached, refuses the request, or is unknown.
        FilesFailedError: If some of many files failed. The others are indexed; ``report`` is the combined
            report, and ``errors`` has the error of each file.
        RunInterrupted: If a run over many files is interrupted (Ctrl-C). Another run skips the files that are
            done; ``report`` is the report of these.

    After an error the file is unchanged.

    Example:
        >>> import intarsia as ia, pyarrow as pa, pyarrow.parquet as pq, tempfile, os
        >>> folder = tempfile.mkdtemp()
        >>> for name in ("a", "b"):
        ...     rows = pa.table({"city": ["Bern", "Basel"] * 500})
        ...     pq.write_table(rows, os.path.join(folder, f"{name}.parquet"))
        >>> report = ia.attach(os.path.join(folder, "a.parquet"), [ia.PageIndex(), ia.Distinct("city")])
        >>> report.built, report.bytes_added > 0
        (('page_index', 'distinct(city):page'), True)
        >>> report = ia.attach(folder, ia.Distinct("city"))
        >>> report.files_total, report.files_indexed, report.files_unchanged
        (2, 1, 1)
    """
    requested = checked_indexes(indexes)

    def attach_one(path: str) -> AttachReport:
        return attach_file(path, requested, progress=progress, storage_options=storage_options)

    listed = _find_many(path, attach_one, storage_options)
    if isinstance(listed, AttachReport):
        return listed
    check_named_columns(listed.files, requested)
    check_location(listed, lake_index)
    files = listed.paths
    report, failed = attach_files(listed, requested, _file_progress(progress, files), storage_options)
    written = write_lake_index(path, lake_index, storage_options=storage_options)
    report = replace(report, lake_index=written)
    if failed:
        raise _failed(report, failed, report.files_total, "indexed")
    return report


@overload
def detach(  # type: ignore[overload-overlap]
    path: Path, *, storage_options: StorageOptions | None = None
) -> DetachReport | Any: ...
@overload
def detach(path: Sequence[Path], *, storage_options: StorageOptions | None = None) -> RestoreReport: ...
def detach(
    path: Path | Sequence[Path], *, storage_options: StorageOptions | None = None
) -> DetachReport | RestoreReport:
    """Restore the original file, or each file of a lake, if indexes are attached.

    Indexes that `intarsia.write_table` wrote are removed, too.

    Args:
        path: A local file, or the URL of an object in a store that supports conditional puts; or a folder, a
            glob or a list of these. In a folder, it selects the same files as `intarsia.open`. The URL of a
            Delta table, such as ``delta+file:///lake/trips``, selects the files of its current version.
        storage_options: Options of the stores of URLs, as for `attach`.

    Returns:
        For the path of one file, its report; ``detached`` is False if nothing was attached, and the
        file is then unchanged. For a folder, a glob or a list, the combined report. Both have ``detached``,
        ``removed``, ``bytes_before``, ``bytes_after``, ``seconds`` and ``to_dict()``.

    Raises:
        FileNotFoundError: If the path does not exist, or a folder has no Parquet file.
        CorruptFileError: If the file is not a Parquet file, or is damaged.
        UnsupportedFeatureError: If the file is encrypted or signed.
        IndexPayloadError: If the file's directory of indexes belongs to another file.
        NewerDirectoryError: If a later version of Intarsia attached indexes to the file.
        ReplaceError: If the file cannot be replaced.
        ChangedMeanwhileError: If another process changed the file.
        ReplacedWhileReadError: If the file was replaced while it was read.
        ObjectStoreError: If the store of a URL cannot be reached, refuses the request, or is unknown.
        FilesFailedError: If some of many files failed. The others are restored; ``report`` is the combined
            report, and ``errors`` has the error of each file.
        RunInterrupted: If a run over many files is interrupted (Ctrl-C). Another run skips the files that are
            done; ``report`` is the report of these.

    After an error the file is unchanged.

    Example:
        >>> import intarsia as ia, pyarrow as pa, pyarrow.parquet as pq, tempfile, os
        >>> path = os.path.join(tempfile.mkdtemp(), "t.parquet")
        >>> pq.write_table(pa.table({"city": ["Bern", "Basel"] * 500}), path)
        >>> size = os.path.getsize(path)
        >>> _ = ia.attach(path, ia.Distinct("city"))
        >>> ia.detach(path).removed, os.path.getsize(path) == size
        (('distinct(city):page',), True)
        >>> ia.detach(os.path.dirname(path)).files_detached
        0
    """
    detach_one = partial(detach_file, storage_options=storage_options)
    listed = _find_many(path, detach_one, storage_options)
    if isinstance(listed, DetachReport):
        return listed
    report = detach_files(listed, lambda _: None, storage_options)
    if report.failed:
        raise _failed(report, report.failed, report.files_total, "restored")
    return report


def attach_files(
    listed: FoundFiles,
    indexes: Sequence[Attachable],
    show: ShowDone,
    storage_options: StorageOptions | None = None,
) -> tuple[IndexReport, list[FileFailure]]:
    """Add indexes to each file; return a report, which contains failed files, and the failures."""
    started = time.perf_counter()

    def attach_one(path: str, show_part: ShowDone) -> AttachReport:
        return attach_file(
            path,
            indexes,
            progress=lambda done, total, _: show_part(done / max(1, total)),
            storage_options=storage_options,
        )

    def report_of(results: FileResults[AttachReport]) -> IndexReport:
        outcomes = [IndexedFile.of(report) for report in results.done]
        outcomes += [
            IndexedFile(failure.path, error=failure.reason, code=failure.code) for failure in results.failed
        ]
        per_file = tuple(sorted(outcomes, key=lambda outcome: outcome.path))
        seconds = time.perf_counter() - started
        return IndexReport(per_file, seconds, len(listed.others), files_found=len(listed.paths))

    results = _for_each_file(listed, attach_one, show, report_of)
    return report_of(results), results.failed


def detach_files(
    listed: FoundFiles, show: ShowDone, storage_options: StorageOptions | None = None
) -> RestoreReport:
    """Restore each file; the report contains files that failed."""
    started = time.perf_counter()

    def report_of(results: FileResults[DetachReport]) -> RestoreReport:
        seconds = time.perf_counter() - started
        return RestoreReport(
            tuple(results.done), tuple(results.failed), seconds, len(listed.others), len(listed.paths)
        )

    def detach_one(path: str, _: ShowDone) -> DetachReport:
        return detach_file(path, storage_options=storage_options)

    return report_of(_for_each_file(listed, detach_one, show, report_of))


def _for_each_file(
    listed: FoundFiles,
    act: Callable[[str, ShowDone], _Report],
    show: ShowDone,
    report_of: Callable[[FileResults[_Report]], object],
) -> FileResults[_Report]:
    """Run an action on each file; after Ctrl-C, raise an error with the report of the finished files."""
    try:
        return for_each_file(listed.paths, act, show)
    except RunInterrupted as stop:
        results: Any = stop.report
        raise RunInterrupted(stop.files_done, stop.files_total, report_of(results)) from stop.__cause__


def _find_many(
    path: Path | Sequence[Path], act: Callable[[str], _Report], storage_options: StorageOptions | None
) -> _Report | FoundFiles:
    """Run the action if the path is one file and return its result; else return the files of the path."""
    if not isinstance(path, (str, os.PathLike)):
        return find_files(path, storage_options)
    name = os.fspath(path)
    if is_table_url(name):
        return find_files(name, storage_options)
    local = local_path(name)
    if local is not None:
        is_one = os.path.lexists(local) and not os.path.isdir(local)
        return act(name) if is_one else find_files(name, storage_options)  # a folder, a glob, or missing
    if name.endswith("/"):
        return find_files(name, storage_options)
    try:
        return act(name)
    except (FileNotFoundError, CorruptFileError):
        # a folder, for which Azure can have an empty object, or missing
        listed = find_files(name, storage_options)
        if listed.paths == [name]:
            raise
        return listed


def _file_progress(progress: Progress | None, files: Sequence[str]) -> ShowDone:
    """Report the progress in whole files."""
    show_progress = progress or no_progress
    shown = -1

    def show(done: float) -> None:
        nonlocal shown
        if int(done) > shown:
            shown = int(done)
            label = files[shown] if shown < len(files) else ""
            show_progress(shown, len(files), label)

    return show


def _failed(report: Any, failed: Sequence[FileFailure], num_files: int, done: str) -> FilesFailedError:
    return FilesFailedError(
        {failure.path: failure.error for failure in failed},
        report,
        f"{len(failed):,} of {num_files:,} files failed, the rest are {done}: "
        + "; ".join(f"{failure.path}: {failure.reason}" for failure in failed),
    )
