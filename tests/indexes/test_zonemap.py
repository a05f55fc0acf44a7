"""ZoneMap never excludes a matching row, and its summaries of granules are correct."""

from __future__ import annotations

import datetime as dt
import math
from decimal import Decimal
from itertools import pairwise

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from hypothesis import given
from hypothesis import strategies as st

import intarsia as ia
from intarsia.errors import IndexBuildError, IndexPayloadError
from intarsia.indexes.layout import Layout, parameters
from intarsia.predicate import bind, conditions
from intarsia.rows.selection import RowSelection
from tests.indexes.test_distinct import Values, columns, find, opened, rows_where
from tests.predicate import strategies


@given(st.data())
def test_candidates_contain_every_matching_row_and_certain_rows_match(data):
    values, granularity = data.draw(columns())
    kind = values.array.type
    bound = bind(data.draw(strategies.predicates({"x": kind})), pa.schema({"x": kind}))
    zone_map = opened(ia.ZoneMap("x", granularity), values)
    for leaf in conditions(bound):
        matching = rows_where(leaf, values.array)
        candidates = zone_map.candidate_rows(leaf)
        assert candidates is not None
        assert (matching - candidates).is_empty
        assert (zone_map.certain_rows(leaf) - matching).is_empty


PLAIN = (*strategies.INTEGERS, *strategies.FLOATS, *strategies.DECIMALS, pa.string(), pa.bool_())


@given(columns(PLAIN))
def test_summaries_are_those_of_the_values(case):
    values, granularity = case
    zone_map = opened(ia.ZoneMap("x", granularity), values)
    edges = zone_map.edges.tolist()
    items = values.array.to_pylist()
    for row, (start, stop) in zip(zone_map.summaries.to_pylist(), pairwise(edges), strict=True):
        present = [item for item in items[start:stop] if item is not None]
        numbers = [item for item in present if not (isinstance(item, float) and math.isnan(item))]
        assert row["num_rows"] == stop - start
        assert row["null_count"] == stop - start - len(present)
        assert row["nan_count"] == len(present) - len(numbers)
        if isinstance(next(iter(numbers), None), (int, Decimal, str)):
            assert row["min"] == min(numbers)
            assert row["max"] == max(numbers)
        if numbers and isinstance(numbers[0], (int, Decimal)) and not isinstance(numbers[0], bool):
            assert row["sum"] == _exact_sum(numbers)
        if not numbers:
            assert row["min"] is row["max"] is None


def _exact_sum(numbers):
    scale = max((-item.as_tuple().exponent for item in numbers if isinstance(item, Decimal)), default=0)
    units = [item * 10**scale if isinstance(item, int) else _unscaled(item) for item in numbers]
    total = sum(units)
    return Decimal((int(total < 0), tuple(map(int, str(abs(total)))), -scale))


def _unscaled(item):
    sign, digits, _ = item.as_tuple()
    return int("".join(map(str, digits))) * (-1 if sign else 1)


NAN = math.nan


@pytest.mark.parametrize(
    ("where", "candidates", "certain"),
    [
        ("x = 2", [(0, 2)], []),
        ("x >= 1", [(0, 4)], [(0, 2)]),
        ("x > 9", [], []),
        ("NOT (x < 5)", [(4, 6)], [(4, 6)]),  # NaN is not below 5
        ("x <> 2", [(0, 6)], [(4, 6)]),
        ("x IS NULL", [(2, 4), (6, 8)], [(6, 8)]),
        ("x IS NOT NULL", [(0, 6)], [(0, 2), (4, 6)]),
        ("x = 0", [], []),
        ("x NOT IN (7, 8)", [(0, 6)], [(0, 2)]),
    ],
)
def test_nulls_and_nan_are_counted_per_granule(where, candidates, certain):
    array = pa.array([1.0, 2.0, 3.0, None, NAN, NAN, None, None])
    zone_map = opened(ia.ZoneMap("x", 2), Values(array, [0, 8], [0, 8]))
    leaf = find(where, pa.float64())
    assert zone_map.candidate_rows(leaf) == RowSelection.from_ranges(candidates)
    assert zone_map.certain_rows(leaf) == RowSelection.from_ranges(certain)


def test_zeros_of_both_signs_are_equal():
    zone_map = opened(ia.ZoneMap("x", 2), Values(pa.array([-0.0, -0.0, 0.0, 0.0, 1.0, 1.0]), [0, 6], [0, 6]))
    zero = find("x = 0.0", pa.float64())
    assert zone_map.candidate_rows(zero) == zone_map.certain_rows(zero) == RowSelection.from_ranges([(0, 4)])


