"""An open Parquet file, whose page index is loaded on demand."""

from __future__ import annotations

import os
from collections.abc import Iterable, Mapping
from contextlib import AbstractContextManager
from functools import cached_property
from typing import NamedTuple, TypeAlias

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.parquet as pq

from intarsia.errors import CorruptFileError, FormatError, IntarsiaError
from intarsia.file.metadata import ChunkKey, FileMetadata, Ignored, RawFooter, naming_errors
from intarsia.file.schema import FileSchema
from intarsia.file.trust import Trust
from intarsia.format.directory import Directory, FoundDirectory
from intarsia.format.footer import (
    HEAD_BYTES,
    SMALLEST_FILE_BYTES,
    TRAILER_BYTES,
    Footer,
    Leaf,
    chunk_range,
    footer_start,
    is_text,
)
from intarsia.format.page_header import PAGE_CHECKSUM
from intarsia.format.page_index import (
    LocationTable,
    PageLocations,
    location_tables,
    parse_column_index,
    parse_offset_index,
)
from intarsia.format.structs import ColumnChunk, ColumnIndex
from intarsia.storage import ByteRange, ByteSource, CountedSource, IoCounts, LocalFile

#: Number of bytes read at the end of a remote file, which usually contain the whole footer.
REMOTE_TAIL_BYTES = 64 * 1024

#: Number of bytes before the footer of a remote file that are read together as soon as some of them are
#: needed. They contain the page index and, in many files, all other indexes. A lookup in one object needs
#: several of them, one after the other. A round trip to a store takes 20 to 100 ms, in which a connection
#: transfers 1 MiB or more. Objects that are planned together (`intarsia.file.joined`) are read without this
#: zone, because most of them are excluded by one index.
REMOTE_INDEX_BYTES = 256 * 1024


#: The key of a struct of the page index: the chunk, and ``"OffsetIndex"`` or ``"ColumnIndex"``.
ChunkStruct: TypeAlias = "tuple[ChunkKey, str]"


class _Wanted(NamedTuple):
    """A struct of the page index to read."""

    key: ChunkKey
    struct: str
    location: ByteRange


class Extent(NamedTuple):
    """The rows and bytes of files that are laid end to end.

    Attributes:
        row_edges: The first row of each file, and the end of the last one.
        num_bytes: The length of each file in bytes.
    """

    row_edges: npt.NDArray[np.int64]
    num_bytes: npt.NDArray[np.int64]

    @property
    def num_files(self) -> int:
        """The number of files."""
        return len(self.num_bytes)


