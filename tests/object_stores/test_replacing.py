"""Attaching to objects in memory, by a mapped file, or by a multipart upload, unless they have changed."""

from __future__ import annotations

import tempfile

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

import intarsia as ia
from intarsia.embed.attach import attach_to
from intarsia.storage.object_target import ObjectTarget, UploadLimits
from intarsia.storage.objects import find_store
from tests.object_stores.store_server import BUCKET, Fault

KEY = "lake/x.parquet"
URL = f"s3://{BUCKET}/{KEY}"

#: S3 accepts parts of 5 MiB or more, except for the last one.
PART_BYTES = 5 << 20

WAYS = {
    "in memory": UploadLimits(),
    "mapped file": UploadLimits(memory_bytes=0, part_bytes=1 << 20),
    "multipart": UploadLimits(memory_bytes=0, put_bytes=0, part_bytes=PART_BYTES),
}


@pytest.fixture(scope="module")
def data(tmp_path_factory):
    path = tmp_path_factory.mktemp("data") / "x.parquet"
    rows = pa.table({"n": np.random.default_rng(0).random(1_500_000)})
    pq.write_table(rows, path, compression="none", use_dictionary=False)
    return path.read_bytes()


@pytest.fixture(scope="module")
def attached(data, tmp_path_factory):
    """The bytes after the same attach to a local file."""
    path = tmp_path_factory.mktemp("attached") / "x.parquet"
    path.write_bytes(data)
    ia.attach(path, ia.PageIndex())
    return path.read_bytes()


@pytest.fixture
def lake(s3, data):
    s3.put(KEY, data)
    return s3


def target(limits, overwrite="last-writer-wins"):
    return ObjectTarget(*find_store(URL), URL, overwrite=overwrite, limits=limits)


@pytest.mark.parametrize("limits", WAYS.values(), ids=WAYS)
def test_each_way_gives_the_same_object(lake, attached, limits):
    with lake.recording() as recording:
        attach_to(target(limits), [ia.PageIndex()])
    assert lake.content(KEY) == attached
    puts = [one.query for one in recording.requests if one.method == "PUT"]
    if limits.put_bytes:
        assert len(puts) == 1
    else:
        assert len(puts) == -(-len(attached) // PART_BYTES)
        assert all("partNumber" in query for query in puts)


@pytest.mark.parametrize("limits", WAYS.values(), ids=WAYS)
def test_an_object_that_changes_before_the_upload(lake, limits):
    """The other process's object stays, and no part is left in the bucket."""
    found = target(limits)
    # before a multipart upload ends, the ETag is requested
    first = Fault("call", "PUT" if limits.put_bytes else "HEAD")
    first.action = lambda: lake.put(KEY, b"of another process")
    lake.faults = [first]
    with lake.recording() as recording, pytest.raises(ia.ChangedMeanwhileError) as caught:
        attach_to(found, [ia.PageIndex()])
    assert (caught.value.reason, caught.value.path) == ("changed-meanwhile", URL)
    assert lake.content(KEY) == b"of another process"
    assert not lake.unfinished_uploads()
    assert limits.put_bytes or recording.methods["DELETE"]


@pytest.mark.parametrize("limits", WAYS.values(), ids=WAYS)
@pytest.mark.parametrize("status", ["403 Forbidden", "500 Internal Server Error"])
def test_an_upload_that_is_refused(lake, data, limits, status):
    options = {"max_retries": 1, "timeout_seconds": 10}
    store, key = find_store(URL, options)
    found = ObjectTarget(store, key, URL, overwrite="last-writer-wins", limits=limits)
    lake.faults = [Fault(method="PUT", status=status, code="Refused", times=None)]
    with pytest.raises(ia.ReplaceError) as caught:
        attach_to(found, [ia.PageIndex()])
    assert caught.value.reason == ("access-denied" if "403" in status else "server-failed")
    assert caught.value.path == URL
    assert lake.content(KEY) == data


def test_an_upload_is_repeated(lake, attached):
    lake.faults = [Fault(method="PUT")]
    ia.attach(URL, ia.PageIndex())
    assert lake.content(KEY) == attached


@pytest.mark.parametrize("limits", WAYS.values(), ids=WAYS)
def test_the_store_of_an_upload_is_chosen_by_the_size_of_the_new_object(lake, attached, limits):
    sizes = []

    def refusing(num_bytes):  # a store without the bucket: the put fails if it is used
        sizes.append(num_bytes)
        return find_store("s3://another-bucket/x", {"max_retries": 0})[0]

    store, key = find_store(URL)
    found = ObjectTarget(store, key, URL, store_for=refusing, overwrite="last-writer-wins", limits=limits)
    with pytest.raises(ia.ReplaceError):
        attach_to(found, [ia.PageIndex()])
    assert sizes == [len(attached)]


def test_a_multipart_upload_needs_permission(lake, data):
    with pytest.raises(ia.ReplaceError) as caught:
        attach_to(target(WAYS["multipart"], overwrite="never"), [ia.PageIndex()])
    assert (caught.value.reason, caught.value.path) == ("object-too-large", URL)
    assert lake.content(KEY) == data


def test_a_disk_that_is_full(lake, data, monkeypatch, tmp_path):
    monkeypatch.setattr(tempfile, "tempdir", str(tmp_path / "missing"))
    with pytest.raises(ia.ReplaceError) as caught:
        attach_to(target(WAYS["mapped file"]), [ia.PageIndex()])
    assert (caught.value.reason, caught.value.path) == ("storage-error", URL)
    assert lake.content(KEY) == data


def test_detach(lake, data):
    options = {"max_retries": 3}
    ia.attach(URL, ia.PageIndex(), storage_options=options)
    assert ia.detach(URL, storage_options=options).detached
    assert lake.content(KEY) == data
    folder = URL.rpartition("/")[0] + "/"
    assert ia.attach(folder, ia.PageIndex(), storage_options=options).files_indexed == 1
    assert ia.detach(folder, storage_options=options).files_detached == 1
    assert lake.content(KEY) == data
