"""Describe a file: rows, columns, pages, bounds, indexes and sizes.

Only the footer and indexes are read, no data pages. Metadata that scans ignore is included, with the reason.
"""

from __future__ import annotations

import math
import os
from collections.abc import Iterator, Sequence
from dataclasses import replace

import numpy as np

from intarsia.check.report import (
    BloomInspection,
    ChunkInspection,
    DatafusionInspection,
    DirectoryInspection,
    EntryInspection,
    FileInspection,
    GeospatialInspection,
    LeafInspection,
    PageInspection,
    PartSizes,
    RowGroupInspection,
    SizeInspection,
)
from intarsia.errors import (
    ColumnNotFoundError,
    CorruptFileError,
    FormatError,
    IndexPayloadError,
    IntarsiaError,
)
from intarsia.file import ChunkKey, ParquetInput
from intarsia.file.chunks import UNKNOWN, dictionary_range, recorded_pages
from intarsia.format import wkb
from intarsia.format.blob import DATAFUSION_HEADER_BYTES, DATAFUSION_KEY, parse_header, parse_offset
from intarsia.format.bloom import FilterLocation, blocks_of, estimated_distinct
from intarsia.format.directory import Entry
from intarsia.format.enums import BoundaryOrder, FieldRepetitionType, codec_name, encoding_name
from intarsia.format.footer import TRAILER_BYTES, Leaf, chunk_range, footer_bytes_by
from intarsia.format.structs import ColumnIndex, ColumnMetaData, Statistics
from intarsia.garbage import no_collections
from intarsia.indexes.embedded import EmbeddedIndexes
from intarsia.indexes.registry import find_index_class
from intarsia.lake.discovery import find_files
from intarsia.rows.values import human_value, type_name
from intarsia.storage import ByteSource, StorageOptions


def inspect(
    path: str | os.PathLike[str],
    *,
    pages: bool = False,
    columns: Sequence[str] | None = None,
    row_groups: Sequence[int] | None = None,
    storage_options: StorageOptions | None = None,
) -> FileInspection:
    """Describe a file by its footer and its indexes.

    Args:
        path: A file; local, or a URL.
        pages: Whether to list each page, and to estimate the contents of Bloom filters.
        columns: The columns to describe, as dotted paths of leaves, or of structs for all leaves in them;
            None for all. Embedded indexes of other columns are not described.
        row_groups: The ordinals of the row groups to describe; None for all. The time is proportional to the
            number of chunks that are described.
        storage_options: Options of the store of a URL, as for `intarsia.open`.

    Returns:
        The description; `FileInspection.to_dict` converts it to a JSON object.

    Raises:
        CorruptFileError: If the file is not a Parquet file, or is damaged.
        UnsupportedFeatureError: If its footer is encrypted.
        ColumnNotFoundError: If the file has no such column; the message suggests similar names.
        IntarsiaError: If the file has no such row group.
        FileNotFoundError: If the path does not exist.
        IsADirectoryError: If the path is a folder.
        ObjectStoreError: If the store of a URL cannot be reached, refuses the request, or is unknown, or an
            option is unknown.

    Example:
        >>> import intarsia as ia, pyarrow as pa, pyarrow.parquet as pq, tempfile, os
        >>> path = os.path.join(tempfile.mkdtemp(), "t.parquet")
        >>> pq.write_table(pa.table({"city": ["Bern", "Basel"], "visitors": [3, 5]}), path)
        >>> found = ia.inspect(path)
        >>> [(chunk.column, chunk.min, chunk.max) for chunk in found.row_groups[0].columns]
        [('city', 'Basel', 'Bern'), ('visitors', 3, 5)]
        >>> (chunk,) = ia.inspect(path, columns=["city"], row_groups=[0]).row_groups[0].columns
        >>> chunk.offset
        4
    """
    with ParquetInput(open_source(path, storage_options)) as file, file.named_errors(), no_collections():
        footer = file.footer
        leaves, groups = _chosen_leaves(file, columns), _chosen_groups(file, row_groups)
        keys = list(_readable_chunks(file, leaves, groups))
        file.load_page_index(keys, keys)
        directory = _inspect_directory(file, leaves)
        datafusion = find_datafusion_index(file)
        described = tuple(_inspect_row_group(file, ordinal, leaves, pages=pages) for ordinal in groups)
        return FileInspection(
            path=file.path,
            size_bytes=footer.file_length,
            created_by=footer.created_by,
            num_rows=footer.num_rows,
            num_row_groups=len(footer.metadata.row_groups),
            footer_offset=footer.start,
            sizes=_sizes(file, keys, described, directory, datafusion),
            schema=tuple(_inspect_leaf(file, leaf) for leaf in leaves),
            key_values={
                key.decode("utf-8", "replace"): len(value) for key, value in footer.key_values.items()
            },
            directory=directory,
            datafusion_index=datafusion,
            row_groups=described,
            ignored=tuple(file.ignored),
        )


