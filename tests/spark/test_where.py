"""Spark SQL predicates that are supported, and those that are left to Spark; needs no Java."""

import datetime as dt

import pyarrow as pa
import pytest

from intarsia.predicate import BoundAnd, BoundCompare, BoundOr, Comparison, bind
from intarsia.spark.conditions import spark_semantics, weaken
from intarsia.spark.spark_types import SparkColumn
from intarsia.spark.sql_text import parse_condition

TYPES = {
    "i": "int",
    "l": "bigint",
    "d": "double",
    "f": "float",
    "s": "string",
    "bo": "boolean",
    "dt": "date",
    "ts": "timestamp",
    "ntz": "timestamp_ntz",
    "dec": "decimal(9,2)",
    "x": "unknown",
    "a.b": "bigint",
}


def weakened(text, *, utc=True, double_quotes_name=False, moments=None):
    def resolve(parts):
        name = ".".join(parts).lower()
        return SparkColumn(tuple(name.split(".")), TYPES[name]) if name in TYPES else None

    def evaluate(expressions):
        return [(moments or {}).get(sql) for sql in expressions]

    condition = parse_condition(text, resolve, evaluate, utc=utc, double_quotes_name=double_quotes_name)
    return str(weaken(condition).predicate).replace('"', "")


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("i = 1", "i = 1"),
        ('I = 1L and `s` = "x"', "i = 1 AND s = 'x'"),
        ("5 > a.B", "a.b < 5"),
        ("NOT (i < 5 OR s LIKE 'k%')", "i >= 5 AND s NOT LIKE 'k%'"),
        ("NOT (i < 5 AND upper(s) = 'K')", "i >= 5 OR TRUE"),
        ("i BETWEEN 1 AND 2", "i >= 1 AND i <= 2"),
        ("i NOT BETWEEN 1 AND 2", "i < 1 OR i > 2"),
        ("i NOT IN (1, 2)", "i NOT IN (1, 2)"),
        ("i NOT IN (1, NULL)", "FALSE"),
        ("i IN (1, NULL)", "i IN (1)"),
        ("i IN (1, 2.5)", "TRUE"),
        ("NOT (i <=> 1)", "i <> 1 OR i IS NULL"),
        ("i IS NOT DISTINCT FROM NULL", "i IS NULL"),
        ("s LIKE 'k'", "s = 'k'"),
        ("s NOT LIKE 'k'", "s <> 'k'"),
        ("s LIKE 'a%b_c%%d'", "s LIKE '%b%' AND s LIKE '%c%' AND s LIKE 'a%' AND s LIKE '%d'"),
        ("s LIKE '_b'", "s LIKE '%b'"),
        ("s LIKE '%_'", "s IS NOT NULL"),
        ("s NOT LIKE '%b%'", "s NOT LIKE '%b%'"),
        ("s NOT LIKE '%b'", "s NOT LIKE '%b'"),
        ("s NOT LIKE 'a%b' OR s NOT LIKE '_b'", "s IS NOT NULL OR s IS NOT NULL"),
        ("s NOT LIKE '%'", "s IS NOT NULL"),
        ("s RLIKE 'a_b 1'", r"s LIKE '%a\_b 1%'"),
        ("s NOT RLIKE '^a-b/c' OR NOT (s REGEXP 'x')", "s NOT LIKE 'a-b/c%' OR s NOT LIKE '%x%'"),
        ("bo AND NOT bo", "bo = TRUE AND bo = FALSE"),
        ("bo IS NOT TRUE", "bo <> TRUE OR bo IS NULL"),
        ("d > double('NaN') OR d = double('NaN')", "FALSE OR d > CAST('inf' AS DOUBLE)"),
        ("d IN (1D, double('NaN'))", "d IN (1.0) OR d > CAST('inf' AS DOUBLE)"),
        ("d NOT IN (double('NaN'))", "d IS NOT NULL"),
        ("x IS NULL AND x = 1", "x IS NULL AND TRUE"),
    ],
)
def test_understood(text, expected):
    assert weakened(text) == expected


