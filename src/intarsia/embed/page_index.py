"""Add Parquet's page index to the chunks of a file that lack one."""

from __future__ import annotations

from collections.abc import Collection
from dataclasses import replace
from typing import ClassVar, Literal, NamedTuple

import numpy as np
import numpy.typing as npt

from intarsia.embed.chunk import (
    NO_ORDER,
    Chunk,
    ChunkState,
    Outcome,
    computed_statistics,
    without_bounds,
)
from intarsia.embed.leaf_values import PageBounds, cut_bounds, page_bounds
from intarsia.embed.report import Reason
from intarsia.errors import CorruptFileError, FormatError, IndexBuildError
from intarsia.file import ParquetInput
from intarsia.file.writers import Claim
from intarsia.format import thrift
from intarsia.format.enums import Type
from intarsia.format.footer import chunk_range
from intarsia.format.page_index import parse_column_index, parse_offset_index
from intarsia.format.structs import ColumnIndex, OffsetIndex, Statistics
from intarsia.predicate.nodes import ColumnName
from intarsia.records import dataclass
from intarsia.rows.bounds import Counts, boundary_order
from intarsia.rows.int96 import Int96, Int96Values
from intarsia.rows.ordering import Ordering
from intarsia.storage import ByteRange


class OfAllColumns:
    """A standard structure that belongs to all columns."""

    kind: ClassVar[str]

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


