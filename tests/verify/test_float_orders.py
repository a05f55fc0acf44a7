"""Findings of verify about bounds and NaN counts under IEEE 754's total order."""

import struct

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

import intarsia as ia
from intarsia.format import thrift, thrift_tree
from tests.verify.damage import Damage

NAN = float("nan")


def write(path, values, order=2):
    """A file of one page with a page index, under the total order."""
    pq.write_table(pa.table({"x": values}), path, use_dictionary=False, write_statistics=False)
    damage = Damage(path)
    damage.tree.get(7).items[0] = thrift_tree.Struct({order: (thrift.STRUCT, thrift_tree.Struct())})
    damage.write()
    ia.attach(path, [ia.PageIndex(), ia.Statistics()])
    return str(path)


def rules(path):
    """Return the findings, except that the directory belongs to the file before it was damaged."""
    found = {(finding.rule, finding.index, finding.page) for finding in ia.verify(path).findings}
    return {finding for finding in found if finding[0] != "directory-stale"}


def double(value):
    return struct.pack("<d", value)


@pytest.mark.parametrize("values", [[NAN, NAN], [1.0, NAN, -0.0], [0.0, -0.0], [None, NAN], [None, None]])
def test_bounds_by_attach_are_right(tmp_path, values):
    path = write(tmp_path / "a.parquet", pa.array(values, pa.float64()))
    assert rules(path) == set()


def test_nan_as_bounds_of_a_chunk_that_has_numbers(tmp_path):
    path = write(tmp_path / "a.parquet", [1.0, NAN])
    damage = Damage(path)
    damage.statistics("x", min_value=double(NAN), max_value=double(NAN))
    damage.statistics("x", is_min_value_exact=None, is_max_value_exact=None)
    index = damage.column_index("x")
    damage.put_column_index("x", index._replace(min_values=[double(NAN)], max_values=[double(NAN)]))
    damage.write()
    assert rules(path) == {("bound-is-nan", "Statistics", None), ("bound-is-nan", "ColumnIndex", 0)}


@pytest.mark.parametrize(
    ("values", "low", "high", "ok"),
    [
        ([-0.0, 1.0], 0.0, 1.0, False),
        ([-0.0, 1.0], -0.0, 1.0, True),
        ([-1.0, 0.0], -1.0, -0.0, False),
        ([-1.0, 0.0], -1.0, 0.0, True),
        ([0.0, 1.0], 0.0, 1.0, True),
        ([-1.0, -0.0], -1.0, -0.0, True),
    ],
)
def test_zeros_have_an_order(tmp_path, values, low, high, ok):
    path = write(tmp_path / "a.parquet", values)
    damage = Damage(path)
    damage.statistics("x", min_value=double(low), max_value=double(high))
    damage.write()
    expected = set() if ok else {("bounds-exclude-values", "Statistics", None)}
    assert rules(path) == expected


def test_zeros_have_none_under_the_order_of_the_type(tmp_path):
    path = write(tmp_path / "a.parquet", [-0.0, 1.0], order=1)
    damage = Damage(path)
    damage.statistics("x", min_value=double(0.0))
    damage.write()
    assert rules(path) == set()


def test_nan_must_be_counted(tmp_path):
    path = write(tmp_path / "a.parquet", [1.0, 2.0])
    damage = Damage(path)
    damage.statistics("x", nan_count=None)
    damage.put_column_index("x", damage.column_index("x")._replace(nan_counts=None))
    damage.write()
    assert rules(path) == {
        ("nan-count-missing", "Statistics", None),
        ("nan-count-missing", "ColumnIndex", None),
    }
    assert ia.verify(path).ok
