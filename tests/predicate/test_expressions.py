"""pyarrow expressions select the same rows as pyarrow's own filter, or are refused with the faulty part."""

from __future__ import annotations

import datetime as dt
import functools
import math
import operator
from decimal import Decimal

import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.dataset as ds
import pyarrow.parquet as pq
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import intarsia as ia
from intarsia.predicate import And, Comparison, In, bind, evaluate, parse_expression, parse_predicate
from tests.effort import examples

UTC = dt.timezone.utc
NAN = float("nan")


def moments(values, data_type):
    return pa.array([None if value is None else dt.datetime(2020, 1, value) for value in values], data_type)


TABLE = pa.table(
    {
        "i": pa.array([1, 2, None, -5, 7, 2], pa.int32()),
        "u": pa.array([0, 255, 3, None, 7, 1], pa.uint8()),
        "f": pa.array([0.5, NAN, None, -1.0, 7.0, math.inf]),
        "h": pa.array([0.5, NAN, None, -1.0, 7.0, 0.0], pa.float32()),
        "s": pa.array(["ab", "", None, "b%", "éA", "a\nb"]),
        "l": pa.array(["ab", "", None, "b%", "éA", "'"], pa.large_string()),
        "k": pa.array(["x", "y", None, "x", "z", "y"]).dictionary_encode(),
        "y": pa.array([b"a", b"\xff", None, b"", b"ab", b"a"]),
        "d": pa.array([dt.date(2020, 1, day) for day in (1, 2, 3)] + [None, None, dt.date(1960, 1, 1)]),
        "t": moments([1, 2, 3, None, None, 9], pa.timestamp("us", "UTC")),
        "w": moments([1, 2, 3, None, None, 9], pa.timestamp("ns")),
        "p": pa.array([1, 2, None, 3, 0, -1], pa.duration("s")),
        "n": pa.array(
            [Decimal("1.50"), Decimal("0.00"), None, Decimal("-7.25"), None, Decimal("9")],
            pa.decimal128(5, 2),
        ),
        "b": pa.array([True, False, None, True, None, False]),
        "a.b": pa.array([1, None, 3, 4, 5, 6]),
        "r": pa.array([{"x": 1, "y": {"z": "a"}}, None, {"x": None, "y": None}] * 2),
    }
)
FIELDS = {name: pc.field(name) for name in TABLE.column_names if name != "r"}
FIELDS |= {"r.x": pc.field("r", "x"), "r.y.z": pc.field(("r", "y", "z"))}
WORDS = ["ab", "", "b", "b%", "éA", "a", "'", "%", "a\nb"]
LITERALS = {
    "i": [1, 2, 3, -5],
    "u": [0, 7, 255],
    "f": [0.5, -1.0, 7.0, NAN, math.inf],
    "h": [0.5, -1.0, 7.0, NAN],
    "s": WORDS,
    "l": WORDS,
    "k": ["x", "y", "q"],
    "y": [b"a", b"\xff", b""],
    "d": [dt.date(2020, 1, 2), dt.date(1960, 1, 1)],
    "t": [dt.datetime(2020, 1, 2, tzinfo=UTC), dt.datetime(2020, 1, 5, tzinfo=UTC)],
    "w": [dt.datetime(2020, 1, 2), pa.scalar(1577836800000000000, pa.timestamp("ns"))],
    "p": [dt.timedelta(seconds=2), dt.timedelta(0)],
    "n": [Decimal("1.50"), Decimal("-7.25")],
    "b": [True, False],
    "a.b": [1, 4],
    "r.x": [1, 2],
    "r.y.z": ["a", "b"],
}
MIDNIGHTS = [dt.datetime(2020, 1, 1), dt.datetime(2020, 1, 2)]
FUNCTIONS = [
    *((function(FIELDS[name]), WORDS) for name in "sl" for function in (pc.utf8_lower, pc.utf8_upper)),
    *((pc.utf8_slice_codeunits(FIELDS["s"], *ends), WORDS) for ends in ((0, 1), (1, 2), (0, 0), (1,))),
    (pc.utf8_length(FIELDS["s"]), [0, 1, 2]),
    (pc.utf8_lower(FIELDS["k"].cast("string")), ["x", "y"]),
    *((pc.year(FIELDS[name]), [1960, 2020, 2021]) for name in "dtw"),
    *((pc.day(FIELDS[name]), [1, 2, 9]) for name in "dtw"),
    *((pc.hour(FIELDS[name]), [0, 1]) for name in "tw"),
    *((FIELDS[name].cast(pa.date32()), [dt.date(2020, 1, 2), dt.date(2020, 1, 3)]) for name in "tw"),
    *((pc.floor_temporal(FIELDS["w"], unit=unit), MIDNIGHTS) for unit in ("month", "week", "year", "day")),
    (FIELDS["i"].cast("string"), ["1", "-5", "02"]),
    (FIELDS["b"].cast("string"), ["true", "false", "1"]),
    (FIELDS["i"].cast("int64"), [1, 2]),
    (FIELDS["i"].cast("double"), [1.5, 2.0]),
    (pc.abs_checked(FIELDS["i"]), [5, 2, -1]),
    (pc.abs_checked(FIELDS["f"]), [0.5, 1.0, -1.0]),
    (pc.month(FIELDS["d"].cast("date32")), [1]),
]
LIST_TYPES = {"w": pa.timestamp("ns"), "t": pa.timestamp("us", "UTC"), "n": pa.decimal128(5, 2)}
TEXTS = ["s", "l", "r.y.z"]
OPS = [operator.eq, operator.ne, operator.lt, operator.le, operator.gt, operator.ge]


