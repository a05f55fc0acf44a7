"""An index evaluates conditions on its own column, compared in the file's own type."""

from __future__ import annotations

import datetime as dt
from decimal import Decimal

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

import intarsia as ia
from intarsia.arrow.comparison import compares_alike
from intarsia.predicate import Comparison

DAY = dt.datetime(2020, 1, 3)


@pytest.mark.parametrize(
    ("first", "later", "literal"),
    [
        (pa.array([dt.datetime(2020, 1, 1)], pa.timestamp("us")), pa.array([DAY], pa.timestamp("ms")), DAY),
        (pa.array([dt.datetime(2020, 1, 1)], pa.timestamp("ms")), pa.array([DAY], pa.timestamp("us")), DAY),
        (
            pa.array([Decimal("1.50")], pa.decimal128(10, 2)),
            pa.array([Decimal("2.5000")], pa.decimal128(10, 4)),
            Decimal("2.5"),
        ),
        (pa.array([1]), pa.array([Decimal("5.00")], pa.decimal128(10, 2)), 5),
        (pa.array([Decimal("1.5")], pa.decimal128(21, 1)), pa.array([5]), 5),
        (pa.array([1]), pa.array([5.0]), 5),
        (pa.array([1.5]), pa.array([5]), 5),
        (pa.array([1], pa.int32()), pa.array([5], pa.int64()), 5),
        (pa.array([1], pa.int64()), pa.array([5], pa.uint32()), 5),
        (pa.array([1], pa.float32()), pa.array([0.1], pa.float64()), 0.1),
        (pa.array([dt.date(2020, 1, 1)]), pa.array([DAY], pa.timestamp("us")), DAY),
        (pa.array([DAY], pa.timestamp("us")), pa.array([DAY.date()]), DAY),
        (pa.array([1]), pa.array(["05"]), 5),
    ],
)
def test_a_column_of_another_type_in_a_later_file(tmp_path, first, later, literal):
    pq.write_table(pa.table({"v": first}), tmp_path / "1.parquet")
    pq.write_table(pa.table({"v": later}), tmp_path / "2.parquet", write_page_index=True)
    ia.attach(tmp_path / "2.parquet", [ia.Distinct("v", granularity="file")])
    # text and numbers have no common type, so the first file's is asked for
    table = ia.open(tmp_path, schema="first")
    expected = later.cast(table.schema.field("v").type)[0]
    for op in ("=", "<=", ">="):
        found = table.scan(Comparison("v", op, literal)).to_arrow()["v"]
        assert expected in found.to_pylist() or expected.as_py() in found.to_pylist(), op


def test_nulls_of_a_column_of_another_type_in_a_later_file(tmp_path):
    pq.write_table(pa.table({"v": pa.array([1], pa.int32())}), tmp_path / "1.parquet")
    later = pa.table({"v": pa.array([2**40, None] + [7] * 10, pa.int64())})
    pq.write_table(later, tmp_path / "2.parquet", row_group_size=2, write_statistics=False)
    ia.attach(tmp_path / "2.parquet", [ia.Distinct("v", granularity="row_group")])
    scan = ia.open(tmp_path).scan("v IS NULL")
    report = scan.explain()
    assert report.row_groups_read <= 2
    assert not report.ignored


def test_types_that_compare_without_a_cast():
    assert compares_alike(pa.dictionary(pa.int8(), pa.large_string()), pa.string())
    assert compares_alike(pa.int16(), pa.int64())
    assert compares_alike(pa.timestamp("us", "UTC"), pa.timestamp("us", "Europe/Berlin"))
    assert not compares_alike(pa.int64(), pa.int16())
    assert not compares_alike(pa.uint8(), pa.int64())
    assert not compares_alike(pa.float64(), pa.float32())
    assert not compares_alike(pa.decimal128(10, 2), pa.decimal128(10, 4))


def test_a_column_with_a_dot_is_not_the_field_of_a_struct(tmp_path):
    path = tmp_path / "dots.parquet"
    structs = [{"b": f"v{i}"} for i in range(100)]
    pq.write_table(pa.table({"a.b": ["x"] * 100, "a": structs}), path)
    ia.attach(path, [ia.Distinct("a.b", granularity="file")])
    table = ia.open(path)
    assert table.scan(Comparison(("a", "b"), "=", "v7")).to_arrow().num_rows == 1
    assert table.scan(Comparison(("a.b",), "=", "v7")).to_arrow().num_rows == 0
    assert table.scan(Comparison(("a.b",), "=", "v7")).explain().row_groups_read == 0
