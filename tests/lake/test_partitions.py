"""Partition columns: their types, conditions on them, and their list."""

import datetime as dt
import math
import pickle
from urllib.parse import quote

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

import intarsia as ia

NULL = "__HIVE_DEFAULT_PARTITION__"
DAYS = ("2024-01-01", "2024-01-02", "2024-02-01")

#: Values of a partition column, their type, and the values in this type.
TYPES = {
    "int32": (["1", "-7", "007"], pa.int32(), [1, -7, 7]),
    "plus": (["+1"], pa.string(), ["+1"]),
    "int32 limits": (["2147483647", "-2147483648"], pa.int32(), [2**31 - 1, -(2**31)]),
    "int64": (["1", "2147483648"], pa.int64(), [1, 2**31]),
    "int64 limits": (["9223372036854775807"], pa.int64(), [2**63 - 1]),
    "int32 and null": (["1", NULL], pa.int32(), [1, None]),
    "double": (["1.5", "-.25", "2"], pa.float64(), [1.5, -0.25, 2.0]),
    "infinite": (["Infinity", "-Infinity"], pa.float64(), [math.inf, -math.inf]),
    "exponent": (["1e3"], pa.string(), ["1e3"]),
    "int64 and double": (["1.5", "3000000000"], pa.string(), ["1.5", "3000000000"]),
    "date": (["2024-01-01", NULL], pa.date32(), [dt.date(2024, 1, 1), None]),
    "timestamp": (
        ["2024-01-01 10:00:00", "2024-01-01 10:00:00.5"],
        pa.timestamp("us"),
        [dt.datetime(2024, 1, 1, 10), dt.datetime(2024, 1, 1, 10, 0, 0, 500_000)],
    ),
    "date and timestamp": (
        ["2024-01-01", "2024-01-02 10:00:00"],
        pa.timestamp("us"),
        [dt.datetime(2024, 1, 1), dt.datetime(2024, 1, 2, 10)],
    ),
    "microseconds": (["2024-01-01 10:00:00.123456"], pa.string(), ["2024-01-01 10:00:00.123456"]),
    "not a date": (["2024-01-01", "2024-13-01"], pa.string(), ["2024-01-01", "2024-13-01"]),
    "date and integer": (["2024-01-01", "20240101"], pa.string(), ["2024-01-01", "20240101"]),
    "text": (["1", "x"], pa.string(), ["1", "x"]),
    "escaped": (["a/b", "ü=ö", "50%"], pa.string(), ["a/b", "ü=ö", "50%"]),
    "true": (["true"], pa.string(), ["true"]),
    "only null": ([NULL], pa.string(), [None]),
    "beyond int64": (["9223372036854775808"], pa.string(), ["9223372036854775808"]),
    "digits of another script": (["\u0661"], pa.string(), ["\u0661"]),
}


def write(folder, values, name="p"):
    for place, value in enumerate(values):
        path = folder / f"{name}={quote(value, safe='')}" / "part.parquet"
        path.parent.mkdir(parents=True)
        pq.write_table(pa.table({"x": [place * 10, place * 10 + 1]}), path)
    return folder


