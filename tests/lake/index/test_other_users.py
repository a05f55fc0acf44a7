"""A lake index that another user can have forged is not used, however it is put in place."""

from __future__ import annotations

import os
import shutil
import tempfile
import warnings
from pathlib import Path

import pytest

import intarsia as ia
from intarsia.lake.index.folder import LakeIndexFolder
from tests.child import run
from tests.lake.index.lakes import copy_of, make_lake, opened_files, rows, rows_of_day, write

as_root = pytest.mark.skipif(os.geteuid() != 0, reason="only root can give files to other users")

MALLORY, ALICE, BOB = 12345, 23456, 34567

#: It matches one row of the second file.
WHERE = "user = 3131"


@pytest.fixture(scope="module")
def made(tmp_path_factory):
    """A lake, and a forged segment that excludes its second file from `WHERE`."""
    folder = make_lake(tmp_path_factory.mktemp("made") / "lake", 3, [ia.Bloom("user")])
    forged = copy_of(folder, folder.parent / "forged")
    times = os.stat(forged / "day-001.parquet")
    other = rows_of_day(1).set_column(1, "user", rows_of_day(7)["user"])
    write(forged / "day-001.parquet", other, [ia.Bloom("user")], row_group_size=50)
    os.utime(forged / "day-001.parquet", ns=(times.st_atime_ns, times.st_mtime_ns))
    assert os.stat(forged / "day-001.parquet").st_size == times.st_size
    ia.open(forged).build_lake_index("beside")
    return folder, forged / "_intarsia"


@pytest.fixture
def shared():
    """A folder like ``/tmp``, in which any user may create files; pytest's own is closed to other users."""
    with tempfile.TemporaryDirectory() as folder:
        os.chmod(folder, 0o1777)
        yield Path(folder)


@pytest.fixture
def lake(shared, made):
    return copy_of(made[0], shared / "lake")


def forge(made, folder, owner=MALLORY):
    """Put the forged lake index at a path, as a user."""
    shutil.copytree(made[1], folder)
    give(folder, owner)
    return folder


def give(folder, owner):
    for path in (folder, *Path(folder).iterdir()):
        os.chown(path, owner, owner)


def found_rows(lake):
    """Check that no row is missing, and return the reasons for ignoring parts of the lake index."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", ia.IntarsiaWarning)
        scan = ia.open(lake).scan(WHERE)
        assert scan.to_arrow().num_rows == 1
    return {note.code for note in scan.report.ignored}


def test_the_forged_segment_would_hide_a_row(made, lake):
    """If this user has written it, it is used: the other tests do not pass by accident."""
    shutil.copytree(made[1], lake / "_intarsia")
    assert rows(ia.open(lake), WHERE) == []


# --- links: for any user -------------------------------------------------------------------------------


@pytest.mark.parametrize("beside", ["lake", "shared"])
def test_a_link_to_a_folder_of_a_trusted_user(made, shared, lake, beside):
    """Its target belongs to this user, who has indexed another lake."""
    if beside == "shared":
        other = shared / "other"
        make_parent_index(made, other)
        os.symlink(other / "_intarsia", shared / "_intarsia")
    else:
        os.symlink(made[1], lake / "_intarsia")
    assert found_rows(lake) == {"link"}


def make_parent_index(made, folder):
    """A lake index of the folder that contains the lake, with the forged segment's values."""
    shutil.copytree(made[1].parent, folder / "lake", ignore=shutil.ignore_patterns("_intarsia"))
    ia.open(folder).build_lake_index("beside")


def test_a_link_to_a_segment(made, lake):
    (lake / "_intarsia").mkdir()
    (segment,) = made[1].iterdir()
    os.symlink(segment, lake / "_intarsia" / segment.name)
    assert found_rows(lake) == {"link"}


def test_a_link_in_place_of_the_cache(made, lake):
    folder = LakeIndexFolder.of(str(lake), "cache")
    Path(folder.path).parent.mkdir(parents=True, exist_ok=True)
    os.symlink(made[1], folder.path)
    assert found_rows(lake) == {"link"}


def test_nothing_is_written_or_removed_through_a_link(lake, tmp_path):
    target = tmp_path / "target"
    target.mkdir()
    (target / "mine.lake").write_bytes(b"mine")
    os.symlink(target, lake / "_intarsia")
    table = ia.open(lake)
    for change in (lambda: table.build_lake_index("beside"), table.remove_lake_index):
        with pytest.raises(ia.ListingError) as caught:
            change()
        assert (caught.value.reason, caught.value.path) == ("link", str(lake / "_intarsia"))
    assert os.listdir(target) == ["mine.lake"]


# --- permissions: for any user -------------------------------------------------------------------------


@pytest.mark.parametrize("mode", [0o775, 0o757, 0o777, 0o1777, 0o2775])
def test_a_folder_that_others_may_write_to(made, lake, mode):
    shutil.copytree(made[1], lake / "_intarsia")
    os.chmod(lake / "_intarsia", mode)
    assert found_rows(lake) == {"writable-by-others"}


