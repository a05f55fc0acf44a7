"""`inspect`: its results for files of several writers; it does not read data pages."""

import datetime as dt
import json
import struct
from decimal import Decimal

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from intarsia.check.inspection import inspect
from intarsia.embed import Bloom, PageIndex, attach, detach
from intarsia.errors import ColumnNotFoundError, CorruptFileError, IntarsiaError, UnsupportedFeatureError
from intarsia.file import ParquetInput
from intarsia.format import thrift
from intarsia.format.footer import schema_leaves
from intarsia.format.structs import SchemaElement
from intarsia.indexes.distinct import Distinct
from intarsia.indexes.zonemap import ZoneMap
from intarsia.rows.values import human_value, json_value
from intarsia.storage import LocalFile
from tests.counting import arguments_of, python_calls
from tests.reading.surgery import Patient


@pytest.fixture
def table():
    rows = 1000
    return pa.table(
        {
            "id": pa.array(range(rows)),
            "word": pa.array([f"w{i % 7}" if i % 5 else None for i in range(rows)]),
            "price": pa.array([Decimal(i) / 4 for i in range(rows)], pa.decimal128(12, 2)),
            "day": pa.array([dt.date(2024, 1, 1) + dt.timedelta(days=i) for i in range(rows)]),
            "at": pa.array(np.arange(rows) * 3600 + 1704067200, pa.timestamp("s", "UTC")).cast(
                pa.timestamp("us", "UTC")
            ),
            "x": pa.array([i / 8 for i in range(rows)]),
            "tags": pa.array([[i, None] for i in range(rows)]),
        }
    )  # fmt: skip


@pytest.fixture
def path(tmp_path, table):
    path = str(tmp_path / "plain.parquet")
    pq.write_table(table, path, row_group_size=500)
    return path


@pytest.fixture
def rich_path(tmp_path, table):
    path = str(tmp_path / "rich.parquet")
    pq.write_table(
        table,
        path,
        row_group_size=500,
        write_page_index=True,
        data_page_size=512,
        write_batch_size=64,
        bloom_filter_options={"id": {"ndv": 500, "fpp": 0.01}},
        sorting_columns=[pq.SortingColumn(0)],
    )
    return path


def column(found, name, group=0):
    return next(chunk for chunk in found.row_groups[group].columns if chunk.column == name)


def test_what_is_in_a_file(path):
    found = inspect(path)
    assert (found.num_rows, len(found.row_groups), found.row_groups[1].num_rows) == (1000, 2, 500)
    assert found.created_by.startswith("parquet-cpp-arrow")
    assert "ARROW:schema" in found.key_values
    types = {leaf.name: (leaf.physical_type, leaf.logical_type, leaf.arrow_type) for leaf in found.schema}
    assert types["price"][1:] == ("DECIMAL(12, 2)", "decimal128(12, 2)")
    assert types["at"] == ("INT64", "TIMESTAMP(us, UTC)", "timestamp[us, tz=UTC]")
    assert types["word"] == ("BYTE_ARRAY", "STRING", "string")
    assert types["tags.list.element"] == ("INT64", None, None)


def test_bounds_are_python_values(path):
    found = inspect(path)
    bounds = {chunk.column: (chunk.min, chunk.max) for chunk in found.row_groups[0].columns}
    utc = dt.timezone.utc
    assert bounds["id"] == (0, 499)
    assert bounds["word"] == ("w0", "w6")
    assert bounds["price"] == (Decimal(0), Decimal("124.75"))
    assert bounds["day"] == (dt.date(2024, 1, 1), dt.date(2025, 5, 14))
    assert bounds["at"] == (dt.datetime(2024, 1, 1, tzinfo=utc), dt.datetime(2024, 1, 21, 19, tzinfo=utc))
    assert bounds["x"] == (-0.0, 499 / 8)
    assert column(found, "word").null_count == 100


