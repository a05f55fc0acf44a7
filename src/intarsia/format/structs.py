"""The structs of ``parquet.thrift`` that Intarsia reads, with Parquet's own names.

Each class is a named tuple with the Thrift field ids and types in its annotations.  `declared` converts these
to the table that Apache Thrift's codec requires.  Fields that Intarsia does not read are omitted.  The codec
skips them, and `intarsia.format.thrift.parse_tree` keeps them for rewriting.
"""

# No `from __future__ import annotations` here: the annotations are read at import.
from collections.abc import Sequence
from enum import IntEnum
from typing import Annotated, Any, NamedTuple, TypeVar

from thrift.Thrift import TType

T = TypeVar("T")


class Type(IntEnum):
    """Physical types."""

    BOOLEAN = 0
    INT32 = 1
    INT64 = 2
    INT96 = 3
    FLOAT = 4
    DOUBLE = 5
    BYTE_ARRAY = 6
    FIXED_LEN_BYTE_ARRAY = 7


class ConvertedType(IntEnum):
    """Logical types as writers declared them before `LogicalType`."""

    UTF8 = 0
    MAP = 1
    MAP_KEY_VALUE = 2
    LIST = 3
    ENUM = 4
    DECIMAL = 5
    DATE = 6
    TIME_MILLIS = 7
    TIME_MICROS = 8
    TIMESTAMP_MILLIS = 9
    TIMESTAMP_MICROS = 10
    UINT_8 = 11
    UINT_16 = 12
    UINT_32 = 13
    UINT_64 = 14
    INT_8 = 15
    INT_16 = 16
    INT_32 = 17
    INT_64 = 18
    JSON = 19
    BSON = 20
    INTERVAL = 21


class FieldRepetitionType(IntEnum):
    """How often a field occurs in its parent."""

    REQUIRED = 0
    OPTIONAL = 1
    REPEATED = 2


class Encoding(IntEnum):
    """Encodings of pages."""

    PLAIN = 0
    PLAIN_DICTIONARY = 2
    RLE = 3
    BIT_PACKED = 4
    DELTA_BINARY_PACKED = 5
    DELTA_LENGTH_BYTE_ARRAY = 6
    DELTA_BYTE_ARRAY = 7
    RLE_DICTIONARY = 8
    BYTE_STREAM_SPLIT = 9
    ALP = 10


#: Encodings of data pages whose values are positions in the chunk's dictionary page.
DICTIONARY_ENCODINGS = frozenset((Encoding.PLAIN_DICTIONARY, Encoding.RLE_DICTIONARY))


class CompressionCodec(IntEnum):
    """Compression of pages."""

    UNCOMPRESSED = 0
    SNAPPY = 1
    GZIP = 2
    LZO = 3
    BROTLI = 4
    LZ4 = 5
    ZSTD = 6
    LZ4_RAW = 7


class PageType(IntEnum):
    """Kinds of pages."""

    DATA_PAGE = 0
    INDEX_PAGE = 1
    DICTIONARY_PAGE = 2
    DATA_PAGE_V2 = 3


class BoundaryOrder(IntEnum):
    """Whether both bounds of a column index are monotone over its non-null pages."""

    UNORDERED = 0
    ASCENDING = 1
    DESCENDING = 2


class _Field(NamedTuple):
    field_id: int
    ttype: int
    args: Any = None


def _simple(ttype: int) -> Any:
    return lambda field_id: _Field(field_id, ttype)


_bool, _i8, _i16, _i32, _i64, _double = (
    _simple(t) for t in (TType.BOOL, TType.BYTE, TType.I16, TType.I32, TType.I64, TType.DOUBLE)
)


def _binary(field_id: int) -> _Field:
    return _Field(field_id, TType.STRING, "BINARY")


def _string(field_id: int) -> _Field:
    return _Field(field_id, TType.STRING, "UTF8")


def _struct(field_id: int, cls: Any) -> _Field:
    return _Field(field_id, TType.STRUCT, [cls, cls.thrift_spec])


def _list(field_id: int, element: Any) -> _Field:
    if isinstance(element, type):
        return _Field(field_id, TType.LIST, (TType.STRUCT, [element, element.thrift_spec], False))  # type: ignore[attr-defined]
    sample = element(0)
    return _Field(field_id, TType.LIST, (sample.ttype, sample.args, False))


