"""The footer: its location, its contents, and the leaves of its schema."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from functools import lru_cache, partial
from itertools import accumulate
from operator import attrgetter

import numpy as np
import numpy.typing as npt

from intarsia.errors import CorruptFileError, UnsupportedFeatureError
from intarsia.format.enums import ConvertedType, FieldRepetitionType, Type
from intarsia.format.row_groups import FooterBytes, parse_file_metadata
from intarsia.format.structs import (
    ColumnChunk,
    ColumnMetaData,
    DecimalType,
    Empty,
    FileMetaData,
    IntType,
    LogicalType,
    SchemaElement,
    TimestampType,
    TimeUnit,
)
from intarsia.once import cached_property
from intarsia.records import dataclass

MAGIC = b"PAR1"
ENCRYPTED_MAGIC = b"PARE"

#: Proposed for files whose only footer is in FlatBuffers.
FLATBUFFERS_MAGIC = b"PAR3"

_NUM_ROWS = attrgetter("num_rows")

#: Size of the footer's length and the closing magic.
TRAILER_BYTES = 8

#: The size of the smallest Parquet file: two magics and a footer's length.
SMALLEST_FILE_BYTES = 12

#: The key of the writers of the files from which the rewriter of parquet-mr has copied pages and metadata.
COPIED_WRITERS = b"original.created.by"

#: The number of bytes that show whether a file is text.
HEAD_BYTES = 512

#: Those that text has are tab, line feed, form feed and carriage return.
_CONTROL_CHARACTERS = frozenset(range(32)) - frozenset(b"\t\n\f\r")

#: Logical types whose values are UTF-8.
_TEXT_NAMES = frozenset(("STRING", "ENUM", "JSON"))

#: The limit on the depth of a schema, higher than any real one; stops hostile schemas.
MAX_SCHEMA_DEPTH = 100


@dataclass(frozen=True)
class Leaf:
    """A leaf of the schema: a column that has chunks and pages.

    Attributes:
        ordinal: Position among the leaves, which is the position of its chunk in each row group.
        path: Names from the root's child down to the leaf.
        logical: The logical type, from ``LogicalType`` or the older ``ConvertedType``.
        max_definition_level: Number of optional and repeated fields on the path.
        max_repetition_level: Number of repeated fields on the path; 0 for a leaf outside lists and maps.
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
        """The name of the logical type, such as ``"TIMESTAMP"``; None for a leaf without logical type."""
        return self.logical.name if self.logical else None

    @cached_property
    def is_flat(self) -> bool:
        """Whether every row has exactly one value or null."""
        return self.max_repetition_level == 0

    @cached_property
    def is_float(self) -> bool:
        """Whether values are floating-point numbers, with NaN and signed zeros."""
        return self.type in (Type.FLOAT, Type.DOUBLE) or self.logical_name == "FLOAT16"

    @cached_property
    def is_signed(self) -> bool:
        """Whether values are numbers that compare as signed ones, like deprecated bounds."""
        integer = self.logical.INTEGER if self.logical is not None else None
        is_number = self.type in (Type.INT32, Type.INT64, Type.FLOAT, Type.DOUBLE)
        return is_number and (integer is None or integer.isSigned)

    @cached_property
    def is_text(self) -> bool:
        """Whether values are UTF-8."""
        return self.logical_name in _TEXT_NAMES


