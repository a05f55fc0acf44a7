"""Rewrite a local file without some of its rows, in the form that it has: its schema, encodings and indexes.

pyarrow reads and writes the values as they are stored: integers, bytes and floating-point numbers. It sees a
footer without the logical types that it could interpret, such as the unit of a timestamp, and the new file
gets the schema and the key/value metadata of the old one, byte for byte. So each schema is kept, also those
that pyarrow cannot write, and no value can change.

Parameters that a footer does not contain, such as the level of a codec, are pyarrow's defaults.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterator, Sequence
from contextlib import suppress
from typing import Final

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq

from intarsia.arrow.nested import with_leaves
from intarsia.arrow.owned_rows import filter_rows
from intarsia.embed.chunk_statistics import Bloom, Statistics
from intarsia.embed.original import Original, find_original
from intarsia.embed.page_index import PageIndex
from intarsia.embed.structures import Attachable
from intarsia.embed.tail import FooterEdit
from intarsia.errors import (
    ChangedMeanwhileError,
    FormatError,
    IndexBuildError,
    UnsupportedFeatureError,
    WriteError,
)
from intarsia.file import ChunkKey, ParquetInput
from intarsia.file.schema import INDEX_KEYS
from intarsia.file.synthetic import footer_parts
from intarsia.format import thrift
from intarsia.format.bloom import BLOCK_BYTES, FilterLocation, estimated_distinct, expected_fpp
from intarsia.format.enums import DICTIONARY_ENCODINGS, CompressionCodec, Encoding, PageType, Type
from intarsia.format.footer import MAGIC, Leaf, chunk_range
from intarsia.format.structs import ColumnMetaData, PageHeader
from intarsia.indexes.registry import find_index
from intarsia.records import dataclass
from intarsia.rows.int96 import INT96_BYTES
from intarsia.rows.selection import Rows
from intarsia.storage import LocalFile
from intarsia.storage.hadoop_files import check_sink_log
from intarsia.storage.replace import FileIdentity, check_unchanged
from intarsia.write.output import Output, WriteOptions, WriteReport, dry_run


def rewrite_without(path: str, deleted: Rows, identity: FileIdentity) -> WriteReport:
    """Replace a file by one without some of its rows.

    Everything else stays: the order of rows, the schema and the key/value metadata, row groups (without those
    that would be empty), codecs, encodings, rows per page, Bloom filters and embedded indexes, which are
    rebuilt. The new file always has a page index. Each value that is kept is read back from the new file, and
    compared, before the new file replaces the old one. A file is replaced atomically.

    Memory grows with the size of a row group, not of the file.

    Args:
        path: The absolute path of a local file.
        deleted: The ordinals of the rows to leave out, ascending.
        identity: The identity of the file in which the rows have these ordinals.

    Returns:
        The report of the new file.

    Raises:
        ChangedMeanwhileError: If the file has changed since; it is untouched.
        UnsupportedFeatureError: If pyarrow would change the schema.
        IndexBuildError: If an index of the file is of a kind that no installed package has.
        WriteError: If values were not written correctly; the old file is untouched.
        ReplaceError: If the system refuses, or the log of a streaming sink lists the file.

    Example:
        >>> import tempfile, os, numpy as np, intarsia as ia
        >>> path = os.path.join(tempfile.mkdtemp(), "cities.parquet")
        >>> _ = ia.write_table(pa.table({"city": ["Bern", "Basel", "Chur"]}), path)
        >>> rewrite_without(path, np.array([1]), FileIdentity.of(path)).num_rows
        2
    """
    try:
        return _rewritten(path, deleted, identity)
    except Exception:
        check_unchanged(path, identity)  # else the footer of one file was used for the bytes of another
        raise


def _rewritten(path: str, deleted: Rows, identity: FileIdentity) -> WriteReport:
    check_sink_log(path, 0)
    with ParquetInput(LocalFile(path)) as file, file.named_errors():
        form = FileForm.of(file)
        num_rows, footer = file.footer.num_rows, file.footer.raw
    if len(deleted) and deleted[-1] >= num_rows:
        raise ChangedMeanwhileError(
            f"the file has {num_rows:,} rows, and not the row {deleted[-1]:,}; run again",
            reason="changed-meanwhile",
            path=path,
        )
    output = Output(path, form.schema, form.options, form.indexes, replaces=identity, restored=form.restored)

    def kept() -> Iterator[pa.Table]:
        return _kept_row_groups(open_stored(path, footer, form.leaves), deleted)

    try:
        for table in kept():
            output.write_row_group(table)
        return output.finish(None, check=lambda new: _check(form, new, kept))
    finally:
        output.discard()


def _kept_row_groups(file: pq.ParquetFile, deleted: Rows) -> Iterator[pa.Table]:
    start = 0
    for group in range(file.num_row_groups):
        num_rows = file.metadata.row_group(group).num_rows
        first, last = np.searchsorted(deleted, [start, start + num_rows])
        if last - first < num_rows:
            table = file.read_row_group(group)
            if last > first:
                mask = np.ones(num_rows, dtype=bool)
                mask[deleted[first:last] - start] = False
                table = filter_rows(table, pa.array(mask))
            yield table
        start += num_rows


def _check(form: FileForm, new_path: str, kept: Callable[[], Iterator[pa.Table]]) -> None:
    """Compare the stored values of a new file with those that it should have.

    Raises:
        WriteError: If they differ.
    """
    with ParquetInput(LocalFile(new_path)) as file:
        new = open_stored(new_path, file.footer.raw, file.footer.leaves)
    groups = 0
    for groups, table in enumerate(kept(), 1):
        written = new.read_row_group(groups - 1) if groups <= new.num_row_groups else None
        if written is None or written.num_rows != table.num_rows:
            raise _differs(form.path, None)
        for ordinal, (before, after) in enumerate(zip(table.columns, written.columns, strict=True)):
            if not _bits(before).equals(_bits(after)):
                raise _differs(form.path, table.column_names[ordinal])
    if groups != new.num_row_groups:
        raise _differs(form.path, None)


def _differs(path: str, column: str | None) -> WriteError:
    what = f"the values of {column!r}" if column else "the rows"
    return WriteError(
        f"{what} in the new file differ from those in the old one, which is unchanged; report this as an "
        "error of Intarsia",
        reason="verification-failed",
        path=path,
        column=column,
    )


def _bits(column: pa.ChunkedArray) -> pa.ChunkedArray:
    """Return values that are equal if their bits are: NaN equals itself, and 0.0 does not equal -0.0."""
    data_type = with_leaves(column.type, lambda leaf: _INTEGERS.get(leaf, leaf))
    return pa.chunked_array([chunk.view(data_type) for chunk in column.chunks], data_type)


_INTEGERS: Final = {pa.float16(): pa.int16(), pa.float32(): pa.int32(), pa.float64(): pa.int64()}


# --- the form of a file -------------------------------------------------------------------------------

#: The names of codecs in pyarrow where they differ from those of Parquet.
_CODECS: Final = {CompressionCodec.UNCOMPRESSED: "NONE", CompressionCodec.LZ4_RAW: "LZ4"}

#: Encodings that pyarrow writes if they are requested for a column.
_REQUESTED: Final = (
    Encoding.DELTA_BINARY_PACKED,
    Encoding.DELTA_LENGTH_BYTE_ARRAY,
    Encoding.DELTA_BYTE_ARRAY,
    Encoding.BYTE_STREAM_SPLIT,
)

#: Rows per page if the file has no page index: the default of pyarrow and parquet-java.
_ROWS_PER_PAGE: Final = 20_000

#: More bytes than the header of a page has.
_HEADER_BYTES: Final = 64 << 10

#: The range of false-positive rates of a rebuilt Bloom filter.
_LEAST_FPP, _MOST_FPP = 1e-6, 0.5

#: Sizes are powers of two. This part of one keeps it, although the number of values is an estimate.
_PART_OF_SIZE: Final = 0.75

#: Logical types that the order of bounds depends on.
_SHOWN: Final = ("INTEGER", "FLOAT16")

#: Logical types of bytes that are not ordered as bytes are. Their bounds are computed by `Statistics`.
_OTHER_ORDER: Final = ("DECIMAL", "GEOMETRY", "GEOGRAPHY", "INTERVAL")


@dataclass(frozen=True)
class _BloomOfLeaf(Bloom):
    """A Bloom filter of a leaf that Arrow's schema may show under another name, as in lists and maps."""

    ordinal: int = 0

    def leaves(self, file: ParquetInput) -> Collection[int]:  # noqa: ARG002
        """Return the ordinal of the leaf."""
        return (self.ordinal,)


