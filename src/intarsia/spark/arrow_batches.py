"""The size of the batches in which Spark passes rows to Python."""

from __future__ import annotations

import contextlib
from collections.abc import Iterator
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

_ROWS, _BYTES = (f"spark.sql.execution.arrow.max{unit}PerBatch" for unit in ("Records", "Bytes"))

#: Spark's own defaults.
_MAX_ROWS, _MAX_BYTES = 10_000, 64 << 20

#: Smaller batches would cost more than the limit in bytes.
_FEWEST_ROWS = 500

#: The value of the limit that disables Spark's computation of sizes.
_NO_LIMIT = (1 << 31) - 1


@contextlib.contextmanager
def batches_of_counted_rows(spark: SparkSession, max_row_bytes: int | None) -> Iterator[None]:
    """Limit batches by a number of rows that certainly have at most 64 MiB, instead of by their bytes.

    With a limit in bytes, Spark computes the size of the batch after each row, from all of its columns. For
    16 columns this took more than half of the time in which rows become Arrow batches.

    Args:
        spark: The session, whose settings are restored at the end of the block.
        max_row_bytes: An upper bound of the size of a row in bytes; None if unknown, which changes nothing.
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
