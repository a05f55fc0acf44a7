"""VARIANT columns, shredded: read as pyarrow reads them, indexed, and refused in predicates."""

import shutil

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

import intarsia as ia
from intarsia.file import ParquetInput
from intarsia.format import thrift, thrift_tree
from tests.conftest import CORPUS
from tests.embed.tables import edit_footer, page_indexes

FILES = sorted((CORPUS / "parquet-testing" / "shredded_variant").glob("*.parquet"))


def ids(path):
    return path.stem


@pytest.mark.parametrize("path", FILES, ids=ids)
def test_read_as_pyarrow_reads_them(path):
    full = pq.read_table(path)
    assert ia.open(path).scan().to_arrow().equals(full)
    assert ia.open(path).scan("id >= 0").to_arrow().equals(full)
    assert ia.open(path).scan("id < 0").to_arrow().num_rows == 0
    with ParquetInput.open(path) as file:
        assert file.schema.variants == {("var",)}


@pytest.mark.parametrize("path", FILES, ids=ids)
def test_leaves_get_a_page_index(tmp_path, path):
    full = pq.read_table(path)
    plain = str(tmp_path / "a.parquet")
    shutil.copy(path, plain)
    report = ia.attach(plain, [ia.PageIndex(), ia.Statistics()])
    assert report.notes == ()
    assert all(pair is not None for found in page_indexes(plain)[0].values() for pair in found)
    assert ia.verify(plain).findings == ()
    assert ia.open(plain).scan("id >= 0").to_arrow().equals(full)
    assert pq.read_table(plain).equals(full)


def without_page_index(source, path):
    """A copy whose footer does not mention its page index."""
    shutil.copy(source, path)

    def change(tree):
        for group in tree.get(4).items:
            for chunk in group.get(1).items:
                for field in (4, 5, 6, 7):
                    chunk.remove(field)

    edit_footer(str(path), change)
    return str(path)


@pytest.mark.parametrize("source", FILES, ids=ids)
def test_shredded_leaves_are_indexed_by_attach(tmp_path, source):
    path = without_page_index(source, tmp_path / "a.parquet")
    assert ia.attach(path, ia.PageIndex()).notes == ()
    found, footer = page_indexes(path)
    theirs, _ = page_indexes(str(source))
    for key, (column_index, offset_index) in found.items():
        assert column_index is not None, footer.leaves[key[1]].name
        assert offset_index.page_locations == theirs[key][1].page_locations
        assert column_index.min_values == theirs[key][0].min_values
    assert ia.verify(path).findings == ()


@pytest.mark.parametrize(
    ("where", "column"),
    [
        ("var = 5", "var"),
        ("var IS NULL", "var"),
        ("var.typed_value = true", "var.typed_value"),
        ("var.value IS NULL", "var.value"),
        ("id = 1 AND NOT (var.metadata = 'x' OR id = 2)", "var.metadata"),
    ],
)
def test_predicates_are_refused(where, column):
    table = ia.open(next(path for path in FILES if path.stem == "case-004"))
    for ask in (table.count, lambda where: table.scan(where).to_arrow(), table.explain):
        with pytest.raises(ia.PredicateError) as caught:
            ask(where)
        assert (caught.value.reason, caught.value.column) == ("variant-column", column)


def test_a_struct_with_the_same_fields_is_not_a_variant(tmp_path):
    path = str(tmp_path / "a.parquet")
    pq.write_table(pa.table({"var": [{"metadata": b"m", "value": b"v", "typed_value": 1}] * 3}), path)
    assert ia.open(path).count("var.typed_value = 1") == 3


def test_only_another_file_has_the_annotation(tmp_path):
    """The first file has a struct; the condition is refused when the file with the VARIANT is asked."""
    source = next(path for path in FILES if path.stem == "case-004")
    plain = pq.read_table(source)
    pq.write_table(plain, tmp_path / "a.parquet")
    shutil.copy(source, tmp_path / "b.parquet")
    with pytest.raises(ia.PredicateError) as caught:
        ia.open(tmp_path).count("var.typed_value = true")
    assert caught.value.reason == "variant-column"