@dataclass(frozen=True)
class FileForm:
    """The form of a file.

    Attributes:
        path: The file, a local one.
        schema: The schema of its stored values.
        indexes: Its Bloom filters and embedded indexes.
        footer: Its footer without attached structures.
    """

    path: str
    schema: pa.Schema
    options: WriteOptions
    indexes: tuple[Attachable, ...]
    leaves: tuple[Leaf, ...]
    footer: bytes

    @classmethod
    def of(cls, file: ParquetInput) -> FileForm:
        """Return the form of an open local file.

        Raises:
            IndexBuildError: If it has an index of a kind that no installed package has.
            UnsupportedFeatureError: If it is encrypted.
        """
        original = find_original(file)
        leaves = file.footer.leaves
        schema = open_stored(file.path, file.footer.raw, leaves).schema_arrow
        return cls(
            file.path,
            schema,
            _options(file, schema),
            (*_completing(file), *_bloom_filters(file), *_embedded(original)),
            leaves,
            original.file.footer.raw,
        )

    def restored(self, new: ParquetInput) -> bytes:
        """Return the footer of a new file with the schema and the key/value metadata of this one.

        Raises:
            UnsupportedFeatureError: If the stored values of the new file have another type.
        """
        found = new.footer.leaves
        for before, after in zip(self.leaves, found, strict=False):
            if _shape(before) != _shape(after):
                raise self._refusal(before.name)
        if len(found) != len(self.leaves):
            raise self._refusal(None)
        source, edit = FooterEdit(self.footer), FooterEdit(new.footer.raw)
        for key in INDEX_KEYS:  # offsets in the old file
            source.remove_key_value(key)
        unordered = {leaf.ordinal for leaf in self.leaves if _has_other_order(leaf)}
        edit.take_schema(source, self.leaves, unordered)
        return edit.to_bytes()

    def _refusal(self, column: str | None) -> UnsupportedFeatureError:
        what = f"column {column!r}" if column else "the schema"
        return UnsupportedFeatureError(
            f"pyarrow cannot write {what} as it is stored; write the rows to a new file with the program "
            "that wrote this one",
            reason="form-not-kept",
            path=self.path,
            column=column,
        )


