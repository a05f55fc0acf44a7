"""Open and plan files in threads, a little ahead of the caller, and read small ones there.

Consecutive files of one axis whose rows take little memory are a stretch: they are opened and read as one.
The pages that objects need are fetched together.
"""

from __future__ import annotations

import contextlib
import itertools
import threading
from collections.abc import Callable, Generator, Hashable, Iterable, Iterator, Mapping, Sequence
from dataclasses import replace
from enum import IntEnum
from typing import NamedTuple, Protocol, TypeAlias

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from intarsia.ahead import Completion, Done, ahead
from intarsia.arrow.owned_rows import take_values
from intarsia.errors import FormatError, IntarsiaError, ObjectStoreError
from intarsia.file import ChunkKey, FileMetadata, ParquetInput
from intarsia.file.chunks import DictionaryUse
from intarsia.file.joined import JoinedInput
from intarsia.file.schema import FileSchema
from intarsia.format.footer import Leaf
from intarsia.indexes.registry import has_indexes
from intarsia.lake.axes import AxisPlan
from intarsia.lake.data_file import DataFile
from intarsia.predicate import Bound, Path, Predicate
from intarsia.read.file_plan import (
    FilePlan,
    JoinedRows,
    load_locations,
    plan_chunks,
    plan_file,
    with_stages,
    without_deleted,
)
from intarsia.read.file_query import FileQuery, leaves_under
from intarsia.read.file_rows import FileOutcome, Piece, read_rows
from intarsia.read.pruner import PruneStep
from intarsia.records import dataclass
from intarsia.rows.bounds import Bools
from intarsia.rows.selection import RowSelection
from intarsia.storage import ByteRange, ObjectStoreFile, coalesce
from intarsia.tuning import (
    MAX_PREFETCHED_BYTES,
    MAX_PREFETCHED_CHUNKS,
    OBJECTS_AT_ONCE,
    SMALL_FILE_BYTES,
    STRETCH_FILES,
)

#: Errors after which no file is read: of the store, of the time limit, of a signal handler.
_OF_THE_STORE = (ObjectStoreError, TimeoutError)


class Ahead(IntEnum):
    """What is done ahead of the caller."""

    PLAN = 0
    FETCH = 1  # the pages of objects, too
    READ = 2  # the rows of small files, too, which the caller takes all


class TableQuery(Protocol):
    """A query that can be bound to each file, to files with the same columns, and to the table."""

    @property
    def predicate(self) -> Predicate | None:
        """The rows to select; None for all."""
        ...

    def exclude_unopened(self, relevant: Bools) -> Sequence[PruneStep]:
        """Return the files that are excluded by what is known without opening them; a file is one row."""
        ...

    def bind_family(
        self, schema: FileSchema, path: str, files: npt.NDArray[np.int64]
    ) -> tuple[Bound | None, dict[Path, pa.Array]]:
        """Bind the query to files with the same columns; see `intarsia.lake.binding.TableBinder`."""
        ...

    def query(self, entry: DataFile, file: ParquetInput) -> FileQuery:
        """Return the query for one open file, in its own types."""
        ...


@dataclass(frozen=True, eq=False)
class PlannedPart:
    """A file that was planned as a part of an axis."""

    axis: AxisPlan
    position: int

    @property
    def read_bytes(self) -> int:
        """The estimated bytes to read of the file."""
        return int(self.axis.read_bytes[self.position])

    @property
    def has_certain(self) -> bool:
        """Whether rows of the file are certain to match."""
        return bool(self.axis.has_certain[self.position])

    @property
    def has_indexes(self) -> bool:
        """Whether the file has embedded indexes."""
        return has_indexes(self.axis.joined.parts[self.position].metadata)

    def plan_of(self, query: FileQuery) -> FilePlan:
        """Return the plan of the opened file, which may have been replaced since."""
        if self.axis.joined.parts[self.position].metadata is not query.file.metadata:
            return plan_file(query)
        plan = self.axis.of_file(self.position)
        if self.has_indexes:
            plan = with_stages(query, plan, query.file.source.counts.bytes)
        return without_deleted(query, plan)