@dataclass(frozen=True)
class Footer:
    """A parsed footer, and values derived from it.

    Attributes:
        metadata: The footer as a struct.
        raw: The bytes of the footer, without length and magic.
        start: Byte offset of ``raw`` in the file.
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
        """First row of each row group, and the number of rows at the end."""
        counts = accumulate(map(_NUM_ROWS, self.metadata.row_groups), initial=0)
        return np.fromiter(counts, dtype=np.int64, count=len(self.metadata.row_groups) + 1)

    @cached_property
    def num_rows(self) -> int:
        """Number of rows in the file."""
        return sum(map(_NUM_ROWS, self.metadata.row_groups))

    @cached_property
    def key_values(self) -> dict[bytes, bytes]:
        """Key/value metadata; of equal keys the first is used, as in pyarrow."""
        out: dict[bytes, bytes] = {}
        for key, value in self.metadata.key_value_metadata or ():
            out.setdefault(key, value or b"")
        return out

    @cached_property
    def created_by(self) -> str:
        """The writer of the file, or an empty string."""
        return (self.metadata.created_by or b"").decode("utf-8", "replace")

    @cached_property
    def writers(self) -> tuple[str, ...]:
        """The writer of the file, and those whose pages and metadata it has copied."""
        copied = self.key_values.get(COPIED_WRITERS, b"").decode("utf-8", "replace")
        return (self.created_by, *filter(None, copied.split("\n")))

    def column_order(self, leaf: Leaf) -> str | None:
        """Return the name of the order of a leaf's bounds, such as ``"TYPE_ORDER"``.

        Returns:
            The name; an empty string for an order that is unknown or does not apply to the leaf's type; None
            if the footer declares no column orders.
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

    def contains_range(self, start: int, stop: int) -> bool:
        """Return whether a range is not empty and in the file's body, between the magic and the footer."""
        return len(MAGIC) <= start < stop <= self.start

    def chunk(self, row_group: int, leaf: Leaf) -> ColumnChunk:
        """Return the column chunk of a leaf in a row group."""
        return self.metadata.row_groups[row_group].columns[leaf.ordinal]

    def chunk_metadata(self, row_group: int, leaf: Leaf) -> ColumnMetaData:
        """Return the metadata of a chunk.

        Raises:
            UnsupportedFeatureError: If the column is encrypted or in another file.
        """
        chunk = self.metadata.row_groups[row_group].columns[leaf.ordinal]
        if chunk.file_path:
            raise UnsupportedFeatureError(
                f"column {leaf.name!r} is in another file "
                f"({chunk.file_path.decode('utf-8', 'replace')}); open that file instead of the summary",
                reason="column-in-another-file",
                column=leaf.name,
                struct="ColumnChunk",
            )
        if chunk.meta_data is None or chunk.crypto_metadata is not None:
            raise UnsupportedFeatureError(
                f"column {leaf.name!r} is encrypted; decrypt the file first, because Intarsia reads and "
                "indexes plain columns only",
                reason="encrypted-column",
                column=leaf.name,
                struct="ColumnChunk",
            )
        return chunk.meta_data


def is_text(head: bytes) -> bool:
    """Return whether a file is certainly not Parquet, because its first bytes are text.

    Args:
        head: The first `HEAD_BYTES` bytes, or all bytes of a smaller file; at least 4.

    Example:
        >>> is_text(b"id,name"), is_text(b"PAR1"), is_text(bytes(12))
        (True, False, False)
    """
    return not head.startswith((MAGIC, ENCRYPTED_MAGIC)) and _CONTROL_CHARACTERS.isdisjoint(head)


def footer_bytes_by(trailer: bytes) -> int:
    """Return the size of a footer with its length and magic, by the last bytes; 0 if they have no magic."""
    return int.from_bytes(trailer[:4], "little") + TRAILER_BYTES if trailer[4:] == MAGIC else 0


