"""The result of `intarsia.inspect`."""

from __future__ import annotations

import os
from collections.abc import Mapping
from typing import Any

from intarsia.amounts import count, size
from intarsia.file import Ignored
from intarsia.records import dataclass
from intarsia.rows.values import to_json


@dataclass(frozen=True)
class LeafInspection:
    """One leaf of the schema.

    Attributes:
        name: Its dotted path.
        physical_type: Parquet's physical type.
        logical_type: The logical type with its parameters, or None.
        arrow_type: Arrow's type; None for a leaf in a list or map.
        is_nullable: Whether a row can have no value.
        is_repeated: Whether a row can have several values.
    """

    name: str
    physical_type: str
    logical_type: str | None
    arrow_type: str | None
    is_nullable: bool
    is_repeated: bool


@dataclass(frozen=True)
class PartSizes:
    """The sizes of a file's parts in bytes; their sum is the file's length.

    If only some columns or row groups are described, all others are in `other`.

    Attributes:
        data: Data pages (including dictionary pages whose location is unknown).
        dictionary_pages: Dictionary pages.
        column_indexes: ColumnIndexes.
        offset_indexes: OffsetIndexes.
        bloom_filters: Bloom filters.
        embedded_indexes: Blobs of embedded indexes; inline payloads belong to the footer.
        original_footer: The footer of the original file, if indexes are attached.
        footer: The footer, its length and the closing magic.
        other: Magic, padding and unreferenced bytes.
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
    """One data page according to the page index.

    Attributes:
        ordinal: Position among the chunk's data pages.
        first_row: Its first row, relative to the row group.
        rows: Number of rows.
        offset: Byte offset in the file.
        size_bytes: Size including the header.
        min: Lower bound; None for a page of nulls, or without a ColumnIndex.
        max: Upper bound, likewise.
        null_count: Number of nulls; None if unknown.
        nan_count: Number of NaNs; None if unknown.
        is_null_page: Whether the page contains only nulls; None without a ColumnIndex.
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
        size_bytes: Size including the header.
        distinct_values: Estimated number of values; only with ``pages=True``.
        false_positives: Estimated false-positive rate; only with ``pages=True``.
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
        column: The dotted path of the leaf.
        codec: Compression codec.
        encodings: Encodings of values, levels and dictionary.
        num_values: Number of values, including nulls.
        compressed_bytes: Size in the file.
        uncompressed_bytes: Size when decompressed.
        offset: Byte offset of its first page; None if it is encrypted or in another file.
        dictionary_page_offset: Byte offset of its dictionary page; None without one, or if unknown.
        data_page_offset: Byte offset of its first data page, as the footer says.
        num_pages: Number of data pages; None if unknown.
        num_pages_source: ``"offset_index"`` or ``"encoding_stats"``; None if the number is unknown.
        null_count: Number of nulls according to the statistics.
        min: Lower bound in the statistics.
        max: Upper bound in the statistics.
        is_min_exact: Whether the lower bound is declared to be a value; None if not stated.
        is_max_exact: The same for the upper bound.
        bounds_trusted: Whether scans use these bounds; None without bounds.
        bounds_reason: Why scans ignore these bounds; None if they use them, or without bounds.
        has_column_index: Whether the chunk has a trusted ColumnIndex.
        has_offset_index: Whether the chunk has a trusted OffsetIndex.
        column_index_offset: Byte offset of the ColumnIndex; None without one.
        offset_index_offset: Byte offset of the OffsetIndex; None without one.
        column_index_bytes: Size of the ColumnIndex.
        offset_index_bytes: Size of the OffsetIndex.
        boundary_order: ``"unordered"``, ``"ascending"`` or ``"descending"`` according to the ColumnIndex.
        bloom_filter: Its Bloom filter.
        sizes: Its size statistics; None if there are none.
        geospatial: Its geospatial statistics; None if there are none.
        ignored_metadata: Metadata that is ignored, and why.
        pages: Its pages; only with ``pages=True`` and an OffsetIndex.
    """

    column: str
    codec: str
    encodings: tuple[str, ...]
    num_values: int
    compressed_bytes: int
    uncompressed_bytes: int
    offset: int | None = None
    dictionary_page_offset: int | None = None
    data_page_offset: int | None = None
    num_pages: int | None = None
    num_pages_source: str | None = None
    null_count: int | None = None
    min: Any = None
    max: Any = None
    is_min_exact: bool | None = None
    is_max_exact: bool | None = None
    bounds_trusted: bool | None = None
    bounds_reason: str | None = None
    has_column_index: bool = False
    has_offset_index: bool = False
    column_index_offset: int | None = None
    offset_index_offset: int | None = None
    column_index_bytes: int = 0
    offset_index_bytes: int = 0
    boundary_order: str | None = None
    bloom_filter: BloomInspection | None = None
    sizes: SizeInspection | None = None
    geospatial: GeospatialInspection | None = None
    ignored_metadata: tuple[str, ...] = ()
    pages: tuple[PageInspection, ...] | None = None


@dataclass(frozen=True)
class RowGroupInspection:
    """One row group.

    Attributes:
        ordinal: Its position in the file.
        num_rows: Number of rows.
        size_bytes: Size of its column chunks in the file.
        sorted_by: Columns by which it is declared to be sorted, with ``" DESC"`` if descending.
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
        columns: The dotted paths of its columns.
        granularity: The size of its granules.
        parameters: Its parameters.
        offset: Byte offset of its blob; None if its payload is in the directory.
        size_bytes: Size of its blob, or of its payload in the directory.
        is_known: Whether an installed package implements the kind.
        is_trusted: Whether scans use it.
        reason: Why scans ignore it; None if they use it.
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
    is_trusted: bool
    reason: str | None = None


