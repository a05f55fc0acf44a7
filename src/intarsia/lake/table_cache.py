"""The cache of an open table: footers with what was parsed of them, joined footers, the ends of objects."""

from __future__ import annotations

from collections.abc import Hashable, Sequence
from typing import NamedTuple

from intarsia.file import FileMetadata
from intarsia.file.joined import JoinedMetadata, JoinedPart
from intarsia.file.parquet_file import REMOTE_TAIL_BYTES
from intarsia.storage import ByteRange, CountedSource
from intarsia.storage.memory_cache import MAX_CACHE_BYTES, MemoryCache

#: The ends of objects take at most this part of a cache.
_TAIL_PART = 8

_METADATA, _JOINED, _TAIL = "metadata", "joined", "tail"


class Tail(NamedTuple):
    """The bytes before the footer of an object that were read with the footer.

    Attributes:
        start: Their offset in the object.
        data: The bytes.
    """

    start: int
    data: bytes


class TableCache(MemoryCache):
    """The cache of a table; tables of the same files can share it.

    Args:
        max_bytes: Approximate memory limit.
    """

    def __init__(self, max_bytes: int = MAX_CACHE_BYTES) -> None:
        super().__init__(max_bytes)
        self._max_tail_bytes = max_bytes // _TAIL_PART

    # --- metadata ----------------------------------------------------------------------------------

    def metadata(self, path: str, identity: Hashable | None) -> FileMetadata | None:
        """Return the metadata of a file; None if there is none, or if the file has changed."""
        found: FileMetadata | None = self.get(_METADATA, path, identity)
        return found

    def latest_metadata(self, path: str) -> FileMetadata | None:
        """Return the metadata of a file, which may have changed since; None if there is none."""
        found = self.latest(_METADATA, path)
        return None if found is None else found[1]

    def put_metadata(self, path: str, identity: Hashable | None, metadata: FileMetadata) -> None:
        """Store the metadata of a file; its size is measured again if it is known."""
        self.put(_METADATA, path, identity, metadata, metadata.memory_bytes)

    # --- many files --------------------------------------------------------------------------------

    def join(self, parts: Sequence[JoinedPart]) -> JoinedMetadata:
        """Return the joined metadata of files, the same object as before if all of them are unchanged."""
        key = tuple(part.metadata for part in parts)
        found: JoinedMetadata | None = self.get(_JOINED, key, key)
        if found is None:
            found = JoinedMetadata(parts)
            self.put(_JOINED, key, key, found, sum(metadata.memory_bytes for metadata in key))
        return found

    # --- the ends of objects -----------------------------------------------------------------------

    def keep_tail(self, source: CountedSource, footer_start: int) -> None:
        """Keep the end of an object if it has been read, until the query that reads its footer is planned.

        The ends contain Bloom filters of many objects, and all of a small object. A query that opens a table
        reads the footers of all objects for the schema first.

        Args:
            source: The object; nothing is kept of a local file, or if changes cannot be detected.
            footer_start: The offset of its footer.
        """
        start = max(0, source.size() - REMOTE_TAIL_BYTES)
        if not source.coalesce_bytes or source.identity is None or start >= footer_start:
            return
        if source.missing([ByteRange(start, footer_start)]):  # the footer was cached
            return
        num_bytes = footer_start - start
        if self.bytes_of(_TAIL) + num_bytes <= self._max_tail_bytes:
            tail = Tail(start, source.read(start, footer_start))
            self.put(_TAIL, source.path, source.identity, tail, num_bytes)

    def take_tail(self, path: str, identity: Hashable) -> Tail | None:
        """Remove the end of an object; return None if there is none, or if the object has changed."""
        found: Tail | None = self.take(_TAIL, path, identity)
        return found

    def drop_tails(self) -> None:
        """Remove the ends of all objects."""
        self.drop_all(_TAIL)
