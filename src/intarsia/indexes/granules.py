"""Shared code of the indexes with one entry per granule of a column.

Their payload is an Arrow IPC stream (zstd) of one record batch. If the granules are pages, the schema
metadata has the key ``granule_edges``, because the footer does not contain page boundaries: the first row of
each granule, then the number of rows. Edges of other granules follow from the footer and the granularity.
Kinds that do not list every granule have the key ``unlisted_granules``. Both are JSON arrays, because Arrow
defines metadata as text. Payloads of version 1 have the keys ``edges`` and ``unlisted`` with the bytes of
integers.
"""

from __future__ import annotations

import json
from collections.abc import Iterable, Iterator, Mapping, Sequence
from itertools import groupby
from operator import itemgetter

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from intarsia.errors import ColumnNotFoundError, IndexBuildError, IndexPayloadError
from intarsia.format.arrow_stream import check_expanded, expanded_bytes
from intarsia.indexes.base import PayloadPart
from intarsia.indexes.layout import Granularity, Layout
from intarsia.once import cached_property
from intarsia.records import dataclass
from intarsia.rows.selection import Rows, RowSelection
from intarsia.tuning import THREADED_STREAM_BYTES

_EDGES = b"granule_edges"
_UNLISTED = b"unlisted_granules"

#: The keys of version 1, and the type of their integers.
_RAW = {_EDGES: (b"edges", "<i8"), _UNLISTED: (b"unlisted", "<u4")}


@dataclass(frozen=True)
class GranulePayload:
    """An opened payload.

    Attributes:
        batch: The contents of the index, fully validated.
        metadata: The schema's metadata.
        num_granules: The number of granules, from the payload if they are pages, else from the footer.
            Compare it with the contents before `edges` is used.
    """

    batch: pa.RecordBatch
    metadata: Mapping[bytes, bytes]
    num_granules: int
    _page_edges: Rows | None
    _layout: Layout
    _granularity: Granularity
    _name: str

    @cached_property
    def edges(self) -> Rows:
        """The first row of each granule, then the number of rows.

        Raises:
            IndexPayloadError: If the payload describes other rows, or there are too many granules.
        """
        edges = self._page_edges
        if edges is None:
            try:
                edges = self._layout.edges(self._granularity, "")
            except IndexBuildError as error:
                raise self.damaged(error) from error
        is_ascending = len(edges) > 0 and not (edges[1:] < edges[:-1]).any()
        if not is_ascending or edges[0] != 0 or edges[-1] != self._layout.num_rows:
            raise self.other_rows()
        return edges

    @cached_property
    def unlisted(self) -> Rows:
        """The ordinals of the granules that are not listed, for kinds that do not list all.

        Raises:
            IndexPayloadError: If they are missing, or there is no such granule.
        """
        try:
            unlisted = _numbers(self.metadata, _UNLISTED)
        except (KeyError, ValueError) as error:
            raise self.damaged(error) from error
        if unlisted.max(initial=-1) >= self.num_granules:
            raise self.other_rows()
        return unlisted

    def other_rows(self) -> IndexPayloadError:
        """Return the error for a payload that does not agree with the granules of the file."""
        return other_rows(self._name)

    def damaged(self, detail: object) -> IndexPayloadError:
        """Return the error for a payload that differs from the one that was built."""
        return damaged_payload(self._name, detail)


def other_rows(name: str) -> IndexPayloadError:
    """Return the error for a payload that does not agree with the rows of the file."""
    return IndexPayloadError(f"the payload of {name} describes other rows", reason="other-rows")


def damaged_payload(name: str, detail: object = None) -> IndexPayloadError:
    """Return the error for a payload that differs from the one that was built."""
    if isinstance(detail, TimeoutError):  # of a signal handler
        raise detail
    shown = "" if detail is None else f": {detail}"
    return IndexPayloadError(f"the payload of {name} is damaged{shown}", reason="damaged-payload")


