"""Decoding of pages by pyarrow under a synthetic footer, which supports all encodings and codecs of pyarrow.

Only this module creates synthetic footers and has pyarrow decode pages. Callers select the pages and check
the number of decoded rows.
"""

from __future__ import annotations

import base64
import itertools
from collections.abc import Iterable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from functools import cached_property
from typing import Any, Literal

import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq

from intarsia.errors import CorruptFileError, IntarsiaError, UnsupportedFeatureError
from intarsia.file.outlines import ChunkOutlines
from intarsia.file.pages import iter_pages
from intarsia.format import thrift
from intarsia.format.enums import CompressionCodec, encoding_name
from intarsia.format.footer import MAGIC, Leaf, chunk_range
from intarsia.format.page_header import PAGE_CHECKSUM
from intarsia.format.structs import (
    ColumnChunk,
    ColumnMetaData,
    FileMetaData,
    KeyValue,
    RowGroup,
    SchemaElement,
)
from intarsia.storage import ByteRange, SourceStream, SparseBytes

#: From this size on, columns are decoded in parallel, and pages are not copied into one buffer.
_MANY_BYTES = 1 << 20

#: At least this many columns are decoded in parallel from a quarter of `_MANY_BYTES` on.
_SEVERAL_COLUMNS = 4

_ARROW_SCHEMA = b"ARROW:schema"

#: pyarrow's message for encodings that it does not know.
_UNKNOWN_ENCODING = "Unknown encoding type"


@dataclass(frozen=True)
class SyntheticSchema:
    """The schema of a synthetic footer.

    Attributes:
        elements: The flattened schema.
        leaves: Its leaves, in the order of the chunks.
        created_by: The writer of the pages. pyarrow works around errors of some writers: those of old
            parquet-cpp mark compressed pages of version 2 as uncompressed.
        key_values: Key/value metadata, such as the Arrow schema of the writer.
    """

    elements: tuple[SchemaElement, ...]
    leaves: tuple[Leaf, ...]
    created_by: bytes | None
    key_values: tuple[KeyValue, ...] = ()

    @property
    def _decoded_as(self) -> bytes | None:
        """The writer, if pyarrow has to know it to decode single pages.

        For chunks of old parquet-mr, it would read bytes behind them, which are others here.
        """
        return self.created_by if self.created_by and self.created_by.startswith(b"parquet-cpp ") else None

    def part(self, roots: Sequence[int]) -> SyntheticSchema:
        """Return the part of the schema under top-level fields, given by ascending ordinals."""
        spans = _root_spans(self.elements)
        elements = [
            self.elements[0]._replace(num_children=len(roots)),
            *(element for root in roots for element in self.elements[spans[root] : spans[root + 1]]),
        ]
        leaves = tuple(leaf for leaf in self.leaves if leaf.root_ordinal in roots)
        key_values = self._arrow_schema_entry(roots, len(spans) - 1)
        return SyntheticSchema(tuple(elements), leaves, self.created_by, key_values)

    def _arrow_schema_entry(self, roots: Sequence[int], num_roots: int) -> tuple[KeyValue, ...]:
        """Return the writer's Arrow schema, which has dictionaries, views and time zones, for some fields."""
        encoded = next((entry.value for entry in self.key_values if entry.key == _ARROW_SCHEMA), None)
        if not encoded:
            return ()
        try:
            schema = pa.ipc.read_schema(pa.BufferReader(base64.b64decode(encoded)))
        except (pa.ArrowException, ValueError, OSError):
            return ()  # pyarrow ignores an invalid schema, too
        if len(schema) != num_roots:
            return ()
        reduced = pa.schema([schema.field(root) for root in roots]).serialize()
        return (KeyValue(_ARROW_SCHEMA, base64.b64encode(reduced)),)

    @cached_property
    def arrow(self) -> pa.Schema:
        """The Arrow schema, as pyarrow reads it.

        Raises:
            CorruptFileError: If pyarrow cannot read it.
        """
        return self._empty.schema_arrow

    def arrow_of(self, ordinals: Sequence[int]) -> pa.Schema:
        """Return the Arrow schema reduced to some leaves, given by their positions in `leaves`."""
        return self._empty.reader.read_all(column_indices=list(ordinals), use_threads=False).schema

    @cached_property
    def _empty(self) -> pq.ParquetFile:
        with decode_errors("the schema", "SchemaElement"):
            return pq.ParquetFile(pa.BufferReader(self.file([], 0)))

    def file(self, row_groups: list[RowGroup], num_rows: int, body: Sequence[bytes] = ()) -> bytes:
        """Return a file of ``body`` and a footer; pyarrow does not check the magic at the start."""
        key_values = list(self.key_values) or None
        metadata = FileMetaData(
            2, list(self.elements), num_rows, row_groups, key_values, created_by=self._decoded_as
        )
        return b"".join((*body, *footer_parts(thrift.serialize(metadata))))


