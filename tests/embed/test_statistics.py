"""Added statistics: they match the rows and have the current form, and nothing else changes."""

import decimal
import math
import struct

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from hypothesis import given, settings

import intarsia as ia
from intarsia.embed import PageIndex, Statistics, attach, detach
from intarsia.embed.leaf_values import LeafReader
from intarsia.file import ParquetInput
from intarsia.format import thrift_tree
from tests.counting import arguments_of
from tests.effort import examples
from tests.embed.tables import content, drawn_tables, edit_footer, expected_page, leaf_columns

MAX_BOUND_BYTES = 64


def statistics_of(path):
    """Return ``{(row group, leaf): Statistics or None}`` and the footer."""
    with ParquetInput.open(path) as file:
        found = {
            (ordinal, leaf): chunk.meta_data.statistics
            for ordinal, group in enumerate(file.footer.metadata.row_groups)
            for leaf, chunk in enumerate(group.columns)
        }
        return found, file.footer


def statistics_tree(tree, row_group, leaf):
    return tree.get(4).items[row_group].get(1).items[leaf].get(3).get(12)


def chunk_trees(tree):
    for group in tree.get(4).items:
        yield from group.get(1).items


# --- values ------------------------------------------------------------------------------------------


@settings(max_examples=examples(40), deadline=None)
@given(drawn=drawn_tables())
def test_they_match_the_rows(drawn, tmp_path_factory):
    path = str(tmp_path_factory.mktemp("statistics") / "t.parquet")
    drawn.write(path, write_statistics=False)
    before = content(path)

    attach(path, [Statistics()])

    found, footer = statistics_of(path)
    edges = footer.row_group_starts
    for number, (name, nullable, column_kind, inner, kind) in enumerate(leaf_columns(drawn.table)):
        for ordinal in range(len(edges) - 1):
            rows = drawn.values[name][edges[ordinal] : edges[ordinal + 1]]
            if rows:
                leaf = footer.leaves[number]
                expected = expected_page(rows, nullable, column_kind, inner, kind, leaf)
                check(found[ordinal, number], expected, kind, beside_nan="nan" in str(drawn.values[name]))
    assert ia.verify(path).ok
    assert pq.read_table(path).equals(drawn.table) or "nan" in str(drawn.values)
    assert attach(path, [Statistics()]).changed is False
    detach(path)
    assert content(path) == before


def check(statistics, expected, kind, *, beside_nan):
    assert statistics.null_count == expected["nulls"]
    if expected["nans"] or expected["low"] is None or (pa.types.is_floating(kind) and beside_nan):
        assert statistics.min_value is statistics.max_value is None
        assert (statistics.nan_count or 0) == expected["nans"]
        return
    low, high = statistics.min_value, statistics.max_value
    assert statistics.is_min_value_exact is (low == expected["low"])
    assert statistics.is_max_value_exact is (high == expected["high"])
    if kind not in (pa.string(), pa.large_string(), pa.binary()):
        assert (low, high) == (expected["low"], expected["high"])
        return
    assert low <= expected["low"]
    assert high >= expected["high"]
    assert low == expected["low"] or len(low) <= MAX_BOUND_BYTES < len(expected["low"])
    assert high == expected["high"] or len(high) <= MAX_BOUND_BYTES < len(expected["high"])


def test_a_page_index_does_not_change_them(tmp_path):
    """Both are computed from the same decoded values."""
    paths = [str(tmp_path / name) for name in ("a.parquet", "b.parquet")]
    table = pa.table({"x": [3, None, 1], "text": ["b" * 100, "a", None], "price": [0.0, -0.0, 5.0]})
    for path in paths:
        pq.write_table(table, path, write_statistics=False)
    attach(paths[0], [PageIndex(), Statistics()])
    attach(paths[1], [Statistics()])

    assert statistics_of(paths[0])[0] == statistics_of(paths[1])[0]
    attach(paths[1], [PageIndex()])
    assert content(paths[0]) == content(paths[1])


def test_a_chunk_is_decoded_once(tmp_path):
    path = str(tmp_path / "t.parquet")
    table = pa.table({"x": list(range(100)), "text": [str(number) for number in range(100)]})
    pq.write_table(table, path, write_statistics=False, row_group_size=50)
    indexes = [ia.Bloom("text"), Statistics(), ia.Bloom("x"), PageIndex()]
    decoded = arguments_of(lambda: attach(path, indexes), of=LeafReader.read)
    assert sorted(call["self"].leaf.name for call in decoded) == ["text", "text", "x", "x"]


