"""Files with the same columns as one file that has the row groups of all of them.

Pruning evaluates a condition on all row groups of a file at once. So it evaluates a condition on all row
groups of many files at once if these are joined into one file: their bodies are concatenated, and the
offsets in their footers are shifted. Nothing is copied; a read goes to the file that has the bytes. Objects
in object stores are read concurrently.
"""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Callable, Hashable, Iterable, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import closing
from dataclasses import replace
from itertools import accumulate
from typing import Literal

import numpy as np
import numpy.typing as npt

from intarsia.errors import CorruptFileError, ReplacedWhileReadError
from intarsia.file.chunks import ChunkOutlines
from intarsia.file.decode import outlines_of
from intarsia.file.metadata import (
    PARSED_PER_SERIALIZED,
    ChunkKey,
    Contradiction,
    FileMetadata,
    Ignored,
    RawFooter,
    naming_errors,
)
from intarsia.file.parquet_file import Extent, ParquetInput
from intarsia.file.schema import INDEX_KEYS
from intarsia.format.directory import Directory
from intarsia.format.footer import Footer, Leaf
from intarsia.format.page_index import Int64s, PageLocations
from intarsia.format.row_groups import LazyChunks, parse_chunks
from intarsia.format.structs import ColumnChunk, ColumnIndex
from intarsia.once import cached_property
from intarsia.records import dataclass
from intarsia.rows.bounds import Bools
from intarsia.rows.selection import RowSelection
from intarsia.storage import ByteRange, ByteSource, CountedSource, ObjectStoreFile, check_unchanged
from intarsia.tuning import REQUESTS_AT_ONCE

#: Ranges of an object at most this many bytes apart are read in one request. A single object is read with
#: gaps of up to 1 MiB, because a connection transfers 1 MiB in the time of another request. Here, other
#: requests are made in that time, and their connections share the network.
GAP_BYTES = ObjectStoreFile.coalesce_bytes // REQUESTS_AT_ONCE

#: Memory of a row group in the joined footer; and that of parsed structs with the arrays that are derived
#: from them, as a multiple of that of the structs.
_GROUP_BYTES, _WITH_DERIVED = 1024, 1.5


@dataclass(frozen=True)
class JoinedPart:
    """A file to join with others.

    Attributes:
        identity: The identity of the file that has the metadata.
        open: Opens the file, which may have been replaced since.
        is_remote: Whether it is in an object store, where each read is a request; either all parts are, or
            none.
        page_checksums: Whether pages are compared with their checksums; either in all parts, or in none.
    """

    metadata: FileMetadata
    identity: Hashable
    open: Callable[[], ByteSource]
    is_remote: bool = False
    page_checksums: bool = True

    def open_unchanged(self) -> ByteSource:
        """Open the file.

        Raises:
            ReplacedWhileReadError: If it has been replaced.
        """
        source = self.open()
        if source.identity != self.identity:
            source.close()
            raise self.replaced()
        return source

    def replaced(self) -> ReplacedWhileReadError:
        """Return the error that reports a file that has been replaced."""
        path = self.metadata.path
        return ReplacedWhileReadError(
            "the file was replaced while a query was planned", reason="file-replaced", path=path
        )


