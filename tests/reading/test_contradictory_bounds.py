"""Statistics and a page index that contradict each other: neither is used, and the rows are right."""

from __future__ import annotations

import math
import warnings

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

import intarsia as ia
from tests.lake.index.lakes import age
from tests.verify.damage import Damage, change_column_index

ROWS = 1000
GROUP = 500


def make_rows():
    return pa.table(
        {
            "id": pa.array(range(ROWS), pa.int64()),
            "text": [f"text {row:04}" for row in range(ROWS)],
            "some": pa.array([None if row % 5 == 0 else row for row in range(ROWS)], pa.int32()),
            "real": pa.array(np.arange(ROWS) / 8 - 10),
        }
    )


def write(path, rows=None, **options):
    pq.write_table(
        make_rows() if rows is None else rows,
        path,
        row_group_size=GROUP,
        write_page_index=True,
        max_rows_per_page=50,
        write_batch_size=50,
        **options,
    )
    age(path)
    return path


def little(value):
    return value.to_bytes(8, "little")


def replaced(page, value):
    return lambda old: [*old[:page], value, *old[page + 1 :]]


def moved_page(path):
    """A page with bounds outside of those of the row group."""
    change_column_index(path, min_values=replaced(3, little(7000)), max_values=replaced(3, little(7050)))


def narrowed_page(path):
    """The page with the greatest values has a lower maximum; the maximum in the statistics is exact."""
    change_column_index(path, max_values=replaced(9, little(455)))


def lowered_page(path):
    """A page index of numbers whose least bound is below that of the row group."""
    change_column_index(path, min_values=replaced(2, little(-3 & (2**64 - 1))))


def null_page(path):
    change_column_index(
        path,
        null_pages=replaced(3, True),
        null_counts=replaced(3, 50),
        min_values=replaced(3, b""),
        max_values=replaced(3, b""),
    )


def more_nulls(path):
    change_column_index(path, column="some", null_counts=replaced(1, 50))


def statistics_of_text(path):
    damage = Damage(path)
    damage.statistics("text", max_value=b"text 01", is_max_value_exact=False)
    damage.write()


def statistics_of_numbers(path):
    damage = Damage(path)
    damage.statistics("id", max_value=little(350))
    damage.write()


#: What is wrong, the column, and queries whose answers it changes.
CASES = {
    "moved page": (moved_page, "id", ["id = 160", "id BETWEEN 140 AND 170", "id < 200 AND text > 'text 01'"]),
    "narrowed page": (narrowed_page, "id", ["id = 480", "id > 470 AND id < 520"]),
    "lowered page": (lowered_page, "id", ["id = -3 OR id = 3", "id < 120"]),
    "null page": (null_page, "id", ["id = 160", "id > 100 AND id < 180"]),
    "null counts": (more_nulls, "some", ["some IS NULL", "some IS NOT NULL", "some = 60", "some > 40"]),
    "statistics of text": (statistics_of_text, "text", ["text < 'text 00' OR text = 'text 0042'"]),
    "statistics": (statistics_of_numbers, "id", ["id < 400 AND id > 20", "id BETWEEN 30 AND 450"]),
}


@pytest.mark.parametrize("case", CASES)
def test_neither_is_used(tmp_path, case):
    damage, column, queries = CASES[case]
    path = write(tmp_path / "t.parquet")
    damage(path)
    age(path)
    expected = ia.open(write(tmp_path / "sound.parquet"))
    for where in queries:
        scan = ia.open(path).scan(where)
        with pytest.warns(ia.IntarsiaWarning):
            found = scan.to_arrow()
        assert found.equals(expected.scan(where).to_arrow())
        assert [(note.index, note.code) for note in scan.report.ignored] == [
            (f"bounds of {column}, row group 0", "bounds-contradict-statistics")
        ]
        with pytest.warns(ia.IntarsiaWarning):
            assert ia.open(path).count(where) == found.num_rows


def test_later_queries_use_neither(tmp_path):
    """These use only the statistics, which are found to be wrong when the page index is read."""
    path = write(tmp_path / "t.parquet")
    statistics_of_numbers(path)
    age(path)
    expected = ia.open(write(tmp_path / "sound.parquet"))
    table = ia.open(path)
    with pytest.warns(ia.IntarsiaWarning):
        assert table.scan("id = 30").to_arrow().num_rows == 1
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", ia.IntarsiaWarning)
        for where in ("id = 400", "id < 355", "id > 350 AND id < 600"):
            assert table.scan(where).to_arrow().equals(expected.scan(where).to_arrow())
            assert table.count(where) == expected.count(where)
        for functions in ({"id": ["min", "max"]}, {"id": ["count"]}):
            assert table.aggregate(functions, "id < 500") == expected.aggregate(functions, "id < 500")
        rows = table.scan("id < 500", order_by="id DESC", limit=2).to_arrow()
        assert rows["id"].to_pylist() == [499, 498]


