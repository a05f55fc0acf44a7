"""OffsetIndex and ColumnIndex of a chunk against its pages and values."""

from __future__ import annotations

from collections.abc import Sequence
from itertools import pairwise
from typing import Any

import numpy as np
import numpy.typing as npt

from intarsia.check.inspection.values import shown
from intarsia.check.verification.bounds import (
    bound_key,
    check_bounds,
    check_nan_count,
    declares_order,
    has_bounds_order,
)
from intarsia.check.verification.chunk import CheckedChunk
from intarsia.check.verification.findings import Findings
from intarsia.check.verification.int96 import check_int96_column_index, has_int96_order
from intarsia.errors import CorruptFileError
from intarsia.file import ParquetInput
from intarsia.format import thrift
from intarsia.format.structs import BoundaryOrder, ColumnChunk, ColumnIndex, OffsetIndex

_COLUMN_INDEX = "ColumnIndex"
_OFFSET_INDEX = "OffsetIndex"


def read_structure(
    file: ParquetInput, cls: Any, place: tuple[int | None, int | None], findings: Findings
) -> Any:
    """A ColumnIndex or OffsetIndex where the footer says that it lies; None if there is none.

    Args:
        file: The file.
        cls: Which of the two.
        place: Offset and length by the footer.
        findings: Where it is noted that it cannot be read.
    """
    offset, length = place
    if offset is None or not length:
        return None
    name = cls.__name__
    rule = "column-index-unreadable" if cls is ColumnIndex else "offset-index-unreadable"
    if not file.footer.holds(offset, offset + length):
        findings.add(rule, f"bytes {offset} to {offset + length} lie outside the file's body", index=name)
        return None
    try:
        found, _ = thrift.parse(cls, file.source.read(offset, offset + length))
    except CorruptFileError as error:
        findings.add(rule, error.message, index=name)
        return None
    return found


def read_page_index(
    file: ParquetInput, chunk: ColumnChunk, findings: Findings
) -> tuple[OffsetIndex | None, ColumnIndex | None]:
    """The page index of a chunk, unchecked."""
    offsets = read_structure(
        file, OffsetIndex, (chunk.offset_index_offset, chunk.offset_index_length), findings
    )
    columns = read_structure(
        file, ColumnIndex, (chunk.column_index_offset, chunk.column_index_length), findings
    )
    return offsets, columns


def check_offset_index(chunk: CheckedChunk, index: OffsetIndex, findings: Findings) -> None:
    """Compare an OffsetIndex with the page headers and the rows of the pages."""
    findings.checked["offset_indexes"] += 1
    if chunk.levels is not None:
        for ordinal, levels in enumerate(chunk.levels):
            if not levels.starts_row:
                message = "the page starts within a row, though an OffsetIndex exists"
                findings.add("page-starts-within-row", message, index=_OFFSET_INDEX, page=ordinal)
    elif not chunk.leaf.is_flat:
        findings.add("unchecked", "first rows of pages could not be counted", index=_OFFSET_INDEX)
    locations = index.page_locations
    if len(locations) != len(chunk.pages):
        message = f"it lists {len(locations)} data pages, there are {len(chunk.pages)}"
        findings.add("page-count", message, index=_OFFSET_INDEX)
    first_rows = None if chunk.rows is None else (np.cumsum(chunk.rows) - chunk.rows).tolist()
    stop_before = chunk.start  # of the page before, by the pages themselves
    for ordinal, (location, page) in enumerate(zip(locations, chunk.pages, strict=False)):
        offset, size, header_bytes = (
            chunk.start + page.start,
            page.stop - page.start,
            page.body_start - page.start,
        )
        claimed = location.compressed_page_size
        if not chunk.start <= location.offset < chunk.stop:
            message = f"it puts the page at byte {location.offset}, outside the chunk, "
            message += f"which is at bytes {chunk.start} to {chunk.stop}"
            findings.add("page-outside-chunk", message, index=_OFFSET_INDEX, page=ordinal)
        elif location.offset < stop_before:
            message = f"it puts the page at byte {location.offset}, before the end of the last one "
            message += f"at {stop_before}; the page is at {offset}"
            findings.add("pages-overlap", message, index=_OFFSET_INDEX, page=ordinal)
        elif location.offset != offset:
            message = f"it puts the page at byte {location.offset}, it is at {offset}"
            findings.add("page-offset", message, index=_OFFSET_INDEX, page=ordinal)
        if claimed == size - header_bytes:
            message = f"its size of {claimed} bytes leaves out the page's header of {header_bytes}"
            findings.add("page-size-without-header", message, index=_OFFSET_INDEX, page=ordinal)
        elif claimed != size:
            message = f"it gives the page {claimed} bytes, it has {size}"
            findings.add("page-size", message, index=_OFFSET_INDEX, page=ordinal)
        stop_before = offset + size
        if first_rows is not None and location.first_row_index != first_rows[ordinal]:
            message = (
                f"it lets the page start at row {location.first_row_index}, it does at {first_rows[ordinal]}"
            )
            findings.add("first-row-index", message, index=_OFFSET_INDEX, page=ordinal)
    if chunk.rows is not None:
        for ordinal in np.flatnonzero(chunk.rows == 0).tolist():
            findings.add("empty-page", "no row starts in the page", index=_OFFSET_INDEX, page=ordinal)


