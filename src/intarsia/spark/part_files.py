"""The task of a rewrite: it writes the sorted rows of one partition to one or more indexed files."""

from __future__ import annotations

import os
import secrets
import shutil
import stat
import uuid
from collections.abc import Iterable, Iterator, Sequence
from contextlib import ExitStack, suppress
from itertools import accumulate, pairwise

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from intarsia.embed.structures import Attachable
from intarsia.errors import IntarsiaError, UnsupportedFeatureError, WriteError
from intarsia.lake.discovery import HIVE_NULL
from intarsia.records import dataclass
from intarsia.spark.checksums import Checksums
from intarsia.spark.in_place import States, check_exchange, finish, swap
from intarsia.spark.job import pickled, unpickled
from intarsia.spark.shipping import Shipped, unpack_index
from intarsia.storage.local import lock_file
from intarsia.storage.replace import named_errors
from intarsia.write import Writer, WriteReport
from intarsia.write.rows import SortBy

#: Characters that Spark escapes in the names of folders.
_ESCAPED = {chr(code) for code in range(1, 0x20)} | set("\"#%'*/:=?\\\x7f{[]^")


@dataclass(frozen=True)
class PartOptions:
    """How a task writes its rows.

    Attributes:
        folder: The folder below which each attempt writes to its own folder.
        schema: The schema of the files.
        partition_by: Names of the partition columns, whose texts follow the columns of the files.
        rows_per_file: A file with this many rows is closed, and another one is begun.
        rows_per_page: As for `intarsia.Writer`; so are the following attributes.
        compression: The codec.
        sort_by: The order of the rows.
        indexes: The indexes to embed.
    """

    folder: str
    schema: pa.Schema
    partition_by: tuple[str, ...]
    rows_per_file: int
    rows_per_page: int
    compression: str
    sort_by: SortBy | None
    indexes: tuple[Shipped, ...]


def write_parts(
    batches: Iterable[pa.RecordBatch], options: PartOptions, task: int
) -> Iterator[pa.RecordBatch]:
    """Write the rows of one partition, which are sorted by partition columns.

    Args:
        batches: The rows: the columns of the files, the texts of the partition columns, and the hash that
            each row had when Spark read it.
        options: How to write.
        task: The ordinal of the partition, for the names of files.

    Yields:
        A row for each file and a row for the checksums of all rows, or a row for an error that another
        attempt would also raise. `outcome_of` reads it.
    """
    try:
        yield pickled(*_write_all(batches, options, task))
    except IntarsiaError as error:
        yield pickled(WriteError(str(error), reason=error.reason, column=error.column))


def _write_all(
    batches: Iterable[pa.RecordBatch], options: PartOptions, task: int
) -> list[WriteReport | Checksums]:
    attempt = os.path.join(options.folder, f"{task:05}-{uuid.uuid4().hex}")
    _make_folder(attempt)
    indexes = [unpack_index(shipped) for shipped in options.indexes]
    reports: list[WriteReport] = []
    read, writer, open_folder, num_rows = Checksums(), None, "", 0
    try:
        for batch in batches:
            read += Checksums.of_hashes(batch.column(batch.num_columns - 1))
            for folder, rows in _runs(batch, options):
                while rows.num_rows:
                    if writer is None or folder != open_folder or num_rows >= options.rows_per_file:
                        reports += [] if writer is None else [writer.close()]
                        name = f"part-{task:05}-{len(reports):03}-{uuid.uuid4().hex[:8]}.parquet"
                        path = os.path.join(attempt, folder, name)
                        for below in accumulate(filter(None, folder.split(os.sep)), os.path.join):
                            _make_folder(os.path.join(attempt, below))
                        writer, open_folder, num_rows = _new_writer(path, options, indexes), folder, 0
                    piece = rows.slice(0, options.rows_per_file - num_rows)
                    writer.write_table(piece)
                    num_rows += piece.num_rows
                    rows = rows.slice(piece.num_rows)
        reports += [] if writer is None else [writer.close()]
    except BaseException:
        if writer is not None:
            writer.discard()
        raise
    return [*reports, read]


