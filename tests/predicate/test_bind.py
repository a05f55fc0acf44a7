"""Binding resolves names, converts literals, and raises errors with a reason and a column."""

from __future__ import annotations

import datetime as dt
import uuid
from decimal import Decimal

import numpy as np
import pandas as pd
import pyarrow as pa
import pyarrow.compute as pc
import pytest

from intarsia.errors import ColumnNotFoundError, PredicateError
from intarsia.predicate import (
    And,
    BoundAnd,
    BoundCompare,
    BoundConstant,
    BoundIn,
    BoundMatch,
    BoundNull,
    BoundPrefix,
    Comparison,
    In,
    Like,
    Not,
    Or,
    RegexpLike,
    bind,
    conditions,
    contains,
    evaluate,
    parse_predicate,
    parse_sql,
    resolve_column,
)
from intarsia.predicate.bind import MAX_NESTING
from tests.counting import calls

NOTHING = BoundConstant(False)
SCHEMA = pa.schema(
    {
        "i8": pa.int8(),
        "i64": pa.int64(),
        "u8": pa.uint8(),
        "f32": pa.float32(),
        "f64": pa.float64(),
        "dec": pa.decimal128(5, 2),
        "day": pa.date32(),
        "ms": pa.timestamp("ms"),
        "utc": pa.timestamp("us", "UTC"),
        "clock": pa.time64("us"),
        "span": pa.duration("ms"),
        "s": pa.string(),
        "dict": pa.dictionary(pa.int8(), pa.large_string()),
        "bin": pa.binary_view(),
        "fix": pa.binary(3),
        "id": pa.uuid(),
        "yes": pa.bool_(),
        "st": pa.struct({"x": pa.int64(), "deep": pa.struct({"y": pa.string()}), "l": pa.list_(pa.int64())}),
        "list": pa.list_(pa.struct({"z": pa.int64()})),
        "map": pa.map_(pa.string(), pa.int64()),
        "a.b": pa.int64(),
        "gap": pa.month_day_nano_interval(),
    }
)

