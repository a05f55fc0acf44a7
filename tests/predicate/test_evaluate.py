"""evaluate(bind(p)) selects the same rows as the oracle, for every type, literal and layout."""

from __future__ import annotations

from decimal import Decimal

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from intarsia.arrow.comparison import comparison_array, comparison_type
from intarsia.predicate import (
    And,
    BoundIn,
    Comparison,
    In,
    IsNull,
    Like,
    Not,
    RegexpLike,
    bind,
    condition_mask,
    conditions,
    evaluate,
    parse_sql,
)
from tests.counting import calls
from tests.effort import examples
from tests.predicate import oracle, strategies


def check(node, columns):
    num_rows = len(next(iter(columns.values())))
    schema = pa.schema({name: array.type for name, array in columns.items()})
    bound = bind(node, schema)
    hash(bound)
    found = evaluate(bound, {(name,): array for name, array in columns.items()}, num_rows)
    assert found.type == pa.bool_()
    assert found.null_count == 0
    assert found.to_pylist() == oracle.selected(node, columns, num_rows), str(bound)
    for leaf in conditions(bound):
        assert leaf.type == comparison_type(schema.field(leaf.path[0]).type)
    return bound


@pytest.mark.parametrize("type_", strategies.TYPES, ids=str)
def test_one_column(type_):
    @settings(max_examples=examples(40), deadline=None)
    @given(st.data())
    def run(data):
        num_rows = data.draw(st.integers(0, 6))
        columns = {"x": data.draw(strategies.arrays(type_, num_rows))}
        check(data.draw(strategies.predicates({"x": type_})), columns)

    run()


@settings(max_examples=examples(150), deadline=None)
@given(st.data())
def test_columns_of_mixed_types(data):
    num_rows = data.draw(st.integers(0, 6))
    types = {name: data.draw(st.sampled_from(strategies.TYPES)) for name in "abc"}
    columns = {name: data.draw(strategies.arrays(type_, num_rows)) for name, type_ in types.items()}
    check(data.draw(strategies.predicates(types)), columns)


@pytest.mark.parametrize("type_", strategies.FLOATS, ids=str)
@pytest.mark.parametrize("negate", [False, True])
@pytest.mark.parametrize("op", ["=", "<>", "<", "<=", ">", ">="])
def test_or_nan_is_true_if_nan_matches(type_, negate, op):
    nan = pa.array([float("nan")], type_)
    for literal in (0.0, 0.1, 1e300, float("nan"), float("inf")):
        node = Comparison("x", op, literal)
        bound = bind(Not(node) if negate else node, pa.schema({"x": type_}))
        (or_nan,) = [leaf.or_nan for leaf in conditions(bound)] or [False]
        assert evaluate(bound, {("x",): nan}, 1).to_pylist() == [or_nan]


@pytest.mark.parametrize("type_", [*strategies.FLOATS, pa.dictionary(pa.int32(), pa.float64())], ids=str)
def test_floats_under_not(type_):
    values = [float("nan"), None, -0.0, 0.0, 0.5, 1.0, float("inf"), float("-inf")]
    array = strategies.make_array(type_, values)
    for literal in (
        -0.0,
        0.5,
        0.1,
        Decimal("0.1"),
        1,
        2**70,
        float("inf"),
        float("-inf"),
        float("nan"),
        None,
    ):
        for node in (
            *(Comparison("x", op, literal) for op in ("=", "<>", "<", "<=", ">", ">=")),
            In("x", (literal, 0.5)),
            In("x", (literal,), negated=True),
        ):
            check(node, {"x": array})
            check(Not(node), {"x": array})
            check(Not(Not(node)), {"x": array})


@settings(max_examples=examples(150), deadline=None)
@given(
    st.lists(st.none() | st.text("ab%_\\é\n.", max_size=5), max_size=8),
    st.lists(st.sampled_from(["a", "b", "é", "%", "_", "\\%", "\\_", "\\\\", "\n", "."]), max_size=5).map(
        "".join
    ),
    st.booleans(),
)
def test_like(texts, pattern, negated):
    check(Like("x", pattern, negated), {"x": pa.array(texts, pa.string())})


def test_like_matches_across_lines():
    array = pa.array(["a\nb", "a\n", "\n", "ab", None])
    for pattern in ("a%b", "a_b", "a_", "_", "%\n", "%_b"):
        check(Like("x", pattern), {"x": array})
        check(Like("x", pattern, negated=True), {"x": array})


