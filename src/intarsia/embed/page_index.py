"""Add Parquet's page index to the chunks of a file that lack one."""

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
    """Parquet's own page index: a ColumnIndex and an OffsetIndex for every chunk that can have them.

    A trusted page index is kept.  All readers that use page indexes profit: Spark, DataFusion, Trino, Impala
    and Intarsia.

    Example:
        >>> import intarsia as ia
        >>> ia.PageIndex()
        PageIndex()
    """

    kind: ClassVar[str] = "page_index"
    version: ClassVar[int] = 1

    @property
    def name(self) -> str:
        """The name in reports."""
        return self.kind

    def leaves(self, file: ParquetInput) -> Collection[int]:
        """Return the ordinals of all leaves."""
        return range(len(file.footer.leaves))

    def complete(self, chunk: Chunk, state: ChunkState) -> Outcome:
        """Check and complete the page index of a chunk."""
        trusted = trusted_page_index(chunk, state)
        refusal = chunk.order_refusal
        if trusted.offset_index is not None:
            if trusted.column_index is not None:
                return Outcome(state, built=False)
            # without a trusted ColumnIndex it is complete only if the column's order forbids bounds
            if not chunk.has_order and trusted == state:
                return Outcome(state, built=None, reason=refusal or NO_ORDER)
        try:
            found = index_chunk(chunk, refusal=refusal)
        except IndexBuildError as error:  # an existing OffsetIndex is wrong, too
            without = replace(state, offset_index=None, column_index=None, encoding_stats=())
            return Outcome(without, built=None, reason=str(error))
        except FormatError as error:
            return Outcome(trusted, built=None, reason=error.message)
        merged = _merge(chunk, trusted, found)
        return Outcome(merged, built=merged != trusted, reason=found.reason)


def _merge(chunk: Chunk, trusted: ChunkState, found: ChunkIndex) -> ChunkState:
    """Return the computed page index, but keep an existing OffsetIndex with the same locations."""
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


# --- the existing page index ---------------------------------------------------------------------------


def trusted_page_index(chunk: Chunk, state: ChunkState) -> ChunkState:
    """Return the state without the parts of the page index that are not trusted."""
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
    locations_only = replace(state, column_index=None)
    if state.column_index is None or (
        isinstance(state.column_index, ByteRange) and footer.metadata.column_orders is None
    ):
        return locations_only
    try:
        index = parse_column_index(chunk.bytes_of(state.column_index), num_pages=len(locations))
        _check_bounds(index, chunk.reader)
    except FormatError:
        return locations_only
    return state


def _locations(chunk: Chunk, place: ByteRange | bytes) -> PageLocations:
    start, stop = chunk_range(chunk.meta)
    return parse_offset_index(
        chunk.bytes_of(place), num_rows=chunk.num_rows, chunk_start=start, chunk_stop=stop
    )


def _check_bounds(index: ColumnIndex, reader: LeafReader) -> None:
    """Check that all bounds are values of the type, and that no minimum is above its maximum."""
    ordering = reader.ordering
    if ordering is None:
        return  # readers ignore bounds without an order
    lows, highs = ordering.decode_pages(index)
    if (lows > highs).any():
        raise CorruptFileError(
            "a page's minimum is above its maximum",
            reason="inverted-bounds",
            column=reader.leaf.name,
            struct="ColumnIndex",
        )
