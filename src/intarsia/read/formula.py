"""The structure of a predicate over its distinct conditions.

The sets of rows or row groups of all conditions are combined in one pass over the predicate.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Callable, Iterator, Sequence
from functools import partial
from itertools import count, repeat
from typing import Final, NamedTuple, TypeAlias, TypeVar

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
        ordinals: dict[Condition | BoundConstant, Term] = defaultdict(count().__next__)
        root = fold(predicate, ordinals.__getitem__, partial(Junction, True), partial(Junction, False))
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


#: Return the conjunction, and the disjunction, of masks or of the items of one mask.
all_of: Final[Callable[[Sequence[Bools] | Bools], Bools]] = np.logical_and.reduce
any_of: Final[Callable[[Sequence[Bools] | Bools], Bools]] = np.logical_or.reduce


class _Known(NamedTuple):
    """What is known of a term; see `where_exclusion_matters`.

    Attributes:
        parts: The terms of a junction, or the ordinal of a condition.
    """

    possible: Bools
    stays: Bools
    parts: Sequence[_Known] | int


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

    def join(of_masks: Callable[[Sequence[Bools]], Bools], parts: Sequence[_Known]) -> _Known:
        possible, stays, _ = zip(*parts, strict=True)
        return _Known(of_masks(possible), of_masks(stays), parts)

    matters = list(np.zeros((len(possible), len(within)), dtype=bool))
    leaves = list(map(_Known, possible, stays, range(len(possible))))
    waiting = [(within, combine(term, leaves, partial(join, any_of), partial(join, all_of)))]
    while waiting:
        outside, known = waiting.pop()
        inside = outside & known.possible & ~known.stays
        if isinstance(known.parts, int):
            matters[known.parts] |= inside
        elif inside.any():
            waiting += zip(repeat(inside), known.parts)
    return matters
