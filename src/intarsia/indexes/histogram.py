"""Equi-depth histograms per granule, which estimate the number of matching rows.

The payload (see `intarsia.indexes.granules`) has one row per granule::

    count       uint64        rows with a value other than NaN
    null_count  uint64
    nan_count   uint64
    bounds      list<scale>   minimum, then upper bound of each bucket; ascending; empty if count is 0
    distinct    list<uint64>  number of distinct values in each bucket

Values are compared on a *scale*: int64, uint64, float64, string or binary. A timestamp is a number of units,
and a decimal is a float, which is sufficient for an estimate.
"""

from __future__ import annotations

import math
from bisect import bisect_left, bisect_right
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, ClassVar

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from intarsia.arrow.comparison import comparison_array, comparison_type
from intarsia.errors import IndexBuildError
from intarsia.indexes.base import Index, OpenIndex, PayloadPart
from intarsia.indexes.granules import (
    merge_rows_of_granules,
    parse_granules,
    pieces_of_granules,
    serialize_granules,
)
from intarsia.indexes.layout import (
    ColumnData,
    Granularity,
    Layout,
    check_granularity,
    check_integer,
    compared_batches,
)
from intarsia.predicate.bound import BoundCompare, BoundIn, BoundNull, BoundPrefix, Condition

#: Bounds are truncated to this many characters of text or bytes of binary, sufficient for an estimate.
MAX_BOUND_LENGTH = 64

MAX_BUCKETS = 4096


@dataclass(frozen=True)
class Histogram(Index):
    """The distribution of a column's values, from which the number of matching rows is estimated.

    It does not skip rows. `explain` shows the estimate next to the actual number, and a scan reads the
    columns of the most selective conditions first. The buckets of a granule have about equal numbers of rows
    (equi-depth; Piatetsky-Shapiro and Connell, SIGMOD 1984), each with its number of distinct values.

    Args:
        column: The column, dotted if it is nested. It must not be inside a list or a map.
        granularity: ``"row_group"``, ``"page"``, or a number of rows.
        buckets: The number of buckets per granule, 1 to 4,096.

    Example:
        >>> import intarsia as ia
        >>> ia.Histogram("amount")
        Histogram(column='amount', granularity='row_group', buckets=64)
    """

    kind: ClassVar[str] = "histogram"
    version: ClassVar[int] = 2
    purpose: ClassVar[str] = "estimate numbers of matching rows"

    column: str
    granularity: Granularity = "row_group"
    buckets: int = 64

    def __post_init__(self) -> None:
        """Check the parameters."""
        if self.granularity == "file":
            raise IndexBuildError(
                "Histogram: granularity 'file' would need a whole column in memory; use 'row_group', whose "
                "estimates are summed over the file",
                reason="invalid-granularity",
                column=self.column,
            )
        check_granularity(self, "row_group", "page")
        check_integer(self, "buckets", 1, MAX_BUCKETS)

    def can_prune(self, condition: Condition) -> bool:
        """Return False: a histogram only estimates."""
        return False

    def can_estimate(self, condition: Condition) -> bool:
        """Return whether the condition depends only on order and equality."""
        return isinstance(condition, (BoundCompare, BoundIn, BoundNull, BoundPrefix))

    def build(self, chunk: ColumnData) -> bytes:
        """Divide the values of each granule into buckets of about equal counts."""
        value_type = comparison_type(chunk.type_of(self.column))
        scale = _scale_of(value_type)
        if scale is None:
            raise IndexBuildError(
                f"Histogram: values of {self.column!r} ({value_type}) have no order; omit the index",
                reason="type-not-ordered",
                column=self.column,
            )
        edges = chunk.layout.edges(self.granularity, self.column)
        rows = [
            _summarize([_scaled(piece, scale) for piece in pieces], scale, self.buckets)
            for pieces in pieces_of_granules(edges, compared_batches(chunk, self.column))
        ]
        batch = pa.RecordBatch.from_pylist(rows, schema=_schema(scale))
        return serialize_granules(batch, edges, self.granularity)

    def merge(self, parts: Sequence[PayloadPart]) -> bytes:
        """Concatenate the histograms of all granules."""
        return merge_rows_of_granules(parts, self.granularity, f"Histogram({self.column!r})")

    def open(self, payload: bytes, layout: Layout) -> OpenHistogram:
        """Open the histograms of all granules."""
        name = f"Histogram({self.column!r})"
        granules = parse_granules(payload, layout, self.granularity, name, has_row_each=True)
        batch = granules.batch
        scales = (pa.int64(), pa.uint64(), pa.float64(), pa.string(), pa.binary())
        if not any(batch.schema.equals(_schema(scale)) for scale in scales):
            raise granules.damaged("it has other columns")
        scale = batch.schema.field("bounds").type.value_type
        if pa.types.is_string(scale):  # compared as bytes, as in Parquet
            batch = batch.set_column(3, "bounds", batch.column("bounds").cast(pa.list_(pa.binary())))
        histograms = [_Granule(**row) for row in batch.to_pylist()]
        for ordinal, found in enumerate(histograms):
            bounds, expected = found.bounds, len(found.distinct) + 1 if found.count else 0
            if len(bounds) != expected or None in bounds or bounds != sorted(bounds) or 0 in found.distinct:
                raise granules.damaged(f"bounds of granule {ordinal}")
        return OpenHistogram(scale, tuple(histograms))


