"""Write the first inputs of the fuzz targets, made of files of pyarrow: ``python seeds.py FOLDER``."""

from __future__ import annotations

import hashlib
import io
import struct
import sys
from collections.abc import Iterator
from decimal import Decimal
from itertools import product
from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq

from intarsia.format import thrift
from intarsia.format.footer import parse_footer
from intarsia.format.pages import walk_pages

#: A value of each type, in the order of `TYPES` in decode.rs.
VALUES = [
    (pa.bool_(), True),
    (pa.int32(), 7),
    (pa.int64(), -7),
    (pa.float32(), 0.5),
    (pa.float64(), -0.5),
    (pa.binary(), b"bytes"),
    (pa.string(), "text"),
    (pa.binary(7), b"7 bytes"),
    (pa.decimal128(12, 2), Decimal("1.25")),
    (pa.timestamp("us", "UTC"), 5),
    (pa.uint8(), 9),
    (pa.date32(), 11),
    (pa.decimal128(12, 2), Decimal("2.25")),
    (pa.null(), None),
    (pa.timestamp("ns"), 13),
    (pa.struct([("y", pa.int64())]), {"y": 15}),
    (pa.list_(pa.int64()), [17, None, 19]),
    (pa.list_(pa.list_(pa.string())), [["a", None], [], None]),
]
#: The paths of leaves that are not the column itself.
PATHS = {15: "x.y", 16: "x.list.element", 17: "x.list.element.list.element"}
#: Options of those that are written in another way.
OPTIONS = {12: {"store_decimal_as_integer": True}, 14: {"use_deprecated_int96_timestamps": True}}

ENCODINGS = [
    "PLAIN",
    "DELTA_BINARY_PACKED",
    "DELTA_LENGTH_BYTE_ARRAY",
    "DELTA_BYTE_ARRAY",
    "BYTE_STREAM_SPLIT",
]
CODECS = {"none": 0, "snappy": 1, "gzip": 2, "brotli": 4, "zstd": 6, "lz4": 7}


def seeds() -> Iterator[tuple[str, bytes]]:
    """Yield the name of a target, and an input of it."""
    for kind, codec, version, nullable in product(range(len(VALUES)), CODECS, ("1.0", "2.0"), (False, True)):
        for encoding in (None, *ENCODINGS):
            data = written(kind, codec, version, nullable, encoding)
            if data is not None:
                yield from of_file(data, 2 * kind + nullable, CODECS[codec])


def written(kind: int, codec: str, version: str, nullable: bool, encoding: str | None) -> bytes | None:
    """Return a small file of several pages; None if the encoding does not exist for the type."""
    data_type, value = VALUES[kind]
    if value is None and not nullable:
        return None
    values = [None if nullable and at % 3 == 0 else value for at in range(20)]
    schema = pa.schema([pa.field("x", data_type, nullable)])
    target = io.BytesIO()
    try:
        pq.write_table(
            pa.table([pa.array(values, data_type)], schema=schema),
            target,
            compression=codec,
            data_page_version=version,
            use_dictionary=encoding is None,
            column_encoding=encoding and {PATHS.get(kind, "x"): encoding},
            max_rows_per_page=8,
            write_page_checksum=encoding is None,
            **OPTIONS.get(kind, {}),
        )
    except (OSError, NotImplementedError):
        return None
    return target.getvalue()


def of_file(data: bytes, kind: int, codec: int) -> Iterator[tuple[str, bytes]]:
    """Yield inputs made of the only chunk of a file."""
    start = len(data) - 8 - struct.unpack("<I", data[-8:-4])[0]
    footer = parse_footer(data[start:-8], start, len(data))
    (group,) = footer.metadata.row_groups
    (chunk,) = group.columns
    meta = chunk.meta_data
    first = meta.dictionary_page_offset or meta.data_page_offset
    pages = data[first : first + meta.total_compressed_size]
    yield "chunks", 2 * thrift.serialize(chunk)
    yield "headers", pages
    for flags in (1, 2, 7):  # single pages, a chunk with checksums, and all of it
        yield "decode", bytes([kind, codec, group.num_rows, 0, 3, 9, flags]) + pages
    for page in walk_pages(pages):
        claimed = page.header.uncompressed_page_size.to_bytes(3, "little")
        yield "codecs", bytes([codec]) + claimed + pages[page.body_start : page.stop]


if __name__ == "__main__":
    for target, seed in seeds():
        folder = Path(sys.argv[1]) / target
        folder.mkdir(parents=True, exist_ok=True)
        name = hashlib.sha256(seed).hexdigest()[:16]
        (folder / name).write_bytes(seed)
