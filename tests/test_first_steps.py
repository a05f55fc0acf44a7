"""The first steps of a new user: an error is one line with the remedy, and a file URL works like its path."""

from __future__ import annotations

import dataclasses
import inspect
from urllib.parse import quote

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

import intarsia as ia

TABLE = pa.table({"x": range(100)})


@pytest.fixture
def path(tmp_path):
    path = tmp_path / "with a space.parquet"
    pq.write_table(TABLE, path)
    return path


def one_line(raised):
    message = str(raised.value)
    assert message
    assert "\n" not in message
    return message


# --- a notebook ----------------------------------------------------------------------------------


def test_what_users_of_data_frames_look_for(path):
    table = ia.open(path)
    assert (table.columns, table.shape, len(table)) == (["x"], (100, 1), 100)
    assert table.head().to_pylist() == [{"x": n} for n in range(5)]
    assert table.head(2, columns=["x"]).equals(TABLE.slice(0, 2))
    assert table.head(1000).equals(TABLE)
    assert table.head(0).equals(TABLE.slice(0, 0))
    assert table.scan("x > 97").to_pylist() == [{"x": 98}, {"x": 99}]
    with pytest.raises(ValueError, match="-1"):
        table.head(-1)


def public(names):
    return {name for name in names if not name.startswith("_")}


@pytest.mark.parametrize("of_class", [ia.Table, ia.Scan])
def test_completion_offers_what_is_documented(path, of_class):
    """Methods have a docstring, attributes are in that of the class. Methods for scans are not offered."""
    table = ia.open(path)
    shown = public(dir(table if of_class is ia.Table else table.scan()))
    described = of_class.__doc__
    for name in shown:
        assert inspect.getdoc(getattr(of_class, name, None)) or f"        {name}: " in described, name
    assert "scan" in shown or "to_arrow" in shown
    internal = {"new_snapshot", "read_schema", "cache", "kept_indexes", "totals", "read_ahead"}
    assert not shown & internal
    assert public(dir(ia)) == public(ia.__all__)


# --- indexes -------------------------------------------------------------------------------------


def test_one_index_needs_no_list(path, tmp_path):
    assert ia.attach(path, ia.PageIndex()).built == ("page_index",)
    assert ia.attach(path, ia.Distinct("x")).built == ("distinct(x):page",)
    assert ia.write_table(TABLE, tmp_path / "t", indexes=ia.Distinct("x")).built == ("distinct(x):page",)
    with ia.Writer(tmp_path / "w", TABLE.schema, indexes=ia.ZoneMap("x")) as writer:
        writer.write_table(TABLE)
    assert writer.report.built == ("zone_map(x):page",)


@pytest.mark.parametrize(
    "indexes", [ia.ZoneMap, [ia.ZoneMap], [ia.PageIndex], ia.Bloom, "bloom", ["x"], None, [None]], ids=str
)
def test_values_that_are_not_an_index(path, tmp_path, indexes):
    """Including classes, which have the attributes of their instances."""
    before = path.read_bytes()
    for act in (
        lambda: ia.attach(path, indexes),
        lambda: ia.write_table(TABLE, tmp_path / "t", indexes=indexes),
    ):
        with pytest.raises(ia.IndexBuildError) as raised:
            act()
        assert raised.value.reason == "not-an-index"
    assert path.read_bytes() == before
    assert not (tmp_path / "t").exists()


# --- rows ----------------------------------------------------------------------------------------


@pytest.mark.parametrize("rows", [[1, 2], 5, None, "x", [{"x": 1}]], ids=str)
def test_data_that_is_not_a_table(tmp_path, rows):
    target = tmp_path / "t.parquet"
    with pytest.raises(ia.NotTabularError) as raised:
        ia.write_table(rows, target)
    assert raised.value.reason == "not-a-table"
    assert isinstance(raised.value, TypeError)
    assert isinstance(raised.value, ia.WriteError)
    one_line(raised)
    with pytest.raises(ia.NotTabularError), ia.Writer(target, TABLE.schema) as writer:
        writer.write_table(rows)
    assert list(tmp_path.iterdir()) == []


def test_columns_of_different_lengths(tmp_path):
    with pytest.raises(ia.WriteError) as raised:
        ia.write_table({"x": [1, 2], "y": [1]}, tmp_path / "t.parquet")
    assert raised.value.reason == "invalid-table"


