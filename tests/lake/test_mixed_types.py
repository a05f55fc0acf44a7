"""Files of one table with different types: predicates use each file's type, results the widest."""

from __future__ import annotations

import datetime as dt
import warnings
from decimal import Decimal

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

import intarsia as ia
from intarsia.lake.schema import widest
from tests.lake.index.lakes import write

MIDNIGHT = dt.datetime(1970, 1, 2)

#: Type and value of the first and second file, a condition, and the number of matching rows.
CASES = {
    "int32 then int64": (pa.int32(), 1, pa.int64(), 3_000_000_000, "a = 3000000000", 1),
    "beyond the first type": (pa.int32(), 1, pa.int64(), 3_000_000_000, "a < 99999999999", 2),
    "int64 then double": (pa.int64(), 1, pa.float64(), 1.5, "a = 1.5", 1),
    "decimals": (
        pa.decimal128(10, 2),
        Decimal("1.23"),
        pa.decimal128(18, 4),
        Decimal("1.2345"),
        "a = 1.2345",
        1,
    ),
    "int64 then decimal": (pa.int64(), 1, pa.decimal128(10, 2), Decimal("1.50"), "a = 1.5", 1),
    "ms then us": (
        pa.timestamp("ms"),
        dt.datetime(2020, 1, 1),
        pa.timestamp("us"),
        dt.datetime(2020, 1, 1, 0, 0, 0, 1),
        "a = TIMESTAMP '2020-01-01 00:00:00.000001'",
        1,
    ),
    "uint8 then int16": (pa.uint8(), 1, pa.int16(), -5, "a = -5", 1),
    "date then timestamp": (
        pa.date32(),
        MIDNIGHT.date(),
        pa.timestamp("us"),
        MIDNIGHT,
        "a = '1970-01-02'",
        2,
    ),
    "date then a moment of that day": (
        pa.date32(),
        MIDNIGHT.date(),
        pa.timestamp("us"),
        MIDNIGHT.replace(hour=5),
        "a = '1970-01-02'",
        1,
    ),
    "views then dictionaries": (
        pa.string_view(),
        "x",
        pa.dictionary(pa.int8(), pa.string()),
        "y",
        "a = 'y'",
        1,
    ),
    "dictionaries then views": (
        pa.dictionary(pa.int8(), pa.string()),
        "x",
        pa.string_view(),
        "y",
        "a = 'y'",
        1,
    ),
    "dictionaries then bytes of one size": (
        pa.dictionary(pa.int32(), pa.string()),
        "x",
        pa.binary(1),
        b"y",
        "a <> X'7a'",
        2,
    ),
    "views of bytes, then text": (pa.binary_view(), b"x", pa.string(), "y", "a = X'79'", 1),
    "float32 then float64": (pa.float32(), 0.1, pa.float64(), 0.1, "a = 0.1", 1),
}


@pytest.fixture(params=CASES)
def case(request, tmp_path):
    first, a, second, b, where, count = CASES[request.param]
    pq.write_table(pa.table({"a": pa.array([a], first)}), tmp_path / "1.parquet")
    pq.write_table(pa.table({"a": pa.array([b], second)}), tmp_path / "2.parquet")
    return tmp_path, widest(first, second), where, count


def test_a_literal_is_compared_in_each_files_own_type(case):
    folder, kind, where, count = case
    table = ia.open(folder)
    assert table.schema.field("a").type == kind
    rows = table.scan(where).to_arrow()
    assert rows.schema.field("a").type == kind
    assert (rows.num_rows, table.count(where), len(table.plan(where))) == (count, count, count)
    assert sum(split.to_arrow().num_rows for split in table.plan(where)) == count
    assert table.aggregate({"a": ["count", "max"]}, where)["a"]["count"] == count


def test_the_order_of_the_files_does_not_matter(case):
    folder, _, where, count = case
    reverse = ia.open([folder / "2.parquet", folder / "1.parquet"])
    assert (reverse.count(where), reverse.scan(where).to_arrow().num_rows) == (count, count)