class ParquetInput:
    """An open Parquet file.

    Args:
        source: The source of its bytes. It is closed with the file, and also if the file cannot be opened.
        metadata: Cached metadata of the file, if the file has not changed since; then nothing is read.
        page_checksums: Whether pages that have a checksum are compared with it when they are read.

    Attributes:
        source: The source, which counts every read.
        page_checksums: As given.
        metadata: The footer, and the parsed parts of the page index.
        footer: The footer.

    Raises:
        CorruptFileError: If it is not a Parquet file, or is damaged.
        UnsupportedFeatureError: If its footer is encrypted.
    """

    def __init__(
        self, source: ByteSource, metadata: FileMetadata | None = None, *, page_checksums: bool = True
    ) -> None:
        self.source = CountedSource(source)
        self.page_checksums = page_checksums
        self.path = source.path
        try:
            with self.named_errors():
                self.metadata = metadata or FileMetadata(self.path, read_raw_footer(self.source))
                self.footer: Footer = self.metadata.footer
            if source.coalesce_bytes:
                self.keep_indexes()
        except BaseException:
            self.close()
            raise

    def keep_indexes(self) -> None:
        """Read the bytes before the footer of a remote file together when some of them are needed."""
        stop = self.metadata.footer_start
        self.source.keep_when_read(ByteRange(max(0, stop - REMOTE_INDEX_BYTES), stop))

    @cached_property
    def extent(self) -> Extent:
        """The rows and bytes of the file; of each file, if several are joined."""
        return Extent(np.array([0, self.footer.num_rows]), np.array([self.source.size()]))

    @property
    def ignored(self) -> list[Ignored]:
        """Indexes that were found and are not trusted."""
        return self.metadata.ignored

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

    def named_errors(self) -> AbstractContextManager[None]:
        """Add this file's path to format errors that leave the block."""
        return naming_errors(self.path)

    # --- the schema --------------------------------------------------------------------------------

    @property
    def arrow_metadata(self) -> pq.FileMetaData:
        """The footer, parsed by pyarrow."""
        return self.metadata.arrow_metadata

    @property
    def schema(self) -> FileSchema:
        """The schema as Parquet leaves and Arrow types."""
        return self.metadata.schema

    @property
    def arrow_schema(self) -> pa.Schema:
        """The schema that ``pyarrow.parquet.read_table`` returns, without keys of index offsets."""
        with self.named_errors():
            return self.schema.arrow

    @property
    def leaves_by_path(self) -> Mapping[tuple[str, ...], Leaf]:
        """Leaves by path; of equal paths the first."""
        return self.schema.leaves_by_path

    @property
    def leaf_types(self) -> Mapping[int, pa.DataType]:
        """Arrow type of each leaf outside lists and maps, by ordinal."""
        with self.named_errors():
            return self.schema.leaf_types

    # --- the directory -----------------------------------------------------------------------------

    @property
    def found_directory(self) -> FoundDirectory | None:
        """The directory in the footer, even if it belongs to another file; None if there is none."""
        return self.metadata.found_directory

    @property
    def directory(self) -> Directory | None:
        """The directory of embedded indexes; None if there is none, or if it cannot be used."""
        return self.metadata.directory

    # --- trust -------------------------------------------------------------------------------------

    def trust(self, leaf: Leaf, arrow_type: pa.DataType | None = None) -> Trust:
        """Return what decides which metadata of a column is trusted.

        Args:
            leaf: The column.
            arrow_type: Its Arrow type; None if it is unknown.
        """
        return Trust(self.footer, leaf, arrow_type, self.metadata.directory_of_trust)

    def distrust(self, index: str, reason: str, code: str) -> None:
        """Record that an index is ignored, and why: in words, and as a code."""
        self.metadata.distrust(index, reason, code)

    def distrust_by(self, index: str, error: IntarsiaError) -> None:
        """Record that an index is ignored because of an error."""
        self.distrust(index, error.message, error.reason or "index-failed")

    def distrust_chunk(self, what: str, key: ChunkKey, error: FormatError) -> None:
        """Record that a part of the metadata of a chunk is ignored because of an error."""
        self._distrust_chunk(what, key, error.message, error.reason or "index-failed")

    def _distrust_chunk(self, what: str, key: ChunkKey, reason: str, code: str) -> None:
        part, row_group = self.metadata.part_of(key.row_group)
        part.distrust(f"{what} of {self.footer.leaves[key.leaf].name}, row group {row_group}", reason, code)

    def distrust_column_index(self, key: ChunkKey, error: FormatError) -> None:
        """Stop using the column index of a chunk, which contradicts itself or its OffsetIndex."""
        self.distrust_chunk("ColumnIndex", key, error)
        self.metadata.keep_column_index(key, None)

    def distrust_bounds(self, key: ChunkKey, error: FormatError) -> None:
        """Stop using the statistics and the column index of a chunk, which contradict each other."""
        self.distrust_chunk("bounds", key, error)
        self.metadata.drop_bounds(key)

    def distrust_damaged(self, row_group: int, error: FormatError) -> None:
        """Stop using the bounds of a column with a damaged page, so that later queries read the page, too.

        Args:
            row_group: Ordinal of the row group.
            error: An error of reading its pages, which names the column.
        """
        for leaf in self.footer.leaves if error.reason == PAGE_CHECKSUM else ():
            if leaf.name == error.column:
                self.metadata.drop_bounds(ChunkKey(row_group, leaf.ordinal))

    def body_stop_after(self, offset: int) -> int:  # noqa: ARG002  several files may be joined
        """Return the offset of the footer of the file that has the byte at an offset."""
        return self.footer.start

    def path_of(self, row_group: int) -> str:  # noqa: ARG002  several files may be joined
        """Return the path of the file that has a row group."""
        return self.path

    # --- the page index ----------------------------------------------------------------------------

    def _has_offset_index(self, key: ChunkKey) -> bool:
        chunk = self._chunk(key)
        return bool(chunk.offset_index_offset and chunk.offset_index_length)

    def has_column_index(self, key: ChunkKey) -> bool:
        """Return whether the footer has the offsets of a ColumnIndex and its OffsetIndex."""
        chunk = self._chunk(key)
        return bool(chunk.column_index_offset and chunk.column_index_length) and self._has_offset_index(key)

    def has_column_indexes(self, leaf: Leaf) -> npt.NDArray[np.bool_]:
        """Return `has_column_index` for the chunks of a leaf in all row groups."""
        key = ("has column index", leaf.ordinal)
        return self.metadata.derived(key, lambda: self._find_column_indexes(leaf))

    def _find_column_indexes(self, leaf: Leaf) -> npt.NDArray[np.bool_]:
        chunks = [group.columns[leaf.ordinal] for group in self.footer.metadata.row_groups]
        fields = [
            (
                chunk.column_index_offset,
                chunk.column_index_length,
                chunk.offset_index_offset,
                chunk.offset_index_length,
            )
            for chunk in chunks
        ]
        return np.array([all(of_chunk) for of_chunk in fields], dtype=bool)

    def load_page_index(
        self, offset_indexes: Iterable[ChunkKey], column_indexes: Iterable[ChunkKey] = ()
    ) -> int:
        """Read the missing parts of the page index of some chunks, in one request if possible.

        Parts that are not trusted are recorded in `ignored` and not used.

        Returns:
            The number of bytes that this call read.
        """
        columns = [key for key in column_indexes if not self.metadata.has_loaded_column_index(key)]
        offsets = [key for key in {*offset_indexes, *columns} if not self.metadata.has_loaded_locations(key)]
        if not offsets and not columns:
            return 0
        wanted: list[_Wanted] = []
        for key in offsets:
            chunk = self._chunk(key)
            if self._is_trusted(key, self._has_offset_index(key)):
                start = chunk.offset_index_offset or 0
                location = ByteRange(start, start + (chunk.offset_index_length or 0))
                wanted.append(_Wanted(key, "OffsetIndex", location))
        for key in columns:
            chunk = self._chunk(key)
            if self._is_trusted(key, self.has_column_index(key)):
                start = chunk.column_index_offset or 0
                location = ByteRange(start, start + (chunk.column_index_length or 0))
                wanted.append(_Wanted(key, "ColumnIndex", location))
        inside = [item for item in wanted if self._lies_inside(item)]
        reads = IoCounts()
        self._read_page_index_ahead([item.location for item in inside], reads)
        pieces = self.source.read_ranges([item.location for item in inside], reads)
        blobs = {(item.key, item.struct): data for item, data in zip(inside, pieces, strict=True)}
        # the OffsetIndexes first, because a ColumnIndex must have the same number of pages
        self._keep_locations(offsets, blobs)
        for key in columns:
            self._keep_column_index(key, blobs)
        return reads.bytes

    def _read_page_index_ahead(self, locations: list[ByteRange], reads: IoCounts) -> None:
        """Read the OffsetIndexes of other columns, too, if a further request would take longer."""
        locations = self.source.missing(locations) if self.source.coalesce_bytes else []
        if locations:
            start, stop = min(locations).start, max(location.stop for location in locations)
            stop = max(stop, min(stop + REMOTE_TAIL_BYTES, self.metadata.footer_start))
            if stop - start <= self.source.coalesce_bytes:
                self.source.keep([ByteRange(start, stop)], reads)

    def _chunk(self, key: ChunkKey) -> ColumnChunk:
        return self.footer.metadata.row_groups[key.row_group].columns[key.leaf]

    def _is_trusted(self, key: ChunkKey, is_there: bool) -> bool:
        if not is_there:
            return False
        leaf = self.footer.leaves[key.leaf]
        part, row_group = self.metadata.part_of(key.row_group)
        trust = Trust(part.footer, leaf, None, part.directory)
        reason = trust.doubt_of_page_index(part.footer.chunk(row_group, leaf))
        if reason is not None:
            part.distrust(f"page index of {leaf.name}", reason, "untrusted-writer")
        return reason is None

    def _lies_inside(self, wanted: _Wanted) -> bool:
        location = wanted.location
        inside = self.contains_range(wanted.key.row_group, location)
        if not inside:
            start, stop = (edge - self.metadata.shift_of(wanted.key.row_group) for edge in location)
            problem = f"bytes {start} to {stop} are outside the file's body"
            self._distrust_chunk(wanted.struct, wanted.key, problem, "out-of-bounds")
        return inside

    def contains_range(self, row_group: int, location: ByteRange) -> bool:
        """Return whether a range is not empty and in the body of the file that has a row group."""
        part, _ = self.metadata.part_of(row_group)
        shift = self.metadata.shift_of(row_group)
        return part.footer.contains_range(location.start - shift, location.stop - shift)

    def _keep_locations(self, keys: Iterable[ChunkKey], blobs: Mapping[ChunkStruct, bytes]) -> None:
        read = {key: data for key in keys if (data := blobs.get((key, "OffsetIndex"))) is not None}
        tables = dict(zip(read, location_tables(list(read.values())), strict=True))
        for key in keys:
            data, found = read.get(key), None
            if data is not None:
                try:
                    found = self._parse_locations(key, data, tables[key])
                except CorruptFileError as error:
                    self.distrust_chunk("OffsetIndex", key, error)
            self.metadata.keep_locations(key, found, len(data or b""))

    def _keep_column_index(self, key: ChunkKey, blobs: Mapping[ChunkStruct, bytes]) -> None:
        data, locations = blobs.get((key, "ColumnIndex")), self.locations(key)
        found = None
        if data is not None and locations is not None:
            try:
                found = parse_column_index(data, num_pages=len(locations))
            except CorruptFileError as error:
                self.distrust_chunk("ColumnIndex", key, error)
        self.metadata.keep_column_index(key, found, len(data or b""))

    def _parse_locations(self, key: ChunkKey, data: bytes, table: LocationTable | None) -> PageLocations:
        leaf = self.footer.leaves[key.leaf]
        part, row_group = self.metadata.part_of(key.row_group)  # the offsets are those in the file
        start, stop = chunk_range(part.footer.chunk_metadata(row_group, leaf))
        num_rows = part.footer.metadata.row_groups[row_group].num_rows
        return parse_offset_index(data, num_rows=num_rows, chunk_start=start, chunk_stop=stop, table=table)

    def locations(self, key: ChunkKey) -> PageLocations | None:
        """Return the page locations of a chunk; None if `load_page_index` found none that are trusted."""
        return self.metadata.locations(key)

    def column_index(self, key: ChunkKey) -> ColumnIndex | None:
        """Return the column index of a chunk; None if `load_page_index` found none that is trusted."""
        return self.metadata.column_index(key)


