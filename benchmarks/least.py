"""The minimum number of bytes of a query: the pages with its rows, if their locations are known."""

from __future__ import annotations

from itertools import groupby

import numpy as np

import intarsia as ia
from benchmarks.queries import Query
from intarsia.file import ChunkKey, ParquetInput
from intarsia.file.chunks import DictionaryUse, dictionary_range
from intarsia.format.footer import Leaf, chunk_range


def least_bytes(path: str, query: Query) -> int | None:
    """Return the size of the pages of the result's columns that contain matching rows.

    They include the dictionary pages that these pages need, but no footer and no index. A chunk without an
    OffsetIndex counts as a whole.

    Args:
        path: The file or folder.
        query: The query.

    Returns:
        The number of bytes; None for an aggregate, a query without a condition or with an order, and objects.
    """
    if query.total is not None or query.top is not None or query.where is None or "://" in path:
        return None
    matches = ia.open(path).locate(query.where).to_pylist()
    matches.sort(key=lambda match: (match["path"], match["row_group"]))
    total = 0
    for file_path, of_file in groupby(matches, key=lambda match: match["path"]):
        with ParquetInput.open(file_path) as file:
            leaves = [
                leaf for leaf in file.footer.leaves if query.columns is None or leaf.path[0] in query.columns
            ]
            for row_group, found in groupby(of_file, key=lambda match: match["row_group"]):
                first = int(file.footer.row_group_starts[row_group])
                rows = np.array([match["row"] - first for match in found])
                total += sum(_bytes_of_rows(file, row_group, leaf, rows) for leaf in leaves)
    return total


def _bytes_of_rows(file: ParquetInput, row_group: int, leaf: Leaf, rows: np.ndarray) -> int:
    key = ChunkKey(row_group, leaf.ordinal)
    file.load_page_index([key])
    meta, locations = file.footer.chunk_metadata(row_group, leaf), file.locations(key)
    if locations is None:
        start, stop = chunk_range(meta)
        return stop - start
    pages = np.unique(np.searchsorted(locations.rows.starts, rows, side="right") - 1)
    dictionary = dictionary_range(meta, locations)
    (outlines,) = file.metadata.outlines([leaf])
    needed = outlines.pages[row_group].dictionary_use is not DictionaryUse.NEVER
    return int(locations.sizes_bytes[pages].sum()) + (dictionary.length if dictionary and needed else 0)
