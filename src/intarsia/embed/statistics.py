"""Add Parquet's statistics to column chunks that have none, or only the deprecated form."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import ClassVar

import numpy as np

from intarsia.embed.chunk import NO_ORDER, Chunk, ChunkState, Outcome, without_bounds
from intarsia.embed.page_bounds import cut_bounds, page_bounds
from intarsia.embed.page_index import HOLDS_NAN, OfAllColumns
from intarsia.embed.report import Reason
from intarsia.errors import CorruptFileError, FormatError, IndexBuildError
from intarsia.file.trust import Claim
from intarsia.format import structs
from intarsia.rows.ordering import Ordering


@dataclass(frozen=True)
class Statistics(OfAllColumns):
    """Parquet's own statistics: minimum, maximum and number of nulls of every column chunk.

    Trusted statistics are kept. The deprecated form, which many readers ignore, is kept and completed by the
    current form. Bounds of strings are truncated to 64 bytes. Every reader skips row groups by statistics,
    and they cost no request because they are in the footer.

    Example:
        >>> import intarsia as ia
        >>> ia.Statistics()
        Statistics()
    """

    kind: ClassVar[str] = "statistics"
    version: ClassVar[int] = 1
    purpose: ClassVar[str] = "skip row groups by bounds"

    def complete(self, chunk: Chunk, state: ChunkState) -> Outcome:
        """Check and complete the statistics of a chunk."""
        now = state.statistics or chunk.meta.statistics or structs.Statistics()
        if chunk.order is None and state.statistics is None:  # bounds without a declared order are undefined
            now = without_bounds(now)
        trust = chunk.file.trust(chunk.leaf)
        doubted = state.statistics is None and any(
            trust.doubt_of_writer(claim, chunk.meta) for claim in (Claim.NULL_COUNT, Claim.BOUNDS)
        )
        try:
            found = _computed(chunk, now) if doubted or _is_incomplete(chunk, now) else now
        except (FormatError, IndexBuildError) as error:
            return Outcome(state, built=None, reason=Reason.of(error))
        reason = _missing_bounds(chunk, found)
        if found == now and not doubted:
            return Outcome(state, built=None if reason else False, reason=reason)
        return Outcome(replace(state, statistics=found), built=True, reason=reason)


def _is_incomplete(chunk: Chunk, now: structs.Statistics) -> bool:
    """Return whether a count or a bound that the chunk can have is missing or impossible."""
    nulls = now.null_count
    max_nulls = chunk.meta.num_values if chunk.leaf.max_definition_level else 0
    if nulls is None or not 0 <= nulls <= max_nulls:
        return True
    if not chunk.has_order or nulls == chunk.meta.num_values:
        return False
    if now.min_value is None and now.max_value is None and (now.nan_count or 0) > 0 and not chunk.total_order:
        return False  # chunks with NaN get no bounds
    return not _has_sound_bounds(now, chunk.reader.ordering)


def _missing_bounds(chunk: Chunk, now: structs.Statistics) -> Reason | None:
    """Return why a chunk with values has no bounds; None if it has some, or needs none."""
    if now.min_value is not None or now.null_count == chunk.meta.num_values:
        return None
    return HOLDS_NAN if chunk.has_order else chunk.order_refusal or NO_ORDER


def _has_sound_bounds(now: structs.Statistics, ordering: Ordering | None) -> bool:
    """Return whether both bounds exist, are values of the type, and are in order."""
    assert ordering is not None
    if now.min_value is None or now.max_value is None:
        return False
    try:
        low, high = ordering.decode([now.min_value]), ordering.decode([now.max_value])
    except CorruptFileError:
        return False
    return bool((low <= high).all())  # also false for NaN


def _computed(chunk: Chunk, now: structs.Statistics) -> structs.Statistics:
    """Return statistics with counts and bounds of the decoded values; other fields are kept."""
    values, ordering = chunk.values, chunk.reader.ordering
    if chunk.leaf.max_repetition_level == 0 and len(chunk.column) != chunk.num_rows:
        raise IndexBuildError(
            f"the row group has {chunk.num_rows} rows, but {len(chunk.column)} were decoded",
            reason="row-count-mismatch",
        )
    null_count = chunk.meta.num_values - len(values)
    if null_count < 0:
        raise IndexBuildError(
            f"it claims {chunk.meta.num_values} values, but {len(values)} were decoded",
            reason="value-count-mismatch",
        )
    counted = now._replace(null_count=null_count)
    if not chunk.has_order:
        return counted
    assert ordering is not None
    if not len(values):
        return without_bounds(counted)
    bounds = page_bounds(values, np.zeros(1, dtype=np.int64), ordering, total_order=chunk.total_order)
    if bounds.nan_counts is not None:
        counted = counted._replace(nan_count=int(bounds.nan_counts[0]))
        if counted.nan_count and not chunk.total_order:
            return without_bounds(counted)
    (low,), (high,) = cut_bounds(bounds.minima, bounds.maxima, ordering)
    return counted._replace(
        min_value=low,
        max_value=high,
        is_min_value_exact=low == bounds.minima[0],
        is_max_value_exact=high == bounds.maxima[0],
    )
