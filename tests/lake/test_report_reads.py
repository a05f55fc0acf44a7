"""A report has every request and every byte that its query took, counted below all code of the package."""

from __future__ import annotations

import os
import pickle

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import intarsia as ia
from intarsia.read.counts import PageCounts, PageStates
from tests.counting import calls
from tests.effort import examples
from tests.lake.report_lakes import SETTLED, forms, queries, recorded_preads


def num_bytes(reads):
    return sum(stop - start for _, start, stop in reads)


def assert_counted(query, table):
    """Run a query, and compare its report with the reads."""
    with recorded_preads() as reads:
        report = query(table).to_dict()
    assert report["requests"] == len(reads)
    assert report["bytes"]["read"] == num_bytes(reads)
    assert 0 <= report["bytes"]["index"] <= report["bytes"]["read"]
    return report


@given(forms(), st.lists(queries, min_size=1, max_size=3))
@settings(max_examples=examples(250, deep=2_000))
def test_each_report_has_the_reads_of_its_query(lakes, form, several):
    """The first query of a table reads footers for the schema; the later ones find some of them in memory."""
    table = ia.open(lakes(form))
    for query in several:
        assert_counted(query.run, table)


def count(table):
    scan = table.scan("x < 0", ["x"])
    assert scan.to_arrow().num_rows == 0
    return scan.report


@pytest.mark.parametrize("query", [ia.Table.explain, count], ids=["explain", "count"])
def test_footers_of_many_small_files_are_in_the_first_report(tmp_path, query):
    for ordinal in range(300):
        path = tmp_path / f"{ordinal}.parquet"
        pq.write_table(pa.table({"x": [ordinal], "y": ["text"]}), path)
        os.utime(path, (SETTLED, SETTLED))
    table = ia.open(tmp_path)
    first = assert_counted(query, table)
    assert first["requests"] == 2 * 300  # the trailer and the footer of each
    assert first["bytes"]["read"] > sum(map(pq_footer_bytes, tmp_path.iterdir()))
    second = assert_counted(query, table)
    assert (second["requests"], second["bytes"]["read"]) == (0, 0)


def pq_footer_bytes(path):
    return pq.read_metadata(path).serialized_size


def test_a_lake_index_is_in_the_report(lakes):
    table = ia.open(lakes("lake index"))
    report = assert_counted(lambda table: scanned(table, "user = 4242"), table)
    segments = sum(path.stat().st_size for path in lakes("lake index").glob("_intarsia/*.lake"))
    assert 0 < report["bytes"]["index"] <= segments + report["bytes"]["read"]
    later = assert_counted(lambda table: scanned(table, "user = 4242"), table)
    assert later["bytes"]["read"] < report["bytes"]["read"]


def scanned(table, where):
    scan = table.scan(where)
    scan.to_arrow()
    return scan.report


def test_a_schema_that_is_requested_by_itself_is_in_no_report(lakes):
    table = ia.open(lakes("one file of pages"))
    assert table.schema
    report = assert_counted(lambda table: table.explain("key = 3"), table)
    cold = assert_counted(lambda table: table.explain("key = 3"), ia.open(lakes("one file of pages")))
    assert cold["requests"] == report["requests"] + 2


def test_queries_that_take_turns_have_their_own_reads(lakes):
    """Batches of two scans are taken in turn; each report has the reads of its own scan."""
    table = ia.open(lakes("pages"))
    scans = [table.scan("key >= 0", [column]) for column in ("number", "word")]
    lengths = [0, 0]
    batches = [iter(scan) for scan in scans]
    left = [0, 1]
    while left:
        for one in tuple(left):
            with recorded_preads() as reads:
                if next(batches[one], None) is None:
                    left.remove(one)
            lengths[one] += num_bytes(reads)
    # the first scan has the footers for the schema, too, which its construction read
    alone = [assert_counted(lambda table, scan=scan: rerun(scan), table) for scan in scans]
    assert [report["bytes"]["read"] for report in alone] <= [scan.report.bytes_read for scan in scans]
    assert scans[1].report.bytes_read == lengths[1]


def rerun(scan):
    scan.to_arrow()
    return scan.report


def test_a_query_inside_a_query_counts_for_both(lakes):
    """As for the delete files of an Iceberg table, which are read by scans of their own."""

    class DeletedByAQuery:
        def rows(self):
            inner = ia.open(lakes("no page index")).scan("key = 3")
            self.bytes = inner.to_arrow() and inner.report.bytes_read
            return ia.indexes.RowSelection.none()

    deletes = DeletedByAQuery()
    path = lakes("one file of pages") / "000.parquet"
    file = ia.DataFile(str(path), path.stat().st_size, deletes=deletes)

    class Source:
        def list_files(self):
            return [file]

    report = assert_counted(lambda table: scanned(table, "key = 3"), ia.open(Source()))
    assert report["bytes"]["read"] > deletes.bytes > 0


def test_pages_are_counted_when_they_are_asked_for(tmp_path):
    """Then the chunks of all columns are parsed, also those of excluded files."""
    for ordinal in range(20):
        path = tmp_path / f"{ordinal:02}.parquet"
        pq.write_table(pa.table({"x": [ordinal] * 30, "y": ["text"] * 30, "z": [1.5] * 30}), path)
        os.utime(path, (SETTLED, SETTLED))
    scan = ia.open(tmp_path).scan("x = 7")
    assert calls(scan.to_arrow, of=PageStates.excluded_by) == 0
    shipped = pickle.loads(pickle.dumps(scan.report))
    for report in (scan.report, shipped):
        assert report.to_dict()["pages"]["total"] == 3 * 20
        assert report.pruned_by["statistics", "x"].pages == 3 * 19
        assert report.pages["y"] == PageCounts(total=20, read=1, excluded=19)
    assert scan.to_arrow().num_rows == 30
    assert scan.report.to_dict()["pages"] == shipped.to_dict()["pages"]


@pytest.mark.parametrize("count", [0, 1, 2, 1200])
def test_one_request_is_not_plural(count):
    report = ia.ScanReport()
    report.reads.add(requests=count)
    shown = {0: "0 requests", 1: "1 request", 2: "2 requests", 1200: "1,200 requests"}[count]
    assert str(report).splitlines()[-1].endswith(shown)
