"""What is asked: rows by a range of one column, some columns of them, or a total."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True)
class Question:
    """A question that every reader understands.

    Attributes:
        column: The column of whole numbers that rows are chosen by.
        start: Its least value; None for all rows.
        stop: The value that it does not reach; None with ``start``.
        columns: Columns of the answer; None for all.
        total: Instead of rows, ``"*"`` for their number, or a column for its sum.
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
        """The question in SQL, of a table or of a function that reads one."""
        if self.total is not None:
            wanted = "count(*)" if self.total == "*" else f"sum({self.total})"
        else:
            wanted = "*" if self.columns is None else ", ".join(self.columns)
        return f"SELECT {wanted} FROM {source}" + (f" WHERE {self.where}" if self.where else "")
