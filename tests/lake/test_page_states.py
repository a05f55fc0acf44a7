"""Each data page of each column of a query is in one state: read, excluded by an index, or not needed."""

from __future__ import annotations

import warnings
from collections import Counter

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import intarsia as ia
from intarsia.format.structs import OffsetIndex
from tests.effort import examples
from tests.lake.report_lakes import FORMS, ByName, Form, Query, forms, queries, recorded_preads
from tests.reading.pages import layout_of
from tests.reading.surgery import Patient

PAGED = tuple(name for name, form in FORMS.items() if form.options.get("write_page_index"))


def assert_conserved(report):
    """Check that the states of all pages add up, and return the report."""
    pages = report["pages"]
    for counts in (pages, *pages["by_column"].values()):
        assert min(counts["read"], counts["excluded"]) >= 0
        if counts["total"] is None:
            assert counts["unneeded"] is None
        else:
            assert counts["unneeded"] >= 0
            assert counts["total"] == counts["read"] + counts["excluded"] + counts["unneeded"]
    for name in ("total", "read", "excluded", "unneeded"):
        numbers = [counts[name] for counts in pages["by_column"].values()]
        assert pages[name] == (None if None in numbers else sum(numbers))
    assert sum(one["pages"] for one in report["pruned_by"]) == pages["excluded"]
    return report


@pytest.fixture(scope="module")
def layouts(lakes):
    """Returns the layouts of the files of a lake, by inode."""
    return ByName(
        (name, {path.stat().st_ino: layout_of(path) for path in lakes(name).rglob("*.parquet")})
        for name in FORMS
    )


def pages_in(ranges, layouts):
    """The number of data pages of each column that are completely within ranges that were read."""
    found = Counter()
    by_file = {}
    for file, start, stop in ranges:
        by_file.setdefault(file, []).append((start, stop))
    for file, mine in by_file.items():
        if file in layouts:
            for column, pages in layouts[file].pages.items():
                found[column] += sum(
                    any(start <= page.place.start and page.place.stop <= stop for start, stop in mine)
                    for page in pages
                )
    return found


@given(forms(), st.lists(queries, min_size=1, max_size=2))
@settings(max_examples=examples(300, deep=3_000))
def test_pages_that_are_read_are_those_whose_bytes_were(lakes, layouts, form, several):
    table = ia.open(lakes(form))
    for query in several:
        with recorded_preads() as ranges:
            report = assert_conserved(query.run(table).to_dict())
        if query.kind in ("explain", "plan"):
            continue  # no page is read
        is_cut = query.kind in ("limit", "stop early")  # files that were read ahead are not in the result
        read = pages_in(ranges, layouts(form))
        columns = report["pages"]["by_column"]
        # pyarrow reads small gaps between columns, too
        for name, counts in columns.items():
            assert counts["read"] <= read[name] if is_cut else counts["read"] == read[name]
        if report["files"]["opened"] == report["files"]["total"]:
            for name, counts in columns.items():
                assert counts["total"] == sum(len(one.pages.get(name, ())) for one in layouts(form).values())


@given(forms(*PAGED), queries)
@settings(max_examples=examples(150, deep=1_000))
def test_excluded_pages_have_no_row_that_matches(lakes, layouts, form, query):
    """The oracle is the number of pages without a row that matches."""
    if query.kind in ("first", "sample", "dataset"):
        query = Query("scan", query.where, query.columns, query.limit, query.order_by)
    table = ia.open(lakes(form))
    report = assert_conserved(query.run(table).to_dict())
    if query.where is None:
        assert report["pages"]["excluded"] == 0
        return
    without = Counter()
    for path in lakes(form).rglob("*.parquet"):
        rows = set(ia.open(path).scan(query.where if has_columns(path) else None).locate()["row"].to_pylist())
        for column, pages in layouts(form)[path.stat().st_ino].pages.items():
            without[column] += sum(not page.holds(rows) for page in pages)
    if all(map(has_columns, lakes(form).rglob("*.parquet"))):
        for column, counts in report["pages"]["by_column"].items():
            assert counts["excluded"] <= without[column]


