"""The order of the rows of a rewritten lake: which rows share a file, and their order in it."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from itertools import pairwise
from typing import TYPE_CHECKING, Any, TypeAlias

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc

from intarsia.errors import ColumnNotFoundError, WriteError
from intarsia.records import dataclass
from intarsia.spark.checksums import free_name
from intarsia.spark.sessions import using_worker_python
from intarsia.spark.spark_types import quoted
from intarsia.write.rows import SortBy, SortKey, sort_keys, sortable

if TYPE_CHECKING:
    from pyspark.sql import Column, DataFrame

Ranks: TypeAlias = npt.NDArray[np.int64]

#: Computes keys from the ranks of each column and the number of bits of a rank.
Curve: TypeAlias = Callable[[Sequence[Ranks], int], Ranks]

#: The bits of all ranks of a row have to fit into a positive 64-bit integer.
_KEY_BITS = 63

#: More bits would not separate pages of lakes below a trillion rows, and take more time.
_MAX_BITS = 12

#: Maximum number of columns of a key; each needs at least a few bits.
MAX_COLUMNS = 8


def bits_per_column(num_columns: int) -> int:
    """Return the number of bits of a rank.

    Example:
        >>> bits_per_column(2), bits_per_column(8)
        (12, 7)
    """
    return min(_MAX_BITS, _KEY_BITS // num_columns)


def quantile_bounds(sample: pa.Array | pa.ChunkedArray, bits: int) -> pa.Array:
    """Return sorted, distinct bounds that divide a sample into at most ``2**bits`` parts of equal size.

    Nulls are ignored; they have the last rank.

    Example:
        >>> quantile_bounds(pa.array([4, 1, None, 3, 2]), 1).to_pylist()
        [3]
    """
    values = _sortable(sample).drop_null()
    ordered = values.take(pc.sort_indices(values))
    parts = min(1 << bits, len(ordered))
    positions = np.arange(1, parts) * len(ordered) // max(parts, 1)
    return pc.unique(ordered.take(pa.array(positions)))


def ranks(values: pa.Array, bounds: pa.Array, bits: int) -> Ranks:
    """Return for each value the number of bounds that are not above it; for nulls, the last rank.

    Args:
        values: Values of any type that can be sorted.
        bounds: The result of `quantile_bounds` for the column.
        bits: The number of bits of a rank.

    Example:
        >>> ranks(pa.array([0, 3, 9, None]), pa.array([3, 5]), 4)
        array([ 0,  1,  2, 15])
    """
    found = np.full(len(values), (1 << bits) - 1, dtype=np.int64)
    known = _sortable(values)
    positions = np.flatnonzero(known.is_valid().to_numpy(zero_copy_only=False))
    if len(positions):
        # sorted together with the bounds, which precede equal values because the sort is stable
        merged = pa.concat_arrays([bounds, known.drop_null()])
        order = pc.sort_indices(merged).to_numpy()
        is_bound = order < len(bounds)
        below = np.cumsum(is_bound)
        found[positions[order[~is_bound] - len(bounds)]] = below[~is_bound]
    return found


def z_order(coordinates: Sequence[Ranks], bits: int) -> Ranks:
    """Return the position of each cell on the Z-order curve: the bits of its coordinates, interleaved.

    Example:
        >>> z_order([np.array([0, 0, 1, 1]), np.array([0, 1, 0, 1])], 1)
        array([0, 1, 2, 3])
    """
    keys = np.zeros(len(coordinates[0]), dtype=np.int64)
    for bit in reversed(range(bits)):
        for ranks_of_column in coordinates:
            keys <<= 1
            keys |= (ranks_of_column >> bit) & 1
    return keys


def hilbert(coordinates: Sequence[Ranks], bits: int) -> Ranks:
    """Return the position of each cell on the Hilbert curve, on which consecutive cells are neighbors.

    After Skilling, "Programming the Hilbert curve" (2004).

    Example:
        >>> hilbert([np.array([0, 0, 1, 1]), np.array([0, 1, 1, 0])], 1)
        array([0, 1, 2, 3])
    """
    axes = [ranks_of_column.copy() for ranks_of_column in coordinates]
    first = axes[0]
    for bit in reversed(range(1, bits)):
        low = (1 << bit) - 1
        for axis in axes:
            is_set = (axis >> bit) & 1 == 1
            swapped = np.where(is_set, 0, (first ^ axis) & low)
            first ^= np.where(is_set, low, swapped)
            if axis is not first:
                axis ^= swapped
    for previous, axis in pairwise(axes):
        axis ^= previous
    flips = np.zeros(len(first), dtype=np.int64)
    for bit in reversed(range(1, bits)):
        flips ^= np.where((axes[-1] >> bit) & 1 == 1, (1 << bit) - 1, 0)
    return z_order([axis ^ flips for axis in axes], bits)


def curve_keys(columns: Sequence[pa.Array], bounds: Sequence[pa.Array], curve: Curve) -> Ranks:
    """Return the key of each row.

    Args:
        columns: The values of each column.
        bounds: The bounds of each column.
        curve: `z_order` or `hilbert`.
    """
    bits = bits_per_column(len(columns))
    coordinates = [ranks(values, edges, bits) for values, edges in zip(columns, bounds, strict=True)]
    return curve(coordinates, bits)


def _sortable(values: pa.Array | pa.ChunkedArray) -> pa.Array:
    """Cast to a type that pyarrow sorts correctly, in one array."""
    array = sortable(values)
    return array.combine_chunks() if isinstance(array, pa.ChunkedArray) else array


#: Number of rows from which the distribution of values is estimated.
_SAMPLED_ROWS = 200_000

#: Types whose values are the same after a conversion to Python and back.
_EXACT_TYPES = ("byte", "short", "integer", "long", "string", "date")

#: The comparisons that find one of more parts would not fit into a method that Java compiles.
_MOST_PARTS = 128


@dataclass(frozen=True)
class Clustering:
    """An order of rows.

    Attributes:
        keys: Columns to sort by, each with its direction.
        curve: The curve; None to sort by ``keys``.
        columns: The columns of the curve.
    """

    keys: tuple[SortKey, ...] = ()
    curve: Curve | None = None
    columns: tuple[str, ...] = ()

    @classmethod
    def of(
        cls,
        schema: pa.Schema,
        sort_by: SortBy | None,
        zorder_by: str | Sequence[str] | None,
        hilbert_by: str | Sequence[str] | None,
    ) -> Clustering:
        """Return the requested order.

        Raises:
            WriteError: If more than one order is given, or a column cannot be sorted.
            ColumnNotFoundError: If a column does not exist.
        """
        requested = {"sort_by": sort_by, "zorder_by": zorder_by, "hilbert_by": hilbert_by}
        given = [name for name, value in requested.items() if value is not None]
        if len(given) > 1:
            raise WriteError(
                f"{' and '.join(given)} cannot be combined; pass one of them", reason="conflicting-orders"
            )
        if not given or given == ["sort_by"]:
            return cls(keys=tuple(sort_keys(sort_by, schema)))
        columns = zorder_by if given == ["zorder_by"] else hilbert_by
        names = (columns,) if isinstance(columns, str) else tuple(columns or ())
        if not 0 < len(names) <= MAX_COLUMNS or len(set(names)) < len(names):
            raise WriteError(
                f"{given[0]} has {len(names)} columns; pass 1 to {MAX_COLUMNS} different ones",
                reason="invalid-curve-columns",
            )
        sort_keys(list(names), schema)
        return cls(curve=z_order if given == ["zorder_by"] else hilbert, columns=names)

    @property
    def names(self) -> tuple[str, ...]:
        """The names of all columns of the order."""
        return self.columns or tuple(name for name, _ in self.keys)


def arranged(
    frame: DataFrame, clustering: Clustering, first: Sequence[str], num_rows: int, num_parts: int
) -> DataFrame:
    """Return the rows in an order, divided into ranges of about the same size.

    Args:
        frame: The rows.
        clustering: Their order.
        first: Names of columns to sort by before that order.
        num_rows: The number of rows.
        num_parts: The number of partitions of the result.

    Returns:
        A DataFrame with the same columns.
    """
    import pyspark.sql.functions as sf

    if not clustering.names and not first:
        return frame.coalesce(num_parts)
    order: list[Column] = [sf.col(quoted(name)).asc_nulls_last() for name in first]
    if clustering.curve is not None:
        key = free_name(frame.columns)
        keyed = frame.withColumn(key, _curve_column(frame, clustering, num_rows))
        order.append(sf.col(key).asc())
        return keyed.repartitionByRange(num_parts, *order).sortWithinPartitions(*order).drop(key)
    for name, direction in clustering.keys:
        column = sf.col(quoted(name))
        order.append(column.asc_nulls_last() if direction == "ascending" else column.desc_nulls_last())
    if not first and [direction for _, direction in clustering.keys] == ["ascending"]:
        part = _part_column(frame, clustering.names[0], num_rows, num_parts)
        if part is not None:
            return frame.repartitionById(num_parts, part).sortWithinPartitions(*order)
    return frame.repartitionByRange(num_parts, *order).sortWithinPartitions(*order)


def _part_column(frame: DataFrame, name: str, num_rows: int, num_parts: int) -> Column | None:
    """Return the ordinal of the range of values to which each row belongs; nulls belong to the last one.

    Spark's own range partitioning reads all columns of all rows once more, to sample the values.

    Returns:
        None if Spark has to do it: for types whose values might change on their way through Python, and for
        very many parts.
    """
    import pyspark.sql.functions as sf

    data_type = frame.schema[name].dataType.typeName()
    if not 1 < num_parts <= _MOST_PARTS or data_type not in _EXACT_TYPES:
        return None
    value = frame[quoted(name)]
    if data_type == "date":
        value = sf.unix_date(value)  # Python has no dates before the year 1 and after 9999
    share = min(1.0, _SAMPLED_ROWS / max(num_rows, 1))
    sample = frame.select(value.alias("c")).sample(fraction=share, seed=0).where("c IS NOT NULL")
    values = sample.sort("c").toArrow().column(0)
    bounds = [values[len(values) * ordinal // num_parts].as_py() for ordinal in range(1, num_parts) if values]

    def part(start: int, stop: int) -> Column:
        if start == stop:
            return sf.lit(start)
        middle = (start + stop) // 2
        # the comparison with null is not true, so that nulls are in the last part
        return sf.when(value < sf.lit(bounds[middle]), part(start, middle)).otherwise(part(middle + 1, stop))

    return part(0, len(bounds))


def _curve_column(frame: DataFrame, clustering: Clustering, num_rows: int) -> Column:
    from pyspark.sql.functions import arrow_udf

    assert clustering.curve is not None
    columns = [frame[quoted(name)] for name in clustering.columns]
    share = min(1.0, _SAMPLED_ROWS / max(num_rows, 1))
    sampled = frame.select(*(column.alias(f"c{ordinal}") for ordinal, column in enumerate(columns)))
    sample = (sampled if share == 1 else sampled.sample(fraction=share, seed=0)).toArrow()
    bits = bits_per_column(len(columns))
    bounds = [quantile_bounds(column, bits) for column in sample.columns]
    curve = clustering.curve

    # a closure, because Spark serializes it; the functions that it calls are imported on the executors
    def key(*values: pa.Array) -> pa.Array:
        return pa.array(curve_keys(values, bounds, curve), pa.int64())

    computed: Any = arrow_udf(key, returnType="bigint")
    with using_worker_python(frame.sparkSession):
        return computed(*columns)


def check_partition_columns(names: Sequence[str], schema: pa.Schema, clustering: Clustering) -> None:
    """Raise an error for invalid partition columns.

    Raises:
        ColumnNotFoundError: If a column does not exist.
        WriteError: If a column is nested or binary, or occurs twice, or if no other column is left.
    """
    for name in names:
        if name not in schema.names:
            raise ColumnNotFoundError(name, schema.names)
        data_type = schema.field(name).type
        if pa.types.is_nested(data_type) or pa.types.is_binary(data_type):
            raise WriteError(
                f"partition_by: column {name!r} has type {data_type}; partition by numbers, text, dates "
                "or timestamps",
                reason="invalid-partition-column",
                column=name,
            )
        if name in clustering.names:
            raise WriteError(
                f"column {name!r} is a partition column, and has one value in each file; omit it from "
                "the order",
                reason="partition-column-in-order",
                column=name,
            )
    if len(set(names)) < len(names) or len(names) == len(schema):
        raise WriteError(
            "partition_by: pass different columns, and leave at least one column for the files",
            reason="invalid-partition-columns",
        )
