"""Requests that depend on each other, how many are made at the same time, and which ranges are joined."""

from __future__ import annotations

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

import intarsia as ia
from intarsia.storage import ByteRange, CountedSource, ObjectStoreFile, find_store
from tests.object_stores.store_server import BUCKET, LATENCY_SECONDS

URL = f"s3://{BUCKET}/lake/"
NUM_OBJECTS = 200
NUM_ROWS = 60_000

#: The object with the value.
TARGET = 130
VALUE = 43_210


def make_object(path, first, num_rows):
    random = np.random.default_rng(first)
    table = pa.table(
        {
            "user": random.permutation(np.arange(first, first + num_rows) * 2),
            "amount": random.random(num_rows),
            "text": [f"{number:x}" for number in random.integers(0, 1 << 40, num_rows).tolist()],
        }
    )
    # pages of a few rows: the page index alone is larger than the bytes that are read with the footer
    pq.write_table(table, path, row_group_size=30_000, data_page_size=1, write_batch_size=50)
    ia.attach(path, [ia.PageIndex(), ia.Bloom("user"), ia.Distinct("user", granularity="file")])
    return path.read_bytes()


@pytest.fixture(scope="module")
def objects(tmp_path_factory):
    """The bytes of an object whose indexes take several requests, and of the others, which are small."""
    folder = tmp_path_factory.mktemp("objects")
    return make_object(folder / "0", 0, NUM_ROWS), make_object(folder / "1", 10 * NUM_ROWS, 100)


@pytest.fixture
def lake(s3, objects, tmp_path, monkeypatch):
    monkeypatch.setenv("INTARSIA_CACHE_DIR", str(tmp_path))
    target, other = objects
    for ordinal in range(NUM_OBJECTS):
        s3.put(f"lake/{ordinal:04}.parquet", target if ordinal == TARGET else other)
    return s3


def look_up(server, **options):
    """Look a value up, and return the requests without the listing, and how many depend on each other."""
    with server.recording(LATENCY_SECONDS) as recording:
        assert ia.open(URL).scan(f"user = {VALUE * 2}", **options).to_arrow().num_rows == 1
    assert recording.methods["LIST"] == 1
    return recording.after_listing()


def takes_at_most(waves, server, **options):
    """Return whether one of three lookups does: on a busy machine, concurrent requests may arrive late."""
    return any(look_up(server, **options)[1] <= waves for _ in range(3))


def test_a_lookup_takes_four_round_trips_after_the_listing(lake):
    ia.open(URL).build_lake_index()
    requests, _ = look_up(lake)
    assert {request.key for request in requests} == {f"lake/{TARGET:04}.parquet"}
    assert len(requests) <= 8
    assert takes_at_most(4, lake)
    assert takes_at_most(4, lake, columns=["amount"])


def test_footers_are_read_32_at_a_time(lake):
    table = ia.open(URL)
    with lake.recording(LATENCY_SECONDS) as recording:
        assert table.schema.names == ["user", "amount", "text"]
    assert len(recording.gets()) == NUM_OBJECTS
    assert 24 <= recording.most_at_once <= 34  # the next request may begin before the server has ended one
    # one for the first file, and 32 at a time of the others
    assert NUM_OBJECTS / 34 <= recording.waves <= 3 * NUM_OBJECTS / 32 + 1


def test_a_lookup_without_a_lake_index_reads_objects_concurrently(lake):
    requests, waves = look_up(lake)
    assert waves <= NUM_OBJECTS / 4
    assert len(requests) <= 2 * NUM_OBJECTS + 8


def test_small_objects_take_one_request_with_a_lake_index(s3, objects, tmp_path, monkeypatch):
    """Rows of several objects are read at the same time."""
    monkeypatch.setenv("INTARSIA_CACHE_DIR", str(tmp_path))
    for ordinal in range(20):
        s3.put(f"lake/{ordinal:04}.parquet", objects[1])
    ia.open(URL).build_lake_index()
    with s3.recording(LATENCY_SECONDS) as recording:
        assert ia.open(URL).scan(f"user = {20 * NUM_ROWS}").to_arrow().num_rows == 20
    requests, waves = recording.after_listing()
    assert len(requests) == 20
    assert waves <= 5  # one after the other: 20


def test_distinct_values_in_the_footer_exclude_an_object_by_its_only_request(s3, tmp_path, monkeypatch):
    monkeypatch.setenv("INTARSIA_CACHE_DIR", str(tmp_path / "cache"))
    path = tmp_path / "words.parquet"
    words = [f"word {2 * (row % 7)}" for row in range(40_000)]
    numbers = np.random.default_rng(0).random(40_000)  # more bytes than are read with the footer
    pq.write_table(pa.table({"word": words, "number": numbers}), path, write_page_index=True)
    ia.attach(path, [ia.Bloom("word"), ia.Distinct("word", granularity="file")])
    for ordinal in range(3):
        s3.put(f"lake/{ordinal}.parquet", path.read_bytes())
    with s3.recording() as recording:
        scan = ia.open(URL).scan("word = 'word 3'")
        assert scan.to_arrow().num_rows == 0
    assert sorted(request.key for request in recording.gets()) == [
        f"lake/{place}.parquet" for place in range(3)
    ]
    assert (recording.methods["GET"], recording.methods["HEAD"], recording.methods["LIST"]) == (3, 0, 1)
    assert all(request.stop - request.start < path.stat().st_size for request in recording.gets())
    assert list(scan.report.pruned_by) == [("distinct(word):file", "word")]


def test_a_limit_reads_no_page_in_advance(lake):
    """The pages of the first rows suffice."""
    ia.open(URL).build_lake_index()
    table = ia.open(URL)
    with lake.recording() as recording:
        assert table.scan("user >= 0 AND amount >= 0", limit=1).to_arrow().num_rows == 1
    assert len({request.key for request in recording.gets()}) == 1


def test_ranges_are_joined_if_a_request_takes_longer_than_the_gap(s3):
    gap = ObjectStoreFile.coalesce_bytes
    data = bytes(range(256)) * (4 * gap // 256)
    s3.put("large", data)
    near = [ByteRange(10, 20), ByteRange(20 + gap, 30 + gap)]
    far = [ByteRange(10, 20), ByteRange(21 + gap, 30 + gap)]
    for ranges, expected in ((near, [(10, 30 + gap)]), (far, [(10, 20), (21 + gap, 30 + gap)])):
        source = CountedSource(ObjectStoreFile(*find_store(f"s3://{BUCKET}/large"), "large"))
        with s3.recording() as recording:
            assert source.read_ranges(ranges) == [data[start:stop] for start, stop in ranges]
        assert sorted((one.start, one.stop) for one in recording.requests) == expected
        assert source.counts.requests == len(expected)
        assert source.counts.bytes == sum(stop - start for start, stop in expected)
