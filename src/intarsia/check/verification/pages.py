"""Check page headers, and the footer's metadata of pages, against the pages."""

from __future__ import annotations

from collections import Counter
from typing import Any

import numpy as np
import numpy.typing as npt
import pyarrow.compute as pc
import xxhash

from intarsia.check.inspection import human_value
from intarsia.check.inspection.values import shown
from intarsia.check.verification.chunk import CheckedChunk
from intarsia.check.verification.findings import Findings
from intarsia.errors import FormatError
from intarsia.file import ParquetInput
from intarsia.format.bloom import FilterLocation, might_contain
from intarsia.format.enums import DICTIONARY_ENCODINGS, Encoding, PageType, Type, encoding_name
from intarsia.format.footer import Footer
from intarsia.format.pages import PAGE_CHECKSUM
from intarsia.format.structs import ColumnMetaData, OffsetIndex
from intarsia.storage import ByteRange

_PAGE_HEADER = "PageHeader"


def check_checksums(data: bytes, chunk: CheckedChunk, findings: Findings) -> None:
    """Compare the CRC-32 in page headers with the stored bytes after the header."""
    ordinal = 0
    for page in chunk.walked:
        data_page = ordinal if page.is_data else None
        ordinal += page.is_data
        if page.header.crc is None:
            continue
        findings.count_checked("page_checksums")
        wrong = page.wrong_checksum(data)
        if wrong is not None:
            findings.add(PAGE_CHECKSUM, wrong, index=_PAGE_HEADER, page=data_page)


def check_counts(chunk: CheckedChunk, findings: Findings) -> None:
    """Check the row and null counts in headers of version 2."""
    for ordinal, page in enumerate(chunk.pages):
        header = page.header.data_page_header_v2
        if header is None:
            continue
        if chunk.rows is not None and header.num_rows != chunk.rows[ordinal]:
            message = f"the page header claims {header.num_rows} rows, but there are {chunk.rows[ordinal]}"
            findings.add("page-header-count", message, page=ordinal)
        # writers differ in what they count as a null in a list
        if chunk.leaf.is_flat and chunk.null_counts is not None:
            nulls = chunk.null_counts[ordinal]
            if header.num_nulls != nulls:
                message = f"the page header claims {header.num_nulls} nulls, but there are {nulls}"
                findings.add("page-header-count", message, page=ordinal)
        if chunk.levels is not None and not chunk.levels[ordinal].starts_row:
            findings.add(
                "page-starts-within-row", "a version 2 page starts in the middle of a row", page=ordinal
            )


def check_encodings(chunk: CheckedChunk, findings: Findings) -> None:
    """Compare the encodings that the footer lists with those of the data pages.

    Readers prune by the dictionary page if the footer declares that every data page uses it.
    """
    if not chunk.is_whole or not chunk.pages:
        return
    found = Counter(_unified(page.encoding) for page in chunk.pages)
    lacking = set(found) - {_unified(encoding) for encoding in chunk.meta.encodings}
    if lacking:
        message = f"encodings omits {_names(lacking)}, which pages use"
        findings.add("encodings-incomplete", message, index="encodings")
    stats = chunk.meta.encoding_stats
    if not stats:
        return
    claimed: Counter[int] = Counter()
    for entry in stats:
        if entry.page_type in (PageType.DATA_PAGE, PageType.DATA_PAGE_V2) and entry.count:
            claimed[_unified(entry.encoding)] += entry.count
    hidden = set(found) - {Encoding.RLE_DICTIONARY}
    if set(claimed) == {Encoding.RLE_DICTIONARY} and hidden:
        ordinal = next(position for position, page in enumerate(chunk.pages) if not page.uses_dictionary)
        message = f"it declares all pages dictionary-encoded, but one uses {_names(hidden)}"
        findings.add("encoding-stats-hide-pages", message, index="encoding_stats", page=ordinal)
    elif claimed != found:
        message = f"it counts data pages by encoding as {_counts(claimed)}, but there are {_counts(found)}"
        findings.add("encoding-stats", message, index="encoding_stats")


