"""The rules for trusting metadata, by writer and by format."""

from __future__ import annotations

import pyarrow as pa
import pytest

from intarsia.file.trust import Trust, TrustedValue
from intarsia.file.writers import RULES, Claim, parse_writer
from intarsia.format.enums import ConvertedType, Encoding, Type
from intarsia.format.footer import Footer, schema_leaves
from intarsia.format.structs import (
    ColumnMetaData,
    ColumnOrder,
    Empty,
    FileMetaData,
    KeyValue,
    LogicalType,
    SchemaElement,
    Statistics,
    TimestampType,
    TimeUnit,
)

REQUIRED, OPTIONAL, REPEATED = 0, 1, 2
MOMENT = ConvertedType.TIMESTAMP_MICROS
LOCAL = LogicalType(TIMESTAMP=TimestampType(False, TimeUnit(MICROS=Empty())))
SCHEMA = [
    SchemaElement("root", num_children=12),
    SchemaElement("text", type=Type.BYTE_ARRAY, converted_type=ConvertedType.UTF8, repetition_type=OPTIONAL),
    SchemaElement("number", type=Type.INT64, repetition_type=OPTIONAL),
    SchemaElement(
        "unsigned", type=Type.INT32, converted_type=ConvertedType.UINT_32, repetition_type=REQUIRED
    ),
    SchemaElement("many", type=Type.INT32, repetition_type=REPEATED),
    SchemaElement("at", type=Type.INT64, converted_type=MOMENT, repetition_type=REQUIRED),
    SchemaElement("maybe_at", type=Type.INT64, converted_type=MOMENT, repetition_type=OPTIONAL),
    SchemaElement("local", type=Type.INT64, logicalType=LOCAL, repetition_type=OPTIONAL),
    SchemaElement("flag", type=Type.BOOLEAN),
    SchemaElement(
        "varying", type=Type.BYTE_ARRAY, converted_type=ConvertedType.DECIMAL, precision=9, scale=2
    ),
    SchemaElement("real", type=Type.DOUBLE, repetition_type=OPTIONAL),
    SchemaElement(
        "document", type=Type.BYTE_ARRAY, converted_type=ConvertedType.JSON, repetition_type=OPTIONAL
    ),
    SchemaElement("s", num_children=2, repetition_type=OPTIONAL),
    SchemaElement("blob", type=Type.BYTE_ARRAY, repetition_type=OPTIONAL),
    SchemaElement("text", type=Type.BYTE_ARRAY, converted_type=ConvertedType.UTF8),
]
LEAVES = {leaf.name: leaf for leaf in schema_leaves(SCHEMA)}


def trust(created_by, name, *, orders=True, arrow_schema=False, arrow_type=None):
    metadata = FileMetaData(2, SCHEMA, 0, [], created_by=created_by.encode())
    if orders:
        metadata = metadata._replace(column_orders=[ColumnOrder(TYPE_ORDER=Empty())] * len(LEAVES))
    if arrow_schema:
        metadata = metadata._replace(key_value_metadata=[KeyValue(b"ARROW:schema", b"...")])
    return Trust(Footer(metadata, b"", 0, 0), LEAVES[name], arrow_type)


def chunk(name="number", *, dictionary=None, **statistics):
    meta = ColumnMetaData(LEAVES[name].type, [0], 0, 10, 40, 40, 100, path_in_schema=[name])
    return meta._replace(dictionary_page_offset=dictionary, statistics=Statistics(**statistics))


