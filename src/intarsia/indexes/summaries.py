"""Summaries of runs of values: minimum, maximum, sum and counts.

A summary is a row of a table with the columns of `summary_schema`. The code that summarizes values also
merges the summaries of pieces of granules, row groups and files, because a value is its own summary.

Sums of integers and decimals are exact. Sums of floats are NumPy's ``float64`` sums, pairwise within a run,
with an error of at most about ``log2(n)`` roundings of the sum of the absolute values.
"""

from __future__ import annotations

import math
from decimal import Context, Decimal
from functools import lru_cache
from typing import Any

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc

from intarsia.arrow.comparison import sortable_type
from intarsia.errors import IndexPayloadError
from intarsia.records import dataclass
from intarsia.rows.bounds import Bools
from intarsia.rows.selection import Rows

#: Additional digits of a decimal sum, so that it does not overflow for any possible number of rows.
_SPARE_DIGITS = 10
_COUNTS = ("num_rows", "null_count", "nan_count")
#: Rounds no sum.
_EXACT = Context(prec=76)


@dataclass(frozen=True)
class GranuleSummaries:
    """The summaries of the granules of a column.

    Args:
        edges: The first row of each granule, then the number of rows of the file; int64.
        summaries: One row per granule, with the `summary_schema` of the column's comparison type (see
            `intarsia.arrow.comparison.comparison_type`).
        exact: One boolean per granule, whether ``min`` and ``max`` are values of the column rather than
            bounds.
    """

    edges: Rows
    summaries: pa.Table
    exact: Bools

    @property
    def data_type(self) -> pa.DataType:
        """The comparison type of the values."""
        return self.summaries.schema.field("min").type

    def check(self, num_rows: int) -> None:
        """Check that the summaries agree with a file.

        Args:
            num_rows: The number of rows in the file.

        Raises:
            IndexPayloadError: If the granules do not agree with the summaries or with the file.
        """
        num_granules = len(self.edges) - 1
        if len(self.summaries) != num_granules or len(self.exact) != num_granules:
            raise IndexPayloadError(
                f"it has {num_granules} granules, {len(self.summaries)} summaries and {len(self.exact)} "
                "flags of exactness",
                reason="damaged-payload",
            )
        names = self.summaries.column_names
        if "min" not in names or self.summaries.schema != summary_schema(self.data_type):
            raise IndexPayloadError(
                f"its summaries have the schema {self.summaries.schema.to_string()}", reason="damaged-payload"
            )
        if self.edges[0] != 0 or self.edges[-1] != num_rows:
            raise IndexPayloadError(
                f"it describes rows {self.edges[0]} to {self.edges[-1]} of {num_rows}", reason="other-rows"
            )
        if not np.array_equal(self.summaries["num_rows"].to_numpy(), np.diff(self.edges)):
            raise IndexPayloadError(
                "the row counts of its summaries are not those of its granules", reason="other-rows"
            )


def sum_type(data_type: pa.DataType) -> pa.DataType:
    """Return the type of sums of a comparison type, or the null type if its values have no sum.

    Example:
        >>> sum_type(pa.int32()), sum_type(pa.float32()), sum_type(pa.string())
        (Decimal128Type(decimal128(38, 0)), DataType(double), DataType(null))
    """
    if pa.types.is_integer(data_type):
        return pa.decimal128(38, 0)
    if pa.types.is_floating(data_type):
        return pa.float64()
    if pa.types.is_decimal(data_type) and data_type.precision + _SPARE_DIGITS <= 76:
        wide = pa.decimal128 if data_type.precision + _SPARE_DIGITS <= 38 else pa.decimal256
        return wide(38 if wide is pa.decimal128 else 76, data_type.scale)
    return pa.null()


@lru_cache(maxsize=64)
def summary_schema(data_type: pa.DataType) -> pa.Schema:
    """Return the schema of summaries of a comparison type.

    ``min`` and ``max`` ignore nulls and NaN, and are null if there is no other value. ``sum`` ignores nulls,
    and is 0 if there is no value.
    """
    return pa.schema(
        [
            pa.field("min", data_type),
            pa.field("max", data_type),
            pa.field("sum", sum_type(data_type)),
            *(pa.field(name, pa.int64()) for name in _COUNTS),
        ]
    )


