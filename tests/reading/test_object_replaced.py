"""An object that is replaced while it is read: its footer says nothing about the new bytes."""

from __future__ import annotations

import io

import obstore
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from obstore.store import MemoryStore

import intarsia as ia
from intarsia.discovery import TableFile
from intarsia.storage import ByteRange, ObjectStoreFile
from intarsia.table import Table


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
    batches = iter(Table([TableFile("memory://t.parquet", size, (), store, "t.parquet")]).scan())
    assert next(batches).column(0).to_pylist() == [1, 2]
    put(store, [5, 6, 7, 8])  # of the same length
    with pytest.raises(ia.CorruptFileError, match=r"memory://t\.parquet.*replaced while it was read"):
        next(batches)
