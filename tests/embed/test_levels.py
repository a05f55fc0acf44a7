"""Counting levels, compared with levels decoded one by one."""

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from intarsia.errors import CorruptFileError
from intarsia.format.levels import count_levels


def varint(number):
    out = bytearray()
    while number > 0x7F:
        out.append(number & 0x7F | 0x80)
        number >>= 7
    return bytes([*out, number])


@st.composite
def encoded_levels(draw):
    """Draw levels, the maximum level, and one of their possible encodings."""
    top = draw(st.integers(1, 9))
    width = top.bit_length()
    levels, data = [], b""
    for _ in range(draw(st.integers(1, 6))):
        if draw(st.booleans()):
            level, count = draw(st.integers(0, top)), draw(st.integers(0, 300))
            levels += [level] * count
            data += varint(count << 1) + level.to_bytes((width + 7) // 8, "little")
        else:
            groups = draw(st.integers(0, 3))
            packed = draw(st.lists(st.integers(0, top), min_size=groups * 8, max_size=groups * 8))
            levels += packed
            bits = sum(level << place * width for place, level in enumerate(packed))
            data += varint(groups << 1 | 1) + bits.to_bytes(groups * width, "little")
    return top, levels, data


@given(encoded_levels(), st.integers(0, 7))
def test_counts(drawn, padding):
    top, levels, data = drawn
    levels = levels[: max(len(levels) - padding, 0)]  # the last run may extend beyond the levels
    counts = count_levels(data, top, len(levels))
    assert counts.histogram.tolist() == np.bincount(levels, minlength=top + 1).tolist()
    assert counts.first == (levels[0] if levels else 0)


@given(encoded_levels())
def test_too_few(drawn):
    top, levels, data = drawn
    with pytest.raises(CorruptFileError):
        count_levels(data, top, len(levels) + 1)


@given(st.binary(max_size=40), st.integers(0, 5), st.integers(0, 1 << 31))
def test_any_bytes_produce_counts_or_a_clear_error(data, top, num_values):
    try:
        counts = count_levels(data, top, num_values)
    except CorruptFileError:
        return
    assert counts.histogram.sum() == num_values


def test_views_of_signed_bytes():
    """pyarrow's buffers are of this type."""
    data = varint(200 << 1) + b"\x01"
    assert count_levels(memoryview(data).cast("b"), 1, 200).histogram.tolist() == [0, 200]


def test_a_billion_levels_cost_nothing():
    counts = count_levels(varint(1 << 31) + b"\x01", 1, 1 << 30)
    assert counts.histogram.tolist() == [0, 1 << 30]
