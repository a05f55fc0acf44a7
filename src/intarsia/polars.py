"""Lazy scans for Polars: `scan` returns a ``polars.LazyFrame`` whose predicates skip pages.

Needs Polars 1.36 or newer.

Example:
    >>> import intarsia as ia, polars as pl, pyarrow as pa, pyarrow.parquet as pq, tempfile, os
    >>> from intarsia.polars import scan
    >>> path = os.path.join(tempfile.mkdtemp(), "t.parquet")
    >>> pq.write_table(pa.table({"x": range(1000)}), path)
    >>> scan(path).filter(pl.col("x") == 42).collect().rows()
    [(42,)]
"""

from __future__ import annotations

from collections.abc import Iterator

import polars as pl
import pyarrow as pa
from polars.io.plugins import register_io_source

from intarsia.arrow.owned_rows import no_rows
from intarsia.lake.dataset import TableDataset
from intarsia.lake.opening import Source, open
from intarsia.lake.scan import check_polars_types
from intarsia.lake.table import Table
from intarsia.predicate import Predicate
from intarsia.predicate.polars_expressions import necessary_conditions

__all__ = ["scan"]


def scan(source: Source | Table | TableDataset) -> pl.LazyFrame:
    """Scan a file or a lake lazily with Polars.

    Polars passes the columns, predicates and row limits of a query. Intarsia reads only the pages that can
    contain matching rows. Polars then evaluates the predicates, so the result has Polars' rules for nulls
    and NaN.

    Args:
        source: As for `intarsia.open`; or a table; or a dataset, whose ``last_report`` is then the report of
            the last query.

    Raises:
        FileNotFoundError: If a path does not exist, or a folder contains no Parquet file.

    Example:
        >>> import intarsia as ia, polars as pl, pyarrow as pa, pyarrow.parquet as pq, tempfile, os
        >>> path = os.path.join(tempfile.mkdtemp(), "t.parquet")
        >>> rows = pa.table({"x": range(1000), "s": ["a", "b"] * 500})
        >>> pq.write_table(rows, path, row_group_size=100)
        >>> dataset = ia.open(path).dataset()
        >>> wanted = (pl.col("x") < 3) & (pl.col("s").str.to_uppercase() == "B")
        >>> scan(dataset).filter(wanted).select("x").collect().rows()
        [(1,)]
        >>> dataset.last_report.row_groups_read
        1
    """
    if isinstance(source, TableDataset):
        dataset = source
    else:
        dataset = (source if isinstance(source, Table) else open(source)).dataset()

    def read(
        with_columns: list[str] | None, predicate: pl.Expr | None, n_rows: int | None, batch_size: int | None
    ) -> Iterator[pl.DataFrame]:
        columns = with_columns
        if columns is not None and predicate is not None:
            columns = list(dict.fromkeys([*columns, *predicate.meta.root_names()]))
        implied: list[Predicate] = []
        if (
            predicate is not None and n_rows is None
        ):  # else Polars takes the first rows before it evaluates it
            implied = necessary_conditions(predicate, dataset.schema)
        scanner = dataset.scanner(columns, batch_size=batch_size, implied=implied)
        for rows in scanner.to_batches() if n_rows is None else [scanner.head(n_rows)]:
            frame = _frame(rows)
            kept = frame if predicate is None else frame.filter(predicate)
            yield kept if with_columns is None else kept.select(with_columns)

    def schema() -> pl.Schema:
        check_polars_types(dataset.schema)
        return _frame(no_rows(dataset.schema)).schema

    return register_io_source(read, schema=schema)


def _frame(rows: pa.Table | pa.RecordBatch) -> pl.DataFrame:
    frame = pl.from_arrow(rows)
    assert isinstance(frame, pl.DataFrame)
    return frame
