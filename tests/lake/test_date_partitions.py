"""Partition columns whose values are dates, compared with dates and with text."""

import datetime as dt
import pickle

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

import intarsia as ia

DAYS = ("2024-01-01", "2024-01-02", "2024-02-01")


def write_lake(folder, days):
    for place, day in enumerate(days):
        path = folder / f"day={day}" / "part.parquet"
        path.parent.mkdir(parents=True)
        pq.write_table(pa.table({"x": [place * 10, place * 10 + 1]}), path)
    return folder


@pytest.fixture
def lake(tmp_path):
    return write_lake(tmp_path / "lake", [*DAYS, "__HIVE_DEFAULT_PARTITION__"])


@pytest.mark.parametrize(
    ("where", "matching"),
    [
        ("day = DATE '2024-01-01'", [0]),
        ("day = '2024-01-01'", [0]),
        ("DATE '2024-01-02' <= day", [1, 2]),
        ("day BETWEEN DATE '2024-01-02' AND DATE '2024-01-31'", [1]),
        ("day IN (DATE '2024-01-01', DATE '2024-02-01')", [0, 2]),
        ("NOT day = DATE '2024-01-01'", [1, 2]),
        ("day <> DATE '2024-01-01' OR x = 1", [1, 2, 0.5]),
        (ia.Comparison("day", "=", dt.date(2024, 2, 1)), [2]),
        (ia.Comparison(("day",), ">", dt.date(2024, 1, 1)), [1, 2]),
        ([("day", "=", dt.date(2024, 1, 1))], [0]),
    ],
)
def test_a_date_is_compared_with_the_names_of_folders(lake, where, matching):
    expected = {
        value for place in matching for value in ([place * 10, place * 10 + 1] if place != 0.5 else [1])
    }
    table = ia.open(lake)
    scan = table.scan(where)
    assert set(scan.to_arrow()["x"].to_pylist()) == expected
    assert table.count(where) == len(expected)
    splits = pickle.loads(pickle.dumps(table.plan(where)))
    assert {value for split in splits for value in split.to_arrow()["x"].to_pylist()} == expected


def test_files_are_excluded_before_they_are_opened(lake):
    scan = ia.open(lake).scan("day = DATE '2024-01-01'")
    scan.to_arrow()
    assert scan.report.to_dict()["files"]["read"] == 1


@pytest.mark.parametrize("other", ["today", "2024-13-01", "20240101"])
def test_values_that_are_not_dates(tmp_path, other):
    lake = write_lake(tmp_path / "lake", [*DAYS, other])
    with pytest.raises(ia.PredicateError) as caught:
        ia.open(lake).count("day = DATE '2024-01-01'")
    assert (caught.value.reason, caught.value.column) == ("partition-not-date", "day")
    assert ia.open(lake).count("day = '2024-01-01'") == 2


def test_a_timestamp_is_refused(lake):
    with pytest.raises(ia.PredicateError):
        ia.open(lake).count("day = TIMESTAMP '2024-01-01 00:00:00'")
