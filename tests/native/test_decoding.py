"""Rows that the extension decodes are those of pyarrow, in type and value."""

import io
import random
import subprocess
import sys
from itertools import pairwise
from types import SimpleNamespace

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from hypothesis import assume, given
from hypothesis import strategies as st

from intarsia import native
from intarsia.file import ChunkKey, ParquetInput
from intarsia.format import thrift
from intarsia.format.enums import Encoding, PageType
from intarsia.format.structs import DataPageHeader, DataPageHeaderV2, PageHeader
from intarsia.read.file_plan import FilePlan
from intarsia.read.file_query import FileQuery
from intarsia.read.file_rows import read_rows
from intarsia.read.output_columns import output_columns
from intarsia.rows.selection import RowSelection
from intarsia.storage import LocalFile, MemorySource
from tests.embed.tables import edit_footer
from tests.predicate import strategies as flat
from tests.reading.exact import bits, leaf_at
from tests.reading.tables import CODECS, columns
from tests.reading.test_corpus import corpus_file

needs_extension = pytest.mark.skipif(native.load() is None, reason="needs `make native`")

#: Why the extension may refuse pages of valid files.
SOUND_REFUSALS = {"a codec is decoded by pyarrow", "a column has geospatial statistics"}


def rows_of(file, names, rows):
    """The values of some rows."""
    query = FileQuery.of(file, None, output_columns(file.arrow_schema, names))
    pieces = [piece.rows for piece in read_rows(query, FilePlan(rows, rows, rows))]
    return pa.concat_tables(pieces)


def page_edges(file, leaf):
    """The rows at which pages of a leaf begin, and the number of rows."""
    edges = file.footer.row_group_starts.tolist()
    found = set(edges)
    for group in range(len(edges) - 1):
        key = ChunkKey(group, leaf.ordinal)
        file.load_page_index([key])
        locations = file.locations(key)
        found.update(() if locations is None else (locations.rows.starts + edges[group]).tolist())
    return sorted(found)


def some_rows(rng, edges):
    """Ranges that begin and end at, before and behind edges of pages."""
    num_rows = edges[-1]
    cuts = {min(max(rng.choice(edges) + rng.choice((-1, 0, 0, 1)), 0), num_rows) for _ in range(6)}
    cuts |= {rng.randrange(num_rows + 1) for _ in range(rng.choice((0, 2, 40)))}
    cuts = sorted(cuts)
    ranges = [cut for cut in pairwise(cuts) if rng.random() < 0.5]
    return RowSelection.from_ranges(ranges or [(cuts[0], max(cuts[-1], cuts[0] + 1))]).clip(0, num_rows)


def assert_rows_of_pyarrow(file, name, expected, rows):
    found = rows_of(file, [name], rows)[name]
    found.validate(full=True)
    assert found.type == expected.type
    values = bits(expected)
    assert bits(found) == [value for start, stop in rows for value in values[start:stop]], (name, rows)


@corpus_file
def test_random_rows_of_the_corpus(path):
    rng = random.Random(path.name)
    before = native.refusals.copy()
    expected = pq.read_table(path)
    with ParquetInput.open(path) as file:
        for leaf in file.footer.leaves if expected.num_rows else ():
            name, edges = leaf.path[0], page_edges(file, leaf)
            for _ in range(4):
                rows = some_rows(rng, edges)
                if not rows.is_empty:
                    assert_rows_of_pyarrow(file, name, expected[name], rows)
    assert set(native.refusals - before) <= SOUND_REFUSALS


ENCODINGS = {
    "integer": ["PLAIN", "DELTA_BINARY_PACKED", "BYTE_STREAM_SPLIT"],
    "floating": ["PLAIN", "BYTE_STREAM_SPLIT"],
    "binary": ["PLAIN", "DELTA_LENGTH_BYTE_ARRAY", "DELTA_BYTE_ARRAY"],
}


def encodings_of(data_type):
    if pa.types.is_integer(data_type):
        return ENCODINGS["integer"]
    if pa.types.is_float32(data_type) or pa.types.is_float64(data_type):
        return ENCODINGS["floating"]
    is_text = pa.types.is_string(data_type) or pa.types.is_binary(data_type)
    return ENCODINGS["binary"] if is_text else ["PLAIN"]


