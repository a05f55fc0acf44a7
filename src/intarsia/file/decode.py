"""Bytes to arrays: footers to columns of arrays (`outlines_of`), and pages to selected rows (`decode_rows`).

Leaves whose pages cover the same rows are decoded together. Leaves of one nested column whose pages cover
different rows are decoded separately, reduced to the selected rows, and joined.
"""

from __future__ import annotations

from bisect import bisect_right
from collections import defaultdict
from collections.abc import Collection, Hashable, Sequence
from contextlib import suppress
from functools import partial
from itertools import accumulate, starmap
from operator import add, attrgetter
from typing import NamedTuple, TypeAlias

import numpy as np
import pyarrow as pa

from intarsia import native
from intarsia.arrow.nested import join_columns
from intarsia.errors import CorruptFileError, FormatError, UnsupportedFeatureError
from intarsia.file.chunks import ChunkOutlines, ChunkPlan, LeafPlan, RecordedPages, recorded_pages
from intarsia.file.claims import check_dictionary_size, check_expansion, check_values, is_plausible
from intarsia.file.fetch import FetchedBytes
from intarsia.file.schema import FileSchema
from intarsia.file.synthetic import Segments, SyntheticSchema, decode
from intarsia.format.enums import PageType
from intarsia.format.footer import Leaf
from intarsia.format.page_index import Int64s
from intarsia.format.pages import (
    PAGE_CHECKSUM,
    Page,
    check_value_counts,
    dictionary_page,
    iter_pages,
    pages_at,
)
from intarsia.format.row_groups import native_outlines, outlines_of_chunks
from intarsia.format.structs import PageEncodingStats, RowGroup
from intarsia.once import cached_property
from intarsia.rows.selection import RowSelection, union
from intarsia.tuning import COMPILED_LIST_ROWS, COMPILED_LISTS_PART, REPEATED_TEXTS, SLICED_RANGES, TAKEN_PART

_LEAF, _NAME, _ORDINAL = attrgetter("leaf"), attrgetter("name"), attrgetter("ordinal")
_ROOT, _REPETITION = attrgetter("root_ordinal"), attrgetter("max_repetition_level")

# --- footers to columns of arrays -------------------------------------------------------------------


#: The limit on offsets and sizes, whose sum must fit into 64 bits.
_MAX_SIZE = 1 << 61

#: Offsets and counts of a chunk that is not sound, as in `ChunkOutlines` before ``data_pages``.
_UNSOUND = (-1, -1, -1, -1, -1, -1)


def outlines_of(
    groups: Sequence[RowGroup], leaves: Sequence[Leaf], file_length: int | Int64s
) -> list[ChunkOutlines]:
    """Collect the chunks of some leaves.

    Args:
        file_length: The length in bytes of the file, or of the file of each row group.
    """
    ordinals = list(map(_ORDINAL, leaves))
    found = native_outlines(groups, ordinals)
    if found is None:
        columns, distinct = _outline_columns(groups, ordinals)
    else:
        shape = len(_UNSOUND) + 5, len(leaves), len(groups)
        columns = np.frombuffer(found[0], dtype=np.int64).reshape(shape)
        distinct = [
            recorded_pages(list(map(PageEncodingStats._make, stats)), encodings)
            for encodings, stats in found[1]
        ]
    starts, stops, _, num_values, _, _, of_pages, *_ = columns
    counts = np.array([(one.data, one.dictionary) for one in distinct], dtype=np.int64).reshape(-1, 2)
    is_sound = (starts >= 0) & (starts <= stops) & (stops <= file_length) & (num_values >= 0)
    page_index_bytes = np.zeros_like(starts)
    for first, length in (columns[-4:-2], columns[-2:]):
        is_inside = (first > 0) & (length > 0) & (first <= file_length) & (length <= file_length - first)
        page_index_bytes += np.where(is_inside, length, 0)
    pages = [[distinct[position] for position in of_leaf] for of_leaf in of_pages.tolist()]
    of_leaves = zip(
        is_sound,
        pages,
        *columns[:6],
        *counts[of_pages].transpose(2, 0, 1),
        *columns[-4:],
        page_index_bytes,
        strict=True,
    )
    return list(starmap(ChunkOutlines, of_leaves))


