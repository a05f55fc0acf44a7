"""Parsing and checking of ColumnIndex and OffsetIndex.

Source: ``PageIndex.md`` of parquet-format, and errors in files of several writers.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property

import numpy as np
import numpy.typing as npt

from intarsia.errors import CorruptFileError
from intarsia.format import thrift
from intarsia.format.enums import BoundaryOrder
from intarsia.format.location_tables import LocationTable
from intarsia.format.structs import ColumnIndex, OffsetIndex

Int64s = npt.NDArray[np.int64]


@dataclass(frozen=True, eq=False)
class PageRows:
    """The rows of each data page of a column chunk; chunks whose pages have the same rows can share it.

    It is compared by identity, so that it can be a key.

    Attributes:
        starts: First row of each page, relative to the row group.
        num_rows: Number of rows in the row group.
    """

    starts: Int64s
    num_rows: int

    @cached_property
    def stops(self) -> Int64s:
        """The row after the last row of each page, relative to the row group."""
        stops = np.empty_like(self.starts)
        stops[:-1] = self.starts[1:]
        stops[-1:] = self.num_rows
        return stops


@dataclass(frozen=True)
class PageLocations:
    """The data pages of one column chunk, as arrays with one element per page.

    Attributes:
        offsets: Byte offset of each page in the file.
        sizes_bytes: Size of each page, including its header.
        rows: The rows of each page.
    """

    offsets: Int64s
    sizes_bytes: Int64s
    rows: PageRows

    def __len__(self) -> int:
        return len(self.offsets)


def parse_offset_index(
    data: bytes, *, num_rows: int, chunk_start: int, chunk_stop: int, table: LocationTable | None = None
) -> PageLocations:
    """Parse an OffsetIndex and check it against its row group and chunk.

    Args:
        data: The bytes of the OffsetIndex.
        num_rows: Number of rows in the row group.
        chunk_start: Byte offset of the column chunk.
        chunk_stop: Byte offset of its end.
        table: The result of `location_tables` for these bytes.

    Raises:
        CorruptFileError: If it contradicts the row group or the chunk.
    """
    if table is None:
        index, _ = thrift.parse(OffsetIndex, data)
        table = np.array(index.page_locations, dtype=np.int64).reshape(-1, 3)
    offsets, sizes, row_starts = np.ascontiguousarray(table.T)

    def refuse(reason: str, message: str) -> CorruptFileError:
        return CorruptFileError(message, reason=reason, struct="OffsetIndex")

    if not len(offsets):
        raise refuse("no-pages", "it has no pages")
    if sizes.min() <= 0:
        raise refuse("empty-page", "a page has no bytes")
    if offsets.min() < chunk_start or offsets.max() >= chunk_stop:
        raise refuse(
            "page-outside-chunk", f"a page starts outside the chunk at bytes {chunk_start} to {chunk_stop}"
        )
    ends = offsets + sizes  # no overflow, because all offsets are within the chunk
    if ends[-1] > chunk_stop:
        raise refuse(
            "page-outside-chunk",
            f"pages at bytes {offsets[0]} to {ends[-1]} exceed the chunk at {chunk_start} to {chunk_stop}",
        )
    if (offsets[1:] < ends[:-1]).any():
        raise refuse("pages-overlap", "pages overlap or are out of order")
    if row_starts[0] != 0:
        raise refuse("first-row-not-zero", f"the first page starts at row {row_starts[0]}")
    if (row_starts[1:] <= row_starts[:-1]).any():
        raise refuse(
            "rows-not-ascending",
            "first_row_index is not ascending (because of an empty page, or pages that start within a row)",
        )
    if row_starts[-1] >= num_rows:
        raise refuse("row-beyond-row-group", f"a page starts at row {row_starts[-1]} of {num_rows}")
    return PageLocations(offsets, sizes, PageRows(row_starts, num_rows))


def parse_column_index(data: bytes, *, num_pages: int) -> ColumnIndex:
    """Parse a ColumnIndex and check its lists; `intarsia.indexes.column_index` checks its bounds.

    Args:
        data: The bytes of the ColumnIndex.
        num_pages: Number of pages in the OffsetIndex of the same chunk.

    Raises:
        CorruptFileError: If the length of a list differs, or a null page contradicts its null count.
    """
    index, _ = thrift.parse(ColumnIndex, data)

    def refuse(reason: str, message: str) -> CorruptFileError:
        return CorruptFileError(message, reason=reason, struct="ColumnIndex")

    for name in ("null_pages", "min_values", "max_values", "null_counts", "nan_counts"):
        values = getattr(index, name)
        if values is not None and len(values) != num_pages:
            raise refuse(
                f"wrong-length-{name.replace('_', '-')}",
                f"{name} has {len(values)} entries for {num_pages} pages",
            )
    if index.boundary_order not in tuple(BoundaryOrder):
        raise refuse("unknown-boundary-order", f"boundary order {index.boundary_order} is unknown")
    if index.null_counts is not None and (True in index.null_pages or min(index.null_counts, default=0) < 0):
        for page, (is_null, nulls) in enumerate(zip(index.null_pages, index.null_counts, strict=True)):
            if nulls < 0 or (is_null and nulls == 0):
                raise refuse(
                    "contradictory-nulls", f"page {page} has null_page {is_null} and null_count {nulls}"
                )
    return index
