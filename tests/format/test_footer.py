"""Footers: found, parsed, checked; the leaves of a schema."""

from __future__ import annotations

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from intarsia.errors import CorruptFileError, UnsupportedFeatureError
from intarsia.format import thrift
from intarsia.format.footer import chunk_range, footer_start, parse_footer, schema_leaves
from intarsia.format.structs import (
    ColumnChunk,
    ColumnMetaData,
    ConvertedType,
    Empty,
    FileMetaData,
    KeyValue,
    LogicalType,
    RowGroup,
    SchemaElement,
    Type,
)

FILE_LENGTH = 1000
META = ColumnMetaData(Type.INT32, [0], 0, 5, 40, 40, 100, path_in_schema=["a"])
LEAF = SchemaElement("a", type=Type.INT32, repetition_type=1)


def footer_with(**changes):
    """A sound footer of one row group of five rows and one column, with some fields changed."""
    meta = META._replace(**changes.pop("meta", {}))
    chunk = ColumnChunk(0, meta_data=meta)._replace(**changes.pop("chunk", {}))
    group = RowGroup([chunk], 40, 5)._replace(**changes.pop("group", {}))
    schema = changes.pop("schema", [SchemaElement("root", num_children=1), LEAF])
    metadata = FileMetaData(2, schema, 5, [group])._replace(**changes)
    return parse_footer(thrift.serialize(metadata), 700, FILE_LENGTH)


def test_sound_footer():
    footer = footer_with()
    assert footer.num_rows == 5
    assert footer.row_group_starts.tolist() == [0, 5]
    assert footer.chunk_metadata(0, footer.leaves[0]) == META
    assert (footer.start, footer.file_length, footer.created_by) == (700, FILE_LENGTH, "")


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({"num_rows": 6}, "counts 6 rows, its row groups 5"),
        ({"group": {"num_rows": -5}, "num_rows": -5}, "claims -5 rows"),
        ({"group": {"columns": []}}, "0 columns, the schema 1"),
        ({"column_orders": []}, "0 column orders for 1 leaves"),
        ({"schema": []}, "schema is empty"),
        ({"schema": [SchemaElement("root", num_children=2), LEAF]}, "ends before its tree"),
        ({"schema": [SchemaElement("root", num_children=1), LEAF, LEAF]}, "hang loose"),
        ({"schema": [SchemaElement("root", num_children=1), LEAF._replace(type=99)]}, "physical type 99"),
    ],
)
def test_contradictions(changes, message):
    with pytest.raises(CorruptFileError, match=message) as caught:
        footer_with(**changes)
    assert caught.value.offset >= 700
    assert caught.value.struct


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({"total_compressed_size": 901}, "claims bytes 100 to 1001 of 1000"),
        ({"total_compressed_size": -1}, "claims bytes 100 to 99"),
        ({"data_page_offset": -1}, "claims bytes -1"),
        ({"num_values": -1}, "claims -1 values"),
        ({"codec": None}, "required field: 'codec' is absent"),
    ],
)
def test_a_chunk_that_cannot_be_is_refused_whenever_it_is_looked_at(changes, message):
    footer = footer_with(meta=changes)
    assert footer.num_rows == 5
    for _ in range(2):
        with pytest.raises(CorruptFileError, match=message) as caught:
            footer.chunk(0, footer.leaves[0])
        assert 700 < caught.value.offset < 700 + len(footer.raw)
        assert caught.value.struct
        with pytest.raises(CorruptFileError, match=message):
            list(footer.metadata.row_groups[0].columns)


def test_encrypted_columns_and_columns_elsewhere():
    for chunk, message in [
        ({"crypto_metadata": Empty()}, "encrypted"),
        ({"meta_data": None}, "encrypted"),
        ({"file_path": b"other.parquet"}, r"other\.parquet"),
    ]:
        footer = footer_with(chunk=chunk)
        with pytest.raises(UnsupportedFeatureError, match=message):
            footer.chunk_metadata(0, footer.leaves[0])


def test_key_values():
    entries = [
        KeyValue(b"k", b"first"),
        KeyValue(b"k", b"second"),
        KeyValue(b"empty"),
        KeyValue(b"\xff", b"\xfe"),
    ]
    footer = footer_with(key_value_metadata=entries, created_by=b"writer \xff")
    assert footer.key_values == {b"k": b"first", b"empty": b"", b"\xff": b"\xfe"}
    assert footer.created_by == "writer \ufffd"


