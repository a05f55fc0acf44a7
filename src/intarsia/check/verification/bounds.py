"""Check bounds against the values that they must enclose."""

from __future__ import annotations

from typing import Any

import numpy as np

from intarsia.check.inspection import human_value
from intarsia.check.inspection.values import shown
from intarsia.check.verification.chunk import CheckedChunk
from intarsia.check.verification.findings import Findings
from intarsia.errors import CorruptFileError
from intarsia.format.footer import Footer, Leaf
from intarsia.read.amounts import are


def declares_order(footer: Footer, leaf: Leaf) -> bool:
    """Return whether the footer declares a known order for a leaf's bounds."""
    return footer.column_order(leaf) in ("TYPE_ORDER", "IEEE_754_TOTAL_ORDER")


def bound_key(
    chunk: CheckedChunk, raw: bytes, which: str, findings: Findings, *, index: str, page: int | None = None
) -> Any:
    """Return the key of one bound as an array without dimensions; None, with a finding, if it is invalid.

    Args:
        chunk: The chunk of the bound; it has an ordering.
        raw: The bound.
        which: ``"lower"`` or ``"upper"``.
        findings: Collects findings.
        index: The structure with the bound.
        page: The page of the bound; None for the whole chunk.
    """
    assert chunk.ordering is not None
    try:
        key = chunk.ordering.decode([raw])[0]
    except CorruptFileError:
        message = (
            f"the {which} bound {raw[:20].hex() or 'without bytes'} is not a valid {chunk.leaf.type.name}"
        )
        findings.add("bound-unreadable", message, index=index, page=page)
        return None
    if chunk.ordering.is_float and np.isnan(key):
        if chunk.total_order and _holds_only_nan(chunk, page):
            return None  # under the total order, only-NaN pages have NaN bounds
        findings.add("bound-is-nan", f"the {which} bound is NaN", index=index, page=page)
        return None
    return chunk.ordering.cell(key)


def _holds_only_nan(chunk: CheckedChunk, page: int | None) -> bool:
    """Return whether every value of a page, or of the chunk, is NaN."""
    if chunk.nan_counts is None or chunk.present is None:
        return True  # unknown, so assume that the bounds are correct
    if page is None:
        return bool(chunk.nan_counts.sum() == chunk.present.sum())
    return bool(chunk.nan_counts[page] == chunk.present[page])


def check_nan_count(
    chunk: CheckedChunk, nan_counts: object, findings: Findings, *, index: str, page: int | None = None
) -> None:
    """Add a finding if bounds under the total order have no NaN count.

    Args:
        chunk: The chunk.
        nan_counts: The count or counts; None if they are missing.
        findings: Collects findings.
        index: The structure with the bounds.
        page: The page of the bounds; None for the whole chunk.
    """
    if chunk.total_order and nan_counts is None:
        message = "there is no NaN count, which IEEE_754_TOTAL_ORDER requires"
        findings.add("nan-count-missing", message, index=index, page=page)


def check_bounds(
    chunk: CheckedChunk,
    low: tuple[bytes, Any],
    high: tuple[bytes, Any],
    findings: Findings,
    *,
    index: str,
    page: int | None,
) -> None:
    """Add findings for values outside their bounds.

    Args:
        chunk: The chunk.
        low: The lower bound as bytes and as key; the key is None if unknown.
        high: The upper bound, likewise.
        findings: Collects findings.
        index: The structure with the bounds.
        page: The page of the bounds; None for the whole chunk.
    """
    (low_raw, low_key), (high_raw, high_key) = low, high

    def text(raw: bytes) -> str:
        return shown(human_value(chunk.leaf, raw))

    if low_key is not None and high_key is not None and low_key > high_key:
        message = f"the lower bound {text(low_raw)} is above the upper bound {text(high_raw)}"
        findings.add("bounds-out-of-order", message, index=index, page=page)
        return
    extremes = chunk.extremes
    if extremes is None:
        return
    positions = (
        np.flatnonzero(extremes.has_value) if page is None else np.array([page])[extremes.has_value[[page]]]
    )
    below = (
        0
        if low_key is None
        else _count_outside(chunk, positions[extremes.lows[positions] < low_key], low_key, "<")
    )
    above = (
        0
        if high_key is None
        else _count_outside(chunk, positions[extremes.highs[positions] > high_key], high_key, ">")
    )
    for raw, key, wrong_sign, which, zero in (
        (low_raw, low_key, True, "lower", "-0.0"),
        (high_raw, high_key, False, "upper", "0.0"),
    ):
        if _hides_zero(chunk, key, positions, wrong_sign=wrong_sign):
            message = f"{zero} is outside the {which} bound {text(raw)} by IEEE_754_TOTAL_ORDER"
            findings.add("bounds-exclude-values", message, index=index, page=page)
    if below:
        shown_value = shown_key(chunk, extremes.lows[positions].min())
        message = f"{are(below, 'value')} below the lower bound {text(low_raw)}, such as {shown_value}"
        findings.add("bounds-exclude-values", message, index=index, page=page)
    if above:
        shown_value = shown_key(chunk, extremes.highs[positions].max())
        message = f"{are(above, 'value')} above the upper bound {text(high_raw)}, such as {shown_value}"
        findings.add("bounds-exclude-values", message, index=index, page=page)


def shown_key(chunk: CheckedChunk, key: Any) -> str:
    """Format a key."""
    assert chunk.ordering is not None
    return shown(human_value(chunk.leaf, chunk.ordering.encode(key)))


def has_bounds_order(
    leaf: Leaf,
    chunk: CheckedChunk,
    findings: Findings,
    *,
    index: str,
    is_declared: bool,
    page: int | None = None,
) -> bool:
    """Return whether bounds of a leaf are defined; if not, add a finding."""
    if chunk.ordering is None:
        name = leaf.logical_name or leaf.type.name
        message = f"it has bounds, but {name} has no order"
        findings.add("bounds-without-order", message, index=index, page=page)
        return False
    if not is_declared:
        message = "it has bounds, but the footer declares no column order (column_orders)"
        findings.add("no-column-order", message, index=index, page=page)
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
