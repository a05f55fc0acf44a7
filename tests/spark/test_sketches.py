"""Spark reads the sketches of Hll and merges them with its own, because equal values have equal hashes."""

import datetime as dt
from decimal import Decimal

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

import intarsia as ia

pytestmark = pytest.mark.spark

ROWS = 3000
TABLE = pa.table(
    {
        "int": pa.array([i * 7 - 5000 for i in range(ROWS)], pa.int32()),
        "long": pa.array([(i - 1500) << 40 for i in range(ROWS)], pa.int64()),
        "text": pa.array([None if i % 10 == 0 else f"ü {i}" for i in range(ROWS)]),
        "binary": pa.array([b"\xff\xfe" + bytes([i % 256, i // 256]) for i in range(ROWS)], pa.binary()),
        "empty": pa.array(["", "a", "b"] * (ROWS // 3)),
        "flag": pa.array([i % 2 == 0 for i in range(ROWS)]),
        "date": pa.array([dt.date(2000, 1, 1) + dt.timedelta(days=i) for i in range(ROWS)]),
        "time": pa.array([i * 1001 for i in range(ROWS)], pa.timestamp("us", "UTC")),
        "decimal": pa.array([Decimal(i) / 4 for i in range(ROWS)], pa.decimal128(9, 2)),
    }
)

#: A column, and the expression to hash in Spark.
HASHED = {
    "int": "int",
    "long": "long",
    "text": "text",
    "binary": "binary",
    "empty": "empty",
    "flag": "CAST(flag AS INT)",
    "date": "unix_date(date)",
    "time": "unix_micros(time)",
    "decimal": "CAST(decimal AS STRING)",
}


@pytest.fixture(scope="module")
def lake(tmp_path_factory):
    folder = tmp_path_factory.mktemp("lake")
    for place in range(2):
        path = folder / f"{place}.parquet"
        pq.write_table(TABLE.slice(place * 1500, 1500), path)
        ia.attach(path, [ia.Hll(column) for column in HASHED])
    return folder


@pytest.mark.parametrize("column", HASHED)
def test_spark_estimates_the_same_and_its_own_sketch_adds_no_values(spark, lake, column):
    table = ia.open(lake)
    spark.createDataFrame(table.sketches(column)).createOrReplaceTempView("sketches")
    spark.read.parquet(str(lake)).createOrReplaceTempView("rows")
    ours, both, own = spark.sql(
        f"""
        WITH ours AS (SELECT hll_union_agg(sketch) AS sketch FROM sketches),
             own AS (SELECT hll_sketch_agg({HASHED[column]}) AS sketch FROM rows)
        SELECT hll_sketch_estimate(ours.sketch),
               hll_sketch_estimate(hll_union(ours.sketch, own.sketch)),
               hll_sketch_estimate(hll_union(own.sketch, own.sketch))
        FROM ours, own
        """
    ).first()
    count = table.approx_distinct(column)
    assert count.unindexed == ()
    missing = 1 if column == "empty" else 0  # sketches omit the empty string; approx_distinct adds it
    assert ours == int(count) - missing
    assert both == ours == own


def test_spark_estimates_the_same_for_one_file(spark, lake):
    for column in ("long", "text", "binary"):
        table = ia.open(lake / "0.parquet")
        frame = spark.createDataFrame(table.sketches(column))
        (estimate,) = frame.selectExpr("hll_sketch_estimate(sketch)").first()
        assert estimate == int(table.approx_distinct(column))
