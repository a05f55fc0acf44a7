"""The steps of writing a file: row groups by pyarrow, repairs of bounds, indexes, and the final rename."""

from __future__ import annotations

import os
import time
from collections import Counter
from collections.abc import Callable, Collection, Container, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import asdict, field, replace
from itertools import chain
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq

from intarsia.amounts import count
from intarsia.arrow.owned_rows import with_short_dictionaries
from intarsia.embed.attach import ColumnsOf, attach_in, attach_to, checked_indexes
from intarsia.embed.chunk import NO_ORDER, Chunk, ChunkState, Placed, computed_statistics, without_bounds
from intarsia.embed.column_data import FileColumns
from intarsia.embed.leaf_values import cut_bounds, may_be_cut
from intarsia.embed.original import states_of
from intarsia.embed.page_index import HOLDS_NAN, PageIndex, index_chunk
from intarsia.embed.report import Note, Progress, Reason, summarize
from intarsia.embed.structures import Attachable, Attachables, StructureCompleter
from intarsia.embed.tail import FilePieces, FooterEdit
from intarsia.errors import ColumnNotFoundError, IndexBuildError, WriteError
from intarsia.file import ChunkKey, ParquetInput
from intarsia.file.synthetic import footer_parts
from intarsia.format import thrift
from intarsia.format.structs import ColumnIndex
from intarsia.records import dataclass
from intarsia.rows.bounds import boundary_order
from intarsia.rows.ordering import MAX_BOUND_BYTES
from intarsia.storage import ByteRange, LocalFile, MemorySource, StorageOptions
from intarsia.storage.replace import FileIdentity, write_all
from intarsia.storage.target import PrivateFile, new_target
from intarsia.write.rows import (
    SortBy,
    contains_nan,
    leaf_arrays,
    repeats,
    sort_keys,
    sorting_columns,
    without_encoded_views,
    writable_schema,
)

#: Maximum number of rows per data page, the unit that a lookup reads. For 2,000,000 rows of six columns,
#: compared with pages of 20,000 rows: 10,000 rows halve the bytes of a lookup and add 0.7% to the file;
#: 2,000 rows add 4.4%.
ROWS_PER_PAGE = 10_000

#: The default maximum size of a row group as Arrow data; a `Writer` needs about twice as much memory.
ROW_GROUP_BYTES = 128 << 20

#: pyarrow has no larger numbers of rows.
_MOST = (1 << 63) - 1

#: Nor larger levels of a codec.
_MOST_LEVELS = (1 << 31) - 1


@dataclass(frozen=True)
class WriteOptions:
    """How a file is written; see `intarsia.write.writer.Writer`.

    Attributes:
        compression: The codec, or that of each leaf by its dotted path.
        arrow: Further arguments of `pyarrow.parquet.ParquetWriter`.
    """

    rows_per_page: int = ROWS_PER_PAGE
    row_group_size: int | None = None
    row_group_bytes: int = ROW_GROUP_BYTES
    sort_by: SortBy | None = None
    compression: str | Mapping[str, str] = "zstd"
    compression_level: int | None = None
    dictionary: bool | Sequence[str] | None = None
    arrow: Mapping[str, Any] = field(default_factory=dict)

    def __post_init__(self) -> None:
        for name, unit in (
            ("rows_per_page", "rows"),
            ("row_group_size", "rows"),
            ("row_group_bytes", "bytes"),
        ):
            number = getattr(self, name)
            is_default = number is None and name == "row_group_size"
            if not is_default and (type(number) is not int or not 1 <= number <= _MOST):
                raise WriteError(
                    f"{name} is {number!r:.80}; use an integer of 1 or more, in {unit}",
                    reason="invalid-row-count" if unit == "rows" else "invalid-size",
                )
        codec: object = self.compression
        level = self.compression_level
        is_level = level is None or (type(level) is int and abs(level) <= _MOST_LEVELS)
        if not isinstance(codec, (str, Mapping, type(None))) or not is_level:
            raise WriteError(
                f"the codec is {codec!r:.80} and its level {level!r:.80}; use the name of a codec, such as "
                "'zstd', and an integer or None",
                reason="invalid-codec",
            )
        names = self.dictionary
        if not isinstance(names, (bool, type(None))) and (isinstance(names, str) or not _are_names(names)):
            raise WriteError(
                f"dictionary is {names!r:.80}; use True, False or a list of dotted paths, such as ['a.b']",
                reason="invalid-dictionary",
            )

    def writer(self, sink: Any, schema: pa.Schema, **arguments: Any) -> pq.ParquetWriter:
        """Return pyarrow's writer of a file."""
        codec = {"compression": self.compression, "compression_level": self.compression_level}
        return pq.ParquetWriter(sink, schema, **{**codec, **arguments, **self.arrow})


