"""Jobs of Spark that are killed at random instants.

The driver of a killed job is a Python process of its own in the JVM of the session, because starting a JVM
takes seconds. It is killed together with the Python workers, and these two change the files. The JVM may
still work for the job during the next one. Where the JVM changes files, the driver starts one of its own, and
both are killed with their workers.
"""

import contextlib
import json
import os
import random
import signal
import subprocess
import sys
import threading
import time
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path

from py4j.java_gateway import JavaObject

import intarsia as ia
from intarsia import spark as ias
from tests.object_stores.store_server import Fault

_SECONDS = 200

#: The share of the instants of a run at which it is killed.
_SHARE = 0.8

#: Starts a driver and runs a program, in a JVM that has a session, with a copy of that session.
_DRIVER = """
import sys
from pyspark import SparkConf, SparkContext
from pyspark.java_gateway import launch_gateway
from pyspark.sql import SparkSession
from intarsia import spark as ias
import intarsia as ia
gateway = launch_gateway()
gateway.gateway_property.pool.next_id = 1 << 40  # callbacks of the session have other names
sessions = gateway.jvm.org.apache.spark.sql.classic.SparkSession
default = sessions.getDefaultSession().get()
java = default.cloneSession()
context = SparkContext(
    conf=SparkConf(_jvm=gateway.jvm, _jconf=java.sparkContext().conf()),
    gateway=gateway,
    jsc=gateway.jvm.org.apache.spark.api.java.JavaSparkContext(java.sparkContext()),
)
spark = SparkSession(context, java)
sessions.setDefaultSession(default)
print("ready", flush=True)
sys.stdin.readline()
exec(sys.argv[1])
"""

#: Starts a driver and runs a program, in a JVM of its own.
_LONE_DRIVER = """
import json, sys
from pyspark.sql import SparkSession
from intarsia import spark as ias
import intarsia as ia
spark = SparkSession.builder.config(map=json.loads(sys.argv[2])).getOrCreate()
print("ready", flush=True)
sys.stdin.readline()
exec(sys.argv[1])
"""


@dataclass(frozen=True)
class Job:
    """A job that is killed.

    Attributes:
        program: Runs the job in the session ``spark``.
        watch: Takes a function, which it calls at each observed instant of a block.
        prepare: Restores the state before the job.
        check: Compares what a killed job has left with the states before and after the job.
        check_done: Compares what a job that was not killed has left.
        settings: Those of a session with a JVM of its own, which is killed as well; None for the JVM of the
            test.
    """

    program: str
    watch: Callable[[Callable[[], None]], contextlib.AbstractContextManager]
    prepare: Callable[[], object]
    check: Callable[[], object]
    check_done: Callable[[], object]
    settings: Mapping[str, str] | None = None


def check_kills(spark, job, kills):
    """Kill a job at random instants; see `kills_of`."""
    for line in kills_of(spark, job, kills):
        print(line, flush=True)


def kills_of(spark, job, kills) -> Iterator[str]:
    """Kill a job at random instants, one in each of as many parts of its run, and run it again after each.

    The instants are those of a run in the session, which is not killed. Other runs may have fewer, so the
    last are left out, and a run that ends before its instant is followed by one with an earlier instant.

    Yields:
        A line about each kill, and one about all.
    """

    def run():
        exec(job.program, {"spark": spark, "ia": ia, "ias": ias})
        job.check_done()

    job.prepare()
    seen = []
    with job.watch(lambda: seen.append(None)):
        run()
    instants = len(seen)
    rng = random.Random(job.program)
    killed = 0
    for kill in range(kills):
        job.prepare()
        started, instant = time.monotonic(), 1 + int(_SHARE * instants * (kill + rng.random()) / kills)
        while not (is_killed := _killed(spark, job, instant)) and instant > 1:
            job.check_done()
            job.prepare()
            instant //= 2
        killed += is_killed
        found = job.check()
        run()
        took = time.monotonic() - started
        what = "killed" if is_killed else "not killed"
        yield f"{what} at instant {instant} of {instants}, left {found}; {took:.0f} s"
    assert killed >= kills / 2, (killed, kills, instants)
    yield f"killed {killed} of {kills} times, at {instants} instants"


