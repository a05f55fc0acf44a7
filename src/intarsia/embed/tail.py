"""The bytes that follow the original file, in the order of ``docs/format.md``, and the new footer.

A footer is changed as a generic tree of fields, so that unknown fields survive (contract C8). The numbers of
fields are those of ``parquet.thrift``.
"""

from __future__ import annotations

from collections.abc import Collection, Container, Mapping, Sequence
from dataclasses import replace

from intarsia.embed.chunk import LOCATED, ChunkState, chunks_of, without_bounds
from intarsia.embed.original import Original, states_of
from intarsia.embed.report import Note
from intarsia.embed.structures import Blob
from intarsia.errors import CorruptFileError, FormatError, IndexBuildError
from intarsia.file import ChunkKey
from intarsia.file.synthetic import footer_parts
from intarsia.file.writers import STATISTICS_CLAIMS
from intarsia.format.blob import BLOB_ALIGNMENT_BYTES
from intarsia.format.directory import (
    DIRECTORY_VERSION,
    KEY,
    Directory,
    FooterHead,
    find_directory,
    layout_fingerprint,
)
from intarsia.format.enums import Type
from intarsia.format.footer import TRAILER_BYTES, Leaf, parse_footer
from intarsia.format.structs import PageEncodingStats, Statistics
from intarsia.format.thrift import BINARY, I32, I64, LIST, STRUCT, parse, serialize
from intarsia.format.thrift_tree import List, Struct, parse_tree, serialize_tree
from intarsia.garbage import no_collections
from intarsia.once import cached_property
from intarsia.rows.int96 import INT96_BYTES
from intarsia.storage import ByteRange

_EXTENSION_NOTE = Note(
    None,
    None,
    "footer_extension",
    "dropped from the new footer: it may be a second footer, such as one in FlatBuffers, which would not "
    "contain the added indexes; detach restores it",
    "extension-dropped",
)


@no_collections()
def lay_out(
    original: Original, blobs: Collection[Blob], states: Mapping[ChunkKey, ChunkState]
) -> tuple[list[bytes], list[Note]]:
    """Return the bytes to write after the original file, and notes on parts of the original footer left out.

    Args:
        states: The standard structures of each chunk in the new file.

    Returns:
        Consecutive pieces of bytes, the last of them the new footer; empty if there is nothing to add.

    Raises:
        IndexBuildError: If an index needs a footer key that is taken.
        CorruptFileError: If the new footer cannot be read again, because the original footer is damaged.
    """
    footer = original.file.footer
    before = states_of(footer)
    changed = {
        key: state for key, state in states.items() if replace(state, encoding_stats=()) != before[key]
    }
    if not blobs and not changed:
        return [], []
    tail = FilePieces(original.length)
    edit = FooterEdit(footer.raw)
    for name, value in original.changed_key_values().items():
        edit.remove_key_value(name)
        if value is not None:
            edit.set_key_value(name, value)
    there = original.directory
    fingerprint = layout_fingerprint(footer.metadata) if there is None else there.fingerprint
    entries = []
    owners: dict[bytes, str] = {}
    for blob in blobs:
        pieces = blob.pieces(fingerprint)
        if pieces:
            tail.append(bytes(-tail.position % BLOB_ALIGNMENT_BYTES))
        entries.append(blob.entry.moved(tail.position) if pieces else blob.entry)
        for name, value in blob.footer_keys(tail.position).items():
            if name in owners:
                raise IndexBuildError(
                    f"{blob.entry.name} needs the footer key {name.decode()!r}, which {owners[name]} has; "
                    "a file can contain only one",
                    reason="footer-key-taken",
                )
            owners[name] = blob.entry.name
            if name in footer.key_values:
                blob.check_same_payload(name, original.file)
            else:
                edit.set_key_value(name, value)
        for piece in pieces:
            tail.append(piece)
    lacks_orders = footer.metadata.column_orders is None and any(map(_has_added_bounds, states.values()))
    ordered = _newly_ordered_int96(original, states)
    for structure in LOCATED:
        moved = {} if structure == "bloom_filter" else _moved(original, states, structure)
        for key, state in states.items():
            location = moved.get(key, getattr(state, structure))
            if location != getattr(before[key], structure):
                placed = tail.append(location) if isinstance(location, bytes) else location
                edit.set_location(*key, structure, placed)
    for key, state in states.items():
        if isinstance(state.column_index, ByteRange) and (lacks_orders or key.leaf in ordered):
            edit.set_location(*key, "column_index", None)  # its bounds had no order, and must not get one
    if lacks_orders:
        edit.add_column_orders(len(footer.leaves))
    for leaf in ordered:
        edit.set_int96_order(leaf)
    for key, state in changed.items():
        if state.encoding_stats:
            edit.set_encoding_stats(*key, state.encoding_stats)
        if state.statistics is not None:
            edit.set_statistics(*key, state.statistics)
    notes = [_EXTENSION_NOTE] if edit.drop_extension() else []
    head = edit.head()
    directory = Directory(
        DIRECTORY_VERSION,
        original.length,
        fingerprint,
        tail.position,
        tuple(entries),
        _computed_statistics(original, states),
        FooterHead.of(head),
    )
    edit.set_key_value(KEY, directory.to_json())
    raw = head + edit.rest()
    _check_new_footer(raw, directory, original.file.path, has_same_chunks=footer.raw.startswith(head))
    return [*tail.pieces, *footer_parts(raw)], notes


