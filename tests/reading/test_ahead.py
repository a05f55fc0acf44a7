"""`ahead`: results in order, bounded concurrency, and no open files after an early stop."""

from __future__ import annotations

import gc
import os
import threading
import warnings
from concurrent.futures import ThreadPoolExecutor
from dataclasses import field

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

import intarsia as ia
from intarsia.ahead import ahead
from intarsia.lake.data_file import DataFile
from intarsia.lake.table import Table
from intarsia.read.matching import RowReader
from intarsia.records import dataclass
from intarsia.storage import LocalFile
from intarsia.tuning import CONCURRENT_BYTES, LOCAL_FILES_AT_ONCE, REMOTE_FILES_AT_ONCE, SMALL_FILE_BYTES
from tests.counting import calls, profiling
from tests.lake.index.lakes import age, write

FAILING = ("x", "y")


class Work:
    """A work function that records its items, and optionally blocks until released."""

    def __init__(self, *, waits=False):
        self.begun = []
        self.discarded = []
        self.may_end = threading.Event()
        if not waits:
            self.may_end.set()

    def __call__(self, item):
        self.begun.append(item)
        assert self.may_end.wait(30)
        if item in FAILING:
            raise ValueError(item)
        return -item


@pytest.mark.parametrize("at_once", [1, 2, 3, 50])
def test_results_are_in_the_order_of_the_items(at_once):
    found = [(item, future.result()) for item, future in ahead(Work(), range(20), at_once)]
    assert found == [(item, -item) for item in range(20)]
    assert list(ahead(Work(), [], at_once)) == []


@pytest.mark.parametrize("at_once", [1, 2, 3])
def test_the_number_of_started_items_is_limited(at_once):
    work, asked = Work(), []

    def items():
        for item in range(20):
            asked.append(item)
            yield item

    for place, (item, future) in enumerate(ahead(work, items(), at_once)):
        assert item == place
        assert future.result() == -place
        assert len(asked) <= place + at_once
        assert len(work.begun) <= place + at_once


@pytest.mark.parametrize("at_once", [1, 2, 3])
def test_an_exception_belongs_to_its_item(at_once):
    found = [future.exception() or future.result() for _, future in ahead(Work(), [1, "x", 3, "y"], at_once)]
    assert [str(one) for one in found] == ["-1", "x", "-3", "y"]


@pytest.mark.parametrize("at_once", [2, 4])
@pytest.mark.parametrize("taken", [0, 1, 5])
def test_results_that_are_not_taken_are_discarded(at_once, taken):
    """Both finished and running ones. Pending items are not started, and failures are not discarded."""
    items = [1, 2, 3, "x", 5, 6, 7, 8, 9]
    work = Work()
    found = ahead(work, items, at_once, work.discarded.append)
    for _ in range(taken):
        next(found)
    found.close()
    begun = [item for item in work.begun if not isinstance(item, str)]
    assert sorted(work.discarded, reverse=True) == [
        -item for item in sorted(begun) if items.index(item) >= taken
    ]
    assert len(work.begun) <= taken + at_once


def test_an_error_of_the_iterable():
    work = Work()

    def items():
        yield 1
        yield 2
        raise OSError("the listing failed")

    found = ahead(work, items(), 3, work.discarded.append)
    with pytest.raises(OSError, match="listing"):
        list(found)
    assert sorted(work.discarded) == [-item for item in sorted(work.begun, reverse=True)]


# --- reading ahead -----------------------------------------------------------------------------------------


def reads_in_main_thread(work):
    """Return the result of ``work``, and for each thread that reads rows whether it is the main thread."""
    found = set()

    def profile(frame, event, _argument):
        if event == "call" and frame.f_code is RowReader.read.__code__:
            found.add(threading.current_thread() is threading.main_thread())

    with profiling(profile):
        return work(), found