def test_trust(path, tmp_path):
    found = inspect(path)
    assert column(found, "id").bounds_trusted
    assert column(found, "tags.list.element").bounds_trusted
    pq.write_table(pa.table({"lists": [[[1]], [[2, 3]]]}), tmp_path / "lists.parquet")
    lists = column(inspect(tmp_path / "lists.parquet"), "lists.list.element.list.element")
    assert lists.bounds_trusted is False
    assert "list" in lists.ignored_metadata[0]


def test_pages_without_an_index(path):
    chunk = column(inspect(path, pages=True), "id")
    assert (chunk.num_pages, chunk.num_pages_source, chunk.pages) == (1, "encoding_stats", ())
    assert not chunk.has_column_index


def test_pages_with_an_index(rich_path):
    found = inspect(rich_path, pages=True)
    chunk = column(found, "id", group=1)
    assert chunk.has_column_index
    assert chunk.has_offset_index
    assert (chunk.boundary_order, chunk.num_pages_source) == ("ascending", "offset_index")
    assert len(chunk.pages) == chunk.num_pages > 3
    assert sum(page.rows for page in chunk.pages) == 500
    for page in chunk.pages:
        assert (page.min, page.max) == (500 + page.first_row, 500 + page.first_row + page.rows - 1)
        assert (page.null_count, page.is_null_page) == (0, False)
    assert found.row_groups[0].sorted_by == ("id",)
    assert inspect(rich_path).row_groups[1].columns[0].pages is None


def test_bloom_filter(rich_path):
    shallow = column(inspect(rich_path), "id").bloom_filter
    assert shallow.size_bytes > 32
    assert shallow.distinct_values is None
    deep = column(inspect(rich_path, pages=True), "id").bloom_filter
    assert 450 < deep.distinct_values < 550
    assert 0 < deep.false_positives < 0.02


@pytest.mark.parametrize("name", ["path", "rich_path"])
def test_sizes_are_the_file(request, name):
    found = inspect(request.getfixturevalue(name))
    sizes = found.to_dict()["sizes"]
    assert sum(sizes.values()) == found.size_bytes
    # pyarrow pads its Bloom filters, nothing else is unaccounted for
    assert 4 <= sizes["other"] <= 100
    assert sizes["dictionary_pages"] > 0
    assert (sizes["column_indexes"] > 0) == (name == "rich_path")


def test_reads_no_data_page(rich_path):
    calls = arguments_of(lambda: inspect(rich_path, pages=True), of=LocalFile.read_ranges)
    read = [place for call in calls for place in call["ranges"]]
    with ParquetInput(LocalFile(rich_path)) as file:
        groups = file.footer.metadata.row_groups
    first = min(chunk.meta_data.bloom_filter_offset for group in groups for chunk in group.columns[:1])
    assert min(place.start for place in read) >= first


def test_retrofitted(path):
    size = inspect(path).size_bytes
    plain = inspect(path)
    attach(path, [PageIndex(), Distinct("id", "row_group", max_values=9999), Distinct("word", "row_group")])
    found = inspect(path)
    assert found.directory.is_trusted
    assert found.directory.original_length == size
    blob, entry = found.directory.entries
    assert (blob.offset is None, entry.offset is None) == (False, True)
    assert (entry.kind, entry.columns, entry.granularity) == ("distinct", ("word",), "row_group")
    assert (entry.is_known, entry.is_trusted, entry.reason) == (True, True, None)
    assert entry.parameters["column"] == "word"
    assert found.sizes.original_footer == plain.sizes.footer
    assert found.sizes.embedded_indexes == blob.size_bytes
    assert found.sizes.column_indexes > 0
    assert 4 <= found.sizes.other < 32
    assert column(found, "id").has_column_index
    assert "intarsia" in found.key_values
    detach(path)
    assert inspect(path).to_dict() == plain.to_dict()


