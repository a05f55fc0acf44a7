"""The readers: each opens a file or folder and runs queries on it."""

from __future__ import annotations

import os
from collections.abc import Callable
from importlib import metadata
from typing import Any, Protocol

import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.dataset as ds
import pyarrow.fs

from benchmarks import extension
from benchmarks.queries import Query

#: The prefix of paths in the object store that the environment configures.
S3 = "s3://"


def _keys(key_id: str, secret: str) -> dict[str, str]:
    """Return the credentials of the object store under the names that a reader expects."""
    return {key_id: os.environ["AWS_ACCESS_KEY_ID"], secret: os.environ["AWS_SECRET_ACCESS_KEY"]}


class Opened(Protocol):
    """A file or folder that a reader has opened."""

    def run(self, query: Query) -> Any:
        """Return the rows in the reader's own format, in memory, or the value of an aggregate."""

    def to_arrow(self, answer: Any) -> pa.Table:
        """Convert rows to Arrow; not timed."""


class Intarsia:
    def __init__(self, path: str) -> None:
        import intarsia as ia

        self._table = ia.open(path)

    def run(self, query: Query) -> Any:
        # keep only the report: the scan would keep its result in memory
        if query.total is not None:
            function = "count" if query.total == "*" else "sum"
            totals = self._table.aggregate({query.total: function}, query.where)
            self.report = totals.report
            return totals[query.total][function]
        order = None if query.top is None else f"{query.top} DESC"
        scan = self._table.scan(query.where, query.columns, query.limit, order)
        answer = scan.to_arrow()
        self.report = scan.report
        return answer

    def to_arrow(self, answer: pa.Table) -> pa.Table:
        return answer


class Pyarrow:
    def __init__(self, path: str) -> None:
        filesystem = None
        if path.startswith(S3):
            endpoint = os.environ["AWS_ENDPOINT_URL"].removeprefix("http://")
            filesystem = pa.fs.S3FileSystem(
                endpoint_override=endpoint, scheme="http", **_keys("access_key", "secret_key")
            )
        self._dataset = ds.dataset(path.removeprefix(S3), filesystem=filesystem)

    def run(self, query: Query) -> Any:
        if query.top is not None:
            raise NotImplementedError("a dataset cannot read the first rows in an order")
        chosen, column = None, pc.field(query.column)
        if query.equals is not None:
            chosen = column == query.equals
        elif query.contains is not None:
            chosen = pc.match_substring(column, query.contains)
        elif query.among is not None:
            chosen = column.isin(pa.array(query.among))
        elif query.start is not None:
            chosen = (column >= query.start) & (column < query.stop)
            if query.is_point:
                chosen = column == query.start
        if query.total == "*":
            return self._dataset.count_rows(filter=chosen)
        if query.total is not None:
            return pc.sum(self._dataset.to_table([query.total], filter=chosen)[0]).as_py()
        columns = None if query.columns is None else list(query.columns)
        return self._dataset.to_table(columns, filter=chosen)

    def to_arrow(self, answer: pa.Table) -> pa.Table:
        return answer


class Polars:
    def __init__(self, path: str) -> None:
        import polars as pl

        self._pl = pl
        options = None
        if path.startswith(S3):
            options = {
                **_keys("aws_access_key_id", "aws_secret_access_key"),
                "aws_region": os.environ["AWS_REGION"],
                "aws_endpoint_url": os.environ["AWS_ENDPOINT_URL"],
                "aws_allow_http": "true",
            }
            path = f"{path}*.parquet"
        self._frame = pl.scan_parquet(path, storage_options=options)

    def run(self, query: Query) -> Any:
        frame, column = self._frame, self._pl.col(query.column)
        if query.is_point or query.equals is not None:
            frame = frame.filter(column == (query.start if query.is_point else query.equals))
        elif query.contains is not None:
            frame = frame.filter(column.str.contains(query.contains, literal=True))
        elif query.among is not None:
            frame = frame.filter(column.is_in(query.among))
        elif query.start is not None:
            frame = frame.filter((column >= query.start) & (column < query.stop))
        if query.total == "*":
            return frame.select(self._pl.len()).collect().item()
        if query.total is not None:
            return frame.select(self._pl.col(query.total).sum()).collect().item()
        if query.top is not None:
            frame = frame.sort(query.top, descending=True, nulls_last=True).head(query.limit)
        return (frame if query.columns is None else frame.select(query.columns)).collect()

    def to_arrow(self, answer: Any) -> pa.Table:
        return answer.to_arrow()


class DuckDB:
    def __init__(self, path: str) -> None:
        import duckdb

        self._connection = duckdb.connect()
        is_stored = path.startswith(S3)
        if is_stored:
            self._connection.load_extension("httpfs")  # fails unless `INSTALL httpfs` has downloaded it
            keys = _keys("KEY_ID", "SECRET")
            endpoint = os.environ["AWS_ENDPOINT_URL"].removeprefix("http://")
            self._connection.execute(
                f"CREATE SECRET (TYPE s3, ENDPOINT '{endpoint}', URL_STYLE 'path', USE_SSL false, "
                + ", ".join(f"{name} '{value}'" for name, value in keys.items())
                + ")"
            )
        is_folder = is_stored or os.path.isdir(path)
        self._source = f"read_parquet('{path}/*.parquet')" if is_folder else f"read_parquet('{path}')"

    def run(self, query: Query) -> Any:
        relation = self._connection.sql(query.sql(self._source))
        return relation.to_arrow_table() if query.total is None else relation.fetchall()[0][0]

    def to_arrow(self, answer: pa.Table) -> pa.Table:
        return answer


class DataFusion:
    def __init__(self, path: str) -> None:
        import datafusion

        self._context = datafusion.SessionContext()
        if path.startswith(S3):
            store = datafusion.object_store.AmazonS3(
                path.removeprefix(S3).partition("/")[0],
                region=os.environ["AWS_REGION"],
                endpoint=os.environ["AWS_ENDPOINT_URL"],
                allow_http=True,
                **_keys("access_key_id", "secret_access_key"),
            )
            self._context.register_object_store(S3, store, path.removeprefix(S3).partition("/")[0])
        self._context.register_parquet("t", path)

    def run(self, query: Query) -> Any:
        answer = self._context.sql(query.sql("t")).to_arrow_table()
        return answer if query.total is None else answer[0][0].as_py()

    def to_arrow(self, answer: pa.Table) -> pa.Table:
        return answer


#: Readers by name; Intarsia is first, then Intarsia with the native extension.
ENGINES: dict[str, Callable[[str], Opened]] = {
    "intarsia": Intarsia,
    extension.NATIVE: extension.Remote,
    "pyarrow": Pyarrow,
    "polars": Polars,
    "duckdb": DuckDB,
    "datafusion": DataFusion,
}


def installed() -> list[str]:
    """Return the readers to compare: all, but the native extension only where it is installed."""
    return [name for name in ENGINES if name != extension.NATIVE or extension.is_installed()]


def version(engine: str) -> str:
    """Return the installed version of a reader."""
    try:
        return metadata.version(engine)
    except metadata.PackageNotFoundError:
        return "?"
