"""The query that runs in this thread: its reads, counted where they are made, and its deadline.

Both apply to the code of a block, and to threads that `intarsia.ahead` starts for it. Reads in other
threads are counted for the query that opened the file, so no caller can forget a read and none is counted
twice.
"""

from __future__ import annotations

import threading
import time
from collections.abc import Callable, Iterator
from concurrent.futures import Future, wait
from contextlib import AbstractContextManager, contextmanager, nullcontext
from contextvars import ContextVar
from typing import NamedTuple, TypeVar

from intarsia.errors import QueryTimeoutError


class ReadRange(NamedTuple):
    """A range of bytes that a query read.

    Attributes:
        path: The path or URL of the file.
        start: The offset of the first byte.
        stop: The offset after the last byte.
    """

    path: str
    start: int
    stop: int


class QueryReads:
    """The requests of a query to storages, and the bytes that they fetched; thread-safe.

    A request is for bytes of a file or object, or for the metadata of an object. Listing a folder is not
    counted, nor is the status of a local file.

    Args:
        outer: The reads of a query of which this one is a part; they contain those of this one.
        ranges: A list to which each range is added that is read; None for that of ``outer``.

    Attributes:
        outer: The reads that contain these; None if they are of a whole query.
        ranges: The list of ranges; None if they are only counted.
        bytes: The number of bytes.
        index_bytes: The part of them that was indexes.

    Example:
        >>> import tempfile, os
        >>> from intarsia.storage import ByteRange, LocalFile
        >>> path = os.path.join(tempfile.mkdtemp(), "bytes")
        >>> with open(path, "wb") as file:
        ...     _ = file.write(b"abcdef")
        >>> reads = QueryReads()
        >>> with counting(reads):
        ...     LocalFile(path).read_ranges([ByteRange(1, 3), ByteRange(4, 5)])
        [b'bc', b'e']
        >>> reads.requests, reads.bytes
        (2, 3)
    """

    def __init__(self, outer: QueryReads | None = None, ranges: list[ReadRange] | None = None) -> None:
        self.outer = outer
        if ranges is None and outer is not None:
            ranges = outer.ranges
        self.ranges: list[ReadRange] | None = ranges
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
        if self.outer is not None:
            self.outer.add(requests, num_bytes, index_bytes)

    def record(self, path: str, start: int, num_bytes: int) -> None:
        """Add a range to the list, if there is one."""
        if self.ranges is not None:
            self.ranges.append(ReadRange(path, start, start + num_bytes))


class counting:  # noqa: N801  used like a function; a generator would cost several times as much
    """A context manager that counts the reads within the block."""

    __slots__ = ("_reads", "_token")

    def __init__(self, reads: QueryReads) -> None:
        self._reads = reads

    def __enter__(self) -> None:
        self._token = _READS.set(self._reads)

    def __exit__(self, *_: object) -> None:
        _READS.reset(self._token)


class _IndexReads(QueryReads):
    """Counts all bytes as those of indexes."""

    def add(self, requests: int = 0, num_bytes: int = 0, index_bytes: int = 0) -> None:
        """Add to the counts of the query."""
        super().add(requests, num_bytes, max(num_bytes, index_bytes))


#: The reads of the query that runs in this thread.
_READS: ContextVar[QueryReads | None] = ContextVar("intarsia_reads", default=None)

#: Returns the counts of the query that runs in this thread; None if there is none.
current_reads: Callable[[], QueryReads | None] = _READS.get


def reading_indexes() -> AbstractContextManager[None]:
    """Count the bytes that are read within the block as those of indexes."""
    reads = _READS.get()
    return nullcontext() if reads is None else counting(_IndexReads(reads))


_Answer = TypeVar("_Answer")


#: Longer limits are the same as this one of 31 years, because systems have no times far beyond.
LONGEST_SECONDS = 1e9


