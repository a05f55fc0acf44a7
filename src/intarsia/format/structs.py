"""The structs of ``parquet.thrift`` that Intarsia reads, with Parquet's own names.

Each class is a named tuple with the Thrift field ids and types in its annotations, which `declared` converts
to the table that Apache Thrift's codec requires. Fields that Intarsia does not read are omitted. The codec
skips them, and `intarsia.format.thrift_tree.parse_tree` keeps them for rewriting.
"""

# No `from __future__ import annotations` here: the annotations are read at import.

from collections.abc import Sequence
from typing import Annotated, Any, Literal, NamedTuple, TypeVar

from thrift.Thrift import TType

T = TypeVar("T")


class _Field(NamedTuple):
    field_id: int
    ttype: int
    args: Any = None


def _simple(ttype: int) -> Any:
    return lambda field_id: _Field(field_id, ttype)


bool_, i8, i32, i64, double = (
    _simple(t) for t in (TType.BOOL, TType.BYTE, TType.I32, TType.I64, TType.DOUBLE)
)


def binary(field_id: int) -> _Field:
    """Declare a field of bytes."""
    return _Field(field_id, TType.STRING, "BINARY")


def string(field_id: int) -> _Field:
    """Declare a field of text."""
    return _Field(field_id, TType.STRING, "UTF8")


def struct_(field_id: int, cls: Any) -> _Field:
    """Declare a field of a declared class."""
    return _Field(field_id, TType.STRUCT, [cls, cls.thrift_spec])


def list_(field_id: int, element: Any) -> _Field:
    """Declare a list; ``element`` is a declared class, or another function of this module."""
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

    scale: Annotated[int, i32(1)]
    precision: Annotated[int, i32(2)]


@declared
class TimeUnit(NamedTuple):
    """Union: the field that is present is the unit."""

    MILLIS: Annotated[Empty | None, struct_(1, Empty)] = None
    MICROS: Annotated[Empty | None, struct_(2, Empty)] = None
    NANOS: Annotated[Empty | None, struct_(3, Empty)] = None


_UNIT_NAMES: tuple[Literal["ms", "us", "ns"], ...] = ("ms", "us", "ns")


@declared
class TimestampType(NamedTuple):
    """TIMESTAMP, and TIME, which has the same fields."""

    isAdjustedToUTC: Annotated[bool, bool_(1)]
    unit: Annotated[TimeUnit, struct_(2, TimeUnit)]

    @property
    def unit_name(self) -> Literal["ms", "us", "ns"] | None:
        """The unit as Arrow and NumPy name it; None if it is unknown to this version."""
        found = (name for name, value in zip(_UNIT_NAMES, self.unit, strict=True) if value is not None)
        return next(found, None)


@declared
class IntType(NamedTuple):
    """INTEGER."""

    bitWidth: Annotated[int, i8(1)]
    isSigned: Annotated[bool, bool_(2)]


@declared
class VariantType(NamedTuple):
    """VARIANT."""

    specification_version: Annotated[int | None, i8(1)] = None


@declared
class GeometryType(NamedTuple):
    """GEOMETRY, and GEOGRAPHY, which has one more field."""

    crs: Annotated[str | None, string(1)] = None
    algorithm: Annotated[int | None, i32(2)] = None


#: The start of the names of logical types that later versions of the specification define.
_LATER = "LATER_"


