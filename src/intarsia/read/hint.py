"""The advice at the end of a plan, from metadata alone.

Whether an index, smaller pages or another order help depends on the values, which a plan does not read.
`intarsia.advise` reads and measures them. A plan shows whether that can be worthwhile, and whether a lake
index is.
"""

from __future__ import annotations

from intarsia.amounts import size
from intarsia.read.file_plan import FilePlan
from intarsia.read.file_query import FileQuery
from intarsia.records import dataclass
from intarsia.rows.values import JsonObject

#: A plan that reads fewer bytes gets no advice.
MIN_BYTES = 1_000_000

#: A lake index is advised for at least this many files.
MIN_FILES = 16

#: Indexes are effective if at most this part of the rows or files is left.
NARROWED_PART = 0.5


@dataclass(frozen=True)
class Hint(JsonObject):
    """One piece of advice.

    Attributes:
        code: A stable code: ``"add-lake-index"``, or ``"run-advise"`` if `intarsia.advise` may find an index
            or an order of rows that helps.
        text: The advice in words.
    """

    code: str
    text: str


def opens_in_vain(num_files: int, num_unmatched: float) -> bool:
    """Return whether so many opened files have no candidate rows that a lake index is worthwhile.

    Example:
        >>> opens_in_vain(20, 19), opens_in_vain(20, 1), opens_in_vain(2, 2)
        (True, False, False)
    """
    return num_files >= MIN_FILES and num_unmatched > NARROWED_PART * num_files


class Hints:
    """Collects what the plans of the files of a query have in common."""

    def __init__(self) -> None:
        self._improvable_bytes = 0
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
        if _is_improvable(query, plan):
            self._improvable_bytes += num_bytes

    def best(self, *, has_lake_index: bool) -> Hint | None:
        """Return the advice; None if there is none."""
        if opens_in_vain(self._num_files, self._num_excluded) and not has_lake_index:
            text = (
                f"{self._num_excluded:,} of {self._num_files:,} opened files have no candidate rows: "
                "build a lake index"
            )
            return Hint("add-lake-index", text)
        if self._total < MIN_BYTES or self._improvable_bytes < NARROWED_PART * self._total:
            return None
        text = (
            f"the plan excludes few rows and reads up to {size(self._total)}; measure what helps with advise"
        )
        return Hint("run-advise", text)


def _is_improvable(query: FileQuery, plan: FilePlan) -> bool:
    """Return whether few rows of the row groups that are read are excluded, or proven to match."""
    if query.predicate is None or not query.predicate_paths:
        return False
    groups = query.groups_with(plan.candidates)
    edges = query.file.footer.row_group_starts
    rows_left = int((edges[1:] - edges[:-1])[groups].sum())
    undecided = plan.candidates.num_rows - plan.certain.num_rows
    return undecided > NARROWED_PART * rows_left
