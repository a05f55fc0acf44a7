"""The definition of a table by a table format: files, schema, names of columns in files, values they lack."""

from __future__ import annotations

import os
import re
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from dataclasses import field, replace
from typing import Any, TypeAlias

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc

from intarsia.arrow.nested import children, with_children
from intarsia.arrow.owned_rows import take_values
from intarsia.errors import CorruptFileError, IntarsiaError, ObjectStoreError, UnsupportedFeatureError
from intarsia.file.schema import FileSchema
from intarsia.lake.data_file import DataFile, DeletedRows
from intarsia.lake.unopened import LogStatistics, Partitions
from intarsia.predicate import Path
from intarsia.read.output_columns import FileNames
from intarsia.records import dataclass

#: The key of the field id in the metadata of an Arrow field.
FIELD_ID = b"PARQUET:field_id"

#: Number of schemas of files whose names of columns are cached.
_MAX_SCHEMAS = 64


@dataclass(frozen=True)
class NamedField:
    """A column of a table, or a field in one, and its names in files.

    Attributes:
        field_id: Its field id in files; None if it has none.
        aliases: Its names in files without field ids.
        children: The fields of a struct; the item of a list; the key and the value of a map.
    """

    name: str
    field_id: int | None
    aliases: tuple[str, ...]
    children: tuple[NamedField, ...] = ()


#: Returns the field of the table for a field of a file; None if it is not in the table.
_Match: TypeAlias = Callable[[Sequence[NamedField], pa.Field], "NamedField | None"]


def named_fields(
    fields: Iterable[pa.Field],
    field_id: Callable[[pa.Field], int | None],
    aliases: Callable[[pa.Field], tuple[str, ...]],
) -> tuple[NamedField, ...]:
    """Describe the columns of a table from its schema.

    Args:
        fields: The fields, with metadata of the table format.
        field_id: Returns the field id of a field.
        aliases: Returns the names of a field in files without field ids.
    """
    return tuple(
        NamedField(
            field.name,
            field_id(field),
            aliases(field),
            named_fields(children(field.type) or (), field_id, aliases),
        )
        for field in fields
    )


@dataclass(frozen=True)
class ColumnNames:
    """The names of the columns of a table in its files.

    Attributes:
        by_id: Whether fields are found by field id. Otherwise, and in files without field ids, they are found
            by their aliases.
    """

    fields: tuple[NamedField, ...]
    by_id: bool
    _found: dict[FileSchema, FileNames | None] = field(
        default_factory=dict, init=False, repr=False, compare=False
    )

    def __getstate__(self) -> dict[str, object]:
        return {**vars(self), "_found": {}}

    def in_files(self, schema: FileSchema, path: str = "") -> FileNames | None:
        """Return the names in files with a schema, as `in_file` does; the answers are cached."""
        if schema not in self._found:
            if len(self._found) >= _MAX_SCHEMAS:
                self._found.clear()
            self._found[schema] = self.in_file(path, schema.arrow)
        return self._found[schema]

    def in_file(self, path: str, schema: pa.Schema) -> FileNames | None:
        """Return the names in files with one schema; None if they are those of the table.

        Args:
            path: The path of such a file, for errors.
            schema: The schema of the file, with field ids in the metadata of its fields.

        Raises:
            UnsupportedFeatureError: If the table needs field ids, and the file has none.

        Example:
            >>> names = ColumnNames((NamedField("new", 1, ()),), by_id=True)
            >>> old = pa.field("old", pa.int8(), metadata={"PARQUET:field_id": "1"})
            >>> names.in_file("1.parquet", pa.schema([old])).schema.names
            ['new']
        """
        match: _Match = _by_alias
        if self.by_id and any(map(_has_id, schema)):
            match = _by_id
        elif self.by_id and not any(field.aliases for field in self.fields) and len(schema):
            raise UnsupportedFeatureError(
                "the file has no field ids, and the table has no name mapping, so its columns cannot be "
                "found; set the property schema.name-mapping.default of the table, or rewrite the file",
                reason="no-field-ids",
                path=path,
            )
        renamed = [_renamed(field, match(self.fields, field), match) for field in schema]
        known = {field.name for field in self.fields}
        is_same = all(
            own.name not in known if field is None else own.name == field.name and own.type == field.type
            for own, field in zip(schema, renamed, strict=True)
        )
        return None if is_same else FileNames(schema, tuple(renamed))


def _has_id(field: pa.Field) -> bool:
    return FIELD_ID in (field.metadata or {}) or any(map(_has_id, children(field.type) or ()))


def _by_id(fields: Sequence[NamedField], own: pa.Field) -> NamedField | None:
    text = (own.metadata or {}).get(FIELD_ID)
    return next((field for field in fields if text is not None and field.field_id == int(text)), None)


def _by_alias(fields: Sequence[NamedField], own: pa.Field) -> NamedField | None:
    return next((field for field in fields if own.name in field.aliases), None)


def _renamed(own: pa.Field, named: NamedField | None, match: _Match) -> pa.Field | None:
    if named is None:
        return None
    return pa.field(named.name, _renamed_type(own.type, named.children, match), own.nullable)


def _renamed_type(own: pa.DataType, named: Sequence[NamedField], match: _Match) -> pa.DataType:
    """Return a type of the same shape with the names of the table."""
    fields = children(own) or []
    if pa.types.is_struct(own):
        # of the fields that the table lacks, names that no field of the table has
        found = [
            _renamed(field, match(named, field), match) or pa.field(f"\0{ordinal}", field.type)
            for ordinal, field in enumerate(fields)
        ]
    elif fields and len(fields) == len(named):
        found = [
            field.with_type(_renamed_type(field.type, one.children, match))
            for field, one in zip(fields, named, strict=True)
        ]
    else:
        return own
    return with_children(own, found)


