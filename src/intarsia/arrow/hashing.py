"""XXH64 of whole arrays.

NumPy hashes numbers and short texts in a few passes over blocks of values of equal length, which is 2 to 10
times as fast as one call per value. Longer texts are hashed by the xxhash package, one call per value: from
32 bytes on, the algorithm has too many steps for passes over arrays to be faster.

As for Bloom filters, the seed is 0, and the hashed bytes are those of Parquet's PLAIN encoding, without the
length prefix. Source: ``BloomFilter.md`` of parquet-format, and the XXH64 part of the xxHash specification.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, TypeAlias

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import xxhash

from intarsia.arrow.comparison import comparison_array, comparison_type

Hashes: TypeAlias = npt.NDArray[np.uint64]

#: Called with an offset and a width in bytes, returns the little-endian number there of each value.
_Read: TypeAlias = Callable[[int, int], Hashes]

_P1, _P2, _P3, _P4, _P5 = (
    np.uint64(prime)
    for prime in (
        0x9E3779B185EBCA87,
        0xC2B2AE3D27D4EB4F,
        0x165667B19E3779F9,
        0x85EBCA77C2B2AE63,
        0x27D4EB2F165667C5,
    )
)

#: The number of values in a block, whose intermediate results fit in the cache of a core.
_BLOCK_VALUES = 1 << 14

#: With fewer values of one length, one call per value is faster.
_FEW_VALUES = 512

#: From this length on XXH64 has four lanes, and one call per value is faster.
_LONG_BYTES = 32


def xxh64(values: pa.Array) -> Hashes:
    r"""Return the XXH64, with seed 0, of the PLAIN encoding of each value.

    Integers, dates, times and timestamps take 4 or 8 bytes as in Parquet, and float16 takes 2. Decimals are
    fixed-length bytes of the smallest width for their precision. Temporal values keep the unit of the array.

    Args:
        values: Values without nulls. For a dictionary array, only the dictionary is hashed.

    Returns:
        One hash per value.

    Raises:
        ValueError: If ``values`` has nulls.
        TypeError: If the type is boolean or nested.

    Example:
        >>> [hex(hash64) for hash64 in xxh64(pa.array(["", "a"]))]
        ['0xef46db3751d8e999', '0xd24ec4f1a98c6e5b']
        >>> xxh64(pa.array([7], pa.int32())) == xxh64(pa.array([b"\x07\0\0\0"]))
        array([ True])
    """
    if values.null_count:
        raise ValueError("nulls have no hash; drop them first")
    if isinstance(values, pa.DictionaryArray):
        used = values.dictionary  # a null entry is unused, because the values have no nulls
        hashes = np.zeros(len(used), dtype=np.uint64)
        hashes[used.is_valid().to_numpy(zero_copy_only=False)] = xxh64(used.drop_null())
        return np.asarray(hashes[values.indices.to_numpy()])
    data_type = comparison_type(values.type)
    array = comparison_array(values, data_type)
    if pa.types.is_string(data_type) or pa.types.is_binary(data_type):
        return _of_texts(array)
    rows = _rows(array, data_type)
    hashes = np.empty(len(rows), dtype=np.uint64)
    for start in range(0, len(rows), _BLOCK_VALUES):
        hashes[start : start + _BLOCK_VALUES] = _of_rows(rows[start : start + _BLOCK_VALUES])
    return hashes


def _rows(array: pa.Array, data_type: pa.DataType) -> npt.NDArray[np.uint8]:
    """Return the bytes of fixed-width values, one row per value."""
    count = len(array)
    if pa.types.is_fixed_size_binary(data_type) or pa.types.is_decimal(data_type):
        width = data_type.byte_width
        raw = np.frombuffer(array.buffers()[1] or b"", dtype=np.uint8)
        stored = raw[array.offset * width : (array.offset + count) * width].reshape(count, width)
        if pa.types.is_fixed_size_binary(data_type):
            return stored
        num_bytes = int((10**data_type.precision - 1).bit_length()) // 8 + 1  # fit all of these digits
        return stored[:, :num_bytes][:, ::-1]
    if pa.types.is_integer(data_type) and data_type.bit_width < 32:
        array = array.cast(pa.int32() if pa.types.is_signed_integer(data_type) else pa.uint32())
    elif pa.types.is_temporal(data_type) and data_type.bit_width in (32, 64):
        array = array.view(pa.int32() if data_type.bit_width == 32 else pa.int64())
    elif not (pa.types.is_integer(data_type) or pa.types.is_floating(data_type)):
        raise TypeError(f"values of type {data_type} cannot be hashed")
    numbers = np.ascontiguousarray(array.to_numpy(zero_copy_only=False))
    little = numbers.astype(numbers.dtype.newbyteorder("<"), copy=False)
    return little.view(np.uint8).reshape(count, little.dtype.itemsize)


def _of_rows(rows: npt.NDArray[np.uint8]) -> Hashes:
    def read(offset: int, width: int) -> Hashes:
        piece = np.ascontiguousarray(rows[:, offset : offset + width])
        return piece.view(f"<u{width}").reshape(-1).astype(np.uint64)

    count, length = rows.shape
    if length >= _LONG_BYTES:
        return _hash_each([row.tobytes() for row in rows])
    return _hash(count, length, read)


def _of_texts(array: pa.Array) -> Hashes:
    """Hash byte arrays, grouped by length."""
    _, offset_buffer, data_buffer = array.buffers()
    if len(array) == 0:
        return np.empty(0, dtype=np.uint64)
    offsets = np.frombuffer(offset_buffer, dtype=np.int32)[array.offset : array.offset + len(array) + 1]
    starts, lengths = offsets[:-1], np.diff(offsets)
    data = np.frombuffer(data_buffer or b"", dtype=np.uint8)
    hashes = np.empty(len(array), dtype=np.uint64)
    # NumPy sorts 16-bit integers by radix
    key = lengths.astype(np.uint16) if int(lengths.max()) < 1 << 16 else lengths
    order = np.argsort(key, kind="stable")
    ordered = lengths[order]
    edges = np.flatnonzero(np.diff(ordered, prepend=-1, append=-1))
    alone: list[npt.NDArray[np.int64]] = []
    for start, stop in zip(edges[:-1].tolist(), edges[1:].tolist(), strict=True):
        members, length = order[start:stop], int(ordered[start])
        if stop - start < _FEW_VALUES or length >= _LONG_BYTES:
            alone.append(members)
            continue
        for first in range(0, len(members), _BLOCK_VALUES):
            block = members[first : first + _BLOCK_VALUES]
            hashes[block] = _hash(len(block), length, _gather(data, starts[block].astype(np.int64)))
    members = np.sort(np.concatenate(alone)) if alone else order[:0]
    for first in range(0, len(members), _BLOCK_VALUES):
        block = members[first : first + _BLOCK_VALUES]
        hashes[block] = _hash_each(array.take(pa.array(block)).cast(pa.binary()).to_pylist())
    return hashes


def _gather(data: npt.NDArray[np.uint8], starts: npt.NDArray[np.int64]) -> _Read:
    def read(offset: int, width: int) -> Hashes:
        # a view with one, mostly unaligned, number per byte of the data; no bytes are copied
        view: npt.NDArray[Any] = np.ndarray(
            (max(len(data) - width + 1, 0),), dtype=f"<u{width}", buffer=data, strides=(1,)
        )
        return view[starts + offset].astype(np.uint64)

    return read


def _hash_each(values: list[bytes]) -> Hashes:
    return np.fromiter(map(xxhash.xxh64_intdigest, values), dtype=np.uint64, count=len(values))


# --- XXH64 of values of equal length below 32 bytes -------------------------------------------------------


def _hash(count: int, length: int, read: _Read) -> Hashes:
    # products and sums of uint64 wrap around, as the algorithm requires
    position = 0
    state = np.full(count, _P5)
    state += np.uint64(length)
    while length - position >= 8:
        state ^= _rotated(read(position, 8) * _P2, 31) * _P1
        state = _rotated(state, 27)
        state *= _P1
        state += _P4
        position += 8
    if length - position >= 4:
        state ^= read(position, 4) * _P1
        state = _rotated(state, 23)
        state *= _P2
        state += _P3
        position += 4
    for offset in range(position, length):
        state ^= read(offset, 1) * _P5
        state = _rotated(state, 11)
        state *= _P1
    state ^= state >> np.uint64(33)
    state *= _P2
    state ^= state >> np.uint64(29)
    state *= _P3
    state ^= state >> np.uint64(32)
    return state


def _rotated(state: Hashes, bits: int) -> Hashes:
    return np.asarray((state << np.uint64(bits)) | (state >> np.uint64(64 - bits)))
