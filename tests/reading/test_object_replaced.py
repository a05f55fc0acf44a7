"""Files that are replaced while they are read, or between two queries: the old footer must not be used."""

from __future__ import annotations

import copy
import io
import os
import pickle
from typing import ClassVar

import numpy as np
import obstore
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from obstore.store import LocalStore, MemoryStore

import intarsia as ia
from intarsia.file import ParquetInput
from intarsia.lake.data_file import DataFile
from intarsia.lake.table import Table
from intarsia.storage import ByteRange, LocalFile, ObjectStoreFile


def put(store, values, row_group_size=2):
    sink = io.BytesIO()
    table = pa.table({"v": pa.array(values, pa.int64())})
    pq.write_table(table, sink, row_group_size=row_group_size, compression="none", use_dictionary=False)
    obstore.put(store, "t.parquet", sink.getvalue())
    return len(sink.getvalue())


def test_ranges_are_returned_in_the_requested_order():
    store = MemoryStore()
    obstore.put(store, "k", bytes(range(100)))
    source = ObjectStoreFile(store, "k", "memory://k")
    places = [ByteRange(start, start + 2) for start in range(90, 0, -3)]
    assert source.read_ranges(places) == [bytes([place.start, place.start + 1]) for place in places]
    assert source.read_ranges([]) == []


def test_replaced_between_two_batches():
    store = MemoryStore()
    half = 1_000_000  # small row groups are read together
    size = put(store, np.arange(2 * half), half)
    batches = iter(Table([DataFile("memory://t.parquet", size, (), store, "t.parquet")]).scan())
    assert next(batches).column(0)[0].as_py() == 0
    put(store, np.arange(2 * half) + 1, half)  # of the same length
    with pytest.raises(ia.ReplacedWhileReadError) as caught:
        list(batches)
    assert (caught.value.reason, caught.value.path) == ("object-replaced", "memory://t.parquet")


@pytest.mark.parametrize("make_store", [MemoryStore, "local"])
@pytest.mark.parametrize("left", [0, 10, 20, 25])
def test_replaced_by_a_shorter_object(make_store, left, tmp_path):
    """With some or none of the bytes of the range left, with and without ETags."""
    store = LocalStore(tmp_path) if make_store == "local" else make_store()
    obstore.put(store, "k", bytes(30))
    for forgets in (False, True):
        source = ObjectStoreFile(store, "k", "s3://bucket/k")
        if forgets:
            source.e_tag = None
        obstore.put(store, "k", bytes(left))
        with pytest.raises(ia.ReplacedWhileReadError) as caught:
            source.read_ranges([ByteRange(20, 30)])
        assert (caught.value.reason, caught.value.path) == ("object-replaced", "s3://bucket/k")
        with pytest.raises(ia.ReplacedWhileReadError):
            source.read_ranges([ByteRange(0, 10), ByteRange(20, 30)])
        obstore.put(store, "k", bytes(30))


def test_local_file_that_becomes_shorter(tmp_path):
    path = tmp_path / "t.parquet"
    pq.write_table(pa.table({"v": range(1000)}), path, compression="none", use_dictionary=False)
    with ParquetInput.open(path) as file:
        os.truncate(path, 100)
        with pytest.raises(ia.ReplacedWhileReadError) as caught:
            file.source.read(50, 200)
    assert (caught.value.reason, caught.value.path) == ("file-became-shorter", str(path))


def test_errors_of_the_disk_name_the_file(tmp_path):
    source = LocalFile(tmp_path)  # a folder can be opened, but not read
    with pytest.raises(IsADirectoryError) as caught:
        source.read_ranges([ByteRange(0, 4)])
    assert caught.value.filename == str(tmp_path)