PRINTED = {
    # literals between two values
    "i8 = 1.5": "FALSE",
    "i8 <> 1.5": "i8 IS NOT NULL",
    "i8 < 1.5": "i8 <= 1",
    "i8 <= -1.5": "i8 <= -2",
    "i8 > 1.5": "i8 > 1",
    "i8 >= -1.5": "i8 > -2",
    "NOT i8 < 1.5": "i8 > 1",
    "NOT i8 = 1.5": "i8 IS NOT NULL",
    "i8 = 1.0": "i8 = 1",
    "dec < 1.005": "dec <= 1.00",
    "dec = 1.50000": "dec = 1.50",
    "dec >= '1.5'": "dec >= 1.50",
    "day < TIMESTAMP '2020-01-01 12:00'": "day <= DATE '2020-01-01'",
    "day < '2020-01-01'": "day < DATE '2020-01-01'",
    "ms > '2020-01-01 00:00:00.0005'": "ms > TIMESTAMP '2020-01-01 00:00:00.000'",
    "ms = DATE '2020-01-01'": "ms = TIMESTAMP '2020-01-01 00:00:00.000'",
    "utc = TIMESTAMP '2020-01-01 12:00'": "utc = TIMESTAMP '2020-01-01 12:00:00.000000Z'",
    "utc = TIMESTAMP '2020-01-01 12:00+02:00'": "utc = TIMESTAMP '2020-01-01 10:00:00.000000Z'",
    "clock <= TIME '12:00:00.0000005'": "clock <= TIME '12:00:00.000000'",
    "fix < X'6162'": "fix < X'616200'",
    "fix > X'6162'": "fix >= X'616200'",
    "fix > X'61626364'": "fix > X'616263'",
    "fix = X'61'": "FALSE",
    # literals outside
    "i8 = 300": "FALSE",
    "i8 < 300": "i8 IS NOT NULL",
    "i8 > 300": "FALSE",
    "u8 >= -1": "u8 IS NOT NULL",
    "u8 <> -1": "u8 IS NOT NULL",
    "NOT i8 > 300": "i8 IS NOT NULL",
    "dec < 1E5": "dec IS NOT NULL",
    "dec < -999.995": "FALSE",
    "dec >= -999.995": "dec IS NOT NULL",
    "dec <= 999.995": "dec <= 999.99",
    "i64 < CAST('inf' AS DOUBLE)": "i64 IS NOT NULL",
    "i64 = CAST('NaN' AS DOUBLE)": "FALSE",
    "i64 < 1E999999999": "i64 IS NOT NULL",
    # floats
    "f32 = 0.1": "FALSE",
    "f32 <= 0.1": "f32 <= 0.09999999403953552",
    "f64 = 0.1": "f64 = 0.1",
    "f64 = 9007199254740993": "FALSE",
    "f64 < -0.0": "f64 < 0.0",
    "f64 <> CAST('NaN' AS DOUBLE)": "f64 IS NOT NULL",
    "NOT f64 < CAST('NaN' AS DOUBLE)": "f64 IS NOT NULL",
    "NOT f64 < 5": "(f64 >= 5.0 OR f64 IS NAN)",
    "NOT f64 BETWEEN 1 AND 2": "(f64 < 1.0 OR f64 IS NAN) OR (f64 > 2.0 OR f64 IS NAN)",
    "NOT i64 BETWEEN 1 AND 2": "i64 < 1 OR i64 > 2",
    # lists
    "i8 IN (3, 1, 1.0, 1.5, 300, NULL)": "i8 IN (1, 3)",
    "i8 IN (1, NULL)": "i8 = 1",
    "i8 NOT IN (1)": "i8 <> 1",
    "i8 NOT IN (1.5, 300)": "i8 IS NOT NULL",
    "i8 NOT IN (1, NULL)": "FALSE",
    "NOT i8 IN (1, NULL)": "FALSE",
    "i8 IN ()": "FALSE",
    "i8 NOT IN ()": "TRUE",
    "i8 IN (NULL)": "FALSE",
    # equalities on one column are merged into a list, among other conditions
    "i8 = 3 OR i8 = 1": "i8 IN (1, 3)",
    "i8 = 3 OR i64 = 1 OR i8 IN (2, 3) OR i8 IS NULL": "i8 IN (2, 3) OR i64 = 1 OR i8 IS NULL",
    "i8 <> 3 AND i64 = 1 AND i8 NOT IN (2, 3) AND i8 < 9": "i8 NOT IN (2, 3) AND i64 = 1 AND i8 < 9",
    "i8 = 3 OR i8 <> 1 OR i8 NOT IN (4, 5)": "i8 = 3 OR i8 <> 1 OR i8 NOT IN (4, 5)",
    "i8 = 3 AND i8 = 1": "i8 = 3 AND i8 = 1",
    "i8 <> 3 OR i8 <> 1": "i8 <> 3 OR i8 <> 1",
    "NOT (i8 = 3 OR i8 = 1)": "i8 NOT IN (1, 3)",
    "NOT (i8 <> 3 AND i8 <> 1)": "i8 IN (1, 3)",
    "i8 = 3 OR (i64 = 4 AND i8 = 1)": "i8 = 3 OR (i64 = 4 AND i8 = 1)",
    "i8 = 3 OR i8 = 3.0 OR i8 = 300": "i8 = 3",
    "f64 = 0.0 OR f64 = 1.5 OR f64 = -0.0": "f64 IN (0.0, 1.5)",
    "s = 'b' OR s LIKE 'a' OR s LIKE 'a%'": "s IN ('a', 'b') OR s LIKE 'a%'",
    # three-valued logic and constants
    "i8 = NULL": "FALSE",
    "NOT i8 = NULL": "FALSE",
    "NOT NULL": "FALSE",
    "NOT (i8 = 1 AND NULL)": "i8 <> 1",
    "i8 = 1 OR TRUE": "TRUE",
    "i8 = 1 AND TRUE": "i8 = 1",
    "i8 = 1 AND i8 = 300": "FALSE",
    "i8 = 1 AND (i64 = 2 AND yes)": "i8 = 1 AND i64 = 2 AND yes = TRUE",
    "i8 = 1 OR i8 = 1": "i8 = 1",
    "NOT (i8 = 1 OR NOT (i64 = 2 OR yes))": "i8 <> 1 AND (i64 = 2 OR yes = TRUE)",
    "NOT yes": "yes <> TRUE",
    "yes IS NOT TRUE": "yes <> TRUE OR yes IS NULL",
    "i8 IS DISTINCT FROM 5": "i8 <> 5 OR i8 IS NULL",
    # patterns
    "s LIKE 'abc'": "s = 'abc'",
    "s NOT LIKE 'abc'": "s <> 'abc'",
    r"s LIKE 'a\%%'": r"s LIKE 'a\%%'",
    "s LIKE 'a%%'": "s LIKE 'a%'",
    "s LIKE '%'": "s IS NOT NULL",
    "s NOT LIKE '%'": "FALSE",
    "s LIKE 'a!%' ESCAPE '!'": "s = 'a%'",
    r"s LIKE 'a\' ESCAPE ''": r"s = 'a\'",
    "s LIKE ''": "s = ''",
    "dict LIKE 'é_%x'": "dict LIKE 'é_%x'",
    "s ILIKE 'abc'": "s ILIKE 'abc'",
    "s NOT ILIKE '12'": "s <> '12'",
    "s ILIKE '12%'": "s LIKE '12%'",
    "s ILIKE '%'": "s IS NOT NULL",
    "NOT (s ILIKE 'a!%' ESCAPE '!')": r"s NOT ILIKE 'a\%'",
    "contains(s, '')": "s IS NOT NULL",
    "contains(s, 'a%')": r"s LIKE '%a\%%'",
    "s ~ '^abc'": "s LIKE 'abc%'",
    r"s !~ '\A(a)b[.]'": "s NOT LIKE 'ab.%'",
    "s ~ '^abc$'": "s RLIKE '^abc$'",
    "s ~ '(?m)^abc'": "s RLIKE '(?m)^abc'",
    "s ~ ''": "s IS NOT NULL",
    "s !~ '^'": "FALSE",
    "s ~* 'x'": "s RLIKE '(?i)x'",
    "NOT (s ~ 'x' AND dict ~ 'y')": "s NOT RLIKE 'x' OR dict NOT RLIKE 'y'",
    # others
    "id = '123e4567-e89b-12d3-a456-426614174000'": "id = X'123e4567e89b12d3a456426614174000'",
    "bin = 'é'": "bin = X'c3a9'",
}