@pytest.mark.parametrize(
    ("created_by", "name", "version"),
    [
        ("parquet-mr version 1.10.0 (build 031a)", "parquet-mr", (1, 10, 0)),
        ("parquet-mr version 1.12.0-SNAPSHOT (build 6901)", "parquet-mr", (1, 12, 0)),
        ("parquet-cpp-arrow version 26.0.1", "parquet-cpp-arrow", (26, 0, 1)),
        ("parquet-rs version 55.1.0", "parquet-rs", (55, 1, 0)),
        ("DuckDB version v1.4.4 (build 6ddac802ff)", "duckdb", (1, 4, 4)),
        ("DuckDB", "duckdb", ()),
        ("xitongsys/parquet-go version 1.5", "xitongsys/parquet-go", (1, 5)),
        ("github.com/segmentio/parquet-go version 0.0.0 (build )", "github.com/segmentio/parquet-go", ()),
        ("Polars", "polars", ()),
        ("Polars (python) version 2.1.0 (build 7f902bd3ff)", "polars", (2, 1, 0)),
        ("parquet-mr compatible Photon version 0.2 (build 16.4)", "photon", (0, 2)),
        ("parquet-cpp-velox version 0.0.0", "velox", (0, 0, 0)),
        ("", "", ()),
    ],
)
def test_writers(created_by, name, version):
    assert parse_writer(created_by) == (name, version)


