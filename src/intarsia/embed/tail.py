"""The bytes that follow the original file, in the order of ``docs/format.md``, and the new footer."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace

from intarsia.embed.chunk import LOCATED, ChunkState, chunks_of
from intarsia.embed.footer_edit import FooterEdit, footer_pieces
from intarsia.embed.original import Original, states_of
from intarsia.embed.report import Note
from intarsia.embed.structures import Blob
from intarsia.errors import CorruptFileError, FormatError, IndexBuildError
from intarsia.file import ChunkKey
from intarsia.file.trust import STATISTICS_CLAIMS
from intarsia.format.blob import BLOB_ALIGNMENT_BYTES
from intarsia.format.directory import DIRECTORY_VERSION, KEY, Directory, find_directory, layout_fingerprint
from intarsia.format.enums import Type
from intarsia.format.footer import TRAILER_BYTES, parse_footer
from intarsia.storage import ByteRange

_EXTENSION_NOTE = Note(
    None,
    None,
    "footer_extension",
    "dropped from the new footer: it may be a second footer, such as one in FlatBuffers, which would not "
    "contain the added indexes; detach restores it",
    "extension-dropped",
)


def lay_out(
    original: Original, blobs: Sequence[Blob], states: Mapping[ChunkKey, ChunkState]
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
    tail = _Tail(original.length)
    edit = FooterEdit(footer.raw)
    fingerprint = layout_fingerprint(footer.metadata)
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
    for structure in LOCATED:
        for key, state in changed.items():
            location = getattr(state, structure)
            if location != getattr(before[key], structure):
                placed = tail.append(location) if isinstance(location, bytes) else location
                edit.set_location(*key, structure, placed)
    if footer.metadata.column_orders is None and any(map(_has_added_bounds, states.values())):
        for key, state in states.items():
            if isinstance(state.column_index, ByteRange):  # `add_column_orders` would define its bounds
                edit.set_location(*key, "column_index", None)
        edit.add_column_orders(len(footer.leaves))
    for leaf in _newly_ordered_int96(original, states):
        for key, state in states.items():
            if key.leaf == leaf and isinstance(state.column_index, ByteRange):
                edit.set_location(*key, "column_index", None)  # its bounds had no order, and must not get one
        edit.set_int96_order(leaf)
    for key, state in changed.items():
        if state.encoding_stats:
            edit.set_encoding_stats(*key, state.encoding_stats)
        if state.statistics is not None:
            edit.set_statistics(*key, state.statistics)
    directory = Directory(
        DIRECTORY_VERSION,
        original.length,
        fingerprint,
        tail.position,
        tuple(entries),
        _computed_statistics(original, states),
    )
    edit.set_key_value(KEY, directory.to_json())
    notes = [_EXTENSION_NOTE] if edit.drop_extension() else []
    raw = edit.to_bytes()
    _check_new_footer(raw, directory, original.file.path)
    return [*tail.pieces, *footer_pieces(raw)], notes


def _check_new_footer(raw: bytes, directory: Directory, path: str) -> None:
    """Refuse a footer from which `detach` could not restore the original file.

    A damaged footer can be readable, but not after its fields have been written in order.
    """
    try:
        footer = parse_footer(raw, directory.region_stop, directory.region_stop + len(raw) + TRAILER_BYTES)
        for group in footer.metadata.row_groups:
            for _ in group.columns:  # parsed on access
                pass
        found = find_directory(footer)
        problem = "its directory is lost" if found is None else found.reason
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


def _has_added_bounds(state: ChunkState) -> bool:
    """Return whether bounds were added, which are defined only under a declared order."""
    if isinstance(state.column_index, bytes):
        return True
    return state.statistics is not None and state.statistics.min_value is not None


class _Tail:
    """Pieces of the file, and the position of the next one."""

    def __init__(self, position: int) -> None:
        self.position = position
        self.pieces: list[bytes] = []

    def append(self, piece: bytes) -> ByteRange:
        start = self.position
        self.pieces.append(piece)
        self.position += len(piece)
        return ByteRange(start, self.position)