def in_struct(column, step, nullable):
    """A struct of numbers and of a struct with the column, with nulls at both levels."""
    places = pa.array(range(len(column)), pa.int64())
    masks = [pa.array([nullable and at % step == rest for at in range(len(column))]) for rest in (0, 1)]
    inner = pa.StructArray.from_arrays([column], ["a"], mask=masks[0])
    return pa.StructArray.from_arrays([places, inner], ["b", "s"], mask=masks[1])


def in_lists(column, num_rows, seed, nullable, as_map):
    """Lists of the column's values, or maps with them, of which some are empty or null."""
    rng = random.Random(seed)
    edges = sorted(rng.randrange(len(column) + 1) for _ in range(num_rows - 1))
    edges = [0, *edges, len(column)]
    mask = pa.array([nullable and start == stop and rng.random() < 0.5 for start, stop in pairwise(edges)])
    if as_map:
        keys = pa.array(map(str, range(len(column))))
        return pa.MapArray.from_arrays(pa.array(edges, pa.int32()), keys, column, mask=mask)
    return pa.ListArray.from_arrays(pa.array(edges, pa.int32()), column, mask=mask)


@st.composite
def files(draw):
    """A file of one column in several row groups of several pages, and the column as pyarrow reads it."""
    data_type = draw(st.sampled_from(flat.TYPES))
    column = draw(columns(data_type, draw(st.integers(1, 200)), nullable=draw(st.booleans())))
    path = ""
    # pyarrow does not write views in structs and lists
    for shape in () if "view" in str(data_type) else draw(st.lists(st.sampled_from("slm"), max_size=2)):
        if shape == "s":
            column = in_struct(column, draw(st.integers(1, 9)), draw(st.booleans()))
        else:
            num_rows, seed = draw(st.integers(1, 200)), draw(st.integers(0, 1 << 16))
            column = in_lists(column, num_rows, seed, draw(st.booleans()), shape == "m")
        path = {"s": ".s.a", "l": ".list.element", "m": ".key_value.value"}[shape] + path
    options = {
        "row_group_size": draw(st.integers(20, 200)),
        "data_page_version": draw(st.sampled_from(["1.0", "2.0"])),
        "compression": draw(st.sampled_from(CODECS)),
        "write_page_index": draw(st.sampled_from([True, True, False])),
        "data_page_size": draw(st.sampled_from([1, 100, 1 << 20])),
        "write_batch_size": draw(st.integers(1, 9)),
        "max_rows_per_page": draw(st.integers(1, 40)),
        "write_page_checksum": draw(st.booleans()),
        "store_schema": draw(st.booleans()),
        "use_deprecated_int96_timestamps": draw(st.sampled_from([False, False, True])),
    }
    if draw(st.booleans()):
        options["use_dictionary"] = False
        options["column_encoding"] = {"x" + path: draw(st.sampled_from(encodings_of(data_type)))}
    else:
        options["dictionary_pagesize_limit"] = draw(st.sampled_from([8, 40, 1 << 20]))
    target = io.BytesIO()
    pq.write_table(pa.table({"x": column}), target, **options)
    expected = pq.read_table(io.BytesIO(target.getvalue()))["x"]
    assume(len(expected) == len(column))  # pyarrow loses rows of lists behind a page without values
    return target.getvalue(), expected


@given(files(), st.integers(0, 1 << 32))
def test_random_rows_of_random_files(written, seed):
    data, expected = written
    rng = random.Random(seed)
    before = native.refusals.copy()
    with ParquetInput(MemorySource(data)) as file:
        edges = page_edges(file, rng.choice(file.footer.leaves))
        for rows in [RowSelection.all(edges[-1]), *(some_rows(rng, edges) for _ in range(3))]:
            if not rows.is_empty:
                assert_rows_of_pyarrow(file, "x", expected, rows)
    assert set(native.refusals - before) <= SOUND_REFUSALS