@declared
class LogicalType(NamedTuple):
    """Union: the field that is present is the type.

    A type without a name is unknown to this version. The next numbers are declared to be named in errors.
    """

    STRING: Annotated[Empty | None, struct_(1, Empty)] = None
    MAP: Annotated[Empty | None, struct_(2, Empty)] = None
    LIST: Annotated[Empty | None, struct_(3, Empty)] = None
    ENUM: Annotated[Empty | None, struct_(4, Empty)] = None
    DECIMAL: Annotated[DecimalType | None, struct_(5, DecimalType)] = None
    DATE: Annotated[Empty | None, struct_(6, Empty)] = None
    TIME: Annotated[TimestampType | None, struct_(7, TimestampType)] = None
    TIMESTAMP: Annotated[TimestampType | None, struct_(8, TimestampType)] = None
    INTEGER: Annotated[IntType | None, struct_(10, IntType)] = None
    UNKNOWN: Annotated[Empty | None, struct_(11, Empty)] = None
    JSON: Annotated[Empty | None, struct_(12, Empty)] = None
    BSON: Annotated[Empty | None, struct_(13, Empty)] = None
    UUID: Annotated[Empty | None, struct_(14, Empty)] = None
    FLOAT16: Annotated[Empty | None, struct_(15, Empty)] = None
    VARIANT: Annotated[VariantType | None, struct_(16, VariantType)] = None
    GEOMETRY: Annotated[GeometryType | None, struct_(17, GeometryType)] = None
    GEOGRAPHY: Annotated[GeometryType | None, struct_(18, GeometryType)] = None
    LATER_19: Annotated[Empty | None, struct_(19, Empty)] = None
    LATER_20: Annotated[Empty | None, struct_(20, Empty)] = None
    LATER_21: Annotated[Empty | None, struct_(21, Empty)] = None
    LATER_22: Annotated[Empty | None, struct_(22, Empty)] = None

    @property
    def name(self) -> str | None:
        """The name of the type that is present; None if it is unknown to this version."""
        field = self._field
        return None if field is None or field.startswith(_LATER) else field

    @property
    def shown(self) -> str:
        """The name of the type for messages, or its number in the specification."""
        number = (self._field or "").removeprefix(_LATER)
        return self.name or f"unknown logical type {number}".rstrip()

    @property
    def _field(self) -> str | None:
        return next((name for name, value in zip(self._fields, self, strict=True) if value is not None), None)


@declared
class SchemaElement(NamedTuple):
    """One node of the schema, a tree that is flattened depth first."""

    name: Annotated[str, string(4)]
    type: Annotated[int | None, i32(1)] = None
    type_length: Annotated[int | None, i32(2)] = None
    repetition_type: Annotated[int | None, i32(3)] = None
    num_children: Annotated[int | None, i32(5)] = None
    converted_type: Annotated[int | None, i32(6)] = None
    scale: Annotated[int | None, i32(7)] = None
    precision: Annotated[int | None, i32(8)] = None
    field_id: Annotated[int | None, i32(9)] = None
    logicalType: Annotated[LogicalType | None, struct_(10, LogicalType)] = None


# --- footer ----------------------------------------------------------------------------------------


@declared
class Statistics(NamedTuple):
    """Bounds and counts of a column chunk or page; ``max`` and ``min`` are the deprecated pair."""

    max: Annotated[bytes | None, binary(1)] = None
    min: Annotated[bytes | None, binary(2)] = None
    null_count: Annotated[int | None, i64(3)] = None
    distinct_count: Annotated[int | None, i64(4)] = None
    max_value: Annotated[bytes | None, binary(5)] = None
    min_value: Annotated[bytes | None, binary(6)] = None
    is_max_value_exact: Annotated[bool | None, bool_(7)] = None
    is_min_value_exact: Annotated[bool | None, bool_(8)] = None
    nan_count: Annotated[int | None, i64(9)] = None


@declared
class SizeStatistics(NamedTuple):
    """Sizes and level histograms of a column chunk."""

    unencoded_byte_array_data_bytes: Annotated[int | None, i64(1)] = None
    repetition_level_histogram: Annotated[list[int] | None, list_(2, i64)] = None
    definition_level_histogram: Annotated[list[int] | None, list_(3, i64)] = None


