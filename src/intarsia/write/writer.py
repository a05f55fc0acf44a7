"""Writing Parquet files with indexes in one pass, from whole tables or from batches."""

from __future__ import annotations

import os
from collections.abc import Callable, Iterator, Sequence
from functools import partial
from itertools import pairwise
from typing import Any

import pyarrow as pa

from intarsia.arrow.nested import field_type, field_values
from intarsia.arrow.owned_rows import needed_bytes
from intarsia.embed.column_data import FileColumns
from intarsia.embed.report import Progress
from intarsia.embed.structures import Attachables
from intarsia.errors import IntarsiaError, NotTabularError, WriteError
from intarsia.file import ChunkKey, ParquetInput
from intarsia.lake.scan import Scan
from intarsia.predicate.nodes import ColumnName
from intarsia.rows.selection import Rows
from intarsia.storage import StorageOptions
from intarsia.write.output import ROW_GROUP_BYTES, ROWS_PER_PAGE, Output, WriteOptions, WriteReport
from intarsia.write.rows import SortBy, sorted_rows

#: The default maximum number of rows per row group.
ROW_GROUP_ROWS = 1 << 20


def write_table(
    data: Any,
    path: str | os.PathLike[str],
    *,
    indexes: Attachables = (),
    rows_per_page: int = ROWS_PER_PAGE,
    row_group_size: int | None = None,
    row_group_bytes: int = ROW_GROUP_BYTES,
    sort_by: SortBy | None = None,
    compression: str = "zstd",
    compression_level: int | None = None,
    dictionary: bool | Sequence[str] | None = None,
    progress: Progress | None = None,
    storage_options: StorageOptions | None = None,
) -> WriteReport:
    """Write a table and its indexes to a Parquet file.

    pyarrow writes the rows. Every chunk gets Parquet's page index, with bounds of at most 64 bytes.
    ``indexes`` are built from the table in memory and embedded after the rows, as the same bytes that
    `attach` writes. The file appears, or replaces an existing one, when it is complete.

    Args:
        data: A `pyarrow.Table`, or anything that `pyarrow.table` accepts: a pandas or Polars
            DataFrame, an object with ``__arrow_c_stream__`` such as a `Scan`, a dictionary of columns.
        path: A local path, or the URL of an object.
        indexes: The indexes to embed, such as ``Distinct("country")``.
        rows_per_page: Maximum number of rows per data page, the unit that a lookup reads. A page is also
            limited to 1 MiB.
        row_group_size: Number of rows per row group. By default 1,048,576, or as many as fit into
            ``row_group_bytes``.
        row_group_bytes: Size of a row group in memory, in bytes, if ``row_group_size`` is not given. By
            default 128 MiB.
        sort_by: A column, or several with optional directions, as in ``["a", ("b", "descending")]``. Nulls
            are last. The footer records the order, up to the first floating-point column.
        compression: ``"zstd"``, ``"snappy"``, ``"gzip"``, ``"brotli"``, ``"lz4"`` or ``"none"``.
        compression_level: The codec's level.
        dictionary: True or False for all columns, or the dotted paths of the leaves that get a dictionary.
            By default the leaves whose values repeat in a sample of the first row group.
        progress: Called as ``progress(done, total, label)`` while indexes are built.
        storage_options: Options of the store of a URL, as for `intarsia.open`.

    Returns:
        A report of the written file.

    Raises:
        WriteError: If the rows cannot be written as requested.
        UnsupportedFeatureError: If the data is a scan of a column with a logical type of a later version of
            Parquet, which the new file would lack.
        ColumnNotFoundError: If an index, ``sort_by`` or ``dictionary`` names a column that does not exist.
        IndexBuildError: If an index cannot be built on its columns.
        ReplaceError: If the file cannot be created. After any error, an existing file is untouched.
        ObjectStoreError: If the store of a URL or an option is unknown.

    Example:
        >>> import pyarrow as pa, intarsia as ia, tempfile, os
        >>> cities = pa.table({"city": ["Bern", "Basel"] * 500, "number": range(1000)})
        >>> path = os.path.join(tempfile.mkdtemp(), "cities.parquet")
        >>> report = ia.write_table(cities, path, indexes=[ia.Distinct("city")], sort_by="city")
        >>> report.num_rows, report.built, report.dictionary
        (1000, ('distinct(city):page',), ('city',))
        >>> ia.open(path).scan("city = 'Bern' AND number < 5").to_arrow()["number"].to_pylist()
        [0, 2, 4]
    """
    if isinstance(data, Scan):
        data.refuse_unknown_types()
    table = _as_table(data)
    options = WriteOptions(
        rows_per_page, row_group_size, row_group_bytes, sort_by, compression, compression_level, dictionary
    )
    output = Output(path, table.schema, options, indexes, storage_options)
    try:
        table = output.to_file_schema(table)
        if output.keys:
            table = sorted_rows(table, output.keys)
        step = row_group_size or min(ROW_GROUP_ROWS, _rows_within(table, row_group_bytes))
        for start in range(0, table.num_rows, step):
            output.write_row_group(table.slice(start, step))
        return output.finish(progress, partial(TableColumns, table))
    finally:
        output.discard()


