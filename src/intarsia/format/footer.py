"""The footer: where it lies, what it says, and the leaves of its schema."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property, lru_cache, partial

import numpy as np
import numpy.typing as npt

from intarsia.errors import CorruptFileError, UnsupportedFeatureError
from intarsia.format.row_groups import FooterBytes, parse_file_metadata
from intarsia.format.structs import (
    ColumnChunk,
    ColumnMetaData,
    ConvertedType,
    DecimalType,
    Empty,
    FieldRepetitionType,
    FileMetaData,
    IntType,
    LogicalType,
    SchemaElement,
    TimestampType,
    TimeUnit,
    Type,
)

MAGIC = b"PAR1"
ENCRYPTED_MAGIC = b"PARE"

#: Proposed for files whose only footer is in FlatBuffers.
FLATBUFFERS_MAGIC = b"PAR3"

#: The footer's length and the closing magic.
TRAILER_BYTES = 8

#: The shortest Parquet file: two magics and a footer's length.
SMALLEST_FILE_BYTES = 12

#: Logical types whose bytes are UTF-8.
_TEXT_NAMES = frozenset(("STRING", "ENUM", "JSON"))

#: Deeper schemas than any writer makes; stops hostile ones.
MAX_SCHEMA_DEPTH = 100


@dataclass(frozen=True)
class Leaf:
    """One leaf of the schema: a column that has chunks and pages.

    Attributes:
        ordinal: Position among the leaves, which is the position of its chunk in each row group.
        path: Names from the root's child down to the leaf.
        element: The leaf's own schema element.
        logical: Its logical type, taken from ``LogicalType`` or from the older ``ConvertedType``.
        max_definition_level: Optional and repeated fields on the path.
        max_repetition_level: Repeated fields on the path; 0 for a leaf that is not in any list or map.
        root_ordinal: Position of the path's first field among the root's children.
    """

    ordinal: int
    path: tuple[str, ...]
    element: SchemaElement
    logical: LogicalType | None
    max_definition_level: int
    max_repetition_level: int
    root_ordinal: int

    @cached_property
    def name(self) -> str:
        """The path, dotted."""
        return ".".join(self.path)

    @cached_property
    def type(self) -> Type:
        """The physical type."""
        assert self.element.type is not None
        return Type(self.element.type)

    @cached_property
    def logical_name(self) -> str | None:
        """The name of the logical type, such as ``"TIMESTAMP"``; None where there is none."""
        return self.logical.name if self.logical else None

    @cached_property
    def is_flat(self) -> bool:
        """Whether every row has exactly one value (or null)."""
        return self.max_repetition_level == 0

    @cached_property
    def is_float(self) -> bool:
        """Whether values may be NaN, and zero has two signs."""
        return self.type in (Type.FLOAT, Type.DOUBLE) or self.logical_name == "FLOAT16"

    @cached_property
    def is_text(self) -> bool:
        """Whether values are UTF-8."""
        return self.logical_name in _TEXT_NAMES


@dataclass(frozen=True)
class Footer:
    """A parsed footer and what follows from it.

    Attributes:
        metadata: The footer as a struct.
        raw: The bytes it was parsed from, without length and magic.
        start: Byte offset in the file where ``raw`` begins.
        file_length: Length of the file in bytes.
    """

    metadata: FileMetaData
    raw: bytes
    start: int
    file_length: int

    @cached_property
    def leaves(self) -> tuple[Leaf, ...]:
        """The leaves of the schema, in the order of the chunks."""
        return shared_leaves(tuple(self.metadata.schema))

    @cached_property
    def row_group_starts(self) -> npt.NDArray[np.int64]:
        """First row of each row group, and the number of rows at the end: length row groups + 1."""
        edges = np.zeros(len(self.metadata.row_groups) + 1, dtype=np.int64)
        np.cumsum([group.num_rows for group in self.metadata.row_groups], dtype=np.int64, out=edges[1:])
        return edges

    @cached_property
    def num_rows(self) -> int:
        """Rows in the file."""
        return int(self.row_group_starts[-1])

    @cached_property
    def key_values(self) -> dict[bytes, bytes]:
        """Key/value metadata; the first of equal keys counts, as in pyarrow."""
        out: dict[bytes, bytes] = {}
        for key, value in self.metadata.key_value_metadata or ():
            out.setdefault(key, value or b"")
        return out

    @cached_property
    def created_by(self) -> str:
        """Who wrote the file, or an empty string."""
        return (self.metadata.created_by or b"").decode("utf-8", "replace")

    def column_order(self, leaf: Leaf) -> str | None:
        """The name of the order of a leaf's bounds, such as ``"TYPE_ORDER"``.

        Returns:
            The name; an empty string for an order that is not known here or that the leaf's type cannot have;
            None if the footer declares no order for any leaf.
        """
        orders = self.metadata.column_orders
        if orders is None:
            return None
        order = orders[leaf.ordinal]
        names = [name for name, value in zip(order._fields, order, strict=True) if value is not None]
        if len(names) != 1:  # it is a union
            return ""
        is_int96 = leaf.type == Type.INT96
        fits = {
            "TYPE_ORDER": not is_int96,  # which defines none for INT96
            "IEEE_754_TOTAL_ORDER": leaf.is_float,
            "INT96_TIMESTAMP_ORDER": is_int96,
        }
        return names[0] if fits[names[0]] else ""

    def holds(self, start: int, stop: int) -> bool:
        """Whether bytes, at least one, lie in the file's body: behind the magic and before the footer."""
        return len(MAGIC) <= start < stop <= self.start

    def chunk(self, row_group: int, leaf: Leaf) -> ColumnChunk:
        """The column chunk of a leaf in a row group."""
        return self.metadata.row_groups[row_group].columns[leaf.ordinal]

    def chunk_metadata(self, row_group: int, leaf: Leaf) -> ColumnMetaData:
        """What the footer says of a chunk.

        Raises:
            UnsupportedFeatureError: If the column is encrypted or lies in another file.
        """
        chunk = self.metadata.row_groups[row_group].columns[leaf.ordinal]
        if chunk.file_path:
            raise UnsupportedFeatureError(
                f"column {leaf.name!r} lies in another file "
                f"({chunk.file_path.decode('utf-8', 'replace')}); open that file instead of the summary",
                struct="ColumnChunk",
            )
        if chunk.meta_data is None or chunk.crypto_metadata is not None:
            raise UnsupportedFeatureError(
                f"column {leaf.name!r} is encrypted; Intarsia reads and indexes plain columns only",
                struct="ColumnChunk",
            )
        return chunk.meta_data


