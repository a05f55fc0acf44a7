"""Describe a file: rows, columns, pages, bounds, indexes and sizes.

Only the footer and indexes are read, no data pages. Metadata that scans ignore is included, with the reason.
"""

from __future__ import annotations

import os

from intarsia.check.inspection.chunks import dictionary_bytes, inspect_chunk, is_readable
from intarsia.check.inspection.report import (
    BloomInspection,
    ChunkInspection,
    DatafusionInspection,
    DirectoryInspection,
    EntryInspection,
    FileInspection,
    LeafInspection,
    PageInspection,
    PartSizes,
    RowGroupInspection,
)
from intarsia.check.inspection.values import human_value, json_value, type_name
from intarsia.errors import FormatError, IndexPayloadError
from intarsia.file import ChunkKey, ParquetInput
from intarsia.format.blob import DATAFUSION_HEADER_BYTES, DATAFUSION_KEY, parse_header, parse_offset
from intarsia.format.directory import Entry
from intarsia.format.enums import FieldRepetitionType
from intarsia.format.footer import MAGIC, TRAILER_BYTES, Leaf
from intarsia.format.structs import RowGroup
from intarsia.indexes.embedded import EmbeddedIndexes
from intarsia.indexes.registry import find_index_class
from intarsia.lake.discovery import find_files
from intarsia.storage import ByteSource, StorageOptions

__all__ = [
    "BloomInspection",
    "ChunkInspection",
    "DatafusionInspection",
    "DirectoryInspection",
    "EntryInspection",
    "FileInspection",
    "LeafInspection",
    "PageInspection",
    "PartSizes",
    "RowGroupInspection",
    "find_datafusion_index",
    "human_value",
    "inspect",
    "json_value",
    "open_one",
]


def inspect(
    path: str | os.PathLike[str], *, pages: bool = False, storage_options: StorageOptions | None = None
) -> FileInspection:
    """Describe a file by its footer and its indexes.

    Args:
        path: A file; local, or a URL.
        pages: Whether to list each page, and to estimate the contents of Bloom filters.
        storage_options: Options of the store of a URL, as for `intarsia.open`.

    Returns:
        The description; `FileInspection.to_dict` converts it to a JSON object.

    Raises:
        CorruptFileError: If the file is not a Parquet file, or is damaged.
        UnsupportedFeatureError: If its footer is encrypted.
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
    """
    with open_one(path, storage_options) as file, file.named_errors():
        return _inspect(file, pages=pages)


def open_one(path: str | os.PathLike[str], storage_options: StorageOptions | None = None) -> ParquetInput:
    """Open the one file that a path or URL names; see `open_source`."""
    return ParquetInput(open_source(path, storage_options))


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


def _inspect(file: ParquetInput, *, pages: bool) -> FileInspection:
    footer = file.footer
    groups = footer.metadata.row_groups
    keys = [
        ChunkKey(ordinal, leaf.ordinal)
        for ordinal, group in enumerate(groups)
        for leaf in footer.leaves
        if is_readable(group.columns[leaf.ordinal])
    ]
    file.load_page_index(keys, keys)
    directory = _inspect_directory(file)
    datafusion = find_datafusion_index(file)
    row_groups = tuple(
        _inspect_row_group(file, ordinal, group, pages=pages) for ordinal, group in enumerate(groups)
    )
    return FileInspection(
        path=file.path,
        size_bytes=footer.file_length,
        created_by=footer.created_by,
        num_rows=footer.num_rows,
        sizes=_sizes(file, row_groups, directory, datafusion),
        schema=tuple(_inspect_leaf(file, leaf) for leaf in footer.leaves),
        key_values={key.decode("utf-8", "replace"): len(value) for key, value in footer.key_values.items()},
        directory=directory,
        datafusion_index=datafusion,
        row_groups=row_groups,
        ignored=tuple(file.ignored),
    )


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
    file: ParquetInput, ordinal: int, group: RowGroup, *, pages: bool
) -> RowGroupInspection:
    leaves = file.footer.leaves
    columns = tuple(inspect_chunk(file, ChunkKey(ordinal, leaf.ordinal), pages=pages) for leaf in leaves)
    sorted_by = tuple(
        leaves[column.column_idx].name + (" DESC" if column.descending else "")
        for column in group.sorting_columns or ()
        if 0 <= column.column_idx < len(leaves)
    )
    return RowGroupInspection(
        ordinal, group.num_rows, sum(column.compressed_bytes for column in columns), sorted_by, columns
    )


# --- embedded indexes --------------------------------------------------------------------------------


def _inspect_directory(file: ParquetInput) -> DirectoryInspection | None:
    found = file.found_directory
    if found is None:
        return None
    if found.reason is not None:
        file.distrust("intarsia directory", found.reason, found.code)
    if found.directory is None:
        return DirectoryInspection(False, found.reason, None, ())
    embedded = EmbeddedIndexes(file)
    entries = tuple(_inspect_entry(file, embedded, entry, found.reason) for entry in found.directory.entries)
    return DirectoryInspection(found.reason is None, found.reason, found.directory.original_length, entries)


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
    row_groups: tuple[RowGroupInspection, ...],
    directory: DirectoryInspection | None,
    datafusion: DatafusionInspection | None,
) -> PartSizes:
    length = file.footer.file_length
    chunks = [chunk for group in row_groups for chunk in group.columns]
    dictionaries = sum(
        dictionary_bytes(file, ChunkKey(ordinal, leaf.ordinal))
        for ordinal, group in enumerate(file.footer.metadata.row_groups)
        for leaf in file.footer.leaves
        if is_readable(group.columns[leaf.ordinal])
    )
    embedded = datafusion.size_bytes if datafusion is not None else 0
    original_footer = 0
    if directory is not None and directory.is_trusted:
        embedded = sum(entry.size_bytes for entry in directory.entries if entry.offset is not None)
        if datafusion is not None and datafusion.offset < (directory.original_length or 0):
            embedded += datafusion.size_bytes
        original_footer = _original_footer_bytes(file, directory.original_length or 0)
    data = sum(chunk.compressed_bytes for chunk in chunks) - dictionaries
    column_indexes = sum(chunk.column_index_bytes for chunk in chunks)
    offset_indexes = sum(chunk.offset_index_bytes for chunk in chunks)
    filters = {chunk.bloom_filter for chunk in chunks if chunk.bloom_filter is not None}
    blooms = sum(bloom.size_bytes for bloom in filters)
    footer = length - file.footer.start
    known = (
        dictionaries + data + column_indexes + offset_indexes + blooms + embedded + original_footer + footer
    )
    return PartSizes(
        data=data,
        dictionary_pages=dictionaries,
        column_indexes=column_indexes,
        offset_indexes=offset_indexes,
        bloom_filters=blooms,
        embedded_indexes=embedded,
        original_footer=original_footer,
        footer=footer,
        other=length - known,
    )


def _original_footer_bytes(file: ParquetInput, original_length: int) -> int:
    """Return the size of the original footer, including its length and magic."""
    trailer = file.source.read(original_length - TRAILER_BYTES, original_length)
    return int.from_bytes(trailer[:4], "little") + TRAILER_BYTES if trailer[4:] == MAGIC else 0
