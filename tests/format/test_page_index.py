"""Parsing and checking of OffsetIndex and ColumnIndex."""

from __future__ import annotations

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from hypothesis import given
from hypothesis import strategies as st

from intarsia.errors import CorruptFileError
from intarsia.file import ParquetInput
from intarsia.format import thrift
from intarsia.format.page_index import location_tables, parse_column_index, parse_offset_index
from intarsia.format.structs import ColumnIndex, OffsetIndex, PageLocation

PAGES = [PageLocation(100, 50, 0), PageLocation(150, 30, 10), PageLocation(200, 50, 25)]


def parse(pages, **bounds):
    data = thrift.serialize(OffsetIndex(pages))
    return parse_offset_index(data, **{"num_rows": 30, "chunk_start": 90, "chunk_stop": 250, **bounds})


def test_valid_offset_index():
    """A gap between pages is allowed, and so is a dictionary page before them."""
    found = parse(PAGES)
    assert len(found) == 3
    assert found.offsets.tolist() == [100, 150, 200]
    assert found.sizes_bytes.tolist() == [50, 30, 50]
    assert found.rows.starts.tolist() == [0, 10, 25]
    assert found.rows.stops.tolist() == [10, 25, 30]


def change(place, **fields):
    pages = list(PAGES)
    pages[place] = pages[place]._replace(**fields)
    return pages


@pytest.mark.parametrize(
    ("pages", "reason"),
    [
        ([], "no-pages"),
        (change(1, compressed_page_size=0), "empty-page"),
        (change(1, compressed_page_size=-1), "empty-page"),
        (change(0, offset=89), "page-outside-chunk"),
        (change(2, offset=201), "page-outside-chunk"),
        (change(2, offset=250), "page-outside-chunk"),
        (change(2, offset=2**63 - 1), "page-outside-chunk"),
        (change(1, offset=-(2**63)), "page-outside-chunk"),
        (change(1, compressed_page_size=51), "pages-overlap"),
        (change(1, offset=149), "pages-overlap"),
        ([PAGES[1]._replace(first_row_index=0), PAGES[0], PAGES[2]], "pages-overlap"),
        (change(0, first_row_index=1), "first-row-not-zero"),
        (change(0, first_row_index=-1), "first-row-not-zero"),
        (change(1, first_row_index=0), "rows-not-ascending"),
        (change(2, first_row_index=10), "rows-not-ascending"),
        (change(1, first_row_index=2**62), "rows-not-ascending"),
        (change(2, first_row_index=30), "row-beyond-row-group"),
    ],
)
def test_refused_offset_index(pages, reason):
    with pytest.raises(CorruptFileError) as caught:
        parse(pages)
    assert (caught.value.reason, caught.value.struct) == (reason, "OffsetIndex")


@pytest.mark.parametrize("data", [b"", b"\0", b"\x19", b"PAR1" * 10, bytes(20)])
def test_bytes_that_are_not_an_index(data):
    with pytest.raises(CorruptFileError):
        parse_offset_index(data, num_rows=30, chunk_start=0, chunk_stop=1000)
    with pytest.raises(CorruptFileError):
        parse_column_index(data, num_pages=1)


INDEX = ColumnIndex([False, True], [b"a", b""], [b"b", b""], 1, [0, 5])


@pytest.mark.parametrize(
    ("fields", "reason"),
    [
        ({"null_pages": [False]}, "wrong-length-null-pages"),
        ({"min_values": [b"a"]}, "wrong-length-min-values"),
        ({"max_values": [b"a"] * 3}, "wrong-length-max-values"),
        ({"null_counts": []}, "wrong-length-null-counts"),
        ({"nan_counts": [1]}, "wrong-length-nan-counts"),
        ({"boundary_order": 3}, "unknown-boundary-order"),
        ({"boundary_order": -1}, "unknown-boundary-order"),
        ({"null_counts": [0, 0]}, "contradictory-nulls"),
        ({"null_counts": [-1, 5]}, "contradictory-nulls"),
    ],
)
def test_refused_column_index(fields, reason):
    assert parse_column_index(thrift.serialize(INDEX), num_pages=2) == INDEX
    with pytest.raises(CorruptFileError) as caught:
        parse_column_index(thrift.serialize(INDEX._replace(**fields)), num_pages=2)
    assert (caught.value.reason, caught.value.struct) == (reason, "ColumnIndex")


