"""Decoding of selected pages, and selection of rows in them.

Leaves whose pages cover the same rows are decoded together. Leaves of one nested column whose pages cover
different rows are decoded separately, reduced to the selected rows, and joined.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Sequence, Set
from dataclasses import dataclass
from functools import cached_property
from typing import Any

import numpy as np
import pyarrow as pa

from intarsia.arrow.nested import join_columns
from intarsia.errors import CorruptFileError, FormatError, UnsupportedFeatureError
from intarsia.file import ParquetInput
from intarsia.file.chunk_plan import ChunkPlan
from intarsia.file.decompress import check_expansion
from intarsia.file.page_values import check_values
from intarsia.file.pages import data_pages_at, dictionary_page
from intarsia.file.synthetic import LeafPages, SyntheticSchema, decode_pages
from intarsia.format.enums import PageType
from intarsia.format.page_header import PAGE_CHECKSUM, Page
from intarsia.rows.selection import RowSelection

#: Up to this many ranges, slices are joined; for more ranges, rows are taken by their ordinals.
_FEW_RANGES = 8

#: If fewer than one value in this many is selected, values are taken by their ordinals, otherwise by a mask.
_MIN_TAKEN = 4


class PageIndexMismatchError(Exception):
    """The pages contradict the OffsetIndex, so the row group has to be read without it."""


@dataclass(frozen=True)
class FetchedPages:
    """The bytes for a plan.

    Attributes:
        plan: The plan.
        data: The concatenated data pages; for a whole chunk, all of its bytes.
        dictionary: The dictionary page, if a page needs it; empty otherwise.
    """

    plan: ChunkPlan
    data: bytes
    dictionary: bytes = b""


def parse_pages(plan: ChunkPlan, data: bytes) -> list[Page]:
    """Parse the headers of a plan's data pages at the offsets in the OffsetIndex.

    Raises:
        PageIndexMismatchError: If the data pages are at other offsets.
    """
    try:
        return data_pages_at(data, plan.page_starts)
    except CorruptFileError as error:
        raise PageIndexMismatchError(
            f"the pages of {plan.leaf.name!r} are at other offsets: {error}"
        ) from error


def pages_use_dictionary(plan: ChunkPlan, data: bytes) -> bool:
    """Return whether any of the pages needs the dictionary page, according to their headers."""
    return any(page.uses_dictionary for page in parse_pages(plan, data))


class PageDecoder:
    """A decoder for pages of one file.

    Args:
        file: The file.
    """

    def __init__(self, file: ParquetInput) -> None:
        self._file = file

    def decode(self, chunks: Sequence[FetchedPages], rows: RowSelection) -> dict[int, pa.ChunkedArray]:
        """Decode the selected rows of top-level fields, each reduced to the given leaves.

        Args:
            chunks: Pages of all leaves to read; leaves of one field must be in the same call.
            rows: The rows to return, relative to the row group; every chunk covers them.

        Returns:
            The values of each top-level field, ``rows.num_rows`` of them, by ordinal of the field.

        Raises:
            PageIndexMismatchError: If the rows in the pages contradict the OffsetIndex.
            CorruptFileError: If pyarrow cannot decode the pages.
        """
        together: dict[Any, list[FetchedPages]] = defaultdict(list)
        for chunk in chunks:
            # for nested V1 pages, only the number of decoded rows shows that the page index is correct
            together[chunk.plan.covered, chunk.plan.whole].append(chunk)
        pieces: dict[int, list[pa.ChunkedArray]] = defaultdict(list)
        for (pages, whole), group in together.items():
            covered = pages
            if not whole and all(chunk.plan.leaf.is_flat for chunk in group):
                # the headers contain the rows of each page, so decoding can stop after the last selected row
                covered = covered.clip(0, _stop(rows))
            table = self._decode_group(group, covered.num_rows)
            roots = sorted({chunk.plan.leaf.root_ordinal for chunk in group})
            taken = RowTaker(covered, rows)
            for root, column in zip(roots, table.columns, strict=True):
                pieces[root].append(taken.of(column))
        return {
            root: found[0] if len(found) == 1 else join_columns(found, self._join_type(root, chunks))
            for root, found in pieces.items()
        }

    def _schema_of(self, group: Sequence[FetchedPages]) -> SyntheticSchema:
        return self._schema({chunk.plan.leaf.root_ordinal for chunk in group})

    def _schema(self, roots: Set[int]) -> SyntheticSchema:
        return self._file.schema.part(tuple(sorted(roots)))

    def _join_type(self, root: int, chunks: Sequence[FetchedPages]) -> pa.DataType:
        """Return the type of a field reduced to some leaves, as pyarrow reduces it."""
        schema = self._schema({root})
        given = {chunk.plan.leaf.ordinal for chunk in chunks}
        ordinals = [ordinal for ordinal, leaf in enumerate(schema.leaves) if leaf.ordinal in given]
        return schema.arrow_of(ordinals).field(0).type

    def _decode_group(self, group: Sequence[FetchedPages], num_rows: int) -> pa.Table:
        schema = self._schema_of(group)
        by_ordinal = {chunk.plan.leaf.ordinal: chunk for chunk in group}
        pages: list[LeafPages] = []
        claimed = num_rows
        for ordinal, leaf in enumerate(schema.leaves):
            chunk = by_ordinal.get(leaf.ordinal)
            if chunk is None:
                continue
            values = self._check_rows(chunk)
            if not leaf.is_flat:  # more rows than there can be, so that pyarrow decodes all of them
                claimed = max(claimed, values)
            places = chunk.plan.pages
            if chunk.dictionary and chunk.plan.dictionary is not None:
                places = (chunk.plan.dictionary, *places)
            pages.append(LeafPages(ordinal, chunk.plan.meta, (chunk.dictionary, chunk.data), values, places))
        names = ", ".join(repr(schema.leaves[given.ordinal].name) for given in pages)
        are_whole = all(chunk.plan.whole for chunk in group)
        try:
            created_by = self._file.footer.metadata.created_by
            for given in pages:
                dictionary, data = given.parts
                leaf = schema.leaves[given.ordinal]
                check_values(data, given.num_values, given.meta.codec, leaf, created_by, dictionary)
            table = decode_pages(
                schema, pages, claimed, f"the pages of {names}", checksums=self._file.page_checksums
            )
        except FormatError as error:
            roots = {chunk.plan.leaf.root_ordinal for chunk in group}
            if isinstance(error, UnsupportedFeatureError) and len(group) > 1 and len(roots) == 1:
                error.column = group[0].plan.leaf.path[0]
            elif len(group) > 1:  # decode each column separately, so that the error names the column
                for chunk in group:
                    self._decode_group([chunk], num_rows)
            else:
                error.column = group[0].plan.leaf.name
            error.path = self._file.path
            if isinstance(error, CorruptFileError) and error.reason != PAGE_CHECKSUM:
                if not are_whole:  # the pages or their index are damaged
                    raise PageIndexMismatchError(error.message) from error
                error.offset = group[0].plan.pages[0].start
            raise
        if table.num_rows != num_rows:
            contradiction = f"the pages of {names} have {table.num_rows} rows, not {num_rows}"
            if are_whole:
                raise CorruptFileError(
                    contradiction,
                    reason="page-row-count-mismatch",
                    path=self._file.path,
                    column=group[0].plan.leaf.name if len(group) == 1 else None,
                    struct="DataPage",
                )
            raise PageIndexMismatchError(contradiction)
        return table

    def _check_rows(self, chunk: FetchedPages) -> int:
        """Check the number of rows in each page whose header has it, and return the number of values."""
        plan = chunk.plan
        if plan.whole:
            return plan.meta.num_values
        if chunk.dictionary:
            _check_dictionary(plan, chunk.dictionary)
        values = 0
        for page, rows in zip(parse_pages(plan, chunk.data), plan.page_rows, strict=True):
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


def _check_dictionary(plan: ChunkPlan, data: bytes) -> None:
    """Check that the bytes before the first data page are exactly one dictionary page."""
    try:
        page = dictionary_page(data)
    except FormatError as error:
        raise PageIndexMismatchError(
            f"there is no dictionary page before the data pages of {plan.leaf.name!r}: {error}"
        ) from error
    if page.stop != len(data):
        raise PageIndexMismatchError(
            f"the bytes before the data pages of {plan.leaf.name!r} are not just a dictionary page"
        )


# --- rows --------------------------------------------------------------------------------------------


def _stop(rows: RowSelection) -> int:
    """Return the row after the last selected row."""
    return 0 if rows.is_empty else int(rows.stops[-1])


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
