"""A container of named sections. Any part of a section can be read and verified separately.

::

    [ magic, version ][ section ]...[ contents ][ length of the contents, checksum, magic ]

A section consists of parts of equal length, each followed by its XXH3-64, whose seed depends on the name of
the section and the ordinal of the part. So a part of a large section is read and verified without the rest.
``docs/format.md`` specifies the bytes.
"""

from __future__ import annotations

import json
import struct
from collections.abc import Iterable, Mapping, Sequence
from typing import Any, NamedTuple

import xxhash

from intarsia.errors import CorruptFileError, UnsupportedFeatureError
from intarsia.storage.ranges import ByteRange
from intarsia.storage.source import CountedSource

MAGIC = b"INTLAKE1"
CONTAINER_VERSION = 1

#: A table of contents has about 60 bytes per section. Parsed JSON takes up to 25 times its length.
MAX_CONTENTS_BYTES = 1 << 24

#: A section has at most this many parts, and at most this many bytes are read at once.
MAX_PARTS = 1 << 17
MAX_READ_BYTES = 1 << 28

_HEAD = struct.Struct("<8sI4x")
_TAIL = struct.Struct("<QQ8s")
_CHECKSUM = struct.Struct("<Q")

#: Bytes read at the end of a container, which include the table of contents of most of them.
_TAIL_BYTES = 1 << 14


class ContentsTooLargeError(ValueError):
    """The table of contents of a container would have more than `MAX_CONTENTS_BYTES`."""


class Section(NamedTuple):
    """A section to write.

    Attributes:
        name: Its name, unique in the container.
        part_bytes: Length of a part, a divisor of the length of the data; None for one part.
    """

    name: str
    data: bytes
    part_bytes: int | None = None


class _Location(NamedTuple):
    """The location of a section: the offset of its first part, and the number and length of its parts."""

    offset: int
    num_parts: int
    part_bytes: int

    @property
    def stop(self) -> int:
        """The end of the last part."""
        return self.offset + self.num_parts * (self.part_bytes + _CHECKSUM.size)

    def range_of(self, part: int) -> ByteRange:
        start = self.offset + part * (self.part_bytes + _CHECKSUM.size)
        return ByteRange(start, start + self.part_bytes + _CHECKSUM.size)


def serialize_sections(sections: Iterable[Section], about: Mapping[str, Any]) -> bytes:
    """Serialize a container.

    Args:
        about: A JSON object for the table of contents.

    Raises:
        ValueError: If a name occurs twice, parts do not divide a section, or there are too many of them.
        ContentsTooLargeError: If there are too many sections.
    """
    out = bytearray(_HEAD.pack(MAGIC, CONTAINER_VERSION))
    locations: dict[str, list[int]] = {}
    for name, data, part_bytes in sections:
        width = len(data) if part_bytes is None else part_bytes
        num_parts = 1 if part_bytes is None else len(data) // max(width, 1)
        if name in locations or num_parts * width != len(data) or num_parts > MAX_PARTS:
            raise ValueError(
                f"section {name!r}: the name is not unique, or {width} does not divide {len(data)}, or there "
                f"are more than {MAX_PARTS} parts"
            )
        locations[name] = [len(out), num_parts, width]
        view = memoryview(data)
        for part in range(num_parts):
            piece = view[part * width : (part + 1) * width]
            out += piece
            out += _CHECKSUM.pack(_checksum(piece, name, part))
    contents = json.dumps({"about": about, "sections": locations}, separators=(",", ":")).encode()
    if len(contents) > MAX_CONTENTS_BYTES:
        raise ContentsTooLargeError(f"{len(locations):,} sections take {len(contents):,} bytes")
    return bytes(out) + contents + _TAIL.pack(len(contents), xxhash.xxh3_64_intdigest(contents), MAGIC)


def _checksum(data: bytes | memoryview, name: str, part: int) -> int:
    seed = xxhash.xxh3_64_intdigest(name.encode()) + part & 0xFFFFFFFFFFFFFFFF
    return xxhash.xxh3_64_intdigest(data, seed)


