"""One column chunk and its standard structures: read, walked and decoded at most once."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Sequence
from typing import TypeAlias

import numpy as np
import pyarrow as pa

from intarsia.embed.leaf_values import LeafReader, cut_bounds, may_be_dictionary, page_bounds
from intarsia.embed.report import Reason
from intarsia.errors import CorruptFileError, IndexBuildError
from intarsia.file import ChunkKey, ParquetInput
from intarsia.file.claims import decompress
from intarsia.format.enums import Type
from intarsia.format.footer import Footer, Leaf, chunk_range
from intarsia.format.levels import PageLevels, levels_are_compressed, page_levels
from intarsia.format.pages import Page, walk_pages
from intarsia.format.structs import (
    ColumnChunk,
    ColumnMetaData,
    OffsetIndex,
    PageEncodingStats,
    PageLocation,
    Statistics,
)
from intarsia.once import cached_property
from intarsia.records import dataclass
from intarsia.rows.bounds import Counts
from intarsia.storage import ByteRange

#: Fields of `Statistics` that are defined only if the footer declares a column order.
ORDERED_BOUNDS = ("min_value", "max_value", "is_min_value_exact", "is_max_value_exact")

#: The structures in the body of a file, in the order in which they are written.
LOCATED = ("bloom_filter", "column_index", "offset_index")

#: The range of a structure in the file, or its bytes if it is new; None if there is no structure.
Placed: TypeAlias = ByteRange | bytes | None


@dataclass(frozen=True)
class ChunkState:
    """The standard structures of one chunk.

    Attributes:
        bloom_filter: Header and bits of the Bloom filter. A range extends to the end of the body if the
            footer does not give the filter's length.
        encoding_stats: Encodings of the pages; empty if the original footer has them.
        statistics: Statistics that replace those of the original footer; None to keep those.
    """

    offset_index: Placed = None
    column_index: Placed = None
    bloom_filter: Placed = None
    encoding_stats: tuple[PageEncodingStats, ...] = ()
    statistics: Statistics | None = None

    def num_added_bytes(self, before: ChunkState) -> int:
        """Return the size in bytes of the structures that an earlier state lacked, except in the footer."""
        pairs = [(getattr(self, structure), getattr(before, structure)) for structure in LOCATED]
        return sum(len(here) for here, there in pairs if isinstance(here, bytes) and here != there)


@dataclass(frozen=True)
class Outcome:
    """The outcome for one structure of one chunk.

    Attributes:
        state: The completed structures of the chunk.
        built: True if the structure was added, False if it was kept, None if the chunk has none.
        reason: Why the structure or a part of it could not be added; None if it is complete.
    """

    state: ChunkState
    built: bool | None
    reason: Reason | None = None


def without_bounds(statistics: Statistics) -> Statistics:
    """Return the statistics without the fields that depend on an order.

    If both bounds are removed, the deprecated ones are removed, too. Readers ignored these as long as there
    were others, and must not start to use them: nothing is known about their truth.
    """
    removed: tuple[str, ...] = ORDERED_BOUNDS
    if statistics.min_value is not None and statistics.max_value is not None:
        removed = (*ORDERED_BOUNDS, "min", "max")
    return statistics._replace(**dict.fromkeys(removed))


def chunks_of(footer: Footer) -> Iterator[tuple[ChunkKey, ColumnChunk]]:
    """Yield every chunk of a file, row group by row group."""
    for ordinal, group in enumerate(footer.metadata.row_groups):
        for leaf, chunk in enumerate(group.columns):
            yield ChunkKey(ordinal, leaf), chunk


@dataclass(frozen=True)
class LocatedPages:
    """The pages of a chunk and the rows in them.

    Attributes:
        pages: All pages, including the dictionary page.
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
        """Return the OffsetIndex of the pages of a chunk at an offset, and the size of their values."""
        locations = [
            PageLocation(chunk_start + page.start, page.stop - page.start, first_row)
            for page, first_row in zip(self.data, self.first_rows.tolist(), strict=True)
        ]
        return OffsetIndex(locations, None if value_bytes is None else value_bytes.tolist())

    def encoding_stats(self) -> tuple[PageEncodingStats, ...]:
        """Return the number of pages of each type and encoding."""
        counts = Counter((page.header.type, page.encoding) for page in self.pages if page.encoding >= 0)
        return tuple(PageEncodingStats(*of_page, count) for of_page, count in sorted(counts.items()))


