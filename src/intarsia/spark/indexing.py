"""`index`: attach indexes to every file of a lake, in a Spark job."""

from __future__ import annotations

import glob
import os
import time
from collections.abc import Mapping, Sequence
from itertools import accumulate
from typing import TYPE_CHECKING, TypeAlias

from intarsia.embed.attach import Attachables, attach_file, checked_indexes
from intarsia.embed.index_report import IndexedFile, IndexReport
from intarsia.embed.lake_index import check_location, write_lake_index
from intarsia.embed.named_columns import check_named_columns
from intarsia.embed.progress import Progress
from intarsia.errors import ListingError, RunInterrupted
from intarsia.lake.data_file import DataFile
from intarsia.lake.discovery import find_files
from intarsia.lake.each_file import FileFailure, ShowDone
from intarsia.lake.folder import NameKind, name_kind
from intarsia.lake.index.folder import Location
from intarsia.spark.job import run_tasks
from intarsia.spark.listing import list_by_spark, python_path
from intarsia.spark.progress_line import reporter
from intarsia.spark.shipping import Shipped, pack_index, unpack_index
from intarsia.spark.tasks import tasks_of
from intarsia.spark.unchanged import find_unchanged

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

    from intarsia.lake.index.build import LakeIndexReport

Source: TypeAlias = "str | os.PathLike[str] | Sequence[str | os.PathLike[str]]"


def index(
    spark: SparkSession,
    path: Source,
    indexes: Attachables,
    *,
    lake_index: Location | None = None,
    progress: Progress | bool = True,
) -> IndexReport:
    """Attach indexes to every Parquet file of a lake. A task processes one large file or several small ones.

    Each file is replaced atomically (see `intarsia.attach`), so the job can be stopped, retried and run
    again at any time. Files that already have the indexes are not changed. Bad files are reported; the rest
    are still indexed.

    The executors need this package. Set the environment variable ``PYSPARK_PYTHON`` to a Python that has it
    before the session starts (``sys.executable`` for a local session). The executors must reach the files
    under the same paths, in a shared folder or an object store.

    Args:
        spark: The session; classic or Connect.
        path: A file, a folder, a glob, a URL, or a list of these.
        indexes: The indexes to attach, such as ``[ia.PageIndex(), ia.Distinct("country")]``.
        lake_index: Where to build the lake index (see `intarsia.Table.build_lake_index`) at the end:
            ``"cache"`` for the cache folder of the driver's user, ``"beside"`` for the folder ``_intarsia``
            in the lake. None updates an existing one, and creates none. The driver builds it from footers and
            indexes.
        progress: Called as ``progress(done, total, label)``; True to print a line on stderr if it is a
            terminal.

    Returns:
        The outcome for each file.

    Raises:
        FileNotFoundError: If the path does not exist.
        IndexBuildError: If an element of ``indexes`` is not an index or names a partition column, or if no
            installed package declares its class as an entry point.
        ValueError: If a lake index cannot be there, such as ``"beside"`` in an object store.
        ColumnNotFoundError: If none of the files that were read has a column of an index. These are the first
            file, the last and up to 62 others. Nothing is indexed then.
        RunInterrupted: At Ctrl-C. The job is cancelled, and another run skips the files that are done.
            ``report`` has these files; those of this run with their sizes, but not the names of indexes.

    Example:
        >>> import intarsia as ia
        >>> from intarsia import spark as ias
        >>> report = ias.index(spark, "lake/", [ia.PageIndex(), ia.Distinct("dest")])  # doctest: +SKIP
        >>> print(report)  # doctest: +SKIP
        indexed 12 of 12 files in 3.1 s
        1.4 MB added to 31.0 MB (4.5%)
    """
    started = time.perf_counter()
    asked = checked_indexes(indexes)
    shipped = tuple(map(pack_index, asked))
    files, others = _list(spark, path)
    check_named_columns(list(files.values()), asked)
    names = _python_names(path)
    if lake_index is not None:
        check_location(find_files(names), lake_index)
    report = reporter(progress, "files")

    def work(file: str) -> str:
        return _attach_one(file, shipped).to_json()

    report(0, len(files), "indexing")
    outcomes = find_unchanged(files, asked)
    tasks = tasks_of({file: listed.size_bytes for file, listed in files.items() if file not in outcomes})
    files_done = list(accumulate(map(len, tasks), initial=len(outcomes)))
    report(files_done[0], len(files), "indexing")
    try:
        found = run_tasks(
            spark, tasks, work, lambda done, _: report(files_done[done], len(files), "indexing")
        )
    except KeyboardInterrupt as stop:
        outcomes |= _replaced_files(spark, path, files)
        seconds = time.perf_counter() - started
        stopped = IndexReport(_by_path(outcomes), seconds, others)
        raise RunInterrupted(len(outcomes), len(files), stopped) from stop
    # by path, because Spark may return two results of a task that ran twice
    outcomes |= {outcome.path: outcome for outcome in map(IndexedFile.from_json, found)}
    added = _write_lake_index(names, lake_index, lambda done: report(int(done), len(files), "lake index"))
    return IndexReport(_by_path(outcomes), time.perf_counter() - started, others, added)


