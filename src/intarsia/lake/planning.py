"""Plan files concurrently, each with its own indexes, and read small files in the same threads."""

from __future__ import annotations

from collections.abc import Callable, Generator, Iterable, Iterator, Mapping, Sequence
from concurrent.futures import Future
from dataclasses import dataclass
from typing import Protocol

from intarsia.file import FileMetadata, ParquetInput
from intarsia.lake.data_file import DataFile
from intarsia.read.ahead import ahead
from intarsia.read.file_plan import FilePlan, plan_file
from intarsia.read.file_query import FileQuery
from intarsia.read.file_rows import Piece, read_rows
from intarsia.read.known import Known
from intarsia.read.prefetch import prefetch

#: The rows of a file are read in the thread that plans it if this takes at most this many bytes. They are in
#: memory until the caller takes them.
SMALL_BYTES = 1 << 20


class Binder(Protocol):
    """An object that binds one query to each file."""

    def query(self, entry: DataFile, file: ParquetInput) -> FileQuery:
        """Return the query to one open file, in its own types."""
        ...


@dataclass(frozen=True, eq=False)
class KnownFile:
    """The facts that are known about a file before it is opened.

    Attributes:
        metadata: The metadata of the file for which the facts were proven; the file may have been replaced
            since.
        known: The facts.
    """

    metadata: FileMetadata
    known: Known


@dataclass(frozen=True)
class OpenPlan:
    """A file that was opened and planned; the caller closes it.

    Attributes:
        query: The query to the file.
        plan: The plan of its indexes.
        pieces: The matching rows, if they have been read. An error of reading is raised after the rows before
            it.
    """

    query: FileQuery
    plan: FilePlan
    pieces: Iterable[Piece] | None = None


def plan_files(
    files: Sequence[DataFile],
    binder: Binder,
    open_file: Callable[[DataFile], ParquetInput],
    at_once: int,
    *,
    reads: bool = False,
    reads_all: bool = False,
    known: Mapping[str, KnownFile] | None = None,
) -> Generator[tuple[DataFile, Future[OpenPlan]], None, None]:
    """Plan files in several threads, a little ahead of the caller that reads them.

    Args:
        files: The files.
        binder: Binds the query to each file.
        open_file: Opens a file.
        at_once: Maximum number of files that are being planned or wait to be read.
        reads: The caller reads the planned rows, so those of objects are read ahead.
        reads_all: The caller reads all planned rows with `read_rows`, so those of small files are read, too.
        known: Facts about files that have been proven before, by path.

    Yields:
        Each file in order, and a future with its plan or an exception.
    """

    def known_before(entry: DataFile, file: ParquetInput) -> Known | None:
        found = None if known is None else known.get(entry.path)
        return found.known if found is not None and found.metadata is file.metadata else None

    def plan(entry: DataFile) -> OpenPlan:
        file = open_file(entry)
        try:
            with file.named_errors():
                query = binder.query(entry, file)
                planned = plan_file(query, known_before(entry, file))
                planned = prefetch(query, planned) if reads else planned
            return OpenPlan(query, planned, _read_small(query, planned) if reads_all else None)
        except BaseException:
            file.close()
            raise

    return ahead(plan, files, at_once, lambda planned: planned.query.close())


def _read_small(query: FileQuery, plan: FilePlan) -> Iterable[Piece] | None:
    """Read the matching rows of a file; None if they are not small, or the file is read as a whole."""
    pieces: list[Piece] = []
    try:
        if query.predicate is None or query.estimated_bytes(plan.candidates) > SMALL_BYTES:
            return None
        pieces.extend(read_rows(query, plan))
    except Exception as error:  # noqa: BLE001  raised when the rows are taken
        return _then_raise(pieces, error)
    return pieces


def _then_raise(pieces: Sequence[Piece], error: Exception) -> Iterator[Piece]:
    yield from pieces
    raise error
