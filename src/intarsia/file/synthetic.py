"""Pages under a synthetic footer, so that pyarrow decodes them: every encoding and codec, at its speed.

This is the only place that makes up footers and lets pyarrow decode pages.  Which pages these are, and
whether the number of decoded rows is right, is for the callers to decide.
"""

from __future__ import annotations

import base64
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from functools import cached_property
from typing import Any, Literal

import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq

from intarsia.errors import CorruptFileError, IntarsiaError, UnsupportedFeatureError
from intarsia.format import thrift
from intarsia.format.footer import MAGIC, Footer, Leaf
from intarsia.format.structs import (
    ColumnChunk,
    ColumnMetaData,
    CompressionCodec,
    FileMetaData,
    KeyValue,
    RowGroup,
    SchemaElement,
)

#: From this many bytes on, columns are decoded in parallel, and bytes in one piece are not copied.
_MANY_BYTES = 1 << 20

#: So many columns are decoded side by side from a quarter of these bytes on.
_SEVERAL_COLUMNS = 4

_ARROW_SCHEMA = b"ARROW:schema"


@dataclass(frozen=True)
class SyntheticSchema:
    """The schema of a synthetic footer.

    Attributes:
        elements: The flattened schema.
        leaves: Its leaves, in the order of the chunks.
        key_values: Key/value metadata, such as the schema that Arrow's writer had.
    """

    elements: tuple[SchemaElement, ...]
    leaves: tuple[Leaf, ...]
    key_values: tuple[KeyValue, ...] = ()

    @classmethod
    def of_fields(cls, footer: Footer, roots: Sequence[int]) -> SyntheticSchema:
        """The part of a file's schema under some top-level fields, given by their ordinals, ascending."""
        schema = footer.metadata.schema
        spans = _root_spans(schema)
        elements = [
            schema[0]._replace(num_children=len(roots)),
            *(element for root in roots for element in schema[spans[root] : spans[root + 1]]),
        ]
        leaves = tuple(leaf for leaf in footer.leaves if leaf.root_ordinal in roots)
        return cls(tuple(elements), leaves, _arrow_schema_entry(footer, roots, len(spans) - 1))

    @cached_property
    def arrow(self) -> pa.Schema:
        """What pyarrow makes of it.

        Raises:
            CorruptFileError: If pyarrow cannot read it.
        """
        return self._empty.schema_arrow

    def arrow_of(self, places: Sequence[int]) -> pa.Schema:
        """The same, reduced to some leaves, given by their places in `leaves`."""
        return self._empty.reader.read_all(column_indices=list(places), use_threads=False).schema

    @cached_property
    def _empty(self) -> pq.ParquetFile:
        with decode_errors("the schema", "SchemaElement"):
            return pq.ParquetFile(pa.BufferReader(self.file([], 0)))

    def file(self, row_groups: list[RowGroup], num_rows: int, body: Sequence[bytes] = ()) -> bytes:
        """A file of some bytes followed by the footer; pyarrow does not check the magic at the start."""
        key_values = list(self.key_values) or None
        footer = thrift.serialize(FileMetaData(2, list(self.elements), num_rows, row_groups, key_values))
        return b"".join((*body, *footer_parts(footer)))


@dataclass(frozen=True)
class LeafPages:
    """Pages of one leaf that are to be decoded.

    Attributes:
        place: Place of the leaf in `SyntheticSchema.leaves`.
        meta: What the footer says of the chunk that the pages are from; its codec and encodings count.
        parts: The pages, a dictionary page first if there is one; end to end.
        num_values: Values in the data pages, nulls included.
    """

    place: int
    meta: ColumnMetaData
    parts: Sequence[bytes]
    num_values: int


