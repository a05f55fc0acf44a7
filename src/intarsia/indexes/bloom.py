"""Bloom filters of column chunks, which evaluate ``=`` and ``IN`` per row group."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from functools import lru_cache
from operator import attrgetter
from typing import NamedTuple

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from intarsia.arrow.hashing import Hashes, xxh64
from intarsia.errors import FormatError
from intarsia.file import ChunkKey, ParquetInput
from intarsia.file.writers import Claim
from intarsia.format.bloom import (
    BLOCK_BYTES,
    HEADER_BYTES,
    FilterLocation,
    block_ordinals,
    blocks_may_contain,
    blocks_of,
    expected_fpp,
)
from intarsia.format.footer import Leaf
from intarsia.indexes.base import GatheredParts
from intarsia.indexes.filter_matrix import FilterMatrix, GatheredFilters, one_of
from intarsia.indexes.lookups import REMEMBERED_LOOKUPS, stored_values
from intarsia.indexes.proof import (
    ProofCost,
    Savings,
    Verdict,
    Wanted,
    judge_groups,
    split_batches,
)
from intarsia.indexes.statistics import column_statistics
from intarsia.predicate.bound import Condition, is_lookup
from intarsia.rows.bounds import Bools, chances_of_absence
from intarsia.storage import ByteRange
from intarsia.tuning import LOCAL_REQUEST_BYTES

#: The false-positive rate for which filters are usually sized. The number of distinct values is unknown, so a
#: filter for values that repeat looks too small for its chunk.
USUAL_FPP = 0.01


class _Probe(NamedTuple):
    """A filter to probe.

    Attributes:
        chance: The probability that the filter excludes its row group.
    """

    condition: Condition
    key: ChunkKey
    location: FilterLocation
    hashes: Hashes
    chance: float


class BloomFilters:
    """The Bloom filters of a file as a proof. Row groups not probed yet are undecided."""

    name = "bloom_filter"
    is_lookup = True
    counts_pages = False

    def __init__(self, file: ParquetInput) -> None:
        self._file = file
        self._verdicts: dict[Condition, dict[int, tuple[bool, bool]]] = {}
        # a header is read once
        self._bits: dict[ChunkKey, ByteRange | None] = file.metadata.derived("locations of filters", dict)
        self._known_hashes: dict[Condition, Hashes] = {}
        self._known_ordinals: dict[tuple[Condition, int], npt.NDArray[np.int64]] = {}

    def reach(self, condition: Condition) -> Bools | None:
        """Return the row groups in which the condition's column has a filter, if it is a lookup."""
        leaf = self._file.schema.leaves_of_values.get(condition.path)
        if leaf is None or not is_lookup(condition):
            return None
        reach = filter_exists(self._file, leaf)
        return reach if reach.any() and len(self._hashes(condition)) else None

    def cost(self, wanted: Wanted) -> ProofCost:
        """Return the cost of the header of each filter, and of a block per value."""
        num_bytes = requests = 0
        for condition, row_groups in wanted.items():
            num_groups = int(row_groups.sum())
            num_bytes += num_groups * (HEADER_BYTES + BLOCK_BYTES * len(self._hashes(condition)))
            requests += 2 * num_groups
        return ProofCost(num_bytes, requests, part_bytes=HEADER_BYTES + BLOCK_BYTES)

    def evaluate(self, wanted: Wanted, savings: Savings) -> Iterator[Verdict]:
        """Probe the filters that cost less than they can be expected to save, and evaluate conditions."""
        probes = self._probes(wanted)
        max_bytes = savings.num_bytes().tolist()
        unknown = [probe for probe in probes if self._likely_bits(probe) is None]
        self._read([probe for probe in unknown if self._pays(probe, max_bytes)])  # only the headers
        chosen = []
        for probe in sorted(probes, key=lambda probe: len(probe.hashes)):
            if self._likely_bits(probe) is not None and self._pays(probe, max_bytes):
                max_bytes[probe.key.row_group] -= self._cost_bytes(probe)
                chosen.append(probe)
        for batch in list(split_batches(chosen, self._cost_bytes)):
            self._read(self._read(batch))  # the headers of the wrong blocks are known now
        return judge_groups(self._file, self._verdicts, wanted)

    def _probes(self, wanted: Wanted) -> list[_Probe]:
        """Return the filters that could exclude a condition in the row groups where that matters."""
        probes = []
        for condition, row_groups in wanted.items():
            leaf, hashes = self._file.schema.leaves_of_values[condition.path], self._hashes(condition)
            ordinals = np.flatnonzero(row_groups).tolist()
            metas = [self._file.footer.chunk_metadata(row_group, leaf) for row_group in ordinals]
            num_values = np.zeros(len(row_groups), dtype=np.int64)
            num_values[ordinals] = [meta.num_values for meta in metas]
            chances = chances_of_absence(condition, column_statistics(self._file, condition.path), num_values)
            for row_group, meta in zip(ordinals, metas, strict=True):
                key = ChunkKey(row_group, leaf.ordinal)
                try:
                    stop = self._file.body_stop_after(meta.bloom_filter_offset or 0)
                    location = FilterLocation.of(meta, stop)
                except FormatError as error:
                    self._file.distrust_chunk("Bloom filter", key, error)
                    continue
                num_blocks = (location.stop - location.start) // BLOCK_BYTES
                fpp = min(USUAL_FPP, expected_fpp(num_blocks, int(num_values[row_group])))
                # a long list is rarely excluded: one present value, or one false positive, is enough
                chance = float((1 - fpp) ** len(hashes)) * (1.0 if chances is None else chances[row_group])
                probes.append(_Probe(condition, key, location, hashes, chance))
        return probes

    def _pays(self, probe: _Probe, max_bytes: Sequence[int]) -> bool:
        """Return whether a filter costs less than it can be expected to save."""
        return self._cost_bytes(probe) <= max_bytes[probe.key.row_group] * probe.chance

    def _cost_bytes(self, probe: _Probe) -> int:
        """Return the maximum cost of probing a filter in bytes: its blocks and the coalesced gaps.

        The result is less if neither the footer nor a header has the length of the filter.
        """
        bits, location = self._likely_bits(probe), probe.location
        if bits is None:
            is_recorded = location.recorded_bytes is not None
            num_bytes = location.stop - location.start - HEADER_BYTES if is_recorded else BLOCK_BYTES
        else:
            num_bytes = bits.length
        spread = (len(probe.hashes) - 1) * (BLOCK_BYTES + self._file.source.coalesce_bytes)
        return HEADER_BYTES + min(BLOCK_BYTES + spread, num_bytes)

    # --- reading filters ---------------------------------------------------------------------------

    def _likely_bits(self, probe: _Probe) -> ByteRange | None:
        """Return the location of the bits; if the header is not known, the probable one, or None."""
        if probe.key in self._bits:
            return self._bits[probe.key]
        likely = probe.location.likely_bits
        return None if likely is None else ByteRange(*likely)

    def _read(self, probes: Sequence[_Probe]) -> list[_Probe]:
        """Probe filters with one read: those whose header is not known with their header.

        A header determines the location of the blocks. A second round trip to an object store takes longer
        than reading a megabyte, so the blocks are read at their probable location, together with the header,
        which is then checked. If there is no probable location, only the header is read.

        Returns:
            The probes that have read the wrong blocks.
        """
        locations = [(probe, bits) for probe in probes if (bits := self._likely_bits(probe)) is not None]
        parts = [self._ranges(probe, bits) for probe, bits in locations]
        heads = {probe.key: probe.location for probe in probes if probe.key not in self._bits}
        ranges = [[ByteRange(*location.head) for location in heads.values()], *parts]
        found = iter(self._file.source.read_ranges([one for of in ranges for one in of]))
        for key, location in heads.items():
            self._keep_header(key, location, next(found))
        elsewhere, probed, blocks = [], [], []
        for (probe, bits), of_probe in zip(locations, parts, strict=True):
            data = b"".join([next(found) for _ in of_probe])
            if bits != self._bits[probe.key]:
                elsewhere.append(probe)
                continue
            if of_probe == [bits]:
                data = blocks_of(data)[self._ordinals(probe, bits)].tobytes()
            probed.append(probe)
            blocks.append(data)
        if probed:  # one block for each hash of each probe
            hashes = [probe.hashes for probe in probed]
            might = blocks_may_contain(blocks_of(b"".join(blocks)), np.concatenate(hashes))
            firsts = np.cumsum([0, *map(len, hashes[:-1])])
            for probe, may_match in zip(probed, np.logical_or.reduceat(might, firsts).tolist(), strict=True):
                self._verdicts.setdefault(probe.condition, {})[probe.key.row_group] = may_match, False
        return elsewhere

    def _ordinals(self, probe: _Probe, bits: ByteRange) -> npt.NDArray[np.int64]:
        """Return the ordinal of the block of each hash; filters of many files have the same size."""
        key = probe.condition, bits.length // BLOCK_BYTES
        if key not in self._known_ordinals:
            self._known_ordinals[key] = block_ordinals(probe.hashes, key[1])
        return self._known_ordinals[key]

    def _ranges(self, probe: _Probe, bits: ByteRange) -> list[ByteRange]:
        """Return the location of the block of each hash, or of all blocks if one request costs less."""
        gap_bytes = max(self._file.source.coalesce_bytes, LOCAL_REQUEST_BYTES)
        if bits.length <= BLOCK_BYTES + (len(probe.hashes) - 1) * (BLOCK_BYTES + gap_bytes):
            return [bits]
        starts = [bits.start + BLOCK_BYTES * ordinal for ordinal in self._ordinals(probe, bits).tolist()]
        return [ByteRange(start, start + BLOCK_BYTES) for start in starts]

    def _keep_header(self, key: ChunkKey, location: FilterLocation, head: bytes) -> None:
        self._bits[key] = None
        try:
            self._bits[key] = ByteRange(*location.bits(head))
        except FormatError as error:
            self._file.distrust_chunk("Bloom filter", key, error)

    def _hashes(self, condition: Condition) -> Hashes:
        """Return the hashes of a lookup, or none if equal values may have several encodings."""
        if condition not in self._known_hashes:
            leaf = self._file.schema.leaves_of_values[condition.path]
            hashes = stored_hashes(leaf, self._file.schema.value_types[leaf.ordinal], condition)
            self._known_hashes[condition] = np.empty(0, dtype=np.uint64) if hashes is None else hashes
        return self._known_hashes[condition]


