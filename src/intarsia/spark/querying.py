"""Jobs that answer from indexes: `aggregate`, `approx_distinct` and `locate`."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, TypeAlias

from intarsia.embed.report import Progress
from intarsia.errors import ColumnNotFoundError, FilesFailedError, PredicateError, UnsupportedFeatureError
from intarsia.indexes.distinct_counter import MAX_LG_CONFIG_K, DistinctCounter, parse_sketch
from intarsia.lake.data_file import FileFailure
from intarsia.lake.opening import open as open_table
from intarsia.lake.opening import warn_of_log
from intarsia.lake.query_run import OnError
from intarsia.lake.shared_aggregate import FilesLeft, SharedAggregate
from intarsia.predicate import In, Where
from intarsia.read.aggregate import Aggregate, Requested, requested_functions
from intarsia.read.report import ScanReport
from intarsia.records import dataclass
from intarsia.spark.job import act_on_files, reporter
from intarsia.spark.lake_files import list_rows
from intarsia.spark.listing import Source, refresh_tables
from intarsia.spark.reading import read
from intarsia.spark.spark_stores import with_stores_of_spark
from intarsia.spark.spark_types import INTEGERS, quoted
from intarsia.spark.sql_text import spark_sql

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession


@with_stores_of_spark
def aggregate(
    spark: SparkSession,
    path: Source,
    functions: Requested,
    where: Where = None,
    *,
    on_error: OnError = "raise",
    progress: Progress | bool = True,
) -> Aggregate:
    """Compute aggregates of the rows that match, as `intarsia.Table.aggregate` does, in a Spark job.

    The driver answers from partition values and the lake index. Tasks open the other files. They answer from
    statistics and embedded indexes, and read only the rows that these do not cover. If nothing is left, no
    job runs. The rules are those of Intarsia's SQL, not of Spark's.

    Args:
        spark: The session; classic or Connect.
        path: As for `index`.
        functions: As for `intarsia.Table.aggregate`.
        where: As for `intarsia.Table.aggregate`.
        on_error: ``"skip"`` leaves damaged and missing files out, with a warning.
        progress: As for `index`.

    Returns:
        A ``dict`` of Python values with the attribute ``report``. Its ``answered_by`` lists the indexes that
        answered instead of rows, and ``files_opened`` the files that tasks opened.

    Raises:
        FileNotFoundError: If the path does not exist.
        UnsupportedFeatureError: If the folder of a table has files that are not in a partition of the table,
            or a partition is in a folder that is not named after its values.
        ValueError: If a function is unknown, or not defined for the column's type.
        PredicateError: If ``where`` or the SQL text cannot be parsed.
        ColumnNotFoundError: If the lake has no such column.
        FilesFailedError: If files could not be read.

    Example:
        >>> answer = ias.aggregate(spark, "lake/", "count(*), max(dep_delay)")  # doctest: +SKIP
        >>> answer["dep_delay"]["max"], answer.report.files_opened  # doctest: +SKIP
        (1301.0, 0)
    """
    table = list_rows(spark, path, with_partitions=True).open()
    shared = SharedAggregate(table, requested_functions(functions, table.schema.names), where, on_error)
    files = shared.files
    if files.ordinals:
        done, failed = act_on_files(spark, files.sizes, files.run, reporter(progress, "files"), "aggregating")
        _raise_if_any(failed, len(files.ordinals), shared.report)
        for share in done.values():
            shared.add(share)
    return shared.result()


def _raise_if_any(failed: Sequence[FileFailure], total: int, report: ScanReport | None) -> None:
    if failed:
        raise FilesFailedError(
            {failure.path: failure.error for failure in failed},
            report,
            f"{len(failed):,} of {total:,} files failed; the first is {failed[0].path}: {failed[0].reason}",
        )


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


@with_stores_of_spark
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
        UnsupportedFeatureError: If the column has different types in different files. With ``where``, also if
            a partition of a table is in a folder that is not named after its values.

    Example:
        >>> int(ias.approx_distinct(spark, "lake/", "tailnum"))  # doctest: +SKIP
        4053
    """
    lake = list_rows(spark, path, with_partitions=where is not None)
    if where is None and isinstance(lake.names, str):  # else the lake is opened, which warns
        warn_of_log(lake.names)
    selected = None if where is None else FilesLeft.of(lake.open(), where)
    sizes = lake.sizes if selected is None else selected.sizes

    def act(file: str) -> tuple[str, list[bytes]]:
        table = open_table(file)
        scan = table.scan(None, []) if selected is None else selected.scan(file)
        sketches = scan.sketches(column).column("sketch")  # empty if the predicate is false for the file
        return str(table.scan(None, [column]).schema.types[0]), sketches.to_pylist()

    found, failed = act_on_files(spark, sizes, act, reporter(progress, "files"), "estimating")
    _raise_if_any(failed, len(sizes), None)
    types = sorted({data_type for data_type, _ in found.values()})
    if len(types) > 1:
        raise UnsupportedFeatureError(
            f"column {column!r} has the types {', '.join(types)} in different files, whose values have "
            "different hashes; use intarsia.open(path).approx_distinct",
            reason="mixed-types",
            column=column,
        )
    counter = DistinctCounter(MAX_LG_CONFIG_K)
    for sketch in (sketch for _, sketches in found.values() for sketch in sketches):
        counter.add_sketch(parse_sketch(sketch))
    return DistinctEstimate(counter.estimate, *counter.bounds(2), len(found))


