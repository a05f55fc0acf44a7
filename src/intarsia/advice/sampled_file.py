"""Some row groups of a file, to which indexes are added in memory."""

from __future__ import annotations

import contextlib
import time
from collections.abc import Hashable, Mapping, Sequence
from dataclasses import replace
from itertools import zip_longest

from intarsia.embed.attach import Attachment
from intarsia.embed.chunk import ChunkState
from intarsia.embed.original import ExtendedSource, find_original
from intarsia.embed.structures import Attachable, Blob
from intarsia.embed.tail import FooterEdit, lay_out
from intarsia.errors import IntarsiaError
from intarsia.file import ChunkKey, ParquetInput
from intarsia.file.synthetic import footer_parts
from intarsia.format.directory import KEY
from intarsia.format.footer import chunk_range
from intarsia.indexes.registry import find_index
from intarsia.records import dataclass
from intarsia.storage import ByteRange

#: The maximum number of files in a sample.
MAX_FILES = 32

#: The maximum number of column chunks in the sample of a file. Planning takes time for each of them.
MAX_CHUNKS = 4096

#: The size of the sampled row groups in bytes. At least one row group is read, whatever its size.
SAMPLE_BYTES = 256 << 20

#: More bytes than any sample has, to measure all data.
ALL_BYTES = 1 << 40


def spread(items: Sequence[int]) -> list[int]:
    """Order items so that every prefix is spread evenly: the first, the last, halves, quarters and so on.

    Example:
        >>> spread(range(9))
        [0, 8, 4, 2, 6, 1, 3, 5, 7]
    """
    last, steps = len(items) - 1, 1
    ordinals = dict.fromkeys([0, last] if items else [])
    while len(ordinals) < len(items):
        steps *= 2
        ordinals |= dict.fromkeys(last * step // steps for step in range(1, steps, 2))
    return [items[ordinal] for ordinal in ordinals]


def take_turns(lists: Sequence[Sequence[int]]) -> list[int]:
    """Return the items of several lists in turns, each list in the order of `spread`, without repetitions.

    Example:
        >>> take_turns([range(4), [3, 9]])
        [0, 3, 9, 1, 2]
    """
    turns = zip_longest(*map(spread, lists))
    return list(dict.fromkeys(item for turn in turns for item in turn if item is not None))


@dataclass(frozen=True, eq=False)
class BuiltIndex:
    """An index that was built in memory.

    Attributes:
        index: The index.
        blobs: The embedded index by `Entry.identity`; empty for a standard structure.
        states: The chunks that get a standard structure, with it.
        num_bytes: Its size in bytes.
        seconds: The time that building it took.
    """

    index: Attachable
    blobs: Mapping[Hashable, Blob]
    states: Mapping[ChunkKey, ChunkState]
    num_bytes: int
    seconds: float


class SampledFile:
    """Some row groups of a file, to which indexes are added in memory. The file is not changed.

    The embedded indexes of the file are built again if row groups are left out, because their payloads are of
    the whole file. Standard structures belong to single chunks, and stay.

    Args:
        file: The file, which keeps the bytes of these row groups.
        groups: The row groups of the sample, ascending.

    Attributes:
        groups: The row groups of the sample.
        num_bytes: Size of the sampled row groups in bytes.
        is_whole: Whether the sample has all row groups.
    """

    def __init__(self, file: ParquetInput, groups: Sequence[int]) -> None:
        self.file = file
        self.groups = tuple(groups)
        self.is_whole = len(self.groups) == len(file.footer.metadata.row_groups)
        self.num_bytes = group_bytes(file, self.groups)
        file.source.keep(self._locations())
        tail = b""
        if not self.is_whole:
            edit = FooterEdit(file.footer.raw)
            edit.keep_row_groups(self.groups)
            edit.remove_key_value(KEY)
            tail = b"".join(footer_parts(edit.to_bytes()))
        self._base = find_original(ParquetInput(ExtendedSource(file.source, file.footer.file_length, tail)))
        carried = Attachment(self._base, [])
        self._blobs, self._states = dict(carried.blobs), dict(carried.structures.states)
        if self.is_whole or file.directory is None:
            return
        for entry in file.directory.entries:  # their payloads describe the whole file, so build them again
            index = find_index(entry).index
            if index is not None:
                with contextlib.suppress(IntarsiaError):  # scans would not use it in the whole file, either
                    self._blobs |= self.build(index).blobs

    def _locations(self) -> list[ByteRange]:
        """Return the location of each sampled row group; chunks that are far from the others are left out."""
        locations = []
        for group in self.groups:
            ranges = [
                chunk_range(chunk.meta_data)
                for chunk in self.file.footer.metadata.row_groups[group].columns
                if chunk.meta_data is not None and not chunk.file_path
            ]
            sound = [ByteRange(*found) for found in ranges if self.file.footer.contains_range(*found)]
            total = sum(location.length for location in sound)
            if total:
                whole = ByteRange(min(found.start for found in sound), max(found.stop for found in sound))
                locations += [whole] if whole.length <= 2 * total else []
        return locations

    def build(self, index: Attachable) -> BuiltIndex:
        """Build an index on the sample.

        Raises:
            IntarsiaError: If it cannot be built.
        """
        started = time.perf_counter()
        attachment = Attachment(self._base, [index])
        blobs = {key: blob for key, blob in attachment.blobs.items() if blob != self._blobs.get(key)}
        states = {
            key: state for key, state in attachment.structures.states.items() if state != self._states[key]
        }
        num_bytes = sum(size for _, size in attachment.added.values())
        return BuiltIndex(index, blobs, states, num_bytes, time.perf_counter() - started)

    def with_indexes(self, built: Sequence[BuiltIndex]) -> ParquetInput:
        """Return the sample as a file with these indexes in addition to its own; nothing is cached."""
        blobs, states = dict(self._blobs), dict(self._states)
        for one in built:
            blobs |= one.blobs
            for key, state in one.states.items():
                states[key] = _merged(states[key], self._states[key], state)
        tail = b"".join(lay_out(self._base, blobs.values(), states)[0])
        return ParquetInput(ExtendedSource(self._base.file.source, self._base.length, tail))


def _merged(known: ChunkState, before: ChunkState, after: ChunkState) -> ChunkState:
    """Return the structures of a chunk, including those that another index adds."""
    fields = ("offset_index", "column_index", "bloom_filter", "encoding_stats", "statistics")
    return replace(
        known,
        **{name: getattr(after, name) for name in fields if getattr(after, name) != getattr(before, name)},
    )


def group_bytes(file: ParquetInput, groups: Sequence[int]) -> int:
    """Return the compressed size of some row groups in bytes, as the footer has it."""
    found = (file.footer.metadata.row_groups[group] for group in groups)
    return sum(
        max(0, chunk.meta_data.total_compressed_size)
        for group in found
        for chunk in group.columns
        if chunk.meta_data is not None
    )
