"""Searching a file for the rows that come first in an order.

The granules that may contain the best values are read first: pages if the file has a ColumnIndex of the
column, otherwise row groups. The worst of the rows found so far becomes a condition, by which all indexes
prune the remaining rows. So the bounds determine the order of reading, and pruning determines its end.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from functools import partial

import numpy as np
import pyarrow as pa

from intarsia.file import ChunkKey, ParquetInput
from intarsia.indexes.column_index import ColumnIndexes
from intarsia.indexes.statistics import column_statistics
from intarsia.predicate import Path, Predicate
from intarsia.read.counts import ReadCounts
from intarsia.read.file_plan import FilePlan, current_plan, plan_file
from intarsia.read.file_query import FileQuery
from intarsia.read.file_rows import Piece, read_known_rows
from intarsia.read.output_columns import with_constants
from intarsia.read.pruner import PruneStep
from intarsia.read.report import FileOutcome
from intarsia.read.retry import retry_without_wrong_index
from intarsia.read.sort_key import SortKey, TopRows
from intarsia.rows.bounds import Bounds
from intarsia.rows.selection import RowSelection


def search_file(
    query_for: Callable[[Predicate | None], FileQuery], file: int, key: SortKey, top: TopRows
) -> tuple[FileQuery, FileOutcome]:
    """Add the rows of a file that precede those that were found before.

    Args:
        query_for: A function that returns the query of the open file for rows that match another condition.
        file: The ordinal of the file.
        key: The order.
        top: The rows that were found; it is changed.

    Returns:
        The first query, and the outcome.
    """
    condition = top.condition
    first_query = query = query_for(condition)
    first_plan = plan = plan_file(query)
    counts, done, num_wanted = ReadCounts(), RowSelection.none(), 1
    left = plan.candidates
    while not left.is_empty:
        num_wanted = max(num_wanted, top.num_missing)
        before = query.file.source.counts.bytes
        rows = _best_rows(query, key, left, num_wanted)
        counts += ReadCounts(index_bytes=query.file.source.counts.bytes - before)
        for piece in retry_without_wrong_index(query.file, partial(_read_values, query, plan, key, rows)):
            counts += piece.counts
            numbers = piece.numbers.rows()
            top.add(values_of(query, key, piece), np.full(len(numbers), file), numbers)
        done, num_wanted = done | rows, 2 * num_wanted
        if top.condition != condition:
            condition = top.condition
            query = replace(query_for(condition), embedded=query.embedded, pages=query.pages)
            plan = plan_file(query)
            counts += ReadCounts(index_bytes=plan.index_bytes)
        else:
            plan = current_plan(query, plan)
        left = plan.candidates - done
    step = PruneStep("order_by", ".".join(query.own(key.column).path), first_plan.candidates, done)
    steps = first_plan.steps if done == first_plan.candidates else (*first_plan.steps, step)
    counts = replace(counts, row_groups=len(query.groups_with(done)), rows_matched=0)
    return first_query, FileOutcome(replace(first_plan, steps=steps), counts)


def values_of(query: FileQuery, key: SortKey, piece: Piece) -> pa.Table:
    """Return the values of the columns of an order in rows that were read with `FileQuery.for_columns`."""
    read = query.for_columns(key.columns).columns
    schema = pa.schema([(column.name, column.type) for column in key.columns])
    own = [query.own(column) for column in key.columns]
    return key.values(with_constants(piece.rows, read, query.constants, own, schema))


def _read_values(query: FileQuery, plan: FilePlan, key: SortKey, rows: RowSelection) -> list[Piece]:
    return list(read_known_rows(query.for_columns(key.columns), current_plan(query, plan), rows))


def _best_rows(query: FileQuery, key: SortKey, left: RowSelection, num_rows: int) -> RowSelection:
    """Return the rows to read first, at least ``num_rows`` if there are as many."""
    file, edges = query.file, query.file.footer.row_group_starts
    path = query.own(key.column).path
    bounds = None if path in query.constants else column_statistics(file, path)
    groups = np.array(query.groups_with(left))
    if bounds is not None:
        groups = groups[key.best_first([key.ranks(bounds).take(groups)])]
    enough = np.cumsum(left.count_between(edges)[groups])
    groups = groups[: int(np.searchsorted(enough, num_rows)) + 1]
    starts, stops = edges[:-1][groups], edges[1:][groups]
    pages = [] if bounds is None else _page_bounds(file, path, np.sort(groups))
    if pages:
        starts = np.concatenate([of_group.starts for of_group in pages])
        stops = np.concatenate([of_group.stops for of_group in pages])
        # the rows between the pages of two row groups are not counted
        own = left.count_between(np.stack([starts, stops], axis=1).ravel())[::2]
        order = key.best_first([key.ranks(of_group) for of_group in pages])
        order = order[own[order] > 0]
        order = order[: int(np.searchsorted(np.cumsum(own[order]), num_rows)) + 1]
        starts, stops = starts[order], stops[order]
    return left & RowSelection.union_of(starts, stops)


def _page_bounds(file: ParquetInput, path: Path, groups: np.ndarray) -> list[Bounds]:
    """Return the bounds of the pages of each row group; none if a row group has no ColumnIndex."""
    leaf = file.leaves_by_path[path]
    keys = [ChunkKey(group, leaf.ordinal) for group in groups.tolist()]
    if not all(map(file.has_column_index, keys)):
        return []
    file.load_page_index(keys, keys)
    index = ColumnIndexes(file)
    found = [bounds for key in keys if (bounds := index.bounds(key)) is not None]
    return found if len(found) == len(keys) else []