def read_raw_footer(source: CountedSource) -> RawFooter:
    """Read the footer of a file without parsing it; a small footer of a remote file takes one request.

    Raises:
        CorruptFileError: If it is not a Parquet file, or is truncated.
        UnsupportedFeatureError: If its footer is encrypted.
    """
    size = source.size()
    try:
        return _read_raw_footer(source, size)
    except CorruptFileError as error:
        if error.reason == "wrong-magic" and is_text(source.read(0, min(size, HEAD_BYTES))):
            raise CorruptFileError(
                "it is a text file, such as CSV or JSON, and not a Parquet file; convert it first, as in "
                "ia.write_table(pyarrow.csv.read_csv('a.csv'), 'a.parquet')",
                reason="text-file",
            ) from None
        raise


def _read_raw_footer(source: CountedSource, size: int) -> RawFooter:
    tail_bytes = REMOTE_TAIL_BYTES if source.coalesce_bytes else TRAILER_BYTES
    if size < SMALLEST_FILE_BYTES:
        footer_start(b"", size)
    tail_start = max(0, size - tail_bytes)
    if source.coalesce_bytes:
        source.keep([ByteRange(tail_start, size)])  # it may contain indexes, too
    tail = source.read(tail_start, size)
    start = footer_start(tail[-TRAILER_BYTES:], size)
    if start >= tail_start:
        return RawFooter(tail[start - tail_start : -TRAILER_BYTES], start, size)
    return RawFooter(source.read(start, size - TRAILER_BYTES), start, size)
