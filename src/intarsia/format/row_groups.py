"""The row groups of a footer, of which a column chunk is parsed when it is first looked at.

A footer of 500 row groups and 50 columns has 25,000 chunks, and a lookup needs a few of them.  Passing over a
chunk costs a tenth of parsing it.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from typing import Any, overload

from intarsia.errors import CorruptFileError
from intarsia.format import thrift
from intarsia.format.structs import ColumnChunk, FileMetaData, RowGroup, RowGroupTotals

#: Headers of the fields of `FileMetaData` as all writers write them: version (i32), schema (a list), number
#: of rows (i64), row groups (a list); and of the first field of `RowGroup`, the list of chunks.
_VERSION, _SCHEMA, _NUM_ROWS, _ROW_GROUPS, _COLUMNS = 0x15, 0x19, 0x16, 0x19, 0x19

_EMPTY_LIST_OF_STRUCTS = bytes([thrift.STRUCT])


@dataclass(frozen=True)
class FooterBytes:
    """The bytes of a footer, and where they are from.

    Attributes:
        raw: The bytes, without length and magic.
        start: Where they begin in the file.
        check: Raises `CorruptFileError` if a chunk of a row group, given by its ordinal, cannot be.
    """

    raw: bytes
    start: int
    check: Callable[[ColumnChunk, int], None]


class ColumnChunks(Sequence[ColumnChunk]):
    """The chunks of one row group, in the order of the leaves.

    Args:
        footer: The footer.
        row_group: Ordinal of the row group.
        first: Where in the footer's bytes the first chunk starts.
        count: How many chunks there are.

    Looking at a chunk raises `CorruptFileError` if it is none, or contradicts the file.
    """

    __slots__ = ("_count", "_first", "_footer", "_parsed", "_row_group", "_starts")

    def __init__(self, footer: FooterBytes, row_group: int, first: int, count: int) -> None:
        self._footer = footer
        self._row_group = row_group
        self._first = first
        self._count = count
        self._starts: list[int] | None = None
        self._parsed: dict[int, ColumnChunk] = {}

    def __len__(self) -> int:
        return self._count

    @overload
    def __getitem__(self, ordinal: int) -> ColumnChunk: ...

    @overload
    def __getitem__(self, ordinal: slice) -> list[ColumnChunk]: ...

    def __getitem__(self, ordinal: int | slice) -> ColumnChunk | list[ColumnChunk]:
        if isinstance(ordinal, slice):
            return [self[place] for place in range(self._count)[ordinal]]
        chunk = self._parsed.get(ordinal)
        return self._parse(range(self._count)[ordinal]) if chunk is None else chunk

    def __iter__(self) -> Iterator[ColumnChunk]:
        return map(self.__getitem__, range(self._count))

    def __eq__(self, other: Any) -> bool:
        return list(self) == list(other) if isinstance(other, Sequence) else NotImplemented

    __hash__ = None  # type: ignore[assignment]  # as of any list

    def _parse(self, ordinal: int) -> ColumnChunk:
        raw, footer_start = self._footer.raw, self._footer.start
        if self._starts is None:
            self._starts = thrift.struct_edges(raw, self._first, self._count)
        try:
            chunk, _ = thrift.parse(ColumnChunk, raw, self._starts[ordinal])
            self._footer.check(chunk, self._row_group)
        except CorruptFileError as error:
            error.offset = footer_start + self._starts[ordinal]
            raise
        self._parsed[ordinal] = chunk
        return chunk


def parse_file_metadata(footer: FooterBytes) -> FileMetaData:
    """Parse a footer; its column chunks are parsed when they are looked at.

    Raises:
        CorruptFileError: If the bytes are not a footer.
    """
    found = _parse_lazily(footer)
    if found is not None:
        return found
    metadata, _ = thrift.parse(FileMetaData, footer.raw)
    for ordinal, group in enumerate(metadata.row_groups):
        for chunk in group.columns:
            footer.check(chunk, ordinal)
    return metadata


def _parse_lazily(footer: FooterBytes) -> FileMetaData | None:
    """The footer, if its fields are in the order of their ids, as all writers have them; else None.

    Then, and if it is damaged, the general codec has to say whether this is a footer.
    """
    raw = footer.raw
    try:
        place = _row_groups_place(raw)
        if place is None:
            return None
        list_start, position, count = place
        groups = []
        for ordinal in range(count):
            found = _parse_row_group(footer, ordinal, position)
            if found is None:
                return None
            group, position = found
            groups.append(group)
        # the footer without its row groups; an empty list of them stands for those that were parsed
        rest = raw[:list_start] + _EMPTY_LIST_OF_STRUCTS + raw[position:]
        metadata, _ = thrift.parse(FileMetaData, rest)
    except CorruptFileError:
        return None
    return None if metadata.row_groups else metadata._replace(row_groups=groups)


def _row_groups_place(raw: bytes) -> tuple[int, int, int] | None:
    """Where the list of row groups starts, where the first of them starts, and how many there are."""
    reader = thrift.Reader(raw, 0)
    if reader.take(1)[0] != _VERSION:
        return None
    reader.varint()
    if reader.take(1)[0] != _SCHEMA:
        return None
    elements = reader.list_head()
    if elements.element_type != thrift.STRUCT:
        return None
    reader.position = thrift.struct_edges(raw, reader.position, elements.length)[-1]
    if reader.take(1)[0] != _NUM_ROWS:
        return None
    reader.varint()
    if reader.take(1)[0] != _ROW_GROUPS:
        return None
    list_start = reader.position
    groups = reader.list_head()
    return (list_start, reader.position, groups.length) if groups.element_type == thrift.STRUCT else None


def _parse_row_group(footer: FooterBytes, ordinal: int, start: int) -> tuple[RowGroup, int] | None:
    """A row group and where it ends; None if it does not begin with its chunks."""
    totals, stop = thrift.parse(RowGroupTotals, footer.raw, start)
    reader = thrift.Reader(footer.raw, start)
    if reader.take(1)[0] != _COLUMNS:
        return None
    chunks = reader.list_head()
    if chunks.element_type != thrift.STRUCT:
        return None
    return RowGroup(ColumnChunks(footer, ordinal, reader.position, chunks.length), *totals), stop