@dataclass(frozen=True)
class TableDefinition:
    """A version of a table, as a table format or the footers of its files define it.

    Attributes:
        name: The path or URL of the table; that of the first file without a table format.
        files: The files; there may be none.
        schema: The columns of the table, including partition columns.
        names: The names of the columns in files; None if they are those of the table.
        defaults: The values of columns in files that lack them; null for other columns.
        statistics: The statistics of the files in the log; None if it has none.
        mixed: Columns with different types in different files.
        variants: The paths of the VARIANT columns in the first file; none if a table format defines the
            schema.
    """

    name: str
    files: Sequence[DataFile]
    schema: pa.Schema
    partitions: Partitions
    names: ColumnNames | None = None
    defaults: Mapping[Path, pa.Scalar] = field(default_factory=dict)
    statistics: LogStatistics | None = None
    mixed: frozenset[str] = frozenset()
    variants: frozenset[Path] = frozenset()

    def part(self, ordinals: Sequence[int]) -> TableDefinition:
        """Return the definition of a table with some of the files."""
        return replace(
            self,
            files=tuple(self.files[ordinal] for ordinal in ordinals),
            partitions=self.partitions.part(ordinals),
            statistics=None if self.statistics is None else self.statistics.part(ordinals),
        )

    def absent_values(
        self, path: Path, data_type: pa.DataType, files: npt.NDArray[np.int64] | Sequence[int]
    ) -> pa.Array:
        """Return the values of a column in files that lack it, one for each of the files."""
        default, values = self.defaults.get(path), self.partitions.values.get(path)
        if values is None:
            return pa.nulls(len(files), data_type) if default is None else pa.repeat(default, len(files))
        found = take_values(values, files)
        is_known = self.partitions.is_known.get(path)
        return found if default is None or is_known is None else pc.if_else(is_known[files], found, default)


def listed_file(
    path: str,
    size_bytes: int,
    partition: tuple[tuple[str, str | None], ...],
    deletes: DeletedRows | None,
) -> DataFile:
    """Describe a file of a table.

    A log records the length of a file when it was written. Attaching indexes makes the file longer, so the
    current length of local files is used. The length of objects is requested when they are opened.
    """
    status = None
    if "://" not in path:
        with suppress(OSError):  # reading it raises the error
            status = os.stat(path)
    if status is None:
        return DataFile(path, size_bytes, partition, deletes=deletes)
    times = (status.st_mtime_ns, status.st_ctime_ns)
    return DataFile(
        path, status.st_size, partition, modified=status.st_mtime, times_ns=times, deletes=deletes
    )


def plain_columns(fields: Iterable[pa.Field]) -> pa.Schema:
    """Return the schema of columns in plain types, without metadata."""
    return pa.schema([field.with_type(plain_type(field.type)).remove_metadata() for field in fields])


def plain_type(data_type: pa.DataType) -> pa.DataType:
    """Return a type without the large physical layouts and without metadata of fields, as pyarrow reads it.

    Example:
        >>> plain_type(pa.large_list(pa.field("item", pa.large_string(), metadata={"a": "b"})))
        ListType(list<item: string>)
    """
    if pa.types.is_struct(data_type):
        return pa.struct(list(plain_columns(data_type)))
    if pa.types.is_map(data_type):
        return pa.map_(*plain_columns([data_type.key_field, data_type.item_field]))
    if pa.types.is_list(data_type) or pa.types.is_large_list(data_type):
        return pa.list_(*plain_columns([data_type.value_field]))
    if pa.types.is_large_string(data_type):
        return pa.string()
    return pa.binary() if pa.types.is_large_binary(data_type) else data_type


@contextmanager
def translated_errors(library: str, part: str, path: str, reason: str) -> Iterator[None]:
    """Translate every error within the block that is not one of Intarsia.

    The libraries raise exceptions of their own, of pydantic, of pyarrow and of Python.

    Args:
        part: What it reads, in words.
        reason: The code for bytes that it cannot read.

    Raises:
        UnsupportedFeatureError: If the library does not implement a feature.
        ObjectStoreError: If a file cannot be reached.
        CorruptFileError: Otherwise, and if a file is missing.
    """
    try:
        yield
    except (IntarsiaError, MemoryError):
        raise
    except Exception as error:
        # deltalake has no class for features of the protocol that it lacks
        if isinstance(error, NotImplementedError | ImportError) or "Unsupported table features" in str(error):
            raise UnsupportedFeatureError(
                f"{library} does not support {part}: {_cause(error)}; read it with the engine that wrote it",
                reason="unsupported-by-library",
                path=path,
            ) from error
        if isinstance(error, OSError) and not isinstance(error, FileNotFoundError):
            raise ObjectStoreError(_cause(error), reason="store-failed", path=path) from error
        raise CorruptFileError(
            f"{library} cannot read {part}: {_cause(error)}; if another engine can, update {library}",
            reason=reason,
            path=path,
        ) from error


def _cause(error: Any) -> str:
    """Return the message of an error in one line."""
    if type(error).__module__.startswith("pydantic"):
        first = error.errors()[0]
        return ": ".join([*filter(None, [".".join(map(str, first["loc"]))]), first["msg"]])
    # deltalake adds colors and a backtrace
    text = re.sub(r"\x1b\[\d*m", "", str(error).partition("\n")[0]).replace(" ↳ ", ": ")
    return text or type(error).__name__