#: What is decoded by the extension: the type that is written, options of pyarrow, and whether it is.
GATE = [
    *((data_type, {}, True) for data_type in flat.INTEGERS + flat.FLOATS + flat.DATES + flat.TIMES),
    *((data_type, {}, True) for data_type in flat.NAIVE + flat.AWARE + [pa.bool_(), pa.null()]),
    (pa.timestamp("us", "+01:30"), {}, True),
    (pa.timestamp("us", "Europe/Berlin"), {"store_schema": False}, True),
    (pa.timestamp("ns"), {"use_deprecated_int96_timestamps": True}, True),
    *((pa.decimal128(digits, 2), {"store_decimal_as_integer": True}, True) for digits in (5, 15, 25, 38)),
    *((pa.decimal128(digits, 2), {}, True) for digits in (5, 15, 25, 38)),
    (pa.decimal256(60, 2), {}, True),
    (pa.string(), {}, True),
    (pa.large_string(), {}, True),
    (pa.binary(), {}, True),
    (pa.large_binary(), {}, True),
    (pa.binary(7), {}, True),
    (pa.string_view(), {}, False),
    (pa.dictionary(pa.int8(), pa.string()), {}, False),
    (pa.dictionary(pa.int8(), pa.string()), {"store_schema": False}, True),
    (pa.list_(pa.int64()), {}, True),
    (pa.large_list(pa.string()), {"store_schema": False}, True),
    (pa.list_(pa.list_(pa.struct([("x", pa.int64()), ("y", pa.list_(pa.string()))]))), {}, True),
    (pa.map_(pa.string(), pa.list_(pa.int64())), {}, True),
    (pa.list_(pa.int64(), 3), {}, False),
    (pa.list_(pa.string_view()), {}, False),
    (pa.list_(pa.timestamp("ns")), {"use_deprecated_int96_timestamps": True}, False),
    (pa.struct([("x", pa.int64()), ("y", pa.struct([("z", pa.string())]))]), {}, True),
    (pa.struct([("x", pa.int64()), ("y", pa.list_(pa.string()))]), {}, True),
    (pa.struct([("x", pa.string_view())]), {}, False),
    (pa.struct([("x", pa.timestamp("ns"))]), {"use_deprecated_int96_timestamps": True}, False),
]


@needs_extension
@pytest.mark.parametrize(("data_type", "options", "is_supported"), GATE, ids=str)
def test_types_that_the_extension_decodes(data_type, options, is_supported):
    target = io.BytesIO()
    pq.write_table(pa.table({"x": pa.nulls(3, data_type)}), target, **options)
    with ParquetInput(MemorySource(target.getvalue())) as file:
        assert set(file.schema.compiled) == ({0} if is_supported else set())


@needs_extension
@pytest.mark.parametrize("use_dictionary", [False, True])
def test_int96_of_any_bytes_wrap_around_as_in_pyarrow(use_dictionary):
    """Its days are read without a sign, and nanoseconds of all years but 1677 to 2262 are other times."""
    rng = random.Random(96)
    times = pa.array(range(300), pa.timestamp("ns"))
    target = io.BytesIO()
    options = {"compression": "none", "use_dictionary": use_dictionary, "max_rows_per_page": 100}
    pq.write_table(pa.table({"x": times}), target, use_deprecated_int96_timestamps=True, **options)
    data = bytearray(target.getvalue())
    for place in range(300):
        value = place.to_bytes(8, "little") + (2_440_588).to_bytes(4, "little")
        at = data.index(value)
        no_day = rng.choice([bytes(12), rng.randbytes(8) + bytes(4)])
        data[at : at + 12] = rng.choice([value, rng.randbytes(12), rng.randbytes(8) + value[8:], no_day])
    expected = pq.read_table(io.BytesIO(data))["x"]
    before = native.refusals.copy()
    with ParquetInput(MemorySource(bytes(data))) as file:
        for rows in (RowSelection.all(300), RowSelection.from_ranges([(3, 7), (99, 102), (299, 300)])):
            assert_rows_of_pyarrow(file, "x", expected, rows)
    assert native.refusals == before


