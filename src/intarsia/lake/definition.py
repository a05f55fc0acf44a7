"""The definition of a table by a table format: its files, its schema, and values that files lack."""

from __future__ import annotations

import os
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc

from intarsia.arrow.owned_rows import take_values
from intarsia.lake.column_names import ColumnNames
from intarsia.lake.data_file import DataFile, DeletedRows
from intarsia.lake.log_statistics import LogStatistics
from intarsia.lake.partitions import DeclaredPartitions
from intarsia.predicate import Path


@dataclass(frozen=True)
class TableDefinition:
    """A version of a table in a table format.

    Attributes:
        name: The path or URL of the table.
        files: The files; there may be none.
        schema: The columns of the table, including partition columns.
        partitions: The partition columns.
        names: The names of the columns in files; None if they are those of the table.
        defaults: The values of columns in files that lack them; null for other columns.
        statistics: The statistics of the files in the log; None if it has none.
    """

    name: str
    files: tuple[DataFile, ...]
    schema: pa.Schema
    partitions: DeclaredPartitions
    names: ColumnNames | None = None
    defaults: Mapping[Path, pa.Scalar] = field(default_factory=dict)
    statistics: LogStatistics | None = None

    def part(self, ordinals: Sequence[int]) -> TableDefinition:
        """Return the definition of a table with some of the files."""
        return replace(
            self,
            files=tuple(self.files[ordinal] for ordinal in ordinals),
            partitions=self.partitions.part(ordinals),
            statistics=None if self.statistics is None else self.statistics.part(ordinals),
        )

    def absent_values(self, path: Path, files: npt.NDArray[np.int64] | Sequence[int]) -> pa.Array | None:
        """Return the values of a column in files that lack it, one for each file; None if all are null.

        Args:
            path: The column in the table.
            files: The ordinals of the files.
        """
        default, values = self.defaults.get(path), self.partitions.values.get(path)
        if values is None:
            return None if default is None else pa.repeat(default, len(files))
        found = take_values(values, files)
        if default is None:
            return found
        return pc.if_else(pa.array(self.partitions.is_known(path)[files]), found, default)


def listed_file(
    path: str,
    size_bytes: int,
    partition: tuple[tuple[str, str | None], ...],
    deletes: DeletedRows | None,
) -> DataFile:
    """Describe a file of a table.

    A log records the length of a file when it was written. Attaching indexes makes the file longer, so the
    current length of local files is used. The length of objects is requested when they are opened.

    Args:
        path: A local path or a URL.
        size_bytes: Its length according to the log.
        partition: Names and values of its partition columns, as text.
        deletes: Its deleted rows; None if there are none.
    """
    if "://" not in path:
        try:
            status = os.stat(path)
        except OSError:  # reading it raises the error
            return DataFile(path, size_bytes, partition, deletes=deletes)
        times = (status.st_mtime_ns, status.st_ctime_ns)
        return DataFile(
            path, status.st_size, partition, modified=status.st_mtime, times_ns=times, deletes=deletes
        )
    return DataFile(path, size_bytes, partition, deletes=deletes)


def plain_type(data_type: pa.DataType) -> pa.DataType:
    """Return a type without the large physical layouts and without metadata of fields, as pyarrow reads it.

    Example:
        >>> plain_type(pa.large_list(pa.field("item", pa.large_string(), metadata={"a": "b"})))
        ListType(list<item: string>)
    """

    def plain_field(field: pa.Field) -> pa.Field:
        return field.with_type(plain_type(field.type)).remove_metadata()

    if pa.types.is_struct(data_type):
        return pa.struct([plain_field(field) for field in data_type])
    if pa.types.is_map(data_type):
        return pa.map_(plain_field(data_type.key_field), plain_field(data_type.item_field))
    if pa.types.is_list(data_type) or pa.types.is_large_list(data_type):
        return pa.list_(plain_field(data_type.value_field))
    if pa.types.is_large_string(data_type):
        return pa.string()
    return pa.binary() if pa.types.is_large_binary(data_type) else data_type