def _schema(scale: pa.DataType) -> pa.Schema:
    counts = [pa.field(name, pa.uint64(), nullable=False) for name in ("count", "null_count", "nan_count")]
    return pa.schema(
        [*counts, pa.field("bounds", pa.list_(scale)), pa.field("distinct", pa.list_(pa.uint64()))]
    )


def _scale_of(data_type: pa.DataType) -> pa.DataType | None:
    """Return the scale of a type, or None if it has no order."""
    if pa.types.is_string(data_type) or pa.types.is_binary(data_type):
        return data_type
    if pa.types.is_fixed_size_binary(data_type):
        return pa.binary()
    if pa.types.is_uint64(data_type):
        return pa.uint64()
    if pa.types.is_integer(data_type) or pa.types.is_temporal(data_type) or pa.types.is_boolean(data_type):
        return pa.int64()
    return pa.float64() if pa.types.is_floating(data_type) or pa.types.is_decimal(data_type) else None


def _scaled(values: pa.Array, scale: pa.DataType) -> pa.Array:
    data_type = values.type
    if pa.types.is_date32(data_type) or pa.types.is_time32(data_type):
        values = values.cast(pa.int32())
    elif pa.types.is_float16(data_type):
        values = values.cast(pa.float32())
    return values.cast(scale)


def _summarize(pieces: list[pa.Array], scale: pa.DataType, buckets: int) -> dict[str, Any]:
    """Build the row of the payload for one granule."""
    values = pa.concat_arrays([pa.array([], scale), *pieces])
    null_count, nan_count = values.null_count, 0
    values = values.drop_null()
    if pa.types.is_floating(scale):
        is_nan = pc.is_nan(values)
        nan_count = is_nan.true_count
        values = values.filter(pc.invert(is_nan))
    row: dict[str, Any] = {"count": len(values), "null_count": null_count, "nan_count": nan_count}
    if not len(values):
        return row | {"bounds": [], "distinct": []}
    counted = pc.value_counts(values)
    distinct = counted.field("values")
    order = pc.array_sort_indices(distinct)
    ends = np.cumsum(counted.field("counts").to_numpy()[order.to_numpy()])
    # the value at the end of each bucket, where all buckets have about equal numbers of rows
    wanted = np.unique(np.ceil(np.arange(1, buckets + 1) * len(values) / buckets).astype(np.int64))
    positions = np.searchsorted(ends, wanted)
    bounds = distinct.take(order.take(pa.array(np.concatenate([[0], positions]))))
    # a bucket inside a frequent value adds no distinct value
    new = np.diff(np.concatenate([[-1], positions]))
    return row | {"bounds": _cut(bounds).to_pylist(), "distinct": np.maximum(new, 1).tolist()}


def _cut(bounds: pa.Array) -> pa.Array:
    if pa.types.is_string(bounds.type):
        return pc.utf8_slice_codeunits(bounds, 0, MAX_BOUND_LENGTH)
    return pc.binary_slice(bounds, 0, MAX_BOUND_LENGTH) if pa.types.is_binary(bounds.type) else bounds