LOCATIONS = st.lists(
    st.builds(
        PageLocation,
        st.integers(-(2**63), 2**63 - 1),
        st.integers(-(2**31), 2**31 - 1),
        st.integers(-(2**63), 2**63 - 1) | st.integers(0, 2**20),
    ),
    max_size=40,
)
SIZES = st.none() | st.lists(st.integers(0, 2**40), max_size=40)


def location_table(data):
    """The table of one OffsetIndex."""
    (table,) = location_tables([data])
    return table


def by_the_codec(data):
    """The locations by the general codec; None if these bytes are not an OffsetIndex."""
    try:
        index, _ = thrift.parse(OffsetIndex, data)
    except CorruptFileError:
        return None
    return [list(location) for location in index.page_locations]


@given(LOCATIONS, SIZES)
def test_locations_equal_those_of_the_codec(locations, sizes):
    """Numbers of up to nine bytes are decoded in NumPy; longer ones are left to the codec."""
    data = thrift.serialize(OffsetIndex(locations, sizes))
    table = location_table(data)
    usual = locations and all(-(2**62) <= number < 2**62 for location in locations for number in location)
    usual = usual and all(location.compressed_page_size > -(2**31) for location in locations)
    assert (table is not None) == bool(usual)
    if table is not None:
        assert table.tolist() == by_the_codec(data)


@given(LOCATIONS, SIZES, st.data())
def test_damaged_locations_equal_those_of_the_codec(locations, sizes, data):
    """Whatever bytes are changed, cut or added, the result is that of the codec, or None."""
    raw = bytearray(thrift.serialize(OffsetIndex(locations, sizes)))
    for _ in range(data.draw(st.integers(1, 4))):
        place = data.draw(st.integers(0, len(raw) - 1))
        raw[place] = data.draw(st.integers(0, 255))
    cut = bytes(raw[: data.draw(st.integers(0, len(raw)))] + data.draw(st.binary(max_size=3)))
    for damaged in (bytes(raw), cut):
        table = location_table(damaged)
        if table is not None:
            assert table.tolist() == by_the_codec(damaged)


@given(st.lists(st.tuples(LOCATIONS, SIZES, st.binary(max_size=3), st.booleans()), max_size=6))
def test_indexes_are_decoded_together_as_separately(many):
    """A damaged index does not affect the others."""
    indexes = [
        thrift.serialize(OffsetIndex(locations, sizes))[: -1 if cut else None] + added
        for locations, sizes, added, cut in many
    ]
    found = [None if table is None else table.tolist() for table in location_tables(indexes)]
    assert found == [
        None if (table := location_table(index)) is None else table.tolist() for index in indexes
    ]


def test_several_batches():
    """The order is kept across batches."""
    pages = [[PageLocation(100 * page + ordinal, 50, page) for page in range(3000)] for ordinal in range(40)]
    indexes = [thrift.serialize(OffsetIndex(locations)) for locations in pages]
    assert sum(map(len, indexes)) > 1 << 19
    assert [table.tolist() for table in location_tables(indexes)] == [
        [list(page) for page in locations] for locations in pages
    ]


@pytest.mark.parametrize(
    "head", [b"\x19\xfc\xff\xff\xff\xff\x7f", b"\x19\xfc" + b"\xff" * 8 + b"\x7f", b"\x19\xec"]
)
def test_impossible_count_of_locations(head):
    assert location_table(head + b"\x16\x08\x15\x02\x16\x00\x00") is None


def test_field_header_of_two_bytes():
    """``0x96 0x00`` as a varint is 22, the header that is expected, but as a header it is another field."""
    data = thrift.serialize(OffsetIndex(PAGES))
    assert location_table(data) is not None
    assert location_table(data.replace(b"\x16", b"\x96\x00", 1)) is None


def test_offset_indexes_of_pyarrow_are_decoded_in_numpy(tmp_path):
    """The fast path applies to them; strings have a second field, the number of bytes of each page."""
    texts = pa.array([f"text {number}" for number in range(4000)])
    table = pa.table({"number": range(4000), "text": texts})
    pq.write_table(table, tmp_path / "f.parquet", write_page_index=True, max_rows_per_page=100)
    data = (tmp_path / "f.parquet").read_bytes()
    with ParquetInput.open(tmp_path / "f.parquet") as file:
        for chunk in file.footer.metadata.row_groups[0].columns:
            start = chunk.offset_index_offset
            locations = location_table(data[start : start + chunk.offset_index_length])
            assert locations.shape == (40, 3)
