r"""Hadoop's checksum sidecars: a file ``.NAME.crc`` next to a local file, which Hadoop checks on reads.

A sidecar is ``crc\0``, the number of bytes that each checksum covers (32 bits, big-endian), and then the
CRC-32 of each of these stretches of the file (32 bits, big-endian; the last stretch may be shorter).
"""

from __future__ import annotations

import os
import zlib
from array import array
from collections.abc import Iterator
from contextlib import suppress

_MAGIC = b"crc\0"
_HEADER_BYTES = 8
_CHECKSUM_BYTES = 4

#: Hadoop's ``io.bytes.per.checksum``.
DEFAULT_STRETCH_BYTES = 512

#: Larger than any real configuration; detects a damaged sidecar.
_MAX_STRETCH_BYTES = 1 << 24

#: Bytes per read.
_BLOCK_BYTES = 1 << 20


def sidecar_path(path: str) -> str:
    """Return the path at which Hadoop looks for the checksums of a file.

    Example:
        >>> sidecar_path("/lake/part-0.parquet")
        '/lake/.part-0.parquet.crc'
    """
    folder, name = os.path.split(path)
    return os.path.join(folder, f".{name}.crc")


def read_sidecar(path: str) -> bytes | None:
    """Read the sidecar of a file; None if it has no sidecar."""
    with suppress(FileNotFoundError), open(sidecar_path(path), "rb") as file:
        return file.read()
    return None


def updated_sidecar(old: bytes, old_length: int, fd: int, unchanged_bytes: int) -> bytes:
    """Compute the sidecar of a file that begins with the same bytes as an older file.

    Checksums of unchanged stretches are copied, not recomputed, so that Hadoop still detects bytes that
    have been corrupted on disk since they were written.

    Args:
        old: The older file's sidecar.
        old_length: The older file's length in bytes.
        fd: The new file.
        unchanged_bytes: The number of leading bytes that both files have in common.
    """
    stretch_bytes = int.from_bytes(old[len(_MAGIC) : _HEADER_BYTES], "big")
    known = old[_HEADER_BYTES:]
    if old[: len(_MAGIC)] != _MAGIC or not 0 < stretch_bytes <= _MAX_STRETCH_BYTES:
        stretch_bytes, known = DEFAULT_STRETCH_BYTES, b""
    if len(known) != _CHECKSUM_BYTES * -(-old_length // stretch_bytes):
        known = b""  # the sidecar does not belong to the current file
    whole = unchanged_bytes // stretch_bytes if known else 0
    checksums = array("I", (checksum for checksum in _checksums(fd, whole * stretch_bytes, stretch_bytes)))
    assert checksums.itemsize == _CHECKSUM_BYTES
    if _LITTLE_ENDIAN:
        checksums.byteswap()
    header = _MAGIC + stretch_bytes.to_bytes(_HEADER_BYTES - len(_MAGIC), "big")
    return header + known[: whole * _CHECKSUM_BYTES] + checksums.tobytes()


def _checksums(fd: int, offset: int, stretch_bytes: int) -> Iterator[int]:
    block_bytes = max(1, _BLOCK_BYTES // stretch_bytes) * stretch_bytes
    while block := os.pread(fd, block_bytes, offset):
        while len(block) < block_bytes and (
            more := os.pread(fd, block_bytes - len(block), offset + len(block))
        ):
            block += more
        view = memoryview(block)
        for start in range(0, len(view), stretch_bytes):
            yield zlib.crc32(view[start : start + stretch_bytes])
        offset += len(block)


_LITTLE_ENDIAN = array("I", [1]).tobytes()[0] == 1
