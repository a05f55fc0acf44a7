"""Decodes selected pages, and takes the wanted rows of them.

Leaves whose pages cover the same rows are decoded together; leaves of one nested column that cover different
rows are decoded separately, cut to the wanted rows, and joined.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Sequence, Set
from dataclasses import dataclass
from typing import Any

import numpy as np
import pyarrow as pa

from intarsia.arrow.joining import join_columns
from intarsia.errors import CorruptFileError, FormatError
from intarsia.file import ParquetInput
from intarsia.file.chunk_plan import ChunkPlan
from intarsia.file.pages import data_pages_at
from intarsia.file.synthetic import LeafPages, SyntheticSchema, decode_pages
from intarsia.format.page_header import Page, parse_page
from intarsia.format.structs import PageType
from intarsia.rows.selection import RowSelection

#: Up to this many ranges, slices are joined; above it, rows are taken by their ordinals.
_FEW_RANGES = 8


class PageIndexMismatchError(Exception):
    """The pages do not hold the rows that the OffsetIndex says; the row group has to be read without it."""


@dataclass(frozen=True)
class FetchedPages:
    """The bytes of a plan.

    Attributes:
        plan: What was planned.
        data: Its data pages, end to end; for a whole chunk all of its bytes.
        dictionary: The dictionary page, if a page needs it; empty otherwise.
    """

    plan: ChunkPlan
    data: bytes
    dictionary: bytes = b""


def parse_pages(plan: ChunkPlan, data: bytes) -> list[Page]:
    """The headers of the data pages of a plan, which must be where the OffsetIndex has them.

    Raises:
        PageIndexMismatchError: If they are not.
    """
    try:
        return data_pages_at(data, plan.page_starts)
    except CorruptFileError as error:
        raise PageIndexMismatchError(f"the pages of {plan.leaf.name!r} are elsewhere: {error}") from error


def pages_use_dictionary(plan: ChunkPlan, data: bytes) -> bool:
    """Whether any of the pages read needs the dictionary page, by their headers."""
    return any(page.uses_dictionary for page in parse_pages(plan, data))


class PageDecoder:
    """Decodes pages of one file.

    Args:
        file: The file, whose schema is used.
    """

    def __init__(self, file: ParquetInput) -> None:
        self._file = file

    def decode(self, chunks: Sequence[FetchedPages], rows: RowSelection) -> dict[int, pa.ChunkedArray]:
        """The wanted rows of some top-level fields, each reduced to the leaves that are given.

        Args:
            chunks: Pages of leaves; all wanted leaves of a field have to be given.
            rows: The rows wanted, relative to the row group; every chunk covers them.

        Returns:
            For each top-level field (by ordinal) its values, ``rows.num_rows`` of them.

        Raises:
            PageIndexMismatchError: If pages hold other rows than the OffsetIndex says.
            CorruptFileError: If pyarrow cannot decode the pages.
        """
        together: dict[Any, list[FetchedPages]] = defaultdict(list)
        for chunk in chunks:
            # a page index of nested V1 pages can only be checked by counting the decoded rows
            together[chunk.plan.covered, chunk.plan.whole].append(chunk)
        pieces: dict[int, list[pa.ChunkedArray]] = defaultdict(list)
        for (pages, whole), group in together.items():
            covered = pages
            if not whole and all(chunk.plan.leaf.is_flat for chunk in group):
                # the headers have told the rows of each page, so decoding can stop behind the last one wanted
                covered = covered.clip(0, _stop(rows))
            table = self._decode_group(group, covered.num_rows)
            roots = sorted({chunk.plan.leaf.root_ordinal for chunk in group})
            for root, column in zip(roots, table.columns, strict=True):
                pieces[root].append(take_rows(column, covered, rows))
        return {
            root: found[0] if len(found) == 1 else join_columns(found, self._join_type(root, chunks))
            for root, found in pieces.items()
        }

    def _schema_of(self, group: Sequence[FetchedPages]) -> SyntheticSchema:
        return self._schema({chunk.plan.leaf.root_ordinal for chunk in group})

    def _schema(self, roots: Set[int]) -> SyntheticSchema:
        fields = tuple(sorted(roots))
        return self._file.metadata.derived(
            ("synthetic schema", fields), lambda: SyntheticSchema.of_fields(self._file.footer, fields)
        )

    def _join_type(self, root: int, chunks: Sequence[FetchedPages]) -> pa.DataType:
        """The type of a field reduced to some leaves, as pyarrow itself would reduce it."""
        schema = self._schema({root})
        given = {chunk.plan.leaf.ordinal for chunk in chunks}
        places = [place for place, leaf in enumerate(schema.leaves) if leaf.ordinal in given]
        return schema.arrow_of(places).field(0).type

    def _decode_group(self, group: Sequence[FetchedPages], num_rows: int) -> pa.Table:
        schema = self._schema_of(group)
        by_ordinal = {chunk.plan.leaf.ordinal: chunk for chunk in group}
        pages: list[LeafPages] = []
        claimed = num_rows
        for place, leaf in enumerate(schema.leaves):
            chunk = by_ordinal.get(leaf.ordinal)
            if chunk is None:
                continue
            values = self._check_rows(chunk)
            if not leaf.is_flat:  # claim more rows than there can be, so that all that come are counted
                claimed = max(claimed, values)
            pages.append(LeafPages(place, chunk.plan.meta, (chunk.dictionary, chunk.data), values))
        names = ", ".join(repr(schema.leaves[given.place].name) for given in pages)
        are_whole = all(chunk.plan.whole for chunk in group)
        try:
            table = decode_pages(schema, pages, claimed, f"the pages of {names}")
        except FormatError as error:
            if len(group) > 1:  # again one by one, which names the column
                for chunk in group:
                    self._decode_group([chunk], num_rows)
            error.path = self._file.path
            if isinstance(error, CorruptFileError):
                if not are_whole:  # the pages or their index are damaged
                    raise PageIndexMismatchError(error.message) from error
                error.offset = group[0].plan.pages[0].start
            raise
        if table.num_rows != num_rows:
            contradiction = f"{names} gave {table.num_rows} rows, not {num_rows}"
            if are_whole:
                raise CorruptFileError(contradiction, path=self._file.path, struct="DataPage")
            raise PageIndexMismatchError(contradiction)
        return table

    def _check_rows(self, chunk: FetchedPages) -> int:
        """Values in the pages, after checking each page's rows where its header tells them."""
        plan = chunk.plan
        if plan.whole:
            return plan.meta.num_values
        if chunk.dictionary:
            _check_dictionary(plan, chunk.dictionary)
        values = 0
        for page, rows in zip(parse_pages(plan, chunk.data), plan.page_rows, strict=True):
            held = page.num_values if plan.leaf.is_flat else None
            if page.header.type == PageType.DATA_PAGE_V2 and page.header.data_page_header_v2 is not None:
                held = page.header.data_page_header_v2.num_rows
            if held is not None and held != rows:
                raise PageIndexMismatchError(f"a page of {plan.leaf.name!r} holds {held} rows, not {rows}")
            values += page.num_values
        return values


