"""The files of a table, their cached metadata and their common schema."""

from __future__ import annotations

import contextlib
import os
from collections.abc import Callable, Hashable, Mapping, Sequence
from dataclasses import replace
from functools import cached_property, partial
from typing import Any, NamedTuple, TypeVar

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from intarsia.errors import FormatError, ReplacedWhileReadError
from intarsia.file import FileMetadata, ParquetInput, read_raw_footer
from intarsia.file.schema import FileSchema
from intarsia.indexes.kept_indexes import KeptIndexes
from intarsia.lake.data_file import DataFile
from intarsia.lake.definition import TableDefinition
from intarsia.lake.index.known_files import KnownFiles
from intarsia.lake.index.of_table import TableLakeIndex
from intarsia.lake.log_statistics import LogStatistics
from intarsia.lake.metadata_cache import JoinedCache, MetadataCache, Tails
from intarsia.lake.partitions import DeclaredPartitions, Partitions, PartitionTypes
from intarsia.lake.schema import SchemaOf, TableSchema, table_schema
from intarsia.predicate import Path
from intarsia.read.ahead import ahead
from intarsia.read.file_names import FileNames
from intarsia.read.report import warn_caller
from intarsia.storage import ByteSource, CountedSource, IoCounts, ObjectIdentity, identity_of
from intarsia.storage.running_query import Deadline, applied

_Result = TypeVar("_Result")
_Files = TypeVar("_Files", bound="TableFiles")

#: Number of files opened concurrently in an object store, where each needs a request.
REMOTE_FILES_AT_ONCE = 32

#: Number of files opened concurrently on a local disk.
LOCAL_FILES_AT_ONCE = 2

#: Number of local footers that a thread reads at a time: passing one to a thread takes as long as reading it.
_LOCAL_FILES_PER_TASK = 64

#: Number of schemas of files whose names of columns are cached.
_MAX_SCHEMAS = 64


#: Attributes that copies of a table in other processes create for themselves.
_UNSHARED = ("_metadata", "kept_indexes", "tails", "joined", "_names", "lake_index", "_segments")


class Settled(NamedTuple):
    """The metadata of a file whose changes would be detected.

    Attributes:
        metadata: The metadata.
        identity: The identity of the file.
    """

    metadata: FileMetadata
    identity: Hashable