class PlannedFile(NamedTuple):
    """One of the files that were planned.

    Attributes:
        identity: The identity of the file that was planned.
        constants: Columns with one value for all rows of the file; see `FileQuery`.
        rows: The rows that might match, as row numbers of the file.
        sizes: The estimated bytes to read of each row group.
    """

    entry: DataFile
    identity: Hashable | None
    metadata: FileMetadata
    constants: Mapping[Path, pa.Array]
    rows: RowSelection
    sizes: list[int]


@dataclass(eq=False)
class OpenPlan:
    """A file that was opened and planned, or several that are read as one; the caller closes it.

    Attributes:
        entry: The file, or the first one.
        pieces: The matching rows, if they have been read. An error of reading is raised after the rows before
            it.
        among: The files of the axis that were read; None for a single file.
        entries: These files; empty for a single file.
        outcome: The outcome for the report; None to leave the file out.
    """

    entry: DataFile
    query: FileQuery
    plan: FilePlan
    pieces: Iterable[Piece] | None = None
    among: Bools | None = None
    entries: Sequence[DataFile] = ()
    outcome: FileOutcome | None = None

    def record(self, outcome: FileOutcome) -> None:
        """Set the outcome, in place of an earlier one."""
        self.outcome = outcome

    def files(self) -> Iterator[PlannedFile]:
        """Yield the file, or each of the files that are read as one."""
        file, constants, rows = self.query.file, self.query.constants, self.plan.candidates
        sizes = self.query.estimated_bytes_by_group(rows).tolist()
        if self.among is None:
            yield PlannedFile(self.entry, file.source.identity, file.metadata, constants, rows, sizes)
            return
        assert isinstance(file, JoinedInput)
        joined = file.joined
        for position, entry in zip(np.flatnonzero(self.among).tolist(), self.entries, strict=True):
            part = joined.parts[position]
            start, stop = joined.row_edges[position : position + 2].tolist()
            first, last = joined.group_edges[position : position + 2].tolist()
            yield PlannedFile(
                entry,
                part.identity,
                part.metadata,
                {path: take_values(values, [position]) for path, values in constants.items()},
                JoinedRows(start, stop).of(rows),
                sizes[first:last],
            )


@dataclass(frozen=True, eq=False)
class Stretch:
    """Consecutive files of an axis that are read as one."""

    axis: AxisPlan
    positions: Sequence[int]
    entries: Sequence[DataFile]

    def open(self, does: Ahead, *, counts_certain: bool) -> OpenPlan:
        """Open the files.

        Args:
            does: What is done ahead of the caller.
            counts_certain: If some rows are certain to match, none are read: the caller reads the others.

        Raises:
            IntarsiaError: If a file is damaged or was replaced; reading the files one by one recovers, or
                raises the same error where the caller expects it.
            OSError: If a file cannot be read.
        """
        among = np.zeros(len(self.axis.ordinals), dtype=bool)
        among[self.positions] = True
        query, plan = self.axis.of_files(among, self.entries)
        assert isinstance(query.file, JoinedInput)
        query = replace(query, file=query.file.again(self.positions))  # what it keeps is dropped with it
        if query.file.source.coalesce_bytes and does is not Ahead.PLAN:
            plan = _prefetch(query, plan)
        is_counted = counts_certain and not plan.certain.is_empty
        pieces = list(read_rows(query, plan)) if does is Ahead.READ and not is_counted else None
        return OpenPlan(self.entries[0], query, plan, pieces, among, self.entries)


#: Returns whether a file is planned by itself.
IsAlone: TypeAlias = Callable[[PlannedPart], bool]

#: A file or stretch to plan, and its plan.
Item: TypeAlias = "DataFile | Stretch"
Planned: TypeAlias = "tuple[DataFile, Completion[OpenPlan]]"


