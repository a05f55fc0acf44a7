"""A lake index contains no values of deleted files after a build, and shows values to no further users."""

from __future__ import annotations

import os
import stat
from pathlib import Path

import pyarrow as pa
import pytest

import intarsia as ia
from intarsia.lake.index.folder import LakeIndexFolder
from tests.lake.index.lakes import opened_files, write

as_root = pytest.mark.skipif(os.geteuid() != 0, reason="only root can give files to other users")

EMAIL = "erika.mustermann@example.org"


@pytest.fixture(params=["cache", "beside"])
def location(request):
    return request.param


@pytest.fixture
def lake(tmp_path):
    """Files of one e-mail address each, one of which is to be forgotten."""
    for number in range(6):
        email = EMAIL if number == 3 else f"user{number}@example.org"
        rows = pa.table({"number": [number] * 4, "email": [email] * 4})
        write(tmp_path / "lake" / f"{number}.parquet", rows, [ia.Distinct("email")])
    return tmp_path / "lake"


def parts(lake):
    """The folders of the lake index, and the files in them."""
    folders = [Path(found.path) for found in LakeIndexFolder.find(str(lake))]
    return folders, [path for folder in folders for path in folder.iterdir()]


def contains(lake, text):
    return any(text.encode() in path.read_bytes() for path in parts(lake)[1])


def modes(lake):
    """The modes of the folders, and of the segments."""
    shown = [[path for path in paths if path.suffix != ".txt"] for paths in parts(lake)]
    return [{stat.S_IMODE(path.stat().st_mode) for path in paths} for paths in shown]


@pytest.mark.parametrize("change", ["delete", "rewrite", "rename"])
def test_entries_of_gone_files_leave_at_the_next_build(lake, location, change):
    ia.open(lake).build_lake_index(location)
    assert contains(lake, EMAIL)
    path = lake / "3.parquet"
    if change == "rewrite":
        write(path, pa.table({"number": [3] * 3, "email": ["user3@example.org"] * 3}))
    else:
        path.unlink() if change == "delete" else path.rename(lake / "_3.parquet")
    ia.open(lake).build_lake_index(location)
    assert not contains(lake, EMAIL)
    assert opened_files(ia.open(lake), "email = 'user5@example.org'") == 1


def test_they_leave_when_other_files_are_indexed(lake, location):
    ia.open(lake).build_lake_index(location)
    (lake / "3.parquet").unlink()
    ia.attach(lake, [ia.ZoneMap("number")])
    assert not contains(lake, EMAIL)


def test_a_build_of_a_part_of_the_lake_forgets_them_but_no_other(lake, location):
    """The segment with the gone file is built again; one without a gone file stays."""
    ia.open(lake).build_lake_index(location)
    write(lake / "6.parquet", pa.table({"number": [6], "email": ["user6@example.org"]}))
    ia.open(lake).build_lake_index(location)
    some = [str(lake / f"{number}.parquet") for number in (0, 1)]
    ia.open(some).build_lake_index(location)
    assert contains(lake, EMAIL)
    assert ia.open(lake).build_lake_index(location).files_known == 7
    (lake / "3.parquet").unlink()
    ia.open(some).build_lake_index(location)
    assert not contains(lake, EMAIL)
    assert ia.open(lake).build_lake_index(location).files_known == 3


def test_an_unusable_segment_leaves_at_the_next_build(lake, location):
    ia.open(lake).build_lake_index(location)
    (segment,) = (path for path in parts(lake)[1] if path.suffix == ".lake")
    segment.write_bytes(segment.read_bytes()[:-1])
    ia.open(lake).build_lake_index(location)
    assert segment.stat().st_size > 1000
    assert len([path for path in parts(lake)[1] if path.suffix == ".lake"]) == 1


# --- permissions ---------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("folder", "file", "expected"),
    [
        (0o755, 0o644, [{0o755}, {0o644}]),
        (0o755, 0o600, [{0o700}, {0o600}]),
        (0o755, 0o640, [{0o750}, {0o640}]),
        (0o755, 0o604, [{0o705}, {0o604}]),
        (0o700, 0o644, [{0o700}, {0o600}]),
        (0o750, 0o644, [{0o750}, {0o640}]),
        (0o711, 0o644, [{0o700}, {0o600}]),
        (0o750, 0o604, [{0o700}, {0o600}]),
        (0o777, 0o666, [{0o755}, {0o644}]),
    ],
)
def test_the_mode_is_that_of_the_narrowest_file_and_folder(lake, folder, file, expected):
    os.chmod(lake / "4.parquet", file)
    os.chmod(lake, folder)
    ia.open(lake).build_lake_index("beside")
    assert modes(lake) == expected


def test_the_mode_in_the_cache(lake):
    """The folders that contain the lake count as well; pytest's own are closed to all other users."""
    ia.open(lake).build_lake_index("cache")
    assert modes(lake) == [{0o700}, {0o600}]


def test_the_mode_of_a_subfolder(lake):
    (lake / "part=1").mkdir(mode=0o700)
    os.rename(lake / "3.parquet", lake / "part=1" / "3.parquet")
    ia.open(lake).build_lake_index("beside")
    assert modes(lake) == [{0o700}, {0o600}]


def test_the_mask_of_the_process_applies(lake):
    old = os.umask(0o027)
    try:
        ia.open(lake).build_lake_index("beside")
    finally:
        os.umask(old)
    assert modes(lake) == [{0o750}, {0o640}]


def test_a_build_narrows_what_is_there(lake):
    ia.open(lake).build_lake_index("beside")
    os.chmod(lake / "0.parquet", 0o600)
    assert ia.open(lake).build_lake_index("beside").files_added == 0
    assert modes(lake) == [{0o700}, {0o600}]


def test_an_automatic_update_is_no_wider_than_the_new_file(lake):
    ia.open(lake).build_lake_index("beside")
    write(lake / "6.parquet", pa.table({"number": [6], "email": ["user6@example.org"]}))
    os.chmod(lake / "6.parquet", 0o600)
    assert opened_files(ia.open(lake), "number = 6") == 1
    assert modes(lake) == [{0o755}, {0o644, 0o600}]


@as_root
@pytest.mark.parametrize(
    ("groups", "mode"), [({2345}, 0o640), ({2345, 3456}, 0o600)], ids=["one group", "two groups"]
)
def test_the_group_is_that_of_the_files(lake, groups, mode):
    """A mode without its group would show the values to the group of the user who builds the lake index."""
    for number, path in enumerate(sorted(lake.glob("*.parquet"))):
        os.chown(path, 0, sorted(groups)[number % len(groups)])
        os.chmod(path, 0o640)
    ia.open(lake).build_lake_index("beside")
    (folder,), (segment,) = parts(lake)
    assert stat.S_IMODE(segment.stat().st_mode) == mode
    assert {path.stat().st_gid for path in (folder, segment)} == (groups if len(groups) == 1 else {0})


@as_root
def test_an_index_that_root_builds_belongs_to_the_owner_of_the_files(lake):
    for path in (lake, *lake.iterdir()):
        os.chown(path, 1234, -1)
    ia.open(lake).build_lake_index("beside")
    folders, files = parts(lake)
    assert {path.stat().st_uid for path in (*folders, *files)} == {1234}
    os.chown(lake / "0.parquet", 0, -1)  # its owner could not read this file if its mode were 0600
    ia.open(lake).remove_lake_index()
    ia.open(lake).build_lake_index("beside")
    folders, files = parts(lake)
    assert {path.stat().st_uid for path in (*folders, *files)} == {0}
