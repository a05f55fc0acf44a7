"""Evaluation of bounds: matching rows are never excluded, and certain rows always match.

Compared with every row (random pages of every type) and every value between the bounds (small integers).
"""

from __future__ import annotations

import dataclasses
import itertools
import json
import math
from functools import reduce

import numpy as np
import pyarrow as pa
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from intarsia.format.enums import BoundaryOrder
from intarsia.format.page_index import PageLocations, PageRows
from intarsia.format.structs import ColumnIndex
from intarsia.indexes.column_index import column_index_bounds
from intarsia.indexes.statistics import bounds_of_keys
from intarsia.predicate import (
    And,
    BoundConstant,
    Comparison,
    In,
    IsNull,
    Like,
    Not,
    Or,
    bind,
    conditions,
)
from intarsia.rows.bounds import UNKNOWN, boundary_order, certainly_matches, might_match
from intarsia.rows.selection import RowSelection
from tests.effort import examples
from tests.leaves import ordering_of
from tests.predicate import oracle
from tests.predicate import strategies as flat
from tests.reading.tables import storable

ORDERED = [
    type_
    for type_ in flat.TYPES
    if not pa.types.is_dictionary(type_)
    and type_ != pa.date64()  # read as date32
    and not (pa.types.is_timestamp(type_) and type_.unit == "s")
]


def is_nan(value):
    return isinstance(value, float) and math.isnan(value)


@st.composite
def pages(draw, type_):
    """Draw the items of pages, perhaps sorted, and their `Bounds`, some of them unknown."""
    items = draw(
        st.lists(st.lists(st.none() | storable(type_), min_size=1, max_size=4), min_size=1, max_size=5)
    )
    ordering = ordering_of(type_)
    keyed = [ordering.keys(flat.make_array(ordering.arrow_type, page)).tolist() for page in items]
    keyed = [[key for key in keys if not is_nan(key)] for keys in keyed]
    if draw(st.booleans()):
        order = sorted(range(len(items)), key=lambda page: (not keyed[page], min(keyed[page], default=0)))
        items, keyed = [items[page] for page in order], [keyed[page] for page in order]
    bounded = [page for page, keys in enumerate(keyed) if keys and draw(st.integers(0, 5))]
    low, high = ordering.decode([]), ordering.decode([])
    low = np.concatenate([low, *(cells(ordering, min(keyed[page])) for page in bounded)])
    high = np.concatenate([high, *(cells(ordering, max(keyed[page])) for page in bounded)])
    stops = np.cumsum([len(page) for page in items], dtype=np.int64)
    nulls = [sum(item is None for item in page) for page in items]
    nans = [sum(map(is_nan, page)) for page in items]
    all_null = [nulls[page] == len(items[page]) and draw(st.booleans()) for page in range(len(items))]
    unknown = draw(st.booleans())
    bounds = bounds_of_keys(
        ordering,
        np.concatenate([[0], stops[:-1]]),
        stops,
        np.array(bounded, dtype=np.int64),
        low,
        high,
        np.array([UNKNOWN if unknown and draw(st.booleans()) else count for count in nulls], dtype=np.int64),
        np.array([UNKNOWN if unknown and ordering.is_float else count for count in nans], dtype=np.int64),
        np.array(all_null, dtype=bool),
    )
    return items, bounds


def cells(ordering, key):
    return ordering.cell(key).reshape(1)


@pytest.mark.parametrize("type_", ORDERED, ids=str)
@settings(max_examples=examples(40))
@given(data=st.data())
def test_results_are_correct_for_every_row(type_, data):
    items, bounds = data.draw(pages(type_), label="pages")
    read = bounds.ordering.arrow_type
    node = data.draw(flat.leaves({"x": read}), label="leaf")
    node = Not(node) if data.draw(st.booleans()) else node
    bound = bind(node, pa.schema({"x": read}))
    for leaf in conditions(bound):
        assert not isinstance(leaf, BoundConstant)
        might, sure = might_match(leaf, bounds), certainly_matches(leaf, bounds)
        assert might.dtype == sure.dtype == bool
        for page, values in enumerate(items):
            matched = oracle.selected(node, {"x": flat.make_array(read, values)}, len(values))
            assert might[page] or not any(matched), (leaf, values)
            assert not sure[page] or all(matched), (leaf, values)
        sequential = dataclasses.replace(bounds, order=BoundaryOrder.UNORDERED)
        assert (might == might_match(leaf, sequential)).all(), "binary search finds what looking at each does"


OPS = ["=", "<>", "<", "<=", ">", ">="]


