"""Objects in a store: one conditional put, or a clear refusal."""

import io

import obstore
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from obstore.store import LocalStore, MemoryStore

from intarsia.embed import PageIndex, attach, detach
from intarsia.embed.attach import attach_to
from intarsia.errors import ChangedMeanwhileError, ReplacedWhileReadError, ReplaceError
from intarsia.storage import target
from intarsia.storage.target import ObjectTarget


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


def open_target(store):
    return ObjectTarget(store, "lake/a.parquet", "memory:///lake/a.parquet")


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
    with pytest.raises(ReplacedWhileReadError, match="open it again"):
        attach_to(found, [PageIndex()])


def test_object_that_changed_at_the_last_moment(store, data):
    with pytest.raises(ChangedMeanwhileError, match="run again"):
        target.replace_object(store, "lake/a.parquet", [b"new"], '"another"', path="a.parquet")
    assert content(store) == data


def test_store_without_conditions(data, tmp_path):
    store = LocalStore(str(tmp_path))
    obstore.put(store, "lake/a.parquet", data)
    with pytest.raises(ReplaceError, match="copy it to a disk"):
        attach_to(open_target(store), [PageIndex()])
    assert content(store) == data


def test_object_that_is_too_large(store, data, monkeypatch):
    monkeypatch.setattr(target, "MAX_OBJECT_BYTES", len(data))
    with pytest.raises(ReplaceError, match="copy it to a disk"):
        attach_to(open_target(store), [PageIndex()])
    assert content(store) == data


def test_file_urls_are_local_files(data, tmp_path):
    path = tmp_path / "with blank.parquet"
    path.write_bytes(data)
    attach(path.as_uri(), [PageIndex()])
    assert path.read_bytes() != data
    detach(path.as_uri())
    assert path.read_bytes() == data
