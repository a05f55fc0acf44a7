"""Tables of many files: discovery, partitions, and schemas that changed."""

from __future__ import annotations

import datetime as dt
import os
from decimal import Decimal

import pyarrow as pa
import pyarrow.dataset as ds
import pyarrow.parquet as pq
import pytest
from obstore.store import LocalStore

import intarsia as ia
from intarsia.lake.discovery import HIVE_NULL
from tests.reading.exact import assert_same_rows, bits


def write(path, table=None, **columns):
    path.parent.mkdir(parents=True, exist_ok=True)
    pq.write_table(pa.table(columns) if table is None else table, path, write_page_index=True)
    return path


def rows(table):
    return sorted(table.to_pylist(), key=repr)


@pytest.fixture(scope="module")
def lake(tmp_path_factory):
    """Two partition columns, a number and a string with nulls and characters that URLs encode."""
    root = tmp_path_factory.mktemp("lake")
    for year in (2019, 2020):
        for place in ("a b", "x/y", "ü=ö", None):
            folder = HIVE_NULL if place is None else place.replace("/", "%2F").replace("=", "%3D")
            first = year * 10 + len(place or "")
            part = root / f"year={year}" / f"place={folder}"
            write(part / "part-0.parquet", id=[first, first + 1], word=["p", None])
    write(root / "year=2019" / "place=a%20b" / "part-1.parquet", id=[7], word=["q"])
    (root / "_SUCCESS").touch()
    (root / ".part-0.parquet.crc").write_bytes(b"crc")
    (root / "year=2019" / "place=a b" / ".hidden.parquet").write_bytes(b"not Parquet")
    (root / "_temporary" / "0").mkdir(parents=True)
    (root / "_temporary" / "0" / "part.parquet").write_bytes(b"not Parquet")
    return root


# --- hive partitions ---


def test_lake_equals_pyarrow_to_the_type(lake):
    expected = pq.read_table(lake)
    found = ia.open(lake).scan().to_arrow()
    assert found.schema.equals(expected.schema, check_metadata=True)
    assert found.schema.field("year").type == pa.dictionary(pa.int32(), pa.int32())
    assert found.schema.field("place").type == pa.dictionary(pa.int32(), pa.string())
    assert rows(found) == rows(expected)
    assert {row["place"] for row in found.to_pylist()} == {"a b", "x/y", "ü=ö", None}


@pytest.mark.parametrize(
    ("where", "expression", "files"),
    [
        ("year = 2020", ds.field("year") == 2020, 4),
        ("year = 2020 AND id > 20201", (ds.field("year") == 2020) & (ds.field("id") > 20201), 4),
        ("year > 2018.5 AND year < 2020", ds.field("year") == 2019, 5),
        ("place = 'x/y'", ds.field("place") == "x/y", 2),
        ("place IS NULL", ds.field("place").is_null(), 2),
        ("place IS NOT NULL AND year <> 2019", ds.field("place").is_valid() & (ds.field("year") != 2019), 3),
        ("place <> 'x/y'", ds.field("place") != "x/y", 5),
        ("place LIKE '%b' OR id = 20200", ds.field("place").isin(["a b"]) | (ds.field("id") == 20200), 9),
        ("place IN ('ü=ö', 'nowhere')", ds.field("place") == "ü=ö", 2),
        ("NOT (year = 2019 OR place = 'a b')", (ds.field("year") != 2019) & (ds.field("place") != "a b"), 2),
        ("word IS NULL AND year = 2019", ds.field("word").is_null() & (ds.field("year") == 2019), 5),
        ("year = 1999", ds.field("year") == 1999, 0),
    ],
)
@pytest.mark.parametrize("columns", [None, ["id"], ["place", "id"], ["year"]])
def test_partition_predicates_open_only_files_of_matching_partitions(lake, where, expression, files, columns):
    expected = pq.read_table(lake, filters=expression, columns=columns)
    scan = ia.open(lake).scan(where, columns)
    found = scan.to_arrow()
    assert found.schema.equals(expected.schema)
    assert rows(found) == rows(expected)
    report = scan.report.to_dict()
    assert report["files"]["total"] == 9
    assert report["files"]["opened"] == files
    skipped = [entry for entry in report["pruned_by"] if entry["index"] == "partition"]
    assert sum(entry["files"] for entry in skipped) == 9 - files


