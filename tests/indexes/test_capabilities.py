"""Indexes are used by their capabilities, never by their kind. Third-party classes work like built-in ones.

The classes here share no code with the built-in kinds, and are only registered by entry points.
"""

from __future__ import annotations

import io
import re
from dataclasses import dataclass, replace
from itertools import pairwise
from pathlib import Path
from types import SimpleNamespace
from typing import ClassVar

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq
import pytest

import intarsia as ia
from intarsia.indexes import GranuleSummaries, Index, OpenIndex, summary_schema
from intarsia.indexes.distinct_counter import DistinctCounter

ROWS, ROWS_PER_GROUP = 6000, 1000


@dataclass(frozen=True)
class Zones(Index):
    """Minimum, maximum and sum of each row group of an integer column. It prunes nothing."""

    kind: ClassVar[str] = "zones"
    version: ClassVar[int] = 1
    column: str

    def build(self, chunk):
        values = pa.concat_arrays([piece for _, piece in chunk.batches(self.column)])
        edges = chunk.layout.row_group_edges.tolist()
        granules = [values.slice(a, b - a) for a, b in pairwise(edges)]
        rows = [(pc.min(g).as_py(), pc.max(g).as_py(), pc.sum(g).as_py(), g.null_count) for g in granules]
        sink = io.BytesIO()
        np.save(sink, np.array(rows, dtype=np.int64), allow_pickle=False)
        return sink.getvalue()

    def open(self, payload, layout):
        rows = np.load(io.BytesIO(payload), allow_pickle=False)
        return OpenZones(layout.row_group_edges, rows)

    def can_prune(self, predicate):
        return False

    def can_summarize(self, column):
        return True


@dataclass(frozen=True)
class OpenZones(OpenIndex):
    edges: np.ndarray
    totals: np.ndarray

    def granule_summaries(self, column):
        low, high, total, nulls = self.totals.T
        schema = summary_schema(pa.int64())
        sums = pa.array(total).cast(schema.field("sum").type)
        counts = [np.diff(self.edges), nulls, np.zeros(len(nulls), np.int64)]
        summaries = pa.table([low, high, sums, *counts], schema=schema)
        return GranuleSummaries(self.edges, summaries, np.ones(len(low), dtype=bool))


@dataclass(frozen=True)
class Lies(Zones):
    """Returns summaries that a test replaces."""

    kind: ClassVar[str] = "lies"
    says: ClassVar = staticmethod(lambda found: found)

    def open(self, payload, layout):
        return OpenLies(super().open(payload, layout), type(self).says)


@dataclass(frozen=True)
class OpenLies(OpenIndex):
    truth: OpenZones
    says: object

    def granule_summaries(self, column):
        return self.says(self.truth.granule_summaries(column))


@dataclass(frozen=True)
class Counted(Zones):
    """A sketch of the whole file."""

    kind: ClassVar[str] = "counted"

    def build(self, chunk):
        counter = DistinctCounter(12)
        for _, piece in chunk.batches(self.column):
            counter.add(piece)
        return counter.to_sketch()[0]

    def open(self, payload, layout):
        return OpenCounted(np.array([0, layout.num_rows]), payload)

    def can_summarize(self, column):
        return False

    def can_sketch(self, column):
        return True


@dataclass(frozen=True)
class OpenCounted(OpenIndex):
    edges: np.ndarray
    sketch: bytes

    def add_to(self, counter, granules):
        from datasketches import hll_sketch

        if granules.any():
            counter.add_sketch(hll_sketch.deserialize(self.sketch))


@dataclass(frozen=True)
class Tail(Index):
    """The last rows of a file. They are not a uniform sample, but a test can recognise them."""

    kind: ClassVar[str] = "tail"
    version: ClassVar[int] = 1
    n: int
    columns = property(lambda self: ())

    def build(self, chunk):
        rows = chunk.rows(np.arange(chunk.layout.num_rows - self.n, chunk.layout.num_rows))
        sink = pa.BufferOutputStream()
        with pa.ipc.new_stream(sink, rows.schema) as writer:
            writer.write_table(rows)
        return bytes(sink.getvalue())

    def open(self, payload, layout):
        rows = pa.ipc.open_stream(payload).read_all()
        return OpenTail(np.arange(layout.num_rows - len(rows), layout.num_rows), rows)

    def can_prune(self, predicate):
        return False

    def num_sampled(self, num_rows):
        return min(self.n, num_rows)


@dataclass(frozen=True)
class OpenTail(OpenIndex):
    ordinals: np.ndarray
    rows: pa.Table


