r"""Hadoop's checksum sidecars: ``.NAME.crc`` beside a local file, which its readers hold against it.

A sidecar is ``crc\0``, the number of bytes that each checksum covers (32 bits, big-endian), and then the
CRC-32 of each such stretch of the file (32 bits, big-endian; the last stretch may be short).
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

#: More than anyone configures; stops a damaged sidecar.
_MAX_STRETCH_BYTES = 1 << 24

#: Read at a time.
_BLOCK_BYTES = 1 << 20


def sidecar_path(path: str) -> str:
    """Where Hadoop looks for a file's checksums.

    Example:
        >>> sidecar_path("/lake/part-0.parquet")
        '/lake/.part-0.parquet.crc'
    """
    folder, name = os.path.split(path)
    return os.path.join(folder, f".{name}.crc")


def read_sidecar(path: str) -> bytes | None:
    """The sidecar of a file; None if there is none."""
    with suppress(FileNotFoundError), open(sidecar_path(path), "rb") as file:
        return file.read()
    return None


def updated_sidecar(old: bytes, old_length: int, fd: int, unchanged_bytes: int) -> bytes:
    """The sidecar of a file whose first bytes are those of another one.

    Checksums of stretches that did not change are taken over, not computed anew: should those
    bytes have rotted on the disk since they were written, Hadoop's readers still notice.

    Args:
        old: The other file's sidecar.
        old_length: The other file's length in bytes.
        fd: The file.
        unchanged_bytes: How many bytes the two have in common, from the start.
    """
    stretch_bytes = int.from_bytes(old[len(_MAGIC) : _HEADER_BYTES], "big")
    known = old[_HEADER_BYTES:]
    if old[: len(_MAGIC)] != _MAGIC or not 0 < stretch_bytes <= _MAX_STRETCH_BYTES:
        stretch_bytes, known = DEFAULT_STRETCH_BYTES, b""
    if len(known) != _CHECKSUM_BYTES * -(-old_length // stretch_bytes):
        known = b""  # it was not about the file as it is: nothing to take over
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
