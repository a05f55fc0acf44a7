"""The same SQL text in plain Spark, before and after `ias.enable`."""

from __future__ import annotations

import time
from collections.abc import Sequence
from dataclasses import dataclass

import pyarrow as pa

from examples.demo.lakes import Spark
from examples.demo.questions import Question
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


def sql_text(path: str, question: Question) -> str:
    """Return a query in Spark SQL."""
    name = path.replace("`", "``")
    return f"SELECT {', '.join(question.columns)} FROM parquet.`{name}` WHERE {question.where}"


def ask_sql(spark: Spark, path: str, questions: Sequence[Question]) -> list[SqlAnswer]:
    """Run the queries in a plain session, enable it, and run them again."""
    from intarsia import spark as ias

    texts = [sql_text(path, question) for question in questions]
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
