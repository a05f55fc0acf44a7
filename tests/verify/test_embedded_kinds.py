"""Embedded indexes of every kind: correct ones cause no finding, those of other values do."""

from dataclasses import dataclass
from typing import ClassVar

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from intarsia.check.verification import verify
from intarsia.embed import attach
from intarsia.indexes import Index, OpenIndex
from intarsia.indexes.base import PayloadBytes
from intarsia.indexes.bloom_granule import BloomGranule
from intarsia.indexes.distinct import Distinct
from intarsia.indexes.histogram import Histogram
from intarsia.indexes.hll import Hll
from intarsia.indexes.ngram import Ngram
from intarsia.indexes.rowmap import RowMap
from intarsia.indexes.sample import Sample
from intarsia.indexes.zonemap import ZoneMap
from intarsia.predicate.bound import BoundCompare, BoundMatch, BoundPrefix
from intarsia.rows.selection import RowSelection
from intarsia.storage import ByteRange
from tests.verify.damage import change_payload, only_payload

ROWS = 1200
ROWS_PER_GROUP = 520


def values(turn=0):
    """Values that ascend, with nulls; others for another file of the same layout."""
    numbers = range(turn, ROWS + turn)
    return pa.table(
        {
            "n": pa.array([None if n % 50 == 7 else n for n in numbers]),
            "text": pa.array([None if n % 40 == 3 else f"/path/{n // 3:05}.Html" for n in numbers]),
        }
    )


def write(path, turn=0):
    pq.write_table(
        values(turn), path, row_group_size=ROWS_PER_GROUP, max_rows_per_page=100, write_batch_size=20
    )
    return str(path)


@pytest.fixture
def path(tmp_path):
    return write(tmp_path / "file.parquet")


KINDS = [
    Distinct("n"), Distinct("text", granularity=140), Distinct("text", form="datafusion"), ZoneMap("n"),
    ZoneMap("text", granularity="row_group"), Histogram("n"), Hll("n"), Ngram("text"),
    Ngram("text", ignore_case=True, granularity=140), RowMap("n"), RowMap("text"), BloomGranule("n"),
    BloomGranule("text", granularity=140), Sample(100),
]  # fmt: skip


@pytest.mark.parametrize("index", KINDS, ids=str)
def test_correct_indexes(path, index):
    attach(path, [index])
    report = verify(path)
    assert [str(finding) for finding in report.findings] == []
    assert report.checked["embedded_rebuilt"] == report.checked["embedded_indexes"] == 1
    # an index without columns is queried for some rows of every column
    assert report.checked["embedded_rows"] == (ROWS if index.columns else 2 * ROWS_PER_GROUP)


@pytest.mark.parametrize("index", KINDS, ids=str)
def test_indexes_of_other_values(path, tmp_path, index):
    """The payload is whole and of the same shape, but describes values that are not in this file."""
    attach(path, [index])
    other = write(tmp_path / "other.parquet", turn=617)
    attach(other, [index])
    payload = only_payload(other)
    change_payload(path, lambda _: payload)
    report = verify(path)
    rules = {finding.rule for finding in report.findings}
    if isinstance(index, (Histogram, Hll, Sample)):  # they exclude nothing
        assert rules == {"index-not-reproduced"}
        assert report.ok
    else:
        assert "index-loses-rows" in rules
        assert not report.ok
    assert rules <= {"index-loses-rows", "index-claims-rows", "index-differs", "index-not-reproduced"}


# --- faulty classes --------------------------------------------------------------------------------------


@dataclass(frozen=True)
class Wrong(Index):
    """An index that answers as the test wants."""

    kind: ClassVar[str] = "wrong"
    version: ClassVar[int] = 1
    answer: ClassVar[object] = None
    column: str = ""

    @property
    def columns(self):
        return (self.column,) if self.column else ()

    def build(self, chunk):
        return b"payload"

    def open(self, payload, layout):
        return Answering(type(self).answer, layout.num_rows)


@dataclass(frozen=True)
class Answering(OpenIndex):
    """Gives all rows, or what the test wants."""

    answer: object
    num_rows: int

    def candidate_rows(self, predicate):
        return RowSelection.none() if self.answer(predicate) else RowSelection.all(self.num_rows)


@pytest.fixture
def attached(path, announce_class):
    """Attach an index whose class is registered while the test runs."""

    def attached(index):
        announce_class(type(index))
        attach(path, [index])
        return verify(path)

    return attached