def summarize(values: pa.Array, starts: Rows) -> pa.Table:
    """Summarize each run of values.

    Args:
        values: Values of a comparison type.
        starts: The start of each run, strictly ascending from 0, below ``len(values)``.

    Example:
        >>> summarize(pa.array([5, 3, None, 8]), np.array([0, 2])).drop(["nan_count"]).to_pylist()
        [{'min': 3, 'max': 5, 'sum': Decimal('8'), 'num_rows': 2, 'null_count': 0},
         {'min': 8, 'max': 8, 'sum': Decimal('8'), 'num_rows': 2, 'null_count': 1}]
    """
    data_type = values.type
    is_one_run = len(starts) == 1 and len(values) > 0
    numbers = _as_numbers(values) if is_one_run else None
    if numbers is not None:
        return _summarize_numbers(values, numbers)
    comparable = values.cast(sortable_type(data_type))
    columns: dict[str, Any] = {"min": comparable, "max": comparable, "sum": pa.nulls(len(values))}
    if sum_type(data_type) != pa.null():
        columns["sum"] = _widened(comparable, sum_type(data_type))
    if is_one_run:
        counts = [np.array([count]) for count in (len(values), values.null_count, 0)]
        return _add_up({**columns, **dict(zip(_COUNTS, counts, strict=True))}, starts, data_type)
    is_nan = np.zeros(len(values), dtype=np.int64)
    if pa.types.is_floating(data_type):
        mask = pc.fill_null(pc.is_nan(comparable), False)
        is_nan = _numbers(mask.cast(pa.int64()))
        columns["min"] = columns["max"] = pc.if_else(mask, pa.scalar(None, comparable.type), comparable)
    columns["num_rows"] = np.ones(len(values), dtype=np.int64)
    columns["null_count"] = _numbers(pc.is_null(values).cast(pa.int64()))
    columns["nan_count"] = is_nan
    return _add_up(columns, starts, data_type)


def _widened(values: pa.Array, total: pa.DataType) -> pa.Array:
    """Convert values to the type of their sum; decimals of the same width are the same bytes."""
    if pa.types.is_decimal(values.type) and values.type.bit_width == total.bit_width:
        return pa.Array.from_buffers(total, len(values), values.buffers(), values.null_count, values.offset)
    return values.cast(total)


def _as_numbers(values: pa.Array) -> npt.NDArray[Any] | None:
    """Return the numbers that are not null; None if they are of another type, or exceed 64 bits.

    Decimals are integers without their scale.
    """
    data_type = values.type
    if values.null_count:
        values = values.drop_null()
    if pa.types.is_integer(data_type) or pa.types.is_floating(data_type):
        return np.asarray(values.cast(sortable_type(data_type)))
    if not pa.types.is_decimal128(data_type):
        return None
    halves = pa.Array.from_buffers(
        pa.int64(), 2 * len(values), [None, values.buffers()[1]], offset=2 * values.offset
    )
    low, high = halves.to_numpy().reshape(-1, 2).T
    return low if np.array_equal(high, low >> 63) else None


def _summarize_numbers(values: pa.Array, numbers: npt.NDArray[Any]) -> pa.Table:
    """Summarize a single run of numbers, many times as fast as by grouping."""
    data_type = values.type
    num_nans = 0
    total: float | Decimal
    if pa.types.is_floating(data_type):
        with np.errstate(over="ignore", invalid="ignore"):
            total = float(np.add.reduce(numbers, dtype=np.float64))
        if math.isnan(total):  # a value is NaN, or the sum of infinities is
            is_nan = np.isnan(numbers)
            num_nans = int(np.count_nonzero(is_nan))
            numbers = numbers[~is_nan]
    else:
        total = Decimal(_exact_sum(numbers))
    # much faster than `pc.min_max` of floats and decimals
    extremes = [numbers.min(), numbers.max()] if len(numbers) else []
    if pa.types.is_decimal(data_type):
        total, *extremes = (
            _EXACT.scaleb(Decimal(int(number)), -data_type.scale) for number in (total, *extremes)
        )
    arrays = [pa.array([extreme], sortable_type(data_type)).cast(data_type) for extreme in extremes]
    arrays = arrays or [pa.nulls(1, data_type)] * 2
    arrays.append(pa.array([total], sum_type(data_type)))
    arrays += [pa.array([count], pa.int64()) for count in (len(values), values.null_count, num_nans)]
    return pa.table(arrays, schema=summary_schema(data_type))


def _exact_sum(numbers: npt.NDArray[Any]) -> int:
    """Add up integers whose sum may overflow 64 bits."""
    if not len(numbers):
        return 0
    largest = max(abs(int(numbers.min())), abs(int(numbers.max())))
    if largest * len(numbers) < 1 << 63:
        return int(np.add.reduce(numbers, dtype=np.int64))
    # the upper and lower halves are added up separately
    upper, lower = np.add.reduce(numbers >> 32), np.add.reduce(numbers & 0xFFFFFFFF)
    return (int(upper) << 32) + int(lower)


