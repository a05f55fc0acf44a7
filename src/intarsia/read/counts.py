"""Counts of the pages, rows and bytes that were read, and of what one index excluded or answered."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from intarsia.file import ParquetInput
from intarsia.read.amounts import count
from intarsia.read.pruner import PruneStep
from intarsia.rows.selection import Rows


@dataclass
class PageCounts:
    """The numbers of data pages of one column, each of which is in one state.

    Attributes:
        total: The number of pages; None if a file has no page counts.
        read: The number of pages whose values were read.
        excluded: The number of other pages without a row that might match, as an index proved.
        unneeded: The number of other pages, None if the total is unknown: their rows are certain to match, or
            do not match by the values of other columns, or come after a limit, or an index contains their
            values. The same if the locations of the pages were not needed, so that single ones cannot be
            excluded.
    """

    total: int | None = 0
    read: int = 0
    excluded: int = 0

    @property
    def unneeded(self) -> int | None:
        """The number of pages that were neither read nor excluded; see `PageCounts`."""
        return None if self.total is None else self.total - self.read - self.excluded

    def add(self, other: PageCounts) -> None:
        """Add other counts; the total becomes None if either is."""
        self.total = None if self.total is None or other.total is None else self.total + other.total
        self.read += other.read
        self.excluded += other.excluded

    def add_read(self, num_pages: int) -> None:
        """Add pages that were read after they had been counted."""
        self.read += num_pages

    def to_dict(self) -> dict[str, int | None]:
        """Return the counts as a JSON object."""
        return {
            "total": self.total,
            "read": self.read,
            "excluded": self.excluded,
            "unneeded": self.unneeded,
        }


@dataclass(frozen=True)
class ReadCounts:
    """Counts of the reads of one file, or of a part of it.

    Attributes:
        row_groups: Number of row groups with data pages that were read.
        dictionary_pages: Number of dictionary pages that were read.
        rows_candidate: Number of rows that might match, according to the indexes.
        rows_matched: Number of rows that match.
        index_bytes: Bytes that were read from indexes.
        planned_bytes: Bytes of the pages in a plan.

    Example:
        >>> ReadCounts(row_groups=1) + ReadCounts(row_groups=2, rows_matched=3)
        ReadCounts(row_groups=3, dictionary_pages=0, rows_candidate=0, rows_matched=3, index_bytes=0,
                   planned_bytes=0)
    """

    row_groups: int = 0
    dictionary_pages: int = 0
    rows_candidate: int = 0
    rows_matched: int = 0
    index_bytes: int = 0
    planned_bytes: int = 0

    def __add__(self, other: ReadCounts) -> ReadCounts:
        return ReadCounts(
            self.row_groups + other.row_groups,
            self.dictionary_pages + other.dictionary_pages,
            self.rows_candidate + other.rows_candidate,
            self.rows_matched + other.rows_matched,
            self.index_bytes + other.index_bytes,
            self.planned_bytes + other.planned_bytes,
        )


@dataclass
class PrunedBy:
    """The files, row groups, pages and rows that one index of one column excluded.

    Attributes:
        index: The name of the index, such as ``"statistics"`` or ``"distinct(dest):page"``.
        column: The dotted path of the column.
        files: The number of excluded files.
        row_groups: The number of excluded row groups, including those of excluded files.
        pages: The number of excluded pages, including those of excluded row groups.
        rows: The number of excluded rows.
    """

    index: str
    column: str
    files: int = 0
    row_groups: int = 0
    pages: int = 0
    rows: int = 0

    def __str__(self) -> str:
        counts = {"row": self.rows, "page": self.pages, "row group": self.row_groups, "file": self.files}
        parts = [count(number, noun) for noun, number in counts.items() if number]
        of_column = "" if self.column == "*" else f" of {self.column}"
        return f"{', '.join(parts) or 'nothing'} by {self.index}{of_column}"

    def add(self, *, files: int = 0, row_groups: int = 0, pages: int = 0, rows: int = 0) -> None:
        """Add to the counts."""
        self.files += files
        self.row_groups += row_groups
        self.pages += pages
        self.rows += rows

    def add_step(self, file: ParquetInput, step: PruneStep, pages: int) -> None:
        """Add the rows that the index excluded in one file.

        Args:
            file: The file, or several that are joined.
            step: The rows.
            pages: The number of pages that lost their last candidate rows.
        """

        def emptied(edges: Rows) -> int:
            before, after = step.before.count_between(edges), step.after.count_between(edges)
            return int(np.count_nonzero((before > 0) & (after == 0)))

        self.add(
            files=emptied(file.extent.row_edges),
            row_groups=emptied(file.footer.row_group_starts),
            pages=pages,
            rows=step.before.num_rows - step.after.num_rows,
        )