class Deadline:
    """The time limit of a query, and its reads so far.

    The clock runs only in blocks of `applied`, so it stops while the caller processes a batch of rows.

    Args:
        seconds: The time limit, in seconds.
    """

    def __init__(self, seconds: float) -> None:
        self._seconds = self._left = min(seconds, LONGEST_SECONDS)
        self._started: float | None = None
        self._counting = threading.Lock()
        self._requests = self._bytes = 0
        self._paths: set[str] = set()

    def remaining_seconds(self) -> float:
        """Return the time that is left; negative after the deadline."""
        started = self._started
        return self._left if started is None else self._left - (time.monotonic() - started)

    def run(self) -> None:
        """Start the clock."""
        self._started = time.monotonic()

    def pause(self) -> None:
        """Stop the clock."""
        self._left, self._started = self.remaining_seconds(), None

    def check(self, path: str) -> float:
        """Return the time that is left for a request.

        Args:
            path: The file or folder of the request.

        Raises:
            QueryTimeoutError: If no time is left.
        """
        remaining = self.remaining_seconds()
        if remaining <= 0:
            raise self._passed(path)
        return remaining

    def count(self, path: str, num_bytes: int) -> None:
        """Count a request that was answered."""
        with self._counting:
            self._requests += 1
            self._bytes += num_bytes
            self._paths.add(path)

    def wait_for(
        self, path: str, request: Callable[[], _Answer], num_bytes: Callable[[_Answer], int] = lambda _: 0
    ) -> _Answer:
        """Return the answer of a request in time, and count it.

        A request that is not answered in time continues in the background until it fails: obstore cannot
        cancel it.

        Args:
            path: The file or folder of the request.
            request: Makes the request.
            num_bytes: Returns the number of bytes in the answer.

        Raises:
            QueryTimeoutError: If the deadline passes before the request is answered.
        """
        remaining = self.check(path)
        answer: Future[_Answer] = Future()
        threading.Thread(target=_answer, args=(answer, request), name="intarsia-request", daemon=True).start()
        if wait((answer,), remaining).not_done:
            raise self._passed(path)
        self.count(path, num_bytes(answer.result()))
        return answer.result()

    def _passed(self, path: str) -> QueryTimeoutError:
        with self._counting:
            requests, num_bytes, files = self._requests, self._bytes, len(self._paths)
        return QueryTimeoutError(
            f"the query did not end within {self._seconds:g} s (requests: {requests:,}, files: {files:,}, "
            f"bytes: {num_bytes:,}); raise the time limit, select fewer rows or columns, or build a lake "
            "index",
            reason="query-timeout",
            path=path,
            seconds=self._seconds,
            requests=requests,
            files=files,
            num_bytes=num_bytes,
        )


#: The deadline of the block that runs in this thread.
_DEADLINE: ContextVar[Deadline | None] = ContextVar("intarsia_deadline", default=None)

#: Returns the deadline of the current block; None if it has none.
current_deadline: Callable[[], Deadline | None] = _DEADLINE.get


@contextmanager
def applied(deadline: Deadline | None) -> Iterator[None]:
    """Apply a deadline within the block, unless one that ends earlier applies already.

    Args:
        deadline: The deadline; None to keep the current one.

    Example:
        >>> with applied(Deadline(20)):
        ...     current_deadline().remaining_seconds() > 10
        True
    """
    outer = _DEADLINE.get()
    is_later = outer and deadline and outer.remaining_seconds() < deadline.remaining_seconds()
    if deadline is None or deadline is outer or is_later:
        yield
        return
    token = _DEADLINE.set(deadline)
    deadline.run()
    try:
        yield
    finally:
        deadline.pause()
        _DEADLINE.reset(token)


def in_time(path: str, request: Callable[[], _Answer]) -> _Answer:
    """Return the answer of a request before the deadline of the current block.

    Args:
        path: The file or folder of the request.
        request: Makes the request.

    Raises:
        QueryTimeoutError: If the deadline passes before the request is answered.
    """
    deadline = _DEADLINE.get()
    return request() if deadline is None else deadline.wait_for(path, request)


def _answer(answer: Future[_Answer], request: Callable[[], _Answer]) -> None:
    try:
        answer.set_result(request())
    except BaseException as error:  # noqa: BLE001  raised in the thread that waits
        answer.set_exception(error)