@dataclass(frozen=True)
class DirectoryInspection:
    """The directory of embedded indexes.

    Attributes:
        is_trusted: Whether it belongs to this file.
        reason: Why it is ignored; None if it belongs to this file.
        original_length: Length of the original file; None if the directory is damaged.
        entries: The embedded indexes, including those of another file's directory.
        original_footer_offset: Byte offset of the footer of the original file; None if it is not there.
    """

    is_trusted: bool
    reason: str | None
    original_length: int | None
    entries: tuple[EntryInspection, ...]
    original_footer_offset: int | None = None


@dataclass(frozen=True)
class DatafusionInspection:
    """Distinct values in the form of DataFusion's example, which does not name their column.

    Attributes:
        offset: Byte offset according to the footer.
        size_bytes: Size including the header; 0 if they cannot be read.
        is_trusted: Whether they can be read.
        reason: Why they are ignored; None if they can be read.
    """

    offset: int
    size_bytes: int
    is_trusted: bool
    reason: str | None = None


#: The parts of a file that belong to its columns.
_OF_COLUMNS = ("data", "dictionary_pages")


@dataclass(frozen=True)
class FileInspection:
    """The description of a file by its footer and indexes; ``str()`` returns a summary in one line.

    Attributes:
        path: The file.
        size_bytes: Its length.
        created_by: The writer according to the footer; None if not stated.
        num_rows: Number of rows.
        num_row_groups: Number of row groups, described or not.
        footer_offset: Byte offset of the footer.
        sizes: The sizes of its parts.
        schema: The leaves of its schema that are described.
        key_values: Keys of the footer's key/value metadata, and the size of each value in bytes.
        directory: The directory of embedded indexes; None if there is none.
        datafusion_index: Distinct values in DataFusion's form; None if there are none.
        row_groups: The row groups that are described.
        ignored: Indexes that are ignored, and why.
    """

    path: str
    size_bytes: int
    created_by: str
    num_rows: int
    num_row_groups: int
    footer_offset: int
    sizes: PartSizes
    schema: tuple[LeafInspection, ...]
    key_values: Mapping[str, int]
    directory: DirectoryInspection | None
    datafusion_index: DatafusionInspection | None
    row_groups: tuple[RowGroupInspection, ...]
    ignored: tuple[Ignored, ...]

    def __str__(self) -> str:
        rows, groups = count(self.num_rows, "row"), count(self.num_row_groups, "row group")
        entries = self.directory.entries if self.directory is not None else ()
        indexes = f"; embedded {', '.join(entry.name for entry in entries)}" if entries else ""
        ignored = f"; ignored {', '.join(note.index for note in self.ignored)}" if self.ignored else ""
        return (
            f"{self.path}: {rows} in {groups}, {count(len(self.schema), 'column')}, "
            f"{self.size_bytes:,} bytes{indexes}{ignored}"
        )

    def _repr_html_(self) -> str:
        from intarsia.picture import Bar, draw_bars, in_notebook

        sizes: dict[str, int] = {}
        for group in self.row_groups:
            for chunk in group.columns:
                sizes[chunk.column] = sizes.get(chunk.column, 0) + chunk.compressed_bytes
        parts = {
            name.replace("_", " "): one for name, one in vars(self.sizes).items() if name not in _OF_COLUMNS
        }
        whole = max(self.size_bytes, 1)
        bars = [Bar(name, one / whole, "statistics", size(one)) for name, one in sizes.items()]
        bars += [Bar(name, one / whole, "embedded", size(one)) for name, one in parts.items() if one]
        return in_notebook(draw_bars(os.path.basename(self.path), str(self), bars))

    def to_dict(self) -> dict[str, Any]:
        """Convert to a JSON object; binary bounds are hexadecimal, NaN and infinities are strings."""
        document: dict[str, Any] = to_json(self)
        document["ignored"] = [
            {"index": note.index, "reason": note.reason, "code": note.code} for note in self.ignored
        ]
        return document
