"""`intarsia.advise`: which indexes to add to the files of a table."""

from __future__ import annotations

import contextlib
import os
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import cast

import pyarrow.compute as pc

from intarsia.advice import sampling
from intarsia.advice.candidates import column_of, command_of, indexes_for, indexes_for_every_file, name_of
from intarsia.advice.choosing import choose
from intarsia.advice.columns import ColumnShape, shapes_of
from intarsia.advice.cost import Cost
from intarsia.advice.measuring import MeasuredFile, plan_cost
from intarsia.advice.obstacles import Obstacle, is_explained, of_condition, of_constants, of_query
from intarsia.advice.queries import Query, merged, queries_of, read_queries
from intarsia.advice.report import Advice, MeasuredIndex, NotBuilt, QueryAdvice, SampleSize
from intarsia.advice.sampled_file import SampledFile, group_bytes
from intarsia.embed import PageIndex
from intarsia.embed.attach import Attachable
from intarsia.errors import ColumnNotFoundError, PredicateError
from intarsia.file import ParquetInput
from intarsia.indexes.base import HasPurpose
from intarsia.indexes.distinct import Distinct
from intarsia.lake.binding import TableBinder
from intarsia.lake.survivors import find_survivors
from intarsia.lake.table import Source, Table, open
from intarsia.predicate import Where
from intarsia.predicate.nodes import NODE_TYPES
from intarsia.read.file_plan import plan_file
from intarsia.read.output_columns import output_columns
from intarsia.read.report import ScanReport

#: A lake index is advised for at least this many files, if queries open many of them in vain.
LEAST_FILES = 16
VAIN_PART = 0.5

#: Without queries, `Distinct` is advised if it weighs at most this part of the files.
LIGHT_SHARE = 0.01

#: Called with the number of steps done and their total number.
Show = Callable[[int, int], None]


def advise(
    source: Source | Table,
    where: Where | Sequence[Where] = None,
    *,
    queries: str | os.PathLike[str] | None = None,
    columns: Sequence[str] | None = None,
    sample_bytes: int = sampling.SAMPLE_BYTES,
    show: Show = lambda _, __: None,
) -> Advice:
    """Advise which indexes to add to files, by measuring them on a sample. No file is changed.

    Row groups of up to 8 files are read, spread evenly over those that the queries read. Every index that can
    evaluate a condition is built on them in memory. Then the queries are planned with it, as a scan plans
    them. The advice is the smallest set of indexes with nearly all the benefit. Sizes, times and savings are
    extrapolated from the sample to all files, so they are estimates unless ``sample.is_whole``.

    Without queries the advice is general: a page index, and `Distinct` for columns of few values if it is
    light. ``columns`` of the result then describes each column.

    Args:
        source: As for `intarsia.open`, or a table.
        where: A predicate, in any form that `Table.scan` takes, or a list of them.
        queries: A text file of predicates, or SELECT statements of one table, one per line or separated by
            semicolons.
        columns: The columns that the queries of ``where`` read; None for all.
        sample_bytes: The maximum size of the sampled row groups in bytes. One row group is always read.
        show: Called with the number of steps done and their total number.

    Returns:
        The advice. ``advice.indexes`` can be passed to `attach`, and ``advice.command`` is the same for the
        shell.

    Raises:
        PredicateError: If a query cannot be parsed, or compares values of incompatible types.
        ColumnNotFoundError: If the table has no such column; the message suggests similar names.
        FormatError: If a file of the sample is damaged.
        ValueError: If ``sample_bytes`` is not positive.

    Example:
        >>> import intarsia as ia, pyarrow as pa, pyarrow.parquet as pq, tempfile, os
        >>> path = os.path.join(tempfile.mkdtemp(), "t.parquet")
        >>> rows = pa.table({"user": [n * 7919 % 200_003 for n in range(200_000)], "x": range(200_000)})
        >>> pq.write_table(rows, path, row_group_size=50_000, max_rows_per_page=2_000)
        >>> advice = ia.advise(path, ["user = 42", "user = 4711"])
        >>> advice.indexes
        (PageIndex(int96=None), BloomGranule(column='user', fpp=0.01, granularity='page'))
        >>> query = advice.queries[0]
        >>> query.now.row_groups, query.advised.pages < query.now.pages / 10
        (4.0, True)
    """
    started = time.perf_counter()
    if sample_bytes < 1:
        raise ValueError(f"sample_bytes is {sample_bytes}; it must be 1 or more")
    table = source if isinstance(source, Table) else open(source)
    asked = queries_of(_predicates(where), columns)
    asked += [] if queries is None else read_queries(queries)
    bound = [_Bound.of(table, query) for query in merged(asked)]
    with contextlib.ExitStack() as resources:
        files = _sampled(table, bound, sample_bytes, resources)
        work = _Measurement(table, bound, files)
        work.build(show)
        chosen = work.choose()
        return Advice(
            command=command_of(
                _paths(source, table), [work.indexes[name] for name in chosen], lake_index=work.lake_index
            ),
            indexes=tuple(work.indexes[name] for name in chosen),
            lake_index=work.lake_index,
            measured=work.measured(chosen),
            queries=tuple(work.query_advice(ordinal, chosen) for ordinal in range(len(bound))),
            columns=() if bound else tuple(work.shapes),
            not_built=work.not_built,
            sample=work.size,
            seconds=time.perf_counter() - started,
        )