def test_nulls_without_a_type_become_views_of_lists(tmp_path):
    lists = pa.array([["x"], None], pa.list_view(pa.string()))
    pq.write_table(pa.table({"a": lists}), tmp_path / "1.parquet")
    pq.write_table(pa.table({"a": pa.nulls(1)}), tmp_path / "2.parquet")
    assert ia.open(tmp_path).scan().to_arrow()["a"].to_pylist() == [["x"], None, None]


def test_values_of_a_file_that_replaced_another_are_not_rounded(tmp_path):
    path = tmp_path / "t.parquet"
    pq.write_table(pa.table({"x": pa.array([1.5], pa.float32())}), path)
    table = ia.open(path)
    assert table.scan().to_arrow()["x"].to_pylist() == [1.5]
    pq.write_table(pa.table({"x": pa.array([0.1], pa.float64())}), path)
    with pytest.raises(ia.UnsupportedFeatureError) as caught:
        table.scan().to_arrow()
    assert (caught.value.reason, caught.value.column) == ("type-mismatch", "x")


def test_a_partition_condition_beside_a_mixed_column(tmp_path):
    for year, kind, value in ((2020, pa.int32(), 1), (2021, pa.int64(), 3_000_000_000)):
        (tmp_path / f"year={year}").mkdir()
        pq.write_table(pa.table({"a": pa.array([value], kind)}), tmp_path / f"year={year}" / "x.parquet")
    table = ia.open(tmp_path)
    assert table.count("a = 3000000000 AND year = 2021") == 1
    assert table.count("a = 3000000000 OR year = 2020") == 2
    assert table.count("a = 3000000000 AND year = 2020") == 0


@pytest.mark.parametrize("has_partitions", [False, True])
def test_values_of_a_file_that_replaced_another_are_found_beyond_the_tables_type(tmp_path, has_partitions):
    folder = tmp_path / "year=2020" if has_partitions else tmp_path
    folder.mkdir(exist_ok=True)
    for name in ("a", "b"):
        pq.write_table(pa.table({"x": pa.array([1], pa.int32())}), folder / f"{name}.parquet")
    table = ia.open(tmp_path)
    assert table.schema.field("x").type == pa.int32()
    pq.write_table(pa.table({"x": pa.array([1 << 40], pa.int64())}), folder / "a.parquet")
    assert table.count(f"x = {1 << 40}") == 1
    assert table.count(f"x >= {1 << 40} OR x IS NULL") == 1
    assert table.count(f"NOT (x <> {1 << 40})") == 1
    if has_partitions:
        assert table.count(f"year = 2020 AND x = {1 << 40}") == 1
        assert table.explain(f"year = 2021 AND x = {1 << 40}").files_opened == 0


def test_types_without_a_common_type_are_cast_to_those_of_the_first_file(tmp_path):
    pq.write_table(pa.table({"a": [1]}), tmp_path / "1.parquet")
    pq.write_table(pa.table({"a": ["7", "1"]}), tmp_path / "2.parquet")
    assert ia.open(tmp_path, schema="first").scan("a = 1").to_arrow()["a"].to_pylist() == [1, 1]
    pq.write_table(pa.table({"a": ["x"]}), tmp_path / "2.parquet")
    with pytest.raises(ia.UnsupportedFeatureError) as caught:
        ia.open(tmp_path, schema="first").scan("a = 1").to_arrow()
    assert (caught.value.reason, caught.value.path) == ("type-mismatch", str(tmp_path / "2.parquet"))


def test_widest_is_symmetric_and_contains_both():
    kinds = [
        *(pa.int8(), pa.int16(), pa.int32(), pa.int64(), pa.uint8(), pa.uint16(), pa.uint32(), pa.uint64()),
        *(pa.float32(), pa.float64(), pa.decimal128(10, 2), pa.decimal128(18, 4), pa.date32(), pa.string()),
        *(pa.timestamp("s"), pa.timestamp("ns"), pa.timestamp("us", "UTC"), pa.time32("ms"), pa.time64("us")),
    ]
    for a in kinds:
        for b in kinds:
            kind = widest(a, b)
            assert kind == widest(b, a), (a, b)
            assert kind is None or widest(kind, a) == kind == widest(kind, b), (a, b)