@lru_cache(maxsize=REMEMBERED_LOOKUPS)
def stored_hashes(leaf: Leaf, arrow_type: pa.DataType, condition: Condition) -> Hashes | None:
    """Return the hashes of a lookup in the Bloom filter of a column; see `stored_values`."""
    stored = stored_values(leaf, arrow_type, condition)
    if stored is None:
        return None
    hashes = np.unique(xxh64(pa.array(stored, pa.binary())))
    hashes.setflags(write=False)  # it is shared by all files of a table
    return hashes


def gathered_filters(
    leaf: Leaf, arrow_type: pa.DataType, parts: GatheredParts, num_files: int
) -> GatheredFilters:
    """Open the Bloom filters of one column in many files, which have the same schema.

    Args:
        arrow_type: The Arrow type of its values.
        parts: The result of `intarsia.indexes.filter_matrix.gather_filters`.
    """

    def required(condition: Condition) -> list[Hashes] | None:
        hashes = stored_hashes(leaf, arrow_type, condition)
        return one_of(hashes) if hashes is not None and len(hashes) else None

    return GatheredFilters(FilterMatrix(parts, num_files), required)


def filter_exists(file: ParquetInput, leaf: Leaf) -> Bools:
    """Return whether the footer has the offset of a trusted Bloom filter, for each chunk of a leaf."""

    def find() -> Bools:
        metas = list(map(attrgetter("meta_data"), file.metadata.chunks_of(leaf)))
        exists = np.array([meta is not None and bool(meta.bloom_filter_offset) for meta in metas], dtype=bool)
        if file.trust(leaf).doubt(Claim.BLOOM_FILTER) is not None:  # that of some chunks, perhaps
            for row_group in np.flatnonzero(exists).tolist():
                trust = file.metadata.part_of(row_group)[0].trust(leaf)
                exists[row_group] = trust.doubt_of_bloom_filter(metas[row_group]) is None
        return exists

    return file.metadata.derived(("Bloom filters", leaf.ordinal), find)
