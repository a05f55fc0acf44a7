"""Dictionary pages. If all pages of a chunk are dictionary-encoded, the dictionary has every value.

The dictionary is then a superset of the distinct values of a row group. Unused values only make pruning less
effective, never wrong. Dictionaries do not contain nulls, so ``IS NULL`` is evaluated on statistics, and all
rows of a row group match only if its null count is known to be 0.
"""

from __future__ import annotations

import contextlib
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import field
from functools import lru_cache, partial
from operator import attrgetter
from typing import NamedTuple, TypeAlias

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc

from intarsia import native
from intarsia.ahead import ahead
from intarsia.arrow.nested import field_values
from intarsia.errors import CorruptFileError, FormatError, PredicateError
from intarsia.file import ChunkKey, ParquetInput
from intarsia.file.claims import decompress, plain_bytes
from intarsia.file.synthetic import Segments, decode
from intarsia.format import thrift
from intarsia.format.enums import Encoding, PageType, Type
from intarsia.format.footer import Leaf
from intarsia.format.pages import Page, dictionary_page
from intarsia.format.structs import ColumnMetaData, DataPageHeaderV2, PageHeader
from intarsia.indexes.bloom import filter_exists
from intarsia.indexes.lookups import REMEMBERED_LOOKUPS, stored_values
from intarsia.indexes.proof import (
    MAX_BATCH_BYTES,
    ProofCost,
    Savings,
    Verdict,
    Wanted,
    groups_by_leaf,
    judge_groups,
    split_batches,
)
from intarsia.indexes.statistics import column_statistics
from intarsia.predicate import ignores_case, required_texts
from intarsia.predicate.bound import BoundCompare, BoundNull, Condition, is_lookup, num_lookup_values
from intarsia.predicate.evaluate import condition_mask
from intarsia.records import dataclass
from intarsia.rows.bounds import Bools, Counts, chances_of_absence
from intarsia.storage import ByteRange
from intarsia.tuning import (
    DICTIONARIES_AT_ONCE,
    DICTIONARIES_PER_TASK,
    DICTIONARY_BYTES,
    DICTIONARY_GAIN,
    DICTIONARY_SEARCH,
    MAX_SCAN_BYTES,
    MIN_CHANCE,
    MIN_EXCLUDED_SHARE,
    SCAN_BYTES,
    SCAN_ROW_BYTES,
    TRIAL_DICTIONARIES,
)

# --- pages: how their values are decoded, and searched without decoding them --------------------------------

#: The bytes of a value of the physical types that NumPy has.
_WIDTHS = {Type.INT32: 4, Type.FLOAT: 4, Type.INT64: 8, Type.DOUBLE: 8}

#: More values than this are compared with decoded pages instead: each value takes a pass over the bytes.
_MAX_SEARCHED = 8

#: Shorter texts are likely to be in a page, and are not searched.
_MIN_TEXT_BYTES = 3

_MAX_RFIND_BYTES = 64

#: A page with a match contains all byte strings of at least one of these alternatives.
SoughtBytes: TypeAlias = "tuple[tuple[bytes, ...], ...]"


def parse_dictionary_page(data: bytes, leaf: Leaf, max_bytes: int) -> Page:
    """Parse and check the header of a dictionary page.

    Args:
        data: The bytes that begin with the page.
        max_bytes: The maximum size of the decompressed page.

    Raises:
        FormatError: If the page is not a dictionary page, or is larger.
    """
    page = dictionary_page(data)
    count, num_bytes = page.num_values, page.header.uncompressed_page_size
    if not count * max(1, plain_bytes(leaf)) <= num_bytes <= max_bytes:
        is_large = num_bytes > max_bytes  # such as one of documents, which a scan reads
        raise CorruptFileError(
            f"it has {num_bytes:,} bytes, and the limit of this index is {max_bytes:,}"
            if is_large
            else f"it claims {count} values in {num_bytes} bytes",
            reason="dictionary-value-count",
            column=leaf.name,
        )
    return page


