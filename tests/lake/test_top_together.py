"""Small files are searched together for the first rows, from few pages; an error names its file."""

from __future__ import annotations

import math
import random
import struct
from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

import intarsia as ia
from tests.counting import python_calls
from tests.lake.index.lakes import age, write


def make_lake(folder, num_files, num_rows=1000):
    """Write files whose bounds exclude nothing, and in which each country is."""
    values = random.Random(3).sample(range(10**6), num_files * num_rows)
    for file in range(num_files):
        mine = values[file * num_rows : file * num_rows + num_rows]
        rows = {
            "x": [math.nan, *(value / 7 for value in mine[1:])] if file == num_files - 1 else mine,
            "country": [f"country {value % 50}" for value in mine],
            "text": [f"text {value}" for value in mine],
        }
        rows["x"] = pa.array(rows["x"], pa.float64())
        write(folder / f"{file:03}.parquet", pa.table(rows), use_dictionary=["country"])
    return folder


def test_the_column_of_the_order_is_read_first(tmp_path):
    """Most files have rows that match, but few of these rows can be among the first."""
    num_files = 40
    lake = make_lake(tmp_path, num_files)
    table = ia.open(lake)
    table.scan("x = -1").to_arrow()  # reads the footers
    where = "country <> 'country 7'"
    scan = table.scan(where, ["x"], order_by="x DESC", limit=3)
    found = scan.to_arrow()["x"].to_pylist()
    assert math.isnan(found[0])
    everything = [x for x in ia.open(lake).scan(where).to_arrow()["x"].to_pylist() if not math.isnan(x)]
    assert found[1:] == sorted(everything, reverse=True)[:2]
    report = scan.report
    assert report.pages["country"].read <= num_files // 2
    assert report.pages["x"].total == num_files
    assert report.pages["x"].read == num_files
    # one request for each column of each file, and few for the dictionaries and winners of the first files
    assert report.requests <= report.pages["x"].read + report.pages["country"].read + 3 + 4
    sizes = [pq.read_metadata(path).row_group(0) for path in sorted(lake.iterdir())]
    assert report.bytes_read <= sum(group.column(0).total_compressed_size for group in sizes) * 1.15


def test_a_lake_index_replaces_the_indexes_of_single_files(tmp_path):
    """It has digests of their embedded indexes, so those are not read before the pages."""
    lake = make_lake(tmp_path, 8, 200)
    ia.attach(lake, [ia.ZoneMap("x"), ia.Distinct("country"), ia.Bloom("text")])
    for path in lake.iterdir():
        age(path)
    ia.open(lake).build_lake_index("beside")
    table = ia.open(lake)
    table.scan("x = -1").to_arrow()  # opens the lake index and reads the footers
    scan = table.scan("country LIKE '%y 7'", ["x"], order_by="x DESC", limit=30)
    found = scan.to_arrow()["x"].to_pylist()
    everything = ia.open(lake).scan("country LIKE '%y 7'").to_arrow()["x"].to_pylist()
    assert found == sorted(everything, key=lambda x: (not math.isnan(x), -x))[:30]
    report = scan.report
    assert (report.files_opened, report.files_read) == (8, 8)
    assert [counts.read for counts in report.pages.values()] == [8, 8]
    # the pages, those of the column again for the result, the parts of the lake index with the footers, and
    # the indexes of the first file
    assert report.requests <= 16 + 8 + 16


def test_a_rare_condition_is_evaluated_first(tmp_path):
    """No index excludes files. The column of the order is read only in those with rows that match."""
    lake = make_lake(tmp_path, 30)
    table = ia.open(lake)
    texts = [f"text {value}" for value in random.Random(3).sample(range(10**6), 30_000)[7_008::14_000]]
    where = " OR ".join(f"text LIKE '%{text}'" for text in texts)
    scan = table.scan(where, ["text"], order_by="x", limit=5)
    matching = [text for text in table.scan().to_arrow()["text"].to_pylist() if text.endswith(tuple(texts))]
    assert sorted(scan.to_arrow()["text"].to_pylist()) == sorted(matching)
    assert scan.report.pages["x"].read == scan.report.rows_matched == len(matching)


def test_calls_for_each_file(tmp_path):
    """To search another file takes about two hundred calls."""
    calls = []
    for num_files in (20, 60):
        scan = ia.open(make_lake(tmp_path / str(num_files), num_files, 100)).scan(
            "country LIKE '%y 7'", ["x"], order_by="x DESC", limit=3
        )
        scan.to_arrow()
        calls.append(python_calls(scan.to_arrow)[1])
    assert calls[1] - calls[0] < 40 * 300


