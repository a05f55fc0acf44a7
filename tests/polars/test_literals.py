"""Literals of Polars' expressions are exact: random floats, and the columns that contain them."""

from __future__ import annotations

import operator

import numpy as np
import polars as pl
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import intarsia as ia
from intarsia.polars import scan
from tests.effort import examples

NAN, INFINITY = float("nan"), float("inf")
OPS = (operator.eq, operator.ne, operator.lt, operator.le, operator.gt, operator.ge)
X, F, NESTED = pl.col("x"), pl.col("f"), pl.col("s").struct.field("x")


def random_values(seed, number):
    """Doubles and 32-bit floats whose bits are random, and special values."""
    generator = np.random.default_rng(seed)
    special = [0.0, -0.0, 5e-324, -5e-324, 2.0**-1074 * 3, 1.5, 10.1 * 9, 0.1 + 0.2, NAN, INFINITY, -INFINITY]
    doubles = generator.integers(0, 2**64, number, dtype=np.uint64).view(np.float64)
    floats = generator.integers(0, 2**32, number, dtype=np.uint32).view(np.float32)
    plain = generator.random(number // 2)  # floats whose exponents are usual
    return [*special, *plain, *doubles[: number - len(plain) - len(special)]], floats


def rows_of(doubles, floats):
    return pa.table({"x": doubles, "f": floats, "s": [{"x": value} for value in doubles]})


@pytest.fixture(scope="module")
def opened(tmp_path_factory):
    path = tmp_path_factory.mktemp("floats") / "floats.parquet"
    pq.write_table(rows_of(*random_values(17, 300)), path, data_page_size=200, write_page_index=True)
    return ia.open(path)


@pytest.fixture(scope="module")
def everything(opened):
    return pl.DataFrame(opened.scan().to_arrow())


def conditions_on(value, other, narrow):
    """Conditions on doubles, 32-bit floats and fields of structs, with Python's and Polars' literals."""
    short = pl.lit(float(narrow), dtype=pl.Float32)
    for op in OPS:
        yield from (op(X, value), op(pl.lit(value), X), op(NESTED, value), op(F, short), op(X, short))
        yield op(F, float(narrow))
    for closed in ("both", "left", "right", "none"):
        yield X.is_between(min(value, other), max(value, other), closed=closed)
    yield from (X.is_in([value, other]), ~X.is_in([value, None]), F.is_in([float(narrow), 1.5]))
    yield from (X.is_in(pl.Series([value, other]).implode()), pl.lit(str(value)).cast(pl.Float64) == X)
    yield X.eq_missing(value) | F.ne_missing(float(narrow))


def rows_of_where(opened, condition):
    """The rows of a scan of Intarsia; None if the condition is refused."""
    try:
        return pl.DataFrame(opened.scan(condition).to_arrow())
    except ia.PredicateError as error:
        if error.reason != "polars-expression":
            raise
        return None


def check(opened, everything, condition):
    expected = everything.filter(condition)
    assert scan(opened).filter(condition).collect().equals(expected, null_equal=True)
    found = rows_of_where(opened, condition)
    assert found is None or found.equals(expected, null_equal=True)


@settings(max_examples=examples(60, deep=3_000))
@given(data=st.data())
def test_random_floats_are_found(opened, everything, data):
    rows = st.integers(0, everything.height - 1)
    value, other, narrow = (everything[column][data.draw(rows)] for column in ("x", "x", "f"))
    condition = data.draw(st.sampled_from(list(conditions_on(value, other, narrow))))
    check(opened, everything, condition)


@pytest.mark.parametrize("literal", [10.1 * 9, -0.0, 5e-324, -5e-324, 1.7976931348623157e308, 0.1 + 0.2])
@pytest.mark.parametrize("column", [X, NESTED], ids=["column", "field"])
def test_a_float_is_found_by_its_index(tmp_path, literal, column):
    values = [1e9 + number for number in range(50)]
    values[30] = literal
    pq.write_table(rows_of(values, np.zeros(50, np.float32)), tmp_path / "t.parquet", row_group_size=10)
    dataset = ia.open(tmp_path).dataset()
    assert scan(dataset).filter(column == literal).collect()["x"].to_list() == [literal]
    assert (dataset.last_report.rows_matched, dataset.last_report.row_groups_read) == (1, 1)


def test_every_random_double_is_found(tmp_path):
    """A third of them would be missed if the literal was off by one unit in the last place."""
    doubles, _ = random_values(5, examples(300, deep=3_000))
    pq.write_table(pa.table({"x": doubles}), tmp_path / "t.parquet")
    opened = ia.open(tmp_path)
    assert [value for value in doubles if not scan(opened).filter(X.eq(value)).collect().height] == []


@pytest.mark.parametrize("literal", [NAN, INFINITY, 1.5, -0.0])
@pytest.mark.parametrize("data_type", [pl.Float16, pl.Float32, pl.Float64])
def test_literals_of_each_float_type(opened, everything, literal, data_type):
    for op in OPS:
        check(opened, everything, op(X, pl.lit(literal, dtype=data_type)))
        check(opened, everything, op(F, pl.lit(literal, dtype=data_type)))
