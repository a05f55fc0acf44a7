"""Check bounds against the values that they must enclose."""

from __future__ import annotations

from collections.abc import Sequence
from itertools import pairwise
from typing import Any

import numpy as np

from intarsia.check.inspection import human_value
from intarsia.check.inspection.values import shown
from intarsia.check.verification.chunk import CheckedChunk
from intarsia.check.verification.findings import Findings
from intarsia.errors import CorruptFileError, FormatError
from intarsia.format.enums import BoundaryOrder
from intarsia.format.footer import Footer, Leaf
from intarsia.format.structs import ColumnIndex, Statistics
from intarsia.read.amounts import are
from intarsia.rows.int96 import Int96, Int96Values


def declares_order(footer: Footer, leaf: Leaf) -> bool:
    """Return whether the footer declares a known order for a leaf's bounds."""
    return footer.column_order(leaf) in ("TYPE_ORDER", "IEEE_754_TOTAL_ORDER")


def bound_key(chunk: CheckedChunk, raw: bytes, which: str, findings: Findings) -> Any:
    """Return the key of one bound as an array without dimensions; None, with a finding, if it is invalid.

    Args:
        chunk: The chunk of the bound; it has an ordering.
        raw: The bound.
        which: ``"lower"`` or ``"upper"``.
        findings: Of the structure with the bound, and of its page if it is not a bound of the whole chunk.
    """
    assert chunk.ordering is not None
    try:
        key = chunk.ordering.decode([raw])[0]
    except CorruptFileError:
        message = (
            f"the {which} bound {raw[:20].hex() or 'without bytes'} is not a valid {chunk.leaf.type.name}"
        )
        findings.add("bound-unreadable", message)
        return None
    if chunk.ordering.is_float and np.isnan(key):
        if chunk.total_order and _holds_only_nan(chunk, findings.page):
            return None  # under the total order, only-NaN pages have NaN bounds
        findings.add("bound-is-nan", f"the {which} bound is NaN")
        return None
    return chunk.ordering.cell(key)


def _holds_only_nan(chunk: CheckedChunk, page: int | None) -> bool:
    """Return whether every value of a page, or of the chunk, is NaN."""
    if chunk.nan_counts is None or chunk.present is None:
        return True  # unknown, so assume that the bounds are correct
    if page is None:
        return bool(chunk.nan_counts.sum() == chunk.present.sum())
    return bool(chunk.nan_counts[page] == chunk.present[page])


def check_nan_count(chunk: CheckedChunk, nan_counts: object, findings: Findings) -> None:
    """Add a finding if bounds under the total order have no NaN count."""
    if chunk.total_order and nan_counts is None:
        message = "there is no NaN count, which IEEE_754_TOTAL_ORDER requires"
        findings.add("nan-count-missing", message)


def check_bounds(
    chunk: CheckedChunk, low: tuple[bytes, Any], high: tuple[bytes, Any], findings: Findings
) -> None:
    """Add findings for values outside their bounds.

    Args:
        chunk: The chunk.
        low: The lower bound as bytes and as key; the key is None if unknown.
        high: The upper bound, likewise.
        findings: As for `bound_key`.
    """
    page = findings.page
    (low_raw, low_key), (high_raw, high_key) = low, high

    def text(raw: bytes) -> str:
        return shown(human_value(chunk.leaf, raw))

    if low_key is not None and high_key is not None and low_key > high_key:
        message = f"the lower bound {text(low_raw)} is above the upper bound {text(high_raw)}"
        findings.add("bounds-out-of-order", message)
        return
    extremes = chunk.extremes
    if extremes is None:
        return
    positions = (
        np.flatnonzero(extremes.has_value) if page is None else np.array([page])[extremes.has_value[[page]]]
    )
    for raw, key, wrong_sign, which, zero in (
        (low_raw, low_key, True, "lower", "-0.0"),
        (high_raw, high_key, False, "upper", "0.0"),
    ):
        if _hides_zero(chunk, key, positions, wrong_sign=wrong_sign):
            message = f"{zero} is outside the {which} bound {text(raw)} by IEEE_754_TOTAL_ORDER"
            findings.add("bounds-exclude-values", message)
    lows, highs = extremes.lows[positions], extremes.highs[positions]
    if low_key is not None and (below := _count_outside(chunk, positions[lows < low_key], low_key, "<")):
        message = f"{are(below, 'value')} below the lower bound {text(low_raw)}, such as "
        findings.add("bounds-exclude-values", message + shown_key(chunk, lows.min()))
    if high_key is not None and (above := _count_outside(chunk, positions[highs > high_key], high_key, ">")):
        message = f"{are(above, 'value')} above the upper bound {text(high_raw)}, such as "
        findings.add("bounds-exclude-values", message + shown_key(chunk, highs.max()))


def check_boundary_order(order: int, lows: Sequence[Any], highs: Sequence[Any], findings: Findings) -> None:
    """Compare the boundary order of a ColumnIndex with the keys of its bounds; None is an unknown key."""
    is_ordered = order in (BoundaryOrder.ASCENDING, BoundaryOrder.DESCENDING)
    if not is_ordered or any(key is None for key in (*lows, *highs)):
        return
    for which, keys in (("lower", lows), ("upper", highs)):
        if any(b < a if order == BoundaryOrder.ASCENDING else b > a for a, b in pairwise(keys)):
            name = shown(BoundaryOrder(order).name.lower())
            message = f"the order is {name}, but the {which} bounds of its pages are not"
            findings.add("boundary-order", message)