@pytest.mark.parametrize("kind", [pa.string(), pa.binary()], ids=str)
def test_long_bounds_are_cut_and_say_so(kind):
    long, longer = "é" * 100, "é" * 100 + "x"
    array = pa.array([long, longer, "a", "b"]).cast(kind)
    zone_map = opened(ia.ZoneMap("x", 2), Values(array, [0, 4], [0, 4]))
    assert zone_map.exact.tolist() == [False, True]
    bounds = zone_map.summaries.select(["min", "max"]).to_pylist()
    encoded = [value if isinstance(value, bytes) else value.encode() for value in bounds[0].values()]
    assert encoded[0] <= long.encode() < longer.encode() <= encoded[1]
    assert max(map(len, encoded)) <= 64
    leaf = find(f"x = '{long}'", kind) if kind == pa.string() else None
    if leaf is not None:
        assert zone_map.candidate_rows(leaf) == RowSelection.from_ranges([(0, 2)])
        assert zone_map.certain_rows(leaf).is_empty


def test_a_bound_that_cannot_be_incremented_is_not_truncated():
    array = pa.array([b"\xff" * 100])
    zone_map = opened(ia.ZoneMap("x", "file"), Values(array, [0, 1], [0, 1]))
    assert zone_map.summaries["max"].to_pylist() == [b"\xff" * 100]


def test_granules_without_rows_and_a_column_without_rows():
    data = Values(pa.array([1, 2, 3]), [0, 2, 2, 3], [0, 3])
    assert opened(ia.ZoneMap("x"), data).summaries["num_rows"].to_pylist() == [2, 0, 1]
    nothing = Values(pa.array([], pa.int64()), [0, 0], [0, 0])
    zone_map = opened(ia.ZoneMap("x", "file"), nothing)
    assert zone_map.candidate_rows(find("x = 1", pa.int64())).is_empty


def test_an_index_equals_one_with_its_parameters():
    index = ia.ZoneMap("a.b", granularity=500)
    assert ia.ZoneMap(**parameters(index)) == index


def test_a_damaged_payload_is_rejected():
    data = Values(pa.array(["a", "b", None, "a"]), [0, 2, 4], [0, 4])
    index = ia.ZoneMap("x")
    payload = index.build(data)
    for length in range(0, len(payload) - 8, 16):  # the last 8 bytes are only the end of the stream
        with pytest.raises(IndexPayloadError):
            index.open(payload[:length], data.layout)


def test_a_payload_of_other_rows_is_rejected():
    index = ia.ZoneMap("x", "file")
    payload = index.build(Values(pa.array([1, 2]), [0, 2], [0, 2]))
    with pytest.raises(IndexPayloadError) as caught:
        index.open(payload, Values(pa.array([1, 2, 3]), [0, 3], [0, 3]).layout)
    assert caught.value.reason == "damaged-payload"


def test_a_nested_column_is_rejected():
    data = Values(pa.array([[1]], pa.list_(pa.int64())), [0, 1], [0, 1])
    with pytest.raises(IndexBuildError) as caught:
        ia.ZoneMap("x").build(data)
    assert (caught.value.reason, caught.value.column) == ("nested-column", "x")


def payload_with(**changes):
    arrays = {
        "min": pa.array([1]),
        "max": pa.array([9]),
        "exact": pa.array([True]),
        "sum": pa.array([Decimal(30)], pa.decimal128(38, 0)),
        "num_rows": pa.array([10]),
        "null_count": pa.array([0]),
        "nan_count": pa.array([0]),
    }
    arrays |= changes
    batch = pa.record_batch({name: array for name, array in arrays.items() if array is not None})
    sink = pa.BufferOutputStream()
    with pa.ipc.new_stream(sink, batch.schema) as writer:
        writer.write_batch(batch)
    return bytes(sink.getvalue())


TEN_ROWS = Layout(10, np.array([0, 10], dtype=np.int64), {})


def test_the_payload_that_is_then_damaged_is_sound():
    zone_map = ia.ZoneMap("x", "file").open(payload_with(), TEN_ROWS)
    assert zone_map.candidate_rows(find("x = 10", pa.int64())).is_empty