def dictionary_values(
    file: ParquetInput, page: Page, data: bytes, leaf: Leaf, meta: ColumnMetaData
) -> pa.ChunkedArray | pa.Array:
    """Decode the values of a dictionary page as a scan does.

    Args:
        data: The bytes that begin with the page, which has values.

    Raises:
        FormatError: If pyarrow cannot decode it, or decodes another number of values.
    """
    count = page.num_values
    as_data = _as_data_page(page, data, leaf)
    schema = file.schema.part((leaf.root_ordinal,))
    of_chunk = meta._replace(num_values=count)
    segments = Segments.of_chunk(schema.positions[leaf.ordinal], of_chunk, 0, len(as_data))
    with file.named_errors():
        table = decode(
            schema,
            [segments],
            [count],
            [as_data],
            f"the dictionary page of {leaf.name!r}",
            checksums=file.page_checksums,
        )
        if table.num_rows != count:
            raise CorruptFileError(
                f"the dictionary page of {leaf.name!r} has {table.num_rows} values, not {count}",
                reason="dictionary-value-count",
                column=leaf.name,
                struct="DictionaryPageHeader",
            )
    values = table.column(0)
    if leaf.is_flat:
        return field_values(values, leaf.path[1:])
    elements = pc.list_flatten(values)  # without the other leaf, a map is a list of structs of one field
    return pc.struct_field(elements, [0]) if pa.types.is_struct(elements.type) else elements


def _as_data_page(page: Page, data: bytes, leaf: Leaf) -> bytes:
    """Rebuild a dictionary page, whose values are plain, as a data page of one value per row without nulls.

    Args:
        data: The bytes that contain it.
    """
    levels = bytearray()
    if leaf.max_repetition_level:
        thrift.write_varint(levels, page.num_values << 1)  # one run of equal levels
        levels.append(0)
    num_repetition_bytes = len(levels)
    if leaf.max_definition_level:
        thrift.write_varint(levels, page.num_values << 1)
        levels.append(leaf.max_definition_level)
    num_definition_bytes = len(levels) - num_repetition_bytes
    # version 2, because its levels are not compressed
    of_values = DataPageHeaderV2(
        page.num_values, 0, page.num_values, Encoding.PLAIN, num_definition_bytes, num_repetition_bytes
    )
    header = PageHeader(
        PageType.DATA_PAGE_V2,
        len(levels) + page.header.uncompressed_page_size,
        len(levels) + page.header.compressed_page_size,
        data_page_header_v2=of_values,
    )
    return thrift.serialize(header) + levels + data[page.body_start : page.stop]


# --- searching the bytes of a page -----------------------------------------------------------------------


@lru_cache(maxsize=REMEMBERED_LOOKUPS)
def sought_bytes(leaf: Leaf, arrow_type: pa.DataType, condition: Condition) -> SoughtBytes | None:
    """Return what a page with a match contains; None if that is unknown, or takes too many searches.

    Args:
        arrow_type: The Arrow type of its values.
    """
    if num_lookup_values(condition) > _MAX_SEARCHED:
        return None
    values = stored_values(leaf, arrow_type, condition)
    if values is not None:
        if leaf.type == Type.BYTE_ARRAY:
            values = tuple(len(value).to_bytes(4, "little") + value for value in values)
        return tuple((value,) for value in values)
    if leaf.type != Type.BYTE_ARRAY or ignores_case(condition):
        return None
    texts = sorted((text.encode() for text in required_texts(condition)), key=len, reverse=True)
    return (tuple(texts[:_MAX_SEARCHED]),) if texts and len(texts[0]) >= _MIN_TEXT_BYTES else None


def searches_whole_values(leaf: Leaf) -> bool:
    """Return whether `lacks_bytes` compares whole values; else the bytes may be part of other values."""
    return leaf.type in _WIDTHS


def lacks_bytes(
    page: Page, data: bytes, leaf: Leaf, codec: int, sought: Sequence[SoughtBytes | None]
) -> list[bool]:
    """Return for each of several conditions whether a dictionary page is proven to have no matching value.

    Searching the bytes of a page takes a fraction of the time of decoding it.

    Args:
        page: The header of the page, whose number of decompressed bytes has been checked.
        data: The bytes that contain it.
        sought: For each condition, the result of `sought_bytes`.
    """
    unknown = [False] * len(sought)
    if page.encoding not in (Encoding.PLAIN, Encoding.PLAIN_DICTIONARY) or sought.count(None) == len(sought):
        return unknown
    place, width = (page.body_start, page.stop), _WIDTHS.get(leaf.type)
    raw_bytes = page.header.uncompressed_page_size
    found = native.attempt(lambda extension: extension.lacking(data, place, codec, raw_bytes, width, sought))
    if found is not None:
        return found
    try:
        body = decompress(memoryview(data)[slice(*place)], codec, raw_bytes)
    except FormatError:  # decoding raises it
        return unknown
    contains = _search(body, width)
    return [
        alternatives is not None and not any(all(map(contains, one)) for one in alternatives)
        for alternatives in sought
    ]


