"""A Bloom filter for each granule: which pages may hold a value.

All filters have the same number of blocks, and the payload has the first block of every granule, then the
second of every granule, and so on: the blocks that one value asks for lie side by side, so it takes one
read to find out about all granules.  Payloads are not compared with their checksum when they are probed, so
each row of blocks has one of its own.  The bytes are specified in ``docs/format.md``.
"""

from __future__ import annotations

import math
import struct
from collections.abc import Iterable
from dataclasses import dataclass
from typing import ClassVar, NamedTuple

import numpy as np
import pyarrow as pa
import xxhash

from intarsia.errors import IndexBuildError, IndexPayloadError
from intarsia.format import bloom
from intarsia.indexes.base import ColumnData, Granularity, Layout, PayloadBytes, PayloadSource
from intarsia.indexes.granules import cut_at_edges, granule_rows
from intarsia.indexes.parameters import check_fpp, check_granularity
from intarsia.indexes.value_hash import check_hashable, hash_values, is_lookup, lookup_hashes
from intarsia.predicate.bound import Condition
from intarsia.rows.selection import Rows, RowSelection
from intarsia.storage import ByteRange

#: Filters of more than this together are not built.
MAX_BYTES = 256 << 20

#: A lookup that would read more than this cannot be told.
MAX_PROBE_BYTES = 16 << 20

#: So much is read before the number of granules is known; most edges are then there already.
HEAD_BYTES = 4096

#: Number of granules, number of blocks of each filter, checksum of these and of the edges.
_HEAD = struct.Struct("<IIQ")
_CHECKSUM = struct.Struct("<Q")


@dataclass(frozen=True)
class BloomGranule:
    """A split-block Bloom filter per page, row group or so many rows: ``=`` and ``IN`` on rare values.

    It takes a quarter of what `RowMap` does, and a lookup reads 32 bytes of it for each granule.  All filters
    have the size that the granule with the most distinct values needs.

    Args:
        column: The column, dotted if it is nested; it may not lie in a list or map.
        fpp: About this share of the values that a granule does not hold are taken for held: 0.000001 or
            more, below 1.
        granularity: ``"page"``, ``"row_group"``, ``"file"``, or a number of rows.

    Example:
        >>> import intarsia as ia
        >>> ia.BloomGranule("session_id", fpp=0.001)
        BloomGranule(column='session_id', fpp=0.001, granularity='page')
    """

    kind: ClassVar[str] = "bloom_granule"
    version: ClassVar[int] = 1

    column: str
    fpp: float = 0.01
    granularity: Granularity = "page"

    def __post_init__(self) -> None:
        """Parameters are checked at once."""
        check_fpp(self)
        check_granularity(self)

    @property
    def columns(self) -> tuple[str, ...]:
        """The one column."""
        return (self.column,)

    def can_prune(self, predicate: Condition) -> bool:
        """Only equality, and lists of up to 1,024 values."""
        return is_lookup(predicate)

    def build(self, chunk: ColumnData) -> bytes:
        """The payload for a file; see the module's text."""
        check_hashable(self, self.column, chunk.type_of(self.column))
        edges = chunk.layout.edges(self.granularity, self.column)
        blocks_per_value = bloom.bits_per_value(self.fpp) / 8 / bloom.BLOCK_BYTES
        most_rows = int(np.diff(edges).max(initial=0))
        num_blocks = _foldable(math.ceil(most_rows * blocks_per_value))
        num_bytes = (len(edges) - 1) * num_blocks * bloom.BLOCK_BYTES
        if num_bytes > MAX_BYTES:
            raise IndexBuildError(
                f"BloomGranule: {len(edges) - 1} filters for up to {most_rows:,} values take {num_bytes:,} "
                f"bytes, {MAX_BYTES:,} is the most; name a number of rows as granularity, or a greater fpp"
            )
        filters = _filters(edges, num_blocks, chunk.batches(self.column))
        most_values = min(most_rows, max(map(_num_values, filters), default=0.0))
        return _serialize(edges, _folded(filters, math.ceil(most_values * blocks_per_value)))

    def open(self, payload: bytes, layout: Layout) -> OpenBloomGranule:
        """The filters, from a payload in memory."""
        return self.open_source(PayloadBytes(payload), layout)

    def open_source(self, source: PayloadSource, layout: Layout) -> OpenBloomGranule:
        """The filters; nothing is read until they are asked."""
        return OpenBloomGranule(source, layout.num_rows, f"BloomGranule({self.column!r})")


# --- building ----------------------------------------------------------------------------------------


