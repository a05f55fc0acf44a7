"""Long lists are converted as whole arrays, with the same result as one literal at a time."""

from __future__ import annotations

import datetime as dt
import uuid
from decimal import Decimal

import numpy as np
import pyarrow as pa
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from intarsia.errors import PredicateError
from intarsia.predicate import And, BoundIn, Comparison, In, Or, bind, parse_sql
from intarsia.predicate.coercion import locate
from intarsia.predicate.sql import MAX_SQL_TOKENS
from intarsia.predicate.sql_literals import cut_lists, literal
from tests.counting import calls
from tests.effort import examples
from tests.predicate import strategies

UTC = dt.timezone.utc
NUMBERS = range(2_000)
START = dt.datetime(2020, 1, 1)

LONG = {
    "int64": (pa.int64(), list(NUMBERS)),
    "int8": (pa.int8(), list(NUMBERS)),
    "uint64": (pa.uint64(), [2**64 - 1 - n for n in NUMBERS]),
    "of numpy": (pa.int32(), list(np.arange(2_000))),
    "of pyarrow": (pa.timestamp("ns"), list(pa.array(NUMBERS, pa.timestamp("ns")))),
    "with NULL": (pa.int64(), [*NUMBERS, None]),
    "string": (pa.string(), [str(n) for n in NUMBERS]),
    "binary": (pa.binary(), [str(n) for n in NUMBERS]),
    "uuid": (pa.uuid(), [uuid.UUID(int=n) for n in NUMBERS]),
    "float64": (pa.float64(), [n / 8 for n in NUMBERS]),
    "float16": (pa.float16(), [n / 8 for n in NUMBERS]),
    "mixed numbers": (pa.float32(), [n / 2 if n % 2 else n for n in NUMBERS]),
    "written": (pa.float64(), [Decimal(n) / 10 for n in NUMBERS]),
    "decimal": (pa.decimal128(9, 2), [Decimal(n) / 100 for n in NUMBERS]),
    "date": (pa.date32(), [START.date() + dt.timedelta(n) for n in NUMBERS]),
    "naive": (pa.timestamp("s"), [START + dt.timedelta(hours=n) for n in NUMBERS]),
    "zoned": (
        pa.timestamp("us", "Europe/Zurich"),
        [START.replace(tzinfo=UTC) + dt.timedelta(n) for n in NUMBERS],
    ),
    "duration": (pa.duration("ms"), [dt.timedelta(n) for n in NUMBERS]),
}


def equalities(column, literals):
    return Or(tuple(Comparison(column, "=", literal) for literal in literals))


@pytest.mark.parametrize("name", LONG)
def test_a_long_list_is_not_converted_value_by_value(name):
    type_, literals = LONG[name]
    schema = pa.schema({"x": type_})
    bound = bind(In("x", literals), schema)
    assert isinstance(bound, BoundIn)
    assert bound.values.null_count == 0
    assert calls(lambda: bind(In("x", literals), schema), of=locate) == 0
    each = equalities("x", literals)
    assert bind(each, schema) == bound
    assert calls(lambda: bind(each, schema), of=locate) >= len(NUMBERS)


@pytest.mark.parametrize("type_", strategies.TYPES, ids=str)
def test_a_list_equals_its_values_joined_by_or(type_):
    schema = pa.schema({"x": type_})

    def bound_or_error(node):
        try:
            return bind(node, schema)
        except PredicateError as error:
            return type(error)

    @settings(max_examples=examples(60), deadline=None)
    @given(st.data())
    def run(data):
        other = data.draw(st.sampled_from(strategies.TYPES))
        literals = strategies.literals(type_) | st.none()
        if data.draw(st.booleans()):
            literals |= strategies.literals(other)
        values = tuple(data.draw(st.lists(literals, max_size=6)))
        assert bound_or_error(In("x", values)) == bound_or_error(equalities("x", values))

    run()


@pytest.mark.parametrize(
    "values",
    [[3, 1], {3, 1}, np.array([3, 1]), pa.array([3, 1]), pa.chunked_array([[3], [1]]), range(1, 4, 2)],
)
def test_what_a_list_may_be(values):
    schema = pa.schema({"x": pa.int64()})
    assert bind(In("x", values), schema) == bind(In("x", (1, 3)), schema)
    assert isinstance(In("x", values).values, tuple)


