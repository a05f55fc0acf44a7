"""Pages whose bytes contradict their checksum are errors however they are read, at no further reads."""

from __future__ import annotations

import os
from typing import NamedTuple

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from obstore.store import MemoryStore

import intarsia as ia
from intarsia.format import thrift
from intarsia.lake.data_file import DataFile
from intarsia.lake.table import Table
from tests.lake.index.lakes import age
from tests.reading.exact import assert_same_rows
from tests.reading.pages import RecordedDataFile
from tests.verify.damage import Damage

# a damaged dictionary page is ignored with a warning before it is read again
pytestmark = pytest.mark.filterwarnings("ignore::intarsia.IntarsiaWarning")

ROWS = 2000
PAGE_ROWS = 100


class Spoiled(NamedTuple):
    """A damaged page: its column, and the offset of its header."""

    column: str
    offset: int


def make_rows(first=0):
    return pa.table(
        {
            "id": range(first, first + ROWS),
            "word": [f"w{number % 40:02}" for number in range(ROWS)],
            "other": [number % 3 for number in range(ROWS)],
            "tags": [[number, number + 1] for number in range(ROWS)],
        }
    )


def write(path, rows=None, **options):
    options = {
        "row_group_size": 1000,
        "max_rows_per_page": PAGE_ROWS,
        "write_batch_size": PAGE_ROWS,
        "write_page_index": True,
        "write_page_checksum": True,
        "compression": "none",
        "use_dictionary": ["word"],
        **options,
    }
    pq.write_table(make_rows() if rows is None else rows, path, **options)
    age(path)


def spoil(path, column, page):
    """Change the last byte of a page of the first row group, counted with the dictionary page."""
    damage = Damage(path)
    start, pages = damage.pages(column)
    damage.body[start + pages[page].stop - 1] ^= 1
    damage.write()
    age(path)
    return Spoiled(column, start + pages[page].start)


#: A data page of numbers, the dictionary page, and a data page of positions in it.
PLACES = [("id", 3), ("word", 0), ("word", 4), ("tags.list.element", 2)]

#: Queries that read all of these pages.
QUERIES = {
    "everything": lambda table: table.scan().to_arrow(),
    "batches": lambda table: list(table.scan()),
    "predicate": lambda table: table.scan("id BETWEEN 150 AND 450 AND word <> 'w00'").to_arrow(),
    "lookup": lambda table: table.scan("id IN (399, 250) AND word IN ('w39', 'w10')").to_arrow(),
    "limit": lambda table: table.scan("id > 20 AND word > 'w0'", limit=900).to_arrow(),
    "first rows": lambda table: table.scan(order_by="id", limit=500).to_arrow(),
    "last rows": lambda table: table.scan("word > 'w0'", order_by="id DESC", limit=1900).to_arrow(),
    "split": lambda table: [split.to_arrow() for split in table.plan("other <> 2")],
    "dataset": lambda table: table.dataset().to_table(),
}


def check(error, path, spoiled):
    assert error.reason == "page-checksum"
    assert error.path == str(path)
    assert (error.column, error.offset) == spoiled
    assert error.struct == "PageHeader"


@pytest.mark.parametrize("query", QUERIES)
@pytest.mark.parametrize("has_index", [True, False])
@pytest.mark.parametrize("version", ["1.0", "2.0"])
@pytest.mark.parametrize("place", PLACES)
def test_every_way_of_reading(tmp_path, place, version, has_index, query):
    path = tmp_path / "t.parquet"
    write(path, data_page_version=version, write_page_index=has_index)
    spoiled = spoil(path, *place)
    with pytest.raises(ia.CorruptFileError) as caught:
        QUERIES[query](ia.open(path))
    check(caught.value, path, spoiled)
    assert QUERIES[query](ia.open(path, page_checksums=False)) is not None


@pytest.mark.parametrize("codec", ["snappy", "zstd"])
def test_compressed_bytes_are_compared(tmp_path, codec):
    """The error is that of the checksum, even if the page cannot be decompressed either."""
    path = tmp_path / "t.parquet"
    write(path, compression=codec)
    spoiled = spoil(path, "id", 3)
    for where in (None, "id > 0"):
        with pytest.raises(ia.CorruptFileError) as caught:
            ia.open(path).scan(where).to_arrow()
        check(caught.value, path, spoiled)


