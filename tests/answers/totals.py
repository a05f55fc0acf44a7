"""Totals by exact arithmetic on the values of a full read."""

from __future__ import annotations

import datetime as dt
import math
from decimal import Decimal
from fractions import Fraction

import pyarrow as pa

from intarsia.arrow.comparison import comparison_type
from intarsia.indexes.summaries import sum_type
from tests.predicate import oracle

ALL = ["count", "sum", "min", "max", "avg"]


def functions_of(kind: pa.DataType) -> list[str]:
    """The functions that a type supports."""
    return ALL if sum_type(comparison_type(kind)) != pa.null() else ["count", "min", "max"]


def expect(found, function, column: pa.ChunkedArray, keep) -> None:
    """Compare an answer with exact arithmetic on the values of a full read."""
    values = [v for v, kept in zip(oracle.exact_values(column), keep, strict=True) if kept and v is not None]
    if function == "count":
        assert found == len(values)
        return
    if not values:
        assert found is None
        return
    nans = sum(isinstance(value, float) and math.isnan(value) for value in values)
    if function in ("min", "max"):
        numbers = [v for v in values if not (isinstance(v, float) and math.isnan(v))]
        if nans and (function == "max" or not numbers):
            assert math.isnan(found)
        else:
            assert exact(found, column.type) == (min if function == "min" else max)(numbers)
        return
    kind = comparison_type(column.type)
    if pa.types.is_floating(kind):
        expect_float(found, values, len(values) if function == "avg" else 1)
    elif function == "sum":
        assert type(found) is (int if pa.types.is_integer(kind) else Decimal)
        assert Fraction(found) == sum(values)
    elif pa.types.is_integer(kind):
        assert found == float(sum(values) / len(values))
    else:
        unit = Fraction(1, 10 ** (kind.scale + 4))
        assert -found.as_tuple().exponent == kind.scale + 4
        assert abs(Fraction(found) - sum(values) / len(values)) <= unit / 2


def exact(value, kind):
    """Convert one answer to a value of the oracle."""
    if isinstance(value, pa.Scalar):
        return oracle.exact_values(pa.array([value], value.type))[0]
    if isinstance(kind, pa.DictionaryType):
        kind = kind.value_type
    if isinstance(kind, pa.UuidType):
        return value.bytes
    if isinstance(value, dt.timedelta):  # pyarrow refuses the shortest duration, which it has returned
        return oracle.literal(value, kind)
    return oracle.exact_values(pa.array([value], comparison_type(kind)))[0]


def expect_float(found, values, count):
    if not all(isinstance(value, Fraction) for value in values):
        infinite = {value for value in values if not isinstance(value, Fraction)}
        assert math.isnan(found) if any(map(math.isnan, infinite)) or len(infinite) > 1 else found in infinite
        return
    magnitude = sum(map(abs, values))
    if magnitude < Fraction(1.7e308):  # else it might overflow
        assert abs(Fraction(found) - sum(values) / count) <= magnitude * Fraction(1, 2**48)
