"""Fetching of ranges of a file, with as few requests as possible and each byte once."""

from __future__ import annotations

import bisect
from collections.abc import Iterable, Mapping, Sequence
from itertools import accumulate, pairwise
from operator import itemgetter

from intarsia.storage import ByteRange, ByteSource, CachedRanges, CountedSource, coalesce

_LOCATION = itemgetter(0)


class FetchedBytes:
    """The bytes of some ranges of a file, one after the other.

    Args:
        ranges: The ranges, ascending, which neither touch nor overlap.

    Example:
        >>> found = FetchedBytes([ByteRange(10, 12), ByteRange(20, 23)], [b"ab", b"cde"])
        >>> found.position(21), found.offset(3), found.part(3)
        (3, 21, (b'cde', 1))
    """

    def __init__(self, ranges: Sequence[ByteRange], parts: Sequence[bytes]) -> None:
        self.parts = parts
        self._starts: list[int] = []
        self._positions = [0]
        for start, stop in ranges:
            self._starts.append(start)
            self._positions.append(self._positions[-1] + stop - start)

    def position(self, offset: int) -> int:
        """Return the position of the byte at an offset of the file."""
        at = bisect.bisect_right(self._starts, offset) - 1
        # an empty chunk may be anywhere
        return min(self._positions[at] + offset - self._starts[at], self._positions[-1]) if at >= 0 else 0

    def offset(self, position: int) -> int:
        """Return the offset in the file of the byte at a position."""
        at = bisect.bisect_right(self._positions, position, hi=len(self._starts)) - 1
        return self._starts[at] + position - self._positions[at]

    def part(self, position: int) -> tuple[bytes, int]:
        """Return the part that has the byte at a position, and the place of the byte in it."""
        if len(self.parts) == 1:
            return self.parts[0], position
        at = bisect.bisect_right(self._positions, position, hi=len(self._starts)) - 1
        return (self.parts[at], position - self._positions[at]) if at >= 0 else (b"", 0)

    def between(self, start: int, stop: int) -> tuple[bytes, int]:
        """Return bytes that contain those between two positions, and the place of the first one."""
        data, place = self.part(start)
        if place + stop - start <= len(data):
            return data, place
        found = [memoryview(data)[place:]]
        later = range(bisect.bisect_right(self._positions, start), len(self.parts))
        found += [memoryview(self.parts[at])[: max(0, stop - self._positions[at])] for at in later]
        return b"".join(found), 0


class PageCache:
    """The bytes that have been read of some row groups, so that later phases do not read them again.

    Args:
        known: Dictionary pages that were read while planning, by offset.
    """

    def __init__(self, source: ByteSource | CountedSource, known: Mapping[int, bytes] | None = None) -> None:
        self._source = source
        self._kept = CachedRanges()
        for start, page in (known or {}).items():
            self._kept.add(ByteRange(start, start + len(page)), page)

    def is_missing(self, location: ByteRange) -> bool:
        """Return whether some bytes of a range have not been read."""
        return location.start < location.stop and self._kept.get(location) is None

    def fetch(self, ranges: Iterable[ByteRange], *, join: bool = True) -> FetchedBytes:
        """Return the bytes of some ranges; those that have not been read before are read at once.

        Args:
            join: Return a single part. If not, a range has several parts if it was read in several.
        """
        pieces: list[tuple[ByteRange, bytes | memoryview | None]] = []
        for wanted in coalesce(ranges, 0):
            pieces += self._kept.pieces(wanted)
        gaps = [location for location, data in pieces if data is None]
        read = iter(self._source.read_ranges(gaps) if gaps else ())
        parts = [next(read) if data is None else data for _, data in pieces]
        locations = list(map(_LOCATION, pieces))
        if join and len(parts) > 1:
            whole = b"".join(parts)
            view, edges = memoryview(whole), accumulate(map(len, parts), initial=0)
            parts = [view[start:stop] for start, stop in pairwise(edges)]  # what was joined is not kept twice
            found = FetchedBytes(locations, [whole])
        else:
            found = FetchedBytes(locations, list(map(bytes, parts)))
        self._kept.add_apart(
            (location, part) for (location, data), part in zip(pieces, parts, strict=True) if data is None
        )
        return found
