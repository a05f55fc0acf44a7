"""`attach` and `detach`, for one file and for many."""

from __future__ import annotations

import os
import time
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import replace
from functools import partial
from typing import TYPE_CHECKING, Any, TypeAlias, TypeVar, overload

from intarsia.embed.attach import attach_file, checked_indexes, partition_error_of
from intarsia.embed.original import detach_file
from intarsia.embed.report import (
    AttachReport,
    DetachReport,
    IndexedFile,
    IndexReport,
    Progress,
    RestoreReport,
    no_progress,
)
from intarsia.embed.structures import Attachable, Attachables
from intarsia.errors import (
    ColumnNotFoundError,
    CorruptFileError,
    FilesFailedError,
    FormatError,
    IntarsiaError,
    PredicateError,
)
from intarsia.file import ParquetInput
from intarsia.lake.data_file import DataFile, FileFailure, FileResults, ShowDone, for_each_file
from intarsia.lake.discovery import FoundFiles, find_files, is_table_url
from intarsia.lake.index.folder import Location
from intarsia.lake.table_files import TableFiles
from intarsia.predicate.columns import find_column
from intarsia.read.report import warn_caller
from intarsia.storage import StorageOptions, local_path

if TYPE_CHECKING:
    from intarsia.lake.index.build import FactsReader, LakeIndexReport
    from intarsia.predicate.nodes import ColumnName


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
        FilesFailedError: If some of many files failed, or the lake index could not be written. The others are
            indexed; ``report`` is the combined report, and ``errors`` has the error of each file.
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
    attach_one = partial(attach_file, indexes=requested, progress=progress, storage_options=storage_options)
    listed = _find_many(path, attach_one, storage_options)
    if isinstance(listed, AttachReport):
        return listed
    check_named_columns(listed.files, requested)
    place = check_location(listed, lake_index)
    show = _file_progress(progress, listed.paths)
    report, failed = attach_files(listed, requested, show, storage_options)
    try:
        added = write_lake_index(path, lake_index, storage_options=storage_options)
    except (IntarsiaError, OSError) as error:  # the files are done
        if lake_index is None:
            raise
        errors = {failure.path: failure.error for failure in failed}
        raise without_lake_index(report, errors, place, error) from error
    report = replace(report, lake_index=added)
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
        ChangedMeanwhileError: If another process changed the file, in two attempts in a row.
        ReplacedWhileReadError: If the file was replaced while it was read, in two attempts in a row.
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
    listed = _find_many(path, partial(detach_file, storage_options=storage_options), storage_options)
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
        files = list(map(IndexedFile.of, results.done))
        files += [IndexedFile(one.path, error=one.reason, code=one.code) for one in results.failed]
        files.sort(key=lambda file: file.path)
        seconds = time.perf_counter() - started
        return IndexReport(tuple(files), seconds, len(listed.others), files_found=len(listed.paths))

    results = for_each_file(listed.paths, attach_one, show, report_of)
    return report_of(results), results.failed


def detach_files(
    listed: FoundFiles, show: ShowDone, storage_options: StorageOptions | None = None
) -> RestoreReport:
    """Restore each file; the report contains files that failed."""
    started = time.perf_counter()

    def detach_one(path: str, _: ShowDone) -> DetachReport:
        return detach_file(path, storage_options=storage_options)

    def report_of(results: FileResults[DetachReport]) -> RestoreReport:
        done, failed, seconds = tuple(results.done), tuple(results.failed), time.perf_counter() - started
        return RestoreReport(done, failed, seconds, len(listed.others), len(listed.paths))

    return report_of(for_each_file(listed.paths, detach_one, show, report_of))


def _find_many(
    path: Path | Sequence[Path], act: Callable[[str], _Report], storage_options: StorageOptions | None
) -> _Report | FoundFiles:
    """Run the action if the path is one file and return its result; else return the files of the path."""
    if isinstance(path, (str, os.PathLike)):
        path = os.fspath(path)
        local = local_path(path)
        if local is not None and os.path.lexists(local) and not os.path.isdir(local):
            return act(path)
        if local is None and not is_table_url(path) and not path.endswith("/"):
            try:
                return act(path)
            except (FileNotFoundError, CorruptFileError):
                # a folder, for which Azure can have an empty object, or missing
                listed = find_files(path, storage_options)
                if listed.paths == [path]:
                    raise
                return listed
    return find_files(path, storage_options)  # several files, a folder, a glob, or missing


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


