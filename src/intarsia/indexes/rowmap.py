"""A map from values to rows, probed with two small reads for a file of any size.

The payload is a table of buckets and the entries of each bucket, as specified in ``docs/format.md``. The
upper bits of a value's hash select the bucket. An entry has further bits of the hash above the row's ordinal.
Bit widths follow from the number of rows in the footer, so the payload needs no header. A probe does not
verify the checksum of the payload, so each bucket has its own checksum in the table, next to its start.
"""

from __future__ import annotations

import io
import struct
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from functools import partial
from typing import ClassVar, NamedTuple

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import xxhash

from intarsia.arrow.hashing import Hashes, xxh64
from intarsia.errors import CorruptFileError, IndexBuildError, IndexPayloadError
from intarsia.indexes.base import GatheredPart, GatheredParts, Index, OpenIndex, PayloadBytes, PayloadSource
from intarsia.indexes.filter_matrix import (
    FilterMatrix,
    GatheredFilters,
    filter_of,
    gather_filters,
    one_of,
)
from intarsia.indexes.granules import damaged_payload, other_rows
from intarsia.indexes.layout import ColumnData, Layout
from intarsia.indexes.lookups import check_hashable, hash_values, lookup_hashes, lookup_values
from intarsia.predicate.bound import Condition, is_lookup
from intarsia.rows.bounds import Bools
from intarsia.rows.selection import RowSelection
from intarsia.storage import ByteRange

#: Larger buckets are dropped, because a RowMap is for rare values.
MAX_BUCKET_ENTRIES = 8192

_MAX_ROWS = 1 << 32

#: The start of a bucket's entries, and their checksum. After the last bucket, the end of the entries.
_SLOT = struct.Struct("<QQ")
_END = struct.Struct("<Q")

#: The minimum number of hash bits in an entry. One lookup in 256 finds a false positive.
_CHECK_BITS = 16

#: The number of bits of a value's hash.
_HASH_BITS = 64

_BLOCK_ENTRIES = 1 << 16


@dataclass(frozen=True)
class RowMap(Index):
    """A map from values to rows, for point lookups (``=``, ``IN``) in unsorted columns.

    It takes 5 to 6 bytes per row, and a lookup reads about 1.5 kB of it. It suits columns whose values rarely
    repeat. It cannot look up a value that occurs in more than 8,192 rows.

    Args:
        column: The column, dotted if it is nested. It must not be inside a list or a map.

    Example:
        >>> import intarsia as ia
        >>> ia.RowMap("order_id")
        RowMap(column='order_id')
    """

    kind: ClassVar[str] = "row_map"
    version: ClassVar[int] = 1
    purpose: ClassVar[str] = "find rows for = and IN"

    column: str

    def can_prune(self, condition: Condition) -> bool:
        """Return whether the condition is ``=`` or IN with up to 1,024 values."""
        return is_lookup(condition)

    def build(self, chunk: ColumnData) -> bytes:
        """Sort the hashes of the values, each with the ordinal of its row, into buckets.

        This takes 8 bytes of memory per row.
        """
        check_hashable(self, self.column, chunk.type_of(self.column))
        num_rows = chunk.layout.num_rows
        if num_rows > _MAX_ROWS:
            raise IndexBuildError(
                f"RowMap: the file has {num_rows:,} rows, and the limit is {_MAX_ROWS:,}; split it, or use "
                "BloomGranule",
                reason="too-many-rows",
                column=self.column,
            )
        widths = Widths.of(num_rows)
        sink = io.BytesIO(bytes(widths.table_bytes + 8 * num_rows))
        sink.truncate(_write(sink.getbuffer(), widths, chunk.batches(self.column)))
        return sink.getvalue()

    def open(self, payload: bytes, layout: Layout) -> OpenRowMap:
        """Open a payload in memory."""
        return self.open_source(PayloadBytes(payload), layout)

    def open_source(self, source: PayloadSource, layout: Layout) -> OpenRowMap:
        """Open a payload without reading it."""
        return OpenRowMap.of(source, Widths.of(layout.num_rows), f"RowMap({self.column!r})")

    def digest(self, payload: bytes, layout: Layout) -> bytes | None:
        """Reduce the map to the number of hash bits in its entries, and a Bloom filter of these bits.

        None if the map lacks frequent values, or the filter would be too large.
        """
        opened = self.open(payload, layout)
        prefixes = opened.hash_prefixes()
        bits = None if prefixes is None else filter_of(pa.array(prefixes))
        return None if bits is None else bytes([opened.widths.hash_bits]) + bits

    def gather(self, digests: Sequence[bytes]) -> list[GatheredPart]:
        """Arrange the filters in matrices, one for each number of hash bits and size."""
        of_width: dict[int, list[tuple[int, bytes]]] = {}
        for file, digest in enumerate(digests):
            of_width.setdefault(digest[0], []).append((file, digest[1:]))
        return [
            part._replace(name=f"{hash_bits}/{part.name}")
            for hash_bits, filters in of_width.items()
            for part in gather_filters(filters)
        ]

    def open_gathered(self, parts: GatheredParts, num_files: int) -> OpenIndex:
        """Open the matrices."""
        widths = sorted({name.partition("/")[0] for name in parts.names()})
        if not all(bits.isdecimal() and 1 <= int(bits) <= _HASH_BITS for bits in widths):
            raise CorruptFileError(f"gathered filters of {widths} bits of hashes", reason="damaged-payload")
        return _GatheredRowMaps(
            num_files,
            [
                GatheredFilters(FilterMatrix(parts, num_files, f"{bits}/"), partial(_required, int(bits)))
                for bits in widths
            ],
        )


