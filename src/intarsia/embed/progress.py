"""The callback that reports progress on one file."""

from __future__ import annotations

from collections.abc import Callable
from typing import TypeAlias

#: Called with the units done, the total number of units, and a label of the current one.
Progress: TypeAlias = Callable[[int, int, str], None]


def no_progress(done_units: int, total_units: int, label: str) -> None:
    """Ignore the progress."""
