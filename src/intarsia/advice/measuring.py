"""Choose row groups of a table for a sample, and measure the reads of queries with different indexes."""

from __future__ import annotations

import contextlib
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import replace
from functools import cache, partial

import pyarrow as pa

from intarsia.advice.candidates import column_of, filtered_leaf, name_of
from intarsia.advice.queries import Query
from intarsia.advice.report import QueryCost
from intarsia.advice.sampled_file import (
    MAX_CHUNKS,
    MAX_FILES,
    BuiltIndex,
    SampledFile,
    group_bytes,
    spread,
    take_turns,
)
from intarsia.arrow.owned_rows import no_rows
from intarsia.embed.structures import Attachable
from intarsia.errors import ColumnNotFoundError, IntarsiaError, PredicateError
from intarsia.file import ParquetInput
from intarsia.indexes.rowmap import MAX_BUCKET_ENTRIES, RowMap
from intarsia.lake.binding import TableBinder
from intarsia.lake.data_file import DataFile
from intarsia.lake.planner import Planner
from intarsia.lake.table import Table
from intarsia.predicate import Bound, Condition, conditions
from intarsia.predicate.bound import is_lookup, num_lookup_values
from intarsia.read.counts import PagesRead, ReadCounts
from intarsia.read.file_plan import FilePlan, count_planned, plan_file, retry_without_wrong_index
from intarsia.read.file_query import FileQuery
from intarsia.read.file_rows import matching_rows, read_rows, rehearse
from intarsia.read.output_columns import output_columns
from intarsia.read.report import ScanReport
from intarsia.records import dataclass
from intarsia.rows.selection import RowSelection

#: Row counts that are extrapolated from a sample may be too small by this factor.
SAFETY = 4


@dataclass(frozen=True)
class Spread:
    """The distribution of the rows that match one condition over the sampled row groups of a file.

    Attributes:
        rows_matched: Number of rows that match it.
        row_groups: Number of row groups with rows.
        row_groups_matched: Number of row groups with rows that match.
        pages: Number of data pages of the column.
        pages_matched: Number of data pages with rows that match.
        pages_kept: Number of data pages that the page index keeps.
        has_row_map: Whether the column has a `RowMap`.
    """

    rows: int
    rows_matched: int
    row_groups: int
    row_groups_matched: int
    pages: int
    pages_matched: int
    pages_kept: int
    has_row_map: bool


def plan_cost(query: FileQuery, rows: RowSelection) -> QueryCost:
    """Return the cost of all columns of some rows of a file, in addition to what has been read of it."""
    query = replace(query, pages=PagesRead())
    counts = count_planned(query, rows)
    return _cost(query, counts, query.file.source.counts.bytes + counts.planned_bytes)


def _read_cost(query: FileQuery, matching: Callable[[Bound], RowSelection]) -> QueryCost:
    """Return the cost of a query of a file that has just been opened; see `rehearse`."""
    footer_bytes = query.file.source.counts.bytes
    plan = plan_file(query)
    index_bytes = query.file.source.counts.bytes - footer_bytes
    counts = rehearse(query, plan, matching)
    cost = _cost(query, counts, query.file.source.counts.bytes)
    return replace(cost, footer_bytes=footer_bytes, index_bytes=index_bytes + counts.index_bytes)


def _cost(query: FileQuery, counts: ReadCounts, num_bytes: int) -> QueryCost:
    return QueryCost(
        num_bytes,
        sum(query.page_states().read),
        counts.row_groups,
        counts.rows_candidate,
        counts.row_groups > 0,
    )


