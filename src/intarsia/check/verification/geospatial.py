"""Check geospatial statistics of a chunk against its geometries.

The edges of a GEOGRAPHY may leave the bounding box of its points, so the check is necessary, but not
sufficient.
"""

from __future__ import annotations

import numpy as np
import numpy.typing as npt

from intarsia.check.verification.chunk import CheckedChunk
from intarsia.check.verification.findings import Findings
from intarsia.errors import CorruptFileError
from intarsia.format.structs import BoundingBox
from intarsia.format.wkb import Geometry, type_name
from intarsia.read.amounts import are

_INDEX = "GeospatialStatistics"

#: Boxes of GEOGRAPHY are computed on the sphere and rounded: 1e-9 degrees are 0.1 mm.
_ROUNDING_DEGREES = 1e-9


def check_geospatial_statistics(chunk: CheckedChunk, findings: Findings) -> None:
    """Compare the bounding box and the types of a chunk with its values."""
    statistics = chunk.meta.geospatial_statistics
    if statistics is None:
        return
    findings.count_checked("geospatial_statistics")
    if chunk.leaf.logical_name not in ("GEOMETRY", "GEOGRAPHY"):
        message = "it has geospatial statistics, but the column is not GEOMETRY or GEOGRAPHY"
        findings.add("bounds-without-order", message, index=_INDEX)
        return
    box, types = statistics.bbox, statistics.geospatial_types or []
    if box is not None:
        _check_box(box, findings)
    if len(set(types)) < len(types):
        findings.add("geospatial-types-not-exact", "a type is listed twice", index=_INDEX)
    if chunk.values is None:
        return
    rounding = _ROUNDING_DEGREES if chunk.leaf.logical_name == "GEOGRAPHY" else 0.0
    found: set[int] = set()
    outside: dict[str, tuple[float, int]] = {}
    for value in chunk.values:
        try:
            geometry = Geometry(value.as_py())
        except CorruptFileError as error:
            findings.add("unchecked", f"a value is {error.message}", index=_INDEX)
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
        findings.add("bounding-box-excludes-values", message, index=_INDEX)
    if types and found - set(types):
        missing = ", ".join(map(type_name, sorted(found - set(types))))
        findings.add("geospatial-types-incomplete", f"types are missing: {missing}", index=_INDEX)
    if set(types) - found:
        extra = ", ".join(map(type_name, sorted(set(types) - found)))
        findings.add("geospatial-types-not-exact", f"types do not occur: {extra}", index=_INDEX)


def _limits(box: BoundingBox, axis: str) -> tuple[float | None, float | None]:
    return getattr(box, f"{axis.lower()}min"), getattr(box, f"{axis.lower()}max")


def _check_box(box: BoundingBox, findings: Findings) -> None:
    for axis in "XYZM":
        low, high = _limits(box, axis)
        if (low is None) != (high is None):
            message = f"the bounding box has one limit on {axis}"
            findings.add("bounding-box-incomplete", message, index=_INDEX)
        if low is None or high is None:
            continue
        if np.isnan(low) or np.isnan(high):
            findings.add("bound-is-nan", f"a limit of the bounding box on {axis} is NaN", index=_INDEX)
        elif low > high and axis != "X":  # on X, it crosses the antimeridian
            message = f"the bounding box ends at {high} on {axis}, before it starts at {low}"
            findings.add("bounds-out-of-order", message, index=_INDEX)


def _is_outside(
    box: BoundingBox, axis: str, numbers: npt.NDArray[np.float64], rounding: float
) -> npt.NDArray[np.bool_]:
    """Mark the coordinates outside the box, except NaN and those on an axis without limits."""
    low, high = _limits(box, axis)
    if low is None or high is None or np.isnan(low) or np.isnan(high):
        return np.zeros(len(numbers), dtype=bool)
    below, above = numbers < low - rounding, numbers > high + rounding
    return np.asarray(below & above if axis == "X" and low > high else below | above)
