"""The files of a table as they were listed, as objects or in columns, and actions on many files."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Callable, Hashable, Sequence
from dataclasses import field, replace
from itertools import count
from operator import attrgetter
from typing import Any, Generic, Protocol, TypeAlias, TypeVar, overload, runtime_checkable

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from intarsia.errors import IntarsiaError, ReplacedWhileReadError, RunInterrupted
from intarsia.file import FileMetadata, ParquetInput
from intarsia.records import dataclass
from intarsia.rows.selection import RowSelection
from intarsia.rows.values import JsonObject
from intarsia.storage import (
    ByteSource,
    LocalFile,
    ObjectIdentity,
    ObjectStoreFile,
    StorageOptions,
    Stores,
    find_store,
)
from intarsia.tuning import REMOTE_TAIL_BYTES

#: No file has more rows: Parquet counts them in 64 bits.
_MAX_ROWS = (1 << 63) - 1


class DeletedRows(Protocol):
    """The rows of a file that a table format has deleted without rewriting the file."""

    def rows(self) -> RowSelection:
        """Return the deleted rows, as row numbers of the file; they may be read on the first call."""
        ...


@dataclass(frozen=True)
class RowsNotChosen:
    """All rows of a file but those that a scan was asked for; for such a scan they are deleted.

    Attributes:
        deletes: Rows of the file that the table has deleted.
    """

    chosen: RowSelection
    deletes: DeletedRows | None

    def rows(self) -> RowSelection:
        """See `DeletedRows.rows`."""
        others = RowSelection.all(_MAX_ROWS) - self.chosen
        return others if self.deletes is None else others | self.deletes.rows()


@dataclass(frozen=True)
class DataFile:
    """One file of a table.

    Attributes:
        path: A local path or a URL.
        size_bytes: Its length when it was listed.
        partition: Names and values of its partition columns, as strings; None for null.
        store: An obstore store for URLs; None for local files, and for URLs whose store is made when
            they are opened.
        key: The path within the store.
        e_tag: The store's ETag when it was listed; None if unknown.
        modified: Time of the last write, in seconds since 1970; None if unknown.
        uri: Its name in another engine, such as Spark; empty if unknown.
        times_ns: Modification time and change time (ctime) of a local file, in nanoseconds since 1970; None
            if unknown.
        deletes: Rows of the file that are deleted in the table; None if there are none.
        page_checksums: Whether pages that have a checksum are compared with it when they are read.
        tail_bytes: Number of bytes at the end of an object that are read with its footer.
    """

    path: str
    size_bytes: int
    partition: tuple[tuple[str, str | None], ...] = ()
    store: Any = field(default=None, repr=False, compare=False)
    key: str = ""
    e_tag: str | None = None
    modified: float | None = None
    uri: str = ""
    times_ns: tuple[int, int] | None = field(default=None, repr=False, compare=False)
    deletes: DeletedRows | None = field(default=None, repr=False, compare=False)
    page_checksums: bool = field(default=True, repr=False, compare=False)
    tail_bytes: int = field(default=REMOTE_TAIL_BYTES, repr=False, compare=False)

    @property
    def is_remote(self) -> bool:
        """Whether it is in an object store."""
        return self.store is not None or "://" in self.path

    def open(self, *, fresh: bool = False) -> ByteSource:
        """Open the file's bytes.

        Args:
            fresh: Request the object's current identity from the store, even if the listing contains it.
        """
        if not self.is_remote:
            return LocalFile(self.path)
        listed = ObjectIdentity(self.size_bytes, self.e_tag, self.modified)
        known = listed if listed.is_conclusive and not fresh else None
        store, key = (self.store, self.key) if self.store is not None else find_store(self.path)
        return ObjectStoreFile(store, key, self.path, known)

    def input_of(self, source: ByteSource, metadata: FileMetadata | None = None) -> ParquetInput:
        """Return the open file, given its bytes and its metadata, if that is cached."""
        return ParquetInput(source, metadata, page_checksums=self.page_checksums, tail_bytes=self.tail_bytes)

    def deleted_rows(self, num_rows: int) -> RowSelection:
        """Return the rows of the file that are deleted in the table.

        Args:
            num_rows: The number of rows that the open file has; it may have been replaced.

        Raises:
            ReplacedWhileReadError: If the file has fewer rows than were chosen.
        """
        if self.deletes is None:
            return RowSelection.none()
        if isinstance(self.deletes, RowsNotChosen):
            missing = self.deletes.chosen - RowSelection.all(num_rows)
            if not missing.is_empty:
                first, _ = next(iter(missing))
                raise ReplacedWhileReadError(
                    f"the file was replaced by one of {num_rows:,} rows after its row {first:,} was chosen; "
                    "choose rows again",
                    reason="file-replaced",
                    path=self.path,
                )
        return self.deletes.rows().clip(0, num_rows)

    @property
    def deleted_by(self) -> str:
        """The name in reports of what excludes the deleted rows."""
        return "rows" if isinstance(self.deletes, RowsNotChosen) else "deletes"

    def as_opened(self, identity: Hashable | None) -> DataFile:
        """Return the file with the identity that it had when it was opened, in case it was replaced.

        Args:
            identity: The identity of the open file; see `intarsia.storage.ByteSource`.
        """
        return replace(self, **identity._asdict()) if isinstance(identity, ObjectIdentity) else self


def with_stores(files: Sequence[DataFile], options: StorageOptions | None) -> list[DataFile]:
    """Return files with the stores of those that have URLs, so that their requests share connections.

    Raises:
        ObjectStoreError: If a store or an option is unknown.
    """
    stores, found = Stores(options), list[DataFile]()
    for file in files:
        if file.is_remote and file.store is None:
            store, key = stores.find(file.path)
            file = replace(file, store=store, key=key)
        found.append(file)
    return found


@runtime_checkable
class FileSource(Protocol):
    """A source that lists the files of a table, such as a catalog or a table format.

    Example:
        >>> class Two:
        ...     def list_files(self):
        ...         return [DataFile("a.parquet", 100), DataFile("b.parquet", 200)]
        >>> isinstance(Two(), FileSource)
        True
    """

    def list_files(self) -> Sequence[DataFile]:
        """Return the files in the order of their rows in the table."""
        ...


_Result = TypeVar("_Result")

#: Errors of one file. All others are defects and end the run.
FILE_ERRORS = (IntarsiaError, OSError, pa.ArrowException)

#: Called with the number of files done; the current file counts as a fraction.
ShowDone = Callable[[float], None]


@dataclass(frozen=True)
class FileFailure(JsonObject):
    """A file on which an action failed.

    Attributes:
        path: The file.
        error: The error.
    """

    JSON_KEYS = "path error=reason code"

    path: str
    error: Exception

    @property
    def reason(self) -> str:
        """The message of the error in one line, without a leading path."""
        error = self.error
        if isinstance(error, OSError) and error.strerror and error.filename is not None:
            return f"{error.strerror[:1].lower()}{error.strerror[1:]}"
        text = " ".join(str(error).split())
        return text.removeprefix(f"{self.path}: ") or text or type(error).__name__

    @property
    def code(self) -> str:
        """A stable code: the error's ``reason``, or the name of its class if it has none."""
        return getattr(self.error, "reason", None) or type(self.error).__name__


