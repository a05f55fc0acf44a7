"""The structure of a predicate over its distinct conditions.

The sets of rows or row groups of all conditions are combined in one pass over the predicate.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from functools import partial
from typing import TypeAlias, TypeVar, cast

import numpy as np

from intarsia.predicate import Bound, BoundConstant, Condition
from intarsia.predicate.bound import fold
from intarsia.records import dataclass
from intarsia.rows.bounds import Bools

_Set = TypeVar("_Set")


@dataclass(frozen=True)
class Junction:
    """AND or OR of terms; a term is the ordinal of a condition or another junction."""

    is_and: bool
    terms: Sequence[Term]


Term: TypeAlias = "int | Junction"


class Formula:
    """A predicate's structure.

    Attributes:
        conditions: The distinct conditions and constants.
        terms: The terms of a top-level AND, or the predicate itself; a row has to match all of them.
    """

    def __init__(self, predicate: Bound) -> None:
        ordinals: dict[Condition | BoundConstant, int] = {}
        root = fold(
            predicate,
            lambda node: cast("Term", ordinals.setdefault(node, len(ordinals))),
            partial(Junction, True),
            partial(Junction, False),
        )
        self.conditions: tuple[Condition | BoundConstant, ...] = tuple(ordinals)
        self.root: Term = root
        self.terms: Sequence[Term] = root.terms if isinstance(root, Junction) and root.is_and else (root,)


def conditions_of(term: Term) -> Iterator[int]:
    """Yield the conditions of a term from left to right, with repetitions."""
    if isinstance(term, int):
        yield term
    else:
        for part in term.terms:
            yield from conditions_of(part)


def combine(
    term: Term,
    sets: Sequence[_Set],
    union: Callable[[Sequence[_Set]], _Set],
    intersection: Callable[[Sequence[_Set]], _Set],
) -> _Set:
    """Compute the set of a term from the sets of its conditions.

    Args:
        sets: The set of each condition, by ordinal.
    """
    if isinstance(term, int):
        return sets[term]
    parts = [combine(part, sets, union, intersection) for part in term.terms]
    return intersection(parts) if term.is_and else union(parts)


def all_of(masks: Sequence[Bools]) -> Bools:
    """Return the conjunction of masks."""
    return np.asarray(np.logical_and.reduce(masks))


def any_of(masks: Sequence[Bools]) -> Bools:
    """Return the disjunction of masks."""
    return np.asarray(np.logical_or.reduce(masks))


def where_exclusion_matters(
    term: Term, within: Bools, possible: Sequence[Bools], stays: Sequence[Bools]
) -> list[Bools]:
    """Find the row groups where excluding a condition, along with others, could make a term false.

    Args:
        possible: For each condition, the row groups with rows that might match it.
        stays: For each condition, the row groups where no remaining proof can exclude it.

    Returns:
        A mask of row groups for each condition.
    """
    matters = list(np.zeros((len(possible), len(within)), dtype=bool))
    _mark(_undecided(term, possible, stays), within, matters)
    return matters


@dataclass(frozen=True)
class _Undecided:
    """A term, and the row groups where it might be true and can still be excluded."""

    is_open: Bools
    condition: int | None
    parts: Sequence[_Undecided]
    possible: Bools
    stays: Bools


def _undecided(term: Term, possible: Sequence[Bools], stays: Sequence[Bools]) -> _Undecided:
    if isinstance(term, int):
        return _Undecided(possible[term] & ~stays[term], term, (), possible[term], stays[term])
    parts = [_undecided(part, possible, stays) for part in term.terms]
    join = all_of if term.is_and else any_of
    possible_here, stays_here = join([part.possible for part in parts]), join([part.stays for part in parts])
    return _Undecided(possible_here & ~stays_here, None, parts, possible_here, stays_here)


def _mark(term: _Undecided, within: Bools, matters: list[Bools]) -> None:
    """Pass the row groups where a term is relevant down to its conditions."""
    inside = within & term.is_open
    if term.condition is not None:
        matters[term.condition] |= inside
    elif inside.any():
        for part in term.parts:
            _mark(part, inside, matters)