def _outline_columns(
    groups: Sequence[RowGroup], ordinals: Sequence[int]
) -> tuple[Int64s, Sequence[RecordedPages]]:
    """Return the columns of the outlines, and the distinct pages, to which one of the columns refers."""
    rows: list[tuple[int, ...]] = []
    known: dict[tuple[Sequence[PageEncodingStats], Sequence[int]], int] = {}
    for of_group in outlines_of_chunks(groups, ordinals):
        for chunk in of_group:
            meta = chunk.meta_data
            of_chunk: tuple[int, ...] = _UNSOUND
            encodings = tuple(meta.encodings or ()) if meta is not None else ()
            stats = tuple(meta.encoding_stats or ()) if meta is not None else ()
            if (
                meta is not None
                and (start := meta.data_page_offset) is not None
                and (size := meta.total_compressed_size) is not None
                and meta.num_values is not None
                and meta.total_uncompressed_size is not None
                and meta.codec is not None
                and not chunk.file_path
                and chunk.crypto_metadata is None
                and -_MAX_SIZE < start < _MAX_SIZE
                and -_MAX_SIZE < size < _MAX_SIZE
            ):
                dictionary = meta.dictionary_page_offset
                first = dictionary if dictionary is not None and 0 < dictionary < start else start
                counts = meta.num_values, meta.total_uncompressed_size, meta.codec
                of_chunk = (first, first + size, start, *counts)
            rows.append(
                (
                    *of_chunk,
                    known.setdefault((stats, encodings), len(known)),  # most chunks of a file are alike
                    chunk.offset_index_offset or 0,
                    chunk.offset_index_length or 0,
                    chunk.column_index_offset or 0,
                    chunk.column_index_length or 0,
                )
            )
    table = np.array(rows, dtype=np.int64).reshape(len(groups), len(ordinals), len(_UNSOUND) + 5)
    # in this order a leaf's values are contiguous, and one operation checks all leaves
    return np.ascontiguousarray(table.T), [recorded_pages(*one) for one in known]


# --- pages to selected rows ----------------------------------------------------------------------


#: The types that pyarrow also decodes to dictionary arrays.
_TEXTS = frozenset((pa.string(), pa.large_string(), pa.binary(), pa.large_binary()))

#: Whether pyarrow stops at the number of rows in the footer. Before version 26 it decodes whole pages.
_STOPS_EARLY = int(pa.__version__.partition(".")[0]) >= 26


class PageIndexMismatchError(Exception):
    """The pages contradict the OffsetIndex, so the row group has to be read without it."""


def decode_rows(
    schema: FileSchema,
    edges: Int64s,
    plans: Sequence[LeafPlan],
    fetched: FetchedBytes,
    rows: RowSelection,
    *,
    checksums: bool,
) -> dict[int, pa.ChunkedArray]:
    """Decode the selected rows of top-level fields, each reduced to the given leaves.

    Args:
        edges: First row of each row group, and the number of rows at the end.
        plans: What was read of all leaves, in the order of the leaves, in the same row groups; leaves of
            one field must be in the same call. Of several row groups, only top-level columns.
        fetched: The bytes; the pages of a leaf in a row group are in one part, unless they are its whole
            chunk.
        rows: The rows to return; every plan covers them.
        checksums: Whether pages that have a checksum are compared with it.

    Returns:
        The values of each top-level field, ``rows.num_rows`` of them, by ordinal of the field. Texts with few
        distinct values may be dictionary arrays.

    Raises:
        PageIndexMismatchError: If the rows in the pages contradict the OffsetIndex.
        CorruptFileError: If pyarrow cannot decode the pages.
    """
    together: dict[Hashable, list[LeafPlan]] = defaultdict(list)
    for plan in plans:
        together[plan.rows].append(plan)
    pieces: dict[int, list[pa.ChunkedArray]] = defaultdict(list)
    leaves_of: dict[int, list[int]] = defaultdict(list)
    for plan in plans:
        leaves_of[plan.leaf.root_ordinal].append(plan.leaf.ordinal)
    for of_pages in together.values():
        covered, num_rows = _covered(of_pages, edges, rows)
        taken = RowTaker(covered, rows)
        texts = set[int]()
        if covered.num_rows >= REPEATED_TEXTS:
            texts = {plan.leaf.root_ordinal for plan in of_pages if _repeats_texts(schema, plan)}
        coded = texts if rows.num_rows >= REPEATED_TEXTS else ()
        compiled = decode_compiled(
            schema, of_pages, fetched, num_rows, taken.positions, coded, checksums=checksums
        )
        texts -= compiled.keys()
        for root, column in compiled.items():
            pieces[root].append(column)
        of_pages = [plan for plan in of_pages if plan.leaf.root_ordinal not in compiled]
        if not of_pages:
            continue
        table = None
        if texts:
            # what is damaged is found again
            with suppress(FormatError, PageIndexMismatchError):
                table = _decode_together(schema, of_pages, fetched, num_rows, texts, checksums=checksums)
        if table is None:
            table = _decode_together(schema, of_pages, fetched, num_rows, (), checksums=checksums)
        roots = dict.fromkeys(map(_ROOT, map(_LEAF, of_pages)))
        for root, column in zip(roots, table.columns, strict=True):
            pieces[root].append(taken.of(column))
    decoded = {}
    for root, found in pieces.items():
        decoded[root] = found[0]
        if len(found) > 1:
            part = schema.part((root,))
            # the type of the field reduced to some leaves, as pyarrow reduces it
            reduced = part.arrow_of(list(map(part.positions.__getitem__, leaves_of[root])))
            decoded[root] = join_columns(found, reduced.field(0).type)
    return decoded


