"""The folds over AND and OR: order, NOT, depth and cost."""

import functools

import pyarrow as pa
import pytest

from intarsia.errors import PredicateError
from intarsia.predicate import And, BoundAnd, BoundNull, BoundOr, Comparison, Not, Or, bind, parse_sql
from intarsia.predicate.bound import fold, renamed
from intarsia.predicate.nodes import fold_nodes
from tests.counting import calls

SCHEMA = pa.schema({"x": pa.int64(), "y": pa.string()})


def text(leaf, negated=False):
    return f"~{leaf.column}" if negated else leaf.column


def joined(word):
    return lambda parts: f"({word.join(parts)})"


def test_not_is_pushed_to_the_leaves_and_nested_ands_are_one():
    a, b, c = (Comparison(name, "=", 1) for name in "abc")
    tree = Not(Or((a, Or((Not(b), And((c, a)))))))
    assert fold_nodes(tree, text, joined("&"), joined("|")) == "(~a&b&(~c|~a))"


def test_no_children_are_joined_too():
    assert fold_nodes(Or((And(()), Not(And(())))), text, all, any) is True
    assert fold_nodes(Not(Not(Or(()))), text, all, any) is False


def test_any_depth():
    tree = Comparison("x", "=", 1)
    bound = BoundNull(("x",), pa.int64())
    for level in range(20_000):
        tree = (And, Or)[level % 2]((tree, Not(tree) if level == 0 else Comparison("y", "=", "a")))
        bound = (BoundAnd, BoundOr)[level % 2]((bound, BoundNull(("y",), pa.string())))
    assert fold_nodes(tree, lambda leaf, negated: 1, sum, sum) == 20_001
    assert fold(bound, lambda leaf: 1, sum, sum) == 20_001
    assert fold(renamed(bound, lambda path: ("z",)), lambda leaf: {leaf.path}, _union, _union) == {("z",)}
    with pytest.raises(PredicateError, match="the limit is 7 levels"):
        fold_nodes(tree, lambda leaf, negated: 1, sum, sum, max_levels=7)


def _union(sets):
    return set().union(*sets)


def test_values_are_joined_in_batches():
    bound = bind(parse_sql(" OR ".join(f"(x > {n} AND y = '{n}')" for n in range(5))), SCHEMA)
    sizes = []

    def joined_sizes(values):
        sizes.append(len(values))
        return sum(values)

    assert fold(bound, lambda leaf: 1, joined_sizes, joined_sizes, batch=2) == 10
    assert max(sizes) == 2


def test_a_thousand_terms_take_a_call_each():
    def cost(terms):
        bound = bind(parse_sql(" OR ".join(f"(x > 3 AND y = '{n}')" for n in range(terms))), SCHEMA)
        asked = []
        leaf = functools.cache(lambda leaf: asked.append(leaf) or 1)
        made = calls(lambda: fold(bound, leaf, sum, sum))
        assert len(asked) == terms + 1  # `x > 3` once
        return made

    assert cost(1_000) < 2.1 * cost(500)
