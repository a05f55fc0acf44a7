"""How far a run over one file is, told to whoever watches."""

from __future__ import annotations

from collections.abc import Callable
from typing import TypeAlias

#: Called with units done, units in all, and what is being worked on.
Progress: TypeAlias = Callable[[int, int, str], None]


def no_progress(done_units: int, total_units: int, label: str) -> None:
    """Nobody is watching."""
