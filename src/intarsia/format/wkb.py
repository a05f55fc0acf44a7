"""Well-Known Binary as GEOMETRY and GEOGRAPHY columns store it: the type and the extent of a value.

Only the ISO form is read, as parquet-format requires; the flags of EWKB are refused.
Source: ``Geospatial.md`` of parquet-format.
"""

from __future__ import annotations

import struct
from collections.abc import Iterator
from typing import Any

import numpy as np
import numpy.typing as npt

from intarsia.errors import CorruptFileError

POINT, LINE_STRING, POLYGON, MULTI_POINT, MULTI_LINE_STRING, MULTI_POLYGON, COLLECTION = range(1, 8)

TYPE_NAMES = {
    POINT: "Point",
    LINE_STRING: "LineString",
    POLYGON: "Polygon",
    MULTI_POINT: "MultiPoint",
    MULTI_LINE_STRING: "MultiLineString",
    MULTI_POLYGON: "MultiPolygon",
    COLLECTION: "GeometryCollection",
}

#: The coordinates of a point, by the thousands of the type code.
DIMENSIONS = ("XY", "XYZ", "XYM", "XYZM")

#: Collections in collections are refused beyond this depth.
MAX_WKB_DEPTH = 16

#: The minimum size of a part in bytes: the byte order, type and count of a geometry, or the count of a ring.
_GEOMETRY_BYTES, _RING_BYTES = 9, 4


def type_name(code: int) -> str:
    """Return the name of an ISO type code.

    Example:
        >>> type_name(1), type_name(3006), type_name(9000)
        ('Point', 'MultiPolygon ZM', 'unknown (9000)')
    """
    thousands, base = divmod(code, 1000)
    if base not in TYPE_NAMES or not 0 <= thousands < len(DIMENSIONS):
        return f"unknown ({code})"
    return f"{TYPE_NAMES[base]} {DIMENSIONS[thousands][2:]}".rstrip()


class Geometry:
    """One value.

    Attributes:
        code: Its ISO type code, such as 1 for a point with X and Y and 1001 for one with Z.

    Raises:
        CorruptFileError: If it is not WKB, or is nested too deeply.
    """

    def __init__(self, raw: bytes) -> None:
        self._raw = raw
        self._points: list[tuple[str, npt.NDArray[np.float64]]] = []
        self.code, stop = self._read(0, 0)
        if stop != len(raw):
            raise _error(f"{len(raw) - stop} bytes follow the geometry")

    def coordinates(self, axis: str) -> Iterator[npt.NDArray[np.float64]]:
        """Yield the coordinates of all points on one axis, such as ``"X"`` or ``"M"``; NaN included."""
        for axes, points in self._points:
            if axis in axes:
                yield points[:, axes.index(axis)]

    def _read(self, position: int, depth: int) -> tuple[int, int]:
        """Read the geometry at a position; return its type code and the position after it."""
        if depth > MAX_WKB_DEPTH:
            raise _error(f"the geometry is nested deeper than {MAX_WKB_DEPTH}")
        order = self._raw[position : position + 1]
        if order not in (b"\x00", b"\x01"):
            raise _error(f"byte {position} is not a byte order")
        endian = "<" if order == b"\x01" else ">"
        code, position = self._number(position + 1, endian)
        thousands, base = divmod(code, 1000)
        if base not in TYPE_NAMES or thousands >= len(DIMENSIONS):
            raise _error(f"{code} is not an ISO geometry type")
        axes = DIMENSIONS[thousands]
        if base == POINT:
            return code, self._add(position, 1, axes, endian)
        count, position = self._number(position, endian)
        if base == LINE_STRING:
            return code, self._add(position, count, axes, endian)
        smallest = _RING_BYTES if base == POLYGON else _GEOMETRY_BYTES
        if count * smallest > len(self._raw) - position:
            raise _error(f"it claims {count} parts, and {len(self._raw) - position} bytes are left")
        for _ in range(count):
            if base == POLYGON:
                points, position = self._number(position, endian)
                position = self._add(position, points, axes, endian)
            else:
                _, position = self._read(position, depth + 1)
        return code, position

    def _number(self, position: int, endian: str) -> tuple[int, int]:
        try:
            return struct.unpack_from(f"{endian}I", self._raw, position)[0], position + 4
        except struct.error:
            raise _error("it ends too early") from None

    def _add(self, position: int, count: int, axes: str, endian: str) -> int:
        """Record points; return the position after them."""
        stop = position + count * len(axes) * 8
        if stop > len(self._raw):
            raise _error(f"it claims {count} points, and {len(self._raw) - position} bytes are left")
        if count:
            values: Any = np.frombuffer(self._raw, f"{endian}f8", count * len(axes), position)
            self._points.append((axes, values.reshape(count, len(axes))))
        return stop


def _error(what: str) -> CorruptFileError:
    return CorruptFileError(f"not WKB: {what}", reason="not-wkb")
