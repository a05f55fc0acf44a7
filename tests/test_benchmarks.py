"""The benchmarks run on few rows, and all readers return the same results; times are not tested."""

import json
import subprocess
import sys

import pytest

from benchmarks.__main__ import main
from benchmarks.attaching import Attaching, attaching_document
from benchmarks.data import File
from benchmarks.growth import Process, growth_document
from benchmarks.memory import Retained, memory_document
from benchmarks.page import write_page


def run(root, *arguments):
    command = [sys.executable, "-m", "benchmarks", *arguments]
    return subprocess.run(command, capture_output=True, check=False, cwd=root, text=True)


@pytest.mark.slow
def test_chosen_benchmarks_as_json(pytestconfig, tmp_path):
    chosen = ["lookup", "shares", "nested", "totals", "checksums", "lake", "top", "among", "memory", "plan"]
    done = run(
        pytestconfig.rootpath,
        *chosen,
        "--small",
        "--rows=1000",
        "--repetitions=1",
        "--json",
        f"--dir={tmp_path}",
    )
    assert done.returncode == 0, done.stderr
    document = json.loads(done.stdout)
    assert [name for name in document if name in chosen] == chosen
    for name in ("lookup", "shares", "nested", "totals", "checksums", "lake", "top", "among"):
        for case in document[name]:
            assert case["failures"].keys() == ({"pyarrow"} if name == "top" else set()), case
            assert case["of_best_peer"].keys() == case["of_datafusion"].keys() == {"cold", "warm"}
    found = {(case["file"], case["query"]): case["rows"] for case in document["lake"]}
    assert found == {
        (file, query): rows
        for file in ("lake", "attached", "lake index")
        for query, rows in (
            ("user = x", 1),
            ("user absent", 0),
            ("rare country", 1),
            ("one hour, sum", 1),
            ("LIKE '%needle%'", 1),
        )
    }
    assert all(case["retained_bytes"]["pyarrow"] >= case["rows_bytes"] for case in document["memory"])


def test_a_table(tmp_path, capsys):
    options = ["--rows=5000", "--repetitions=1", "--engines=intarsia,pyarrow"]
    assert main(["lookup", *options, f"--dir={tmp_path}", f"--page={tmp_path}/page.md"]) == 0
    printed = capsys.readouterr().out
    assert "point lookup" in printed
    assert "the fastest" in printed
    page = (tmp_path / "page.md").read_text()
    assert "page.svg" in page
    assert page.count("| tuned |") == 2
    assert (tmp_path / "page.svg").read_text().startswith("<?xml")


def test_a_page_of_benchmarks_that_time_no_other_reader(tmp_path):
    file = File("wide", str(tmp_path), "texts")
    retained = Retained("200 rows", file, 10, {"intarsia": 10, "pyarrow": 4_000})
    case = Attaching("rewrite with pyarrow", File("default", __file__, "made"), (), [0.5], [0.25])
    document = {
        "cpus": 2,
        "python": "3.11",
        "versions": {"intarsia": "0.1.0"},
        "import_ms": 200.0,
        "memory": memory_document([retained]),
        "attach": attaching_document([case], 1_000),
        "plan": {"files": 10_000, "list_ms": 80.0, "cold_ms": 50.0, "warm_ms": 40.0},
        "growth": growth_document([Process("10 files", "", [], "", 900.0, 150.0)]),
    }
    write_page(document, tmp_path / "page.md", "python -m benchmarks")
    page = (tmp_path / "page.md").read_text()
    for line in (
        "| 200 rows | 1.0 | 400.0 |",
        "| rewrite with pyarrow | 0.25 | 1.00 | 1.00 | 0.0% |",
        "| 10 files | 900 | 150 |",
    ):
        assert line in page.splitlines()
    assert "10,000 files with a lake index" in page


@pytest.mark.parametrize("arguments", [["nope"], ["--engines=pyarrow"], ["--engines=intarsia,nope"]])
def test_what_there_is_not(capsys, arguments):
    with pytest.raises(SystemExit) as caught:
        main(arguments)
    assert caught.value.code == 2
    assert "usage:" in capsys.readouterr().err


@pytest.mark.slow
def test_a_lake_in_an_object_store(pytestconfig, tmp_path):
    """DuckDB needs an extension that it would download."""
    done = run(
        pytestconfig.rootpath,
        "s3",
        "--rows=20000",
        "--repetitions=1",
        "--engines=intarsia,polars,datafusion",
        "--json",
        f"--dir={tmp_path}",
    )
    assert done.returncode == 0, done.stderr
    cases = json.loads(done.stdout)["s3"]
    assert [(case["query"], case["rows"], case["failures"]) for case in cases] == [
        ("user = x", 1, {}),
        ("user absent", 0, {}),
    ] * 2  # with and without a lake index
