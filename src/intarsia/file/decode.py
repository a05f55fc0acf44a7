"""Pages into Arrow, by pyarrow.

Chosen pages are wrapped under a small synthetic footer and read as if they were a file: every encoding
and codec that pyarrow knows, at its speed.  Leaves whose pages cover the same rows are decoded in one
go; leaves of one nested column that cover different rows are decoded apart, cut to the wanted rows, and
joined.
"""

from __future__ import annotations

import base64
from collections import defaultdict
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq

from intarsia.arrow.joining import join_columns
from intarsia.errors import CorruptFileError, FormatError, UnsupportedFeatureError
from intarsia.file import ParquetInput
from intarsia.file.chunk_plan import ChunkPlan
from intarsia.format import thrift
from intarsia.format.footer import MAGIC, Leaf, chunk_range
from intarsia.format.page_header import Page, parse_page
from intarsia.format.structs import (
    ColumnChunk,
    ColumnMetaData,
    CompressionCodec,
    FileMetaData,
    KeyValue,
    PageType,
    RowGroup,
    SchemaElement,
)
from intarsia.rows.selection import RowSelection

#: Up to so many ranges, slices are joined; above it, a mask picks the rows.
_FEW_RANGES = 8

#: From so many bytes on, the columns of a group are decoded side by side.
_MANY_BYTES = 1 << 20


class PageIndexMismatchError(Exception):
    """The pages do not hold the rows that the OffsetIndex says; the row group is to be read without it."""


@dataclass(frozen=True)
class FetchedPages:
    """The bytes of a plan.

    Attributes:
        plan: What was planned.
        data: Its data pages, end to end; for a whole chunk all of its bytes.
        dictionary: The dictionary page, if a page needs it; empty otherwise.
    """

    plan: ChunkPlan
    data: bytes
    dictionary: bytes = b""


def parse_pages(plan: ChunkPlan, data: bytes) -> list[Page]:
    """The headers of the data pages of a plan, which must be where the OffsetIndex has them.

    Raises:
        PageIndexMismatchError: If they are not.
    """
    pages = []
    ends = [*plan.page_starts[1:], len(data)]
    for start, end in zip(plan.page_starts, ends, strict=True):
        try:
            page = parse_page(data, start)
        except FormatError as error:
            raise PageIndexMismatchError(
                f"no page of {plan.leaf.name!r} where one should be: {error}"
            ) from error
        if not page.is_data:
            raise PageIndexMismatchError(f"a page of {plan.leaf.name!r} is no data page")
        if page.stop != end:
            raise PageIndexMismatchError(
                f"a page of {plan.leaf.name!r} has {page.stop - start} bytes, not {end - start}"
            )
        pages.append(page)
    return pages


def pages_use_dictionary(plan: ChunkPlan, data: bytes) -> bool:
    """Whether any of the pages read needs the dictionary page, by their headers."""
    return any(page.uses_dictionary for page in parse_pages(plan, data))