@pytest.mark.parametrize("lake_index", [False, True])
@pytest.mark.parametrize(("direction", "sign"), [("DESC", 1), ("ASC", -1)])
def test_few_pages_are_read_beyond_the_least(tmp_path, lake_index, direction, sign):
    """A page has to be read if its bounds contain a value that precedes the last row of the result."""
    num_files, limit, chosen = 40, 5, random.Random(8)
    values = chosen.sample(range(10**6), num_files * 100)
    least = set()
    last = sorted(values, key=lambda value: -sign * value)[limit - 1]
    for file in range(num_files):
        mine = values[file * 100 : file * 100 + 100]
        pages = [mine[start : start + 10] for start in range(0, 100, 10)]
        least |= {
            (file, page) for page, found in enumerate(pages) if max(sign * v for v in found) >= sign * last
        }
        rows = pa.table({"x": mine, "text": [f"t{value}" for value in mine]})
        write(
            tmp_path / f"{file:02}.parquet", rows, [ia.PageIndex()], row_group_size=50, max_rows_per_page=10
        )
    if lake_index:
        ia.open(tmp_path).build_lake_index("beside")
    table = ia.open(tmp_path)
    scan = table.scan(order_by=f"x {direction}", limit=limit)
    assert (
        sorted(scan.to_arrow()["x"].to_pylist()) == sorted(values, key=lambda v: -sign * v)[:limit][::-sign]
    )
    report = scan.report
    winners = {(place // 100, place % 100 // 10) for place, v in enumerate(values) if sign * v >= sign * last}
    assert report.pages["text"].read == len(winners)
    # the pages of x once to search, and once for the rows
    assert report.pages["x"].read <= len(least) + len(winners) + 1
    assert report.files_read <= len({file for file, _ in least}) + 1


def test_a_wrong_maximum_costs_no_rows(tmp_path):
    """The footers of two files claim larger values than the files have."""
    for file, (claimed, value) in enumerate([(10**6, 50), (9 * 10**5, 60), (500, 500), (70, 70)]):
        path = tmp_path / f"{file}.parquet"
        write(path, pa.table({"x": [value, value, 1]}))
        data = path.read_bytes()
        place = len(data) - 8 - int.from_bytes(data[-8:-4], "little")
        footer = data[place:].replace(struct.pack("<q", value), struct.pack("<q", claimed))
        path.write_bytes(data[:place] + footer)
        age(path)
    scan = ia.open(tmp_path).scan(order_by="x DESC", limit=3)
    assert scan.to_arrow()["x"].to_pylist() == [500, 500, 70]


# --- damage and change --------------------------------------------------------------------------------------

QUERY = {"where": "country LIKE '%y 7'", "order_by": "x DESC", "limit": 4}


def test_a_damaged_file_is_named(tmp_path):
    lake = make_lake(tmp_path, 12)
    path = lake / "005.parquet"
    chunk = pq.ParquetFile(path).metadata.row_group(0).column(0)
    with path.open("r+b") as file:
        file.seek(chunk.data_page_offset + 30)
        file.write(b"\xff" * 80)
    age(path)
    with pytest.raises(ia.CorruptFileError) as caught:
        ia.open(lake).scan(**QUERY).to_arrow()
    assert (caught.value.path, caught.value.column) == (str(path), "x")


@pytest.mark.parametrize("where", [None, QUERY["where"]])
def test_a_damaged_footer_is_named(tmp_path, where):
    lake = make_lake(tmp_path, 5, 20)
    path = lake / "003.parquet"
    data = path.read_bytes()
    path.write_bytes(data[: len(data) // 2])
    age(path)
    with pytest.raises(ia.CorruptFileError) as caught:
        ia.open(lake).scan(where, order_by="x", limit=2).to_arrow()
    assert caught.value.path == str(path)


def test_a_file_without_rows_has_no_first_rows(tmp_path):
    lake = make_lake(tmp_path, 3, 20)
    write(lake / "001.parquet", pq.read_table(lake / "001.parquet").slice(0, 0))
    for where in (None, QUERY["where"]):
        found = ia.open(lake).scan(where, ["x"], order_by="x", limit=50).to_arrow()["x"].to_pylist()
        assert len(found) == ia.open(lake).scan(where).count()


def test_a_missing_file_is_named(tmp_path):
    lake = make_lake(tmp_path, 12)
    table = ia.open(lake)
    _ = table.schema
    (lake / "005.parquet").unlink()
    with pytest.raises(FileNotFoundError, match=r"005\.parquet"):
        table.scan(**QUERY).to_arrow()


class ReplacedFile(ia.DataFile):
    """A file that is replaced before it is opened for the n-th time."""

    def open(self, *, fresh=False):
        opened[self.path] = opened.get(self.path, 0) + 1
        if self.path.endswith("005.parquet") and opened[self.path] == replaced_at[0]:
            rows = {"text": ["new"] * 9, "country": ["country 7"] * 9, "x": [1e9] * 9}
            write(Path(self.path), pa.table(rows))
        return super().open(fresh=fresh)


opened, replaced_at = {}, [0]


@pytest.mark.parametrize("number", range(1, 7))
def test_a_file_that_is_replaced_is_not_taken_for_another(tmp_path, number):
    """The rows are those of one of the two files, or an error reports the change."""
    lake = make_lake(tmp_path, 12, 200)
    old = ia.open(lake).scan(**QUERY).to_arrow().to_pylist()

    class Files:
        def list_files(self):
            return [ReplacedFile(str(path), path.stat().st_size) for path in sorted(lake.iterdir())]

    opened.clear()
    replaced_at[0] = number
    try:
        found = ia.open(Files()).scan(**QUERY).to_arrow().to_pylist()
    except ia.ReplacedWhileReadError as error:
        assert error.path == str(lake / "005.parquet")  # noqa: PT017  either is correct
        return
    new = ia.open(lake).scan(**QUERY).to_arrow().to_pylist()
    assert str(found) in (str(old), str(new))
