"""The facts of a page map equal what an independent recording of the reads and a full read say."""

from __future__ import annotations

import os
import random
import uuid

import numpy as np
import pyarrow as pa
import pyarrow.dataset as ds
import pyarrow.parquet as pq
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import intarsia as ia
from intarsia.picture.facts import EXCLUDED, FILE_READ, READ, READ_IN_VAIN, SKIPPED
from intarsia.rows.selection import RowSelection
from tests.effort import examples
from tests.lake.report_lakes import COLUMNS, SETTLED, WHERES, forms, recorded_preads

MOST_BYTES = 200_000


def was_read(reads, path, start, stop):
    """Return whether a range of a file was read."""
    inode = os.stat(path).st_ino
    own = np.array([(a, b) for file, a, b in reads if file == inode], np.int64).reshape(-1, 2)
    return any(a <= start and stop <= b for a, b in RowSelection.union_of(*own.T))


def matching_rows(table, where):
    """Return the numbers of the rows of each file that match, by a full read with pyarrow."""
    found = {}
    for file in table.files:
        rows = pq.ParquetFile(file.path).read()
        if "extra" not in rows.column_names:
            rows = rows.append_column("extra", pa.nulls(len(rows), pa.int64()))
        rows = rows.append_column("_row", pa.array(range(len(rows))))
        condition = None if where is None else EXPRESSIONS[where]
        found[file.path] = ds.dataset(rows).to_table(filter=condition)["_row"].to_pylist()
    return found


_F = ds.field
EXPRESSIONS = {
    "key < 30": _F("key") < 30,
    "key = 333": _F("key") == 333,
    "key >= 100 AND word = 'w3'": (_F("key") >= 100) & (_F("word") == "w3"),
    "word IN ('w1', 'w6')": _F("word").isin(["w1", "w6"]),
    "word = 'absent'": _F("word") == "absent",
    "number > 0.99 AND key < 700": (_F("number") > 0.99) & (_F("key") < 700),
    "user = 4242": _F("user") == 4242,
    "user = 17 OR key = 5": (_F("user") == 17) | (_F("key") == 5),
    "user < 900 AND NOT word = 'w2'": (_F("user") < 900) & ~(_F("word") == "w2"),
    "extra = 3": _F("extra") == 3,
    "word LIKE 'w1%'": _F("word").isin(["w1"]),
    "key IS NOT NULL": _F("key").is_valid(),
}


@given(forms(), st.sampled_from(WHERES), st.sampled_from(COLUMNS))
@settings(max_examples=examples(150, deep=2_000))
def test_facts(lakes, form, where, columns):
    table = ia.open(lakes(form))
    truth = matching_rows(table, where)
    with recorded_preads() as reads:
        found = table.scan(where, columns).map().facts
    assert found.result.split()[0] == f"{sum(map(len, truth.values())):,}"
    by_name = {os.path.basename(path): path for path in truth}
    for file in found.files:
        path = by_name[os.path.basename(file.path)]
        rows = truth[path]
        assert file.num_matches == len(rows)
        assert (
            sum(b - a for a, b in zip(file.certain[::2], file.certain[1::2], strict=True)) == file.num_certain
        )
        for lane in file.lanes:
            assert_lane(reads, path, file, lane, rows)
        for step in file.steps:
            gone = set(rows) & {row for a, b in _pairs(step.rows) for row in range(a, b)}
            assert gone == set()
    if found.lake is not None:
        assert_lake(found, truth, [file.path for file in table.files])


def assert_lane(reads, path, file, lane, rows):
    """Compare the pages of a lane with the bytes that were read, and with the rows that match."""
    cells = lane.cells
    if cells is None:
        assert lane.role == ""
        return
    assert sum(lane.by_state) == lane.num_pages or lane.num_pages is None
    stops = [*cells.start[1:], file.num_rows]
    assert cells.start[0] == 0
    assert sorted(cells.start) == cells.start
    for start, stop, state, offset, size, hits in zip(
        cells.start,
        stops,
        cells.state,
        cells.offset,
        cells.num_bytes,
        cells.num_matches or stops,
        strict=True,
    ):
        if state == READ:
            assert was_read(reads, path, offset, offset + size)
        elif state >= SKIPPED:
            assert not [row for row in rows if start <= row < stop]
        if cells.num_matches is not None:
            assert hits == len([row for row in rows if start <= row < stop])
            if hits and lane.role == "result":
                assert state == READ


