"""Damage a file: rewrite footers and indexes, build pages, replace embedded indexes."""

import os
from dataclasses import replace

from intarsia.embed.tail import FooterEdit
from intarsia.file import ParquetInput
from intarsia.format import thrift, thrift_tree
from intarsia.format.blob import checksum, frame
from intarsia.format.directory import KEY, parse_directory
from intarsia.format.enums import Encoding, FieldRepetitionType, PageType, Type
from intarsia.format.footer import MAGIC, chunk_range
from intarsia.format.pages import walk_pages
from intarsia.format.structs import (
    ColumnChunk,
    ColumnIndex,
    ColumnMetaData,
    ColumnOrder,
    DataPageHeader,
    DataPageHeaderV2,
    Empty,
    FileMetaData,
    OffsetIndex,
    PageHeader,
    PageLocation,
    RowGroup,
    SchemaElement,
)
from intarsia.indexes.embedded import EmbeddedIndexes


class Damage:
    """A file whose footer and indexes can be changed; its data pages stay as they are.

    Fields are those of ``parquet.thrift``, as ``{field id: (compact type, value)}`` or by name.
    """

    def __init__(self, path):
        self.path = os.fspath(path)
        with open(self.path, "rb") as file:
            self.data = file.read()
        with ParquetInput.open(self.path) as file:
            self.footer = file.footer
        self.body = bytearray(self.data[: self.footer.start])
        self.tree, _ = thrift_tree.parse_tree(self.footer.raw)

    def leaf(self, column):
        return next(leaf.ordinal for leaf in self.footer.leaves if leaf.name == column)

    def row_group(self, row_group=0):
        return self.tree.get(4).items[row_group]

    def chunk(self, column, row_group=0):
        return self.row_group(row_group).get(1).items[self.leaf(column)]

    def meta(self, column, row_group=0):
        return self.chunk(column, row_group).get(3)

    def statistics(self, column, **changes):
        """Change a chunk's statistics; None takes a field away."""
        ids = {"max": 1, "min": 2, "null_count": 3, "distinct_count": 4, "max_value": 5, "min_value": 6,
               "is_max_value_exact": 7, "is_min_value_exact": 8, "nan_count": 9}  # fmt: skip
        meta = self.meta(column)
        if meta.get(12) is None:
            meta.set(12, thrift.STRUCT, thrift_tree.Struct())
        for name, value in changes.items():
            kind = {bool: thrift.BOOL_TRUE, int: thrift.I64, bytes: thrift.BINARY}.get(type(value))
            meta.get(12).remove(ids[name])
            if kind is not None:
                meta.get(12).set(ids[name], kind, value)

    def append(self, data):
        """Put bytes behind the others, and return their place."""
        offset = len(self.body)
        self.body += data
        return offset

    def column_index(self, column, row_group=0):
        return self._read(ColumnIndex, self._struct(column, row_group).column_index_offset)

    def offset_index(self, column, row_group=0):
        return self._read(OffsetIndex, self._struct(column, row_group).offset_index_offset)

    def _struct(self, column, row_group):
        return self.footer.metadata.row_groups[row_group].columns[self.leaf(column)]

    def _read(self, cls, offset):
        return thrift.parse(cls, self.data, offset)[0]

    def put_column_index(self, column, index, row_group=0):
        self._put((6, 7), column, row_group, index)

    def put_offset_index(self, column, index, row_group=0):
        self._put((4, 5), column, row_group, index)

    def _put(self, fields, column, row_group, index):
        data = index if isinstance(index, bytes) else thrift.serialize(index)
        chunk = self.chunk(column, row_group)
        chunk.set(fields[0], thrift.I64, self.append(data))
        chunk.set(fields[1], thrift.I32, len(data))

    def pages(self, column, row_group=0):
        """The pages of a chunk, and where they start in the file."""
        meta = self._struct(column, row_group).meta_data
        start, stop = chunk_range(meta)
        return start, walk_pages(self.data[start:stop], meta.num_values)

    def page_header(self, column, page, change):
        """Change the header of a data page without changing its length."""
        start, pages = self.pages(column)
        found = [found for found in pages if found.is_data][page]
        new = thrift.serialize(change(found.header))
        assert len(new) == found.body_start - found.start
        self.body[start + found.start : start + found.body_start] = new

    def write(self):
        raw = thrift_tree.serialize_tree(self.tree)
        with open(self.path, "wb") as file:
            file.write(bytes(self.body) + raw + len(raw).to_bytes(4, "little") + MAGIC)


def change_column_index(path, column="id", row_group=0, **changes):
    """Change fields of a ColumnIndex; a function gets the old value."""
    damage = Damage(path)
    index = damage.column_index(column, row_group)
    new = {name: value(getattr(index, name)) if callable(value) else value for name, value in changes.items()}
    damage.put_column_index(column, index._replace(**new), row_group)
    damage.write()


