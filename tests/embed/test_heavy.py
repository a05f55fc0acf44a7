"""Notes on indexes that are larger than a tenth of a file."""

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

import intarsia as ia


@pytest.fixture(scope="module")
def rows():
    values = np.random.default_rng(1).permutation(200_000)
    return pa.table({"user": values, "other": values // 7, "text": [f"row {value}" for value in values]})


@pytest.fixture
def file(rows, tmp_path):
    path = tmp_path / "t.parquet"
    pq.write_table(rows, path, compression="none", use_dictionary=False)
    assert path.stat().st_size > 1_000_000
    return path


def test_a_heavy_index_gets_a_note_with_its_share(file):
    original = file.stat().st_size
    report = ia.attach(file, [ia.PageIndex(), ia.RowMap("user"), ia.RowMap("other"), ia.Distinct("other")])
    heavy = [note for note in report.notes if note.code == "heavy"]
    assert [(note.index, note.column) for note in heavy] == [
        ("row_map(user):file", "user"),
        ("row_map(other):file", "other"),
    ]
    assert [note.share for note in heavy] == [report.weights[note.index] / original for note in heavy]
    assert all(ia.RowMap.purpose in note.reason for note in heavy)
    assert set(report.weights) == set(report.built)
    # the rest are the footer, alignment, and headers
    assert 0 <= report.bytes_added - sum(report.weights.values()) < 60_000


def test_bloom_filters_are_weighed(file):
    report = ia.attach(file, ia.Bloom("user", fpp=0.000001))
    (note,) = [note for note in report.notes if note.code == "heavy"]
    assert (note.index, note.column) == ("bloom(user)", "user")
    assert note.share > 0.1
    # the second run builds nothing
    again = ia.attach(file, ia.Bloom("user", fpp=0.000001))
    assert (again.weights, again.notes) == ({}, ())


def test_small_files_get_no_note(rows, tmp_path):
    path = tmp_path / "small.parquet"
    pq.write_table(rows.slice(0, 5_000), path, compression="none", use_dictionary=False)
    report = ia.attach(path, ia.RowMap("user"))
    assert report.weights["row_map(user):file"] / path.stat().st_size > 0.1
    assert [note for note in report.notes if note.code == "heavy"] == []


def test_a_lake_has_one_line_for_all_files(rows, tmp_path):
    for place in range(3):
        part = rows.slice(0, 100_000 + place * 10_000)
        pq.write_table(part, tmp_path / f"{place}.parquet", compression="none", use_dictionary=False)
    report = ia.attach(tmp_path, ia.RowMap("user"))
    notes = [note for note in report.notes if note["code"] == "heavy"]
    assert len(notes) == 3
    assert all(note["share"] > 0.1 for note in notes)
    lines = [line for line in report.summary().splitlines() if line.startswith("note:")]
    assert len(lines) == 1
    assert "(3 files)" in lines[0]
