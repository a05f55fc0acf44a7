"""The minimum of a query: the pages with its rows, if their locations are known, and their decompression."""

from __future__ import annotations

import time
from itertools import groupby
from typing import NamedTuple

import numpy as np

import intarsia as ia
from benchmarks.queries import Query
from intarsia.file import ChunkKey, ParquetInput
from intarsia.file.chunks import DictionaryUse, dictionary_range
from intarsia.file.claims import decompress
from intarsia.format.footer import Leaf, chunk_range
from intarsia.format.pages import iter_pages
from intarsia.storage import ByteRange

_TIMED_RUNS = 3


class Least(NamedTuple):
    """What no reader of whole pages can do without.

    Attributes:
        num_bytes: The size of the pages.
        ms: Time to decompress them in one thread.
    """

    num_bytes: int
    ms: float


class _Pages(NamedTuple):
    """Consecutive pages, or one: their bytes and the codec of the chunk."""

    data: bytes
    codec: int


def least_of(path: str, query: Query) -> Least | None:
    """Return the minimum for the pages of the result's columns that contain matching rows.

    They include the dictionary pages that these pages need, but no footer and no index. A chunk without an
    OffsetIndex counts as a whole.

    Args:
        path: The file or folder.
        query: The query.

    Returns:
        The minimum; None for an aggregate, a query without a condition or with an order, and objects.
    """
    if query.total is not None or query.top is not None or query.where is None or "://" in path:
        return None
    matches = ia.open(path).locate(query.where).to_pylist()
    matches.sort(key=lambda match: (match["path"], match["row_group"]))
    pages: list[_Pages] = []
    for file_path, of_file in groupby(matches, key=lambda match: match["path"]):
        with ParquetInput.open(file_path) as file:
            leaves = [
                leaf for leaf in file.footer.leaves if query.columns is None or leaf.path[0] in query.columns
            ]
            for row_group, found in groupby(of_file, key=lambda match: match["row_group"]):
                first = int(file.footer.row_group_starts[row_group])
                rows = np.array([match["row"] - first for match in found])
                for leaf in leaves:
                    pages += _pages_of_rows(file, row_group, leaf, rows)
    return Least(sum(len(page.data) for page in pages), min(_decompress(pages) for _ in range(_TIMED_RUNS)))


def _pages_of_rows(file: ParquetInput, row_group: int, leaf: Leaf, rows: np.ndarray) -> list[_Pages]:
    key = ChunkKey(row_group, leaf.ordinal)
    file.load_page_index([key])
    meta, locations = file.footer.chunk_metadata(row_group, leaf), file.locations(key)
    if locations is None:
        ranges = [ByteRange(*chunk_range(meta))]
    else:
        pages = np.unique(np.searchsorted(locations.rows.starts, rows, side="right") - 1)
        starts, sizes = locations.offsets[pages].tolist(), locations.sizes_bytes[pages].tolist()
        ranges = [ByteRange(start, start + size) for start, size in zip(starts, sizes, strict=True)]
        dictionary = dictionary_range(meta, locations)
        (outlines,) = file.metadata.outlines([leaf])
        if dictionary and outlines.pages[row_group].dictionary_use is not DictionaryUse.NEVER:
            ranges.append(dictionary)
    return [_Pages(data, meta.codec) for data in file.source.read_ranges(ranges)]


def _decompress(pages: list[_Pages]) -> float:
    """Return the milliseconds; levels of pages of version 2 are not compressed, but few."""
    started = time.perf_counter()
    for data, codec in pages:
        for page in iter_pages(data):
            body = memoryview(data)[page.body_start : page.stop]
            two = page.header.data_page_header_v2
            levels = two.repetition_levels_byte_length + two.definition_levels_byte_length if two else 0
            if two is None or two.is_compressed is not False:
                decompress(body[levels:], codec, page.header.uncompressed_page_size - levels)
    return (time.perf_counter() - started) * 1000