class JoinedMetadata(FileMetadata):
    """The metadata of files with equal schemas, writers and column orders, as that of one file.

    What is learnt about a row group, such as its page index or a contradiction, is kept in the metadata of
    its file. The files are the parts of the joined file; each has its own embedded indexes. Errors name the
    file that they belong to.

    Args:
        parts: The files, at least one.

    Attributes:
        is_remote: Whether the files are in an object store.
        starts: Offset of the first byte of each file, and the end of the last one. Between objects are gaps,
            so that no request is for the bytes of two of them.
        lengths: Length of each file in bytes.
        row_edges: First row of each file, and the end of the last one.
        group_edges: First row group of each file, and the end of the last one.
    """

    def __init__(self, parts: Sequence[JoinedPart]) -> None:
        footers = [part.metadata.footer for part in parts]
        self.parts = tuple(parts)
        self.is_remote = parts[0].is_remote
        self.lengths: npt.NDArray[np.int64] = np.array([one.file_length for one in footers], dtype=np.int64)
        gap_bytes = GAP_BYTES + 1 if self.is_remote else 0
        self.starts: list[int] = [0, *accumulate(footer.file_length + gap_bytes for footer in footers)]
        self.row_edges: npt.NDArray[np.int64] = np.zeros(len(parts) + 1, dtype=np.int64)
        np.cumsum([footer.num_rows for footer in footers], dtype=np.int64, out=self.row_edges[1:])
        self.group_edges: npt.NDArray[np.int64] = np.zeros(len(parts) + 1, dtype=np.int64)
        counts = [len(footer.metadata.row_groups) for footer in footers]
        np.cumsum(counts, dtype=np.int64, out=self.group_edges[1:])
        self._first_groups: list[int] = self.group_edges[:-1].tolist()
        self._part_of_group: list[int] = np.repeat(np.arange(len(parts)), counts).tolist()
        end = self.starts[-1]
        super().__init__(parts[0].metadata.path, RawFooter(b"", end, end))
        self._size_before: tuple[int, int, float] | None = None

    def has_grown(self) -> bool:
        """Return whether more has been parsed since the last call."""
        size = len(self._derived), len(self._locations), self._outlines.share
        is_same, self._size_before = size == self._size_before, size
        return not is_same

    @property
    def present_bytes(self) -> int:
        """See `FileMetadata`; what has been parsed of the files, and the arrays derived from it."""
        files = [part.metadata for part in self.parts]
        groups = [group for file in files for group in file.footer.metadata.row_groups]
        parsed_bytes = self._parsed_per_serialized(groups) * sum([len(file._raw.data) for file in files])
        parsed_bytes += PARSED_PER_SERIALIZED * sum([file._page_index_bytes for file in files])
        return _GROUP_BYTES * len(groups) + int(_WITH_DERIVED * parsed_bytes)

    @cached_property
    def footer(self) -> Footer:
        """The footer of the first file, with the row groups of all."""
        first = self.parts[0].metadata.footer.metadata
        own = [entry for entry in first.key_value_metadata or () if entry.key not in INDEX_KEYS]
        groups = [
            group._replace(columns=_ShiftedChunks(group.columns, start, part.metadata))
            for part, start in zip(self.parts, self.starts, strict=False)
            for group in part.metadata.footer.metadata.row_groups
        ]
        joined = first._replace(row_groups=groups, num_rows=int(self.row_edges[-1]), key_value_metadata=own)
        return Footer(joined, b"", self.starts[-1], self.starts[-1])

    def _outlined(self, leaves: Sequence[Leaf], groups: Int64s) -> list[ChunkOutlines]:
        parts = self.group_edges.searchsorted(groups, side="right") - 1
        ordinals = groups - self.group_edges[parts]
        shifts = np.array(list(map(self.starts.__getitem__, parts.tolist())), dtype=np.int64)
        lengths = self.lengths[parts]
        own = [
            self.parts[part].metadata.footer.metadata.row_groups[group]
            for part, group in zip(parts.tolist(), ordinals.tolist(), strict=True)
        ]
        return [
            replace(
                found,
                starts=np.where(found.is_sound, found.starts + shifts, -1),
                stops=np.where(found.is_sound, found.stops + shifts, -1),
                first_pages=np.where(found.is_sound, found.first_pages + shifts, -1),
                # 0 is no offset
                offset_indexes=np.where(found.offset_indexes != 0, found.offset_indexes + shifts, 0),
                column_indexes=np.where(found.column_indexes != 0, found.column_indexes + shifts, 0),
            )
            for found in outlines_of(own, leaves, lengths)
        ]

    def chunks_of(self, leaf: Leaf) -> list[ColumnChunk]:
        """See `FileMetadata`."""
        footers = [part.metadata.footer for part in self.parts]
        parse_chunks([group for footer in footers for group in footer.metadata.row_groups], leaf.ordinal)
        return [chunk for part in self.parts for chunk in part.metadata.chunks_of(leaf)]

    def part_at(self, offset: int) -> int:
        """Return the ordinal of the file that has the byte at an offset."""
        return bisect_right(self.starts, offset) - 1

    @property
    def directory_of_trust(self) -> Directory | None:
        """See `FileMetadata`; the files that are joined have the same statistics of Intarsia."""
        return self.parts[0].metadata.directory

    def rows_of(self, files: Bools) -> RowSelection:
        """Return the rows of some of the files."""
        return RowSelection.union_of(self.row_edges[:-1][files], self.row_edges[1:][files])

    def files_with(self, rows: RowSelection) -> Bools:
        """Return which files have some of the rows."""
        return rows.overlaps(self.row_edges[:-1], self.row_edges[1:])

    # --- what is kept in the metadata of the files -------------------------------------------------

    def part_of(self, row_group: int) -> tuple[FileMetadata, int, int]:
        """See `FileMetadata`."""
        part = self._part_of_group[row_group]
        return self.parts[part].metadata, row_group - self._first_groups[part], self.starts[part]

    def _own(self, key: ChunkKey) -> tuple[FileMetadata, ChunkKey]:
        part, row_group, _ = self.part_of(key.row_group)
        return part, ChunkKey(row_group, key.leaf)

    def has_loaded(self, struct: Literal["OffsetIndex", "ColumnIndex"], key: ChunkKey) -> bool:
        """See `FileMetadata`."""
        part, own = self._own(key)
        return part.has_loaded(struct, own)

    def locations(self, key: ChunkKey) -> PageLocations | None:
        """See `FileMetadata`; the locations are those in the joined file."""
        part = self._part_of_group[key.row_group]  # without further calls, because all pruning asks for these
        shift, first_group = self.starts[part], self._first_groups[part]
        found = self.parts[part].metadata.locations(ChunkKey(key.row_group - first_group, key.leaf))
        if found is None or not shift:
            return found
        moved = self._locations.get(key)
        if moved is None:
            moved = self._locations[key] = PageLocations(found.offsets + shift, found.sizes_bytes, found.rows)
        return moved

    def column_index(self, key: ChunkKey) -> ColumnIndex | None:
        """See `FileMetadata`."""
        part, own = self._own(key)
        return part.column_index(own)

    def distrust_page_index(self, row_group: int, reason: str) -> None:
        """See `FileMetadata`."""
        part, own, _ = self.part_of(row_group)
        part.distrust_page_index(own, reason)
        with self._changing:
            self.contradictions |= {Contradiction(row_group)}

    def drop_bounds(self, key: ChunkKey) -> None:
        """See `FileMetadata`."""
        part, own = self._own(key)
        part.drop_bounds(own)
        with self._changing:
            self.contradictions |= {Contradiction(*key)}

    def without_nan(self, leaf: Leaf) -> frozenset[int]:
        """See `FileMetadata`."""
        if leaf.ordinal not in self._without_nan:
            own = zip(self._first_groups, self.parts, strict=True)
            found = (first + group for first, part in own for group in part.metadata.without_nan(leaf))
            self._without_nan[leaf.ordinal] = frozenset(found)
        return self._without_nan[leaf.ordinal]

    def add_without_nan(self, leaf: Leaf, row_groups: Iterable[int]) -> None:
        """See `FileMetadata`."""
        row_groups = list(row_groups)
        of_parts: dict[int, list[int]] = {}
        for row_group in row_groups:
            part = self._part_of_group[row_group]
            of_parts.setdefault(part, []).append(row_group - self._first_groups[part])
        for part, own in of_parts.items():
            self.parts[part].metadata.add_without_nan(leaf, own)
        super().add_without_nan(leaf, row_groups)

    def located_counts(self) -> dict[ChunkKey, int]:
        """See `FileMetadata`."""
        return {
            ChunkKey(first + key.row_group, key.leaf): num_pages
            for first, part in zip(self._first_groups, self.parts, strict=True)
            if part.metadata._located_counts
            for key, num_pages in part.metadata.located_counts().items()
        }


