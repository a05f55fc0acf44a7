"""`advise`: sort keys, page sizes and indexes for the queries of a lake, measured on a sample."""

from __future__ import annotations

import os
import shlex
import tempfile
import time
from collections.abc import Sequence
from contextlib import suppress
from dataclasses import replace
from typing import TYPE_CHECKING

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from intarsia.advice import advise_on, requested_queries
from intarsia.advice.candidates import options_of
from intarsia.advice.measuring import BoundQuery
from intarsia.advice.queries import Query
from intarsia.advice.rewrites import Arrangement, optimize_command, sortable_columns, write_arrangement
from intarsia.embed import PageIndex
from intarsia.embed.report import Progress
from intarsia.embed.structures import Attachable
from intarsia.errors import PredicateError
from intarsia.lake.opening import open as open_table
from intarsia.predicate import Where
from intarsia.records import dataclass
from intarsia.rows.values import JsonObject
from intarsia.spark.clustering import bits_per_column, curve_keys, hilbert, quantile_bounds
from intarsia.spark.job import reporter, run_tasks
from intarsia.spark.listing import Source, paths_of
from intarsia.spark.optimize import arrow_schema_of, source_rows
from intarsia.spark.sql_text import spark_sql

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession


def write_sample(sample: pa.Table, arrangement: Arrangement, path: str) -> None:
    """Write a sample in an arrangement to a file of one row group."""
    if arrangement.hilbert_by:
        columns = [sample.column(name) for name in arrangement.hilbert_by]
        bits = bits_per_column(len(columns))
        whole = [column.combine_chunks() for column in columns]
        keys = curve_keys(whole, [quantile_bounds(column, bits) for column in columns], hilbert)
        sample = sample.take(pc.array_sort_indices(pa.array(keys)))
    write_arrangement(sample, arrangement, path, max(sample.num_rows, 1))


#: The default number of rows of the sample.
SAMPLE_ROWS = 200_000

#: Matching rows are added for queries with fewer matches in the sample, up to this many for all such queries.
_FEW_MATCHES, _MORE_ROWS = 50, 10_000

#: Maximum number of columns whose orders are measured, the most queried first.
_MAX_COLUMNS = 4

#: Page sizes that are measured in addition to the default.
_PAGE_SIZES = (1024, 16_384)

#: Another arrangement is advised only if the queries read at most this share of what they read otherwise.
_WORTHWHILE = 0.9

#: The columns that restore the order of the source.
_FILE, _ROW = "_intarsia_file", "_intarsia_row"


@dataclass(frozen=True)
class MeasuredArrangement(JsonObject):
    """An arrangement, with the indexes that suit it.

    Attributes:
        arrangement: The order of rows and the page size.
        indexes: The indexes, in addition to the page index that every file has.
        bytes: Bytes of the sample that the queries read with these indexes.
        bytes_without: The same without indexes.
        bytes_total: The size of all rows in the columns of the queries, in bytes.
        is_advised: Whether it is the advice.
    """

    JSON_KEYS = (
        "sort_by=arrangement.sort_by hilbert_by=arrangement.hilbert_by "
        "rows_per_page=arrangement.rows_per_page indexes=index_options bytes bytes_without "
        "bytes_total share is_advised"
    )

    arrangement: Arrangement
    indexes: tuple[Attachable, ...]
    bytes: int
    bytes_without: int
    bytes_total: int
    is_advised: bool = False

    @property
    def index_options(self) -> list[str]:
        """The options of the command that add the indexes."""
        return [option for index in self.indexes for option in options_of(index)]

    @property
    def share(self) -> float:
        """The share of the sample that the queries read, with the indexes."""
        return self.bytes / max(self.bytes_total, 1)

    def __str__(self) -> str:
        names = shlex.join(self.index_options)
        mark = "advised: " if self.is_advised else ""
        without = self.bytes_without / max(self.bytes_total, 1)
        with_indexes = f", {self.share:.2%} with {names}" if names else ""
        return f"{mark}{self.arrangement}: reads {without:.2%}{with_indexes}"


def measure_arrangement(
    sample: pa.Table, arrangement: Arrangement, requested: Sequence[Query]
) -> MeasuredArrangement:
    """Write a sample in an arrangement, and choose indexes for it; runs on the executors.

    Args:
        sample: The rows, in the order of the source.
        arrangement: The order and the page size.
        requested: The queries.
    """
    with tempfile.TemporaryDirectory(prefix="intarsia-advise-") as folder:
        path = os.path.join(folder, "sample.parquet")
        write_sample(sample, arrangement, path)
        advice = advise_on(path, requested)
    indexes = tuple(index for index in advice.indexes if not isinstance(index, PageIndex))  # written anyway
    advised, now, total = (
        sum(query.count * round(getattr(query, name).bytes) for query in advice.queries)
        for name in ("advised", "now", "total")
    )
    return MeasuredArrangement(arrangement, indexes, advised, now, total)