def _unified(encoding: int) -> int:
    """Map PLAIN_DICTIONARY to RLE_DICTIONARY, its newer name."""
    return Encoding.RLE_DICTIONARY if encoding in DICTIONARY_ENCODINGS else encoding


def _names(encodings: set[int]) -> str:
    return ", ".join(map(encoding_name, sorted(encodings)))


def _counts(counts: Counter[int]) -> str:
    return (
        ", ".join(f"{count} {encoding_name(encoding)}" for encoding, count in sorted(counts.items()))
        or "none"
    )


_SIZE_STATISTICS = "SizeStatistics"


def check_size_statistics(chunk: CheckedChunk, findings: Findings) -> None:
    """Compare a chunk's SizeStatistics with its levels and values."""
    sizes = chunk.meta.size_statistics
    if sizes is None:
        return
    findings.count_checked("size_statistics")
    claimed = sizes.unencoded_byte_array_data_bytes
    if claimed is not None and chunk.value_bytes is not None and claimed != chunk.value_bytes.sum():
        message = f"the size of the values is {claimed} bytes, but they have {chunk.value_bytes.sum()}"
        findings.add("unencoded-bytes", message, index=_SIZE_STATISTICS)
    if chunk.level_histograms is None:
        return
    names = "repetition", "definition"
    histograms = sizes.repetition_level_histogram, sizes.definition_level_histogram
    for name, histogram, pages in zip(names, histograms, chunk.level_histograms, strict=True):
        actual = pages.sum(axis=0).tolist()
        if histogram and histogram != actual:
            message = f"the histogram of {name} levels is {histogram[:8]}, but should be {actual[:8]}"
            findings.add("level-histogram", message, index=_SIZE_STATISTICS)


def check_value_bytes(chunk: CheckedChunk, index: OffsetIndex, findings: Findings) -> None:
    """Compare the sizes of values in an OffsetIndex with each page."""
    claimed = index.unencoded_byte_array_data_bytes
    if not claimed or chunk.value_bytes is None:
        return
    if len(claimed) != len(chunk.pages):
        message = f"it has the sizes of the values of {len(claimed)} pages, but there are {len(chunk.pages)}"
        findings.add("unencoded-bytes", message, index="OffsetIndex")
        return
    for page, (stated, actual) in enumerate(zip(claimed, chunk.value_bytes.tolist(), strict=True)):
        if stated != actual:
            message = f"the size of the page's values is {stated} bytes, but they have {actual}"
            findings.add("unencoded-bytes", message, index="OffsetIndex", page=page)


def check_chunk_size(chunk: CheckedChunk, findings: Findings) -> None:
    """Compare the sizes of a chunk in the footer with its pages."""
    if not chunk.is_whole or not chunk.walked:
        return
    headers = sum(page.body_start - page.start for page in chunk.walked)
    bodies = sum(page.stop - page.body_start for page in chunk.walked)
    plain = sum(page.header.uncompressed_page_size for page in chunk.walked)
    for name, claimed, actual in (
        ("total_compressed_size", chunk.meta.total_compressed_size, headers + bodies),
        ("total_uncompressed_size", chunk.meta.total_uncompressed_size, headers + plain),
    ):
        if claimed != actual:
            message = f"{name} is {claimed}, but the pages with their headers have {actual} bytes"
            findings.add("chunk-size", message)


def check_row_group_size(footer: Footer, row_group: int, findings: Findings) -> None:
    """Compare the sizes of a row group in the footer with those of its chunks."""
    group = footer.metadata.row_groups[row_group]
    metas = [chunk.meta_data for chunk in group.columns]
    if not metas or any(meta is None for meta in metas):  # encrypted, or in another file
        return
    plain = sum(meta.total_uncompressed_size for meta in metas if meta)
    compressed = sum(meta.total_compressed_size for meta in metas if meta)
    for name, claimed, actual in (
        ("total_byte_size", group.total_byte_size, plain),
        ("total_compressed_size", group.total_compressed_size, compressed),
    ):
        if claimed is not None and claimed != actual:
            message = f"{name} is {claimed}, but its chunks have {actual} bytes"
            findings.add("row-group-size", message)


