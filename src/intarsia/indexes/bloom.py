"""Bloom filters of column chunks: they answer ``=`` and ``IN``, a row group at a time."""

from __future__ import annotations

from typing import Any

import numpy as np
import xxhash

from intarsia.errors import FormatError
from intarsia.file import ChunkKey, ParquetInput
from intarsia.format.bloom import (
    BLOCK_BYTES,
    HEADER_BYTES,
    block_may_contain,
    block_offset,
    parse_bloom_header,
)
from intarsia.format.footer import Leaf
from intarsia.format.structs import Type
from intarsia.ordering import Ordering, ordering_for
from intarsia.predicate.bound import BoundCompare, BoundIn
from intarsia.predicate.bound import Leaf as BoundLeaf
from intarsia.selection import RowSelection
from intarsia.storage import ByteRange


class BloomFilters:
    """The Bloom filters of a file, as an index.

    Call `load` with the row groups that are still of interest; the others cannot be told.
    """

    def __init__(self, file: ParquetInput) -> None:
        self._file = file
        self._verdicts: dict[BoundLeaf, dict[int, bool]] = {}
        self._bits: dict[ChunkKey, ByteRange | None] = {}

    def load(self, wanted: dict[BoundLeaf, RowSelection]) -> None:
        """Probe the filters for some predicates, in the row groups that each one's scope touches."""
        edges = self._file.footer.row_group_starts
        probes: list[tuple[BoundLeaf, ChunkKey, tuple[int, ...]]] = []
        for predicate, scope in wanted.items():
            leaf, hashes = self._hashes(predicate)
            if leaf is None or not hashes:
                continue
            touched = np.flatnonzero(scope.overlaps(edges[:-1], edges[1:])).tolist()
            keys = [ChunkKey(row_group, leaf.ordinal) for row_group in touched]
            probes += [(predicate, key, hashes) for key in keys if self._range_of_filter(key) is not None]
        self._load_headers([key for _, key, _ in probes])
        reads: list[tuple[BoundLeaf, ChunkKey, int, ByteRange]] = []
        for predicate, key, hashes in probes:
            bits = self._bits.get(key)
            if bits is not None:
                for hash64 in hashes:
                    start = bits.start + block_offset(hash64, bits.length)
                    reads.append((predicate, key, hash64, ByteRange(start, start + BLOCK_BYTES)))
        blocks = self._file.source.read_ranges([place for *_, place in reads])
        for (predicate, key, hash64, _), block in zip(reads, blocks, strict=True):
            verdicts = self._verdicts.setdefault(predicate, {})
            verdicts[key.row_group] = verdicts.get(key.row_group, False) or block_may_contain(block, hash64)

    def candidate_rows(self, predicate: BoundLeaf) -> RowSelection | None:
        """Rows of the row groups whose filter does not deny every value."""
        verdicts = self._verdicts.get(predicate)
        if verdicts is None:
            return None
        edges = self._file.footer.row_group_starts
        hit = np.ones(len(edges) - 1, dtype=bool)
        for row_group, verdict in verdicts.items():
            hit[row_group] = verdict
        return RowSelection.union_of(edges[:-1][hit], edges[1:][hit])

    def _range_of_filter(self, key: ChunkKey) -> ByteRange | None:
        meta = self._file.footer.metadata.row_groups[key.row_group].columns[key.leaf].meta_data
        if meta is None or not meta.bloom_filter_offset:
            return None
        start, stop = meta.bloom_filter_offset, self._file.footer.start
        if meta.bloom_filter_length:
            stop = min(stop, start + meta.bloom_filter_length)
        if 0 < start < stop:
            return ByteRange(start, stop)
        self._file.distrust(self._name(key), f"bytes {start} to {stop} lie outside the file's body")
        return None

    def _name(self, key: ChunkKey) -> str:
        return f"Bloom filter of {self._file.footer.leaves[key.leaf].name}, row group {key.row_group}"

    def _load_headers(self, keys: list[ChunkKey]) -> None:
        missing = [key for key in dict.fromkeys(keys) if key not in self._bits]
        places = [place for key in missing if (place := self._range_of_filter(key)) is not None]
        heads = self._file.source.read_ranges(
            [ByteRange(p.start, min(p.stop, p.start + HEADER_BYTES)) for p in places]
        )
        for key, place, head in zip(missing, places, heads, strict=True):
            self._bits[key] = None
            try:
                header_bytes, num_bytes = parse_bloom_header(head)
                start = place.start + header_bytes
                if start + num_bytes > place.stop:
                    raise FormatError(f"{num_bytes} bytes of bits end after byte {place.stop}")
                self._bits[key] = ByteRange(start, start + num_bytes)
            except FormatError as error:
                self._file.distrust(self._name(key), error.message)

    def _hashes(self, predicate: BoundLeaf) -> tuple[Leaf | None, tuple[int, ...]]:
        leaf = self._file.leaves_by_path.get(predicate.path)
        if leaf is None or not leaf.is_flat:
            return None, ()
        values: tuple[Any, ...] = ()
        if isinstance(predicate, BoundCompare) and predicate.op == "=" and not predicate.or_nan:
            values = (predicate.value,)
        elif isinstance(predicate, BoundIn) and not predicate.negated:
            values = predicate.values
        ordering = ordering_for(leaf, self._file.leaf_types[leaf.ordinal])
        if ordering is None or not values or not _has_one_encoding(ordering):
            return leaf, ()
        keys = [ordering.key(value) for value in values]
        if ordering.is_float:  # zero is equal to minus zero, and hashed apart
            keys += [-0.0 for key in keys if key == 0]
        return leaf, tuple(xxhash.xxh64_intdigest(ordering.encode(key)) for key in keys)


def _has_one_encoding(ordering: Ordering) -> bool:
    """Whether equal values have equal bytes: not booleans (no filter), nor decimals of varying length."""
    return ordering.leaf.type != Type.BOOLEAN and not (
        ordering.decimal and ordering.leaf.type == Type.BYTE_ARRAY
    )
