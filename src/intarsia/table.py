"""Many files as one table: `open`, `Table`, `Scan`."""

from __future__ import annotations

import os
import time
import warnings
from collections.abc import Iterable, Iterator, Mapping, Sequence
from functools import cached_property

import pyarrow as pa

from intarsia.aggregate import Aggregate, Totals
from intarsia.approximate import ApproximateCount, DistinctValues, FileSize, sample_rows
from intarsia.discovery import TableFile, find_files, partition_scalar, partition_types
from intarsia.errors import IntarsiaWarning, UnsupportedFeatureError
from intarsia.file import ParquetInput
from intarsia.predicate import Bound, Path, Predicate, Where, bind, evaluate, find_column, parse_predicate
from intarsia.scan import FileScan, OutputColumn
from intarsia.tally import ScanReport, reasons_by_file


def open(
    source: str | os.PathLike[str] | Sequence[str | os.PathLike[str]], *, distinct_index: str | None = None
) -> Table:
    """Open a Parquet file or a lake of them.

    Args:
        source: A file, a folder, a glob, or a list of these; a local path or a URL. Folders named
            ``column=value`` become partition columns.
        distinct_index: The column (dotted if it is nested) whose distinct values other programs laid into
            the files in the form of DataFusion's example, under the footer key ``distinct_index_offset``.
            Nothing in such a file says what column they are of, and nothing shows that they are not of an
            earlier version of the file, where a writer copied the key together with the bytes: files are
            skipped by them on your word. A key that leads to anything else is noticed, and ignored with
            a warning. What `Distinct` wrote is used without being named.

    Returns:
        A table; nothing but the listing was read.

    Raises:
        FileNotFoundError: If nothing is there.

    Example:
        >>> import intarsia as ia, pyarrow as pa, pyarrow.parquet as pq, tempfile, os
        >>> path = os.path.join(tempfile.mkdtemp(), "t.parquet")
        >>> pq.write_table(pa.table({"x": range(1000)}), path)
        >>> ia.open(path).scan(where="x = 42").to_arrow().to_pylist()
        [{'x': 42}]
    """
    return Table(find_files(source), distinct_index=distinct_index)