#: Aggregates of the spoiled page, whose column they read.
AGGREGATES = {
    "sum": ("id", lambda table: table.aggregate({"id": ["sum"]}, "other <> 2")),
    "count": ("id", lambda table: table.count("id % 2 = 1")),
    "distinct": ("word", lambda table: table.count_distinct("word")),
    "values": ("word", lambda table: table.value_counts("word", "other = 1")),
    "locations": ("word", lambda table: table.locate("word LIKE '%9'")),
}


@pytest.mark.parametrize("name", AGGREGATES)
def test_aggregates(tmp_path, name):
    path = tmp_path / "t.parquet"
    write(path)
    column, aggregate = AGGREGATES[name]
    spoiled = spoil(path, column, 4)
    with pytest.raises(ia.CorruptFileError) as caught:
        aggregate(ia.open(path))
    check(caught.value, path, spoiled)


def test_pages_that_are_not_read_are_not_compared(tmp_path):
    path = tmp_path / "t.parquet"
    write(path)
    spoil(path, "id", 3)
    assert ia.open(path).scan("id = 250").to_arrow()["word"].to_pylist() == ["w10"]
    assert ia.open(path).scan(columns=["word"]).to_arrow().num_rows == ROWS
    assert ia.open(path).scan("word = 'w39'", columns=["tags"]).to_arrow().num_rows == ROWS // 40


def test_bounds_of_a_damaged_column_are_not_used_again(tmp_path):
    """They answered these queries before, without reading the page."""
    path = tmp_path / "t.parquet"
    write(path)
    spoiled = spoil(path, "id", 3)
    table = ia.open(path)
    assert table.count("id < 300") == 300
    assert table.count("id >= 0") == ROWS
    assert dict(table.aggregate({"id": ["max"]})) == {"id": {"max": ROWS - 1}}
    with pytest.raises(ia.CorruptFileError):
        table.scan("id BETWEEN 390 AND 410").to_arrow()
    for query in (
        lambda: table.count("id < 300"),
        lambda: table.count("id >= 0"),
        lambda: table.aggregate({"id": ["max"]}),
        lambda: table.scan("id = -5").to_arrow(),
        lambda: table.scan("id = 1500", columns=["id"]).to_arrow(),
        lambda: table.scan(order_by="id", limit=3).to_arrow(),
    ):
        with pytest.raises(ia.CorruptFileError) as caught:
            query()
        check(caught.value, path, spoiled)
    assert table.count("word = 'w07'") == ROWS // 40  # another column


def test_damaged_dictionaries_are_not_used(tmp_path):
    """Pruning reads the page first, and finds no value: the row group must not be excluded."""
    path = tmp_path / "t.parquet"
    write(path)
    spoiled = spoil(path, "word", 0)
    scan = ia.open(path).scan("word = 'w39' AND other < 5")
    with pytest.raises(ia.CorruptFileError) as caught:
        scan.to_arrow()
    check(caught.value, path, spoiled)
    unchecked = ia.open(path, page_checksums=False).scan("word = 'w39'")
    assert unchecked.to_arrow().num_rows == ROWS // 80


@pytest.mark.parametrize("place", PLACES)
def test_indexes_are_not_built_from_damaged_pages(tmp_path, place):
    path = tmp_path / "t.parquet"
    write(path, write_page_index=False)
    spoiled = spoil(path, *place)
    before = path.read_bytes()
    if place[0] in ("id", "word"):
        with pytest.raises(ia.CorruptFileError) as caught:
            ia.attach(path, ia.Distinct(place[0]))
        check(caught.value, path, spoiled)
        assert path.read_bytes() == before
    report = ia.attach(path, ia.PageIndex())
    assert {(note.column, note.row_group) for note in report.notes} == {(place[0], 0)}