def text_of(report, rule):
    """Return the findings of a rule; other findings fail the test."""
    assert {finding.rule for finding in report.findings} == {rule}
    return " ".join(finding.message for finding in report.findings)


@pytest.mark.parametrize(
    ("is_lost", "shown"),
    [
        (lambda leaf: isinstance(leaf, BoundMatch) and "ILIKE" in str(leaf), "text ILIKE '%"),
        (
            lambda leaf: isinstance(leaf, BoundMatch) and " LIKE '%" in str(leaf) and not leaf.negated,
            "LIKE '%",
        ),
        (lambda leaf: isinstance(leaf, BoundMatch) and leaf.negated, "text NOT LIKE '%"),
        (lambda leaf: isinstance(leaf, BoundMatch) and "RLIKE" in str(leaf), "text RLIKE '"),
        (lambda leaf: isinstance(leaf, BoundPrefix), "LIKE '/%'"),
        (lambda leaf: isinstance(leaf, BoundCompare) and leaf.op == ">=", "text >= '"),
    ],
)
def test_every_kind_of_query(attached, is_lost, shown):
    @dataclass(frozen=True)
    class Losing(Wrong):
        answer: ClassVar[object] = staticmethod(is_lost)

    report = attached(Losing("text"))
    assert shown in text_of(report, "index-loses-rows")
    assert {finding.row_group for finding in report.findings} == {0, 1, 2}


def test_a_probed_index_is_queried_by_probing(attached):
    """The whole payload answers rightly, and the parts of it do not."""

    @dataclass(frozen=True)
    class Probed(Wrong):
        answer: ClassVar[object] = staticmethod(lambda leaf: False)

        def build(self, chunk):
            return bytes(100_000)  # too large for the directory

        def open_source(self, source, layout):
            assert not isinstance(source, PayloadBytes)
            assert source.read_ranges([ByteRange(0, 8)]) == [bytes(8)]
            return Answering(lambda leaf: isinstance(leaf, BoundCompare) and leaf.op == "=", layout.num_rows)

    assert "rows where n = 0" in text_of(attached(Probed("n")), "index-loses-rows")


class Estimating(Answering):
    """Estimates what the test wants."""

    def estimated_rows(self, predicate):
        return self.answer

    def candidate_rows(self, predicate):
        return None


@dataclass(frozen=True)
class Guess(Wrong):
    """Estimates the same for every predicate."""

    def can_estimate(self, predicate):
        return True

    def open(self, payload, layout):
        return Estimating(type(self).answer, layout.num_rows)


@pytest.mark.parametrize("estimate", [-1.0, ROWS + 1, float("nan"), float("inf")])
@pytest.mark.parametrize("column", ["n", ""])
def test_estimates(attached, monkeypatch, column, estimate):
    monkeypatch.setattr(Guess, "answer", estimate)
    report = attached(Guess(column))
    assert f"of {ROWS} rows where n" in text_of(report, "index-estimate")
    assert report.ok
    # estimates are of all rows, so they are queried for one row group; without columns, of every column
    expected = {(0, "n"), (0, "text")} if not column else {(0, "n")}
    assert {(finding.row_group, finding.column) for finding in report.findings} == expected


@pytest.mark.parametrize("estimate", [0, 17.5, ROWS, None])
def test_estimates_within_the_file(attached, monkeypatch, estimate):
    monkeypatch.setattr(Guess, "answer", estimate)
    assert attached(Guess("n")).findings == ()


def test_an_index_without_rows(attached):
    """It supports no query, but is still rebuilt."""
    report = attached(Wrong())
    assert report.findings == ()
    assert report.checked["embedded_rebuilt"] == 1


def test_an_index_is_queried_only_for_supported_predicates(attached):
    @dataclass(frozen=True)
    class Picky(Wrong):
        answer: ClassVar[object] = staticmethod(lambda leaf: isinstance(leaf, BoundMatch))

        def can_prune(self, predicate):
            return not isinstance(predicate, BoundMatch)

    assert attached(Picky("text")).findings == ()


def test_an_index_that_cannot_be_rebuilt(attached):
    @dataclass(frozen=True)
    class Once(Wrong):
        answer: ClassVar[object] = staticmethod(lambda leaf: False)
        built: ClassVar[list] = []

        def build(self, chunk):
            if self.built:
                raise ValueError("only once")
            self.built.append(self)
            return b"payload"

    assert "only once" in text_of(attached(Once("n")), "unchecked")
