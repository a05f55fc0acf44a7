"""Decoding of pages by pyarrow under a synthetic footer, which supports all encodings and codecs of pyarrow.

Only this module creates synthetic footers and has pyarrow decode pages. Callers select the pages and check
the number of decoded rows.
"""

from __future__ import annotations

import base64
from bisect import bisect_left, bisect_right
from collections.abc import Callable, Iterable, Mapping, Sequence
from itertools import accumulate, pairwise, starmap
from operator import attrgetter
from typing import Any, Literal, NamedTuple, NoReturn

import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq

from intarsia.arrow.owned_rows import decoded_type
from intarsia.errors import CorruptFileError, IntarsiaError, UnsupportedFeatureError
from intarsia.format import thrift
from intarsia.format.enums import CompressionCodec, encoding_name
from intarsia.format.footer import MAGIC, Leaf, schema_paths
from intarsia.format.pages import PAGE_CHECKSUM, iter_pages
from intarsia.format.structs import (
    ColumnChunk,
    ColumnMetaData,
    FileMetaData,
    KeyValue,
    RowGroup,
    SchemaElement,
)
from intarsia.once import cached_property
from intarsia.records import dataclass
from intarsia.storage import ByteRange, SparseBytes
from intarsia.tuning import COPIED_BYTES, SEVERAL_COLUMNS, THREADED_BYTES

_ARROW_SCHEMA = b"ARROW:schema"

_ROOT = attrgetter("root_ordinal")

#: pyarrow's message for encodings that it does not know.
_UNKNOWN_ENCODING = "Unknown encoding type"


@dataclass(frozen=True)
class SyntheticSchema:
    """The schema of a synthetic footer.

    Attributes:
        leaves: Its leaves, in the order of the chunks.
        created_by: The writer of the pages. pyarrow works around errors of some writers: those of old
            parquet-cpp mark compressed pages of version 2 as uncompressed.
        key_values: Key/value metadata, such as the Arrow schema of the writer.
    """

    elements: tuple[SchemaElement, ...]
    leaves: tuple[Leaf, ...]
    created_by: bytes | None
    key_values: tuple[KeyValue, ...] = ()

    def part(self, roots: Sequence[int]) -> SyntheticSchema:
        """Return the part of the schema under top-level fields, given by ascending ordinals."""
        starts, leaves = self._starts, self.leaves
        elements = [
            self.elements[0]._replace(num_children=len(roots)),
            *(element for root in roots for element in self.elements[starts[root] : starts[root + 1]]),
        ]
        found: list[Leaf] = []
        for root in roots:  # the leaves are in the order of the fields
            found += leaves[bisect_left(leaves, root, key=_ROOT) : bisect_right(leaves, root, key=_ROOT)]
        written = self._written
        key_values = () if written is None else _arrow_schema([written.field(root) for root in roots])
        return SyntheticSchema(tuple(elements), tuple(found), self.created_by, key_values)

    def decoded(self) -> SyntheticSchema:
        """Return the schema with the types to which columns are decoded; see `decoded_type`."""
        written = self._written
        if written is None:
            return self
        changed = {one: decoded for one in set(written.types) if (decoded := decoded_type(one)) != one}
        if not changed:
            return self
        fields = [field.with_type(changed.get(field.type, field.type)) for field in written]
        return SyntheticSchema(self.elements, self.leaves, self.created_by, _arrow_schema(fields))

    @cached_property
    def _starts(self) -> list[int]:
        """The position of each top-level field in `elements`, and the end of the last one."""
        paths = enumerate(schema_paths(self.elements), start=1)
        return [*(position for position, path in paths if len(path) == 1), len(self.elements)]

    @cached_property
    def _written(self) -> pa.Schema | None:
        """The Arrow schema of the writer, with dictionaries, views and time zones; None if invalid."""
        encoded = next((entry.value for entry in self.key_values if entry.key == _ARROW_SCHEMA), None)
        if not encoded:
            return None
        try:
            schema = pa.ipc.read_schema(pa.BufferReader(base64.b64decode(encoded)))
        except TimeoutError:  # of a signal handler
            raise
        except (pa.ArrowException, ValueError, OSError):
            return None  # pyarrow ignores an invalid schema, too
        return schema if len(schema) == len(self._starts) - 1 else None

    @cached_property
    def positions(self) -> Mapping[int, int]:
        """Positions in `leaves` by the ordinals of the leaves in the file."""
        return {leaf.ordinal: position for position, leaf in enumerate(self.leaves)}

    def absent_chunks(self, num_rows: int) -> list[ColumnChunk]:
        """Return a chunk without pages for each leaf, for those that are not read in a field that is.

        They claim to have values: pyarrow before version 26 reads as many rows of the n-th field as the n-th
        chunk has values.
        """
        codec = CompressionCodec.UNCOMPRESSED
        return [
            ColumnChunk(
                meta_data=ColumnMetaData(leaf.type, [], codec, num_rows, 0, 0, 0, path_in_schema=[*leaf.path])
            )
            for leaf in self.leaves
        ]

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
        try:
            return pq.ParquetFile(pa.BufferReader(self.file([], 0)))
        except (pa.ArrowException, OSError, ValueError) as error:
            _raise_translated(error, "the schema", "SchemaElement")

    def file(self, row_groups: list[RowGroup], num_rows: int, body: Sequence[bytes] = ()) -> bytes:
        """Return a file of ``body`` and a footer; pyarrow does not check the magic at the start."""
        # only parquet-cpp: for chunks of old parquet-mr, pyarrow would read bytes behind them, others here
        is_needed = self.created_by is not None and self.created_by.startswith(b"parquet-cpp ")
        created_by = self.created_by if is_needed else None
        key_values = list(self.key_values) or None
        metadata = FileMetaData(
            2, list(self.elements), num_rows, row_groups, key_values, created_by=created_by
        )
        return b"".join((*body, *footer_parts(thrift.serialize(metadata))))