@st.composite
def small_bounds(draw):
    """Draw bounds over small integers, perhaps in order, without nulls."""
    pairs = draw(
        st.lists(st.tuples(st.integers(-4, 4), st.integers(-4, 4)).map(sorted), min_size=1, max_size=6)
    )
    arrangement = draw(st.sampled_from([None, False, True]))
    low, high = [low for low, _ in pairs], [high for _, high in pairs]
    if arrangement is not None:
        low, high = sorted(low, reverse=arrangement), sorted(high, reverse=arrangement)
    count = len(pairs)
    return bounds_of_keys(
        ordering_of(pa.int8()),
        np.arange(count) * 10,
        np.arange(count) * 10 + 10,
        np.arange(count),
        np.array(low, dtype=np.int64),
        np.array(high, dtype=np.int64),
        np.zeros(count, dtype=np.int64),
        np.zeros(count, dtype=np.int64),
        np.zeros(count, dtype=bool),
    )


@settings(max_examples=examples(300))
@given(small_bounds(), st.sampled_from(OPS), st.integers(-6, 6))
def test_comparisons_are_as_tight_as_bounds_allow(bounds, op, value):
    (leaf,) = conditions(bind(Comparison("x", op, value), pa.schema({"x": pa.int8()})))
    for page, (low, high) in enumerate(zip(bounds.minima, bounds.maxima, strict=True)):
        found = [oracle.OPS[op](key, value) for key in range(int(low), int(high) + 1)]
        assert might_match(leaf, bounds)[page] == any(found)
        assert certainly_matches(leaf, bounds)[page] == all(found)


@settings(max_examples=examples(200))
@given(small_bounds(), st.sets(st.integers(-6, 6), min_size=2, max_size=4), st.booleans())
def test_lists_are_as_tight_as_their_values(bounds, values, negated):
    (leaf,) = conditions(bind(In("x", tuple(values), negated), pa.schema({"x": pa.int8()})))
    for page, (low, high) in enumerate(zip(bounds.minima, bounds.maxima, strict=True)):
        found = [(key in values) != negated for key in range(int(low), int(high) + 1)]
        might, sure = might_match(leaf, bounds)[page], certainly_matches(leaf, bounds)[page]
        if negated:
            assert might or not any(found)
            assert sure == all(found)
        else:
            assert might == any(found), "each value is looked up, not only the least and the greatest"
            assert all(found) or not sure


def bounds_of(type_, low, high, nulls=0, nans=0, rows=10):
    """Return one granule with these bounds, given as keys. None means unknown."""
    ordering = ordering_of(type_)
    known = low is not None
    return bounds_of_keys(
        ordering,
        np.array([0]),
        np.array([rows]),
        np.arange(int(known)),
        cells(ordering, low) if known else np.empty(0),
        cells(ordering, high) if known else np.empty(0),
        np.array([nulls], dtype=np.int64),
        np.array([nans], dtype=np.int64),
        np.array([nulls == rows]),
    )


def verdict(node, bounds):
    (leaf,) = conditions(bind(node, pa.schema({"x": bounds.ordering.arrow_type})))
    return bool(might_match(leaf, bounds)[0]), bool(certainly_matches(leaf, bounds)[0])


@pytest.mark.parametrize(
    ("type_", "low", "high", "node", "might", "sure"),
    [
        (pa.uint64(), 2**63, 2**64 - 1, Comparison("x", ">", 2**63 - 1), True, True),
        (pa.uint64(), 2**63, 2**64 - 2, Comparison("x", "=", 2**64 - 1), False, False),
        (pa.uint64(), 2**53, 2**53, Comparison("x", "=", 2**53 + 1), False, False),
        (pa.uint64(), 2**64 - 1, 2**64 - 1, In("x", (1, 2**64 - 1)), True, True),
        (pa.int64(), 2**53, 2**53, Comparison("x", "<", 2**53 + 1), True, True),
        (pa.int64(), -(2**63), -(2**63), Comparison("x", "<>", -(2**63)), False, False),
        (pa.decimal128(38, 0), 10**37, 10**37, Comparison("x", ">=", 10**37), True, True),
        (pa.decimal256(60, 10), -(10**59), 10**59, Comparison("x", "<", -(10**49)), False, False),
        (pa.binary(), b"a", b"a", Comparison("x", "=", b"a\0"), False, False),
        (pa.binary(), b"a\0", b"a\0", Comparison("x", "=", b"a\0"), True, True),
        (pa.binary(), b"a\0", b"a\0", In("x", (b"a", b"b")), False, False),
        (pa.string(), b"a", b"b", Like("x", "a%"), True, False),
        (pa.string(), b"ab", b"abz", Like("x", "a%"), True, True),
        (pa.string(), b"ab", b"abz", Like("x", "a%", negated=True), False, False),
        (pa.string(), b"b", b"c", Like("x", "a%x"), False, False),
        (pa.string(), b"aa", b"az", Like("x", "a%x"), True, False),
        (pa.string(), b"a", b"c", Like("x", "%x"), True, False),
        (pa.float64(), 0.0, 0.0, Comparison("x", "=", -0.0), True, True),
        (pa.float64(), -0.0, -0.0, Comparison("x", "<", 0.0), False, False),
        (pa.float64(), 1.0, 2.0, Not(Comparison("x", ">=", 1.0)), False, False),
        (pa.float64(), -math.inf, math.inf, Comparison("x", ">", 1e308), True, False),
        (pa.bool_(), 0, 0, Comparison("x", "=", True), False, False),
        (pa.bool_(), 1, 1, Comparison("x", "<>", False), True, True),
    ],
)
def test_extreme_values(type_, low, high, node, might, sure):
    assert verdict(node, bounds_of(type_, low, high)) == (might, sure)