_BLOOM_FILTER = "BloomFilter"


def check_bloom_filter(file: ParquetInput, chunk: CheckedChunk, findings: Findings) -> None:
    """Look up every distinct value of a chunk in its Bloom filter."""
    bits = _read_bits(file, chunk.meta, findings)
    if bits is None:
        return
    values = _plain_values(chunk)
    if values is None:
        message = "its values cannot be decoded, or their hashed form is undefined"
        findings.add("unchecked", message, index=_BLOOM_FILTER)
        return
    findings.count_checked("bloom_filters")
    hashes = np.fromiter(map(xxhash.xxh64_intdigest, values), dtype=np.uint64, count=len(values))
    excluded = np.flatnonzero(~might_contain(bits, hashes))
    if len(excluded):
        example = shown(human_value(chunk.leaf, values[int(excluded[0])]))
        message = f"it excludes {len(excluded)} of {len(values)} present distinct values, such as {example}"
        findings.add("bloom-filter-excludes-values", message, index=_BLOOM_FILTER)


def _read_bits(file: ParquetInput, meta: ColumnMetaData, findings: Findings) -> bytes | None:
    bits = locate_bits(file, meta, findings)
    return None if bits is None else file.source.read(*bits)


def locate_bits(file: ParquetInput, meta: ColumnMetaData, findings: Findings) -> ByteRange | None:
    """Return the location of a filter's bits, by its header; None, and a finding, if it cannot be read."""
    body_stop = file.footer.start
    try:
        location = FilterLocation.of(meta, body_stop)
        by_header = FilterLocation(location.start, body_stop)
        start, stop = by_header.bits(file.source.read(*by_header.head))
    except FormatError as error:
        findings.add("bloom-filter-unreadable", error.message, index=_BLOOM_FILTER)
        return None
    try:
        location.check_length(stop)
    except FormatError as error:  # readers that do not compare the lengths use the bits
        findings.add("bloom-filter-length", error.message, index=_BLOOM_FILTER)
    return ByteRange(start, stop)


def _plain_values(chunk: CheckedChunk) -> list[bytes] | None:
    """Return the distinct values in their hashed form; None if that is uncertain."""
    ordering = chunk.ordering
    if chunk.values is None or chunk.leaf.type == Type.BOOLEAN:
        return None
    is_decimal = ordering is not None and ordering.decimal
    if chunk.leaf.type == Type.INT96 or (is_decimal and chunk.leaf.type == Type.BYTE_ARRAY):
        stored: list[bytes] = pc.unique(chunk.stored_values).to_pylist()
        return stored
    if ordering is None:
        return None
    if ordering.wire is not None:
        numbers: npt.NDArray[Any] = chunk.numbers
        if ordering.is_float:  # by bits, because the zeros have different hashes; NaN is not looked up
            numbers = _distinct(numbers[~np.isnan(numbers)].view(np.int64)).view(np.float64)
        else:
            numbers = _distinct(numbers)
        raw, width = numbers.astype(ordering.wire).tobytes(), ordering.wire.itemsize
        return [raw[start : start + width] for start in range(0, len(raw), width)]
    distinct = pc.unique(chunk.values)
    if ordering.decimal:
        return [ordering.encode(key) for key in ordering.keys(distinct)]
    return list(ordering.keys(distinct))


def _distinct(numbers: npt.NDArray[Any]) -> npt.NDArray[Any]:
    """Return the distinct numbers in order, by sorting, which is faster than NumPy's hashes."""
    ordered = np.sort(numbers)
    is_new = np.ones(len(ordered), dtype=bool)
    np.not_equal(ordered[1:], ordered[:-1], out=is_new[1:])
    return ordered[is_new]
