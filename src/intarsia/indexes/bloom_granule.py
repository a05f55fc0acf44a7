"""A Bloom filter per granule, which finds the pages that may contain a value.

All filters have the same number of blocks. The payload contains the first block of every granule, then the
second block of every granule, and so on. The blocks for one value are thus contiguous, and one read covers
all granules. A probe does not verify the checksum of the payload, so each row of blocks has its own checksum.
``docs/format.md`` specifies the bytes.
"""

from __future__ import annotations

import math
import struct
from collections.abc import Iterable
from dataclasses import dataclass, field
from typing import ClassVar, NamedTuple

import numpy as np
import pyarrow as pa
import xxhash

from intarsia.errors import IndexBuildError
from intarsia.format import bloom
from intarsia.indexes.base import Index, OpenIndex, PayloadBytes, PayloadSource
from intarsia.indexes.granules import cut_at_edges, damaged_payload, granule_rows, other_rows
from intarsia.indexes.layout import ColumnData, Granularity, Layout, check_fpp, check_granularity
from intarsia.indexes.lookups import check_hashable, hash_values, lookup_hashes
from intarsia.predicate.bound import Condition, is_lookup
from intarsia.rows.selection import Rows, RowSelection
from intarsia.storage import ByteRange

#: The maximum size of a payload.
MAX_BYTES = 256 << 20

#: A lookup that would read more than this is not evaluated.
MAX_PROBE_BYTES = 16 << 20

#: The size of the first read, before the number of granules is known. It covers most or all edges.
HEAD_BYTES = 4096

#: The number of granules, the number of blocks per filter, and the checksum of both and of the edges.
_HEAD = struct.Struct("<IIQ")
_CHECKSUM = struct.Struct("<Q")


@dataclass(frozen=True)
class BloomGranule(Index):
    """A split-block Bloom filter per granule, for ``=`` and ``IN`` on rare values.

    It takes a quarter of the space of `RowMap`, and a lookup reads 32 bytes per granule. All filters have the
    size required by the granule with the most distinct values.

    Args:
        column: The column, dotted if it is nested. It must not be inside a list or a map.
        fpp: The approximate false-positive rate of a filter, from 0.000001 to below 1.
        granularity: ``"page"``, ``"row_group"``, ``"file"``, or a number of rows.

    Example:
        >>> import intarsia as ia
        >>> ia.BloomGranule("session_id", fpp=0.001)
        BloomGranule(column='session_id', fpp=0.001, granularity='page')
    """

    kind: ClassVar[str] = "bloom_granule"
    version: ClassVar[int] = 1
    purpose: ClassVar[str] = "skip granules for = and IN"

    column: str
    fpp: float = 0.01
    granularity: Granularity = "page"

    def __post_init__(self) -> None:
        """Check the parameters."""
        check_fpp(self)
        check_granularity(self)

    def can_prune(self, condition: Condition) -> bool:
        """Return whether the condition is ``=`` or IN with up to 1,024 values."""
        return is_lookup(condition)

    def build(self, chunk: ColumnData) -> bytes:
        """Build one filter for each granule, all of the same size."""
        check_hashable(self, self.column, chunk.type_of(self.column))
        edges = chunk.layout.edges(self.granularity, self.column)
        blocks_per_value = bloom.bits_per_value(self.fpp) / 8 / bloom.BLOCK_BYTES
        max_rows = int(np.diff(edges).max(initial=0))
        num_blocks = foldable_blocks(math.ceil(max_rows * blocks_per_value))
        num_bytes = (len(edges) - 1) * num_blocks * bloom.BLOCK_BYTES
        if num_bytes > MAX_BYTES:
            raise IndexBuildError(
                f"BloomGranule: {len(edges) - 1} filters for up to {max_rows:,} values take {num_bytes:,} "
                f"bytes, and the limit is {MAX_BYTES:,}; use a number of rows as granularity, or a larger "
                "fpp",
                reason="index-too-large",
                column=self.column,
            )
        filters = _filters(edges, num_blocks, chunk.batches(self.column))
        num_values = [bloom.estimated_distinct(blocks.tobytes()) for blocks in filters]
        max_values = min(max_rows, max(num_values, default=0.0))
        return _serialize(edges, fold_filters(filters, math.ceil(max_values * blocks_per_value)))

    def open(self, payload: bytes, layout: Layout) -> OpenBloomGranule:
        """Open a payload in memory."""
        return self.open_source(PayloadBytes(payload), layout)

    def open_source(self, source: PayloadSource, layout: Layout) -> OpenBloomGranule:
        """Open a payload without reading it."""
        return OpenBloomGranule(source, layout.num_rows, f"BloomGranule({self.column!r})")


# --- building ----------------------------------------------------------------------------------------


def foldable_blocks(num_blocks: int) -> int:
    """Round up a number of blocks, by at most 1/32, so that it can be halved several times."""
    halvings = max(num_blocks.bit_length() - 6, 0)
    return max(-(-num_blocks >> halvings), 1) << halvings


def _filters(edges: Rows, num_blocks: int, batches: Iterable[tuple[int, pa.Array]]) -> bloom.Blocks:
    """Build a filter per granule, as an array of granules, blocks and words."""
    filters = np.zeros((len(edges) - 1, num_blocks, 8), dtype="<u4")
    for granule, piece in cut_at_edges(edges, batches):
        bits = bloom.build(hash_values(piece)[1], num_blocks * bloom.BLOCK_BYTES)
        filters[granule] |= bloom.blocks_of(bits)
    return filters


