"""A query ends after the time that it was given, on slow stores and on local disks."""

from __future__ import annotations

import io
import pickle
import threading
import time
from concurrent.futures import ThreadPoolExecutor

import numpy as np
import obstore
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from obstore.store import MemoryStore

import intarsia as ia
from intarsia.storage.running_query import Deadline, applied, current_deadline, in_time
from intarsia.tuning import REMOTE_FILES_AT_ONCE

FOLDER = "s3://bucket/lake/"
NUM_OBJECTS = 40


class SlowStore:
    """A store in memory, and a clock that its requests advance.

    Attributes:
        seconds_per_request: The time that a request takes, by this clock.
        seconds: The time.
        stuck: Requests wait for this event; None if they are answered at once.
    """

    def __init__(self, store):
        self.store = store
        self.seconds_per_request = self.seconds = 0.0
        self.stuck = None

    def slowed(self, real):
        def request(*args, **options):
            self.seconds += self.seconds_per_request
            if self.stuck is not None:
                self.stuck.wait()
            return real(*args, **options)

        return request


@pytest.fixture
def slow(put_behind_urls, monkeypatch):
    store = MemoryStore()
    for ordinal in range(NUM_OBJECTS):
        sink = io.BytesIO()
        pq.write_table(pa.table({"a": range(ordinal * 10, ordinal * 10 + 10)}), sink, row_group_size=5)
        obstore.put(store, f"lake/{ordinal:02}.parquet", sink.getvalue())
    put_behind_urls(store)
    slow = SlowStore(store)
    for name in ("head", "get", "list"):
        monkeypatch.setattr(obstore, name, slow.slowed(getattr(obstore, name)))
    monkeypatch.setattr(time, "monotonic", lambda: slow.seconds)
    return slow


@pytest.fixture
def large_objects(slow):
    """Objects of more bytes than are read with their footers, so that their rows take further requests."""
    for ordinal in range(NUM_OBJECTS):
        sink = io.BytesIO()
        numbers = np.random.default_rng(ordinal).integers(58, 1 << 60, 10_000)
        numbers[0] = 57 if ordinal == 5 else 58
        pq.write_table(pa.table({"a": numbers}), sink)
        obstore.put(slow.store, f"lake/{ordinal:02}.parquet", sink.getvalue())


QUERIES = {
    "rows": lambda table: table.scan("a = 57").to_arrow(),
    "batches": lambda table: list(table.scan("a = 57")),
    "read ahead": lambda table: list(table.scan("a = 57").read_ahead()),
    "stream": lambda table: pa.RecordBatchReader.from_stream(table.scan("a = 57")).read_all(),
    "first rows": lambda table: table.scan(limit=3, order_by="a DESC").to_arrow(),
    "bad files skipped": lambda table: table.scan("a = 57", on_error="skip").to_arrow(),
    "dataset": lambda table: table.dataset().to_table(),
    "count": lambda table: table.count("a = 57"),
    "aggregate": lambda table: table.aggregate({"a": "sum"}, "a > 57"),
    "explain": lambda table: table.explain("a = 57"),
    "plan": lambda table: table.plan("a = 57"),
    "locate": lambda table: table.locate("a = 57"),
    "count_distinct": lambda table: table.count_distinct("a"),
    "value_counts": lambda table: table.value_counts("a"),
    "approx_distinct": lambda table: int(table.approx_distinct("a")),
    "sketches": lambda table: table.sketches("a"),
    "sample": lambda table: table.sample(5, seed=1),
    "schema": lambda table: table.schema,
}


@pytest.mark.parametrize("query", QUERIES.values(), ids=QUERIES)
def test_a_slow_query_ends(slow, query):
    table = ia.open(FOLDER, query_timeout_seconds=9.5)
    slow.seconds_per_request = 1
    with pytest.raises(ia.QueryTimeoutError) as caught:
        query(table)
    assert (caught.value.reason, caught.value.seconds) == ("query-timeout", 9.5)
    assert caught.value.path.startswith(FOLDER)
    assert 1 <= caught.value.files == caught.value.requests <= NUM_OBJECTS
    assert caught.value.num_bytes > 0
    assert slow.seconds < 9.5 + REMOTE_FILES_AT_ONCE
    assert isinstance(caught.value, TimeoutError)
    assert pickle.loads(pickle.dumps(caught.value)).path == caught.value.path


