"""`Table.plan`: splits are values, any process can read them, and together they equal the scan."""

from __future__ import annotations

import io
import multiprocessing
import os
import pickle
from concurrent.futures import ProcessPoolExecutor

import obstore
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from obstore.store import LocalStore, MemoryStore

import intarsia as ia
from intarsia.file.metadata import parse_footer
from intarsia.format.structs import OffsetIndex
from intarsia.lake.data_file import DataFile
from intarsia.lake.table import Table
from tests.counting import calls
from tests.lake.index.lakes import age
from tests.reading.surgery import Patient


@pytest.mark.parametrize(
    ("kind", "where"),
    [(pa.int8(), "p = 300 OR a = 1"), (pa.string(), "p = 300 OR a = 1"), (pa.bool_(), "p > 7")],
)
def test_a_partition_column_that_the_files_also_have(tmp_path, kind, where):
    """The folder's value and type are used; 300 is not a value of the file's type."""
    for value in (300, 7):
        (tmp_path / f"p={value}").mkdir()
        own = pa.array([1, 0], pa.int8()).cast(kind)
        pq.write_table(pa.table({"p": own, "a": [1, 2]}), tmp_path / f"p={value}" / "x.parquet")
    table = ia.open(tmp_path)
    expected = [
        row
        for row in table.scan().to_arrow().to_pylist()
        if row["p"] == 300 or (row["a"] == 1 and "OR" in where)
    ]
    assert table.scan(where).to_arrow().to_pylist() == expected
    assert [row for split in table.plan(where) for row in split.to_arrow().to_pylist()] == expected


def test_a_file_replaced_after_it_was_planned(tmp_path):
    path = tmp_path / "x.parquet"
    pq.write_table(pa.table({"a": range(100)}), path)
    (split,) = ia.open(path).plan("a = 5")
    assert split.to_arrow()["a"].to_pylist() == [5]
    pq.write_table(pa.table({"a": range(1, 101)}), path)
    with pytest.raises(ia.ReplacedWhileReadError) as caught:
        split.to_arrow()
    assert (caught.value.reason, caught.value.path) == ("file-replaced", str(path))


def test_splits_of_a_file_parse_its_footer_once(tmp_path):
    """A footer of 2,000 row groups takes longer to parse than the rows of a split to read."""
    path = tmp_path / "x.parquet"
    pq.write_table(pa.table({"a": range(100)}), path, row_group_size=10)
    age(path)
    splits = pickle.loads(pickle.dumps(ia.open(path).plan(split_bytes=1)))
    assert len(splits) == 10
    assert calls(lambda: [split.to_arrow() for split in splits], of=parse_footer) == 1
    pq.write_table(pa.table({"a": range(1, 101)}), path, row_group_size=10)
    age(path)
    for split in splits:
        with pytest.raises(ia.ReplacedWhileReadError):
            split.to_arrow()


def test_a_footer_of_another_store_is_not_used(tmp_path, put_behind_urls):
    """Stores may number their versions, so that objects of the same name and length have the same ETag."""
    for first in (0, 100):
        store = MemoryStore()
        put_behind_urls(store)
        sink = io.BytesIO()
        pq.write_table(
            pa.table({"a": range(first, first + 50)}), sink, compression="none", use_dictionary=False
        )
        obstore.put(store, "x.parquet", sink.getvalue())
        (split,) = ia.open("s3://bucket/x.parquet").plan()
        assert split.to_arrow()["a"].to_pylist() == list(range(first, first + 50))


def test_an_object_replaced_between_listing_and_planning(tmp_path):
    """The new object is planned, and read by the split."""
    store = LocalStore(tmp_path)
    put_object(store, [1, 2])
    item = obstore.head(store, "x.parquet")
    table = Table([DataFile("s3://b/x.parquet", item["size"], (), store, "x.parquet", item["e_tag"])])
    put_object(store, list(range(50)))
    splits = pickle.loads(pickle.dumps(table.plan("a > 47")))
    assert [split.to_arrow()["a"].to_pylist() for split in splits] == [[48, 49]]
    put_object(store, list(range(60)))
    with pytest.raises(ia.ReplacedWhileReadError) as caught:
        splits[0].to_arrow()
    assert caught.value.path == "s3://b/x.parquet"


