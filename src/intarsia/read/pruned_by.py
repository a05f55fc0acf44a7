"""The files, row groups, pages and rows that one index of one column excluded or answered."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from intarsia.file import ChunkKey, ParquetInput
from intarsia.format.footer import Leaf
from intarsia.format.page_index import PageRows
from intarsia.read.amounts import count
from intarsia.read.known import PruneStep
from intarsia.rows.selection import RowSelection


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
        return f"{', '.join(parts) or 'nothing'} by {self.index} of {self.column}"

    def add(self, *, files: int = 0, row_groups: int = 0, pages: int = 0, rows: int = 0) -> None:
        """Add to the counts."""
        self.files += files
        self.row_groups += row_groups
        self.pages += pages
        self.rows += rows

    def add_step(self, file: ParquetInput, leaves: Sequence[Leaf], step: PruneStep) -> None:
        """Add the rows that the index excluded in one file, and the pages of some leaves with these rows."""
        edges = file.footer.row_group_starts
        if step.after.is_empty and step.before.num_rows == file.footer.num_rows:
            totals = file.metadata.total_data_pages(leaves)
            if all(totals):  # the usual case in a lake: the file is excluded, and its pages are recorded
                row_groups = int(np.count_nonzero(np.diff(edges)))
                pages = sum(total or 0 for total in totals)
                self.add(files=1, row_groups=row_groups, pages=pages, rows=file.footer.num_rows)
                return
        before, after = step.before.count_between(edges), step.after.count_between(edges)
        self.add(
            files=int(step.after.is_empty),
            row_groups=int(((before > 0) & (after == 0)).sum()),
            pages=_excluded_pages(file, leaves, step, before, after),
            rows=int(before.sum() - after.sum()),
        )


def _excluded_pages(
    file: ParquetInput,
    leaves: Sequence[Leaf],
    step: PruneStep,
    before: npt.NDArray[np.int64],
    after: npt.NDArray[np.int64],
) -> int:
    """Count the data pages without candidate rows, given the numbers of these by row group."""
    edges = file.footer.row_group_starts
    narrowed = before != after
    # for row groups that are excluded completely, single pages need not be counted
    is_whole = narrowed & (before == edges[1:] - edges[:-1]) & (after == 0)
    whole, others = np.flatnonzero(is_whole), np.flatnonzero(narrowed & ~is_whole).tolist()
    outlines = file.metadata.outlines(leaves)
    recorded = np.array([of_leaf.data_pages for of_leaf in outlines]).reshape(len(leaves), len(edges) - 1)
    pages_of_whole = recorded[:, whole]
    pages = int(np.maximum(pages_of_whole, 0).sum())
    for ordinal, unrecorded in np.argwhere(pages_of_whole <= 0).tolist():
        pages += _num_pages(file, int(whole[unrecorded]), leaves[ordinal])
    for group in others:
        start, stop = int(edges[group]), int(edges[group + 1])
        rows_before, rows_after = (rows.clip(start, stop).shift(-start) for rows in (step.before, step.after))
        counted: dict[PageRows, int] = {}
        for leaf, known in zip(leaves, recorded[:, group].tolist(), strict=True):
            locations = file.locations(ChunkKey(group, leaf.ordinal))
            if locations is not None:
                rows = locations.rows  # columns whose pages have the same rows share them
                if rows not in counted:
                    counted[rows] = _count_pages(rows, rows_before) - _count_pages(rows, rows_after)
                pages += counted[rows]
            elif rows_after.is_empty:
                pages += max(0, known)
    return pages


def _num_pages(file: ParquetInput, group: int, leaf: Leaf) -> int:
    """Return the number of data pages in the OffsetIndex of a chunk; 0 if it was not read."""
    locations = file.locations(ChunkKey(group, leaf.ordinal))
    return 0 if locations is None else len(locations)


def _count_pages(pages: PageRows, rows: RowSelection) -> int:
    """Count the data pages of a chunk that contain some of the rows, which are relative to the row group."""
    return int(np.count_nonzero(rows.overlaps(pages.starts, pages.stops)))
