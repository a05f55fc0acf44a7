"""Counts of pages, rows and bytes that were read."""

from __future__ import annotations

from dataclasses import dataclass


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
