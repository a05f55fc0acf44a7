"""Programs that run in a process of their own, so that it can be killed."""

import os
import signal
import subprocess
import sys
from pathlib import Path

import intarsia

SOURCES = Path(intarsia.__file__).parents[1]
ENVIRONMENT = {**os.environ, "PYTHONPATH": str(SOURCES)}

#: Beginning of a program that ends itself at a call to what it has ``counted``: the one that its second
#: argument says, or none.
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


def run(program, *args):
    """What a program prints; it ends well, or kills itself."""
    result = subprocess.run(
        [sys.executable, "-c", program, *args], env=ENVIRONMENT, capture_output=True, text=True, check=False
    )
    assert result.returncode in (0, -signal.SIGKILL), result.stderr
    return result.stdout
