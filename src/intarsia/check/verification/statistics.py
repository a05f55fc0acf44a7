"""Check statistics of chunks, and of pages in their headers, against the values."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc

from intarsia.check.inspection import human_value
from intarsia.check.inspection.values import shown
from intarsia.check.verification.bounds import (
    bound_key,
    check_bounds,
    check_int96_statistics,
    check_nan_count,
    has_bounds_order,
    has_int96_order,
    shown_key,
)
from intarsia.check.verification.chunk import CheckedChunk
from intarsia.check.verification.findings import Findings
from intarsia.errors import CorruptFileError
from intarsia.file import ParquetInput
from intarsia.format.enums import Type
from intarsia.format.footer import Leaf
from intarsia.format.structs import BoundingBox, Statistics
from intarsia.format.wkb import Geometry, type_name
from intarsia.read.amounts import are
from intarsia.rows.ordering import truncate_max

#: A truncated upper bound is up to this much shorter than the limit of the writer.
_LONGEST_CHARACTER_BYTES = 4


@dataclass(frozen=True)
class _Checked:
    """The statistics of a chunk or page, with their values.

    Attributes:
        chunk: The chunk.
        findings: Of the structure, and of its page if it is not about the whole chunk.
    """

    chunk: CheckedChunk
    findings: Findings

    def add(self, rule: str, message: str) -> None:
        self.findings.add(rule, message)

    def sum(self, by_page: npt.NDArray[np.int64] | None) -> int | None:
        if by_page is None:
            return None
        return int(by_page.sum() if self.findings.page is None else by_page[self.findings.page])

    @property
    def values(self) -> pa.ChunkedArray | None:
        if self.chunk.values is None or self.findings.page is None:
            return self.chunk.values
        return self.chunk.page_values(self.findings.page)


def check_statistics(
    file: ParquetInput, chunk: CheckedChunk, statistics: Statistics, findings: Findings
) -> None:
    """Compare the statistics in the footer with the values."""
    findings.count_checked("statistics")
    _check(file, statistics, _Checked(chunk, findings.of("Statistics")))


def check_page_statistics(file: ParquetInput, chunk: CheckedChunk, findings: Findings) -> None:
    """Compare the statistics in page headers with the values of the pages."""
    for ordinal, page in enumerate(chunk.pages):
        header = page.header.data_page_header or page.header.data_page_header_v2
        if header is not None and header.statistics is not None:
            findings.count_checked("page_statistics")
            _check(file, header.statistics, _Checked(chunk, findings.of("PageHeader", ordinal)))


def _check(file: ParquetInput, statistics: Statistics, checked: _Checked) -> None:
    chunk = checked.chunk
    _check_count("null-count", "nulls", statistics.null_count, checked.sum(chunk.null_counts), checked)
    _check_count("nan-count", "NaNs", statistics.nan_count, checked.sum(chunk.nan_counts), checked)
    _check_distinct_count(statistics.distinct_count, checked)
    pairs = [(statistics.min_value, statistics.max_value, True)]
    # deprecated bounds compare as signed numbers, so they are undefined for other types
    if _compares_as_signed(chunk.leaf):
        pairs.append((statistics.min, statistics.max, False))
    for low, high, is_current in pairs:
        if low is None and high is None:
            continue
        if is_current and has_int96_order(file.footer, chunk.leaf):
            check_int96_statistics(chunk, statistics, checked.findings)
            continue
        if is_current:
            if not has_bounds_order(file.footer, chunk, checked.findings):
                continue
            check_nan_count(chunk, statistics.nan_count, checked.findings)
        if chunk.ordering is not None:
            keys = _check_pair(low, high, checked)
            flags = (statistics.is_min_value_exact, statistics.is_max_value_exact)
            _check_exactness((low, high), keys, flags if is_current else (None, None), checked)
        if (statistics.min, statistics.max) == (low, high):
            break  # both pairs are equal


def _compares_as_signed(leaf: Leaf) -> bool:
    """Return whether values compare as signed numbers, like deprecated bounds."""
    if leaf.type not in (Type.INT32, Type.INT64, Type.FLOAT, Type.DOUBLE):
        return False
    integer = leaf.logical.INTEGER if leaf.logical is not None else None
    return integer is None or integer.isSigned


def _check_count(rule: str, what: str, claimed: int | None, actual: int | None, checked: _Checked) -> None:
    if claimed is None:
        return
    if claimed < 0:
        checked.add("null-count-invalid", f"they count {claimed} {what}")
    elif actual is not None and claimed != actual:
        checked.add(rule, f"they count {claimed} {what}, but there are {actual}")


def _check_distinct_count(claimed: int | None, checked: _Checked) -> None:
    if claimed is None or checked.values is None or checked.chunk.ordering is None:
        return
    values = checked.values
    if checked.chunk.ordering.is_float:  # it is undefined whether NaNs, and both zeros, count once
        numbers = checked.chunk.keys(values)
        fewest = len(np.unique(numbers[~np.isnan(numbers)]))
        most = len(np.unique(numbers.view(np.int64)))
    else:
        fewest = most = len(pc.unique(values))
    if not fewest <= claimed <= most:
        checked.add("distinct-count", f"they count {claimed} distinct values, but there are {most}")


def _check_pair(low: bytes | None, high: bytes | None, checked: _Checked) -> tuple[Any, Any]:
    """Check that bounds enclose the values, and return their keys; None for those that are unknown."""
    present = checked.sum(checked.chunk.present)
    if present == 0:
        return None, None  # there are no values
    keys = [
        None if raw is None else bound_key(checked.chunk, raw, which, checked.findings)
        for raw, which in ((low, "lower"), (high, "upper"))
    ]
    pairs = (low or b"", keys[0]), (high or b"", keys[1])
    check_bounds(checked.chunk, *pairs, checked.findings)
    return keys[0], keys[1]


def _check_exactness(
    bounds: tuple[bytes | None, bytes | None],
    keys: tuple[Any, Any],
    flags: tuple[bool | None, bool | None],
    checked: _Checked,
) -> None:
    """Check that bounds are values, unless they are declared inexact.

    Args:
        bounds: The lower and the upper bound.
        keys: Their keys; None for those that are unknown.
        flags: Whether each of them is declared exact; None if the writer has not said.
        checked: The statistics.
    """
    chunk, extremes, page = checked.chunk, checked.chunk.extremes, checked.findings.page
    if extremes is None:
        return
    pages = np.flatnonzero(extremes.has_value) if page is None else np.array([page])
    if not extremes.has_value[pages].any():
        return
    assert chunk.ordering is not None
    claims = (
        (bounds[0], keys[0], flags[0], extremes.lows[pages].min(), "lower"),
        (bounds[1], keys[1], flags[1], extremes.highs[pages].max(), "upper"),
    )
    for raw, key, is_exact, actual, which in claims:
        if is_exact is False or raw is None:
            continue
        encoded = chunk.ordering.encode(actual)
        bound = human_value(chunk.leaf, raw)
        # compare as values, because both zeros are equal, and so are decimals with leading zero bytes
        if raw != encoded and bound != human_value(chunk.leaf, encoded):
            if is_exact:
                message = f"the {which} bound {shown(bound)} is declared exact, "
                checked.add("bound-not-exact", message + f"but {shown_key(chunk, actual)} is")
            elif page is not None or key is None:  # aggregates are not computed from page headers
                continue
            elif (key < actual if which == "lower" else key > actual) and not (
                chunk.ordering.is_bytes and _is_truncated(raw, encoded, which)
            ):
                message = f"the {which} bound {shown(bound)} is not a value and not marked as inexact; "
                checked.add("bound-not-marked", message + f"{shown_key(chunk, actual)} is the value")


def _is_truncated(bound: bytes, value: bytes, which: str) -> bool:
    """Return whether a bound is a value that was cut to some length, as writers do without saying so."""
    if which == "lower":
        return value.startswith(bound)
    lengths = range(len(bound), len(bound) + _LONGEST_CHARACTER_BYTES)
    return any(
        truncate_max(value, length, text=text) == bound for length in lengths for text in (True, False)
    )


_INDEX = "GeospatialStatistics"

#: Boxes of GEOGRAPHY are computed on the sphere and rounded: 1e-9 degrees are 0.1 mm.
_ROUNDING_DEGREES = 1e-9


def check_geospatial_statistics(chunk: CheckedChunk, findings: Findings) -> None:
    """Compare the bounding box and the types of a chunk with its values."""
    statistics = chunk.meta.geospatial_statistics
    if statistics is None:
        return
    findings = findings.of(_INDEX)
    findings.count_checked("geospatial_statistics")
    if chunk.leaf.logical_name not in ("GEOMETRY", "GEOGRAPHY"):
        message = "it has geospatial statistics, but the column is not GEOMETRY or GEOGRAPHY"
        findings.add("bounds-without-order", message)
        return
    box, types = statistics.bbox, statistics.geospatial_types or []
    if box is not None:
        _check_box(box, findings)
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
        if box is not None:
            for axis in "XYZM":
                for numbers in geometry.coordinates(axis):
                    wrong = numbers[_is_outside(box, axis, numbers, rounding)]
                    if len(wrong):
                        example, count = outside.get(axis, (float(wrong[0]), 0))
                        outside[axis] = example, count + len(wrong)
    for axis, (example, count) in outside.items():
        message = f"{are(count, 'coordinate')} outside the bounding box on {axis}, such as {example}"
        findings.add("bounding-box-excludes-values", message)
    if types and found - set(types):
        missing = ", ".join(map(type_name, sorted(found - set(types))))
        findings.add("geospatial-types-incomplete", f"types are missing: {missing}")
    if set(types) - found:
        extra = ", ".join(map(type_name, sorted(set(types) - found)))
        findings.add("geospatial-types-not-exact", f"types do not occur: {extra}")


def _limits(box: BoundingBox, axis: str) -> tuple[float | None, float | None]:
    return getattr(box, f"{axis.lower()}min"), getattr(box, f"{axis.lower()}max")


def _check_box(box: BoundingBox, findings: Findings) -> None:
    for axis in "XYZM":
        low, high = _limits(box, axis)
        if (low is None) != (high is None):
            message = f"the bounding box has one limit on {axis}"
            findings.add("bounding-box-incomplete", message)
        if low is None or high is None:
            continue
        if np.isnan(low) or np.isnan(high):
            findings.add("bound-is-nan", f"a limit of the bounding box on {axis} is NaN")
        elif low > high and axis != "X":  # on X, it crosses the antimeridian
            message = f"the bounding box ends at {high} on {axis}, before it starts at {low}"
            findings.add("bounds-out-of-order", message)


def _is_outside(
    box: BoundingBox, axis: str, numbers: npt.NDArray[np.float64], rounding: float
) -> npt.NDArray[np.bool_]:
    """Mark the coordinates outside the box, except NaN and those on an axis without limits."""
    low, high = _limits(box, axis)
    if low is None or high is None or np.isnan(low) or np.isnan(high):
        return np.zeros(len(numbers), dtype=bool)
    below, above = numbers < low - rounding, numbers > high + rounding
    return np.asarray(below & above if axis == "X" and low > high else below | above)
