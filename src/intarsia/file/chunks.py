"""The chunks of a leaf as arrays over row groups, and the pages to read of a chunk, without I/O."""

from __future__ import annotations

import threading
from collections.abc import Callable, Hashable, Mapping, Sequence
from dataclasses import replace
from enum import Enum
from itertools import accumulate
from operator import attrgetter
from types import MappingProxyType
from typing import NamedTuple, TypeAlias

import numpy as np
import numpy.typing as npt

from intarsia.format.enums import DATA_PAGES, DICTIONARY_ENCODINGS, Encoding, PageType
from intarsia.format.footer import Leaf, chunk_range
from intarsia.format.page_index import Int64s, PageLocations, PageRows
from intarsia.format.structs import ColumnMetaData, PageEncodingStats
from intarsia.records import dataclass
from intarsia.rows.bounds import Bools
from intarsia.rows.selection import RowSelection
from intarsia.storage import ByteRange
from intarsia.tuning import OUTLINED_PART

_ORDINAL = attrgetter("ordinal")

#: pyarrow reads as many bytes behind the chunks of old parquet-mr.
_PADDING_BYTES = 100

#: The encodings of a chunk that has only dictionary-encoded values.
_DICTIONARY_AND_LEVELS = frozenset((Encoding.PLAIN_DICTIONARY, Encoding.RLE, Encoding.BIT_PACKED))

#: Replaces a number of pages that the writer did not record.
UNKNOWN = -1


class DictionaryUse(Enum):
    """Whether data pages of a chunk need its dictionary page, according to the footer."""

    ALWAYS = "always"
    NEVER = "never"
    SOME_PAGES = "some pages"


class RecordedPages(NamedTuple):
    """What the footer says about the pages of a chunk.

    Attributes:
        data: Number of data pages; `UNKNOWN` if the writer did not record it.
        dictionary: Number of dictionary pages; `UNKNOWN` if the writer did not record it.
        dictionary_use: Whether the data pages need the dictionary page.
        is_single: Whether the chunk is one data page, and the dictionary page that it needs, if it has one.
            Any of its rows then take the whole chunk, so that the locations of its pages are not needed.
        is_all_dictionary: Whether all data pages are proven to be dictionary-encoded. ``encoding_stats``
            prove it. Without them, as in parquet-java, ``PLAIN_DICTIONARY`` proves it if the only other
            encodings are those of levels. ``RLE_DICTIONARY`` proves nothing, because its dictionary page is
            ``PLAIN``.
        encodings: The encodings of pages and levels.
    """

    data: int
    dictionary: int
    dictionary_use: DictionaryUse
    is_single: bool
    is_all_dictionary: bool
    encodings: Sequence[int]


_NOT_RECORDED = RecordedPages(UNKNOWN, UNKNOWN, DictionaryUse.SOME_PAGES, False, False, ())


@dataclass(frozen=True)
class ChunkOutlines:
    """The chunks of one leaf, with one value for each row group.

    Attributes:
        is_sound: Whether the chunk is in this file, is not encrypted, and has possible offsets and counts.
            If not, only the numbers of pages are used; `Footer.chunk_metadata` raises the error.
        starts: Byte offset of the chunk.
        stops: Byte offset of its end.
        first_pages: Byte offset of its first data page.
        num_values: Number of values, including nulls.
        uncompressed_bytes: Size of its pages before compression.
        codec: Its `CompressionCodec`.
        data_pages: Number of data pages; `UNKNOWN` if the writer did not record it.
        dictionary_pages: Number of dictionary pages; `UNKNOWN` if the writer did not record it.
        offset_indexes: Byte offset of the OffsetIndex; 0 without one.
        column_indexes: Byte offset of the ColumnIndex; 0 without one.
        page_index_bytes: Bytes of both, without one whose location is outside the file.
    """

    is_sound: Bools
    pages: list[RecordedPages]
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
    page_index_bytes: Int64s

    @property
    def has_offset_index(self) -> Bools:
        """Whether the footer has the offset of an OffsetIndex."""
        return np.asarray(self.offset_indexes != 0)

    @property
    def has_column_index(self) -> Bools:
        """Whether the footer has the locations of a ColumnIndex and its OffsetIndex."""
        offset_index = (self.offset_indexes != 0) & (self.offset_index_bytes != 0)
        return np.asarray(offset_index & (self.column_indexes != 0) & (self.column_index_bytes != 0))

    @classmethod
    def blank(cls, num_groups: int) -> ChunkOutlines:
        """Return the outlines of chunks that are not sound, to be filled in."""
        numbers = np.zeros((len(_NUMBERS), num_groups), dtype=np.int64)
        return cls(np.zeros(num_groups, dtype=bool), [_NOT_RECORDED] * num_groups, *numbers)

    def fill_in(self, groups: Int64s, found: ChunkOutlines) -> None:
        """Fill in the chunks of some row groups.

        Args:
            groups: Ordinals of the row groups.
            found: The outlines of these row groups only.
        """
        self.is_sound[groups] = found.is_sound
        for group, pages in zip(groups.tolist(), found.pages, strict=True):
            self.pages[group] = pages
        for name in _NUMBERS:
            getattr(self, name)[groups] = getattr(found, name)

    def padded(self, end: int) -> ChunkOutlines:
        """Return the chunks with bytes behind them, up to the end of the file's body."""
        return replace(self, stops=np.minimum(self.stops + _PADDING_BYTES, end))


