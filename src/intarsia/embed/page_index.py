"""Add Parquet's page index to the chunks of a file that lack one."""

from __future__ import annotations

from collections.abc import Collection
from dataclasses import dataclass, replace
from typing import ClassVar, Literal

from intarsia.embed.chunk import NO_ORDER, Chunk
from intarsia.embed.chunk_index import ChunkIndex, index_chunk
from intarsia.embed.chunk_state import ChunkState, without_bounds
from intarsia.embed.leaf_values import LeafReader
from intarsia.embed.report import Reason
from intarsia.embed.structures import Outcome, StructureCompleter
from intarsia.errors import CorruptFileError, FormatError, IndexBuildError
from intarsia.file import ChunkKey, ParquetInput
from intarsia.file.trust import Claim
from intarsia.format import thrift
from intarsia.format.enums import Type
from intarsia.format.footer import chunk_range
from intarsia.format.page_index import PageLocations, parse_column_index, parse_offset_index
from intarsia.format.structs import ColumnIndex, OffsetIndex, Statistics
from intarsia.predicate.nodes import ColumnName
from intarsia.rows.int96 import Int96
from intarsia.storage import ByteRange


@dataclass(frozen=True)
class PageIndex:
    """Parquet's own page index: a ColumnIndex and an OffsetIndex for every chunk that can have them.

    A trusted page index is kept. All readers that use page indexes benefit: Spark, DataFusion, Trino, Impala
    and Intarsia.

    Args:
        int96: ``"order"`` gives INT96 columns bounds in the ColumnIndex and in the statistics, and declares
            ``INT96_TIMESTAMP_ORDER`` for them. Readers that do not support this order
            ignore the bounds. None gives them an OffsetIndex only.

    Raises:
        IndexBuildError: If ``int96`` has another value.

    Example:
        >>> import intarsia as ia
        >>> ia.PageIndex(), ia.PageIndex(int96="order")
        (PageIndex(int96=None), PageIndex(int96='order'))
    """

    kind: ClassVar[str] = "page_index"
    version: ClassVar[int] = 1
    purpose: ClassVar[str] = "map rows to pages, and skip pages by bounds"

    int96: Literal["order"] | None = None

    def __post_init__(self) -> None:
        if self.int96 not in (None, "order"):
            raise IndexBuildError(
                f"PageIndex(int96={self.int96!r}) is not supported; use 'order' or None",
                reason="invalid-parameter",
            )

    @property
    def name(self) -> str:
        """The name in reports."""
        return self.kind

    @property
    def columns(self) -> tuple[ColumnName, ...]:
        """Nothing, because it belongs to all columns; as in `Index.columns`."""
        return ()

    def leaves(self, file: ParquetInput) -> Collection[int]:
        """Return the ordinals of all leaves."""
        return range(len(file.footer.leaves))

    def complete(self, chunk: Chunk, state: ChunkState) -> Outcome:
        """Check and complete the page index of a chunk."""
        trusted = trusted_page_index(chunk, state)
        refusal = chunk.order_refusal
        int96_order = self.int96 is not None and chunk.leaf.type == Type.INT96
        if int96_order:
            refusal = None
            if isinstance(trusted.column_index, ByteRange) and chunk.order != "INT96_TIMESTAMP_ORDER":
                trusted = replace(trusted, column_index=None)  # its bounds have no order
        if trusted.offset_index is not None:
            if trusted.column_index is not None:
                return Outcome(state, built=False)
            # without a trusted ColumnIndex it is complete only if the column's order forbids bounds
            if not chunk.has_order and trusted == state and not int96_order:
                return Outcome(state, built=None, reason=refusal or NO_ORDER)
        try:
            chunk_index = index_chunk(chunk, refusal=refusal, int96_order=int96_order)
        except IndexBuildError as error:  # an existing OffsetIndex is wrong, too
            without = replace(state, offset_index=None, column_index=None, encoding_stats=())
            return Outcome(without, built=None, reason=Reason.of(error))
        except FormatError as error:
            return Outcome(trusted, built=None, reason=Reason(error.reason or "damaged-pages", error.message))
        merged = _merge(chunk, trusted, chunk_index)
        if int96_order and chunk_index.column_index is not None:
            merged = replace(merged, statistics=_int96_statistics(chunk, state, chunk_index.column_index))
        return Outcome(merged, built=merged != trusted, reason=chunk_index.reason)