def test_errors_of_the_data_are_passed_on(tmp_path):
    class Broken:
        def __arrow_c_stream__(self, requested_schema=None):
            raise ia.CorruptFileError("broken", reason="broken")

    with pytest.raises(ia.CorruptFileError) as raised:
        ia.write_table(Broken(), tmp_path / "t.parquet")
    assert raised.value.reason == "broken"


def test_table_is_not_a_batch(tmp_path):
    with ia.Writer(tmp_path / "t.parquet", TABLE.schema) as writer:
        with pytest.raises(ia.NotTabularError) as raised:
            writer.write_batch(TABLE)
        assert raised.value.reason == "not-a-record-batch"
        assert isinstance(raised.value, TypeError)
        writer.write_table(TABLE)
    assert pq.read_table(tmp_path / "t.parquet").equals(TABLE)


@pytest.mark.parametrize(
    ("argument", "value", "error"),
    [
        ("n", 1.5, TypeError),
        ("n", "5", TypeError),
        ("n", -1, ValueError),
        ("seed", 0.5, TypeError),
        ("seed", -1, ValueError),
    ],
)
def test_sample_refuses_arguments_that_are_not_natural_numbers(path, argument, value, error):
    with pytest.raises(error, match=f"^{argument} is {value!r};"):
        ia.open(path).sample(**{argument: value})


def test_a_sample_takes_integers_of_numpy(path):
    table = ia.open(path)
    assert table.sample(np.int64(5), seed=np.uint8(3)).equals(table.sample(5, seed=3))


# --- names of files ------------------------------------------------------------------------------


@pytest.mark.parametrize("before", ["", "file://", "file://localhost", "FILE://", "file://LOCALHOST"])
def test_one_file_has_the_same_names_everywhere(path, before):
    name = before + (quote(str(path)) if before else str(path))
    assert ia.attach(name, [ia.PageIndex()]).path == str(path)
    assert [file.path for file in ia.open(name).files] == [str(path)]
    assert ia.open(name).count("x < 7") == 7
    assert ia.inspect(name).row_groups[0].columns[0].has_offset_index
    assert ia.verify(name).ok
    assert ia.detach(name).detached
    assert ia.write_table(TABLE.slice(50), name).num_rows == 50
    assert pq.read_table(path).num_rows == 50


def test_folders_and_globs_by_url(path, tmp_path):
    for name in (f"file://localhost{tmp_path}", f"file://localhost{tmp_path}/*.parquet"):
        assert [file.path for file in ia.open(name).files] == [str(path)]


@pytest.mark.parametrize("act", [ia.open, ia.detach, lambda name: ia.write_table(TABLE, name)])
@pytest.mark.parametrize("name", ["file://server/lake/x.parquet", "file://x.parquet"])
def test_files_of_other_machines(act, name):
    """The first part of a relative path after file:// is a host name."""
    with pytest.raises(FileNotFoundError) as raised:
        act(name)
    assert one_line(raised).startswith(f"{name}: ")


# --- reports -------------------------------------------------------------------------------------


def test_reports_print_as_a_summary(path, tmp_path):
    index = ia.Distinct("x")
    scan = ia.open(path).scan("x < 7")
    scan.to_arrow()
    reports = [
        ia.write_table(TABLE, tmp_path / "t.parquet", indexes=index),
        ia.attach(path, index),
        ia.verify(path),
        ia.verify(path, sample=1),
        ia.inspect(path),
        ia.detach(path),
        ia.attach(tmp_path, index),
        ia.detach(tmp_path),
        scan.report,
    ]
    for report in reports:
        shown = str(report)
        assert shown
        assert type(report).__name__ not in shown
        assert type(report).__name__ in repr(report)


def test_a_verification_prints_its_first_findings(path):
    finding = ia.Finding("error", "row-count", str(path), 0, "x", None, None, "it has 3 rows", "readers fail")
    report = dataclasses.replace(ia.verify(path), findings=(finding,) * 12)
    lines = str(report).splitlines()
    assert lines[0].startswith(f"{path}: 12 errors; ")
    assert lines[1:11] == [f"  {finding}"] * 10
    assert len(lines) == 12
