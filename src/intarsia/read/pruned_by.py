"""The files, row groups, pages and rows that one index of one column excluded or answered."""

from __future__ import annotations

from dataclasses import dataclass

from intarsia.file import ParquetInput
from intarsia.read.amounts import count
from intarsia.read.pruner import PruneStep


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
            file: The file.
            step: The rows.
            pages: The number of pages that lost their last candidate rows.
        """
        edges = file.footer.row_group_starts
        before, after = step.before.count_between(edges), step.after.count_between(edges)
        self.add(
            files=int(step.after.is_empty),
            row_groups=int(((before > 0) & (after == 0)).sum()),
            pages=pages,
            rows=int(before.sum() - after.sum()),
        )