def merge_summaries(summaries: pa.Table, starts: Rows) -> pa.Table:
    """Merge each run of summaries.

    Args:
        summaries: Summaries with a `summary_schema`.
        starts: As for `summarize`.

    Example:
        >>> parts = summarize(pa.array([5, 3, None, 8]), np.array([0, 2]))
        >>> merge_summaries(parts, np.array([0])).to_pylist()
        [{'min': 3, 'max': 8, 'sum': Decimal('16'), 'num_rows': 4, 'null_count': 1, 'nan_count': 0}]
    """
    data_type = summaries.schema.field("min").type
    if len(starts) == 1 and pa.types.is_null(data_type):
        return _counts_alone(*(pc.sum(summaries[name], min_count=0).as_py() for name in _COUNTS))
    columns: dict[str, Any] = {
        name: summaries[name].combine_chunks().cast(sortable_type(data_type)) for name in ("min", "max")
    }
    columns["sum"] = summaries["sum"].combine_chunks()
    columns |= {name: _numbers(summaries[name]) for name in _COUNTS}
    return _add_up(columns, starts, data_type)


def one_summary(
    data_type: pa.DataType, value: pa.Scalar | None, num_rows: int, null_count: int, nan_count: int = 0
) -> pa.Table:
    """Return the summary of rows that all have one value, or whose values do not matter.

    Args:
        value: The value, of this type. None or null if the rows have no value, or it does not matter.

    Example:
        >>> one_summary(pa.int8(), pa.scalar(7, pa.int8()), 1000, 0).to_pylist()
        [{'min': 7, 'max': 7, 'sum': Decimal('7000'), 'num_rows': 1000, 'null_count': 0, 'nan_count': 0}]
    """
    if pa.types.is_null(data_type):
        return _counts_alone(num_rows, null_count, nan_count)
    total = sum_type(data_type)
    counts = [pa.array([count], pa.int64()) for count in (num_rows, null_count, nan_count)]
    has_value = value is not None and value.is_valid and num_rows > 0
    extreme = pa.array([value], data_type) if has_value else pa.nulls(1, data_type)
    summed = pa.nulls(1, total)
    if total != pa.null():
        one = pc.fill_null(extreme.cast(sortable_type(data_type)).cast(total), 0)[0].as_py()
        is_exact = pa.types.is_decimal(total)
        summed = pa.array([_EXACT.multiply(one, Decimal(num_rows)) if is_exact else one * num_rows], total)
    if nan_count:
        extreme = pa.nulls(1, data_type)
    return pa.table([extreme, extreme, summed, *counts], schema=summary_schema(data_type))


def _counts_alone(*counts: int) -> pa.Table:
    """Return the summary of rows whose values do not matter."""
    arrays = [pa.nulls(1)] * 3 + [pa.array([count], pa.int64()) for count in counts]
    return pa.table(arrays, schema=summary_schema(pa.null()))


def _add_up(columns: dict[str, Any], starts: Rows, data_type: pa.DataType) -> pa.Table:
    """Merge runs of summaries. ``min`` and ``max`` have the sortable type; counts are NumPy arrays."""
    schema = summary_schema(data_type)
    if len(starts) == 0:
        return schema.empty_table()
    is_decimal = pa.types.is_decimal(schema.field("sum").type)
    added = {name: columns[name] for name in ("min", "max", *(("sum",) if is_decimal else ()))}
    found = _one_run(added) if len(starts) == 1 else _grouped(added, starts)
    if is_decimal:
        summed = pc.fill_null(found["sum"].cast(schema.field("sum").type), 0)
    elif columns["sum"].type == pa.float64():
        with np.errstate(over="ignore", invalid="ignore"):
            summed = pa.array(np.add.reduceat(_numbers(columns["sum"]), starts))
    else:
        summed = pa.nulls(len(starts))
    arrays = [found["min"].cast(data_type), found["max"].cast(data_type), summed]
    arrays += [pa.array(np.add.reduceat(columns[name], starts)) for name in _COUNTS]
    return pa.table(arrays, schema=schema)


def _one_run(columns: dict[str, Any]) -> dict[str, pa.Array]:
    """Merge columns of summaries to one value each, several times as fast as by grouping."""
    kernels = {"min": pc.min, "max": pc.max, "sum": pc.sum}
    both = dict(pc.min_max(columns["min"])) if columns["min"] is columns["max"] else {}
    merged = {name: both[name] if name in both else kernels[name](column) for name, column in columns.items()}
    return {name: pa.array([value], value.type) for name, value in merged.items()}


def _grouped(columns: dict[str, Any], starts: Rows) -> dict[str, pa.ChunkedArray]:
    """Merge each run of columns of summaries to one value."""
    run = np.repeat(np.arange(len(starts)), np.diff(np.append(starts, len(columns["min"]))))
    table = pa.table({"run": pa.array(run), **columns})
    found = table.group_by("run", use_threads=False).aggregate([(name, name) for name in columns])
    return {name: found[f"{name}_{name}"] for name in columns}


def _numbers(array: pa.Array | pa.ChunkedArray) -> npt.NDArray[Any]:
    """Convert numbers to NumPy, with 0 for null."""
    return np.asarray(pc.fill_null(array, 0).to_numpy())
