"""The statistics of files in the manifests of an Iceberg table: bounds and null counts by field id."""

from __future__ import annotations

import struct
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass
from functools import partial
from typing import TYPE_CHECKING, Any

import numpy as np
import pyarrow as pa

from intarsia.lake.definition import plain_type
from intarsia.lake.log_statistics import LogColumn, LogStatistics
from intarsia.predicate import Path

if TYPE_CHECKING:
    from pyiceberg.manifest import DataFile as IcebergFile
    from pyiceberg.schema import Schema
    from pyiceberg.types import IcebergType, NestedField


def iceberg_statistics(
    entries: Sequence[IcebergFile], schema: Schema, arrow: pa.Schema
) -> LogStatistics | None:
    """Return the statistics in the manifests; None if the files have none.

    Args:
        entries: The data files.
        schema: The columns of the table.
        arrow: The same columns as Arrow fields.
    """
    columns: dict[Path, _Column] = {}
    for path, field, data_type in _leaves(schema.fields, arrow, ()):
        low, high, nulls = (
            [(values or {}).get(field.field_id) for values in found]
            for found in (
                [one.lower_bounds for one in entries],
                [one.upper_bounds for one in entries],
                [one.null_value_counts for one in entries],
            )
        )
        columns[path] = _Column(
            field.field_type,
            data_type,
            pa.array(low, pa.binary()),
            pa.array(high, pa.binary()),
            pa.array(nulls, pa.int64()),
        )
    num_rows = np.array([one.record_count for one in entries], dtype=np.int64)
    return LogStatistics("iceberg_manifests", num_rows, columns) if columns else None


@dataclass(frozen=True)
class _Column:
    """The statistics of one column.

    Attributes:
        iceberg_type: Its type.
        data_type: The same as an Arrow type.
        low: The lower bounds as bytes.
        high: The upper bounds as bytes.
        null_counts: The number of nulls.
    """

    iceberg_type: IcebergType
    data_type: pa.DataType
    low: pa.Array
    high: pa.Array
    null_counts: pa.Array

    def parsed(self) -> LogColumn:
        return LogColumn(self._values(self.low), self._values(self.high), self.null_counts)

    def take(self, ordinals: pa.Array) -> _Column:
        low, high, nulls = (part.take(ordinals) for part in (self.low, self.high, self.null_counts))
        return _Column(self.iceberg_type, self.data_type, low, high, nulls)

    def _values(self, bounds: pa.Array) -> pa.Array:
        parse = _parser(self.iceberg_type)
        if parse is None:
            return pa.nulls(len(bounds), self.data_type)
        values = [None if bound is None else parse(bound) for bound in bounds.to_pylist()]
        if not pa.types.is_temporal(self.data_type):
            return pa.array(values, self.data_type)
        number = pa.int32() if self.data_type.bit_width == 32 else pa.int64()  # dates and times are numbers
        return pa.array(values, number).cast(self.data_type)


def _leaves(
    fields: Iterable[NestedField], arrow: Iterable[pa.Field], parents: Path
) -> Iterator[tuple[Path, NestedField, pa.DataType]]:
    """Yield primitive columns, and those in structs: the path, the field, and its type."""
    from pyiceberg.types import StructType

    for field, found in zip(fields, arrow, strict=True):
        path = (*parents, field.name)
        if isinstance(field.field_type, StructType):
            yield from _leaves(field.field_type.fields, found.type, path)
        elif field.field_type.is_primitive:
            yield path, field, plain_type(found.type)


def _parser(iceberg_type: IcebergType) -> Callable[[bytes], Any] | None:
    """Return a function that parses a bound of a type, to None if it is not one; None for other types.

    A column may have had a narrower type when a file was written. A bound of fewer bytes than its type has is
    that of an integer or a float; dates, which have become times, are not parsed.
    """
    from pyiceberg import types as t
    from pyiceberg.conversions import from_bytes

    if isinstance(iceberg_type, (t.LongType, t.DoubleType)):
        width, narrow = 8, (t.IntegerType() if isinstance(iceberg_type, t.LongType) else t.FloatType())
    elif isinstance(iceberg_type, (t.TimeType, t.TimestampType, t.TimestamptzType)):
        width, narrow = 8, None
    elif isinstance(iceberg_type, (t.IntegerType, t.FloatType, t.DateType)):
        width, narrow = 4, None
    elif isinstance(iceberg_type, (t.BooleanType, t.StringType, t.BinaryType, t.DecimalType)):
        width, narrow = None, None
    else:
        return None

    def parse(bound: bytes) -> Any:
        if width in (None, len(bound)):
            return _or_none(partial(from_bytes, iceberg_type, bound))
        if narrow is not None and len(bound) == 4:
            return _or_none(partial(from_bytes, narrow, bound))
        return None

    return parse


def _or_none(parse: Callable[[], Any]) -> Any:
    try:
        return parse()
    except (ValueError, ArithmeticError, struct.error):  # it is not a bound of the type
        return None