def locate_pages(
    chunk: bytes, pages: Sequence[Page], meta: ColumnMetaData, num_rows: int, leaf: Leaf
) -> LocatedPages:
    """Find the rows of each page of a chunk, given the bytes of the chunk and all of its pages.

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


def count_levels(chunk: bytes, page: Page, meta: ColumnMetaData, leaf: Leaf) -> PageLevels:
    """Count the levels of a data page.

    Raises:
        FormatError: If the levels are damaged.
    """
    body = memoryview(chunk)[page.body_start : page.stop]
    if levels_are_compressed(page.header):
        body = decompress(body, meta.codec, page.header.uncompressed_page_size)
    return page_levels(body, page.header, leaf)


def present_counts(
    num_values: Counts, levels: Sequence[PageLevels] | None, column: pa.ChunkedArray
) -> Counts | None:
    """Count the values of each page that are not null.

    Args:
        num_values: Number of values of each page, including nulls and empty lists.
        levels: Levels of each page, if they were counted.
        column: The decoded values of all pages, including nulls, but not empty and null lists.

    Returns:
        The counts; None if the number of decoded values differs from the pages' claims.
    """
    if levels is not None:
        return np.array([page.num_present for page in levels], dtype=np.int64)
    if len(column) != num_values.sum():
        return None
    if not column.null_count:
        return num_values
    valid = np.concatenate([piece.is_valid().to_numpy(zero_copy_only=False) for piece in column.chunks])
    totals = np.concatenate([[0], np.cumsum(valid, dtype=np.int64)])
    stops = np.cumsum(num_values)
    return np.asarray(totals[stops] - totals[stops - num_values])


#: Why columns of some types have no bounds.
NO_ORDER = Reason("no-order", "its type has no defined order")

_WRONG_ORDER = Reason("wrong-column-order", "the declared column order does not apply to its type")
_UNKNOWN_ORDER = Reason("unknown-column-order", "its column order is unknown to this version")


class PagesNeededError(Exception):
    """Something would have to be read besides the footer; see `Chunk.footer_only`."""


#: Logical types whose decoded form differs from the stored one.
_CONVERTED_TYPES = frozenset(("DECIMAL", "UNKNOWN"))


@dataclass(frozen=True, eq=False)
class Chunk:
    """A column chunk of the original file.

    Costly properties are computed on first use and then cached. They raise `FormatError` if the chunk is
    damaged.

    Attributes:
        key: Row group and leaf of the chunk.
        meta: The chunk's metadata in the footer.
        reader: Decodes the leaf's values.
        footer_only: Whether reading anything but the footer raises `PagesNeededError`.
    """

    file: ParquetInput
    key: ChunkKey
    meta: ColumnMetaData
    reader: LeafReader
    footer_only: bool = False

    @property
    def leaf(self) -> Leaf:
        """The column."""
        return self.reader.leaf

    @property
    def num_rows(self) -> int:
        """Number of rows in the row group."""
        return self.file.footer.metadata.row_groups[self.key.row_group].num_rows

    @property
    def start(self) -> int:
        """Byte offset of the chunk in the file."""
        return chunk_range(self.meta)[0]

    # --- its bytes, pages and values -------------------------------------------------------------------

    @cached_property
    def data(self) -> bytes:
        """The bytes of the chunk."""
        return self._read(*chunk_range(self.meta))

    def _read(self, start: int, stop: int) -> bytes:
        if self.footer_only:
            raise PagesNeededError
        return self.file.source.read(start, stop)

    @cached_property
    def walked(self) -> Sequence[Page]:
        """The pages in file order, including the dictionary page; their checksums are right."""
        pages = walk_pages(self.data, self.meta.num_values)
        for page in pages:
            try:
                page.check_checksum(self.data)
            except CorruptFileError as error:  # noqa: PERF203  (a page is much larger than this)
                error.at(offset=self.start + page.start, column=self.leaf.name)
                raise
        return pages

    @cached_property
    def pages(self) -> LocatedPages:
        """The pages and their rows.

        Raises:
            IndexBuildError: If the pages cannot have an OffsetIndex; the message says why.
        """
        return locate_pages(self.data, self.walked, self.meta, self.num_rows, self.leaf)

    @cached_property
    def column(self) -> pa.ChunkedArray:
        """The values as `LeafReader` returns them; a dictionary array if every page uses the dictionary."""
        as_dictionary = may_be_dictionary(self.leaf) and all(
            page.uses_dictionary for page in self.walked if page.is_data
        )
        return self._decode(self.reader, as_dictionary=as_dictionary)

    @property
    def present(self) -> Counts | None:
        """Number of values of each page that are not null, as in `present_counts`."""
        return present_counts(self.pages.num_values, self.pages.levels, self.column)

    @cached_property
    def values(self) -> pa.ChunkedArray:
        """`column` without nulls."""
        return self.column.drop_null() if self.column.null_count else self.column

    @property
    def stored_values(self) -> pa.ChunkedArray:
        """`values` in a type whose PLAIN encoding is what the file stores."""
        if self.leaf.type != Type.INT96 and self.leaf.logical_name not in _CONVERTED_TYPES:
            return self.values
        return self._decode(self.reader.stored, as_dictionary=False).drop_null()

    def _decode(self, reader: LeafReader, *, as_dictionary: bool) -> pa.ChunkedArray:
        if not any(page.is_data for page in self.walked):
            raise IndexBuildError("the column chunk has no data pages", reason="no-data-pages")
        return reader.read(self.data, self.meta, self.num_rows, as_dictionary=as_dictionary)

    def bytes_of(self, location: ByteRange | bytes) -> bytes:
        """Return the bytes of one of the chunk's structures.

        Raises:
            CorruptFileError: If its location is outside the file's body.
        """
        if isinstance(location, bytes):
            return location
        if not self.file.footer.contains_range(location.start, location.stop):
            raise CorruptFileError(
                f"bytes {location.start} to {location.stop} are outside the file's body",
                reason="out-of-bounds",
            )
        return self._read(location.start, location.stop)

    # --- how its values are ordered --------------------------------------------------------------------

    @property
    def order(self) -> str | None:
        """The name of the leaf's column order; None if the footer declares none for any leaf."""
        orders = self.file.footer.metadata.column_orders
        if orders is None:
            return None
        order = orders[self.leaf.ordinal]
        return next((name for name, value in zip(order._fields, order, strict=True) if value is not None), "")

    @property
    def total_order(self) -> bool:
        """Whether floats are ordered by IEEE 754's total order instead of the type's own order."""
        return self.order == "IEEE_754_TOTAL_ORDER"

    @property
    def order_refusal(self) -> Reason | None:
        """Why the declared column order forbids bounds; None if it does not."""
        order = self.order
        if order in (None, "TYPE_ORDER"):
            return None
        if order == "IEEE_754_TOTAL_ORDER":
            return None if self.leaf.is_float else _WRONG_ORDER
        return NO_ORDER if order == "INT96_TIMESTAMP_ORDER" else _UNKNOWN_ORDER

    @property
    def has_order(self) -> bool:
        """Whether bounds of this chunk can be computed and are defined."""
        if self.order_refusal is not None:
            return False
        try:
            return self.reader.ordering is not None
        except CorruptFileError:
            return False


