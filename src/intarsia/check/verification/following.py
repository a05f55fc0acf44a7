"""Run several functions that read row group after row group along one pass, so that pages are read once.

An index is built by code that reads the rows of a column from first to last. Several builds and queries take
turns with the pass: each runs until it needs a row group that the pass has not reached. Only one of them
runs at any time.
"""

from __future__ import annotations

import sys
import threading
from collections.abc import Callable
from typing import Generic, TypeVar

_Result = TypeVar("_Result")

#: Called with the ordinal of a row group before it is read; returns when the pass has reached it.
WaitFor = Callable[[int], None]


class _AbortedError(BaseException):
    """The pass was aborted; a BaseException, because third-party code may catch every Exception."""


class Follower(Generic[_Result]):
    """A function that follows a pass, in a thread that only runs while the pass waits for it.

    Args:
        work: The function; it is passed a callback to call before it reads a row group.

    Example:
        >>> def work(wait_for):
        ...     for row_group in range(2):
        ...         wait_for(row_group)
        ...         print("work on", row_group)
        ...     return "done"
        >>> follower = Follower(work)
        >>> for row_group in range(2):
        ...     print("pass at", row_group)
        ...     follower.follow(row_group)
        pass at 0
        work on 0
        pass at 1
        work on 1
        >>> follower.finish()
        'done'
    """

    def __init__(self, work: Callable[[WaitFor], _Result]) -> None:
        self._work = work
        self._reached = -1
        self._is_done = self._is_aborted = False
        self._error: BaseException | None = None
        self._results: list[_Result] = []
        self._resumed, self._paused = threading.Semaphore(0), threading.Semaphore(0)
        self._thread = threading.Thread(target=self._run, daemon=True)

    def follow(self, row_group: int) -> None:
        """Run the function until it needs a later row group or ends; raise its error."""
        self._reached = row_group
        if self._is_done:
            return
        if self._thread.ident is None:
            self._thread.start()
        else:
            self._resumed.release()
        self._paused.acquire()
        if self._error is not None:
            raise self._error

    def finish(self) -> _Result:
        """Run the function to its end after the pass, and return its result."""
        self.follow(sys.maxsize)
        return self._results[0]

    def abort(self) -> None:
        """Abort the function; does nothing if it has ended."""
        self._is_aborted = True
        if self._thread.ident is not None:
            self._resumed.release()
            self._thread.join()

    # --- in the thread -------------------------------------------------------------------------------

    def _run(self) -> None:
        try:
            self._results.append(self._work(self._wait_for))
        except _AbortedError:
            pass
        except BaseException as error:  # noqa: BLE001 - raised again in the pass
            self._error = error
        self._is_done = True
        self._paused.release()

    def _wait_for(self, row_group: int) -> None:
        while row_group > self._reached:
            self._paused.release()
            self._resumed.acquire()
            if self._is_aborted:
                raise _AbortedError
