"""Count function calls, as a measure of work that does not depend on the machine."""

from __future__ import annotations

import sys


def calls(work, *, of=None):
    """Return the number of calls that ``work`` makes: of one Python function, or of all functions."""
    count = 0

    def profile(frame, event, _argument):
        nonlocal count
        if of is None:
            count += event in ("call", "c_call")
        else:
            count += event == "call" and frame.f_code is of.__code__

    sys.setprofile(profile)
    try:
        work()
    finally:
        sys.setprofile(None)
    return count