def _check_new_footer(raw: bytes, directory: Directory, path: str, *, has_same_chunks: bool) -> None:
    """Refuse a footer from which `detach` could not restore the original file.

    A damaged footer can be readable, but not after its fields have been written in order.

    Args:
        has_same_chunks: Whether the original footer begins with the same bytes, up to its row groups.
    """
    try:
        footer = parse_footer(raw, directory.region_stop, directory.region_stop + len(raw) + TRAILER_BYTES)
        found = find_directory(footer)
        problem = "its directory is lost" if found is None else found.reason
        # parses all chunks
        if not has_same_chunks and layout_fingerprint(footer.metadata) != directory.fingerprint:
            problem = "its layout differs"
    except FormatError as error:
        problem = error.message
    if problem is not None:
        raise CorruptFileError(
            f"the footer with the indexes could not be read again: {problem}; nothing was written. Write the "
            "file again",
            reason="damaged-footer",
            path=path,
            struct="FileMetaData",
        )


def _computed_statistics(original: Original, states: Mapping[ChunkKey, ChunkState]) -> frozenset[int]:
    """Return the leaves whose writer's statistics are not trusted, and were computed for all chunks."""
    footer = original.file.footer
    doubted, incomplete = set(), set()
    for key, chunk in chunks_of(footer):
        if footer.metadata.row_groups[key.row_group].num_rows == 0 or key.leaf in incomplete:
            continue
        trust = original.file.trust(footer.leaves[key.leaf])
        if states[key].statistics is None:
            incomplete.add(key.leaf)
        elif any(trust.doubt_of_writer(claim, chunk.meta_data) for claim in STATISTICS_CLAIMS):
            doubted.add(key.leaf)
    return frozenset(doubted - incomplete)


def _newly_ordered_int96(original: Original, states: Mapping[ChunkKey, ChunkState]) -> list[int]:
    """Return the INT96 leaves that get a ColumnIndex, whose order has to be declared."""
    footer = original.file.footer
    added = {key.leaf for key, state in states.items() if isinstance(state.column_index, bytes)}
    return [
        leaf.ordinal
        for leaf in footer.leaves
        if leaf.ordinal in added
        and leaf.type == Type.INT96
        and footer.column_order(leaf) != "INT96_TIMESTAMP_ORDER"
    ]


def _moved(
    original: Original, states: Mapping[ChunkKey, ChunkState], structure: str
) -> dict[ChunkKey, bytes]:
    """Return the trusted ColumnIndexes or OffsetIndexes of the file's writer, if others are added.

    All are written again in one place: parquet-go reads them as one range, and panics if they are in two.
    """
    kept = {key: getattr(state, structure) for key, state in states.items()}
    if not any(isinstance(location, bytes) for location in kept.values()):
        return {}
    footer, ranges = original.file.footer, {}
    for key, location in kept.items():
        chunk = footer.metadata.row_groups[key.row_group].columns[key.leaf]
        trust = original.file.trust(footer.leaves[key.leaf])
        is_movable = isinstance(location, ByteRange) and footer.contains_range(*location)
        if is_movable and trust.doubt_of_page_index(chunk) is None:
            ranges[key] = location
    return dict(zip(ranges, original.file.source.read_ranges(list(ranges.values())), strict=True))


