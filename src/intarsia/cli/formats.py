"""Write rows in a format, to stdout or to a file that is created atomically."""

from __future__ import annotations

import contextlib
import json
import math
import os
import secrets
import stat
import sys
from collections.abc import Callable, Iterator
from functools import partial
from itertools import accumulate, islice
from pathlib import Path
from typing import IO, Any, Final, Literal, Protocol

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from intarsia.amounts import count, cut
from intarsia.arrow.nested import with_leaves
from intarsia.cli.terminal import PIPE_WIDTH, console, is_piped, naming_output, printable
from intarsia.errors import UnsupportedFeatureError
from intarsia.predicate.literals import render_literal

#: Maximum characters of a table cell on a terminal.
CELL_WIDTH = 48

#: Maximum bytes of a value in an error.
_SHOWN_BYTES: Final = 20

#: A table is laid out and written in blocks of at least this number of rows.
BLOCK_ROWS = 10_000


#: The output formats of rows; the last two are unsuitable for a terminal.
Format = Literal["table", "csv", "json", "jsonl", "arrow", "parquet"]
BINARY: Final = ("arrow", "parquet")


class RowWriter(Protocol):
    """A writer of batches of one schema; those of Arrow are such writers."""

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
    if form == "table":
        return _TableWriter(sink, schema, shown, is_counted=is_counted)
    if form in ("json", "jsonl"):
        return _JsonWriter(sink, schema, in_array=form == "json")
    if form == "csv":
        import pyarrow.csv

        empty = [csv_column(pa.nulls(0, field.type)) for field in schema]
        texts = pa.schema([(field.name, column.type) for field, column in zip(schema, empty, strict=True)])
        return _ConvertedWriter(
            pyarrow.csv.CSVWriter(sink, texts),
            lambda batch: pa.RecordBatch.from_arrays(_each_column(csv_column, batch), schema=texts),
        )
    if form == "parquet":
        return _parquet_writer(sink, schema)
    if not is_file:
        return pa.ipc.new_stream(sink, schema)  # type: ignore[no-any-return]
    # Arrow files allow one dictionary per column, so dictionaries are decoded
    plain = pa.schema(
        [field.with_type(with_leaves(field.type, _decoded)) for field in schema], metadata=schema.metadata
    )
    return _ConvertedWriter(pa.ipc.new_file(sink, plain), lambda batch: batch.cast(plain))


def _parquet_writer(sink: IO[bytes], schema: pa.Schema) -> RowWriter:
    import pyarrow.parquet as pq

    class _QuietWriter(pq.ParquetWriter):
        def __del__(self) -> None:
            """Do not complete a file after an error, as pyarrow's finalizer does; a file is then closed."""

    return _QuietWriter(sink, schema)


class _ConvertedWriter:
    """A writer that converts batches before another writer takes them."""

    def __init__(self, target: RowWriter, convert: Callable[[pa.RecordBatch], pa.RecordBatch]) -> None:
        self._target = target
        self._convert = convert

    def write(self, batch: pa.RecordBatch) -> None:
        self._target.write(self._convert(batch))

    def close(self) -> None:
        self._target.close()


def _decoded(data_type: pa.DataType) -> pa.DataType:
    """Return the type of the values of a dictionary, or another type itself."""
    return data_type.value_type if pa.types.is_dictionary(data_type) else data_type


class _JsonWriter:
    """A writer of JSON objects, one per line, in an array or separate."""

    def __init__(self, sink: IO[bytes], schema: pa.Schema, *, in_array: bool) -> None:
        self._sink = sink
        self._names = schema.names
        self._in_array = in_array
        self._between = b"[\n" if in_array else b""

    def write(self, batch: pa.RecordBatch) -> None:
        for row in zip(*_each_column(json_values, batch), strict=True):
            line = json.dumps(dict(zip(self._names, row, strict=True)), ensure_ascii=False, allow_nan=False)
            self._sink.write(self._between + line.encode())
            self._between = b",\n" if self._in_array else b"\n"

    def close(self) -> None:
        if self._in_array:
            self._sink.write(b"[]\n" if self._between == b"[\n" else b"\n]\n")
        elif self._between:
            self._sink.write(b"\n")


