"""The errors of writers: which metadata of a file is not trusted, given the writer that its footer names.

`RULES` lists them, each with the evidence in its reason. Ignoring correct metadata makes scans slower, and
trusting wrong metadata loses rows.
"""

from __future__ import annotations

import re
from collections.abc import Callable
from enum import Enum
from functools import lru_cache
from typing import NamedTuple

import pyarrow as pa

from intarsia.format.enums import DICTIONARY_ENCODINGS, Type
from intarsia.format.footer import Footer, Leaf
from intarsia.format.structs import ColumnMetaData
from intarsia.records import dataclass

BYTES = (Type.BYTE_ARRAY, Type.FIXED_LEN_BYTE_ARRAY)


class Claim(str, Enum):  # a text's hash, unlike an enum's, is computed in C
    """A claim of metadata about data."""

    BOUNDS = "min_value and max_value enclose the values"
    LOWER_BOUND = "min_value is a lower bound, if the bounds are trusted"
    UPPER_BOUND = "max_value is an upper bound, if the bounds are trusted"
    DEPRECATED_BOUNDS = "min and max enclose the values"
    EXACT_BOUNDS = "bounds that are not marked as truncated are values"
    NULL_COUNT = "null counts of chunks are correct"
    PAGE_NULL_COUNT = "null counts of pages are correct"
    PAGE_INDEX = "the locations, rows and bounds of pages in the page index are correct"
    PAGE_BOUNDS = "the bounds of pages in the page index are correct"
    PAGE_HEADERS = "the writer's page index has the same statistics as its page headers"
    BLOOM_FILTER = "values that the filter excludes are absent"
    PAGE_CHECKSUM = "checksums in page headers are those of the pages"


#: The claims of chunk statistics in their current form.
STATISTICS_CLAIMS = (
    Claim.BOUNDS,
    Claim.LOWER_BOUND,
    Claim.UPPER_BOUND,
    Claim.EXACT_BOUNDS,
    Claim.NULL_COUNT,
)


class WrittenColumn(NamedTuple):
    """A column, or a chunk of it, as its writer describes it.

    Attributes:
        writer: The writer as the footer names it; that of the original, if another one has copied the column.
        meta: The metadata of a chunk; None for all chunks. A rule that applies to one chunk applies to all.
        arrow_type: The column's Arrow type; None if it is unknown.
    """

    footer: Footer
    writer: str
    leaf: Leaf
    meta: ColumnMetaData | None
    arrow_type: pa.DataType | None


@dataclass(frozen=True)
class Rule:
    """A known error of a writer.

    Attributes:
        writer: A part of the writer's name, in lower case; empty for files without a name.
        claims: The claims that are not trusted.
        applies: A function that returns whether a column, or a chunk of it, is affected.
        reason: The error, and the version in which it was observed.
        before: The first version without the error; None if there is none yet.
    """

    writer: str
    claims: tuple[Claim, ...]
    applies: Callable[[WrittenColumn], bool]
    reason: str
    before: tuple[int, ...] | None = None


def _is_any(column: WrittenColumn) -> bool:  # noqa: ARG001
    return True


def _is_binary(column: WrittenColumn) -> bool:
    return column.leaf.type in BYTES


def _is_byte_array(column: WrittenColumn) -> bool:
    return column.leaf.type == Type.BYTE_ARRAY


def _is_json(column: WrittenColumn) -> bool:
    return column.leaf.logical_name == "JSON"


def _is_byte_array_of_version_2(column: WrittenColumn) -> bool:
    is_copied = column.writer != column.footer.created_by  # from a file of unknown version
    return _is_byte_array(column) and (is_copied or column.footer.metadata.version == 2)


def _is_byte_array_in_struct(column: WrittenColumn) -> bool:
    return _is_byte_array(column) and len(column.leaf.path) > 1


def _is_blob(column: WrittenColumn) -> bool:
    return _is_byte_array(column) and column.leaf.logical is None


def _is_blob_in_struct(column: WrittenColumn) -> bool:
    return _is_blob(column) and len(column.leaf.path) > 1


def _is_decimal_of_varying_length(column: WrittenColumn) -> bool:
    return _is_byte_array(column) and column.leaf.logical_name == "DECIMAL"


def _is_binary_decimal(column: WrittenColumn) -> bool:
    return _is_binary(column) and column.leaf.logical_name == "DECIMAL"


