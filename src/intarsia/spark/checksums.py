"""Checksums of rows that do not depend on their order, to compare a rewritten lake with its source.

Spark's XXH64 hashes each value, and then the hashes of a row. The hashes of all rows are added, so equal rows
are counted, unlike with XOR, where pairs cancel. Equal checksums mean equal rows, and therefore equal
columns. The columns are compared one by one only if the checksums differ.
"""

from __future__ import annotations

import contextlib
from collections.abc import Iterator, Sequence
from typing import TYPE_CHECKING, Any

import numpy as np
import pyarrow as pa

from intarsia.records import dataclass
from intarsia.spark.job import TaskProgress, collect_rows
from intarsia.spark.sessions import changed_setting
from intarsia.spark.spark_types import quoted, types_within

if TYPE_CHECKING:
    from pyspark.sql import Column, DataFrame, SparkSession

#: Sums of parts of hashes: with at most 24 bits, they do not overflow 64 bits below 2**39 rows.
_PART_BITS = 22
_COLUMN_SHIFT = 40


@dataclass(frozen=True)
class Checksums:
    """The number of rows, and the sum of their hashes.

    Attributes:
        num_rows: The number of rows.
        rows: The checksum of all rows, from all of their columns.
    """

    num_rows: int = 0
    rows: int = 0

    def __add__(self, other: Checksums) -> Checksums:
        return Checksums(self.num_rows + other.num_rows, self.rows + other.rows)

    @classmethod
    def of_hashes(cls, hashes: pa.Array) -> Checksums:
        """Return the checksums of the rows with these hashes, which `with_hashes` added.

        Example:
            >>> Checksums.of_hashes(pa.array([-(1 << 63), -1, 5]))
            Checksums(num_rows=3, rows=-9223372036854775804)
        """
        found = hashes.to_numpy(zero_copy_only=False)
        high, low = int(np.sum(found >> 32)), int(np.sum(found & 0xFFFFFFFF))
        return cls(len(hashes), (high << 32) + low)


def checksums(spark: SparkSession, frame: DataFrame, progress: TaskProgress) -> Checksums:
    """Compute the checksums of a frame, in one job.

    Args:
        spark: The session.
        frame: The frame; names of columns are unique.
        progress: As for `collect_rows`.
    """
    import pyspark.sql.functions as sf

    low = (1 << _PART_BITS) - 1
    # the highest part keeps its sign
    parts = [
        sf.shiftright("row", 2 * _PART_BITS),
        sf.shiftright("row", _PART_BITS).bitwiseAND(low),
        sf.col("row").bitwiseAND(low),
    ]
    sums = [sf.sum(part).alias(f"s{ordinal}") for ordinal, part in enumerate(parts)]
    totals = frame.select(_row_hash(frame).alias("row")).agg(sf.count("*").alias("rows"), *sums)
    ((num_rows, *found),) = collect_rows(spark, totals, progress)
    total = sum((part or 0) << (2 - ordinal) * _PART_BITS for ordinal, part in enumerate(found))
    return Checksums(num_rows, total)


def with_hashes(frame: DataFrame) -> DataFrame:
    """Add the hash of each row as the last column, under a name that no other column has.

    Args:
        frame: A frame; names of columns are unique.
    """
    return frame.withColumn(free_name(frame.columns), _row_hash(frame))


def _row_hash(frame: DataFrame) -> Column:
    import pyspark.sql.functions as sf

    return sf.xxhash64(*_hashes(sf, frame))


def different_columns(
    spark: SparkSession, one: DataFrame, other: DataFrame, progress: TaskProgress
) -> list[str]:
    """Return the names of the columns whose values differ; none if values have only moved to other rows.

    Args:
        spark: The session.
        one: A frame; names of columns are unique.
        other: A frame with the same columns.
        progress: As for `collect_rows`.
    """
    first, second = (_column_sums(spark, frame, progress) for frame in (one, other))
    return [name for name, a, b in zip(one.columns, first, second, strict=True) if a != b]


def _column_sums(spark: SparkSession, frame: DataFrame, progress: TaskProgress) -> list[int]:
    import pyspark.sql.functions as sf

    parts = [sf.shiftright(one, _COLUMN_SHIFT).alias(f"h{at}") for at, one in enumerate(_hashes(sf, frame))]
    sums = [sf.sum(f"h{ordinal}").alias(f"s{ordinal}") for ordinal in range(len(parts))]
    (row,) = collect_rows(spark, frame.select(*parts).agg(*sums), progress)
    return [value or 0 for value in row]


