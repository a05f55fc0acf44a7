"""Files with logical types and encodings that this version does not know."""

from __future__ import annotations

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

import intarsia as ia
from intarsia.format import thrift, thrift_tree
from tests.reading.pages import open_recorded
from tests.reading.surgery import Patient
from tests.verify.damage import Damage

SCHEMA, LOGICAL_TYPE, ENCODINGS, ENCODING_STATS = 2, 10, 2, 13
NEW_TYPE, NEW_ENCODING = 19, 12
ROWS = 200


@pytest.fixture
def file(tmp_path):
    """The column x has an unknown encoding, and y an unknown logical type."""
    path = tmp_path / "newer.parquet"
    pq.write_table(pa.table({"x": range(ROWS), "y": range(ROWS)}), path, use_dictionary=False)
    damage = Damage(path)
    damage.page_header("x", 0, with_new_encoding)
    meta = damage.meta("x")
    meta.set(ENCODINGS, thrift.LIST, thrift_tree.List(thrift.I32, [NEW_ENCODING]))
    meta.get(ENCODING_STATS).items[0].set(2, thrift.I32, NEW_ENCODING)
    new_type = thrift_tree.Struct({NEW_TYPE: (thrift.STRUCT, thrift_tree.Struct())})
    damage.tree.get(SCHEMA).items[2].set(LOGICAL_TYPE, thrift.STRUCT, new_type)
    damage.write()
    return path


def with_new_encoding(header):
    return header._replace(data_page_header=header.data_page_header._replace(encoding=NEW_ENCODING))


def test_other_columns_are_read(file):
    for where in (None, "y < 3", "y = 7"):
        rows = pq.read_table(
            file, columns=["y"], filters={"y < 3": [("y", "<", 3)], "y = 7": [("y", "=", 7)]}.get(where)
        )
        assert ia.open(file).scan(where, columns=["y"]).to_arrow().equals(rows)


@pytest.mark.parametrize("where", [None, "x < 3"])
def test_an_unknown_encoding_is_named(file, where):
    with pytest.raises(ia.UnsupportedFeatureError, match=f"unknown encoding {NEW_ENCODING}") as caught:
        ia.open(file).scan(where, columns=["x"]).to_arrow()
    assert (caught.value.reason, caught.value.column) == ("unknown-encoding", "x")
    (x, _) = ia.inspect(file, pages=True).row_groups[0].columns
    assert x.encodings == (f"unknown encoding {NEW_ENCODING}",)
    found = [finding for finding in ia.verify(file).findings if finding.column == "x"]
    assert [finding.rule for finding in found if finding.severity == "error"] == ["unreadable-pages"]
    assert f"unknown encoding {NEW_ENCODING}" in str(found[0])


def test_attach_keeps_what_is_unknown(file):
    original = file.read_bytes()
    before = Patient.read(file)
    ia.attach(file, [ia.PageIndex(), ia.Statistics(), ia.Bloom("y"), ia.Distinct("y")])
    after = Patient.read(file)
    assert after.footer.get(SCHEMA) == before.footer.get(SCHEMA)
    assert after.chunk(0, 0).get(3).get(ENCODINGS) == before.chunk(0, 0).get(3).get(ENCODINGS)
    assert ia.open(file).scan("y = 7", columns=["y"]).to_arrow().num_rows == 1
    ia.detach(file)
    assert file.read_bytes() == original


@pytest.mark.parametrize("where", [None, "id >= 0"])
def test_what_pyarrow_does_not_support_is_decoded_once(tmp_path, where):
    """A map of gigabytes takes many seconds; it is not decoded again to find the name of the column."""
    path = tmp_path / "map.parquet"
    maps = pa.array([[(f"k{row}", row)] * 3 for row in range(ROWS)], pa.map_(pa.string(), pa.int64()))
    pq.write_table(pa.table({"id": range(ROWS), "m": maps}), path, use_dictionary=False)
    damage = Damage(path)
    damage.page_header("m.key_value.value", 0, with_new_encoding)
    damage.write()
    table, ranges = open_recorded(path)
    with pytest.raises(ia.UnsupportedFeatureError) as caught:
        table.scan(where, columns=["m"]).to_arrow()
    assert (caught.value.reason, caught.value.column) == ("unknown-encoding", "m")
    metas = [pq.read_metadata(path).row_group(0).column(ordinal) for ordinal in range(3)]
    assert sum(place.length for place in ranges) <= sum(meta.total_compressed_size for meta in metas)


def test_an_unknown_logical_type_is_named(file):
    (_, y) = ia.inspect(file).schema
    assert y.logical_type == f"unknown logical type {NEW_TYPE}"


def test_rows_with_an_unknown_logical_type_are_not_rewritten(file, tmp_path):
    """The new file would lack the type, and readers would see plain numbers."""
    for scan in (ia.open(file).scan(), ia.open(file).scan("y < 3", columns=["y"])):
        with pytest.raises(ia.UnsupportedFeatureError, match=f"logical type {NEW_TYPE}") as caught:
            ia.write_table(scan, tmp_path / "new.parquet")
        assert (caught.value.reason, caught.value.column) == ("unknown-logical-type", "y")
        assert caught.value.path == str(file)
    assert not (tmp_path / "new.parquet").exists()


def test_other_columns_are_rewritten(tmp_path):
    path, copy = tmp_path / "newer.parquet", tmp_path / "copy.parquet"
    pq.write_table(pa.table({"x": range(ROWS), "y": range(ROWS)}), path)
    damage = Damage(path)
    new_type = thrift_tree.Struct({NEW_TYPE: (thrift.STRUCT, thrift_tree.Struct())})
    damage.tree.get(SCHEMA).items[2].set(LOGICAL_TYPE, thrift.STRUCT, new_type)
    damage.write()
    ia.write_table(ia.open(path).scan(columns=["x"]), copy)
    assert pq.read_table(copy).equals(pa.table({"x": range(ROWS)}))