def test_partition_values_in_batches_and_limits(lake):
    scan = ia.open(lake).scan("year = 2020", ["year", "id"], limit=3)
    assert [batch.num_columns for batch in scan] == [2] * len(list(scan))
    assert sum(batch.num_rows for batch in scan) == 3
    assert ia.open(lake).scan("year = 2020", limit=3).to_arrow()["year"].to_pylist() == [2020] * 3


@pytest.mark.parametrize(
    ("values", "kind"),
    [
        (["1", "2"], pa.int32()),
        (["-1", "007"], pa.int32()),
        (["1", "x"], pa.string()),
        (["1", HIVE_NULL], pa.int32()),
        (["2147483647"], pa.int32()),
        ([" 1"], None),
        (["true"], pa.string()),
    ],
)
def test_types_of_partitions_with_small_integers_and_text_are_those_of_pyarrow(tmp_path, values, kind):
    for value in values:
        write(tmp_path / f"p={value}" / "x.parquet", a=[1])
    expected = pq.read_table(tmp_path)
    found = ia.open(tmp_path).scan().to_arrow()
    assert found.schema.equals(expected.schema), (found.schema, expected.schema)
    assert rows(found) == rows(expected)
    if kind is not None:
        assert found.schema.field("p").type.value_type == kind


def test_column_in_the_file_and_in_the_path(tmp_path):
    """Spark and pyarrow use the path."""
    write(tmp_path / "p=5" / "x.parquet", p=pa.array([1, 2], pa.int32()), a=[3, 4])
    found = ia.open(tmp_path).scan("p = 5", ["p", "a"]).to_arrow()
    assert found.to_pylist() == [{"p": 5, "a": 3}, {"p": 5, "a": 4}]


def test_folders_that_name_different_columns_are_refused(tmp_path):
    write(tmp_path / "p=5" / "x.parquet", a=[1])
    write(tmp_path / "q=5" / "x.parquet", a=[1])
    with pytest.raises(ia.FormatError) as caught:
        ia.open(tmp_path).scan().to_arrow()
    assert caught.value.reason == "mixed-partition-columns"
    assert caught.value.path == str(tmp_path / "q=5" / "x.parquet")


# --- discovery ---


def test_hidden_files_are_ignored(lake):
    names = [os.path.basename(file.path) for file in ia.open(lake).files]
    assert sorted(set(names)) == ["part-0.parquet", "part-1.parquet"]
    assert [file.path for file in ia.open(lake).files] == sorted(file.path for file in ia.open(lake).files)


@pytest.mark.parametrize(
    ("pattern", "count"),
    [
        ("year=2019/*/part-0.parquet", 4),
        ("**/part-1.parquet", 1),
        ("year=*", 9),
        ("year=20[2]0/*", 4),
        ("*/place=x%2Fy/*.parquet", 2),
        ("**", 9),
        ("**/*", 9),
        ("*/*/*", 9),
    ],
)
def test_globs(lake, pattern, count):
    table = ia.open(os.path.join(lake, pattern))
    assert len(table.files) == count
    assert table.scan().to_arrow().num_rows == sum(
        pq.read_metadata(file.path).num_rows for file in table.files
    )


def test_globs_keep_the_partitions_below_their_fixed_part(lake):
    for pattern in ("year=*", "year=*/*", "year=*/place=*/*.parquet", "**/*.parquet"):
        table = ia.open(os.path.join(lake, pattern))
        assert set(table.partition_types) == {"year", "place"}, pattern
        assert table.scan("year = 2019 AND place = 'x/y'").to_arrow().num_rows == 2


def test_paths_with_characters_of_globs_are_paths_first(tmp_path):
    path = write(tmp_path / "a[1]*.parquet", a=[1])
    assert ia.open(path).scan().to_arrow().num_rows == 1
    assert ia.open(str(path)).scan().to_arrow().num_rows == 1


def test_lists_of_files_and_folders_keep_their_order(tmp_path):
    one = write(tmp_path / "one.parquet", a=[1])
    two = write(tmp_path / "two" / "x.parquet", a=[2])
    table = ia.open([two.parent, one])
    assert table.scan().to_arrow()["a"].to_pylist() == [2, 1]
    assert ia.open([str(one), one.as_uri()]).scan("a = 1").to_arrow()["a"].to_pylist() == [1, 1]


def test_links_are_followed(tmp_path):
    path = write(tmp_path / "real" / "x.parquet", a=[1])
    (tmp_path / "links").mkdir()
    (tmp_path / "links" / "file.parquet").symlink_to(path)
    (tmp_path / "links" / "folder").symlink_to(path.parent)
    assert ia.open(tmp_path / "links").scan().to_arrow().num_rows == 2


