"""One query to a table of many files."""

from __future__ import annotations

import contextlib
import time
from collections.abc import Callable, Generator, Iterable, Iterator, Sequence
from dataclasses import replace
from functools import partial
from numbers import Integral
from typing import Any

import pyarrow as pa

from intarsia.arrow.owned_rows import no_rows, to_batches
from intarsia.errors import FormatError
from intarsia.file import ParquetInput
from intarsia.lake.binding import TableBinder
from intarsia.lake.file_runs import FileRuns, OnError
from intarsia.lake.order_by import OrderBy, parse_order
from intarsia.lake.planning import OpenPlan
from intarsia.lake.query_result import QueryResult
from intarsia.lake.query_run import QueryRun, in_new_run
from intarsia.lake.split import Split, SplitQuery, file_identity, make_splits
from intarsia.lake.table_files import TableFiles
from intarsia.lake.top_scan import TopScan
from intarsia.predicate import Predicate
from intarsia.read.aggregate import Aggregate, Totals
from intarsia.read.aggregate.calls import Requested, requested_functions
from intarsia.read.aggregate.result import ROWS
from intarsia.read.ahead import ahead
from intarsia.read.approximate import ApproximateCount, DistinctValues, FileSize, sample_rows
from intarsia.read.counts import ReadCounts
from intarsia.read.file_plan import count_planned, estimate_rows
from intarsia.read.file_query import FileQuery
from intarsia.read.file_rows import RUNS_AT_ONCE, Piece, read_rows, read_whole_file
from intarsia.read.hint import Hints
from intarsia.read.locations import LOCATIONS, locate_rows
from intarsia.read.output_columns import (
    OutputColumn,
    concat_rows,
    output_columns,
    refuse_repeated,
    with_constants,
)
from intarsia.read.report import FileOutcome, ScanReport, warn_of_failed
from intarsia.read.sort_key import SortKey
from intarsia.read.value_counts import ValueCounts


