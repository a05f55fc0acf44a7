"""From selected rows to byte ranges: which pages of a chunk to read.  Pure; no I/O, no Arrow."""

from __future__ import annotations

from dataclasses import dataclass
from enum import Enum

import numpy as np

from intarsia.file.metadata import DATA_PAGES, data_page_count
from intarsia.format.footer import Leaf, chunk_range
from intarsia.format.page_index import PageLocations
from intarsia.format.structs import DICTIONARY_ENCODINGS, ColumnMetaData
from intarsia.rows.selection import RowSelection
from intarsia.storage import ByteRange


class DictionaryUse(Enum):
    """Whether data pages of a chunk need its dictionary page, according to the footer."""

    ALWAYS = "always"
    NEVER = "never"
    SOME_PAGES = "some pages"


@dataclass(frozen=True)
class ChunkPlan:
    """What to read of one column chunk.

    Attributes:
        leaf: The chunk's leaf.
        meta: What the footer says of the chunk.
        pages: The data pages to read, neighbours merged; rows are relative to the row group, and
            the dictionary page is not among them.
        page_starts: Offsets within the concatenated bytes of ``pages`` where each data page starts.
        page_rows: Rows of each of those pages.
        covered: Rows of the row group that the pages hold.
        dictionary: The dictionary page, if the chunk has one.
        dictionary_use: Whether the pages need it.
        total_pages: Data pages of the chunk.
        whole: Whether this is the whole chunk, because its pages are not known.
    """

    leaf: Leaf
    meta: ColumnMetaData
    pages: tuple[ByteRange, ...]
    page_starts: tuple[int, ...]
    page_rows: tuple[int, ...]
    covered: RowSelection
    dictionary: ByteRange | None
    dictionary_use: DictionaryUse
    total_pages: int | None
    whole: bool = False

    @property
    def num_bytes(self) -> int:
        """Bytes of the data pages."""
        return sum(place.length for place in self.pages)


def plan_chunk(
    leaf: Leaf, meta: ColumnMetaData, locations: PageLocations | None, num_rows: int, rows: RowSelection
) -> ChunkPlan:
    """Plan to read the pages of a chunk that hold some rows.

    Args:
        leaf: The chunk's leaf.
        meta: What the footer says of the chunk.
        locations: Its pages, or None if they are not known; then the whole chunk is read.
        num_rows: Rows in the row group.
        rows: The rows wanted, relative to the row group.
    """
    start, stop = chunk_range(meta)
    if locations is None:
        return ChunkPlan(
            leaf,
            meta,
            (ByteRange(start, stop),),
            (),
            (),
            RowSelection.all(num_rows),
            None,
            DictionaryUse.NEVER,
            data_page_count(meta.encoding_stats),
            whole=True,
        )
    row_starts, row_stops = locations.row_starts, locations.row_stops
    chosen = np.flatnonzero(rows.overlaps(row_starts, row_stops))
    starts = locations.offsets[chosen]
    sizes = locations.sizes_bytes[chosen]
    merged: list[ByteRange] = []
    for page_start, page_stop in zip(starts.tolist(), (starts + sizes).tolist(), strict=True):
        if merged and merged[-1].stop == page_start:
            merged[-1] = ByteRange(merged[-1].start, page_stop)
        else:
            merged.append(ByteRange(page_start, page_stop))
    dictionary = dictionary_range(meta, locations)
    return ChunkPlan(
        leaf,
        meta,
        tuple(merged),
        tuple((np.cumsum(sizes) - sizes).tolist()),
        tuple((row_stops - row_starts)[chosen].tolist()),
        RowSelection.union_of(row_starts[chosen], row_stops[chosen]),
        dictionary,
        DictionaryUse.NEVER if dictionary is None else dictionary_use(meta),
        len(locations),
    )


def dictionary_range(meta: ColumnMetaData, locations: PageLocations | None) -> ByteRange | None:
    """The bytes before a chunk's first data page, where its dictionary page is; None if there are none.

    Args:
        meta: What the footer says of the chunk.
        locations: Its pages; None if they are not known: then the footer's offsets are used.
    """
    start, stop = chunk_range(meta)
    first_page = meta.data_page_offset if locations is None else int(locations.offsets[0])
    return ByteRange(start, first_page) if start < first_page <= stop else None


def dictionary_use(meta: ColumnMetaData) -> DictionaryUse:
    """Whether a chunk's data pages need its dictionary page."""
    if not meta.encoding_stats:
        has_dictionary = any(encoding in DICTIONARY_ENCODINGS for encoding in meta.encodings)
        return DictionaryUse.SOME_PAGES if has_dictionary else DictionaryUse.NEVER
    needs = {
        stat.encoding in DICTIONARY_ENCODINGS
        for stat in meta.encoding_stats
        if stat.page_type in DATA_PAGES and stat.count
    }
    if len(needs) == 2:
        return DictionaryUse.SOME_PAGES
    return DictionaryUse.ALWAYS if True in needs else DictionaryUse.NEVER