@pytest.fixture(scope="module")
def several(tmp_path_factory):
    """Files of nearly `SMALL_FILE_BYTES`, of which threads read more than `CONCURRENT_BYTES`."""
    folder = tmp_path_factory.mktemp("several")
    num_rows = SMALL_FILE_BYTES // 10  # of 8 bytes
    for ordinal in range(CONCURRENT_BYTES // SMALL_FILE_BYTES + 4):
        values = pa.table({"a": range(ordinal * num_rows, (ordinal + 1) * num_rows)})
        write(folder / f"{ordinal:02}.parquet", values, use_dictionary=False, compression="none")
    return folder


def test_small_files_are_read_by_the_threads_that_plan_them(several, tmp_path):
    """But not by those of an iterator, whose caller may stop early, and not large ones."""
    table = ia.open(several)
    assert table.schema  # its footers are in no report
    scan = table.scan("a % 2 = 0")
    rows, in_main_thread = reads_in_main_thread(scan.to_arrow)
    assert rows["a"].to_pylist() == list(range(0, 2 * rows.num_rows, 2))
    assert in_main_thread == {False}
    read = (scan.report.bytes_read, scan.report.rows_matched, scan.report.files_read)
    batches, in_main_thread = reads_in_main_thread(lambda: list(scan))
    assert pa.Table.from_batches(batches).equals(rows)
    assert in_main_thread == {True}
    assert (scan.report.bytes_read, scan.report.rows_matched, scan.report.files_read) == read
    values = pa.table({"a": range(SMALL_FILE_BYTES // 4)})  # of 8 bytes
    for name in ("0", "1"):
        write(tmp_path / f"{name}.parquet", values, use_dictionary=False, compression="none")
    rows, in_main_thread = reads_in_main_thread(ia.open(tmp_path).scan("a % 2 = 0").to_arrow)
    assert (rows.num_rows, in_main_thread) == (SMALL_FILE_BYTES // 4, {True})


def test_few_bytes_are_read_without_threads(many, several):
    """Starting a thread takes longer, and threads that run Python wait for each other."""

    def tasks_of(table, where):
        return calls(table.scan(where).to_arrow, of=ThreadPoolExecutor.submit)

    few, more = ia.open(many), ia.open(several)
    assert few.count("a = -1") == more.count("a = -1") == 0  # reads the footers
    assert (tasks_of(few, "a % 2 = 0"), tasks_of(more, "a IN (7, 300007)")) == (0, 0)
    assert tasks_of(more, "a % 2 = 0") > 1


def test_an_error_of_reading_ahead_is_raised_after_the_rows_before_it(many, tmp_path):
    names = sorted(many.iterdir())[:5]
    damaged = tmp_path / "damaged.parquet"
    data = bytearray(names[2].read_bytes())
    chunk = pq.read_metadata(names[2]).row_group(1).column(0)
    start = chunk.dictionary_page_offset
    data[start : start + chunk.total_compressed_size] = bytes(chunk.total_compressed_size)
    damaged.write_bytes(data)
    table = ia.open([*map(str, names[:2]), str(damaged), *map(str, names[3:])])
    with pytest.raises(ia.CorruptFileError) as caught:
        table.scan("a % 2 = 0").to_arrow()
    assert caught.value.path == str(damaged)
    batches = table.scan("a % 2 = 0").read_ahead()
    found = []
    with pytest.raises(ia.CorruptFileError):
        found.extend(batch["a"].to_pylist() for batch in batches)
    assert [value for batch in found for value in batch] == list(range(0, 25, 2))
    with pytest.warns(ia.IntarsiaWarning):
        rows = table.scan("a % 2 = 0", on_error="skip").to_arrow()
    assert rows.num_rows == 20


# --- planning ahead ----------------------------------------------------------------------------------------


class MeetingFile(LocalFile):
    """A local file that is read only while as many others are being read as a barrier waits for."""

    def __init__(self, path, barriers):
        super().__init__(path)
        self._barriers = barriers

    def read_ranges(self, ranges):
        for barrier in self._barriers:
            barrier.wait(30)
        return super().read_ranges(ranges)


@dataclass(frozen=True)
class MeetingDataFile(DataFile):
    barriers: list = field(default_factory=list)

    def open(self, **_):
        return MeetingFile(self.path, self.barriers)


def test_local_files_are_planned_side_by_side(tmp_path):
    """Each read of a filter waits for one of the other file, so planning one after the other would fail."""
    barriers, files = [], []
    values = pa.table({"a": range(0, 1_200_000, 2)})  # more bytes than a thread plans at once
    for ordinal in range(LOCAL_FILES_AT_ONCE):
        path = tmp_path / f"{ordinal}.parquet"
        options = {"use_dictionary": False, "bloom_filter_options": {"a": {"ndv": 600_000}}}
        pq.write_table(values, path, compression="none", **options)
        files.append(MeetingDataFile(str(path), path.stat().st_size, barriers=barriers))
    table = Table(files)
    assert table.explain("a < 0").row_groups_read == 0  # the footers are cached from here on
    barriers.append(threading.Barrier(LOCAL_FILES_AT_ONCE))
    report = table.explain("a = 7")
    assert (report.row_groups_read, report.files_opened) == (0, LOCAL_FILES_AT_ONCE)
    assert report.requests >= LOCAL_FILES_AT_ONCE


# --- open files ------------------------------------------------------------------------------------------


def open_files(folder):
    """Return the number of open descriptors of files in a folder."""
    found = 0
    for name in os.listdir("/proc/self/fd"):
        try:
            found += os.readlink(f"/proc/self/fd/{name}").startswith(str(folder))
        except FileNotFoundError:
            continue  # the descriptor of the listing itself
    return found


@pytest.fixture(scope="module")
def many(tmp_path_factory):
    folder = tmp_path_factory.mktemp("many")
    for ordinal in range(30):
        values = pa.table({"a": range(ordinal * 10, ordinal * 10 + 10)})
        pq.write_table(values, folder / f"{ordinal:02}.parquet", row_group_size=5)
        ia.attach(folder / f"{ordinal:02}.parquet", [ia.Sample(4), ia.Distinct("a")])
        age(folder / f"{ordinal:02}.parquet")  # the footers of new files are not kept
    return folder


@pytest.fixture
def closes_by_hand():
    """Disable garbage collection, so that files are open until they are closed."""
    gc.collect()
    gc.disable()
    yield
    gc.enable()


class Slow(DataFile):
    """A local file that is treated as an object, so that as many are opened at once as in a store."""

    is_remote = True

    def open(self, *, fresh=False):
        return LocalFile(self.path)


def open_table(paths, file):
    """Open files as files of a class."""
    return Table([file(str(path), os.path.getsize(path)) for path in paths])


@pytest.mark.parametrize(
    ("file", "files_at_once"), [(DataFile, LOCAL_FILES_AT_ONCE), (Slow, REMOTE_FILES_AT_ONCE)]
)
@pytest.mark.parametrize("where", [None, "a >= 0", "a IN (3, 111, 244)"])
def test_a_scan_that_stops_early_leaves_no_file_open(many, file, files_at_once, where, closes_by_hand):
    table = open_table(sorted(many.iterdir()), file)
    batches = iter(table.scan(where))
    next(batches)
    assert 0 < open_files(many) <= files_at_once + 1
    batches.close()
    assert open_files(many) == 0
    for batch in table.scan(where):
        assert batch.num_rows
        break
    del batch
    assert open_files(many) == 0
    reader = table.scan(where).to_reader()
    reader.read_next_batch()
    del reader
    assert open_files(many) == 0
    assert table.scan(where, limit=3).to_arrow().num_rows == 3
    assert open_files(many) == 0


@pytest.mark.parametrize(
    "run",
    [
        lambda table: table.scan("a >= 0").to_arrow(),
        lambda table: list(table.scan()),
        lambda table: table.count("a > 3"),
        lambda table: table.explain("a > 3", analyze=True),
        lambda table: table.plan("a > 3"),
        lambda table: table.sample(300),
        lambda table: table.approx_distinct("a"),
    ],
)
@pytest.mark.parametrize("file", [DataFile, Slow])
def test_results_and_errors_leave_no_file_open(many, tmp_path, run, file, closes_by_hand):
    run(open_table(sorted(many.iterdir()), file))
    assert open_files(many) == 0
    damaged = tmp_path / "damaged.parquet"
    damaged.write_bytes((many / "07.parquet").read_bytes()[:-20])
    names = sorted(str(path) for path in many.iterdir())
    table = open_table([*names[:20], damaged, *names[20:]], file)
    assert table.schema.names == ["a"]  # errors of a file are raised when its rows are read
    with pytest.raises(ia.CorruptFileError) as caught:
        run(table)
    assert caught.value.path == str(damaged)
    assert caught.tb  # it refers to every frame
    assert open_files(many) + open_files(tmp_path) == 0


def test_a_missing_file(many, tmp_path, closes_by_hand):
    names = [str(path) for path in sorted(many.iterdir())[:3]]
    gone = tmp_path / "gone.parquet"
    gone.write_bytes((many / "00.parquet").read_bytes())
    table = ia.open([*names, gone, *names])
    os.remove(gone)
    with warnings.catch_warnings(), pytest.raises(FileNotFoundError, match=r"gone\.parquet") as caught:
        table.scan("a >= 0").to_arrow()
    assert caught
    assert open_files(many) == 0


class WatchedFile(LocalFile):
    """A local file that records the names of the threads that read it."""

    def __init__(self, path, threads):
        super().__init__(path)
        self.threads = threads

    def read_ranges(self, ranges):
        self.threads.add(threading.current_thread().name)
        return super().read_ranges(ranges)


@dataclass(frozen=True)
class WatchedDataFile(DataFile):
    threads: set = field(default_factory=set)

    def open(self, **_):
        return WatchedFile(self.path, self.threads)


@pytest.mark.parametrize("where", [None, "a > 3"])
@pytest.mark.parametrize("run", [list, ia.Scan.to_arrow, lambda scan: list(scan.read_ahead())])
def test_no_thread_of_pyarrow_reads(tmp_path, where, run):
    """One that still holds bytes of Python when Python exits aborts the process."""
    path = tmp_path / "t.parquet"
    pq.write_table(pa.table({"a": range(1000), "b": range(1000)}), path)  # one row group
    file = WatchedDataFile(str(path), path.stat().st_size)
    run(Table([file]).scan(where))
    # Python names threads that it did not start "Dummy"
    assert file.threads
    assert [name for name in file.threads if name.startswith("Dummy")] == []
