"""Iceberg tables: pyiceberg reads the metadata and the manifests, and Intarsia the files."""

from __future__ import annotations

import contextlib
import math
import struct
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from functools import lru_cache, partial
from typing import TYPE_CHECKING, Any, cast

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from intarsia.arrow.owned_rows import by_key
from intarsia.errors import UnsupportedFeatureError
from intarsia.lake.data_file import DataFile, with_stores
from intarsia.lake.definition import (
    FIELD_ID,
    ColumnNames,
    TableDefinition,
    listed_file,
    named_fields,
    plain_columns,
    plain_type,
    translated_errors,
)
from intarsia.lake.scan import Scan
from intarsia.lake.table_files import TableFiles
from intarsia.lake.unopened import LogColumn, LogStatistics, Partitions
from intarsia.once import cached_property
from intarsia.predicate import Comparison, Path
from intarsia.records import dataclass
from intarsia.rows.selection import Rows, RowSelection
from intarsia.storage import ByteRange, StorageOptions

if TYPE_CHECKING:
    from pyiceberg.manifest import DataFile as IcebergFile
    from pyiceberg.schema import Schema
    from pyiceberg.table import DataScan, FileScanTask
    from pyiceberg.table.metadata import TableMetadata
    from pyiceberg.types import IcebergType, NestedField


#: The maximum number of deleted rows in a file whose rows are kept for all data files, in 2 MiB.
MAX_KEPT_DELETES = 1 << 18

#: Properties of Iceberg catalogs, and obstore's names for them.
_OF_ICEBERG = {
    "s3.endpoint": "aws_endpoint",
    "s3.region": "aws_region",
    "s3.access-key-id": "aws_access_key_id",
    "s3.secret-access-key": "aws_secret_access_key",
    "s3.session-token": "aws_session_token",
    "adls.account-name": "azure_storage_account_name",
    "adls.account-key": "azure_storage_account_key",
    "adls.sas-token": "azure_storage_sas_token",
    "adls.tenant-id": "azure_storage_tenant_id",
    "adls.client-id": "azure_storage_client_id",
    "adls.client-secret": "azure_storage_client_secret",
}

#: The schemes of URLs in Azure.
_OF_AZURE = ("abfs", "abfss", "wasb", "wasbs")


@dataclass(frozen=True)
class DeletedPositions:
    """The deleted rows of one data file, read from delete files on first use.

    Attributes:
        location: The location of the data file, as in delete files.
        delete_files: The delete files that may have rows of the data file.
    """

    location: str
    delete_files: tuple[DeleteFile, ...]

    @cached_property
    def _rows(self) -> RowSelection:
        found = [delete_file.rows_of(self.location) for delete_file in self.delete_files]
        return RowSelection.from_rows(np.concatenate(found))

    def rows(self) -> RowSelection:
        """Return the deleted rows, as row numbers of the file.

        Raises:
            CorruptFileError: If a delete file is damaged.
            FileNotFoundError: If a delete file does not exist.
        """
        return self._rows


