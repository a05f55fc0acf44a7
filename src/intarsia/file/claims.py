"""Checks of the sizes and counts that footers and pages claim, before memory is allocated for them.

Pages are decompressed here, too: the size of a page is a claim.
"""

from __future__ import annotations

from collections.abc import Iterable

import pyarrow as pa

from intarsia.errors import CorruptFileError, UnsupportedFeatureError
from intarsia.file.writers import parse_writer
from intarsia.format.enums import DICTIONARY_ENCODINGS, CompressionCodec, Encoding, PageType, Type, codec_name
from intarsia.format.footer import Footer, Leaf, chunk_range
from intarsia.format.levels import count_run_values, page_levels, split_levels
from intarsia.format.page_index import decode_varints
from intarsia.format.pages import Page, iter_pages, walk_pages, wrong_page
from intarsia.storage import CountedSource

#: pyarrow's codec names. LZ4 is handled separately because its framing varies by writer; LZO is unsupported.
_CODECS = {
    CompressionCodec.SNAPPY: "snappy",
    CompressionCodec.GZIP: "gzip",
    CompressionCodec.BROTLI: "brotli",
    CompressionCodec.ZSTD: "zstd",
    CompressionCodec.LZ4_RAW: "lz4_raw",
}

#: The maximum size of decompressed bytes, as a multiple of the compressed size. Snappy: 64 bytes by 3.
#: Deflate: 258 bytes in 2 bits. LZ4: 255 bytes by a byte of length. ZSTD: a block of 128 KiB in 4 bytes.
#: BROTLI: a copy of 16 MiB in a few bits.
_MAX_EXPANSION = {
    CompressionCodec.SNAPPY: 22,
    CompressionCodec.GZIP: 1032,
    CompressionCodec.LZ4: 255,
    CompressionCodec.LZ4_RAW: 255,
    CompressionCodec.ZSTD: 1 << 15,
    CompressionCodec.BROTLI: 1 << 24,
}

#: Hadoop writes two sizes before each block: decompressed, compressed.
_HADOOP_SIZE_BYTES = 4

#: Page sizes are signed 32-bit numbers.
_MAX_PAGE_BYTES = (1 << 31) - 1


def check_expansion(pages: Iterable[Page], codec: int) -> None:
    """Refuse pages that claim to be larger than their bytes can expand to.

    Args:
        codec: The chunk's `CompressionCodec`.

    Raises:
        CorruptFileError: If one does.
    """
    limit = _MAX_EXPANSION.get(codec)  # type: ignore[call-overload]
    for page in pages if limit is not None else ():
        num_bytes, claimed = page.header.compressed_page_size, page.header.uncompressed_page_size
        if claimed > limit * num_bytes:
            raise _too_large(num_bytes, claimed, limit, page.start)


def _too_large(num_bytes: int, claimed: int, limit: int, offset: int | None = None) -> CorruptFileError:
    return wrong_page(
        "invalid-page-size",
        f"a page claims {claimed} bytes, but its {num_bytes} compressed bytes expand to at most "
        f"{limit * num_bytes}",
        offset=offset,
    )


