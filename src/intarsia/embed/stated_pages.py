"""Bounds and counts that a writer states in page headers, used instead of decoding the values.

pyarrow computes its chunk statistics, and its optional page index, from the statistics that it writes into
page headers. If these agree with the chunk's statistics, they are trusted like a page index by pyarrow, and
no value has to be decoded. This applies to integers only. Page statistics of floats do not show whether a
page contains NaN, and pyarrow's bounds of bytes include dictionary values that do not occur in any row.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
import numpy.typing as npt

from intarsia.embed.chunk import Chunk
from intarsia.embed.page_bounds import PageBounds
from intarsia.errors import CorruptFileError
from intarsia.file.trust import Claim
from intarsia.format.page_header import Page
from intarsia.format.structs import Statistics

Counts = npt.NDArray[np.int64]


class StatedPages(NamedTuple):
    """Counts and bounds of the pages of a chunk.

    Attributes:
        present: Number of values of each page that are not null.
        bounds: Bounds of the pages that have a value that is not null.
    """

    present: Counts
    bounds: PageBounds


def stated_pages(chunk: Chunk) -> StatedPages | None:
    """Return the bounds in a chunk's page headers; None if they are missing or not trusted.

    Args:
        chunk: A chunk whose pages have been located, so that each page of a flat column has one value per
            row.
    """
    ordering, whole = chunk.reader.ordering, chunk.meta.statistics
    if ordering is None or whole is None or chunk.order != "TYPE_ORDER":
        return None
    if chunk.file.trust(chunk.leaf).doubt(Claim.PAGE_HEADERS) is not None:
        return None
    stated = [_statistics(page) for page in chunk.pages.data]
    nulls = np.array([-1 if found is None else _count(found.null_count) for found in stated], dtype=np.int64)
    num_values = chunk.pages.num_values
    if (nulls < 0).any() or (nulls > num_values).any() or nulls.sum() != whole.null_count:
        return None
    present = num_values - nulls
    filled = [
        found for found, count in zip(stated, present.tolist(), strict=True) if found is not None and count
    ]
    minima = [found.min_value for found in filled if found.min_value is not None]
    maxima = [found.max_value for found in filled if found.max_value is not None]
    if len(minima) != len(filled) or len(maxima) != len(filled):
        return None
    if filled:
        if whole.min_value is None or whole.max_value is None:
            return None
        try:
            lows, highs = ordering.decode(minima), ordering.decode(maxima)
            low, high = ordering.decode([whole.min_value, whole.max_value])
        except CorruptFileError:
            return None
        if (lows > highs).any() or lows.min() != low or highs.max() != high:
            return None
    return StatedPages(present, PageBounds(minima, maxima))


def _statistics(page: Page) -> Statistics | None:
    header = page.header.data_page_header or page.header.data_page_header_v2
    return None if header is None else header.statistics


def _count(count: int | None) -> int:
    return -1 if count is None else count
