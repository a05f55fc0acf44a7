"""Embedded indexes on their way into a file: built anew, or carried over from what is there."""

from __future__ import annotations

import json
from dataclasses import dataclass
from typing import Any

from intarsia.errors import IndexBuildError, IndexPayloadError
from intarsia.indexes.base import Index, parameters
from intarsia.indexes.directory import BLOB_HEADER_BYTES, Entry, checksum, frame, unframe
from intarsia.retrofit.column_data import FileColumns
from intarsia.retrofit.original import Original
from intarsia.retrofit.page_index import Skipped


@dataclass(frozen=True)
class Blob:
    """An index's entry, whose offset is not settled yet, and its payload."""

    entry: Entry
    payload: bytes

    def framed(self, fingerprint: str) -> bytes:
        """The bytes that go into the file."""
        return frame(self.payload, fingerprint)


def carried_blobs(original: Original) -> tuple[list[Blob], list[Skipped]]:
    """What is embedded already, and what of it is damaged and therefore left out."""
    blobs, damaged = [], []
    directory = original.directory
    for entry in directory.entries if directory else ():
        assert directory is not None
        blob = original.current.source.read(entry.offset, entry.offset + entry.length)
        try:
            blobs.append(Blob(entry, unframe(blob, directory.fingerprint, entry)))
        except IndexPayloadError as error:
            columns = ", ".join(entry.columns)
            damaged.append(
                Skipped(columns, None, entry.name, f"it was there, but damaged, and is left out: {error}")
            )
    return blobs, damaged


def planned_entry(index: Index) -> Entry:
    """The entry of an index that is to be built; offset, length and checksum are open.

    Raises:
        IndexBuildError: If its parameters cannot stand in a JSON document, or there is no such granularity.
    """
    granularity = getattr(index, "granularity", "file")
    if granularity not in ("file", "row_group", "page") and (
        not isinstance(granularity, int) or isinstance(granularity, bool) or granularity < 1
    ):
        raise IndexBuildError(
            f"{index!r}: granularity is {granularity!r}; use 'file', 'row_group', 'page' or a number of rows"
        )
    try:
        # as they come back out of the file, so that they can be compared with those of an entry there
        plain: dict[str, Any] = json.loads(json.dumps(parameters(index), allow_nan=False))
    except (TypeError, ValueError) as error:
        raise IndexBuildError(f"the parameters of {index!r} have no JSON form: {error}") from error
    columns = tuple(index.columns)
    name = f"{index.kind}({', '.join(columns)}):{granularity}"
    return Entry(name, index.kind, index.version, columns, granularity, plain, 0, 0, "")


def same_index(planned: Entry, there: Entry) -> bool:
    """Whether what is there is what would be built."""
    return (
        planned.identity == there.identity
        and planned.kind_version == there.kind_version
        and planned.parameters == there.parameters
    )


def build_blob(index: Index, planned: Entry, columns: FileColumns) -> Blob:
    """Build an index.

    Raises:
        IndexBuildError: If these columns cannot have it.
        ColumnNotFoundError: If the file has no such column.
    """
    for column in planned.columns:
        columns.leaf(column)
    payload = index.build(columns)
    if not isinstance(payload, bytes):
        raise IndexBuildError(f"{index!r} built {type(payload).__name__}, not bytes")
    settled = Entry(
        planned.name,
        planned.kind,
        planned.kind_version,
        planned.columns,
        planned.granularity,
        planned.parameters,
        0,
        BLOB_HEADER_BYTES + len(payload),
        checksum(payload),
    )
    return Blob(settled, payload)