def _is_json_or_uuid(column: WrittenColumn) -> bool:
    return column.leaf.logical_name in ("JSON", "UUID")


def _is_in_list(column: WrittenColumn) -> bool:
    return not column.leaf.is_flat


def _is_uint32(column: WrittenColumn) -> bool:
    return _is_large_unsigned(column) and column.leaf.type == Type.INT32


def _is_large_unsigned(column: WrittenColumn) -> bool:
    integer = column.leaf.logical.INTEGER if column.leaf.logical else None
    return integer is not None and integer.bitWidth >= 32 and not integer.isSigned


def _is_unsigned_by_named_parquet_go(column: WrittenColumn) -> bool:
    integer = column.leaf.logical.INTEGER if column.leaf.logical else None
    return integer is not None and not integer.isSigned and _is_named_parquet_go(column)


def _is_float(column: WrittenColumn) -> bool:
    return column.leaf.type in (Type.FLOAT, Type.DOUBLE) or column.leaf.logical_name == "FLOAT16"


def _is_float_without_arrow_schema(column: WrittenColumn) -> bool:
    return _is_float(column) and b"ARROW:schema" not in column.footer.key_values


def _is_named_parquet_go(column: WrittenColumn) -> bool:
    """Return whether the name of the writer is not the path of a module."""
    return parse_writer(column.writer)[0] == "parquet-go"


def _has_dictionary(column: WrittenColumn) -> bool:
    meta = column.meta
    if meta is None or meta.dictionary_page_offset is not None:
        return True
    return not DICTIONARY_ENCODINGS.isdisjoint(meta.encodings)  # some writers do not write the offset


def _has_dictionary_by_named_parquet_go(column: WrittenColumn) -> bool:
    return _has_dictionary(column) and _is_named_parquet_go(column)


def _has_text_dictionary(column: WrittenColumn) -> bool:
    return _is_byte_array(column) and column.leaf.logical is not None and _has_dictionary(column)


def _may_contain_nat(column: WrittenColumn) -> bool:
    return column.leaf.max_definition_level == 0 and column.leaf.logical_name in ("TIMESTAMP", "TIME")


def _is_utc_timestamp(column: WrittenColumn) -> bool:
    timestamp = column.leaf.logical.TIMESTAMP if column.leaf.logical else None
    return timestamp is not None and timestamp.isAdjustedToUTC


def _may_be_arrow_dictionary(column: WrittenColumn) -> bool:
    """Return whether a column may have been a dictionary, which the Arrow schema, if present, records."""
    if not _is_byte_array(column) or not _has_dictionary(column):
        return False
    is_recorded = column.arrow_type is not None and b"ARROW:schema" in column.footer.key_values
    return not is_recorded or pa.types.is_dictionary(column.arrow_type)


def _may_be_arrow_dictionary_with_nulls(column: WrittenColumn) -> bool:
    statistics = column.meta.statistics if column.meta is not None else None
    return _may_be_arrow_dictionary(column) and (statistics is None or statistics.null_count != 0)