def test_stale_directory(path, tmp_path):
    attach(path, [Distinct("word", granularity="row_group")])
    copy = str(tmp_path / "copy.parquet")
    metadata = pq.read_metadata(path).metadata
    read = pq.read_table(path)
    pq.write_table(
        read.replace_schema_metadata({**(read.schema.metadata or {}), b"intarsia": metadata[b"intarsia"]}),
        copy,
    )
    found = inspect(copy)
    assert not found.directory.is_trusted
    assert found.directory.reason
    assert not found.directory.entries[0].is_trusted
    assert found.sizes.embedded_indexes == 0
    assert found.sizes.original_footer == 0
    assert ("intarsia directory", "foreign-directory") in {(note.index, note.code) for note in found.ignored}


def test_damaged_blob(path):
    attach(path, [Distinct("id", "row_group", max_values=9999)])
    (entry,) = inspect(path).directory.entries
    with open(path, "r+b") as file:
        file.seek(entry.offset + entry.size_bytes - 3)
        file.write(b"\xff\x00\xff")
    (entry,) = inspect(path).directory.entries
    assert not entry.is_trusted
    assert entry.reason
    assert [note.code for note in inspect(path).ignored] == ["damaged-payload"]


def test_damaged_directory(tmp_path, table):
    path = str(tmp_path / "odd.parquet")
    pq.write_table(table.replace_schema_metadata({b"intarsia": b"{"}), path)
    found = inspect(path)
    directory = found.directory
    assert (directory.is_trusted, directory.entries, directory.original_length) == (False, (), None)
    assert [(note.index, note.code) for note in found.ignored] == [
        ("intarsia directory", "damaged-directory")
    ]


def test_datafusion_form(tmp_path, table):
    path = str(tmp_path / "plain.parquet")
    pq.write_table(table, path)
    with open(path, "rb") as file:
        data = file.read()
    footer_bytes = int.from_bytes(data[-8:-4], "little") + 8
    payload = b"foo\nbar"
    blob = b"IDX1" + len(payload).to_bytes(8, "little") + payload
    offset = len(data) - footer_bytes
    named = str(tmp_path / "named.parquet")
    keyed = table.replace_schema_metadata({b"distinct_index_offset": str(offset).encode()})
    pq.write_table(keyed, named)
    with open(named, "rb") as file:
        tail = file.read()
    tail = tail[-int.from_bytes(tail[-8:-4], "little") - 8 :]
    with open(named, "wb") as file:
        file.write(data[:offset] + blob + tail)
    found = inspect(named)
    assert found.datafusion_index.is_trusted
    assert found.datafusion_index.size_bytes == len(blob)
    assert sum(found.to_dict()["sizes"].values()) == found.size_bytes
    pq.write_table(keyed, named)
    copied = inspect(named).datafusion_index
    assert not copied.is_trusted
    assert copied.size_bytes == 0


def test_a_damaged_footer_raises(path):
    with open(path, "rb") as file:
        data = file.read()
    with open(path, "wb") as file:
        file.write(data[:-100])
    with pytest.raises(CorruptFileError) as caught:
        inspect(path)
    assert (caught.value.reason, caught.value.path) == ("wrong-magic", str(path))


def test_paths(tmp_path, path):
    assert inspect(tmp_path / "plain.parquet").num_rows == 1000
    with pytest.raises(FileNotFoundError):
        inspect(tmp_path / "nothing.parquet")
    with pytest.raises(IsADirectoryError):
        inspect(tmp_path)


LAST_MOMENT = dt.datetime(1969, 12, 31, 23, 59, 59, 999999, dt.timezone.utc)
FAR = np.datetime64(2**62, "us")


def little(number, width=4):
    return number.to_bytes(width, "little", signed=True)


