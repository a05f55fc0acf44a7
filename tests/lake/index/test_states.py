"""Every state of a lake index gives the answers of the files: stale, partial, damaged, foreign, in use."""

from __future__ import annotations

import errno
import json
import multiprocessing
import os
import random
import shutil
import threading
import warnings
from dataclasses import dataclass
from pathlib import Path
from typing import ClassVar

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

import intarsia as ia
from intarsia.indexes import OpenIndex
from intarsia.indexes.distinct import Distinct
from intarsia.lake.data_file import DataFile
from intarsia.lake.index.folder import LakeIndexFolder
from intarsia.lake.index.of_table import LakeIndex, locate
from intarsia.storage import sections
from tests.lake.index.lakes import (
    INDEXES,
    age,
    copy_of,
    expected_rows,
    expected_totals,
    make_lake,
    opened_files,
    rows,
    rows_of_day,
    write,
)

#: Conditions that different parts of a lake index decide, and one that none does.
CONDITIONS = (
    "user = 9300",
    "user IN (31, 12400, 99)",
    "id = 7919",
    "country = 'country 7'",
    "country LIKE '%ry 22'",
    "url LIKE '%/003/17%'",
    "amount > 30",
    "day = 3 OR user = 62",
    "day <> 3 AND amount IS NULL",
    "NOT (day BETWEEN 1 AND 6)",
    "amount <= 2.5",
)


@pytest.fixture(scope="module")
def made_lake(tmp_path_factory):
    return make_lake(tmp_path_factory.mktemp("made") / "lake")


@pytest.fixture(params=["cache", "beside"])
def location(request):
    return request.param


@pytest.fixture
def lake(tmp_path, made_lake, request):
    """A lake with a lake index, in each location for tests that request ``location``."""
    folder = copy_of(made_lake, tmp_path / "lake")
    requested = "location" in request.fixturenames
    ia.open(folder).build_lake_index(request.getfixturevalue("location") if requested else "cache")
    return folder


def segments(folder):
    """The segments of a lake index, wherever they are."""
    return [
        os.path.join(found.path, name)
        for found in LakeIndexFolder.find(str(folder))
        for name in found.names()
    ]


def check(folder):
    """Compare the answers of a lake with those of its files, one by one."""
    table = ia.open(folder)
    for place, where in enumerate(CONDITIONS):
        expected = expected_rows(folder, where)
        assert rows(table, where) == expected, where
        if place % 3 == 0:
            assert table.count(where) == len(expected)
    functions = {"amount": ["sum", "min", "max", "count"], "*": "count"}
    assert dict(table.aggregate(functions)) == expected_totals(folder)
    assert dict(table.aggregate(functions, "day < 4")) == expected_totals(folder, "day < 4")
    return table


@pytest.mark.usefixtures("location")
def test_every_part_excludes_files(lake):
    table = check(lake)
    by = {where: opened_files(table, where) for where in CONDITIONS}
    assert [by[where] for where in CONDITIONS[:6]] == [1, 2, 1, 1, 1, 1]
    assert by["day = 3 OR user = 62"] == 2
    assert by["NOT (day BETWEEN 1 AND 6)"] == 2


@pytest.mark.usefixtures("location")
def test_a_new_file_is_added_to_the_lake_index(lake):
    write(lake / "day-100.parquet", rows_of_day(100), INDEXES)
    table = check(lake)
    assert opened_files(table, "user = 310031") == 1
    assert len(segments(lake)) == 2


def test_a_replaced_file_is_read_again(lake):
    write(lake / "day-003.parquet", rows_of_day(50), INDEXES)
    table = check(lake)
    assert rows(table, "day = 50")
    assert not rows(table, "day = 3")


def test_other_indexes_of_the_same_length(tmp_path):
    """The file keeps its length and modification time, but its footer locates other Bloom filters."""
    lake = tmp_path / "lake"
    for place in range(3):
        values = {
            "a": [place * 7 + row * 13 for row in range(1000)],
            "b": [500_000 + place * 11 + row * 17 for row in range(1000)],
        }
        write(lake / f"{place}.parquet", pa.table(values), [ia.Bloom("a")], use_dictionary=False)
    before = [(path.stat().st_size, path.stat().st_mtime_ns) for path in sorted(lake.iterdir())]
    ia.open(lake).build_lake_index("cache")
    for path in sorted(lake.glob("*.parquet")):
        ia.detach(path)
        ia.attach(path, [ia.Bloom("b")])
    after = [(path.stat().st_size, path.stat().st_mtime_ns) for path in sorted(lake.glob("*.parquet"))]
    assert after == before
    for row in range(0, 1000, 50):
        for where in (f"a = {7 + row * 13}", f"b = {500_011 + row * 17}"):
            assert ia.open(lake).count(where) >= 1, where


