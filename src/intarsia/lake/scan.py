"""One question to a table of many files."""

from __future__ import annotations

import contextlib
import time
from collections.abc import Generator, Iterator, Mapping, Sequence
from numbers import Integral

import pyarrow as pa

from intarsia.file import ParquetInput
from intarsia.lake.discovery import TableFile, partition_scalar
from intarsia.lake.table_files import TableFiles
from intarsia.predicate import (
    Bound,
    BoundAnd,
    BoundConstant,
    BoundOr,
    Path,
    Predicate,
    bind,
    evaluate,
    find_column,
)
from intarsia.predicate.bound import conjoin, disjoin
from intarsia.read.aggregate import Aggregate, Totals
from intarsia.read.aggregate.result import ROWS
from intarsia.read.approximate import ApproximateCount, DistinctValues, FileSize, sample_rows
from intarsia.read.file_scan import FileScan
from intarsia.read.output_columns import (
    OutputColumn,
    concat_rows,
    output_columns,
    refuse_repeated,
    repeat_constant,
    type_at,
)
from intarsia.read.report import ScanReport, warn_of_ignored


class Scan:
    """One question to a table, as `Table.scan` makes it; it runs whenever its answer is asked for.

    The rows come by `to_arrow`, by iterating over batches, or go to what reads Arrow streams, as in
    ``polars.DataFrame(scan)`` and ``duckdb.sql("FROM scan")``; ``scan.to_arrow().to_pandas()`` for pandas.

    Attributes:
        columns: The columns of the result.
        schema: The schema of the result.
        report: What the last answer took: what was read and skipped, and why. Complete once all rows were
            taken.

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
        self, table: TableFiles, predicate: Predicate | None, columns: Sequence[str] | None, limit: int | None
    ) -> None:
        self._table = table
        self._limit = limit
        self._where = predicate
        self._predicate: Bound | None = None if predicate is None else bind(predicate, table.schema)
        if columns is None:
            refuse_repeated(table.schema, table.schema.names, table.files[0].path)
        self.columns = output_columns(table.schema, columns)
        fields = [column.field(table.schema) for column in self.columns]
        self.schema = pa.schema(fields, metadata=table.schema.metadata)
        self.report = ScanReport()

    def __repr__(self) -> str:
        names = [column.name for column in self.columns]
        return f"Scan(where={self._where!r}, columns={names}, limit={self._limit})"

    def to_arrow(self) -> pa.Table:
        """Run the scan and gather the rows.

        Raises:
            CorruptFileError: If a file is damaged where it had to be read.
        """
        return pa.Table.from_batches(self._tables_to_batches(whole_files=True), schema=self.schema)

    def __iter__(self) -> Iterator[pa.RecordBatch]:
        """Run the scan; batches come row group by row group."""
        return self._tables_to_batches(whole_files=False)

    def to_reader(self) -> pa.RecordBatchReader:
        """Run the scan as a stream that other libraries take."""
        return pa.RecordBatchReader.from_batches(self.schema, iter(self))

    def __arrow_c_stream__(self, requested_schema: object | None = None) -> object:
        """The Arrow PyCapsule protocol: DuckDB, Polars, pandas and DataFusion read a scan directly."""
        return self.to_reader().__arrow_c_stream__(requested_schema)

    def _tables_to_batches(self, *, whole_files: bool) -> Iterator[pa.RecordBatch]:
        for table in self._tables(whole_files=whole_files):
            yield from table.to_batches()

    def explain(self, *, analyze: bool = False) -> ScanReport:
        """Plan without reading data pages; see `Table.explain`. A limit is left out of account."""
        started = time.perf_counter()
        report = ScanReport(files_total=len(self._table.files), rows_estimated=0.0)
        if not analyze:
            report.rows_matched, report.bytes_planned = None, 0
        for file, plan in self._file_scans(report, self.columns):
            rows = plan.plan()
            plan.tally.rows_estimated = plan.estimate_rows()
            if analyze:
                for _ in plan.batches():
                    pass
            else:
                plan.tally.rows_candidate = rows.num_rows
                plan.plan_pages(rows)
            report.add_file(file, plan.leaves, plan.tally)
        report.seconds = time.perf_counter() - started
        return report

    def count(self) -> int:
        """How many rows match; see `Table.count`.

        Raises:
            ValueError: If the scan has a limit.
        """
        return int(self.aggregate({ROWS: "count"})[ROWS]["count"])

    def aggregate(self, functions: Mapping[str, Sequence[str] | str]) -> Aggregate:
        """Count, add up or find the extremes of the rows that match; see `Table.aggregate`.

        Args:
            functions: For each column of the table, whether the scan has it or not, what is asked of it.

        Raises:
            ValueError: If a function is unknown, the column's type has none such, or the scan has a limit.
            ColumnNotFoundError: If a column is not there; near matches are named.
        """
        self._refuse_limit()
        columns = output_columns(self._table.schema, [name for name in functions if name != ROWS])
        totals = Totals(functions, columns)
        for _, plan in self._each_file(columns):
            totals.add_file(plan)
        return Aggregate(totals.values(), self.report)

    def approx_distinct(self, column: str) -> ApproximateCount:
        """About how many distinct values a column of the table has in the rows that match.

        See `Table.approx_distinct`.

        Raises:
            ValueError: If the scan has a limit.
            ColumnNotFoundError: If the column is not there; near matches are named.
            UnsupportedFeatureError: If values of its type are not counted.
        """
        self._refuse_limit()
        asked = self._one_column(column)
        values = DistinctValues(asked)
        estimate, lower, upper = values.count(self._each_file([asked]))
        return ApproximateCount(estimate, lower, upper, tuple(values.unindexed), self.report)

    def sketches(self, column: str, lg_config_k: int = 12) -> pa.Table:
        """A HyperLogLog sketch of each file's distinct values in the rows that match; see `Table.sketches`.

        Raises:
            ValueError: If the scan has a limit, or ``lg_config_k`` is none.
            ColumnNotFoundError: If the column is not there; near matches are named.
            UnsupportedFeatureError: If values of its type are not counted.
        """
        self._refuse_limit()
        asked = self._one_column(column)
        values = DistinctValues(asked, lg_config_k)
        paths, sketches = [], []
        for file, plan in self._each_file([asked]):
            paths.append(file.path)
            sketches.append(values.of_file(file, plan).to_sketch()[0])
        return pa.table({"path": pa.array(paths, pa.string()), "sketch": pa.array(sketches, pa.binary())})

    def _one_column(self, name: str) -> OutputColumn:
        if not isinstance(name, str):
            raise TypeError(f"one column is asked for, by its name; this is {name!r}")
        (column,) = output_columns(self._table.schema, [name])
        return column

    def _refuse_limit(self) -> None:
        if self._limit is not None:
            raise ValueError(f"this is about all rows, and the scan has limit={self._limit}; scan without")

    def _each_file(
        self, columns: Sequence[OutputColumn]
    ) -> Generator[tuple[ParquetInput, FileScan], None, None]:
        """Each file that is to be asked, in order, and the scan of it; what is read goes into `report`."""
        started = time.perf_counter()
        self.report = report = ScanReport(files_total=len(self._table.files))
        try:
            for file, plan in self._file_scans(report, columns):
                try:
                    yield file, plan
                finally:
                    report.add_file(file, plan.leaves, plan.tally)
        finally:
            report.seconds = time.perf_counter() - started
            warn_of_ignored(report)

    def sample(self, n: int | None = None, seed: int | None = None) -> pa.Table:
        """Rows drawn as by `Table.sample`; `report` then tells what was read of data, and how many rows.

        Raises:
            ValueError: If ``n`` or ``seed`` is negative, or the scan has a condition or a limit.
            TypeError: If ``n`` or ``seed`` is no whole number.
        """
        if self._predicate is not None or self._limit is not None:
            raise ValueError("a sample is of all rows: scan without where and limit")
        for name, number in (("n", n), ("seed", seed)):
            if number is not None and not isinstance(number, Integral):
                raise TypeError(f"{name} is {number!r}; it must be a whole number, or None")
            if number is not None and number < 0:
                raise ValueError(f"{name} is {number}; it must be 0 or more")
        sizes, num_bytes, requests = [], 0, 0
        for entry in self._table.files:
            with ParquetInput(entry.open()) as file:
                sizes.append(FileSize.of(file))
                num_bytes += file.source.counts.bytes
                requests += file.source.counts.requests
        pieces = list(sample_rows(sizes, self._each_file(self.columns), n, seed, self._finish))
        self.report.bytes_read += num_bytes
        self.report.requests += requests
        return concat_rows([pa.Table.from_batches([], self.schema), *pieces])

    def _tables(self, *, whole_files: bool) -> Iterator[pa.Table]:
        left = self._limit
        with contextlib.closing(self._each_file(self.columns)) as files:
            for _, plan in files:
                if plan.predicate is None and whole_files and left is None:
                    pieces: Iterator[pa.Table] = iter([plan.read_all()])
                else:
                    pieces = plan.batches(left)
                for piece in pieces:
                    if left is not None:
                        left -= piece.num_rows
                    yield self._finish(piece, plan)
                if left == 0:
                    return

    def _file_scans(
        self, report: ScanReport, columns: Sequence[OutputColumn]
    ) -> Iterator[tuple[ParquetInput, FileScan]]:
        """Each file that its partition values do not exclude, opened, and the scan of it."""
        for entry in self._table.files:
            constants = self._partition_constants(entry)
            excluded_by = self._excluding_column(constants)
            if excluded_by is not None:
                report.add_unopened(entry.size_bytes, excluded_by)
                continue
            with self._table.open_file(entry) as file:
                constants |= self._missing_constants(file, columns, constants)
                with file.named_errors():
                    scan = FileScan(file, self._predicate, columns, constants)
                yield file, scan

    def _partition_constants(self, entry: TableFile) -> dict[Path, pa.Scalar]:
        kinds = self._table.partition_types
        return {(name,): partition_scalar(value, kinds[name]) for name, value in entry.partition}

    def _excluding_column(self, constants: dict[Path, pa.Scalar]) -> str | None:
        """The partition columns that alone show that no row of a file matches, if they do."""
        if self._predicate is None:
            return None
        known = _assume_true(self._predicate, set(constants))
        columns = {path: pa.array([value.as_py()], value.type) for path, value in constants.items()}
        if evaluate(known, columns, 1)[0].as_py():
            return None
        return ", ".join(sorted(".".join(path) for path in known.paths())) or "constant"

    def _missing_constants(
        self, file: ParquetInput, columns: Sequence[OutputColumn], known: dict[Path, pa.Scalar]
    ) -> dict[Path, pa.Scalar]:
        """Nulls for the columns that this file does not have."""
        wanted: dict[Path, pa.DataType] = {column.path: column.type for column in columns}
        if self._predicate is not None:
            for path in self._predicate.paths():
                wanted.setdefault(path, find_column(self._table.schema, path)[1])
        refuse_repeated(file.arrow_schema, {path[0] for path in wanted if path not in known}, file.path)
        return {
            path: pa.scalar(None, kind)
            for path, kind in wanted.items()
            if path not in known and type_at(file.arrow_schema, path) is None
        }

    def _finish(self, piece: pa.Table, plan: FileScan) -> pa.Table:
        """The result's columns in order: those read, and the constants."""
        read = dict(zip([column.path for column in plan.columns], piece.columns, strict=True))
        arrays = []
        for column, field in zip(self.columns, self.schema, strict=True):
            if column.path in read:
                array = read[column.path]
            else:
                array = repeat_constant(plan.constants[column.path], piece.num_rows, field.type)
            arrays.append(array)
        if not arrays:
            return piece
        return pa.Table.from_arrays(arrays, schema=self.schema)


def _assume_true(node: Bound, known: set[Path]) -> Bound:
    """The predicate with every leaf replaced by TRUE whose column is not known."""
    if isinstance(node, BoundAnd):
        return conjoin([_assume_true(child, known) for child in node.children])
    if isinstance(node, BoundOr):
        return disjoin([_assume_true(child, known) for child in node.children])
    if isinstance(node, BoundConstant) or node.path in known:
        return node
    return BoundConstant(True)