def _has_added_bounds(state: ChunkState) -> bool:
    """Return whether bounds were added, which are defined only under a declared order."""
    if isinstance(state.column_index, bytes):
        return True
    return state.statistics is not None and state.statistics.min_value is not None


class FilePieces:
    """Consecutive pieces of a file, and the position of the next one."""

    def __init__(self, position: int) -> None:
        self.position = position
        self.pieces: list[bytes] = []

    def append(self, piece: bytes) -> ByteRange:
        """Add a piece, and return its location."""
        start = self.position
        self.pieces.append(piece)
        self.position += len(piece)
        return ByteRange(start, self.position)


# --- changes of a footer ---------------------------------------------------------------------------------


# FileMetaData
_SCHEMA, _NUM_ROWS, _ROW_GROUPS, _KEY_VALUES, _COLUMN_ORDERS = 2, 3, 4, 5, 7
# SchemaElement: type, length, number of children; converted type, scale, precision and logical type
_TYPE, _TYPE_LENGTH, _NUM_CHILDREN, _LOGICAL_FIELDS = 1, 2, 5, (6, 7, 8, 10)
# RowGroup
_COLUMNS, _ROWS_OF_GROUP = 1, 3
# ColumnChunk
_META_DATA = 3
# ColumnMetaData, whose type has the id of that of SchemaElement
_PATH, _STATISTICS, _ENCODING_STATS = 3, 12, 13
# offset and length of `LOCATED` structures, in ColumnChunk, and in ColumnMetaData for the Bloom filter
_LOCATIONS = {"offset_index": (4, 5), "column_index": (6, 7), "bloom_filter": (14, 15)}
# KeyValue
_KEY, _VALUE = 1, 2
# ColumnOrder
_TYPE_ORDER, _INT96_TIMESTAMP_ORDER = 1, 3
# any struct: the field that the specification leaves to extensions. Thrift writes field ids as zigzag
# integers; the specification's example has 32767 as a plain one (08 FF FF 01), which Thrift reads as -16384.
_EXTENSIONS = 32767, -16384