RULES = (
    Rule(
        "parquet-mr",
        (Claim.BOUNDS,),
        _is_binary,
        "parquet-mr before 1.8.0 wrote wrong bounds of binary columns (PARQUET-251)",
        before=(1, 8, 0),
    ),
    Rule(
        "parquet-mr",
        (Claim.BOUNDS, Claim.DEPRECATED_BOUNDS),
        _is_float,
        "parquet-mr before 1.10.0 leaves pages that begin with NaN out of bounds (observed in 1.6.0 to "
        "1.9.0)",
        before=(1, 10, 0),
    ),
    Rule(
        "parquet-go",
        (Claim.BOUNDS,),
        _is_binary,
        "{name} truncates the upper bounds of binary columns without incrementing them",
    ),
    Rule(
        "parquet-go",
        (Claim.PAGE_INDEX,),
        _is_any,
        "{name} wrote page sizes without headers, counted values as rows, or truncated upper bounds",
    ),
    Rule(
        "parquet-go",
        (Claim.BOUNDS, Claim.DEPRECATED_BOUNDS),
        _is_float,
        "{name}, except that of Arrow, which writes its version, leaves numbers beside NaN out of bounds "
        "(observed in github.com/parquet-go 0.23 to 0.32, segmentio and xitongsys 1.6.2)",
        before=(1,),
    ),
    Rule(
        "",
        (Claim.BOUNDS, Claim.DEPRECATED_BOUNDS),
        _is_float,
        "github.com/xitongsys/parquet-go before 1.5.2, which does not write its name, leaves numbers beside "
        "NaN out of bounds (observed in 1.5.1)",
    ),
    Rule(
        "parquet-go",
        (Claim.NULL_COUNT,),
        _is_named_parquet_go,
        "{name}, except that of Arrow, which writes its version, does not count a null at the start of a "
        "page, or counts it for each row (observed in github.com/xitongsys 1.6.2)",
        before=(1,),
    ),
    Rule(
        "parquet-go",
        (Claim.BOUNDS,),
        _is_unsigned_by_named_parquet_go,
        "that of Arrow before 18.1 compares unsigned numbers beside nulls as signed (observed in 12.0.1 to "
        "17.0; 18.1 and 18.2 name themselves 18.0.0)",
        before=(18, 0, 1),
    ),
    Rule(
        "parquet-go",
        (Claim.BLOOM_FILTER,),
        _has_dictionary_by_named_parquet_go,
        "that of Arrow before 18.8 adds no value of an Arrow dictionary (observed in 18.4.1 to 18.7)",
        before=(18, 8),
    ),
    Rule(
        "hyparquet",
        (Claim.PAGE_INDEX,),
        _is_in_list,
        "{name} wrote pages that start within a row",
    ),
    Rule(
        "hyparquet",
        (Claim.NULL_COUNT, Claim.PAGE_NULL_COUNT),
        _is_json,
        "{name} wrote nulls of JSON columns as the text null, and counted them (observed in hyparquet-writer "
        "0.3 to 0.9)",
    ),
    Rule(
        "parquetjs",
        (Claim.BOUNDS, Claim.PAGE_BOUNDS),
        _is_json,
        "{name} compares JSON as objects of JavaScript; it declares no column orders, but the rewriter of "
        "parquet-mr adds them (observed in @dsnp/parquetjs 1.8.8)",
    ),
    Rule(
        "nanoparquet",
        (Claim.BOUNDS,),
        _is_any,
        "{name} computes bounds of numbers from some pages only; it "
        "declares no column orders, but the rewriter of parquet-mr adds them (observed in 0.5.1.9000)",
    ),
    Rule(
        "parquet-cpp-arrow",
        (Claim.NULL_COUNT, Claim.PAGE_NULL_COUNT, Claim.EXACT_BOUNDS),
        _is_byte_array_in_struct,
        "{name} counts dictionary entries below a null struct as values (observed in 26.0)",
    ),
    Rule(
        "parquet-cpp-arrow",
        (Claim.EXACT_BOUNDS,),
        _may_be_arrow_dictionary_with_nulls,
        "{name} includes the dictionary entry in the position of a null in bounds (observed in 26.0)",
    ),
    Rule(
        "parquet-cpp",
        (Claim.BOUNDS, Claim.NULL_COUNT, Claim.EXACT_BOUNDS),
        _may_be_arrow_dictionary,
        "{name} before 11.0 computes bounds of a dictionary from its first batch (GH-15042, observed in 6.0 "
        "to 10.0) or from unused entries, and null counts as 0 (ARROW-12513, observed in 2.0 to 5.0)",
        before=(11,),
    ),
    Rule(
        "parquet-cpp",
        (Claim.BOUNDS,),
        _is_binary_decimal,
        "{name} before 4.0 compares decimals as unsigned bytes (PARQUET-1655, observed in pyarrow 2.0 and "
        "3.0)",
        before=(4,),
    ),
    Rule(
        "parquet-cpp",
        (Claim.BOUNDS, Claim.DEPRECATED_BOUNDS),
        _is_float_without_arrow_schema,
        "{name} leaves numbers beside NaN out of bounds (observed in pyarrow 0.7 to 0.13; files by 0.15 and "
        "above have an Arrow schema)",
        before=(2,),
    ),
    Rule(
        "fastparquet",
        (Claim.BOUNDS, Claim.DEPRECATED_BOUNDS),
        _has_dictionary,
        "{name} uses the first and the last category as bounds of a categorical column, and only these have "
        "dictionaries (observed in 2026.9.0)",
    ),
    Rule(
        "fastparquet",
        (Claim.BOUNDS, Claim.DEPRECATED_BOUNDS),
        _may_contain_nat,
        "{name} stores NaT as a number in columns without nulls, and omits it from bounds "
        "(observed in 2026.9.0)",
    ),
    Rule(
        "fastparquet",
        (Claim.BOUNDS, Claim.DEPRECATED_BOUNDS),
        _is_utc_timestamp,
        "{name} writes wrong bounds of UTC timestamps outside the years 1 to 9999 (observed in 2026.9.0)",
    ),
    Rule(
        "duckdb",
        (Claim.EXACT_BOUNDS,),
        _is_blob_in_struct,
        "{name} treats bytes of fixed-size binary below a null struct as values (observed in 2.0.0)",
    ),
    Rule(
        "duckdb",
        (Claim.EXACT_BOUNDS,),
        _has_text_dictionary,
        "{name} before 1.5.3 includes all values of an ENUM in bounds, and only these and repeated texts "
        "have dictionaries (observed in 1.5.0 to 1.5.2)",
        before=(1, 5, 3),
    ),
    Rule(
        "duckdb",
        (Claim.NULL_COUNT,),
        _is_any,
        "{name} before 0.10 adds the nulls of all row groups before, and before 1.1 it does not write its "
        "version (observed in 0.7.1 and 0.9.2)",
        before=(1, 1),
    ),
    Rule(
        "polars",
        (Claim.NULL_COUNT, Claim.PAGE_NULL_COUNT),
        _has_dictionary,
        "{name} before 2.0 multiplies null counts of columns with a dictionary by the number of pages "
        "(observed in 1.38 to 1.44), or writes 0 (observed in 0.20.10)",
        before=(2,),
    ),
    Rule(
        "polars",
        (Claim.BOUNDS, Claim.PAGE_BOUNDS),
        _is_float,
        "{name} before 2.1 writes bounds that exclude numbers beside NaN, and null pages that have values "
        "(observed in 0.20 to 2.0)",
        before=(2, 1),
    ),
    Rule(
        "polars",
        (Claim.BOUNDS, Claim.PAGE_BOUNDS),
        _is_byte_array_of_version_2,
        "{name} before 1.0 writes wrong bounds of text beside pages of nulls, in files of version 2 "
        "(observed in 0.20.10)",
        before=(1,),
    ),
    Rule(
        "polars",
        (Claim.LOWER_BOUND, Claim.UPPER_BOUND, Claim.EXACT_BOUNDS),
        _is_byte_array,
        "{name} before 2.0 treats bounds of pages as equal if one begins with the other, or is empty "
        "(observed in 0.19.19 to 1.36)",
        before=(2,),
    ),
    Rule(
        "polars",
        (Claim.BOUNDS,),
        _is_binary_decimal,
        "{name} before 2.0 compares the bounds of pages of decimals as unsigned bytes (observed in 1.20 to "
        "1.38)",
        before=(2,),
    ),
    Rule(
        "polars",
        (Claim.BOUNDS,),
        _is_uint32,
        "{name} before 2.1 merges the bounds of pages of unsigned numbers wrongly (observed in 1.20 to 2.0)",
        before=(2, 1),
    ),
    Rule(
        "polars",
        (Claim.BOUNDS, Claim.PAGE_BOUNDS),
        _is_large_unsigned,
        "{name} before 1.0 compares unsigned numbers as signed (observed in 0.19.19 to 0.20.31)",
        before=(1,),
    ),
    Rule(
        "arrow2",
        (Claim.NULL_COUNT,),
        _has_dictionary,
        "{name} writes 0 as the null count of columns with a dictionary (observed in Polars 0.14 and 0.15)",
    ),
    Rule(
        "questdb",
        (Claim.NULL_COUNT, Claim.PAGE_NULL_COUNT),
        _is_byte_array,
        "{name} does not count nulls of symbols in rows that are older than the column (observed in 8.2 to "
        "9.3.0; 9.3.4 does, but it writes the same version)",
    ),
    Rule(
        "rugo",
        (Claim.PAGE_BOUNDS,),
        _is_blob,
        "{name} writes an empty upper bound of pages whose maximum begins with 16 bytes of 255 (observed in "
        "0.4.43 to 0.5.6, and opteryx-core 0.9.175)",
    ),
    Rule(
        "kuzu",
        (Claim.NULL_COUNT,),
        _is_any,
        "{name} adds the nulls of all row groups before (observed in 0.0.12 and 0.11.3)",
    ),
    Rule(
        "lbug",
        (Claim.NULL_COUNT,),
        _is_any,
        "{name} adds the nulls of all row groups before (observed in Ladybug 0.12 to 0.17; 0.20 does not, "
        "but it does not write its version)",
    ),
    Rule(
        "clickhouse",
        (Claim.PAGE_INDEX,),
        _is_in_list,
        "{name} before 25.8 counts values as rows (observed in 25.5)",
        before=(25, 8),
    ),
    Rule(
        "clickhouse",
        (Claim.PAGE_BOUNDS,),
        _is_byte_array,
        "{name} before 26.5 writes empty bounds of pages with values above 4 KiB (observed in 25.5 and 25.8)",
        before=(26, 5),
    ),
    Rule(
        "clickhouse",
        (Claim.BOUNDS, Claim.PAGE_BOUNDS),
        _is_json_or_uuid,
        "{name} before 26.5 overwrites bounds with later values (observed with JSON in 25.8)",
        before=(26, 5),
    ),
    Rule(
        "parquet-rs",
        (Claim.BOUNDS, Claim.PAGE_BOUNDS),
        _is_decimal_of_varying_length,
        "{name} before 60 misjudges negative decimals of different lengths (observed in 50.0 and 59.3)",
        before=(60,),
    ),
    Rule(
        "parquet.jl",
        (Claim.PAGE_CHECKSUM,),
        _is_any,
        "{name} writes 0 as the checksum of every page (observed in 0.6.0; 0.8.6 does the same)",
    ),
)


