"""Distinct never excludes a matching row, for every type, predicate and granularity."""

from __future__ import annotations

import tracemalloc
from collections.abc import Iterator

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from hypothesis import given
from hypothesis import strategies as st

import intarsia as ia
from intarsia.errors import IndexBuildError, IndexPayloadError
from intarsia.indexes.distinct import MAX_GRANULE_BYTES
from intarsia.indexes.layout import Layout, parameters
from intarsia.predicate import bind, condition_mask, conditions, parse_sql
from intarsia.rows.selection import RowSelection
from tests.predicate import strategies
from tests.verify.damage import change_payload


class Values:
    """One column in memory, returned in pieces, as in `Index.build`."""

    def __init__(self, array: pa.Array, edges: list[int], group_edges: list[int]) -> None:
        self.array = array
        self.layout = Layout(len(array), np.array(group_edges), {"x": np.array(edges)})

    def type_of(self, column: str) -> pa.DataType:
        return self.array.type

    def batches(self, column: str) -> Iterator[tuple[int, pa.Array]]:
        for start, stop in zip(
            self.layout.row_group_edges[:-1].tolist(), self.layout.row_group_edges[1:].tolist(), strict=True
        ):
            yield start, self.array.slice(start, stop - start)

    encoded_batches = batches


def rows_where(leaf, array: pa.Array) -> RowSelection:
    return RowSelection.from_mask(condition_mask(leaf, array).to_numpy(zero_copy_only=False))


def opened(index: ia.Distinct, data: Values):
    return index.open(index.build(data), data.layout)


@st.composite
def columns(draw, types=tuple(strategies.TYPES)):
    """Draw a column, and a granularity."""
    array = draw(strategies.arrays(draw(st.sampled_from(types)), draw(st.integers(0, 30))))
    cuts = st.lists(st.integers(0, len(array)), max_size=4, unique=True)
    groups = sorted({0, len(array), *draw(cuts)})
    pages = sorted({*groups, *draw(cuts)})
    return Values(array, pages, groups), draw(st.sampled_from(["page", "row_group", "file", 3]))


@st.composite
def cases(draw):
    values, granularity = draw(columns())
    index = ia.Distinct("x", granularity, max_values=draw(st.sampled_from([1, 3, 10_000])))
    return values, index, draw(strategies.predicates({"x": values.array.type}))


@given(cases())
def test_candidates_contain_every_matching_row_and_certain_rows_match(case):
    data, index, predicate = case
    bound = bind(predicate, pa.schema({"x": data.array.type}))
    distinct = opened(index, data)
    for leaf in conditions(bound):
        matching = rows_where(leaf, data.array)
        assert (matching - distinct.candidate_rows(leaf)).is_empty
        assert (distinct.certain_rows(leaf) - matching).is_empty


def find(text: str, kind: pa.DataType):
    return next(conditions(bind(parse_sql(text), pa.schema({"x": kind}))))


@pytest.mark.parametrize(
    ("where", "rows"),
    [
        ("x = 'a'", [(0, 2)]),
        ("x IN ('b', 'd')", [(2, 6)]),
        ("x <> 'a'", [(2, 6)]),
        ("x NOT IN ('a', 'b')", [(4, 6)]),
        ("x IS NULL", [(2, 4)]),
        ("x IS NOT NULL", [(0, 6)]),
        ("x > 'b'", [(4, 6)]),
        ("x LIKE '%d%'", [(4, 6)]),
        ("x = 'absent'", []),
    ],
)
def test_it_is_exact_at_its_granularity(where, rows):
    data = Values(pa.array(["a", "a", "b", None, "d", "e"]), [0, 2, 4, 6], [0, 6])
    distinct = opened(ia.Distinct("x"), data)
    assert distinct.candidate_rows(find(where, pa.string())) == RowSelection.from_ranges(rows)


