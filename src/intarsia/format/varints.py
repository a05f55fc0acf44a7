"""Vectorized decoding of numbers in Thrift's compact protocol.

A list of a thousand page locations has three thousand numbers, and decoding each by itself allocates at least
one object per number.
"""

from __future__ import annotations

import numpy as np
import numpy.typing as npt

#: A varint of more bytes might not fit into a signed 64-bit number.
_MAX_BYTES = 9


def decode_varints(
    data: bytes, offset: int, count: int
) -> tuple[npt.NDArray[np.uint64], npt.NDArray[np.int64]] | None:
    """Decode consecutive varints.

    Args:
        data: Bytes that contain the varints; more bytes may follow them.
        offset: The offset of the first varint, at most ``len(data)``.
        count: The number of varints; at least one.

    Returns:
        The numbers, and the number of bytes that each takes; None if the bytes end too early, or if a number
        takes more than 9 bytes. Whatever ``count`` is, this allocates at most a small multiple of
        ``len(data)``.

    Example:
        >>> numbers, num_bytes = decode_varints(bytes([3, 0x80, 1, 7]), 0, 2)
        >>> numbers.tolist(), num_bytes.tolist()
        ([3, 128], [1, 2])
    """
    # numbers take at most `_MAX_BYTES` each, so the bytes after that are irrelevant
    raw = np.frombuffer(data, np.uint8, min(len(data) - offset, count * _MAX_BYTES), offset)
    ends = np.flatnonzero(raw < 0x80)
    if len(ends) < count:
        return None
    ends = ends[:count]
    starts = np.empty(count, np.int64)
    starts[0] = 0
    np.add(ends[:-1], 1, out=starts[1:])
    lengths = ends - starts + 1
    if lengths.max() > _MAX_BYTES:
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