def _predicates(where: Where | Sequence[Where]) -> list[Where]:
    """Return a list of predicates; a list of tuples is one predicate in pyarrow's form."""
    if where is None:
        return []
    is_many = isinstance(where, (list, tuple)) and all(
        isinstance(one, (str, pc.Expression, *NODE_TYPES)) for one in where
    )
    return list(cast("Sequence[Where]", where)) if is_many else [cast("Where", where)]


def _paths(source: Source | Table, table: Table) -> list[str]:
    """Return the paths of the files for the command."""
    if isinstance(source, (str, os.PathLike)):
        return [os.fspath(source)]
    if isinstance(source, (list, tuple)):
        return [os.fspath(path) for path in source]
    return [file.path for file in table.files] if len(table.files) <= 3 else [table.name]


@dataclass(frozen=True, eq=False)
class _Bound:
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
    def of(cls, table: Table, query: Query) -> _Bound:
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
        return cls(query, binder, find_survivors(table, binder, ScanReport()).files)


@dataclass(frozen=True, eq=False)
class _SampledTable:
    """The sampled files.

    Attributes:
        files: The files with sampled row groups, and their ordinals in the table.
        now: By query and file: what the query reads of the file today.
        ordinals: Ordinals of all files that were planned.
        num_rows: The number of rows of these files.
    """

    files: Mapping[int, MeasuredFile]
    now: Mapping[tuple[int, int], Cost]
    ordinals: Sequence[int]
    num_rows: int


def _sampled(
    table: Table, bound: Sequence[_Bound], sample_bytes: int, resources: contextlib.ExitStack
) -> _SampledTable:
    """Choose files and row groups, and read them."""
    every = range(len(table.files))
    turns = list(sampling.take_turns([one.survivors for one in bound] or [every])) or [0]
    ordinals = sorted(turns[: sampling.MAX_FILES])
    files: dict[int, MeasuredFile] = {}
    now: dict[tuple[int, int], Cost] = {}
    num_rows = 0
    for place, ordinal in enumerate(ordinals):
        entry = table.files[ordinal]
        file = resources.enter_context(ParquetInput(entry.open()))
        num_rows += file.footer.num_rows
        surviving: list[Sequence[int]] = []
        binders = {number: one.binder for number, one in enumerate(bound) if ordinal in one.survivors}
        for number, binder in binders.items():
            with contextlib.closing(binder.query(entry, ParquetInput(entry.open()))) as query:
                now[number, ordinal] = plan_cost(query)
                surviving.append(query.groups_with(plan_file(query).candidates))
        every_group = range(len(file.footer.metadata.row_groups))
        budget = sample_bytes // (len(ordinals) - place)
        picked = _pick_groups(file, [surviving, [every_group]], budget, at_least_one=not files)
        sample_bytes = max(0, sample_bytes - group_bytes(file, picked))
        if picked:
            sample = resources.enter_context(SampledFile(file, picked))
            costs = {number: now[number, ordinal] for number in binders}
            files[ordinal] = MeasuredFile(entry, sample, binders, costs)
    return _SampledTable(files, now, ordinals, num_rows)


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
    for group in dict.fromkeys(group for lists in stages for group in sampling.take_turns(lists)):
        if file.footer.metadata.row_groups[group].num_rows == 0:
            continue
        num_bytes = group_bytes(file, [group])
        if num_bytes <= left or (at_least_one and not picked):
            picked.append(group)
            left -= num_bytes
    return sorted(picked)