def test_large_values_are_not_listed_and_their_total_size_is_limited():
    part = MAX_GRANULE_BYTES // 10
    long = ["a" * 6 * part, "b" * 6 * part, "c" * part, "c" * part, "d" * 8 * part, "e" * part]
    distinct = opened(ia.Distinct("x"), Values(pa.array(long), [0, 2, 4, 6], [0, 1, 4, 6]))
    leaf = bind(parse_sql("x = 'nowhere'"), pa.schema({"x": pa.string()}))
    assert distinct.candidate_rows(leaf) == RowSelection.from_ranges([(0, 2)])
    with pytest.raises(IndexBuildError) as caught:
        opened(ia.Distinct("x"), Values(pa.array(long * 3), list(range(19)), [0, 18]))
    assert caught.value.reason == "index-too-large"


def test_a_granule_over_the_limit_cannot_be_skipped():
    data = Values(pa.array([1, 2, 3, 7, 7, 7]), [0, 3, 6], [0, 6])
    distinct = opened(ia.Distinct("x", max_values=2), data)
    assert distinct.candidate_rows(find("x = 9", pa.int64())) == RowSelection.from_ranges([(0, 3)])
    assert distinct.certain_rows(find("x = 7", pa.int64())) == RowSelection.from_ranges([(3, 6)])


@pytest.mark.parametrize("where", ["x = 7", "x IN (7, 9)", "x > 98"])
def test_few_values_cost_their_own_lists(where):
    """The lists of all values were read for each condition, so an OR of thousands of terms took seconds."""
    numbers = np.random.default_rng(0).integers(0, 100, 200_000)
    data = Values(pa.array(numbers), list(range(0, 200_001, 200)), [0, 200_000])
    distinct = opened(ia.Distinct("x"), data)
    leaf = find(where, pa.int64())
    distinct.certain_rows(leaf)  # counts the values of each granule, once
    for rows in (distinct.candidate_rows, distinct.certain_rows):
        tracemalloc.start()
        try:
            rows(leaf)
            peak = tracemalloc.get_traced_memory()[1]
        finally:
            tracemalloc.stop()
        assert peak < len(distinct.granules)


def test_an_index_equals_one_with_its_parameters():
    index = ia.Distinct("a.b", granularity=500, max_values=7)
    assert ia.Distinct(**parameters(index)) == index


def test_a_damaged_payload_is_rejected():
    data = Values(pa.array(["a", "b", None, "a"]), [0, 2, 4], [0, 4])
    index = ia.Distinct("x")
    payload = index.build(data)
    with pytest.raises(IndexPayloadError):
        index.open(b"", data.layout)
    for length in range(0, len(payload) - 8, 16):  # the last 8 bytes are only the end of the stream
        with pytest.raises(IndexPayloadError):
            index.open(payload[:length], data.layout)


def test_a_payload_of_other_rows_is_rejected():
    index = ia.Distinct("x")
    payload = index.build(Values(pa.array(["a", "b"]), [0, 2], [0, 2]))
    other = Values(pa.array(["a", "b", "c"]), [0, 3], [0, 3])
    with pytest.raises(IndexPayloadError) as caught:
        index.open(payload, other.layout)
    assert caught.value.reason == "other-rows"


def test_a_nested_column_is_rejected():
    data = Values(pa.array([[1]], pa.list_(pa.int64())), [0, 1], [0, 1])
    with pytest.raises(IndexBuildError) as caught:
        ia.Distinct("x").build(data)
    assert (caught.value.reason, caught.value.column) == ("nested-column", "x")


def hostile_payload(values, granules):
    metadata = {b"edges": np.array([0, 10], "<i8").tobytes(), b"unlisted": b""}
    schema = pa.schema([("value", values.type), ("granules", granules.type)], metadata=metadata)
    sink = pa.BufferOutputStream()
    with pa.ipc.new_stream(sink, schema) as writer:
        writer.write_batch(pa.record_batch([values, granules], schema=schema))
    return bytes(sink.getvalue())