def _chosen_leaves(file: ParquetInput, columns: Sequence[str] | None) -> Sequence[Leaf]:
    """Return the leaves that are described, in the order of the file."""
    leaves = file.footer.leaves
    if columns is None:
        return leaves
    under: dict[str, set[int]] = {}
    for leaf in leaves:
        for depth in range(1, len(leaf.path) + 1):
            under.setdefault(".".join(leaf.path[:depth]), set()).add(leaf.ordinal)
    for name in columns:
        if name not in under:
            raise ColumnNotFoundError(name, under)
    return [leaves[ordinal] for ordinal in sorted(set().union(*(under[name] for name in columns)))]


def _chosen_groups(file: ParquetInput, row_groups: Sequence[int] | None) -> Sequence[int]:
    """Return the ordinals of the row groups that are described, ascending."""
    total = len(file.footer.metadata.row_groups)
    if row_groups is None:
        return range(total)
    for ordinal in row_groups:
        if not 0 <= ordinal < total:
            raise IntarsiaError(
                f"there is no row group {ordinal}; the file has {total:,}, numbered from 0",
                reason="no-such-row-group",
            )
    return sorted(set(row_groups))


def open_source(path: str | os.PathLike[str], storage_options: StorageOptions | None = None) -> ByteSource:
    """Return the source of the one file that a path or URL names.

    Raises:
        FileNotFoundError: If the path does not exist.
        IsADirectoryError: If the path is a folder, or matches several files.
    """
    shown = os.fspath(path)
    if os.path.isdir(shown):
        raise IsADirectoryError(f"{shown}: this is a folder, not a file; pass one of its files")
    found = find_files(shown, storage_options).files
    if len(found) > 1:
        raise IsADirectoryError(f"{shown}: {len(found)} files match; pass one of them")
    return found[0].open()


def _readable_chunks(file: ParquetInput, leaves: Sequence[Leaf], groups: Sequence[int]) -> Iterator[ChunkKey]:
    """Yield the chunks that are in this file and not encrypted."""
    for key in (ChunkKey(group, leaf.ordinal) for group in groups for leaf in leaves):
        chunk = file.footer.chunk(key.row_group, file.footer.leaves[key.leaf])
        if chunk.meta_data is not None and chunk.crypto_metadata is None and not chunk.file_path:
            yield key


def _inspect_leaf(file: ParquetInput, leaf: Leaf) -> LeafInspection:
    try:
        arrow_type = file.leaf_types.get(leaf.ordinal)
    except FormatError:  # pyarrow cannot read the schema, but the rest of the footer can be described
        arrow_type = None
    return LeafInspection(
        name=leaf.name,
        physical_type=leaf.type.name,
        logical_type=type_name(leaf),
        arrow_type=None if arrow_type is None else str(arrow_type),
        is_nullable=leaf.max_definition_level > 0,
        is_repeated=not leaf.is_flat or leaf.element.repetition_type == FieldRepetitionType.REPEATED,
    )


