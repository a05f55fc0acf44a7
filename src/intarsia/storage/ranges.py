"""Byte ranges, how they coalesce into requests, and how they are cut out of the responses."""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Iterable, Sequence
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
    for start, stop in sorted(ranges):
        if start == stop:
            continue
        if merged and start - merged[-1].stop <= gap_bytes:
            if stop > merged[-1].stop:
                merged[-1] = ByteRange(merged[-1].start, stop)
        else:
            merged.append(ByteRange(start, stop))
    return merged


def cut(ranges: Sequence[ByteRange], requests: list[ByteRange], fetched: list[bytes]) -> list[bytes]:
    """Cut each range out of the bytes of the request that covers it."""
    starts = [request.start for request in requests]
    pieces = []
    for start, stop in ranges:
        if start == stop:
            pieces.append(b"")
            continue
        ordinal = bisect_right(starts, start) - 1
        base = requests[ordinal].start
        pieces.append(fetched[ordinal][start - base : stop - base])
    return pieces
