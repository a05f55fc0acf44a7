"""A file that is replaced while it is read, or between two questions: its footer tells nothing of the new."""

from __future__ import annotations

import copy
import io
import os
import pickle
from typing import ClassVar

import obstore
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from obstore.store import LocalStore, MemoryStore

import intarsia as ia
from intarsia.check import inspection
from intarsia.file import ParquetInput
from intarsia.lake.data_file import DataFile
from intarsia.lake.table import Table
from intarsia.storage import ByteRange, LocalFile, ObjectStoreFile


def put(store, values):
    sink = io.BytesIO()
    pq.write_table(pa.table({"v": pa.array(values, pa.int64())}), sink, row_group_size=2)
    obstore.put(store, "t.parquet", sink.getvalue())
    return len(sink.getvalue())


def test_ranges_come_in_the_order_asked():
    store = MemoryStore()
    obstore.put(store, "k", bytes(range(100)))
    source = ObjectStoreFile(store, "k", "memory://k")
    places = [ByteRange(start, start + 2) for start in range(90, 0, -3)]
    assert source.read_ranges(places) == [bytes([place.start, place.start + 1]) for place in places]
    assert source.read_ranges([]) == []


def test_replaced_between_two_batches():
    store = MemoryStore()
    size = put(store, [1, 2, 3, 4])
    batches = iter(Table([DataFile("memory://t.parquet", size, (), store, "t.parquet")]).scan())
    assert next(batches).column(0).to_pylist() == [1, 2]
    put(store, [5, 6, 7, 8])  # of the same length
    with pytest.raises(ia.ReplacedWhileReadError, match=r"memory://t\.parquet.*replaced while it was read"):
        next(batches)


@pytest.mark.parametrize("make_store", [MemoryStore, "local"])
@pytest.mark.parametrize("left", [0, 10, 20, 25])
def test_replaced_by_a_shorter_one(make_store, left, tmp_path):
    """Whether some bytes of the range are there or none, and whether the store has ETags or not."""
    store = LocalStore(tmp_path) if make_store == "local" else make_store()
    obstore.put(store, "k", bytes(30))
    for forgets in (False, True):
        source = ObjectStoreFile(store, "k", "s3://bucket/k")
        if forgets:
            source.e_tag = None
        obstore.put(store, "k", bytes(left))
        with pytest.raises(ia.ReplacedWhileReadError, match="was replaced while it was read; open it again"):
            source.read_ranges([ByteRange(20, 30)])
        with pytest.raises(ia.ReplacedWhileReadError):
            source.read_ranges([ByteRange(0, 10), ByteRange(20, 30)])
        obstore.put(store, "k", bytes(30))


def test_a_local_file_that_becomes_shorter(tmp_path):
    path = tmp_path / "t.parquet"
    pq.write_table(pa.table({"v": range(1000)}), path, compression="none", use_dictionary=False)
    with ParquetInput.open(path) as file:
        os.truncate(path, 100)
        with pytest.raises(ia.ReplacedWhileReadError, match=r"t\.parquet: the file became shorter"):
            file.source.read(50, 200)


def test_what_the_disk_refuses_names_the_file(tmp_path):
    source = LocalFile(tmp_path)  # opens, as a folder that took a file's place does
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
def test_replaced_while_it_is_read_is_nobody_s_damage(read, monkeypatch):
    """No rule of `verify`, no index and no column is blamed."""
    store = MemoryStore()
    size = put(store, [1, 2, 3, 4])
    real = obstore.get
    done = []

    def get(*args, **options):
        done.append(args)
        if len(done) > 1:
            put(store, [5, 6, 7, 8])
        return real(*args, **options)

    monkeypatch.setattr(obstore, "get", get)
    file = DataFile("memory://t.parquet", size, (), store, "t.parquet")
    monkeypatch.setattr(inspection, "find_files", lambda _: [file])
    with pytest.raises(ia.ReplacedWhileReadError, match=r"memory://t\.parquet: the object was replaced"):
        read(file)


@pytest.fixture
def requests(monkeypatch):
    """What was asked of stores."""
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
    assert table.count() == 3  # opens it again: it may be another one by now
    assert requests == ["head", "get", "head", "head", "get"]


def test_replaced_between_the_schema_and_the_scan():
    store = MemoryStore()
    table = Table([DataFile("memory://t.parquet", put(store, [1, 2, 3, 4]), (), store, "t.parquet")])
    assert table.schema.names == ["v"]
    put(store, [5, 6, 7, 8])  # of the same length
    assert table.scan("v > 6").to_arrow()["v"].to_pylist() == [7, 8]


def test_a_local_file_may_be_overwritten_between_the_schema_and_the_scan(tmp_path):
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
def test_a_table_is_copied_after_its_schema_was_asked(tmp_path, duplicate):
    pq.write_table(pa.table({"v": [1, 2, 3]}), tmp_path / "t.parquet")
    remote = DataFile("x://t.parquet", 0, (), LocalStore(tmp_path), "t.parquet")
    for table in (ia.open(tmp_path / "t.parquet"), Table([remote])):
        assert table.schema.names == ["v"]
        other = duplicate(table)
        assert (other.count("v > 1"), table.count("v > 1")) == (2, 2)


class KeptDataFile(DataFile):
    """A local file of a table, which keeps what it opened."""

    opened: ClassVar[list[LocalFile]] = []

    def open(self, **_):
        self.opened.append(LocalFile(self.path))
        return self.opened[-1]


def test_a_table_keeps_no_local_file_open(tmp_path):
    path = tmp_path / "t.parquet"
    pq.write_table(pa.table({"v": [1, 2, 3]}), path)
    assert Table([KeptDataFile(str(path), path.stat().st_size)]).schema.names == ["v"]
    (source,) = KeptDataFile.opened
    with pytest.raises(OSError, match="Bad file descriptor"):
        source.read_ranges([ByteRange(0, 4)])
