"""A session as a newcomer starts it, and the Python of its workers."""

import gc
import json
import os
import subprocess
import sys
from types import SimpleNamespace

import pyarrow as pa
import pytest

from intarsia import spark as ias
from intarsia.spark.sessions import map_in_arrow, worker_python

PROGRAM = """
import json, os, sys
import intarsia as ia
from intarsia import spark as ias
from pyspark.sql import SparkSession

folder = sys.argv[1]
ias.ensure_java()
builder = SparkSession.builder.master("local[2]").config("spark.ui.enabled", "false")
spark = builder.getOrCreate()
lake = os.path.join(folder, "lake")
ias.enable(spark)
ias.enable_writes(spark, ia.Distinct("id"))
spark.range(0, 100, 1, 1).write.parquet(lake)
indexed = ias.index(spark, lake, ia.ZoneMap("id"), progress=False)
ias.disable(spark)
ias.disable_writes(spark)
ias.enable(spark)
ias.enable_writes(spark, ia.Distinct("id"))
ias.enable(spark)
print(json.dumps({
    "indexed": indexed.files_indexed,
    "written": ias.last_write(spark).files_indexed,
}))
spark.stop()
"""


@pytest.mark.spark
@pytest.mark.slow
def test_a_virtual_environment_that_is_not_active(tmp_path):
    """Jobs run in the Python of the driver, and nothing is logged about the jar."""
    other = tmp_path / "bin" / "python3"
    other.parent.mkdir()
    other.write_text("#!/bin/sh\necho 'a Python without intarsia' >&2\nexit 1\n")
    other.chmod(0o755)
    ours = ("PYSPARK", "SPARK_CONF_DIR")
    environment = {key: value for key, value in os.environ.items() if not key.startswith(ours)}
    environment |= {"PATH": f"{other.parent}:{os.environ['PATH']}", "SPARK_LOCAL_IP": "127.0.0.1"}
    done = subprocess.run(
        [sys.executable, "-c", PROGRAM, tmp_path],
        env=environment,
        cwd=tmp_path,
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == 0, done.stderr[-3000:]
    found = json.loads(done.stdout)
    assert found == {"indexed": 1, "written": 1}
    assert "WARN" in done.stderr  # Spark logs warnings
    assert [line for line in done.stderr.splitlines() if "jar" in line.lower()] == []


def test_functions_of_the_user_keep_their_python(spark, monkeypatch, tmp_path):
    """Only those of this package run in the Python of the driver."""
    monkeypatch.delenv("PYSPARK_PYTHON")
    monkeypatch.setattr(spark.sparkContext, "pythonExec", "/no/such/python")
    lake = str(tmp_path / "lake")
    spark.range(0, 100, 1, 1).write.parquet(lake)
    assert [row.id for row in ias.read(spark, lake, where="id = 7", mode="pages").collect()] == [7]
    ias.register(spark)
    frame = spark.read.format("intarsia").option("path", lake).option("where", "id = 7").load()
    assert [row.id for row in frame.collect()] == [7]
    assert ias.optimize(spark, lake, tmp_path / "curve", zorder_by="id", progress=False).num_rows == 100
    assert spark.sparkContext.pythonExec == "/no/such/python"


def test_modules_are_no_part_of_the_garbage_collections_of_workers(spark):
    """PySpark starts one after each task; with those of all modules, it takes longer than most tasks."""

    def frozen(batches):
        for _ in batches:
            yield pa.record_batch({"n": [gc.get_freeze_count()]})

    frame = map_in_arrow(spark.range(0, 8, 1, 8), frozen, "n long")
    frame.collect()
    assert max(row.n for row in frame.collect()) > 10_000


@pytest.mark.parametrize(
    ("environment", "setting", "master", "expected"),
    [
        (None, None, "local[*]", sys.executable),
        (None, None, "local", sys.executable),
        (None, "/from/settings", "local[*]", "/from/settings"),
        (None, None, "yarn", "python3"),
        (None, "/from/settings", "yarn", "/from/settings"),
        ("/from/environment", None, "local[*]", "/from/environment"),
        ("/from/environment", "/from/settings", "local[*]", "/from/environment"),
    ],
)
def test_the_choice_of_the_user_precedes(monkeypatch, environment, setting, master, expected):
    monkeypatch.delenv("PYSPARK_PYTHON", raising=False)
    if environment is not None:
        monkeypatch.setenv("PYSPARK_PYTHON", environment)
    settings = {} if setting is None else {"spark.pyspark.python": setting}
    context = SimpleNamespace(master=master, getConf=lambda: settings, pythonExec=environment or "python3")
    assert worker_python(SimpleNamespace(sparkContext=context)) == expected
