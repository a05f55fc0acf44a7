"""A limit with a predicate: the first matching rows in the order of the files; later files are not read."""

from __future__ import annotations

import pyarrow as pa
import pyarrow.compute as pc
import pytest

import intarsia as ia
from tests.counting import python_calls
from tests.lake.index.lakes import age, rows_of_day, write
from tests.reading.exact import assert_same_rows

FILES = 30
ROWS = 300


@pytest.fixture(scope="module")
def lake(tmp_path_factory):
    """Files of several row groups and pages, half of them indexed, some without a column, one empty."""
    folder = tmp_path_factory.mktemp("limit") / "lake"
    for day in range(FILES):
        rows = rows_of_day(day, ROWS if day != 12 else 0)
        write(
            folder / f"{day:02}.parquet",
            rows.drop_columns(["amount"]) if day % 7 == 3 else rows,
            [ia.Bloom("user"), ia.Ngram("url")] if day % 2 else (),
            row_group_size=200,
            write_page_index=day % 3 > 0,
            max_rows_per_page=30,
        )
    return folder


CONDITIONS = {
    "amount >= 0": lambda rows: pc.greater_equal(rows["amount"], 0),
    "url LIKE '%/7' OR id = -1": lambda rows: pc.ends_with(rows["url"], "/7"),
    "user IN (31, 62, 186000, 279000)": lambda rows: pc.is_in(
        rows["user"], pa.array([31, 62, 186_000, 279_000], pa.int32())
    ),
}


@pytest.mark.parametrize("where", CONDITIONS)
def test_the_first_rows_of_more_files_than_are_read_one_by_one(lake, where):
    table = ia.open(lake)
    rows = table.scan().to_arrow()
    expected = rows.filter(CONDITIONS[where](rows))
    for limit in (1, 45, 100_000):
        first = expected.slice(0, limit)
        assert_same_rows(table.scan(where, limit=limit).to_arrow(), first)
        scan = ia.open(lake).scan(where, limit=limit)
        assert_same_rows(pa.Table.from_batches(scan, scan.schema), first)
        assert scan.report.rows_matched == first.num_rows


def test_later_files_are_not_opened(lake):
    scan = ia.open(lake).scan("url LIKE '%/7'", ["id"], limit=2)
    assert scan.to_arrow().num_rows == 2
    assert scan.report.files_read == 2
    assert scan.report.row_groups_read == 2  # the dictionary of a third one lacks the text


def test_files_are_planned_together_if_the_first_ones_do_not_suffice(lake):
    table = ia.open(lake)

    def calls(limit):
        return python_calls(lambda: table.scan("user = 279000", limit=limit).to_arrow())[1]

    calls(None)
    assert calls(5) <= 1.5 * calls(None)


def test_bad_files_are_skipped(lake, tmp_path):
    for path in sorted(lake.iterdir()):
        data = path.read_bytes()
        (tmp_path / path.name).write_bytes(data[:-9] if path.name in {"02.parquet", "20.parquet"} else data)
        age(tmp_path / path.name)
    table = ia.open(tmp_path)
    scan = table.scan("url LIKE '%/7'", ["day"], limit=500, on_error="skip")
    with pytest.warns(ia.IntarsiaWarning):
        days = scan.to_arrow()["day"].to_pylist()
    assert days == [day for day in range(FILES) if day not in {2, 12, 20}]
    assert len(scan.report.files_failed) == 2
    with pytest.raises(ia.CorruptFileError):
        table.scan("url LIKE '%/7'", ["day"], limit=500).to_arrow()
