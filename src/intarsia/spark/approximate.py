"""`approx_distinct`: an estimate from the sketches of all files, in a Spark job."""

from __future__ import annotations

import base64
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import intarsia.lake.table as tables
from intarsia.embed.progress import Progress
from intarsia.errors import FilesFailedError, UnsupportedFeatureError
from intarsia.spark.each_file import act_on_files
from intarsia.spark.lake_files import Source, list_lake
from intarsia.spark.progress_line import reporter

if TYPE_CHECKING:
    from pyspark.sql import SparkSession


@dataclass(frozen=True)
class DistinctEstimate:
    """An approximate number of distinct values.

    Attributes:
        estimate: The estimate.
        lower: Lower end of the 95% confidence interval.
        upper: Upper end of the confidence interval.
        files: The number of files.

    Example:
        >>> int(DistinctEstimate(41.8, 40.0, 43.5, 3))
        42
    """

    estimate: float
    lower: float
    upper: float
    files: int

    def __int__(self) -> int:
        """Return the rounded estimate."""
        return round(self.estimate)


def approx_distinct(
    spark: SparkSession, path: Source, column: str, *, progress: Progress | bool = True
) -> DistinctEstimate:
    """Estimate the number of distinct values of a column, not counting null.

    A task returns the sketch of each of its files: that of its `Hll` index, or one of its values if it has
    none. The driver merges them. Like Spark's own sketches, they do not count the empty text.

    Args:
        spark: The session; classic or Connect.
        path: As for `index`.
        column: The column, dotted if it is nested. It has the same type in all files.
        progress: As for `index`.

    Returns:
        The estimate with 95% bounds; ``int()`` rounds it.

    Raises:
        FileNotFoundError: If the path does not exist.
        FilesFailedError: If files could not be read, or have no such column.
        UnsupportedFeatureError: If the column has different types in different files.

    Example:
        >>> int(ias.approx_distinct(spark, "lake/", "tailnum"))  # doctest: +SKIP
        4053
    """
    import datasketches

    lake = list_lake(spark, path)

    def act(file: str) -> dict[str, Any]:
        table = tables.open(file)
        sketch = table.sketches(column).column("sketch")[0].as_py()
        found = table.scan(None, [column]).schema.types[0]
        return {"type": str(found), "sketch": base64.b64encode(sketch).decode()}

    found, failed = act_on_files(spark, lake.sizes, act, reporter(progress, "files"), "estimating")
    if failed:
        raise FilesFailedError(
            {failure.path: failure.error for failure in failed},
            None,
            f"{len(failed):,} of {len(lake.files):,} files failed; the first is {failed[0].path}: "
            f"{failed[0].reason}",
        )
    types = sorted({values["type"] for values in found.values()})
    if len(types) > 1:
        raise UnsupportedFeatureError(
            f"column {column!r} has the types {', '.join(types)} in different files, whose values have "
            "different hashes; use intarsia.open(path).approx_distinct",
            reason="mixed-types",
            column=column,
        )
    union = datasketches.hll_union(21)
    for values in found.values():
        union.update(datasketches.hll_sketch.deserialize(base64.b64decode(values["sketch"])))
    return DistinctEstimate(
        union.get_estimate(), union.get_lower_bound(2), union.get_upper_bound(2), len(found)
    )
