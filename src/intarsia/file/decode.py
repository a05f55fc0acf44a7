"""Decoding of selected pages, and selection of rows in them.

Leaves whose pages cover the same rows are decoded together. Leaves of one nested column whose pages cover
different rows are decoded separately, reduced to the selected rows, and joined.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Hashable, Iterator, Mapping, Sequence, Set
from dataclasses import replace
from functools import cached_property
from operator import add
from types import MappingProxyType
from typing import NamedTuple

import numpy as np
import pyarrow as pa

from intarsia.arrow.nested import join_columns
from intarsia.errors import CorruptFileError, FormatError, UnsupportedFeatureError
from intarsia.file import ParquetInput
from intarsia.file.chunk_plan import ChunkPlan
from intarsia.file.decompress import check_expansion
from intarsia.file.fetch import FetchedBytes
from intarsia.file.outlines import ChunkOutlines, Int64s
from intarsia.file.page_values import check_values, is_plausible
from intarsia.file.pages import check_value_counts, data_pages_at, dictionary_page
from intarsia.file.synthetic import Segments, SyntheticSchema, decode
from intarsia.file.trust import parse_writer
from intarsia.format.enums import PageType
from intarsia.format.footer import Leaf
from intarsia.format.page_header import PAGE_CHECKSUM, Page
from intarsia.rows.selection import RowSelection
from intarsia.storage import ByteRange

#: Up to this many ranges, slices are joined; for more ranges, rows are taken by their ordinals.
_FEW_RANGES = 8

#: If fewer than one value in this many is selected, values are taken by their ordinals, otherwise by a mask.
_MIN_TAKEN = 4

#: pyarrow reads as many bytes behind the chunks of old parquet-mr.
_PADDING_BYTES = 100

#: If fewer than one row in this many is needed, texts with few distinct values are decoded to dictionaries.
_SPARSE = 4


class PageIndexMismatchError(Exception):
    """The pages contradict the OffsetIndex, so the row group has to be read without it."""


class LeafPlan(NamedTuple):
    """What is read of one leaf in some row groups: whole chunks, or pages.

    Attributes:
        leaf: The leaf.
        groups: Ordinals of the row groups.
        outlines: For whole chunks, the leaf's chunks of all row groups, which are sound.
        chunks: Otherwise, the pages of each row group.
        dictionaries: The dictionary pages that the pages need, by position in ``groups``.
        rows: A value that is equal for leaves whose pages have the same rows.
    """

    leaf: Leaf
    groups: Int64s
    outlines: ChunkOutlines | None = None
    chunks: Sequence[ChunkPlan] = ()
    dictionaries: Mapping[int, ByteRange] = MappingProxyType({})
    rows: Hashable = None

    @classmethod
    def of_pages(
        cls,
        leaf: Leaf,
        groups: Int64s,
        chunks: Sequence[ChunkPlan],
        dictionaries: Mapping[int, ByteRange],
    ) -> LeafPlan:
        """Return a plan for the pages of each row group."""
        # for nested V1 pages, only the number of decoded rows shows that the page index is correct
        rows = tuple([(chunk.covered, chunk.whole) for chunk in chunks])
        return cls(leaf, groups, None, chunks, dictionaries, rows)

    @property
    def is_whole(self) -> bool:
        """Whether all chunks are read as a whole."""
        return all(chunk.whole for chunk in self.chunks)

    def ranges(self) -> list[ByteRange]:
        """Return the ranges to read."""
        if self.outlines is None:
            found = list(self.dictionaries.values())
            for chunk in self.chunks:
                found += chunk.pages
            return found
        starts, stops = self.outlines.starts[self.groups], self.outlines.stops[self.groups]
        return list(map(ByteRange, starts.tolist(), stops.tolist()))


def padded(file: ParquetInput, outlines: list[ChunkOutlines]) -> list[ChunkOutlines]:
    """Return whole chunks with the bytes behind them that their values may need.

    Before 1.2.9, parquet-mr left the header of the dictionary page out of the size of a chunk (PARQUET-816).
    """
    name, version = parse_writer((file.footer.metadata.created_by or b"").decode("utf-8", "replace"))
    if name != "parquet-mr" or version >= (1, 2, 9):
        return outlines
    end = file.footer.start
    return [replace(of_leaf, stops=np.minimum(of_leaf.stops + _PADDING_BYTES, end)) for of_leaf in outlines]


class PageDecoder:
    """A decoder for pages of one file: from pages to selected rows.

    Args:
        file: The file.
    """

    def __init__(self, file: ParquetInput) -> None:
        self._file = file
        self._edges = file.footer.row_group_starts

    def decode(
        self, plans: Sequence[LeafPlan], fetched: FetchedBytes, rows: RowSelection
    ) -> dict[int, pa.ChunkedArray]:
        """Decode the selected rows of top-level fields, each reduced to the given leaves.

        Args:
            plans: What was read of all leaves, in the order of the leaves, in the same row groups; leaves of
                one field must be in the same call. Of several row groups, only top-level columns.
            fetched: The bytes; those of a leaf are in one part.
            rows: The rows to return; every plan covers them.

        Returns:
            The values of each top-level field, ``rows.num_rows`` of them, by ordinal of the field.

        Raises:
            PageIndexMismatchError: If the rows in the pages contradict the OffsetIndex.
            CorruptFileError: If pyarrow cannot decode the pages.
        """
        together: dict[Hashable, list[LeafPlan]] = defaultdict(list)
        for plan in plans:
            together[plan.rows].append(plan)
        pieces: dict[int, list[pa.ChunkedArray]] = defaultdict(list)
        for of_pages in together.values():
            covered, num_rows = self._covered(of_pages, rows)
            is_sparse = len(num_rows) > 1 and rows.num_rows * _SPARSE < covered.num_rows
            table = self._decode_together(of_pages, fetched, num_rows, is_sparse=is_sparse)
            taken = RowTaker(covered, rows)
            roots = dict.fromkeys([plan.leaf.root_ordinal for plan in of_pages])
            for root, column in zip(roots, table.columns, strict=True):
                pieces[root].append(taken.of(column))
            if is_sparse:
                for plan in of_pages:
                    root = plan.leaf.root_ordinal
                    pieces[root] = [_plain(pieces[root][0], self._file.leaf_types[plan.leaf.ordinal])]
        return {
            root: found[0] if len(found) == 1 else join_columns(found, self._join_type(root, plans))
            for root, found in pieces.items()
        }

    def _covered(self, plans: Sequence[LeafPlan], wanted: RowSelection) -> tuple[RowSelection, list[int]]:
        """Return the rows in pages up to the last selected row, and their number in each row group."""
        first = plans[0]
        starts = self._edges[first.groups]
        if first.outlines is not None:
            stops = self._edges[first.groups + 1]
            return RowSelection.union_of(starts, stops), (stops - starts).tolist()
        shifted = [
            chunk.covered.shift(start) for chunk, start in zip(first.chunks, starts.tolist(), strict=True)
        ]
        if not first.chunks[-1].whole and all(plan.leaf.is_flat for plan in plans):
            # the headers contain the rows of each page, so decoding can stop after the last selected row
            shifted[-1] = shifted[-1].clip(0, int(wanted.stops[-1]))
        num_rows = [rows.num_rows for rows in shifted]
        if len(shifted) == 1:
            return shifted[0], num_rows
        ranges = (np.concatenate([getattr(one, name) for one in shifted]) for name in ("starts", "stops"))
        return RowSelection.union_of(*ranges), num_rows

    def _schema(self, roots: Set[int]) -> SyntheticSchema:
        return self._file.schema.part(tuple(sorted(roots)))

    def _join_type(self, root: int, plans: Sequence[LeafPlan]) -> pa.DataType:
        """Return the type of a field reduced to some leaves, as pyarrow reduces it."""
        schema = self._schema({root})
        ordinals = [plan.leaf.ordinal for plan in plans if plan.leaf.root_ordinal == root]
        return schema.arrow_of([schema.positions[ordinal] for ordinal in ordinals]).field(0).type

    def _decode_together(
        self, plans: Sequence[LeafPlan], fetched: FetchedBytes, num_rows: list[int], *, is_sparse: bool
    ) -> pa.Table:
        """Decode leaves whose pages have the same rows."""
        file, leaves = self._file, [plan.leaf for plan in plans]
        path = file.path_of(int(plans[0].groups[0]))
        schema = self._schema({leaf.root_ordinal for leaf in leaves})
        names = ", ".join([repr(leaf.name) for leaf in leaves])
        expected = sum(num_rows)
        segments = [self._segments(plan, schema.positions[plan.leaf.ordinal], fetched) for plan in plans]
        claimed = num_rows
        if len(num_rows) == 1 and not all(leaf.is_flat for leaf in leaves):
            # more rows than there can be, so that pyarrow decodes all of them
            claimed = [max(expected, *(of_leaf.num_values[0] for of_leaf in segments))]
        try:
            for plan, of_leaf in zip(plans, segments, strict=True):
                self._check_values(plan, of_leaf, fetched)
            table = decode(
                schema,
                segments,
                claimed,
                fetched.parts,
                f"the pages of {names}",
                as_dictionary=[plan.leaf.name for plan in plans if self._repeats_texts(plan)]
                if is_sparse
                else (),
                checksums=file.page_checksums,
                encodings=self._encodings(plans),
                offset_of=fetched.offset,
            )
        except FormatError as error:
            roots = {plan.leaf.root_ordinal for plan in plans}
            if isinstance(error, UnsupportedFeatureError) and len(plans) > 1 and len(roots) == 1:
                error.column = plans[0].leaf.path[0]
            elif len(plans) > 1:  # decode each column separately, so that the error names the column
                for plan in plans:
                    self._decode_together([plan], fetched, num_rows, is_sparse=False)
            else:
                error.column = plans[0].leaf.name
            error.path = path
            if isinstance(error, CorruptFileError) and error.reason != PAGE_CHECKSUM:
                if not plans[0].is_whole:  # the pages or their index are damaged
                    raise PageIndexMismatchError(error.message) from error
                error.offset = fetched.offset(segments[0].starts[0])
            raise
        if table.num_rows != expected:
            contradiction = f"the pages of {names} have {table.num_rows} rows, not {expected}"
            if plans[0].is_whole:
                raise CorruptFileError(
                    contradiction,
                    reason="page-row-count-mismatch",
                    path=path,
                    column=plans[0].leaf.name if len(plans) == 1 else None,
                    struct="DataPage",
                )
            raise PageIndexMismatchError(contradiction)
        return table

    def _encodings(self, plans: Sequence[LeafPlan]) -> Iterator[int]:
        """Yield the encodings in the footer, which are needed only for an error."""
        for plan in plans:
            for group in plan.groups.tolist():
                yield from self._file.footer.chunk_metadata(group, plan.leaf).encodings

    def _segments(self, plan: LeafPlan, ordinal: int, fetched: FetchedBytes) -> Segments:
        """Return the segments of a leaf, whose pages have the rows that the page index claims."""
        if plan.outlines is not None:
            of_groups = plan.outlines.of_groups(plan.groups)
            starts = list(map(fetched.position, of_groups.starts.tolist()))
            stops = list(map(add, starts, (of_groups.stops - of_groups.starts).tolist()))
            counts = of_groups.num_values, of_groups.uncompressed_bytes, of_groups.codec
            return Segments(ordinal, starts, stops, *(values.tolist() for values in counts))
        found = []
        for position, chunk in enumerate(plan.chunks):
            meta = chunk.meta
            start = fetched.position(chunk.pages[0].start)
            stop = start + chunk.num_bytes
            num_values = meta.num_values
            if not chunk.whole:
                data, place = fetched.between(start, stop)
                num_values = _check_rows(chunk, data, place, place + chunk.num_bytes)
                dictionary = plan.dictionaries.get(position)
                if dictionary is not None:
                    start -= dictionary.length
                    data, place = fetched.part(start)
                    _check_dictionary(chunk, data, place, place + dictionary.length)
            found.append((start, stop, num_values, meta.total_uncompressed_size, meta.codec))
        return Segments(ordinal, *zip(*found, strict=True))

    def _check_values(self, plan: LeafPlan, found: Segments, fetched: FetchedBytes) -> None:
        """Refuse segments that cannot have the values that they claim."""
        if plan.outlines is not None and len(found.starts) > 1:
            # pyarrow detects a wrong number of values only for all row groups together
            check_value_counts(
                fetched.parts[0], list(zip(found.starts, found.stops, strict=True)), found.num_values
            )
            return
        created_by = self._file.footer.metadata.created_by
        for start, stop, num_values, codec in zip(
            found.starts, found.stops, found.num_values, found.codecs, strict=True
        ):
            is_sure = is_plausible(num_values, stop - start)
            data, place = fetched.part(start) if is_sure else fetched.between(start, stop)
            check_values(data, num_values, codec, plan.leaf, created_by, place, place + stop - start)

    def _repeats_texts(self, plan: LeafPlan) -> bool:
        """Return whether a column of texts has few distinct values, all of which are in dictionary pages.

        Text without a dictionary takes at least 4 bytes for its length.
        """
        texts = pa.string(), pa.large_string()
        if plan.outlines is None or self._file.leaf_types[plan.leaf.ordinal] not in texts:
            return False
        chunks = plan.outlines.of_groups(plan.groups)
        has_dictionary = (chunks.dictionary_pages == 1) & (chunks.data_pages == 1)
        return bool((has_dictionary & (chunks.uncompressed_bytes <= 2 * chunks.num_values)).all())


def _check_rows(plan: ChunkPlan, data: bytes, start: int, stop: int) -> int:
    """Check the number of rows in each page whose header has it, and return the number of values."""
    values = 0
    for page, rows in zip(parse_pages(plan, data, start, stop), plan.page_rows, strict=True):
        found = page.num_values if plan.leaf.is_flat else None
        if page.header.type == PageType.DATA_PAGE_V2 and page.header.data_page_header_v2 is not None:
            found = page.header.data_page_header_v2.num_rows
        try:
            check_expansion(page, plan.meta.codec)
        except CorruptFileError as error:  # or it is not a page
            raise PageIndexMismatchError(f"a page of {plan.leaf.name!r}: {error.message}") from error
        if found is not None and found != rows:
            raise PageIndexMismatchError(f"a page of {plan.leaf.name!r} has {found} rows, not {rows}")
        values += page.num_values
    return values


def parse_pages(plan: ChunkPlan, data: bytes, start: int, stop: int) -> list[Page]:
    """Parse the headers of a plan's data pages at the offsets in the OffsetIndex.

    Args:
        plan: The plan.
        data: Bytes that contain the pages.
        start: Offset of the first page in them.
        stop: Offset of the end of the last page.

    Raises:
        PageIndexMismatchError: If the data pages are at other offsets.
    """
    try:
        return data_pages_at(data, [*[start + page for page in plan.page_starts], stop])
    except CorruptFileError as error:
        raise PageIndexMismatchError(
            f"the pages of {plan.leaf.name!r} are at other offsets: {error}"
        ) from error


def _check_dictionary(plan: ChunkPlan, data: bytes, start: int, stop: int) -> None:
    """Check that the bytes before the first data page are exactly one dictionary page."""
    try:
        page = dictionary_page(data, start)
    except FormatError as error:
        raise PageIndexMismatchError(
            f"there is no dictionary page before the data pages of {plan.leaf.name!r}: {error}"
        ) from error
    if page.stop != stop:
        raise PageIndexMismatchError(
            f"the bytes before the data pages of {plan.leaf.name!r} are not just a dictionary page"
        )


def _plain(column: pa.ChunkedArray, data_type: pa.DataType) -> pa.ChunkedArray:
    """Return the values of dictionary arrays; other columns have the type already."""
    if column.type == data_type or not pa.types.is_dictionary(column.type):
        return column
    return column.cast(column.type.value_type).cast(data_type)


# --- rows --------------------------------------------------------------------------------------------


class RowTaker:
    """Selects the same rows of several columns.

    Args:
        covered: The rows of the columns.
        wanted: The rows to select, a subset of ``covered``.
    """

    def __init__(self, covered: RowSelection, wanted: RowSelection) -> None:
        self._num_values = covered.num_rows
        self._positions = _positions(covered, wanted)

    def of(self, column: pa.ChunkedArray) -> pa.ChunkedArray:
        """Return the selected values of a column with one value for each row of ``covered``."""
        positions = self._positions
        if positions is None:
            return column
        if len(positions) == 1:
            return column.slice(int(positions.starts[0]), positions.num_rows)
        if len(positions) <= _FEW_RANGES or not _can_take(column.type):
            slices = [column.slice(start, stop - start) for start, stop in positions]
            return pa.chunked_array([chunk for piece in slices for chunk in piece.chunks], type=column.type)
        if positions.num_rows * _MIN_TAKEN < self._num_values:
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


def _can_take(data_type: pa.DataType) -> bool:
    """Return whether pyarrow's ``take`` supports a type; it does not support views."""
    if isinstance(data_type, pa.BaseExtensionType):
        return _can_take(data_type.storage_type)
    if pa.types.is_string_view(data_type) or pa.types.is_binary_view(data_type):
        return False
    return all(_can_take(data_type.field(ordinal).type) for ordinal in range(data_type.num_fields))
