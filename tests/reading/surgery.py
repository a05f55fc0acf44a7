"""Changing one structure of a file and leaving everything else unchanged."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

from intarsia.format import thrift, thrift_tree
from intarsia.format.footer import MAGIC, TRAILER_BYTES
from intarsia.format.structs import ColumnIndex, OffsetIndex
from intarsia.lake.data_file import DataFile
from intarsia.lake.table import Table
from intarsia.storage import MemorySource

#: Fields of ColumnChunk: offset and length of each index.
PLACES = {OffsetIndex: (4, 5), ColumnIndex: (6, 7)}


class Patient:
    """A file in memory: the bytes before its footer, and the footer as a tree of Thrift fields."""

    def __init__(self, data: bytes) -> None:
        self.footer_start = len(data) - TRAILER_BYTES - int.from_bytes(data[-TRAILER_BYTES:-4], "little")
        self.body = bytearray(data[: self.footer_start])
        self.footer, _ = thrift_tree.parse_tree(data[self.footer_start :])

    @classmethod
    def read(cls, path) -> Patient:
        return cls(Path(path).read_bytes())

    def write(self, path) -> None:
        Path(path).write_bytes(self.bytes())

    def bytes(self) -> bytes:
        footer = thrift_tree.serialize_tree(self.footer)
        return bytes(self.body) + footer + len(footer).to_bytes(4, "little") + MAGIC

    def chunk(self, row_group: int, leaf: int) -> thrift_tree.Struct:
        """The ColumnChunk of a leaf in a row group."""
        return self.footer.get(4).items[row_group].get(1).items[leaf]

    def element(self, name: str) -> thrift_tree.Struct:
        """The SchemaElement of this name."""
        return next(item for item in self.footer.get(2).items if item.get(4) == name.encode())

    def index_bytes(self, cls, row_group: int, leaf: int) -> bytes:
        """The bytes of an OffsetIndex or ColumnIndex in the file."""
        chunk = self.chunk(row_group, leaf)
        offset, length = (chunk.get(field) for field in PLACES[cls])
        return bytes(self.body[offset : offset + length])

    def index(self, cls, row_group: int, leaf: int):
        """A parsed OffsetIndex or ColumnIndex."""
        return thrift.parse(cls, self.index_bytes(cls, row_group, leaf))[0]

    def put_index(self, cls, row_group: int, leaf: int, index) -> None:
        """Give a chunk another index (a struct or bytes), at the end of the body."""
        data = index if isinstance(index, bytes) else thrift.serialize(index)
        self.point_index(cls, row_group, leaf, len(self.body), len(data))
        self.body += data

    def point_index(self, cls, row_group: int, leaf: int, offset: int, length: int) -> None:
        """Change the location of an index in the footer."""
        offset_field, length_field = PLACES[cls]
        chunk = self.chunk(row_group, leaf)
        chunk.set(offset_field, thrift.I64, offset)
        chunk.set(length_field, thrift.I32, length)

    def change_index(self, cls, row_group: int, leaf: int, change: Callable) -> None:
        """Replace an index by the result of ``change``."""
        self.put_index(cls, row_group, leaf, change(self.index(cls, row_group, leaf)))


def shift_first_rows(index: OffsetIndex) -> OffsetIndex:
    """Return an OffsetIndex in which all pages but the first start one row earlier."""
    first, *others = index.page_locations
    moved = [place._replace(first_row_index=place.first_row_index - 1) for place in others]
    return index._replace(page_locations=[first, *moved])


class FileInMemory(DataFile):
    """A file of a table whose bytes are in memory."""

    source: MemorySource

    def open(self, **_) -> MemorySource:
        return self.source


def table_in_memory(source: MemorySource) -> Table:
    """Return a table of one file."""
    file = FileInMemory(source.path, source.size())
    object.__setattr__(file, "source", source)
    return Table([file])
