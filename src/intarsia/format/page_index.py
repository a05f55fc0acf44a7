"""The page index: ColumnIndex and OffsetIndex, with page locations parsed into arrays at once."""

from __future__ import annotations

import operator
from collections.abc import Sequence
from itertools import accumulate
from typing import NamedTuple

import numpy as np
import numpy.typing as npt

from intarsia.errors import CorruptFileError
from intarsia.format import thrift
from intarsia.format.enums import BoundaryOrder
from intarsia.format.structs import ColumnIndex, Empty, OffsetIndex
from intarsia.once import cached_property
from intarsia.records import dataclass

# without the Python functions behind numpy's methods `any`, `max` and `min`
_any, _max, _min = np.logical_or.reduce, np.maximum.reduce, np.minimum.reduce

#: A varint of more bytes might not fit into a signed 64-bit number.
_MAX_BYTES = 9


def decode_varints(data: bytes, count: int) -> tuple[npt.NDArray[np.uint64], npt.NDArray[np.int64]] | None:
    """Decode consecutive varints.

    Args:
        data: Bytes that begin with the varints; more bytes may follow them.
        count: The number of varints; at least one.

    Returns:
        The numbers, and the number of bytes that each takes; None if the bytes end too early, or if a number
        takes more than 9 bytes. Whatever ``count`` is, this allocates at most a small multiple of
        ``len(data)``.

    Example:
        >>> numbers, num_bytes = decode_varints(bytes([3, 0x80, 1, 7]), 2)
        >>> numbers.tolist(), num_bytes.tolist()
        ([3, 128], [1, 2])
    """
    # numbers take at most `_MAX_BYTES` each, so the bytes after that are irrelevant
    raw = np.frombuffer(data, np.uint8, min(len(data), count * _MAX_BYTES))
    ends = (raw < 0x80).nonzero()[0]
    if len(ends) < count:
        return None
    ends = ends[:count]
    starts = np.empty(count, np.int64)
    starts[0] = 0
    np.add(ends[:-1], 1, out=starts[1:])
    lengths = ends - starts + 1
    if _max(lengths) > _MAX_BYTES:
        return None
    used = int(ends[-1]) + 1
    shifts = (np.arange(used) - np.repeat(starts, lengths)) * 7  # the lowest seven bits come first
    parts = (raw[:used] & np.uint8(0x7F)).astype(np.uint64) << shifts.astype(np.uint64)
    return np.add.reduceat(parts, starts), lengths


def zigzag(numbers: npt.NDArray[np.uint64]) -> npt.NDArray[np.int64]:
    """Decode signed numbers, whose lowest bit is the sign.

    Example:
        >>> zigzag(np.array([0, 1, 2, 3], dtype=np.uint64)).tolist()
        [0, -1, 1, -2]
    """
    return (numbers >> np.uint64(1)).astype(np.int64) ^ -(numbers & np.uint64(1)).astype(np.int64)


LocationTable = npt.NDArray[np.int64]

#: The first byte of an OffsetIndex: field 1, a list.
_LOCATIONS = 0x19

#: The bytes before each number of a page location and after the last: the headers of fields 1 to 3, which are
#: i64, i32 and i64, and the end of the struct. Each of them is one byte, and thus also a varint.
_LOCATION_FRAME = np.array([0x16, 0x15, 0x16, 0x00], dtype=np.uint64)

_NUMBERS_PER_LOCATION = 7

_INT32_MAX = 2**31 - 1

#: The limit on bytes decoded together; decoding takes about thirty times as much memory.
_BATCH_BYTES = 1 << 18


class _Body(NamedTuple):
    """The bytes of an OffsetIndex from its first page location on, and the ordinal of the OffsetIndex."""

    ordinal: int
    num_pages: int
    data: bytes