class _Measurement:
    """The measurements of all queries and indexes."""

    def __init__(self, table: Table, bound: Sequence[_Bound], sampled: _SampledTable) -> None:
        self._table = table
        self._bound = bound
        self._sampled = sampled
        self._files = sampled.files
        self.indexes: dict[str, Attachable] = {}
        self.shapes: list[ColumnShape] = []
        for file in self._files.values():
            candidates = indexes_for_every_file()
            for number in range(len(bound)):
                if self._reads(number, file):
                    candidates += [index for c in file.conditions(number) for index in indexes_for(c)]
            self.indexes |= {name_of(index): index for index in candidates}
        if not bound and self._files:
            first = next(iter(self._files.values()))
            self.shapes = shapes_of(first.sample.with_indexes([]))
            few = [shape.column for shape in self.shapes if shape.shape == "clustered"]
            self.indexes |= {name_of(index): index for index in map(Distinct, few)}

    def _reads(self, number: int, file: MeasuredFile) -> bool:
        return any(
            found is file and (number, ordinal) in self._sampled.now for ordinal, found in self._files.items()
        )

    def build(self, show: Show) -> None:
        """Build all indexes on all files of the sample."""
        steps = [(file, index) for file in self._files.values() for index in self.indexes.values()]
        for done, (file, index) in enumerate(steps):
            show(done, len(steps))
            file.build(index)
        built = {name for file in self._files.values() for name in file.built}
        self._weights = {
            name: sum(file.built[name].num_bytes for file in self._files.values() if name in file.built)
            * self._data_scale
            for name in self.indexes
            if name in built
        }
        show(len(steps), len(steps))

    @property
    def not_built(self) -> tuple[NotBuilt, ...]:
        """The indexes that cannot be built in any file."""
        found = {
            name: NotBuilt(name, str(error), error.reason or "not-built")
            for file in self._files.values()
            for name, error in file.failed.items()
            if name not in self._weights
        }
        return tuple(found.values())

    # --- scales ------------------------------------------------------------------------------------

    @property
    def size(self) -> SampleSize:
        """The size of the sample."""
        files = self._files.values()
        is_whole = set(self._files) == set(range(len(self._table.files)))
        return SampleSize(
            len(self._files),
            len(self._table.files),
            sum(len(file.sample.groups) for file in files),
            sum(file.sample.num_bytes for file in files),
            int(self._table.file_bytes.sum()),
            is_whole and all(file.sample.is_whole for file in files),
        )

    @property
    def _data_scale(self) -> float:
        """How many times more data all files have than the sample."""
        sampled = 0.0
        for ordinal, file in self._files.items():
            every = range(len(file.sample.file.footer.metadata.row_groups))
            part = file.sample.num_bytes / max(1, group_bytes(file.sample.file, every))
            sampled += part * int(self._table.file_bytes[ordinal])
        return float(self._table.file_bytes.sum()) / sampled if sampled else 1.0

    def _file_scale(self, number: int) -> float:
        """How many times more data the files that a query opens have than those that were planned."""
        sizes = self._table.file_bytes
        planned = sum(
            int(sizes[ordinal])
            for ordinal in self._sampled.ordinals
            if (number, ordinal) in self._sampled.now
        )
        return float(sizes[list(self._bound[number].survivors)].sum()) / planned if planned else 1.0

    # --- costs -------------------------------------------------------------------------------------

    def cost(self, number: int, names: Sequence[str] | frozenset[str]) -> Cost:
        """Estimate what a query reads of all files with some of the indexes."""
        found = Cost()
        for (query, ordinal), now in self._sampled.now.items():
            if query == number:
                file = self._files.get(ordinal)
                found += now if file is None else file.cost(number, names)
        return found.scaled(self._file_scale(number))

    def _read_bytes(self, names: frozenset[str]) -> float:
        return sum(one.query.count * self.cost(number, names).bytes for number, one in enumerate(self._bound))

    @property
    def _page_index(self) -> list[str]:
        """The name of the page index, if files lack it."""
        return [name for name in self._weights if isinstance(self.indexes[name], PageIndex)]

    @property
    def _num_queries(self) -> int:
        return sum(one.query.count for one in self._bound)

    def choose(self) -> tuple[str, ...]:
        """Return the names of the advised indexes."""
        if not self._bound:
            most = LIGHT_SHARE * float(self._table.file_bytes.sum())
            return tuple(
                name
                for name, weight in self._weights.items()
                if isinstance(self.indexes[name], PageIndex)
                or (isinstance(self.indexes[name], Distinct) and weight <= most)
            )
        return choose(self._weights, self._read_bytes, self._num_queries, self._page_index)

    @property
    def lake_index(self) -> bool:
        """Whether queries open many files in vain, and there is no lake index."""
        if len(self._table.files) < LEAST_FILES or not self._bound or self._table.known_files() is not None:
            return False
        now = self._sampled.now.values()
        return sum(cost.files == 0 for cost in now) > VAIN_PART * len(now) or any(
            self.cost(number, frozenset(self._weights)).files < (1 - VAIN_PART) * len(one.survivors)
            for number, one in enumerate(self._bound)
        )

    # --- the report --------------------------------------------------------------------------------

    def measured(self, chosen: Sequence[str]) -> tuple[MeasuredIndex, ...]:
        """Return the measurements of all indexes: the advised ones, then those that save most."""
        total = max(1, int(self._table.file_bytes.sum()))
        before = self._read_bytes(frozenset())
        found = []
        for name, weight in self._weights.items():
            index = self.indexes[name]
            if name in chosen:
                saved = self._read_bytes(frozenset(chosen) - {name}) - self._read_bytes(frozenset(chosen))
            else:
                saved = before - self._read_bytes(frozenset((name, *self._page_index)))
            seconds = sum(file.built[name].seconds for file in self._files.values() if name in file.built)
            found.append(
                MeasuredIndex(
                    index,
                    name,
                    column_of(index),
                    index.purpose if isinstance(index, HasPurpose) else "",
                    round(weight),
                    weight / total,
                    seconds * self._data_scale,
                    round(saved / max(1, self._num_queries)),
                    name in chosen,
                )
            )
        return tuple(sorted(found, key=lambda one: (not one.is_advised, -one.saved_bytes, one.bytes)))

    def query_advice(self, number: int, chosen: Sequence[str]) -> QueryAdvice:
        """Return what one query reads, and why it cannot skip more."""
        one, scale = self._bound[number], self._file_scale(number)
        now, advised = self.cost(number, ()), self.cost(number, chosen)
        least, total, rows_matched = Cost(), Cost(), 0.0
        pages = self._page_index
        for file in self._files_of(number):
            of_file, matched = file.least(number, pages)
            least, rows_matched = least + of_file, rows_matched + matched
            total += file.everything(number)
        least, total = least.scaled(scale), total.scaled(self._data_scale)
        return QueryAdvice(
            str(one.query),
            one.query.columns,
            one.query.origin,
            one.query.count,
            total,
            now,
            advised,
            least,
            round(rows_matched * scale),
            tuple(self._obstacles(number, total, now, advised, least, pages)),
        )

    def _files_of(self, number: int) -> list[MeasuredFile]:
        return [file for ordinal, file in self._files.items() if (number, ordinal) in self._sampled.now]

    def _obstacles(
        self, number: int, total: Cost, now: Cost, advised: Cost, least: Cost, pages: Sequence[str]
    ) -> Iterator[Obstacle]:
        if self._bound[number].query.predicate is None:
            yield Obstacle("all-rows", None, "it has no condition, so every row is read")
            return
        files = self._files_of(number)
        yield from of_constants(sorted({column for file in files for column in file.constants(number)}))
        whole = of_query(total, now, advised, least) if self._sampled.num_rows else None
        if not self._sampled.num_rows:
            yield Obstacle("no-rows", None, "the files have no rows")
        elif whole is not None:
            yield whole
        elif files and not is_explained(now, advised, least, total):
            largest = max(files, key=lambda file: file.sample.num_bytes)
            for condition in largest.conditions(number):
                yield of_condition(condition, largest.spread(number, condition, pages))