@needs_extension
@pytest.mark.parametrize("as_struct", [False, True])
def test_decimals_of_any_length_are_left_to_pyarrow(tmp_path, as_struct):
    """It refuses those without bytes."""
    path = tmp_path / "decimals.parquet"
    values = pa.array([b"\x01", b"", b"\x02"])
    pq.write_table(pa.table({"x": in_struct(values, 3, nullable=False) if as_struct else values}), path)

    def declare_decimal(tree):
        for field, value in ((6, 5), (7, 0), (8, 9)):  # converted type, scale and precision
            tree.get(2).items[-1].set(field, thrift.I32, value)

    edit_footer(path, declare_decimal)
    with pytest.raises(pa.ArrowInvalid, match="Length of byte array"):
        pq.read_table(path)
    with ParquetInput(LocalFile(path)) as file:
        assert set(file.schema.compiled) == set()


@needs_extension
def test_a_part_of_a_struct_is_left_to_pyarrow():
    target = io.BytesIO()
    structs = in_struct(pa.array(range(50)), 3, nullable=True)
    pq.write_table(pa.table({"x": structs}), target, max_rows_per_page=9, write_page_index=True)
    expected = leaf_at(pq.read_table(io.BytesIO(target.getvalue())), "x.s")
    before = native.refusals.copy()
    with ParquetInput(MemorySource(target.getvalue())) as file:
        found = rows_of(file, ["x.s"], RowSelection.of_range(7, 40))
    assert bits(found.column(0)) == bits(expected)[7:40]
    assert native.refusals == before


@needs_extension
@pytest.mark.parametrize("rows_per_group", [4, 1])
def test_text_that_is_not_utf8_is_left_to_pyarrow(rows_per_group):
    data = pa.array([b"good", b"\xff\xfe", None, b"\xe4"])
    text = pa.Array.from_buffers(pa.string(), len(data), data.buffers())
    target = io.BytesIO()
    options = {"max_rows_per_page": 1, "write_page_index": True, "row_group_size": rows_per_group}
    pq.write_table(pa.table({"x": text, "y": range(4)}), target, **options)
    before = native.refusals.copy()
    with ParquetInput(MemorySource(target.getvalue())) as file:
        found = rows_of(file, ["x"], RowSelection.of_range(1, 4))["x"]
    assert found.cast(pa.binary()).to_pylist() == [b"\xff\xfe", None, b"\xe4"]
    assert (native.refusals - before).total() == 1


@needs_extension
@pytest.mark.parametrize(
    ("encoding", "levels", "before"),
    [
        (Encoding.DELTA_LENGTH_BYTE_ARRAY, None, b""),
        (Encoding.DELTA_BYTE_ARRAY, None, b""),
        (Encoding.DELTA_BYTE_ARRAY, None, b"\x80\x01\x04\x03\x00\x00\x00\x00\x00\x00"),
        # levels of a required column, which are like three lengths
        (Encoding.DELTA_LENGTH_BYTE_ARRAY, b"\x80\x01\x04\x03\x00\x00\x00\x00\x00\x00", b""),
    ],
)
def test_pages_that_claim_too_many_lengths_are_refused(encoding, levels, before):
    """The process would end, as Rust allocates memory for as many lengths as a page claims."""
    body = bytearray(before + b"\x80\x01\x04")
    thrift.write_varint(body, 1 << 49)
    body += bytes(20)
    if levels is None:
        data_page = DataPageHeader(3, encoding, Encoding.RLE, Encoding.RLE)
        header = PageHeader(PageType.DATA_PAGE, len(body), len(body), data_page_header=data_page)
    else:
        body = levels + body
        data_page_v2 = DataPageHeaderV2(3, 0, 3, encoding, len(levels), 0, False)
        header = PageHeader(PageType.DATA_PAGE_V2, len(body), len(body), data_page_header_v2=data_page_v2)
    text = pa.schema([pa.field("x", pa.string(), nullable=False)])
    with pytest.raises(native.load().Refused):
        decoded_page(text, thrift.serialize(header) + body, num_rows=3, num_values=3)


def decoded_page(schema, page, num_rows, num_values):
    """What the extension returns for all rows of a page of the only column."""
    target = io.BytesIO()
    pq.write_table(schema.empty_table(), target)
    with ParquetInput(MemorySource(target.getvalue())) as file:
        handle = file.schema.handle
    span = (page, 0, len(page))
    chunk = SimpleNamespace(
        codec=0, span=span, dictionary=None, page_starts=[], page_rows=[num_rows], num_values=num_values
    )
    start, stop = (place.to_bytes(8, "little") for place in (0, num_rows))
    return native.load().decode(handle, [(0, False, [[chunk]])], start, stop, False)