class Writer:
    """A writer of batches to a Parquet file, which builds the indexes when it is closed.

    Rows are collected into row groups, so memory grows with the size of a row group, not of the file.
    Indexes are built from the written rows, one row group at a time. The file appears, or replaces an
    existing one, when the ``with`` block ends. If the block raises an exception, the file is
    discarded.

    Args:
        path: A local path, or the URL of an object.
        schema: The schema of all batches: a `pyarrow.Schema`, or an object with ``__arrow_c_schema__``.
        indexes: The indexes to embed; they are checked against the schema before anything is written.
        rows_per_page: As for `write_table`.
        row_group_size: As for `write_table`; every row group but the last has exactly this number of rows.
        row_group_bytes: As for `write_table`.
        sort_by: As for `write_table`, but rows are sorted only **within each row group**.
        compression: As for `write_table`.
        compression_level: As for `write_table`.
        dictionary: As for `write_table`.
        progress: As for `write_table`.
        storage_options: As for `write_table`.

    Attributes:
        report: The report of the written file; None until it is complete.

    Raises:
        WriteError: If the schema cannot be written as requested.
        ColumnNotFoundError: If an index, ``sort_by`` or ``dictionary`` names a column that does not exist.
        IndexBuildError: If an index cannot be built on its columns.
        ReplaceError: If the file cannot be created.
        ObjectStoreError: If the store of a URL or an option is unknown.

    Example:
        >>> import pyarrow as pa, intarsia as ia, tempfile, os
        >>> path = os.path.join(tempfile.mkdtemp(), "numbers.parquet")
        >>> schema = pa.schema({"number": pa.int64()})
        >>> with ia.Writer(path, schema, indexes=[ia.Distinct("number")], row_group_size=100) as writer:
        ...     for start in range(0, 1000, 50):
        ...         writer.write_batch(pa.record_batch({"number": range(start, start + 50)}))
        >>> writer.report.num_rows, writer.report.num_row_groups
        (1000, 10)
    """

    def __init__(
        self,
        path: str | os.PathLike[str],
        schema: Any,
        *,
        indexes: Attachables = (),
        rows_per_page: int = ROWS_PER_PAGE,
        row_group_size: int | None = None,
        row_group_bytes: int = ROW_GROUP_BYTES,
        sort_by: SortBy | None = None,
        compression: str = "zstd",
        compression_level: int | None = None,
        dictionary: bool | Sequence[str] | None = None,
        progress: Progress | None = None,
        storage_options: StorageOptions | None = None,
    ) -> None:
        options = WriteOptions(
            rows_per_page,
            row_group_size,
            row_group_bytes,
            sort_by,
            compression,
            compression_level,
            dictionary,
        )
        self._schema = _as_schema(schema)
        self._output = Output(path, self._schema, options, indexes, storage_options)
        self._progress = progress
        self._max_rows = row_group_size or ROW_GROUP_ROWS
        self._max_bytes = None if row_group_size else row_group_bytes
        self._pending: list[pa.Table] = []
        self._pending_rows = self._pending_bytes = 0
        self._is_open = True
        self.report: WriteReport | None = None

    def write_batch(self, batch: pa.RecordBatch) -> None:
        """Write the rows of a batch; see `write_table`."""
        if not isinstance(batch, pa.RecordBatch):
            raise NotTabularError(
                f"write_batch expects a pyarrow.RecordBatch, not a {type(batch).__name__}; "
                "write_table accepts tables and data frames",
                reason="not-a-record-batch",
            )
        self.write_table(pa.Table.from_batches([batch]))

    def write_table(self, data: Any) -> None:
        """Write the rows of a table, or of anything that `pyarrow.table` accepts.

        Raises:
            WriteError: If the schema of the rows differs from the writer's, or the writer is closed.
            ReplaceError: If the file cannot be written.
        """
        if not self._is_open:
            path = self._output.path
            raise WriteError("this writer is closed; create a new one", reason="writer-closed", path=path)
        rest = self._checked(_as_table(data))
        while rest.num_rows:  # cut into pieces that complete a row group, and the rest
            piece = rest.slice(0, max(1, self._rows_left(rest)))
            rest = rest.slice(piece.num_rows)
            self._pending.append(piece)
            self._pending_rows += piece.num_rows
            self._pending_bytes += needed_bytes(piece)
            if self._rows_left(piece) <= 0:
                self._flush()

    def close(self) -> WriteReport:
        """Write the remaining rows and the indexes, and make the file visible; can be called twice.

        Returns:
            A report of the written file.
        """
        if self._is_open:
            self._is_open = False
            try:
                self._flush()
                self.report = self._output.finish(self._progress)
            finally:
                self._output.discard()
        if self.report is None:
            path = self._output.path
            raise WriteError(
                "the file was discarded; write it again with a new writer",
                reason="writer-discarded",
                path=path,
            )
        return self.report

    def discard(self) -> None:
        """Discard the file; an existing file at its path is untouched."""
        self._is_open = False
        self._pending = []
        self._output.discard()

    def __enter__(self) -> Writer:
        return self

    def __exit__(self, error_type: type[BaseException] | None, *rest: object) -> None:
        if error_type is None:
            self.close()
        else:
            self.discard()

    def _checked(self, table: pa.Table) -> pa.Table:
        schema = self._schema
        if table.schema.equals(schema):
            return self._output.to_file_schema(table)
        expected = {field.name: field for field in schema}
        unknown = next((field for field in table.schema if field.name not in expected), None)
        other = unknown or next((field for field in table.schema if field != expected[field.name]), None)
        if other is None:
            found = f"it has {table.schema.names}"
        else:
            found = f"{other.name!r} is {'not in it' if other is unknown else other.type}"
        raise WriteError(
            f"the schema of a batch differs from the writer's: {found}; select and cast its columns to "
            f"{', '.join(f'{field.name}: {field.type}' for field in schema)}",
            reason="schema-mismatch",
            path=self._output.path,
            column=other.name if other is not None else None,
        )

    def _rows_left(self, like: pa.Table) -> int:
        """Return the number of rows of this size that still fit into the row group."""
        rows = self._max_rows - self._pending_rows
        if self._max_bytes is None:
            return rows
        return min(rows, _rows_within(like, self._max_bytes - self._pending_bytes))

    def _flush(self) -> None:
        """Write the pending rows as a row group."""
        if not self._pending_rows:
            return
        table = pa.concat_tables(self._pending)
        if len(self._pending) > 1:  # merge small chunks, which may have different dictionaries
            table = table.combine_chunks()
        self._pending, self._pending_rows, self._pending_bytes = [], 0, 0
        if self._output.keys:
            table = sorted_rows(table, self._output.keys)
        self._output.write_row_group(table)


