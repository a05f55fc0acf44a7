"""Hll: estimates within their bounds, merged sketches, and detected damage."""

import datetime as dt
import itertools
import subprocess
import sys
import tracemalloc
from decimal import Decimal

import datasketches
import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

import intarsia as ia
from intarsia.errors import IndexBuildError, IndexPayloadError, UnsupportedFeatureError
from intarsia.indexes.distinct_counter import DistinctCounter
from intarsia.indexes.granules import serialize_granules
from intarsia.indexes.hll import Hll
from intarsia.indexes.layout import Layout
from intarsia.predicate import bind, parse_sql
from intarsia.testing import IndexContract, MemoryColumns
from tests.effort import examples

ALL = np.array([True])

SCHEMA = pa.schema([pa.field("sketch", pa.binary(), False), pa.field("has_empty", pa.bool_(), False)])


def opened(values, index=None, group_edges=None, pages=None):
    index = index or Hll("x")
    edges = group_edges or [0, len(values)]
    columns = MemoryColumns(pa.table({"x": values}), edges, pages and {"x": pages})
    return index.open(index.build(columns), columns.layout_when_opened)


def counted(opened_index, granules=ALL):
    counter = DistinctCounter(21)
    opened_index.add_to(counter, np.asarray(granules))
    return counter


class TestContract(IndexContract):
    def index(self):
        return Hll("x")

    def values(self):
        return pa.array(["a", "b", None, "", "a", "ü"] * 4)


@pytest.mark.parametrize("lg_config_k", [8, 12, 16])
@pytest.mark.parametrize("distinct", [0, 1, 10, 1000, 100_000])
def test_the_estimate_is_close_and_its_bounds_contain_the_true_count(distinct, lg_config_k):
    values = pa.array(np.arange(distinct).repeat(2) * 7)
    counter = counted(opened(values, Hll("x", lg_config_k=lg_config_k)))
    lower, upper = counter.bounds(3)
    assert lower <= distinct <= upper
    assert counter.estimate == pytest.approx(distinct, rel=5 * 1.04 / 2 ** (lg_config_k / 2), abs=0.01)


@pytest.mark.parametrize(
    "values",
    [
        pa.array([True, False, True, None]),
        pa.array([1, -1, 1, None], pa.int8()),
        pa.array([0, 2**64 - 1, 0, None], pa.uint64()),
        pa.array([0.0, 1.5, -0.0, None], pa.float16()),
        pa.array([float("nan"), 0.0, -float("nan"), -0.0, None]),
        pa.array(["a", "", "a", None]),
        pa.array(["a", "", "a", None], pa.large_string()),
        pa.array(["a", "", "a", None], pa.string_view()),
        pa.array(["a", "", "a", None]).dictionary_encode(),
        pa.array([b"\xff\xfe", b"\x00", b"\xff\xfe", None]),
        pa.array([b"\xff\xfe", b"", b"\xff\xfe", None]),
        pa.array([b"\xff\xfe", b"\x00\x00", b"\xff\xfe", None], pa.binary(2)),
        pa.array([Decimal("1.50"), Decimal("-2"), Decimal("1.5"), None], pa.decimal128(9, 2)),
        pa.array([Decimal("1.50"), Decimal("-2"), Decimal("1.5"), None], pa.decimal256(50, 2)),
        pa.array([Decimal("1.50"), Decimal("-2"), Decimal("1.5"), None], pa.decimal32(9, 2)),
        pa.array([dt.date(1, 1, 1), dt.date(2, 1, 1), dt.date(1, 1, 1), None]),
        pa.array([dt.time(1), dt.time(2), dt.time(1), None]),
        pa.array([1, -2, 1, None], pa.timestamp("ns", "Europe/Zurich")),
        pa.array([1, -2, 1, None], pa.duration("ms")),
    ],
    ids=lambda values: str(values.type),
)
def test_every_type_is_counted_as_sql_counts_distinct_values(values):
    counter = counted(opened(values))
    assert counter.estimate == pytest.approx(2)