@pytest.fixture
def renamed(tmp_path):
    """Iceberg and Delta rename columns without rewriting files."""
    pq.write_table(pa.table({"id": [1], "old": ["x"]}), tmp_path / "1.parquet")
    for place in (2, 3, 4):
        pq.write_table(pa.table({"id": [place], "new": ["y"]}), tmp_path / f"{place}.parquet")
    return tmp_path


def test_renamed_columns_cause_a_warning(renamed):
    """Both names are columns, and each row has a value in one of them."""
    table = ia.open(renamed)
    with pytest.warns(ia.IntarsiaWarning, match=r"1 of 4 .*'old'.*'new'") as caught:
        rows = table.scan().to_arrow()
    assert (len(caught), caught[0].filename) == (1, __file__)
    assert rows["old"].to_pylist() == ["x", None, None, None]
    assert rows["new"].to_pylist() == [None, "y", "y", "y"]
    with warnings.catch_warnings():  # only once per table
        warnings.simplefilter("error")
        table.scan("id = 2").to_arrow()


def test_with_the_columns_of_the_first_file_the_values_of_renamed_ones_are_null(renamed):
    table = ia.open(renamed, schema="first")
    with pytest.warns(ia.IntarsiaWarning, match=r"3 of 4 .*'old'.*'new'"):
        assert table.scan().to_arrow()["old"].to_pylist() == ["x", None, None, None]


def test_added_or_dropped_columns_cause_no_warning(tmp_path):
    pq.write_table(pa.table({"id": [1], "a": ["x"]}), tmp_path / "1.parquet")
    for place in (2, 3, 4):
        pq.write_table(pa.table({"id": [place]}), tmp_path / f"{place}.parquet")
    pq.write_table(pa.table({"id": [5], "a": ["z"], "added": [1]}), tmp_path / "5.parquet")
    assert ia.open(tmp_path).scan("a IS NULL").to_arrow().num_rows == 3


def test_extension_types_of_files_without_a_stored_schema(tmp_path):
    """Parquet itself records JSON and UUID, so pyarrow reads extension types from every file."""
    rows = pa.table({"a": pa.array(["1", None], pa.json_())})
    for name, is_stored in (("0", True), ("1", False), ("2", False)):
        pq.write_table(rows, tmp_path / f"{name}.parquet", store_schema=is_stored)
    table = ia.open(tmp_path)
    assert table.schema.field("a").type == pa.json_()
    assert table.scan().to_arrow().schema.field("a").type == pa.json_()


VIEWS = {"text": pa.array(["a", "b", None], pa.string_view()), "data": pa.array([b"a"] * 3, pa.binary_view())}


@pytest.mark.parametrize("has_lake_index", [False, True])
@pytest.mark.parametrize("num_files", [3, 40], ids=["few", "planned together"])
def test_views_that_a_file_lacks(tmp_path, has_lake_index, num_files):
    for ordinal in range(num_files):
        columns = {} if ordinal % 3 == 1 else {"text": VIEWS["text"]} if ordinal % 3 == 2 else VIEWS
        write(tmp_path / f"{ordinal:02}.parquet", pa.table({"n": [ordinal, ordinal, ordinal], **columns}))
    if has_lake_index:
        ia.open(tmp_path).build_lake_index("beside")
    table = ia.open(tmp_path)
    for where, wanted in (
        ("text = 'b'", [n for n in range(num_files) if n % 3 != 1]),
        ("data = X'61' AND n < 2", [0, 0, 0]),
        ("text IS NULL AND n <= 1", [0, 1, 1, 1]),
        ("data IS NULL AND text <> 'b'", list(range(2, num_files, 3))),
    ):
        assert table.count(where) == len(wanted)
        assert table.scan(where, ["n"]).to_arrow()["n"].to_pylist() == wanted
        assert table.aggregate({"n": ["max"]}, where)["n"]["max"] == wanted[-1]
        assert table.explain(where).files_total == num_files
        assert sum(split.to_arrow().num_rows for split in table.plan(where)) == len(wanted)
    first = table.scan(columns=["n", "data"], order_by="text DESC", limit=1).to_arrow()
    assert first.to_pylist() == [{"n": 0, "data": b"a"}]
