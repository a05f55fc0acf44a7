"""The cost of a query."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True)
class QueryCost:
    """The reads of a query, measured or estimated.

    Attributes:
        bytes: Bytes of data pages, dictionary pages, indexes and footers.
        pages: Number of data pages.
        row_groups: Number of row groups.
        rows: Number of rows that might match.
        files: Number of files whose data pages are read.
        footer_bytes: Those of the bytes that are footers.
        index_bytes: Those that are indexes, and dictionary pages that planning needs.
    """

    bytes: float = 0
    pages: float = 0
    row_groups: float = 0
    rows: float = 0
    files: float = 0
    footer_bytes: float = 0
    index_bytes: float = 0

    def __add__(self, other: QueryCost) -> QueryCost:
        return QueryCost(*(mine + theirs for mine, theirs in zip(self._values, other._values, strict=True)))

    def scaled(self, factor: float) -> QueryCost:
        """Return the cost of this many times the data."""
        return QueryCost(*(value * factor for value in self._values))

    @property
    def _values(self) -> tuple[float, ...]:
        return (
            self.bytes,
            self.pages,
            self.row_groups,
            self.rows,
            self.files,
            self.footer_bytes,
            self.index_bytes,
        )

    def to_dict(self) -> dict[str, int]:
        """Return the cost as a JSON object of integers."""
        names = ("bytes", "pages", "row_groups", "rows", "files")
        return {name: round(value) for name, value in zip(names, self._values[:5], strict=True)}
