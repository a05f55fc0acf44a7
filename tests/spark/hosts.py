"""Spark sessions in separate processes, for sessions that cannot share a process with the classic one."""

import json
import os
import select
import subprocess
import sys
from pathlib import Path

_HOST = """
import contextlib, io, json, os, sys, traceback
os.environ["PYSPARK_PYTHON"] = sys.executable
os.environ["SPARK_LOCAL_IP"] = "127.0.0.1"
from intarsia import spark as ias
java_home = ias.ensure_java()
answers = os.fdopen(os.dup(1), "w")
os.dup2(2, 1)  # the server that Spark starts prints to stdout
spark, settings = None, json.loads(sys.argv[1])
if settings:
    from pyspark.sql import SparkSession
    builder = SparkSession.builder
    for key, value in settings.items():
        builder = builder.config(key, value)
    spark = builder.getOrCreate()
for line in sys.stdin:
    program, arguments = json.loads(line)
    sys.argv = ["-c", *arguments]
    printed, error = io.StringIO(), None
    with contextlib.redirect_stdout(printed):
        try:
            names = {"__name__": "__main__", "spark": spark, "java_home": java_home}
            exec(compile(program, "<program>", "exec"), names)
        except Exception:
            error = traceback.format_exc()
    print(json.dumps([printed.getvalue(), error]), file=answers, flush=True)
if spark:
    spark.stop()
"""


class SparkHost:
    """Runs programs that use a Spark session by the name ``spark``.

    Args:
        folder: The working directory.
        settings: The settings of the session. Without any, there is none, and the programs start their own.
        environment: The environment variables.
        site: A folder of packages that only this process and its workers can import.
    """

    def __init__(self, folder: Path, settings: dict, environment: dict = os.environ, site: str = "") -> None:
        paths = [site, str(Path(__file__).resolve().parents[2]), *sys.path]
        self._errors = open(folder / "stderr.txt", "w+")  # noqa: SIM115  # open as long as the process
        self._process = subprocess.Popen(
            [sys.executable, "-c", _HOST, json.dumps(settings)],
            cwd=folder,
            env={**environment, "PYTHONPATH": os.pathsep.join(filter(None, paths))},
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=self._errors,
            text=True,
        )

    def run(self, program: str, *arguments: object) -> str:
        """Return what a program prints."""
        self.start(program, *arguments)
        line = self._process.stdout.readline()
        if not line:
            self._errors.seek(0)
            raise AssertionError(self._errors.read()[-3000:])
        printed, error = json.loads(line)
        assert error is None, error
        return printed

    def start(self, program: str, *arguments: object) -> None:
        """Run a program without waiting for its end."""
        self._process.stdin.write(json.dumps([program, list(map(str, arguments))]) + "\n")
        self._process.stdin.flush()

    def is_running(self) -> bool:
        """Return whether the process has not ended."""
        return self._process.poll() is None

    def is_ready(self) -> bool:
        """Return whether a program has ended whose output was not read."""
        return bool(select.select([self._process.stdout], [], [], 0)[0])

    def kill(self) -> None:
        """Kill the process."""
        self._process.kill()
        self._process.wait()

    def stop(self) -> None:
        """Stop the session and its server."""
        self._process.stdin.close()
        self._process.wait()
        self._process.stdout.close()
        self._errors.close()


def install(site: Path, name: str, source: str, entry_point: str) -> None:
    """Create the files that pip would install for a module with one kind of index."""
    files = {
        f"{name}.py": source,
        f"{name}-1.dist-info/METADATA": f"Metadata-Version: 2.1\nName: {name}\nVersion: 1\n",
        f"{name}-1.dist-info/entry_points.txt": f"[intarsia.indexes]\n{entry_point}\n",
    }
    for path, text in files.items():
        (site / path).parent.mkdir(parents=True, exist_ok=True)
        (site / path).write_text(text, encoding="utf-8")
