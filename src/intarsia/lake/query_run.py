"""One run of a query: its reads are counted, and it may have a time limit."""

from __future__ import annotations

import contextlib
from collections.abc import Callable, Generator, Iterator
from functools import wraps
from typing import Concatenate, ParamSpec, Protocol, TypeVar, cast

from intarsia.storage import QueryReads, current_reads
from intarsia.storage.running_query import Deadline, applied

_Parameters = ParamSpec("_Parameters")
_Result = TypeVar("_Result")
_Item = TypeVar("_Item")


class QueryRun:
    """One run of a query.

    Args:
        deadline: Its deadline; None without a time limit.
    """

    def __init__(self, deadline: Deadline | None) -> None:
        self._deadline = deadline
        self._reads = QueryReads(current_reads())

    @contextlib.contextmanager
    def running(self) -> Iterator[None]:
        """Count the reads within the block, and end it at the deadline."""
        with applied(self._deadline), self._reads.counting():
            yield

    def in_steps(self, items: Generator[_Item, None, None]) -> Generator[_Item, None, None]:
        """Yield the items of a query; the time that the caller takes between two of them does not count."""
        with contextlib.closing(items):
            while True:
                with self.running():
                    try:
                        item = next(items)
                    except StopIteration:
                        return
                yield item


class Runnable(Protocol):
    """A query that can be run several times."""

    def new_run(self) -> QueryRun:
        """Begin a run."""
        ...


_Query = TypeVar("_Query", bound=Runnable)


def in_new_run(
    method: Callable[Concatenate[_Query, _Parameters], _Result],
) -> Callable[Concatenate[_Query, _Parameters], _Result]:
    """Let each call of a method be a run of its query."""

    @wraps(method)
    def run(query: _Query, *args: _Parameters.args, **options: _Parameters.kwargs) -> _Result:
        with query.new_run().running():
            return method(query, *args, **options)

    return cast("Callable[Concatenate[_Query, _Parameters], _Result]", run)
