"""`verify(quick=True)` and `verify(sample=N)`: what they read, find and report."""

from __future__ import annotations

import json

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

import intarsia as ia
from intarsia.cli import main
from intarsia.format import thrift
from tests.verify.damage import Damage, change_column_index, change_location

ROWS = 4_000


@pytest.fixture
def path(tmp_path):
    path = str(tmp_path / "a.parquet")
    rng = np.random.default_rng(3)
    table = pa.table(
        {
            "id": range(ROWS),
            "x": rng.random(ROWS),
            "word": [None if n % 7 == 0 else f"w{n % 500}" for n in range(ROWS)],
            "user": rng.permutation(ROWS),
        }
    )
    options = {"write_page_index": True, "max_rows_per_page": 100, "write_batch_size": 100}
    pq.write_table(table, path, row_group_size=1000, **options)
    ia.attach(path, [ia.Distinct("word"), ia.RowMap("user"), ia.ZoneMap("x"), ia.Bloom("user")])
    return path


def spoil_data(path, row_group, column):
    """Change the bytes of a column chunk."""
    chunk = pq.read_metadata(path).row_group(row_group).column(column)
    with open(path, "r+b") as file:
        start = chunk.dictionary_page_offset or chunk.data_page_offset
        file.seek(start + 40)
        data = file.read(60)
        file.seek(start + 40)
        file.write(bytes(byte ^ 0x5A for byte in data))


def test_a_good_file(path):
    full, quick, sample = ia.verify(path), ia.verify(path, quick=True), ia.verify(path, sample=3)
    for report in (full, quick, sample):
        assert report.ok, [str(finding) for finding in report.findings]
        assert report.findings == ()
        assert report.chunks_total == 16
        assert report.checked["embedded_indexes"] == 3
    assert [(report.scope, report.chunks_read, report.seed) for report in (full, quick, sample)] == [
        ("full", 16, None),
        ("quick", 0, None),
        ("sample", 3, 0),
    ]
    assert "pages" not in quick.checked
    assert quick.checked["column_indexes"] == quick.checked["offset_indexes"] == 16
    assert sample.checked["column_chunks"] == 3
    assert quick.to_dict()["scope"] == "quick"


def test_quick_reads_no_data(path):
    for row_group in range(4):
        for column in range(4):
            spoil_data(path, row_group, column)
    assert not ia.verify(path).ok
    assert ia.verify(path, quick=True).ok


def test_quick_finds_damaged_metadata(tmp_path):
    def fresh():
        path = str(tmp_path / "b.parquet")
        pq.write_table(
            pa.table({"id": range(1000)}),
            path,
            write_page_index=True,
            max_rows_per_page=100,
            write_batch_size=100,
        )
        return path

    def rules(path):
        return {finding.rule for finding in ia.verify(path, quick=True).findings}

    path = fresh()
    assert rules(path) == set()
    change_column_index(path, column="id", null_counts=lambda old: [1, *old[1:]])
    assert rules(path) == {"null-count"}
    path = fresh()
    change_column_index(
        path, column="id", min_values=lambda old: [(-5).to_bytes(8, "little", signed=True), *old[1:]]
    )
    assert rules(path) == {"bounds-contradict-statistics"}
    path = fresh()
    change_column_index(path, column="id", boundary_order=lambda _: 2)
    assert rules(path) == {"boundary-order"}
    path = fresh()
    change_column_index(path, column="id", max_values=lambda old: [b"x", *old[1:]])
    assert rules(path) == {"bound-unreadable"}
    path = fresh()
    change_location(path, 3, first_row_index=lambda _: 5)
    assert "first-row-index" in rules(path)


def test_quick_finds_a_damaged_index(path):
    entry = next(entry for entry in ia.inspect(path).directory.entries if entry.offset is not None)
    with open(path, "r+b") as file:
        file.seek(entry.offset + entry.size_bytes - 4)
        file.write(b"none")
    assert [finding.rule for finding in ia.verify(path, quick=True).findings] == ["index-damaged"]


def test_a_sample_is_seeded(path):
    spoil_data(path, 2, 1)

    def damaged(seed, count):
        return bool(ia.verify(path, sample=count, seed=seed).findings)

    assert all(damaged(seed, 16) for seed in range(2))
    found = [damaged(seed, 4) for seed in range(7)]
    assert found[:2] == [damaged(seed, 4) for seed in range(2)]
    assert len(set(found)) == 2
    assert ia.verify(path, sample=1000).chunks_read == 16


@pytest.mark.parametrize("options", [{"sample": 0}, {"sample": -1}, {"sample": 1, "quick": True}])
def test_wrong_arguments(path, options):
    with pytest.raises(ValueError, match="sample"):
        ia.verify(path, **options)


def test_the_command(path, capsys):
    assert main(["verify", path, "--quick", "--json"]) == 0
    (report,) = json.loads(capsys.readouterr().out)["reports"]
    assert (report["scope"], report["chunks_read"]) == ("quick", 0)
    assert main(["verify", path, "--sample", "2", "--seed", "9", "--json"]) == 0
    (report,) = json.loads(capsys.readouterr().out)["reports"]
    assert (report["scope"], report["chunks_read"], report["seed"]) == ("sample", 2, 9)
    assert main(["verify", path, "--sample", "2"]) == 0
    assert "2 of 16 column chunks" in capsys.readouterr().out
    assert main(["verify", path, "--sample", "2", "--quick"]) == 2
    assert main(["verify", path, "--seed", "2"]) == 2


@pytest.mark.parametrize("options", [{}, {"quick": True}, {"sample": 1}])
def test_no_note_on_a_page_index_that_was_attached(tmp_path, options):
    """The writer is not trusted, but Intarsia replaced its page index."""
    path = str(tmp_path / "go.parquet")
    pq.write_table(pa.table({"id": [1, 2]}), path, write_page_index=True)
    damage = Damage(path)
    damage.tree.set(6, thrift.BINARY, b"github.com/segmentio/parquet-go")
    damage.write()
    assert [finding.rule for finding in ia.verify(path).findings] == ["writer-not-trusted"]
    assert ia.attach(path, ia.PageIndex()).built == ("page_index",)
    assert ia.verify(path, **options).findings == ()
