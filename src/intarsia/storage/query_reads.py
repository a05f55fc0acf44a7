"""The reads of a query, counted where they are made.

Every request that a storage makes is counted for the query that runs in the same thread, or in threads that
`intarsia.read.ahead` starts for it; in other threads, for the query that opened the file. So no caller can
forget to count a read, and none is counted twice.
"""

from __future__ import annotations

import threading
from collections.abc import Iterator
from contextlib import contextmanager
from contextvars import ContextVar


class QueryReads:
    """The requests of a query to storages, and the bytes that they fetched; thread-safe.

    A request is for bytes of a file or object, or for the metadata of an object. Listing a folder is not
    counted, nor is the status of a local file.

    Args:
        outer: The reads of a query of which this one is a part; they contain those of this one.

    Attributes:
        requests: The number of requests.
        bytes: The number of bytes.
        index_bytes: The part of them that was indexes.

    Example:
        >>> import tempfile, os
        >>> from intarsia.storage import ByteRange, LocalFile
        >>> path = os.path.join(tempfile.mkdtemp(), "bytes")
        >>> with open(path, "wb") as file:
        ...     _ = file.write(b"abcdef")
        >>> reads = QueryReads()
        >>> with reads.counting():
        ...     LocalFile(path).read_ranges([ByteRange(1, 3), ByteRange(4, 5)])
        [b'bc', b'e']
        >>> reads.requests, reads.bytes
        (2, 3)
    """

    def __init__(self, outer: QueryReads | None = None) -> None:
        self._outer = outer
        self._lock = threading.Lock()
        self.requests = self.bytes = self.index_bytes = 0

    def __repr__(self) -> str:
        return f"QueryReads({self.requests:,}, {self.bytes:,}, {self.index_bytes:,})"

    def __getstate__(self) -> tuple[int, int, int]:
        return self.requests, self.bytes, self.index_bytes

    def __setstate__(self, state: tuple[int, int, int]) -> None:
        self.__init__()  # type: ignore[misc]
        self.requests, self.bytes, self.index_bytes = state

    def add(self, requests: int = 0, num_bytes: int = 0, index_bytes: int = 0) -> None:
        """Add to the counts."""
        with self._lock:
            self.requests += requests
            self.bytes += num_bytes
            self.index_bytes += index_bytes
        if self._outer is not None:
            self._outer.add(requests, num_bytes, index_bytes)

    @contextmanager
    def counting(self) -> Iterator[None]:
        """Count the reads within the block."""
        token = _CURRENT.set(self)
        try:
            yield
        finally:
            _CURRENT.reset(token)


class _IndexReads(QueryReads):
    """Counts all bytes as those of indexes."""

    def add(self, requests: int = 0, num_bytes: int = 0, index_bytes: int = 0) -> None:
        """Add to the counts of the query."""
        super().add(requests, num_bytes, max(num_bytes, index_bytes))


#: The reads of the query that runs in this thread.
_CURRENT: ContextVar[QueryReads | None] = ContextVar("intarsia_reads", default=None)


def current_reads() -> QueryReads | None:
    """Return the counts of the query that runs in this thread; None if there is none."""
    return _CURRENT.get()


@contextmanager
def reading_indexes() -> Iterator[None]:
    """Count the bytes that are read within the block as those of indexes."""
    reads = _CURRENT.get()
    if reads is None:
        yield
        return
    with _IndexReads(reads).counting():
        yield
