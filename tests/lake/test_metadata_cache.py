"""The metadata cache of an open table: parsed once, valid while a file is unchanged, within a limit."""

from __future__ import annotations

import copy
import os
import pickle
import shutil
import time
from dataclasses import field
from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

import intarsia as ia
from intarsia.file import ChunkKey, FileMetadata, ParquetInput, parquet_file
from intarsia.file.metadata import find_directory, parse_footer
from intarsia.file.parquet_file import parse_column_index, parse_offset_index
from intarsia.format.row_groups import parsed_part
from intarsia.indexes.embedded import KeptIndexes
from intarsia.indexes.sample import OpenSample
from intarsia.lake.data_file import DataFile
from intarsia.lake.snapshot import TableCache
from intarsia.lake.table import Table
from intarsia.records import dataclass
from intarsia.storage import CountedSource, LocalFile
from tests.counting import calls
from tests.reading.pages import RecordedFile

FORM = {"use_dictionary": False, "compression": "none", "data_page_size": 800, "write_batch_size": 100}


def write(path, values, *, indexes=()):
    """Write a file of eight-byte values, whose length depends only on the number of values."""
    table = pa.table({"a": pa.array(values, pa.int64()), "b": pa.array(values, pa.int64())})
    pq.write_table(table, path, row_group_size=500, write_page_index=not indexes, **FORM)
    if indexes:
        ia.attach(path, indexes)
    settle(path)


def settle(path):
    """Make a file old enough to be cached: two writes within two seconds may have the same time."""
    then = time.time_ns() - 10**10
    os.utime(path, ns=(then, then))


@dataclass(frozen=True)
class RecordedDataFile(DataFile):
    """A file of a table that records the ranges read from it."""

    ranges: list = field(default_factory=list)

    def open(self, **_):
        return Recorded(self.path, self.ranges)


class Recorded(RecordedFile):
    """A recording source with the identity of a local file."""

    def __init__(self, path, ranges):
        super().__init__(path, ranges)
        self.identity = LocalFile(path).identity


@pytest.fixture
def recorded(tmp_path):
    path = tmp_path / "x.parquet"
    write(path, range(2000), indexes=[ia.PageIndex(), ia.Distinct("b")])
    file = RecordedDataFile(str(path), path.stat().st_size)
    return Table([file]), file.ranges


def data_bytes(path):
    """Return the range of the data pages."""
    with ParquetInput.open(path) as file:
        metas = [
            file.footer.chunk_metadata(group, leaf)
            for group in range(len(file.footer.metadata.row_groups))
            for leaf in file.footer.leaves
        ]
        return {
            byte
            for meta in metas
            for byte in range(meta.data_page_offset, meta.data_page_offset + meta.total_compressed_size)
        }


def scan(table):
    assert table.scan("a BETWEEN 700 AND 720").to_arrow().num_rows == 21


@pytest.mark.parametrize("first", [scan, lambda table: table.explain("a BETWEEN 700 AND 720")])
def test_a_footer_and_a_page_index_are_read_once(recorded, first):
    table, ranges = recorded
    first(table)
    data = data_bytes(table.files[0].path)
    assert any(place.start not in data for place in ranges)  # footer and page index
    ranges.clear()
    scan(table)
    assert ranges
    assert all(place.start in data and place.stop - 1 in data for place in ranges)


@pytest.mark.parametrize("parse", [parse_footer, find_directory, parse_offset_index, parse_column_index])
def test_structs_are_parsed_once(recorded, parse):
    table, _ = recorded
    first = calls(lambda: scan(table), of=parse)
    assert first == 1 if parse in (parse_footer, find_directory) else first > 0
    assert calls(lambda: scan(table), of=parse) == 0
    assert calls(lambda: table.explain("a BETWEEN 700 AND 720"), of=parse) == 0


def test_an_index_is_opened_once(tmp_path):
    path = tmp_path / "x.parquet"
    values = np.random.default_rng(5).permutation(np.arange(0, 4000, 2))  # odd ones are within all bounds
    write(path, values, indexes=[ia.Distinct("b")])
    (entry,) = read_metadata(path).directory.entries
    file = RecordedDataFile(str(path), path.stat().st_size)
    table = Table([file])
    for count in (1, 0, 0):
        file.ranges.clear()
        report = table.explain("b = 701")
        assert [index for index, _ in report.pruned_by] == [entry.name]
        assert sum(place.start <= entry.offset < place.stop for place in file.ranges) == count
        assert (report.bytes_index >= entry.length) == bool(count)
        assert table.count("b = 700") == 1


