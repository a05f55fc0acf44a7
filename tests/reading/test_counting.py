"""A scan reads only the pages that it needs; tests compare the byte ranges that are read.

The expected pages come from walking all page headers (`layout_of`), never from the page index.
"""

from __future__ import annotations

from functools import partial

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq
import pytest

from intarsia.format.pages import pages_at
from tests.counting import calls
from tests.reading.pages import (
    COLUMNS,
    ROWS,
    ROWS_PER_GROUP,
    footer_bytes,
    layout_of,
    open_recorded,
    pages_read,
    run,
    touched,
)

# --- (a) a row by the sort column: one data page per column ---


@pytest.mark.parametrize("row", [0, 1, 49, 50, 199, 200, 2499, 2500, 3333, 4999, 5000, ROWS - 1])
def test_single_row_by_sort_column_reads_one_page_per_column(sorted_file, row):
    table, path, layout = sorted_file
    rows, ranges, report = run(path, f"key = {2 * row}")
    assert rows.equals(table.slice(row, 1))
    read = touched(layout, ranges)
    assert read.pages == {column: layout.pages_with(column, [row]) for column in COLUMNS}
    assert pages_read(report) == dict.fromkeys(COLUMNS, 1)
    assert report["pages"]["read"] == len(COLUMNS)
    assert report["pages"]["total"] == sum(map(len, layout.pages.values()))
    assert (report["rows"]["total"], report["rows"]["matched"]) == (ROWS, 1)


def test_single_row_reads_only_the_requested_columns(sorted_file):
    _, path, layout = sorted_file
    _, ranges, report = run(path, "key = 4000", ["text"])
    assert set(touched(layout, ranges).pages) == {"key", "text"}
    assert pages_read(report) == {"key": 1, "text": 1}


def test_single_row_reads_only_the_index_of_its_row_group(sorted_file):
    _, path, layout = sorted_file
    _, ranges, report = run(path, "key = 4000", ["text"])
    names = {"column_index key 0", "offset_index key 0", "offset_index text 0"}
    assert touched(layout, ranges).indexes == names
    assert report["bytes"]["index"] == sum(layout.indexes[name].length for name in names)


@pytest.mark.parametrize(
    "where",
    [
        "key = -1",
        f"key = {2 * ROWS}",
        "text = 'zzz'",
        "key > 12 AND text < 'a'",
        f"key = {10**30}",
        "key = 1.5",
    ],
)
def test_value_outside_all_row_groups_reads_only_the_footer(sorted_file, where):
    _, path, _ = sorted_file
    rows, ranges, report = run(path, where)
    assert rows.num_rows == 0
    assert report["row_groups"]["read"] == report["pages"]["read"] == report["bytes"]["index"] == 0
    assert sum(place.length for place in ranges) == footer_bytes(path)


def test_predicate_that_is_false_does_not_open_the_file(sorted_file):
    """One whose literal is beyond the type does: another file with a wider type may have replaced it."""
    _, path, _ = sorted_file
    recorded, ranges = open_recorded(path)
    scan = recorded.scan("key < 5 AND FALSE")
    assert scan.to_arrow().num_rows == 0
    assert ranges == []
    report = scan.report.to_dict()
    assert report["files"] == {"total": 1, "read": 0, "opened": 0, "other": 0}
    assert (report["requests"], report["bytes"]["read"]) == (0, 0)


def test_value_within_the_bounds_of_a_page_reads_only_that_page(sorted_file):
    _, path, layout = sorted_file
    rows, ranges, _ = run(path, "key = 4001")  # keys are even
    assert rows.num_rows == 0
    assert touched(layout, ranges).pages == {"key": layout.pages_with("key", [2000])}


# --- (b) a range on the sort column: its pages ---


@pytest.mark.parametrize(
    ("first", "last"), [(0, 0), (10, 30), (199, 200), (150, 450), (2400, 2600), (2500, 4999), (100, 5900)]
)
def test_range_on_sort_column_reads_its_pages(sorted_file, first, last):
    table, path, layout = sorted_file
    rows, ranges, report = run(path, f"key BETWEEN {2 * first} AND {2 * last}")
    assert rows.equals(table.slice(first, last - first + 1))
    expected = {column: layout.pages_with(column, range(first, last + 1)) for column in COLUMNS}
    assert touched(layout, ranges).pages == expected
    assert pages_read(report) == {column: len(pages) for column, pages in expected.items()}


@pytest.mark.parametrize(
    ("where", "first", "stop"),
    [
        ("key < 300", 0, 150),
        ("key <= 300", 0, 151),
        ("key > 11600", 5801, ROWS),
        ("key >= 11600", 5800, ROWS),
    ],
)
def test_open_range_reads_its_pages(sorted_file, where, first, stop):
    table, path, layout = sorted_file
    rows, ranges, _ = run(path, where)
    assert rows.equals(table.slice(first, stop - first))
    rows_wanted = range(first, stop)
    assert touched(layout, ranges).pages == {c: layout.pages_with(c, rows_wanted) for c in COLUMNS}


