"""Counts of pages, rows and bytes that were read."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field


@dataclass
class PageCounts:
    """The numbers of data pages of one column; the total is None if a file has no page counts."""

    total: int | None = 0
    read: int = 0

    def add(self, other: PageCounts) -> None:
        """Add other counts; the total becomes None if either is."""
        self.total = None if self.total is None or other.total is None else self.total + other.total
        self.read += other.read


@dataclass(frozen=True)
class ReadCounts:
    """Counts of the reads of one file, or of a part of it.

    Attributes:
        row_groups: Number of row groups with data pages that were read.
        pages: Number of data pages that were read, by the dotted path of their leaf.
        dictionary_pages: Number of dictionary pages that were read.
        rows_candidate: Number of rows that might match, according to the indexes.
        rows_matched: Number of rows that match.
        index_bytes: Bytes that were read from indexes.
        planned_bytes: Bytes of the pages in a plan.

    Example:
        >>> ReadCounts(pages={"x": 1}) + ReadCounts(pages={"x": 2}, rows_matched=3)
        ReadCounts(row_groups=0, pages={'x': 3}, dictionary_pages=0, rows_candidate=0, rows_matched=3,
                   index_bytes=0, planned_bytes=0)
    """

    row_groups: int = 0
    pages: Mapping[str, int] = field(default_factory=dict)
    dictionary_pages: int = 0
    rows_candidate: int = 0
    rows_matched: int = 0
    index_bytes: int = 0
    planned_bytes: int = 0

    def __add__(self, other: ReadCounts) -> ReadCounts:
        pages = dict(self.pages)
        for name, read in other.pages.items():
            pages[name] = pages.get(name, 0) + read
        return ReadCounts(
            self.row_groups + other.row_groups,
            pages,
            self.dictionary_pages + other.dictionary_pages,
            self.rows_candidate + other.rows_candidate,
            self.rows_matched + other.rows_matched,
            self.index_bytes + other.index_bytes,
            self.planned_bytes + other.planned_bytes,
        )
