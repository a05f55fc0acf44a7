"""Many files as one table: `open` and `Table`."""

from __future__ import annotations

import os
from collections.abc import Mapping, Sequence

import pyarrow as pa

from intarsia.lake.data_file import FileSource
from intarsia.lake.discovery import find_files
from intarsia.lake.scan import Scan
from intarsia.lake.split import Split
from intarsia.lake.table_files import TableFiles
from intarsia.predicate import Where, parse_predicate
from intarsia.read.aggregate import Aggregate
from intarsia.read.approximate import ApproximateCount
from intarsia.read.report import ScanReport


def open(
    source: str | os.PathLike[str] | Sequence[str | os.PathLike[str]] | FileSource,
) -> Table:
    """Open a Parquet file or a lake of them.

    Args:
        source: A file, a folder, a glob, or a list of these, as local paths or URLs (without globs); or a
            `FileSource`. Of a folder, files named ``*.parquet``, ``*.parq`` and ``*.pq`` are taken, and files
            without an extension that begin with ``PAR1``, which takes one small read of each. Files that are
            named, by themselves or by a glob, are taken whatever their extension. Folders named
            ``column=value`` below a folder, or from a glob's first wildcard on, become partition columns; a
            file that is named by itself has none.

    Returns:
        A table; no file has been read, only listed.

    Raises:
        FileNotFoundError: If there is no such file, or no Parquet file in a folder.
        ListingError: If a symbolic link leads back to a folder that it lies in.
        ObjectStoreError: If a store behind a URL cannot be reached, refuses the request, or is not known.

    Example:
        >>> import intarsia as ia, pyarrow as pa, pyarrow.parquet as pq, tempfile, os
        >>> path = os.path.join(tempfile.mkdtemp(), "t.parquet")
        >>> pq.write_table(pa.table({"x": range(1000)}), path)
        >>> ia.open(path).scan(where="x = 42").to_arrow().to_pylist()
        [{'x': 42}]
    """
    if isinstance(source, FileSource):
        return Table(source.list_files())
    found = find_files(source)
    return Table(found.files, found.others, found.reads)