def _refuse_assignment(self: object, name: str, _: object) -> None:
    raise AttributeError(f"{type(self).__name__} is frozen; use _replace({name}=...)")


def declared(cls: type[T]) -> type[T]:
    """Add the ``thrift_spec`` that the annotations of a named tuple describe."""
    fields = {}
    for name, annotation in cls.__annotations__.items():
        field_id, ttype, args = annotation.__metadata__[0]
        fields[field_id] = (field_id, ttype, name, args, None)
    cls.thrift_spec = tuple(fields.get(i) for i in range(max(fields, default=-1) + 1))  # type: ignore[attr-defined]
    # the codec creates instances with keyword arguments if they refuse assignment
    cls.__setattr__ = _refuse_assignment  # type: ignore[method-assign]
    return cls


@declared
class Empty(NamedTuple):
    """A struct without fields; only its presence matters."""


# --- schema ----------------------------------------------------------------------------------------


@declared
class DecimalType(NamedTuple):
    """DECIMAL."""

    scale: Annotated[int, _i32(1)]
    precision: Annotated[int, _i32(2)]


@declared
class TimeUnit(NamedTuple):
    """Union: the field that is present is the unit."""

    MILLIS: Annotated[Empty | None, _struct(1, Empty)] = None
    MICROS: Annotated[Empty | None, _struct(2, Empty)] = None
    NANOS: Annotated[Empty | None, _struct(3, Empty)] = None


@declared
class TimestampType(NamedTuple):
    """TIMESTAMP, and TIME, which has the same fields."""

    isAdjustedToUTC: Annotated[bool, _bool(1)]
    unit: Annotated[TimeUnit, _struct(2, TimeUnit)]


@declared
class IntType(NamedTuple):
    """INTEGER."""

    bitWidth: Annotated[int, _i8(1)]
    isSigned: Annotated[bool, _bool(2)]


@declared
class VariantType(NamedTuple):
    """VARIANT."""

    specification_version: Annotated[int | None, _i8(1)] = None


@declared
class GeometryType(NamedTuple):
    """GEOMETRY, and GEOGRAPHY, which has one more field."""

    crs: Annotated[str | None, _string(1)] = None
    algorithm: Annotated[int | None, _i32(2)] = None


@declared
class LogicalType(NamedTuple):
    """Union: the field that is present is the type; without fields, the type is unknown to this version."""

    STRING: Annotated[Empty | None, _struct(1, Empty)] = None
    MAP: Annotated[Empty | None, _struct(2, Empty)] = None
    LIST: Annotated[Empty | None, _struct(3, Empty)] = None
    ENUM: Annotated[Empty | None, _struct(4, Empty)] = None
    DECIMAL: Annotated[DecimalType | None, _struct(5, DecimalType)] = None
    DATE: Annotated[Empty | None, _struct(6, Empty)] = None
    TIME: Annotated[TimestampType | None, _struct(7, TimestampType)] = None
    TIMESTAMP: Annotated[TimestampType | None, _struct(8, TimestampType)] = None
    INTEGER: Annotated[IntType | None, _struct(10, IntType)] = None
    UNKNOWN: Annotated[Empty | None, _struct(11, Empty)] = None
    JSON: Annotated[Empty | None, _struct(12, Empty)] = None
    BSON: Annotated[Empty | None, _struct(13, Empty)] = None
    UUID: Annotated[Empty | None, _struct(14, Empty)] = None
    FLOAT16: Annotated[Empty | None, _struct(15, Empty)] = None
    VARIANT: Annotated[VariantType | None, _struct(16, VariantType)] = None
    GEOMETRY: Annotated[GeometryType | None, _struct(17, GeometryType)] = None
    GEOGRAPHY: Annotated[GeometryType | None, _struct(18, GeometryType)] = None

    @property
    def name(self) -> str | None:
        """The name of the type that is present."""
        return next((name for name, value in zip(self._fields, self, strict=True) if value is not None), None)


@declared
class SchemaElement(NamedTuple):
    """One node of the schema, a tree that is flattened depth first."""

    name: Annotated[str, _string(4)]
    type: Annotated[int | None, _i32(1)] = None
    type_length: Annotated[int | None, _i32(2)] = None
    repetition_type: Annotated[int | None, _i32(3)] = None
    num_children: Annotated[int | None, _i32(5)] = None
    converted_type: Annotated[int | None, _i32(6)] = None
    scale: Annotated[int | None, _i32(7)] = None
    precision: Annotated[int | None, _i32(8)] = None
    field_id: Annotated[int | None, _i32(9)] = None
    logicalType: Annotated[LogicalType | None, _struct(10, LogicalType)] = None


