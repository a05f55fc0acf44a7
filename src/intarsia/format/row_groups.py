"""The row groups of a footer, whose column chunks are parsed on first access.

A footer of 500 row groups and 50 columns has 25,000 chunks, and a lookup needs a few of them. Skipping a
chunk takes a tenth of the time of parsing it.
"""

from __future__ import annotations

import contextlib
from collections import deque
from collections.abc import Callable, Iterator, Sequence
from functools import lru_cache
from itertools import groupby, islice
from operator import attrgetter
from typing import Any, NamedTuple, cast

from intarsia import native
from intarsia.errors import CorruptFileError
from intarsia.format import structs, thrift
from intarsia.format.structs import (
    ColumnChunk,
    FileMetaData,
    OutlineOfChunk,
    RowGroup,
    RowGroupTotals,
    SchemaElement,
)
from intarsia.native import NativeOutlines
from intarsia.records import dataclass

#: Headers of the fields of `FileMetaData` in the order of all known writers: version (i32), schema (a list),
#: number of rows (i64), row groups (a list); and of the first field of `RowGroup`, the list of chunks.
_VERSION, _SCHEMA, _NUM_ROWS, _ROW_GROUPS, _COLUMNS = 0x15, 0x19, 0x16, 0x19, 0x19

_CHUNKS = attrgetter("columns")

_NO_SCHEMA, _NO_ROW_GROUPS = bytes([_SCHEMA, thrift.STRUCT]), bytes([_ROW_GROUPS, thrift.STRUCT])
_NO_ROWS, _UNLIKELY_ROWS = bytes([_NUM_ROWS, *[0xFF] * 9, 1]), -(1 << 63)


@dataclass(frozen=True, eq=False)
class FooterBytes:
    """The bytes of a footer.

    Attributes:
        raw: The bytes, without length and magic.
        start: Their offset in the file.
        check: A function that takes a chunk and the ordinal of its row group, and raises `CorruptFileError`
            if the chunk contradicts the file.
    """

    raw: bytes
    start: int
    check: Callable[[ColumnChunk, int], None]


class LazyChunks(Sequence[ColumnChunk]):
    """The chunks of one row group, in the order of the leaves; each is made on first access."""

    __slots__ = ("_count", "_parsed")
    _count: int
    _parsed: dict[int, ColumnChunk]

    def _parse(self, ordinal: int) -> ColumnChunk:
        """Make a chunk, and keep it."""
        raise NotImplementedError

    def __len__(self) -> int:
        return self._count

    def __getitem__(self, ordinal: Any) -> Any:  # callers see the types of a sequence
        if isinstance(ordinal, slice):
            return [self[position] for position in range(self._count)[ordinal]]
        chunk = self._parsed.get(ordinal)
        return self._parse(range(self._count)[ordinal]) if chunk is None else chunk

    def __iter__(self) -> Iterator[ColumnChunk]:
        return map(self.__getitem__, range(self._count))


class ColumnChunks(LazyChunks):
    """The chunks of one row group, in the bytes of a footer.

    Access to a chunk raises `CorruptFileError` if its bytes are not a chunk, or contradict the file.

    Args:
        row_group: Ordinal of the row group.
        first: Offset of the first chunk in the bytes of the footer.
    """

    __slots__ = ("_edges", "_footer", "_row_group")

    def __init__(self, footer: FooterBytes, row_group: int, first: int, count: int) -> None:
        self._footer = footer
        self._row_group = row_group
        self._count = count
        self._edges = [first]
        self._parsed = {}

    def __iter__(self) -> Iterator[ColumnChunk]:
        if len(self._parsed) < self._count:
            self._parse_all()
        return super().__iter__()

    def _parse_all(self) -> None:
        """Parse all chunks at once, in less time than one by one; nothing if one of them is damaged."""
        with contextlib.suppress(CorruptFileError):  # accessing the damaged chunk raises the error
            chunks, edges = thrift.parse_structs(ColumnChunk, self._footer.raw, self._edges[0], self._count)
            for chunk in chunks:
                self._footer.check(chunk, self._row_group)
            self._edges, self._parsed = edges[:-1], dict(enumerate(chunks))

    def __eq__(self, other: Any) -> bool:
        return list(self) == list(other) if isinstance(other, Sequence) else NotImplemented

    __hash__ = None  # type: ignore[assignment]  # like a list

    def _parse(self, ordinal: int) -> ColumnChunk:
        _find_edges([self], ordinal)
        start = self._edges[ordinal]
        try:
            chunk, _ = thrift.parse(ColumnChunk, self._footer.raw, start)
            self._check_and_keep(ordinal, chunk)
        except CorruptFileError as error:
            error.at(offset=self._footer.start + start)
            raise
        return chunk

    def _check_and_keep(self, ordinal: int, chunk: ColumnChunk) -> None:
        self._footer.check(chunk, self._row_group)
        self._parsed[ordinal] = chunk

    def _keep_edges(self, edges: list[int]) -> None:
        self._edges = edges