def fold_filters(filters: bloom.Blocks, least: int) -> bloom.Blocks:
    """Fold filters to fewer blocks, but at least ``least``.

    The block of a hash is proportional to the number of blocks, so halving it merges pairs of adjacent
    blocks.
    """
    num_granules, num_blocks, _ = filters.shape
    while num_blocks % 2 == 0 and num_blocks // 2 >= least:
        num_blocks //= 2
        pairs = filters.reshape(num_granules, num_blocks, 2, 8)
        filters = pairs[:, :, 0] | pairs[:, :, 1]
    return filters


def _serialize(edges: Rows, filters: bloom.Blocks) -> bytes:
    num_granules, num_blocks, _ = filters.shape
    shape = _Shape(num_granules, num_blocks)
    edge_bytes = np.asarray(edges, dtype="<i8").tobytes()
    checksum = shape.checksum(edge_bytes)
    pieces = [_HEAD.pack(num_granules, num_blocks, checksum), edge_bytes]
    for block in range(num_blocks):
        row = filters[:, block].tobytes()
        pieces += [row, _CHECKSUM.pack(_row_checksum(checksum, block, row))]
    return b"".join(pieces)


class _Shape(NamedTuple):
    """The number of granules and the number of blocks per filter."""

    num_granules: int
    num_blocks: int

    @property
    def head_bytes(self) -> int:
        return _HEAD.size + 8 * (self.num_granules + 1)

    @property
    def row_bytes(self) -> int:
        return self.num_granules * bloom.BLOCK_BYTES + _CHECKSUM.size

    @property
    def num_bytes(self) -> int:
        return self.head_bytes + self.num_blocks * self.row_bytes

    def row(self, block: int) -> ByteRange:
        start = self.head_bytes + block * self.row_bytes
        return ByteRange(start, start + self.row_bytes)

    def checksum(self, edge_bytes: bytes) -> int:
        return xxhash.xxh3_64_intdigest(struct.pack("<II", *self) + edge_bytes)


def _row_checksum(head_checksum: int, block: int, row: bytes) -> int:
    """Return the checksum of the blocks of all granules and of their position."""
    return xxhash.xxh3_64_intdigest(struct.pack("<QQ", head_checksum, block) + row)


# --- looking up --------------------------------------------------------------------------------------


@dataclass(eq=False)
class OpenBloomGranule(OpenIndex):
    """Filters that are read on demand.

    Args:
        num_rows: The number of rows in the file.
        name: The name of the index, for messages.
        max_probe_bytes: Lookups that would read more bytes are not evaluated.
    """

    source: PayloadSource
    num_rows: int
    name: str
    max_probe_bytes: int = MAX_PROBE_BYTES
    _head: bytes = field(default=b"", init=False)
    _edges: Rows | None = field(default=None, init=False)

    def candidate_rows(self, condition: Condition) -> RowSelection | None:
        """Return the rows of the granules whose filter may contain one of the values.

        Raises:
            IndexPayloadError: If the bytes that were read are damaged.
        """
        hashes = lookup_hashes(condition)
        if hashes is None:
            return None
        shape, checksum = self._shape()
        block_of = bloom.block_ordinals(hashes, shape.num_blocks)
        wanted = np.unique(block_of).tolist()
        if len(wanted) * shape.row_bytes > self.max_probe_bytes:
            return None
        rows = self._read(shape, checksum, [shape.row(block) for block in wanted])
        hit = np.zeros(shape.num_granules, dtype=bool)
        blocks = {}
        for block, data in zip(wanted, rows, strict=True):
            row = data[: -_CHECKSUM.size]
            if _CHECKSUM.unpack(data[-_CHECKSUM.size :])[0] != _row_checksum(checksum, block, row):
                raise damaged_payload(self.name)
            blocks[block] = bloom.blocks_of(row)
        for hash64, block in zip(hashes.tolist(), block_of.tolist(), strict=True):
            hit |= bloom.blocks_may_contain(blocks[block], hash64)
        assert self._edges is not None
        return granule_rows(self._edges, hit)

    def _shape(self) -> tuple[_Shape, int]:
        num_bytes = self.source.num_bytes
        if not self._head:
            self._head = self.source.read_ranges([ByteRange(0, min(HEAD_BYTES, num_bytes))])[0]
        if num_bytes < _HEAD.size:
            raise damaged_payload(self.name)
        num_granules, num_blocks, checksum = _HEAD.unpack_from(self._head)
        shape = _Shape(num_granules, num_blocks)
        if num_blocks < 1 or shape.num_bytes != num_bytes:  # bounds the allocations below
            raise damaged_payload(self.name)
        return shape, checksum

    def _read(self, shape: _Shape, checksum: int, locations: list[ByteRange]) -> list[bytes]:
        """Read ranges, and in the same request the edges that have not been read."""
        if self._edges is not None:
            return self.source.read_ranges(locations)
        missing = ByteRange(min(len(self._head), shape.head_bytes), shape.head_bytes)
        rest, *found = self.source.read_ranges([missing, *locations])
        edge_bytes = (self._head + rest)[_HEAD.size : shape.head_bytes]
        if checksum != shape.checksum(edge_bytes):
            raise damaged_payload(self.name)
        edges = np.frombuffer(edge_bytes, dtype="<i8").astype(np.int64)
        if edges[0] != 0 or edges[-1] != self.num_rows or (np.diff(edges) < 0).any():
            raise other_rows(self.name)
        self._edges = edges
        return found
