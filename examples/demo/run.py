"""The demo, step by step."""

from __future__ import annotations

import glob
import os
import shlex
import shutil
import sys
import tempfile
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from typing import TYPE_CHECKING

import intarsia as ia
from examples.demo.lakes import Folder, Lake, Spark, load_flights, stderr_to, write_files, write_lake
from examples.demo.plain_sql import RUNS, run_sql
from examples.demo.queries import (
    Query,
    queries,
    run_intarsia,
    run_pyarrow,
    run_spark,
    run_spark_with_intarsia,
    same_rows,
)
from examples.demo.steps import Steps
from examples.demo.view import Answer, answers_table
from intarsia.amounts import size
from intarsia.cli.terminal import duration, show

if TYPE_CHECKING:
    import pyarrow as pa

    from intarsia.spark import IndexReport

    RunQuery = Callable[[str, Query], pa.Table]

#: The title of the answers of plain Spark SQL.
SQL_TITLE = "lake, Spark SQL after ias.enable"

NOTES = """\
7/175 pages: 7 of 175 pages were read; pages of unopened files are not counted.
same: Intarsia returned the rows that Spark (pyarrow for the second folder)
returned {before} and after indexing. In the lake, ias.read did, too.
Query 3: Spark writes time_hour as INT96, which has no bounds by default. So in
the lake, only the partition column month excludes files.
Spark SQL: the same SQL before and after ias.enable(spark). Times are the best
of {runs} runs. Pages and bytes are planned, and include all columns. In query 3,
Spark's own partition filter leaves one file."""


#: The condition of the query whose page map is drawn.
QUERY_OF_MAP = "dest = 'LEX'"


def run(folder: Folder, *, keep: bool) -> bool:
    """Write the files, run the queries, index, run the queries again, and show the results.

    Args:
        folder: The folder for the files.
        keep: Whether to keep the files of an earlier run.

    Returns:
        Whether all results agree.
    """
    started = time.perf_counter()
    keep = keep and folder.is_complete
    if not keep:
        folder.clear()
    steps = Steps(6 if keep else 9)
    with _spark(steps) as spark:
        if not keep:
            _make_files(folder, spark, steps)
        plain: dict[Lake, RunQuery] = {
            folder.lake: lambda path, query: run_spark(spark, path, query),
            folder.files: run_pyarrow,
        }
        with steps.step("running queries without Intarsia"):
            expected = {
                lake: [run_query(lake.path, query) for query in queries()]
                for lake, run_query in plain.items()
            }
        reports = {lake: _index(spark, lake, steps) for lake in plain}
        others: dict[Lake, dict[str, RunQuery]] = {
            folder.lake: {
                "Spark through Intarsia": lambda path, query: run_spark_with_intarsia(spark, path, query)
            },
            folder.files: {"plainly, afterwards": run_pyarrow},
        }
        with steps.step("running queries with Intarsia"):
            answers = {lake: _answers(lake, expected[lake], others[lake]) for lake in plain}
        with steps.step("running Spark SQL before and after enable"):
            in_sql = _sql_answers(spark, folder.lake, expected[folder.lake])
    sections = {"lake": answers[folder.lake], SQL_TITLE: in_sql, "files": answers[folder.files]}
    _show(sections, reports)
    before = "without Intarsia" if keep else "before"
    print(f"\n{NOTES.format(before=before, runs=RUNS)}\n")
    same = not any(answer.differs for answers in sections.values() for answer in answers)
    print(f"Total time: {duration(time.perf_counter() - started)}. To try next:\n")
    for command in suggestions(folder):
        print(f"  {command}")
    drawn = folder.path / "map.html"
    ia.open(folder.lake.path).scan(QUERY_OF_MAP).map().save(drawn)
    print(f"\nWhat the first query reads, page by page: open {drawn} in a browser.")
    return same


@contextmanager
def _spark(steps: Steps) -> Iterator[Spark]:
    """Start a session; the output of Spark and Java goes to a file, and is shown only if they fail."""
    from intarsia.spark.sessions import local_session

    with tempfile.TemporaryDirectory(prefix="intarsia-demo-", ignore_cleanup_errors=True) as scratch:
        log = os.path.join(scratch, "spark.log")
        try:
            with steps.step("starting Spark"), stderr_to(log):
                spark = local_session(scratch, name="intarsia demo")
        except Exception:
            with open(log, errors="replace") as lines:
                sys.stderr.write(lines.read())
            raise
        try:
            yield spark
        finally:
            spark.stop()