@pytest.mark.parametrize("text", PRINTED)
def test_rewriting(text):
    assert str(bind(parse_sql(text), SCHEMA)) == PRINTED[text]


@pytest.mark.parametrize("text", PRINTED)
def test_values_have_exactly_the_type_of_the_leaf(text):
    for leaf in conditions(bind(parse_sql(text), SCHEMA)):
        values = (
            [leaf.value]
            if isinstance(leaf, BoundCompare)
            else leaf.values
            if isinstance(leaf, BoundIn)
            else []
        )
        assert all(value.type == leaf.type for value in values)
        assert not pa.types.is_dictionary(leaf.type)


def test_leaf_fields():
    assert bind(parse_sql("i8 < 5"), SCHEMA) == BoundCompare(("i8",), pa.int8(), "<", pa.scalar(5, pa.int8()))
    assert bind(parse_sql("i8 IS NULL"), SCHEMA) == BoundNull(("i8",), pa.int8())
    assert bind(parse_sql("dict LIKE 'é%'"), SCHEMA) == BoundPrefix(("dict",), pa.string(), "é".encode())
    like = bind(parse_sql(r"s NOT LIKE 'é\_%x_'"), SCHEMA)
    assert isinstance(like, BoundMatch)
    assert (like.condition, like.prefix, like.negated) == (r"LIKE 'é\_%x_'", "é_".encode(), True)
    among = bind(parse_sql("s IN ('b', 'a', 'b')"), SCHEMA)
    assert isinstance(among, BoundIn)
    assert among.values.equals(pa.array(["a", "b"]))


def test_paths_and_leaves():
    bound = bind(parse_sql("i8 = 1 AND (st.x = 2 OR i8 IS NULL)"), SCHEMA)
    assert bound.paths() == {("i8",), ("st", "x")}
    assert [leaf.path for leaf in conditions(bound)] == [("i8",), ("st", "x"), ("i8",)]
    assert bind(parse_sql("TRUE"), SCHEMA).paths() == frozenset()


def test_equal_predicates_are_equal_and_hash_alike():
    one, two = (bind(parse_sql("i8 IN (1, 2) AND NOT f32 > 1.0"), SCHEMA) for _ in range(2))
    assert one == two
    assert hash(one) == hash(two)
    assert one != bind(parse_sql("i8 IN (1, 2) AND f32 <= 1.0"), SCHEMA)
    assert bind(parse_sql("i8 = 1"), SCHEMA) != bind(parse_sql("i64 = 1"), SCHEMA)


@pytest.mark.parametrize(
    ("column", "path"),
    [
        ("st.x", ("st", "x")),
        ("st.deep.y", ("st", "deep", "y")),
        (("st", "x"), ("st", "x")),
        ("a.b", ("a.b",)),
        (("a.b",), ("a.b",)),
    ],
)
def test_names(column, path):
    assert resolve_column(SCHEMA, column).path == path