def _unique(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    found = dict(pairs)
    if len(found) != len(pairs):
        raise ValueError("a name occurs twice")
    return found


def _check_locations(locations: Iterable[_Location], stop: int) -> None:
    """Check that sections are between the head and the table of contents, and do not overlap.

    Raises:
        ValueError: If they are not.
    """
    after = _HEAD.size
    for location in sorted(locations):
        offset, num_parts, part_bytes = location
        if not type(offset) is type(num_parts) is type(part_bytes) is int or min(location) < 0:
            raise ValueError(f"a section has the location {list(location)}")
        if num_parts > (MAX_PARTS if part_bytes else 1):
            raise ValueError(f"a section has {num_parts:,} parts of {part_bytes:,} bytes")
        if offset < after or location.stop > stop:
            raise ValueError(f"a section at {offset} overlaps another one, or is outside the body")
        after = location.stop


class Sections:
    """An open container. Only its table of contents has been read.

    Args:
        source: The bytes; the caller closes it.

    Raises:
        CorruptFileError: If it is not a container, or its table of contents is damaged.
        UnsupportedFeatureError: If a later version of Intarsia wrote it.

    Attributes:
        source: The bytes.
        about: The JSON object in the table of contents.

    Example:
        >>> from intarsia.storage import MemorySource
        >>> data = serialize_sections([Section("a", b"abcdef", part_bytes=2)], {"for": "you"})
        >>> found = Sections(CountedSource(MemorySource(data)))
        >>> found.read("a"), found.read_parts("a", [2]), found.about
        (b'abcdef', [b'ef'], {'for': 'you'})
    """

    def __init__(self, source: CountedSource) -> None:
        self.source = source
        size = source.size()
        if size < _HEAD.size + _TAIL.size:
            raise self._corrupt(f"it has only {size} bytes", "container-too-small")
        start = max(0, size - _TAIL_BYTES)
        tail = source.read(start, size)
        length, checksum, magic = _TAIL.unpack(tail[-_TAIL.size :])
        if magic[:-1] != MAGIC[:-1]:
            raise self._corrupt("it does not end with the magic of a lake index", "container-magic")
        if magic != MAGIC:
            raise UnsupportedFeatureError(
                "a later version of Intarsia wrote it; upgrade, or build it again",
                reason="newer-container",
                path=source.path,
            )
        stop = size - _TAIL.size
        if length > min(MAX_CONTENTS_BYTES, stop - _HEAD.size):
            raise self._corrupt(f"its table of contents has {length:,} bytes", "container-contents")
        contents = tail[-_TAIL.size - length : -_TAIL.size]
        if len(contents) < length:
            contents = source.read(stop - length, stop)
        if xxhash.xxh3_64_intdigest(contents) != checksum:
            raise self._corrupt("the checksum of its table of contents is wrong", "container-contents")
        try:
            document = json.loads(contents, object_pairs_hook=_unique)
            self.about: dict[str, Any] = document["about"]
            if not isinstance(self.about, dict):
                raise TypeError("'about' is not an object")
            self._locations = {name: _Location(*location) for name, location in document["sections"].items()}
            _check_locations(self._locations.values(), stop - length)
        except (ValueError, TypeError, KeyError, AttributeError, RecursionError) as error:
            raise self._corrupt(
                f"its table of contents cannot be parsed: {error}", "container-contents"
            ) from error

    def __contains__(self, name: str) -> bool:
        return name in self._locations

    def names(self) -> list[str]:
        """Return the names of all sections."""
        return list(self._locations)

    def num_bytes(self, name: str) -> int:
        """Return the length of a section in bytes, without checksums.

        Raises:
            CorruptFileError: If it is missing.
        """
        location = self._location(name)
        return location.num_parts * location.part_bytes

    def read(self, name: str) -> bytes:
        """Read a section.

        Raises:
            CorruptFileError: If it is missing or damaged.
        """
        return b"".join(self.read_parts(name, range(self._location(name).num_parts)))

    def read_parts(self, name: str, parts: Sequence[int]) -> list[bytes]:
        """Read some parts of a section.

        Raises:
            CorruptFileError: If the section or a part is missing or damaged.
        """
        location = self._location(name)
        if parts and (min(parts) < 0 or max(parts) >= location.num_parts):
            raise self._corrupt(f"section {name!r} has no part {max(parts)}", "container-part")
        self._check_length(name, len(parts) * (location.part_bytes + _CHECKSUM.size))
        pieces = self.source.read_ranges([location.range_of(part) for part in parts])
        out = []
        for part, data in zip(parts, pieces, strict=True):
            view = memoryview(data)
            piece = view[: location.part_bytes]
            (checksum,) = _CHECKSUM.unpack(view[location.part_bytes :])
            if _checksum(piece, name, part) != checksum:
                raise self._corrupt(
                    f"the checksum of section {name!r}, part {part}, is wrong", "container-part"
                )
            out.append(bytes(piece))
        return out

    def read_range(self, name: str, start: int, stop: int) -> bytes:
        """Read some bytes of a section of one part, without verifying them.

        Raises:
            CorruptFileError: If the section is missing, or the bytes are outside of it.
        """
        location = self._location(name)
        if location.num_parts != 1 or not 0 <= start <= stop <= location.part_bytes:
            raise self._corrupt(f"bytes {start} to {stop} are outside section {name!r}", "container-part")
        self._check_length(name, stop - start)
        return self.source.read(location.offset + start, location.offset + stop)

    def _check_length(self, name: str, num_bytes: int) -> None:
        if num_bytes > MAX_READ_BYTES:
            raise self._corrupt(f"section {name!r} would take {num_bytes:,} bytes at once", "container-limit")

    def _location(self, name: str) -> _Location:
        found = self._locations.get(name)
        if found is None:
            raise self._corrupt(f"it has no section {name!r}", "container-section")
        return found

    def _corrupt(self, message: str, reason: str) -> CorruptFileError:
        return CorruptFileError(message, reason=reason, path=self.source.path)