class DeleteFile:
    """A file with rows that are deleted from data files.

    Puffin files and those with few rows are read once. Of others, the rows of each data file are looked up.

    Args:
        file_format: Its format, as in manifests.
        num_rows: The number of deleted rows in it, likewise.

    Raises:
        UnsupportedFeatureError: If its format is neither Parquet nor Puffin.
    """

    def __init__(self, file: DataFile, file_format: str, num_rows: int) -> None:
        self._file = file
        self._has_vectors = file_format == "PUFFIN"
        self._is_read_once = self._has_vectors or num_rows <= MAX_KEPT_DELETES
        if file_format not in ("PARQUET", "PUFFIN"):
            raise UnsupportedFeatureError(
                f"the delete file is {file_format}, and Intarsia reads only Parquet and Puffin; rewrite the "
                "data files of the table",
                reason="not-parquet",
                path=file.path,
            )

    @cached_property
    def _table(self) -> TableFiles:
        return TableFiles([self._file])

    def rows_of(self, location: str) -> Rows:
        """Return the numbers of the deleted rows of a data file, which may repeat.

        Raises:
            CorruptFileError: If the delete file is damaged.
        """
        if self._is_read_once:
            return self._vectors.get(location, np.array([], dtype=np.int64))
        scan = Scan(self._table, Comparison("file_path", "=", location), ["pos"], None)
        return np.asarray(scan.to_arrow()["pos"].to_numpy(), dtype=np.int64)

    @cached_property
    def _vectors(self) -> Mapping[str, Rows]:
        """The deleted rows of all data files, by location."""
        if not self._has_vectors:
            all_paths = Comparison("file_path", ">=", "")  # refuses values that are not text
            deleted = Scan(self._table, all_paths, ["file_path", "pos"], None).to_arrow()
            rows = np.asarray(deleted["pos"].to_numpy(), dtype=np.int64)
            return by_key(deleted["file_path"].cast(pa.large_string()), rows)
        from pyiceberg.table.deletion_vector import deletion_vectors_from_puffin_file
        from pyiceberg.table.puffin import PuffinFile

        with contextlib.closing(self._file.open()) as source:
            (data,) = source.read_ranges([ByteRange(0, source.size())])
        with translated_errors("pyiceberg", "the deletion vectors", self._file.path, "damaged-deletes"):
            vectors: Iterable[Any] = deletion_vectors_from_puffin_file(PuffinFile(data))
            return {one.referenced_data_file: one.to_vector().to_numpy() for one in vectors}


def iceberg_statistics(
    entries: Sequence[IcebergFile], schema: Schema, arrow: pa.Schema
) -> LogStatistics | None:
    """Return the statistics in the manifests; None if the files have none."""
    from pyiceberg.types import BinaryType, StringType

    columns: dict[Path, LogColumn] = {}
    found = [
        ([getattr(one, name) or {} for one in entries], value_type)
        for name, value_type in (
            ("lower_bounds", pa.binary()),
            ("upper_bounds", pa.binary()),
            ("null_value_counts", pa.int64()),
        )
    ]
    is_partial = np.array([_may_be_of_some_row_groups(one) for one in entries], dtype=bool)
    for path, field, data_type in _leaves(schema.fields, arrow, ()):
        low, high, nulls = (
            pa.array([values.get(field.field_id) for values in of_files], value_type)
            for of_files, value_type in found
        )
        if isinstance(field.field_type, (BinaryType, StringType)):
            low, high = (pc.if_else(is_partial, None, bounds) for bounds in (low, high))
        columns[path] = LogColumn(low, high, nulls, partial(_parsed_bounds, field.field_type, data_type))
    num_rows = np.array([one.record_count for one in entries], dtype=np.int64)
    return LogStatistics("iceberg_manifests", num_rows, columns) if columns else None


def _may_be_of_some_row_groups(entry: IcebergFile) -> bool:
    """Return whether the bounds of text in a manifest may enclose the values of some row groups only.

    pyiceberg (observed in 0.12.0) leaves out row groups without bounds: those in which a bound has more than
    4 KiB. It writes no sort order, and other engines do.
    """
    return entry.sort_order_id is None and len(entry.split_offsets or ()) != 1


def _parsed_bounds(iceberg_type: IcebergType, data_type: pa.DataType, bounds: pa.Array) -> pa.Array:
    """Parse bounds of a column, which are bytes."""
    parse = _parser(iceberg_type)
    if parse is None:
        return pa.nulls(len(bounds), data_type)
    return _from_numbers([None if one is None else parse(one) for one in bounds.to_pylist()], data_type)


def _from_numbers(values: list[Any], data_type: pa.DataType) -> pa.Array:
    """Return values of manifests, in which dates and times are numbers, as a column."""
    if pa.types.is_temporal(data_type):
        number = pa.int32() if data_type.bit_width == 32 else pa.int64()
        return pa.array(values, number).cast(data_type)
    return pa.array(values, data_type)