class FooterEdit:
    """A footer with changes, given the original footer's bytes."""

    def __init__(self, raw: bytes) -> None:
        self._tree, _ = parse_tree(raw)

    @cached_property
    def _chunks(self) -> list[list[Struct]]:
        """The chunks of each row group."""
        return [group.structs(_COLUMNS) or [] for group in self._tree.structs(_ROW_GROUPS) or []]

    def _chunk_metadata(self, row_group: int, leaf: int) -> Struct:
        meta = self._chunks[row_group][leaf].struct(_META_DATA)
        assert meta is not None, "only chunks with parsed metadata are changed"
        return meta

    def set_location(self, row_group: int, leaf: int, structure: str, location: ByteRange | None) -> None:
        """Set the location of one of the `LOCATED` structures of a chunk, or remove it."""
        in_metadata = structure == "bloom_filter"
        tree = self._chunk_metadata(row_group, leaf) if in_metadata else self._chunks[row_group][leaf]
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
        """Declare the type's order for every leaf of a footer that declares no orders.

        Existing bounds in the chunks' statistics were written without a declared order. They are removed,
        because the declaration would give them a meaning.
        """
        orders = [Struct({_TYPE_ORDER: (STRUCT, Struct())}) for _ in range(num_leaves)]
        self._tree.set(_COLUMN_ORDERS, LIST, List(STRUCT, orders))
        for chunks in self._chunks:
            for chunk in chunks:
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
        for chunks in self._chunks:
            _remove_bounds(chunks[leaf])

    def set_key_value(self, key: bytes, value: bytes) -> None:
        """Append an entry to the key/value metadata, and remove all others of the same key."""
        self.remove_key_value(key)
        entry = Struct({_KEY: (BINARY, key), _VALUE: (BINARY, value)})
        self._tree.set(_KEY_VALUES, LIST, List(STRUCT, [*(self._tree.structs(_KEY_VALUES) or []), entry]))

    def remove_key_value(self, key: bytes) -> None:
        """Remove all entries of a key from the key/value metadata."""
        there = self._tree.structs(_KEY_VALUES)
        if there is not None:
            self._tree.set(_KEY_VALUES, LIST, List(STRUCT, [item for item in there if item.get(_KEY) != key]))

    def keep_row_groups(self, ordinals: Sequence[int]) -> None:
        """Remove all other row groups, and correct the number of rows, before any other change."""
        there = self._tree.structs(_ROW_GROUPS) or []
        kept = [there[ordinal] for ordinal in ordinals]
        self._tree.set(_ROW_GROUPS, LIST, List(STRUCT, kept))
        self._tree.set(_NUM_ROWS, I64, sum(group.get(_ROWS_OF_GROUP, 0) for group in kept))

    def hide_types(self, leaves: Mapping[int, Leaf]) -> None:
        """Let leaves be of a physical type alone; INT96 becomes bytes of fixed length. Drop all metadata.

        Args:
            leaves: The leaves by ordinal.
        """
        self._tree.remove(_KEY_VALUES)
        elements = [one for one in self._tree.structs(_SCHEMA) or [] if not one.get(_NUM_CHILDREN)]
        for ordinal, leaf in leaves.items():
            for field in _LOGICAL_FIELDS:
                elements[ordinal].remove(field)
            if leaf.type == Type.INT96:
                elements[ordinal].set(_TYPE, I32, int(Type.FIXED_LEN_BYTE_ARRAY))
                elements[ordinal].set(_TYPE_LENGTH, I32, INT96_BYTES)
                for chunks in self._chunks:
                    chunk = chunks[ordinal].struct(_META_DATA)
                    if chunk is not None:
                        chunk.set(_TYPE, I32, int(Type.FIXED_LEN_BYTE_ARRAY))

    def take_schema(self, other: FooterEdit, leaves: Sequence[Leaf], unordered: Container[int]) -> None:
        """Replace the schema and the key/value metadata by those of another footer.

        Args:
            other: A footer whose leaves have the same levels and, but for INT96, the same physical types.
            leaves: The leaves of the other footer.
            unordered: The ordinals of the leaves whose bounds are removed.
        """
        for field in (_SCHEMA, _KEY_VALUES):
            there = other._tree.structs(field)
            self._tree.remove(field)
            if there is not None:
                self._tree.set(field, LIST, List(STRUCT, there))
        for ordinals in self._chunks:
            for leaf, chunk in zip(leaves, ordinals, strict=True):
                meta = chunk.struct(_META_DATA)
                assert meta is not None, "the footer is of a new file"
                meta.set(_TYPE, I32, int(leaf.type))
                meta.set(_PATH, LIST, List(BINARY, [name.encode() for name in leaf.path]))
                if leaf.ordinal in unordered:
                    meta.remove(_STATISTICS)
                    for field in _LOCATIONS["column_index"]:
                        chunk.remove(field)

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

    def head(self) -> bytes:
        """Serialize the first fields of the footer, up to its row groups, without their end."""
        fields = {number: field for number, field in self._tree.fields.items() if number <= _ROW_GROUPS}
        return serialize_tree(Struct(fields))[:-1]

    def rest(self) -> bytes:
        """Serialize the fields after the row groups."""
        fields = {number: field for number, field in self._tree.fields.items() if number > _ROW_GROUPS}
        return serialize_tree(Struct(fields), _ROW_GROUPS)

    def to_bytes(self) -> bytes:
        """Serialize the changed footer."""
        return self.head() + self.rest()


def _put_statistics(tree: Struct, statistics: Statistics) -> None:
    new, _ = parse_tree(serialize(statistics))
    for field, _ in enumerate(statistics, 1):  # their numbers have no gaps
        tree.remove(field)
    for field, (field_type, value) in new.fields.items():
        tree.set(field, field_type, value)


def _remove_bounds(chunk: Struct) -> None:
    """Remove the bounds of a chunk that are defined only under a declared order."""
    meta = chunk.struct(_META_DATA)
    tree = meta.struct(_STATISTICS) if meta is not None else None
    if tree is not None:
        statistics, _ = parse(Statistics, serialize_tree(tree))
        _put_statistics(tree, without_bounds(statistics))
