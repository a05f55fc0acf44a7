"""A cache for opened indexes, so that the queries of an open table read and parse each index once."""

from __future__ import annotations

import threading
import weakref
from collections import OrderedDict
from typing import NamedTuple

from intarsia.file import FileMetadata
from intarsia.indexes.base import OpenIndex

#: Approximate memory limit for the opened indexes of one table.
MAX_KEPT_BYTES = 64 << 20


class _Kept(NamedTuple):
    metadata: weakref.ref[FileMetadata]
    opened: OpenIndex
    num_bytes: int


class KeptIndexes:
    """A thread-safe LRU cache for opened indexes, each of which is valid only for the metadata of its file.

    The metadata of a file is replaced if the file changes, and then its indexes are opened again.

    Args:
        max_bytes: Approximate memory limit.
    """

    def __init__(self, max_bytes: int = MAX_KEPT_BYTES) -> None:
        self._max_bytes = max_bytes
        self._lock = threading.Lock()
        self._held: OrderedDict[tuple[str, str], _Kept] = OrderedDict()
        self._num_bytes = 0

    @property
    def memory_bytes(self) -> int:
        """Approximate memory used by the indexes."""
        return self._num_bytes

    def get(self, metadata: FileMetadata, name: str) -> OpenIndex | None:
        """Return an index of a file; None if it is not kept.

        Args:
            metadata: The metadata of the file.
            name: The name of the index in the directory.
        """
        with self._lock:
            kept = self._held.get((metadata.path, name))
            if kept is None or kept.metadata() is not metadata:
                return None
            self._held.move_to_end((metadata.path, name))
            return kept.opened

    def put(self, metadata: FileMetadata, name: str, index: OpenIndex, num_bytes: int) -> None:
        """Keep an index of a file, in place of the one with the same name, if it is within the limit.

        Args:
            metadata: The metadata of the file.
            name: The name of the index in the directory.
            index: The index, which is used by several queries, possibly at the same time.
            num_bytes: Its approximate memory.
        """
        with self._lock:
            old = self._held.pop((metadata.path, name), None)
            self._num_bytes -= 0 if old is None else old.num_bytes
            if num_bytes > self._max_bytes:
                return
            self._held[metadata.path, name] = _Kept(weakref.ref(metadata), index, num_bytes)
            self._num_bytes += num_bytes
            while self._num_bytes > self._max_bytes:
                _, dropped = self._held.popitem(last=False)
                self._num_bytes -= dropped.num_bytes