def decompress(body: bytes | memoryview, codec: int, uncompressed_bytes: int) -> memoryview:
    """Return the uncompressed bytes of a page.

    If the page is smaller than its header claims, the result of most codecs ends with undefined bytes:
    pyarrow does not return the number of decompressed bytes.

    Args:
        body: The page's bytes in the file.
        codec: The chunk's `CompressionCodec`.
        uncompressed_bytes: Uncompressed size from the page header.

    Raises:
        CorruptFileError: If the page is damaged, or larger than that.
        UnsupportedFeatureError: If pyarrow does not support the codec.
        MemoryError: If there is too little memory.
    """
    if codec == CompressionCodec.UNCOMPRESSED:
        return memoryview(body)
    if not 0 <= uncompressed_bytes <= _MAX_PAGE_BYTES:
        raise wrong_page("invalid-page-size", f"a page claims {uncompressed_bytes} bytes")
    if uncompressed_bytes == 0:
        return memoryview(b"")
    limit = _MAX_EXPANSION.get(codec)  # type: ignore[call-overload]
    if limit is not None and uncompressed_bytes > limit * len(body):
        raise _too_large(len(body), uncompressed_bytes, limit)
    if codec == CompressionCodec.LZ4:
        return _lz4(memoryview(body), uncompressed_bytes)
    name = _CODECS.get(codec)  # type: ignore[call-overload]
    if name is None or not pa.Codec.is_available(name):
        raise UnsupportedFeatureError(
            f"pages are compressed with {codec_name(codec)}, which this pyarrow does not support; rewrite "
            "the file with ZSTD",
            reason="unsupported-codec",
        )
    return _undo(name, body, uncompressed_bytes)


def _undo(name: str, body: bytes | memoryview, uncompressed_bytes: int) -> memoryview:
    try:
        return memoryview(pa.decompress(body, uncompressed_bytes, codec=name)).cast("B")
    except MemoryError:  # too little memory says nothing about the page
        raise
    except TimeoutError:  # of a signal handler
        raise
    except (pa.ArrowException, OSError, ValueError) as error:
        raise wrong_page("decompression-failed", f"a page does not decompress: {error}") from error


def _lz4(body: memoryview, uncompressed_bytes: int) -> memoryview:
    """Decompress LZ4 in Hadoop's framing, in the LZ4 frame format, or as a raw block, as writers differ."""
    framed = _hadoop_blocks(body, uncompressed_bytes)
    if framed is not None:
        return framed
    try:
        return _undo("lz4", body, uncompressed_bytes)
    except CorruptFileError:
        return _undo("lz4_raw", body, uncompressed_bytes)


def _hadoop_blocks(body: memoryview, uncompressed_bytes: int) -> memoryview | None:
    out: list[memoryview] = []
    position = produced = 0
    while position + 2 * _HADOOP_SIZE_BYTES <= len(body):
        sizes = body[position : position + 2 * _HADOOP_SIZE_BYTES]
        raw = int.from_bytes(sizes[:_HADOOP_SIZE_BYTES], "big")
        packed = int.from_bytes(sizes[_HADOOP_SIZE_BYTES:], "big")
        start = position + 2 * _HADOOP_SIZE_BYTES
        position = start + packed
        produced += raw
        if position > len(body) or produced > uncompressed_bytes:
            return None
        try:
            out.append(_undo("lz4_raw", body[start:position], raw))
        except CorruptFileError:
            return None
    if position != len(body) or produced != uncompressed_bytes:
        return None
    return out[0] if len(out) == 1 else memoryview(b"".join(out))


#: The minimum size of a value in PLAIN encoding, in bytes; booleans are bits, except in dictionaries.
_PLAIN_BYTES = {
    Type.BOOLEAN: 1,
    Type.INT32: 4,
    Type.INT64: 8,
    Type.INT96: 12,
    Type.FLOAT: 4,
    Type.DOUBLE: 8,
    Type.BYTE_ARRAY: 4,
}

_DELTA_ENCODINGS = (
    Encoding.DELTA_BINARY_PACKED,
    Encoding.DELTA_LENGTH_BYTE_ARRAY,
    Encoding.DELTA_BYTE_ARRAY,
)

#: In the RLE encoding of booleans, the length of the runs precedes them.
_LENGTH_BYTES = 4

_BITS = 8

#: Pages are checked if they claim more than this many values, plus this many per byte.
_PLAUSIBLE_VALUES = 1 << 22
_PLAUSIBLE_VALUES_PER_BYTE = 1 << 10

#: The first bytes of the header of a data page: the field `type`, which is 0 or 3.
_STARTS_OF_DATA_PAGES = (b"\x15\x00", b"\x15\x06")

