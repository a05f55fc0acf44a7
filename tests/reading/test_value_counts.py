"""Counts of the values of a column equal those of a full read, with and without indexes."""

from __future__ import annotations

import collections
import datetime as dt
import math
import uuid
from decimal import Decimal

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import intarsia as ia
from tests.effort import examples
from tests.lake.index.lakes import age

COLUMNS = {
    "b": (pa.bool_(), [True, False]),
    "i": (pa.int16(), [-1, 0, 7]),
    "u": (pa.uint64(), [0, 2**64 - 1]),
    "f": (pa.float64(), [0.0, -0.0, math.nan, -math.nan, 1.5, math.inf]),
    "h": (pa.float16(), [0.0, -0.0, math.nan, 1.5]),
    "n": (pa.decimal128(20, 2), [Decimal("0.10"), Decimal("-3.00")]),
    "d": (pa.date32(), [dt.date(1970, 1, 1), dt.date(2020, 2, 29)]),
    "t": (pa.timestamp("ns", "UTC"), [dt.datetime(2020, 1, 1, tzinfo=dt.timezone.utc)]),
    "p": (pa.duration("us"), [dt.timedelta(0), dt.timedelta(days=1)]),
    "s": (pa.string(), ["", "a", "é", "a" * 100]),
    "v": (pa.string_view(), ["", "a", "b"]),
    "y": (pa.binary(), [b"", b"\xff"]),
    "x": (pa.binary(2), [b"ab", b"\0\0"]),
    "k": (pa.dictionary(pa.int8(), pa.string()), ["a", "b"]),
    "g": (pa.uuid(), [uuid.UUID(int=1).bytes, uuid.UUID(int=2).bytes]),
    "z": (pa.null(), [None]),
}


def key(value):
    if isinstance(value, float) and math.isnan(value):
        return "NaN"
    return value.bytes if isinstance(value, uuid.UUID) else value


def counted(values):
    return collections.Counter(map(key, values))


def check(table, full, column, where, keep):
    values = [value for value, kept in zip(full[column].to_pylist(), keep, strict=True) if kept]
    wanted = counted(values)
    assert table.count_distinct(column, where) == len(wanted) - (None in wanted)
    found = table.value_counts(column, where)
    assert found["count"].to_pylist() == sorted(wanted.values(), reverse=True)
    assert {key(row["value"]): row["count"] for row in found.to_pylist()} == dict(wanted)
    declared = full.schema.field(column).type
    assert found.schema.field("value").type == getattr(declared, "value_type", declared)
    first = table.value_counts(column, where, limit=1)
    assert str(first.to_pylist()) == str(found.slice(0, 1).to_pylist())  # as text, because of NaN


@settings(max_examples=examples(40), deadline=None)
@given(st.data())
def test_the_values_of_a_file(tmp_path_factory, data):
    num_rows = data.draw(st.integers(0, 40))
    arrays = {}
    for name, (type_, values) in COLUMNS.items():
        runs = data.draw(st.lists(st.sampled_from([*values, None]), min_size=1, max_size=5))
        items = [runs[row * len(runs) // num_rows] for row in range(num_rows)]
        storage = type_.storage_type if isinstance(type_, pa.BaseExtensionType) else type_
        array = pa.array(items, storage)
        arrays[name] = type_.wrap_array(array) if isinstance(type_, pa.BaseExtensionType) else array
    arrays["row"] = pa.array(range(num_rows), pa.int32())
    path = tmp_path_factory.getbasetemp() / "values.parquet"
    pq.write_table(
        pa.table(arrays),
        path,
        row_group_size=15,
        max_rows_per_page=4,
        use_dictionary=data.draw(st.booleans()),
    )
    if data.draw(st.booleans()):
        grain = data.draw(st.sampled_from(["page", "row_group", "file", 5]))
        names = [name for name in COLUMNS if name != "z"]
        ia.attach(path, [ia.PageIndex(), *(ia.Distinct(name, granularity=grain) for name in names)])
    full, table = pq.read_table(path), ia.open(path)
    first = data.draw(st.integers(-1, num_rows))
    for name in data.draw(st.lists(st.sampled_from(sorted(COLUMNS)), min_size=4, max_size=4)):
        check(table, full, name, None, [True] * num_rows)
        check(table, full, name, f"row >= {first}", [row >= first for row in range(num_rows)])


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