@pytest.mark.parametrize(
    ("trailer", "length", "error", "message"),
    [
        (b"", 0, CorruptFileError, "empty"),
        (b"PAR1", 4, CorruptFileError, "too few"),
        (b"\x00\0\0\0PAR2", 100, CorruptFileError, "PAR2"),
        (b"\x00\0\0\0PARE", 100, UnsupportedFeatureError, "encrypted"),
        (b"\x59\0\0\0PAR1", 100, CorruptFileError, "claims 89 bytes"),
        (b"\xff\xff\xff\xffPAR1", 100, CorruptFileError, "truncated"),
    ],
)
def test_where_there_is_no_footer(trailer, length, error, message):
    with pytest.raises(error, match=message):
        footer_start(trailer, length)


def test_where_the_footer_starts():
    assert footer_start(b"\x58\0\0\0PAR1", 100) == 4
    assert footer_start(b"\x00\0\0\0PAR1", 100) == 92


@pytest.mark.parametrize(
    ("data", "dictionary", "start"),
    [(100, None, 100), (100, 0, 100), (100, 60, 60), (100, 100, 100), (100, -3, 100)],
)
def test_chunk_range(data, dictionary, start):
    meta = META._replace(data_page_offset=data, dictionary_page_offset=dictionary)
    assert chunk_range(meta) == (start, start + 40)


# --- schema ---


@pytest.mark.parametrize(
    "type_",
    [
        pa.list_(pa.int32()),
        pa.map_(pa.string(), pa.list_(pa.int8())),
        pa.struct([("x", pa.list_(pa.struct([("y", pa.int8()), ("z", pa.string())]))), ("w", pa.bool_())]),
    ],
    ids=str,
)
@pytest.mark.parametrize("nullable", [True, False])
def test_leaves_are_those_of_pyarrow(type_, nullable):
    schema = pa.schema(
        [pa.field("a", type_, nullable=nullable), pa.field("b", pa.int64(), nullable=nullable)]
    )
    sink = pa.BufferOutputStream()
    pq.write_table(pa.table([[], []], schema=schema), sink)
    data = sink.getvalue().to_pybytes()
    start = footer_start(data[-8:], len(data))
    leaves = parse_footer(data[start:-8], start, len(data)).leaves
    theirs = pq.ParquetFile(pa.BufferReader(data)).schema
    assert len(leaves) == len(theirs)
    for ordinal, leaf in enumerate(leaves):
        column = theirs.column(ordinal)
        assert leaf.ordinal == ordinal
        assert leaf.name == column.path
        assert leaf.max_definition_level == column.max_definition_level
        assert leaf.max_repetition_level == column.max_repetition_level
        assert leaf.type.name == column.physical_type
        assert leaf.is_flat == (column.max_repetition_level == 0)
        assert leaf.root_ordinal == (1 if leaf.path[0] == "b" else 0)


@pytest.mark.parametrize(
    ("converted", "kind"),
    [
        (ConvertedType.UTF8, "STRING"),
        (ConvertedType.ENUM, "ENUM"),
        (ConvertedType.JSON, "JSON"),
        (ConvertedType.BSON, "BSON"),
        (ConvertedType.DATE, "DATE"),
        (ConvertedType.TIME_MILLIS, "TIME"),
        (ConvertedType.TIMESTAMP_MICROS, "TIMESTAMP"),
        (ConvertedType.DECIMAL, "DECIMAL"),
        (ConvertedType.UINT_16, "INTEGER"),
        (ConvertedType.INTERVAL, None),
        (None, None),
        (99, None),
    ],
)
def test_converted_types_stand_for_logical_ones(converted, kind):
    element = LEAF._replace(converted_type=converted, precision=9, scale=2)
    (leaf,) = schema_leaves([SchemaElement("root", num_children=1), element])
    assert leaf.logical_name == kind
    if kind == "DECIMAL":
        assert leaf.logical.DECIMAL == (2, 9)
    if kind == "INTEGER":
        assert leaf.logical.INTEGER == (16, False)


def test_the_logical_type_counts_where_both_are_there():
    element = LEAF._replace(converted_type=ConvertedType.UTF8, logicalType=LogicalType(JSON=Empty()))
    (leaf,) = schema_leaves([SchemaElement("root", num_children=1), element])
    assert leaf.logical_name == "JSON"