def free_name(names: Sequence[str]) -> str:
    """Return a name that no column has; Spark ignores the case of names.

    Example:
        >>> free_name(["a", "_KEY0"])
        '_key1'
    """
    taken = {name.lower() for name in names}
    return next(name for number in range(len(names) + 1) if (name := f"_key{number}") not in taken)


def _hashes(sf: Any, frame: DataFrame) -> list[Column]:
    """Return the hash of each value of a row; that of null is not null."""
    return [_hash(sf, frame[quoted(one.name)], one.dataType) for one in frame.schema]


def _hash(sf: Any, value: Column, data_type: Any) -> Column:
    if types_within(data_type) is None:
        hashed: Column = sf.xxhash64(value)
        return hashed
    # a hash skips nulls, so that null, [] and [null] have the same one, but not the same text
    text = value.cast("string")
    # Spark refuses to hash maps, because equal maps may differ in the order of entries; a rewrite keeps it
    nested: Column = sf.xxhash64(text) if "map<" in data_type.simpleString() else sf.xxhash64(value, text)
    return nested


_ROWS, _BYTES = (f"spark.sql.execution.arrow.max{unit}PerBatch" for unit in ("Records", "Bytes"))

#: Spark's own defaults.
_MAX_ROWS, _MAX_BYTES = 10_000, 64 << 20

#: Smaller batches would cost more than the limit in bytes.
_FEWEST_ROWS = 500

#: The value of the limit that disables Spark's computation of sizes.
_NO_LIMIT = (1 << 31) - 1

#: Size in bytes of a value of fixed width, even as the text of a partition column, such as a decimal.
_FIXED_BYTES = 48

#: Number of rows whose lengths are read.
_SAMPLED_ROWS = 20_000

#: Rows may be this many times as long as the longest row of the sample, or as the stored rows on average.
_OF_SAMPLED, _OF_STORED = 4, 64


def likely_row_bytes(frame: DataFrame, stored_bytes: int) -> int | None:
    """Return the size in memory, in bytes, that rows are unlikely to exceed; None if a column is nested.

    It is estimated from the first rows and from the size of the files. A certain limit would need the length
    of every text, and reading these takes a tenth of the time of a rewrite.

    Args:
        frame: The rows.
        stored_bytes: The average size of a row in the files, in bytes.
    """
    import pyspark.sql.functions as sf

    types = {one.name: one.dataType for one in frame.schema}
    if any(types_within(data_type) is not None for data_type in types.values()):
        return None
    texts = [
        sf.coalesce(sf.octet_length(quoted(name)), sf.lit(0))
        for name, data_type in types.items()
        if data_type.typeName() in ("string", "binary")
    ]
    longest = 0
    if texts:
        lengths = frame.select(sum(texts, sf.lit(0)).alias("length")).limit(_SAMPLED_ROWS)
        longest = lengths.agg(sf.max("length")).collect()[0][0] or 0
    return _FIXED_BYTES * len(types) + max(_OF_SAMPLED * longest, _OF_STORED * stored_bytes if texts else 0)


@contextlib.contextmanager
def batches_of_counted_rows(spark: SparkSession, max_row_bytes: int | None) -> Iterator[None]:
    """Limit batches to 64 MiB by a number of rows, instead of by their bytes.

    With a limit in bytes, Spark computes the size of the batch after each row, from all of its columns. For
    16 columns this took more than half of the time in which rows become Arrow batches.

    Args:
        spark: The session, whose settings are restored at the end of the block.
        max_row_bytes: The size of a large row in bytes; None if unknown, which changes nothing.
    """
    rows = min(_MAX_ROWS, _MAX_BYTES // max_row_bytes) if max_row_bytes else 0
    if rows < _FEWEST_ROWS:
        yield
        return
    with contextlib.ExitStack() as changed:
        # these settings only save time, and servers of Connect may refuse them
        with contextlib.suppress(Exception):
            for key, value in ((_ROWS, rows), (_BYTES, _NO_LIMIT)):
                changed.enter_context(changed_setting(spark, key, str(value)))
        yield