def _merge(chunk: Chunk, trusted: ChunkState, chunk_index: ChunkIndex) -> ChunkState:
    """Return the computed page index, but keep an existing OffsetIndex with the same locations."""
    offset_index: ByteRange | bytes = thrift.serialize(chunk_index.offset_index)
    if trusted.offset_index is not None:
        there, _ = thrift.parse(OffsetIndex, chunk.bytes_of(trusted.offset_index))
        if there.page_locations == chunk_index.offset_index.page_locations:
            offset_index = trusted.offset_index
    return replace(
        trusted,
        offset_index=offset_index,
        column_index=None if chunk_index.column_index is None else thrift.serialize(chunk_index.column_index),
        encoding_stats=() if chunk.meta.encoding_stats is not None else tuple(chunk_index.encoding_stats),
    )


def _int96_statistics(chunk: Chunk, state: ChunkState, index: ColumnIndex) -> Statistics:
    """Return the statistics of a chunk with the bounds and null counts of its pages."""
    lows = [Int96.parse(bound) for bound in index.min_values if bound]
    highs = [Int96.parse(bound) for bound in index.max_values if bound]
    now = without_bounds(state.statistics or chunk.meta.statistics or Statistics())
    now = now._replace(null_count=sum(index.null_counts or ()))
    if not lows:
        return now
    return now._replace(
        min_value=min(lows).serialize(),
        max_value=max(highs).serialize(),
        is_min_value_exact=True,
        is_max_value_exact=True,
    )


def known_offset_index(structures: StructureCompleter, key: ChunkKey) -> bytes | None:
    """Return the bytes of a chunk's OffsetIndex, or None if it has no trusted one."""
    chunk = structures.chunk(key)
    if chunk is None:
        return None
    location = trusted_page_index(chunk, structures.states[key]).offset_index
    return None if location is None else chunk.bytes_of(location)


# --- the existing page index ---------------------------------------------------------------------------


def trusted_page_index(chunk: Chunk, state: ChunkState) -> ChunkState:
    """Return the state without the parts of the page index that are not trusted."""
    nothing = replace(state, offset_index=None, column_index=None)
    if state.offset_index is None:
        return nothing
    footer = chunk.file.footer
    trust = chunk.file.trust(chunk.leaf)
    if chunk.footer_only:  # of the current file, so the trust includes what was attached
        doubt = trust.doubt_of_page_index(
            footer.metadata.row_groups[chunk.key.row_group].columns[chunk.key.leaf]
        )
    else:
        doubt = None if isinstance(state.offset_index, bytes) else trust.doubt(Claim.PAGE_INDEX)
    if doubt is not None:
        return nothing
    locations_only = replace(state, column_index=None)
    if isinstance(state.column_index, ByteRange) and footer.metadata.column_orders is None:
        state = locations_only
    if chunk.footer_only:
        return state
    try:
        locations = _locations(chunk, state.offset_index)
    except FormatError:
        return nothing
    if state.column_index is None:
        return state
    try:
        index = parse_column_index(chunk.bytes_of(state.column_index), num_pages=len(locations))
        _check_bounds(index, chunk.reader)
    except FormatError:
        return locations_only
    return state


def _locations(chunk: Chunk, location: ByteRange | bytes) -> PageLocations:
    start, stop = chunk_range(chunk.meta)
    return parse_offset_index(
        chunk.bytes_of(location), num_rows=chunk.num_rows, chunk_start=start, chunk_stop=stop
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