class JoinedInput(ParquetInput):
    """Several files as one open file.

    Args:
        joined: The metadata of the files, which may be used by several inputs.
    """

    def __init__(self, joined: JoinedMetadata) -> None:
        self.joined = joined
        self._joined_source = _JoinedSource(joined)
        super().__init__(self._joined_source, joined, page_checksums=joined.parts[0].page_checksums)
        self._known: Mapping[int, tuple[int, bytes]] = {}

    @property
    def ignored(self) -> list[Ignored]:
        """The indexes of all files that were found and are not trusted."""
        return [note for part in self.joined.parts if part.metadata.ignored for note in part.metadata.ignored]

    @cached_property
    def extent(self) -> Extent:
        """See `ParquetInput`."""
        return Extent(self.joined.row_edges, self.joined.lengths)

    def part(self, ordinal: int) -> ParquetInput:
        """Return one of the files; it reads through this one, and need not be closed."""
        part, start = self.joined.parts[ordinal], self.joined.starts[ordinal]
        view = _PartSource(self.source, part, start, int(self.joined.lengths[ordinal]))
        return ParquetInput(view, part.metadata, page_checksums=self.page_checksums)

    @property
    def lost_parts(self) -> frozenset[int]:
        """The objects, by ordinal, whose reads have failed because they were replaced or deleted."""
        return frozenset(self._joined_source.lost)

    def body_stop_after(self, offset: int) -> int:
        """See `ParquetInput`."""
        part = self.joined.part_at(offset)
        return self.joined.starts[part] + self.joined.parts[part].metadata.footer_start

    def keep_known(self, parts: Mapping[int, tuple[int, bytes]]) -> None:
        """Keep bytes of files that are known already, so that they are not read.

        Args:
            parts: For some files, by ordinal, an offset in the file and the bytes that begin there.
        """
        self._known = parts
        known: dict[ByteRange, bytes] = {}
        for part, (offset, data) in parts.items():
            start = self.joined.starts[part] + offset
            known[ByteRange(start, start + len(data))] = data
        self.source.keep_known(known)

    def again(self, parts: Sequence[int]) -> JoinedInput:
        """Return the same files as another input, which keeps only the known bytes of some of them."""
        found = JoinedInput(self.joined)
        found.keep_known({part: self._known[part] for part in parts if part in self._known})
        return found

    def keep_indexes(self) -> None:
        """Keep nothing: the indexes of most files are not near the end of the last one."""