def test_two_distant_ranges_skip_the_pages_between(sorted_file):
    table, path, layout = sorted_file
    wanted = [7, 2200, 2201, 5950]
    rows, ranges, _ = run(path, f"key IN ({', '.join(str(2 * row) for row in wanted)})")
    assert rows.equals(table.take(wanted))
    assert touched(layout, ranges).pages == {c: layout.pages_with(c, wanted) for c in COLUMNS}


# --- (c) an unsorted column: the other columns' pages with matching rows ---


def candidate_pages(table, layout, column, condition):
    """Ordinals of pages whose bounds do not exclude a match."""
    out = []
    for ordinal, page in enumerate(layout.pages[column]):
        values = table[column].slice(page.first_row, page.stop_row - page.first_row)
        bounds = pc.min_max(values)
        if condition(bounds["min"].as_py(), bounds["max"].as_py()):
            out.append(ordinal)
    return out


@pytest.mark.parametrize("value", [0, 17, 2999, ROWS - 1])
def test_unsorted_column_reads_other_pages_only_where_rows_match(sorted_file, value):
    table, path, layout = sorted_file
    rows, ranges, report = run(path, f"shuffled = {value}")
    (matching,) = np.flatnonzero(table["shuffled"].to_numpy() == value)
    assert rows.equals(table.slice(matching, 1))
    expected = {column: layout.pages_with(column, [matching]) for column in COLUMNS if column != "shuffled"}
    expected["shuffled"] = candidate_pages(table, layout, "shuffled", lambda low, high: low <= value <= high)
    assert touched(layout, ranges).pages == expected
    assert pages_read(report) == {column: len(pages) for column, pages in expected.items()}


def test_unsorted_range_reads_other_pages_only_where_rows_match(sorted_file):
    table, path, layout = sorted_file
    rows, ranges, _ = run(path, "shuffled < 25 AND value >= 0.5", ["text", "key"])
    matches = pc.and_(pc.less(table["shuffled"], 25), pc.greater_equal(table["value"], 0.5)).fill_null(False)
    matching = np.flatnonzero(matches.to_numpy())
    assert 0 < len(matching) < 25
    assert rows.equals(table.take(matching).select(["text", "key"]))
    read = touched(layout, ranges).pages
    for column in ("text", "key"):
        assert read[column] == layout.pages_with(column, matching)
    assert set(read) == {"text", "key", "shuffled", "value"}


def test_no_match_reads_no_page_of_the_other_columns(sorted_file):
    _, path, layout = sorted_file
    rows, ranges, report = run(
        path, "shuffled = 3.5 OR (shuffled > 100 AND shuffled < 102 AND shuffled <> 101)"
    )
    assert rows.num_rows == 0
    assert set(touched(layout, ranges).pages) == {"shuffled"}
    assert sum(pages_read(report).values()) == pages_read(report)["shuffled"]


def test_conjunction_reads_pages_that_might_match_both_sides(sorted_file):
    """Each column is read only where the other column does not exclude a match."""
    table, path, layout = sorted_file
    rows, ranges, _ = run(path, "key > 6000 AND text < 'text number 003010'", ["key"])
    assert rows.equals(table.select(["key"]).slice(3001, 9))
    (key_page,) = layout.pages_with("key", range(3001, 3010))
    candidates = range(layout.pages["key"][key_page].first_row, 3010)
    assert touched(layout, ranges).pages == {"key": [key_page], "text": layout.pages_with("text", candidates)}


def test_disjunction_across_columns_prunes(sorted_file):
    table, path, layout = sorted_file
    rows, ranges, _ = run(path, "key = 20 OR text = 'text number 005432 " + "x" * 40 + "'", ["key", "value"])
    assert rows.equals(table.select(["key", "value"]).take([10, 5432]))
    read = touched(layout, ranges)
    assert read.pages["value"] == layout.pages_with("value", [10, 5432])
    # both columns of a row are needed, because it may be a candidate of either
    assert set(read.pages) == {"key", "text", "value"}
    for column in ("key", "text"):
        assert len(read.pages[column]) <= 2 + len(
            layout.pages_with(column, [*range(200), *range(5400, 5500)])
        )
        assert len(read.pages[column]) < len(layout.pages[column]) / 4


