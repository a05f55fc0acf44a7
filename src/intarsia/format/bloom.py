"""Split-block Bloom filters: the header, where a value's block lies, and whether the block holds it.

A probe needs one block of 32 bytes, so a filter of a megabyte is never read whole.
Source: ``BloomFilter.md`` of parquet-format; XXH64 with seed 0 over the PLAIN encoding of a value.
"""

from __future__ import annotations

import struct

from intarsia.errors import CorruptFileError, UnsupportedFeatureError
from intarsia.format import thrift
from intarsia.format.structs import BloomFilterHeader

BLOCK_BYTES = 32

#: Headers of today are about 15 bytes; this leaves room for fields to come.
HEADER_BYTES = 64

SALT = (0x47B6137B, 0x44974D91, 0x8824AD5B, 0xA2B7289D, 0x705495C7, 0x2DF1424B, 0x9EFC4947, 0x5C6BFB31)


def parse_bloom_header(data: bytes) -> tuple[int, int]:
    """Sizes of a filter's header and of its bits, both in bytes.

    Raises:
        CorruptFileError: If there is no header, or the bits are no whole number of blocks.
        UnsupportedFeatureError: If the algorithm, hash or compression is not the one that Parquet defines.
    """
    header, header_bytes = thrift.parse(BloomFilterHeader, data)
    if (
        header.algorithm.BLOCK is None
        or header.hash.XXHASH is None
        or header.compression.UNCOMPRESSED is None
    ):
        raise UnsupportedFeatureError(
            "the filter is not an uncompressed split-block filter over XXH64", struct="BloomFilterHeader"
        )
    if header.numBytes < BLOCK_BYTES or header.numBytes % BLOCK_BYTES:
        raise CorruptFileError(
            f"{header.numBytes} bytes are no whole number of blocks", struct="BloomFilterHeader"
        )
    return header_bytes, header.numBytes


def block_offset(hash64: int, num_bytes: int) -> int:
    """Offset, from the first bit, of the block that a hash belongs to.

    Example:
        >>> block_offset(0, 1024), block_offset(2**64 - 1, 1024)
        (0, 992)
    """
    return ((hash64 >> 32) * (num_bytes // BLOCK_BYTES) >> 32) * BLOCK_BYTES


def block_may_contain(block: bytes, hash64: int) -> bool:
    """Whether a block may hold the value with this hash; False is certain."""
    key = hash64 & 0xFFFFFFFF
    words = struct.unpack("<8I", block)
    return all(word >> ((key * salt & 0xFFFFFFFF) >> 27) & 1 for word, salt in zip(words, SALT, strict=True))