def _check_dictionary(plan: ChunkPlan, data: bytes) -> None:
    """The bytes before the first data page must be one dictionary page; else a data page is missing."""
    try:
        page = parse_page(data)
    except FormatError as error:
        raise PageIndexMismatchError(
            f"no dictionary page of {plan.leaf.name!r} before its data pages: {error}"
        ) from error
    if page.header.type != PageType.DICTIONARY_PAGE or page.stop != len(data):
        raise PageIndexMismatchError(
            f"more than a dictionary page lies before the pages of {plan.leaf.name!r}"
        )


# --- rows --------------------------------------------------------------------------------------------


def _stop(rows: RowSelection) -> int:
    """The row after the last one."""
    return 0 if rows.is_empty else int(rows.stops[-1])


def take_rows(column: pa.ChunkedArray, covered: RowSelection, wanted: RowSelection) -> pa.ChunkedArray:
    """Rows ``wanted`` of a column that holds rows ``covered``.

    Args:
        column: ``covered.num_rows`` values.
        covered: The rows it holds.
        wanted: Rows among them.
    """
    if covered == wanted:
        return column
    if wanted.is_empty:
        return column.slice(0, 0)
    before = np.cumsum(covered.stops - covered.starts) - (covered.stops - covered.starts)
    place = np.searchsorted(covered.starts, wanted.starts, side="right") - 1
    starts = wanted.starts - covered.starts[place] + before[place]
    lengths = wanted.stops - wanted.starts
    if len(wanted) <= _FEW_RANGES or not _can_take(column.type):
        slices = [
            column.slice(start, length)
            for start, length in zip(starts.tolist(), lengths.tolist(), strict=True)
        ]
        chunks = [chunk for piece in slices for chunk in piece.chunks]
        return pa.chunked_array(chunks, type=column.type)
    return column.take(pa.array(RowSelection(starts, starts + lengths).rows()))


def _can_take(data_type: pa.DataType) -> bool:
    """Whether pyarrow can take rows of a type: not of views, nor of what holds them."""
    if isinstance(data_type, pa.BaseExtensionType):
        return _can_take(data_type.storage_type)
    if pa.types.is_string_view(data_type) or pa.types.is_binary_view(data_type):
        return False
    return all(_can_take(data_type.field(place).type) for place in range(data_type.num_fields))
