"""Byte sources: a size and byte ranges, coalesced and counted.

A source is independent of Parquet. Callers request many ranges at once (`read_ranges`), so that a
local file can read them in sequence and an object store can fetch them concurrently.
"""

from __future__ import annotations

import threading
from collections.abc import Callable, Hashable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from typing import Protocol

from intarsia.errors import CorruptFileError, ReplacedWhileReadError
from intarsia.records import dataclass
from intarsia.storage.ranges import ByteRange, CachedRanges, coalesce, cut, joined
from intarsia.tuning import MAX_GAP_BYTES


class ByteSource(Protocol):
    """The interface of a storage: a name, a size, and ranges of bytes.

    An implementation is either thread-safe or used from a single thread. If the bytes of an open file may
    change, it has a method `check_unchanged` like that of `LocalFile`.
    """

    path: str
    #: Ranges at most this many bytes apart are read in one request (0 for local files).
    coalesce_bytes: int

    @property
    def identity(self) -> Hashable | None:
        """A value that changes when the bytes of this path change; None if the storage has no such value."""
        ...

    def size(self) -> int:
        """Length of the file in bytes."""
        ...

    def read_ranges(self, ranges: Sequence[ByteRange]) -> list[bytes]:
        """Read the bytes of each range, in the order of ``ranges``; each range is one request."""
        ...

    def close(self) -> None:
        """Release all resources; reading afterwards is an error."""
        ...


class MemorySource:
    """A source over bytes in memory.

    Example:
        >>> MemorySource(b"abcdef").read_ranges([ByteRange(1, 3)])
        [b'bc']
    """

    coalesce_bytes = 0
    identity = None

    def __init__(self, data: bytes, path: str = "<memory>") -> None:
        self.path = path
        self._data = data

    def size(self) -> int:
        """Length in bytes."""
        return len(self._data)

    def read_ranges(self, ranges: Sequence[ByteRange]) -> list[bytes]:
        """Read the bytes of each range."""
        return [self._data[start:stop] for start, stop in ranges]

    def close(self) -> None:
        """Do nothing: there are no resources to release."""


@dataclass
class IoCounts:
    """Requests to a storage, and the bytes that they fetched."""

    requests: int = 0
    bytes: int = 0

    def add(self, requests: int, num_bytes: int) -> None:
        """Add requests that fetched this many bytes."""
        self.requests += requests
        self.bytes += num_bytes

    def __add__(self, other: IoCounts) -> IoCounts:
        return IoCounts(self.requests + other.requests, self.bytes + other.bytes)