def _as_table(data: Any) -> pa.Table:
    """Convert tabular data to a table."""
    if isinstance(data, pa.Table):
        return data
    try:
        return pa.table(data)
    except IntarsiaError:
        raise
    except pa.ArrowException as error:
        raise WriteError(
            f"these rows cannot be converted to a table: {error}", reason="invalid-table"
        ) from error
    except (TypeError, ValueError) as error:
        raise NotTabularError(
            f"an object of type {type(data).__name__} is not a table; pass a pyarrow.Table, a pandas or "
            "Polars DataFrame, a dictionary of columns, or ia.open(path).scan(), and convert a list of "
            "dictionaries with pyarrow.Table.from_pylist(rows)",
            reason="not-a-table",
        ) from error


def _as_schema(schema: Any) -> pa.Schema:
    try:
        return pa.schema(schema)
    except (TypeError, ValueError) as error:
        raise NotTabularError(
            f"an object of type {type(schema).__name__} is not a schema; pass a pyarrow.Schema, or an object "
            "with __arrow_c_schema__",
            reason="not-a-schema",
        ) from error


def _rows_within(table: pa.Table, num_bytes: int) -> int:
    """Return the number of rows of this size that fit into ``num_bytes``; at least 1 if there is space."""
    if num_bytes <= 0:
        return 0
    if not table.num_rows:
        return ROW_GROUP_ROWS
    return max(1, num_bytes * int(table.num_rows) // max(1, needed_bytes(table)))


class TableColumns(FileColumns):
    """The columns of a file, taken from the table that was written to it.

    Indexes describe the values that readers get. A column is therefore read back from the file if Parquet
    changes its type or could change its values.

    Args:
        table: The table, with its rows in the order of the file.
    """

    def __init__(
        self, table: pa.Table, file: ParquetInput, first_rows: Callable[[ChunkKey], Rows | None]
    ) -> None:
        super().__init__(file, first_rows)
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
    of = pa.types
    numbers = of.is_boolean, of.is_integer, of.is_floating, of.is_decimal, of.is_date32
    texts = of.is_string, of.is_large_string, of.is_binary, of.is_large_binary, of.is_fixed_size_binary
    return any(check(data_type) for check in (*numbers, *texts))
