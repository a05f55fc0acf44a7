"""Columns in memory, divided into row groups and pages like those of a file."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from itertools import pairwise
from typing import NamedTuple, TypeAlias

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from intarsia.arrow.owned_rows import take_rows
from intarsia.errors import ColumnNotFoundError
from intarsia.indexes.layout import Layout
from intarsia.rows.selection import Rows

#: A function that returns an integer between two inclusive bounds, at random or chosen by Hypothesis.
Draw: TypeAlias = Callable[[int, int], int]


class MemoryColumns:
    """Columns in memory; implements `intarsia.indexes.ColumnData`, so that an index can be built.

    Args:
        table: The columns.
        row_group_edges: First row of each row group, and the number of rows at the end.
        page_edges: For each column, the first row of each of its pages, and the number of rows at the end.
            By default, each row group is one page.
        batch_rows: The maximum number of rows per batch.

    Example:
        >>> columns = MemoryColumns(pa.table({"x": [1, 2, 3]}), [0, 2, 3])
        >>> [(first_row, piece.to_pylist()) for first_row, piece in columns.batches("x")]
        [(0, [1, 2]), (2, [3])]
    """

    def __init__(
        self,
        table: pa.Table,
        row_group_edges: Sequence[int] | Rows,
        page_edges: Mapping[str, Sequence[int] | Rows] | None = None,
        batch_rows: int = 1 << 30,
    ) -> None:
        self.table = table.combine_chunks()
        self._batch_rows = batch_rows
        pages = {name: _edges(row_group_edges) for name in table.column_names}
        pages.update({name: _edges(edges) for name, edges in (page_edges or {}).items()})
        self.layout = Layout(table.num_rows, _edges(row_group_edges), pages)

    @property
    def layout_when_opened(self) -> Layout:
        """The layout for opening an index, without pages, because a footer lists only row groups."""
        return Layout(self.layout.num_rows, self.layout.row_group_edges, {})

    @property
    def schema(self) -> pa.Schema:
        """The schema of the columns."""
        return self.table.schema

    def rows(self, ordinals: Rows) -> pa.Table:
        """Return some rows with all columns."""
        return take_rows(self.table, ordinals)

    def values(self, column: str) -> pa.Array:
        """Return all values of a column.

        Raises:
            ColumnNotFoundError: If the column does not exist.
        """
        if column not in self.table.column_names:
            raise ColumnNotFoundError(column, self.table.column_names)
        chunks = self.table.column(column).chunks
        return chunks[0] if chunks else pa.array([], self.schema.field(column).type)

    def type_of(self, column: str) -> pa.DataType:
        """Return the Arrow type of a column."""
        return self.values(column).type

    def batches(self, column: str) -> Iterator[tuple[int, pa.Array]]:
        """Yield the values of a column in order, at most one row group at a time."""
        values = self.values(column)
        edges = self.layout.row_group_edges.tolist()
        for start, stop in pairwise(edges):
            for row in range(start, stop, self._batch_rows):
                yield row, values.slice(row, min(self._batch_rows, stop - row))

    encoded_batches = batches


class Case(NamedTuple):
    """Columns, and a description of their layout."""

    name: str
    columns: MemoryColumns


def fixed_cases(table: pa.Table) -> Iterator[Case]:
    """Yield layouts that are special cases for indexes.

    Args:
        table: The rows; the first case has all of them, unchanged.
    """
    num_rows = table.num_rows
    groups = _evenly(num_rows, 3)
    pages = {
        name: np.union1d(groups, _evenly(num_rows, 8 + 3 * ordinal))
        for ordinal, name in enumerate(table.column_names)
    }
    yield Case("three row groups of several pages", MemoryColumns(table, groups, pages))
    yield Case("the same in small batches", MemoryColumns(table, groups, pages, batch_rows=3))
    yield Case("one row group of one page", MemoryColumns(table, [0, num_rows]))
    yield Case("one row in each row group", MemoryColumns(table, range(num_rows + 1)))
    yield Case("a row group without rows", MemoryColumns(table, [0, num_rows // 2, num_rows // 2, num_rows]))
    yield Case("no rows", MemoryColumns(table.slice(0, 0), [0, 0]))
    yield Case("no row groups", MemoryColumns(table.slice(0, 0), [0]))
    for row in {0, num_rows - 1} if num_rows else ():
        yield Case(f"a single row, number {row}", MemoryColumns(table.slice(row, 1), [0, 1]))
    empty = pa.table({field.name: pa.nulls(num_rows, field.type) for field in table.schema})
    yield Case("every value null", MemoryColumns(empty, groups, pages))
    for field in table.schema:
        one = table.set_column(table.column_names.index(field.name), field, empty.column(field.name))
        if len(table.schema) > 1:
            yield Case(f"every value of {field.name!r} null", MemoryColumns(one, groups, pages))


def random_case(table: pa.Table, draw: Draw) -> Case:
    """Return a random choice of the rows in random order, in a random layout."""
    num_rows = draw(0, min(24, 2 * table.num_rows)) if table.num_rows else 0
    chosen = [draw(0, table.num_rows - 1) for _ in range(num_rows)]
    groups = _cuts(num_rows, draw, [0, num_rows])
    pages = {name: _cuts(num_rows, draw, groups) for name in table.column_names}
    rows = table.take(pa.array(chosen, pa.int64()))
    return Case(f"row groups {groups}, pages {pages}", MemoryColumns(rows, groups, pages, draw(1, 30)))


def _cuts(num_rows: int, draw: Draw, edges: Sequence[int]) -> list[int]:
    return sorted({*edges, *(draw(0, num_rows) for _ in range(draw(0, 4)))})


def _evenly(num_rows: int, parts: int) -> npt.NDArray[np.int64]:
    return np.unique(np.linspace(0, num_rows, parts + 1).astype(np.int64)) if num_rows else _edges([0, 0])


def _edges(edges: Sequence[int] | Rows) -> Rows:
    return np.asarray(edges, dtype=np.int64)
