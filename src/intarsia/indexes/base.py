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

What an index can do beyond that, it says by small protocols, and nothing asks which kind it is.
`PicksPredicates` keeps it from being read in vain, `ProbedIndex` from being read whole; `SureIndex` knows
rows that surely match, and `EstimatesRows` and `EstimatingIndex` about how many do; `HasFooterKeys` lets
other programs find it.  `intarsia.indexes.capabilities` has those that answer more than predicates.
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

#: How finely an index knows its file: ``"file"``, ``"row_group"``, ``"page"``, or every so many rows.
Granularity: TypeAlias = "str | int"

#: Rows are not divided more finely than this: an index of so many granules has a gigabyte.
MAX_GRANULES = 1 << 24


@dataclass(frozen=True)
class Layout:
    """Where rows lie in a file.

    Attributes:
        num_rows: Rows in the file.
        row_group_edges: First row of each row group, and ``num_rows`` at the end.
        page_edges: For a column (dotted), the first row of each of its data pages, and ``num_rows`` at the
            end, in the file's numbering; absent for columns whose pages are not known.
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
            IndexBuildError: If there were more than `MAX_GRANULES`.
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
                f"granularity {granularity} makes {num_granules:,} granules of {self.num_rows:,} rows, "
                f"{MAX_GRANULES:,} is the most"
            )
        starts = [
            np.arange(start, stop, int(granularity), dtype=np.int64)
            for start, stop in zip(self.row_group_edges[:-1], self.row_group_edges[1:], strict=True)
        ]
        return np.concatenate([*starts, [self.num_rows]]).astype(np.int64)

    def num_granules(self, granularity: Granularity, column: str) -> int:
        """How many granules there are; nothing is allocated for as many as a footer claims.

        Args:
            granularity: As for `edges`.
            column: The same.

        Raises:
            ColumnNotFoundError: If the pages of ``column`` are not known.
            ValueError: If there is no such granularity.

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
    """The values of a file's columns, as `Index.build` gets them.

    Attributes:
        layout: Where the rows lie; it knows the pages of the index's columns.
    """

    layout: Layout

    @property
    def schema(self) -> pa.Schema:
        """The file's schema, as `pyarrow.parquet.read_table` gives it."""
        ...

    def rows(self, ordinals: Rows) -> pa.Table:
        """Some whole rows, of all columns.

        Args:
            ordinals: Ordinals of rows in the file's numbering, ascending; int64.

        Returns:
            A row for each ordinal, in their order, with the columns of `schema`.
        """
        ...

    def type_of(self, column: str) -> pa.DataType:
        """Arrow's type of a column.

        Args:
            column: The column, dotted if it is nested.

        Raises:
            ColumnNotFoundError: If there is no such column.
            IndexBuildError: If it lies in a list or map.
        """
        ...

    def batches(self, column: str) -> Iterator[tuple[int, pa.Array]]:
        """A column from its first row to its last, a row group or less at a time.

        Args:
            column: The column, dotted if it is nested.

        Yields:
            The first row of the piece in the file's numbering, and the values.
        """
        ...


@runtime_checkable
class EncodedColumns(Protocol):
    """`ColumnData` that need not spread out what is encoded by a dictionary."""

    def encoded_batches(self, column: str) -> Iterator[tuple[int, pa.Array]]:
        """The same as `ColumnData.batches`, but some pieces are dictionary arrays of the column's type.

        Args:
            column: The column, dotted if it is nested.

        Yields:
            The first row of the piece in the file's numbering, and the values.
        """
        ...


def encoded_batches(chunk: ColumnData, column: str) -> Iterator[tuple[int, pa.Array]]:
    """A column from its first row to its last, in dictionary arrays where that is faster.

    It is for indexes that look at each different value once.

    Args:
        chunk: The columns of the file.
        column: The column, dotted if it is nested.

    Yields:
        The first row of the piece in the file's numbering, and the values.
    """
    return chunk.encoded_batches(column) if isinstance(chunk, EncodedColumns) else chunk.batches(column)


@runtime_checkable
class OpenIndex(Protocol):
    """An index that can be asked."""

    def candidate_rows(self, predicate: Condition) -> RowSelection | None:
        """Rows that might meet a condition.

        Args:
            predicate: One condition on one of the index's columns; see `intarsia.indexes` for its classes.

        Returns:
            A superset of the rows that meet it, in the file's numbering; None: cannot tell.

        Raises:
            IndexPayloadError: If the payload turns out to be damaged; the index is then not used.
        """
        ...


@runtime_checkable
class SureIndex(Protocol):
    """An open index that also knows rows that need no second look."""

    def certain_rows(self, predicate: Condition) -> RowSelection | None:
        """Rows that surely meet a condition.

        Args:
            predicate: As for `OpenIndex.candidate_rows`.

        Returns:
            Rows that all meet it, in the file's numbering, not necessarily all that do; None: cannot tell.

        Raises:
            IndexPayloadError: If the payload turns out to be damaged.
        """
        ...


@runtime_checkable
class SureWithinBounds(Protocol):
    """An open index whose candidates surely match if the column has no value that it takes for another."""

    def is_sure_within(self, predicate: Condition, low: int, high: int) -> bool:
        """Whether all candidates meet a condition about whole numbers.

        Args:
            predicate: As for `OpenIndex.candidate_rows`, which gave rows for it.
            low: No value of the column is below; null is none.
            high: No value of the column is above.

        Returns:
            Whether each of ``candidate_rows(predicate)`` meets the condition; False: cannot tell.
        """
        ...


