"""Check bounds, and the statistics of chunks and of pages in their headers, against the values."""

from __future__ import annotations

from collections.abc import Iterable
from itertools import pairwise
from operator import ne
from typing import Any

import numpy as np
import pyarrow.compute as pc

from intarsia.amounts import are
from intarsia.check.verification.chunk import CheckedChunk, sum_of
from intarsia.check.verification.findings import Findings
from intarsia.errors import CorruptFileError
from intarsia.file.writers import Claim
from intarsia.format.enums import BoundaryOrder
from intarsia.format.structs import BoundingBox, Statistics
from intarsia.format.wkb import Geometry, type_name
from intarsia.rows.int96 import Int96
from intarsia.rows.ordering import truncate_max
from intarsia.rows.values import human_value, shown

#: The column orders under which bounds compare as `Ordering` does.
DECLARED_ORDERS = ("TYPE_ORDER", "IEEE_754_TOTAL_ORDER")

_INT96_ORDER = "INT96_TIMESTAMP_ORDER"


def are_comparable(chunk: CheckedChunk, nan_counts: object, findings: Findings) -> bool:
    """Return whether bounds of a chunk can be compared with its values; if not, add a finding.

    Args:
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
        findings.add("nan-count-missing", "there is no NaN count, which IEEE_754_TOTAL_ORDER requires")
    return True


def check_bounds(
    chunk: CheckedChunk, low: bytes | None, high: bytes | None, findings: Findings
) -> tuple[Any, Any]:
    """Add findings for values outside their bounds.

    Args:
        chunk: The chunk, whose bounds `are_comparable`.
        low: The lower bound.
        high: The upper bound.

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
        findings.add("bounds-out-of-order", f"the lower bound {texts[0]} is above the upper bound {texts[1]}")
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
            findings.add("bounds-exclude-values", f"{'-0.0' if is_lower else '0.0'} is outside {limit}")
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


#: A truncated upper bound is up to this much shorter than the limit of the writer.
_LONGEST_CHARACTER_BYTES = 4


def check_statistics(chunk: CheckedChunk) -> None:
    """Compare the statistics in the footer with the values."""
    statistics = chunk.meta.statistics
    if statistics is None:
        return
    claim = None
    if statistics.min_value is not None or statistics.max_value is not None:
        claim = Claim.BOUNDS
    elif statistics.min is not None or statistics.max is not None:
        claim = Claim.DEPRECATED_BOUNDS
    if claim is not None:
        trust = chunk.file.trust(chunk.leaf)
        claims = (claim, Claim.LOWER_BOUND, Claim.UPPER_BOUND)
        doubts = (trust.doubt_of_writer(one, chunk.meta) for one in claims)
        chunk.findings.note_writer("Statistics", next(filter(None, doubts), None))
    chunk.findings.count_checked("statistics")
    _check(statistics, chunk, chunk.findings.of("Statistics"))


def check_page_statistics(chunk: CheckedChunk) -> None:
    """Compare the statistics in page headers with the values of the pages."""
    for ordinal, page in enumerate(chunk.pages):
        header = page.header.data_page_header or page.header.data_page_header_v2
        if header is not None and header.statistics is not None:
            chunk.findings.count_checked("page_statistics")
            _check(header.statistics, chunk, chunk.findings.of("PageHeader", ordinal))


def _check(statistics: Statistics, chunk: CheckedChunk, findings: Findings) -> None:
    for rule, what, claimed, by_page, is_wrong in (
        ("null-count", "nulls", statistics.null_count, chunk.null_counts, chunk.are_wrong_nulls),
        ("nan-count", "NaNs", statistics.nan_count, chunk.nan_counts, ne),
    ):
        actual = sum_of(by_page, findings.page)
        if claimed is not None and claimed < 0:
            findings.add("null-count-invalid", f"they count {claimed} {what}")
        elif claimed is not None and actual is not None and is_wrong(claimed, actual):
            findings.add(rule, f"they count {claimed} {what}, but there are {actual}")
    if statistics.distinct_count is not None:
        _check_distinct_count(statistics.distinct_count, chunk, findings)
    exact = statistics.is_min_value_exact, statistics.is_max_value_exact
    pairs = [((statistics.min_value, statistics.max_value), exact, True)]
    # deprecated bounds compare as signed numbers, so they are undefined for other types
    if chunk.leaf.is_signed:
        pairs.append(((statistics.min, statistics.max), (None, None), False))
    for bounds, flags, is_current in pairs:
        if bounds == (None, None):
            continue
        if is_current and not are_comparable(chunk, statistics.nan_count, findings):
            continue
        if is_current or chunk.ordering is not None:
            _check_exactness(chunk, bounds, check_bounds(chunk, *bounds, findings), flags, findings)
        if (statistics.min, statistics.max) == bounds:
            break  # both pairs are equal


def _check_distinct_count(claimed: int, chunk: CheckedChunk, findings: Findings) -> None:
    if chunk.values is None or chunk.ordering is None:
        return
    if chunk.ordering.is_float:  # it is undefined whether NaNs, and both zeros, count once
        numbers = chunk.keys(findings.page)
        fewest = len(np.unique(numbers[~np.isnan(numbers)]))
        most = len(np.unique(numbers.view(np.int64)))
    else:
        fewest = most = len(pc.unique(chunk.page_values(findings.page)))
    if not fewest <= claimed <= most:
        findings.add("distinct-count", f"they count {claimed} distinct values, but there are {most}")


