"""The directory of embedded indexes, and what ties it to the bytes of one file.

The footer key ``intarsia`` holds a JSON document (`Directory`), which says where each index's blob lies,
and which layout it was built from.  Other writers copy footer keys into files of their own, so nothing here
is used before `belongs` has found no objection (contract C2).  The bytes are specified in ``docs/format.md``.
"""

from __future__ import annotations

import base64
import json
from array import array
from collections.abc import Mapping
from dataclasses import dataclass, replace
from typing import Any, NoReturn, TypeVar

import xxhash

from intarsia.errors import IndexPayloadError
from intarsia.format.footer import Footer
from intarsia.format.structs import ColumnMetaData, FileMetaData, LogicalType, SchemaElement

T = TypeVar("T")

#: The footer key under which the directory lies.
KEY = b"intarsia"

DIRECTORY_VERSION = 1
BLOB_VERSION = 1
BLOB_MAGIC = b"INTARSIA"

#: Bytes before a blob's payload: magic, version, reserved, fingerprint, length, checksum.
BLOB_HEADER_BYTES = 48

#: Blobs start at multiples of this, so that fixed-width payloads can be mapped.
BLOB_ALIGNMENT_BYTES = 8

#: A directory is a few hundred bytes an entry; more than this is no directory.
MAX_DIRECTORY_BYTES = 1 << 24
MAX_ENTRIES = 10_000

_MAX_INT = (1 << 63) - 1


class NewerDirectoryError(IndexPayloadError):
    """The directory was written by a later version of Intarsia."""


@dataclass(frozen=True)
class Entry:
    """One embedded index.

    Attributes:
        name: Unique within the directory; shown to people.
        kind: The index class's ``kind``.
        kind_version: The ``version`` of the class that wrote the payload.
        columns: The columns that it is about, each a path of names.
        granularity: ``"file"``, ``"row_group"``, ``"page"`` or a number of rows.
        parameters: The fields of the index object.
        offset: Byte offset of the blob in the file; 0 if the payload stands here.
        length: Length of the blob in bytes, header included; 0 if the payload stands here.
        xxh3: XXH3-64 of the payload, 16 hexadecimal digits.
        inline: The payload, if it is so small that it stands in the directory.
        int96_unit: ``"us"`` or ``"ns"``, if 64 bits of nanoseconds hold every value of its INT96 columns,
            and whole microseconds are all that there is, or not; None if they do not, or nobody has looked.
    """

    name: str
    kind: str
    kind_version: int
    columns: tuple[tuple[str, ...], ...]
    granularity: str | int
    parameters: Mapping[str, Any]
    offset: int
    length: int
    xxh3: str
    inline: bytes | None = None
    int96_unit: str | None = None

    @property
    def column_names(self) -> tuple[str, ...]:
        """The columns, dotted, for people."""
        return tuple(".".join(path) for path in self.columns)

    @property
    def payload_bytes(self) -> int:
        """Length of the payload in bytes."""
        return self.length - BLOB_HEADER_BYTES if self.inline is None else len(self.inline)

    @property
    def identity(self) -> tuple[str, tuple[tuple[str, ...], ...], str | int]:
        """What makes two entries the same index: attaching one takes the place of the other."""
        return self.kind, self.columns, self.granularity

    def moved(self, offset: int) -> Entry:
        """The same entry with its blob elsewhere."""
        return replace(self, offset=offset)


@dataclass(frozen=True)
class Directory:
    """What is embedded in a file.

    Attributes:
        version: Version of this document's form.
        original_length: Length in bytes of the file before anything was added.
        fingerprint: `layout_fingerprint` of the original footer, 32 hexadecimal digits.
        region_stop: Where the added bytes end, which is where the new footer starts.
        entries: The embedded indexes.
    """

    version: int
    original_length: int
    fingerprint: str
    region_stop: int
    entries: tuple[Entry, ...] = ()

    def to_json(self) -> bytes:
        """The document, ASCII, the same for equal directories.

        Raises:
            IndexPayloadError: If it is too large, or a parameter has no JSON form.
        """
        document = {
            "version": self.version,
            "original_length": self.original_length,
            "fingerprint": self.fingerprint,
            "region_stop": self.region_stop,
            "entries": [
                {
                    "name": entry.name,
                    "kind": entry.kind,
                    "kind_version": entry.kind_version,
                    "columns": [list(path) for path in entry.columns],
                    "granularity": entry.granularity,
                    "parameters": dict(entry.parameters),
                    **_where(entry),
                    "xxh3": entry.xxh3,
                    **({"int96_unit": entry.int96_unit} if entry.int96_unit else {}),
                }
                for entry in self.entries
            ],
        }
        try:
            data = json.dumps(document, separators=(",", ":"), allow_nan=False).encode("ascii")
        except (TypeError, ValueError, RecursionError) as error:
            raise IndexPayloadError(f"the parameters of an index have no JSON form: {error}") from error
        if len(data) > MAX_DIRECTORY_BYTES or len(self.entries) > MAX_ENTRIES:
            raise IndexPayloadError(f"{len(self.entries)} indexes are too many for one file")
        return data


