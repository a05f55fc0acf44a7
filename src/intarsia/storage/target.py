"""Files that can be replaced or created: local files and objects in a store."""

from __future__ import annotations

import os
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import contextmanager
from typing import Protocol

from intarsia.errors import ReplaceError
from intarsia.storage import ByteSource, LocalFile, StorageOptions, find_store, local_path
from intarsia.storage.hadoop_files import read_sidecar, sidecar_path, updated_sidecar
from intarsia.storage.object_target import NewObject, open_object_target
from intarsia.storage.replace import (
    AHEAD_BYTES,
    FileIdentity,
    NewFile,
    Replacement,
    opened,
    remove_leftovers,
    replace_tail,
    write_all,
)


class Target(Protocol):
    """A file that can be read, and replaced unless it has changed since it was opened."""

    path: str
    size: int

    def open(self) -> ByteSource:
        """Open it for reading."""
        ...

    def replace_tail(self, keep_bytes: int, tail: Sequence[bytes]) -> None:
        """Atomically replace it by its first bytes and a new tail.

        Raises:
            ChangedMeanwhileError: If it has changed since it was opened.
            ReplaceError: If the new file could not be written; the old file is untouched.
        """
        ...


class LocalTarget:
    """A local file.

    Args:
        ahead_bytes: Fewer bytes are not copied ahead; see `copying_ahead`.
    """

    def __init__(self, path: str, ahead_bytes: int = AHEAD_BYTES) -> None:
        self.path = path
        self._ahead_bytes = ahead_bytes
        remove_leftovers(path)
        self._identity = FileIdentity.of(path)
        self._replacement: Replacement | None = None
        self.size = self._identity.size

    def open(self) -> ByteSource:
        """Open it for reading."""
        return LocalFile(self.path)

    def replace_tail(self, keep_bytes: int, tail: Sequence[bytes]) -> None:
        """See `intarsia.storage.replace.replace_tail`."""
        if self._replacement is not None:
            self._replacement.finish(tail)
        else:
            replace_tail(self.path, self._identity, keep_bytes, tail)

    @contextmanager
    def copying_ahead(self, keep_bytes: int) -> Iterator[Callable[[], None]]:
        """Prepare a call of `replace_tail` with the same ``keep_bytes`` within the block.

        Yields:
            A function that starts to copy these bytes while the tail is being computed. Call it, once or
            more, when the file will certainly be replaced.
        """
        new = Replacement(self.path, self._identity, keep_bytes, self._ahead_bytes)
        with new as self._replacement:
            try:
                yield self._replacement.begin
            finally:
                self._replacement = None


def find_target(path: str | os.PathLike[str], options: StorageOptions | None = None) -> Target:
    """Return the target for a local path or a URL.

    Args:
        options: Options of the store of a URL.

    Raises:
        IsADirectoryError: If it is a folder.
        ObjectStoreError: If the store is unreachable, refuses access, or is unknown.
    """
    name = os.fspath(path)
    local = local_path(name)
    if local is None:
        return open_object_target(name, options)
    if os.path.isdir(local):
        raise IsADirectoryError(
            f"{name}: this is a folder, and a single file is expected; name one of its files"
        )
    return LocalTarget(local)


def new_target(
    path: str | os.PathLike[str],
    options: StorageOptions | None = None,
    replaces: FileIdentity | None = None,
) -> NewFile:
    """Create a file that will be written to a local path or a URL.

    Args:
        options: Options of the store of a URL.
        replaces: The local file at the path, which must not change until it is replaced; None for any.

    Raises:
        ReplaceError: If the file cannot be created.
        ObjectStoreError: If the store or an option is unknown.
    """
    name = os.fspath(path)
    local = local_path(name)
    return NewFile(local, replaces) if local is not None else NewObject(*find_store(name, options), name)


class PrivateFile:
    """A temporary file, which its writer moves when it is complete; implements `Target`.

    A Hadoop sidecar is kept up to date, because Spark's writer moves both. The file is not synced to disk;
    its writer decides that.

    This process may be killed at any time. So Spark's writer restores the file after any failure, with the
    length and the sidecar from before (``AppendedFile.java``). This class only appends.

    Args:
        temporary: Its current path.
        path: The path that it will have, for messages.
    """

    def __init__(self, temporary: str, path: str) -> None:
        self.path = path
        self._temporary = temporary
        self.size = os.path.getsize(temporary)

    def open(self) -> ByteSource:
        """Open the file for reading."""
        return LocalFile(self._temporary, shown_as=self.path)

    def replace_tail(self, keep_bytes: int, tail: Iterable[bytes]) -> None:
        """Append a tail.

        Raises:
            ReplaceError: If bytes of the file would be replaced; the file is unchanged.
            OSError: If the system refuses. The file may have a part of the tail then.
        """
        if keep_bytes != self.size:
            raise ReplaceError(
                "the file already has indexes; index it after it is committed",
                reason="already-indexed",
                path=self.path,
            )
        sidecar = read_sidecar(self._temporary)
        with opened(self._temporary, os.O_RDWR) as fd:
            os.lseek(fd, keep_bytes, os.SEEK_SET)
            for piece in tail:
                write_all(fd, piece)
            if sidecar is not None:
                sidecar = updated_sidecar(sidecar, self.size, fd, keep_bytes)
                with opened(sidecar_path(self._temporary), os.O_WRONLY | os.O_TRUNC) as file:
                    write_all(file, sidecar)