@pytest.mark.parametrize("values", ["abc", None, 5])
def test_one_value_is_not_a_list(values):
    with pytest.raises(PredicateError) as caught:
        In("x", values)
    assert (caught.value.reason, caught.value.column) == ("not-a-list", "x")


def test_long_text_is_rejected_before_it_is_parsed(monkeypatch):
    """Lists of plain literals, which sqlglot does not parse, have no limit."""
    schema = pa.schema({"x": pa.int64()})
    values = ", ".join(map(str, range(MAX_SQL_TOKENS)))
    assert len(bind(parse_sql(f"x IN ({values})"), schema).values) == MAX_SQL_TOKENS
    words = "word, " * MAX_SQL_TOKENS  # one literal
    assert parse_sql(f"x = '{words}'").value == words
    parsed = []
    monkeypatch.setattr("sqlglot.parse_one", lambda *_, **__: parsed.append(1))
    for long in (
        f"x IN ({values}, CAST('7' AS BIGINT))",
        " OR ".join(["x = 'a b'"] * (MAX_SQL_TOKENS // 4 + 1)),
        "(" * (MAX_SQL_TOKENS + 1),
    ):
        with pytest.raises(PredicateError) as caught:
            parse_sql(long)
        assert caught.value.reason == "predicate-too-long"
    assert not parsed


#: Lists in SQL text, and the values that they have.
WRITTEN = {
    "integers": (", ".join(map(str, range(-50, 50))), tuple(range(-50, 50))),
    "decimals": (" ,\n".join(["-1.50", "7"] * 20), (Decimal("-1.50"), 7) * 20),
    "texts": (",".join(["'it''s'", "'x IN (1, 2)'", "''", "'ö'"] * 9), ("it's", "x IN (1, 2)", "", "ö") * 9),
}


@pytest.mark.parametrize("name", WRITTEN)
def test_the_literals_of_a_long_list_are_not_parsed_one_by_one(name):
    written, values = WRITTEN[name]
    found = []
    assert calls(lambda: found.append(parse_sql(f"a.b IN ({written})")), of=literal) == 0
    assert found == [In("a.b", values)]
    both = parse_sql(f'y > 1 AND not (a.b in({written} )) OR "c in (1" = 2')
    assert both.children[0].children[1].child == In("a.b", values)
    assert parse_sql(f"a.b NOT IN ({written})") == In("a.b", values, negated=True)


def test_a_long_list_beside_parameters():
    values = tuple(range(30))
    text = f"x IN ({', '.join(map(str, values))}) AND s = :list"
    for value in ("a", "b"):
        assert parse_sql(text, {"list": value}) == And((In("x", values), Comparison("s", "=", value)))
    for named in (f"{text} OR s IN :list_1_of_30_literals", f"{text} OR s = list_1_of_30_literals"):
        with pytest.raises(PredicateError):
            parse_sql(named, {"list": "a"})


def test_a_list_inside_text_names_or_comments_is_not_a_list():
    written = f"x in ({', '.join(map(str, range(30)))})"
    values = tuple(range(30))
    assert parse_sql(f"s = '{written}'") == Comparison("s", "=", written)
    assert parse_sql(f'"{written}" = 1').op == "="
    assert parse_sql(f"y = 1 -- {written}") == parse_sql(f"y = 1 /* {written} /* */ {written} */")
    marked = parse_sql(f"{written} OR s IN ('list 1, of 30 literals')")
    assert marked == Or((In("x", values), In("s", ("list 1, of 30 literals",))))


@pytest.mark.parametrize("text", ["{0} AND AND y = 1", "y = 1 OR {0}) OR z = 2", "'{0}", "{0} OR z ="])
def test_errors_after_a_long_list_have_their_place_in_the_text(text):
    short, long = (text.format(f"x IN ({', '.join(map(str, range(count)))})") for count in (2, 300))
    errors = []
    for one in (short, long):
        with pytest.raises(PredicateError) as caught:
            parse_sql(one)
        errors.append(caught.value)
    assert errors[0].reason == errors[1].reason
    assert errors[0].near == errors[1].near
    from_the_end = [len(one) - error.position for one, error in zip((short, long), errors, strict=True)]
    assert from_the_end[0] == from_the_end[1] or errors[0].position == errors[1].position


def test_cutting_lists_is_linear():
    for text in (
        "x IN (" * 5_000,
        "/* " * 20_000,
        "x IN (" + "'a''" * 20_000,
        "IN (" + "1," * 14 + "x) " * 9,
    ):
        assert cut_lists(text).lists == {}
