"""A lake index of objects in a store: requests are counted, and replaced objects are read again."""

from __future__ import annotations

import io
from collections import Counter

import obstore
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from obstore.store import HTTPStore, MemoryStore

import intarsia as ia

NUM_OBJECTS = 20


def put(store, ordinal, values):
    sink = io.BytesIO()
    table = pa.table({"a": pa.array(values, pa.int64()), "b": [str(value) for value in values]})
    pq.write_table(table, sink, write_page_index=True)
    obstore.put(store, f"lake/day={ordinal % 3}/{ordinal:02}.parquet", sink.getvalue())


@pytest.fixture
def store(put_behind_urls, tmp_path, monkeypatch):
    monkeypatch.setenv("INTARSIA_CACHE_DIR", str(tmp_path))
    store = MemoryStore()
    for ordinal in range(NUM_OBJECTS):
        put(store, ordinal, range(ordinal * 10, ordinal * 10 + 10))
    put_behind_urls(store)
    ia.open("s3://bucket/lake/").build_lake_index()
    return store


@pytest.fixture
def asked(store, monkeypatch):
    names = Counter()

    def recorded(name, real):
        def call(*args, **options):
            names[name] += 1
            return real(*args, **options)

        return call

    for name in ("head", "get", "get_range", "get_ranges", "list"):
        monkeypatch.setattr(obstore, name, recorded(name, getattr(obstore, name)))
    return names


def test_a_lookup_opens_one_object(asked):
    scan = ia.open("s3://bucket/lake/").scan("a = 57")
    assert scan.to_arrow()["a"].to_pylist() == [57]
    assert scan.report.files_opened == 1
    assert asked["list"] == 1
    assert asked["head"] == 0
    assert asked["get"] <= 4  # the page index, and the pages of each column; all footers are known


def test_a_second_run_lists_the_objects_again(asked):
    table = ia.open("s3://bucket/lake/")
    assert table.count("a = 57") == 1
    before = Counter(asked)
    assert table.count("a = 58") == 1
    assert asked["list"] - before["list"] == 1


def test_a_replaced_object_is_read_again(store):
    table = ia.open("s3://bucket/lake/")
    assert table.count("a = 1000") == 0
    put(store, 5, [1000, 1001])
    assert table.count("a = 1000") == 1
    assert ia.open("s3://bucket/lake/").count("a = 1000") == 1


def test_a_list_of_urls_has_a_lake_index(asked):
    urls = [f"s3://bucket/lake/day={ordinal % 3}/{ordinal:02}.parquet" for ordinal in range(NUM_OBJECTS)]
    scan = ia.open(urls).scan("a = 57")
    assert scan.to_arrow().num_rows == 1
    assert scan.report.files_opened == 1
    assert asked["get"] <= 4


def test_a_lake_index_beside_the_files_of_a_web_server_is_refused():
    store = HTTPStore("https://example.org")
    files = [ia.DataFile(f"https://example.org/{name}.parquet", 100, (), store, name) for name in "ab"]
    with pytest.raises(ValueError, match="web server"):
        ia.Table(files).build_lake_index("beside")
