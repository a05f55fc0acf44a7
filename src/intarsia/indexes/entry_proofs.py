"""The embedded indexes of files as proofs: of one file, or those of the same name in many files."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from functools import partial
from typing import NamedTuple

import numpy as np
import pyarrow as pa

from intarsia.file import ParquetInput
from intarsia.file.joined import JoinedInput
from intarsia.format.directory import Entry
from intarsia.indexes.base import OpenIndex, checked_rows
from intarsia.indexes.embedded import EmbeddedIndexes
from intarsia.indexes.proof import Proof, ProofCost, Savings, Verdict, Wanted, evaluate_conditions
from intarsia.indexes.registry import may_index
from intarsia.indexes.statistics import column_statistics
from intarsia.once import cached_property
from intarsia.predicate import Path
from intarsia.predicate.bound import Condition, num_lookup_values
from intarsia.records import dataclass
from intarsia.rows.bounds import Bools
from intarsia.rows.selection import RowSelection, union
from intarsia.tuning import OPENED_BYTES, PROBE_BYTES, PROBED_VALUE_BYTES

#: Testing this many integers takes less time than decoding a row group, which it may save.
TRIED_VALUES_PER_ROW_GROUP = 1 << 15
MAX_TRIED_VALUES = 1 << 20


class EntryProofs:
    """The embedded indexes of some columns.

    Args:
        embedded: Its embedded indexes; if several files are joined, the budget and the cache for theirs.
    """

    def __init__(self, file: ParquetInput, embedded: EmbeddedIndexes, paths: frozenset[Path]) -> None:
        self._file = file
        self._embedded = embedded
        self._paths = paths
        self._parts: list[_Part] = []

    def least_price(self, candidates: RowSelection) -> int:
        """Return the price of opening an index of each joined file with candidates."""
        assert isinstance(self._file, JoinedInput)
        return OPENED_BYTES * int((self._are_unopened & self._file.joined.files_with(candidates)).sum())

    @cached_property
    def _may_index(self) -> Bools:
        """Which of the joined files may have indexes of the columns."""
        assert isinstance(self._file, JoinedInput)
        return np.array([may_index(part.metadata, self._paths) for part in self._file.joined.parts])

    @cached_property
    def _are_unopened(self) -> Bools:
        assert isinstance(self._file, JoinedInput)
        parts = zip(self._file.joined.parts, self._may_index.tolist(), strict=True)
        return np.array([may and not self._embedded.keeps(part.metadata, self._paths) for part, may in parts])

    def proofs(self, candidates: RowSelection) -> list[Proof]:
        """Return the proofs about the files with candidates; no directory of the others is parsed."""
        self._parts = self._parts_with(candidates)
        by_name: dict[tuple[str, bool], list[tuple[_Part, Entry]]] = {}
        for part in self._parts:
            for entry in part.embedded.entries:
                if not self._paths.isdisjoint(entry.columns):
                    key = entry.name, part.embedded.is_probed(entry)
                    by_name.setdefault(key, []).append((part, entry))
        return [EntryProof(self._file, *key, parts) for key, parts in by_name.items()]

    def _parts_with(self, candidates: RowSelection) -> list[_Part]:
        """Return the file, or each joined file with candidates that may have an index of the columns."""
        if not isinstance(self._file, JoinedInput):
            whole = _Part(self._embedded, slice(None), 0, self._file.footer.num_rows)
            return [whole] if self._embedded.entries else []
        joined = self._file.joined
        groups, rows = joined.group_edges.tolist(), joined.row_edges.tolist()
        found = []
        for part in np.flatnonzero(self._may_index & joined.files_with(candidates)).tolist():
            embedded = self._embedded.of_part(self._file.part(part))
            found.append(_Part(embedded, slice(*groups[part : part + 2]), *rows[part : part + 2]))
        return found

    def lists_values(self, condition: Condition) -> Bools:
        """Return where an index of `proofs` has all distinct values, so that dictionaries exclude no more."""
        found = np.zeros(len(self._file.footer.row_group_starts) - 1, dtype=bool)
        for part in self._parts:
            found[part.groups] = part.embedded.lists_values(condition)
        return found


class _Part(NamedTuple):
    """The embedded indexes of one of the files that are joined, its row groups and its rows."""

    embedded: EmbeddedIndexes
    groups: slice
    first_row: int
    stop_row: int


@dataclass(eq=False)
class EntryProof:
    """The embedded index of a name in one file, or those in files that are joined.

    An index is free if its payload is inline in the directory. Page granules are those read at build time,
    not those of the page index.

    Args:
        is_lookup: Whether the indexes are probed. They find candidate rows, and rarely prove that rows match.
        parts: The files that have such an index, and its entry.
    """

    file: ParquetInput
    name: str
    is_lookup: bool
    parts: Sequence[tuple[_Part, Entry]]
    counts_pages = False

    def reach(self, condition: Condition) -> Bools | None:
        """Return the row groups of the files whose index can evaluate the condition."""
        found = np.zeros(len(self.file.footer.row_group_starts) - 1, dtype=bool)
        for part, entry in self.parts:
            found[part.groups] = part.embedded.can_prune(entry, condition)
        return found

    def cost(self, wanted: Wanted) -> ProofCost:
        """Return the cost of the indexes of all files; each can be evaluated separately."""
        files = list(self._wanted(wanted))
        costs = [self._cost(entry, own) for _, entry, own in files]
        num_bytes, requests = map(sum, zip(*costs, strict=True))
        is_joined = isinstance(self.file, JoinedInput)
        opened = sum(not part.embedded.is_open(entry) for part, entry, _ in files) if is_joined else 0
        return ProofCost(num_bytes, requests, opened=opened, part_bytes=min(costs)[0])

    def _cost(self, entry: Entry, own: Wanted) -> tuple[int, int]:
        """Return the bytes and requests of the payload in a file, or of probing it for each value."""
        if entry.inline is not None:
            return 0, 0
        if not self.is_lookup:
            return entry.length, 1
        num_values = sum(num_lookup_values(condition) for condition in own)
        return min(PROBE_BYTES + PROBED_VALUE_BYTES * (num_values - 1), entry.length), 2 * num_values

    def _wanted(self, wanted: Wanted) -> Iterator[tuple[_Part, Entry, Wanted]]:
        """Yield each file with its own row groups in which a result matters."""
        for part, entry in self.parts:
            own = {one: groups[part.groups] for one, groups in wanted.items() if groups[part.groups].any()}
            if own:
                yield part, entry, own

    def evaluate(self, wanted: Wanted, savings: Savings) -> Iterator[Verdict]:
        """Evaluate conditions with the index of each file for which that pays."""
        found: dict[Condition, list[tuple[_Part, Verdict]]] = {}
        is_joined = isinstance(self.file, JoinedInput)
        for part, entry, own in self._wanted(wanted):
            if is_joined and not self._pays(part, self._cost(entry, own)[0], own, savings):
                continue
            index = part.embedded.open(entry)
            if index is not None:
                judge = partial(_judge, part.embedded.file, index)
                for verdict in evaluate_conditions(part.embedded.file, entry.name, judge, own):
                    found.setdefault(verdict.condition, []).append((part, verdict))
            if is_joined:  # only the opened indexes of one file are in memory
                part.embedded.close()
        for condition, verdicts in found.items():
            decided = [(part, one.possible) for part, one in verdicts if one.possible is not None]
            possible = [rows.shift(part.first_row) for part, rows in decided]
            certain = [one.certain.shift(part.first_row) for part, one in verdicts if one.certain is not None]
            ranges = RowSelection.from_ranges((part.first_row, part.stop_row) for part, _ in decided)
            possible.append(RowSelection.all(self.file.footer.num_rows) - ranges)
            yield Verdict(condition, union(possible), union(certain))

    def _pays(self, part: _Part, num_bytes: int, own: Wanted, savings: Savings) -> bool:
        saved = savings.num_bytes()[part.groups]
        return not num_bytes or num_bytes < saved[np.logical_or.reduce(list(own.values()))].sum()


def _judge(file: ParquetInput, index: OpenIndex, condition: Condition) -> Verdict:
    possible = checked_rows(index.candidate_rows(condition))
    is_excluded = possible is not None and possible.is_empty
    certain = possible if is_excluded else checked_rows(index.certain_rows(condition))
    if certain is None and possible is not None and _are_certain(file, index, condition, possible):
        certain = possible
    return Verdict(condition, possible, certain)


def _are_certain(file: ParquetInput, index: OpenIndex, condition: Condition, possible: RowSelection) -> bool:
    """Return whether no other value in the column's range is a false positive."""
    if possible.is_empty or not pa.types.is_integer(condition.type):
        return False
    bounds = column_statistics(file, condition.path)
    if bounds is None or not bounds.known.any() or not (bounds.known | bounds.all_null).all():
        return False
    low, high = int(bounds.minima[bounds.known].min()), int(bounds.maxima[bounds.known].max())
    edges = file.footer.row_group_starts
    num_groups = int(np.count_nonzero(possible.overlaps(edges[:-1], edges[1:])))
    if high - low >= min(num_groups * TRIED_VALUES_PER_ROW_GROUP, MAX_TRIED_VALUES):
        return False
    return bool(index.is_certain_within(condition, low, high))
