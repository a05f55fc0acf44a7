"""Random filters through DuckDB, DataFusion and Polars: they find the same rows as without Intarsia."""

from __future__ import annotations

import datetime as dt
import functools
import math
import random
from decimal import Decimal

import datafusion
import duckdb
import polars as pl
import pyarrow as pa
import pyarrow.dataset as ds
import pyarrow.parquet as pq
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import intarsia as ia
from intarsia.polars import scan
from tests.effort import examples
from tests.lake.index.lakes import write

NAN, INFINITY = float("nan"), float("inf")
NUM_ROWS = 60
UTC = dt.timezone.utc
DAYS = [dt.date(1969, 12, 31), dt.date(2020, 2, 29), dt.date(2020, 3, 1), dt.date(9999, 12, 31)]
MOMENTS = [dt.datetime(1969, 12, 31, 23, 59, 59, 999_999), *(dt.datetime(2020, 2, n, 12) for n in (1, 2, 29))]
WORDS = ["", "a", "ab", "a'b", "b%", "é", "a text of more than twelve bytes", "z"]
FLOATS = [0.0, -0.0, 0.1, 10.1 * 9, -1.5, 1e300, 5e-324, INFINITY, -INFINITY]
DECIMALS = [Decimal("0.00"), Decimal("-1.25"), Decimal("10.10"), Decimal("99999.99")]

#: The values of each column, and its type in files.
COLUMNS = {
    "i": ([-(2**31), -1, 0, 1, 2, 3, 2**31 - 1], pa.int32()),
    "j": ([-(2**63), -1, 0, 2**53 + 1, 2**63 - 1], pa.int64()),
    "f": (FLOATS, pa.float64()),
    "g": ([0.0, -0.0, 0.5, -1.5, INFINITY], pa.float32()),
    "s": (WORDS, pa.string()),
    "v": (WORDS, pa.string_view()),
    "c": (WORDS, pa.dictionary(pa.int32(), pa.string())),
    "b": ([True, False], pa.bool_()),
    "d": (DAYS, pa.date32()),
    "t": (MOMENTS, pa.timestamp("us")),
    "z": ([moment.replace(tzinfo=UTC) for moment in MOMENTS], pa.timestamp("us", "UTC")),
    "m": (DECIMALS, pa.decimal128(9, 2)),
}
FLOATING = ("f", "g")


def made_rows(generator):
    """Rows of random values, of which some are null, and some NaN; ``r`` is a struct of some columns."""
    columns = {}
    for name, (values, data_type) in COLUMNS.items():
        pool = [*values, None, *([NAN] if name in FLOATING else [])]
        chosen = [pool[generator.randrange(len(pool))] for _ in range(NUM_ROWS)]
        columns[name] = pa.array(chosen, data_type)
    inner = pa.StructArray.from_arrays([columns["i"], columns["s"]], ["i", "s"])
    columns["r"] = pa.StructArray.from_arrays([inner, columns["f"]], ["q", "f"])
    return pa.table({"n": pa.array(range(NUM_ROWS)), **columns})


def text(name, value):
    """A literal as SQL text that the engines read exactly and with the type of the column."""
    if isinstance(value, float):
        shown = repr(value) if math.isfinite(value) else str(value)
        return f"CAST('{shown}' AS {'REAL' if name == 'g' else 'DOUBLE'})"
    if isinstance(value, str):
        return "'" + value.replace("'", "''") + "'"
    if isinstance(value, dt.datetime):
        kind = "TIMESTAMPTZ" if value.tzinfo else "TIMESTAMP"
        return f"CAST('{value.isoformat(sep=' ')}' AS {kind})"
    if isinstance(value, dt.date):
        return f"CAST('{value}' AS DATE)"
    if isinstance(value, Decimal):
        return f"CAST('{value}' AS DECIMAL(9, 2))"
    return str(value)


@st.composite
def conditions(draw):
    """Conditions as a tuple of a column, a kind and literals."""
    name = draw(st.sampled_from([*COLUMNS, "r.q.i", "r.q.s", "r.f"]))
    values, _ = COLUMNS[name.rsplit(".", maxsplit=1)[-1]]
    literal = st.sampled_from(values)
    kind = draw(
        st.sampled_from(["=", "<>", "<", "<=", ">", ">=", "IN", "NOT IN", "BETWEEN", "NULL", "NOT NULL"])
    )
    number = {"IN": draw(st.integers(1, 6)), "NOT IN": draw(st.integers(1, 6)), "BETWEEN": 2}.get(kind, 1)
    return name, kind, [draw(literal) for _ in range(number)]


