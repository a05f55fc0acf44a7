"""One column chunk, read without any index: pages, rows, nulls and values."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Any

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc

from intarsia.check.verification.findings import Findings
from intarsia.embed.chunk import count_levels, present_counts
from intarsia.embed.leaf_values import LeafReader
from intarsia.errors import CorruptFileError, FormatError
from intarsia.format.enums import Type
from intarsia.format.footer import Leaf, chunk_range
from intarsia.format.levels import PageLevels
from intarsia.format.pages import Page, iter_pages
from intarsia.format.structs import ColumnMetaData
from intarsia.rows.ordering import Keys, Ordering

Counts = npt.NDArray[np.int64]
Bools = npt.NDArray[np.bool_]


@dataclass(frozen=True)
class Extremes:
    """The minimum and maximum key of each page without NaN; arbitrary if a page has none."""

    lows: Keys
    highs: Keys
    has_value: Bools


@dataclass(frozen=True)
class CheckedChunk:
    """A column chunk after reading it.

    Attributes:
        leaf: Its leaf.
        meta: Its metadata in the footer.
        start: Byte offset of the chunk in the file.
        num_rows: Number of rows in the row group.
        walked: Its pages in file order, including the dictionary page, up to the first damaged one.
        is_whole: Whether all pages were found.
        pages: Its data pages.
        levels: Levels of each data page, if they were needed and could be read.
        rows: Number of rows of each page; None if unknown.
        present: Number of values of each page that are not null; None if unknown.
        values: The values that are not null; None if they cannot be decoded.
        ordering: How the values compare; None if they have no order.
        total_order: Whether the footer declares IEEE 754's total order for them.
        data: Its bytes.
        reader: Decodes the leaf's values.
    """

    leaf: Leaf
    meta: ColumnMetaData
    start: int
    num_rows: int
    walked: Sequence[Page]
    is_whole: bool
    pages: Sequence[Page]
    levels: Sequence[PageLevels] | None
    rows: Counts | None
    present: Counts | None
    values: pa.ChunkedArray | None
    ordering: Ordering | None
    total_order: bool
    data: bytes
    reader: LeafReader

    @property
    def stop(self) -> int:
        """Byte offset of the end of the chunk in the file."""
        return chunk_range(self.meta)[1]

    @cached_property
    def num_values(self) -> Counts:
        """Number of values of each page, including nulls and empty lists."""
        return np.array([page.num_values for page in self.pages], dtype=np.int64)

    @property
    def null_counts(self) -> Counts | None:
        """Number of nulls of each page; for a leaf in a list, including null and empty lists."""
        return None if self.present is None else self.num_values - self.present

    @cached_property
    def first_values(self) -> Counts:
        """The ordinal in `values` at which each page starts."""
        assert self.present is not None
        return np.cumsum(self.present) - self.present

    def page_values(self, page: int) -> pa.ChunkedArray:
        """Return the values of one page."""
        assert self.values is not None
        assert self.present is not None
        return self.values.slice(int(self.first_values[page]), int(self.present[page]))

    def keys(self, values: pa.ChunkedArray) -> Keys:
        """Return the keys of values of this chunk."""
        assert self.ordering is not None
        parts = [self.ordering.keys(piece) for piece in values.chunks]
        return np.concatenate(parts) if parts else np.empty(0, dtype=self.ordering.dtype)

    @cached_property
    def numbers(self) -> npt.NDArray[Any]:
        """The keys of all values, if keys are numbers of fixed width."""
        assert self.values is not None
        return self.keys(self.values)

    @cached_property
    def nan_counts(self) -> Counts | None:
        """Number of NaNs of each page; None for types without NaN, or if unknown."""
        if self.ordering is None or not self.ordering.is_float or self.values is None or self.present is None:
            return None
        return self._sums(np.isnan(self.numbers))

    @cached_property
    def value_bytes(self) -> Counts | None:
        """Size of the values of each page in bytes; None for types of fixed width, or if unknown."""
        # a decimal may be stored in more bytes than necessary, which decoding loses
        if self.leaf.type != Type.BYTE_ARRAY or self.leaf.logical_name == "DECIMAL":
            return None
        if self.values is None or self.present is None:
            return None
        return self._sums(pc.binary_length(self.values).to_numpy())

    @property
    def stored_values(self) -> pa.ChunkedArray:
        """The values as stored bytes, for types that Arrow converts; the chunk must have pages.

        Raises:
            CorruptFileError: If they cannot be decoded.
        """
        column = self.reader.stored.read(self.data, self.meta, self.num_rows, as_dictionary=False)
        return column.drop_null()

    @cached_property
    def level_histograms(self) -> tuple[Counts, Counts] | None:
        """Histograms of repetition and definition levels, with a row for each page; None if unknown."""
        highest = self.leaf.max_repetition_level, self.leaf.max_definition_level
        if self.levels is not None:
            repetition = [page.repetition.histogram for page in self.levels]
            definition = [page.definition.histogram for page in self.levels]
        elif highest == (0, 0):
            repetition = definition = [self.num_values[[page]] for page in range(len(self.pages))]
        elif highest == (0, 1) and self.present is not None:
            repetition = [self.num_values[[page]] for page in range(len(self.pages))]
            definition = list(np.stack([self.num_values - self.present, self.present], axis=1))
        else:
            return None
        rows = np.array(repetition, np.int64), np.array(definition, np.int64)
        return rows[0].reshape(-1, highest[0] + 1), rows[1].reshape(-1, highest[1] + 1)

    @cached_property
    def extremes(self) -> Extremes | None:
        """The extremes of each page; None if values are unknown or have no order."""
        if self.ordering is None or self.values is None or self.present is None:
            return None
        has_value = self.present > 0
        lows = np.empty(len(has_value), dtype=self.ordering.dtype)
        highs = np.empty(len(has_value), dtype=self.ordering.dtype)
        if not has_value.any():
            return Extremes(lows, highs, has_value)
        starts = self.first_values[has_value]
        if self.ordering.dtype != np.dtype(object):
            # fmin ignores NaN, and equals minimum for integers
            lows[has_value] = np.fmin.reduceat(self.numbers, starts)
            highs[has_value] = np.fmax.reduceat(self.numbers, starts)
            if self.ordering.is_float:
                has_value = has_value & ~np.isnan(np.where(has_value, lows, 0.0))
            return Extremes(lows, highs, has_value)
        pairs = [pc.min_max(self.page_values(page)) for page in np.flatnonzero(has_value).tolist()]
        data_type = self.values.type
        lows[has_value] = self.ordering.keys(pa.array([pair["min"] for pair in pairs], type=data_type))
        highs[has_value] = self.ordering.keys(pa.array([pair["max"] for pair in pairs], type=data_type))
        return Extremes(lows, highs, has_value)

    def _sums(self, marks: npt.NDArray[Any]) -> Counts:
        assert self.present is not None
        totals = np.concatenate([[0], np.cumsum(marks, dtype=np.int64)])
        return np.asarray(totals[self.first_values + self.present] - totals[self.first_values])


def read_chunk(
    data: bytes,
    meta: ColumnMetaData,
    num_rows: int,
    reader: LeafReader,
    findings: Findings,
    *,
    levels: bool,
    total_order: bool,
) -> CheckedChunk:
    """Read a chunk, and add findings for contradictions with its pages.

    Args:
        data: Its bytes.
        meta: Its metadata in the footer.
        num_rows: Number of rows in the row group.
        reader: Decodes the leaf's values.
        findings: Collects findings.
        levels: Whether to compute histograms of levels.
        total_order: Whether the footer declares IEEE 754's total order for the leaf.
    """
    leaf = reader.leaf
    walked, is_whole = _walk(data, meta, findings)
    pages = [page for page in walked if page.is_data]
    counted: list[PageLevels] | None = None
    # for a flat leaf with at most one optional level, values and nulls suffice
    if not leaf.is_flat or (levels and leaf.max_definition_level > 1):
        try:
            counted = [count_levels(data, page, meta, leaf) for page in pages]
        except FormatError as error:
            findings.add("unchecked", f"repetition and definition levels cannot be read: {error.message}")
    rows = _rows(leaf, pages, counted)
    if rows is not None and rows.sum() != num_rows:
        findings.add("row-count", f"the pages have {rows.sum()} rows, but the row group has {num_rows}")
    column: pa.ChunkedArray | None = None
    ordering: Ordering | None = None
    try:
        ordering = reader.ordering
        if pages:
            column = reader.read(data, meta, num_rows, as_dictionary=False)
    except FormatError as error:
        findings.add("unreadable-pages", error.message)
    present = None
    if column is not None:
        num_values = np.array([page.num_values for page in pages], dtype=np.int64)
        present = present_counts(num_values, counted, column)
        if present is None or present.sum() != len(column) - column.null_count:
            findings.add("unchecked", "the values cannot be assigned to pages")
            present = column = None
        else:
            column = column.drop_null() if column.null_count else column
    elif not pages:
        present = np.empty(0, dtype=np.int64)
    start, _ = chunk_range(meta)
    return CheckedChunk(
        leaf,
        meta,
        start,
        num_rows,
        walked,
        is_whole,
        pages,
        counted,
        rows,
        present,
        column,
        ordering,
        total_order,
        data,
        reader,
    )


def _walk(data: bytes, meta: ColumnMetaData, findings: Findings) -> tuple[list[Page], bool]:
    """Return the pages up to the first damaged one, and whether these are all."""
    pages: list[Page] = []
    try:
        for page in iter_pages(data, meta.num_values):
            pages.append(page)  # noqa: PERF402 - keeps the pages before a damaged one
    except CorruptFileError as error:
        offset = pages[-1].stop if pages else 0
        findings.add("unreadable-pages", f"at byte {offset} of the chunk: {error.message}")
        return pages, False
    values = sum(page.num_values for page in pages if page.is_data)
    if values != meta.num_values:
        findings.add(
            "value-count", f"the pages have {values} values, but the footer claims {meta.num_values}"
        )
    return pages, values == meta.num_values


def _rows(leaf: Leaf, pages: Sequence[Page], levels: Sequence[PageLevels] | None) -> Counts | None:
    if leaf.is_flat:
        return np.array([page.num_values for page in pages], dtype=np.int64)
    if levels is not None:
        return np.array([page.num_rows for page in levels], dtype=np.int64)
    claims = [page.header.data_page_header_v2 for page in pages]
    if any(claim is None for claim in claims):
        return None
    return np.array([claim.num_rows for claim in claims if claim is not None], dtype=np.int64)