@pytest.mark.parametrize("case", TYPES)
def test_types_are_inferred_from_all_values(tmp_path, case):
    values, kind, typed = TYPES[case]
    table = ia.open(write(tmp_path, values))
    field = table.schema.field("p")
    assert field.type == pa.dictionary(pa.int32(), kind)
    rows = table.scan().to_arrow()
    rows.validate(full=True)
    value_of = {row["x"] // 10: row["p"] for row in rows.to_pylist()}
    assert [value_of[ordinal] for ordinal in range(len(values))] == typed
    for value in typed:
        node = ia.IsNull("p") if value is None else ia.Comparison("p", "=", value)
        expected = 2 * typed.count(value)
        assert table.count(node) == expected
        assert sum(split.to_arrow().num_rows for split in table.plan(node)) == expected


@pytest.mark.parametrize("case", TYPES)
def test_as_text_on_request(tmp_path, case):
    values = TYPES[case][0]
    table = ia.open(write(tmp_path, values), partition_types="text")
    assert table.partition_types == {"p": pa.string()}
    texts = [None if value == NULL else value for value in values]
    assert sorted(map(str, table.partitions()["p"].to_pylist())) == sorted(map(str, texts))
    for text in texts:
        if text is not None:
            assert table.count(ia.Comparison("p", "=", text)) == 2


def test_unknown_ways_to_find_types_are_refused(tmp_path):
    with pytest.raises(ValueError, match="partition_types"):
        ia.open(write(tmp_path, ["1"]), partition_types="guess")


# --- conditions ----------------------------------------------------------------------------------


@pytest.fixture
def lake(tmp_path):
    return write(tmp_path / "lake", [*DAYS, NULL], "day")


@pytest.mark.parametrize(
    ("where", "matching"),
    [
        ("day = DATE '2024-01-01'", [0]),
        ("day = '2024-01-01'", [0]),
        ("DATE '2024-01-02' <= day", [1, 2]),
        ("day BETWEEN DATE '2024-01-02' AND DATE '2024-01-31'", [1]),
        ("day IN (DATE '2024-01-01', '2024-02-01')", [0, 2]),
        ("NOT day = DATE '2024-01-01'", [1, 2]),
        ("day <> DATE '2024-01-01' OR x = 1", [1, 2, 0.5]),
        ("day < TIMESTAMP '2024-01-01 12:00:00'", [0]),
        ("day IS NULL", [3]),
        (ia.Comparison("day", "=", dt.date(2024, 2, 1)), [2]),
        (ia.Comparison(("day",), ">", dt.date(2024, 1, 1)), [1, 2]),
        ([("day", "=", dt.date(2024, 1, 1))], [0]),
    ],
)
def test_conditions_on_dates(lake, where, matching):
    expected = {
        value for place in matching for value in ([place * 10, place * 10 + 1] if place != 0.5 else [1])
    }
    table = ia.open(lake)
    assert set(table.scan(where).to_arrow()["x"].to_pylist()) == expected
    assert table.count(where) == len(expected)
    splits = pickle.loads(pickle.dumps(table.plan(where)))
    assert {value for split in splits for value in split.to_arrow()["x"].to_pylist()} == expected


def test_files_are_excluded_before_they_are_opened(lake):
    scan = ia.open(lake).scan("day = DATE '2024-01-01'")
    scan.to_arrow()
    assert scan.report.to_dict()["files"]["opened"] == 1


@pytest.mark.parametrize("other", ["today", "2024-13-01", "20240101"])
def test_values_that_are_not_all_dates_are_text(tmp_path, other):
    table = ia.open(write(tmp_path / "lake", [*DAYS, other], "day"))
    with pytest.raises(ia.PredicateError) as caught:
        table.count("day = DATE '2024-01-01'")
    assert caught.value.column == "day"
    assert table.count("day = '2024-01-01'") == 2


def test_aggregates_of_partition_columns(lake):
    found = ia.open(lake).aggregate({"day": ["min", "max", "count"]})
    assert found == {"day": {"min": dt.date(2024, 1, 1), "max": dt.date(2024, 2, 1), "count": 6}}


def test_other_libraries_read_typed_partition_columns(lake):
    rows = [(0, DAYS[0]), (1, DAYS[0])]
    scan = ia.open(lake).scan("day = DATE '2024-01-01'")
    assert scan.to_duckdb().project("x, day::VARCHAR").fetchall() == rows
    assert [(row["x"], str(row["day"])) for row in scan.to_polars().to_dicts()] == rows
    assert [(row.x, str(row.day)) for row in scan.to_pandas().itertuples()] == rows


# --- the list ------------------------------------------------------------------------------------


def test_partitions_are_listed_with_the_number_and_size_of_their_files(tmp_path):
    sizes = {}
    for path in ("a=1/b=x/1", "a=1/b=x/2", "a=01/b=x/3", "a=2/b=y/4"):
        file = tmp_path / f"{path}.parquet"
        file.parent.mkdir(parents=True, exist_ok=True)
        pq.write_table(pa.table({"x": list(range(len(sizes)))}), file)
        sizes[path] = file.stat().st_size
    one, two, three, four = sizes.values()
    found = ia.open(tmp_path).partitions()
    assert found.schema.names == ["a", "b", "num_files", "num_bytes"]
    assert found.schema.types == [pa.int32(), pa.string(), pa.int64(), pa.int64()]
    assert sorted(found.to_pylist(), key=lambda row: row["a"]) == [
        {"a": 1, "b": "x", "num_files": 3, "num_bytes": one + two + three},
        {"a": 2, "b": "y", "num_files": 1, "num_bytes": four},
    ]
    as_text = ia.open(tmp_path, partition_types="text").partitions()
    assert sorted(as_text["a"].to_pylist()) == ["01", "1", "2"]


def test_without_partition_columns_there_is_one_row(tmp_path):
    pq.write_table(pa.table({"x": [1]}), tmp_path / "1.parquet")
    size = (tmp_path / "1.parquet").stat().st_size
    assert ia.open(tmp_path).partitions().to_pylist() == [{"num_files": 1, "num_bytes": size}]


@pytest.mark.parametrize("make", [ia.Distinct, ia.Bloom, ia.ZoneMap])
def test_partition_columns_are_not_indexed(lake, make):
    with pytest.raises(ia.IndexBuildError) as caught:
        ia.attach(lake, [make("day")])
    assert (caught.value.reason, caught.value.column) == ("partition-column", "day")
