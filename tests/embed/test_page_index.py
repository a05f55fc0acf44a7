"""The computed page index, compared with the rows and with the page index by pyarrow."""

import struct
from itertools import pairwise

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from hypothesis import given, settings

import intarsia as ia
from intarsia.embed import PageIndex, attach, detach
from intarsia.errors import CorruptFileError
from intarsia.file import ParquetInput
from intarsia.file.claims import decompress
from intarsia.format import thrift
from intarsia.format.enums import BoundaryOrder, CompressionCodec, Encoding, PageType
from intarsia.format.structs import (
    ColumnChunk,
    ColumnMetaData,
    ColumnOrder,
    DataPageHeader,
    Empty,
    FileMetaData,
    PageHeader,
    RowGroup,
    SchemaElement,
)
from tests.effort import examples
from tests.embed.tables import (
    FLAT,
    NESTED,
    content,
    drawn_tables,
    edit_footer,
    expected_page,
    leaf_columns,
    page_indexes,
)

MAX_BOUND_BYTES = 64


def check_bounds(index, page, expected, kind):
    low, high = index.min_values[page], index.max_values[page]
    cuttable = kind in (pa.string(), pa.large_string(), pa.binary())
    if not cuttable:
        assert (low, high) == (expected["low"], expected["high"])
        return
    assert low <= expected["low"]
    assert high >= expected["high"]
    if len(expected["low"]) <= MAX_BOUND_BYTES:
        assert low == expected["low"]
    else:
        assert len(low) <= MAX_BOUND_BYTES
        assert expected["low"].startswith(low)
    if len(expected["high"]) <= MAX_BOUND_BYTES:
        assert high == expected["high"]
    else:
        assert len(high) <= MAX_BOUND_BYTES or high == expected["high"]
    if kind != pa.binary():
        low.decode()
        high.decode()


@settings(max_examples=examples(150))
@given(drawn=drawn_tables())
def test_bounds_and_counts_of_every_page_match_its_rows(drawn, tmp_path_factory):
    path = str(tmp_path_factory.mktemp("oracle") / "a.parquet")
    drawn.write(path)
    report = attach(path, [PageIndex()])
    found, footer = page_indexes(path)
    columns = list(leaf_columns(drawn.table))
    reasons = {(note.column, note.row_group): note.code for note in report.notes}
    for (row_group, ordinal), (column_index, offset_index) in found.items():
        leaf = footer.leaves[ordinal]
        name, nullable, column_kind, path_in_it, kind = columns[ordinal]
        start, stop = footer.row_group_starts[row_group : row_group + 2].tolist()
        reason = reasons.get((leaf.name, None)) or reasons.get((leaf.name, row_group))
        if offset_index is None:
            assert start == stop or reason in ("page-splits-row", "empty-page")
            continue
        firsts = [location.first_row_index for location in offset_index.page_locations]
        assert firsts[0] == 0
        assert firsts == sorted(set(firsts))
        pages = [
            expected_page(
                drawn.values[name][start + first : min(stop, start + after)],
                nullable,
                column_kind,
                path_in_it,
                kind,
                leaf,
            )
            for first, after in zip(firsts, [*firsts[1:], stop - start], strict=True)
        ]
        if any(page["nans"] for page in pages):
            assert column_index is None
            assert reason == "contains-nan"
            continue
        assert column_index is not None, reason
        assert column_index.null_counts == [page["nulls"] for page in pages]
        assert column_index.null_pages == [page["values"] == 0 for page in pages]
        if pa.types.is_floating(kind):
            assert column_index.nan_counts == [page["nans"] for page in pages]
        else:
            assert column_index.nan_counts is None
        for number, page in enumerate(pages):
            if page["values"]:
                check_bounds(column_index, number, page, kind)
            else:
                assert column_index.min_values[number] == column_index.max_values[number] == b""
        if leaf.max_repetition_level:
            assert column_index.repetition_level_histograms == [
                n for page in pages for n in page["repetitions"]
            ]
        if leaf.max_definition_level > 1:
            assert column_index.definition_level_histograms == [
                n for page in pages for n in page["definitions"]
            ]
        if kind in (pa.string(), pa.large_string(), pa.binary()):
            assert offset_index.unencoded_byte_array_data_bytes == [page["bytes"] for page in pages]
        orders = [page["order"] for page in pages if page["values"]]
        if not any(len(bound) > MAX_BOUND_BYTES for bound in (page["low"] or b"" for page in pages)):
            ascending = all(a[0] <= b[0] and a[-1] <= b[-1] for a, b in pairwise(orders))
            descending = all(a[0] >= b[0] and a[-1] >= b[-1] for a, b in pairwise(orders))
            if not pa.types.is_floating(kind):
                expected = (
                    BoundaryOrder.ASCENDING
                    if ascending
                    else BoundaryOrder.DESCENDING
                    if descending
                    else BoundaryOrder.UNORDERED
                )
                if (
                    column_index.boundary_order != expected
                ):  # truncated bounds may be in order where the values are not
                    assert any(len(b) >= MAX_BOUND_BYTES for b in column_index.max_values)


