"""Convert stored bounds to values for text and JSON output."""

from __future__ import annotations

import dataclasses
import datetime as dt
import math
import operator
import uuid
from collections.abc import Mapping
from decimal import Decimal
from typing import Any, ClassVar, Literal

import numpy as np

from intarsia.amounts import cut
from intarsia.format.enums import ConvertedType, Type
from intarsia.format.footer import Leaf
from intarsia.format.structs import LogicalType
from intarsia.predicate.literals import NS_PER_UNIT
from intarsia.rows.int96 import Int96

_Unit = Literal["ms", "us", "ns"]

_NUMBERS = {Type.BOOLEAN: "?", Type.INT32: "<i4", Type.INT64: "<i8", Type.FLOAT: "<f4", Type.DOUBLE: "<f8"}

_EPOCH = dt.date(1970, 1, 1)


def human_value(leaf: Leaf, raw: bytes) -> Any:
    """Convert a bound to a number, string, ``date``, ``datetime``, ``time``, ``Decimal`` or ``UUID``.

    A value that Python's type cannot represent (nanoseconds, the year 20000) becomes a ``numpy.datetime64``
    or a number. Bytes that are not a value of the type remain bytes.
    """
    try:
        return _value(leaf, raw)
    except (ValueError, OverflowError, ArithmeticError):
        return raw


def json_value(value: Any) -> Any:
    r"""Convert a value of `human_value` to JSON.

    Example:
        >>> json_value(Decimal("1.50")), json_value(dt.date(2024, 2, 29)), json_value(b"\x00\xff")
        ('1.50', '2024-02-29', '0x00ff')
    """
    if isinstance(value, float) and not math.isfinite(value):
        return str(value)
    if value is None or isinstance(value, (bool, int, float, str)):
        return value
    if isinstance(value, (bytes, bytearray, memoryview)):
        return "0x" + bytes(value).hex()
    if isinstance(value, (dt.date, dt.time)):
        return value.isoformat()
    return str(value)


def to_json(value: Any) -> Any:
    """Convert a dataclass, sequence or value to JSON."""
    if isinstance(value, JsonObject):
        return value.to_dict()
    if dataclasses.is_dataclass(value) and not isinstance(value, type):
        return {field.name: to_json(getattr(value, field.name)) for field in dataclasses.fields(value)}
    if isinstance(value, Mapping):
        return {str(key): to_json(item) for key, item in value.items()}
    if isinstance(value, (list, tuple)):
        return [to_json(item) for item in value]
    return json_value(value)


class JsonObject:
    """A dataclass that is also a JSON object.

    `JSON_KEYS` lists its keys: ``files.total`` is the key ``total`` of the object ``files``, with the value
    of the attribute ``files_total``; ``rows=num_rows`` has that of ``num_rows``. If it is empty, they are the
    fields.

    Example:
        >>> @dataclasses.dataclass
        ... class Run(JsonObject):
        ...     JSON_KEYS = "files.total bytes=num_bytes"
        ...     files_total: int
        ...     num_bytes: int
        >>> Run(3, 4096).to_dict()
        {'files': {'total': 3}, 'bytes': 4096}
    """

    JSON_KEYS: ClassVar[str] = ""

    def to_dict(self) -> dict[str, Any]:
        """Return a JSON object; keys do not change, but more may be added."""
        document: dict[str, Any] = {}
        for entry in self.JSON_KEYS.split() or vars(self):
            key, _, attribute = entry.partition("=")
            *parents, name = key.split(".")
            parent = document
            for one in parents:
                parent = parent.setdefault(one, {})
            parent[name] = to_json(operator.attrgetter(attribute or key.replace(".", "_"))(self))
        return document


def shown(value: Any, limit: int = 60) -> str:
    """Format a value for a message; strings are quoted, and long values are cut."""
    return cut(repr(value) if isinstance(value, str) else str(json_value(value)), limit)


def type_name(leaf: Leaf) -> str | None:
    """Return the logical type with its parameters; None if the leaf has none.

    Example:
        >>> from intarsia.format.footer import schema_leaves
        >>> from intarsia.format.structs import SchemaElement
        >>> price = SchemaElement("price", type=1, converted_type=5, scale=2, precision=9)
        >>> type_name(schema_leaves([SchemaElement("root", num_children=1), price])[0])
        'DECIMAL(9, 2)'
    """
    logical = leaf.logical
    if logical is None:
        return "INTERVAL" if leaf.element.converted_type == ConvertedType.INTERVAL else None
    if (decimal := logical.DECIMAL) is not None:
        return f"DECIMAL({decimal.precision}, {decimal.scale})"
    if (integer := logical.INTEGER) is not None:
        return f"{'INT' if integer.isSigned else 'UINT'}({integer.bitWidth})"
    if (time := logical.TIME or logical.TIMESTAMP) is not None:
        return f"{logical.name}({time.unit_name or '?'}{', UTC' if time.isAdjustedToUTC else ''})"
    return logical.shown


def _value(leaf: Leaf, raw: bytes) -> Any:
    logical = leaf.logical or LogicalType()
    if leaf.type == Type.INT96:
        return _timestamp(Int96.parse(raw).instant, "ns", is_utc=False)
    if leaf.type in _NUMBERS:
        dtype = np.dtype(_NUMBERS[leaf.type])
        if len(raw) != dtype.itemsize:
            return raw
        if logical.INTEGER is not None and not logical.INTEGER.isSigned:
            dtype = np.dtype(dtype.str.replace("i", "u"))
        return _of_number(logical, np.frombuffer(raw, dtype=dtype)[0].item())
    if logical.DECIMAL is not None:
        return Decimal(int.from_bytes(raw, "big", signed=True)).scaleb(-logical.DECIMAL.scale)
    if logical.FLOAT16 is not None and len(raw) == 2:
        return float(np.frombuffer(raw, dtype="<f2")[0])
    if logical.UUID is not None:
        return uuid.UUID(bytes=raw)
    return raw.decode("utf-8") if leaf.is_text else raw


def _of_number(logical: LogicalType, number: Any) -> Any:
    if logical.DECIMAL is not None:
        return Decimal(number).scaleb(-logical.DECIMAL.scale)
    if logical.DATE is not None:
        try:
            return _EPOCH + dt.timedelta(days=number)
        except OverflowError:
            return np.datetime64(number, "D")
    if (time := logical.TIME or logical.TIMESTAMP) is not None:
        unit = time.unit_name
        if unit is not None:
            is_time = logical.TIMESTAMP is None
            return _time(number, unit) if is_time else _timestamp(number, unit, time.isAdjustedToUTC)
    return number


def _timestamp(number: int, unit: _Unit, is_utc: bool) -> Any:
    microseconds, nanoseconds = divmod(number * NS_PER_UNIT[unit], 1000)
    try:
        moment = dt.datetime(1970, 1, 1) + dt.timedelta(microseconds=microseconds)
    except OverflowError:
        return np.datetime64(number, unit)
    if nanoseconds:
        return np.datetime64(number, unit)
    return moment.replace(tzinfo=dt.timezone.utc) if is_utc else moment


def _time(number: int, unit: _Unit) -> Any:
    moment = _timestamp(number, unit, is_utc=False)
    return moment.time() if isinstance(moment, dt.datetime) and moment.date() == _EPOCH else number
