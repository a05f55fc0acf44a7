"""Files with the same columns as one file that has the row groups of all of them.

Pruning evaluates a condition on all row groups of a file at once. So it evaluates a condition on all row
groups of many files at once if these are joined into one file: their bodies are concatenated, and the
offsets in their footers are shifted. Nothing is copied; a read goes to the file that has the bytes.
"""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Callable, Hashable, Iterator, Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from itertools import accumulate
from typing import overload

import numpy as np
import numpy.typing as npt

from intarsia.errors import CorruptFileError, ReplacedWhileReadError
from intarsia.file.metadata import FileMetadata, RawFooter
from intarsia.file.outlines import ChunkOutlines, outlines_of
from intarsia.file.parquet_file import ArrowPart, ParquetInput
from intarsia.file.schema import INDEX_KEYS
from intarsia.file.synthetic import metadata_of_chunks
from intarsia.format.footer import Footer, Leaf
from intarsia.format.structs import ColumnChunk
from intarsia.storage import ByteRange, ByteSource, CountedSource


@dataclass(frozen=True)
class JoinedPart:
    """A file to join with others.

    Attributes:
        metadata: Its metadata.
        identity: The identity of the file that has the metadata.
        open: Opens the file, which may have been replaced since.
    """

    metadata: FileMetadata
    identity: Hashable
    open: Callable[[], ByteSource]

    def open_unchanged(self) -> ByteSource:
        """Open the file.

        Raises:
            ReplacedWhileReadError: If it has been replaced.
        """
        source = self.open()
        if source.identity != self.identity:
            source.close()
            path = self.metadata.path
            raise ReplacedWhileReadError(
                f"{path}: the file was replaced while a query was planned", reason="file-replaced", path=path
            )
        return source


class JoinedMetadata(FileMetadata):
    """The metadata of files with equal schemas, writers and column orders, as that of one file.

    The page index and embedded indexes of the files are left out. Errors name the file that they belong to.

    Args:
        parts: The files, at least one.

    Attributes:
        parts: The files.
        starts: Offset of the first byte of each file, and the end of the last one.
        row_edges: First row of each file, and the end of the last one.
        group_edges: First row group of each file, and the end of the last one.
    """

    def __init__(self, parts: Sequence[JoinedPart]) -> None:
        footers = [part.metadata.footer for part in parts]
        self.parts = tuple(parts)
        self.starts: list[int] = [0, *accumulate(footer.file_length for footer in footers)]
        self.row_edges: npt.NDArray[np.int64] = np.zeros(len(parts) + 1, dtype=np.int64)
        np.cumsum([footer.num_rows for footer in footers], dtype=np.int64, out=self.row_edges[1:])
        self.group_edges: npt.NDArray[np.int64] = np.zeros(len(parts) + 1, dtype=np.int64)
        counts = [len(footer.metadata.row_groups) for footer in footers]
        np.cumsum(counts, dtype=np.int64, out=self.group_edges[1:])
        end = self.starts[-1]
        super().__init__(parts[0].metadata.path, RawFooter(b"", end, end))

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
        num_rows = int(self.row_edges[-1])
        joined = first._replace(row_groups=groups, num_rows=num_rows, key_value_metadata=own)
        return Footer(joined, b"", self.starts[-1], self.starts[-1])

    def _outlined(self, leaves: Sequence[Leaf]) -> list[ChunkOutlines]:
        footers = [part.metadata.footer for part in self.parts]
        groups = [group for footer in footers for group in footer.metadata.row_groups]
        counts = np.diff(self.group_edges)
        shifts = np.repeat(np.array(self.starts[:-1], dtype=np.int64), counts)
        lengths = np.repeat([footer.file_length for footer in footers], counts)
        return [
            replace(
                found,
                starts=np.where(found.is_sound, found.starts + shifts, -1),
                stops=np.where(found.is_sound, found.stops + shifts, -1),
            )
            for found in outlines_of(groups, leaves, lengths)
        ]

    def part_at(self, offset: int) -> int:
        """Return the ordinal of the file that has the byte at an offset."""
        return bisect_right(self.starts, offset) - 1


