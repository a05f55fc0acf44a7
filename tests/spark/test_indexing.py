"""`ias.index`: its effect on a lake, on Spark's frames over it, and its errors."""

import dataclasses
import errno
import os
import sys
import threading
from pathlib import Path
from typing import ClassVar

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

import intarsia as ia
from intarsia import spark as ias
from intarsia.embed import PageIndex
from intarsia.errors import ColumnNotFoundError, IndexBuildError, IntarsiaError
from intarsia.format import thrift
from intarsia.lake.data_file import DataFile
from intarsia.lake.discovery import find_files
from intarsia.spark.job import MAX_TASKS, run_tasks, tasks_of
from intarsia.spark.lake_files import find_unchanged
from tests.embed.tables import edit_footer
from tests.spark import lakes
from tests.spark.comparing import rows, settings

INDEXES = [PageIndex(), ia.Distinct("s"), ia.Distinct("cat", granularity="file")]


def write_lake(folder, files=4, rows_of_each=1000):
    for part in range(files):
        values = np.arange(part * rows_of_each, (part + 1) * rows_of_each)
        path = folder / f"p={part % 2}" / f"part-{part}.parquet"
        path.parent.mkdir(parents=True, exist_ok=True)
        table = pa.table({"x": values, "s": [f"s{value % 20}" for value in values], "y": values / 8})
        pq.write_table(table, path, data_page_size=1000, write_batch_size=100)
    return str(folder)


def contents(folder):
    return {str(path): path.read_bytes() for path in sorted(Path(folder).rglob("*")) if path.is_file()}


class CountedFile(DataFile):
    """A file that counts how often it is opened."""

    opened: ClassVar[list[str]] = []

    def open(self, *, fresh=False):
        self.opened.append(self.path)
        return super().open(fresh=fresh)


def quietly(spark, path, indexes=None):
    return ias.index(spark, path, indexes or INDEXES[:2], progress=False)


def test_every_file_is_indexed_and_the_second_run_changes_nothing(spark, tmp_path):
    lake = write_lake(tmp_path / "lake")
    before = contents(lake)
    report = quietly(spark, lake)
    assert report.to_dict()["files"] == {
        "total": 4,
        "indexed": 4,
        "unchanged": 0,
        "failed": 0,
        "skipped": 0,
        "other": 0,
    }
    assert report.bytes_before == sum(map(len, before.values()))
    after = contents(lake)
    assert report.bytes_after == sum(map(len, after.values())) == report.bytes_before + report.bytes_added
    assert after.keys() == before.keys()
    for path, data in before.items():
        assert after[path].startswith(data)
        assert pq.read_metadata(path).row_group(0).column(0).has_column_index
    assert [file.built for file in report.per_file] == [("page_index", "distinct(s):page")] * 4
    inodes = {path: os.stat(path).st_ino for path in after}

    again = quietly(spark, lake)
    assert (again.files_indexed, again.files_unchanged, again.bytes_added) == (0, 4, 0)
    assert contents(lake) == after
    assert {path: os.stat(path).st_ino for path in after} == inodes


def test_the_lake_index_is_built_on_request_and_then_updated(spark, tmp_path):
    lake = write_lake(tmp_path / "lake")
    assert quietly(spark, lake).lake_index is None
    report = ias.index(spark, lake, [ia.Distinct("y")], lake_index="beside", progress=False)
    assert (report.lake_index.files_added, report.lake_index.files_recent) == (4, ())
    assert report.lake_index.folder == str(Path(lake) / "_intarsia")
    again = quietly(spark, lake, [ia.Bloom("x")]).lake_index
    assert (again.files_added, again.folder) == (4, report.lake_index.folder)
    plan = ia.open(lake).explain("x = 1500")
    assert plan.files_opened == 1