@dataclass(frozen=True)
class OpenHistogram(OpenIndex):
    """The histograms of all granules."""

    scale: pa.DataType
    granules: tuple[_Granule, ...]

    def estimated_rows(self, condition: Condition) -> float | None:
        """Estimate the number of rows of the file that match a condition."""
        if isinstance(condition, BoundNull):
            nulls = float(sum(granule.null_count for granule in self.granules))
            return sum(granule.rows for granule in self.granules) - nulls if condition.negated else nulls
        filled = [granule for granule in self.granules if granule.count]
        if isinstance(condition, BoundCompare):
            value = self._on_scale(condition.value)
            found = sum(granule.compared(condition.op, value) for granule in filled)
        elif isinstance(condition, BoundIn):
            values = [self._on_scale(value) for value in condition.values]
            found = sum(granule.among(values, negated=condition.negated) for granule in filled)
        elif isinstance(condition, BoundPrefix):
            found = sum(granule.prefixed(condition.prefix) for granule in filled)
            if condition.negated:
                found = sum(granule.count for granule in filled) - found
        else:
            return None
        return float(found + (sum(granule.nan_count for granule in self.granules) if condition.or_nan else 0))

    def _on_scale(self, value: pa.Scalar) -> Any:
        data_type = value.type
        array = comparison_array(pa.array([value], data_type), comparison_type(data_type))
        scaled = _cut(_scaled(array, self.scale))[0].as_py()
        return scaled.encode() if isinstance(scaled, str) else scaled


@dataclass(frozen=True)
class _Granule:
    """The row counts of a granule, the bounds of its buckets, and the number of distinct values in each.

    Estimates are defined if it has a value.
    """

    count: int
    null_count: int
    nan_count: int
    bounds: list[Any]
    distinct: list[int]

    @property
    def rows(self) -> int:
        return self.count + self.null_count + self.nan_count

    def compared(self, op: str, value: Any) -> float:
        """Estimate the rows for which ``value op literal`` is true."""
        equal, below = self.equal(value), self.below(value)
        parts = {"=": equal, "<>": self.count - equal, "<": below, "<=": below + equal}
        parts |= {">": self.count - below - equal, ">=": self.count - below}
        return min(max(parts[op], 0.0), self.count)

    def among(self, values: list[Any], *, negated: bool) -> float:
        """Estimate the rows whose value is, or is not, in a list."""
        found = min(sum(map(self.equal, values)), self.count)
        return self.count - found if negated else found

    def prefixed(self, prefix: bytes) -> float:
        """Estimate the rows whose text starts with ``prefix``."""
        after = prefix + b"\xff"  # above every text with the prefix, because UTF-8 never contains 0xFF
        return max(self.below(after) - self.below(prefix), self.equal(prefix))

    def equal(self, value: Any) -> float:
        """Estimate the rows with a value, from the buckets that it fills or its share of one bucket."""
        if not self.bounds[0] <= value <= self.bounds[-1]:
            return 0.0
        depth = self.count / len(self.distinct)
        first, last = bisect_left(self.bounds, value), bisect_right(self.bounds, value)
        if last - first > 1:  # it fills whole buckets and parts of the adjacent ones
            beside = (first > 0) + (last < len(self.bounds))
            return (last - first - 1 + beside / 2) * depth
        bucket = min(max(first - 1, 0), len(self.distinct) - 1)
        return depth / self.distinct[bucket]

    def below(self, value: Any) -> float:
        """Estimate the rows with a smaller value. Numbers are assumed to be uniform within a bucket."""
        position = bisect_left(self.bounds, value)
        if position == 0:
            return 0.0
        depth = self.count / len(self.distinct)
        if position == len(self.bounds):
            return float(self.count)
        low, high = self.bounds[position - 1], self.bounds[position]
        is_spread = isinstance(value, (int, float)) and high > low and math.isfinite(high - low)
        within = (value - low) / (high - low) if is_spread else 0.5
        return (position - 1 + min(max(within, 0.0), 1.0)) * depth
