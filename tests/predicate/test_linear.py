"""The cost of a predicate is linear in its terms, counted in function calls."""

from __future__ import annotations

import pyarrow as pa
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from intarsia.errors import ColumnNotFoundError, PredicateError
from intarsia.predicate import (
    And,
    BoundIn,
    Comparison,
    In,
    IsNull,
    Not,
    Or,
    bind,
    conditions,
    evaluate,
    parse_filters,
    parse_predicate,
    parse_sql,
    resolve_column,
)
from intarsia.predicate.bound import BoundCompare, ascending
from intarsia.predicate.sql import MAX_SQL_TOKENS
from tests.counting import calls
from tests.effort import examples
from tests.predicate import oracle, strategies

SCHEMA = pa.schema({f"c{n}": pa.int64() for n in range(20)} | {"x": pa.int64(), "y": pa.string()})
COLUMNS = {("x",): pa.array([0, 7, None]), ("y",): pa.array(["a", None, "7"])}

FORMS = {
    "equalities": lambda n: " OR ".join(f"x = {i}" for i in range(n)),
    "inequalities": lambda n: " AND ".join(f"x <> {i}" for i in range(n)),
    "ranges": lambda n: " OR ".join(f"x BETWEEN {i} AND {i + 1}" for i in range(n)),
    "pairs": lambda n: " OR ".join(f"(x = {i} AND y = '{i}')" for i in range(n)),
    "lists": lambda n: " OR ".join(f"x IN ({i}, {i + 1})" for i in range(n)),
    "alternating": lambda n: " OR ".join(f"x = {i} OR y = '{i}'" for i in range(n)),
    "negated": lambda n: "NOT (" + " OR ".join(f"x = {i} AND y < '{i}'" for i in range(n)) + ")",
    "filters": lambda n: [[("x", "=", i), ("y", "in", ["a", str(i)])] for i in range(n)],
    "chained": lambda n: _chain([Comparison("x", "<", i) for i in range(n)]),
}


def _chain(terms):
    """Alternate a OR (b OR (c OR …)) and ((… OR b) OR c)."""
    node = terms[0]
    for number, term in enumerate(terms[1:]):
        node = Or((node, term)) if number % 2 else Not(And((Not(term), Not(node))))
    return node


@pytest.mark.parametrize("form", FORMS)
def test_twice_the_terms_are_twice_the_work(form):
    def cost(terms):
        where = FORMS[form](terms)
        node = parse_predicate(where)
        bound = bind(node, SCHEMA)
        return {
            "parse": calls(lambda: parse_predicate(where)),
            "bind": calls(lambda: bind(node, SCHEMA)),
            "hash": calls(lambda: hash(bound)),
            "print": calls(lambda: str(bound)),
            "leaves": calls(lambda: list(conditions(bound))),
            "evaluate": calls(lambda: evaluate(bound, COLUMNS, 3)),
        }

    cost(10)  # fills the caches
    few, many = cost(200), cost(400)
    assert {step: many[step] for step in many if many[step] > 2.1 * few[step] + 100} == {}


class CountedFields:
    """A schema that counts look-ups, and the fields that are made: the cost of a look at all columns."""

    def __init__(self, schema):
        self._schema = schema
        self.made = 0

        self.looked_up = 0

    def field(self, ordinal):
        self.made += 1
        return self._schema.field(ordinal)

    def get_all_field_indices(self, name):
        self.looked_up += 1
        return self._schema.get_all_field_indices(name)

    def __len__(self):
        return len(self._schema)

    def __getattr__(self, name):
        return getattr(self._schema, name)


@pytest.mark.parametrize("name", ["x", "s.x", ("s", "x")])
def test_a_name_is_found_without_a_look_at_all_columns(name):
    schema = CountedFields(SCHEMA.append(pa.field("s", pa.struct({"x": pa.int8()}))))
    assert resolve_column(schema, name).path[-1] == "x"
    assert schema.made == 1


DOTS = pa.schema({"x": pa.struct({"a": pa.struct({"a.a": pa.int8()})}), "x.a": pa.int8(), "y": pa.int8()})


@pytest.mark.parametrize("column", ["x" + ".a" * 20_000, ("x",) + ("a",) * 20_000], ids=["dotted", "path"])
def test_a_name_of_many_parts_takes_few_look_ups(column):
    """Each run of parts would be joined, so that a name of 64 kB took seconds."""

    schema = CountedFields(DOTS)
    with pytest.raises(ColumnNotFoundError) as caught:
        resolve_column(schema, column)
    assert caught.value.reason == "no-such-column"
    assert len(str(caught.value)) < 500 < len(caught.value.column)
    assert schema.looked_up <= 2