class JoinedInput(ParquetInput):
    """Several files as one open file.

    Args:
        joined: The metadata of the files, which may be used by several inputs.
        sources: The open files, which are not closed; None to open each file only while it is read.

    Attributes:
        joined: The metadata.
    """

    def __init__(self, joined: JoinedMetadata, sources: Sequence[CountedSource] | None = None) -> None:
        self.joined = joined
        super().__init__(_JoinedSource(joined, sources), joined)

    def arrow_part(self, groups: npt.NDArray[np.int64], leaves: Sequence[Leaf]) -> ArrowPart:
        """See `ParquetInput.arrow_part`; the metadata has only these row groups and leaves."""
        schema = self.schema.part(tuple(leaf.root_ordinal for leaf in leaves))
        num_rows = np.diff(self.footer.row_group_starts)[groups]
        chunks = [outlines.of_groups(groups) for outlines in self.joined.outlines(leaves)]
        metadata = metadata_of_chunks(schema, chunks, num_rows.tolist())
        return ArrowPart(metadata, list(range(len(groups))), list(range(len(leaves))))


class _JoinedSource:
    """The concatenated bytes of files."""

    coalesce_bytes = 0
    identity = None

    def __init__(self, joined: JoinedMetadata, sources: Sequence[CountedSource] | None) -> None:
        self.path = joined.path
        self._joined = joined
        self._sources = sources

    def size(self) -> int:
        return self._joined.starts[-1]

    def read_ranges(self, ranges: Sequence[ByteRange]) -> list[bytes]:
        starts, parts = self._joined.starts, self._joined.parts
        ordinals_of: dict[int, list[int]] = {}
        for ordinal, (start, stop) in enumerate(ranges):
            part = self._joined.part_at(start)
            if stop > starts[part + 1]:
                raise CorruptFileError(
                    f"the metadata refers to bytes beyond the end of the file, at offset "
                    f"{start - starts[part]}",
                    reason="range-outside-file",
                    path=parts[part].metadata.path,
                    offset=start - starts[part],
                )
            ordinals_of.setdefault(part, []).append(ordinal)
        found = [b""] * len(ranges)
        for part, mine in ordinals_of.items():
            first = starts[part]
            wanted = [ByteRange(ranges[at].start - first, ranges[at].stop - first) for at in mine]
            for ordinal, data in zip(mine, self._read(part, wanted), strict=True):
                found[ordinal] = data
        return found

    def _read(self, part: int, ranges: list[ByteRange]) -> list[bytes]:
        if self._sources is not None:
            return self._sources[part].read_ranges(ranges)
        source = self._joined.parts[part].open_unchanged()
        try:
            return source.read_ranges(ranges)
        finally:
            source.close()

    def close(self) -> None:
        pass


class _ShiftedChunks(Sequence[ColumnChunk]):
    """The chunks of a row group, at other offsets and without a page index."""

    __slots__ = ("_chunks", "_file", "_shift", "_shifted")

    def __init__(self, chunks: Sequence[ColumnChunk], shift: int, file: FileMetadata) -> None:
        self._chunks = chunks
        self._shift = shift
        self._file = file
        self._shifted: dict[int, ColumnChunk] = {}

    def __len__(self) -> int:
        return len(self._chunks)

    @overload
    def __getitem__(self, ordinal: int) -> ColumnChunk: ...

    @overload
    def __getitem__(self, ordinal: slice) -> list[ColumnChunk]: ...

    def __getitem__(self, ordinal: int | slice) -> ColumnChunk | list[ColumnChunk]:
        if isinstance(ordinal, slice):
            return [self[position] for position in range(len(self))[ordinal]]
        found = self._shifted.get(ordinal)
        if found is None:
            with self._file.named_errors():
                found = self._shifted[ordinal] = self._shift_chunk(self._chunks[ordinal])
        return found

    def __iter__(self) -> Iterator[ColumnChunk]:
        return map(self.__getitem__, range(len(self)))

    def _shift_chunk(self, chunk: ColumnChunk) -> ColumnChunk:
        meta = chunk.meta_data
        if meta is None or chunk.file_path or chunk.crypto_metadata is not None:
            return ColumnChunk(file_path=chunk.file_path, crypto_metadata=chunk.crypto_metadata)
        shift, body_stop = self._shift, self._file.footer_start
        bloom, bloom_bytes = meta.bloom_filter_offset, meta.bloom_filter_length
        if bloom and 0 < bloom < body_stop:
            bloom_bytes = min(bloom_bytes or body_stop, body_stop - bloom)
            bloom += shift
        else:
            bloom = bloom_bytes = None
        # 0, which some writers write for "absent", remains, because rules of trust distinguish the two
        dictionary = meta.dictionary_page_offset
        return ColumnChunk(
            meta_data=meta._replace(
                data_page_offset=meta.data_page_offset + shift,
                dictionary_page_offset=dictionary + shift if dictionary and dictionary > 0 else dictionary,
                bloom_filter_offset=bloom,
                bloom_filter_length=bloom_bytes,
            )
        )