def without_lake_index(
    report: IndexReport, errors: Mapping[str, Exception], place: str, error: Exception
) -> FilesFailedError:
    """Return the error of a run that could not write the lake index.

    Args:
        report: The report of the files.
        errors: The error of each file that failed.
        place: The path of the lake index.
        error: The error of the lake index.
    """
    done = report.files_indexed + report.files_unchanged
    return FilesFailedError(
        {place: error, **errors},
        report,
        f"{done:,} of {report.files_total:,} files have the indexes, but the lake index could not be "
        f"written; run it again: {place}: {FileFailure(place, error).reason}",
    )


#: Maximum number of footers to read in search of a column.
MAX_FILES_READ = 64


def check_named_columns(files: Sequence[DataFile], indexes: Iterable[Attachable]) -> None:
    """Check that each column of the indexes exists in some file.

    Some files may lack a column, because it was added to the table later. So the first file, the last one and
    files between them are read, at most `MAX_FILES_READ`, until each column is found. Unreadable files are
    skipped.

    Raises:
        ColumnNotFoundError: If none of the files that were read has a column.
        IndexBuildError: If the column is a partition column.
    """
    missing = dict.fromkeys(column for index in indexes for column in index.columns)
    first_errors: dict[ColumnName, ColumnNotFoundError] = {}
    for file in _spread(files) if missing else ():
        try:
            with ParquetInput(file.open()) as opened:
                schema = opened.arrow_schema
        except TimeoutError:  # of a signal handler
            raise
        except (FormatError, OSError):
            continue
        for column in list(missing):
            try:
                find_column(schema, column)
            except ColumnNotFoundError as error:
                first_errors.setdefault(column, error)
                continue
            except PredicateError:  # it exists; each file decides whether it can be indexed
                pass
            del missing[column]
        if not missing:
            return
    for column in missing:
        if column in first_errors:
            found = first_errors[column]
            raise partition_error_of(files[0].path, found) or found


def _spread(files: Sequence[DataFile]) -> Iterator[DataFile]:
    """Yield the first file, the last one, then files spread evenly between them."""
    count = min(len(files), MAX_FILES_READ)
    ordinals = [round(position * (len(files) - 1) / max(1, count - 1)) for position in range(count)]
    for ordinal in dict.fromkeys([*ordinals[:1], *ordinals[-1:], *ordinals]):
        yield files[ordinal]


def check_location(listed: FoundFiles, location: Location | None, root: str | None = None) -> str:
    """Raise an error, before any file is changed, if a lake index cannot be at a location.

    Args:
        listed: The files.
        location: Where to build the lake index, if anywhere.
        root: The folder of the table that has these files, among others; None for other sources.

    Returns:
        The path of the lake index, which need not exist; empty without a location.

    Raises:
        IndexBuildError: If there is a single file.
        ValueError: If the location is unknown or impossible, or the files have no common root.
    """
    return _table(listed, root).lake_index.folder_at(location).path if location is not None else ""


def write_lake_index(
    source: str | os.PathLike[str] | Sequence[str | os.PathLike[str]],
    location: Location | None,
    show: ShowDone = lambda _: None,
    storage_options: StorageOptions | None = None,
    read: FactsReader | None = None,
    root: str | None = None,
) -> LakeIndexReport | None:
    """Build the lake index of files, or update an existing one.

    Args:
        source: The files, as for `intarsia.open`. They are listed again, because objects have new ETags.
        location: Where to build it; None to update an existing lake index without creating one.
        show: Called with the number of files that are done.
        storage_options: Options of the stores of URLs.
        read: Reads the facts of files; None for threads of this process.
        root: As in `check_location`.

    Returns:
        The files that were added; None if there is no lake index.

    Raises:
        OSError: If a requested lake index cannot be written. For an update, this is a warning.
    """
    if location is not None:
        table = _table(find_files(source, storage_options), root)
        return table.lake_index.build(location, show, wait=True, read=read)
    try:
        return _table(find_files(source, storage_options), root).lake_index.update(show, read)
    except OSError as error:
        warn_caller(f"the lake index was not updated: {error}; the results of queries are still correct")
        return None


def _table(listed: FoundFiles, root: str | None = None) -> TableFiles:
    return TableFiles(listed.files, root=root or listed.root, has_all=root is None)
