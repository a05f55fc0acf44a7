"""Page headers, and what the footer says of pages, against the pages themselves."""

from __future__ import annotations

import zlib
from collections import Counter

from intarsia.check.verification.chunk import CheckedChunk
from intarsia.check.verification.findings import Findings
from intarsia.format.structs import DICTIONARY_ENCODINGS, Encoding, PageType

_PAGE_HEADER = "PageHeader"


def check_checksums(data: bytes, chunk: CheckedChunk, findings: Findings) -> None:
    """Compare the CRC-32 of each page that has one with its bytes as they are stored, header aside.

    Args:
        data: The bytes of the chunk.
        chunk: Whose pages these are.
        findings: Where to note.
    """
    ordinal = 0
    for page in chunk.walked:
        place = ordinal if page.is_data else None
        ordinal += page.is_data
        if page.header.crc is None:
            continue
        findings.checked["page_checksums"] += 1
        actual = zlib.crc32(memoryview(data)[page.body_start : page.stop])
        claimed = page.header.crc & 0xFFFFFFFF  # Thrift has signed numbers only
        if claimed != actual:
            what = "the page's" if page.is_data else "the dictionary page's"
            message = f"{what} checksum is {claimed:#010x}, that of its bytes {actual:#010x}"
            findings.add("page-checksum", message, index=_PAGE_HEADER, page=place)


def check_counts(chunk: CheckedChunk, findings: Findings) -> None:
    """Headers of version 2, which count rows and nulls."""
    for ordinal, page in enumerate(chunk.pages):
        header = page.header.data_page_header_v2
        if header is None:
            continue
        if chunk.rows is not None and header.num_rows != chunk.rows[ordinal]:
            message = f"the page header says {header.num_rows} rows, there are {chunk.rows[ordinal]}"
            findings.add("page-header-count", message, page=ordinal)
        # what counts as a null in a list differs from writer to writer
        if chunk.leaf.is_flat and chunk.null_counts is not None:
            nulls = chunk.null_counts[ordinal]
            if header.num_nulls != nulls:
                message = f"the page header says {header.num_nulls} nulls, there are {nulls}"
                findings.add("page-header-count", message, page=ordinal)
        if chunk.levels is not None and not chunk.levels[ordinal].starts_row:
            findings.add("page-starts-within-row", "a version 2 page starts within a row", page=ordinal)


def check_encodings(chunk: CheckedChunk, findings: Findings) -> None:
    """Compare the encodings that the footer lists with those of the data pages.

    Readers prune by the dictionary page where the footer says that every data page takes its values from it.
    """
    if not chunk.is_whole or not chunk.pages:
        return
    found = Counter(_unified(page.encoding) for page in chunk.pages)
    lacking = set(found) - {_unified(encoding) for encoding in chunk.meta.encodings}
    if lacking:
        message = f"encodings leaves out {_names(lacking)}, which pages have"
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
        ordinal = next(place for place, page in enumerate(chunk.pages) if not page.uses_dictionary)
        message = f"it says that all pages are dictionary-encoded, but here is one in {_names(hidden)}"
        findings.add("encoding-stats-hide-pages", message, index="encoding_stats", page=ordinal)
    elif claimed != found:
        message = f"it counts data pages as {_counts(claimed)}, they are {_counts(found)}"
        findings.add("encoding-stats", message, index="encoding_stats")


def _unified(encoding: int) -> int:
    """PLAIN_DICTIONARY is an older name of RLE_DICTIONARY."""
    return Encoding.RLE_DICTIONARY if encoding in DICTIONARY_ENCODINGS else encoding


def _name(encoding: int) -> str:
    return Encoding(encoding).name if encoding in tuple(Encoding) else f"encoding {encoding}"


def _names(encodings: set[int]) -> str:
    return ", ".join(map(_name, sorted(encodings)))


def _counts(counts: Counter[int]) -> str:
    return ", ".join(f"{count} {_name(encoding)}" for encoding, count in sorted(counts.items())) or "none"
