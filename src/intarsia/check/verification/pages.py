"""Check page headers, and the footer's metadata of pages, against the pages."""

from __future__ import annotations

from collections import Counter

from intarsia.check.verification.chunk import CheckedChunk
from intarsia.check.verification.findings import Findings
from intarsia.format.enums import DICTIONARY_ENCODINGS, Encoding, PageType, encoding_name
from intarsia.format.page_header import PAGE_CHECKSUM

_PAGE_HEADER = "PageHeader"


def check_checksums(data: bytes, chunk: CheckedChunk, findings: Findings) -> None:
    """Compare the CRC-32 in page headers with the stored bytes after the header.

    Args:
        data: The bytes of the chunk.
        chunk: The chunk.
        findings: Collects findings.
    """
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