def test_a_whole_name_takes_precedence_over_a_path_and_field_names_may_contain_dots():
    schema = pa.schema(
        {
            "a": pa.struct({"b": pa.int8(), "c.d": pa.int8()}),
            "a.b": pa.string(),
            "e.f": pa.struct({"g": pa.int8()}),
        }
    )
    assert resolve_column(schema, "a.b").path == ("a.b",)
    assert resolve_column(schema, ("a", "b")).path == ("a", "b")
    assert resolve_column(schema, "a.c.d").path == ("a", "c.d")
    assert resolve_column(schema, "e.f.g").path == ("e.f", "g")


@pytest.mark.parametrize(
    ("text", "near"),
    [("I8 = 1", "i8"), ("st.X = 1", "st.x"), ("dicts = 1", "dict"), ("st.dep.y = 1", "st.deep.y")],
)
def test_unknown_columns_name_near_matches(text, near):
    with pytest.raises(ColumnNotFoundError) as caught:
        bind(parse_sql(text), SCHEMA)
    assert near in caught.value.near


ERRORS = {
    "st = 1": ("nested-column", "st"),
    "st IS NULL": ("nested-column", "st"),
    "list IS NULL": ("nested-column", "list"),
    "map = 'x'": ("nested-column", "map"),
    "list.z = 1": ("repeated-column", "list.z"),
    "list.element.z = 1": ("repeated-column", "list.element.z"),
    "st.l.element = 1": ("repeated-column", "st.l.element"),
    "map.key = 'a'": ("repeated-column", "map.key"),
    "i8 = 'x'": ("type-mismatch", "i8"),
    "i8 IN (1, 'x')": ("type-mismatch", "i8"),
    "i8 = TRUE": ("type-mismatch", "i8"),
    "s = 5": ("type-mismatch", "s"),
    "s = X'00'": ("type-mismatch", "s"),
    "yes = 1": ("type-mismatch", "yes"),
    "s": ("type-mismatch", "s"),
    "dec = 'x'": ("type-mismatch", "dec"),
    "day = 5": ("type-mismatch", "day"),
    "day = 'yesterday'": ("type-mismatch", "day"),
    "day = '2020-02-30'": ("type-mismatch", "day"),
    "day = TIME '12:00'": ("type-mismatch", "day"),
    "ms = '2020-01-01Z'": ("type-mismatch", "ms"),
    "ms = '2020-01-01 00:00Z'": ("unexpected-time-zone", "ms"),
    "day = TIMESTAMP '2020-01-01 00:00Z'": ("unexpected-time-zone", "day"),
    "utc = 'x'": ("type-mismatch", "utc"),
    "clock = '2020-01-01'": ("type-mismatch", "clock"),
    "span = 5": ("type-mismatch", "span"),
    "span = '5'": ("type-mismatch", "span"),
    "id = 'x'": ("type-mismatch", "id"),
    "bin = 5": ("type-mismatch", "bin"),
    "gap = 5": ("type-not-comparable", "gap"),
    "i8 LIKE 'x'": ("not-a-string-column", "i8"),
    "bin LIKE 'x'": ("not-a-string-column", "bin"),
    "bin ~ 'x'": ("not-a-string-column", "bin"),
    "s LIKE 'x' ESCAPE 'ab'": ("invalid-escape", "s"),
    r"s LIKE 'a\b'": ("invalid-escape", "s"),
    "s LIKE 'a!' ESCAPE '!'": ("invalid-escape", "s"),
}


@pytest.mark.parametrize("text", ERRORS)
def test_errors(text):
    with pytest.raises(PredicateError) as caught:
        bind(parse_sql(text), SCHEMA)
    assert (caught.value.reason, caught.value.column) == ERRORS[text]


def test_names_that_several_columns_have():
    schema = pa.schema([("a", pa.int8()), ("a", pa.int8())])
    with pytest.raises(PredicateError) as caught:
        bind(Comparison("a", "=", 1), schema)
    assert (caught.value.reason, caught.value.column) == ("ambiguous-column", "a")


def test_values_that_are_not_predicates_or_literals():
    for node in (
        5,
        And((5,)),
        Comparison("i8", "~", 5),
        Comparison("i8", "=", [1]),
        Comparison("s", "=", "\ud800"),
    ):
        with pytest.raises(PredicateError):
            bind(node, SCHEMA)
    with pytest.raises(PredicateError):
        bind(Like("s", "\ud800%"), SCHEMA)