def location_tables(indexes: Sequence[bytes]) -> list[LocationTable | None]:
    """Decode OffsetIndexes whose fields are in the order that all known writers use.

    Returns:
        For each OffsetIndex a table with one row per page, whose columns are offset, size and first row; None
        if its form is different, so that the general codec has to parse or refuse it.
    """
    tables: list[LocationTable | None] = [None] * len(indexes)
    bodies: list[_Body] = []
    num_bytes = 0
    for ordinal, index in enumerate(indexes):
        body = _body(ordinal, index)
        if body is not None:
            if num_bytes + len(body.data) > _BATCH_BYTES:
                _decode(bodies, tables)
                bodies, num_bytes = [], 0
            bodies.append(body)
            num_bytes += len(body.data)
    _decode(bodies, tables)
    return tables


def _body(ordinal: int, index: bytes) -> _Body | None:
    """Return the bytes after the head of an OffsetIndex; None if it does not begin with its locations."""
    if len(index) < 3 or index[0] != _LOCATIONS or index[-1] >= 0x80:
        return None
    reader = thrift.Reader(index, 1)
    try:
        head = reader.list_head()
    except CorruptFileError:
        return None
    if head.element_type != thrift.STRUCT or not head.length:
        return None
    return _Body(ordinal, head.length, index[reader.position :])


def _decode(bodies: list[_Body], tables: list[LocationTable | None]) -> None:
    """Decode OffsetIndexes together, and set the tables of those that have the usual form."""
    # no varint spans two bodies, because each body ends with the last byte of a varint
    joined = b"".join([body.data for body in bodies])
    count = int(np.count_nonzero(np.frombuffer(joined, np.uint8) < 0x80))
    found = decode_varints(joined, count) if bodies else None
    if found is None:
        for body in bodies if len(bodies) > 1 else ():
            _decode([body], tables)
        return
    numbers, num_bytes = found
    byte_edges = np.concatenate([[0], np.cumsum(num_bytes)])
    body_edges = list(accumulate([len(body.data) for body in bodies], initial=0))
    edges = np.searchsorted(byte_edges, body_edges).tolist()
    ends = [
        start + body.num_pages * _NUMBERS_PER_LOCATION for body, start in zip(bodies, edges, strict=False)
    ]
    table = None
    if all(map(operator.lt, ends, edges[1:])):
        spans = list(map(slice, edges, ends))
        table = _table(
            np.concatenate([numbers[one] for one in spans]), np.concatenate([num_bytes[one] for one in spans])
        )
    if table is None:
        for body in bodies if len(bodies) > 1 else ():
            _decode([body], tables)
        return
    first = 0
    for body, start, end in zip(bodies, body_edges, byte_edges[ends].tolist(), strict=False):
        rest = end - start  # the bytes after the locations
        if body.data[rest:] == b"\0" or _has_fields(body.data, rest):
            tables[body.ordinal] = table[first : first + body.num_pages]
        first += body.num_pages


def _has_fields(data: bytes, offset: int) -> bool:
    """Return whether bytes are further fields and the end of a struct."""
    try:
        thrift.parse(Empty, data, offset)
    except CorruptFileError:
        return False
    return True


def _table(numbers: npt.NDArray[np.uint64], num_bytes: npt.NDArray[np.int64]) -> LocationTable | None:
    """Return a table of page locations; None if they have another form."""
    framed = numbers.reshape(-1, _NUMBERS_PER_LOCATION)
    lengths = num_bytes.reshape(-1, _NUMBERS_PER_LOCATION)
    if _any(framed[:, ::2] != _LOCATION_FRAME, None) or _any(lengths[:, ::2] != 1, None):
        return None
    table = zigzag(framed[:, 1::2])
    sizes = table[:, 1]
    return None if _max(sizes) > _INT32_MAX or _min(sizes) < -_INT32_MAX else table


Int64s = npt.NDArray[np.int64]


@dataclass(frozen=True, eq=False)
class PageRows:
    """The rows of each data page of a column chunk; chunks whose pages have the same rows can share it.

    It is compared by identity, so that it can be a key.

    Attributes:
        starts: First row of each page, relative to the row group.
        num_rows: Number of rows in the row group.
    """

    starts: Int64s
    num_rows: int

    @cached_property
    def stops(self) -> Int64s:
        """The row after the last row of each page, relative to the row group."""
        stops = np.empty_like(self.starts)
        stops[:-1] = self.starts[1:]
        stops[-1:] = self.num_rows
        return stops


