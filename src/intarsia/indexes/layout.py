"""What an index is built from: its parameters, the values of a file, and the rows of its granules."""

from __future__ import annotations

import dataclasses
from collections.abc import Iterator, Mapping
from typing import Any, Protocol, TypeAlias

import numpy as np
import pyarrow as pa

from intarsia.arrow.comparison import comparison_array, comparison_type
from intarsia.errors import ColumnNotFoundError, IndexBuildError
from intarsia.records import dataclass
from intarsia.rows.selection import Rows

#: The size of a granule: ``"file"``, ``"row_group"``, ``"page"``, or a number of rows.
Granularity: TypeAlias = "str | int"

#: The maximum number of granules in a file. An index with this many granules takes about a gigabyte.
MAX_GRANULES = 1 << 24


@dataclass(frozen=True)
class Layout:
    """The row ranges of a file's row groups and pages.

    Attributes:
        num_rows: The number of rows in the file.
        row_group_edges: The first row of each row group, then ``num_rows``; int64.
        page_edges: By dotted column, the first row of each of its data pages, then ``num_rows``; int64, as
            row ordinals of the file. Columns whose pages are unknown are absent.
    """

    num_rows: int
    row_group_edges: Rows
    page_edges: Mapping[str, Rows]

    def __post_init__(self) -> None:
        # the array is that of the footer, and an index of any package could change it in place
        object.__setattr__(self, "row_group_edges", read_only(self.row_group_edges))

    def edges(self, granularity: Granularity, column: str) -> Rows:
        """Return the first row of each granule, then ``num_rows``.

        Args:
            granularity: ``"file"``, ``"row_group"``, ``"page"`` or a number of rows. Granules of a number of
                rows begin again at each row group.
            column: The dotted column whose pages are the granules, if ``granularity`` is ``"page"``.

        Raises:
            ColumnNotFoundError: If the pages of ``column`` are unknown.
            ValueError: If ``granularity`` is not valid.
            IndexBuildError: If the file would have more than `MAX_GRANULES` granules.
        """
        named = self._named_edges(granularity, column)
        if named is not None:
            return named
        num_granules = self.num_granules(granularity, column)
        if num_granules > MAX_GRANULES:
            raise IndexBuildError(
                f"granularity {granularity} divides {self.num_rows:,} rows into {num_granules:,} granules, "
                f"and the limit is {MAX_GRANULES:,}; use a larger number of rows",
                reason="too-many-granules",
            )
        starts = [
            np.arange(start, stop, int(granularity), dtype=np.int64)
            for start, stop in zip(self.row_group_edges[:-1], self.row_group_edges[1:], strict=True)
        ]
        return np.concatenate([*starts, [self.num_rows]]).astype(np.int64)

    def num_granules(self, granularity: Granularity, column: str) -> int:
        """Return the number of granules, without an allocation of the size that a footer claims.

        Args:
            granularity: As for `edges`.
            column: As for `edges`.

        Raises:
            ColumnNotFoundError: If the pages of ``column`` are unknown.
            ValueError: If ``granularity`` is not valid.

        Example:
            >>> Layout(250, np.array([0, 200, 250]), {}).num_granules(100, "x")
            3
        """
        named = self._named_edges(granularity, column)
        if named is not None:
            return len(named) - 1
        if isinstance(granularity, int) and granularity > 0:
            rows = np.diff(self.row_group_edges).tolist()
            return sum(-(-num_rows // granularity) for num_rows in rows)
        raise ValueError(
            f"granularity {granularity!r} is unknown; use 'file', 'row_group', 'page' or a number of rows"
        )

    def _named_edges(self, granularity: Granularity, column: str) -> Rows | None:
        """Return the edges of granules that are not a number of rows."""
        if granularity == "file":
            return np.array([0, self.num_rows], dtype=np.int64)
        if granularity == "page":
            if column not in self.page_edges:
                raise ColumnNotFoundError(column, self.page_edges)
            return self.page_edges[column]
        return self.row_group_edges if granularity == "row_group" else None


def read_only(rows: Rows) -> Rows:
    """Return a view of an array that cannot be changed through it."""
    view = rows.view()
    view.setflags(write=False)
    return view


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

    def encoded_batches(self, column: str) -> Iterator[tuple[int, pa.Array]]:
        """Read a column as `batches` does, but with some pieces as dictionary arrays where that is faster.

        Use it for indexes that process each distinct value once.

        Args:
            column: The column, dotted if it is nested.

        Yields:
            The row ordinal of the first value in the file, and the values.
        """
        ...


def refuse_nested(index: object, column: str, type_: pa.DataType) -> pa.DataType:
    """Return the comparison type of a column that must not be nested.

    Args:
        index: The index, for the message.

    Raises:
        IndexBuildError: If the type is nested.
    """
    plain = comparison_type(type_)
    if pa.types.is_nested(plain):
        raise IndexBuildError(
            f"{type(index).__name__}: {column!r} is a {plain}; name one of its fields",
            reason="nested-column",
            column=column,
        )
    return plain


def compared_batches(chunk: ColumnData, column: str) -> Iterator[tuple[int, pa.Array]]:
    """Read a column from its first row to its last in its comparison type.

    Args:
        column: The column, dotted.

    Yields:
        The first row of an array, and the result of `intarsia.arrow.comparison.comparison_array`.
    """
    value_type = comparison_type(chunk.type_of(column))
    for row, piece in chunk.batches(column):
        compared = comparison_array(piece, value_type)
        for array in compared.chunks if isinstance(compared, pa.ChunkedArray) else [compared]:
            yield row, array
            row += len(array)


#: A filter with this rate takes 41 bits per value. A lower rate would cost more than it could save.
_MIN_FPP = 1e-6


#: The rows of a file are numbered in 64 bits.
MOST_ROWS = 2**63 - 1


def check_granularity(index: Any, *names: str) -> None:
    """Check that ``granularity`` is a `intarsia.indexes.layout.Granularity`.

    Args:
        index: An index with the attribute ``granularity``.
        names: The allowed names. By default all are allowed.

    Raises:
        IndexBuildError: If the granularity is not allowed.
    """
    value = index.granularity
    known = names or ("file", "row_group", "page")
    if value not in known and not _is_integer(value, 1, MOST_ROWS):
        raise _invalid(index, "granularity", f"{', '.join(map(repr, known))} or a number of rows")


def check_integer(index: Any, name: str, least: int, greatest: int | None = None) -> None:
    """Check that a parameter is an integer in a range.

    Args:
        greatest: The maximum, or None.

    Raises:
        IndexBuildError: If the parameter is not an integer in the range.
    """
    if not _is_integer(getattr(index, name), least, greatest):
        end = "or more" if greatest is None else f"to {greatest:,}"
        raise _invalid(index, name, f"an integer of {least:,} {end}")


def check_fpp(index: Any) -> None:
    """Check the false-positive rate ``fpp``.

    Raises:
        IndexBuildError: If the rate is not a float in the valid range.
    """
    if not isinstance(index.fpp, float) or not _MIN_FPP <= index.fpp < 1:
        raise _invalid(index, "fpp", f"a rate between {_MIN_FPP:f} and 1, such as 0.01")


def check_choice(index: Any, name: str, *choices: Any) -> None:
    """Check that a parameter is one of the given values.

    Raises:
        IndexBuildError: If the parameter has another value, or another type.
    """
    value = getattr(index, name)
    if not any(type(value) is type(choice) and value == choice for choice in choices):
        raise _invalid(index, name, " or ".join(map(repr, choices)))


def _is_integer(value: Any, least: int, greatest: int | None) -> bool:
    return type(value) is int and least <= value and (greatest is None or value <= greatest)


def _invalid(index: Any, name: str, allowed: str) -> IndexBuildError:
    value = getattr(index, name)
    return IndexBuildError(
        f"{type(index).__name__}: {name} is {value!r}; use {allowed}",
        reason=f"invalid-{name.replace('_', '-')}",
    )


def parameters(index: Any) -> dict[str, Any]:
    """Return an index's parameters, such that ``type(index)(**parameters)`` equals the index."""
    return dataclasses.asdict(index)
