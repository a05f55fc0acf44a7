"""Space-filling curves, without Spark."""

import datetime as dt
from decimal import Decimal
from itertools import product

import numpy as np
import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st

from intarsia.spark.clustering import (
    MAX_COLUMNS,
    bits_per_column,
    curve_keys,
    hilbert,
    quantile_bounds,
    ranks,
    z_order,
)

GRIDS = [(1, 1), (1, 6), (2, 1), (2, 5), (3, 3), (4, 2), (5, 2), (8, 1)]


def all_cells(columns, bits):
    cells = np.array(list(product(range(1 << bits), repeat=columns)), dtype=np.int64)
    return list(cells.T)


@pytest.mark.parametrize(("columns", "bits"), GRIDS)
@pytest.mark.parametrize("curve", [z_order, hilbert])
def test_each_cell_has_one_position(curve, columns, bits):
    cells = all_cells(columns, bits)
    before = [axis.copy() for axis in cells]
    keys = curve(cells, bits)
    assert sorted(keys) == list(range(1 << columns * bits))
    assert all((axis == old).all() for axis, old in zip(cells, before, strict=True))


@pytest.mark.parametrize(("columns", "bits"), GRIDS)
def test_consecutive_cells_of_a_hilbert_curve_are_neighbors(columns, bits):
    cells = all_cells(columns, bits)
    order = np.argsort(hilbert(cells, bits))
    steps = sum(np.abs(np.diff(axis[order])) for axis in cells)
    assert (steps == 1).all()


@given(st.lists(st.tuples(*[st.integers(0, 2**12 - 1)] * 3), min_size=1, max_size=50))
def test_z_order_interleaves_bits(cells):
    expected = [
        int("".join(str(axis >> bit & 1) for bit in reversed(range(12)) for axis in cell), 2)
        for cell in cells
    ]
    assert z_order(list(np.array(cells, dtype=np.int64).T), 12).tolist() == expected


@given(
    st.lists(st.none() | st.integers(-50, 50), max_size=60),
    st.lists(st.none() | st.integers(-60, 60), max_size=60),
    st.integers(1, 6),
)
def test_ranks_count_the_bounds(sample, values, bits):
    bounds = quantile_bounds(pa.array(sample, pa.int64()), bits)
    assert len(bounds) < 1 << bits
    edges = bounds.to_pylist()
    assert edges == sorted(set(edges))
    found = ranks(pa.array(values, pa.int64()), bounds, bits).tolist()
    last = (1 << bits) - 1
    assert found == [last if v is None else sum(edge <= v for edge in edges) for v in values]


@pytest.mark.parametrize(
    "values",
    [
        pa.array([2, 1, None, 3], pa.int8()),
        pa.array([2, 1, None, 3], pa.uint64()),
        pa.array([0.5, float("-inf"), None, float("nan")]),
        pa.array(["b", "", None, "é"]),
        pa.array([b"b", b"", None, b"\xff"], pa.large_binary()),
        pa.array([True, False, None, True]),
        pa.array([Decimal("1.10"), Decimal("-2.00"), None, Decimal("7.25")], pa.decimal128(5, 2)),
        pa.array([Decimal("1.10"), Decimal("-2.00"), None, Decimal("7.25")], pa.decimal128(38, 2)),
        pa.array([dt.date(2020, 1, 2), dt.date(1500, 1, 1), None, dt.date(9999, 1, 1)]),
        pa.array([dt.datetime(2020, 1, 2), dt.datetime(1500, 1, 1), None, dt.datetime(9999, 1, 1)]),
        pa.array(["b", "a", None, "c"]).dictionary_encode(),
        pa.array([None, None], pa.string()),
        pa.array([], pa.float32()),
    ],
    ids=lambda values: str(values.type),
)
def test_types(values):
    """The keys have the order of the values, nulls last."""
    bounds = quantile_bounds(pa.chunked_array([values, values]), 4)
    found = ranks(values, bounds, 4)
    order = [value for value in [1, 0, 3, 2][: len(values)] if value < len(values)]
    assert list(found[order]) == sorted(found)
    assert len(curve_keys([values, values], [bounds, bounds], z_order)) == len(values)


def test_keys_are_positive():
    for columns in range(1, MAX_COLUMNS + 1):
        bits = bits_per_column(columns)
        corner = [np.full(1, (1 << bits) - 1)] * columns
        assert z_order(corner, bits)[0] == (1 << columns * bits) - 1
        assert hilbert([np.full(1, (1 << bits) - 1)] * columns, bits)[0] >= 0