def footer_start(trailer: bytes, file_length: int) -> int:
    """Byte offset of the footer, from the last 8 bytes of a file.

    Args:
        trailer: The last `TRAILER_BYTES` bytes, or fewer if the file is shorter.
        file_length: Length of the file in bytes.

    Raises:
        CorruptFileError: If this is no Parquet file, or a truncated one.
        UnsupportedFeatureError: If the footer is encrypted.
    """
    if file_length == 0:
        raise CorruptFileError("the file is empty: 0 bytes")
    if file_length < SMALLEST_FILE_BYTES:
        raise CorruptFileError(
            f"{file_length} bytes are too few for a Parquet file (it needs {SMALLEST_FILE_BYTES})"
        )
    magic = trailer[4:]
    if magic == ENCRYPTED_MAGIC:
        raise UnsupportedFeatureError(
            "the footer is encrypted; Intarsia reads plain footers only: decrypt the file first",
            offset=file_length - 4,
            struct="FileCryptoMetaData",
        )
    if magic == FLATBUFFERS_MAGIC:
        raise UnsupportedFeatureError(
            "the file has only a FlatBuffers footer (PAR3); let its writer write the Thrift footer, too",
            reason="flatbuffers-footer",
            offset=file_length - 4,
            struct="FileMetaData",
        )
    if magic != MAGIC:
        raise CorruptFileError(
            f"the file ends with {magic!r}, not with {MAGIC!r}: it is no Parquet file, or it is truncated",
            offset=file_length - 4,
        )
    length = int.from_bytes(trailer[:4], "little")
    start = file_length - TRAILER_BYTES - length
    if start < len(MAGIC):
        raise CorruptFileError(
            f"the footer claims {length} bytes, but the file has {file_length}: it is truncated",
            offset=file_length - TRAILER_BYTES,
            struct="FileMetaData",
        )
    return start


def parse_footer(raw: bytes, start: int, file_length: int) -> Footer:
    """Parse and check a footer; a column chunk is parsed and checked when it is first looked at.

    Args:
        raw: The footer's bytes, without length and magic.
        start: Where they begin in the file.
        file_length: Length of the file in bytes.

    Raises:
        CorruptFileError: If the bytes are no footer, or contradict themselves.
    """
    source = FooterBytes(raw, start, partial(_check_chunk, file_length=file_length))
    try:
        metadata = parse_file_metadata(source)
        footer = Footer(metadata, raw, start, file_length)
        _check(footer)
    except CorruptFileError as error:
        error.offset = start + (error.offset or 0)
        error.struct = error.struct or "FileMetaData"
        raise
    return footer


def _check(footer: Footer) -> None:
    metadata = footer.metadata
    leaves = footer.leaves
    if metadata.num_rows != footer.num_rows:
        raise CorruptFileError(
            f"the footer counts {metadata.num_rows} rows, its row groups {footer.num_rows}"
        )
    if metadata.column_orders is not None and len(metadata.column_orders) != len(leaves):
        raise CorruptFileError(f"{len(metadata.column_orders)} column orders for {len(leaves)} leaves")
    for ordinal, group in enumerate(metadata.row_groups):
        if group.num_rows < 0:
            raise CorruptFileError(f"row group {ordinal} claims {group.num_rows} rows")
        if len(group.columns) != len(leaves):
            raise CorruptFileError(
                f"row group {ordinal} has {len(group.columns)} columns, the schema {len(leaves)}"
            )