@pytest.mark.parametrize("writer", ["pyarrow", "spark"])
def test_spark_reads_the_same_rows(spark, tmp_path, writer):
    """For frames planned before, with several splits per file, and new ones; checksums are verified."""
    lake = lakes.write_with_pyarrow(tmp_path / "pyarrow", rows=300, row_group_size=50)
    if writer == "spark":
        options = {"parquet.block.size": "4096", "parquet.page.size": "1024"}
        lake = lakes.write_with_spark(spark, tmp_path / "spark", lake, options=options)
        assert any(name.endswith(".crc") for name in os.listdir(lake))
    with settings(
        spark, {"spark.sql.files.maxPartitionBytes": "80000", "spark.sql.files.openCostInBytes": "0"}
    ):
        frame = spark.read.parquet(lake).drop("much")
        assert frame.rdd.getNumPartitions() > lakes.FILES
        expected = rows(frame)
        planned_before = spark.read.parquet(lake).drop("much")
        planned_before.rdd.getNumPartitions()
        report = quietly(spark, lake, INDEXES)
        assert report.files_indexed == lakes.FILES, str(report)
        assert rows(planned_before) == expected
        assert rows(frame) == expected
        assert rows(spark.read.parquet(lake).drop("much")) == expected
        for where in ("i = 20000", "s LIKE 'k1%'", "cat = 'c3'", "l > 9007199254740990"):
            assert rows(ias.read(spark, lake, where).drop("much")) == rows(frame.where(where))
    assert ia.open(lake).scan().to_arrow().num_rows == len(expected)


def test_bad_files_are_reported_and_the_rest_are_indexed(spark, tmp_path):
    lake = write_lake(tmp_path / "lake")
    bad, cut = Path(lake) / "p=0" / "bad.parquet", Path(lake) / "p=1" / "part-1.parquet"
    bad.write_bytes(b"garbage")
    cut.write_bytes(cut.read_bytes()[:-20])
    before = bad.read_bytes(), cut.read_bytes()
    report = quietly(spark, lake)
    assert (report.files_indexed, report.files_failed) == (3, 2)
    assert {Path(entry["path"]).name: entry["code"] for entry in report.failed} == {
        "bad.parquet": "file-too-short",
        "part-1.parquet": "wrong-magic",
    }
    assert (bad.read_bytes(), cut.read_bytes()) == before


def test_files_of_a_lake_that_are_not_parquet_by_name(spark, tmp_path):
    """Spark reads every file that is not hidden, so `read` does: a file with another name is not lost."""
    lake = write_lake(tmp_path / "lake")
    first = Path(sorted(contents(lake))[0])
    other = first.with_name("copy.dat")
    other.write_bytes(first.read_bytes())
    report = quietly(spark, lake)
    assert (report.files_total, report.files_other, report.to_dict()["files"]["other"]) == (4, 1, 1)
    assert other.read_bytes() == first.read_bytes()[: other.stat().st_size]
    expected = rows(spark.read.parquet(lake).where("x >= 0"))
    assert rows(ias.read(spark, lake, "x >= 0")) == expected
    assert len(expected) > ia.open(lake).count("x >= 0")
    (Path(lake) / "p=0" / "notes.txt").write_bytes(b"of another kind")
    assert quietly(spark, lake).files_other == 2
    with pytest.warns(ia.IntarsiaWarning, match=r"notes\.txt"):
        found = ias.read(spark, lake, "x >= 0")
    for frame in (spark.read.parquet(lake).where("x >= 0"), found):
        with pytest.raises(Exception, match=r"notes\.txt"):
            frame.collect()


def test_a_folder_that_cannot_be_listed(spark, tmp_path, monkeypatch):
    """Spark is not asked, whose error is a stack trace of Java."""
    lake = write_lake(tmp_path / "lake")

    def scandir(path, scandir=os.scandir):
        if os.fspath(path) == lake:
            raise PermissionError(errno.EACCES, os.strerror(errno.EACCES), path)
        return scandir(path)

    monkeypatch.setattr(os, "scandir", scandir)
    with pytest.raises(PermissionError) as caught:
        ias.index(spark, lake, ia.PageIndex(), progress=False)
    assert caught.value.filename == lake


@pytest.mark.parametrize("module", ["intarsia", "intarsia.spark.later"])
def test_executors_with_another_version(spark, module):
    def work(_):
        raise ModuleNotFoundError(f"No module named {module!r}")

    with pytest.raises(IntarsiaError) as caught:
        run_tasks(spark, [[0]], work, lambda *_: None)
    assert caught.value.reason == "missing-on-executors"


def test_columns_without_an_index_are_reported(spark, tmp_path):
    path = tmp_path / "lake" / "a.parquet"
    path.parent.mkdir()
    pq.write_table(
        pa.table({"t": pa.array([1, 2], pa.timestamp("ns"))}), path, use_deprecated_int96_timestamps=True
    )
    report = quietly(spark, tmp_path / "lake", [PageIndex()])
    assert [(note["column"], note["index"]) for note in report.notes] == [("t", "page_index")]
    assert report.notes[0]["path"] == str(path)
    found = report.to_dict()
    assert found["files"]["total"] == 1
    assert found["notes"] == report.notes
    assert found["per_file"][0]["path"] == str(path)


