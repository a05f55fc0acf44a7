"""The values of a file from which an index is built."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Protocol, runtime_checkable

import pyarrow as pa

from intarsia.indexes.layout import Layout
from intarsia.rows.selection import Rows


class ColumnData(Protocol):
    """The values of a file's columns, the argument of `Index.build`.

    Attributes:
        layout: The row ranges of the file, including the pages of the index's columns.
    """

    layout: Layout

    @property
    def schema(self) -> pa.Schema:
        """The file's schema, as in `pyarrow.parquet.read_table`."""
        ...

    def rows(self, ordinals: Rows) -> pa.Table:
        """Return rows of the file with all columns.

        Args:
            ordinals: Row ordinals of the file, ascending; int64.

        Returns:
            One row per ordinal, in the same order, with the columns of `schema`.
        """
        ...

    def type_of(self, column: str) -> pa.DataType:
        """Return the Arrow type of a column.

        Args:
            column: The column, dotted if it is nested.

        Returns:
            The type of the arrays that `batches` yields.

        Raises:
            ColumnNotFoundError: If the column does not exist.
            IndexBuildError: If the column is inside a list or a map.
        """
        ...

    def batches(self, column: str) -> Iterator[tuple[int, pa.Array]]:
        """Read a column from its first row to its last, at most a row group at a time.

        Args:
            column: The column, dotted if it is nested.

        Yields:
            The row ordinal of the first value in the file, and the values.
        """
        ...


@runtime_checkable
class EncodedColumns(Protocol):
    """`ColumnData` that can return dictionary arrays without decoding them."""

    def encoded_batches(self, column: str) -> Iterator[tuple[int, pa.Array]]:
        """Read a column as `ColumnData.batches` does, but with some pieces as dictionary arrays.

        Args:
            column: The column, dotted if it is nested.

        Yields:
            The row ordinal of the first value in the file, and the values.
        """
        ...


def encoded_batches(chunk: ColumnData, column: str) -> Iterator[tuple[int, pa.Array]]:
    """Read a column from its first row to its last, as dictionary arrays where that is faster.

    Use it for indexes that process each distinct value once.

    Args:
        chunk: The columns of the file.
        column: The column, dotted if it is nested.

    Yields:
        The row ordinal of the first value in the file, and the values.
    """
    return chunk.encoded_batches(column) if isinstance(chunk, EncodedColumns) else chunk.batches(column)
