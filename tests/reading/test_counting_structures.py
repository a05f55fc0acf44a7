"""Dictionary pages, limits, Bloom filters and plans read only the bytes that they need."""

from __future__ import annotations

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from intarsia.format.bloom import BLOCK_BYTES, HEADER_BYTES
from intarsia.storage import ByteRange
from tests.reading.pages import (
    COLUMNS,
    ROWS,
    ROWS_PER_GROUP,
    layout_of,
    open_recorded,
    pages_read,
    run,
    sorted_table,
    touched,
)

# --- dictionary pages ---


@pytest.fixture(scope="module", params=["1.0", "2.0"], ids=["v1", "v2"])
def fallback_file(request, tmp_path_factory):
    """A column whose first pages use the dictionary, until it becomes too large."""
    table = pa.table({"key": np.arange(4000), "word": [f"word {row // 2:04}" for row in range(4000)]})
    path = tmp_path_factory.mktemp("fallback") / "fallback.parquet"
    pq.write_table(
        table,
        path,
        use_dictionary=["word"],
        dictionary_pagesize_limit=8000,
        write_page_index=True,
        data_page_size=2000,
        write_batch_size=100,
        data_page_version=request.param,
    )
    layout = layout_of(path)
    uses = [page.uses_dictionary for page in layout.pages["word"]]
    assert uses[0]
    assert not uses[-1]
    return table, path, layout


@pytest.mark.parametrize("column", ["key", "word"])
@pytest.mark.parametrize("place", [0, -1])
def test_dictionary_page_is_read_only_if_a_chosen_page_uses_it(fallback_file, column, place):
    table, path, layout = fallback_file
    page = layout.pages["word"][place]
    row = (page.first_row + page.stop_row) // 2
    value = table[column][row].as_py()
    rows, ranges, report = run(path, f"{column} = {value!r}")
    assert rows.num_rows == (2 if column == "word" else 1)
    read = touched(layout, ranges)
    assert read.dictionaries == ({"word": [0]} if page.uses_dictionary else {})
    assert report["pages"]["dictionary_read"] == int(page.uses_dictionary)
    assert len(read.pages["key"]) == 1
    assert [layout.pages["word"][ordinal].uses_dictionary for ordinal in read.pages["word"]] == [
        page.uses_dictionary
    ]


def test_dictionary_page_is_read_once_for_pages_of_both_kinds(fallback_file):
    table, path, layout = fallback_file
    rows, ranges, _ = run(path, "key IN (3, 3900) OR word = 'word 0100'")
    assert rows.equals(table.take([3, 200, 201, 3900]))
    assert touched(layout, ranges).dictionaries == {"word": [0]}


def test_no_dictionary_page_for_columns_without_matches(fallback_file):
    _, path, layout = fallback_file
    rows, ranges, _ = run(path, "key = 100.5")
    assert rows.num_rows == 0
    assert touched(layout, ranges).dictionaries == {}


# --- limit ---


@pytest.mark.parametrize("limit", [1, 60, 2500, 2700, ROWS])
def test_limit_reads_the_least_if_every_row_matches(sorted_file, limit):
    table, path, layout = sorted_file
    rows, ranges, report = run(path, "shuffled >= 0 AND shuffled <> 9999", limit=limit)
    assert rows.equals(table.slice(0, limit))
    read = touched(layout, ranges).pages
    assert read == {column: layout.pages_with(column, range(limit)) for column in COLUMNS}
    assert pages_read(report) == {column: len(pages) for column, pages in read.items()}


