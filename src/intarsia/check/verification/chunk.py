"""One column chunk, read without any index: pages, rows, nulls and values."""

from __future__ import annotations

from typing import Any

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc

from intarsia.check.verification.findings import Findings
from intarsia.embed.chunk import count_levels, present_counts
from intarsia.embed.leaf_values import LeafReader
from intarsia.errors import CorruptFileError, FormatError
from intarsia.file import ParquetInput
from intarsia.format import thrift
from intarsia.format.enums import Type
from intarsia.format.footer import chunk_range
from intarsia.format.levels import PageLevels
from intarsia.format.pages import Page, iter_pages
from intarsia.format.structs import ColumnChunk, ColumnIndex, ColumnMetaData, OffsetIndex
from intarsia.once import cached_property
from intarsia.records import dataclass
from intarsia.rows.bounds import Bools, Counts
from intarsia.rows.int96 import Int96Values
from intarsia.rows.ordering import Keys, Ordering


@dataclass(frozen=True)
class Extremes:
    """The minimum and maximum key of each page without NaN; arbitrary if a page has none."""

    lows: Keys
    highs: Keys
    has_value: Bools


class CheckedChunk:
    """A column chunk. Contradictions between its pages, and with the footer, become findings.

    Args:
        row_group: Ordinal of the row group.
        reader: Decodes the leaf's values.
        meta: The chunk's metadata in the footer.
        findings: Collects findings on the chunk.

    Attributes:
        offset_index, column_index: Its page index, which has not been checked; None without one.
        order: The name of the leaf's column order, as in `Footer.column_order`.
        walked: Its pages in file order, including the dictionary page, up to the first damaged one.
        is_whole: Whether all pages were found.
        num_values: Number of values of each page, including nulls and empty lists.
        levels: Levels of each data page, if they were needed and could be read.
        rows: Number of rows of each page; None if unknown.
        present: Number of values of each page that are not null; None if unknown.
        values: The values that are not null; None if they cannot be decoded.
        ordering: How the values compare; None if they have no order.
    """

    def __init__(
        self,
        file: ParquetInput,
        row_group: int,
        reader: LeafReader,
        meta: ColumnMetaData,
        findings: Findings,
    ) -> None:
        self.file, self.reader, self.meta, self.findings = file, reader, meta, findings
        self.leaf = reader.leaf
        self.order = file.footer.column_order(self.leaf)
        self.total_order = self.order == "IEEE_754_TOTAL_ORDER"
        self.num_rows = file.footer.metadata.row_groups[row_group].num_rows
        self.start, self.stop = chunk_range(meta)
        column_chunk = file.footer.chunk(row_group, self.leaf)
        self.offset_index, self.column_index = read_page_index(file, column_chunk, findings)
        if self.offset_index is not None or self.column_index is not None:
            findings.note_writer("page index", file.trust(self.leaf).doubt_of_page_index(column_chunk))
        self.data = file.source.read(self.start, self.stop)
        self.walked, self.is_whole = self._walk()
        self.pages = [page for page in self.walked if page.is_data]
        self.num_values = np.array([page.num_values for page in self.pages], dtype=np.int64)
        self.levels = self._read_levels()
        self.rows = self._count_rows()
        if self.rows is not None and self.rows.sum() != self.num_rows:
            message = f"the pages have {self.rows.sum()} rows, but the row group has {self.num_rows}"
            findings.add("row-count", message)
        self.ordering: Ordering | None = None
        self.present, self.values = self._decode()

    def _walk(self) -> tuple[list[Page], bool]:
        """Return the pages up to the first damaged one, and whether these are all."""
        pages: list[Page] = []
        expected = self.meta.num_values
        try:
            for page in iter_pages(self.data, expected):
                pages.append(page)  # noqa: PERF402 - keeps the pages before a damaged one
        except CorruptFileError as error:
            offset = pages[-1].stop if pages else 0
            self.findings.add("unreadable-pages", f"at byte {offset} of the chunk: {error.message}")
            return pages, False
        values = sum(page.num_values for page in pages if page.is_data)
        if values != expected:
            message = f"the pages have {values} values, but the footer claims {expected}"
            self.findings.add("value-count", message)
        return pages, values == expected

    def _read_levels(self) -> list[PageLevels] | None:
        index, sizes = self.column_index, self.meta.size_statistics
        histograms = [sizes.repetition_level_histogram, sizes.definition_level_histogram] if sizes else []
        if index is not None:
            histograms += [index.repetition_level_histograms, index.definition_level_histograms]
        # for a flat leaf with at most one optional level, values and nulls suffice
        if self.leaf.is_flat and not (self.leaf.max_definition_level > 1 and any(histograms)):
            return None
        try:
            return [count_levels(self.data, page, self.meta, self.leaf) for page in self.pages]
        except FormatError as error:
            message = f"repetition and definition levels cannot be read: {error.message}"
            self.findings.add("unchecked", message)
            return None

    def _count_rows(self) -> Counts | None:
        if self.leaf.is_flat:
            return self.num_values
        if self.levels is not None:
            return np.array([page.num_rows for page in self.levels], dtype=np.int64)
        claims = [page.header.data_page_header_v2 for page in self.pages]
        if any(claim is None for claim in claims):
            return None
        return np.array([claim.num_rows for claim in claims if claim is not None], dtype=np.int64)

    def _decode(self) -> tuple[Counts | None, pa.ChunkedArray | None]:
        """Return the number of values of each page that are not null, and these values."""
        try:
            self.ordering = self.reader.ordering
            if not self.pages:
                return self.num_values, None
            column = self.reader.read(self.data, self.meta, self.num_rows, as_dictionary=False)
        except FormatError as error:
            self.findings.add("unreadable-pages", error.message)
            return None if self.pages else self.num_values, None
        present = present_counts(self.num_values, self.levels, column)
        if present is None or present.sum() != len(column) - column.null_count:
            self.findings.add("unchecked", "the values cannot be assigned to pages")
            return None, None
        return present, column.drop_null() if column.null_count else column

    @property
    def null_counts(self) -> Counts | None:
        """Number of nulls of each page; for a leaf in a list, including null and empty lists."""
        return None if self.present is None else self.num_values - self.present

    def are_wrong_nulls(self, claimed: Any, actual: Any) -> Any:
        """Compare null counts. Of a leaf in a list they may be lower, because no reader prunes with them.

        Arrow before version 26 leaves out null and empty lists of structs.
        """
        return claimed > actual if self.leaf.max_repetition_level else claimed != actual

    @cached_property
    def first_values(self) -> Counts:
        """The ordinal in `values` at which each page starts."""
        assert self.present is not None
        return np.cumsum(self.present) - self.present

    def page_values(self, page: int | None) -> pa.ChunkedArray:
        """Return the values of one page, or of all."""
        assert self.values is not None
        assert self.present is not None
        if page is None:
            return self.values
        return self.values.slice(int(self.first_values[page]), int(self.present[page]))

    def keys(self, page: int | None) -> Keys:
        """Return the keys of the values of one page, or of all."""
        assert self.ordering is not None
        parts = [self.ordering.keys(piece) for piece in self.page_values(page).chunks]
        return np.concatenate(parts) if parts else np.empty(0, dtype=self.ordering.dtype)

    @cached_property
    def numbers(self) -> npt.NDArray[Any]:
        """The keys of all values, if keys are numbers of fixed width."""
        return self.keys(None)

    @cached_property
    def nan_counts(self) -> Counts | None:
        """Number of NaNs of each page; None for types without NaN, or if unknown."""
        if self.ordering is None or not self.ordering.is_float or self.values is None:
            return None
        return self._sums(np.isnan(self.numbers))

    @cached_property
    def value_bytes(self) -> Counts | None:
        """Size of the values of each page in bytes; None for types of fixed width, or if unknown."""
        # a decimal may be stored in more bytes than necessary, which decoding loses
        if self.leaf.type != Type.BYTE_ARRAY or self.leaf.logical_name == "DECIMAL" or self.values is None:
            return None
        return self._sums(pc.binary_length(self.values).to_numpy())

    @property
    def stored_values(self) -> pa.ChunkedArray:
        """The values as stored bytes, for types that Arrow converts; the chunk must have pages.

        Raises:
            CorruptFileError: If they cannot be decoded.
        """
        return self.reader.stored.read(self.data, self.meta, self.num_rows, as_dictionary=False).drop_null()

    @cached_property
    def int96_values(self) -> Int96Values | str:
        """The stored values of an INT96 chunk that has pages, or why they are unknown."""
        try:
            values = Int96Values(self.stored_values)
        except FormatError as error:
            return error.message
        if self.present is None or len(values.days) != self.present.sum():
            return "the values of each page are unknown"
        return values

    @cached_property
    def level_histograms(self) -> dict[str, Counts]:
        """Histograms of ``repetition`` and ``definition`` levels, a row for each page; none if unknown."""
        highest = self.leaf.max_repetition_level, self.leaf.max_definition_level
        if self.levels is not None:
            repetition = [page.repetition.histogram for page in self.levels]
            definition = [page.definition.histogram for page in self.levels]
        elif highest == (0, 0):
            repetition = definition = list(self.num_values[:, None])
        elif highest == (0, 1) and self.present is not None:
            repetition = list(self.num_values[:, None])
            definition = list(np.stack([self.num_values - self.present, self.present], axis=1))
        else:
            return {}
        found = zip(("repetition", "definition"), (repetition, definition), highest, strict=True)
        return {name: np.array(rows, np.int64).reshape(-1, most + 1) for name, rows, most in found}

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
        if self.ordering.dtype != np.dtype(object):
            # fmin ignores NaN, and equals minimum for integers
            lows[has_value] = np.fmin.reduceat(self.numbers, self.first_values[has_value])
            highs[has_value] = np.fmax.reduceat(self.numbers, self.first_values[has_value])
            if self.ordering.is_float:
                has_value = has_value & ~np.isnan(np.where(has_value, lows, 0.0))
            return Extremes(lows, highs, has_value)
        pairs = [pc.min_max(self.page_values(page)) for page in np.flatnonzero(has_value).tolist()]
        for keys, end in ((lows, "min"), (highs, "max")):
            found = pa.array([pair[end] for pair in pairs], type=self.values.type)
            keys[has_value] = self.ordering.keys(found)
        return Extremes(lows, highs, has_value)

    def _sums(self, marks: npt.NDArray[Any]) -> Counts:
        assert self.present is not None
        totals = np.concatenate([[0], np.cumsum(marks, dtype=np.int64)])
        return np.asarray(totals[self.first_values + self.present] - totals[self.first_values])


def sum_of(by_page: Counts | None, page: int | None) -> int | None:
    """Return the count of one page, or of all; None if unknown."""
    return None if by_page is None else int(by_page.sum() if page is None else by_page[page])


def read_page_index(
    file: ParquetInput, chunk: ColumnChunk, findings: Findings
) -> tuple[OffsetIndex | None, ColumnIndex | None]:
    """Read the page index of a chunk, without checking it."""

    def read(cls: Any, rule: str, offset: int | None, length: int | None) -> Any:
        if offset is None or not length:
            return None
        stop = offset + length
        if not file.footer.contains_range(offset, stop):
            findings.add(rule, f"bytes {offset} to {stop} are outside the file's body", index=cls.__name__)
            return None
        try:
            return thrift.parse(cls, file.source.read(offset, stop))[0]
        except CorruptFileError as error:
            findings.add(rule, error.message, index=cls.__name__)
            return None

    return (
        read(OffsetIndex, "offset-index-unreadable", chunk.offset_index_offset, chunk.offset_index_length),
        read(ColumnIndex, "column-index-unreadable", chunk.column_index_offset, chunk.column_index_length),
    )