def _find_edges(columns: Sequence[ColumnChunks], ordinal: int) -> None:
    """Find the offsets of the chunks up to one in row groups of one footer."""
    short, known, offsets, counts = [], [], [], []
    for one in columns:
        edges = one._edges  # once, because several threads may do this
        if len(edges) <= ordinal:
            short.append(one)
            known.append(edges)
            offsets.append(edges[-1])
            # at least doubled each time, so that sequential access is as fast as finding all at once
            counts.append(min(one._count, max(ordinal + 1, 2 * len(edges))) - len(edges))
    found = thrift.struct_edges(short[0]._footer.raw, offsets, counts) if short else ()
    for one, edges, more in zip(short, known, found, strict=True):
        one._keep_edges([*edges, *more[1:]])


def chunks_of_leaf(groups: Sequence[RowGroup], ordinal: int) -> list[ColumnChunk]:
    """Return the chunks of one leaf in row groups, which are parsed together.

    Raises:
        CorruptFileError: If the bytes of one of them are not a chunk, or contradict the file.
    """
    parse_chunks(groups, ordinal)
    return [group.columns[ordinal] for group in groups]


def parsed_part(groups: Sequence[RowGroup]) -> float:
    """Return which part of the chunks of row groups, which have equally many, has been parsed."""
    # chunks that are not lazy have all been parsed
    num_parsed = sum([len(getattr(one, "_parsed", one)) for one in map(_CHUNKS, groups)])
    return num_parsed / (len(groups) * len(groups[0].columns)) if num_parsed else 0


def parse_chunks(groups: Sequence[RowGroup], ordinal: int) -> None:
    """Parse the chunks of one leaf in row groups of any footers; accessing a damaged one raises the error."""
    columns = [group.columns for group in groups]
    unknown = [one for one in columns if isinstance(one, ColumnChunks) and ordinal not in one._parsed]
    if not unknown:
        return
    found = native.attempt(lambda extension: extension.chunks(_places(unknown), ordinal, structs))
    if found is not None:
        _keep_chunks(unknown, ordinal, found)
        return
    for _, same in groupby(unknown, _footer_of):
        of_footer = list(same)
        with contextlib.suppress(CorruptFileError):
            _find_edges(of_footer, ordinal)
            offsets = [one._edges[ordinal] for one in of_footer]
            raw = of_footer[0]._footer.raw
            _keep_chunks(of_footer, ordinal, thrift.parse_structs_at(ColumnChunk, raw, offsets))


def _places(columns: Sequence[ColumnChunks]) -> list[tuple[bytes, int, int]]:
    """Return for each row group the bytes of its footer, and the offset and the number of its chunks."""
    return [(one._footer.raw, one._edges[0], one._count) for one in columns]


def _keep_chunks(columns: Sequence[ColumnChunks], ordinal: int, chunks: Sequence[ColumnChunk]) -> None:
    with contextlib.suppress(CorruptFileError):  # access parses the damaged chunk and those after it
        for one, chunk in zip(columns, chunks, strict=True):
            one._check_and_keep(ordinal, chunk)


def native_outlines(groups: Sequence[RowGroup], ordinals: Sequence[int]) -> NativeOutlines | None:
    """Return the offsets and counts of chunks from the native extension; None if it has not parsed them."""

    def outlines(extension: native.Native) -> NativeOutlines | None:
        columns = [group.columns for group in groups if isinstance(group.columns, ColumnChunks)]
        return extension.outlines(_places(columns), ordinals) if len(columns) == len(groups) else None

    return native.attempt(outlines)


def outlines_of_chunks(
    groups: Sequence[RowGroup], ordinals: Sequence[int]
) -> list[Sequence[OutlineOfChunk | ColumnChunk]]:
    """Return the offsets and counts of chunks, given by ordinal, for each of the row groups.

    Chunks that have been parsed are not parsed again, and those of one footer are parsed together.
    """
    found: list[Sequence[OutlineOfChunk | ColumnChunk]] = []
    wanted, last = {*ordinals}, max(ordinals, default=0)
    for footer, same in groupby([group.columns for group in groups], _footer_of):
        columns = cast("list[ColumnChunks]", list(same))
        if footer is None or all(one._parsed.keys() >= wanted for one in columns):
            found += [[one[ordinal] for ordinal in ordinals] for one in columns]
            continue
        try:
            if len(ordinals) > last // 2 and all(len(one._edges) == 1 for one in columns):
                for one in columns:  # parsing the chunks sequentially also finds their offsets
                    chunks, edges = thrift.parse_structs(OutlineOfChunk, footer.raw, one._edges[0], last + 1)
                    one._keep_edges(edges[:-1])
                    found.append([chunks[ordinal] for ordinal in ordinals])
                continue
            _find_edges(columns, last)
            offsets = [one._edges[ordinal] for one in columns for ordinal in ordinals]
            parsed = iter(thrift.parse_structs_at(OutlineOfChunk, footer.raw, offsets))
        except CorruptFileError as error:
            error.at(offset=footer.start + (error.offset or 0))
            raise
        found += [list(islice(parsed, len(ordinals))) for _ in columns]
    return found


