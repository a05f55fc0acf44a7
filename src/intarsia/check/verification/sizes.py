"""Check sizes and level histograms in the footer and the OffsetIndex against the pages and values."""

from __future__ import annotations

from intarsia.check.verification.chunk import CheckedChunk
from intarsia.check.verification.findings import Findings
from intarsia.format.footer import Footer
from intarsia.format.structs import OffsetIndex

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
