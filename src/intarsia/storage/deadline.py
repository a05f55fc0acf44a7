"""The deadline of a query, which ends its requests.

The deadline applies to the code of a block, and to files that are opened in it, in the same thread or in
threads that `intarsia.read.ahead` starts for it.
"""

from __future__ import annotations

import threading
import time
from collections.abc import Callable, Iterator
from concurrent.futures import Future, wait
from contextlib import contextmanager
from contextvars import ContextVar
from typing import TypeVar

from intarsia.errors import QueryTimeoutError

_Answer = TypeVar("_Answer")


class Deadline:
    """The time limit of a query, and its reads so far.

    The clock runs only in blocks of `applied`, so it stops while the caller processes a batch of rows.

    Args:
        seconds: The time limit, in seconds.
    """

    def __init__(self, seconds: float) -> None:
        self._seconds = self._left = seconds
        self._started: float | None = None
        self._counting = threading.Lock()
        self._requests = self._bytes = 0
        self._paths: set[str] = set()

    def remaining_seconds(self) -> float:
        """Return the time that is left; negative after the deadline."""
        started = self._started
        return self._left if started is None else self._left - (time.monotonic() - started)

    def ends_before(self, other: Deadline) -> bool:
        """Return whether it ends before another deadline."""
        return self.remaining_seconds() < other.remaining_seconds()

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

    def wait_for(self, path: str, request: Callable[[], _Answer]) -> _Answer:
        """Return the answer of a request in time.

        A request that is not answered in time continues in the background until it fails: obstore cannot
        cancel it.

        Args:
            path: The file or folder of the request.
            request: Makes the request.

        Raises:
            QueryTimeoutError: If the deadline passes before the request is answered.
        """
        remaining = self.check(path)
        answer: Future[_Answer] = Future()
        threading.Thread(target=_answer, args=(answer, request), name="intarsia-request", daemon=True).start()
        if wait((answer,), remaining).not_done:
            raise self._passed(path)
        return answer.result()

    def _passed(self, path: str) -> QueryTimeoutError:
        with self._counting:
            requests, num_bytes, files = self._requests, self._bytes, len(self._paths)
        return QueryTimeoutError(
            f"{path}: the query did not end within {self._seconds:g} s (requests: {requests:,}, files: "
            f"{files:,}, bytes: {num_bytes:,}); raise the time limit, select fewer rows or columns, or build "
            "a lake index",
            reason="query-timeout",
            path=path,
            seconds=self._seconds,
            requests=requests,
            files=files,
            num_bytes=num_bytes,
        )


#: The deadline of the block that runs in this thread.
_CURRENT: ContextVar[Deadline | None] = ContextVar("intarsia_deadline", default=None)


def current_deadline() -> Deadline | None:
    """Return the deadline of the current block; None if it has none."""
    return _CURRENT.get()


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
    outer = _CURRENT.get()
    if deadline is None or deadline is outer or (outer is not None and outer.ends_before(deadline)):
        yield
        return
    token = _CURRENT.set(deadline)
    deadline.run()
    try:
        yield
    finally:
        deadline.pause()
        _CURRENT.reset(token)


def in_time(path: str, request: Callable[[], _Answer]) -> _Answer:
    """Return the answer of a request before the deadline of the current block.

    Args:
        path: The file or folder of the request.
        request: Makes the request.

    Raises:
        QueryTimeoutError: If the deadline passes before the request is answered.
    """
    deadline = _CURRENT.get()
    if deadline is None:
        return request()
    answer = deadline.wait_for(path, request)
    deadline.count(path, 0)
    return answer


def _answer(answer: Future[_Answer], request: Callable[[], _Answer]) -> None:
    try:
        answer.set_result(request())
    except BaseException as error:  # noqa: BLE001  raised in the thread that waits
        answer.set_exception(error)
