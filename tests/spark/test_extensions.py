"""Sessions that are configured at start: a Connect server skips, with the planner as a process."""

import json
import sys

import pytest

import intarsia.spark as ias
from tests.spark.skipping import make_lake, user_of

pytestmark = [pytest.mark.spark, pytest.mark.xdist_group("spark")]


def test_the_settings():
    conf = ias.spark_conf()
    assert conf["spark.sql.extensions"] == "intarsia.spark.Extensions"
    assert conf["spark.intarsia.python"] == sys.executable


def test_a_connect_server_skips(connect_host, tmp_path):
    lake = make_lake(tmp_path / "lake")
    found = json.loads(connect_host.run(QUERIES, lake, user_of(3, 77)))
    assert found["rows"] == [1, 0]
    assert "1/8 files" in found["plans"][0]
    assert "0/8 files" in found["plans"][1]
    assert found["joined"] == 1
    assert found["off"] == 1
    assert "Intarsia" not in found["off_plan"]


QUERIES = """
import json, sys

lake, user = sys.argv[1:]

def plan(frame):
    return frame._explain_string()

frames = [spark.read.parquet(lake).where(f"user = {value}") for value in (user, -1)]
rows = [frame.count() for frame in frames]
plans = [plan(frame) for frame in frames]
frames[0].createOrReplaceTempView("one")
joined = spark.sql(f"SELECT l.id FROM parquet.`{lake}` l JOIN one o ON l.id = o.id").count()
result = {"rows": rows, "plans": plans, "joined": joined}
spark.conf.set("spark.intarsia.enabled", "false")
off = spark.read.parquet(lake).where(f"user = {user}")
print(json.dumps({**result, "off": off.count(), "off_plan": plan(off)}))
"""
