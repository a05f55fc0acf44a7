"""Pruning with all indexes of a file: which rows might match, and which index excluded the others.

Every index that can exclude rows is a `Proof`, which has a cost and the row groups where it could disprove a
condition. Statistics are free and are used first. A loop then uses the cheapest proof that can still
save more bytes than it costs, until there is none. Each condition keeps the rows that no proof has
excluded.
AND intersects these rows and OR unites them, so that pruning works across columns.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from typing import NamedTuple, TypeAlias

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from intarsia.arrow.comparison import compares_alike
from intarsia.file import ParquetInput
from intarsia.file.joined import JoinedInput
from intarsia.format.footer import Leaf
from intarsia.indexes.bloom import BloomFilters
from intarsia.indexes.column_index import ColumnIndexes
from intarsia.indexes.dictionary import Dictionaries
from intarsia.indexes.embedded import EmbeddedIndexes, EntryProof
from intarsia.indexes.proof import LOCAL_REQUEST_BYTES, Proof, Wanted
from intarsia.indexes.statistics import RowGroupStatistics
from intarsia.predicate import Bound, BoundConstant, BoundNull, Condition, Path, condition_mask
from intarsia.read.formula import Formula, all_of, any_of, combine, conditions_of, where_exclusion_matters
from intarsia.read.known import Known, PruneStep
from intarsia.rows.bounds import Bools
from intarsia.rows.selection import RowSelection, intersection, union

#: The cost of decoding a page, in bytes that could be read in that time.
DECODING_BYTES = 1 << 14

#: More bytes than any index has; the sum over all row groups of a file fits into 64 bits.
_UNLIMITED_BYTES = 1 << 40

Int64s = npt.NDArray[np.int64]

#: For each condition that a proof could disprove, by ordinal, the row groups where it could.
_Reach: TypeAlias = "dict[int, Bools]"


@dataclass(frozen=True)
class Pruned:
    """The result of pruning a file.

    Attributes:
        candidates: A superset of the rows that match.
        certain: Rows that are proven to match without reading them.
        proven: The certain rows whose proof does not depend on the page index.
        steps: The rows that each index excluded, in the order of use, without indexes that excluded nothing.
        index_bytes: Bytes that were read from indexes.
        dictionary_pages: Dictionary pages that were read, by offset; a scan of their row groups needs them
            again.
    """

    candidates: RowSelection
    certain: RowSelection
    proven: RowSelection
    steps: tuple[PruneStep, ...]
    index_bytes: int
    dictionary_pages: Mapping[int, bytes]


def prune(
    file: ParquetInput,
    predicate: Bound,
    *,
    constants: Mapping[Path, pa.Scalar] | None = None,
    group_bytes: Callable[[RowSelection], Int64s] | None = None,
    embedded: EmbeddedIndexes | None = None,
    known: Known | None = None,
) -> Pruned:
    """Find the rows that might match, with the indexes of a file.

    Args:
        file: The file.
        predicate: The predicate.
        constants: Columns that are not in the file and have one value in all of its rows: partition columns,
            and columns that only other files of the table have (null).
        group_bytes: Estimates the bytes that a scan of some rows would read, for each row group.
            An index that is larger than the bytes it could save is not read.
        embedded: The embedded indexes of the file, if they are open already.
        known: Facts that have been proven before; their indexes are not used again.

    Returns:
        The rows that might match, and the indexes that excluded the others.
    """
    bytes_before = file.source.counts.bytes
    known = known or Known()
    pages: Mapping[int, bytes] = known.dictionary_pages
    pruner = _Pruner(file, predicate, group_bytes, known)
    pruner.use_constants(partial(_where_constant, file, constants or {}))
    if RowGroupStatistics.name not in known.used:
        pruner.use(RowGroupStatistics(file))
    if not pruner.candidates.is_empty:
        embedded = embedded or EmbeddedIndexes(file)
        dictionaries = Dictionaries(file, embedded.lists_values)
        paths = predicate.paths()
        about = [entry for entry in embedded.entries if not paths.isdisjoint(entry.columns)]
        proofs: list[Proof] = [ColumnIndexes(file), BloomFilters(file), dictionaries]
        proofs += [EntryProof(file, embedded, entry) for entry in about]
        pruner.use_all([proof for proof in proofs if proof.name not in known.used])
        pages = {**pages, **dictionaries.pages}
    return pruner.result(bytes_before, pages)


def prune_joined(
    file: JoinedInput,
    predicate: Bound,
    constants: Mapping[Path, pa.Array],
    group_bytes: Callable[[RowSelection], Int64s],
    *,
    reads: bool,
    min_files: int = 1,
) -> PrunedTogether:
    """Find the rows that might match in many files at once, with the indexes of single row groups.

    Args:
        file: The files, as one file.
        predicate: The predicate, bound to the types of the files.
        constants: Columns that have one value in each file: for each of them, an array of one value per file.
        group_bytes: See `prune`.
        reads: Whether indexes outside the footers are read.
        min_files: An index that could exclude rows of fewer files is not read.
    """
    edges = file.joined.group_edges[:-1]

    def is_read(groups: Bools) -> bool:
        return int(np.logical_or.reduceat(groups, edges).sum()) >= min_files

    bytes_before = file.source.counts.bytes
    pruner = _Pruner(file, predicate, group_bytes, Known(), is_read)
    pruner.use_constants(partial(_where_constant_by_file, file, constants))
    pruner.use(RowGroupStatistics(file))
    dictionaries = Dictionaries(file)
    if reads and not pruner.candidates.is_empty:
        pruner.use_all([BloomFilters(file), dictionaries])
    return PrunedTogether(
        pruner.result(bytes_before, dictionaries.pages),
        pruner.known(dictionaries.pages),
        reads and not pruner.has_left_out,
    )


class PrunedTogether(NamedTuple):
    """The result of pruning many files at once.

    Attributes:
        pruned: The rows that might match.
        known: The facts about all rows; see `Known.of_file`.
        has_all: Whether all indexes that are worth reading were used.
    """

    pruned: Pruned
    known: Known
    has_all: bool


class _Offer(NamedTuple):
    """A proof that is worth its cost.

    Attributes:
        proof: The proof.
        wanted: The conditions to disprove, with the row groups.
        price: The cost in bytes; requests and decoded pages are converted to bytes.
    """

    proof: Proof
    wanted: Wanted
    price: int


class _Pruner:
    """The state of pruning: the rows that might match each condition, which proofs reduce.

    Whether a proof is worth its cost is computed by row group, with masks that have one value per row group.

    Args:
        file: The file.
        predicate: The predicate.
        group_bytes: See `prune`.
        known: Facts that have been proven before.
        is_read: Returns whether an index is read that could exclude some row groups.

    Attributes:
        has_left_out: Whether an index was not read because of ``is_read``.
        steps: See `Pruned`.
        candidates: See `Pruned`.
    """

    def __init__(
        self,
        file: ParquetInput,
        predicate: Bound,
        group_bytes: Callable[[RowSelection], Int64s] | None,
        known: Known,
        is_read: Callable[[Bools], bool] = lambda _: True,
    ) -> None:
        self._file = file
        self._is_read = is_read
        self.has_left_out = False
        self._is_unlimited = group_bytes is None
        self._group_bytes = group_bytes or self._unlimited
        self._formula = Formula(predicate)
        conditions = self._formula.conditions
        self._ordinals = {condition: ordinal for ordinal, condition in enumerate(conditions)}
        everything, nothing = RowSelection.all(file.footer.num_rows), RowSelection.none()
        self._possible = [known.possible.get(condition, everything) for condition in conditions]
        self._certain = [known.certain.get(condition, nothing) for condition in conditions]
        self._proven = list(self._certain)
        self._conditions: dict[int, Condition] = {}
        self._terms_of: dict[int, list[int]] = {}
        for position, term in enumerate(self._formula.terms):
            for ordinal in dict.fromkeys(conditions_of(term)):
                self._terms_of.setdefault(ordinal, []).append(position)
        self._edges = file.footer.row_group_starts
        self._states: dict[int, _State] = {}
        self._bytes: dict[bytes, int] = {}
        self._bytes_by_group: Int64s | None = None
        self._rows_by_group: Int64s | None = None
        self._used: set[str] = set()
        self.steps: list[PruneStep] = list(known.steps)
        self.candidates = everything

    def use_constants(self, where: Callable[[Condition | BoundConstant], RowSelection | None]) -> None:
        """Evaluate conditions on constants; indexes evaluate the others.

        Args:
            where: Returns the rows in which a condition on a constant is true; None for other conditions.
        """
        for ordinal, condition in enumerate(self._formula.conditions):
            rows = where(condition)
            if rows is not None:
                self._possible[ordinal] = self._certain[ordinal] = self._proven[ordinal] = rows
            elif not isinstance(condition, BoundConstant) and self._compares(condition):
                self._conditions[ordinal] = condition
        self.candidates = combine(self._formula.root, self._possible, union, intersection)

    def result(self, bytes_before: int, dictionary_pages: Mapping[int, bytes]) -> Pruned:
        """Return the result for all conditions together.

        Args:
            bytes_before: The bytes that had been read from the file before pruning began.
            dictionary_pages: The dictionary pages that were read, by offset.
        """
        index_bytes = self._file.source.counts.bytes - bytes_before
        steps = tuple(self.steps)
        return Pruned(self.candidates, self.certain, self.proven, steps, index_bytes, dictionary_pages)

    def known(self, dictionary_pages: Mapping[int, bytes]) -> Known:
        """Return the facts that have been proven so far."""
        conditions = self._formula.conditions
        return Known(
            dict(zip(conditions, self._possible, strict=True)),
            dict(zip(conditions, self._certain, strict=True)),
            tuple(self.steps),
            frozenset(self._used),
            dictionary_pages,
        )

    def _compares(self, condition: Condition) -> bool:
        """Return whether the values in indexes can be compared with the predicate's literals.

        If the files of a table differ, a column may have another type than the one the predicate is bound to.
        """
        found = self._file.leaves_by_path.get(condition.path)
        here = None if found is None else self._file.leaf_types.get(found.ordinal)
        return here is not None and (isinstance(condition, BoundNull) or compares_alike(here, condition.type))

    # --- the loop ----------------------------------------------------------------------------------

    def use(self, proof: Proof) -> None:
        """Use a proof that costs nothing."""
        self._apply(proof, self._wanted(self._reach(proof), self._groups))

    def use_all(self, proofs: Sequence[Proof]) -> None:
        """Use the cheapest proof that saves more than it costs, until there is none."""
        reaches = [(proof, reach) for proof in proofs if (reach := self._reach(proof))]
        while offers := self._offers(reaches):
            best = min(offers, key=lambda offer: offer.price)
            reaches = [(proof, reach) for proof, reach in reaches if proof is not best.proof]
            self._apply(best.proof, best.wanted)

    def _reach(self, proof: Proof) -> _Reach:
        found: _Reach = {}
        for ordinal, condition in self._conditions.items():
            reach = proof.reach(condition)
            if reach is not None and reach.any():
                found[ordinal] = reach
        return found

    def _offers(self, reaches: Sequence[tuple[Proof, _Reach]]) -> list[_Offer]:
        """Return the proofs that save more than they cost, even without the proofs that do not."""
        offers = self._paying(reaches)
        if len(offers) == len(reaches):
            return offers
        paying = [offer.proof for offer in offers]
        return self._paying([(proof, reach) for proof, reach in reaches if proof in paying])

    def _paying(self, reaches: Sequence[tuple[Proof, _Reach]]) -> list[_Offer]:
        request_bytes = max(self._file.source.coalesce_bytes, LOCAL_REQUEST_BYTES)
        groups = self._groups
        matters = None
        if any(proof.is_lookup for proof, _ in reaches):
            matters = self._where_exclusion_matters([reach for _, reach in reaches])
        offers = []
        for proof, reach in reaches:
            wanted = self._wanted(reach, groups, matters if proof.is_lookup else None)
            if wanted and not self._is_read(any_of(list(wanted.values()))):
                self.has_left_out = True
            elif wanted:
                cost = proof.cost(wanted)
                least = cost.min_bytes
                if least == 0 or least < self._bytes_in(any_of(list(wanted.values()))):
                    price = cost.num_bytes + cost.requests * request_bytes + cost.pages * DECODING_BYTES
                    offers.append(_Offer(proof, wanted, price))
        return offers

    def _wanted(self, reach: _Reach, groups: Bools, matters: Sequence[Bools] | None = None) -> Wanted:
        """Return the conditions that a proof could narrow, and the row groups where that is relevant."""
        wanted: dict[Condition, Bools] = {}
        for ordinal, within in reach.items():
            known = self._state(ordinal)
            mask = within & known.is_open & groups
            if matters is not None:
                mask = mask & matters[ordinal]
            if mask.any():
                wanted[self._conditions[ordinal]] = mask
        return wanted

    def _where_exclusion_matters(self, reaches: Sequence[_Reach]) -> list[Bools]:
        known = [self._state(ordinal) for ordinal in range(len(self._possible))]
        stays = [fact.is_whole for fact in known]
        for reach in reaches:
            for ordinal, within in reach.items():
                stays[ordinal] = stays[ordinal] & ~(within & known[ordinal].is_open)
        return where_exclusion_matters(
            self._formula.root, self._groups, [fact.is_possible for fact in known], stays
        )

    def _apply(self, proof: Proof, wanted: Wanted) -> None:
        """Use a proof, and combine its results for all conditions."""
        self._used.add(proof.name)
        narrowed: dict[int, list[int]] = {}
        for condition, possible, certain in proof.evaluate(wanted, self):
            ordinal = self._ordinals[condition]
            if certain is not None and not certain.is_empty:
                self._certain[ordinal] = self._certain[ordinal] | certain
                if not proof.counts_pages:
                    self._proven[ordinal] = self._proven[ordinal] | certain
                self._states.pop(ordinal, None)
            if possible is not None:
                left = self._possible[ordinal] & possible
                if left.num_rows < self._possible[ordinal].num_rows:
                    self._possible[ordinal] = left
                    self._states.pop(ordinal, None)
                    for term_ordinal in self._terms_of[ordinal]:
                        narrowed.setdefault(term_ordinal, []).append(ordinal)
        for term_ordinal, ordinals in narrowed.items():
            before = self.candidates
            after = before & combine(self._formula.terms[term_ordinal], self._possible, union, intersection)
            if after.num_rows < before.num_rows:
                column = ".".join(self._conditions[ordinals[-1]].path)
                self.candidates = after
                self.steps.append(PruneStep(proof.name, column, before, after))
        self._bytes.clear()
        self._bytes_by_group = self._rows_by_group = None

    @property
    def certain(self) -> RowSelection:
        """The candidates that are proven to match."""
        return combine(self._formula.root, self._certain, union, intersection) & self.candidates

    @property
    def proven(self) -> RowSelection:
        """The candidates that are proven to match, whether or not the page index is correct."""
        return combine(self._formula.root, self._proven, union, intersection) & self.candidates

    # --- by row groups -----------------------------------------------------------------------------

    @property
    def _groups(self) -> Bools:
        """The row groups with candidate rows."""
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

    def _bytes_in(self, groups: Bools) -> int:
        """Estimate the bytes that a scan of the candidates in some row groups would read."""
        key = groups.tobytes()
        if key not in self._bytes:
            starts, stops = self._edges[:-1][groups], self._edges[1:][groups]
            wanted = self.candidates & RowSelection.union_of(starts, stops)
            self._bytes[key] = int(self._group_bytes(wanted).sum())
        return self._bytes[key]

    def bytes_of(self, row_group: int) -> int:
        """See `Savings`."""
        if self._bytes_by_group is None:
            self._bytes_by_group = self._group_bytes(self.candidates)
        return int(self._bytes_by_group[row_group])

    def column_bytes(self, leaf: Leaf) -> Int64s:
        """See `Savings`."""
        if self._is_unlimited:
            return self._unlimited(self.candidates)
        (outlines,) = self._file.metadata.outlines([leaf])
        sizes = np.where(outlines.is_sound, outlines.stops - outlines.starts, 0)
        shares = self._counts / np.maximum(1, np.diff(self._edges))
        return np.asarray(sizes * shares, dtype=np.int64)

    def rows_of(self, row_group: int) -> int:
        """See `Savings`."""
        return int(self._counts[row_group])

    @property
    def _counts(self) -> Int64s:
        """The number of candidate rows by row group."""
        if self._rows_by_group is None:
            self._rows_by_group = self.candidates.count_between(self._edges)
        return self._rows_by_group

    def _unlimited(self, rows: RowSelection) -> Int64s:
        """Return more bytes than any index has, for each row group with some of the rows."""
        return np.where(rows.count_between(self._edges) > 0, _UNLIMITED_BYTES, 0)

    def excluded_if(self, excluded: Wanted) -> Bools:
        """See `Savings`."""
        possible = [self._state(ordinal).is_possible for ordinal in range(len(self._possible))]
        for condition, groups in excluded.items():
            ordinal = self._ordinals[condition]
            possible[ordinal] = possible[ordinal] & ~groups
        return self._groups & ~combine(self._formula.root, possible, any_of, all_of)


class _State(NamedTuple):
    """The state of a condition, for each row group.

    Attributes:
        is_possible: Whether any row might match it.
        is_whole: Whether every row might match it.
        is_open: Whether some rows might match it and are not certain.
    """

    is_possible: Bools
    is_whole: Bools
    is_open: Bools


def _where_constant(
    file: ParquetInput, constants: Mapping[Path, pa.Scalar], condition: Condition | BoundConstant
) -> RowSelection | None:
    """Return all rows of a file or none, by the value of a constant; None if that depends on the row."""
    if isinstance(condition, BoundConstant):
        matches = condition.value
    elif condition.path in constants:
        value = pa.array([constants[condition.path].as_py()], type=condition.type)
        matches = bool(condition_mask(condition, value)[0].as_py())
    else:
        return None
    return RowSelection.all(file.footer.num_rows) if matches else RowSelection.none()


def _where_constant_by_file(
    file: JoinedInput, constants: Mapping[Path, pa.Array], condition: Condition | BoundConstant
) -> RowSelection | None:
    """Return the rows of the files in which a condition is true; None if that depends on the row."""
    if isinstance(condition, BoundConstant) or condition.path not in constants:
        return _where_constant(file, {}, condition)
    mask = condition_mask(condition, constants[condition.path].cast(condition.type))
    matches = np.asarray(mask.to_numpy(zero_copy_only=False), dtype=bool)
    edges = file.joined.row_edges
    return RowSelection.union_of(edges[:-1][matches], edges[1:][matches])
