"""What a writer states of each page in its header, where that is as good as a page index of its own.

pyarrow makes its chunk statistics, and the page index that it does not write unless asked, out of the
statistics that it puts into page headers.  Where these agree with the chunk's, they are believed as the page
index would be, and no value has to be decoded.  Only of whole numbers: of floats nobody says whether there is
NaN, and of bytes pyarrow also counts what a dictionary holds and no row does.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
import numpy.typing as npt

from intarsia.embed.chunk import Chunk
from intarsia.embed.page_bounds import PageBounds
from intarsia.errors import CorruptFileError
from intarsia.file.trust import Claim, Trust
from intarsia.format.page_header import Page
from intarsia.format.structs import Statistics

Counts = npt.NDArray[np.int64]


class ToldPages(NamedTuple):
    """What is known of the pages of a chunk.

    Attributes:
        present: Values of each page that are not null.
        bounds: Of the pages that hold such values.
    """

    present: Counts
    bounds: PageBounds


def stated_pages(chunk: Chunk) -> ToldPages | None:
    """What the page headers of a chunk state; None if they do not, or cannot be believed.

    Args:
        chunk: A chunk whose pages have their rows, so that each has as many values as rows if it is flat.
    """
    ordering, whole = chunk.reader.ordering, chunk.meta.statistics
    if ordering is None or whole is None or chunk.order != "TYPE_ORDER":
        return None
    if Trust(chunk.file.footer, chunk.leaf).doubt(Claim.PAGE_HEADERS) is not None:
        return None
    stated = [_statistics(page) for page in chunk.pages.data]
    nulls = np.array([-1 if found is None else _count(found.null_count) for found in stated], dtype=np.int64)
    num_values = chunk.pages.num_values
    if (nulls < 0).any() or (nulls > num_values).any() or nulls.sum() != whole.null_count:
        return None
    present = num_values - nulls
    held = [
        found for found, count in zip(stated, present.tolist(), strict=True) if found is not None and count
    ]
    minima = [found.min_value for found in held if found.min_value is not None]
    maxima = [found.max_value for found in held if found.max_value is not None]
    if len(minima) != len(held) or len(maxima) != len(held):
        return None
    if held:
        if whole.min_value is None or whole.max_value is None:
            return None
        try:
            lows, highs = ordering.decode(minima), ordering.decode(maxima)
            low, high = ordering.decode([whole.min_value, whole.max_value])
        except CorruptFileError:
            return None
        if (lows > highs).any() or lows.min() != low or highs.max() != high:
            return None
    return ToldPages(present, PageBounds(minima, maxima))


def _statistics(page: Page) -> Statistics | None:
    header = page.header.data_page_header or page.header.data_page_header_v2
    return None if header is None else header.statistics


def _count(count: int | None) -> int:
    return -1 if count is None else count