def computed_statistics(chunk: Chunk, now: Statistics) -> Statistics:
    """Return statistics with counts and bounds of the decoded values; other fields are kept."""
    values, ordering = chunk.values, chunk.reader.ordering
    if chunk.leaf.max_repetition_level == 0 and len(chunk.column) != chunk.num_rows:
        raise IndexBuildError(
            f"the row group has {chunk.num_rows} rows, but {len(chunk.column)} were decoded",
            reason="row-count-mismatch",
        )
    null_count = chunk.meta.num_values - len(values)
    if null_count < 0:
        raise IndexBuildError(
            f"it claims {chunk.meta.num_values} values, but {len(values)} were decoded",
            reason="value-count-mismatch",
        )
    counted = now._replace(null_count=null_count)
    if not chunk.has_order:
        return counted
    assert ordering is not None
    if not len(values):
        return without_bounds(counted)
    bounds = page_bounds(values, np.zeros(1, dtype=np.int64), ordering, total_order=chunk.total_order)
    if bounds.nan_counts is not None:
        counted = counted._replace(nan_count=int(bounds.nan_counts[0]))
        if counted.nan_count and not chunk.total_order:
            return without_bounds(counted)
    (low,), (high,) = cut_bounds(bounds.minima, bounds.maxima, ordering)
    # other writers have both forms, too: parquet-mr before 1.10 takes a chunk with nulls and without the
    # deprecated one for one whose values are all 0
    if (chunk.leaf.is_signed or chunk.leaf.type == Type.BOOLEAN) and not chunk.total_order:
        counted = counted._replace(min=low, max=high)
    return counted._replace(
        min_value=low,
        max_value=high,
        is_min_value_exact=low == bounds.minima[0],
        is_max_value_exact=high == bounds.maxima[0],
    )
