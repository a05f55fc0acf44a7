"""One Parquet file, opened: its footer, its leaves as Arrow sees them, and its page index on demand."""

from __future__ import annotations

import contextlib
import os
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from functools import cached_property
from typing import Any, NamedTuple

import pyarrow as pa
import pyarrow.parquet as pq

from intarsia.errors import CorruptFileError, FormatError
from intarsia.file.schema import FileSchema, file_schema
from intarsia.file.synthetic import decode_errors, footer_parts
from intarsia.format.directory import Directory, FoundDirectory, find_directory
from intarsia.format.footer import (
    SMALLEST_FILE_BYTES,
    TRAILER_BYTES,
    Footer,
    Leaf,
    chunk_range,
    footer_start,
    parse_footer,
)
from intarsia.format.page_index import PageLocations, parse_column_index, parse_offset_index
from intarsia.format.structs import ColumnIndex
from intarsia.format.writers import distrusts_page_index
from intarsia.storage import ByteRange, ByteSource, CountedSource, LocalFile

#: Bytes read at the end of a remote file in the hope that they hold the whole footer.
REMOTE_TAIL_BYTES = 64 * 1024


class ChunkKey(NamedTuple):
    """A column chunk: ordinal of the row group, ordinal of the leaf."""

    row_group: int
    leaf: int


@dataclass(frozen=True)
class Ignored:
    """An index that was there and was not used, and why."""

    file: str
    index: str
    reason: str


