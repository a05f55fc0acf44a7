"""`index`: attach indexes to every file of a lake, as a Spark job."""

from __future__ import annotations

import glob
import json
import os
import sys
import time
from collections.abc import Sequence
from itertools import accumulate
from typing import TYPE_CHECKING, TypeAlias

from intarsia.embed import Bloom, PageIndex, Statistics
from intarsia.embed.attach import STANDARD, Attachable, Attachables, attach_file, checked_indexes
from intarsia.embed.index_report import IndexedFile, IndexReport
from intarsia.embed.named_columns import check_named_columns
from intarsia.embed.progress import Progress
from intarsia.errors import IndexBuildError, ListingError
from intarsia.indexes.base import parameters
from intarsia.indexes.registry import GROUP, find_index_class, why_unknown
from intarsia.lake.data_file import DataFile
from intarsia.lake.discovery import find_files
from intarsia.lake.folder import NameKind, name_kind
from intarsia.spark.job import run_tasks
from intarsia.spark.listing import list_by_spark, python_path
from intarsia.spark.tasks import tasks_of

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

Source: TypeAlias = "str | os.PathLike[str] | Sequence[str | os.PathLike[str]]"

#: An index on its way to an executor: its kind, and its parameters as JSON; one of Parquet's own as it is.
Shipped: TypeAlias = "tuple[str, str] | PageIndex | Statistics | Bloom"


def index(
    spark: SparkSession,
    path: Source,
    indexes: Attachables,
    *,
    progress: Progress | bool = True,
) -> IndexReport:
    """Attach indexes to every Parquet file of a lake: a task for each large file, or for several small ones.

    Each file is replaced atomically (see `intarsia.attach`), so the job may be stopped, retried and run
    again at any time; files that have the indexes already are left alone. A file that fails is reported, and
    the others are done.

    The executors need this package: set the environment variable ``PYSPARK_PYTHON`` to a Python that has it
    before the session starts (``sys.executable`` for a local session). They must see the files under the same
    path: a folder that all machines share, or an object store.

    Args:
        spark: The session; classic or Connect.
        path: A file, a folder, a glob, a list of these, or a URL.
        indexes: What to attach, such as ``[ia.PageIndex(), ia.Distinct("country")]``.
        progress: Called as ``progress(done, total, label)``; True for a line on a terminal's stderr.

    Returns:
        What was done to each file.

    Raises:
        FileNotFoundError: If nothing is there.
        IndexBuildError: If something in ``indexes`` is no index, is of a class that no package announces, or
            names a partition column.
        ColumnNotFoundError: If an index names a column that no file has: neither the first, nor the last, nor
            those between them, of which at most 64 are read. Nothing is indexed then.

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
    shipped = tuple(map(_shipped, asked))
    files, others = _list(spark, path)
    check_named_columns(list(files.values()), asked)
    tell = _teller(progress)

    def work(file: str) -> str:
        return _attach_one(file, shipped).to_json()

    tasks = tasks_of({file: listed.size_bytes for file, listed in files.items()})
    files_done = [0, *accumulate(map(len, tasks))]
    tell(0, len(files), "indexing")
    found = run_tasks(spark, tasks, work, lambda done, _: tell(files_done[done], len(files), "indexing"))
    # the set: a task that Spark ran twice may have answered twice
    outcomes = {outcome.path: outcome for outcome in map(IndexedFile.from_json, found)}
    per_file = tuple(outcomes[file] for file in sorted(outcomes))
    return IndexReport(per_file, time.perf_counter() - started, others)


def _attach_one(path: str, shipped: Sequence[Shipped]) -> IndexedFile:
    """Runs on an executor."""
    started = time.perf_counter()
    try:
        report = attach_file(path, [_unpacked(item) for item in shipped])
    except Exception as error:  # noqa: BLE001  whatever is wrong with one file must not stop the others
        size = os.path.getsize(path) if os.path.isfile(path) else 0
        text = f"{type(error).__name__}: {str(error).removeprefix(f'{path}: ')}"
        return IndexedFile(path, size, size, error=text, seconds=time.perf_counter() - started)
    return IndexedFile.of(report)


def _shipped(index: Attachable) -> Shipped:
    """An index as it goes to the executors.

    An index class may be anybody's. So an index goes as it stands in a file, by kind and parameters, and each
    executor finds the class in its own packages, as those who read the files will have to.
    """
    if isinstance(index, STANDARD):
        return index
    found = find_index_class(index.kind)
    if found is not type(index):
        cls = type(index)
        raise IndexBuildError(
            f"{index!r} cannot be sent to Spark's executors, since no installed package announces its class; "
            f'announce {index.kind} = "{cls.__module__}:{cls.__qualname__}" in the entry-point group '
            f"{GROUP!r}, and install the package here and on the executors"
        )
    return index.kind, json.dumps(parameters(index))


def _unpacked(shipped: Shipped) -> Attachable:
    """The index again, on an executor."""
    if not isinstance(shipped, tuple):
        return shipped
    kind, stored = shipped
    cls = find_index_class(kind)
    if cls is None:
        raise IndexBuildError(f"on Spark's executors, {why_unknown(kind)}; install it there, too")
    index: Attachable = cls(**json.loads(stored))
    return index


def _list(spark: SparkSession, path: Source) -> tuple[dict[str, DataFile], int]:
    """The files, each once, by a name that Python can open, and the number of other files beside them."""
    items = [path] if isinstance(path, str | os.PathLike) else list(path)
    found: dict[str, DataFile] = {}
    others: set[str] = set()
    for item in items:
        name = python_path(os.fspath(item))
        try:
            chosen = find_files(name)
            listed: Sequence[DataFile] = chosen.files
            others.update(chosen.others)
        except (FileNotFoundError, ListingError):
            raise
        except Exception:  # noqa: BLE001  a store that only Spark can list: then Spark says what is wrong
            listed, beside = _choose(os.fspath(item), list_by_spark(spark, os.fspath(item)))
            others.update(beside)
        for file in listed:
            found.setdefault(file.path if file.is_remote else os.path.abspath(file.path), file)
    return found, len(others)


def _choose(item: str, listed: Sequence[DataFile]) -> tuple[list[DataFile], list[str]]:
    """The files to index of those that Spark listed below a path, and the paths of the others."""
    names = {file.uri: file.uri.rpartition("/")[2] for file in listed}
    is_named = list(names.values()) == [item.rstrip("/").rpartition("/")[2]]
    others = [uri for uri, name in names.items() if name_kind(name) is NameKind.OTHER]
    if is_named or glob.has_magic(item):
        others = []
    # Python may be unable to read the first bytes of a file without an extension: such a file is tried
    return [file for file in listed if file.uri not in others], others


def _teller(progress: Progress | bool) -> Progress:
    if callable(progress):
        return progress
    if progress and sys.stderr.isatty():
        return _print_line
    return _tell_nobody


def _tell_nobody(done: int, total: int, label: str) -> None:
    """Nobody is watching."""


def _print_line(done: int, total: int, label: str) -> None:
    """Overwrites one line; ends it when all is done."""
    sys.stderr.write(f"\r{label}: {done} of {total} files" + ("\n" if done == total else ""))
    sys.stderr.flush()