@pytest.mark.parametrize(
    ("physical", "kind", "raw", "value", "text"),
    [
        (0, {}, b"\x01", True, True),
        (1, {"converted_type": 6}, little(19782), dt.date(2024, 2, 29), "2024-02-29"),
        (1, {"converted_type": 6}, little(2**31 - 1), np.datetime64(2**31 - 1, "D"), "5881580-07-11"),
        (1, {"converted_type": 7}, little(3_723_004), dt.time(1, 2, 3, 4000), "01:02:03.004000"),
        (1, {"converted_type": 13}, b"\xff" * 4, 2**32 - 1, 2**32 - 1),
        (2, {"converted_type": 10}, little(-1, 8), LAST_MOMENT, "1969-12-31T23:59:59.999999+00:00"),
        (2, {"converted_type": 10}, little(2**62, 8), FAR, str(FAR)),
        (3, {}, little(5, 8) + little(2_440_588), np.datetime64(5, "ns"), "1970-01-01T00:00:00.000000005"),
        (5, {}, np.float64("nan").tobytes(), None, "nan"),
        (6, {"converted_type": 0}, "é".encode(), "é", "é"),
        (6, {"converted_type": 0}, b"\xff\xfe", b"\xff\xfe", "0xfffe"),
        (6, {"converted_type": 5, "scale": 2, "precision": 30}, b"\xff", Decimal("-0.01"), "-0.01"),
        (7, {"type_length": 3}, b"abc", b"abc", "0x616263"),
        (1, {}, b"abc", b"abc", "0x616263"),
    ],
)
def test_values(physical, kind, raw, value, text):
    element = SchemaElement("c", type=physical, repetition_type=0, **kind)
    (leaf,) = schema_leaves([SchemaElement("root", num_children=1), element])
    found = human_value(leaf, raw)
    assert type(found) is type(value) or value is None
    assert found == value or value is None
    assert json_value(found) == text
    json.dumps(json_value(found), allow_nan=False)


def test_the_corpus(corpus):
    seen = 0
    for path in sorted(corpus.rglob("*.parquet*")):
        try:
            found = inspect(path, pages=True)
        except (CorruptFileError, UnsupportedFeatureError):
            continue
        seen += 1
        json.dumps(found.to_dict(), allow_nan=False)
        assert sum(found.to_dict()["sizes"].values()) == found.size_bytes
        assert found.sizes.other >= 4
    assert seen >= 20


def test_ignored_metadata_of_the_corpus(corpus):
    def ignored(name):
        groups = inspect(next(corpus.rglob(name))).row_groups
        return "; ".join(one for group in groups for chunk in group.columns for one in chunk.ignored_metadata)

    assert "OffsetIndex ignored: " in ignored("alltypes_invalid_pages.parquet")
    assert "null_count -1" in ignored("datapage_v1-uncompressed-checksum.parquet")
    assert "beside NaN" in ignored("nan_in_stats.parquet")
    assert "is encrypted" in ignored("encrypt_columns_plaintext_footer.parquet.encrypted")
    assert "deprecated bounds" in ignored("fixed_length_decimal.parquet")


def test_ignored_bounds_that_are_nan(tmp_path):
    path = tmp_path / "t.parquet"
    pq.write_table(pa.table({"x": [1.0, 2.0]}), path)
    patient = Patient.read(path)
    patient.chunk(0, 0).get(3).get(12).set(5, thrift.BINARY, struct.pack("<d", float("nan")))
    patient.write(path)
    (chunk,) = inspect(path).row_groups[0].columns
    assert "is NaN" in "; ".join(chunk.ignored_metadata)


# --- some columns and row groups ---------------------------------------------------------------------


@pytest.fixture
def described(tmp_path):
    path = tmp_path / "t.parquet"
    rows = range(600)
    table = pa.table(
        {
            "id": rows,
            "word": [f"w{row % 7}" for row in rows],
            "st": [{"x": row, "y": {"z": str(row)}} for row in rows],
        }
    )
    pq.write_table(table, path, row_group_size=200, max_rows_per_page=50)
    attach(path, [PageIndex(), Bloom("id"), Distinct("word"), ZoneMap("id")])
    return path