def overwrite(path):
    """Overwrite in place: the file keeps its inode."""
    with open(path, "r+b") as file:
        file.write(Path(f"{path}.new").read_bytes())


def overwrite_and_keep_the_time(path):
    """Like `cp -p` and `rsync --inplace --times`."""
    before = os.stat(path)
    overwrite(path)
    os.utime(path, ns=(before.st_atime_ns, before.st_mtime_ns))


def rename_over(path):
    os.replace(f"{path}.new", path)


def rename_over_with_the_same_time(path):
    before = os.stat(path)
    os.utime(f"{path}.new", ns=(before.st_atime_ns, before.st_mtime_ns))
    rename_over(path)


def remove_and_copy(path):
    os.remove(path)
    shutil.copy2(f"{path}.new", path)


@pytest.mark.parametrize(
    "change",
    [overwrite, overwrite_and_keep_the_time, rename_over, rename_over_with_the_same_time, remove_and_copy],
)
def test_a_replaced_file_is_read_again(tmp_path, change):
    """The new file has the same length and page offsets, but other bounds."""
    path = tmp_path / "x.parquet"
    indexes = [ia.PageIndex(), ia.ZoneMap("a", granularity="row_group")]
    write(path, range(2000), indexes=indexes)
    write(f"{path}.new", range(10_000, 12_000), indexes=indexes)
    assert os.path.getsize(path) == os.path.getsize(f"{path}.new")
    table = ia.open(path)
    scan(table)
    change(path)
    for _ in range(2):
        assert table.count("a < 10000") == 0
        assert table.scan("a = 10700").to_arrow()["b"].to_pylist() == [10_700]
        assert table.aggregate({"a": ["min", "max"]})["a"] == {"min": 10_000, "max": 11_999}
        settle(path)


def test_indexes_that_were_attached_and_detached_between_two_scans(tmp_path):
    path = tmp_path / "x.parquet"
    write(path, [ordinal * 2 % 40 for ordinal in range(2000)])  # no bounds exclude a page
    table = ia.open(path)
    assert not table.explain("a = 7").pruned_by
    ia.attach(path, [ia.Distinct("a", granularity="file")])
    for _ in range(2):
        asked = [index for index, _ in table.explain("a = 7").pruned_by]
        assert [index for index in asked if index.startswith("distinct")]
        settle(path)
    ia.detach(path)
    for _ in range(2):
        assert not table.explain("a = 7").pruned_by
        assert table.count("a = 8") == 100
        settle(path)


def test_a_file_written_a_moment_ago_is_not_cached(recorded):
    """Another write may follow within the same tick of the file system's clock."""
    table, ranges = recorded
    os.utime(table.files[0].path)
    scan(table)
    ranges.clear()
    scan(table)
    once = list(ranges)
    assert any(place.start not in data_bytes(table.files[0].path) for place in once)
    scan(table)
    assert ranges == 2 * once


@pytest.mark.parametrize(
    "duplicate", [copy.copy, copy.deepcopy, lambda table: pickle.loads(pickle.dumps(table))]
)
def test_copies_read_footers_themselves(recorded, duplicate):
    table, ranges = recorded
    scan(table)
    num_bytes = len(pickle.dumps(table))
    other = duplicate(table)
    ranges.clear()
    other.files[0].ranges.clear()
    scan(other)
    assert any(place.start not in data_bytes(table.files[0].path) for place in other.files[0].ranges)
    assert num_bytes < 10_000


# --- the limit -------------------------------------------------------------------------------------------


def read_metadata(path):
    with ParquetInput.open(path) as file:
        return file.metadata