def change_location(path, page, column="id", **changes):
    """Change one page of an OffsetIndex; functions get the old value."""
    damage = Damage(path)
    locations = list(damage.offset_index(column).page_locations)
    old = locations[page]
    locations[page] = old._replace(**{name: value(getattr(old, name)) for name, value in changes.items()})
    damage.put_offset_index(column, OffsetIndex(locations))
    damage.write()


def at(page, value):
    """For `change_column_index`: the list with one entry replaced."""
    return lambda old: [*old[:page], value, *old[page + 1 :]]


# --- embedded indexes ------------------------------------------------------------------------------------


def change_directory(path, change):
    """Change the directory of embedded indexes; it still belongs to the file."""
    damage = Damage(path)
    directory = change(parse_directory(damage.footer.key_values[KEY]))
    _write_directory(damage, directory)


def only_payload(path):
    """The payload of the only embedded index."""
    with ParquetInput.open(path) as file:
        return EmbeddedIndexes(file).read(file.directory.entries[0])


def change_payload(path, change, **entry_changes):
    """Replace the payload of the only embedded index, checksums and all."""
    damage = Damage(path)
    directory = parse_directory(damage.footer.key_values[KEY])
    (entry,) = directory.entries
    payload = change(only_payload(path))
    while len(damage.body) % 8:
        damage.append(b"\0")
    new = frame(payload, directory.fingerprint)
    entry = replace(
        entry.moved(damage.append(new)), length=len(new), inline=None, xxh3=checksum(payload), **entry_changes
    )
    _write_directory(damage, replace(directory, region_stop=len(damage.body), entries=(entry,)))


def _write_directory(damage, directory):
    edit = FooterEdit(damage.footer.raw)
    edit.set_key_value(KEY, directory.to_json())
    damage.tree, _ = thrift_tree.parse_tree(edit.to_bytes())
    damage.write()


# --- pages -----------------------------------------------------------------------------------------------


def one_bit_levels(levels):
    """Levels of 0 and 1, bit-packed in the RLE hybrid."""
    groups = -(-len(levels) // 8)
    packed = sum(level << place for place, level in enumerate(levels))
    return bytes([groups << 1 | 1]) + packed.to_bytes(groups, "little")


def write_lists(path, pages, *, with_offset_index=True, first_rows=None):
    """A file of one column, ``repeated int32 x``, from pages ``(repetition levels, header changes)``.

    A page's values are all there (definition level 1), and count through the chunk. Pages are of version 1,
    or 2 where header changes are given.
    """
    body = bytearray(MAGIC)
    locations = []
    num_rows = values = 0
    for repetition, changes in pages:
        count = len(repetition)
        levels = [one_bit_levels(repetition), one_bit_levels([1] * count)]
        data = b"".join((values + place).to_bytes(4, "little") for place in range(count))
        if changes is None:
            levels = [len(level).to_bytes(4, "little") + level for level in levels]
        size = len(data) + sum(map(len, levels))
        if changes is None:
            one = DataPageHeader(count, Encoding.PLAIN, Encoding.RLE, Encoding.RLE)
            header = PageHeader(PageType.DATA_PAGE, size, size, data_page_header=one)
        else:
            lengths = len(levels[1]), len(levels[0])
            two = DataPageHeaderV2(
                count, 0, repetition.count(0), Encoding.PLAIN, *lengths, is_compressed=False
            )
            header = PageHeader(
                PageType.DATA_PAGE_V2, size, size, data_page_header_v2=two._replace(**changes)
            )
        page = thrift.serialize(header) + b"".join(levels) + data
        locations.append(PageLocation(len(body), len(page), num_rows))
        body += page
        values += count
        num_rows += repetition.count(0)
    size = len(body) - len(MAGIC)
    encodings = [Encoding.PLAIN, Encoding.RLE]
    meta = ColumnMetaData(Type.INT32, encodings, 0, values, size, size, len(MAGIC), path_in_schema=["x"])
    chunk = ColumnChunk(len(MAGIC), meta_data=meta)
    if with_offset_index:
        if first_rows is not None:
            locations = [
                old._replace(first_row_index=row) for old, row in zip(locations, first_rows, strict=True)
            ]
        index = thrift.serialize(OffsetIndex(locations))
        chunk = chunk._replace(offset_index_offset=len(body), offset_index_length=len(index))
        body += index
    schema = [
        SchemaElement("schema", num_children=1),
        SchemaElement("x", type=Type.INT32, repetition_type=FieldRepetitionType.REPEATED),
    ]
    groups = [RowGroup([chunk], size, num_rows)]
    raw = thrift.serialize(
        FileMetaData(1, schema, num_rows, groups, column_orders=[ColumnOrder(TYPE_ORDER=Empty())])
    )
    with open(path, "wb") as file:
        file.write(bytes(body) + raw + len(raw).to_bytes(4, "little") + MAGIC)