@pytest.mark.skipif(
    int(pa.__version__.split(".")[0]) < 26, reason="pyarrow does not count null and empty lists of structs"
)
@settings(max_examples=examples(100))
@given(drawn=drawn_tables())
def test_equals_the_page_index_by_pyarrow(drawn, tmp_path_factory):
    folder = tmp_path_factory.mktemp("twice")
    plain, indexed = str(folder / "plain.parquet"), str(folder / "indexed.parquet")
    drawn.write(plain)
    drawn.write(indexed, write_page_index=True)
    attach(plain, [PageIndex()])
    columns = list(leaf_columns(drawn.table))
    mine, footer = page_indexes(plain)
    theirs, _ = page_indexes(indexed)
    assert mine.keys() == theirs.keys()
    for key, (column_index, offset_index) in mine.items():
        their_column_index, their_offset_index = theirs[key]
        if offset_index is None or their_offset_index is None:
            continue
        # sizes differ, because without a page index pyarrow writes statistics into page headers
        rows, their_rows = (
            [location.first_row_index for location in index.page_locations]
            for index in (offset_index, their_offset_index)
        )
        if rows != their_rows:
            assert not footer.leaves[key[1]].is_flat  # with a page index pyarrow splits pages elsewhere
            continue
        if column_index is None:  # pyarrow omits it only if a page contains nothing but NaN
            assert pa.types.is_floating(columns[key[1]][-1])
            continue
        for name in ("null_pages", "null_counts"):
            assert getattr(column_index, name) == getattr(their_column_index, name)
        for name in ("repetition_level_histograms", "definition_level_histograms"):
            if getattr(column_index, name) and getattr(their_column_index, name):
                assert getattr(column_index, name) == getattr(their_column_index, name)
        for name in ("min_values", "max_values"):
            for bound, their_bound in zip(
                getattr(column_index, name), getattr(their_column_index, name), strict=True
            ):
                assert bound == their_bound or len(their_bound) > MAX_BOUND_BYTES


def test_every_type_is_drawn_by_the_tests_above():
    """A type that pyarrow writes but that is missing from the lists would not be tested."""
    for kind in (*FLAT, *NESTED):
        assert pq.ParquetWriter(pa.BufferOutputStream(), pa.schema({"a": kind})) is not None


@pytest.mark.parametrize("version", ["1.0", "2.0"])
def test_chunks_with_nan_have_no_bounds(tmp_path, version):
    """Readers that order NaN above every number would skip pages by them; see `test_readers`."""
    path = str(tmp_path / "nan.parquet")
    table = pa.table({"x": [1.0, float("nan"), 2.0, 2.5], "y": [1.0, 0.0, 3.0, -0.0]})
    pq.write_table(
        table, path, data_page_size=1, write_batch_size=2, use_dictionary=False, data_page_version=version
    )
    report = attach(path, [PageIndex()])
    found, _ = page_indexes(path)
    assert found[0, 0][0] is None
    assert len(found[0, 0][1].page_locations) == 2
    assert found[0, 1][0].nan_counts == [0, 0]
    assert found[0, 1][0].min_values == [struct.pack("<d", -0.0)] * 2
    assert [(note.column, note.code) for note in report.notes] == [("x", "contains-nan")]
    assert attach(path, [PageIndex()]).built == ()


