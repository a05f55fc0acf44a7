"""Choose files and row groups to measure indexes on."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from itertools import zip_longest

#: The maximum number of files in a sample.
MAX_FILES = 32

#: The maximum number of column chunks in the sample of a file. Planning takes time for each of them.
MAX_CHUNKS = 4096

#: The size of the sampled row groups in bytes. At least one row group is read, whatever its size.
SAMPLE_BYTES = 256 << 20

#: More bytes than any sample has, to measure all data.
ALL_BYTES = 1 << 40


def spread(items: Sequence[int]) -> Iterator[int]:
    """Yield items so that every prefix is spread evenly: the first, the last, halves, quarters and so on.

    Example:
        >>> list(spread(range(9)))
        [0, 8, 4, 2, 6, 1, 3, 5, 7]
    """
    if not items:
        return
    last, seen = len(items) - 1, set()
    steps = 1
    for ordinal in (0, last):
        if ordinal not in seen:
            seen.add(ordinal)
            yield items[ordinal]
    while len(seen) < len(items):
        steps *= 2
        for step in range(1, steps, 2):
            ordinal = last * step // steps
            if ordinal not in seen:
                seen.add(ordinal)
                yield items[ordinal]


def take_turns(lists: Sequence[Sequence[int]]) -> Iterator[int]:
    """Yield the items of several lists in turns, each list in the order of `spread`, without repetitions.

    Example:
        >>> list(take_turns([range(4), [3, 9]]))
        [0, 3, 9, 1, 2]
    """
    seen: set[int] = set()
    for turn in zip_longest(*map(spread, lists)):
        for item in turn:
            if item is not None and item not in seen:
                seen.add(item)
                yield item
