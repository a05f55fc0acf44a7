"""Build the parts of the indexes of one large file, in several processes."""

from __future__ import annotations

from collections.abc import Sequence
from contextlib import suppress
from functools import partial
from typing import NamedTuple

import pyarrow as pa

from intarsia.embed.attach import STANDARD, Attachable
from intarsia.embed.blobs import planned_entry, same_index
from intarsia.embed.chunk_state import carried_states
from intarsia.embed.column_data import FileColumns
from intarsia.embed.original import find_original
from intarsia.embed.page_index import known_offset_index
from intarsia.embed.parts import Part, version_of
from intarsia.embed.structures import StructureCompleter
from intarsia.errors import IntarsiaError
from intarsia.file import ParquetInput
from intarsia.indexes.base import Index
from intarsia.indexes.merging import MergesParts
from intarsia.storage.target import find_target


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
        file: The file.
        indexes: The indexes to attach.
        part_bytes: The size of a part in bytes; a part has at least one row group.

    Returns:
        The parts, the slowest first. An index whose payload cannot be merged is a part.
    """
    groups = find_original(file).file.footer.metadata.row_groups
    whole = [
        position for position, index in enumerate(indexes) if isinstance(index, Index) and not _merges(index)
    ]
    shared = tuple(position for position in range(len(indexes)) if position not in whole)
    works = [PartWork(0, len(groups), (at,)) for at in whole]
    start, size = 0, 0
    for ordinal, group in enumerate(groups):
        size += sum(chunk.meta_data.total_compressed_size for chunk in group.columns if chunk.meta_data)
        if shared and (size >= part_bytes or ordinal == len(groups) - 1):
            works.append(PartWork(start, ordinal + 1, shared))
            start, size = ordinal + 1, 0
    return works


def _merges(index: Index) -> bool:
    return isinstance(index, MergesParts) and index.can_merge()


def build_part(path: str, indexes: Sequence[Attachable], work: PartWork) -> Part:
    """Build a part; indexes that cannot be built are left out.

    Raises:
        IntarsiaError: If the file cannot be opened.
    """
    with ParquetInput(find_target(path).open()) as current, current.named_errors():
        original = find_original(current)
        version = version_of(original)
        structures = StructureCompleter(
            original.file, carried_states(original.file.footer, current, original.directory)
        )
        row_groups = range(work.start, work.stop)
        requested = [indexes[ordinal] for ordinal in work.indexes]
        standard = [index for cls in STANDARD for index in requested if isinstance(index, cls)]
        outcomes = {}
        for item in structures.work(standard):
            key = item[0]
            if key.row_group in row_groups:
                outcomes[key] = tuple(structures.complete(item))
                structures.keep(key, outcomes[key])
        columns = FileColumns(original.file, partial(known_offset_index, structures), row_groups=row_groups)
        there = original.directory.entries if original.directory is not None else ()
        payloads = {}
        for index in requested:
            if not isinstance(index, STANDARD):
                with suppress(IntarsiaError, pa.ArrowException, UnicodeDecodeError):  # `attach` raises them
                    planned = planned_entry(index, columns)
                    if not any(same_index(planned, entry) for entry in there):
                        payloads[planned.name] = index.build(columns)
        return Part(version, work.start, work.stop, outcomes, payloads)
