"""Decompress page bodies with pyarrow."""

from __future__ import annotations

from collections.abc import Iterable

import pyarrow as pa

from intarsia.errors import CorruptFileError, UnsupportedFeatureError
from intarsia.format.enums import CompressionCodec
from intarsia.format.pages import Page

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
        pages: The pages.
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
    return CorruptFileError(
        f"a page claims {claimed} bytes, but its {num_bytes} compressed bytes expand to at most "
        f"{limit * num_bytes}",
        reason="invalid-page-size",
        offset=offset,
        struct="PageHeader",
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
        raise CorruptFileError(
            f"a page claims {uncompressed_bytes} bytes", reason="invalid-page-size", struct="PageHeader"
        )
    if uncompressed_bytes == 0:
        return memoryview(b"")
    limit = _MAX_EXPANSION.get(codec)  # type: ignore[call-overload]
    if limit is not None and uncompressed_bytes > limit * len(body):
        raise _too_large(len(body), uncompressed_bytes, limit)
    if codec == CompressionCodec.LZ4:
        return _lz4(memoryview(body), uncompressed_bytes)
    name = _CODECS.get(codec)  # type: ignore[call-overload]
    if name is None or not pa.Codec.is_available(name):
        shown = CompressionCodec(codec).name if codec in tuple(CompressionCodec) else str(codec)
        raise UnsupportedFeatureError(
            f"pages are compressed with {shown}, which this pyarrow does not support; rewrite the file with "
            "ZSTD",
            reason="unsupported-codec",
        )
    return _undo(name, body, uncompressed_bytes)


def _undo(name: str, body: bytes | memoryview, uncompressed_bytes: int) -> memoryview:
    try:
        return memoryview(pa.decompress(body, uncompressed_bytes, codec=name)).cast("B")
    except MemoryError:  # too little memory says nothing about the page
        raise
    except (pa.ArrowException, OSError, ValueError) as error:
        raise CorruptFileError(
            f"a page does not decompress: {error}", reason="decompression-failed", struct="PageHeader"
        ) from error


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