@pytest.mark.parametrize(
    "text",
    [
        "i = 'x'",
        "s = 1",
        "s LIKE 'a!%' ESCAPE '!'",
        "s RLIKE 'a.c'",
        "s RLIKE 'a$'",
        "s RLIKE '(?i)a'",
        "s RLIKE '[ab]'",
        "s RLIKE 'é'",
        "s RLIKE ''",
        "s RLIKE '^'",
        "s RLIKE i",
        "i RLIKE '1'",
        "rlike(s, 'a')",
        "`regexp_like` (s, 'a')",
        "regexp(s, 'a') AND i = 1",
        "s ILIKE 'a%'",
        "s NOT ILIKE 'a%'",
        "contains(s, 'a')",
        "startswith(s, 'a')",
        "endswith(s, 'a')",
        "like(s, 'a%')",
        "s LIKE ANY ('a%', 'b%')",
        "s LIKE 'a\N{REPLACEMENT CHARACTER}%'",
        "s = 'a' COLLATE UTF8_LCASE",
        "cast(i AS string) = '1'",
        "nope = 1",
        "i = l",
        "i + 1 = 2",
        "dec = 1D",
        "l = 9007199254740993D",
        "f = 16777217",
        "bo = 1",
        "dt = TIMESTAMP '2020-01-01'",
        "i IN (SELECT 1)",
        "s = 'a\\\\b'",
        "s = 'a' -- and more",
        "(",
        "i = 1 XOR i = 2",
        "exists(array(1), q -> q = i)",
    ],
)
def test_left_to_spark(text):
    assert weakened(text) == "TRUE"
    assert weakened(f"NOT ({text})") == "TRUE"


def test_double_quotes_depend_on_the_session():
    assert weakened('s = "i"') == "s = 'i'"
    assert weakened('s = "i"', double_quotes_name=True) == "TRUE"


def test_datetimes_are_evaluated_by_spark():
    asked = []

    def note(expressions):
        asked.extend(expressions)
        return [None] * len(expressions)

    parse_condition(
        "ts > '2020-01-01' AND ts < DATE '2020-02-01' AND ntz = TIMESTAMP '2020-01-01 10:00:00' "
        "AND dt = '2020-1-3' AND ts = TIMESTAMP 'now'",
        lambda parts: SparkColumn(parts, TYPES[parts[0]]),
        note,
        utc=True,
        double_quotes_name=False,
    )
    assert asked == [
        "unix_micros(try_cast('2020-01-01' AS timestamp_ltz))",
        "unix_micros(CAST(try_cast('2020-02-01' AS date) AS timestamp_ltz))",
        "unix_micros(try_cast('2020-01-01 10:00:00' AS timestamp_ltz))",
        "try_cast('2020-1-3' AS date)",
    ]


def test_times_of_a_zone_are_compared_with_a_margin():
    sql = "unix_micros(try_cast('2020-03-08 02:30:00' AS timestamp_ltz))"
    instant = dt.datetime(2020, 3, 8, 3, 30, tzinfo=dt.timezone.utc)
    moments = {sql: int(instant.timestamp()) * 1_000_000}
    text = "ntz {} TIMESTAMP '2020-03-08 02:30:00'"
    assert weakened(text.format("="), moments=moments) == "ntz = TIMESTAMP '2020-03-08 03:30:00'"
    day_before, day_after = "TIMESTAMP '2020-03-07 03:30:00'", "TIMESTAMP '2020-03-09 03:30:00'"
    for operator, expected in {
        "=": f"ntz < {day_after} AND ntz > {day_before}",
        "<>": "ntz IS NOT NULL",
        "<=": f"ntz < {day_after}",
        ">": f"ntz > {day_before}",
    }.items():
        assert weakened(text.format(operator), utc=False, moments=moments) == expected


def test_old_dates_are_uncertain():
    for year, expected in {1899: "TRUE", 1900: "dt < DATE '1900-12-31'"}.items():
        moments = {f"try_cast('{year}-12-31' AS date)": dt.date(year, 12, 31)}
        assert weakened(f"dt < DATE '{year}-12-31'", moments=moments) == expected


def test_nan_is_greater_than_every_number():
    schema = pa.schema({"d": pa.float64(), "i": pa.int64()})

    def nan_matches(bound):
        if isinstance(bound, BoundAnd):
            return all(map(nan_matches, bound.children))
        if isinstance(bound, BoundOr):
            return any(map(nan_matches, bound.children))
        return bound.or_nan

    for op, expected in {"=": False, "<>": True, "<": False, "<=": False, ">": True, ">=": True}.items():
        for value in (1, 1.5, float("inf"), 1e300):
            bound = spark_semantics(bind(Comparison("d", op, value), schema))
            assert nan_matches(bound) is expected
        whole = spark_semantics(bind(Comparison("i", op, 1), schema))
        assert isinstance(whole, BoundCompare)
        assert not whole.or_nan