class Table:
    """Parquet files as one table.

    The schema is that of the first file, with the partition columns at its end, as in
    ``pyarrow.parquet.read_table``. A column that another file lacks is null there; one that has
    another type there is cast.

    Args:
        files: The files, at least one.
        distinct_index: See `open`.
    """

    def __init__(self, files: Sequence[TableFile], *, distinct_index: str | None = None) -> None:
        self.files = tuple(files)
        self.distinct_index = distinct_index

    @cached_property
    def partition_types(self) -> dict[str, pa.DataType]:
        """Type of each partition column."""
        return partition_types(self.files)

    @cached_property
    def schema(self) -> pa.Schema:
        """The schema; reads the first file's footer."""
        with ParquetInput(self.files[0].open()) as first:
            schema = first.arrow_schema
        for name, kind in self.partition_types.items():
            field = pa.field(name, pa.dictionary(pa.int32(), kind))
            place = schema.get_field_index(name)
            schema = schema.append(field) if place < 0 else schema.set(place, field)
        return schema

    def scan(
        self, where: Where = None, columns: Sequence[str] | None = None, limit: int | None = None
    ) -> Scan:
        """A scan, not yet run.

        Args:
            where: SQL text such as ``"user = 42 AND country IN ('Singapore')"``, pyarrow's
                ``[("user", "=", 42)]`` form, or a `Predicate`; None for all rows.
            columns: Columns of the result; a dotted path is a field of a struct. None for all.
            limit: At most so many rows.

        Raises:
            PredicateError: If ``where`` cannot be understood, or compares what cannot be compared.
            ColumnNotFoundError: If a column is not there; near matches are named.
        """
        if limit is not None and limit < 0:
            raise ValueError(f"limit is {limit}; it must be 0 or more")
        return Scan(self, parse_predicate(where), columns, limit)

    def explain(
        self, where: Where = None, columns: Sequence[str] | None = None, *, analyze: bool = False
    ) -> ScanReport:
        """What a scan would read, what each index excludes, and about how many rows match.

        Where a predicate's rows are only known once its columns are read, the pages of the other columns
        are those of all candidate rows: an upper bound. So is ``bytes.planned``, what reading them takes;
        ``bytes.read`` is what planning took. ``rows.estimated`` is what histograms and samples say, or None.

        Args:
            where: As for `scan`.
            columns: As for `scan`.
            analyze: Run the scan, too, and drop its rows: then what was read stands beside the estimate.
                Without it no data page is read, and ``rows.matched`` is None.
        """
        return self.scan(where, columns).explain(analyze=analyze)

    def count(self, where: Where = None) -> int:
        """How many rows match.

        Rows that indexes show to match are not read; without ``where`` only footers are.

        Args:
            where: As for `scan`.

        Raises:
            PredicateError: If ``where`` cannot be understood, or compares what cannot be compared.
            ColumnNotFoundError: If a column is not there; near matches are named.

        Example:
            >>> import intarsia as ia, pyarrow as pa, pyarrow.parquet as pq, tempfile, os
            >>> path = os.path.join(tempfile.mkdtemp(), "t.parquet")
            >>> pq.write_table(pa.table({"x": range(1000)}), path)
            >>> ia.open(path).count("x < 42")
            42
        """
        rows = self.aggregate({"*": ["count"]}, where)["*"]["count"]
        return int(rows)

    def aggregate(self, functions: Mapping[str, Sequence[str] | str], where: Where = None) -> Aggregate:
        """Count, add up or find the extremes of the rows that match, as SQL does.

        Nulls are ignored, and ``sum``, ``min``, ``max`` and ``avg`` of nothing are None. NaN is greater than
        every number, and a sum with NaN is NaN. Integers and decimals are added exactly; ``avg`` of integers
        is a float, of decimals a ``Decimal`` with four digits more, halves rounded away from zero. Floats are
        added in double precision, pairwise within pieces that depend on what is read and what indexes tell:
        the result may differ from another sum of the same rows in the last digits.

        Row groups and granules that match as a whole are answered from statistics and `ZoneMap` indexes, so
        that only the pages at the edges are read. `explain` tells what a scan of the same columns would read.

        Args:
            functions: For each column (dotted if it is nested), of ``"count"`` (rows where it is not null),
                ``"sum"``, ``"min"``, ``"max"`` and ``"avg"``; ``"*"`` has ``"count"`` alone, and counts rows.
            where: As for `scan`.

        Returns:
            A ``dict`` with Python's values, which also has the ``report``. A value that Python cannot hold
            (nanoseconds) stays a pyarrow scalar.

        Raises:
            ValueError: If a function is unknown, or the column's type has none such.
            PredicateError: If ``where`` cannot be understood, or compares what cannot be compared.
            ColumnNotFoundError: If a column is not there; near matches are named.

        Example:
            >>> import intarsia as ia, pyarrow as pa, pyarrow.parquet as pq, tempfile, os
            >>> path = os.path.join(tempfile.mkdtemp(), "t.parquet")
            >>> pq.write_table(pa.table({"x": range(1000), "y": [1, None] * 500}), path)
            >>> table = ia.open(path)
            >>> table.aggregate({"x": ["sum", "max"], "y": ["count", "avg"]}, where="x < 100")
            {'x': {'sum': 4950, 'max': 99}, 'y': {'count': 50, 'avg': 1.0}}
            >>> answer = table.aggregate({"x": ["min", "max"]})
            >>> answer["x"], answer.report.row_groups_read
            ({'min': 0, 'max': 999}, 0)
        """
        return self.scan(where, [name for name in functions if name != "*"])._aggregate(functions)

    def approx_distinct(self, column: str, where: Where = None) -> ApproximateCount:
        """About how many distinct values a column has; null is none.

        Sketches of `Hll` indexes are added up, and only what they do not cover is read: files without one,
        and with ``where`` the granules of which not every row is known to match. Of a partition column the
        number is exact.

        Args:
            column: The column, dotted if it is nested.
            where: As for `scan`.

        Returns:
            The estimate, with bounds (95 %) and what was read; ``int()`` rounds it.

        Raises:
            PredicateError: If ``where`` cannot be understood, or compares what cannot be compared.
            ColumnNotFoundError: If a column is not there; near matches are named.
            UnsupportedFeatureError: If values of the column's type are not counted.

        Example:
            >>> import intarsia as ia, pyarrow as pa, pyarrow.parquet as pq, tempfile, os
            >>> path = os.path.join(tempfile.mkdtemp(), "t.parquet")
            >>> pq.write_table(pa.table({"x": [1, 2, 3, None] * 1000}), path)
            >>> _ = ia.attach(path, [ia.Hll("x")])
            >>> count = ia.open(path).approx_distinct("x")
            >>> int(count), count.report.rows_candidate
            (3, 0)
        """
        scan = self.scan(where, [column])
        values = DistinctValues(scan._columns[0])
        estimate, lower, upper = values.count(scan._each_file())
        return ApproximateCount(estimate, lower, upper, tuple(values.unindexed), scan.report)

    def sketches(self, column: str, lg_config_k: int = 12) -> pa.Table:
        """A HyperLogLog sketch of each file's distinct values, for Spark.

        Spark estimates and adds up by ``hll_sketch_estimate`` and ``hll_union_agg``, also with sketches of
        its own ``hll_sketch_agg`` over the same column; see `Hll` for the types that it has no sketch of.
        Files without an `Hll` index are read.

        Args:
            column: The column, dotted if it is nested.
            lg_config_k: Binary logarithm of the most registers; Spark adds only sketches that have the same,
                and its default is 12.

        Returns:
            The columns ``path`` (string) and ``sketch`` (binary).

        Example:
            >>> rows = ia.open("lake").sketches("user")                                    # doctest: +SKIP
            >>> spark.createDataFrame(rows).selectExpr(                                    # doctest: +SKIP
            ...     "hll_sketch_estimate(hll_union_agg(sketch))")
        """
        scan = self.scan(None, [column])
        values = DistinctValues(scan._columns[0], lg_config_k)
        rows = [(file.path, values.of_file(file, plan).to_sketch()[0]) for file, plan in scan._each_file()]
        paths, sketches = zip(*rows, strict=True)
        return pa.table({"path": pa.array(paths, pa.string()), "sketch": pa.array(sketches, pa.binary())})

    def sample(self, n: int | None = None, seed: int | None = None) -> pa.Table:
        """Rows of the table, drawn uniformly and without replacement; their order means nothing.

        Rows that files have inlaid (`Sample`) are taken first, and no data is read where these suffice. Of
        other files the rows are read that are drawn, from the pages that hold them.

        Args:
            n: How many rows; all, if there are no more. None: as many as the files' samples very likely have
                rows for, or 1,000 if there are none.
            seed: The same seed draws the same rows, if the files are the same. Which rows a file has inlaid
                does not depend on it: samples with different seeds may have many rows in common.

        Returns:
            The rows, with the table's schema. ``table.scan(columns=…).sample(…)`` gives some columns of them,
            and a report of what was read.

        Example:
            >>> import intarsia as ia, pyarrow as pa, pyarrow.parquet as pq, tempfile, os
            >>> path = os.path.join(tempfile.mkdtemp(), "t.parquet")
            >>> pq.write_table(pa.table({"x": range(1000)}), path)
            >>> _ = ia.attach(path, [ia.Sample(100)])
            >>> ia.open(path).sample(seed=1).num_rows
            100
        """
        return self.scan().sample(n, seed)


