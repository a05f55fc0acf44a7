"""Footers to columns of arrays: the chunks of a leaf over all row groups, for vectorized decisions."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from enum import Enum
from typing import NamedTuple

import numpy as np
import numpy.typing as npt

from intarsia.format.enums import DATA_PAGES, DICTIONARY_ENCODINGS, PageType
from intarsia.format.footer import Leaf
from intarsia.format.row_groups import chunk_outlines
from intarsia.format.structs import PageEncodingStats, RowGroup

Bools = npt.NDArray[np.bool_]
Int64s = npt.NDArray[np.int64]

#: Replaces a number of pages that the writer did not record.
UNKNOWN = -1


class DictionaryUse(Enum):
    """Whether data pages of a chunk need its dictionary page, according to the footer."""

    ALWAYS = "always"
    NEVER = "never"
    SOME_PAGES = "some pages"


class PageCounts(NamedTuple):
    """What the footer says about the pages of a chunk.

    Attributes:
        data: Number of data pages; `UNKNOWN` if the writer did not record it.
        dictionary: Number of dictionary pages; `UNKNOWN` if the writer did not record it.
        dictionary_use: Whether the data pages need the dictionary page.
        is_single: Whether the chunk is one data page, and the dictionary page that it needs, if it has one.
            Any of its rows then take the whole chunk, so that the locations of its pages are not needed.
    """

    data: int
    dictionary: int
    dictionary_use: DictionaryUse
    is_single: bool


@dataclass(frozen=True)
class ChunkOutlines:
    """The chunks of one leaf, with one value for each row group.

    Attributes:
        is_sound: Whether the chunk is in this file, is not encrypted, and has possible offsets and counts.
            If not, only the numbers of pages are used; `Footer.chunk_metadata` raises the error.
        pages: The pages of each chunk.
        encodings: The encodings of each chunk.
        starts: Byte offset of the chunk.
        stops: Byte offset of its end.
        first_pages: Byte offset of its first data page.
        num_values: Number of values, including nulls.
        uncompressed_bytes: Size of its pages before compression.
        codec: Its `CompressionCodec`.
        data_pages: Number of data pages; `UNKNOWN` if the writer did not record it.
        dictionary_pages: Number of dictionary pages; `UNKNOWN` if the writer did not record it.
        offset_indexes: Byte offset of the OffsetIndex; 0 without one.
        offset_index_bytes: Its length.
        column_indexes: Byte offset of the ColumnIndex; 0 without one.
        column_index_bytes: Its length.
    """

    is_sound: Bools
    pages: Sequence[PageCounts]
    encodings: Sequence[tuple[int, ...]]
    starts: Int64s
    stops: Int64s
    first_pages: Int64s
    num_values: Int64s
    uncompressed_bytes: Int64s
    codec: Int64s
    data_pages: Int64s
    dictionary_pages: Int64s
    offset_indexes: Int64s
    offset_index_bytes: Int64s
    column_indexes: Int64s
    column_index_bytes: Int64s

    @property
    def has_offset_index(self) -> Bools:
        """Whether the footer has the offset of an OffsetIndex."""
        return np.asarray(self.offset_indexes != 0)

    @property
    def has_column_index(self) -> Bools:
        """Whether the footer has the locations of a ColumnIndex and its OffsetIndex."""
        offset_index = (self.offset_indexes != 0) & (self.offset_index_bytes != 0)
        return np.asarray(offset_index & (self.column_indexes != 0) & (self.column_index_bytes != 0))


#: Offsets and counts of a chunk that is not sound, as in `ChunkOutlines` before ``data_pages``.
_UNSOUND = (-1, -1, -1, -1, -1, -1)


def outlines_of(
    groups: Sequence[RowGroup], leaves: Sequence[Leaf], file_length: int | Int64s
) -> list[ChunkOutlines]:
    """Collect the chunks of some leaves.

    Args:
        groups: The row groups.
        leaves: The leaves.
        file_length: The length in bytes of the file, or of the file of each row group.
    """
    ordinals = [leaf.ordinal for leaf in leaves]
    rows: list[tuple[int, ...]] = []
    pages: list[PageCounts] = []
    encodings: list[tuple[int, ...]] = []
    known: dict[tuple[Sequence[PageEncodingStats], Sequence[int]], PageCounts] = {}
    for group in groups:
        for chunk in chunk_outlines(group.columns, ordinals):
            meta = chunk.meta_data
            of_chunk: tuple[int, ...] = _UNSOUND
            own_encodings = tuple(meta.encodings or ()) if meta is not None else ()
            stats = tuple(meta.encoding_stats or ()) if meta is not None else ()
            of_pages = known.get((stats, own_encodings))
            if of_pages is None:  # most chunks of a file are alike
                of_pages = known[stats, own_encodings] = page_counts(stats, own_encodings)
            if (
                meta is not None
                and (start := meta.data_page_offset) is not None
                and (size := meta.total_compressed_size) is not None
                and meta.num_values is not None
                and meta.total_uncompressed_size is not None
                and meta.codec is not None
                and not chunk.file_path
                and chunk.crypto_metadata is None
                and abs(start) + abs(size) < 1 << 62
            ):
                dictionary = meta.dictionary_page_offset
                first = dictionary if dictionary is not None and 0 < dictionary < start else start
                counts = meta.num_values, meta.total_uncompressed_size, meta.codec
                of_chunk = (first, first + size, start, *counts)
            rows.append(
                (
                    *of_chunk,
                    of_pages.data,
                    of_pages.dictionary,
                    chunk.offset_index_offset or 0,
                    chunk.offset_index_length or 0,
                    chunk.column_index_offset or 0,
                    chunk.column_index_length or 0,
                )
            )
            pages.append(of_pages)
            encodings.append(own_encodings)
    table = np.array(rows, dtype=np.int64).reshape(len(groups), len(leaves), len(_UNSOUND) + 6)
    # in this order a leaf's values are contiguous, and one operation checks all leaves
    columns = np.ascontiguousarray(table.T)
    starts, stops, _, num_values, *_ = columns
    is_sound = (starts >= 0) & (starts <= stops) & (stops <= file_length) & (num_values >= 0)
    width = len(leaves)
    return [
        ChunkOutlines(
            is_sound[position],
            pages[position::width],
            encodings[position::width],
            *[values[position] for values in columns],
        )
        for position in range(width)
    ]


def page_counts(stats: Sequence[PageEncodingStats] | None, encodings: Sequence[int]) -> PageCounts:
    """Return what the ``encoding_stats`` of a chunk say, or if they are missing, its encodings."""
    if not stats:
        has_dictionary = any(encoding in DICTIONARY_ENCODINGS for encoding in encodings)
        use = DictionaryUse.SOME_PAGES if has_dictionary else DictionaryUse.NEVER
        return PageCounts(UNKNOWN, UNKNOWN, use, is_single=False)
    data_pages = sum(stat.count for stat in stats if stat.page_type in DATA_PAGES)
    dictionary_pages = sum(stat.count for stat in stats if stat.page_type == PageType.DICTIONARY_PAGE)
    needs = {
        stat.encoding in DICTIONARY_ENCODINGS for stat in stats if stat.page_type in DATA_PAGES and stat.count
    }
    use = DictionaryUse.ALWAYS if True in needs else DictionaryUse.NEVER
    if len(needs) == 2:
        use = DictionaryUse.SOME_PAGES
    others = [
        (stat.page_type, stat.count) for stat in stats if stat.count and stat.page_type not in DATA_PAGES
    ]
    needed = [(PageType.DICTIONARY_PAGE, 1)] if use is DictionaryUse.ALWAYS else []
    return PageCounts(data_pages, dictionary_pages, use, data_pages == 1 and others == needed)