@pytest.mark.parametrize("source", ["nothing.parquet", "nothing/", "nothing*.parquet", []])
def test_no_files(tmp_path, source):
    with pytest.raises(FileNotFoundError):
        ia.open(source if isinstance(source, list) else os.path.join(tmp_path, source))


def test_other_files_beside_objects_are_ignored(tmp_path, put_behind_urls):
    """As in a local folder: Hadoop writes checksums next to files, and Delta its log."""
    folder = tmp_path / "lake" / "_part=1"
    folder.mkdir(parents=True)
    for name in ("a.crc", "b.json", "_SUCCESS", ".hidden.parquet"):
        (folder / name).write_bytes(b"no Parquet")
    write(folder / "c.parquet", a=[1])
    local = [file.path for file in ia.open(tmp_path / "lake").files]
    assert local == [str(folder / "c.parquet")]
    put_behind_urls(LocalStore(tmp_path))
    table = ia.open("s3://bucket/lake/")
    assert [file.path for file in table.files] == ["s3://bucket/lake/_part=1/c.parquet"]
    assert table.count() == 1


def test_empty_folder(tmp_path):
    with pytest.raises(FileNotFoundError, match="no Parquet file"):
        ia.open(tmp_path)


# --- schemas that changed ---


def test_missing_column_is_null(tmp_path):
    write(tmp_path / "1.parquet", a=[1, 2], b=["x", None])
    write(tmp_path / "2.parquet", a=[3])
    write(tmp_path / "3.parquet", c=[9], b=["y"], a=[4])
    assert_same_rows(ia.open(tmp_path, schema="first").scan().to_arrow(), pq.read_table(tmp_path))
    table = ia.open(tmp_path)
    whole = pq.read_table(tmp_path, schema=table.schema)
    assert_same_rows(table.scan().to_arrow(), whole)
    assert table.schema.names == ["a", "b", "c"]
    expected = [{"a": 2, "b": None}, {"a": 3, "b": None}]
    assert table.scan("b IS NULL", ["a", "b"]).to_arrow().to_pylist() == expected
    assert table.scan("b IS NOT NULL", ["a"]).to_arrow().to_pylist() == [{"a": 1}, {"a": 4}]
    assert table.scan("b = 'y' OR a = 3", ["a"]).to_arrow().to_pylist() == [{"a": 3}, {"a": 4}]
    assert table.scan("b <> 'x'", ["a"]).to_arrow().to_pylist() == [{"a": 4}]
    assert table.scan(columns=["b"]).to_arrow().to_pylist() == [{"b": v} for v in ("x", None, None, "y")]
    report = table.scan("b IS NOT NULL")
    report.to_arrow()
    assert report.report.to_dict()["files"]["read"] == 2


def test_missing_field_of_a_struct_is_null(tmp_path):
    kind = pa.struct([("x", pa.int64()), ("y", pa.string())])
    write(tmp_path / "1.parquet", s=pa.array([{"x": 1, "y": "p"}, None], kind))
    write(tmp_path / "2.parquet", s=pa.array([{"x": 2}], pa.struct([("x", pa.int64())])))
    table = ia.open(tmp_path)
    assert table.scan("s.y IS NULL", ["s.x"]).to_arrow()["x"].to_pylist() == [None, 2]
    assert table.scan("s.y = 'p'", ["s.x", "s.y"]).to_arrow().to_pylist() == [{"x": 1, "y": "p"}]


