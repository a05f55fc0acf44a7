"""Full disks, and processes that die: files are old or new, and what was begun is begun again."""

import contextlib
import json
import os
import resource
import shutil
import signal

import pytest

import intarsia as ia
from intarsia import spark as ias
from intarsia.errors import WriteError
from tests.spark.killing import descendants
from tests.spark.test_indexing import contents, write_lake
from tests.spark.test_large_files import large  # noqa: F401  a fixture

INDEXES = [ia.PageIndex(), ia.Distinct("s"), ia.ZoneMap("x")]


@contextlib.contextmanager
def full_disk():
    """Let the Python processes of Spark write only small files."""
    workers = descendants("daemon pyspark.worker")
    assert workers
    before = {pid: resource.prlimit(pid, resource.RLIMIT_FSIZE) for pid in workers}
    for pid, (_, most) in before.items():
        resource.prlimit(pid, resource.RLIMIT_FSIZE, (2_000, most))
    try:
        yield
    finally:
        for pid in descendants("daemon pyspark.worker"):
            resource.prlimit(pid, resource.RLIMIT_FSIZE, next(iter(before.values())))


def test_a_full_disk(spark, tmp_path):
    lake = write_lake(tmp_path / "lake")
    ias.verify(spark, lake, quick=True, progress=False)  # the workers are running
    before = contents(lake)
    with full_disk():
        report = ias.index(spark, lake, INDEXES, progress=False)
        assert report.files_failed == 4
        with pytest.raises(WriteError):
            ias.optimize(spark, lake, tmp_path / "new", sort_by="x", progress=False)
    assert contents(lake) == before
    assert os.listdir(tmp_path) == ["lake"]
    assert ias.index(spark, lake, INDEXES, progress=False).files_indexed == 4


def test_a_server_of_writes_that_is_killed_is_started_again(spark, tmp_path):
    ias.enable_writes(spark, [ia.Distinct("id")])
    try:
        for number in range(2):
            spark.range(9).coalesce(1).write.parquet(str(tmp_path / str(number)))
            assert ias.last_write(spark).files_indexed == 1
            servers = descendants("intarsia.spark.serving writes")
            assert servers
            for pid in servers if number == 0 else ():
                os.kill(pid, signal.SIGKILL)
    finally:
        ias.disable_writes(spark)


RETRIED = """
import json, os, sys
import intarsia as ia
from dies import Dies
from intarsia import spark as ias
out, marks, large = sys.argv[1:]
frame = spark.range(50, 60, 1, 1).selectExpr("id AS x")
ias.enable_writes(spark, [Dies("x", marks)], on_error="fail")
frame.write.parquet(out + "/failed")
ias.enable_writes(spark, [Dies("y", marks), ia.Distinct("x")])
frame.selectExpr("x", "x + 1 AS y").write.parquet(out + "/noted")
noted = ias.last_write(spark)
ias.disable_writes(spark)
report = ias.index(spark, large, [ia.Bloom("id"), ia.ZoneMap("id"), Dies("id", marks)], progress=False)
rows = [spark.read.parquet(out + "/" + name).count() for name in ("failed", "noted")]
print(json.dumps([rows, noted.files_failed, report.files_indexed, sorted(os.listdir(marks))]))
"""


@pytest.mark.spark
@pytest.mark.slow
def test_processes_that_die_while_they_build_an_index(packages_host, large, tmp_path):  # noqa: F811
    """A task that writes, and one that builds a part of a large file, are retried."""
    (tmp_path / "marks").mkdir()
    (tmp_path / "lake").mkdir()
    shutil.copy(large, tmp_path / "lake" / "a.parquet")
    arguments = (tmp_path / "out", tmp_path / "marks", tmp_path / "lake")
    rows, failed, indexed, marks = json.loads(packages_host.run(RETRIED, *arguments))
    assert (rows, failed, indexed) == ([10, 10], 1, 1)
    assert marks == ["0", "50", "51"]
    for folder, kinds in (("failed", {"dies"}), ("noted", set())):
        (path,) = (tmp_path / "out" / folder).glob("*.parquet")
        directory = ia.inspect(path).directory
        assert {entry.kind for entry in directory.entries} == kinds if directory else not kinds
    entries = ia.inspect(tmp_path / "lake" / "a.parquet").directory.entries
    assert {entry.kind for entry in entries} == {"zone_map", "dies"}
    assert os.listdir(tmp_path / "lake") == ["a.parquet"]