def footer_start(trailer: bytes, file_length: int) -> int:
    """Return the byte offset of the footer, computed from the last 8 bytes of a file.

    Args:
        trailer: The last `TRAILER_BYTES` bytes, or fewer if the file is shorter.

    Raises:
        CorruptFileError: If the file is not a Parquet file, or is truncated.
        UnsupportedFeatureError: If the footer is encrypted.
    """
    if file_length == 0:
        raise CorruptFileError("the file is empty: 0 bytes", reason="empty-file")
    if file_length < SMALLEST_FILE_BYTES:
        raise CorruptFileError(
            f"{file_length} bytes are too few for a Parquet file, which has at least {SMALLEST_FILE_BYTES}",
            reason="file-too-short",
        )
    magic = trailer[4:]
    if magic == ENCRYPTED_MAGIC:
        raise UnsupportedFeatureError(
            "the footer is encrypted; decrypt the file first, because Intarsia reads plain footers only",
            reason="encrypted-footer",
            offset=file_length - 4,
            struct="FileCryptoMetaData",
        )
    if magic == FLATBUFFERS_MAGIC:
        raise UnsupportedFeatureError(
            "the file has only a FlatBuffers footer (PAR3); write it with a Thrift footer, too",
            reason="flatbuffers-footer",
            offset=file_length - 4,
            struct="FileMetaData",
        )
    if magic != MAGIC:
        raise CorruptFileError(
            f"the file ends with {magic!r}, not with {MAGIC!r}; it is not a Parquet file or it is truncated",
            reason="wrong-magic",
            offset=file_length - 4,
        )
    length = int.from_bytes(trailer[:4], "little")
    start = file_length - TRAILER_BYTES - length
    if start < len(MAGIC):
        raise CorruptFileError(
            f"the footer claims {length} bytes, but the file has {file_length}; it is truncated",
            reason="truncated-file",
            offset=file_length - TRAILER_BYTES,
            struct="FileMetaData",
        )
    return start


def parse_footer(raw: bytes, start: int, file_length: int) -> Footer:
    """Parse and check a footer, whose column chunks are parsed and checked on first access.

    Args:
        raw: The bytes of the footer, without length and magic.
        start: Their offset in the file.
        file_length: Length of the file in bytes.

    Raises:
        CorruptFileError: If the bytes are not a footer, or contradict themselves.
    """
    source = FooterBytes(raw, start, partial(_check_chunk, file_length=file_length))
    try:
        footer = Footer(parse_file_metadata(source), raw, start, file_length)
        _check(footer)
    except CorruptFileError as error:
        error.at(offset=start + (error.offset or 0), struct="FileMetaData")
        raise
    return footer


def _check(footer: Footer) -> None:
    metadata = footer.metadata
    leaves = footer.leaves
    # parquet-rs 0.3 did not count the rows of the file
    is_uncounted = metadata.num_rows == 0 and footer.created_by.startswith("parquet-rs version 0.")
    if not is_uncounted and metadata.num_rows != footer.num_rows:
        raise CorruptFileError(
            f"the footer claims {metadata.num_rows} rows, but its row groups have {footer.num_rows}",
            reason="row-count-mismatch",
        )
    if metadata.column_orders is not None and len(metadata.column_orders) != len(leaves):
        raise CorruptFileError(
            f"the footer has {len(metadata.column_orders)} column orders for {len(leaves)} leaves",
            reason="column-order-count-mismatch",
        )
    for ordinal, group in enumerate(metadata.row_groups):
        if group.num_rows < 0:
            raise CorruptFileError(
                f"row group {ordinal} claims {group.num_rows} rows", reason="negative-row-count"
            )
        if len(group.columns) != len(leaves):
            raise CorruptFileError(
                f"row group {ordinal} has {len(group.columns)} columns, but the schema has {len(leaves)}",
                reason="column-count-mismatch",
            )


def _check_chunk(chunk: ColumnChunk, row_group: int, file_length: int) -> None:
    """Refuse a chunk whose bytes are outside the file, or whose number of values is negative."""
    meta = chunk.meta_data
    if meta is None or chunk.file_path:
        return
    start, stop = chunk_range(meta)
    is_inside = 0 <= start <= stop <= file_length
    if is_inside and meta.num_values >= 0:
        return
    claim = f"{meta.num_values} values" if is_inside else f"bytes {start} to {stop} of {file_length}"
    name = ".".join(meta.path_in_schema) if meta.path_in_schema else None
    shown = "without a path" if name is None else repr(name)
    raise CorruptFileError(
        f"column {shown} of row group {row_group} claims {claim}",
        reason="negative-value-count" if is_inside else "chunk-outside-file",
        column=name,
        struct="ColumnMetaData",
    )


