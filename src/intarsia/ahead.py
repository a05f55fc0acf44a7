"""Process items in several threads, a little ahead of a caller that takes the results in order."""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Generator, Iterable
from concurrent.futures import Future, ThreadPoolExecutor
from contextvars import copy_context
from typing import Generic, TypeAlias, TypeVar

_Item = TypeVar("_Item")
_Result = TypeVar("_Result")


class Done(Generic[_Result]):
    """The result of a function, or its exception.

    A `Future` takes ten times as long, because several threads may wait for it.
    """

    __slots__ = ("_error", "_result")

    def __init__(self, work: Callable[[_Item], _Result], item: _Item) -> None:
        self._error: Exception | None = None
        try:
            self._result = work(item)
        except Exception as error:  # noqa: BLE001  raised when the result is taken
            self._error = error

    def result(self) -> _Result:
        """Return the result, or raise the exception."""
        if self._error is None:
            return self._result
        try:
            raise self._error
        finally:
            del self  # else the traceback of the error would contain the error

    def exception(self) -> BaseException | None:
        """Return the exception; None if there is none."""
        return self._error


Completion: TypeAlias = Future[_Result] | Done[_Result]
"""The result of a call, or its exception."""


def ahead(
    work: Callable[[_Item], _Result],
    items: Iterable[_Item],
    at_once: int,
    discard: Callable[[_Result], None] = lambda _: None,
) -> Generator[tuple[_Item, Completion[_Result]], None, None]:
    """Process items concurrently, and yield the results in the order of the items.

    At most ``at_once`` items are in progress or finished but not yet taken.

    Args:
        work: The function to call with each item; called in several threads, with the context variables of
            the caller.
        at_once: Number of items to process concurrently; 1 processes each item on demand, without a thread.
        discard: Called with each result that is not taken because the caller stops early.

    Yields:
        The item, and its result or exception.

    Example:
        >>> [(item, future.result()) for item, future in ahead(str, [1, 2, 3], 2)]
        [(1, '1'), (2, '2'), (3, '3')]
    """
    if at_once < 2:
        for item in items:
            yield item, Done(work, item)
        return
    waiting: deque[tuple[_Item, Future[_Result]]] = deque()
    with ThreadPoolExecutor(at_once, thread_name_prefix="intarsia") as pool:
        try:
            for item in items:
                waiting.append((item, pool.submit(copy_context().run, work, item)))
                if len(waiting) == at_once:
                    yield waiting.popleft()
            while waiting:
                yield waiting.popleft()
        finally:
            for _, future in waiting:
                if not future.cancel() and future.exception() is None:
                    discard(future.result())
