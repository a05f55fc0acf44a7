"""Fetching of ranges of a file, with as few requests as possible and each byte once."""

from __future__ import annotations

import bisect
import itertools
from collections.abc import Iterable, Iterator, Mapping, Sequence
from operator import attrgetter

from intarsia.storage import ByteRange, ByteSource, CountedSource, coalesce

_start = attrgetter("start")


class FetchedBytes:
    """The bytes of some ranges of a file, one after the other.

    Args:
        ranges: The ranges, ascending, which neither touch nor overlap.
        parts: The bytes of each.

    Attributes:
        parts: The bytes.

    Example:
        >>> found = FetchedBytes([ByteRange(10, 12), ByteRange(20, 23)], [b"ab", b"cde"])
        >>> found.position(21), found.offset(3), found.part(3)
        (3, 21, (b'cde', 1))
    """

    def __init__(self, ranges: Sequence[ByteRange], parts: Sequence[bytes]) -> None:
        self.parts = parts
        self._starts = [start for start, _ in ranges]
        self._positions = [0, *itertools.accumulate([stop - start for start, stop in ranges])]

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
        source: The file.
        known: Dictionary pages that were read while planning, by offset.
    """

    def __init__(self, source: ByteSource | CountedSource, known: Mapping[int, bytes] | None = None) -> None:
        self._source = source
        self._bytes: dict[ByteRange, bytes | memoryview] = {
            ByteRange(start, start + len(page)): page for start, page in (known or {}).items()
        }
        self._held = sorted(self._bytes)

    def is_missing(self, location: ByteRange) -> bool:
        """Return whether some bytes of a range have not been read."""
        return bool(self._gaps(location)) if self._held else location.start < location.stop

    def fetch(self, ranges: Iterable[ByteRange], *, join: bool = True) -> FetchedBytes:
        """Return the bytes of some ranges; those that have not been read before are read at once.

        Args:
            ranges: The ranges.
            join: Return a single part. If not, a range has several parts if it was read in several.
        """
        wanted = coalesce(ranges, 0)
        gaps = [gap for location in wanted for gap in self._gaps(location)] if self._held else wanted
        parts: list[bytes] = self._source.read_ranges(gaps) if gaps else []
        pieces = wanted
        if gaps != wanted or not join or len(wanted) == 1:
            self._hold(gaps, parts)
        if gaps != wanted:
            found = [piece for location in wanted for piece in self._pieces(location)]
            pieces, parts = [piece for piece, _ in found], [data for _, data in found]
        if not join or len(parts) == 1:
            return FetchedBytes(pieces, parts)
        joined = FetchedBytes(wanted, [b"".join(parts)])
        view = memoryview(joined.parts[0])  # without a second copy of what was joined
        starts = [joined.position(start) for start, _ in wanted]
        self._hold(wanted, [view[at : at + one.length] for at, one in zip(starts, wanted, strict=True)])
        return joined

    def _hold(self, ranges: Sequence[ByteRange], parts: Sequence[bytes | memoryview]) -> None:
        self._bytes.update(zip(ranges, parts, strict=True))
        self._held = sorted(self._bytes)

    def _gaps(self, location: ByteRange) -> list[ByteRange]:
        """Return the parts of a range that have not been read."""
        gaps, position = [], location.start
        for held in self._overlapping(location):
            if position < held.start:
                gaps.append(ByteRange(position, held.start))
            position = max(position, held.stop)
        if position < location.stop:
            gaps.append(ByteRange(position, location.stop))
        return gaps

    def _overlapping(self, location: ByteRange) -> list[ByteRange]:
        """Return the ranges that were read and overlap a range, in order."""
        held = self._held
        stop = bisect.bisect_left(held, location.stop, key=_start)
        first = bisect.bisect_right(held, location.start, key=_start) - 1
        return [one for one in held[max(0, first) : stop] if one.stop > location.start]

    def _pieces(self, location: ByteRange) -> Iterator[tuple[ByteRange, bytes]]:
        """Yield the parts of a range in which it was read; those that are read as a whole are not copied."""
        position = location.start
        for held in self._overlapping(location):
            piece = ByteRange(position, min(held.stop, location.stop))
            if piece.start < piece.stop:
                data = self._bytes[held]
                if piece != held or not isinstance(data, bytes):
                    data = bytes(memoryview(data)[position - held.start : piece.stop - held.start])
                yield piece, data
                position = piece.stop
