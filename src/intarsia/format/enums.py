"""The enumerations of ``parquet.thrift``, with Parquet's own names."""

from __future__ import annotations

from enum import IntEnum


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


_ENCODINGS = frozenset(Encoding)


def encoding_name(encoding: int) -> str:
    """Return the name of an encoding; the format adds encodings.

    Example:
        >>> encoding_name(0), encoding_name(12)
        ('PLAIN', 'unknown encoding 12')
    """
    return Encoding(encoding).name if encoding in _ENCODINGS else f"unknown encoding {encoding}"


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


_CODECS = frozenset(CompressionCodec)


def codec_name(codec: int) -> str:
    """Return the name of a compression codec; the format adds codecs.

    Example:
        >>> codec_name(6), codec_name(12)
        ('ZSTD', 'unknown (12)')
    """
    return CompressionCodec(codec).name if codec in _CODECS else f"unknown ({codec})"


class PageType(IntEnum):
    """Types of pages."""

    DATA_PAGE = 0
    INDEX_PAGE = 1
    DICTIONARY_PAGE = 2
    DATA_PAGE_V2 = 3


#: Types of data pages.
DATA_PAGES = (PageType.DATA_PAGE, PageType.DATA_PAGE_V2)


class BoundaryOrder(IntEnum):
    """Whether both bounds of a column index are monotone over its non-null pages."""

    UNORDERED = 0
    ASCENDING = 1
    DESCENDING = 2