@pytest.mark.parametrize("nans", [1, UNKNOWN])
def test_granules_that_may_contain_nan(nans):
    bounds = bounds_of(pa.float64(), 1.0, 2.0, nans=nans)
    assert verdict(Comparison("x", "<>", 1.5), bounds) == (True, False)
    assert verdict(Not(Comparison("x", "<=", 2.0)), bounds) == (True, False), "true for NaN"
    assert verdict(Comparison("x", ">", 2.0), bounds) == (False, False)
    assert verdict(Comparison("x", ">=", 1.0), bounds) == (True, False), "not for NaN"
    assert verdict(Not(Comparison("x", "<", 1.0)), bounds) == (True, True), "for NaN, too"
    assert verdict(In("x", (5.0, 6.0), negated=True), bounds) == (True, True)


def test_nulls():
    some, none, unknown = (bounds_of(pa.int32(), 1, 2, nulls=nulls) for nulls in (3, 0, UNKNOWN))
    all_null = bounds_of(pa.int32(), None, None, nulls=10)
    is_null, is_not_null = IsNull("x"), IsNull("x", negated=True)
    assert [verdict(is_null, b) for b in (some, none, unknown, all_null)] == [
        (True, False),
        (False, False),
        (True, False),
        (True, True),
    ]
    assert [verdict(is_not_null, b) for b in (some, none, unknown, all_null)] == [
        (True, False),
        (True, True),
        (True, False),
        (False, False),
    ]
    for node in (Comparison("x", "<>", 7), Comparison("x", "<", 7), In("x", (8, 9), negated=True)):
        assert [verdict(node, b) for b in (some, none, unknown, all_null)] == [
            (True, False),
            (True, True),
            (True, False),
            (False, False),
        ]


def test_unknown_bounds_exclude_nothing():
    bounds = bounds_of(pa.int32(), None, None)
    for op in OPS:
        assert verdict(Comparison("x", op, 5), bounds) == (True, False)
    without_order = dataclasses.replace(bounds, ordering=None)
    (leaf,) = conditions(bind(Comparison("x", "=", 5), pa.schema({"x": pa.int32()})))
    assert might_match(leaf, without_order).tolist() == [True]
    assert certainly_matches(leaf, without_order).tolist() == [False]


@given(st.lists(st.tuples(st.integers(0, 3), st.integers(0, 3)), max_size=5))
def test_boundary_order(pairs):
    low, high = ([pair[side] for pair in pairs] for side in (0, 1))
    order = boundary_order(np.array(low), np.array(high))
    ascends = low == sorted(low) and high == sorted(high)
    descends = low == sorted(low, reverse=True) and high == sorted(high, reverse=True)
    assert (order == BoundaryOrder.ASCENDING) == ascends
    assert (order == BoundaryOrder.DESCENDING) == (descends and not ascends)


# --- the cases of parquet-java's TestColumnIndexFilter ---

TYPES = {
    "int32": pa.int32(),
    "utf8": pa.string(),
    "double": pa.float64(),
    "int64": pa.int64(),
    "any": pa.string(),
}
ORDERS = {
    "ASC": BoundaryOrder.ASCENDING,
    "DESC": BoundaryOrder.DESCENDING,
    "UNORDERED": BoundaryOrder.UNORDERED,
}
COMPARISONS = {"eq": "=", "ne": "<>", "lt": "<", "le": "<=", "gt": ">", "ge": ">="}


