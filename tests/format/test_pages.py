"""Page headers along a chunk, and Bloom filters."""

from __future__ import annotations

import numpy as np
import pyarrow as pa
import pytest
import xxhash

from intarsia.errors import CorruptFileError, UnsupportedFeatureError
from intarsia.format import thrift
from intarsia.format.bloom import might_contain, parse_bloom_header
from intarsia.format.enums import PageType
from intarsia.format.footer import chunk_range
from intarsia.format.pages import parse_page, walk_pages
from intarsia.format.structs import (
    BloomFilterAlgorithm,
    BloomFilterCompression,
    BloomFilterHash,
    BloomFilterHeader,
    Empty,
    PageHeader,
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
    assert walk_pages(chunk + bytes(50), meta.num_values) == pages, "padding is ignored"
    for wrong in (meta.num_values - 1, meta.num_values + 1, meta.num_values - 100 + 1):
        with pytest.raises(CorruptFileError):
            walk_pages(chunk, wrong)
    with pytest.raises(CorruptFileError):
        walk_pages(chunk[:-1], meta.num_values)


def test_headers_with_wrong_sizes():
    header = PageHeader(PageType.DATA_PAGE, 10, 10)
    for data in (
        thrift.serialize(header) + b"abc",
        thrift.serialize(header._replace(compressed_page_size=-1)),
    ):
        with pytest.raises(CorruptFileError) as caught:
            parse_page(data)
        assert (caught.value.reason, caught.value.offset) == ("page-beyond-end", 0)
    with pytest.raises(CorruptFileError):
        parse_page(b"")
    page = parse_page(thrift.serialize(header) + bytes(10))
    assert (page.num_values, page.encoding, page.uses_dictionary) == (0, -1, False)


# --- Bloom filters ---

SALT = [0x47B6137B, 0x44974D91, 0x8824AD5B, 0xA2B7289D, 0x705495C7, 0x2DF1424B, 0x9EFC4947, 0x5C6BFB31]


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

    hashes = np.array([xxhash.xxh64_intdigest(value.encode()) for value in values], dtype=np.uint64)
    assert might_contain(bits, hashes[:1000]).all()
    assert might_contain(bits, hashes[1000:]).sum() < 30  # about 1% are expected


VALID = BloomFilterHeader(
    64, BloomFilterAlgorithm(Empty()), BloomFilterHash(Empty()), BloomFilterCompression(Empty())
)


@pytest.mark.parametrize("num_bytes", [0, -32, 31, 33, 2**31 - 1])
def test_sizes_that_are_not_whole_blocks(num_bytes):
    assert parse_bloom_header(thrift.serialize(VALID))[1] == 64
    with pytest.raises(CorruptFileError) as caught:
        parse_bloom_header(thrift.serialize(VALID._replace(numBytes=num_bytes)))
    assert caught.value.reason == "not-whole-blocks"


@pytest.mark.parametrize(
    "fields",
    [
        {"algorithm": BloomFilterAlgorithm()},
        {"hash": BloomFilterHash()},
        {"compression": BloomFilterCompression()},
    ],
)
def test_filters_of_another_kind(fields):
    with pytest.raises(UnsupportedFeatureError) as caught:
        parse_bloom_header(thrift.serialize(VALID._replace(**fields)))
    assert caught.value.reason == "unknown-bloom-filter"


@pytest.mark.parametrize("data", [b"", b"\0", b"PAR1", bytes(64), b"\xff" * 64])
def test_bytes_that_are_not_a_header(data):
    with pytest.raises(CorruptFileError):
        parse_bloom_header(data)
