"""Positions beyond the end of a truncated dictionary page are errors."""

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

import intarsia as ia
from intarsia.format.pages import parse_page

CODES = pa.array(["a", "b", "c", "d"] * 25).dictionary_encode()


def write_shortened(path, column):
    """A file whose dictionary of column ``s`` lacks its last entry."""
    pq.write_table(pa.table({"s": column, "n": range(100)}), path, compression="none")
    place = pq.read_metadata(path).row_group(0).column(0).dictionary_page_offset
    data = bytearray(path.read_bytes())
    page = parse_page(data, place)
    header = bytes(data[page.start : page.body_start])
    assert header.count(b"L\x15\x08") == 1  # a struct whose first field, an i32, is 4
    data[page.start : page.body_start] = header.replace(b"L\x15\x08", b"L\x15\x06")
    assert parse_page(data, place).header.dictionary_page_header.num_values == 3
    path.write_bytes(data)


@pytest.mark.parametrize("nested", [False, True])
def test_positions_outside_the_dictionary(tmp_path, nested):
    path = tmp_path / "t.parquet"
    write_shortened(path, pa.StructArray.from_arrays([CODES], ["x"]) if nested else CODES)
    name = "s.x" if nested else "s"
    for where in (f"{name} > 'b'", f"{name} <> 'a'", f"{name} IS NOT NULL AND n < 50"):
        with pytest.raises(ia.CorruptFileError):
            ia.open(path).scan(where).to_arrow()
        with pytest.raises(ia.CorruptFileError):
            ia.open(path).aggregate({name: ["max"]}, where)


@pytest.mark.parametrize("kind", [pa.ListArray, pa.LargeListArray])
def test_positions_of_lists_outside_the_dictionary(tmp_path, kind):
    path = tmp_path / "t.parquet"
    write_shortened(path, kind.from_arrays(range(101), CODES))
    with pytest.raises(ia.CorruptFileError):
        ia.open(path).scan("n < 50").to_arrow()
