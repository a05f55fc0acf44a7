"""The size of the batches in which Spark passes rows to Python."""

from __future__ import annotations

import contextlib
from collections.abc import Iterator
from typing import TYPE_CHECKING

from intarsia.spark.checksums import is_nested, quoted

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

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

    types = [(one.name, one.dataType) for one in frame.schema]
    if any(is_nested(data_type) for _, data_type in types):
        return None
    texts = [
        sf.coalesce(sf.octet_length(quoted(name)), sf.lit(0))
        for name, data_type in types
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
    before: dict[str, str] = {}
    try:
        # these settings only save time, and servers of Connect may refuse them
        with contextlib.suppress(Exception):
            for key, value in ((_ROWS, rows), (_BYTES, _NO_LIMIT)):
                known = str(spark.conf.get(key))
                spark.conf.set(key, str(value))
                before[key] = known
        yield
    finally:
        for key, known in before.items():
            spark.conf.set(key, known)