@pytest.mark.parametrize("query", QUERIES)
def test_writers_of_wrong_checksums(tmp_path, query):
    """Parquet.jl writes 0 into every header, so its files are read without comparing."""
    path = tmp_path / "t.parquet"
    write(path)
    expected = QUERIES[query](ia.open(path))
    damage = Damage(path)
    damage.page_header("id", 3, lambda header: header._replace(crc=header.crc ^ 1))
    damage.write()
    with pytest.raises(ia.CorruptFileError):
        QUERIES[query](ia.open(path))
    damage.tree.set(6, thrift.BINARY, b"Parquet.jl 0.8.6")
    damage.write()
    assert QUERIES[query](ia.open(path)) == expected
    assert ia.attach(path, ia.Distinct("id")).notes == ()
    assert QUERIES[query](ia.open(path)) == expected
    found = ia.verify(path).findings
    assert [(finding.rule, finding.column) for finding in found] == [("page-checksum", "id")]


# --- many files ---


@pytest.fixture
def lake(tmp_path):
    for number in range(6):
        options = {"row_group_size": ROWS, "max_rows_per_page": ROWS, "write_page_index": False}
        write(tmp_path / f"{number}.parquet", make_rows(number * ROWS), **options)
    return tmp_path


LAKE_QUERIES = {
    "everything": lambda table: table.scan().to_arrow(),
    "together": lambda table: table.scan("other = 1 AND word > 'w20'").to_arrow(),
    "one by one": lambda table: list(table.scan("other = 1 AND word > 'w20'")),
    "dictionaries": lambda table: table.scan("word = 'w20x' OR word = 'w39'").to_arrow(),
    "aggregate": lambda table: table.aggregate({"id": ["sum"], "word": ["max"]}, "other = 1"),
    "first rows": lambda table: table.scan("word > 'w20'", order_by="id DESC", limit=9000).to_arrow(),
}


@pytest.mark.parametrize("query", LAKE_QUERIES)
def test_small_files_that_are_read_together(lake, query):
    """The error names the damaged file."""
    path = lake / "3.parquet"
    spoiled = spoil(path, "word", 0)
    with pytest.raises(ia.CorruptFileError) as caught:
        LAKE_QUERIES[query](ia.open(lake))
    check(caught.value, path, spoiled)
    assert LAKE_QUERIES[query](ia.open(lake, page_checksums=False)) is not None


def test_damaged_files_are_skipped(lake):
    spoil(lake / "3.parquet", "word", 1)
    scan = ia.open(lake).scan("other = 1", columns=["id", "word"], on_error="skip")
    with pytest.warns(ia.IntarsiaWarning):
        found = scan.to_arrow()
    assert [os.path.basename(failed.file) for failed in scan.report.files_failed] == ["3.parquet"]
    assert not set(found["id"].to_pylist()) & set(range(3 * ROWS, 4 * ROWS))


@pytest.mark.parametrize("where", [None, "other = 1 AND word > 'w20'"])
def test_objects(lake, where):
    spoiled = spoil(lake / "3.parquet", "id", 0)
    store = MemoryStore()
    files = []
    for path in sorted(lake.iterdir()):
        store.put(path.name, path.read_bytes())
        found = store.head(path.name)
        files.append(
            DataFile(
                f"s3://bucket/{path.name}", found["size"], store=store, key=path.name, e_tag=found["e_tag"]
            )
        )
    with pytest.raises(ia.CorruptFileError) as caught:
        Table(files).scan(where).to_arrow()
    check(caught.value, "s3://bucket/3.parquet", spoiled)
    assert Table(files, page_checksums=False).scan(where).to_arrow().num_rows


# --- the cost ---


COUNTED = [
    (None, None, None),
    ("id BETWEEN 150 AND 450", None, None),
    ("word = 'w39'", ["tags"], None),
    ("id IN (5, 1999) AND other <> 2", None, None),
    ("other = 1", None, 7),
]


@pytest.mark.parametrize(("where", "columns", "limit"), COUNTED)
def test_no_further_bytes_or_requests(tmp_path, where, columns, limit):
    path = tmp_path / "t.parquet"
    write(path)
    found = []
    for checks in (True, False):
        file = RecordedDataFile(str(path), path.stat().st_size)
        rows = Table([file], page_checksums=checks).scan(where, columns, limit).to_arrow()
        found.append((rows, sorted(file.ranges)))
    assert found[0][1] == found[1][1]
    assert_same_rows(found[0][0], found[1][0])