@pytest.mark.parametrize(
    "changes",
    [
        {"min": None},
        {"min": pa.array(["a"])},
        {"min": pa.array([10])},
        {"min": pa.array([None], pa.int64())},
        {"max": pa.array([1.5])},
        {"exact": pa.array([None], pa.bool_())},
        {"exact": pa.array([1])},
        {"sum": pa.array([30])},
        {"sum": pa.array([None], pa.decimal128(38, 0))},
        {"num_rows": pa.array([9])},
        {"num_rows": pa.array([None], pa.int64())},
        {"null_count": pa.array([-1])},
        {"null_count": pa.array([11])},
        {"null_count": pa.array([2**63 - 1]), "nan_count": pa.array([2**63 - 1])},
        {"nan_count": pa.array([10])},
        {"nan_count": pa.array([1], pa.int32())},
    ],
)
def test_impossible_summaries_are_rejected(changes):
    with pytest.raises(IndexPayloadError):
        ia.ZoneMap("x", "file").open(payload_with(**changes), TEN_ROWS)


def test_bounds_of_another_type_cannot_tell():
    zone_map = ia.ZoneMap("x", "file").open(payload_with(), TEN_ROWS)
    assert zone_map.candidate_rows(find("x = 'a'", pa.string())) is None
    assert zone_map.certain_rows(find("x = 'a'", pa.string())) is None


@pytest.mark.parametrize("granularity", [True, 0, "pages", 2.5], ids=str)
def test_parameters_without_a_meaning_leave_the_file_alone(tmp_path, granularity):
    path = tmp_path / "t.parquet"
    pq.write_table(pa.table({"x": range(10)}), path)
    before = path.read_bytes()
    with pytest.raises(IndexBuildError):
        ia.attach(path, [ia.ZoneMap("x", granularity)])
    assert path.read_bytes() == before


# --- in files: types without bounds in Parquet ---

ROWS = 20_000


def instants():
    start = dt.datetime(2024, 1, 1)
    return pa.array([start + dt.timedelta(minutes=row) for row in range(ROWS)], pa.timestamp("ns"))


CASES = {
    "int96": (instants(), "x >= '2024-01-14 00:00:00'", {"use_deprecated_int96_timestamps": True}),
    "decimal": (
        pa.array([Decimal(row) / 100 for row in range(ROWS)], pa.decimal128(30, 2)),
        "x > 187.50",
        {"write_statistics": False},
    ),
    "boolean": (pa.array(np.arange(ROWS) >= ROWS - 1000), "x = TRUE", {"write_statistics": False}),
    "nan": (pa.array([*np.arange(ROWS - 1.0), NAN]), "x > 18750 AND x < 18800", {"write_statistics": False}),
}


@pytest.mark.parametrize("granularity", ["page", "row_group", 1000])
@pytest.mark.parametrize("name", CASES)
def test_it_prunes_types_that_parquet_does_not(tmp_path, name, granularity):
    array, where, options = CASES[name]
    path = tmp_path / "t.parquet"
    padding = [str(row) * 5 for row in range(ROWS)]  # makes the index worth reading
    table = pa.table({"x": array, "padding": padding})
    pq.write_table(table, path, row_group_size=5000, use_dictionary=False, data_page_size=4000, **options)
    plain = ia.open(path).scan(where)
    expected = plain.to_arrow()
    assert 0 < expected.num_rows < ROWS / 4
    assert plain.report.rows_candidate == ROWS
    ia.attach(path, [ia.ZoneMap("x", granularity)])
    scan = ia.open(path).scan(where)
    assert scan.to_arrow() == expected
    assert scan.report.rows_candidate <= (expected.num_rows + 2000 if granularity == 1000 else 5000)
    assert "zone_map" in {index.partition("(")[0] for index, _ in scan.report.pruned_by}


def test_a_leaf_of_a_struct(tmp_path):
    path = tmp_path / "t.parquet"
    structs = pa.array([None if row % 7 == 0 else {"b": row} for row in range(ROWS)])
    pq.write_table(pa.table({"a": structs}), path, row_group_size=5000, write_statistics=False)
    expected = ia.open(path).scan("a.b < 100").to_arrow()
    ia.attach(path, [ia.ZoneMap("a.b", 1000)])
    scan = ia.open(path).scan("a.b < 100")
    assert scan.to_arrow() == expected
    assert scan.report.rows_candidate == 1000


@pytest.mark.parametrize("granularity", ["file", "page", 1000])
def test_verify_accepts_a_good_zone_map(tmp_path, granularity):
    path = tmp_path / "t.parquet"
    pq.write_table(pa.table({"x": [*range(ROWS - 1), None]}), path, row_group_size=5000)
    ia.attach(path, [ia.ZoneMap("x", granularity)])
    assert ia.verify(path).findings == ()
