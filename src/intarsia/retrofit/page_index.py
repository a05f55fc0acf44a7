"""Parquet's own page index, added to the chunks of a file that lack one."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from functools import cached_property
from typing import ClassVar

from intarsia.errors import CorruptFileError, FormatError, IndexBuildError
from intarsia.file import ChunkKey, ParquetInput
from intarsia.format import thrift
from intarsia.format.footer import MAGIC, Footer, Leaf, chunk_range
from intarsia.format.page_index import PageLocations, parse_column_index, parse_offset_index
from intarsia.format.structs import ColumnChunk, ColumnIndex, ColumnMetaData, OffsetIndex, PageEncodingStats
from intarsia.format.writers import distrusts_page_index
from intarsia.retrofit.chunk_index import NO_ORDER, ChunkIndex, index_chunk
from intarsia.retrofit.leaf_values import LeafReader, leaf_paths
from intarsia.storage import ByteRange


@dataclass(frozen=True)
class PageIndex:
    """Parquet's own page index: a ColumnIndex and an OffsetIndex for every chunk that may have them.

    What a chunk has already, and can be believed, is left alone.  Every reader that knows page indexes gets
    faster: Spark, DataFusion, Trino, Impala, and Intarsia.

    Example:
        >>> import intarsia as ia
        >>> ia.PageIndex()
        PageIndex()
    """

    kind: ClassVar[str] = "page_index"
    version: ClassVar[int] = 1


@dataclass(frozen=True)
class Skipped:
    """A chunk, or a whole column, that an index leaves out, and why."""

    column: str
    row_group: int | None
    index: str
    reason: str


@dataclass(frozen=True)
class ChunkState:
    """The page index of one chunk.

    Attributes:
        offset_index: Where it lies in the original file, or its bytes if it was added; None: there is none.
        column_index: The same.
        encoding_stats: Encodings of the pages, if the original footer does not say them.
    """

    offset_index: ByteRange | bytes | None = None
    column_index: ByteRange | bytes | None = None
    encoding_stats: tuple[PageEncodingStats, ...] = ()


def state_of(chunk: ColumnChunk) -> ChunkState:
    """What a footer says of a chunk's page index."""
    return ChunkState(
        _place(chunk.offset_index_offset, chunk.offset_index_length),
        _place(chunk.column_index_offset, chunk.column_index_length),
    )


def carried_states(original: Footer, current: ParquetInput) -> dict[ChunkKey, ChunkState]:
    """The page index of every chunk as a retrofitted file has it.

    Args:
        original: The footer of the file before anything was added.
        current: The file; the same as the original if nothing was.
    """
    states = {}
    for key, chunk in _chunks(current.footer):
        state = state_of(chunk)
        places = (state.offset_index, state.column_index)
        added = [isinstance(place, ByteRange) and place.stop > original.file_length for place in places]
        offset_index, column_index = (
            current.source.read(place.start, place.stop)
            if is_added and isinstance(place, ByteRange)
            else place
            for place, is_added in zip(places, added, strict=True)
        )
        before = original.metadata.row_groups[key.row_group].columns[key.leaf].meta_data
        after = chunk.meta_data
        stats = after.encoding_stats if before and after and before.encoding_stats is None else None
        states[key] = ChunkState(offset_index, column_index, tuple(stats or ()))
    return states


