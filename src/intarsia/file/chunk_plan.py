"""Choose the pages of a chunk to read for selected rows, without I/O and without Arrow."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import NamedTuple

import numpy as np
import numpy.typing as npt

from intarsia.file.outlines import ChunkOutlines, DictionaryUse
from intarsia.format.footer import Leaf, chunk_range
from intarsia.format.page_index import PageLocations, PageRows
from intarsia.format.structs import ColumnMetaData
from intarsia.rows.selection import RowSelection
from intarsia.storage import ByteRange


@dataclass(frozen=True)
class ChunkPlan:
    """The byte ranges to read of one column chunk.

    Attributes:
        leaf: The chunk's leaf.
        pages: The data pages to read, with adjacent pages merged and without the dictionary page.
        num_bytes: Number of bytes of the data pages.
        page_starts: Offset of each data page within the concatenated bytes of ``pages``.
        page_rows: Number of rows in each data page.
        covered: The rows in these pages, relative to the row group.
        dictionary: The dictionary page, if the chunk has one.
        dictionary_use: Whether the pages need it.
        total_pages: Number of data pages in the chunk; `UNKNOWN` if the footer does not have it.
        whole: Whether this is the whole chunk, because the locations of its pages are unknown or not needed.
        has_dictionary_within: Whether the pages are known to include the dictionary page.
        page_ordinals: Ordinal of each data page in the chunk; empty for a whole chunk.
    """

    leaf: Leaf
    pages: tuple[ByteRange, ...]
    num_bytes: int
    page_starts: list[int]
    page_rows: list[int]
    covered: RowSelection
    dictionary: ByteRange | None
    dictionary_use: DictionaryUse
    total_pages: int
    whole: bool = False
    has_dictionary_within: bool = False
    page_ordinals: Sequence[int] = ()


class ChosenPages(NamedTuple):
    """The pages of a chunk that contain some rows.

    Attributes:
        ordinals: Their ordinals.
        num_rows: Number of rows in each of them.
        covered: Their rows, relative to the row group.
    """

    ordinals: npt.NDArray[np.int64]
    num_rows: list[int]
    covered: RowSelection


class PageChooser:
    """Chooses the pages that contain some rows, once for all chunks of a row group with the same pages.

    Args:
        rows: The rows, relative to the row group.
    """

    def __init__(self, rows: RowSelection) -> None:
        self.rows = rows
        self._chosen: dict[PageRows, ChosenPages] = {}

    def choose(self, pages: PageRows) -> ChosenPages:
        """Return the pages that contain some of the rows."""
        found = self._chosen.get(pages)
        if found is None:
            ordinals = self.rows.overlaps(pages.starts, pages.stops).nonzero()[0]
            starts, stops = pages.starts[ordinals], pages.stops[ordinals]
            covered = RowSelection.union_of(starts, stops)
            found = self._chosen[pages] = ChosenPages(ordinals, (stops - starts).tolist(), covered)
        return found


def plan_chunk(
    leaf: Leaf,
    outlines: ChunkOutlines,
    row_group: int,
    locations: PageLocations | None,
    num_rows: int,
    chooser: PageChooser,
    *,
    is_unpruned: bool = False,
) -> ChunkPlan:
    """Plan to read the pages of a chunk that contain some rows.

    Args:
        leaf: The chunk's leaf.
        outlines: The leaf's chunks, of which this one is sound.
        row_group: Ordinal of the row group.
        locations: The locations of its pages; None if they are unknown or not needed, so that the whole chunk
            is read.
        num_rows: Number of rows in the row group.
        chooser: The rows to read.
        is_unpruned: No row of the row group was excluded with a page index. If all pages are needed, the
            chunk is then read as a whole. Otherwise, the pages are compared with their locations.
    """
    chunk = ByteRange(int(outlines.starts[row_group]), int(outlines.stops[row_group]))
    counts, total_pages = outlines.pages[row_group], outlines.pages[row_group].data
    # of a chunk with a single page
    has_dictionary_within = counts.is_single and counts.dictionary_use is DictionaryUse.ALWAYS
    if locations is not None:
        total_pages = len(locations.offsets)
        chosen = chooser.choose(locations.rows)
        starts = locations.offsets[chosen.ordinals]
        sizes = locations.sizes_bytes[chosen.ordinals]
        merged: list[ByteRange] = []
        for start, stop in zip(starts.tolist(), (starts + sizes).tolist(), strict=True):
            if merged and merged[-1].stop == start:
                merged[-1] = ByteRange(merged[-1].start, stop)
            else:
                merged.append(ByteRange(start, stop))
        first_page = int(locations.offsets[0])
        dictionary = ByteRange(chunk.start, first_page) if chunk.start < first_page <= chunk.stop else None
        use = DictionaryUse.NEVER if dictionary is None else counts.dictionary_use
        has_dictionary_within = use is DictionaryUse.ALWAYS and first_page == merged[0].start
        start = chunk.start if has_dictionary_within else merged[0].start
        is_whole = len(merged) == 1 and len(starts) == total_pages and (start, merged[0].stop) == chunk
        if not (is_unpruned and is_whole):
            return ChunkPlan(
                leaf,
                tuple(merged),
                int(sizes.sum()),
                (sizes.cumsum() - sizes).tolist(),
                chosen.num_rows,
                chosen.covered,
                dictionary,
                use,
                total_pages,
                page_ordinals=chosen.ordinals.tolist(),
            )
    return ChunkPlan(
        leaf,
        (chunk,),
        chunk.length,
        [],
        [],
        RowSelection.all(num_rows),
        None,
        DictionaryUse.NEVER,
        total_pages,
        whole=True,
        has_dictionary_within=has_dictionary_within,
    )


def dictionary_range(meta: ColumnMetaData, locations: PageLocations | None) -> ByteRange | None:
    """Return the range of a chunk's dictionary page, which precedes its data pages; None if there is none.

    Args:
        meta: The footer's metadata of the chunk.
        locations: The locations of its pages; None to use the offsets in the footer.
    """
    start, stop = chunk_range(meta)
    first_page = meta.data_page_offset if locations is None else int(locations.offsets[0])
    return ByteRange(start, first_page) if start < first_page <= stop else None
