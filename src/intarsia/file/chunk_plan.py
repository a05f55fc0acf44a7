"""Choose the pages of a chunk to read for selected rows, without I/O and without Arrow."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from enum import Enum
from typing import NamedTuple

import numpy as np
import numpy.typing as npt

from intarsia.file.outlines import DATA_PAGES, data_page_count
from intarsia.format.enums import DICTIONARY_ENCODINGS, PageType
from intarsia.format.footer import Leaf, chunk_range
from intarsia.format.page_index import PageLocations, PageRows
from intarsia.format.structs import ColumnMetaData
from intarsia.rows.selection import RowSelection
from intarsia.storage import ByteRange


class DictionaryUse(Enum):
    """Whether data pages of a chunk need its dictionary page, according to the footer."""

    ALWAYS = "always"
    NEVER = "never"
    SOME_PAGES = "some pages"


@dataclass(frozen=True)
class ChunkPlan:
    """The byte ranges to read of one column chunk.

    Attributes:
        leaf: The chunk's leaf.
        meta: The footer's metadata of the chunk.
        pages: The data pages to read, with adjacent pages merged and without the dictionary page.
        page_starts: Offset of each data page within the concatenated bytes of ``pages``.
        page_rows: Number of rows in each data page.
        covered: The rows in these pages, relative to the row group.
        dictionary: The dictionary page, if the chunk has one.
        dictionary_use: Whether the pages need it.
        total_pages: Number of data pages in the chunk; None if it is unknown.
        whole: Whether this is the whole chunk, because the locations of its pages are unknown or not needed.
        has_dictionary_within: Whether the pages are known to include the dictionary page.
        page_ordinals: Ordinal of each data page in the chunk; empty for a whole chunk.
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
    has_dictionary_within: bool = False
    page_ordinals: Sequence[int] = ()

    @property
    def num_bytes(self) -> int:
        """Number of bytes of the data pages."""
        return sum(location.length for location in self.pages)


def is_single_page(meta: ColumnMetaData) -> bool:
    """Return whether a chunk is one data page, and the dictionary page that it needs, if it has one.

    Any of its rows then take the whole chunk, so that the locations of its pages are not needed.
    """
    if data_page_count(meta.encoding_stats) != 1:
        return False
    needed = [PageType.DICTIONARY_PAGE] if dictionary_use(meta) is DictionaryUse.ALWAYS else []
    others = [stat for stat in meta.encoding_stats or () if stat.count and stat.page_type not in DATA_PAGES]
    return [stat.page_type for stat in others] == needed and sum(stat.count for stat in others) == len(needed)


class ChosenPages(NamedTuple):
    """The pages of a chunk that contain some rows.

    Attributes:
        ordinals: Their ordinals.
        num_rows: Number of rows in each of them.
        covered: Their rows, relative to the row group.
    """

    ordinals: npt.NDArray[np.int64]
    num_rows: tuple[int, ...]
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
            found = self._chosen[pages] = ChosenPages(ordinals, tuple((stops - starts).tolist()), covered)
        return found


def plan_chunk(
    leaf: Leaf,
    meta: ColumnMetaData,
    locations: PageLocations | None,
    num_rows: int,
    chooser: PageChooser,
    *,
    is_unpruned: bool = False,
) -> ChunkPlan:
    """Plan to read the pages of a chunk that contain some rows.

    Args:
        leaf: The chunk's leaf.
        meta: The footer's metadata of the chunk.
        locations: The locations of its pages; None if they are unknown or not needed, so that the whole chunk
            is read.
        num_rows: Number of rows in the row group.
        chooser: The rows to read.
        is_unpruned: No row of the row group was excluded with a page index. If all pages are needed, the
            chunk is then read as a whole. Otherwise, the pages are compared with their locations.
    """
    start, stop = chunk_range(meta)
    if locations is None:
        within = is_single_page(meta) and dictionary_use(meta) is DictionaryUse.ALWAYS
        return _whole_chunk(leaf, meta, num_rows, data_page_count(meta.encoding_stats), within)
    chosen = chooser.choose(locations.rows)
    starts = locations.offsets[chosen.ordinals]
    sizes = locations.sizes_bytes[chosen.ordinals]
    merged: list[ByteRange] = []
    for page_start, page_stop in zip(starts.tolist(), (starts + sizes).tolist(), strict=True):
        if merged and merged[-1].stop == page_start:
            merged[-1] = ByteRange(merged[-1].start, page_stop)
        else:
            merged.append(ByteRange(page_start, page_stop))
    dictionary = dictionary_range(meta, locations)
    use = DictionaryUse.NEVER if dictionary is None else dictionary_use(meta)
    if is_unpruned and len(starts) == len(locations) and len(merged) == 1:
        within = dictionary is not None and use is DictionaryUse.ALWAYS and dictionary.stop == merged[0].start
        first = dictionary.start if within and dictionary is not None else merged[0].start
        if (first, merged[0].stop) == (start, stop):
            return _whole_chunk(leaf, meta, num_rows, len(locations), within)
    return ChunkPlan(
        leaf,
        meta,
        tuple(merged),
        tuple((sizes.cumsum() - sizes).tolist()),
        chosen.num_rows,
        chosen.covered,
        dictionary,
        use,
        len(locations),
        page_ordinals=chosen.ordinals.tolist(),
    )


def _whole_chunk(
    leaf: Leaf, meta: ColumnMetaData, num_rows: int, total_pages: int | None, has_dictionary_within: bool
) -> ChunkPlan:
    """Return the plan that reads all bytes of a chunk in one range."""
    return ChunkPlan(
        leaf,
        meta,
        (ByteRange(*chunk_range(meta)),),
        (),
        (),
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


def dictionary_use(meta: ColumnMetaData) -> DictionaryUse:
    """Return whether a chunk's data pages need its dictionary page."""
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