def _covered(
    plans: Sequence[LeafPlan], edges: Int64s, wanted: RowSelection
) -> tuple[RowSelection, list[int]]:
    """Return the rows in pages up to the last selected row, and their number in each row group."""
    first = plans[0]
    starts = edges[first.groups]
    if not first.chunks:
        stops = edges[first.groups + 1]
        return RowSelection.union_of(starts, stops), (stops - starts).tolist()
    # the headers contain the rows of each page, so decoding can stop after the last selected row
    reads_all = first.chunks[-1].whole or any(map(_REPETITION, map(_LEAF, plans)))
    stops_early = _STOPS_EARLY and not reads_all
    shifted, num_rows = [], []
    for position, (chunk, start) in enumerate(zip(first.chunks, starts.tolist(), strict=True), start=1):
        rows = chunk.covered.shift(start)
        if stops_early and position == len(first.chunks):
            rows = rows.clip(0, int(wanted.stops[-1]))
        shifted.append(rows)
        num_rows.append(rows.num_rows)
    return union(shifted), num_rows


def _repeats_texts(schema: FileSchema, plan: LeafPlan) -> bool:
    """Return whether a column of texts or bytes has few distinct values, all of them in dictionary pages."""
    leaf, outlines, groups = plan.leaf, plan.outlines, plan.groups
    if len(leaf.path) > 1 or schema.leaf_types.get(leaf.ordinal) not in _TEXTS:
        return False
    # text without a dictionary takes at least 4 bytes for its length
    is_short = outlines.uncompressed_bytes[groups] <= 2 * outlines.num_values[groups]
    return bool(is_short.all()) and all(outlines.pages[group].is_all_dictionary for group in groups.tolist())


def _decode_together(
    schema: FileSchema,
    plans: Sequence[LeafPlan],
    fetched: FetchedBytes,
    num_rows: list[int],
    texts: Collection[int],
    *,
    checksums: bool,
) -> pa.Table:
    """Decode leaves whose pages have the same rows, and columns of texts to dictionary arrays."""
    leaves = list(map(_LEAF, plans))
    part = schema.part(tuple(dict.fromkeys(map(_ROOT, leaves))))
    names = ", ".join(map(repr, map(_NAME, leaves)))
    expected, claimed = sum(num_rows), num_rows
    try:
        segments = list(map(partial(_segments, part, fetched), plans))
        if len(num_rows) == 1 and any(map(_REPETITION, leaves)):
            # more rows than there can be, so that pyarrow decodes all of them
            claimed = [max(expected, *[of_leaf.num_values[0] for of_leaf in segments])]
        table = decode(
            part,
            segments,
            claimed,
            fetched.parts,
            f"the pages of {names}",
            as_dictionary=[leaf.name for leaf in leaves if leaf.root_ordinal in texts],
            checksums=checksums,
            offset_of=fetched.offset,
        )
    except FormatError as error:
        if texts:  # the caller decodes the columns again, and then the error is named
            raise
        roots = {leaf.root_ordinal for leaf in leaves}
        if isinstance(error, UnsupportedFeatureError) and len(plans) > 1 and len(roots) == 1:
            error.at(column=leaves[0].path[0])
        elif len(plans) > 1:  # decode each column separately, so that the error names the column
            for plan in plans:
                _decode_together(schema, [plan], fetched, num_rows, (), checksums=checksums)
        else:
            error.at(column=leaves[0].name)
        if isinstance(error, CorruptFileError) and error.reason != PAGE_CHECKSUM:
            if not plans[0].is_whole:  # the pages or their index are damaged
                raise PageIndexMismatchError(error.message) from error
            error.at(offset=int(plans[0].outlines.starts[plans[0].groups[0]]))
        raise
    if table.num_rows != expected:
        contradiction = f"the pages of {names} have {table.num_rows} rows, not {expected}"
        if plans[0].is_whole:
            raise CorruptFileError(
                contradiction,
                reason="page-row-count-mismatch",
                column=leaves[0].name if len(plans) == 1 else None,
                struct="DataPage",
            )
        raise PageIndexMismatchError(contradiction)
    columns = dict(zip(dict.fromkeys(map(_ROOT, leaves)), table.columns, strict=True))
    for leaf, of_leaf in zip(leaves, segments, strict=True):
        if leaf.root_ordinal in texts:
            _check_entries(columns[leaf.root_ordinal], of_leaf, num_rows, fetched)
    return table