@declared
class BoundingBox(NamedTuple):
    """The extent of the geometries of a chunk; on X, ``xmin > xmax`` means across the antimeridian."""

    xmin: Annotated[float, double(1)]
    xmax: Annotated[float, double(2)]
    ymin: Annotated[float, double(3)]
    ymax: Annotated[float, double(4)]
    zmin: Annotated[float | None, double(5)] = None
    zmax: Annotated[float | None, double(6)] = None
    mmin: Annotated[float | None, double(7)] = None
    mmax: Annotated[float | None, double(8)] = None


@declared
class GeospatialStatistics(NamedTuple):
    """The extent and the type codes of the geometries of a column chunk."""

    bbox: Annotated[BoundingBox | None, struct_(1, BoundingBox)] = None
    geospatial_types: Annotated[list[int] | None, list_(2, i32)] = None


@declared
class KeyValue(NamedTuple):
    """One entry of the key/value metadata, as bytes, because not every writer uses UTF-8."""

    key: Annotated[bytes, binary(1)]
    value: Annotated[bytes | None, binary(2)] = None


@declared
class SortingColumn(NamedTuple):
    """A column by which a row group is declared to be sorted."""

    column_idx: Annotated[int, i32(1)]
    descending: Annotated[bool, bool_(2)]
    nulls_first: Annotated[bool, bool_(3)]


@declared
class PageEncodingStats(NamedTuple):
    """The number of pages of a chunk with a page type and an encoding."""

    page_type: Annotated[int, i32(1)]
    encoding: Annotated[int, i32(2)]
    count: Annotated[int, i32(3)]  # type: ignore[assignment]  # Parquet's name; hides tuple.count


@declared
class ColumnMetaData(NamedTuple):
    """The footer's metadata of a column chunk."""

    type: Annotated[int, i32(1)]
    encodings: Annotated[list[int], list_(2, i32)]
    codec: Annotated[int, i32(4)]
    num_values: Annotated[int, i64(5)]
    total_uncompressed_size: Annotated[int, i64(6)]
    total_compressed_size: Annotated[int, i64(7)]
    data_page_offset: Annotated[int, i64(9)]
    dictionary_page_offset: Annotated[int | None, i64(11)] = None
    statistics: Annotated[Statistics | None, struct_(12, Statistics)] = None
    encoding_stats: Annotated[list[PageEncodingStats] | None, list_(13, PageEncodingStats)] = None
    bloom_filter_offset: Annotated[int | None, i64(14)] = None
    bloom_filter_length: Annotated[int | None, i32(15)] = None
    size_statistics: Annotated[SizeStatistics | None, struct_(16, SizeStatistics)] = None
    geospatial_statistics: Annotated[GeospatialStatistics | None, struct_(17, GeospatialStatistics)] = None
    path_in_schema: Annotated[list[str] | None, list_(3, string)] = None  # some writers omit it


@declared
class ColumnChunk(NamedTuple):
    """One column of one row group."""

    file_offset: Annotated[int, i64(2)] = 0
    file_path: Annotated[bytes | None, binary(1)] = None
    meta_data: Annotated[ColumnMetaData | None, struct_(3, ColumnMetaData)] = None
    offset_index_offset: Annotated[int | None, i64(4)] = None
    offset_index_length: Annotated[int | None, i32(5)] = None
    column_index_offset: Annotated[int | None, i64(6)] = None
    column_index_length: Annotated[int | None, i32(7)] = None
    crypto_metadata: Annotated[Empty | None, struct_(8, Empty)] = None
    encrypted_column_metadata: Annotated[bytes | None, binary(9)] = None


@declared
class OutlineOfMetaData(NamedTuple):
    """The fields of a `ColumnMetaData` with offsets and counts."""

    encodings: Annotated[list[int] | None, list_(2, i32)] = None
    codec: Annotated[int | None, i32(4)] = None
    num_values: Annotated[int | None, i64(5)] = None
    total_uncompressed_size: Annotated[int | None, i64(6)] = None
    total_compressed_size: Annotated[int | None, i64(7)] = None
    data_page_offset: Annotated[int | None, i64(9)] = None
    dictionary_page_offset: Annotated[int | None, i64(11)] = None
    encoding_stats: Annotated[list[PageEncodingStats] | None, list_(13, PageEncodingStats)] = None


