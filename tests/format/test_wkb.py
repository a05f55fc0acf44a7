"""Well-Known Binary: types and coordinates of every ISO geometry, and of damaged ones."""

import contextlib
import math
import struct

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from intarsia.errors import CorruptFileError
from intarsia.format.wkb import Geometry, type_name


def point(*coordinates, code=1, endian="<"):
    head = b"\x01" if endian == "<" else b"\x00"
    return head + struct.pack(f"{endian}I{len(coordinates)}d", code, *coordinates)


def line(points, code=2, endian="<"):
    head = b"\x01" if endian == "<" else b"\x00"
    flat = [number for each in points for number in each]
    return head + struct.pack(f"{endian}II{len(flat)}d", code, len(points), *flat)


def polygon(rings, code=3):
    out = b"\x01" + struct.pack("<II", code, len(rings))
    for ring in rings:
        out += struct.pack("<I", len(ring)) + b"".join(struct.pack(f"<{len(each)}d", *each) for each in ring)
    return out


def many(parts, code):
    return b"\x01" + struct.pack("<II", code, len(parts)) + b"".join(parts)


RING = [(0.0, 0.0), (4.0, 0.0), (4.0, 5.0), (0.0, 0.0)]


@pytest.mark.parametrize(
    ("raw", "code", "x", "y"),
    [
        (point(1.0, 2.0), 1, [1.0], [2.0]),
        (point(1.0, 2.0, endian=">"), 1, [1.0], [2.0]),
        (point(1.0, 2.0, 3.0, code=1001), 1001, [1.0], [2.0]),
        (line([(1.0, 2.0), (3.0, 4.0)]), 2, [1.0, 3.0], [2.0, 4.0]),
        (line([(1.0, 2.0), (3.0, 4.0)], endian=">"), 2, [1.0, 3.0], [2.0, 4.0]),
        (line([]), 2, [], []),
        (polygon([RING]), 3, [0.0, 4.0, 4.0, 0.0], [0.0, 0.0, 5.0, 0.0]),
        (polygon([]), 3, [], []),
        (many([point(1.0, 2.0), point(3.0, 4.0, endian=">")], 4), 4, [1.0, 3.0], [2.0, 4.0]),
        (many([line([(1.0, 2.0)])], 5), 5, [1.0], [2.0]),
        (many([polygon([RING])], 6), 6, [0.0, 4.0, 4.0, 0.0], [0.0, 0.0, 5.0, 0.0]),
        (many([point(1.0, 2.0), many([line([(3.0, 4.0)])], 7)], 7), 7, [1.0, 3.0], [2.0, 4.0]),
    ],
)
def test_geometries(raw, code, x, y):
    found = Geometry(raw)
    assert found.code == code
    for axis, expected in (("X", x), ("Y", y)):
        parts = list(found.coordinates(axis))
        assert (np.concatenate(parts).tolist() if parts else []) == expected


def test_other_axes():
    found = Geometry(line([(1.0, 2.0, 3.0, 4.0), (5.0, 6.0, 7.0, 8.0)], code=3002))
    assert [part.tolist() for part in found.coordinates("M")] == [[4.0, 8.0]]
    assert list(Geometry(point(1.0, 2.0, 3.0, code=2001)).coordinates("Z")) == []
    (empty,) = Geometry(point(math.nan, math.nan)).coordinates("X")
    assert math.isnan(empty[0])


@pytest.mark.parametrize(
    "raw",
    [
        b"",
        b"\x02" + point(1.0, 2.0)[1:],
        point(1.0, 2.0)[:-1],
        point(1.0, 2.0) + b"\x00",
        point(1.0, 2.0, code=0),
        point(1.0, 2.0, code=8),
        point(1.0, 2.0, code=4001),
        point(1.0, 2.0, code=0x80000001),  # EWKB with Z
        point(1.0, 2.0, code=0x20000001),  # EWKB with an SRID
        b"\x01" + struct.pack("<II", 2, 0xFFFFFFFF),
        b"\x01" + struct.pack("<II", 3, 0xFFFFFFFF),
        b"\x01" + struct.pack("<III", 3, 1, 0xFFFFFFFF),
        b"\x01" + struct.pack("<II", 7, 0xFFFFFFFF) + bytes(100),
        (b"\x01" + struct.pack("<II", 7, 1)) * 10_000,
    ],
)
def test_damaged_ones_are_refused(raw):
    with pytest.raises(CorruptFileError) as caught:
        Geometry(raw)
    assert caught.value.reason == "not-wkb"


@given(st.binary(max_size=60), st.integers(0, 80), st.integers(0, 255))
def test_any_bytes_are_read_or_refused(tail, place, value):
    raw = bytearray(many([point(1.0, 2.0), polygon([RING])], 7) + tail)
    raw[place % len(raw)] = value
    with contextlib.suppress(CorruptFileError):  # any other error fails the test
        Geometry(bytes(raw))


def test_names():
    assert [type_name(code) for code in (1, 1002, 2003, 3007)] == [
        "Point",
        "LineString Z",
        "Polygon M",
        "GeometryCollection ZM",
    ]
    assert [type_name(code) for code in (0, 8, 4001, -1)] == [
        "unknown (0)",
        "unknown (8)",
        "unknown (4001)",
        "unknown (-1)",
    ]