@pytest.fixture(autouse=True)
def announced(announce):
    announce({cls.kind: f"{__name__}:{cls.__name__}" for cls in (Zones, Lies, Counted, Tail)})


@pytest.fixture
def path(tmp_path):
    random = np.random.default_rng(3)
    amounts = pa.array(random.integers(-500, 500, ROWS), mask=random.random(ROWS) < 0.1)
    columns = {"id": np.arange(ROWS), "amount": amounts, "text": [f"text {row}" for row in range(ROWS)]}
    pq.write_table(
        pa.table(columns), tmp_path / "t.parquet", row_group_size=ROWS_PER_GROUP, write_page_index=True
    )
    return tmp_path / "t.parquet"


@pytest.mark.parametrize("where", [None, "id < 3000", "id >= 1000"])
def test_a_foreign_zone_map_answers_sums_as_the_built_in_one_does(path, where):
    asked = {"amount": ["sum", "min", "max", "count", "avg"]}
    expected = ia.open(path).aggregate(asked, where=where)
    assert expected.report.to_dict()["pages"]["read"] > 0
    ia.attach(path, [Zones("amount")])
    found = ia.open(path).aggregate(asked, where=where)
    assert found == expected
    report = found.report.to_dict()
    assert report["pages"]["read"] == report["row_groups"]["read"] == 0
    assert "zones(amount):file" in [step["index"] for step in report["answered_by"]]


def test_rows_at_the_edge_of_a_granule_are_read(path):
    ia.attach(path, [Zones("amount")])
    found = ia.open(path).aggregate({"amount": "sum"}, where="id < 1500")
    table = pq.read_table(path).slice(0, 1500)
    assert found["amount"]["sum"] == pc.sum(table["amount"]).as_py()
    assert found.report.row_groups_read == 1


def _with_other_rows(summaries):
    columns = summaries.columns
    columns[3] = pa.chunked_array([np.full(len(summaries), 999)])
    return pa.table(columns, schema=summaries.schema)


@pytest.mark.parametrize(
    "lie",
    [
        lambda found: replace(found, edges=found.edges[:-1]),
        lambda found: replace(found, exact=found.exact[1:]),
        lambda found: replace(found, edges=found.edges + 1),
        lambda found: replace(found, summaries=found.summaries.drop("sum")),
        lambda found: replace(found, summaries=found.summaries.drop("min")),
        lambda found: replace(found, summaries=_with_other_rows(found.summaries)),
        lambda found: 1 / 0,
    ],
)
def test_summaries_that_do_not_agree_with_the_file_are_ignored(path, monkeypatch, lie):
    expected = ia.open(path).aggregate({"amount": ["sum"]})
    ia.attach(path, [Lies("amount")])
    monkeypatch.setattr(Lies, "says", staticmethod(lie))
    with pytest.warns(ia.IntarsiaWarning, match=r"lies\(amount\)"):
        found = ia.open(path).aggregate({"amount": ["sum"]})
    assert found == expected
    assert [note.index for note in found.report.ignored] == ["lies(amount):file"]


def test_summaries_may_turn_out_to_be_missing(path, monkeypatch):
    expected = ia.open(path).aggregate({"amount": ["sum"]})
    ia.attach(path, [Lies("amount")])
    monkeypatch.setattr(Lies, "says", staticmethod(lambda found: None))
    found = ia.open(path).aggregate({"amount": ["sum"]})
    assert found == expected
    assert found.report.answered_by == {}
    assert found.report.ignored == []


def test_a_foreign_sketch_is_counted(path):
    ia.attach(path, [Counted("text")])
    found = ia.open(path).approx_distinct("text")
    assert found.unindexed == ()
    assert found.report.to_dict()["pages"]["read"] == 0
    assert found.lower <= ROWS <= found.upper


def test_a_foreign_sample_is_taken(path):
    ia.attach(path, [Tail(50)])
    table = ia.open(path)
    found = table.sample()
    assert sorted(found["id"].to_pylist()) == list(range(ROWS - 50, ROWS))
    few = table.sample(20, seed=1)["id"].to_pylist()
    assert set(few) <= set(range(ROWS - 50, ROWS))