def test_all_parts_are_in_one_place(tmp_path):
    """parquet-go reads them as one range: it panicked if some were where the writer had put them."""
    path = str(tmp_path / "t.parquet")
    table = pa.table({"x": [3, 1, 2, 4], "long": ["a", "b", "c" * 5000, "d"], "y": [1.0, 2.0, 3.0, 4.0]})
    pq.write_table(table, path, row_group_size=2, write_page_index=True)
    with ParquetInput.open(path) as file:
        original = [chunk for group in file.footer.metadata.row_groups for chunk in group.columns]
    assert [chunk.column_index_offset is None for chunk in original] == [False] * 4 + [True, False]
    before = content(path)
    attach(path, [PageIndex()])
    with ParquetInput.open(path) as file:
        chunks = [chunk for group in file.footer.metadata.row_groups for chunk in group.columns]
    starts = [(chunk.column_index_offset, chunk.column_index_length) for chunk in chunks]
    assert starts[0][0] >= len(before)
    assert [start for start, _ in starts[1:]] == [start + length for start, length in starts[:-1]]
    changed = content(path)
    for chunk, there in zip(chunks, original, strict=True):
        assert chunk.offset_index_offset == there.offset_index_offset
        if there.column_index_offset is not None:
            start, stop = there.column_index_offset, there.column_index_offset + there.column_index_length
            assert changed[chunk.column_index_offset :][: stop - start] == before[start:stop]
    assert ia.verify(path).ok
    assert attach(path, [PageIndex()]).changed is False
    assert ia.open(path).count("x = 4") == 1
    detach(path)
    assert content(path) == before


def test_total_order_has_nan_counts(tmp_path):
    """Readers that know this order use nan_counts."""
    path = str(tmp_path / "total.parquet")
    nan, negative_nan = (np.uint64(bits).view(np.float64) for bits in (0x7FF8 << 48, 0xFFF8 << 48))
    rows = [1.0, nan, nan, negative_nan, 0.0, -0.0, -2.0, -1.0]
    pq.write_table(pa.table({"x": rows}), path, data_page_size=1, write_batch_size=2, use_dictionary=False)
    edit_footer(
        path, lambda tree: tree.get(7).items[0].fields.update({2: tree.get(7).items[0].fields.pop(1)})
    )
    assert attach(path, [PageIndex()]).notes == ()
    found, _ = page_indexes(path)
    index = found[0, 0][0]
    assert index.nan_counts == [1, 2, 0, 0]
    assert index.min_values == [struct.pack("<d", value) for value in (1.0, negative_nan, -0.0, -2.0)]
    assert index.max_values == [struct.pack("<d", value) for value in (1.0, nan, 0.0, -1.0)]


def test_orders_of_later_versions(tmp_path):
    path = str(tmp_path / "later.parquet")
    pq.write_table(pa.table({"x": [1, 2], "y": [1, 2]}), path)
    edit_footer(
        path, lambda tree: tree.get(7).items[0].fields.update({9: tree.get(7).items[0].fields.pop(1)})
    )
    report = attach(path, [PageIndex()])
    assert [note.column for note in report.notes] == ["x"]


@pytest.mark.parametrize(
    ("pages", "indexed"),
    [
        ([[0, 1, 0], [0]], True),
        ([[0, 1], [1, 0, 0]], False),
        ([[0, 1], [], [0, 0]], False),
        ([[0, 1], [0]], False),
    ],
    ids=["whole rows", "a page splits a row", "an empty page", "a missing row"],
)
def test_pages_that_cannot_have_an_offset_index(tmp_path, pages, indexed):
    """A list column with handmade pages; the numbers are repetition levels."""
    path = str(tmp_path / "handmade.parquet")
    write_list_pages(path, pages, num_rows=3)
    report = attach(path, [PageIndex()])
    found, _ = page_indexes(path)
    if indexed:
        assert found[0, 0][0].null_counts == [0, 0]
        assert found[0, 0][0].repetition_level_histograms == [2, 1, 1, 0]
        assert [location.first_row_index for location in found[0, 0][1].page_locations] == [0, 2]
    else:
        assert len(report.notes) == 1
        assert found[0, 0] == (None, None)