def test_text_of_arrow_that_is_not_utf8():
    """It is refused, as half of a surrogate pair is; a list may have it, because it is not decoded."""
    texts = pa.array([b"\xff", b"a"]).view(pa.string())
    for column in ("s", "i8"):
        with pytest.raises(PredicateError) as caught:
            bind(Comparison(column, "=", texts[0]), SCHEMA)
        assert caught.value.reason == "not-utf8"
    with pytest.raises(PredicateError):
        bind(parse_predicate(pc.field("s") == texts[0]), SCHEMA)
    assert str(In("s", texts)) == "s IN (X'ff', 'a')"
    assert str(bind(parse_predicate(pc.field("s").isin(texts)), SCHEMA)) == "s IN ('a', X'ff')"


@pytest.mark.parametrize(
    ("column", "value", "expected"),
    [
        ("i8", np.int64(5), 5),
        ("i8", pa.scalar(5), 5),
        ("f64", np.float32(0.5), 0.5),
        ("yes", np.bool_(True), True),
        ("s", pa.scalar("x", pa.large_string()), "x"),
        ("bin", bytearray(b"x"), b"x"),
        ("id", uuid.UUID(int=1), b"\0" * 15 + b"\x01"),
        ("id", pa.scalar(uuid.UUID(int=1).bytes, pa.uuid()), b"\0" * 15 + b"\x01"),
        ("dec", pa.scalar(Decimal("1.5")), Decimal("1.50")),
        ("day", pd.Timestamp("2020-01-01"), dt.date(2020, 1, 1)),
        ("day", pa.scalar(dt.date(2020, 1, 1), pa.date64()), dt.date(2020, 1, 1)),
        ("ms", np.datetime64("2020-01-01", "D"), dt.datetime(2020, 1, 1)),
        ("ms", np.datetime64("2020-01-01T00:00:00.001", "ns"), dt.datetime(2020, 1, 1, 0, 0, 0, 1000)),
        (
            "utc",
            pd.Timestamp("2020-01-01", tz="Europe/Zurich"),
            dt.datetime(2019, 12, 31, 23, tzinfo=dt.timezone.utc),
        ),
        ("ms", np.datetime64("2020-02", "M"), dt.datetime(2020, 2, 1)),
        ("day", np.datetime64("2020", "Y"), dt.date(2020, 1, 1)),
        ("span", np.timedelta64(2, "h"), dt.timedelta(hours=2)),
        ("span", np.timedelta64(5, "s"), dt.timedelta(seconds=5)),
        ("span", pd.Timedelta(5, "s"), dt.timedelta(seconds=5)),
    ],
)
def test_literals_of_numpy_pandas_and_pyarrow(column, value, expected):
    assert bind(Comparison(column, "=", value), SCHEMA).value.as_py() == expected


@pytest.mark.parametrize(
    "value", [None, pd.NaT, np.datetime64("NaT", "s"), pa.scalar(None, pa.timestamp("s"))]
)
def test_every_null_is_null(value):
    assert bind(Comparison("ms", "=", value), SCHEMA) == NOTHING
    assert bind(In("ms", (value,), negated=True), SCHEMA) == NOTHING


def test_nanoseconds_of_pandas_are_kept():
    schema = pa.schema({"t": pa.timestamp("ns"), "d": pa.duration("ns")})
    assert bind(Comparison("t", "=", pd.Timestamp(1_000_000_001)), schema).value.value == 1_000_000_001
    assert bind(Comparison("d", "=", pd.Timedelta(1_000_000_001)), schema).value.value == 1_000_000_001
    assert bind(Comparison("t", "=", np.datetime64(1_000_000_001, "ns")), schema).value.value == 1_000_000_001


def test_conjunctions_have_several_distinct_children():
    bound = bind(parse_sql("i8 = 1 AND i8 = 1 AND i64 = 1 AND (i64 = 1 AND i64 = 2)"), SCHEMA)
    assert isinstance(bound, BoundAnd)
    assert [str(child) for child in bound.children] == ["i8 = 1", "i64 = 1", "i64 = 2"]