class PageDecoder:
    """Decodes pages of one file.

    Args:
        file: The file; its schema says how.
    """

    def __init__(self, file: ParquetInput) -> None:
        self._file = file
        self._schemas: dict[tuple[int, ...], _SubSchema] = {}

    def decode(self, chunks: Sequence[FetchedPages], rows: RowSelection) -> dict[int, pa.ChunkedArray]:
        """The wanted rows of some top-level fields, each reduced to the leaves that are given.

        Args:
            chunks: Pages of leaves; all leaves that are wanted of a field are given.
            rows: The rows wanted, relative to the row group; every chunk covers them.

        Returns:
            For each top-level field (by ordinal) its values, ``rows.num_rows`` of them.

        Raises:
            PageIndexMismatchError: If pages hold other rows than the OffsetIndex says.
            CorruptFileError: If pyarrow cannot decode the pages.
        """
        together: dict[Any, list[FetchedPages]] = defaultdict(list)
        for chunk in chunks:
            # a page index of nested V1 pages is only proven by counting the rows that come out
            together[chunk.plan.covered, chunk.plan.whole].append(chunk)
        pieces: dict[int, list[pa.ChunkedArray]] = defaultdict(list)
        for (covered, _), group in together.items():
            table = self._decode_group(group, covered.num_rows)
            for root, column in zip(self._schema_of(group).roots, table.columns, strict=True):
                pieces[root].append(take_rows(column, covered, rows))
        return {
            root: found[0] if len(found) == 1 else join_columns(found, self._join_type(root, chunks))
            for root, found in pieces.items()
        }

    def _schema_of(self, group: Sequence[FetchedPages]) -> _SubSchema:
        roots = tuple(sorted({chunk.plan.leaf.root_ordinal for chunk in group}))
        if roots not in self._schemas:
            self._schemas[roots] = _SubSchema(self._file, roots)
        return self._schemas[roots]

    def _join_type(self, root: int, chunks: Sequence[FetchedPages]) -> pa.DataType:
        """The type of a field reduced to some leaves, as pyarrow itself would reduce it."""
        schema = self._schemas.get((root,)) or _SubSchema(self._file, (root,))
        given = {chunk.plan.leaf.ordinal for chunk in chunks}
        return schema.reduced_type([leaf for leaf in schema.leaves if leaf.ordinal in given])

    def _decode_group(self, group: Sequence[FetchedPages], num_rows: int) -> pa.Table:
        schema = self._schema_of(group)
        by_ordinal = {chunk.plan.leaf.ordinal: chunk for chunk in group}
        parts: list[bytes] = [MAGIC]
        position = len(MAGIC)
        columns: list[ColumnChunk] = []
        wanted: list[int] = []
        claimed = num_rows
        for place, leaf in enumerate(schema.leaves):
            chunk = by_ordinal.get(leaf.ordinal)
            if chunk is None:
                columns.append(_absent(leaf))
                continue
            wanted.append(place)
            values = self._check_rows(chunk)
            if not leaf.is_flat:  # claim more rows than there can be, so that all that come are counted
                claimed = max(claimed, values)
            start = position
            parts += [chunk.dictionary, chunk.data]
            position += len(chunk.dictionary) + len(chunk.data)
            columns.append(ColumnChunk(start, meta_data=_moved(chunk, start, position - start, values)))
        footer = thrift.serialize(
            FileMetaData(
                2, schema.elements, claimed, [RowGroup(columns, position, claimed)], schema.key_values
            )
        )
        parts += [footer, len(footer).to_bytes(4, "little"), MAGIC]
        names = ", ".join(repr(schema.leaves[place].name) for place in wanted)
        try:
            file = pq.ParquetFile(pa.BufferReader(b"".join(parts)), pre_buffer=False)
            table = file.reader.read_all(column_indices=wanted, use_threads=position > _MANY_BYTES)
            for column in table.columns:
                for encoded in _dictionary_columns(column):
                    check_positions(encoded)
        except pa.ArrowNotImplementedError as error:
            raise UnsupportedFeatureError(
                f"pyarrow cannot decode {names}: {error}", path=self._file.path, struct="DataPage"
            ) from error
        except (pa.ArrowException, OSError, ValueError) as error:
            if len(group) > 1:  # once more, one by one: that names the column
                for chunk in group:
                    self._decode_group([chunk], num_rows)
            if "Not yet implemented" in str(error):
                raise UnsupportedFeatureError(
                    f"pyarrow cannot decode {names}: {error}", path=self._file.path, struct="DataPage"
                ) from error
            if not all(chunk.plan.whole for chunk in group):  # the pages or their index are damaged
                raise PageIndexMismatchError(f"the pages of {names} cannot be decoded: {error}") from error
            raise CorruptFileError(
                f"the pages of {names} cannot be decoded: {error}",
                path=self._file.path,
                offset=group[0].plan.pages[0].start if group[0].plan.pages else None,
                struct="DataPage",
            ) from error
        if table.num_rows != num_rows:
            contradiction = f"{names} gave {table.num_rows} rows, not {num_rows}"
            if all(chunk.plan.whole for chunk in group):
                raise CorruptFileError(contradiction, path=self._file.path, struct="DataPage")
            raise PageIndexMismatchError(contradiction)
        return table

    def _check_rows(self, chunk: FetchedPages) -> int:
        """Values in the pages, after checking each page's rows where its header tells them."""
        plan = chunk.plan
        if plan.whole:
            return plan.meta.num_values
        if chunk.dictionary:
            _check_dictionary(plan, chunk.dictionary)
        values = 0
        for page, rows in zip(parse_pages(plan, chunk.data), plan.page_rows, strict=True):
            held = page.num_values if plan.leaf.is_flat else None
            if page.header.type == PageType.DATA_PAGE_V2 and page.header.data_page_header_v2 is not None:
                held = page.header.data_page_header_v2.num_rows
            if held is not None and held != rows:
                raise PageIndexMismatchError(f"a page of {plan.leaf.name!r} holds {held} rows, not {rows}")
            values += page.num_values
        return values


