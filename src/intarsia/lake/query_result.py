"""The result of a query for other libraries: pandas, Polars, DuckDB, and Arrow streams."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Iterator
from importlib import import_module
from typing import TYPE_CHECKING, Any, NoReturn

import pyarrow as pa

if TYPE_CHECKING:
    import duckdb
    import pandas as pd
    import polars as pl


class QueryResult(ABC):
    """The rows of a query, which runs each time that they are requested.

    Attributes:
        schema: The schema of the rows.
    """

    schema: pa.Schema

    @abstractmethod
    def to_arrow(self) -> pa.Table:
        """Run the query and return the rows."""

    @abstractmethod
    def __iter__(self) -> Iterator[pa.RecordBatch]:
        """Run the query and yield the rows."""

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

        Example:
            >>> import intarsia as ia, pyarrow as pa, pyarrow.parquet as pq, tempfile, os
            >>> path = os.path.join(tempfile.mkdtemp(), "t.parquet")
            >>> pq.write_table(pa.table({"x": range(1000)}), path)
            >>> ia.open(path).scan("x < 3").to_polars()["x"].sum()
            3
        """
        frame: pl.DataFrame = _import_for("to_polars", "polars").from_arrow(self.to_arrow(), **options)
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
        return pa.RecordBatchReader.from_batches(self.schema, iter(self))

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