def _are_names(names: object) -> bool:
    return isinstance(names, Iterable) and all(isinstance(name, str) for name in names)


class Output:
    """A file that is being written.

    Args:
        path: Its final path.
        storage_options: Options of the store of a URL.
        replaces: The local file that it replaces; it must not have changed when the new one is complete.
        restored: Returns the footer to write before indexes are built, given the file as pyarrow wrote it;
            None for pyarrow's. The indexes are for the schema in this footer.

    Raises:
        WriteError, IndexBuildError, ColumnNotFoundError: If an argument is invalid.
        ReplaceError: If the file cannot be created.
    """

    def __init__(
        self,
        path: str | os.PathLike[str],
        schema: pa.Schema,
        options: WriteOptions,
        indexes: Attachables,
        storage_options: StorageOptions | None = None,
        replaces: FileIdentity | None = None,
        restored: Callable[[ParquetInput], bytes] | None = None,
    ) -> None:
        self._restored = restored
        self._started = time.perf_counter()
        self.path = os.fspath(path)
        self.schema = writable_schema(schema)
        self.keys = sort_keys(options.sort_by, schema)
        self._indexes = checked_indexes(indexes)
        self._options = options
        self._empty_file = dry_run(schema, self.path, self._indexes if restored is None else (), options)
        self._leaves = self._empty_file.footer.leaves
        self._floats = {leaf.ordinal for leaf in self._leaves if leaf.is_float}
        self._decimals = [leaf.ordinal for leaf in self._leaves if leaf.logical_name == "DECIMAL"]
        names = [leaf.name for leaf in self._leaves]
        requested = options.dictionary
        for name in () if requested is None or isinstance(requested, bool) else requested:
            if name not in names:  # pyarrow would silently ignore it
                raise ColumnNotFoundError(name, names)
        self._nan_chunks: set[ChunkKey] = set()
        self._loose_chunks: set[ChunkKey] = set()
        self._row_group_rows: list[int] = []
        self._dictionary: tuple[str, ...] = ()
        self._arrow: pq.ParquetWriter | None = None
        self._new = new_target(self.path, storage_options, replaces)
        self._sink = pa.OSFile(self._new.temporary, "wb")

    def to_file_schema(self, table: pa.Table) -> pa.Table:
        """Cast rows from the schema that was passed to the schema of the file."""
        if table.schema.equals(self.schema):
            return table
        try:
            return table.cast(without_encoded_views(table.schema)).cast(self.schema)
        except (pa.ArrowException, ValueError) as error:
            raise self._rows_refused(error) from error

    def write_row_group(self, table: pa.Table) -> None:
        """Write one or more rows as one row group.

        Raises:
            WriteError: If Parquet cannot store the rows.
            ReplaceError: If the system refuses.
        """
        self._record_nan_chunks(table)
        with self._named_errors():
            self._check_decimals(table)
            if self._arrow is None:
                self._arrow = self._open(self._with_dictionary(table))
            else:  # the first row group keeps the values that no row has
                # pyarrow writes a whole dictionary into each row group
                table = with_short_dictionaries(table, max_values=table.num_rows)
            self._record_loose_chunks(table)
            self._arrow.write_table(table, row_group_size=table.num_rows)
        self._row_group_rows.append(table.num_rows)

    def finish(
        self,
        progress: Progress | None,
        columns_of: ColumnsOf = FileColumns,
        check: Callable[[str], None] = lambda _: None,
    ) -> WriteReport:
        """Build the indexes and rename the file to its final path.

        Args:
            columns_of: Returns the columns to build embedded indexes on.
            check: Called with the local path of the complete file before it is renamed.
        """
        with self._named_errors():
            (self._arrow or self._open(())).close()
            self._sink.close()
            with ParquetInput(LocalFile(self._new.temporary, shown_as=self.path)) as file:
                notes = _repair_bounds(file, self._new.fd, self._nan_chunks, self._loose_chunks)
            if self._restored is not None:
                with ParquetInput(LocalFile(self._new.temporary, shown_as=self.path)) as file:
                    _write_in_place(self._new.fd, file.footer.start, footer_parts(self._restored(file)))
        unpublished = PrivateFile(self._new.temporary, self.path)
        num_bytes = plain_bytes = unpublished.size
        built: tuple[str, ...] = ()
        embedded = self._indexes
        if self._restored is None:  # pyarrow has written the page index
            embedded = [index for index in embedded if not isinstance(index, PageIndex)]
        if embedded:
            with self._new.named_errors():
                report = attach_to(unpublished, embedded, progress=progress, columns_of=columns_of)
            num_bytes, built = report.bytes_after, report.built
            notes = [*notes, *report.notes]
        check(self._new.temporary)
        self._new.put_in_place()
        return WriteReport(
            path=self.path,
            num_rows=sum(self._row_group_rows),
            num_row_groups=len(self._row_group_rows),
            num_bytes=num_bytes,
            bytes_indexes=num_bytes - plain_bytes,
            dictionary=self._dictionary,
            built=built,
            notes=summarize(notes, self._row_group_rows),
            seconds=time.perf_counter() - self._started,
        )

    def discard(self) -> None:
        """Remove the temporary file; does nothing after `finish`."""
        if self._arrow is not None:
            self._arrow.is_open = False  # else its finalizer closes it again and fails
        self._arrow = None
        self._sink.close()
        self._new.discard()

    @contextmanager
    def _named_errors(self) -> Iterator[None]:
        try:
            with self._new.named_errors():
                yield
        except (pa.ArrowInvalid, pa.ArrowNotImplementedError, pa.ArrowTypeError) as error:
            raise self._rows_refused(error) from error

    def _rows_refused(self, error: Exception) -> WriteError:
        return WriteError(
            f"Parquet cannot store these rows: {error}",
            reason="rows-not-writable",
            path=self.path,
        )

    def _open(self, dictionary: Sequence[str]) -> pq.ParquetWriter:
        self._dictionary = tuple(dictionary)
        return self._options.writer(
            self._sink,
            self.schema,
            use_dictionary=list(dictionary) or False,
            write_page_index=True,
            max_rows_per_page=self._options.rows_per_page,
            sorting_columns=sorting_columns(self.keys, self._empty_file),
        )

    def _with_dictionary(self, table: pa.Table) -> list[str]:
        """Return the leaves that get a dictionary: those requested, or chosen by the first row group."""
        requested, names = self._options.dictionary, [leaf.name for leaf in self._leaves]
        if isinstance(requested, bool):
            return names if requested else []
        if requested is not None:
            return list(requested)
        return [name for name, leaf in zip(names, leaf_arrays(table), strict=True) if repeats(leaf)]

    def _check_decimals(self, table: pa.Table) -> None:
        """Refuse decimals with more digits than their type, of which pyarrow would write the last bytes."""
        leaves = leaf_arrays(table) if self._decimals else []
        for values in chain.from_iterable(leaves[ordinal] for ordinal in self._decimals):
            (values.dictionary if pa.types.is_dictionary(values.type) else values).validate(full=True)

    def _record_nan_chunks(self, table: pa.Table) -> None:
        if not self._floats:
            return
        leaves, row_group = leaf_arrays(table), len(self._row_group_rows)
        self._nan_chunks |= {
            ChunkKey(row_group, ordinal) for ordinal in self._floats if contains_nan(leaves[ordinal])
        }

    def _record_loose_chunks(self, table: pa.Table) -> None:
        for leaf in self._leaves:
            column = table.column(leaf.root_ordinal)
            if pa.types.is_dictionary(column.type) and column.null_count and _has_unused_values(column):
                self._loose_chunks.add(ChunkKey(len(self._row_group_rows), leaf.ordinal))


