"""Bloom filters of column chunks: they answer ``=`` and ``IN``, a row group at a time."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import NamedTuple

import numpy as np
import pyarrow as pa

from intarsia.arrow.hashing import Hashes, xxh64
from intarsia.errors import FormatError
from intarsia.file import ChunkKey, ParquetInput
from intarsia.format.bloom import (
    BLOCK_BYTES,
    HEADER_BYTES,
    FilterPlace,
    block_ordinals,
    blocks_may_contain,
    blocks_of,
)
from intarsia.format.footer import Leaf
from intarsia.format.structs import Type
from intarsia.indexes.value_hash import looked_up
from intarsia.predicate.bound import Condition
from intarsia.rows.ordering import Ordering, ordering_for
from intarsia.rows.selection import RowSelection
from intarsia.storage import ByteRange


class _Probe(NamedTuple):
    """A filter, what it is asked for, and where the answer goes: for a row group, whether it may be there."""

    key: ChunkKey
    place: FilterPlace
    hashes: Hashes
    verdicts: dict[int, bool]


class BloomFilters:
    """The Bloom filters of a file, as an index.

    Call `load` with the row groups that are still of interest; the others cannot be told.
    """

    def __init__(self, file: ParquetInput) -> None:
        self._file = file
        self._verdicts: dict[Condition, dict[int, bool]] = {}
        self._bits: dict[ChunkKey, ByteRange | None] = {}

    def load(
        self, wanted: Mapping[Condition, RowSelection], data_bytes: Callable[[RowSelection], int]
    ) -> None:
        """Probe filters for some predicates, as far as that costs less than it could save.

        Args:
            wanted: For each predicate, the rows where it matters whether it is met.
            data_bytes: About how many bytes a scan of some rows would read.
        """
        probes = self._probes(wanted)
        rows = RowSelection.none()
        for scope in wanted.values():
            rows |= scope
        edges = self._file.footer.row_group_starts
        most_bytes = {
            row_group: data_bytes(rows.clip(int(edges[row_group]), int(edges[row_group + 1])))
            for row_group in {probe.key.row_group for probe in probes}
        }
        probes = [probe for probe in probes if most_bytes[probe.key.row_group] >= HEADER_BYTES + BLOCK_BYTES]
        self._load_headers(probes)
        chosen = []
        for probe in sorted(probes, key=lambda probe: len(probe.hashes)):
            bits = self._bits[probe.key]
            if bits is not None:
                cost = self._cost_bytes(probe, bits)
                if cost <= most_bytes[probe.key.row_group]:
                    most_bytes[probe.key.row_group] -= cost
                    chosen.append((probe, _blocks(probe, bits)))
        found = iter(self._file.source.read_ranges([block for _, blocks in chosen for block in blocks]))
        for probe, blocks in chosen:
            data = b"".join(next(found) for _ in blocks)
            may_contain = blocks_may_contain(blocks_of(data), probe.hashes)
            probe.verdicts[probe.key.row_group] = bool(may_contain.any())

    def _probes(self, wanted: Mapping[Condition, RowSelection]) -> list[_Probe]:
        """The filters that could deny a predicate in rows where that matters."""
        edges = self._file.footer.row_group_starts
        probes = []
        for predicate, scope in wanted.items():
            leaf, hashes = self._hashes(predicate)
            if leaf is not None and len(hashes):
                verdicts = self._verdicts.setdefault(predicate, {})
                touched = np.flatnonzero(scope.overlaps(edges[:-1], edges[1:])).tolist()
                for key in [ChunkKey(row_group, leaf.ordinal) for row_group in touched]:
                    place = self._place(key)
                    if place is not None:
                        probes.append(_Probe(key, place, hashes, verdicts))
        return probes

    def _cost_bytes(self, probe: _Probe, bits: ByteRange) -> int:
        """What it takes to ask a filter, at most: its blocks, and what is read between them."""
        spread = (len(probe.hashes) - 1) * (BLOCK_BYTES + self._file.source.coalesce_bytes)
        return HEADER_BYTES + min(BLOCK_BYTES + spread, bits.length)

    def candidate_rows(self, predicate: Condition) -> RowSelection | None:
        """Rows of the row groups whose filter does not deny every value."""
        verdicts = self._verdicts.get(predicate)
        if not verdicts:
            return None
        edges = self._file.footer.row_group_starts
        hit = np.ones(len(edges) - 1, dtype=bool)
        for row_group, verdict in verdicts.items():
            hit[row_group] = verdict
        return RowSelection.union_of(edges[:-1][hit], edges[1:][hit])

    def _place(self, key: ChunkKey) -> FilterPlace | None:
        """Where a chunk's filter lies; None if there is none, or it cannot lie there."""
        meta = self._file.footer.metadata.row_groups[key.row_group].columns[key.leaf].meta_data
        if meta is None or not meta.bloom_filter_offset:
            return None
        try:
            return FilterPlace.of(meta, self._file.footer.start)
        except FormatError as error:
            self._distrust(key, error)
            return None

    def _distrust(self, key: ChunkKey, error: FormatError) -> None:
        name = f"Bloom filter of {self._file.footer.leaves[key.leaf].name}, row group {key.row_group}"
        self._file.distrust(name, error.message)

    def _load_headers(self, probes: list[_Probe]) -> None:
        places = {probe.key: probe.place for probe in probes if probe.key not in self._bits}
        heads = self._file.source.read_ranges([ByteRange(*place.head) for place in places.values()])
        for (key, place), head in zip(places.items(), heads, strict=True):
            self._bits[key] = None
            try:
                self._bits[key] = ByteRange(*place.bits(head))
            except FormatError as error:
                self._distrust(key, error)

    def _hashes(self, predicate: Condition) -> tuple[Leaf | None, Hashes]:
        """The leaf that a predicate asks about, and for which hashes; none if it is no lookup."""
        leaf = self._file.leaves_by_path.get(predicate.path)
        nothing = np.empty(0, dtype=np.uint64)
        values = looked_up(predicate)
        if leaf is None or not leaf.is_flat or values is None:
            return None, nothing
        ordering = ordering_for(leaf, self._file.leaf_types[leaf.ordinal])
        if ordering is None or not _has_one_encoding(ordering):
            return leaf, nothing
        keys = ordering.keys(values).tolist()
        if ordering.is_float:  # zero is equal to minus zero, and hashed apart
            keys += [-0.0 for key in keys if key == 0]
        with np.errstate(over="ignore"):  # a greater float than there can be here
            stored = [ordering.encode(key) for key in keys]
        return leaf, np.unique(xxh64(pa.array(stored, pa.binary())))


def _blocks(probe: _Probe, bits: ByteRange) -> list[ByteRange]:
    """Where the block of each hash lies."""
    starts = bits.start + BLOCK_BYTES * block_ordinals(probe.hashes, bits.length // BLOCK_BYTES)
    return [ByteRange(start, start + BLOCK_BYTES) for start in starts.tolist()]


def _has_one_encoding(ordering: Ordering) -> bool:
    """Whether equal values have equal bytes: not booleans (no filter), nor decimals of varying length."""
    return ordering.leaf.type != Type.BOOLEAN and not (
        ordering.decimal and ordering.leaf.type == Type.BYTE_ARRAY
    )