def _inspect_row_group(
    file: ParquetInput, ordinal: int, leaves: Sequence[Leaf], *, pages: bool
) -> RowGroupInspection:
    group, names = file.footer.metadata.row_groups[ordinal], file.footer.leaves
    columns = tuple(_inspect_chunk(file, ChunkKey(ordinal, leaf.ordinal), pages=pages) for leaf in leaves)
    sorted_by = tuple(
        names[column.column_idx].name + (" DESC" if column.descending else "")
        for column in group.sorting_columns or ()
        if 0 <= column.column_idx < len(names)
    )
    return RowGroupInspection(
        ordinal, group.num_rows, sum(column.compressed_bytes for column in columns), sorted_by, columns
    )


# --- column chunks -----------------------------------------------------------------------------------


def _inspect_chunk(file: ParquetInput, key: ChunkKey, *, pages: bool) -> ChunkInspection:
    """Describe a chunk, whose page index must be loaded."""
    leaf = file.footer.leaves[key.leaf]
    chunk = file.footer.chunk(key.row_group, leaf)
    try:
        meta = file.footer.chunk_metadata(key.row_group, leaf)
    except FormatError as error:  # encrypted, or in another file; the rest of the file can be described
        return ChunkInspection(leaf.name, "unknown", (), 0, 0, 0, ignored_metadata=(error.message,))
    ignored: list[str] = []
    locations, index = file.locations(key), file.column_index(key)
    statistics = meta.statistics or Statistics()
    low, high = statistics.min_value, statistics.max_value
    if low is None and high is None:
        low, high = statistics.min, statistics.max
    objection = None
    if low is not None or high is not None:
        objection = _bounds_objection(file, leaf, meta)
        if objection:
            ignored.append(f"statistics ignored: {objection}")
    if index is not None and not file.trust(leaf).order_is_known:
        ignored.append("ColumnIndex ignored: the footer declares no known order for the column")
    bloom = None
    if doubt := file.trust(leaf).doubt_of_bloom_filter(meta):
        ignored.append(f"Bloom filter ignored: {doubt}")
    if meta.bloom_filter_offset:
        try:
            bloom = _inspect_bloom(file, meta, look_inside=pages)
        except FormatError as error:
            ignored.append(f"Bloom filter ignored: {error.message}")
    counted, source = recorded_pages(meta.encoding_stats, ()).data, "encoding_stats"
    if locations is not None:
        counted, source = len(locations), "offset_index"
    dictionary = dictionary_range(meta, locations)
    return ChunkInspection(
        column=leaf.name,
        codec=codec_name(meta.codec),
        encodings=tuple(map(encoding_name, meta.encodings)),
        num_values=meta.num_values,
        compressed_bytes=meta.total_compressed_size,
        uncompressed_bytes=meta.total_uncompressed_size,
        offset=chunk_range(meta)[0],
        dictionary_page_offset=None if dictionary is None else dictionary.start,
        data_page_offset=meta.data_page_offset,
        num_pages=None if counted == UNKNOWN else counted,
        num_pages_source=None if counted == UNKNOWN else source,
        null_count=statistics.null_count,
        min=None if low is None else human_value(leaf, low),
        max=None if high is None else human_value(leaf, high),
        is_min_exact=statistics.is_min_value_exact,
        is_max_exact=statistics.is_max_value_exact,
        bounds_trusted=None if low is None and high is None else objection is None,
        bounds_reason=objection,
        has_column_index=index is not None,
        has_offset_index=locations is not None,
        column_index_offset=chunk.column_index_offset,
        offset_index_offset=chunk.offset_index_offset,
        column_index_bytes=chunk.column_index_length or 0,
        offset_index_bytes=chunk.offset_index_length or 0,
        boundary_order=None if index is None else BoundaryOrder(index.boundary_order).name.lower(),
        bloom_filter=bloom,
        sizes=_size_statistics(meta),
        geospatial=_geospatial(meta),
        ignored_metadata=(*ignored, *_ignored_indexes(file, key, leaf)),
        pages=_inspect_pages(file, key, leaf, index) if pages else None,
    )


def _size_statistics(meta: ColumnMetaData) -> SizeInspection | None:
    found = meta.size_statistics
    if found is None:
        return None
    histograms = found.repetition_level_histogram, found.definition_level_histogram
    levels = (None if histogram is None else tuple(histogram) for histogram in histograms)
    return SizeInspection(found.unencoded_byte_array_data_bytes, *levels)