#: The fields of `ChunkOutlines` that are arrays of numbers.
_NUMBERS = tuple(name for name in ChunkOutlines.__annotations__ if name not in ("is_sound", "pages"))


#: Outlines the chunks of some leaves in the row groups of some ordinals.
_Outline: TypeAlias = "Callable[[Sequence[Leaf], Int64s], list[ChunkOutlines]]"


class OutlinedChunks:
    """The chunks of a file that have been outlined; thread-safe."""

    def __init__(self, num_leaves: int, num_groups: int) -> None:
        self._all_groups: Int64s = np.arange(num_groups)
        self._of_leaves: dict[int, ChunkOutlines] = {}
        self._is_known = np.zeros((num_leaves, num_groups), dtype=bool)
        self._has_gaps = False  # in the outlines of a leaf
        self._lock = threading.Lock()

    @property
    def share(self) -> float:
        """The share of the chunks that have been outlined."""
        return float(np.count_nonzero(self._is_known) / max(self._is_known.size, 1))

    def of(
        self, leaves: Sequence[Leaf], groups: Sequence[int] | Int64s | None, outline: _Outline
    ) -> list[ChunkOutlines]:
        """Return the outlines of some leaves.

        Args:
            groups: Ordinals of the row groups whose chunks are needed, None for all. The chunks of others may
                be missing: then they are not sound.
            outline: Outlines the chunks of some leaves in some row groups, always those of the same file.
        """
        ordinals = list(map(_ORDINAL, leaves))
        try:
            found = list(map(self._of_leaves.__getitem__, ordinals))
            if not self._has_gaps:
                return found
        except KeyError:
            found = []
        is_all = groups is None or len(groups) * OUTLINED_PART >= len(self._all_groups)
        wanted = self._all_groups if is_all else np.asarray(groups, dtype=np.int64)
        if len(found) < len(leaves) or not self._is_known[_rows(leaves), wanted].all():
            with self._lock:
                self._add(leaves, wanted, outline)
            found = list(map(self._of_leaves.__getitem__, ordinals))
        return found

    def _add(self, leaves: Sequence[Leaf], groups: Int64s, outline: _Outline) -> None:
        known = self._is_known[_rows(leaves), groups]
        missing = groups[~known.all(axis=0)]
        lacking = [
            leaf
            for leaf, of_leaf in zip(leaves, known, strict=True)
            if leaf.ordinal not in self._of_leaves or not of_leaf.all()
        ]
        for leaf, found in zip(lacking, outline(lacking, missing), strict=True):
            if leaf.ordinal not in self._of_leaves:
                if len(missing) == len(self._all_groups):
                    self._of_leaves[leaf.ordinal] = found
                    continue
                self._has_gaps = True
                self._of_leaves[leaf.ordinal] = ChunkOutlines.blank(len(self._all_groups))
            # in place, because other threads may have the outlines of other row groups
            self._of_leaves[leaf.ordinal].fill_in(missing, found)
        self._is_known[_rows(lacking), missing] = True
        self._has_gaps = not self._is_known[list(self._of_leaves)].all()


def _rows(leaves: Sequence[Leaf]) -> Int64s:
    """Return the ordinals of leaves as a column, to index a matrix by them and by row groups."""
    return np.fromiter(map(_ORDINAL, leaves), dtype=np.int64, count=len(leaves))[:, np.newaxis]


def recorded_pages(stats: Sequence[PageEncodingStats] | None, encodings: Sequence[int]) -> RecordedPages:
    """Return what the ``encoding_stats`` of a chunk say, or if they are missing, its encodings."""
    if not stats:
        has_dictionary = any(encoding in DICTIONARY_ENCODINGS for encoding in encodings)
        use = DictionaryUse.SOME_PAGES if has_dictionary else DictionaryUse.NEVER
        is_all = Encoding.PLAIN_DICTIONARY in encodings and _DICTIONARY_AND_LEVELS.issuperset(encodings)
        return RecordedPages(UNKNOWN, UNKNOWN, use, False, is_all, encodings)
    data_pages = dictionary_pages = 0
    needs: set[bool] = set()
    others = []
    for stat in stats:
        if stat.page_type in DATA_PAGES:
            data_pages += stat.count
            if stat.count:
                needs.add(stat.encoding in DICTIONARY_ENCODINGS)
            continue
        if stat.page_type == PageType.DICTIONARY_PAGE:
            dictionary_pages += stat.count
        if stat.count:
            others.append((stat.page_type, stat.count))
    use = DictionaryUse.ALWAYS if True in needs else DictionaryUse.NEVER
    if len(needs) == 2:
        use = DictionaryUse.SOME_PAGES
    needed = [(PageType.DICTIONARY_PAGE, 1)] if use is DictionaryUse.ALWAYS else []
    is_single = data_pages == 1 and others == needed
    is_all = use is DictionaryUse.ALWAYS
    return RecordedPages(data_pages, dictionary_pages, use, is_single, is_all, encodings)


