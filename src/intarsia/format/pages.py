"""The pages of a column chunk: their headers and offsets, in file order.

The offsets of pages are found by reading the headers sequentially, or taken from an OffsetIndex.
"""

from __future__ import annotations

import zlib
from collections.abc import Iterator, Sequence
from itertools import pairwise
from typing import NamedTuple

from intarsia.errors import CorruptFileError
from intarsia.format import thrift
from intarsia.format.enums import DATA_PAGES, DICTIONARY_ENCODINGS, PageType
from intarsia.format.structs import OutlineOfPage, PageHeader

#: `IntarsiaError.reason` of a page whose bytes contradict the checksum in its header.
PAGE_CHECKSUM = "page-checksum"


def wrong_page(
    reason: str, message: str, *, offset: int | None = None, column: str | None = None
) -> CorruptFileError:
    """Return the error for a page whose header is wrong, or whose bytes contradict it."""
    return CorruptFileError(message, reason=reason, offset=offset, column=column, struct="PageHeader")


class Page(NamedTuple):
    """A page within a buffer.

    Attributes:
        start: Offset of the header.
        body_start: Offset of the body.
        stop: Offset of the end.
        is_data: Whether it is a data page of either version.
        num_values: Number of values, including nulls and empty lists; 0 without a header of its type.
        encoding: Encoding of the values; -1 without a header of its type.
    """

    header: PageHeader
    start: int
    body_start: int
    stop: int
    is_data: bool
    num_values: int
    encoding: int

    @property
    def uses_dictionary(self) -> bool:
        """Whether it is a data page whose values are positions in the dictionary page."""
        return self.is_data and self.encoding in DICTIONARY_ENCODINGS

    def wrong_checksum(self, data: bytes) -> str | None:
        """Return how the bytes contradict the CRC-32 in the header; None if they do not, or if it has none.

        Args:
            data: The bytes that contain the page.
        """
        if self.header.crc is None:
            return None
        actual = zlib.crc32(memoryview(data)[self.body_start : self.stop])
        claimed = self.header.crc & 0xFFFFFFFF  # Thrift integers are signed
        if claimed == actual:
            return None
        what = "the page's" if self.is_data else "the dictionary page's"
        return f"{what} checksum is {claimed:#010x}, but that of its bytes is {actual:#010x}"

    def check_checksum(self, data: bytes) -> None:
        """Compare the CRC-32 in the header, if it has one, with the bytes.

        Raises:
            CorruptFileError: If they differ; its offset is that in ``data``.
        """
        wrong = self.wrong_checksum(data)
        if wrong is not None:
            raise wrong_page(PAGE_CHECKSUM, wrong, offset=self.start)


def _located(parsed: tuple[PageHeader, int], offset: int, end: int) -> Page:
    """Return the page of a header.

    Args:
        parsed: The header, and the offset of its end.
        end: The end of the bytes that contain it.
    """
    header, body_start = parsed
    stop = body_start + header.compressed_page_size
    if header.compressed_page_size < 0 or stop > end:
        raise wrong_page(
            "page-beyond-end",
            f"the page claims {header.compressed_page_size} bytes, but {end - body_start} follow",
            offset=offset,
        )
    of_type = header.data_page_header or header.data_page_header_v2 or header.dictionary_page_header
    num_values, encoding = (of_type.num_values, of_type.encoding) if of_type else (0, -1)
    if num_values < 0:
        raise wrong_page("negative-value-count", f"the page claims {num_values} values", offset=offset)
    return Page(header, offset, body_start, stop, header.type in DATA_PAGES, num_values, encoding)


def parse_page(data: bytes, offset: int = 0) -> Page:
    """Parse the page header at ``offset``, and locate the body and the end of the page.

    Raises:
        CorruptFileError: If there is no page header, or the page extends beyond ``data``.
    """
    return _located(thrift.parse(PageHeader, data, offset), offset, len(data))


def iter_pages(chunk: bytes, num_values: int | None = None, start: int = 0) -> Iterator[Page]:
    """Yield the pages of a column chunk, including the dictionary page and index pages.

    Args:
        num_values: Stop after this many values (`ColumnMetaData.num_values`) in data pages; further bytes are
            padding.
        start: Offset of the first page in ``chunk``.

    Raises:
        CorruptFileError: If a page is damaged.
    """
    offset, found = start, 0
    parse_at = thrift.struct_parser(PageHeader, chunk)
    while offset < len(chunk) and (num_values is None or found < num_values):
        page = _located(parse_at(offset), offset, len(chunk))
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
        raise wrong_page(
            "page-value-count-mismatch",
            f"the data pages have {found} values, but the footer claims {num_values}",
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
                raise wrong_page(
                    "page-beyond-end",
                    f"the page claims {page.compressed_page_size} bytes, but {stop - body_start} follow",
                    offset=start,
                )
        if found != expected:
            raise wrong_page(
                "page-value-count-mismatch",
                f"the data pages have {found} values, but the footer claims {expected}",
            )


def dictionary_page(data: bytes, offset: int = 0) -> Page:
    """Parse the dictionary page at ``offset``.

    Raises:
        CorruptFileError: If there is no dictionary page, or it extends beyond ``data``.
    """
    page = parse_page(data, offset)
    _check_dictionary(page)
    return page


def _check_dictionary(page: Page, stop: int | None = None) -> None:
    if page.header.type != PageType.DICTIONARY_PAGE:
        raise wrong_page("not-a-dictionary-page", "the page at its location is not a dictionary page")
    if stop not in (None, page.stop):
        raise wrong_page(
            "wrong-page-size",
            "the bytes before the data pages are not just a dictionary page",
            offset=page.start,
        )


def pages_at(
    data: bytes, edges: Sequence[int], dictionary: tuple[bytes, int, int] | None = None
) -> list[Page]:
    """Parse consecutive pages at given offsets.

    Args:
        data: The bytes that contain the pages.
        edges: The offsets of data pages, ascending, and the end of the last one.
        dictionary: The bytes that contain the dictionary page, its offset in them, and its end, if it is to
            be parsed, too.

    Raises:
        CorruptFileError: If there is no page of the type at an offset, or it does not end at the next offset.
    """
    parse_at = thrift.struct_parser(PageHeader, data)
    pages = []
    if dictionary is not None:
        before, start, stop = dictionary
        page = _located(parse_at(start), start, len(data)) if before is data else parse_page(before, start)
        _check_dictionary(page, stop)
        pages.append(page)
    for start, end in pairwise(edges):
        page = _located(parse_at(start), start, len(data))
        if not page.is_data:
            raise wrong_page("not-a-data-page", "this is not a data page", offset=start)
        if page.stop != end:
            raise wrong_page(
                "wrong-page-size", f"the page has {page.stop - start} bytes, not {end - start}", offset=start
            )
        pages.append(page)
    return pages
