"""Describe one column chunk by the footer and the indexes."""

from __future__ import annotations

import math
from enum import IntEnum

import numpy as np

from intarsia.check.inspection.report import (
    BloomInspection,
    ChunkInspection,
    GeospatialInspection,
    PageInspection,
    SizeInspection,
)
from intarsia.check.inspection.values import human_value
from intarsia.errors import CorruptFileError, FormatError
from intarsia.file import ChunkKey, ParquetInput
from intarsia.file.chunks import UNKNOWN, dictionary_range, recorded_pages
from intarsia.format.bloom import FilterLocation, blocks_of, estimated_distinct
from intarsia.format.enums import BoundaryOrder, CompressionCodec, encoding_name
from intarsia.format.footer import Leaf
from intarsia.format.structs import ColumnChunk, ColumnIndex, ColumnMetaData, Statistics
from intarsia.format.wkb import type_name


def inspect_chunk(file: ParquetInput, key: ChunkKey, *, pages: bool) -> ChunkInspection:
    """Describe a chunk, whose page index must be loaded.

    Args:
        file: The file.
        key: The chunk.
        pages: Whether to list the pages, and to estimate the contents of the Bloom filter.
    """
    leaf = file.footer.leaves[key.leaf]
    chunk = file.footer.chunk(key.row_group, leaf)
    try:
        meta = file.footer.chunk_metadata(key.row_group, leaf)
    except FormatError as error:  # encrypted, or in another file; the rest of the file can be described
        return ChunkInspection(leaf.name, "unknown", (), 0, 0, 0, ignored_metadata=(error.message,))
    ignored: list[str] = []
    locations, index = file.locations(key), file.column_index(key)
    statistics = meta.statistics or Statistics()
    low, high = _pair(statistics)
    objection = None
    if low is not None or high is not None:
        objection = bounds_objection(file, leaf, meta)
        if objection:
            ignored.append(f"statistics ignored: {objection}")
    if index is not None and not file.trust(leaf).order_is_known:
        ignored.append("ColumnIndex ignored: the footer declares no known order for the column")
    bloom = None
    if meta.bloom_filter_offset:
        try:
            bloom = _inspect_bloom(file, meta, look_inside=pages)
        except FormatError as error:
            ignored.append(f"Bloom filter ignored: {error.message}")
    counted, count_source = recorded_pages(meta.encoding_stats, ()).data, "encoding_stats"
    if locations is not None:
        counted, count_source = len(locations), "offset_index"
    listed = _inspect_pages(file, key, leaf, index) if pages else None
    return ChunkInspection(
        column=leaf.name,
        codec=_name(CompressionCodec, meta.codec),
        encodings=tuple(map(encoding_name, meta.encodings)),
        num_values=meta.num_values,
        compressed_bytes=meta.total_compressed_size,
        uncompressed_bytes=meta.total_uncompressed_size,
        num_pages=None if counted == UNKNOWN else counted,
        num_pages_source=None if counted == UNKNOWN else count_source,
        null_count=statistics.null_count,
        min=None if low is None else human_value(leaf, low),
        max=None if high is None else human_value(leaf, high),
        is_min_exact=statistics.is_min_value_exact,
        is_max_exact=statistics.is_max_value_exact,
        bounds_trusted=None if low is None and high is None else objection is None,
        bounds_reason=objection,
        has_column_index=index is not None,
        has_offset_index=locations is not None,
        column_index_bytes=chunk.column_index_length or 0,
        offset_index_bytes=chunk.offset_index_length or 0,
        boundary_order=None if index is None else BoundaryOrder(index.boundary_order).name.lower(),
        bloom_filter=bloom,
        sizes=_sizes(meta),
        geospatial=_geospatial(meta),
        ignored_metadata=(*ignored, *_ignored_indexes(file, key, leaf)),
        pages=listed,
    )


def _sizes(meta: ColumnMetaData) -> SizeInspection | None:
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
    box = None
    if found.bbox is not None:
        limits = found.bbox._asdict()
        box = {name: limit for name, limit in limits.items() if limit is not None}
    return GeospatialInspection(box, tuple(map(type_name, found.geospatial_types or ())))


def is_readable(chunk: ColumnChunk) -> bool:
    """Return whether a chunk is in this file and not encrypted."""
    return chunk.meta_data is not None and chunk.crypto_metadata is None and not chunk.file_path


def bounds_objection(file: ParquetInput, leaf: Leaf, meta: ColumnMetaData) -> str | None:
    """Return why scans ignore a chunk's bounds; None if they use them.

    Args:
        file: The file.
        leaf: The column.
        meta: The chunk, whose statistics have a bound.
    """
    if not leaf.is_flat:
        return "the column is in a list or map, so a row has no single value"
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


def dictionary_bytes(file: ParquetInput, key: ChunkKey) -> int:
    """Return the size of a chunk's dictionary page in bytes; 0 if its offset is unknown."""
    leaf = file.footer.leaves[key.leaf]
    meta = file.footer.chunk_metadata(key.row_group, leaf)
    location = dictionary_range(meta, file.locations(key))
    return 0 if location is None else location.length


def _pair(statistics: Statistics) -> tuple[bytes | None, bytes | None]:
    if statistics.min_value is None and statistics.max_value is None:
        return statistics.min, statistics.max
    return statistics.min_value, statistics.max_value


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
    pages = []
    rows = (locations.rows.stops - locations.rows.starts).tolist()
    table = zip(
        locations.rows.starts.tolist(),
        rows,
        locations.offsets.tolist(),
        locations.sizes_bytes.tolist(),
        strict=True,
    )
    for ordinal, location in enumerate(table):
        page = PageInspection(ordinal, *location)
        if index is not None:
            is_null = index.null_pages[ordinal]
            page = PageInspection(
                ordinal,
                *location,
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
    distinct, false_positives = estimate_bloom(file.source.read(start, stop))
    return BloomInspection(location.start, num_bytes, distinct, false_positives)


def estimate_bloom(bits: bytes) -> tuple[int, float]:
    """Estimate the number of values in a filter, and its false-positive rate.

    Example:
        >>> estimate_bloom(bytes(64))
        (0, 0.0)
    """
    set_bits = np.unpackbits(blocks_of(bits)[..., None].view(np.uint8), axis=-1)
    false_positives = float(set_bits.mean(axis=-1).prod(axis=-1).mean())
    distinct = estimated_distinct(bits)
    if math.isinf(distinct):  # for a full filter, a lower limit
        distinct = estimated_distinct(b"\xfe" + bits[1:])
    return round(distinct), false_positives


def _name(names: type[IntEnum], value: int) -> str:
    return names(value).name if value in tuple(names) else f"unknown ({value})"
