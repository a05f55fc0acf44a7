"""Small files with the same columns are read together: the same rows and counts as one after the other."""

from __future__ import annotations

import contextlib
import os
import pickle
import shutil
from functools import partial
from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq
import pytest

import intarsia as ia
from tests.counting import python_calls
from tests.lake.index.lakes import age, write
from tests.reading.exact import assert_same_rows


def rows_of_file(ordinal, num_rows=300):
    first = ordinal * num_rows
    numbers = range(first, first + num_rows)
    return pa.table(
        {
            "id": numbers,
            "user": [number * 7919 % 100_003 for number in numbers],
            "name": [f"name {number * 31 % 101}" for number in numbers],
            "amount": [None if number % 7 == 0 else number / 4 for number in numbers],
            "word": pa.array([f"w{number % 5}" for number in numbers]).dictionary_encode(),
            "tags": [[number, ordinal] for number in numbers],
        }
    )


def make_lake(folder, num_files, indexes=(), **options):
    for ordinal in range(num_files):
        path = folder / f"{ordinal:03}.parquet"
        write(path, rows_of_file(ordinal), indexes, **{"row_group_size": 100, **options})
    return folder


@pytest.fixture(scope="module")
def lake(tmp_path_factory):
    return make_lake(tmp_path_factory.mktemp("lake"), 8)


def assert_same(folder, where, columns=None):
    """Compare a scan that reads files together with one that reads one after the other."""
    together, one_by_one = (ia.open(folder).scan(where, columns) for _ in range(2))
    found = together.to_arrow()
    assert_same_rows(found, pa.Table.from_batches(one_by_one, one_by_one.schema))
    reports = [scan.report.to_dict() for scan in (together, one_by_one)]
    for report in reports:
        del report["seconds"], report["requests"]
    assert reports[0] == reports[1]
    return found


FLAT = ["id", "user", "name", "amount"]


@pytest.mark.parametrize("chosen", [[0, 0], [0, 1, 0], [2, 1, 1, 3], [3, 0, 3, 0]])
def test_a_file_that_is_listed_twice_is_read_twice(lake, chosen):
    paths = [lake / f"{ordinal:03}.parquet" for ordinal in chosen]
    for path in paths:
        age(path)
    ids = sorted(one for ordinal in chosen for one in range(ordinal * 300, ordinal * 300 + 300))
    table = ia.open(paths)
    assert (table.count(), len(table)) == (len(ids), len(ids))
    assert sorted(table.scan("id >= 150").to_arrow()["id"].to_pylist()) == [one for one in ids if one >= 150]
    assert table.aggregate("sum(id)", "id < 1100")["id"]["sum"] == sum(one for one in ids if one < 1100)


def test_a_file_that_is_listed_with_several_partition_values_is_refused(lake):
    class Twice:
        def list_files(self):
            path = str(lake / "000.parquet")
            return [ia.DataFile(path, os.path.getsize(path), (("p", value),)) for value in "12"]

    with pytest.raises(ia.FormatError) as caught:
        ia.open(Twice()).count("p = 1 AND id < 9")
    assert caught.value.reason == "file-listed-twice"


def test_splits_of_files_that_were_planned_together(tmp_path):
    """Partition values, columns that a file lacks, and row groups are those of the file of a split."""
    for ordinal in range(12):
        table = rows_of_file(ordinal).select(FLAT)
        if ordinal % 3 == 0:
            table = table.append_column("extra", pa.array([ordinal] * table.num_rows))
        write(tmp_path / f"p={ordinal // 4}" / f"{ordinal}.parquet", table, row_group_size=70)
    table = ia.open(tmp_path)
    for where in (
        "user < 50000",
        "extra = 3 OR user < 100",
        "p = 1 AND id < 2000",
        "user < 100 OR p = 2",
        None,
    ):
        expected = table.scan(where).to_arrow()
        for split_bytes in (None, 1):
            splits = pickle.loads(pickle.dumps(table.plan(where, split_bytes=split_bytes)))
            found = pa.concat_tables([split.to_arrow() for split in splits])
            assert_same_rows(found, expected)
            opened = [ia.open(split.path).plan(split_bytes=split_bytes) for split in splits]
            known = {(one.path, one.row_groups) for of_file in opened for one in of_file}
            assert split_bytes is None or {(split.path, split.row_groups) for split in splits} <= known


def test_files_with_other_columns_partitions_and_codecs(tmp_path):
    for ordinal in range(12):
        table = rows_of_file(ordinal).select(FLAT)
        if ordinal % 3 == 0:
            table = table.append_column("extra", pa.array([ordinal] * table.num_rows))
        codec = "zstd" if ordinal % 2 else "snappy"
        write(tmp_path / f"p={ordinal // 4}" / f"{ordinal}.parquet", table, compression=codec)
    for where in ("user < 50000", "extra = 3 OR user < 100", "p = 1 AND user < 50000", "user < 100 OR p = 2"):
        found = assert_same(tmp_path, where)
        assert set(found["p"].unique().to_pylist()) <= {0, 1, 2}
    found = ia.open(tmp_path).scan("user < 50000 AND p = 1").to_arrow()
    assert found["p"].unique().to_pylist() == [1]


