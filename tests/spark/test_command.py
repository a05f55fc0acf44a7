"""``intarsia index --spark``, in separate processes, because a process has one session."""

import json
import os
import subprocess
import sys
from pathlib import Path

import pytest

import intarsia
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
    assert report["files"] == {"total": 4, "indexed": 4, "unchanged": 0, "failed": 0, "other": 0}
    assert report["per_file"][0]["built"] == ["page_index", "bloom(x)"]


def test_wrong_masters(tmp_path, capsys):
    lake = write_lake(tmp_path / "lake", files=1, rows_of_each=10)
    assert main(["index", lake, "--page-index", "--spark", "local[many]"]) == 2
    assert "local[many]" in capsys.readouterr().err
    assert main(["index", "--spark", lake]) == 2  # the path is not taken for a master
    assert "no index" in capsys.readouterr().err