def _where(entry: Entry) -> dict[str, Any]:
    if entry.inline is None:
        return {"offset": entry.offset, "length": entry.length}
    return {"payload": base64.b64encode(entry.inline).decode("ascii")}


# --- parsing ---------------------------------------------------------------------------------------


def parse_directory(data: bytes) -> Directory:
    """Parse and check a directory; whether it belongs to a file is for `belongs` to say.

    Raises:
        NewerDirectoryError: If its version is not known here.
        IndexPayloadError: If it is damaged; the message says where.
    """
    if len(data) > MAX_DIRECTORY_BYTES:
        raise IndexPayloadError(f"the directory has {len(data)} bytes; {MAX_DIRECTORY_BYTES} is the most")
    try:
        document = json.loads(data, parse_constant=_no_constant)
    except (ValueError, RecursionError) as error:
        raise IndexPayloadError(f"the directory is no JSON document: {error}") from error
    fields = _Fields(document, "the directory")
    version = fields.integer("version", 1)
    if version != DIRECTORY_VERSION:
        raise NewerDirectoryError(
            f"the directory has version {version}, this Intarsia knows {DIRECTORY_VERSION}: upgrade Intarsia"
        )
    listed = fields.value("entries", list)
    if len(listed) > MAX_ENTRIES:
        raise IndexPayloadError(f"the directory has {len(listed)} entries; {MAX_ENTRIES} is the most")
    directory = Directory(
        version=version,
        original_length=fields.integer("original_length", 12),
        fingerprint=fields.hexadecimal("fingerprint", 32),
        region_stop=fields.integer("region_stop", 12),
        entries=tuple(_entry(item, f"entry {place}") for place, item in enumerate(listed)),
    )
    if directory.region_stop < directory.original_length:
        raise IndexPayloadError("the directory ends before the original file does")
    names = set()
    for entry in directory.entries:
        if entry.name in names:
            raise IndexPayloadError(f"two entries of the directory are called {entry.name!r}")
        names.add(entry.name)
        if entry.inline is None and (
            entry.offset < directory.original_length or entry.offset + entry.length > directory.region_stop
        ):
            raise IndexPayloadError(f"the blob of {entry.name!r} lies outside the bytes that were added")
    return directory


def _entry(item: Any, place: str) -> Entry:
    fields = _Fields(item, place)
    columns = fields.value("columns", list)
    if not all(
        isinstance(path, list) and path and all(isinstance(name, str) for name in path) for path in columns
    ):
        raise IndexPayloadError(f"{place}: columns are not all lists of names")
    granularity = fields.value("granularity", object)
    if not isinstance(granularity, str):
        granularity = fields.integer("granularity", 1)
    inline = fields.base64("payload")
    offset, length = 0, 0
    if inline is None:
        offset, length = fields.integer("offset", 0), fields.integer("length", BLOB_HEADER_BYTES)
        if offset % BLOB_ALIGNMENT_BYTES:
            raise IndexPayloadError(f"{place}: offset {offset} is no multiple of {BLOB_ALIGNMENT_BYTES}")
    return Entry(
        name=fields.value("name", str),
        kind=fields.value("kind", str),
        kind_version=fields.integer("kind_version", 0),
        columns=tuple(tuple(path) for path in columns),
        granularity=granularity,
        parameters=fields.value("parameters", dict),
        offset=offset,
        length=length,
        xxh3=fields.hexadecimal("xxh3", 16),
        inline=inline,
        int96_unit=fields.one_of("int96_unit", ("us", "ns")),
    )


