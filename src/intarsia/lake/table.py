"""Many files as one table."""

from __future__ import annotations

import os
from collections.abc import Callable, Sequence
from functools import partial
from typing import TYPE_CHECKING

import pyarrow as pa

from intarsia import amounts
from intarsia.errors import PredicateError
from intarsia.lake.index.build import LakeIndexReport
from intarsia.lake.index.folder import Location
from intarsia.lake.query_run import OnError
from intarsia.lake.scan import Scan
from intarsia.lake.scan_arguments import OrderBy, RowNumbers, check_number, choose_rows
from intarsia.lake.split import Split
from intarsia.lake.table_files import TableFiles
from intarsia.predicate import Parameters, Where, parse_predicate, parse_template
from intarsia.read.aggregate import Aggregate, Requested
from intarsia.read.approximate import ApproximateCount
from intarsia.read.report import ScanReport

if TYPE_CHECKING:
    from intarsia.lake.dataset import TableDataset

from intarsia.predicate import Predicate, SqlTemplate

#: The attributes in the docstring of `Table` that its base class has.
_ATTRIBUTES = ("files", "other_files", "listing_reads", "name", "schema")

#: Names of columns in the representation of a table.
_SHOWN_COLUMNS = 8


class Table(TableFiles):
    """Parquet files as one table.

    The columns are those of all files by name, in the order in which they are first seen, followed by the
    partition columns. Columns that a file lacks are null in its rows. A column with different types in
    different files has the narrowest type for the values of all (``int64`` for ``int32`` and ``int64``);
    predicates are bound to the types of each file. If there is no such type, as for text and numbers, an
    error names two of the files. See ``schema`` of `open` for the columns of the first file instead.

    Parsed metadata of unchanged files (footers, page indexes, directories) and their opened indexes are
    cached, up to about 512 MiB.

    Attributes:
        files: The files, ordered by path for a folder or glob, in the given order for a list. Each has
            ``path``, ``size_bytes`` and ``partition``.
        other_files: Paths of the files in folders that are not Parquet and were ignored, without hidden files
            and checksums.
        listing_reads: Requests and bytes read to check files without an extension; reports of scans do not
            include them.
        name: The path of the table in a table format, or of the first file.
        schema: The schema; reads the footer of every file on first use, unless it is a Delta or Iceberg
            table, whose metadata has it.
    """

    def __repr__(self) -> str:
        parts = [
            repr(self.root or self.name),
            amounts.count(len(self.files), "file"),
            amounts.size(self.file_bytes.sum()),
        ]
        if self.has_schema:  # showing a table reads nothing
            names = self.columns
            more = ", …" if len(names) > _SHOWN_COLUMNS else ""
            shown = ", ".join(names[:_SHOWN_COLUMNS])
            parts.append(f"{amounts.count(len(names), 'column')}: {shown}{more}")
        return f"Table({', '.join(parts)})"

    def _repr_html_(self) -> str:
        from intarsia.picture import Bar, draw_bars, in_notebook

        largest = max(self.file_bytes.tolist(), default=0)
        bars = [
            Bar(
                os.path.basename(file.path),
                file.size_bytes / max(largest, 1),
                "statistics",
                amounts.size(file.size_bytes),
            )
            for file in self.files
        ]
        files = amounts.count(len(self.files), "file")
        columns = f", {amounts.count(len(self.columns), 'column')}" if self.has_schema else ""
        subtitle = f"{files}, {amounts.size(self.file_bytes.sum())}{columns}"
        return in_notebook(draw_bars(self.root or self.name, subtitle, bars))

    def __dir__(self) -> list[str]:
        """List the documented attributes; the base class has methods for scans."""
        return sorted({*dir(object), *vars(Table), *_ATTRIBUTES})

    @property
    def columns(self) -> list[str]:
        """The names of the columns, in the order of the schema."""
        return list(self.schema.names)

    @property
    def shape(self) -> tuple[int, int]:
        """The number of rows and the number of columns; reads the footers of all files, as ``len`` does."""
        return len(self), len(self.schema)

    def head(self, n: int = 5, columns: Sequence[str] | None = None) -> pa.Table:
        """Return the first rows.

        Args:
            n: The maximum number of rows.
            columns: As for `scan`.

        Raises:
            ValueError: If ``n`` is negative.
            ColumnNotFoundError: If the table has no such column; the message suggests similar names.

        Example:
            >>> import intarsia as ia, pyarrow as pa, pyarrow.parquet as pq, tempfile, os
            >>> path = os.path.join(tempfile.mkdtemp(), "t.parquet")
            >>> pq.write_table(pa.table({"x": range(1000), "y": ["a", "b"] * 500}), path)
            >>> table = ia.open(path)
            >>> table.columns, table.shape, table.head(2, ["x"]).to_pylist()
            (['x', 'y'], (1000, 2), [{'x': 0}, {'x': 1}])
        """
        return self.scan(columns=columns, limit=n).to_arrow()

    def __len__(self) -> int:
        """Return the number of rows, from the footers of all files.

        The first call reads every footer that is not cached, and no data page. Later calls
        check that the files are unchanged: a stat for each local file, a request for each object.

        Example:
            >>> import intarsia as ia, pyarrow as pa, pyarrow.parquet as pq, tempfile, os
            >>> path = os.path.join(tempfile.mkdtemp(), "t.parquet")
            >>> pq.write_table(pa.table({"x": range(1000)}), path)
            >>> len(ia.open(path))
            1000
        """
        return self.count()

    def build_lake_index(
        self,
        location: Location = "cache",
        *,
        wait: bool = True,
        show: Callable[[float], None] = lambda _: None,
    ) -> LakeIndexReport:
        """Build the lake index of the table, or add new files to it.

        A lake index determines which files a query has to open, without opening any of them. It contains
        footers, bounds, and digests of `Bloom`, `Distinct`, `Ngram`, `RowMap` and `ZoneMap`, and is built
        from footers and indexes, not from data. It is a cache: it can be deleted at any time, and files that
        have changed are planned as if there were no lake index. A table uses a lake index that exists at its
        first query. That query also adds up to 32 new files, or a tenth of the files.

        A file that was written in the last two seconds can change again and keep its modification time, so it
        is not added.

        Args:
            location: ``"cache"`` for the user's cache folder, ``"beside"`` for the folder ``_intarsia``
                in the lake, which other readers ignore.
            wait: Wait up to two seconds, once, if files were written in the last two seconds. Files that are
                written during this time are left out.
            show: Called with the number of files that are done.

        Returns:
            The files that were added, and those that could not be.

        Raises:
            IndexBuildError: If the table is a single file, because its own indexes are read directly.
            ValueError: If the location is unknown, or the files have no common root.
            ListingError: If users who are not trusted own the folder or may write to it, or it is a link.
            ReplaceError: If the lake index cannot be written; nothing of it remains.
            ObjectStoreError: If the store refuses a request.

        Example:
            >>> import intarsia as ia, pyarrow as pa, pyarrow.parquet as pq, tempfile, os
            >>> folder = tempfile.mkdtemp()
            >>> for day in range(3):
            ...     path = os.path.join(folder, f"{day}.parquet")
            ...     pq.write_table(pa.table({"day": [day] * 4, "x": range(4)}), path)
            ...     os.utime(path, (1_700_000_000, 1_700_000_000))  # files of the last seconds are left out
            >>> ia.open(folder).build_lake_index("beside").files_added
            3
            >>> scan = ia.open(folder).scan("day = 2")
            >>> scan.to_arrow().num_rows, scan.report.files_opened
            (4, 1)
        """
        return self.lake_index.build(location, show, wait=wait)

    def remove_lake_index(self) -> tuple[str, ...]:
        """Delete the lake index of the table, in the cache and beside the data.

        Returns:
            The folders from which it was deleted; empty if there was none.

        Raises:
            ValueError: If the files have no common root.
            OSError: If it cannot be deleted.
        """
        return self.lake_index.remove()

    def partitions(self) -> pa.Table:
        """List the distinct values of the partition columns, with the number and size of their files.

        No file is read: the values are in the names of folders, or in the metadata of the table.

        Returns:
            A column for each partition column, in the order of the folders, then ``num_files`` and
            ``num_bytes``. Rows are in the order of the files. Without partition columns there is one row.

        Raises:
            FormatError: If not all files have the same partition columns.

        Example:
            >>> import intarsia as ia, pyarrow as pa, pyarrow.parquet as pq, tempfile, os
            >>> folder = tempfile.mkdtemp()
            >>> for day in ("2024-01-01", "2024-01-02"):
            ...     os.mkdir(os.path.join(folder, f"day={day}"))
            ...     pq.write_table(pa.table({"x": [1]}), os.path.join(folder, f"day={day}", "part.parquet"))
            >>> found = ia.open(folder).partitions()
            >>> found.schema.names, found["day"].type, found["num_files"].to_pylist()
            (['day', 'num_files', 'num_bytes'], DataType(date32[day]), [1, 1])
        """
        return self.partition_columns.listed(self.file_bytes)

    def __bool__(self) -> bool:
        """True, even without rows, so that testing a table reads nothing."""
        return True

    def scan(
        self,
        where: Where = None,
        columns: Sequence[str] | None = None,
        limit: int | None = None,
        order_by: OrderBy | None = None,
        *,
        parameters: Parameters | None = None,
        rows: RowNumbers | None = None,
        on_error: OnError = "raise",
        trace: bool = False,
    ) -> Scan:
        """Make a scan without running it.

        Rows are in the order of the files, and in file order within a file.

        NaN compares as in Arrow: only ``<>``, ``NOT …`` and ``IS NOT NULL`` match it. (Aggregates order NaN
        above every number, as SQL does, and `intarsia.spark.read` compares like Spark.)

        Args:
            where: SQL text such as ``"user = 42 AND country IN ('Singapore')"``, pyarrow's
                ``[("user", "=", 42)]`` form, a pyarrow expression such as ``pc.field("user") == 42``, a
                Polars expression such as ``pl.col("user") == 42``, or nodes such as
                ``ia.Comparison("user", "=", 42)``; None for all rows. docs/cli.md lists the supported SQL,
                docs/expressions.md the supported expressions.
            columns: Columns of the result; a dotted path is a field of a struct. None for all.
            limit: The maximum number of rows; None for all. The scan stops after the pages that contain
                them.
            order_by: Return the first ``limit`` rows in this order, such as ``"amount DESC, day"``, or
                ``[("amount", "descending"), "day"]`` as in pyarrow; None for the order of the files. The scan
                reads only the files, row groups and pages whose bounds allow them to contain these rows. As
                in DuckDB, nulls are last unless ``NULLS FIRST`` follows, and NaN is greater than every
                number. Of rows with equal values, any may be returned, in any order.
            parameters: The values of ``?`` in SQL text as a list, or those of ``:name`` as a dict. They are
                not part of the text, so they need no quotes. ``IN ?`` takes a list.
            rows: Read only these rows, each once, in the order of the table: their numbers, from 0, in all
                files in order, which reads every footer; or a table with the columns ``path`` and ``row``,
                such as the result of `locate`. Only their pages are read. Rows that a Delta or Iceberg table
                has deleted keep their numbers and are not returned. None for all rows.
            on_error: ``"skip"`` to skip damaged, truncated and missing files with one warning; the report
                lists them as ``files_failed``. `Scan.to_arrow`, data frames, counts and aggregates then
                contain all matching rows of a file or none. Iterating and streams yield the rows that precede
                the damage, because it is found later. Files that need not be opened are not checked.
                ``"raise"`` raises the error of the first bad file. Errors of a whole store are always raised.
            trace: Whether the report of each run keeps what `ScanReport.map` draws: ranges that were read,
                and the plan of each file.

        Returns:
            The scan, an Arrow stream of the rows that can also count and aggregate them.

        Raises:
            ValueError: If ``limit`` is negative, ``on_error`` is unknown, ``order_by`` has no ``limit`` or is
                combined with ``on_error="skip"``, or there is no such row.
            TypeError: If ``limit`` or a row number is not an integer.
            PredicateError: If ``where`` cannot be parsed, compares values of incompatible types, or has other
                parameters; or if ``order_by`` is not a list of columns.
            ColumnNotFoundError: If the table has no such column; the message suggests similar names.

        Example:
            >>> import intarsia as ia, pyarrow as pa, pyarrow.parquet as pq, tempfile, os
            >>> path = os.path.join(tempfile.mkdtemp(), "t.parquet")
            >>> pq.write_table(pa.table({"x": range(1000), "y": ["a", "b"] * 500}), path)
            >>> table = ia.open(path)
            >>> table.scan("x < 3", columns=["y"]).to_arrow().to_pylist()
            [{'y': 'a'}, {'y': 'b'}, {'y': 'a'}]
            >>> table.scan("y = 'a'", order_by="x DESC", limit=2).to_arrow()["x"].to_pylist()
            [998, 996]
            >>> where = ia.And((ia.Comparison("x", "<", 3), ia.In("y", ("a", "c"))))
            >>> [table.scan(condition).count() for condition in (where, str(where), [("x", "<", 3)])]
            [2, 2, 3]
            >>> table.scan("y = ? AND x IN ?", parameters=["a", [1, 2, 3]]).count()
            1
            >>> table.scan(rows=[998, 3]).to_pylist()
            [{'x': 3, 'y': 'b'}, {'x': 998, 'y': 'a'}]
        """
        _check_arguments(limit, order_by, on_error)
        snapshot = self.new_snapshot(is_traced=trace)

        def schema() -> pa.Schema:
            self.read_schema(snapshot)
            return self.dataset().schema

        with snapshot.running():  # expressions are parsed with the schema, and rows are found by the footers
            predicate = parse_predicate(where, schema, parameters)
            table = self if rows is None else choose_rows(self, rows, snapshot)
        if table is not self:
            snapshot = table.new_snapshot(snapshot)
        return Scan(table, predicate, columns, limit, order_by, on_error, snapshot, is_traced=trace)

    def prepare(
        self,
        where: str,
        columns: Sequence[str] | None = None,
        limit: int | None = None,
        order_by: OrderBy | None = None,
        *,
        on_error: OnError = "raise",
    ) -> PreparedQuery:
        """Parse a query once, and scan with many values of its parameters.

        The values are not part of the text, so they are not parsed and need no quotes.

        Args:
            where: SQL text with ``?`` or ``:name`` in place of literals.
            columns: As in `scan`.
            limit: As in `scan`.
            order_by: As in `scan`.
            on_error: As in `scan`.

        Returns:
            The query; its `PreparedQuery.scan` takes the values.

        Raises:
            ValueError: As in `scan`.
            TypeError: As in `scan`.
            PredicateError: If ``where`` is not text, or cannot be parsed.

        Example:
            >>> import intarsia as ia, pyarrow as pa, pyarrow.parquet as pq, tempfile, os
            >>> path = os.path.join(tempfile.mkdtemp(), "t.parquet")
            >>> pq.write_table(pa.table({"x": range(1000)}), path)
            >>> between = ia.open(path).prepare("x BETWEEN :low AND :high")
            >>> [between.scan({"low": low, "high": low + 9}).count() for low in (5, 995)]
            [10, 5]
        """
        if not isinstance(where, str):
            raise PredicateError(
                f"prepare needs SQL text with ? or :name, not {type(where).__name__}; pass "
                "other predicates to scan",
                reason="parameters-without-text",
            )
        _check_arguments(limit, order_by, on_error)
        scan = partial(Scan, self, columns=columns, limit=limit, order_by=order_by, on_error=on_error)
        return PreparedQuery(parse_template(where), scan)

    def dataset(self) -> TableDataset:
        """Return the table as a ``pyarrow.dataset.Dataset``, which DuckDB, Polars and DataFusion query.

        The engine passes the columns and filters of each query to the dataset, and Intarsia reads only the
        pages that can match. Filters that Intarsia does not support are evaluated on the remaining rows.
        docs/engines.md lists the filters that each engine passes.

        Returns:
            The dataset; ``last_report`` is the report of its last scan.

        Example:
            >>> import intarsia as ia, pyarrow as pa, pyarrow.compute as pc, pyarrow.parquet as pq
            >>> import os, tempfile
            >>> path = os.path.join(tempfile.mkdtemp(), "t.parquet")
            >>> pq.write_table(pa.table({"x": range(1000), "s": ["a", "b"] * 500}), path, row_group_size=100)
            >>> dataset = ia.open(path).dataset()
            >>> wanted = (pc.field("x") < 3) & (pc.utf8_upper(pc.field("s")) == "B")
            >>> dataset.to_table(columns=["x"], filter=wanted).to_pylist()
            [{'x': 1}]
            >>> dataset.last_report.row_groups_read
            1
        """
        from intarsia.lake.dataset import TableDataset  # imports pyarrow.dataset

        return TableDataset(self)

    def explain(
        self,
        where: Where = None,
        columns: Sequence[str] | None = None,
        *,
        parameters: Parameters | None = None,
        analyze: bool = False,
    ) -> ScanReport:
        """Plan a scan: which pages it would read, what each index excludes, and about how many rows match.

        For columns outside the predicate, the plan contains the pages of all candidate rows. That is an upper
        bound, because a scan reads them only for matching rows. ``bytes_planned`` is the size of the pages,
        ``bytes_read`` the number of bytes read for planning, and ``rows_estimated`` the estimate by
        histograms and samples, or None.

        Args:
            where: As for `scan`.
            columns: As for `scan`.
            parameters: As for `scan`.
            analyze: Also run the scan and discard its rows, to report what was read beside the estimate.
                Without it no data page is read, and ``rows_matched`` is None.

        Returns:
            The plan; ``to_dict()`` returns it as a JSON object with the keys listed in docs/cli.md.

        Raises:
            PredicateError: If ``where`` cannot be parsed, or compares values of incompatible types.
            ColumnNotFoundError: If the table has no such column; the message suggests similar names.

        Example:
            >>> import intarsia as ia, pyarrow as pa, pyarrow.parquet as pq, tempfile, os
            >>> path = os.path.join(tempfile.mkdtemp(), "t.parquet")
            >>> pq.write_table(pa.table({"x": range(1000)}), path, row_group_size=100)
            >>> plan = ia.open(path).explain("x < 42")
            >>> plan.row_groups_total, plan.row_groups_read, plan.rows_candidate
            (10, 1, 100)
            >>> plan.pruned_by["statistics", "x"].row_groups
            9
        """
        return self.scan(where, columns, parameters=parameters).explain(analyze=analyze)

    def plan(
        self,
        where: Where = None,
        columns: Sequence[str] | None = None,
        *,
        parameters: Parameters | None = None,
        split_bytes: int | None = None,
    ) -> list[Split]:
        """Plan a scan as splits that any process can read, such as the tasks of a cluster.

        Indexes are read only here. A split contains its file, row groups and rows, and can be pickled.

        Args:
            where: As for `scan`.
            columns: As for `scan`.
            parameters: As for `scan`.
            split_bytes: Approximate number of bytes to read per split; files are divided at row group
                boundaries. None for one split per file.

        Returns:
            The splits in the order of the files, without files and row groups that have no candidate rows.
            Together they contain the rows of the scan.

        Raises:
            PredicateError: If ``where`` cannot be parsed, or compares values of incompatible types.
            ColumnNotFoundError: If the table has no such column; the message suggests similar names.
            ValueError: If ``split_bytes`` is not positive.

        Example:
            >>> import intarsia as ia, pyarrow as pa, pyarrow.parquet as pq, tempfile, os
            >>> from concurrent.futures import ThreadPoolExecutor
            >>> folder = tempfile.mkdtemp()
            >>> for day in range(3):
            ...     rows = pa.table({"day": [day] * 4, "x": range(4)})
            ...     pq.write_table(rows, os.path.join(folder, f"{day}.parquet"))
            >>> splits = ia.open(folder).plan("day > 0 AND x = 3")
            >>> with ThreadPoolExecutor() as tasks:  # or Ray, Dask, Spark
            ...     pa.concat_tables(tasks.map(lambda split: split.to_arrow(), splits)).to_pylist()
            [{'day': 1, 'x': 3}, {'day': 2, 'x': 3}]
        """
        return self.scan(where, columns, parameters=parameters).plan(split_bytes)

    def count(
        self, where: Where = None, *, parameters: Parameters | None = None, on_error: OnError = "raise"
    ) -> int:
        """Count the rows that match.

        Rows that indexes prove to match are not read. Without ``where`` only footers are read.
        ``table.scan(where).count()`` returns the same, and the scan then has a report.

        Args:
            where: As for `scan`.
            parameters: As for `scan`.
            on_error: As for `scan`.

        Raises:
            PredicateError: If ``where`` cannot be parsed, or compares values of incompatible types.
            ColumnNotFoundError: If the table has no such column; the message suggests similar names.

        Example:
            >>> import intarsia as ia, pyarrow as pa, pyarrow.parquet as pq, tempfile, os
            >>> path = os.path.join(tempfile.mkdtemp(), "t.parquet")
            >>> pq.write_table(pa.table({"x": range(1000)}), path)
            >>> ia.open(path).count("x < 42")
            42
        """
        return self.scan(where, [], parameters=parameters, on_error=on_error).count()

    def locate(
        self, where: Where = None, column: str | None = None, *, parameters: Parameters | None = None
    ) -> pa.Table:
        """Locate the rows that match: their files, row groups, pages and row numbers.

        This is the first step in erasing a person's rows, and shows how the matches are distributed. Only
        columns of the predicate are read, and only where indexes do not prove that all rows match.

        Args:
            where: As for `scan`.
            column: The column whose pages are numbered; None for the first column of the files.
            parameters: As for `scan`.

        Returns:
            A row for each matching row, in the order of the scan: ``path`` (string); ``row_group`` (int32),
            from 0; ``page`` (int32), the data page of ``column`` in the row group, from 0, or null if the
            file has no OffsetIndex of this column; and ``row`` (int64), the row number in the file, from 0.

        Raises:
            PredicateError: If ``where`` cannot be parsed, or compares values of incompatible types.
            ColumnNotFoundError: If the table has no such column; the message suggests similar names.
            UnsupportedFeatureError: If the path of a file with such rows is not UTF-8.

        Example:
            >>> import intarsia as ia, pyarrow as pa, pyarrow.parquet as pq, tempfile, os
            >>> path = os.path.join(tempfile.mkdtemp(), "t.parquet")
            >>> rows = pa.table({"user": [n % 500 for n in range(1000)]})
            >>> pq.write_table(rows, path, row_group_size=600, max_rows_per_page=200, write_page_index=True)
            >>> ia.open(path).locate("user = 42").drop_columns("path").to_pylist()
            [{'row_group': 0, 'page': 0, 'row': 42}, {'row_group': 0, 'page': 2, 'row': 542}]
        """
        return self.scan(where, [], parameters=parameters).locate(column)

    def aggregate(
        self,
        functions: Requested,
        where: Where = None,
        *,
        parameters: Parameters | None = None,
        on_error: OnError = "raise",
    ) -> Aggregate:
        """Compute aggregates of the rows that match, as SQL does.

        Nulls are ignored. With no values, ``sum``, ``min``, ``max`` and ``avg`` are None. NaN is greater than
        every number, and a sum with NaN is NaN. Integers and decimals are added exactly. ``avg`` of integers
        is a float; of decimals, a ``Decimal`` with four more digits, with halves rounded away from zero.
        Floats are added pairwise in double precision. The order of the additions depends on the pages read
        and on the indexes, so the last digits may differ from another sum of the same rows.

        Row groups and granules that match as a whole are answered from statistics and `ZoneMap` indexes, so
        that only the pages at the edges are read. `explain` reports the pages that a scan of the same columns
        would read.

        Args:
            functions: The functions for each column (dotted if it is nested): ``"count"`` (rows where it is
                not null), ``"sum"``, ``"min"``, ``"max"`` and ``"avg"``. The column ``"*"`` supports only
                ``"count"``, the number of rows. Or SQL text, such as ``"count(*), sum(amount)"``, or a list
                of such texts.
            where: As for `scan`.
            parameters: As for `scan`.
            on_error: As for `scan`.

        Returns:
            A ``dict`` of Python values with the attribute ``report``. Values that Python cannot represent
            (nanoseconds) are pyarrow scalars.

        Raises:
            ValueError: If a function is unknown, or not defined for the column's type.
            PredicateError: If ``where`` or SQL text cannot be parsed, or values of incompatible types are
                compared.
            ColumnNotFoundError: If the table has no such column; the message suggests similar names.

        Example:
            >>> import intarsia as ia, pyarrow as pa, pyarrow.parquet as pq, tempfile, os
            >>> path = os.path.join(tempfile.mkdtemp(), "t.parquet")
            >>> pq.write_table(pa.table({"x": range(1000), "y": [1, None] * 500}), path)
            >>> table = ia.open(path)
            >>> table.aggregate({"x": ["sum", "max"], "y": ["count", "avg"]}, where="x < 100")
            {'x': {'sum': 4950, 'max': 99}, 'y': {'count': 50, 'avg': 1.0}}
            >>> answer = table.aggregate("min(x), max(x)")
            >>> answer["x"], answer.report.row_groups_read
            ({'min': 0, 'max': 999}, 0)
        """
        return self.scan(where, [], parameters=parameters, on_error=on_error).aggregate(functions)

    def count_distinct(
        self,
        column: str,
        where: Where = None,
        *,
        parameters: Parameters | None = None,
        on_error: OnError = "raise",
    ) -> int:
        """Count the distinct values of a column in the rows that match, exactly.

        Null is not counted, as in SQL's ``count(DISTINCT column)``. All NaN are one value, and -0.0 is 0.0.
        The values of granules that are listed by `Distinct` indexes are not read, if all of their rows are
        proven to match. Memory grows with the number of distinct values. `approx_distinct` needs less.

        Args:
            column: The column, dotted if it is nested.
            where: As for `scan`.
            parameters: As for `scan`.
            on_error: As for `scan`.

        Raises:
            PredicateError: If ``where`` cannot be parsed, or compares values of incompatible types.
            ColumnNotFoundError: If the table has no such column; the message suggests similar names.
            UnsupportedFeatureError: If values of the column's type cannot be counted.

        Example:
            >>> import intarsia as ia, pyarrow as pa, pyarrow.parquet as pq, tempfile, os
            >>> path = os.path.join(tempfile.mkdtemp(), "t.parquet")
            >>> pq.write_table(pa.table({"x": ["a", "b", None, "a"], "y": range(4)}), path)
            >>> table = ia.open(path)
            >>> table.count_distinct("x"), table.count_distinct("x", where="y > 2")
            (2, 1)
        """
        return self.scan(where, [], parameters=parameters, on_error=on_error).count_distinct(column)

    def value_counts(
        self,
        column: str,
        where: Where = None,
        limit: int | None = None,
        *,
        parameters: Parameters | None = None,
        on_error: OnError = "raise",
    ) -> pa.Table:
        """Count how often each value of a column occurs in the rows that match, exactly.

        Null is a separate value. All NaN are one value, and -0.0 is 0.0. Granules that contain only one
        value are not read, if a `Distinct` index lists it and all of their rows are proven to match. Memory
        grows with the number of distinct values.

        Args:
            column: The column, dotted if it is nested.
            where: As for `scan`.
            limit: The maximum number of values to return: the most frequent ones. None for all.
            parameters: As for `scan`.
            on_error: As for `scan`.

        Returns:
            The columns ``value``, of the column's type, and ``count`` (int64). The most frequent values are
            first. Equally frequent ones are in ascending order, with NaN and null last.

        Raises:
            ValueError: If ``limit`` is negative.
            PredicateError: If ``where`` cannot be parsed, or compares values of incompatible types.
            ColumnNotFoundError: If the table has no such column; the message suggests similar names.
            UnsupportedFeatureError: If values of the column's type cannot be counted.

        Example:
            >>> import intarsia as ia, pyarrow as pa, pyarrow.parquet as pq, tempfile, os
            >>> path = os.path.join(tempfile.mkdtemp(), "t.parquet")
            >>> pq.write_table(pa.table({"x": ["a", "b", None, "a"]}), path)
            >>> ia.open(path).value_counts("x", limit=2).to_pylist()
            [{'value': 'a', 'count': 2}, {'value': 'b', 'count': 1}]
        """
        return self.scan(where, [], parameters=parameters, on_error=on_error).value_counts(column, limit)

    def approx_distinct(
        self, column: str, where: Where = None, *, parameters: Parameters | None = None
    ) -> ApproximateCount:
        """Estimate the number of distinct values of a column, not counting null.

        The sketches of `Hll` indexes are merged. Only rows that they do not cover are read: files without an
        index and, with ``where``, granules in which not all rows are proven to match. For a partition column
        the number is exact.

        Args:
            column: The column, dotted if it is nested.
            where: As for `scan`.
            parameters: As for `scan`.

        Returns:
            The estimate with 95% bounds and a report; ``int()`` rounds it.

        Raises:
            PredicateError: If ``where`` cannot be parsed, or compares values of incompatible types.
            ColumnNotFoundError: If the table has no such column; the message suggests similar names.
            UnsupportedFeatureError: If distinct values of the column's type cannot be counted.

        Example:
            >>> import intarsia as ia, pyarrow as pa, pyarrow.parquet as pq, tempfile, os
            >>> path = os.path.join(tempfile.mkdtemp(), "t.parquet")
            >>> pq.write_table(pa.table({"x": [1, 2, 3, None] * 1000}), path)
            >>> _ = ia.attach(path, [ia.Hll("x")])
            >>> count = ia.open(path).approx_distinct("x")
            >>> int(count), count.report.rows_candidate
            (3, 0)
        """
        return self.scan(where, [], parameters=parameters).approx_distinct(column)

    def sketches(self, column: str, lg_config_k: int = 12) -> pa.Table:
        """Return a HyperLogLog sketch of each file's distinct values, for Spark.

        Spark's ``hll_sketch_estimate`` and ``hll_union_agg`` accept them, alone or with sketches that Spark's
        ``hll_sketch_agg`` computed from the same column. Files without an `Hll` index are read.

        Args:
            column: The column, dotted if it is nested.
            lg_config_k: Binary logarithm of the maximum number of registers. Spark merges only sketches with
                equal values; its default is 12.

        Returns:
            The columns ``path`` (string) and ``sketch`` (binary).

        Raises:
            ValueError: If ``lg_config_k`` is not from 4 to 21.
            ColumnNotFoundError: If the table has no such column; the message suggests similar names.
            UnsupportedFeatureError: If distinct values of its type cannot be counted, or a path is not UTF-8.

        Example:
            >>> rows = ia.open("lake").sketches("user")                                    # doctest: +SKIP
            >>> spark.createDataFrame(rows).selectExpr(                                    # doctest: +SKIP
            ...     "hll_sketch_estimate(hll_union_agg(sketch))")
        """
        return self.scan(None, []).sketches(column, lg_config_k)

    def sample(self, n: int | None = None, seed: int | None = None) -> pa.Table:
        """Draw rows uniformly without replacement; their order is undefined.

        Rows in embedded `Sample` indexes are used first; if they suffice, no data page is read. Otherwise
        only the pages with drawn rows are read.

        Args:
            n: Number of rows; all rows if there are fewer. None for as many as the files' samples are very
                likely to provide, or 1,000 without samples.
            seed: The same seed draws the same rows from the same files. The rows in an embedded sample do not
                depend on it, so draws with different seeds may have many rows in common.

        Returns:
            The rows, with the table's schema. ``table.scan(columns=…).sample(…)`` returns some of the columns
            and the scan then has a report.

        Raises:
            ValueError: If ``n`` or ``seed`` is negative.
            TypeError: If ``n`` or ``seed`` is not an integer.

        Example:
            >>> import intarsia as ia, pyarrow as pa, pyarrow.parquet as pq, tempfile, os
            >>> path = os.path.join(tempfile.mkdtemp(), "t.parquet")
            >>> pq.write_table(pa.table({"x": range(1000)}), path)
            >>> _ = ia.attach(path, [ia.Sample(100)])
            >>> ia.open(path).sample(seed=1).num_rows
            100
        """
        return self.scan().sample(n, seed)


