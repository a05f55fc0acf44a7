"""Count function calls, as a measure of work that does not depend on the machine."""

from __future__ import annotations

import gc
import itertools
import sys
import threading
from contextlib import contextmanager


@contextmanager
def profiling(profile):
    """Call ``profile(frame, event, argument)`` for each call and return within the block.

    Calls in threads that start within the block are included. Garbage is not collected within it: the
    finalizers of earlier objects, those of Py4J for example, would be counted. Calls within the module
    ``threading`` are left out: whether a thread has to wait for another one is chance.
    """

    def outside_threading(frame, event, argument):
        if frame.f_code.co_filename != threading.__file__:
            profile(frame, event, argument)

    before, before_in_threads = sys.getprofile(), threading.getprofile()
    collects = gc.isenabled()
    gc.disable()
    threading.setprofile(outside_threading)
    sys.setprofile(outside_threading)
    try:
        yield
    finally:
        sys.setprofile(before)
        threading.setprofile(before_in_threads)
        if collects:
            gc.enable()


def calls(work, *, of=None):
    """Return the number of calls that ``work`` makes: of one Python function, or of all functions."""
    count = itertools.count()  # in C, so that no call of another thread is lost

    def profile(frame, event, _argument):
        if event in ("call", "c_call") if of is None else event == "call" and frame.f_code is of.__code__:
            next(count)

    with profiling(profile):
        work()
    return next(count)


def arguments_of(work, *, of):
    """Return the arguments of each call that ``work`` makes of a Python function, by name."""
    found = []

    def profile(frame, event, _argument):
        if event == "call" and frame.f_code is of.__code__:
            found.append(dict(frame.f_locals))

    with profiling(profile):
        work()
    return found


def python_calls(work):
    """Return the result of ``work`` and the number of calls that it makes of functions written in Python."""
    count = itertools.count()

    def profile(_frame, event, _argument):
        if event == "call":
            next(count)

    with profiling(profile):
        result = work()
    return result, next(count)
