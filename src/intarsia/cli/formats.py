"""Writers of rows, one for each output format."""

from __future__ import annotations

import json
import sys
from collections.abc import Iterable
from enum import Enum
from typing import IO, Protocol

import pyarrow as pa

from intarsia.cli.cells import csv_column, json_values, table_cells, text
from intarsia.cli.terminal import console
from intarsia.read.amounts import count

#: Maximum characters of a table cell on a terminal.
CELL_WIDTH = 48

#: A table is laid out and written in blocks of at least this number of rows.
BLOCK_ROWS = 10_000


class Format(str, Enum):
    """The output formats of rows."""

    TABLE = "table"
    CSV = "csv"
    JSON = "json"
    JSONL = "jsonl"
    ARROW = "arrow"
    PARQUET = "parquet"

    @property
    def is_binary(self) -> bool:
        """Whether the format is unsuitable for a terminal."""
        return self in (Format.ARROW, Format.PARQUET)


class RowWriter(Protocol):
    """A writer of batches of one schema."""

    def write(self, batch: pa.RecordBatch) -> None:
        """Write some rows."""
        ...

    def close(self) -> None:
        """Finish after the last batch."""
        ...


def writer(
    form: Format,
    sink: IO[bytes],
    schema: pa.Schema,
    *,
    is_file: bool = False,
    shown: int | None = None,
    is_counted: bool = True,
) -> RowWriter:
    """Return the writer for a format.

    Args:
        form: The format.
        sink: The output.
        schema: The schema of the batches.
        is_file: Whether the sink is a file instead of a stream; Arrow has two formats.
        shown: Maximum number of rows in a table; None for all.
        is_counted: Whether all rows are passed, so that a table can end with their number.
    """
    if form is Format.TABLE:
        return _TableWriter(sink, schema, shown, is_counted=is_counted)
    if form is Format.CSV:
        return _CsvWriter(sink, schema)
    if form in (Format.JSON, Format.JSONL):
        return _JsonWriter(sink, schema, in_array=form is Format.JSON)
    if form is Format.PARQUET:
        import pyarrow.parquet as pq

        return _ArrowWriter(pq.ParquetWriter(sink, schema))
    return _ArrowFileWriter(sink, schema) if is_file else _ArrowWriter(pa.ipc.new_stream(sink, schema))


class _ArrowWriter:
    """A writer of Arrow streams or Parquet."""

    def __init__(self, target: pa.ipc.RecordBatchFileWriter) -> None:
        self._target = target

    def write(self, batch: pa.RecordBatch) -> None:
        self._target.write_batch(batch)

    def close(self) -> None:
        self._target.close()


class _ArrowFileWriter(_ArrowWriter):
    """A writer of Arrow files, which allow one dictionary per column, so dictionaries are decoded."""

    def __init__(self, sink: IO[bytes], schema: pa.Schema) -> None:
        self._schema = pa.schema([_plain(field) for field in schema], metadata=schema.metadata)
        super().__init__(pa.ipc.new_file(sink, self._schema))

    def write(self, batch: pa.RecordBatch) -> None:
        super().write(batch.cast(self._schema))


def _plain(field: pa.Field) -> pa.Field:
    """Return the field without dictionaries, including inside structs and lists."""
    data_type = field.type
    if pa.types.is_dictionary(data_type):
        return field.with_type(data_type.value_type)
    if pa.types.is_struct(data_type):
        return field.with_type(pa.struct([_plain(child) for child in data_type]))
    if pa.types.is_list(data_type):
        return field.with_type(pa.list_(_plain(data_type.value_field)))
    if pa.types.is_large_list(data_type):
        return field.with_type(pa.large_list(_plain(data_type.value_field)))
    return field


class _CsvWriter:
    """A writer of CSV with a header; null is an empty field, an empty string is ``""``."""

    def __init__(self, sink: IO[bytes], schema: pa.Schema) -> None:
        import pyarrow.csv

        empty = [csv_column(pa.nulls(0, field.type)) for field in schema]
        self._schema = pa.schema(
            [(field.name, column.type) for field, column in zip(schema, empty, strict=True)]
        )
        self._target = pyarrow.csv.CSVWriter(sink, self._schema)

    def write(self, batch: pa.RecordBatch) -> None:
        columns = [csv_column(column) for column in batch.columns]
        self._target.write_batch(pa.RecordBatch.from_arrays(columns, schema=self._schema))

    def close(self) -> None:
        self._target.close()


