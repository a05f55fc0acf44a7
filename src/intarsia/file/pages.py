"""The pages of a column chunk: their headers and places, in the order of the file.

Pages either follow one another, and then each header tells where the next one starts, or an OffsetIndex tells
where data pages are.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from intarsia.errors import CorruptFileError
from intarsia.format.page_header import Page, parse_page


def iter_pages(chunk: bytes, num_values: int | None = None) -> Iterator[Page]:
    """Pages of a column chunk from its first byte on, the dictionary page and index pages included.

    Args:
        chunk: The bytes of the chunk.
        num_values: Stop after this many values (`ColumnMetaData.num_values`) in data pages; any bytes after
            them are padding.

    Raises:
        CorruptFileError: At a page that is damaged.
    """
    offset = found = 0
    while offset < len(chunk) and (num_values is None or found < num_values):
        page = parse_page(chunk, offset)
        yield page
        if page.is_data:
            found += page.num_values
        offset = page.stop


def walk_pages(chunk: bytes, num_values: int | None = None) -> list[Page]:
    """All pages of a complete column chunk; see `iter_pages`.

    Raises:
        CorruptFileError: If the pages do not fill the chunk, or do not hold ``num_values`` values.
    """
    pages = list(iter_pages(chunk, num_values))
    found = sum(page.num_values for page in pages if page.is_data)
    if num_values is not None and found != num_values:
        raise CorruptFileError(
            f"the data pages hold {found} values, the footer counts {num_values}", struct="PageHeader"
        )
    return pages


def data_pages_at(data: bytes, starts: Sequence[int]) -> list[Page]:
    """The data pages that start at some offsets, each of which ends where the next one starts.

    Args:
        data: Pages, end to end.
        starts: The offsets, ascending; the last page ends with ``data``.

    Raises:
        CorruptFileError: If something else lies there.
    """
    pages = []
    for start, end in zip(starts, [*starts[1:], len(data)], strict=True):
        page = parse_page(data, start)
        if not page.is_data:
            raise CorruptFileError("this is not a data page", offset=start, struct="PageHeader")
        if page.stop != end:
            raise CorruptFileError(
                f"the page has {page.stop - start} bytes, not {end - start}",
                offset=start,
                struct="PageHeader",
            )
        pages.append(page)
    return pages
