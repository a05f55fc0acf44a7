"""Repairs of the page index that pyarrow wrote, before the file is visible to readers.

pyarrow does not truncate bounds, and writes none if values exceed a length limit. It omits NaN from bounds,
so that readers that sort NaN above every number lose rows. This module truncates long bounds, computes
missing bounds, and removes the bounds of chunks that contain NaN, as `PageIndex` does for existing files.
"""

from __future__ import annotations

import os
from collections.abc import Container, Mapping, Sequence
from dataclasses import replace
from typing import TypeAlias

from intarsia.embed.chunk import NO_ORDER, Chunk, ChunkState, Placed
from intarsia.embed.original import states_of
from intarsia.embed.page_bounds import cut_bounds, may_be_cut
from intarsia.embed.page_index import HOLDS_NAN, PageIndex, index_chunk
from intarsia.embed.report import Note, Reason
from intarsia.embed.structures import StructureCompleter
from intarsia.embed.tail import FooterEdit, footer_pieces
from intarsia.errors import IndexBuildError
from intarsia.file import ChunkKey, ParquetInput
from intarsia.format import thrift
from intarsia.format.structs import ColumnIndex
from intarsia.rows.bounds import boundary_order
from intarsia.rows.ordering import MAX_BOUND_BYTES, Ordering
from intarsia.storage import ByteRange
from intarsia.storage.replace import write_all

#: The structures of every chunk.
States: TypeAlias = Mapping[ChunkKey, ChunkState]


def repair_page_index(file: ParquetInput, fd: int, nan_chunks: Container[ChunkKey]) -> list[Note]:
    """Truncate, complete and remove page bounds in a file that pyarrow has just written.

    Args:
        file: The file; it must be opened again afterwards.
        fd: The same file, open for writing.
        nan_chunks: The chunks that contain NaN.

    Returns:
        The chunks without bounds, and the reasons.
    """
    before, after, notes = states_of(file.footer), {}, []
    completer = StructureCompleter(file, {})
    for key, state in before.items():
        chunk = completer.chunk(key)
        assert chunk is not None  # every chunk of this file is in this file
        try:
            column_index = _bounds(chunk, state.column_index, contains_nan=key in nan_chunks)
        except IndexBuildError as error:
            code, text = Reason.of(error)
            notes.append(Note(chunk.leaf.name, key.row_group, PageIndex.kind, text, code))
            column_index = None
        after[key] = replace(state, column_index=column_index)
    if after != before:
        _write_tail(file, fd, before, after)
    return notes


def _bounds(chunk: Chunk, location: Placed, *, contains_nan: bool) -> Placed:
    """Return the ColumnIndex for a chunk.

    Raises:
        IndexBuildError: If the chunk cannot have bounds.
    """
    column = chunk.leaf.name
    if contains_nan:
        raise IndexBuildError(HOLDS_NAN.text, reason=HOLDS_NAN.code, column=column)
    ordering = chunk.reader.ordering
    if ordering is None:
        raise IndexBuildError(NO_ORDER.text, reason=NO_ORDER.code, column=column)
    if location is None:  # some values were too long for pyarrow
        chunk_index = index_chunk(chunk)
        if chunk_index.column_index is None:
            code, text = chunk_index.reason or NO_ORDER
            raise IndexBuildError(text, reason=code, column=column)
        return thrift.serialize(chunk_index.column_index)
    if not may_be_cut(ordering):
        return location
    index, _ = thrift.parse(ColumnIndex, chunk.bytes_of(location))
    if max(map(len, [*index.min_values, *index.max_values]), default=0) <= MAX_BOUND_BYTES:
        return location
    return thrift.serialize(_cut(index, ordering))


def _cut(index: ColumnIndex, ordering: Ordering) -> ColumnIndex:
    minima, maxima = cut_bounds(index.min_values, index.max_values, ordering)
    index = index._replace(min_values=minima, max_values=maxima)
    return index._replace(boundary_order=int(boundary_order(*ordering.decode_pages(index))))


def _write_tail(file: ParquetInput, fd: int, before: States, after: States) -> None:
    """Rewrite the page index and the footer, in pyarrow's order."""
    stored = [stored for state in before.values() for stored in (state.column_index, state.offset_index)]
    start = min(
        (location.start for location in stored if isinstance(location, ByteRange)), default=file.footer.start
    )
    pieces: list[bytes] = []
    edit, position = FooterEdit(file.footer.raw), start

    def put(location: Placed) -> ByteRange | None:
        nonlocal position
        if location is None:
            return None
        data = location if isinstance(location, bytes) else file.source.read(location.start, location.stop)
        pieces.append(data)
        position += len(data)
        return ByteRange(position - len(data), position)

    for key, state in after.items():
        edit.set_location(*key, "column_index", put(state.column_index))
    for key, state in after.items():
        edit.set_location(*key, "offset_index", put(state.offset_index))
    raw = edit.to_bytes()
    write_tail(fd, start, [*pieces, *footer_pieces(raw)])


def write_tail(fd: int, keep_bytes: int, tail: Sequence[bytes]) -> None:
    """Replace the tail of an open file in place."""
    os.ftruncate(fd, keep_bytes)
    os.lseek(fd, keep_bytes, os.SEEK_SET)
    for piece in tail:
        write_all(fd, piece)
