"""Programs that run in separate processes, which tests can kill.

Importing Intarsia takes half a second. A server process imports it once and forks for each program.
"""

import atexit
import contextlib
import json
import os
import signal
import subprocess
import sys
import tempfile
from functools import cache
from pathlib import Path
from typing import NamedTuple

import intarsia

SOURCES = Path(intarsia.__file__).parents[1]
ENVIRONMENT = {name: value for name, value in os.environ.items() if name != "INTARSIA_DEBUG"}

#: Start of a program that kills itself at a call to a function wrapped in ``counted``. Its second argument is
#: the number of that call; -1 for none.
KILLED_AT_A_CALL = """
import os, signal, sys
count, stop = 0, int(sys.argv[2])
def counted(function):
    def call(*args, **kwargs):
        global count
        count += 1
        if count == stop:
            os.kill(os.getpid(), signal.SIGKILL)
        return function(*args, **kwargs)
    return call
"""

_SERVER = """
import json, os, signal, sys, time, traceback
import pandas, pyarrow.parquet, intarsia, intarsia.cli.app, intarsia.embed, intarsia.write  # all lazy imports
for line in sys.stdin:
    program, arguments, output, errors, seconds = json.loads(line)
    child = os.fork()
    if not child:
        for descriptor, path in ((1, output), (2, errors)):
            os.dup2(os.open(path, os.O_WRONLY), descriptor)
        sys.argv = ["-c", *arguments]
        status = 1
        try:
            exec(compile(program, "<program>", "exec"), {"__name__": "__main__"})
            status = 0
        except SystemExit as exit:
            status = exit.code
        except BaseException:
            traceback.print_exc()
        finally:
            sys.stdout.flush()
            os._exit(status)
    if seconds is not None:
        time.sleep(seconds)
        os.kill(child, signal.SIGKILL)
    print(os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]), flush=True)
"""


class Done(NamedTuple):
    """The exit code of a program (or its signal, negative), and what it printed."""

    returncode: int
    stdout: str
    stderr: str


class Python:
    """A Python that forks for each program.

    Args:
        folders: Additional folders on its search path.
    """

    def __init__(self, *folders):
        path = os.pathsep.join(map(str, [*folders, SOURCES]))
        self._server = subprocess.Popen(
            [sys.executable, "-c", _SERVER],
            env={**ENVIRONMENT, "PYTHONPATH": path, "PYTHONDONTWRITEBYTECODE": "1"},
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            text=True,
        )

    def run(self, program, *args, killed_after_seconds=None):
        """Run a program to its end, or kill it after some seconds."""
        with tempfile.NamedTemporaryFile("r") as output, tempfile.NamedTemporaryFile("r") as errors:
            self._start(program, args, output.name, errors.name, killed_after_seconds)
            return Done(self._wait(), output.read(), errors.read())

    def _start(self, program, args, output, errors, killed_after_seconds=None):
        call = [program, list(map(str, args)), str(output), str(errors), killed_after_seconds]
        self._server.stdin.write(json.dumps(call) + "\n")
        self._server.stdin.flush()

    def _wait(self):
        return int(self._server.stdout.readline())

    @contextlib.contextmanager
    def writing(self, program, *args, output, errors):
        """Run a program that writes to pipes and terminals; return a function that awaits its end.

        Args:
            program: The source of the program.
            args: Its arguments.
            output: Path of its stdout.
            errors: Path of its stderr.
        """
        self._start(program, args, output, errors)
        ended = cache(self._wait)
        try:
            yield ended
        finally:
            ended()

    def stop(self):
        self._server.stdin.close()
        self._server.wait()
        self._server.stdout.close()


@cache
def python():
    """Return a Python for all tests of this process."""
    python = Python()
    atexit.register(python.stop)
    return python


def run(program, *args, killed_after_seconds=None):
    """Return what a program prints. It must exit with 0, kill itself, or be killed after some seconds."""
    done = python().run(program, *args, killed_after_seconds=killed_after_seconds)
    assert done.returncode in (0, -signal.SIGKILL), done.stderr
    return done.stdout
