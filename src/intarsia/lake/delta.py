"""Delta tables: the deltalake package reads the log, and Intarsia the files."""

from __future__ import annotations

import contextlib
import os
import re
from collections.abc import Iterator, Mapping, Sequence
from typing import TYPE_CHECKING, Any
from urllib.parse import unquote

import pyarrow as pa
import pyarrow.compute as pc

from intarsia.errors import CorruptFileError, UnsupportedFeatureError
from intarsia.lake.data_file import with_stores
from intarsia.lake.definition import (
    ColumnNames,
    TableDefinition,
    listed_file,
    named_fields,
    plain_columns,
    plain_type,
    translated_errors,
)
from intarsia.lake.unopened import LogColumn, LogStatistics, Partitions
from intarsia.predicate import Path
from intarsia.records import dataclass
from intarsia.rows.bounds import UNKNOWN
from intarsia.rows.selection import RowSelection
from intarsia.storage import StorageOptions, local_path

if TYPE_CHECKING:
    from deltalake import DeltaTable

#: Features of the Delta protocol that do not affect readers of files, or that Intarsia implements.
READER_FEATURES = frozenset(
    {
        "columnMapping",
        "deletionVectors",
        "timestampNtz",
        "typeWidening",
        "typeWidening-preview",
        "v2Checkpoint",
        "vacuumProtocolCheck",
    }
)

#: Options of deltalake that concern writing, or its own requests.
_OF_DELTALAKE = ("aws_s3_", "delta_", "dynamo", "aws_copy_if_not_exists", "copy_if_not_exists", "max_retries")

_MODE = "delta.columnMapping.mode"
_PHYSICAL_NAME = b"delta.columnMapping.physicalName"
_ID = b"delta.columnMapping.id"


def open_delta_url(url: str, options: StorageOptions | None = None) -> TableDefinition:
    """Define the current version of a Delta table.

    Raises:
        FileNotFoundError: If there is no Delta table.
        CorruptFileError: If its log cannot be read.
        UnsupportedFeatureError: If deltalake is not installed, or as `define_delta_table`.
        ObjectStoreError: If the store cannot be reached or refuses the request.
    """
    try:
        import deltalake
    except ModuleNotFoundError as error:
        raise UnsupportedFeatureError(
            f"Delta tables need {error.name}, which is not installed; install it in a checkout of "
            "Intarsia (pip install '.[delta]')",
            reason="library-not-installed",
        ) from error
    path = _plain(url)
    if "://" not in path and not os.path.isdir(path):
        raise FileNotFoundError(f"{path}: no such folder")
    texts = {
        name: str(value).lower() if isinstance(value, bool) else str(value)
        for name, value in (options or {}).items()
    }
    table = None
    with _translated_errors(path), contextlib.suppress(deltalake.exceptions.TableNotFoundError):
        table = deltalake.DeltaTable(path, storage_options=texts or None)
    if table is None:
        raise FileNotFoundError(
            f"{path}: this is not a Delta table, because it has no _delta_log; open it without delta+"
        )
    return define_delta_table(table, options)


def define_delta_table(table: DeltaTable, options: StorageOptions | None = None) -> TableDefinition:
    """Define a Delta table in the version that was loaded.

    Args:
        options: Options of the stores of URLs; None for those of the table.

    Raises:
        UnsupportedFeatureError: If the table uses a feature that Intarsia or deltalake does not implement.
        CorruptFileError: If its log or its deletion vectors cannot be read.
        ObjectStoreError: If the store cannot be reached or refuses the request.
    """
    root = _plain(table.table_uri).rstrip("/")
    with _translated_errors(root):
        return _definition(root, table, options)


def _translated_errors(path: str) -> contextlib.AbstractContextManager[None]:
    return translated_errors("deltalake", "the log of the Delta table", path, "unreadable-log")


def _definition(root: str, table: DeltaTable, options: StorageOptions | None) -> TableDefinition:
    _refuse_unknown_features(root, table)
    schema = pa.schema(table.schema())
    actions = pa.table(table.get_add_actions())
    declared = [name for name in table.metadata().partition_columns if name in schema.names]
    partition = actions["partition"].combine_chunks() if declared else None
    columns = {name: _child(partition, name).cast(schema.field(name).type) for name in declared}
    texts = [[None if one is None else str(one) for one in values.to_pylist()] for values in columns.values()]
    deleted = _deleted_rows(root, table)
    files = []
    for ordinal, (path, size) in enumerate(
        zip(actions["path"].to_pylist(), actions["size_bytes"].to_pylist(), strict=True)
    ):
        location = _location(root, path)
        values = tuple((name, column[ordinal]) for name, column in zip(columns, texts, strict=True))
        files.append(listed_file(location, size, values, deleted.pop(location, None)))
    if deleted:  # ignoring it would return deleted rows
        raise CorruptFileError(
            f"the log has a deletion vector for {next(iter(deleted))}, which is not a file of the table",
            reason="deletes-of-another-file",
            path=root,
        )
    names = _names(schema, table.metadata().configuration)
    is_wider = any(name.startswith("typeWidening") for name in table.protocol().reader_features or ())
    return TableDefinition(
        root,
        tuple(with_stores(files, options or delta_options(getattr(table, "_storage_options", None)))),
        plain_columns(schema),
        Partitions({(name,): values for name, values in columns.items()}),
        names,
        statistics=_statistics(actions, schema, is_mapped=names is not None, is_wider=is_wider),
    )


@dataclass(frozen=True)
class DeletionVector:
    """The deleted rows of one file."""

    deleted: RowSelection

    def rows(self) -> RowSelection:
        """Return the deleted rows, as row numbers of the file."""
        return self.deleted