def _check_entries(
    column: pa.ChunkedArray, segments: Segments, num_rows: Sequence[int], fetched: FetchedBytes
) -> None:
    """Refuse dictionary arrays with other values than their dictionary pages.

    pyarrow drops values that repeat, and leaves the codes of the following ones as they are (observed in
    26.0).

    Raises:
        CorruptFileError: If a dictionary page has another number of values.
    """
    ends = list(accumulate(num_rows))
    firsts = map(partial(_with_first_page, fetched), segments.starts, segments.stops)
    sizes = [dictionary_page(*first).num_values for first in firsts]
    first = 0
    for chunk in column.chunks:
        if len(chunk) and len(chunk.dictionary) != sizes[bisect_right(ends, first)]:
            raise CorruptFileError("values of a dictionary page repeat", reason="repeated-dictionary-value")
        first += len(chunk)


def _segments(schema: SyntheticSchema, fetched: FetchedBytes, plan: LeafPlan) -> Segments:
    """Return the segments of a leaf, whose pages can have the values and rows that they claim."""
    leaf, outlines, groups, chunks = plan.leaf, plan.outlines, plan.groups, plan.chunks
    num_values, codecs = outlines.num_values[groups].tolist(), outlines.codec[groups].tolist()
    if chunks:
        starts, lengths = [], []
        for chunk in chunks:
            starts.append(fetched.position(chunk.pages[0].start))
            lengths.append(chunk.num_bytes)
    else:
        starts = list(map(fetched.position, outlines.starts[groups].tolist()))
        lengths = (outlines.stops[groups] - outlines.starts[groups]).tolist()
    stops = list(map(add, starts, lengths))
    if not chunks and len(starts) > 1:
        # pyarrow detects a wrong number of values only for all row groups together
        first = min(starts)
        data, place = fetched.between(first, max(stops))
        shift = place - first
        spans = [(start + shift, stop + shift) for start, stop in zip(starts, stops, strict=True)]
        check_value_counts(data, spans, num_values)
    else:
        for at, codec in enumerate(codecs):
            if chunks and not chunks[at].whole:
                first = starts[at]
                if at in plan.dictionaries:
                    starts[at] -= plan.dictionaries[at].length
                num_values[at] = _check_pages(chunks[at], codec, fetched, starts[at], first)
                if is_plausible(num_values[at], stops[at] - starts[at]):
                    continue
            is_sure = is_plausible(num_values[at], stops[at] - starts[at])
            of_chunk = _with_first_page if is_sure else FetchedBytes.between
            data, start = of_chunk(fetched, starts[at], stops[at])
            stop = start + stops[at] - starts[at]
            check_values(data, num_values[at], codec, leaf, schema.created_by, start, stop)
    encodings = [outlines.pages[group].encodings for group in groups.tolist()]
    raw_bytes = outlines.uncompressed_bytes[groups].tolist()
    return Segments(schema.positions[leaf.ordinal], starts, stops, num_values, raw_bytes, codecs, encodings)


def _with_first_page(fetched: FetchedBytes, start: int, stop: int) -> tuple[bytes, int]:
    """Return bytes that contain the first page of a chunk, and its place in them.

    A chunk that claims too many bytes overlaps the next one, whose first page is then read in two parts.
    """
    data, place = fetched.part(start)
    if place + stop - start > len(data):
        try:
            next(iter_pages(data, start=place))
        except CorruptFileError:
            return fetched.between(start, stop)
    return data, place


