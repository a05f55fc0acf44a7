"""A RowMap stores some bits of a hash. Its rows are certain if no other value has the same bits."""

from __future__ import annotations

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

import intarsia as ia
from intarsia.indexes.lookups import hash_values
from intarsia.indexes.rowmap import Widths

ROWS = 400
PARTS = 20_000


def colliding() -> tuple[int, int]:
    """Return two numbers below `PARTS` with the same hash bits in a RowMap of `ROWS` rows."""
    keys = Widths.of(ROWS).keys(hash_values(pa.array(range(PARTS)))[1], 0)
    order = np.argsort(keys, kind="stable")
    (first, *_) = np.flatnonzero(np.diff(keys[order]) == 0)
    return int(order[first]), int(order[first + 1])


def write(path, parts, lowest=0, highest=PARTS - 1):
    """Write parts to four row groups, with the minimum and the maximum in each."""
    part = np.resize(np.array(parts), ROWS)
    part[::100], part[1::100] = lowest, highest
    table = pa.table({"part": part, "price": np.arange(ROWS)})
    pq.write_table(table, path, row_group_size=100)
    ia.attach(path, [ia.PageIndex(), ia.RowMap("part")])
    return table


def test_colliding_values_are_distinguished(tmp_path):
    first, second = colliding()
    table = write(tmp_path / "t.parquet", [first, second])
    opened = ia.open(tmp_path / "t.parquet")
    for part in (first, second):
        expected = table.filter(pa.compute.equal(table["part"], part))
        assert opened.scan(f"part = {part}").to_arrow().equals(expected)
        assert opened.count(f"part = {part}") == len(expected)
    both = opened.scan(f"part IN ({first}, {second})", columns=["price"])
    assert both.to_arrow()["price"].to_pylist() == [row for row in range(ROWS) if row % 100 > 1]
    assert both.report.pages["part"].read == 0  # the condition matches both


@pytest.mark.parametrize("absent", [0, 1])
def test_an_absent_value_does_not_match_a_colliding_one(tmp_path, absent):
    pair = colliding()
    write(tmp_path / "t.parquet", [pair[1 - absent]])
    opened = ia.open(tmp_path / "t.parquet")
    assert opened.scan(f"part = {pair[absent]}", columns=["price"]).to_arrow().num_rows == 0
    assert opened.count(f"part = {pair[absent]}") == 0


def test_a_value_without_collisions_is_not_read(tmp_path):
    part = next(number for number in range(PARTS) if number not in colliding())
    table = write(tmp_path / "t.parquet", [part])
    expected = table.filter(pa.compute.equal(table["part"], part))
    scan = ia.open(tmp_path / "t.parquet").scan(f"part = {part}", columns=["price"])
    assert scan.to_arrow().equals(expected.select(["price"]))
    assert (scan.report.pages["part"].read, scan.report.row_groups_read) == (0, 4)


def test_a_column_with_too_wide_a_range_is_read(tmp_path):
    table = write(tmp_path / "t.parquet", [7], lowest=-(2**63), highest=2**63 - 1)
    scan = ia.open(tmp_path / "t.parquet").scan("part = 7", columns=["price"])
    assert scan.to_arrow().equals(table.filter(pa.compute.equal(table["part"], 7)).select(["price"]))
    assert scan.report.pages["part"].read > 0