class _JoinedSource:
    """The concatenated bytes of files, each of which is open only while it is read.

    Attributes:
        lost: The objects, by ordinal, that were replaced or deleted.
    """

    identity = None

    def __init__(self, joined: JoinedMetadata) -> None:
        self.path = joined.path
        self.coalesce_bytes = GAP_BYTES if joined.is_remote else 0
        self.lost: set[int] = set()
        self._joined = joined

    def size(self) -> int:
        return self._joined.starts[-1]

    def read_ranges(self, ranges: Sequence[ByteRange]) -> list[bytes]:
        placed = list(map(self._place, ranges))
        wanted: dict[int, list[ByteRange]] = {}
        for part, within in placed:
            wanted.setdefault(part, []).append(within)
        read = self._read_objects if self._joined.is_remote else self._read_files
        pieces = {part: iter(of_part) for part, of_part in read(wanted).items()}
        found = []
        for part, within in placed:
            found.append(next(pieces[part]))
            if len(found[-1]) != within.length:
                raise self._joined.parts[part].replaced()
        return found

    def _place(self, location: ByteRange) -> tuple[int, ByteRange]:
        """Return the ordinal of the file that has a range, and the range in it."""
        joined = self._joined
        part = joined.part_at(location.start)
        offset = location.start - joined.starts[part]
        if offset + location.length > joined.lengths[part]:
            raise CorruptFileError(
                f"the metadata refers to bytes beyond the end of the file, at offset {offset}",
                reason="range-outside-file",
                path=joined.parts[part].metadata.path,
                offset=offset,
            )
        return part, ByteRange(offset, offset + location.length)

    def _read_files(self, wanted: Mapping[int, list[ByteRange]]) -> dict[int, list[bytes]]:
        found = {}
        for part, ranges in wanted.items():
            with closing(self._joined.parts[part].open_unchanged()) as source:
                found[part] = source.read_ranges(ranges)
                check_unchanged(source)
        return found

    def _read_objects(self, wanted: Mapping[int, list[ByteRange]]) -> dict[int, list[bytes]]:
        """Read ranges of objects concurrently.

        Raises:
            FileNotFoundError: If objects were deleted, which are `lost` then.
            ReplacedWhileReadError: If objects were replaced, which are `lost` then.
            ObjectStoreError: If the store is unreachable or refuses access; no further requests are made.
            QueryTimeoutError: As `ObjectStoreError`.
        """
        # opened in this thread, to which the deadline of the query applies
        opened = [(self._joined.parts[part].open_unchanged(), part) for part in wanted]
        tasks = [(source, one, part) for source, part in opened for one in wanted[part]]
        found: dict[int, list[bytes]] = {part: [] for part in wanted}
        lost: Exception | None = None
        failed: list[Exception] = []

        def read(task: tuple[ByteSource, ByteRange, int]) -> bytes | Exception:
            source, location, _ = task
            if failed:  # requests that have been submitted may begin before they are cancelled
                raise failed[0]
            try:
                return source.read_ranges([location])[0]
            except (FileNotFoundError, ReplacedWhileReadError) as error:
                return error
            except Exception as error:
                failed.append(error)
                raise

        with ThreadPoolExecutor(min(len(tasks), REQUESTS_AT_ONCE) or 1) as pool:
            for (_, _, part), data in zip(tasks, pool.map(read, tasks), strict=True):
                if isinstance(data, Exception):
                    self.lost.add(part)
                    lost = lost or data
                else:
                    found[part].append(data)
        if lost is not None:
            raise lost
        return found

    def close(self) -> None:
        pass


