"""The page index of one column chunk, computed from its bytes.

Refusals are `IndexBuildError`: what the specification forbids to index stays without an index.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from intarsia.bounds import boundary_order
from intarsia.errors import FormatError, IndexBuildError
from intarsia.format.levels import PageLevels, levels_are_compressed, page_levels
from intarsia.format.page_header import Page, walk_pages
from intarsia.format.structs import (
    ColumnIndex,
    ColumnMetaData,
    OffsetIndex,
    PageEncodingStats,
    PageLocation,
    Type,
)
from intarsia.retrofit.decompress import decompress
from intarsia.retrofit.leaf_values import LeafReader
from intarsia.retrofit.page_bounds import PageBounds, count_by_page, page_bounds

Counts = npt.NDArray[np.int64]

#: Why a column has no column index, when it is its type.
NO_ORDER = "its type has no defined order"

#: Bounds leave NaN out, as the specification asks, and readers of today do not look at ``nan_counts``.  To
#: Spark, DuckDB and DataFusion NaN is greater than every number, so by such bounds they skip pages whose NaN
#: match ``x > 5``.  parquet-java writes no column index then, either.
HOLDS_NAN = (
    "it holds NaN, and readers to which NaN is the greatest number would skip it by bounds without NaN"
)


@dataclass(frozen=True)
class ChunkPages:
    """The pages of a chunk and the rows in them.

    Attributes:
        pages: Every page, the dictionary page included.
        data: The data pages.
        levels: Levels of each data page, where nesting made it necessary to count them.
        num_rows: Rows of each data page.
    """

    pages: Sequence[Page]
    data: Sequence[Page]
    levels: Sequence[PageLevels] | None
    num_rows: Counts

    @property
    def num_values(self) -> Counts:
        """Values of each data page, nulls and empty lists included."""
        return np.array([page.num_values for page in self.data], dtype=np.int64)

    @property
    def first_rows(self) -> Counts:
        """First row of each data page, relative to the row group."""
        return np.cumsum(self.num_rows) - self.num_rows

    def offset_index(self, chunk_start: int, value_bytes: Counts | None = None) -> OffsetIndex:
        """The pages as an OffsetIndex.

        Args:
            chunk_start: Byte offset of the chunk in the file.
            value_bytes: Bytes of the values of each page, where they are known.
        """
        locations = [
            PageLocation(chunk_start + page.start, page.stop - page.start, first_row)
            for page, first_row in zip(self.data, self.first_rows.tolist(), strict=True)
        ]
        return OffsetIndex(locations, None if value_bytes is None else value_bytes.tolist())

    def encoding_stats(self) -> list[PageEncodingStats]:
        """How many pages there are of each type and encoding."""
        counts = Counter((page.header.type, page.encoding) for page in self.pages if page.encoding >= 0)
        return [
            PageEncodingStats(kind, encoding, count) for (kind, encoding), count in sorted(counts.items())
        ]


@dataclass(frozen=True)
class ChunkIndex:
    """What could be computed for a chunk.

    Attributes:
        offset_index: Where the pages are.
        column_index: Their bounds; None where there may be none.
        encoding_stats: Encodings of the pages.
        reason: Why there is no column index; None if there is one.
    """

    offset_index: OffsetIndex
    column_index: ColumnIndex | None
    encoding_stats: list[PageEncodingStats]
    reason: str | None = None


def index_chunk(
    chunk: bytes,
    chunk_start: int,
    meta: ColumnMetaData,
    num_rows: int,
    reader: LeafReader,
    *,
    total_order: bool = False,
    refusal: str | None = None,
) -> ChunkIndex:
    """Compute the page index of a chunk.

    Args:
        chunk: Its bytes.
        chunk_start: Their offset in the file.
        meta: What the footer says of it.
        num_rows: Rows in the row group.
        reader: Decodes the leaf's values.
        total_order: Whether the column's order is IEEE 754's total order.
        refusal: Why there is to be no column index, if there is to be none.

    Raises:
        IndexBuildError: If the pages may not even have an OffsetIndex; the message is the reason.
        FormatError: If the pages are damaged.
    """
    found = chunk_pages(chunk, meta, num_rows, reader)
    stats = found.encoding_stats()
    if refusal is not None:
        return ChunkIndex(found.offset_index(chunk_start), None, stats, refusal)
    try:
        index, value_bytes = _column_index(chunk, found, meta, num_rows, reader, total_order)
    except (FormatError, IndexBuildError) as error:
        return ChunkIndex(found.offset_index(chunk_start), None, stats, str(error))
    reason = None if index is not None else HOLDS_NAN
    return ChunkIndex(found.offset_index(chunk_start, value_bytes), index, stats, reason)


def chunk_pages(chunk: bytes, meta: ColumnMetaData, num_rows: int, reader: LeafReader) -> ChunkPages:
    """Walk the pages of a chunk and find the rows of each.

    Raises:
        IndexBuildError: If the pages may not have an OffsetIndex; the message is the reason.
        FormatError: If the pages are damaged.
    """
    leaf = reader.leaf
    pages = walk_pages(chunk, meta.num_values)
    data = [page for page in pages if page.is_data]
    if not data:
        raise IndexBuildError("it has no data pages")
    levels = None
    rows = [page.num_values for page in data]
    if leaf.max_repetition_level or leaf.max_definition_level > 1:
        levels = [_levels(chunk, page, meta, reader) for page in data]
        rows = [counted.num_rows for counted in levels]
        if not all(counted.starts_row for counted in levels):
            raise IndexBuildError("a page starts within a row")
    if not all(rows):
        raise IndexBuildError("a page is empty")
    for page, counted in zip(data, rows, strict=True):
        two = page.header.data_page_header_v2
        if two is not None and two.num_rows != counted:
            raise IndexBuildError(f"a page's header claims {two.num_rows} rows, its levels {counted}")
    if sum(rows) != num_rows:
        raise IndexBuildError(f"its pages hold {sum(rows)} rows, the row group has {num_rows}")
    return ChunkPages(pages, data, levels, np.array(rows, dtype=np.int64))


def _levels(chunk: bytes, page: Page, meta: ColumnMetaData, reader: LeafReader) -> PageLevels:
    body = memoryview(chunk)[page.body_start : page.stop]
    if levels_are_compressed(page.header):
        body = decompress(body, meta.codec, page.header.uncompressed_page_size)
    return page_levels(body, page.header, reader.leaf)


def _column_index(
    chunk: bytes,
    found: ChunkPages,
    meta: ColumnMetaData,
    num_rows: int,
    reader: LeafReader,
    total_order: bool,
) -> tuple[ColumnIndex | None, Counts | None]:
    """The column index, or None where NaN forbids it; and the bytes of each page's values, if known."""
    leaf, ordering = reader.leaf, reader.ordering
    if ordering is None:
        raise IndexBuildError(NO_ORDER)
    column = reader.read(
        chunk,
        meta,
        num_rows,
        data_page_start=found.data[0].start,
        # strings that all pages take from the dictionary need not be spread out
        as_dictionary=leaf.type == Type.BYTE_ARRAY
        and not ordering.decimal
        and len(leaf.path) == 1
        and leaf.is_flat
        and all(page.uses_dictionary for page in found.data),
    )
    present = _present_counts(found, column, num_rows)
    values = column.drop_null() if column.null_count else column
    if len(values) != present.sum():
        raise IndexBuildError(f"its levels tell of {present.sum()} values, {len(values)} were decoded")
    null_counts = found.num_values - present
    holds = present > 0
    starts = (np.cumsum(present) - present)[holds]
    bounds = PageBounds([], [], np.empty(0, np.int64) if ordering.is_float else None)
    if len(starts):
        bounds = page_bounds(values, starts, ordering, total_order=total_order)
    value_bytes = None
    if leaf.type == Type.BYTE_ARRAY and not ordering.decimal:
        value_bytes = _spread(bounds.value_bytes, holds)
    if bounds.nan_counts is not None and bounds.nan_counts.any() and not total_order:
        return None, value_bytes
    order = boundary_order(ordering.decode(bounds.minima), ordering.decode(bounds.maxima))
    nan_counts = None if bounds.nan_counts is None else _spread(bounds.nan_counts, holds).tolist()
    levels = found.levels or ()
    index = ColumnIndex(
        null_pages=(~holds).tolist(),
        min_values=_fill(bounds.minima, holds),
        max_values=_fill(bounds.maxima, holds),
        boundary_order=int(order),
        null_counts=null_counts.tolist(),
        repetition_level_histograms=(
            [count for page in levels for count in page.repetition.histogram.tolist()]
            if leaf.max_repetition_level
            else None
        ),
        definition_level_histograms=(
            [count for page in levels for count in page.definition.histogram.tolist()]
            if leaf.max_definition_level > 1
            else None
        ),
        nan_counts=nan_counts,
    )
    return index, value_bytes


def _present_counts(found: ChunkPages, column: pa.ChunkedArray, num_rows: int) -> Counts:
    """Values of each page that are neither null nor stand for an empty or null list."""
    if found.levels is not None:
        return np.array([levels.num_present for levels in found.levels], dtype=np.int64)
    if len(column) != num_rows:
        raise IndexBuildError(f"its pages claim {num_rows} rows, {len(column)} were decoded")
    if not column.null_count:
        return found.num_values
    valid = np.concatenate([chunk.is_valid().to_numpy(zero_copy_only=False) for chunk in column.chunks])
    return count_by_page(valid, found.first_rows)


def _spread(counts: Counts | None, holds: npt.NDArray[np.bool_]) -> Counts:
    """Counts of the pages that hold a value, with 0 for the others."""
    spread = np.zeros(len(holds), dtype=np.int64)
    if counts is not None:
        spread[holds] = counts
    return spread


def _fill(bounds: list[bytes], holds: npt.NDArray[np.bool_]) -> list[bytes]:
    """Bounds of the pages that hold a value, with empty ones for the others."""
    given = iter(bounds)
    return [next(given) if held else b"" for held in holds.tolist()]
