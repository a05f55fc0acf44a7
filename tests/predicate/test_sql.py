"""SQL text -> nodes, and what is said about text that is no predicate."""

from __future__ import annotations

import datetime as dt
import math
import subprocess
import sys
import uuid
from decimal import Decimal

import pyarrow as pa
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
    Like,
    Not,
    Or,
    RegexpLike,
    bind,
    parse_sql,
)
from tests.predicate import strategies

A1 = Comparison("a", "=", 1)
B2 = Comparison("b", "=", 2)
UTC = dt.timezone.utc


def same_as(column, value):
    return And((Comparison(column, "=", value), IsNull(column, negated=True)))


NODES = {
    # comparisons
    "a = 1": A1,
    "a == 1": A1,
    "(a) = (1)": A1,
    "1 = a": A1,
    "a = 1;": A1,
    "a = 1 -- why not": A1,
    "a <> 1": Comparison("a", "<>", 1),
    "a != 1": Comparison("a", "<>", 1),
    "a < 1": Comparison("a", "<", 1),
    "1 < a": Comparison("a", ">", 1),
    "1 >= a": Comparison("a", "<=", 1),
    "a = NULL": Comparison("a", "=", None),
    "a <=> 1": same_as("a", 1),
    "a IS NOT DISTINCT FROM 1": same_as("a", 1),
    "a IS DISTINCT FROM 1": Not(same_as("a", 1)),
    "a <=> NULL": IsNull("a"),
    # lists, ranges, nulls, patterns
    "a IN (1, NULL)": In("a", (1, None)),
    "a NOT IN ('x')": In("a", ("x",), negated=True),
    "NOT a IN ('x')": In("a", ("x",), negated=True),
    "a IN ()": In("a", ()),
    "a BETWEEN 1 AND 2": And((Comparison("a", ">=", 1), Comparison("a", "<=", 2))),
    "a NOT BETWEEN 1 AND 2": Not(And((Comparison("a", ">=", 1), Comparison("a", "<=", 2)))),
    "a IS NULL": IsNull("a"),
    "a IS NOT NULL": IsNull("a", negated=True),
    "NOT a IS NULL": IsNull("a", negated=True),
    "a LIKE 'x%'": Like("a", "x%"),
    "a NOT LIKE 'x'": Like("a", "x", negated=True),
    "a LIKE '!%' ESCAPE '!'": Like("a", "!%", escape="!"),
    "a NOT LIKE '!%' ESCAPE '!' AND b = 2": And((Like("a", "!%", negated=True, escape="!"), B2)),
    "NOT a LIKE 'x'": Like("a", "x", negated=True),
    "NOT (a LIKE 'x')": Not(Like("a", "x")),
    "a ILIKE 'x%'": Like("a", "x%", ignore_case=True),
    "a NOT ILIKE '!%' ESCAPE '!'": Like("a", "!%", negated=True, escape="!", ignore_case=True),
    r"contains(a, '5%_\')": Like("a", r"%5\%\_\\%"),
    "starts_with(a, 'x')": Like("a", "x%"),
    "StartsWith(a, 'x')": Like("a", "x%"),
    "NOT ends_with(a, 'x')": Like("a", "%x", negated=True),
    "endswith(a.b, 'x')": Like("a.b", "%x"),
    # regular expressions
    r"a RLIKE '^x\d'": RegexpLike("a", r"^x\d"),
    "a NOT RLIKE 'x'": RegexpLike("a", "x", negated=True),
    "a REGEXP 'x' AND b = 2": And((RegexpLike("a", "x"), B2)),
    "NOT a REGEXP 'x'": RegexpLike("a", "x", negated=True),
    "regexp_like(a, 'x')": RegexpLike("a", "x"),
    "regexp_like(a, 'x', 'i')": RegexpLike("a", "x", ignore_case=True),
    "regexp_like(a, 'x', 'ic')": RegexpLike("a", "x"),
    "NOT regexp_like(a, 'x', 'i')": RegexpLike("a", "x", negated=True, ignore_case=True),
    "regexp_matches(a, 'x')": RegexpLike("a", "x"),
    "rlike(a, 'x')": RegexpLike("a", "x"),
    "a ~ 'x'": RegexpLike("a", "x"),
    "a !~ 'x'": RegexpLike("a", "x", negated=True),
    "a ~* 'x' OR b = 2": Or((RegexpLike("a", "x", ignore_case=True), B2)),
    "a !~* 'x'": RegexpLike("a", "x", negated=True, ignore_case=True),
    '"rlike" = 1': Comparison("rlike", "=", 1),
    # booleans
    "a": Comparison("a", "=", True),
    "NOT a": Not(Comparison("a", "=", True)),
    "a IS TRUE": same_as("a", True),
    "a IS NOT FALSE": Not(same_as("a", False)),
    "TRUE": Constant(True),
    "NULL": Constant(None),
    "1 = 1": Constant(True),
    "1 > 1.5": Constant(False),
    "'a' = NULL": Constant(None),
    "a = 1 AND b = 2 OR NOT a = 1": Or((And((A1, B2)), Not(A1))),
    "a = 1 AND (b = 2 OR a = 1)": And((A1, Or((B2, A1)))),
    "a = 1 AND b = 2 AND a = 1": And((A1, B2, A1)),
    # names
    "x.y.z = 1": Comparison("x.y.z", "=", 1),
    "v.w.x.y.z = 1": Comparison("v.w.x.y.z", "=", 1),
    '"x y" = 1': Comparison("x y", "=", 1),
    "`x y` = 1": Comparison("x y", "=", 1),
    '"x.y" = 1': Comparison(("x.y",), "=", 1),
    'a."x.y" = 1': Comparison(("a", "x.y"), "=", 1),
    "`a`.b = 1": Comparison(("a", "b"), "=", 1),
    '"a""b" = 1': Comparison('a"b', "=", 1),
    "Date = 1": Comparison("Date", "=", 1),
    "user = 1": Comparison("user", "=", 1),
    "timestamp = 1": Comparison("timestamp", "=", 1),
    "year = 1": Comparison("year", "=", 1),
    # literals
    "a = -1": Comparison("a", "=", -1),
    "a = - -1": A1,
    "a = 1.50": Comparison("a", "=", Decimal("1.50")),
    "a = -.5": Comparison("a", "=", Decimal("-0.5")),
    "a = 1e3": Comparison("a", "=", Decimal("1e3")),
    "a = 12345678901234567890.123456789": Comparison("a", "=", Decimal("12345678901234567890.123456789")),
    "a = 'it''s'": Comparison("a", "=", "it's"),
    r"a = 'back\slash'": Comparison("a", "=", r"back\slash"),
    "a = ''": Comparison("a", "=", ""),
    "a = X'00fF'": Comparison("a", "=", b"\x00\xff"),
    "a = x''": Comparison("a", "=", b""),
    "a = DATE '2020-02-29'": Comparison("a", "=", dt.date(2020, 2, 29)),
    "a = '2020-02-29'::date": Comparison("a", "=", dt.date(2020, 2, 29)),
    "a = TIME '12:30'": Comparison("a", "=", dt.time(12, 30)),
    "a = TIMESTAMP '2020-02-29 12:00:00.5'": Comparison(
        "a", "=", dt.datetime(2020, 2, 29, 12, 0, 0, 500_000)
    ),
    "a = TIMESTAMP '2020-02-29T12:00Z'": Comparison("a", "=", dt.datetime(2020, 2, 29, 12, tzinfo=UTC)),
    "a = TIMESTAMP '2020-02-29 12:00 +02:30'": Comparison(
        "a", "=", dt.datetime(2020, 2, 29, 9, 30, tzinfo=UTC)
    ),
    "a = TIMESTAMPTZ '2020-02-29'": Comparison("a", "=", dt.datetime(2020, 2, 29, tzinfo=UTC)),
    "a = CAST('2020-02-29' AS TIMESTAMP)": Comparison("a", "=", dt.datetime(2020, 2, 29)),
    "a = TIMESTAMP '1970-01-01 00:00:00.000000001'": Comparison("a", "=", pa.scalar(1, pa.timestamp("ns"))),
    "a = TIMESTAMP '1970-01-01 00:00:00.000000001Z'": Comparison(
        "a", "=", pa.scalar(1, pa.timestamp("ns", "UTC"))
    ),
    "a = TIME '00:00:00.000000001'": Comparison("a", "=", pa.scalar(1, pa.time64("ns"))),
    "a = INTERVAL '90' MINUTE": Comparison("a", "=", dt.timedelta(minutes=90)),
    "a = INTERVAL '-1.5 hours'": Comparison("a", "=", dt.timedelta(minutes=-90)),
    "a = CAST('Infinity' AS DOUBLE)": Comparison("a", "=", math.inf),
    "a = CAST(0.1 AS FLOAT)": Comparison("a", "=", 0.10000000149011612),
    "a = CAST(0.1 AS DOUBLE)": Comparison("a", "=", 0.1),
    "a = CAST('7' AS INT)": Comparison("a", "=", 7),
    "a = CAST('1.5' AS DECIMAL(5, 2))": Comparison("a", "=", Decimal("1.5")),
    "a = CAST('x' AS STRING)": Comparison("a", "=", "x"),
    "a = CAST('x' AS BINARY)": Comparison("a", "=", b"x"),
    "a = CAST('true' AS BOOLEAN)": Comparison("a", "=", True),
    "a = CAST(NULL AS INT)": Comparison("a", "=", None),
    f"a = CAST('{uuid.UUID(int=5)}' AS UUID)": Comparison("a", "=", uuid.UUID(int=5)),
}


