"""The standard structures of a column chunk, before and after `attach`."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, replace
from typing import Any, TypeAlias, cast

from intarsia.embed.report import Reason
from intarsia.file import ChunkKey, ParquetInput
from intarsia.format.directory import Directory
from intarsia.format.footer import Footer
from intarsia.format.structs import ColumnChunk, PageEncodingStats, Statistics
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
        offset_index: The OffsetIndex.
        column_index: The ColumnIndex.
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


def state_of(chunk: ColumnChunk, body_stop: int) -> ChunkState:
    """Return the structures of a chunk according to its footer."""
    meta = chunk.meta_data
    bloom_filter = None
    if meta is not None and meta.bloom_filter_offset:
        start = meta.bloom_filter_offset
        bloom_filter = ByteRange(
            start, start + meta.bloom_filter_length if meta.bloom_filter_length else body_stop
        )
    return ChunkState(
        _location(chunk.offset_index_offset, chunk.offset_index_length),
        _location(chunk.column_index_offset, chunk.column_index_length),
        bloom_filter,
    )


def present_states(
    original: Footer, current: Footer, directory: Directory | None
) -> dict[ChunkKey, ChunkState]:
    """Return the structures of every chunk of a file, all of them as ranges.

    Args:
        original: The footer of the original file.
        current: The current footer; equal to the original one if nothing is attached.
        directory: The directory of attached indexes; None if nothing is attached.
    """
    computed = directory.computed_statistics if directory is not None else frozenset()
    # `add_column_orders` and `set_int96_order` removed the bounds of columns whose order they declared
    ordered = {
        leaf.ordinal for leaf in original.leaves if original.column_order(leaf) != current.column_order(leaf)
    }
    states = {}
    for key, chunk in chunks_of(current):
        state = state_of(chunk, original.start)
        before = original.metadata.row_groups[key.row_group].columns[key.leaf].meta_data
        after = chunk.meta_data
        if before is not None and after is not None:
            left = before.statistics
            if left is not None and key.leaf in ordered:
                left = without_bounds(left)
            state = replace(
                state,
                encoding_stats=tuple(after.encoding_stats or ()) if before.encoding_stats is None else (),
                statistics=after.statistics if after.statistics != left or key.leaf in computed else None,
            )
        states[key] = state
    return states


def is_added(location: Placed, original: Footer) -> bool:
    """Return whether a structure is attached or new, that is, not part of the original file."""
    return isinstance(location, bytes) or (location is not None and location.stop > original.file_length)


def carried_states(
    original: Footer, current: ParquetInput, directory: Directory | None
) -> dict[ChunkKey, ChunkState]:
    """Return `present_states` with the bytes of attached structures instead of their ranges.

    Args:
        original: The footer of the original file.
        current: The current file.
        directory: As for `present_states`.
    """

    def carried(location: Placed) -> Placed:
        if not isinstance(location, ByteRange) or not is_added(location, original):
            return location
        if not current.footer.contains_range(location.start, location.stop):
            return None  # treat a damaged structure as missing
        return current.source.read(location.start, location.stop)

    return {
        key: replace(state, **cast(dict[str, Any], {name: carried(getattr(state, name)) for name in LOCATED}))
        for key, state in present_states(original, current.footer, directory).items()
    }


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


def _location(offset: int | None, length: int | None) -> ByteRange | None:
    return ByteRange(offset, offset + length) if offset and length else None
