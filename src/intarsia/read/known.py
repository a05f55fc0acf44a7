"""Facts about the rows of a file that were proven for many files at once, before the file is planned."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field

from intarsia.predicate import BoundConstant, Condition
from intarsia.rows.selection import RowSelection


@dataclass(frozen=True)
class PruneStep:
    """The rows that one index excluded.

    Attributes:
        index: The name of the index: ``"statistics"``, ``"column_index"``, ``"bloom_filter"``,
            ``"dictionary"``, or the name of an embedded index.
        column: The dotted path of the column; if several columns of an OR exclude rows only together, the
            last of them.
        before: The candidate rows before the index was used.
        after: The candidate rows afterwards.
    """

    index: str
    column: str
    before: RowSelection
    after: RowSelection


@dataclass(frozen=True)
class JoinedRows:
    """The rows of one of several files that were joined.

    Attributes:
        start: The first row of the file.
        stop: The row after its last row.
        dictionary_pages: The dictionary pages of the file, by offset in it.
    """

    start: int
    stop: int
    dictionary_pages: Mapping[int, bytes] = field(default_factory=dict, repr=False)

    def of(self, rows: RowSelection) -> RowSelection:
        """Return the rows that are in the file, as row numbers of the file."""
        return rows.clip(self.start, self.stop).shift(-self.start)

    def steps(self, steps: Iterable[PruneStep]) -> tuple[PruneStep, ...]:
        """Return the steps that excluded rows of the file."""
        own = (PruneStep(one.index, one.column, self.of(one.before), self.of(one.after)) for one in steps)
        return tuple(step for step in own if step.after.num_rows < step.before.num_rows)


@dataclass(frozen=True)
class Known:
    """The proofs of indexes about the conditions of a predicate.

    Attributes:
        possible: For each condition, a superset of the rows that match it.
        certain: For each condition, rows that are proven to match it.
        steps: The rows that each index excluded, in the order of use.
        used: The names of the indexes that were used; they are not used again.
        dictionary_pages: Dictionary pages that were read, by offset.
    """

    possible: Mapping[Condition | BoundConstant, RowSelection] = field(default_factory=dict)
    certain: Mapping[Condition | BoundConstant, RowSelection] = field(default_factory=dict)
    steps: tuple[PruneStep, ...] = ()
    used: frozenset[str] = frozenset()
    dictionary_pages: Mapping[int, bytes] = field(default_factory=dict, repr=False)

    def of_file(self, file: JoinedRows) -> Known:
        """Return the facts about one of several files that were joined."""
        return Known(
            {condition: file.of(rows) for condition, rows in self.possible.items()},
            {condition: file.of(rows) for condition, rows in self.certain.items()},
            file.steps(self.steps),
            self.used,
            file.dictionary_pages,
        )
