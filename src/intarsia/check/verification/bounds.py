"""Bounds that a file holds, against the values that they are to enclose."""

from __future__ import annotations

from typing import Any

import numpy as np

from intarsia.check.inspection import human_value
from intarsia.check.inspection.values import shown
from intarsia.check.verification.chunk import CheckedChunk
from intarsia.check.verification.findings import Findings
from intarsia.errors import CorruptFileError
from intarsia.format.footer import Footer, Leaf


def declares_order(footer: Footer, leaf: Leaf) -> bool:
    """Whether the footer gives a leaf's bounds an order that is known here."""
    orders = footer.metadata.column_orders
    if orders is None:
        return False
    known = orders[leaf.ordinal].TYPE_ORDER, orders[leaf.ordinal].IEEE_754_TOTAL_ORDER
    return any(order is not None for order in known)


def bound_key(
    chunk: CheckedChunk, raw: bytes, which: str, findings: Findings, *, index: str, page: int | None = None
) -> Any:
    """The key of one bound, as an array without dimensions; None if it is none, which is then noted.

    Args:
        chunk: Whose bound it is; it has an ordering.
        raw: The bound.
        which: ``"lower"`` or ``"upper"``.
        findings: Where to note.
        index: The structure that holds it.
        page: The page that it is of, if it is of one.
    """
    assert chunk.ordering is not None
    try:
        key = chunk.ordering.decode([raw])[0]
    except CorruptFileError:
        message = f"the {which} bound {raw[:20].hex() or 'of no bytes'} is no {chunk.leaf.type.name}"
        findings.add("bound-unreadable", message, index=index, page=page)
        return None
    if chunk.ordering.is_float and np.isnan(key):
        if chunk.total_order and page is not None and chunk.nan_counts is not None and chunk.nan_counts[page]:
            return None  # under the total order, a page of NaN has NaN for bounds
        findings.add("bound-is-nan", f"the {which} bound is NaN", index=index, page=page)
        return None
    return chunk.ordering.cell(key)


def check_bounds(
    chunk: CheckedChunk,
    low: tuple[bytes, Any],
    high: tuple[bytes, Any],
    findings: Findings,
    *,
    index: str,
    page: int | None,
) -> None:
    """Note values that lie outside their bounds.

    Args:
        chunk: The chunk.
        low: The lower bound as bytes and as key; None as key where it is not known.
        high: The upper bound, likewise.
        findings: Where to note.
        index: The structure that holds the bounds.
        page: The page that they are of; None for the whole chunk.
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
    places = np.flatnonzero(extremes.holds) if page is None else np.array([page])[extremes.holds[[page]]]
    below = (
        0 if low_key is None else _count_outside(chunk, places[extremes.lows[places] < low_key], low_key, "<")
    )
    above = (
        0
        if high_key is None
        else _count_outside(chunk, places[extremes.highs[places] > high_key], high_key, ">")
    )
    if below:
        found = shown_key(chunk, extremes.lows[places].min())
        message = f"{_values(below)} below the lower bound {text(low_raw)}, such as {found}"
        findings.add("bounds-exclude-values", message, index=index, page=page)
    if above:
        found = shown_key(chunk, extremes.highs[places].max())
        message = f"{_values(above)} above the upper bound {text(high_raw)}, such as {found}"
        findings.add("bounds-exclude-values", message, index=index, page=page)


def shown_key(chunk: CheckedChunk, key: Any) -> str:
    """A key as people read it."""
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
    """Whether bounds of a leaf mean something; if not, that is noted."""
    if chunk.ordering is None:
        name = leaf.logical_name or leaf.type.name
        message = f"there are bounds, but {name} has no order"
        findings.add("bounds-without-order", message, index=index, page=page)
        return False
    if not is_declared:
        message = "there are bounds, but the footer has no column order for them (column_orders)"
        findings.add("no-column-order", message, index=index, page=page)
    return True


def _count_outside(chunk: CheckedChunk, pages: Any, bound: Any, side: str) -> int:
    """Values of some pages that lie beyond a bound."""
    count = 0
    for page in pages.tolist():
        keys = chunk.keys(chunk.page_values(page))
        count += int(np.count_nonzero(keys < bound if side == "<" else keys > bound))
    return count


def _values(count: int) -> str:
    return "1 value lies" if count == 1 else f"{count} values lie"