def _foldable(num_blocks: int) -> int:
    """A number of blocks that can be halved until few are left, at most a thirty-second more."""
    halvings = max(num_blocks.bit_length() - 6, 0)
    return max(-(-num_blocks >> halvings), 1) << halvings


def _filters(edges: Rows, num_blocks: int, batches: Iterable[tuple[int, pa.Array]]) -> bloom.Blocks:
    """A filter for each granule: granules, blocks, words."""
    filters = np.zeros((len(edges) - 1, num_blocks, 8), dtype="<u4")
    for granule, piece in cut_at_edges(edges, batches):
        bits = bloom.build(hash_values(piece)[1], num_blocks * bloom.BLOCK_BYTES)
        filters[granule] |= bloom.blocks_of(bits)
    return filters


def _num_values(blocks: bloom.Blocks) -> float:
    return bloom.estimated_distinct(blocks.tobytes())


def _folded(filters: bloom.Blocks, least: int) -> bloom.Blocks:
    """The same filters in fewer blocks, but not in fewer than ``least``.

    The block of a hash is a share of their number, so two neighbours become one where there are half as many.
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
    """How many granules there are, and how many blocks each filter has."""

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
    """Of the blocks of all granules, and of where they belong."""
    return xxhash.xxh3_64_intdigest(struct.pack("<QQ", head_checksum, block) + row)


# --- looking up --------------------------------------------------------------------------------------


class OpenBloomGranule:
    """Filters in their file.

    Args:
        source: The payload.
        num_rows: Rows in the file.
        name: The index, for messages.
    """

    def __init__(self, source: PayloadSource, num_rows: int, name: str) -> None:
        self._source = source
        self._num_rows = num_rows
        self._name = name
        self._head = b""
        self._edges: Rows | None = None

    def candidate_rows(self, predicate: Condition) -> RowSelection | None:
        """Rows of the granules whose filter does not deny every value that is asked for.

        Raises:
            IndexPayloadError: If what was read for it is damaged.
        """
        hashes = lookup_hashes(predicate)
        if hashes is None:
            return None
        shape, checksum = self._shape()
        block_of = bloom.block_ordinals(hashes, shape.num_blocks)
        wanted = np.unique(block_of).tolist()
        if len(wanted) * shape.row_bytes > MAX_PROBE_BYTES:
            return None
        rows = self._read(shape, checksum, [shape.row(block) for block in wanted])
        hit = np.zeros(shape.num_granules, dtype=bool)
        blocks = {}
        for block, data in zip(wanted, rows, strict=True):
            row = data[: -_CHECKSUM.size]
            if _CHECKSUM.unpack(data[-_CHECKSUM.size :])[0] != _row_checksum(checksum, block, row):
                raise self._damaged()
            blocks[block] = bloom.blocks_of(row)
        for hash64, block in zip(hashes.tolist(), block_of.tolist(), strict=True):
            hit |= bloom.blocks_may_contain(blocks[block], hash64)
        assert self._edges is not None
        return granule_rows(self._edges, hit)

    def _shape(self) -> tuple[_Shape, int]:
        num_bytes = self._source.num_bytes
        if not self._head:
            self._head = self._source.read_ranges([ByteRange(0, min(HEAD_BYTES, num_bytes))])[0]
        if num_bytes < _HEAD.size:
            raise self._damaged()
        num_granules, num_blocks, checksum = _HEAD.unpack_from(self._head)
        shape = _Shape(num_granules, num_blocks)
        if num_blocks < 1 or shape.num_bytes != num_bytes:  # so nothing is allocated that is not there
            raise self._damaged()
        return shape, checksum

    def _read(self, shape: _Shape, checksum: int, places: list[ByteRange]) -> list[bytes]:
        """Some ranges, and in the same go what is missing of the edges."""
        if self._edges is not None:
            return self._source.read_ranges(places)
        missing = ByteRange(min(len(self._head), shape.head_bytes), shape.head_bytes)
        rest, *found = self._source.read_ranges([missing, *places])
        edge_bytes = (self._head + rest)[_HEAD.size : shape.head_bytes]
        if checksum != shape.checksum(edge_bytes):
            raise self._damaged()
        edges = np.frombuffer(edge_bytes, dtype="<i8").astype(np.int64)
        if edges[0] != 0 or edges[-1] != self._num_rows or (np.diff(edges) < 0).any():
            raise IndexPayloadError(f"the payload of {self._name} is about other rows")
        self._edges = edges
        return found

    def _damaged(self) -> IndexPayloadError:
        return IndexPayloadError(f"the payload of {self._name} is damaged")