# --- footer ----------------------------------------------------------------------------------------


@declared
class Statistics(NamedTuple):
    """Bounds and counts of a column chunk or page; ``max`` and ``min`` are the deprecated pair."""

    max: Annotated[bytes | None, _binary(1)] = None
    min: Annotated[bytes | None, _binary(2)] = None
    null_count: Annotated[int | None, _i64(3)] = None
    distinct_count: Annotated[int | None, _i64(4)] = None
    max_value: Annotated[bytes | None, _binary(5)] = None
    min_value: Annotated[bytes | None, _binary(6)] = None
    is_max_value_exact: Annotated[bool | None, _bool(7)] = None
    is_min_value_exact: Annotated[bool | None, _bool(8)] = None
    nan_count: Annotated[int | None, _i64(9)] = None


@declared
class SizeStatistics(NamedTuple):
    """Sizes and level histograms of a column chunk."""

    unencoded_byte_array_data_bytes: Annotated[int | None, _i64(1)] = None
    repetition_level_histogram: Annotated[list[int] | None, _list(2, _i64)] = None
    definition_level_histogram: Annotated[list[int] | None, _list(3, _i64)] = None


@declared
class BoundingBox(NamedTuple):
    """The extent of the geometries of a chunk; on X, ``xmin > xmax`` means across the antimeridian."""

    xmin: Annotated[float, _double(1)]
    xmax: Annotated[float, _double(2)]
    ymin: Annotated[float, _double(3)]
    ymax: Annotated[float, _double(4)]
    zmin: Annotated[float | None, _double(5)] = None
    zmax: Annotated[float | None, _double(6)] = None
    mmin: Annotated[float | None, _double(7)] = None
    mmax: Annotated[float | None, _double(8)] = None


@declared
class GeospatialStatistics(NamedTuple):
    """The extent and the type codes of the geometries of a column chunk."""

    bbox: Annotated[BoundingBox | None, _struct(1, BoundingBox)] = None
    geospatial_types: Annotated[list[int] | None, _list(2, _i32)] = None


@declared
class KeyValue(NamedTuple):
    """One entry of the key/value metadata, as bytes, because not every writer uses UTF-8."""

    key: Annotated[bytes, _binary(1)]
    value: Annotated[bytes | None, _binary(2)] = None


@declared
class SortingColumn(NamedTuple):
    """A column by which a row group is declared to be sorted."""

    column_idx: Annotated[int, _i32(1)]
    descending: Annotated[bool, _bool(2)]
    nulls_first: Annotated[bool, _bool(3)]


@declared
class PageEncodingStats(NamedTuple):
    """The number of pages of a chunk with a page type and an encoding."""

    page_type: Annotated[int, _i32(1)]
    encoding: Annotated[int, _i32(2)]
    count: Annotated[int, _i32(3)]  # type: ignore[assignment]  # Parquet's name; hides tuple.count


@declared
class ColumnMetaData(NamedTuple):
    """The footer's metadata of a column chunk."""

    type: Annotated[int, _i32(1)]
    encodings: Annotated[list[int], _list(2, _i32)]
    codec: Annotated[int, _i32(4)]
    num_values: Annotated[int, _i64(5)]
    total_uncompressed_size: Annotated[int, _i64(6)]
    total_compressed_size: Annotated[int, _i64(7)]
    data_page_offset: Annotated[int, _i64(9)]
    dictionary_page_offset: Annotated[int | None, _i64(11)] = None
    statistics: Annotated[Statistics | None, _struct(12, Statistics)] = None
    encoding_stats: Annotated[list[PageEncodingStats] | None, _list(13, PageEncodingStats)] = None
    bloom_filter_offset: Annotated[int | None, _i64(14)] = None
    bloom_filter_length: Annotated[int | None, _i32(15)] = None
    size_statistics: Annotated[SizeStatistics | None, _struct(16, SizeStatistics)] = None
    geospatial_statistics: Annotated[GeospatialStatistics | None, _struct(17, GeospatialStatistics)] = None
    path_in_schema: Annotated[list[str] | None, _list(3, _string)] = None  # some writers omit it


