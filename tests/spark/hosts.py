"""A Spark Connect session in a process of its own, because it cannot share one with a classic session."""

import json
import os
import subprocess
import sys
from pathlib import Path

_HOST = """
import contextlib, io, json, os, sys, traceback
os.environ["PYSPARK_PYTHON"] = sys.executable
os.environ["SPARK_LOCAL_IP"] = "127.0.0.1"
from intarsia import spark as ias
ias.ensure_java()
from pyspark.sql import SparkSession
answers = os.fdopen(os.dup(1), "w")
os.dup2(2, 1)  # the server that Spark starts prints to stdout
spark = SparkSession.builder.remote("local[2]").getOrCreate()
for line in sys.stdin:
    program, arguments = json.loads(line)
    sys.argv = ["-c", *arguments]
    printed, error = io.StringIO(), None
    with contextlib.redirect_stdout(printed):
        try:
            exec(compile(program, "<program>", "exec"), {"__name__": "__main__", "spark": spark})
        except Exception:
            error = traceback.format_exc()
    print(json.dumps([printed.getvalue(), error]), file=answers, flush=True)
spark.stop()
"""


class ConnectHost:
    """Runs programs that use a Spark Connect session by the name ``spark``.

    Args:
        folder: The working directory.
    """

    def __init__(self, folder: Path) -> None:
        paths = [str(Path(__file__).resolve().parents[2]), *filter(None, sys.path)]
        self._errors = open(folder / "stderr.txt", "w+")  # noqa: SIM115  # open as long as the process
        self._process = subprocess.Popen(
            [sys.executable, "-c", _HOST],
            cwd=folder,
            env={**os.environ, "PYTHONPATH": os.pathsep.join(paths)},
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=self._errors,
            text=True,
        )

    def run(self, program: str, *arguments: object) -> str:
        """Return what a program prints."""
        self._process.stdin.write(json.dumps([program, list(map(str, arguments))]) + "\n")
        self._process.stdin.flush()
        line = self._process.stdout.readline()
        if not line:
            self._errors.seek(0)
            raise AssertionError(self._errors.read()[-3000:])
        printed, error = json.loads(line)
        assert error is None, error
        return printed

    def stop(self) -> None:
        """Stop the session and its server."""
        self._process.stdin.close()
        self._process.wait()
        self._process.stdout.close()
        self._errors.close()
