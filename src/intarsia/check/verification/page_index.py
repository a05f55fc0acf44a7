"""Check OffsetIndex and ColumnIndex of a chunk against its pages and values."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
import numpy.typing as npt

from intarsia.check.verification.bounds import (
    bound_key,
    check_boundary_order,
    check_bounds,
    check_int96_column_index,
    check_nan_count,
    has_bounds_order,
    has_int96_order,
)
from intarsia.check.verification.chunk import CheckedChunk
from intarsia.check.verification.findings import Findings
from intarsia.errors import CorruptFileError
from intarsia.file import ParquetInput
from intarsia.format import thrift
from intarsia.format.enums import BoundaryOrder
from intarsia.format.structs import ColumnChunk, ColumnIndex, OffsetIndex

_COLUMN_INDEX = "ColumnIndex"
_OFFSET_INDEX = "OffsetIndex"


def read_structure(
    file: ParquetInput, cls: Any, location: tuple[int | None, int | None], findings: Findings
) -> Any:
    """Read a ColumnIndex or OffsetIndex; None if there is none, or if it cannot be read.

    Args:
        file: The file.
        cls: The class of the structure.
        location: Offset and length in the footer.
        findings: Collects findings.
    """
    offset, length = location
    if offset is None or not length:
        return None
    name = cls.__name__
    rule = "column-index-unreadable" if cls is ColumnIndex else "offset-index-unreadable"
    if not file.footer.contains_range(offset, offset + length):
        findings.add(rule, f"bytes {offset} to {offset + length} are outside the file's body", index=name)
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
    """Read the page index of a chunk, without checking it."""
    offsets = read_structure(
        file, OffsetIndex, (chunk.offset_index_offset, chunk.offset_index_length), findings
    )
    columns = read_structure(
        file, ColumnIndex, (chunk.column_index_offset, chunk.column_index_length), findings
    )
    return offsets, columns


def check_offset_index(chunk: CheckedChunk, index: OffsetIndex, findings: Findings) -> None:
    """Compare an OffsetIndex with the page headers and the rows of the pages."""
    findings = findings.of(_OFFSET_INDEX)
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
        message = f"it lists {len(locations)} data pages, but there are {len(chunk.pages)}"
        findings.add("page-count", message)
    first_rows = None if chunk.rows is None else (np.cumsum(chunk.rows) - chunk.rows).tolist()
    stop_before = chunk.start  # the actual end of the previous page
    for ordinal, (location, page) in enumerate(zip(locations, chunk.pages, strict=False)):
        offset, size = chunk.start + page.start, page.stop - page.start
        header_bytes = page.body_start - page.start
        claimed = location.compressed_page_size
        if not chunk.start <= location.offset < chunk.stop:
            message = f"the page offset is {location.offset}, outside the chunk, "
            message += f"which is at bytes {chunk.start} to {chunk.stop}"
            findings.add("page-outside-chunk", message, page=ordinal)
        elif location.offset < stop_before:
            message = f"the page offset is {location.offset}, before the end of the previous page "
            message += f"at {stop_before}; the actual offset is {offset}"
            findings.add("pages-overlap", message, page=ordinal)
        elif location.offset != offset:
            message = f"the page offset is {location.offset}, but the actual offset is {offset}"
            findings.add("page-offset", message, page=ordinal)
        if claimed == size - header_bytes:
            message = f"the page size of {claimed} bytes omits the header of {header_bytes} bytes"
            findings.add("page-size-without-header", message, page=ordinal)
        elif claimed != size:
            message = f"the page size is {claimed} bytes, but the actual size is {size}"
            findings.add("page-size", message, page=ordinal)
        stop_before = offset + size
        if first_rows is not None and location.first_row_index != first_rows[ordinal]:
            message = (
                f"the first row is {location.first_row_index}, but the actual one is {first_rows[ordinal]}"
            )
            findings.add("first-row-index", message, page=ordinal)
    if chunk.rows is not None:
        for ordinal in np.flatnonzero(chunk.rows == 0).tolist():
            findings.add("empty-page", "no row starts in the page", page=ordinal)


def check_column_index(
    file: ParquetInput, chunk: CheckedChunk, index: ColumnIndex, findings: Findings, *, has_offset_index: bool
) -> None:
    """Compare a ColumnIndex with the values of the pages."""
    findings = findings.of(_COLUMN_INDEX)
    findings.count_checked("column_indexes")
    if not has_offset_index:
        message = "there is no OffsetIndex, so the locations of the pages are unknown"
        findings.add("column-index-without-offset-index", message)
    if not _has_shape(chunk, index, findings):
        return
    is_int96 = has_int96_order(file.footer, chunk.leaf)
    is_ordered = not is_int96 and has_bounds_order(file.footer, chunk, findings)
    _check_null_pages(chunk, index, findings)
    _check_counts("null-count", index.null_counts, chunk.null_counts, findings)
    if chunk.nan_counts is not None:
        _check_counts("nan-count", index.nan_counts, chunk.nan_counts, findings)
    _check_histograms(chunk, index, findings)
    if is_int96:
        check_int96_column_index(chunk, index, findings)
    if is_ordered:
        check_nan_count(chunk, index.nan_counts, findings)
        _check_page_bounds(chunk, index, findings)


def _has_shape(chunk: CheckedChunk, index: ColumnIndex, findings: Findings) -> bool:
    num_pages = len(index.null_pages)
    for name in ("min_values", "max_values", "null_counts", "nan_counts"):
        values = getattr(index, name)
        if values is not None and len(values) != num_pages:
            message = f"{name} has {len(values)} entries, but null_pages has {num_pages}"
            findings.add("column-index-unreadable", message)
            return False
    if num_pages != len(chunk.pages):
        message = f"it describes {num_pages} data pages, but there are {len(chunk.pages)}"
        findings.add("column-index-page-count", message)
        return False
    if index.boundary_order not in tuple(BoundaryOrder):
        message = f"the boundary order {index.boundary_order} is invalid"
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
    rule: str, claimed: Sequence[int] | None, actual: npt.NDArray[np.int64] | None, findings: Findings
) -> None:
    """Compare null counts or NaN counts."""
    if claimed is None:
        return
    what = "nulls" if rule == "null-count" else "NaNs"
    counts = np.array(claimed, dtype=np.int64)
    for page in np.flatnonzero(counts < 0).tolist():
        findings.add("null-count-invalid", f"it counts {counts[page]} {what}", page=page)
    if actual is None:
        return
    for page in np.flatnonzero((counts >= 0) & (counts != actual)).tolist():
        message = f"it counts {counts[page]} {what}, but there are {actual[page]}"
        findings.add(rule, message, page=page)


def _check_histograms(chunk: CheckedChunk, index: ColumnIndex, findings: Findings) -> None:
    if chunk.level_histograms is None:
        return
    names = "repetition", "definition"
    histograms = index.repetition_level_histograms, index.definition_level_histograms
    for name, claimed, actual in zip(names, histograms, chunk.level_histograms, strict=True):
        if not claimed:
            continue
        if len(claimed) != actual.size:
            message = f"the {name} level histograms have {len(claimed)} entries instead of {actual.size}"
            findings.add("level-histogram", message)
            continue
        by_page = np.array(claimed, dtype=np.int64).reshape(actual.shape)
        for page in np.flatnonzero((by_page != actual).any(axis=1)).tolist():
            message = f"the histogram of {name} levels is wrong"
            findings.add("level-histogram", message, page=page)


def _check_page_bounds(chunk: CheckedChunk, index: ColumnIndex, findings: Findings) -> None:
    lows: list[Any] = []
    highs: list[Any] = []
    for page, (is_null, low, high) in enumerate(
        zip(index.null_pages, index.min_values, index.max_values, strict=True)
    ):
        # bounds of a page without values are undefined, and readers ignore them
        if is_null or (chunk.present is not None and not chunk.present[page]):
            continue
        of_page = findings.of(findings.index, page)
        keys = [bound_key(chunk, raw, which, of_page) for raw, which in ((low, "lower"), (high, "upper"))]
        check_bounds(chunk, (low, keys[0]), (high, keys[1]), of_page)
        lows.append(keys[0])
        highs.append(keys[1])
    check_boundary_order(index.boundary_order, lows, highs, findings)