def _check_exactness(
    chunk: CheckedChunk,
    bounds: tuple[bytes | None, bytes | None],
    keys: tuple[Any, Any],
    flags: tuple[bool | None, bool | None],
    findings: Findings,
) -> None:
    """Check that bounds are values, unless they are declared inexact.

    Args:
        bounds: The lower and the upper bound.
        keys: Their keys; None for those that are unknown.
        flags: Whether each of them is declared exact; None if the writer has not said.
    """
    extremes, page, ordering = chunk.extremes, findings.page, chunk.ordering
    if extremes is None or ordering is None:
        return
    pages = np.flatnonzero(extremes.has_value) if page is None else np.array([page])
    if not extremes.has_value[pages].any():
        return
    values = extremes.lows[pages].min(), extremes.highs[pages].max()
    for which, raw, key, is_exact, actual in zip(
        ("lower", "upper"), bounds, keys, flags, values, strict=True
    ):
        if is_exact is False or raw is None:
            continue
        encoded = ordering.encode(actual)
        bound = human_value(chunk.leaf, raw)
        # compare as values, because both zeros are equal, and so are decimals with leading zero bytes
        if raw == encoded or bound == human_value(chunk.leaf, encoded):
            continue
        text, value = f"the {which} bound {shown(bound)}", shown_key(chunk, actual)
        if is_exact:
            findings.add("bound-not-exact", f"{text} is declared exact, but {value} is")
        elif page is not None or key is None:  # aggregates are not computed from page headers
            continue
        elif (key < actual if which == "lower" else key > actual) and not (
            ordering.is_bytes and _is_truncated(raw, encoded, which)
        ):
            message = f"{text} is not a value and not marked as inexact; {value} is the value"
            findings.add("bound-not-marked", message)


def _is_truncated(bound: bytes, value: bytes, which: str) -> bool:
    """Return whether a bound is a value that was cut to some length, as writers do without saying so."""
    if which == "lower":
        return value.startswith(bound)
    lengths = range(len(bound), len(bound) + _LONGEST_CHARACTER_BYTES)
    return any(
        truncate_max(value, length, text=text) == bound for length in lengths for text in (True, False)
    )


#: Boxes of GEOGRAPHY are computed on the sphere and rounded: 1e-9 degrees are 0.1 mm.
_ROUNDING_DEGREES = 1e-9


def check_geospatial_statistics(chunk: CheckedChunk) -> None:
    """Compare the bounding box and the types of a chunk with its values."""
    statistics = chunk.meta.geospatial_statistics
    if statistics is None:
        return
    findings = chunk.findings.of("GeospatialStatistics")
    findings.count_checked("geospatial_statistics")
    if chunk.leaf.logical_name not in ("GEOMETRY", "GEOGRAPHY"):
        message = "it has geospatial statistics, but the column is not GEOMETRY or GEOGRAPHY"
        findings.add("bounds-without-order", message)
        return
    types = statistics.geospatial_types or []
    limits = {} if statistics.bbox is None else _checked_limits(statistics.bbox, findings)
    if len(set(types)) < len(types):
        findings.add("geospatial-types-not-exact", "a type is listed twice")
    if chunk.values is None:
        return
    rounding = _ROUNDING_DEGREES if chunk.leaf.logical_name == "GEOGRAPHY" else 0.0
    found: set[int] = set()
    outside: dict[str, tuple[float, int]] = {}
    for value in chunk.values:
        try:
            geometry = Geometry(value.as_py())
        except CorruptFileError as error:
            findings.add("unchecked", f"a value is {error.message}")
            return
        found.add(geometry.code)
        for axis, (low, high) in limits.items():
            for numbers in geometry.coordinates(axis):
                below, above = numbers < low - rounding, numbers > high + rounding
                wrong = numbers[below & above if axis == "X" and low > high else below | above]
                if len(wrong):
                    example, count = outside.get(axis, (float(wrong[0]), 0))
                    outside[axis] = example, count + len(wrong)
    for axis, (example, count) in outside.items():
        message = f"{are(count, 'coordinate')} outside the bounding box on {axis}, such as {example}"
        findings.add("bounding-box-excludes-values", message)
    for rule, text, codes in (
        ("geospatial-types-incomplete", "types are missing", found - set(types) if types else set()),
        ("geospatial-types-not-exact", "types do not occur", set(types) - found),
    ):
        if codes:
            findings.add(rule, f"{text}: {', '.join(map(type_name, sorted(codes)))}")


def _checked_limits(box: BoundingBox, findings: Findings) -> dict[str, tuple[float, float]]:
    """Check a bounding box; return the limits on each axis that has both."""
    limits = {}
    for axis in "XYZM":
        low, high = (getattr(box, f"{axis.lower()}{end}") for end in ("min", "max"))
        if (low is None) != (high is None):
            findings.add("bounding-box-incomplete", f"the bounding box has one limit on {axis}")
        if low is None or high is None:
            continue
        if np.isnan(low) or np.isnan(high):
            findings.add("bound-is-nan", f"a limit of the bounding box on {axis} is NaN")
            continue
        if low > high and axis != "X":  # on X, it crosses the antimeridian
            message = f"the bounding box ends at {high} on {axis}, before it starts at {low}"
            findings.add("bounds-out-of-order", message)
        limits[axis] = low, high
    return limits
