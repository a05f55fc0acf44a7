"""The files of a table, their cached metadata and their common schema."""

from __future__ import annotations

import contextlib
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace
from functools import cache, partial
from operator import attrgetter
from typing import Any, TypeVar

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from intarsia.ahead import ahead
from intarsia.errors import FormatError
from intarsia.file import ParquetInput
from intarsia.file.schema import FileSchema
from intarsia.garbage import no_collections
from intarsia.indexes.embedded import KeptIndexes
from intarsia.lake.data_file import DataFile, FileList, sizes_of
from intarsia.lake.definition import TableDefinition
from intarsia.lake.index.build import FactsReader, reader_of
from intarsia.lake.index.of_table import TableLakeIndex
from intarsia.lake.schema import SchemaOf, table_schema
from intarsia.lake.snapshot import OnReport, Snapshot, TableCache
from intarsia.lake.unopened import LogStatistics, Partitions, PartitionTypes
from intarsia.once import cached_property
from intarsia.read.output_columns import FileNames
from intarsia.read.report import warn_caller
from intarsia.storage import IoCounts, ObjectIdentity, QueryReads, current_reads
from intarsia.storage.running_query import Deadline
from intarsia.tuning import AXIS_FILES, LOCAL_FILES_AT_ONCE, REMOTE_FILES_AT_ONCE

_Files = TypeVar("_Files", bound="TableFiles")
_PATH, _IS_REMOTE = attrgetter("path"), attrgetter("is_remote")


#: Attributes that copies of a table in other processes create for themselves.
_UNSHARED = ("on_report", "cache", "kept_indexes", "lake_index", "_segments")

