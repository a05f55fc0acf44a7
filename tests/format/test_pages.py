"""Page headers along a chunk, and Bloom filters."""

from __future__ import annotations

import pyarrow as pa
import pytest
import xxhash
from hypothesis import given, settings
from hypothesis import strategies as st

from intarsia.errors import CorruptFileError, UnsupportedFeatureError
from intarsia.format import thrift
from intarsia.format.bloom import BLOCK_BYTES, block_may_contain, block_offset, parse_bloom_header
from intarsia.format.footer import chunk_range
from intarsia.format.page_header import parse_page, walk_pages
from intarsia.format.structs import (
    BloomFilterAlgorithm,
    BloomFilterCompression,
    BloomFilterHash,
    BloomFilterHeader,
    Empty,
    PageHeader,
    PageType,
)
from tests.leaves import open_table
from tests.reading.tables import CODECS


def chunk_of(file, leaf=0, group=0):
    meta = file.footer.chunk_metadata(group, file.footer.leaves[leaf])
    return meta, file.source.read(*chunk_range(meta))


@pytest.mark.parametrize("version", ["1.0", "2.0"])
@pytest.mark.parametrize("codec", CODECS)
@pytest.mark.parametrize("dictionary", [False, True])
def test_walk(version, codec, dictionary):
    table = pa.table({"a": [row % 7 if row % 5 else None for row in range(1000)]})
    file = open_table(
        table,
        data_page_version=version,
        compression=codec,
        use_dictionary=dictionary,
        max_rows_per_page=100,
        write_batch_size=100,
    )
    meta, chunk = chunk_of(file)
    pages = walk_pages(chunk, meta.num_values)
    data = [page for page in pages if page.is_data]
    assert [page.num_values for page in data] == [100] * 10
    assert [page.header.type for page in pages].count(PageType.DICTIONARY_PAGE) == dictionary
    assert {page.uses_dictionary for page in data} == {dictionary}
    assert [pages[0].start, *(page.stop for page in pages)] == [*(page.start for page in pages), len(chunk)]
    assert walk_pages(chunk) == pages
    assert walk_pages(chunk + bytes(50), meta.num_values) == pages, "padding is passed over"
    for wrong in (meta.num_values - 1, meta.num_values + 1, meta.num_values - 100 + 1):
        with pytest.raises(CorruptFileError):
            walk_pages(chunk, wrong)
    with pytest.raises(CorruptFileError):
        walk_pages(chunk[:-1], meta.num_values)


def test_headers_that_lead_astray():
    header = PageHeader(PageType.DATA_PAGE, 10, 10)
    with pytest.raises(CorruptFileError, match="claims 10 bytes, 3 are there"):
        parse_page(thrift.serialize(header) + b"abc")
    with pytest.raises(CorruptFileError, match="claims -1 bytes"):
        parse_page(thrift.serialize(header._replace(compressed_page_size=-1)))
    with pytest.raises(CorruptFileError):
        parse_page(b"")
    page = parse_page(thrift.serialize(header) + bytes(10))
    assert (page.num_values, page.encoding, page.uses_dictionary) == (0, -1, False)


# --- Bloom filters ---

SALT = [0x47B6137B, 0x44974D91, 0x8824AD5B, 0xA2B7289D, 0x705495C7, 0x2DF1424B, 0x9EFC4947, 0x5C6BFB31]


def naive_insert(bits, hash64):
    """The specification, word for word."""
    blocks = len(bits) // 32
    block = ((hash64 >> 32) * blocks) >> 32
    for word in range(8):
        bit = ((hash64 & 0xFFFFFFFF) * SALT[word] & 0xFFFFFFFF) >> 27
        place = block * 32 + word * 4 + bit // 8
        bits[place] |= 1 << bit % 8


@settings(max_examples=50)
@given(st.lists(st.integers(0, 2**64 - 1), max_size=20), st.integers(1, 9), st.integers(0, 2**64 - 1))
def test_probe_finds_what_was_inserted(hashes, blocks, other):
    bits = bytearray(blocks * BLOCK_BYTES)
    for hash64 in hashes:
        naive_insert(bits, hash64)
    for hash64 in hashes:
        start = block_offset(hash64, len(bits))
        assert start % BLOCK_BYTES == 0
        assert block_may_contain(bytes(bits[start : start + BLOCK_BYTES]), hash64)
    only = bytearray(blocks * BLOCK_BYTES)
    naive_insert(only, other)
    start = block_offset(other, len(bits))
    subset = all(one & two == one for one, two in zip(only, bits, strict=True))
    assert block_may_contain(bytes(bits[start : start + BLOCK_BYTES]), other) == subset


def test_filters_of_pyarrow():
    values = [f"value {number}" for number in range(2000)]
    file = open_table(
        pa.table({"a": values[:1000]}),
        bloom_filter_options={"a": {"ndv": 1000, "fpp": 0.01}},
        use_dictionary=False,
    )
    meta, _ = chunk_of(file)
    data = file.source.read(meta.bloom_filter_offset, meta.bloom_filter_offset + meta.bloom_filter_length)
    header_bytes, num_bytes = parse_bloom_header(data)
    assert header_bytes + num_bytes == len(data)
    bits = data[header_bytes:]

    def found(value):
        hash64 = xxhash.xxh64_intdigest(value.encode())
        start = block_offset(hash64, num_bytes)
        return block_may_contain(bits[start : start + BLOCK_BYTES], hash64)

    assert all(map(found, values[:1000]))
    assert sum(map(found, values[1000:])) < 30  # a hundredth, with room


SOUND = BloomFilterHeader(
    64, BloomFilterAlgorithm(Empty()), BloomFilterHash(Empty()), BloomFilterCompression(Empty())
)


@pytest.mark.parametrize("num_bytes", [0, -32, 31, 33, 2**31 - 1])
def test_sizes_that_are_no_blocks(num_bytes):
    assert parse_bloom_header(thrift.serialize(SOUND))[1] == 64
    with pytest.raises(CorruptFileError, match="whole number of blocks"):
        parse_bloom_header(thrift.serialize(SOUND._replace(numBytes=num_bytes)))


@pytest.mark.parametrize(
    "fields",
    [
        {"algorithm": BloomFilterAlgorithm()},
        {"hash": BloomFilterHash()},
        {"compression": BloomFilterCompression()},
    ],
)
def test_filters_of_another_kind(fields):
    with pytest.raises(UnsupportedFeatureError, match="split-block"):
        parse_bloom_header(thrift.serialize(SOUND._replace(**fields)))


@pytest.mark.parametrize("data", [b"", b"\0", b"PAR1", bytes(64), b"\xff" * 64])
def test_bytes_that_are_no_header(data):
    with pytest.raises(CorruptFileError):
        parse_bloom_header(data)
