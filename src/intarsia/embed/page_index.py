"""Parquet's own page index, added to the chunks of a file that lack one."""

from __future__ import annotations

from collections.abc import Collection
from dataclasses import dataclass, replace
from typing import ClassVar

from intarsia.embed.chunk import NO_ORDER, Chunk
from intarsia.embed.chunk_index import ChunkIndex, index_chunk
from intarsia.embed.chunk_state import ChunkState
from intarsia.embed.leaf_values import LeafReader
from intarsia.embed.structures import Outcome
from intarsia.errors import CorruptFileError, FormatError, IndexBuildError
from intarsia.file import ParquetInput
from intarsia.file.trust import Claim, Trust
from intarsia.format import thrift
from intarsia.format.footer import chunk_range
from intarsia.format.page_index import PageLocations, parse_column_index, parse_offset_index
from intarsia.format.structs import ColumnIndex, OffsetIndex
from intarsia.storage import ByteRange


@dataclass(frozen=True)
class PageIndex:
    """Parquet's own page index: a ColumnIndex and an OffsetIndex for every chunk that may have them.

    What a chunk has already, and can be believed, is left alone.  Every reader that knows page indexes gets
    faster: Spark, DataFusion, Trino, Impala, and Intarsia.

    Example:
        >>> import intarsia as ia
        >>> ia.PageIndex()
        PageIndex()
    """

    kind: ClassVar[str] = "page_index"
    version: ClassVar[int] = 1

    @property
    def name(self) -> str:
        """What reports call it."""
        return self.kind

    def leaves(self, file: ParquetInput) -> Collection[int]:
        """Ordinals of all leaves."""
        return range(len(file.footer.leaves))

    def complete(self, chunk: Chunk, state: ChunkState) -> Outcome:
        """Judge and complete the page index of a chunk."""
        trusted = trusted_page_index(chunk, state)
        refusal = chunk.order_refusal
        if trusted.offset_index is not None:
            if trusted.column_index is not None:
                return Outcome(state, built=False)
            # else bounds are missing, unless there may be none
            if not chunk.has_order and trusted == state:
                return Outcome(state, built=None, reason=refusal or NO_ORDER)
        try:
            found = index_chunk(chunk, refusal=refusal)
        except IndexBuildError as error:  # then an OffsetIndex that is there is wrong, too
            without = replace(state, offset_index=None, column_index=None, encoding_stats=())
            return Outcome(without, built=None, reason=str(error))
        except FormatError as error:
            return Outcome(trusted, built=None, reason=error.message)
        merged = _merge(chunk, trusted, found)
        return Outcome(merged, built=merged != trusted, reason=found.reason)


def _merge(chunk: Chunk, trusted: ChunkState, found: ChunkIndex) -> ChunkState:
    """What was computed, but the OffsetIndex that was there if it says the same."""
    offset_index: ByteRange | bytes = thrift.serialize(found.offset_index)
    if trusted.offset_index is not None:
        there, _ = thrift.parse(OffsetIndex, chunk.bytes_of(trusted.offset_index))
        if there.page_locations == found.offset_index.page_locations:
            offset_index = trusted.offset_index
    return replace(
        trusted,
        offset_index=offset_index,
        column_index=None if found.column_index is None else thrift.serialize(found.column_index),
        encoding_stats=() if chunk.meta.encoding_stats is not None else tuple(found.encoding_stats),
    )


# --- what is there, and may stay -----------------------------------------------------------------------


def trusted_page_index(chunk: Chunk, state: ChunkState) -> ChunkState:
    """The state without what of the page index cannot be believed."""
    nothing = replace(state, offset_index=None, column_index=None)
    if state.offset_index is None:
        return nothing
    footer = chunk.file.footer
    added = isinstance(state.offset_index, bytes)
    if not added and Trust(footer, chunk.leaf).doubt(Claim.PAGE_INDEX) is not None:
        return nothing
    try:
        locations = _locations(chunk, state.offset_index)
    except FormatError:
        return nothing
    believed = replace(state, column_index=None)
    if state.column_index is None or (
        isinstance(state.column_index, ByteRange) and footer.metadata.column_orders is None
    ):
        return believed
    try:
        index = parse_column_index(chunk.bytes_of(state.column_index), num_pages=len(locations))
        _check_bounds(index, chunk.reader)
    except FormatError:
        return believed
    return state


def _locations(chunk: Chunk, place: ByteRange | bytes) -> PageLocations:
    start, stop = chunk_range(chunk.meta)
    return parse_offset_index(
        chunk.bytes_of(place), num_rows=chunk.num_rows, chunk_start=start, chunk_stop=stop
    )


def _check_bounds(index: ColumnIndex, reader: LeafReader) -> None:
    """Refuse a column index whose bounds are no values of the type, or upside down."""
    ordering = reader.ordering
    if ordering is None:
        return  # nobody reads such bounds
    lows, highs = ordering.decode_pages(index)
    if (lows > highs).any():
        raise CorruptFileError("a page's minimum is above its maximum", struct="ColumnIndex")
