"""Indexes of one large file, built in parts by several processes; one of them attaches all.

A part has the standard structures of some row groups, and payloads. The process that attaches them ignores
the parts of another file, and builds what is missing or cannot be merged. So a part only saves time, and
errors are those of `attach`.
"""

from __future__ import annotations

import os
from collections.abc import Mapping, Sequence
from contextlib import suppress
from typing import NamedTuple

import pyarrow as pa
import xxhash

from intarsia.embed.chunk import Outcome
from intarsia.embed.column_data import FileColumns
from intarsia.embed.original import Original, find_original
from intarsia.embed.structures import STANDARD, Attachable, StructureCompleter, planned_entry, same_index
from intarsia.errors import IntarsiaError
from intarsia.file import ChunkKey, ParquetInput
from intarsia.indexes.base import Index, PayloadPart
from intarsia.indexes.layout import Layout
from intarsia.records import dataclass
from intarsia.storage import local_path
from intarsia.storage.target import find_target


@dataclass(frozen=True)
class Part:
    """The structures and payloads that one process has built.

    Attributes:
        start: The first row group.
        stop: The end of the row groups.
        outcomes: The outcomes of the standard structures of each chunk.
        payloads: The payloads of embedded indexes on these row groups, by index name.
    """

    version: str
    start: int
    stop: int
    outcomes: dict[ChunkKey, tuple[Outcome, ...]]
    payloads: dict[str, bytes]


def version_of(original: Original) -> str:
    """Return a string that changes if the file is replaced by one with other rows."""
    current = original.current
    local = local_path(current.path)
    changed: object = current.source.identity if local is None else os.stat(local).st_mtime_ns
    footer = xxhash.xxh3_128_hexdigest(current.footer.raw)
    return f"{footer} {current.footer.file_length} {original.length} {changed}"


class BuiltParts:
    """The parts of one file.

    Args:
        parts: The parts in any order. Parts of other files are ignored. A part may occur twice, because a
            task can run twice.

    Attributes:
        outcomes: The outcomes of the standard structures of each chunk.
    """

    outcomes: Mapping[ChunkKey, Sequence[Outcome]]

    def __init__(self, parts: Sequence[Part], original: Original) -> None:
        version = version_of(original) if parts else ""
        chosen = {(part.start, part.stop, *part.payloads): part for part in parts if part.version == version}
        self._parts = sorted(chosen.values(), key=lambda part: part.start)
        self._edges = original.file.footer.row_group_starts
        self.outcomes = {key: found for part in self._parts for key, found in part.outcomes.items()}

    def payload(self, index: Index, name: str) -> bytes | None:
        """Return the payload of an index on the whole file; None if it has to be built."""
        parts = [part for part in self._parts if name in part.payloads]
        stops = [0, *(part.stop for part in parts)]
        if not parts or [part.start for part in parts] != stops[:-1] or stops[-1] != len(self._edges) - 1:
            return None
        if len(parts) == 1:
            return parts[0].payloads[name]
        pieces = []
        for part in parts:
            edges = self._edges[part.start : part.stop + 1]
            layout = Layout(int(edges[-1] - edges[0]), edges - edges[0], {})
            pieces.append(PayloadPart(part.payloads[name], layout))
        try:
            return index.merge(pieces)
        except (IntarsiaError, pa.ArrowException):  # `attach` builds it and raises the error
            return None


class PartWork(NamedTuple):
    """The work of one process.

    Attributes:
        start: The first row group.
        stop: The end of the row groups.
        indexes: The positions, in the list of all indexes, of those to build on these row groups.
    """

    start: int
    stop: int
    indexes: tuple[int, ...]


def divide_work(file: ParquetInput, indexes: Sequence[Attachable], part_bytes: int) -> list[PartWork]:
    """Divide the work on a file.

    Args:
        part_bytes: The size of a part in bytes; a part has at least one row group.

    Returns:
        The parts, the slowest first. An index whose payload cannot be merged is a part.
    """
    groups = find_original(file).file.footer.metadata.row_groups
    shared = tuple(
        position
        for position, index in enumerate(indexes)
        if not isinstance(index, Index) or index.can_merge()
    )
    works = [PartWork(0, len(groups), (at,)) for at in range(len(indexes)) if at not in shared]
    start, size = 0, 0
    for ordinal, group in enumerate(groups):
        size += sum(chunk.meta_data.total_compressed_size for chunk in group.columns if chunk.meta_data)
        if shared and (size >= part_bytes or ordinal == len(groups) - 1):
            works.append(PartWork(start, ordinal + 1, shared))
            start, size = ordinal + 1, 0
    return works


def build_part(path: str, indexes: Sequence[Attachable], work: PartWork) -> Part:
    """Build a part; indexes that cannot be built are left out.

    Raises:
        IntarsiaError: If the file cannot be opened.
    """
    with ParquetInput(find_target(path).open()) as current, current.named_errors():
        original = find_original(current)
        version = version_of(original)
        structures = StructureCompleter(original.file, original.carried_states())
        row_groups = range(work.start, work.stop)
        requested = [indexes[ordinal] for ordinal in work.indexes]
        standard = [index for cls in STANDARD for index in requested if isinstance(index, cls)]
        outcomes = {}
        for item in structures.work(standard):
            if item[0].row_group in row_groups:
                outcomes[item[0]] = tuple(structures.complete(item))
                structures.take(item, outcomes[item[0]])
        columns = FileColumns(original.file, structures.first_rows, row_groups=row_groups)
        there = original.directory.entries if original.directory is not None else ()
        payloads = {}
        for index in requested:
            if not isinstance(index, STANDARD):
                with suppress(IntarsiaError, pa.ArrowException, UnicodeDecodeError):  # `attach` raises them
                    planned = planned_entry(index, columns)
                    if not any(same_index(planned, entry) for entry in there):
                        payloads[planned.name] = index.build(columns)
        return Part(version, work.start, work.stop, outcomes, payloads)
