"""Checksums of rows that do not depend on their order, to compare a rewritten lake with its source.

Each value is hashed by Spark's XXH64, and the hashes of a column are added. A checksum of whole rows also
detects values that have moved to another row. Equal rows are counted, unlike with XOR, where pairs cancel.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from intarsia.spark.job import TaskProgress, collect_rows

if TYPE_CHECKING:
    from pyspark.sql import Column, DataFrame, SparkSession

#: Partial sums per frame: sums of 64-bit hashes would overflow. Those of 32 bits do not, below 2**31 rows.
_GROUPS = 64


@dataclass(frozen=True)
class Checksums:
    """The number of rows, and sums of hashes.

    Attributes:
        num_rows: The number of rows.
        rows: The checksum of whole rows.
        columns: The checksum of each column.
    """

    num_rows: int
    rows: int
    columns: dict[str, int]

    def difference(self, other: Checksums) -> str | None:
        """Describe the first difference; None if both are equal.

        Example:
            >>> one = Checksums(2, 7, {"a": 5, "b": 9})
            >>> one.difference(one) is None, one.difference(Checksums(2, 8, {"a": 5, "b": 8}))
            (True, 'the values of b differ')
        """
        if self.num_rows != other.num_rows:
            return f"{self.num_rows:,} rows became {other.num_rows:,}"
        changed = [name for name, total in self.columns.items() if other.columns.get(name) != total]
        if changed:
            return f"the values of {', '.join(changed)} differ"
        return None if self == other else "values have moved to other rows"


def checksums(spark: SparkSession, frame: DataFrame, progress: TaskProgress) -> Checksums:
    """Compute the checksums of a frame, in one job.

    Args:
        spark: The session.
        frame: The frame; names of columns are unique.
        progress: As for `collect_rows`.
    """
    import pyspark.sql.functions as sf

    names = frame.columns
    values = [frame[quoted(name)] for name in names]
    hashes = [_hash(sf, value, field.dataType) for value, field in zip(values, frame.schema, strict=True)]
    # hashed once, then used for the checksums of the column and of the row
    hashed = frame.select(*(value.alias(f"h{place}") for place, value in enumerate(hashes)))
    columns = [sf.col(f"h{place}") for place in range(len(names))]
    row = sf.xxhash64(*columns)
    # one half of the hash of a column, which is faster; the hash of the row has all bits
    halves = [sf.shiftrightunsigned(row, 32), *(one.bitwiseAND(0xFFFFFFFF) for one in [row, *columns])]
    sums = [sf.count("*"), *map(sf.sum, halves)]
    # unique names, because the sums of a name would be ambiguous
    named = [total.alias(f"s{place}") for place, total in enumerate(sums)]
    grouped = hashed.groupBy((sf.spark_partition_id() % _GROUPS).alias("part")).agg(*named)
    totals = [0] * len(sums)
    for found in collect_rows(spark, grouped, progress):
        totals = [total + int(part) for total, part in zip(totals, found[1:], strict=True)]
    num_rows, high, low, *of_columns = totals
    return Checksums(num_rows, low + (high << 32), dict(zip(names, of_columns, strict=True)))


def quoted(name: str) -> str:
    """Quote the name of a column, which may contain dots and backticks.

    Example:
        >>> quoted("a.b`c")
        '`a.b``c`'
    """
    return "`" + name.replace("`", "``") + "`"


def _hash(sf: Any, value: Column, data_type: Any) -> Column:
    if data_type.typeName() not in ("struct", "array", "map"):
        return sf.xxhash64(value)
    # a hash skips nulls, so that null, [] and [null] have the same one, but not the same text
    text = value.cast("string")
    # Spark refuses to hash maps, because equal maps may differ in the order of entries; a rewrite keeps it
    return sf.xxhash64(text) if "map<" in data_type.simpleString() else sf.xxhash64(value, text)
