"""Geospatial statistics are verified and shown, and so are size statistics."""

import math
import shutil
import struct

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

import intarsia as ia
from intarsia.format import thrift, thrift_tree
from tests.conftest import CORPUS
from tests.verify.damage import Damage

FOLDER = CORPUS / "parquet-testing" / "geospatial"
FILES = sorted(FOLDER.glob("*.parquet"))

BOX = {"xmin": 1, "xmax": 2, "ymin": 3, "ymax": 4, "zmin": 5, "zmax": 6, "mmin": 7, "mmax": 8}


@pytest.mark.parametrize("path", FILES, ids=lambda path: path.stem)
def test_files_of_arrow(tmp_path, path):
    report = ia.verify(path)
    assert report.findings == ()
    full = pq.read_table(path)
    assert ia.open(path).scan().to_arrow().equals(full)
    copy = str(tmp_path / "a.parquet")
    shutil.copy(path, copy)
    ia.attach(copy, [ia.PageIndex(), ia.Statistics()])
    assert ia.verify(copy).findings == ()
    assert pq.read_table(copy).equals(full)
    before, after = ia.inspect(path), ia.inspect(copy)
    for one, other in zip(before.row_groups, after.row_groups, strict=True):
        assert [chunk.geospatial for chunk in one.columns] == [chunk.geospatial for chunk in other.columns]


def test_they_are_checked():
    assert ia.verify(FOLDER / "geospatial.parquet").checked["geospatial_statistics"] == 31


def test_inspect_shows_them():
    group = ia.inspect(FOLDER / "geospatial-with-nan.parquet").row_groups[0]
    found = next(chunk.geospatial for chunk in group.columns if chunk.geospatial is not None)
    assert found.bounding_box == {
        "xmin": 10.0, "xmax": 130.0, "ymin": 20.0, "ymax": 140.0,
        "zmin": 30.0, "zmax": 150.0, "mmin": 40.0, "mmax": 160.0,
    }  # fmt: skip
    assert found.types == ("Point ZM", "LineString ZM")
    document = ia.inspect(FOLDER / "geospatial-with-nan.parquet").to_dict()
    assert document["row_groups"][0]["columns"][-1]["geospatial"]["types"] == list(found.types)


def point(x, y):
    return b"\x01" + struct.pack("<Idd", 1, x, y)


def write(path, values, box=None, types=None, logical=17):
    """A file of one GEOMETRY column (18 is GEOGRAPHY), with these statistics."""
    pq.write_table(
        pa.table({"g": pa.array(values, pa.binary())}), path, write_statistics=False, store_schema=False
    )
    damage = Damage(path)
    kind = thrift_tree.Struct({logical: (thrift.STRUCT, thrift_tree.Struct())}) if logical else None
    element = damage.tree.get(2).items[1]
    element.remove(6)
    if kind is not None:
        element.set(10, thrift.STRUCT, kind)
    statistics = thrift_tree.Struct()
    if box is not None:
        fields = {BOX[name]: (thrift.DOUBLE, struct.pack("<d", limit)) for name, limit in box.items()}
        statistics.set(1, thrift.STRUCT, thrift_tree.Struct(fields))
    if types is not None:
        statistics.set(2, thrift.LIST, thrift_tree.List(thrift.I32, types))
    damage.meta("g").set(17, thrift.STRUCT, statistics)
    damage.write()
    return str(path)


def rules(path):
    return {(finding.rule, finding.index) for finding in ia.verify(path).findings}


VALUES = [point(10.0, 20.0), None, point(30.0, -40.0), point(math.nan, math.nan)]
RIGHT = {"xmin": 10.0, "xmax": 30.0, "ymin": -40.0, "ymax": 20.0}


@pytest.mark.parametrize(
    ("box", "types", "rule"),
    [
        (RIGHT, [1], None),
        (RIGHT, [], None),
        (RIGHT, None, None),
        (None, [1], None),
        ({**RIGHT, "xmin": -180.0, "ymax": 90.0}, [1], None),
        ({**RIGHT, "xmin": 10.5}, [1], "bounding-box-excludes-values"),
        ({**RIGHT, "xmax": 29.0}, [1], "bounding-box-excludes-values"),
        ({**RIGHT, "ymin": -39.0}, [1], "bounding-box-excludes-values"),
        ({**RIGHT, "ymax": 19.0}, [1], "bounding-box-excludes-values"),
        ({**RIGHT, "xmin": 30.0, "xmax": 10.0}, [1], None),  # across the antimeridian, both at its edges
        ({**RIGHT, "xmin": 31.0, "xmax": 11.0}, [1], "bounding-box-excludes-values"),
        ({**RIGHT, "ymin": math.nan}, [1], "bound-is-nan"),
        ({**RIGHT, "zmin": 1.0}, [1], "bounding-box-incomplete"),
        (RIGHT, [2], "geospatial-types-incomplete"),
        (RIGHT, [1, 1], "geospatial-types-not-exact"),
        (RIGHT, [1, 2], "geospatial-types-not-exact"),
    ],
)
def test_damage(tmp_path, box, types, rule):
    path = write(tmp_path / "a.parquet", VALUES, box, types)
    found = rules(path)
    assert (rule, "GeospatialStatistics") in found if rule else found == set()
    assert ia.open(path).count() == 4
    assert ia.inspect(path).to_dict()


def test_limits_upside_down(tmp_path):
    path = write(tmp_path / "a.parquet", VALUES, {**RIGHT, "ymin": 50.0})
    assert ("bounds-out-of-order", "GeospatialStatistics") in rules(path)


def test_boxes_of_geography_are_rounded(tmp_path):
    box = {**RIGHT, "xmin": 10.000000000000004}
    assert rules(write(tmp_path / "a.parquet", VALUES, box, logical=18)) == set()
    found = rules(write(tmp_path / "b.parquet", VALUES, {**RIGHT, "xmin": 10.001}, logical=18))
    assert found == {("bounding-box-excludes-values", "GeospatialStatistics")}


def test_values_that_are_not_wkb(tmp_path):
    path = write(tmp_path / "a.parquet", [point(10.0, 20.0), b"POINT(1 2)"], RIGHT, [1])
    assert rules(path) == {("unchecked", "GeospatialStatistics")}


def test_statistics_of_another_type(tmp_path):
    path = write(tmp_path / "a.parquet", VALUES, RIGHT, [1], logical=None)
    assert rules(path) == {("bounds-without-order", "GeospatialStatistics")}


def test_size_statistics_are_shown(tmp_path):
    path = str(tmp_path / "a.parquet")
    pq.write_table(pa.table({"text": ["ab", None, "c"], "list": [[1, 2], [], [3]]}), path)
    text, numbers = ia.inspect(path).row_groups[0].columns
    assert (text.sizes.value_bytes, text.sizes.definition_levels) == (3, (1, 2))
    assert numbers.sizes.value_bytes is None
    assert numbers.sizes.repetition_levels == (3, 1)
    assert sum(numbers.sizes.definition_levels) == 4
