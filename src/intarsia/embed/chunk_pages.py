"""Find the rows of each page of a column chunk.

`IndexBuildError` means that the pages cannot have an OffsetIndex.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from intarsia.embed.page_counts import count_levels
from intarsia.errors import IndexBuildError
from intarsia.format.footer import Leaf
from intarsia.format.levels import PageLevels
from intarsia.format.page_header import Page
from intarsia.format.structs import ColumnMetaData, OffsetIndex, PageEncodingStats, PageLocation

Counts = npt.NDArray[np.int64]


@dataclass(frozen=True)
class LocatedPages:
    """The pages of a chunk and the rows in them.

    Attributes:
        pages: All pages, including the dictionary page.
        data: The data pages.
        levels: Levels of each data page; None for columns where counting them is not necessary.
        num_rows: Number of rows of each data page.
    """

    pages: Sequence[Page]
    data: Sequence[Page]
    levels: Sequence[PageLevels] | None
    num_rows: Counts

    @property
    def num_values(self) -> Counts:
        """Number of values of each data page, including nulls and empty lists."""
        return np.array([page.num_values for page in self.data], dtype=np.int64)

    @property
    def first_rows(self) -> Counts:
        """First row of each data page, relative to the row group."""
        return np.cumsum(self.num_rows) - self.num_rows

    def offset_index(self, chunk_start: int, value_bytes: Counts | None = None) -> OffsetIndex:
        """Return the OffsetIndex of the pages.

        Args:
            chunk_start: Byte offset of the chunk in the file.
            value_bytes: Size of the values of each page in bytes, if known.
        """
        locations = [
            PageLocation(chunk_start + page.start, page.stop - page.start, first_row)
            for page, first_row in zip(self.data, self.first_rows.tolist(), strict=True)
        ]
        return OffsetIndex(locations, None if value_bytes is None else value_bytes.tolist())

    def encoding_stats(self) -> list[PageEncodingStats]:
        """Return the number of pages of each type and encoding."""
        counts = Counter((page.header.type, page.encoding) for page in self.pages if page.encoding >= 0)
        return [
            PageEncodingStats(page_type, encoding, count)
            for (page_type, encoding), count in sorted(counts.items())
        ]


def locate_pages(
    chunk: bytes, pages: Sequence[Page], meta: ColumnMetaData, num_rows: int, leaf: Leaf
) -> LocatedPages:
    """Find the rows of each page of a chunk.

    Args:
        chunk: The bytes of the chunk.
        pages: Its pages, as returned by `intarsia.file.pages.walk_pages`.
        meta: The chunk's metadata in the footer.
        num_rows: Number of rows in the row group.
        leaf: The column.

    Raises:
        IndexBuildError: If the pages cannot have an OffsetIndex; the message says why.
        FormatError: If the pages are damaged.
    """
    data = [page for page in pages if page.is_data]
    if not data:
        raise IndexBuildError("the column chunk has no data pages", reason="no-data-pages")
    levels = None
    rows = [page.num_values for page in data]
    if leaf.max_repetition_level or leaf.max_definition_level > 1:
        levels = [count_levels(chunk, page, meta, leaf) for page in data]
        rows = [counted.num_rows for counted in levels]
        if not all(counted.starts_row for counted in levels):
            raise IndexBuildError("a page starts in the middle of a row", reason="page-splits-row")
    if not all(rows):
        raise IndexBuildError("a page is empty", reason="empty-page")
    for page, counted in zip(data, rows, strict=True):
        two = page.header.data_page_header_v2
        if two is not None and two.num_rows != counted:
            raise IndexBuildError(
                f"a page header claims {two.num_rows} rows, but its levels have {counted}",
                reason="row-count-mismatch",
            )
    if sum(rows) != num_rows:
        raise IndexBuildError(
            f"its pages have {sum(rows)} rows, but the row group has {num_rows}", reason="row-count-mismatch"
        )
    return LocatedPages(pages, data, levels, np.array(rows, dtype=np.int64))
