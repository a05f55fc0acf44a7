"""Plan files concurrently, each with its own indexes, and read small files together in the same threads."""

from __future__ import annotations

import contextlib
from collections import deque
from collections.abc import Callable, Generator, Iterable, Iterator, Mapping, Sequence
from concurrent.futures import Future
from dataclasses import dataclass, replace
from typing import Protocol, TypeAlias

from intarsia.file import FileMetadata, ParquetInput
from intarsia.indexes.registry import indexed_columns
from intarsia.lake.data_file import DataFile
from intarsia.lake.reading_together import PlannedFile, can_be_together, read_together
from intarsia.lake.snapshot import TableCache
from intarsia.read.ahead import ahead, done
from intarsia.read.file_plan import FilePlan, plan_file, with_estimates, without_deleted
from intarsia.read.file_query import FileQuery
from intarsia.read.file_rows import Piece, read_rows
from intarsia.read.prefetch import prefetch

#: The rows of a file are read in the thread that plans it if this takes at most this many bytes. They are in
#: memory until the caller takes them.
SMALL_BYTES = 1 << 20

#: A thread plans up to this many bytes of consecutive local files, and reads them together.
_TASK_BYTES = 4 << 20
_TASK_FILES = 64

#: Batches of objects whose rows are read concurrently, after their pages have been requested.
_BATCHES_AT_ONCE = 2


class Binder(Protocol):
    """An object that binds one query to each file."""

    def query(self, entry: DataFile, file: ParquetInput) -> FileQuery:
        """Return the query for one open file, in its own types."""
        ...


@dataclass(frozen=True, eq=False)
class PlannedPart:
    """The plan of a file that was planned together with others, before it is opened.

    Attributes:
        metadata: The metadata of the planned file; the file may have been replaced since.
        plan: The plan, without the deleted rows of the table.
    """

    metadata: FileMetadata
    plan: FilePlan

    def without_dictionary_pages(self) -> PlannedPart:
        """Return the plan without the dictionary pages, which are then read again."""
        return PlannedPart(self.metadata, replace(self.plan, dictionary_pages={}))

    def plan_of(self, query: FileQuery) -> FilePlan:
        """Return the plan of the opened file."""
        if self.metadata is not query.file.metadata:
            return plan_file(query)
        plan = self.plan
        if indexed_columns(self.metadata) != frozenset():
            plan = with_estimates(query, plan)
        return without_deleted(query, plan)


@dataclass(frozen=True)
class OpenPlan:
    """A file that was opened and planned; the caller closes it.

    Attributes:
        query: The query for the file.
        plan: The plan of its indexes.
        pieces: The matching rows, if they have been read. An error of reading is raised after the rows before
            it.
        waits: Whether the pages have been read, and the rows are read together with those of other objects.
    """

    query: FileQuery
    plan: FilePlan
    pieces: Iterable[Piece] | None = None
    waits: bool = False

    def is_read(self, *, counts_certain: bool) -> bool:
        """Return whether the matching rows are read; see `plan_files`."""
        return self.query.predicate is not None and not (counts_certain and not self.plan.certain.is_empty)


#: Files and their plans.
_Task: TypeAlias = "list[tuple[DataFile, Future[OpenPlan]]]"


def plan_files(
    files: Sequence[DataFile],
    binder: Binder,
    open_file: Callable[[DataFile], ParquetInput],
    at_once: int,
    *,
    reads: bool = False,
    reads_all: bool = False,
    counts_certain: bool = False,
    known: Mapping[str, PlannedPart] | None = None,
    joined: TableCache | None = None,
) -> Generator[tuple[DataFile, Future[OpenPlan]], None, None]:
    """Plan files in several threads, a little ahead of the caller that reads them.

    Args:
        files: The files.
        binder: Binds the query to each file.
        open_file: Opens a file.
        at_once: Maximum number of files, or of groups of small files, that are being planned or wait to be
            read.
        reads: The caller reads the planned rows, so those of objects are read ahead.
        reads_all: The caller reads all planned rows with `read_rows`, so those of small files are read, too.
        counts_certain: The caller does not read rows that are certain to match, so files with such rows are
            not read here.
        known: The plans of files that were planned together, by path.
        joined: The cache for the metadata of files that are read together; None for a cache of this call.

    Yields:
        Each file in order, and a future with its plan or an exception.
    """

    def plan(entry: DataFile) -> OpenPlan:
        found = None if known is None else known.get(entry.path)
        file = open_file(entry)
        try:
            with file.named_errors():
                query = binder.query(entry, file)
                planned = plan_file(query) if found is None else found.plan_of(query)
                if not reads:
                    return OpenPlan(query, planned)
                planned, has_all = prefetch(query, planned)
                opened = OpenPlan(query, planned)
                waits = has_all and reads_all and opened.is_read(counts_certain=counts_certain)
                return replace(opened, waits=waits and can_be_together(query, planned))
        except BaseException:
            file.close()
            raise

    def with_rows(task: _Task) -> _Task:
        return _with_rows(task, cache, counts_certain=counts_certain)

    def work(entries: Sequence[DataFile]) -> _Task:
        task = [(entry, done(plan, entry)) for entry in entries]
        return with_rows(task) if reads_all and not _waits(task) else task

    cache = TableCache() if joined is None else joined
    has_objects = reads_all and any(entry.is_remote for entry in files)
    tasks = _tasks(files, at_once) if reads_all else [[entry] for entry in files]
    with contextlib.closing(ahead(work, tasks, at_once, _close)) as results:
        planned = (future.result() for _, future in results)
        with contextlib.closing(_objects_together(planned, with_rows) if has_objects else planned) as read:
            for task in read:
                plans = deque(task)
                try:
                    while plans:
                        yield plans.popleft()
                finally:
                    _close(plans)


