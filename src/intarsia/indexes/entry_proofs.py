"""The embedded indexes of files as proofs: of one file, or those of the same name in many files."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from functools import cached_property, partial

import numpy as np
import pyarrow as pa

from intarsia.file import ParquetInput
from intarsia.file.joined import JoinedInput
from intarsia.format.directory import Entry
from intarsia.indexes.base import OpenIndex
from intarsia.indexes.embedded import PROBE_BYTES, EmbeddedIndexes
from intarsia.indexes.lookups import num_lookup_values
from intarsia.indexes.proof import Proof, ProofCost, Savings, Verdict, Wanted, evaluate_conditions
from intarsia.indexes.registry import indexed_columns
from intarsia.indexes.statistics import column_statistics
from intarsia.predicate import Path
from intarsia.predicate.bound import Condition
from intarsia.rows.bounds import Bools
from intarsia.rows.selection import RowSelection, union

#: The approximate cost of each further value of a lookup.
PROBED_VALUE_BYTES = 1024

#: Testing this many integers takes less time than decoding a row group, which it may save.
TRIED_VALUES_PER_ROW_GROUP = 1 << 15
MAX_TRIED_VALUES = 1 << 20


class EntryProof:
    """An embedded index as a proof. It is free if its payload is inline in the directory.

    Args:
        file: The file.
        embedded: Its embedded indexes.
        entry: The index.
    """

    def __init__(self, file: ParquetInput, embedded: EmbeddedIndexes, entry: Entry) -> None:
        self._file = file
        self._embedded = embedded
        self._entry = entry
        self.name = entry.name
        #: a probed index finds candidate rows, and rarely proves that rows match
        self.is_lookup = embedded.is_probed(entry)
        #: page granules are those read at build time, not those of the page index
        self.counts_pages = False

    def reach(self, condition: Condition) -> Bools | None:
        """Return every row group, if the index can evaluate the condition."""
        if not self._embedded.can_prune(self._entry, condition):
            return None
        return np.ones(len(self._file.footer.metadata.row_groups), dtype=bool)

    def cost(self, wanted: Wanted) -> ProofCost:
        """Return the cost of the payload, or of probing it for each value."""
        if self._entry.inline is not None:
            return ProofCost(0, 0)
        if not self.is_lookup:
            return ProofCost(self._entry.length, 1)
        num_values = sum(num_lookup_values(condition) for condition in wanted)
        num_bytes = PROBE_BYTES + PROBED_VALUE_BYTES * (num_values - 1)
        return ProofCost(min(num_bytes, self._entry.length), 2 * num_values)

    def evaluate(self, wanted: Wanted, savings: Savings) -> Iterator[Verdict]:
        """Open the index, unless it is open, and evaluate conditions with it."""
        index = self._embedded.open(self._entry)
        if index is not None:
            yield from evaluate_conditions(self._file, self.name, partial(self._judge, index), wanted)

    def _judge(self, index: OpenIndex, condition: Condition) -> Verdict:
        possible, certain = index.candidate_rows(condition), index.certain_rows(condition)
        if certain is None and possible is not None and self._are_certain(index, condition, possible):
            certain = possible
        return Verdict(condition, possible, certain)

    def _are_certain(self, index: OpenIndex, condition: Condition, possible: RowSelection) -> bool:
        """Return whether no other value in the column's range is a false positive."""
        if possible.is_empty or not pa.types.is_integer(condition.type):
            return False
        bounds = column_statistics(self._file, condition.path)
        if bounds is None or not bounds.known.any() or not (bounds.known | bounds.all_null).all():
            return False
        low, high = int(bounds.minima[bounds.known].min()), int(bounds.maxima[bounds.known].max())
        edges = self._file.footer.row_group_starts
        num_groups = int(np.count_nonzero(possible.overlaps(edges[:-1], edges[1:])))
        if high - low >= min(num_groups * TRIED_VALUES_PER_ROW_GROUP, MAX_TRIED_VALUES):
            return False
        return bool(index.is_certain_within(condition, low, high))


