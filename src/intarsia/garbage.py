"""Python's garbage collector, kept from work that makes many objects that stay."""

from __future__ import annotations

import contextlib
import gc
from collections.abc import Iterator


@contextlib.contextmanager
def no_collections() -> Iterator[None]:
    """Make no garbage collection within the block, in any thread, unless the caller has switched them off.

    A collection of everything looks at each object of the process, modules included. The objects that the
    metadata of a thousand files have make several of these, a third of the time of a query. If such blocks
    overlap in several threads, the first one ends the pause, so that a busy process does collect.

    Example:
        >>> with no_collections():
        ...     gc.isenabled()
        False
        >>> gc.isenabled()
        True
    """
    if not gc.isenabled():
        yield
        return
    gc.disable()
    try:
        yield
    finally:
        gc.enable()
