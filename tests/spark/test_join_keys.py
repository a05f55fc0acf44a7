"""Enabled sessions: keys of finished broadcasts, and values of subqueries, exclude files."""

import datetime as dt
from decimal import Decimal

import pyarrow as pa
import pytest

import intarsia as ia
import intarsia.spark as ias
from tests.lake.index.lakes import write
from tests.spark.comparing import settings
from tests.spark.skipping import SWITCH, compare

pytestmark = [pytest.mark.spark, pytest.mark.xdist_group("spark")]

FILES = 6
KEYS = {
    "by": pa.int8(),
    "sh": pa.int16(),
    "i": pa.int32(),
    "l": pa.int64(),
    "s": pa.string(),
    "dt": pa.date32(),
    "dec": pa.decimal128(9, 2),
    "wide": pa.decimal128(30, 5),
    "ts": pa.timestamp("us", tz="UTC"),
    "d": pa.float64(),
}


def rows_of(numbers):
    values = {
        "by": [number % 100 for number in numbers],
        "sh": list(numbers),
        "i": [number * 1000 for number in numbers],
        "l": [number - 2**40 for number in numbers],
        "s": [f"key {number:04}" for number in numbers],
        "dt": [dt.date(2020, 1, 1) + dt.timedelta(days=number) for number in numbers],
        "dec": [Decimal(number) / 4 for number in numbers],
        "wide": [Decimal(number) * 10**20 for number in numbers],
        "ts": [dt.datetime(2020, 1, 1) + dt.timedelta(hours=number) for number in numbers],
        "d": [number / 8 for number in numbers],
        "v": list(numbers),
    }
    return pa.table({name: pa.array(column, KEYS.get(name, pa.int64())) for name, column in values.items()})


@pytest.fixture(scope="module")
def enabled(spark, tmp_path_factory):
    folder = tmp_path_factory.mktemp("joins")
    for ordinal in range(FILES):
        table = rows_of(range(ordinal * 16, ordinal * 16 + 16))
        write(folder / "fact" / f"{ordinal}.parquet", table, [ia.PageIndex()], max_rows_per_page=4)
    small = rows_of([20, 22, 22, 520])
    nulls = pa.table({name: pa.nulls(1, small[name].type) for name in small.column_names})
    write(folder / "dim" / "a.parquet", pa.concat_tables([small, nulls]))
    spark.conf.set(SWITCH, "true")
    ias.enable(spark)
    for name in ("fact", "dim"):
        spark.read.parquet(str(folder / name)).createOrReplaceTempView(name)
    yield spark
    ias.disable(spark)
    spark.conf.unset(SWITCH)
    for name in ("fact", "dim"):
        spark.catalog.dropTempView(name)


@pytest.mark.parametrize("key", KEYS)
def test_keys_of_every_type(enabled, key):
    found = compare(
        enabled, lambda: enabled.sql(f"SELECT f.v, d.v FROM fact f JOIN dim d ON f.{key} = d.{key}")
    )
    assert found.plain_files == FILES + 1
    assert found.files == (2 if key != "d" else found.files)


ONE_FILE = {
    "SELECT v FROM fact WHERE i IN (SELECT i FROM dim)",
    "SELECT v FROM fact f WHERE EXISTS (SELECT 1 FROM dim d WHERE d.s = f.s)",
    "SELECT v FROM fact f LEFT SEMI JOIN dim d ON d.dt = f.dt",
    "SELECT d.v, f.v FROM dim d JOIN fact f ON d.l = f.l WHERE f.v > 3",
    "SELECT f.v FROM fact f JOIN dim d ON f.i = d.i AND f.s = d.s",
    "SELECT x.v FROM (SELECT v, i AS k FROM fact WHERE v >= 0) x JOIN dim d ON x.k = d.i",
    "SELECT f.v FROM fact f JOIN dim d ON f.i = d.i JOIN dim e ON f.s = e.s",
}

#: These keep rows without a match, or are not supported.
ALL_FILES = {
    "SELECT f.v, d.v FROM fact f LEFT JOIN dim d ON f.i = d.i",
    "SELECT f.v, d.v FROM dim d RIGHT JOIN fact f ON f.i = d.i",
    "SELECT f.v, d.v FROM dim d FULL JOIN fact f ON f.i = d.i",
    "SELECT v FROM fact f LEFT ANTI JOIN dim d ON f.i = d.i",
    "SELECT v FROM fact WHERE i NOT IN (SELECT i FROM dim WHERE i IS NOT NULL)",
    "SELECT v FROM fact WHERE i IN (SELECT i FROM dim) OR v = 3",
    "SELECT f.v FROM fact f JOIN dim d ON f.i <=> d.i",
    "SELECT f.v FROM fact f JOIN dim d ON f.i = d.l + 1099511627776 OR f.i = d.i AND f.v = 3",
    "SELECT f.v FROM fact f JOIN dim d ON f.i + 1 = d.i + 1",
    "SELECT /*+ MERGE(d) */ f.v FROM fact f JOIN dim d ON f.i = d.i",
    # the numbers would be others
    """SELECT x.v, x.r FROM (SELECT v, i, monotonically_increasing_id() AS r FROM fact) x
       JOIN dim d ON x.i = d.i""",
}


