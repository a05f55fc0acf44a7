"""The benchmark of enabled sessions counts bytes and rows; times are not tested."""

import dataclasses

import pytest

from benchmarks.spark.cases import make_lake
from benchmarks.spark.measure import BARE, ENABLED, INDEXED, Bench
from benchmarks.spark.page import document, line, write_page

pytestmark = [pytest.mark.spark, pytest.mark.xdist_group("spark")]

FACTS = {
    "command": "python -m benchmarks.spark lake",
    "cpus": 2,
    "load": "0.1",
    "python": "3.11",
    "spark": "4.3.0",
    "threads": 2,
    "repetitions": 1,
    "least_ms": 1,
    "least_cpu_ms": 1,
}


def test_a_needle_in_a_lake(enabled, monkeypatch, tmp_path):
    monkeypatch.setenv("INTARSIA_CACHE_DIR", str(tmp_path / "cache"))  # the benchmark sets another one
    (lake,) = make_lake(tmp_path, files=2)
    lake = dataclasses.replace(lake, queries=lake.queries[:1])
    bench = Bench(enabled, repetitions=1)
    (found,) = bench.measure([lake])
    assert len(bench.smallest(tmp_path / "row.parquet").ms) == 1
    bare, indexed, skipping = (found.runs[mode] for mode in (BARE, INDEXED, ENABLED))
    assert bare.scan_rows == indexed.scan_rows == skipping.scan_rows == 10_000  # one page
    assert 0 < skipping.bytes_read < indexed.bytes_read
    assert [len(each.ms) for each in found.runs.values()] == [1, 1, 1]
    assert found.ratio(BARE) == 1

    (query,) = document([found], FACTS)["queries"]
    assert query["modes"][ENABLED]["rows"] == skipping.scan_rows
    assert f"aim {found.query.aim}" in line(found)
    write_page([found], FACTS, tmp_path / "page.md")
    assert "| user = x |" in (tmp_path / "page.md").read_text(encoding="utf-8")
