"""`scan(rows=…)` returns the rows with these numbers, and reads only their pages."""

from __future__ import annotations

import numpy as np
import pyarrow as pa
import pytest

import intarsia as ia
from intarsia.lake.index.of_table import MAX_SEGMENTS
from tests.lake.index.lakes import write

NUM_ROWS = (70, 0, 130, 100)


@pytest.fixture(scope="module")
def lake(tmp_path_factory):
    folder = tmp_path_factory.mktemp("lake")
    first = 0
    for part, num_rows in enumerate(NUM_ROWS):
        numbers = range(first, first + num_rows)
        rows = pa.table({"x": pa.array(numbers, pa.int64()), "s": [f"s{n % 7}" for n in numbers]})
        write(
            folder / f"{part}.parquet",
            rows,
            [ia.Distinct("s"), ia.PageIndex()],
            row_group_size=40,
            max_rows_per_page=8,
        )
        first += num_rows
    return folder


@pytest.mark.parametrize(
    "rows",
    [
        [5, 3],
        (5, 3),
        range(3, 6, 2),
        np.array([5, 3, 5], dtype=np.int16),
        pa.array([5, 3]),
        pa.chunked_array([[5], [3]]),
    ],
    ids=str,
)
def test_every_form_of_numbers(lake, rows):
    assert ia.open(lake).scan(columns=["x"], rows=rows).to_arrow()["x"].to_pylist() == [3, 5]


@pytest.mark.parametrize(
    ("rows", "error"),
    [
        ([300], ValueError),
        ([-1], ValueError),
        ([1.5], TypeError),
        (["1"], TypeError),
        ([True], TypeError),
        (7, TypeError),
        ([[1]], TypeError),
        (pa.array([1, None]), TypeError),
        (pa.table({"row": [1]}), ValueError),
        (pa.table({"path": pa.nulls(1, pa.string()), "row": [1]}), ValueError),
        (pa.table({"path": ["elsewhere.parquet"], "row": [1]}), ValueError),
    ],
    ids=str,
)
def test_rows_that_do_not_exist(lake, rows, error):
    with pytest.raises(error):
        ia.open(lake).scan(rows=rows)


def test_rows_of_a_record_batch(lake):
    table = ia.open(lake)
    (batch,) = table.locate("x = 3").combine_chunks().to_batches()
    assert table.scan(columns=["x"], rows=batch).to_pylist() == [{"x": 3}]


def test_the_lake_index_keeps_the_files_without_these_rows(tmp_path):
    """A table of some files must not take the others for deleted."""

    def add(part):
        write(tmp_path / f"{part:03}.parquet", pa.table({"x": range(10)}))

    def segments():
        return sorted((path.name, path.read_bytes()) for path in (tmp_path / "_intarsia").iterdir())

    for part in range(10):
        add(part)
    ia.open(tmp_path).build_lake_index("beside")
    last = 10
    while len(segments()) < MAX_SEGMENTS:  # queries add the new file
        add(last)
        last += 1
        assert ia.open(tmp_path).count("x = 1") == last
    for part in range(last, last + 40):  # too many to be added by a query of all files
        add(part)
    table, before = ia.open(tmp_path), segments()
    rows = pa.table({"path": [table.files[0].path, table.files[-1].path], "row": [1, 2]})
    assert table.scan("x >= 0", rows=rows).count() == 2
    assert segments() == before


def test_a_row_that_its_file_does_not_have(lake):
    table = ia.open(lake)
    with pytest.raises(ValueError, match="there is no row 70 in"):
        table.scan(rows=pa.table({"path": [table.files[0].path], "row": [70]}))


def test_a_row_of_a_table_without_rows(tmp_path):
    write(tmp_path / "f.parquet", pa.table({"x": pa.array([], pa.int64())}))
    with pytest.raises(ValueError, match=r"there is no row 0; .* has 0 rows"):
        ia.open(tmp_path).scan(rows=[0])


def test_only_the_pages_of_the_rows_are_read(tmp_path):
    path = tmp_path / "f.parquet"
    write(path, pa.table({"x": range(1000)}), [ia.PageIndex()], max_rows_per_page=50)
    scan = ia.open(path).scan(rows=[7, 8, 777])
    assert scan.to_arrow()["x"].to_pylist() == [7, 8, 777]
    assert scan.report.pages["x"].read == 2
    assert scan.report.pruned_by["rows", "*"].rows == 997


@pytest.mark.parametrize("parts", [1, 3])
@pytest.mark.parametrize("options", [{}, {"where": "x >= 0"}, {"order_by": "x", "limit": 3}], ids=str)
def test_a_file_replaced_by_a_shorter_one(tmp_path, parts, options):
    """A chosen row that the new file does not have is not left out silently."""
    for part in range(parts):
        write(tmp_path / f"{part}.parquet", pa.table({"x": range(100)}))
    numbers = [100 * part + row for part in range(parts) for row in (3, 99)]
    scan = ia.open(tmp_path).scan(rows=numbers, **options)
    write(tmp_path / "0.parquet", pa.table({"x": range(99)}))
    with pytest.raises(ia.ReplacedWhileReadError) as caught:
        scan.to_arrow()
    assert (caught.value.reason, caught.value.path) == ("file-replaced", str(tmp_path / "0.parquet"))
