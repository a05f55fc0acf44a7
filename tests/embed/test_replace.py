"""Replacing a file: the path is always the old or the new file, and its attributes are kept (contract C4)."""

import dataclasses
import errno
import fcntl
import os
import stat
import tempfile
import threading
import zlib
from pathlib import Path
from typing import ClassVar

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from intarsia.embed import PageIndex, detach
from intarsia.embed.attach import attach_file
from intarsia.errors import ChangedMeanwhileError, IndexBuildError, ReplaceError
from intarsia.indexes import Index
from intarsia.storage.hadoop_files import sidecar_path
from intarsia.storage.replace import (
    AHEAD_BYTES,
    BLOCK_BYTES,
    FileIdentity,
    NewFile,
    remove_leftovers,
    replace_tail,
)
from intarsia.storage.target import LocalTarget
from tests.child import KILLED_AT_A_CALL, run

#: The limit from which files are copied ahead.
LIMITS = {"ahead_bytes": AHEAD_BYTES}


def attach(path, indexes):
    """As `intarsia.attach`, with the limit of the test."""
    return attach_file(str(path), indexes, find=lambda path, _: LocalTarget(path, **LIMITS))


@pytest.fixture
def path(tmp_path):
    path = tmp_path / "t.parquet"
    table = pa.table({"n": range(5000), "s": [f"value {i}" for i in range(5000)]})
    pq.write_table(table, path, row_group_size=1000)
    os.utime(path, ns=(1_600_000_000_123_456_789, 1_500_000_000_987_654_321))
    return path


@pytest.fixture(autouse=True, params=["copied in the end", "copied ahead"])
def ahead(request, monkeypatch):
    """All tests run for large files, which are copied while indexes are built, and for small ones."""
    if request.param == "copied ahead":
        monkeypatch.setitem(LIMITS, "ahead_bytes", 0)
    return request.param == "copied ahead"


@pytest.fixture
def attached(path, tmp_path):
    """The bytes of the file after attaching."""
    other = tmp_path / "elsewhere" / "t.parquet"
    other.parent.mkdir()
    other.write_bytes(path.read_bytes())
    attach(other, [PageIndex()])
    data = other.read_bytes()
    other.unlink()
    other.parent.rmdir()
    return data


def hadoop_sidecar(data, stretch_bytes=512):
    """The sidecar that Hadoop's ChecksumFileSystem writes."""
    stretches = (data[start : start + stretch_bytes] for start in range(0, len(data), stretch_bytes))
    checksums = b"".join(zlib.crc32(stretch).to_bytes(4, "big") for stretch in stretches)
    return b"crc\0" + stretch_bytes.to_bytes(4, "big") + checksums


# --- attributes of a file --------------------------------------------------------------------------


def test_mode_and_times_are_kept(path):
    path.chmod(0o640)
    before = path.stat()
    for change in (lambda: attach(path, [PageIndex()]), lambda: detach(path)):
        change()
        after = path.stat()
        assert stat.S_IMODE(after.st_mode) == 0o640
        assert after.st_mtime_ns == before.st_mtime_ns
        assert (after.st_uid, after.st_gid) == (before.st_uid, before.st_gid)
        assert os.listdir(path.parent) == ["t.parquet"]


@pytest.mark.skipif(os.geteuid() != 0, reason="only root can change the owner of a file")
def test_owner_is_kept(path):
    os.chown(path, 1234, 2345)
    path.chmod(0o4750)
    attach(path, [PageIndex()])
    after = path.stat()
    assert (after.st_uid, after.st_gid, stat.S_IMODE(after.st_mode)) == (1234, 2345, 0o4750)


@pytest.mark.skipif(os.geteuid() != 0, reason="only root can become another user")
def test_group_is_kept_where_the_owner_cannot_be(path):
    """A member of the file's group can write to its folder, but cannot change the owner of a file."""
    program = """
import os, sys
from intarsia.embed import PageIndex, attach
shared, warm_up = sys.argv[1:]
attach(warm_up, PageIndex())  # run the lazy imports while the modules are readable
os.setgroups([2345])
os.setgid(3456)
os.setuid(1357)
print(attach(shared, PageIndex()).changed)
"""
    with tempfile.TemporaryDirectory() as folder:  # other users cannot read pytest's own
        os.chmod(folder, 0o777)
        shared = Path(folder, "t.parquet")
        shared.write_bytes(path.read_bytes())
        os.chown(shared, 1234, 2345)
        shared.chmod(0o640)
        assert run(program, str(shared), str(path)) == "True\n"
        after = shared.stat()
        assert (after.st_uid, after.st_gid, stat.S_IMODE(after.st_mode)) == (1357, 2345, 0o640)