@runtime_checkable
class EstimatingIndex(Protocol):
    """An open index that can tell about how many rows match."""

    def estimated_rows(self, predicate: Condition) -> float | None:
        """About how many rows meet a condition.

        Args:
            predicate: A condition for which `EstimatesRows.can_estimate` is true.

        Returns:
            About how many rows of the whole file meet it; None: cannot tell. Rows are read in another order
            for it, and none is skipped.
        """
        ...


@runtime_checkable
class Index(Protocol):
    """An index class's instance: its parameters, and how to build and open it.

    Attributes:
        kind: What files call the class; also the name of its entry point in the group ``intarsia.indexes``.
        version: Version of the payload's form. A file with a later one than is known is read without it.
    """

    kind: ClassVar[str]
    version: ClassVar[int]

    @property
    def columns(self) -> tuple[str, ...]:
        """The columns that it is about, dotted if they are nested; none, if it is about rows as a whole."""
        ...

    def build(self, chunk: ColumnData) -> bytes:
        """The payload for a file.

        Args:
            chunk: The values of the file's columns, and where its rows lie.

        Returns:
            Any bytes, the same for the same values and layout.

        Raises:
            IndexBuildError: If these columns cannot have such an index.
        """
        ...

    def open(self, payload: bytes, layout: Layout) -> OpenIndex:
        """Open a payload that `build` made, perhaps an older version of it.

        Args:
            payload: The bytes, compared with their checksum.
            layout: Where the rows lie. Pages are not known here, so an index of pages keeps where they start.

        Returns:
            What can be asked, and perhaps is more: a `SureIndex`, an `EstimatingIndex` and so on.

        Raises:
            IndexPayloadError: If the payload is damaged.
        """
        ...


@runtime_checkable
class TellsShortfall(Protocol):
    """An index that can tell when a payload that it built will hardly be of use."""

    def shortfall(self, payload: bytes, layout: Layout) -> str | None:
        """Why it will hardly skip anything, for whoever attaches it.

        Args:
            payload: What `Index.build` has just made.
            layout: That of `Index.build`: it knows the pages.

        Returns:
            The reason, in words that continue a sentence; None if it may be of use.
        """
        ...


@runtime_checkable
class PicksPredicates(Protocol):
    """An index that tells, before its payload is read, which predicates it cannot judge."""

    def can_prune(self, predicate: Condition) -> bool:
        """Whether its payload is worth reading for a condition.

        Args:
            predicate: A condition on one of the index's columns.

        Returns:
            False where `OpenIndex.candidate_rows` would be None.
        """
        ...


@runtime_checkable
class EstimatesRows(Protocol):
    """An index that estimates, and tells before its payload is read what it can estimate.

    Its columns may be none: then it is about rows as a whole, and asked about every column.
    """

    def can_estimate(self, predicate: Condition) -> bool:
        """Whether its payload is worth reading for an estimate.

        Args:
            predicate: A condition on one of the index's columns, or on any, if it has none.

        Returns:
            False where `EstimatingIndex.estimated_rows` would be None.
        """
        ...


@runtime_checkable
class HasFooterKeys(Protocol):
    """An index whose payload other programs find by footer keys of their own."""

    def footer_keys(self, payload_offset: int) -> Mapping[bytes, bytes]:
        """What the footer's key/value metadata is to say; nothing, if this one needs no key.

        Args:
            payload_offset: Where the payload starts in the file, in bytes. A payload that has keys never
                stands in the directory.

        Returns:
            Keys and their values.
        """
        ...


class PayloadSource(Protocol):
    """A payload that is read in parts."""

    @property
    def num_bytes(self) -> int:
        """Length of the payload in bytes."""
        ...

    def read_ranges(self, ranges: Sequence[ByteRange]) -> list[bytes]:
        """The bytes of each range, in the order asked, all in one go.

        Args:
            ranges: Ranges of bytes, counted from the payload's first byte.

        Returns:
            As many bytes objects as there are ranges.

        Nothing has been compared with a checksum: the payload's own form has to tell what is damaged.

        Raises:
            IndexPayloadError: If a range lies outside the payload, or this is no longer the payload.
        """
        ...


@runtime_checkable
class ProbedIndex(Protocol):
    """An index whose payload is large and is probed with small reads, not loaded whole."""

    def open_source(self, source: PayloadSource, layout: Layout) -> OpenIndex:
        """Open a payload without reading it whole; `Index.open` takes the same payload as bytes.

        Args:
            source: The payload, of which nothing has been read.
            layout: As for `Index.open`.

        Returns:
            What can be asked; it reads when it is asked.

        Raises:
            IndexPayloadError: If it can be seen at once that this is no such payload.
        """
        ...


@dataclass(frozen=True)
class PayloadBytes:
    """A payload in memory, as a `PayloadSource`; an index that is probed opens bytes with it.

    Example:
        >>> PayloadBytes(b"payload").read_ranges([ByteRange(0, 3)])
        [b'pay']
    """

    payload: bytes

    @property
    def num_bytes(self) -> int:
        """Length of the payload in bytes."""
        return len(self.payload)

    def read_ranges(self, ranges: Sequence[ByteRange]) -> list[bytes]:
        """The bytes of each range."""
        if any(not 0 <= start <= stop <= len(self.payload) for start, stop in ranges):
            raise IndexPayloadError("a range lies outside the payload")
        return [self.payload[start:stop] for start, stop in ranges]


def parameters(index: Any) -> dict[str, Any]:
    """An index's parameters, from which ``type(index)(**parameters)`` makes it again."""
    return dataclasses.asdict(index)
