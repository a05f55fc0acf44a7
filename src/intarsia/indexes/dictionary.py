"""Dictionary pages: where all pages of a chunk are dictionary-encoded, they hold every value that occurs.

Such a dictionary answers like a set of distinct values, a row group at a time.  It may hold values that do
not occur, which keeps row groups that could be skipped and skips none that could not.  Nulls are in no
dictionary, so ``IS NULL`` is left to the statistics, and a row group only matches as a whole if its null
count is known to be 0.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import NamedTuple

import numpy as np
import pyarrow as pa

from intarsia.arrow.struct_fields import field_values
from intarsia.errors import CorruptFileError, FormatError
from intarsia.file import ChunkKey, ParquetInput
from intarsia.file.chunk_plan import ChunkPlan, DictionaryUse, dictionary_range, dictionary_use
from intarsia.file.decode import FetchedPages, PageDecoder, PageIndexMismatchError
from intarsia.format import thrift
from intarsia.format.footer import Leaf
from intarsia.format.page_header import parse_page
from intarsia.format.structs import (
    ColumnMetaData,
    DataPageHeaderV2,
    Encoding,
    PageHeader,
    PageType,
    Type,
)
from intarsia.indexes.statistics import RowGroupStatistics
from intarsia.indexes.value_hash import is_lookup
from intarsia.predicate.bound import BoundCompare, BoundNull, Condition
from intarsia.predicate.evaluate import condition_mask
from intarsia.rows.selection import RowSelection
from intarsia.storage import ByteRange

#: A dictionary page with more bytes than this, decompressed, is left alone.
MAX_DICTIONARY_BYTES = 1 << 26

#: Pages are read together up to so many bytes, and as many bytes are kept for the scan that follows.
MAX_HELD_BYTES = 1 << 26

#: Reading and decoding a page of a local file costs at least as much as reading so many bytes of data.
PAGE_COST_BYTES = 1 << 14

#: A dictionary page may well say that the value is there, so it must be so many times smaller than what it
#: could save.
LEAST_GAIN = 4

#: A row group of whose rows other indexes have left less than this part is as good as settled.
LEAST_SHARE = 1 / 4

#: The least bytes that a value takes in a dictionary page.
_VALUE_BYTES = {
    Type.BOOLEAN: 1,
    Type.INT32: 4,
    Type.INT64: 8,
    Type.INT96: 12,
    Type.FLOAT: 4,
    Type.DOUBLE: 8,
    Type.BYTE_ARRAY: 4,
}

#: The rows that need not be read, if each predicate meets none of the rows given for it.
ExcludedRows = Callable[[Mapping[Condition, RowSelection]], RowSelection]


class _Probe(NamedTuple):
    """A predicate on one column chunk, and the chunk's dictionary page."""

    predicate: Condition
    leaf: Leaf
    row_group: int
    place: ByteRange


class _Verdict(NamedTuple):
    """Whether any row of a row group might match, and whether all do."""

    possible: bool
    certain: bool


