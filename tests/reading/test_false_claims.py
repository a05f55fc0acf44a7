"""Pages that claim more values than they can contain are refused before memory is allocated for them."""

from __future__ import annotations

import shutil
import sys

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

import intarsia as ia
from intarsia.errors import CorruptFileError
from intarsia.file.claims import check_values, decompress, is_plausible
from intarsia.format import thrift
from intarsia.format.enums import CompressionCodec, Encoding, FieldRepetitionType, PageType, Type
from intarsia.format.footer import MAGIC, schema_leaves
from intarsia.format.structs import (
    ColumnChunk,
    ColumnMetaData,
    DataPageHeader,
    DataPageHeaderV2,
    DictionaryPageHeader,
    FileMetaData,
    PageHeader,
    RowGroup,
    SchemaElement,
)
from tests.child import run

MANY = (1 << 31) - 1
UNCOMPRESSED = CompressionCodec.UNCOMPRESSED


def run_of(count):
    out = bytearray()
    thrift.write_varint(out, count << 1)
    return bytes(out) + b"\0"


def data_page(body, count, encoding, *, version=1):
    size = len(body)
    if version == 1:
        one = DataPageHeader(count, encoding, Encoding.RLE, Encoding.RLE)
        header = PageHeader(PageType.DATA_PAGE, size, size, data_page_header=one)
    else:
        two = DataPageHeaderV2(count, 0, count, encoding, 0, 0)
        header = PageHeader(PageType.DATA_PAGE_V2, size, size, data_page_header_v2=two)
    return thrift.serialize(header) + body


def dictionary_page(values, count):
    header = DictionaryPageHeader(count, Encoding.PLAIN)
    size = len(values)
    return (
        thrift.serialize(PageHeader(PageType.DICTIONARY_PAGE, size, size, dictionary_page_header=header))
        + values
    )


def element(physical=Type.INT64, repetition=FieldRepetitionType.REQUIRED):
    return SchemaElement("x", type=physical, repetition_type=repetition)


def leaf_of(column):
    return schema_leaves([SchemaElement("root", num_children=1), column])[0]


def write(path, pages, count, dictionary_bytes=0):
    start = len(MAGIC)
    encodings = [Encoding.PLAIN, Encoding.RLE, Encoding.RLE_DICTIONARY]
    meta = ColumnMetaData(
        Type.INT64, encodings, UNCOMPRESSED, count, len(pages), len(pages), start + dictionary_bytes,
        dictionary_page_offset=start if dictionary_bytes else None, path_in_schema=["x"],
    )  # fmt: skip
    schema = [SchemaElement("root", num_children=1), element()]
    groups = [RowGroup([ColumnChunk(start, meta_data=meta)], len(pages), count)]
    raw = thrift.serialize(FileMetaData(1, schema, count, groups))
    path.write_bytes(MAGIC + pages + raw + len(raw).to_bytes(4, "little") + MAGIC)


ONE_VALUE = dictionary_page((7).to_bytes(8, "little"), 1)

#: Data pages that claim `MANY` values, the physical type, and the pages before them.
TOO_FEW = {
    "plain": (bytes(64), Encoding.PLAIN, Type.INT64, b""),
    "plain text": (bytes(64), Encoding.PLAIN, Type.BYTE_ARRAY, b""),
    "booleans": (bytes(9), Encoding.PLAIN, Type.BOOLEAN, b""),
    "run of booleans": (b"\3\0\0\0" + run_of(5000), Encoding.RLE, Type.BOOLEAN, b""),
    "split bytes": (bytes(64), Encoding.BYTE_STREAM_SPLIT, Type.INT64, b""),
    "deltas": (b"\x80\1\4\5\0" + bytes(8), Encoding.DELTA_BINARY_PACKED, Type.INT64, b""),
    "short run": (b"\1" + run_of(5000), Encoding.RLE_DICTIONARY, Type.INT64, ONE_VALUE),
}
NO_DICTIONARY = data_page(b"\1" + run_of(MANY), MANY, Encoding.RLE_DICTIONARY)


def refusal(pages, column):
    with pytest.raises(CorruptFileError) as caught:
        check_values(pages, MANY, UNCOMPRESSED, leaf_of(column), b"any writer")
    return caught.value.reason


@pytest.mark.parametrize("version", [1, 2])
@pytest.mark.parametrize("name", TOO_FEW)
def test_pages_with_fewer_values_are_refused(name, version):
    body, encoding, physical, before = TOO_FEW[name]
    pages = before + data_page(body, MANY, encoding, version=version)
    assert refusal(pages, element(physical)) == "page-value-count-mismatch"


def test_pages_without_their_dictionary_or_levels_are_refused():
    assert refusal(NO_DICTIONARY, element()) == "no-dictionary-page"
    levels = data_page(b"\3\0\0\0" + run_of(5000), MANY, Encoding.PLAIN)
    assert refusal(levels, element(repetition=FieldRepetitionType.OPTIONAL)) == "truncated-levels"


def test_true_claims_are_accepted():
    """One run of a dictionary, of nulls, or of booleans, or deltas of zero, have any number of values."""
    optional, boolean = element(repetition=FieldRepetitionType.OPTIONAL), element(Type.BOOLEAN)
    nulls = run_of(MANY)
    runs = b"\1" + run_of(MANY)
    length = len(run_of(MANY)).to_bytes(4, "little")
    for pages, column in (
        (ONE_VALUE + data_page(runs, MANY, Encoding.RLE_DICTIONARY), element()),
        (data_page(len(nulls).to_bytes(4, "little") + nulls, MANY, Encoding.PLAIN), optional),
        (data_page(length + run_of(MANY), MANY, Encoding.RLE), boolean),
        (data_page(b"any bytes", MANY, 77), element()),  # an encoding that nobody knows proves nothing
    ):
        check_values(pages, MANY, UNCOMPRESSED, leaf_of(column), None)


