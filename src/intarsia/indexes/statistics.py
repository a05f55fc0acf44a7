"""Row-group statistics as bounds over the row groups of a file. They are in the footer, so they are free."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from contextlib import suppress
from functools import partial

import numpy as np

from intarsia.errors import CorruptFileError
from intarsia.file import ParquetInput
from intarsia.file.writers import Claim
from intarsia.format.enums import BoundaryOrder
from intarsia.format.footer import Leaf
from intarsia.indexes.proof import ProofCost, Savings, Verdict, Wanted, call_or_ignore
from intarsia.predicate import Path
from intarsia.predicate.bound import Condition
from intarsia.records import dataclass
from intarsia.rows.bounds import (
    UNKNOWN,
    Bools,
    Bounds,
    boundary_order,
    certainly_matches,
    might_match,
)
from intarsia.rows.ordering import ArrowOrdering, Keys, Ordering
from intarsia.rows.selection import RowSelection


@dataclass(eq=False)
class BoundsProof:
    """Bounds of granules as a proof without cost, because they have been read.

    Args:
        name: The name in reports.
        bounds_of: Returns the bounds of the column of a condition; None if they cannot judge it.
        judge: Evaluates a condition on bounds; None if that fails.
    """

    name: str
    bounds_of: Callable[[Condition], Bounds | None]
    judge: Callable[[Condition, Bounds], Verdict | None]
    is_lookup = False
    counts_pages = False

    def reach(self, condition: Condition) -> Bools | None:
        """Return every granule, if there are bounds of the column."""
        bounds = self.bounds_of(condition)
        return None if bounds is None else np.ones(len(bounds), dtype=bool)

    def cost(self, wanted: Wanted) -> ProofCost:
        """Return zero."""
        return ProofCost(0, 0)

    def evaluate(self, wanted: Wanted, savings: Savings) -> Iterator[Verdict]:
        """Evaluate conditions on the bounds."""
        for condition in wanted:
            bounds = self.bounds_of(condition)
            verdict = None if bounds is None else self.judge(condition, bounds)
            if verdict is not None:
                yield verdict


def row_group_statistics(file: ParquetInput) -> BoundsProof:
    """Return the statistics of a file's row groups as a proof."""

    def judge(condition: Condition, bounds: Bounds) -> Verdict | None:
        return call_or_ignore(file, "statistics", partial(judge_bounds, condition, bounds))

    return BoundsProof("statistics", lambda condition: column_statistics(file, condition.path), judge)


def column_statistics(file: ParquetInput, path: Path) -> Bounds | None:
    """Return the statistics of a column, or of the elements of a list, as bounds over the row groups.

    Returns:
        The bounds; None if there is no such leaf.
    """
    leaf = file.schema.leaves_of_values.get(path)
    if leaf is None:
        return None
    return file.metadata.derived(
        ("statistics", leaf.ordinal, file.metadata.contradictions, file.metadata.without_nan(leaf)),
        lambda: statistics_bounds(file, leaf, file.schema.ordering(leaf)),
    )


def statistics_bounds(file: ParquetInput, leaf: Leaf, ordering: Ordering | None) -> Bounds:
    """Convert the statistics of a leaf, over all row groups, to bounds. Lists have no counts of nulls."""
    footer = file.footer
    groups = len(footer.metadata.row_groups)
    null_counts = np.full(groups, UNKNOWN, dtype=np.int64)
    nan_counts = np.full(groups, UNKNOWN if ordering and ordering.is_float else 0, dtype=np.int64)
    all_null = np.zeros(groups, dtype=bool)
    lows: list[bytes] = []
    highs: list[bytes] = []
    bounded: list[int] = []
    trust = file.trust(leaf)
    contradicted = {one.row_group for one in file.metadata.contradictions if one.leaf == leaf.ordinal}
    num_rows = np.diff(footer.row_group_starts).tolist()
    for ordinal, (chunk, rows) in enumerate(zip(file.metadata.chunks_of(leaf), num_rows, strict=True)):
        meta = chunk.meta_data
        if meta is None or ordinal in contradicted:
            continue
        nulls = trust.null_count(meta, rows).value
        if nulls is not None and leaf.is_flat:
            null_counts[ordinal] = nulls
            all_null[ordinal] = nulls == rows
        statistics, pair = meta.statistics, trust.bounds(meta).value
        nans = None if statistics is None else statistics.nan_count
        if nans is not None and 0 <= nans <= rows and nan_counts[ordinal] and leaf.is_flat:
            nan_counts[ordinal] = nans
        if ordering is not None and pair is not None:
            bounded.append(ordinal)
            lows.append(pair[0])
            highs.append(pair[1])
    for ordinal in file.metadata.without_nan(leaf):
        nan_counts[ordinal] = max(nan_counts[ordinal], 0)
    edges = footer.row_group_starts
    minima = maxima = np.empty(0, dtype=object)
    if ordering is not None:
        with suppress(CorruptFileError):  # one of the wrong length discredits all
            minima, maxima = ordering.decode_pairs(lows, highs)
    positions = np.array(bounded if len(minima) else [], dtype=np.int64)
    return bounds_of_keys(
        ordering, edges[:-1], edges[1:], positions, minima, maxima, null_counts, nan_counts, all_null
    )


