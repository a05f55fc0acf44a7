"""The contract detects the mistakes of authors, and describes them."""

from __future__ import annotations

import os
import sys
import traceback
from dataclasses import dataclass
from typing import ClassVar

import numpy as np
import pyarrow as pa
import pytest

import intarsia as ia
from intarsia import testing
from intarsia.errors import CorruptFileError, IndexPayloadError
from intarsia.indexes import GatheredPart, Index, OpenIndex, summarize
from intarsia.indexes.base import PayloadBytes
from intarsia.indexes.distinct import Distinct, OpenDistinct
from intarsia.indexes.layout import Layout
from intarsia.predicate import BoundCompare
from intarsia.rows.selection import RowSelection
from tests.effort import without_shrinking

NUMBERS = pa.array([1, 1, 2, 3, 5, 8, None, 13, 21])


@dataclass(frozen=True)
class Broken(Distinct):
    """Distinct values, with one thing wrong."""

    kind: ClassVar[str] = "broken"


def fails(check, index, *arguments, reason):
    """Expect a failure for a reason; return its message."""
    with pytest.raises(testing.ContractError) as failure:
        check(index, *arguments)
    assert failure.value.reason == reason
    return str(failure.value)


class Answers(OpenIndex):
    """An open index whose answers may differ from those of `Distinct`."""

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


class LosesNotEqual(Answers):
    """Excludes one of the rows that match ``<>``."""

    def candidate_rows(self, predicate):
        if isinstance(predicate, BoundCompare) and predicate.op == "<>":
            lost = 3 if self.layout.num_rows < 100 else 100
            return RowSelection.all(self.layout.num_rows) - RowSelection.from_ranges([(lost, lost + 1)])
        return super().candidate_rows(predicate)


class LosesAllNotEqual(Answers):
    """Excludes all rows that match ``<>``, which few random layouts can miss."""

    def candidate_rows(self, predicate):
        is_lost = isinstance(predicate, BoundCompare) and predicate.op == "<>"
        return RowSelection.none() if is_lost else super().candidate_rows(predicate)


def test_matching_row_that_is_excluded():
    text = fails(testing.check_layouts, opening(LosesNotEqual), NUMBERS, reason="excludes-matching-rows")
    for part in ("x <> ", "rows: 3\n", "granules (", "Opening(column='x'"):
        assert part in text


@pytest.mark.parametrize("hypothesis", [True, False])
def test_matching_row_that_is_excluded_in_random_layouts(monkeypatch, hypothesis):
    if not hypothesis:
        monkeypatch.setitem(sys.modules, "hypothesis", None)
    index = opening(LosesAllNotEqual)
    with without_shrinking(), pytest.raises(testing.ContractError) as failure:
        testing.check_random_layouts(index, pa.array([True, False]))
    assert failure.value.reason == "excludes-matching-rows"
    shown = "".join(traceback.format_exception(failure.value))
    assert ("ModuleNotFoundError" in shown, "another exception occurred" in shown) == (False, False)


def test_matching_row_that_is_excluded_in_a_file(announce_class):
    index = opening(LosesNotEqual)
    announce_class(type(index))
    assert "[100]" in fails(testing.check_file, index, NUMBERS, reason="scan-differs")


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
    ("answers", "reason"),
    [
        (Sure, "certain-rows-do-not-match"),
        (Beyond, "rows-outside-file"),
        (Mask, "not-a-row-selection"),
        (Estimates, "impossible-estimate"),
        (Pages, "cannot-open"),
        (lambda opened, layout: opened.values, "not-an-open-index"),
    ],
)
def test_invalid_answers(answers, reason):
    fails(testing.check_layouts, opening(answers), NUMBERS, reason=reason)


def test_nothing_excluded():
    wheres = ["x = 7", "x IS NOT NULL"]
    index = Broken("x", "file")
    assert "x IS NOT NULL" in fails(testing.check_prunes, index, NUMBERS, wheres, reason="excludes-nothing")


@dataclass(frozen=True)
class Unsteady(Broken):
    """Distinct values with random bytes."""

    def build(self, chunk):
        return super().build(chunk) + os.urandom(8)