def test_the_least_recently_used_are_evicted_first(tmp_path):
    found = {}
    for name in "abc":
        write(tmp_path / name, range(2000))
        found[name] = read_metadata(tmp_path / name)
    each = found["a"].present_bytes
    cache = TableCache(2 * each)
    cache.put_metadata("a", 1, found["a"])
    cache.put_metadata("b", 1, found["b"])
    assert cache.metadata("a", 1) is found["a"]
    cache.put_metadata("c", 1, found["c"])
    assert [cache.metadata(name, 1) for name in "abc"] == [found["a"], None, found["c"]]
    assert cache.memory_bytes == 2 * each
    assert cache.metadata("a", 2) is None  # the file has changed
    assert cache.metadata("a", None) is None
    cache.put_metadata("a", None, found["a"])  # without an identity a change cannot be detected
    assert cache.latest_metadata("a") is None
    assert cache.memory_bytes == each


def test_the_least_recently_used_indexes_are_evicted_first(tmp_path):
    write(tmp_path / "a", range(10))
    old, new = read_metadata(tmp_path / "a"), read_metadata(tmp_path / "a")
    cache = TableCache(100)
    kept, opened = KeptIndexes(cache), dict.fromkeys("abc")
    for name in opened:
        opened[name] = OpenSample(10, np.arange(1), pa.table({"a": [1]}))
    kept.put(old, "a", opened["a"], 50)
    kept.put(old, "b", opened["b"], 50)
    assert kept.get(old, "a") is opened["a"]
    kept.put(old, "c", opened["c"], 40)
    assert [kept.get(old, name) for name in "abc"] == [opened["a"], None, opened["c"]]
    assert cache.memory_bytes == 90
    assert kept.get(new, "a") is None  # the file has changed
    kept.put(new, "a", opened["b"], 60)
    assert (kept.get(old, "a"), kept.get(new, "a"), cache.memory_bytes) == (None, opened["b"], 100)
    kept.put(new, "a", opened["a"], 101)
    assert (kept.get(new, "a"), cache.memory_bytes) == (None, 40)


def test_all_kinds_share_one_limit(tmp_path):
    """The ends of objects have an eighth of it, because those of a large lake would evict its footers."""
    write(tmp_path / "a", range(2000))
    found = read_metadata(tmp_path / "a")
    cache = TableCache(found.present_bytes)
    cache.put_metadata("a", 1, found)
    KeptIndexes(cache).put(found, "index", OpenSample(10, np.arange(1), pa.table({"a": [1]})), 10)
    assert (cache.latest_metadata("a"), cache.memory_bytes) == (None, 10)
    cache.put("tail", "a", 1, b"", 20)
    assert (cache.memory_bytes, cache.bytes_of("tail")) == (30, 20)
    cache.drop_tails()
    assert cache.memory_bytes == 10


def test_metadata_larger_than_the_limit_is_not_cached(tmp_path):
    write(tmp_path / "a", range(2000))
    found = read_metadata(tmp_path / "a")
    cache = TableCache(found.present_bytes - 1)
    cache.put_metadata("a", 1, found)
    assert (cache.latest_metadata("a"), cache.memory_bytes) == (None, 0)


def test_metadata_that_is_parsed_later_counts(tmp_path):
    write(tmp_path / "a", range(2000))
    cache = TableCache()
    with ParquetInput.open(tmp_path / "a") as file:
        sizes = []
        for learn in (
            lambda: None,
            lambda: file.load_page_index([], [ChunkKey(group, 0) for group in range(4)]),
        ):
            learn()
            cache.put_metadata("a", 1, file.metadata)
            sizes.append(cache.memory_bytes)
    assert sizes[0] < sizes[1]