def test_small_files_in_the_folder_of_an_iceberg_table_are_not_changed(spark, tmp_path):
    """Iceberg 1.12 reads them at once, and fails if they are longer than its manifest says."""
    lake = write_lake(tmp_path / "table" / "data")
    before = contents(lake)
    (tmp_path / "table" / "metadata").mkdir()
    (tmp_path / "table" / "metadata" / "v1.metadata.json").touch()
    for path in (tmp_path / "table", lake, f"{lake}/p=*", [*before]):
        report = quietly(spark, path)
        assert {(file.code, file.built) for file in report.per_file} == {("small-iceberg-file", ())}
        assert (report.files_failed, contents(lake)) == (4, before)


def test_arguments(spark, tmp_path):
    lake = write_lake(tmp_path / "lake")
    with pytest.raises(IndexBuildError) as caught:
        quietly(spark, lake, ["page_index"])
    assert caught.value.reason == "not-an-index"
    with pytest.raises(FileNotFoundError):
        quietly(spark, tmp_path / "nowhere")
    one, other = sorted(contents(lake))[:2]
    assert quietly(spark, one).files_indexed == 1
    assert quietly(spark, [Path(one), other, one]).files_total == 2
    assert quietly(spark, f"file://{lake}").files_indexed == 2
    assert quietly(spark, f"{lake}/p=*/").files_unchanged == 4


def test_progress(spark, tmp_path, capsys, monkeypatch):
    calls = []
    ias.index(spark, write_lake(tmp_path / "lake"), [PageIndex()], progress=lambda *args: calls.append(args))
    assert calls[0] == (0, 4, "indexing")
    assert calls[-1] == (4, 4, "indexing")
    assert calls == sorted(calls)
    ias.index(spark, str(tmp_path / "lake"), [PageIndex()])
    assert capsys.readouterr().err == ""  # not a terminal
    monkeypatch.setattr(sys.stderr, "isatty", lambda: True)
    ias.index(spark, str(tmp_path / "lake"), [PageIndex()])
    assert capsys.readouterr().err.endswith("\rindexing: 4 of 4 files\n")


def test_a_wrong_column_fails_once_before_any_task(spark, tmp_path):
    lake = write_lake(tmp_path / "lake")
    before = contents(lake)
    calls = []
    for index in (ia.Distinct("sx"), ia.Bloom("sx"), ia.Distinct(""), ia.Bloom("")):
        with pytest.raises(ColumnNotFoundError) as caught:
            ias.index(spark, lake, [PageIndex(), index], progress=lambda *args: calls.append(args))
        assert (caught.value.reason, caught.value.column) == ("no-such-column", index.column)
    with pytest.raises(IndexBuildError) as caught:
        ias.index(spark, lake, [ia.Distinct("p")], progress=lambda *args: calls.append(args))
    assert (caught.value.reason, caught.value.column) == ("partition-column", "p")
    assert calls == []
    assert contents(lake) == before


def test_a_column_that_only_later_files_have_is_indexed(spark, tmp_path):
    (tmp_path / "bad.parquet").write_bytes(b"garbage")
    pq.write_table(pa.table({"x": [1, 2]}), tmp_path / "c.parquet")
    pq.write_table(pa.table({"x": [1, 2], "late": ["a", "b"]}), tmp_path / "d.parquet")
    pq.write_table(pa.table({"x": [1, 2]}), tmp_path / "e.parquet")
    report = quietly(spark, tmp_path, [ia.Distinct("late")])
    assert {Path(file.path).name for file in report.per_file if file.changed} == {"d.parquet"}
    assert report.files_failed == 3