def listed(name):
    """Values of a list, which may hold null; pyarrow finds no value in a list of booleans with a null."""
    return st.lists(st.sampled_from(LITERALS[name]) | st.none(), max_size=3)


@st.composite
def conditions(draw):
    name = draw(st.sampled_from(sorted(FIELDS)))
    column = FIELDS[name]
    kinds = [
        "compare",
        "mirrored",
        "in",
        "null",
        "text",
        "boolean",
        "nan",
        "constant",
        "function",
        "function",
    ]
    kind = draw(st.sampled_from(kinds))
    if kind == "function":
        function, values = draw(st.sampled_from(FUNCTIONS))
        value, op = draw(st.sampled_from(values)), draw(st.sampled_from(OPS))
        return draw(st.sampled_from([op(function, value), function.isin([value]), function.is_null()]))
    value = draw(st.sampled_from(LITERALS[name]))
    if kind == "compare":
        return draw(st.sampled_from(OPS))(column, value)
    if kind == "mirrored":
        return draw(st.sampled_from(OPS))(pc.scalar(value), column)
    if kind == "in":
        data_type = LIST_TYPES.get(name) or pa.array(LITERALS[name]).type
        return pc.is_in(
            column, value_set=pa.array(draw(listed(name)), data_type), skip_nulls=draw(st.booleans())
        )
    if kind == "null":
        return draw(
            st.sampled_from([column.is_null(), column.is_valid(), FIELDS["f"].is_null(nan_is_null=True)])
        )
    if kind == "text":
        column = FIELDS[draw(st.sampled_from(TEXTS))]
        function = draw(st.sampled_from([pc.starts_with, pc.ends_with, pc.match_substring, pc.match_like]))
        return function(column, draw(st.sampled_from(WORDS)), ignore_case=draw(st.booleans()))
    if kind == "boolean":
        return FIELDS["b"]
    if kind == "nan":
        return FIELDS[draw(st.sampled_from(["f", "h"]))].is_nan()
    return pc.scalar(draw(st.sampled_from([True, False])))


EXPRESSIONS = st.recursive(
    conditions(),
    lambda inner: (
        st.builds(operator.and_, inner, inner)
        | st.builds(operator.or_, inner, inner)
        | st.builds(operator.invert, inner)
    ),
    max_leaves=6,
)


def our_rows(table, predicate):
    bound = bind(predicate, table.schema)
    columns = {}
    for path in bound.paths():
        values = table[path[0]].combine_chunks()
        columns[path] = functools.reduce(pc.struct_field, path[1:], values)
    return evaluate(bound, columns, table.num_rows).to_pylist()


def numbered(table):
    return table.append_column("row", pa.array(range(table.num_rows)))


def rows_by_pyarrow(table, expression):
    kept = set(numbered(table).filter(expression)["row"].to_pylist())
    return [row in kept for row in range(table.num_rows)]


@given(EXPRESSIONS)
@settings(max_examples=examples(1200), deadline=None)
def test_the_same_rows_as_pyarrow(expression):
    assert our_rows(TABLE, parse_expression(expression)) == rows_by_pyarrow(TABLE, expression)


@given(EXPRESSIONS)
@settings(max_examples=examples(200), deadline=None)
def test_the_predicate_renders_as_sql_text(expression):
    predicate = parse_expression(expression)
    assert our_rows(TABLE, parse_predicate(str(predicate))) == our_rows(TABLE, predicate)


@pytest.fixture(scope="module")
def path(tmp_path_factory):
    path = tmp_path_factory.mktemp("expressions") / "t.parquet"
    pq.write_table(pa.table({"x": range(1000), "s": ["a", "b"] * 500}), path, row_group_size=100)
    return path


@pytest.mark.parametrize("module", [pc, ds])
def test_every_query_takes_expressions(path, module):
    table = ia.open(path)
    where = (module.field("x") >= 10) & (module.field("x") < 20) & module.field("s").isin(["a"])
    found = table.scan(where, columns=["x"])
    assert found.to_arrow()["x"].to_pylist() == [10, 12, 14, 16, 18]
    assert found.report.row_groups_read == 1
    assert table.count(where) == 5
    assert table.aggregate({"x": ["sum"]}, where=where) == {"x": {"sum": 70}}
    assert [split.num_rows for split in table.plan(where)] == [100]
    assert table.explain(where).row_groups_read == 1
    assert table.approx_distinct("x", where).estimate == pytest.approx(5)