def _make_folder(path: str) -> None:
    """Make a folder of an attempt, but none above it: nobody would remove them after the end of the job."""
    try:
        os.mkdir(path)
    except FileExistsError:
        pass
    except FileNotFoundError:
        raise WriteError(
            "the folder is gone, because the job has ended; run it again", reason="no-such-folder", path=path
        ) from None


def _new_writer(path: str, options: PartOptions, indexes: Sequence[Attachable]) -> Writer:
    return Writer(
        path,
        options.schema,
        indexes=indexes,
        rows_per_page=options.rows_per_page,
        sort_by=options.sort_by,
        compression=options.compression,
    )


def _runs(batch: pa.RecordBatch, options: PartOptions) -> Iterator[tuple[str, pa.Table]]:
    """Yield the folder and the rows of each run of rows with the same partition values."""
    width, names = len(options.schema), options.partition_by
    columns = [batch.column(width + ordinal).fill_null(HIVE_NULL) for ordinal in range(len(names))]
    ends = [pc.run_end_encode(column).run_ends for column in columns]
    edges = np.unique(np.concatenate([[0, batch.num_rows], *ends]))
    for start, stop in pairwise(edges.tolist()):
        values = [column[start].as_py() for column in columns]
        rows = pa.Table.from_batches([batch.slice(start, stop - start)]).select(list(range(width)))
        folder = os.path.join("", *map(partition_folder, names, values))
        yield folder, rows.rename_columns(options.schema.names).cast(options.schema)


def partition_folder(name: str, value: str) -> str:
    """Return the name of the folder of a partition value, as Spark writes it.

    Example:
        >>> partition_folder("day", "2020-01-31"), partition_folder("at", "10:30 a/b")
        ('day=2020-01-31', 'at=10%3A30 a%2Fb')

    Raises:
        WriteError: If the value is empty, which Spark would read as null.
    """
    if not value:
        raise WriteError(
            f"partition column {name!r} has an empty string, which would be read as null; replace these "
            "values, or do not partition by this column",
            reason="empty-partition-value",
            column=name,
        )
    return f"{_escape(name)}={_escape(value)}"


def _escape(text: str) -> str:
    return "".join(f"%{ord(char):02X}" if char in _ESCAPED else char for char in text)


def outcome_of(data: bytes) -> WriteReport | Checksums:
    """Return the report of a file, or the checksums of the rows that a task was passed, on the driver.

    Raises:
        WriteError: If the rows could not be written.
    """
    outcome: WriteReport | Checksums | WriteError = unpickled(data)
    if isinstance(outcome, WriteError):
        raise outcome
    return outcome


_LOCK, _ATTEMPTS, _DATA = "lock", "attempts", "data"