# --- existing statistics -----------------------------------------------------------------------------


def test_sound_statistics_are_kept(tmp_path):
    path = str(tmp_path / "t.parquet")
    pq.write_table(pa.table({"x": [3, 1], "text": ["b", "a"]}), path)
    before = content(path)

    report = attach(path, [Statistics()])

    assert (report.kept, report.built, report.changed) == (("statistics",), (), False)
    assert content(path) == before


def test_deprecated_bounds_are_completed_by_current_ones(tmp_path):
    path = str(tmp_path / "t.parquet")
    pq.write_table(pa.table({"x": [3, -1], "text": ["b", "é"]}), path)

    def deprecate(tree):
        for chunk in chunk_trees(tree):
            statistics = chunk.get(3).get(12)
            for old, new in ((1, 5), (2, 6)):
                statistics.set(old, 8, statistics.get(new))
                statistics.remove(new)
            statistics.remove(7)
            statistics.remove(8)

    edit_footer(path, deprecate)
    before, _ = statistics_of(path)

    assert attach(path, [Statistics()]).built == ("statistics",)

    found, _ = statistics_of(path)
    assert [(one.min_value, one.max_value) for one in found.values()] == [
        (struct.pack("<q", -1), struct.pack("<q", 3)),
        (b"b", "é".encode()),
    ]
    assert [(one.min, one.max) for one in found.values()] == [(one.min, one.max) for one in before.values()]


@pytest.mark.parametrize(
    "damage",
    [
        lambda statistics: statistics.remove(5),
        lambda statistics: statistics.set(6, 8, struct.pack("<q", 100)),  # above the maximum
        lambda statistics: statistics.set(5, 8, b"abc"),
        lambda statistics: statistics.remove(3),
        lambda statistics: statistics.set(3, 6, 1_000),
    ],
)
def test_incomplete_or_impossible_statistics_are_computed(tmp_path, damage):
    path, whole = str(tmp_path / "t.parquet"), str(tmp_path / "whole.parquet")
    for name in (path, whole):
        pq.write_table(pa.table({"x": [3, None, -1]}), name)
    edit_footer(path, lambda tree: damage(statistics_tree(tree, 0, 0)))
    before = content(path)

    assert attach(path, [Statistics()]).built == ("statistics",)

    (one,), (expected,) = (list(statistics_of(name)[0].values()) for name in (path, whole))
    assert (one.min_value, one.max_value, one.null_count) == (
        expected.min_value,
        expected.max_value,
        expected.null_count,
    )
    assert attach(path, [Statistics()]).changed is False
    detach(path)
    assert content(path) == before


def test_unknown_fields_of_statistics_survive(tmp_path):
    path = str(tmp_path / "t.parquet")
    pq.write_table(pa.table({"x": [3, 1]}), path)

    def change(tree):
        statistics = statistics_tree(tree, 0, 0)
        statistics.remove(5)
        statistics.set(99, 8, b"of a later version")
        statistics.set(4, 6, 2)

    edit_footer(path, change)
    attach(path, [Statistics()])
    seen = []
    edit_footer(path, lambda tree: seen.append(statistics_tree(tree, 0, 0)))

    assert (seen[0].get(99), seen[0].get(4)) == (b"of a later version", 2)
    assert seen[0].get(5) == struct.pack("<q", 3)


def test_without_column_orders_all_bounds_are_recomputed(tmp_path):
    """Declaring an order would define every bound in the footer."""
    path = str(tmp_path / "t.parquet")
    table = pa.table({"x": [3, 1], "when": pa.array([1, 2], pa.timestamp("ns")), "f": [1.0, math.nan]})
    pq.write_table(table, path, use_deprecated_int96_timestamps=True)

    def change(tree):
        tree.remove(7)
        for chunk in chunk_trees(tree):  # bounds of an unknown order
            bounds = {field: (8, struct.pack("<q", 2)) for field in (5, 6)}
            chunk.get(3).set(12, 12, thrift_tree.Struct(bounds))

    edit_footer(path, change)
    before = content(path)

    report = attach(path, [Statistics()])

    found, footer = statistics_of(path)
    assert len(footer.metadata.column_orders) == 3
    assert (found[0, 0].min_value, found[0, 0].max_value) == (struct.pack("<q", 1), struct.pack("<q", 3))
    for leaf in (1, 2):
        assert (found[0, leaf].min_value, found[0, leaf].max_value) == (None, None)
        assert found[0, leaf].null_count == 0
    assert found[0, 2].nan_count == 1
    assert {note.column for note in report.notes} == {"f", "when"}
    once = content(path)
    assert attach(path, [Statistics()]).changed is False
    attach(path, [PageIndex(), Statistics()])
    assert statistics_of(path)[0] == found
    assert ia.verify(path).ok
    detach(path)
    assert content(path) == before
    attach(path, [Statistics()])
    assert content(path) == once