def check_column_index(
    file: ParquetInput, chunk: CheckedChunk, index: ColumnIndex, findings: Findings, *, has_offset_index: bool
) -> None:
    """Compare a ColumnIndex with the values of the pages."""
    findings.checked["column_indexes"] += 1
    if not has_offset_index:
        message = "there is no OffsetIndex beside it, so nobody knows where the pages are"
        findings.add("column-index-without-offset-index", message, index=_COLUMN_INDEX)
    if not _has_shape(chunk, index, findings):
        return
    is_declared = declares_order(file.footer, chunk.leaf)
    is_int96 = has_int96_order(file.footer, chunk.leaf)
    is_ordered = not is_int96 and has_bounds_order(
        chunk.leaf, chunk, findings, index=_COLUMN_INDEX, is_declared=is_declared
    )
    _check_null_pages(chunk, index, findings)
    _check_counts("null-count", index.null_counts, chunk.null_counts, findings)
    if chunk.nan_counts is not None:
        _check_counts("nan-count", index.nan_counts, chunk.nan_counts, findings)
    _check_histograms(chunk, index, findings)
    if is_int96:
        check_int96_column_index(chunk, index, findings)
    if is_ordered:
        check_nan_count(chunk, index.nan_counts, findings, index=_COLUMN_INDEX)
        _check_page_bounds(chunk, index, findings)


def _has_shape(chunk: CheckedChunk, index: ColumnIndex, findings: Findings) -> bool:
    num_pages = len(index.null_pages)
    for name in ("min_values", "max_values", "null_counts", "nan_counts"):
        values = getattr(index, name)
        if values is not None and len(values) != num_pages:
            message = f"{name} has {len(values)} entries, null_pages {num_pages}"
            findings.add("column-index-unreadable", message, index=_COLUMN_INDEX)
            return False
    if num_pages != len(chunk.pages):
        message = f"it is about {num_pages} data pages, there are {len(chunk.pages)}"
        findings.add("column-index-page-count", message, index=_COLUMN_INDEX)
        return False
    if index.boundary_order not in tuple(BoundaryOrder):
        message = f"there is no boundary order {index.boundary_order}"
        findings.add("column-index-unreadable", message, index=_COLUMN_INDEX)
        return False
    return True


def _check_null_pages(chunk: CheckedChunk, index: ColumnIndex, findings: Findings) -> None:
    if chunk.present is None:
        return
    null_pages = np.array(index.null_pages, dtype=bool)
    for page in np.flatnonzero(null_pages & (chunk.present > 0)).tolist():
        message = f"it says that the page holds only nulls, but {chunk.present[page]} values are there"
        findings.add("null-page-with-values", message, index=_COLUMN_INDEX, page=page)
    for page in np.flatnonzero(~null_pages & (chunk.present == 0)).tolist():
        message = "the page holds only nulls, and it does not say so"
        findings.add("null-page-not-marked", message, index=_COLUMN_INDEX, page=page)


def _check_counts(
    rule: str, claimed: Sequence[int] | None, actual: npt.NDArray[np.int64] | None, findings: Findings
) -> None:
    """Null counts or NaN counts."""
    if claimed is None:
        return
    what = "nulls" if rule == "null-count" else "NaNs"
    told = np.array(claimed, dtype=np.int64)
    for page in np.flatnonzero(told < 0).tolist():
        findings.add("null-count-invalid", f"it counts {told[page]} {what}", index=_COLUMN_INDEX, page=page)
    if actual is None:
        return
    for page in np.flatnonzero((told >= 0) & (told != actual)).tolist():
        message = f"it counts {told[page]} {what}, there are {actual[page]}"
        findings.add(rule, message, index=_COLUMN_INDEX, page=page)


def _check_histograms(chunk: CheckedChunk, index: ColumnIndex, findings: Findings) -> None:
    if chunk.level_histograms is None:
        return
    names = "repetition", "definition"
    told = index.repetition_level_histograms, index.definition_level_histograms
    for name, claimed, actual in zip(names, told, chunk.level_histograms, strict=True):
        if not claimed:
            continue
        if len(claimed) != actual.size:
            message = (
                f"the {name} level histograms have {len(claimed)} entries, there should be {actual.size}"
            )
            findings.add("level-histogram", message, index=_COLUMN_INDEX)
            continue
        by_page = np.array(claimed, dtype=np.int64).reshape(actual.shape)
        for page in np.flatnonzero((by_page != actual).any(axis=1)).tolist():
            message = f"the histogram of {name} levels is not that of the page"
            findings.add("level-histogram", message, index=_COLUMN_INDEX, page=page)


def _check_page_bounds(chunk: CheckedChunk, index: ColumnIndex, findings: Findings) -> None:
    lows: list[Any] = []
    highs: list[Any] = []
    for page, (is_null, low, high) in enumerate(
        zip(index.null_pages, index.min_values, index.max_values, strict=True)
    ):
        # bounds of a page without values mean nothing, and are not looked at by anyone careful
        if is_null or (chunk.present is not None and not chunk.present[page]):
            continue
        keys = [
            bound_key(chunk, raw, which, findings, index=_COLUMN_INDEX, page=page)
            for raw, which in ((low, "lower"), (high, "upper"))
        ]
        check_bounds(chunk, (low, keys[0]), (high, keys[1]), findings, index=_COLUMN_INDEX, page=page)
        lows.append(keys[0])
        highs.append(keys[1])
    order = BoundaryOrder(index.boundary_order)
    if order == BoundaryOrder.UNORDERED or any(key is None for key in (*lows, *highs)):
        return
    for name, keys in (("lower", lows), ("upper", highs)):
        breaks = (b < a if order == BoundaryOrder.ASCENDING else b > a for a, b in pairwise(keys))
        if any(breaks):
            message = f"it says {shown(order.name.lower())}, but the {name} bounds of its pages are not"
            findings.add("boundary-order", message, index=_COLUMN_INDEX)