def _geospatial(meta: ColumnMetaData) -> GeospatialInspection | None:
    found = meta.geospatial_statistics
    if found is None:
        return None
    limits = None if found.bbox is None else found.bbox._asdict()
    box = limits and {name: limit for name, limit in limits.items() if limit is not None}
    return GeospatialInspection(box, tuple(map(wkb.type_name, found.geospatial_types or ())))


def _bounds_objection(file: ParquetInput, leaf: Leaf, meta: ColumnMetaData) -> str | None:
    """Return why scans ignore the bounds in a chunk's statistics; None if they use them."""
    if leaf.ordinal not in file.schema.value_types:
        return "the column is in a map, or in a list that is not searched"
    ordering = file.schema.ordering(leaf)
    if ordering is None:
        return "the type has no order"
    bounds = file.trust(leaf).bounds(meta)
    if bounds.value is None:
        return bounds.reason
    try:
        first, last = ordering.decode_pairs([bounds.value[0]], [bounds.value[1]])
    except CorruptFileError as error:
        return error.message
    if not bool((first <= last).all()):
        return "the lower bound is above the upper, or is NaN"
    return None


def _ignored_indexes(file: ParquetInput, key: ChunkKey, leaf: Leaf) -> list[str]:
    ending = f" of {leaf.name}, row group {key.row_group}"
    return [
        f"{note.index.split(' of ')[0]} ignored: {note.reason}"
        for note in file.ignored
        if note.index.endswith(ending) or note.index == f"page index of {leaf.name}"
    ]


def _inspect_pages(
    file: ParquetInput, key: ChunkKey, leaf: Leaf, index: ColumnIndex | None
) -> tuple[PageInspection, ...]:
    locations = file.locations(key)
    if locations is None:
        return ()
    rows = locations.rows
    columns = rows.starts, rows.stops - rows.starts, locations.offsets, locations.sizes_bytes
    pages = []
    for ordinal, location in enumerate(zip(*(column.tolist() for column in columns), strict=True)):
        page = PageInspection(ordinal, *location)
        if index is not None:
            is_null = index.null_pages[ordinal]
            page = replace(
                page,
                min=None if is_null else human_value(leaf, index.min_values[ordinal]),
                max=None if is_null else human_value(leaf, index.max_values[ordinal]),
                null_count=index.null_counts[ordinal] if index.null_counts else None,
                nan_count=index.nan_counts[ordinal] if index.nan_counts else None,
                is_null_page=is_null,
            )
        pages.append(page)
    return tuple(pages)


def _inspect_bloom(file: ParquetInput, meta: ColumnMetaData, *, look_inside: bool) -> BloomInspection:
    location = FilterLocation.of(meta, file.footer.start)
    start, stop = location.bits(file.source.read(*location.head))
    num_bytes = stop - location.start
    if not look_inside:
        return BloomInspection(location.start, num_bytes)
    distinct, false_positives = _estimate_bloom(file.source.read(start, stop))
    return BloomInspection(location.start, num_bytes, distinct, false_positives)


def _estimate_bloom(bits: bytes) -> tuple[int, float]:
    """Estimate the number of values in a filter, and its false-positive rate.

    Example:
        >>> _estimate_bloom(bytes(64))
        (0, 0.0)
    """
    set_bits = np.unpackbits(blocks_of(bits)[..., None].view(np.uint8), axis=-1)
    false_positives = float(set_bits.mean(axis=-1).prod(axis=-1).mean())
    distinct = estimated_distinct(bits)
    if math.isinf(distinct):  # for a full filter, a lower limit
        distinct = estimated_distinct(b"\xfe" + bits[1:])
    return round(distinct), false_positives


# --- embedded indexes --------------------------------------------------------------------------------