@pytest.mark.parametrize(
    ("standard", "codes"),
    [
        ([PageIndex()], ["no-order"]),
        ([ia.Statistics(), PageIndex()], ["no-order"]),
        ([ia.Statistics()], ["no-order"]),
        ([], []),
    ],
)
def test_files_that_have_the_indexes_need_no_task(spark, tmp_path, standard, codes):
    """Their outcomes equal those of `attach`, and only the others get a task."""
    lake = write_lake(tmp_path / "lake", files=8, rows_of_each=50)
    nanoseconds = pa.table({"t": pa.array([1, 2], pa.timestamp("ns")), "s": ["a", "b"]})
    pq.write_table(nanoseconds, tmp_path / "lake" / "t.parquet", use_deprecated_int96_timestamps=True)
    first = sorted(contents(lake))[0]
    indexes = [ia.Distinct("s"), *standard]
    ia.attach(lake, indexes)
    listed = {file.path: file for file in find_files(lake).files}
    tasks = set(listed) - set(find_unchanged(listed, indexes))
    assert tasks == set()
    found = {file.path: file for file in ia.attach(lake, indexes).per_file}
    timeless = [
        {path: dataclasses.replace(file, seconds=0) for path, file in outcomes.items()}
        for outcomes in (found, find_unchanged(listed, indexes))
    ]
    assert timeless[0] == timeless[1]
    assert {note["code"] for file in timeless[1].values() for note in file.notes} == set(codes)

    ia.detach(first)
    Path(lake, "bad.parquet").write_bytes(b"garbage")
    listed = {file.path: file for file in find_files(lake).files}
    assert set(listed) - set(find_unchanged(listed, indexes)) == {first, str(Path(lake, "bad.parquet"))}
    report = quietly(spark, lake, indexes)
    assert (report.files_indexed, report.files_unchanged, report.files_failed) == (1, 8, 1)


@pytest.mark.parametrize(
    "indexes",
    [
        [ia.Distinct("s", granularity="file")],
        [ia.Distinct("s", max_values=5)],
        [ia.ZoneMap("x")],
        [PageIndex(int96="order")],
        [ia.Statistics()],
        [ia.Bloom("s")],
        [ia.Distinct("nowhere")],
        [ia.Distinct("s"), ia.Distinct(("s",))],
    ],
    ids=str,
)
def test_files_that_lack_an_index_need_a_task(tmp_path, indexes):
    pq.write_table(
        pa.table({"s": ["a", "b"], "x": [1, 2], "t": pa.array([1, 2], pa.timestamp("ns"))}),
        tmp_path / "a.parquet",
        use_deprecated_int96_timestamps=True,
    )
    listed = {file.path: file for file in find_files(tmp_path).files}
    assert find_unchanged(listed, [PageIndex()]) == {}
    ia.attach(tmp_path / "a.parquet", [PageIndex(), ia.Distinct("s")])
    assert find_unchanged(listed, indexes) == {}
    assert set(find_unchanged(listed, [PageIndex()])) == set(listed)


def test_the_page_index_of_an_untrusted_writer_needs_a_task(tmp_path):
    path = tmp_path / "a.parquet"
    pq.write_table(pa.table({"x": [1, 2]}), path, write_page_index=True)
    edit_footer(str(path), lambda footer: footer.set(6, thrift.BINARY, b"parquet-go version latest"))
    ia.attach(path, ia.Distinct("x"))
    listed = {file.path: file for file in find_files(path).files}
    assert find_unchanged(listed, [PageIndex()]) == {}
    ia.attach(path, PageIndex())
    assert set(find_unchanged(listed, [PageIndex()])) == {str(path)}


@pytest.mark.parametrize("indexed", [0, 20, 100])
def test_the_driver_reads_few_footers_of_a_new_lake(tmp_path, indexed):
    for number in range(200):
        pq.write_table(pa.table({"x": [number]}), tmp_path / f"{number:03}.parquet")
    for number in range(0, 2 * indexed, 2):
        ia.attach(tmp_path / f"{number:03}.parquet", PageIndex())
    listed = {file.path: CountedFile(**vars(file)) for file in find_files(tmp_path).files}
    opened = []
    CountedFile.opened = opened
    found = find_unchanged(listed, [PageIndex()])
    assert len(found) <= indexed
    assert len(opened) == (200 if indexed == 100 else 64)


def test_files_share_tasks():
    many, huge = {str(n): 300_000 for n in range(1_000)}, {str(n): 1 << 30 for n in range(50)}
    for sizes, least, most in ((many, 32, 64), (huge, 50, 50), ({"a": 1, "b": 0}, 2, 2), ({}, 0, 0)):
        tasks = tasks_of(sizes)
        assert least <= len(tasks) <= most
        assert [file for files in tasks for file in files] == list(sizes)
    assert len(tasks_of({str(n): 1 << 30 for n in range(30_000)})) <= MAX_TASKS
    assert len(tasks_of({str(n): 0 for n in range(30_000)})) <= MAX_TASKS


