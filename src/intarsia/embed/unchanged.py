"""Find out from the footer of a file alone that `attach` would leave it as it is."""

from __future__ import annotations

import time
from collections.abc import Sequence
from typing import NamedTuple

from intarsia.embed.attach import STANDARD, Attachable
from intarsia.embed.blobs import planned_entry, same_index
from intarsia.embed.chunk import NO_ORDER
from intarsia.embed.column_data import FileColumns
from intarsia.embed.page_index import PageIndex
from intarsia.embed.report import AttachReport, Note, summarize
from intarsia.file import ParquetInput
from intarsia.file.trust import Claim, Trust
from intarsia.format.directory import Directory
from intarsia.format.enums import Type
from intarsia.format.footer import Leaf
from intarsia.format.structs import ColumnChunk
from intarsia.indexes.base import Index


def unchanged_report(file: ParquetInput, indexes: Sequence[Attachable]) -> AttachReport | None:
    """Return the report of `attach` if the footer proves that the file has all indexes; otherwise None.

    The indexes themselves are not read, so damage is not noticed; `intarsia.verify` finds it. Statistics and
    Bloom filters cannot be judged by the footer.

    Args:
        file: The file.
        indexes: The indexes to attach.

    Raises:
        IndexBuildError: If an index cannot be built on its columns.
        ColumnNotFoundError: If the file has no such column.
    """
    started = time.perf_counter()
    directory = file.directory
    if directory is None:
        return None
    kept: list[str] = []
    notes: list[Note] = []
    embedded: set[str] = set()
    columns = FileColumns(file, lambda _: None)
    for index in sorted(indexes, key=lambda index: not isinstance(index, STANDARD)):
        if isinstance(index, PageIndex):
            found = _page_index(file, directory, index)
            if found is None:
                return None
            kept += [index.name] if found.is_there else []
            notes += found.notes
        elif isinstance(index, STANDARD):
            return None
        else:
            name = _entry_name(index, directory, columns)
            if name is None or name in embedded:  # `attach` refuses an index that is passed twice
                return None
            kept.append(name)
            embedded.add(name)
    size = file.source.size()
    return AttachReport(
        path=file.path,
        bytes_original=directory.original_length,
        bytes_before=size,
        bytes_after=size,
        built=(),
        kept=(*kept, *(entry.name for entry in directory.entries if entry.name not in embedded)),
        notes=summarize(notes, [group.num_rows for group in file.footer.metadata.row_groups]),
        stale=None,
        seconds=time.perf_counter() - started,
    )


class _PageIndexes(NamedTuple):
    """The page indexes of a file.

    Attributes:
        is_there: Whether a chunk has a complete page index.
        notes: The chunks that cannot have bounds.
    """

    is_there: bool
    notes: list[Note]


def _page_index(file: ParquetInput, directory: Directory, index: PageIndex) -> _PageIndexes | None:
    """Return the page indexes if every chunk has what `attach` would give it; otherwise None."""
    notes = []
    is_there = False
    doubted = {
        leaf.ordinal: Trust(file.footer, leaf).doubt(Claim.PAGE_INDEX) is not None
        for leaf in file.footer.leaves
    }
    for ordinal, group in enumerate(file.footer.metadata.row_groups):
        if group.num_rows == 0:
            continue
        for leaf, chunk in zip(file.footer.leaves, group.columns, strict=True):
            if not chunk.offset_index_offset or chunk.file_path or chunk.meta_data is None:
                return None
            if doubted[leaf.ordinal] and chunk.offset_index_offset < directory.original_length:
                return None
            if _has_bounds(file, leaf, chunk, index):
                is_there = True
            elif leaf.type == Type.INT96 and index.int96 is None and not chunk.column_index_offset:
                notes.append(Note(leaf.name, ordinal, index.name, NO_ORDER.text, NO_ORDER.code))
            else:
                return None
    return _PageIndexes(is_there, notes)


def _has_bounds(file: ParquetInput, leaf: Leaf, chunk: ColumnChunk, index: PageIndex) -> bool:
    """Return whether a chunk has a ColumnIndex, under an order that defines its bounds."""
    order = file.footer.column_order(leaf)
    if index.int96 is not None and leaf.type == Type.INT96 and order != "INT96_TIMESTAMP_ORDER":
        return False
    return bool(chunk.column_index_offset) and Trust(file.footer, leaf).order_is_known


def _entry_name(index: Index, directory: Directory, columns: FileColumns) -> str | None:
    """Return the name of the entry that equals an index; None if there is none."""
    planned = planned_entry(index, columns)
    return next((entry.name for entry in directory.entries if same_index(planned, entry)), None)
