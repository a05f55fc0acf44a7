"""Every built-in index passes the tests for authors of indexes."""

from __future__ import annotations

import datetime as dt
from collections import Counter
from decimal import Decimal

import pyarrow as pa
import pytest

import intarsia as ia
from intarsia import testing

WORDS = ["Aarau", "Basel", "Bern", "Chur", "Genève", "Zürich", "", None] * 2
NUMBERS = [*range(-5, 5), None, 10**9]
DAYS = [dt.datetime(2020, 1, day, 12) for day in range(1, 20)]

#: An index, values of its column, and predicates for which it excludes some of them.
INDEXES = [
    (ia.Distinct("x"), pa.array(WORDS), ["x = 'Base'", "x LIKE 'Z%'", "x IS NULL"]),
    (ia.Distinct("x", max_values=3), pa.array(NUMBERS), ["x = 17"]),
    (ia.Distinct("x"), pa.array([1.5, 2.5, float("nan"), None, -0.0]), ["x > 3"]),
    (ia.Distinct("x"), pa.array(DAYS, pa.timestamp("us")), ["x > TIMESTAMP '2020-01-18'"]),
    (ia.Distinct("x"), pa.array(WORDS).dictionary_encode(), ["x = 'Chur'"]),
    (ia.Distinct("x"), pa.array([b"a", None, b"\xff"]), []),
    (ia.Distinct("x"), pa.array([Decimal("1.50"), None, Decimal("-7.25")]), ["x = 2.5"]),
    (ia.ZoneMap("x"), pa.array(WORDS), ["x > 'ZZ'", "x = 'Zug'"]),
    (ia.ZoneMap("x"), pa.array([1.5, 2.5, float("nan"), None, -0.0]), ["x < -1"]),
    (ia.ZoneMap("x"), pa.array(DAYS, pa.timestamp("us")), ["x > TIMESTAMP '2020-01-18'"]),
    (ia.ZoneMap("x"), pa.array([Decimal("1.50"), None, Decimal("-7.25")]), ["x > 2.5"]),
    (ia.BloomGranule("x"), pa.array(WORDS), ["x = 'Zug'"]),
    (ia.BloomGranule("x", fpp=0.5), pa.array([1.5, 2.5, float("nan"), None, -0.0]), []),
    (ia.RowMap("x"), pa.array(WORDS), ["x = 'Zug'", "x IN ('Chur', 'Zug')"]),
    (ia.RowMap("x"), pa.array(NUMBERS), ["x = 4"]),
    (ia.RowMap("x"), pa.array([1.5, 2.5, float("nan"), None, -0.0]), ["x = 0"]),
    (ia.Ngram("x"), pa.array(WORDS), ["x LIKE '%rich%'", "x LIKE '%Gen%ève'"]),
    (ia.Ngram("x", n=2, ignore_case=True), pa.array(WORDS), ["x ILIKE '%RIC%'"]),
    (ia.Histogram("x"), pa.array(NUMBERS), []),
    (ia.Histogram("x", buckets=2), pa.array(WORDS), []),
    (ia.Hll("x"), pa.array(WORDS), []),
]

CHECKS = [
    testing.check_registered,
    testing.check_class,
    testing.check_parameters,
    testing.check_deterministic,
    testing.check_layouts,
    testing.check_random_layouts,
    testing.check_damage,
    testing.check_probed_damage,
    testing.check_gathered,
    testing.check_gathered_damage,
    testing.check_file,
]
ABOUT_THE_CLASS = CHECKS[:3]

#: Checks whose outcome depends on the form of a payload, not on the values: for two cases of each kind.
ABOUT_PAYLOADS = (
    testing.check_damage,
    testing.check_probed_damage,
    testing.check_gathered,
    testing.check_gathered_damage,
    testing.check_file,
)


def cases():
    """Each check with the indexes that it is about, one after another."""
    before = Counter()
    for index, values, _ in INDEXES:
        before[index.kind] += 1
        for check in CHECKS:
            if check not in ABOUT_PAYLOADS or before[index.kind] <= 2:
                yield pytest.param(index, values, check, id=f"{index!r} {values.type}-{check.__name__}")


@pytest.mark.parametrize(("index", "values", "check"), list(cases()))
def test_contract(index, values, check):
    check(index) if check in ABOUT_THE_CLASS else check(index, values)


@pytest.mark.parametrize(
    ("index", "values", "wheres"), [pytest.param(*case, id=repr(case[0])) for case in INDEXES if case[2]]
)
def test_skips(index, values, wheres):
    testing.check_prunes(index, values, wheres)
