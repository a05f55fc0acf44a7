"""Byte ranges: how they coalesce into requests, are cut out of the responses, and are kept in memory."""

from __future__ import annotations

import io
import os
from bisect import bisect_right
from collections.abc import Iterable, Sequence
from operator import itemgetter
from typing import NamedTuple


class ByteRange(NamedTuple):
    """Bytes ``start`` (included) to ``stop`` (excluded) of a file."""

    start: int
    stop: int

    @property
    def length(self) -> int:
        """Number of bytes."""
        return self.stop - self.start


def coalesce(ranges: Iterable[ByteRange], gap_bytes: int) -> list[ByteRange]:
    """Return the fewest requests that cover ``ranges``, joining ranges at most ``gap_bytes`` apart.

    Example:
        >>> coalesce([ByteRange(8, 9), ByteRange(0, 4), ByteRange(4, 6)], gap_bytes=1)
        [ByteRange(start=0, stop=6), ByteRange(start=8, stop=9)]
    """
    merged: list[ByteRange] = []
    for location in sorted(ranges):
        start, stop = location
        if start == stop:
            continue
        if merged and start - merged[-1].stop <= gap_bytes:
            if stop > merged[-1].stop:
                merged[-1] = ByteRange(merged[-1].start, stop)
        else:
            merged.append(location)
    return merged


def cut(ranges: Sequence[ByteRange], requests: list[ByteRange], fetched: list[bytes]) -> list[bytes]:
    """Cut each range out of the bytes of the request that covers it."""
    starts = list(map(_START, requests))
    pieces = []
    for start, stop in ranges:
        if start == stop:
            pieces.append(b"")
            continue
        ordinal = bisect_right(starts, start) - 1
        base = requests[ordinal].start
        pieces.append(fetched[ordinal][start - base : stop - base])
    return pieces


class CachedRanges:
    """Ranges of a file and their bytes, which several threads may read.

    Attributes:
        num_bytes: The number of bytes that are kept.

    Example:
        >>> kept = CachedRanges()
        >>> kept.add(ByteRange(2, 6), b"cdef")
        [2]
        >>> kept.get(ByteRange(3, 5)), kept.get(ByteRange(5, 7))
        (b'de', None)
        >>> kept.add(ByteRange(5, 7), b"fg")
        [6]
        >>> kept.get(ByteRange(5, 7))
        b'fg'
    """

    def __init__(self) -> None:
        # disjoint, ascending, and replaced as a whole, so that readers need no lock
        self._ranges: tuple[tuple[int, bytes | memoryview], ...] = ()
        self.num_bytes = 0

    def add(self, location: ByteRange, data: bytes) -> list[int]:
        """Keep the bytes of a range. Callers must not change the ranges in several threads at once.

        Returns:
            The starts of the parts that were not kept before, for `remove`.
        """
        missing = [part for part, held in self.pieces(location) if held is None]
        for start, stop in missing:
            ordinal = bisect_right(self._ranges, start, key=_START)
            added = (start, data[start - location.start : stop - location.start])
            self._ranges = (*self._ranges[:ordinal], added, *self._ranges[ordinal:])
            self.num_bytes += stop - start
        return [start for start, _ in missing]

    def add_apart(self, ranges: Iterable[tuple[ByteRange, bytes | memoryview]]) -> None:
        """Keep the bytes of many ranges, which overlap neither each other nor kept ranges."""
        kept = list(self._ranges)
        for location, data in ranges:
            kept.append((location.start, data))
            self.num_bytes += len(data)
        self._ranges = tuple(sorted(kept, key=_START))

    def remove(self, starts: Iterable[int]) -> None:
        """Release parts that `add` has added."""
        gone = set(starts)
        self._ranges = tuple(item for item in self._ranges if item[0] not in gone)
        self.num_bytes = sum(len(data) for _, data in self._ranges)

    def get(self, location: ByteRange) -> bytes | None:
        """Return the bytes of a range; None if some of them are not kept."""
        ranges = self._ranges
        ordinal = bisect_right(ranges, location.start, key=_START) - 1
        if ordinal < 0:
            return None
        start, data = ranges[ordinal]
        if location.stop <= start + len(data):
            return bytes(data[location.start - start : location.stop - start])
        if location.start >= start + len(data):
            return None
        found = [held for _, held in self.pieces(location) if held is not None]
        return b"".join(found) if sum(map(len, found)) == location.length else None

    def pieces(self, location: ByteRange) -> list[tuple[ByteRange, bytes | memoryview | None]]:
        """Split a range into pieces with their bytes, which are None where they are not kept."""
        ranges = self._ranges
        found: list[tuple[ByteRange, bytes | memoryview | None]] = []
        position, end = location
        ordinal = max(0, bisect_right(ranges, position, key=_START) - 1)
        while ordinal < len(ranges) and position < end:
            start, data = ranges[ordinal]
            if start >= end:
                break
            stop = min(start + len(data), end)
            if position < start:
                found.append((ByteRange(position, min(start, end)), None))
                position = start
            if position < stop:
                found.append((ByteRange(position, stop), data[position - start : stop - start]))
                position = stop
            ordinal += 1
        if position < end:
            found.append((location if position == location.start else ByteRange(position, end), None))
        return found


_START = itemgetter(0)


class SparseBytes(io.RawIOBase):
    r"""Ranges of a file in memory as a Python file object, for libraries that read by themselves.

    The bytes between the ranges are zeros.

    Args:
        size_bytes: Length of the file.
        pieces: Disjoint ranges and their bytes.

    Example:
        >>> SparseBytes(9, [(ByteRange(1, 3), b"ab"), (ByteRange(5, 6), b"c")]).read(7)
        b'\x00ab\x00\x00c\x00'
    """

    def __init__(self, size_bytes: int, pieces: Iterable[tuple[ByteRange, bytes]]) -> None:
        super().__init__()
        self._size_bytes = size_bytes
        self._kept = CachedRanges()
        self._kept.add_apart(pieces)
        self._position = 0

    def readable(self) -> bool:
        """Return True."""
        return True

    def seekable(self) -> bool:
        """Return True."""
        return True

    def seek(self, offset: int, whence: int = os.SEEK_SET) -> int:
        """Move to an offset; see `io.RawIOBase.seek`."""
        base = {os.SEEK_SET: 0, os.SEEK_CUR: self._position, os.SEEK_END: self._size_bytes}[whence]
        self._position = base + offset
        return self._position

    def tell(self) -> int:
        """Return the position."""
        return self._position

    def read(self, size: int = -1) -> bytes:
        """Read up to ``size`` bytes from the position."""
        start, end = self._position, self._size_bytes
        self._position = stop = max(start, end if size < 0 else min(end, start + size))
        pieces = self._kept.pieces(ByteRange(start, stop))
        return joined([bytes(part.length) if data is None else data for part, data in pieces])

    def readall(self) -> bytes:
        """Read all bytes from the position to the end."""
        return self.read()


def joined(parts: Sequence[bytes | memoryview]) -> bytes:
    """Join bytes, without a copy of a single part."""
    return bytes(parts[0]) if len(parts) == 1 else b"".join(parts)
