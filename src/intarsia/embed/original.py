"""The original file inside a file with attached indexes (contract C3), and what was attached to it."""

from __future__ import annotations

import os
import time
from dataclasses import replace
from functools import partial
from typing import Any, cast

from intarsia.embed.chunk import LOCATED, ChunkState, Placed, chunks_of, without_bounds
from intarsia.embed.chunk_statistics import Bloom, Statistics
from intarsia.embed.page_index import PageIndex
from intarsia.embed.report import DetachReport
from intarsia.errors import (
    ChangedMeanwhileError,
    FormatError,
    IndexPayloadError,
    NewerDirectoryError,
    ReplacedWhileReadError,
    UnsupportedFeatureError,
)
from intarsia.file import ChunkKey, ParquetInput
from intarsia.format.directory import KEY, Directory, layout_fingerprint
from intarsia.format.footer import Footer
from intarsia.format.structs import ColumnChunk
from intarsia.garbage import no_collections
from intarsia.indexes.base import Index
from intarsia.indexes.proof import call_index
from intarsia.indexes.registry import find_index
from intarsia.once import cached_property
from intarsia.read.report import warn_caller
from intarsia.records import dataclass
from intarsia.storage import BufferedSource, ByteRange, ByteSource, StorageOptions
from intarsia.storage.target import Target, find_target


class ExtendedSource(BufferedSource):
    """The first bytes of another source, which its owner closes, and bytes in memory after them."""

    def __init__(self, source: ByteSource, length: int, tail: bytes = b"") -> None:
        super().__init__(source)
        self.identity = None
        self._size = length + len(tail)
        self._kept.add(ByteRange(length, self._size), tail)

    def size(self) -> int:
        """Return the length in bytes."""
        return self._size

    def close(self) -> None:
        """Do nothing: the owner of the underlying source closes it."""


@dataclass(frozen=True)
class Original:
    """A file, its original and the directory of its attached indexes.

    Attributes:
        file: The original file; the same if nothing is attached, or if only the current footer is read.
        directory: The directory of attached indexes; None if nothing is attached.
        stale: Why the file's directory belongs to another file; None if it has none, or its own.
    """

    current: ParquetInput
    file: ParquetInput
    directory: Directory | None
    stale: str | None = None

    @property
    def length(self) -> int:
        """Length of the original file in bytes."""
        return self.file.footer.file_length if self.directory is None else self.directory.original_length

    @cached_property
    def has_same_chunks(self) -> bool:
        """Whether only embedded indexes are attached, as far as the bytes of the footers prove it."""
        directory = self.directory
        if directory is None or directory.head is None or directory.computed_statistics:
            return False
        # behind the chunks; `add_column_orders` may have declared an order of the bounds that are there
        if self.current.footer.metadata.column_orders != self.file.footer.metadata.column_orders:
            return False
        return all(directory.head.is_of(one.footer.raw) for one in (self.current, self.file))

    def changed_key_values(self) -> dict[bytes, bytes | None]:
        """Return the key/value metadata that another program has changed since indexes were attached.

        Keys of attached indexes are left out. Without the class of an index, they are unknown.
        """
        before, after = self.file.footer.key_values, self.current.footer.key_values
        names = [name for name in sorted({**before, **after}) if before.get(name) != after.get(name)]
        own = {KEY}
        if own.issuperset(names):  # the usual case, without the classes of the indexes
            return {}
        for entry in self.directory.entries if self.directory is not None else ():
            if entry.inline is not None:
                continue
            index = find_index(entry).index
            if index is None:
                return {}
            try:
                own.update(call_index(partial(_footer_keys, index)))
            except IndexPayloadError:
                return {}
        return {name: after.get(name) for name in names if name not in own}

    def is_added(self, location: Placed) -> bool:
        """Return whether a structure is attached or new, that is, not part of the original file."""
        end = self.file.footer.file_length
        return isinstance(location, bytes) or (location is not None and location.stop > end)

    def present_states(self) -> dict[ChunkKey, ChunkState]:
        """Return the structures of every chunk of the current file, all of them as ranges."""
        original, current = self.file.footer, self.current.footer
        if self.has_same_chunks:
            return states_of(original)
        computed = self.directory.computed_statistics if self.directory is not None else frozenset()
        # `add_column_orders` and `set_int96_order` removed the bounds of columns whose order they declared
        leaves = original.leaves
        ordered = {
            leaf.ordinal for leaf in leaves if original.column_order(leaf) != current.column_order(leaf)
        }
        states = {}
        for key, chunk in chunks_of(current):
            state = _state_of(chunk, original.start)
            before = original.metadata.row_groups[key.row_group].columns[key.leaf].meta_data
            after = chunk.meta_data
            if before is not None and after is not None:
                left = before.statistics
                if left is not None and key.leaf in ordered:
                    left = without_bounds(left)
                state = replace(
                    state,
                    encoding_stats=tuple(after.encoding_stats or ()) if before.encoding_stats is None else (),
                    statistics=after.statistics if after.statistics != left or key.leaf in computed else None,
                )
            states[key] = state
        return states

    @no_collections()
    def carried_states(self) -> dict[ChunkKey, ChunkState]:
        """Return `present_states` with the bytes of attached structures instead of their ranges."""

        def carried(location: ByteRange) -> bytes | None:
            if not self.current.footer.contains_range(*location):
                return None  # treat a damaged structure as missing
            return self.current.source.read(*location)

        states = self.present_states()
        if self.has_same_chunks:
            return states
        for key, state in states.items():
            places = {name: getattr(state, name) for name in LOCATED}
            added = {name: carried(place) for name, place in places.items() if self.is_added(place)}
            if added:
                states[key] = replace(state, **cast(dict[str, Any], added))
        return states