def indexes_of(file: ParquetInput) -> list[Attachable]:
    """Return the Bloom filters of columns outside lists, and the embedded indexes of a file.

    Raises:
        IndexBuildError: If it has an index of a kind that no installed package has.
    """
    leaves = file.footer.leaves
    filters = [Bloom(one.column, one.fpp) for one in _bloom_filters(file) if leaves[one.ordinal].is_flat]
    return [*filters, *_embedded(find_original(file))]


def _shape(leaf: Leaf) -> tuple[object, ...]:
    physical, length = leaf.type, 0
    if physical == Type.FIXED_LEN_BYTE_ARRAY:  # fastparquet writes a length for numbers
        length = leaf.element.type_length or 0
    elif physical == Type.INT96:
        physical, length = Type.FIXED_LEN_BYTE_ARRAY, INT96_BYTES
    return physical, length, leaf.max_definition_level, leaf.max_repetition_level


def _has_other_order(leaf: Leaf) -> bool:
    in_bytes = leaf.type in (Type.BYTE_ARRAY, Type.FIXED_LEN_BYTE_ARRAY)
    is_interval = leaf.logical is None and leaf.element.converted_type is not None
    return leaf.type == Type.INT96 or (in_bytes and (leaf.logical_name in _OTHER_ORDER or is_interval))


def open_stored(path: str, footer: bytes, leaves: Sequence[Leaf]) -> pq.ParquetFile:
    """Open a file with pyarrow so that it reads the stored values, and compares the checksums of pages.

    Args:
        path: The local path of the file.
    """
    edit = FooterEdit(footer)
    # pyarrow sees the logical types without which bounds would have another order
    edit.hide_types({leaf.ordinal: leaf for leaf in leaves if leaf.logical_name not in _SHOWN})
    shown = b"".join([MAGIC, *footer_parts(edit.to_bytes())])
    metadata = pq.read_metadata(pa.BufferReader(shown))
    return pq.ParquetFile(path, metadata=metadata, page_checksum_verification=True)


# --- the options of the writer ----------------------------------------------------------------------


def _options(file: ParquetInput, schema: pa.Schema) -> WriteOptions:
    # in lists, the leaves of the file may have other names than those that pyarrow writes
    names = [leaf.name for leaf in dry_run(schema, file.path, (), WriteOptions()).footer.leaves]
    chunks = {name: list(_chunks(file, leaf)) for name, leaf in zip(names, file.footer.leaves, strict=False)}
    pages = [page for found in chunks.values() for meta in found for page in meta.encoding_stats or ()]
    is_second = any(page.page_type == PageType.DATA_PAGE_V2 for page in pages)
    encodings = {name: code for name, found in chunks.items() if (code := _encoding(found))}
    groups = file.footer.metadata.row_groups
    order = groups[0].sorting_columns if groups else None
    return WriteOptions(
        rows_per_page=_rows_per_page(file),
        compression={name: _codec(found) for name, found in chunks.items()},
        dictionary=[name for name, found in chunks.items() if any(map(_has_dictionary, found))],
        arrow={
            "column_encoding": encodings or None,
            "data_page_version": "2.0" if is_second else "1.0",
            "sorting_columns": [pq.SortingColumn(*column) for column in order or ()] or None,
            "store_schema": False,
            "write_page_checksum": _has_checksums(file),
        },
    )