def test_a_file_that_is_replaced_in_the_last_seconds_is_not_known(lake):
    pq.write_table(rows_of_day(50), lake / "day-003.parquet")
    table = check(lake)
    assert opened_files(table, "user = 1") == 1
    assert len(segments(lake)) == 1


def test_a_file_of_the_same_size_is_another_file_if_its_time_differs(lake, tmp_path):
    path = tmp_path / "lake" / "day-003.parquet"
    content = path.read_bytes()
    other = tmp_path / "other.parquet"
    write(
        other,
        rows_of_day(3).set_column(1, "user", pa.array(range(100), pa.int32())),
        INDEXES,
        row_group_size=50,
    )
    data = other.read_bytes()
    if len(data) != len(content):
        pytest.skip("the files differ in size")
    path.write_bytes(data)
    age(path)
    assert len(rows(check(lake), "user = 5")) == 1


def test_a_file_that_is_replaced_while_the_table_is_open_is_read_again(lake):
    table = ia.open(lake)
    assert not rows(table, "day = 50")
    write(lake / "day-003.parquet", rows_of_day(50), INDEXES)
    assert len(rows(table, "day = 50")) == 100
    assert len(rows(table, "day = 50 AND user = 155000")) == 1


def test_a_file_that_is_replaced_before_the_first_query_of_a_table_is_read_again(lake):
    table = ia.open(lake)
    write(lake / "day-003.parquet", rows_of_day(50), INDEXES)
    assert len(rows(table, "day = 50")) == 100
    assert not rows(ia.open(lake), "day = 3")


@pytest.mark.parametrize("has_lake_index", [True, False])
@pytest.mark.parametrize(
    ("ask", "expected"),
    [
        (lambda scan: scan.to_arrow().num_rows, 100),
        (lambda scan: scan.count(), 100),
        (lambda scan: sum(batch.num_rows for batch in scan), 100),
        (lambda scan: scan.aggregate({"day": ["max"]})["day"]["max"], 50),
        (lambda scan: sum(split.to_arrow().num_rows for split in scan.plan()), 100),
    ],
)
def test_a_file_that_is_replaced_before_a_scan_runs_is_read_again(lake, has_lake_index, ask, expected):
    """The first scan of a table reads its schema; the scan may run much later."""
    if not has_lake_index:
        ia.open(lake).remove_lake_index()
    scan = ia.open(lake).scan("day = 50")
    write(lake / "day-003.parquet", rows_of_day(50), INDEXES)
    assert ask(scan) == expected


def test_removed_files_are_forgotten(lake):
    os.unlink(lake / "day-003.parquet")
    table = check(lake)
    assert not rows(table, "day = 3")


def test_a_file_that_is_removed_while_the_table_is_open_is_missed(lake):
    table = ia.open(lake)
    assert rows(table, "day = 3")
    os.unlink(lake / "day-003.parquet")
    with pytest.raises(FileNotFoundError):
        rows(table, "day = 3")


def test_half_of_the_files_are_indexed(lake):
    for day in range(20, 56):  # more than are added automatically
        write(lake / f"day-{day:03}.parquet", rows_of_day(day))
    table = check(lake)
    assert len(segments(lake)) == 1
    assert opened_files(table, "user = 9300") == 37


def test_a_lake_index_of_a_parent_folder_is_used(tmp_path):
    for month in range(3):
        make_lake(tmp_path / "lake" / f"month={month}", 3)
    ia.open(tmp_path / "lake").build_lake_index("beside")
    below = ia.open(tmp_path / "lake" / "month=1")
    assert opened_files(below, "country = 'country 0'") == 1
    assert rows(below, "user = 31") == expected_rows(tmp_path / "lake" / "month=1", "user = 31")