class TableFiles:
    """Parquet files with one schema: columns by name, in the widest types, and partition columns.

    Args:
        files: The files.
        other_files: Paths of files beside them that are not Parquet.
        listing_reads: What was read to list them.
        root: The folder or URL below which the files were found, as in their paths; None to find a common
            one.
        schema_of: The columns of the table: those of all files, or those of the first.
        partition_types: Whether the types of partition columns are inferred.
        definition: The definition of the table by a table format, which has these files; None for plain
            files, whose footers determine the schema.
        segments: The segments of the lake index beside the data in an object store, as listed with the files;
            None to list them.
        metadata: The cache of the metadata of the files.
        query_timeout_seconds: The time after which a query ends with an error; None for no limit.
        page_checksums: Whether pages that have a checksum are compared with it when they are read.

    Raises:
        FileNotFoundError: If the list is empty, and there is no definition.
    """

    def __init__(
        self,
        files: Sequence[DataFile],
        other_files: Sequence[str] = (),
        listing_reads: IoCounts | None = None,
        root: str | None = None,
        schema_of: SchemaOf = "union",
        partition_types: PartitionTypes = "infer",
        definition: TableDefinition | None = None,
        segments: Mapping[str, ObjectIdentity] | None = None,
        metadata: MetadataCache | None = None,
        query_timeout_seconds: float | None = None,
        page_checksums: bool = True,
    ) -> None:
        self.query_timeout_seconds = query_timeout_seconds
        self.files = tuple(files if page_checksums else (replace(one, page_checksums=False) for one in files))
        self.other_files = tuple(other_files)
        self.listing_reads = listing_reads or IoCounts()
        self._definition = definition
        if not self.files and definition is None:
            raise FileNotFoundError("the source lists no files, so there is no schema")
        self._is_part = False
        self._variants: frozenset[tuple[str, ...]] | None = None
        self.root = root
        self._segments = segments
        self._schema_of = schema_of
        self._partition_types = partition_types
        self._start_caches(MetadataCache() if metadata is None else metadata)

    def __getstate__(self) -> dict[str, object]:
        # copies read the footers and the lake index again
        return {**self.__dict__, **dict.fromkeys(_UNSHARED)}

    def __setstate__(self, state: dict[str, object], metadata: MetadataCache | None = None) -> None:
        self.__dict__.update(state)
        self._start_caches(MetadataCache() if metadata is None else metadata)

    def _start_caches(self, metadata: MetadataCache) -> None:
        """Set the attributes that copies do not share."""
        self._metadata = metadata
        self.kept_indexes = KeptIndexes()
        self.tails = Tails()
        self.joined = JoinedCache()
        self._names: dict[FileSchema, FileNames | None] = {}
        self.lake_index = TableLakeIndex(
            self.files,
            self.root,
            self.open_file,
            self.files_at_once,
            segments=self._segments,
            is_part=self._is_part,
        )

    def part(self: _Files, ordinals: Sequence[int], files: Sequence[DataFile] | None = None) -> _Files:
        """Return a table with some of the files, and with the columns and types of all.

        Args:
            ordinals: The ordinals of the files.
            files: The files, if more of their rows are deleted; the metadata is then shared with this table.
        """
        metadata = None if files is None else self._metadata
        files = tuple(self.files[ordinal] for ordinal in ordinals) if files is None else tuple(files)
        partitions = self.partition_columns.part(ordinals)
        state: dict[str, Any] = {
            **self.__getstate__(),
            "files": files,
            "_is_part": True,
            "table_schema": self.table_schema,
            "partition_columns": partitions,
        }
        if self._definition is not None:
            state["_definition"] = self._definition.part(ordinals)
        for name in (
            "file_bytes",
            "has_objects",
            "files_at_once",
            "has_deletes",
            "_ordinals",
        ):  # they are of all files
            state.pop(name, None)
        part = type(self).__new__(type(self))
        part.__setstate__(state, metadata)
        return part

    def new_deadline(self) -> Deadline | None:
        """Return the deadline for one query; None without a time limit."""
        return None if self.query_timeout_seconds is None else Deadline(self.query_timeout_seconds)

    @property
    def name(self) -> str:
        """The path of the table in a table format, or of the first file."""
        return self.files[0].path if self._definition is None else self._definition.name

    @cached_property
    def has_objects(self) -> bool:
        """Whether some of the files are in object stores."""
        return any(file.is_remote for file in self.files)

    @cached_property
    def files_at_once(self) -> int:
        """Number of files opened concurrently."""
        at_once = REMOTE_FILES_AT_ONCE if self.has_objects else LOCAL_FILES_AT_ONCE
        return min(at_once, max(1, len(self.files)))

    def open_file(self, entry: DataFile, *, is_current: bool = False) -> ParquetInput:
        """Open one of the files; its footer is read only if it is not cached, or if the file has changed.

        A local file costs a stat. An object costs one request: for its footer, or if that is cached, to check
        whether the object has changed.

        Args:
            entry: The file.
            is_current: The cached metadata was read in the same run, so an object is not checked again.
        """
        file = self._open(entry, entry.input_of, is_current=is_current)
        self.remember(entry, file)
        return file

    def _open(
        self,
        entry: DataFile,
        read: Callable[[ByteSource, FileMetadata | None], _Result],
        *,
        is_current: bool = False,
    ) -> _Result:
        """Read a file with its cached metadata; if it was replaced after it was listed, read the new file."""
        cached = self._metadata.latest(entry.path)
        if cached is not None and is_current:  # it may have been replaced since it was listed
            source = entry.as_opened(cached[1]).open()
        else:
            source = entry.open(fresh=cached is not None)
        try:
            return read(source, self._cached_metadata(entry, source))
        except ReplacedWhileReadError:
            return read(entry.open(fresh=True), None)

    def _cached_metadata(self, entry: DataFile, source: ByteSource) -> FileMetadata | None:
        found = self._metadata.get(entry.path, source.identity)
        return found or self.lake_index.metadata(entry, source.identity)

    def settling_requests(self, files: Sequence[int], *, is_current: bool) -> set[int]:
        """Return the files for which `settled_metadata` makes a request to an object store.

        Args:
            files: Ordinals of files.
            is_current: See `settled_metadata`.
        """
        if not self.has_objects:
            return set()
        entries = {ordinal: self.files[ordinal] for ordinal in files}
        return {
            ordinal
            for ordinal, entry in entries.items()
            if entry.is_remote and not (is_current and entry.path in self._metadata)
        }

    def settled_metadata(self, entry: DataFile, *, is_current: bool = False) -> Settled | None:
        """Return the metadata of a file, read only if it is not cached.

        Args:
            entry: The file.
            is_current: The cached metadata was read in the same run, so the file is not checked again.

        Returns:
            The metadata; None for a file whose changes might not be detected: a local file that was written
            in the last seconds, or an object in a store without ETags. None, too, for a file with metadata
            that was found to be wrong: it is planned separately.

        Raises:
            FormatError: If the footer is damaged.
            OSError: If the file cannot be read.
        """
        cached = self._metadata.latest(entry.path)
        if cached is not None:
            is_remote = self.has_objects and entry.is_remote
            if is_current or (not is_remote and cached[1] == identity_of(os.stat(entry.path))):
                return None if cached[0].contradictions else Settled(*cached)

        def read(source: ByteSource, known: FileMetadata | None) -> Settled | None:
            with contextlib.closing(source):
                if source.identity is None:
                    return None
                counted = CountedSource(source)
                found = known or FileMetadata(entry.path, read_raw_footer(counted))
                if found.contradictions:
                    return None
                _ = found.footer
                self.tails.put(counted, found.footer_start)
                self._metadata.put(entry.path, source.identity, found)
                return Settled(found, source.identity)

        return self._open(entry, read)

    # --- the lake index ----------------------------------------------------------------------------

    @cached_property
    def file_bytes(self) -> npt.NDArray[np.int64]:
        """The size of each file in bytes when it was listed."""
        return np.array([file.size_bytes for file in self.files], dtype=np.int64)

    def known_files(self, *, is_current: bool = False) -> KnownFiles | None:
        """Return the files that a lake index contains; see `TableLakeIndex.known_files`."""
        return self.lake_index.known_files(is_current=is_current)

    def remember(self, entry: DataFile, file: ParquetInput) -> None:
        """Cache the metadata that was parsed from a file that `open_file` returned."""
        self._metadata.put(entry.path, file.source.identity, file.metadata)

    @cached_property
    def has_deletes(self) -> npt.NDArray[np.bool_]:
        """Whether rows of each file may be deleted."""
        return np.array([file.deletes is not None for file in self.files], dtype=bool)

    @cached_property
    def partition_columns(self) -> Partitions | DeclaredPartitions:
        """The partition columns.

        Raises:
            FormatError: If not all files have the same partition columns.
        """
        if self._definition is not None:
            return self._definition.partitions
        return Partitions(self.files, self._partition_types)

    @property
    def partition_types(self) -> dict[str, pa.DataType]:
        """The type of each partition column."""
        return self.partition_columns.types

    @property
    def partition_values(self) -> Mapping[Path, pa.Array]:
        """The values of each partition column, one for each file; null where they are not known."""
        return self.partition_columns.values

    @property
    def schema(self) -> pa.Schema:
        """The schema; reads the footer of every file on first use, unless a table format defines it."""
        return self.table_schema.schema

    @property
    def log_statistics(self) -> LogStatistics | None:
        """The statistics of the files in the log of the table format; None if there are none."""
        return None if self._definition is None else self._definition.statistics

    @property
    def is_declared(self) -> bool:
        """Whether a table format defines the schema."""
        return self._definition is not None

    def names_in(self, schema: FileSchema, path: str) -> FileNames | None:
        """Return the names that files with a schema have for the columns; None if they are the table's.

        Args:
            schema: The schema of the files.
            path: The path of one of them, for errors.

        Raises:
            UnsupportedFeatureError: If the columns of the table cannot be found in the file.
        """
        if self._definition is None or self._definition.names is None:
            return None
        if schema not in self._names:
            if len(self._names) >= _MAX_SCHEMAS:
                self._names.clear()
            self._names[schema] = self._definition.names.in_file(path, schema.arrow)
        return self._names[schema]

    def absent_values(
        self, path: Path, data_type: pa.DataType, files: npt.NDArray[np.int64] | Sequence[int]
    ) -> pa.Array:
        """Return the values of a column in files that lack it, one for each file.

        Args:
            path: The column in the table.
            data_type: Its type.
            files: The ordinals of the files.
        """
        found = None if self._definition is None else self._definition.absent_values(path, files)
        return pa.nulls(len(files), data_type) if found is None else found

    def absent_constants(self, entry: DataFile, missing: Mapping[Path, pa.DataType]) -> dict[Path, pa.Scalar]:
        """Return the values of columns that one file lacks.

        Args:
            entry: The file.
            missing: The columns in the table, and their types.
        """
        if self._definition is None:
            return {path: pa.scalar(None, data_type) for path, data_type in missing.items()}
        file = [self._ordinals[entry.path]]
        return {path: self.absent_values(path, data_type, file)[0] for path, data_type in missing.items()}

    @cached_property
    def _ordinals(self) -> dict[str, int]:
        return {file.path: ordinal for ordinal, file in enumerate(self.files)}

    @property
    def has_schema(self) -> bool:
        """Whether the schema has been read, or need not be."""
        return self.is_declared or "table_schema" in self.__dict__

    @cached_property
    def table_schema(self) -> TableSchema:
        """The schema, and the columns with different types in different files.

        Damaged files are left out; reading them raises an error.

        Raises:
            UnsupportedFeatureError: If no type has the values of a column of two files.
            FormatError: If no file can be read, or the first one if the table has its columns.
        """
        if self._definition is not None:
            return TableSchema(self._definition.schema, frozenset(), ())
        with applied(self.new_deadline()):
            schemas = self._file_schemas()
        found = table_schema(schemas, self._schema_of, self.partition_types)
        schema = found.schema
        for name, data_type in self.partition_types.items():
            field = pa.field(name, pa.dictionary(pa.int32(), data_type))
            ordinal = schema.get_field_index(name)
            schema = schema.append(field) if ordinal < 0 else schema.set(ordinal, field)
        for warning in found.warnings:
            warn_caller(f"{self.files[0].path}: {warning}")
        return TableSchema(schema, found.mixed - self.partition_types.keys(), found.warnings)

    @property
    def variants(self) -> frozenset[tuple[str, ...]]:
        """The paths of the VARIANT columns in the first file."""
        if self._variants is None and self._definition is None:
            _ = self.table_schema
        return self._variants or frozenset()

    def _file_schemas(self) -> list[tuple[str, pa.Schema]]:
        """Return the paths and schemas of the readable files."""
        known = self.known_files()
        schemas: dict[int, pa.Schema] = {}
        for files in known.families() if known is not None else ():
            schemas |= dict.fromkeys(files.files.tolist(), files.family.schema.arrow)
        readable, schema = self._first_readable()
        schemas[readable], self._variants = schema.arrow, schema.variants
        others = [ordinal for ordinal in range(readable + 1, len(self.files)) if ordinal not in schemas]
        size = 1 if any(self.files[ordinal].is_remote for ordinal in others) else _LOCAL_FILES_PER_TASK
        tasks = [others[start : start + size] for start in range(0, len(others), size)]
        with contextlib.closing(ahead(self._read_types, tasks, self.files_at_once)) as found:
            for _, future in found:
                schemas |= future.result()
        return [(self.files[ordinal].path, schemas[ordinal]) for ordinal in sorted(schemas)]

    def _first_readable(self) -> tuple[int, FileSchema]:
        """Return the ordinal and the schema of the first file whose schema can be read.

        Raises:
            FormatError: If no file can be read, or the first one if the table has its columns.
            FileNotFoundError: As `FormatError`.
        """
        first_error: Exception | None = None
        for ordinal, entry in enumerate(self.files):
            try:
                with self.open_file(entry) as file:
                    _ = file.arrow_schema  # raises an error if pyarrow cannot read it
                    self.tails.put(file.source, file.metadata.footer_start)
                    return ordinal, file.schema
            except (FormatError, FileNotFoundError) as error:  # noqa: PERF203  each file is opened
                if self._schema_of == "first":
                    raise
                first_error = first_error or error
        assert first_error is not None
        raise first_error

    def _read_types(self, ordinals: Sequence[int]) -> dict[int, pa.Schema]:
        """Return the columns of files, and cache their footers; damaged and missing files are left out."""
        types: dict[int, pa.Schema] = {}
        for ordinal in ordinals:
            entry = self.files[ordinal]
            # errors are raised when rows of the file are read
            with contextlib.suppress(FormatError, FileNotFoundError):
                types[ordinal] = self._open(entry, partial(self._read_types_of, entry))
        return types

    def _read_types_of(self, entry: DataFile, source: ByteSource, known: FileMetadata | None) -> pa.Schema:
        with contextlib.closing(source):
            counted = CountedSource(source)
            found = known or FileMetadata(entry.path, read_raw_footer(counted))
            with found.named_errors():
                types = found.schema.arrow
            self.tails.put(counted, found.footer_start)
            self._metadata.put(entry.path, source.identity, found)
            return types