def write_list_pages(path, pages, num_rows):
    """Write a file with one required ``list<int32>`` column from repetition levels."""
    body, value = b"PAR1", 0
    for levels in pages:
        runs = b"".join(bytes([1 << 1, level]) for level in levels)
        ones = bytes([len(levels) << 1, 1]) if levels else b""
        data = b"".join(len(part).to_bytes(4, "little") + part for part in (runs, ones))
        for _ in levels:
            data += value.to_bytes(4, "little")
            value += 1
        header = DataPageHeader(len(levels), Encoding.PLAIN, Encoding.RLE, Encoding.RLE)
        body += thrift.serialize(PageHeader(PageType.DATA_PAGE, len(data), len(data), header)) + data
    schema = [
        SchemaElement("schema", num_children=1),
        SchemaElement("l", repetition_type=0, num_children=1, converted_type=3),
        SchemaElement("list", repetition_type=2, num_children=1),
        SchemaElement("element", type=1, repetition_type=0),
    ]
    size = len(body) - 4
    meta = ColumnMetaData(1, [0, 3], 0, value, size, size, 4, path_in_schema=["l", "list", "element"])
    group = RowGroup([ColumnChunk(4, meta_data=meta)], size, num_rows)
    orders = [ColumnOrder(TYPE_ORDER=Empty())]
    footer = thrift.serialize(FileMetaData(2, schema, num_rows, [group], column_orders=orders))
    with open(path, "wb") as file:
        file.write(body + footer + len(footer).to_bytes(4, "little") + b"PAR1")


@pytest.mark.parametrize("codec", [CompressionCodec.LZO, 77])
def test_unsupported_codecs(tmp_path, codec):
    """Flat columns still get an OffsetIndex, and numbers get bounds, because page headers suffice."""
    path = str(tmp_path / "lzo.parquet")
    pq.write_table(pa.table({"x": ["a", "b"], "l": [[1], [2]], "n": [1, 2]}), path, compression="snappy")

    def claim(tree):
        for chunk in tree.get(4).items[0].get(1).items:
            chunk.get(3).set(4, thrift.I32, int(codec))

    edit_footer(path, claim)
    report = attach(path, [PageIndex()])
    assert len(report.notes) == 2
    found, _ = page_indexes(path)
    assert found[0, 0][0] is None
    assert found[0, 0][1] is not None
    assert found[0, 1] == (None, None)
    assert found[0, 2][0].min_values == [(1).to_bytes(8, "little")]


@pytest.mark.parametrize("framing", ["hadoop", "hadoop blocks", "frame", "bare"])
def test_lz4_in_every_framing(framing):
    data = bytes(range(256)) * 8

    def hadoop(piece):
        packed = pa.compress(piece, codec="lz4_raw", asbytes=True)
        return len(piece).to_bytes(4, "big") + len(packed).to_bytes(4, "big") + packed

    body = {
        "hadoop": lambda: hadoop(data),
        "hadoop blocks": lambda: hadoop(data[:1000]) + hadoop(data[1000:]),
        "frame": lambda: pa.compress(data, codec="lz4", asbytes=True),
        "bare": lambda: pa.compress(data, codec="lz4_raw", asbytes=True),
    }[framing]()
    assert decompress(body, CompressionCodec.LZ4, len(data)) == data
    with pytest.raises(CorruptFileError):
        decompress(body[:-3], CompressionCodec.LZ4, len(data))


@pytest.mark.parametrize("codec", ["SNAPPY", "GZIP", "BROTLI", "ZSTD", "LZ4", "LZ4_RAW"])
def test_a_page_that_is_larger_than_its_header_claims(codec):
    data = bytes(range(256)) * 8
    body = pa.compress(data, codec=codec.lower(), asbytes=True)
    assert decompress(body, CompressionCodec[codec], len(data)) == data
    with pytest.raises(CorruptFileError) as caught:
        decompress(body, CompressionCodec[codec], len(data) - 1)
    assert caught.value.reason == "decompression-failed"


def test_positions_outside_the_dictionary(tmp_path):
    """pyarrow does not check them when it decodes dictionary arrays."""
    path = tmp_path / "t.parquet"
    pq.write_table(pa.table({"s": ["a", "b"] * 8}), path, compression="none", write_statistics=False)
    data = path.read_bytes()
    # one bit a value, 16 values packed in 2 bytes: change to 2 bits a value and a run of 16 times entry 3
    assert data.count(b"\x01\x05\xaa\xaa") == 1
    path.write_bytes(data.replace(b"\x01\x05\xaa\xaa", b"\x02\x20\x03\x00"))
    report = attach(path, [PageIndex()])
    (note,) = report.notes
    assert note.code == "beyond-dictionary"