ENCODINGS = {
    "PLAIN": 7,
    "RLE": True,
    "DELTA_BINARY_PACKED": 7,
    "BYTE_STREAM_SPLIT": 7,
    "DELTA_BYTE_ARRAY": "a",
    "DELTA_LENGTH_BYTE_ARRAY": "a",
    "dictionary": 7,
}


@pytest.mark.parametrize(
    ("encoding", "version", "codec"),
    [
        *((encoding, version, "zstd") for encoding in ENCODINGS for version in ("1.0", "2.0")),
        *((encoding, "1.0", codec) for encoding in ("PLAIN", "dictionary") for codec in ("gzip", "brotli")),
    ],
)
def test_files_of_very_many_equal_values_are_read(tmp_path, encoding, version, codec):
    """Each value takes less than a thousandth of a byte, so the pages are checked."""
    path, num_rows = tmp_path / "x.parquet", 5_000_000
    column = pa.repeat(pa.scalar(ENCODINGS[encoding]), num_rows)
    encodings = {} if encoding == "dictionary" else {"use_dictionary": False, "column_encoding": encoding}
    options = {"compression": codec, "data_page_version": version, "row_group_size": num_rows}
    pq.write_table(pa.table({"x": column}), path, **options, **encodings)
    table = ia.open(path).scan([("x", "=", column[0].as_py())]).to_arrow()
    assert table.num_rows == num_rows
    num_bytes = pq.read_metadata(path).row_group(0).column(0).total_compressed_size
    if not is_plausible(num_rows, num_bytes):
        assert ia.verify(path).ok


LIMITS = {"snappy": 22, "gzip": 1032, "lz4_raw": 255, "zstd": 1 << 15}


@pytest.mark.parametrize("codec", LIMITS)
@pytest.mark.parametrize("byte", [0, 1])
def test_no_bytes_expand_more_than_their_codec_can(codec, byte):
    """Runs are what compresses best; pages that claim more than the limit are refused."""
    number = CompressionCodec[codec.upper()]
    for num_bytes in (100, 10_000, 1 << 20, 1 << 26):
        plain = bytes([byte]) * num_bytes
        packed = pa.compress(plain, codec=codec, asbytes=True)
        assert decompress(packed, number, num_bytes) == plain
    beyond = LIMITS[codec] * len(packed) + 1
    with pytest.raises(CorruptFileError) as caught:
        decompress(packed, number, beyond)
    assert caught.value.reason == "invalid-page-size"


#: Prints the reasons of the errors of a scan with and without predicate, an index, and an attached page
#: index, in a process that can allocate 1 GiB, and whether `verify` found errors.
PROGRAM = """
import resource, sys, warnings
import pyarrow as pa
import intarsia as ia
warnings.simplefilter("ignore")
pa.set_memory_pool(pa.system_memory_pool())  # other pools reserve 1 GiB with the first value
path = sys.argv[1]
with open("/proc/self/statm") as statm:
    used_bytes = int(statm.read().split()[0]) * resource.getpagesize()
resource.setrlimit(resource.RLIMIT_AS, (used_bytes + (1 << 30),) * 2)
(column,) = ia.open(path).schema.names
for act in (
    lambda: ia.open(path).scan(f"{column} >= 3").to_arrow(),
    lambda: ia.open(path).scan().to_arrow(),
    lambda: ia.open(path).aggregate({column: ["min"]}),
    lambda: ia.attach(path, ia.Distinct(column)),
    lambda: ia.attach(path, ia.PageIndex()) and ia.open(path).scan(f"{column} >= 3").to_arrow(),
):
    try:
        act()
    except ia.CorruptFileError as error:
        print(error.reason)
print(ia.verify(path).ok)
"""


@pytest.mark.skipif(sys.platform != "linux", reason="other systems do not limit the memory of a process")
@pytest.mark.parametrize("name", ["plain", "no dictionary", "short run", "dictionary"])
def test_false_claims_take_no_memory(tmp_path, name):
    path = tmp_path / "x.parquet"
    if name == "dictionary":
        pages = dictionary_page(bytes(8), MANY) + data_page(b"\1" + run_of(10), 10, Encoding.RLE_DICTIONARY)
        write(path, pages, 10, dictionary_bytes=len(dictionary_page(bytes(8), MANY)))
        reason = "dictionary-value-count"
    else:
        body, encoding, _, before = TOO_FEW.get(name, (b"", 0, 0, b""))
        pages = before + data_page(body, MANY, encoding) if body else NO_DICTIONARY
        reason = "page-value-count-mismatch" if body else "no-dictionary-page"
        write(path, pages, MANY, dictionary_bytes=len(before))
    assert run(PROGRAM, path).split() == [reason] * 5 + ["False"]


@pytest.mark.skipif(sys.platform != "linux", reason="other systems do not limit the memory of a process")
def test_a_real_file_takes_no_memory(large_corpus, tmp_path):
    path = tmp_path / "broken_structure.parquet"
    shutil.copyfile(next(large_corpus.rglob(path.name)), path)
    assert run(PROGRAM, path).split() == ["no-dictionary-page"] * 5 + ["False"]
