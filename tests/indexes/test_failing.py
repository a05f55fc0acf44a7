"""An index whose class fails is ignored: the rows are right, and one warning names the failure."""

import os
import warnings
from dataclasses import dataclass
from typing import ClassVar

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

import intarsia as ia
from intarsia.indexes import Index, OpenIndex, granule_rows
from intarsia.rows.selection import RowSelection

#: The methods that may fail.
METHODS = ["columns", "can_prune", "can_estimate", "open", "candidate_rows", "certain_rows", "estimated_rows"]
ERRORS = [
    KeyError("gone"), ValueError("odd"), IndexError(3), ZeroDivisionError(), pa.ArrowInvalid("odd"),
    ia.PredicateError("odd"),
]  # fmt: skip


@dataclass(frozen=True)
class Fragile(Index):
    """An index for which every row might match. Its methods fail on request."""

    kind: ClassVar[str] = "fragile"
    version: ClassVar[int] = 1
    fails: ClassVar[dict[str, Exception]] = {}

    column: str

    @property
    def columns(self):
        self._may_fail("columns")
        return (self.column,)

    def can_prune(self, predicate):
        self._may_fail("can_prune")
        return True

    def can_estimate(self, predicate):
        self._may_fail("can_estimate")
        return True

    def build(self, chunk):
        self._may_fail("build")
        return b"any"

    def open(self, payload, layout):
        self._may_fail("open")
        return OpenFragile(layout.num_rows)

    @classmethod
    def _may_fail(cls, method):
        if method in cls.fails:
            raise cls.fails[method]


@dataclass(frozen=True)
class OpenFragile(OpenIndex):
    num_rows: int

    def candidate_rows(self, predicate):
        Fragile._may_fail("candidate_rows")
        return RowSelection.all(self.num_rows)

    def certain_rows(self, predicate):
        Fragile._may_fail("certain_rows")

    def estimated_rows(self, predicate):
        Fragile._may_fail("estimated_rows")
        return 1.0


@pytest.fixture
def path(tmp_path, announce):
    announce({"fragile": f"{__name__}:Fragile"})
    path = tmp_path / "a.parquet"
    pq.write_table(pa.table({"x": list(range(1000)) * 5, "y": range(5000)}), path)
    ia.attach(path, [ia.PageIndex(), Fragile("x")])
    return path


@pytest.mark.parametrize("error", ERRORS, ids=lambda error: type(error).__name__)
@pytest.mark.parametrize("method", METHODS)
def test_the_rows_are_right_and_one_warning_is_given(path, monkeypatch, method, error):
    table = ia.open(path)
    where = "x = 7 AND y > 100"
    monkeypatch.setattr(Fragile, "fails", {method: error})
    for count in (lambda: table.scan(where).to_arrow().num_rows, lambda: table.count(where)):
        with pytest.warns(ia.IntarsiaWarning, match=r"fragile\(x\)") as caught:
            assert count() == 4
        assert len(caught) == 1
    report = table.explain(where, analyze=True)
    assert (report.rows_matched, report.rows_estimated) == (4, None)
    assert [note.index for note in report.ignored] == ["fragile(x):file"]


@pytest.mark.parametrize("error", ERRORS, ids=lambda error: type(error).__name__)
@pytest.mark.parametrize("method", METHODS)
def test_verify_reports_it_and_continues(path, monkeypatch, method, error):
    monkeypatch.setattr(Fragile, "fails", {method: error})
    findings = ia.verify(path).findings
    assert {(finding.rule, finding.index) for finding in findings} == {("index-damaged", "fragile(x):file")}


@pytest.mark.parametrize("error", ERRORS, ids=lambda error: type(error).__name__)
def test_verify_reports_an_index_that_cannot_be_built_again(path, monkeypatch, error):
    monkeypatch.setattr(Fragile, "fails", {"build": error})
    assert [finding.rule for finding in ia.verify(path).findings] == ["unchecked"]


def test_verify_reports_an_index_that_builds_something_else(path, monkeypatch):
    monkeypatch.setattr(Fragile, "build", lambda self, chunk: np.array([1, 2]))
    assert [finding.rule for finding in ia.verify(path).findings] == ["unchecked"]


@pytest.mark.parametrize("error", ERRORS, ids=lambda error: type(error).__name__)
def test_columns_that_fail_are_refused(path, monkeypatch, error):
    monkeypatch.setattr(Fragile, "fails", {"columns": error})
    with pytest.raises(ia.IntarsiaError):
        ia.attach(path, Fragile("y"))


@pytest.mark.parametrize("reason", [7, {}, ["text"]], ids=repr)
def test_a_shortfall_that_is_not_text_is_refused(path, monkeypatch, reason):
    before = path.read_bytes()
    monkeypatch.setattr(Fragile, "shortfall", lambda self, payload, layout: reason)
    with pytest.raises(ia.IndexBuildError) as caught:
        ia.attach(path, Fragile("y"))
    assert caught.value.reason == "invalid-shortfall"
    assert path.read_bytes() == before