def test_values_are_hashed_as_the_library_does():
    texts = [f"text {i} ü" for i in range(5000)]
    for values, fed in [
        (pa.array(range(-2500, 2500)), range(-2500, 2500)),
        (pa.array(texts), texts),
        (pa.array([text.encode() for text in texts]), texts),
        (pa.array([0.5 * i for i in range(5000)], pa.float32()), [0.5 * i for i in range(5000)]),
    ]:
        sketch = datasketches.hll_sketch(12, datasketches.tgt_hll_type.HLL_8)
        for value in fed:
            sketch.update(value)
        assert opened(values).sketches[0].as_py() == sketch.serialize_compact()


def test_bytes_that_are_not_text_are_hashed_like_text():
    texts = [f"text {i} ü" for i in range(5000)]
    together = pa.array([text.encode() for text in texts] + [b"\xff"])  # the array is no longer text
    alone = DistinctCounter(12)
    alone.add(pa.array(texts))
    counter = counted(opened(together))
    assert counter.estimate == pytest.approx(alone.estimate, abs=3)
    counter.merge(alone)
    assert counter.estimate == pytest.approx(alone.estimate, rel=0.02)


@pytest.mark.parametrize("data_type", [pa.timestamp("us"), pa.string()])
def test_the_memory_of_counting_does_not_grow_with_the_values(data_type):
    """All distinct values of a row group were objects of Python at the same time."""
    values = pa.array(np.arange(1_000_000)).cast(data_type)
    counter, parts = DistinctCounter(12), DistinctCounter(12)
    tracemalloc.start()
    try:
        counter.add(values)
        peak = tracemalloc.get_traced_memory()[1]
    finally:
        tracemalloc.stop()
    assert peak < 24 << 20
    for start in range(0, len(values), 499_999):
        parts.add(values.slice(start, 499_999))
    assert parts.estimate == counter.estimate


@pytest.mark.parametrize("union", [8, 12, 21])
@pytest.mark.parametrize("sizes", list(itertools.product((2, 90, 6_000), repeat=3)), ids=str)
def test_sketches_of_different_sizes_are_merged_in_any_order(union, sizes):
    """The library forgets what it has merged if a further sketch follows one that is coarser."""
    exact, start, parts = sum(sizes), 0, []
    for size in sizes:
        parts.append(pa.array(np.arange(start, start + size)))
        start += size
    for registers in itertools.product((12, 10), repeat=3):
        counter = DistinctCounter(union)
        for values, lg_config_k in zip(parts, registers, strict=True):
            one = DistinctCounter(lg_config_k)
            one.add(values)
            counter.merge(one)
        error = 5 * 1.04 / 2 ** (min(union, *registers) / 2)
        assert counter.estimate == pytest.approx(exact, rel=error), registers
        counter.add(pa.array(np.arange(start, start + 9_000)))
        assert counter.estimate == pytest.approx(exact + 9_000, rel=error), registers


def test_merged_sketches_of_granules_equal_the_sketch_of_the_file():
    rng = np.random.default_rng(3)
    values = pa.array(rng.integers(0, 30_000, 60_000))
    edges = [0, 20_000, 20_000, 60_000]
    whole = datasketches.hll_sketch.deserialize(opened(values).sketches[0].as_py())
    for granularity in ("row_group", "page", 7000):
        index = opened(values, Hll("x", granularity), edges, [0, 500, 20_000, 60_000])
        counter = counted(index, [True] * (len(index.edges) - 1))
        union = datasketches.hll_union(12)
        union.update(whole)
        union.update(datasketches.hll_sketch.deserialize(counter.to_sketch()[0]))
        # the union of equal sketches has the same registers in either order
        again = datasketches.hll_union(12)
        again.update(datasketches.hll_sketch.deserialize(counter.to_sketch()[0]))
        again.update(whole)
        registers = slice(40, None)
        sketches = [u.get_result(datasketches.tgt_hll_type.HLL_8) for u in (union, again)]
        serialized = [sketch.serialize_compact()[registers] for sketch in [*sketches, whole]]
        assert serialized[0] == serialized[1] == serialized[2]
        assert counter.estimate == pytest.approx(len(values.unique()), rel=0.08)


