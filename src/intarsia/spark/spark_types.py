"""Columns with their types in Spark, and how Spark compares them with literals.

Only comparisons for which Spark and Intarsia certainly agree are supported. If Spark would round, parse or
cast, or might do so under some setting, the result is "unknown", which prunes nothing.
"""

from __future__ import annotations

import contextlib
import datetime as dt
import re
import struct
from decimal import Decimal
from functools import partial
from typing import Any, Final

import pyarrow as pa

from intarsia.arrow.comparison import comparison_type
from intarsia.arrow.nested import is_list, with_leaves
from intarsia.errors import UnsupportedFeatureError
from intarsia.lake.definition import plain_type
from intarsia.predicate import Call, Path
from intarsia.records import dataclass

INTEGER_BITS: Final = {"tinyint": 8, "smallint": 16, "int": 32, "bigint": 64}
INTEGERS: Final = frozenset(INTEGER_BITS)
FLOATS: Final = frozenset(("float", "double"))
TEMPORAL: Final = frozenset(("date", "timestamp", "timestamp_ntz"))

#: Integers up to here have an exact double, or float.
_EXACT_IN_DOUBLE: Final = 2**53
_EXACT_IN_FLOAT: Final = 2**24

DECIMAL: Final = re.compile(r"decimal\((\d+),(\d+)\)")

# Of the elements of arrays and maps, INT96 and NaN are not distinguished.
_ELEMENT: Final = r"((?:tiny|small|big)?int|string|boolean|date|binary|decimal\(\d+,\d+\))"
ARRAY: Final = re.compile(f"array<{_ELEMENT}>")
MAP: Final = re.compile(f"map<{_ELEMENT},{_ELEMENT}>")

_DECIMAL_DIGITS: Final = 38
_LITERAL_DIGITS: Final = 15

#: Arrow's types for those of Spark that are neither nested nor decimals.
_ARROW_TYPES: Final = {
    "boolean": pa.bool_(),
    "tinyint": pa.int8(),
    "smallint": pa.int16(),
    "int": pa.int32(),
    "bigint": pa.int64(),
    "float": pa.float32(),
    "double": pa.float64(),
    "string": pa.string(),
    "binary": pa.binary(),
    "date": pa.date32(),
    "timestamp": pa.timestamp("us", "UTC"),
    "timestamp_ntz": pa.timestamp("us"),
}

#: Arrow types that Spark represents with another width or encoding.
_WIDENED = {
    pa.uint8(): pa.int16(),
    pa.uint16(): pa.int32(),
    pa.uint32(): pa.int64(),
    pa.uint64(): pa.decimal128(20, 0),
    pa.float16(): pa.float32(),
    pa.large_string(): pa.string(),
    pa.string_view(): pa.string(),
    pa.large_binary(): pa.binary(),
    pa.binary_view(): pa.binary(),
}

#: Spark may convert older dates and times by old writers to another calendar.
OLDEST_CERTAIN: Final = dt.datetime(1900, 1, 3)


@dataclass(frozen=True)
class Literal:
    """A literal in Spark SQL.

    Attributes:
        type: Its type in Spark: ``null``, ``boolean``, ``int``, ``decimal``, ``double``, ``float``,
            ``string``, ``binary``, ``date``, ``timestamp`` or ``timestamp_ntz``.
        value: Its value; for the last three types the quoted text of SQL.
    """

    type: str
    value: Any


@dataclass(frozen=True)
class SparkColumn:
    """A column, a field of structs, or the value of a key in a map, in Spark's schema.

    Attributes:
        path: Its names in Spark's schema, or a call of ``element_at``.
        type: Spark's name of its type; ``unknown`` for types with special comparison rules.
    """

    path: Path | Call
    type: str


def quoted(name: str) -> str:
    """Quote the name of a column, which may contain dots and backticks.

    Example:
        >>> quoted("a.b`c")
        '`a.b``c`'
    """
    return "`" + name.replace("`", "``") + "`"


def resolve(schema: Any, parts: tuple[str, ...], *, case_sensitive: bool) -> SparkColumn | None:
    """Return the column that Spark resolves from identifiers; None if it is missing or ambiguous.

    Args:
        schema: The frame's ``StructType``.
        parts: The identifiers.
        case_sensitive: ``spark.sql.caseSensitive``.
    """
    path: list[str] = []
    data_type: Any = schema
    field: Any = None
    for part in parts:
        fields = getattr(data_type, "fields", ())
        wanted = part if case_sensitive else part.lower()
        found = [item for item in fields if (item.name if case_sensitive else item.name.lower()) == wanted]
        if len(found) != 1:
            return None
        field = found[0]
        path.append(field.name)
        data_type = field.dataType
    # CHAR(n) pads the other operand; only the metadata shows this type
    padded = any("CHAR" in key.upper() for key in field.metadata or {})
    return SparkColumn(tuple(path), "unknown" if padded else data_type.simpleString())