@pytest.mark.parametrize(
    ("created_by", "leaf", "claim", "word"),
    [
        ("parquet-mr version 1.7.0 (build 1)", "text", Claim.BOUNDS, "PARQUET-251"),
        ("parquet-mr version 1.9.0 (build 1)", "real", Claim.DEPRECATED_BOUNDS, "NaN"),
        ("parquet-mr (build 1)", "real", Claim.BOUNDS, "NaN"),
        ("github.com/segmentio/parquet-go (build )", "text", Claim.BOUNDS, "segmentio"),
        ("github.com/parquet-go/parquet-go version 0.32.0(build )", "real", Claim.BOUNDS, "NaN"),
        ("parquet-go version latest", "real", Claim.DEPRECATED_BOUNDS, "NaN"),
        ("parquet-go version latest", "number", Claim.NULL_COUNT, "start of a page"),
        ("parquet-go version 12.0.1", "text", Claim.BOUNDS, "truncates"),
        ("parquet-go version 17.0.0", "unsigned", Claim.BOUNDS, "signed"),
        ("parquet-go version 18.0.0-SNAPSHOT", "unsigned", Claim.BOUNDS, "18.2"),
        ("parquet-go version 18.7.0", "number", Claim.BLOOM_FILTER, "18.8"),
        ("github.com/xitongsys/parquet-go", "number", Claim.PAGE_INDEX, "xitongsys"),
        ("hyparquet-writer 0.1", "many", Claim.PAGE_INDEX, "within a row"),
        ("hyparquet", "document", Claim.NULL_COUNT, "JSON"),
        ("parquet-cpp-arrow version 26.0.1", "s.text", Claim.NULL_COUNT, "null struct"),
        ("parquet-cpp-arrow version 26.0.1", "s.text", Claim.EXACT_BOUNDS, "null struct"),
        ("parquet-cpp-arrow version 26.0.1", "text", Claim.EXACT_BOUNDS, "dictionary"),
        ("parquet-cpp-arrow version 12.0.1", "number", Claim.PAGE_HEADERS, "13.0"),
        ("parquet-cpp-arrow version 10.0.1", "text", Claim.BOUNDS, "GH-15042"),
        ("parquet-cpp-arrow version 10.0.1", "text", Claim.NULL_COUNT, "GH-15042"),
        ("parquet-cpp version 1.5.1-SNAPSHOT", "text", Claim.NULL_COUNT, "ARROW-12513"),
        ("parquet-cpp version 1.5.1-SNAPSHOT", "varying", Claim.BOUNDS, "PARQUET-1655"),
        ("parquet-cpp version 1.5.1-SNAPSHOT", "real", Claim.BOUNDS, "NaN"),
        ("parquet-cpp version 1.3.1-SNAPSHOT", "real", Claim.DEPRECATED_BOUNDS, "NaN"),
        ("DuckDB version v2.0.0 (build d54cbbe3df)", "s.blob", Claim.EXACT_BOUNDS, "fixed-size binary"),
        ("DuckDB version v1.5.2 (build 8a5851971f)", "text", Claim.EXACT_BOUNDS, "ENUM"),
        ("DuckDB", "number", Claim.NULL_COUNT, "row groups"),
        ("Polars", "number", Claim.NULL_COUNT, "pages"),
        ("Polars", "number", Claim.PAGE_NULL_COUNT, "pages"),
        ("Polars (python) version 2.0.0 (build 22a147de3d)", "real", Claim.BOUNDS, "NaN"),
        ("Polars", "real", Claim.PAGE_BOUNDS, "NaN"),
        ("Polars", "text", Claim.BOUNDS, "version 2"),
        ("Polars", "text", Claim.PAGE_BOUNDS, "version 2"),
        ("Arrow2 - Native Rust implementation of Arrow", "number", Claim.NULL_COUNT, "0.14"),
        ("Polars", "unsigned", Claim.PAGE_BOUNDS, "as signed"),
        ("Polars", "text", Claim.LOWER_BOUND, "or is empty"),
        ("Polars", "text", Claim.UPPER_BOUND, "begins with the other"),
        ("Polars", "text", Claim.EXACT_BOUNDS, "or is empty"),
        ("Polars (python) version 1.44.0 (build 22a147de3d)", "varying", Claim.BOUNDS, "bytes"),
        ("Polars (python) version 2.0.0 (build 22a147de3d)", "unsigned", Claim.BOUNDS, "unsigned numbers"),
        ("QuestDB version 9.0", "text", Claim.NULL_COUNT, "symbols"),
        ("QuestDB version 8.0", "text", Claim.PAGE_NULL_COUNT, "symbols"),
        ("opteryx-rugo version 0.9.175 (build 3758)", "s.blob", Claim.PAGE_BOUNDS, "empty upper bound"),
        ("rugo version 0.5.6", "s.blob", Claim.PAGE_BOUNDS, "empty upper bound"),
        ("KUZU", "number", Claim.NULL_COUNT, "row groups"),
        ("LBUG", "number", Claim.NULL_COUNT, "row groups"),
        ("ClickHouse v25.5.2.1-stable", "many", Claim.PAGE_INDEX, "as rows"),
        ("ClickHouse v25.8.2.1-lts", "text", Claim.PAGE_BOUNDS, "4 KiB"),
        ("ClickHouse v25.8.2.1-lts", "document", Claim.BOUNDS, "JSON"),
        ("parquet-rs version 59.3.0", "varying", Claim.BOUNDS, "lengths"),
        ("parquet-rs version 59.3.0", "varying", Claim.PAGE_BOUNDS, "lengths"),
        ("fastparquet-python version 2026.9.0 (build 0)", "number", Claim.DEPRECATED_BOUNDS, "category"),
        ("fastparquet-python version 2026.9.0 (build 0)", "at", Claim.DEPRECATED_BOUNDS, "NaT"),
        ("fastparquet-python version 2026.9.0 (build 0)", "at", Claim.BOUNDS, "NaT"),  # of a rewritten file
        ("fastparquet-python version 2026.9.0 (build 0)", "maybe_at", Claim.DEPRECATED_BOUNDS, "9999"),
        ("", "real", Claim.DEPRECATED_BOUNDS, "1.5.1"),
        ("", "text", Claim.DEPRECATED_BOUNDS, "signed"),
        ("", "unsigned", Claim.DEPRECATED_BOUNDS, "signed"),
        ("", "flag", Claim.BLOOM_FILTER, "booleans"),
        ("", "varying", Claim.BLOOM_FILTER, "decimals"),
    ],
)
def test_claims_that_are_not_trusted(created_by, leaf, claim, word):
    """``word`` shows which rule applies."""
    dictionary = None if word in ("NaT", "9999", "PARQUET-1655") else 4
    assert word in trust(created_by, leaf).doubt(claim, chunk(leaf, dictionary=dictionary))