def test_recomputed_bounds_without_column_orders_are_kept(tmp_path):
    """They equal the undefined bounds of the original, and are kept when another index is attached."""
    path = str(tmp_path / "t.parquet")
    pq.write_table(pa.table({"x": [3, 1]}), path)
    edit_footer(path, lambda tree: tree.remove(7))

    attach(path, [Statistics()])
    attach(path, [ia.Distinct("x")])

    found, _ = statistics_of(path)
    assert found[0, 0].max_value == struct.pack("<q", 3)
    assert attach(path, [Statistics()]).changed is False


@pytest.mark.parametrize("kind", [pa.float16(), pa.float32(), pa.float64()])
def test_chunks_with_nan_get_counts_but_no_bounds(tmp_path, kind):
    path = str(tmp_path / "t.parquet")
    numbers = pa.array(np.array([1.0, math.nan, 2.0, math.nan], dtype=kind.to_pandas_dtype()), kind)
    pq.write_table(pa.table({"x": numbers}), path, write_statistics=False)

    report = attach(path, [Statistics()])

    (one,) = statistics_of(path)[0].values()
    assert (one.min_value, one.max_value, one.null_count, one.nan_count) == (None, None, 0, 2)
    assert [(note.index, note.code) for note in report.notes] == [("statistics", "contains-nan")]
    assert attach(path, [Statistics()]).changed is False


@pytest.mark.parametrize("has_bounds", [False, True])
def test_bounds_beside_nan(tmp_path, has_bounds):
    """DataFusion up to 55 takes those of some row groups for those of the file: all have some, or none."""
    path = str(tmp_path / "t.parquet")
    table = pa.table({"x": [1.0, math.nan, 2.0, 3.0, None, None], "y": [1.0, 2.0, 3.0, 4.0, 5.0, 6.0]})
    pq.write_table(table, path, row_group_size=2, write_statistics=False)
    if has_bounds:  # as Spark writes them: only beside NaN

        def add(tree):
            for row_group in (0, 1):
                given = thrift_tree.Struct()
                given.set(3, 6, 0)
                if row_group:
                    given.set(5, 8, struct.pack("<d", 3))
                    given.set(6, 8, struct.pack("<d", 2))
                chunk = tree.get(4).items[row_group].get(1).items[0].get(3)
                chunk.set(12, 12, given)

        edit_footer(path, add)
    for indexes in ([Statistics()], [PageIndex(), Statistics()]):
        report = attach(path, indexes)
        found, _ = statistics_of(path)
        assert [found[group, 0].min_value is None for group in range(3)] == [True, not has_bounds, True]
        assert [found[group, 0].null_count for group in range(3)] == [0, 0, 2]
        assert all(found[group, 1].min_value is not None for group in range(3))
        codes = {(note.row_group, note.code) for note in report.notes if note.index == "statistics"}
        assert codes == {(0, "contains-nan")} | (set() if has_bounds else {(1, "beside-nan")})
        assert ia.verify(path).ok
        assert attach(path, indexes).changed is False
        assert ia.open(path).count("x >= 2") == 2
        assert dict(ia.open(path).aggregate({"x": ["count", "min"]})) == {"x": {"count": 4, "min": 1.0}}


def test_bounds_beside_those_of_a_writer_that_are_nan(tmp_path):
    """Iceberg's writer stores NaN as the upper bound. Without these bounds, the others go, too."""
    path = str(tmp_path / "t.parquet")
    table = pa.table({"x": [9.0, math.nan, 2.0, 3.0, None, 1.0]})
    pq.write_table(table, path, row_group_size=2)
    nan = struct.pack("<d", math.nan)

    def change(tree):
        for field_id in (1, 5):
            statistics_tree(tree, 0, 0).set(field_id, 8, nan)

    edit_footer(path, change)
    before = content(path)
    attach(path, [Statistics()])
    found, _ = statistics_of(path)
    assert [found[group, 0].min_value for group in range(3)] == [None, None, None]
    assert [found[group, 0].min for group in range(3)] == [None, None, None]
    assert [found[group, 0].null_count for group in range(3)] == [0, 0, 1]
    assert [found[group, 0].nan_count for group in range(3)] == [1, 0, 0]
    assert attach(path, [Statistics()]).changed is False
    assert ia.open(path).count("x >= 2") == 3
    assert ia.verify(path).ok
    detach(path)
    assert content(path) == before


