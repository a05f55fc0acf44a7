"""An open Parquet file, whose page index is loaded on demand."""

from __future__ import annotations

import os
from collections.abc import Iterable, Mapping
from contextlib import AbstractContextManager
from operator import attrgetter
from typing import Literal, NamedTuple, TypeAlias

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from intarsia.errors import CorruptFileError, FormatError, IntarsiaError
from intarsia.file.chunks import ChunkOutlines
from intarsia.file.metadata import ChunkKey, FileMetadata, Ignored, RawFooter, naming_errors
from intarsia.file.writers import Claim, trusts_checksums
from intarsia.format.directory import Directory, FoundDirectory
from intarsia.format.footer import (
    HEAD_BYTES,
    SMALLEST_FILE_BYTES,
    TRAILER_BYTES,
    Footer,
    footer_start,
    is_text,
)
from intarsia.format.page_index import (
    LocationTable,
    location_tables,
    parse_column_index,
    parse_offset_index,
)
from intarsia.format.pages import PAGE_CHECKSUM
from intarsia.once import cached_property
from intarsia.storage import ByteRange, ByteSource, CountedSource, IoCounts, LocalFile
from intarsia.tuning import REMOTE_INDEX_BYTES, REMOTE_TAIL_BYTES

#: The parts of the page index of a chunk.
StructName: TypeAlias = Literal["OffsetIndex", "ColumnIndex"]


_LEAF = attrgetter("leaf")


class Extent(NamedTuple):
    """The rows and bytes of files that are laid end to end.

    Attributes:
        row_edges: The first row of each file, and the end of the last one.
        num_bytes: The length of each file in bytes.
    """

    row_edges: npt.NDArray[np.int64]
    num_bytes: npt.NDArray[np.int64]