#: The column of the keys and of the lake, or several, or the lake's column for each column of the keys.
Key: TypeAlias = "str | Sequence[str] | Mapping[str, str]"

#: Up to this number of keys, files are pruned by their indexes. More keys are joined without pruning.
MAX_KEYS = 10_000


def locate(spark: SparkSession, keys: DataFrame, path: Source, *, key: Key) -> DataFrame:
    """Return the file and the row number of each row of a lake that has one of the keys.

    This is the first step in erasing or exporting the rows of many people. Spark joins the keys with the key
    columns of the lake, and reads no other columns. With up to 10,000 distinct keys, only the files that
    might contain one of them are read, by partition values, the lake index and the indexes of files.

    Args:
        spark: The session; classic or Connect.
        keys: The keys. Equal keys count once. Nulls match no row.
        path: As for `read`.
        key: The column that has the keys in both, or several columns; or a mapping from columns of ``keys``
            to columns of the lake. Columns of the lake are top-level.

    Returns:
        A lazy DataFrame with the columns of the keys as in ``keys``, and ``path`` (the URI of the file, as in
        ``_metadata.file_path``) and ``row`` (bigint, the row number in the file, from 0). Keys that the lake
        does not contain have no row.

    Raises:
        ColumnNotFoundError: If a key column does not exist.

    Example:
        >>> people = spark.createDataFrame([("N14228",), ("N24211",)], ["tailnum"])  # doctest: +SKIP
        >>> ias.locate(spark, people, "lake/", key="tailnum").show()  # doctest: +SKIP
    """
    pairs = _pairs(key)
    for name, _ in pairs:
        if name not in keys.columns:
            raise ColumnNotFoundError(name, keys.columns)
    requested = keys.select(*(keys[quoted(name)] for name, _ in pairs)).distinct()
    refresh_tables(spark, path)
    whole = read(spark, path)
    for _, name in pairs:
        if name not in whole.columns:
            raise ColumnNotFoundError(name, whole.columns)
    rows = read(spark, path, _condition(requested, whole, pairs))
    located = rows.select(
        *(rows[quoted(name)].alias(f"_key{ordinal}") for ordinal, (_, name) in enumerate(pairs)),
        rows.metadataColumn("_metadata")["file_path"].alias("path"),
        rows.metadataColumn("_metadata")["row_index"].alias("row"),
    )
    # unique names, because a key may be named like a column of the result
    named = requested.toDF(*(f"_requested{ordinal}" for ordinal in range(len(pairs))))
    equal = [named[f"_requested{ordinal}"] == located[f"_key{ordinal}"] for ordinal in range(len(pairs))]
    return named.join(located, equal).select(
        *(named[f"_requested{ordinal}"].alias(name) for ordinal, (name, _) in enumerate(pairs)),
        located["path"],
        located["row"],
    )


def _pairs(key: Key) -> list[tuple[str, str]]:
    if isinstance(key, str):
        return [(key, key)]
    pairs = list(key.items()) if isinstance(key, Mapping) else [(name, name) for name in key]
    if not pairs:
        raise ValueError("key is empty; pass the name of at least one column")
    return pairs


def _condition(requested: DataFrame, whole: DataFrame, pairs: Sequence[tuple[str, str]]) -> str | None:
    """Return a condition in Spark SQL that all located rows match; None if there are too many keys."""
    found = requested.limit(MAX_KEYS + 1).toArrow()
    if found.num_rows > MAX_KEYS:
        return None
    conditions = []
    for ordinal, (_, name) in enumerate(pairs):
        distinct = found.column(ordinal).unique().drop_null()
        if not distinct:
            return "false"
        try:
            values = distinct.to_pylist()
        except (OverflowError, ValueError):  # a date or time that Python lacks
            continue
        types = {
            requested.schema[ordinal].dataType.simpleString(),
            whole.schema[name].dataType.simpleString(),
        }
        if len(types) > 1 and not types <= INTEGERS:
            continue  # Spark's equality may convert values in another way than its IN does
        try:
            conditions.append(spark_sql(In((name,), tuple(values))))
        except PredicateError:  # Spark SQL has no literals of this type
            continue
    return " AND ".join(f"({text})" for text in conditions) or None
