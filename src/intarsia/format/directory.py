"""The directory of embedded indexes, and what ties it to the bytes of one file.

The footer key ``intarsia`` holds a JSON document (`Directory`), which says where each index's blob lies,
and which layout it was built from.  Other writers copy footer keys into files of their own, so nothing here
is used before `belongs` has found no objection (contract C2); `find_directory` sees to that.  The bytes are
specified in ``docs/format.md``.
"""

from __future__ import annotations

import base64
import json
from collections.abc import Mapping
from dataclasses import dataclass, replace
from typing import Any, Literal, NoReturn, TypeVar

from intarsia.errors import IndexPayloadError, NewerDirectoryError
from intarsia.format.blob import BLOB_ALIGNMENT_BYTES, BLOB_HEADER_BYTES
from intarsia.format.fingerprint import layout_fingerprint
from intarsia.format.footer import Footer

T = TypeVar("T")

#: The footer key under which the directory lies.
KEY = b"intarsia"

DIRECTORY_VERSION = 1

#: A directory is a few hundred bytes an entry; more than this is no directory.
MAX_DIRECTORY_BYTES = 1 << 24
MAX_ENTRIES = 10_000

_MAX_INT = (1 << 63) - 1


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


@dataclass(frozen=True)
class FoundDirectory:
    """The directory that a footer holds, and what keeps it from being used.

    Attributes:
        directory: What could be parsed; None if it is damaged or newer.
        fault: None if it may be used; ``"newer"`` and ``"damaged"`` as `parse_directory` finds it;
            ``"foreign"`` if it was built from another layout, ``"stale"`` if the layout is the same, but
            the file is another, or was changed.
        reason: What is wrong, in words; None if nothing is.
    """

    directory: Directory | None
    fault: Literal["newer", "damaged", "foreign", "stale"] | None = None
    reason: str | None = None


def find_directory(footer: Footer) -> FoundDirectory | None:
    """The directory in a footer, checked to be about the footer's file; None if there is none."""
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
    """Why a directory is not about the file whose footer holds it; None if it is.

    A directory that another writer copied along with the keys fails twice: the layout is another, and even
    where a table of the same shape was written, its footer does not start where the added bytes end.
    """
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
