"""Vectorized decoding of the page locations of many OffsetIndexes.

A row group of 1,000 columns has 1,000 OffsetIndexes. Decoding one takes 0.1 ms, mostly for Python calls.
Decoding many together takes little more time than reading their bytes.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import NamedTuple

import numpy as np
import numpy.typing as npt

from intarsia.errors import CorruptFileError
from intarsia.format import thrift
from intarsia.format.structs import Empty
from intarsia.format.varints import decode_varints, zigzag

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

    Args:
        indexes: The bytes of each OffsetIndex.

    Returns:
        For each OffsetIndex a table with one row per page, whose columns are offset, size and first row; None
        if its form is different, so that the general codec has to parse or refuse it.
    """
    tables: list[LocationTable | None] = [None] * len(indexes)
    bodies = [body for ordinal, index in enumerate(indexes) if (body := _body(ordinal, index)) is not None]
    for batch in _batches(bodies):
        for body, table in zip(batch, _tables(batch), strict=True):
            tables[body.ordinal] = table
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


def _batches(bodies: Sequence[_Body]) -> Iterator[list[_Body]]:
    batch: list[_Body] = []
    num_bytes = 0
    for body in bodies:
        if batch and num_bytes + len(body.data) > _BATCH_BYTES:
            yield batch
            batch, num_bytes = [], 0
        batch.append(body)
        num_bytes += len(body.data)
    if batch:
        yield batch


def _tables(bodies: list[_Body]) -> list[LocationTable | None]:
    # no varint spans two bodies, because each body ends with the last byte of a varint
    joined = b"".join([body.data for body in bodies])
    found = decode_varints(joined, 0, int((np.frombuffer(joined, np.uint8) < 0x80).sum()))
    if found is None:
        return [None] if len(bodies) == 1 else [_tables([body])[0] for body in bodies]
    numbers, num_bytes = found
    byte_edges = np.concatenate([[0], np.cumsum(num_bytes)])
    body_edges = np.cumsum([0, *[len(body.data) for body in bodies]])
    edges = np.searchsorted(byte_edges, body_edges).tolist()
    tables = []
    for body, body_start, start, stop in zip(bodies, body_edges.tolist(), edges, edges[1:], strict=False):
        end = start + body.num_pages * _NUMBERS_PER_LOCATION
        table = _table(numbers[start:end], num_bytes[start:end]) if end < stop else None
        is_valid = table is not None and _ends_well(body.data, int(byte_edges[end]) - body_start)
        tables.append(table if is_valid else None)
    return tables


def _table(numbers: npt.NDArray[np.uint64], num_bytes: npt.NDArray[np.int64]) -> LocationTable | None:
    framed = numbers.reshape(-1, _NUMBERS_PER_LOCATION)
    lengths = num_bytes.reshape(-1, _NUMBERS_PER_LOCATION)
    if (framed[:, ::2] != _LOCATION_FRAME).any() or (lengths[:, ::2] != 1).any():
        return None
    table = zigzag(framed[:, 1::2])
    sizes = table[:, 1]
    return None if sizes.max() > _INT32_MAX or sizes.min() < -_INT32_MAX else table


def _ends_well(data: bytes, rest: int) -> bool:
    """Return whether the bytes after the locations are further fields and the end of the struct."""
    if data[rest:] == b"\0":
        return True
    try:
        thrift.parse(Empty, data, rest)
    except CorruptFileError:
        return False
    return True