def assert_lake(found, truth, paths):
    """Compare the states of the files with the rows that match."""
    lake = found.lake
    for path, state in zip(paths, lake.state, strict=True):
        matches = len(truth[path])
        if state >= EXCLUDED or state == READ_IN_VAIN:
            assert matches == 0
        if state == FILE_READ and found.where:
            assert matches > 0
    for ordinal, _, matches in lake.read:
        assert matches in (None, len(truth[paths[ordinal]]))
    assert sum(num_bytes for _, num_bytes, _ in lake.read) + lake.lake_index_bytes <= found.num_read


def _pairs(flat):
    return zip(flat[::2], flat[1::2], strict=True)


@given(forms(), st.sampled_from(WHERES), st.sampled_from(COLUMNS))
@settings(max_examples=examples(60, deep=500))
def test_numbers_are_those_of_the_storage_and_the_report(lakes, form, where, columns):
    table = ia.open(lakes(form))
    _ = table.schema
    copy = table.part(range(len(table.files)))
    with recorded_preads() as reads:
        scan = copy.scan(where, columns)
        list(scan.read_ahead())
    found = table.scan(where, columns).map()
    facts = found.facts
    assert facts.num_read == sum(stop - start for _, start, stop in reads) == facts.report["bytes"]["read"]
    assert facts.num_requests == len(reads) == facts.report["requests"]
    if facts.lake is None and where is not None:
        states = facts.files[0].lanes if facts.files else []
        pages = {lane.name: lane.by_state[READ] for lane in states if lane.cells is not None}
        counted = {name: one["read"] for name, one in facts.report["pages"]["by_column"].items()}
        assert pages == {name: counted[name] for name in pages}


def test_least_possible(lakes):
    path = lakes("one file of pages") / "000.parquet"
    found = ia.open(path).scan("key = 333", ["user", "word"]).map().facts
    seen, row, expected = ia.inspect(path, pages=True), 333, 0
    first = 0
    for group in seen.row_groups:
        for chunk in group.columns:
            if chunk.column in ("user", "word"):
                expected += sum(
                    page.size_bytes for page in chunk.pages if 0 <= row - first - page.first_row < page.rows
                )
        first += group.num_rows
    assert expected <= found.least_bytes < found.num_read
    assert found.least_bytes - expected <= seen.sizes.dictionary_pages


def test_aggregates_prove_pages(lakes):
    path = lakes("indexes") / "000.parquet"
    found = ia.open(path).scan("key < 350").map({"number": ["min", "max"]})
    (file,) = found.facts.files
    assert found.facts.select == "min(number), max(number)"
    assert sum(lane.by_state[1] for lane in file.lanes if lane.cells is not None) > 0
    assert file.answered
    assert found.facts.least_bytes is None
    assert found.facts.result.startswith("min(number) = ")


def test_aggregates_beyond_the_dates_of_python(tmp_path):
    times = pa.array([1, 2**62], pa.int64()).cast(pa.timestamp("us"))
    pq.write_table(pa.table({"t": times}), tmp_path / "far.parquet")
    found = ia.open(tmp_path / "far.parquet").scan().map({"t": ["min", "max"]}).facts.result
    assert found == "min(t) = 1970-01-01 00:00:00.000001, max(t) = +148108-07-06 14:00:27.387904"


def states(facts):
    """The number of pages of each column in each state."""
    return [[(lane.name, lane.by_state) for lane in file.lanes] for file in facts.files]