def _footer_keys(index: Index) -> set[bytes]:
    return set(index.footer_keys(0))


def states_of(footer: Footer) -> dict[ChunkKey, ChunkState]:
    """Return the structures of every chunk according to a footer."""
    return {key: _state_of(chunk, footer.start) for key, chunk in chunks_of(footer)}


def _state_of(chunk: ColumnChunk, body_stop: int) -> ChunkState:
    meta = chunk.meta_data
    start, length = (meta.bloom_filter_offset, meta.bloom_filter_length) if meta is not None else (None, None)
    return ChunkState(
        _location(chunk.offset_index_offset, chunk.offset_index_length),
        _location(chunk.column_index_offset, chunk.column_index_length),
        _location(start, length or body_stop - (start or 0)),
    )


def _location(offset: int | None, length: int | None) -> ByteRange | None:
    return ByteRange(offset, offset + length) if offset and length else None


@no_collections()
def find_original(current: ParquetInput) -> Original:
    """Find the original file inside a file.

    Raises:
        NewerDirectoryError: If a later version of Intarsia attached indexes.
        UnsupportedFeatureError: If the file is encrypted or signed.
    """
    metadata, found = current.footer.metadata, current.found_directory
    # a file with attached indexes is not encrypted
    is_checked = found is not None and found.directory is not None and found.reason is None
    if metadata.encryption_algorithm is not None or (
        not is_checked and any(chunk.crypto_metadata is not None for _, chunk in chunks_of(current.footer))
    ):
        raise UnsupportedFeatureError(
            "the file is encrypted, or its footer is signed, so indexes cannot be attached; decrypt it with "
            "its writer first",
            reason="encrypted-file",
            struct="FileMetaData",
        )
    if found is not None and found.fault == "newer":
        raise NewerDirectoryError(found.reason or "", reason="newer-directory")
    if found is None or found.directory is None or found.reason is not None:
        return Original(current, current, None, found.reason if found is not None else None)
    directory = found.directory
    try:
        file = ParquetInput(ExtendedSource(current.source, directory.original_length))
    except FormatError as error:
        return Original(current, current, None, f"it does not point to the original footer: {error.message}")
    original = Original(current, file, directory)
    # the fingerprint is of all chunks
    if not original.has_same_chunks and layout_fingerprint(file.footer.metadata) != directory.fingerprint:
        return Original(current, current, None, "it points to the footer of another file")
    return original


def detach_file(
    path: str | os.PathLike[str], *, storage_options: StorageOptions | None = None
) -> DetachReport:
    """Restore the original of one file, if indexes were added to it; see `intarsia.detach`.

    Raises:
        IsADirectoryError: If the path is a folder.
    """
    try:
        return _detach_from(find_target(path, storage_options))
    except (ChangedMeanwhileError, ReplacedWhileReadError):
        # another run has probably detached them; the second attempt then changes nothing
        return _detach_from(find_target(path, storage_options))


def _detach_from(target: Target) -> DetachReport:
    started = time.perf_counter()
    removed: list[str] = []
    length = target.size
    with ParquetInput(target.open()) as current, current.named_errors():
        original = find_original(current)
        if original.stale is not None:
            raise IndexPayloadError(
                f"its Intarsia directory belongs to another file: {original.stale}; nothing was detached, "
                "and readers ignore the directory",
                reason="foreign-directory",
            )
        if original.directory is not None:
            length = original.length
            removed = [*_added_structures(original), *(entry.name for entry in original.directory.entries)]
            changed = b", ".join(original.changed_key_values()).decode(errors="replace")
            target.replace_tail(length, ())
            if changed:
                warn_caller(
                    f"{target.path}: the file has its original key/value metadata again; write what another "
                    f"program has changed since: {changed}"
                )
    return DetachReport(
        path=target.path,
        detached=original.directory is not None,
        bytes_before=target.size,
        bytes_after=length,
        removed=tuple(removed),
        seconds=time.perf_counter() - started,
    )


@no_collections()
def _added_structures(original: Original) -> list[str]:
    """Return the names of the standard structures that were added to the original file."""
    if original.has_same_chunks:
        return []
    names: dict[str, None] = {}
    for key, state in original.present_states().items():
        if original.is_added(state.offset_index) or original.is_added(state.column_index):
            names[PageIndex.kind] = None
        if state.statistics is not None:
            names[Statistics.kind] = None
        if original.is_added(state.bloom_filter):
            names[Bloom(original.file.footer.leaves[key.leaf].name).name] = None
    return sorted(names, key=lambda name: (name != PageIndex.kind, name != Statistics.kind))