@declared
class OutlineOfChunk(NamedTuple):
    """The fields of a `ColumnChunk` with offsets and counts."""

    file_path: Annotated[bytes | None, binary(1)] = None
    meta_data: Annotated[OutlineOfMetaData | None, struct_(3, OutlineOfMetaData)] = None
    offset_index_offset: Annotated[int | None, i64(4)] = None
    offset_index_length: Annotated[int | None, i32(5)] = None
    column_index_offset: Annotated[int | None, i64(6)] = None
    column_index_length: Annotated[int | None, i32(7)] = None
    crypto_metadata: Annotated[Empty | None, struct_(8, Empty)] = None


@declared
class RowGroup(NamedTuple):
    """A range of rows, with one chunk for each leaf of the schema."""

    columns: Annotated[Sequence[ColumnChunk], list_(1, ColumnChunk)]
    total_byte_size: Annotated[int, i64(2)]
    num_rows: Annotated[int, i64(3)]
    sorting_columns: Annotated[list[SortingColumn] | None, list_(4, SortingColumn)] = None
    total_compressed_size: Annotated[int | None, i64(6)] = None


@declared
class RowGroupTotals(NamedTuple):
    """The fields of `RowGroup` after its chunks, in the same order."""

    total_byte_size: Annotated[int, i64(2)]
    num_rows: Annotated[int, i64(3)]
    sorting_columns: Annotated[list[SortingColumn] | None, list_(4, SortingColumn)] = None
    total_compressed_size: Annotated[int | None, i64(6)] = None


@declared
class ColumnOrder(NamedTuple):
    """Union: the order of the bounds of a leaf; without fields, the order is unknown to this version."""

    TYPE_ORDER: Annotated[Empty | None, struct_(1, Empty)] = None
    IEEE_754_TOTAL_ORDER: Annotated[Empty | None, struct_(2, Empty)] = None
    INT96_TIMESTAMP_ORDER: Annotated[Empty | None, struct_(3, Empty)] = None


@declared
class FileMetaData(NamedTuple):
    """The footer."""

    version: Annotated[int, i32(1)]
    schema: Annotated[list[SchemaElement], list_(2, SchemaElement)]
    num_rows: Annotated[int, i64(3)]
    row_groups: Annotated[list[RowGroup], list_(4, RowGroup)]
    key_value_metadata: Annotated[list[KeyValue] | None, list_(5, KeyValue)] = None
    created_by: Annotated[bytes | None, binary(6)] = None
    column_orders: Annotated[list[ColumnOrder] | None, list_(7, ColumnOrder)] = None
    encryption_algorithm: Annotated[Empty | None, struct_(8, Empty)] = None


# --- pages -----------------------------------------------------------------------------------------


@declared
class DataPageHeader(NamedTuple):
    """Header of a data page, version 1."""

    num_values: Annotated[int, i32(1)]
    encoding: Annotated[int, i32(2)]
    definition_level_encoding: Annotated[int, i32(3)]
    repetition_level_encoding: Annotated[int, i32(4)]
    statistics: Annotated[Statistics | None, struct_(5, Statistics)] = None


@declared
class DictionaryPageHeader(NamedTuple):
    """Header of a dictionary page."""

    num_values: Annotated[int, i32(1)]
    encoding: Annotated[int, i32(2)]


@declared
class DataPageHeaderV2(NamedTuple):
    """Header of a data page, version 2, whose uncompressed levels precede the values."""

    num_values: Annotated[int, i32(1)]
    num_nulls: Annotated[int, i32(2)]
    num_rows: Annotated[int, i32(3)]
    encoding: Annotated[int, i32(4)]
    definition_levels_byte_length: Annotated[int, i32(5)]
    repetition_levels_byte_length: Annotated[int, i32(6)]
    is_compressed: Annotated[bool | None, bool_(7)] = None
    statistics: Annotated[Statistics | None, struct_(8, Statistics)] = None