def _chunks(file: ParquetInput, leaf: Leaf) -> Iterator[ColumnMetaData]:
    for group in file.footer.metadata.row_groups:
        meta = group.columns[leaf.ordinal].meta_data
        if meta is not None and group.num_rows:
            yield meta


def _has_dictionary(meta: ColumnMetaData) -> bool:
    return not DICTIONARY_ENCODINGS.isdisjoint(meta.encodings)


def _codec(chunks: Sequence[ColumnMetaData]) -> str:
    codec = CompressionCodec(chunks[0].codec if chunks else CompressionCodec.UNCOMPRESSED)
    return _CODECS.get(codec, codec.name)


def _encoding(chunks: Sequence[ColumnMetaData]) -> str | None:
    """Return the encoding to request for a column; None if it has a dictionary, or the default."""
    found = {encoding for meta in chunks for encoding in meta.encodings if encoding in _REQUESTED}
    if len(found) != 1 or any(map(_has_dictionary, chunks)):
        return None
    return Encoding(found.pop()).name


def _rows_per_page(file: ParquetInput) -> int:
    """Return the number of rows of the largest page, if the file has a page index."""
    groups, leaves = range(len(file.footer.metadata.row_groups)), file.footer.leaves
    keys = [ChunkKey(group, leaf.ordinal) for group in groups for leaf in leaves]
    file.load_page_index(keys)
    located = [pages.rows for key in keys if (pages := file.locations(key)) is not None and len(pages)]
    return max((int((rows.stops - rows.starts).max()) for rows in located), default=_ROWS_PER_PAGE)


def _has_checksums(file: ParquetInput) -> bool:
    """Return whether the first page has a checksum."""
    for meta in _chunks(file, file.footer.leaves[0]) if file.footer.leaves else ():
        start, stop = chunk_range(meta)
        header, _ = thrift.parse(PageHeader, file.source.read(start, min(stop, start + _HEADER_BYTES)))
        return header.crc is not None
    return False


# --- indexes ----------------------------------------------------------------------------------------


def _completing(file: ParquetInput) -> Iterator[Attachable]:
    """Yield the structures that complete bounds that pyarrow cannot compute, if the file has them."""
    leaves = [leaf for leaf in file.footer.leaves if _has_other_order(leaf)]
    if any(file.footer.column_order(leaf) == "INT96_TIMESTAMP_ORDER" for leaf in leaves):
        yield PageIndex(int96="order")
    elif any(leaf.logical_name == "DECIMAL" for leaf in leaves):
        yield PageIndex()
    if any(leaf.logical_name == "DECIMAL" for leaf in leaves):
        yield Statistics()


def _bloom_filters(file: ParquetInput) -> Iterator[_BloomOfLeaf]:
    """Yield those that can be built: Parquet defines no hashes of booleans, which other writers add, too."""
    for leaf in file.footer.leaves:
        found = next((meta for meta in _chunks(file, leaf) if meta.bloom_filter_offset), None)
        if found is None or leaf.type == Type.BOOLEAN:
            continue
        with suppress(FormatError):  # of another algorithm, or damaged; it may contain deleted values
            yield _BloomOfLeaf(leaf.path, _fpp(file, found), leaf.ordinal)


def _fpp(file: ParquetInput, meta: ColumnMetaData) -> float:
    """Return a false-positive rate for which a filter has the same size."""
    location = FilterLocation.of(meta, file.footer.start)
    bits = file.source.read(*location.bits(file.source.read(*location.head)))
    distinct = min(estimated_distinct(bits), meta.num_values)
    expected = expected_fpp(_PART_OF_SIZE * len(bits) / BLOCK_BYTES, round(distinct))
    return min(max(expected, _LEAST_FPP), _MOST_FPP)


def _embedded(original: Original) -> Iterator[Attachable]:
    for entry in original.directory.entries if original.directory is not None else ():
        found = find_index(entry)
        if found.index is None:
            raise IndexBuildError(
                f"the index {entry.name} cannot be rebuilt: {found.reason}; install its package, or detach "
                "the indexes of the file first",
                reason=found.fault,
                path=original.current.path,
            )
        yield found.index
