"""Union and intersection of many selections equal those of two at a time."""

from functools import reduce
from operator import and_, or_

from hypothesis import given
from hypothesis import strategies as st

from intarsia.rows.selection import RowSelection, intersection, union

SELECTIONS = st.lists(st.tuples(st.integers(0, 30), st.integers(0, 30)), max_size=5).map(
    RowSelection.from_ranges
)


@given(st.lists(SELECTIONS, min_size=1, max_size=6))
def test_many_at_once_equal_two_at_a_time(selections):
    assert union(selections) == reduce(or_, selections)
    assert intersection(selections) == reduce(and_, selections)


def test_of_nothing():
    assert union([]) == RowSelection.none()