def _check_pages(plan: ChunkPlan, codec: int, fetched: FetchedBytes, start: int, first: int) -> int:
    """Compare pages with the OffsetIndex: offsets, and rows if the header has them.

    Args:
        codec: The chunk's `CompressionCodec`.
        start: Position in them of the first page, which may be the dictionary page.
        first: Position of the first data page.

    Returns:
        The number of values in the data pages.
    """
    has_dictionary = start < first
    pages = parse_pages(plan, fetched, first, start if has_dictionary else None)
    try:
        check_expansion(pages, codec)
    except CorruptFileError as error:  # or it is not a page
        raise PageIndexMismatchError(f"a page of {plan.leaf.name!r}: {error.message}") from error
    if has_dictionary:
        check_dictionary_size(pages.pop(0), plan.leaf)
    num_values = 0
    for page, rows in zip(pages, plan.page_rows, strict=True):
        found = None if plan.leaf.max_repetition_level else page.num_values
        if page.header.data_page_header_v2 is not None and page.header.type == PageType.DATA_PAGE_V2:
            found = page.header.data_page_header_v2.num_rows
        if found is not None and found != rows:
            raise PageIndexMismatchError(f"a page of {plan.leaf.name!r} has {found} rows, not {rows}")
        num_values += page.num_values
    return num_values


def parse_pages(
    plan: ChunkPlan, fetched: FetchedBytes, first: int, dictionary: int | None = None
) -> list[Page]:
    """Parse the headers of a plan's data pages at the offsets in the OffsetIndex.

    Args:
        fetched: Bytes that contain the pages.
        first: Position of the first data page in them.
        dictionary: Position of the dictionary page before them, which is then the first of the result.

    Raises:
        PageIndexMismatchError: If the pages are at other offsets.
    """
    data, start = fetched.between(first, first + plan.num_bytes)
    edges = list(map(start.__add__, (*plan.page_starts, plan.num_bytes)))
    try:
        if dictionary is None:
            return pages_at(data, edges)
        before, place = fetched.between(dictionary, first)
        return pages_at(data, edges, (before, place, place + first - dictionary))
    except CorruptFileError as error:
        raise PageIndexMismatchError(
            f"the pages of {plan.leaf.name!r} are at other offsets: {error}"
        ) from error


# --- rows --------------------------------------------------------------------------------------------


class RowTaker:
    """Selects the same rows of several columns.

    Args:
        wanted: The rows to select, a subset of ``covered``.
    """

    def __init__(self, covered: RowSelection, wanted: RowSelection) -> None:
        self._num_values = covered.num_rows
        self._positions = _positions(covered, wanted)

    @property
    def positions(self) -> RowSelection:
        """The rows to select, counted in those of the columns."""
        return RowSelection.all(self._num_values) if self._positions is None else self._positions

    def of(self, column: pa.ChunkedArray) -> pa.ChunkedArray:
        """Return the selected values of a column with one value for each row of ``covered``."""
        positions = self._positions
        if positions is None:
            return column
        if len(positions) == 1:
            return column.slice(int(positions.starts[0]), positions.num_rows)
        if len(positions) <= SLICED_RANGES:
            slices = [column.slice(start, stop - start) for start, stop in positions]
            return pa.chunked_array([chunk for piece in slices for chunk in piece.chunks], type=column.type)
        # pyarrow joins chunks before it takes from them, which fails if they have more than 2 GiB of text
        if column.num_chunks == 1 and positions.num_rows * TAKEN_PART < self._num_values:
            return column.take(self._ordinals)
        return column.filter(self._mask)

    @cached_property
    def _ordinals(self) -> pa.Array:
        assert self._positions is not None
        return pa.array(self._positions.rows())

    @cached_property
    def _mask(self) -> pa.BooleanArray:
        assert self._positions is not None
        flags = self._positions.to_mask(self._num_values)
        bits = pa.py_buffer(np.packbits(flags, bitorder="little"))
        return pa.BooleanArray.from_buffers(pa.bool_(), len(flags), [None, bits])