@dataclass
class PageIndexer:
    """Completes the page index of a file, one chunk at a time.

    Args:
        file: The original file.
        states: What each chunk has; brought up to date by `run`.
    """

    file: ParquetInput
    states: dict[ChunkKey, ChunkState]
    skipped: list[Skipped] = field(default_factory=list)
    built_chunks: int = 0
    kept_chunks: int = 0

    @cached_property
    def _readers(self) -> list[LeafReader]:
        footer = self.file.footer
        paths = leaf_paths(footer.metadata.schema)
        return [LeafReader.of(path, leaf) for path, leaf in zip(paths, footer.leaves, strict=True)]

    def run(self, advance: Callable[[str], None]) -> None:
        """Judge and complete every chunk; ``advance`` is called after each with its column."""
        for key, chunk in _chunks(self.file.footer):
            leaf = self.file.footer.leaves[key.leaf]
            self._index(key, chunk, leaf)
            advance(leaf.name)

    def _index(self, key: ChunkKey, chunk: ColumnChunk, leaf: Leaf) -> None:
        group = self.file.footer.metadata.row_groups[key.row_group]
        if chunk.file_path or chunk.meta_data is None:
            self._skip(key, leaf, "it lies in another file")
            return
        if group.num_rows == 0:
            return  # no pages, nothing to say of them
        reader = self._readers[key.leaf]
        refusal = self._order_refusal(leaf)
        trusted = self._trusted(key, leaf, reader)
        if trusted.offset_index is not None:
            if trusted.column_index is not None:
                self.kept_chunks += 1
                return
            if refusal is None and self._has_order(reader):
                pass  # bounds are still missing
            elif trusted == self.states[key]:
                self._skip(key, leaf, refusal or NO_ORDER)
                return
        start, stop = chunk_range(chunk.meta_data)
        try:
            found = index_chunk(
                self.file.source.read(start, stop),
                start,
                chunk.meta_data,
                group.num_rows,
                reader,
                total_order=self._order(leaf) == "IEEE_754_TOTAL_ORDER",
                refusal=refusal,
            )
        except IndexBuildError as error:  # then an OffsetIndex that is there is wrong, too
            self.states[key] = ChunkState()
            self._skip(key, leaf, str(error))
        except FormatError as error:
            self.states[key] = trusted
            self._skip(key, leaf, error.message)
        else:
            if found.reason:
                self._skip(key, leaf, found.reason)
            self.states[key] = self._merge(trusted, found, chunk.meta_data)
            self.built_chunks += self.states[key] != trusted
            self.kept_chunks += self.states[key] == trusted

    def _merge(self, trusted: ChunkState, found: ChunkIndex, meta: ColumnMetaData) -> ChunkState:
        """What was computed, but the OffsetIndex that was there if it says the same."""
        offset_index: ByteRange | bytes = thrift.serialize(found.offset_index)
        if trusted.offset_index is not None:
            there, _ = thrift.parse(OffsetIndex, self._bytes(trusted.offset_index))
            if there.page_locations == found.offset_index.page_locations:
                offset_index = trusted.offset_index
        column_index = None if found.column_index is None else thrift.serialize(found.column_index)
        stats = () if meta.encoding_stats is not None else tuple(found.encoding_stats)
        return ChunkState(offset_index, column_index, stats)

    def known_offset_index(self, key: ChunkKey) -> bytes | None:
        """The bytes of a chunk's OffsetIndex, if there is one that can be believed."""
        leaf = self.file.footer.leaves[key.leaf]
        trusted = self._trusted(key, leaf, self._readers[key.leaf])
        return None if trusted.offset_index is None else self._bytes(trusted.offset_index)

    # --- what is there, and may stay -------------------------------------------------------------------

    def _order(self, leaf: Leaf) -> str | None:
        """The name of the leaf's column order; None if the footer declares none for any leaf."""
        orders = self.file.footer.metadata.column_orders
        if orders is None:
            return None
        order = orders[leaf.ordinal]
        return next((name for name, value in zip(order._fields, order, strict=True) if value is not None), "")

    def _order_refusal(self, leaf: Leaf) -> str | None:
        order = self._order(leaf)
        if order in (None, "TYPE_ORDER"):
            return None
        if order == "IEEE_754_TOTAL_ORDER":
            is_float = leaf.kind == "FLOAT16" or leaf.type.name in ("FLOAT", "DOUBLE")
            return None if is_float else "its column order is not one of its type"
        return (
            NO_ORDER if order == "INT96_TIMESTAMP_ORDER" else "its column order is not known to this version"
        )

    def _has_order(self, reader: LeafReader) -> bool:
        try:
            return reader.ordering is not None
        except CorruptFileError:
            return False

    def _trusted(self, key: ChunkKey, leaf: Leaf, reader: LeafReader) -> ChunkState:
        """What of a chunk's page index can be believed."""
        state = self.states[key]
        nothing = ChunkState(encoding_stats=state.encoding_stats)
        if state.offset_index is None:
            return nothing
        footer = self.file.footer
        added = isinstance(state.offset_index, bytes)
        if not added and distrusts_page_index(footer.created_by, leaf) is not None:
            return nothing
        try:
            locations = self._locations(key, leaf, state.offset_index)
        except FormatError:
            return nothing
        believed = ChunkState(state.offset_index, None, state.encoding_stats)
        if state.column_index is None or (
            isinstance(state.column_index, ByteRange) and footer.metadata.column_orders is None
        ):
            return believed
        try:
            index = parse_column_index(self._bytes(state.column_index), num_pages=len(locations))
            _check_bounds(index, reader)
        except FormatError:
            return believed
        return state

    def _locations(self, key: ChunkKey, leaf: Leaf, place: ByteRange | bytes) -> PageLocations:
        meta = self.file.footer.chunk_metadata(key.row_group, leaf)
        start, stop = chunk_range(meta)
        return parse_offset_index(
            self._bytes(place),
            num_rows=self.file.footer.metadata.row_groups[key.row_group].num_rows,
            chunk_start=start,
            chunk_stop=stop,
        )

    def _bytes(self, place: ByteRange | bytes) -> bytes:
        if isinstance(place, bytes):
            return place
        if not len(MAGIC) <= place.start < place.stop <= self.file.footer.start:
            raise CorruptFileError(f"bytes {place.start} to {place.stop} lie outside the file's body")
        return self.file.source.read(place.start, place.stop)

    def _skip(self, key: ChunkKey, leaf: Leaf, reason: str) -> None:
        self.skipped.append(Skipped(leaf.name, key.row_group, PageIndex.kind, reason))


def _check_bounds(index: ColumnIndex, reader: LeafReader) -> None:
    """Refuse a column index whose bounds are no values of the type, or upside down."""
    ordering = reader.ordering
    if ordering is None:
        return  # nobody reads such bounds
    held = [place for place, is_null in enumerate(index.null_pages) if not is_null]
    minima = ordering.decode([index.min_values[place] for place in held])
    maxima = ordering.decode([index.max_values[place] for place in held])
    if (minima > maxima).any():
        raise CorruptFileError("a page's minimum is above its maximum", struct="ColumnIndex")


def _place(offset: int | None, length: int | None) -> ByteRange | None:
    return ByteRange(offset, offset + length) if offset and length else None


def _chunks(footer: Footer) -> Iterator[tuple[ChunkKey, ColumnChunk]]:
    for ordinal, group in enumerate(footer.metadata.row_groups):
        for leaf, chunk in enumerate(group.columns):
            yield ChunkKey(ordinal, leaf), chunk