@pytest.mark.parametrize(
    "read",
    [
        lambda file: Table([file]).scan().to_arrow(),
        lambda file: Table([file]).scan("v > 1").to_arrow(),
        lambda file: Table([file]).aggregate({"v": ["avg"]}),
        lambda file: Table([file]).aggregate({"v": ["avg"]}, where="v > 1"),
        lambda file: ia.verify(file.path),
    ],
    ids=["everything", "scan", "aggregate of everything", "aggregate", "verify"],
)
def test_replaced_while_read_is_not_reported_as_damage(read, put_behind_urls, monkeypatch):
    """The error does not blame a rule of `verify`, an index or a column."""
    store = MemoryStore()
    size = put(store, range(100_000), 50_000)  # more than is read together with the footer
    real = obstore.get
    done = []

    def get(*args, **options):
        done.append(args)
        if len(done) > 1:
            put(store, range(1, 100_001), 50_000)
        return real(*args, **options)

    monkeypatch.setattr(obstore, "get", get)
    put_behind_urls(store)
    file = DataFile("s3://bucket/t.parquet", size, (), store, "t.parquet")
    with pytest.raises(ia.ReplacedWhileReadError) as caught:
        read(file)
    error = caught.value
    assert (error.reason, error.path, error.column) == ("object-replaced", "s3://bucket/t.parquet", None)


@pytest.fixture
def requests(monkeypatch):
    """The requests to stores."""
    asked = []

    def recorded(name, real):
        return lambda *args, **more: asked.append(name) or real(*args, **more)

    for name in ("head", "get"):
        monkeypatch.setattr(obstore, name, recorded(name, getattr(obstore, name)))
    return asked


def test_the_footer_is_fetched_once_for_the_schema_and_the_first_scan(requests):
    store = MemoryStore()
    table = Table([DataFile("memory://t.parquet", put(store, [1, 2]), (), store, "t.parquet")])
    assert table.schema.names == ["v"]
    assert requests == ["head", "get"]
    assert table.count() == 2
    assert requests == ["head", "get", "head"]  # still the same object
    put(store, [1, 2, 3])
    assert table.count() == 3  # opens it again, because its identity has changed
    assert requests == ["head", "get", "head", "head", "get"]


def test_replaced_between_the_schema_and_the_scan():
    store = MemoryStore()
    table = Table([DataFile("memory://t.parquet", put(store, [1, 2, 3, 4]), (), store, "t.parquet")])
    assert table.schema.names == ["v"]
    put(store, [5, 6, 7, 8])  # of the same length
    assert table.scan("v > 6").to_arrow()["v"].to_pylist() == [7, 8]


def test_local_file_can_be_overwritten_between_the_schema_and_the_scan(tmp_path):
    path = tmp_path / "t.parquet"
    form = {"use_dictionary": False, "compression": "none"}
    pq.write_table(pa.table({"v": pa.array(range(1000))}), path, **form)
    table = ia.open(path)
    assert table.schema.names == ["v"]
    pq.write_table(pa.table({"v": pa.array(range(5000, 6000))}), path, **form)  # pages at the same offsets
    assert table.count("v >= 5000") == 1000


def pickled(table):
    return pickle.loads(pickle.dumps(table))


@pytest.mark.parametrize("duplicate", [copy.copy, copy.deepcopy, pickled])
def test_table_is_copied_after_its_schema_was_read(tmp_path, duplicate):
    pq.write_table(pa.table({"v": [1, 2, 3]}), tmp_path / "t.parquet")
    remote = DataFile("x://t.parquet", 0, (), LocalStore(tmp_path), "t.parquet")
    for table in (ia.open(tmp_path / "t.parquet"), Table([remote])):
        assert table.schema.names == ["v"]
        other = duplicate(table)
        assert (other.count("v > 1"), table.count("v > 1")) == (2, 2)


class KeptDataFile(DataFile):
    """A local file of a table, which remembers the sources that it opened."""

    opened: ClassVar[list[LocalFile]] = []

    def open(self, **_):
        self.opened.append(LocalFile(self.path))
        return self.opened[-1]


def test_table_keeps_no_local_file_open(tmp_path):
    path = tmp_path / "t.parquet"
    pq.write_table(pa.table({"v": [1, 2, 3]}), path)
    assert Table([KeptDataFile(str(path), path.stat().st_size)]).schema.names == ["v"]
    (source,) = KeptDataFile.opened
    with pytest.raises(OSError, match="Bad file descriptor"):
        source.read_ranges([ByteRange(0, 4)])
