"""The directory of embedded indexes in the footer, and the fingerprint of the layout that they belong to."""

from __future__ import annotations

import base64
import json
import struct
from collections.abc import Mapping
from dataclasses import replace
from functools import lru_cache
from typing import Any, Literal, NamedTuple, NoReturn, TypeVar

import xxhash

from intarsia.errors import IndexPayloadError, NewerDirectoryError
from intarsia.format.blob import BLOB_ALIGNMENT_BYTES, BLOB_HEADER_BYTES
from intarsia.format.footer import Footer
from intarsia.format.structs import ColumnMetaData, FileMetaData, LogicalType, SchemaElement
from intarsia.once import cached_property
from intarsia.records import dataclass


def layout_fingerprint(metadata: FileMetaData) -> str:
    """Return the XXH3-128 hash of the fields that locate a file's values, as 32 hexadecimal digits.

    `intarsia.attach` does not change these fields, so a file keeps its fingerprint. ``docs/format.md``
    specifies the order of the bytes.
    """
    digest = xxhash.xxh3_128()
    digest.update(_all_schema_bytes(tuple(metadata.schema)))
    digest.update(_integers(len(metadata.row_groups)))
    for group in metadata.row_groups:
        numbers = [group.num_rows, len(group.columns)]
        names = []
        for chunk in group.columns:
            meta = chunk.meta_data
            if meta is None:  # encrypted, or in another file
                numbers.append(-1)
                continue
            numbers.extend(_chunk_numbers(meta))
            names.append(_path_bytes(tuple(meta.path_in_schema or ())))
        digest.update(_integers(*numbers))
        digest.update(b"".join(names))
    return digest.hexdigest()


def _chunk_numbers(meta: ColumnMetaData) -> tuple[int, ...]:
    return (
        meta.type,
        meta.codec,
        meta.num_values,
        meta.data_page_offset,
        meta.dictionary_page_offset or 0,  # some writers write 0 for "absent"
        meta.total_compressed_size,
        meta.total_uncompressed_size,
        len(meta.encodings),
        *meta.encodings,
    )


@lru_cache(maxsize=1024)
def _path_bytes(path: tuple[str, ...]) -> bytes:
    return _integers(len(path)) + b"".join(map(_text, path))


@lru_cache(maxsize=64)
def _all_schema_bytes(elements: tuple[SchemaElement, ...]) -> bytes:
    return _integers(len(elements)) + b"".join(map(_schema_bytes, elements))


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
        units = enumerate(time.unit[:_FINGERPRINT_UNITS], 1)
        unit = next((ordinal for ordinal, value in units if value is not None), 0)
        numbers = int(time.isAdjustedToUTC), unit
    elif (integer := logical.INTEGER) is not None:
        numbers = integer.bitWidth, int(integer.isSigned)
    name = logical.name if logical.name in _FINGERPRINT_NAMES else "?"
    return _text(name) + _integers(len(numbers), *numbers)


#: The members of LogicalType and TimeUnit with a name in the fingerprint. A later member is "?" or 0 even in
#: a version that reads it, because all versions must compute the same fingerprint.
_FINGERPRINT_NAMES = (
    *("STRING", "MAP", "LIST", "ENUM", "DECIMAL", "DATE", "TIME", "TIMESTAMP", "INTEGER", "UNKNOWN", "JSON"),
    *("BSON", "UUID", "FLOAT16", "VARIANT", "GEOMETRY", "GEOGRAPHY"),
)
_FINGERPRINT_UNITS = 3


def _text(text: str) -> bytes:
    data = text.encode("utf-8")  # always possible: the Thrift codec replaces invalid bytes by U+FFFD
    return _integers(len(data)) + data


def _integers(*numbers: int) -> bytes:
    return struct.pack(f"<{len(numbers)}q", *numbers)


T = TypeVar("T")

#: The footer key of the directory.
KEY = b"intarsia"

DIRECTORY_VERSION = 1

#: Limits on a directory, which has a few hundred bytes per entry.
MAX_DIRECTORY_BYTES = 1 << 24
MAX_ENTRIES = 10_000

_HEXADECIMAL = frozenset("0123456789abcdef")

_MAX_INT = (1 << 63) - 1