@dataclass(frozen=True)
class Listed(Broken):
    """Distinct values with a tuple, which JSON turns into a list."""

    words: tuple[str, ...] = ("a",)


@dataclass(frozen=True)
class Opaque(Broken):
    """Distinct values with a parameter that JSON cannot represent."""

    words: bytes = b"a"


def test_bytes_that_differ():
    fails(testing.check_deterministic, Unsteady("x"), NUMBERS, reason="not-deterministic")


def test_parameters_that_cannot_be_restored():
    fails(testing.check_parameters, Listed("x"), reason="parameters-change")
    fails(testing.check_parameters, Opaque("x"), reason="parameters-not-json")


def test_class_that_is_not_frozen():
    @dataclass
    class Thawed:
        """A mutable index."""

        column: str

    fails(testing.check_class, Thawed("x"), reason="not-a-frozen-dataclass")


def test_class_that_does_not_derive_from_the_base_class():
    @dataclass(frozen=True)
    class Duck:
        """An object with the methods of an index."""

        kind: ClassVar[str] = "duck"
        version: ClassVar[int] = 1
        column: str

    assert "intarsia.indexes.Index" in fails(testing.check_class, Duck("x"), reason="not-an-index")


def test_class_without_kind_or_columns():
    @dataclass(frozen=True)
    class Nameless(Broken):
        """No kind."""

        kind: ClassVar[str] = ""

    @dataclass(frozen=True)
    class Loose(Broken):
        """The columns are a list."""

        columns: ClassVar[list[str]] = ["x"]

    @dataclass(frozen=True)
    class Silent(Broken):
        pass

    fails(testing.check_class, Nameless("x"), reason="invalid-kind")
    fails(testing.check_class, Loose("x"), reason="invalid-columns")
    fails(testing.check_class, Silent("x"), reason="no-docstring")


def test_kind_that_is_not_registered():
    assert 'broken = "' in fails(testing.check_registered, Broken("x"), reason="not-registered")


class Careless(Answers):
    """Fails on damaged bytes."""

    def candidate_rows(self, predicate):
        raise ZeroDivisionError("from the payload")


@dataclass(frozen=True)
class Trusting(Index):
    """One byte per row: whether it is null. Trusts every byte that is read."""

    kind: ClassVar[str] = "trusting"
    version: ClassVar[int] = 1

    column: str

    def build(self, chunk):
        flags = bytearray(chunk.layout.num_rows)
        for row, piece in chunk.batches(self.column):
            flags[row : row + len(piece)] = np.asarray(piece.is_null()).astype(np.uint8).tobytes()
        return bytes(flags)

    def open(self, payload, layout):
        if len(payload) != layout.num_rows:
            raise IndexPayloadError("the payload is for other rows")
        return self.open_source(PayloadBytes(payload), layout)

    def open_source(self, source, layout):
        return TrustingProbe(source)


@dataclass(frozen=True)
class TrustingProbe(OpenIndex):
    source: PayloadBytes

    def candidate_rows(self, predicate):
        if type(predicate).__name__ != "BoundNull" or predicate.negated:
            return None
        (flags,) = self.source.read_ranges([(0, self.source.num_bytes)])
        return RowSelection.from_mask(np.frombuffer(flags, np.uint8) == 1)


def test_damage_that_raises():
    fails(testing.check_damage, opening(Careless), NUMBERS, reason="damage-raises")


def test_damage_that_is_trusted():
    testing.check_layouts(Trusting("x"), NUMBERS)
    testing.check_damage(Trusting("x"), NUMBERS)
    fails(testing.check_probed_damage, Trusting("x"), NUMBERS, reason="excludes-matching-rows")


def test_missing_method():
    with pytest.raises(NotImplementedError):
        testing.IndexContract().test_damage_is_detected_or_harmless()


def test_values_of_several_columns(tmp_path):
    table = pa.table({"x": NUMBERS, "y": NUMBERS})
    testing.check_layouts(ia.Distinct("y"), table)
    fails(testing.check_layouts, ia.Distinct("z"), table, reason="missing-values")


# --- kinds that take part in a lake index --------------------------------------------------------------


