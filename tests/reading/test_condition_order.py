"""Estimates determine which columns are read first, and never change the result."""

from dataclasses import dataclass
from typing import ClassVar

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import intarsia as ia
from intarsia.indexes import Index, OpenIndex
from intarsia.predicate import BoundAnd, bind, parse_sql
from intarsia.read.file_plan import order_conditions
from tests.effort import examples
from tests.reading.exact import assert_same_rows

ROWS, PAGE = 20_000, 500


@pytest.fixture
def path(tmp_path):
    """Bounds exclude no page; `rare = 1` matches two rows, and `half < 50` half of them."""
    random = np.random.default_rng(3)
    rare = random.integers(2, 1000, ROWS)
    rare[::50] = 0
    rare[[1234, 1240]] = 1
    table = pa.table(
        {"half": random.integers(0, 100, ROWS), "rare": rare, "text": [f"text {row}" for row in range(ROWS)]}
    )
    path = tmp_path / "a.parquet"
    pq.write_table(table, path, max_rows_per_page=PAGE, write_page_index=True, use_dictionary=False)
    return path


WHERE = "half < 50 AND rare = 1"


def pages_read(path, where, column):
    scan = ia.open(path).scan(where)
    rows = scan.to_arrow()
    full = pq.read_table(path)
    keep = (full["half"].to_numpy() < 50) & (full["rare"].to_numpy() == 1)
    assert_same_rows(rows, full, keep.tolist())
    return scan.report.to_dict()["pages"]["by_column"][column]["read"]


def test_the_selective_condition_comes_first(path):
    assert pages_read(path, WHERE, "half") == ROWS // PAGE
    ia.attach(path, [ia.Histogram("half"), ia.Histogram("rare", buckets=256)])
    for where in (WHERE, "rare = 1 AND half < 50"):
        assert pages_read(path, where, "half") == 1
        assert pages_read(path, where, "rare") == ROWS // PAGE


def test_one_estimate_is_enough(path):
    ia.attach(path, [ia.Histogram("rare", buckets=256)])
    assert pages_read(path, WHERE, "half") == 1


def test_estimate_that_costs_too_much_is_not_read(path):
    """A scan reads an estimate only if it could save bytes; `explain` always reads it."""
    ia.attach(path, [ia.Histogram("rare", granularity=2, buckets=2)])
    assert pages_read(path, WHERE, "half") == ROWS // PAGE
    assert ia.open(path).explain("rare = 1").to_dict()["rows"]["estimated"] < 1000


def test_column_in_two_conditions_is_read_once(path):
    ia.attach(path, [ia.Histogram("rare", buckets=256)])
    scan = ia.open(path).scan("rare = 1 AND (half < 50 OR rare > 900) AND text > 'text 1'")
    full = pq.read_table(path)
    keep = (full["half"].to_numpy() < 50) & (full["rare"].to_numpy() == 1)
    keep &= np.array(full["text"].to_pylist()) > "text 1"
    assert_same_rows(scan.to_arrow(), full, keep.tolist())
    assert scan.report.to_dict()["pages"]["by_column"]["rare"]["read"] == ROWS // PAGE


@dataclass(frozen=True)
class Liar(Index, OpenIndex):
    """An index whose estimate is a parameter."""

    kind: ClassVar[str] = "liar"
    version: ClassVar[int] = 1

    column: str
    says: float

    def can_prune(self, predicate):
        return False

    def can_estimate(self, predicate):
        return True

    def build(self, chunk):
        return b"lies"

    def open(self, payload, layout):
        return self

    def estimated_rows(self, predicate):
        return self.says


@pytest.mark.parametrize("says", [0.0, -5.0, 1e300, float("inf"), float("nan"), 10_000.0])
@pytest.mark.parametrize("column", ["half", "rare"])
def test_wrong_estimates_do_not_change_the_result(path, announce_class, monkeypatch, says, column):
    announce_class(Liar)
    ia.attach(path, [Liar(column, 7.0)])
    monkeypatch.setattr(Liar, "estimated_rows", lambda self, predicate: says)
    assert pages_read(path, WHERE, column) == ROWS // PAGE or says < ROWS


SCHEMA = pa.schema([(name, pa.int64()) for name in "abcd"])
CONDITIONS = ["a = 1", "b = 1", "c = 1", "a > 0 OR b > 0", "c > 1 OR d > 1", "d IS NULL", "a < 9"]


@settings(max_examples=examples(60))
@given(
    st.lists(st.sampled_from(CONDITIONS), min_size=1, max_size=6, unique=True),
    st.lists(st.none() | st.floats(0, 1), min_size=7, max_size=7),
)
def test_no_condition_is_lost(conditions, shares):
    bound = bind(parse_sql(" AND ".join(f"({text})" for text in conditions)), SCHEMA)
    known = iter(shares)
    stages = order_conditions(bound, lambda node: next(known), lambda path: 10)
    parts = [
        part for stage in stages for part in (stage.children if isinstance(stage, BoundAnd) else [stage])
    ]
    wanted = bound.children if isinstance(bound, BoundAnd) else [bound]
    assert sorted(map(str, parts)) == sorted(map(str, wanted))