def put_object(store, values):
    sink = io.BytesIO()
    pq.write_table(pa.table({"a": values}), sink)
    obstore.put(store, "x.parquet", sink.getvalue())


def test_a_split_with_a_wrong_page_index(tmp_path):
    """Its row numbers are wrong, so whole row groups are read, with a warning."""
    path = tmp_path / "x.parquet"
    table = pa.table({"a": pa.array(range(3000), pa.int64()), "b": pa.array(range(3000), pa.int64())})
    form = {"data_page_size": 800, "write_batch_size": 100, "use_dictionary": False}
    pq.write_table(table, path, row_group_size=1000, write_page_index=True, **form)
    patient = Patient.read(path)
    for group in range(3):
        patient.change_index(OffsetIndex, group, 1, shift_one_page)
    patient.write(path)
    splits = ia.open(path).plan("a BETWEEN 250 AND 1450", split_bytes=1)
    assert [split.row_groups for split in splits] == [(0,), (1,)]
    with pytest.warns(ia.IntarsiaWarning, match="row group 0") as caught:
        first = splits[0].to_arrow()
    assert caught[0].filename == __file__
    assert first["b"].to_pylist() == list(range(250, 1000))
    with pytest.warns(ia.IntarsiaWarning, match="row group 1"):
        assert splits[1].to_arrow()["b"].to_pylist() == list(range(1000, 1451))


def shift_one_page(index):
    pages = list(index.page_locations)
    pages[2] = pages[2]._replace(first_row_index=pages[2].first_row_index + 7)
    return index._replace(page_locations=pages)


def test_a_copy_of_a_split_compares_nanoseconds(tmp_path):
    pq.write_table(pa.table({"t": pa.array([0], pa.time64("ns"))}), tmp_path / "x.parquet")
    splits = ia.open(tmp_path).plan(ia.Comparison("t", "<>", pa.scalar(1, pa.time64("ns"))))
    assert [split.to_arrow().num_rows for split in splits] == [1]
    assert [split.to_arrow().num_rows for split in pickle.loads(pickle.dumps(splits))] == [1]


@pytest.mark.parametrize("where", [None, "c7 > 50 AND s.x = 60", "c7 + 1 > 50 OR c7 > 1e30"])
def test_a_split_does_not_grow_with_the_columns(tmp_path, where):
    """It had the types of all columns, so thousands of splits of a wide table did not fit into memory."""

    def pickled(columns):
        path = tmp_path / f"{columns:04}.parquet"
        table = pa.table({f"c{ordinal}": range(100) for ordinal in range(columns)})
        table = table.append_column("s", pa.array([{"x": row, "y": row} for row in range(100)]))
        pq.write_table(table, path)
        scan = ia.open(path).scan(where, columns=["c8"])
        (split,) = scan.plan()
        assert pickle.loads(pickle.dumps(split)).to_arrow().equals(scan.to_arrow())
        return len(pickle.dumps(split))

    assert pickled(1000) <= pickled(10) + 8  # longer numbers


def read_elsewhere(split):
    return os.getpid(), split.to_arrow()


def test_another_process_reads_a_split(tmp_path):
    for day in range(2):
        pq.write_table(
            pa.table({"day": [day] * 100, "a": range(100)}), tmp_path / f"{day}.parquet", row_group_size=50
        )
    splits = ia.open(tmp_path).plan("a IN (7, 77)", split_bytes=1)
    assert [(split.row_groups, split.num_rows) for split in splits] == [((0,), 50), ((1,), 50)] * 2
    with ProcessPoolExecutor(1, mp_context=multiprocessing.get_context("spawn")) as pool:
        found = list(pool.map(read_elsewhere, splits))
    assert {process for process, _ in found}.isdisjoint({os.getpid()})
    rows = pa.concat_tables(rows for _, rows in found)
    assert rows.to_pylist() == [{"day": day, "a": a} for day in range(2) for a in (7, 77)]


@pytest.mark.parametrize("split_bytes", [0, -1])
def test_split_bytes_must_be_positive(tmp_path, split_bytes):
    pq.write_table(pa.table({"a": [1]}), tmp_path / "x.parquet")
    with pytest.raises(ValueError, match="split_bytes"):
        ia.open(tmp_path).plan(split_bytes=split_bytes)