def comparable(column: SparkColumn, literal: Literal) -> Any:
    """Return the value with which Spark compares the column; None if that is uncertain.

    NULL, NaN and temporal columns are not supported.
    """
    type_name, value = literal.type, literal.value
    if column.type in INTEGERS:
        if type_name in ("double", "float"):
            limit = _EXACT_IN_DOUBLE if type_name == "double" else _EXACT_IN_FLOAT
            return value if abs(value) < limit else None
        return value if type_name in ("int", "decimal") else None
    if column.type in FLOATS:
        if type_name == "int":
            limit = _EXACT_IN_DOUBLE if column.type == "double" else _EXACT_IN_FLOAT
            return float(value) if abs(value) <= limit else None
        return float(value) if type_name in ("decimal", "double", "float") else None
    if decimal := DECIMAL.fullmatch(column.type):
        fits = type_name in ("int", "decimal") and _fits(int(decimal[1]), int(decimal[2]), value)
        return value if fits else None
    if column.type in ("string", "binary", "boolean"):
        return value if type_name == column.type else None
    return None


def _fits(precision: int, scale: int, literal: int | Decimal) -> bool:
    """Return whether Spark's common type of a decimal column and a literal represents both exactly."""
    if isinstance(literal, int):  # an INT is a decimal(10, 0), a BIGINT a decimal(20, 0)
        literal_whole, literal_scale = 10 if abs(literal) < 2**31 else 20, 0
    else:
        _, digits, exponent = literal.as_tuple()
        assert isinstance(exponent, int)
        literal_whole, literal_scale = len(digits) + exponent, max(0, -exponent)
    return max(precision - scale, literal_whole) + max(scale, literal_scale) <= _DECIMAL_DIGITS


def number(text: str) -> Literal | None:
    """Parse a number in SQL text, without a suffix.

    Example:
        >>> number("42"), number("1.50").type, number("1e3")
        (Literal(type='int', value=42), 'decimal', Literal(type='double', value=1000.0))
    """
    if re.fullmatch(r"\d+", text):
        value = int(text)
        return Literal("int", value) if value < 2**63 else None
    if re.fullmatch(r"\d+\.\d*|\.\d+", text):
        return Literal("decimal", Decimal(text)) if len(text) <= _LITERAL_DIGITS else None
    if re.fullmatch(r"(\d+\.?\d*|\.\d+)[eE][+-]?\d{1,3}", text):
        return Literal("double", float(text))
    return None


def cast(literal: Literal, target: str, sizes: tuple[int, ...] = ()) -> Literal | None:
    """Cast a literal, if the result is the same in every mode of Spark.

    Args:
        literal: The literal to cast.
        target: sqlglot's name of the type.
        sizes: Precision and scale, or a length.
    """
    type_name, value = literal.type, literal.value
    if type_name == "string":
        if target == "DATE":
            return Literal("date", value)
        if target in ("TIMESTAMP", "TIMESTAMPTZ", "TIMESTAMPLTZ"):
            return Literal("timestamp", value)
        if target == "TIMESTAMPNTZ":
            return Literal("timestamp_ntz", value)
        if target in ("DOUBLE", "FLOAT") and value.lower() in ("nan", "infinity", "-infinity"):
            return Literal(target.lower(), float(value))
        # sqlglot parses 1.5BD as CAST('1.5' AS DECIMAL(2, 1)); any other precision could round
        parsed = number(value) if target == "DECIMAL" else None
        if parsed is None or parsed.type != "decimal":
            return None
        _, digits, exponent = parsed.value.as_tuple()
        return parsed if sizes == (max(len(digits), -exponent), -exponent) else None
    if type_name in ("int", "decimal") and target == "DOUBLE":
        return Literal("double", float(value))
    if type_name in ("int", "decimal") and target == "FLOAT" and abs(value) < 10**30:
        return Literal("float", float(struct.unpack("<f", struct.pack("<f", float(value)))[0]))
    bits = INTEGER_BITS.get(target.lower())
    if type_name == "int" and bits is not None and -(2 ** (bits - 1)) <= value < 2 ** (bits - 1):
        return literal
    return None