def stretches(
    files: Sequence[DataFile],
    known: Mapping[str, PlannedPart],
    most_bytes: tuple[float, float],
    is_alone: IsAlone,
) -> Iterator[Item]:
    """Combine consecutive files to stretches.

    Args:
        known: The plans of files that are parts of an axis, by path.
        most_bytes: The limits on the bytes to read of the local files of a stretch, and of the objects.
        is_alone: Returns whether a file is planned by itself.
    """
    found: list[tuple[PlannedPart, DataFile]] = []
    num_bytes = 0
    for entry in files:
        part = known.get(entry.path)
        if part is not None and is_alone(part):
            part = None
        own = 0 if part is None else part.read_bytes
        if found and (part is None or not _has_room(found, part, num_bytes + own, most_bytes)):
            yield _stretch_of(found)
            found, num_bytes = [], 0
        if part is None:
            yield entry
        else:
            found.append((part, entry))
            num_bytes += own
    if found:
        yield _stretch_of(found)


def _has_room(
    found: Sequence[tuple[PlannedPart, DataFile]],
    part: PlannedPart,
    num_bytes: int,
    most_bytes: tuple[float, float],
) -> bool:
    """Return whether a file can follow others in a stretch that then has a number of bytes."""
    axis, last = found[0][0].axis, found[-1][0].position
    if part.position <= last:  # a table may have the same file twice
        return False
    has_room = num_bytes <= most_bytes[axis.joined.is_remote]
    return part.axis is axis and len(found) < STRETCH_FILES and has_room


def _stretch_of(found: Sequence[tuple[PlannedPart, DataFile]]) -> Item:
    if len(found) == 1:
        return found[0][1]
    return Stretch(found[0][0].axis, [part.position for part, _ in found], [entry for _, entry in found])


def plan_files(
    items: Iterable[Item],
    binder: TableQuery,
    open_file: Callable[[DataFile], ParquetInput],
    at_once: int,
    *,
    does: Ahead = Ahead.PLAN,
    counts_certain: bool = False,
    known: Mapping[str, PlannedPart] | None = None,
) -> Generator[Planned, None, None]:
    """Plan files in several threads, a little ahead of the caller.

    Args:
        binder: Binds the query to each file.
        at_once: Maximum number of items that are in progress or wait to be taken.
        does: What is done ahead of the caller.
        counts_certain: The caller does not read rows that are certain to match, so files with such rows are
            not read here.
        known: The plans of files that are parts of an axis, by path.

    Yields:
        Each file in order, or the first one of a stretch, and a plan or an exception.
    """
    turns = _Turns(OBJECTS_AT_ONCE)

    def plan(entry: Item) -> OpenPlan:
        if isinstance(entry, Stretch):
            with turns.take(len(entry.entries) if entry.entries[0].is_remote else 0):
                return entry.open(does, counts_certain=counts_certain)
        part = None if known is None else known.get(entry.path)
        file = open_file(entry)
        try:
            with file.named_errors():
                query = binder.query(entry, file)
                planned = plan_file(query) if part is None else part.plan_of(query)
                if does is Ahead.PLAN:
                    return OpenPlan(entry, query, planned)
                if file.source.coalesce_bytes:
                    planned = _prefetch(query, planned)
                is_counted = counts_certain and not planned.certain.is_empty
                reads = does is Ahead.READ and query.predicate is not None and not is_counted
                return OpenPlan(entry, query, planned, _read_small(query, planned) if reads else None)
        except BaseException as error:
            with contextlib.closing(file):
                if isinstance(error, FormatError):
                    file.source.check_unchanged()
            raise

    with contextlib.closing(ahead(plan, items, at_once, lambda opened: opened.query.close())) as results:
        for item, future in results:
            if isinstance(item, DataFile):
                yield item, future
                continue
            error = future.exception()
            if isinstance(error, (IntarsiaError, OSError)) and not isinstance(error, _OF_THE_STORE):
                for entry in item.entries:
                    yield entry, Done(plan, entry)
            else:
                yield item.entries[0], future