@dataclass(frozen=True)
class GatheredBroken(Broken):
    """Distinct values, with one thing wrong in the structure of many files."""

    def open_gathered(self, parts, num_files):
        return self.wrong(super().open_gathered(parts, num_files))


class GatheredAnswers(OpenIndex):
    """A structure whose answers may differ from those of `Distinct`."""

    def __init__(self, opened):
        self.opened = opened

    def candidate_files(self, predicate):
        return self.opened.candidate_files(predicate)

    def certain_files(self, predicate):
        return self.opened.certain_files(predicate)

    def cost_bytes(self, predicate):
        return self.opened.cost_bytes(predicate)


class LosesAFile(GatheredAnswers):
    """Excludes the files in which all rows match."""

    def candidate_files(self, predicate):
        return super().candidate_files(predicate) & ~self.opened.certain_files(predicate)


class SureOfCandidates(GatheredAnswers):
    def certain_files(self, predicate):
        return self.opened.candidate_files(predicate)


class FileOrdinals(GatheredAnswers):
    def candidate_files(self, predicate):
        return np.flatnonzero(super().candidate_files(predicate))


class Everything(GatheredAnswers):
    def candidate_files(self, predicate):
        return None


class WrongCounts(GatheredAnswers):
    """Summaries of one value each, whatever the files contain."""

    def file_summaries(self, column):
        num_files = self.opened.num_files
        table = summarize(pa.array([1] * num_files), np.arange(num_files))
        return table, np.ones(num_files, dtype=bool)


class IgnoresDamage(GatheredAnswers):
    """Excludes all files if it cannot read its parts."""

    def candidate_files(self, predicate):
        try:
            return super().candidate_files(predicate)
        except CorruptFileError:
            return np.zeros(self.opened.num_files, dtype=bool)


class FailsOnDamage(GatheredAnswers):
    def candidate_files(self, predicate):
        try:
            return super().candidate_files(predicate)
        except CorruptFileError as error:
            raise ZeroDivisionError from error


def gathering(wrong):
    """`GatheredBroken` with another structure."""

    @dataclass(frozen=True)
    class Gathering(GatheredBroken):
        """Distinct values, gathered wrongly."""

    Gathering.wrong = staticmethod(wrong)
    return Gathering("x", "file")


@pytest.mark.parametrize(
    ("check", "wrong", "reason"),
    [
        (testing.check_gathered, LosesAFile, "excludes-matching-files"),
        (testing.check_gathered, SureOfCandidates, "certain-files-do-not-match"),
        (testing.check_gathered, FileOrdinals, "not-a-boolean-per-file"),
        (testing.check_gathered, Everything, "excludes-nothing"),
        (testing.check_gathered, WrongCounts, "wrong-summary"),
        (testing.check_gathered, lambda opened: opened.parts, "not-an-open-index"),
        (testing.check_gathered_damage, IgnoresDamage, "excludes-matching-files"),
        (testing.check_gathered_damage, FailsOnDamage, "damage-raises"),
    ],
)
def test_wrong_structures_of_many_files(check, wrong, reason):
    fails(check, gathering(wrong), NUMBERS, reason=reason)


@dataclass(frozen=True)
class UnsteadyDigest(Broken):
    """Random digests."""

    def digest(self, payload, layout):
        return super().digest(payload, layout) + os.urandom(8)


@dataclass(frozen=True)
class TextDigest(Broken):
    """Digests that are not bytes."""

    def digest(self, payload, layout):
        return "digest"


@dataclass(frozen=True)
class UnevenParts(Broken):
    """Parts that cannot be divided into their pieces."""

    def gather(self, digests):
        return [GatheredPart("values", b"12345", 2)]


@pytest.mark.parametrize(
    ("index", "reason"),
    [
        (UnsteadyDigest("x"), "not-deterministic"),
        (TextDigest("x"), "digest-not-bytes"),
        (UnevenParts("x"), "invalid-parts"),
    ],
)
def test_wrong_digests(index, reason):
    fails(testing.check_gathered, index, NUMBERS, reason=reason)


def test_kinds_that_do_not_gather_pass():
    testing.check_gathered(Trusting("x"), NUMBERS)
    testing.check_gathered_damage(Trusting("x"), NUMBERS)
