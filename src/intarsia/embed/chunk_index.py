"""Compute the page index of one column chunk from its bytes.

`IndexBuildError` means that the specification does not allow the index.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from intarsia.embed.chunk import NO_ORDER, Chunk
from intarsia.embed.chunk_pages import LocatedPages
from intarsia.embed.page_bounds import PageBounds, cut_max, cut_min, page_bounds
from intarsia.embed.page_counts import present_counts
from intarsia.embed.report import Reason
from intarsia.embed.stated_pages import StatedPages, stated_pages
from intarsia.errors import FormatError, IndexBuildError
from intarsia.format.enums import Type
from intarsia.format.structs import ColumnIndex, OffsetIndex, PageEncodingStats
from intarsia.rows.bounds import boundary_order
from intarsia.rows.int96 import Int96Values
from intarsia.rows.ordering import Ordering

Counts = npt.NDArray[np.int64]

#: The specification excludes NaN from bounds, and current readers ignore ``nan_counts``. Spark, DuckDB and
#: DataFusion order NaN above every number, so with these bounds they would skip pages whose NaN match
#: ``x > 5``.  parquet-java omits the column index in this case, too.
HOLDS_NAN = Reason(
    "contains-nan",
    "it contains NaN; engines that order NaN above every number would skip matching rows by bounds "
    "without it",
)


#: An order of INT96 that compares the day first is chronological only for such values.
NOT_CHRONOLOGICAL = "some of its INT96 values have nanoseconds outside their day"


@dataclass(frozen=True)
class ChunkIndex:
    """The computed page index of a chunk.

    Attributes:
        offset_index: The locations of the pages.
        column_index: Their bounds; None if the specification does not allow them.
        encoding_stats: The encodings of the pages.
        reason: Why there is no column index; None if there is one.
    """

    offset_index: OffsetIndex
    column_index: ColumnIndex | None
    encoding_stats: list[PageEncodingStats]
    reason: Reason | None = None


def index_chunk(chunk: Chunk, *, refusal: Reason | None = None, int96_order: bool = False) -> ChunkIndex:
    """Compute the page index of a chunk.

    Args:
        chunk: The chunk.
        refusal: Why the column index is omitted; None to compute it.
        int96_order: Whether an INT96 chunk gets bounds under ``INT96_TIMESTAMP_ORDER``.

    Raises:
        IndexBuildError: If the pages cannot have an OffsetIndex either; the message says why.
        FormatError: If the pages are damaged.
    """
    found = chunk.pages
    stats = found.encoding_stats()
    if refusal is not None:
        return ChunkIndex(found.offset_index(chunk.start), None, stats, refusal)
    try:
        if int96_order and chunk.leaf.type == Type.INT96:
            return ChunkIndex(found.offset_index(chunk.start), _int96_column_index(chunk, found), stats)
        index, value_bytes = _column_index(chunk, found)
    except (FormatError, IndexBuildError) as error:
        return ChunkIndex(found.offset_index(chunk.start), None, stats, Reason.of(error))
    reason = None if index is not None else HOLDS_NAN
    return ChunkIndex(found.offset_index(chunk.start, value_bytes), index, stats, reason)


def _column_index(chunk: Chunk, pages: LocatedPages) -> tuple[ColumnIndex | None, Counts | None]:
    """Return the column index, None if the chunk contains NaN; and the value bytes of each page, if known."""
    leaf, ordering = chunk.leaf, chunk.reader.ordering
    if ordering is None:
        raise IndexBuildError(NO_ORDER.text, reason=NO_ORDER.code)
    present, bounds = stated_pages(chunk) or _decoded_pages(chunk, pages, ordering)
    null_counts = pages.num_values - present
    has_value = present > 0
    value_bytes = None
    if leaf.type == Type.BYTE_ARRAY and not ordering.decimal:
        value_bytes = _spread(bounds.value_bytes, has_value)
    if bounds.nan_counts is not None and bounds.nan_counts.any() and not chunk.total_order:
        return None, value_bytes
    minima = [cut_min(bound, ordering) for bound in bounds.minima]
    maxima = [cut_max(bound, ordering) for bound in bounds.maxima]
    order = boundary_order(ordering.decode(minima), ordering.decode(maxima))
    nan_counts = None if bounds.nan_counts is None else _spread(bounds.nan_counts, has_value).tolist()
    levels = pages.levels or ()
    index = ColumnIndex(
        null_pages=(~has_value).tolist(),
        min_values=_fill(minima, has_value),
        max_values=_fill(maxima, has_value),
        boundary_order=int(order),
        null_counts=null_counts.tolist(),
        repetition_level_histograms=(
            [count for page in levels for count in page.repetition.histogram.tolist()]
            if leaf.max_repetition_level
            else None
        ),
        definition_level_histograms=(
            [count for page in levels for count in page.definition.histogram.tolist()]
            if leaf.max_definition_level > 1
            else None
        ),
        nan_counts=nan_counts,
    )
    return index, value_bytes


def _int96_column_index(chunk: Chunk, pages: LocatedPages) -> ColumnIndex:
    """Compute bounds under ``INT96_TIMESTAMP_ORDER``."""
    present = present_counts(pages.num_values, pages.levels, chunk.column)
    values = Int96Values(chunk.stored_values)
    if present is None or len(values.days) != present.sum():
        raise IndexBuildError("its levels and its values disagree", reason="value-count-mismatch")
    if not values.are_normal:
        raise IndexBuildError(NOT_CHRONOLOGICAL, reason="int96-not-normal")
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
        null_counts=(pages.num_values - present).tolist(),
    )


def _decoded_pages(chunk: Chunk, pages: LocatedPages, ordering: Ordering) -> StatedPages:
    """Compute bounds and counts of the pages from their values."""
    present = present_counts(pages.num_values, pages.levels, chunk.column)
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