def _check_dictionary(plan: ChunkPlan, data: bytes) -> None:
    """What lies before the first data page must be one dictionary page, or a data page is missing."""
    try:
        page = parse_page(data)
    except FormatError as error:
        raise PageIndexMismatchError(
            f"no dictionary page of {plan.leaf.name!r} before its data pages: {error}"
        ) from error
    if page.header.type != PageType.DICTIONARY_PAGE or page.stop != len(data):
        raise PageIndexMismatchError(
            f"more than a dictionary page lies before the pages of {plan.leaf.name!r}"
        )


def _absent(leaf: Leaf) -> ColumnChunk:
    """A chunk that is never read, for a leaf that its field has and nobody wants."""
    return ColumnChunk(
        meta_data=ColumnMetaData(
            leaf.type, [], list(leaf.path), CompressionCodec.UNCOMPRESSED, 0, 0, 0, len(MAGIC)
        )
    )


def _moved(chunk: FetchedPages, start: int, num_bytes: int, num_values: int) -> ColumnMetaData:
    """The chunk's metadata, true of the synthetic file."""
    meta = chunk.plan.meta
    dictionary_offset: int | None = None
    data_offset = start
    if chunk.plan.whole:
        first, _ = chunk_range(meta)
        if first < meta.data_page_offset:
            dictionary_offset = start
            data_offset = start + meta.data_page_offset - first
    elif chunk.dictionary:
        dictionary_offset = start
        data_offset = start + len(chunk.dictionary)
    return ColumnMetaData(
        meta.type,
        meta.encodings,
        meta.path_in_schema,
        meta.codec,
        num_values,
        meta.total_uncompressed_size,
        num_bytes,
        data_offset,
        dictionary_offset,
    )


class _SubSchema:
    """The part of a file's schema under some top-level fields."""

    def __init__(self, file: ParquetInput, roots: tuple[int, ...]) -> None:
        schema = file.footer.metadata.schema
        spans = _root_spans(schema)
        self.roots = roots
        self.leaves = [leaf for leaf in file.footer.leaves if leaf.root_ordinal in set(roots)]
        self.elements = [
            schema[0]._replace(num_children=len(roots)),
            *(element for root in roots for element in schema[spans[root] : spans[root + 1]]),
        ]
        self.key_values = _arrow_schema_entry(file, roots, len(spans) - 1)

    def reduced_type(self, leaves: Sequence[Leaf]) -> pa.DataType:
        """The type of the one field, reduced to some of its leaves."""
        return (
            self._empty_file.read_all(
                column_indices=[self.leaves.index(leaf) for leaf in leaves], use_threads=False
            )
            .schema.field(0)
            .type
        )

    @cached_property
    def _empty_file(self) -> Any:
        footer = thrift.serialize(FileMetaData(2, self.elements, 0, [], self.key_values))
        data = MAGIC + footer + len(footer).to_bytes(4, "little") + MAGIC
        return pq.ParquetFile(pa.BufferReader(data)).reader


