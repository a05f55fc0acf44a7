"""One query to a table of many files."""

from __future__ import annotations

import contextlib
import time
from collections import deque
from collections.abc import Generator, Iterator, Sequence
from dataclasses import replace
from functools import partial
from html import escape
from importlib import import_module
from typing import TYPE_CHECKING, Any, NoReturn

import pyarrow as pa

from intarsia.ahead import ahead
from intarsia.arrow.nested import with_leaves
from intarsia.arrow.owned_rows import no_rows, to_batches
from intarsia.errors import FormatError, UnsupportedFeatureError
from intarsia.lake.binding import TableBinder
from intarsia.lake.first_rows import FirstRows
from intarsia.lake.planning import Ahead, IsAlone, OpenPlan, PlannedPart
from intarsia.lake.query_run import OnError, QueryRun
from intarsia.lake.scan_arguments import OrderBy, check_number, parse_order
from intarsia.lake.snapshot import Snapshot
from intarsia.lake.split import Split, SplitQuery, file_identity, make_splits
from intarsia.lake.table_files import TableFiles
from intarsia.predicate import Predicate
from intarsia.read.aggregate import ROWS, Aggregate, Requested, requested_functions
from intarsia.read.approximate import ApproximateCount, DistinctValues, FileSize, RowSample
from intarsia.read.counts import ReadCounts
from intarsia.read.file_plan import count_planned, estimate_rows
from intarsia.read.file_rows import LOCATIONS, FileOutcome, locate_rows, read_rows
from intarsia.read.output_columns import (
    OutputColumn,
    concat_rows,
    output_columns,
    refuse_repeated,
)
from intarsia.read.report import Hints, ScanReport, warn_of_failed
from intarsia.read.totals import Totals
from intarsia.read.trace import QueryTrace
from intarsia.read.value_counts import ValueCounts
from intarsia.storage.local import refuse_other_names
from intarsia.tuning import RUNS_AT_ONCE

if TYPE_CHECKING:
    import duckdb
    import pandas as pd
    import polars as pl

    from intarsia.picture import PageMap


