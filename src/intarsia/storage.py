"""Where bytes come from: a size, and ranges of bytes, coalesced and counted.

A source knows nothing of Parquet.  Callers ask for many ranges at once (`read_ranges`), so that a
local file can read them one after the other and an object store can fetch them together.
"""

from __future__ import annotations

import io
import os
import re
import threading
from collections.abc import Iterable, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from typing import Any, NamedTuple, Protocol
from urllib.parse import unquote

from intarsia.errors import CorruptFileError, ReplacedWhileReadError
from intarsia.object_errors import object_errors

#: Requests to an object store that are under way at once, for one `ByteSource.read_ranges`.
MAX_CONCURRENT_REQUESTS = 16

_URL = re.compile(r"([a-zA-Z][a-zA-Z0-9+.\-]+)://([^/]*)(/?.*)", re.DOTALL)


class ByteRange(NamedTuple):
    """Bytes ``start`` (included) to ``stop`` (excluded) of a file."""

    start: int
    stop: int

    @property
    def length(self) -> int:
        """Number of bytes."""
        return self.stop - self.start


class ByteSource(Protocol):
    """What a reader needs of a storage: a name, a size, and ranges of bytes.

    Implementations are safe to use from several threads, or are used from one.
    """

    path: str
    #: Ranges closer than this many bytes are worth one request (0 for local files).
    coalesce_bytes: int

    def size(self) -> int:
        """Length of the file in bytes."""
        ...

    def read_ranges(self, ranges: Sequence[ByteRange]) -> list[bytes]:
        """The bytes of each range, in the order asked; each range is one request."""
        ...

    def close(self) -> None:
        """Release what is held; reading afterwards is an error."""
        ...


class LocalFile:
    """A file on a local disk, read with ``pread`` (no shared file position, so threads may share it).

    The file is opened once: should it be replaced while it is read, the reads go on in the old one.
    """

    coalesce_bytes = 0

    def __init__(self, path: str | os.PathLike[str]) -> None:
        self.path = os.fspath(path)
        self._fd = -1  # for `__del__`, should there be no such file
        self._fd = os.open(self.path, os.O_RDONLY | getattr(os, "O_CLOEXEC", 0) | getattr(os, "O_BINARY", 0))
        self._size = os.fstat(self._fd).st_size

    def size(self) -> int:
        """Length of the file in bytes, when it was opened."""
        return self._size

    def read_ranges(self, ranges: Sequence[ByteRange]) -> list[bytes]:
        """The bytes of each range; shorter only where the file ends."""
        return [self._read(start, stop - start) for start, stop in ranges]

    def _read(self, offset: int, length: int) -> bytes:
        data = os.pread(self._fd, length, offset)
        if len(data) == length or not data:
            return data
        pieces = [data]  # Linux returns at most 2 GiB a call, and any call may be cut short
        while data and (missing := length - sum(map(len, pieces))) > 0:
            data = os.pread(self._fd, missing, offset + length - missing)
            pieces.append(data)
        return b"".join(pieces)

    def close(self) -> None:
        """Close the file descriptor; closing twice is harmless."""
        if self._fd >= 0:
            os.close(self._fd)
            self._fd = -1

    def __del__(self) -> None:
        self.close()


class MemorySource:
    """Bytes in memory, as a source.

    Example:
        >>> MemorySource(b"abcdef").read_ranges([ByteRange(1, 3)])
        [b'bc']
    """

    coalesce_bytes = 0

    def __init__(self, data: bytes, path: str = "<memory>") -> None:
        self.path = path
        self._data = data

    def size(self) -> int:
        """Length in bytes."""
        return len(self._data)

    def read_ranges(self, ranges: Sequence[ByteRange]) -> list[bytes]:
        """The bytes of each range."""
        return [self._data[start:stop] for start, stop in ranges]

    def close(self) -> None:
        """Nothing is held."""