@pytest.mark.usefixtures("location")
def test_files_in_a_list_and_a_glob_are_known(lake):
    files = sorted(map(str, lake.glob("*.parquet")))
    assert opened_files(ia.open(files), "user = 9300") == 1
    assert opened_files(ia.open(files[3:6]), "user = 9300") == 1
    assert opened_files(ia.open(str(lake / "day-00*.parquet")), "user = 9300") == 1


class Listed:
    """A source that lists paths and sizes, as a catalog does."""

    def __init__(self, folder):
        self.folder = folder

    def list_files(self):
        paths = sorted(self.folder.glob("*.parquet"))
        return [DataFile(str(path), path.stat().st_size) for path in paths]


@pytest.mark.usefixtures("location")
def test_files_of_a_source_are_known(lake):
    assert opened_files(ia.open(Listed(lake)), "user = 9300") == 1


def test_a_folder_that_was_moved_with_its_lake_index(lake, location):
    moved = lake.rename(lake.parent / "moved")
    table = ia.open(moved)
    assert opened_files(table, "user = 9300") == (1 if location == "beside" else 8)
    check(moved)


def test_the_lake_index_of_another_lake(tmp_path):
    ours = make_lake(tmp_path / "ours")
    theirs = tmp_path / "theirs"
    for day in range(8):
        write(theirs / f"day-{day:03}.parquet", rows_of_day(day + 20), INDEXES, row_group_size=50)
    ia.open(theirs).build_lake_index("beside")
    shutil.copytree(theirs / "_intarsia", ours / "_intarsia")
    check(ours)


