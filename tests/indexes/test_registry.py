"""Built-in and registered kinds are found, and a broken package is reported rather than raised."""

from __future__ import annotations

import subprocess
import sys
from dataclasses import replace

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

import intarsia as ia
from intarsia.file import ParquetInput
from intarsia.indexes import registry
from tests.verify.damage import change_directory

BROKEN = {
    "absent": ("nowhere.at.all:Absent", "ModuleNotFoundError"),
    "typo": ("intarsia.indexes.distinct:Distinkt", "AttributeError"),
    "function": ("intarsia.indexes.layout:parameters", "class"),
    "underived": ("intarsia.indexes.layout:Layout", "does not derive from intarsia.indexes.Index"),
    "other": ("intarsia.indexes.distinct:Distinct", "'distinct'"),
}


@pytest.fixture
def announced(announce):
    announce({kind: value for kind, (value, _) in BROKEN.items()})


@pytest.mark.parametrize("kind", registry.known_kinds())
def test_built_in(kind):
    cls = registry.find_index_class(kind)
    assert cls.kind == kind
    assert registry.find_index_class(kind) is cls


@pytest.mark.parametrize("kind", BROKEN)
def test_a_broken_package(announced, kind):
    assert kind in registry.known_kinds()
    assert registry.find_index_class(kind) is None
    for part in (*BROKEN[kind], kind):
        assert part in registry.why_unknown(kind)


def test_a_file_whose_kind_cannot_be_loaded_is_read_with_a_note(announced, tmp_path):
    path = tmp_path / "t.parquet"
    padding = [str(row) * 1000 for row in range(10)]
    pq.write_table(pa.table({"x": range(10), "padding": padding}), path)
    ia.attach(path, [ia.Distinct("x")])

    def change(directory):
        (entry,) = directory.entries
        return replace(directory, entries=(replace(entry, kind="absent"),))

    change_directory(path, change)
    scan = ia.open(path).scan("x = 3")
    with pytest.warns(ia.IntarsiaWarning):
        assert scan.to_arrow().num_rows == 1
    assert [(note.index, note.code) for note in scan.report.ignored] == [("distinct(x):page", "unknown-kind")]
    (entry,) = ia.inspect(path).directory.entries
    assert (entry.kind, entry.is_known) == ("absent", False)
    assert [finding.rule for finding in ia.verify(path).findings] == ["index-kind-unknown"]


def test_finding_every_class_loads_no_sketches():
    program = (
        "import sys; from intarsia.indexes.registry import find_index_class, known_kinds\n"
        "assert all(map(find_index_class, known_kinds()))\n"
        "assert 'datasketches' not in sys.modules\n"
    )
    subprocess.run([sys.executable, "-c", program], check=True)


def test_files_with_the_same_index_share_its_object_but_not_with_other_parameters(tmp_path):
    found = []
    for number, index in enumerate((ia.Ngram("x"), ia.Ngram("x"), ia.Ngram("x", n=4))):
        path = tmp_path / f"{number}.parquet"
        pq.write_table(pa.table({"x": ["some text"]}), path)
        ia.attach(path, [index])
        with ParquetInput.open(path) as file:
            (entry,) = file.directory.entries
        found.append(registry.find_index(entry).index)
        assert found[-1] == index
    assert found[0] is found[1]
    one, true = ({**entry.parameters, "max_grams": value} for value in (1, True))  # which are equal
    assert registry.find_index(replace(entry, parameters=one)).index is not None
    assert registry.find_index(replace(entry, parameters=true)).fault == "damaged"