@dataclass(frozen=True)
class ArrangementAdvice(JsonObject):
    """The result of `intarsia.spark.advise`; ``str(advice)`` returns a summary.

    Attributes:
        command: The command that rewrites or indexes the lake; None if nothing would help.
        arrangements: All arrangements that were measured, ordered by the bytes that the queries read.
        queries: The queries as SQL text.
        sample_rows: The number of rows of the sample.
        num_rows: The number of rows of the lake.
        seconds: Total time taken.
    """

    JSON_KEYS = "command arrangements queries sample.rows sample.rows_total=num_rows seconds"

    command: str | None
    arrangements: tuple[MeasuredArrangement, ...]
    queries: tuple[str, ...]
    sample_rows: int
    num_rows: int
    seconds: float

    @property
    def advised(self) -> MeasuredArrangement:
        """The advised arrangement."""
        return next(found for found in self.arrangements if found.is_advised)

    def __str__(self) -> str:
        head = f"measured on a sample of {self.sample_rows:,} of {self.num_rows:,} rows"
        return "\n".join([head, *map(str, self.arrangements), self.command or "nothing to change"])


def advise(
    spark: SparkSession,
    path: Source,
    where: Where | Sequence[Where] = None,
    *,
    queries: str | os.PathLike[str] | None = None,
    columns: Sequence[str] | None = None,
    sample_rows: int = SAMPLE_ROWS,
    progress: Progress | bool = True,
) -> ArrangementAdvice:
    """Advise how to sort a lake, how large its pages should be, and which indexes to embed.

    Spark draws rows of the whole lake at random, and adds rows that match queries with few matches in the
    sample. Tasks write the sample in several orders and page sizes, choose indexes for each as
    `intarsia.advise` does, and count the bytes that the queries read. Only temporary files are written. The
    shares compare the arrangements with each other. Those of selective queries are upper bounds for the lake,
    because one page is a larger part of a sample, and matches are more frequent in it.

    Args:
        spark: The session; classic or Connect. The executors need this package, as for `index`.
        path: As for `optimize`.
        where: A predicate, or a list of them, in Intarsia's SQL.
        queries: A text file of predicates or SELECT statements, as for `intarsia.advise`.
        columns: The columns that the queries of ``where`` read; None for all.
        sample_rows: The number of rows to draw.
        progress: As for `optimize`.

    Returns:
        The measured arrangements, and the command of the best one.

    Raises:
        ValueError: If there are no queries, or ``sample_rows`` is less than 1.
        PredicateError: If a query cannot be parsed, or compares values of incompatible types.
        ColumnNotFoundError: If the lake has no such column.
        UnsupportedFeatureError: As for `optimize`.

    Example:
        >>> advice = ias.advise(spark, "lake/", ["tailnum = 'N14228'", "dest = 'LEX'"])  # doctest: +SKIP
        >>> advice.advised.arrangement.sort_by  # doctest: +SKIP
        ('tailnum',)
    """
    started = time.perf_counter()
    requested = requested_queries(where, queries, columns)
    if not requested:
        raise ValueError("advise needs queries; pass where or queries")
    if sample_rows < 1:
        raise ValueError(f"sample_rows is {sample_rows}; it must be 1 or more")
    show = reporter(progress, "tasks")
    frame, _, partitions = source_rows(spark, path)
    _check_queries(arrow_schema_of(frame), requested)
    show(0, 0, "sampling")
    sample, num_rows = _draw(frame, requested, sample_rows)
    first = _measured(spark, sample, _orders(sample.schema, requested, partitions), requested, show)
    best = min(first[1:], key=lambda found: found.bytes, default=first[0])
    if best.bytes >= _WORTHWHILE * first[0].bytes:
        best = first[0]
    measured = first
    if not best.arrangement.is_source:
        others = [replace(best.arrangement, rows_per_page=size) for size in _PAGE_SIZES]
        pages = _measured(spark, sample, others, requested, show)
        measured += pages
        smaller = min(pages, key=lambda found: found.bytes)
        best = smaller if smaller.bytes <= _WORTHWHILE * best.bytes else best
    measured = [replace(found, is_advised=found is best) for found in measured]
    show(1, 1, "done")
    return ArrangementAdvice(
        _command(path, best),
        tuple(sorted(measured, key=lambda found: (not found.is_advised, found.bytes))),
        tuple(map(str, requested)),
        sample.num_rows,
        num_rows,
        time.perf_counter() - started,
    )