def _leaves(
    fields: Iterable[NestedField], arrow: Iterable[pa.Field], parents: Path
) -> Iterator[tuple[Path, NestedField, pa.DataType]]:
    """Yield primitive columns, and those in structs: the path, the field, and its type."""
    from pyiceberg.types import StructType

    for field, found in zip(fields, arrow, strict=True):
        path = (*parents, field.name)
        if isinstance(field.field_type, StructType):
            yield from _leaves(field.field_type.fields, found.type, path)
        elif field.field_type.is_primitive:
            yield path, field, plain_type(found.type)


def _parser(iceberg_type: IcebergType) -> Callable[[bytes], Any] | None:
    """Return a function that parses a bound of a type, to None if it is not one; None for other types.

    A column may have had a narrower type when a file was written. A bound of fewer bytes than its type has is
    that of an integer or a float; dates, which have become times, are not parsed.
    """
    from pyiceberg import types as t
    from pyiceberg.conversions import from_bytes

    if isinstance(iceberg_type, (t.LongType, t.DoubleType)):
        narrow = t.IntegerType() if isinstance(iceberg_type, t.LongType) else t.FloatType()
        types: dict[int, Any] = {8: iceberg_type, 4: narrow}
    elif isinstance(iceberg_type, (t.TimeType, t.TimestampType, t.TimestamptzType)):
        types = {8: iceberg_type}
    elif isinstance(iceberg_type, (t.IntegerType, t.FloatType, t.DateType)):
        types = {4: iceberg_type}
    elif isinstance(iceberg_type, (t.BooleanType, t.StringType, t.BinaryType, t.DecimalType)):
        types = {}  # of any length
    else:
        return None

    def parse(bound: bytes) -> Any:
        found: Any = types.get(len(bound)) if types else iceberg_type
        try:
            return None if found is None else from_bytes(found, bound)
        except (ValueError, ArithmeticError, struct.error):  # it is not a bound of the type
            return None

    return parse


def define_iceberg_scan(
    scan: DataScan, options: StorageOptions | None = None, name: str = ""
) -> TableDefinition:
    """Define the snapshot of an Iceberg table that a scan selects, with the schema that it had then.

    Args:
        scan: The scan, which may select columns, but neither rows nor a limit.
        options: Options of the stores of URLs; None for those of the catalog.
        name: The name of the table in its catalog, for messages.

    Raises:
        ValueError: If the scan has a filter or a limit.
        UnsupportedFeatureError: If the table uses a feature that Intarsia or pyiceberg does not implement.
        CorruptFileError: If its metadata or its manifests cannot be read.
        ObjectStoreError: If its store cannot be reached or refuses a request.
    """
    from pyiceberg.expressions import AlwaysTrue

    if not isinstance(scan.row_filter, AlwaysTrue) or scan.limit is not None:
        raise ValueError(
            "the Iceberg scan has a filter or a limit, which Intarsia does not support; "
            "pass a scan without them"
        )
    location = local_name(scan.table_metadata.location)
    part = f"the metadata of the Iceberg table {name or location}"
    with translated_errors("pyiceberg", part, location, "unreadable-metadata"):
        metadata, schema = scan.table_metadata, scan.projection()
        tasks = _planned(location, scan)
        entries = [task.file for task in tasks]
        arrow = schema.as_arrow()
        return TableDefinition(
            location,
            _listed(tasks, options or iceberg_options(location, scan.io.properties)),
            plain_columns(arrow),
            _partitions(entries, metadata, schema),
            ColumnNames(named_fields(arrow, _field_id, _aliases(metadata)), by_id=True),
            _defaults(location, schema, arrow),
            iceberg_statistics(entries, schema, arrow),
        )


def local_name(location: str) -> str:
    """Return the local path of a location if it is local, and otherwise the location.

    Unlike other URLs, locations of Iceberg are not URL-encoded.

    Example:
        >>> local_name("file:///lake/p=a%2Fb/x.parquet"), local_name("s3://lake/t/")
        ('/lake/p=a%2Fb/x.parquet', 's3://lake/t')
    """
    path = location.removeprefix("file:") if location.startswith("file:/") else location
    return (path.replace("//", "", 1) if path.startswith("//") else path).rstrip("/")


