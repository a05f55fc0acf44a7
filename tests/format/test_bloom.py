"""Bloom filters have the same bits as pyarrow's and as the definition, and no false negatives."""

from __future__ import annotations

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from intarsia.arrow.hashing import xxh64
from intarsia.errors import CorruptFileError
from intarsia.format import bloom
from intarsia.format.bloom import (
    BLOCK_BYTES,
    HEADER_BYTES,
    MAX_BYTES,
    FilterLocation,
    block_ordinals,
    blocks_may_contain,
    blocks_of,
    build,
    estimated_distinct,
    might_contain,
    optimal_bytes,
    parse_bloom_header,
    serialize_bloom_filter,
)
from intarsia.format.enums import Type
from intarsia.format.structs import ColumnMetaData
from tests.effort import examples

HASHES = st.lists(st.integers(0, 2**64 - 1), max_size=200)


def as_hashes(values) -> np.ndarray:
    return np.array(values, dtype=np.uint64)


def random_hashes(count: int) -> np.ndarray:
    return np.random.default_rng(count).integers(0, 2**64, count, dtype=np.uint64)


def bits_one_by_one(hashes: list[int], num_bytes: int) -> bytes:
    """The expected result of `build`, computed one value and one word at a time."""
    words = [0] * (num_bytes // 4)
    for hash64 in hashes:
        first = ((hash64 >> 32) * (num_bytes // 32) >> 32) * 8
        for place, salt in enumerate(bloom.SALT):
            words[first + place] |= 1 << (((hash64 & 0xFFFFFFFF) * salt & 0xFFFFFFFF) >> 27)
    return b"".join(word.to_bytes(4, "little") for word in words)


def filter_of_pyarrow(array: pa.Array, ndv: int, fpp: float) -> bytes:
    sink = pa.BufferOutputStream()
    pq.write_table(pa.table({"x": array}), sink, bloom_filter_options={"x": {"ndv": ndv, "fpp": fpp}})
    data = sink.getvalue().to_pybytes()
    # a filter's header starts with its size, i32 1, then the unions of algorithm, hash and compression
    size = optimal_bytes(ndv, fpp)
    head = serialize_bloom_filter(bytes(size))[:-size]
    assert data.count(head) == 1
    start = data.index(head)
    return data[start : start + len(head) + size]


@pytest.mark.parametrize("count", [1, 26, 27, 1_000, 100_000])
@pytest.mark.parametrize("fpp", [0.001, 0.01, 0.05, 0.3])
def test_header_size_and_bits_are_those_of_pyarrow(count, fpp):
    array = pa.array(np.arange(count) * 7919)

    ours = serialize_bloom_filter(build(xxh64(array), optimal_bytes(count, fpp)))

    assert ours == filter_of_pyarrow(array, count, fpp)


def test_texts_as_pyarrow():
    array = pa.array([f"user {number}" for number in range(5_000)])

    ours = serialize_bloom_filter(build(xxh64(array), optimal_bytes(5_000, 0.01)))

    assert ours == filter_of_pyarrow(array, 5_000, 0.01)


@settings(max_examples=examples(60), deadline=None)
@given(HASHES, st.sampled_from([32, 64, 96, 1024]), st.integers(1, 50))
def test_bits_by_the_definition(hashes, num_bytes, step):
    assert build(as_hashes(hashes), num_bytes, step) == bits_one_by_one(hashes, num_bytes)


@settings(max_examples=examples(30), deadline=None)
@given(HASHES)
def test_no_false_negatives(hashes):
    num_bytes = optimal_bytes(len(hashes), 0.5)
    bits = build(as_hashes(hashes), num_bytes)

    assert might_contain(bits, as_hashes(hashes)).all()


@settings(max_examples=examples(60), deadline=None)
@given(HASHES, st.lists(st.integers(0, 2**64 - 1), max_size=20), st.integers(1, 40))
def test_membership_by_the_definition(hashes, others, num_blocks):
    """A filter might contain a value if and only if all bits of the value are set."""
    bits = bits_one_by_one(hashes, num_blocks * BLOCK_BYTES)
    probed = [*others, *hashes[:5]]
    ones = int.from_bytes(bits, "little")
    wanted = [int.from_bytes(bits_one_by_one([other], len(bits)), "little") for other in probed]

    assert might_contain(bits, as_hashes(probed)).tolist() == [one & ones == one for one in wanted]

    blocks, ordinals = blocks_of(bits), block_ordinals(as_hashes(probed), num_blocks)
    for hash64, ordinal, one in zip(probed, ordinals.tolist(), wanted, strict=True):
        assert blocks_may_contain(blocks, hash64)[ordinal] == (one & ones == one)


def test_false_positive_rate():
    held = random_hashes(10_000)
    bits = build(held, optimal_bytes(10_000, 0.01))
    others = np.random.default_rng(99).integers(0, 2**64, 20_000, dtype=np.uint64)

    assert might_contain(bits, others).sum() < 0.012 * len(others)


def test_sizes():
    assert optimal_bytes(0, 0.01) == optimal_bytes(1, 0.01) == BLOCK_BYTES
    assert optimal_bytes(1_000, 0.01) == 2048
    assert optimal_bytes(10**12, 0.01) == MAX_BYTES
    assert optimal_bytes(1_000, 0.9999) == 128
    for count in (1, 10, 12_345, 10**6):
        for fpp in (1e-9, 0.01, 0.5):
            size = optimal_bytes(count, fpp)
            assert size >= BLOCK_BYTES
            assert size & (size - 1) == 0, "Arrow C++ accepts only powers of two"


def test_header_contains_the_size():
    data = serialize_bloom_filter(bytes(64))

    header_bytes, num_bytes = parse_bloom_header(data)

    assert (header_bytes + num_bytes, num_bytes) == (len(data), 64)


@pytest.mark.parametrize("count", [1, 10, 1_000, 50_000])
def test_number_of_values_is_estimated_from_the_bits(count):
    bits = build(random_hashes(count), optimal_bytes(count, 0.01))

    assert estimated_distinct(bits) == pytest.approx(count, rel=0.15)


def test_estimates_at_the_edges():
    assert estimated_distinct(bytes(32)) == 0
    assert estimated_distinct(b"\xff" * 32) == float("inf")


META = ColumnMetaData(Type.INT64, [], 0, 0, 0, 0, 0, path_in_schema=["x"])


def chunk_of(offset, length=None):
    return META._replace(bloom_filter_offset=offset, bloom_filter_length=length)


@pytest.mark.parametrize("is_recorded", [False, True])
def test_filter_is_found_with_and_without_its_length(is_recorded):
    data = serialize_bloom_filter(bytes(64))
    length = len(data) if is_recorded else None
    place = FilterLocation.of(chunk_of(100, length), 100 + len(data))
    assert place == (100, 100 + len(data), length)
    assert place.head == (100, 100 + HEADER_BYTES)
    assert place.bits(data[:HEADER_BYTES]) == (100 + len(data) - 64, 100 + len(data))


@pytest.mark.parametrize(("offset", "length"), [(-7, None), (200, None), (201, 5), (2**62, 2**62), (100, -1)])
def test_filter_outside_the_body(offset, length):
    with pytest.raises(CorruptFileError) as caught:
        FilterLocation.of(chunk_of(offset, length), 200)
    assert caught.value.reason == "filter-outside-body"


@pytest.mark.parametrize("length", [80, 1000])
def test_filter_of_another_length_than_the_footer_records(length):
    data = serialize_bloom_filter(bytes(32))
    with pytest.raises(CorruptFileError) as caught:
        FilterLocation.of(chunk_of(100, length), 300).bits(data)
    assert caught.value.reason == "filter-length-mismatch"


@pytest.mark.parametrize("length", [None, 78])
def test_filter_that_extends_beyond_its_end(length):
    data = serialize_bloom_filter(bytes(64))
    body_stop = 100 + len(data) - (length is None)
    with pytest.raises(CorruptFileError) as caught:
        FilterLocation.of(chunk_of(100, length), body_stop).bits(data[:HEADER_BYTES])
    assert caught.value.reason == "filter-beyond-end"