@pytest.mark.parametrize("sql", sorted(ONE_FILE | ALL_FILES))
def test_joins(enabled, sql):
    found = compare(enabled, lambda: enabled.sql(sql))
    assert (found.files <= 3) == (sql in ONE_FILE)


def test_two_scans_with_different_keys_are_not_mistaken_for_one(enabled):
    sql = """
        SELECT f.v FROM fact f JOIN dim d ON f.i = d.i UNION ALL
        SELECT f.v FROM fact f JOIN (SELECT * FROM dim WHERE v < 21) d ON f.i = d.i UNION ALL
        SELECT f.v FROM fact f JOIN (SELECT * FROM dim WHERE v > 21) d ON f.i = d.i UNION ALL
        SELECT v FROM fact
    """
    compare(enabled, lambda: enabled.sql(sql))


def test_many_keys_are_not_used(enabled):
    with settings(enabled, {SWITCH: "true"}):
        enabled.conf.set("spark.intarsia.maxJoinKeys", "2")
        found = compare(enabled, lambda: enabled.sql("SELECT f.v FROM fact f JOIN dim d ON f.i = d.i"))
        enabled.conf.unset("spark.intarsia.maxJoinKeys")
    assert found.files == FILES + 1


@pytest.mark.parametrize(
    ("where", "files"),
    [
        ("i = (SELECT max(i) FROM dim WHERE v < 100)", 1),
        ("s = (SELECT max(s) FROM dim WHERE v < 100)", 1),
        ("dt >= (SELECT max(dt) FROM dim WHERE v < 100) AND v < 30", 1),
        ("dec = (SELECT min(dec) FROM dim WHERE v < 100)", 1),
        ("ts <= (SELECT min(ts) FROM dim) AND v > 12", 2),
        ("v = (SELECT max(v) FROM dim WHERE v < 0)", 0),
        ("v > 80 AND i > (SELECT min(i) FROM dim)", 1),
        ("v = (SELECT 1 + max(v) FROM dim) OR i = 3000", FILES),
    ],
)
def test_values_of_scalar_subqueries(enabled, where, files):
    found = compare(enabled, lambda: enabled.sql(f"SELECT v FROM fact WHERE {where}"))
    assert found.files <= files + 1


def test_a_field_of_a_struct_is_not_mistaken_for_a_column_with_a_dot(enabled, tmp_path):
    for ordinal in range(FILES):
        table = pa.table({"a": [{"b": ordinal}], "a.b": [10 - ordinal], "a b": [ordinal]})
        write(tmp_path / f"{ordinal}.parquet", table)
    lake = enabled.read.parquet(str(tmp_path))
    # with both names in a file, Spark's own skipping loses rows
    with settings(enabled, {"spark.sql.parquet.filterPushdown": "false"}):
        for where in ("a.b = (SELECT min(v) - 18 FROM dim)", "`a.b` = (SELECT min(v) - 12 FROM dim)"):
            found = compare(enabled, lambda where=where: lake.where(where))
            assert len(found.rows) == 1
    found = compare(enabled, lambda: lake.where("`a b` = (SELECT min(v) - 18 FROM dim)"))
    assert (len(found.rows), found.files) == (1, 2)


def test_a_key_whose_name_with_dots_has_another_column(enabled, tmp_path):
    """Spark would push the condition on the key down to the other column."""
    for ordinal in range(FILES):
        values = {
            "a": [{"b": ordinal, "c.d": ordinal, "c": {"d": -1}}],
            "a.b": [5 - ordinal],
            "e.f": [ordinal],
        }
        write(tmp_path / f"{ordinal}.parquet", pa.table(values))
    enabled.read.parquet(str(tmp_path)).createOrReplaceTempView("dotted")
    for key, files in (("`a.b`", FILES), ("a.`c.d`", FILES), ("`e.f`", 2)):
        query = f"SELECT * FROM dotted WHERE {key} IN (SELECT v - 17 FROM dim)"
        found = compare(enabled, lambda query=query: enabled.sql(query))
        assert len(found.rows) == 2, key
        assert found.files == files + 1, key
    enabled.catalog.dropTempView("dotted")
