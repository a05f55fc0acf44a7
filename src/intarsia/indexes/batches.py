"""Batches of reads that need a limited amount of memory."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from typing import TypeVar

_Item = TypeVar("_Item")

#: The maximum number of bytes of indexes in one batch of reads.
MAX_BATCH_BYTES = 1 << 26


def split_batches(
    items: Iterable[_Item], num_bytes: Callable[[_Item], int], max_bytes: int = MAX_BATCH_BYTES
) -> Iterator[list[_Item]]:
    """Split items, in order, into lists of at most ``max_bytes`` where possible.

    Args:
        items: The items.
        num_bytes: Returns the number of bytes of an item.
        max_bytes: The maximum number of bytes of a list with several items.

    Example:
        >>> list(split_batches(["ab", "c", "def"], len, max_bytes=3))
        [['ab', 'c'], ['def']]
    """
    batch: list[_Item] = []
    batch_bytes = 0
    for item in items:
        size = num_bytes(item)
        if batch and batch_bytes + size > max_bytes:
            yield batch
            batch, batch_bytes = [], 0
        batch.append(item)
        batch_bytes += size
    if batch:
        yield batch
