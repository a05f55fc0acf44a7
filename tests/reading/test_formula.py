"""A formula combines sets like its predicate, and finds all conditions whose disproof is relevant."""

from itertools import combinations

import numpy as np
import pyarrow as pa
from hypothesis import given
from hypothesis import strategies as st

from intarsia.predicate import BoundAnd, BoundCompare, BoundOr
from intarsia.predicate.bound import conjoin, disjoin
from intarsia.read.pruner import Formula, all_of, any_of, combine, conditions_of, where_exclusion_matters

NAMES = "abcde"
LEAVES = st.sampled_from([BoundCompare((name,), pa.int64(), "=", pa.scalar(1)) for name in NAMES])
JUNCTIONS = st.sampled_from([conjoin, disjoin])


def joined(inner):
    children = st.lists(inner, min_size=2, max_size=3)
    return st.builds(lambda put, children: put(children), JUNCTIONS, children)


PREDICATES = st.recursive(LEAVES, joined, max_leaves=8)


def value_of(node, values):
    if isinstance(node, BoundAnd):
        return all(value_of(child, values) for child in node.children)
    if isinstance(node, BoundOr):
        return any(value_of(child, values) for child in node.children)
    return values[node]


@given(PREDICATES, st.lists(st.booleans(), min_size=5, max_size=5))
def test_formula_equals_its_predicate(predicate, truths):
    formula = Formula(predicate)
    values = [np.array([truth]) for truth in truths[: len(formula.conditions)]]
    assert sorted(set(conditions_of(formula.root))) == list(range(len(formula.conditions)))
    expected = value_of(predicate, dict(zip(formula.conditions, truths, strict=False)))
    assert combine(formula.root, values, any_of, all_of)[0] == expected
    assert all_of([combine(term, values, any_of, all_of) for term in formula.terms])[0] == expected


@given(PREDICATES, st.lists(st.sampled_from(["no", "open", "stays"]), min_size=5, max_size=5))
def test_relevant_conditions_are_complete(predicate, states):
    formula = Formula(predicate)
    states = dict(zip(formula.conditions, states, strict=False))
    possible = [np.array([states[c] != "no"]) for c in formula.conditions]
    stays = [np.array([states[c] == "stays"]) for c in formula.conditions]
    counts = where_exclusion_matters(formula.root, np.array([True]), possible, stays)
    deniable = [c for c in formula.conditions if states[c] == "open"]
    for asked, count in zip(formula.conditions, counts, strict=True):
        assert not count[0] or asked in deniable
        others = [c for c in deniable if c != asked]
        for size in range(len(others) + 1) if asked in deniable else ():
            for denied in combinations(others, size):
                left = {c: states[c] != "no" and c not in denied for c in formula.conditions}
                if value_of(predicate, left) != value_of(predicate, left | {asked: False}):
                    assert count[0], (str(predicate), str(asked))