class ParquetInput:
    """An open file.

    Args:
        source: Where its bytes come from; every read is counted.

    Attributes:
        source: The counted source.
        footer: The footer.
        ignored: Indexes that were there and could not be believed.
        dictionaries: Dictionary pages that were read to prune by, and their offsets; who needs one takes it.
        distinct_column: The column that distinct values in DataFusion's form are of, by the word of whoever
            opened the file; None if nobody says, and then they are not used.

    Raises:
        CorruptFileError: If it is no Parquet file, or a damaged one.
        UnsupportedFeatureError: If its footer is encrypted.
    """

    def __init__(self, source: ByteSource) -> None:
        self.source = CountedSource(source)
        self.path = source.path
        self.ignored: list[Ignored] = []
        self.dictionaries: dict[int, bytes] = {}
        self.distinct_column: tuple[str, ...] | None = None
        self._locations: dict[ChunkKey, PageLocations | None] = {}
        self._column_indexes: dict[ChunkKey, ColumnIndex | None] = {}
        with self.named_errors():
            self.footer = self._read_footer()

    @classmethod
    def open(cls, path: str | os.PathLike[str]) -> ParquetInput:
        """Open a local file."""
        return cls(LocalFile(path))

    def close(self) -> None:
        """Close the source."""
        self.source.close()

    def __enter__(self) -> ParquetInput:
        return self

    def __exit__(self, *exc: object) -> None:
        self.close()

    @contextlib.contextmanager
    def named_errors(self) -> Any:
        """Give this file's name to format errors that leave the block."""
        try:
            yield
        except FormatError as error:
            error.path = error.path or self.path
            raise

    def _read_footer(self) -> Footer:
        size = self.source.size()
        hoped = REMOTE_TAIL_BYTES if self.source.coalesce_bytes else TRAILER_BYTES
        if size < SMALLEST_FILE_BYTES:
            footer_start(b"", size)
        tail_start = max(0, size - hoped)
        tail = self.source.read(tail_start, size)
        start = footer_start(tail[-TRAILER_BYTES:], size)
        stop = size - TRAILER_BYTES
        raw = (
            tail[start - tail_start : -TRAILER_BYTES]
            if start >= tail_start
            else self.source.read(start, stop)
        )
        return parse_footer(raw, start, size)

    # --- what Arrow makes of the schema ------------------------------------------------------------

    @cached_property
    def arrow_metadata(self) -> pq.FileMetaData:
        """The footer as pyarrow holds it."""
        # a file of nothing but the footer: pyarrow reads no more than that
        tail = b"".join(footer_parts(self.footer.raw))
        with self.named_errors(), decode_errors("the footer", "FileMetaData"):
            return pq.read_metadata(pa.BufferReader(tail))

    @cached_property
    def schema(self) -> FileSchema:
        """The schema, as leaves and as Arrow sees it."""
        return file_schema(self.footer)

    @property
    def arrow_schema(self) -> pa.Schema:
        """The schema that ``pyarrow.parquet.read_table`` gives, without keys that point into this file."""
        with self.named_errors():
            return self.schema.arrow

    @property
    def leaves_by_path(self) -> Mapping[tuple[str, ...], Leaf]:
        """Leaves by their path; of equal paths the first."""
        return self.schema.leaves_by_path

    @property
    def leaf_types(self) -> Mapping[int, pa.DataType]:
        """Arrow's type of each leaf that is in no list or map, by its ordinal."""
        with self.named_errors():
            return self.schema.leaf_types

    # --- what Intarsia added -----------------------------------------------------------------------

    @cached_property
    def found_directory(self) -> FoundDirectory | None:
        """The directory in the footer, even one that is not about this file; None if there is none."""
        return find_directory(self.footer)

    @cached_property
    def directory(self) -> Directory | None:
        """What Intarsia added to the file; None if nothing, or if the directory is not to be used."""
        found = self.found_directory
        if found is None:
            return None
        if found.reason is not None:
            self.distrust("intarsia directory", found.reason)
            return None
        return found.directory

    # --- the page index ----------------------------------------------------------------------------

    def distrust(self, index: str, reason: str) -> None:
        """Note that an index was there and is not used."""
        note = Ignored(self.path, index, reason)
        if note not in self.ignored:
            self.ignored.append(note)

    def distrust_page_index(self, row_group: int, reason: str) -> None:
        """Forget the page index of a row group: its pages did not hold what it says."""
        self.distrust(f"page index, row group {row_group}", reason)
        for leaf in self.footer.leaves:
            self._locations[ChunkKey(row_group, leaf.ordinal)] = None
            self._column_indexes[ChunkKey(row_group, leaf.ordinal)] = None

    def distrust_column_index(self, key: ChunkKey, reason: str) -> None:
        """Forget the column index of a chunk: it contradicts itself, or its OffsetIndex."""
        self.distrust(self._index_name("ColumnIndex", key), reason)
        self._column_indexes[key] = None

    def _has_offset_index(self, key: ChunkKey) -> bool:
        chunk = self.footer.metadata.row_groups[key.row_group].columns[key.leaf]
        return bool(chunk.offset_index_offset and chunk.offset_index_length)

    def has_column_index(self, key: ChunkKey) -> bool:
        """Whether the footer says where a ColumnIndex and its OffsetIndex lie."""
        chunk = self.footer.metadata.row_groups[key.row_group].columns[key.leaf]
        return bool(chunk.column_index_offset and chunk.column_index_length) and self._has_offset_index(key)

    def load_page_index(
        self, offset_indexes: Iterable[ChunkKey], column_indexes: Iterable[ChunkKey] = ()
    ) -> None:
        """Read what is missing of some chunks' page index, all in one go.

        What cannot be believed is noted in `ignored`, and is then absent.
        """
        wanted_columns = [key for key in column_indexes if key not in self._column_indexes]
        wanted_offsets = [key for key in {*offset_indexes, *wanted_columns} if key not in self._locations]
        reads: list[tuple[ChunkKey, str, ByteRange]] = []
        for key in wanted_offsets:
            self._locations[key] = None
            chunk = self.footer.metadata.row_groups[key.row_group].columns[key.leaf]
            if self._believes(key, self._has_offset_index(key)):
                start = chunk.offset_index_offset or 0
                reads.append((key, "OffsetIndex", ByteRange(start, start + (chunk.offset_index_length or 0))))
        for key in wanted_columns:
            self._column_indexes[key] = None
            chunk = self.footer.metadata.row_groups[key.row_group].columns[key.leaf]
            if self._believes(key, self.has_column_index(key)):
                start = chunk.column_index_offset or 0
                reads.append((key, "ColumnIndex", ByteRange(start, start + (chunk.column_index_length or 0))))
        inside = [read for read in reads if self._lies_inside(*read)]
        blobs = self.source.read_ranges([place for _, _, place in inside])
        for (key, struct, _), data in sorted(
            zip(inside, blobs, strict=True), key=lambda item: item[0][1] != "OffsetIndex"
        ):
            self._keep(key, struct, data)

    def _believes(self, key: ChunkKey, there: bool) -> bool:
        if not there:
            return False
        chunk = self.footer.metadata.row_groups[key.row_group].columns[key.leaf]
        reason = distrusts_page_index(self.footer.created_by, self.footer.leaves[key.leaf])
        if reason is None:
            return True
        if self.directory is not None and (chunk.offset_index_offset or 0) >= self.directory.original_length:
            return True  # added by Intarsia, whoever wrote the rest of the file
        self.distrust(f"page index of {self.footer.leaves[key.leaf].name}", reason)
        return False

    def _lies_inside(self, key: ChunkKey, struct: str, place: ByteRange) -> bool:
        inside = self.footer.holds(place.start, place.stop)
        if not inside:
            self.distrust(
                self._index_name(struct, key),
                f"bytes {place.start} to {place.stop} lie outside the file's body",
            )
        return inside

    def _index_name(self, struct: str, key: ChunkKey) -> str:
        return f"{struct} of {self.footer.leaves[key.leaf].name}, row group {key.row_group}"

    def _keep(self, key: ChunkKey, struct: str, data: bytes) -> None:
        try:
            if struct == "OffsetIndex":
                self._locations[key] = self._parse_locations(key, data)
            elif (locations := self._locations.get(key)) is not None:
                self._column_indexes[key] = parse_column_index(data, num_pages=len(locations))
        except CorruptFileError as error:
            self.distrust(self._index_name(struct, key), error.message)

    def _parse_locations(self, key: ChunkKey, data: bytes) -> PageLocations:
        leaf = self.footer.leaves[key.leaf]
        start, stop = chunk_range(self.footer.chunk_metadata(key.row_group, leaf))
        num_rows = self.footer.metadata.row_groups[key.row_group].num_rows
        return parse_offset_index(data, num_rows=num_rows, chunk_start=start, chunk_stop=stop)

    def locations(self, key: ChunkKey) -> PageLocations | None:
        """Where a chunk's pages lie; None where `load_page_index` found nothing to believe."""
        return self._locations.get(key)

    def column_index(self, key: ChunkKey) -> ColumnIndex | None:
        """A chunk's column index; None where `load_page_index` found nothing to believe."""
        return self._column_indexes.get(key)