#: The header of delta encodings has four varints.
_MAX_DELTA_HEADER_BYTES = 40


def plain_bytes(leaf: Leaf) -> int:
    """Return the minimum size of a value in a dictionary page."""
    return _PLAIN_BYTES.get(leaf.type, leaf.element.type_length or 0)


def is_plausible(num_values: int, num_bytes: int) -> bool:
    """Return whether pages of a size usually have this many values, so that they are not checked.

    Args:
        num_values: The number of values, including nulls.
    """
    return num_values <= _PLAUSIBLE_VALUES + _PLAUSIBLE_VALUES_PER_BYTE * num_bytes


def check_values(
    data: bytes,
    num_values: int,
    codec: int,
    leaf: Leaf,
    created_by: bytes | None,
    start: int = 0,
    stop: int | None = None,
) -> None:
    """Refuse pages that cannot contain the values that they claim.

    A dictionary page at the start is always checked, and data pages if their number of values is implausible.

    Args:
        num_values: Number of values in the data pages, including nulls.
        codec: The chunk's `CompressionCodec`.
        start: Offset in ``data`` of the pages, which are consecutive pages of a chunk.
        stop: Offset of their end; None for that of ``data``.

    Raises:
        CorruptFileError: If a page is damaged, or contains fewer values.
    """
    stop = len(data) if stop is None else stop
    if start < stop and data[start : start + 2] not in _STARTS_OF_DATA_PAGES:
        page = next(iter_pages(data, start=start))
        if page.header.type == PageType.DICTIONARY_PAGE:
            check_dictionary_size(page, leaf)
    if is_plausible(num_values, stop - start):
        return
    pages, has_dictionary = data[start:stop], False
    for page in walk_pages(pages, num_values):
        check_expansion([page], codec)
        if page.header.type == PageType.DICTIONARY_PAGE:
            has_dictionary = True
        elif page.uses_dictionary and not has_dictionary:
            raise wrong_page(
                "no-dictionary-page",
                "its values are positions in a dictionary, but no dictionary page precedes it",
                offset=page.start,
                column=leaf.name,
            )
        elif page.is_data:
            _check_data_page(pages, page, codec, leaf, created_by)


def check_dictionary_size(page: Page, leaf: Leaf) -> None:
    """Refuse a dictionary page that claims more values than fit into its bytes.

    Raises:
        CorruptFileError: If it does.
    """
    num_bytes = max(page.header.uncompressed_page_size, page.header.compressed_page_size)
    if page.num_values * plain_bytes(leaf) > num_bytes:
        raise CorruptFileError(
            f"the dictionary page claims {page.num_values} values in {num_bytes} bytes",
            reason="dictionary-value-count",
            column=leaf.name,
            offset=page.start,
            struct="DictionaryPageHeader",
        )


def _check_data_page(pages: bytes, page: Page, codec: int, leaf: Leaf, created_by: bytes | None) -> None:
    header = page.header
    body = memoryview(pages)[page.body_start : page.stop]
    try:
        if header.type == PageType.DATA_PAGE:
            body = decompress(body, codec, header.uncompressed_page_size)
        needed = page_levels(body, header, leaf).num_present
        *levels, values = split_levels(body, header, leaf)
        if header.type != PageType.DATA_PAGE and _is_compressed(page, created_by):
            num_bytes = header.uncompressed_page_size - sum(map(len, levels))
            values = decompress(values, codec, num_bytes)
        found = None if needed == 0 else _capacity(values, page.encoding, leaf)
    except UnsupportedFeatureError:  # pyarrow may support it
        return
    if found is not None and found < needed:
        raise wrong_page(
            "page-value-count-mismatch",
            f"the page claims {needed} values that are not null, but its bytes have at most {found}",
            offset=page.start,
            column=leaf.name,
        )


