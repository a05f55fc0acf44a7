"""Counts of the values of a column equal those of a full read, with and without indexes."""

from __future__ import annotations

import math

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from pyarrow import acero

import intarsia as ia
from tests.counting import calls
from tests.lake.index.lakes import age


def test_a_column_of_nulls_has_no_values(tmp_path):
    pq.write_table(pa.table({"z": pa.nulls(5), "row": range(5)}), tmp_path / "nulls.parquet")
    table = ia.open(tmp_path)
    for where, count in ((None, 5), ("row >= 3", 2)):
        assert table.count_distinct("z", where) == 0
        assert table.value_counts("z", where).to_pylist() == [{"value": None, "count": count}]


@pytest.fixture(scope="module")
def sorted_file(tmp_path_factory):
    path = tmp_path_factory.mktemp("values") / "sorted.parquet"
    rows = {"x": [f"value {row // 10_000}" for row in range(40_000)], "y": range(40_000)}
    pq.write_table(pa.table(rows), path, row_group_size=5_000)
    ia.attach(path, [ia.PageIndex(), ia.Distinct("x", granularity="row_group")])
    return ia.open(path)


def test_listed_values_are_not_read(sorted_file):
    scan = sorted_file.scan(columns=[])
    assert scan.count_distinct("x") == 4
    assert not any(pages.read for pages in scan.report.pages.values())
    counts = scan.value_counts("x")
    assert counts["count"].to_pylist() == [10_000] * 4
    assert not any(pages.read for pages in scan.report.pages.values())
    assert scan.report.rows_matched == 40_000
    assert [name for name, _ in scan.report.answered_by] == ["distinct(x):row_group"]


def test_only_the_edges_are_read(sorted_file):
    scan = sorted_file.scan("y >= 12000", [])
    assert scan.value_counts("x")["count"].to_pylist() == [10_000, 10_000, 8_000]
    assert scan.report.pages["x"].read == 1


def test_counts_of_a_single_array_are_not_grouped_again(tmp_path):
    """Grouping millions of distinct values takes most of the time."""
    path = tmp_path / "t.parquet"
    pq.write_table(pa.table({"x": [f"value {row}" for row in range(1000)] * 2}), path)
    table = ia.open(path)
    assert table.value_counts("x").num_rows == table.count_distinct("x") == 1000
    # an empty table, to find out whether the type can be grouped
    assert calls(lambda: table.value_counts("x"), of=acero._group_by) == 1
    assert calls(lambda: table.count_distinct("x"), of=acero._group_by) == 1


def test_equal_counts_are_ordered_by_value(tmp_path):
    path = tmp_path / "t.parquet"
    pq.write_table(pa.table({"f": [math.nan, 2.0, None, 1.0, 5.0, 5.0, -0.0, 0.0]}), path)
    found = ia.open(path).value_counts("f")
    assert str(found["value"].to_pylist()) == "[0.0, 5.0, 1.0, 2.0, nan, None]"
    assert found["count"].to_pylist() == [2, 2, 1, 1, 1, 1]


def test_a_lake_with_partitions_and_several_types(tmp_path):
    lake = tmp_path / "lake"
    for day, type_ in enumerate([pa.int8(), pa.int64(), pa.int16()]):
        (lake / f"day={day}").mkdir(parents=True)
        path = lake / f"day={day}" / "t.parquet"
        columns = {"x": pa.array([1, 2, day, None], type_)}
        if day:
            columns["late"] = pa.array(["a"] * 4)
        pq.write_table(pa.table(columns), path)
        ia.attach(path, [ia.Distinct("x")])
        age(path)
    for build in (False, True):
        table = ia.open(lake)
        if build:
            table.build_lake_index()
        assert table.value_counts("x").to_pylist() == [
            {"value": 1, "count": 4},
            {"value": 2, "count": 4},
            {"value": None, "count": 3},
            {"value": 0, "count": 1},
        ]
        assert table.count_distinct("x") == 3
        assert table.count_distinct("day") == 3
        assert table.count_distinct("day", "x = 2 AND day < 2") == 2
        assert table.value_counts("day", "x = 2").to_pylist() == [
            {"value": 2, "count": 2},
            {"value": 0, "count": 1},
            {"value": 1, "count": 1},
        ]
        assert table.value_counts("late").to_pylist() == [
            {"value": "a", "count": 8},
            {"value": None, "count": 4},
        ]
        assert table.value_counts("x", "x > 100").num_rows == 0
        assert table.count_distinct("x", "day = 7") == 0


def test_bad_files_are_skipped(tmp_path):
    for name in ("a", "b"):
        pq.write_table(pa.table({"x": [name, name]}), tmp_path / f"{name}.parquet")
    damaged = (tmp_path / "b.parquet").read_bytes()
    (tmp_path / "b.parquet").write_bytes(damaged[:4] + b"\xff" * 30 + damaged[34:])
    with pytest.warns(ia.IntarsiaWarning):
        counts = ia.open(tmp_path).value_counts("x", on_error="skip")
    assert counts.to_pylist() == [{"value": "a", "count": 2}]
    with pytest.raises(ia.CorruptFileError):
        ia.open(tmp_path).count_distinct("x")


def test_errors(tmp_path):
    path = tmp_path / "t.parquet"
    pq.write_table(pa.table({"x": [[1]], "r": [{"a": 1}]}), path)
    table = ia.open(path)
    assert table.count_distinct("r.a") == 1
    for name in "xr":
        with pytest.raises(ia.UnsupportedFeatureError) as caught:
            table.count_distinct(name)
        assert (caught.value.reason, caught.value.column) == ("not-countable", name)
    with pytest.raises(ia.ColumnNotFoundError):
        table.value_counts("nothing")
    with pytest.raises(ValueError, match="limit"):
        table.value_counts("r.a", limit=-1)
