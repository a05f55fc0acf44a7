"""Sessions that are configured at start: a Connect server skips, with the planner as a process."""

import json
import os
import sys

import pytest

import intarsia.spark as ias
from tests.spark.skipping import make_lake, user_of

pytestmark = pytest.mark.spark


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


@pytest.mark.skipif(not os.path.isdir("/proc/self"), reason="finds the planner in /proc")
def test_a_planner_that_is_killed_is_started_again(connect_host, tmp_path):
    lake = make_lake(tmp_path / "lake")
    assert connect_host.run(KILLED, lake, user_of(3, 77)).split() == ["1", "1", "1"]


KILLED = """
import os, signal, sys

lake, user = sys.argv[1:]

def parent(pid):
    with open(f"/proc/{pid}/stat") as file:
        return int(file.read().rsplit(")", 1)[1].split()[1])

def planners():
    for pid in filter(str.isdigit, os.listdir("/proc")):
        try:
            with open(f"/proc/{pid}/cmdline") as file:
                if "intarsia.spark.serving" in file.read() and parent(parent(pid)) == os.getpid():
                    yield int(pid)
        except OSError:
            pass

for _ in range(3):
    print(spark.read.parquet(lake).where(f"user = {user}").count())
    for pid in planners():
        os.kill(pid, signal.SIGKILL)
"""

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