def serialize_granules(
    batch: pa.RecordBatch,
    edges: Rows,
    granularity: Granularity,
    metadata: Mapping[bytes, bytes] | None = None,
    unlisted: Rows | None = None,
) -> bytes:
    """Serialize the payload of an index.

    Args:
        batch: The contents of the index.
        edges: `Layout.edges` of its granularity.
        granularity: The granularity of the index.
        metadata: Further entries for the schema's metadata, in UTF-8.
        unlisted: The ordinals of the granules that are not listed; None for a kind that lists all.

    Raises:
        IndexBuildError: If `parse_granules` would reject the payload, because text is not UTF-8 or the
            payload is too large.
    """
    entries = dict(metadata or {})
    try:
        batch.validate(full=True)
        for text in (*entries, *entries.values()):
            text.decode()
    except (pa.ArrowInvalid, UnicodeDecodeError) as error:
        raise IndexBuildError(
            f"values cannot be stored in an index: {error}", reason="invalid-values"
        ) from error
    if granularity == "page":
        entries[_EDGES] = _text(edges)
    if unlisted is not None:
        entries[_UNLISTED] = _text(unlisted)
    payload = batch_to_bytes(batch.replace_schema_metadata(entries), "zstd")
    try:
        check_expanded(payload)
    except ValueError as error:
        raise IndexBuildError(
            f"an index is too large: {error}; use larger granules", reason="index-too-large"
        ) from error
    return payload


def parse_granules(
    payload: bytes,
    layout: Layout,
    granularity: Granularity,
    name: str,
    schema: pa.Schema | None = None,
    *,
    has_row_each: bool = False,
    columns: Sequence[int] | None = None,
) -> GranulePayload:
    """Parse a payload from `serialize_granules`.

    Args:
        payload: The bytes.
        layout: The row ranges of the file.
        granularity: The index's granularity.
        name: The name of the index, for messages.
        schema: The schema of the batch, apart from metadata. None if it differs between files.
        has_row_each: Whether the batch has one row per granule.
        columns: Ordinals of the columns to decompress; None for all.

    Raises:
        IndexPayloadError: If the payload is damaged, or describes other rows.
    """
    try:
        check_expanded(payload)
        with open_stream(payload, columns) as reader:
            batch = reader.read_next_batch()
        batch.validate(full=True)
        if schema is not None and not batch.schema.equals(schema):
            raise ValueError("it has other columns")
        metadata, edges = batch.schema.metadata or {}, None
        if granularity == "page":
            edges = _numbers(metadata, _EDGES)
        num_granules = layout.num_granules(granularity, "") if edges is None else len(edges) - 1
    except (pa.ArrowException, ColumnNotFoundError, KeyError, ValueError, OSError, StopIteration) as error:
        raise damaged_payload(name, error) from error
    found = GranulePayload(batch, metadata, num_granules, edges, layout, granularity, name)
    if has_row_each and batch.num_rows != num_granules:
        raise found.other_rows()
    return found


def _text(numbers: Rows) -> bytes:
    return json.dumps(numbers.tolist(), separators=(",", ":")).encode()


def _numbers(metadata: Mapping[bytes, bytes], key: bytes) -> Rows:
    """Return the numbers of a key of the metadata.

    Raises:
        KeyError: If neither the key nor that of version 1 is there.
        ValueError: If the value is not a list of numbers below 2^53.
    """
    if key not in metadata:
        raw_key, raw_type = _RAW[key]
        return np.frombuffer(metadata[raw_key], dtype=raw_type).astype(np.int64)
    try:
        numbers = json.loads(metadata[key])
    except RecursionError as error:
        raise ValueError(f"{key.decode()} is nested") from error
    is_list = isinstance(numbers, list)
    if not is_list or not all(type(item) is int and 0 <= item < 1 << 53 for item in numbers):
        raise ValueError(f"{key.decode()} is not a list of row or granule ordinals")
    return np.array(numbers, dtype=np.int64)


