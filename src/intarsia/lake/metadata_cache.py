"""Caches of an open table, within limits: footers, page indexes, directories, and the ends of objects."""

from __future__ import annotations

import threading
from collections import OrderedDict
from collections.abc import Hashable, Sequence
from typing import NamedTuple

from intarsia.file import FileMetadata
from intarsia.file.joined import JoinedMetadata, JoinedPart
from intarsia.file.parquet_file import REMOTE_TAIL_BYTES
from intarsia.storage import ByteRange, CountedSource

#: Approximate memory limit for the cached metadata of one table.
MAX_METADATA_BYTES = 256 << 20

#: Memory limit for the ends of objects.
MAX_TAIL_BYTES = 64 << 20


class MetadataCache:
    """A thread-safe LRU cache for the metadata of files, valid only while the file is unchanged.

    Args:
        max_bytes: Approximate memory limit.
    """

    def __init__(self, max_bytes: int = MAX_METADATA_BYTES) -> None:
        self._max_bytes = max_bytes
        self._lock = threading.Lock()
        self._held: OrderedDict[str, tuple[Hashable, FileMetadata, int]] = OrderedDict()
        self._num_bytes = 0

    @property
    def memory_bytes(self) -> int:
        """Approximate memory used by the metadata."""
        return self._num_bytes

    def __contains__(self, path: str) -> bool:
        """Return whether the cache contains metadata of a file, valid or not."""
        return path in self._held

    def get(self, path: str, identity: Hashable | None) -> FileMetadata | None:
        """Return the metadata of a file; None if there is none, or if the file has changed.

        Args:
            path: The path of the file.
            identity: The identity of the open file; see `intarsia.storage.ByteSource`.
        """
        with self._lock:
            known = self._held.get(path)
            if known is None or identity is None or known[0] != identity:
                return None
            self._held.move_to_end(path)
            return known[1]

    def latest(self, path: str) -> tuple[FileMetadata, Hashable] | None:
        """Return the metadata of a file and the identity that the file had; None if there is none."""
        with self._lock:
            known = self._held.get(path)
            return None if known is None else (known[1], known[0])

    def put(self, path: str, identity: Hashable | None, metadata: FileMetadata) -> None:
        """Store metadata of a file; an existing entry is replaced and its size measured again."""
        with self._lock:
            _, _, old_bytes = self._held.pop(path, (None, None, 0))
            self._num_bytes -= old_bytes
            num_bytes = metadata.memory_bytes
            if identity is None or num_bytes > self._max_bytes:
                return
            self._held[path] = identity, metadata, num_bytes
            self._num_bytes += num_bytes
            while self._num_bytes > self._max_bytes:
                _, (_, _, dropped_bytes) = self._held.popitem(last=False)
                self._num_bytes -= dropped_bytes


class Tail(NamedTuple):
    """The bytes before the footer of an object that were read with the footer.

    Attributes:
        start: Their offset in the object.
        data: The bytes.
    """

    start: int
    data: bytes


class Tails:
    """The ends of objects, kept until the query that reads their footers is planned; thread-safe.

    They contain Bloom filters of many objects, and all of a small object. A query that opens a table reads
    the footers of all objects for the schema first.

    Args:
        max_bytes: Memory limit; no more are kept.
    """

    def __init__(self, max_bytes: int = MAX_TAIL_BYTES) -> None:
        self._max_bytes = max_bytes
        self._lock = threading.Lock()
        self._held: dict[str, tuple[Hashable, Tail]] = {}
        self._num_bytes = 0

    def put(self, source: CountedSource, footer_start: int) -> None:
        """Keep the end of an object if it has been read.

        Args:
            source: The object; nothing is kept of a local file, or if changes cannot be detected.
            footer_start: The offset of its footer.
        """
        start = max(0, source.size() - REMOTE_TAIL_BYTES)
        if not source.coalesce_bytes or source.identity is None or start >= footer_start:
            return
        if source.missing([ByteRange(start, footer_start)]):  # the footer was cached
            return
        with self._lock:
            if self._num_bytes + footer_start - start <= self._max_bytes and source.path not in self._held:
                self._held[source.path] = source.identity, Tail(start, source.read(start, footer_start))
                self._num_bytes += footer_start - start

    def take(self, path: str, identity: Hashable) -> Tail | None:
        """Remove the end of an object; return None if there is none, or if the object has changed."""
        with self._lock:
            found, tail = self._held.pop(path, (None, None))
            self._num_bytes -= 0 if tail is None else len(tail.data)
            return tail if found == identity else None

    def clear(self) -> None:
        """Remove the ends of all objects."""
        with self._lock:
            self._held.clear()
            self._num_bytes = 0


class JoinedCache:
    """A thread-safe LRU cache for the joined metadata of files, with the values derived from it.

    Args:
        max_bytes: Approximate memory limit for the metadata of the files; `MetadataCache` may have the same
            metadata.
    """

    def __init__(self, max_bytes: int = MAX_METADATA_BYTES) -> None:
        self._max_bytes = max_bytes
        self._lock = threading.Lock()
        self._held: OrderedDict[tuple[FileMetadata, ...], tuple[JoinedMetadata, int]] = OrderedDict()
        self._num_bytes = 0

    def join(self, parts: Sequence[JoinedPart]) -> JoinedMetadata:
        """Return the joined metadata of files, the same object as before if all of them are unchanged."""
        key = tuple(part.metadata for part in parts)
        with self._lock:
            found = self._held.get(key)
            if found is not None:
                self._held.move_to_end(key)
                return found[0]
            found = self._held[key] = JoinedMetadata(parts), sum(part.metadata.memory_bytes for part in parts)
            self._num_bytes += found[1]
            while self._num_bytes > self._max_bytes and self._held:
                _, (_, dropped_bytes) = self._held.popitem(last=False)
                self._num_bytes -= dropped_bytes
            return found[0]
