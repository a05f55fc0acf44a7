"""The benchmark of enabled sessions counts bytes and rows; times are not tested."""

import dataclasses

import pytest

from benchmarks.lineitem import NEEDS, find_program
from benchmarks.spark.cases import make_lake
from benchmarks.spark.jobs import measure_jobs
from benchmarks.spark.measure import BARE, ENABLED, INDEXED, ONE_ROW, Bench
from benchmarks.spark.page import document, job_line, line, write_page

pytestmark = [pytest.mark.spark, pytest.mark.xdist_group("spark")]

FACTS = {
    "command": "python -m benchmarks.spark lake",
    "cpus": 2,
    "load": "0.1",
    "python": "3.11",
    "spark": "4.3.0",
    "threads": 2,
    "repetitions": 1,
}


def test_a_needle_in_a_lake(enabled, monkeypatch, tmp_path):
    monkeypatch.setenv("INTARSIA_CACHE_DIR", str(tmp_path / "cache"))  # the benchmark sets another one
    (lake,) = make_lake(tmp_path, files=2)
    lake = dataclasses.replace(lake, queries=lake.queries[:1])
    (found,) = Bench(enabled, tmp_path, repetitions=1).measure([lake])
    bare, indexed, skipping = (found.runs[mode] for mode in (BARE, INDEXED, ENABLED))
    assert bare.scan_rows == indexed.scan_rows == skipping.scan_rows == 10_000  # one page
    assert 0 < skipping.bytes_read < indexed.bytes_read
    assert [len(each.ms) for each in found.runs.values()] == [1, 1, 1, 1]
    assert found.runs[ONE_ROW].scan_rows <= 1
    assert found.ratio(BARE) == 1

    (query,) = document([found], [], FACTS)["queries"]
    assert query["modes"][ENABLED]["rows"] == skipping.scan_rows
    assert f"aim {found.query.aim}" in line(found)
    write_page([found], [], FACTS, tmp_path / "page.md")
    assert "| user = x |" in (tmp_path / "page.md").read_text(encoding="utf-8")


@pytest.mark.skipif(find_program() is None, reason=NEEDS)
def test_jobs(spark, tmp_path, monkeypatch):
    monkeypatch.setenv("INTARSIA_CACHE_DIR", str(tmp_path / "cache"))  # the benchmark sets another one
    write, indexed, sort, optimize, index = jobs = measure_jobs(spark, tmp_path, 2, 0.001, repetitions=1)
    assert (indexed.than, optimize.than) == (write, sort)
    assert indexed.ratio > 0
    assert index.mb_per_cpu_s > 0
    assert not (tmp_path / "jobs").exists()

    found = document([], jobs, FACTS)["jobs"]
    assert [len(job["cpu_seconds"]) for job in found] == [1] * 5
    assert f"of {sort.name}, 1.2" in job_line(optimize)
    write_page([], jobs, FACTS, tmp_path / "page.md")
    assert f"| {index.name} |" in (tmp_path / "page.md").read_text(encoding="utf-8")