def test_owner_that_cannot_be_kept_is_not_a_failure(path, monkeypatch):
    def refuse(*args):
        raise PermissionError(errno.EPERM, "not yours")

    monkeypatch.setattr(os, "fchown", refuse)
    attach(path, [PageIndex()])


@pytest.mark.skipif(not hasattr(os, "setxattr"), reason="no extended attributes here")
def test_extended_attributes_are_kept(path):
    try:
        os.setxattr(path, "user.origin", b"somewhere")
    except OSError:
        pytest.skip("the file system has no extended attributes")
    attach(path, [PageIndex()])
    assert os.getxattr(path, "user.origin") == b"somewhere"


def test_link_stays_and_its_target_is_replaced(path, attached):
    links = path.parent / "links"
    links.mkdir()
    first, second = links / "first.parquet", links / "second.parquet"
    first.symlink_to(path)
    second.symlink_to("first.parquet")
    attach(second, [PageIndex()])
    assert second.is_symlink()
    assert first.is_symlink()
    assert path.read_bytes() == attached
    assert sorted(os.listdir(links)) == ["first.parquet", "second.parquet"]


def test_other_hard_links_keep_the_old_bytes(path, attached):
    before = path.read_bytes()
    other = path.parent / "other.parquet"
    other.hardlink_to(path)
    attach(path, [PageIndex()])
    assert (path.read_bytes(), other.read_bytes()) == (attached, before)


def test_relative_path(path, attached, monkeypatch):
    monkeypatch.chdir(path.parent)
    sidecar = Path(sidecar_path("t.parquet"))
    sidecar.write_bytes(hadoop_sidecar(path.read_bytes()))
    attach("t.parquet", [PageIndex()])
    assert path.read_bytes() == attached
    assert sidecar.read_bytes() == hadoop_sidecar(attached)


# --- the sidecar -----------------------------------------------------------------------------------


@pytest.mark.parametrize("stretch_bytes", [512, 100, 1 << 16])
def test_sidecar_is_rewritten(path, attached, stretch_bytes):
    before = path.read_bytes()
    sidecar = Path(sidecar_path(str(path)))
    sidecar.write_bytes(hadoop_sidecar(before, stretch_bytes))
    attach(path, [PageIndex()])
    assert sidecar.read_bytes() == hadoop_sidecar(attached, stretch_bytes)
    detach(path)
    assert sidecar.read_bytes() == hadoop_sidecar(before, stretch_bytes)
    assert sorted(os.listdir(path.parent)) == [sidecar.name, "t.parquet"]


@pytest.mark.parametrize(
    "damage", [b"", b"crc\0", b"crc\0\0\0\0\0", b"crc\0\xff\xff\xff\xff", b"something else"]
)
def test_damaged_sidecar_is_replaced_by_a_correct_one(path, attached, damage):
    sidecar = Path(sidecar_path(str(path)))
    sidecar.write_bytes(damage)
    attach(path, [PageIndex()])
    assert sidecar.read_bytes() == hadoop_sidecar(attached)


def test_sidecar_of_another_length_is_recomputed(path, attached):
    sidecar = Path(sidecar_path(str(path)))
    sidecar.write_bytes(hadoop_sidecar(b"x" * 10_000))
    attach(path, [PageIndex()])
    assert sidecar.read_bytes() == hadoop_sidecar(attached)


def test_sidecar_still_detects_corruption(path):
    """Checksums of old bytes are copied: recomputing them would hide that a byte has changed."""
    before = path.read_bytes()
    checksums = hadoop_sidecar(before)
    sidecar = Path(sidecar_path(str(path)))
    sidecar.write_bytes(checksums)
    corrupt = bytearray(before)
    corrupt[1000] ^= 1
    path.write_bytes(corrupt)
    replace_tail(str(path), FileIdentity.of(path), len(before), [b"tail"])
    assert sidecar.read_bytes()[: len(checksums) - 4] == checksums[:-4]
    assert sidecar.read_bytes() == hadoop_sidecar(before + b"tail")


