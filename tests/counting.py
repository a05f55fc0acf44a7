"""Count function calls, as a measure of work that does not depend on the machine."""

from __future__ import annotations

import sys
from contextlib import contextmanager


@contextmanager
def profiling(profile):
    """Call ``profile(frame, event, argument)`` for each call and return within the block."""
    before = sys.getprofile()
    sys.setprofile(profile)
    try:
        yield
    finally:
        sys.setprofile(before)


def calls(work, *, of=None):
    """Return the number of calls that ``work`` makes: of one Python function, or of all functions."""
    count = 0

    def profile(frame, event, _argument):
        nonlocal count
        if of is None:
            count += event in ("call", "c_call")
        else:
            count += event == "call" and frame.f_code is of.__code__

    with profiling(profile):
        work()
    return count


def python_calls(work):
    """Return the result of ``work`` and the number of calls that it makes of functions written in Python."""
    count = 0

    def profile(_frame, event, _argument):
        nonlocal count
        count += event == "call"

    with profiling(profile):
        result = work()
    return result, count
