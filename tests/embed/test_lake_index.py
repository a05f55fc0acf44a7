"""Attaching to many files updates their lake index, or builds it on request."""

from __future__ import annotations

import pyarrow.parquet as pq
import pytest

import intarsia as ia
from intarsia.lake.index.facts import read_facts
from intarsia.lake.index.folder import LakeIndexFolder
from tests.counting import calls
from tests.lake.index.lakes import age, make_lake, opened_files, rows_of_day


@pytest.fixture
def lake(tmp_path):
    return make_lake(tmp_path / "lake", 4, ())


@pytest.mark.parametrize("location", ["cache", "beside"])
def test_it_is_built_on_request(lake, location):
    report = ia.attach(lake, ia.Bloom("user"), lake_index=location)
    found = report.lake_index
    assert (found.files_total, found.files_added, found.files_recent) == (4, 4, ())
    assert [folder.location for folder in LakeIndexFolder.find(str(lake))] == [location]
    assert opened_files(ia.open(lake), "user = 31") == 1
    assert report.to_dict()["lake_index"] == found.to_dict()
    assert found.summary() in str(report)


def test_none_is_created_by_default(lake):
    report = ia.attach(lake, ia.Bloom("user"))
    assert report.lake_index is None
    assert report.to_dict()["lake_index"] is None
    assert LakeIndexFolder.find(str(lake)) == []


def test_an_existing_one_is_updated(lake):
    ia.open(lake).build_lake_index("beside")
    report = ia.attach(lake, ia.Distinct("country"))
    assert report.lake_index.files_added == 4
    assert opened_files(ia.open(lake), "country = 'country 4'") == 1
    again = ia.attach(lake, ia.Distinct("country"))
    assert (again.lake_index.files_known, again.lake_index.files_added) == (4, 0)


def test_attaching_to_some_files_keeps_what_is_known_about_the_others(lake):
    ia.attach(lake, ia.Bloom("user"), lake_index="cache")
    report = ia.attach([lake / "day-001.parquet"], ia.Distinct("country"))
    assert report.lake_index.files_added == 1
    again = ia.open(lake).build_lake_index("cache")
    assert (again.files_known, again.files_added) == (4, 0)


def test_a_replaced_file_is_read_without_the_others_of_its_segment(lake):
    ia.attach(lake, ia.Bloom("user"), lake_index="beside")
    replaced = lake / "day-001.parquet"
    pq.write_table(rows_of_day(7), replaced)
    age(replaced)
    assert calls(lambda: ia.attach(lake, ia.Bloom("user")), of=read_facts) == 1
    assert opened_files(ia.open(lake), "day = 7") == 1
    assert opened_files(ia.open(lake), "day = 1") == 0
    # a build drops what is known about the file that was replaced
    assert calls(lambda: ia.open(lake).build_lake_index("beside"), of=read_facts) == 3


def test_files_that_have_just_been_written_are_awaited(lake):
    for day in (4, 5):
        pq.write_table(rows_of_day(day), lake / f"day-{day:03}.parquet")
    report = ia.attach(lake, ia.Bloom("user"), lake_index="cache")
    assert (report.lake_index.files_added, report.lake_index.files_recent) == (6, ())


def test_a_file_that_fails_is_in_neither(lake):
    path = lake / "day-001.parquet"
    path.write_bytes(path.read_bytes()[:-5])
    age(path)
    with pytest.raises(ia.FilesFailedError) as caught:
        ia.attach(lake, ia.Bloom("user"), lake_index="cache")
    found = caught.value.report.lake_index
    assert (found.files_added, [failure.path for failure in found.failed]) == (3, [str(path)])


def test_a_lake_index_that_cannot_be_written_loses_no_report(lake):
    (lake / "_intarsia").write_text("in the way")
    (lake / "day-001.parquet").write_bytes(b"PAR1")
    with pytest.raises(ia.FilesFailedError) as caught:
        ia.attach(lake, ia.Bloom("user"), lake_index="beside")
    report, errors = caught.value.report, caught.value.errors
    assert (report.files_indexed, report.files_failed, report.lake_index) == (3, 1, None)
    damaged = errors.pop(str(lake / "day-001.parquet"))
    assert (type(damaged), damaged.reason) == (ia.CorruptFileError, report.failed[0]["code"])
    (place,) = errors
    assert place.startswith(str(lake / "_intarsia"))
    assert isinstance(errors[place], OSError)


def test_an_unknown_location_changes_no_file(lake):
    before = {path: path.read_bytes() for path in lake.iterdir()}
    with pytest.raises(ValueError, match="'cache' or 'beside'"):
        ia.attach(lake, ia.Bloom("user"), lake_index="elsewhere")
    assert {path: path.read_bytes() for path in lake.iterdir()} == before
