"""The facts of a lake index as proofs whose granules are the files of a family."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from functools import partial
from typing import TypeVar

import numpy as np

from intarsia.errors import IndexPayloadError, IntarsiaError
from intarsia.file import Ignored
from intarsia.indexes.proof import ProofCost, Savings, Verdict, Wanted, call_index
from intarsia.lake.index.folder import ignored_segment
from intarsia.lake.index.segment import Family, FileBounds, Gathered
from intarsia.predicate import Condition, Path
from intarsia.rows.bounds import Bools, certainly_matches, might_match
from intarsia.rows.selection import RowSelection

_Result = TypeVar("_Result")


class FamilyProofs:
    """The proofs about the files of a family.

    Args:
        family: The family.

    Attributes:
        faults: Why structures were ignored.
    """

    def __init__(self, family: Family) -> None:
        self.family = family
        self.faults: list[Ignored] = []
        self._columns: dict[Path, list[Gathered]] = {}

    @property
    def bounds(self) -> BoundsProof:
        """The bounds of the columns, which are read together with the family."""
        return BoundsProof(self)

    def gathered(self, paths: frozenset[Path]) -> list[GatheredProof]:
        """Return the structures on some columns."""
        found = [self.call(partial(self.family.gathered, path)) or [] for path in sorted(paths)]
        return [GatheredProof(self, structure) for of_column in found for structure in of_column]

    def call(self, call: Callable[[], _Result]) -> _Result | None:
        """Call a structure, or ignore it with a fault."""
        try:
            return call_index(call)
        except (IntarsiaError, OSError) as error:
            self.faults.append(ignored_segment(self.family.path, error))
            return None


class BoundsProof:
    """The bounds of the values of each file."""

    name = "statistics"
    is_lookup = False
    counts_pages = False

    def __init__(self, proofs: FamilyProofs) -> None:
        self._proofs = proofs
        self._found: dict[Path, FileBounds | None] = {}

    def reach(self, condition: Condition) -> Bools | None:
        """Return every file, if the column has bounds."""
        leaf = self._proofs.family.schema.leaves_by_path.get(condition.path)
        if leaf is None or not leaf.is_flat:
            return None
        if condition.path not in self._found:
            read = partial(self._proofs.family.bounds, condition.path)
            self._found[condition.path] = self._proofs.call(read)
        found = self._found[condition.path]
        return None if found is None else np.ones(len(found.bounds), dtype=bool)

    def cost(self, wanted: Wanted) -> ProofCost:  # noqa: ARG002
        """Return zero: they have been read."""
        return ProofCost(0, 0)

    def evaluate(self, wanted: Wanted, savings: Savings) -> Iterator[Verdict]:  # noqa: ARG002
        """Evaluate conditions on the bounds."""
        for condition in wanted:
            found = self._found[condition.path]
            if found is not None:
                judged = self._proofs.call(partial(_judge, condition, found))
                if judged is not None:
                    yield judged


def _judge(condition: Condition, found: FileBounds) -> Verdict:
    possible, certain = might_match(condition, found.bounds), certainly_matches(condition, found.bounds)
    return Verdict(condition, RowSelection.from_mask(possible), RowSelection.from_mask(certain))


class GatheredProof:
    """A structure of digests of embedded indexes."""

    is_lookup = False
    counts_pages = False

    def __init__(self, proofs: FamilyProofs, structure: Gathered) -> None:
        self._proofs = proofs
        self._structure = structure
        self._costs: dict[Condition, int | None] = {}
        self.name = structure.name

    def reach(self, condition: Condition) -> Bools | None:
        """Return the files that the structure covers."""
        if condition.path != self._structure.column or self._cost_of(condition) is None:
            return None
        reach = np.zeros(len(self._proofs.family.positions), dtype=bool)
        reach[self._structure.files] = True
        return reach

    def _cost_of(self, condition: Condition) -> int | None:
        if condition not in self._costs:
            call = partial(self._structure.index.cost_bytes, condition)
            found = self._proofs.call(lambda: int(call()))
            self._costs[condition] = found
        return self._costs[condition]

    def cost(self, wanted: Wanted) -> ProofCost:
        """Return the bytes that the evaluation of the conditions reads; each is evaluated separately."""
        costs = [self._cost_of(condition) or 0 for condition in wanted]
        return ProofCost(sum(costs), 0, part_bytes=min(costs))

    def evaluate(self, wanted: Wanted, savings: Savings) -> Iterator[Verdict]:
        """Evaluate the conditions that cost less than reading the files that they could exclude."""
        for condition, files in wanted.items():
            cost = self._cost_of(condition) or 0
            if cost < sum(map(savings.bytes_of, np.flatnonzero(files).tolist())):
                yield self._evaluated(condition)

    def _evaluated(self, condition: Condition) -> Verdict:
        index = self._structure.index
        possible = self._proofs.call(lambda: self._checked(index.candidate_files(condition)))
        certain = self._proofs.call(lambda: self._checked(index.certain_files(condition)))
        return Verdict(condition, self._rows(possible, others=True), self._rows(certain, others=False))

    def _rows(self, answer: Bools | None, *, others: bool) -> RowSelection | None:
        if answer is None:
            return None
        mask = np.full(len(self._proofs.family.positions), others)
        mask[self._structure.files] = answer
        return RowSelection.from_mask(mask)

    def _checked(self, answer: Bools | None) -> Bools | None:
        """Check the result of a structure, whose class may come from any package.

        Raises:
            IndexPayloadError: If it is not one boolean for each file.
        """
        structure = self._structure
        if answer is not None and (answer.dtype != np.bool_ or answer.shape != structure.files.shape):
            raise IndexPayloadError(
                f"{structure.name} returned {answer.shape} files, not {structure.files.shape}",
                reason="other-files",
            )
        return answer