def test_names_with_dots_are_found():
    inner = pa.struct({"c." * 20 + "d": pa.int16(), "c": pa.struct({"c" + ".c" * 18: pa.int8()})})
    schema = pa.schema({"a.b": inner, "a" + ".b" * 30: pa.int64()})
    assert resolve_column(schema, "a.b." + "c." * 20 + "d").path == ("a.b", "c." * 20 + "d")
    assert resolve_column(schema, "a.b" + ".c" * 20).path == ("a.b", "c", "c" + ".c" * 18)
    assert resolve_column(schema, "a" + ".b" * 30).type == pa.int64()


def test_the_parts_of_a_name_are_tokens():
    with pytest.raises(PredicateError) as caught:
        parse_sql("x" + ".a" * MAX_SQL_TOKENS + " = 1")
    assert caught.value.reason == "predicate-too-long"


def test_text_of_thousands_of_levels():
    def nested(levels):
        node = Comparison("x", "=", 1)
        for level in range(levels):
            node = Not(node) if level % 3 == 2 else (And, Or)[level % 2]((node, Comparison("y", "=", "a")))
        return node

    few, many = nested(3_000), nested(6_000)
    assert str(many).count("y = 'a'") == repr(many).count("'a'") == 4_000
    assert str(parse_sql(str(nested(8)))) == str(nested(8))
    assert repr(eval(repr(nested(9)))) == repr(nested(9))
    assert calls(lambda: str(many)) < 2.1 * calls(lambda: str(few))
    assert calls(lambda: repr(many)) < 2.1 * calls(lambda: repr(few))
    with pytest.raises(PredicateError) as caught:
        bind(many, SCHEMA)
    assert caught.value.reason == "nested-too-deeply"


def test_each_name_is_looked_up_once():
    predicate = parse_sql(FORMS["pairs"](100))
    assert calls(lambda: bind(predicate, SCHEMA), of=resolve_column) == 2


@pytest.mark.parametrize("form", ["equalities", "inequalities", "ranges", "pairs"])
def test_thousands_of_terms(form):
    """More than Python's limit of recursion."""
    bound = bind(parse_sql(FORMS[form](1_500)), SCHEMA)
    assert (
        evaluate(bound, COLUMNS, 3).to_pylist()
        == {
            "equalities": [True, True, False],
            "inequalities": [False, False, False],
            "ranges": [True, True, False],
            "pairs": [False, False, False],
        }[form]
    )
    assert isinstance(bound, BoundIn) is ("equalities" in form)


def test_filters_of_one_column_are_one_list():
    bound = bind(parse_filters([[("x", "=", i)] for i in range(600)]), SCHEMA)
    assert bound == BoundIn(("x",), pa.int64(), pa.array(range(600)))


@pytest.mark.parametrize("type_", strategies.TYPES, ids=str)
def test_joined_terms_select_what_each_of_them_selects(type_):
    """Compare with each term on its own and with the oracle, which does not merge terms."""

    @settings(max_examples=examples(40), deadline=None)
    @given(st.data())
    def run(data):
        literals = strategies.literals(type_)
        term = (
            st.builds(Comparison, st.just("x"), st.sampled_from(["=", "=", "<>", "<>", ">="]), literals)
            | st.builds(In, st.just("x"), st.lists(literals, max_size=3).map(tuple), st.booleans())
            | st.builds(IsNull, st.just("x"), st.booleans())
        )
        terms = data.draw(st.lists(term | term.map(Not), min_size=2, max_size=6))
        array = data.draw(strategies.arrays(type_, 6))
        schema = pa.schema({"x": type_})
        alone = [evaluate(bind(one, schema), {("x",): array}, 6).to_pylist() for one in terms]
        for node, together in ((Or(tuple(terms)), any), (And(tuple(terms)), all)):
            bound = bind(node, schema)
            assert evaluate(bound, {("x",): array}, 6).to_pylist() == list(map(together, zip(*alone)))  # noqa: B905
            assert oracle.selected(node, {"x": array}, 6) == list(map(together, zip(*alone)))  # noqa: B905
            found = list(conditions(bound))
            negated = together is all
            lists = [leaf for leaf in found if isinstance(leaf, BoundIn) and leaf.negated is negated]
            singles = [
                leaf
                for leaf in found
                if isinstance(leaf, BoundCompare) and leaf.op == ("<>" if negated else "=")
            ]
            assert len(lists) + len(singles) <= 1
            for leaf in lists:
                assert leaf.values.type == leaf.type
                assert leaf.values.equals(ascending(leaf.values))
                assert len(leaf.values) == len(set(leaf.values)) > 1

    run()