class CountedSource:
    """A wrapper that coalesces requests to another source and counts them; it is thread-safe.

    Reads of bytes that are kept in memory are neither requested nor counted again.

    Example:
        >>> source = CountedSource(MemorySource(b"abcdef"))
        >>> source.read_ranges([ByteRange(0, 2), ByteRange(2, 4)])
        [b'ab', b'cd']
        >>> source.counts.requests, source.counts.bytes
        (1, 4)
        >>> source.keep([ByteRange(0, 5)])
        >>> source.read(1, 3), source.counts.requests
        (b'bc', 2)
    """

    def __init__(self, source: ByteSource) -> None:
        self._source = source
        self.path = source.path
        self.coalesce_bytes = source.coalesce_bytes
        self.identity = source.identity
        self._size = source.size()
        self.counts = IoCounts()
        self._counting = threading.Lock()
        self._kept = CachedRanges()
        self._gaps: list[int] = []  # the starts of those kept ranges that are gaps
        self._gap_bytes = 0
        self._zone: ByteRange | None = None
        self._keeping = threading.Lock()
        self._is_checked = True

    def size(self) -> int:
        """Length of the file in bytes."""
        return self._size

    def read_ranges(self, ranges: Sequence[ByteRange], also: IoCounts | None = None) -> list[bytes]:
        """Read the bytes of each range.

        Neighbouring ranges are fetched in one request. Ranges may overlap and be in any order.

        Args:
            also: Other counts to which this read is added, of a caller that reads in one of several threads.

        Raises:
            CorruptFileError: If a range is outside the file.
            ReplacedWhileReadError: If the file has become shorter since it was opened.
        """
        self._check(ranges)
        if self._zone is None and not self._kept.num_bytes:
            return self._fetch(ranges, also)
        missing = self.missing(ranges)
        if self._begins_in_zone(missing):
            # in the same requests as the zone; ranges outside the zone are kept only if they are small
            if sum(location.length for location in missing) > MAX_GAP_BYTES:
                missing = [location for location in missing if self._begins_in_zone([location])]
            self.keep(missing, also)
        found = [self._kept.get(location) for location in ranges]
        missing = [location for location, data in zip(ranges, found, strict=True) if data is None]
        fetched = iter(self._fetch(missing, also) if missing else ())
        return [next(fetched) if data is None else data for data in found]

    def read(self, start: int, stop: int) -> bytes:
        """Read the bytes of one range."""
        return self.read_ranges([ByteRange(start, stop)])[0]

    def keep(self, ranges: Sequence[ByteRange], also: IoCounts | None = None) -> None:
        """Read ranges, with small gaps between them, and keep them in memory until this source is closed.

        Args:
            ranges: The ranges; those that are kept already are not read again.
            also: See `read_ranges`.

        Raises:
            CorruptFileError: If a range is outside the file.
            ReplacedWhileReadError: If the file has become shorter since it was opened.
        """
        self._check(ranges)
        with self._keeping:
            missing = self.missing(ranges)
            if self._zone is not None and self._begins_in_zone(missing):
                missing.append(self._zone)
                self._zone = None
            if missing:
                self._fetch(missing, also, keep=True)

    def keep_known(self, ranges: Mapping[ByteRange, bytes]) -> None:
        """Keep bytes that are known already, in memory until this source is closed.

        Args:
            ranges: The bytes of ranges that neither touch nor overlap.

        Example:
            >>> source = CountedSource(MemorySource(b"abcdef"))
            >>> source.keep_known({ByteRange(2, 6): b"cdef"})
            >>> source.read(3, 5), source.counts.requests
            (b'de', 0)
        """
        self._check(list(ranges))
        with self._counting:
            self._kept.add_apart(ranges.items())

    def keep_when_read(self, zone: ByteRange) -> None:
        """Read a range and keep it as soon as a read begins inside it.

        Args:
            zone: The range; it replaces that of the previous call.

        Example:
            >>> source = CountedSource(MemorySource(b"abcdef"))
            >>> source.keep_when_read(ByteRange(2, 6))
            >>> source.read(0, 1), source.read(3, 4), source.read(5, 6), source.counts.requests
            (b'a', b'd', b'f', 2)
        """
        self._check([zone])
        self._zone = zone

    def _begins_in_zone(self, ranges: Sequence[ByteRange]) -> bool:
        zone = self._zone
        return zone is not None and any(zone.start <= location.start < zone.stop for location in ranges)

    def missing(self, ranges: Sequence[ByteRange]) -> list[ByteRange]:
        """Return the ranges that are not in memory, without empty ones."""
        return [one for one in ranges if one.start != one.stop and self._kept.get(one) is None]

    def _check(self, ranges: Sequence[ByteRange]) -> None:
        for start, stop in ranges:
            if start < 0 or stop < start or stop > self._size:
                raise CorruptFileError(
                    f"the metadata refers to bytes {start} to {stop} of a file of {self._size} bytes; the "
                    "file is truncated, or its metadata belongs to another file",
                    reason="range-outside-file",
                    path=self.path,
                    offset=start,
                )

    def _fetch(
        self, ranges: Sequence[ByteRange], also: IoCounts | None, *, keep: bool = False
    ) -> list[bytes]:
        """Read ranges that are inside the file, and count the requests."""
        requests = coalesce(ranges, self.coalesce_bytes)
        fetched = self._source.read_ranges(requests)
        self._is_checked = False
        for (start, stop), data in zip(requests, fetched, strict=True):
            if len(data) != stop - start:
                raise ReplacedWhileReadError(
                    f"the file became shorter during the read: {len(data)} of {stop - start} bytes are left "
                    f"at offset {start}; open it again",
                    reason="file-became-shorter",
                    path=self.path,
                )
        num_bytes = sum(map(len, fetched))
        with self._counting:
            self.counts.add(len(requests), num_bytes)
            if keep:
                for request, data in zip(requests, fetched, strict=True):
                    self._kept.add(request, data)
            elif self.coalesce_bytes:
                self._keep_gaps(ranges, requests, fetched)
        if also is not None:
            also.add(len(requests), num_bytes)
        if len(requests) == len(ranges) and list(ranges) == requests:
            return fetched
        return cut(ranges, requests, fetched)

    def _keep_gaps(
        self, ranges: Sequence[ByteRange], requests: Sequence[ByteRange], fetched: Sequence[bytes]
    ) -> None:
        """Keep the bytes between ranges for later reads, because metadata is often read in several steps."""
        without_gaps = set(coalesce(ranges, 0))
        for request, data in zip(requests, fetched, strict=True):
            if request not in without_gaps and request.length <= MAX_GAP_BYTES:
                if self._gap_bytes + request.length > MAX_GAP_BYTES:
                    self._kept.remove(self._gaps)
                    self._gaps, self._gap_bytes = [], 0
                before = self._kept.num_bytes
                self._gaps += self._kept.add(request, data)
                self._gap_bytes += self._kept.num_bytes - before

    def check_unchanged(self) -> None:
        """Check that the bytes that were read since the last check are those of the file as it was opened.

        Raises:
            ReplacedWhileReadError: If the file has been overwritten.
        """
        if not self._is_checked:
            self._is_checked = True  # before the check, because other threads may read
            check_unchanged(self._source)

    def close(self) -> None:
        """Close the underlying source."""
        self._source.close()


def check_unchanged(source: ByteSource) -> None:
    """Check that an open file has not been overwritten, if its source can check this.

    Raises:
        ReplacedWhileReadError: If it has been overwritten.
    """
    check = getattr(source, "check_unchanged", None)
    if check is not None:
        check()


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
        self._kept = CachedRanges()

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
            added.extend(self._kept.add(ByteRange(start, start + len(data)), data))

        try:
            yield buffer
        finally:
            self._kept.remove(added)

    def read_ranges(self, ranges: Sequence[ByteRange]) -> list[bytes]:
        """Read the bytes of each range, with one call of the source for all bytes not in memory."""
        cuts = [self._kept.pieces(location) for location in ranges]
        missing = [location for pieces in cuts for location, data in pieces if data is None]
        fetched = iter(self._source.read_ranges(missing) if missing else ())
        return [joined([next(fetched) if data is None else data for _, data in pieces]) for pieces in cuts]

    def close(self) -> None:
        """Close the underlying source."""
        self._source.close()
