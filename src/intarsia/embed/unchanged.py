"""Prove from the footer alone that `attach` would not change a file."""

from __future__ import annotations

import time
from collections.abc import Sequence
from functools import cached_property
from typing import NamedTuple

from intarsia.embed.attach import STANDARD, Attachable
from intarsia.embed.blobs import planned_entry, same_index
from intarsia.embed.bloom import Bloom
from intarsia.embed.chunk import NO_ORDER, Chunk
from intarsia.embed.chunk_state import chunks_of
from intarsia.embed.column_data import FileColumns
from intarsia.embed.leaf_values import LeafReader, leaf_readers
from intarsia.embed.page_index import PageIndex
from intarsia.embed.report import AttachReport, Note, Reason, summarize
from intarsia.embed.statistics import Statistics, is_doubted, is_incomplete, missing_bounds
from intarsia.file import ChunkKey, ParquetInput
from intarsia.format.directory import Directory
from intarsia.format.enums import Type
from intarsia.format.structs import ColumnChunk, ColumnMetaData
from intarsia.indexes.base import Index


def unchanged_report(file: ParquetInput, indexes: Sequence[Attachable]) -> AttachReport | None:
    """Return the report of `attach` if the footer proves that the file has all indexes; otherwise None.

    The indexes themselves are not read, so damage is not detected; `intarsia.verify` finds it. A footer does
    not show the false-positive rate of a Bloom filter, so the result is None if ``indexes`` contains one.

    Args:
        file: The file.
        indexes: The indexes to attach.

    Raises:
        IndexBuildError: If an index cannot be built on its columns.
        ColumnNotFoundError: If the file has no such column.
    """
    started = time.perf_counter()
    directory = file.directory
    if directory is None or any(isinstance(index, Bloom) for index in indexes):
        return None
    standard = [index for cls in (PageIndex, Statistics) for index in indexes if isinstance(index, cls)]
    columns = FileColumns(file, lambda _: None)
    embedded = [
        _entry_name(index, directory, columns) for index in indexes if not isinstance(index, STANDARD)
    ]
    if None in embedded or len(set(embedded)) < len(embedded):  # `attach` refuses one that is passed twice
        return None
    known = _Structures(file)
    if not known.have(standard):
        return None
    size = file.source.size()
    names = [index.name for index in standard if index.name in known.kept]
    return AttachReport(
        path=file.path,
        bytes_original=directory.original_length,
        bytes_before=size,
        bytes_after=size,
        built=(),
        kept=(
            *names,
            *(name for name in embedded if name is not None),
            *(entry.name for entry in directory.entries if entry.name not in embedded),
        ),
        notes=summarize(known.notes, [group.num_rows for group in file.footer.metadata.row_groups]),
        stale=None,
        seconds=time.perf_counter() - started,
    )


class _Structures:
    """The standard structures of a file, as far as its footer shows them.

    Attributes:
        kept: The names of the structures that a chunk has.
        notes: The chunks that cannot have a structure, or not all of it.
    """

    def __init__(self, file: ParquetInput) -> None:
        self._file = file
        self.kept: set[str] = set()
        self.notes: list[Note] = []

    @cached_property
    def _readers(self) -> list[LeafReader]:
        return leaf_readers(self._file.footer)

    def have(self, structures: Sequence[PageIndex | Statistics]) -> bool:
        """Return whether every chunk with rows has all structures that `attach` would add."""
        footer = self._file.footer
        for key, chunk in chunks_of(footer) if structures else ():
            if footer.metadata.row_groups[key.row_group].num_rows == 0:
                continue
            if chunk.meta_data is None or chunk.file_path:
                return False
            for structure in structures:
                if isinstance(structure, PageIndex):
                    found = self._page_index(key, chunk, structure)
                else:
                    found = self._statistics(key, chunk.meta_data)
                if found is None:
                    return False
                if found.reason is None:
                    self.kept.add(structure.name)
                else:
                    code, text = found.reason
                    name = footer.leaves[key.leaf].name
                    self.notes.append(Note(name, key.row_group, structure.name, text, code))
        return True

    def _page_index(self, key: ChunkKey, chunk: ColumnChunk, index: PageIndex) -> _Complete | None:
        footer = self._file.footer
        leaf = footer.leaves[key.leaf]
        if not chunk.offset_index_offset:
            return None
        trust = self._file.trust(leaf)
        if trust.doubt_of_page_index(chunk) is not None:
            return None
        if leaf.type == Type.INT96 and index.int96 is None and not chunk.column_index_offset:
            return _Complete(NO_ORDER)
        if leaf.type == Type.INT96 and index.int96 and footer.column_order(leaf) != "INT96_TIMESTAMP_ORDER":
            return None
        return _Complete() if chunk.column_index_offset and trust.order_is_known else None

    def _statistics(self, key: ChunkKey, meta: ColumnMetaData) -> _Complete | None:
        chunk = Chunk(self._file, key, meta, self._readers[key.leaf])
        now = meta.statistics
        if now is None or is_incomplete(chunk, now) or is_doubted(chunk):
            return None
        return _Complete(missing_bounds(chunk, now))


class _Complete(NamedTuple):
    """A structure of a chunk to which `attach` would add nothing, and the reason if it is incomplete."""

    reason: Reason | None = None


def _entry_name(index: Index, directory: Directory, columns: FileColumns) -> str | None:
    """Return the name of the entry that equals an index; None if there is none."""
    planned = planned_entry(index, columns)
    return next((entry.name for entry in directory.entries if same_index(planned, entry)), None)
