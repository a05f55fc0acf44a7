"""Histograms: estimates are close, exact where possible, and never exclude rows."""

import datetime as dt
import math
import random
from decimal import Decimal

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from hypothesis import given
from hypothesis import strategies as st

import intarsia as ia
from intarsia.errors import IndexPayloadError
from intarsia.indexes.histogram import Histogram
from intarsia.predicate import bind, evaluate, parse_predicate
from intarsia.testing.memory import MemoryColumns

RANDOM = np.random.default_rng(5)


def columns_of(values, group_edges=None):
    return MemoryColumns(pa.table({"x": values}), group_edges or [0, len(values)])


def opened(values, granularity="row_group", buckets=64, group_edges=None):
    column = columns_of(values, group_edges)
    index = Histogram("x", granularity, buckets)
    return index.open(index.build(column), column.layout)


def estimate_and_truth(values, where, **options):
    leaf = bind(parse_predicate(where), pa.schema([("x", values.type)]))
    truth = evaluate(leaf, {("x",): values}, len(values)).true_count
    return opened(values, **options).estimated_rows(leaf), truth


UNIFORM = pa.array(RANDOM.integers(0, 1000, 20_000))
SKEWED = pa.array(np.minimum(RANDOM.zipf(1.5, 20_000), 10_000))
WORDS = pa.array([f"{word:05}" for word in RANDOM.integers(0, 3000, 20_000)])
FLOATS = pa.array([None, float("nan")] * 1000 + RANDOM.normal(size=18_000).tolist())


@pytest.mark.parametrize(
    ("values", "where"),
    [
        (UNIFORM, "x < 100"),
        (UNIFORM, "x >= 990"),
        (UNIFORM, "x = 17"),
        (UNIFORM, "x <> 17"),
        (UNIFORM, "x BETWEEN 200 AND 300"),
        (UNIFORM, "x IN (1, 2, 3)"),
        (UNIFORM, "x NOT IN (1, 2, 3)"),
        (SKEWED, "x = 1"),
        (SKEWED, "x = 2"),
        (SKEWED, "x > 1"),
        (SKEWED, "x > 100"),
        (WORDS, "x LIKE '01%'"),
        (WORDS, "x NOT LIKE '01%'"),
        (WORDS, "x < '015'"),
        (FLOATS, "x IS NULL"),
        (FLOATS, "x IS NOT NULL"),
        (FLOATS, "x > 1"),
        (FLOATS, "NOT (x <= 1)"),
        (FLOATS, "x = 0"),
    ],
)
def test_near_the_truth(values, where):
    bound = bind(parse_predicate(where), pa.schema([("x", values.type)]))
    shares = []
    for leaf in getattr(bound, "children", (bound,)):  # BETWEEN is two leaves
        found = opened(values).estimated_rows(leaf)
        truth = evaluate(leaf, {("x",): values}, len(values)).true_count
        shares.append((found - truth) / len(values))
    assert np.abs(shares).max() < 0.02, shares


@pytest.mark.parametrize("granularity", ["row_group", "page", 777])
def test_granules_add_up(granularity):
    found, truth = estimate_and_truth(
        UNIFORM, "x < 500", granularity=granularity, group_edges=[0, 5000, 12_000, 20_000]
    )
    assert abs(found - truth) < 400


def test_a_value_that_fills_buckets_is_seen():
    values = pa.array([5] * 900 + list(range(1000, 1100)))
    found, _ = estimate_and_truth(values, "x = 5")
    assert 850 < found <= 1000
    assert estimate_and_truth(values, "x = 7")[0] < 30
    assert estimate_and_truth(values, "x = 4")[0] == 0
    assert estimate_and_truth(values, "x = 1100")[0] == 0


TYPED = [
    pa.array([True, False, None, True]),
    pa.array([1, 2, 2**63], pa.uint64()),
    pa.array([dt.date(2020, 1, 1), dt.date(2021, 1, 1), None]),
    pa.array([dt.datetime(2020, 1, 1), dt.datetime(2021, 1, 1)], pa.timestamp("ns", "UTC")),
    pa.array([dt.time(1), dt.time(2)], pa.time64("us")),
    pa.array([dt.time(1), dt.time(2)], pa.time32("ms")),
    pa.array([1, 2], pa.duration("s")),
    pa.array([Decimal("1.50"), Decimal("-7.25")], pa.decimal128(9, 2)),
    pa.array([Decimal("1.50"), Decimal("-7.25")], pa.decimal256(50, 2)),
    pa.array([1.5, 2.5], pa.float32()),
    pa.array(np.array([1.5, 2.5], np.float16)),
    pa.array([b"ab", b"cd"], pa.binary(2)),
    pa.array([b"", b"\xff" * 100]),
    pa.array(["", "ü" * 100, None]),
    pa.array(["a", "b"]).dictionary_encode(),
    pa.array([None, None], pa.int32()),
    pa.array([float("nan")] * 3),
    pa.array([], pa.int64()),
]