@dataclass(frozen=True)
class LeafPages:
    """Pages of one leaf to decode.

    Attributes:
        ordinal: Position of the leaf in `SyntheticSchema.leaves`.
        meta: The footer's metadata of the chunk that contains the pages; the codec and encodings are used.
        parts: Consecutive pages, beginning with the dictionary page, if there is one.
        num_values: Number of values in the data pages, including nulls.
        places: The ranges of the file that the parts are from, in order; empty for the whole chunk.
    """

    ordinal: int
    meta: ColumnMetaData
    parts: Sequence[bytes]
    num_values: int
    places: Sequence[ByteRange] = ()

    def check_checksums(self, column: str) -> None:
        """Compare the checksums of the pages up to the first damaged header.

        Args:
            column: The name of the leaf, for the error.

        Raises:
            CorruptFileError: If one is wrong; its offset is that in the file.
        """
        data = b"".join(self.parts)
        try:
            for page in iter_pages(data):
                page.check_checksum(data)
        except CorruptFileError as error:
            if error.reason == PAGE_CHECKSUM:
                error.offset = self._offset_in_file(error.offset or 0)
                error.column = column
                raise

    def _offset_in_file(self, position: int) -> int:
        """Return the offset in the file of a byte of the parts."""
        for place in self.places or (ByteRange(*chunk_range(self.meta)),):
            if position < place.length:
                return place.start + position
            position -= place.length
        raise ValueError("the position is beyond the parts")