class _TableWriter:
    """A writer of a table with the first rows, or all rows, block by block.

    Each block of rows is at least as wide as those before it.
    """

    def __init__(self, sink: IO[bytes], schema: pa.Schema, most: int | None, *, is_counted: bool) -> None:
        self._sink = sink
        self._schema = schema
        self._most = sys.maxsize if most is None else most
        self._is_counted = is_counted
        self._block: list[pa.RecordBatch] = []
        self._rows = 0
        self._widths: list[int] | None = None
        # rich takes 30 ms to load
        self._width = PIPE_WIDTH if is_piped(sys.stdout) else console().width

    def write(self, batch: pa.RecordBatch) -> None:
        shown = batch.slice(0, max(0, self._most - self._rows))
        self._rows += batch.num_rows
        for start in range(0, shown.num_rows, BLOCK_ROWS):
            self._block.append(shown.slice(start, BLOCK_ROWS))
            if sum(piece.num_rows for piece in self._block) >= BLOCK_ROWS:
                self._write_block()

    def close(self) -> None:
        self._write_block()
        hidden = self._schema.names[len(self._widths or ()) :]
        if hidden:
            columns = count(len(hidden), "column")
            self._write_line(f"(and {columns} that do not fit in the terminal: {', '.join(hidden)})")
        if self._rows > self._most:
            shown = f"{self._most} of {count(self._rows, 'row')}"
            shown = shown if self._is_counted else f"the first {count(self._most, 'row')}"
            self._write_line(f"({shown}; use --limit or another --format for more)")

    def _write_block(self) -> None:
        """Write the rows of the block, names of columns first; on a terminal, the columns that fit."""
        columns = [[text(field.name)] if self._widths is None else [] for field in self._schema]
        for batch in self._block:
            for column, cells in zip(columns, _each_column(table_cells, batch), strict=True):
                column += cells
        self._block = []
        if sys.stdout.isatty():
            columns = [[cut(cell, CELL_WIDTH) for cell in column] for column in columns]
        needed = [max(map(_cell_width, column), default=0) for column in columns]
        if self._widths is None:  # the first columns that fit, with two spaces between them; at least one
            totals = accumulate(width + 2 for width in needed)
            self._widths = needed[: max(1, sum(total <= self._width + 2 for total in totals))]
        else:
            self._widths = [max(widths) for widths in zip(self._widths, needed, strict=False)]
        padded = [
            [_pad(cell, width, right=_is_number(field.type)) for cell in column]
            for field, column, width in zip(self._schema, columns, self._widths, strict=False)
        ]
        for row in zip(*padded, strict=True):
            self._write_line("  ".join(row).rstrip())

    def _write_line(self, line: str) -> None:
        self._sink.write(line.encode() + b"\n")


def _cell_width(cell: str) -> int:
    if cell.isascii():  # control characters are escaped
        return len(cell)
    from rich.cells import cell_len

    return cell_len(cell)


def _pad(cell: str, width: int, *, right: bool) -> str:
    space = " " * (width - _cell_width(cell))
    return space + cell if right else cell + space


def _is_number(data_type: pa.DataType) -> bool:
    return any(test(data_type) for test in (pa.types.is_integer, pa.types.is_floating, pa.types.is_decimal))


# --- values -----------------------------------------------------------------------------------------------

_TRAILING_ZEROS = r"(\.\d*?)0+(Z|[+-]\d{4}|$)"
_EMPTY_FRACTION = r"\.(Z|[+-]\d{4}|$)"
_OFFSET = r"([+-]\d{2})(\d{2})$"

_UNITS_PER_DAY: Final = {"s": 86_400, "ms": 86_400 * 10**3, "us": 86_400 * 10**6, "ns": 86_400 * 10**9}

#: The days since 1970-01-01 of the years 0 to 9999.
_PLAIN_DAYS: Final = range(-719_528, 2_932_897)
#: Those of the years -32766 to 32766; Arrow prints others as another year or as an error.
_ARROW_DAYS: Final = range(-12_687_063, 11_248_373)

_BINARY = (
    pa.types.is_binary,
    pa.types.is_large_binary,
    pa.types.is_fixed_size_binary,
    pa.types.is_binary_view,
)