def test_signed_numbers_have_deprecated_bounds(tmp_path):
    """Without them, parquet-mr before 1.10 takes all values beside a null for 0."""
    path = str(tmp_path / "t.parquet")
    signed = {
        "i": pa.array([3, None, -1], pa.int8()),
        "l": pa.array([3, None, -1], pa.int64()),
        "f": pa.array([1.5, None, -2.5], pa.float32()),
        "d": pa.array([1.5, None, -2.5]),
        "b": pa.array([True, None, False]),
        "t": pa.array([3, None, -1], pa.timestamp("ns")),
        "n": pa.array([decimal.Decimal("1.5"), None, decimal.Decimal("-2.5")], pa.decimal128(9, 1)),
    }
    others = {
        "u": pa.array([3, None, 2**31], pa.uint32()),
        "s": pa.array(["b", None, "a"]),
        "h": pa.array(np.array([1.5, 2.5, 0.0], dtype=np.float16)),
        "w": pa.array([decimal.Decimal("1.5"), None, decimal.Decimal("-2.5")], pa.decimal128(38, 1)),
    }
    table = pa.table({**signed, **others})
    pq.write_table(table, path, write_statistics=False, store_decimal_as_integer=True)
    attach(path, [Statistics()])
    found, footer = statistics_of(path)
    for leaf in footer.leaves:
        statistics = found[0, leaf.ordinal]
        assert None not in (statistics.min_value, statistics.max_value)
        expected = (statistics.min_value, statistics.max_value) if leaf.name in signed else (None, None)
        assert (statistics.min, statistics.max) == expected
    assert ia.verify(path).ok
    assert attach(path, [Statistics()]).changed is False


def test_bounds_include_both_zeros(tmp_path):
    path = str(tmp_path / "t.parquet")
    pq.write_table(pa.table({"low": [0.0, 5.0], "high": [-0.0, -5.0]}), path, write_statistics=False)

    attach(path, [Statistics()])

    low, high = statistics_of(path)[0].values()
    assert low.min_value == struct.pack("<d", -0.0)
    assert high.max_value == struct.pack("<d", 0.0)


def test_an_order_of_a_later_version_gets_no_bounds(tmp_path):
    path = str(tmp_path / "t.parquet")
    pq.write_table(pa.table({"x": [1, None]}), path, write_statistics=False)
    edit_footer(
        path, lambda tree: tree.get(7).items[0].fields.update({9: tree.get(7).items[0].fields.pop(1)})
    )

    report = attach(path, [Statistics()])

    (one,) = statistics_of(path)[0].values()
    assert (one.min_value, one.null_count) == (None, 1)
    assert [note.index for note in report.notes] == ["statistics"]


def test_row_groups_are_skipped(tmp_path):
    path = str(tmp_path / "t.parquet")
    pq.write_table(
        pa.table({"x": list(range(1_000))}),
        path,
        row_group_size=100,
        write_statistics=False,
        use_dictionary=False,
    )

    def row_groups_read():
        scan = ia.open(path).scan("x = 555")
        assert scan.to_arrow()["x"].to_pylist() == [555]
        return scan.report.to_dict()["row_groups"]["read"]

    assert row_groups_read() == 10
    attach(path, [Statistics()])
    assert row_groups_read() == 1
    statistics = pq.ParquetFile(path).metadata.row_group(5).column(0).statistics
    assert (statistics.min, statistics.max) == (500, 599)


def test_wrong_null_counts_are_recomputed(tmp_path):
    """pyarrow counts dictionary values below a null struct as values."""
    path = str(tmp_path / "t.parquet")
    texts = pa.DictionaryArray.from_arrays(pa.array([0, 0, 1], pa.int32()), pa.array(["a", "b"]))
    place = pa.StructArray.from_arrays([texts], names=["text"], mask=pa.array([True, False, False]))
    pq.write_table(pa.table({"place": place}), path)

    attach(path, [Statistics()])

    (one,) = statistics_of(path)[0].values()
    assert (one.null_count, one.min_value, one.max_value) == (1, b"a", b"b")
    assert attach(path, [Statistics()]).changed is False
