"""Page headers with bounds: trusted for pyarrow's integers, if the chunk's statistics agree.

`test_page_index` tests that the resulting page index matches the rows.
"""

import shutil
from decimal import Decimal

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

import intarsia as ia
from intarsia.embed.leaf_values import LeafReader
from intarsia.file import ParquetInput
from intarsia.format import thrift, thrift_tree
from intarsia.format.footer import chunk_range
from intarsia.format.pages import walk_pages
from tests.counting import calls
from tests.embed.tables import edit_footer, page_indexes

NUMBERS = [7, None, 3, 2**31 - 1, None, None, 0, 5] * 40

STATED = [
    pa.array(NUMBERS, pa.int32()),
    pa.array(NUMBERS, pa.int64()),
    pa.array([None if number is None else -(number % 900) for number in NUMBERS], pa.int16()),
    pa.array([None if number is None else 2**64 - 1 - number for number in NUMBERS], pa.uint64()),
    pa.array([None if number is None else 2**32 - 1 - number for number in NUMBERS], pa.uint32()),
    pa.array([None if number is None else number % 90 for number in NUMBERS], pa.int32()).cast(pa.date32()),
    pa.array(NUMBERS, pa.int64()).cast(pa.timestamp("us", "UTC")),
    pa.array([None] * 320, pa.int64()),
    pa.DictionaryArray.from_arrays(pa.array([0, 1, None, 2] * 80), pa.array([5, 8, 9, 77])),
]
DECODED = [
    pa.array([None if number is None else float(number) for number in NUMBERS]),
    pa.array([None if number is None else str(number) for number in NUMBERS]),
    pa.array([None if number is None else Decimal(number) for number in NUMBERS], pa.decimal128(20, 0)),
    pa.array([number == 3 for number in NUMBERS]),
    pa.array([{"a": number} for number in NUMBERS]),
    pa.array([[number] for number in NUMBERS]),
]


def write(path, values, **options):
    form = {"data_page_size": 100, "write_batch_size": 20, "row_group_size": 200, **options}
    pq.write_table(pa.table({"x": values}), path, **form)
    return str(path)


def built(path):
    """Return the page index, and how many chunks were decoded for it."""
    decoded = calls(lambda: ia.attach(path, [ia.PageIndex()]), of=LeafReader.read)
    found, _ = page_indexes(path)
    return found, decoded


def decoded_index(path):
    """Return the page index computed from decoded values: the headers of an unknown writer are ignored."""
    other = shutil.copy(path, f"{path}.other")
    edit_footer(other, lambda tree: tree.set(6, thrift.BINARY, b""))
    found, decoded = built(other)
    assert decoded
    return found


@pytest.mark.parametrize("version", ["1.0", "2.0"])
@pytest.mark.parametrize("use_dictionary", [True, False])
@pytest.mark.parametrize("values", STATED, ids=lambda values: str(values.type))
def test_integers_are_not_decoded(tmp_path, values, use_dictionary, version):
    path = write(tmp_path / "a", values, use_dictionary=use_dictionary, data_page_version=version)
    expected = decoded_index(path)
    assert built(path) == (expected, 0)
    assert all(column_index is not None for column_index, _ in expected.values())
    assert ia.verify(path).ok


@pytest.mark.parametrize("values", DECODED, ids=lambda values: str(values.type))
def test_other_values_are_decoded(tmp_path, values):
    _, decoded = built(write(tmp_path / "a", values))
    assert decoded


def change_statistics(path, change):
    """Change the statistics in the second page header without changing its length."""
    with ParquetInput.open(path) as file:
        leaf = file.footer.leaves[0]
        meta = file.footer.chunk_metadata(0, leaf)
        start, stop = chunk_range(meta)
        data = bytearray(file.source.read(0, file.source.size()))
    page = [page for page in walk_pages(bytes(data[start:stop]), meta.num_values) if page.is_data][1]
    tree, _ = thrift_tree.parse_tree(bytes(data[start + page.start : start + page.body_start]))
    change(tree.struct(5).struct(5))
    header = thrift_tree.serialize_tree(tree)
    assert len(header) == page.body_start - page.start
    data[start + page.start : start + page.body_start] = header
    with open(path, "wb") as file:
        file.write(data)


@pytest.mark.parametrize(
    ("name", "change"),
    [
        ("a greater maximum", lambda found: found.set(5, thrift.BINARY, (2**62).to_bytes(8, "little"))),
        ("a smaller minimum", lambda found: found.set(6, thrift.BINARY, bytes(7) + b"\x80")),
        ("inverted bounds", lambda found: found.set(6, thrift.BINARY, b"\xff" * 7 + b"\x00")),
        ("another null count", lambda found: found.set(3, thrift.I64, found.get(3) + 1)),
        ("a negative null count", lambda found: found.set(3, thrift.I64, -1)),
    ],
)
def test_headers_that_contradict_the_chunk(tmp_path, name, change):
    path = write(tmp_path / "a", STATED[1], use_dictionary=False, row_group_size=400)
    expected = decoded_index(path)
    change_statistics(path, change)
    found, decoded = built(path)
    assert decoded, name
    assert found == expected


@pytest.mark.parametrize(
    "writer", ["parquet-mr version 1.15.0", "parquet-cpp-arrow version 12.0.1", "parquet-cpp-arrow", ""]
)
def test_headers_of_other_writers(tmp_path, writer):
    path = write(tmp_path / "a", STATED[1])
    edit_footer(path, lambda tree: tree.set(6, thrift.BINARY, writer.encode()))
    _, decoded = built(path)
    assert decoded


def test_headers_without_chunk_statistics(tmp_path):
    path = write(tmp_path / "a", STATED[1])
    edit_footer(
        path,
        lambda tree: [chunk.get(3).remove(12) for group in tree.get(4).items for chunk in group.get(1).items],
    )
    _, decoded = built(path)
    assert decoded
