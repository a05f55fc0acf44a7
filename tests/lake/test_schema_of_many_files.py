"""The schema of many files: columns by name, types that keep every value, one error otherwise."""

from __future__ import annotations

from decimal import Decimal

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

import intarsia as ia
from intarsia.lake.schema import table_schema
from tests.lake.index.lakes import age


def write(path, table, **options):
    path.parent.mkdir(parents=True, exist_ok=True)
    pq.write_table(table, path, **options)
    age(path)
    return path


def lake(folder, *tables):
    for place, table in enumerate(tables):
        write(folder / f"{place}.parquet", pa.table(table) if isinstance(table, dict) else table)
    return folder


class CountedSchema:
    """A schema that counts how often all of its names are listed, which takes time for each column."""

    def __init__(self, schema):
        self._schema = schema
        self.listings = 0

    def __iter__(self):
        return iter(self._schema)

    def equals(self, other):
        return self is other

    def __getattr__(self, name):
        self.listings += name == "names"
        return getattr(self._schema, name)


def test_many_columns_are_not_listed_for_each_column():
    first, second = (
        CountedSchema(pa.schema([(f"c{number}", pa.int64()) for number in numbers]))
        for numbers in (range(100), range(50, 150))
    )
    assert len(table_schema([("1", first), ("2", second)]).schema) == 150
    assert max(first.listings, second.listings) < 10


# --- examples ------------------------------------------------------------------------------------


def test_columns_are_those_of_all_files_in_the_order_in_which_they_are_seen(tmp_path):
    lake(tmp_path, {"b": [1], "a": [2]}, {"a": [3], "c": ["x"]}, {"d": [0.5], "b": [4]})
    table = ia.open(tmp_path)
    assert table.schema.names == ["b", "a", "c", "d"]
    assert table.scan().to_arrow().to_pylist() == [
        {"b": 1, "a": 2, "c": None, "d": None},
        {"b": None, "a": 3, "c": "x", "d": None},
        {"b": 4, "a": None, "c": None, "d": 0.5},
    ]
    assert table.count("c IS NULL") == 2
    assert table.scan("c = 'x'", ["d", "a"]).to_arrow().to_pylist() == [{"d": None, "a": 3}]
    assert table.aggregate({"d": ["max", "count"], "b": "sum"}) == {
        "d": {"max": 0.5, "count": 1},
        "b": {"sum": 5},
    }
    assert [batch.num_columns for batch in table.scan(limit=2)] == [4, 4]


def test_a_struct_that_is_a_column_of_nulls_in_a_file(tmp_path):
    """pandas and pyarrow write columns that have no value yet with the type null."""
    nulls = pa.nulls(2)
    lake(
        tmp_path,
        {"m": nulls},
        {"m": [{"a": 1, "b": {"c": "x"}}, None]},
        {"m": pa.StructArray.from_arrays([nulls, nulls], ["a", "b"])},
    )
    table = ia.open(tmp_path)
    for where, count in (("m.a = 1", 1), ("m.a IS NULL", 5), ("m.b.c = 'x'", 1), ("m.b.c IS NULL", 5)):
        assert (table.count(where), table.scan(where).to_arrow().num_rows) == (count, count), where
    assert table.scan("abs(m.a) = 1", ["m.b.c"]).to_pylist() == [{"c": "x"}]


def test_the_columns_of_the_first_file_on_request(tmp_path):
    lake(tmp_path, {"a": [1]}, {"a": [2], "c": ["x"]})
    table = ia.open(tmp_path, schema="first")
    assert table.scan().to_arrow().to_pylist() == [{"a": 1}, {"a": 2}]
    with pytest.raises(ia.ColumnNotFoundError):
        table.count("c = 'x'")
    with pytest.raises(ValueError, match="schema"):
        ia.open(tmp_path, schema="position")


def test_a_file_source_has_a_schema_too(tmp_path):
    lake(tmp_path, {"a": [1]}, {"c": ["x"]})

    class Source:
        def list_files(self):
            return ia.open(tmp_path).files

    assert ia.open(Source()).schema.names == ["a", "c"]
    assert ia.open(Source(), schema="first").schema.names == ["a"]


@pytest.mark.parametrize(
    ("first", "second"),
    [
        (pa.int64(), pa.string()),
        (pa.timestamp("us"), pa.timestamp("us", "UTC")),
        (pa.uint64(), pa.int64()),
        (pa.bool_(), pa.int8()),
        (pa.decimal128(10, 2), pa.float64()),
        (pa.list_(pa.int8()), pa.int8()),
    ],
)
def test_types_without_a_common_type_are_refused_when_the_schema_is_read(tmp_path, first, second):
    lake(tmp_path, {"a": pa.nulls(1, first)}, {"b": [1]}, {"a": pa.nulls(1, second)})
    with pytest.raises(ia.UnsupportedFeatureError) as caught:
        _ = ia.open(tmp_path).schema
    assert (caught.value.reason, caught.value.column) == ("no-common-type", "a")
    assert caught.value.path == str(tmp_path / "2.parquet")
    assert str(tmp_path / "0.parquet") in str(caught.value)
    assert ia.open(tmp_path, schema="first").schema.field("a").type == first


