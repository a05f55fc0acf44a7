"""What `intarsia.inspect` returns."""

from __future__ import annotations

import dataclasses
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from intarsia.check.inspection.values import json_value


def to_json(value: Any) -> Any:
    """A dataclass, sequence or value as JSON can hold it."""
    if dataclasses.is_dataclass(value) and not isinstance(value, type):
        return {field.name: to_json(getattr(value, field.name)) for field in dataclasses.fields(value)}
    if isinstance(value, Mapping):
        return {str(key): to_json(item) for key, item in value.items()}
    if isinstance(value, (list, tuple)):
        return [to_json(item) for item in value]
    return json_value(value)


@dataclass(frozen=True)
class LeafInspection:
    """One leaf of the schema.

    Attributes:
        name: Its path, dotted.
        physical_type: Parquet's physical type.
        logical_type: The logical type with its parameters, or None.
        arrow_type: Arrow's type; None for a leaf in a list or map.
        is_nullable: Whether a row can lack a value.
        is_repeated: Whether a row can have several.
    """

    name: str
    physical_type: str
    logical_type: str | None
    arrow_type: str | None
    is_nullable: bool
    is_repeated: bool


@dataclass(frozen=True)
class PartSizes:
    """Where a file's bytes are; the sum is the file's length.

    Attributes:
        data: Data pages (with dictionary pages where nothing tells them apart).
        dictionary_pages: Dictionary pages.
        column_indexes: ColumnIndexes.
        offset_indexes: OffsetIndexes.
        bloom_filters: Bloom filters.
        embedded_indexes: Blobs of embedded indexes; payloads in the directory belong to the footer.
        original_footer: The footer of the file before it was retrofitted, which stays inside.
        footer: The footer, its length and the closing magic.
        other: Magic, padding, and what no footer entry points at.
    """

    data: int
    dictionary_pages: int
    column_indexes: int
    offset_indexes: int
    bloom_filters: int
    embedded_indexes: int
    original_footer: int
    footer: int
    other: int


@dataclass(frozen=True)
class PageInspection:
    """One data page, as the page index describes it.

    Attributes:
        ordinal: Position among the chunk's data pages.
        first_row: Its first row, relative to the row group.
        rows: Rows in it.
        offset: Byte offset in the file.
        size_bytes: Bytes, header included.
        min: Lower bound; None for a page of nulls, or where there is no ColumnIndex.
        max: Upper bound, likewise.
        null_count: Nulls, or None where they were not counted.
        nan_count: NaNs, likewise.
        is_null_page: Whether it is said to hold nothing but nulls; None without a ColumnIndex.
    """

    ordinal: int
    first_row: int
    rows: int
    offset: int
    size_bytes: int
    min: Any = None
    max: Any = None
    null_count: int | None = None
    nan_count: int | None = None
    is_null_page: bool | None = None


@dataclass(frozen=True)
class BloomInspection:
    """A Bloom filter.

    Attributes:
        offset: Byte offset of its header.
        size_bytes: Bytes, header included.
        distinct_values: About how many values were put in; only with ``pages=True``.
        false_positives: Share of absent values that it does not deny; only with ``pages=True``.
    """

    offset: int
    size_bytes: int
    distinct_values: int | None = None
    false_positives: float | None = None


@dataclass(frozen=True)
class SizeInspection:
    """The size statistics of a column chunk.

    Attributes:
        value_bytes: Bytes of its BYTE_ARRAY values, not encoded or compressed; None if not recorded.
        repetition_levels: How often each repetition level occurs; None if not recorded.
        definition_levels: How often each definition level occurs; None if not recorded.
    """

    value_bytes: int | None
    repetition_levels: tuple[int, ...] | None
    definition_levels: tuple[int, ...] | None


@dataclass(frozen=True)
class GeospatialInspection:
    """The geospatial statistics of a column chunk.

    Attributes:
        bounding_box: The limits ``xmin``, ``xmax``, ``ymin``, ``ymax``, and perhaps those of Z and M; None if
            there is none. ``xmin`` above ``xmax`` means across the antimeridian.
        types: The types that occur, such as ``"Polygon"`` or ``"Point Z"``; empty if not recorded.
    """

    bounding_box: Mapping[str, float] | None
    types: tuple[str, ...]