def _inspect_directory(file: ParquetInput, leaves: Sequence[Leaf]) -> DirectoryInspection | None:
    found = file.found_directory
    if found is None:
        return None
    if found.reason is not None:
        file.distrust("intarsia directory", found.reason, found.code)
    if found.directory is None:
        return DirectoryInspection(False, found.reason, None, ())
    embedded, paths = EmbeddedIndexes(file), {leaf.path for leaf in leaves}
    described = [
        entry
        for entry in found.directory.entries
        if len(leaves) == len(file.footer.leaves) or not paths.isdisjoint(entry.columns)
    ]
    entries = tuple(_inspect_entry(file, embedded, entry, found.reason) for entry in described)
    length = found.directory.original_length
    trailer = file.source.read(length - TRAILER_BYTES, length) if found.reason is None else b""
    num_bytes = footer_bytes_by(trailer)
    return DirectoryInspection(
        found.reason is None, found.reason, length, entries, length - num_bytes if num_bytes else None
    )


def _inspect_entry(
    file: ParquetInput, embedded: EmbeddedIndexes, entry: Entry, stale: str | None
) -> EntryInspection:
    reason = None if stale is None else "the directory belongs to another file"
    if reason is None and embedded.open(entry) is None:
        reason = next(
            (note.reason for note in reversed(file.ignored) if note.index == entry.name),
            "it cannot be opened",
        )
    return EntryInspection(
        name=entry.name,
        kind=entry.kind,
        kind_version=entry.kind_version,
        columns=entry.column_names,
        granularity=entry.granularity,
        parameters=entry.parameters,
        offset=entry.offset if entry.inline is None else None,
        size_bytes=entry.length if entry.inline is None else len(entry.inline),
        is_known=find_index_class(entry.kind) is not None,
        is_trusted=reason is None,
        reason=reason,
    )


def find_datafusion_index(file: ParquetInput) -> DatafusionInspection | None:
    """Describe distinct values in DataFusion's form by their header; None without the footer's key."""
    raw = file.footer.key_values.get(DATAFUSION_KEY)
    if raw is None:
        return None
    offset = 0
    try:
        offset = parse_offset(raw, file.footer)
        head = file.source.read(offset, offset + DATAFUSION_HEADER_BYTES)
        return DatafusionInspection(offset, parse_header(head, offset, file.footer), True)
    except IndexPayloadError as error:
        return DatafusionInspection(offset, 0, False, str(error))


# --- sizes -------------------------------------------------------------------------------------------


def _sizes(
    file: ParquetInput,
    keys: Sequence[ChunkKey],
    row_groups: tuple[RowGroupInspection, ...],
    directory: DirectoryInspection | None,
    datafusion: DatafusionInspection | None,
) -> PartSizes:
    footer = file.footer
    chunks = [chunk for group in row_groups for chunk in group.columns]
    metas = ((footer.chunk_metadata(key.row_group, footer.leaves[key.leaf]), key) for key in keys)
    locations = (dictionary_range(meta, file.locations(key)) for meta, key in metas)
    dictionaries = sum(location.length for location in locations if location is not None)
    embedded = datafusion.size_bytes if datafusion is not None else 0
    original_footer = 0
    if directory is not None and directory.is_trusted:
        embedded = sum(entry.size_bytes for entry in directory.entries if entry.offset is not None)
        if datafusion is not None and datafusion.offset < (directory.original_length or 0):
            embedded += datafusion.size_bytes
        offset = directory.original_footer_offset
        original_footer = 0 if offset is None else (directory.original_length or 0) - offset
    filters = {chunk.bloom_filter for chunk in chunks if chunk.bloom_filter is not None}
    sizes = PartSizes(
        data=sum(chunk.compressed_bytes for chunk in chunks) - dictionaries,
        dictionary_pages=dictionaries,
        column_indexes=sum(chunk.column_index_bytes for chunk in chunks),
        offset_indexes=sum(chunk.offset_index_bytes for chunk in chunks),
        bloom_filters=sum(bloom.size_bytes for bloom in filters),
        embedded_indexes=embedded,
        original_footer=original_footer,
        footer=footer.file_length - footer.start,
        other=0,
    )
    return replace(sizes, other=footer.file_length - sum(vars(sizes).values()))