def _waits(task: _Task) -> bool:
    """Return whether a task is a single object, whose rows are read together with those of others."""
    return len(task) == 1 and task[0][1].exception() is None and task[0][1].result().waits


def _objects_together(
    planned: Iterable[_Task], with_rows: Callable[[_Task], _Task]
) -> Generator[_Task, None, None]:
    """Read the rows of consecutive objects that wait, in two threads ahead of the caller."""

    def read(batch: _Task) -> _Task:
        return with_rows(batch) if _waits(batch[:1]) else batch

    with (
        contextlib.closing(_batches(planned)) as batches,
        contextlib.closing(ahead(read, batches, _BATCHES_AT_ONCE, _close)) as results,
    ):
        for _, future in results:
            yield future.result()


def _batches(planned: Iterable[_Task]) -> Generator[_Task, None, None]:
    """Join consecutive tasks that wait, up to a number of bytes in memory."""
    batch: _Task = []
    num_bytes = 0
    try:
        for task in planned:
            waits = _waits(task)
            more_bytes = task[0][1].result().query.file.source.counts.bytes if waits else 0
            if batch and (not waits or num_bytes + more_bytes > _TASK_BYTES or len(batch) == _TASK_FILES):
                full, batch, num_bytes = batch, [], 0
                yield full
            if waits:
                batch += task
                num_bytes += more_bytes
            else:
                yield task
        full, batch = batch, []
        if full:
            yield full
    finally:  # of a caller that stops early
        _close(batch)


def _tasks(files: Sequence[DataFile], at_once: int) -> Iterator[list[DataFile]]:
    """Divide files into tasks, each of which is a single file or several small local ones."""
    total = sum(entry.size_bytes for entry in files)
    max_bytes = min(_TASK_BYTES, total // at_once)
    task: list[DataFile] = []
    num_bytes = 0
    for entry in files:
        num_bytes += entry.size_bytes
        if task and (num_bytes > max_bytes or len(task) == _TASK_FILES or entry.is_remote):
            yield task
            task, num_bytes = [], entry.size_bytes
        task.append(entry)
    if task:
        yield task


def _with_rows(task: _Task, joined: TableCache, *, counts_certain: bool) -> _Task:
    """Read the matching rows of planned files, several files together if possible."""
    planned = {
        ordinal: (entry, future.result())
        for ordinal, (entry, future) in enumerate(task)
        if future.exception() is None
    }
    small = {
        ordinal: PlannedFile(entry, found.query, found.plan)
        for ordinal, (entry, found) in planned.items()
        if found.is_read(counts_certain=counts_certain)
        and (found.waits or not found.query.file.source.coalesce_bytes)
    }
    together = read_together(list(small.values()), joined) if len(small) > 1 else {}
    pieces: dict[int, Iterable[Piece]] = {list(small)[ordinal]: found for ordinal, found in together.items()}

    def read(ordinal: int) -> OpenPlan:
        found = task[ordinal][1].result()
        if ordinal in pieces or not found.is_read(counts_certain=counts_certain):
            return replace(found, pieces=pieces.get(ordinal), waits=False)
        return replace(found, pieces=_read_small(found.query, found.plan), waits=False)

    return [(entry, done(read, ordinal)) for ordinal, (entry, _) in enumerate(task)]


def _close(task: Iterable[tuple[DataFile, Future[OpenPlan]]]) -> None:
    for _, future in task:
        if future.exception() is None:
            future.result().query.close()


def _read_small(query: FileQuery, plan: FilePlan) -> Iterable[Piece] | None:
    """Read the matching rows of a file; None if they are not small."""
    pieces: list[Piece] = []
    try:
        if query.estimated_bytes(plan.candidates) > SMALL_BYTES:
            return None
        pieces.extend(read_rows(query, plan))
    except Exception as error:  # noqa: BLE001  raised when the rows are taken
        return _then_raise(pieces, error)
    return pieces


def _then_raise(pieces: Sequence[Piece], error: Exception) -> Iterator[Piece]:
    yield from pieces
    raise error