@dataclass(frozen=True)
class ChunkInspection:
    """One column of one row group.

    Attributes:
        column: The leaf, dotted.
        codec: Compression.
        encodings: Encodings that occur, levels and dictionary included.
        num_values: Values, nulls included.
        compressed_bytes: Bytes in the file.
        uncompressed_bytes: Bytes when decompressed.
        num_pages: Data pages; None where nothing tells.
        pages_told_by: ``"offset_index"`` or ``"encoding_stats"``; None where nothing tells.
        null_count: Nulls by the statistics.
        min: Lower bound by the statistics.
        max: Upper bound by the statistics.
        is_min_exact: Whether the lower bound is said to be a value; None where nothing tells.
        is_max_exact: Whether the upper bound is.
        bounds_believed: Whether scans use these bounds; None where there are none.
        has_column_index: Whether a ColumnIndex is there and believed.
        has_offset_index: Whether an OffsetIndex is there and believed.
        column_index_bytes: Bytes of the ColumnIndex.
        offset_index_bytes: Bytes of the OffsetIndex.
        boundary_order: ``"unordered"``, ``"ascending"`` or ``"descending"`` by the ColumnIndex.
        bloom_filter: Its Bloom filter.
        sizes: Its size statistics; None if there are none.
        geospatial: Its geospatial statistics; None if there are none.
        notes: What is there and is not believed, and why.
        pages: Its pages; only with ``pages=True``, and where there is an OffsetIndex.
    """

    column: str
    codec: str
    encodings: tuple[str, ...]
    num_values: int
    compressed_bytes: int
    uncompressed_bytes: int
    num_pages: int | None = None
    pages_told_by: str | None = None
    null_count: int | None = None
    min: Any = None
    max: Any = None
    is_min_exact: bool | None = None
    is_max_exact: bool | None = None
    bounds_believed: bool | None = None
    has_column_index: bool = False
    has_offset_index: bool = False
    column_index_bytes: int = 0
    offset_index_bytes: int = 0
    boundary_order: str | None = None
    bloom_filter: BloomInspection | None = None
    sizes: SizeInspection | None = None
    geospatial: GeospatialInspection | None = None
    notes: tuple[str, ...] = ()
    pages: tuple[PageInspection, ...] | None = None


@dataclass(frozen=True)
class RowGroupInspection:
    """One row group.

    Attributes:
        ordinal: Its position in the file.
        num_rows: Its rows.
        size_bytes: Bytes of its column chunks in the file.
        sorted_by: Columns that the writer says it is sorted by, with ``" DESC"`` where descending.
        columns: Its column chunks.
    """

    ordinal: int
    num_rows: int
    size_bytes: int
    sorted_by: tuple[str, ...]
    columns: tuple[ChunkInspection, ...]


@dataclass(frozen=True)
class EntryInspection:
    """An embedded index.

    Attributes:
        name: Its name in the directory.
        kind: Its kind.
        kind_version: The version of the class that wrote it.
        columns: The columns that it is about, dotted.
        granularity: How finely it knows the file.
        parameters: Its parameters.
        offset: Byte offset of its blob; None if its payload stands in the directory.
        size_bytes: Bytes of its blob, or of its payload in the directory.
        is_known: Whether an installed package knows the kind.
        is_believed: Whether scans use it.
        reason: Why they do not.
    """

    name: str
    kind: str
    kind_version: int
    columns: tuple[str, ...]
    granularity: str | int
    parameters: Mapping[str, Any]
    offset: int | None
    size_bytes: int
    is_known: bool
    is_believed: bool
    reason: str | None = None


@dataclass(frozen=True)
class DirectoryInspection:
    """The directory of embedded indexes.

    Attributes:
        is_believed: Whether it belongs to this file.
        reason: Why it does not.
        original_length: Bytes of the file before anything was added; None if the directory is damaged.
        entries: The embedded indexes, also of a directory that is about another file.
    """

    is_believed: bool
    reason: str | None
    original_length: int | None
    entries: tuple[EntryInspection, ...]


@dataclass(frozen=True)
class DatafusionInspection:
    """Distinct values in the form of DataFusion's example, which does not say what column they are of.

    Attributes:
        offset: Where the footer says that they are.
        size_bytes: Their bytes, header included; 0 if they are not there.
        is_believed: Whether they are there.
        reason: Why not.
    """

    offset: int
    size_bytes: int
    is_believed: bool
    reason: str | None = None


@dataclass(frozen=True)
class FileInspection:
    """What a file's footer and indexes say.

    Attributes:
        path: The file.
        size_bytes: Its length.
        created_by: Who wrote it, by its own words.
        num_rows: Its rows.
        sizes: Where the bytes are.
        schema: The leaves of its schema.
        key_values: Keys of the footer's key/value metadata, and the bytes of each value.
        directory: Embedded indexes; None if there are none.
        datafusion_index: Distinct values in DataFusion's form; None if there are none.
        row_groups: The row groups.
        ignored: Indexes that are there and are not believed: name and reason.
    """

    path: str
    size_bytes: int
    created_by: str
    num_rows: int
    sizes: PartSizes
    schema: tuple[LeafInspection, ...]
    key_values: Mapping[str, int]
    directory: DirectoryInspection | None
    datafusion_index: DatafusionInspection | None
    row_groups: tuple[RowGroupInspection, ...]
    ignored: tuple[tuple[str, str], ...]

    def to_dict(self) -> dict[str, Any]:
        """The same as JSON can hold it; binary bounds are hexadecimal, NaN and infinities are text."""
        document: dict[str, Any] = to_json(self)
        document["ignored"] = [{"index": index, "reason": reason} for index, reason in self.ignored]
        return document