def test_files_that_are_planned_together(tmp_path):
    """Files are pruned together by statistics, except one whose statistics were found to be wrong."""
    for number in range(5):
        rows = make_rows()
        rows = rows.set_column(0, "id", pa.array(range(number * ROWS, (number + 1) * ROWS)))
        write(tmp_path / f"{number}.parquet", rows)
    damage = Damage(tmp_path / "3.parquet")
    damage.statistics("id", max_value=little(3200))
    damage.write()
    age(tmp_path / "3.parquet")
    table = ia.open(tmp_path)
    with pytest.warns(ia.IntarsiaWarning):
        assert table.scan("id = 3100").to_arrow().num_rows == 1
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", ia.IntarsiaWarning)
        assert table.scan("id = 3300").to_arrow()["id"].to_pylist() == [3300]
        assert table.count("id BETWEEN 3190 AND 3210") == 21


# --- what is not a contradiction ---


def test_truncated_bounds(tmp_path):
    """Bounds of pages may be truncated where those of the row group are not, and the reverse."""
    path = write(tmp_path / "t.parquet")
    change_column_index(
        path,
        column="text",
        min_values=lambda old: [value[:7] for value in old],
        max_values=lambda old: [value[:7] + b"~" for value in old],
    )
    assert ia.open(path).scan("text = 'text 0042'").to_arrow().num_rows == 1
    path = write(tmp_path / "t.parquet")
    damage = Damage(path)
    for flag in (False, None):
        damage.statistics(
            "text", min_value=b"t", max_value=b"u", is_min_value_exact=flag, is_max_value_exact=flag
        )
        damage.write()
        scan = ia.open(path).scan("text = 'text 0042'")
        assert scan.to_arrow().num_rows == 1
        assert scan.report.to_dict()["pages"]["read"] == 4


def test_wide_bounds_of_statistics_that_are_marked_as_inexact(tmp_path):
    path = write(tmp_path / "t.parquet")
    damage = Damage(path)
    damage.statistics(
        "id", min_value=little(0), max_value=little(9999), is_min_value_exact=True, is_max_value_exact=False
    )
    damage.write()
    scan = ia.open(path).scan("id = 77")
    assert scan.to_arrow().num_rows == 1
    assert scan.report.to_dict()["pages"]["read"] == 4


@pytest.mark.parametrize("zero", [0.0, -0.0])
def test_zeros_and_nan(tmp_path, zero):
    """-0.0 equals 0.0, and bounds do not contain NaN."""
    values = [math.nan if row % 10 == 0 else zero if row < 100 else row / 4 for row in range(ROWS)]
    path = write(tmp_path / "t.parquet", pa.table({"real": values}))
    change_column_index(path, column="real", min_values=lambda old: [b"\0" * 8, *old[1:]])
    assert ia.open(path).scan("real = 0 OR real = 30.25").to_arrow().num_rows == 91


def test_bytes_that_end_with_zeros(tmp_path):
    values = [bytes([row // 256, row % 256, 0, 0]) for row in range(ROWS)]
    path = write(tmp_path / "t.parquet", pa.table({"raw": values}))
    for literal in (b"\0\0\0\0", b"\1\0\0\0"):
        found = ia.open(path).scan(ia.Comparison("raw", "=", literal)).to_arrow()
        assert found["raw"].to_pylist() == [literal]
    rows = pa.table({"raw": [b"\1\0\0", b"\1\0\0"] * ROWS, "n": range(2 * ROWS)})
    path = write(tmp_path / "t.parquet", rows)
    assert ia.open(path).scan(ia.Comparison("raw", "=", b"\1\0\0")).count() == 2 * ROWS


def test_no_statistics(tmp_path):
    path = write(tmp_path / "t.parquet")
    damage = Damage(path)
    damage.statistics("id", min_value=None, max_value=None, min=None, max=None, null_count=None)
    damage.write()
    scan = ia.open(path).scan("id = 77")
    assert scan.to_arrow().num_rows == 1
    assert scan.report.to_dict()["pages"]["read"] == 4