def _has_unused_values(column: pa.ChunkedArray) -> bool:
    """Return whether a dictionary has values that no row has."""
    return any(pc.count_distinct(chunk.indices).as_py() < len(chunk.dictionary) for chunk in column.chunks)


def dry_run(
    schema: pa.Schema, path: str, indexes: Sequence[Attachable], options: WriteOptions
) -> ParquetInput:
    """Write and index a file without rows in memory, and return it without the indexes.

    Raises:
        WriteError: If the schema cannot be written, or the codec is unknown.
        IndexBuildError: If an index cannot be built on its columns.
        ColumnNotFoundError: If an index names a column that does not exist.
    """
    for name, number in Counter(schema.names).items():
        if number > 1:
            raise WriteError(
                f"{number} columns are named {name!r}; give them unique names",
                reason="duplicate-column",
                path=path,
                column=name,
            )
    sink = pa.BufferOutputStream()
    try:
        options.writer(sink, schema, use_dictionary=False).close()
    except TimeoutError:  # of a signal handler
        raise
    except (pa.ArrowException, ValueError, OSError) as error:
        raise WriteError(
            f"pyarrow cannot write these columns with compression={options.compression!r}: {error}; cast or "
            "drop the column, or use another codec, such as 'zstd', 'snappy' or 'none'",
            reason="schema-not-writable",
            path=path,
        ) from error
    file = ParquetInput(MemorySource(sink.getvalue().to_pybytes(), path))
    if indexes:
        with file.named_errors():
            attach_in(file, indexes)
    return file