@declared
class PageHeader(NamedTuple):
    """Header of a page; sizes do not include the header."""

    type: Annotated[int, i32(1)]
    uncompressed_page_size: Annotated[int, i32(2)]
    compressed_page_size: Annotated[int, i32(3)]
    data_page_header: Annotated[DataPageHeader | None, struct_(5, DataPageHeader)] = None
    dictionary_page_header: Annotated[DictionaryPageHeader | None, struct_(7, DictionaryPageHeader)] = None
    data_page_header_v2: Annotated[DataPageHeaderV2 | None, struct_(8, DataPageHeaderV2)] = None
    crc: Annotated[int | None, i32(4)] = None


@declared
class ValuesOfDataPage(NamedTuple):
    """A `DataPageHeader` or `DataPageHeaderV2` reduced to the number of values."""

    num_values: Annotated[int, i32(1)]


@declared
class OutlineOfPage(NamedTuple):
    """The fields of a `PageHeader` with sizes and counts."""

    type: Annotated[int, i32(1)]
    compressed_page_size: Annotated[int, i32(3)]
    data_page_header: Annotated[ValuesOfDataPage | None, struct_(5, ValuesOfDataPage)] = None
    data_page_header_v2: Annotated[ValuesOfDataPage | None, struct_(8, ValuesOfDataPage)] = None


# --- indexes ---------------------------------------------------------------------------------------


@declared
class PageLocation(NamedTuple):
    """Location of a data page; the size includes its header, and the row is relative to the row group."""

    offset: Annotated[int, i64(1)]
    compressed_page_size: Annotated[int, i32(2)]
    first_row_index: Annotated[int, i64(3)]


@declared
class OffsetIndex(NamedTuple):
    """Locations of the data pages of a column chunk."""

    page_locations: Annotated[list[PageLocation], list_(1, PageLocation)]
    unencoded_byte_array_data_bytes: Annotated[list[int] | None, list_(2, i64)] = None


@declared
class ColumnIndex(NamedTuple):
    """Bounds and counts of the data pages of a column chunk."""

    null_pages: Annotated[list[bool], list_(1, bool_)]
    min_values: Annotated[list[bytes], list_(2, binary)]
    max_values: Annotated[list[bytes], list_(3, binary)]
    boundary_order: Annotated[int, i32(4)]
    null_counts: Annotated[list[int] | None, list_(5, i64)] = None
    repetition_level_histograms: Annotated[list[int] | None, list_(6, i64)] = None
    definition_level_histograms: Annotated[list[int] | None, list_(7, i64)] = None
    nan_counts: Annotated[list[int] | None, list_(8, i64)] = None


@declared
class BloomFilterAlgorithm(NamedTuple):
    """Union of algorithms; only one is defined."""

    BLOCK: Annotated[Empty | None, struct_(1, Empty)] = None


@declared
class BloomFilterHash(NamedTuple):
    """Union of hash functions; only one is defined."""

    XXHASH: Annotated[Empty | None, struct_(1, Empty)] = None


@declared
class BloomFilterCompression(NamedTuple):
    """Union of compressions; only one is defined."""

    UNCOMPRESSED: Annotated[Empty | None, struct_(1, Empty)] = None


@declared
class BloomFilterHeader(NamedTuple):
    """Header of a Bloom filter, which precedes its bits."""

    numBytes: Annotated[int, i32(1)]
    algorithm: Annotated[BloomFilterAlgorithm, struct_(2, BloomFilterAlgorithm)]
    hash: Annotated[BloomFilterHash, struct_(3, BloomFilterHash)]
    compression: Annotated[BloomFilterCompression, struct_(4, BloomFilterCompression)]
