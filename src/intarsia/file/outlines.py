"""Offsets and counts of a column's chunks as arrays over row groups, for vectorized decisions."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from intarsia.format.enums import PageType
from intarsia.format.footer import Leaf
from intarsia.format.row_groups import chunk_outlines
from intarsia.format.structs import ColumnChunk, OutlineOfChunk, PageEncodingStats, RowGroup

Bools = npt.NDArray[np.bool_]
Int64s = npt.NDArray[np.int64]

#: Types of data pages.
DATA_PAGES = (PageType.DATA_PAGE, PageType.DATA_PAGE_V2)

#: Replaces a number of pages that the writer did not record.
UNKNOWN = -1


@dataclass(frozen=True)
class ChunkOutlines:
    """The chunks of one leaf, in arrays with one value for each row group.

    Attributes:
        is_sound: Whether the chunk is in this file, is not encrypted, and has possible offsets and counts.
            If not, only the numbers of pages are used; `Footer.chunk_metadata` raises the error.
        starts: Byte offset of the chunk.
        stops: Byte offset of its end.
        num_values: Number of values, including nulls.
        uncompressed_bytes: Size of its pages before compression.
        codec: Its `CompressionCodec`.
        data_pages: Number of data pages; `UNKNOWN` if the writer did not record it.
        dictionary_pages: Number of dictionary pages; `UNKNOWN` if the writer did not record it.
        has_offset_index: Whether the footer has the offset of an OffsetIndex.
    """

    is_sound: Bools
    starts: Int64s
    stops: Int64s
    num_values: Int64s
    uncompressed_bytes: Int64s
    codec: Int64s
    data_pages: Int64s
    dictionary_pages: Int64s
    has_offset_index: Bools

    def of_groups(self, groups: Int64s) -> ChunkOutlines:
        """Return the chunks of some row groups, given by ordinal."""
        return ChunkOutlines(*[values[groups] for values in vars(self).values()])


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
    rows = [_row(chunk) for group in groups for chunk in chunk_outlines(group.columns, ordinals)]
    table = np.array(rows, dtype=np.int64).reshape(len(groups), len(leaves), len(_UNSOUND))
    # in this order a leaf's values are contiguous, and one operation checks all leaves
    starts, stops, num_values, uncompressed_bytes, codec, *counts = np.ascontiguousarray(table.T)
    is_sound = (starts >= 0) & (starts <= stops) & (stops <= file_length)
    is_sound &= (num_values >= 0) & (uncompressed_bytes >= 0)
    data_pages, dictionary_pages, has_offset_index = counts
    sizes = (starts, stops, num_values, uncompressed_bytes)
    columns = (is_sound, *sizes, codec, data_pages, dictionary_pages)
    return [ChunkOutlines(*of_leaf) for of_leaf in zip(*columns, has_offset_index.astype(bool), strict=True)]


#: Start, end, values, uncompressed bytes, codec, data pages, dictionary pages, whether it has an OffsetIndex.
_UNSOUND = (-1, -1, -1, -1, -1, UNKNOWN, UNKNOWN, 0)


def _row(chunk: OutlineOfChunk | ColumnChunk) -> tuple[int, ...]:
    meta = chunk.meta_data
    if meta is None:
        return _UNSOUND
    data_pages, dictionary_pages = _page_counts(meta.encoding_stats)
    start, size = meta.data_page_offset, meta.total_compressed_size
    if (
        start is None
        or size is None
        or meta.num_values is None
        or meta.total_uncompressed_size is None
        or meta.codec is None
        or chunk.file_path
        or chunk.crypto_metadata is not None
        or abs(start) + abs(size) >= 1 << 62
    ):
        return (*_UNSOUND[:5], data_pages, dictionary_pages, 0)
    dictionary = meta.dictionary_page_offset
    if dictionary is not None and 0 < dictionary < start:
        start = dictionary
    return (
        start,
        start + size,
        meta.num_values,
        meta.total_uncompressed_size,
        meta.codec,
        data_pages,
        dictionary_pages,
        bool(chunk.offset_index_offset),
    )


def _page_counts(encoding_stats: Sequence[PageEncodingStats] | None) -> tuple[int, int]:
    if not encoding_stats:
        return UNKNOWN, UNKNOWN
    data_pages = dictionary_pages = 0
    for stat in encoding_stats:
        if stat.page_type in DATA_PAGES:
            data_pages += stat.count
        elif stat.page_type == PageType.DICTIONARY_PAGE:
            dictionary_pages += stat.count
    return data_pages, dictionary_pages


def data_page_count(encoding_stats: Sequence[PageEncodingStats] | None) -> int | None:
    """Return the number of data pages of a chunk by its ``encoding_stats``; None if these are missing."""
    return _page_counts(encoding_stats)[0] if encoding_stats else None