class Scan(QueryResult):
    """One query of a table, made by `Table.scan`; it runs each time that its result is requested.

    Each run checks whether the objects in a store have changed, and reads their current version. The first
    run omits this check if `Table.scan` has just read the footers.

    Get the rows with `to_arrow`, by iterating over batches, or as an Arrow stream, as in
    ``polars.DataFrame(scan)`` and ``duckdb.sql("FROM scan")``. `to_pandas`, `to_polars` and `to_duckdb`
    return the data frames and relations of these libraries.

    A scan can be pickled. The copy plans again, and reads the files as they are then. `Table.plan` plans
    once, for many processes.

    Attributes:
        columns: The columns of the result.
        schema: The schema of the result.

    Example:
        >>> import intarsia as ia, pyarrow as pa, pyarrow.parquet as pq, tempfile, os
        >>> path = os.path.join(tempfile.mkdtemp(), "t.parquet")
        >>> pq.write_table(pa.table({"x": range(1000), "y": [1, 2] * 500}), path)
        >>> scan = ia.open(path).scan("x < 3", columns=["y"])
        >>> scan.to_arrow().to_pylist()
        [{'y': 1}, {'y': 2}, {'y': 1}]
        >>> scan.count(), scan.report.row_groups_read
        (3, 1)
    """

    def __init__(
        self,
        table: TableFiles,
        predicate: Predicate | None,
        columns: Sequence[str] | None,
        limit: int | None,
        order_by: OrderBy | None = None,
        on_error: OnError = "raise",
        first_run: QueryRun | None = None,
    ) -> None:
        self._table = table
        self._arguments = (table, predicate, columns, limit, order_by, on_error)
        # the first run includes the reads for the schema
        self._next_run: QueryRun | None = first_run or QueryRun(table.new_deadline())
        # footers that are read now for the schema need not be checked again by the first run
        has_new_footers = not table.has_schema
        self._limit = limit
        self._on_error = on_error
        self._where = predicate
        with self._next_run.running():
            table_schema = table.schema
        if columns is None:
            refuse_repeated(table_schema, table_schema.names, table.name)
        self.columns = output_columns(table_schema, columns)
        self._binder = TableBinder(table, predicate, self.columns)
        fields = [column.field(table_schema) for column in self.columns]
        self.schema = pa.schema(fields, metadata=table_schema.metadata)
        self._key = None if order_by is None else parse_order(order_by, table_schema)
        self._runs = FileRuns(
            table,
            self._binder,
            is_limited=limit is not None,
            on_error=on_error,
            has_new_footers=has_new_footers,
        )

    def __dir__(self) -> list[str]:
        """List the attributes, without the methods that only other parts of Intarsia call."""
        return sorted({*super().__dir__()} - {"new_run", "read_ahead", "refuse_unknown_types", "totals"})

    def new_run(self) -> QueryRun:
        """Begin a run."""
        run, self._next_run = self._next_run, None
        return run or QueryRun(self._table.new_deadline())

    def __reduce__(self) -> tuple[Any, ...]:
        return type(self), self._arguments

    @property
    def report(self) -> ScanReport:
        """What the last run read and skipped, and why. Complete when all rows have been consumed."""
        return self._runs.report

    def __repr__(self) -> str:
        names = [column.name for column in self.columns]
        keys = [] if self._key is None else [column.name for column in self._key.columns]
        order = f", order_by={keys}" if keys else ""
        return f"Scan(where={self._where!r}, columns={names}{order}, limit={self._limit})"

    @in_new_run
    def to_arrow(self) -> pa.Table:
        """Run the scan and collect the rows.

        Raises:
            CorruptFileError: If a part of a file that has to be read is damaged, and bad files are not
                skipped.
        """
        tables = self._tables(whole_files=True, runs_at_once=RUNS_AT_ONCE)
        return pa.Table.from_batches(_to_batches(tables), schema=self.schema)

    def __iter__(self) -> Iterator[pa.RecordBatch]:
        """Run the scan, and yield batches row group by row group."""
        # a caller that takes one batch after the other may stop early
        return self.new_run().in_steps(_to_batches(self._tables(whole_files=False, runs_at_once=1)))

    def read_ahead(self) -> Generator[pa.RecordBatch, None, None]:
        """Run the scan, and yield batches as iterating does, while the next row group is being read.

        This is for engines, which usually take all batches.
        """
        batches = _to_batches(self._tables(whole_files=False, runs_at_once=RUNS_AT_ONCE))
        return self.new_run().in_steps(batches)

    @in_new_run
    def explain(self, *, analyze: bool = False) -> ScanReport:
        """Plan without reading data pages; see `Table.explain`. The limit is ignored."""
        started = time.perf_counter()
        report = self._runs.new_report(
            rows_estimated=0.0,
            rows_matched=0 if analyze else None,
            bytes_planned=None if analyze else 0,
        )
        hints = Hints()
        with contextlib.closing(self._runs.planned_files(report, self._binder)) as files:
            for _, opened in files:
                query, plan = opened.query, opened.plan
                with self._runs.skipping(query.file.path, report):
                    estimate, index_bytes = estimate_rows(query, plan)
                    counts = ReadCounts(index_bytes=index_bytes)
                    if analyze:
                        pieces = read_rows(query, plan, runs_at_once=RUNS_AT_ONCE)
                        counts = sum((piece.counts for piece in pieces), counts)
                    else:
                        counts += count_planned(query, plan.candidates)
                    report.add_file(query, FileOutcome(plan, counts, rows_estimated=estimate))
                    hints.add(query, plan)
        has_lake_index = self._table.known_files(is_current=True) is not None
        report.advise(hints.best(has_lake_index=has_lake_index))
        report.add_time(started)
        warn_of_failed(report.files_failed)
        return report

    @in_new_run
    def plan(self, split_bytes: int | None = None) -> list[Split]:
        """Return the scan as splits that any process can read; see `Table.plan`.

        Raises:
            ValueError: If the scan has a limit, or ``split_bytes`` is not positive.
        """
        self._refuse_limit()
        if split_bytes is not None and split_bytes < 1:
            raise ValueError(f"split_bytes is {split_bytes}; it must be 1 or more, or None")
        splits: list[Split] = []
        with (
            self._runs.reporting() as report,
            contextlib.closing(self._runs.planned_files(report, self._binder)) as files,
        ):
            for entry, opened in files:
                query, plan = opened.query, opened.plan
                here = query.file.arrow_schema if query.names is None else query.names.schema
                shared = SplitQuery(
                    replace(entry.as_opened(query.file.source.identity), deletes=None),
                    file_identity(query.file),
                    self._where,
                    self._binder.view(here),
                    tuple(self.columns),
                    self.schema,
                    query.constants,
                    query.names,
                    query.deleted,
                )
                splits += make_splits(shared, query, plan, split_bytes)
                report.add_file(query, FileOutcome(plan, count_planned(query, plan.candidates)))
        return splits

    def count(self) -> int:
        """Count the rows that match; see `Table.count`.

        Raises:
            ValueError: If the scan has a limit.
        """
        return int(self.aggregate({ROWS: "count"})[ROWS]["count"])

    def aggregate(self, functions: Requested) -> Aggregate:
        """Compute aggregates of the rows that match; see `Table.aggregate`.

        Args:
            functions: As for `Table.aggregate`; the columns need not be in the scan.

        Raises:
            ValueError: If a function is unknown or not defined for the column's type, or the scan has a
                limit.
            PredicateError: If SQL text cannot be parsed.
            ColumnNotFoundError: If the table has no such column; the message suggests similar names.
        """
        return Aggregate(self.totals(functions).values(), self.report)

    @in_new_run
    def totals(self, requested: Requested) -> Totals:
        """Compute aggregates as `aggregate` does, in a form that can be merged with those of other files."""
        self._refuse_limit()
        functions = requested_functions(requested)
        columns = output_columns(self._table.schema, [name for name in functions if name != ROWS])
        totals = Totals(functions, columns)
        with contextlib.closing(self._runs.each_plan(columns, totals, reads_all=True)) as plans:
            for found, record in plans:
                with self._runs.skipping(found.query.file.path):
                    record(totals.add_file(found.query, found.plan, found.pieces))
        return totals

    def refuse_unknown_types(self) -> None:
        """Refuse columns whose logical types a new file with the rows would lack; see `FileSchema`.

        Raises:
            UnsupportedFeatureError: If a file has such a column.
        """
        table, columns = self._table, {column.path[0] for column in self.columns}
        # cached footers suffice: no request is made for them
        open_file = partial(table.open_file, is_current=True)
        opened = ahead(open_file, table.files, table.files_at_once, ParquetInput.close)
        self._next_run = run = self.new_run()  # the run of the rows, whose report has these reads, too
        with run.running(), contextlib.closing(opened):
            for entry, future in opened:
                try:
                    with future.result() as file:
                        names, schema = table.names_in(file.schema, entry.path), file.schema
                except (FormatError, FileNotFoundError):  # the scan raises it, or skips the file
                    continue
                own = columns if names is None else {names.path((name,))[0] for name in columns}
                schema.refuse_unknown_types(entry.path, own)

    @in_new_run
    def locate(self, column: str | None = None) -> pa.Table:
        """Return the locations of the rows that match; see `Table.locate`.

        Raises:
            ValueError: If the scan has a limit.
            ColumnNotFoundError: If the table has no such column; the message suggests similar names.
        """
        self._refuse_limit()
        if column is None:
            partition = self._table.partition_types
            names = self._table.schema.names
            column = next((name for name in names if name not in partition), names[0])
        numbered = self._one_column(column)
        found = [LOCATIONS.empty_table()]
        with self._runs.each_file([]) as files:
            for query, plan, record in files:
                with self._runs.skipping(query.file.path):
                    locations, outcome = locate_rows(query, plan, numbered)
                    record(outcome)
                    found.append(locations)
        return pa.concat_tables(found)

    @in_new_run
    def approx_distinct(self, column: str) -> ApproximateCount:
        """Estimate the number of distinct values of a column in the rows that match.

        See `Table.approx_distinct`.

        Raises:
            ValueError: If the scan has a limit.
            ColumnNotFoundError: If the table has no such column; the message suggests similar names.
            UnsupportedFeatureError: If distinct values of its type cannot be counted.
        """
        self._refuse_limit()
        queried = self._one_column(column)
        values = DistinctValues(queried)
        with self._runs.each_file([queried]) as files:
            estimate, lower, upper = values.count(files, self._runs.skipping)
        return ApproximateCount(estimate, lower, upper, tuple(values.unindexed), self.report)

    @in_new_run
    def count_distinct(self, column: str) -> int:
        """Count the distinct values of a column in the rows that match; see `Table.count_distinct`.

        Raises:
            ValueError: If the scan has a limit.
            ColumnNotFoundError: If the table has no such column; the message suggests similar names.
            UnsupportedFeatureError: If values of its type cannot be counted.
        """
        return self._values_of(column, counted=False).count_distinct()

    @in_new_run
    def value_counts(self, column: str, limit: int | None = None) -> pa.Table:
        """Return the values of a column in the rows that match, with their counts; see `Table.value_counts`.

        Args:
            column: The column.
            limit: The maximum number of values; None for all.

        Raises:
            ValueError: If the scan has a limit, or ``limit`` is negative.
            ColumnNotFoundError: If the table has no such column; the message suggests similar names.
            UnsupportedFeatureError: If values of its type cannot be counted.
        """
        if limit is not None and limit < 0:
            raise ValueError(f"limit is {limit}; it must be 0 or more")
        return self._values_of(column, counted=True).most_common(limit)

    def _values_of(self, column: str, *, counted: bool) -> ValueCounts:
        self._refuse_limit()
        queried = self._one_column(column)
        values = ValueCounts(queried, counted=counted)
        with self._runs.each_file([queried]) as files:
            for query, plan, record in files:
                with self._runs.skipping(query.file.path):
                    record(values.add_file(query, plan))
        return values

    @in_new_run
    def sketches(self, column: str, lg_config_k: int = 12) -> pa.Table:
        """Return a HyperLogLog sketch of the rows that match for each file; see `Table.sketches`.

        Raises:
            ValueError: If the scan has a limit, or ``lg_config_k`` is out of range.
            ColumnNotFoundError: If the table has no such column; the message suggests similar names.
            UnsupportedFeatureError: If distinct values of its type cannot be counted.
        """
        self._refuse_limit()
        queried = self._one_column(column)
        values = DistinctValues(queried, lg_config_k)
        paths, sketches = [], []
        with self._runs.each_file([queried]) as files:
            for query, plan, record in files:
                with self._runs.skipping(query.file.path):
                    sketches.append(values.of_file(query, plan, record).to_sketch()[0])
                    paths.append(query.file.path)
        return pa.table({"path": pa.array(paths, pa.string()), "sketch": pa.array(sketches, pa.binary())})

    def _one_column(self, name: str) -> OutputColumn:
        if not isinstance(name, str):
            raise TypeError(f"the column is {name!r}; pass one column name")
        (column,) = output_columns(self._table.schema, [name])
        return column

    def _refuse_limit(self) -> None:
        if self._limit is not None:
            raise ValueError(
                f"the scan has limit={self._limit}, but this method needs all rows; scan without a limit"
            )

    @in_new_run
    def sample(self, n: int | None = None, seed: int | None = None) -> pa.Table:
        """Draw rows as `Table.sample` does; `report` lists what was read.

        Raises:
            ValueError: If ``n`` or ``seed`` is negative, or the scan has a condition or a limit, or skips bad
                files.
            TypeError: If ``n`` or ``seed`` is not an integer.
        """
        if self._where is not None or self._limit is not None:
            raise ValueError("a sample is drawn from all rows; use a scan without where and limit")
        for name, number in (("n", n), ("seed", seed)):
            if number is not None and not isinstance(number, Integral):
                raise TypeError(f"{name} is {number!r}; it must be an integer or None")
            if number is not None and number < 0:
                raise ValueError(f"{name} is {number}; it must be 0 or more")
        if self._on_error != "raise":
            raise ValueError("a sample is drawn from all files; use a scan without on_error")
        table = self._table
        open_file = partial(table.open_file, is_current=self._runs.starts_with_new_footers())
        opened = ahead(open_file, table.files, table.files_at_once, ParquetInput.close)
        sizes = []
        with contextlib.closing(opened):
            for entry, future in opened:
                with future.result() as file:
                    sizes.append(FileSize.of(file, entry.deleted_rows()))
        self._runs.continue_with_new_footers()
        with self._runs.each_file(self.columns) as files:
            pieces = list(sample_rows(sizes, files, n, seed, self._finish))
        return concat_rows([no_rows(self.schema), *pieces])

    def _tables(self, *, whole_files: bool, runs_at_once: int) -> Iterator[pa.Table]:
        if self._key is not None:
            yield self._first_rows(self._key)
            return
        left = self._limit
        reads_all = runs_at_once > 1
        with contextlib.closing(self._runs.each_plan(self.columns, reads_all=reads_all)) as files:
            for found, record in files:
                query, plan = found.query, found.plan
                is_whole = query.predicate is None and whole_files and left is None
                is_whole &= query.deleted.is_empty
                rows = self._rows_of_file(found, record, left, is_whole, runs_at_once)
                if whole_files and self._on_error == "skip":
                    # all rows of a file or none
                    tables = []
                    with self._runs.skipping(query.file.path):
                        tables = list(rows)
                    if self.report.has_failed(query.file.path):
                        record(FileOutcome(plan))
                        tables = []
                    rows = iter(tables)
                with self._runs.skipping(query.file.path):
                    for table in rows:
                        if left is not None:
                            left -= table.num_rows
                        yield table
                if left == 0:
                    return

    def _first_rows(self, key: SortKey) -> pa.Table:
        assert self._limit is not None
        with self._runs.reporting() as report:
            search = TopScan(self._table, self._where, self.columns, self.schema, key, self._limit, report)
            return search.rows(is_current=self._runs.starts_with_new_footers())

    def _rows_of_file(
        self,
        open_plan: OpenPlan,
        record: Callable[[FileOutcome], None],
        limit: int | None,
        is_whole: bool,
        runs_at_once: int,
    ) -> Iterator[pa.Table]:
        """Yield the matching rows of a file, without empty tables."""
        query, plan = open_plan.query, open_plan.plan
        pieces: Iterable[Piece]
        if open_plan.pieces is not None:
            pieces = open_plan.pieces
        elif is_whole:
            pieces = [read_whole_file(query)]
        else:
            pieces = read_rows(query, plan, limit, runs_at_once=runs_at_once)
        counts = ReadCounts()
        for piece in pieces:
            if limit is not None:
                piece = piece.head(limit)
                limit -= piece.rows.num_rows
            counts += piece.counts
            record(FileOutcome(plan, counts))
            if piece.rows.num_rows:
                yield self._finish(piece.rows, query)
            if limit == 0:
                return

    def _finish(self, rows: pa.Table, query: FileQuery) -> pa.Table:
        """Return the result's columns in order: those that were read, and the constants."""
        columns = [query.own(column) for column in self.columns]
        return with_constants(rows, query.columns, query.constants, columns, self.schema)


def _to_batches(tables: Iterator[pa.Table]) -> Generator[pa.RecordBatch, None, None]:
    for table in tables:
        yield from to_batches(table)