class ObjectStoreFile:
    """An object behind a URL (``s3://``, ``gs://``, ``az://``, ``https://``), read through obstore.

    Args:
        store: An obstore store (or any object with obstore's interface).
        key: The object's path within the store.
        path: The name to show in messages; the URL it came from.

    The object is read as it was when it was opened: should it be replaced meanwhile, a read fails, since the
    footer of one object says nothing about the bytes of another.
    """

    #: As obstore does by itself; doing it here keeps the count honest.
    coalesce_bytes = 1 << 20

    def __init__(self, store: Any, key: str, path: str) -> None:
        import obstore

        self.path = path
        self._store = store
        self._key = key
        with object_errors(path):
            meta = obstore.head(store, key)
        self._size = int(meta["size"])
        self.e_tag: str | None = meta.get("e_tag")

    def size(self) -> int:
        """Length of the object in bytes, when it was opened."""
        return self._size

    def read_ranges(self, ranges: Sequence[ByteRange]) -> list[bytes]:
        """The bytes of each range, fetched concurrently.

        Raises:
            ReplacedWhileReadError: If the object is no longer the one that was opened.
            ObjectStoreError: If the store cannot be reached, or refuses.
        """
        if len(ranges) < 2:
            return [self._read(place) for place in ranges]
        with ThreadPoolExecutor(min(len(ranges), MAX_CONCURRENT_REQUESTS)) as pool:
            return list(pool.map(self._read, ranges))

    def _read(self, place: ByteRange) -> bytes:
        import obstore

        with object_errors(self.path):
            result = obstore.get(self._store, self._key, options={"range": (place.start, place.stop)})
            data = bytes(result.bytes())
        found = result.meta.get("e_tag")
        # compared here: a weak ETag cannot be sent as a condition, and some servers do not know conditions
        if self.e_tag is not None and found is not None and found != self.e_tag:
            raise ReplacedWhileReadError(
                "the object was replaced while it was read; open it again", path=self.path, offset=place.start
            )
        return data

    def close(self) -> None:
        """Nothing is held between requests."""


class ArrowFile:
    """A file of a pyarrow filesystem (HDFS, or a store that only pyarrow can reach)."""

    coalesce_bytes = 1 << 20

    def __init__(self, filesystem: Any, path: str) -> None:
        self.path = path
        self._file = filesystem.open_input_file(path)
        self._size = int(self._file.size())

    def size(self) -> int:
        """Length of the file in bytes."""
        return self._size

    def read_ranges(self, ranges: Sequence[ByteRange]) -> list[bytes]:
        """The bytes of each range."""
        return [self._file.read_at(stop - start, start) for start, stop in ranges]

    def close(self) -> None:
        """Close pyarrow's handle."""
        self._file.close()


@dataclass
class IoCounts:
    """What was asked of a storage."""

    requests: int = 0
    bytes: int = 0


class CountedSource:
    """Another source, with every request counted after coalescing; several threads may use it.

    Example:
        >>> source = CountedSource(MemorySource(b"abcdef"))
        >>> source.read_ranges([ByteRange(0, 2), ByteRange(2, 4)])
        [b'ab', b'cd']
        >>> source.counts.requests, source.counts.bytes
        (1, 4)
    """

    def __init__(self, source: ByteSource) -> None:
        self._source = source
        self.path = source.path
        self.coalesce_bytes = source.coalesce_bytes
        self.counts = IoCounts()
        self._counting = threading.Lock()

    def size(self) -> int:
        """Length of the file in bytes."""
        return self._source.size()

    def read_ranges(self, ranges: Sequence[ByteRange]) -> list[bytes]:
        """The bytes of each range.

        Neighbours are fetched in one request; ranges may overlap and come in any order.

        Raises:
            CorruptFileError: If a range lies outside the file.
        """
        size = self.size()
        for start, stop in ranges:
            if start < 0 or stop < start or stop > size:
                raise CorruptFileError(
                    f"bytes {start} to {stop} were named, but the file has {size}; it is truncated, or its "
                    "metadata belongs to another file",
                    path=self.path,
                    offset=start,
                )
        requests = coalesce(ranges, self.coalesce_bytes)
        fetched = self._source.read_ranges(requests)
        for request, data in zip(requests, fetched, strict=True):
            if len(data) != request.length:
                raise CorruptFileError(
                    f"asked for {request.length} bytes, got {len(data)}: the file shrank while it was read",
                    path=self.path,
                    offset=request.start,
                )
        with self._counting:
            self.counts.requests += len(requests)
            self.counts.bytes += sum(request.length for request in requests)
        if len(requests) == len(ranges) and list(ranges) == requests:
            return fetched
        return _cut(ranges, requests, fetched)

    def read(self, start: int, stop: int) -> bytes:
        """The bytes of one range."""
        return self.read_ranges([ByteRange(start, stop)])[0]

    def close(self) -> None:
        """Close the source underneath."""
        self._source.close()


