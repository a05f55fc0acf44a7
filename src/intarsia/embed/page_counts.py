"""Count the values of each page of a chunk from its levels and nulls."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from intarsia.file.decompress import decompress
from intarsia.format.footer import Leaf
from intarsia.format.levels import PageLevels, levels_are_compressed, page_levels
from intarsia.format.page_header import Page
from intarsia.format.structs import ColumnMetaData

Counts = npt.NDArray[np.int64]


def count_levels(chunk: bytes, page: Page, meta: ColumnMetaData, leaf: Leaf) -> PageLevels:
    """Count the levels of a data page.

    Args:
        chunk: The bytes of the chunk.
        page: One of its data pages.
        meta: The chunk's metadata in the footer.
        leaf: The column.

    Raises:
        FormatError: If the levels are damaged.
    """
    body = memoryview(chunk)[page.body_start : page.stop]
    if levels_are_compressed(page.header):
        body = decompress(body, meta.codec, page.header.uncompressed_page_size)
    return page_levels(body, page.header, leaf)


def present_counts(
    num_values: Counts, levels: Sequence[PageLevels] | None, column: pa.ChunkedArray
) -> Counts | None:
    """Count the values of each page that are not null.

    Args:
        num_values: Number of values of each page, including nulls and empty lists.
        levels: Levels of each page, if they were counted.
        column: The decoded values of all pages, including nulls, but not empty and null lists.

    Returns:
        The counts; None if the number of decoded values differs from the pages' claims.
    """
    if levels is not None:
        return np.array([page.num_present for page in levels], dtype=np.int64)
    if len(column) != num_values.sum():
        return None
    if not column.null_count:
        return num_values
    valid = np.concatenate([piece.is_valid().to_numpy(zero_copy_only=False) for piece in column.chunks])
    totals = np.concatenate([[0], np.cumsum(valid, dtype=np.int64)])
    stops = np.cumsum(num_values)
    return np.asarray(totals[stops] - totals[stops - num_values])