class Table(TableFiles):
    """Parquet files as one table.

    The columns are those of the first file, with the partition columns at their end, as in
    ``pyarrow.parquet.read_table``. A column that another file lacks is null there. One that has other types
    in other files has the widest of them (``int32`` and ``int64``: ``int64``); predicates are bound to the
    types of each file.

    Parsed metadata of files (footers, page indexes, directories) is kept, up to about 256 MiB of it, as long
    as the file is unchanged.

    Attributes:
        files: The files: those of a folder or glob ordered by path, a list in its own order. Each has
            ``path``, ``size_bytes`` and ``partition``.
        other_files: Paths of the files in folders that are not Parquet and were left alone, without hidden
            files and checksums.
        listing_reads: Requests and bytes read to decide on files without an extension; reports of scans do
            not contain them.
        schema: The schema; the footer of every file is read for it, once.
    """

    def __repr__(self) -> str:
        num_files = len(self.files)
        more = f" and {num_files - 1} more" if num_files > 1 else ""
        return f"Table({self.files[0].path!r}{more})"

    def scan(
        self, where: Where = None, columns: Sequence[str] | None = None, limit: int | None = None
    ) -> Scan:
        """A scan, not yet run.

        Rows come in the order of the files, and within a file in its order.

        NaN compares as in Arrow: only ``<>``, ``NOT …`` and ``IS NOT NULL`` match it. (Aggregates take it for
        greater than every number, as SQL does, and `intarsia.spark.read` compares as Spark.)

        Args:
            where: SQL text such as ``"user = 42 AND country IN ('Singapore')"``, pyarrow's
                ``[("user", "=", 42)]`` form, or nodes such as ``ia.Comparison("user", "=", 42)``; None for
                all rows. docs/cli.md says what the SQL may hold.
            columns: Columns of the result; a dotted path is a field of a struct. None for all.
            limit: The maximum number of rows; None for all.

        Returns:
            The scan: an Arrow stream of the rows, which can also count and aggregate them.

        Raises:
            ValueError: If ``limit`` is negative.
            PredicateError: If ``where`` cannot be understood, or compares what cannot be compared.
            ColumnNotFoundError: If a column is not there; near matches are named.

        Example:
            >>> import intarsia as ia, pyarrow as pa, pyarrow.parquet as pq, tempfile, os
            >>> path = os.path.join(tempfile.mkdtemp(), "t.parquet")
            >>> pq.write_table(pa.table({"x": range(1000), "y": ["a", "b"] * 500}), path)
            >>> table = ia.open(path)
            >>> table.scan("x < 3", columns=["y"]).to_arrow().to_pylist()
            [{'y': 'a'}, {'y': 'b'}, {'y': 'a'}]
            >>> where = ia.And((ia.Comparison("x", "<", 3), ia.In("y", ("a", "c"))))
            >>> [table.scan(condition).count() for condition in (where, str(where), [("x", "<", 3)])]
            [2, 2, 3]
        """
        if limit is not None and limit < 0:
            raise ValueError(f"limit is {limit}; it must be 0 or more")
        return Scan(self, parse_predicate(where), columns, limit)

    def explain(
        self, where: Where = None, columns: Sequence[str] | None = None, *, analyze: bool = False
    ) -> ScanReport:
        """What a scan would read, what each index excludes, and about how many rows match.

        The pages of columns that are not in the predicate are those of all candidate rows: an upper bound,
        since a scan reads them only where rows match. ``bytes_planned`` is the size of these pages,
        ``bytes_read`` what planning itself read, ``rows_estimated`` what histograms and samples say, or None.

        Args:
            where: As for `scan`.
            columns: As for `scan`.
            analyze: Also run the scan and drop its rows, to report what was read beside the estimate.
                Without it no data page is read, and ``rows_matched`` is None.

        Returns:
            The plan; ``to_dict()`` gives it as JSON holds it, with the keys that docs/cli.md lists.

        Raises:
            PredicateError: If ``where`` cannot be understood, or compares what cannot be compared.
            ColumnNotFoundError: If a column is not there; near matches are named.

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
        return self.scan(where, columns).explain(analyze=analyze)

    def plan(
        self, where: Where = None, columns: Sequence[str] | None = None, *, split_bytes: int | None = None
    ) -> list[Split]:
        """A scan as a list of parts that any process can read, such as the tasks of a cluster.

        Indexes are read here, once. A split names its file, row groups and rows, and can be pickled.

        Args:
            where: As for `scan`.
            columns: As for `scan`.
            split_bytes: Cut files at the borders of row groups into splits that take about this many bytes to
                read; None for one split per file.

        Returns:
            The splits, in the order of the files, without files and row groups that have no candidates.
            Together, they hold the rows of the scan.

        Raises:
            PredicateError: If ``where`` cannot be understood, or compares what cannot be compared.
            ColumnNotFoundError: If a column is not there; near matches are named.
            ValueError: If ``split_bytes`` is not positive.

        Example:
            >>> import intarsia as ia, pyarrow as pa, pyarrow.parquet as pq, tempfile, os
            >>> from concurrent.futures import ThreadPoolExecutor
            >>> folder = tempfile.mkdtemp()
            >>> for day in range(3):
            ...     rows = pa.table({"day": [day] * 4, "x": range(4)})
            ...     pq.write_table(rows, os.path.join(folder, f"{day}.parquet"))
            >>> splits = ia.open(folder).plan("day > 0 AND x = 3")
            >>> with ThreadPoolExecutor() as tasks:  # or Ray, Dask, Spark: whatever runs tasks
            ...     pa.concat_tables(tasks.map(lambda split: split.to_arrow(), splits)).to_pylist()
            [{'day': 1, 'x': 3}, {'day': 2, 'x': 3}]
        """
        return self.scan(where, columns).plan(split_bytes)

    def count(self, where: Where = None) -> int:
        """How many rows match.

        Rows that indexes prove to match are not read; without ``where``, only footers are read.
        ``table.scan(where).count()`` does the same, and the scan then has a report.

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
        return self.scan(where, []).count()

    def aggregate(self, functions: Mapping[str, Sequence[str] | str], where: Where = None) -> Aggregate:
        """Count, add up or find the extremes of the rows that match, as SQL does.

        Nulls are ignored, and ``sum``, ``min``, ``max`` and ``avg`` of nothing are None. NaN is greater than
        every number, and a sum with NaN is NaN. Integers and decimals are added exactly; ``avg`` of integers
        is a float, of decimals a ``Decimal`` with four more digits, halves rounded away from zero. Floats are
        added in double precision, pairwise within pieces that depend on what is read and what indexes know:
        the last digits may differ from another sum of the same rows.

        Row groups and granules that match as a whole are answered from statistics and `ZoneMap` indexes, so
        that only the pages at the edges are read. `explain` tells what a scan of the same columns would read.

        Args:
            functions: For each column (dotted if it is nested), of ``"count"`` (rows where it is not null),
                ``"sum"``, ``"min"``, ``"max"`` and ``"avg"``; ``"*"`` takes only ``"count"``, and counts
                rows.
            where: As for `scan`.

        Returns:
            A ``dict`` of Python values with the attribute ``report``. A value that Python cannot represent
            (nanoseconds) stays a pyarrow scalar.

        Raises:
            ValueError: If a function is unknown, or not defined for the column's type.
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
        return self.scan(where, []).aggregate(functions)

    def approx_distinct(self, column: str, where: Where = None) -> ApproximateCount:
        """About how many distinct values a column has, not counting null.

        Sketches of `Hll` indexes are merged, and only what they do not cover is read: files without one, and
        with ``where`` the granules in which some rows are not known to match. For a partition column the
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
        return self.scan(where, []).approx_distinct(column)

    def sketches(self, column: str, lg_config_k: int = 12) -> pa.Table:
        """A HyperLogLog sketch of each file's distinct values, for Spark.

        Spark's ``hll_sketch_estimate`` and ``hll_union_agg`` take them, also together with sketches by its
        own ``hll_sketch_agg`` over the same column; see `Hll` for the types that have no sketch. Files
        without an `Hll` index are read.

        Args:
            column: The column, dotted if it is nested.
            lg_config_k: Binary logarithm of the maximum number of registers. Spark merges only sketches with
                the same one; its default is 12.

        Returns:
            The columns ``path`` (string) and ``sketch`` (binary).

        Raises:
            ValueError: If ``lg_config_k`` is not from 4 to 21.
            ColumnNotFoundError: If the column is not there; near matches are named.
            UnsupportedFeatureError: If values of its type are not counted.

        Example:
            >>> rows = ia.open("lake").sketches("user")                                    # doctest: +SKIP
            >>> spark.createDataFrame(rows).selectExpr(                                    # doctest: +SKIP
            ...     "hll_sketch_estimate(hll_union_agg(sketch))")
        """
        return self.scan(None, []).sketches(column, lg_config_k)

    def sample(self, n: int | None = None, seed: int | None = None) -> pa.Table:
        """Rows of the table, drawn uniformly and without replacement, in no particular order.

        Rows in embedded `Sample` indexes are taken first, and no data is read where these suffice. From other
        files the drawn rows are read, from the pages that hold them.

        Args:
            n: How many rows, or all if there are fewer. None: as many as the files' samples are very likely
                to provide, or 1,000 if there are no samples.
            seed: The same seed draws the same rows from the same files. The rows in an embedded sample do not
                depend on it, so draws with different seeds may have many rows in common.

        Returns:
            The rows, with the table's schema. ``table.scan(columns=…).sample(…)`` gives some of the columns,
            and a report of what was read.

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
