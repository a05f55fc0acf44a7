"""The protocol that every index speaks, built in or yours.

An index class is a frozen dataclass: its fields are its parameters.  It says how to build a payload from
the values of a file, and how to open one again::

    @dataclass(frozen=True)
    class Even:                                   # one class, one file, one entry point
        kind: ClassVar[str] = "even"
        version: ClassVar[int] = 1
        column: str
        columns = property(lambda self: (self.column,))
        def build(self, chunk: ColumnData) -> bytes: ...
        def open(self, payload: bytes, layout: Layout) -> OpenIndex: ...

What an open index owes its users, and what `intarsia.testing.IndexContract` checks: **if a row meets
the predicate, the row is in** ``candidate_rows(predicate)``.  ``None`` means "cannot tell".
"""

from __future__ import annotations

import dataclasses
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Any, ClassVar, Protocol, TypeAlias, runtime_checkable

import numpy as np
import pyarrow as pa

from intarsia.errors import ColumnNotFoundError
from intarsia.predicate.bound import Leaf as BoundLeaf
from intarsia.selection import Rows, RowSelection

#: How finely an index knows its file: ``"file"``, ``"row_group"``, ``"page"``, or every so many rows.
Granularity: TypeAlias = "str | int"


@dataclass(frozen=True)
class Layout:
    """Where rows lie in a file.

    Attributes:
        num_rows: Rows in the file.
        row_group_edges: First row of each row group, and ``num_rows`` at the end.
        page_edges: For a column (dotted), the first row of each of its data pages, and ``num_rows`` at the
        end, in
            the file's numbering; absent for columns whose pages are not known.
    """

    num_rows: int
    row_group_edges: Rows
    page_edges: Mapping[str, Rows]

    def edges(self, granularity: Granularity, column: str) -> Rows:
        """First row of each granule, and ``num_rows`` at the end.

        Args:
            granularity: ``"file"``, ``"row_group"``, ``"page"`` or a number of rows (granules of so many
                rows then start anew in each row group).
            column: The column whose pages count, dotted.

        Raises:
            ColumnNotFoundError: If the pages of ``column`` are not known.
            ValueError: If there is no such granularity.
        """
        if granularity == "file":
            return np.array([0, self.num_rows], dtype=np.int64)
        if granularity == "row_group":
            return self.row_group_edges
        if granularity == "page":
            if column not in self.page_edges:
                raise ColumnNotFoundError(column, self.page_edges)
            return self.page_edges[column]
        if isinstance(granularity, int) and granularity > 0:
            starts = [
                np.arange(start, stop, granularity, dtype=np.int64)
                for start, stop in zip(self.row_group_edges[:-1], self.row_group_edges[1:], strict=True)
            ]
            return np.concatenate([*starts, [self.num_rows]]).astype(np.int64)
        raise ValueError(
            f"granularity {granularity!r} is unknown; use 'file', 'row_group', 'page' or a number of rows"
        )


class ColumnData(Protocol):
    """The values of a file's columns, as `Index.build` gets them."""

    layout: Layout

    def type_of(self, column: str) -> pa.DataType:
        """Arrow's type of a column (dotted)."""
        ...

    def batches(self, column: str) -> Iterator[tuple[int, pa.Array]]:
        """A column (dotted) from its first row to its last, a row group or less at a time.

        Yields:
            The first row of the piece in the file's numbering, and the values.
        """
        ...


@runtime_checkable
class OpenIndex(Protocol):
    """An index that can be asked."""

    def candidate_rows(self, predicate: BoundLeaf) -> RowSelection | None:
        """A superset of the rows that meet ``predicate``, in the file's numbering; None: cannot tell."""
        ...


@runtime_checkable
class SureIndex(Protocol):
    """An open index that also knows rows that need no second look."""

    def certain_rows(self, predicate: BoundLeaf) -> RowSelection | None:
        """Rows that all meet ``predicate``; None: cannot tell."""
        ...


@runtime_checkable
class Index(Protocol):
    """An index class's instance: its parameters, and how to build and open it."""

    kind: ClassVar[str]
    version: ClassVar[int]

    @property
    def columns(self) -> tuple[str, ...]:
        """The columns that it is about, dotted."""
        ...

    def build(self, chunk: ColumnData) -> bytes:
        """The payload for a file.

        Raises:
            IndexBuildError: If these columns cannot have such an index.
        """
        ...

    def open(self, payload: bytes, layout: Layout) -> OpenIndex:
        """Open a payload that `build` made, perhaps an older version of it.

        Raises:
            IndexPayloadError: If the payload is damaged.
        """
        ...


def parameters(index: Any) -> dict[str, Any]:
    """An index's parameters, from which ``type(index)(**parameters)`` makes it again."""
    return dataclasses.asdict(index)