@pytest.mark.parametrize("row_groups", [None, [2], [2, 0, 2], []])
@pytest.mark.parametrize("columns", [None, ["word"], ["st"], ["st.y.z", "id"], []])
def test_a_part_is_described_as_in_the_whole(described, columns, row_groups):
    whole = inspect(described, pages=True)
    found = inspect(described, pages=True, columns=columns, row_groups=row_groups)
    names = [leaf.name for leaf in whole.schema]
    if columns is not None:
        names = [name for name in names if any(f"{name}.".startswith(f"{one}.") for one in columns)]
    assert [leaf.name for leaf in found.schema] == names
    ordinals = sorted(set(range(3) if row_groups is None else row_groups))
    assert [group.ordinal for group in found.row_groups] == ordinals
    for group in found.row_groups:
        expected = [chunk for chunk in whole.row_groups[group.ordinal].columns if chunk.column in names]
        assert list(group.columns) == expected
    entries = [entry for entry in whole.directory.entries if set(entry.columns) & set(names)]
    assert list(found.directory.entries) == entries
    assert (found.num_rows, found.num_row_groups) == (600, 3)
    assert sum(vars(found.sizes).values()) == found.size_bytes
    assert found.sizes.footer == whole.sizes.footer


def test_offsets_are_those_of_pyarrow_and_of_the_bytes(described):
    found, data = inspect(described, pages=True), described.read_bytes()
    metadata = pq.read_metadata(described)
    for group in found.row_groups:
        for ordinal, chunk in enumerate(group.columns):
            expected = metadata.row_group(group.ordinal).column(ordinal)
            assert chunk.dictionary_page_offset == expected.dictionary_page_offset
            assert chunk.data_page_offset == expected.data_page_offset == chunk.pages[0].offset
            assert chunk.offset == (chunk.dictionary_page_offset or chunk.data_page_offset)
            last = chunk.pages[-1]
            assert last.offset + last.size_bytes == chunk.offset + chunk.compressed_bytes
            assert found.directory.original_length <= chunk.column_index_offset < chunk.offset_index_offset
            assert chunk.offset_index_offset + chunk.offset_index_bytes <= found.footer_offset
    assert data[found.footer_offset :].endswith(b"PAR1")
    assert len(data) - found.footer_offset == found.sizes.footer
    original = data[: found.directory.original_length]
    length = int.from_bytes(original[-8:-4], "little")
    assert found.directory.original_footer_offset == len(original) - 8 - length


def test_what_the_file_does_not_have(described):
    with pytest.raises(ColumnNotFoundError) as caught:
        inspect(described, columns=["wrod"])
    assert tuple(caught.value.near) == ("word",)
    for ordinal in (3, -1):
        with pytest.raises(IntarsiaError) as error:
            inspect(described, row_groups=[ordinal])
        assert (error.value.reason, error.value.path) == ("no-such-row-group", str(described))


def test_the_work_is_proportional_to_what_is_described(tmp_path):
    """One of 1,000 columns in one of 100 row groups, and 10 times as many."""
    path = tmp_path / "wide.parquet"
    table = pa.table({f"c{ordinal}": np.arange(100) for ordinal in range(1000)})
    pq.write_table(table, path, row_group_size=1, write_page_index=True, use_dictionary=False)

    def cost(columns, row_groups):
        found, calls = python_calls(lambda: inspect(path, columns=columns, row_groups=row_groups, pages=True))
        assert [len(group.columns) for group in found.row_groups] == [len(columns)] * len(row_groups)
        return calls

    cost(["c1"], [0])  # imports
    one, groups = cost(["c7"], [50]), cost(["c7"], range(20))
    columns = cost([f"c{ordinal}" for ordinal in range(20)], [50])
    assert (groups - one) / 19 < 270
    assert (columns - one) / 19 < 680
    assert one < 4_200  # the schema has 1,000 columns; 100,000 chunks would take 22 million calls