def json_values(array: pa.Array) -> list[Any]:
    """Convert the values of an array to JSON values.

    Times are ISO 8601 strings, decimals are strings (to keep all digits), bytes are hexadecimal, durations
    are integers in the column's unit, and NaN and infinities are null, as in JavaScript.

    Example:
        >>> import pyarrow as pa
        >>> json_values(pa.array([1_500_000, None], pa.timestamp("us", "UTC")))
        ['1970-01-01T00:00:01.5Z', None]
    """
    data_type, of = array.type, pa.types
    if isinstance(array, pa.ExtensionArray):
        is_uuid = data_type.extension_name == "arrow.uuid"
        return _each(str, array) if is_uuid else json_values(array.storage)
    if of.is_dictionary(data_type):
        return json_values(array.dictionary_decode())
    if of.is_floating(data_type):
        return _each(lambda value: value if math.isfinite(value) else None, array)
    if of.is_decimal(data_type):
        return _each(str, array)
    if _is_binary(data_type):
        return _each(bytes.hex, array)
    if of.is_struct(data_type):
        return _structs(array)
    if of.is_map(data_type):
        return _maps(array)
    if of.is_nested(data_type):
        return _runs(iter(json_values(array.flatten())), pc.list_value_length(array))
    if of.is_timestamp(data_type):
        array = _iso(array)
    elif of.is_date(data_type):
        array = _dates(array)
    elif of.is_time(data_type):
        array = _without_zeros(array.cast(pa.string()))
    elif of.is_duration(data_type):
        array = array.cast(pa.int64())
    return array.to_pylist()  # type: ignore[no-any-return]


def _each(convert: Callable[[Any], Any], array: pa.Array) -> list[Any]:
    return [None if value is None else convert(value) for value in array.to_pylist()]


def _is_binary(data_type: pa.DataType) -> bool:
    return any(test(data_type) for test in _BINARY)


def _dates(array: pa.Array) -> pa.Array:
    """Convert dates and timestamps to text. Years outside 0 to 9999 have a sign, and their times are in UTC.

    Arrow prints some of these years without a sign, others as another year, and fails at a few.
    """
    far = _outside(array, _PLAIN_DAYS)
    if not far.any():
        return array.cast(pa.string())
    texts = pc.if_else(pa.array(far), None, array).cast(pa.string()).to_pylist()
    for place in np.flatnonzero(far).tolist():
        # as in SQL text: DATE '…' and TIMESTAMP '…'
        texts[place] = render_literal(array[place]).split("'")[1]
    return pa.array(texts, pa.string())


def _outside(array: pa.Array, plain: range) -> np.ndarray:
    """Return whether each date or timestamp is, in UTC, outside a range of days."""
    data_type = array.type
    if pa.types.is_date32(data_type):
        array, units = array.cast(pa.int32()), 1
    else:
        units = _UNITS_PER_DAY[getattr(data_type, "unit", "ms")]
    days = pc.fill_null(array.cast(pa.int64()), 0).to_numpy(zero_copy_only=False) // units
    return np.asarray((days < plain.start) | (days >= plain.stop))


def _iso(array: pa.Array) -> pa.Array:
    text = pc.replace_substring(_without_zeros(_dates(array)), " ", "T", max_replacements=1)
    return text if array.type.tz is None else pc.replace_substring_regex(text, _OFFSET, r"\1:\2")


def _without_zeros(text: pa.Array) -> pa.Array:
    text = pc.replace_substring_regex(text, _TRAILING_ZEROS, r"\1\2")
    return pc.replace_substring_regex(text, _EMPTY_FRACTION, r"\1")


def _structs(array: pa.Array) -> list[Any]:
    names = [field.name for field in array.type]
    fields = [json_values(child) for child in array.flatten()]
    rows = zip(*fields, strict=True) if fields else ((),) * len(array)
    valid = array.is_valid().to_pylist()
    return [
        dict(zip(names, row, strict=True)) if is_valid else None
        for row, is_valid in zip(rows, valid, strict=True)
    ]


def _maps(array: pa.Array) -> list[Any]:
    """Convert maps to objects if the keys are strings, else to lists of pairs."""
    entries = array.cast(pa.list_(pa.struct([array.type.key_field, array.type.item_field])))
    keys, items = map(json_values, entries.flatten().flatten())
    rows = _runs(zip(keys, items, strict=True), pc.list_value_length(entries))
    if pa.types.is_string(array.type.key_type) or pa.types.is_large_string(array.type.key_type):
        return [None if row is None else dict(row) for row in rows]
    return [None if row is None else [list(pair) for pair in row] for row in rows]


