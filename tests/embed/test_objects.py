"""Objects in a store: one conditional put, or a clear refusal."""

import io

import obstore
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from obstore.exceptions import PermissionDeniedError
from obstore.store import LocalStore, MemoryStore

import intarsia as ia
from intarsia.embed import Bloom, PageIndex, Statistics, attach, detach
from intarsia.embed.attach import attach_to
from intarsia.errors import (
    ChangedMeanwhileError,
    CorruptFileError,
    ObjectStoreError,
    ReplacedWhileReadError,
    ReplaceError,
)
from intarsia.storage.object_target import ObjectTarget, UploadLimits, replace_object


@pytest.fixture
def data():
    sink = io.BytesIO()
    pq.write_table(pa.table({"n": range(100)}), sink)
    return sink.getvalue()


@pytest.fixture
def store(data):
    store = MemoryStore()
    obstore.put(store, "lake/a.parquet", data)
    return store


def content(store):
    return bytes(obstore.get(store, "lake/a.parquet").bytes())


def open_target(store, **options):
    return ObjectTarget(store, "lake/a.parquet", "memory:///lake/a.parquet", **options)


def test_attach(store, data, tmp_path):
    report = attach_to(open_target(store), [PageIndex()])
    local = tmp_path / "a.parquet"
    local.write_bytes(data)
    attach(local, [PageIndex()])
    assert content(store) == local.read_bytes()
    assert report.path == "memory:///lake/a.parquet"
    assert not attach_to(open_target(store), [PageIndex()]).changed


def test_object_that_changed_meanwhile(store):
    found = open_target(store)
    obstore.put(store, "lake/a.parquet", content(store))
    with pytest.raises(ReplacedWhileReadError) as caught:
        attach_to(found, [PageIndex()])
    assert (caught.value.reason, caught.value.path) == ("object-replaced", found.path)


def test_object_that_changed_at_the_last_moment(store, data):
    with pytest.raises(ChangedMeanwhileError) as caught:
        replace_object(store, "lake/a.parquet", b"new", '"another"', path="a.parquet")
    assert (caught.value.reason, caught.value.path) == ("changed-meanwhile", "a.parquet")
    assert content(store) == data


# --- the store changes while an index is being built -----------------------------------------------------

URL = "s3://bucket/lake/a.parquet"

#: Each reads the file in a different way: whole chunks, decoded columns, rows, existing structures.
ASKED = {
    "page index": [PageIndex()],
    "statistics and Bloom filter": [Statistics(), Bloom("n")],
    "distinct values of pages": [ia.Distinct("n", granularity="page")],
    "rows": [ia.Sample(10)],
    "everything": [PageIndex(), Statistics(), Bloom("n"), ia.RowMap("n"), ia.Sample(10)],
}


@pytest.fixture
def bucket(store, put_behind_urls):
    """The store, behind `URL`."""
    put_behind_urls(store)
    return store


@pytest.fixture
def at_request(monkeypatch):
    """Call a function before one of the requests for bytes; return the number of requests."""
    real = obstore.get

    def at_request(ordinal, happen):
        done = [0]

        def get(*args, **options):
            done[0] += 1
            if done[0] == ordinal + 1:
                happen()
            return real(*args, **options)

        monkeypatch.setattr(obstore, "get", get)
        return done

    return at_request


def number_of_requests(asked, bucket, data, at_request):
    done = at_request(-1, None)
    attach(URL, asked)
    count = done[0]
    obstore.put(bucket, "lake/a.parquet", data)
    return count


@pytest.mark.parametrize("asked", ASKED.values(), ids=ASKED)
def test_concurrent_attaches_lose_nothing(asked, bucket, data, at_request):
    """Another run attaches between any two requests of the first: the file then has both indexes."""
    for ordinal in range(number_of_requests(asked, bucket, data, at_request)):
        obstore.put(bucket, "lake/a.parquet", data)
        at_request(ordinal, lambda: attach(URL, ia.Histogram("n")))
        report = attach(URL, asked)
        assert "histogram(n):row_group" in report.kept, ordinal
        assert report.built, ordinal
        assert not report.notes, ordinal
        assert not attach(URL, [*asked, ia.Histogram("n")]).changed, ordinal


@pytest.mark.parametrize("asked", ASKED.values(), ids=ASKED)
def test_object_that_is_replaced_by_a_shorter_one(asked, bucket, data, at_request):
    """It is read again, even if none of the bytes that would be read next is left."""
    sink = io.BytesIO()
    pq.write_table(pa.table({"n": [1]}), sink, compression="none")
    for ordinal in range(number_of_requests(asked, bucket, data, at_request)):
        obstore.put(bucket, "lake/a.parquet", data + bytes(4000) + data[-4096:])  # longer than the new one
        at_request(ordinal, lambda: obstore.put(bucket, "lake/a.parquet", sink.getvalue()))
        attach(URL, asked)
        assert content(bucket).startswith(sink.getvalue()), ordinal


def denied():
    raise PermissionDeniedError("The operation lacked the privileges: 403 Forbidden")


@pytest.mark.parametrize("asked", ASKED.values(), ids=ASKED)
def test_reading_that_is_refused_midway(asked, bucket, data, at_request):
    for ordinal in range(number_of_requests(asked, bucket, data, at_request)):
        at_request(ordinal, denied)
        with pytest.raises(ObjectStoreError) as caught:
            attach(URL, asked)
        assert (caught.value.reason, caught.value.path) == ("access-denied", URL)
        assert not isinstance(caught.value, CorruptFileError)
        assert content(bucket) == data, ordinal


def test_store_without_conditions(data, tmp_path):
    store = LocalStore(str(tmp_path))
    obstore.put(store, "lake/a.parquet", data)
    with pytest.raises(ReplaceError) as caught:
        attach_to(open_target(store), [PageIndex()])
    assert caught.value.reason == "no-conditional-put"
    assert content(store) == data


def test_object_that_is_too_large(store, data):
    with pytest.raises(ReplaceError) as caught:
        attach_to(open_target(store, limits=UploadLimits(put_bytes=len(data))), [PageIndex()])
    assert caught.value.reason == "object-too-large"
    assert content(store) == data


def test_file_urls_are_local_files(data, tmp_path):
    path = tmp_path / "with blank.parquet"
    path.write_bytes(data)
    attach(path.as_uri(), [PageIndex()])
    assert path.read_bytes() != data
    detach(path.as_uri())
    assert path.read_bytes() == data