@pytest.mark.parametrize(
    "granules",
    [
        pa.array([0, 0]),
        pa.array([[0.5], [0]]),
        pa.array([None, [0]], pa.list_(pa.uint32())),
        pa.array([[None], [0]], pa.list_(pa.uint32())),
        pa.array([[-1], [0]], pa.list_(pa.int32())),
        pa.array([[1], [0]], pa.list_(pa.uint32())),
    ],
    ids=str,
)
def test_impossible_granules_are_rejected(granules):
    layout = Layout(10, np.array([0, 10], dtype=np.int64), {})
    with pytest.raises(IndexPayloadError):
        ia.Distinct("x").open(hostile_payload(pa.array([1, 2]), granules), layout)


def test_values_that_do_not_compare_are_ignored_with_a_warning(tmp_path):
    path = tmp_path / "t.parquet"
    padding = [str(row) * 1000 for row in range(10)]  # makes the index worth reading
    pq.write_table(pa.table({"x": range(10), "padding": padding}), path, compression="none")
    payload = hostile_payload(pa.array(["zz"]), pa.array([[0]], pa.list_(pa.uint32())))
    ia.attach(path, [ia.Distinct("x")])
    change_payload(path, lambda _: payload)
    with pytest.warns(ia.IntarsiaWarning, match="distinct"):
        assert ia.open(path).scan("x = 3").to_arrow().num_rows == 1


@pytest.mark.parametrize(
    "parameters",
    [
        {"granularity": True},
        {"granularity": 0},
        {"granularity": "pages"},
        {"max_values": -1},
        {"max_values": 2.5},
    ],
    ids=str,
)
def test_invalid_parameters_leave_the_file_unchanged(tmp_path, parameters):
    path = tmp_path / "t.parquet"
    pq.write_table(pa.table({"x": range(10)}), path)
    before = path.read_bytes()
    with pytest.raises(IndexBuildError):
        ia.attach(path, [ia.Distinct("x", **parameters)])
    assert path.read_bytes() == before


def test_values_that_hardly_repeat_are_not_listed(tmp_path):
    """Otherwise the index would be as large as its column."""
    path = tmp_path / "a.parquet"
    rows = 40_000
    columns = {"few": [row % 2000 for row in range(rows)], "unique": range(rows)}
    pq.write_table(pa.table(columns), path)
    before = path.stat().st_size
    ia.attach(path, [ia.Distinct("few", 10_000), ia.Distinct("unique", 10_000), ia.Distinct("unique", 2000)])
    sizes = {entry.name: entry.size_bytes for entry in ia.inspect(path).directory.entries}
    assert max(sizes["distinct(unique):10000"], sizes["distinct(unique):2000"]) < 2000 < before / 100
    table = ia.open(path)
    assert table.explain("few = 2001").rows_candidate == 0
    assert table.explain("unique = 2001").rows_candidate == rows
    ia.attach(path, [ia.Distinct("unique", 2000, max_values=2000)])
    assert table.explain("unique = 2001").rows_candidate == 2000


def test_an_index_that_is_unlikely_to_help_is_reported(tmp_path):
    path = tmp_path / "a.parquet"
    rows = 60_000
    pq.write_table(pa.table({"id": range(rows), "word": [f"{row:x}" for row in range(rows)]}), path)
    report = ia.attach(path, [ia.Distinct("id", 20_000), ia.Distinct("id", "file", max_values=rows)])
    assert [(note.column, note.index) for note in report.notes] == [("id", "distinct(id):20000")]
    assert report.notes[0].reason in str(report)
    (note,) = ia.attach(path, [ia.Ngram("word", 3, "file", max_grams=10)]).notes
    assert (note.index, note.code) == ("ngram(word):file", "not-selective")
    assert ia.attach(path, [ia.Ngram("word", 3, "file")]).notes == ()