def decode_pages(
    schema: SyntheticSchema,
    pages: Sequence[LeafPages],
    num_rows: int,
    what: str,
    *,
    as_dictionary: bool = False,
    int96_unit: Literal["s"] | None = None,
) -> pa.Table:
    """Have pyarrow decode pages.

    Args:
        schema: The schema.
        pages: Pages of some of its leaves, in the order of the leaves; the other leaves are left out.
        num_rows: Rows that the footer claims: the most that are decoded, and what pyarrow allocates for.
        what: What these pages are, for messages.
        as_dictionary: Return texts as dictionary arrays, without expanding them.
        int96_unit: Unit of INT96, which is nanoseconds unless it is given.

    Returns:
        One column for each top-level field that has any of the leaves, reduced to these.

    Raises:
        UnsupportedFeatureError: If pyarrow knows no such encoding, codec or type.
        CorruptFileError: If the pages are damaged.
    """
    chunks = [_absent(leaf) for leaf in schema.leaves]
    parts: list[bytes] = []
    position = 0
    for given in pages:
        leaf, meta = schema.leaves[given.place], given.meta
        size = sum(map(len, given.parts))
        # the dictionary page needs no offset of its own: pyarrow takes the pages in their order
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
        chunks[given.place] = ColumnChunk(position, meta_data=moved)
        parts += [part for part in given.parts if len(part)]
        position += size
    group = RowGroup(chunks, position, num_rows)
    options: dict[str, Any] = {"pre_buffer": False, "coerce_int96_timestamp_unit": int96_unit}
    if as_dictionary:
        options["read_dictionary"] = [".".join(schema.leaves[given.place].path) for given in pages]
    with decode_errors(what, "DataPage"):
        if len(parts) == 1 and position >= _MANY_BYTES:
            footer = pq.read_metadata(pa.BufferReader(schema.file([group], num_rows)))
            file = pq.ParquetFile(pa.BufferReader(parts[0]), metadata=footer, **options)
        else:
            file = pq.ParquetFile(pa.BufferReader(schema.file([group], num_rows, parts)), **options)
        # one column cannot be decoded in parallel, and memory freed by other threads is reused late
        use_threads = position > (_MANY_BYTES if len(pages) < _SEVERAL_COLUMNS else _MANY_BYTES // 4)
        use_threads = use_threads and len(pages) > 1
        table = file.reader.read_all(column_indices=[given.place for given in pages], use_threads=use_threads)
        for column in table.columns:
            for encoded in _dictionary_columns(column):
                _check_positions(encoded)
    return table


def footer_parts(footer: bytes) -> tuple[bytes, ...]:
    """A footer, its length and the closing magic, as they end a file."""
    return footer, len(footer).to_bytes(4, "little"), MAGIC


def _absent(leaf: Leaf) -> ColumnChunk:
    """A chunk that is never read, for a leaf of a wanted field that is not wanted itself."""
    uncompressed = CompressionCodec.UNCOMPRESSED
    return ColumnChunk(
        meta_data=ColumnMetaData(leaf.type, [], uncompressed, 0, 0, 0, 0, path_in_schema=list(leaf.path))
    )


# --- a part of a file's schema ---------------------------------------------------------------------------


def _root_spans(schema: Sequence[SchemaElement]) -> list[int]:
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


def _arrow_schema_entry(footer: Footer, roots: Sequence[int], num_roots: int) -> tuple[KeyValue, ...]:
    """The writer's Arrow schema reduced to some fields: it tells dictionaries, views and time zones."""
    encoded = footer.key_values.get(_ARROW_SCHEMA)
    if not encoded:
        return ()
    try:
        schema = pa.ipc.read_schema(pa.BufferReader(base64.b64decode(encoded)))
    except (pa.ArrowException, ValueError, OSError):
        return ()  # pyarrow ignores it for the whole file, too
    if len(schema) != num_roots:
        return ()
    reduced = pa.schema([schema.field(root) for root in roots]).serialize()
    return (KeyValue(_ARROW_SCHEMA, base64.b64encode(reduced)),)


# --- dictionaries ----------------------------------------------------------------------------------------


def _check_positions(column: pa.ChunkedArray) -> None:
    """Refuse positions outside the dictionary: pyarrow checks them only when it spreads the values out."""
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
    data_type = column.type
    if pa.types.is_dictionary(data_type):
        yield column
    elif pa.types.is_struct(data_type):
        for place in range(data_type.num_fields):
            yield from _dictionary_columns(pc.struct_field(column, [place]))
    elif pa.types.is_list(data_type) or pa.types.is_large_list(data_type):
        yield from _dictionary_columns(pc.list_flatten(column))


# --- errors ----------------------------------------------------------------------------------------------


@contextmanager
def decode_errors(what: str, struct: str) -> Iterator[None]:
    """Within the block, what pyarrow cannot decode is an error of the file.

    Errors of the storage and those that Intarsia raises itself pass through unchanged: pyarrow hands on what
    a Python file raises.

    Args:
        what: What is decoded, for the message.
        struct: Parquet's name of it.

    Raises:
        UnsupportedFeatureError: If pyarrow does not know how.
        CorruptFileError: If it finds the bytes damaged.
    """
    try:
        yield
    except (pa.ArrowException, OSError, ValueError) as error:
        if isinstance(error, IntarsiaError) or _is_of_storage(error):
            raise
        message = f"pyarrow cannot decode {what}: {error}"
        if isinstance(error, pa.ArrowNotImplementedError) or "Not yet implemented" in str(error):
            raise UnsupportedFeatureError(message, struct=struct) from error
        raise CorruptFileError(message, struct=struct) from error


def _is_of_storage(error: Exception) -> bool:
    """Whether an error is of the system or a store; pyarrow's own, of damaged bytes, is a plain OSError."""
    return isinstance(error, OSError) and (type(error) is not OSError or error.errno is not None)