@pytest.mark.parametrize("digest", [True, "text", [b"x"]], ids=repr)
def test_a_digest_that_is_not_bytes_is_left_out(path, monkeypatch, digest):
    monkeypatch.setattr(Fragile, "digest", lambda self, payload, layout: digest)
    pq.write_table(pa.table({"x": [7], "y": [1]}), path.parent / "b.parquet")
    for name in ("a", "b"):
        os.utime(path.parent / f"{name}.parquet", (1_600_000_000, 1_600_000_000))
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", ia.IntarsiaWarning)
        assert ia.open(path.parent).build_lake_index("beside").files_added == 2
    assert ia.open(path.parent).count("x = 7") == 6


def test_the_edges_of_rows_cannot_be_changed(path, monkeypatch):
    """They are those of the footer: the rows would be wrong for all."""

    def open_index(self, payload, layout):
        layout.row_group_edges[:] = 0

    monkeypatch.setattr(Fragile, "open", open_index)
    table = ia.open(path)
    for _ in range(2):
        with pytest.warns(ia.IntarsiaWarning, match=r"fragile\(x\)"):
            assert table.count("x = 7 AND y > 100") == 4

    def build(self, chunk):
        chunk.layout.page_edges["y"][:] = 0

    monkeypatch.setattr(Fragile, "build", build)
    with pytest.raises(ia.IndexBuildError) as caught:
        ia.attach(path, Fragile("y"))
    assert caught.value.reason == "index-failed"


@pytest.mark.parametrize("method", ["candidate_rows", "certain_rows"])
def test_rows_of_another_type_are_ignored(path, monkeypatch, method):
    monkeypatch.setattr(OpenFragile, method, lambda self, predicate: [0, 1])
    with pytest.warns(ia.IntarsiaWarning, match="returned list, not a RowSelection"):
        assert ia.open(path).count("x = 7 AND y > 100") == 4


@pytest.mark.parametrize("method", ["candidate_rows", "certain_rows"])
def test_verify_names_rows_of_another_type(path, monkeypatch, method):
    monkeypatch.setattr(OpenFragile, method, lambda self, predicate: [0, 1])
    (finding,) = ia.verify(path).findings
    assert finding.rule == "index-damaged"
    assert "returned list, not a RowSelection" in finding.message


@pytest.mark.parametrize("num_bytes", [3, 3000])
@pytest.mark.parametrize("keys", [{1: 2}, {b"key": 2}, {"key": b"value"}, None, [1]], ids=repr)
def test_footer_keys_of_another_type_are_refused(path, monkeypatch, keys, num_bytes):
    ia.detach(path)
    monkeypatch.setattr(Fragile, "build", lambda self, chunk: b"x" * num_bytes)
    monkeypatch.setattr(Fragile, "footer_keys", lambda self, offset: keys)
    with pytest.raises(ia.IndexBuildError) as caught:
        ia.attach(path, [Fragile("x")])
    assert caught.value.reason == ("invalid-footer-keys" if isinstance(keys, dict) else "index-failed")
    monkeypatch.setattr(Fragile, "footer_keys", lambda self, offset: {b"key": b"value"})
    ia.attach(path, [Fragile("x")])
    monkeypatch.setattr(Fragile, "footer_keys", lambda self, offset: None)
    assert ia.detach(path).detached


def test_an_estimate_of_another_type_is_ignored(path, monkeypatch):
    monkeypatch.setattr(OpenFragile, "estimated_rows", lambda self, predicate: "many")
    report = ia.open(path).explain("x = 7 AND y > 100")
    assert (report.rows_estimated, [note.index for note in report.ignored]) == (None, ["fragile(x):file"])


def test_numbers_do_not_select_granules():
    edges = np.array([0, 2, 5])
    for hit in ([1, 1], np.array([0.0, 1.0])):
        with pytest.raises(TypeError):
            granule_rows(edges, hit)
    assert granule_rows(edges, [False, True]) == RowSelection.from_ranges([(2, 5)])


@pytest.mark.parametrize("error", [*ERRORS, pa.ArrowKeyError("gone")], ids=lambda error: type(error).__name__)
@pytest.mark.parametrize("method", ["build", "shortfall", "footer_keys"])
def test_a_failure_on_one_file_leaves_the_others(path, monkeypatch, method, error):
    for name in ("b", "c"):
        pq.write_table(pa.table({"x": [1, 2]}), path.with_name(f"{name}.parquet"))
    ia.detach(path)

    def fail_on_the_second(self, *arguments):
        calls.append(arguments)
        if len(calls) == 2:
            raise error
        return b"any" if method == "build" else {} if method == "footer_keys" else None

    calls = []
    monkeypatch.setattr(Fragile, method, fail_on_the_second)
    with pytest.raises(ia.FilesFailedError) as caught:
        ia.attach(path.parent, [Fragile("x")])
    assert list(caught.value.errors) == [str(path.with_name("b.parquet"))]
    assert caught.value.report.files_total == 3


def test_without_a_failure_there_is_no_note(path):
    report = ia.open(path).explain("x = 7 AND y > 100", analyze=True)
    assert (report.rows_matched, report.ignored) == (4, [])
