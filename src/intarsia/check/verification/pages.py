"""Check page headers, and what the footer says of pages, chunks and row groups, against the pages."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc
import xxhash

from intarsia.check.verification.chunk import CheckedChunk
from intarsia.check.verification.findings import Findings
from intarsia.embed.chunk_statistics import distinct_numbers
from intarsia.embed.leaf_values import LeafReader
from intarsia.errors import FormatError
from intarsia.file import ParquetInput
from intarsia.format.bloom import FilterLocation, might_contain
from intarsia.format.enums import DICTIONARY_ENCODINGS, Encoding, PageType, Type, encoding_name
from intarsia.format.footer import Footer, chunk_range
from intarsia.format.pages import PAGE_CHECKSUM, walk_pages
from intarsia.format.structs import ColumnMetaData
from intarsia.rows.values import human_value, shown
from intarsia.storage import ByteRange


def check_checksums(chunk: CheckedChunk) -> None:
    """Compare the CRC-32 in page headers with the stored bytes after the header."""
    ordinal, findings = 0, chunk.findings.of("PageHeader")
    for page in chunk.walked:
        data_page = ordinal if page.is_data else None
        ordinal += page.is_data
        if page.header.crc is None:
            continue
        findings.count_checked("page_checksums")
        wrong = page.wrong_checksum(chunk.data)
        if wrong is not None:
            findings.add(PAGE_CHECKSUM, wrong, page=data_page)


def check_counts(chunk: CheckedChunk) -> None:
    """Check the row and null counts in headers of version 2."""
    findings = chunk.findings
    for ordinal, page in enumerate(chunk.pages):
        header = page.header.data_page_header_v2
        if header is None:
            continue
        # writers differ in what they count as a null in a list
        nulls = chunk.null_counts if chunk.leaf.is_flat else None
        for what, claimed, actual in (
            ("rows", header.num_rows, chunk.rows),
            ("nulls", header.num_nulls, nulls),
        ):
            if actual is not None and claimed != actual[ordinal]:
                message = f"the page header claims {claimed} {what}, but there are {actual[ordinal]}"
                findings.add("page-header-count", message, page=ordinal)
        if chunk.levels is not None and not chunk.levels[ordinal].starts_row:
            message = "a version 2 page starts in the middle of a row"
            findings.add("page-starts-within-row", message, page=ordinal)


def check_encodings(chunk: CheckedChunk) -> None:
    """Compare the encodings that the footer lists with those of the data pages.

    Readers prune by the dictionary page if the footer declares that every data page uses it.
    """
    if not chunk.is_whole or not chunk.pages:
        return
    findings = chunk.findings
    found = Counter(_unified(page.encoding) for page in chunk.pages)
    lacking = set(found) - {_unified(encoding) for encoding in chunk.meta.encodings}
    if lacking:
        message = f"encodings omits {_names(lacking)}, which pages use"
        findings.of("encodings").add("encodings-incomplete", message)
    if not chunk.meta.encoding_stats:
        return
    findings = findings.of("encoding_stats")
    claimed: Counter[int] = Counter()
    for entry in chunk.meta.encoding_stats:
        if entry.page_type in (PageType.DATA_PAGE, PageType.DATA_PAGE_V2) and entry.count:
            claimed[_unified(entry.encoding)] += entry.count
    hidden = set(found) - {Encoding.RLE_DICTIONARY}
    if set(claimed) == {Encoding.RLE_DICTIONARY} and hidden:
        ordinal = next(position for position, page in enumerate(chunk.pages) if not page.uses_dictionary)
        message = f"it declares all pages dictionary-encoded, but one uses {_names(hidden)}"
        findings.add("encoding-stats-hide-pages", message, page=ordinal)
    elif claimed != found:
        message = f"it counts data pages by encoding as {_counts(claimed)}, but there are {_counts(found)}"
        findings.add("encoding-stats", message)


def _unified(encoding: int) -> int:
    """Map PLAIN_DICTIONARY to RLE_DICTIONARY, its newer name."""
    return Encoding.RLE_DICTIONARY if encoding in DICTIONARY_ENCODINGS else encoding


def _names(encodings: set[int]) -> str:
    return ", ".join(map(encoding_name, sorted(encodings)))


def _counts(counts: Counter[int]) -> str:
    return ", ".join(f"{number} {encoding_name(one)}" for one, number in sorted(counts.items())) or "none"


def check_size_statistics(chunk: CheckedChunk) -> None:
    """Compare a chunk's SizeStatistics with its levels and values."""
    sizes, findings = chunk.meta.size_statistics, chunk.findings.of("SizeStatistics")
    if sizes is None:
        return
    findings.count_checked("size_statistics")
    claimed = sizes.unencoded_byte_array_data_bytes
    if claimed is not None and chunk.value_bytes is not None and claimed != chunk.value_bytes.sum():
        message = f"the size of the values is {claimed} bytes, but they have {chunk.value_bytes.sum()}"
        findings.add("unencoded-bytes", message)
    for name, pages in chunk.level_histograms.items():
        histogram, actual = getattr(sizes, f"{name}_level_histogram"), pages.sum(axis=0).tolist()
        if histogram and histogram != actual:
            message = f"the histogram of {name} levels is {histogram[:8]}, but should be {actual[:8]}"
            findings.add("level-histogram", message)