@declared
class ColumnChunk(NamedTuple):
    """One column of one row group."""

    file_offset: Annotated[int, _i64(2)] = 0
    file_path: Annotated[bytes | None, _binary(1)] = None
    meta_data: Annotated[ColumnMetaData | None, _struct(3, ColumnMetaData)] = None
    offset_index_offset: Annotated[int | None, _i64(4)] = None
    offset_index_length: Annotated[int | None, _i32(5)] = None
    column_index_offset: Annotated[int | None, _i64(6)] = None
    column_index_length: Annotated[int | None, _i32(7)] = None
    crypto_metadata: Annotated[Empty | None, _struct(8, Empty)] = None
    encrypted_column_metadata: Annotated[bytes | None, _binary(9)] = None


@declared
class OutlineOfMetaData(NamedTuple):
    """The fields of a `ColumnMetaData` with offsets and counts."""

    num_values: Annotated[int | None, _i64(5)] = None
    total_uncompressed_size: Annotated[int | None, _i64(6)] = None
    total_compressed_size: Annotated[int | None, _i64(7)] = None
    data_page_offset: Annotated[int | None, _i64(9)] = None
    dictionary_page_offset: Annotated[int | None, _i64(11)] = None
    encoding_stats: Annotated[list[PageEncodingStats] | None, _list(13, PageEncodingStats)] = None


@declared
class OutlineOfChunk(NamedTuple):
    """The fields of a `ColumnChunk` with offsets and counts."""

    file_path: Annotated[bytes | None, _binary(1)] = None
    meta_data: Annotated[OutlineOfMetaData | None, _struct(3, OutlineOfMetaData)] = None
    offset_index_offset: Annotated[int | None, _i64(4)] = None
    crypto_metadata: Annotated[Empty | None, _struct(8, Empty)] = None


@declared
class RowGroup(NamedTuple):
    """A range of rows, with one chunk for each leaf of the schema."""

    columns: Annotated[Sequence[ColumnChunk], _list(1, ColumnChunk)]
    total_byte_size: Annotated[int, _i64(2)]
    num_rows: Annotated[int, _i64(3)]
    sorting_columns: Annotated[list[SortingColumn] | None, _list(4, SortingColumn)] = None
    total_compressed_size: Annotated[int | None, _i64(6)] = None


@declared
class RowGroupTotals(NamedTuple):
    """The fields of `RowGroup` after its chunks, in the same order."""

    total_byte_size: Annotated[int, _i64(2)]
    num_rows: Annotated[int, _i64(3)]
    sorting_columns: Annotated[list[SortingColumn] | None, _list(4, SortingColumn)] = None
    total_compressed_size: Annotated[int | None, _i64(6)] = None


@declared
class ColumnOrder(NamedTuple):
    """Union: the order of the bounds of a leaf; without fields, the order is unknown to this version."""

    TYPE_ORDER: Annotated[Empty | None, _struct(1, Empty)] = None
    IEEE_754_TOTAL_ORDER: Annotated[Empty | None, _struct(2, Empty)] = None
    INT96_TIMESTAMP_ORDER: Annotated[Empty | None, _struct(3, Empty)] = None


@declared
class FileMetaData(NamedTuple):
    """The footer."""

    version: Annotated[int, _i32(1)]
    schema: Annotated[list[SchemaElement], _list(2, SchemaElement)]
    num_rows: Annotated[int, _i64(3)]
    row_groups: Annotated[list[RowGroup], _list(4, RowGroup)]
    key_value_metadata: Annotated[list[KeyValue] | None, _list(5, KeyValue)] = None
    created_by: Annotated[bytes | None, _binary(6)] = None
    column_orders: Annotated[list[ColumnOrder] | None, _list(7, ColumnOrder)] = None
    encryption_algorithm: Annotated[Empty | None, _struct(8, Empty)] = None


# --- pages -----------------------------------------------------------------------------------------


@declared
class DataPageHeader(NamedTuple):
    """Header of a data page, version 1."""

    num_values: Annotated[int, _i32(1)]
    encoding: Annotated[int, _i32(2)]
    definition_level_encoding: Annotated[int, _i32(3)]
    repetition_level_encoding: Annotated[int, _i32(4)]
    statistics: Annotated[Statistics | None, _struct(5, Statistics)] = None


@declared
class DictionaryPageHeader(NamedTuple):
    """Header of a dictionary page."""

    num_values: Annotated[int, _i32(1)]
    encoding: Annotated[int, _i32(2)]


