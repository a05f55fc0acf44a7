"""A file that is private to its writer, so a tail is appended in place, without a copy."""

from __future__ import annotations

import os
from collections.abc import Iterable

from intarsia.errors import ReplaceError
from intarsia.storage.local import LocalFile
from intarsia.storage.replace import write_all
from intarsia.storage.sidecar import read_sidecar, sidecar_path, updated_sidecar
from intarsia.storage.source import ByteSource


class PrivateFile:
    """A temporary file of another writer; implements `intarsia.storage.target.Target`.

    Its Hadoop sidecar is kept up to date, because the writer moves both. The file is not synced to disk; its
    writer decides that.

    This process may be killed at any time. So the writer restores the file after any failure, with the length
    and the sidecar from before (``AppendedFile.java``). This class only appends.

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
                f"{self.path}: the file already has indexes; index it after it is committed",
                reason="already-indexed",
                path=self.path,
            )
        sidecar = read_sidecar(self._temporary)
        fd = os.open(self._temporary, os.O_RDWR | os.O_CLOEXEC)
        try:
            os.lseek(fd, keep_bytes, os.SEEK_SET)
            for piece in tail:
                write_all(fd, piece)
            if sidecar is not None:
                self._write_sidecar(updated_sidecar(sidecar, self.size, fd, keep_bytes))
        finally:
            os.close(fd)

    def _write_sidecar(self, data: bytes) -> None:
        fd = os.open(sidecar_path(self._temporary), os.O_WRONLY | os.O_TRUNC | os.O_CLOEXEC)
        try:
            write_all(fd, data)
        finally:
            os.close(fd)