class ParquetInput:
    """An open Parquet file.

    Args:
        source: The source of its bytes. It is closed with the file, and also if the file cannot be opened.
        metadata: Cached metadata of the file, if the file has not changed since; then nothing is read.
        page_checksums: Whether pages that have a checksum are compared with it when they are read.

    Attributes:
        source: The source, which counts every read.
        page_checksums: As given, unless the checksums of the file's writer are not trusted.
        metadata: The footer, and the parsed parts of the page index.
        schema: The schema as Parquet leaves and Arrow types.
        locations: `FileMetadata.locations`.
        column_index: `FileMetadata.column_index`.
        trust: `FileMetadata.trust`.

    Raises:
        CorruptFileError: If it is not a Parquet file, or is damaged.
        UnsupportedFeatureError: If its footer is encrypted.
    """

    def __init__(
        self,
        source: ByteSource,
        metadata: FileMetadata | None = None,
        *,
        page_checksums: bool = True,
        tail_bytes: int = REMOTE_TAIL_BYTES,
    ) -> None:
        self.source = CountedSource(source)
        self.path = source.path
        try:
            with self.named_errors():
                self.metadata = metadata or FileMetadata(self.path, read_raw_footer(self.source, tail_bytes))
                self.footer: Footer = self.metadata.footer
                self.schema = self.metadata.schema
            self.page_checksums = page_checksums and all(map(trusts_checksums, self.footer.writers))
            self.locations = self.metadata.locations
            self.column_index = self.metadata.column_index
            self.trust = self.metadata.trust
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

    @cached_property
    def arrow_schema(self) -> pa.Schema:
        """The schema that ``pyarrow.parquet.read_table`` returns, without keys of index offsets."""
        with self.named_errors():
            return self.schema.arrow

    @cached_property
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

    def distrust(self, index: str, reason: str, code: str) -> None:
        """Record that an index is ignored, and why: in words, and as a code."""
        self.metadata.distrust(index, reason, code)

    def distrust_by(self, index: str, error: IntarsiaError) -> None:
        """Record that an index is ignored because of an error."""
        self.distrust(index, error.message, error.reason or "index-failed")

    def distrust_chunk(self, what: str, key: ChunkKey, error: FormatError) -> None:
        """Record that a part of the metadata of a chunk is ignored because of an error."""
        part, row_group, _ = self.metadata.part_of(key.row_group)
        index = f"{what} of {self.footer.leaves[key.leaf].name}, row group {row_group}"
        part.distrust(index, error.message, error.reason or "index-failed")

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

    def path_of(self, row_group: int) -> str:
        """Return the path of the file that has a row group; several files may be joined."""
        return self.metadata.part_of(row_group)[0].path

    # --- the page index ----------------------------------------------------------------------------

    def load_page_index(
        self, offset_indexes: Iterable[ChunkKey], column_indexes: Iterable[ChunkKey] = ()
    ) -> int:
        """Read the missing parts of the page index of some chunks, in one request if possible.

        Parts that are not trusted are recorded in `ignored` and not used.

        Returns:
            The number of bytes that this call read.
        """
        metadata = self.metadata
        columns = [key for key in column_indexes if not metadata.has_loaded("ColumnIndex", key)]
        offsets = [key for key in {*offset_indexes, *columns} if not metadata.has_loaded("OffsetIndex", key)]
        if not offsets and not columns:
            return 0
        outlines = metadata.outlines_with([*offsets, *columns])
        located = {
            **self._located("OffsetIndex", offsets, outlines),
            **self._located("ColumnIndex", columns, outlines),
        }
        ranges, reads = list(located.values()), IoCounts()
        missing = self.source.missing(ranges) if self.source.coalesce_bytes else []
        if missing:  # the OffsetIndexes of other columns, too, if a further request would take longer
            start, stop = min(missing).start, max(location.stop for location in missing)
            stop = max(stop, min(stop + REMOTE_TAIL_BYTES, metadata.footer_start))
            if stop - start <= self.source.coalesce_bytes:
                self.source.keep([ByteRange(start, stop)], reads)
        found = dict(zip(located, self.source.read_ranges(ranges, reads), strict=True))
        # the OffsetIndexes first, because a ColumnIndex must have the same number of pages
        blobs = [found.get(("OffsetIndex", key), b"") for key in offsets]
        for key, data, table in zip(offsets, blobs, location_tables(blobs), strict=True):
            self._keep_locations(key, outlines[key.leaf], data, table)
        for key in columns:
            part, row_group, _ = metadata.part_of(key.row_group)
            data, locations, column_index = found.get(("ColumnIndex", key), b""), self.locations(key), None
            if data and locations is not None:
                try:
                    column_index = parse_column_index(data, num_pages=len(locations))
                except CorruptFileError as error:
                    self.distrust_chunk("ColumnIndex", key, error)
            part.keep_column_index(ChunkKey(row_group, key.leaf), column_index, len(data))
        return reads.bytes

    def _located(
        self, struct: StructName, keys: Iterable[ChunkKey], outlines: Mapping[int, ChunkOutlines]
    ) -> dict[tuple[StructName, ChunkKey], ByteRange]:
        """Return the locations of those parts of the page index that are trusted and inside the file."""
        found = {}
        for key in keys:
            leaf = self.footer.leaves[key.leaf]
            of_leaf, group = outlines[key.leaf], key.row_group
            start, num_bytes = int(of_leaf.offset_indexes[group]), int(of_leaf.offset_index_bytes[group])
            of_column = int(of_leaf.column_indexes[group])
            first = min(start, of_column) or start or of_column  # 0 is no offset
            if struct == "ColumnIndex":
                start = of_column if start and num_bytes else 0
                num_bytes = int(of_leaf.column_index_bytes[group])
            if not start or not num_bytes:
                continue
            if not of_leaf.is_sound[group]:
                self.footer.chunk_metadata(group, leaf)  # raises
            part, _, shift = self.metadata.part_of(group)
            trust = self.trust(leaf)
            doubt = trust.doubt(Claim.PAGE_INDEX)
            if doubt is None and struct == "ColumnIndex":
                doubt = trust.doubt(Claim.PAGE_BOUNDS)
            own_start = None if part.directory is None else part.directory.original_length + shift
            if doubt is not None and (own_start is None or first < own_start):
                part.distrust(f"page index of {leaf.name}", doubt, "untrusted-writer")
            elif not part.footer.contains_range(start - shift, start + num_bytes - shift):
                problem = f"bytes {start - shift} to {start + num_bytes - shift} are outside the file's body"
                self.distrust_chunk(struct, key, CorruptFileError(problem, reason="out-of-bounds"))
            else:
                found[struct, key] = ByteRange(start, start + num_bytes)
        return found

    def _keep_locations(
        self, key: ChunkKey, outlines: ChunkOutlines, data: bytes, table: LocationTable | None
    ) -> None:
        group, locations = key.row_group, None
        part, row_group, shift = self.metadata.part_of(group)
        if data:
            try:  # the offsets are those in the file
                locations = parse_offset_index(
                    data,
                    num_rows=self.footer.metadata.row_groups[group].num_rows,
                    chunk_start=int(outlines.starts[group]) - shift,
                    chunk_stop=int(outlines.stops[group]) - shift,
                    table=table,
                )
            except CorruptFileError as error:
                self.distrust_chunk("OffsetIndex", key, error)
        own, recorded = ChunkKey(row_group, key.leaf), int(outlines.data_pages[group])
        part.keep_locations(own, locations, len(data), recorded)


def read_raw_footer(source: CountedSource, tail_bytes: int = REMOTE_TAIL_BYTES) -> RawFooter:
    """Read the footer of a file without parsing it; a small footer of a remote file takes one request.

    Args:
        source: The file.
        tail_bytes: Number of bytes at the end of a remote file to read with the footer, and to keep.

    Raises:
        CorruptFileError: If it is not a Parquet file, or is truncated.
        UnsupportedFeatureError: If its footer is encrypted.
    """
    size = source.size()
    if size < SMALLEST_FILE_BYTES:
        footer_start(b"", size)  # raises
    tail_start = max(0, size - (tail_bytes if source.coalesce_bytes else TRAILER_BYTES))
    if source.coalesce_bytes:
        source.keep([ByteRange(tail_start, size)])  # it may contain indexes, too
    tail = source.read(tail_start, size)
    try:
        start = footer_start(tail[-TRAILER_BYTES:], size)
    except CorruptFileError as error:
        if error.reason == "wrong-magic" and is_text(source.read(0, min(size, HEAD_BYTES))):
            raise CorruptFileError(
                "it is a text file, such as CSV or JSON, and not a Parquet file; convert it first, as in "
                "ia.write_table(pyarrow.csv.read_csv('a.csv'), 'a.parquet')",
                reason="text-file",
            ) from None
        raise
    if start >= tail_start:
        return RawFooter(tail[start - tail_start : -TRAILER_BYTES], start, size)
    return RawFooter(source.read(start, size - TRAILER_BYTES), start, size)