def _refuse_unknown_features(root: str, table: DeltaTable) -> None:
    unknown = sorted(set(table.protocol().reader_features or ()) - READER_FEATURES)
    if unknown:
        raise UnsupportedFeatureError(
            f"the Delta table uses {', '.join(unknown)}, which Intarsia does not support; drop the feature "
            "from the table, or read it with another engine",
            reason="unsupported-delta-feature",
            path=root,
        )


def _plain(url: str) -> str:
    """Return the local path of a URL if it is local, and otherwise the URL."""
    path = local_path(url)
    return url if path is None else path


def _location(root: str, path: str) -> str:
    """Return the local path or the URL of a file, given its path in the log, which is URL-encoded."""
    path = re.sub("^file:/(?!/)", "file:///", path)  # in the log of a clone, as Hadoop writes it
    if "://" in path:
        local = local_path(path)
        return unquote(path) if local is None else local
    decoded = unquote(path)
    return decoded if decoded.startswith("/") and "://" not in root else f"{root}/{decoded}"


def _statistics(
    actions: pa.Table, schema: pa.Schema, *, is_mapped: bool, is_wider: bool
) -> LogStatistics | None:
    """Return the statistics in the log; None if the files have none."""
    if not {"num_records", "null_count", "min", "max"} <= set(actions.column_names):
        return None
    parts = [actions[name].combine_chunks() for name in ("min", "max", "null_count")]
    columns = dict(_logged_columns(list(schema), parts, (), is_mapped=is_mapped))
    num_rows = pc.fill_null(actions["num_records"], UNKNOWN).combine_chunks().to_numpy()
    statistics = LogStatistics("delta_log", num_rows, columns, is_json=True, has_wider_types=is_wider)
    return statistics if columns else None


def _logged_columns(
    fields: Sequence[pa.Field], parts: Sequence[pa.Array], parents: Path, *, is_mapped: bool
) -> Iterator[tuple[Path, LogColumn]]:
    """Yield the statistics of columns, and of fields in structs, that have bounds or null counts.

    Args:
        parts: The minima, the maxima and the null counts of the fields.
    """
    names = {field.name for field in fields}
    for field in fields:
        path, data_type = (*parents, field.name), plain_type(field.type)
        name = _physical_name(field) if is_mapped else field.name
        if name != field.name and name in names:  # deltalake does not document whose name it lists
            continue
        own = [_child(part, name) for part in parts]
        if pa.types.is_struct(data_type):
            yield from _logged_columns(list(field.type), own, path, is_mapped=is_mapped)
        elif not pa.types.is_nested(data_type) and any(part.null_count < len(part) for part in own):
            bounds = [part if part.type == data_type else pa.nulls(len(part), data_type) for part in own[:2]]
            counts = own[2] if pa.types.is_integer(own[2].type) else pa.nulls(len(own[2]), pa.int64())
            yield path, LogColumn(bounds[0], bounds[1], counts.cast(pa.int64()))


def _physical_name(field: pa.Field) -> str:
    name = (field.metadata or {}).get(_PHYSICAL_NAME)
    return str(field.name if name is None else name.decode())


def _child(part: pa.Array, name: str) -> pa.Array:
    """Return a field of a struct; nulls if there is none."""
    if not pa.types.is_struct(part.type) or part.type.get_field_index(name) < 0:
        return pa.nulls(len(part))
    return pc.struct_field(part, [name])  # a text that starts with a dot would be a path


def _deleted_rows(root: str, table: DeltaTable) -> dict[str, DeletionVector]:
    """Return the deleted rows of each file that has a deletion vector, by path or URL."""
    if "deletionVectors" not in (table.protocol().reader_features or ()):
        return {}
    if not hasattr(table, "deletion_vectors"):
        raise UnsupportedFeatureError(
            "the Delta table has deletion vectors, which this version of deltalake does not read; install "
            "deltalake 1.6.6 or newer",
            reason="old-deltalake",
            path=root,
        )
    batches = list(pa.RecordBatchReader.from_stream(table.deletion_vectors()))
    vectors: dict[str, DeletionVector] = {}
    for batch in batches:
        for path, kept in zip(batch["filepath"].to_pylist(), batch["selection_vector"], strict=True):
            # rows after the end of the vector are kept
            is_deleted = ~kept.values.to_numpy(zero_copy_only=False)
            vectors[_location("", path)] = DeletionVector(RowSelection.from_mask(is_deleted))
    return vectors


def _names(schema: pa.Schema, configuration: Mapping[str, Any]) -> ColumnNames | None:
    """Return the names of the columns in files; None if they are those of the table."""
    mode = str(configuration.get(_MODE, "none")).lower()
    if mode == "none":
        return None

    def field_id(field: pa.Field) -> int | None:
        text = (field.metadata or {}).get(_ID)
        return None if text is None else int(text)

    fields = named_fields(schema, field_id, lambda field: (_physical_name(field),))
    return ColumnNames(fields, by_id=mode == "id")


def delta_options(options: Mapping[str, str] | None) -> StorageOptions | None:
    """Return the options of a ``DeltaTable`` that reading files needs; None if there are none.

    Example:
        >>> delta_options({"AWS_REGION": "eu-west-1", "AWS_S3_ALLOW_UNSAFE_RENAME": "true"})
        {'aws_region': 'eu-west-1'}
    """
    found = {name.lower(): value for name, value in (options or {}).items()}
    return {name: value for name, value in found.items() if not name.startswith(_OF_DELTALAKE)} or None