class MeasuredFile:
    """One sampled file, and the queries that read it.

    Args:
        binders: The queries, by ordinal.
        now: The cost of each of these queries on the whole file today.

    Attributes:
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
        self._cost = cache(self._measure)
        self._matching = cache(self._find_matches)
        self._scale = cache(self._find_scale)
        self._outgrows = cache(self._may_outgrow)
        self.sample = sample
        self.built: dict[str, BuiltIndex] = {}
        self.failed: dict[str, IntarsiaError] = {}
        self._columns = {
            ordinal: {
                filtered_leaf(condition, sample.file.schema) or ".".join(condition.path)
                for condition in self.conditions(ordinal)
            }
            for ordinal in binders
        }

    def conditions(self, ordinal: int) -> list[Condition]:
        """Return the conditions of a query on columns of the file."""
        with contextlib.closing(self._query(ordinal, ())) as query:
            found = [] if query.predicate is None else dict.fromkeys(conditions(query.predicate))
            return [condition for condition in found if condition.path not in query.constants]

    def constants(self, ordinal: int) -> set[str]:
        """Return the columns of a query that have one value in the file, such as partition columns."""
        with contextlib.closing(self._query(ordinal, ())) as query:
            paths = () if query.predicate is None else query.predicate.paths()
            return {".".join(path) for path in paths if path in query.constants}

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

    def cost(self, ordinal: int, names: Iterable[str]) -> QueryCost:
        """Return the cost of a query of the file with some of the built indexes."""
        relevant = {name for name in names if name in self.built and self._is_relevant(ordinal, name)}
        return self._cost(ordinal, frozenset(relevant)).scaled(self._scale(ordinal))

    def least(self, ordinal: int, names: Sequence[str]) -> tuple[QueryCost, float]:
        """Return the cost of the pages of the result with matching rows, and the number of matching rows."""
        with contextlib.closing(self._query(ordinal, names)) as query:
            rows = query.present if query.predicate is None else self._matching(ordinal, query.predicate)
            before = query.file.source.counts.bytes
            counts = rehearse(query, FilePlan(rows, rows, rows), lambda _: rows)
            page_bytes = query.file.source.counts.bytes - before - counts.index_bytes
            scale = self._scale(ordinal)
            return _cost(query, counts, page_bytes).scaled(scale), rows.num_rows * scale

    def everything(self, ordinal: int) -> QueryCost:
        """Return the cost of reading all rows of the sample."""
        with contextlib.closing(self._query(ordinal, ())) as query:
            return plan_cost(query, query.present)

    def rows(self, table: Table, most_bytes: int) -> tuple[pa.Table, bool]:
        """Return rows of the sample that are not deleted, and whether they are all of its rows.

        Row groups of up to ``most_bytes`` are read, spread over the sample, and at least one.
        """
        file, columns = self.sample.with_indexes([]), output_columns(table.schema, None)
        with contextlib.closing(self._bound(TableBinder(table, None, columns), file)) as query:
            picked = _pick_groups(file, spread(range(query.num_row_groups)), most_bytes, at_least_one=True)
            edges = file.footer.row_group_starts
            chosen = RowSelection.union_of(edges[:-1][picked], edges[1:][picked])
            rows = query.present & chosen
            tables = [
                query.result(piece.rows, piece.numbers, columns, table.schema)
                for piece in read_rows(query, FilePlan(rows, rows, rows))
            ]
            return pa.concat_tables([no_rows(table.schema), *tables]), chosen.num_rows == file.footer.num_rows

    def _find_scale(self, ordinal: int) -> float:
        """Return the size of the plan of a query of the file divided by that of the sample."""
        if self.sample.is_whole:
            return 1.0
        with contextlib.closing(self._query(ordinal, ())) as query:
            planned = plan_cost(query, plan_file(query).candidates)
        return self._now[ordinal].bytes / planned.bytes

    def spread(self, ordinal: int, condition: Condition, names: Sequence[str]) -> Spread:
        """Return how the matches of one condition are spread over the sample."""
        query = replace(self._query(ordinal, names), predicate=condition, columns=())
        with contextlib.closing(query):
            plan = plan_file(query)
            rows = self._matching(ordinal, condition)
            found, whole = plan_cost(query, rows), plan_cost(query, query.present)
            entries = query.embedded.entries
            return Spread(
                rows=query.present.num_rows,
                rows_matched=rows.num_rows,
                row_groups=int(whole.row_groups),
                row_groups_matched=int(found.row_groups),
                pages=int(whole.pages),
                pages_matched=int(found.pages),
                pages_kept=int(plan_cost(query, plan.candidates).pages),
                has_row_map=any(e.kind == RowMap.kind and condition.path in e.columns for e in entries),
            )

    def _is_relevant(self, ordinal: int, name: str) -> bool:
        column = column_of(self.built[name].index)
        return column is None or (column in self._columns[ordinal] and not self._outgrows(ordinal, name))

    def _may_outgrow(self, ordinal: int, name: str) -> bool:
        """Return whether the whole file's index may omit frequent values that the sample's index has."""
        index = self.built[name].index
        if self.sample.is_whole or not isinstance(index, RowMap):
            return False
        scale = self._now[ordinal].rows / max(1, self._cost(ordinal, frozenset()).rows)
        most = MAX_BUCKET_ENTRIES / SAFETY
        return any(
            self.spread(ordinal, condition, ()).rows_matched * scale > most * num_lookup_values(condition)
            for condition in self.conditions(ordinal)
            if ".".join(condition.path) == column_of(index) and is_lookup(condition)
        )

    def _measure(self, ordinal: int, names: frozenset[str]) -> QueryCost:
        """Return the cost of a query on the sample."""
        with contextlib.closing(self._query(ordinal, sorted(names))) as query:
            work = partial(_read_cost, query, partial(self._matching, ordinal))
            return retry_without_wrong_index(query.file, work)

    def _find_matches(self, ordinal: int, predicate: Bound) -> RowSelection:
        """Return the rows of the sample that match a part of the predicate of a query."""
        query = replace(self._query(ordinal, ()), predicate=predicate, columns=())
        with contextlib.closing(query):
            return matching_rows(query, plan_file(query))[0]

    def _query(self, ordinal: int, names: Sequence[str]) -> FileQuery:
        """Bind a query to the sample with some of the built indexes; the caller closes it."""
        file = self.sample.with_indexes([self.built[name] for name in names if name in self.built])
        return self._bound(self._binders[ordinal], file)

    def _bound(self, binder: TableBinder, file: ParquetInput) -> FileQuery:
        query = binder.query(self._entry, file)
        # row numbers of deleted rows are those of the whole file
        return query if self.sample.is_whole else replace(query, deleted=RowSelection.none())


# --- the sample of a table ------------------------------------------------------------------------------


@dataclass(frozen=True, eq=False)
class BoundQuery:
    """A query, bound to the table.

    Attributes:
        binder: Binds it to files.
        survivors: Ordinals of the files that neither partition values nor a lake index exclude.
    """

    query: Query
    binder: TableBinder
    survivors: Sequence[int]

    @classmethod
    def of(cls, table: Table, query: Query) -> BoundQuery:
        """Bind a query to a table.

        Raises:
            PredicateError: If the query does not fit the table; it names the line of a query from a file.
            ColumnNotFoundError: If the table lacks a column, and the query is not from a file.
        """
        try:
            binder = TableBinder(table, query.predicate, output_columns(table.schema, query.columns))
        except (PredicateError, ColumnNotFoundError) as error:
            if not query.origin:
                raise
            path, _, line = query.origin.rpartition(", line ")
            raise PredicateError(
                str(error), reason=error.reason, path=path, column=error.column, line=int(line)
            ) from error
        return cls(query, binder, Planner(table, binder, ScanReport()).survivors())


@dataclass(frozen=True, eq=False)
class SampledTable:
    """The sampled files.

    Attributes:
        files: The files with sampled row groups, and their ordinals in the table.
        now: The cost of each query on each file today, by query and file.
        ordinals: Ordinals of all files that were planned.
        num_rows: The number of rows of these files.
    """

    files: Mapping[int, MeasuredFile]
    now: Mapping[tuple[int, int], QueryCost]
    ordinals: Sequence[int]
    num_rows: int


def sample_table(
    table: Table, bound: Sequence[BoundQuery], sample_bytes: int, resources: contextlib.ExitStack
) -> SampledTable:
    """Choose files and row groups of up to ``sample_bytes``, and read them; ``resources`` closes them.

    Without queries, files are chosen from the whole table.
    """
    every = range(len(table.files))
    turns = take_turns([one.survivors for one in bound] or [every]) or [0]
    ordinals = sorted(turns[:MAX_FILES])
    files: dict[int, MeasuredFile] = {}
    now: dict[tuple[int, int], QueryCost] = {}
    num_rows = 0
    for position, ordinal in enumerate(ordinals):
        entry = table.files[ordinal]
        file = resources.enter_context(ParquetInput(entry.open()))
        num_rows += file.footer.num_rows
        surviving: list[Sequence[int]] = []
        binders = {number: one.binder for number, one in enumerate(bound) if ordinal in one.survivors}
        for number, binder in binders.items():
            with ParquetInput(entry.open()) as opened:
                query = binder.query(entry, opened)
                candidates = plan_file(query).candidates
                now[number, ordinal] = plan_cost(query, candidates)
                surviving.append(query.groups_with(candidates))
                query.embedded.close()
        budget = sample_bytes // (len(ordinals) - position)
        # those that the queries read, in turns; then others
        ordered = [*take_turns(surviving), *spread(range(len(file.footer.metadata.row_groups)))]
        picked = _pick_groups(file, ordered, budget, at_least_one=not files)
        sample_bytes = max(0, sample_bytes - group_bytes(file, picked))
        if picked:
            costs = {number: now[number, ordinal] for number in binders}
            files[ordinal] = MeasuredFile(entry, SampledFile(file, picked), binders, costs)
    return SampledTable(files, now, ordinals, num_rows)


def _pick_groups(file: ParquetInput, ordered: Sequence[int], budget: int, *, at_least_one: bool) -> list[int]:
    """Choose row groups with rows of at most ``budget`` bytes together.

    Args:
        ordered: The row groups, the most useful first; they may be repeated.
        budget: The number of bytes.
        at_least_one: Choose one even if it is larger.
    """
    picked: list[int] = []
    left = budget
    most = max(1, MAX_CHUNKS // max(1, len(file.footer.leaves)))
    for group in dict.fromkeys(ordered):
        if file.footer.metadata.row_groups[group].num_rows == 0:
            continue
        num_bytes = group_bytes(file, [group])
        if len(picked) < most and (num_bytes <= left or (at_least_one and not picked)):
            picked.append(group)
            left -= num_bytes
    return sorted(picked)
