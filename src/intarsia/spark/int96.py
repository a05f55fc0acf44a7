"""Conditions on INT96 timestamps: instants for Spark, nanoseconds that may have overflowed for Arrow.

Spark truncates INT96 to whole microseconds. Arrow, and so every index, has nanoseconds in 64 bits, which end
in 2262. A later value (often 9999-12-31) overflows to another time. Equality still works, because equal
instants overflow to equal values. Order works only if no value has overflowed. Indexes record whether their
column has such values when they are built.
"""

from __future__ import annotations

from typing import Final

import pyarrow as pa

from intarsia.file import ParquetInput
from intarsia.file.schema import FileSchema
from intarsia.format.enums import Type
from intarsia.predicate import And, Comparison, Constant, In, IsNull, Like, Path, Predicate
from intarsia.predicate.nodes import innermost

_NANOSECONDS: Final = 1000
_MOST: Final = (1 << 63) - 1 - _NANOSECONDS


def is_int96(schema: FileSchema, path: Path) -> bool:
    """Return whether a column of a file is an INT96 that Arrow reads as a timestamp."""
    leaf = schema.leaves_by_path.get(path)
    if leaf is None or leaf.type != Type.INT96:
        return False
    data_type = schema.leaf_types.get(leaf.ordinal)
    return data_type is not None and pa.types.is_timestamp(data_type) and data_type.unit == "ns"


def as_nanoseconds(leaf: Comparison | In | IsNull | Like, file: ParquetInput) -> Predicate:
    """Convert a condition on an INT96 column to Arrow's nanoseconds; weaker where values may overflow.

    Args:
        leaf: The condition, on a path of the file; its values are instants in microseconds.
        file: The file.
    """
    return _converted(leaf, file.schema, _known_unit(file, tuple(innermost(leaf.column))))


def as_nanoseconds_of_any(leaf: Comparison | In | IsNull | Like, schema: FileSchema) -> Predicate:
    """Convert a condition as `as_nanoseconds` does, if only the schema of the files is known."""
    return _converted(leaf, schema, None)


def _converted(leaf: Comparison | In | IsNull | Like, schema: FileSchema, unit: str | None) -> Predicate:
    if isinstance(leaf, IsNull):
        return leaf
    path = tuple(innermost(leaf.column))
    data_type = schema.leaf_types[schema.leaves_by_path[path].ordinal]
    if isinstance(leaf, In):
        moments = [_nanoseconds(value) for value in leaf.values]
        if unit == "us" and None not in moments:
            return In(path, tuple(pa.scalar(moment, data_type) for moment in moments), leaf.negated)
        return IsNull(path, negated=True)
    moment = _nanoseconds(leaf.value) if isinstance(leaf, Comparison) else None
    if not isinstance(leaf, Comparison) or moment is None:
        return Constant(True)
    if unit == "us":
        return Comparison(path, leaf.op, pa.scalar(moment, data_type))
    # Spark truncates less than a microsecond
    later = Comparison(path, "<", pa.scalar(moment + _NANOSECONDS, data_type))
    earlier = Comparison(path, ">", pa.scalar(moment - _NANOSECONDS, data_type))
    if leaf.op == "=":
        return And((later, earlier))
    if unit is None or leaf.op == "<>":
        return IsNull(path, negated=True)
    return later if leaf.op in ("<", "<=") else earlier


def _nanoseconds(value: object) -> int | None:
    """Return an instant in nanoseconds; None if it is not an instant or would overflow."""
    if not isinstance(value, pa.TimestampScalar) or value.type.unit != "us" or not value.is_valid:
        return None
    moment = int(value.value) * _NANOSECONDS
    return moment if abs(moment) < _MOST else None


def _known_unit(file: ParquetInput, path: Path) -> str | None:
    """Return the unit that represents every value exactly, as recorded by an index of the column."""
    entries = file.directory.entries if file.directory is not None else ()
    return next((entry.int96_unit for entry in entries if path in entry.columns and entry.int96_unit), None)
