"""Which conditions on which lakes were planned for nothing, so that planning them again can wait."""

from __future__ import annotations

import threading
from collections import OrderedDict
from collections.abc import Callable, Hashable
from typing import Final, NamedTuple

#: Number of kinds of conditions that are remembered.
_MOST_KINDS: Final = 1024

#: Plans of a kind that exclude nothing, one after the other, before plans of this kind wait.
_MOST_IN_VAIN: Final = 3

#: A plan that takes less time is always made.
_MIN_SECONDS: Final = 0.1

#: How long plans of a kind wait, as a multiple of the time that the last one took, and at most in seconds.
_WAIT: Final = 20
_MAX_WAIT_SECONDS: Final = 60.0


class PlansInVain(NamedTuple):
    """Plans that excluded nothing.

    Attributes:
        in_vain: Their number, one after the other.
        until: The time until which the next one waits.
        advice: What would make it faster; None if nothing is known.
    """

    in_vain: int
    until: float
    advice: str | None


class PlanMemory:
    """The outcomes of the last plans, by lake and kind of condition; thread-safe.

    It only decides whether a plan is made, never what is read. A changed lake has another key. Plans that
    exclude nothing then take at most a twentieth of the time.

    Args:
        clock: Returns the time in seconds.
    """

    def __init__(self, clock: Callable[[], float]) -> None:
        self._clock = clock
        self._lock = threading.Lock()
        self._outcomes: OrderedDict[Hashable, PlansInVain] = OrderedDict()

    def waiting(self, key: Hashable) -> PlansInVain | None:
        """Return the last plans with this key if they excluded nothing, so that the next one has to wait."""
        with self._lock:
            found = self._outcomes.get(key)
        if found is None or found.in_vain < _MOST_IN_VAIN or self._clock() >= found.until:
            return None
        return found

    def add(self, key: Hashable, seconds: float, *, has_excluded: bool, advice: str | None) -> None:
        """Remember a plan.

        Args:
            key: The lake and the kind of the condition.
            seconds: The time that the plan took.
            has_excluded: Whether it excluded anything.
            advice: What would make it faster; None if nothing is known.
        """
        with self._lock:
            if has_excluded or seconds < _MIN_SECONDS:
                self._outcomes.pop(key, None)
                return
            before = self._outcomes.pop(key, None)
            in_vain = 1 if before is None else before.in_vain + 1
            wait = min(_WAIT * seconds, _MAX_WAIT_SECONDS)
            self._outcomes[key] = PlansInVain(in_vain, self._clock() + wait, advice)
            while len(self._outcomes) > _MOST_KINDS:
                self._outcomes.popitem(last=False)
