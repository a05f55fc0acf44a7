"""Every operation on row selections equals that on Python sets and preserves the invariants."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from intarsia.rows.selection import RowSelection
from tests.effort import examples

LAST = 40

#: Ranges that may overlap or be adjacent, empty, reversed or unsorted.
ranges = st.lists(st.tuples(st.integers(0, LAST), st.integers(0, LAST)), max_size=8)


def rows_in(pairs):
    return {row for start, stop in pairs for row in range(start, stop)}


def checked(selection):
    """Check the invariants of a selection and return its rows."""
    starts, stops = selection.starts, selection.stops
    assert starts.dtype == stops.dtype == np.int64
    assert len(starts) == len(stops) == len(selection)
    assert (starts < stops).all()
    assert (stops[:-1] < starts[1:]).all(), "sorted, disjoint and not adjacent"
    rows = rows_in(selection)
    assert selection.num_rows == len(rows)
    assert selection.is_empty == (not rows)
    assert selection.rows().tolist() == sorted(rows)
    if not rows or min(rows) >= 0:
        mask = selection.to_mask(max(rows, default=-1) + 1)
        assert np.flatnonzero(mask).tolist() == sorted(rows)
    return rows


@given(ranges)
def test_from_ranges(pairs):
    assert checked(RowSelection.from_ranges(pairs)) == rows_in(pairs)
    assert checked(RowSelection.union_of([a for a, _ in pairs], [b for _, b in pairs])) == rows_in(pairs)


@settings(max_examples=examples(300))
@given(ranges, ranges)
def test_algebra(left, right):
    a, b = RowSelection.from_ranges(left), RowSelection.from_ranges(right)
    one, other = rows_in(left), rows_in(right)
    assert checked(a & b) == checked(b & a) == one & other
    assert checked(a | b) == checked(b | a) == one | other
    assert checked(a - b) == one - other
    assert checked(b - a) == other - one
    assert (a == b) == (one == other)
    if a == b:
        assert hash(a) == hash(b)
    assert (a & b) | (a - b) == a
    assert checked(a) == one, "operands are left as they were"


@given(ranges, ranges, ranges)
def test_laws(first, second, third):
    a, b, c = (RowSelection.from_ranges(pairs) for pairs in (first, second, third))
    assert a & (b | c) == (a & b) | (a & c)
    assert a | (b & c) == (a | b) & (a | c)
    assert a - (b | c) == (a - b) & (a - c)
    assert (a & b) & c == a & (b & c)


@given(ranges, st.integers(-5, 50), st.integers(0, LAST), st.integers(0, LAST))
def test_shift_clip_head(pairs, by, start, stop):
    selection, rows = RowSelection.from_ranges(pairs), rows_in(pairs)
    assert checked(selection.shift(by)) == {row + by for row in rows}
    assert checked(selection.clip(start, stop)) == {row for row in rows if start <= row < stop}
    assert checked(selection.head(by)) == set(sorted(rows)[: max(by, 0)])


@given(ranges, ranges)
def test_at(pairs, places):
    selection, rows = RowSelection.from_ranges(pairs), sorted(rows_in(pairs))
    positions = RowSelection.from_ranges(places).clip(0, len(rows))
    assert checked(selection.at(positions)) == {rows[place] for place in rows_in(list(positions))}


@given(ranges, st.lists(st.integers(1, 7), max_size=12))
def test_overlaps_and_covers(pairs, heights):
    """Granules are consecutive, as pages are, and may be empty."""
    selection, rows = RowSelection.from_ranges(pairs), rows_in(pairs)
    edges = np.concatenate([[0], np.cumsum(heights, dtype=np.int64)])
    starts = np.concatenate([edges[:-1], edges])
    stops = np.concatenate([edges[1:], edges])
    granules = [set(range(start, stop)) for start, stop in zip(starts.tolist(), stops.tolist(), strict=True)]
    covered = selection.covers(starts, stops)
    assert covered.tolist() == [granule <= rows for granule in granules]
    overlapped = selection.overlaps(starts, stops)
    assert overlapped.tolist() == [bool(granule & rows) for granule in granules]


@given(st.lists(st.booleans(), max_size=30), st.integers(0, 1000))
def test_from_mask(flags, first_row):
    expected = {first_row + place for place, flag in enumerate(flags) if flag}
    assert checked(RowSelection.from_mask(np.array(flags, dtype=bool), first_row)) == expected


@given(st.lists(st.integers(0, LAST), max_size=20))
def test_from_rows(rows):
    assert checked(RowSelection.from_rows(rows)) == set(rows)


@given(ranges)
def test_all_and_none(pairs):
    selection = RowSelection.from_ranges(pairs)
    assert selection & RowSelection.all(LAST) == selection | RowSelection.none() == selection
    assert checked(selection & RowSelection.none()) == set()
    assert checked(RowSelection.all(LAST) - selection) == set(range(LAST)) - rows_in(pairs)
    assert RowSelection.all(0) == RowSelection.none()


def test_row_ranges_of_parquet_java():
    left = RowSelection.from_ranges([(2, 6), (7, 10), (14, 15), (20, 25)])
    right = RowSelection.from_ranges([(1, 3), (4, 6), (11, 13), (14, 16), (21, 23)])
    assert list(left | right) == [(1, 6), (7, 10), (11, 13), (14, 16), (20, 25)]
    assert list(left & right) == [(2, 3), (4, 6), (14, 15), (21, 23)]


def test_rows_of_large_files():
    """Row ordinals may exceed 32 bits and be far apart, because ranges are not expanded to rows."""
    big = 2**62
    selection = RowSelection.from_ranges([(0, big), (big + 1, big + 3)])
    assert selection.num_rows == big + 2
    assert list(selection - RowSelection.from_ranges([(5, big + 2)])) == [(0, 5), (big + 2, big + 3)]
    assert list(selection.head(big + 1)) == [(0, big), (big + 1, big + 2)]


def test_many_ranges():
    even = RowSelection.from_rows(np.arange(0, 200_000, 2))
    third = RowSelection.from_rows(np.arange(0, 200_000, 3))
    assert (even & third) == RowSelection.from_rows(np.arange(0, 200_000, 6))
    assert len(even | third) + len(even & third) <= len(even) + len(third)


def test_repr_is_short():
    assert repr(RowSelection.from_ranges([(0, 2), (5, 6)])) == "RowSelection([0:2, 5:6])"
    assert len(repr(RowSelection.from_rows(np.arange(0, 1000, 2)))) < 100


@pytest.mark.parametrize("other", [None, [(0, 1)], 5])
def test_equality_with_other_things(other):
    assert RowSelection.all(1) != other
