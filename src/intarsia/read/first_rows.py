"""The rows of some files that come first in an order.

The bounds of pages, or of row groups without a ColumnIndex, give the order in which they are read. The
columns of the order are read first. As soon as enough rows have been found, the worst of them is a threshold,
which prunes what is left.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterator
from dataclasses import field, replace
from functools import partial
from typing import TypeAlias

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from intarsia.arrow.owned_rows import take_values
from intarsia.file import ChunkKey, ParquetInput
from intarsia.format.footer import Leaf
from intarsia.indexes.column_index import ColumnIndexes
from intarsia.indexes.statistics import column_statistics, row_group_statistics
from intarsia.predicate import Bound, Path, Predicate
from intarsia.predicate.bound import conjoin
from intarsia.read.counts import ReadCounts
from intarsia.read.file_plan import FilePlan, plan_file, prune, retry_without_wrong_index
from intarsia.read.file_query import FileQuery
from intarsia.read.file_rows import Piece, read_known_rows
from intarsia.read.pruner import Pruner, PruneStep, compares
from intarsia.read.sort_key import Ranks, SortKey, TopRows
from intarsia.records import dataclass
from intarsia.rows.bounds import Bounds
from intarsia.rows.selection import Rows, RowSelection
from intarsia.tuning import FIRST_ROWS_GROWTH

#: Binds a condition to the files.
BindTo: TypeAlias = "Callable[[Predicate], Bound | None]"


@dataclass(eq=False)
class AxisSearch:
    """A search in one file, or in several that are laid end to end.

    Attributes:
        query: The query of the file; its predicate is the condition of the scan.
        ordinals: The ordinal of each file in the table.
        groups: The number of row groups in which the condition was ``searched`` without a threshold, and of
            those with ``matching`` rows, in all axes of the table.
        done: The rows that were read, or excluded by indexes in its course.
        excluded: The rows that these indexes excluded, by the name of the index and the column.
    """

    query: FileQuery
    plan: FilePlan
    ordinals: Rows
    groups: Counter[str]
    done: RowSelection = field(default_factory=RowSelection.none)
    excluded: dict[tuple[str, str], RowSelection] = field(default_factory=dict)
    counts: ReadCounts = field(default_factory=ReadCounts)

    @property
    def file(self) -> ParquetInput:
        """The file, or the files that are joined."""
        return self.query.file

    @property
    def edges(self) -> Rows:
        """The first row of each file, and the end of the last one."""
        return self.file.extent.row_edges

    def search(self, key: SortKey, top: TopRows, bind: BindTo) -> None:
        """Add the rows that precede those that were found before; see `TopRows`.

        If a page index is found to be wrong, the search begins again without it.

        Args:
            bind: Binds the condition that a row precedes those that have been found.
        """
        rows_before, with_nan, leaf = top.rows, set[int](), self._leaf_that_shows_nan(key)

        def search() -> None:
            top.restore(rows_before)
            if self.plan.contradictions != self.file.metadata.contradictions:
                self.plan = plan_file(self.query, reads=False)
            self.done, self.excluded = RowSelection.none(), {}
            with_nan.clear()
            self._search(key, top, bind, None if leaf is None else with_nan)

        retry_without_wrong_index(self.file, search)
        if leaf is not None:
            edges = self.file.footer.row_group_starts
            is_read = self.done.count_between(edges) == np.diff(edges)
            self.file.metadata.add_without_nan(leaf, set(np.flatnonzero(is_read).tolist()) - with_nan)
        self.counts = replace(self.counts, row_groups=len(self.query.groups_with(self.done)), rows_matched=0)

    def _search(self, key: SortKey, top: TopRows, bind: BindTo, with_nan: set[int] | None) -> None:
        """Search, and add the row groups of rows that were read and are NaN to a set, if there is one."""
        threshold, better, least = None, None, 1
        left, of_key = self.plan.candidates, self.query.for_columns(key.columns)
        schema = pa.schema([(column.name, column.type) for column in key.columns])
        while True:
            if top.condition is not None and top.condition != threshold:
                threshold = top.condition
                better = bind(threshold)
                if better is not None:
                    left = self._pruned(key, better, left)
            if left.is_empty:
                return
            least = max(least, top.num_missing)
            before = self.file.source.counts.bytes
            # only without a condition do bounds say how many granules have enough rows
            rows = self._next_rows(key, left, top.num_missing if self.query.predicate is None else 1, least)
            are_few = 2 * self.groups["matching"] <= self.groups["searched"]
            uses_indexes = self.query.predicate is not None and are_few
            wanted = self._with_indexes(rows) if uses_indexes else rows
            self.counts += ReadCounts(index_bytes=self.file.source.counts.bytes - before)
            if better is None:
                self.groups["searched"] += len(self.query.groups_with(wanted))
            for piece in self._read(key, better, wanted):
                self.counts += piece.counts
                numbers = piece.numbers.rows()
                if better is None:
                    self.groups["matching"] += len(self.query.groups_with(piece.numbers))
                values = key.values(of_key.result(piece.rows, piece.numbers, key.columns, schema))
                files = np.searchsorted(self.edges, numbers, side="right") - 1
                if with_nan is not None:
                    is_nan = pc.fill_null(pc.is_nan(values["key0"]), False).to_numpy()
                    with_nan.update(self.query.groups_with(RowSelection.from_rows(numbers[is_nan])))
                top.add(values, self.ordinals[files], numbers - self.edges[files])
            self.done, left = self.done | rows, left - rows
            least = FIRST_ROWS_GROWTH * max(least, rows.num_rows)

    def _leaf_that_shows_nan(self, key: SortKey) -> Leaf | None:
        """Return the leaf of the order if each row group that is read shows whether it contains NaN.

        A file may have no count of NaN. In a descending order, NaN is the greatest value, so that no
        threshold excludes it, except a null if nulls come first. A condition may exclude it.
        """
        leaf = self.file.schema.leaves_by_path.get(self.query.own(key.column).path)
        ordering = None if leaf is None else self.file.schema.ordering(leaf)
        is_float = ordering is not None and ordering.is_float and pa.types.is_floating(key.type)
        is_hidden = not key.descending or key.nulls_first or self.query.predicate is not None
        return leaf if is_float and not is_hidden else None

    def _with_indexes(self, rows: RowSelection) -> RowSelection:
        """Return those of some rows that might match the condition of the scan, by all indexes."""
        pruned = prune(self.query, candidates=rows)
        for step in pruned.steps:
            gone = self.excluded.get((step.index, step.column), RowSelection.none())
            self.excluded[step.index, step.column] = gone | (step.before - step.after)
        return rows & pruned.candidates

    def _pruned(self, key: SortKey, better: Bound, left: RowSelection) -> RowSelection:
        """Return the rows that might precede those that were found, by statistics and the page index."""
        file = self.file
        pruner = Pruner(
            better,
            file.footer.row_group_starts,
            bytes_of=self.query.for_columns(key.columns).estimated_bytes_by_group,
            candidates=left,
            request_bytes=file.source.coalesce_bytes,
        )
        pruner.use_constants(self.query.constants_by_file, partial(compares, file.schema))
        pruner.use(row_group_statistics(file))
        pruner.use_all([ColumnIndexes(file)])
        return pruner.candidates

    def steps(self, key: SortKey) -> Iterator[PruneStep]:
        """Yield the rows that each index excluded, and those that the order did."""
        yield from self.plan.steps
        before = self.plan.candidates
        for (index, column), rows in self.excluded.items():
            after = before - rows
            yield PruneStep(index, column, before, after)
            before = after
        after = before & self.done
        if after.num_rows < before.num_rows:
            yield PruneStep("order_by", ".".join(self.query.own(key.column).path), before, after)

    # --- the order of reading ----------------------------------------------------------------------

    def _next_rows(self, key: SortKey, left: RowSelection, limit: int, least: int) -> RowSelection:
        """Return the rows to read next; see `SortKey.next_granules`."""
        key = key.varying(partial(self._ranks_of, left))
        path, edges = self.query.own(key.column).path, self.file.footer.row_group_starts
        if path in self.query.constants:
            ranks = key.ranks_of_values(self.query.constants[path])
            files = key.next_granules([ranks], left.count_between(self.edges), limit, least)
            return left & RowSelection.union_of(self.edges[files], self.edges[files + 1])
        bounds = column_statistics(self.file, path)
        ranks = key.unknown_ranks(len(edges) - 1) if bounds is None else key.ranks(bounds)
        groups = np.sort(key.next_granules([ranks], left.count_between(edges), limit, least))
        pages = {} if bounds is None else self._page_bounds(path, groups)
        starts, stops = edges[groups], edges[groups + 1]
        if pages:
            starts = _concat(pages[group].starts if group in pages else edges[group] for group in groups)
            stops = _concat(pages[group].stops if group in pages else edges[group + 1] for group in groups)
            parts = [
                key.ranks(pages[group]) if group in pages else ranks.take(np.array([group]))
                for group in groups.tolist()
            ]
            # the rows between the pages of two row groups are not counted
            num_rows = left.count_between(np.stack([starts, stops], axis=1).ravel())[::2]
            chosen = key.next_granules(parts, num_rows, limit, least)
            starts, stops = starts[chosen], stops[chosen]
        return left & RowSelection.union_of(starts, stops)

    def _ranks_of(self, left: RowSelection, key: SortKey) -> Ranks | None:
        """Return the ranks of the files or row groups with rows that are left; None if they are not known."""
        path = self.query.own(key.column).path
        if path in self.query.constants:
            files = np.flatnonzero(left.count_between(self.edges))
            return key.ranks_of_values(take_values(self.query.constants[path], files))
        bounds = column_statistics(self.file, path)
        return None if bounds is None else key.ranks(bounds).take(np.array(self.query.groups_with(left)))

    def _page_bounds(self, path: Path, groups: Rows) -> dict[int, Bounds]:
        """Return the bounds of the pages of those row groups that have a ColumnIndex."""
        leaf = self.file.schema.leaves_by_path[path]
        has_index = self.file.metadata.outlines([leaf])[0].has_column_index
        keys = [ChunkKey(group, leaf.ordinal) for group in groups[has_index[groups]].tolist()]
        self.file.load_page_index(keys, keys)
        return ColumnIndexes(self.file).bounds_by_group(keys)

    # --- rows --------------------------------------------------------------------------------------

    def _read(self, key: SortKey, better: Bound | None, rows: RowSelection) -> Iterator[Piece]:
        """Read the columns of the order in the rows that match and might precede those that were found."""
        stages = self.plan.stages if better is None else (better, *self.plan.stages)
        query = replace(self.query, predicate=conjoin(stages) if stages else None).for_columns(key.columns)
        proven = RowSelection.none() if better is not None else self.plan.proven
        plan = replace(self.plan, candidates=rows, certain=proven, proven=proven, stages=tuple(stages))
        yield from read_known_rows(query, plan, rows)


def _concat(parts: Iterator[np.ndarray | np.int64]) -> np.ndarray:
    return np.concatenate([np.atleast_1d(part) for part in parts])