def _killed(spark, job, instant):
    """Run a job in a driver that is killed at an observed instant; return whether there was one."""
    return (_in_same_jvm if job.settings is None else _in_other_jvm)(spark, job, instant)


def _in_same_jvm(spark, job, instant):
    client = spark.sparkContext._jvm._gateway_client
    parameters = client.java_parameters
    gateway = {"PYSPARK_GATEWAY_PORT": str(parameters.port), "PYSPARK_GATEWAY_SECRET": parameters.auth_token}
    server = JavaObject("GATEWAY_SERVER", client)
    called = server.getCallbackClient().getAddress(), server.getCallbackClient().getPort()

    def kill(driver):
        driver.kill()
        found = descendants("daemon pyspark.worker")
        for worker in (pid for pid, parent in found.items() if parent in found):  # Spark needs the first
            with contextlib.suppress(ProcessLookupError):  # it has ended
                os.kill(worker, signal.SIGKILL)

    try:
        return _run(job, instant, [_DRIVER, job.program], gateway, kill)
    finally:
        server.resetCallbackClient(*called)  # the driver let the JVM call it
        spark.sparkContext.cancelAllJobs()


def _in_other_jvm(_, job, instant):
    def kill(driver):
        os.killpg(driver.pid, signal.SIGKILL)
        for entry in Path("/proc").iterdir():  # the workers have another group
            with contextlib.suppress(ValueError, ProcessLookupError):
                if os.getsid(int(entry.name)) == driver.pid:
                    os.kill(int(entry.name), signal.SIGKILL)

    return _run(job, instant, [_LONE_DRIVER, job.program, json.dumps(job.settings)], {}, kill)


def _run(job, instant, arguments, environment, kill):
    """Run a job in a process of its own, to which ``kill`` is applied at an instant."""
    driver = subprocess.Popen(
        [sys.executable, "-c", *arguments],
        env={**os.environ, **environment, "PYTHONPATH": os.pathsep.join(sys.path)},
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
        start_new_session=True,
    )
    seen = []

    def happened():
        seen.append(None)
        if len(seen) == instant:
            kill(driver)

    try:
        begun = driver.stdout.readline()
        with job.watch(happened):
            _, errors = driver.communicate("go\n", timeout=_SECONDS)
    finally:
        driver.kill()
        driver.wait()
    assert begun == "ready\n", errors
    assert driver.returncode in (0, -signal.SIGKILL), errors
    return driver.returncode != 0


def changes_of(folder):
    """Return a watch of the changes of files in a folder, as far as they are observed."""

    @contextlib.contextmanager
    def watch(happened):
        ended = threading.Event()

        def look():
            last = states(folder)
            while not ended.wait(0.001):
                now = states(folder)
                if now != last:
                    last = now
                    happened()

        thread = threading.Thread(target=look)
        thread.start()
        try:
            yield
        finally:
            ended.set()
            thread.join()

    return watch


def states(folder):
    """Return the length and the time of each file in a folder."""
    found = {}
    for parent, _, names in os.walk(folder):
        for name in names:
            path = os.path.join(parent, name)
            with contextlib.suppress(FileNotFoundError):
                status = os.stat(path)
                found[path] = status.st_size, status.st_mtime_ns
    return found


def requests_to(server, key):
    """Return a watch of the requests to a store for objects whose keys match a pattern."""

    @contextlib.contextmanager
    def watch(happened):
        lock = threading.Lock()

        def count():
            with lock:
                happened()

        server.faults = [Fault(kind="call", key=key, times=None, action=count)]
        try:
            yield
        finally:
            server.faults = []

    return watch


def descendants(words):
    """Return the processes below this one whose command line has some words, with their parents."""
    parents, lines = {}, {}
    for entry in Path("/proc").iterdir():
        if entry.name.isdecimal():
            with contextlib.suppress(OSError):
                status = (entry / "stat").read_text().rpartition(")")[2].split()
                parents[int(entry.name)] = int(status[1])
                line = (entry / "cmdline").read_bytes().replace(b"\0", b" ")
                lines[int(entry.name)] = line.decode(errors="replace")
    found, size = {os.getpid()}, 0
    while len(found) > size:
        size = len(found)
        found |= {pid for pid, parent in parents.items() if parent in found}
    return {pid: parents[pid] for pid in found if words in lines.get(pid, "")}
