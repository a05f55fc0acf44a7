"""The protocols of indexes, for the built-in kinds and for those of other packages.

An index class is a frozen dataclass whose fields are its parameters. It builds a payload from the values of
a file, and opens a payload::

    @dataclass(frozen=True)
    class Even:                                   # one class, one file, one entry point
        kind: ClassVar[str] = "even"
        version: ClassVar[int] = 1
        column: str
        columns = property(lambda self: (self.column,))
        def build(self, chunk: ColumnData) -> bytes: ...
        def open(self, payload: bytes, layout: Layout) -> OpenIndex: ...

The contract of an open index, which `intarsia.testing.IndexContract` checks: **if a row matches the
condition, the row is in** ``candidate_rows(condition)``. ``None`` means that the index cannot decide.

Everything else that an index can do is a small protocol. Callers never test the kind of an index.
With `PicksPredicates` its payload is not read for conditions that it cannot evaluate, and with `ProbedIndex`
only parts of it are read. A `ProvingIndex` also returns certain rows. `EstimatesRows` and `EstimatingIndex`
estimate the number of matching rows. With `HasFooterKeys` other programs find the payload. The module
`intarsia.indexes.capabilities` has the protocols that do not evaluate conditions.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, ClassVar, Protocol, TypeAlias, runtime_checkable

import numpy as np
import pyarrow as pa

from intarsia.errors import ColumnNotFoundError, IndexBuildError, IndexPayloadError
from intarsia.predicate.bound import Condition
from intarsia.rows.selection import Rows, RowSelection
from intarsia.storage import ByteRange

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

    def edges(self, granularity: Granularity, column: str) -> Rows:
        """Return the first row of each granule, then ``num_rows``.

        Args:
            granularity: ``"file"``, ``"row_group"``, ``"page"`` or a number of rows. Granules of a number of
                rows begin again at each row group.
            column: The dotted column whose pages are the granules, if ``granularity`` is ``"page"``.

        Raises:
            ColumnNotFoundError: The pages of ``column`` are unknown.
            ValueError: ``granularity`` is not valid.
            IndexBuildError: The file would have more than `MAX_GRANULES` granules.
        """
        if granularity == "file":
            return np.array([0, self.num_rows], dtype=np.int64)
        if granularity == "row_group":
            return self.row_group_edges
        if granularity == "page":
            return self._page_edges(column)
        num_granules = self.num_granules(granularity, column)
        if num_granules > MAX_GRANULES:
            raise IndexBuildError(
                f"granularity {granularity} makes {num_granules:,} granules of {self.num_rows:,} rows, and "
                f"the limit is {MAX_GRANULES:,}; use a larger number of rows",
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
            ColumnNotFoundError: The pages of ``column`` are unknown.
            ValueError: ``granularity`` is not valid.

        Example:
            >>> Layout(250, np.array([0, 200, 250]), {}).num_granules(100, "x")
            3
        """
        if granularity == "file":
            return 1
        if granularity == "row_group":
            return len(self.row_group_edges) - 1
        if granularity == "page":
            return len(self._page_edges(column)) - 1
        if isinstance(granularity, int) and granularity > 0:
            rows = np.diff(self.row_group_edges).tolist()
            return sum(-(-num_rows // granularity) for num_rows in rows)
        raise ValueError(
            f"granularity {granularity!r} is unknown; use 'file', 'row_group', 'page' or a number of rows"
        )

    def _page_edges(self, column: str) -> Rows:
        if column not in self.page_edges:
            raise ColumnNotFoundError(column, self.page_edges)
        return self.page_edges[column]


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

        Raises:
            ColumnNotFoundError: The column does not exist.
            IndexBuildError: The column is inside a list or a map.
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


@runtime_checkable
class OpenIndex(Protocol):
    """An index whose payload has been opened."""

    def candidate_rows(self, predicate: Condition) -> RowSelection | None:
        """Return the rows that might match a condition.

        Args:
            predicate: A condition on one of the index's columns. `intarsia.indexes` lists its classes.

        Returns:
            A superset of the matching rows, as row ordinals of the file. None if the index cannot decide.

        Raises:
            IndexPayloadError: The payload is damaged. The index is then ignored.
        """
        ...


@runtime_checkable
class ProvingIndex(Protocol):
    """An open index that also proves that rows match."""

    def certain_rows(self, predicate: Condition) -> RowSelection | None:
        """Return rows that are proven to match a condition.

        Args:
            predicate: As for `OpenIndex.candidate_rows`.

        Returns:
            A subset of the matching rows, as row ordinals of the file. None if the index cannot decide.

        Raises:
            IndexPayloadError: The payload is damaged.
        """
        ...


@runtime_checkable
class ProvesWithinBounds(Protocol):
    """An open index that can exclude false positives among the integers of a range."""

    def is_certain_within(self, predicate: Condition, low: int, high: int) -> bool:
        """Return whether all candidate rows are proven to match a condition on an integer column.

        Args:
            predicate: A condition for which `OpenIndex.candidate_rows` returned rows.
            low: A lower bound of the column's values other than null.
            high: An upper bound of the column's values.

        Returns:
            True if every row of ``candidate_rows(predicate)`` matches. False if the index cannot decide.
        """
        ...


@runtime_checkable
class EstimatingIndex(Protocol):
    """An open index that can estimate the number of matching rows."""

    def estimated_rows(self, predicate: Condition) -> float | None:
        """Estimate the number of rows that match a condition.

        Args:
            predicate: A condition for which `EstimatesRows.can_estimate` is true.

        Returns:
            The estimated number of matching rows in the file. None if the index cannot estimate it. The
            estimate only affects the order in which columns are read; no rows are skipped.
        """
        ...


@runtime_checkable
class Index(Protocol):
    """An index: its parameters, and the methods that build and open a payload.

    Attributes:
        kind: The name of the class in files, and of its entry point in the group ``intarsia.indexes``.
        version: The version of the payload format. A payload of a later version is ignored.
    """

    kind: ClassVar[str]
    version: ClassVar[int]

    @property
    def columns(self) -> tuple[str, ...]:
        """The indexed columns, dotted if they are nested. Empty if the index is on whole rows."""
        ...

    def build(self, chunk: ColumnData) -> bytes:
        """Build the payload for a file.

        Args:
            chunk: The values of the file's columns, and the layout of its rows.

        Returns:
            Arbitrary bytes, the same for the same values and layout.

        Raises:
            IndexBuildError: The index cannot be built on these columns.
        """
        ...

    def open(self, payload: bytes, layout: Layout) -> OpenIndex:
        """Open a payload built by this or an earlier version of the class.

        Args:
            payload: The bytes. Their checksum has been verified.
            layout: The row ranges of the file. It has no page edges, so an index of pages must store them.

        Returns:
            An open index, which may also be a `ProvingIndex`, an `EstimatingIndex` and so on.

        Raises:
            IndexPayloadError: The payload is damaged.
        """
        ...


@runtime_checkable
class ReportsShortfall(Protocol):
    """An index that reports when a payload that it built is unlikely to be useful."""

    def shortfall(self, payload: bytes, layout: Layout) -> str | None:
        """Return why the index is unlikely to skip anything, for the report of `attach`.

        Args:
            payload: The result of `Index.build`.
            layout: The layout passed to `Index.build`, including pages.

        Returns:
            The reason, as a sentence fragment. None if the index may be useful.
        """
        ...


@runtime_checkable
class PicksPredicates(Protocol):
    """An index that reports, before its payload is read, which conditions it cannot evaluate."""

    def can_prune(self, predicate: Condition) -> bool:
        """Return whether the payload is worth reading for a condition.

        Args:
            predicate: A condition on one of the index's columns.

        Returns:
            False if `OpenIndex.candidate_rows` would return None.
        """
        ...


@runtime_checkable
class EstimatesRows(Protocol):
    """An index that estimates, and reports before its payload is read which conditions it can estimate.

    If it has no columns, it is on whole rows and is used for conditions on every column.
    """

    def can_estimate(self, predicate: Condition) -> bool:
        """Return whether the payload is worth reading for an estimate.

        Args:
            predicate: A condition on one of the index's columns, or on any column if it has none.

        Returns:
            False if `EstimatingIndex.estimated_rows` would return None.
        """
        ...


@runtime_checkable
class HasFooterKeys(Protocol):
    """An index whose payload other programs find by their own footer keys."""

    def footer_keys(self, payload_offset: int) -> Mapping[bytes, bytes]:
        """Return the entries to add to the footer's key/value metadata. May be empty.

        Args:
            payload_offset: The offset of the payload in the file, in bytes. A payload with footer keys is
                never stored inline in the directory.

        Returns:
            Keys and their values.
        """
        ...


class PayloadSource(Protocol):
    """A payload that is read in parts."""

    @property
    def num_bytes(self) -> int:
        """The length of the payload in bytes."""
        ...

    def read_ranges(self, ranges: Sequence[ByteRange]) -> list[bytes]:
        """Read ranges of bytes in one request.

        The bytes are not verified by a checksum. The format of the payload must detect damage.

        Args:
            ranges: Ranges of bytes, relative to the payload's first byte.

        Returns:
            One bytes object per range, in the same order.

        Raises:
            IndexPayloadError: A range is outside the payload, or the payload has been replaced.
        """
        ...


@runtime_checkable
class ProbedIndex(Protocol):
    """An index with a large payload that is probed with small reads and not loaded whole."""

    def open_source(self, source: PayloadSource, layout: Layout) -> OpenIndex:
        """Open a payload without reading all of it. `Index.open` opens the same payload as bytes.

        Args:
            source: The payload, not read yet.
            layout: As for `Index.open`.

        Returns:
            An open index that reads the payload on demand.

        Raises:
            IndexPayloadError: The payload is not valid, as far as that is evident without reading it.
        """
        ...


@dataclass(frozen=True)
class PayloadBytes:
    """A payload in memory as a `PayloadSource`, with which a `ProbedIndex` opens bytes.

    Example:
        >>> PayloadBytes(b"payload").read_ranges([ByteRange(0, 3)])
        [b'pay']
    """

    payload: bytes

    @property
    def num_bytes(self) -> int:
        """The length of the payload in bytes."""
        return len(self.payload)

    def read_ranges(self, ranges: Sequence[ByteRange]) -> list[bytes]:
        """Return the bytes of each range."""
        if any(not 0 <= start <= stop <= len(self.payload) for start, stop in ranges):
            raise IndexPayloadError("a range is outside the payload", reason="range-outside-payload")
        return [self.payload[start:stop] for start, stop in ranges]


def parameters(index: Any) -> dict[str, Any]:
    """Return an index's parameters, such that ``type(index)(**parameters)`` equals the index."""
    return dataclasses.asdict(index)