@dataclass(frozen=True)
class ChunkPlan:
    """The byte ranges to read of one column chunk.

    Attributes:
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
    page_ordinals: npt.ArrayLike = ()


class LeafPlan(NamedTuple):
    """What is read of one leaf in some row groups: whole chunks, or pages.

    Attributes:
        groups: Ordinals of the row groups.
        outlines: The leaf's chunks, which are sound in these row groups.
        chunks: The pages of each row group; empty to read whole chunks.
        dictionaries: The dictionary pages that the pages need, by position in ``groups``.
        rows: A value that is equal for leaves whose pages have the same rows.
    """

    leaf: Leaf
    groups: Int64s
    outlines: ChunkOutlines
    chunks: Sequence[ChunkPlan] = ()
    dictionaries: Mapping[int, ByteRange] = MappingProxyType({})
    rows: Hashable = None

    @property
    def is_whole(self) -> bool:
        """Whether all chunks are read as a whole."""
        return all(chunk.whole for chunk in self.chunks)

    def ranges(self) -> list[ByteRange]:
        """Return the ranges to read."""
        if self.chunks:
            found = list(self.dictionaries.values())
            for chunk in self.chunks:
                found += chunk.pages
            return found
        starts, stops = self.outlines.starts[self.groups], self.outlines.stops[self.groups]
        return list(map(ByteRange, starts.tolist(), stops.tolist()))


class ChosenPages(NamedTuple):
    """The pages of a chunk that contain some rows.

    Attributes:
        num_rows: Number of rows in each of them.
        covered: Their rows, relative to the row group.
    """

    ordinals: npt.NDArray[np.int64]
    num_rows: list[int]
    covered: RowSelection


def choose_pages(rows: RowSelection, pages: PageRows) -> ChosenPages:
    """Return the pages that contain some rows, which are relative to the row group."""
    ordinals = rows.overlaps(pages.starts, pages.stops).nonzero()[0]
    starts, stops = pages.starts[ordinals], pages.stops[ordinals]
    return ChosenPages(ordinals, (stops - starts).tolist(), RowSelection.union_of(starts, stops))


def plan_chunk(
    leaf: Leaf,
    outlines: ChunkOutlines,
    row_group: int,
    locations: PageLocations | None,
    num_rows: int,
    choose: Callable[[PageRows], ChosenPages],
    *,
    is_unpruned: bool = False,
) -> ChunkPlan:
    """Plan to read the pages of a chunk that contain some rows.

    Args:
        outlines: The leaf's chunks, of which this one is sound.
        row_group: Ordinal of the row group.
        locations: The locations of its pages; None if they are unknown or not needed, so that the whole chunk
            is read.
        num_rows: Number of rows in the row group.
        choose: `choose_pages` of the rows, cached, because chunks of a row group often have the same pages.
        is_unpruned: No row of the row group was excluded with a page index. If all pages are needed, the
            chunk is then read as a whole. Otherwise, the pages are compared with their locations.
    """
    chunk_start, chunk_stop = int(outlines.starts[row_group]), int(outlines.stops[row_group])
    counts, total_pages = outlines.pages[row_group], outlines.pages[row_group].data
    has_dictionary_within = counts.dictionary_use is DictionaryUse.ALWAYS
    if locations is not None:
        total_pages = len(locations.offsets)
        chosen = choose(locations.rows)
        starts: list[int] = locations.offsets[chosen.ordinals].tolist()
        sizes: list[int] = locations.sizes_bytes[chosen.ordinals].tolist()
        merged: list[ByteRange] = []
        for start, size in zip(starts, sizes, strict=True):
            if merged and merged[-1].stop == start:
                merged[-1] = ByteRange(merged[-1].start, start + size)
            else:
                merged.append(ByteRange(start, start + size))
        first_page = int(locations.offsets[0])
        has_dictionary = chunk_start < first_page <= chunk_stop
        dictionary = ByteRange(chunk_start, first_page) if has_dictionary else None
        use = DictionaryUse.NEVER if dictionary is None else counts.dictionary_use
        is_whole = is_unpruned and len(merged) == 1 and len(starts) == total_pages
        if is_whole:
            has_dictionary_within = use is DictionaryUse.ALWAYS and first_page == merged[0].start
            start = chunk_start if has_dictionary_within else merged[0].start
            is_whole = (start, merged[0].stop) == (chunk_start, chunk_stop)
        if not is_whole:
            return ChunkPlan(
                leaf,
                tuple(merged),
                sum(sizes),
                [0, *accumulate(sizes[:-1])],
                chosen.num_rows,
                chosen.covered,
                dictionary,
                use,
                total_pages,
                page_ordinals=chosen.ordinals,
            )
    return ChunkPlan(
        leaf,
        (ByteRange(chunk_start, chunk_stop),),
        chunk_stop - chunk_start,
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
