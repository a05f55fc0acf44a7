"""Locating, parsing and checking of footers, and the leaves of a schema."""

from __future__ import annotations

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from intarsia.errors import CorruptFileError, UnsupportedFeatureError
from intarsia.format import thrift
from intarsia.format.enums import ConvertedType, Type
from intarsia.format.footer import chunk_range, footer_start, parse_footer, schema_leaves, schema_paths
from intarsia.format.structs import (
    ColumnChunk,
    ColumnMetaData,
    Empty,
    FileMetaData,
    KeyValue,
    LogicalType,
    RowGroup,
    SchemaElement,
)

FILE_LENGTH = 1000
META = ColumnMetaData(Type.INT32, [0], 0, 5, 40, 40, 100, path_in_schema=["a"])
LEAF = SchemaElement("a", type=Type.INT32, repetition_type=1)


def footer_with(**changes):
    """A valid footer of one row group of five rows and one column, with some fields changed."""
    meta = META._replace(**changes.pop("meta", {}))
    chunk = ColumnChunk(0, meta_data=meta)._replace(**changes.pop("chunk", {}))
    group = RowGroup([chunk], 40, 5)._replace(**changes.pop("group", {}))
    schema = changes.pop("schema", [SchemaElement("root", num_children=1), LEAF])
    metadata = FileMetaData(2, schema, 5, [group])._replace(**changes)
    return parse_footer(thrift.serialize(metadata), 700, FILE_LENGTH)


def test_valid_footer():
    footer = footer_with()
    assert footer.num_rows == 5
    assert footer.row_group_starts.tolist() == [0, 5]
    assert footer.chunk_metadata(0, footer.leaves[0]) == META
    assert (footer.start, footer.file_length, footer.created_by) == (700, FILE_LENGTH, "")


def test_old_parquet_rs_did_not_count_the_rows_of_the_file():
    assert footer_with(num_rows=0, created_by=b"parquet-rs version 0.3.0 (build b45ce7c)").num_rows == 5
    for created_by in (b"parquet-rs version 50.0.0", None):
        with pytest.raises(CorruptFileError, match="claims 0 rows"):
            footer_with(num_rows=0, created_by=created_by)


@pytest.mark.parametrize(
    ("changes", "reason"),
    [
        ({"num_rows": 6}, "row-count-mismatch"),
        ({"group": {"num_rows": -5}, "num_rows": -5}, "negative-row-count"),
        ({"group": {"columns": []}}, "column-count-mismatch"),
        ({"column_orders": []}, "column-order-count-mismatch"),
        ({"schema": []}, "empty-schema"),
        ({"schema": [SchemaElement("root", num_children=2), LEAF]}, "truncated-schema"),
        ({"schema": [SchemaElement("root", num_children=1), LEAF, LEAF]}, "surplus-schema-elements"),
        (
            {"schema": [SchemaElement("root", num_children=1), LEAF._replace(type=99)]},
            "unknown-physical-type",
        ),
    ],
)
def test_contradictions(changes, reason):
    with pytest.raises(CorruptFileError) as caught:
        footer_with(**changes)
    assert caught.value.reason == reason
    assert caught.value.offset >= 700
    assert caught.value.struct


@pytest.mark.parametrize(
    ("changes", "reason"),
    [
        ({"total_compressed_size": 901}, "chunk-outside-file"),
        ({"total_compressed_size": -1}, "chunk-outside-file"),
        ({"data_page_offset": -1}, "chunk-outside-file"),
        ({"num_values": -1}, "negative-value-count"),
        ({"codec": None}, "missing-field"),
    ],
)
def test_impossible_chunk_is_refused_on_every_access(changes, reason):
    footer = footer_with(meta=changes)
    assert footer.num_rows == 5
    for _ in range(2):
        with pytest.raises(CorruptFileError) as caught:
            footer.chunk(0, footer.leaves[0])
        assert caught.value.reason == reason
        assert 700 < caught.value.offset < 700 + len(footer.raw)
        assert caught.value.struct
        with pytest.raises(CorruptFileError) as caught:
            list(footer.metadata.row_groups[0].columns)
        assert caught.value.reason == reason


def test_encrypted_columns_and_columns_elsewhere():
    for chunk, reason in [
        ({"crypto_metadata": Empty()}, "encrypted-column"),
        ({"meta_data": None}, "encrypted-column"),
        ({"file_path": b"other.parquet"}, "column-in-another-file"),
    ]:
        footer = footer_with(chunk=chunk)
        with pytest.raises(UnsupportedFeatureError) as caught:
            footer.chunk_metadata(0, footer.leaves[0])
        assert (caught.value.reason, caught.value.column) == (reason, "a")


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
    ("trailer", "length", "error", "reason"),
    [
        (b"", 0, CorruptFileError, "empty-file"),
        (b"PAR1", 4, CorruptFileError, "file-too-short"),
        (b"\x00\0\0\0PAR2", 100, CorruptFileError, "wrong-magic"),
        (b"\x00\0\0\0PARE", 100, UnsupportedFeatureError, "encrypted-footer"),
        (b"\x59\0\0\0PAR1", 100, CorruptFileError, "truncated-file"),
        (b"\xff\xff\xff\xffPAR1", 100, CorruptFileError, "truncated-file"),
    ],
)
def test_invalid_trailers(trailer, length, error, reason):
    with pytest.raises(error) as caught:
        footer_start(trailer, length)
    assert caught.value.reason == reason


def test_footer_start():
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
def test_leaves_equal_those_of_pyarrow(type_, nullable):
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
def test_converted_types_are_mapped_to_logical_types(converted, kind):
    element = LEAF._replace(converted_type=converted, precision=9, scale=2)
    (leaf,) = schema_leaves([SchemaElement("root", num_children=1), element])
    assert leaf.logical_name == kind
    if kind == "DECIMAL":
        assert leaf.logical.DECIMAL == (2, 9)
    if kind == "INTEGER":
        assert leaf.logical.INTEGER == (16, False)


@pytest.mark.parametrize("num_children", [0, -1])
def test_a_group_may_have_no_children(num_children):
    """The elements after it are not in it."""
    schema = [SchemaElement("root", num_children=2), SchemaElement("g", num_children=num_children), LEAF]
    assert [[element.name for element in path] for path in schema_paths(schema)] == [["g"], ["a"]]
    assert [leaf.root_ordinal for leaf in schema_leaves(schema)] == [1]


def test_logical_type_takes_precedence_over_converted_type():
    element = LEAF._replace(converted_type=ConvertedType.UTF8, logicalType=LogicalType(JSON=Empty()))
    (leaf,) = schema_leaves([SchemaElement("root", num_children=1), element])
    assert leaf.logical_name == "JSON"