class _Fields:
    """A JSON object whose fields are asked for by name and type; fields not asked for are ignored."""

    def __init__(self, document: Any, place: str) -> None:
        if not isinstance(document, dict):
            raise IndexPayloadError(f"{place} is no JSON object")
        self._document = document
        self._place = place

    def value(self, name: str, kind: type[T]) -> T:
        value = self._document.get(name)
        if value is None or not isinstance(value, kind):
            fault = "missing" if value is None else "of a wrong type"
            raise IndexPayloadError(f"{self._place}: {name} is {fault}")
        return value

    def integer(self, name: str, least: int) -> int:
        value = self.value(name, int)
        if isinstance(value, bool) or not least <= value <= _MAX_INT:
            raise IndexPayloadError(f"{self._place}: {name} is {value!r}")
        return value

    def one_of(self, name: str, known: tuple[str, ...]) -> str | None:
        """One of the known words; None if there is no such field, or another word."""
        value = self._document.get(name)
        return value if isinstance(value, str) and value in known else None

    def base64(self, name: str) -> bytes | None:
        """Bytes, or None if there is no such field."""
        if self._document.get(name) is None:
            return None
        try:
            return base64.b64decode(self.value(name, str), validate=True)
        except ValueError as error:
            raise IndexPayloadError(f"{self._place}: {name} is no base64: {error}") from error

    def hexadecimal(self, name: str, digits: int) -> str:
        value = self.value(name, str)
        if len(value) != digits or not set(value) <= set("0123456789abcdef"):
            raise IndexPayloadError(f"{self._place}: {name} is not {digits} hexadecimal digits")
        return value


def _no_constant(name: str) -> NoReturn:
    raise ValueError(f"{name} is no JSON number")


# --- does it belong? -------------------------------------------------------------------------------


def belongs(directory: Directory, footer: Footer) -> str | None:
    """Why a directory is not about the file whose footer holds it; None if it is.

    A directory that another writer copied along with the keys fails twice: the layout is another, and even
    where a table of the same shape was written, its footer does not start where the added bytes end.
    """
    if directory.version != DIRECTORY_VERSION:
        return f"its version is {directory.version}, this Intarsia knows {DIRECTORY_VERSION}"
    if directory.original_length > footer.start:
        return (
            f"it says that the original file had {directory.original_length} bytes, but this one has only "
            f"{footer.start} before its footer"
        )
    if directory.region_stop != footer.start:
        return (
            f"it says that the footer starts at byte {directory.region_stop}, but it starts at "
            f"{footer.start}: another writer copied it, or changed the file"
        )
    if directory.fingerprint != layout_fingerprint(footer.metadata):
        return "it was built from another layout of row groups and chunks"
    return None


def layout_fingerprint(metadata: FileMetaData) -> str:
    """XXH3-128 over what says where a file's values lie: 32 hexadecimal digits.

    Only fields go in that retrofitting leaves as they are, so a file keeps its fingerprint; the order of the
    bytes stands in ``docs/format.md``.
    """
    digest = xxhash.xxh3_128()
    digest.update(_integers(len(metadata.schema)))
    for element in metadata.schema:
        digest.update(_schema_bytes(element))
    digest.update(_integers(len(metadata.row_groups)))
    paths: dict[tuple[str, ...], bytes] = {}
    for group in metadata.row_groups:
        numbers = array("q", (group.num_rows, len(group.columns)))
        names = []
        for chunk in group.columns:
            meta = chunk.meta_data
            if meta is None:  # encrypted, or in another file
                numbers.append(-1)
                continue
            numbers.extend(_chunk_numbers(meta))
            path = tuple(meta.path_in_schema)
            if path not in paths:
                paths[path] = _integers(len(path)) + b"".join(map(_text, path))
            names.append(paths[path])
        digest.update(_little_endian(numbers))
        digest.update(b"".join(names))
    return digest.hexdigest()


def _chunk_numbers(meta: ColumnMetaData) -> tuple[int, ...]:
    return (
        meta.type,
        meta.codec,
        meta.num_values,
        meta.data_page_offset,
        meta.dictionary_page_offset or 0,  # 0 is what some writers put for "absent"
        meta.total_compressed_size,
        meta.total_uncompressed_size,
        len(meta.encodings),
        *meta.encodings,
    )


def _schema_bytes(element: SchemaElement) -> bytes:
    numbers = (
        element.type,
        element.type_length,
        element.repetition_type,
        element.num_children,
        element.converted_type,
        element.scale,
        element.precision,
    )
    return (
        _text(element.name)
        + _integers(*(-1 if number is None else number for number in numbers))
        + _logical_bytes(element.logicalType)
    )


