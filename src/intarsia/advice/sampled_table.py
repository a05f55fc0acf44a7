"""Choose files and row groups of a table for a sample, and read them."""

from __future__ import annotations

import contextlib
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from intarsia.advice.cost import QueryCost
from intarsia.advice.measuring import MeasuredFile, plan_cost
from intarsia.advice.queries import Query
from intarsia.advice.sampled_file import SampledFile, group_bytes
from intarsia.advice.sampling import MAX_CHUNKS, MAX_FILES, take_turns
from intarsia.errors import ColumnNotFoundError, PredicateError
from intarsia.file import ParquetInput
from intarsia.lake.binding import TableBinder
from intarsia.lake.planner import Planner
from intarsia.lake.table import Table
from intarsia.read.file_plan import plan_file
from intarsia.read.output_columns import output_columns
from intarsia.read.report import ScanReport


@dataclass(frozen=True, eq=False)
class BoundQuery:
    """A query, bound to the table.

    Attributes:
        query: The query.
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
            raise PredicateError(
                f"{query.origin}: {error}",
                reason=error.reason,
                path=query.origin.rpartition(", line ")[0],
                column=error.column,
            ) from error
        return cls(query, binder, Planner(table, binder, ScanReport()).survivors().files)


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
    """Choose files and row groups, and read them.

    Args:
        table: The table.
        bound: The queries; if there are none, files are chosen from the whole table.
        sample_bytes: The maximum size of the row groups in bytes.
        resources: Closes the files.
    """
    every = range(len(table.files))
    turns = list(take_turns([one.survivors for one in bound] or [every])) or [0]
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
        every_group = range(len(file.footer.metadata.row_groups))
        budget = sample_bytes // (len(ordinals) - position)
        picked = _pick_groups(file, [surviving, [every_group]], budget, at_least_one=not files)
        sample_bytes = max(0, sample_bytes - group_bytes(file, picked))
        if picked:
            sample = resources.enter_context(SampledFile(file, picked))
            costs = {number: now[number, ordinal] for number in binders}
            files[ordinal] = MeasuredFile(entry, sample, binders, costs)
    return SampledTable(files, now, ordinals, num_rows)


def _pick_groups(
    file: ParquetInput, stages: Sequence[Sequence[Sequence[int]]], budget: int, *, at_least_one: bool
) -> list[int]:
    """Choose row groups with rows of at most ``budget`` bytes together.

    Args:
        file: The file.
        stages: The row groups that each query reads, which are chosen in turns; then further row groups.
        budget: The number of bytes.
        at_least_one: Choose one even if it is larger.
    """
    picked: list[int] = []
    left = budget
    most = max(1, MAX_CHUNKS // max(1, len(file.footer.leaves)))
    for group in dict.fromkeys(group for lists in stages for group in take_turns(lists)):
        if file.footer.metadata.row_groups[group].num_rows == 0:
            continue
        num_bytes = group_bytes(file, [group])
        if len(picked) < most and (num_bytes <= left or (at_least_one and not picked)):
            picked.append(group)
            left -= num_bytes
    return sorted(picked)