# --- repairs of bounds ---------------------------------------------------------------------------------


def _repair_bounds(
    file: ParquetInput, fd: int, nan_chunks: Collection[ChunkKey], loose_chunks: Container[ChunkKey]
) -> list[Note]:
    """Truncate, complete and remove bounds in a file that pyarrow has just written.

    pyarrow does not truncate bounds, and writes none if values exceed a length limit. It omits NaN from
    bounds, so that readers that sort NaN above every number lose rows. The result is that of `PageIndex`
    and `Statistics`: a column of which a chunk contains NaN has no bounds of row groups.
    If a column with nulls is a dictionary with values that no row has, these may become bounds, which
    engines return as MIN and MAX.

    Args:
        file: The file; it must be opened again afterwards.
        fd: The same file, open for writing.

    Returns:
        The chunks without bounds, and the reasons.
    """
    before, after, notes = states_of(file.footer), {}, []
    completer = StructureCompleter(file, {})
    nan_leaves = {key.leaf for key in nan_chunks}
    for key, state in before.items():
        chunk = completer.chunk(key)
        assert chunk is not None  # every chunk of this file is in this file
        found = _bounds(chunk, state.column_index, contains_nan=key in nan_chunks)
        if isinstance(found, Reason):
            notes.append(Note(chunk.leaf.name, key.row_group, PageIndex.kind, found.text, found.code))
        statistics = state.statistics
        if (key in loose_chunks or key in nan_chunks) and chunk.meta.statistics is not None:
            statistics = computed_statistics(chunk, chunk.meta.statistics)
        if key.leaf in nan_leaves and chunk.meta.statistics is not None:  # see `BESIDE_NAN`
            counted = statistics or chunk.meta.statistics
            statistics = without_bounds(counted)._replace(nan_count=counted.nan_count or 0)
        column_index = None if isinstance(found, Reason) else found
        after[key] = replace(state, column_index=column_index, statistics=statistics)
    if after != before:
        _rewrite_tail(file, fd, before.values(), after)
    return notes