@pytest.mark.parametrize(
    ("expression", "sql"),
    [
        (pc.field("x") == 1, "x = 1"),
        (pc.scalar(5) <= pc.field("x"), "x >= 5"),
        ((pc.field("x") >= 1) & (pc.field("x") <= 3), "x BETWEEN 1 AND 3"),
        (pc.field("s").isin(["a", "b'c"]), "s IN ('a', 'b''c')"),
        (pc.field("s").is_valid() | (pc.field("x") != 2.5), "s IS NOT NULL OR x <> 2.5"),
        (~pc.field("ok"), "NOT (ok)"),
        (pc.starts_with(pc.field("s"), "a_"), r"s LIKE 'a\_%'"),
        (pc.match_like(pc.field("s"), "a%", ignore_case=True), "s ILIKE 'a%'"),
        (pc.match_substring_regex(pc.field("s"), "^a+$"), "s RLIKE '^a+$'"),
        (pc.field("a", "b") == 1, '"a"."b" = 1'),
        (pc.struct_field(pc.field("a"), "b") == 1, '"a"."b" = 1'),
        (pc.field("d") > dt.date(2020, 1, 31), "d > DATE '2020-01-31'"),
        (pc.field("x") == pa.scalar(None, pa.int64()), "x = NULL"),
        (pc.field('odd "name"\n') == 1, '"odd ""name""\n" = 1'),
    ],
)
def test_the_same_predicate_as_sql_text(expression, sql):
    assert parse_predicate(expression) == parse_predicate(sql)


def test_a_name_with_a_dot_is_a_name():
    """SQL text falls back to a path; an expression names a column."""
    schema = pa.schema({"a": pa.struct({"b": pa.int64()})})
    with pytest.raises(ia.ColumnNotFoundError) as caught:
        bind(parse_predicate(pc.field("a.b") == 1), schema)
    assert caught.value.column == "a.b"


def test_chains_and_lists_of_any_length():
    terms = [pc.field("x") == value for value in range(5_000)]
    for op in (operator.or_, operator.and_):
        assert len(parse_predicate(functools.reduce(op, terms)).children) == 5_000
        backwards = functools.reduce(lambda right, left: op(left, right), reversed(terms))
        assert [child.value for child in parse_predicate(backwards).children] == list(range(5_000))
    values = list(range(200_000))
    assert parse_predicate(pc.field("x").isin(values)) == In("x", tuple(values))


def test_a_list_of_moments_is_exact():
    values = pa.array([1, 2], pa.timestamp("ns", "UTC"))
    (first, second) = parse_predicate(pc.field("t").isin(values)).values
    assert (first.value, second.value, first.type) == (1, 2, values.type)


@pytest.mark.parametrize(
    ("expression", "part", "column"),
    [
        (pc.field("x").cast("float32") == 3, "cast(x)", "x"),
        (pc.field("x").cast("int8", safe=False) == 3, "cast(x)", "x"),  # 259 becomes 3
        (pc.abs(pc.field("x")) == 3, "abs(x)", "x"),
        (pc.floor_temporal(pc.field("t"), multiple=2) == 3, "floor_temporal(t)", "t"),
        (pc.year(pc.field("t")) == pc.month(pc.field("t")), "equal(year(t), month(t))", "t"),
        (pc.field("x") + 1 == 2, "add_checked(x, 1)", "x"),
        ((pc.field("x") == 1) & (pc.utf8_title(pc.field("s")) == "a"), "utf8_title(s)", "s"),
        (pc.field("x") == pc.field("y"), "equal(x, y)", "x"),
        (pc.xor(pc.field("a"), pc.field("b")), "xor(a, b)", "a"),
        (pc.and_(pc.field("a"), pc.field("b")), "(a, b)", "a"),
        (pc.if_else(pc.field("a"), True, False), "if_else(a, TRUE, FALSE)", "a"),
        (pc.scalar(1) == pc.scalar(2), "equal(1, 2)", None),
        (pc.struct_field(pc.field("a"), [0]) == 1, "struct_field(a)", "a"),
        (pc.field("x").is_null() == True, "equal((x IS NULL), TRUE)", None),  # noqa: E712
        (pc.scalar(5), "5", None),
        (pc.field(0) == 1, "pc.field('x')", None),
    ],
)
def test_refusals_name_the_part(expression, part, column):
    with pytest.raises(ia.PredicateError) as caught:
        parse_predicate(expression)
    assert (caught.value.reason, caught.value.column) == ("unsupported-expression", column)
    assert part in str(caught.value)
    assert ";" in str(caught.value)


def test_nodes_of_an_expression_are_exact():
    expression = (pc.field("x") == 1) & (pc.field("y") > 2) & (pc.field("z") < 3)
    assert parse_predicate(expression) == And(
        (Comparison("x", "=", 1), Comparison("y", ">", 2), Comparison("z", "<", 3))
    )
