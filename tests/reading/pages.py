"""The layout of a file, found without the page index, and the parts of it that were read."""

from __future__ import annotations

import os
from collections import Counter
from dataclasses import field

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq

from intarsia.file import ParquetInput
from intarsia.format.footer import TRAILER_BYTES, chunk_range
from intarsia.format.pages import walk_pages
from intarsia.lake.data_file import DataFile
from intarsia.lake.table import Table
from intarsia.records import dataclass
from intarsia.storage import ByteRange, LocalFile

ROWS = 6000
ROWS_PER_GROUP = 2500
COLUMNS = ("key", "flag", "small", "text", "shuffled", "value")


def sorted_table() -> pa.Table:
    """The rows of the ``sorted_file`` fixture."""
    random = np.random.default_rng(20)
    return pa.table(
        {
            "key": pa.array(np.arange(ROWS) * 2),
            "flag": pa.array(np.arange(ROWS) % 3 == 0),
            "small": pa.array((np.arange(ROWS) % 50).astype(np.int8)),
            "text": [f"text number {row:06} {'x' * 40}" for row in range(ROWS)],
            "shuffled": random.permutation(ROWS),
            "value": pa.array(random.random(ROWS), mask=np.arange(ROWS) % 7 == 0),
        }
    )


@dataclass(frozen=True)
class DataPage:
    """A data page of a flat column, according to its header; rows are numbered through the file."""

    place: ByteRange
    first_row: int
    stop_row: int
    uses_dictionary: bool

    def holds(self, rows) -> bool:
        return any(self.first_row <= row < self.stop_row for row in rows)


@dataclass
class Layout:
    """The location of every structure of a file; the lists of a column include all row groups."""

    pages: dict[str, list[DataPage]] = field(default_factory=dict)
    dictionaries: dict[str, list[ByteRange]] = field(default_factory=dict)
    indexes: dict[str, ByteRange] = field(default_factory=dict)
    footer: ByteRange = field(default_factory=lambda: ByteRange(0, 0))

    def pages_with(self, column, rows) -> list[int]:
        """Ordinals of a column's pages that contain some of the rows."""
        return [ordinal for ordinal, page in enumerate(self.pages[column]) if page.holds(rows)]


@dataclass
class Touched:
    """The structures that were read: data pages and dictionary pages by column, and names of indexes."""

    pages: dict[str, list[int]]
    dictionaries: dict[str, list[int]]
    indexes: set[str]


def layout_of(path) -> Layout:
    """Walk all page headers of a file of flat columns."""
    out = Layout()
    with ParquetInput.open(path) as file:
        out.footer = ByteRange(file.footer.start, file.footer.file_length)
        for group, row_group in enumerate(file.footer.metadata.row_groups):
            for leaf in file.footer.leaves:
                meta = file.footer.chunk_metadata(group, leaf)
                chunk = row_group.columns[leaf.ordinal]
                _add_pages(out, file, leaf.name, meta, int(file.footer.row_group_starts[group]))
                for kind in ("column_index", "offset_index"):
                    start, length = getattr(chunk, f"{kind}_offset"), getattr(chunk, f"{kind}_length")
                    if start:
                        out.indexes[f"{kind} {leaf.name} {group}"] = ByteRange(start, start + length)
                if meta.bloom_filter_offset:
                    start = meta.bloom_filter_offset
                    stop = start + meta.bloom_filter_length
                    out.indexes[f"bloom_filter {leaf.name} {group}"] = ByteRange(start, stop)
    return out


def _add_pages(out, file, column, meta, first_row):
    start, stop = chunk_range(meta)
    data = file.source.read(start, stop)
    pages = out.pages.setdefault(column, [])
    for page in walk_pages(data, meta.num_values):
        place = ByteRange(start + page.start, start + page.stop)
        if page.is_data:
            rows = page.num_values
            pages.append(DataPage(place, first_row, first_row + rows, page.uses_dictionary))
            first_row += rows
        else:
            out.dictionaries.setdefault(column, []).append(place)


class RecordedFile(LocalFile):
    """A local file that records the ranges read from it, below all layers that count."""

    def __init__(self, path, ranges):
        super().__init__(path)
        self.ranges = ranges

    def read_ranges(self, ranges):
        self.ranges += [ByteRange(*place) for place in ranges]
        return super().read_ranges(ranges)


@dataclass(frozen=True)
class RecordedDataFile(DataFile):
    """A file of a table that opens as a `RecordedFile`."""

    ranges: list = field(default_factory=list)

    def open(self, **_):
        return RecordedFile(self.path, self.ranges)


def open_recorded(path) -> tuple[Table, list[ByteRange]]:
    """A table of one file, and the list of ranges read from it, which is empty after the schema was read."""
    os.utime(path)  # the footer of a file that was just written is read again
    file = RecordedDataFile(str(path), path.stat().st_size)
    table = Table([file])
    assert table.schema  # cached from here on
    file.ranges.clear()
    return table, file.ranges


def touched(layout: Layout, ranges) -> Touched:
    """Name all structures that were read; fail on unknown bytes, parts of pages, and repeated reads."""
    pages, dictionaries, indexes = {}, {}, set()
    for start, stop in ranges:
        position = start
        if layout.footer.start <= start:
            continue
        while position < stop:
            position = _step(layout, position, stop, pages, dictionaries, indexes)
    for found in (pages, dictionaries):
        for column, ordinals in found.items():
            assert max(Counter(ordinals).values()) == 1, f"read twice: {column} {ordinals}"
            found[column] = sorted(ordinals)
    return Touched(pages, dictionaries, indexes)


def _step(layout, position, stop, pages, dictionaries, indexes):
    """Name the structure at a position, and return its end."""
    for column, found in layout.pages.items():
        for ordinal, page in enumerate(found):
            if page.place.start == position:
                assert page.place.stop <= stop, f"page {ordinal} of {column} was read in part"
                pages.setdefault(column, []).append(ordinal)
                return page.place.stop
    for column, places in layout.dictionaries.items():
        for ordinal, place in enumerate(places):
            if place.start == position:
                assert place.stop <= stop, f"dictionary page {ordinal} of {column} was read in part"
                dictionaries.setdefault(column, []).append(ordinal)
                return place.stop
    for name, place in layout.indexes.items():
        if place.start <= position < place.stop:  # a Bloom filter is probed block by block
            indexes.add(name)
            return min(stop, place.stop)
    raise AssertionError(f"bytes {position} to {stop} are neither a page nor an index")


def footer_bytes(path) -> int:
    """The bytes that opening a local file reads: the footer, its length and the closing magic."""
    return pq.read_metadata(path).serialized_size + TRAILER_BYTES


def run(path, where=None, columns=None, limit=None):
    """The rows, the ranges that were read, and the report."""
    recorded, ranges = open_recorded(path)
    scan = recorded.scan(where, columns, limit)
    rows = scan.to_arrow()
    counted = scan.report.to_dict()
    assert counted["bytes"]["read"] == sum(place.length for place in ranges)
    assert counted["requests"] == len(ranges)
    return rows, ranges, counted


def pages_read(report):
    return {name: counts["read"] for name, counts in report["pages"]["by_column"].items()}
