"""`ias.locate`: the places of keys, compared with a full read."""

import datetime as dt
from decimal import Decimal
from urllib.parse import unquote

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

import intarsia as ia
from intarsia import spark as ias
from intarsia.errors import ColumnNotFoundError
from intarsia.spark.querying import MAX_KEYS
from tests.spark.comparing import settings
from tests.spark.skipping import dropped


@pytest.fixture(scope="module")
def lake(tmp_path_factory):
    folder = tmp_path_factory.mktemp("locate") / "la ke"
    for part in range(4):
        numbers = np.arange(part * 1000, part * 1000 + 2000) % 5000  # two files have most keys
        table = pa.table(
            {
                "user": pa.array([None if n % 97 == 0 else int(n) for n in numbers], pa.int32()),
                "name": [f"u{n}" for n in numbers],
                "path": [f"/p/{n}" for n in numbers],
                "day": [dt.date(2020, 1, 1) + dt.timedelta(days=int(n)) for n in numbers],
                "amount": pa.array([Decimal(int(n)) / 4 for n in numbers], pa.decimal128(10, 2)),
            }
        )
        place = folder / f"p={part % 2}" / f"part {part}.parquet"
        place.parent.mkdir(parents=True, exist_ok=True)
        pq.write_table(table, place, row_group_size=700)
    ia.attach(folder, [ia.PageIndex(), ia.Bloom("user"), ia.Distinct("name")])
    return folder


def test_a_table_with_files_that_the_session_has_not_listed(spark, tmp_path):
    folder, copy = tmp_path / "table", tmp_path / "copy"
    spark.range(10).coalesce(1).write.parquet(str(folder))
    with dropped(spark, "grows"):
        spark.sql(f"CREATE TABLE grows USING parquet LOCATION '{folder}'")
        assert spark.table("grows").count() == 10
        pq.write_table(pa.table({"id": range(10, 12)}), folder / "new.parquet")
        keys = spark.createDataFrame([(3,), (11,)], "id LONG")
        assert places(ias.locate(spark, keys, "grows", key="id"))[-1] == (11, "new.parquet", 1)
        pq.write_table(pa.table({"id": range(12, 15)}), folder / "newer.parquet")
        assert ias.optimize(spark, "grows", str(copy), progress=False).num_rows == 15


def places(frame):
    return sorted((*row[:-2], unquote(row[-2]).rpartition("/")[2], row[-1]) for row in frame.collect())


def expected(lake, column, values):
    """Read everything, and compare in Python."""
    found = []
    for path in sorted(lake.rglob("*.parquet")):
        rows = pq.read_table(path, partitioning=None)[column].to_pylist()
        found += [(value, path.name, row) for row, value in enumerate(rows) if value in values]
    return sorted(found)


@pytest.mark.parametrize("data_type", ["DATE", "TIMESTAMP", "TIMESTAMP_NTZ"])
def test_keys_that_python_lacks(spark, tmp_path, data_type):
    """Days and times before the year 1 and after 9999."""
    day = "date_from_unix_date(id * 900000 - 1800000)"
    days = spark.range(10).selectExpr(f"CAST({day} AS {data_type}) AS day")
    days.coalesce(1).write.parquet(str(tmp_path / "lake"))
    found = ias.locate(spark, days, str(tmp_path / "lake"), key="day")
    assert sorted(row.row for row in found.select("row").collect()) == list(range(10))


@pytest.mark.parametrize(
    ("column", "values", "schema"),
    [
        ("user", [5, 4999, 1500, 1500, -7, None], "user INT"),
        ("user", [5, 2**40], "user BIGINT"),
        ("name", ["u5", "u1500", "none", None], "name STRING"),
        ("path", ["/p/1500"], "path STRING"),
        ("day", [dt.date(2021, 1, 1), dt.date(1900, 1, 1)], "day DATE"),
        ("amount", [Decimal("2.25"), Decimal("0.01")], "amount DECIMAL(10, 2)"),
        ("user", [-1], "user INT"),
        ("user", [None], "user INT"),
        ("user", [], "user INT"),
    ],
)
def test_the_places_of_keys(spark, lake, column, values, schema):
    keys = spark.createDataFrame([(value, "other") for value in values], f"{schema}, other STRING")
    found = ias.locate(spark, keys, str(lake), key=column)
    assert found.columns == [column, "path", "row"]
    assert places(found) == expected(lake, column, {value for value in values if value is not None})


def test_keys_of_several_columns_and_other_names(spark, lake):
    keys = spark.createDataFrame([(5, "u5"), (6, "u5"), (None, "u7")], "id INT, label STRING")
    found = ias.locate(spark, keys, str(lake), key={"id": "user", "label": "name"})
    assert found.columns == ["id", "label", "path", "row"]
    assert {row[:2] for row in places(found)} == {(5, "u5")}
    alone = ias.locate(spark, keys.withColumnRenamed("id", "user"), str(lake), key=["user"])
    assert {row[0] for row in places(alone)} == {5, 6}


def test_keys_of_another_type(spark, lake):
    """Spark's equality decides; a list of texts would be compared in another way."""
    with settings(spark, {"spark.sql.ansi.enabled": "false"}):
        keys = spark.createDataFrame([("05",), ("x",)], "user STRING")
        assert {row[-2:] for row in places(ias.locate(spark, keys, str(lake), key="user"))} == {
            row[-2:] for row in expected(lake, "user", {5})
        }


def test_few_keys_read_few_files(spark, lake):
    keys = spark.createDataFrame([(500,)], "user INT")
    assert len(ias.locate(spark, keys, str(lake), key="user").inputFiles()) < 4
    many = spark.range(MAX_KEYS + 1).selectExpr("INT(id) AS user")
    assert ias.locate(spark, many, str(lake), key="user").count() == 8000 - sum(
        pq.read_table(path)["user"].null_count for path in lake.rglob("*.parquet")
    )


def test_wrong_keys(spark, lake):
    keys = spark.createDataFrame([(5,)], "user INT")
    for key, column in (("nowhere", "nowhere"), ({"user": "nowhere"}, "nowhere")):
        with pytest.raises(ColumnNotFoundError) as caught:
            ias.locate(spark, keys, str(lake), key=key)
        assert caught.value.column == column
    with pytest.raises(ValueError, match="key"):
        ias.locate(spark, keys, str(lake), key=[])