def test_a_file_with_pages_to_skip_is_read_separately(tmp_path):
    make_lake(tmp_path, 4, row_group_size=1000, use_dictionary=False)
    wide = rows_of_file(4, 3000)
    write(tmp_path / "004.parquet", wide, write_page_index=True, max_rows_per_page=50, use_dictionary=False)
    scan = ia.open(tmp_path).scan("id < 1000 OR id = 13000", FLAT)
    assert scan.to_arrow().num_rows == 1001
    assert_same(tmp_path, "id < 1000 OR id = 13000", FLAT)
    pages = scan.report.pages["id"]
    assert pages.read < pages.total - 50


def test_aggregates_read_nothing_for_certain_rows(lake):
    scan = ia.open(lake).scan("id >= 0")
    assert scan.count() == 2400
    assert scan.report.row_groups_read == 0


def test_calls_for_each_file(tmp_path):
    """To read another file of one row group takes a few hundred calls, from opening it to its report."""
    few, many = (make_lake(tmp_path / str(count), count, row_group_size=1000) for count in (20, 60))
    for read in (ia.Scan.to_arrow, ia.Scan.count):
        calls = []
        for folder in (few, many):
            scan = ia.open(folder).scan("user % 2 = 0 OR name LIKE '%9'", FLAT)
            read(scan)
            calls.append(python_calls(lambda: read(scan))[1])  # noqa: B023  called at once
        assert calls[1] - calls[0] < 40 * 650


def test_calls_to_open_each_file(tmp_path):
    """A new table parses each footer, and caches it with its size."""
    few, many = (make_lake(tmp_path / str(count), count, row_group_size=1000) for count in (20, 60))
    calls = []
    for folder in (few, many):
        assert ia.open(folder).count("user < -5") == 0  # loads modules
        calls.append(python_calls(lambda: ia.open(folder).count("user < -5"))[1])  # noqa: B023  called at once
    assert calls[1] - calls[0] < 40 * 190


@pytest.mark.parametrize("analyze", [False, True])
def test_a_plan_is_the_sum_of_the_plans_of_its_files(lake, analyze):
    for where in ("user < 50000", "id BETWEEN 350 AND 1250", "name = 'name 7'", None):
        found = ia.open(lake).explain(where, FLAT, analyze=analyze).to_dict()
        alone = [ia.open(path).explain(where, FLAT, analyze=analyze).to_dict() for path in lake.iterdir()]
        for part in ("row_groups", "pages", "rows"):
            total = {
                name: sum(one[part][name] or 0 for one in alone)
                for name in ("total", "read", "candidates")
                if name in found[part]
            }
            assert {name: found[part][name] for name in total} == total
        assert found["files"]["read"] == sum(one["files"]["read"] for one in alone)
        assert found["rows"]["matched"] == (sum(one["rows"]["matched"] for one in alone) if analyze else None)
        assert (found["bytes"]["planned"] or 0) == sum(one["bytes"]["planned"] or 0 for one in alone)


def test_calls_of_a_plan_for_each_file(tmp_path):
    """Each file that was left was opened, and planned by itself."""
    few, many = (make_lake(tmp_path / str(count), count, row_group_size=1000) for count in (20, 60))
    plans = [(partial(ia.Scan.explain, analyze=True), 450), (ia.Scan.explain, 200), (ia.Scan.plan, 200)]
    for plan, most in plans:
        calls = []
        for folder in (few, many):
            scan = ia.open(folder).scan("user % 2 = 0 OR name LIKE '%9'", FLAT)
            scan.explain()
            calls.append(python_calls(lambda: plan(scan))[1])  # noqa: B023  called at once
        assert calls[1] - calls[0] < 40 * most


def test_nothing_is_read_twice(tmp_path):
    """Dictionary pages that were read for planning are not read again with their chunks."""
    random = np.random.default_rng(1)
    for ordinal in range(6):
        table = pa.concat_tables([rows_of_file(ordinal).select(FLAT)] * 5)
        noise = [bytes(row) for row in random.integers(0, 256, (table.num_rows, 100), dtype="uint8")]
        table = table.append_column("noise", pa.array(noise))
        write(tmp_path / f"{ordinal}.parquet", table, use_dictionary=["name"])
    table = ia.open(tmp_path)
    table.scan("id = -1").to_arrow()  # reads the footers
    scan = table.scan("name = 'name 7'")
    assert scan.to_arrow().num_rows == 18 * 5
    assert scan.report.bytes_index > 0
    chunks = 0
    for path in tmp_path.iterdir():
        row_group = pq.ParquetFile(path).metadata.row_group(0)
        chunks += sum(row_group.column(leaf).total_compressed_size for leaf in range(5))
    assert scan.report.bytes_read == chunks