def test_nesting_of_and_within_or_is_limited_but_operands_of_one_operator_are_not():
    one, two = Comparison("i8", "<", 1), Comparison("i64", ">", 2)
    flat, negations = one, one
    for number in range(5000):  # without recursion
        flat = Or((flat, Comparison("i8", ">", number % 100))) if number % 2 else Not(And((Not(flat), two)))
        negations = Not(negations)
    assert len(bind(flat, SCHEMA).children) == 52
    assert bind(negations, SCHEMA) == bind(one, SCHEMA)
    deep = two
    for level in range(MAX_NESTING):
        deep = And((deep, two)) if level % 2 else Or((deep, one))
    bound = bind(deep, SCHEMA)
    assert len(list(conditions(bound))) == MAX_NESTING + 1
    assert str(bound).count("(") == MAX_NESTING - 1
    columns = {("i8",): pa.array([0, 5], pa.int8()), ("i64",): pa.array([3, 0])}
    assert evaluate(bound, columns, 2).to_pylist() == [True, False]
    with pytest.raises(PredicateError) as caught:
        bind(Or((deep, one)), SCHEMA)
    assert caught.value.reason == "nested-too-deeply"


REGEX_ERRORS = {
    "s ~ 'ab[c'": ("invalid-regex", "s"),
    "s ~ 'ab('": ("invalid-regex", "s"),
    "s ~ 'a(?=b)'": ("invalid-regex", "s"),
    r"s ~ '(a)\1'": ("invalid-regex", "s"),
    r"s ~ '((\pL){30}){30}'": ("invalid-regex", "s"),
    "s ~ '" + r"\pL" * 3000 + "'": ("invalid-regex", "s"),
    f"s ~ '{'a' * 10_001}'": ("regex-too-long", "s"),
    "s ~ '(a{500}){3}'": ("invalid-regex", "s"),
}


@pytest.mark.parametrize(
    "node",
    [
        Like("s", "a" * 1_000_000),
        Like("s", "%" + "a_" * 500_000, ignore_case=True),
        contains("s", "a" * 1_000_000),
        RegexpLike("s", "a|" * 500_000),
    ],
    ids=["equal", "ilike", "contains", "regex"],
)
def test_long_patterns_are_rejected_before_any_work(node):
    def rejected():
        with pytest.raises(PredicateError) as caught:
            bind(node, SCHEMA)
        assert caught.value.reason == ("regex-too-long" if type(node) is RegexpLike else "pattern-too-long")
        assert caught.value.column == "s"
        assert len(str(caught.value)) < 400

    rejected()
    assert calls(rejected) < 500


def test_patterns_up_to_the_limit():
    columns = {("s",): pa.array(["a" * 9_999, "a" * 9_998 + "b"])}
    for node in (
        Like("s", "_" * 9_998 + "b"),
        Like("s", "%" + "a" * 9_998 + "b", ignore_case=True),
        RegexpLike("s", "a" * 9_998 + "b"),
        Like("s", "a" * 9_998 + "b"),
    ):
        assert evaluate(bind(node, SCHEMA), columns, 2).to_pylist() == [False, True]


def test_a_pattern_that_re2_refuses(monkeypatch):
    monkeypatch.setattr("intarsia.predicate.pattern.MAX_PATTERN_CHARACTERS", 200_000)
    with pytest.raises(PredicateError) as caught:
        bind(Like("s", "ab" + "_" * 150_000), SCHEMA)
    assert (caught.value.reason, caught.value.column) == ("pattern-too-large", "s")


@pytest.mark.parametrize("text", REGEX_ERRORS, ids=lambda text: text[:40])
def test_errors_in_regular_expressions(text):
    with pytest.raises(PredicateError) as caught:
        bind(parse_sql(text), SCHEMA)
    assert (caught.value.reason, caught.value.column) == REGEX_ERRORS[text]
    assert parse_sql(text).regex[:60] in str(caught.value)
    assert len(str(caught.value)) < 500


@pytest.mark.parametrize(
    ("text", "prefix"),
    {
        "s LIKE 'Ab_%'": "Ab",
        "s LIKE '%ab'": "",
        "s ILIKE '12-ab%'": "12-",
        "s ILIKE 'ab%'": "",
        "s ~ '^ab+c'": "ab",
        "s ~ '^ab*c'": "a",
        "s ~ '^(ab)?c'": "",
        "s ~ '^ab|cd'": "",
        "s ~ '^(?:ab|cd)'": "",
        "s ~ '(?m)^ab.'": "",
        "s ~ '(?i)^1b.'": "1",
        "s ~ 'ab.'": "",
        r"s ~ '\Aé\.x$'": "é.x",
    }.items(),
)
def test_the_prefix_of_every_match(text, prefix):
    leaf = bind(parse_sql(text), SCHEMA)
    assert isinstance(leaf, BoundMatch)
    assert leaf.prefix == prefix.encode()
