"""Split-block Bloom filters: header and bits, where a value's block lies, and whether the block holds it.

A probe needs one block of 32 bytes, so a filter of a megabyte is never read whole.
Source: ``BloomFilter.md`` of parquet-format; XXH64 with seed 0 over the PLAIN encoding of a value.
"""

from __future__ import annotations

import math
from typing import NamedTuple, TypeAlias

import numpy as np
import numpy.typing as npt

from intarsia.errors import CorruptFileError, UnsupportedFeatureError
from intarsia.format import thrift
from intarsia.format.structs import (
    BloomFilterAlgorithm,
    BloomFilterCompression,
    BloomFilterHash,
    BloomFilterHeader,
    ColumnMetaData,
    Empty,
)

BLOCK_BYTES = 32

#: Larger filters are refused by Arrow C++ and parquet-java.
MAX_BYTES = 128 << 20

#: Headers of today are about 15 bytes; this leaves room for fields to come.
HEADER_BYTES = 64

SALT = (0x47B6137B, 0x44974D91, 0x8824AD5B, 0xA2B7289D, 0x705495C7, 0x2DF1424B, 0x9EFC4947, 0x5C6BFB31)

_SALTS = np.array(SALT, dtype=np.uint32)

#: Words of 32 bits in a block, and bits that a value sets: one in each word.
_WORDS = len(SALT)

_WORD_BITS = 32

#: A row of words for each block.
Blocks: TypeAlias = npt.NDArray[np.uint32]

#: Hashes are put in so many at a time, which bounds the memory that it takes.
_STEP_HASHES = 1 << 15


class FilterPlace(NamedTuple):
    """Bytes ``start`` (included) to ``stop`` (excluded) of a file, in which a filter lies: header and bits.

    Older writers do not say how long a filter is; ``stop`` is then where the file's body ends.
    """

    start: int
    stop: int

    @classmethod
    def of(cls, meta: ColumnMetaData, body_stop: int) -> FilterPlace:
        """Where a footer says that a chunk's filter lies; it is to say so.

        Args:
            meta: What it says of the chunk.
            body_stop: Where the footer starts.

        Raises:
            CorruptFileError: If that is outside of the file's body.
        """
        start, stop = meta.bloom_filter_offset or 0, body_stop
        if meta.bloom_filter_length:
            stop = min(stop, start + meta.bloom_filter_length)
        if not 0 < start < stop:
            raise CorruptFileError(
                f"bytes {start} to {stop} lie outside the file's body", struct="BloomFilterHeader"
            )
        return cls(start, stop)

    @property
    def head(self) -> tuple[int, int]:
        """Start and stop of what is to be read to find the bits."""
        return self.start, min(self.stop, self.start + HEADER_BYTES)

    def bits(self, head: bytes) -> tuple[int, int]:
        """Start and stop of the bits.

        Args:
            head: The bytes at `head`.

        Raises:
            CorruptFileError: If there is no header, or the bits run over the end.
            UnsupportedFeatureError: As for `parse_bloom_header`.
        """
        header_bytes, num_bytes = parse_bloom_header(head)
        start = self.start + header_bytes
        if start + num_bytes > self.stop:
            raise CorruptFileError(
                f"{num_bytes} bytes of bits end after byte {self.stop}", struct="BloomFilterHeader"
            )
        return start, start + num_bytes


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


def block_ordinals(hashes: npt.NDArray[np.uint64], num_blocks: int) -> npt.NDArray[np.int64]:
    """The block that each hash belongs to, in a filter of so many blocks.

    Example:
        >>> block_ordinals(np.array([0, 2**64 - 1], dtype=np.uint64), 32)
        array([ 0, 31])
    """
    return ((hashes >> np.uint64(32)) * np.uint64(num_blocks) >> np.uint64(32)).astype(np.int64)


def blocks_may_contain(blocks: Blocks, hashes: npt.ArrayLike) -> npt.NDArray[np.bool_]:
    """For each of several blocks, whether it may hold the value with a hash; False is certain.

    Args:
        blocks: Blocks, see `blocks_of`.
        hashes: For each block a hash, or one for all.

    Example:
        >>> blocks = blocks_of(build(np.array([7], dtype=np.uint64), 32) + bytes(32))
        >>> blocks_may_contain(blocks, 7), blocks_may_contain(blocks, [8, 7])
        (array([ True, False]), array([False, False]))
    """
    bits = _bits_of(np.asarray(hashes, dtype=np.uint64)[..., None], _SALTS)
    return np.asarray((blocks & bits == bits).all(axis=-1))


