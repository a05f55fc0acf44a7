"""Engines that profit from an attached page index, and tables whose catalogs contain the old lengths."""

from __future__ import annotations

import re
from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from intarsia.embed import PageIndex, attach
from intarsia.indexes.distinct import Distinct

INDEXES = [PageIndex(), Distinct("country")]


def rows(count: int = 300_000) -> pa.Table:
    """Return a sorted column, a random one, and one with few distinct values."""
    noise = np.random.default_rng(7).random(count)
    countries = pa.array([f"country {place}" for place in range(40)])
    return pa.table(
        {"id": np.arange(count), "noise": noise, "country": countries.take(pa.array(np.arange(count) % 40))}
    )


def scanned_by_datafusion(path: Path) -> tuple[float, int, int]:
    """Return kilobytes scanned, pages pruned and pages matched."""
    datafusion = pytest.importorskip("datafusion")
    session = datafusion.SessionContext()
    session.register_parquet("t", str(path))
    text = str(session.sql("EXPLAIN ANALYZE SELECT * FROM t WHERE id = 123456").to_pylist())
    size = re.search(r"bytes_scanned=([\d.]+)\s*([KMG]?)", text)
    pages = re.search(r"page_index_pages_pruned=(\d+) total → (\d+) matched", text)
    assert size is not None
    assert pages is not None
    thousands = float(size[1]) * {"": 1e-3, "K": 1, "M": 1e3, "G": 1e6}[size[2]]
    return thousands, int(pages[1]), int(pages[2])


def test_datafusion_skips_pages_once_they_are_indexed(tmp_path):
    path = tmp_path / "t.parquet"
    pq.write_table(rows(), path)
    bytes_before, total_before, _ = scanned_by_datafusion(path)
    attach(path, [PageIndex()])
    bytes_after, total, matched = scanned_by_datafusion(path)
    assert total_before == 0
    assert (matched, total > 10) == (1, True)
    assert bytes_after < bytes_before / 2


def test_a_delta_table_still_reads(tmp_path):
    deltalake = pytest.importorskip("deltalake")
    table = rows(5_000)
    folder = str(tmp_path / "delta")
    deltalake.write_deltalake(folder, table.slice(0, 3_000))
    deltalake.write_deltalake(folder, table.slice(3_000), mode="append")
    planned = deltalake.DeltaTable(folder)
    files = sorted(Path(folder).glob("*.parquet"))
    assert len(files) == 2
    for file in files:
        assert attach(file, INDEXES).changed
    # the log contains the old lengths, and so does the table opened before
    for delta in (planned, deltalake.DeltaTable(folder)):
        assert delta.to_pyarrow_table().sort_by("id").equals(table)


def test_an_iceberg_table_still_reads(tmp_path):
    catalogs = pytest.importorskip("pyiceberg.catalog.sql")
    table = rows(5_000)
    catalog = catalogs.SqlCatalog(
        "test", uri=f"sqlite:///{tmp_path}/catalog.db", warehouse=f"file://{tmp_path}/warehouse"
    )
    try:
        catalog.create_namespace("db")
        iceberg = catalog.create_table("db.t", schema=table.schema)
        iceberg.append(table.slice(0, 3_000))
        iceberg.append(table.slice(3_000))
        files = sorted((tmp_path / "warehouse").rglob("*.parquet"))
        assert len(files) == 2
        for file in files:
            assert attach(file, INDEXES).changed
        for found in (iceberg.scan(), catalog.load_table("db.t").scan(row_filter="id < 1000000")):
            assert found.to_arrow().sort_by("id").to_pylist() == table.to_pylist()
    finally:
        catalog.engine.dispose()
