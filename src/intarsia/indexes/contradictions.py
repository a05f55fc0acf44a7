"""Contradictions between the statistics of a column chunk and the bounds of its pages.

Bounds may be truncated, so lower bounds may be below all values, and upper bounds above them. A contradiction
is proven only if no values fit both.
"""

from __future__ import annotations

import numpy as np
import numpy.typing as npt

from intarsia.errors import CorruptFileError
from intarsia.rows.bounds import Bounds
from intarsia.rows.ordering import Keys


def check_page_bounds(pages: Bounds, chunk: Bounds, row_group: int, *, is_exact: bool) -> None:
    """Compare the bounds of the pages of a chunk with the statistics of the chunk.

    Args:
        pages: The bounds of all pages of the chunk.
        chunk: The statistics of the column in all row groups.
        row_group: Ordinal of the row group.
        is_exact: Whether the bounds in the statistics are values of the chunk.

    Raises:
        CorruptFileError: If no values fit both.
    """
    if chunk.all_null[row_group] and pages.known.any():
        _refuse("all values are null according to the statistics, but pages have bounds")
    all_nulls = np.where(pages.all_null, pages.stops - pages.starts, 0)
    for what, of_pages, least, of_chunk in (
        ("nulls", pages.null_counts, all_nulls, chunk.null_counts[row_group]),
        ("NaNs", pages.nan_counts, np.zeros_like(all_nulls), chunk.nan_counts[row_group]),
    ):
        _check_counts(what, of_pages, least, int(of_chunk))
    if chunk.known[row_group] and pages.known.any():
        # arrays of one key, because NumPy drops zero bytes at the end of a single one
        group = slice(row_group, row_group + 1)
        _check_bounds(pages, chunk.minima[group], chunk.maxima[group], is_exact=is_exact)


def _check_counts(
    what: str, of_pages: npt.NDArray[np.int64], least: npt.NDArray[np.int64], of_chunk: int
) -> None:
    """Compare counts of pages with that of the chunk; negative ones are unknown, but at least ``least``."""
    total = int(np.where(of_pages < 0, least, of_pages).sum())
    if of_chunk >= 0 and (total > of_chunk or (total < of_chunk and (of_pages >= 0).all())):
        _refuse(f"the pages have {total} {what}, but the statistics count {of_chunk}")


def _check_bounds(pages: Bounds, low: Keys, high: Keys, *, is_exact: bool) -> None:
    minima, maxima = pages.minima[pages.known], pages.maxima[pages.known]
    # a page with bounds has a value, which is within the bounds of the page and of the chunk
    if bool((minima > high).any()) or bool((maxima < low).any()):
        _refuse("a page has no value within the bounds of the statistics")
    if not is_exact or not (pages.known | pages.all_null).all():
        return
    assert pages.ordering is not None
    if bool((minima > low).all()) or bool((maxima < high).all()):
        _refuse("no page can have the bounds of the statistics, which are values")
    # numbers are not truncated
    if not pages.ordering.is_bytes and (bool((minima < low).any()) or bool((maxima > high).any())):
        _refuse("a page has a bound that is not within those of the statistics")


def _refuse(problem: str) -> None:
    raise CorruptFileError(problem, reason="bounds-contradict-statistics", struct="ColumnIndex")