def _check_chunk(chunk: ColumnChunk, row_group: int, file_length: int) -> None:
    """Refuse a chunk whose bytes lie outside the file, or that claims fewer values than none."""
    meta = chunk.meta_data
    if meta is None or chunk.file_path:
        return
    start, stop = chunk_range(meta)
    lies_inside = 0 <= start <= stop <= file_length
    if lies_inside and meta.num_values >= 0:
        return
    claim = f"{meta.num_values} values" if lies_inside else f"bytes {start} to {stop} of {file_length}"
    name = repr(".".join(meta.path_in_schema)) if meta.path_in_schema else "without a path"
    raise CorruptFileError(f"column {name} of row group {row_group} claims {claim}", struct="ColumnMetaData")


def chunk_range(meta: ColumnMetaData) -> tuple[int, int]:
    """Bytes ``start`` to ``stop`` of a column chunk: its dictionary page, if any, and its data pages."""
    start = meta.data_page_offset
    dictionary = meta.dictionary_page_offset
    if dictionary is not None and 0 < dictionary < start:  # 0 is what some writers put for "absent"
        start = dictionary
    return start, start + meta.total_compressed_size


# --- schema ----------------------------------------------------------------------------------------


@lru_cache(maxsize=64)
def shared_leaves(schema: tuple[SchemaElement, ...]) -> tuple[Leaf, ...]:
    """`schema_leaves`, made once for all files that share a schema."""
    return schema_leaves(schema)


def schema_leaves(schema: Sequence[SchemaElement]) -> tuple[Leaf, ...]:
    """The leaves of a flattened schema.

    Raises:
        CorruptFileError: If the elements do not form one tree.
    """
    if not schema:
        raise CorruptFileError("the schema is empty", struct="SchemaElement")
    leaves: list[Leaf] = []
    position = 1

    def visit(path: tuple[str, ...], definition: int, repetition: int, root: int) -> None:
        nonlocal position
        if position >= len(schema):
            raise CorruptFileError("the schema ends before its tree does", struct="SchemaElement")
        if len(path) > MAX_SCHEMA_DEPTH:
            raise CorruptFileError(
                f"the schema is nested deeper than {MAX_SCHEMA_DEPTH}", struct="SchemaElement"
            )
        element = schema[position]
        position += 1
        path = (*path, element.name)
        # absent, it is "required" to Thrift, and so to pyarrow
        if element.repetition_type not in (None, FieldRepetitionType.REQUIRED):
            definition += 1
        if element.repetition_type == FieldRepetitionType.REPEATED:
            repetition += 1
        if element.num_children:
            for _ in range(element.num_children):
                visit(path, definition, repetition, root)
        elif element.type is not None:
            if not Type.BOOLEAN <= element.type <= Type.FIXED_LEN_BYTE_ARRAY:
                raise CorruptFileError(
                    f"{'.'.join(path)!r} has physical type {element.type}", struct="SchemaElement"
                )
            leaves.append(
                Leaf(len(leaves), path, element, _logical_type(element), definition, repetition, root)
            )

    for root in range(schema[0].num_children or 0):
        visit((), 0, 0, root)
    if position != len(schema):
        raise CorruptFileError(f"{len(schema) - position} schema elements hang loose", struct="SchemaElement")
    return tuple(leaves)


def _time(name: str, unit: str) -> LogicalType:
    time = TimestampType(True, TimeUnit(**{unit: Empty()}))
    return LogicalType(TIME=time) if name == "TIME" else LogicalType(TIMESTAMP=time)


_CONVERTED = {
    ConvertedType.UTF8: LogicalType(STRING=Empty()),
    ConvertedType.ENUM: LogicalType(ENUM=Empty()),
    ConvertedType.DATE: LogicalType(DATE=Empty()),
    ConvertedType.JSON: LogicalType(JSON=Empty()),
    ConvertedType.BSON: LogicalType(BSON=Empty()),
    ConvertedType.TIME_MILLIS: _time("TIME", "MILLIS"),
    ConvertedType.TIME_MICROS: _time("TIME", "MICROS"),
    ConvertedType.TIMESTAMP_MILLIS: _time("TIMESTAMP", "MILLIS"),
    ConvertedType.TIMESTAMP_MICROS: _time("TIMESTAMP", "MICROS"),
    **{
        ConvertedType[f"{prefix}_{width}"]: LogicalType(INTEGER=IntType(width, prefix == "INT"))
        for prefix in ("INT", "UINT")
        for width in (8, 16, 32, 64)
    },
}


def _logical_type(element: SchemaElement) -> LogicalType | None:
    if element.logicalType is not None:
        return element.logicalType
    if element.converted_type == ConvertedType.DECIMAL:
        return LogicalType(DECIMAL=DecimalType(element.scale or 0, element.precision or 0))
    return _CONVERTED.get(element.converted_type)  # type: ignore[call-overload,no-any-return]