def reads_as_is(spark_type: str, arrow_type: pa.DataType) -> bool:
    """Return whether Spark reads a file's column of this Arrow type as the same values as Arrow.

    It does not for nanoseconds, UUIDs and others. `intarsia.spark.binding` handles INT96.
    """
    data_type = comparison_type(arrow_type)
    if spark_type.startswith("array<"):
        return is_list(data_type) and reads_as_is(spark_type[len("array<") : -1], data_type.value_type)
    if parts := MAP.fullmatch(spark_type):
        types = (data_type.key_type, data_type.item_type) if pa.types.is_map(data_type) else ()
        return len(types) == 2 and all(map(reads_as_is, parts.groups(), types))
    if spark_type in INTEGERS:  # Spark truncates wider integers, and may read the top bit as a sign
        bits = INTEGER_BITS[spark_type] - pa.types.is_unsigned_integer(data_type)
        return bool(pa.types.is_integer(data_type) and data_type.bit_width <= bits)
    if spark_type in FLOATS:
        return bool(
            pa.types.is_float32(data_type) or (spark_type == "double" and pa.types.is_float64(data_type))
        )
    if decimal := DECIMAL.fullmatch(spark_type):
        precision, scale = int(decimal[1]), int(decimal[2])
        return bool(
            pa.types.is_decimal(data_type) and data_type.scale == scale and data_type.precision <= precision
        )
    if spark_type in ("timestamp", "timestamp_ntz"):
        is_alike = pa.types.is_timestamp(data_type) and data_type.unit in ("ms", "us")
        return is_alike and (data_type.tz is None) is (spark_type == "timestamp_ntz")
    return bool(spark_type in _ARROW_TYPES and data_type == _ARROW_TYPES[spark_type])


def types_within(spark_type: Any) -> list[Any] | None:
    """Return the types within a type of Spark, which is a ``DataType``; None if it is not nested."""
    name = spark_type.typeName()
    if name == "struct":
        return [field.dataType for field in spark_type.fields]
    if name == "array":
        return [spark_type.elementType]
    return [spark_type.keyType, spark_type.valueType] if name == "map" else None


def arrow_type_of(spark_type: Any) -> pa.DataType | None:
    """Return the type in which Spark accepts the values of a column; None for unsupported types."""
    within = types_within(spark_type)
    if within is None:
        name = spark_type.simpleString()
        decimal = DECIMAL.fullmatch(name)
        return pa.decimal128(int(decimal[1]), int(decimal[2])) if decimal else _ARROW_TYPES.get(name)
    found = [arrow_type_of(one) for one in within]
    if any(one is None for one in found):
        return None
    if spark_type.typeName() == "struct":
        return pa.struct(list(zip(spark_type.names, found, strict=True)))
    return pa.list_(*found) if len(found) == 1 else pa.map_(*found)


def arrow_schema(ddl: str) -> pa.Schema:
    """Return the schema of columns in Spark's DDL, each of a simple type or a list of these.

    Example:
        >>> arrow_schema("path STRING, built ARRAY<STRING>").types
        [DataType(string), ListType(list<item: string>)]
    """
    fields = []
    for name, type_name in map(str.split, ddl.lower().split(", ")):
        item = type_name.removeprefix("array<").removesuffix(">")
        arrow_type = _ARROW_TYPES[item]
        fields.append((name, arrow_type if item == type_name else pa.list_(arrow_type)))
    return pa.schema(fields)


def unsupported_type(spark_type: Any) -> str | None:
    """Return the name of the first type without a counterpart in Arrow, within a type or itself."""
    within = types_within(spark_type)
    if within is not None:
        return next(filter(None, map(unsupported_type, within)), None)
    return None if arrow_type_of(spark_type) is not None else str(spark_type.simpleString())


def spark_schema(schema: pa.Schema) -> pa.Schema:
    """Return the types in which Spark accepts the columns.

    Raises:
        UnsupportedFeatureError: If Spark has no type for a column.
    """
    return pa.schema(
        [
            (field.name, with_leaves(plain_type(field.type), partial(_spark_type, column=field.name)))
            for field in schema
        ]
    )


def _spark_type(data_type: pa.DataType, column: str) -> pa.DataType:
    if data_type in _WIDENED:
        return _WIDENED[data_type]
    if pa.types.is_dictionary(data_type):
        return _spark_type(data_type.value_type, column)
    if pa.types.is_timestamp(data_type):
        return pa.timestamp("us", None if data_type.tz is None else "UTC")
    if pa.types.is_fixed_size_binary(data_type):
        return pa.binary()
    if pa.types.is_time(data_type) or pa.types.is_duration(data_type) or pa.types.is_null(data_type):
        raise UnsupportedFeatureError(
            f"column {column!r} has type {data_type}, which Spark cannot accept from Python; leave it out "
            "with option('columns', …)",
            reason="unsupported-type",
            column=column,
        )
    return pa.date32() if pa.types.is_date(data_type) else data_type


def partition_value(text: str | None, spark_type: str) -> pa.Scalar | None:
    """Return a partition value as Spark reads it; None if that is uncertain."""
    if spark_type in ("int", "bigint"):
        if text is None or re.fullmatch(r"-?\d{1,18}", text):
            return pa.scalar(None if text is None else int(text), pa.int64())
    elif spark_type == "string":
        return pa.scalar(text, pa.string())
    elif spark_type == "date" and (text is None or re.fullmatch(r"\d{4}-\d\d-\d\d", text)):
        with contextlib.suppress(ValueError):
            return pa.scalar(None if text is None else dt.date.fromisoformat(text), pa.date32())
    return None
