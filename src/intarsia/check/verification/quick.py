"""Check the metadata of a column chunk for contradictions, without reading data pages.

These rules are independent of the readers that they check; they share only the parsing of structs and the
decoding of bounds.
"""

from __future__ import annotations

from collections.abc import Sequence
from contextlib import suppress
from typing import Any

import numpy as np

from intarsia.check.verification.chunk import read_page_index
from intarsia.check.verification.findings import Findings
from intarsia.check.verification.page_index import add_without_offset_index, has_equal_lengths
from intarsia.check.verification.pages import locate_bits
from intarsia.check.verification.statistics import DECLARED_ORDERS, check_boundary_order
from intarsia.embed.leaf_values import LeafReader
from intarsia.errors import CorruptFileError, FormatError
from intarsia.file import ParquetInput
from intarsia.format.footer import chunk_range
from intarsia.format.structs import ColumnIndex, ColumnMetaData, OffsetIndex, Statistics
from intarsia.rows.ordering import Ordering
from intarsia.rows.values import human_value, shown


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
        message = f"they count {nulls} nulls among {meta.num_values} values"
        findings.add("null-count-invalid", message)
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
        message = f"the lower bound {texts[0]} is above the upper bound {texts[1]}"
        findings.add("bounds-out-of-order", message)
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