def shown_key(chunk: CheckedChunk, key: Any) -> str:
    """Format a key."""
    assert chunk.ordering is not None
    return shown(human_value(chunk.leaf, chunk.ordering.encode(key)))


def has_bounds_order(footer: Footer, chunk: CheckedChunk, findings: Findings) -> bool:
    """Return whether bounds of a leaf are defined; if not, add a finding."""
    if chunk.ordering is None:
        name = chunk.leaf.logical_name or chunk.leaf.type.name
        message = f"it has bounds, but {name} has no order"
        findings.add("bounds-without-order", message)
        return False
    if not declares_order(footer, chunk.leaf):
        message = "it has bounds, but the footer declares no column order (column_orders)"
        findings.add("no-column-order", message)
    return True


def _hides_zero(chunk: CheckedChunk, bound: Any, pages: Any, *, wrong_sign: bool) -> bool:
    """Return whether a bound is zero, and excludes a zero of the other sign under the total order.

    Args:
        chunk: The chunk.
        bound: The key of a bound; None if unknown.
        pages: The pages of the bound.
        wrong_sign: The sign bit of the zeros that are outside, if the bound has the other one.
    """
    if not chunk.total_order or bound is None or bound != 0 or np.signbit(bound) == wrong_sign:
        return False
    for page in pages.tolist():
        keys = chunk.keys(chunk.page_values(page))
        if ((keys == 0) & (np.signbit(keys) == wrong_sign)).any():
            return True
    return False


def _count_outside(chunk: CheckedChunk, pages: Any, bound: Any, side: str) -> int:
    """Count the values of pages that are beyond a bound."""
    count = 0
    for page in pages.tolist():
        keys = chunk.keys(chunk.page_values(page))
        count += int(np.count_nonzero(keys < bound if side == "<" else keys > bound))
    return count


def has_int96_order(footer: Footer, leaf: Leaf) -> bool:
    """Return whether the bounds of a leaf follow ``INT96_TIMESTAMP_ORDER``."""
    return footer.column_order(leaf) == "INT96_TIMESTAMP_ORDER"


def check_int96_statistics(chunk: CheckedChunk, statistics: Statistics, findings: Findings) -> None:
    """Compare bounds in statistics with the values of the chunk, or of one page."""
    if statistics.min_value is None and statistics.max_value is None:
        return
    values, page = _values(chunk, findings), findings.page
    if values is None or chunk.present is None:
        return
    start, stop = 0, int(chunk.present.sum())
    if page is not None:
        start = int(chunk.first_values[page])
        stop = start + int(chunk.present[page])
    _check(chunk, (statistics.min_value, statistics.max_value), values, (start, stop), findings)


def check_int96_column_index(chunk: CheckedChunk, index: ColumnIndex, findings: Findings) -> None:
    """Compare the bounds of pages, and their order, with the values."""
    values = _values(chunk, findings)
    if values is None or chunk.present is None:
        return
    found = []
    for page in np.flatnonzero((chunk.present > 0) & ~np.array(index.null_pages, dtype=bool)).tolist():
        start = int(chunk.first_values[page])
        bounds = index.min_values[page], index.max_values[page]
        stop = start + int(chunk.present[page])
        found.append(_check(chunk, bounds, values, (start, stop), findings.of(findings.index, page)))
    lows, highs = ([pair[end] for pair in found] for end in (0, 1))
    check_boundary_order(index.boundary_order, lows, highs, findings)


def _values(chunk: CheckedChunk, findings: Findings) -> Int96Values | None:
    if not chunk.pages:
        return None
    try:
        values = Int96Values(chunk.stored_values)
    except FormatError as error:
        findings.add("unchecked", error.message)
        return None
    if chunk.present is None or len(values.days) != chunk.present.sum():
        findings.add("unchecked", "the values of each page are unknown")
        return None
    return values


def _check(
    chunk: CheckedChunk,
    bounds: tuple[bytes | None, bytes | None],
    values: Int96Values,
    span: tuple[int, int],
    findings: Findings,
) -> tuple[Int96 | None, Int96 | None]:
    """Add findings for values outside their bounds; return the bounds, None if missing or unreadable."""
    low, high = (_parse(raw, which, findings) for raw, which in zip(bounds, ("lower", "upper"), strict=True))
    if low is not None and high is not None and low > high:
        message = "the lower bound is above the upper bound"
        findings.add("bounds-out-of-order", message)
    elif span[0] < span[1]:
        least, greatest = values.extremes(*span)
        for which, bound, is_outside, value in (
            ("lower", low, low is not None and least < low, least),
            ("upper", high, high is not None and greatest > high, greatest),
        ):
            if bound is not None and is_outside:
                outside, limit = (shown(human_value(chunk.leaf, key.serialize())) for key in (value, bound))
                message = f"values are outside the {which} bound {limit}, such as {outside}"
                findings.add("bounds-exclude-values", message)
    return low, high


def _parse(raw: bytes | None, which: str, findings: Findings) -> Int96 | None:
    if raw is None:
        return None
    try:
        return Int96.parse(raw)
    except CorruptFileError:
        message = f"the {which} bound {raw[:20].hex() or 'without bytes'} is not an INT96"
        findings.add("bound-unreadable", message)
        return None
