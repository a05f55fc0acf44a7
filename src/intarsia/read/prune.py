"""A predicate against every index of a file: which rows might match, and which index said so.

Indexes are asked leaf by leaf, in a fixed order, embedded ones by their size.  Each leaf of the predicate
keeps the rows that no index has yet excluded; AND intersects them and OR unites them, so that skipping works
across columns.  An index is only read for row groups where it could still exclude something, and, but for the
page index (without which no page can be found), only if reading it costs less than it could save.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass
from functools import partial

import pyarrow as pa

from intarsia.arrow.comparison import compares_alike
from intarsia.file import ParquetInput
from intarsia.indexes.base import OpenIndex, SureIndex
from intarsia.indexes.bloom import BloomFilters
from intarsia.indexes.column_index import ColumnIndexes
from intarsia.indexes.datafusion import NAME, open_named
from intarsia.indexes.dictionary import Dictionaries
from intarsia.indexes.distinct import Distinct
from intarsia.indexes.embedded import EmbeddedIndexes, answer_of
from intarsia.indexes.statistics import RowGroupStatistics
from intarsia.predicate import (
    Bound,
    BoundAnd,
    BoundConstant,
    BoundNull,
    BoundOr,
    Condition,
    Path,
    condition_mask,
    conditions,
)
from intarsia.rows.selection import RowSelection


@dataclass(frozen=True)
class PruneStep:
    """What one index excluded.

    Attributes:
        index: Its name: ``"statistics"``, ``"column_index"``, ``"bloom_filter"``, ``"distinct_index_offset"``
            (values in DataFusion's form), ``"dictionary"``, or an embedded index's name.
        column: The column it was asked about, dotted.
        before: Rows that might match before it was asked.
        after: Rows that might match after.
    """

    index: str
    column: str
    before: RowSelection
    after: RowSelection


@dataclass(frozen=True)
class Pruned:
    """The rows of a file that might match, and how they were found.

    Attributes:
        candidates: A superset of the rows that match.
        certain: Rows that are known to match without a look at them.
        steps: What each index excluded, in the order they were asked; only those that excluded something.
        index_bytes: Bytes read from indexes.
    """

    candidates: RowSelection
    certain: RowSelection
    steps: tuple[PruneStep, ...]
    index_bytes: int


def prune(
    file: ParquetInput,
    predicate: Bound,
    *,
    constants: Mapping[Path, pa.Scalar] | None = None,
    data_bytes: Callable[[RowSelection], int] | None = None,
    embedded: EmbeddedIndexes | None = None,
) -> Pruned:
    """Ask every index of a file which rows might match.

    Args:
        file: The file.
        predicate: What is asked for.
        constants: Columns that are not in the file and have one value in all of its rows: partition
            columns, and columns that other files of the table have (null).
        data_bytes: About how many bytes a scan of some rows would read; an index that is larger than what
            it could save is not read.
        embedded: The file's embedded indexes, if the caller asks them more.

    Returns:
        The rows that might match, and the reasons.
    """
    pruner = _Pruner(file, predicate, constants or {}, data_bytes or (lambda _: 1 << 62))
    return pruner.run(embedded or EmbeddedIndexes(file))


class _Pruner:
    def __init__(
        self,
        file: ParquetInput,
        predicate: Bound,
        constants: Mapping[Path, pa.Scalar],
        data_bytes: Callable[[RowSelection], int],
    ) -> None:
        self.file = file
        self.predicate = predicate
        self.data_bytes = data_bytes
        self.everything = RowSelection.all(file.footer.num_rows)
        self.possible: dict[Condition, RowSelection] = {}
        self.sure: dict[Condition, RowSelection] = {}
        self.asked: list[Condition] = []
        for leaf in dict.fromkeys(conditions(predicate)):
            self.possible[leaf] = self.everything
            self.sure[leaf] = RowSelection.none()
            if leaf.path in constants:
                value = constants[leaf.path]
                matches = condition_mask(leaf, pa.array([value.as_py()], type=leaf.type))[0].as_py()
                self.possible[leaf] = self.sure[leaf] = self.everything if matches else RowSelection.none()
            elif self._speaks_of(leaf):
                self.asked.append(leaf)
        self.steps: list[PruneStep] = []
        # where there is an AND, what is found out about a leaf changes only the conditions that it is in
        self.conditions: dict[Condition, list[Bound]] = {}
        for condition in predicate.children if isinstance(predicate, BoundAnd) else (predicate,):
            for leaf in dict.fromkeys(conditions(condition)):
                self.conditions.setdefault(leaf, []).append(condition)
        self.candidates = _combine(predicate, self.possible, self.everything)

    def _speaks_of(self, leaf: Condition) -> bool:
        """Whether what indexes hold compares with the predicate's literals.

        In a table whose files differ, a column may have another type here than the predicate was bound to.
        """
        found = self.file.leaves_by_path.get(leaf.path)
        here = None if found is None else self.file.leaf_types.get(found.ordinal)
        return here is not None and (isinstance(leaf, BoundNull) or compares_alike(here, leaf.type))

    def run(self, embedded: EmbeddedIndexes) -> Pruned:
        bytes_before = self.file.source.counts.bytes
        self._ask("statistics", RowGroupStatistics(self.file), self.asked)
        self._ask_column_indexes()
        self._ask_bloom_filters()
        self._ask_named_values()
        self._ask_dictionaries(embedded)
        self._ask_embedded(embedded)
        return Pruned(
            self.candidates,
            _combine(self.predicate, self.sure, self.everything) & self.candidates,
            tuple(self.steps),
            self.file.source.counts.bytes - bytes_before,
        )

    def _open_leaves(self, asked: Iterable[Condition] | None = None) -> dict[Condition, RowSelection]:
        """Leaves, of all or of some, that an index could still narrow, and the rows where it would matter."""
        wanted = self.asked if asked is None else asked
        scopes = {leaf: self.possible[leaf] & self.candidates for leaf in wanted}
        return {leaf: scope for leaf, scope in scopes.items() if not scope.is_empty}

    def _ask_column_indexes(self) -> None:
        index = ColumnIndexes(self.file)
        wanted = {leaf: index.keys(leaf, scope) for leaf, scope in self._open_leaves().items()}
        keys = [key for found in wanted.values() for key in found]
        if keys:
            self.file.load_page_index(keys, keys)
            self._ask("column_index", index, [leaf for leaf, found in wanted.items() if found])

    def _ask_bloom_filters(self) -> None:
        wanted = self._open_leaves()
        if wanted:
            filters = BloomFilters(self.file)
            filters.load(wanted, self.data_bytes)
            self._ask("bloom_filter", filters, wanted)

    def _ask_named_values(self) -> None:
        """Values in DataFusion's form do not say of which column they are; who opened the file did."""
        column = self.file.distinct_column
        wanted = [
            leaf for leaf in self._open_leaves() if leaf.path == column and not isinstance(leaf, BoundNull)
        ]
        if column is not None and wanted:
            values = open_named(self.file, column, self.data_bytes(self.candidates))
            if values is not None:
                self._ask(NAME, values, wanted)

    def _ask_dictionaries(self, embedded: EmbeddedIndexes) -> None:
        """Dictionary pages say what `Distinct` says, which is smaller."""
        listed = [entry for entry in embedded.entries if entry.kind == Distinct.kind]
        wanted = {
            leaf: scope
            for leaf, possible in self._open_leaves().items()
            if not (scope := possible - self.sure[leaf]).is_empty
            and not any(embedded.can_prune(entry, leaf) for entry in listed)
        }
        if wanted:
            dictionaries = Dictionaries(self.file)
            dictionaries.load(wanted, self._excluded_if, self.data_bytes)
            self._ask("dictionary", dictionaries, wanted)

    def _excluded_if(self, denied: Mapping[Condition, RowSelection]) -> RowSelection:
        """The candidates that are none, if each leaf is not met in the rows given for it."""
        nothing = RowSelection.none()
        possible = {leaf: rows - denied.get(leaf, nothing) for leaf, rows in self.possible.items()}
        return self.candidates - _combine(self.predicate, possible, self.everything)

    def _ask_embedded(self, embedded: EmbeddedIndexes) -> None:
        for entry in embedded.entries:
            about = [leaf for leaf in self.asked if leaf.path in entry.columns]
            wanted = [leaf for leaf in self._open_leaves(about) if embedded.can_prune(entry, leaf)]
            if wanted and embedded.cost_bytes(entry) < self.data_bytes(self.candidates):
                index = embedded.open(entry)
                if index is not None:
                    self._ask(entry.name, index, wanted)

    def _ask(self, name: str, index: OpenIndex, asked: Iterable[Condition]) -> None:
        for leaf in asked:
            told = answer_of(self.file, name, partial(_tell, index, leaf))
            if told is None:
                return
            found, certain = told
            if found is not None:
                self.possible[leaf] = self.possible[leaf] & found
                before = self.candidates
                for condition in self.conditions[leaf]:
                    self.candidates &= _combine(condition, self.possible, self.everything)
                if self.candidates.num_rows < before.num_rows:
                    self.steps.append(PruneStep(name, ".".join(leaf.path), before, self.candidates))
            if certain is not None:
                self.sure[leaf] = self.sure[leaf] | certain


def _tell(index: OpenIndex, leaf: Condition) -> tuple[RowSelection | None, RowSelection | None]:
    """The rows that an index leaves, and those that it is sure of; None where it does not tell."""
    candidates = index.candidate_rows(leaf)
    return candidates, index.certain_rows(leaf) if isinstance(index, SureIndex) else None


def _combine(
    node: Bound, rows_of: Mapping[Condition, RowSelection], everything: RowSelection
) -> RowSelection:
    """The rows of a predicate from the rows of its leaves."""
    if isinstance(node, BoundConstant):
        return everything if node.value else RowSelection.none()
    if isinstance(node, BoundAnd):
        rows = everything
        for child in node.children:
            rows = rows & _combine(child, rows_of, everything)
        return rows
    if isinstance(node, BoundOr):
        rows = RowSelection.none()
        for child in node.children:
            rows = rows | _combine(child, rows_of, everything)
        return rows
    return rows_of[node]