class EntryProofs:
    """The embedded indexes of some columns.

    Args:
        file: The file.
        embedded: Its embedded indexes; if several files are joined, the budget and the cache for theirs.
        paths: The columns.
        candidates: The relevant rows; of joined files without any of them, no directory is parsed.
    """

    def __init__(
        self,
        file: ParquetInput,
        embedded: EmbeddedIndexes,
        paths: frozenset[Path],
        candidates: RowSelection,
    ) -> None:
        self._file = file
        self._embedded = embedded
        self._paths = paths
        self._candidates = candidates

    @cached_property
    def _parts(self) -> Mapping[int, EmbeddedIndexes]:
        """The embedded indexes of each joined file that has any of the columns, or unusable ones."""
        if not isinstance(self._file, JoinedInput):
            return {}
        joined = self._file.joined
        found = {}
        for part in np.flatnonzero(joined.files_with(self._candidates)).tolist():
            columns = indexed_columns(joined.parts[part].metadata)
            if columns is None or not columns.isdisjoint(self._paths):
                found[part] = self._embedded.of_part(self._file.part(part))
        return found

    @cached_property
    def proofs(self) -> list[Proof]:
        """The proofs."""
        if not isinstance(self._file, JoinedInput):
            return list(self._of_file(self._file, self._embedded))
        by_name: dict[tuple[str, bool], dict[int, EntryProof]] = {}
        for part, embedded in self._parts.items():
            for proof in self._of_file(embedded.file, embedded):
                by_name.setdefault((proof.name, proof.is_lookup), {})[part] = proof
        return [JoinedProof(self._file, name, of_name, self._parts) for (name, _), of_name in by_name.items()]

    def _of_file(self, file: ParquetInput, embedded: EmbeddedIndexes) -> Iterator[EntryProof]:
        for entry in embedded.entries:
            if not self._paths.isdisjoint(entry.columns):
                yield EntryProof(file, embedded, entry)

    def lists_values(self, condition: Condition) -> Bools | bool:
        """Return where an index has all distinct values, so that dictionary pages cannot exclude more."""
        if not isinstance(self._file, JoinedInput):
            return self._embedded.lists_values(condition)
        edges = self._file.joined.group_edges
        found = np.zeros(int(edges[-1]), dtype=bool)
        for part, embedded in self._parts.items():
            found[edges[part] : edges[part + 1]] = embedded.lists_values(condition)
        return found


class JoinedProof:
    """The embedded indexes of one name in files that are joined.

    Args:
        file: The joined files.
        name: The name.
        parts: The index of each file that has one.
        embedded: The embedded indexes of each of these files; the opened ones are closed as soon as they have
            been evaluated, so that only those of one file are in memory.
    """

    counts_pages = False

    def __init__(
        self,
        file: JoinedInput,
        name: str,
        parts: Mapping[int, EntryProof],
        embedded: Mapping[int, EmbeddedIndexes],
    ) -> None:
        self._embedded = embedded
        self.name = name
        self.is_lookup = next(iter(parts.values())).is_lookup
        self._joined = file.joined
        self._parts = parts

    def reach(self, condition: Condition) -> Bools | None:
        """Return the row groups of the files whose index can evaluate the condition."""
        edges = self._joined.group_edges
        found = np.zeros(int(edges[-1]), dtype=bool)
        for part, proof in self._parts.items():
            if proof.reach(condition) is not None:
                found[edges[part] : edges[part + 1]] = True
        return found

    def _wanted(self, wanted: Wanted) -> Iterator[tuple[int, EntryProof, Wanted]]:
        """Yield each file with its own row groups in which a result matters."""
        edges = self._joined.group_edges
        for part, proof in self._parts.items():
            start, stop = int(edges[part]), int(edges[part + 1])
            own = {one: groups[start:stop] for one, groups in wanted.items() if groups[start:stop].any()}
            if own:
                yield part, proof, own

    def cost(self, wanted: Wanted) -> ProofCost:
        """Return the cost of the indexes of all files; each can be evaluated separately."""
        costs = [proof.cost(own) for _, proof, own in self._wanted(wanted)]
        return ProofCost(
            sum(cost.num_bytes for cost in costs),
            sum(cost.requests for cost in costs),
            part_bytes=min(cost.min_bytes for cost in costs),
        )

    def evaluate(self, wanted: Wanted, savings: Savings) -> Iterator[Verdict]:
        """Evaluate conditions with the index of each file for which that pays."""
        possible: dict[Condition, list[RowSelection]] = {}
        certain: dict[Condition, list[RowSelection]] = {}
        decided: dict[Condition, list[int]] = {}
        for part, proof, own in self._wanted(wanted):
            least = proof.cost(own).min_bytes
            if least and least >= self._saved(part, own, savings):
                continue
            first_row = int(self._joined.row_edges[part])
            for verdict in proof.evaluate(own, savings):
                if verdict.possible is not None:
                    possible.setdefault(verdict.condition, []).append(verdict.possible.shift(first_row))
                    decided.setdefault(verdict.condition, []).append(part)
                if verdict.certain is not None:
                    certain.setdefault(verdict.condition, []).append(verdict.certain.shift(first_row))
            self._embedded[part].close()
        for condition in dict.fromkeys((*possible, *certain)):
            others = np.ones(len(self._joined.parts), dtype=bool)
            others[decided.get(condition, [])] = False
            yield Verdict(
                condition,
                union([*possible.get(condition, []), self._joined.rows_of(others)]),
                union(certain.get(condition, [])),
            )

    def _saved(self, part: int, own: Wanted, savings: Savings) -> int:
        start = int(self._joined.group_edges[part])
        groups = np.flatnonzero(np.logical_or.reduce(list(own.values())))
        return sum(savings.bytes_of(start + group) for group in groups.tolist())
