"""The metadata that an open table keeps: footers, page indexes and directories, within a limit."""

from __future__ import annotations

import threading
from collections import OrderedDict
from collections.abc import Hashable

from intarsia.file import FileMetadata

#: A table remembers metadata of its files up to about this many bytes of memory.
MAX_METADATA_BYTES = 256 << 20


class MetadataCache:
    """Metadata of files, used only while the file is unchanged; the least recently used goes first.

    Several threads may use it.

    Args:
        max_bytes: About how much memory the metadata may take.
    """

    def __init__(self, max_bytes: int = MAX_METADATA_BYTES) -> None:
        self._max_bytes = max_bytes
        self._lock = threading.Lock()
        self._held: OrderedDict[str, tuple[Hashable, FileMetadata, int]] = OrderedDict()
        self._num_bytes = 0

    @property
    def held_bytes(self) -> int:
        """About how much memory the metadata takes."""
        return self._num_bytes

    def __contains__(self, path: str) -> bool:
        """Whether there is metadata of a file, up to date or not."""
        return path in self._held

    def get(self, path: str, identity: Hashable | None) -> FileMetadata | None:
        """The metadata of a file; None if there is none, or if the file has changed since.

        Args:
            path: Its path.
            identity: The identity of the open file; see `intarsia.storage.ByteSource`.
        """
        with self._lock:
            known = self._held.get(path)
            if known is None or identity is None or known[0] != identity:
                return None
            self._held.move_to_end(path)
            return known[1]

    def put(self, path: str, identity: Hashable | None, metadata: FileMetadata) -> None:
        """Keep metadata; that of a known file is replaced, and its size is measured again."""
        with self._lock:
            _, _, old_bytes = self._held.pop(path, (None, None, 0))
            self._num_bytes -= old_bytes
            num_bytes = metadata.held_bytes
            if identity is None or num_bytes > self._max_bytes:
                return
            self._held[path] = identity, metadata, num_bytes
            self._num_bytes += num_bytes
            while self._num_bytes > self._max_bytes:
                _, (_, _, dropped_bytes) = self._held.popitem(last=False)
                self._num_bytes -= dropped_bytes