def write_variants(path, num_rows=2, first=0, typed_value=None, **fields):
    """Write rows with an `id` and a VARIANT with encoded values, and with values of a type if it is given."""
    row = {"metadata": b"\x01\x00\x00", "value": b"\x00"}
    kind = [("metadata", pa.binary()), ("value", pa.binary())]
    if typed_value is not None:
        row["value"] = None
        row["typed_value"] = pa.scalar(fields.get("of", 1), typed_value).as_py()
        kind.append(("typed_value", typed_value))
    ids = pa.array(range(first, first + num_rows), pa.int64())
    pq.write_table(pa.table({"id": ids, "v": pa.array([row] * num_rows, pa.struct(kind))}), path)

    def annotate(tree):
        (element,) = [one for one in tree.get(2).items if one.get(4) == b"v"]
        variant = thrift_tree.Struct({16: (thrift.STRUCT, thrift_tree.Struct())})
        element.set(10, thrift.STRUCT, variant)

    edit_footer(path, annotate)
    return pq.read_table(path)


OF_A = pa.struct([("a", pa.int64())])
OF_A_AND_B = pa.struct([("a", pa.int64()), ("b", pa.int64())])


@pytest.mark.parametrize("schema", ["union", "first"])
@pytest.mark.parametrize(
    ("one", "other", "of"),
    [
        (pa.int64(), pa.float64(), (1, 1.5)),  # 1 is not 1.0
        (pa.string(), pa.binary(), ("a", b"\xff")),
        (pa.int64(), pa.string(), (1, "a")),
        (OF_A, OF_A_AND_B, ({"a": 1}, {"a": 1, "b": 2})),  # a row of the first has `b` in `value`, if any
        (pa.int64(), OF_A, (1, {"a": 1})),
    ],
)
def test_files_that_shred_a_column_differently(tmp_path, schema, one, other, of):
    """Their values have no common type. Everything else of the lake can be read."""
    first = write_variants(tmp_path / "a.parquet", 2, 0, one, of=of[0])
    second = write_variants(tmp_path / "b.parquet", 3, 2, other, of=of[1])
    table = ia.open(tmp_path, schema=schema)
    assert (len(table), table.count("id >= 1"), table.columns) == (5, 4, ["id", "v"])
    assert table.scan("id >= 1", ["id"]).to_arrow()["id"].to_pylist() == [1, 2, 3, 4]
    for columns in (None, ["v"], ["v.typed_value"]):
        with pytest.raises(ia.UnsupportedFeatureError) as caught:
            table.scan("id >= 1", columns).to_arrow()
        found = caught.value.reason, caught.value.column, caught.value.path
        assert found == ("other-shredding", "v", str(tmp_path / "b.parquet"))
    assert ia.open(tmp_path / "a.parquet").scan().to_arrow().equals(first)
    assert ia.open(tmp_path / "b.parquet").scan().to_arrow().equals(second)


def test_files_with_and_without_shredded_values(tmp_path):
    """An encoded value is one whose `typed_value` is null."""
    write_variants(tmp_path / "a.parquet", 2, 0)
    write_variants(tmp_path / "b.parquet", 2, 2, OF_A, of={"a": 7})
    encoded, shredded = ({"value": b"\x00", "typed_value": None}, {"value": None, "typed_value": {"a": 7}})
    found = ia.open(tmp_path).scan().to_arrow()["v"].to_pylist()
    assert found == [{"metadata": b"\x01\x00\x00"} | one for one in (encoded, encoded, shredded, shredded)]
    with pytest.raises(ia.UnsupportedFeatureError) as caught:  # the type of the first file has no place for 7
        ia.open(tmp_path, schema="first").scan().to_arrow()
    assert caught.value.reason == "other-shredding"
    assert ia.open(tmp_path, schema="first").count("id >= 2") == 2
