"""pyarrow expressions as ``where`` of `read` and `explain`: Spark gets them as SQL text."""

from __future__ import annotations

import datetime as dt
from decimal import Decimal

import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.dataset as ds
import pyarrow.parquet as pq
import pytest

import intarsia as ia
from intarsia import spark as ias
from intarsia.predicate import parse_expression
from intarsia.spark.sql_text import spark_sql

pytestmark = [pytest.mark.spark, pytest.mark.xdist_group("spark")]

UTC = dt.timezone.utc
x, s, d, t, w, n, f, y, b = map(pc.field, ("x", "s", "d", "t", "w", "n", "f", "y", "b"))
ODD = ["a\\b", "it's", 'a "b"', "50%", "a_b", "new\nline", "é\u2028", "-- not a comment /*"]

#: Expressions, and the number of files that they leave.
EXPRESSIONS = [
    (x == 150, 1),
    (pc.scalar(250) <= x, 1),
    ((x >= 90) & (x < 110), 2),
    (~x.isin([1, 2, 3]), 3),
    (x.isin([5, 205, None]), 3),
    (x.is_null() | (x == 299), 3),
    (s.isin(ODD), 3),
    (pc.starts_with(s, "a_"), 3),
    (pc.ends_with(s, "'s"), 3),
    (pc.match_substring(s, "\\"), 3),
    (pc.match_like(s, "A%", ignore_case=True), 3),
    (d > dt.date(2020, 7, 1), 2),
    (t == dt.datetime(2020, 1, 1, 12, 0, 0, 3, tzinfo=UTC), 1),
    (w >= dt.datetime(2020, 9, 1, 1), 1),
    (n == Decimal("12.50"), 3),
    (f < 149.75, 2),
    (f > 149.75, 3),  # NaN, which bounds leave out, is greater for Spark
    (y == b"\x00\xff", 3),
    (b & ~(x < 200), 1),
    (pc.field("r", "a") == 250, 1),
    (pc.field("odd `name`") == 1, 3),
    (pc.scalar(False), 0),
    (x == pa.scalar(None, pa.int64()), 0),
]


def part(first):
    values = range(first, first + 100)
    day = dt.datetime(2020, 1, 1, 12)
    return pa.table(
        {
            "x": pa.array([None if value % 100 == 7 else value for value in values], pa.int64()),
            "s": [ODD[value % len(ODD)] for value in values],
            "d": [dt.date(2020, 1, 1) + dt.timedelta(days=value) for value in values],
            "t": pa.array(
                [day + dt.timedelta(microseconds=value) for value in values], pa.timestamp("us", "UTC")
            ),
            "w": pa.array([day + dt.timedelta(days=value) for value in values], pa.timestamp("us")),
            "n": pa.array([Decimal(value % 50) / 2 for value in values], pa.decimal128(9, 2)),
            "f": [value - 0.25 for value in values],
            "y": [b"\x00\xff" if value % 2 else b"" for value in values],
            "b": [value % 3 == 0 for value in values],
            "r": [{"a": value} for value in values],
            "odd `name`": [value % 5 for value in values],
        }
    )


@pytest.fixture(scope="module")
def lake(tmp_path_factory):
    folder = tmp_path_factory.mktemp("lake")
    for first in (0, 100, 200):
        pq.write_table(part(first), folder / f"{first:03}.parquet")
    return str(folder)


@pytest.mark.parametrize(("expression", "files"), EXPRESSIONS, ids=str)
def test_the_rows_are_those_of_pyarrow(spark, lake, expression, files):
    frame = ias.read(spark, lake, where=expression, columns=["x", "d"])
    expected = ds.dataset(lake).filter(expression).to_table(["x", "d"]).to_pylist()
    assert sorted((row.d, row.x) for row in frame.collect()) == sorted(
        (row["d"], row["x"]) for row in expected
    )
    assert len(frame.inputFiles()) <= files


def test_explain_takes_expressions(spark, lake):
    assert ias.explain(spark, lake, where=x == 150).files_read == 1
    assert ias.explain(spark, lake, where=x == 1000).files_read == 0


@pytest.mark.parametrize(
    "expression",
    [
        pc.match_substring_regex(s, "a+"),
        pc.utf8_lower(s) == "a",
        pc.year(w) == 2020,
        w == pa.scalar(1, pa.timestamp("ns")),
        x == dt.timedelta(seconds=1),
        x == dt.time(1),
        n == pa.scalar(Decimal(10) ** 50, pa.decimal256(76, 0)),
    ],
    ids=str,
)
def test_what_spark_would_read_otherwise_is_refused(expression):
    with pytest.raises(ia.PredicateError) as caught:
        spark_sql(parse_expression(expression))
    assert caught.value.reason == "not-in-spark"
    assert caught.value.column is not None
