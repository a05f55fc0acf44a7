"""Conditions on INT96 times: moments to Spark, and to Arrow nanoseconds that may have run over.

Spark takes an INT96 for a moment of whole microseconds: what is below is cut off.  Arrow, and so every index,
has nanoseconds in 64 bits, which end in 2262: a later value (9999-12-31 is a favourite) comes out as some
other time.  A moment that is asked for is found among such values all the same, since equal moments come out
equal; before and after mean something only where nothing has run over, which an index says of its column if
whoever built it has looked.
"""

from __future__ import annotations

from typing import Final

import pyarrow as pa

from intarsia.file import ParquetInput
from intarsia.format.structs import Type
from intarsia.predicate import And, Comparison, Constant, In, IsNull, Like, Path, Predicate

_NANOSECONDS: Final = 1000
_MOST: Final = (1 << 63) - 1 - _NANOSECONDS


def is_int96(file: ParquetInput, path: Path) -> bool:
    """Whether a column of a file is an INT96 of which Arrow makes a time."""
    leaf = file.leaves_by_path.get(path)
    if leaf is None or leaf.type != Type.INT96:
        return False
    data_type = file.leaf_types.get(leaf.ordinal)
    return data_type is not None and pa.types.is_timestamp(data_type) and data_type.unit == "ns"


def as_nanoseconds(leaf: Comparison | In | IsNull | Like, file: ParquetInput) -> Predicate:
    """A condition on an INT96 column in the nanoseconds that Arrow has; weaker where that is not certain.

    Args:
        leaf: The condition, on a path of the file; its values are moments in microseconds.
        file: The file.
    """
    if isinstance(leaf, IsNull):
        return leaf
    path = tuple(leaf.column)
    data_type = file.leaf_types[file.leaves_by_path[path].ordinal]
    unit = _known_unit(file, path)
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
    # what Spark cuts off is less than a microsecond
    later = Comparison(path, "<", pa.scalar(moment + _NANOSECONDS, data_type))
    earlier = Comparison(path, ">", pa.scalar(moment - _NANOSECONDS, data_type))
    if leaf.op == "=":
        return And((later, earlier))
    if unit is None or leaf.op == "<>":
        return IsNull(path, negated=True)
    return later if leaf.op in ("<", "<=") else earlier


def _nanoseconds(value: object) -> int | None:
    """A moment as Arrow has it; None if it is none, or too far away."""
    if not isinstance(value, pa.TimestampScalar) or value.type.unit != "us" or not value.is_valid:
        return None
    moment = int(value.value) * _NANOSECONDS
    return moment if abs(moment) < _MOST else None


def _known_unit(file: ParquetInput, path: Path) -> str | None:
    """The unit that holds every value exactly, as an index of the column says."""
    entries = file.directory.entries if file.directory is not None else ()
    return next((entry.int96_unit for entry in entries if path in entry.columns and entry.int96_unit), None)
