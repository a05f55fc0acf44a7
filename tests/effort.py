"""The number of examples of Hypothesis: the profile scales the numbers that tests request."""

import contextlib
import os

from hypothesis import HealthCheck, Phase, settings

#: The number of examples of a test that does not request one.
_USUAL = 100
_LEAST = 8

_DEEP = 1_000

# neither a deadline nor a check of the time that examples take: on a busy machine, both fail at random
_ANY_TIME = settings(deadline=None, suppress_health_check=[HealthCheck.too_slow], print_blob=True)

settings.register_profile("local", _ANY_TIME, max_examples=20)
# the same examples in each run, so that fewer are enough
settings.register_profile("ci", _ANY_TIME, max_examples=12, derandomize=True, database=None)
settings.register_profile("fast", _ANY_TIME, max_examples=10)
settings.register_profile("deep", _ANY_TIME, max_examples=_DEEP)
settings.load_profile(os.environ.get("HYPOTHESIS_PROFILE") or ("ci" if os.environ.get("CI") else "local"))


def examples(number: int, *, deep: int | None = None) -> int:
    """Return the number of examples to try.

    Args:
        number: The number for a profile with 100 examples.
        deep: The number for the profile ``deep``; by default, in proportion.
    """
    if deep is not None and settings().max_examples == _DEEP:
        return deep
    return max(min(number, _LEAST), number * settings().max_examples // _USUAL)


@contextlib.contextmanager
def without_shrinking():
    """Do not look for a smaller example after a failure that a test expects, which takes seconds."""
    before = settings()
    settings.register_profile("without shrinking", before, phases=[Phase.explicit, Phase.generate])
    settings.register_profile("before", before)
    settings.load_profile("without shrinking")
    try:
        yield
    finally:
        settings.load_profile("before")
