"""Check the page index and the statistics of a chunk against its pages, or quickly against each other."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from contextlib import suppress
from operator import ne
from typing import Any

import numpy as np
import numpy.typing as npt

from intarsia.check.verification.chunk import CheckedChunk, read_page_index
from intarsia.check.verification.findings import Findings
from intarsia.check.verification.pages import locate_bits
from intarsia.check.verification.statistics import (
    DECLARED_ORDERS,
    are_comparable,
    check_boundary_order,
    check_bounds,
)
from intarsia.embed.leaf_values import LeafReader
from intarsia.errors import CorruptFileError, FormatError
from intarsia.file import ParquetInput
from intarsia.format.enums import BoundaryOrder
from intarsia.format.footer import chunk_range
from intarsia.format.structs import ColumnIndex, ColumnMetaData, OffsetIndex, Statistics
from intarsia.rows.ordering import Ordering
from intarsia.rows.values import human_value, shown


def check_offset_index(chunk: CheckedChunk) -> None:
    """Compare an OffsetIndex with the page headers and the rows of the pages."""
    index = chunk.offset_index
    if index is None:
        return
    findings = chunk.findings.of("OffsetIndex")
    findings.count_checked("offset_indexes")
    if chunk.levels is not None:
        for ordinal, levels in enumerate(chunk.levels):
            if not levels.starts_row:
                message = "the page starts in the middle of a row, which an OffsetIndex does not allow"
                findings.add("page-starts-within-row", message, page=ordinal)
    elif not chunk.leaf.is_flat:
        findings.add("unchecked", "the first rows of pages are unknown")
    locations = index.page_locations
    if len(locations) != len(chunk.pages):
        findings.add("page-count", f"it lists {len(locations)} data pages, but there are {len(chunk.pages)}")
    first_rows = None if chunk.rows is None else (np.cumsum(chunk.rows) - chunk.rows).tolist()
    stop_before = chunk.start  # the actual end of the previous page
    for ordinal, (location, page) in enumerate(zip(locations, chunk.pages, strict=False)):
        stated, offset, size = location.offset, chunk.start + page.start, page.stop - page.start
        header_bytes, claimed = page.body_start - page.start, location.compressed_page_size
        if not chunk.start <= stated < chunk.stop:
            message = f"the page offset is {stated}, outside the chunk, "
            message += f"which is at bytes {chunk.start} to {chunk.stop}"
            findings.add("page-outside-chunk", message, page=ordinal)
        elif stated < stop_before:
            message = f"the page offset is {stated}, before the end of the previous page "
            message += f"at {stop_before}; the actual offset is {offset}"
            findings.add("pages-overlap", message, page=ordinal)
        elif stated != offset:
            message = f"the page offset is {stated}, but the actual offset is {offset}"
            findings.add("page-offset", message, page=ordinal)
        if claimed == size - header_bytes:
            message = f"the page size of {claimed} bytes omits the header of {header_bytes} bytes"
            findings.add("page-size-without-header", message, page=ordinal)
        elif claimed != size:
            message = f"the page size is {claimed} bytes, but the actual size is {size}"
            findings.add("page-size", message, page=ordinal)
        stop_before = offset + size
        if first_rows is not None and (first := location.first_row_index) != first_rows[ordinal]:
            message = f"the first row is {first}, but the actual one is {first_rows[ordinal]}"
            findings.add("first-row-index", message, page=ordinal)
    if chunk.rows is not None:
        for ordinal in np.flatnonzero(chunk.rows == 0).tolist():
            findings.add("empty-page", "no row starts in the page", page=ordinal)
    _check_value_bytes(chunk, index.unencoded_byte_array_data_bytes, findings)


def _check_value_bytes(chunk: CheckedChunk, claimed: Sequence[int] | None, findings: Findings) -> None:
    """Compare the sizes of values with each page."""
    if not claimed or chunk.value_bytes is None:
        return
    if len(claimed) != len(chunk.pages):
        message = f"it has the sizes of the values of {len(claimed)} pages, but there are {len(chunk.pages)}"
        findings.add("unencoded-bytes", message)
        return
    for page, (stated, actual) in enumerate(zip(claimed, chunk.value_bytes.tolist(), strict=True)):
        if stated != actual:
            message = f"the size of the page's values is {stated} bytes, but they have {actual}"
            findings.add("unencoded-bytes", message, page=page)


def check_column_index(chunk: CheckedChunk) -> None:
    """Compare a ColumnIndex with the values of the pages."""
    index, findings = chunk.column_index, chunk.findings.of("ColumnIndex")
    if index is None:
        return
    findings.count_checked("column_indexes")
    if chunk.offset_index is None:
        add_without_offset_index(findings)
    if not has_equal_lengths(index, findings):
        return
    if len(index.null_pages) != len(chunk.pages):
        message = f"it describes {len(index.null_pages)} data pages, but there are {len(chunk.pages)}"
        findings.add("column-index-page-count", message)
        return
    if index.boundary_order not in tuple(BoundaryOrder):
        findings.add("column-index-unreadable", f"the boundary order {index.boundary_order} is invalid")
        return
    are_ordered = are_comparable(chunk, index.nan_counts, findings)
    _check_null_pages(chunk, index, findings)
    nulls = index.null_counts, chunk.null_counts
    _check_counts("null-count", "nulls", *nulls, chunk.are_wrong_nulls, findings)
    if chunk.nan_counts is not None:
        _check_counts("nan-count", "NaNs", index.nan_counts, chunk.nan_counts, ne, findings)
    _check_histograms(chunk, index, findings)
    if are_ordered:
        keys = [
            check_bounds(chunk, low, high, findings.of(findings.index, page))
            for page, (is_null, low, high) in enumerate(
                zip(index.null_pages, index.min_values, index.max_values, strict=True)
            )
            # bounds of a page without values are undefined, and readers ignore them
            if not is_null and (chunk.present is None or chunk.present[page])
        ]
        check_boundary_order(index.boundary_order, keys, findings)


def add_without_offset_index(findings: Findings) -> None:
    """Add a finding for a ColumnIndex without an OffsetIndex."""
    message = "there is no OffsetIndex, so the locations of the pages are unknown"
    findings.add("column-index-without-offset-index", message)


def has_equal_lengths(index: ColumnIndex, findings: Findings) -> bool:
    """Return whether all lists of a ColumnIndex have the same length; if not, add a finding."""
    num_pages = len(index.null_pages)
    for name in ("min_values", "max_values", "null_counts", "nan_counts"):
        values = getattr(index, name)
        if values is not None and len(values) != num_pages:
            message = f"{name} has {len(values)} entries, but null_pages has {num_pages}"
            findings.add("column-index-unreadable", message)
            return False
    return True


def _check_null_pages(chunk: CheckedChunk, index: ColumnIndex, findings: Findings) -> None:
    if chunk.present is None:
        return
    null_pages = np.array(index.null_pages, dtype=bool)
    for page in np.flatnonzero(null_pages & (chunk.present > 0)).tolist():
        message = f"the page is marked as a null page, but has {chunk.present[page]} values"
        findings.add("null-page-with-values", message, page=page)
    for page in np.flatnonzero(~null_pages & (chunk.present == 0)).tolist():
        message = "the page has only nulls, but is not marked as a null page"
        findings.add("null-page-not-marked", message, page=page)


def _check_counts(
    rule: str,
    what: str,
    claimed: Sequence[int] | None,
    actual: npt.NDArray[np.int64] | None,
    are_wrong: Callable[[Any, Any], Any],
    findings: Findings,
) -> None:
    if claimed is None:
        return
    counts = np.array(claimed, dtype=np.int64)
    for page in np.flatnonzero(counts < 0).tolist():
        findings.add("null-count-invalid", f"it counts {counts[page]} {what}", page=page)
    if actual is None:
        return
    for page in np.flatnonzero((counts >= 0) & are_wrong(counts, actual)).tolist():
        findings.add(rule, f"it counts {counts[page]} {what}, but there are {actual[page]}", page=page)


def _check_histograms(chunk: CheckedChunk, index: ColumnIndex, findings: Findings) -> None:
    for name, actual in chunk.level_histograms.items():
        claimed = getattr(index, f"{name}_level_histograms")
        if claimed and len(claimed) != actual.size:
            message = f"the {name} level histograms have {len(claimed)} entries instead of {actual.size}"
            findings.add("level-histogram", message)
        elif claimed:
            by_page = np.array(claimed, dtype=np.int64).reshape(actual.shape)
            for page in np.flatnonzero((by_page != actual).any(axis=1)).tolist():
                findings.add("level-histogram", f"the histogram of {name} levels is wrong", page=page)


def check_chunk_quickly(
    file: ParquetInput, row_group: int, reader: LeafReader, meta: ColumnMetaData, findings: Findings
) -> None:
    """Check the metadata of a chunk for contradictions."""
    footer, leaf = file.footer, reader.leaf
    findings.count_checked("column_chunks")
    offset_index, column_index = read_page_index(file, footer.chunk(row_group, leaf), findings)
    num_rows = footer.metadata.row_groups[row_group].num_rows
    if offset_index is not None:
        _check_locations(offset_index, meta, num_rows, findings.of("OffsetIndex"))
    ordering = None  # of bounds, if the footer declares a known order for them
    if footer.column_order(leaf) in DECLARED_ORDERS:
        with suppress(FormatError):
            ordering = reader.ordering
    extremes = None
    if meta.statistics is not None:
        extremes = _check_statistics(meta, meta.statistics, ordering, findings.of("Statistics"))
    if column_index is not None:
        of_index = findings.of("ColumnIndex")
        if _has_shape(column_index, offset_index, of_index):
            _check_null_counts(column_index.null_counts, meta, of_index)
            _check_bounds(column_index, ordering, extremes, of_index)
    if meta.bloom_filter_offset and locate_bits(file, meta, findings.of("BloomFilter")) is not None:
        findings.count_checked("bloom_filters")


def _check_locations(index: OffsetIndex, meta: ColumnMetaData, num_rows: int, findings: Findings) -> None:
    findings.count_checked("offset_indexes")
    start, stop = chunk_range(meta)
    stop_before, row_before = start, -1
    for page, location in enumerate(index.page_locations):
        stop_here = location.offset + location.compressed_page_size
        if not start <= location.offset < stop_here <= stop:
            message = f"the page is at bytes {location.offset} to {stop_here}, outside the chunk, "
            message += f"which is at bytes {start} to {stop}"
            findings.add("page-outside-chunk", message, page=page)
        elif location.offset < stop_before:
            message = f"the page offset is {location.offset}, before the end of the previous page "
            findings.add("pages-overlap", f"{message}at {stop_before}", page=page)
        row = location.first_row_index
        if not row_before < row < max(1, num_rows) or (page == 0 and row != 0):
            message = f"the page starts at row {row} of {num_rows}, the previous page at row {row_before}"
            if page == 0:
                message = f"the first page starts at row {row}, not 0"
            findings.add("first-row-index", message, page=page)
        stop_before, row_before = max(stop_before, stop_here), row


def _check_statistics(
    meta: ColumnMetaData, statistics: Statistics, ordering: Ordering | None, findings: Findings
) -> tuple[Any, Any] | None:
    """Check the counts and bounds of a chunk; return its bounds as keys if bounds of pages compare."""
    findings.count_checked("statistics")
    nulls = statistics.null_count
    if nulls is not None and not 0 <= nulls <= meta.num_values:
        findings.add("null-count-invalid", f"they count {nulls} nulls among {meta.num_values} values")
    low, high = statistics.min_value, statistics.max_value
    if ordering is None or low is None or high is None:
        return None
    keys = _keys(low, high, ordering, findings)
    # bounds of strings may be truncated differently in the two structures
    return keys if ordering.wire is not None else None


def _keys(low: bytes, high: bytes, ordering: Ordering, findings: Findings) -> tuple[Any, Any] | None:
    """Return two bounds as keys; None, with a finding, if they are damaged or out of order."""
    try:
        low_key, high_key = ordering.decode([low])[0], ordering.decode([high])[0]
    except CorruptFileError as error:
        findings.add("bound-unreadable", error.message)
        return None
    if ordering.is_float and (np.isnan(low_key) or np.isnan(high_key)):
        return None  # only the values show whether that is correct
    low_key, high_key = ordering.cell(low_key), ordering.cell(high_key)
    if low_key > high_key:
        texts = [shown(human_value(ordering.leaf, raw)) for raw in (low, high)]
        findings.add("bounds-out-of-order", f"the lower bound {texts[0]} is above the upper bound {texts[1]}")
        return None
    return low_key, high_key


def _has_shape(index: ColumnIndex, offset_index: OffsetIndex | None, findings: Findings) -> bool:
    """Return whether a ColumnIndex has one entry for each page; if not, add a finding."""
    findings.count_checked("column_indexes")
    if offset_index is None:
        add_without_offset_index(findings)
    elif len(index.null_pages) != (listed := len(offset_index.page_locations)):
        message = f"it describes {len(index.null_pages)} data pages, but the OffsetIndex lists {listed}"
        findings.add("column-index-page-count", message)
        return False
    return has_equal_lengths(index, findings)


def _check_bounds(
    index: ColumnIndex, ordering: Ordering | None, extremes: tuple[Any, Any] | None, findings: Findings
) -> None:
    """Compare the bounds of pages with each other, and with those of the chunk."""
    if ordering is None:
        return
    pairs = []
    for page, (is_null, low, high) in enumerate(
        zip(index.null_pages, index.min_values, index.max_values, strict=True)
    ):
        of_page = findings.of(findings.index, page)
        keys = None if is_null else _keys(low, high, ordering, of_page)
        if keys is None:
            continue
        pairs.append(keys)
        if extremes is not None and (keys[0] < extremes[0] or keys[1] > extremes[1]):
            message = "the bounds of the page are outside the bounds of the chunk's statistics"
            findings.add("bounds-contradict-statistics", message, page=page)
    check_boundary_order(index.boundary_order, pairs, findings)


def _check_null_counts(counts: Sequence[int] | None, meta: ColumnMetaData, findings: Findings) -> None:
    if counts is None:
        return
    for page, count in enumerate(counts):
        if not 0 <= count <= meta.num_values:
            message = f"it counts {count} nulls, but the chunk has {meta.num_values} values"
            findings.add("null-count-invalid", message, page=page)
            return
    stated = meta.statistics.null_count if meta.statistics is not None else None
    if stated is not None and 0 <= stated != sum(counts):
        message = f"it counts {sum(counts)} nulls in all pages, but the chunk's statistics have {stated}"
        findings.add("null-count", message)