@pytest.fixture(scope="module")
def java(fixtures_dir):
    cases = json.loads((fixtures_dir / "column_index_filter_cases.json").read_text())
    columns = {name: JavaColumn(cases["total_rows"], spec) for name, spec in cases["columns"].items()}
    return cases, columns


class JavaColumn:
    """A column of the cases: its type, its ColumnIndex as bounds, and rows that agree with it."""

    def __init__(self, total_rows, spec):
        self.type = TYPES[spec["type"]]
        self.total_rows = total_rows
        self.first_rows = np.concatenate([[0], np.cumsum(spec["rows"])[:-1]]).astype(np.int64)
        self.spec = spec
        self.bounds = None if spec["pages"] is None else self._bounds()

    def _bounds(self):
        ordering = ordering_of(self.type)
        pages, nulls = self.spec["pages"], self.spec["null_counts"]
        encode = (lambda value: value.encode()) if ordering.is_bytes else ordering.encode
        count = len(pages)
        index = ColumnIndex(
            null_pages=[page is None for page in pages],
            min_values=[b"" if page is None else encode(page["min"]) for page in pages],
            max_values=[b"" if page is None else encode(page["max"]) for page in pages],
            boundary_order=ORDERS[self.spec["boundary_order"]],
            null_counts=nulls,
        )
        places = np.arange(count, dtype=np.int64) * 100
        locations = PageLocations(places, np.full(count, 100), PageRows(self.first_rows, self.total_rows))
        return column_index_bounds(index, locations, ordering, 0)

    def values(self, random):
        """Draw rows that agree with the bounds and null counts of the ColumnIndex."""
        rows = []
        for page, count in enumerate(self.spec["rows"]):
            if self.spec["pages"] is None:
                rows += [random.choice([None, "", "A", "XYZ", "a"]) for _ in range(count)]
                continue
            nulls = self.spec["null_counts"][page]
            bound = self.spec["pages"][page]
            ends = [] if bound is None else [bound["min"], bound["max"]]
            filled = [random.choice(ends) for _ in range(count - nulls)]
            page_rows = (ends + filled)[: count - nulls] + [None] * nulls
            random.shuffle(page_rows)
            rows += page_rows
        return pa.array(rows, self.type)


def node_of(pred):
    kind, *rest = pred
    if kind in ("and", "or"):
        return (And if kind == "and" else Or)(tuple(node_of(child) for child in rest))
    column, value = rest
    if kind in ("in", "not_in"):
        return In(column, tuple(value), kind == "not_in")
    if value is None:
        return IsNull(column, negated=kind == "ne")
    return Comparison(column, COMPARISONS[kind], value)


def candidates(node, columns, total_rows):
    """Return the candidate rows by bounds, with the algebra of a scan."""
    if isinstance(node, (And, Or)):
        found = [candidates(child, columns, total_rows) for child in node.children]
        return reduce(RowSelection.__and__ if isinstance(node, And) else RowSelection.__or__, found)
    if node.column not in columns:  # a column of nulls
        matches = isinstance(node, IsNull) and not node.negated
        return RowSelection.all(total_rows if matches else 0)
    column = columns[node.column]
    bound = bind(node, pa.schema({node.column: column.type}))
    if isinstance(bound, BoundConstant):
        return RowSelection.all(total_rows if bound.value else 0)
    if column.bounds is None:
        return RowSelection.all(total_rows)
    hit = might_match(bound, column.bounds)
    return RowSelection.union_of(column.bounds.starts[hit], column.bounds.stops[hit])


def test_as_tight_as_parquet_java(java):
    cases, columns = java
    assert len(cases["cases"]) == 23
    for case in cases["cases"]:
        ours = set(candidates(node_of(case["pred"]), columns, cases["total_rows"]).rows().tolist())
        assert ours <= set(case["rows"]), case["pred"]


@settings(max_examples=examples(50))
@given(random=st.randoms(use_true_random=False))
def test_matching_rows_are_never_excluded(java, random):
    cases, columns = java
    arrays = {name: column.values(random) for name, column in columns.items()}
    arrays["missing_column"] = pa.nulls(cases["total_rows"], pa.int64())
    for case in cases["cases"]:
        node = node_of(case["pred"])
        ours = set(candidates(node, columns, cases["total_rows"]).rows().tolist())
        matched = oracle.selected(node, arrays, cases["total_rows"])
        assert set(itertools.compress(range(cases["total_rows"]), matched)) <= ours, case["pred"]