def _python_names(path: Source) -> str | list[str]:
    names = [python_path(os.fspath(item)) for item in _items(path)]
    return names[0] if len(names) == 1 else names


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
    now, _ = _list(spark, path)
    sizes = {file: listed.size_bytes for file, listed in now.items()}
    return {
        file: IndexedFile(file, listed.size_bytes, sizes[file])
        for file, listed in before.items()
        if sizes.get(file, listed.size_bytes) != listed.size_bytes
    }


def _attach_one(path: str, shipped: Sequence[Shipped]) -> IndexedFile:
    """Attach indexes to one file, on an executor."""
    started = time.perf_counter()
    try:
        report = attach_file(path, [unpack_index(item) for item in shipped])
    except Exception as error:  # noqa: BLE001  one bad file must not stop the others
        size = os.path.getsize(path) if os.path.isfile(path) else 0
        text = f"{type(error).__name__}: {str(error).removeprefix(f'{path}: ')}"
        code = FileFailure(path, error).code
        return IndexedFile(path, size, size, error=text, code=code, seconds=time.perf_counter() - started)
    return IndexedFile.of(report)


def _items(path: Source) -> Sequence[str | os.PathLike[str]]:
    return [path] if isinstance(path, str | os.PathLike) else path


def _list(spark: SparkSession, path: Source) -> tuple[dict[str, DataFile], int]:
    """Return the distinct files under names that Python can open, and the number of other files."""
    found: dict[str, DataFile] = {}
    others: set[str] = set()
    for item in _items(path):
        name = python_path(os.fspath(item))
        try:
            chosen = find_files(name)
            listed: Sequence[DataFile] = chosen.files
            others.update(chosen.others)
        except (FileNotFoundError, ListingError):
            raise
        except Exception:  # noqa: BLE001  a store that only Spark can list; Spark then raises the clearer error
            listed, beside = _choose(os.fspath(item), list_by_spark(spark, os.fspath(item)))
            others.update(beside)
        for file in listed:
            found.setdefault(file.path if file.is_remote else os.path.abspath(file.path), file)
    return found, len(others)


def _choose(item: str, listed: Sequence[DataFile]) -> tuple[list[DataFile], list[str]]:
    """Divide the files that Spark listed below a path into those to index and the paths of the others."""
    names = {file.uri: file.uri.rpartition("/")[2] for file in listed}
    is_named = list(names.values()) == [item.rstrip("/").rpartition("/")[2]]
    others = [uri for uri, name in names.items() if name_kind(name) is NameKind.OTHER]
    if is_named or glob.has_magic(item):
        others = []
    # files without an extension are tried, because Python may be unable to read their first bytes
    return [file for file in listed if file.uri not in others], others
