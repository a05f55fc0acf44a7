"""The most useful advice for a query, derived from its plans; nothing else is read."""

from __future__ import annotations

from collections import defaultdict
from dataclasses import dataclass
from typing import Any

from intarsia.indexes.bloom import filter_exists
from intarsia.indexes.ngram import Ngram
from intarsia.indexes.statistics import RowGroupStatistics
from intarsia.indexes.value_hash import is_lookup
from intarsia.predicate import BoundMatch, Condition, conditions
from intarsia.read.file_plan import FilePlan
from intarsia.read.file_query import FileQuery

#: A plan that reads fewer bytes gets no advice.
MIN_BYTES = 1_000_000

#: A lake index is advised for at least this many files.
MIN_FILES = 16

#: If statistics exclude none of this many row groups, bounds of pages are unlikely to exclude pages.
MANY_ROW_GROUPS = 4

#: Indexes are effective if at most this part of the pages, row groups or files is left.
NARROWED_PART = 0.5


@dataclass(frozen=True)
class Hint:
    """One piece of advice.

    Attributes:
        code: A stable code: ``"add-page-index"``, ``"add-lookup-index"``, ``"add-ngram"``,
            ``"one-page-per-row-group"`` or ``"add-lake-index"``.
        column: The dotted path of the column; None if it does not concern one.
        text: The advice in words.
        kinds: The kinds of indexes to add, such as ``("page_index", "bloom_granule")``; those other than the
            page index are on the column.
    """

    code: str
    column: str | None
    text: str
    kinds: tuple[str, ...] = ()

    def to_dict(self) -> dict[str, Any]:
        """Return the advice as a JSON object."""
        return {"code": self.code, "column": self.column, "text": self.text, "kinds": list(self.kinds)}


class Hints:
    """Collects the advice for each file of a query."""

    def __init__(self) -> None:
        self._bytes: dict[Hint, int] = defaultdict(int)
        self._total = 0
        self._num_files = 0
        self._num_excluded = 0

    def add(self, query: FileQuery, plan: FilePlan) -> None:
        """Add a planned file."""
        self._num_files += 1
        if plan.candidates.is_empty:
            self._num_excluded += 1
            return
        num_bytes = query.estimated_bytes(plan.candidates)
        self._total += num_bytes
        hint = _hint_of(query, plan)
        if hint is not None:
            self._bytes[hint] += num_bytes

    def best(self, *, has_lake_index: bool) -> Hint | None:
        """Return the advice that concerns the most bytes; None if there is none."""
        if (
            self._num_files >= MIN_FILES
            and self._num_excluded > NARROWED_PART * self._num_files
            and not has_lake_index
        ):
            text = (
                f"{self._num_excluded:,} of {self._num_files:,} opened files have no candidate rows: "
                "build a lake index"
            )
            return Hint("add-lake-index", None, text)
        best = max(self._bytes, key=lambda hint: self._bytes[hint], default=None)
        if best is None or self._total < MIN_BYTES or self._bytes[best] < NARROWED_PART * self._total:
            return None
        return best


def _hint_of(query: FileQuery, plan: FilePlan) -> Hint | None:
    if query.predicate is None or not query.predicate_paths:
        return None
    groups = query.groups_with(plan.candidates)
    edges = query.file.footer.row_group_starts
    rows_left = int((edges[1:] - edges[:-1])[groups].sum())
    if plan.candidates.num_rows <= NARROWED_PART * rows_left:
        return None  # pages are skipped already
    queried = [found for found in conditions(query.predicate) if found.path not in query.constants]
    page_index = () if _has_page_index(query, groups) else ("page_index",)
    is_clustered = _groups_by_bounds(query, plan) <= NARROWED_PART * query.num_row_groups
    missing = [found for found in queried if not _has_index(query, found)]
    if not is_clustered:
        for found in missing:
            column = ".".join(found.path)
            if is_lookup(found):
                text = f"{column} has no index for lookups; add BloomGranule or RowMap"
                return Hint("add-lookup-index", column, text, (*page_index, "bloom_granule"))
            if isinstance(found, BoundMatch) and Ngram(column).can_prune(found):
                text = f"{column} has no index for text search; add Ngram"
                return Hint("add-ngram", column, text, (*page_index, "ngram"))
    if _has_one_page(query, groups):
        text = "each row group has one page, so it is read as a whole; rewrite the files with smaller pages"
        return Hint("one-page-per-row-group", None, text)
    if page_index and (is_clustered or query.num_row_groups < MANY_ROW_GROUPS):
        text = "there is no page index, so whole row groups are read; add PageIndex"
        return Hint("add-page-index", None, text, page_index)
    return None


def _groups_by_bounds(query: FileQuery, plan: FilePlan) -> int:
    """Return the number of row groups that the statistics of row groups keep."""
    first = plan.steps[0] if plan.steps and plan.steps[0].index == RowGroupStatistics.name else None
    return query.num_row_groups if first is None else len(query.groups_with(first.after))


def _has_page_index(query: FileQuery, groups: list[int]) -> bool:
    """Return whether the columns of the query have an OffsetIndex in some row groups."""
    found = query.file.metadata.outlines(query.leaves)
    return all(bool(of_leaf.has_offset_index[groups].all()) for of_leaf in found)


def _has_one_page(query: FileQuery, groups: list[int]) -> bool:
    """Return whether every chunk of the query in some row groups is known to have one page."""
    found = query.file.metadata.outlines(query.leaves)
    return all(bool((of_leaf.data_pages[groups] == 1).all()) for of_leaf in found)


def _has_index(query: FileQuery, condition: Condition) -> bool:
    """Return whether an index on the column could evaluate a condition, besides bounds."""
    leaf = query.file.leaves_by_path.get(condition.path)
    if leaf is None or (is_lookup(condition) and bool(filter_exists(query.file, leaf).any())):
        return True
    return any(query.embedded.can_prune(entry, condition) for entry in query.embedded.entries)