@pytest.mark.parametrize("mode", [0o664, 0o646, 0o602])
def test_a_segment_that_others_may_write_to(made, lake, mode):
    shutil.copytree(made[1], lake / "_intarsia")
    for segment in (lake / "_intarsia").iterdir():
        os.chmod(segment, mode)
    assert found_rows(lake) == {"writable-by-others"}


def test_a_build_closes_its_folder_to_others(lake):
    (lake / "_intarsia").mkdir()
    os.chmod(lake / "_intarsia", 0o777)
    ia.open(lake).build_lake_index("beside")
    assert os.stat(lake / "_intarsia").st_mode & 0o777 == 0o755
    assert opened_files(ia.open(lake), WHERE) == 1


def test_a_pipe_in_place_of_the_folder(lake):
    os.mkfifo(lake / "_intarsia")
    assert found_rows(lake) == set()


# --- owners: as root -----------------------------------------------------------------------------------


@as_root
@pytest.mark.parametrize("place", ["lake", "shared"])
def test_a_folder_of_another_user(made, shared, lake, place):
    """It is no reason for a warning either: any user could annoy all others with it."""
    if place == "shared":
        make_parent_index(made, shared / "other")
        os.rename(shared / "other" / "_intarsia", shared / "_intarsia")
        give(shared / "_intarsia", MALLORY)
    else:
        forge(made, lake / "_intarsia")
    assert found_rows(lake) == set()


@as_root
def test_a_link_of_another_user(made, lake):
    os.symlink(made[1], lake / "_intarsia")
    os.lchown(lake / "_intarsia", MALLORY, MALLORY)
    assert found_rows(lake) == set()


@as_root
def test_a_segment_of_another_user_in_a_trusted_folder(made, lake):
    forge(made, lake / "_intarsia")
    os.chown(lake / "_intarsia", 0, 0)
    assert found_rows(lake) == {"foreign-owner"}


@as_root
def test_a_segment_of_another_user_beside_one_of_root(made, lake):
    ia.open(lake).build_lake_index("beside")
    (segment,) = made[1].iterdir()
    shutil.copy(segment, lake / "_intarsia" / "0000.lake")
    os.chown(lake / "_intarsia" / "0000.lake", MALLORY, MALLORY)
    with pytest.warns(ia.IntarsiaWarning):
        assert opened_files(ia.open(lake), WHERE) == 1
    assert found_rows(lake) == {"foreign-owner"}


@as_root
def test_the_owner_of_the_lake_is_trusted_and_only_there(made, shared, lake):
    os.chown(lake, ALICE, ALICE)
    ia.open(lake).build_lake_index("beside")
    give(lake / "_intarsia", ALICE)
    assert opened_files(ia.open(lake), WHERE) == 1
    other = copy_of(made[0], shared / "other")
    forge(made, other / "_intarsia", ALICE)
    assert found_rows(other) == set()


@as_root
def test_an_owner_that_a_container_cannot_map_is_nobody(made, lake):
    """Two users without a mapping both appear as this one."""
    os.chown(lake, 65534, 65534)
    forge(made, lake / "_intarsia", 65534)
    assert found_rows(lake) == set()


@as_root
def test_a_folder_of_another_user_is_not_written_to(made, lake):
    forge(made, lake / "_intarsia")
    table = ia.open(lake)
    for change in (lambda: table.build_lake_index("beside"), table.remove_lake_index):
        with pytest.raises(ia.ListingError) as caught:
            change()
        assert caught.value.reason == "foreign-owner"


READ_AS = """
import os, sys, warnings
import intarsia as ia
lake, warm_up, user = sys.argv[1:]
ia.open(warm_up).scan("user = 3131").to_arrow()  # run the lazy imports while the modules are readable
os.setgroups([])
os.setgid(int(user))
os.setuid(int(user))
warnings.simplefilter("ignore")
scan = ia.open(lake).scan("user = 3131")
print(scan.to_arrow().num_rows, scan.report.files_opened, sorted(note.code for note in scan.report.ignored))
"""


@as_root
@pytest.mark.parametrize(
    ("owner_of_lake", "owner_of_index", "opened"),
    [
        (ALICE, ALICE, 1),
        (ALICE, 0, 1),
        (ALICE, BOB, 1),  # the reader
        (0, BOB, 1),
        (ALICE, MALLORY, None),
        (BOB, MALLORY, None),
    ],
)
def test_another_user_reads(made, lake, owner_of_lake, owner_of_index, opened):
    """Bob trusts himself, root and the owner of the lake."""
    os.chown(lake, owner_of_lake, owner_of_lake)
    if opened is None:
        forge(made, lake / "_intarsia", owner_of_index)
    else:
        ia.open(lake).build_lake_index("beside")
        give(lake / "_intarsia", owner_of_index)
    printed = run(READ_AS, str(lake), str(made[0]), str(BOB))
    num_rows, files_opened, codes = printed.strip().split(" ", 2)
    assert (num_rows, codes) == ("1", "[]")
    assert files_opened == ("3" if opened is None else str(opened))


@as_root
def test_an_index_that_this_user_may_not_read(made, lake):
    ia.open(lake).build_lake_index("beside")
    os.chmod(lake / "_intarsia", 0o700)
    printed = run(READ_AS, str(lake), str(made[0]), str(BOB))
    assert printed == "1 3 ['storage-error']\n"