def check_chunk_size(chunk: CheckedChunk) -> None:
    """Compare the sizes of a chunk in the footer with its pages."""
    if not chunk.is_whole or not chunk.walked:
        return
    meta, findings = chunk.meta, chunk.findings
    headers = sum(page.body_start - page.start for page in chunk.walked)
    bodies = sum(page.stop - page.body_start for page in chunk.walked)
    plain = sum(page.header.uncompressed_page_size for page in chunk.walked)
    for name, claimed, actual in (
        ("total_compressed_size", meta.total_compressed_size, headers + bodies),
        ("total_uncompressed_size", meta.total_uncompressed_size, headers + plain),
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
            findings.add("row-group-size", f"{name} is {claimed}, but its chunks have {actual} bytes")


def check_bloom_filter(chunk: CheckedChunk) -> None:
    """Look up every distinct value of a chunk in its Bloom filter."""
    if not chunk.meta.bloom_filter_offset:
        return
    findings = chunk.findings.of("BloomFilter")
    findings.note_writer("BloomFilter", chunk.file.trust(chunk.leaf).doubt_of_bloom_filter(chunk.meta))
    bits = locate_bits(chunk.file, chunk.meta, findings)
    if bits is None:
        return
    values = _plain_values(chunk)
    if values is None:
        findings.add("unchecked", "its values cannot be decoded, or their hashed form is undefined")
        return
    findings.count_checked("bloom_filters")
    hashes = np.fromiter(map(xxhash.xxh64_intdigest, values), dtype=np.uint64, count=len(values))
    excluded = np.flatnonzero(~might_contain(chunk.file.source.read(*bits), hashes))
    if len(excluded):
        example = shown(human_value(chunk.leaf, values[int(excluded[0])]))
        message = f"it excludes {len(excluded)} of {len(values)} present distinct values, such as {example}"
        findings.add("bloom-filter-excludes-values", message)


def locate_bits(file: ParquetInput, meta: ColumnMetaData, findings: Findings) -> ByteRange | None:
    """Return the location of a filter's bits, by its header; None, and a finding, if it cannot be read."""
    body_stop = file.footer.start
    try:
        location = FilterLocation.of(meta, body_stop)
        by_header = FilterLocation(location.start, body_stop)
        start, stop = by_header.bits(file.source.read(*by_header.head))
    except FormatError as error:
        findings.add("bloom-filter-unreadable", error.message)
        return None
    try:
        location.check_length(stop)
    except FormatError as error:  # readers that do not compare the lengths use the bits
        findings.add("bloom-filter-length", error.message)
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
        numbers = chunk.numbers
        if ordering.is_float:  # by bits, because the zeros have different hashes; NaN is not looked up
            numbers = distinct_numbers(numbers[~np.isnan(numbers)].view(np.int64)).view(np.float64)
        else:
            numbers = distinct_numbers(numbers)
        raw, width = numbers.astype(ordering.wire).tobytes(), ordering.wire.itemsize
        return [raw[start : start + width] for start in range(0, len(raw), width)]
    keys = ordering.keys(pc.unique(chunk.values))
    return [ordering.encode(key) for key in keys] if ordering.decimal else list(keys)


_SORTING_COLUMNS = "sorting_columns"

Steps = npt.NDArray[np.int8]


def sorting_columns(file: ParquetInput, row_group: int) -> set[int]:
    """Return the ordinals of the leaves by which a row group is declared to be sorted."""
    return {claim.column_idx for claim in file.footer.metadata.row_groups[row_group].sorting_columns or ()}


def check_sorting(
    file: ParquetInput, row_group: int, readers: Sequence[LeafReader], findings: Findings
) -> None:
    """Compare each row of a row group with the next, one sorting column at a time."""
    group = file.footer.metadata.row_groups[row_group]
    if not group.sorting_columns or group.num_rows < 2:
        return
    findings.count_checked("sorting_orders")
    tied: npt.NDArray[np.bool_] | None = None  # rows equal to the next one in the columns so far
    for claim in group.sorting_columns:
        if not 0 <= claim.column_idx < len(readers):
            message = f"sorting column {claim.column_idx} does not exist; there are {len(readers)} columns"
            findings.at(row_group, None).add("sorting-column", message, index=_SORTING_COLUMNS)
            return
        reader = readers[claim.column_idx]
        chunk_findings = findings.at(row_group, reader.leaf.name)
        values = _values(file, row_group, reader, chunk_findings)
        if values is None:
            return
        try:
            found = steps(values, descending=claim.descending, nulls_first=claim.nulls_first)
        except pa.ArrowException as error:  # invalid UTF-8
            chunk_findings.add("unchecked", f"its values cannot be compared: {error}", index=_SORTING_COLUMNS)
            return
        tied = np.ones(len(found), dtype=bool) if tied is None else tied
        breaks = np.flatnonzero(tied & (found < 0))
        if len(breaks):
            order = f"{'descending' if claim.descending else 'ascending'}, "
            order += f"nulls {'first' if claim.nulls_first else 'last'}"
            message = f"the rows are declared sorted ({order}), but row {breaks[0] + 1} of the row group "
            message += f"precedes row {breaks[0]} in this order"
            message += f", and {len(breaks) - 1} more are out of order" if len(breaks) > 1 else ""
            chunk_findings.add("rows-not-sorted", message, index=_SORTING_COLUMNS)
            return
        tied &= found == 0


def steps(values: pa.Array, *, descending: bool, nulls_first: bool) -> Steps:
    """Compare each row with the next: 1 if they are in order, 0 if they are equal, -1 if not in order.

    NaN and zeros of different signs are in order with everything, because writers place them differently.

    Example:
        >>> steps(pa.array([None, 1, 1, 3, 2]), descending=False, nulls_first=True).tolist()
        [1, 0, 1, -1]
    """
    if pa.types.is_float16(values.type):
        values = values.cast(pa.float32())
    here, following = values[:-1], values[1:]
    valid = values.is_valid().to_numpy(zero_copy_only=False)
    is_here, is_next = valid[:-1], valid[1:]
    found = np.ones(len(here), dtype=np.int8)
    found[_mask(pc.less(here, following) if descending else pc.greater(here, following))] = -1
    same = _mask(pc.equal(here, following))
    if pa.types.is_floating(values.type):
        signs = np.signbit(values.fill_null(0).to_numpy(zero_copy_only=False))
        same &= signs[:-1] == signs[1:]
    found[same | ~(is_here | is_next)] = 0
    found[(is_here & ~is_next) if nulls_first else (~is_here & is_next)] = -1
    return found


def _mask(found: pa.Array) -> npt.NDArray[np.bool_]:
    return np.array(found.fill_null(False).to_numpy(zero_copy_only=False), dtype=bool)


def _values(file: ParquetInput, row_group: int, reader: LeafReader, findings: Findings) -> pa.Array | None:
    """Return the values of a sorting column, one per row; None, with a finding, if they have no order."""
    try:
        meta = file.footer.chunk_metadata(row_group, reader.leaf)
        if not reader.leaf.is_flat or reader.ordering is None:
            message = "rows cannot be sorted by a column of this type"
            findings.add("unchecked", message, index=_SORTING_COLUMNS)
            return None
        data = file.source.read(*chunk_range(meta))
        num_rows = file.footer.metadata.row_groups[row_group].num_rows
        if not any(page.is_data for page in walk_pages(data, meta.num_values)):
            return None
        column = reader.read(data, meta, num_rows, as_dictionary=False)
    except FormatError:  # reported with the chunk
        return None
    return column.combine_chunks() if len(column) == num_rows else None