@pytest.mark.parametrize(
    ("created_by", "leaf", "claim"),
    [
        ("parquet-mr version 1.7.0 (build 1)", "number", Claim.BOUNDS),
        ("parquet-mr version 1.8.0 (build 1)", "text", Claim.BOUNDS),
        ("parquet-mr version 1.9.0 (build 1)", "number", Claim.DEPRECATED_BOUNDS),
        ("parquet-mr version 1.10.0 (build 1)", "real", Claim.BOUNDS),
        ("parquet-mr version 1.12.0", "many", Claim.PAGE_INDEX),
        ("parquet-mr compatible Photon version 0.2 (build 16.4)", "text", Claim.BOUNDS),
        ("parquet-mr compatible Photon version 0.2 (build 16.4)", "real", Claim.BOUNDS),
        ("parquet-cpp-velox version 0.0.0", "varying", Claim.BOUNDS),
        ("parquet-go version 12.0.1", "real", Claim.BOUNDS),
        ("parquet-go version 12.0.1", "number", Claim.NULL_COUNT),
        ("github.com/parquet-go/parquet-go version 0.32.0(build )", "number", Claim.NULL_COUNT),
        ("parquet-go version 17.0.0", "number", Claim.BOUNDS),
        ("parquet-go version 18.4.1", "unsigned", Claim.BOUNDS),
        ("parquet-go version 18.7.0", "number", Claim.BLOOM_FILTER),  # no dictionary page
        ("parquet-go version 18.8.0", "number", Claim.BLOOM_FILTER),
        ("github.com/parquet-go/parquet-go version 0.32.0(build )", "unsigned", Claim.BOUNDS),
        ("parquet-go version latest", "number", Claim.DEPRECATED_BOUNDS),
        ("hyparquet-writer 0.1", "number", Claim.PAGE_INDEX),
        ("hyparquet", "text", Claim.NULL_COUNT),
        ("parquet-cpp-arrow version 26.0.1", "text", Claim.NULL_COUNT),
        ("parquet-cpp-arrow version 26.0.1", "number", Claim.PAGE_HEADERS),
        ("parquet-cpp-arrow version 26.0.1", "text", Claim.EXACT_BOUNDS),  # no dictionary page
        ("parquet-cpp-arrow version 10.0.1", "text", Claim.BOUNDS),  # no dictionary page
        ("parquet-cpp-arrow version 4.0.0", "varying", Claim.BOUNDS),
        ("parquet-cpp-arrow version 3.0.0", "real", Claim.BOUNDS),
        ("DuckDB version v2.0.0 (build d54cbbe3df)", "s.text", Claim.EXACT_BOUNDS),
        ("DuckDB version v2.0.0 (build d54cbbe3df)", "s.blob", Claim.BOUNDS),
        ("fastparquet-python version 2026.9.0 (build 0)", "number", Claim.DEPRECATED_BOUNDS),
        ("fastparquet-python version 2026.9.0 (build 0)", "local", Claim.DEPRECATED_BOUNDS),
        ("DuckDB version v1.1.3 (build 19864453f7)", "number", Claim.NULL_COUNT),
        ("DuckDB version v1.5.2 (build 8a5851971f)", "text", Claim.EXACT_BOUNDS),  # no dictionary page
        ("Polars (python) version 2.0.0 (build 22a147de3d)", "text", Claim.LOWER_BOUND),
        ("Polars (python) version 2.0.0 (build 22a147de3d)", "text", Claim.UPPER_BOUND),
        ("Polars (python) version 2.0.0 (build 22a147de3d)", "text", Claim.EXACT_BOUNDS),
        ("Polars (python) version 2.0.0 (build 22a147de3d)", "varying", Claim.BOUNDS),
        ("Polars (python) version 2.1.0 (build 7f902bd3ff)", "unsigned", Claim.BOUNDS),
        ("Polars", "number", Claim.NULL_COUNT),  # no dictionary page
        ("Polars", "number", Claim.BOUNDS),
        ("Polars (python) version 1.44.0 (build 22a147de3d)", "text", Claim.BOUNDS),
        ("Polars", "real", Claim.PAGE_INDEX),
        ("Polars (python) version 2.1.0 (build 7f902bd3ff)", "real", Claim.BOUNDS),
        ("Polars (python) version 2.1.0 (build 7f902bd3ff)", "number", Claim.NULL_COUNT),
        ("Polars (python) version 1.44.0 (build 22a147de3d)", "unsigned", Claim.PAGE_BOUNDS),
        ("Arrow2 - Native Rust implementation of Arrow", "number", Claim.BOUNDS),
        ("QuestDB version 9.0", "text", Claim.BOUNDS),
        ("QuestDB version 9.0", "text", Claim.PAGE_BOUNDS),
        ("QuestDB version 9.0", "number", Claim.NULL_COUNT),
        ("rugo version 0.5.6", "text", Claim.PAGE_BOUNDS),
        ("rugo version 0.5.6", "s.blob", Claim.BOUNDS),
        ("KUZU", "number", Claim.BOUNDS),
        ("ClickHouse v25.5.2.1-stable", "number", Claim.PAGE_INDEX),
        ("ClickHouse v25.5.2.1-stable", "number", Claim.PAGE_BOUNDS),
        ("ClickHouse v25.5.2.1-stable", "text", Claim.BOUNDS),
        ("ClickHouse version 26.9.2 (build bb16200a28)", "many", Claim.PAGE_INDEX),
        ("ClickHouse version 26.9.2 (build bb16200a28)", "text", Claim.PAGE_BOUNDS),
        ("ClickHouse version 26.9.2 (build bb16200a28)", "document", Claim.BOUNDS),
        ("parquet-rs version 59.3.0", "text", Claim.BOUNDS),
        ("parquet-rs version 60.0.0", "varying", Claim.BOUNDS),
        ("", "text", Claim.BLOOM_FILTER),
        ("", "number", Claim.DEPRECATED_BOUNDS),
        ("another", "real", Claim.DEPRECATED_BOUNDS),
    ],
)
def test_claims_that_are_trusted(created_by, leaf, claim):
    assert trust(created_by, leaf).doubt(claim, chunk(leaf)) is None