class _JsonWriter:
    """A writer of JSON objects, one per line, in an array or separate."""

    def __init__(self, sink: IO[bytes], schema: pa.Schema, *, in_array: bool) -> None:
        self._sink = sink
        self._names = schema.names
        self._in_array = in_array
        self._between = b"[\n" if in_array else b""

    def write(self, batch: pa.RecordBatch) -> None:
        for row in zip(*map(json_values, batch.columns), strict=True):
            line = json.dumps(dict(zip(self._names, row, strict=True)), ensure_ascii=False, allow_nan=False)
            self._sink.write(self._between + line.encode())
            self._between = b",\n" if self._in_array else b"\n"

    def close(self) -> None:
        if self._in_array:
            self._sink.write(b"[]\n" if self._between == b"[\n" else b"\n]\n")
        elif self._between:
            self._sink.write(b"\n")


class _TableWriter:
    """A writer of a table with the first rows, or all rows, block by block."""

    def __init__(self, sink: IO[bytes], schema: pa.Schema, most: int | None, *, is_counted: bool) -> None:
        self._sink = sink
        self._schema = schema
        self._most = sys.maxsize if most is None else most
        self._is_counted = is_counted
        self._block: list[pa.RecordBatch] = []
        self._block_rows = 0
        self._rows = 0
        self._layout = _Layout(schema)

    def write(self, batch: pa.RecordBatch) -> None:
        shown = batch.slice(0, max(0, self._most - self._rows))
        self._rows += batch.num_rows
        for start in range(0, shown.num_rows, BLOCK_ROWS):
            self._block.append(shown.slice(start, BLOCK_ROWS))
            self._block_rows += self._block[-1].num_rows
            if self._block_rows >= BLOCK_ROWS:
                self._write_block()

    def _write_block(self) -> None:
        columns = [
            [cell for batch in self._block for cell in table_cells(batch.column(ordinal))]
            for ordinal in range(len(self._schema))
        ]
        self._write_lines(self._layout.lines(columns))
        self._block, self._block_rows = [], 0

    def close(self) -> None:
        self._write_block()
        self._write_lines(self._layout.notes())
        if self._rows > self._most:
            shown = f"{self._most} of {count(self._rows, 'row')}"
            shown = shown if self._is_counted else f"the first {count(self._most, 'row')}"
            self._write_lines([f"({shown}; use --limit or another --format for more)"])

    def _write_lines(self, lines: Iterable[str]) -> None:
        for line in lines:
            self._sink.write(line.encode() + b"\n")


class _Layout:
    """The widths of the columns of a table. Each block of rows is at least as wide as those before it."""

    def __init__(self, schema: pa.Schema) -> None:
        self._schema = schema
        out = console()
        self._limit = CELL_WIDTH if out.is_terminal else None
        self._room = out.width
        self._widths: list[int] | None = None

    def lines(self, columns: list[list[str]]) -> Iterable[str]:
        """Yield the lines of a block, the names of the columns first; on a terminal, the columns that fit."""
        if self._widths is None:
            columns = [
                [text(field.name), *column] for field, column in zip(self._schema, columns, strict=True)
            ]
        columns = [[_cut(cell, self._limit) for cell in column] for column in columns]
        needed = [max(map(_cell_width, column), default=0) for column in columns]
        if self._widths is None:
            self._widths = self._fitting(needed)
        else:
            self._widths = [max(widths) for widths in zip(self._widths, needed, strict=False)]
        shown = [
            [_pad(cell, width, right=_is_number(field.type)) for cell in column]
            for field, column, width in zip(self._schema, columns, self._widths, strict=False)
        ]
        for row in zip(*shown, strict=True):
            yield "  ".join(row).rstrip()

    def notes(self) -> Iterable[str]:
        """Yield the line about columns that do not fit, if there are any."""
        hidden = len(self._schema) - len(self._widths or ())
        if hidden:
            names = ", ".join(self._schema.names[-hidden:])
            yield f"(and {count(hidden, 'column')} that do not fit in the terminal: {names})"

    def _fitting(self, widths: list[int]) -> list[int]:
        """Return the widths of the first columns that fit; at least one."""
        room, fitting = self._room, list[int]()
        for width in widths:
            if fitting and width > room:
                break
            room -= width + 2
            fitting.append(width)
        return fitting


def _cut(cell: str, limit: int | None) -> str:
    return cell if limit is None or len(cell) <= limit else cell[: limit - 1] + "…"


def _cell_width(cell: str) -> int:
    from rich.cells import cell_len

    return cell_len(cell)


def _pad(cell: str, width: int, *, right: bool) -> str:
    space = " " * (width - _cell_width(cell))
    return space + cell if right else cell + space


def _is_number(data_type: pa.DataType) -> bool:
    return any(test(data_type) for test in (pa.types.is_integer, pa.types.is_floating, pa.types.is_decimal))