class Scan:
    """One question to a table; it runs when its rows are asked for.

    Attributes:
        schema: The schema of the result.
        report: What was read and skipped, and why; complete once the rows were taken.
    """

    def __init__(
        self, table: Table, predicate: Predicate | None, columns: Sequence[str] | None, limit: int | None
    ) -> None:
        self._table = table
        self._limit = limit
        self._predicate: Bound | None = None if predicate is None else bind(predicate, table.schema)
        named = table.distinct_index
        self._distinct_column = None if named is None else find_column(table.schema, named)[0]
        if columns is None:
            _refuse_repeated(table.schema, table.schema.names, table.files[0].path)
        self._columns = _output_columns(table.schema, columns)
        fields = [_output_field(table.schema, column) for column in self._columns]
        self.schema = pa.schema(fields, metadata=table.schema.metadata)
        self.report = ScanReport()

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
        """Plan without reading data pages; see `Table.explain`."""
        started = time.perf_counter()
        report = ScanReport(files_total=len(self._table.files), rows_estimated=0.0)
        if not analyze:
            report.rows_matched, report.bytes_planned = None, 0
        for file, plan in self._file_scans(report):
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

    def _aggregate(self, functions: Mapping[str, Sequence[str] | str]) -> Aggregate:
        started = time.perf_counter()
        report = ScanReport(files_total=len(self._table.files))
        totals = Totals(functions, self._columns)
        try:
            for file, plan in self._file_scans(report):
                try:
                    totals.add_file(plan)
                finally:
                    report.add_file(file, plan.leaves, plan.tally)
        finally:
            report.seconds = time.perf_counter() - started
            _warn(report)
        return Aggregate(totals.values(), report)

    def _each_file(self) -> Iterator[tuple[ParquetInput, FileScan]]:
        """Each file that is to be asked, in order; what is read of it goes into the report."""
        started = time.perf_counter()
        self.report = report = ScanReport(files_total=len(self._table.files))
        try:
            for file, plan in self._file_scans(report):
                try:
                    yield file, plan
                finally:
                    report.add_file(file, plan.leaves, plan.tally)
        finally:
            report.seconds = time.perf_counter() - started
            _warn(report)

    def sample(self, n: int | None = None, seed: int | None = None) -> pa.Table:
        """Rows drawn as by `Table.sample`; `report` then tells what was read of data, and how many rows.

        Raises:
            ValueError: If the scan has a condition or a limit.
        """
        if self._predicate is not None or self._limit is not None:
            raise ValueError("a sample is of all rows: scan without where and limit")
        if n is not None and n < 0:
            raise ValueError(f"n is {n}; it must be 0 or more")
        sizes, num_bytes, requests = [], 0, 0
        for entry in self._table.files:
            with ParquetInput(entry.open()) as file:
                sizes.append(FileSize.of(file))
                num_bytes += file.source.counts.bytes
                requests += file.source.counts.requests
        pieces = list(sample_rows(sizes, self._each_file(), n, seed, self._finish))
        self.report.bytes_read += num_bytes
        self.report.requests += requests
        return pa.concat_tables([self.schema.empty_table(), *pieces])

    def _tables(self, *, whole_files: bool) -> Iterator[pa.Table]:
        started = time.perf_counter()
        self.report = report = ScanReport(files_total=len(self._table.files))
        left = self._limit
        try:
            for file, plan in self._file_scans(report):
                try:
                    if plan.predicate is None and whole_files and left is None:
                        pieces: Iterator[pa.Table] = iter([plan.read_all()])
                    else:
                        pieces = plan.batches(left)
                    for piece in pieces:
                        if left is not None:
                            left -= piece.num_rows
                        yield self._finish(piece, plan)
                finally:
                    report.add_file(file, plan.leaves, plan.tally)
                if left == 0:
                    return
        finally:
            report.seconds = time.perf_counter() - started
            _warn(report)

    def _file_scans(self, report: ScanReport) -> Iterator[tuple[ParquetInput, FileScan]]:
        """Each file that its partition values do not exclude, opened, and the scan of it."""
        for entry in self._table.files:
            constants = self._partition_constants(entry)
            excluded_by = self._excluding_column(constants)
            if excluded_by is not None:
                report.add_unopened(entry.size_bytes, excluded_by)
                continue
            with ParquetInput(entry.open()) as file:
                file.distinct_column = self._distinct_column
                constants |= self._missing_constants(file, constants)
                with file.named_errors():
                    scan = FileScan(file, self._predicate, self._columns, constants)
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

    def _missing_constants(self, file: ParquetInput, known: dict[Path, pa.Scalar]) -> dict[Path, pa.Scalar]:
        """Nulls for the columns that this file does not have."""
        wanted: dict[Path, pa.DataType] = {column.path: column.type for column in self._columns}
        if self._predicate is not None:
            schema = self._table.schema
            for path in self._predicate.paths():
                wanted.setdefault(path, _type_at(schema, path))
        _refuse_repeated(file.arrow_schema, {path[0] for path in wanted if path not in known}, file.path)
        return {
            path: pa.scalar(None, kind)
            for path, kind in wanted.items()
            if path not in known and not _has_path(file.arrow_schema, path)
        }

    def _finish(self, piece: pa.Table, plan: FileScan) -> pa.Table:
        """The result's columns in order: those read, and the constants."""
        read = dict(zip([column.path for column in plan.columns], piece.columns, strict=True))
        arrays = []
        for column, field in zip(self._columns, self.schema, strict=True):
            if column.path in read:
                array = read[column.path]
            else:
                array = _repeat(plan.constants[column.path], piece.num_rows, field.type)
            arrays.append(array)
        if not arrays:
            return piece
        return pa.Table.from_arrays(arrays, schema=self.schema)


