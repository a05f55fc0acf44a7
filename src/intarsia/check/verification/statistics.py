"""Check statistics of chunks, and of pages in their headers, against the values."""

from __future__ import annotations

from typing import Any

import numpy as np
import pyarrow.compute as pc

from intarsia.check.values import human_value, shown
from intarsia.check.verification.bounds import are_comparable, check_bounds, shown_key
from intarsia.check.verification.chunk import CheckedChunk, sum_of
from intarsia.check.verification.findings import Findings
from intarsia.errors import CorruptFileError
from intarsia.file.trust import Claim
from intarsia.format.enums import Type
from intarsia.format.footer import Leaf
from intarsia.format.structs import BoundingBox, Statistics
from intarsia.format.wkb import Geometry, type_name
from intarsia.read.amounts import are
from intarsia.rows.ordering import truncate_max

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
        doubt = chunk.file.trust(chunk.leaf).doubt_of_writer(claim, chunk.meta)
        chunk.findings.note_writer("Statistics", doubt)
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
    for rule, what, claimed, by_page in (
        ("null-count", "nulls", statistics.null_count, chunk.null_counts),
        ("nan-count", "NaNs", statistics.nan_count, chunk.nan_counts),
    ):
        actual = sum_of(by_page, findings.page)
        if claimed is not None and claimed < 0:
            findings.add("null-count-invalid", f"they count {claimed} {what}")
        elif None not in (claimed, actual) and claimed != actual:
            findings.add(rule, f"they count {claimed} {what}, but there are {actual}")
    if statistics.distinct_count is not None:
        _check_distinct_count(statistics.distinct_count, chunk, findings)
    exact = statistics.is_min_value_exact, statistics.is_max_value_exact
    pairs = [((statistics.min_value, statistics.max_value), exact, True)]
    # deprecated bounds compare as signed numbers, so they are undefined for other types
    if _compares_as_signed(chunk.leaf):
        pairs.append(((statistics.min, statistics.max), (None, None), False))
    for bounds, flags, is_current in pairs:
        if bounds == (None, None):
            continue
        if is_current and not are_comparable(chunk, statistics.nan_count, findings):
            continue
        if is_current or chunk.ordering is not None:
            keys = check_bounds(chunk, *bounds, findings)
            _check_exactness(chunk, bounds, keys, flags, findings)
        if (statistics.min, statistics.max) == bounds:
            break  # both pairs are equal


def _compares_as_signed(leaf: Leaf) -> bool:
    """Return whether values compare as signed numbers, like deprecated bounds."""
    if leaf.type not in (Type.INT32, Type.INT64, Type.FLOAT, Type.DOUBLE):
        return False
    integer = leaf.logical.INTEGER if leaf.logical is not None else None
    return integer is None or integer.isSigned


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
        chunk: The chunk.
        bounds: The lower and the upper bound.
        keys: Their keys; None for those that are unknown.
        flags: Whether each of them is declared exact; None if the writer has not said.
        findings: Of the statistics.
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