def test_bounds_of_text_by_polars():
    """Files of version 1 have right ones, and no version of Polars, either."""
    metadata = trust("Polars", "text").footer.metadata._replace(version=1)
    assert Trust(Footer(metadata, b"", 0, 0), LEAVES["text"]).doubt(Claim.BOUNDS) is None


def test_a_dictionary_without_an_offset():
    meta = chunk()._replace(encodings=[Encoding.PLAIN, Encoding.RLE_DICTIONARY])
    assert trust("Polars", "number").doubt(Claim.NULL_COUNT, meta) is not None


def test_every_rule_has_evidence():
    for rule in RULES:
        assert rule.claims
        assert rule.writer == rule.writer.lower()
        assert len(rule.reason) > 20


def test_arrow_schema_shows_which_columns_were_dictionaries():
    pyarrow = "parquet-cpp-arrow version 26.0.1"
    with_nulls, without = chunk("text", dictionary=4, null_count=1), chunk("text", dictionary=4, null_count=0)
    kinds = {"plain": pa.string(), "dictionary": pa.dictionary(pa.int32(), pa.string())}
    for kind, is_doubted in (("plain", False), ("dictionary", True)):
        found = trust(pyarrow, "text", arrow_schema=True, arrow_type=kinds[kind])
        assert (found.doubt(Claim.EXACT_BOUNDS, with_nulls) is not None) == is_doubted
        assert found.doubt(Claim.EXACT_BOUNDS, without) is None
    assert trust(pyarrow, "text", arrow_type=pa.string()).doubt(Claim.EXACT_BOUNDS, with_nulls)


def test_batches_of_dictionaries():
    """Arrow C++ before 11.0 computed their statistics from the first one; it wrote text correctly."""
    for version, is_doubted in (("10.0.1", True), ("11.0.0", False)):
        for kind in (pa.string(), pa.dictionary(pa.int32(), pa.string())):
            arrow = f"parquet-cpp-arrow version {version}"
            found = trust(arrow, "text", arrow_schema=True, arrow_type=kind)
            for claim in (Claim.BOUNDS, Claim.NULL_COUNT):
                doubt = found.doubt(claim, chunk("text", dictionary=4, null_count=0))
                assert (doubt is not None) == (is_doubted and pa.types.is_dictionary(kind))


def test_floats_of_files_with_an_arrow_schema():
    found = trust("parquet-cpp version 1.5.1-SNAPSHOT", "real", arrow_schema=True)
    assert found.doubt(Claim.BOUNDS) is None