CHANGES = {
    "wider integer": (pa.int64(), pa.int32(), [0, 1, -5, 7, None], "= 7"),
    "narrower integer": (pa.int32(), pa.int64(), [0, 1, -5, 7, None], "< 1"),
    "wider unsigned": (pa.uint64(), pa.uint8(), [0, 1, 255, None], ">= 255"),
    "signed and unsigned": (pa.int64(), pa.uint32(), [0, 1, 2**32 - 1, None], "> -1"),
    "unsigned and wider signed": (pa.uint8(), pa.int64(), [0, 1, 2**62, None], "< 4611686018427387904"),
    "microseconds and milliseconds": (
        pa.timestamp("us"),
        pa.timestamp("ms"),
        [dt.datetime(2020, 1, 1), dt.datetime(1970, 1, 1), dt.datetime(1960, 5, 5), None],
        ">= TIMESTAMP '2000-01-01 00:00:00'",
    ),
    "milliseconds and nanoseconds": (
        pa.timestamp("ms"),
        pa.timestamp("ns"),
        [dt.datetime(2020, 1, 1), dt.datetime(1970, 1, 1), dt.datetime(1960, 5, 5), None],
        "< TIMESTAMP '2000-01-01 00:00:00'",
    ),
    "scales of decimals": (
        pa.decimal128(12, 4),
        pa.decimal128(8, 2),
        [Decimal("1.25"), Decimal("-3.50"), Decimal("0.00"), None],
        "= 1.25",
    ),
    "double and float": (pa.float64(), pa.float32(), [0.5, -1.0, 3.25, float("nan"), None], "> 0.25"),
    "float and double": (
        pa.float32(),
        pa.float64(),
        [0.1, -1.0, 3.25, float("nan"), None],
        "= 0.1",
    ),
    "double and integer": (pa.float64(), pa.int32(), [0, 5, -7, None], "BETWEEN 4.5 AND 5.5"),
    "date and timestamp": (
        pa.timestamp("us"),
        pa.date32(),
        [dt.date(2020, 1, 1), dt.date(1969, 1, 1), None],
        "> DATE '2000-01-01'",
    ),
    "text and dictionary": (pa.string(), pa.dictionary(pa.int8(), pa.string()), ["a", "b", None], "= 'b'"),
    "text and bytes": (pa.string(), pa.binary(), [b"a", b"b", None], ">= 'b'"),
    "time in other units": (
        pa.time64("us"),
        pa.time32("ms"),
        [dt.time(1), dt.time(23, 59), None],
        "> TIME '02:00:00'",
    ),
}


#: The type in the table, where it differs from that of the first file.
WIDEST = {
    "narrower integer": pa.int64(),
    "unsigned and wider signed": pa.int64(),
    "text and bytes": pa.binary(),
    "milliseconds and nanoseconds": pa.timestamp("ns"),
    "float and double": pa.float64(),
}


@pytest.mark.parametrize("change", CHANGES)
@pytest.mark.parametrize("bloom", [False, True])
def test_type_that_changed(tmp_path, change, bloom):
    """The column is cast to the widest type and then filtered."""
    first_type, before, values, comparison = CHANGES[change]
    now = WIDEST.get(change, first_type)
    options = {"bloom_filter_options": {"v": {"ndv": 10}}} if bloom else {}
    first, second = pa.table({"v": pa.array([], first_type)}), pa.table({"v": pa.array(values, before)})
    pq.write_table(first, tmp_path / "1.parquet")
    pq.write_table(second, tmp_path / "2.parquet", write_page_index=True, max_rows_per_page=1, **options)
    full = pa.table({"v": pq.read_table(tmp_path / "2.parquet")["v"].cast(now)})
    table = ia.open(tmp_path)
    assert table.schema.field("v").type == now
    assert_same_rows(table.scan().to_arrow().replace_schema_metadata(), full)
    pq.write_table(full, tmp_path / "cast.parquet")
    alone = ia.open(tmp_path / "cast.parquet")
    for where in (f"v {comparison}", f"NOT (v {comparison})", "v IS NULL", "v IS NOT NULL"):
        expected = alone.scan(where).to_arrow()
        assert bits(
            ia.open([tmp_path / "1.parquet", tmp_path / "2.parquet"]).scan(where).to_arrow()["v"]
        ) == bits(expected["v"]), where
    assert 0 < alone.scan(f"v {comparison}").to_arrow().num_rows < len(values)


@pytest.mark.parametrize(
    ("now", "before", "values"),
    [
        (pa.uint64(), pa.int64(), [-1]),
        (pa.float64(), pa.int64(), [2**53 + 1]),
        (pa.int64(), pa.string(), ["x"]),
        (pa.timestamp("ns"), pa.timestamp("us"), [2**62]),
        (pa.int64(), pa.list_(pa.int64()), [[1]]),
        (pa.struct([("x", pa.int64())]), pa.int64(), [1]),
    ],
)
@pytest.mark.parametrize("where", [None, "v IS NOT NULL", "other >= 0"])
def test_values_that_do_not_fit_are_named(tmp_path, now, before, values, where):
    if where == "v IS NOT NULL" and pa.types.is_nested(now):
        pytest.skip("nothing compares with a struct")
    write(tmp_path / "1.parquet", v=pa.array([], now), other=pa.array([], pa.int64()))
    write(tmp_path / "2.parquet", v=pa.array(values, before), other=list(range(len(values))))
    with pytest.raises((ia.UnsupportedFeatureError, ia.PredicateError)) as caught:
        ia.open(tmp_path).scan(where).to_arrow()
    assert "'v'" in str(caught.value)
    assert str(tmp_path / "2.parquet") in str(caught.value)


