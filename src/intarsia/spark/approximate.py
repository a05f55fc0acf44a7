"""`approx_distinct`: an estimate from the sketches of all files, in a Spark job."""

from __future__ import annotations

import base64
import os
from collections.abc import Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import pyarrow as pa

from intarsia.embed.report import Progress
from intarsia.errors import FilesFailedError, UnsupportedFeatureError
from intarsia.indexes.distinct_counter import MAX_LG_CONFIG_K, DistinctCounter
from intarsia.lake.binding import TableBinder
from intarsia.lake.opening import open as open_table
from intarsia.lake.planner import Planner
from intarsia.lake.table import Table
from intarsia.predicate import Predicate, Where, parse_predicate
from intarsia.read.report import ScanReport
from intarsia.spark.each_file import act_on_files
from intarsia.spark.lake_files import LakeFiles, Source, list_lake
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


@dataclass(frozen=True)
class _SelectedRows:
    """The rows of a lake that match; it can be pickled.

    Attributes:
        table: The lake.
        ordinals: The ordinal of each file that partition values and the lake index leave, by its path.
        predicate: The predicate.
    """

    table: Table
    ordinals: Mapping[str, int]
    predicate: Predicate | None

    @classmethod
    def of(cls, lake: LakeFiles, where: Where) -> _SelectedRows:
        names = [lake.names] if isinstance(lake.names, str) else lake.names
        # executors have another current folder
        found = [name if "://" in name else os.path.abspath(name) for name in names]
        table = open_table(found[0] if len(found) == 1 else found)
        predicate = parse_predicate(where, lambda: table.dataset().schema)
        left = Planner(table, TableBinder(table, predicate, []), ScanReport()).survivors()
        return cls(table, {table.files[ordinal].path: ordinal for ordinal in left.files}, predicate)

    def sketches(self, file: str, column: str) -> pa.Table:
        return self.table.part([self.ordinals[file]]).scan(self.predicate, []).sketches(column)


def approx_distinct(
    spark: SparkSession,
    path: Source,
    column: str,
    where: Where = None,
    *,
    progress: Progress | bool = True,
) -> DistinctEstimate:
    """Estimate the number of distinct values of a column in the rows that match, not counting null.

    A task returns the sketch of each of its files: that of its `Hll` index, or one of its values if it has
    none. The driver merges them. Like Spark's own sketches, they do not count the empty text.

    Args:
        spark: The session; classic or Connect.
        path: As for `index`.
        column: The column, dotted if it is nested. It has the same type in all files.
        where: As for `intarsia.Table.scan`. Files that partition values or the lake index exclude are not
            opened, and sketches of granules count if all of their rows are proven to match.
        progress: As for `index`.

    Returns:
        The estimate with 95% bounds; ``int()`` rounds it.

    Raises:
        FileNotFoundError: If the path does not exist.
        FilesFailedError: If files could not be read, or have no such column.
        PredicateError: If ``where`` cannot be parsed, or compares values of incompatible types.
        ColumnNotFoundError: If ``where`` is on a column that no file has.
        UnsupportedFeatureError: If the column has different types in different files.

    Example:
        >>> int(ias.approx_distinct(spark, "lake/", "tailnum"))  # doctest: +SKIP
        4053
    """
    import datasketches

    lake = list_lake(spark, path)
    sizes = lake.sizes
    selected = None
    if where is not None:
        selected = _SelectedRows.of(lake, where)
        listed = selected.table.files
        sizes = {file: listed[ordinal].size_bytes for file, ordinal in selected.ordinals.items()}

    def act(file: str) -> dict[str, Any]:
        table = open_table(file)
        sketches = table.sketches(column) if selected is None else selected.sketches(file, column)
        found = table.scan(None, [column]).schema.types[0]
        sketch = sketches.column("sketch").to_pylist()  # empty if the predicate is false for the file
        return {"type": str(found), "sketches": [base64.b64encode(one).decode() for one in sketch]}

    found, failed = act_on_files(spark, sizes, act, reporter(progress, "files"), "estimating")
    if failed:
        raise FilesFailedError(
            {failure.path: failure.error for failure in failed},
            None,
            f"{len(failed):,} of {len(sizes):,} files failed; the first is {failed[0].path}: "
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
    counter = DistinctCounter(MAX_LG_CONFIG_K)
    for sketch in (sketch for values in found.values() for sketch in values["sketches"]):
        counter.add_sketch(datasketches.hll_sketch.deserialize(base64.b64decode(sketch)))
    return DistinctEstimate(counter.estimate, *counter.bounds(2), len(found))
