"""Metadata of a Parquet file, parsed on demand; it can be cached, because it does not keep the file open."""

from __future__ import annotations

import threading
from collections.abc import Callable, Hashable, Iterable, Sequence
from typing import Any, Literal, NamedTuple, TypeVar

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from intarsia.errors import IntarsiaError
from intarsia.file.chunks import UNKNOWN, ChunkOutlines, OutlinedChunks
from intarsia.file.decode import outlines_of
from intarsia.file.schema import FileSchema, file_schema
from intarsia.file.trust import Trust
from intarsia.file.writers import parse_writer
from intarsia.format.directory import Directory, FoundDirectory, find_directory
from intarsia.format.footer import Footer, Leaf, parse_footer
from intarsia.format.page_index import Int64s, PageLocations, PageRows
from intarsia.format.row_groups import chunks_of_leaf, parsed_part
from intarsia.format.structs import ColumnChunk, ColumnIndex, RowGroup
from intarsia.once import cached_property
from intarsia.records import dataclass

_Derived = TypeVar("_Derived")

#: Memory of parsed structs, as a multiple of the serialized size.
PARSED_PER_SERIALIZED = 16

#: Memory of the outlines of chunks, likewise.
_OUTLINED_PER_SERIALIZED = 4

#: Memory of a row group whose chunks have not been parsed, and of a leaf, in addition to their bytes.
_UNPARSED_BYTES = 512

#: Memory of the metadata of any file, in addition to the footer.
_MIN_MEMORY_BYTES = 4096


class ChunkKey(NamedTuple):
    """A column chunk: ordinal of the row group, ordinal of the leaf."""

    row_group: int
    leaf: int


class Contradiction(NamedTuple):
    """Metadata that was found to be wrong after the footer was read; plans made before may depend on it.

    Attributes:
        row_group: Ordinal of the row group.
        leaf: Ordinal of the leaf whose bounds are wrong: its statistics, or the bounds of its pages. None if
            the page index of the row group is wrong.
    """

    row_group: int
    leaf: int | None = None


@dataclass(frozen=True)
class Ignored:
    """An index that was found and not used, and why.

    Attributes:
        file: The path of the file.
        index: The name of the index.
        reason: Why, in words.
        code: Why, as a stable code such as ``"damaged-payload"``; see `IntarsiaError.reason`.
    """

    file: str
    index: str
    reason: str
    code: str


@dataclass(frozen=True)
class RawFooter:
    """The bytes of a footer.

    Attributes:
        data: The bytes, without length and magic.
        start: Their offset in the file.
    """

    data: bytes
    start: int
    file_length: int


class naming_errors:  # noqa: N801  used like a function; a generator would cost several times as much
    """A context manager that adds the path of a file to errors that leave the block."""

    __slots__ = ("_path",)

    def __init__(self, path: str) -> None:
        self._path = path

    def __enter__(self) -> None:
        pass

    def __exit__(self, _type: object, error: BaseException | None, _traceback: object) -> None:
        if isinstance(error, IntarsiaError):
            error.at(self._path)