@pytest.mark.parametrize("query", QUERIES.values(), ids=QUERIES)
def test_a_quick_query_gives_the_same_answer(slow, query):
    assert str(query(ia.open(FOLDER, query_timeout_seconds=60))) == str(query(ia.open(FOLDER)))


def test_a_store_that_never_answers(slow):
    """The request of a query is abandoned, not awaited."""
    table = ia.open(FOLDER, query_timeout_seconds=0.5)
    stuck = slow.stuck = threading.Event()
    try:
        with pytest.raises(ia.QueryTimeoutError) as caught:
            table.count("a = 57")
    finally:
        slow.stuck = None
        stuck.set()
    assert (caught.value.requests, caught.value.num_bytes) == (0, 0)
    assert table.count("a = 57") == 1


def test_listing_takes_part(slow):
    slow.stuck = threading.Event()
    try:
        for source in (FOLDER, f"{FOLDER}01.parquet"):
            with pytest.raises(ia.QueryTimeoutError) as caught:
                ia.open(source, query_timeout_seconds=0.05)
            assert caught.value.path == source
    finally:
        slow.stuck.set()


def test_each_run_has_the_whole_time(slow):
    scan = ia.open(FOLDER, query_timeout_seconds=60).scan("a = 57")
    slow.seconds_per_request = 1
    for _ in range(3):
        assert scan.count() == 1  # the first run has the footers
    assert slow.seconds > 80


def test_the_schema_takes_part_in_the_first_run(slow, large_objects):
    table = ia.open(FOLDER, query_timeout_seconds=60)
    slow.seconds_per_request = 1
    scan = table.scan("a >= 0")  # reads the footers
    with pytest.raises(ia.QueryTimeoutError):
        scan.to_arrow()
    slow.seconds_per_request = 0
    assert scan.to_arrow().num_rows == NUM_OBJECTS * 10_000


def test_the_time_of_the_caller_does_not_count(slow):
    rows = 0
    for batch in ia.open(FOLDER, query_timeout_seconds=60).scan("a >= 0"):
        rows += batch.num_rows
        slow.seconds += 10
    assert rows == NUM_OBJECTS * 10


def test_a_stream_that_another_thread_reads(slow, large_objects):
    """Arrow's C interface passes only the message of an error on."""
    reader = ia.open(FOLDER, query_timeout_seconds=5).scan("a >= 0").to_reader()
    slow.seconds_per_request = 1
    with ThreadPoolExecutor(1) as pool, pytest.raises(OSError, match=FOLDER):
        pool.submit(pa.RecordBatchReader.from_stream(reader).read_all).result()


def test_other_queries_are_not_limited(slow, large_objects):
    """Neither those of the same files, nor those that run while a limited one waits for its caller."""
    limited = iter(ia.open(FOLDER, query_timeout_seconds=20).scan("a >= 0"))
    next(limited)
    slow.seconds_per_request = 100
    assert ia.open(FOLDER).count("a = 57") == 1
    with pytest.raises(ia.QueryTimeoutError):
        list(limited)


def test_of_nested_deadlines_the_earlier_applies(monkeypatch):
    now = 0.0
    monkeypatch.setattr(time, "monotonic", lambda: now)
    long, short = Deadline(10), Deadline(3)
    with applied(long), applied(short), applied(long), applied(None):
        assert current_deadline() is short
        now = 2.0
    assert current_deadline() is None
    now = 100.0
    assert (long.remaining_seconds(), short.remaining_seconds()) == (8, 1)
    with applied(short), applied(short):
        now = 102.0
        with pytest.raises(ia.QueryTimeoutError):
            in_time("x", lambda: None)
    assert short.remaining_seconds() == -1


def test_local_files(tmp_path):
    for ordinal in range(3):
        pq.write_table(pa.table({"a": range(1000)}), tmp_path / f"{ordinal}.parquet", row_group_size=100)
    assert ia.open(tmp_path, query_timeout_seconds=60).count("a = 57") == 3
    table = ia.open(tmp_path, query_timeout_seconds=1e-9)
    for one in (table, pickle.loads(pickle.dumps(table))):
        with pytest.raises(ia.QueryTimeoutError) as caught:
            one.count("a = 57")
        assert caught.value.reason == "query-timeout"
        assert caught.value.path.startswith(str(tmp_path))


@pytest.mark.parametrize("seconds", [0, -1, float("nan"), float("inf"), "5", True])
def test_a_time_that_is_not_positive(tmp_path, seconds):
    with pytest.raises(ValueError, match="query_timeout_seconds"):
        ia.open(tmp_path, query_timeout_seconds=seconds)