def test_files_beyond_the_limit_do_not_evict_the_others(tmp_path):
    """Each footer was evicted just before its next use, so that every query of a large lake read all."""
    for ordinal in range(12):
        write(tmp_path / f"{ordinal}.parquet", range(2000))
    files, where = ia.open(tmp_path).files, "a = 7 OR b = 1999"
    unlimited = TableCache()
    assert Table(files, cache=unlimited).count(where) == 24
    table = Table(files, cache=TableCache(unlimited.memory_bytes * 2 // 3))
    assert table.count(where) == table.count(where) == 24
    assert calls(lambda: table.count(where), of=parse_footer) <= 6


def test_values_of_earlier_runs_are_evicted(tmp_path):
    cache = TableCache(100)
    for name in "ab":
        cache.put("footer", name, 1, name, 50)
    cache.begin_run()
    assert cache.get("footer", "a", 1) == "a"
    for name in "cd":
        cache.put("footer", name, 1, name, 50)
    assert [cache.get("footer", name, 1) for name in "abcd"] == ["a", None, "c", None]
    cache.begin_run()
    cache.put("footer", "d", 1, "d", 60)
    assert (cache.get("footer", "d", 1), cache.memory_bytes) == ("d", 60)


def test_a_table_of_many_files_respects_the_limit(tmp_path):
    for ordinal in range(12):
        write(tmp_path / f"{ordinal}.parquet", range(2000))
    limit = 4 * 20 * read_raw_bytes(tmp_path / "0.parquet")
    cache = TableCache(limit)
    table = Table(ia.open(tmp_path).files, cache=cache)
    assert table.count("a = 7 OR b = 1999") == 24
    assert limit / 4 < cache.memory_bytes <= limit


def read_raw_bytes(path):
    source = CountedSource(LocalFile(path))
    return len(parquet_file.read_raw_footer(source).data)


def test_metadata_keeps_no_file_open(tmp_path):
    write(tmp_path / "a", range(10))
    found = read_metadata(tmp_path / "a")
    assert isinstance(found, FileMetadata)
    os.remove(tmp_path / "a")
    assert found.footer.num_rows == 10
    assert found.schema.arrow.names == ["a", "b"]


def test_a_footer_with_many_chunks_is_kept_if_few_of_them_are_parsed(tmp_path):
    """Its size was that of all parsed chunks, so footers from 30 MB on were read again by each query."""
    path = tmp_path / "wide.parquet"
    pq.write_table(pa.table({f"c{ordinal}": range(40) for ordinal in range(100)}), path, row_group_size=10)
    settle(path)
    raw_bytes = read_raw_bytes(path)
    cache = TableCache(6 * raw_bytes)
    table = Table(ia.open(path).files, cache=cache)

    def bytes_read(where):
        scan = table.scan(where, ["c1"])
        assert scan.to_arrow().num_rows == 1
        return scan.report.bytes_read

    assert bytes_read("c0 = 7") > raw_bytes
    assert bytes_read("c0 = 7") < raw_bytes / 4
    assert bytes_read("c2 = 7") < raw_bytes / 4
    assert table.count(" OR ".join(f"c{ordinal} = 7" for ordinal in range(100))) == 1
    assert cache.memory_bytes <= 6 * raw_bytes
    assert bytes_read("c0 = 7") > raw_bytes  # all chunks were parsed


def test_footers_of_many_files_are_kept_if_few_of_their_chunks_are_parsed(tmp_path):
    """Their sizes were those of all parsed chunks, so queries of 40,000 files read half of them again."""
    for ordinal in range(12):
        path = tmp_path / f"{ordinal}.parquet"
        pq.write_table(pa.table({f"c{column}": range(40) for column in range(100)}), path, row_group_size=10)
        settle(path)
    limit = 12 * 5 * read_raw_bytes(path)
    cache = TableCache(limit)
    table = Table(ia.open(tmp_path).files, cache=cache)
    assert table.count("c0 = 7") == 12
    assert calls(lambda: table.count("c2 = 7"), of=parse_footer) == 0
    assert table.count(" OR ".join(f"c{ordinal} = 7" for ordinal in range(100))) == 12
    assert cache.memory_bytes <= limit
    assert calls(lambda: table.count("c2 = 7"), of=parse_footer) > 0  # all chunks were parsed


def test_footers_are_measured_again_only_if_more_of_them_is_parsed(tmp_path):
    for name in "abc":
        write(tmp_path / f"{name}.parquet", range(2000))
    table = ia.open(tmp_path)
    assert calls(lambda: table.count("a < 5"), of=parsed_part) > 0
    assert calls(lambda: table.count("a < 5"), of=parsed_part) == 0


def test_a_footer_with_much_other_metadata_is_kept(tmp_path):
    path = tmp_path / "annotated.parquet"
    pq.write_table(pa.table({"a": range(10)}).replace_schema_metadata({"note": "n" * 100_000}), path)
    settle(path)
    table = Table(ia.open(path).files, cache=TableCache(6 * read_raw_bytes(path)))
    for most_bytes in (300_000, 1_000):
        scan = table.scan("a = 7")
        assert scan.to_arrow().num_rows == 1
        assert scan.report.bytes_read < most_bytes