class SourceFile(io.RawIOBase):
    """A counted source as a Python file, for libraries that want to seek and read by themselves."""

    def __init__(self, source: CountedSource) -> None:
        super().__init__()
        self._source = source
        self._position = 0

    def readable(self) -> bool:
        """Always."""
        return True

    def seekable(self) -> bool:
        """Always."""
        return True

    def seek(self, offset: int, whence: int = os.SEEK_SET) -> int:
        """Move to an offset; see `io.RawIOBase.seek`."""
        base = {os.SEEK_SET: 0, os.SEEK_CUR: self._position, os.SEEK_END: self._source.size()}[whence]
        self._position = base + offset
        return self._position

    def tell(self) -> int:
        """The position."""
        return self._position

    def read(self, size: int = -1) -> bytes:
        """Up to ``size`` bytes from the position, in one request."""
        end = self._source.size()
        stop = end if size < 0 else min(end, self._position + size)
        data = self._source.read(self._position, stop) if stop > self._position else b""
        self._position += len(data)
        return data

    def readall(self) -> bytes:
        """All bytes from the position to the end."""
        return self.read()


def local_path(name: str) -> str | None:
    """The local path that a path or a ``file://`` URL means; None for the URL of an object.

    Raises:
        FileNotFoundError: If the URL is of a file on another machine.

    Example:
        >>> local_path("lake/a%20b.parquet"), local_path("file:///lake/a%20b.parquet")
        ('lake/a%20b.parquet', '/lake/a b.parquet')
        >>> local_path("file://localhost/lake/"), local_path("s3://bucket/lake/")
        ('/lake/', None)
    """
    url = _URL.fullmatch(name)
    if url is None:
        return name
    scheme, host, rest = url.groups()
    if scheme.lower() != "file":
        return None
    if host.lower() not in ("", "localhost"):
        raise FileNotFoundError(
            f"{name}: this names a file on the machine {host!r}; of this machine, a file has three slashes, "
            "as in file:///lake/x.parquet, and a relative path no file:// at all"
        )
    return unquote(rest)


def find_store(url: str) -> tuple[Any, str]:
    """The obstore store that the URL of an object or a folder of them means, and the path within it.

    Raises:
        ObjectStoreError: If obstore knows no such store, or it needs what the environment does not say.
    """
    from obstore.store import from_url

    scheme, separator, rest = url.partition("://")
    bucket, _, key = rest.partition("/")
    plain: Any = {"client_options": {"allow_http": True}} if scheme.lower() == "http" else {}
    with object_errors(url):
        return from_url(f"{scheme}{separator}{bucket}", **plain), key


def coalesce(ranges: Iterable[ByteRange], gap_bytes: int) -> list[ByteRange]:
    """The fewest requests that cover ``ranges``, joining those closer than or equal to ``gap_bytes``.

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


def _cut(ranges: Sequence[ByteRange], requests: list[ByteRange], fetched: list[bytes]) -> list[bytes]:
    """Each range out of the request that covers it."""
    from bisect import bisect_right

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
