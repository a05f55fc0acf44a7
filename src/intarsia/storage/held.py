"""Bytes that were read and are held for a while, for whoever asks for them next."""

from __future__ import annotations

import bisect
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager

from intarsia.storage.ranges import ByteRange
from intarsia.storage.source import ByteSource


class HeldBytes:
    """Another source, of which some bytes are held in memory.

    Args:
        source: The source underneath; what is not held comes from there.

    Example:
        >>> from intarsia.storage import CountedSource, MemorySource
        >>> counted = CountedSource(MemorySource(b"abcdef"))
        >>> source = HeldBytes(counted)
        >>> with source.holding() as hold:
        ...     hold(1, b"bcd")
        ...     source.read_ranges([ByteRange(2, 4), ByteRange(0, 6)])
        [b'cd', b'abcdef']
        >>> counted.counts.bytes
        3
    """

    def __init__(self, source: ByteSource) -> None:
        self.path = source.path
        self.coalesce_bytes = source.coalesce_bytes
        self.identity = source.identity
        self._source = source
        self._starts: list[int] = []
        self._held: dict[int, bytes] = {}

    def size(self) -> int:
        """Length in bytes."""
        return self._source.size()

    @contextmanager
    def holding(self) -> Iterator[Callable[[int, bytes], None]]:
        """Within the block, bytes that were read can be held.

        Yields:
            What holds bytes, given the offset of the first one in the file.
        """
        held_here: list[int] = []

        def hold(start: int, data: bytes) -> None:
            if data and start not in self._held:
                self._held[start] = data
                bisect.insort(self._starts, start)
                held_here.append(start)

        try:
            yield hold
        finally:
            for start in held_here:
                del self._held[start]
                self._starts.remove(start)

    def read_ranges(self, ranges: Sequence[ByteRange]) -> list[bytes]:
        """The bytes of each range, those that are not held in one go."""
        cuts = [list(self._cut(place)) for place in ranges]
        missing = [place for pieces in cuts for place, held in pieces if held is None]
        fetched = iter(self._source.read_ranges(missing) if missing else ())
        parts = [[next(fetched) if held is None else held for _, held in pieces] for pieces in cuts]
        return [found[0] if len(found) == 1 else b"".join(found) for found in parts]

    def _cut(self, place: ByteRange) -> Iterator[tuple[ByteRange, bytes | None]]:
        """A range in pieces, each of which is held, or not at all."""
        position = place.start
        first = max(0, bisect.bisect_right(self._starts, position) - 1)
        for start in self._starts[first:]:
            data = self._held[start]
            stop = min(start + len(data), place.stop)
            if start >= place.stop:
                break
            if stop <= position:
                continue
            if position < start:
                yield ByteRange(position, start), None
                position = start
            whole = position == start and stop == start + len(data)
            yield ByteRange(position, stop), data if whole else data[position - start : stop - start]
            position = stop
        if position < place.stop or place.length == 0:
            yield ByteRange(position, place.stop), None

    def close(self) -> None:
        """Close the source underneath."""
        self._source.close()
