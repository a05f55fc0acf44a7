"""The columns of a table that was just written, so that indexes are built without reading it back."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from itertools import pairwise

import pyarrow as pa

from intarsia.arrow.nested import field_type, field_values
from intarsia.embed.column_data import FileColumns
from intarsia.file import ChunkKey, ParquetInput
from intarsia.predicate.nodes import ColumnName


class TableColumns(FileColumns):
    """The columns of a file, taken from the table that was written to it.

    Indexes describe the values that readers get. A column is therefore read back from the file if Parquet
    changes its type or could change its values.

    Args:
        table: The table, with its rows in the order of the file.
        file: The file.
        offset_index: As for `FileColumns`.
    """

    def __init__(
        self, table: pa.Table, file: ParquetInput, offset_index: Callable[[ChunkKey], bytes | None]
    ) -> None:
        super().__init__(file, offset_index)
        self._table = table

    def batches(self, column: ColumnName) -> Iterator[tuple[int, pa.Array]]:
        """See `FileColumns.batches`."""
        path = self.leaf(column).path
        data_type = field_type(self._table.schema.field(path[0]).type, path[1:])
        if data_type is None or data_type != self.type_of(column) or not _round_trips(data_type):
            yield from super().batches(column)
            return
        edges = self.layout.row_group_edges.tolist()
        whole = self._table.column(path[0])
        for row, stop in pairwise(edges):
            for chunk in whole.slice(row, stop - row).chunks:
                yield row, field_values(chunk, path[1:])
                row += len(chunk)

    def encoded_batches(self, column: ColumnName) -> Iterator[tuple[int, pa.Array]]:
        """Yield the values of the table, which need no decoding."""
        return self.batches(column)


def _round_trips(data_type: pa.DataType) -> bool:
    """Return whether Parquet preserves every value of a type; date64, for example, loses its time of day."""
    if pa.types.is_dictionary(data_type):
        return _round_trips(data_type.value_type)
    if pa.types.is_timestamp(data_type):
        return bool(data_type.unit != "s")
    return any(
        check(data_type)
        for check in (
            pa.types.is_boolean,
            pa.types.is_integer,
            pa.types.is_floating,
            pa.types.is_decimal,
            pa.types.is_string,
            pa.types.is_large_string,
            pa.types.is_binary,
            pa.types.is_large_binary,
            pa.types.is_fixed_size_binary,
            pa.types.is_date32,
        )
    )
