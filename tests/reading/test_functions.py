"""Scans with functions of columns equal DuckDB's, with and without indexes, and skip pages."""

from __future__ import annotations

import datetime as dt
import math
import warnings
from decimal import Decimal

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

import intarsia as ia
from tests.lake.index.lakes import age

duckdb = pytest.importorskip("duckdb")

NUM_ROWS = 4_000
WORDS = ["Ab", "aB", "AB", "abc", "éA", "ÉA", "b%", "", "K", "\u212a", "x" * 40]
#: Predicates with the same meaning in DuckDB. DuckDB divides and rounds floats in 64 bits, too.
SAME = [
    "lower(s) = 'ab'",
    "lower(s) <> 'ab'",
    "upper(s) IN ('AB', 'ÉA')",
    "NOT (lower(s) IN ('ab', 'k'))",
    "lower(s) LIKE 'a%'",
    "lower(s) LIKE '%b_'",
    "length(s) > 2",
    "length(s) = 0",
    "substr(s, 1, 2) = 'Ab'",
    "substr(s, 2, 1) = 'B'",
    "substr(s, 1, 2) <> 'Ab'",
    "left(s, 1) IN ('a', 'é')",
    "lower(s) IS NULL",
    "lower(s) >= 'b'",
    "year(t) = 2020",
    "year(t) <> 2020",
    "year(t) IN (2019, 2021)",
    "year(t) NOT IN (2019, 2020, 2021)",
    "year(t) BETWEEN 2019 AND 2020",
    "month(t) = 2",
    "quarter(t) > 3",
    "day(t) = 29",
    "hour(t) < 2",
    "minute(t) = 30",
    "extract(year FROM t) >= 2021",
    "date(t) = '2020-02-29'",
    "t::date > DATE '2021-06-01'",
    "CAST(t AS DATE) IN (DATE '2020-02-29', DATE '2020-03-01')",
    "date_trunc('month', t) = TIMESTAMP '2020-02-01 00:00:00'",
    "date_trunc('week', t) = TIMESTAMP '2020-02-24 00:00:00'",
    "date_trunc('day', t) < TIMESTAMP '2019-02-24 00:00:00'",
    "date_trunc('hour', t) = TIMESTAMP '2020-02-29 12:00:00'",
    "year(d) = 2020",
    "month(d) = 2",
    "date_trunc('year', d) = DATE '2020-01-01'",
    "date_trunc('quarter', d) <= DATE '2020-01-01'",
    "i + 1 > 900",
    "i - 10 = 32",
    "100 - i > 90",
    "-i >= -3",
    "i * 3 = 300",
    "i * -2 < -1900",
    "2 * i + 1 = 85",
    "i / 4 = 10.5",
    "i / 3 > 300",
    "i % 7 = 3",
    "i % -7 = 3",
    "(i - 500) % 7 = -3",
    "abs(i - 500) <= 2",
    "abs(i - 500) > 495",
    "CAST(i AS VARCHAR) = '42'",
    "CAST(i AS TEXT) LIKE '4%'",
    "CAST(i AS VARCHAR) IN ('1', '02', 'x')",
    "CAST(i AS VARCHAR) >= '99'",
    "CAST(i AS DOUBLE) = 42.0",
    "CAST(i AS BIGINT) = 42",
    "CAST(i AS DECIMAL(10, 2)) = 42.00",
    "CAST(b AS VARCHAR) = 'true'",
    "f * 2 > 900",
    "f + 0.5 = 100.5",
    "f / 3 < 10",
    "-f > 2",
    "abs(f) < 3",
    "n + 1 > 9",
    "n * 2 = 5",
    "n - 0.25 = 1",
    "abs(n) = 1.25",
    "lower(s) = 'ab' AND year(t) = 2020 OR i + 1 = 7",
]