def _is_compressed(page: Page, created_by: bytes | None) -> bool:
    """Return whether the values of a page of version 2 are compressed, as pyarrow decides it."""
    two = page.header.data_page_header_v2
    if two is None or two.is_compressed is not False:
        return True
    name, version = parse_writer((created_by or b"").decode("utf-8", "replace"))
    return name == "parquet-cpp" and version < (2,)


def _capacity(values: memoryview, encoding: int, leaf: Leaf) -> int | None:
    """Return the maximum number of values in bytes of an encoding; None if they do not limit it."""
    if encoding in DICTIONARY_ENCODINGS:
        return count_run_values(values[1:], values[0]) if len(values) else 0
    if encoding == Encoding.RLE and leaf.type == Type.BOOLEAN:
        return count_run_values(values[_LENGTH_BYTES:], 1)
    if encoding in _DELTA_ENCODINGS:
        return _delta_capacity(values)
    if encoding in (Encoding.PLAIN, Encoding.BYTE_STREAM_SPLIT):
        if leaf.type == Type.BOOLEAN:
            return len(values) * _BITS
        return len(values) // plain_bytes(leaf) if plain_bytes(leaf) else None
    return None


def _delta_capacity(values: memoryview) -> int:
    """Return the maximum number of values in blocks of deltas, each of which has some bytes of header."""
    decoded = decode_varints(bytes(values[:_MAX_DELTA_HEADER_BYTES]), 4)
    if decoded is None:
        return 0
    numbers, lengths = decoded
    block_values, miniblocks, num_values, _ = numbers.tolist()
    blocks = (len(values) - int(lengths.sum())) // (1 + miniblocks)
    return int(min(num_values, 1 + blocks * block_values))


# --- footers ---------------------------------------------------------------------------------------


def check_claims(source: CountedSource, footer: Footer, row_group: int, leaf: Leaf) -> None:
    """Refuse a chunk whose row and value counts disagree, or that claims more values than its pages can have.

    Only implausible counts are compared with the pages, because a small chunk can contain many equal values.
    All other checks need only the footer.

    Args:
        row_group: Ordinal of the row group.

    Raises:
        CorruptFileError: If the footer contradicts itself, or the pages.
        UnsupportedFeatureError: If the chunk is encrypted or in another file.
    """
    check_row_count(footer, row_group, leaf)
    meta = footer.chunk_metadata(row_group, leaf)
    if not is_plausible(meta.num_values, meta.total_compressed_size):
        data = source.read(*chunk_range(meta))
        check_values(data, meta.num_values, meta.codec, leaf, footer.metadata.created_by)


def check_row_count(footer: Footer, row_group: int, leaf: Leaf) -> None:
    """Refuse a row group whose row count disagrees with the value count of a column; reads nothing.

    Args:
        row_group: Ordinal of the row group.

    Raises:
        CorruptFileError: If rows and values contradict each other.
        UnsupportedFeatureError: If the chunk is encrypted or in another file.
    """
    num_rows = footer.metadata.row_groups[row_group].num_rows
    check_value_count(leaf, num_rows, footer.chunk_metadata(row_group, leaf).num_values)


def check_value_count(leaf: Leaf, num_rows: int, num_values: int) -> None:
    """Refuse a row count that disagrees with the value count of a column.

    A flat column has one value or null per row. A column in a list or map has at least one entry per row,
    because empty and null lists have an entry, too.

    Args:
        num_rows: Number of rows in the row group, according to the footer.
        num_values: Number of values in the chunk, including nulls, according to the footer.

    Raises:
        CorruptFileError: If the counts contradict each other.
    """
    if num_values < num_rows or (leaf.is_flat and num_values > num_rows):
        raise CorruptFileError(
            f"the row group claims {num_rows} rows, but its column {leaf.name!r} has {num_values} values",
            reason="value-count-mismatch",
            column=leaf.name,
            struct="RowGroup",
        )
