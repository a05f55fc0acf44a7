"""`attach` and `detach` on folders, globs and lists: bad files are reported, the rest are done."""

from __future__ import annotations

import io
import pickle
from pathlib import Path

import obstore
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from obstore.store import MemoryStore

import intarsia as ia

INDEXES = [ia.PageIndex(), ia.Distinct("city")]
NAMES = ("page_index", "distinct(city):page")


def parquet_bytes():
    sink = io.BytesIO()
    pq.write_table(pa.table({"city": ["Bern", "Basel"] * 50}), sink)
    return sink.getvalue()


@pytest.fixture
def lake(tmp_path):
    """Three Parquet files in folders of partitions, and a note."""
    for name in ("p=0/a.parquet", "p=0/b.parquet", "p=1/c.parquet", "p=1/notes.txt"):
        path = tmp_path / "lake" / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_bytes(b"a note" if path.suffix == ".txt" else parquet_bytes())
    return tmp_path / "lake"


def contents(lake):
    return {path: path.read_bytes() for path in sorted(lake.rglob("*")) if path.is_file()}


@pytest.mark.parametrize(
    ("source", "others"),
    [
        (lambda lake: lake, 1),
        (lambda lake: f"{lake}/", 1),
        (lambda lake: lake.as_uri(), 1),
        (lambda lake: f"{lake}/p=*/*.parquet", 0),
        (lambda lake: [lake / "p=0", *map(str, lake.glob("p=1/*.parquet"))], 0),
        (lambda lake: [lake, lake / "p=1"], 1),
    ],
    ids=["folder", "slash", "URL", "glob", "list", "twice"],
)
def test_many_files(lake, source, others):
    before = contents(lake)
    report = ia.attach(source(lake), INDEXES)
    assert isinstance(report, ia.IndexReport)
    assert (report.files_total, report.files_indexed, report.files_other) == (3, 3, others)
    assert (report.built, report.kept, report.changed) == (NAMES, (), True)
    assert report.bytes_added == sum(map(len, contents(lake).values())) - sum(map(len, before.values()))
    again = ia.attach(source(lake), INDEXES)
    assert (again.built, again.kept, again.changed, again.files_unchanged) == ((), NAMES, False, 3)
    restored = ia.detach(source(lake))
    assert isinstance(restored, ia.RestoreReport)
    assert (restored.files_total, restored.files_detached, restored.files_other) == (3, 3, others)
    assert (restored.detached, restored.removed) == (True, NAMES)
    assert restored.bytes_removed == report.bytes_added
    assert contents(lake) == before
    assert not ia.detach(source(lake)).detached


def test_the_path_of_a_file_gives_its_own_report(lake):
    """A list or glob of one file gives a combined report: the type follows from the argument."""
    path = lake / "p=0" / "a.parquet"
    assert isinstance(ia.attach(path, INDEXES), ia.AttachReport)
    assert isinstance(ia.attach([path], INDEXES), ia.IndexReport)
    assert isinstance(ia.attach(f"{path.parent}/a*", INDEXES), ia.IndexReport)
    assert isinstance(ia.detach(str(path)), ia.DetachReport)
    assert isinstance(ia.detach([path]), ia.RestoreReport)


def test_a_file_with_the_characters_of_a_glob_in_its_name(lake):
    path = lake / "a[1].parquet"
    path.write_bytes(parquet_bytes())
    assert isinstance(ia.attach(path, INDEXES), ia.AttachReport)
    assert ia.detach(path).detached


def test_bad_files_are_reported_and_the_rest_are_done(lake):
    bad, cut = lake / "p=0" / "b.parquet", lake / "p=1" / "c.parquet"
    bad.write_bytes(b"not a Parquet file at all")
    cut.write_bytes(cut.read_bytes()[:-20])
    before = contents(lake)
    for act, done in ((lambda: ia.attach(lake, INDEXES), "files_indexed"), (lambda: ia.detach(lake), None)):
        with pytest.raises(ia.FilesFailedError) as caught:
            act()
        error = caught.value
        assert error.reason == "files-failed"
        assert list(error.errors) == [str(bad), str(cut)]
        assert {type(found) for found in error.errors.values()} == {ia.CorruptFileError}
        assert error.report.files_total == 3
        assert len(error.report.failed) == 2
        assert all(path in str(error) for path in error.errors)
        assert pickle.loads(pickle.dumps(error)).errors.keys() == error.errors.keys()
        if done is not None:
            assert getattr(error.report, done) == 1
            assert ia.inspect(lake / "p=0" / "a.parquet").directory is not None
    assert contents(lake) == before


def test_a_column_that_does_not_exist_changes_no_file(lake):
    before = contents(lake)
    with pytest.raises(ia.ColumnNotFoundError) as caught:
        ia.attach(lake, [ia.PageIndex(), ia.Distinct("citty")])
    assert (caught.value.column, caught.value.near) == ("citty", ("city",))
    assert contents(lake) == before


def test_progress_is_counted_in_files(lake):
    calls = []
    ia.attach(lake, INDEXES, progress=lambda *args: calls.append(args))
    paths = [str(path) for path in contents(lake) if path.suffix == ".parquet"]
    assert calls == [*((done, 3, path) for done, path in enumerate(paths)), (3, 3, "")]


@pytest.mark.parametrize("path", ["nothing", "nothing*", []])
def test_nothing_there(tmp_path, path):
    source = path if isinstance(path, list) else str(tmp_path / path)
    for act in (lambda: ia.attach(source, INDEXES), lambda: ia.detach(source)):
        with pytest.raises(FileNotFoundError):
            act()


@pytest.mark.parametrize("slash", ["", "/"])
def test_a_folder_of_objects(put_behind_urls, slash):
    store = MemoryStore()
    for name in ("a.parquet", "deep/b.parquet", "notes.txt"):
        obstore.put(store, f"lake/{name}", parquet_bytes())
    put_behind_urls(store)
    report = ia.attach(f"s3://bucket/lake{slash}", INDEXES)
    assert (report.files_indexed, report.files_other) == (2, 1)
    assert isinstance(ia.attach("s3://bucket/lake/a.parquet", INDEXES), ia.AttachReport)
    assert ia.detach(f"s3://bucket/lake{slash}").files_detached == 2
    with pytest.raises(FileNotFoundError):
        ia.attach("s3://bucket/nothing", INDEXES)


def test_relative_paths(lake, monkeypatch):
    monkeypatch.chdir(lake)
    assert ia.attach(Path("p=0"), INDEXES).files_indexed == 2
    assert ia.attach(".", INDEXES).files_unchanged == 2
