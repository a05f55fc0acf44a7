"""The embedded indexes to write into a file: built from its columns, or carried over from the old file."""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import dataclass, replace
from typing import Any

import pyarrow as pa

from intarsia.embed.column_data import FileColumns
from intarsia.embed.original import Original
from intarsia.embed.report import Note
from intarsia.errors import IndexBuildError, IndexPayloadError
from intarsia.file import ParquetInput
from intarsia.format.blob import BLOB_HEADER_BYTES, blob_header, checksum
from intarsia.format.directory import Entry
from intarsia.indexes.base import Index
from intarsia.indexes.embedded import EmbeddedIndexes
from intarsia.indexes.layout import Granularity
from intarsia.indexes.parameters import check_granularity, parameters
from intarsia.indexes.registry import find_index
from intarsia.predicate.nodes import render_column

#: Payloads up to this size are stored in the directory, which readers of the footer have already read.
INLINE_BYTES = 1024


@dataclass(frozen=True)
class Blob:
    """The entry of an index, whose offset is not yet set, and its payload."""

    entry: Entry
    payload: bytes

    @property
    def num_bytes(self) -> int:
        """Its size in the file, without its part of the directory unless the payload is inline."""
        return len(self.payload) if self.entry.inline is not None else self.entry.length

    def pieces(self, fingerprint: str) -> tuple[bytes, ...]:
        """Return the consecutive bytes to write into the file; empty if the payload is inline."""
        if self.entry.inline is not None:
            return ()
        return blob_header(fingerprint, len(self.payload), self.entry.xxh3), self.payload

    def footer_keys(self, offset: int) -> Mapping[bytes, bytes]:
        """Return the footer keys that the index needs besides the directory, for a blob at ``offset``."""
        if self.entry.inline is not None:
            return {}
        index = find_index(self.entry).index
        return {} if index is None else index.footer_keys(offset + BLOB_HEADER_BYTES)

    def check_same_payload(self, key: bytes, file: ParquetInput) -> None:
        """Check that a footer key of the original file points to the same payload.

        Raises:
            IndexBuildError: If it does not.
        """
        index = find_index(self.entry).index
        detail = "a file can contain only one"
        found = "" if index is None else index.difference(self.payload, file)
        if found is None:
            return
        if found:
            detail = f"its value points to a different index: {found}"
        raise IndexBuildError(
            f"{self.entry.name} needs the footer key {key.decode()!r}, which the original file has; {detail}",
            reason="footer-key-taken",
            path=file.path,
        )


def carried_blobs(original: Original, *, footer_only: bool = False) -> tuple[list[Blob], list[Note]]:
    """Return the indexes that are already embedded, and notes on damaged ones, which are dropped.

    With ``footer_only``, payloads are neither read nor checked.
    """
    embedded = EmbeddedIndexes(original.current)
    blobs, notes = [], []
    for entry in original.directory.entries if original.directory is not None else ():
        try:
            blobs.append(Blob(entry, b"" if footer_only else embedded.read(entry)))
        except IndexPayloadError as error:  # noqa: PERF203 - each entry has its own note
            columns, code = ", ".join(entry.column_names), error.reason or "damaged-payload"
            reason = f"the attached index is damaged and was dropped: {error}"
            notes.append(Note(columns, None, entry.name, reason, code))
    return blobs, notes


def check_parameters(index: Index) -> tuple[str, tuple[str, ...], Granularity]:
    """Check the parameters of an index, as far as that needs no file.

    Returns:
        Kind, columns as the user named them, and granularity, which identify the index.

    Raises:
        IndexBuildError: If its parameters have no JSON form, or its granularity is unknown.
    """
    if hasattr(index, "granularity"):
        check_granularity(index)
    granularity = getattr(index, "granularity", "file")
    names = tuple(index.columns)
    if not all(isinstance(name, str) for name in names):
        raise IndexBuildError(
            f"{index!r} has a column name that is not a string; pass a dotted name for a nested column",
            reason="invalid-column-name",
        )
    _as_stored(index)
    return index.kind, names, granularity


def planned_entry(index: Index, columns: FileColumns) -> Entry:
    """Return the entry of an index before it is built: without its offset, length and checksum.

    Raises:
        IndexBuildError: If the index cannot be built on these columns.
        ColumnNotFoundError: If the file has no such column.
    """
    kind, names, granularity = check_parameters(index)
    paths = tuple(columns.leaf(name).path for name in names)
    # names are quoted if one of them contains a dot
    shown = [render_column(path) if "." in "".join(path) else ".".join(path) for path in paths]
    name = f"{kind}({', '.join(shown)}):{granularity}"
    return Entry(name, kind, index.version, paths, granularity, _as_stored(index), 0, 0, "")


def _as_stored(index: Index) -> dict[str, Any]:
    """Return the parameters in their JSON form, so that they compare equal to those of a stored entry."""
    try:
        plain: dict[str, Any] = json.loads(json.dumps(parameters(index), allow_nan=False))
    except (TypeError, ValueError) as error:
        raise IndexBuildError(
            f"the parameters of {index!r} have no JSON form: {error}; use strings, numbers, booleans, None, "
            "and lists of these",
            reason="invalid-parameters",
        ) from error
    return plain


def same_index(planned: Entry, there: Entry) -> bool:
    """Return whether the stored index equals the planned one."""
    return (
        planned.identity == there.identity
        and planned.kind_version == there.kind_version
        and planned.parameters == there.parameters
    )


def shortfall_of(index: Index, blob: Blob, columns: FileColumns) -> Note | None:
    """Return a note about an index that was built but is unlikely to exclude rows."""
    reason = index.shortfall(blob.payload, columns.layout)
    if reason is None:
        return None
    return Note(", ".join(index.columns), None, blob.entry.name, reason, "not-selective")


def build_blob(index: Index, planned: Entry, columns: FileColumns, payload: bytes | None = None) -> Blob:
    """Build an index, unless its payload is passed.

    Raises:
        IndexBuildError: If the index cannot be built on these columns.
    """
    try:
        payload = index.build(columns) if payload is None else payload
    except (pa.ArrowException, UnicodeDecodeError) as error:  # for example strings that are not UTF-8
        raise IndexBuildError(
            f"{index!r} cannot be built on these values: {error}", reason="invalid-values"
        ) from error
    if not isinstance(payload, bytes):
        raise IndexBuildError(
            f"{index!r} built {type(payload).__name__}; build() must return bytes", reason="invalid-payload"
        )
    inline = payload if len(payload) <= INLINE_BYTES and not index.footer_keys(0) else None
    length = 0 if inline is not None else BLOB_HEADER_BYTES + len(payload)
    unit = columns.int96_unit(planned.columns)
    entry = replace(planned, length=length, xxh3=checksum(payload), inline=inline, int96_unit=unit)
    return Blob(entry, payload)
