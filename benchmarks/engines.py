"""The readers: each opens a file or folder (cold), and answers on what it has opened (warm)."""

from __future__ import annotations

import os
from collections.abc import Callable
from importlib import metadata
from typing import Any, Protocol

import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.dataset as ds

from benchmarks.questions import Question


class Opened(Protocol):
    """A reader that has opened a file."""

    def ask(self, question: Question) -> Any:
        """The rows, in memory in the reader's own form; the number that a total comes to."""

    def to_arrow(self, answer: Any) -> pa.Table:
        """Rows as Arrow has them; not timed."""


class Intarsia:
    def __init__(self, path: str) -> None:
        import intarsia as ia

        self._table = ia.open(path)

    def ask(self, question: Question) -> Any:
        # of the scan, only the report is kept: an answer must not outlive its turn
        if question.total is not None:
            function = "count" if question.total == "*" else "sum"
            totals = self._table.aggregate({question.total: function}, question.where)
            self.report = totals.report
            return totals[question.total][function]
        scan = self._table.scan(question.where, question.columns)
        answer = scan.to_arrow()
        self.report = scan.report
        return answer

    def to_arrow(self, answer: pa.Table) -> pa.Table:
        return answer


class Pyarrow:
    def __init__(self, path: str) -> None:
        self._dataset = ds.dataset(path)

    def ask(self, question: Question) -> Any:
        chosen = None
        if question.start is not None:
            column = pc.field(question.column)
            chosen = (column >= question.start) & (column < question.stop)
            if question.is_point:
                chosen = column == question.start
        if question.total == "*":
            return self._dataset.count_rows(filter=chosen)
        if question.total is not None:
            return pc.sum(self._dataset.to_table([question.total], filter=chosen)[0]).as_py()
        columns = None if question.columns is None else list(question.columns)
        return self._dataset.to_table(columns, filter=chosen)

    def to_arrow(self, answer: pa.Table) -> pa.Table:
        return answer


class Polars:
    def __init__(self, path: str) -> None:
        import polars as pl

        self._pl = pl
        self._frame = pl.scan_parquet(path)

    def ask(self, question: Question) -> Any:
        frame, column = self._frame, self._pl.col(question.column)
        if question.is_point:
            frame = frame.filter(column == question.start)
        elif question.start is not None:
            frame = frame.filter((column >= question.start) & (column < question.stop))
        if question.total == "*":
            return frame.select(self._pl.len()).collect().item()
        if question.total is not None:
            return frame.select(self._pl.col(question.total).sum()).collect().item()
        return (frame if question.columns is None else frame.select(question.columns)).collect()

    def to_arrow(self, answer: Any) -> pa.Table:
        return answer.to_arrow()


class DuckDB:
    def __init__(self, path: str) -> None:
        import duckdb

        self._connection = duckdb.connect()
        self._source = (
            f"read_parquet('{path}/*.parquet')" if os.path.isdir(path) else f"read_parquet('{path}')"
        )

    def ask(self, question: Question) -> Any:
        relation = self._connection.sql(question.sql(self._source))
        return relation.to_arrow_table() if question.total is None else relation.fetchall()[0][0]

    def to_arrow(self, answer: pa.Table) -> pa.Table:
        return answer


class DataFusion:
    def __init__(self, path: str) -> None:
        import datafusion

        self._context = datafusion.SessionContext()
        self._context.register_parquet("t", path)

    def ask(self, question: Question) -> Any:
        answer = self._context.sql(question.sql("t")).to_arrow_table()
        return answer if question.total is None else answer[0][0].as_py()

    def to_arrow(self, answer: pa.Table) -> pa.Table:
        return answer


#: Readers by name; Intarsia first, since it is compared with the others.
ENGINES: dict[str, Callable[[str], Opened]] = {
    "intarsia": Intarsia,
    "pyarrow": Pyarrow,
    "polars": Polars,
    "duckdb": DuckDB,
    "datafusion": DataFusion,
}


def version(engine: str) -> str:
    """The version of a reader, as it is installed."""
    try:
        return metadata.version(engine)
    except metadata.PackageNotFoundError:
        return "?"
