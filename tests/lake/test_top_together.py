"""Small files are searched together for the first rows: those of a full sort, or an error names a file."""

from __future__ import annotations

import functools
import itertools
import math
import random
from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

import intarsia as ia
from tests.counting import python_calls
from tests.lake.index.lakes import age, write
from tests.lake.test_order_by import place_in

NUM_FILES, NUM_ROWS = 12, 40


def rows_of(file, num_rows=NUM_ROWS):
    """The columns have the same bounds in each file. Some files have NaN, or no column ``late``."""
    chosen = random.Random(file)
    user_types = [pa.int64(), pa.int16()]
    amounts = [0.0, 1000.0, *(chosen.choice([-0.0, chosen.random() * 1000]) for _ in range(num_rows - 2))]
    if file % 5 == 2:
        amounts[7] = math.nan
    columns = {
        "id": pa.array(range(file * num_rows, file * num_rows + num_rows), pa.int64()),
        "amount": pa.array([None if n % 11 == 4 else value for n, value in enumerate(amounts)]),
        "user": pa.array([(n * 7919 + file) % 100 for n in range(num_rows)], user_types[file % 2]),
        "country": [f"country {chosen.randrange(20):02}" for _ in range(num_rows)],
    }
    if file % 6 == 0:
        columns["late"] = pa.array([chosen.randrange(50) for _ in range(num_rows)])
    return pa.table(columns)


@pytest.fixture(scope="module", params=["footers", "indexes", "half a lake index"])
def lake(request, tmp_path_factory):
    """A lake of files of one row group, three of each partition."""
    folder = tmp_path_factory.mktemp("lake")
    indexes = [] if request.param == "footers" else [ia.ZoneMap("amount"), ia.Distinct("country")]
    for file in range(NUM_FILES):
        if request.param == "half a lake index" and file == NUM_FILES // 2:
            ia.open(folder).build_lake_index("beside")
        write(folder / f"part={file % 4}" / f"f{file:02}.parquet", rows_of(file), indexes)
    return folder


@functools.cache
def every_row(folder):
    return ia.open(folder).scan().to_arrow().to_pylist()


def is_less(value, limit):
    return value is not None and value < limit


CONDITIONS = {
    None: lambda row: True,
    "country LIKE '%y 1%'": lambda row: row["country"][8] == "1",
    "country = 'country 07' AND user > 90": lambda row: row["country"] == "country 07" and row["user"] > 90,
    "part = 3 OR country = 'country 03'": lambda row: row["part"] == 3 or row["country"] == "country 03",
    "late < 25 AND amount < 300": lambda row: is_less(row["late"], 25) and is_less(row["amount"], 300),
    "id % 977 = 5": lambda row: row["id"] % 977 == 5,
}


@pytest.mark.parametrize(
    "order", ["amount DESC", "amount", "user DESC", "late NULLS FIRST", "part DESC", "part, amount DESC"]
)
def test_the_rows_are_the_first_of_a_full_sort(lake, order):
    columns = [tuple(f"{key} ".split(" ", 1)) for key in order.split(", ")]
    for (where, matches), limit in zip(CONDITIONS.items(), itertools.cycle([3, 200]), strict=False):
        scan = ia.open(lake).scan(where, order_by=order, limit=limit)
        found = scan.to_arrow().to_pylist()
        matching = [row for row in every_row(lake) if matches(row)]
        place = place_in(matching, columns)
        assert list(map(place, found)) == sorted(map(place, matching))[:limit], where
        texts = {row["id"]: repr(row) for row in matching}
        assert [repr(row) for row in found] == [texts[row["id"]] for row in found]
        assert len({row["id"] for row in found}) == len(found)
        report = scan.report
        assert (report.rows_matched, report.files_total) == (len(found), NUM_FILES)
        assert report.row_groups_read <= report.row_groups_total <= NUM_FILES
        assert report.rows_total <= len(every_row(lake))


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
