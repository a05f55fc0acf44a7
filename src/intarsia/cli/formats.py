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
    form: Format, sink: IO[bytes], schema: pa.Schema, *, is_file: bool = False, shown: int | None = None
) -> RowWriter:
    """Return the writer for a format.

    Args:
        form: The format.
        sink: The output.
        schema: The schema of the batches.
        is_file: Whether the sink is a file instead of a stream; Arrow has two formats.
        shown: Maximum number of rows in a table; None for all.
    """
    if form is Format.TABLE:
        return _TableWriter(sink, schema, shown)
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
    """A writer of a table with the first rows and the number of rows."""

    def __init__(self, sink: IO[bytes], schema: pa.Schema, most: int | None) -> None:
        self._sink = sink
        self._schema = schema
        self._most = sys.maxsize if most is None else most
        self._shown: list[pa.RecordBatch] = []
        self._rows = 0

    def write(self, batch: pa.RecordBatch) -> None:
        if self._rows < self._most:
            self._shown.append(batch.slice(0, self._most - self._rows))
        self._rows += batch.num_rows

    def close(self) -> None:
        columns = [
            [cell for batch in self._shown for cell in table_cells(batch.column(ordinal))]
            for ordinal in range(len(self._schema))
        ]
        for line in _lines(self._schema, columns):
            self._sink.write(line.encode() + b"\n")
        if self._rows > self._most:
            note = f"({self._most} of {count(self._rows, 'row')}; use --limit or another --format for more)\n"
            self._sink.write(note.encode())


def _lines(schema: pa.Schema, columns: list[list[str]]) -> Iterable[str]:
    """Yield the lines of a table; on a terminal, with the columns that fit."""
    out = console()
    limit = CELL_WIDTH if out.is_terminal else None
    shown: list[list[str]] = []
    room = out.width
    for field, column in zip(schema, columns, strict=True):
        cells = [_cut(cell, limit) for cell in (text(field.name), *column)]
        width = max(map(_cell_width, cells))
        if shown and width > room:
            break
        room -= width + 2
        shown.append([_pad(cell, width, right=_is_number(field.type)) for cell in cells])
    for row in zip(*shown, strict=True):
        yield "  ".join(row).rstrip()
    hidden = len(columns) - len(shown)
    if hidden:
        names = ", ".join(schema.names[-hidden:])
        yield f"(and {count(hidden, 'column')} that do not fit in the terminal: {names})"


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
