"""A file that is private to its writer, so its tail is replaced in place, without a copy."""

from __future__ import annotations

import os
from collections.abc import Iterable
from contextlib import suppress

from intarsia.storage.local import LocalFile
from intarsia.storage.replace import write_all
from intarsia.storage.sidecar import read_sidecar, sidecar_path, updated_sidecar
from intarsia.storage.source import ByteSource


class PrivateFile:
    """A temporary file of another writer; implements `intarsia.storage.target.Target`.

    Its Hadoop sidecar is kept up to date, because the writer moves both. The file is not synced to disk; its
    writer decides that.

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
        """Replace the bytes after the first ``keep_bytes``.

        Raises:
            OSError: If the system refuses. If ``keep_bytes`` is the size, the file is unchanged.
        """
        sidecar = read_sidecar(self._temporary)
        fd = os.open(self._temporary, os.O_RDWR | os.O_CLOEXEC)
        try:
            try:
                os.ftruncate(fd, keep_bytes)
                os.lseek(fd, keep_bytes, os.SEEK_SET)
                for piece in tail:
                    write_all(fd, piece)
                if sidecar is not None:
                    self._write_sidecar(updated_sidecar(sidecar, self.size, fd, keep_bytes))
            except OSError:
                os.ftruncate(fd, keep_bytes)
                with suppress(OSError):
                    if sidecar is not None:
                        self._write_sidecar(sidecar)
                raise
        finally:
            os.close(fd)

    def _write_sidecar(self, data: bytes) -> None:
        with open(sidecar_path(self._temporary), "wb") as file:
            file.write(data)