def test_the_error_names_the_field_of_a_struct(tmp_path):
    lake(tmp_path, {"s": [{"x": 1, "y": 1}]}, {"s": [{"x": 2, "y": "b"}]})
    with pytest.raises(ia.UnsupportedFeatureError) as caught:
        ia.open(tmp_path).count()
    assert (caught.value.reason, caught.value.column) == ("no-common-type", "s.y")


def test_a_column_of_partitions_replaces_columns_of_any_type(tmp_path):
    write(tmp_path / "p=1" / "x.parquet", pa.table({"p": [9], "a": [1]}))
    write(tmp_path / "p=2" / "x.parquet", pa.table({"a": [2], "p": ["text"]}))
    assert ia.open(tmp_path).scan(None, ["a", "p"]).to_arrow().to_pylist() == [
        {"a": 1, "p": 1},
        {"a": 2, "p": 2},
    ]


def test_structs_have_the_fields_of_all_files(tmp_path):
    lake(
        tmp_path,
        {"s": [{"x": 1, "t": {"u": 1}}, None]},
        {"s": [{"y": "b", "t": {"v": "w"}}]},
        {"s": [{"x": 2.5}, {"x": None}]},
    )
    table = ia.open(tmp_path)
    full = [
        {"x": 1.0, "t": {"u": 1, "v": None}, "y": None},
        None,
        {"x": None, "t": {"u": None, "v": "w"}, "y": "b"},
        {"x": 2.5, "t": None, "y": None},
        {"x": None, "t": None, "y": None},
    ]
    assert table.scan().to_arrow()["s"].to_pylist() == full
    assert table.scan("s.y = 'b'").to_arrow()["s"].to_pylist() == full[2:3]
    assert table.scan("s.x > 0 AND s.y IS NULL").to_arrow()["s"].to_pylist() == [full[0], full[3]]
    assert table.scan(None, ["s.t.v"]).to_arrow()["v"].to_pylist() == [None, None, "w", None, None]
    assert table.count("s.t.u IS NULL") == 4
    assert ia.open(tmp_path, schema="first").scan().to_arrow()["s"].to_pylist() == [
        None if row is None else {"x": row["x"], "t": None if row["t"] is None else {"u": row["t"]["u"]}}
        for row in full
    ]


def test_structs_inside_lists_and_maps(tmp_path):
    item_a, item_b = pa.struct({"x": pa.int8()}), pa.struct({"y": pa.string(), "x": pa.int32()})
    lists = [
        pa.array([None, [], [{"x": 1}, None], [{"x": 2}]], pa.list_(item_a)),
        pa.array([[{"y": "b", "x": 300}], None], pa.large_list(item_b)),
    ]
    maps = [
        pa.array([None, [("k", {"x": 1})], [], [("l", None)]], pa.map_(pa.string(), item_a)),
        pa.array([[("m", {"y": "b", "x": 300})], None], pa.map_(pa.string(), item_b)),
    ]
    lake(tmp_path, *({"l": one, "m": other} for one, other in zip(lists, maps, strict=True)))
    found = ia.open(tmp_path).scan().to_arrow()
    found.validate(full=True)
    wide = pa.struct({"x": pa.int32(), "y": pa.string()})
    assert found.schema.field("l").type == pa.list_(pa.field("element", wide))
    kinds = (pa.list_(wide), pa.map_(pa.string(), wide))
    for name, parts, kind in zip("lm", (lists, maps), kinds, strict=True):
        expected = [value for part in parts for value in pa.array(part.to_pylist(), kind).to_pylist()]
        assert found[name].to_pylist() == expected
        assert ia.open(tmp_path).scan(limit=5).to_arrow()[name].to_pylist() == expected[:5]


def test_text_and_bytes_are_bytes(tmp_path):
    lake(tmp_path, {"a": ["x", "y"]}, {"a": [b"x", b"\xff"]})
    table = ia.open(tmp_path)
    assert table.scan().to_arrow()["a"].to_pylist() == [b"x", b"y", b"x", b"\xff"]
    assert (table.count("a = 'x'"), table.count(ia.Comparison("a", "=", b"x"))) == (2, 2)


def test_a_literal_that_only_the_common_type_accepts(tmp_path):
    lake(tmp_path, {"a": pa.array([1, 2], pa.int8())}, {"a": pa.array([Decimal("1.5")], pa.decimal128(9, 2))})
    table = ia.open(tmp_path)
    assert [table.count(f"a = {text}") for text in ("'1.5'", "'2'", "2", "1.5")] == [1, 1, 1, 1]
    assert sum(split.to_arrow().num_rows for split in table.plan("a >= '1.5'")) == 2


def test_a_column_that_a_file_lacks_may_be_null(tmp_path):
    a, b = (pa.field(name, pa.int64(), nullable=False) for name in "ab")
    both, one = pa.schema([a, b]), pa.schema([a])
    lake(tmp_path, pa.table({"a": [1], "b": [2]}, both), pa.table({"a": [3]}, one))
    table = ia.open(tmp_path)
    assert [field.nullable for field in table.schema] == [False, True]
    assert table.count("b IS NULL") == 1


def test_a_damaged_file_does_not_hide_the_columns_of_others(tmp_path):
    lake(tmp_path, {"a": [1]}, {"b": [2]}, {"c": ["x"]})
    (tmp_path / "1.parquet").write_bytes(b"PAR1 damaged PAR1")
    table = ia.open(tmp_path)
    assert table.schema.names == ["a", "c"]
    with pytest.raises(ia.CorruptFileError):
        table.scan().to_arrow()
