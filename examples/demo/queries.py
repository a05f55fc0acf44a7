"""Five queries on the flights, and the ways to run them, with and without Intarsia."""

from __future__ import annotations

import datetime as dt
import os
from collections import Counter
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq

from examples.demo.lakes import Spark

if TYPE_CHECKING:
    from intarsia.read.report import ScanReport


@dataclass(frozen=True)
class Query:
    """A query.

    Attributes:
        title: A short description.
        where: The condition in SQL, for both Spark and Intarsia.
        plainly: The same condition for pyarrow, written separately to be independent of Intarsia.
        columns: Columns of the result.
    """

    title: str
    where: str
    plainly: pc.Expression
    columns: tuple[str, ...] = ("month", "day", "carrier", "flight", "tailnum", "origin", "dest", "time_hour")


def queries() -> tuple[Query, ...]:
    """Return the queries; each is answered by another kind of index."""
    dest, tailnum, month, time_hour = map(pc.field, ("dest", "tailnum", "month", "time_hour"))
    start, stop = (dt.datetime(2013, 7, 4, hour, tzinfo=dt.timezone.utc) for hour in (12, 13))
    return (
        Query("the one flight to Lexington", "dest = 'LEX'", dest == "LEX"),
        Query("an aircraft only in December", "tailnum = 'N298PQ'", tailnum == "N298PQ"),
        Query(
            "an hour on 4 July",
            "month = 7 AND time_hour >= '2013-07-04 12:00:00' AND time_hour < '2013-07-04 13:00:00'",
            (month == 7) & (time_hour >= pa.scalar(start)) & (time_hour < pa.scalar(stop)),
        ),
        Query(
            "Anchorage, or one aircraft",
            "dest = 'ANC' OR tailnum = 'N557AS'",
            (dest == "ANC") | (tailnum == "N557AS"),
        ),
        Query(
            "an absent tail number",
            "tailnum LIKE 'N007%'",
            pc.starts_with(tailnum, "N007"),
        ),
    )


def run_spark(spark: Spark, path: str, query: Query) -> pa.Table:
    """Run a query with plain Spark."""
    frame = spark.read.parquet(path).where(query.where).select(*query.columns)
    table: pa.Table = frame.toArrow()
    return table


def run_spark_with_intarsia(spark: Spark, path: str, query: Query) -> pa.Table:
    """Run a query with Spark on the files that Intarsia does not exclude."""
    from intarsia import spark as ias

    frame = ias.read(spark, os.path.abspath(path), where=query.where, columns=list(query.columns))
    table: pa.Table = frame.toArrow()
    return table


def run_pyarrow(path: str, query: Query) -> pa.Table:
    """Run a query with plain pyarrow: read everything, then filter."""
    return pq.read_table(path).filter(query.plainly).select(list(query.columns))


def run_intarsia(path: str, query: Query) -> tuple[pa.Table, ScanReport]:
    """Run a query with a scan of Intarsia."""
    import intarsia

    scan = intarsia.open(path).scan(query.where, list(query.columns))
    return scan.to_arrow(), scan.report


def same_rows(one: pa.Table, other: pa.Table) -> bool:
    """Return whether two tables have the same rows in any order, ignoring differences of type."""
    return one.column_names == other.column_names and _rows(one) == _rows(other)


def _rows(table: pa.Table) -> Counter[tuple[Any, ...]]:
    return Counter(zip(*(_plain(column).to_pylist() for column in table.columns), strict=True))


def _plain(column: pa.ChunkedArray) -> pa.ChunkedArray:
    """Normalize the values of Spark, pandas and folder names."""
    kind = column.type
    if pa.types.is_dictionary(kind):
        return _plain(column.cast(kind.value_type))
    if pa.types.is_timestamp(kind):  # instants in UTC; flights leave at full minutes
        return column.cast(pa.timestamp("us", kind.tz)).cast(pa.int64())
    if pa.types.is_integer(kind):
        return column.cast(pa.int64())
    return column
