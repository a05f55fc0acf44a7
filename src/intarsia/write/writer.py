"""Parquet files with indexes, written in one pass: whole tables, and batches as they come."""

from __future__ import annotations

import os
from collections.abc import Iterator, Sequence
from functools import partial
from typing import Any

import pyarrow as pa

from intarsia.embed.attach import Attachables
from intarsia.embed.progress import Progress
from intarsia.errors import IntarsiaError, NotTabularError, WriteError
from intarsia.write.output import ROWS_PER_PAGE, Form, Output
from intarsia.write.report import WriteReport
from intarsia.write.sorting import SortBy, sorted_rows
from intarsia.write.table_columns import TableColumns

#: Rows of a row group at most, where nobody says how many.
_ROW_GROUP_ROWS = 1 << 20

#: Arrow data of a row group at most, where nobody says how many rows; a `Writer` holds about twice that.
_ROW_GROUP_BYTES = 128 << 20


def write_table(
    data: Any,
    path: str | os.PathLike[str],
    *,
    indexes: Attachables = (),
    rows_per_page: int = ROWS_PER_PAGE,
    row_group_size: int | None = None,
    sort_by: SortBy | None = None,
    compression: str = "zstd",
    compression_level: int | None = None,
    dictionary: bool | Sequence[str] | None = None,
    progress: Progress | None = None,
) -> WriteReport:
    """Write a table to a Parquet file, indexes included.

    pyarrow writes the rows; every chunk gets Parquet's page index, its bounds cut to 64 bytes; ``indexes``
    are built from the table in memory and laid behind the rows, as `attach` would lay them.  The file
    appears, or takes the place of an older one, when it is whole.

    Args:
        data: A `pyarrow.Table`, or what `pyarrow.table` makes one of: a frame of pandas or polars, anything
            with ``__arrow_c_stream__``, a dictionary of columns.
        path: A local path, or the URL of an object.
        indexes: What to inlay, such as ``Distinct("country")``.
        rows_per_page: Rows of a data page at most, which is what a lookup reads; a page also ends at 1 MiB.
        row_group_size: Rows of a row group; if not given, 1,048,576 or what holds 128 MiB, whichever is less.
        sort_by: A column, or several with perhaps a direction, as in ``["a", ("b", "descending")]``.  Nulls
            come last, and the footer says how rows are sorted (up to the first floating-point column).
        compression: ``"zstd"``, ``"snappy"``, ``"gzip"``, ``"brotli"``, ``"lz4"`` or ``"none"``.
        compression_level: The codec's level.
        dictionary: True or False for all columns, or the leaves that get a dictionary, dotted; if not given,
            those whose values repeat, judged by a sample of the first row group.
        progress: Called as ``progress(done, total, label)`` while indexes are built.

    Returns:
        What was written.

    Raises:
        WriteError: If the rows cannot be written as asked.
        ColumnNotFoundError: If an index, ``sort_by`` or ``dictionary`` names a column that is not there.
        IndexBuildError: If an index cannot be built on its columns.
        ReplaceError: If there can be no such file.  In each case there is none, or the old one as it was.

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
    table = _as_table(data)
    form = Form(rows_per_page, row_group_size, sort_by, compression, compression_level, dictionary)
    output = Output(path, table.schema, form, indexes)
    try:
        table = output.as_written(table)
        if output.keys:
            table = sorted_rows(table, output.keys)
        step = row_group_size or min(_ROW_GROUP_ROWS, _rows_within(table, _ROW_GROUP_BYTES))
        for start in range(0, table.num_rows, step):
            output.write_row_group(table.slice(start, step))
        return output.finish(progress, partial(TableColumns, table))
    finally:
        output.discard()


class Writer:
    """Writes batches to a Parquet file, and indexes when it is closed.

    Rows are gathered into row groups, so memory grows with a row group and not with the file; indexes are
    built from what was written, one row group at a time.  The file appears, or takes the place of an older
    one, when the ``with`` block ends; if it ends with an exception, nothing is left of it.

    Args:
        path: A local path, or the URL of an object.
        schema: The schema of all batches: a `pyarrow.Schema`, or what has ``__arrow_c_schema__``.
        indexes: What to inlay; checked against the schema before anything is written.
        rows_per_page: As for `write_table`.
        row_group_size: As for `write_table`; exactly so many rows, but for the last row group.
        sort_by: As for `write_table`, but rows are sorted **within each row group** only.
        compression: As for `write_table`.
        compression_level: As for `write_table`.
        dictionary: As for `write_table`.
        progress: As for `write_table`.

    Attributes:
        report: What was written; None until the file is in place.

    Raises:
        WriteError: If the schema cannot be written as asked.
        ColumnNotFoundError: If an index, ``sort_by`` or ``dictionary`` names a column that is not there.
        IndexBuildError: If an index cannot be built on its columns.
        ReplaceError: If there can be no such file.

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
        sort_by: SortBy | None = None,
        compression: str = "zstd",
        compression_level: int | None = None,
        dictionary: bool | Sequence[str] | None = None,
        progress: Progress | None = None,
    ) -> None:
        form = Form(rows_per_page, row_group_size, sort_by, compression, compression_level, dictionary)
        self._schema = pa.schema(schema)
        self._output = Output(path, self._schema, form, indexes)
        self._progress = progress
        self._most_rows = row_group_size or _ROW_GROUP_ROWS
        self._most_bytes = None if row_group_size else _ROW_GROUP_BYTES
        self._pending: list[pa.Table] = []
        self._pending_rows = self._pending_bytes = 0
        self._is_open = True
        self.report: WriteReport | None = None

    def write_batch(self, batch: pa.RecordBatch) -> None:
        """Write the rows of a batch; see `write_table`."""
        if not isinstance(batch, pa.RecordBatch):
            raise NotTabularError(
                f"write_batch takes a pyarrow.RecordBatch, and this is a {type(batch).__name__}; "
                "write_table takes tables and frames"
            )
        self.write_table(pa.Table.from_batches([batch]))

    def write_table(self, data: Any) -> None:
        """Write the rows of a table, or of anything that `pyarrow.table` makes one of.

        Raises:
            WriteError: If the rows are not of the writer's schema, or it is closed.
            ReplaceError: If the system refuses.
        """
        if not self._is_open:
            raise WriteError(f"{self._output.path}: this writer is closed; make another one")
        for piece in self._cut(self._of_schema(_as_table(data))):
            self._pending.append(piece)
            self._pending_rows += piece.num_rows
            self._pending_bytes += piece.nbytes
            if self._rows_left(piece) <= 0:
                self._flush()

    def close(self) -> WriteReport:
        """Write what is left and the indexes, and put the file in place; closing twice is harmless.

        Returns:
            What was written.
        """
        if self._is_open:
            self._is_open = False
            try:
                self._flush()
                self.report = self._output.finish(self._progress)
            finally:
                self._output.discard()
        if self.report is None:
            raise WriteError(f"{self._output.path}: writing was given up; there is no such file")
        return self.report

    def discard(self) -> None:
        """Give up: nothing is left of the file."""
        self._is_open = False
        self._pending = []
        self._output.discard()

    def __enter__(self) -> Writer:
        return self

    def __exit__(self, kind: type[BaseException] | None, *rest: object) -> None:
        if kind is None:
            self.close()
        else:
            self.discard()

    def _of_schema(self, table: pa.Table) -> pa.Table:
        schema = self._schema
        if table.schema.equals(schema):
            return self._output.as_written(table)
        expected = {field.name: field for field in schema}
        other = next((field for field in table.schema if field != expected.get(field.name)), None)
        what = f"{other.name!r} is {other.type}" if other is not None else f"it has {table.schema.names}"
        raise WriteError(
            f"{self._output.path}: a batch is not of the writer's schema: {what}; select and cast its "
            f"columns to {', '.join(map(str, schema))}"
        )

    def _cut(self, table: pa.Table) -> Iterator[pa.Table]:
        """The table in pieces that complete a row group, and what is left; none without rows."""
        start = 0
        while start < table.num_rows:
            rest = table.slice(start)
            piece = rest.slice(0, max(1, self._rows_left(rest)))
            yield piece
            start += piece.num_rows

    def _rows_left(self, like: pa.Table) -> int:
        """How many more rows the row group takes, if they are as large as these."""
        rows = self._most_rows - self._pending_rows
        if self._most_bytes is None:
            return rows
        return min(rows, _rows_within(like, self._most_bytes - self._pending_bytes))

    def _flush(self) -> None:
        """Write what is pending as a row group."""
        if not self._pending_rows:
            return
        table = pa.concat_tables(self._pending)
        if len(self._pending) > 1:  # else small chunks, each perhaps with a dictionary of its own
            table = table.combine_chunks()
        self._pending, self._pending_rows, self._pending_bytes = [], 0, 0
        if self._output.keys:
            table = sorted_rows(table, self._output.keys)
        self._output.write_row_group(table)


def _as_table(data: Any) -> pa.Table:
    """The table that something is, or that pyarrow makes of it."""
    if isinstance(data, pa.Table):
        return data
    try:
        return pa.table(data)
    except IntarsiaError:
        raise
    except pa.ArrowException as error:
        raise WriteError(f"no table can be made of these rows: {error}") from error
    except (TypeError, ValueError) as error:
        raise NotTabularError(
            f"a {type(data).__name__} is no table; pass a pyarrow.Table, a frame of pandas or polars, or a "
            "dictionary of columns; rows that are dictionaries become one by pyarrow.Table.from_pylist(rows)"
        ) from error


def _rows_within(table: pa.Table, num_bytes: int) -> int:
    """How many rows like these take so many bytes; 1 at least, if there is any room."""
    if num_bytes <= 0:
        return 0
    return max(1, num_bytes * table.num_rows // max(1, table.nbytes)) if table.num_rows else _ROW_GROUP_ROWS
