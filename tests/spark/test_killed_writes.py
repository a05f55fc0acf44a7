"""Servers that index files for Spark are killed at every write: what Spark commits is readable."""

import os
import shutil
import sys
from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

import intarsia as ia
from intarsia import spark as ias
from intarsia.errors import ReplaceError
from intarsia.storage.hadoop_files import sidecar_path
from intarsia.storage.target import PrivateFile
from tests.child import run
from tests.effort import examples

INDEXES = [ia.PageIndex(), ia.Bloom("id"), ia.Distinct("s")]
OPTIONS = ias.write_options(INDEXES)["intarsia.indexes"]

#: Start of a program that is interrupted where it changes a file, before and amid each write. The number of
#: the place is `stop`; `failure` says what happens there.
INTERRUPTED = """
import errno, os, signal, sys
count = 0
def place(fd):
    global count
    count += 1
    if count != stop:
        return
    if failure == "disk full":
        raise OSError(errno.ENOSPC, "no space")
    if failure == "hangs":
        signal.pause()
    if failure == "bytes lost":
        os.ftruncate(fd, 4)
    os.kill(os.getpid(), signal.SIGKILL)
def halved(fd, data, write=os.write):
    place(fd)
    half = write(fd, data[:len(data) // 2])
    place(fd)
    return half + write(fd, data[half:])
def opened(path, flags, *mode, open=os.open, **folder):
    fd = open(path, flags, *mode, **folder)
    if flags & os.O_TRUNC:
        place(fd)
    return fd
os.write, os.open = halved, opened
"""

#: Indexes one file; prints the number of places at which it can be interrupted.
ONE_FILE = f"""
import sys
stop, failure = int(sys.argv[3]), "killed"
{INTERRUPTED}
from intarsia.spark.serving import index_before_commit
index_before_commit("\\0".join([sys.argv[1], sys.argv[2], "shown", ""]))
print(count)
"""

#: A Python whose first processes are interrupted, each at another place; it needs the start of its source.
SERVER = f"""
import os, runpy, sys
for number in range(1000):
    try:
        os.mkdir(os.path.join(folder, str(number)))
        break
    except FileExistsError:  # the number of another process
        pass
stop = stops[number] if number < len(stops) else -1
{INTERRUPTED}
sys.argv = ["serving", "writes"]
runpy.run_module("intarsia.spark.serving", run_name="__main__")
"""


@pytest.fixture
def interrupted_at(spark, tmp_path):
    """Enable indexed writes with servers that are interrupted."""

    def interrupted_at(stops, failure="killed"):
        folder = tmp_path / "processes"
        folder.mkdir()
        python = tmp_path / "python"
        names = f"#!{sys.executable}\nfolder, stops, failure = {(str(folder), stops, failure)!r}"
        python.write_text(names + SERVER)
        python.chmod(0o755)
        ias.enable_writes(spark, INDEXES)
        spark.conf.set("spark.intarsia.write.python", str(python))

    yield interrupted_at
    ias.disable_writes(spark)


@pytest.fixture
def has_checksums(request, spark):
    """Whether Hadoop writes files of checksums."""
    context = spark.sparkContext
    local = context._jvm.org.apache.hadoop.fs.FileSystem.getLocal(context._jsc.hadoopConfiguration())
    local.setWriteChecksum(request.param == "checksums")
    yield request.param == "checksums"
    local.setWriteChecksum(True)


def frame(spark, start, files=1):
    return spark.range(start, start + 50 * files, 1, files).selectExpr("id", "CAST(id % 7 AS string) AS s")


def parquet_files(folder):
    return sorted(path for path in Path(folder).rglob("*.parquet"))


def ids(spark, folder):
    return sorted(row.id for row in spark.read.parquet(str(folder)).collect())


def number_of_places(path, folder):
    """The number of places at which indexing a copy of a file can be interrupted."""
    folder.mkdir()
    copy = shutil.copy(path, folder)
    if os.path.exists(sidecar_path(str(path))):
        shutil.copy(sidecar_path(str(path)), folder)
    return int(run(ONE_FILE, OPTIONS, copy, -1))


def check(folder, has_checksums):
    """Every file is valid, and as long as its indexes require; Spark compared it with its checksums."""
    for path in parquet_files(folder):
        assert ia.verify(path).ok
        assert os.path.exists(sidecar_path(str(path))) == has_checksums
    assert not (folder / "_temporary").exists()


IS_DEEP = bool(examples(0, deep=1))

CASES = [("checksums", 0, "append"), ("no checksums", 1, "overwrite")]
CASES += [("checksums", 1, "overwrite"), ("no checksums", 0, "append")] if IS_DEEP else []