def test_progress_counts_files_that_share_a_task(spark, tmp_path):
    lake = write_lake(tmp_path / "lake", files=70, rows_of_each=10)
    calls = []
    report = ias.index(spark, lake, [PageIndex()], progress=lambda *args: calls.append(args))
    assert report.files_indexed == 70
    assert calls == sorted(calls)
    assert calls[-1] == (70, 70, "indexing")


@pytest.mark.parametrize("error", [KeyboardInterrupt, ValueError])
def test_stopped_in_between(spark, tmp_path, error):
    """After Ctrl-C or an error of the callback, each file is old or new; the next run does the rest."""
    lake = write_lake(tmp_path / "lake", files=12)
    before = contents(lake)

    def stop(done, total, label):
        if done:
            raise error

    with pytest.raises(error) as caught:
        ias.index(spark, lake, INDEXES[:2], progress=stop)
    assert not any(thread.name.startswith("intarsia") for thread in threading.enumerate())
    assert list(spark.sparkContext.statusTracker().getActiveJobsIds()) == []
    for path, data in before.items():
        assert Path(path).read_bytes().startswith(data)
    if error is KeyboardInterrupt:
        stopped = caught.value
        assert isinstance(stopped, ia.RunInterrupted)
        assert stopped.files_total == 12
        assert stopped.files_done == stopped.report.files_indexed
        listed = {file.path: (file.bytes_before, file.bytes_after) for file in stopped.report.per_file}
        for path, (size_before, size_after) in listed.items():
            assert size_before == len(before[path]) < size_after == os.path.getsize(path)
    report = quietly(spark, lake)
    assert report.files_failed == 0
    assert contents(lake).keys() == before.keys()
    assert quietly(spark, lake).files_unchanged == 12


def test_two_runs_at_once(spark, tmp_path):
    lake, alone = write_lake(tmp_path / "lake"), write_lake(tmp_path / "alone")
    quietly(spark, alone)
    reports = []
    threads = [threading.Thread(target=lambda: reports.append(quietly(spark, lake))) for _ in range(2)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert [report.files_failed for report in reports] == [0, 0], [str(report) for report in reports]
    assert list(contents(lake).values()) == list(contents(alone).values())


def bytes_read(spark, action):
    """Return the bytes that Hadoop's file system read during an action."""

    def now():
        statistics = spark._jvm.org.apache.hadoop.fs.FileSystem.getAllStatistics()
        return sum(entry.getBytesRead() for entry in statistics if entry.getScheme() == "file")

    before = now()
    action()
    return now() - before


def test_spark_reads_fewer_bytes(spark, tmp_path):
    """With a page index on a file with pyarrow's defaults, Spark reads pages instead of chunks."""
    rng = np.random.default_rng(1)
    path = tmp_path / "lake" / "a.parquet"
    path.parent.mkdir()
    values = np.arange(400_000)
    noise = rng.integers(0, 2**62, len(values))
    pq.write_table(pa.table({"x": values, "noise": noise}), path, data_page_size=20_000)

    def lookup():
        # Hadoop's statistics do not include vectored reads
        reader = spark.read.option("parquet.hadoop.vectored.io.enabled", "false")
        found = reader.parquet(str(path.parent)).where("x = 200000").collect()
        assert [(row.x, row.noise) for row in found] == [(200_000, noise[200_000])]

    lookup()
    plain = bytes_read(spark, lookup)
    quietly(spark, path.parent, [PageIndex()])
    indexed = bytes_read(spark, lookup)
    assert indexed < plain / 2, (plain, indexed)


RETRIES = """
import sys
import intarsia as ia
from dies import Dies
from intarsia import spark as ias
report = ias.index(spark, sys.argv[1], [ia.PageIndex(), Dies("x", sys.argv[2])], progress=False)
print(report.files_total, report.files_indexed, report.files_failed)
print(spark.read.parquet(sys.argv[1]).count())
"""


@pytest.mark.spark
@pytest.mark.slow
def test_a_task_that_dies_is_retried(packages_host, tmp_path):
    lake, marks = write_lake(tmp_path / "lake", files=2), tmp_path / "marks"
    marks.mkdir()
    assert packages_host.run(RETRIES, lake, marks).splitlines() == ["2 2 0", "2000"]
    assert sorted(os.listdir(marks)) == ["0", "1000"]
    assert all("intarsia" not in Path(path).name for path in contents(lake))
