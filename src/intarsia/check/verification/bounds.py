"""Check bounds against the values that they must enclose."""

from __future__ import annotations

from collections.abc import Iterable
from itertools import pairwise
from typing import Any

import numpy as np

from intarsia.check.values import human_value, shown
from intarsia.check.verification.chunk import CheckedChunk, sum_of
from intarsia.check.verification.findings import Findings
from intarsia.errors import CorruptFileError
from intarsia.format.enums import BoundaryOrder
from intarsia.read.amounts import are
from intarsia.rows.int96 import Int96

#: The column orders under which bounds compare as `Ordering` does.
DECLARED_ORDERS = ("TYPE_ORDER", "IEEE_754_TOTAL_ORDER")

_INT96_ORDER = "INT96_TIMESTAMP_ORDER"


def are_comparable(chunk: CheckedChunk, nan_counts: object, findings: Findings) -> bool:
    """Return whether bounds of a chunk can be compared with its values; if not, add a finding.

    Args:
        chunk: The chunk.
        nan_counts: The NaN counts of the structure; its bounds need them under the total order.
        findings: Of the structure with the bounds, and of its page if it is not about the whole chunk.
    """
    if chunk.order == _INT96_ORDER:
        if chunk.pages and isinstance(chunk.int96_values, str):
            findings.add("unchecked", chunk.int96_values)
        return bool(chunk.pages) and not isinstance(chunk.int96_values, str)
    if chunk.ordering is None:
        name = chunk.leaf.logical_name or chunk.leaf.type.name
        findings.add("bounds-without-order", f"it has bounds, but {name} has no order")
        return False
    if chunk.order not in DECLARED_ORDERS:
        message = "it has bounds, but the footer declares no column order (column_orders)"
        findings.add("no-column-order", message)
    if chunk.total_order and nan_counts is None:
        message = "there is no NaN count, which IEEE_754_TOTAL_ORDER requires"
        findings.add("nan-count-missing", message)
    return True


def check_bounds(
    chunk: CheckedChunk, low: bytes | None, high: bytes | None, findings: Findings
) -> tuple[Any, Any]:
    """Add findings for values outside their bounds.

    Args:
        chunk: The chunk, whose bounds `are_comparable`.
        low: The lower bound.
        high: The upper bound.
        findings: As for `are_comparable`.

    Returns:
        The bounds as keys; None for those that are missing or unreadable.
    """
    if chunk.order == _INT96_ORDER:
        return _check_int96_bounds(chunk, low, high, findings)
    if sum_of(chunk.present, findings.page) == 0:
        return None, None
    low_key, high_key = (
        None if raw is None else _key(chunk, raw, which, findings)
        for raw, which in ((low, "lower"), (high, "upper"))
    )
    if low is not None and high is not None and _are_inverted(low_key, high_key):
        texts = [shown(human_value(chunk.leaf, raw)) for raw in (low, high)]
        message = f"the lower bound {texts[0]} is above the upper bound {texts[1]}"
        findings.add("bounds-out-of-order", message)
    elif chunk.extremes is not None:
        _check_side(chunk, (low, low_key), findings, is_lower=True)
        _check_side(chunk, (high, high_key), findings, is_lower=False)
    return low_key, high_key


def _are_inverted(low: Any, high: Any) -> bool:
    """Return whether the lower of two keys, which may be unknown, is above the upper one."""
    return low is not None and high is not None and bool(low > high)


