"""Check bounds of INT96 columns under ``INT96_TIMESTAMP_ORDER`` against the stored values."""

from __future__ import annotations

from itertools import pairwise

import numpy as np

from intarsia.check.inspection import human_value
from intarsia.check.inspection.values import shown
from intarsia.check.verification.chunk import CheckedChunk
from intarsia.check.verification.findings import Findings
from intarsia.errors import CorruptFileError, FormatError
from intarsia.format.enums import BoundaryOrder
from intarsia.format.footer import Footer, Leaf
from intarsia.format.structs import ColumnIndex, Statistics
from intarsia.rows.int96 import Int96, Int96Values


def has_int96_order(footer: Footer, leaf: Leaf) -> bool:
    """Return whether the bounds of a leaf follow ``INT96_TIMESTAMP_ORDER``."""
    return footer.column_order(leaf) == "INT96_TIMESTAMP_ORDER"


def check_int96_statistics(
    chunk: CheckedChunk, statistics: Statistics, findings: Findings, *, index: str, page: int | None
) -> None:
    """Compare bounds in statistics with the values of the chunk, or of one page."""
    if statistics.min_value is None and statistics.max_value is None:
        return
    values = _values(chunk, findings, index=index)
    if values is None or chunk.present is None:
        return
    start, stop = 0, int(chunk.present.sum())
    if page is not None:
        start = int(chunk.first_values[page])
        stop = start + int(chunk.present[page])
    _check(chunk, (statistics.min_value, statistics.max_value), values, (start, stop), findings, index, page)


def check_int96_column_index(chunk: CheckedChunk, index: ColumnIndex, findings: Findings) -> None:
    """Compare the bounds of pages, and their order, with the values."""
    values = _values(chunk, findings, index="ColumnIndex")
    if values is None or chunk.present is None:
        return
    found = []
    for page in np.flatnonzero((chunk.present > 0) & ~np.array(index.null_pages, dtype=bool)).tolist():
        start = int(chunk.first_values[page])
        bounds = index.min_values[page], index.max_values[page]
        stop = start + int(chunk.present[page])
        found.append(_check(chunk, bounds, values, (start, stop), findings, "ColumnIndex", page))
    order = BoundaryOrder(index.boundary_order)
    for which, end in (("lower", 0), ("upper", 1)):
        keys = [pair[end] for pair in found]
        known = [key for key in keys if key is not None]
        if order == BoundaryOrder.UNORDERED or len(known) < len(keys):
            return
        if any((b < a) if order == BoundaryOrder.ASCENDING else (b > a) for a, b in pairwise(known)):
            message = f"the order is {shown(order.name.lower())}, but the {which} bounds of its pages are not"
            findings.add("boundary-order", message, index="ColumnIndex")


def _values(chunk: CheckedChunk, findings: Findings, *, index: str) -> Int96Values | None:
    if not chunk.pages:
        return None
    try:
        values = Int96Values(chunk.stored_values)
    except FormatError as error:
        findings.add("unchecked", error.message, index=index)
        return None
    if chunk.present is None or len(values.days) != chunk.present.sum():
        findings.add("unchecked", "the values of each page are unknown", index=index)
        return None
    return values


def _check(
    chunk: CheckedChunk,
    bounds: tuple[bytes | None, bytes | None],
    values: Int96Values,
    span: tuple[int, int],
    findings: Findings,
    index: str,
    page: int | None,
) -> tuple[Int96 | None, Int96 | None]:
    """Add findings for values outside their bounds; return the bounds, None if missing or unreadable."""
    low, high = (
        _parse(raw, which, findings, index, page)
        for raw, which in zip(bounds, ("lower", "upper"), strict=True)
    )
    if low is not None and high is not None and low > high:
        message = "the lower bound is above the upper bound"
        findings.add("bounds-out-of-order", message, index=index, page=page)
    elif span[0] < span[1]:
        least, greatest = values.extremes(*span)
        for which, bound, is_outside, value in (
            ("lower", low, low is not None and least < low, least),
            ("upper", high, high is not None and greatest > high, greatest),
        ):
            if bound is not None and is_outside:
                outside, limit = (shown(human_value(chunk.leaf, key.serialize())) for key in (value, bound))
                message = f"values are outside the {which} bound {limit}, such as {outside}"
                findings.add("bounds-exclude-values", message, index=index, page=page)
    return low, high


def _parse(raw: bytes | None, which: str, findings: Findings, index: str, page: int | None) -> Int96 | None:
    if raw is None:
        return None
    try:
        return Int96.parse(raw)
    except CorruptFileError:
        message = f"the {which} bound {raw[:20].hex() or 'without bytes'} is not an INT96"
        findings.add("bound-unreadable", message, index=index, page=page)
        return None
