"""A prepared query returns the rows of a full read and a filter, for each value of its parameters."""

from __future__ import annotations

import datetime as dt
import pickle
from decimal import Decimal

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq
import pytest

import intarsia as ia

ROWS = 1_000
TABLE = pa.table(
    {
        "id": range(ROWS),
        "name": [None if number % 10 == 0 else f"it's {number % 7}" for number in range(ROWS)],
        "day": pa.array([dt.date(2024, 1, 1) + dt.timedelta(number // 10) for number in range(ROWS)]),
        "price": pa.array([Decimal(number) / 100 for number in range(ROWS)], pa.decimal128(9, 2)),
        "score": [number / 8 for number in range(ROWS)],
        "at": pa.array([number * 1_000_001 for number in range(ROWS)], pa.timestamp("ns")),
        "flag": [number % 3 == 0 for number in range(ROWS)],
    }
)


@pytest.fixture(scope="module")
def table(tmp_path_factory):
    path = tmp_path_factory.mktemp("prepared") / "t.parquet"
    pq.write_table(TABLE, path, row_group_size=100, write_page_index=True)
    return ia.open(str(path))


def field(name):
    return pc.field(name)


#: The text, the values of its parameters, and the same filter in pyarrow.
QUERIES = [
    ("id = ?", [777], field("id") == 777),
    ("id = ?", [np.int64(5)], field("id") == 5),
    ("id = ?", [pa.scalar(6, pa.int8())], field("id") == 6),
    ("id = ?", [10**30], pc.scalar(False)),
    ("id = ?", [None], pc.scalar(False)),
    ("name = ?", ["it's 3"], field("name") == "it's 3"),
    ("name = ?", ["' OR '1' = '1"], pc.scalar(False)),
    ("name IS NULL AND id < ?", [50], field("name").is_null() & (field("id") < 50)),
    ("NOT name = ?", ["it's 3"], field("name") != "it's 3"),
    ("day = ?", [dt.date(2024, 2, 29)], field("day") == dt.date(2024, 2, 29)),
    ("day BETWEEN ? AND ?", [dt.date(2024, 1, 5), dt.date(2024, 1, 6)],
     (field("id") >= 40) & (field("id") < 60)),
    ("price >= ? AND price < ?", [Decimal("1.50"), 2], (field("id") >= 150) & (field("id") < 200)),
    ("? > score", [2.5], field("score") < 2.5),
    ("score > ?", [float("nan")], pc.scalar(False)),
    ("at = ?", [pa.scalar(7 * 1_000_001, pa.timestamp("ns"))], field("id") == 7),
    ("flag = ? AND id < ?", [True, 10], field("flag") & (field("id") < 10)),
    ("id IN (?, ?)", [3, 900], field("id").isin([3, 900])),
    ("id IN (?, 5)", [3], field("id").isin([3, 5])),
    ("id IN ?", [[1, 2, 3]], field("id").isin([1, 2, 3])),
    ("id NOT IN ?", [range(5, ROWS)], field("id") < 5),
    ("id NOT IN (?, ?)", [1, None], pc.scalar(False)),
    ("lower(name) = ? AND id < ?", ["it's 1", 30], (field("name") == "it's 1") & (field("id") < 30)),
    ("day = CAST(? AS DATE)", ["2024-01-01"], field("id") < 10),
    ("name LIKE ?", ["%6"], field("name") == "it's 6"),
    ("id = :x OR id = :y OR score = :x", {"x": 1, "y": 2}, field("id").isin([1, 2, 8])),
]  # fmt: skip


@pytest.mark.parametrize(
    ("where", "values", "expected"), QUERIES, ids=[f"{one[0]} {one[1]}" for one in QUERIES]
)
def test_rows_are_those_of_a_full_read(table, where, values, expected):
    prepared = table.prepare(where)
    for _ in range(2):
        assert prepared.scan(values).to_arrow().equals(TABLE.filter(expected))
    assert pickle.loads(pickle.dumps(prepared)).scan(values).count() == TABLE.filter(expected).num_rows


def test_many_values(table):
    prepared = table.prepare("id = ? OR (name = ? AND id < 20)", columns=["id"])
    for number in range(0, 40, 3):
        name = f"it's {number % 7}"
        wanted = (field("id") == number) | ((field("name") == name) & (field("id") < 20))
        assert prepared.scan([number, name]).to_arrow().equals(TABLE.filter(wanted).select(["id"]))


def test_columns_limit_and_order(table):
    best = table.prepare("id < ?", columns=["id"], limit=2, order_by="score DESC")
    assert best.scan([100]).to_pylist() == [{"id": 99}, {"id": 98}]
    assert best.scan([3]).to_pylist() == [{"id": 2}, {"id": 1}]
    assert table.prepare("id < 5").scan().count() == 5
    assert repr(best) == "PreparedQuery('id < ?')"


@pytest.mark.parametrize(
    ("where", "values", "reason"),
    [
        ("id = ?", None, "missing-parameter"),
        ("id = ?", [], "wrong-number-of-parameters"),
        ("id = ?", [1, 2], "wrong-number-of-parameters"),
        ("id IN (?, ?)", [1], "wrong-number-of-parameters"),
        ("lower(name) = ?", [], "wrong-number-of-parameters"),
        ("id = 1", [1], "wrong-number-of-parameters"),
        ("id = 1", {}, "no-parameters-in-text"),
        ("id = ?", {"id": 1}, "parameter-without-name"),
        ("id = :id", [1], "named-parameter-without-name"),
        ("id = :id", {"ib": 1}, "missing-parameter"),
        ("id = :id", {"id": 1, "ib": 1}, "unused-parameter"),
        ("id = ?", "1", "not-a-list-of-parameters"),
        ("id = ?", 1, "not-a-list-of-parameters"),
        ("id = ?", [[1]], "parameter-is-a-list"),
        ("id IN (?)", [[1]], "parameter-is-a-list"),
        ("id IN ?", [1], "not-a-list"),
        ("id IN ?", ["1"], "not-a-list"),
        ("id = ?", ["a"], "type-mismatch"),
    ],
)
def test_wrong_parameters(table, where, values, reason):
    prepared = table.prepare(where)
    for tried in (prepared.scan, lambda values: table.scan(where, parameters=values)):
        if values is None and tried != prepared.scan:
            continue
        with pytest.raises(ia.PredicateError) as caught:
            tried(values)
        assert caught.value.reason == reason


@pytest.mark.parametrize("where", ["id = ", "id 1", "(id = ?"])
def test_text_is_parsed_when_the_query_is_prepared(table, where):
    with pytest.raises(ia.PredicateError) as caught:
        table.prepare(where)
    assert caught.value.reason == "syntax-error"


def test_only_text_can_be_prepared(table):
    with pytest.raises(ia.PredicateError) as caught:
        table.prepare([("id", "=", 1)])
    assert caught.value.reason == "parameters-without-text"
