"""The pages of a column chunk: their headers and offsets, in file order.

The offsets of pages are found by reading the headers sequentially, or taken from an OffsetIndex.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from itertools import pairwise

from intarsia.errors import CorruptFileError
from intarsia.file.outlines import DATA_PAGES
from intarsia.format import thrift
from intarsia.format.enums import PageType
from intarsia.format.page_header import Page, page_parser, parse_page
from intarsia.format.structs import OutlineOfPage


def iter_pages(chunk: bytes, num_values: int | None = None, start: int = 0) -> Iterator[Page]:
    """Yield the pages of a column chunk, including the dictionary page and index pages.

    Args:
        chunk: The bytes of the chunk.
        num_values: Stop after this many values (`ColumnMetaData.num_values`) in data pages; further bytes are
            padding.
        start: Offset of the first page in ``chunk``.

    Raises:
        CorruptFileError: If a page is damaged.
    """
    offset, found = start, 0
    while offset < len(chunk) and (num_values is None or found < num_values):
        page = parse_page(chunk, offset)
        yield page
        if page.is_data:
            found += page.num_values
        offset = page.stop


def walk_pages(chunk: bytes, num_values: int | None = None) -> list[Page]:
    """Return all pages of a complete column chunk; see `iter_pages`.

    Raises:
        CorruptFileError: If the pages do not fill the chunk, or do not contain ``num_values`` values.
    """
    pages = list(iter_pages(chunk, num_values))
    found = sum(page.num_values for page in pages if page.is_data)
    if num_values is not None and found != num_values:
        raise CorruptFileError(
            f"the data pages have {found} values, but the footer claims {num_values}",
            reason="page-value-count-mismatch",
            struct="PageHeader",
        )
    return pages


def check_value_counts(data: bytes, chunks: Sequence[Sequence[int]], num_values: Sequence[int]) -> None:
    """Compare the number of values in complete column chunks with the expected numbers.

    Args:
        data: The bytes of the chunks; there may be other bytes between them.
        chunks: Start and end of each chunk in ``data``.
        num_values: Expected number of values in each chunk, including nulls; bytes after them are padding.

    Raises:
        CorruptFileError: If a page is damaged, or a chunk does not have the expected number of values.
    """
    parse_at = thrift.struct_parser(OutlineOfPage, data)
    for (start, stop), expected in zip(chunks, num_values, strict=True):
        position, found = start, 0
        while position < stop and found < expected:
            page, body_start = parse_at(position)
            header = page.data_page_header or page.data_page_header_v2
            if header is not None and page.type in DATA_PAGES:
                found += header.num_values
            position = body_start + page.compressed_page_size
            if not body_start <= position <= stop:
                raise CorruptFileError(
                    f"the page claims {page.compressed_page_size} bytes, but {stop - body_start} follow",
                    reason="page-beyond-end",
                    offset=start,
                    struct="PageHeader",
                )
        if found != expected:
            raise CorruptFileError(
                f"the data pages have {found} values, but the footer claims {expected}",
                reason="page-value-count-mismatch",
                struct="PageHeader",
            )


def dictionary_page(data: bytes, start: int = 0) -> Page:
    """Parse the dictionary page at an offset.

    Raises:
        CorruptFileError: If there is no dictionary page, or it extends beyond the bytes.
    """
    page = parse_page(data, start)
    if page.header.type != PageType.DICTIONARY_PAGE:
        raise CorruptFileError(
            "the page at its location is not a dictionary page",
            reason="not-a-dictionary-page",
            struct="PageHeader",
        )
    return page


def data_pages_at(data: bytes, edges: Sequence[int]) -> list[Page]:
    """Parse consecutive data pages at given offsets.

    Args:
        data: The bytes that contain the pages.
        edges: The offsets of the pages, ascending, and the end of the last one.

    Raises:
        CorruptFileError: If there is no data page at an offset, or it does not end at the next offset.
    """
    pages = []
    parse_at = page_parser(data)
    for start, end in pairwise(edges):
        page = parse_at(start)
        if not page.is_data:
            raise CorruptFileError(
                "this is not a data page", reason="not-a-data-page", offset=start, struct="PageHeader"
            )
        if page.stop != end:
            raise CorruptFileError(
                f"the page has {page.stop - start} bytes, not {end - start}",
                reason="wrong-page-size",
                offset=start,
                struct="PageHeader",
            )
        pages.append(page)
    return pages