@declared
class DataPageHeaderV2(NamedTuple):
    """Header of a data page, version 2, whose uncompressed levels precede the values."""

    num_values: Annotated[int, _i32(1)]
    num_nulls: Annotated[int, _i32(2)]
    num_rows: Annotated[int, _i32(3)]
    encoding: Annotated[int, _i32(4)]
    definition_levels_byte_length: Annotated[int, _i32(5)]
    repetition_levels_byte_length: Annotated[int, _i32(6)]
    is_compressed: Annotated[bool | None, _bool(7)] = None
    statistics: Annotated[Statistics | None, _struct(8, Statistics)] = None


@declared
class PageHeader(NamedTuple):
    """Header of a page; sizes do not include the header."""

    type: Annotated[int, _i32(1)]
    uncompressed_page_size: Annotated[int, _i32(2)]
    compressed_page_size: Annotated[int, _i32(3)]
    data_page_header: Annotated[DataPageHeader | None, _struct(5, DataPageHeader)] = None
    dictionary_page_header: Annotated[DictionaryPageHeader | None, _struct(7, DictionaryPageHeader)] = None
    data_page_header_v2: Annotated[DataPageHeaderV2 | None, _struct(8, DataPageHeaderV2)] = None
    crc: Annotated[int | None, _i32(4)] = None


@declared
class ValuesOfDataPage(NamedTuple):
    """A `DataPageHeader` or `DataPageHeaderV2` without all but the number of values."""

    num_values: Annotated[int, _i32(1)]


@declared
class OutlineOfPage(NamedTuple):
    """The fields of a `PageHeader` with sizes and counts."""

    type: Annotated[int, _i32(1)]
    compressed_page_size: Annotated[int, _i32(3)]
    data_page_header: Annotated[ValuesOfDataPage | None, _struct(5, ValuesOfDataPage)] = None
    data_page_header_v2: Annotated[ValuesOfDataPage | None, _struct(8, ValuesOfDataPage)] = None


# --- indexes ---------------------------------------------------------------------------------------


@declared
class PageLocation(NamedTuple):
    """Location of a data page; the size includes its header, and the row is relative to the row group."""

    offset: Annotated[int, _i64(1)]
    compressed_page_size: Annotated[int, _i32(2)]
    first_row_index: Annotated[int, _i64(3)]


@declared
class OffsetIndex(NamedTuple):
    """Locations of the data pages of a column chunk."""

    page_locations: Annotated[list[PageLocation], _list(1, PageLocation)]
    unencoded_byte_array_data_bytes: Annotated[list[int] | None, _list(2, _i64)] = None


@declared
class ColumnIndex(NamedTuple):
    """Bounds and counts of the data pages of a column chunk."""

    null_pages: Annotated[list[bool], _list(1, _bool)]
    min_values: Annotated[list[bytes], _list(2, _binary)]
    max_values: Annotated[list[bytes], _list(3, _binary)]
    boundary_order: Annotated[int, _i32(4)]
    null_counts: Annotated[list[int] | None, _list(5, _i64)] = None
    repetition_level_histograms: Annotated[list[int] | None, _list(6, _i64)] = None
    definition_level_histograms: Annotated[list[int] | None, _list(7, _i64)] = None
    nan_counts: Annotated[list[int] | None, _list(8, _i64)] = None


@declared
class BloomFilterAlgorithm(NamedTuple):
    """Union of algorithms; only one is defined."""

    BLOCK: Annotated[Empty | None, _struct(1, Empty)] = None


@declared
class BloomFilterHash(NamedTuple):
    """Union of hash functions; only one is defined."""

    XXHASH: Annotated[Empty | None, _struct(1, Empty)] = None


@declared
class BloomFilterCompression(NamedTuple):
    """Union of compressions; only one is defined."""

    UNCOMPRESSED: Annotated[Empty | None, _struct(1, Empty)] = None


@declared
class BloomFilterHeader(NamedTuple):
    """Header of a Bloom filter, which precedes its bits."""

    numBytes: Annotated[int, _i32(1)]
    algorithm: Annotated[BloomFilterAlgorithm, _struct(2, BloomFilterAlgorithm)]
    hash: Annotated[BloomFilterHash, _struct(3, BloomFilterHash)]
    compression: Annotated[BloomFilterCompression, _struct(4, BloomFilterCompression)]
