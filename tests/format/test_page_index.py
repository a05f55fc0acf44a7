"""OffsetIndex and ColumnIndex: what is refused before anyone uses it."""

from __future__ import annotations

import pytest

from intarsia.errors import CorruptFileError
from intarsia.format import thrift
from intarsia.format.page_index import parse_column_index, parse_offset_index
from intarsia.format.structs import ColumnIndex, OffsetIndex, PageLocation

PAGES = [PageLocation(100, 50, 0), PageLocation(150, 30, 10), PageLocation(200, 50, 25)]


def parse(pages, **bounds):
    data = thrift.serialize(OffsetIndex(pages))
    return parse_offset_index(data, **{"num_rows": 30, "chunk_start": 90, "chunk_stop": 250, **bounds})


def test_sound_offset_index():
    """A gap between pages is allowed, as is a dictionary page before them."""
    found = parse(PAGES)
    assert len(found) == 3
    assert found.offsets.tolist() == [100, 150, 200]
    assert found.sizes_bytes.tolist() == [50, 30, 50]
    assert found.row_starts.tolist() == [0, 10, 25]
    assert found.row_stops.tolist() == [10, 25, 30]


def change(place, **fields):
    pages = list(PAGES)
    pages[place] = pages[place]._replace(**fields)
    return pages


@pytest.mark.parametrize(
    ("pages", "message"),
    [
        ([], "names no page"),
        (change(1, compressed_page_size=0), "no bytes"),
        (change(1, compressed_page_size=-1), "no bytes"),
        (change(0, offset=89), "outside the chunk"),
        (change(2, offset=201), "outside the chunk"),
        (change(2, offset=250), "outside the chunk"),
        (change(2, offset=2**63 - 1), "outside the chunk"),
        (change(1, offset=-(2**63)), "outside the chunk"),
        (change(1, compressed_page_size=51), "overlap"),
        (change(1, offset=149), "overlap"),
        ([PAGES[1]._replace(first_row_index=0), PAGES[0], PAGES[2]], "overlap"),
        (change(0, first_row_index=1), "first page starts at row 1"),
        (change(0, first_row_index=-1), "first page starts at row -1"),
        (change(1, first_row_index=0), "does not ascend"),
        (change(2, first_row_index=10), "does not ascend"),
        (change(1, first_row_index=2**62), "does not ascend"),
        (change(2, first_row_index=30), "row 30 of 30"),
    ],
)
def test_refused_offset_index(pages, message):
    with pytest.raises(CorruptFileError, match=message) as caught:
        parse(pages)
    assert caught.value.struct == "OffsetIndex"


@pytest.mark.parametrize("data", [b"", b"\0", b"\x19", b"PAR1" * 10, bytes(20)])
def test_bytes_that_are_no_index(data):
    with pytest.raises(CorruptFileError):
        parse_offset_index(data, num_rows=30, chunk_start=0, chunk_stop=1000)
    with pytest.raises(CorruptFileError):
        parse_column_index(data, num_pages=1)


INDEX = ColumnIndex([False, True], [b"a", b""], [b"b", b""], 1, [0, 5])


@pytest.mark.parametrize(
    ("fields", "message"),
    [
        ({"null_pages": [False]}, "null_pages has 1"),
        ({"min_values": [b"a"]}, "min_values has 1"),
        ({"max_values": [b"a"] * 3}, "max_values has 3"),
        ({"null_counts": []}, "null_counts has 0"),
        ({"nan_counts": [1]}, "nan_counts has 1"),
        ({"boundary_order": 3}, "boundary order 3"),
        ({"boundary_order": -1}, "boundary order -1"),
        ({"null_counts": [0, 0]}, "page 1 has null_page True and null_count 0"),
        ({"null_counts": [-1, 5]}, "page 0 has null_page False and null_count -1"),
    ],
)
def test_refused_column_index(fields, message):
    assert parse_column_index(thrift.serialize(INDEX), num_pages=2) == INDEX
    with pytest.raises(CorruptFileError, match=message):
        parse_column_index(thrift.serialize(INDEX._replace(**fields)), num_pages=2)