@dataclass(frozen=True)
class FileResults(Generic[_Result]):
    """The results of an action on many files.

    Attributes:
        done: The result of each file on which it succeeded.
    """

    done: list[_Result]
    failed: list[FileFailure]

    @property
    def num_files(self) -> int:
        """The number of files."""
        return len(self.done) + len(self.failed)


def for_each_file(
    paths: Sequence[str],
    act: Callable[[str, ShowDone], _Result],
    show: ShowDone,
    report_of: Callable[[FileResults[_Result]], object] = lambda results: results,
) -> FileResults[_Result]:
    """Run an action on each file.

    Args:
        act: The action. It takes a path, and a function that it may call with the fraction that is done.
        show: Called with the number of files that are done, between 0 and the number of files.
        report_of: Returns the ``report`` of an interrupted run, given the results of the files that are done.

    Raises:
        RunInterrupted: At Ctrl-C.
    """
    done: list[_Result] = []
    failed: list[FileFailure] = []
    try:
        for ordinal, path in enumerate(paths):
            show(ordinal)
            try:
                done.append(act(path, lambda part, ordinal=ordinal: show(ordinal + part)))  # type: ignore[misc]
            except TimeoutError:  # of a signal handler: it ends the run
                raise
            except FILE_ERRORS as error:
                failed.append(FileFailure(path, error))
        show(len(paths))
    except KeyboardInterrupt as stop:
        results = FileResults(done, failed)
        raise RunInterrupted(results.num_files, len(paths), report_of(results)) from stop
    return FileResults(done, failed)


#: The names and values of the partition columns of a file; see `DataFile.partition`.
Partition: TypeAlias = tuple[tuple[str, "str | None"], ...]


