"""Kinds are found where they are built in or announced, and a broken package is told of, not raised."""

from __future__ import annotations

import subprocess
import sys
from importlib.metadata import EntryPoint

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

import intarsia as ia
from intarsia.indexes import registry

BROKEN = {
    "absent": ("nowhere.at.all:Absent", "cannot be imported: ModuleNotFoundError"),
    "typo": ("intarsia.indexes.distinct:Distinkt", "cannot be imported: AttributeError"),
    "function": ("intarsia.indexes.base:parameters", "is no class"),
    "other": ("intarsia.indexes.distinct:Distinct", "has the kind 'distinct'"),
}


@pytest.fixture
def announced(monkeypatch):
    entries = {kind: EntryPoint(kind, value, registry.GROUP) for kind, (value, _) in BROKEN.items()}
    monkeypatch.setattr(registry, "_announced", lambda: entries)
    return entries


@pytest.mark.parametrize("kind", registry._BUILT_IN)
def test_built_in(kind):
    cls = registry.find_index_class(kind)
    assert cls.kind == kind
    assert registry.find_index_class(kind) is cls


@pytest.mark.parametrize("kind", BROKEN)
def test_a_broken_package(announced, kind):
    assert kind in registry.known_kinds()
    assert registry.find_index_class(kind) is None
    assert BROKEN[kind][1] in registry.why_unknown(kind)
    assert "are announced by" in registry.why_unknown(kind)


def test_a_file_whose_kind_cannot_be_loaded_reads_with_a_note(announced, tmp_path, monkeypatch):
    path = tmp_path / "t.parquet"
    padding = [str(row) * 1000 for row in range(10)]
    pq.write_table(pa.table({"x": range(10), "padding": padding}), path)
    with monkeypatch.context() as patched:
        patched.setattr(ia.Distinct, "kind", "absent")
        ia.attach(path, [ia.Distinct("x")])
    with pytest.warns(ia.IntarsiaWarning, match="nowhere.at.all:Absent.*cannot be imported"):
        assert ia.open(path).scan("x = 3").to_arrow().num_rows == 1
    (entry,) = ia.inspect(path).directory.entries
    assert (entry.kind, entry.is_known) == ("absent", False)
    assert "cannot be imported" in entry.reason
    assert [finding.rule for finding in ia.verify(path).findings] == ["index-kind-unknown"]


def test_finding_every_class_loads_no_sketches():
    program = (
        "import sys; from intarsia.indexes.registry import find_index_class, known_kinds\n"
        "assert all(map(find_index_class, known_kinds()))\n"
        "assert 'datasketches' not in sys.modules\n"
    )
    subprocess.run([sys.executable, "-c", program], check=True)
