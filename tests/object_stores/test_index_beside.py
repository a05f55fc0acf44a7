"""A lake index beside the data in an object store, for all readers of the lake."""

from __future__ import annotations

import io
import pickle
import threading

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

import intarsia as ia
from tests.object_stores.store_server import BUCKET, LATENCY_SECONDS, Fault

URL = f"s3://{BUCKET}/lake/"
NUM_OBJECTS = 20


def put(server, ordinal, values):
    sink = io.BytesIO()
    pq.write_table(pa.table({"a": pa.array(values, pa.int64())}), sink, write_page_index=True)
    server.put(f"lake/day={ordinal % 3}/{ordinal:02}.parquet", sink.getvalue())


@pytest.fixture
def other_reader(tmp_path, monkeypatch):
    """Continue as another user, whose cache is empty."""
    ordinals = iter(range(100))

    def other_reader():
        monkeypatch.setenv("INTARSIA_CACHE_DIR", str(tmp_path / str(next(ordinals))))

    return other_reader


@pytest.fixture
def lake(s3, other_reader):
    other_reader()
    for ordinal in range(NUM_OBJECTS):
        put(s3, ordinal, range(ordinal * 10, ordinal * 10 + 10))
    report = ia.open(URL).build_lake_index("beside")
    assert report.folder == f"{URL}_intarsia"
    assert report.files_added == NUM_OBJECTS
    return s3


def segments(server):
    return [key for key in server.list_keys() if key.startswith("lake/_intarsia/")]


def count(where="a = 57"):
    """Count the matching rows; the report has the files that were opened."""
    scan = ia.open(URL).scan(where)
    return scan.count(), scan.report


def test_the_first_query_takes_four_round_trips_after_the_listing(lake, other_reader):
    for _ in range(3):  # on a busy machine, concurrent requests may arrive late
        other_reader()
        with lake.recording(LATENCY_SECONDS) as recording:
            found, report = count()
        assert (found, report.files_opened) == (1, 1)
        assert recording.methods["LIST"] == 1
        assert len(recording.gets("lake/_intarsia/*")) == 1
        waves = recording.after_listing()[1]
        if waves <= 4:
            return
    pytest.fail(f"{waves} round trips")


def test_other_tables_answer_while_a_store_is_slow(lake, other_reader, tmp_path):
    for name in ("1", "2"):
        pq.write_table(pa.table({"a": [1, 2]}), tmp_path / f"{name}.parquet")
    found = []

    def ask():
        thread = threading.Thread(target=lambda: found.append(ia.open(tmp_path).count("a = 1")), daemon=True)
        thread.start()
        thread.join(10)
        found.append(thread.is_alive())

    other_reader()
    lake.faults.append(Fault("call", "GET", "lake/_intarsia/*", action=ask))
    assert count()[0] == 1
    assert found == [2, False]


def test_queries_that_start_together_use_it(lake, other_reader):
    other_reader()
    table, opened = ia.open(URL), []

    def ask():
        scan = table.scan("a = 57")
        opened.append((scan.count(), scan.report.files_opened))

    with lake.recording(LATENCY_SECONDS) as recording:
        threads = [threading.Thread(target=ask) for _ in range(3)]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
    assert opened == [(1, 1)] * 3
    assert len(recording.gets("lake/_intarsia/*")) == 1


def test_later_queries_use_a_copy(lake, other_reader):
    other_reader()
    count()
    with lake.recording() as recording:
        assert count("a = 58")[0] == 1
    assert not recording.gets("lake/_intarsia/*")
    assert recording.methods["LIST"] == 1


def test_other_engines_and_tables_do_not_see_it(lake):
    table = ia.open(URL)
    assert len(table.files) == NUM_OBJECTS
    assert not table.other_files


def test_changed_and_new_objects_are_added(lake, other_reader):
    put(lake, 5, [1000, 1001])
    put(lake, 50, [2000])
    other_reader()
    assert [count(f"a = {value}")[0] for value in (57, 1000, 2000)] == [0, 1, 1]
    assert len(segments(lake)) == 2
    other_reader()
    assert count("a = 2000")[1].files_opened <= 1
    assert ia.open(URL).build_lake_index("beside").files_added == 0


def test_a_segment_that_was_replaced_is_not_used(lake, other_reader):
    """The copy belongs to the old object of this name."""
    count()
    (segment,) = segments(lake)
    lake.put(segment, b"not a segment")
    with pytest.warns(ia.IntarsiaWarning):
        found, report = count()
    assert (found, report.files_opened) == (1, NUM_OBJECTS)


def test_a_damaged_copy_is_downloaded_again(lake, tmp_path):
    count()
    (copy,) = tmp_path.glob("*/segments/*/*.lake")
    copy.write_bytes(copy.read_bytes()[:100])
    with lake.recording() as recording:
        assert count()[1].files_opened == 1
    assert len(recording.gets("lake/_intarsia/*")) == 1
    with lake.recording() as recording:
        assert count()[1].files_opened == 1
    assert not recording.gets("lake/_intarsia/*")


def test_a_segment_that_cannot_be_read(lake, other_reader):
    other_reader()
    lake.faults = [Fault(key="lake/_intarsia/*", status="403 Forbidden", code="AccessDenied", times=None)]
    with pytest.warns(ia.IntarsiaWarning):
        found, report = count()
    assert (found, report.files_opened) == (1, NUM_OBJECTS)


def test_a_lake_that_this_user_cannot_write(lake, other_reader):
    put(lake, 5, [1000, 1001])
    other_reader()
    lake.faults = [Fault(method="PUT", status="403 Forbidden", code="AccessDenied", times=None)]
    with pytest.warns(ia.IntarsiaWarning):
        assert count("a = 1000")[0] == 1
    with pytest.raises(ia.ObjectStoreError) as caught:
        ia.open(URL).build_lake_index("beside")
    assert caught.value.reason == "access-denied"


def test_a_list_of_urls_and_a_copied_table(lake, other_reader):
    other_reader()
    urls = [file.path for file in ia.open(URL).files]
    scan = ia.open(urls).scan("a = 57")
    assert (scan.count(), scan.report.files_opened) == (1, 1)
    table = ia.open(URL)
    assert pickle.loads(pickle.dumps(table)).count("a = 57") == 1


def test_attach_updates_it(lake, other_reader):
    ia.attach(URL, ia.Bloom("a"))
    other_reader()
    assert count("a = 57")[1].files_opened == 1
    assert count("a = 4000")[1].files_opened == 0


def test_it_is_removed(lake):
    count()
    assert f"{URL}_intarsia" in ia.open(URL).remove_lake_index()
    assert not segments(lake)
    assert count()[1].files_opened == NUM_OBJECTS
