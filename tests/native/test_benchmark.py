"""Benchmarks compare Intarsia with and without the extension in one run."""

import json
import subprocess
import sys
from pathlib import Path

import pytest

from benchmarks.extension import NATIVE, is_installed

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