def combined(leaves):
    return st.recursive(
        leaves,
        lambda inner: st.one_of(
            st.tuples(inner, st.sampled_from(["AND", "OR"]), inner),
            inner.map(lambda one: ("NOT", one)),
        ),
        max_leaves=4,
    )


def sql(tree, column):
    """A tree as SQL text; `column` returns the text of a name."""
    if tree[0] == "NOT":
        return f"(NOT {sql(tree[1], column)})"
    if tree[1] in ("AND", "OR"):
        return f"({sql(tree[0], column)} {tree[1]} {sql(tree[2], column)})"
    name, kind, values = tree
    operand, literals = column(name), [text(name.rsplit(".", maxsplit=1)[-1], value) for value in values]
    if kind in ("NULL", "NOT NULL"):
        return f"({operand} IS {kind})"
    if kind == "BETWEEN":
        return f"({operand} BETWEEN {literals[0]} AND {literals[1]})"
    if kind in ("IN", "NOT IN"):
        return f"({operand} {kind} ({', '.join(literals)}))"
    return f"({operand} {kind} {literals[0]})"


def with_duckdb(source, tree):
    where = sql(tree, lambda name: ".".join(f'"{part}"' for part in name.split(".")))
    connection = duckdb_connection()
    connection.register("lake", source)
    try:
        found = connection.sql(f"SELECT n FROM lake WHERE {where}").fetchall()
    finally:
        connection.unregister("lake")
    return sorted(number for (number,) in found)


@functools.cache
def duckdb_connection():
    """The connection of all queries, because a new one takes longer than a query."""
    connection = duckdb.connect()
    connection.execute("SET TimeZone = 'UTC'")
    return connection


def with_datafusion(source, tree):
    """The oracle is pyarrow's dataset: NOT IN is passed as a filter that is TRUE for null.

    Views are not filtered by pyarrow, and DataFusion passes other filters of them than of text.
    """

    def column(name):
        first, *rest = name.replace("v", "s").split(".")
        return f'"{first}"' + "".join(f"['{part}']" for part in rest)

    is_oracle = isinstance(source, pa.Table)
    context = datafusion.SessionContext()
    context.register_dataset("lake", ds.dataset(source.drop_columns(["v"])) if is_oracle else source)
    try:
        found = context.sql(f"SELECT n FROM lake WHERE {sql(tree, column)}").collect()
    except Exception as error:
        # it passes a scalar for a condition that is never true, which pyarrow's own datasets refuse
        if is_oracle and "BooleanScalar" in str(error):
            return []
        raise
    return sorted(number for batch in found for number in batch.column(0).to_pylist())


def polars_condition(tree):
    if tree[0] == "NOT":
        return ~polars_condition(tree[1])
    if tree[1] in ("AND", "OR"):
        left, right = polars_condition(tree[0]), polars_condition(tree[2])
        return left & right if tree[1] == "AND" else left | right
    name, kind, values = tree
    first, *rest = name.split(".")
    operand = pl.col(first)
    for part in rest:
        operand = operand.struct.field(part)
    if kind in ("NULL", "NOT NULL"):
        return operand.is_null() if kind == "NULL" else operand.is_not_null()
    if kind in ("IN", "NOT IN"):
        found = operand.is_in(values)
        return found if kind == "IN" else ~found
    if kind == "BETWEEN":
        return operand.is_between(*map(pl.lit, values))
    method = {"=": "eq", "<>": "ne", "<": "lt", "<=": "le", ">": "gt", ">=": "ge"}[kind]
    return getattr(operand, method)(values[0])


def with_polars(source, tree):
    frame = pl.DataFrame(source).lazy() if isinstance(source, pa.Table) else scan(source)
    return frame.filter(polars_condition(tree)).select("n").collect()["n"].sort().to_list()


@pytest.mark.parametrize("engine", [with_duckdb, with_datafusion, with_polars])
@settings(max_examples=examples(120, deep=1_000))
@given(data=st.data())
def test_engines_find_the_same_rows(tmp_path_factory, engine, data):
    table = made_rows(random.Random(data.draw(st.integers(0, 2**32))))
    folder = tmp_path_factory.mktemp("engines")
    write(folder / "t.parquet", table, [ia.PageIndex(), ia.Distinct("s")], data_page_size=64)
    memory = pq.read_table(folder / "t.parquet")
    dataset = ia.open(folder).dataset()
    for _ in range(4):
        tree = data.draw(combined(conditions()))
        assert engine(dataset, tree) == engine(memory, tree), tree