# --- the files -----------------------------------------------------------------------------------------


def _planned(location: str, scan: DataScan) -> list[FileScanTask]:
    """List the data files of a snapshot, and check that Intarsia can read all of them."""
    from pyiceberg.manifest import FileFormat

    try:
        tasks = list(scan.plan_files())
    except (ValueError, NotImplementedError) as error:
        if "equality delete" not in str(error):
            raise
        raise UnsupportedFeatureError(
            "the Iceberg table has equality deletes, which Intarsia does not support; rewrite its data files "
            "(in Spark, CALL system.rewrite_data_files), or read it with the engine that wrote it",
            reason="equality-deletes",
            path=location,
        ) from error
    for task in tasks:
        if task.file.file_format != FileFormat.PARQUET:
            raise UnsupportedFeatureError(
                f"the file is {task.file.file_format.value}, not Parquet; rewrite the data files of the "
                "table as Parquet",
                reason="not-parquet",
                path=local_name(task.file.file_path),
            )
    return tasks


def _listed(tasks: Sequence[FileScanTask], options: StorageOptions | None) -> tuple[DataFile, ...]:
    delete_files: dict[str, DeleteFile] = {}
    files = []
    for task in tasks:
        location = task.file.file_path
        for one in task.delete_files:
            if one.file_path not in delete_files:
                (file,) = with_stores([DataFile(local_name(one.file_path), one.file_size_in_bytes)], options)
                delete_files[one.file_path] = DeleteFile(file, one.file_format.value, one.record_count)
        mine = tuple(delete_files[one.file_path] for one in task.delete_files)
        deletes = DeletedPositions(location, mine) if mine else None
        files.append(listed_file(local_name(location), task.file.file_size_in_bytes, (), deletes))
    return tuple(with_stores(files, options))


# --- partition values ----------------------------------------------------------------------------------


def _partitions(entries: Sequence[IcebergFile], metadata: TableMetadata, schema: Schema) -> Partitions:
    """Return the values of identity partitions. Other transforms determine no value of a column.

    Raises:
        UnsupportedFeatureError: If a value can be a date or a time, or is a rounded double.
    """
    from pyiceberg.transforms import IdentityTransform
    from pyiceberg.types import DoubleType

    specs = metadata.specs()
    arrow = schema.as_arrow()
    found: dict[str, list[Any]] = {}
    known: dict[str, np.ndarray] = {}
    names = {field.field_id: field.name for field in schema.fields if field.field_type.is_primitive}
    for ordinal, entry in enumerate(entries):
        for position, part in enumerate(specs[entry.spec_id].fields):
            name = names.get(part.source_id)
            if name is None or not isinstance(part.transform, IdentityTransform):
                continue
            if name not in found:
                _refuse_promoted(metadata, part.source_id, name)
            values = found.setdefault(name, [None] * len(entries))
            is_known = known.setdefault(name, np.zeros(len(entries), dtype=bool))
            value = entry.partition[position]
            if isinstance(schema.find_type(name, case_sensitive=True), DoubleType):
                value = _exact(value, entry, part.source_id, name)
            values[ordinal], is_known[ordinal] = value, True
    columns: dict[Path, pa.Array] = {}
    for name, values in found.items():
        data_type = plain_type(arrow.field(name).type)
        if isinstance(data_type, pa.UuidType):
            texts = [None if one is None else one.bytes for one in values]
            columns[name,] = pa.array(texts, pa.binary(16)).cast(data_type)
        else:
            columns[name,] = _from_numbers(values, data_type)
    partial: dict[Path, np.ndarray] = {
        (name,): is_known for name, is_known in known.items() if not is_known.all()
    }
    return Partitions(columns, partial, replaces_columns=False)


def _refuse_promoted(metadata: TableMetadata, field_id: int, name: str) -> None:
    """Refuse a partition column that was a date: numbers in its manifests may be days or microseconds."""
    from pyiceberg.types import DateType

    types = [
        one.field_type for schema in metadata.schemas for one in schema.fields if one.field_id == field_id
    ]
    if len({isinstance(one, DateType) for one in types}) > 1:
        raise UnsupportedFeatureError(
            f"the partition column {name!r} was a date before it was promoted to another type; read the "
            "table with the engine that wrote it",
            reason="promoted-partition",
            path=local_name(metadata.location),
            column=name,
        )