@dataclass(frozen=True, eq=False)
class FileList(Sequence[DataFile]):
    """Files in columns. A `DataFile` is created when it is asked for.

    Attributes:
        paths: Their paths, ``large_binary``; see `as_bytes`.
        size_bytes: Their lengths when they were listed.
        partitions: The distinct partition values.
        partition_of: For each file, the ordinal of its partition values.
        times_ns: Modification and change times of local files, two for each; None if unknown.
        e_tags: The ETags of objects, ``string``; None if there are no objects, null for local files.
        complete: Completes a file, given its ordinal, with what is not in these columns; None if nothing is.
        logged: Whether each file is an object that was not listed: its length and its time are those that the
            log of a table format recorded, and its rows never change. None if all were listed.

    Example:
        >>> sizes, zeros = np.array([100, 200]), np.zeros(2, dtype=np.int64)
        >>> files = FileList(pa.array([b"/a.parquet", b"/b.parquet"], pa.large_binary()), sizes, [()], zeros)
        >>> len(files), files[1].path, files[1].size_bytes
        (2, '/b.parquet', 200)
    """

    paths: pa.Array
    size_bytes: npt.NDArray[np.int64]
    partitions: Sequence[Partition]
    partition_of: npt.NDArray[np.int64]
    times_ns: npt.NDArray[np.int64] | None = None
    e_tags: pa.Array | None = None
    complete: Callable[[int, DataFile], DataFile] | None = field(default=None, repr=False)
    logged: npt.NDArray[np.bool_] | None = field(default=None, repr=False)
    _made: dict[str, int] = field(default_factory=dict, init=False, repr=False)

    def __len__(self) -> int:
        return len(self.size_bytes)

    @overload
    def __getitem__(self, ordinal: int) -> DataFile: ...

    @overload
    def __getitem__(self, ordinal: slice) -> list[DataFile]: ...

    def __getitem__(self, ordinal: int | slice) -> DataFile | list[DataFile]:
        if isinstance(ordinal, slice):
            return [self[one] for one in range(*ordinal.indices(len(self)))]
        place = range(len(self))[ordinal]
        path = as_text(self.paths[place].as_py())
        self._made[path] = place
        times = None if self.times_ns is None else self.times_ns[place].tolist()
        file = DataFile(
            path,
            int(self.size_bytes[place]),
            self.partitions[self.partition_of[place]],
            e_tag=None if self.e_tags is None else self.e_tags[place].as_py(),
            times_ns=None if times is None else (times[0], times[1]),
        )
        return file if self.complete is None else self.complete(place, file)

    def ordinal_of(self, path: str) -> int:
        """Return the ordinal of one of the files, by the path of its `DataFile`."""
        return self._made[path]


def as_text(path: bytes) -> str:
    """Return a path, given its bytes."""
    return path.decode("utf-8", "surrogateescape")


def as_bytes(path: str) -> bytes:
    """Return a path as UTF-8; bytes of a name that are not UTF-8 stay as they are."""
    return path.encode("utf-8", "surrogateescape")


def paths_of(files: Sequence[DataFile]) -> pa.Array:
    """Return the paths of files, ``large_binary``; see `as_bytes`."""
    if isinstance(files, FileList):
        return files.paths
    return pa.array([as_bytes(file.path) for file in files], pa.large_binary())


def sizes_of(files: Sequence[DataFile]) -> npt.NDArray[np.int64]:
    """Return the sizes of files in bytes when they were listed."""
    if isinstance(files, FileList):
        return files.size_bytes
    return np.fromiter(map(attrgetter("size_bytes"), files), np.int64, len(files))


def partitions_of(files: Sequence[DataFile]) -> tuple[Sequence[Partition], npt.NDArray[np.int64]]:
    """Return the distinct partition values of files, and for each file the ordinal of its values."""
    if isinstance(files, FileList):
        return files.partitions, files.partition_of
    ordinals: dict[Partition, int] = defaultdict(count().__next__)
    partition_of = np.fromiter(map(ordinals.__getitem__, map(attrgetter("partition"), files)), np.int64)
    return [*ordinals], partition_of


def have_stamps(files: Sequence[DataFile]) -> bool:
    """Return whether the listing of the files has what shows that one was replaced: times or ETags."""
    if isinstance(files, FileList):
        return files.times_ns is not None or (files.e_tags is not None and not files.e_tags.null_count)
    return all(file.times_ns is not None or file.e_tag is not None for file in files)