class Staging:
    """A folder that will be the destination.

    As a context manager, it removes everything that was not published. If the process is killed, the next
    run to the same destination removes the files.

    Args:
        destination: A local folder that is empty or does not exist.
        is_replaced: Whether the files of the destination are replaced, so that it need not be empty.

    Attributes:
        folder: The folder with all of these.
        attempts: The folder below which tasks write.
        data: The folder of the files that count.

    Raises:
        WriteError: If the destination has files.
        ReplaceError: If the folder above it cannot be created.
        UnsupportedFeatureError: If it is a mount point.
    """

    def __init__(self, destination: str, *, is_replaced: bool = False) -> None:
        self._is_replaced = is_replaced
        self._destination = os.path.realpath(destination)
        self._held = ExitStack()
        parent, name = os.path.split(self._destination)
        if not name:
            raise _occupied(destination)
        if os.path.ismount(self._destination):
            raise UnsupportedFeatureError(
                "the folder is a mount point, which cannot be renamed; write the rows to another folder",
                reason="mount-point",
                path=destination,
            )
        self.check()
        with named_errors(parent, "created"):
            os.makedirs(parent, exist_ok=True)
        finish_killed_runs(self._destination)
        self.folder = os.path.join(parent, f".{name}.intarsia-{secrets.token_hex(8)}")
        self.attempts = os.path.join(self.folder, _ATTEMPTS)
        self.data = os.path.join(self.folder, _DATA)

    def __enter__(self) -> Staging:
        lock = None
        while lock is None:
            with named_errors(self.folder, "created"):
                os.mkdir(self.folder)
            with suppress(FileNotFoundError):  # another run has removed the empty folder
                lock = os.open(os.path.join(self.folder, _LOCK), os.O_CREAT | os.O_RDWR | os.O_CLOEXEC)
        self._held.callback(_remove, self.folder)
        self._held.callback(os.close, lock)
        lock_file(lock, wait=False)
        os.mkdir(self.attempts)
        os.mkdir(self.data)
        if self._is_replaced:
            try:
                check_exchange(self.attempts, self._destination)
            except BaseException:
                self._held.close()
                raise
        return self

    def __exit__(self, *_: object) -> None:
        self._held.close()

    def check(self) -> None:
        """Raise an error if the destination is not an empty folder, and exists.

        Raises:
            WriteError: If it has files, or is a file.
        """
        if self._is_replaced:
            return
        try:
            if not os.path.lexists(self._destination) or not os.listdir(self._destination):
                return
        except NotADirectoryError:
            pass
        raise _occupied(self._destination)

    def accept(self, path: str) -> str:
        """Move a file, which a task wrote as ``attempts/ATTEMPT/…``, into the data; return its new path."""
        _, _, below = os.path.relpath(path, self.attempts).partition(os.sep)
        target = os.path.join(self.data, below)
        os.makedirs(os.path.dirname(target), exist_ok=True)
        os.rename(path, target)
        return target

    def publish(self, rewritten: States) -> None:
        """Rename the data to the destination, or exchange the two.

        Args:
            rewritten: The files of the destination that are replaced.

        Raises:
            WriteError: If the destination has files by then, or files that are replaced have changed.
        """
        if self._is_replaced:
            swap(self.folder, self.data, self._destination, rewritten)
            return
        with suppress(FileNotFoundError):
            os.chmod(self.data, stat.S_IMODE(os.stat(self._destination).st_mode))
        try:
            os.rename(self.data, self._destination)  # replaces a folder only if it is empty
        except OSError:
            self.check()
            raise

    def published(self, path: str) -> str:
        """Return the path below the destination of a file in `data`."""
        return os.path.join(self._destination, os.path.relpath(path, self.data))


def _remove(folder: str) -> None:
    """Remove a staging folder; the lock is last, because the next run finds the rest by it."""
    for entry in os.listdir(folder):
        if entry != _LOCK:
            path = os.path.join(folder, entry)
            _remove_tree(path) if os.path.isdir(path) else os.unlink(path)
    with suppress(OSError):
        if os.listdir(folder) == [_LOCK]:
            os.unlink(os.path.join(folder, _LOCK))
        os.rmdir(folder)


def _remove_tree(folder: str) -> None:
    for parent, _, _ in os.walk(folder):
        with suppress(OSError):
            os.chmod(parent, stat.S_IRWXU)  # the folders of the lake may be read-only
    shutil.rmtree(folder, ignore_errors=True)


def finish_killed_runs(destination: str) -> None:
    """Remove the hidden folders of killed runs beside a local folder, which have copies of its rows."""
    destination = os.path.realpath(destination)
    parent, name = os.path.split(destination)
    for entry in os.listdir(parent):
        if entry.startswith(f".{name}.intarsia-"):
            _remove_if_abandoned(os.path.join(parent, entry), destination)


def _remove_if_abandoned(folder: str, destination: str) -> None:
    """Remove the files of a run that was killed, whose lock is free."""
    try:
        lock = os.open(os.path.join(folder, _LOCK), os.O_RDWR | os.O_CLOEXEC)
    except OSError:
        with suppress(OSError):  # if it is empty, a run was killed at its first or last step
            os.rmdir(folder)
        return
    try:
        if lock_file(lock, wait=False):
            finish(folder, os.path.join(folder, _DATA), destination)
            _remove(folder)
    finally:
        os.close(lock)


def _occupied(path: str) -> WriteError:
    return WriteError(
        "the destination is not an empty folder; pass a new folder, or remove its files first",
        reason="destination-not-empty",
        path=path,
    )