@dataclass(frozen=True)
class PageIndex(OfAllColumns):
    """Parquet's own page index: a ColumnIndex and an OffsetIndex for every chunk that can have them.

    A trusted page index is kept. All readers that use page indexes benefit: Spark, DataFusion, Trino, Impala
    and Intarsia.

    Args:
        int96: ``"order"`` gives INT96 columns bounds in the ColumnIndex and in the statistics, and declares
            ``INT96_TIMESTAMP_ORDER`` for them. Readers that do not support this order ignore the bounds, but
            DataFusion before 53 and Polars before 2.0 fail. None gives them an OffsetIndex only.

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
            statistics = state.statistics or _defined_statistics(chunk)
        except IndexBuildError as error:  # an existing OffsetIndex is wrong, too
            without = replace(state, offset_index=None, column_index=None, encoding_stats=())
            return Outcome(without, built=None, reason=Reason.of(error))
        except FormatError as error:
            return Outcome(trusted, built=None, reason=Reason(error.reason or "damaged-pages", error.message))
        merged = replace(_merge(chunk, trusted, chunk_index), statistics=statistics)
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
        encoding_stats=() if chunk.meta.encoding_stats is not None else chunk.pages.encoding_stats(),
    )


def _defined_statistics(chunk: Chunk) -> Statistics | None:
    """Return statistics in place of bounds without a declared order; None if the chunk has none to replace.

    The first ColumnIndex declares an order for all columns, so the undefined bounds have to go. Readers that
    used them, and no page index, would read all row groups.
    """
    statistics = chunk.meta.statistics
    if chunk.order is not None or not chunk.has_order or statistics is None or statistics.min_value is None:
        return None
    return computed_statistics(chunk, without_bounds(statistics))


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


# --- the existing page index ---------------------------------------------------------------------------


def trusted_page_index(chunk: Chunk, state: ChunkState) -> ChunkState:
    """Return the state without the parts of the page index that are not trusted."""
    nothing = replace(state, offset_index=None, column_index=None)
    location, footer = state.offset_index, chunk.file.footer
    if location is None:
        return nothing
    trust = chunk.file.trust(chunk.leaf)
    if chunk.footer_only:  # of the current file, so the trust includes what was attached
        doubt = trust.doubt_of_page_index(footer.chunk(chunk.key.row_group, chunk.leaf))
    else:
        doubt = None if isinstance(location, bytes) else trust.doubt_of_index()
    if doubt is not None:
        return nothing
    locations_only = replace(state, column_index=None)
    if isinstance(state.column_index, ByteRange) and footer.metadata.column_orders is None:
        state = locations_only
    if chunk.footer_only:
        return state
    try:
        start, stop = chunk_range(chunk.meta)
        raw = chunk.bytes_of(location)
        locations = parse_offset_index(raw, num_rows=chunk.num_rows, chunk_start=start, chunk_stop=stop)
    except FormatError:
        return nothing
    if state.column_index is None:
        return state
    try:
        index = parse_column_index(chunk.bytes_of(state.column_index), num_pages=len(locations))
        if chunk.reader.ordering is not None:  # else readers ignore the bounds
            lows, highs = chunk.reader.ordering.decode_pages(index)
            return locations_only if (lows > highs).any() else state
    except FormatError:
        return locations_only
    return state


#: The specification excludes NaN from bounds, and current readers ignore ``nan_counts``. Spark, DuckDB and
#: DataFusion order NaN above every number, so with these bounds they would skip pages whose NaN match
#: ``x > 5``.  parquet-java omits the column index in this case, too.
HOLDS_NAN = Reason(
    "contains-nan",
    "it contains NaN; engines that order NaN above every number would skip matching rows by bounds "
    "without it",
)


@dataclass(frozen=True)
class ChunkIndex:
    """The computed page index of a chunk.

    Attributes:
        column_index: Their bounds; None if the specification does not allow them.
        reason: Why there is no column index; None if there is one.
    """

    offset_index: OffsetIndex
    column_index: ColumnIndex | None
    reason: Reason | None = None


def index_chunk(chunk: Chunk, *, refusal: Reason | None = None, int96_order: bool = False) -> ChunkIndex:
    """Compute the page index of a chunk.

    Args:
        refusal: Why the column index is omitted; None to compute it.
        int96_order: Whether to compute the bounds of an INT96 chunk, under ``INT96_TIMESTAMP_ORDER``.

    Raises:
        IndexBuildError: If the pages cannot have an OffsetIndex either; the message says why.
        FormatError: If the pages are damaged.
    """
    pages, index, value_bytes = chunk.pages, None, None
    if refusal is None:
        try:
            if int96_order:
                index = _int96_column_index(chunk)
            else:
                index, value_bytes = _column_index(chunk)
                refusal = None if index is not None else HOLDS_NAN
        except (FormatError, IndexBuildError) as error:
            refusal = Reason.of(error)
    return ChunkIndex(pages.offset_index(chunk.start, value_bytes), index, refusal)


def _column_index(chunk: Chunk) -> tuple[ColumnIndex | None, Counts | None]:
    """Return the column index, None if the chunk contains NaN; and the value bytes of each page, if known."""
    leaf, pages, ordering = chunk.leaf, chunk.pages, chunk.reader.ordering
    if ordering is None:
        raise IndexBuildError(NO_ORDER.text, reason=NO_ORDER.code)
    present, bounds = stated_pages(chunk) or _decoded_pages(chunk, ordering)
    null_counts = pages.num_values - present
    has_value = present > 0
    value_bytes = None
    if leaf.type == Type.BYTE_ARRAY and not ordering.decimal:
        value_bytes = _spread(bounds.value_bytes, has_value)
    if bounds.nan_counts is not None and bounds.nan_counts.any() and not chunk.total_order:
        return None, value_bytes
    minima, maxima = cut_bounds(bounds.minima, bounds.maxima, ordering)
    order = boundary_order(ordering.decode(minima), ordering.decode(maxima))
    nan_counts = None if bounds.nan_counts is None else _spread(bounds.nan_counts, has_value).tolist()
    levels = pages.levels or ()
    repetition = [count for page in levels for count in page.repetition.histogram.tolist()]
    definition = [count for page in levels for count in page.definition.histogram.tolist()]
    index = ColumnIndex(
        null_pages=(~has_value).tolist(),
        min_values=_fill(minima, has_value),
        max_values=_fill(maxima, has_value),
        boundary_order=int(order),
        null_counts=null_counts.tolist(),
        repetition_level_histograms=repetition if leaf.max_repetition_level else None,
        definition_level_histograms=definition if leaf.max_definition_level > 1 else None,
        nan_counts=nan_counts,
    )
    return index, value_bytes


def _int96_column_index(chunk: Chunk) -> ColumnIndex:
    """Compute bounds under ``INT96_TIMESTAMP_ORDER``."""
    present, num_values = chunk.present, chunk.pages.num_values
    values = Int96Values(chunk.stored_values)
    if present is None or len(values.days) != present.sum():
        raise IndexBuildError("its levels and its values disagree", reason="value-count-mismatch")
    if not values.are_normal:  # only then is an order that compares the day first chronological
        message = "some of its INT96 values have nanoseconds outside their day"
        raise IndexBuildError(message, reason="int96-not-normal")
    has_value, stops = present > 0, np.cumsum(present)
    extremes = [
        values.extremes(start, stop)
        for start, stop in zip((stops - present)[has_value].tolist(), stops[has_value].tolist(), strict=True)
    ]
    minima, maxima = (np.array([pair[end].instant for pair in extremes], dtype=object) for end in (0, 1))
    return ColumnIndex(
        null_pages=(~has_value).tolist(),
        min_values=_fill([low.serialize() for low, _ in extremes], has_value),
        max_values=_fill([high.serialize() for _, high in extremes], has_value),
        boundary_order=int(boundary_order(minima, maxima)),
        null_counts=(num_values - present).tolist(),
    )


def _decoded_pages(chunk: Chunk, ordering: Ordering) -> StatedPages:
    """Compute bounds and counts of the pages from their values."""
    present = chunk.present
    if present is None:
        raise IndexBuildError(
            f"its pages claim {chunk.num_rows} rows, but {len(chunk.column)} were decoded",
            reason="row-count-mismatch",
        )
    values = chunk.values
    if len(values) != present.sum():
        raise IndexBuildError(
            f"its levels claim {present.sum()} values, but {len(values)} were decoded",
            reason="value-count-mismatch",
        )
    starts = (np.cumsum(present) - present)[present > 0]
    if not len(starts):
        return StatedPages(present, PageBounds([], [], np.empty(0, np.int64) if ordering.is_float else None))
    return StatedPages(present, page_bounds(values, starts, ordering, total_order=chunk.total_order))


def _spread(counts: Counts | None, has_value: npt.NDArray[np.bool_]) -> Counts:
    """Return counts for all pages; pages with only nulls get 0."""
    spread = np.zeros(len(has_value), dtype=np.int64)
    if counts is not None:
        spread[has_value] = counts
    return spread


def _fill(bounds: list[bytes], has_value: npt.NDArray[np.bool_]) -> list[bytes]:
    """Return bounds for all pages; pages with only nulls get an empty one."""
    given = iter(bounds)
    return [next(given) if held else b"" for held in has_value.tolist()]


# --- the bounds in page headers ---------------------------------------------------------------------------


class StatedPages(NamedTuple):
    """Counts and bounds of the pages of a chunk.

    Attributes:
        present: Number of values of each page that are not null.
        bounds: Bounds of the pages that have a value that is not null.
    """

    present: Counts
    bounds: PageBounds


def stated_pages(chunk: Chunk) -> StatedPages | None:
    """Return the bounds in a chunk's page headers; None if they are missing or not trusted.

    pyarrow computes its chunk statistics and its page index from the statistics that it writes into page
    headers. If these agree with the chunk's statistics, they are trusted like a page index by pyarrow, and no
    value has to be decoded. This applies to integers only. Page statistics of floats do not show whether a
    page contains NaN, and pyarrow's bounds of bytes include dictionary values of no row.

    Args:
        chunk: A chunk whose pages have been located, so that each page of a flat column has one value per
            row.
    """
    ordering, whole = chunk.reader.ordering, chunk.meta.statistics
    if ordering is None or whole is None or chunk.order != "TYPE_ORDER":
        return None
    if chunk.file.trust(chunk.leaf).doubt(Claim.PAGE_HEADERS) is not None:
        return None
    headers = [page.header.data_page_header or page.header.data_page_header_v2 for page in chunk.pages.data]
    stated = [(header.statistics if header is not None else None) or Statistics() for header in headers]
    nulls = np.array([-1 if found.null_count is None else found.null_count for found in stated], np.int64)
    num_values = chunk.pages.num_values
    if (nulls < 0).any() or (nulls > num_values).any() or nulls.sum() != whole.null_count:
        return None
    present = num_values - nulls
    filled = [found for found, count in zip(stated, present.tolist(), strict=True) if count]
    minima = [found.min_value for found in filled if found.min_value is not None]
    maxima = [found.max_value for found in filled if found.max_value is not None]
    if not filled:
        return StatedPages(present, PageBounds([], []))
    if len(minima) != len(filled) or len(maxima) != len(filled):
        return None
    if whole.min_value is None or whole.max_value is None:
        return None
    try:
        lows, highs = ordering.decode(minima), ordering.decode(maxima)
        low, high = ordering.decode([whole.min_value, whole.max_value])
    except CorruptFileError:
        return None
    is_sound = (lows <= highs).all() and lows.min() == low and highs.max() == high
    return StatedPages(present, PageBounds(minima, maxima)) if is_sound else None
