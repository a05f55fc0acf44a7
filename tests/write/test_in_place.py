"""`write_table` leaves the old file or the new one, whenever it fails or is killed (contract C4)."""

import errno
import os
import stat
from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

import intarsia as ia
from intarsia.storage.hadoop_files import sidecar_path
from intarsia.storage.replace import NewFile, replace_tail
from tests.child import KILLED_AT_A_CALL, run


@pytest.fixture
def path(tmp_path):
    return tmp_path / "t.parquet"


def table(start=0):
    """Long text, so that the page index is rewritten, too."""
    return pa.table(
        {"n": range(start, start + 500), "text": [f"{n:0100}" for n in range(start, start + 500)]}
    )


def write(path, start=0):
    return ia.write_table(table(start), path, indexes=[ia.Distinct("n")], rows_per_page=50)


def test_existing_file_is_replaced_and_keeps_its_mode(path):
    path.write_bytes(b"old")
    path.chmod(0o640)
    with open(path, "rb") as reader:
        write(path)
        assert reader.read() == b"old"
    assert stat.S_IMODE(path.stat().st_mode) == 0o640
    assert pq.read_table(path).equals(table())
    assert os.listdir(path.parent) == ["t.parquet"]


def test_new_file_has_the_default_mode(path):
    write(path)
    path.with_name("plain").touch()
    assert path.stat().st_mode == path.with_name("plain").stat().st_mode


def test_times_are_current(path):
    path.write_bytes(b"old")
    os.utime(path, (1, 1))
    write(path)
    assert path.stat().st_mtime > 1_000_000


def test_link_stays_a_link(path):
    link = path.with_name("link.parquet")
    link.symlink_to(path)
    write(link)
    assert link.is_symlink()
    assert pq.read_table(path).equals(table())


def test_file_url(tmp_path):
    path = tmp_path / "with blank.parquet"
    write(path.as_uri())
    assert pq.read_table(path).equals(table())


def test_sidecar_of_the_old_bytes_is_removed(path):
    path.write_bytes(b"old")
    Path(sidecar_path(str(path))).write_bytes(b"crc\0\0\0\2\0")
    write(path)
    assert os.listdir(path.parent) == ["t.parquet"]


def test_concurrent_attach_cannot_undo_the_new_file(path):
    """A replacement that was computed from the old file is refused after the new one is in place."""
    from intarsia.errors import ChangedMeanwhileError
    from intarsia.storage.replace import FileIdentity

    write(path)
    identity = FileIdentity.of(path)
    write(path, start=1000)
    with pytest.raises(ChangedMeanwhileError):
        replace_tail(str(path), identity, 10, [b"tail"])
    assert pq.read_table(path).equals(table(1000))


@pytest.mark.parametrize("make", [lambda path: path.mkdir(), os.mkfifo], ids=["folder", "pipe"])
def test_folders_and_pipes_are_not_replaced(path, make):
    make(path)
    with pytest.raises(ia.ReplaceError) as caught:
        write(path)
    assert (caught.value.reason, caught.value.path) == ("not-a-file", str(path))
    assert os.listdir(path.parent) == ["t.parquet"]


def test_missing_folder(tmp_path):
    path = tmp_path / "missing" / "t.parquet"
    with pytest.raises(ia.ReplaceError) as caught:
        write(path)
    assert (caught.value.reason, caught.value.path) == ("no-such-folder", str(path))


def failing(function, error):
    def call(*args, **kwargs):
        raise error

    return call


@pytest.mark.parametrize(
    ("number", "reason"),
    [
        (errno.ENOSPC, "disk-full"),
        (errno.EACCES, "permission-denied"),
        (errno.EROFS, "read-only-file-system"),
        (errno.EIO, "system-error"),
    ],
)
@pytest.mark.parametrize("name", ["open", "ftruncate", "write", "fsync", "replace", "fchmod"])
def test_errors_of_the_system(path, monkeypatch, name, number, reason):
    path.write_bytes(b"old")
    with monkeypatch.context() as patch:
        patch.setattr(os, name, failing(name, OSError(number, os.strerror(number))))
        with pytest.raises(ia.ReplaceError) as caught:
            write(path)
    assert (caught.value.reason, caught.value.path) == (reason, str(path))
    assert ".tmp" not in str(caught.value)
    assert path.read_bytes() == b"old"
    assert os.listdir(path.parent) == ["t.parquet"]


@pytest.mark.skipif(os.geteuid() == 0, reason="root can write everywhere")
def test_read_only_folder(path):
    path.parent.chmod(0o500)
    try:
        with pytest.raises(ia.ReplaceError) as caught:
            write(path)
    finally:
        path.parent.chmod(0o700)
    assert caught.value.reason == "permission-denied"


def test_disk_full_while_pyarrow_writes(path):
    """With a real limit: the child process must not write a file as large as the new one."""
    path.write_bytes(b"old")
    program = (
        "import resource, signal, sys, os, intarsia as ia, pyarrow as pa\n"
        "signal.signal(signal.SIGXFSZ, signal.SIG_IGN)\n"
        "resource.setrlimit(resource.RLIMIT_FSIZE, (100_000, 100_000))\n"
        "data = pa.table({'n': [os.urandom(1000) for _ in range(500)]})\n"
        "try: ia.write_table(data, sys.argv[1])\n"
        "except ia.ReplaceError as error: print(error.reason)\n"
    )
    assert run(program, str(path)) == "file-too-large\n"
    assert path.read_bytes() == b"old"
    assert os.listdir(path.parent) == ["t.parquet"]


# --- killed ----------------------------------------------------------------------------------------

KILLED_AT = (
    KILLED_AT_A_CALL
    + """
import pyarrow as pa, pyarrow.parquet as pq, intarsia as ia
import intarsia.write.output
numbers = range(500)
table = pa.table({"n": numbers, "text": [f"{n:0100}" for n in numbers]})
for name in "open close write ftruncate fsync fchmod unlink replace".split():
    setattr(os, name, counted(getattr(os, name)))
pq.ParquetWriter.write_table = counted(pq.ParquetWriter.write_table)
ia.write_table(table, sys.argv[1], indexes=[ia.Distinct("n")], rows_per_page=50, row_group_size=100)
print(count)
"""
)


def test_killed_at_calls_to_the_system(path):
    """At any call, the file is the old or the new one, and the next run removes the leftovers."""
    calls = int(run(KILLED_AT, str(path), "-1"))
    new = path.read_bytes()
    outcomes = set()
    for stop in sorted({*range(1, calls, 4), *range(calls - 6, calls + 1)}):
        path.write_bytes(b"old")
        assert run(KILLED_AT, str(path), str(stop)) == ""
        outcomes.add(path.read_bytes() == new)
        assert path.read_bytes() in (b"old", new)
        NewFile(str(path)).discard()  # the next run, which is given up
        assert os.listdir(path.parent) == ["t.parquet"]
    assert outcomes == {True, False}
