"""Convert Arrow values to JSON, for tables and for programs that read JSON or CSV."""

from __future__ import annotations

import json
import math
from itertools import islice
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc

from intarsia.cli.terminal import printable

_TRAILING_ZEROS = r"(\.\d*?)0+(Z|[+-]\d{4}|$)"
_EMPTY_FRACTION = r"\.(Z|[+-]\d{4}|$)"
_OFFSET = r"([+-]\d{2})(\d{2})$"


def json_values(array: pa.Array) -> list[Any]:
    """Convert the values of an array to JSON values.

    Times are ISO 8601 strings, decimals are strings (to keep all digits), bytes are hexadecimal, durations
    are integers in the column's unit, and NaN and infinities are null, as in JavaScript.

    Example:
        >>> import pyarrow as pa
        >>> json_values(pa.array([1_500_000, None], pa.timestamp("us", "UTC")))
        ['1970-01-01T00:00:01.5Z', None]
    """
    data_type = array.type
    if isinstance(array, pa.ExtensionArray):
        if data_type.extension_name == "arrow.uuid":
            return [None if value is None else str(value) for value in array.to_pylist()]
        return json_values(array.storage)
    if pa.types.is_dictionary(data_type):
        return json_values(array.dictionary_decode())
    if pa.types.is_floating(data_type):
        return [value if value is None or math.isfinite(value) else None for value in array.to_pylist()]
    if pa.types.is_decimal(data_type):
        return [None if value is None else str(value) for value in array.to_pylist()]
    if pa.types.is_timestamp(data_type):
        return _iso(array).to_pylist()  # type: ignore[no-any-return]
    if pa.types.is_time(data_type) or pa.types.is_date(data_type):
        return _without_zeros(array.cast(pa.string())).to_pylist()  # type: ignore[no-any-return]
    if pa.types.is_duration(data_type):
        return array.cast(pa.int64()).to_pylist()  # type: ignore[no-any-return]
    if _is_binary(data_type):
        return [None if value is None else value.hex() for value in array.to_pylist()]
    if pa.types.is_struct(data_type):
        return _structs(array)
    if pa.types.is_map(data_type):
        return _maps(array)
    if pa.types.is_nested(data_type):
        return _lists(array)
    return array.to_pylist()  # type: ignore[no-any-return]


def _is_binary(data_type: pa.DataType) -> bool:
    tests = (
        pa.types.is_binary,
        pa.types.is_large_binary,
        pa.types.is_fixed_size_binary,
        pa.types.is_binary_view,
    )
    return any(test(data_type) for test in tests)


def _iso(array: pa.Array) -> pa.Array:
    text = pc.replace_substring(_without_zeros(array.cast(pa.string())), " ", "T", max_replacements=1)
    if array.type.tz is None:
        return text
    return pc.replace_substring_regex(text, _OFFSET, r"\1:\2")


def _without_zeros(text: pa.Array) -> pa.Array:
    text = pc.replace_substring_regex(text, _TRAILING_ZEROS, r"\1\2")
    return pc.replace_substring_regex(text, _EMPTY_FRACTION, r"\1")


def _structs(array: pa.Array) -> list[Any]:
    names = [array.type.field(ordinal).name for ordinal in range(array.type.num_fields)]
    fields = [json_values(child) for child in array.flatten()]
    rows = zip(*fields, strict=True) if fields else ((),) * len(array)
    valid = array.is_valid().to_pylist()
    return [
        dict(zip(names, row, strict=True)) if is_valid else None
        for row, is_valid in zip(rows, valid, strict=True)
    ]


def _lists(array: pa.Array) -> list[Any]:
    return _runs(iter(json_values(array.flatten())), pc.list_value_length(array))


def _maps(array: pa.Array) -> list[Any]:
    """Convert maps to objects if the keys are strings, else to lists of pairs."""
    whole = pa.list_(pa.struct([array.type.key_field, array.type.item_field]))
    entries = array.cast(whole)
    pairs = entries.flatten()
    keys, items = json_values(pairs.field(0)), json_values(pairs.field(1))
    as_text = pa.types.is_string(array.type.key_type) or pa.types.is_large_string(array.type.key_type)
    rows = _runs(zip(keys, items, strict=True), pc.list_value_length(entries))
    if as_text:
        return [None if row is None else dict(row) for row in rows]
    return [None if row is None else [list(pair) for pair in row] for row in rows]


def _runs(values: Any, lengths: pa.Array) -> list[Any]:
    return [None if length is None else list(islice(values, length)) for length in lengths.to_pylist()]


def text(value: Any) -> str:
    """Format a JSON value for a table cell, with control characters escaped."""
    if value is None:
        return "null"
    if isinstance(value, bool):
        return "true" if value else "false"
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
    """Convert a column for CSV: nested values to JSON, bytes to hexadecimal."""
    data_type = array.type
    if pa.types.is_dictionary(data_type):
        return csv_column(array.dictionary_decode())
    if pa.types.is_string_view(data_type):
        return array.cast(pa.large_string())
    if pa.types.is_nested(data_type):
        values = json_values(array)
        return pa.array(
            [None if value is None else json.dumps(value, ensure_ascii=False) for value in values],
            pa.string(),
        )
    if _is_binary(data_type) or isinstance(array, pa.ExtensionArray):
        values = json_values(array)
        return pa.array([None if value is None else text(value) for value in values], pa.string())
    return array
