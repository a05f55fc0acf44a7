"""The readers: each opens a file (cold), and answers on what it has opened (warm)."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from importlib import metadata
from typing import Any, Protocol

import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.dataset as ds


@dataclass(frozen=True)
class Question:
    """Rows whose ``id`` lies in ``start, stop`` (half open); None for all rows."""

    start: int | None = None
    stop: int | None = None

    @property
    def where(self) -> str | None:
        if self.start is None:
            return None
        if self.stop == self.start + 1:
            return f"id = {self.start}"
        return f"id >= {self.start} AND id < {self.stop}"


class Opened(Protocol):
    """A reader that has opened a file."""

    def ask(self, question: Question) -> Any:
        """The rows, all columns of them, in memory in the reader's own form."""

    def to_arrow(self, answer: Any) -> pa.Table:
        """The rows as Arrow has them; not timed."""


class Intarsia:
    def __init__(self, path: str) -> None:
        import intarsia as ia

        self._table = ia.open(path)

    def ask(self, question: Question) -> pa.Table:
        scan = self._table.scan(question.where)
        answer = scan.to_arrow()
        self.report = scan.report  # the answer itself must not outlive its turn
        return answer

    def to_arrow(self, answer: pa.Table) -> pa.Table:
        return answer


class Pyarrow:
    def __init__(self, path: str) -> None:
        self._dataset = ds.dataset(path)

    def ask(self, question: Question) -> pa.Table:
        if question.start is None:
            return self._dataset.to_table()
        if question.stop == question.start + 1:
            return self._dataset.to_table(filter=pc.field("id") == question.start)
        wanted = (pc.field("id") >= question.start) & (pc.field("id") < question.stop)
        return self._dataset.to_table(filter=wanted)

    def to_arrow(self, answer: pa.Table) -> pa.Table:
        return answer


class Polars:
    def __init__(self, path: str) -> None:
        import polars as pl

        self._pl = pl
        self._frame = pl.scan_parquet(path)

    def ask(self, question: Question) -> Any:
        column = self._pl.col("id")
        if question.start is None:
            return self._frame.collect()
        if question.stop == question.start + 1:
            return self._frame.filter(column == question.start).collect()
        return self._frame.filter((column >= question.start) & (column < question.stop)).collect()

    def to_arrow(self, answer: Any) -> pa.Table:
        return answer.to_arrow()


class DuckDB:
    def __init__(self, path: str) -> None:
        import duckdb

        self._connection = duckdb.connect()
        self._sql = f"SELECT * FROM read_parquet('{path}')"

    def ask(self, question: Question) -> pa.Table:
        where = f" WHERE {question.where}" if question.where else ""
        return self._connection.sql(self._sql + where).to_arrow_table()

    def to_arrow(self, answer: pa.Table) -> pa.Table:
        return answer


class DataFusion:
    def __init__(self, path: str) -> None:
        import datafusion

        self._context = datafusion.SessionContext()
        self._context.register_parquet("t", path)

    def ask(self, question: Question) -> pa.Table:
        where = f" WHERE {question.where}" if question.where else ""
        return self._context.sql(f"SELECT * FROM t{where}").to_arrow_table()

    def to_arrow(self, answer: pa.Table) -> pa.Table:
        return answer


#: Readers by name; Intarsia first, since the others are compared with it.
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
