"""The same SQL text in plain Spark, before and after `ias.enable`."""

from __future__ import annotations

import time
from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

import pyarrow as pa

from examples.demo.lakes import Spark
from examples.demo.queries import Query

if TYPE_CHECKING:
    from intarsia.spark import ScanSkip

#: Number of runs of a query; the shortest time is shown.
RUNS = 2


@dataclass(frozen=True)
class SqlAnswer:
    """The result of one SQL text.

    Attributes:
        before: The rows before `ias.enable`.
        after: The rows afterwards.
        seconds: The times before and after, the best of several runs.
        skip: What Spark's scan skipped afterwards.
    """

    before: pa.Table
    after: pa.Table
    seconds: tuple[float, float]
    skip: ScanSkip


def sql_text(path: str, query: Query) -> str:
    """Return a query in Spark SQL."""
    name = path.replace("`", "``")
    return f"SELECT {', '.join(query.columns)} FROM parquet.`{name}` WHERE {query.where}"


def run_sql(spark: Spark, path: str, queries: Sequence[Query]) -> list[SqlAnswer]:
    """Run the queries in a plain session, enable it, and run them again."""
    from intarsia import spark as ias

    texts = [sql_text(path, query) for query in queries]
    before = [_run(spark, text) for text in texts]
    ias.enable(spark)
    try:
        answers = []
        for text, (rows, seconds) in zip(texts, before, strict=True):
            rows_after, seconds_after = _run(spark, text)
            skip = ias.last_skips(spark)[-1]
            answers.append(SqlAnswer(rows, rows_after, (seconds, seconds_after), skip))
        return answers
    finally:
        ias.disable(spark)


def _run(spark: Spark, text: str) -> tuple[pa.Table, float]:
    runs = [_timed(spark, text) for _ in range(RUNS)]
    return runs[-1][0], min(seconds for _, seconds in runs)


def _timed(spark: Spark, text: str) -> tuple[pa.Table, float]:
    started = time.perf_counter()
    rows: pa.Table = spark.sql(text).toArrow()
    return rows, time.perf_counter() - started