def _bounds(chunk: Chunk, location: Placed, *, contains_nan: bool) -> ByteRange | bytes | Reason:
    """Return the ColumnIndex for a chunk, or the reason why it cannot have bounds."""
    ordering = chunk.reader.ordering
    if contains_nan or ordering is None:
        return HOLDS_NAN if contains_nan else NO_ORDER
    if location is None:  # some values were too long for pyarrow
        try:
            found = index_chunk(chunk)
        except IndexBuildError as error:
            return Reason.of(error)
        if found.column_index is None:
            return found.reason or NO_ORDER
        return thrift.serialize(found.column_index)
    if not may_be_cut(ordering):
        return location
    index, _ = thrift.parse(ColumnIndex, chunk.bytes_of(location))
    if max(map(len, [*index.min_values, *index.max_values]), default=0) <= MAX_BOUND_BYTES:
        return location
    minima, maxima = cut_bounds(index.min_values, index.max_values, ordering)
    index = index._replace(min_values=minima, max_values=maxima)
    return thrift.serialize(index._replace(boundary_order=int(boundary_order(*ordering.decode_pages(index)))))


def _rewrite_tail(
    file: ParquetInput, fd: int, before: Iterable[ChunkState], after: Mapping[ChunkKey, ChunkState]
) -> None:
    """Rewrite the page index and the footer, in pyarrow's order."""
    stored = [location for state in before for location in (state.column_index, state.offset_index)]
    starts = [location.start for location in stored if isinstance(location, ByteRange)]
    start = min(starts, default=file.footer.start)
    tail, edit = FilePieces(start), FooterEdit(file.footer.raw)
    for structure in ("column_index", "offset_index"):
        for key, state in after.items():
            location = getattr(state, structure)
            if isinstance(location, ByteRange):
                location = file.source.read(*location)
            edit.set_location(*key, structure, None if location is None else tail.append(location))
    for key, state in after.items():
        if state.statistics is not None:
            edit.set_statistics(*key, state.statistics)
    _write_in_place(fd, start, [*tail.pieces, *footer_parts(edit.to_bytes())])


def _write_in_place(fd: int, keep_bytes: int, tail: Sequence[bytes]) -> None:
    """Replace the tail of an open file in place."""
    os.ftruncate(fd, keep_bytes)
    os.lseek(fd, keep_bytes, os.SEEK_SET)
    for piece in tail:
        write_all(fd, piece)


@dataclass(frozen=True)
class WriteReport:
    """The report of `write_table` or a `Writer`; ``str(report)`` returns a summary.

    Attributes:
        path: The file.
        num_rows: The number of rows.
        num_row_groups: The number of row groups.
        num_bytes: The length of the file, including indexes.
        bytes_indexes: The length of the embedded indexes and the footer that lists them.
        dictionary: The dotted paths of the leaves with a dictionary.
        built: The names of the indexes that were built.
        notes: The columns without an index, and the reasons.
        seconds: The elapsed time until the file had its final path.

    Example:
        >>> print(WriteReport("a.parquet", 1000, 1, 4096, 900, (), ("distinct(city):page",), (), 0.1))
        a.parquet: wrote 1,000 rows in 1 row group, 4,096 bytes; built distinct(city):page (900 bytes)
    """

    path: str
    num_rows: int
    num_row_groups: int
    num_bytes: int
    bytes_indexes: int
    dictionary: tuple[str, ...]
    built: tuple[str, ...]
    notes: tuple[Note, ...]
    seconds: float

    def __str__(self) -> str:
        rows, groups = count(self.num_rows, "row"), count(self.num_row_groups, "row group")
        built = f"; built {', '.join(self.built)} ({self.bytes_indexes:,} bytes)" if self.built else ""
        text = f"{self.path}: wrote {rows} in {groups}, {self.num_bytes:,} bytes{built}"
        return "\n  ".join([text, *map(str, self.notes)])

    def to_dict(self) -> dict[str, Any]:
        """Return the report in JSON form."""
        return asdict(self)
