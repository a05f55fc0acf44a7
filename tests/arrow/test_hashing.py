"""Hashes of whole arrays equal those of the xxhash package, value by value."""

from __future__ import annotations

import datetime as dt
import decimal
import re
import struct

import numpy as np
import pyarrow as pa
import pytest
import xxhash
from hypothesis import given, settings
from hypothesis import strategies as st

from intarsia.arrow.hashing import xxh64
from tests.effort import examples


def digests(values) -> list[int]:
    return [xxhash.xxh64_intdigest(value) for value in values]


def random_bytes(count: int, length: int, seed: int = 0) -> list[bytes]:
    raw = np.random.default_rng(seed + length).integers(0, 256, (count, length), dtype=np.uint8)
    return [row.tobytes() for row in raw]


@pytest.mark.parametrize("count", [1, 600])
@pytest.mark.parametrize("length", range(101))
def test_every_length_of_text_in_small_and_large_arrays(length, count):
    values = random_bytes(count, length)

    assert xxh64(pa.array(values, pa.binary())).tolist() == digests(values)


@pytest.mark.parametrize("length", range(1, 101))
def test_every_length_of_fixed_bytes(length):
    values = random_bytes(60, length)

    assert xxh64(pa.array(values, pa.binary(length))).tolist() == digests(values)


@pytest.mark.parametrize("length", [1024, 70_000])
def test_long_values(length):
    values = random_bytes(50, length)

    assert xxh64(pa.array(values, pa.binary())).tolist() == digests(values)
    assert xxh64(pa.array(values, pa.binary(length))).tolist() == digests(values)


def test_more_values_than_a_block_of_mixed_lengths():
    lengths = np.random.default_rng(5).integers(0, 41, 70_000)
    pool = random_bytes(70_000, 40)
    values = [value[:length] for value, length in zip(pool, lengths.tolist(), strict=True)]

    assert xxh64(pa.array(values, pa.binary())).tolist() == digests(values)


@settings(max_examples=examples(60), deadline=None)
@given(
    st.lists(st.binary(max_size=90), max_size=30),
    st.integers(1, 4),
    st.integers(0, 3),
    st.sampled_from([pa.binary(), pa.large_binary(), pa.binary_view()]),
)
def test_any_bytes_in_any_layout_and_slice(values, repeats, start, kind):
    values = values * (repeats * 150)

    assert xxh64(pa.array(values, kind)[start:]).tolist() == digests(values[start:])


@settings(max_examples=examples(40), deadline=None)
@given(st.lists(st.text(max_size=40), min_size=1, max_size=30), st.integers(0, 3))
def test_text_and_dictionaries_of_text(values, start):
    expected = digests(value.encode() for value in values[start:])
    encoded = pa.array(values).dictionary_encode()

    assert xxh64(pa.array(values)[start:]).tolist() == expected
    assert xxh64(encoded[start:]).tolist() == expected


NUMBERS = [
    (pa.int8(), "<i", [-128, -1, 0, 127]),
    (pa.uint8(), "<I", [0, 255]),
    (pa.int16(), "<i", [-32768, 5]),
    (pa.uint16(), "<I", [65535]),
    (pa.int32(), "<i", [-(2**31), 0, 2**31 - 1]),
    (pa.uint32(), "<I", [2**32 - 1]),
    (pa.int64(), "<q", [-(2**63), 0, 2**63 - 1]),
    (pa.uint64(), "<Q", [2**64 - 1, 0]),
    (pa.float16(), "<e", [1.5, -0.0, 0.0]),
    (pa.float32(), "<f", [1.5, -0.0, 0.0, float("inf")]),
    (pa.float64(), "<d", [1.5, -0.0, 0.0, 1e300]),
    (pa.timestamp("us"), "<q", [-5, 0, 10**15]),
    (pa.timestamp("ns", "UTC"), "<q", [-5, 0, 10**18]),
    (pa.time64("us"), "<q", [0, 86_399_999_999]),
    (pa.time32("ms"), "<i", [0, 86_399_999]),
    (pa.duration("s"), "<q", [-4, 4]),
]


@pytest.mark.parametrize(("kind", "form", "values"), NUMBERS, ids=[str(kind) for kind, *_ in NUMBERS])
def test_numbers_are_hashed_in_their_parquet_encoding(kind, form, values):
    if pa.types.is_temporal(kind):
        array = pa.array(values, pa.int32() if kind.bit_width == 32 else pa.int64()).view(kind)
    elif kind == pa.float16():
        array = pa.array(np.array(values, np.float16))
    else:
        array = pa.array(values, kind)

    expected = digests(struct.pack(form, value) for value in values)

    assert xxh64(array).tolist() == expected
    assert xxh64(array[1:]).tolist() == expected[1:]


def test_dates_are_days():
    assert xxh64(pa.array([dt.date(1970, 1, 8)])).tolist() == digests([struct.pack("<i", 7)])


@pytest.mark.parametrize(
    ("kind", "width"),
    [
        (pa.decimal32(9, 2), 4),
        (pa.decimal64(18, 2), 8),
        (pa.decimal128(3, 1), 2),
        (pa.decimal128(38, 2), 16),
        (pa.decimal256(76, 2), 32),
    ],
)
def test_decimals_are_hashed_in_the_smallest_width(kind, width):
    values = [decimal.Decimal("-1.5"), decimal.Decimal("0"), decimal.Decimal("12.5")]

    expected = digests(int(value.scaleb(kind.scale)).to_bytes(width, "big", signed=True) for value in values)

    assert xxh64(pa.array(values, kind)).tolist() == expected
    assert xxh64(pa.array(values, kind)[1:]).tolist() == expected[1:]


def test_empty_arrays():
    for kind in (
        pa.int64(),
        pa.string(),
        pa.binary(3),
        pa.decimal128(5),
        pa.dictionary(pa.int8(), pa.string()),
    ):
        assert xxh64(pa.array([], kind)).tolist() == []


def test_an_unused_null_entry_of_a_dictionary():
    array = pa.DictionaryArray.from_arrays(pa.array([1, 1]), pa.array([None, "a"]))

    assert xxh64(array).tolist() == digests([b"a", b"a"])


def test_values_that_cannot_be_hashed():
    with pytest.raises(ValueError, match="nulls"):
        xxh64(pa.array([1, None]))
    for data_type in (pa.bool_(), pa.list_(pa.int8()), pa.struct([("a", pa.int8())])):
        with pytest.raises(TypeError, match=re.escape(str(data_type))):
            xxh64(pa.array([], data_type))