class Dictionaries:
    """The dictionary pages of a file, as an index.

    Call `load` with the rows that are still of interest; of row groups that it passed by nothing is told.

    Args:
        file: The file.
    """

    def __init__(self, file: ParquetInput) -> None:
        self._file = file
        self._statistics = RowGroupStatistics(file)
        self._decoder = PageDecoder(file)
        self._verdicts: dict[Condition, dict[int, _Verdict]] = {}
        self._kept_bytes = 0

    def load(
        self,
        wanted: Mapping[Condition, RowSelection],
        excluded_rows: ExcludedRows,
        data_bytes: Callable[[RowSelection], int],
    ) -> None:
        """Judge some predicates by the dictionary pages that cost less than they could save.

        Args:
            wanted: For each predicate, the rows where it matters whether it is met.
            excluded_rows: What is saved if predicates turn out not to be met.
            data_bytes: About how many bytes a scan of some rows would read.
        """
        probes = self._worthwhile(self._probes(wanted), excluded_rows, data_bytes)
        by_place: dict[ByteRange, list[_Probe]] = defaultdict(list)
        for probe in probes:
            by_place[probe.place].append(probe)
        for places in _parts(list(by_place)):
            for place, data in zip(places, self._file.source.read_ranges(places), strict=True):
                self._judge(by_place[place], data)

    def candidate_rows(self, predicate: Condition) -> RowSelection | None:
        """Rows of the row groups whose dictionary holds a value that meets the predicate."""
        verdicts = self._verdicts.get(predicate)
        if verdicts is None:
            return None
        denied = [row_group for row_group, verdict in verdicts.items() if not verdict.possible]
        return RowSelection.all(self._file.footer.num_rows) - self._rows_of(denied)

    def certain_rows(self, predicate: Condition) -> RowSelection | None:
        """Rows of the row groups without nulls whose dictionary holds no value but those which meet it."""
        verdicts = self._verdicts.get(predicate, {})
        return self._rows_of([row_group for row_group, verdict in verdicts.items() if verdict.certain])

    def _rows_of(self, row_groups: Sequence[int]) -> RowSelection:
        edges = self._file.footer.row_group_starts
        ordinals = np.array(sorted(row_groups), dtype=np.int64)
        return RowSelection.union_of(edges[ordinals], edges[ordinals + 1])

    # --- which to read -----------------------------------------------------------------------------

    def _probes(self, wanted: Mapping[Condition, RowSelection]) -> list[_Probe]:
        """The chunks whose dictionary page could tell more of a predicate than what is known."""
        chunks = [
            (predicate, leaf, row_group, meta)
            for predicate, scope in wanted.items()
            for leaf, row_group, meta in self._chunks(predicate, scope)
        ]
        # some writers do not say where the dictionary page ends; then it is where the OffsetIndex starts
        self._file.load_page_index(
            ChunkKey(row_group, leaf.ordinal)
            for _, leaf, row_group, meta in chunks
            if dictionary_range(meta, None) is None
        )
        probes = []
        for predicate, leaf, row_group, meta in chunks:
            place = dictionary_range(meta, self._file.locations(ChunkKey(row_group, leaf.ordinal)))
            if place is not None and place.length <= MAX_DICTIONARY_BYTES:
                probes.append(_Probe(predicate, leaf, row_group, place))
        return probes

    def _chunks(
        self, predicate: Condition, scope: RowSelection
    ) -> Iterator[tuple[Leaf, int, ColumnMetaData]]:
        leaf = self._file.leaves_by_path.get(predicate.path)
        if leaf is None or not leaf.is_flat or isinstance(predicate, BoundNull):
            return
        bounds = self._statistics.bounds(predicate)
        edges = self._file.footer.row_group_starts
        for row_group in np.flatnonzero(scope.overlaps(edges[:-1], edges[1:])).tolist():
            chunk = self._file.footer.chunk(row_group, leaf)
            meta = chunk.meta_data
            if meta is None or chunk.file_path or chunk.crypto_metadata is not None:
                continue
            has_bounds = bounds is not None and bool(bounds.known[row_group])
            if is_all_dictionary(meta) and not _was_told(predicate, meta, has_bounds=has_bounds):
                yield leaf, row_group, meta

    def _worthwhile(
        self,
        probes: Sequence[_Probe],
        excluded_rows: ExcludedRows,
        data_bytes: Callable[[RowSelection], int],
    ) -> list[_Probe]:
        """The probes of each row group, without the dearest of them until they cost less than they save."""
        edges = self._file.footer.row_group_starts
        page_cost = max(PAGE_COST_BYTES, self._file.source.coalesce_bytes)
        chosen: list[_Probe] = []
        while probes:
            scopes: dict[Condition, list[int]] = defaultdict(list)
            by_row_group: dict[int, list[_Probe]] = defaultdict(list)
            for probe in probes:
                scopes[probe.predicate].append(probe.row_group)
                by_row_group[probe.row_group].append(probe)
            saved = excluded_rows({predicate: self._rows_of(groups) for predicate, groups in scopes.items()})
            probes = []
            for row_group, asked in by_row_group.items():
                start, stop = int(edges[row_group]), int(edges[row_group + 1])
                rows = saved.clip(start, stop)
                costs = {probe.place: max(LEAST_GAIN * probe.place.length, page_cost) for probe in asked}
                is_share = not rows.is_empty and rows.num_rows >= LEAST_SHARE * (stop - start)
                if is_share and sum(costs.values()) < data_bytes(rows):
                    chosen += asked
                elif is_share:
                    dearest = max(costs, key=lambda place: costs[place])
                    probes += [probe for probe in asked if probe.place != dearest]
        return chosen

    # --- what they say -----------------------------------------------------------------------------

    def _judge(self, probes: Sequence[_Probe], data: bytes) -> None:
        """Judge the predicates on one chunk, given the bytes of its dictionary page."""
        leaf, row_group, place = probes[0].leaf, probes[0].row_group, probes[0].place
        try:
            values = self._values(leaf, row_group, data)
            masks = [condition_mask(probe.predicate, values) for probe in probes]
        except (FormatError, PageIndexMismatchError, pa.ArrowException) as error:
            reason = error.message if isinstance(error, FormatError) else str(error)
            self._file.distrust(f"dictionary of {leaf.name}, row group {row_group}", reason)
            return
        for probe, mask in zip(probes, masks, strict=True):
            matches = np.asarray(mask.to_numpy(zero_copy_only=False), dtype=bool)
            certain = bool(len(matches)) and bool(matches.all()) and self._nulls(probe) == 0
            verdict = _Verdict(bool(matches.any()), certain)
            self._verdicts.setdefault(probe.predicate, {})[row_group] = verdict
        if self._kept_bytes + place.length <= MAX_HELD_BYTES:
            self._kept_bytes += place.length
            self._file.dictionaries[place.start] = data  # should the row group be read, its pages need it

    def _nulls(self, probe: _Probe) -> int:
        """Nulls of a chunk; negative if that is not known."""
        if probe.leaf.max_definition_level == 0:
            return 0
        bounds = self._statistics.bounds(probe.predicate)
        return -1 if bounds is None else int(bounds.null_counts[probe.row_group])

    def _values(self, leaf: Leaf, row_group: int, data: bytes) -> pa.ChunkedArray | pa.Array:
        """The values of a dictionary page, as a scan would give them.

        Raises:
            FormatError: If it is no dictionary page, or pyarrow cannot decode it.
            PageIndexMismatchError: Likewise.
        """
        page = parse_page(data)
        if page.header.type != PageType.DICTIONARY_PAGE:
            raise CorruptFileError("another page lies where the dictionary page should be")
        count, num_bytes = page.num_values, page.header.uncompressed_page_size
        value_bytes = _VALUE_BYTES.get(leaf.type) or max(1, leaf.element.type_length or 0)
        if not count * value_bytes <= num_bytes <= MAX_DICTIONARY_BYTES:
            raise CorruptFileError(f"it claims {count} values in {num_bytes} bytes")
        if count == 0:  # the dictionary of a chunk of nulls
            return pa.array([], self._file.leaf_types[leaf.ordinal])
        everything = every_entry_page(count, leaf.max_definition_level)
        place = ByteRange(0, len(everything))
        plan = ChunkPlan(
            leaf=leaf,
            meta=self._file.footer.chunk_metadata(row_group, leaf),
            pages=(place,),
            page_starts=(0,),
            page_rows=(count,),
            covered=RowSelection.all(count),
            dictionary=ByteRange(0, page.stop),
            dictionary_use=DictionaryUse.ALWAYS,
            total_pages=1,
        )
        pages = FetchedPages(plan, everything, data[: page.stop])
        return field_values(self._decoder.decode([pages], plan.covered)[leaf.root_ordinal], leaf.path[1:])


