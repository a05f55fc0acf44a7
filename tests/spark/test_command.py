"""Commands with ``--spark``, in separate processes, because a process has one session."""

import json
import os
import subprocess
import sys
from pathlib import Path

import pytest

import intarsia
from intarsia import PageIndex, attach
from intarsia import open as open_table
from intarsia.cli import main
from tests.spark.test_indexing import write_lake


@pytest.mark.spark
@pytest.mark.slow
def test_spark_submit(tmp_path):
    lake = write_lake(tmp_path / "lake", rows_of_each=100)
    submit = Path(sys.executable).with_name("spark-submit")
    program = Path(intarsia.__file__).with_name("__main__.py")
    options = ["--master", "local[2]", "--conf", "spark.ui.enabled=false", "--conf", "spark.log.level=OFF"]
    run = subprocess.run(
        [submit, *options, program, "index", lake, "--bloom", "x", "--page-index", "--spark", "--json"],
        cwd=tmp_path,
        env={**os.environ, "PYSPARK_PYTHON": sys.executable, "SPARK_LOCAL_IP": "127.0.0.1"},
        capture_output=True,
        check=False,
        text=True,
    )
    assert run.returncode == 0, run.stderr[-2000:]
    report = json.loads(run.stdout)
    assert report["files"] == {
        "total": 4,
        "indexed": 4,
        "unchanged": 0,
        "failed": 0,
        "skipped": 0,
        "other": 0,
    }
    assert report["per_file"][0]["built"] == ["page_index", "bloom(x)"]


PROGRAM = """
import contextlib, io, json, sys
from intarsia import cli
out = []
for arguments in json.loads(sys.argv[1]):
    printed, errors = io.StringIO(), io.StringIO()
    with contextlib.redirect_stdout(printed), contextlib.redirect_stderr(errors):
        code = cli.main(arguments)
    out.append((code, printed.getvalue(), errors.getvalue()))
print(json.dumps(out))
"""


@pytest.mark.spark
@pytest.mark.slow
@pytest.mark.xdist_group("spark")  # another test of the group has a session in the same process
def test_jobs(tmp_path, driver_host):
    """Verify, optimize and detach, one after the other in a process."""
    lake = write_lake(tmp_path / "lake", rows_of_each=100)
    attach(lake, [PageIndex()])
    sort = [
        "--sort-by",
        "x:descending",
        "--rows-per-page",
        "50",
        "--bloom",
        "x",
        "--spark",
        "local[1]",
        "--no-partitions",
    ]
    commands = [
        ["verify", lake, "--quick", "--spark", "--json"],
        ["optimize", lake, str(tmp_path / "sorted"), *sort, "--json"],
        ["optimize", str(tmp_path / "none"), str(tmp_path / "new")],
        ["delete", lake, "--where", "x <", "--spark", "local[1]"],
        ["delete", str(tmp_path / "["), "--where", "x < 10", "--spark", "local[1]"],
        ["delete", lake, "--where", "x < 10", "--spark", "local[1]", "--json"],
        ["detach", lake, "--spark"],
        ["optimize", str(tmp_path / "sorted"), "--in-place", "--json"],
        ["optimize", str(tmp_path / "sorted"), str(tmp_path / "none"), "--in-place"],
    ]
    printed = driver_host().run(PROGRAM, json.dumps(commands))
    verified, optimized, missing, syntax, pattern, deleted, detached, merged, two = json.loads(printed)
    assert verified[0] == 0
    assert (json.loads(verified[1])["files"], json.loads(verified[1])["ok"]) == (4, True)
    report = json.loads(optimized[1])
    assert (optimized[0], report["rows"]) == (0, 400)
    assert report["built"] == ["bloom(x)"]
    new = open_table(tmp_path / "sorted").scan(columns=["x"]).to_arrow().column("x").to_pylist()
    assert new == sorted(new, reverse=True)
    assert missing[0] == 2
    assert not (tmp_path / "new").exists()
    assert (syntax[0], "PARSE_SYNTAX_ERROR" in syntax[2]) == (2, True), syntax[2]
    assert (pattern[0], "IOException: Illegal file pattern" in pattern[2]) == (1, True), pattern[2]
    assert deleted[0] == 0
    rewritten = json.loads(deleted[1])["files"]["rewritten"]
    assert rewritten > 0
    # the page index of a rewritten file is its own
    assert (detached[0], f"{4 - rewritten} of 4 files restored" in detached[1]) == (0, True), detached[1]
    report = json.loads(merged[1])
    assert (merged[0], report["rows"], report["built"]) == (0, 400, ["bloom(x)"])
    assert sorted(open_table(tmp_path / "sorted").scan(columns=["x"]).to_arrow()["x"].to_pylist()) == sorted(
        new
    )
    assert two[0] != 0


def test_arguments_of_optimize(tmp_path, capsys):
    lake, new = write_lake(tmp_path / "lake", files=1, rows_of_each=10), str(tmp_path / "new")
    for arguments, shown in (
        (["--target-file-size", "much"], "--target-file-size"),
        (["--partition-by", "x", "--no-partitions"], "--no-partitions"),
        (["--sort-by", ","], "--sort-by"),
        (["--add", "nonsense(x)"], "nonsense"),
        (["--spark", "local[many]"], "local[many]"),
    ):
        assert main(["optimize", lake, new, *arguments]) == 2
        assert shown in capsys.readouterr().err


def test_wrong_masters(tmp_path, capsys):
    lake = write_lake(tmp_path / "lake", files=1, rows_of_each=10)
    assert main(["index", lake, "--page-index", "--spark", "local[many]"]) == 2
    assert "local[many]" in capsys.readouterr().err
    assert main(["index", "--spark", lake]) == 2  # the path is not taken for a master
    assert "no index" in capsys.readouterr().err
