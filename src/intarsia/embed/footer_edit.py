"""Edit a footer without losing fields that are unknown to this version (contract C8).

The footer is edited as a generic tree of fields. The field numbers are from ``parquet.thrift``.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from intarsia.embed.chunk_state import without_bounds
from intarsia.format.structs import PageEncodingStats, Statistics
from intarsia.format.thrift import (
    BINARY,
    BOOL_TRUE,
    I32,
    I64,
    LIST,
    STRUCT,
    List,
    Struct,
    parse,
    parse_tree,
    serialize_tree,
)
from intarsia.storage import ByteRange

# FileMetaData
_NUM_ROWS, _ROW_GROUPS, _KEY_VALUES, _COLUMN_ORDERS = 3, 4, 5, 7
# RowGroup
_COLUMNS, _ROWS_OF_GROUP = 1, 3
# ColumnChunk
_META_DATA = 3
# ColumnMetaData
_STATISTICS, _ENCODING_STATS = 12, 13
# offset and length of `LOCATED` structures, in ColumnChunk, and in ColumnMetaData for the Bloom filter
_LOCATIONS = {"offset_index": (4, 5), "column_index": (6, 7), "bloom_filter": (14, 15)}
# Statistics
_STATISTICS_FIELDS = {
    "max": (1, BINARY),
    "min": (2, BINARY),
    "null_count": (3, I64),
    "max_value": (5, BINARY),
    "min_value": (6, BINARY),
    "is_max_value_exact": (7, BOOL_TRUE),
    "is_min_value_exact": (8, BOOL_TRUE),
    "nan_count": (9, I64),
}
# KeyValue
_KEY, _VALUE = 1, 2
# ColumnOrder
_TYPE_ORDER, _INT96_TIMESTAMP_ORDER = 1, 3
# any struct: the field that the specification leaves to extensions. Thrift writes field ids as zigzag
# integers; the specification's example has 32767 as a plain one (08 FF FF 01), which Thrift reads as -16384.
_EXTENSIONS = 32767, -16384


@dataclass
class FooterEdit:
    """A footer with changes.

    Args:
        raw: The original footer's bytes.
    """

    raw: bytes

    def __post_init__(self) -> None:
        self._tree, _ = parse_tree(self.raw)

    def _chunk(self, row_group: int, leaf: int) -> Struct:
        groups = self._tree.structs(_ROW_GROUPS) or []
        return (groups[row_group].structs(_COLUMNS) or [])[leaf]

    def _chunk_metadata(self, row_group: int, leaf: int) -> Struct:
        meta = self._chunk(row_group, leaf).struct(_META_DATA)
        assert meta is not None, "only chunks with parsed metadata are changed"
        return meta

    def set_location(self, row_group: int, leaf: int, structure: str, location: ByteRange | None) -> None:
        """Set the location of one of the `LOCATED` structures of a chunk, or remove it."""
        in_metadata = structure == "bloom_filter"
        tree = (self._chunk_metadata if in_metadata else self._chunk)(row_group, leaf)
        offset, length = _LOCATIONS[structure]
        if location is None:
            tree.remove(offset)
            tree.remove(length)
        else:
            tree.set(offset, I64, location.start)
            tree.set(length, I32, location.length)

    def set_statistics(self, row_group: int, leaf: int, statistics: Statistics) -> None:
        """Set the bounds and counts of a chunk's statistics; other fields are kept."""
        meta = self._chunk_metadata(row_group, leaf)
        tree = meta.struct(_STATISTICS) or Struct()
        _put_statistics(tree, statistics)
        meta.set(_STATISTICS, STRUCT, tree)

    def set_encoding_stats(self, row_group: int, leaf: int, stats: Sequence[PageEncodingStats]) -> None:
        """Set the encodings of a chunk's pages, unless the footer has them."""
        meta = self._chunk_metadata(row_group, leaf)
        if meta.structs(_ENCODING_STATS) is None:
            items = [
                Struct({ordinal: (I32, number) for ordinal, number in enumerate(stat, 1)}) for stat in stats
            ]
            meta.set(_ENCODING_STATS, LIST, List(STRUCT, items))

    def add_column_orders(self, num_leaves: int) -> None:
        """Declare the type's order for every leaf, if the footer declares no orders.

        Existing bounds in the chunks' statistics were written without a declared order. They are removed,
        because the declaration would give them a meaning.
        """
        if self._tree.structs(_COLUMN_ORDERS) is not None:
            return
        orders = [Struct({_TYPE_ORDER: (STRUCT, Struct())}) for _ in range(num_leaves)]
        self._tree.set(_COLUMN_ORDERS, LIST, List(STRUCT, orders))
        for group in self._tree.structs(_ROW_GROUPS) or []:
            for chunk in group.structs(_COLUMNS) or []:
                _remove_bounds(chunk)

    def set_int96_order(self, leaf: int) -> None:
        """Declare ``INT96_TIMESTAMP_ORDER`` for a leaf, and remove the bounds that had no order so far.

        The footer must have column orders; call `add_column_orders` first if it has none.
        """
        orders = self._tree.structs(_COLUMN_ORDERS)
        assert orders is not None, "there are column orders"
        order = Struct({_INT96_TIMESTAMP_ORDER: (STRUCT, Struct())})
        changed = [*orders[:leaf], order, *orders[leaf + 1 :]]
        self._tree.set(_COLUMN_ORDERS, LIST, List(STRUCT, changed))
        for group in self._tree.structs(_ROW_GROUPS) or []:
            _remove_bounds((group.structs(_COLUMNS) or [])[leaf])

    def set_key_value(self, key: bytes, value: bytes) -> None:
        """Append an entry to the key/value metadata, and remove all others of the same key."""
        kept = [item for item in self._tree.structs(_KEY_VALUES) or [] if item.get(_KEY) != key]
        entry = Struct({_KEY: (BINARY, key), _VALUE: (BINARY, value)})
        self._tree.set(_KEY_VALUES, LIST, List(STRUCT, [*kept, entry]))

    def remove_key_value(self, key: bytes) -> None:
        """Remove all entries of a key from the key/value metadata."""
        there = self._tree.structs(_KEY_VALUES)
        if there is not None:
            kept = [item for item in there if item.get(_KEY) != key]
            self._tree.set(_KEY_VALUES, LIST, List(STRUCT, kept))

    def keep_row_groups(self, ordinals: Sequence[int]) -> None:
        """Remove all other row groups, and correct the number of rows."""
        there = self._tree.structs(_ROW_GROUPS) or []
        kept = [there[ordinal] for ordinal in ordinals]
        self._tree.set(_ROW_GROUPS, LIST, List(STRUCT, kept))
        self._tree.set(_NUM_ROWS, I64, sum(group.get(_ROWS_OF_GROUP, 0) for group in kept))

    def drop_extension(self) -> bool:
        """Drop the extension of `FileMetaData`; extensions of the structs in it stay.

        It may be a second footer, such as the FlatBuffers one, which would not contain the added structures.
        No reader needs it: the specification allows readers to ignore extensions.

        Returns:
            Whether there was one.
        """
        found = any(self._tree.get(field) is not None for field in _EXTENSIONS)
        for field in _EXTENSIONS:
            self._tree.remove(field)
        return found

    def to_bytes(self) -> bytes:
        """Serialize the changed footer."""
        return serialize_tree(self._tree)


def _put_statistics(tree: Struct, statistics: Statistics) -> None:
    for name, (field, field_type) in _STATISTICS_FIELDS.items():
        value = getattr(statistics, name)
        if value is None:
            tree.remove(field)
        else:
            tree.set(field, field_type, value)


def _remove_bounds(chunk: Struct) -> None:
    """Remove the bounds of a chunk that are defined only under a declared order."""
    meta = chunk.struct(_META_DATA)
    tree = meta.struct(_STATISTICS) if meta is not None else None
    if tree is not None:
        statistics, _ = parse(Statistics, serialize_tree(tree))
        _put_statistics(tree, without_bounds(statistics))