@dataclass(frozen=True)
class PageLocations:
    """The data pages of one column chunk, as arrays with one element per page.

    Attributes:
        offsets: Byte offset of each page in the file.
        sizes_bytes: Size of each page, including its header.
    """

    offsets: Int64s
    sizes_bytes: Int64s
    rows: PageRows

    def __len__(self) -> int:
        return len(self.offsets)


def parse_offset_index(
    data: bytes, *, num_rows: int, chunk_start: int, chunk_stop: int, table: LocationTable | None = None
) -> PageLocations:
    """Parse an OffsetIndex and check it against its row group and chunk.

    Args:
        chunk_start: Byte offset of the column chunk.
        chunk_stop: Byte offset of its end.
        table: The result of `location_tables` for these bytes.

    Raises:
        CorruptFileError: If it contradicts the row group or the chunk.
    """
    if table is None:
        index, _ = thrift.parse(OffsetIndex, data)
        table = np.array(index.page_locations, dtype=np.int64).reshape(-1, 3)
    offsets, sizes, row_starts = np.ascontiguousarray(table.T)

    def refuse(reason: str, message: str) -> CorruptFileError:
        return CorruptFileError(message, reason=reason, struct="OffsetIndex")

    if not len(offsets):
        raise refuse("no-pages", "it has no pages")
    if _min(sizes) <= 0:
        raise refuse("empty-page", "a page has no bytes")
    if _min(offsets) < chunk_start or _max(offsets) >= chunk_stop:
        raise refuse(
            "page-outside-chunk", f"a page starts outside the chunk at bytes {chunk_start} to {chunk_stop}"
        )
    ends = offsets + sizes  # no overflow, because all offsets are within the chunk
    if ends[-1] > chunk_stop:
        raise refuse(
            "page-outside-chunk",
            f"pages at bytes {offsets[0]} to {ends[-1]} exceed the chunk at {chunk_start} to {chunk_stop}",
        )
    if _any(offsets[1:] < ends[:-1]):
        raise refuse("pages-overlap", "pages overlap or are out of order")
    if row_starts[0] != 0:
        raise refuse("first-row-not-zero", f"the first page starts at row {row_starts[0]}")
    if _any(row_starts[1:] <= row_starts[:-1]):
        raise refuse(
            "rows-not-ascending",
            "first_row_index is not ascending (because of an empty page, or pages that start within a row)",
        )
    if row_starts[-1] >= num_rows:
        raise refuse("row-beyond-row-group", f"a page starts at row {row_starts[-1]} of {num_rows}")
    return PageLocations(offsets, sizes, PageRows(row_starts, num_rows))


def parse_column_index(data: bytes, *, num_pages: int) -> ColumnIndex:
    """Parse a ColumnIndex and check its lists; `intarsia.indexes.column_index` checks its bounds.

    Args:
        num_pages: Number of pages in the OffsetIndex of the same chunk.

    Raises:
        CorruptFileError: If the length of a list differs, or a null page contradicts its null count.
    """
    index, _ = thrift.parse(ColumnIndex, data)

    def refuse(reason: str, message: str) -> CorruptFileError:
        return CorruptFileError(message, reason=reason, struct="ColumnIndex")

    for name in ("null_pages", "min_values", "max_values", "null_counts", "nan_counts"):
        values = getattr(index, name)
        if values is not None and len(values) != num_pages:
            raise refuse(
                f"wrong-length-{name.replace('_', '-')}",
                f"{name} has {len(values)} entries for {num_pages} pages",
            )
    if index.boundary_order not in tuple(BoundaryOrder):
        raise refuse("unknown-boundary-order", f"boundary order {index.boundary_order} is unknown")
    if index.null_counts is not None and (True in index.null_pages or min(index.null_counts, default=0) < 0):
        for page, (is_null, nulls) in enumerate(zip(index.null_pages, index.null_counts, strict=True)):
            if nulls < 0 or (is_null and nulls == 0):
                raise refuse(
                    "contradictory-nulls", f"page {page} has null_page {is_null} and null_count {nulls}"
                )
    return index
