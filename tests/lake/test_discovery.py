"""Listing the files of a lake: Parquet files in folders, links to parents, pipes, no files."""

from __future__ import annotations

import io
import os
import tempfile
from pathlib import Path

import obstore
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from obstore.store import MemoryStore

import intarsia as ia
from intarsia.storage import find_store
from tests.child import run


def parquet_bytes(value=1):
    sink = io.BytesIO()
    pq.write_table(pa.table({"a": [value]}), sink)
    return sink.getvalue()


#: Files of a folder: those that are Parquet, the others, and side files that are not mentioned.
PARQUET = {
    "a.parquet": parquet_bytes(),
    "b.PARQ": parquet_bytes(),
    "c.pq": parquet_bytes(),
    "d.snappy.parquet": parquet_bytes(),
    "deep/000000_0": parquet_bytes(),
}
OTHERS = {
    "notes.txt": b"do not delete",
    "events.avro": b"Obj\x01" * 10,
    "v1.metadata.json": b"{}",
    "e.parquet.bak": parquet_bytes(),
    "LICENSE": b"to whom it may concern",
    "deep/EMPTY": b"",
    "deep/PAR1": b"PAR1",
}
SIDE = {
    "_SUCCESS": b"",
    "_metadata": parquet_bytes(),
    ".a.parquet.crc": b"crc",
    "a.parquet.crc": b"crc",
    "_hidden/00000.json": b"{}",
    "_hidden/00000.parquet": parquet_bytes(),
}


@pytest.fixture(params=["local", "object store"])
def lake(request, tmp_path, put_behind_urls):
    """A path or URL of a folder that holds all of these files."""
    store = MemoryStore()
    for name, content in (PARQUET | OTHERS | SIDE).items():
        if request.param == "local":
            (tmp_path / "lake" / name).parent.mkdir(parents=True, exist_ok=True)
            (tmp_path / "lake" / name).write_bytes(content)
        else:
            obstore.put(store, f"lake/{name}", content)
    if request.param == "local":
        return str(tmp_path / "lake")
    put_behind_urls(store)
    return "s3://bucket/lake"


def below(lake, paths):
    return sorted(path[len(lake) + 1 :] for path in paths)


def test_a_folder_gives_its_parquet_files(lake):
    table = ia.open(lake)
    assert below(lake, (file.path for file in table.files)) == sorted(PARQUET)
    assert below(lake, table.other_files) == sorted(OTHERS)
    assert table.count("a = 1") == len(PARQUET)


def test_files_without_an_extension_take_one_small_read(lake):
    """Those that are too small for Parquet take none."""
    reads = ia.open(lake).listing_reads
    assert (reads.requests, reads.bytes) == (2, 8)


def test_a_report_says_how_many_files_were_left_alone(lake):
    scan = ia.open(lake).scan("a = 1")
    scan.to_arrow()
    assert scan.report.files_other == scan.report.to_dict()["files"]["other"] == len(OTHERS)
    assert scan.report.files_total == len(PARQUET)
    assert str(len(OTHERS)) in str(scan.report).splitlines()[0]
    assert ia.open(lake).explain("a = 1").files_other == len(OTHERS)


def test_files_that_are_named_are_taken_whatever_their_extension(lake):
    assert ia.open(f"{lake}/e.parquet.bak").count() == 1
    assert ia.open([f"{lake}/a.parquet", f"{lake}/e.parquet.bak"]).count() == 2
    with pytest.raises(ia.CorruptFileError) as caught:
        ia.open([f"{lake}/a.parquet", f"{lake}/notes.txt"]).count()
    assert caught.value.path == f"{lake}/notes.txt"


def test_a_glob_takes_what_it_names(tmp_path):
    (tmp_path / "folder.bak").mkdir()
    for name in ("x.bak", "y.bak", "folder.bak/z.parquet", "folder.bak/z.txt"):
        (tmp_path / name).write_bytes(parquet_bytes())
    table = ia.open(tmp_path / "*.bak")
    assert below(str(tmp_path), (file.path for file in table.files)) == [
        "folder.bak/z.parquet",
        "x.bak",
        "y.bak",
    ]
    assert below(str(tmp_path), table.other_files) == ["folder.bak/z.txt"]


def test_a_folder_of_other_files_only(lake):
    for name in PARQUET:
        if os.path.isdir(lake):
            os.unlink(os.path.join(lake, name))
        else:
            obstore.delete(find_store(lake)[0], f"lake/{name}")
    with pytest.raises(FileNotFoundError) as caught:
        ia.open(lake)
    assert lake in str(caught.value)
    assert "LICENSE" in str(caught.value)


