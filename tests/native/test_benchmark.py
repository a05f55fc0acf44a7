"""Benchmarks compare Intarsia with and without the extension in one run."""

import json
import subprocess
import sys
from pathlib import Path

import pytest

from benchmarks.engines import Intarsia
from benchmarks.extension import NATIVE, Remote, is_installed
from benchmarks.lake import lookup_queries, make_lakes

ROOT = Path(__file__).parents[2]


@pytest.mark.skipif(not is_installed(), reason="needs `make native`")
def test_both_are_measured(tmp_path):
    options = ["--rows=4000", "--repetitions=1", f"--engines=intarsia,{NATIVE},pyarrow", f"--dir={tmp_path}"]
    command = [sys.executable, "-m", "benchmarks", "lookup", "--json", *options]
    done = subprocess.run(command, capture_output=True, check=True, cwd=ROOT, text=True)
    for case in json.loads(done.stdout)["lookup"]:
        assert case["ms"].keys() == {"intarsia", NATIVE, "pyarrow"}
        assert case["of_best_peer"].keys() == case["native_of_best_peer"].keys() == {"cold", "warm"}
        assert case["least_ms"] > 0


@pytest.mark.skipif(not is_installed(), reason="needs `make native`")
def test_both_use_the_lake_index(tmp_path, monkeypatch):
    monkeypatch.setenv("INTARSIA_CACHE_DIR", str(tmp_path / "other"))
    (query,) = lookup_queries(4, 1)["user absent"]
    requests = {}
    for folder in ("first", "second"):  # each lake has its own cache, and the other process is started once
        for lake in make_lakes(tmp_path / folder, 4):
            own, other = Intarsia(lake.path), Remote(lake.path)
            own.run(query)
            other.run(query)
            assert own.report.requests == other.requests
            requests[lake.name] = other.requests
        assert requests["lake index"] < requests["attached"]
