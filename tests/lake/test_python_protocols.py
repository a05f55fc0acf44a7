"""A table has a length, and a scan becomes a DataFrame."""

from __future__ import annotations

import multiprocessing
import os
import pickle
import sys
from concurrent.futures import ProcessPoolExecutor

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq
import pytest

import intarsia as ia


@pytest.fixture
def lake(tmp_path):
    for name, values in (("a", [1, 2, 3]), ("b", []), ("c", [4, None])):
        table = pa.table({"x": pa.array(values, pa.int64()), "s": [str(value) for value in values]})
        path = tmp_path / f"{name}.parquet"
        pq.write_table(table, path)
        os.utime(path, (0, 0))  # a file that was just written is read again: it might change unnoticed
    return tmp_path


def test_the_length_is_the_number_of_rows(lake):
    assert len(ia.open(lake)) == 5
    assert len(ia.open(lake / "b.parquet")) == 0


def test_the_length_takes_footers_only(lake):
    table = ia.open(lake)
    assert len(table) == 5
    scan = table.scan(None, [])
    assert scan.count() == 5
    assert scan.report.bytes_read == 0  # the footers are known
    assert scan.report.row_groups_read == 0


def test_a_table_is_true_without_rows_and_reads_nothing(lake):
    table = ia.open(lake / "b.parquet")
    (lake / "b.parquet").unlink()
    assert table


def test_to_pandas(lake):
    pandas = pytest.importorskip("pandas")
    scan = ia.open(lake).scan("x >= 2", columns=["x", "s"])
    frame = scan.to_pandas()
    assert frame.to_dict("list") == {"x": [2, 3, 4], "s": ["2", "3", "4"]}
    assert scan.report.rows_matched == 3
    typed = scan.to_pandas(types_mapper=pandas.ArrowDtype)
    assert typed["x"].dtype == pandas.ArrowDtype(pa.int64())


def test_to_polars(lake):
    polars = pytest.importorskip("polars")
    frame = ia.open(lake).scan("x >= 2", columns=["x", "s"]).to_polars()
    assert isinstance(frame, polars.DataFrame)
    assert frame.to_dict(as_series=False) == {"x": [2, 3, 4], "s": ["2", "3", "4"]}
    assert ia.open(lake).scan("x > 99").to_polars().is_empty()


def test_to_duckdb(lake):
    duckdb = pytest.importorskip("duckdb")
    relation = ia.open(lake).scan("x >= 2", columns=["x", "s"]).to_duckdb()
    for _ in range(2):  # a relation can be queried repeatedly
        assert relation.filter("s > '2'").order("x").fetchall() == [(3, "3"), (4, "4")]
    with duckdb.connect() as connection:
        assert ia.open(lake).scan("x >= 2").to_duckdb(connection).aggregate("sum(x)").fetchall() == [(9,)]


@pytest.mark.parametrize("library", ["pandas", "polars", "duckdb"])
def test_without_a_library_the_error_names_the_remedy(lake, monkeypatch, library):
    monkeypatch.setitem(sys.modules, library, None)
    with pytest.raises(ModuleNotFoundError) as caught:
        getattr(ia.open(lake).scan(), f"to_{library}")()
    assert caught.value.name == library
    assert f"pip install {library}" in str(caught.value)
    assert "to_arrow()" in str(caught.value)


def test_a_data_frame_of_a_scan_is_refused_with_the_remedy(lake):
    """pandas would make one row of each batch."""
    pandas = pytest.importorskip("pandas")
    for convert in (pandas.DataFrame, np.asarray):
        with pytest.raises(TypeError) as caught:
            convert(ia.open(lake).scan("x >= 2"))
        assert "to_pandas()" in str(caught.value)


def test_other_libraries_take_a_scan(lake):
    scan = ia.open(lake).scan("x >= 2", columns=["x"])
    assert pytest.importorskip("polars").DataFrame(scan)["x"].to_list() == [2, 3, 4]
    assert pytest.importorskip("duckdb").sql("SELECT sum(x) FROM scan").fetchall() == [(9,)]
    assert pa.table(scan)["x"].to_pylist() == [2, 3, 4]


@pytest.mark.parametrize("seconds", [None, 60])
@pytest.mark.parametrize(
    "options",
    [
        {},
        {"where": "x >= 2", "columns": ["s"], "limit": 2},
        {"where": pc.field("x").isin([1, 4]), "order_by": "x DESC", "limit": 1},
    ],
    ids=["all", "some", "first"],
)
def test_a_scan_is_pickled(lake, options, seconds):
    scan = ia.open(lake, query_timeout_seconds=seconds).scan(**options)
    expected = scan.to_arrow()
    copy = pickle.loads(pickle.dumps(scan))
    assert (type(copy), copy.schema, copy.report.rows_matched) == (type(scan), scan.schema, 0)
    assert copy.to_arrow().equals(expected)
    assert copy.report.rows_matched == scan.report.rows_matched


def test_a_scan_runs_in_another_process(lake):
    scan = ia.open(lake).scan("x >= 2")
    expected = scan.to_arrow()
    with ProcessPoolExecutor(1, multiprocessing.get_context("spawn")) as processes:
        assert processes.submit(ia.Scan.to_arrow, scan).result().equals(expected)