def _check_arguments(limit: int | None, order_by: OrderBy | None, on_error: OnError) -> None:
    check_number("limit", limit)
    if order_by is not None and limit is None:
        raise ValueError("order_by needs a limit; to sort all rows, use scan.to_arrow().sort_by(…)")
    if on_error not in ("raise", "skip"):
        raise ValueError(f"on_error is {on_error!r}; it must be 'raise' or 'skip'")
    if order_by is not None and on_error == "skip":
        raise ValueError("order_by cannot skip bad files; scan without on_error")


class PreparedQuery:
    """A query of a table that is parsed once, made by `Table.prepare`.

    It can be used by several threads, and pickled.

    Example:
        >>> import intarsia as ia, pyarrow as pa, pyarrow.parquet as pq, tempfile, os
        >>> path = os.path.join(tempfile.mkdtemp(), "t.parquet")
        >>> pq.write_table(pa.table({"id": range(1000), "name": ["a", "b"] * 500}), path)
        >>> by_id = ia.open(path).prepare("id = ?", columns=["name"])
        >>> [by_id.scan([id]).to_pylist() for id in (7, 8)]
        [[{'name': 'b'}], [{'name': 'a'}]]
    """

    def __init__(self, where: SqlTemplate, scan: Callable[[Predicate], Scan]) -> None:
        self._where = where
        self._scan = scan

    def __repr__(self) -> str:
        return f"PreparedQuery({self._where.text!r})"

    def scan(self, parameters: Parameters | None = None) -> Scan:
        """Make a scan without running it.

        Args:
            parameters: The values of ``?`` as a list, or those of ``:name`` as a dict. ``IN ?`` takes a list.

        Raises:
            PredicateError: If the query has other parameters, or a value cannot be compared with its column.
        """
        return self._scan(self._where.bind(parameters))