@dataclass(frozen=True)
class _GatheredRowMaps(OpenIndex):
    """The filters of each number of hash bits. A file has one filter."""

    num_files: int
    filters: Sequence[GatheredFilters]

    def candidate_files(self, condition: Condition) -> Bools | None:
        kept = np.ones(self.num_files, dtype=bool)
        for filters in self.filters:
            found = filters.candidate_files(condition)  # with all files that have none of these filters
            if found is None:
                return None
            kept &= found
        return kept

    def cost_bytes(self, condition: Condition) -> int:
        return sum(filters.cost_bytes(condition) for filters in self.filters)


def _required(hash_bits: int, condition: Condition) -> list[Hashes] | None:
    hashes = lookup_hashes(condition)
    if hashes is None:
        return None
    prefixes = np.unique(hashes >> np.uint64(_HASH_BITS - hash_bits))
    return one_of(xxh64(pa.array(prefixes)))  # hashed again, because a Bloom filter needs 64 bits


class Widths(NamedTuple):
    """The widths of all fields in bits and bytes, which follow from the number of rows."""

    num_rows: int
    row_bits: int
    hash_bits: int
    bucket_bits: int
    entry_bytes: int

    @classmethod
    def of(cls, num_rows: int) -> Widths:
        """Return the widths for a number of rows."""
        row_bits = max(num_rows - 1, 1).bit_length()
        bucket_bits = max(row_bits - 8, 0)  # 128 to 256 rows per bucket
        entry_bytes = -(-(row_bits + _CHECK_BITS) // 8)
        # a key fits in 64 bits, and further hash bits fill the last byte of an entry
        hash_bits = min(bucket_bits + 8 * entry_bytes, _HASH_BITS) - row_bits
        return cls(num_rows, row_bits, hash_bits, bucket_bits, entry_bytes)

    @property
    def entry_bits(self) -> int:
        """The number of bits in an entry: hash bits above row bits."""
        return self.hash_bits - self.bucket_bits + self.row_bits

    @property
    def num_buckets(self) -> int:
        """The number of buckets."""
        return 1 << self.bucket_bits

    @property
    def table_bytes(self) -> int:
        """The size of the table of buckets, in bytes."""
        return self.num_buckets * _SLOT.size + _END.size

    def keys(self, hashes: Hashes, rows: npt.NDArray[np.int64] | int) -> Hashes:
        """Return keys: the hash bits of the bucket, then those of the entry, then the row ordinal."""
        upper = hashes >> np.uint64(64 - self.hash_bits) << np.uint64(self.row_bits)
        return np.asarray(upper | np.asarray(rows).astype(np.uint64))

    def checksum(self, bucket: int, entries: bytes, *, is_kept: bool = True) -> int:
        """Return the checksum of a bucket's bytes, its number and the number of rows."""
        return xxhash.xxh3_64_intdigest(struct.pack("<QQQ", self.num_rows, bucket, is_kept) + entries)


# --- building ----------------------------------------------------------------------------------------


def _write(memory: memoryview, widths: Widths, batches: Iterable[tuple[int, pa.Array]]) -> int:
    """Collect, sort and pack keys in place, and return the length of the payload in bytes."""
    keys = np.frombuffer(memory, dtype="<u8", offset=widths.table_bytes)
    num_keys = 0
    for first_row, values in batches:
        ordinals, hashes = hash_values(values)
        keys[num_keys : num_keys + len(hashes)] = widths.keys(hashes, ordinals + first_row)
        num_keys += len(hashes)
    return _pack(memory, keys[:num_keys], widths)


def _pack(memory: memoryview, keys: Hashes, widths: Widths) -> int:
    """Sort the keys, overwrite them with table and entries, and return the total length in bytes."""
    keys.sort()
    firsts = np.arange(widths.num_buckets, dtype=np.uint64) << np.uint64(widths.entry_bits)
    edges = np.append(np.searchsorted(keys, firsts), len(keys))
    is_kept = np.diff(edges) <= MAX_BUCKET_ENTRIES
    num_entries = _drop(keys, edges, is_kept)
    starts = np.concatenate([[0], np.cumsum(np.diff(edges) * is_kept)])
    width, base = widths.entry_bytes, widths.table_bytes
    mask = np.uint64((1 << widths.entry_bits) - 1)
    packed = np.frombuffer(memory, dtype=np.uint8, offset=base)
    for first in range(0, num_entries, _BLOCK_ENTRIES):
        block = (
            keys[first : min(first + _BLOCK_ENTRIES, num_entries)] & mask
        )  # a copy, because the keys are overwritten
        target = packed[first * width : (first + len(block)) * width]
        target[:] = block.view(np.uint8).reshape(-1, 8)[:, :width].reshape(-1)
    for bucket, (start, stop) in enumerate(zip(starts[:-1].tolist(), starts[1:].tolist(), strict=True)):
        entries = bytes(memory[base + start * width : base + stop * width])
        checksum = widths.checksum(bucket, entries, is_kept=bool(is_kept[bucket]))
        _SLOT.pack_into(memory, bucket * _SLOT.size, start, checksum)
    _END.pack_into(memory, widths.num_buckets * _SLOT.size, num_entries)
    return base + num_entries * width


def _drop(keys: Hashes, edges: npt.NDArray[np.int64], is_kept: npt.NDArray[np.bool_]) -> int:
    """Move the keys of kept buckets together, and return their number."""
    first, num_kept = 0, 0
    for bucket in [*np.flatnonzero(~is_kept).tolist(), len(is_kept)]:
        stop = int(edges[bucket])
        keys[num_kept : num_kept + stop - first] = keys[first:stop]
        num_kept += stop - first
        first = int(edges[min(bucket + 1, len(is_kept))])
    return num_kept


# --- looking up --------------------------------------------------------------------------------------


@dataclass(frozen=True)
class OpenRowMap(OpenIndex):
    """A row map that is read on demand."""

    source: PayloadSource
    widths: Widths
    num_entries: int
    name: str

    @classmethod
    def of(cls, source: PayloadSource, widths: Widths, name: str) -> OpenRowMap:
        """Check the length of a payload and open it.

        Raises:
            IndexPayloadError: If the length is not possible for this number of rows.
        """
        num_entries, rest = divmod(source.num_bytes - widths.table_bytes, widths.entry_bytes)
        if rest or not 0 <= num_entries <= widths.num_rows:
            raise IndexPayloadError(
                f"the payload of {name} is truncated, or describes other rows", reason="other-rows"
            )
        return cls(source, widths, num_entries, name)

    def candidate_rows(self, condition: Condition) -> RowSelection | None:
        """Return the rows whose value has the hash of one of the queried values.

        Raises:
            IndexPayloadError: If the bytes that were read are damaged.
        """
        hashes = lookup_hashes(condition)
        if hashes is None:
            return None
        widths = self.widths
        keys = widths.keys(hashes, 0)
        bucket_of = (keys >> np.uint64(widths.entry_bits)).tolist()
        found = self._buckets(sorted(set(bucket_of)))
        mask, step = (np.uint64((1 << bits) - 1) for bits in (widths.entry_bits, widths.row_bits))
        rows = [np.empty(0, dtype=np.uint64)]
        for key, bucket in zip(keys & mask, bucket_of, strict=True):
            entries = found[bucket]
            if entries is None:
                return None
            start, stop = np.searchsorted(entries, key), np.searchsorted(entries, key + step, side="right")
            rows.append(entries[start:stop] & step)
        ordinals = np.unique(np.concatenate(rows)).astype(np.int64)
        if len(ordinals) and ordinals[-1] >= widths.num_rows:
            raise other_rows(self.name)
        return RowSelection.from_rows(ordinals)

    def is_certain_within(self, condition: Condition, low: int, high: int) -> bool:
        """Return whether no other integer from ``low`` to ``high`` has the hash bits of a queried value."""
        values, hashes = lookup_values(condition), lookup_hashes(condition)
        if values is None or hashes is None or not pa.types.is_integer(values.type):
            return False
        data_type = pa.int64() if pa.types.is_signed_integer(values.type) else pa.uint64()
        numbers = np.arange(low, high + 1, dtype=data_type.to_pandas_dtype())
        keys = self.widths.keys(hash_values(pa.array(numbers))[1], 0)
        alike = numbers[np.isin(keys, self.widths.keys(hashes, 0))]
        return bool(np.isin(alike, values.cast(data_type).to_numpy(zero_copy_only=False)).all())

    def hash_prefixes(self) -> Hashes | None:
        """Return the first `Widths.hash_bits` bits of the hashes of all values, or None if some were dropped.

        Raises:
            IndexPayloadError: If the payload is damaged.
        """
        widths = self.widths
        prefixes = [np.empty(0, dtype=np.uint64)]
        for bucket, entries in self._buckets(list(range(widths.num_buckets))).items():
            if entries is None:
                return None
            prefixes.append(
                np.uint64(bucket) << np.uint64(widths.hash_bits - widths.bucket_bits)
                | entries >> np.uint64(widths.row_bits)
            )
        return np.unique(np.concatenate(prefixes))

    def _buckets(self, wanted: list[int]) -> dict[int, Hashes | None]:
        """Read the entries of buckets, ascending, or None for a bucket that was dropped."""
        slot_bytes = _SLOT.size + _END.size
        slots = self.source.read_ranges(
            [ByteRange(bucket * _SLOT.size, bucket * _SLOT.size + slot_bytes) for bucket in wanted]
        )
        locations, checksums = [], []
        for slot in slots:
            start, checksum = _SLOT.unpack_from(slot)
            (stop,) = _END.unpack_from(slot, _SLOT.size)
            if not start <= stop <= min(start + MAX_BUCKET_ENTRIES, self.num_entries):
                raise damaged_payload(self.name)
            base, width = self.widths.table_bytes, self.widths.entry_bytes
            locations.append(ByteRange(base + start * width, base + stop * width))
            checksums.append(checksum)
        parts = self.source.read_ranges(locations)
        return {
            bucket: self._entries(bucket, data, checksum)
            for bucket, data, checksum in zip(wanted, parts, checksums, strict=True)
        }

    def _entries(self, bucket: int, data: bytes, checksum: int) -> Hashes | None:
        if checksum != self.widths.checksum(bucket, data):
            if not data and checksum == self.widths.checksum(bucket, data, is_kept=False):
                return None
            raise damaged_payload(self.name)
        width = self.widths.entry_bytes
        entries = np.zeros((len(data) // width, 8), dtype=np.uint8)
        entries[:, :width] = np.frombuffer(data, dtype=np.uint8).reshape(-1, width)
        return entries.view("<u8").reshape(-1)