@pytest.mark.parametrize("values", TYPED, ids=lambda values: str(values.type))
def test_every_type_that_compares(values):
    histogram = opened(values)
    leaf = bind(parse_predicate("x IS NULL"), pa.schema([("x", values.type)]))
    assert histogram.estimated_rows(leaf) == values.null_count
    total = sum(granule.count + granule.null_count + granule.nan_count for granule in histogram.granules)
    assert total == len(values)
    for value in set(values.drop_null().to_pylist()):
        if not (isinstance(value, float) and math.isnan(value)):
            leaf = bind(parse_predicate([("x", "=", value)]), pa.schema([("x", values.type)]))
            assert 0 < histogram.estimated_rows(leaf) <= len(values)


@given(
    st.lists(st.none() | st.integers(-5, 5), max_size=60),
    st.integers(1, 9),
    st.sampled_from(["x < {}", "x <= {}", "x = {}", "x <> {}", "x > {}", "x >= {}", "x IN ({}, 9)"]),
    st.integers(-7, 7),
)
def test_estimates_are_within_the_rows(values, buckets, where, value):
    array = pa.array(values, pa.int64())
    found, _ = estimate_and_truth(array, where.format(value), buckets=buckets)
    assert 0 <= found <= len(values) - array.null_count


@pytest.mark.parametrize("where", ["x < 3", "x <= 0", "x > 3", "x >= 2.5", "x = 3"])
@pytest.mark.parametrize("extremes", [[-math.inf], [math.inf], [-math.inf, math.inf], [-1.7e308, 1.7e308]])
@pytest.mark.parametrize("buckets", [1, 2, 64])
def test_estimates_are_within_the_rows_for_infinite_ranges(extremes, buckets, where):
    values = pa.array([*extremes, 1.0, 2.0, 3.0, 4.0])
    estimate, _ = estimate_and_truth(values, where, buckets=buckets)
    assert 0 <= estimate <= len(values)


def test_damage_is_detected():
    column = columns_of(UNIFORM[:100])
    index = Histogram("x", buckets=4)
    payload = index.build(column)
    other = Histogram("x", "page").build(column)
    for damaged in (payload[:-20], b"", other[:100]):
        with pytest.raises(IndexPayloadError):
            index.open(damaged, column.layout)
    with pytest.raises(IndexPayloadError):
        index.open(payload, columns_of(UNIFORM[:100], [0, 50, 100]).layout)
    dice = random.Random(1)
    leaf = bind(parse_predicate("x < 500"), pa.schema([("x", pa.int64())]))
    for _ in range(300):
        damaged = bytearray(payload)
        damaged[dice.randrange(len(payload))] ^= 1 << dice.randrange(8)
        try:
            index.open(bytes(damaged), column.layout).estimated_rows(leaf)
        except IndexPayloadError:
            continue


def test_in_a_file_it_estimates_and_does_not_prune(tmp_path):
    path = tmp_path / "a.parquet"
    pq.write_table(pa.table({"x": UNIFORM, "y": SKEWED}), path, row_group_size=5000)
    ia.attach(path, [ia.Histogram("x"), ia.Histogram("y")])
    assert ia.verify(path).ok
    report = ia.open(path).explain("x < 100 AND y = 1").to_dict()
    truth = ia.open(path).scan("x < 100 AND y = 1").to_arrow().num_rows
    assert abs(report["rows"]["estimated"] - truth) < 300
    assert report["rows"]["matched"] is None
    analyzed = ia.open(path).explain("x < 100 AND y = 1", analyze=True).to_dict()["rows"]
    assert analyzed["matched"] == truth
    assert analyzed["estimated"] == report["rows"]["estimated"]
    assert ia.open(path).explain("x < 100").to_dict()["pruned_by"] == []