@pytest.mark.parametrize("text", NODES)
def test_nodes(text):
    found = parse_sql(text)
    assert found == NODES[text]
    assert repr(found) == repr(NODES[text])  # 1, 1.0 and True are equal, but not the same literal


@pytest.mark.parametrize("text", NODES)
def test_what_is_printed_is_read_back(text):
    assert parse_sql(str(NODES[text])) == (
        Comparison("a", "=", Decimal(repr(NODES[text].value)))
        if "FLOAT" in text or ("AS DOUBLE" in text and "Inf" not in text)
        else NODES[text]
    )


def test_nan():
    assert math.isnan(parse_sql("a = CAST('NaN' AS DOUBLE)").value)


@settings(max_examples=200, deadline=None)
@given(st.data())
def test_what_is_printed_means_the_same(data):
    types = {name: data.draw(st.sampled_from(strategies.TYPES)) for name in ("a", "b c")}
    node = data.draw(strategies.predicates(types))
    schema = pa.schema(types)
    assert bind(parse_sql(str(node)), schema) == bind(node, schema), str(node)


ERRORS = {
    "": "the predicate is empty",
    "  ": "the predicate is empty",
    "a =": "something is missing at =",
    "~a": "something is missing",
    "a SIMILAR TO 'x'": "cannot use a SIMILAR TO 'x'",
    "a GLOB 'x'": "cannot use a GLOB 'x'",
    "a RLIKE 5": "cannot use",
    "a RLIKE b": "cannot use",
    "regexp_like(a, 'x', 's')": "such as (?s)",
    "regexp_like(a, 'x', 'i', 1)": "cannot ",
    "regexp_like('x', a)": "cannot use a",
    "contains(a)": "something is missing",
    "contains(a, 5)": "cannot use CONTAINS(a, 5)",
    "contains(a, NULL)": "cannot use CONTAINS(a, NULL)",
    "endswith(a, 'x', 'y')": "cannot ",
    "a = 1 OR": "something is missing",
    "(a = 1": "a parenthesis is not closed",
    "a = 'x": "a quote is not closed",
    "a = 1; DROP TABLE x": "unexpected text at DROP TABLE x",
    "SELECT 1": "unexpected text",
    "a = b": "if 'b' is meant as text, put it in single quotes",
    'a = "b"': "if 'b' is meant as text, put it in single quotes",
    "a + 1 = 2": "cannot use a + 1",
    "f(a) = 1": "cannot use F(a)",
    "a = CURRENT_DATE": "a comparison needs one column and one literal",
    "a ILIKE ANY ('x', 'y')": "cannot use",
    "a IN (SELECT 1)": "cannot use a IN (SELECT 1)",
    "a IN (b)": "cannot use b",
    "(a, b) IN ((1, 2))": "cannot use (a, b)",
    "a[0] = 1": "cannot use a[0]",
    "a.* = 1": "cannot use a.*",
    "CAST(a AS INT) = 1": "cannot use CAST(a AS INT)",
    "a BETWEEN SYMMETRIC 2 AND 1": "cannot use",
    "a LIKE 5": "cannot use a LIKE 5",
    "a LIKE ANY ('x', 'y')": "cannot use",
    "a IS 5": "cannot use a IS 5",
    "(a = 1) IS TRUE": "cannot use a = 1",
    "a = ?": "cannot use a = ?",
    "1 = 'a'": "a comparison needs one column",
    "a = DATE '2020-02-30'": "'2020-02-30' is not valid in CAST('2020-02-30' AS DATE)",
    "a = DATE '2020-02-28 12:00'": "is not valid",
    "a = TIME '25:00'": "'25:00' is not valid",
    "a = TIMESTAMP '2020-02-28 12:00 +25:00'": "is not valid",
    "a = TIMESTAMP '0001-01-01 00:00 +01:00'": "is not valid",
    "a = X'0'": "'0' is not valid",
    "a = CAST(300 AS TINYINT)": "'300' is not valid in CAST(300 AS TINYINT)",
    "a = CAST(1E999999999 AS INT)": "is not valid",
    "a = CAST(1.234 AS DECIMAL(5, 2))": "'1.234' is not valid in CAST(1.234 AS DECIMAL(5, 2))",
    "a = CAST('x' AS UUID)": "'x' is not valid in CAST('x' AS UUID)",
    "a = CAST('x' AS DOUBLE)": "'x' is not valid",
    "a = CAST(1 AS DATE)": "cannot use CAST(1 AS DATE)",
    "a = INTERVAL '1' MONTH": "an interval is a count of microsecond",
    "a = INTERVAL 1e999999999 DAY": "is not valid",
    "a = INTERVAL '99999999999' DAY": "is not valid",
    "a = " + "9" * 10_000: "is not valid",
    "(" * 3000 + "a = 1" + ")" * 3000: "is nested too deeply",
}


@pytest.mark.parametrize("text", ERRORS, ids=lambda text: text[:40])
def test_errors(text):
    with pytest.raises(PredicateError) as caught:
        parse_sql(text)
    message = str(caught.value)
    assert ERRORS[text] in message
    assert "\n" not in message
    assert len(message) < 500


def test_many_operands():
    text = " OR ".join(f"a = {n}" for n in range(3000))
    assert len(parse_sql(text).children) == 3000


def test_sqlglot_is_loaded_only_for_text():
    code = "import intarsia.predicate, sys; sys.exit(any(name.startswith('sqlglot') for name in sys.modules))"
    assert subprocess.run([sys.executable, "-c", code], check=False).returncode == 0