def _runs(values: Iterator[Any], lengths: pa.Array) -> list[Any]:
    return _each(lambda length: list(islice(values, length)), lengths)


def _each_column(convert: Callable[[pa.Array], Any], batch: pa.RecordBatch) -> list[Any]:
    """Convert the columns of a batch.

    Raises:
        UnsupportedFeatureError: If text in a column is not UTF-8, or as `csv_column`.
    """

    def converted(name: str, array: pa.Array) -> Any:
        try:
            return convert(array)
        except UnicodeDecodeError as error:
            raise UnsupportedFeatureError(
                f"column {name!r} contains text that is not UTF-8: {error.object[:_SHOWN_BYTES]!r}; leave "
                "the column out, or write --format arrow",
                reason="not-utf8",
                column=name,
            ) from error
        except UnsupportedFeatureError as error:
            error.at(column=name)
            raise

    return list(map(converted, batch.schema.names, batch.columns))


def text(value: Any) -> str:
    """Format a JSON value for a table cell, with control characters escaped."""
    if value is None or isinstance(value, bool):
        return json.dumps(value)
    if isinstance(value, (dict, list)):
        return printable(json.dumps(value, ensure_ascii=False))
    return printable(str(value))


def table_cells(array: pa.Array) -> list[str]:
    """Format the values of a column for a table. NaN and infinities are not null, as they are in JSON.

    Example:
        >>> import pyarrow as pa
        >>> table_cells(pa.array([1.5, float("nan"), None]))
        ['1.5', 'nan', 'null']
    """
    if pa.types.is_dictionary(array.type):
        return table_cells(array.dictionary_decode())
    values = array.to_pylist() if pa.types.is_floating(array.type) else json_values(array)
    return [text(value) for value in values]


def csv_column(array: pa.Array) -> pa.Array:
    """Convert a column for CSV: nested values to JSON, bytes to hexadecimal.

    Raises:
        UnsupportedFeatureError: If Arrow, which writes the file, would write another date.
    """
    data_type = array.type
    if pa.types.is_dictionary(data_type):
        return csv_column(array.dictionary_decode())
    if pa.types.is_string_view(data_type):
        return array.cast(pa.large_string())
    if pa.types.is_date(data_type) or pa.types.is_timestamp(data_type):
        far = _outside(array, _ARROW_DAYS)
        if far.any():
            value = render_literal(array[int(far.argmax())])
            raise UnsupportedFeatureError(
                f"{value} cannot be written as CSV, which has the years -32766 to 32766; leave the column "
                "out, or write --format json",
                reason="year-out-of-range",
            )
        return array
    convert: Callable[[Any], str] = text
    if pa.types.is_nested(data_type):
        convert = partial(json.dumps, ensure_ascii=False)
    elif not _is_binary(data_type) and not isinstance(array, pa.ExtensionArray):
        return array
    return pa.array([None if value is None else convert(value) for value in json_values(array)], pa.string())


# --- outputs ----------------------------------------------------------------------------------------------


@contextlib.contextmanager
def open_sink(output: str | None) -> Iterator[IO[bytes]]:
    """Open stdout, or a file that gets its name only when it is complete."""
    if output is None:
        yield sys.stdout.buffer
        sys.stdout.buffer.flush()
        return
    output = output or os.curdir  # the real path of an empty name is this folder, which is refused
    try:
        old_mode = os.stat(output).st_mode
    except FileNotFoundError:
        old_mode = stat.S_IFREG | 0o666
    if not stat.S_ISREG(old_mode):  # a device or a pipe
        with naming_output(output), open(output, "wb") as sink:
            yield sink
        return
    target = Path(os.path.realpath(output))
    name = str(target.parent / f".{target.name}.{secrets.token_hex(8)}.part")
    try:  # before the file exists: Ctrl-C may come as soon as it does
        with (
            naming_output(output),
            open(name, "xb", opener=lambda path, flags: os.open(path, flags, 0o600)) as sink,
        ):
            yield sink
        mask = os.umask(0)
        os.umask(mask)
        os.chmod(name, old_mode & 0o666 & ~mask)  # a private file stays private
        os.replace(name, target)
    except BaseException as error:
        with contextlib.suppress(OSError):
            os.unlink(name)
        if isinstance(error, FileNotFoundError) and error.filename == name:
            raise FileNotFoundError(2, "no such folder", str(target.parent)) from None
        raise
