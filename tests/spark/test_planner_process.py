"""The process that plans for several sessions: requests side by side, within their time limits."""

import sys
import time
from concurrent.futures import ThreadPoolExecutor

import pytest

import intarsia.spark as ias
from intarsia.spark.rules import RuleLoader
from tests.spark.skipping import FILES, make_lake, scans, user_of

pytestmark = [pytest.mark.spark, pytest.mark.xdist_group("spark")]

SERVER = """
import os, sys, threading, time
from intarsia.spark.serving import serve_standard_streams

with open(sys.argv[1], "a") as file:
    file.write(f"{os.getpid()}\\n")

arrived = threading.Event()

def answer(request):
    if request == "wait for another":
        assert arrived.wait(300)
    elif request == "another":
        arrived.set()
    elif request.startswith("hang after "):
        open(request.removeprefix("hang after "), "w").close()
        time.sleep(3600)
    elif request == "fail":
        raise ValueError("no")
    return f"{request} in {os.getpid()}"

serve_standard_streams(answer, at_once=sys.argv[2] == "at once")
"""


@pytest.fixture
def server(spark, tmp_path):
    """Starts processes; the second value has a line for each process that was started."""
    script, starts = tmp_path / "server.py", tmp_path / "starts.txt"
    script.write_text(SERVER)
    made = []

    def start(mode):
        command = spark.sparkContext._jvm.java.util.ArrayList()
        for part in (sys.executable, str(script), str(starts), mode):
            command.add(part)
        made.append(RuleLoader(spark).new("intarsia.spark.PythonProcess", command))
        return made[0]

    yield start, lambda: starts.read_text().split()
    for process in made:
        process.close()


def test_requests_are_answered_side_by_side(server):
    start, starts = server
    process = start("at once")
    with ThreadPoolExecutor(1) as other:
        first = other.submit(process.ask, "wait for another", 0)
        assert process.ask("another", 0).startswith("another in ")
        assert first.result().startswith("wait for another in ")
    assert len(starts()) == 1


def test_an_error_is_that_of_its_request(server):
    start, starts = server
    process = start("at once")
    with pytest.raises(Exception, match=r"ValueError: no"):
        process.ask("fail", 0)
    assert process.ask("x", 0) == f"x in {starts()[0]}"


def test_waiting_for_other_requests_counts(server, tmp_path):
    """A request behind one that hangs is not answered in time. Both end with the process, started once."""
    start, starts = server
    process = start("one by one")
    with ThreadPoolExecutor(1) as other:
        hanging = other.submit(process.ask, f"hang after {tmp_path / 'began'}", 300_000)
        while not (tmp_path / "began").exists():
            assert not hanging.done()
            time.sleep(0.01)
        with pytest.raises(Exception, match=r"no answer after 500 ms"):
            process.ask("x", 500)
        with pytest.raises(Exception, match=r"has ended|Stream closed"):
            hanging.result()
    assert len(starts()) == 1
    assert process.ask("x", 0) == f"x in {starts()[1]}"  # in another process


def test_a_request_that_hangs_does_not_end_a_process_that_answers_others(server, tmp_path):
    start, starts = server
    process = start("at once")
    before = process.ask("x", 0)
    with ThreadPoolExecutor(1) as other:
        hanging = other.submit(process.ask, f"hang after {tmp_path / 'began'}", 1500)
        while not hanging.done():
            assert process.ask("x", 0) == before
        with pytest.raises(Exception, match=r"no answer after 1500 ms"):
            hanging.result()
    assert process.ask("x", 0) == before
    assert len(starts()) == 1


def test_the_sessions_of_a_planner_pause_together(enabled, tmp_path):
    lake = str(make_lake(tmp_path / "lake"))
    asked = []

    def fail(request):
        asked.append(request)
        raise RuntimeError("no plan")

    ias.enable(enabled, planner=fail)
    try:
        sessions = [enabled, enabled.newSession(), enabled.newSession()]
        for _ in range(2):
            for session in sessions:
                frame = session.read.parquet(lake).where(f"user = {user_of(3, 77)}")
                assert frame.count() == 1
                assert "RuntimeError" in ias.last_skips(session)[0].reason
        assert len(asked) == 3
    finally:
        ias.enable(enabled)


# --- sessions that newSession() creates


def test_new_sessions_skip(enabled, tmp_path):
    lake = str(make_lake(tmp_path / "lake"))
    enabled.createDataFrame([(user_of(3, 77),)], "user int").coalesce(1).write.parquet(str(tmp_path / "keys"))

    def files(session):
        frame = session.sql(f"SELECT * FROM parquet.`{lake}` WHERE user = {user_of(3, 77)}")
        frame.collect()
        return scans(frame)[0][0]

    child = enabled.newSession()
    assert files(child) == files(child.newSession()) == 1
    assert [skip.report["files"]["read"] for skip in ias.last_skips(child)] == [1]
    joined = child.sql(f"SELECT * FROM parquet.`{lake}` JOIN parquet.`{tmp_path / 'keys'}` USING (user)")
    joined.collect()
    assert sorted(number for number, _ in scans(joined)) == [1, 1]  # by the keys of the join

    child.conf.set("spark.intarsia.enabled", "false")
    assert (files(child), files(enabled)) == (FILES, 1)
    child.conf.set("spark.intarsia.enabled", "true")
    ias.disable(enabled)
    assert files(enabled) == files(child) == files(enabled.newSession()) == FILES
    ias.enable(enabled)
    assert files(enabled) == files(child) == files(child.newSession()) == 1
    ias.enable(child)  # again
    assert files(enabled) == files(child) == 1
    assert child._jsparkSession.experimental().extraOptimizations().size() == 1