#: Writers that name another one, but have neither its errors nor its versions. The last one writes a URL.
_NAMESAKES = (
    ("parquet-mr compatible photon", "photon"),
    ("parquet-cpp-velox", "velox"),
    ("https://github.com/gaborcsardi/nanoparquet", "nanoparquet"),
)

#: Writers that declare no column orders, but compute bounds in the order of the type (observed in Trino 411
#: and 483).
_UNDECLARED_ORDERS = frozenset(("parquet-mr-trino",))

_VERSION = re.compile(r"^(?P<name>[\w./\-]+)(?: \(\w+\))?(?: version v?(?P<version>\d+(?:\.\d+)*))?")


def parse_writer(created_by: str) -> tuple[str, tuple[int, ...]]:
    """Return the name and the version of a writer; the version may be empty.

    Example:
        >>> parse_writer("parquet-mr version 1.9.0 (build 38262e2)")
        ('parquet-mr', (1, 9, 0))
        >>> parse_writer("github.com/segmentio/parquet-go(build )")
        ('github.com/segmentio/parquet-go', ())
        >>> parse_writer("DuckDB version v1.4.4 (build 6ddac802ff)")
        ('duckdb', (1, 4, 4))
        >>> parse_writer("parquet-mr compatible Photon version 0.2 (build 16.4)")
        ('photon', (0, 2))
    """
    text = created_by.strip().lower()
    for namesake, name in _NAMESAKES:
        if text.startswith(namesake):
            text = name + text[len(namesake) :]
    if text.startswith("github.com/"):
        return re.split(r"[\s(]", text, maxsplit=1)[0], ()
    match = _VERSION.match(text)
    if match is None:
        return text, ()
    version = match["version"]
    return match["name"], tuple(int(part) for part in version.split(".")) if version else ()


@lru_cache(maxsize=64)
def rules_of(created_by: str) -> tuple[Rule, ...]:
    """Return the rules for a writer; most writers have none."""
    name, version = parse_writer(created_by)
    named = [rule for rule in RULES if (rule.writer in name if rule.writer else not name)]
    return tuple(rule for rule in named if rule.before is None or version < rule.before)


@lru_cache(maxsize=64)
def trusts_checksums(created_by: str) -> bool:
    """Return whether the checksums of pages that a writer has written are trusted."""
    return not any(Claim.PAGE_CHECKSUM in rule.claims for rule in rules_of(created_by))


@lru_cache(maxsize=64)
def has_type_order(created_by: str) -> bool:
    """Return whether bounds of a writer that declares no column orders are in the order of the type."""
    return parse_writer(created_by)[0] in _UNDECLARED_ORDERS
