"""Embedded indexes on their way into a file: built anew, or carried over from what is there."""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import dataclass, replace
from typing import Any, TypeAlias

import pyarrow as pa

from intarsia.embed.column_data import FileColumns
from intarsia.embed.original import Original
from intarsia.embed.report import Note
from intarsia.errors import IndexBuildError, IndexPayloadError
from intarsia.file import ParquetInput
from intarsia.format.blob import BLOB_HEADER_BYTES, blob_header, checksum
from intarsia.format.directory import Entry
from intarsia.indexes.base import Granularity, HasFooterKeys, Index, TellsShortfall, parameters
from intarsia.indexes.capabilities import SharesFooterKeys
from intarsia.indexes.embedded import EmbeddedIndexes, find_index
from intarsia.indexes.parameters import check_granularity
from intarsia.predicate.nodes import render_column

#: Kind, columns as they were named, granularity.
Identity: TypeAlias = tuple[str, tuple[str, ...], Granularity]

#: A payload of so many bytes or fewer stands in the directory: whoever opened the file has it already.
INLINE_BYTES = 1024


@dataclass(frozen=True)
class Blob:
    """An index's entry, whose offset is not settled yet, and its payload."""

    entry: Entry
    payload: bytes

    def pieces(self, fingerprint: str) -> tuple[bytes, ...]:
        """The bytes that go into the file, to be laid end to end; none if the payload stands in the entry."""
        if self.entry.inline is not None:
            return ()
        return blob_header(fingerprint, len(self.payload), self.entry.xxh3), self.payload

    def footer_keys(self, offset: int) -> Mapping[bytes, bytes]:
        """What the footer is to say besides the directory, if the blob lies there."""
        if self.entry.inline is not None:
            return {}
        return _footer_keys(find_index(self.entry).index, offset + BLOB_HEADER_BYTES)

    def check_alike(self, key: bytes, file: ParquetInput) -> None:
        """Refuse the index if a file has its footer key, and that does not lead to the same.

        Raises:
            IndexBuildError: With the reason.
        """
        index = find_index(self.entry).index
        reason = "there is room for one in a file"
        if isinstance(index, SharesFooterKeys):
            found = index.difference(self.payload, file)
            if found is None:
                return
            reason = f"what that leads to is not the same: {found}"
        raise IndexBuildError(
            f"{self.entry.name} needs the footer key {key.decode()!r}, which the original file has; {reason}"
        )


def _footer_keys(index: object | None, payload_offset: int) -> Mapping[bytes, bytes]:
    return index.footer_keys(payload_offset) if isinstance(index, HasFooterKeys) else {}


def carried_blobs(original: Original) -> tuple[list[Blob], list[Note]]:
    """What is embedded already, and what of it is damaged and therefore left out."""
    embedded = EmbeddedIndexes(original.current)
    entries = original.directory.entries if original.directory is not None else ()
    found = [_carried(embedded, entry) for entry in entries]
    blobs = [item for item in found if isinstance(item, Blob)]
    return blobs, [item for item in found if isinstance(item, Note)]


def _carried(embedded: EmbeddedIndexes, entry: Entry) -> Blob | Note:
    try:
        return Blob(entry, embedded.read(entry))
    except IndexPayloadError as error:
        reason = f"it was there, but damaged, and is left out: {error}"
        return Note(", ".join(entry.column_names), None, entry.name, reason)


def check_parameters(index: Index) -> Identity:
    """Check what can be told of an index without a file.

    Returns:
        What makes two indexes the same as far as that goes: kind, columns and granularity.

    Raises:
        IndexBuildError: If its parameters cannot stand in a JSON document, or there is no such granularity.
    """
    if hasattr(index, "granularity"):
        check_granularity(index)
    granularity = getattr(index, "granularity", "file")
    names = tuple(index.columns)
    if not all(isinstance(name, str) for name in names):
        raise IndexBuildError(f"{index!r}: name a column by its text, dotted if it is nested")
    _as_stored(index)
    return index.kind, names, granularity


def planned_entry(index: Index, columns: FileColumns) -> Entry:
    """The entry of an index that is to be built; where it lies, its length and its checksum are open.

    Raises:
        IndexBuildError: If it cannot be built on these columns.
        ColumnNotFoundError: If the file has no such column.
    """
    kind, names, granularity = check_parameters(index)
    paths = tuple(columns.leaf(name).path for name in names)
    name = f"{kind}({', '.join(map(_shown, paths))}):{granularity}"
    return Entry(name, kind, index.version, paths, granularity, _as_stored(index), 0, 0, "")


def _shown(path: tuple[str, ...]) -> str:
    """A column, dotted; quoted where a name holds a dot itself."""
    return render_column(path) if any("." in name for name in path) else ".".join(path)


def _as_stored(index: Index) -> dict[str, Any]:
    """Parameters as they come back out of a file, so that they compare with those of an entry there."""
    try:
        plain: dict[str, Any] = json.loads(json.dumps(parameters(index), allow_nan=False))
    except (TypeError, ValueError) as error:
        raise IndexBuildError(f"the parameters of {index!r} have no JSON form: {error}") from error
    return plain


def same_index(planned: Entry, there: Entry) -> bool:
    """Whether what is there is what would be built."""
    return (
        planned.identity == there.identity
        and planned.kind_version == there.kind_version
        and planned.parameters == there.parameters
    )


def shortfall_of(index: Index, blob: Blob, columns: FileColumns) -> Note | None:
    """What to tell of an index that was built, and will hardly be of use."""
    if not isinstance(index, TellsShortfall):
        return None
    reason = index.shortfall(blob.payload, columns.layout)
    return None if reason is None else Note(", ".join(index.columns), None, blob.entry.name, reason)


def build_blob(index: Index, planned: Entry, columns: FileColumns) -> Blob:
    """Build an index.

    Raises:
        IndexBuildError: If these columns cannot have it.
    """
    try:
        payload = index.build(columns)
    except (pa.ArrowException, UnicodeDecodeError) as error:  # such as text that is no UTF-8
        raise IndexBuildError(f"{index!r} cannot be built on these values: {error}") from error
    if not isinstance(payload, bytes):
        raise IndexBuildError(f"{index!r} built {type(payload).__name__}, not bytes")
    inline = payload if len(payload) <= INLINE_BYTES and not _footer_keys(index, 0) else None
    length = 0 if inline is not None else BLOB_HEADER_BYTES + len(payload)
    unit = columns.int96_unit(planned.columns)
    entry = replace(planned, length=length, xxh3=checksum(payload), inline=inline, int96_unit=unit)
    return Blob(entry, payload)