def might_contain(bits: bytes, hashes: npt.NDArray[np.uint64]) -> npt.NDArray[np.bool_]:
    r"""For each hash, whether a filter may hold its value; False is certain.

    Example:
        >>> hashes = np.array([1, 2], dtype=np.uint64)
        >>> might_contain(bytes(32), hashes), might_contain(b"\xff" * 32, hashes)
        (array([False, False]), array([ True,  True]))
    """
    blocks = blocks_of(bits)
    return blocks_may_contain(blocks[block_ordinals(hashes, len(blocks))], hashes)


def blocks_of(bits: bytes) -> Blocks:
    """The blocks of a filter, or of a part of it: a row of words each."""
    return np.frombuffer(bits, dtype="<u4").reshape(-1, _WORDS)


def _bits_of(hashes: npt.NDArray[np.uint64], salt: npt.NDArray[np.uint32]) -> npt.NDArray[np.uint32]:
    """The bit that a hash sets in a word."""
    # products of uint32 wrap around, as the specification wants
    return np.uint32(1) << (hashes.astype(np.uint32) * salt >> np.uint32(27))


# --- building ----------------------------------------------------------------------------------------


def bits_per_value(fpp: float) -> float:
    """Bits that a filter needs for each value, so that the share ``fpp`` of other values is taken for held.

    Example:
        >>> round(bits_per_value(0.01), 1)
        9.7
    """
    share_set = min(fpp ** (1 / _WORDS), 1 - 2**-53)  # what is all but 1 is rounded to 1
    return -_WORDS / math.log1p(-share_set)


def optimal_bytes(num_distinct: int, fpp: float) -> int:
    """Size of the bits of a filter, in bytes: a power of two, since Arrow C++, Velox and ClickHouse want it.

    Args:
        num_distinct: How many different values it is to hold.
        fpp: At most this share of the values that it does not hold are taken for held, unless that needs
            more than `MAX_BYTES`.

    Example:
        >>> optimal_bytes(1_000, 0.01), optimal_bytes(1, 0.01)
        (2048, 32)
    """
    wanted = math.ceil(num_distinct * bits_per_value(fpp) / 8)
    return min(max(BLOCK_BYTES, 1 << (wanted - 1).bit_length()), MAX_BYTES)


def build(hashes: npt.NDArray[np.uint64], num_bytes: int) -> bytes:
    """The bits of a filter that holds some values.

    Args:
        hashes: The values' hashes, in any order; sorted ones save sorting them here.
        num_bytes: Size of the bits, a whole number of blocks; see `optimal_bytes`.

    Example:
        >>> bits = build(np.array([7], dtype=np.uint64), 64)
        >>> might_contain(bits, np.array([7, 8], dtype=np.uint64))
        array([ True, False])
    """
    if (hashes[1:] < hashes[:-1]).any():
        hashes = np.sort(hashes)
    blocks = np.zeros((num_bytes // BLOCK_BYTES, _WORDS), dtype=np.uint32)
    for start in range(0, len(hashes), _STEP_HASHES):
        step = hashes[start : start + _STEP_HASHES]
        place = block_ordinals(step, len(blocks))
        firsts = np.flatnonzero(np.diff(place, prepend=-1))  # sorted hashes of one block are neighbours
        words = np.empty((len(firsts), _WORDS), dtype=np.uint32)
        for word in range(_WORDS):
            bits = _bits_of(step, _SALTS[word : word + 1])
            np.bitwise_or.reduceat(bits, firsts, out=words[:, word])
        blocks[place[firsts]] |= words
    return blocks.astype("<u4", copy=False).tobytes()


def serialize_bloom_filter(bits: bytes) -> bytes:
    """A filter as it stands in a file: header and bits."""
    header = BloomFilterHeader(
        len(bits),
        BloomFilterAlgorithm(BLOCK=Empty()),
        BloomFilterHash(XXHASH=Empty()),
        BloomFilterCompression(UNCOMPRESSED=Empty()),
    )
    return thrift.serialize(header) + bits


def estimated_distinct(bits: bytes) -> float:
    """About how many different values a filter holds, by how many of its bits are set; infinite if all are.

    Example:
        >>> hashes = np.random.default_rng(1).integers(0, 2**64, 1_000, dtype=np.uint64)
        >>> round(estimated_distinct(build(hashes, 2048)), -2)
        1000.0
    """
    num_bits = len(bits) * 8
    share_unset = 1 - int.from_bytes(bits, "little").bit_count() / num_bits
    if share_unset == 0:
        return math.inf
    # in each word, a value of its block sets one of 32 bits
    return len(bits) / BLOCK_BYTES * math.log(share_unset) / math.log1p(-1 / _WORD_BITS)
