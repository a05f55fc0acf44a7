"""The benchmarks run on few rows, and all readers return the same results; times are not tested."""

import json
import subprocess
import sys

import pytest

from benchmarks.__main__ import main


def run(root, *arguments):
    command = [sys.executable, "-m", "benchmarks", *arguments]
    return subprocess.run(command, capture_output=True, check=False, cwd=root, text=True)


@pytest.mark.slow
def test_chosen_benchmarks_as_json(pytestconfig, tmp_path):
    chosen = ["lookup", "shares", "totals", "lake", "top", "among", "memory", "plan"]
    done = run(
        pytestconfig.rootpath,
        *chosen,
        "--small",
        "--rows=4000",
        "--repetitions=1",
        "--json",
        f"--dir={tmp_path}",
    )
    assert done.returncode == 0, done.stderr
    document = json.loads(done.stdout)
    assert [name for name in document if name in chosen] == chosen
    for name in ("lookup", "shares", "totals", "lake", "top", "among"):
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
        "--rows=30000",
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