def _search(body: memoryview, width: int | None) -> Callable[[bytes], bool]:
    """Return a function that searches the values of a page, numbers of a width or other bytes."""
    if width is not None:
        numbers = np.frombuffer(body, f"<u{width}", count=len(body) // width)
        return lambda value: bool((numbers == np.frombuffer(value, numbers.dtype)).any())
    values = bytes(body)
    # rfind is 2 to 3 times as fast as `in` here, but quadratic
    return lambda value: values.rfind(value) >= 0 if len(value) <= _MAX_RFIND_BYTES else value in values


# --- proofs -------------------------------------------------------------------------------------------------

Floats: TypeAlias = "npt.NDArray[np.float64]"

#: Larger dictionary pages, in decompressed bytes, are not read.
MAX_DICTIONARY_BYTES = 1 << 26


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
    page_cost_bytes: int = DICTIONARY_BYTES
    scan_cost_bytes: int = MAX_SCAN_BYTES


class _Probe(NamedTuple):
    """A condition on one column chunk, and the chunk's dictionary page.

    Attributes:
        codec: The chunk's `CompressionCodec`.
        sought: What the page contains if a value matches; None if that is unknown.
        is_decoded: Whether the page is decoded if it contains it; else only its bytes are searched.
    """

    condition: Condition
    leaf: Leaf
    row_group: int
    location: ByteRange
    codec: int
    sought: SoughtBytes | None
    is_decoded: bool


#: The probes of some chunks, and the dictionary page of each chunk.
_Task: TypeAlias = "tuple[Sequence[Sequence[_Probe]], Sequence[bytes]]"


class _Pages(NamedTuple):
    """The dictionary pages of a condition's column, by row group.

    Attributes:
        usable: Whether the page could be read.
        chances: The probability that the chunk has none of the values, if it lacks one of them.
    """

    leaf: Leaf
    usable: Bools
    starts: Counts
    lengths: Counts
    codecs: Counts
    chances: Floats
    sought: SoughtBytes | None

    def cost(self, gain: float, least: int) -> Floats:
        """Return the bytes that each page costs, divided by the chance that it excludes its row group."""
        return np.asarray(np.maximum(gain * self.lengths, least) / self.chances)

    def probes(self, condition: Condition, among: Bools, is_decoded: Bools) -> Iterator[_Probe]:
        """Yield the probes of some row groups."""
        columns = np.arange(len(among)), self.starts, self.starts + self.lengths, self.codecs, is_decoded
        numbers = zip(*(column[among].tolist() for column in columns), strict=True)
        for row_group, start, stop, codec, decoded in numbers:
            yield _Probe(condition, self.leaf, row_group, ByteRange(start, stop), codec, self.sought, decoded)


def _affordable(costs: Floats, budget: Floats) -> Bools:
    """Return which of the pages of each row group, beginning with the cheapest, cost less than its budget.

    Args:
        costs: The cost of the page of each column (first axis) in each row group.
    """
    order = np.argsort(costs, axis=0, kind="stable")
    kept = np.zeros(costs.shape, dtype=bool)
    np.put_along_axis(kept, order, np.take_along_axis(costs, order, 0).cumsum(axis=0) < budget, 0)
    return kept


class _Verdict(NamedTuple):
    """Whether any row of a row group might match, and whether all rows are proven to match."""

    possible: bool
    certain: bool


@dataclass(eq=False)
class Dictionaries:
    """The dictionary pages of a file as a proof. Pages not read yet are undecided.

    Args:
        is_listed: Whether an embedded index evaluates a condition as exactly as dictionary pages would; for
            each row group, or for all.

    Attributes:
        pages: The pages that were read, by offset. A scan of their row groups needs them again.
    """

    name = "dictionary"
    is_lookup = True
    counts_pages = False

    file: ParquetInput
    is_listed: Callable[[Condition], Bools | bool] = lambda _: False
    limits: DictionaryLimits = DictionaryLimits()
    pages: dict[int, bytes] = field(default_factory=dict, init=False)
    _kept_bytes: int = field(default=0, init=False)
    _verdicts: dict[Condition, dict[int, _Verdict]] = field(default_factory=dict, init=False)

    def reach(self, condition: Condition) -> Bools | None:
        """Return the row groups whose dictionary could exclude more than cheaper indexes of the chunk.

        If bounds admit a match of ``<`` or ``<>``, the minimum or the maximum itself is a match. A value that
        a Bloom filter admits is most likely present.
        """
        leaf = self.file.schema.leaves_of_values.get(condition.path)
        if leaf is None or isinstance(condition, BoundNull):
            return None
        reach = self.file.metadata.derived(
            ("dictionaries", leaf.ordinal), partial(_are_readable, self.file, leaf)
        )
        reach = np.asarray(reach & ~np.asarray(self.is_listed(condition)), dtype=bool)
        if isinstance(condition, BoundCompare) and condition.op != "=":
            bounds = column_statistics(self.file, condition.path)
            return reach if bounds is None else np.asarray(reach & ~bounds.known, dtype=bool)
        if is_lookup(condition) and reach.any():
            reach = reach & ~filter_exists(self.file, leaf)
        return reach

    def cost(self, wanted: Wanted) -> ProofCost:
        """Return the cost of the dictionary pages. Without an OffsetIndex their lengths may be estimates."""
        by_leaf = groups_by_leaf(self.file, wanted)
        lengths = np.concatenate([self._lengths(leaf)[among] for leaf, among in by_leaf.items()])
        count = len(lengths)
        return ProofCost(int(lengths.sum()), count, pages=count, part_bytes=int(lengths.min()))

    def evaluate(self, wanted: Wanted, savings: Savings) -> Iterator[Verdict]:
        """Evaluate conditions on the dictionary pages that cost less than they could save."""
        by_location: dict[ByteRange, list[_Probe]] = {}
        for probe in sorted(self._worthwhile(wanted, savings), key=attrgetter("row_group")):
            by_location.setdefault(probe.location, []).append(probe)
        if not by_location:
            return iter(())
        for locations in self._batches(by_location):
            batch = [by_location[location] for location in locations]
            # passing a page to another thread takes about as long as searching a small one
            size = max(1, min(DICTIONARIES_PER_TASK, len(batch) // (2 * DICTIONARIES_AT_ONCE)))
            at_once = DICTIONARIES_AT_ONCE if size < len(batch) else 1
            tasks = ahead(self._judge_pages, self._read(batch, locations, size), at_once)
            with contextlib.closing(tasks):
                for task, outcome in tasks:
                    for probes, data, judged in zip(*task, outcome.result(), strict=True):
                        self._keep(probes, data, judged)
        return judge_groups(self.file, self._verdicts, wanted)

    def _read(
        self, batch: Sequence[Sequence[_Probe]], locations: Sequence[ByteRange], size: int
    ) -> Iterator[_Task]:
        """Yield some chunks at a time with their pages, which are searched while those of others are read.

        Objects are requested at once.
        """
        num_read = len(batch) if self.file.source.coalesce_bytes else size
        for first in range(0, len(batch), num_read):
            pages = self.file.source.read_ranges(locations[first : first + num_read])
            for start in range(0, len(pages), size):
                yield batch[first + start : first + start + size], pages[start : start + size]

    def _batches(self, by_location: Mapping[ByteRange, Sequence[_Probe]]) -> Iterator[list[ByteRange]]:
        """Yield the pages in batches; most of them only if some of the others have paid."""
        split = partial(split_batches, num_bytes=attrgetter("length"), max_bytes=self.limits.memory_bytes)
        step, is_remote = -(-len(by_location) // TRIAL_DICTIONARIES), self.file.source.coalesce_bytes > 0
        trial = [
            location
            for at, (location, probes) in enumerate(by_location.items())
            # another round trip takes longer than small pages
            if at % step == 0 or (is_remote and probes[0].is_decoded)
        ]
        yield from split(trial)
        if any(self._pays(probe) for location in trial for probe in by_location[location]):
            yield from split(sorted(by_location.keys() - set(trial)))

    def _pays(self, probe: _Probe) -> bool:
        """Return whether a page excluded its row group, or proved that all of its rows match."""
        verdict = self._verdicts.get(probe.condition, {}).get(probe.row_group)
        return verdict is not None and (verdict.certain or not verdict.possible)

    # --- choosing pages ----------------------------------------------------------------------------

    def _lengths(self, leaf: int) -> Counts:
        """Return the length of the dictionary page of each chunk, 0 if it is unknown."""
        (outlines,) = self.file.metadata.outlines([self.file.footer.leaves[leaf]])
        lengths = outlines.first_pages - outlines.starts
        # some writers do not record the end of the dictionary page; the OffsetIndex has it
        for row_group in (lengths <= 0).nonzero()[0].tolist():
            locations = self.file.locations(ChunkKey(row_group, leaf))
            if locations is not None:
                lengths[row_group] = locations.offsets[0] - outlines.starts[row_group]
        is_inside = (lengths > 0) & (lengths <= outlines.stops - outlines.starts)
        return np.where(is_inside, lengths, 0)

    def _pages(self, condition: Condition, row_groups: Bools) -> _Pages:
        """Return the dictionary pages of a condition's column."""
        leaf = self.file.schema.leaves_of_values[condition.path]
        (outlines,), lengths = self.file.metadata.outlines([leaf]), self._lengths(leaf.ordinal)
        usable = row_groups & (lengths > 0) & (lengths <= self.limits.page_bytes)
        num_distinct = np.where(usable, lengths // max(1, plain_bytes(leaf)), 0)
        chances = chances_of_absence(condition, column_statistics(self.file, condition.path), num_distinct)
        if chances is None:
            chances = np.full(len(lengths), 1 / num_lookup_values(condition))
        sought = sought_bytes(leaf, self.file.schema.value_types[leaf.ordinal], condition)
        chances = np.maximum(chances, MIN_CHANCE)
        return _Pages(leaf, usable, outlines.starts, lengths, outlines.codec, chances, sought)

    def _worthwhile(self, wanted: Wanted, savings: Savings) -> Iterator[_Probe]:
        """Yield the probes of each row group that cost less than they could save together.

        The most expensive pages are dropped first. The others may then no longer exclude the row group.
        """
        self.file.load_page_index(
            ChunkKey(row_group, leaf)
            for leaf, among in groups_by_leaf(self.file, wanted).items()
            for row_group in (among & (self._lengths(leaf) == 0)).nonzero()[0].tolist()
        )
        pages = {condition: self._pages(condition, among) for condition, among in wanted.items()}
        num_rows = savings.num_rows()
        is_rest = num_rows < MIN_EXCLUDED_SHARE * np.diff(self.file.footer.row_group_starts)
        doubt = np.where(is_rest, DICTIONARY_GAIN, 1)
        page_cost = max(self.limits.page_cost_bytes, self.file.source.coalesce_bytes)
        of_scan = np.minimum(self.limits.scan_cost_bytes, SCAN_BYTES + SCAN_ROW_BYTES * num_rows)
        column_bytes = {page.leaf.ordinal: savings.column_bytes(page.leaf) for page in pages.values()}
        live = {condition: page.usable for condition, page in pages.items()}
        while live := {condition: among for condition, among in live.items() if among.any()}:
            excluded = savings.excluded_if(live)
            live = {condition: among & excluded for condition, among in live.items()}
            by_leaf = groups_by_leaf(self.file, live)
            budget = of_scan + sum(np.where(among, column_bytes[leaf], 0) for leaf, among in by_leaf.items())
            columns, usable = list(by_leaf), np.array(list(by_leaf.values()))
            costs, decoded = np.full(usable.shape, np.inf), np.zeros(usable.shape, dtype=bool)
            for condition, among in live.items():
                page, column = pages[condition], columns.index(pages[condition].leaf.ordinal)
                cost = doubt * page.cost(DICTIONARY_GAIN, page_cost)
                is_decoded = among & (cost < budget)
                if page.sought is not None:
                    cost = np.where(is_decoded, cost, doubt * page.cost(DICTIONARY_SEARCH, page_cost))
                costs[column] = np.minimum(costs[column], np.where(among, cost, np.inf))
                decoded[column] |= is_decoded
            kept = _affordable(costs, budget)
            is_whole = (kept | ~usable).all(axis=0)
            for condition, among in live.items():
                page, column = pages[condition], columns.index(pages[condition].leaf.ordinal)
                yield from page.probes(condition, among & is_whole, decoded[column])
                live[condition] = among & kept[column] & ~is_whole

    # --- evaluating pages --------------------------------------------------------------------------

    def _judge_pages(self, task: _Task) -> list[list[_Verdict] | FormatError]:
        """Evaluate the conditions on several chunks; several threads call this."""
        return [self._judge_page(probes, data) for probes, data in zip(*task, strict=True)]

    def _judge_page(self, probes: Sequence[_Probe], data: bytes) -> list[_Verdict] | FormatError:
        """Evaluate the conditions on one chunk, given its dictionary page.

        Returns:
            A verdict for each condition, or the error that prevents the use of the page.
        """
        leaf, row_group = probes[0].leaf, probes[0].row_group
        try:
            page = parse_dictionary_page(data, leaf, self.limits.page_bytes)
            if self.file.page_checksums:
                page.check_checksum(data)
            lacks = lacks_bytes(page, data, leaf, probes[0].codec, [probe.sought for probe in probes])
            if page.num_values == 0:  # all values of the chunk are null
                return [_Verdict(False, False)] * len(probes)
            if not probes[0].is_decoded or all(
                is_absent or _needs_no_decoding(probe, page)
                for is_absent, probe in zip(lacks, probes, strict=True)
            ):
                return [_Verdict(not is_absent, False) for is_absent in lacks]
            meta = self.file.footer.chunk_metadata(row_group, leaf)
            values = dictionary_values(self.file, page, data, leaf, meta)
            return [self._verdict(probe, values) for probe in probes]
        except FormatError as error:
            return error
        except pa.ArrowException as error:
            return FormatError(str(error), reason="not-decodable")

    def _verdict(self, probe: _Probe, values: pa.ChunkedArray | pa.Array) -> _Verdict:
        """Evaluate a condition on the values of a dictionary page."""
        try:
            mask = condition_mask(probe.condition, values)
        except PredicateError:  # a function has no result for a value, which no row may have
            return _Verdict(True, False)
        if not 0 < mask.true_count == len(mask):
            return _Verdict(mask.true_count > 0, False)
        bounds = column_statistics(self.file, probe.condition.path)
        has_nulls = bounds is None or bounds.null_counts[probe.row_group] != 0  # or may have
        return _Verdict(True, not (probe.leaf.max_definition_level and has_nulls))

    def _keep(self, probes: Sequence[_Probe], data: bytes, judged: list[_Verdict] | FormatError) -> None:
        """Keep the verdicts on one chunk, and its dictionary page for a scan unless no value matches."""
        leaf, row_group, location = probes[0].leaf, probes[0].row_group, probes[0].location
        if isinstance(judged, FormatError):
            self.file.distrust_chunk("dictionary", ChunkKey(row_group, leaf.ordinal), judged)
            return
        for probe, verdict in zip(probes, judged, strict=True):
            self._verdicts.setdefault(probe.condition, {})[row_group] = verdict
        is_needed = any(verdict.possible for verdict in judged)
        if is_needed and self._kept_bytes + location.length <= self.limits.memory_bytes:
            self._kept_bytes += location.length
            self.pages[location.start] = data


def _are_readable(file: ParquetInput, leaf: Leaf) -> Bools:
    """Return whether each chunk of a leaf can be read here and has all of its values in its dictionary."""
    (outlines,) = file.metadata.outlines([leaf])
    is_all = [pages.is_all_dictionary for pages in outlines.pages]
    return np.asarray(outlines.is_sound & np.array(is_all, dtype=bool))


def _needs_no_decoding(probe: _Probe, page: Page) -> bool:
    """Return whether the bytes of a page prove as much as its values.

    If a page contains one of the values that are searched for, it has a match. If it also has other values,
    not all of them match.
    """
    is_exact = is_lookup(probe.condition) and searches_whole_values(probe.leaf)
    return is_exact and probe.sought is not None and page.num_values > len(probe.sought)
