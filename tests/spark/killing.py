"""Jobs of Spark that are killed at random instants.

The driver of a killed job is a Python process of its own in the JVM of the session, because starting a JVM
takes seconds. It is killed together with the Python workers, and these two change the files. The JVM may
still work for the job during the next one.
"""

import contextlib
import os
import random
import signal
import subprocess
import sys
import threading
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

from py4j.java_gateway import JavaObject

import intarsia as ia
from intarsia import spark as ias
from tests.object_stores.store_server import Fault

_SECONDS = 200

#: The share of the instants of a run at which it is killed.
_SHARE = 0.8

#: Starts a driver in a JVM that has a session, with a copy of that session, and runs a program.
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


@dataclass(frozen=True)
class Job:
    """A job that is killed.

    Attributes:
        program: Runs the job in the session ``spark``.
        watch: Takes a function, which it calls at each observed instant of a block.
        prepare: Restores the state before the job.
        check: Compares what a killed job has left with the states before and after the job.
        check_done: Compares what a job that was not killed has left.
    """

    program: str
    watch: Callable[[Callable[[], None]], contextlib.AbstractContextManager]
    prepare: Callable[[], object]
    check: Callable[[], object]
    check_done: Callable[[], object]


def check_kills(spark, job, kills):
    """Kill a job at random instants, one in each of as many parts of its run, and run it again after each.

    The instants are those of a run that is not killed. Other runs may have fewer, so the last are left out.
    """

    def run():
        exec(job.program, {"spark": spark, "ia": ia, "ias": ias})
        job.check_done()

    job.prepare()
    instants = []
    with job.watch(lambda: instants.append(None)):
        run()
    rng = random.Random(job.program)
    killed = 0
    for kill in range(kills):
        job.prepare()
        killed += _killed(spark, job, 1 + int(_SHARE * len(instants) * (kill + rng.random()) / kills))
        job.check()
        run()
    assert killed >= kills / 2, (killed, kills, len(instants))
    print(f"killed {killed} of {kills} times, at {len(instants)} instants")


def _killed(spark, job, instant):
    """Run a job in a driver that is killed at one of the observed instants; return whether it was."""
    client = spark.sparkContext._jvm._gateway_client
    parameters = client.java_parameters
    gateway = {"PYSPARK_GATEWAY_PORT": str(parameters.port), "PYSPARK_GATEWAY_SECRET": parameters.auth_token}
    server = JavaObject("GATEWAY_SERVER", client)
    called = server.getCallbackClient().getAddress(), server.getCallbackClient().getPort()
    driver = subprocess.Popen(
        [sys.executable, "-c", _DRIVER, job.program],
        env={**os.environ, **gateway, "PYTHONPATH": os.pathsep.join(sys.path)},
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
    )
    seen = []

    def happened():
        seen.append(None)
        if len(seen) == instant:
            driver.kill()
            found = descendants("pyspark.daemon")
            for worker in (pid for pid, parent in found.items() if parent in found):  # Spark needs the first
                with contextlib.suppress(ProcessLookupError):  # it has ended
                    os.kill(worker, signal.SIGKILL)

    try:
        begun = driver.stdout.readline()
        with job.watch(happened):
            _, errors = driver.communicate("go\n", timeout=_SECONDS)
    finally:
        driver.kill()
        driver.wait()
        server.resetCallbackClient(*called)  # the driver let the JVM call it
        spark.sparkContext.cancelAllJobs()
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
                lines[int(entry.name)] = (entry / "cmdline").read_bytes().decode().replace("\0", " ")
    found, size = {os.getpid()}, 0
    while len(found) > size:
        size = len(found)
        found |= {pid for pid, parent in parents.items() if parent in found}
    return {pid: parents[pid] for pid in found if words in lines.get(pid, "")}
