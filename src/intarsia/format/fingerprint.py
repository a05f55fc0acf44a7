"""The fingerprint of a file's layout, which binds embedded indexes to the file they were built from."""

from __future__ import annotations

from array import array
from functools import lru_cache

import xxhash

from intarsia.format.structs import ColumnMetaData, FileMetaData, LogicalType, SchemaElement


def layout_fingerprint(metadata: FileMetaData) -> str:
    """Return the XXH3-128 hash of the fields that locate a file's values, as 32 hexadecimal digits.

    `intarsia.attach` does not change these fields, so a file keeps its fingerprint. ``docs/format.md``
    specifies the order of the bytes.
    """
    digest = xxhash.xxh3_128()
    digest.update(_all_schema_bytes(tuple(metadata.schema)))
    digest.update(_integers(len(metadata.row_groups)))
    paths: dict[tuple[str, ...], bytes] = {}
    for group in metadata.row_groups:
        numbers = array("q", (group.num_rows, len(group.columns)))
        names = []
        for chunk in group.columns:
            meta = chunk.meta_data
            if meta is None:  # encrypted, or in another file
                numbers.append(-1)
                continue
            numbers.extend(_chunk_numbers(meta))
            path = tuple(meta.path_in_schema or ())
            if path not in paths:
                paths[path] = _integers(len(path)) + b"".join(map(_text, path))
            names.append(paths[path])
        digest.update(_little_endian(numbers))
        digest.update(b"".join(names))
    return digest.hexdigest()


def _chunk_numbers(meta: ColumnMetaData) -> tuple[int, ...]:
    return (
        meta.type,
        meta.codec,
        meta.num_values,
        meta.data_page_offset,
        meta.dictionary_page_offset or 0,  # some writers write 0 for "absent"
        meta.total_compressed_size,
        meta.total_uncompressed_size,
        len(meta.encodings),
        *meta.encodings,
    )


@lru_cache(maxsize=64)
def _all_schema_bytes(elements: tuple[SchemaElement, ...]) -> bytes:
    return _integers(len(elements)) + b"".join(map(_schema_bytes, elements))


def _schema_bytes(element: SchemaElement) -> bytes:
    numbers = (
        element.type,
        element.type_length,
        element.repetition_type,
        element.num_children,
        element.converted_type,
        element.scale,
        element.precision,
    )
    return (
        _text(element.name)
        + _integers(*(-1 if number is None else number for number in numbers))
        + _logical_bytes(element.logicalType)
    )


def _logical_bytes(logical: LogicalType | None) -> bytes:
    if logical is None:
        return _text("") + _integers(0)
    numbers: tuple[int, ...] = ()
    if (decimal := logical.DECIMAL) is not None:
        numbers = decimal.scale, decimal.precision
    elif (time := logical.TIME or logical.TIMESTAMP) is not None:
        unit = next((ordinal for ordinal, value in enumerate(time.unit, 1) if value is not None), 0)
        numbers = int(time.isAdjustedToUTC), unit
    elif (integer := logical.INTEGER) is not None:
        numbers = integer.bitWidth, int(integer.isSigned)
    return _text(logical.name or "?") + _integers(len(numbers), *numbers)


def _text(text: str) -> bytes:
    data = text.encode("utf-8")  # always possible: the Thrift codec replaces invalid bytes by U+FFFD
    return _integers(len(data)) + data


def _integers(*numbers: int) -> bytes:
    return _little_endian(array("q", numbers))


def _little_endian(numbers: array[int]) -> bytes:
    if _BIG_ENDIAN:
        numbers = numbers[:]
        numbers.byteswap()
    return numbers.tobytes()


_BIG_ENDIAN = array("q", [1]).tobytes()[0] == 0