def cut_at_edges(
    edges: Rows, batches: Iterable[tuple[int, pa.Array | pa.ChunkedArray]]
) -> Iterator[tuple[int, pa.Array]]:
    """Split a column at the edges of granules.

    Args:
        edges: The first row of each granule, then the number of rows.
        batches: The results of `ColumnData.batches`: the first row of a piece, and its values.

    Yields:
        The ordinal of a granule, ascending, and values of it. A granule that spans several batches is
        yielded in several consecutive pieces. An empty granule is not yielded.

    Example:
        >>> pieces = cut_at_edges(np.array([0, 2, 5]), [(0, pa.array([1, 2, 3])), (3, pa.array([4, 5]))])
        >>> [(granule, values.to_pylist()) for granule, values in pieces]
        [(0, [1, 2]), (1, [3]), (1, [4, 5])]
    """
    for first_row, piece in batches:
        # text that exceeds one array is chunked
        for chunk in piece.chunks if isinstance(piece, pa.ChunkedArray) else [piece]:
            row, end = first_row, first_row + len(chunk)
            while row < end:
                granule = int(np.searchsorted(edges, row, side="right")) - 1
                stop = min(end, int(edges[granule + 1]))
                yield granule, chunk.slice(row - first_row, stop - row)
                row = stop
            first_row = end


def pieces_of_granules(
    edges: Rows, batches: Iterable[tuple[int, pa.Array | pa.ChunkedArray]]
) -> Iterator[Iterator[pa.Array]]:
    """Yield the pieces of each granule, for kinds that process one granule after the other.

    Args:
        edges: As for `cut_at_edges`.
        batches: As for `cut_at_edges`.

    Example:
        >>> granules = pieces_of_granules(np.array([0, 2, 2, 5]), [(0, pa.array([1, 2, 3, 4, 5]))])
        >>> [[piece.to_pylist() for piece in pieces] for pieces in granules]
        [[[1, 2]], [], [[3, 4, 5]]]
    """
    runs = groupby(cut_at_edges(edges, batches), key=itemgetter(0))
    granule, pieces = next(runs, (-1, iter(())))
    for ordinal in range(len(edges) - 1):
        if ordinal == granule:
            yield (piece for _, piece in pieces)
            granule, pieces = next(runs, (-1, iter(())))
        else:
            yield iter(())


def granule_runs(edges: Rows, first_row: int, num_rows: int) -> tuple[Rows, Rows]:
    """Return the granules of a piece of a column, for kinds that process the piece as a whole.

    Args:
        edges: The first row of each granule, then the number of rows.
        first_row: The first row of the piece.
        num_rows: The number of rows in the piece, at least one.

    Returns:
        The ordinals of the granules that have rows in the piece, and the start of each within the piece.

    Example:
        >>> granule_runs(np.array([0, 2, 2, 5]), 1, 3)
        (array([0, 2]), array([0, 1]))
    """
    within = edges[(edges > first_row) & (edges < first_row + num_rows)]
    starts = np.unique(np.concatenate([[first_row], within])).astype(np.int64)
    return np.searchsorted(edges, starts, side="right") - 1, starts - first_row


def is_mostly_unlisted(payload: bytes, edges: Rows) -> bool:
    """Return whether more than half of the rows are in the unlisted granules of a payload."""
    with open_stream(payload) as stream:  # reads only the schema
        unlisted = _numbers(stream.schema.metadata, _UNLISTED)
    return bool(2 * np.diff(edges)[unlisted].sum() > edges[-1])


def granule_rows(edges: Rows, hit: npt.NDArray[np.bool_]) -> RowSelection:
    """Return the rows of the selected granules.

    Args:
        edges: The first row of each granule, then the number of rows.
        hit: One boolean per granule, whether it is selected.

    Raises:
        TypeError: If they are not booleans; numbers would select granules by their ordinals.

    Example:
        >>> granule_rows(np.array([0, 2, 5]), np.array([False, True]))
        RowSelection([2:5])
    """
    hit = np.asarray(hit)
    if hit.dtype != np.bool_:
        raise TypeError(f"granule_rows needs one boolean per granule, not values of type {hit.dtype}")
    return RowSelection.union_of(edges[:-1][hit], edges[1:][hit])