def test_velox_is_not_an_old_arrow():
    found = trust("parquet-cpp-velox version 0.0.0", "text")
    assert found.doubt(Claim.BOUNDS, chunk("text", dictionary=4)) is None


def test_bounds():
    current, deprecated = {"min_value": b"a", "max_value": b"b"}, {"min": b"c", "max": b"d"}
    number = trust("", "number")
    assert number.bounds(chunk(**current, **deprecated)) == TrustedValue((b"a", b"b"))
    assert number.bounds(chunk(**deprecated)) == TrustedValue((b"c", b"d"))
    assert number.bounds(chunk(min_value=b"a", **deprecated)) == TrustedValue((b"c", b"d"))
    assert number.bounds(chunk(min=b"a")).value is None
    assert number.bounds(chunk()).value is None
    assert number.bounds(chunk()).reason != number.bounds(chunk(min=b"a")).reason
    unordered = trust("", "number", orders=False)
    assert unordered.bounds(chunk(**current, **deprecated)).value is None
    assert unordered.bounds(chunk(**deprecated)).value == (b"c", b"d")
    for name in ("number", "text", "unsigned"):
        of_trino = trust("parquet-mr-trino version 483 (build n/a)", name, orders=False)
        assert of_trino.bounds(chunk(name, **current)) == TrustedValue((b"a", b"b"))
        assert (
            trust("parquet-mr version 1.13.1", name, orders=False).bounds(chunk(name, **current)).value
            is None
        )
    text = trust("Polars (python) version 1.44.0 (build 22a147de3d)", "text")
    assert text.bounds(chunk("text", **current)) == TrustedValue((b"", b"c"))  # above "b" and "b..."
    for high in (b"", b"\xff\xff"):
        bounds = text.bounds(chunk("text", min_value=b"", max_value=high))
        assert bounds.value is None
        assert "begins with the other" in bounds.reason


def test_null_counts():
    bounds = {"min_value": b"a", "max_value": b"b"}
    number = trust("", "number")
    assert number.null_count(chunk(null_count=3), 10) == TrustedValue(3)
    assert number.null_count(chunk(null_count=0, **bounds), 10) == TrustedValue(0)
    for found in (
        number.null_count(chunk(null_count=0), 10),
        number.null_count(chunk(), 10),
        number.null_count(chunk(null_count=11), 10),
        number.null_count(chunk(null_count=-1), 10),
        trust("parquet-cpp-arrow version 26.0.1", "s.text").null_count(chunk("text", null_count=3), 10),
    ):
        assert found.value is None
        assert found.reason
    assert trust("", "unsigned").null_count(chunk("unsigned", null_count=3), 10) == TrustedValue(0)


@pytest.mark.parametrize(
    ("copied", "leaf", "is_trusted"),
    [
        ("parquet-cpp-arrow version 26.0.1", "text", True),
        ("parquet-cpp-arrow version 26.0.1\nPolars version 0.20.10", "text", False),  # its file had version 2
        ("parquet-mr version 1.7.0 (build 1)", "text", False),
        ("parquet-mr version 1.7.0 (build 1)", "number", True),
        ("parquet-go version 17.0.0", "unsigned", False),
        ("@dsnp/parquetjs", "document", False),
        ("@dsnp/parquetjs", "text", True),
        ("https://github.com/gaborcsardi/nanoparquet", "number", False),
    ],
)
def test_bounds_that_the_rewriter_of_parquet_mr_has_copied(copied, leaf, is_trusted):
    metadata = FileMetaData(
        1,
        SCHEMA,
        0,
        [],
        [KeyValue(b"original.created.by", copied.encode())],
        created_by=b"parquet-mr version 1.18.1 (build 7c22cdb)",
        column_orders=[ColumnOrder(TYPE_ORDER=Empty())] * len(LEAVES),
    )
    found = Trust(Footer(metadata, b"", 0, 0), LEAVES[leaf])
    assert (found.doubt(Claim.BOUNDS, chunk(leaf)) is None) == is_trusted