def is_all_dictionary(meta: ColumnMetaData) -> bool:
    """Whether all data pages of a chunk are proven to be dictionary-encoded.

    ``encoding_stats`` tell.  Without them, as in parquet-java, ``PLAIN_DICTIONARY`` with nothing but the
    encodings of levels beside it tells, too; ``RLE_DICTIONARY`` does not, since ``PLAIN`` then stands for the
    dictionary page as well.

    Args:
        meta: What the footer says of the chunk.
    """
    if meta.encoding_stats:
        return dictionary_use(meta) is DictionaryUse.ALWAYS
    encodings = set(meta.encodings)
    return Encoding.PLAIN_DICTIONARY in encodings and encodings <= _DICTIONARY_AND_LEVELS


_DICTIONARY_AND_LEVELS = {Encoding.PLAIN_DICTIONARY, Encoding.RLE, Encoding.BIT_PACKED}


def every_entry_page(count: int, max_definition_level: int) -> bytes:
    """A data page whose values are all entries of a dictionary page, in their order.

    Args:
        count: Entries of the dictionary; 1 or more.
        max_definition_level: Of the leaf; no value is null.
    """
    width = next(width for width in (8, 16, 32) if count <= 1 << width)
    padded = -(-count // 8) * 8  # bit-packed runs are of eights, and so many whole bytes are as packed
    ordinals = np.arange(padded, dtype=f"<u{width // 8}")
    ordinals[count:] = 0
    levels = bytearray()
    if max_definition_level:
        thrift.write_varint(levels, count << 1)  # one run of equal levels
        levels.append(max_definition_level)
    values = bytearray((width,))
    thrift.write_varint(values, padded // 8 << 1 | 1)  # one run of packed ordinals
    values += ordinals.tobytes()
    size = len(levels) + len(values)
    # version 2, since its pages may stay uncompressed in a compressed chunk
    header = DataPageHeaderV2(count, 0, count, Encoding.RLE_DICTIONARY, len(levels), 0, is_compressed=False)
    page = PageHeader(PageType.DATA_PAGE_V2, size, size, data_page_header_v2=header)
    return thrift.serialize(page) + levels + values


def _was_told(predicate: Condition, meta: ColumnMetaData, *, has_bounds: bool) -> bool:
    """Whether a cheaper index of a chunk has said what its dictionary could say.

    A least and a greatest value that leave room for a match of ``<`` or ``<>`` are matches themselves.  What
    a Bloom filter lets through is most surely there.
    """
    if isinstance(predicate, BoundCompare) and predicate.op != "=":
        return has_bounds
    return is_lookup(predicate) and bool(meta.bloom_filter_offset)


def _parts(places: Sequence[ByteRange]) -> Iterator[list[ByteRange]]:
    """The places in their order, in lists of not too many bytes."""
    part: list[ByteRange] = []
    part_bytes = 0
    for place in places:
        if part and part_bytes + place.length > MAX_HELD_BYTES:
            yield part
            part, part_bytes = [], 0
        part.append(place)
        part_bytes += place.length
    if part:
        yield part