def _logical_bytes(logical: LogicalType | None) -> bytes:
    if logical is None:
        return _text("") + _integers(0)
    numbers: tuple[int, ...] = ()
    if (decimal := logical.DECIMAL) is not None:
        numbers = decimal.scale, decimal.precision
    elif (time := logical.TIME or logical.TIMESTAMP) is not None:
        unit = next((place for place, value in enumerate(time.unit, 1) if value is not None), 0)
        numbers = int(time.isAdjustedToUTC), unit
    elif (integer := logical.INTEGER) is not None:
        numbers = integer.bitWidth, int(integer.isSigned)
    return _text(logical.kind or "?") + _integers(len(numbers), *numbers)


def _text(text: str) -> bytes:
    # surrogateescape is not needed: the Thrift codec gave valid text, or refused
    data = text.encode("utf-8", "surrogatepass")
    return _integers(len(data)) + data


def _integers(*numbers: int) -> bytes:
    return _little_endian(array("q", numbers))


def _little_endian(numbers: array[int]) -> bytes:
    if _BIG_ENDIAN:
        numbers = numbers[:]
        numbers.byteswap()
    return numbers.tobytes()


_BIG_ENDIAN = array("q", [1]).tobytes()[0] == 0


# --- blobs -----------------------------------------------------------------------------------------


def checksum(payload: bytes | memoryview) -> str:
    """XXH3-64 of a payload, 16 hexadecimal digits."""
    return xxhash.xxh3_64_hexdigest(payload)


def blob_header(fingerprint: str, payload_bytes: int, xxh3: str) -> bytes:
    """What stands before a payload, and says whose it is.

    Args:
        fingerprint: `layout_fingerprint` of the file that it was built from.
        payload_bytes: Length of the payload.
        xxh3: Its `checksum`.
    """
    return b"".join(
        (
            BLOB_MAGIC,
            BLOB_VERSION.to_bytes(4, "little"),
            bytes(4),
            bytes.fromhex(fingerprint),
            payload_bytes.to_bytes(8, "little"),
            int(xxh3, 16).to_bytes(8, "little"),
        )
    )


def frame(payload: bytes, fingerprint: str) -> bytes:
    """A payload behind its header.

    Args:
        payload: The index's own bytes.
        fingerprint: `layout_fingerprint` of the file that it was built from.
    """
    return blob_header(fingerprint, len(payload), checksum(payload)) + payload


def unframe(blob: bytes, fingerprint: str, entry: Entry | None = None) -> bytes:
    """The payload of a blob.

    Args:
        blob: The bytes that an `Entry` names.
        fingerprint: The directory's fingerprint.
        entry: The entry itself, so that the blob is also checked to be the one it means.

    Raises:
        IndexPayloadError: If the blob is damaged, cut short or another file's.

    Example:
        >>> unframe(frame(b"payload", "0" * 32), "0" * 32)
        b'payload'
    """
    announced = check_blob_header(blob, fingerprint, len(blob), entry)
    payload = blob[BLOB_HEADER_BYTES:]
    check_payload(payload, announced)
    return payload


def check_blob_header(header: bytes, fingerprint: str, blob_bytes: int, entry: Entry | None = None) -> str:
    """Check what stands before a payload; for indexes that are probed, which are never read whole.

    Args:
        header: The blob's first `BLOB_HEADER_BYTES`, or more.
        fingerprint: The directory's fingerprint.
        blob_bytes: Length of the blob, header included.
        entry: The entry whose blob it should be.

    Returns:
        The payload's `checksum`, as the header has it.

    Raises:
        IndexPayloadError: If this is no blob, another file's, or not the entry's.
    """
    header = header[:BLOB_HEADER_BYTES]
    if len(header) < BLOB_HEADER_BYTES or header[:8] != BLOB_MAGIC:
        raise IndexPayloadError("there is no blob where the directory says")
    version = int.from_bytes(header[8:12], "little")
    if version != BLOB_VERSION:
        raise IndexPayloadError(f"the blob has version {version}, this Intarsia knows {BLOB_VERSION}")
    if header[16:32] != bytes.fromhex(fingerprint):
        raise IndexPayloadError("the blob belongs to another file")
    if int.from_bytes(header[32:40], "little") != blob_bytes - BLOB_HEADER_BYTES:
        raise IndexPayloadError("the blob's length is not what the directory says")
    announced = f"{int.from_bytes(header[40:48], 'little'):016x}"
    if entry is not None and announced != entry.xxh3:
        raise IndexPayloadError("the blob is not the one that the directory means, or its header is damaged")
    return announced


def check_payload(payload: bytes, xxh3: str) -> None:
    """Compare a payload with its checksum.

    Raises:
        IndexPayloadError: If it is damaged.
    """
    if checksum(payload) != xxh3:
        raise IndexPayloadError("its bytes are damaged: the checksum does not match")
