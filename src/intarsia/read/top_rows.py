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
from intarsia.indexes.statistics import statistics_bounds
from intarsia.predicate import Path
from intarsia.read.counts import ReadCounts
from intarsia.read.file_plan import FilePlan, current_plan, plan_file
from intarsia.read.file_query import FileQuery
from intarsia.read.file_rows import Piece, read_known_rows
from intarsia.read.known import PruneStep
from intarsia.read.output_columns import with_constants
from intarsia.read.report import FileOutcome
from intarsia.read.retry import retry_without_wrong_index
from intarsia.read.sort_key import Rank, SortKey, TopRows
from intarsia.rows.selection import RowSelection


def file_rank(file: ParquetInput, path: Path, key: SortKey) -> Rank | None:
    """Return the best rank of a file according to its footer; None if the file has no bounds.

    Args:
        file: The file.
        path: The path of the column in the file.
        key: The order.
    """
    ranks = _group_ranks(file, path, key)
    return None if ranks is None else key.best_of(ranks)


def search_file(
    query_for: Callable[[pa.Scalar | None], FileQuery], file: int, key: SortKey, top: TopRows
) -> tuple[FileQuery, FileOutcome]:
    """Add the rows of a file that precede those that were found before.

    Args:
        query_for: A function that returns the query of the open file for rows that precede a value.
        file: The ordinal of the file.
        key: The order.
        top: The rows that were found; it is changed.

    Returns:
        The first query, and the outcome.
    """
    threshold = top.threshold
    first_query = query = query_for(threshold)
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
            top.add(_values_of(query, key, piece), file, piece.numbers.rows())
        done, num_wanted = done | rows, 2 * num_wanted
        if top.threshold != threshold:
            threshold = top.threshold
            query = replace(query_for(threshold), embedded=query.embedded)
            plan = plan_file(query)
            counts += ReadCounts(index_bytes=plan.index_bytes)
        else:
            plan = current_plan(query, plan)
        left = plan.candidates - done
    step = PruneStep("order_by", ".".join(query.own(key.column).path), first_plan.candidates, done)
    steps = first_plan.steps if done == first_plan.candidates else (*first_plan.steps, step)
    counts = replace(counts, row_groups=len(query.groups_with(done)), rows_matched=0)
    return first_query, FileOutcome(replace(first_plan, steps=steps), counts)


def _values_of(query: FileQuery, key: SortKey, piece: Piece) -> pa.ChunkedArray:
    read = query.for_columns([key.column]).columns
    schema = pa.schema([(key.column.name, key.column.type)])
    rows = with_constants(piece.rows, read, query.constants, [query.own(key.column)], schema)
    return key.values(rows.column(0))


def _read_values(query: FileQuery, plan: FilePlan, key: SortKey, rows: RowSelection) -> list[Piece]:
    return list(read_known_rows(query.for_columns([key.column]), current_plan(query, plan), rows))


def _best_rows(query: FileQuery, key: SortKey, left: RowSelection, num_rows: int) -> RowSelection:
    """Return the rows to read first, at least ``num_rows`` if there are as many."""
    file, edges = query.file, query.file.footer.row_group_starts
    path = query.own(key.column).path
    ranks = None if path in query.constants else _group_ranks(file, path, key)
    groups = query.groups_with(left)
    if ranks is not None:
        groups = [groups[place] for place in key.best_first([ranks[group] for group in groups])]
    enough = np.cumsum(left.count_between(edges)[groups])
    groups = groups[: int(np.searchsorted(enough, num_rows)) + 1]
    starts, stops = edges[:-1][groups], edges[1:][groups]
    pages = None if ranks is None else _page_ranks(file, path, key, groups)
    if pages is not None:
        starts, stops, page_ranks = pages
        places = np.array(key.best_first(page_ranks))
        starts, stops = starts[places], stops[places]
        own = np.array(
            [
                left.clip(start, stop).num_rows
                for start, stop in zip(starts.tolist(), stops.tolist(), strict=True)
            ]
        )
        starts, stops, own = starts[own > 0], stops[own > 0], own[own > 0]
        last = int(np.searchsorted(np.cumsum(own), num_rows)) + 1
        starts, stops = starts[:last], stops[:last]
    return left & RowSelection.union_of(starts, stops)


def _group_ranks(file: ParquetInput, path: Path, key: SortKey) -> list[Rank] | None:
    leaf = file.leaves_by_path.get(path)
    if leaf is None or not leaf.is_flat or leaf.ordinal not in file.leaf_types:
        return None
    return key.ranks(statistics_bounds(file, leaf, file.schema.ordering(leaf)))


def _page_ranks(
    file: ParquetInput, path: Path, key: SortKey, groups: list[int]
) -> tuple[np.ndarray, np.ndarray, list[Rank]] | None:
    """Return the first row, the row after the last one, and the rank of each page; None without bounds."""
    leaf = file.leaves_by_path[path]
    keys = [ChunkKey(group, leaf.ordinal) for group in groups]
    if not all(map(file.has_column_index, keys)):
        return None
    file.load_page_index(keys, keys)
    index = ColumnIndexes(file)
    found = [index.bounds(key) for key in keys]
    known = [bounds for bounds in found if bounds is not None]
    if len(known) < len(keys):
        return None
    starts = np.concatenate([bounds.starts for bounds in known])
    stops = np.concatenate([bounds.stops for bounds in known])
    return starts, stops, [rank for bounds in known for rank in key.ranks(bounds)]
