"""Aggregation of granules from indexes, without reading their pages.

A granule whose rows are all certain is summarized by the cheapest of: row-group statistics, embedded indexes
with summaries (such as zone maps), and column indexes (null counts only).

A page index may be wrong about the rows of a page, which only reading the page reveals (contract C1). A page
that is not read must therefore not be next to rows that are neither read nor summarized, because an extra or
a missing row would not be detected there.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from decimal import Decimal
from functools import partial
from typing import Any, NamedTuple

import numpy as np
import pyarrow as pa

from intarsia.arrow.comparison import compares_alike, comparison_type
from intarsia.errors import IndexPayloadError
from intarsia.file import ChunkKey, ParquetInput
from intarsia.format.footer import Leaf
from intarsia.indexes.base import OpenIndex
from intarsia.indexes.column_index import ColumnIndexes
from intarsia.indexes.embedded import EmbeddedIndexes
from intarsia.indexes.proof import call_or_ignore
from intarsia.indexes.statistics import exact_bounds, statistics_bounds
from intarsia.indexes.summaries import GranuleSummaries, sum_type, summary_schema
from intarsia.predicate import BoundNull
from intarsia.read.file_plan import FilePlan
from intarsia.read.file_query import FileQuery
from intarsia.read.pruner import PruneStep
from intarsia.rows.bounds import Bools, Bounds
from intarsia.rows.ordering import ArrowOrdering, Keys, ordering_for
from intarsia.rows.selection import Rows, RowSelection


class Needs(NamedTuple):
    """The required parts of a summary: the number of nulls, the bounds, the sum."""

    nulls: bool
    bounds: bool
    sum: bool

    @classmethod
    def of(cls, functions: Iterable[str]) -> Needs:
        """Return what aggregate functions of a column need."""
        wanted = set(functions)
        return cls(
            nulls=bool(wanted & {"count", "sum", "avg"}),
            bounds=bool(wanted & {"min", "max"}),
            sum=bool(wanted & {"sum", "avg"}),
        )


class Granules(NamedTuple):
    """Granules that an index summarizes.

    Attributes:
        name: The name of the index in reports.
        starts: First row of each granule.
        stops: Row after the last row of each granule.
        summaries: A row of `summary_schema` for each granule.
        is_exact: Whether all required parts of each summary are exact.
    """

    name: str
    starts: Rows
    stops: Rows
    summaries: pa.Table
    is_exact: Bools


class Answer(NamedTuple):
    """Rows that indexes summarize, so that they need not be read.

    Attributes:
        summaries: Their summaries, with `summary_schema`.
    """

    rows: RowSelection
    summaries: list[pa.Table]
    steps: list[PruneStep]


class QueriedColumn(NamedTuple):
    """A column of a file to aggregate.

    Attributes:
        data_type: The comparison type of the result; null if only nulls are counted.
        cost_bytes: A function that estimates the bytes of reading some rows.
    """

    file: ParquetInput
    embedded: EmbeddedIndexes
    leaf: Leaf
    data_type: pa.DataType
    needs: Needs
    cost_bytes: Callable[[RowSelection], int]

    @property
    def file_data_type(self) -> pa.DataType:
        """The comparison type of the column in this file."""
        return comparison_type(self.file.leaf_types[self.leaf.ordinal])


def answer(queried: QueriedColumn, candidates: RowSelection, certain: RowSelection) -> Answer:
    """Summarize certain rows from indexes.

    Args:
        candidates: The rows that might match, for the report.
        certain: The candidates that are proven to match.
    """
    answer = Answer(RowSelection.none(), [], [])
    if queried.data_type != pa.null() and not compares_alike(queried.file_data_type, queried.data_type):
        return answer  # the type differs from that of the table, so each value has to be converted
    left, before = certain, candidates
    for source in (_statistics, _embedded, _column_index):
        if left.is_empty:
            break
        for granules in source(queried, left, before):
            starts, stops = granules.starts, granules.stops
            hit = granules.is_exact & (starts < stops) & left.covers(starts, stops)
            if hit.any():
                rows = RowSelection.union_of(starts[hit], stops[hit])
                summaries = as_data_type(granules.summaries.filter(pa.array(hit)), queried.data_type)
                step = PruneStep(granules.name, queried.leaf.name, before, before - rows)
                answer = Answer(answer.rows | rows, [*answer.summaries, summaries], [*answer.steps, step])
                left, before = left - rows, before - rows
    return answer


def as_data_type(summaries: pa.Table, data_type: pa.DataType) -> pa.Table:
    """Cast summaries to a wider type."""
    schema = summary_schema(data_type)
    if data_type == pa.null():
        return pa.table([pa.nulls(len(summaries))] * 3 + summaries.columns[3:], schema=schema)
    return summaries.cast(schema)


# --- pages where a wrong page index would not be detected -------------------------------------------------


def confirmed(query: FileQuery, plan: FilePlan) -> RowSelection:
    """Return the certain rows, except edge pages whose rows are known only from the page index."""
    candidates, certain, file = plan.candidates, plan.certain, query.file
    if query.predicate is None:
        return candidates
    index = ColumnIndexes(file)
    edges = file.footer.row_group_starts
    starts, stops = edges[:-1], edges[1:]
    # other row groups have no excluded rows, or no candidates
    partly = np.flatnonzero(candidates.overlaps(starts, stops) & ~candidates.covers(starts, stops)).tolist()
    paths, by_path = query.predicate.paths(), file.schema.leaves_by_path
    for leaf in (by_path[path] for path in paths if path in by_path):
        for row_group in partly:
            bounds = index.bounds(ChunkKey(row_group, leaf.ordinal))
            if bounds is not None:
                beside = _is_beside_skipped(bounds, candidates)
                certain = certain - RowSelection.union_of(bounds.starts[beside], bounds.stops[beside])
    return certain


def _is_beside_skipped(pages: Bounds, seen: RowSelection) -> Bools:
    """Return whether the row before or after each page of a row group is skipped."""
    before = (pages.starts > pages.starts[0]) & ~seen.overlaps(pages.starts - 1, pages.starts)
    after = (pages.stops < pages.stops[-1]) & ~seen.overlaps(pages.stops, pages.stops + 1)
    return np.asarray(before | after)


# --- statistics ----------------------------------------------------------------------------------------


def _statistics(queried: QueriedColumn, left: RowSelection, _seen: RowSelection) -> Iterator[Granules]:
    """Summarize row groups from their statistics in the footer."""
    file, leaf, needs = queried.file, queried.leaf, queried.needs
    starts, stops = file.footer.row_group_starts[:-1], file.footer.row_group_starts[1:]
    if needs.sum or not left.covers(starts, stops).any():
        return
    # once for all stretches of an axis
    key = "summaries", leaf.ordinal, needs, file.metadata.contradictions, file.metadata.without_nan(leaf)
    yield file.metadata.derived(key, partial(_summarized_statistics, queried))


def _summarized_statistics(queried: QueriedColumn) -> Granules:
    file, leaf = queried.file, queried.leaf
    ordering = ordering_for(leaf, file.leaf_types[leaf.ordinal])
    bounds = statistics_bounds(file, leaf, ordering)
    exact = np.zeros(len(bounds), dtype=bool)
    if queried.needs.bounds and ordering is not None:
        exact = exact_bounds(file, leaf, ordering)
    return summarize_bounds(bounds, exact, queried.file_data_type, queried.needs)


def summarize_bounds(bounds: Bounds, exact: Bools, data_type: pa.DataType, needs: Needs) -> Granules:
    """Summarize granules from the bounds and counts of statistics, without sums.

    Args:
        exact: Whether both bounds of each granule are values of the column.
        data_type: The comparison type of the column in the file.
        needs: The required parts; not the sum.
    """
    ordering = bounds.ordering
    is_exact = np.ones(len(bounds), dtype=bool)
    schema = summary_schema(data_type if needs.bounds else pa.null())
    low = high = pa.nulls(len(bounds), schema.field("min").type)
    if needs.nulls:
        is_exact &= bounds.null_counts >= 0
    if needs.bounds and ordering is not None:
        valued = np.asarray(bounds.known & (bounds.nan_counts == 0) & exact)
        try:
            low = values_of_keys(ordering, bounds.minima, valued)
            high = values_of_keys(ordering, bounds.maxima, valued)
        except (pa.ArrowException, OverflowError, ValueError):  # not values of the column's type
            valued = np.zeros(len(bounds), dtype=bool)
        is_exact &= valued | bounds.all_null
    elif needs.bounds:
        is_exact &= bounds.all_null
    nulls = np.maximum(bounds.null_counts, 0)
    summaries = _summaries(schema, low, high, bounds.stops - bounds.starts, nulls)
    return Granules("statistics", bounds.starts, bounds.stops, summaries, is_exact)


def values_of_keys(ordering: ArrowOrdering, keys: Keys, valued: Bools) -> pa.Array:
    """Convert keys to values of the comparison type.

    Args:
        ordering: The order of the keys.
        valued: Whether each key is a value; the others become null.

    Raises:
        ArrowException, OverflowError, ValueError: If a key is not a value of the type.
    """
    data_type = comparison_type(ordering.arrow_type)
    pairs = zip(keys.tolist(), valued.tolist(), strict=True)
    items: list[Any] = [key if is_valued else None for key, is_valued in pairs]
    if ordering.is_bytes:
        return pa.array(items, pa.binary()).cast(data_type)
    if pa.types.is_decimal(data_type):
        return pa.array(
            [None if item is None else Decimal(f"{item}E{-data_type.scale}") for item in items], data_type
        )
    if pa.types.is_boolean(data_type):
        return pa.array([None if item is None else bool(item) for item in items])
    if pa.types.is_temporal(data_type):
        return pa.array(items, pa.int32() if data_type.bit_width == 32 else pa.int64()).view(data_type)
    return pa.array(items, pa.from_numpy_dtype(ordering.dtype)).cast(data_type)


# --- column index --------------------------------------------------------------------------------------


def _column_index(queried: QueriedColumn, left: RowSelection, seen: RowSelection) -> Iterator[Granules]:
    """Summarize pages from their null counts; their bounds may be truncated."""
    if queried.needs.bounds or queried.needs.sum:
        return
    index = ColumnIndexes(queried.file)
    keys = index.keys(BoundNull(queried.leaf.path, queried.file_data_type), left)
    queried.file.load_page_index(keys, keys)
    for key in keys:
        bounds = index.bounds(key)
        if bounds is not None:
            nothing = pa.nulls(len(bounds))
            nulls = np.maximum(bounds.null_counts, 0)
            num_rows = bounds.stops - bounds.starts
            counts = _summaries(summary_schema(pa.null()), nothing, nothing, num_rows, nulls)
            is_exact = (bounds.null_counts >= 0) & ~_is_beside_skipped(bounds, seen)
            yield Granules("column_index", bounds.starts, bounds.stops, counts, is_exact)


def _summaries(schema: pa.Schema, low: pa.Array, high: pa.Array, num_rows: Rows, nulls: Rows) -> pa.Table:
    """Build summaries without sums and NaN."""
    sums = pa.nulls(len(low), schema.field("sum").type)
    nans = np.zeros(len(low), dtype=np.int64)
    return pa.table([low, high, sums, pa.array(num_rows), pa.array(nulls), pa.array(nans)], schema=schema)


# --- embedded indexes ----------------------------------------------------------------------------------


def _embedded(queried: QueriedColumn, left: RowSelection, _seen: RowSelection) -> Iterator[Granules]:
    """Summarize granules from embedded indexes that are smaller than the rows."""
    path, embedded = queried.leaf.path, queried.embedded
    for entry, column in embedded.capable(path, lambda index, column: index.can_summarize(column)):
        if queried.embedded.cost_bytes(entry) >= queried.cost_bytes(left):
            continue
        opened = queried.embedded.open(entry)
        if opened is None:
            continue
        result = call_or_ignore(
            queried.file, entry.name, partial(_checked_summaries, queried, opened, column)
        )
        if result is None:
            continue
        is_exact = result.exact.copy() if queried.needs.bounds else np.ones(len(result.exact), dtype=bool)
        if queried.needs.sum and sum_type(result.data_type) == pa.null():
            is_exact[:] = False
        yield Granules(entry.name, result.edges[:-1], result.edges[1:], result.summaries, is_exact)


def _checked_summaries(queried: QueriedColumn, index: OpenIndex, column: str) -> GranuleSummaries | None:
    summaries = index.granule_summaries(column)
    if summaries is not None:
        summaries.check(queried.file.footer.num_rows)
        if summaries.data_type != queried.file_data_type:
            raise IndexPayloadError(
                f"its values have the type {summaries.data_type}, not {queried.file_data_type}",
                reason="wrong-type",
                column=queried.leaf.name,
            )
    return summaries