def rows():
    random = np.random.default_rng(7)
    start = dt.datetime(2019, 1, 1)
    moments = [start + dt.timedelta(minutes=30 * 15 * row) for row in range(NUM_ROWS)]
    moments[17] = dt.datetime(2020, 2, 29, 12, 59, 59, 999_999)
    numbers = random.integers(0, 1000, NUM_ROWS)
    numbers.sort()
    floats = numbers / 2 - 5.5
    columns = {
        "row": pa.array(range(NUM_ROWS)),
        "s": pa.array([WORDS[place] for place in random.integers(0, len(WORDS), NUM_ROWS)]),
        "t": pa.array(moments, pa.timestamp("us")),
        "d": pa.array([moment.date() for moment in moments]),
        "i": pa.array(numbers.astype(np.int32)),
        "f": pa.array(floats),
        "n": pa.array([Decimal(int(number) - 400) / 4 for number in numbers], pa.decimal128(9, 2)),
        "b": pa.array(numbers % 3 == 0),
    }
    nulls = random.random(NUM_ROWS) < 0.05
    for name in columns.keys() - {"row"}:
        columns[name] = pa.array(columns[name].to_pylist(), columns[name].type, mask=nulls)
        nulls = np.roll(nulls, 1)
    return pa.table(columns)


@pytest.fixture(scope="module")
def paths(tmp_path_factory):
    folder = tmp_path_factory.mktemp("functions")
    paths = {"plain": folder / "plain.parquet", "indexed": folder / "indexed.parquet"}
    for path in paths.values():
        pq.write_table(rows(), path, row_group_size=1000, data_page_size=800, write_batch_size=100)
    kinds = [
        ia.PageIndex(),
        ia.Bloom("i"),
        ia.Distinct("s"),
        ia.Distinct("b"),
        ia.Ngram("s"),
        ia.ZoneMap("t"),
        ia.ZoneMap("s"),
        ia.RowMap("i"),
        ia.Histogram("i"),
        ia.Sample(100),
    ]
    ia.attach(paths["indexed"], kinds)
    return paths


@pytest.mark.parametrize("where", SAME)
def test_the_same_rows_as_duckdb(paths, where):
    wanted = [
        row
        for (row,) in duckdb.execute(
            f"SELECT row FROM read_parquet('{paths['plain']}') WHERE {where} ORDER BY row"
        ).fetchall()
    ]
    assert 0 < len(wanted) < NUM_ROWS
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        for path in paths.values():
            table = ia.open(path)
            assert table.scan(where, ["row"]).to_arrow()["row"].to_pylist() == wanted, path
            assert table.count(where) == len(wanted)


@pytest.mark.parametrize(
    ("where", "most"),
    [
        ("year(t) = 2020", 0.5),
        ("date(t) = '2020-02-29'", 0.2),
        ("date_trunc('month', t) = TIMESTAMP '2020-02-01 00:00:00'", 0.2),
        ("i + 1 > 990", 0.2),
        ("abs(i - 500) <= 2", 0.2),
        ("i / 4 = 10.5", 0.2),
        ("CAST(i AS TEXT) = '42'", 0.2),
        ("f * 2 > 980", 0.2),
        ("lower(s) = 'no such word'", 0),
    ],
)
def test_pages_are_skipped(paths, where, most):
    report = ia.open(paths["indexed"]).explain(where)
    assert report.rows_candidate <= most * NUM_ROWS
    assert not report.ignored


def test_the_dictionary_excludes_a_function(paths):
    assert ia.open(paths["plain"]).explain("upper(s) = 'NO SUCH WORD'").rows_candidate == 0


def test_nan_and_infinity(tmp_path):
    path = tmp_path / "f.parquet"
    values = [math.nan, math.inf, -math.inf, 0.0, -0.0, 1.5, None, 5e-324, 1.7976931348623157e308]
    pq.write_table(pa.table({"f": values * 3}), path, row_group_size=3)
    ia.attach(path, [ia.PageIndex(), ia.Distinct("f")])
    table = ia.open(path)
    for where, wanted in [
        ("f * 2 > 1e308", [math.inf, 1.7976931348623157e308]),
        ("f * 2 = CAST('inf' AS DOUBLE)", [math.inf, 1.7976931348623157e308]),
        ("f / 2 = 0", [0.0, -0.0, 5e-324]),
        ("-f >= 0 AND f + 1 > 0", [0.0, -0.0]),
        ("abs(f) <= 0", [0.0, -0.0]),
        ("f - 1 < 0.5 AND f + 1 >= 1", [0.0, -0.0, 5e-324]),
    ]:
        found = sorted(table.scan(where).to_arrow()["f"].to_pylist())
        assert found == sorted(wanted * 3), where
    assert table.count("NOT (f + 1 < CAST('inf' AS DOUBLE))") == 6  # NaN and infinity
    assert table.count("f * 2 <> 3") == 21  # NaN, too
    assert table.count("abs(f) IS NULL") == 3