def test_an_encrypted_file_without_an_extension_is_not_passed_over(tmp_path):
    """Its rows would be missing, silently."""
    (tmp_path / "part").write_bytes(b"PARE" + bytes(100) + b"PARE")
    with pytest.raises(ia.UnsupportedFeatureError):
        ia.open(tmp_path).count()


def test_a_folder_that_cannot_be_listed_is_not_passed_over(tmp_path):
    (tmp_path / "a.parquet").write_bytes(parquet_bytes())
    (tmp_path / "closed").mkdir(mode=0)
    try:
        if os.access(tmp_path / "closed", os.R_OK):
            pytest.skip("this user can list every folder")
        with pytest.raises(PermissionError):
            ia.open(tmp_path)
    finally:
        (tmp_path / "closed").chmod(0o700)


#: Prints the name of an error for each path, read by a user who may not read a folder.
AS_ANOTHER_USER = """
import os, sys
import intarsia as ia
ia.open(sys.argv[1]).count()  # run the lazy imports while the modules are readable
if os.geteuid() == 0:
    os.setuid(1357)
for path in sys.argv[2:]:
    try:
        ia.open(path).count()
    except OSError as error:
        print(type(error).__name__, os.path.basename(error.filename))
"""


@pytest.mark.parametrize(
    ("mode", "last", "shown"),
    [
        *((0o000, last, "PermissionError b") for last in ("*/*.parquet", "[ab]/f*", "b*/*", "*")),
        *((0o000, last, "PermissionError f.parquet") for last in ("*/f.parquet", "b/f.parquet")),
        (0o444, "*/f.parquet", "PermissionError f.parquet"),
        (0o111, "*/*.parquet", "PermissionError b"),
        *((0o111, last, "") for last in ("*/f.parquet", "a*/*.parquet", "b/f.parquet")),
    ],
)
def test_a_folder_that_cannot_be_read_is_not_passed_over_by_a_glob(mode, last, shown):
    with tempfile.TemporaryDirectory() as lake:
        os.chmod(lake, 0o755)
        for name in ("a", "b"):
            os.mkdir(os.path.join(lake, name))
            Path(lake, name, "f.parquet").write_bytes(parquet_bytes())
        os.chmod(os.path.join(lake, "b"), mode)
        found = run(AS_ANOTHER_USER, os.path.join(lake, "a"), os.path.join(lake, last))
        os.chmod(os.path.join(lake, "b"), 0o755)
    assert found.strip() == shown


# --- symbolic links ----------------------------------------------------------------------------------------


@pytest.fixture
def folder(tmp_path):
    """A lake with a link to another folder."""
    lake, elsewhere = tmp_path / "lake", tmp_path / "elsewhere"
    for place in (lake / "year=2020", elsewhere):
        place.mkdir(parents=True)
        pq.write_table(pa.table({"a": [1]}), place / "x.parquet")
    os.symlink(elsewhere, lake / "year=2021")
    return lake


@pytest.mark.parametrize("source", ["", "**/*.parquet", "year=*", "*/x.parquet"])
def test_a_link_to_another_folder_is_followed(folder, source):
    table = ia.open(os.path.join(folder, source) if source else folder)
    found = [os.path.relpath(file.path, folder) for file in table.files]
    assert found == ["year=2020/x.parquet", "year=2021/x.parquet"]
    assert table.count("year >= 2020") == 2


@pytest.mark.parametrize("source", ["", "**/*.parquet", "*"])
@pytest.mark.parametrize(
    ("link", "target"),
    [
        ("again", "."),
        ("year=2020/again", ".."),
        ("year=2020/again", "../.."),
        ("year=2021/again", "../lake"),  # two links, each to the parent of the other
    ],
)
def test_a_link_to_a_parent_is_an_error(folder, source, link, target):
    """Following it would list each file up to 40 times, and two such links 2 ** 40 times."""
    os.symlink(target, folder / link)
    with pytest.raises(ia.ListingError) as caught:
        ia.open(os.path.join(folder, source) if source else folder)
    assert caught.value.reason == "symbolic-link-loop"
    assert os.path.islink(caught.value.path)


def test_a_link_to_itself(tmp_path):
    os.symlink("x.parquet", tmp_path / "x.parquet")
    for source in (tmp_path, tmp_path / "x.parquet", tmp_path / "*.parquet"):
        with pytest.raises(ia.ListingError) as caught:
            ia.open(source)
        assert (caught.value.reason, caught.value.path) == (
            "symbolic-link-loop",
            str(tmp_path / "x.parquet"),
        )


