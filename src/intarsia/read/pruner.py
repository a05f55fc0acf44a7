"""The one loop that prunes: proofs reduce the rows that might match each condition, the cheapest proof first.

It does not depend on what a granule is. Before footers are read, a file is a granule of one row; afterwards,
the granules are the row groups of one file or of many. The proofs differ: partition values, the log of a
table, a lake index; then statistics, Bloom filters, dictionaries, page indexes and embedded indexes.

The contract of every proof: a row is excluded only if it provably does not match.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from dataclasses import field
from functools import partial
from itertools import count, repeat
from operator import attrgetter
from typing import Final, NamedTuple, TypeAlias, TypeVar

import numpy as np
import pyarrow as pa

from intarsia.arrow.comparison import compares_alike, flags_of
from intarsia.file.schema import FileSchema
from intarsia.format.footer import Leaf
from intarsia.format.page_index import Int64s
from intarsia.indexes.granules import granule_rows
from intarsia.indexes.proof import Proof, Wanted
from intarsia.predicate import Bound, BoundConstant, BoundNull, Condition, Path, condition_mask
from intarsia.predicate.bound import fold, on_values
from intarsia.records import dataclass
from intarsia.rows.bounds import Bools
from intarsia.rows.selection import RowSelection, intersection, union
from intarsia.tuning import LOCAL_REQUEST_BYTES, OPENED_BYTES, PAGE_BYTES

# --- the structure of a predicate over its distinct conditions ----------------------------------------------

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


# --- proofs -------------------------------------------------------------------------------------------------

#: For each condition that a proof could disprove, by ordinal, the granules where it could.
_Reach: TypeAlias = "dict[int, Bools]"


@dataclass(frozen=True)
class PruneStep:
    """The rows that one index excluded.

    Attributes:
        index: The name of the index: ``"statistics"``, ``"column_index"``, ``"bloom_filter"``,
            ``"dictionary"``, or the name of an embedded index.
        column: The dotted path of the column; if several columns of an OR exclude rows only together, the
            last of them.
        before: The candidate rows before the index was used.
    """

    index: str
    column: str
    before: RowSelection
    after: RowSelection


@dataclass(frozen=True, eq=False)
class Constants:
    """Columns that have one value in all rows of a file: partition columns, and columns that a file lacks.

    Attributes:
        values: The values of each column, one for each file.
        edges: The first row of each file, and the end of the last one.
        is_known: For some of the columns, the files whose value is known; in the others, all rows are
            possible.
    """

    values: Mapping[Path, pa.Array]
    edges: Int64s
    is_known: Mapping[Path, Bools] = field(default_factory=dict)

    def judge(self, condition: Condition | BoundConstant) -> tuple[RowSelection, RowSelection] | None:
        """Return the rows that might match a condition and those that do; None if it depends on the row."""
        if isinstance(condition, BoundConstant):
            first, last = int(self.edges[0]), int(self.edges[-1])
            rows = RowSelection.of_range(first, last) if condition.value else RowSelection.none()
            return rows, rows
        if condition.path not in self.values:
            return None
        # of many files, few have different values
        matches = flags_of(condition_mask(condition, self.values[condition.path].cast(condition.type)))
        is_known = self.is_known.get(condition.path)
        if is_known is None:
            rows = granule_rows(self.edges, matches)
            return rows, rows
        return granule_rows(self.edges, matches | ~is_known), granule_rows(self.edges, matches & is_known)


def compares(schema: FileSchema, condition: Condition) -> bool:
    """Return whether the values in indexes can be compared with the literals of a condition.

    If the files of a table differ, a column may have another type than the one the predicate is bound to.
    """
    leaf = schema.leaves_of_values.get(condition.path)
    here = None if leaf is None else schema.value_types.get(leaf.ordinal)
    return here is not None and (isinstance(condition, BoundNull) or compares_alike(here, condition.type))


class _Offer(NamedTuple):
    """A proof that is worth its cost.

    Attributes:
        wanted: The conditions to disprove, with the granules.
        price: The cost in bytes; requests, decoded pages and opened indexes are converted to bytes.
    """

    proof: Proof
    wanted: Wanted
    price: int


_PRICE, _IS_LOOKUP = attrgetter("price"), attrgetter("is_lookup")


class Pruner:
    """The state of pruning: the rows that might match each condition, which proofs reduce.

    Whether a proof is worth its cost is computed with masks that have one value for each granule.

    Args:
        edges: The first row of each granule, and the end of the last one.
        bytes_of: Estimates the bytes that a scan of some rows would read, for each granule. An index that is
            larger than the bytes it could save is not read.
        candidates: The relevant rows; None for all.
        request_bytes: The bytes that could be read in the time of a request.
        column_bytes: Returns the size of a leaf in each granule; None if no proof asks for it.

    Attributes:
        candidates: A superset of the rows that match.
        steps: The rows that each index excluded, in the order of use, without indexes that excluded nothing.
    """

    def __init__(
        self,
        predicate: Bound,
        edges: Int64s,
        *,
        bytes_of: Callable[[RowSelection], Int64s],
        candidates: RowSelection | None = None,
        request_bytes: int = 0,
        column_bytes: Callable[[Leaf], Int64s] | None = None,
    ) -> None:
        self._edges = edges
        self._request_bytes = max(request_bytes, LOCAL_REQUEST_BYTES)
        self._group_bytes = bytes_of
        self._leaf_bytes = column_bytes
        self._formula = Formula(predicate)
        conditions = self._formula.conditions
        self._ordinals = dict(zip(conditions, range(len(conditions)), strict=True))
        everything, nothing = RowSelection.all(int(edges[-1])), RowSelection.none()
        self._possible = [everything] * len(conditions)
        self._certain = [nothing] * len(conditions)
        self._proven = [nothing] * len(conditions)
        self._conditions: dict[int, Condition] = {}  # as proofs evaluate them
        self._terms_of: dict[int, list[int]] = {}
        for position, term in enumerate(self._formula.terms):
            for ordinal in dict.fromkeys(conditions_of(term)):
                self._terms_of.setdefault(ordinal, []).append(position)
        self._states: dict[int, _State] = {}
        self._bytes_by_group: Int64s | None = None
        self._rows_by_group: Int64s | None = None
        self.steps: list[PruneStep] = []
        self.candidates = everything if candidates is None else candidates

    @property
    def certain(self) -> RowSelection:
        """The candidates that are proven to match."""
        return combine(self._formula.root, self._certain, union, intersection) & self.candidates

    @property
    def proven(self) -> RowSelection:
        """The candidates that are proven to match, whether or not the page index is correct."""
        return combine(self._formula.root, self._proven, union, intersection) & self.candidates

    # --- proofs ------------------------------------------------------------------------------------

    @property
    def paths(self) -> frozenset[Path]:
        """The paths of the values whose conditions proofs evaluate."""
        return frozenset(condition.path for condition in self._conditions.values())

    def use_constants(
        self, constants: Constants, compares: Callable[[Condition], bool], name: str | None = None
    ) -> None:
        """Evaluate the conditions on constants; the proofs evaluate the others.

        Args:
            compares: Returns whether proofs can evaluate a condition.
            name: The name in steps; None without a step.
        """
        before, used = self.candidates, set[str]()
        for ordinal, condition in enumerate(self._formula.conditions):
            judged = constants.judge(condition)
            if judged is not None:
                self._possible[ordinal], self._certain[ordinal] = judged
                self._proven[ordinal] = judged[1]
                if not isinstance(condition, BoundConstant):
                    used.add(".".join(condition.path))
            elif not isinstance(condition, BoundConstant):
                on_value = on_values(condition)
                if compares(on_value):
                    self._conditions[ordinal] = on_value
                    self._ordinals[on_value] = ordinal
        self.candidates = before & combine(self._formula.root, self._possible, union, intersection)
        if name is not None and self.candidates.num_rows < before.num_rows:
            self.steps.append(PruneStep(name, ", ".join(sorted(used)) or "constant", before, self.candidates))

    def use(self, proof: Proof) -> None:
        """Use a proof that costs nothing."""
        self._apply(proof, self._wanted(self._reach(proof), self._groups))

    def use_all(self, proofs: Sequence[Proof], below: Callable[[RowSelection], int] | None = None) -> None:
        """Use the cheapest proof that saves more than it costs, until there is none.

        Args:
            below: Returns the price that a proof must be below, given the candidates; None for any.
        """
        reaches = {proof: reach for proof in proofs if (reach := self._reach(proof))}
        while offers := self._offers(reaches):
            best = min(offers, key=_PRICE)
            if below is not None and best.price >= below(self.candidates):
                return
            del reaches[best.proof]
            self._apply(best.proof, best.wanted)

    def _reach(self, proof: Proof) -> _Reach:
        found: _Reach = {}
        for ordinal, condition in self._conditions.items():
            reach = proof.reach(condition)
            if reach is not None and any_of(reach):
                found[ordinal] = reach
        return found

    def _offers(self, reaches: Mapping[Proof, _Reach]) -> list[_Offer]:
        """Return the proofs that save more than they cost, even without the proofs that do not."""
        groups = self._groups
        while True:
            offers, matters = list[_Offer](), None
            if any(map(_IS_LOOKUP, reaches)):
                matters = self._where_exclusion_matters(groups, reaches.values())
            for proof, reach in reaches.items():
                wanted = self._wanted(reach, groups, matters if proof.is_lookup else None)
                if wanted:
                    cost = proof.cost(wanted)
                    least = cost.num_bytes if cost.part_bytes is None else cost.part_bytes
                    if least == 0 or least < self.num_bytes()[any_of(list(wanted.values()))].sum():
                        price = cost.num_bytes + cost.requests * self._request_bytes
                        price += cost.pages * PAGE_BYTES + cost.opened * OPENED_BYTES
                        offers.append(_Offer(proof, wanted, price))
            if not offers or len(offers) == len(reaches):
                return offers
            reaches = {offer.proof: reaches[offer.proof] for offer in offers}

    def _wanted(self, reach: _Reach, groups: Bools, matters: Sequence[Bools] | None = None) -> Wanted:
        """Return the conditions that a proof could narrow, and the granules where that is relevant."""
        wanted: dict[Condition, Bools] = {}
        for ordinal, within in reach.items():
            mask = within & self._state(ordinal).is_open & groups
            if matters is not None:
                mask = mask & matters[ordinal]
            if any_of(mask):
                wanted[self._conditions[ordinal]] = mask
        return wanted

    def _where_exclusion_matters(self, groups: Bools, reaches: Collection[_Reach]) -> list[Bools]:
        states = [self._state(ordinal) for ordinal in range(len(self._possible))]
        possible, stays = [state.is_possible for state in states], [state.is_whole for state in states]
        for reach in reaches:
            for ordinal, within in reach.items():
                stays[ordinal] = stays[ordinal] & ~(within & states[ordinal].is_open)
        return where_exclusion_matters(self._formula.root, groups, possible, stays)

    def _apply(self, proof: Proof, wanted: Wanted) -> None:
        """Use a proof, and combine its results for all conditions."""
        narrowed: dict[int, int] = {}  # the last condition of each term that was narrowed
        for condition, possible, certain in proof.evaluate(wanted, self):
            ordinal = self._ordinals[condition]
            decides_row = self._conditions[ordinal] is self._formula.conditions[ordinal]
            if decides_row and certain is not None and not certain.is_empty:
                self._certain[ordinal] = self._certain[ordinal] | certain
                if not proof.counts_pages:
                    self._proven[ordinal] = self._proven[ordinal] | certain
                self._states.pop(ordinal, None)
            if possible is not None:
                left = self._possible[ordinal] & possible
                if left.num_rows < self._possible[ordinal].num_rows:
                    self._possible[ordinal] = left
                    self._states.pop(ordinal, None)
                    narrowed |= dict.fromkeys(self._terms_of[ordinal], ordinal)
        for term_ordinal, ordinal in narrowed.items():
            before = self.candidates
            after = before & combine(self._formula.terms[term_ordinal], self._possible, union, intersection)
            if after.num_rows < before.num_rows:
                column = self._column(ordinal)
                self.candidates = after
                self.steps.append(PruneStep(proof.name, column, before, after))
        self._bytes_by_group = self._rows_by_group = None

    def _column(self, ordinal: int) -> str:
        condition = self._formula.conditions[ordinal]
        assert not isinstance(condition, BoundConstant)
        return ".".join(condition.path)

    # --- by granules -------------------------------------------------------------------------------

    @property
    def _groups(self) -> Bools:
        """The granules with candidate rows."""
        return self.candidates.overlaps(self._edges[:-1], self._edges[1:])

    def _state(self, ordinal: int) -> _State:
        if ordinal not in self._states:
            starts, stops = self._edges[:-1], self._edges[1:]
            possible = self._possible[ordinal]
            is_possible = possible.overlaps(starts, stops)
            doubtful = possible - self._certain[ordinal]
            self._states[ordinal] = _State(
                is_possible,
                is_possible & possible.covers(starts, stops),
                is_possible if doubtful is possible else doubtful.overlaps(starts, stops),
            )
        return self._states[ordinal]

    def num_bytes(self) -> Int64s:
        """See `Savings`."""
        if self._bytes_by_group is None:
            self._bytes_by_group = self._group_bytes(self.candidates)
        return self._bytes_by_group

    def column_bytes(self, leaf: Leaf) -> Int64s:
        """See `Savings`."""
        assert self._leaf_bytes is not None
        shares = self.num_rows() / np.maximum(1, np.diff(self._edges))
        return np.asarray(self._leaf_bytes(leaf) * shares, dtype=np.int64)

    def num_rows(self) -> Int64s:
        """See `Savings`."""
        if self._rows_by_group is None:
            self._rows_by_group = self.candidates.count_between(self._edges)
        return self._rows_by_group

    def excluded_if(self, excluded: Wanted) -> Bools:
        """See `Savings`."""
        possible = [self._state(ordinal).is_possible for ordinal in range(len(self._possible))]
        for condition, groups in excluded.items():
            ordinal = self._ordinals[condition]
            possible[ordinal] = possible[ordinal] & ~groups
        return self._groups & ~combine(self._formula.root, possible, any_of, all_of)


class _State(NamedTuple):
    """The state of a condition, for each granule.

    Attributes:
        is_possible: Whether any row might match it.
        is_whole: Whether every row might match it.
        is_open: Whether some rows might match it and are not certain.
    """

    is_possible: Bools
    is_whole: Bools
    is_open: Bools


def over_files(
    predicate: Bound,
    sizes: Int64s,
    relevant: Bools,
    constants: Mapping[Path, pa.Array],
    compares: Callable[[Condition], bool],
    is_known: Mapping[Path, Bools] | None = None,
) -> Pruner:
    """Return a pruner whose granules are files that have not been opened; a file is one row.

    Args:
        sizes: The size of each file in bytes.
        constants: Columns that have one value in each file: for each of them, an array of one value per file.
        compares: See `Pruner.use_constants`.
        is_known: See `Constants`.
    """
    edges = np.arange(len(sizes) + 1)
    pruner = Pruner(
        predicate,
        edges,
        bytes_of=lambda files: np.where(files.to_mask(len(sizes)), sizes, 0),
        candidates=RowSelection.from_mask(relevant),
    )
    pruner.use_constants(Constants(constants, edges, is_known or {}), compares, "partition")
    return pruner