def _arrow_schema(fields: list[pa.Field]) -> tuple[KeyValue, ...]:
    return (KeyValue(_ARROW_SCHEMA, base64.b64encode(pa.schema(fields).serialize())),)


class Segments(NamedTuple):
    """What to decode of one leaf: for each row group a segment of its chunk.

    A segment is the whole chunk, or any data pages of it, preceded by the dictionary page that they need.

    Attributes:
        ordinal: Position of the leaf in `SyntheticSchema.leaves`.
        starts: Offset of each segment in the decoded bytes.
        stops: Offset of its end.
        num_values: Number of values in its data pages, including nulls.
        raw_bytes: Size of the chunk before compression.
        codecs: `CompressionCodec` of the chunk.
        encodings: Its encodings, for messages.
    """

    ordinal: int
    starts: Sequence[int]
    stops: Sequence[int]
    num_values: Sequence[int]
    raw_bytes: Sequence[int]
    codecs: Sequence[int]
    encodings: Sequence[Sequence[int]]

    @classmethod
    def of_chunk(cls, ordinal: int, meta: ColumnMetaData, start: int, stop: int) -> Segments:
        """Return a single whole chunk."""
        sizes = [meta.num_values], [meta.total_uncompressed_size], [meta.codec], [meta.encodings]
        return cls(ordinal, [start], [stop], *sizes)


