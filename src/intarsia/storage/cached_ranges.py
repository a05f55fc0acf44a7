"""Byte ranges of a remote file that are kept in memory for later reads."""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Mapping

from intarsia.storage.ranges import ByteRange


class CachedRanges:
    """Ranges of a file and their bytes, which several threads may use.

    Attributes:
        num_bytes: The number of bytes that are kept.

    Example:
        >>> kept = CachedRanges()
        >>> kept.add(ByteRange(2, 6), b"cdef")
        >>> kept.get(ByteRange(3, 5)), kept.get(ByteRange(5, 7))
        (b'de', None)
        >>> kept.add(ByteRange(6, 7), b"g")
        >>> kept.get(ByteRange(5, 7))
        b'fg'
    """

    def __init__(self) -> None:
        # replaced as a whole, so that readers need no lock
        self._ranges: tuple[tuple[int, bytes], ...] = ()
        self.num_bytes = 0

    def __bool__(self) -> bool:
        return bool(self._ranges)

    def add(self, location: ByteRange, data: bytes) -> None:
        """Keep the bytes of a range. Callers must not call this in several threads at once."""
        if self.get(location) is not None:
            return
        others: list[tuple[int, bytes]] = []
        for start, held in self._ranges:
            stop = start + len(held)
            if stop == location.start:  # ranges that touch become one, so that reads may cross their border
                location, data = ByteRange(start, location.stop), held + data
            elif start == location.stop:
                location, data = ByteRange(location.start, stop), data + held
            elif not location.start <= start <= stop <= location.stop:
                others.append((start, held))
        self._ranges = tuple(sorted([*others, (location.start, data)], key=_start))
        self.num_bytes = sum(len(held) for _, held in self._ranges)

    def add_apart(self, ranges: Mapping[ByteRange, bytes]) -> None:
        """Keep the bytes of many ranges, which neither touch nor overlap each other or kept ranges."""
        added = ((location.start, data) for location, data in ranges.items())
        self._ranges = tuple(sorted([*self._ranges, *added], key=_start))
        self.num_bytes += sum(map(len, ranges.values()))

    def get(self, location: ByteRange) -> bytes | None:
        """Return the bytes of a range if one of the kept ranges contains it."""
        ranges = self._ranges
        ordinal = bisect_right(ranges, location.start, key=_start) - 1
        if ordinal < 0:
            return None
        start, data = ranges[ordinal]
        if location.stop > start + len(data):
            return None
        return data[location.start - start : location.stop - start]


def _start(item: tuple[int, bytes]) -> int:
    return item[0]