# --- damage and change --------------------------------------------------------------------------------------


def damage_data(path, leaf=1):
    """Overwrite the data page of a column."""
    chunk = pq.ParquetFile(path).metadata.row_group(0).column(leaf)
    with path.open("r+b") as file:
        file.seek(chunk.data_page_offset + 30)
        file.write(b"\xff" * 40)
    age(path)


def test_a_damaged_file_is_named(tmp_path):
    lake = make_lake(tmp_path, 5, compression="zstd", use_dictionary=False)
    damage_data(lake / "002.parquet")
    table = ia.open(lake)
    with pytest.raises(ia.CorruptFileError) as caught:
        table.scan("user < 50000", FLAT).to_arrow()
    assert (caught.value.path, caught.value.column) == (str(lake / "002.parquet"), "user")
    scan = table.scan("user < 50000", FLAT, on_error="skip")
    with pytest.warns(ia.IntarsiaWarning, match=r"002\.parquet"):
        found = scan.to_arrow()
    assert [os.path.basename(failed.file) for failed in scan.report.files_failed] == ["002.parquet"]
    expected = [
        user for ordinal in (0, 1, 3, 4) for user in rows_of_file(ordinal)["user"].to_pylist() if user < 50000
    ]
    assert found["user"].to_pylist() == expected


def test_a_missing_file_is_reported_after_the_rows_before_it(tmp_path):
    lake = make_lake(tmp_path, 5)
    table = ia.open(lake)
    _ = table.schema
    os.remove(lake / "003.parquet")
    with pytest.raises(FileNotFoundError):
        table.scan("user < 50000", FLAT).to_arrow()
    with pytest.warns(ia.IntarsiaWarning):
        found = table.scan("user < 50000", FLAT, on_error="skip").to_arrow()
    assert found["id"].to_pylist()[-1] > 1200


CORPUS = sorted((Path(__file__).parents[1] / "corpus").rglob("*.parquet"))


def outcome(folder, where, read):
    """Return the rows of a scan, or the type of its error."""
    try:
        return read(ia.open(folder).scan(where))
    except (ia.IntarsiaError, FileNotFoundError, NotImplementedError, pa.ArrowException) as error:
        return type(error)


@pytest.mark.filterwarnings("ignore::intarsia.IntarsiaWarning")
@pytest.mark.parametrize("path", CORPUS, ids=lambda path: path.stem)
def test_files_of_other_writers(tmp_path, path):
    """A file and its copy have the rows of the file twice."""
    for name in ("a", "b"):
        shutil.copyfile(path, tmp_path / f"{name}.parquet")
    batch = outcome(tmp_path, None, lambda scan: next(iter(scan), None))
    if not isinstance(batch, pa.RecordBatch):
        return
    for place, name in enumerate(batch.schema.names):
        conditions = [pc.field(name).is_valid()]
        values = [value for value in batch.column(place).to_pylist()[:50] if value is not None]
        with contextlib.suppress(pa.ArrowInvalid):  # pyarrow has no literals of some types
            conditions += [pc.field(name) == value for value in values[-1:]]
        for where in conditions:
            together = outcome(tmp_path, where, ia.Scan.to_arrow)
            one_by_one = outcome(tmp_path, where, lambda scan: pa.Table.from_batches(scan, scan.schema))
            if isinstance(one_by_one, pa.Table):
                assert_same_rows(together, one_by_one)
            else:
                assert together is one_by_one


def test_statistics_of_an_axis_are_summarized_once(tmp_path):
    """Each stretch of files summarized those of all files of its axis."""

    def calls_of(num_files):
        folder = tmp_path / f"{num_files}"
        for ordinal in range(num_files):
            write(folder / f"{ordinal}.parquet", pa.table({"n": [ordinal], "word": [f"w{ordinal}"]}))
        table, largest = ia.open(folder), {"n": "max", "word": "max"}
        found, number = python_calls(lambda: table.aggregate(largest))
        assert found["n"]["max"] == num_files - 1
        return number

    calls_of(2)  # loads the modules
    few, many = calls_of(150), calls_of(600)
    assert many <= 4.5 * few


def test_a_stream_reads_files_together(tmp_path):
    """Other libraries take all batches; each file was read by itself, in five times as many calls."""
    for ordinal in range(200):
        write(tmp_path / f"{ordinal}.parquet", pa.table({"n": [ordinal, ordinal + 1]}))
    queries = {
        "collected": lambda: ia.open(tmp_path).scan("n < 500").to_arrow(),
        "reader": lambda: ia.open(tmp_path).scan("n < 500").to_reader().read_all(),
        "stream": lambda: pa.table(ia.open(tmp_path).scan("n < 500")),
    }
    queries["reader"]()  # loads the modules
    found = {name: python_calls(query) for name, query in queries.items()}
    for rows, number in found.values():
        assert rows == found["collected"][0]
        assert number <= 1.2 * found["collected"][1]
