"""What a column chunk has, or is to have, of Parquet's standard structures."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, replace
from typing import TypeAlias

from intarsia.file import ChunkKey, ParquetInput
from intarsia.format.footer import Footer
from intarsia.format.structs import ColumnChunk, PageEncodingStats, Statistics
from intarsia.storage import ByteRange

#: Fields of `Statistics` that have a meaning only where the footer declares how the column is ordered.
ORDERED_BOUNDS = ("min_value", "max_value", "is_min_value_exact", "is_max_value_exact")

#: Where a structure lies in the original file, or its bytes if it was added; None: there is none.
Placed: TypeAlias = ByteRange | bytes | None


@dataclass(frozen=True)
class ChunkState:
    """The standard structures of one chunk.

    Attributes:
        offset_index: Its OffsetIndex.
        column_index: Its ColumnIndex.
        bloom_filter: Its Bloom filter, header and bits; a place ends with the body where nobody wrote down
            how long the filter is.
        encoding_stats: Encodings of the pages, if the original footer does not say them.
        statistics: Statistics that take the place of the original footer's; None: those stay.
    """

    offset_index: Placed = None
    column_index: Placed = None
    bloom_filter: Placed = None
    encoding_stats: tuple[PageEncodingStats, ...] = ()
    statistics: Statistics | None = None


def state_of(chunk: ColumnChunk, body_stop: int) -> ChunkState:
    """What a footer says of a chunk.

    Args:
        chunk: The chunk.
        body_stop: Where the original footer starts.
    """
    meta = chunk.meta_data
    bloom_filter = None
    if meta is not None and meta.bloom_filter_offset:
        start = meta.bloom_filter_offset
        bloom_filter = ByteRange(
            start, start + meta.bloom_filter_length if meta.bloom_filter_length else body_stop
        )
    return ChunkState(
        _place(chunk.offset_index_offset, chunk.offset_index_length),
        _place(chunk.column_index_offset, chunk.column_index_length),
        bloom_filter,
    )


def present_states(original: Footer, current: Footer) -> dict[ChunkKey, ChunkState]:
    """The structures of every chunk as a retrofitted file has them; all of them as places.

    Args:
        original: The footer of the file before anything was added.
        current: The footer of the file; the same as the original if nothing was.
    """
    orders_added = original.metadata.column_orders is None and current.metadata.column_orders is not None
    states = {}
    for key, chunk in chunks_of(current):
        state = state_of(chunk, original.start)
        before = original.metadata.row_groups[key.row_group].columns[key.leaf].meta_data
        after = chunk.meta_data
        if before is not None and after is not None:
            left = before.statistics
            if left is not None and orders_added:  # bounds that were not written by that order went
                left = without_bounds(left)
            state = replace(
                state,
                encoding_stats=tuple(after.encoding_stats or ()) if before.encoding_stats is None else (),
                statistics=after.statistics if after.statistics != left else None,
            )
        states[key] = state
    return states


def is_added(place: Placed, original: Footer) -> bool:
    """Whether a structure lies behind the original file, or is to."""
    return isinstance(place, bytes) or (place is not None and place.stop > original.file_length)


def carried_states(original: Footer, current: ParquetInput) -> dict[ChunkKey, ChunkState]:
    """The same as `present_states`, with the bytes of what was added.

    Args:
        original: The footer of the file before anything was added.
        current: The file.
    """

    def carried(place: Placed) -> Placed:
        if not isinstance(place, ByteRange) or not is_added(place, original):
            return place
        if not current.footer.holds(place.start, place.stop):
            return None  # damaged: as if it were not there
        return current.source.read(place.start, place.stop)

    return {
        key: replace(
            state,
            offset_index=carried(state.offset_index),
            column_index=carried(state.column_index),
            bloom_filter=carried(state.bloom_filter),
        )
        for key, state in present_states(original, current.footer).items()
    }


def without_bounds(statistics: Statistics) -> Statistics:
    """Statistics without what depends on an order."""
    return statistics._replace(**dict.fromkeys(ORDERED_BOUNDS))


def chunks_of(footer: Footer) -> Iterator[tuple[ChunkKey, ColumnChunk]]:
    """Every chunk of a file, row group by row group."""
    for ordinal, group in enumerate(footer.metadata.row_groups):
        for leaf, chunk in enumerate(group.columns):
            yield ChunkKey(ordinal, leaf), chunk


def _place(offset: int | None, length: int | None) -> ByteRange | None:
    return ByteRange(offset, offset + length) if offset and length else None
