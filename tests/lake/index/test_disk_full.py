"""A disk that is full while a lake index is written: the error names the file, and nothing of it remains."""

from __future__ import annotations

import os

import pytest

import intarsia as ia
from intarsia.lake.index.folder import LakeIndexFolder
from tests.child import run
from tests.lake.index.lakes import make_lake, rows, rows_of_day, write

#: Files must not become larger than the second argument.
LIMITED = """
import resource, signal, sys, warnings
import intarsia as ia
from intarsia.lake.index.folder import LakeIndexFolder
from intarsia.storage.guarded_folder import Readers
signal.signal(signal.SIGXFSZ, signal.SIG_IGN)
resource.setrlimit(resource.RLIMIT_FSIZE, (int(sys.argv[2]), int(sys.argv[2])))
"""

BUILD = (
    LIMITED
    + """
try:
    ia.open(sys.argv[1]).build_lake_index(sys.argv[3])
except ia.ReplaceError as error:
    print(error.reason, error.path)
"""
)

REPLACE = (
    LIMITED
    + """
folder = LakeIndexFolder.of(sys.argv[1], "beside")
try:
    folder.replace_segments(folder.names(), [b"small", b"large" * 1000], Readers())
except ia.ReplaceError as error:
    print(error.reason)
"""
)

QUERY = (
    LIMITED
    + """
with warnings.catch_warnings(record=True):
    warnings.simplefilter("always")
    scan = ia.open(sys.argv[1]).scan("day = 9")
    print(scan.to_arrow().num_rows, [note.code for note in scan.report.ignored])
"""
)

QUERIES = (
    LIMITED
    + """
with warnings.catch_warnings(record=True) as shown:
    warnings.simplefilter("always")
    for lake in sys.argv[3:]:
        for _ in range(3):
            scan = ia.open(lake).scan("day = 9")
            scan.to_arrow()
            assert scan.report.files_opened == 1
            assert [note.code for note in scan.report.ignored] == ["not-writable"]
print([[lake in str(warning.message) for lake in sys.argv[3:]] for warning in shown])
"""
)


@pytest.fixture
def lake(tmp_path):
    return make_lake(tmp_path / "lake", 4, [ia.Bloom("user")])


@pytest.mark.parametrize("location", ["cache", "beside"])
def test_a_build(lake, location):
    folder = LakeIndexFolder.of(str(lake), location)
    reason, path = run(BUILD, str(lake), "1000", location).split()
    assert (reason, os.path.dirname(path)) == ("file-too-large", folder.path)
    assert not os.path.exists(folder.path)


def test_what_was_there_remains(lake):
    ia.open(lake).build_lake_index("beside")
    before = os.listdir(lake / "_intarsia")
    assert run(REPLACE, str(lake), "1000") == "file-too-large\n"
    assert os.listdir(lake / "_intarsia") == before


def test_an_automatic_update(lake):
    """The query is answered with the update in memory."""
    ia.open(lake).build_lake_index("beside")
    before = os.listdir(lake / "_intarsia")
    write(lake / "day-009.parquet", rows_of_day(9))
    assert run(QUERY, str(lake), "1000") == "100 ['not-writable']\n"
    assert os.listdir(lake / "_intarsia") == before
    assert len(rows(ia.open(lake), "day = 9")) == 100


def test_a_lake_index_that_cannot_be_updated_is_one_warning_per_lake(tmp_path):
    lakes = [make_lake(tmp_path / name, 4, ()) for name in ("one", "two")]
    for lake in lakes:
        ia.open(lake).build_lake_index("beside")
        write(lake / "day-009.parquet", rows_of_day(9))
    assert run(QUERIES, "", "1000", *map(str, lakes)) == "[[True, False], [False, True]]\n"


def test_a_folder_that_cannot_be_created(lake):
    (lake / "_intarsia").write_bytes(b"")
    with pytest.raises(ia.ReplaceError) as caught:
        ia.open(lake).build_lake_index("beside")
    assert (caught.value.reason, caught.value.path) == ("not-a-folder", str(lake / "_intarsia"))