def exact_bounds(
    file: ParquetInput, leaf: Leaf, ordering: Ordering, row_groups: Iterable[int] | None = None
) -> Bools:
    """Return for each row group whether its bounds are values of the column.

    Bounds of byte arrays may be truncated unless they are marked as exact; bounds of numbers are exact unless
    they are marked as inexact.

    Args:
        ordering: The order of its values.
        row_groups: The relevant row groups, False for the others; None for all.
    """
    footer = file.footer
    exact = np.zeros(len(footer.metadata.row_groups), dtype=bool)
    if ordering.units_per_arrow != (1, 1):
        return exact
    trust = file.trust(leaf, ordering.arrow_type)
    for row_group in range(len(exact)) if row_groups is None else row_groups:
        meta = footer.chunk_metadata(row_group, leaf)
        statistics = meta.statistics
        if statistics is None or trust.doubt(Claim.EXACT_BOUNDS, meta) is not None:
            continue
        flags = statistics.is_min_value_exact, statistics.is_max_value_exact
        exact[row_group] = flags == (True, True) if ordering.is_bytes else False not in flags
    return exact


def bounds_of_keys(
    ordering: ArrowOrdering | None,
    starts: np.ndarray,
    stops: np.ndarray,
    bounded: np.ndarray,
    low: Keys,
    high: Keys,
    null_counts: np.ndarray,
    nan_counts: np.ndarray,
    all_null: np.ndarray,
) -> Bounds:
    """Build `Bounds` over granules, without bounds that are NaN or contradict each other.

    Args:
        ordering: The order of the leaf's keys, or None.
        starts: The first row of each granule.
        stops: The row after the last row of each granule.
        bounded: The ordinals of the granules that have bounds.
        low: The lower bounds of these granules.
        high: The upper bounds of these granules.
        null_counts: See `Bounds`.
        nan_counts: See `Bounds`.
        all_null: See `Bounds`.
    """
    count = len(starts)
    dtype = ordering.dtype if ordering is not None else np.dtype(np.int64)
    minima = np.zeros(count, dtype=dtype)
    maxima = np.zeros(count, dtype=dtype)
    if ordering is not None and ordering.is_bytes:
        minima[:] = maxima[:] = b""
    known = np.zeros(count, dtype=bool)
    order = BoundaryOrder.UNORDERED
    if ordering is not None and len(bounded):
        sound = np.asarray(low <= high, dtype=bool)  # false for NaN, too
        positions = bounded[sound]
        minima[positions], maxima[positions], known[positions] = low[sound], high[sound], True
        if known.all():
            order = boundary_order(minima, maxima)
    return Bounds(
        ordering, starts, stops, known, minima, maxima, null_counts, nan_counts, all_null & ~known, order
    )


def judge_bounds(condition: Condition, bounds: Bounds) -> Verdict:
    """Return the rows of the granules that might match, and of those in which all rows match."""
    possible, certain = might_match(condition, bounds), certainly_matches(condition, bounds)
    return Verdict(
        condition,
        RowSelection.union_of(bounds.starts[possible], bounds.stops[possible]),
        RowSelection.union_of(bounds.starts[certain], bounds.stops[certain]),
    )