def _exact(value: float | None, entry: IcebergFile, field_id: int, name: str) -> float | None:
    """Return a partition value of a column of doubles, which pyiceberg 0.12.0 rounds to 32 bits.

    The bounds of the file are not rounded, and both are the value.

    Raises:
        UnsupportedFeatureError: If the value is rounded, and the file has no bounds.
    """
    from pyiceberg.types import DoubleType

    if value is None or math.isnan(value) or not _rounds_doubles():
        return value
    parse = cast("Callable[[bytes], float | None]", _parser(DoubleType()))
    low, high = (
        parse((bounds or {}).get(field_id, b"")) for bounds in (entry.lower_bounds, entry.upper_bounds)
    )
    if low is None or low != high:
        raise UnsupportedFeatureError(
            f"this version of pyiceberg rounds the values of the partition column {name!r}, which are "
            "doubles, and the file has no bounds; install a version after 0.12.0",
            reason="rounded-partition",
            path=local_name(entry.file_path),
            column=name,
        )
    return low


@lru_cache
def _rounds_doubles() -> bool:
    """Return whether pyiceberg reads doubles of manifests as floats of 32 bits."""
    from pyiceberg.avro.decoder import new_decoder

    return bool(new_decoder(struct.pack("<d", 0.1)).read_double() != 0.1)


# --- the columns ---------------------------------------------------------------------------------------


def _field_id(field: pa.Field) -> int:
    return int(field.metadata[FIELD_ID])


def _aliases(metadata: TableMetadata) -> Any:
    """Return a function from a field to its names in files without field ids."""
    names: dict[int, tuple[str, ...]] = {}
    mapping = metadata.name_mapping()
    left = list(mapping) if mapping is not None else []
    while left:
        one = left.pop()
        left += one.fields
        if one.field_id is not None:
            names[one.field_id] = tuple(one.names)
    return lambda field: names.get(_field_id(field), ())


def _defaults(location: str, schema: Schema, arrow: pa.Schema) -> Mapping[Path, pa.Scalar]:
    """Return the values of columns in files that were written before the columns were added."""
    from pyiceberg.schema import Schema, index_by_id

    values: dict[Path, pa.Scalar] = {}
    for field in schema.fields:
        if field.initial_default is not None:
            values[field.name,] = pa.scalar(field.initial_default, plain_type(arrow.field(field.name).type))
        for nested in index_by_id(Schema(field)).values():
            if nested.initial_default is not None and nested.field_id != field.field_id:
                raise UnsupportedFeatureError(
                    f"field {nested.name!r} in column {field.name!r} has an initial default, which Intarsia "
                    "supports only for columns; rewrite the data files that were written before it was added",
                    reason="nested-default",
                    path=location,
                    column=field.name,
                )
    return values


def iceberg_options(location: str, properties: Mapping[str, Any]) -> StorageOptions | None:
    """Return the options of the store of an Iceberg table; None if they are those of the environment.

    Args:
        properties: The properties of its catalog, in which the names of `pyiceberg` are looked up.

    Example:
        >>> found = iceberg_options("s3://lake/t", {"s3.endpoint": "http://localhost:9000", "uri": "sqlite://"})
        >>> found["aws_endpoint"], found["allow_http"]
        ('http://localhost:9000', 'true')
    """
    scheme = location.partition("://")[0]
    prefix = "s3." if scheme in ("s3", "s3a", "s3n") else "adls." if scheme in _OF_AZURE else "none"
    found = {
        ours: str(properties[theirs])
        for theirs, ours in _OF_ICEBERG.items()
        if theirs.startswith(prefix) and properties.get(theirs)
    }
    if found.get("aws_endpoint", "").startswith("http://"):
        found["allow_http"] = "true"
    return found or None
