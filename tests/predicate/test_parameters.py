"""Parameters in SQL text have the values that literals in their place would have."""

from __future__ import annotations

import datetime as dt
import sys

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from hypothesis import given
from hypothesis import strategies as st

import intarsia as ia
from intarsia.predicate import parse_predicate, parse_sql

#: A template of each form that takes literals, and the values of its parameters in the order of the text.
FORMS = [
    ("x = {}", [1]),
    ("{} < x", [1.5]),
    ("NOT x >= {} OR x < {}", [1, 2]),
    ("x BETWEEN {} AND {}", [1, 2]),
    ("x IN ({}, {}, {})", [3, 1, 2]),
    ("x NOT IN ({}, {})", ["it's", "b"]),
    ("x LIKE {} ESCAPE {}", ["a!%%", "!"]),
    ("x ILIKE {} AND y = {}", ["%a%", 2]),
    ("contains(x, {}) AND starts_with(x, {}) AND ends_with(x, {})", ["a", "b", "c"]),
    ("regexp_like(x, {}, {})", ["a+", "i"]),
    ("substr(x, {}, {}) = {}", [1, 2, "ab"]),
    ("x + {} > {}", [1, 10]),
    ("x = CAST({} AS DATE)", ["2024-02-29"]),
    ("x IS NOT DISTINCT FROM {}", [7]),
    ("extract(year FROM x) = {} AND (a = {} OR b = {}) AND c = {}", [2024, 1, 2, 3]),
]


def written(value):
    return "'" + value.replace("'", "''") + "'" if isinstance(value, str) else str(value)


@pytest.mark.parametrize(("form", "values"), FORMS, ids=[form for form, _ in FORMS])
def test_a_parameter_is_the_literal_in_its_place(form, values):
    expected = str(parse_sql(form.format(*map(written, values))))
    assert str(parse_sql(form.format(*["?"] * len(values)), values)) == expected
    names = {f"p{ordinal}": value for ordinal, value in reversed(list(enumerate(values)))}
    named = [f":p{ordinal}" for ordinal in range(len(values))]
    assert str(parse_sql(form.format(*named), names)) == expected


@given(st.lists(st.integers() | st.text(), min_size=1, max_size=40))
def test_values_are_in_the_order_of_the_text(values):
    text = " OR ".join(f"c{ordinal} = ?" for ordinal in range(len(values)))
    expected = tuple(ia.Comparison(f"c{ordinal}", "=", value) for ordinal, value in enumerate(values))
    assert parse_sql(text, values) == (ia.Or(expected) if len(values) > 1 else expected[0])


def test_text_is_never_parsed():
    assert parse_sql("x = ?", ["' OR '1' = '1"]) == ia.Comparison("x", "=", "' OR '1' = '1")


@pytest.mark.parametrize(
    "value",
    [
        None,
        True,
        b"\xff",
        dt.date(2024, 1, 2),
        dt.timedelta(1),
        np.int64(3),
        pa.scalar(3, pa.int8()),
        float("nan"),
    ],
    ids=str,
)
def test_values_of_any_type(value):
    assert parse_sql("x > ?", [value]).value is value


@pytest.mark.parametrize(
    "values", [[], [1, 2], (3,), {4}, np.array([1, 2]), pa.array([1, None]), range(100)], ids=str
)
def test_a_list_is_one_parameter(values):
    assert parse_sql("x IN ?", [values]) == ia.In("x", tuple(values))
    assert parse_sql("x NOT IN :v", {"v": values}) == ia.In("x", tuple(values), negated=True)


def test_parameters_beside_a_long_list_of_literals():
    listed = ", ".join(map(str, range(50)))
    assert parse_sql(f"x IN ({listed}) AND y = ?", [7]) == ia.And(
        (ia.In("x", tuple(range(50))), ia.Comparison("y", "=", 7))
    )


def test_a_name_can_be_used_twice():
    assert parse_sql("x = :v OR y = :v", {"v": 1}) == parse_sql("x = 1 OR y = 1")


def test_values_do_not_stay_in_the_cached_text():
    assert parse_sql("x = ?", [1]) != parse_sql("x = ?", [2])
    with pytest.raises(ia.PredicateError) as raised:
        parse_sql("x = ?")
    assert raised.value.reason == "missing-parameter"


def test_repeated_text_is_parsed_once():
    text = "lower(column_of_this_test) = ? AND other BETWEEN ? AND ?"

    def calls_of_sqlglot(values):
        count = 0

        def counted(frame, event, _):
            nonlocal count
            count += event == "call" and frame.f_code.co_name == "parse_one"

        sys.setprofile(counted)
        try:
            parse_sql(text, values)
        finally:
            sys.setprofile(None)
        return count

    assert [calls_of_sqlglot([n, n, n]) for n in range(3)] == [1, 0, 0]


@pytest.mark.parametrize(
    ("where", "parameters", "reason"),
    [
        ("x = ?", None, "missing-parameter"),
        ("x IN ?", None, "missing-parameter"),
        ("x = :a", {"b": 1}, "missing-parameter"),
        ("x = ?", [], "wrong-number-of-parameters"),
        ("x = ?", [1, 2], "wrong-number-of-parameters"),
        ("x = 1", [1], "wrong-number-of-parameters"),
        ("x = 1", {}, "no-parameters-in-text"),
        ("x = 1", [], "no-parameters-in-text"),
        ("x = :a", {"a": 1, "b": 2}, "unused-parameter"),
        ("x = :a", [1], "named-parameter-without-name"),
        ("x = ?", {"a": 1}, "parameter-without-name"),
        ("x = ? AND y = :a", {"a": 1}, "parameter-without-name"),
        ("x = ?", "a", "not-a-list-of-parameters"),
        ("x = ?", 7, "not-a-list-of-parameters"),
        ("x = ?", [[1]], "parameter-is-a-list"),
        ("x IN ?", [1], "not-a-list"),
        ("x IN ?", ["ab"], "not-a-list"),
        ("? = x ?", [1], "syntax-error"),
        ("x LIKE ?", [5], "unsupported-expression"),
        ("?", [True], "unsupported-expression"),
        ([("x", "=", 1)], [1], "parameters-without-text"),
        (None, [1], "parameters-without-text"),
    ],
)
def test_errors(where, parameters, reason):
    with pytest.raises(ia.PredicateError) as raised:
        parse_predicate(where, parameters=parameters)
    assert raised.value.reason == reason


def test_every_query_of_a_table_takes_parameters(tmp_path):
    path = tmp_path / "t.parquet"
    pq.write_table(pa.table({"x": range(100), "s": ["a", "b"] * 50}), path)
    table = ia.open(path)
    given = {"where": "x < ? AND s = ?", "parameters": [10, "b"]}
    odd = [1, 3, 5, 7, 9]
    assert table.scan(**given).to_arrow()["x"].to_pylist() == odd
    assert table.count(**given) == 5
    assert table.locate(**given)["row"].to_pylist() == odd
    assert table.aggregate({"x": "sum"}, **given) == {"x": {"sum": 25}}
    assert table.count_distinct("x", **given) == 5
    assert table.value_counts("s", **given).to_pylist() == [{"value": "b", "count": 5}]
    assert int(table.approx_distinct("x", **given)) == 5
    assert table.explain(**given).rows_candidate == 100
    assert [split.to_arrow()["x"].to_pylist() for split in table.plan(**given)] == [odd]