def _root_spans(schema: list[SchemaElement]) -> list[int]:
    """Where each top-level field starts in the flattened schema, and the end."""
    spans = []
    position = 1
    while position < len(schema):
        spans.append(position)
        open_nodes = 1
        while open_nodes:
            open_nodes += (schema[position].num_children or 0) - 1
            position += 1
    return [*spans, position]


def _arrow_schema_entry(file: ParquetInput, roots: tuple[int, ...], num_roots: int) -> list[KeyValue] | None:
    """The writer's Arrow schema reduced to some fields: it tells dictionaries, views and time zones."""
    encoded = file.footer.key_values.get(b"ARROW:schema")
    if not encoded:
        return None
    try:
        schema = pa.ipc.read_schema(pa.BufferReader(base64.b64decode(encoded)))
    except (pa.ArrowException, ValueError, OSError):
        return None  # pyarrow ignores it for the whole file, too
    if len(schema) != num_roots:
        return None
    reduced = pa.schema([schema.field(root) for root in roots]).serialize()
    return [KeyValue(b"ARROW:schema", base64.b64encode(reduced))]


# --- dictionaries ------------------------------------------------------------------------------------


def check_positions(column: pa.ChunkedArray) -> None:
    """Refuse positions outside the dictionary: pyarrow checks them only when it spreads the values out.

    Raises:
        CorruptFileError: If there is one.
    """
    for chunk in column.chunks:
        extremes = pc.min_max(chunk.indices).as_py()
        low, high = extremes["min"], extremes["max"]
        if low is not None and not 0 <= low <= high < len(chunk.dictionary):
            raise CorruptFileError(
                f"a value is entry {high if low >= 0 else low} of {len(chunk.dictionary)} in the dictionary",
                struct="DictionaryPageHeader",
            )


def _dictionary_columns(column: pa.ChunkedArray) -> Iterator[pa.ChunkedArray]:
    """The column, or what it holds, where they are dictionary arrays."""
    kind = column.type
    if pa.types.is_dictionary(kind):
        yield column
    elif pa.types.is_struct(kind):
        for place in range(kind.num_fields):
            yield from _dictionary_columns(pc.struct_field(column, [place]))
    elif pa.types.is_list(kind) or pa.types.is_large_list(kind):
        yield from _dictionary_columns(pc.list_flatten(column))


# --- rows --------------------------------------------------------------------------------------------


def take_rows(column: pa.ChunkedArray, covered: RowSelection, wanted: RowSelection) -> pa.ChunkedArray:
    """Rows ``wanted`` of a column that holds rows ``covered``.

    Args:
        column: ``covered.num_rows`` values.
        covered: The rows it holds.
        wanted: Rows among them.
    """
    if covered == wanted:
        return column
    if wanted.is_empty:
        return column.slice(0, 0)
    before = np.cumsum(covered.stops - covered.starts) - (covered.stops - covered.starts)
    place = np.searchsorted(covered.starts, wanted.starts, side="right") - 1
    starts = wanted.starts - covered.starts[place] + before[place]
    lengths = wanted.stops - wanted.starts
    if len(wanted) <= _FEW_RANGES or not _can_take(column.type):
        slices = [
            column.slice(start, length)
            for start, length in zip(starts.tolist(), lengths.tolist(), strict=True)
        ]
        chunks = [chunk for piece in slices for chunk in piece.chunks]
        return pa.chunked_array(chunks, type=column.type)
    return column.take(pa.array(RowSelection(starts, starts + lengths).rows()))


def _can_take(kind: pa.DataType) -> bool:
    """Whether pyarrow can take rows of a type: not of views, nor of what holds them."""
    if isinstance(kind, pa.BaseExtensionType):
        return _can_take(kind.storage_type)
    if pa.types.is_string_view(kind) or pa.types.is_binary_view(kind):
        return False
    return all(_can_take(kind.field(place).type) for place in range(kind.num_fields))
