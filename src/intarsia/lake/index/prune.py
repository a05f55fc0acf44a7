"""A predicate, evaluated on all files of a family at once.

This is `intarsia.read.prune` with a file as the granule: each condition keeps the files that might match, AND
intersects them and OR unites them. Partition values come first, then bounds, then the structures of the
embedded indexes, the cheapest first; none of them is read if it costs more than reading the files that it
could exclude.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from functools import partial
from typing import TypeVar

import numpy as np
import pyarrow as pa

from intarsia.arrow.comparison import compares_alike
from intarsia.errors import IndexPayloadError, IntarsiaError
from intarsia.file import Ignored
from intarsia.indexes.calling import call_index
from intarsia.indexes.gathering import CertainFiles
from intarsia.lake.index.folder import ignored_segment
from intarsia.lake.index.segment import Family, Gathered
from intarsia.predicate import Bound, BoundConstant, BoundNull, Condition, Path, condition_mask
from intarsia.read.formula import Formula, all_of, any_of, combine, conditions_of
from intarsia.rows.bounds import Bools, certainly_matches, might_match

_Result = TypeVar("_Result")


@dataclass(frozen=True, eq=False)
class Exclusion:
    """The files that one index excluded.

    Attributes:
        index: The name of the index.
        column: The dotted path of the column.
        files: One boolean per file.
    """

    index: str
    column: str
    files: Bools


@dataclass(frozen=True)
class FamilyVerdict:
    """The proofs of a lake index about the files of a family.

    Attributes:
        possible: For each file, False only if no row matches.
        certain: For each file, True only if all rows match.
        exclusions: The files that each index excluded, in the order of use.
        faults: Why structures were ignored.
    """

    possible: Bools
    certain: Bools
    exclusions: tuple[Exclusion, ...]
    faults: tuple[Ignored, ...]


def prune_family(
    family: Family,
    predicate: Bound,
    constants: Mapping[Path, pa.Array],
    relevant: Bools,
    file_bytes: np.ndarray,
) -> FamilyVerdict:
    """Evaluate a predicate on the files of a family.

    Args:
        family: The family.
        predicate: The predicate, bound to the types of the family.
        constants: Columns that have one value in each file: for each of them, an array of one value per file.
        relevant: The files that matter.
        file_bytes: Size of each file in bytes.
    """
    pruner = _Pruner(family, predicate, relevant.copy(), file_bytes)
    pruner.use_constants(constants)
    pruner.use_bounds()
    pruner.use_gathered()
    certain = combine(pruner.formula.root, pruner.certain, any_of, all_of)
    return FamilyVerdict(
        pruner.candidates, certain & pruner.candidates, tuple(pruner.exclusions), tuple(pruner.faults)
    )


class _Pruner:
    """For each condition, the files that might match, and those in which all rows match."""

    def __init__(self, family: Family, predicate: Bound, relevant: Bools, file_bytes: np.ndarray) -> None:
        self._family = family
        self._file_bytes = file_bytes
        self.formula = Formula(predicate)
        num_files, conditions = len(relevant), self.formula.conditions
        self._possible = [np.ones(num_files, dtype=bool) for _ in conditions]
        self.certain = [np.zeros(num_files, dtype=bool) for _ in conditions]
        self.candidates = relevant
        self.exclusions: list[Exclusion] = []
        self.faults: list[Ignored] = []
        self._open: dict[int, Condition] = {}
        self._terms_of: dict[int, list[int]] = {}
        for position, term in enumerate(self.formula.terms):
            for ordinal in dict.fromkeys(conditions_of(term)):
                self._terms_of.setdefault(ordinal, []).append(position)

    def use_constants(self, constants: Mapping[Path, pa.Array]) -> None:
        """Evaluate conditions on constants; the others remain open."""
        for ordinal, condition in enumerate(self.formula.conditions):
            if isinstance(condition, BoundConstant):
                mask = np.full(len(self.candidates), condition.value)
            elif condition.path in constants:
                values = constants[condition.path].cast(condition.type)
                mask = np.asarray(
                    condition_mask(condition, values).to_numpy(zero_copy_only=False), dtype=bool
                )
            else:
                if self._compares(condition):
                    self._open[ordinal] = condition
                continue
            column = "constant" if isinstance(condition, BoundConstant) else ".".join(condition.path)
            self._apply(ordinal, "partition", column, mask, mask)

    def _compares(self, condition: Condition) -> bool:
        """Return whether the values in indexes can be compared with the predicate's literals."""
        schema = self._family.schema
        leaf = schema.leaves_by_path.get(condition.path)
        here = None if leaf is None or not leaf.is_flat else schema.leaf_types.get(leaf.ordinal)
        return here is not None and (isinstance(condition, BoundNull) or compares_alike(here, condition.type))

    def use_bounds(self) -> None:
        """Evaluate the open conditions on the bounds of their columns."""
        for ordinal, condition in self._open.items():
            if not self.candidates.any():
                return
            found = self._or_ignore(partial(self._by_bounds, condition))
            if found is not None:
                self._apply(ordinal, "statistics", ".".join(condition.path), *found)

    def _by_bounds(self, condition: Condition) -> tuple[Bools, Bools] | None:
        bounds = self._family.bounds(condition.path)
        if bounds is None:
            return None
        return might_match(condition, bounds.bounds), certainly_matches(condition, bounds.bounds)

    def use_gathered(self) -> None:
        """Evaluate the open conditions on gathered structures, the cheapest first."""
        offers: list[tuple[int, int, Gathered]] = []
        for ordinal, condition in self._open.items():
            if self._undecided(ordinal).any():
                found = self._or_ignore(partial(self._family.gathered, condition.path)) or []
                for structure in found:
                    cost = self._or_ignore(partial(_cost, structure, condition))
                    if cost is not None:
                        offers.append((cost, ordinal, structure))
        for cost, ordinal, structure in sorted(offers, key=lambda offer: offer[0]):
            covered = np.zeros(len(self.candidates), dtype=bool)
            covered[structure.files] = True
            if cost < self._file_bytes[covered & self._undecided(ordinal)].sum():
                self._evaluate(ordinal, structure)

    def _evaluate(self, ordinal: int, structure: Gathered) -> None:
        condition, index = self._open[ordinal], structure.index
        possible = self._or_ignore(lambda: _checked(structure, index.candidate_files(condition)))
        certain = None
        if isinstance(index, CertainFiles):
            certain = self._or_ignore(lambda: _checked(structure, index.certain_files(condition)))
        if possible is None and certain is None:
            return
        num_files = len(self.candidates)
        kept, proven = np.ones(num_files, dtype=bool), np.zeros(num_files, dtype=bool)
        if possible is not None:
            kept[structure.files] = possible
        if certain is not None:
            proven[structure.files] = certain
        self._apply(ordinal, structure.name, ".".join(structure.column), kept, proven)

    def _undecided(self, ordinal: int) -> Bools:
        """Return the candidates for which a condition is neither proven nor excluded."""
        return self.candidates & self._possible[ordinal] & ~self.certain[ordinal]

    def _apply(self, ordinal: int, index: str, column: str, possible: Bools, certain: Bools) -> None:
        self.certain[ordinal] = self.certain[ordinal] | certain
        self._possible[ordinal] = self._possible[ordinal] & possible
        before = self.candidates
        for term_ordinal in self._terms_of[ordinal]:
            term = combine(self.formula.terms[term_ordinal], self._possible, any_of, all_of)
            self.candidates = self.candidates & term
        gone = before & ~self.candidates
        if gone.any():
            self.exclusions.append(Exclusion(index, column, gone))

    def _or_ignore(self, call: Callable[[], _Result]) -> _Result | None:
        """Call a structure, or ignore it with a fault."""
        try:
            return call_index(call)
        except (IntarsiaError, OSError) as error:
            self.faults.append(ignored_segment(self._family.path, error))
            return None


def _cost(structure: Gathered, condition: Condition) -> int:
    return int(structure.index.cost_bytes(condition))


def _checked(structure: Gathered, answer: Bools | None) -> Bools | None:
    """Check the result of a structure, whose class may come from any package.

    Raises:
        IndexPayloadError: If it is not one boolean for each file.
    """
    if answer is None:
        return None
    if answer.dtype != np.bool_ or answer.shape != structure.files.shape:
        raise IndexPayloadError(
            f"{structure.name} returned {answer.shape} files, not {structure.files.shape}",
            reason="other-files",
        )
    return answer