def test_struct_and_its_leaf_share_pages(tmp_path):
    """The predicate's leaf is part of the result, and its only page is read once."""
    path = tmp_path / "struct.parquet"
    numbers = pa.array(np.arange(4000))
    texts = pa.array([f"{row:020}" for row in range(4000)])
    table = pa.table({"s": pa.StructArray.from_arrays([numbers, texts], ["a", "b"])})
    pq.write_table(
        table, path, use_dictionary=False, write_page_index=True, data_page_size=1000, write_batch_size=25
    )
    layout = layout_of(path)
    for where, first, count in [("s.a = 1234", 1234, 1), ("s.a BETWEEN 990 AND 1700", 990, 711)]:
        rows, ranges, report = run(path, where)
        assert rows.equals(table.slice(first, count))
        wanted = range(first, first + count)
        expected = {column: layout.pages_with(column, wanted) for column in ("s.a", "s.b")}
        assert touched(layout, ranges).pages == expected
        assert pages_read(report) == {column: len(pages) for column, pages in expected.items()}
    rows, ranges, report = run(path, "s.a > 1000 AND s.a < 3000 AND s.b LIKE '%17_1'")
    assert rows.equals(table.take(list(range(1701, 1800, 10))))
    read = touched(layout, ranges)  # fails if a page was read twice
    assert pages_read(report) == {column: len(pages) for column, pages in read.pages.items()}


# --- (d) no predicate: no index ---


@pytest.mark.parametrize("where", [None, "1 = 1"])
@pytest.mark.parametrize("columns", [None, ["key"], ["text", "shuffled"]])
def test_full_scan_reads_every_page_once_and_no_index(sorted_file, where, columns):
    table, path, layout = sorted_file
    rows, ranges, report = run(path, where, columns)
    assert rows.equals(table if columns is None else table.select(columns))
    read = touched(layout, ranges)
    wanted = COLUMNS if columns is None else columns
    assert read.indexes == set()
    assert read.pages == {column: list(range(len(layout.pages[column]))) for column in wanted}
    assert report["bytes"]["index"] == 0
    assert pages_read(report) == {column: len(layout.pages[column]) for column in wanted}
    assert report["row_groups"] == {"total": 3, "read": 3}


def test_full_scan_in_batches_reads_every_page_once_and_no_index(sorted_file):
    table, path, layout = sorted_file
    recorded, ranges = open_recorded(path)
    batches = iter(recorded.scan())
    first = next(batches)
    assert 0 < first.num_rows <= ROWS_PER_GROUP
    last_read = max(stop for _, stop in ranges if stop <= layout.footer.start)
    ends = max(
        page.place.stop
        for pages in layout.pages.values()
        for page in pages
        if page.stop_row <= ROWS_PER_GROUP
    )
    assert last_read == ends, "the first batch reads the first row group, not more"
    assert pa.Table.from_batches([first, *batches]).equals(table)
    read = touched(layout, ranges)
    assert read.indexes == set()
    assert read.pages == {column: list(range(len(layout.pages[column]))) for column in COLUMNS}


@pytest.mark.parametrize("use_dictionary", [True, False])
def test_chunks_of_one_page_are_read_without_their_offset_indexes(tmp_path, use_dictionary):
    """The locations of single pages follow from the footer."""
    random = np.random.default_rng(6)
    table = pa.table({"number": random.integers(0, 50, 900), "text": [f"{n % 9}" for n in range(900)]})
    path = tmp_path / "single.parquet"
    pq.write_table(table, path, row_group_size=300, write_page_index=True, use_dictionary=use_dictionary)
    value = table["number"][400].as_py()
    rows, ranges, report = run(path, f"number = {value} AND text <> '3'")
    keep = pc.and_(pc.equal(table["number"], value), pc.not_equal(table["text"], "3"))
    assert rows.equals(table.filter(keep).combine_chunks())
    read = touched(layout_of(path), ranges)  # fails if anything is read twice
    assert read.indexes == set()
    # dictionary pages are read either to exclude row groups, or with the data pages
    assert len(read.dictionaries) == (2 if use_dictionary else 0)
    assert report["bytes"]["read"] == sum(place.length for place in ranges)
    assert pages_read(report) == {name: len(pages) for name, pages in read.pages.items()}


def test_page_headers_are_compared_only_where_a_page_index_may_have_excluded_rows(tmp_path):
    """A chunk whose pages are all needed is otherwise read as a whole."""
    random = np.random.default_rng(7)
    table = pa.table({"x": random.permutation(4_000), "y": random.random(4_000), "z": ["a", "b"] * 2_000})
    path = tmp_path / "dense.parquet"
    options = {"write_page_index": True, "max_rows_per_page": 200, "use_dictionary": ["z"]}
    pq.write_table(table, path, row_group_size=2_000, **options)
    assert calls(partial(run, path, "x < 2000"), of=pages_at) == 0
    rows, ranges, report = run(path, "x < 2000")
    assert rows.equals(table.filter(pc.less(table["x"], 2_000)).combine_chunks())
    read = touched(layout_of(path), ranges)  # fails if anything is read twice
    assert pages_read(report) == {name: len(pages) for name, pages in read.pages.items()}
    assert report["pages"]["read"] == 60
    # no gap between matching rows is as long as a page, so all pages of the other columns are needed
    assert read.indexes == {f"{kind}_index x {group}" for kind in ("column", "offset") for group in range(2)}
    assert report["pages"]["dictionary_read"] == sum(map(len, read.dictionaries.values())) == 2