def test_both_zeros_are_equal_and_nan_is_never_in_a_list():
    for type_ in strategies.FLOATS:
        array = pa.array([0.0, -0.0, float("nan"), 1.0, None], type_)
        for values in ((0.0, 2.0), (-0.0, 2.0), (0, 2, float("nan"))):
            check(In("x", values), {"x": array})
            check(In("x", values, negated=True), {"x": array})


def test_float32_is_widened_to_double():
    array = pa.array([0.1, 0.5, 1.0], pa.float32())
    for text, expected in {
        "x = 0.1": [False, False, False],
        "x > 0.1": [True, True, True],
        "x = CAST(0.1 AS FLOAT)": [True, False, False],
        "x = 0.5": [False, True, False],
    }.items():
        bound = bind(parse_sql(text), pa.schema({"x": pa.float32()}))
        assert evaluate(bound, {("x",): array}, 3).to_pylist() == expected, text


def test_run_end_encoded():
    array = pa.RunEndEncodedArray.from_arrays([2, 3], pa.array(["a", None]))
    bound = bind(Comparison("x", "=", "a"), pa.schema({"x": array.type}))
    assert evaluate(bound, {("x",): array}, 3).to_pylist() == [True, True, False]


def test_columns_that_are_all_null():
    schema = pa.schema({"x": pa.null()})
    array = pa.nulls(2)
    for node, expected in [
        (Comparison("x", "=", 1), False),
        (Not(Comparison("x", "=", 1)), False),
        (In("x", (1, "a")), False),
        (In("x", (1,), negated=True), False),
        (In("x", (), negated=True), True),
        (IsNull("x"), True),
        (IsNull("x", negated=True), False),
    ]:
        assert evaluate(bind(node, schema), {("x",): array}, 2).to_pylist() == [expected] * 2, node


def test_condition_mask_evaluates_distinct_values():
    (leaf,) = conditions(
        bind(parse_sql("x NOT IN ('a', 'b')"), pa.schema({"x": pa.dictionary(pa.int8(), pa.string())}))
    )
    assert condition_mask(leaf, pa.array(["a", "c", None])).to_pylist() == [False, True, False]
    assert condition_mask(leaf, pa.array([], pa.string())).to_pylist() == []
    assert condition_mask(leaf, pa.chunked_array([], pa.string())).to_pylist() == []


@pytest.mark.parametrize("function", ["lower", "upper"])
def test_functions_of_more_text_than_one_array_of_results_holds(function):
    """Arrow refuses an array whose results might not fit; most of this text is under nulls."""
    size = 800 << 20
    offsets = np.cumsum([0, size, 1, size, 1], dtype=np.int32)
    text = np.zeros(offsets[-1], dtype=np.uint8)
    text[offsets[[1, 3]]] = (ord("a"), ord("B"))
    buffers = (pa.py_buffer(bytes([0b1010])), pa.py_buffer(offsets), pa.py_buffer(text))
    values = pa.Array.from_buffers(pa.string(), 4, buffers)
    assert values.to_pylist() == [None, "a", None, "B"]
    (leaf,) = conditions(bind(parse_sql(f"{function}(x) IN ('a', 'B')"), pa.schema({"x": pa.string()})))
    is_lower = function == "lower"
    assert condition_mask(leaf, values).to_pylist() == [False, is_lower, False, not is_lower]


@pytest.mark.parametrize("type_", strategies.TYPES, ids=str)
def test_comparison_array_has_exactly_the_comparison_type(type_):
    array = strategies.make_array(type_, [None, None])
    wanted = comparison_type(type_)
    assert comparison_array(array, wanted).type == wanted
    assert comparison_array(pa.chunked_array([array]), wanted).type == wanted
    assert comparison_array(pa.chunked_array([], type_), wanted).type == wanted


def test_long_chains():
    node = And(tuple(Not(Comparison("x", "=", n)) for n in range(3000)))
    bound = bind(node, pa.schema({"x": pa.int64()}))
    assert evaluate(bound, {("x",): pa.array([5, 5000])}, 2).to_pylist() == [False, True]


CASES = [
    "",
    "a",
    "A",
    "k",
    "K",
    "\u212a",
    "s",
    "\u017f",
    "ß",
    "ẞ",
    "ss",
    "é",
    "É",
    "İ",
    "ı",
    "i",
    "I",
    "σ",
    "ς",
    "Σ",
]


