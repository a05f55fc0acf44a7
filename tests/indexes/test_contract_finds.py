"""The contract finds what authors get wrong, and says what to mend."""

from __future__ import annotations

import os
import sys
from dataclasses import dataclass
from typing import ClassVar

import numpy as np
import pyarrow as pa
import pytest

import intarsia as ia
from intarsia import testing
from intarsia.errors import IndexPayloadError
from intarsia.indexes import registry
from intarsia.indexes.base import Layout, PayloadBytes
from intarsia.indexes.distinct import Distinct, OpenDistinct
from intarsia.predicate import BoundCompare
from intarsia.rows.selection import RowSelection

NUMBERS = pa.array([1, 1, 2, 3, 5, 8, None, 13, 21])


@dataclass(frozen=True)
class Broken(Distinct):
    """Distinct values, with one thing wrong."""

    kind: ClassVar[str] = "broken"


def fails(check, index, *arguments, match):
    with pytest.raises(AssertionError, match=match) as failure:
        check(index, *arguments)
    return str(failure.value)


class Answers:
    """An open index with answers of its own in place of those of `Distinct`."""

    def __init__(self, opened: OpenDistinct, layout: Layout) -> None:
        self.opened = opened
        self.layout = layout

    def candidate_rows(self, predicate):
        return self.opened.candidate_rows(predicate)


def opening(answers):
    """`Broken` with another open(), which may also estimate."""

    @dataclass(frozen=True)
    class Opening(Broken):
        """Distinct values, opened wrongly."""

        def open(self, payload, layout):
            return answers(super().open(payload, layout), layout)

        def can_estimate(self, predicate):
            return True

    return Opening("x")


@pytest.fixture
def known(monkeypatch):
    """Make a class known to scans, as an installed package would."""

    def announce(cls):
        monkeypatch.setattr(registry, "find_index_class", lambda kind: cls if kind == cls.kind else None)
        for module in ("intarsia.indexes.embedded", "intarsia.testing.files"):
            monkeypatch.setattr(f"{module}.find_index_class", registry.find_index_class)

    return announce


class LosesNotEqual(Answers):
    """Forgets one row of those that match ``<>``."""

    def candidate_rows(self, predicate):
        if isinstance(predicate, BoundCompare) and predicate.op == "<>":
            lost = 3 if self.layout.num_rows < 100 else 100
            return RowSelection.all(self.layout.num_rows) - RowSelection.from_ranges([(lost, lost + 1)])
        return super().candidate_rows(predicate)


def test_a_row_that_is_left_out():
    text = fails(
        testing.check_layouts, opening(LosesNotEqual), NUMBERS, match="candidate_rows.. leaves out 1 of"
    )
    assert "asked for x <> " in text
    assert "rows: 3\n" in text
    assert "granules (" in text
    assert "Opening(column='x'" in text


@pytest.mark.parametrize("hypothesis", [True, False])
def test_a_row_that_is_left_out_of_random_layouts(monkeypatch, hypothesis):
    if not hypothesis:
        monkeypatch.setitem(sys.modules, "hypothesis", None)
    index = opening(LosesNotEqual)
    fails(testing.check_random_layouts, index, pa.array([True, False]), match="leaves out 1 of")


def test_a_row_that_is_left_out_of_a_file(known):
    index = opening(LosesNotEqual)
    known(type(index))
    fails(testing.check_file, index, NUMBERS, match=r"missing are the rows \[100\]")


class Sure(Answers):
    def certain_rows(self, predicate):
        return RowSelection.from_ranges([(0, 1)])


class Beyond(Answers):
    def candidate_rows(self, predicate):
        return RowSelection.from_ranges([(0, 1000)])


class Mask(Answers):
    def candidate_rows(self, predicate):
        return np.ones(self.layout.num_rows, dtype=bool)


class Estimates(Answers):
    def estimated_rows(self, predicate):
        return float("nan")


class Pages(Answers):
    def __init__(self, opened, layout):
        layout.edges("page", "x")


@pytest.mark.parametrize(
    ("answers", "match"),
    [
        (Sure, "certain_rows.. gave 1 rows that do not match"),
        (Beyond, "of a file of"),
        (Mask, "ndarray, not a RowSelection"),
        (Estimates, "it must lie between 0 and"),
        (Pages, "put them into the payload"),
    ],
)
def test_an_answer_that_is_none(answers, match):
    fails(testing.check_layouts, opening(answers), NUMBERS, match=match)