def _check_queries(schema: pa.Schema, requested: Sequence[Query]) -> None:
    """Raise the error that a task would raise.

    Raises:
        PredicateError: If a query does not fit the lake.
        ColumnNotFoundError: If the lake has no such column.
    """
    with tempfile.TemporaryDirectory(prefix="intarsia-advise-") as folder:
        path = os.path.join(folder, "empty.parquet")
        write_sample(schema.empty_table(), Arrangement(), path)
        for query in requested:
            BoundQuery.of(open_table(path), query)


def _draw(frame: DataFrame, requested: Sequence[Query], sample_rows: int) -> tuple[pa.Table, int]:
    """Return the sample in the order of the source, and the number of rows of the lake."""
    import pyspark.sql.functions as sf

    num_rows = frame.count()
    file_and_row = [sf.col("_metadata.file_path").alias(_FILE), sf.col("_metadata.row_index").alias(_ROW)]
    placed = frame.select("*", *file_and_row)
    share = min(1.0, sample_rows / max(num_rows, 1))
    sample = (placed if share == 1 else placed.sample(fraction=share, seed=0)).toArrow()
    rare = _rare(sample.drop_columns([_FILE, _ROW]), requested) if share < 1 else []
    rare = [text for text in rare if _is_known(placed, text)]
    if rare:
        more = placed.where(" OR ".join(f"({text})" for text in rare)).limit(_MORE_ROWS).toArrow()
        sample = pa.concat_tables([sample, more.cast(sample.schema)])
    places = sample.select([_FILE, _ROW]).append_column("at", pa.array(np.arange(sample.num_rows)))
    first = places.group_by([_FILE, _ROW]).aggregate([("at", "min")])
    order = first.sort_by([(_FILE, "ascending"), (_ROW, "ascending")])["at_min"]
    return sample.take(order).combine_chunks().drop_columns([_FILE, _ROW]), num_rows


def _is_known(frame: DataFrame, text: str) -> bool:
    """Return whether Spark accepts a predicate, whose types it may not compare as Intarsia does."""
    try:
        return bool(frame.where(text).schema)
    except Exception:  # noqa: BLE001  the sample is then without more of its rows
        return False


def _rare(sample: pa.Table, requested: Sequence[Query]) -> list[str]:
    """Return the queries with few matches in the sample, as Spark SQL."""
    rare = []
    with tempfile.TemporaryDirectory(prefix="intarsia-advise-") as folder:
        path = os.path.join(folder, "sample.parquet")
        write_sample(sample, Arrangement(), path)
        table = open_table(path)
        for query in requested:
            if query.predicate is not None and table.count(query.predicate) < _FEW_MATCHES:
                with suppress(PredicateError):  # it has no counterpart in Spark
                    rare.append(spark_sql(query.predicate))
    return rare


def _orders(schema: pa.Schema, requested: Sequence[Query], partitions: Sequence[str]) -> list[Arrangement]:
    """Return the orders to measure; the first is that of the source. Partition columns stay folders."""
    names = [name for name in sortable_columns(schema, requested) if name not in partitions][:_MAX_COLUMNS]
    orders = [Arrangement(), *(Arrangement(sort_by=(name,)) for name in names)]
    if len(names) > 1:
        orders += [Arrangement(sort_by=(names[0], names[1])), Arrangement(hilbert_by=tuple(names[:3]))]
    return orders


def _measured(
    spark: SparkSession,
    sample: pa.Table,
    arrangements: Sequence[Arrangement],
    requested: Sequence[Query],
    show: Progress,
) -> list[MeasuredArrangement]:
    """Measure arrangements, one in each task."""

    # a closure, because Spark serializes it
    def work(ordinal: int) -> tuple[int, MeasuredArrangement]:
        return ordinal, measure_arrangement(sample, arrangements[ordinal], requested)

    tasks = [[ordinal] for ordinal in range(len(arrangements))]
    sent = run_tasks(spark, tasks, work, lambda done, total: show(done, total, "measuring"))
    found = dict(sent)  # by ordinal, because Spark may return two results of a task
    return [found[ordinal] for ordinal in range(len(arrangements))]


def _command(path: Source, best: MeasuredArrangement) -> str | None:
    names = paths_of(path)
    if best.arrangement.is_source:
        return shlex.join(["intarsia", "index", *names, "--page-index", *best.index_options, "--spark"])
    return optimize_command(names, "DESTINATION", best.arrangement, best.indexes)