@pytest.mark.parametrize(
    "opened",
    [
        lambda payload: OpenCounted(np.array([0, ROWS - 1]), payload),
        lambda payload: OpenCounted(np.array([0, ROWS, 5, ROWS]), payload),
        lambda payload: OpenCounted(None, payload),
        lambda payload: OpenCounted(np.array([0, ROWS]), b"no sketch"),
        lambda payload: OpenIndex(),
        lambda payload: SimpleNamespace(edges=np.array([0, ROWS]), add_to=lambda counter, granules: None),
    ],
)
def test_a_sketch_that_fails_is_ignored(path, monkeypatch, opened):
    ia.attach(path, [Counted("text")])
    monkeypatch.setattr(Counted, "open", lambda self, payload, layout: opened(payload))
    with pytest.warns(ia.IntarsiaWarning, match=r"counted\(text\):file"):
        found = ia.open(path).approx_distinct("text")
    assert found.unindexed == (str(path),)
    assert found.lower <= ROWS <= found.upper


@pytest.mark.parametrize(
    "change",
    [
        lambda opened: replace(opened, ordinals=np.arange(3)),
        lambda opened: replace(opened, ordinals=np.arange(50)[::-1]),
        lambda opened: replace(opened, ordinals=np.arange(50) + ROWS),
        lambda opened: replace(opened, rows=pa.table({"id": np.arange(50)})),
        lambda opened: replace(opened, rows=None),
        lambda opened: OpenIndex(),
    ],
)
def test_a_sample_that_does_not_agree_with_the_file_is_ignored(path, monkeypatch, change):
    ia.attach(path, [Tail(50)])
    opens = Tail.open
    monkeypatch.setattr(Tail, "open", lambda self, payload, layout: change(opens(self, payload, layout)))
    with pytest.warns(ia.IntarsiaWarning, match=r"tail\(\):file"):
        found = ia.open(path).sample(50, seed=1)
    assert len(set(found["id"].to_pylist())) == 50
    assert min(found["id"].to_pylist()) < ROWS - 50


def test_a_sample_whose_class_fails_is_ignored(path, monkeypatch):
    ia.attach(path, [Tail(50)])
    monkeypatch.setattr(Tail, "num_sampled", lambda self, num_rows: "many")
    with pytest.warns(ia.IntarsiaWarning, match=r"tail\(\):file"):
        assert ia.open(path).sample(seed=1).num_rows == 1000


class Duck:
    """An object with the methods of an index, whose class does not derive from `Index`."""

    kind, version, columns = "duck", 1, ("amount",)

    def build(self, chunk):
        return b""

    def open(self, payload, layout):
        return OpenIndex()


@pytest.mark.parametrize("index", [Duck(), Duck, Zones])
def test_classes_that_do_not_derive_from_the_base_class_are_refused(path, index):
    with pytest.raises(ia.IndexBuildError, match=r"derives from intarsia\.indexes\.Index") as caught:
        ia.attach(path, [index])
    assert caught.value.reason == "not-an-index"


def test_an_opened_object_of_another_class_is_named(path, monkeypatch):
    ia.attach(path, [Zones("amount")])
    monkeypatch.setattr(Zones, "open", lambda self, payload, layout: Duck())
    with pytest.warns(ia.IntarsiaWarning, match=r"opened a Duck.*derive from intarsia\.indexes\.OpenIndex"):
        ia.open(path).aggregate({"amount": "sum"})
    (finding,) = ia.verify(path).findings
    assert (finding.rule, "OpenIndex" in finding.message) == ("index-damaged", True)


def test_parts_are_merged_only_if_granules_are_within_row_groups():
    merges = [ia.ZoneMap("x", granularity).can_merge() for granularity in ("page", "row_group", 100, "file")]
    assert merges == [True, True, True, False]
    assert not ia.RowMap("x").can_merge()


def test_a_class_without_open_cannot_be_created():
    @dataclass(frozen=True)
    class Closed(Index):
        column: str

        def build(self, chunk):
            return b""

    with pytest.raises(TypeError, match="abstract method"):
        Closed("x")


def test_only_advice_names_embedded_kinds():
    """All other code compares no kinds, and tests for no class of a kind."""
    source = Path(ia.__file__).parent
    kinds = "Distinct|ZoneMap|Hll|Sample|RowMap|Ngram|Histogram|BloomGranule"
    asks = re.compile(rf"\.kind\s*(==|!=)\s*\w+\.kind|isinstance\([^()]+, \(?(\w+, )*(Open)?({kinds})\b")
    asking = {
        path.relative_to(source).as_posix()
        for path in source.rglob("*.py")
        if asks.search(path.read_text(encoding="utf-8"))
    }
    assert asking == {
        "advice/candidates.py",
        "advice/measurement.py",
        "advice/measuring.py",
    }
