"""Opened indexes in a cache, so that the queries of an open table read and parse each index once."""

from __future__ import annotations

import weakref

from intarsia.file import FileMetadata
from intarsia.indexes.base import OpenIndex
from intarsia.storage.memory_cache import MemoryCache

_KIND = "index"


class KeptIndexes:
    """The opened indexes in a cache, each of which is valid only for the metadata of its file.

    The metadata of a file is replaced if the file changes, and then its indexes are opened again.

    Args:
        cache: The cache.
    """

    def __init__(self, cache: MemoryCache) -> None:
        self._cache = cache

    def get(self, metadata: FileMetadata, name: str) -> OpenIndex | None:
        """Return an index of a file; None if it is not kept.

        Args:
            metadata: The metadata of the file.
            name: The name of the index in the directory.
        """
        found: OpenIndex | None = self._cache.get(_KIND, (metadata.path, name), weakref.ref(metadata))
        return found

    def put(self, metadata: FileMetadata, name: str, index: OpenIndex, num_bytes: int) -> None:
        """Keep an index of a file, in place of the one with the same name.

        Args:
            metadata: The metadata of the file.
            name: The name of the index in the directory.
            index: The index, which is used by several queries, possibly at the same time.
            num_bytes: Its approximate memory.
        """
        self._cache.put(_KIND, (metadata.path, name), weakref.ref(metadata), index, num_bytes)
