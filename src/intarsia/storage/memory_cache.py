"""A cache in memory of facts about files, each of which is valid for one identity of its file."""

from __future__ import annotations

import threading
from collections import Counter, OrderedDict
from collections.abc import Hashable
from typing import Any, TypeAlias

#: Memory limit of a cache: footers, page indexes and directories, joined footers, opened indexes and the ends
#: of objects of one table.
MAX_CACHE_BYTES = 512 << 20


#: The identity, the value, and its size in bytes.
_Entry: TypeAlias = tuple[Hashable, Any, int]


class MemoryCache:
    """A thread-safe LRU cache with one memory limit for values of several kinds.

    Args:
        max_bytes: Approximate memory limit.
    """

    def __init__(self, max_bytes: int = MAX_CACHE_BYTES) -> None:
        self._max_bytes = max_bytes
        self._lock = threading.Lock()
        self._held: OrderedDict[tuple[str, Hashable], _Entry] = OrderedDict()
        self._bytes_of: Counter[str] = Counter()

    @property
    def memory_bytes(self) -> int:
        """The approximate memory of all values."""
        return sum(self._bytes_of.values())

    def bytes_of(self, kind: str) -> int:
        """Return the approximate memory of the values of a kind."""
        return self._bytes_of[kind]

    def get(self, kind: str, key: Hashable, identity: Hashable | None) -> Any:
        """Return a value; None if there is none, or if its identity is unknown or has changed."""
        with self._lock:
            found = self._held.get((kind, key))
            if found is None or identity is None or found[0] != identity:
                return None
            self._held.move_to_end((kind, key))
            return found[1]

    def put(self, kind: str, key: Hashable, identity: Hashable | None, value: Any, num_bytes: int) -> None:
        """Store a value in place of the one with the same key, unless it has no identity or is too large."""
        with self._lock:
            if (kind, key) in self._held:
                self._drop((kind, key))
            if identity is not None and num_bytes <= self._max_bytes:
                self._held[kind, key] = identity, value, num_bytes
                self._bytes_of[kind] += num_bytes
            while sum(self._bytes_of.values()) > self._max_bytes:
                self._drop(next(iter(self._held)))

    def take(self, kind: str, key: Hashable, identity: Hashable | None) -> Any:
        """Remove a value, and return it as `get` does."""
        with self._lock:
            found = self._drop((kind, key))
            return None if found is None or found[0] != identity else found[1]

    def drop_all(self, kind: str) -> None:
        """Remove all values of a kind."""
        if not self._bytes_of[kind]:
            return
        with self._lock:
            for key in [key for key in self._held if key[0] == kind]:
                self._drop(key)

    def _drop(self, key: tuple[str, Hashable]) -> _Entry | None:
        found = self._held.pop(key, None)
        if found is not None:
            self._bytes_of[key[0]] -= found[2]
        return found
