"""Iceberg tables: pyiceberg reads the metadata and the manifests, and Intarsia the files."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import TYPE_CHECKING, Any

import numpy as np
import pyarrow as pa

from intarsia.errors import UnsupportedFeatureError
from intarsia.lake.column_names import FIELD_ID, ColumnNames, named_fields
from intarsia.lake.data_file import DataFile, with_stores
from intarsia.lake.definition import TableDefinition, listed_file, plain_type
from intarsia.lake.iceberg_deletes import DeletedPositions, DeleteFile
from intarsia.lake.iceberg_statistics import iceberg_statistics
from intarsia.lake.library_errors import translated_errors
from intarsia.lake.partitions import DeclaredPartitions
from intarsia.lake.table_stores import iceberg_options
from intarsia.predicate import Path
from intarsia.storage import StorageOptions

if TYPE_CHECKING:
    from pyiceberg.manifest import DataFile as IcebergFile
    from pyiceberg.schema import Schema
    from pyiceberg.table import DataScan, FileScanTask
    from pyiceberg.table.metadata import TableMetadata
    from pyiceberg.types import NestedField


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
        return _definition(location, scan, options)


def _definition(location: str, scan: DataScan, options: StorageOptions | None) -> TableDefinition:
    metadata, schema = scan.table_metadata, scan.projection()
    tasks = _planned(location, scan)
    arrow = schema.as_arrow()
    options = options or iceberg_options(location, scan.io.properties)
    files = _listed(tasks, options)
    return TableDefinition(
        location,
        files,
        pa.schema([field.with_type(plain_type(field.type)).remove_metadata() for field in arrow]),
        _partitions(files, [task.file for task in tasks], metadata, schema),
        ColumnNames(named_fields(arrow, _field_id, _aliases(metadata)), by_id=True),
        _defaults(location, schema, arrow),
        iceberg_statistics([task.file for task in tasks], schema, arrow),
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
                path = local_name(one.file_path)
                (file,) = with_stores([DataFile(path, one.file_size_in_bytes)], options)
                delete_files[one.file_path] = DeleteFile(file, one.file_format.value)
        mine = tuple(delete_files[one.file_path] for one in task.delete_files)
        deletes = DeletedPositions(location, mine) if mine else None
        files.append(listed_file(local_name(location), task.file.file_size_in_bytes, (), deletes))
    return tuple(with_stores(files, options))


# --- partition values ----------------------------------------------------------------------------------


def _partitions(
    files: Sequence[DataFile], entries: Sequence[IcebergFile], metadata: TableMetadata, schema: Schema
) -> DeclaredPartitions:
    """Return the values of identity partitions. Other transforms determine no value of a column.

    Raises:
        UnsupportedFeatureError: If a value can be a date or a time.
    """
    from pyiceberg.transforms import IdentityTransform

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
            values = found.setdefault(name, [None] * len(files))
            is_known = known.setdefault(name, np.zeros(len(files), dtype=bool))
            values[ordinal], is_known[ordinal] = entry.partition[position], True
    columns = {
        name: _partition_values(values, plain_type(arrow.field(name).type)) for name, values in found.items()
    }
    partial = {name: is_known for name, is_known in known.items() if not is_known.all()}
    return DeclaredPartitions(files, columns, partial, replaces_columns=False)


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


def _partition_values(values: list[Any], data_type: pa.DataType) -> pa.Array:
    """Return partition values, in which dates and times are numbers, as a column."""
    if pa.types.is_temporal(data_type):
        number = pa.int32() if data_type.bit_width == 32 else pa.int64()
        return pa.array(values, number).cast(data_type)
    if isinstance(data_type, pa.UuidType):
        return pa.array([None if one is None else one.bytes for one in values], pa.binary(16)).cast(data_type)
    return pa.array(values, data_type)


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
    values: dict[Path, pa.Scalar] = {}
    for field in schema.fields:
        if field.initial_default is not None:
            data_type = plain_type(arrow.field(field.name).type)
            values[field.name,] = pa.scalar(field.initial_default, data_type)
        for nested in _nested(field):
            if nested.initial_default is not None:
                raise UnsupportedFeatureError(
                    f"field {nested.name!r} in column {field.name!r} has an initial default, which Intarsia "
                    "supports only for columns; rewrite the data files that were written before it was added",
                    reason="nested-default",
                    path=location,
                    column=field.name,
                )
    return values


def _nested(field: NestedField) -> Iterable[NestedField]:
    from pyiceberg.types import ListType, MapType, StructType

    parent = field.field_type
    children: Sequence[NestedField] = ()
    if isinstance(parent, StructType):
        children = parent.fields
    elif isinstance(parent, ListType):
        children = [parent.element_field]
    elif isinstance(parent, MapType):
        children = [parent.key_field, parent.value_field]
    for child in children:
        yield child
        yield from _nested(child)