def _output_columns(schema: pa.Schema, names: Sequence[str] | None) -> list[OutputColumn]:
    if names is None:
        return [OutputColumn(field.name, (field.name,), field.type) for field in schema]
    if isinstance(names, str):
        names = [names]
    out = []
    for name in names:
        if schema.get_field_index(name) >= 0:
            out.append(OutputColumn(name, (name,), schema.field(name).type))
        else:
            path, _ = find_column(schema, name)
            out.append(OutputColumn(path[-1], path, _type_at(schema, path)))
    return out


def _refuse_repeated(schema: pa.Schema, names: Iterable[str], path: str) -> None:
    """Raise if a name means several columns, which pyarrow's `read_table` does not take either."""
    for name in names:
        if (count := len(schema.get_all_field_indices(name))) > 1:
            raise UnsupportedFeatureError(
                f"{count} columns are called {name!r}; ask for columns whose names are unique",
                path=path,
                struct="SchemaElement",
            )


def _output_field(schema: pa.Schema, column: OutputColumn) -> pa.Field:
    if len(column.path) == 1:
        return schema.field(column.path[0])
    return pa.field(column.name, column.type)


def _type_at(schema: pa.Schema, path: Path) -> pa.DataType:
    kind = schema.field(path[0]).type
    for name in path[1:]:
        kind = kind.field(kind.get_field_index(name)).type
    return kind