def test_a_link_to_a_missing_file_is_named(tmp_path):
    (tmp_path / "a.parquet").write_bytes(parquet_bytes())
    link = tmp_path / "x.parquet"
    link.symlink_to(tmp_path / "missing.parquet")
    for source in (tmp_path, link, tmp_path / "*.parquet"):
        with pytest.raises(FileNotFoundError, match=f"^{link}: .*symbolic link.*missing.parquet"):
            ia.open(source)


def test_a_pipe_in_a_folder_does_not_block(tmp_path):
    (tmp_path / "x.parquet").write_bytes(parquet_bytes())
    os.mkfifo(tmp_path / "pipe")
    assert [os.path.basename(path) for path in ia.open(tmp_path).other_files] == ["pipe"]
    os.mkfifo(tmp_path / "y.parquet")
    for source in (tmp_path, tmp_path / "y.parquet", tmp_path / "y*"):
        with pytest.raises(FileNotFoundError, match=r"y\.parquet: not a regular file"):
            ia.open(source)


def test_a_source_without_files():
    class Empty:
        def list_files(self):
            return []

    with pytest.raises(FileNotFoundError):
        ia.open(Empty())


@pytest.mark.parametrize("make", [lambda path: path.open("rb"), lambda path: io.BytesIO(path.read_bytes())])
@pytest.mark.parametrize("in_list", [False, True])
def test_an_open_file_is_not_a_path(tmp_path, make, in_list):
    path = tmp_path / "a.parquet"
    pq.write_table(pa.table({"x": [1]}), path)
    with make(path) as file:
        for act in (ia.open, ia.detach):
            with pytest.raises(ia.SourceError) as caught:
                act([file] if in_list else file)
            assert caught.value.reason == "not-a-path"
            assert isinstance(caught.value, TypeError)


@pytest.mark.parametrize("source", [b"PAR1", 7, None, [7], [None]])
def test_what_is_not_a_path(source):
    with pytest.raises(ia.SourceError) as caught:
        ia.open(source)
    assert caught.value.reason == "not-a-path"


@pytest.mark.parametrize(
    "log",
    [
        "_delta_log/00000000000000000000.json",
        ".hoodie/hoodie.properties",
        "metadata/00000-3b0a.metadata.json",
        "schema/schema-0",
    ],
)
def test_the_folder_of_a_table_with_a_log_is_opened_with_a_warning(tmp_path, log):
    """Files of older snapshots are still there."""
    pq.write_table(pa.table({"a": [1]}), tmp_path / "old.parquet")
    pq.write_table(pa.table({"a": [1, 2]}), tmp_path / "new.parquet")
    assert ia.open(tmp_path).count() == 3
    (tmp_path / log).parent.mkdir()
    (tmp_path / log).parent.joinpath("notes.txt").touch()
    if not log.startswith(("_", ".")):
        assert ia.open(tmp_path).count() == 3  # a folder may have this name
    (tmp_path / log).write_text("{}")
    with pytest.warns(ia.IntarsiaWarning) as caught:
        table = ia.open(tmp_path)
    assert (len(caught), caught[0].filename) == (1, __file__)
    assert table.count() == 3
    assert ia.open(tmp_path / "new.parquet").count() == 2  # naming a file is a choice


@pytest.mark.parametrize("log", ["_delta_log/0.json", ".hoodie/hoodie.conf", "metadata/0.metadata.json"])
def test_a_folder_in_a_table_with_a_log_is_opened_with_a_warning(tmp_path, log):
    """A partition, or the folder of the data of an Iceberg table, has files of older snapshots, too."""
    folder = tmp_path / "table" / "data" / "p=1"
    folder.mkdir(parents=True)
    pq.write_table(pa.table({"a": [1]}), folder / "old.parquet")
    pq.write_table(pa.table({"a": [1, 2]}), folder / "new.parquet")
    assert ia.open(folder).count() == 3
    path = tmp_path / "table" / log
    path.parent.mkdir()
    path.write_text("{}")
    linked = tmp_path / "linked"
    linked.symlink_to(folder)
    for one in (folder.parent, folder, linked):
        with pytest.warns(ia.IntarsiaWarning) as caught:
            table = ia.open(one)
        assert (len(caught), caught[0].filename) == (1, __file__)
        assert table.count() == 3
    assert ia.open(folder / "new.parquet").count() == 2