def decode(
    schema: SyntheticSchema,
    leaves: Sequence[Segments],
    num_rows: Sequence[int],
    parts: Sequence[bytes],
    what: str,
    *,
    as_dictionary: Sequence[str] = (),
    int96_unit: Literal["s"] | None = None,
    checksums: bool = True,
    offset_of: Callable[[int], int] = int,
) -> pa.Table:
    """Decode segments of chunks with pyarrow.

    Args:
        leaves: The segments of some of its leaves, in the order of the leaves; other leaves are omitted.
        num_rows: Number of rows in each row group. pyarrow decodes at most this many of the last one, and
            allocates memory for them.
        parts: The bytes that contain the segments, one after the other. From a single part, pyarrow reads
            without calling Python code, which would wait for other threads.
        what: A description of the segments, for messages.
        as_dictionary: Names of columns of texts to return as dictionary arrays, without expanding them.
        int96_unit: The unit of INT96; by default nanoseconds.
        checksums: Compare the checksums of the pages that have one.
        offset_of: Returns the offset in the file of a position in the bytes, for errors.

    Returns:
        One column for each top-level field with any of the leaves, reduced to these.

    Raises:
        UnsupportedFeatureError: If pyarrow does not support the encoding, codec or type.
        CorruptFileError: If the pages are damaged.
    """
    columns: list[Sequence[ColumnChunk]] = [()] * len(schema.leaves)
    if len(leaves) < len(columns):
        absent = {count: schema.absent_chunks(count) for count in set(num_rows)}
        columns = list(zip(*[absent[count] for count in num_rows], strict=True))
    num_bytes = 0
    for given in leaves:
        leaf = schema.leaves[given.ordinal]
        path = list(leaf.path)
        # the dictionary page needs no offset, because pyarrow reads pages in order
        columns[given.ordinal] = [
            ColumnChunk(
                meta_data=ColumnMetaData(
                    leaf.type, [], codec, count, raw_bytes, stop - start, start, path_in_schema=path
                )
            )
            for start, stop, count, raw_bytes, codec in zip(*given[1:6], strict=True)
        ]
        num_bytes += sum(given.stops) - sum(given.starts)
    groups = [RowGroup(list(row), 0, count) for *row, count in zip(*columns, num_rows, strict=True)]
    options: dict[str, Any] = {
        "pre_buffer": False,
        "read_dictionary": list(as_dictionary),
        "coerce_int96_timestamp_unit": int96_unit,
        "page_checksum_verification": checksums,
    }
    # a single column cannot be decoded in parallel, and memory freed by other threads is reused late
    use_threads = num_bytes > (THREADED_BYTES if len(leaves) < SEVERAL_COLUMNS else THREADED_BYTES // 4)
    use_threads = use_threads and len(leaves) > 1 and len(groups) == 1
    try:
        if sum(map(len, parts)) > COPIED_BYTES:
            footer = pq.read_metadata(pa.BufferReader(schema.file(groups, sum(num_rows))))
            file = pq.ParquetFile(_file_of(parts), metadata=footer, **options)
        else:
            file = pq.ParquetFile(pa.BufferReader(schema.file(groups, sum(num_rows), parts)), **options)
        table = file.reader.read_all(
            column_indices=[given.ordinal for given in leaves], use_threads=use_threads
        )
        for column in table.columns:
            if isinstance(column.type, _WITH_DICTIONARIES):
                _check_positions(column)
    except (pa.ArrowException, OSError, ValueError) as error:
        for given in leaves if checksums else ():
            _check_checksums(given, b"".join(parts), schema.leaves[given.ordinal].name, offset_of)
        encodings = [encoding for given in leaves for of_chunk in given.encodings for encoding in of_chunk]
        _raise_translated(error, what, "DataPage" if len(groups) == 1 else "RowGroup", encodings)
    return table


def _file_of(parts: Sequence[bytes]) -> pa.NativeFile:
    """Return a file that has the parts one after the other, without copying them."""
    if len(parts) == 1:
        return pa.BufferReader(parts[0])
    edges = [0, *accumulate(map(len, parts))]
    pieces = zip(starmap(ByteRange, pairwise(edges)), parts, strict=True)
    return pa.PythonFile(SparseBytes(edges[-1], pieces), mode="r")


def footer_parts(footer: bytes) -> tuple[bytes, ...]:
    """Return a footer, its length and the closing magic, which are the end of a file."""
    return footer, len(footer).to_bytes(4, "little"), MAGIC


# --- dictionaries ----------------------------------------------------------------------------------------


#: Types that are dictionaries, or may contain them.
_WITH_DICTIONARIES = (pa.DictionaryType, pa.StructType, pa.ListType, pa.LargeListType)


def _check_positions(column: pa.ChunkedArray) -> None:
    """Refuse positions outside a dictionary, which pyarrow checks only when it expands the values."""
    data_type = column.type
    if isinstance(data_type, pa.StructType):
        for ordinal in range(data_type.num_fields):
            _check_positions(pc.struct_field(column, [ordinal]))
    elif isinstance(data_type, (pa.ListType, pa.LargeListType)):
        _check_positions(pc.list_flatten(column))
    for chunk in column.chunks if isinstance(data_type, pa.DictionaryType) else ():
        extremes = pc.min_max(chunk.indices).as_py()
        low, high = extremes["min"], extremes["max"]
        if low is not None and not 0 <= low <= high < len(chunk.dictionary):
            raise CorruptFileError(
                f"a value refers to entry {high if low >= 0 else low} of a dictionary with "
                f"{len(chunk.dictionary)} entries",
                reason="beyond-dictionary",
                struct="DictionaryPageHeader",
            )


# --- errors ----------------------------------------------------------------------------------------------


def _check_checksums(given: Segments, data: bytes, column: str, offset_of: Callable[[int], int]) -> None:
    """Compare the checksums of the pages of each segment up to the first damaged header.

    Raises:
        CorruptFileError: If one is wrong; its offset is that in the file.
    """
    for start, stop in zip(given.starts, given.stops, strict=True):
        segment = data[start:stop]
        try:
            for page in iter_pages(segment):
                page.check_checksum(segment)
        except CorruptFileError as error:
            if error.reason == PAGE_CHECKSUM:
                error.at(offset=offset_of(start + (error.offset or 0)), column=column)
                raise


def _raise_translated(error: Exception, what: str, struct: str, encodings: Iterable[int] = ()) -> NoReturn:
    """Raise the error of the file for an error of pyarrow.

    Errors of the storage and of Intarsia, which pyarrow passes on from a Python file, are unchanged. So are
    those of too little memory, which say nothing about the bytes.

    Args:
        what: A description of the decoded bytes, for the message.
        encodings: The encodings in the footer, for the message.

    Raises:
        UnsupportedFeatureError: If pyarrow does not support a feature.
        CorruptFileError: If the bytes are damaged.
    """
    # the system or a store raised the error; for damaged bytes, pyarrow raises OSError
    is_of_storage = isinstance(error, OSError) and (type(error) is not OSError or error.errno is not None)
    if isinstance(error, (IntarsiaError, MemoryError)) or is_of_storage:
        raise error
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
