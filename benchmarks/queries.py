"""The queries: rows selected by a condition, the first rows in an order, or an aggregate."""

from __future__ import annotations

import datetime as dt
from dataclasses import dataclass


@dataclass(frozen=True)
class Query:
    """A query that every reader supports.

    Attributes:
        column: The column of the predicate.
        start: Its minimum, inclusive; None for all rows, or with one of the next three.
        stop: Its upper end, exclusive; None if ``start`` is None.
        columns: Columns of the result; None for all.
        equals: A text that the column equals.
        contains: A text that the column contains.
        among: The numbers of an IN list.
        top: Only the rows with the greatest values of this column.
        limit: The number of these rows.
        total: Instead of rows, ``"*"`` for their count, or a column for its sum.
    """

    column: str = "id"
    start: int | dt.datetime | None = None
    stop: int | dt.datetime | None = None
    columns: tuple[str, ...] | None = None
    total: str | None = None
    equals: str | None = None
    contains: str | None = None
    among: tuple[int, ...] | None = None
    top: str | None = None
    limit: int | None = None

    @property
    def is_point(self) -> bool:
        return isinstance(self.start, int) and self.stop == self.start + 1

    @property
    def where(self) -> str | None:
        """The condition in SQL."""
        if self.equals is not None:
            return f"{self.column} = '{self.equals}'"
        if self.contains is not None:
            return f"{self.column} LIKE '%{self.contains}%'"
        if self.among is not None:
            return f"{self.column} IN ({', '.join(map(str, self.among))})"
        if self.start is None:
            return None
        if self.is_point:
            return f"{self.column} = {self.start}"
        return f"{self.column} >= {_literal(self.start)} AND {self.column} < {_literal(self.stop)}"

    def sql(self, source: str) -> str:
        """Return the query in SQL, for a table or a table function."""
        if self.total is not None:
            wanted = "count(*)" if self.total == "*" else f"sum({self.total})"
        else:
            wanted = "*" if self.columns is None else ", ".join(self.columns)
        text = f"SELECT {wanted} FROM {source}" + (f" WHERE {self.where}" if self.where else "")
        if self.top is None:
            return text
        return f"{text} ORDER BY {self.top} DESC NULLS LAST LIMIT {self.limit}"


def _literal(value: int | dt.datetime | None) -> str:
    return f"TIMESTAMP '{value}'" if isinstance(value, dt.datetime) else str(value)


def fewer(repetitions: int, part: int) -> int:
    """Return how often a slow query is repeated: a part of the repetitions, but twice if there are two."""
    return max(min(2, repetitions), repetitions // part)