def _make_files(folder: Folder, spark: Spark, steps: Steps) -> None:
    with steps.step("loading 336,776 flights"):
        flights = load_flights()
    with steps.step("writing a lake with Spark"):
        write_lake(spark, flights, folder.lake.path)
    with steps.step("writing files with pandas"):
        write_files(flights, folder.files.path)
    folder.finish()


def _index(spark: Spark, lake: Lake, steps: Steps) -> IndexReport:
    import intarsia as ia
    from intarsia import spark as ias

    files = glob.glob(os.path.join(lake.path, "**", "*.parquet"), recursive=True)
    with steps.step(f"indexing {os.path.basename(lake.path)}, a Spark job", len(files)) as done:
        return ias.index(
            spark,
            os.path.abspath(lake.path),
            [ia.PageIndex(), ia.Distinct("dest"), ia.Distinct("tailnum")],
            progress=lambda number, _total, _label: done(number),
        )


def _answers(lake: Lake, expected: list[pa.Table], others: dict[str, RunQuery]) -> list[Answer]:
    answers = []
    for query, plain in zip(queries(), expected, strict=True):
        found, report = run_intarsia(lake.path, query)
        tables = {
            "Intarsia": found,
            **{name: execute(lake.path, query) for name, execute in others.items()},
        }
        differs = tuple(name for name, table in tables.items() if not same_rows(plain, table))
        answers.append(Answer(query, plain.num_rows, differs, report.to_dict()))
    return answers


def _sql_answers(spark: Spark, lake: Lake, expected: list[pa.Table]) -> list[Answer]:
    """Run the queries in SQL before and after `ias.enable`."""
    answers = []
    for query, plain, found in zip(queries(), expected, run_sql(spark, lake.path, queries()), strict=True):
        tables = {"plain SQL": found.before, "SQL after enable": found.after}
        differs = tuple(name for name, table in tables.items() if not same_rows(plain, table))
        before, after = map(duration, found.seconds)
        answers.append(Answer(query, plain.num_rows, differs, found.skip.report, f"{before}, then {after}"))
    return answers


def _show(sections: Mapping[str, Sequence[Answer]], reports: dict[Lake, IndexReport]) -> None:
    for lake, report in reports.items():
        done = f"{report.files_indexed} of {report.files_total} files indexed in {duration(report.seconds)}"
        if report.files_unchanged:
            done += f" ({report.files_unchanged} unchanged)"
        added = f"{size(report.bytes_added)} added to {size(report.bytes_before)}"
        print(f"{lake.path}: {lake.title}\n  {done}, {added}")
    print()
    show([answers_table(sections)])


def suggestions(folder: Folder) -> list[str]:
    """Return commands to try on the demo's files."""
    july = sorted(glob.glob(os.path.join(folder.lake.path, "month=7", "*.parquet")))
    lake, files = folder.lake.path, folder.files.path
    arguments = [
        ["query", lake, "--where", QUERY_OF_MAP, "--columns", "carrier,flight,tailnum,time_hour"],
        ["explain", lake, "--where", "dest = 'ANC' OR tailnum = 'N557AS'", "--columns", "flight"],
        ["inspect", *july[:1]],
        ["verify", files],
        ["detach", lake],
    ]
    return [" ".join([_this_command(), *map(_quoted, words)]) for words in arguments]


def _quoted(word: str) -> str:
    """Quote a word for a shell, with double quotes where possible."""
    if "'" in word and not set(word) & set('"$`\\!'):
        return f'"{word}"'
    return shlex.quote(word)


def _this_command() -> str:
    """Return the command line that starts this command from the current folder."""
    if shutil.which("intarsia"):
        return "intarsia"
    beside = os.path.join(os.path.dirname(sys.executable), "intarsia")
    if os.access(beside, os.X_OK):
        return shlex.quote(os.path.relpath(beside))
    return f"{shlex.quote(os.path.relpath(sys.executable))} -m intarsia"
