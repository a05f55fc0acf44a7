"""Measure the reads of queries of one sampled file with different indexes."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace

from intarsia.advice.candidates import column_of, name_of
from intarsia.advice.cost import QueryCost
from intarsia.advice.sampled_file import BuiltIndex, SampledFile
from intarsia.embed.attach import Attachable
from intarsia.errors import IntarsiaError
from intarsia.indexes.rowmap import MAX_BUCKET_ENTRIES, RowMap
from intarsia.indexes.value_hash import is_lookup, num_lookup_values
from intarsia.lake.binding import TableBinder
from intarsia.lake.data_file import DataFile
from intarsia.predicate import Condition, conditions
from intarsia.read.file_plan import FilePlan, count_planned, plan_file
from intarsia.read.file_query import FileQuery
from intarsia.read.locations import matching_rows
from intarsia.read.page_states import pages_read
from intarsia.read.pages_read import PagesRead
from intarsia.rows.selection import RowSelection

#: Row counts that are extrapolated from a sample may be too small by this factor.
SAFETY = 4


@dataclass(frozen=True)
class Spread:
    """The distribution of the rows that match one condition over the sampled row groups of a file.

    Attributes:
        condition: The condition.
        rows: Number of rows.
        rows_matched: Number of rows that match it.
        row_groups: Number of row groups with rows.
        row_groups_matched: Number of row groups with rows that match.
        pages: Number of data pages of the column.
        pages_matched: Number of data pages with rows that match.
        pages_kept: Number of data pages that the page index keeps.
        has_row_map: Whether the column has a `RowMap`.
    """

    condition: str
    rows: int
    rows_matched: int
    row_groups: int
    row_groups_matched: int
    pages: int
    pages_matched: int
    pages_kept: int
    has_row_map: bool


def plan_cost(query: FileQuery, rows: RowSelection | None = None) -> QueryCost:
    """Return the cost of a query of a file according to its plan, or the cost of reading some rows."""
    index_bytes = 0
    if rows is None:
        plan = plan_file(query)
        rows, index_bytes = plan.candidates, plan.index_bytes - _read_again(query, plan)
    query = replace(query, pages=PagesRead())
    counts = count_planned(query, rows)
    return QueryCost(
        counts.planned_bytes + counts.index_bytes + index_bytes,
        sum(pages_read(query)),
        counts.row_groups,
        counts.rows_candidate,
        counts.row_groups > 0,
    )


def _read_again(query: FileQuery, plan: FilePlan) -> int:
    """Return the size of the dictionary pages that were read for planning, and that reading needs, too."""
    needed = {
        query.file.footer.chunk_metadata(group, leaf).dictionary_page_offset
        for group in query.groups_with(plan.candidates)
        for leaf in query.leaves
    }
    return sum(len(page) for offset, page in plan.dictionary_pages.items() if offset in needed)


class MeasuredFile:
    """One sampled file, and the queries that read it.

    Args:
        entry: The file of the table.
        sample: The sampled row groups.
        binders: The queries, by ordinal.
        now: The cost of each of these queries on the whole file today.

    Attributes:
        sample: The sampled row groups.
        built: The indexes that were built, by name.
        failed: Why other indexes cannot be built, by name.
    """

    def __init__(
        self,
        entry: DataFile,
        sample: SampledFile,
        binders: Mapping[int, TableBinder],
        now: Mapping[int, QueryCost],
    ) -> None:
        self._entry = entry
        self._binders = binders
        self._now = now
        self._costs: dict[tuple[int, frozenset[str]], QueryCost] = {}
        self.sample = sample
        self.built: dict[str, BuiltIndex] = {}
        self.failed: dict[str, IntarsiaError] = {}
        self._indexes: dict[str, Attachable] = {}
        self._outgrown: dict[tuple[int, str], bool] = {}
        self._columns = {
            ordinal: {".".join(condition.path) for condition in self.conditions(ordinal)}
            for ordinal in binders
        }

    def conditions(self, ordinal: int) -> list[Condition]:
        """Return the conditions of a query on columns of the file."""
        query = self._query(ordinal, ())
        try:
            bound = query.predicate
            found = [] if bound is None else list(dict.fromkeys(conditions(bound)))
            return [condition for condition in found if condition.path not in query.constants]
        finally:
            query.close()

    def constants(self, ordinal: int) -> set[str]:
        """Return the columns of a query that have one value in the file, such as partition columns."""
        query = self._query(ordinal, ())
        try:
            bound = query.predicate
            paths = () if bound is None else bound.paths()
            return {".".join(path) for path in paths if path in query.constants}
        finally:
            query.close()

    def build(self, index: Attachable) -> None:
        """Build an index on the sample, unless the file has it."""
        name = name_of(index)
        try:
            built = self.sample.build(index)
        except IntarsiaError as error:
            self.failed[name] = error
            return
        if built.blobs or built.states:
            self.built[name] = built
            self._indexes[name] = index

    def cost(self, ordinal: int, names: Iterable[str]) -> QueryCost:
        """Estimate the cost of a query of the file with some of the built indexes."""
        base = self._measured(ordinal, frozenset())
        now = self._now[ordinal]
        if self.sample.is_whole:
            now = base
        relevant = {name for name in names if name in self.built and self._is_relevant(ordinal, name)}
        measured = self._measured(ordinal, frozenset(relevant))
        return measured.scaled(now.bytes / base.bytes) if base.bytes else now

    def least(self, ordinal: int, names: Sequence[str]) -> tuple[QueryCost, float]:
        """Return the cost of the pages with matches, and the number of matching rows."""
        base = self._measured(ordinal, frozenset())
        now = base if self.sample.is_whole else self._now[ordinal]
        scale = now.bytes / base.bytes if base.bytes else 1.0
        query = self._query(ordinal, names)
        try:
            lean = query.for_columns([])
            rows, _ = matching_rows(lean, plan_file(lean))
            return plan_cost(query, rows).scaled(scale), rows.num_rows * scale
        finally:
            query.close()

    def everything(self, ordinal: int) -> QueryCost:
        """Return the cost of reading all rows of the sample."""
        query = self._query(ordinal, ())
        try:
            return plan_cost(query, query.present)
        finally:
            query.close()

    def spread(self, ordinal: int, condition: Condition, names: Sequence[str]) -> Spread:
        """Return how the matches of one condition are spread over the sample."""
        query = replace(self._query(ordinal, names), predicate=condition, columns=())
        try:
            plan = plan_file(query)
            rows, _ = matching_rows(query, plan)
            found, whole = plan_cost(query, rows), plan_cost(query, query.present)
            kept = plan_cost(query, plan.candidates)
            return Spread(
                str(condition),
                query.present.num_rows,
                rows.num_rows,
                int(whole.row_groups),
                int(found.row_groups),
                int(whole.pages),
                int(found.pages),
                int(kept.pages),
                any(
                    entry.kind == RowMap.kind and condition.path in entry.columns
                    for entry in query.embedded.entries
                ),
            )
        finally:
            query.close()

    def _is_relevant(self, ordinal: int, name: str) -> bool:
        column = column_of(self._indexes[name])
        return column is None or (column in self._columns[ordinal] and not self._outgrows(ordinal, name))

    def _outgrows(self, ordinal: int, name: str) -> bool:
        """Return whether the whole file's index may omit frequent values that the sample's index has."""
        if self.sample.is_whole or not isinstance(self._indexes[name], RowMap):
            return False
        key = (ordinal, name)
        if key not in self._outgrown:
            column = column_of(self._indexes[name])
            base = self._measured(ordinal, frozenset())
            scale = self._now[ordinal].rows / max(1, base.rows)
            most = MAX_BUCKET_ENTRIES / SAFETY
            self._outgrown[key] = any(
                self.spread(ordinal, condition, ()).rows_matched * scale > most * num_lookup_values(condition)
                for condition in self.conditions(ordinal)
                if ".".join(condition.path) == column and is_lookup(condition)
            )
        return self._outgrown[key]

    def _measured(self, ordinal: int, names: frozenset[str]) -> QueryCost:
        """Return the cost of a query on the sample."""
        key = (ordinal, names)
        if key not in self._costs:
            query = self._query(ordinal, sorted(names))
            try:
                self._costs[key] = plan_cost(query)
            finally:
                query.close()
        return self._costs[key]

    def _query(self, ordinal: int, names: Sequence[str]) -> FileQuery:
        """Bind a query to the sample with some of the built indexes; the caller closes it."""
        file = self.sample.with_indexes([self.built[name] for name in names if name in self.built])
        query = self._binders[ordinal].query(self._entry, file)
        # row numbers of deleted rows are those of the whole file
        return query if self.sample.is_whole else replace(query, deleted=RowSelection.none())
