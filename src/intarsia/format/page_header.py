"""Page headers."""

from __future__ import annotations

import zlib
from collections.abc import Callable
from typing import NamedTuple

from intarsia.errors import CorruptFileError
from intarsia.format import thrift
from intarsia.format.enums import DICTIONARY_ENCODINGS, PageType
from intarsia.format.structs import PageHeader

#: `IntarsiaError.reason` of a page whose bytes contradict the checksum in its header.
PAGE_CHECKSUM = "page-checksum"


class Page(NamedTuple):
    """A page within a buffer: its header, and the offsets of header, body and end."""

    header: PageHeader
    start: int
    body_start: int
    stop: int

    @property
    def is_data(self) -> bool:
        """Whether it is a data page of either version."""
        return self.header.type in (PageType.DATA_PAGE, PageType.DATA_PAGE_V2)

    @property
    def num_values(self) -> int:
        """Number of values, including nulls and empty lists; 0 for a page without a header of its type."""
        header = self.header
        of_type = header.data_page_header or header.data_page_header_v2 or header.dictionary_page_header
        return of_type.num_values if of_type else 0

    @property
    def encoding(self) -> int:
        """Encoding of the values; -1 for a page without a header of its type."""
        header = self.header
        of_type = header.data_page_header or header.data_page_header_v2 or header.dictionary_page_header
        return of_type.encoding if of_type else -1

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
            raise CorruptFileError(wrong, reason=PAGE_CHECKSUM, offset=self.start, struct="PageHeader")


def parse_page(data: bytes, offset: int = 0) -> Page:
    """Parse the page header at ``offset``, and locate the body and the end of the page.

    Raises:
        CorruptFileError: If there is no page header, or the page extends beyond ``data``.
    """
    return _page_of(data, offset, *thrift.parse(PageHeader, data, offset))


def page_parser(data: bytes) -> Callable[[int], Page]:
    """`parse_page` for many pages in the same bytes, given the offset of each."""
    parse_at = thrift.struct_parser(PageHeader, data)
    return lambda offset: _page_of(data, offset, *parse_at(offset))


def _page_of(data: bytes, offset: int, header: PageHeader, body_start: int) -> Page:
    stop = body_start + header.compressed_page_size
    if header.compressed_page_size < 0 or stop > len(data):
        raise CorruptFileError(
            f"the page claims {header.compressed_page_size} bytes, but {len(data) - body_start} follow",
            reason="page-beyond-end",
            offset=offset,
            struct="PageHeader",
        )
    page = Page(header, offset, body_start, stop)
    if page.num_values < 0:
        raise CorruptFileError(
            f"the page claims {page.num_values} values",
            reason="negative-value-count",
            offset=offset,
            struct="PageHeader",
        )
    return page