def _check_side(
    chunk: CheckedChunk, bound: tuple[bytes | None, Any], findings: Findings, *, is_lower: bool
) -> None:
    """Add findings for values below the lower bound, or above the upper bound."""
    raw, key = bound
    extremes, which = chunk.extremes, "lower" if is_lower else "upper"
    if raw is None or key is None or extremes is None:
        return
    pages = np.flatnonzero(extremes.has_value) if findings.page is None else np.array([findings.page])
    pages = pages[extremes.has_value[pages]]
    if chunk.total_order and key == 0 and np.signbit(key) != is_lower:
        zeros = (keys[keys == 0] for keys in map(chunk.keys, pages.tolist()))
        if any((np.signbit(found) == is_lower).any() for found in zeros):
            limit = f"the {which} bound {shown(human_value(chunk.leaf, raw))} by IEEE_754_TOTAL_ORDER"
            message = f"{'-0.0' if is_lower else '0.0'} is outside {limit}"
            findings.add("bounds-exclude-values", message)
    is_outside, worst = (np.less, extremes.lows) if is_lower else (np.greater, extremes.highs)
    pages = pages[is_outside(worst[pages], key)]
    if len(pages):
        number = sum(int(np.count_nonzero(is_outside(chunk.keys(page), key))) for page in pages.tolist())
        example = worst[pages].min() if is_lower else worst[pages].max()
        limit = f"the {which} bound {shown(human_value(chunk.leaf, raw))}"
        message = f"{are(number, 'value')} {'below' if is_lower else 'above'} {limit}, such as "
        findings.add("bounds-exclude-values", message + shown_key(chunk, example))


def _key(chunk: CheckedChunk, raw: bytes, which: str, findings: Findings) -> Any:
    """Return the key of one bound as an array without dimensions; None, with a finding, if it is invalid."""
    assert chunk.ordering is not None
    try:
        key = chunk.ordering.decode([raw])[0]
    except CorruptFileError:
        name = raw[:20].hex() or "without bytes"
        findings.add("bound-unreadable", f"the {which} bound {name} is not a valid {chunk.leaf.type.name}")
        return None
    if not (chunk.ordering.is_float and np.isnan(key)):
        return chunk.ordering.cell(key)
    # under the total order, pages with NaN only have NaN as bounds; if the counts are unknown, assume that
    nans, present = (sum_of(counts, findings.page) for counts in (chunk.nan_counts, chunk.present))
    if not chunk.total_order or (nans is not None and nans != present):
        findings.add("bound-is-nan", f"the {which} bound is NaN")
    return None


def check_boundary_order(order: int, pairs: Iterable[tuple[Any, Any]], findings: Findings) -> None:
    """Compare the boundary order of a ColumnIndex with the keys of its bounds; None is an unknown key."""
    keys = list(pairs)
    is_ordered = order in (BoundaryOrder.ASCENDING, BoundaryOrder.DESCENDING)
    if not is_ordered or any(key is None for pair in keys for key in pair):
        return
    for end, which in enumerate(("lower", "upper")):
        bounds = [pair[end] for pair in keys]
        if any(b < a if order == BoundaryOrder.ASCENDING else b > a for a, b in pairwise(bounds)):
            name = shown(BoundaryOrder(order).name.lower())
            message = f"the order is {name}, but the {which} bounds of its pages are not"
            findings.add("boundary-order", message)


def shown_key(chunk: CheckedChunk, key: Any) -> str:
    """Format a key."""
    assert chunk.ordering is not None
    return shown(human_value(chunk.leaf, chunk.ordering.encode(key)))


def _check_int96_bounds(
    chunk: CheckedChunk, low: bytes | None, high: bytes | None, findings: Findings
) -> tuple[Int96 | None, Int96 | None]:
    values, present = chunk.int96_values, chunk.present
    assert not isinstance(values, str)
    assert present is not None
    keys = _parse_int96(low, "lower", findings), _parse_int96(high, "upper", findings)
    start = 0 if findings.page is None else int(chunk.first_values[findings.page])
    number = sum_of(present, findings.page) or 0
    if _are_inverted(*keys):
        findings.add("bounds-out-of-order", "the lower bound is above the upper bound")
    elif number:
        for which, bound, extreme in zip(
            ("lower", "upper"), keys, values.extremes(start, start + number), strict=True
        ):
            if bound is not None and (extreme < bound if which == "lower" else extreme > bound):
                outside, limit = (shown(human_value(chunk.leaf, key.serialize())) for key in (extreme, bound))
                message = f"values are outside the {which} bound {limit}, such as {outside}"
                findings.add("bounds-exclude-values", message)
    return keys


def _parse_int96(raw: bytes | None, which: str, findings: Findings) -> Int96 | None:
    try:
        return None if raw is None else Int96.parse(raw)
    except CorruptFileError:
        name = (raw or b"")[:20].hex() or "without bytes"
        findings.add("bound-unreadable", f"the {which} bound {name} is not an INT96")
        return None