class _PartSource:
    """The bytes of one of several files, read through the joined file."""

    coalesce_bytes = 0

    def __init__(self, source: CountedSource, part: JoinedPart, start: int, length: int) -> None:
        self.path = part.metadata.path
        self.identity = part.identity
        self._source = source
        self._start = start
        self._length = length

    def size(self) -> int:
        return self._length

    def read_ranges(self, ranges: Sequence[ByteRange]) -> list[bytes]:
        start = self._start
        return self._source.read_ranges([ByteRange(start + one.start, start + one.stop) for one in ranges])

    def close(self) -> None:
        pass


class _ShiftedChunks(LazyChunks):
    """The chunks of a row group, at other offsets."""

    __slots__ = ("_chunks", "_file", "_shift")

    def __init__(self, chunks: Sequence[ColumnChunk], shift: int, file: FileMetadata) -> None:
        self._chunks = chunks
        self._shift = shift
        self._file = file
        self._count = len(chunks)
        self._parsed = {}

    def _parse(self, ordinal: int) -> ColumnChunk:
        with naming_errors(self._file.path):
            chunk = self._chunks[ordinal]
        found = self._parsed[ordinal] = self._shifted(chunk)
        return found

    def _shifted(self, chunk: ColumnChunk) -> ColumnChunk:
        meta = chunk.meta_data
        if meta is None or chunk.file_path or chunk.crypto_metadata is not None:
            return ColumnChunk(file_path=chunk.file_path, crypto_metadata=chunk.crypto_metadata)
        shift, bloom = self._shift, meta.bloom_filter_offset
        if bloom:
            bloom = bloom + shift if 0 < bloom < self._file.footer_start else None
        # 0, which some writers write for "absent", remains, because rules of trust distinguish the two
        dictionary = meta.dictionary_page_offset
        return ColumnChunk(
            # 0, like None, is no offset
            offset_index_offset=chunk.offset_index_offset and chunk.offset_index_offset + shift,
            offset_index_length=chunk.offset_index_length,
            column_index_offset=chunk.column_index_offset and chunk.column_index_offset + shift,
            column_index_length=chunk.column_index_length,
            meta_data=meta._replace(
                data_page_offset=meta.data_page_offset + shift,
                dictionary_page_offset=dictionary + shift if dictionary and dictionary > 0 else dictionary,
                bloom_filter_offset=bloom,
            ),
        )
