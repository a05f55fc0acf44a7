"""Compare the page maps of plans with the rows that plain Spark finds, and with the plans of sessions."""

from __future__ import annotations

from urllib.parse import unquote

import intarsia.spark as ias
from intarsia.picture.facts import EXCLUDED, READ, SKIPPED
from tests.spark.comparing import settings
from tests.spark.skipping import SWITCH


def matching_rows(spark, frame, file="_metadata.file_path", row="_metadata.row_index"):
    """The number of each matching row of each file, by the name of the file, as plain Spark finds them."""
    with settings(spark, {SWITCH: "false"}):
        rows = frame.selectExpr(f"{file} AS file", f"{row} AS row").collect()
    found = {}
    for one in rows:
        found.setdefault(unquote(one.file.rsplit("/", 1)[-1]), set()).add(one.row)
    return found


def assert_pages(facts, truth):
    """Every page of the result with a matching row is read, and no skipped page has one."""
    shown = {file.path.rsplit("/", 1)[-1]: file for file in facts.files}
    for name, rows in truth.items():
        if len(facts.files) < 12 or name in shown:
            assert_file(shown[name], rows)


def assert_file(file, rows):
    for lane in file.lanes:
        if lane.cells is None:
            continue
        for start, stop, state in zip(
            lane.cells.start, [*lane.cells.start[1:], file.num_rows], lane.cells.state, strict=True
        ):
            has_rows = any(start <= row < stop for row in rows)
            assert not has_rows or state == READ, (file.path, lane.name, start)
            assert state != READ or lane.role
    assert any(state >= SKIPPED for lane in file.lanes if lane.cells for state in lane.cells.state)


def assert_files(facts, truth):
    """No file with matching rows is excluded."""
    names = [name.rsplit("/", 1)[-1] for name in facts.lake.names]
    excluded = {name for name, state in zip(names, facts.lake.state, strict=True) if state >= EXCLUDED}
    assert excluded.isdisjoint(truth)
    assert excluded


def check_map(spark, query):
    """Compare the map of a query with its rows, and with the plan of the enabled session."""
    frame = spark.sql(query)
    frame.collect()
    (skip,) = ias.last_skips(spark)
    found = ias.map(frame).facts
    assert found.is_plan
    for part in ("files", "row_groups", "rows"):
        assert found.report[part] == skip.report[part]
    assert 0 < found.num_read < found.num_bytes
    assert ias.last_skips(spark) == [skip]  # the session is not changed
    return found
