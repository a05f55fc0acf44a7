"""Options of stores that apply to a block of code, such as those of Spark's file systems to a job."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from contextvars import ContextVar
from typing import Any

#: Options by the URL of a store, which apply to all code of a block that names none of its own.
_OFFERED: ContextVar[Mapping[str, Mapping[str, Any]] | None] = ContextVar("_OFFERED", default=None)


@contextmanager
def offered_options(options: Mapping[str, Mapping[str, Any]]) -> Iterator[None]:
    """Use options for the stores that are found within the block, instead of the environment.

    Args:
        options: The options of each store by its URL, such as ``s3://bucket``.
    """
    token = _OFFERED.set(options)
    try:
        yield
    finally:
        _OFFERED.reset(token)


def current_options() -> Mapping[str, Mapping[str, Any]]:
    """Return the options of `offered_options` in this block."""
    return _OFFERED.get() or {}