@pytest.mark.parametrize(("has_checksums", "ordinal", "mode"), CASES, indirect=["has_checksums"])
def test_killed_at_every_write(spark, interrupted_at, has_checksums, tmp_path, ordinal, mode):
    """What Spark commits has every row, whether the file was indexed or not."""
    out = tmp_path / "out"
    frame(spark, 0).write.parquet(str(out))
    (old,) = parquet_files(out)
    places = number_of_places(old, tmp_path / "copy")
    assert places == (11 if has_checksums else 8)
    # by default, the cases divide the places
    stops = list(range(1, places + 1) if IS_DEEP else range(1 + ordinal, places + 1, 2))
    count = len(stops)
    interrupted_at(stops)
    frame(spark, 1000, count + 1).write.mode(mode).parquet(str(out))
    report = ias.last_write(spark)
    assert (report.files_failed, report.files_indexed) == (count, 1)
    assert {file.code for file in report.per_file if file.error} == {"not-indexed"}
    kept = list(range(50)) if mode == "append" else []
    assert ids(spark, out) == kept + list(range(1000, 1000 + 50 * (count + 1)))
    assert sum(ia.inspect(path).directory is not None for path in parquet_files(out)) == 1
    check(out, has_checksums)


@pytest.mark.parametrize("failure", ["disk full", "hangs"])
def test_other_failures_of_a_server(spark, interrupted_at, tmp_path, failure):
    """A server that reports an error, and one that is killed after a time limit."""
    interrupted_at([4], failure)
    spark.conf.set("spark.intarsia.write.timeoutMillis", "3000" if failure == "hangs" else "60000")
    try:
        frame(spark, 0).write.parquet(str(tmp_path / "out"))
    finally:
        spark.conf.unset("spark.intarsia.write.timeoutMillis")
    assert ias.last_write(spark).files_failed == 1
    assert ids(spark, tmp_path / "out") == list(range(50))
    assert [ia.inspect(path).directory for path in parquet_files(tmp_path / "out")] == [None]
    check(tmp_path / "out", has_checksums=True)


def test_a_file_that_cannot_be_restored_fails_its_task(spark, interrupted_at, tmp_path):
    """It is not committed, although failures are only noted."""
    out = tmp_path / "out"
    frame(spark, 0).write.parquet(str(out))
    interrupted_at([1], "bytes lost")
    with pytest.raises(Exception, match="cannot be restored"):
        frame(spark, 1000).write.mode("append").parquet(str(out))
    assert ids(spark, out) == list(range(50))
    check(out, has_checksums=True)


def test_names_with_percent_signs_are_not_decoded(spark, tmp_path):
    """Spark encodes values in the names of folders, and the paths of files are not URLs."""
    ias.enable_writes(spark, INDEXES)
    try:
        with_part = frame(spark, 0).selectExpr("*", "'a/b c%20' AS part")
        with_part.write.partitionBy("part").parquet(str(tmp_path / "out"))
    finally:
        ias.disable_writes(spark)
    (path,) = parquet_files(tmp_path / "out")
    assert path.parent.name == "part=a%2Fb c%2520"
    assert [(file.path, file.error) for file in ias.last_write(spark).per_file] == [(str(path), None)]
    assert ids(spark, tmp_path / "out") == list(range(50))


# --- without Spark -----------------------------------------------------------------------------------


@pytest.fixture
def written(tmp_path):
    """A file as a writer leaves it, with its checksums."""
    path = tmp_path / "data" / "a.parquet"
    path.parent.mkdir()
    pq.write_table(pa.table({"id": range(500), "s": [str(n % 7) for n in range(500)]}), path)
    Path(sidecar_path(str(path))).write_bytes(b"crc\0" + (512).to_bytes(4, "big"))
    return path


@pytest.mark.parametrize("has_sidecar", [True, False])
def test_a_killed_server_changes_no_byte_of_the_writer(written, tmp_path, has_sidecar):
    """So the length and the sidecar from before restore the file."""
    before, sidecar = written.read_bytes(), Path(sidecar_path(str(written)))
    checksums = sidecar.read_bytes()
    if not has_sidecar:
        sidecar.unlink()
    places = number_of_places(written, tmp_path / "copy")
    lengths = set()
    for stop in range(1, places + 1):
        written.write_bytes(before)
        if has_sidecar:
            sidecar.write_bytes(checksums)
        assert run(ONE_FILE, OPTIONS, written, stop) == ""
        assert written.read_bytes()[: len(before)] == before
        assert sidecar.exists() == has_sidecar
        lengths.add(written.stat().st_size)
    assert len(lengths) > 8  # killed with many parts of the tail


def test_bytes_of_the_writer_are_not_replaced(written):
    before = written.read_bytes()
    with pytest.raises(ReplaceError) as caught:
        PrivateFile(str(written), "shown").replace_tail(len(before) - 1, [b"tail"])
    assert (caught.value.reason, caught.value.path) == ("already-indexed", "shown")
    assert written.read_bytes() == before