def test_columns_in_another_order(tmp_path):
    write(tmp_path / "1.parquet", a=[1], b=["x"])
    write(tmp_path / "2.parquet", b=["y"], a=[2])
    assert ia.open(tmp_path).scan("a > 0 AND b > 'w'").to_arrow().to_pylist() == [
        {"a": 1, "b": "x"},
        {"a": 2, "b": "y"},
    ]


def test_empty_files_between(tmp_path):
    schema = pa.schema({"a": pa.int64()})
    for name, values in (("1", []), ("2", [5]), ("3", [])):
        pq.write_table(pa.table({"a": values}, schema), tmp_path / f"{name}.parquet")
    assert ia.open(tmp_path).scan().to_arrow()["a"].to_pylist() == [5]
    assert ia.open(tmp_path).scan("a = 5", limit=1).to_arrow()["a"].to_pylist() == [5]
    assert ia.open(tmp_path / "1.parquet").scan("a = 5").to_arrow().schema == schema


def test_empty_row_groups_between(tmp_path):
    path = tmp_path / "1.parquet"
    schema = pa.schema({"a": pa.int64(), "l": pa.list_(pa.int64())})
    with pq.ParquetWriter(path, schema, write_page_index=True) as writer:
        for values in ([], [1, 2], [], [], [3], []):
            writer.write_table(pa.table({"a": values, "l": [[v] for v in values]}, schema), row_group_size=10)
    assert pq.read_metadata(path).num_row_groups == 6
    full = pq.read_table(path)
    for where, keep in [(None, None), ("a >= 0", [True] * 3), ("a <> 2", [True, False, True])]:
        scan = ia.open(path).scan(where)
        assert_same_rows(scan.to_arrow(), full, keep)
        assert_same_rows(pa.Table.from_batches(list(ia.open(path).scan(where)), full.schema), full, keep)
        assert where is None or scan.report.row_groups_read == 2


# --- names ---


def test_columns_with_equal_names_are_refused(tmp_path):
    """As in pyarrow's read_table; other columns of the file can be read."""
    twice = pa.table([pa.array([1, 2]), pa.array([3, 4]), pa.array([5, 6])], names=["a", "b", "a"])
    path = write(tmp_path / "1.parquet", twice)
    table = ia.open(path)
    assert table.scan("b = 4", ["b"]).to_arrow().to_pylist() == [{"b": 4}]
    for where, columns in [(None, None), ("b = 3", None), ("a = 1", ["b"]), (None, ["a"])]:
        with pytest.raises((ia.UnsupportedFeatureError, ia.PredicateError)) as caught:
            table.scan(where, columns)
        assert "'a'" in str(caught.value)
    once = write(tmp_path / "0.parquet", a=[0], b=[0])
    with pytest.raises(ia.UnsupportedFeatureError) as caught:
        ia.open([once, path]).scan().to_arrow()
    error = caught.value
    assert (error.reason, error.path, error.column) == ("duplicate-column", str(path), "a")
    assert ia.open([once, path]).scan(columns=["b"]).to_arrow()["b"].to_pylist() == [0, 3, 4]


def test_names_with_dots_differ_from_paths(tmp_path):
    inner = pa.StructArray.from_arrays([pa.array([5, 6]), pa.array([[7], []])], ["b", "items"])
    path = write(tmp_path / "1.parquet", pa.table({"a": inner, "a.b": pa.array(["x", "y"])}))
    table = ia.open(path)
    assert table.scan("\"a.b\" = 'x'").to_arrow().to_pylist() == [{"a": {"b": 5, "items": [7]}, "a.b": "x"}]
    assert table.scan([(("a", "b"), "=", 6)], ["a.b"]).to_arrow().to_pylist() == [{"a.b": "y"}]
    assert table.scan(columns=["a.items"]).to_arrow().to_pylist() == [
        {"items": [7]},
        {"items": []},
    ]


def test_unknown_columns_name_near_matches(lake):
    for columns, where, column, near in (
        (["Plaec"], None, "Plaec", "place"),
        (None, "yaer = 2020", "yaer", "year"),
    ):
        with pytest.raises(ia.ColumnNotFoundError) as caught:
            ia.open(lake).scan(where, columns)
        assert (caught.value.column, caught.value.near) == (column, (near,))


@pytest.mark.parametrize("limit", [-1, -100])
def test_negative_limit(lake, limit):
    with pytest.raises(ValueError, match="limit"):
        ia.open(lake).scan(limit=limit)