def test_sidecar_beside_a_link(path, attached):
    links = path.parent / "links"
    links.mkdir()
    link = links / "link.parquet"
    link.symlink_to(path)
    for name in (link, path):
        Path(sidecar_path(str(name))).write_bytes(hadoop_sidecar(path.read_bytes()))
    attach(link, [PageIndex()])
    for name in (link, path):
        assert Path(sidecar_path(str(name))).read_bytes() == hadoop_sidecar(attached)


def test_no_sidecar_is_created(path):
    attach(path, [PageIndex()])
    assert not Path(sidecar_path(str(path))).exists()


# --- failures --------------------------------------------------------------------------------------


def failing(function, error, after=0):
    """``function``, which fails after the given number of calls."""
    calls = [0]

    def call(*args, **kwargs):
        calls[0] += 1
        if calls[0] > after:
            raise error
        return function(*args, **kwargs)

    return call


@pytest.mark.parametrize("name", ["write", "fsync", "replace", "fchmod", "utime"])
@pytest.mark.parametrize(
    ("number", "reason"),
    [
        (errno.ENOSPC, "disk-full"),
        (errno.EACCES, "permission-denied"),
        (errno.EROFS, "read-only-file-system"),
        (errno.EIO, "system-error"),
    ],
)
def test_errors_of_the_system(path, monkeypatch, name, number, reason):
    before = path.read_bytes()
    with monkeypatch.context() as patch:
        patch.setattr(os, name, failing(getattr(os, name), OSError(number, os.strerror(number))))
        with pytest.raises(ReplaceError) as caught:
            attach(path, [PageIndex()])
    assert (caught.value.reason, caught.value.path) == (reason, str(path))
    assert path.read_bytes() == before
    assert os.listdir(path.parent) == ["t.parquet"]


def test_disk_full(path):
    """With a real limit: the child process must not write a file as large as the new one."""
    before = path.read_bytes()
    program = (
        "import resource, signal, sys; from intarsia.embed import attach, PageIndex; "
        "from intarsia.errors import ReplaceError\n"
        "signal.signal(signal.SIGXFSZ, signal.SIG_IGN)\n"
        f"resource.setrlimit(resource.RLIMIT_FSIZE, ({len(before)}, {len(before)}))\n"
        "try: attach(sys.argv[1], [PageIndex()])\n"
        "except ReplaceError as error: print(error.reason)\n"
    )
    assert run(program, str(path)) == "file-too-large\n"
    assert path.read_bytes() == before
    assert os.listdir(path.parent) == ["t.parquet"]


@pytest.mark.parametrize("error", [KeyboardInterrupt, MemoryError])
def test_interrupted(path, monkeypatch, error):
    before = path.read_bytes()
    for name in ("write", "fsync", "replace"):
        with monkeypatch.context() as patch:
            patch.setattr(os, name, failing(getattr(os, name), error()))
            with pytest.raises(error):
                attach(path, [PageIndex()])
        assert path.read_bytes() == before
        assert os.listdir(path.parent) == ["t.parquet"]