@needs_extension
@pytest.mark.parametrize("definition", [[1, 3], [3, 1], [2, 1], [0, 2]])
def test_a_list_without_elements_does_not_go_on(definition):
    """arrow-rs would skip other values of such a page than it reads."""
    schema = pa.schema({"x": pa.list_(pa.int64())})

    def page(levels):
        # levels are packed in one group of bits, after its head
        packed = [3, 0b10, 3, levels[0] | levels[1] << 2, 0]
        body = bytes(packed) + bytes(8 * levels.count(3))
        v2 = DataPageHeaderV2(2, levels.count(2), 1, Encoding.PLAIN, 3, 2, False)
        header = PageHeader(PageType.DATA_PAGE_V2, len(body), len(body), data_page_header_v2=v2)
        return thrift.serialize(header) + body

    assert decoded_page(schema, page([3, 2]), num_rows=1, num_values=2)
    with pytest.raises(native.load().Refused, match="a list without elements goes on"):
        decoded_page(schema, page(definition), num_rows=1, num_values=2)


@needs_extension
@pytest.mark.parametrize("data_type", [pa.string(), pa.large_string(), pa.binary()], ids=str)
@pytest.mark.parametrize("version", ["1.0", "2.0"])
def test_texts_of_several_dictionary_pages_get_one_dictionary(data_type, version):
    texts = pa.array(["b", None, "a", "b", "", "a", "c", "b"]).cast(data_type)

    def decoded(**options):
        target = io.BytesIO()
        table = pa.table({"x": texts})
        pq.write_table(table, target, row_group_size=4, data_page_version=version, **options)
        data, metadata = target.getvalue(), pq.read_metadata(target)
        chunks = []
        for column in (metadata.row_group(0).column(0), metadata.row_group(1).column(0)):
            start = column.dictionary_page_offset or column.data_page_offset
            span = (data, start, start + column.total_compressed_size)
            of_chunk = {"codec": 1, "span": span, "dictionary": None, "page_starts": [], "page_rows": [4]}
            chunks.append(SimpleNamespace(**of_chunk, num_values=4))
        with ParquetInput(MemorySource(data)) as file:
            handle = file.schema.handle
        starts, stops = (b"".join(row.to_bytes(8, "little") for row in rows) for rows in ((1, 5), (3, 8)))
        return pa.record_batch(native.load().decode(handle, [(0, True, [chunks])], starts, stops, False))

    column = decoded().column(0)
    column.validate(full=True)
    assert column.type == pa.dictionary(pa.int32(), data_type)
    assert column.dictionary.equals(pa.array(["b", "a", "", "c"]).cast(data_type))
    assert column.cast(data_type).equals(texts.take([1, 2, 5, 6, 7]))
    with pytest.raises(native.load().Refused, match="a page has no codes"):
        decoded(use_dictionary=False)


_AFTER_A_FORK = """
import os, sys
import intarsia as ia, numpy as np, pyarrow as pa
from intarsia import native
columns = {name: np.arange(400_000) * 7 % 1_000_003 for name in "abc"}  # several threads decode 9 MB
ia.write_table(pa.table(columns), sys.argv[1])
before = ia.open(sys.argv[1]).scan("a > 5").to_arrow()
child = os.fork()
if not child:
    same = ia.open(sys.argv[1]).scan("a > 5").to_arrow().equals(before)
    os._exit(0 if same and native.load() and not native.refusals else 1)
_, status = os.waitpid(child, 0)
print(before.num_rows, os.waitstatus_to_exitcode(status))
"""


@needs_extension
def test_rows_are_decoded_after_a_fork(tmp_path):
    program = [sys.executable, "-c", _AFTER_A_FORK, str(tmp_path / "t.parquet")]
    found = subprocess.run(program, capture_output=True, text=True, check=True, timeout=60)
    assert found.stdout.split()[1] == "0", found.stderr
