"""Split-block Bloom filters: header and bits, the location of a value's block, and probing of blocks.

A probe needs one block of 32 bytes, so a filter of a megabyte is never read completely.
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

#: Arrow C++ and parquet-java refuse larger filters.
MAX_BYTES = 128 << 20

#: Upper bound for a header's size; current headers have about 15 bytes, and future fields may be added.
HEADER_BYTES = 64

#: Lower bound for a header's size: its length field, and three unions with an empty struct each.
_LEAST_HEADER_BYTES = 12

SALT = (0x47B6137B, 0x44974D91, 0x8824AD5B, 0xA2B7289D, 0x705495C7, 0x2DF1424B, 0x9EFC4947, 0x5C6BFB31)

_SALTS = np.array(SALT, dtype=np.uint32)

#: The number of 32-bit words in a block; a value sets one bit in each.
_WORDS = len(SALT)

_WORD_BITS = 32

#: A row of words for each block.
Blocks: TypeAlias = npt.NDArray[np.uint32]

#: The number of hashes added at a time, which limits the memory.
STEP_HASHES = 1 << 15


def _wrong_filter(reason: str, message: str) -> CorruptFileError:
    return CorruptFileError(message, reason=reason, struct="BloomFilterHeader")


class FilterLocation(NamedTuple):
    """The byte range of a filter, header and bits, in a file.

    Attributes:
        start: Offset of the header.
        stop: The end of the filter; the end of the file's body if the footer does not record the length.
        recorded_bytes: The length of header and bits in the footer; None if it is not recorded, as by older
            writers.
    """

    start: int
    stop: int
    recorded_bytes: int | None = None

    @classmethod
    def of(cls, meta: ColumnMetaData, body_stop: int) -> FilterLocation:
        """Return the range in the footer for a chunk that has a filter.

        Args:
            meta: The footer's metadata of the chunk.
            body_stop: End of the body of the file with the chunk.

        Raises:
            CorruptFileError: If the range is outside the file's body.
        """
        start, stop = meta.bloom_filter_offset or 0, body_stop
        recorded_bytes = meta.bloom_filter_length or None  # some writers write 0 for "absent"
        if recorded_bytes is not None:
            stop = min(stop, start + recorded_bytes)
        if not 0 < start < stop:
            raise _wrong_filter("filter-outside-body", f"bytes {start} to {stop} are outside the file's body")
        return cls(start, stop, recorded_bytes)

    @property
    def head(self) -> tuple[int, int]:
        """Start and stop of the bytes that contain the header."""
        return self.start, min(self.stop, self.start + HEADER_BYTES)

    @property
    def likely_bits(self) -> tuple[int, int] | None:
        """Start and stop of the bits according to the length in the footer; None if it does not imply them.

        Most writers write a power of two of bytes, after a header that is shorter than a block.

        Example:
            >>> FilterLocation(100, 100 + 15 + 1024).likely_bits
            (115, 1139)
            >>> FilterLocation(100, 100 + 15 + 96).likely_bits
        """
        header_bytes = (self.stop - self.start) % BLOCK_BYTES
        num_bytes = self.stop - self.start - header_bytes
        if header_bytes < _LEAST_HEADER_BYTES or not num_bytes or num_bytes & (num_bytes - 1):
            return None
        return self.start + header_bytes, self.stop

    def bits(self, head: bytes) -> tuple[int, int]:
        """Return start and stop of the bits.

        Args:
            head: The bytes at `head`.

        Raises:
            CorruptFileError: If there is no header, the bits extend beyond ``stop``, or header and footer
                disagree about the length.
            UnsupportedFeatureError: As for `parse_bloom_header`.
        """
        header_bytes, num_bytes = parse_bloom_header(head)
        start = self.start + header_bytes
        if start + num_bytes > self.stop:
            raise _wrong_filter(
                "filter-beyond-end", f"{num_bytes} bytes of bits extend beyond byte {self.stop}"
            )
        self.check_length(start + num_bytes)
        return start, start + num_bytes

    def check_length(self, stop: int) -> None:
        """Refuse a filter that, by its header, does not end where it ends by the footer.

        The number of blocks determines the block of a value. If it is wrong, present values are not found.

        Args:
            stop: The end of the bits according to the header.

        Raises:
            CorruptFileError: If the lengths differ.
        """
        if self.recorded_bytes not in (None, stop - self.start):
            raise _wrong_filter(
                "filter-length-mismatch",
                f"its length in the footer is {self.recorded_bytes} bytes, but by its header it has "
                f"{stop - self.start}",
            )


def parse_bloom_header(data: bytes) -> tuple[int, int]:
    """Parse a filter's header, and return the sizes of the header and of the bits in bytes.

    Raises:
        CorruptFileError: If there is no header, or the bits are not a whole number of blocks.
        UnsupportedFeatureError: If the algorithm, hash or compression is not the one that Parquet defines.
    """
    header, header_bytes = thrift.parse(BloomFilterHeader, data)
    if (
        header.algorithm.BLOCK is None
        or header.hash.XXHASH is None
        or header.compression.UNCOMPRESSED is None
    ):
        raise UnsupportedFeatureError(
            "the filter is not an uncompressed split-block filter with XXH64",
            reason="unknown-bloom-filter",
            struct="BloomFilterHeader",
        )
    if header.numBytes < BLOCK_BYTES or header.numBytes % BLOCK_BYTES:
        raise _wrong_filter("not-whole-blocks", f"{header.numBytes} bytes are not a whole number of blocks")
    return header_bytes, header.numBytes


def block_ordinals(hashes: npt.NDArray[np.uint64], num_blocks: int) -> npt.NDArray[np.int64]:
    """Return the ordinal of the block of each hash in a filter of ``num_blocks`` blocks.

    Example:
        >>> block_ordinals(np.array([0, 2**64 - 1], dtype=np.uint64), 32)
        array([ 0, 31])
    """
    return ((hashes >> np.uint64(32)) * np.uint64(num_blocks) >> np.uint64(32)).astype(np.int64)


def blocks_may_contain(blocks: Blocks, hashes: npt.ArrayLike) -> npt.NDArray[np.bool_]:
    """Return for each block whether it might contain the value with a hash; False is certain.

    Args:
        blocks: Blocks, see `blocks_of`.
        hashes: A hash for each block, or one hash for all.

    Example:
        >>> blocks = blocks_of(build(np.array([7], dtype=np.uint64), 32) + bytes(32))
        >>> blocks_may_contain(blocks, 7), blocks_may_contain(blocks, [8, 7])
        (array([ True, False]), array([False, False]))
    """
    bits = _bits_of(np.asarray(hashes, dtype=np.uint64)[..., None], _SALTS)
    return np.asarray((blocks & bits == bits).all(axis=-1))


def might_contain(bits: bytes, hashes: npt.NDArray[np.uint64]) -> npt.NDArray[np.bool_]:
    r"""Return for each hash whether a filter might contain its value; False is certain.

    Example:
        >>> hashes = np.array([1, 2], dtype=np.uint64)
        >>> might_contain(bytes(32), hashes), might_contain(b"\xff" * 32, hashes)
        (array([False, False]), array([ True,  True]))
    """
    blocks = blocks_of(bits)
    return blocks_may_contain(blocks[block_ordinals(hashes, len(blocks))], hashes)


def blocks_of(bits: bytes) -> Blocks:
    """View the bits of a filter, or of whole blocks of it, as one row of words per block."""
    return np.frombuffer(bits, dtype="<u4").reshape(-1, _WORDS)


def _bits_of(hashes: npt.NDArray[np.uint64], salt: npt.NDArray[np.uint32]) -> npt.NDArray[np.uint32]:
    """Return the bit that each hash sets in a word."""
    # products of uint32 wrap around, as the specification requires
    return np.uint32(1) << (hashes.astype(np.uint32) * salt >> np.uint32(27))


# --- building ----------------------------------------------------------------------------------------


def bits_per_value(fpp: float) -> float:
    """Return the number of bits per value that a filter needs for a false-positive rate.

    Example:
        >>> round(bits_per_value(0.01), 1)
        9.7
    """
    share_set = min(fpp ** (1 / _WORDS), 1 - 2**-53)  # the power may be rounded to 1
    return -_WORDS / math.log1p(-share_set)


def expected_fpp(num_blocks: float, num_distinct: int) -> float:
    """Return the approximate false-positive rate of a filter; the inverse of `bits_per_value`.

    Example:
        >>> round(expected_fpp(optimal_bytes(10_000, 0.01) // BLOCK_BYTES, 10_000), 4)
        0.0019
    """
    bits = num_blocks * BLOCK_BYTES * 8
    return (1 - math.exp(-_WORDS * num_distinct / bits)) ** _WORDS if bits else 1.0


def optimal_bytes(num_distinct: int, fpp: float) -> int:
    """Return the size of a filter's bits in bytes, a power of two as Arrow C++, Velox and ClickHouse require.

    Args:
        num_distinct: The number of distinct values.
        fpp: The maximum false-positive rate; it is exceeded if it would take more than `MAX_BYTES`.

    Example:
        >>> optimal_bytes(1_000, 0.01), optimal_bytes(1, 0.01)
        (2048, 32)
    """
    wanted = math.ceil(num_distinct * bits_per_value(fpp) / 8)
    return min(max(BLOCK_BYTES, 1 << (wanted - 1).bit_length()), MAX_BYTES)


def build(hashes: npt.NDArray[np.uint64], num_bytes: int, step_hashes: int = STEP_HASHES) -> bytes:
    """Build the bits of a filter.

    Args:
        hashes: The hashes of the values, in any order; sorted hashes are faster.
        num_bytes: Size of the bits, a whole number of blocks; see `optimal_bytes`.
        step_hashes: The number of hashes added at a time.

    Example:
        >>> bits = build(np.array([7], dtype=np.uint64), 64)
        >>> might_contain(bits, np.array([7, 8], dtype=np.uint64))
        array([ True, False])
    """
    if (hashes[1:] < hashes[:-1]).any():
        hashes = np.sort(hashes)
    blocks = np.zeros((num_bytes // BLOCK_BYTES, _WORDS), dtype=np.uint32)
    for start in range(0, len(hashes), step_hashes):
        step = hashes[start : start + step_hashes]
        block_of = block_ordinals(step, len(blocks))
        firsts = np.flatnonzero(np.diff(block_of, prepend=-1))  # sorted hashes of one block are adjacent
        words = np.empty((len(firsts), _WORDS), dtype=np.uint32)
        for word in range(_WORDS):
            bits = _bits_of(step, _SALTS[word : word + 1])
            np.bitwise_or.reduceat(bits, firsts, out=words[:, word])
        blocks[block_of[firsts]] |= words
    return blocks.astype("<u4", copy=False).tobytes()


def serialize_bloom_filter(bits: bytes) -> bytes:
    """Serialize a filter: header and bits."""
    header = BloomFilterHeader(
        len(bits),
        BloomFilterAlgorithm(BLOCK=Empty()),
        BloomFilterHash(XXHASH=Empty()),
        BloomFilterCompression(UNCOMPRESSED=Empty()),
    )
    return thrift.serialize(header) + bits


def estimated_distinct(bits: bytes) -> float:
    """Estimate the number of distinct values in a filter from its set bits; infinite if all are set.

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