class _Turns:
    """A semaphore of which several are taken at once."""

    def __init__(self, most: int) -> None:
        self._most = self._free = most
        self._changed = threading.Condition()

    @contextlib.contextmanager
    def take(self, wanted: int) -> Iterator[None]:
        """Wait for a number of turns, at most all of them, and take them within the block."""
        wanted = min(wanted, self._most)
        with self._changed:
            self._changed.wait_for(lambda: self._free >= wanted)
            self._free -= wanted
        try:
            yield
        finally:
            with self._changed:
                self._free += wanted
                self._changed.notify_all()


def _read_small(query: FileQuery, plan: FilePlan) -> Iterable[Piece] | None:
    """Read the matching rows of a file; None if they are not small."""
    pieces: list[Piece] = []
    try:
        if query.page_bytes(plan.candidates) > SMALL_FILE_BYTES:
            return None
        pieces.extend(read_rows(query, plan))
    except Exception as error:  # noqa: BLE001  raised when the rows are taken
        return _then_raise(pieces, error)
    return pieces


def _then_raise(pieces: Sequence[Piece], error: Exception) -> Iterator[Piece]:
    yield from pieces
    raise error


# --- the pages of objects -----------------------------------------------------------------------------------


def _prefetch(query: FileQuery, plan: FilePlan) -> FilePlan:
    """Read the pages that a plan needs and keep them in the query's file, which is remote, if they are few.

    Otherwise, an object costs three round trips after planning: the locations of the predicate's pages, these
    pages, and the pages of the other columns. A prefetch takes at most two, and several files are prefetched
    concurrently.

    Pages of columns that the predicate does not use are read although none of their rows may match, if this
    takes less time than another request.

    Returns:
        The plan, with the bytes that were read from the page index.
    """
    file = query.file
    if query.predicate is None or plan.candidates.is_empty:
        return plan
    groups = query.groups_with(plan.candidates)
    if len(groups) * len(query.leaves) > MAX_PREFETCHED_CHUNKS:
        return plan
    # count() does not read certain rows, and a scan does not apply the predicate to proven rows
    known = plan.proven if query.output_leaves else plan.certain
    doubtful, of_predicate = plan.candidates - known, leaves_under(file, query.predicate_paths)
    index_bytes = plan.index_bytes
    # damaged metadata is reported, or replaced, when the rows are read
    with contextlib.suppress(FormatError):
        # in one request, those of the predicate and the others
        chunks = [ChunkKey(group, leaf.ordinal) for group in groups for leaf in query.leaves]
        index_bytes += load_locations(query, chunks)[1]
        needed = _locations(query, of_predicate, doubtful)
        everything = [*needed, *_locations(query, query.output_leaves, plan.candidates)]
        gap_bytes = file.source.coalesce_bytes
        is_cheap = _num_bytes(everything, 0) <= ObjectStoreFile.coalesce_bytes
        for locations in (everything, needed) if is_cheap else (needed,):
            if _num_bytes(locations, gap_bytes) <= MAX_PREFETCHED_BYTES:
                file.source.keep(locations)
                break
    return replace(plan, index_bytes=index_bytes)


def _num_bytes(locations: Sequence[ByteRange], gap_bytes: int) -> int:
    """Return the bytes of the requests for some ranges."""
    return sum(request.length for request in coalesce(locations, gap_bytes))


def _locations(query: FileQuery, leaves: Sequence[Leaf], rows: RowSelection) -> list[ByteRange]:
    """Return the byte ranges of the pages of some rows."""
    locations: list[ByteRange] = []
    outlines = query.file.metadata.outlines(leaves, query.groups_with(rows))
    of_groups, _ = plan_chunks(query, leaves, outlines, list(query.row_groups(rows)))
    for plan in itertools.chain.from_iterable(of_groups):
        locations += plan.pages
        if plan.dictionary is not None and plan.dictionary_use is not DictionaryUse.NEVER:
            locations.append(plan.dictionary)
    return locations