def covered_granules(edges: Rows, rows: RowSelection) -> npt.NDArray[np.bool_]:
    """Return for each granule whether it is not empty and all of its rows are in ``rows``.

    Args:
        edges: The first row of each granule, then the number of rows.
        rows: The rows.

    Example:
        >>> covered_granules(np.array([0, 2, 2, 5]), RowSelection.from_ranges([(0, 3)]))
        array([ True, False, False])
    """
    return np.asarray(rows.covers(edges[:-1], edges[1:]) & (np.diff(edges) > 0))


# --- payloads of parts of a file ------------------------------------------------------------------------


def merged_edges(edges_of_parts: Sequence[Rows]) -> Rows:
    """Return the edges of the granules of a file, given those of its parts.

    Example:
        >>> merged_edges([np.array([0, 2, 5]), np.array([0, 1])])
        array([0, 2, 5, 6])
    """
    first_rows = np.cumsum([0, *(int(edges[-1]) for edges in edges_of_parts)])
    pieces = [edges[:-1] + first for edges, first in zip(edges_of_parts, first_rows[:-1], strict=True)]
    return np.concatenate([*pieces, first_rows[-1:]]).astype(np.int64)


def merge_rows_of_granules(parts: Sequence[PayloadPart], granularity: Granularity, name: str) -> bytes:
    """Merge payloads that have one row per granule, and no metadata apart from edges.

    Args:
        parts: The parts.
        granularity: The index's granularity, which is not ``"file"``.
        name: The name of the index, for messages.
    """
    opened = [
        parse_granules(payload, layout, granularity, name, has_row_each=True) for payload, layout in parts
    ]
    table = pa.Table.from_batches([part.batch.replace_schema_metadata(None) for part in opened])
    batches = table.combine_chunks().to_batches()
    batch = batches[0] if batches else opened[0].batch
    return serialize_granules(batch, merged_edges([part.edges for part in opened]), granularity)


# --- record batches as bytes, in Arrow's IPC stream format ----------------------------------------------


def open_stream(data: bytes, columns: Sequence[int] | None = None) -> pa.ipc.RecordBatchStreamReader:
    """Open a stream, which may be compressed.

    Args:
        columns: Ordinals of the columns to read; None for all.

    Raises:
        pa.ArrowInvalid: If the bytes do not begin with a schema.
    """
    threads = len(data) >= THREADED_STREAM_BYTES
    options = pa.ipc.IpcReadOptions(
        use_threads=threads, included_fields=None if columns is None else list(columns)
    )
    return pa.ipc.open_stream(data, options=options)


def batch_to_bytes(rows: pa.RecordBatch | pa.Table, compression: str | None = None) -> bytes:
    """Serialize a record batch, or a table."""
    sink = pa.BufferOutputStream()
    options = pa.ipc.IpcWriteOptions(compression=compression)
    with pa.ipc.new_stream(sink, rows.schema, options=options) as writer:
        writer.write(rows)
    return bytes(sink.getvalue())


def batch_from_bytes(data: bytes) -> pa.RecordBatch:
    """Parse and validate a batch from `batch_to_bytes` without compression; it refers to ``data``.

    Raises:
        ValueError: If the bytes are not such a batch. ``pa.ArrowInvalid`` is a ValueError, too.

    Example:
        >>> batch_from_bytes(batch_to_bytes(pa.record_batch({"x": [1, 2]}))).num_rows
        2
    """
    try:
        if expanded_bytes(data) > len(data):  # compressed, or with buffers outside of the stream
            raise ValueError(f"it expands to {expanded_bytes(data):,} bytes")
        with open_stream(data) as reader:
            batch = reader.read_next_batch()
        if batch.num_rows > 8 * len(data):  # columns without buffers can have any number of rows
            raise ValueError(f"{len(data):,} bytes cannot have {batch.num_rows:,} rows")
        batch.validate(full=True)
    except TimeoutError:  # of a signal handler
        raise
    except (pa.ArrowException, OSError, StopIteration) as error:
        raise ValueError(f"it is not an Arrow stream: {error}") from error
    return batch