def chunk_range(meta: ColumnMetaData) -> tuple[int, int]:
    """Return start and stop of a column chunk: its dictionary page, if any, and its data pages."""
    start = meta.data_page_offset
    dictionary = meta.dictionary_page_offset
    if dictionary is not None and 0 < dictionary < start:  # some writers write 0 for "absent"
        start = dictionary
    return start, start + meta.total_compressed_size


# --- schema ----------------------------------------------------------------------------------------


def _wrong_schema(reason: str, message: str, column: str | None = None) -> CorruptFileError:
    return CorruptFileError(message, reason=reason, column=column, struct="SchemaElement")


def schema_paths(schema: Sequence[SchemaElement]) -> Iterator[tuple[SchemaElement, ...]]:
    """Yield each element of a flattened schema but its root, after the groups around it.

    Raises:
        CorruptFileError: If the elements do not form one tree.
    """
    if not schema:
        raise _wrong_schema("empty-schema", "the schema is empty")
    groups: list[SchemaElement] = []
    open_children = [schema[0].num_children or 0]  # of the root and of each group
    for position, element in enumerate(schema[1:], start=1):
        while open_children and open_children[-1] <= 0:  # the innermost group is complete
            open_children.pop()
            del groups[-1:]
        if not open_children:
            raise _wrong_schema(
                "surplus-schema-elements",
                f"the schema has {len(schema) - position} elements outside its tree",
            )
        if len(groups) > MAX_SCHEMA_DEPTH:
            raise _wrong_schema(
                "schema-too-deep", f"the schema is nested more than {MAX_SCHEMA_DEPTH} levels deep"
            )
        yield (*groups, element)
        open_children[-1] -= 1
        if element.num_children:
            groups.append(element)
            open_children.append(element.num_children)
    if any(count > 0 for count in open_children):
        raise _wrong_schema("truncated-schema", "the schema has fewer elements than its tree")


def schema_leaves(schema: Sequence[SchemaElement]) -> tuple[Leaf, ...]:
    """Return the leaves of a flattened schema.

    Raises:
        CorruptFileError: If the elements do not form one tree.
    """
    leaves: list[Leaf] = []
    root = -1
    for path in schema_paths(schema):
        root += len(path) == 1
        element = path[-1]
        if element.num_children or element.type is None:
            continue
        names = tuple([one.name for one in path])
        if not Type.BOOLEAN <= element.type <= Type.FIXED_LEN_BYTE_ARRAY:
            raise _wrong_schema(
                "unknown-physical-type",
                f"{'.'.join(names)!r} has the unknown physical type {element.type}",
                column=".".join(names),
            )
        # if it is absent, Thrift and therefore pyarrow treat it as "required"
        repetitions = [one.repetition_type or FieldRepetitionType.REQUIRED for one in path]
        definition = len(path) - repetitions.count(FieldRepetitionType.REQUIRED)
        repetition = repetitions.count(FieldRepetitionType.REPEATED)
        leaves.append(Leaf(len(leaves), names, element, _logical_type(element), definition, repetition, root))
    return tuple(leaves)


#: `schema_leaves` of a tuple, cached for files that share a schema.
shared_leaves = lru_cache(maxsize=64)(schema_leaves)


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
    if element.converted_type == ConvertedType.INTERVAL:  # parquet-mr adds UNKNOWN, the type of nulls
        return None
    if element.logicalType is not None:
        return element.logicalType
    if element.converted_type == ConvertedType.DECIMAL:
        return LogicalType(DECIMAL=DecimalType(element.scale or 0, element.precision or 0))
    return _CONVERTED.get(element.converted_type)  # type: ignore[call-overload,no-any-return]
