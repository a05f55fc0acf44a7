"""Granules: what the indexes share that say something of each granule of a column.

Their payload is an Arrow IPC stream (zstd) of one record batch.  Its schema's metadata has the key ``edges``
where the granules are pages, since a footer does not tell those: int64, little-endian, the first row of
each granule in the file's numbering, and the number of rows at the end.  Edges of other granules follow
from the footer and the granularity.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from functools import cached_property

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from intarsia.arrow.comparison import comparison_array, comparison_type
from intarsia.errors import ColumnNotFoundError, IndexBuildError, IndexPayloadError
from intarsia.format.arrow_stream import check_expanded
from intarsia.indexes.base import ColumnData, Granularity, Layout
from intarsia.rows.selection import Rows, RowSelection

_EDGES = b"edges"


@dataclass(frozen=True)
class GranulePayload:
    """A payload that was opened.

    Attributes:
        batch: What the index keeps; validated in full.
        metadata: The schema's metadata.
        num_granules: How many granules there are, by the payload where they are pages, else by the footer:
            to be compared with what the payload has before `edges` is asked for.
    """

    batch: pa.RecordBatch
    metadata: Mapping[bytes, bytes]
    num_granules: int
    _layout: Layout
    _granularity: Granularity
    _name: str

    @cached_property
    def edges(self) -> Rows:
        """First row of each granule, and the number of rows at the end.

        Raises:
            IndexPayloadError: If the payload is about other rows, or there are too many granules.
        """
        if self._granularity == "page":
            edges = np.frombuffer(self.metadata[_EDGES], dtype="<i8").astype(np.int64)
        else:
            try:
                edges = self._layout.edges(self._granularity, "")
            except IndexBuildError as error:
                raise self.damaged(error) from error
        if (
            len(edges) < 1
            or edges[0] != 0
            or edges[-1] != self._layout.num_rows
            or (np.diff(edges) < 0).any()
        ):
            raise self.other_rows()
        return edges

    def other_rows(self) -> IndexPayloadError:
        """What to raise if the payload does not fit the granules."""
        return IndexPayloadError(f"the payload of {self._name} is about other rows")

    def damaged(self, reason: object) -> IndexPayloadError:
        """What to raise if the payload is not as it was built."""
        return IndexPayloadError(f"the payload of {self._name} is damaged: {reason}")


def serialize_granules(
    batch: pa.RecordBatch,
    edges: Rows,
    granularity: Granularity,
    metadata: Mapping[bytes, bytes] | None = None,
) -> bytes:
    """The payload of an index.

    Args:
        batch: What it keeps.
        edges: `Layout.edges` of its granularity.
        granularity: Its granularity.
        metadata: More for the schema's metadata.

    Raises:
        IndexBuildError: If `parse_granules` would not open it: text that is no UTF-8, or too much of all.
    """
    try:
        batch.validate(full=True)
    except pa.ArrowInvalid as error:
        raise IndexBuildError(f"values cannot be kept in an index: {error}") from error
    entries = dict(metadata or {})
    if granularity == "page":
        entries[_EDGES] = np.asarray(edges, dtype="<i8").tobytes()
    batch = batch.replace_schema_metadata(entries)
    sink = pa.BufferOutputStream()
    options = pa.ipc.IpcWriteOptions(compression="zstd")
    with pa.ipc.new_stream(sink, batch.schema, options=options) as writer:
        writer.write_batch(batch)
    payload = bytes(sink.getvalue())
    try:
        check_expanded(payload)
    except ValueError as error:
        raise IndexBuildError(f"an index is too large: {error}; use larger granules") from error
    return payload


def parse_granules(
    payload: bytes,
    layout: Layout,
    granularity: Granularity,
    name: str,
    schema: pa.Schema | None = None,
    *,
    has_row_each: bool = False,
) -> GranulePayload:
    """Open what `serialize_granules` made.

    Args:
        payload: The bytes.
        layout: Where rows lie in the file.
        granularity: The index's granularity.
        name: The index, for messages.
        schema: What its batches have, apart from metadata; None if that differs from file to file.
        has_row_each: Whether the batch has a row for each granule.

    Raises:
        IndexPayloadError: If the payload is damaged, or about other rows.
    """
    try:
        check_expanded(payload)
        with pa.ipc.open_stream(payload) as reader:
            batch = reader.read_next_batch()
        batch.validate(full=True)
        if schema is not None and not batch.schema.equals(schema):
            raise ValueError("its columns are others")
        metadata = batch.schema.metadata or {}
        if granularity == "page":
            num_granules = len(np.frombuffer(metadata[_EDGES], dtype="<i8")) - 1
        else:
            num_granules = layout.num_granules(granularity, "")
    except (pa.ArrowException, ColumnNotFoundError, KeyError, ValueError, OSError, StopIteration) as error:
        raise IndexPayloadError(f"the payload of {name} is damaged: {error}") from error
    found = GranulePayload(batch, metadata, num_granules, layout, granularity, name)
    if has_row_each and batch.num_rows != num_granules:
        raise found.other_rows()
    return found


def refuse_nested(index: object, column: str, type_: pa.DataType) -> pa.DataType:
    """The type that values of a column are compared in; it may have no fields.

    Args:
        index: The index, for the message.
        column: The column.
        type_: Its type.

    Raises:
        IndexBuildError: If it is nested.
    """
    plain = comparison_type(type_)
    if pa.types.is_nested(plain):
        raise IndexBuildError(f"{type(index).__name__}: {column!r} is a {plain}; name one of its fields")
    return plain


def compared_batches(chunk: ColumnData, column: str) -> Iterator[tuple[int, pa.Array | pa.ChunkedArray]]:
    """A column from its first row to its last, in the type that its values are compared in.

    Args:
        chunk: The columns of a file.
        column: The column, dotted.

    Yields:
        The first row of a piece, and its values; see `intarsia.arrow.comparison.comparison_array`.
    """
    value_type = comparison_type(chunk.type_of(column))
    for row, piece in chunk.batches(column):
        yield row, comparison_array(piece, value_type)


def cut_at_edges(
    edges: Rows, batches: Iterable[tuple[int, pa.Array | pa.ChunkedArray]]
) -> Iterator[tuple[int, pa.Array]]:
    """A column cut at the edges of granules.

    Args:
        edges: First row of each granule, and the number of rows at the end.
        batches: What `ColumnData.batches` yields: the first row of a piece, and its values.

    Yields:
        The ordinal of a granule, and values of it: ascending, none twice; a granule that spans several
        batches comes in several pieces, one after the other, and an empty one not at all.

    Example:
        >>> pieces = cut_at_edges(np.array([0, 2, 5]), [(0, pa.array([1, 2, 3])), (3, pa.array([4, 5]))])
        >>> [(granule, values.to_pylist()) for granule, values in pieces]
        [(0, [1, 2]), (1, [3]), (1, [4, 5])]
    """
    for first_row, piece in batches:
        # text may be more than one array can hold
        for chunk in piece.chunks if isinstance(piece, pa.ChunkedArray) else [piece]:
            row, end = first_row, first_row + len(chunk)
            while row < end:
                granule = int(np.searchsorted(edges, row, side="right")) - 1
                stop = min(end, int(edges[granule + 1]))
                yield granule, chunk.slice(row - first_row, stop - row)
                row = stop
            first_row = end


def granule_runs(edges: Rows, first_row: int, num_rows: int) -> tuple[Rows, Rows]:
    """The granules that a piece of a column lies in, for kinds that take it as a whole.

    Args:
        edges: First row of each granule, and the number of rows at the end.
        first_row: First row of the piece.
        num_rows: How many rows it has; at least one.

    Returns:
        Ordinals of the granules that have rows in the piece, and where in the piece each one starts.

    Example:
        >>> granule_runs(np.array([0, 2, 2, 5]), 1, 3)
        (array([0, 2]), array([0, 1]))
    """
    within = edges[(edges > first_row) & (edges < first_row + num_rows)]
    starts = np.unique(np.concatenate([[first_row], within])).astype(np.int64)
    return np.searchsorted(edges, starts, side="right") - 1, starts - first_row


def lists_little(payload: bytes, edges: Rows) -> bool:
    """Whether more than half of the rows are in granules that a payload says are ``unlisted``."""
    with pa.ipc.open_stream(payload) as stream:  # nothing but its schema is read
        unlisted = np.frombuffer(stream.schema.metadata[b"unlisted"], dtype="<u4")
    return bool(2 * np.diff(edges)[unlisted].sum() > edges[-1])


def granule_rows(edges: Rows, hit: npt.NDArray[np.bool_]) -> RowSelection:
    """The rows of the granules that are hit.

    Args:
        edges: First row of each granule, and the number of rows at the end.
        hit: For each granule, whether its rows are wanted.

    Example:
        >>> granule_rows(np.array([0, 2, 5]), np.array([False, True]))
        RowSelection([2:5])
    """
    return RowSelection.union_of(edges[:-1][hit], edges[1:][hit])


def covered_granules(edges: Rows, rows: RowSelection) -> npt.NDArray[np.bool_]:
    """For each granule, whether it has rows and all of them are among some rows.

    Args:
        edges: First row of each granule, and the number of rows at the end.
        rows: The rows.

    Example:
        >>> covered_granules(np.array([0, 2, 2, 5]), RowSelection.from_ranges([(0, 3)]))
        array([ True, False, False])
    """
    return np.asarray(rows.covers(edges[:-1], edges[1:]) & (np.diff(edges) > 0))
