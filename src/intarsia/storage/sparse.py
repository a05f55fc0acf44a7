"""A file with only some ranges in memory, for libraries that read by themselves."""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Sequence

from intarsia.storage.ranges import ByteRange


class SparseBytes:
    r"""Ranges of a file in memory; the bytes between them read as zeros.

    Args:
        size_bytes: Length of the file.
        locations: The ranges, ascending and disjoint.
        pieces: The bytes of each range.

    Example:
        >>> SparseBytes(9, [ByteRange(1, 3), ByteRange(5, 6)], [b"ab", b"c"]).read(0, 7)
        b'\x00ab\x00\x00c\x00'
    """

    def __init__(self, size_bytes: int, locations: Sequence[ByteRange], pieces: Sequence[bytes]) -> None:
        self._size_bytes = size_bytes
        self._locations = locations
        self._pieces = pieces

    def size(self) -> int:
        """Length of the file in bytes."""
        return self._size_bytes

    def read(self, start: int, stop: int) -> bytes:
        """Read the bytes of one range."""
        first = max(0, bisect_right(self._locations, (start, stop)) - 1)
        if self._locations and self._locations[first] == (start, stop):
            return self._pieces[first]
        parts: list[bytes] = []
        position = start
        for location, piece in zip(self._locations[first:], self._pieces[first:], strict=True):
            if location.start >= stop:
                break
            if location.stop <= position:
                continue
            parts.append(bytes(max(0, location.start - position)))
            position = max(position, location.start)
            end = min(location.stop, stop)
            parts.append(piece[position - location.start : end - location.start])
            position = end
        parts.append(bytes(stop - position))
        return b"".join(parts)