@pytest.mark.parametrize("pattern", [*CASES, "%k", "_s%", "s%"])
def test_ilike_folds_case_as_re2_does(pattern):
    texts = [*CASES, *(one + two for one in CASES for two in CASES), None]
    for negated in (False, True):
        check(Like("x", pattern, negated, ignore_case=True), {"x": pa.array(texts)})


@settings(max_examples=examples(300), deadline=None)
@given(
    st.lists(st.none() | st.text("abBkK\u212aéÉ.(\n%", max_size=6), max_size=12),
    strategies.regexes(),
    st.booleans(),
    st.booleans(),
)
def test_regexp_like(texts, regex, negated, ignore_case):
    columns = {"x": pa.array(texts, pa.string())}
    check(RegexpLike("x", regex, negated, ignore_case), columns)
    check(Not(RegexpLike("x", regex, negated, ignore_case)), columns)


def test_a_regular_expression_is_searched_for():
    array = pa.array(["abc", "xabc", "ABC", "abc\n", "", None])
    for text, expected in {
        "x ~ 'b'": [True, True, False, True, False, False],
        "x !~ 'b'": [False, False, True, False, True, False],
        "x ~* 'b'": [True, True, True, True, False, False],
        "NOT x ~* 'b'": [False, False, False, False, True, False],
        "x ~ '^abc$'": [True, False, False, False, False, False],
        "x ~ '^abc'": [True, False, False, True, False, False],
        "x ~ ''": [True, True, True, True, True, False],
        "x !~ ''": [False] * 6,
        "x ~ '^x|A'": [False, True, True, False, False, False],
        "contains(x, 'bc')": [True, True, False, True, False, False],
        "starts_with(x, 'a')": [True, False, False, True, False, False],
        "ends_with(x, 'c')": [True, True, False, False, False, False],
        "NOT ends_with(x, 'c')": [False, False, True, True, True, False],
    }.items():
        bound = bind(parse_sql(text), pa.schema({"x": pa.string()}))
        assert evaluate(bound, {("x",): array}, 6).to_pylist() == expected, text


@pytest.mark.parametrize(
    "type_", [pa.int8(), pa.int16(), pa.uint32(), pa.int64(), pa.uint64(), pa.date32()], ids=str
)
@pytest.mark.parametrize("count", [100, 2_000])
def test_long_lists_of_integers(type_, count):
    """A table of hashes decides most rows. The result is that of a set, also at the limits and for nulls."""
    random = np.random.default_rng(count)
    width = type_.bit_width
    unsigned = pa.types.is_unsigned_integer(type_)
    low, high = (0, 2**width - 1) if unsigned else (-(2 ** (width - 1)), 2 ** (width - 1) - 1)
    kind = f"{'u' if unsigned else ''}int{width}"
    limits = np.array([low, high], kind)
    listed = np.unique(np.append(random.integers(low, high, count, kind, endpoint=True), limits))
    rows = random.integers(low, high, 6_000, kind, endpoint=True)
    rows[::50] = random.choice(listed, 120)
    rows[:2] = limits
    expected = np.isin(rows, listed)
    values = pa.array(rows).view(type_)
    for negated in (False, True):
        leaf = BoundIn(("x",), type_, pa.array(listed).view(type_), negated)
        assert (
            condition_mask(leaf, values).to_numpy(zero_copy_only=False).tolist()
            == (expected != negated).tolist()
        )
        absent = np.arange(len(rows)) % 7 == 0
        with_nulls = pa.array(rows, mask=absent).view(type_)
        assert (
            condition_mask(leaf, with_nulls).to_numpy(zero_copy_only=False).tolist()
            == ((expected != negated) & ~absent).tolist()
        )


def test_a_long_list_is_prepared_once():
    """Arrow builds a set for each batch. The table is built once for all of them."""
    leaf = BoundIn(("x",), pa.int64(), pa.array(range(0, 10**9, 10**6)))
    column = pa.chunked_array([np.random.default_rng(n).integers(0, 10**9, 2_000) for n in range(5)])
    found = condition_mask(leaf, column)
    assert found.to_pylist() == [value % 10**6 == 0 for value in column.to_pylist()]
    assert calls(lambda: condition_mask(leaf, column), of=pc.is_in) == 0
