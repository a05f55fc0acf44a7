"""The places of matching rows, compared with a full read."""

from __future__ import annotations

import functools
from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import intarsia as ia
from tests.counting import python_calls
from tests.effort import examples
from tests.lake.index.lakes import age, write

NUM_ROWS = 240
GROUP_ROWS = 60
PAGE_ROWS = 20


def rows_of(part):
    numbers = range(part * NUM_ROWS, (part + 1) * NUM_ROWS)
    return pa.table(
        {
            "i": pa.array([None if n % 7 == 0 else n for n in numbers], pa.int64()),
            "user": [n * 37 % 100 for n in numbers],
            "s": [f"s{n // 50}" for n in numbers],
            "tags": [["a"] * (n % 4) for n in numbers],
        }
    )


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    """Three files: with a page index, without one, and with row groups of four rows."""
    folder = tmp_path_factory.mktemp("lake")
    page_rows = {"max_rows_per_page": PAGE_ROWS}
    indexes = [ia.PageIndex(), ia.Distinct("user")]
    write(folder / "part=0" / "a.parquet", rows_of(0), indexes, row_group_size=GROUP_ROWS, **page_rows)
    write(folder / "part=1" / "b.parquet", rows_of(1), row_group_size=GROUP_ROWS, **page_rows)
    write(folder / "part=2" / "c.parquet", rows_of(2), row_group_size=4)
    return folder


@functools.cache
def every_row(folder):
    return list(rows_with_places(folder))


def rows_with_places(folder):
    for part, path in enumerate(sorted(folder.glob("part=*/*.parquet"))):
        with pq.ParquetFile(path) as file:
            sizes = [file.metadata.row_group(group).num_rows for group in range(file.num_row_groups)]
            rows = file.read().to_pylist()
        row = 0
        for group, size in enumerate(sizes):
            for within in range(size):
                page = within // PAGE_ROWS if part == 0 else None
                place = {"path": str(path), "row_group": group, "page": page, "row": row}
                yield place, {**rows[row], "part": part}
                row += 1


CONDITIONS = {
    "i < 100": lambda r: r["i"] is not None and r["i"] < 100,
    "i >= 300": lambda r: r["i"] is not None and r["i"] >= 300,
    "i IS NULL": lambda r: r["i"] is None,
    "user = 37": lambda r: r["user"] == 37,
    "user IN (3, 40, 41)": lambda r: r["user"] in (3, 40, 41),
    "s = 's4'": lambda r: r["s"] == "s4",
    "s LIKE 's1%'": lambda r: r["s"].startswith("s1"),
    "part = 1": lambda r: r["part"] == 1,
    "part > 0": lambda r: r["part"] > 0,
    "user < 1000": lambda r: r["user"] < 1000,
}


@settings(max_examples=examples(40, deep=2_000))
@given(
    conditions=st.lists(st.sampled_from(list(CONDITIONS)), min_size=1, max_size=3),
    joined=st.sampled_from([(" AND ", all), (" OR ", any)]),
)
def test_locations_are_those_of_a_full_read(folder, conditions, joined):
    text, combine = joined
    found = ia.open(folder).locate(text.join(conditions))
    expected = [
        place
        for place, row in every_row(folder)
        if combine(CONDITIONS[condition](row) for condition in conditions)
    ]
    assert found.to_pylist() == expected


def test_without_a_predicate_all_rows_are_located_from_footers(folder):
    scan = ia.open(folder).scan()
    assert scan.locate().to_pylist() == [place for place, _ in every_row(folder)]
    assert scan.report.row_groups_read == 0


def test_rows_in_several_runs_of_row_groups_are_located(tmp_path):
    values = [n // 4 % 3 for n in range(400)]
    write(tmp_path / "f.parquet", pa.table({"x": values, "y": range(400)}), row_group_size=4)
    found = ia.open(tmp_path).locate("x = 1 AND y > 30 AND y <> 77")
    expected = [n for n in range(400) if values[n] == 1 and n > 30 and n != 77]
    assert found["row"].to_pylist() == expected
    assert found["row_group"].to_pylist() == [n // 4 for n in expected]


def test_only_pages_of_the_predicate_are_read(folder):
    scan = ia.open(folder).scan("part = 0 AND i BETWEEN 65 AND 75")
    assert scan.locate()["row"].to_pylist() == [n for n in range(65, 76) if n % 7]
    read = {name: counts.read for name, counts in scan.report.pages.items() if counts.read}
    assert (read, scan.report.row_groups_read) == ({"i": 1}, 1)
    assert scan.report.rows_matched == 10


def test_pages_are_those_of_a_column(folder, tmp_path):
    wide = pa.table({"x": range(100), "text": ["long " * 50] * 100, "r": [{"a": n} for n in range(100)]})
    write(
        tmp_path / "f.parquet",
        wide,
        [ia.PageIndex()],
        data_page_size=2_000,
        write_batch_size=5,
        use_dictionary=False,
    )
    table = ia.open(tmp_path)
    of_x, of_text, of_r = (table.locate("x = 50", name)["page"].to_pylist() for name in ("x", "text", "r.a"))
    assert of_x == of_r == [0]
    assert of_text[0] > 1
    assert ia.open(folder).locate("user = 37", "part")["page"].null_count == len(
        ia.open(folder).locate("user = 37")
    )


def test_a_column_that_does_not_exist_is_refused(folder):
    with pytest.raises(ia.ColumnNotFoundError) as caught:
        ia.open(folder).locate("user = 1", "usr")
    assert caught.value.column == "usr"


def test_a_limit_is_refused(folder):
    with pytest.raises(ValueError, match="limit"):
        ia.open(folder).scan(limit=3).locate()


def lake_of_small_files(folder, files):
    folder.mkdir()
    for part in range(files):
        write(
            folder / f"{part:02}.parquet", pa.table({"x": range(10 * part, 10 * part + 10)}), row_group_size=4
        )
    return ia.open(folder)


def test_rows_of_small_files_are_located_together(tmp_path):
    """Each file was read by itself, in more than 700 calls."""
    numbers = []
    for files in (5, 20, 60):  # the first one fills the caches
        table = lake_of_small_files(tmp_path / str(files), files)
        found, number = python_calls(lambda table=table: table.locate("x % 5 = 3"))
        assert found.to_pylist() == [
            {"path": file.path, "row_group": row // 4, "page": None, "row": row}
            for file in table.files
            for row in (3, 8)
        ]
        numbers.append(number)
    assert numbers[2] - numbers[1] < 40 * 300


@pytest.mark.parametrize(
    "query",
    [
        lambda table: table.locate("x % 5 = 3"),
        lambda table: table.value_counts("x"),
        lambda table: table.approx_distinct("x"),
        lambda table: table.count("x % 5 = 3"),
    ],
    ids=["locate", "value_counts", "approx_distinct", "count"],
)
@pytest.mark.filterwarnings("ignore::intarsia.IntarsiaWarning")
def test_damage_in_files_that_are_read_together_has_the_offset_in_its_file(tmp_path, query):
    """It was the offset in all files, laid end to end."""
    path = lake_of_small_files(tmp_path / "lake", 20).files[17].path
    with open(path, "r+b") as file:
        file.seek(4)
        file.write(b"\xff" * 8)
    age(Path(path))
    with pytest.raises(ia.CorruptFileError) as caught:
        query(ia.open(tmp_path / "lake"))
    assert (caught.value.path, caught.value.offset, caught.value.struct) == (path, 4, "PageHeader")