def test_report_draws_its_run(lakes):
    """Nothing is read again but metadata, and the facts are those of the run, even with warm caches."""
    table = ia.open(lakes("one file of pages"))
    cold = table.scan("key = 3", trace=True)
    assert cold.to_arrow().num_rows == 1
    first = cold.report.map().facts
    assert (first.num_read, first.num_requests) == (cold.report.bytes_read, cold.report.requests)
    assert first.files == table.scan("key = 3").map().facts.files
    warm = table.scan("key = 3", trace=True)
    warm.to_arrow()
    with recorded_preads() as reads:
        second = warm.report.map().facts
    assert second.num_read == warm.report.bytes_read < first.num_read
    assert states(second) == states(first)
    for lane in second.files[0].lanes:
        for state, offset, size in zip(
            lane.cells.state, lane.cells.offset, lane.cells.num_bytes, strict=True
        ):
            path = table.files[0].path
            assert state != READ or not was_read(reads, path, offset, offset + size)


def test_each_report_draws_its_own_run(lakes):
    scan = ia.open(lakes("one file of pages")).scan("key < 30", trace=True)
    rows = scan.to_arrow()
    of_rows = scan.report
    assert scan.aggregate({"key": ["min", "max"]})["key"]["max"] == 29
    assert scan.report.map().facts.select == "min(key), max(key)"
    assert of_rows.map().facts.result == f"{rows.num_rows} rows"
    for batch in scan:
        assert batch.num_rows
    assert states(scan.report.map().facts) == states(of_rows.map().facts)


def test_what_cannot_be_drawn(lakes):
    table = ia.open(lakes("one file of pages"))
    for report in (table.explain("key = 3"), table.aggregate({"key": "max"}).report):
        with pytest.raises(ValueError, match="trace=True"):
            report.map()
    scan = table.scan("key = 3", trace=True)
    scan.locate()
    with pytest.raises(ValueError, match="rows or aggregates"):
        scan.report.map()


def test_hostile_names(tmp_path):
    """Names and values in files are shown as text, whatever is in them."""
    name, value = "</script><b onload=x>{{facts}}", "<img src=x onerror=alert(1)>"
    path = tmp_path / "t.parquet"
    pq.write_table(pa.table({name: [value, "b"]}), path)
    found = ia.open(path).scan([(name, "=", value)]).map()
    assert found.facts.files[0].lanes[0].cells.low == ["<img src=x onerror=alert(1)>"]
    for text in (found.svg(), found.html()):
        assert "<b onload" not in text
        assert "<img" not in text
    assert found.html().count("</script>") == 2


def test_requests_nothing(lakes):
    page = ia.open(lakes("pages")).scan("key < 30").map().html()
    assert "default-src 'none'" in page
    for forbidden in ("http:", "https:", "src=", "fetch(", "import(", "@import", "url("):
        assert forbidden not in page


@pytest.mark.slow
def test_many_row_groups_and_columns(tmp_path):
    """250 row groups x 100 columns: more chunks than are located, and more pages than cells."""
    path, names = tmp_path / "wide.parquet", [f"c{ordinal}" for ordinal in range(100)]
    rows = pa.table({name: np.arange(250) for name in names})
    pq.write_table(rows, path, row_group_size=1, use_dictionary=False)
    for where in ("c7 = 125", None):
        found = ia.open(path).scan(where).map()
        assert sum(lane.num_pages for lane in found.facts.files[0].lanes) == 25_000
        assert len(found.html()) < MOST_BYTES
        assert len(found.svg()) < MOST_BYTES // 4


@pytest.mark.slow
def test_many_files(tmp_path):
    """10,000 files whose names cannot be compressed."""
    numbers = random.Random(1)
    pq.write_table(pa.table({"x": [1, 2, 3]}), tmp_path / "first")
    os.utime(tmp_path / "first", (SETTLED, SETTLED))
    for _ in range(10_000):
        os.link(tmp_path / "first", tmp_path / f"{uuid.UUID(int=numbers.getrandbits(128))}.parquet")
    (tmp_path / "first").unlink()
    found = ia.open(tmp_path).scan("x = 2", limit=3).map()
    assert len(found.facts.lake.state) == 10_000
    assert len(found.html()) < MOST_BYTES
