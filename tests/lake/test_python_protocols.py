"""A table has a length, and a scan becomes a DataFrame."""

from __future__ import annotations

import os
import sys

import pyarrow as pa
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