def has_columns(path):
    return "extra" in pq.read_schema(path).names


def test_pages_of_proven_rows_are_not_needed(tmp_path):
    """A RowMap proves which rows match, so that the pages of its column are not read."""
    path = tmp_path / "f.parquet"
    key = np.repeat(np.arange(500), 4)
    np.random.default_rng(1).shuffle(key)
    table = pa.table({"key": key, "other": np.arange(len(key))})
    pq.write_table(
        table, path, write_page_index=True, data_page_size=100, write_batch_size=20, use_dictionary=False
    )
    ia.attach(path, [ia.RowMap("key")])
    scan = ia.open(path).scan("key = 123", ["other"])
    assert scan.to_arrow().num_rows == 4
    report = assert_conserved(scan.report.to_dict())
    columns = report["pages"]["by_column"]
    assert columns["key"]["read"] == 0
    assert columns["key"]["unneeded"] > 0
    assert columns["other"]["read"] == 4 or columns["other"]["read"] == len(
        set(np.flatnonzero(key == 123) // 20)
    )
    assert columns["other"]["excluded"] == columns["other"]["total"] - columns["other"]["read"]


def test_a_page_that_is_read_twice_counts_once(lakes):
    """The order reads the column, and then the rows that were found are read with all columns."""
    scan = ia.open(lakes("pages")).scan(columns=["number", "key"], order_by="number DESC", limit=300)
    scan.to_arrow()
    columns = assert_conserved(scan.report.to_dict())["pages"]["by_column"]
    assert columns["number"]["read"] <= columns["number"]["total"]
    assert columns["number"]["unneeded"] == 0


def test_pages_of_a_damaged_file_are_counted(tmp_path):
    folder = Form(3, FORMS["pages"].options).write(tmp_path)
    path = folder / "001.parquet"
    layout = layout_of(path)
    data = bytearray(path.read_bytes())
    place = layout.pages["number"][3].place
    data[place.start : place.stop] = bytes(place.length)
    path.write_bytes(data)
    scan = ia.open(folder).scan("key >= 0", on_error="skip")
    with pytest.warns(ia.IntarsiaWarning):
        scan.to_arrow()
    report = assert_conserved(scan.report.to_dict())
    assert [failed["file"] for failed in report["files_failed"]] == [str(path)]


@pytest.mark.parametrize("leaf", [0, 1])
def test_pages_of_a_wrong_page_index(tmp_path, leaf):
    """A row group whose pages contradict its page index is read again without it."""
    path = tmp_path / "f.parquet"
    rows = np.arange(2000)
    options = {"write_page_index": True, "row_group_size": 1000, "use_dictionary": False}
    pq.write_table(
        pa.table({"key": rows, "number": rows % 7}), path, data_page_size=100, write_batch_size=20, **options
    )
    patient = Patient.read(path)
    locations = patient.index(OffsetIndex, 0, leaf).page_locations
    locations[2] = locations[2]._replace(first_row_index=locations[2].first_row_index + 1)
    patient.put_index(OffsetIndex, 0, leaf, OffsetIndex(page_locations=locations))
    patient.write(path)
    for query in (
        Query("scan", "key BETWEEN 30 AND 45", None, 0, ""),
        Query("aggregate", "key BETWEEN 30 AND 300", None, 0, ""),
        Query("first", "key < 400", None, 360, "number"),
        Query("limit", "key > 30", None, 5, ""),
    ):
        with warnings.catch_warnings(record=True) as caught:
            warnings.simplefilter("always")
            report = assert_conserved(query.run(ia.open(path)).to_dict())
        assert [one.category for one in caught] == [ia.IntarsiaWarning], query
        assert [note["code"] for note in report["ignored"]] == ["wrong-page-index"]
