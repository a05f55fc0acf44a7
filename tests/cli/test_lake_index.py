"""`intarsia lake-index`: build, update and delete the lake index."""

from __future__ import annotations

import json

import pytest

import intarsia as ia
from intarsia.lake.discovery import LAKE_INDEX_FOLDER
from intarsia.lake.index.folder import LakeIndexFolder
from tests.lake.index.lakes import age, make_lake, opened_files, rows_of_day, write


@pytest.fixture
def lake(tmp_path):
    return make_lake(tmp_path / "lake", 4, [ia.Bloom("user")])


def report(outcome):
    return json.loads(outcome.out)


def test_build_and_update(run, lake):
    outcome = run("lake-index", lake)
    assert (outcome.code, outcome.err) == (0, "")
    assert outcome.out.startswith("lake index: 4 of 4 files added in ")
    write(lake / "day-004.parquet", rows_of_day(4), [ia.Bloom("user")])
    found = report(run("lake-index", lake, "--json"))
    assert found["files"] == {"total": 5, "known": 4, "added": 1}
    assert (found["recent"], found["failed"]) == ([], [])
    assert [folder.path for folder in LakeIndexFolder.find(str(lake))] == [found["folder"]]
    assert opened_files(ia.open(lake), "user = 31") == 1


def test_the_query_of_the_command_uses_it(run, lake):
    run("lake-index", lake)
    document = report(run("explain", lake, "--where", "user = 31", "--json"))
    assert document["files"] == {"total": 4, "read": 1, "opened": 1, "other": 0}


def test_beside(run, lake):
    found = report(run("lake-index", lake, "--beside", "--json"))
    assert found["folder"] == str(lake / LAKE_INDEX_FOLDER)


def test_remove(run, lake):
    folders = [report(run("lake-index", lake, *where, "--json"))["folder"] for where in ([], ["--beside"])]
    assert report(run("lake-index", lake, "--remove", "--json")) == {"removed": folders}
    assert LakeIndexFolder.find(str(lake)) == []
    outcome = run("lake-index", lake, "--remove")
    assert (outcome.code, outcome.err) == (0, "")
    assert len(outcome.out.splitlines()) == 1


def test_a_damaged_file_is_reported(run, lake):
    path = lake / "day-001.parquet"
    path.write_bytes(path.read_bytes()[:-5])
    age(path)
    outcome = run("lake-index", lake)
    assert outcome.code == 1
    assert str(path) in outcome.err
    assert outcome.out.startswith("lake index: 3 of 4 files added in ")


def test_wrong_usage(run, lake, tmp_path):
    assert run("lake-index", lake, "--beside", "--remove").code == 2
    assert run("lake-index", tmp_path / "nowhere").code == 1


@pytest.mark.parametrize("arguments", [("lake-index",), ("index", "--page-index", "--lake-index", "cache")])
def test_a_single_file_has_none(run, lake, arguments):
    """It would never be used."""
    path = lake / "day-001.parquet"
    before = path.read_bytes()
    outcome = run(*arguments, path)
    assert (outcome.code, outcome.out) == (2, "")
    assert str(path) in outcome.err
    assert path.read_bytes() == before
    for table in (ia.open(path), ia.open([path])):
        with pytest.raises(ia.IndexBuildError) as caught:
            table.build_lake_index()
        assert (caught.value.reason, caught.value.path) == ("single-file", str(path))


def test_a_folder_with_one_file_has_one(run, tmp_path):
    """It is used when there are more files."""
    lake = make_lake(tmp_path / "lake", 1, [ia.Bloom("user")])
    assert run("lake-index", lake).code == 0
    write(lake / "day-004.parquet", rows_of_day(4), [ia.Bloom("user")])
    assert opened_files(ia.open(lake), "user = 31") == 1


def test_index_builds_it_and_updates_it(run, tmp_path):
    lake = make_lake(tmp_path / "lake", 4, ())
    assert report(run("index", lake, "--bloom", "user", "--json"))["lake_index"] is None
    outcome = run("index", lake, "--distinct", "country", "--lake-index", "beside")
    assert (outcome.code, outcome.err) == (0, "")
    assert f"stored in {lake / LAKE_INDEX_FOLDER}" in outcome.out.splitlines()
    found = report(run("index", lake, "--add", "zone_map(amount)", "--json"))["lake_index"]
    assert (found["folder"], found["files"]["added"]) == (str(lake / LAKE_INDEX_FOLDER), 4)


def test_index_reports_the_files_if_the_lake_index_cannot_be_written(run, tmp_path):
    lake = make_lake(tmp_path / "lake", 4, ())
    folder = lake / LAKE_INDEX_FOLDER
    folder.write_bytes(b"")  # where a folder belongs
    outcome = run("index", lake, "--bloom", "user", "--lake-index", "beside", "--json")
    assert outcome.code == 1
    found = json.loads(outcome.out)
    assert (found["files"]["indexed"], found["lake_index"]) == (4, None)
    outcome = run("index", lake, "--bloom", "user", "--lake-index", "beside")
    assert outcome.code == 1
    assert outcome.err.startswith(f"intarsia: {folder}: ")


def test_index_reports_a_damaged_file_once(run, lake):
    path = lake / "day-001.parquet"
    path.write_bytes(path.read_bytes()[:-5])
    age(path)
    outcome = run("index", lake, "--page-index", "--lake-index", "cache")
    assert outcome.code == 1
    assert outcome.err.count(str(path)) == 1
    assert run("index", lake, "--page-index", "--lake-index", "elsewhere").code == 2
