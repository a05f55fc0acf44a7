"""pyarrow filters become nodes with the same meaning; every form of a predicate is parsed."""

from __future__ import annotations

import datetime as dt
from decimal import Decimal

import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from intarsia.errors import PredicateError
from intarsia.predicate import (
    And,
    Comparison,
    Constant,
    In,
    IsNull,
    Or,
    bind,
    evaluate,
    parse_filters,
    parse_predicate,
)
from tests.effort import examples

A1 = Comparison("a", "=", 1)
TABLE = pa.table(
    {
        "i": pa.array([1, 2, None, -5, 7], pa.int32()),
        "f": pa.array([0.5, float("nan"), None, -1.0, 7.0]),
        "s": pa.array(["a", "", None, "b", "é"]),
        "d": pa.array([dt.date(2020, 1, day) for day in (1, 2, 3)] + [None, None]),
        "t": pa.array(
            [dt.datetime(2020, 1, day) for day in (1, 2, 3)] + [None, None], pa.timestamp("us", "UTC")
        ),
        "n": pa.array([Decimal("1.50"), Decimal("0.00"), None, Decimal("-7.25"), None], pa.decimal128(5, 2)),
        "b": pa.array([True, False, None, True, None]),
    }
)
VALUES = {
    "i": st.sampled_from([1, 2, 3, -5, 1.5]),
    "f": st.sampled_from([0.5, -1.0, 0, 7, 8.25, float("nan"), float("inf")]),
    "s": st.sampled_from(["a", "", "b", "é", "zz"]),
    "d": st.sampled_from([dt.date(2020, 1, 2), dt.date(2019, 1, 1)]),
    "t": st.sampled_from(
        [dt.datetime(2020, 1, 2, tzinfo=dt.timezone.utc), dt.datetime(2020, 1, 2, 12, tzinfo=dt.timezone.utc)]
    ),
    "n": st.sampled_from([Decimal("1.50"), Decimal("-7.25"), Decimal("3.1")]),
    "b": st.booleans(),
}


@st.composite
def one_filter(draw):
    column = draw(st.sampled_from(sorted(VALUES)))
    op = draw(st.sampled_from(["=", "==", "!=", "<", ">", "<=", ">=", "in", "not in"]))
    if op not in ("in", "not in"):
        return column, op, draw(VALUES[column])
    exact = {
        "i": st.sampled_from([1, 2, 3]),
        "f": st.sampled_from([0.5, 7.0]),
        "n": st.sampled_from([Decimal("1.50")]),
    }
    items = draw(st.lists(exact.get(column, VALUES[column]), min_size=1, max_size=3))
    return column, op, draw(st.sampled_from([items, [*items, None]]))


def rows(filters):
    bound = bind(parse_filters(filters), TABLE.schema)
    return evaluate(bound, {(name,): TABLE[name] for name in TABLE.column_names}, TABLE.num_rows)


@settings(max_examples=examples(200), deadline=None)
@given(
    st.lists(one_filter(), min_size=1, max_size=3)
    | st.lists(st.lists(one_filter(), min_size=1, max_size=2), min_size=1, max_size=3)
)
def test_filters_mean_what_they_mean_to_pyarrow(filters):
    theirs = TABLE.filter(pq.filters_to_expression(filters))
    assert TABLE.filter(rows(filters)).equals(theirs) or str(TABLE.filter(rows(filters))) == str(theirs)


@pytest.mark.parametrize("op", ["in", "not in"])
@pytest.mark.parametrize("items", [[1], [1, None], [None], []])
def test_null_in_and_out_of_lists(op, items):
    typed = pa.array(items, pa.int32())
    expression = pc.field("i").isin(typed)
    theirs = TABLE.filter(~expression if op == "not in" else expression)
    assert TABLE.filter(rows([("i", op, items)]))["i"].equals(theirs["i"])


def test_nodes():
    assert parse_filters([("a", "==", 1)]) == A1
    assert parse_filters([("a", "=", 1), ("b.c", "!=", "x")]) == And((A1, Comparison("b.c", "<>", "x")))
    assert parse_filters([[("a", "=", 1)], [("b", "<", 2)]]) == Or((A1, Comparison("b", "<", 2)))
    assert parse_filters([(("a", "b"), "in", {1})]) == In(("a", "b"), (1,))
    assert parse_filters([("a", "in", pa.array([1, None]))]).children[1] == IsNull("a")
    assert parse_filters([("a", "in", [])]) == Constant(False)
    assert parse_filters([("a", "not in", [])]) == Constant(True)


@pytest.mark.parametrize(
    ("filters", "reason", "column"),
    [
        ([], "not-a-filter", None),
        ("a = 1", "not-a-filter", None),
        ([[]], "not-a-filter", None),
        ([("a", "=")], "not-a-filter", None),
        ([("a", "=", 1), "b"], "not-a-filter", None),
        ([(1, "=", 1)], "not-a-filter", None),
        ([("a", "like", "x")], "unknown-operator", "a"),
        ([("a", "in", "abc")], "not-a-list", "a"),
        ([(("a", "b"), "not in", 5)], "not-a-list", "a.b"),
        ([("a", "in", [float("nan")])], "nan-in-list", "a"),
    ],
)
def test_errors(filters, reason, column):
    with pytest.raises(PredicateError) as caught:
        parse_filters(filters)
    assert (caught.value.reason, caught.value.column) == (reason, column)


def test_every_form():
    assert parse_predicate(None) is None
    assert parse_predicate([]) is None
    assert parse_predicate("a = 1") == parse_predicate([("a", "=", 1)]) == parse_predicate(A1) == A1
    assert parse_predicate(pc.field("a") == 1) == A1
    with pytest.raises(PredicateError) as caught:
        parse_predicate(5)
    assert caught.value.reason == "not-a-predicate"