def decode_pages(
    schema: SyntheticSchema,
    pages: Sequence[LeafPages],
    num_rows: int,
    what: str,
    *,
    as_dictionary: bool = False,
    int96_unit: Literal["s"] | None = None,
    checksums: bool = True,
) -> pa.Table:
    """Decode pages with pyarrow.

    Args:
        schema: The schema.
        pages: Pages of some of its leaves, in the order of the leaves; other leaves are omitted.
        num_rows: The number of rows in the synthetic footer. pyarrow decodes at most this many rows, and
            allocates memory for them.
        what: A description of the pages, for messages.
        as_dictionary: Return strings as dictionary arrays, without expanding them.
        int96_unit: The unit of INT96; by default nanoseconds.
        checksums: Compare the checksums of the pages that have one.

    Returns:
        One column for each top-level field with any of the leaves, reduced to these.

    Raises:
        UnsupportedFeatureError: If pyarrow does not support the encoding, codec or type.
        CorruptFileError: If the pages are damaged.
    """
    chunks = [_absent(leaf) for leaf in schema.leaves]
    parts: list[bytes] = []
    position = 0
    for given in pages:
        leaf, meta = schema.leaves[given.ordinal], given.meta
        size = sum(map(len, given.parts))
        # the dictionary page needs no offset, because pyarrow reads pages in order
        moved = ColumnMetaData(
            leaf.type,
            meta.encodings,
            meta.codec,
            given.num_values,
            meta.total_uncompressed_size,
            size,
            position,
            path_in_schema=list(leaf.path),
        )
        chunks[given.ordinal] = ColumnChunk(position, meta_data=moved)
        parts += [part for part in given.parts if len(part)]
        position += size
    group = RowGroup(chunks, position, num_rows)
    options: dict[str, Any] = {
        "pre_buffer": False,
        "coerce_int96_timestamp_unit": int96_unit,
        "page_checksum_verification": checksums,
    }
    if as_dictionary:
        options["read_dictionary"] = [".".join(schema.leaves[given.ordinal].path) for given in pages]
    encodings = (encoding for given in pages for encoding in given.meta.encodings)  # needed only for an error
    with _checksums_first(schema, pages if checksums else ()), decode_errors(what, "DataPage", encodings):
        if position >= _MANY_BYTES:
            footer = pq.read_metadata(pa.BufferReader(schema.file([group], num_rows)))
            file = pq.ParquetFile(_file_of(parts), metadata=footer, **options)
        else:
            file = pq.ParquetFile(pa.BufferReader(schema.file([group], num_rows, parts)), **options)
        # a single column cannot be decoded in parallel, and memory freed by other threads is reused late
        use_threads = position > (_MANY_BYTES if len(pages) < _SEVERAL_COLUMNS else _MANY_BYTES // 4)
        use_threads = use_threads and len(pages) > 1
        table = file.reader.read_all(
            column_indices=[given.ordinal for given in pages], use_threads=use_threads
        )
        for column in table.columns:
            for encoded in _dictionary_columns(column):
                _check_positions(encoded)
    return table


def decode_chunks(
    schema: SyntheticSchema,
    chunks: Sequence[ChunkOutlines],
    num_rows: Sequence[int],
    data: bytes,
    what: str,
    as_dictionary: Sequence[str] = (),
    *,
    checksums: bool = True,
) -> pa.Table:
    """Decode complete column chunks of several row groups.

    All bytes are in one buffer, so that pyarrow calls no Python code, which would wait for other threads.

    Args:
        schema: The schema.
        chunks: For each leaf of the schema, its chunks, which are sound; their offsets are those in ``data``.
        num_rows: Number of rows in each row group.
        data: The bytes of the chunks.
        what: A description of the row groups, for messages.
        as_dictionary: Names of columns of texts to return as dictionary arrays, without expanding them.
        checksums: Compare the checksums of the pages that have one.

    Raises:
        UnsupportedFeatureError: If pyarrow does not support the encoding, codec or type.
        CorruptFileError: If the pages are damaged.
    """
    columns = []
    for leaf, of_leaf in zip(schema.leaves, chunks, strict=True):
        path, sizes = list(leaf.path), of_leaf.stops - of_leaf.starts
        values = (of_leaf.codec, of_leaf.num_values, of_leaf.uncompressed_bytes, sizes, of_leaf.starts)
        metas = (
            # the dictionary page needs no offset, because pyarrow reads pages in order
            ColumnMetaData(leaf.type, [], codec, count, raw_bytes, size, start, path_in_schema=path)
            for codec, count, raw_bytes, size, start in zip(*(each.tolist() for each in values), strict=True)
        )
        columns.append([ColumnChunk(meta_data=meta) for meta in metas])
    groups = [RowGroup(list(row), 0, count) for *row, count in zip(*columns, num_rows, strict=True)]
    with decode_errors(what, "RowGroup"):
        metadata = pq.read_metadata(pa.BufferReader(schema.file(groups, sum(num_rows))))
        file = pq.ParquetFile(
            pa.BufferReader(data),
            metadata=metadata,
            pre_buffer=False,
            read_dictionary=list(as_dictionary),
            page_checksum_verification=checksums,
        )
        table = file.reader.read_all(use_threads=False)
        for column in table.columns:
            if pa.types.is_dictionary(column.type):
                _check_positions(column)
    return table


def _file_of(parts: Sequence[bytes]) -> pa.NativeFile:
    """Return a file that has the parts one after the other, without copying them."""
    if len(parts) == 1:
        return pa.BufferReader(parts[0])
    edges = [0, *itertools.accumulate(map(len, parts))]
    pieces = zip(itertools.starmap(ByteRange, itertools.pairwise(edges)), parts, strict=True)
    return pa.PythonFile(SourceStream(SparseBytes(edges[-1], pieces)), mode="r")


def footer_parts(footer: bytes) -> tuple[bytes, ...]:
    """Return a footer, its length and the closing magic, which are the end of a file."""
    return footer, len(footer).to_bytes(4, "little"), MAGIC


def _absent(leaf: Leaf) -> ColumnChunk:
    """Return a chunk without pages, for a leaf that is not read in a field that is."""
    uncompressed = CompressionCodec.UNCOMPRESSED
    return ColumnChunk(
        meta_data=ColumnMetaData(leaf.type, [], uncompressed, 0, 0, 0, 0, path_in_schema=list(leaf.path))
    )


# --- a part of a file's schema ---------------------------------------------------------------------------


def _root_spans(schema: Sequence[SchemaElement]) -> list[int]:
    """Return the start of each top-level field in the flattened schema, and the end."""
    spans = []
    position = 1
    while position < len(schema):
        spans.append(position)
        open_nodes = 1
        while open_nodes:
            open_nodes += (schema[position].num_children or 0) - 1
            position += 1
    return [*spans, position]


# --- dictionaries ----------------------------------------------------------------------------------------


def _check_positions(column: pa.ChunkedArray) -> None:
    """Refuse positions outside the dictionary, which pyarrow checks only when it expands the values."""
    for chunk in column.chunks:
        extremes = pc.min_max(chunk.indices).as_py()
        low, high = extremes["min"], extremes["max"]
        if low is not None and not 0 <= low <= high < len(chunk.dictionary):
            raise CorruptFileError(
                f"a value refers to entry {high if low >= 0 else low} of a dictionary with "
                f"{len(chunk.dictionary)} entries",
                reason="beyond-dictionary",
                struct="DictionaryPageHeader",
            )


def _dictionary_columns(column: pa.ChunkedArray) -> Iterator[pa.ChunkedArray]:
    """Yield the dictionary arrays in a column."""
    data_type = column.type
    if pa.types.is_dictionary(data_type):
        yield column
    elif pa.types.is_struct(data_type):
        for ordinal in range(data_type.num_fields):
            yield from _dictionary_columns(pc.struct_field(column, [ordinal]))
    elif pa.types.is_list(data_type) or pa.types.is_large_list(data_type):
        yield from _dictionary_columns(pc.list_flatten(column))


# --- errors ----------------------------------------------------------------------------------------------


@contextmanager
def _checksums_first(schema: SyntheticSchema, pages: Sequence[LeafPages]) -> Iterator[None]:
    """Replace an error of damaged pages within the block by that of the first page with a wrong checksum."""
    try:
        yield
    except CorruptFileError:
        for given in pages:
            given.check_checksums(schema.leaves[given.ordinal].name)
        raise


@contextmanager
def decode_errors(what: str, struct: str, encodings: Iterable[int] = ()) -> Iterator[None]:
    """Translate errors that pyarrow raises within the block to errors of the file.

    Errors of the storage and of Intarsia, which pyarrow passes on from a Python file, are unchanged.

    Args:
        what: A description of the decoded bytes, for the message.
        struct: Their Parquet name.
        encodings: The encodings in the footer, for the message.

    Raises:
        UnsupportedFeatureError: If pyarrow does not support a feature.
        CorruptFileError: If the bytes are damaged.
        MemoryError: If there is too little memory.
    """
    try:
        yield
    except MemoryError:  # too little memory says nothing about the bytes
        raise
    except (pa.ArrowException, OSError, ValueError) as error:
        if isinstance(error, IntarsiaError) or _is_of_storage(error):
            raise
        message = f"pyarrow cannot decode {what}: {error}"
        if _UNKNOWN_ENCODING in str(error):
            names = ", ".join(map(encoding_name, sorted(set(encodings))))
            raise UnsupportedFeatureError(
                f"{message}{f' (the footer has {names})' if names else ''}; rewrite them with PLAIN or "
                "dictionary encoding",
                reason="unknown-encoding",
                struct=struct,
            ) from error
        if isinstance(error, pa.ArrowNotImplementedError) or "Not yet implemented" in str(error):
            raise UnsupportedFeatureError(message, reason="not-decodable", struct=struct) from error
        raise CorruptFileError(message, reason="decoding-failed", struct=struct) from error


def _is_of_storage(error: Exception) -> bool:
    """Return whether the system or a store raised an error; for damaged bytes pyarrow raises OSError."""
    return isinstance(error, OSError) and (type(error) is not OSError or error.errno is not None)
