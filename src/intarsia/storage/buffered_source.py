"""A source that serves some ranges from memory while a block runs."""

from __future__ import annotations

import bisect
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager

from intarsia.storage.ranges import ByteRange
from intarsia.storage.source import ByteSource


class BufferedSource:
    """A wrapper that keeps some bytes of another source in memory.

    Args:
        source: The underlying source, which is read for all other bytes.

    Example:
        >>> from intarsia.storage import CountedSource, MemorySource
        >>> counted = CountedSource(MemorySource(b"abcdef"))
        >>> source = BufferedSource(counted)
        >>> with source.buffering() as buffer:
        ...     buffer(1, b"bcd")
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
        self._buffers: dict[int, bytes] = {}

    def size(self) -> int:
        """Length in bytes."""
        return self._source.size()

    @contextmanager
    def buffering(self) -> Iterator[Callable[[int, bytes], None]]:
        """Keep bytes in memory until the block ends.

        Yields:
            A function that takes the offset of bytes in the file and the bytes to keep.
        """
        added: list[int] = []

        def buffer(start: int, data: bytes) -> None:
            if data and start not in self._buffers:
                self._buffers[start] = data
                bisect.insort(self._starts, start)
                added.append(start)

        try:
            yield buffer
        finally:
            for start in added:
                del self._buffers[start]
                self._starts.remove(start)

    def read_ranges(self, ranges: Sequence[ByteRange]) -> list[bytes]:
        """Read the bytes of each range, with one call of the source for all bytes not in memory."""
        cuts = [list(self._cut(location)) for location in ranges]
        missing = [location for pieces in cuts for location, data in pieces if data is None]
        fetched = iter(self._source.read_ranges(missing) if missing else ())
        parts = [[next(fetched) if data is None else data for _, data in pieces] for pieces in cuts]
        return [found[0] if len(found) == 1 else b"".join(found) for found in parts]

    def _cut(self, location: ByteRange) -> Iterator[tuple[ByteRange, bytes | None]]:
        """Split a range into pieces that are either completely in memory or not at all."""
        position = location.start
        first = max(0, bisect.bisect_right(self._starts, position) - 1)
        for start in self._starts[first:]:
            data = self._buffers[start]
            stop = min(start + len(data), location.stop)
            if start >= location.stop:
                break
            if stop <= position:
                continue
            if position < start:
                yield ByteRange(position, start), None
                position = start
            whole = position == start and stop == start + len(data)
            yield ByteRange(position, stop), data if whole else data[position - start : stop - start]
            position = stop
        if position < location.stop or location.length == 0:
            yield ByteRange(position, location.stop), None

    def close(self) -> None:
        """Close the underlying source."""
        self._source.close()