def _has_path(schema: pa.Schema, path: Path) -> bool:
    if schema.get_field_index(path[0]) < 0:
        return False
    kind = schema.field(path[0]).type
    for name in path[1:]:
        if not pa.types.is_struct(kind) or kind.get_field_index(name) < 0:
            return False
        kind = kind.field(kind.get_field_index(name)).type
    return True


def _assume_true(node: Bound, known: set[Path]) -> Bound:
    """The predicate with every leaf replaced by TRUE whose column is not known."""
    from intarsia.predicate.bound import BoundAnd, BoundConstant, BoundOr, conjoin, disjoin

    if isinstance(node, BoundAnd):
        return conjoin([_assume_true(child, known) for child in node.children])
    if isinstance(node, BoundOr):
        return disjoin([_assume_true(child, known) for child in node.children])
    if isinstance(node, BoundConstant) or node.path in known:
        return node
    return BoundConstant(True)


def _repeat(value: pa.Scalar, num_rows: int, kind: pa.DataType) -> pa.Array:
    if not pa.types.is_dictionary(kind):
        return pa.nulls(num_rows, kind) if not value.is_valid else pa.repeat(value, num_rows)
    if not value.is_valid:
        return pa.nulls(num_rows, kind)
    indices = pa.repeat(pa.scalar(0, kind.index_type), num_rows)
    return pa.DictionaryArray.from_arrays(indices, pa.array([value.as_py()], kind.value_type))


def _warn(report: ScanReport) -> None:
    for path, notes in reasons_by_file(report.ignored).items():
        more = f" (and {len(notes) - 1} more)" if len(notes) > 1 else ""
        warnings.warn(
            f"{path}: ignored {notes[0].index}: {notes[0].reason}{more}", IntarsiaWarning, stacklevel=4
        )
