"""The number of examples of Hypothesis: the profile scales the numbers that tests request."""

import os

from hypothesis import settings

#: The number of examples of a test that does not request one.
_USUAL = 100
_LEAST = 8

settings.register_profile("local", deadline=None, print_blob=True, max_examples=25)
settings.register_profile(
    "ci", deadline=None, print_blob=True, max_examples=25, derandomize=True, database=None
)
settings.register_profile("fast", deadline=None, print_blob=True, max_examples=10)
settings.register_profile("deep", deadline=None, print_blob=True, max_examples=1_000)
settings.load_profile(os.environ.get("HYPOTHESIS_PROFILE") or ("ci" if os.environ.get("CI") else "local"))


def examples(number: int) -> int:
    """Return the number of examples to try.

    Args:
        number: The number for a profile with 100 examples.
    """
    return max(min(number, _LEAST), number * settings().max_examples // _USUAL)