def test_nothing_skipped():
    wheres = ["x = 7", "x IS NOT NULL"]
    index = Broken("x", "file")
    fails(testing.check_prunes, index, NUMBERS, wheres, match="skips nothing for x IS NOT NULL")


@dataclass(frozen=True)
class Unsteady(Broken):
    """Distinct values, and bytes that differ."""

    def build(self, chunk):
        return super().build(chunk) + os.urandom(8)


@dataclass(frozen=True)
class Listed(Broken):
    """Distinct values with a tuple that JSON makes a list."""

    words: tuple[str, ...] = ("a",)


@dataclass(frozen=True)
class Opaque(Broken):
    """Distinct values with a parameter that JSON does not know."""

    words: bytes = b"a"


def test_bytes_that_differ():
    fails(testing.check_deterministic, Unsteady("x"), NUMBERS, match="gives different bytes")


def test_parameters_that_do_not_survive():
    fails(testing.check_parameters, Listed("x"), match="turn a list into a tuple")
    fails(testing.check_parameters, Opaque("x"), match="no JSON form")


def test_a_class_that_is_not_frozen():
    @dataclass
    class Thawed:
        """It might change."""

        column: str

    fails(testing.check_class, Thawed("x"), match="no frozen dataclass")


def test_a_class_without_kind_or_columns():
    @dataclass(frozen=True)
    class Nameless(Broken):
        """No kind."""

        kind: ClassVar[str] = ""

    @dataclass(frozen=True)
    class Loose(Broken):
        """Columns that are a list."""

        columns: ClassVar[list[str]] = ["x"]

    @dataclass(frozen=True)
    class Silent(Broken):
        pass

    fails(testing.check_class, Nameless("x"), match="Nameless.kind is ''")
    fails(testing.check_class, Loose("x"), match="must be a tuple of names")
    fails(testing.check_class, Silent("x"), match="no docstring")


def test_a_kind_that_nobody_announced():
    text = fails(testing.check_announced, Broken("x"), match="announce it in pyproject.toml")
    assert 'broken = "' in text


class Careless(Answers):
    """Reads the damage as it comes."""

    def candidate_rows(self, predicate):
        raise ZeroDivisionError("from the payload")


@dataclass(frozen=True)
class Trusting:
    """One byte a page: whether it holds a null. Believes whatever is read."""

    kind: ClassVar[str] = "trusting"
    version: ClassVar[int] = 1

    column: str

    @property
    def columns(self):
        return (self.column,)

    def build(self, chunk):
        flags = bytearray(chunk.layout.num_rows)
        for row, piece in chunk.batches(self.column):
            flags[row : row + len(piece)] = np.asarray(piece.is_null()).astype(np.uint8).tobytes()
        return bytes(flags)

    def open(self, payload, layout):
        if len(payload) != layout.num_rows:
            raise IndexPayloadError("it is about other rows")
        return self.open_source(PayloadBytes(payload), layout)

    def open_source(self, source, layout):
        return TrustingProbe(source)


@dataclass(frozen=True)
class TrustingProbe:
    source: PayloadBytes

    def candidate_rows(self, predicate):
        if type(predicate).__name__ != "BoundNull" or predicate.negated:
            return None
        (flags,) = self.source.read_ranges([(0, self.source.num_bytes)])
        return RowSelection.from_mask(np.frombuffer(flags, np.uint8) == 1)


def test_damage_that_raises():
    fails(testing.check_damage, opening(Careless), NUMBERS, match="ZeroDivisionError: from the payload")


def test_damage_that_is_believed():
    testing.check_layouts(Trusting("x"), NUMBERS)
    testing.check_damage(Trusting("x"), NUMBERS)
    fails(testing.check_probed_damage, Trusting("x"), NUMBERS, match="and probed: .* leaves out")


def test_a_method_that_is_missing():
    with pytest.raises(NotImplementedError, match="needs a method index"):
        testing.IndexContract().test_it_tolerates_damage()


def test_values_of_several_columns(tmp_path):
    table = pa.table({"x": NUMBERS, "y": NUMBERS})
    testing.check_layouts(ia.Distinct("y"), table)
    fails(testing.check_layouts, ia.Distinct("z"), table, match="values.. lacks z")
