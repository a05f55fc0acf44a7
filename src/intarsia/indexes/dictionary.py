"""Dictionary pages. If all pages of a chunk are dictionary-encoded, the dictionary has every value.

The dictionary is then a superset of the distinct values of a row group. Unused values only make pruning less
effective, never wrong. Dictionaries do not contain nulls, so ``IS NULL`` is evaluated on statistics, and all
rows of a row group match only if its null count is known to be 0.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Callable, Iterator, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from itertools import chain
from typing import NamedTuple

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from intarsia.errors import FormatError, PredicateError
from intarsia.file import ChunkKey, ParquetInput
from intarsia.file.chunks import dictionary_range
from intarsia.format.footer import Leaf
from intarsia.format.pages import Page
from intarsia.indexes.batches import MAX_BATCH_BYTES, split_batches
from intarsia.indexes.bloom import filter_exists
from intarsia.indexes.calling import evaluate_conditions
from intarsia.indexes.dictionary_page import (
    dictionary_values,
    has_readable_dictionary,
    parse_dictionary_page,
    value_bytes,
)
from intarsia.indexes.proof import ProofCost, Savings, Verdict, Wanted
from intarsia.indexes.statistics import RowGroupStatistics
from intarsia.indexes.stored_values import SoughtBytes, lacks_bytes, searches_whole_values, sought_bytes
from intarsia.indexes.value_hash import is_lookup, num_lookup_values
from intarsia.predicate.bound import BoundCompare, BoundNull, Condition
from intarsia.predicate.evaluate import condition_mask
from intarsia.rows.bounds import Bools
from intarsia.rows.selection import RowSelection
from intarsia.storage import ByteRange

#: Larger dictionary pages, in decompressed bytes, are not read.
MAX_DICTIONARY_BYTES = 1 << 26

#: Number of dictionary pages that are decoded concurrently.
_PAGES_AT_ONCE = 2

#: The maximum number of dictionary pages that a thread decodes at a time.
_PAGES_PER_TASK = 32

#: Reading and decoding a page of a local file costs at least as much as reading this many bytes of data.
PAGE_COST_BYTES = 1 << 14

#: A scan of a row group in which no row matches reads only the predicate's columns. Decoding and comparing
#: them takes as long as reading this many more bytes of a local file, plus some for each row, to a maximum.
SCAN_COST_BYTES = 1 << 14
ROW_COST_BYTES = 16
MAX_SCAN_COST_BYTES = 1 << 17

#: A dictionary page may contain the value, so a page that has to be decoded must be this many times smaller
#: than the possible savings.
MIN_GAIN = 4

#: Searching the bytes of a page takes this many times as long as a scan of as many bytes. Most of the time is
#: spent in decompressing a page, which a scan does again if the page contains the value.
SEARCH_COST = 4 / 3

#: If the first pages all contain the bytes that are searched for, no other pages are searched.
_TRIAL_PAGES = 16

#: If a smaller share of a row group's rows is left, another index has excluded the others. The rest probably
#: contains the value, so the dictionary page must be smaller again by `MIN_GAIN`.
MIN_SHARE = 1 / 4

#: The least probability that a dictionary excludes its row group, in computations of cost.
_MIN_CHANCE = 1e-6


class DictionaryLimits(NamedTuple):
    """Which dictionary pages are read, and how many are kept in memory.

    Attributes:
        page_bytes: Larger dictionary pages are not used.
        memory_bytes: Maximum size of the pages that are in memory at a time, and of those that are kept for a
            scan.
        page_cost_bytes: The minimum cost of a page, in bytes.
        scan_cost_bytes: The maximum cost of a scan of a row group in which no row matches, in bytes, in
            addition to the bytes that it reads.
    """

    page_bytes: int = MAX_DICTIONARY_BYTES
    memory_bytes: int = MAX_BATCH_BYTES
    page_cost_bytes: int = PAGE_COST_BYTES
    scan_cost_bytes: int = MAX_SCAN_COST_BYTES


_LIMITS = DictionaryLimits()


class _DictionaryProbe(NamedTuple):
    """A condition on one column chunk, and the chunk's dictionary page.

    Attributes:
        sought: What the page contains if a value matches; None if that is unknown.
        is_decoded: Whether the page is decoded if it contains it; else only its bytes are searched.
    """

    predicate: Condition
    leaf: Leaf
    row_group: int
    location: ByteRange
    sought: SoughtBytes | None
    is_decoded: bool = True


class _Verdict(NamedTuple):
    """Whether any row of a row group might match, and whether all rows are proven to match."""

    possible: bool
    certain: bool


class Dictionaries:
    """The dictionary pages of a file, as an index and as a proof. Pages not read yet are undecided.

    Args:
        file: The file.
        is_listed: Whether an embedded index evaluates a condition as exactly as dictionary pages would; for
            each row group, or for all.
        limits: The limits on pages.

    Attributes:
        pages: The pages that were read, by offset. A scan of their row groups needs them again.
    """

    name = "dictionary"
    is_lookup = True
    counts_pages = False

    def __init__(
        self,
        file: ParquetInput,
        is_listed: Callable[[Condition], Bools | bool] = lambda _: False,
        limits: DictionaryLimits = _LIMITS,
    ) -> None:
        self._limits = limits
        self._file = file
        self._is_listed = is_listed
        self._statistics = RowGroupStatistics(file)
        self._verdicts: dict[Condition, dict[int, _Verdict]] = {}
        self.pages: dict[int, bytes] = {}
        self._kept_bytes = 0

    def reach(self, condition: Condition) -> Bools | None:
        """Return the row groups whose dictionary could exclude more than cheaper indexes of the chunk.

        If bounds admit a match of ``<`` or ``<>``, the minimum or the maximum itself is a match. A value that
        a Bloom filter admits is most likely present.
        """
        leaf = self._file.leaves_by_path.get(condition.path)
        if leaf is None or not leaf.is_flat or isinstance(condition, BoundNull):
            return None
        reach = self._file.metadata.derived(("dictionaries", leaf.ordinal), lambda: self._encoded(leaf))
        reach = np.asarray(reach & ~np.asarray(self._is_listed(condition)), dtype=bool)
        if isinstance(condition, BoundCompare) and condition.op != "=":
            bounds = self._statistics.bounds(condition)
            return reach if bounds is None else np.asarray(reach & ~bounds.known, dtype=bool)
        if is_lookup(condition) and reach.any():
            reach = reach & ~filter_exists(self._file, leaf)
        return reach

    def _encoded(self, leaf: Leaf) -> Bools:
        """Return whether the dictionary of each chunk of a leaf has all of its values and can be read."""
        chunks = [group.columns[leaf.ordinal] for group in self._file.footer.metadata.row_groups]
        return np.array([has_readable_dictionary(chunk) for chunk in chunks], dtype=bool)

    def cost(self, wanted: Wanted) -> ProofCost:
        """Return the cost of the dictionary pages. Without an OffsetIndex their lengths may be estimates."""
        locations = {
            (row_group, leaf.ordinal): self._location(leaf, row_group)
            for _, leaf, row_group in self._chunks(wanted)
        }
        lengths = [location.length if location else 0 for location in locations.values()]
        return ProofCost(sum(lengths), len(lengths), pages=len(lengths), part_bytes=min(lengths))

    def evaluate(self, wanted: Wanted, savings: Savings) -> Iterator[Verdict]:
        """Evaluate conditions on the dictionary pages that cost less than they could save."""
        probes = self._worthwhile(self._probes(wanted), savings)
        by_location: dict[ByteRange, list[_DictionaryProbe]] = defaultdict(list)
        for probe in probes:
            by_location[probe.location].append(probe)
        with ThreadPoolExecutor(_PAGES_AT_ONCE) as pool:  # starts no thread without work
            for locations in self._batches(by_location):
                batch = [by_location[location] for location in locations]
                pages = self._file.source.read_ranges(locations)
                # passing a page to another thread takes about as long as searching a small one
                size = max(1, min(_PAGES_PER_TASK, len(batch) // (2 * _PAGES_AT_ONCE)))
                starts = range(0, len(batch), size)
                tasks = [(batch[start : start + size], pages[start : start + size]) for start in starts]
                judge = pool.map if len(tasks) > 1 else map
                results = chain.from_iterable(judge(self._judge_several, tasks))
                for found, data, judged in zip(batch, pages, results, strict=True):
                    self._keep(found, data, judged)
        decided = [condition for condition in wanted if condition in self._verdicts]
        return evaluate_conditions(self._file, self.name, self, decided)

    def _batches(
        self, by_location: Mapping[ByteRange, Sequence[_DictionaryProbe]]
    ) -> Iterator[list[ByteRange]]:
        """Yield the pages in batches; the last ones only if searching the first ones has paid."""
        decoded = [location for location, probes in by_location.items() if probes[0].is_decoded]
        searched = [location for location, probes in by_location.items() if not probes[0].is_decoded]
        trial = searched[:_TRIAL_PAGES]
        yield from self._split([*decoded, *trial])
        if any(self._excludes(probe) for location in trial for probe in by_location[location]):
            yield from self._split(searched[_TRIAL_PAGES:])

    def _split(self, locations: Sequence[ByteRange]) -> Iterator[list[ByteRange]]:
        return split_batches(locations, lambda location: location.length, self._limits.memory_bytes)

    def _excludes(self, probe: _DictionaryProbe) -> bool:
        verdict = self._verdicts.get(probe.predicate, {}).get(probe.row_group)
        return verdict is not None and not verdict.possible

    def candidate_rows(self, predicate: Condition) -> RowSelection | None:
        """Return the rows of the row groups whose dictionary has a matching value."""
        verdicts = self._verdicts.get(predicate)
        if verdicts is None:
            return None
        denied = [row_group for row_group, verdict in verdicts.items() if not verdict.possible]
        return RowSelection.all(self._file.footer.num_rows) - self._rows_of(denied)

    def certain_rows(self, predicate: Condition) -> RowSelection | None:
        """Return the rows of the row groups without nulls in which all values of the dictionary match."""
        verdicts = self._verdicts.get(predicate, {})
        return self._rows_of([row_group for row_group, verdict in verdicts.items() if verdict.certain])

    def _rows_of(self, row_groups: Sequence[int]) -> RowSelection:
        edges = self._file.footer.row_group_starts
        ordinals = np.array(sorted(row_groups), dtype=np.int64)
        return RowSelection.union_of(edges[ordinals], edges[ordinals + 1])

    # --- choosing pages ----------------------------------------------------------------------------

    def _chunks(self, wanted: Wanted) -> Iterator[tuple[Condition, Leaf, int]]:
        for condition, row_groups in wanted.items():
            leaf = self._file.leaves_by_path[condition.path]
            for row_group in np.flatnonzero(row_groups).tolist():
                yield condition, leaf, row_group

    def _location(self, leaf: Leaf, row_group: int) -> ByteRange | None:
        meta = self._file.footer.chunk_metadata(row_group, leaf)
        return dictionary_range(meta, self._file.locations(ChunkKey(row_group, leaf.ordinal)))

    def _probes(self, wanted: Wanted) -> list[_DictionaryProbe]:
        """Return the dictionary pages to consider, if their locations are known."""
        chunks = list(self._chunks(wanted))
        sought = {condition: self._sought(condition) for condition in wanted}
        # some writers do not record the end of the dictionary page; the OffsetIndex has it
        self._file.load_page_index(
            ChunkKey(row_group, leaf.ordinal)
            for _, leaf, row_group in chunks
            if self._location(leaf, row_group) is None
        )
        locations = [(chunk, self._location(chunk[1], chunk[2])) for chunk in chunks]
        return [
            _DictionaryProbe(*chunk, location, sought[chunk[0]])
            for chunk, location in locations
            if location is not None and location.length <= self._limits.page_bytes
        ]

    def _sought(self, condition: Condition) -> SoughtBytes | None:
        leaf = self._file.leaves_by_path[condition.path]
        return sought_bytes(leaf, self._file.leaf_types[leaf.ordinal], condition)

    def _worthwhile(self, probes: Sequence[_DictionaryProbe], savings: Savings) -> list[_DictionaryProbe]:
        """Drop the most expensive probes of each row group until the rest costs less than it could save."""
        edges = self._file.footer.row_group_starts
        num_groups = len(edges) - 1
        page_cost = max(self._limits.page_cost_bytes, self._file.source.coalesce_bytes)
        leaves = {probe.leaf.ordinal: probe.leaf for probe in probes}
        scanned = {ordinal: savings.column_bytes(leaf) for ordinal, leaf in leaves.items()}
        chances = self._chances(probes)
        chosen: list[_DictionaryProbe] = []
        while probes:
            denied: dict[Condition, Bools] = defaultdict(lambda: np.zeros(num_groups, dtype=bool))
            by_row_group: dict[int, list[_DictionaryProbe]] = defaultdict(list)
            for probe in probes:
                denied[probe.predicate][probe.row_group] = True
                by_row_group[probe.row_group].append(probe)
            excluded = savings.excluded_if(denied)
            probes = []
            for row_group, group_probes in by_row_group.items():
                if not excluded[row_group]:
                    continue
                num_rows = savings.rows_of(row_group)
                min_rows = MIN_SHARE * int(edges[row_group + 1] - edges[row_group])
                doubt = MIN_GAIN if num_rows < min_rows else 1
                ordinals = {probe.leaf.ordinal for probe in group_probes}
                budget = sum(int(scanned[ordinal][row_group]) for ordinal in ordinals)
                budget += min(self._limits.scan_cost_bytes, SCAN_COST_BYTES + ROW_COST_BYTES * num_rows)
                costs: dict[ByteRange, int] = {}
                decoded: set[ByteRange] = set()
                for probe in group_probes:
                    chance = max(float(chances[probe.predicate][row_group]), _MIN_CHANCE) / doubt
                    cost = int(max(MIN_GAIN * probe.location.length, page_cost) / chance)
                    if cost < budget:
                        decoded.add(probe.location)
                    elif probe.sought is not None:
                        cost = int(max(SEARCH_COST * probe.location.length, page_cost) / chance)
                    costs[probe.location] = min(cost, costs.get(probe.location, cost))
                kept = _affordable(costs, budget)
                if len(kept) == len(costs):
                    chosen += [probe._replace(is_decoded=probe.location in decoded) for probe in group_probes]
                else:  # the rest may no longer exclude the row group
                    probes += [probe for probe in group_probes if probe.location in kept]
        return chosen

    def _chances(self, probes: Sequence[_DictionaryProbe]) -> dict[Condition, npt.NDArray[np.float64]]:
        """Estimate, by row group, how likely the other values of a list are absent if one of them is."""
        num_groups = len(self._file.footer.row_group_starts) - 1
        num_distinct: dict[Condition, npt.NDArray[np.int64]] = {}
        for probe in probes:
            counts = num_distinct.setdefault(probe.predicate, np.zeros(num_groups, dtype=np.int64))
            counts[probe.row_group] = probe.location.length // value_bytes(probe.leaf)
        chances = {}
        for condition, counts in num_distinct.items():
            found = self._statistics.chance_of_absence(condition, counts)
            chances[condition] = (
                np.full(num_groups, 1 / num_lookup_values(condition)) if found is None else found
            )
        return chances

    # --- evaluating pages --------------------------------------------------------------------------

    def _judge_several(
        self, task: tuple[Sequence[Sequence[_DictionaryProbe]], Sequence[bytes]]
    ) -> list[list[_Verdict] | Exception]:
        """Evaluate the conditions on several chunks; several threads call this."""
        return [self._judge(probes, data) for probes, data in zip(*task, strict=True)]

    def _judge(self, probes: Sequence[_DictionaryProbe], data: bytes) -> list[_Verdict] | Exception:
        """Evaluate the conditions on one chunk, given its dictionary page.

        Returns:
            A verdict for each condition, or the error that prevents the use of the page.
        """
        leaf, row_group = probes[0].leaf, probes[0].row_group
        try:
            page = parse_dictionary_page(data, leaf, self._limits.page_bytes)
            if self._file.page_checksums:
                page.check_checksum(data)
            meta = self._file.footer.chunk_metadata(row_group, leaf)
            lacks = lacks_bytes(page, data, leaf, meta.codec, [probe.sought for probe in probes])
            if page.num_values == 0:  # all values of the chunk are null
                return [_Verdict(False, False)] * len(probes)
            if not probes[0].is_decoded or all(
                is_absent or _needs_no_decoding(probe, page)
                for is_absent, probe in zip(lacks, probes, strict=True)
            ):
                return [_Verdict(not is_absent, False) for is_absent in lacks]
            values = dictionary_values(self._file, page, data, leaf, meta)
            masks = [_mask(probe.predicate, values) for probe in probes]
        except (FormatError, pa.ArrowException) as error:
            return error
        verdicts = []
        for probe, mask in zip(probes, masks, strict=True):
            if mask is None:
                verdicts.append(_Verdict(True, False))
                continue
            certain = 0 < mask.true_count == len(mask) and self._nulls(probe) == 0
            verdicts.append(_Verdict(mask.true_count > 0, certain))
        return verdicts

    def _keep(
        self, probes: Sequence[_DictionaryProbe], data: bytes, judged: list[_Verdict] | Exception
    ) -> None:
        """Keep the verdicts on one chunk, and its dictionary page for a scan unless no value matches."""
        leaf, row_group, location = probes[0].leaf, probes[0].row_group, probes[0].location
        if isinstance(judged, Exception):
            error = (
                judged
                if isinstance(judged, FormatError)
                else FormatError(str(judged), reason="not-decodable")
            )
            self._file.distrust_chunk("dictionary", ChunkKey(row_group, leaf.ordinal), error)
            return
        for probe, verdict in zip(probes, judged, strict=True):
            self._verdicts.setdefault(probe.predicate, {})[row_group] = verdict
        is_needed = any(verdict.possible for verdict in judged)
        if is_needed and self._kept_bytes + location.length <= self._limits.memory_bytes:
            self._kept_bytes += location.length
            self.pages[location.start] = data

    def _nulls(self, probe: _DictionaryProbe) -> int:
        """Return the number of nulls in a chunk, negative if unknown."""
        if probe.leaf.max_definition_level == 0:
            return 0
        bounds = self._statistics.bounds(probe.predicate)
        return -1 if bounds is None else int(bounds.null_counts[probe.row_group])


def _mask(condition: Condition, values: pa.ChunkedArray | pa.Array) -> pa.BooleanArray | None:
    """Return which values match; None if a function has no result for a value, which no row may have."""
    try:
        return condition_mask(condition, values)
    except PredicateError:
        return None


def _needs_no_decoding(probe: _DictionaryProbe, page: Page) -> bool:
    """Return whether the bytes of a page prove as much as its values.

    If a page contains one of the values that are searched for, it has a match. If it also has other values,
    not all of them match.
    """
    is_exact = is_lookup(probe.predicate) and searches_whole_values(probe.leaf)
    return is_exact and probe.sought is not None and page.num_values > len(probe.sought)


def _affordable(costs: Mapping[ByteRange, int], max_bytes: int) -> set[ByteRange]:
    """Drop the most expensive ranges until the rest costs less than ``max_bytes``."""
    total = sum(costs.values())
    kept = sorted(costs, key=lambda location: costs[location])
    while kept and total >= max_bytes:
        total -= costs[kept.pop()]
    return set(kept)