def test_a_granule_is_covered_if_all_of_its_rows_are_selected():
    from intarsia.indexes.granules import covered_granules
    from intarsia.rows.selection import RowSelection

    index = opened(pa.array(range(6)), Hll("x", "row_group"), [0, 2, 2, 4, 6])
    rows = RowSelection.from_ranges([(0, 3), (4, 6)])
    assert covered_granules(index.edges, rows).tolist() == [True, False, False, True]


def test_it_does_not_prune_and_is_not_read_for_a_condition():
    leaf = bind(parse_sql("x = 1"), pa.schema({"x": pa.int64()}))
    assert not Hll("x").can_prune(leaf)
    assert opened(pa.array([1, 2])).candidate_rows(leaf) is None


@pytest.mark.parametrize(
    "values",
    [pa.array([[1]]), pa.array([{"a": 1}])],
    ids=str,
)
def test_values_that_cannot_be_hashed(values):
    with pytest.raises(IndexBuildError) as caught:
        opened(values, Hll("x"))
    assert (caught.value.reason, caught.value.column) == ("type-not-hashable", "x")


@pytest.mark.parametrize("distinct", [0, 3, 100, 5000])
def test_a_damaged_sketch_raises_and_does_not_crash(distinct):
    rng = np.random.default_rng(distinct)
    good = opened(pa.array(range(distinct), pa.int64())).sketches[0].as_py()
    layout = Layout(distinct, np.array([0, distinct]), {})
    refused = 0
    count = examples(4000)
    for _ in range(count):
        data = bytearray(good)
        for place in rng.integers(0, min(len(data), 48), rng.integers(1, 4)):
            data[place] = rng.integers(256)
        del data[len(data) - rng.integers(0, 3) * rng.integers(0, 20) :]
        batch = pa.record_batch([pa.array([bytes(data)]), pa.array([False])], schema=SCHEMA)
        index = Hll("x").open(serialize_granules(batch, np.array([0, distinct]), "file"), layout)
        try:
            assert isinstance(counted(index).estimate, float)
        except IndexPayloadError:
            refused += 1
    assert refused > count / 4


def test_payloads_with_other_columns_are_rejected():
    layout = Layout(5, np.array([0, 5]), {})
    edges = np.array([0, 5])
    for batch in [
        pa.record_batch({"sketch": pa.array([1]), "has_empty": pa.array([True])}),
        pa.record_batch({"sketch": pa.array([None, None], pa.binary())}),
    ]:
        with pytest.raises(IndexPayloadError) as caught:
            Hll("x").open(serialize_granules(batch, edges, "file"), layout)
        assert caught.value.reason == "damaged-payload"


def test_the_library_is_not_loaded_before_it_is_needed(tmp_path):
    path = tmp_path / "t.parquet"
    pq.write_table(pa.table({"x": range(10)}), path)
    ia.attach(path, [Hll("x"), ia.Sample(5)])
    code = (
        "import sys, intarsia as ia; ia.Hll('x'); "
        f"ia.open({str(path)!r}).scan('x = 3').to_arrow(); "
        "sys.exit('datasketches' in sys.modules or 'mmh3' in sys.modules)"
    )
    assert subprocess.run([sys.executable, "-c", code], check=False).returncode == 0


def test_without_the_library(tmp_path, monkeypatch):
    """Python 3.14 has no wheels of it. Everything else works, also on files with sketches."""
    path = tmp_path / "t.parquet"
    pq.write_table(pa.table({"x": range(10)}), path)
    ia.attach(path, [Hll("x")])
    monkeypatch.setitem(sys.modules, "datasketches", None)
    table = ia.open(path)
    assert (table.count("x < 3"), table.count_distinct("x"), ia.verify(path).ok) == (3, 10, True)
    with pytest.raises(UnsupportedFeatureError, match="pip install datasketches") as caught:
        table.approx_distinct("x")
    assert caught.value.reason == "library-not-installed"
    ia.detach(path)
    original = path.read_bytes()
    with pytest.raises(UnsupportedFeatureError, match="pip install datasketches"):
        ia.attach(path, [Hll("x")])
    assert path.read_bytes() == original
