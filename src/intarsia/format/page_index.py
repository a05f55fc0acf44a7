"""ColumnIndex and OffsetIndex: parsed, and checked before anyone trusts them.

Source: ``PageIndex.md`` of parquet-format, and the traps that files of several writers showed.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property

import numpy as np
import numpy.typing as npt

from intarsia.errors import CorruptFileError
from intarsia.format import thrift
from intarsia.format.location_tables import LocationTable
from intarsia.format.structs import BoundaryOrder, ColumnIndex, OffsetIndex

Int64s = npt.NDArray[np.int64]


@dataclass(frozen=True)
class PageLocations:
    """The data pages of one column chunk, as arrays of one length.

    Attributes:
        offsets: Byte offset of each page in the file.
        sizes_bytes: Size of each page, its header included.
        row_starts: First row of each page, relative to the row group.
        num_rows: Rows in the row group, which is where the last page ends.
    """

    offsets: Int64s
    sizes_bytes: Int64s
    row_starts: Int64s
    num_rows: int

    def __len__(self) -> int:
        return len(self.offsets)

    @cached_property
    def row_stops(self) -> Int64s:
        """The row after the last of each page, relative to the row group."""
        stops = np.empty_like(self.row_starts)
        stops[:-1] = self.row_starts[1:]
        stops[-1:] = self.num_rows
        return stops


def parse_offset_index(
    data: bytes, *, num_rows: int, chunk_start: int, chunk_stop: int, table: LocationTable | None = None
) -> PageLocations:
    """Parse an OffsetIndex and check it against its row group and chunk.

    Args:
        data: The bytes of the OffsetIndex.
        num_rows: Rows in the row group.
        chunk_start: Byte offset of the column chunk.
        chunk_stop: Byte offset of its end.
        table: What `location_tables` found in these bytes.

    Raises:
        CorruptFileError: If it cannot describe these pages; the reason says why.
    """
    if table is None:
        index, _ = thrift.parse(OffsetIndex, data)
        table = np.array(index.page_locations, dtype=np.int64).reshape(-1, 3)
    offsets, sizes, row_starts = np.ascontiguousarray(table.T)

    def refuse(reason: str) -> CorruptFileError:
        return CorruptFileError(reason, struct="OffsetIndex")

    if not len(offsets):
        raise refuse("it names no page")
    if sizes.min() <= 0:
        raise refuse("a page has no bytes")
    if offsets.min() < chunk_start or offsets.max() >= chunk_stop:
        raise refuse(f"a page starts outside the chunk, which is bytes {chunk_start} to {chunk_stop}")
    ends = offsets + sizes  # no overflow, now that the offsets are known to be small
    if ends[-1] > chunk_stop:
        raise refuse(
            f"pages at bytes {offsets[0]} to {ends[-1]} lie outside the chunk {chunk_start} to {chunk_stop}"
        )
    if (offsets[1:] < ends[:-1]).any():
        raise refuse("pages overlap, or are out of order")
    if row_starts[0] != 0:
        raise refuse(f"the first page starts at row {row_starts[0]}")
    if (row_starts[1:] <= row_starts[:-1]).any():
        raise refuse("first_row_index does not ascend (an empty page, or pages that start within a row)")
    if row_starts[-1] >= num_rows:
        raise refuse(f"a page starts at row {row_starts[-1]} of {num_rows}")
    return PageLocations(offsets, sizes, row_starts, num_rows)


def parse_column_index(data: bytes, *, num_pages: int) -> ColumnIndex:
    """Parse a ColumnIndex and check its shape; its bounds are judged by `intarsia.indexes.column_index`.

    Args:
        data: The bytes of the ColumnIndex.
        num_pages: Pages in the OffsetIndex of the same chunk.

    Raises:
        CorruptFileError: If its lists differ in length, or a null page contradicts its null count.
    """
    index, _ = thrift.parse(ColumnIndex, data)

    def refuse(reason: str) -> CorruptFileError:
        return CorruptFileError(reason, struct="ColumnIndex")

    for name in ("null_pages", "min_values", "max_values", "null_counts", "nan_counts"):
        values = getattr(index, name)
        if values is not None and len(values) != num_pages:
            raise refuse(f"{name} has {len(values)} entries for {num_pages} pages")
    if index.boundary_order not in tuple(BoundaryOrder):
        raise refuse(f"there is no boundary order {index.boundary_order}")
    if index.null_counts is not None and (True in index.null_pages or min(index.null_counts, default=0) < 0):
        for page, (is_null, nulls) in enumerate(zip(index.null_pages, index.null_counts, strict=True)):
            if nulls < 0 or (is_null and nulls == 0):
                raise refuse(f"page {page} has null_page {is_null} and null_count {nulls}")
    return index