def test_a_lake_of_mixed_types_and_partitions(tmp_path):
    """Functions have the table's type in every file, and lake indexes exclude files."""
    vienna = pa.timestamp("us", "Europe/Vienna")
    moments = [dt.datetime(2019 + year, 12, 31, 23, 30) for year in range(4)]
    for year, moment in enumerate(moments):
        folder = tmp_path / "lake" / f"k={year - 1}"
        folder.mkdir(parents=True)
        zoned = vienna if year % 2 == 0 else pa.timestamp("ms", "UTC")
        number = pa.int64() if year % 2 == 0 else pa.int16()
        table = pa.table(
            {
                "z": pa.array([moment], pa.timestamp(zoned.unit)).cast(pa.timestamp(zoned.unit)).view(zoned),
                "x": pa.array([year * 100], number),
                "t": pa.array([moment], pa.timestamp("us")),
            }
        )
        pq.write_table(table, folder / "part.parquet")
    age(tmp_path / "lake")
    for build in (False, True):
        table = ia.open(tmp_path / "lake")
        if build:
            table.build_lake_index()
            table = ia.open(tmp_path / "lake")
        assert table.scan("year(z) = 2020", ["x"]).to_arrow()["x"].to_pylist() == [0], build
        assert table.scan("year(t) = 2020", ["x"]).to_arrow()["x"].to_pylist() == [100]
        assert table.scan("x * 1000000 = 300000000", ["x"]).to_arrow()["x"].to_pylist() == [300]
        assert table.scan("x % 40000 = 200", ["x"]).to_arrow()["x"].to_pylist() == [200]
        assert table.scan("abs(k) = 1", ["x"]).to_arrow()["x"].to_pylist() == [0, 200]
        assert table.scan("CAST(k AS TEXT) = '-1'", ["x"]).to_arrow()["x"].to_pylist() == [0]
        assert table.explain("x + 1 > 250").files_read <= 2
    assert table.explain("year(t) = 2020").files_read == 1


def test_a_value_without_a_result(tmp_path):
    path = tmp_path / "t.parquet"
    pq.write_table(pa.table({"x": [1, 2**40, 3]}), path)
    with pytest.raises(ia.PredicateError) as caught:
        ia.open(path).count("CAST(x AS SMALLINT) > 0")
    assert (caught.value.reason, caught.value.column) == ("function-failed", "x")
    assert caught.value.path == str(path)


def test_a_dictionary_with_a_value_without_a_result_excludes_nothing(tmp_path):
    """A dictionary may have values that no row has, so the error is left to the scan."""
    path = tmp_path / "t.parquet"
    pq.write_table(pa.table({"x": [1, 2**40, 3, 5] * 5_000}), path)
    assert ia.open(path).explain("CAST(x AS SMALLINT) > 9").row_groups_read == 1
    with pytest.raises(ia.PredicateError) as caught:
        ia.open(path).count("CAST(x AS SMALLINT) > 9")
    assert (caught.value.reason, caught.value.path) == ("function-failed", str(path))


def test_text_that_is_not_utf8(tmp_path):
    path = tmp_path / "t.parquet"
    buffers = [None, pa.py_buffer(np.array([0, 1, 3], np.int32)), pa.py_buffer(b"\xffab")]
    pq.write_table(pa.table({"s": pa.Array.from_buffers(pa.string(), 2, buffers)}), path)
    with pytest.raises(ia.PredicateError) as caught:
        ia.open(path).count("lower(s) = 'ab'")
    assert (caught.value.reason, caught.value.column) == ("function-failed", "s")
    assert ia.open(path).count("s = 'ab'") == 1


@pytest.mark.parametrize("where", ["lower(s) = 'a'", "year(t) = 2020", "i % 2 = 0", "abs(f) > 0"])
def test_a_file_without_rows(tmp_path, where):
    path = tmp_path / "t.parquet"
    pq.write_table(rows().slice(0, 0), path)
    assert ia.open(path).count(where) == 0