class Scan:
    """One query of a table, made by `Table.scan`; it runs each time that its result is requested.

    Each run checks whether the objects in a store have changed, and reads their current version. The first
    run omits this check for the footers that `Table.scan` has just read.

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
        snapshot: Snapshot | None = None,
        *,
        is_traced: bool = False,
    ) -> None:
        self._table = table
        self._is_traced = is_traced
        self._arguments = (table, predicate, columns, limit, order_by, on_error)
        # the first run includes the reads for the schema, and does not request these footers again
        self._snapshot: Snapshot | None = snapshot or table.new_snapshot(is_traced=is_traced)
        self._limit = limit
        self._on_error = on_error
        self._where = predicate
        table_schema = table.read_schema(self._snapshot).schema
        if columns is None:
            refuse_repeated(table_schema, table_schema.names, table.name)
        self.columns = output_columns(table_schema, columns)
        self._binder = TableBinder(table, predicate, self.columns)
        self.schema = table_schema
        if columns is not None:
            fields = [column.field(table_schema) for column in self.columns]
            self.schema = pa.schema(fields, metadata=table_schema.metadata)
        self._key = None if order_by is None else parse_order(order_by, table_schema)
        self._run = self._new_run(self._snapshot)

    def __dir__(self) -> list[str]:
        """List the attributes, without the methods that only other parts of Intarsia call."""
        return sorted({*super().__dir__()} - {"read_ahead", "refuse_unknown_types", "totals"})

    def _new_run(self, snapshot: Snapshot | None = None, **fields: Any) -> QueryRun:
        if snapshot is None:
            snapshot = self._snapshot or self._table.new_snapshot(is_traced=self._is_traced)
            self._snapshot = None
            snapshot.start()
            if self._run.snapshot is snapshot and not fields:
                return self._run  # it was made for the report of a scan that has not run
        ranges, trace = snapshot.reads.ranges, None
        if self._is_traced and ranges is not None:
            from intarsia.lake.page_map import page_map

            names = None if self._arguments[2] is None else [column.name for column in self.columns]
            where = "" if self._where is None else str(self._where)
            trace = QueryTrace(ranges, partial(page_map, self._table, where, names))
        return QueryRun(
            self._table,
            self._binder,
            snapshot,
            is_limited=self._limit is not None,
            on_error=self._on_error,
            trace=trace,
            **fields,
        )

    @contextlib.contextmanager
    def _running(self) -> Iterator[QueryRun]:
        """Run the scan within the block, and report it."""
        self._run = run = self._new_run()
        with run.snapshot.running(), run.reporting():
            yield run

    def _in_steps(self, *, runs_at_once: int) -> Generator[pa.RecordBatch, None, None]:
        run = self._new_run()

        def batches() -> Generator[pa.RecordBatch, None, None]:
            self._run = run
            with run.reporting():
                yield from self._batches(run, whole_files=False, runs_at_once=runs_at_once)

        return run.snapshot.in_steps(batches())

    def __reduce__(self) -> tuple[Any, ...]:
        return partial(type(self), is_traced=self._is_traced), self._arguments

    @property
    def report(self) -> ScanReport:
        """What the last run read and skipped, and why. Complete when all rows have been consumed."""
        return self._run.report

    def __repr__(self) -> str:
        names = [column.name for column in self.columns]
        keys = [] if self._key is None else [column.name for column in self._key.columns]
        order = f", order_by={keys}" if keys else ""
        return f"Scan(where={self._where!r}, columns={names}{order}, limit={self._limit})"

    def _repr_html_(self) -> str:
        """Return the condition and the report of the last run; a scan is not run to be shown."""
        shown = f"<pre>{escape(repr(self))}</pre>"
        return shown + (self.report._repr_html_() if self.report.files_opened else "")

    def to_arrow(self) -> pa.Table:
        """Run the scan and collect the rows.

        Raises:
            CorruptFileError: If a part of a file that has to be read is damaged, and bad files are not
                skipped.
        """
        with self._running() as run:
            batches = self._batches(run, whole_files=True, runs_at_once=RUNS_AT_ONCE)
            return pa.Table.from_batches(batches, schema=self.schema)

    def __iter__(self) -> Iterator[pa.RecordBatch]:
        """Run the scan, and yield batches row group by row group."""
        # a caller that takes one batch after the other may stop early
        return self._in_steps(runs_at_once=1)

    def read_ahead(self) -> Generator[pa.RecordBatch, None, None]:
        """Run the scan, and yield batches as iterating does, while the next row group is being read.

        This is for engines, which usually take all batches.
        """
        return self._in_steps(runs_at_once=RUNS_AT_ONCE)

    def to_pylist(self) -> list[dict[str, Any]]:
        """Run the scan and return the rows as Python objects.

        Returns:
            A dict for each row, with the values of ``pyarrow.Table.to_pylist``.

        Raises:
            CorruptFileError: If a part of a file that has to be read is damaged.

        Example:
            >>> import intarsia as ia, pyarrow as pa, pyarrow.parquet as pq, tempfile, os
            >>> path = os.path.join(tempfile.mkdtemp(), "t.parquet")
            >>> pq.write_table(pa.table({"x": range(1000)}), path)
            >>> ia.open(path).scan("x < 2").to_pylist()
            [{'x': 0}, {'x': 1}]
        """
        rows: list[dict[str, Any]] = self.to_arrow().to_pylist()
        return rows

    def to_pandas(self, **options: Any) -> pd.DataFrame:
        """Run the scan and collect the rows in a pandas DataFrame.

        Args:
            **options: Options of ``pyarrow.Table.to_pandas``, such as ``types_mapper=pandas.ArrowDtype``.

        Raises:
            ModuleNotFoundError: If pandas is not installed; it is not a dependency of Intarsia.
            CorruptFileError: If a part of a file that has to be read is damaged.

        Example:
            >>> import intarsia as ia, pyarrow as pa, pyarrow.parquet as pq, tempfile, os
            >>> path = os.path.join(tempfile.mkdtemp(), "t.parquet")
            >>> pq.write_table(pa.table({"x": range(1000)}), path)
            >>> ia.open(path).scan("x < 3").to_pandas()["x"].sum().item()
            3
        """
        _import_for("to_pandas", "pandas")
        return self.to_arrow().to_pandas(**options)

    def to_polars(self, **options: Any) -> pl.DataFrame:
        """Run the scan and collect the rows in a Polars DataFrame.

        `intarsia.polars.scan` returns a LazyFrame instead, to which Polars pushes columns and predicates.

        Args:
            **options: Options of ``polars.from_arrow``, such as ``schema_overrides``.

        Raises:
            ModuleNotFoundError: If Polars is not installed; it is not a dependency of Intarsia.
            CorruptFileError: If a part of a file that has to be read is damaged.
            UnsupportedFeatureError: If Polars has no type for a column.

        Example:
            >>> import intarsia as ia, pyarrow as pa, pyarrow.parquet as pq, tempfile, os
            >>> path = os.path.join(tempfile.mkdtemp(), "t.parquet")
            >>> pq.write_table(pa.table({"x": range(1000)}), path)
            >>> ia.open(path).scan("x < 3").to_polars()["x"].sum()
            3
        """
        library, rows = _import_for("to_polars", "polars"), self.to_arrow()
        check_polars_types(rows.schema)
        frame: pl.DataFrame = library.from_arrow(rows, **options)
        return frame

    def to_duckdb(self, connection: duckdb.DuckDBPyConnection | None = None) -> duckdb.DuckDBPyRelation:
        """Run the scan and collect the rows in a DuckDB relation, which can be queried repeatedly.

        `Table.dataset` lets DuckDB push columns and filters instead.

        Args:
            connection: The connection of the relation; None for DuckDB's default connection.

        Raises:
            ModuleNotFoundError: If DuckDB is not installed; it is not a dependency of Intarsia.
            CorruptFileError: If a part of a file that has to be read is damaged.

        Example:
            >>> import intarsia as ia, pyarrow as pa, pyarrow.parquet as pq, tempfile, os
            >>> path = os.path.join(tempfile.mkdtemp(), "t.parquet")
            >>> pq.write_table(pa.table({"x": range(1000)}), path)
            >>> ia.open(path).scan("x < 3").to_duckdb().aggregate("sum(x)").fetchall()
            [(3,)]
        """
        library = _import_for("to_duckdb", "duckdb")
        return (library if connection is None else connection).from_arrow(self.to_arrow())

    def to_reader(self) -> pa.RecordBatchReader:
        """Run the scan as a stream of batches for other libraries."""
        return pa.RecordBatchReader.from_batches(self.schema, self.read_ahead())

    def __arrow_c_stream__(self, requested_schema: object | None = None) -> object:
        """Implement the Arrow PyCapsule protocol, which DuckDB, Polars, pandas and DataFusion read."""
        return self.to_reader().__arrow_c_stream__(requested_schema)

    def __array__(self, *_: object, **__: object) -> NoReturn:
        """Raise an error: ``pandas.DataFrame(scan)`` would have one row for each batch.

        Raises:
            TypeError: Always.
        """
        raise TypeError(
            "rows with columns of several types are not a NumPy array; for a pandas DataFrame use "
            "to_pandas(), for arrays to_arrow()['column'].to_numpy()"
        )

    def explain(self, *, analyze: bool = False) -> ScanReport:
        """Plan without reading data pages; see `Table.explain`. The limit is ignored."""
        started, hints = time.perf_counter(), Hints()
        matched, planned = (0, None) if analyze else (None, 0)
        run = self._new_run(rows_estimated=0.0, rows_matched=matched, bytes_planned=planned)

        def add(opened: OpenPlan) -> FileOutcome:
            query, plan = opened.query, opened.plan
            estimate, index_bytes = estimate_rows(query, plan)
            counts = ReadCounts(index_bytes=index_bytes)
            if analyze:
                pieces = read_rows(query, plan, runs_at_once=RUNS_AT_ONCE)
                counts = sum((piece.counts for piece in pieces), counts)
            else:
                counts += count_planned(query, plan.candidates)
            hints.add(query, plan)
            return FileOutcome(plan, counts, rows_estimated=estimate)

        with run.snapshot.running():
            run.for_each_file(None, add, does=Ahead.PLAN, is_alone=self._is_enumerated)
            num_opened, has_lake_index = run.report.files_opened, self._table.lake_index.exists
            run.report.advise(hints.best(num_opened, has_lake_index=has_lake_index))
        report = run.report
        report.add_time(started)
        warn_of_failed(report.files_failed)
        return report

    def map(self, aggregate: Requested | None = None) -> PageMap:
        """Run the scan, and return a picture of the pages that the run read and skipped.

        The run begins with empty caches, so that all reads are shown. For a picture of a run with warm
        caches, scan with ``trace=True`` and call `ScanReport.map`. In a notebook, the result shows itself.
        `PageMap.save` writes a page with more facts.

        Args:
            aggregate: Aggregates to compute instead of reading the rows, as for `aggregate`.

        Raises:
            CorruptFileError: If a part of a file that has to be read is damaged.
            ReplacedWhileReadError: If a file is replaced meanwhile.

        Example:
            >>> import intarsia as ia, pyarrow as pa, pyarrow.parquet as pq, tempfile, os
            >>> path = os.path.join(tempfile.mkdtemp(), "t.parquet")
            >>> pq.write_table(pa.table({"x": range(1000)}), path, row_group_size=500)
            >>> found = ia.open(path).scan("x < 3").map()
            >>> [(lane.name, lane.num_pages, lane.by_state) for lane in found.facts.files[0].lanes]
            [('x', 2, [1, 0, 0, 1])]
            >>> [state.text for state in found.facts.files[0].states]
            ['read', 'proven by an index, not read', 'not needed', 'skipped by statistics of x']
        """
        table, *others = self._arguments
        arguments: list[Any] = [table.part(range(len(table.files))), *others]
        scan = Scan(*arguments, is_traced=True)
        if aggregate is None:
            deque(scan.read_ahead(), maxlen=0)
        else:
            scan.aggregate(aggregate)
        return scan.report.map()

    def plan(self, split_bytes: int | None = None) -> list[Split]:
        """Return the scan as splits that any process can read; see `Table.plan`.

        Raises:
            ValueError: If the scan has a limit, or ``split_bytes`` is not positive.
        """
        self._refuse_limit()
        check_number("split_bytes", split_bytes, 1)
        splits: list[Split] = []
        files = partial(QueryRun.planned_files, does=Ahead.PLAN, is_alone=lambda _: False)
        with self._running() as run, contextlib.closing(files(run)) as found:
            for opened in found:
                query = opened.query
                here = query.file.arrow_schema if query.names is None else query.names.schema
                view, names = self._binder.view(here), self._binder.names_of(query.names)
                with query.file.named_errors():
                    for file in opened.files():
                        shared = SplitQuery(
                            replace(file.entry.as_opened(file.identity), deletes=None),
                            file_identity(file.metadata),
                            self._where,
                            view,
                            tuple(self.columns),
                            self.schema,
                            file.constants,
                            names,
                            file.entry.deleted_rows(file.metadata.footer.num_rows),
                        )
                        edges = file.metadata.footer.row_group_starts
                        splits += make_splits(shared, edges, file.sizes, file.rows, split_bytes)
                    opened.record(FileOutcome(opened.plan, count_planned(query, opened.plan.candidates)))
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
        values = self.totals(functions).values()
        if self._run.trace is not None:
            self._run.trace.add_aggregates(values)
        return Aggregate(values, self.report)

    def totals(self, requested: Requested) -> Totals:
        """Compute aggregates as `aggregate` does, in a form that can be merged with those of other files."""
        self._refuse_limit()
        schema = self._table.schema
        functions = requested_functions(requested, schema.names)
        columns = output_columns(schema, [name for name in functions if name != ROWS])
        totals = Totals(functions, columns)
        with self._running() as run:
            run.for_each_file(
                columns,
                lambda found: totals.add_file(found.query, found.plan, found.pieces),
                totals=totals,
                does=Ahead.READ,
                # its own indexes count the certain rows of a file, or it may be skipped
                is_alone=lambda part: part.has_certain and self._is_enumerated(part),
            )
        return totals

    def refuse_unknown_types(self) -> None:
        """Refuse columns whose logical types a new file with the rows would lack; see `FileSchema`.

        Raises:
            UnsupportedFeatureError: If a file has such a column.
        """
        table, columns = self._table, {column.path[0] for column in self.columns}
        # the run of the rows continues with this snapshot, so its report has these reads
        snapshot = self._snapshot = self._snapshot or table.new_snapshot()
        schemas = ahead(snapshot.cached_schema, table.files, table.footers_at_once)
        with snapshot.running(), contextlib.closing(schemas):
            for entry, future in schemas:
                try:
                    schema = future.result()
                    names = table.names_in(schema, entry.path)
                except (FormatError, FileNotFoundError):  # the scan raises it, or skips the file
                    continue
                own = columns if names is None else {names.path((name,))[0] for name in columns}
                schema.refuse_unknown_types(entry.path, own)

    def locate(self, column: str | None = None) -> pa.Table:
        """Return the locations of the rows that match; see `Table.locate`.

        Raises:
            ValueError: If the scan has a limit.
            ColumnNotFoundError: If the table has no such column; the message suggests similar names.
        """
        if column is None:
            partition = self._table.partition_types
            names = self._table.schema.names
            column = next((name for name in names if name not in partition), names[0])
        numbered = self._one_column(column)
        found = [LOCATIONS.empty_table()]

        def add(opened: OpenPlan) -> FileOutcome:
            locations, outcome = locate_rows(opened.query, opened.plan, numbered)
            found.append(locations)
            return outcome

        with self._running() as run:
            run.for_each_file([], add, is_alone=lambda _: self._on_error == "skip")
        return pa.concat_tables(found)

    def approx_distinct(self, column: str) -> ApproximateCount:
        """Estimate the number of distinct values of a column in the rows that match.

        See `Table.approx_distinct`.

        Raises:
            ValueError: If the scan has a limit.
            ColumnNotFoundError: If the table has no such column; the message suggests similar names.
            UnsupportedFeatureError: If distinct values of its type cannot be counted.
        """
        queried = self._one_column(column)
        values = DistinctValues(queried)

        def is_alone(part: PlannedPart) -> bool:
            query = part.axis.query
            return self._is_enumerated(part) or query.own(queried).path in query.constants

        with self._running() as run:
            run.for_each_file(
                [queried], lambda found: values.add_file(found.query, found.plan), is_alone=is_alone
            )
        return ApproximateCount(*values.count(), tuple(values.unindexed), self.report)

    def count_distinct(self, column: str) -> int:
        """Count the distinct values of a column in the rows that match; see `Table.count_distinct`.

        Raises:
            ValueError: If the scan has a limit.
            ColumnNotFoundError: If the table has no such column; the message suggests similar names.
            UnsupportedFeatureError: If values of its type cannot be counted.
        """
        return self._values_of(column, counted=False).count_distinct()

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
        check_number("limit", limit)
        return self._values_of(column, counted=True).most_common(limit)

    def _values_of(self, column: str, *, counted: bool) -> ValueCounts:
        queried = self._one_column(column)
        values = ValueCounts(queried, counted=counted)
        with self._running() as run:
            run.for_each_file(
                [queried],
                lambda found: values.add_file(found.query, found.plan),
                is_alone=self._is_enumerated,
            )
        return values

    def _is_enumerated(self, part: PlannedPart) -> bool:
        """Return whether facts about a file may be known from its own indexes, or it may be skipped."""
        return part.has_indexes or self._on_error == "skip"

    def sketches(self, column: str, lg_config_k: int = 12) -> pa.Table:
        """Return a HyperLogLog sketch of the rows that match for each file; see `Table.sketches`.

        Raises:
            ValueError: If the scan has a limit, or ``lg_config_k`` is out of range.
            ColumnNotFoundError: If the table has no such column; the message suggests similar names.
            UnsupportedFeatureError: If distinct values of its type cannot be counted.
        """
        queried = self._one_column(column)
        values = DistinctValues(queried, lg_config_k)
        paths, sketches = [], []

        def add(opened: OpenPlan) -> FileOutcome:
            counter, outcome = values.of_file(opened.query, opened.plan)
            sketches.append(counter.to_sketch()[0])
            paths.append(opened.entry.path)
            return outcome

        with self._running() as run:
            run.for_each_file([queried], add)
        refuse_other_names(paths)
        return pa.table({"path": pa.array(paths, pa.string()), "sketch": pa.array(sketches, pa.binary())})

    def _one_column(self, name: str) -> OutputColumn:
        self._refuse_limit()
        if not isinstance(name, str):
            raise TypeError(f"the column is {name!r}; pass one column name")
        (column,) = output_columns(self._table.schema, [name])
        return column

    def _refuse_limit(self) -> None:
        if self._limit is not None:
            raise ValueError(
                f"the scan has limit={self._limit}, but this method needs all rows; scan without a limit"
            )

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
            check_number(name, number)
        if self._on_error != "raise":
            raise ValueError("a sample is drawn from all files; use a scan without on_error")
        with self._running() as run:
            opened = self._table.opened(run.snapshot)
            sizes = [FileSize.of(file, entry.deleted_rows(file.footer.num_rows)) for entry, file in opened]
            sample = RowSample(sizes, n, seed, self.columns, self.schema)
            run.for_each_file(self.columns, lambda found: sample.add_file(found.query, found.plan))
        return concat_rows([no_rows(self.schema), *sample.pieces])

    def _batches(
        self, run: QueryRun, *, whole_files: bool, runs_at_once: int
    ) -> Generator[pa.RecordBatch, None, None]:
        trace = run.trace
        if trace is not None:
            trace.expect_rows(all_matches=self._key is None)
        if self._key is not None:
            assert self._limit is not None
            first = FirstRows(
                self._table,
                self._where,
                self.columns,
                self.schema,
                self._key,
                self._limit,
                run.report,
                run.snapshot,
            ).rows()
            if trace is not None:
                trace.add_rows(first.num_rows)
            yield from to_batches(first)
            return
        left = self._limit
        # a caller that may stop early gets the rows of one file after the other
        does = Ahead.READ if runs_at_once > 1 else Ahead.FETCH
        is_alone: IsAlone | None = None if does is Ahead.FETCH else lambda _: False
        with contextlib.closing(run.planned_files(self.columns, does=does, is_alone=is_alone)) as files:
            for found in files:
                query, path = found.query, found.entry.path
                found.record(FileOutcome(found.plan))
                # pyarrow decodes the columns of one row group in parallel; several runs use the other cores
                is_whole = query.predicate is None and whole_files and left is None
                at_once = max(runs_at_once, 1 + pa.cpu_count()) if is_whole else runs_at_once
                rows = self._rows_of_file(found, left, at_once, trace)
                if whole_files and self._on_error == "skip":
                    # all rows of a file or none
                    tables = []
                    with run.skipping(path):
                        tables = list(rows)
                    if run.report.has_failed(path):
                        found.record(FileOutcome(found.plan))
                        tables = []
                    rows = iter(tables)
                with run.skipping(path):
                    for table in rows:
                        if trace is not None:
                            trace.add_rows(table.num_rows)
                        if left is not None:
                            left -= table.num_rows
                        yield from to_batches(table)
                if left == 0:
                    return

    def _rows_of_file(
        self,
        found: OpenPlan,
        limit: int | None,
        runs_at_once: int,
        trace: QueryTrace | None,
    ) -> Iterator[pa.Table]:
        """Yield the matching rows of a file, without empty tables."""
        query, plan = found.query, found.plan
        pieces, counts = found.pieces, ReadCounts()
        if pieces is None:
            pieces = read_rows(query, plan, limit, runs_at_once=runs_at_once)
        for piece in pieces:
            if limit is not None:
                piece = piece.head(limit)
                limit -= piece.rows.num_rows
            counts += piece.counts
            if trace is not None:
                trace.add_matches(query.file, piece.numbers)
            found.record(FileOutcome(plan, counts))
            if piece.rows.num_rows:
                yield query.result(piece.rows, piece.numbers, self.columns, self.schema)
            if limit == 0:
                return


def check_polars_types(schema: pa.Schema) -> None:
    """Refuse columns with decimals of more than 38 digits, at which Polars panics.

    Raises:
        UnsupportedFeatureError: If there is such a column.
    """
    for column in schema:

        def check(data_type: pa.DataType, column: pa.Field = column) -> pa.DataType:
            if pa.types.is_decimal256(data_type):
                raise UnsupportedFeatureError(
                    f"column {column.name!r} of type {column.type} has no type in Polars, whose decimals "
                    "have at most 38 digits; leave the column out, as in table.scan(columns=[…]).to_polars()",
                    reason="no-polars-type",
                    column=column.name,
                )
            return data_type

        with_leaves(column.type, check)


def _import_for(method: str, name: str) -> Any:
    """Return the library that a method needs; the error says how to install it."""
    try:
        return import_module(name)
    except ModuleNotFoundError as error:
        raise ModuleNotFoundError(
            f"{method}() needs {name}, which is not installed; install it (pip install {name}), or use "
            "to_arrow()",
            name=error.name,
        ) from error