class FileMetadata:
    """The footer of one file, with the parts of it and of the page index that have been parsed; thread-safe.

    Args:
        path: The name of the file in messages.
        raw: The bytes of its footer.

    Attributes:
        footer_start: The offset of the footer in the file.
        ignored: Indexes that were found and are not trusted.
        contradictions: The metadata that was found to be wrong so far.
    """

    def __init__(self, path: str, raw: RawFooter) -> None:
        self.path = path
        self.footer_start = raw.start
        self._raw = raw
        self.ignored: list[Ignored] = []
        self._locations: dict[ChunkKey, PageLocations | None] = {}
        self._page_rows: dict[tuple[int, bytes], PageRows] = {}
        # only those that differ from the recorded numbers
        self._located_counts: dict[ChunkKey, int] = {}
        self._column_indexes: dict[ChunkKey, ColumnIndex | None] = {}
        self._derived: dict[Hashable, Any] = {}
        self._trust: dict[tuple[int, pa.DataType | None], Trust] = {}
        self._page_index_bytes = 0
        self.contradictions: frozenset[Contradiction] = frozenset()
        self._without_nan: dict[int, frozenset[int]] = {}
        self._changing = threading.RLock()

    def part_of(self, row_group: int) -> tuple[FileMetadata, int, int]:
        """Return the metadata of the file that has a row group, the group's ordinal in it, and its start.

        Several files may be joined; the start is the offset of the first byte of the file.
        """
        return self, row_group, 0

    @property
    def memory_bytes(self) -> int:
        """The estimated memory of this object in bytes, with all chunks of its footer."""
        raw_bytes = len(self._raw.data)
        parsed_bytes = (raw_bytes if "footer" in self.__dict__ else 0) + self._page_index_bytes
        return _MIN_MEMORY_BYTES + raw_bytes + PARSED_PER_SERIALIZED * parsed_bytes

    @property
    def present_bytes(self) -> int:
        """The estimated memory of this object in bytes, with the chunks that have been parsed so far."""
        footer, raw_bytes = self.footer, len(self._raw.data)
        groups = footer.metadata.row_groups
        own_bytes = _MIN_MEMORY_BYTES + raw_bytes + _UNPARSED_BYTES * (len(groups) + len(footer.leaves))
        per_byte = self._parsed_per_serialized(groups)
        if per_byte:
            own_bytes += int(per_byte * (raw_bytes - sum(map(len, footer.key_values.values()))))
        return own_bytes + PARSED_PER_SERIALIZED * self._page_index_bytes

    def _parsed_per_serialized(self, groups: Sequence[RowGroup]) -> float:
        """Return the memory of what has been parsed of chunks, as a multiple of their serialized size."""
        outlined = self._outlines.share if "_outlines" in self.__dict__ else 0
        return PARSED_PER_SERIALIZED * parsed_part(groups) + _OUTLINED_PER_SERIALIZED * outlined

    @cached_property
    def footer(self) -> Footer:
        """The parsed footer.

        Raises:
            CorruptFileError: If it is damaged.
        """
        with naming_errors(self.path):
            return parse_footer(self._raw.data, self._raw.start, self._raw.file_length)

    # --- the schema --------------------------------------------------------------------------------

    @cached_property
    def schema(self) -> FileSchema:
        """The schema as Parquet leaves and Arrow types."""
        return file_schema(self.footer)

    @cached_property
    def _outlines(self) -> OutlinedChunks:
        return OutlinedChunks(len(self.footer.leaves), len(self.footer.metadata.row_groups))

    def outlines(
        self, leaves: Sequence[Leaf], groups: Sequence[int] | Int64s | None = None
    ) -> list[ChunkOutlines]:
        """Return offsets and counts of the chunks of some leaves; see `OutlinedChunks.of`."""
        return self._outlines.of(leaves, groups, self._outline)

    def outlines_with(self, keys: Sequence[ChunkKey]) -> dict[int, ChunkOutlines]:
        """Return the outlines of the leaves of some chunks, with at least these, by ordinal of the leaf."""
        if not keys:
            return {}
        groups, ordinals = map(dict.fromkeys, zip(*keys, strict=True))
        leaves = list(map(self.footer.leaves.__getitem__, ordinals))
        return dict(zip(ordinals, self.outlines(leaves, list(groups)), strict=True))

    @cached_property
    def is_padded(self) -> bool:
        """Whether values may be behind the recorded end of their chunk.

        Before 1.2.9, parquet-mr left the header of the dictionary page out of its size (PARQUET-816).
        """
        writer = self.footer.created_by
        return writer.startswith("parquet-mr") and parse_writer(writer) < ("parquet-mr", (1, 2, 9))

    def _outline(self, leaves: Sequence[Leaf], groups: Int64s) -> list[ChunkOutlines]:
        found = self._outlined(leaves, groups)
        return [of_leaf.padded(self.footer.start) for of_leaf in found] if self.is_padded else found

    def _outlined(self, leaves: Sequence[Leaf], groups: Int64s) -> list[ChunkOutlines]:
        row_groups = self.footer.metadata.row_groups
        return outlines_of([row_groups[group] for group in groups.tolist()], leaves, self.footer.file_length)

    def chunks_of(self, leaf: Leaf) -> list[ColumnChunk]:
        """Return the chunks of a leaf in all row groups; if files are joined, with the offsets in their file.

        Raises:
            CorruptFileError: If a chunk is damaged.
        """
        with naming_errors(self.path):
            return chunks_of_leaf(self.footer.metadata.row_groups, leaf.ordinal)

    def page_counts(self, leaves: Sequence[Leaf]) -> npt.NDArray[np.int64]:
        """Return the number of data pages of each leaf in each row group; `UNKNOWN` if it is not known.

        It is that of the page locations, if these are loaded and trusted, else the recorded one.
        """
        counts = np.empty((len(leaves), len(self.footer.metadata.row_groups)), dtype=np.int64)
        of_leaves = {}
        for of_leaf, leaf, outlines in zip(counts, leaves, self.outlines(leaves), strict=True):
            of_leaf[:] = outlines.data_pages
            of_leaves[leaf.ordinal] = of_leaf
        for key, num_pages in self.located_counts().items():
            if key.leaf in of_leaves:
                of_leaves[key.leaf][key.row_group] = num_pages
        return counts

    def located_counts(self) -> dict[ChunkKey, int]:
        """Return the numbers of pages by the page locations of chunks where they differ from the recorded."""
        with self._changing:
            return dict(self._located_counts)

    # --- the directory -----------------------------------------------------------------------------

    @cached_property
    def found_directory(self) -> FoundDirectory | None:
        """The directory in the footer, even if it belongs to another file; None if there is none."""
        return find_directory(self.footer)

    @cached_property
    def directory(self) -> Directory | None:
        """The directory of embedded indexes; None if there is none, or if it cannot be used."""
        found = self.found_directory
        if found is None:
            return None
        if found.reason is not None:
            self.distrust("intarsia directory", found.reason, found.code)
            return None
        return found.directory

    def trust(self, leaf: Leaf, arrow_type: pa.DataType | None = None) -> Trust:
        """Return what decides which metadata of a column is trusted.

        Args:
            arrow_type: Its Arrow type; None if it is unknown.
        """
        key = leaf.ordinal, arrow_type
        if key not in self._trust:
            self._trust[key] = Trust(self.footer, leaf, arrow_type, self.directory_of_trust)
        return self._trust[key]

    @property
    def directory_of_trust(self) -> Directory | None:
        """The directory that says which statistics are of Intarsia."""
        return self.directory

    def derived(self, key: Hashable, derive: Callable[[], _Derived]) -> _Derived:
        """Return a cached value that depends only on this metadata, such as the bounds of a column.

        Args:
            key: A key that is unique for the value.
            derive: A function that computes the value.
        """
        if key not in self._derived:
            self._derived[key] = derive()
        found: _Derived = self._derived[key]
        return found

    # --- what is learnt by reading -----------------------------------------------------------------

    def without_nan(self, leaf: Leaf) -> frozenset[int]:
        """Return the row groups in which no value of a leaf is NaN, as was found by reading all of them."""
        return self._without_nan.get(leaf.ordinal, frozenset())

    def add_without_nan(self, leaf: Leaf, row_groups: Iterable[int]) -> None:
        """Record row groups in which no value of a leaf is NaN."""
        with self._changing:
            self._without_nan[leaf.ordinal] = self.without_nan(leaf).union(row_groups)

    def distrust(self, index: str, reason: str, code: str) -> None:
        """Record that an index is ignored, and why: in words, and as a code."""
        note = Ignored(self.path, index, reason, code)
        with self._changing:
            if note not in self.ignored:
                self.ignored.append(note)

    # --- the page index ----------------------------------------------------------------------------

    def distrust_page_index(self, row_group: int, reason: str) -> None:
        """Ignore the page index of a row group whose pages contradict it."""
        with self._changing:
            if Contradiction(row_group) in self.contradictions:
                return
            self.distrust(f"page index, row group {row_group}", reason, "wrong-page-index")
            self.contradictions |= {Contradiction(row_group)}
            for leaf in self.footer.leaves:
                self._locations[ChunkKey(row_group, leaf.ordinal)] = None
                self._column_indexes[ChunkKey(row_group, leaf.ordinal)] = None
                self._located_counts.pop(ChunkKey(row_group, leaf.ordinal), None)

    def drop_bounds(self, key: ChunkKey) -> None:
        """Ignore the statistics and the column index of a chunk from now on."""
        with self._changing:
            self.contradictions |= {Contradiction(*key)}
            self._column_indexes[key] = None

    def has_loaded(self, struct: Literal["OffsetIndex", "ColumnIndex"], key: ChunkKey) -> bool:
        """Return whether a part of the page index of a chunk has been loaded or found to be missing."""
        return key in (self._locations if struct == "OffsetIndex" else self._column_indexes)

    def keep_locations(
        self, key: ChunkKey, locations: PageLocations | None, num_bytes: int = 0, recorded: int = UNKNOWN
    ) -> None:
        """Store the page locations of a chunk, or that they are unknown.

        Chunks whose pages have the same rows share these, as usual for writers that limit the rows of a page.
        So the pages with some rows are searched once for all of them.

        Args:
            num_bytes: The size of the OffsetIndex.
            recorded: The number of pages according to the footer.
        """
        with self._changing:
            if locations is not None:
                rows = locations.rows
                rows = self._page_rows.setdefault((rows.num_rows, rows.starts.tobytes()), rows)
                locations = PageLocations(locations.offsets, locations.sizes_bytes, rows)
            if Contradiction(key.row_group) in self.contradictions:
                locations = None
            self._locations[key] = locations
            if locations is not None and len(locations) != recorded:
                self._located_counts[key] = len(locations)
            self._page_index_bytes += num_bytes

    def keep_column_index(self, key: ChunkKey, column_index: ColumnIndex | None, num_bytes: int = 0) -> None:
        """Store the column index of a chunk, or that none is trusted."""
        with self._changing:
            is_wrong = not self.contradictions.isdisjoint((Contradiction(key.row_group), Contradiction(*key)))
            self._column_indexes[key] = None if is_wrong else column_index
            self._page_index_bytes += num_bytes

    def locations(self, key: ChunkKey) -> PageLocations | None:
        """Return the page locations of a chunk; None if they are not loaded or not trusted."""
        return self._locations.get(key)

    def column_index(self, key: ChunkKey) -> ColumnIndex | None:
        """Return the column index of a chunk; None if it is not loaded or not trusted."""
        return self._column_indexes.get(key)