def _positions(covered: RowSelection, wanted: RowSelection) -> RowSelection | None:
    """Return the positions of rows among the rows of `covered`; None for all of them."""
    if covered == wanted:
        return None
    if len(covered) == 1:
        return wanted.shift(-int(covered.starts[0]))
    before = np.cumsum(covered.stops - covered.starts) - (covered.stops - covered.starts)
    position = np.searchsorted(covered.starts, wanted.starts, side="right") - 1
    starts = wanted.starts - covered.starts[position] + before[position]
    # ranges with only uncovered rows between them are adjacent now
    return RowSelection.union_of(starts, starts + (wanted.stops - wanted.starts))


# --- top-level columns of types that the optional extension decodes -----------------------------------------

#: Where bytes are: a buffer, and the start and stop in it.
_Span: TypeAlias = "tuple[bytes, int, int]"


class _Chunk(NamedTuple):
    """Some data pages of a chunk, or all of it.

    Attributes:
        codec: The chunk's `CompressionCodec`.
        span: The bytes of the pages.
        dictionary: The dictionary page, if it is apart from them.
        page_starts: The offset of each data page from the first one; empty for a whole chunk.
        page_rows: The number of rows of each data page; of a whole chunk, of all together.
        num_values: The number of values of a whole chunk.
    """

    codec: int
    span: _Span
    dictionary: _Span | None
    page_starts: list[int]
    page_rows: list[int]
    num_values: int


def decode_compiled(
    schema: FileSchema,
    plans: Sequence[LeafPlan],
    fetched: FetchedBytes,
    num_rows: Sequence[int],
    positions: RowSelection,
    texts: Collection[int],
    *,
    checksums: bool,
) -> dict[int, pa.ChunkedArray]:
    """Decode the columns that the extension supports; pyarrow decodes the others, and what it refuses.

    Args:
        plans: What was read of some leaves, whose pages have the same rows.
        num_rows: The number of rows in the pages of each row group.
        positions: The rows to select, counted in the pages of each leaf.
        texts: Ordinals of the top-level fields to decode to dictionary arrays.
        checksums: Whether pages that have a checksum are compared with it.

    Returns:
        The columns by ordinal of the top-level field.
    """
    handle = schema.handle
    if handle is None or positions.is_empty:
        return {}
    total = sum(num_rows)
    reads_lists = total <= COMPILED_LIST_ROWS or positions.num_rows * COMPILED_LISTS_PART <= total
    by_root: dict[int, list[LeafPlan]] = {}
    for plan in plans:
        by_root.setdefault(plan.leaf.root_ordinal, []).append(plan)
    fields = [
        (root, root in texts, [_chunks(plan, fetched, num_rows) for plan in leaves])
        for root, leaves in by_root.items()
        if len(leaves) == schema.compiled.get(root)  # a struct is decoded as a whole
        and (reads_lists or not any(plan.leaf.max_repetition_level for plan in leaves))
    ]
    if not fields:
        return {}
    starts, stops = positions.starts.tobytes(), positions.stops.tobytes()
    found = native.attempt(lambda extension: extension.decode(handle, fields, starts, stops, checksums))
    if found is None:
        return {}
    columns = pa.record_batch(found).columns
    return {root: pa.chunked_array([column]) for (root, *_), column in zip(fields, columns, strict=True)}


def _chunks(plan: LeafPlan, fetched: FetchedBytes, num_rows: Sequence[int]) -> list[_Chunk]:
    """Return the pages of a leaf as the extension takes them."""
    outlines, chunks = plan.outlines, list[_Chunk]()
    for at, group in enumerate(plan.groups.tolist()):
        codec, num_values = int(outlines.codec[group]), int(outlines.num_values[group])
        chunk = plan.chunks[at] if plan.chunks else None
        if chunk is None:
            first, stop = int(outlines.starts[group]), int(outlines.stops[group])
            num_bytes = stop - first
        else:
            first, num_bytes = chunk.pages[0].start, chunk.num_bytes
        start = fetched.position(first)
        data, place = fetched.between(start, start + num_bytes)
        span = data, place, place + num_bytes
        if chunk is None or chunk.whole:
            rows = [num_rows[at] if chunk is None else chunk.covered.num_rows]
            chunks.append(_Chunk(codec, span, None, [], rows, num_values))
            continue
        dictionary = None
        if at in plan.dictionaries:
            length = plan.dictionaries[at].length
            data, place = fetched.between(start - length, start)
            dictionary = data, place, place + length
        chunks.append(_Chunk(codec, span, dictionary, chunk.page_starts, chunk.page_rows, num_values))
    return chunks