@pytest.mark.parametrize("number", [errno.EXDEV, errno.ENOSYS, errno.EINVAL, errno.EOPNOTSUPP])
def test_kernel_that_cannot_copy(path, monkeypatch, number):
    values = np.arange(3 * BLOCK_BYTES // 8)
    pq.write_table(pa.table({"n": values}), path, use_dictionary=False, compression="none")
    other = path.with_name("other.parquet")
    other.write_bytes(path.read_bytes())
    attach(other, [PageIndex()])
    monkeypatch.setattr(os, "copy_file_range", failing(None, OSError(number, "no")), raising=False)
    attach(path, [PageIndex()])
    assert path.read_bytes() == other.read_bytes()


def test_kernel_that_copies_piece_by_piece(path, attached, monkeypatch):
    whole = os.copy_file_range
    monkeypatch.setattr(os, "copy_file_range", lambda a, b, n, *offsets: whole(a, b, min(n, 777), *offsets))
    attach(path, [PageIndex()])
    assert path.read_bytes() == attached


def test_writes_that_are_cut_short(path, attached, monkeypatch):
    whole = os.write
    monkeypatch.setattr(os, "write", lambda fd, data: whole(fd, data[:100]))
    attach(path, [PageIndex()])
    assert path.read_bytes() == attached


# --- copied ahead ----------------------------------------------------------------------------------


@dataclasses.dataclass(frozen=True)
class Watching(Index):
    """An index that lists the folder while it is built."""

    kind: ClassVar[str] = "watching"
    version: ClassVar[int] = 1
    columns: ClassVar[tuple] = ()
    looked: ClassVar[list] = []

    folder: str

    def build(self, chunk):
        self.looked.append([name for name in os.listdir(self.folder) if name.endswith(".tmp")])
        raise IndexBuildError("seen enough", reason="seen-enough")

    def open(self, payload, layout): ...


def test_the_copy_starts_before_an_index_is_built_and_is_removed_when_that_fails(path, ahead, monkeypatch):
    monkeypatch.setattr(Watching, "looked", [])
    before = path.read_bytes()
    with pytest.raises(IndexBuildError) as caught:
        attach(path, [Watching(str(path.parent))])
    assert caught.value.reason == "seen-enough"
    assert [len(found) for found in Watching.looked] == [1 if ahead else 0]
    assert path.read_bytes() == before
    assert os.listdir(path.parent) == ["t.parquet"]


def test_nothing_is_copied_when_there_is_nothing_to_do(path, monkeypatch):
    attach(path, [PageIndex()])
    system_open, opened = os.open, []
    monkeypatch.setattr(os, "open", lambda *given: opened.append(given) or system_open(*given))
    assert attach(path, [PageIndex()]).kept == ("page_index",)
    assert opened
    assert not [name for name, flags, *_ in opened if flags & os.O_CREAT]


def test_looking_for_leftovers_costs_the_same_in_a_folder_of_any_size(path, monkeypatch):
    def no_listing(_):
        pytest.fail("the folder was listed")

    monkeypatch.setattr(os, "listdir", no_listing)
    monkeypatch.setattr(os, "scandir", no_listing)
    assert attach(path, [PageIndex()]).changed


def test_failures_of_the_copy_ahead_are_reported(path, monkeypatch):
    before = path.read_bytes()
    for name in ("copy_file_range", "fsync"):
        with monkeypatch.context() as patch:
            patch.setattr(os, name, failing(None, OSError(errno.ENOSPC, "full")))
            with pytest.raises(ReplaceError) as caught:
                attach(path, [PageIndex()])
        assert caught.value.reason == "disk-full"
        assert path.read_bytes() == before
        assert os.listdir(path.parent) == ["t.parquet"]


# --- concurrent changes ----------------------------------------------------------------------------


def test_file_that_changed_meanwhile(path):
    identity = FileIdentity.of(path)
    for change in (
        lambda: path.write_bytes(path.read_bytes() + b"more"),
        lambda: os.utime(path, ns=(1, 2)),
        lambda: (path.with_suffix(".new").write_bytes(b"new"), path.with_suffix(".new").rename(path)),
        path.unlink,
    ):
        change()
        with pytest.raises(ChangedMeanwhileError) as caught:
            replace_tail(str(path), identity, 10, [b"tail"])
        assert (caught.value.reason, caught.value.path) == ("changed-meanwhile", str(path))
        assert not [name for name in os.listdir(path.parent) if name.endswith(".tmp")]


def test_file_that_changes_at_the_last_moment(path, monkeypatch):
    """The index is attached to the new file, or not at all."""
    lock, changed = fcntl.flock, []

    def meddle(fd, operation):
        if not changed and fd_means(fd, path):
            changed.append(True)
            pq.write_table(pa.table({"new": [1, 2, 3]}), path.with_suffix(".new"))
            path.with_suffix(".new").rename(path)
        lock(fd, operation)

    monkeypatch.setattr(fcntl, "flock", meddle)
    attach(path, [PageIndex()])
    assert changed
    assert pq.read_table(path).column_names == ["new"]
    assert pq.ParquetFile(path).metadata.row_group(0).column(0).has_column_index


def fd_means(fd, path):
    a, b = os.fstat(fd), os.stat(path)
    return (a.st_dev, a.st_ino) == (b.st_dev, b.st_ino)


def test_concurrent_runs(path, attached):
    """All runs succeed, and the file is the same as after a single run."""
    failures = []

    def work():
        try:
            attach(path, [PageIndex()])
        except ReplaceError as error:
            failures.append(error)

    threads = [threading.Thread(target=work) for _ in range(6)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert failures == []
    assert path.read_bytes() == attached
    assert os.listdir(path.parent) == ["t.parquet"]


def test_leftovers_of_dead_processes_are_removed_and_work_in_progress_is_kept(path):
    in_progress = NewFile(str(path))
    leftover = path.parent / ".t.parquet.intarsia-1.tmp"
    leftover.write_bytes(b"half a file")
    others = [
        path.parent / name
        for name in (".u.parquet.intarsia-0.tmp", ".t.parquet.tmp", "t.parquet.intarsia-2.tmp")
    ]
    for other in others:
        other.write_bytes(b"")
    assert remove_leftovers(str(path)) == [str(leftover)]
    assert os.path.exists(in_progress.temporary)
    in_progress.discard()
    assert all(other.exists() for other in others)
    assert not os.path.exists(in_progress.temporary)


# --- killed ----------------------------------------------------------------------------------------

KILLED_AT = (
    KILLED_AT_A_CALL
    + """
from intarsia.embed import PageIndex
from intarsia.embed.attach import attach_file
from intarsia.storage.target import LocalTarget
for name in "open close copy_file_range write fsync fchmod utime unlink replace pread".split():
    if hasattr(os, name):
        setattr(os, name, counted(getattr(os, name)))
ahead_bytes = int(sys.argv[3])
attach_file(sys.argv[1], [PageIndex()], find=lambda path, _: LocalTarget(path, ahead_bytes))
print(count)
"""
)


def test_killed_at_every_call_to_the_system(path, attached, ahead):
    """At any call, the file is the old or the new one, and the next run removes the leftovers."""
    before = path.read_bytes()
    mtime_ns = path.stat().st_mtime_ns
    sidecar = Path(sidecar_path(str(path)))
    sidecar.write_bytes(hadoop_sidecar(before))
    ahead_bytes = "0" if ahead else "1000000000"
    calls = int(run(KILLED_AT, str(path), "-1", ahead_bytes))
    assert path.read_bytes() == attached
    outcomes = set()
    # the first calls open and read the file and change nothing, so a few of them are enough
    for stop in [*range(1, calls - 22, 15), *range(max(1, calls - 22), calls + 1)]:
        path.write_bytes(before)
        os.utime(path, ns=(0, mtime_ns))
        sidecar.write_bytes(hadoop_sidecar(before))
        assert run(KILLED_AT, str(path), str(stop), ahead_bytes) == ""
        found = path.read_bytes()
        assert found in (before, attached)
        outcomes.add(found == attached)
        assert not sidecar.exists() or sidecar.read_bytes() == hadoop_sidecar(found)
        assert pq.read_table(path).num_rows == 5000
        attach(path, [PageIndex()])
        assert path.read_bytes() == attached
        assert path.stat().st_mtime_ns == mtime_ns
        assert set(os.listdir(path.parent)) <= {"t.parquet", sidecar.name}
    assert outcomes == {True, False}


@pytest.mark.slow
def test_killed_at_random_times(path, attached):
    """Attaching and detaching in a loop, killed at arbitrary times."""
    before = path.read_bytes()
    program = (
        "import sys; from intarsia.embed import attach, detach, PageIndex\n"
        "while True: attach(sys.argv[1], [PageIndex()]); detach(sys.argv[1])\n"
    )
    for round_ in range(12):
        run(program, str(path), killed_after_seconds=0.02 + 0.0137 * round_)
        assert path.read_bytes() in (before, attached)
        attach(path, [PageIndex()])
        assert path.read_bytes() == attached
        assert os.listdir(path.parent) == ["t.parquet"]