#: Cached properties that depend on the files.
_OF_ALL_FILES = ("file_bytes", "has_objects", "files_at_once", "has_deletes", "ordinals", "partition_columns")


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
        cache: The cache, if other tables of the same files share it.
        query_timeout_seconds: The time after which a query ends with an error; None for no limit.
        page_checksums: Whether pages that have a checksum are compared with it when they are read.
        on_report: Called with each query that has ended, but not by copies in other processes.
        has_all: Whether these are all files below the root.

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
        cache: TableCache | None = None,
        query_timeout_seconds: float | None = None,
        page_checksums: bool = True,
        on_report: OnReport | None = None,
        has_all: bool = True,
    ) -> None:
        self.on_report = on_report
        self._has_all = has_all
        self.query_timeout_seconds = query_timeout_seconds
        if not page_checksums:
            files = [replace(one, page_checksums=False) for one in files]
        self.files = files if isinstance(files, FileList) else tuple(files)
        self.other_files = tuple(other_files)
        self.listing_reads = listing_reads or IoCounts()
        self._definition = definition
        self.is_declared = definition is not None
        if not self.files and definition is None:
            raise FileNotFoundError("the source lists no files, so there is no schema")
        self._is_part = False
        self.root = root
        self._segments = segments
        self._schema_of = schema_of
        self._partition_types = partition_types
        self._start_caches(cache)

    def __getstate__(self) -> dict[str, object]:
        # copies read the footers and the lake index again
        return {**self.__dict__, **dict.fromkeys(_UNSHARED)}

    def __setstate__(self, state: dict[str, object], cache: TableCache | None = None) -> None:
        self.__dict__.update(state)
        self._start_caches(cache)

    def _start_caches(self, cache: TableCache | None) -> None:
        """Set the attributes that copies do not share."""
        self.cache = cache or TableCache()
        self.kept_indexes = KeptIndexes(self.cache)
        self.lake_index = TableLakeIndex(
            self.files,
            self.root,
            partial(_facts_reader, self.files, self.cache),
            segments=self._segments,
            is_part=self._is_part,
            has_all=self._has_all,
        )

    def part(self: _Files, ordinals: Sequence[int], files: Sequence[DataFile] | None = None) -> _Files:
        """Return a table with some of the files, and with the columns and types of all.

        Args:
            ordinals: The ordinals of the files.
            files: The files, if more of their rows are deleted; the cache is then shared with this table.
        """
        cache = None if files is None else self.cache
        files = tuple(self.files[ordinal] for ordinal in ordinals) if files is None else tuple(files)
        definition = self.definition.part(ordinals)
        state: dict[str, Any] = {
            **self.__getstate__(),
            "files": files,
            "_is_part": True,
            "_definition": definition,
        }
        for name in _OF_ALL_FILES:
            state.pop(name, None)
        part = type(self).__new__(type(self))
        part.__setstate__(state, cache)
        return part

    @property
    def name(self) -> str:
        """The path of the table in a table format, or of the first file."""
        return self.files[0].path if self._definition is None else self._definition.name

    @cached_property
    def ordinals(self) -> dict[str, int]:
        """The ordinal of each file, by its path; the last one of a file that is listed several times.

        Raises:
            FormatError: If a file is listed with different partition values.
        """
        files = self.files
        found = dict(zip(map(_PATH, files), range(len(files)), strict=True))
        if len(found) < len(files):
            for file in files:
                if file.partition != files[found[file.path]].partition:
                    raise FormatError(
                        "the file is listed several times, with different partition values; list it once",
                        reason="file-listed-twice",
                        path=file.path,
                    )
        return found

    @cached_property
    def has_objects(self) -> bool:
        """Whether some of the files are in object stores."""
        return _have_objects(self.files)

    @cached_property
    def files_at_once(self) -> int:
        """Number of files read concurrently."""
        at_once = REMOTE_FILES_AT_ONCE if self.has_objects else LOCAL_FILES_AT_ONCE
        return min(at_once, max(1, len(self.files)))

    @property
    def footers_at_once(self) -> int:
        """Number of footers read concurrently: two threads take longer for local files than one.

        A thread that has read a few bytes waits for the other one, which runs Python.
        """
        return self.files_at_once if self.has_objects else 1

    def new_snapshot(self, of: Snapshot | None = None, *, is_traced: bool = False) -> Snapshot:
        """Begin a run of a query.

        Args:
            of: The snapshot of the same run for a table with more files; None for another run.
            is_traced: Whether each range that is read is recorded.
        """
        seconds = self.query_timeout_seconds
        deadline = None if seconds is None else Deadline(seconds)
        reads = QueryReads(current_reads(), [] if is_traced else None) if of is None else of.reads
        return Snapshot(self.files, self.has_objects, self.cache, self.lake_index, deadline, reads, of)

    def opened(self, snapshot: Snapshot) -> Iterator[tuple[DataFile, ParquetInput]]:
        """Open all files in a run, and yield each one, which is closed when the next one is taken."""
        files = ahead(snapshot.open, self.files, self.footers_at_once, ParquetInput.close)
        with contextlib.closing(files):
            for entry, future in files:
                with future.result() as file:
                    yield entry, file

    @cached_property
    def file_bytes(self) -> npt.NDArray[np.int64]:
        """The size of each file in bytes when it was listed."""
        return sizes_of(self.files)

    @cached_property
    def has_deletes(self) -> npt.NDArray[np.bool_]:
        """Whether rows of each file may be deleted."""
        if isinstance(self.files, FileList):
            return np.zeros(len(self.files), dtype=bool)
        return np.array([file.deletes is not None for file in self.files], dtype=bool)

    @cached_property
    def partition_columns(self) -> Partitions:
        """The partition columns.

        Raises:
            FormatError: If not all files have the same partition columns.
        """
        if self._definition is not None:
            return self._definition.partitions
        return Partitions.of_folders(self.files, self._partition_types)

    @property
    def partition_types(self) -> dict[str, pa.DataType]:
        """The type of each partition column."""
        return {name: values.type for (name,), values in self.partition_columns.values.items()}

    @property
    def schema(self) -> pa.Schema:
        """The schema; reads the footer of every file on first use, unless a table format defines it."""
        return self.definition.schema

    @property
    def log_statistics(self) -> LogStatistics | None:
        """The statistics of the files in the log of the table format; None if there are none."""
        return None if self._definition is None else self._definition.statistics

    def names_in(self, schema: FileSchema, path: str) -> FileNames | None:
        """Return the names that files with a schema have for the columns; None if they are the table's.

        Args:
            schema: The schema of the files.
            path: The path of one of them, for errors.

        Raises:
            UnsupportedFeatureError: If the columns of the table cannot be found in the file.
        """
        # without a known definition, names are those of the files, whose footers are not read for this
        names = None if self._definition is None else self._definition.names
        return None if names is None else names.in_files(schema, path)

    @property
    def has_schema(self) -> bool:
        """Whether the schema has been read, or need not be."""
        return self._definition is not None

    @property
    def definition(self) -> TableDefinition:
        """The definition by a table format, or by the footers of the files; see `read_schema`."""
        return self._definition or self.read_schema(self.new_snapshot())

    def read_schema(self, snapshot: Snapshot) -> TableDefinition:
        """Return the definition, for which the footers of all files are read in a run, unless it is known.

        Damaged files are left out; reading them raises an error.

        Raises:
            UnsupportedFeatureError: If no type has the values of a column of two files.
            FormatError: If no file can be read, or the first one if the table has its columns.
        """
        if self._definition is not None:
            return self._definition
        with snapshot.running():
            schemas = self._file_schemas(snapshot)
        partitions = self.partition_columns
        found = table_schema(
            ((self.files[ordinal].path, schemas[ordinal].arrow) for ordinal in sorted(schemas)),
            self._schema_of,
            {name for (name,) in partitions.values},
            cache(lambda: {path[0] for schema in {*schemas.values()} for path in schema.variants}),
        )
        schema, mixed = found.schema, set(found.mixed)
        for (name,), values in partitions.values.items():
            mixed.discard(name)
            field = pa.field(name, pa.dictionary(pa.int32(), values.type))
            ordinal = schema.get_field_index(name)
            schema = schema.append(field) if ordinal < 0 else schema.set(ordinal, field)
        for warning in found.warnings:
            warn_caller(f"{self.name}: {warning}")
        variants = schemas[min(schemas)].variants
        self._definition = TableDefinition(
            self.name, self.files, schema, partitions, mixed=frozenset(mixed), variants=variants
        )
        return self._definition

    def _file_schemas(self, snapshot: Snapshot) -> dict[int, FileSchema]:
        """Return the schemas of the readable files, by ordinal; errors are raised when rows are read.

        Raises:
            FormatError: If no file can be read, or the first one if the table has its columns.
            FileNotFoundError: As `FormatError`.
        """
        schemas: dict[int, FileSchema] = {}
        errors: dict[int, Exception] = {}
        listed = snapshot.listed
        for files in listed.families if listed is not None else ():
            schemas |= dict.fromkeys(files.files.tolist(), files.family.schema)

        def read(ordinal: int) -> None:
            try:
                schemas[ordinal] = snapshot.schema(self.files[ordinal])
            except (FormatError, FileNotFoundError) as error:
                errors[ordinal] = error

        # the table has the metadata of the first file, and its family may have that of another file
        for first in range(len(self.files)):
            read(first)
            if first not in errors:
                break
            schemas.pop(first, None)
            if self._schema_of == "first" or first == len(self.files) - 1:
                raise errors[0]
        if len(schemas) == len(self.files):
            return schemas
        others = [ordinal for ordinal in range(first + 1, len(self.files)) if ordinal not in schemas]
        for start in range(0, len(others), AXIS_FILES):
            some = others[start : start + AXIS_FILES]
            with no_collections(), contextlib.closing(ahead(read, some, self.footers_at_once)) as done:
                for _, future in done:
                    future.result()
        return schemas


def _have_objects(files: Sequence[DataFile]) -> bool:
    return files.e_tags is not None if isinstance(files, FileList) else any(map(_IS_REMOTE, files))


def _facts_reader(
    files: Sequence[DataFile], cache: TableCache, lake_index: TableLakeIndex, max_bytes: int | None
) -> FactsReader:
    """Return a reader for a lake index.

    It has no reference to the table: a cycle would keep all footers until the next collection of all garbage.
    """
    has_objects = _have_objects(files)
    snapshot = Snapshot(files, has_objects, cache, lake_index, None, QueryReads(current_reads()))
    return reader_of(snapshot.open, REMOTE_FILES_AT_ONCE if has_objects else 1, max_bytes)