@dataclass(frozen=True)
class Entry:
    """One embedded index.

    Attributes:
        name: Unique name within the directory, shown to users.
        kind: The ``kind`` of the index class.
        kind_version: The ``version`` of the class that wrote the payload.
        columns: The indexed columns, each a path of names.
        granularity: ``"file"``, ``"row_group"``, ``"page"`` or a number of rows.
        parameters: The fields of the index object.
        offset: Byte offset of the blob in the file; 0 if the payload is inline.
        length: Length of the blob in bytes, including its header; 0 if the payload is inline.
        xxh3: XXH3-64 of the payload, 16 hexadecimal digits.
        inline: The payload, if it is small enough to be stored in the directory.
        int96_unit: ``"ns"`` if every value of its INT96 columns fits into 64 bits of nanoseconds, ``"us"`` if
            all values are also whole microseconds; None if they do not fit, or if that is unknown.
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

    @cached_property
    def column_names(self) -> tuple[str, ...]:
        """The dotted paths of the columns."""
        return tuple(".".join(path) for path in self.columns)

    @cached_property
    def parameters_json(self) -> str:
        """The parameters as text, in which true and 1 differ."""
        return json.dumps(dict(self.parameters))

    @property
    def payload_bytes(self) -> int:
        """Length of the payload in bytes."""
        return self.length - BLOB_HEADER_BYTES if self.inline is None else len(self.inline)

    @property
    def identity(self) -> tuple[str, tuple[tuple[str, ...], ...], str | int]:
        """Entries with equal identities are the same index: attaching one replaces the other."""
        return self.kind, self.columns, self.granularity

    def moved(self, offset: int) -> Entry:
        """Return a copy with another offset of the blob."""
        return replace(self, offset=offset)


class FooterHead(NamedTuple):
    """The beginning of a footer with a directory, which contains all fields of the layout fingerprint.

    Attributes:
        length: Its length in bytes, up to the end of the row groups.
        xxh3: XXH3-128 of the bytes, 32 hexadecimal digits.
    """

    length: int
    xxh3: str

    @classmethod
    def of(cls, head: bytes) -> FooterHead:
        """Describe the first bytes of a footer."""
        return cls(len(head), xxhash.xxh3_128_hexdigest(head))

    def is_of(self, footer: bytes) -> bool:
        """Whether a footer begins with the same bytes."""
        return self.of(footer[: self.length]) == self


@dataclass(frozen=True)
class Directory:
    """The embedded indexes of a file.

    Attributes:
        original_length: Length in bytes of the original file.
        fingerprint: `layout_fingerprint` of the original footer, 32 hexadecimal digits.
        region_stop: Byte offset of the end of the added bytes, where the new footer starts.
        computed_statistics: Ordinals of leaves whose writer's statistics are not trusted, and were replaced
            by computed ones in every row group that has rows.
        head: The beginning of the footer that contains the directory; None in files of earlier versions.
    """

    version: int
    original_length: int
    fingerprint: str
    region_stop: int
    entries: tuple[Entry, ...] = ()
    computed_statistics: frozenset[int] = frozenset()
    head: FooterHead | None = None

    def to_json(self) -> bytes:
        """Serialize the document in ASCII; equal directories give equal bytes.

        Raises:
            IndexPayloadError: If it is too large, or a parameter cannot be stored as JSON.
        """
        document = {
            "version": self.version,
            "original_length": self.original_length,
            "fingerprint": self.fingerprint,
            "region_stop": self.region_stop,
            **({"head": self.head._asdict()} if self.head else {}),
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
            **({"computed_statistics": sorted(self.computed_statistics)} if self.computed_statistics else {}),
        }
        try:
            data = json.dumps(document, separators=(",", ":"), allow_nan=False).encode("ascii")
        except (TypeError, ValueError, RecursionError) as error:
            raise IndexPayloadError(
                f"the parameters of an index cannot be stored as JSON: {error}", reason="parameters-not-json"
            ) from error
        if len(data) > MAX_DIRECTORY_BYTES or len(self.entries) > MAX_ENTRIES:
            raise IndexPayloadError(
                f"{len(self.entries)} indexes are too many for one file", reason="directory-too-large"
            )
        return data


def _where(entry: Entry) -> dict[str, Any]:
    if entry.inline is None:
        return {"offset": entry.offset, "length": entry.length}
    return {"payload": base64.b64encode(entry.inline).decode("ascii")}


# --- parsing ---------------------------------------------------------------------------------------


def parse_directory(data: bytes) -> Directory:
    """Parse and check a directory; `belongs` checks that it belongs to its file.

    Raises:
        NewerDirectoryError: If its version is newer than this version of Intarsia.
        IndexPayloadError: If it is damaged.
    """
    if len(data) > MAX_DIRECTORY_BYTES:
        raise IndexPayloadError(
            f"the directory has {len(data)} bytes; the limit is {MAX_DIRECTORY_BYTES}",
            reason="directory-too-large",
        )
    try:
        document = json.loads(data, parse_constant=_no_constant)
    except (ValueError, RecursionError) as error:
        raise IndexPayloadError(
            f"the directory is not a JSON document: {error}", reason="directory-not-json"
        ) from error
    fields = _Fields(document, "the directory")
    version = fields.integer("version", 1)
    if version != DIRECTORY_VERSION:
        raise NewerDirectoryError(
            f"the directory has version {version}, and this version of Intarsia reads version "
            f"{DIRECTORY_VERSION}; upgrade Intarsia",
            reason="newer-directory",
        )
    listed = fields.value("entries", list)
    if len(listed) > MAX_ENTRIES:
        raise IndexPayloadError(
            f"the directory has {len(listed)} entries; the limit is {MAX_ENTRIES}",
            reason="directory-too-large",
        )
    directory = Directory(
        version=version,
        original_length=fields.integer("original_length", 12),
        fingerprint=fields.hexadecimal("fingerprint", 32),
        region_stop=fields.integer("region_stop", 12),
        entries=tuple([_entry(item, f"entry {ordinal}") for ordinal, item in enumerate(listed)]),
        computed_statistics=fields.ordinals("computed_statistics"),
        head=fields.head("head"),
    )
    if directory.region_stop < directory.original_length:
        raise IndexPayloadError(
            "the added bytes end before the original file does", reason="region-before-original-end"
        )
    names = set()
    for entry in directory.entries:
        if entry.name in names:
            raise IndexPayloadError(
                f"two entries of the directory have the name {entry.name!r}", reason="duplicate-entry"
            )
        names.add(entry.name)
        if entry.inline is None and (
            entry.offset < directory.original_length or entry.offset + entry.length > directory.region_stop
        ):
            raise IndexPayloadError(
                f"the blob of {entry.name!r} is outside the added bytes", reason="blob-outside-region"
            )
    return directory


def _entry(item: Any, where: str) -> Entry:
    fields = _Fields(item, where)
    columns = fields.value("columns", list)
    if not all(map(_is_path, columns)):
        raise IndexPayloadError(f"{where}: columns are not all lists of names", reason="invalid-columns")
    granularity = fields.value("granularity", object)
    if not isinstance(granularity, str):
        granularity = fields.integer("granularity", 1)
    inline = fields.base64("payload")
    offset, length = 0, 0
    if inline is None:
        offset, length = fields.integer("offset", 0), fields.integer("length", BLOB_HEADER_BYTES)
        if offset % BLOB_ALIGNMENT_BYTES:
            raise IndexPayloadError(
                f"{where}: offset {offset} is not a multiple of {BLOB_ALIGNMENT_BYTES}",
                reason="misaligned-blob",
            )
    return Entry(
        name=fields.value("name", str),
        kind=fields.value("kind", str),
        kind_version=fields.integer("kind_version", 0),
        columns=tuple(map(tuple, columns)),
        granularity=granularity,
        parameters=fields.value("parameters", dict),
        offset=offset,
        length=length,
        xxh3=fields.hexadecimal("xxh3", 16),
        inline=inline,
        int96_unit=fields.one_of("int96_unit", ("us", "ns")),
    )


def _is_path(item: Any) -> bool:
    return isinstance(item, list) and {*map(type, item)} == {str}


class _Fields:
    """A JSON object with typed access to its fields; other fields are ignored."""

    def __init__(self, document: Any, where: str) -> None:
        if not isinstance(document, dict):
            raise IndexPayloadError(f"{where} is not a JSON object", reason="not-a-json-object")
        self._document = document
        self._where = where

    def value(self, name: str, expected: type[T]) -> T:
        value = self._document.get(name)
        if value is None or not isinstance(value, expected):
            fault = "missing" if value is None else "of the wrong type"
            raise self._invalid(f"{name} is {fault}")
        return value

    def integer(self, name: str, least: int) -> int:
        value = self._document.get(name)
        if type(value) is int and least <= value <= _MAX_INT:
            return value
        raise self._invalid(f"{name} is {self.value(name, int)!r}")

    def one_of(self, name: str, known: tuple[str, ...]) -> str | None:
        """Return one of the known words; None if the field is absent or another word."""
        value = self._document.get(name)
        return value if isinstance(value, str) and value in known else None

    def ordinals(self, name: str) -> frozenset[int]:
        """Return a set of ordinals; empty if the field is absent or contains anything else."""
        value = self._document.get(name)
        if not isinstance(value, list) or not all(type(item) is int for item in value):
            return frozenset()
        return frozenset(value)

    def head(self, name: str) -> FooterHead | None:
        """Return the head of a footer; None if the field is absent or contains anything else."""
        match self._document.get(name):
            case {"length": int(length), "xxh3": str(xxh3)}:
                return FooterHead(length, xxh3)
        return None

    def base64(self, name: str) -> bytes | None:
        """Return bytes; None if the field is absent."""
        if self._document.get(name) is None:
            return None
        try:
            return base64.b64decode(self.value(name, str), validate=True)
        except ValueError as error:
            raise self._invalid(f"{name} is not base64: {error}") from error

    def hexadecimal(self, name: str, digits: int) -> str:
        value = self.value(name, str)
        if len(value) != digits or not _HEXADECIMAL.issuperset(value):
            raise self._invalid(f"{name} does not have {digits} hexadecimal digits")
        return value

    def _invalid(self, fault: str) -> IndexPayloadError:
        return IndexPayloadError(f"{self._where}: {fault}", reason="invalid-field")


def _no_constant(name: str) -> NoReturn:
    raise ValueError(f"{name} is not a JSON number")


# --- whether it belongs to the file ----------------------------------------------------------------


@dataclass(frozen=True)
class FoundDirectory:
    """The directory in a footer, and the reason if it cannot be used.

    Attributes:
        directory: The parsed directory; None if it is damaged or newer.
        fault: None if it can be used; ``"newer"`` and ``"damaged"`` are found by `parse_directory`;
            ``"foreign"`` if it was built from another layout; ``"stale"`` if the layout is the same, but
            the file is another or has changed.
        reason: The fault in words; None if there is none.
    """

    directory: Directory | None
    fault: Literal["newer", "damaged", "foreign", "stale"] | None = None
    reason: str | None = None

    @property
    def code(self) -> str:
        """The fault as a code of `IntarsiaError.reason`."""
        return f"{self.fault}-directory"


def find_directory(footer: Footer) -> FoundDirectory | None:
    """Return the directory in a footer, checked against the footer; None if there is none."""
    raw = footer.key_values.get(KEY)
    if raw is None:
        return None
    try:
        directory = parse_directory(raw)
    except NewerDirectoryError as error:
        return FoundDirectory(None, "newer", str(error))
    except IndexPayloadError as error:
        return FoundDirectory(None, "damaged", str(error))
    reason = belongs(directory, footer)
    if reason is None:
        return FoundDirectory(directory)
    is_foreign = directory.fingerprint != layout_fingerprint(footer.metadata)
    return FoundDirectory(directory, "foreign" if is_foreign else "stale", reason)


def belongs(directory: Directory, footer: Footer) -> str | None:
    """Return the reason why a directory does not belong to the file of a footer; None if it does.

    A directory that another writer copied with the footer keys fails two checks. The layout differs, and
    even if it is the same, the footer does not start where the added bytes end.
    """
    if directory.original_length > footer.start:
        return (
            f"it expects an original file of {directory.original_length} bytes, but this file has only "
            f"{footer.start} bytes before its footer"
        )
    if directory.region_stop != footer.start:
        return (
            f"it expects the footer at byte {directory.region_stop}, but the footer is at byte "
            f"{footer.start}: another writer copied the directory or changed the file"
        )
    if directory.head is not None and directory.head.is_of(footer.raw):
        return None  # so the fingerprint is the same, too, which takes much longer: it is of all chunks
    if directory.fingerprint != layout_fingerprint(footer.metadata):
        return "it was built from a different layout of row groups and chunks"
    return None