def _footer_of(columns: Sequence[ColumnChunk]) -> FooterBytes | None:
    return columns._footer if isinstance(columns, ColumnChunks) else None


def parse_file_metadata(footer: FooterBytes) -> FileMetaData:
    """Parse a footer, whose column chunks are parsed on first access.

    Raises:
        CorruptFileError: If the bytes are not a footer.
    """
    with contextlib.suppress(CorruptFileError):  # the general codec refuses the footer, or parses it
        found = _parse_lazily(footer)
        if found is not None:
            return found
    metadata, _ = thrift.parse(FileMetaData, footer.raw)
    for ordinal, group in enumerate(metadata.row_groups):
        for chunk in group.columns:
            footer.check(chunk, ordinal)
    return metadata


def _parse_lazily(footer: FooterBytes) -> FileMetaData | None:
    """Parse a footer whose fields are in the order of their ids, as all known writers write them.

    Returns:
        The footer; None if the fields have another order, so that the general codec has to parse it.
    """
    raw = footer.raw
    reader = thrift.Reader(raw, 0)
    seen = next(filter(lambda one: raw.startswith(one.beginning), tuple(_SEEN)), None) or _parse_schema(raw)
    if seen is None:
        return None
    reader.position = len(seen.beginning)
    if reader.take(1)[0] != _NUM_ROWS:
        return None
    num_rows = reader.zigzag()
    num_groups = _list_length(reader, _ROW_GROUPS)
    groups = None if num_groups is None else _parse_row_groups(footer, reader, num_groups)
    if groups is None:
        return None
    tail = raw[reader.position :]
    parse_rest = _parse_rest if len(tail) <= _MAX_SEEN_TAIL else _parse_rest.__wrapped__
    rest = parse_rest(raw[: seen.start], tail)
    return rest and rest._replace(schema=seen.elements, num_rows=num_rows, row_groups=groups)


@lru_cache(maxsize=16)
def _parse_rest(beginning: bytes, tail: bytes) -> FileMetaData | None:
    """Parse the fields of a footer before its schema and after its row groups, which many files share.

    Returns:
        The footer without rows; None if it has a field twice, so that the general codec has to parse it.
    """
    # an unlikely number of rows takes the place of the number that is there
    metadata, _ = thrift.parse(FileMetaData, beginning + _NO_SCHEMA + _NO_ROWS + _NO_ROW_GROUPS + tail)
    is_as_given = (metadata.schema, metadata.num_rows, metadata.row_groups) == ([], _UNLIKELY_ROWS, [])
    return metadata if is_as_given else None


class _SeenSchema(NamedTuple):
    """The beginning of a footer up to the end of its schema, the offset of the schema, and the schema."""

    beginning: bytes
    start: int
    elements: list[SchemaElement]


def _parse_schema(raw: bytes) -> _SeenSchema | None:
    """Parse the schema of a footer, and keep it for others; None if the footer begins with other fields."""
    reader = thrift.Reader(raw, 0)
    if reader.take(1)[0] != _VERSION:
        return None
    reader.varint()
    start = reader.position
    count = _list_length(reader, _SCHEMA)
    if count is None:
        return None
    elements, edges = thrift.parse_structs(SchemaElement, raw, reader.position, count)
    found = _SeenSchema(raw[: edges[-1]], start, elements)
    if len(found.beginning) <= _MAX_SEEN_BYTES:
        _SEEN.appendleft(found)
    return found


#: The schemas of the last footers, the last one first: the files of a lake have few.
_SEEN: deque[_SeenSchema] = deque(maxlen=16)

#: Larger schemas are not kept, and neither are larger ends of footers.
_MAX_SEEN_BYTES, _MAX_SEEN_TAIL = 1 << 20, 1 << 16


def _list_length(reader: thrift.Reader, header: int) -> int | None:
    """Read the header of a list of structs, and return its length; None if the next field is another one."""
    if reader.take(1)[0] != header:
        return None
    head = reader.list_head()
    return head.length if head.element_type == thrift.STRUCT else None


def _parse_row_groups(footer: FooterBytes, reader: thrift.Reader, count: int) -> list[RowGroup] | None:
    """Parse the next ``count`` row groups; None if one of them does not begin with its chunks."""
    raw = footer.raw
    totals, edges = thrift.parse_structs(RowGroupTotals, raw, reader.position, count)
    groups: list[RowGroup] = []
    head, num_chunks = b"", 0
    for ordinal, (of_group, start) in enumerate(zip(totals, edges, strict=False)):
        # row groups of one schema begin with the same bytes, the header of the list of chunks
        if not head or not raw.startswith(head, start):
            reader.position = start
            length = _list_length(reader, _COLUMNS)
            if length is None:
                return None
            head, num_chunks = raw[start : reader.position], length
        groups.append(RowGroup(ColumnChunks(footer, ordinal, start + len(head), num_chunks), *of_group))
    reader.position = edges[-1]
    return groups