@pytest.mark.parametrize(
    "where",
    [
        "shuffled < 300",
        "shuffled < 1500 AND small IN (7, 8, 9, 20, 21)",
        "flag AND text LIKE '%7 xxx%' AND (value < 0.2 OR shuffled > 4000)",
    ],
)
@pytest.mark.parametrize("limit", [1, 5, 40])
def test_limit_stops_at_pages(sorted_file, where, limit):
    _, path, layout = sorted_file
    every, _, _ = run(path, where)
    rows, ranges, report = run(path, where, limit=limit)
    assert rows.equals(every.slice(0, limit))
    matches = [key // 2 for key in rows["key"].to_pylist()]
    read = touched(layout, ranges).pages
    judged = {column for column in COLUMNS if column in where}
    for column in set(COLUMNS) - judged:
        assert read[column] == layout.pages_with(column, matches)
    first = matches[-1] // ROWS_PER_GROUP * ROWS_PER_GROUP
    widest = max(page.stop_row - page.first_row for column in judged for page in layout.pages[column])
    last = first + 2 * (max(limit, matches[-1] + 1 - first) + widest)
    for column in judged:
        assert read[column] == list(range(len(read[column])))
        assert layout.pages[column][read[column][-1]].first_row < last
    assert pages_read(report) == {column: len(pages) for column, pages in read.items()}


@pytest.mark.parametrize("limit", [1, 60, 2500, 2501, ROWS, 10 * ROWS])
def test_limit_without_predicate_reads_the_first_pages(sorted_file, limit):
    table, path, layout = sorted_file
    rows, ranges, report = run(path, limit=limit)
    assert rows.equals(table.slice(0, limit))
    wanted = range(min(limit, ROWS))
    assert touched(layout, ranges).pages == {column: layout.pages_with(column, wanted) for column in COLUMNS}
    assert report["rows"]["matched"] == min(limit, ROWS)


@pytest.mark.parametrize("where", [None, "shuffled >= 0", "key = 20"])
def test_limit_zero_reads_no_page(sorted_file, where):
    _, path, layout = sorted_file
    rows, ranges, _ = run(path, where, limit=0)
    assert rows.num_rows == 0
    assert touched(layout, ranges).pages == {}


def test_batches_that_are_not_consumed_are_not_read(sorted_file):
    _, path, layout = sorted_file
    recorded, ranges = open_recorded(path)
    batches = iter(recorded.scan("shuffled >= 0"))
    next(batches)
    batches.close()
    read = touched(layout, ranges).pages
    assert {layout.pages[c][ordinal].stop_row <= ROWS_PER_GROUP for c in COLUMNS for ordinal in read[c]} == {
        True
    }


# --- Bloom filters ---


@pytest.fixture(scope="module")
def bloom_file(tmp_path_factory):
    """Values with equal bounds in all row groups, so that only the filters exclude row groups."""
    rows = 3000
    table = pa.table(
        {
            "code": [f"code {(row * 7919) % 100003:06}" for row in range(rows)],
            "number": pa.array([(row * 104729) % 1000003 for row in range(rows)], pa.int64()),
        }
    )
    path = tmp_path_factory.mktemp("bloom") / "bloom.parquet"
    filters = {"code": {"ndv": 1000, "fpp": 0.001}, "number": {"ndv": 1000, "fpp": 0.001}}
    pq.write_table(table, path, row_group_size=1000, use_dictionary=False, bloom_filter_options=filters)
    layout = layout_of(path)
    assert sum(name.startswith("bloom_filter") for name in layout.indexes) == 6
    return table, path, layout


def probes(layout, ranges):
    """The reads of Bloom filters by the filter's name: a header, whole blocks or the filter."""
    out = {}
    for start, stop in ranges:
        for name, place in layout.indexes.items():
            if place.start <= start < place.stop:
                kind = "header" if start == place.start else "blocks"
                if (start, stop) == place:
                    kind = "filter"
                elif kind == "header":
                    assert stop - start <= HEADER_BYTES
                else:
                    assert (stop - start) % BLOCK_BYTES == 0
                out.setdefault(name, []).append((kind, stop - start))
    return out


def test_present_value_by_bloom_filter_reads_its_row_group(bloom_file):
    table, path, layout = bloom_file
    value = table["code"][1500].as_py()
    rows, ranges, report = run(path, f"code = '{value}'")
    assert rows.equals(table.slice(1500, 1))
    assert touched(layout, ranges).pages == {"code": [1], "number": [1]}
    assert probes(layout, ranges) == {
        f"bloom_filter code {group}": [("header", HEADER_BYTES), ("blocks", BLOCK_BYTES)]
        for group in range(3)
    }
    assert report["bytes"]["index"] == 3 * (HEADER_BYTES + BLOCK_BYTES)
    assert report["pruned_by"] == [
        {"index": "bloom_filter", "column": "code", "files": 0, "row_groups": 2, "pages": 4, "rows": 2000}
    ]


@pytest.mark.parametrize(
    "where", ["code = 'code 050000a'", "number IN (500001, 499999)", "number = 77 AND code = 'code 050000a'"]
)
def test_absent_value_by_bloom_filter_reads_no_page(bloom_file, where):
    _, path, layout = bloom_file
    rows, ranges, report = run(path, where)
    assert rows.num_rows == 0
    read = touched(layout, ranges)
    assert read.pages == read.dictionaries == {}
    assert probes(layout, ranges)
    assert report["row_groups"]["read"] == 0


def test_bloom_filters_are_united_under_or(bloom_file):
    table, path, layout = bloom_file
    code, number = table["code"][10].as_py(), table["number"][2500].as_py()
    rows, ranges, _ = run(path, f"code = '{code}' OR number = {number}")
    assert rows.equals(table.take([10, 2500]))
    assert touched(layout, ranges).pages == {"code": [0, 2], "number": [0, 2]}


@pytest.mark.parametrize(
    "where", ["code <> 'code 5'", "number > 7", "number NOT IN (7, 8)", "code LIKE 'code 0%'"]
)
def test_bloom_filters_are_not_used_for_other_conditions(bloom_file, where):
    _, path, layout = bloom_file
    _, ranges, _ = run(path, where)
    assert probes(layout, ranges) == {}


def test_full_scan_does_not_read_bloom_filters(bloom_file):
    _, path, layout = bloom_file
    _, ranges, _ = run(path)
    assert touched(layout, ranges).indexes == set()


# --- explain ---


@pytest.mark.parametrize(
    "where", [None, "key = 4000", "shuffled = 17", "key < 300 OR text > 'text number 0059'", "key = -1"]
)
def test_explain_reads_no_data_page(sorted_file, where):
    _, path, layout = sorted_file
    recorded, ranges = open_recorded(path)
    report = recorded.explain(where).to_dict()
    read = touched(layout, ranges)
    assert read.pages == read.dictionaries == {}
    assert report["bytes"]["read"] == sum(place.length for place in ranges)
    assert report["rows"]["matched"] is None
    rows, ranges, scanned = run(path, where)
    assert report["row_groups"] == scanned["row_groups"]
    assert report["rows"]["candidates"] == scanned["rows"]["candidates"] >= rows.num_rows
    for column, counts in scanned["pages"]["by_column"].items():
        planned = report["pages"]["by_column"][column]
        assert planned["total"] == counts["total"] == len(layout.pages[column])
        assert planned["read"] >= counts["read"]
    for planned, done in zip(report["pruned_by"], scanned["pruned_by"], strict=True):
        # only the plan counts pages of columns that no row needed, because it reads their locations
        assert planned.pop("pages") >= done.pop("pages") > 0
        assert planned == done


def test_explain_counts_the_pages_of_all_candidates(sorted_file):
    _, path, layout = sorted_file
    recorded, _ = open_recorded(path)
    report = recorded.explain("key = 4000").to_dict()
    (key_page,) = layout.pages_with("key", [2000])
    candidates = range(layout.pages["key"][key_page].first_row, layout.pages["key"][key_page].stop_row)
    assert report["rows"]["candidates"] == len(candidates)
    assert pages_read(report) == {c: len(layout.pages_with(c, candidates)) for c in COLUMNS}


def test_explain_of_bloom_filters_reads_no_data_page(bloom_file):
    _, path, layout = bloom_file
    recorded, ranges = open_recorded(path)
    report = recorded.explain("code = 'code 050000a'").to_dict()
    assert touched(layout, ranges).pages == {}
    assert report["row_groups"] == {"total": 3, "read": 0}
    assert report["files"] == {"total": 1, "read": 0, "opened": 1, "other": 0}


# --- files without a page index ---


def test_without_page_index_whole_chunks_of_row_groups_that_match(tmp_path):
    table = sorted_table()
    path = tmp_path / "plain.parquet"
    options = {"data_page_size": 1500, "write_batch_size": 50, "use_dictionary": ["text"]}
    pq.write_table(table, path, row_group_size=ROWS_PER_GROUP, **options)
    layout = layout_of(path)
    rows, ranges, report = run(path, "key = 6000", ["text", "key"])
    assert rows.equals(table.slice(3000, 1).select(["text", "key"]))
    wanted = range(ROWS_PER_GROUP, 2 * ROWS_PER_GROUP)
    read = touched(layout, ranges)
    assert read.pages == {column: layout.pages_with(column, wanted) for column in ("text", "key")}
    assert pages_read(report) == {column: len(pages) for column, pages in read.pages.items()}
    assert report["bytes"]["index"] == 0


def test_adjacent_pages_are_one_request(sorted_file):
    _, path, layout = sorted_file
    _, ranges, _ = run(path, "key BETWEEN 1000 AND 3000", ["text"])
    first, *_, last = layout.pages_with("text", range(500, 1501))
    pages = layout.pages["text"]
    assert ByteRange(pages[first].place.start, pages[last].place.stop) in ranges
