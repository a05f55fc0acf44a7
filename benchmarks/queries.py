"""The queries: rows by a range of one column, some columns of these rows, or an aggregate."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True)
class Query:
    """A query that every reader supports.

    Attributes:
        column: The integer column of the predicate.
        start: Its minimum, inclusive; None for all rows.
        stop: Its maximum, exclusive; None if ``start`` is None.
        columns: Columns of the result; None for all.
        total: Instead of rows, ``"*"`` for their count, or a column for its sum.
    """

    column: str = "id"
    start: int | None = None
    stop: int | None = None
    columns: tuple[str, ...] | None = None
    total: str | None = None

    @property
    def is_point(self) -> bool:
        return self.start is not None and self.stop == self.start + 1

    @property
    def where(self) -> str | None:
        """The condition in SQL."""
        if self.start is None:
            return None
        if self.is_point:
            return f"{self.column} = {self.start}"
        return f"{self.column} >= {self.start} AND {self.column} < {self.stop}"

    def sql(self, source: str) -> str:
        """Return the query in SQL, for a table or a table function."""
        if self.total is not None:
            wanted = "count(*)" if self.total == "*" else f"sum({self.total})"
        else:
            wanted = "*" if self.columns is None else ", ".join(self.columns)
        return f"SELECT {wanted} FROM {source}" + (f" WHERE {self.where}" if self.where else "")