def test_a_truncated_segment(lake):
    (segment,) = segments(lake)
    data = Path(segment).read_bytes()
    for length in [*range(0, len(data), max(1, len(data) // 25)), len(data) - 1]:
        with open(segment, "wb") as file:
            file.write(data[:length])
        with warnings.catch_warnings():
            warnings.simplefilter("ignore", ia.IntarsiaWarning)
            scan = ia.open(lake).scan("user = 9300")
            assert len(scan.to_arrow()) == 1
        assert [note.index for note in scan.report.ignored] == ["lake index"]


@pytest.mark.parametrize("order", ["user", "user DESC", "amount"])
def test_a_segment_that_is_truncated_while_the_table_is_open(lake, order):
    (segment,) = segments(lake)
    expected = ia.open(lake).scan(columns=["user"], order_by=order, limit=3).to_arrow()
    for length in (0, 100, os.path.getsize(segment) // 2):
        table = ia.open(lake)
        table.explain("user = 9300")
        data = Path(segment).read_bytes()
        with open(segment, "wb") as file:
            file.write(data[:length])
        with warnings.catch_warnings():
            warnings.simplefilter("ignore", ia.IntarsiaWarning)
            assert table.scan(columns=["user"], order_by=order, limit=3).to_arrow().equals(expected)
        Path(segment).write_bytes(data)


def test_damaged_bytes(lake):
    """A byte that is wrong makes a plan slower, never wrong."""
    (segment,) = segments(lake)
    data = bytearray(Path(segment).read_bytes())
    expected = {where: expected_rows(lake, where) for where in CONDITIONS}
    rng = random.Random(7)
    for _ in range(40):
        place, bit = rng.randrange(len(data)), 1 << rng.randrange(8)
        data[place] ^= bit
        with open(segment, "wb") as file:
            file.write(data)
        table = ia.open(lake)
        for where in rng.sample(CONDITIONS, 3):
            with warnings.catch_warnings():
                warnings.simplefilter("ignore", ia.IntarsiaWarning)
                scan = table.scan(where)
                assert scan.to_arrow().to_pylist() == expected[where], (place, where)
            assert {note.index for note in scan.report.ignored} <= {"lake index"}
        data[place] ^= bit


def test_a_segment_of_another_version_is_ignored(lake):
    (segment,) = segments(lake)
    data = Path(segment).read_bytes()
    with open(segment, "wb") as file:
        file.write(data.replace(sections.MAGIC, sections.MAGIC[:-1] + b"9"))
    with pytest.warns(ia.IntarsiaWarning, match="later version"):
        assert len(rows(ia.open(lake), "user = 9300")) == 1


def test_the_parts_of_a_segment_are_what_the_documentation_says(lake):
    (segment,) = segments(lake)
    data = Path(segment).read_bytes()
    length = int.from_bytes(data[-24:-16], "little")
    contents = json.loads(data[-24 - length : -24])
    names = set(contents["sections"])
    assert {"files", "footers", "0/bounds/0", "0/gathered/0", "0/gathered/0/files-2"} <= names
    kinds = [entry["kind"] for entry in contents["about"]["families"][0]["gathered"]]
    assert sorted(kinds) == ["bloom_filter", "distinct", "ngram", "row_map", "zone_map"]


def test_two_threads_build_at_once(tmp_path, made_lake, location):
    lake = copy_of(made_lake, tmp_path / "lake")
    tables = [ia.open(lake) for _ in range(4)]
    builders = [threading.Thread(target=table.build_lake_index, args=(location,)) for table in tables]
    for builder in builders:
        builder.start()
    for builder in builders:
        builder.join()
    assert opened_files(check(lake), "user = 9300") == 1


def _build(folder, location, started):
    started.set()
    ia.open(folder).build_lake_index(location)


class Outdated(LakeIndexFolder):
    """A folder whose listing precedes the removal of a segment by another process."""

    def names(self):
        return [*super().names(), "0123456789abcdef.lake"]


def test_a_segment_that_is_removed_meanwhile_is_no_reason_for_a_warning(lake):
    files, folder = ia.open(lake).files, Outdated.of(str(lake), "beside")
    where = locate(files, str(lake))
    assert LakeIndex(where, files, [folder]).ignored == []
    shutil.rmtree(folder.path, ignore_errors=True)
    assert LakeIndex(where, files, [folder]).ignored == []


class Failing(LakeIndexFolder):
    """A folder on a disk that fails."""

    def names(self):
        raise OSError(errno.EIO, os.strerror(errno.EIO), self.path)


def test_a_folder_that_the_system_cannot_list_is_ignored(lake):
    files, folder = ia.open(lake).files, Failing.of(str(lake), "beside")
    (note,) = LakeIndex(locate(files, str(lake)), files, [folder]).ignored
    assert (note.file, note.code) == (folder.path, "storage-error")


@pytest.mark.parametrize("delay", [0.0, 0.05])
def test_a_killed_writer_leaves_nothing_that_is_used(tmp_path, made_lake, location, delay):
    lake = copy_of(made_lake, tmp_path / "lake")
    context = multiprocessing.get_context("fork")
    started = context.Event()
    builder = context.Process(target=_build, args=(str(lake), location, started))
    builder.start()
    started.wait(60)
    threading.Event().wait(delay)
    builder.kill()
    builder.join()
    check(lake)
    ia.open(lake).build_lake_index(location)
    assert opened_files(check(lake), "user = 9300") == 1


def test_a_folder_that_cannot_be_written_is_no_obstacle(lake, location):
    write(lake / "day-100.parquet", rows_of_day(100), INDEXES)
    (found,) = LakeIndexFolder.find(str(lake))
    os.rename(found.path, found.path + "-away")
    name = os.listdir(found.path + "-away")[0]
    os.mkdir(found.path)
    shutil.copy(os.path.join(found.path + "-away", name), found.path)
    os.chmod(found.path, 0o500)
    try:
        if os.access(found.path, os.W_OK):
            pytest.skip("this user can write every folder")
        with pytest.warns(ia.IntarsiaWarning, match="cannot be updated"):
            assert len(rows(ia.open(lake), "day = 100")) == 100
    finally:
        os.chmod(found.path, 0o700)


def test_many_small_updates_are_merged(tmp_path):
    lake = make_lake(tmp_path / "lake", 2, [ia.Bloom("user")])
    ia.open(lake).build_lake_index("cache")
    for day in range(10, 24):
        write(lake / f"day-{day:03}.parquet", rows_of_day(day), [ia.Bloom("user")])
        ia.open(lake).build_lake_index("cache")
    assert len(segments(lake)) <= 9
    table = check(lake)
    assert opened_files(table, "user = 31") == 1


def test_automatic_updates_are_merged(tmp_path):
    lake = make_lake(tmp_path / "lake", 2, [])
    ia.open(lake).build_lake_index("cache")
    for day in range(10, 34):
        write(lake / f"day-{day:03}.parquet", rows_of_day(day))
        assert opened_files(ia.open(lake), f"day = {day}") == 1
    assert len(segments(lake)) <= 10
    assert opened_files(check(lake), "day = 10 OR day = 33") == 2


def test_the_folder_of_another_user_is_not_trusted(lake, location):
    if os.geteuid() != 0:
        pytest.skip("only the administrator can give files to another user")
    (found,) = LakeIndexFolder.find(str(lake))
    os.chown(found.path, 12345, 12345)
    assert LakeIndexFolder.find(str(lake)) == []
    os.chown(lake, 12345, 12345)  # its owner may index it
    assert LakeIndexFolder.find(str(lake)) == [found]


def test_a_damaged_file_is_reported_and_left_out(tmp_path, made_lake):
    lake = copy_of(made_lake, tmp_path / "lake")
    path = lake / "day-003.parquet"
    path.write_bytes(path.read_bytes()[:-5])
    age(path)
    report = ia.open(lake).build_lake_index("cache")
    assert (report.files_added, [failure.path for failure in report.failed]) == (7, [str(path)])
    assert report.to_dict()["failed"][0]["path"] == str(path)
    table = ia.open(lake)
    with pytest.raises(ia.CorruptFileError):
        rows(table, "user = 9300")
    assert rows(ia.open([str(lake / f"day-{day:03}.parquet") for day in (0, 1, 2, 4)]), "user = 31")


def test_recent_files_are_reported_or_awaited(tmp_path):
    lake = make_lake(tmp_path / "lake", 3)
    pq.write_table(rows_of_day(9), lake / "day-009.parquet")
    report = ia.open(lake).build_lake_index("cache", wait=False)
    assert report.files_recent == (str(lake / "day-009.parquet"),)
    assert "may still change" in str(report)
    report = ia.open(lake).build_lake_index("cache")
    assert (report.files_known, report.files_added, report.files_recent) == (3, 1, ())


@pytest.mark.usefixtures("location")
def test_a_lake_index_is_removed_with_its_folder(lake):
    found = LakeIndexFolder.find(str(lake))
    table = ia.open(lake)
    assert table.remove_lake_index() == tuple(folder.path for folder in found)
    assert LakeIndexFolder.find(str(lake)) == []
    check(lake)
    assert table.remove_lake_index() == ()


def test_a_location_that_does_not_exist(tmp_path):
    lake = make_lake(tmp_path / "lake", 2)
    with pytest.raises(ValueError, match="'cache' or 'beside'"):
        ia.open(lake).build_lake_index("elsewhere")


@dataclass(frozen=True)
class FailsToGather(Distinct):
    """Distinct values that cannot be gathered for many files."""

    kind: ClassVar[str] = "fails_to_gather"

    def gather(self, digests):
        raise ZeroDivisionError


@dataclass(frozen=True)
class AnswersForOtherFiles(Distinct):
    """Distinct values, with results for one more file than there are."""

    kind: ClassVar[str] = "answers_for_other_files"

    def open_gathered(self, parts, num_files):
        return OtherFiles(super().open_gathered(parts, num_files))


class OtherFiles(OpenIndex):
    def __init__(self, opened):
        self.opened = opened

    def cost_bytes(self, predicate):
        return 1

    def candidate_files(self, predicate):
        return np.append(self.opened.candidate_files(predicate), True)


def test_a_class_that_fails_to_gather_is_left_out(tmp_path, announce_class):
    announce_class(FailsToGather)
    lake = make_lake(tmp_path / "lake", 4, [FailsToGather("id"), ia.Bloom("user")])
    with pytest.warns(ia.IntarsiaWarning, match="fails_to_gather"):
        ia.open(lake).build_lake_index("beside")
    table = check(lake)
    assert opened_files(table, "user = 9300") == 1


def test_answers_for_other_files_are_ignored(tmp_path, announce_class):
    announce_class(AnswersForOtherFiles)
    lake = make_lake(tmp_path / "lake", 4, [AnswersForOtherFiles("id")])
    ia.open(lake).build_lake_index("beside")
    scan = ia.open(lake).scan("id = 7919")
    with pytest.warns(ia.IntarsiaWarning, match="answers_for_other_files"):
        assert len(scan.to_arrow()) == 1
    assert [note.code for note in scan.report.ignored] == ["other-files"]
