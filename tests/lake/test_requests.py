"""Requests of a table to its store: a listing is not repeated, and a footer takes one request."""

from __future__ import annotations

import io
import threading
import time
import warnings
from collections import Counter

import numpy as np
import obstore
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq
import pytest
from obstore.store import LocalStore, MemoryStore

import intarsia as ia
from intarsia.tuning import REMOTE_FILES_AT_ONCE

NUM_OBJECTS = 20


def put(store, key, values):
    sink = io.BytesIO()
    pq.write_table(pa.table({"a": pa.array(values, pa.int64())}), sink)
    obstore.put(store, key, sink.getvalue())


class Asked:
    """Counts of the requests to a store by kind, and the maximum number of concurrent ones."""

    def __init__(self):
        self.names = Counter()
        self.at_once = self.most_at_once = 0
        self.delay_seconds = 0.0
        self._lock = threading.Lock()

    def recorded(self, name, real):
        def call(*args, **options):
            with self._lock:
                self.names[name] += 1
                self.at_once += 1
                self.most_at_once = max(self.most_at_once, self.at_once)
            try:
                time.sleep(self.delay_seconds)  # lets other requests start
                return real(*args, **options)
            finally:
                with self._lock:
                    self.at_once -= 1

        return call

    def take(self):
        """Return the requests since the last call."""
        found, self.names = dict(self.names), Counter()
        return found


@pytest.fixture(params=["memory", "local"])
def store(request, tmp_path):
    store = MemoryStore() if request.param == "memory" else LocalStore(tmp_path)
    for ordinal in range(NUM_OBJECTS):
        put(store, f"lake/{ordinal:02}.parquet", range(ordinal * 10, ordinal * 10 + 10))
    return store


@pytest.fixture
def asked(store, put_behind_urls, monkeypatch):
    put_behind_urls(store)
    asked = Asked()
    for name in ("head", "get", "get_range", "get_ranges", "list"):
        monkeypatch.setattr(obstore, name, asked.recorded(name, getattr(obstore, name)))
    return asked


def test_a_listing_is_not_repeated(asked):
    table = ia.open("s3://bucket/lake/")
    assert asked.take() == {"list": 1}
    scan = table.scan("a = 57")
    assert scan.to_arrow()["a"].to_pylist() == [57]
    assert asked.take() == {"get": NUM_OBJECTS}  # the footers, with the whole objects
    assert scan.report.requests == NUM_OBJECTS


@pytest.mark.parametrize(
    "answer",
    [
        lambda table: table.count("a >= 0"),
        lambda table: table.aggregate({"a": ["max"]}),
        lambda table: table.explain("a = 57"),
        lambda table: table.plan("a = 57"),
    ],
    ids=["count", "aggregate", "explain", "plan"],
)
def test_a_result_from_footers_takes_one_request_per_object(asked, answer):
    table = ia.open("s3://bucket/lake/")
    asked.take()
    answer(table)
    assert asked.take() == {"get": NUM_OBJECTS}
    answer(table)  # each object may have been replaced
    assert asked.take() == {"head": NUM_OBJECTS}


def test_a_second_run_checks_whether_objects_have_changed(asked):
    scan = ia.open("s3://bucket/lake/").scan("a = 57")
    assert scan.to_arrow().num_rows == 1
    asked.take()
    assert scan.to_arrow().num_rows == 1
    assert asked.take() == {"head": NUM_OBJECTS, "get": 1}


@pytest.mark.parametrize(
    ("rows_of", "further"),
    [
        (lambda table: table.scan(pc.field("a") == 57).to_arrow(), 0),
        (lambda table: table.dataset().to_table(filter=pc.field("a") == 57), 0),
        (lambda table: table.scan(rows=[57]).to_arrow(), 1),
    ],
    ids=["expression", "dataset", "rows"],
)
def test_the_schema_and_the_rows_belong_to_one_run(asked, rows_of, further):
    """Whatever a run reads footers for first, it does not check them again; the next run does."""
    table = ia.open("s3://bucket/lake/")
    asked.take()
    assert rows_of(table)["a"].to_pylist() == [57]
    assert asked.take() == {"get": NUM_OBJECTS + further}
    assert rows_of(table)["a"].to_pylist() == [57]
    assert asked.take() == {"head": NUM_OBJECTS, "get": 1}


@pytest.mark.parametrize("is_large", [False, True])
def test_an_object_replaced_after_a_scan_was_made(asked, store, is_large):
    """The first run reads the old objects or fails; the next one reads the new objects."""
    if is_large:  # more bytes than are read with the footer
        put(store, "lake/05.parquet", [57, *np.random.default_rng(0).integers(100, 1 << 60, 20_000)])
    scan = ia.open("s3://bucket/lake/").scan("a = 57")
    put(store, "lake/05.parquet", [*range(57, 90), 57])
    if is_large:
        with pytest.raises(ia.ReplacedWhileReadError) as caught:
            scan.to_arrow()
        assert caught.value.path == "s3://bucket/lake/05.parquet"
    else:
        assert scan.to_arrow()["a"].to_pylist() == [57]
    assert scan.to_arrow()["a"].to_pylist() == [57, 57]


def test_a_sample_repeats_no_request(asked):
    table = ia.open("s3://bucket/lake/")
    asked.take()
    assert table.sample(NUM_OBJECTS * 10, seed=1).num_rows == NUM_OBJECTS * 10
    assert asked.take() == {"get": 2 * NUM_OBJECTS}  # footers and chunks
    assert table.sample(NUM_OBJECTS * 10, seed=1).num_rows == NUM_OBJECTS * 10
    assert asked.take() == {"head": NUM_OBJECTS, "get": NUM_OBJECTS}


def test_files_are_opened_concurrently_but_not_all_at_once(asked, store):
    for ordinal in range(NUM_OBJECTS, 2 * REMOTE_FILES_AT_ONCE):
        put(store, f"lake/{ordinal:02}.parquet", [ordinal * 10])
    table = ia.open("s3://bucket/lake/")
    asked.take()
    asked.delay_seconds = 0.02
    assert table.schema.names == ["a"]
    assert 2 <= asked.most_at_once <= REMOTE_FILES_AT_ONCE
    asked.most_at_once = 0
    assert table.count("a = 57") == 1
    assert 2 <= asked.most_at_once <= REMOTE_FILES_AT_ONCE


@pytest.mark.parametrize("knows_schema", [False, True])
@pytest.mark.parametrize("longer", [False, True])
def test_an_object_replaced_after_the_listing_is_read_in_its_new_version(asked, store, knows_schema, longer):
    table = ia.open("s3://bucket/lake/")
    if knows_schema:
        assert table.count("a = 57") == 1
    put(store, "lake/05.parquet", range(1050, 1160 if longer else 1060))
    assert table.count("a = 57") == 0
    assert table.scan("a = 1055").to_arrow()["a"].to_pylist() == [1055]
    assert [split.to_arrow()["a"].to_pylist() for split in table.plan("a = 1055")] == [[1055]]
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        assert table.sample(10_000).num_rows == table.count()


def test_the_error_names_a_missing_object(asked, store):
    table = ia.open("s3://bucket/lake/")
    obstore.delete(store, "lake/07.parquet")
    with pytest.raises(FileNotFoundError, match=r"s3://bucket/lake/07\.parquet"):
        table.scan("a = 57").to_arrow()
