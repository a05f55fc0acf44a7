"""The demo, step by step."""

from __future__ import annotations

import glob
import os
import shlex
import shutil
import sys
import tempfile
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import TYPE_CHECKING

from examples.demo.lakes import Folder, Lake, Spark, load_flights, stderr_to, write_files, write_lake
from examples.demo.questions import (
    Question,
    ask_intarsia,
    ask_pyarrow,
    ask_spark,
    ask_spark_through_intarsia,
    questions,
    same_rows,
)
from examples.demo.steps import Steps
from examples.demo.view import Answer, answers_table
from intarsia.cli.terminal import duration, show, size

if TYPE_CHECKING:
    import pyarrow as pa

    from intarsia.spark import IndexReport

    Ask = Callable[[str, Question], pa.Table]

NOTES = """\
Read and in all, e.g. 7/175 pages; those of files that were never opened are
not counted. same: Intarsia's rows are those of Spark (in the second folder: of
pyarrow) asked {before}, and asked again afterwards; in the
lake also those of Spark through ias.read. Spark writes time_hour as INT96,
which has no order: in the lake, only month helps question 3."""


def run(folder: Folder, *, keep: bool) -> bool:
    """Make the files, ask, index, ask again, and show what came of it.

    Args:
        folder: Where the files go.
        keep: Keep the files of an earlier run, if there are any.

    Returns:
        Whether all answers agree.
    """
    started = time.perf_counter()
    keep = keep and folder.is_complete
    if not keep:
        folder.clear()
    steps = Steps(5 if keep else 8)
    with _spark(steps) as spark:
        if not keep:
            _make_files(folder, spark, steps)
        plain: dict[Lake, Ask] = {
            folder.lake: lambda path, question: ask_spark(spark, path, question),
            folder.files: ask_pyarrow,
        }
        with steps.step("asking plainly"):
            expected = {
                lake: [ask(lake.path, question) for question in questions()] for lake, ask in plain.items()
            }
        reports = {lake: _index(spark, lake, steps) for lake in plain}
        others: dict[Lake, dict[str, Ask]] = {
            lake: {"plainly, afterwards": ask} for lake, ask in plain.items()
        }
        others[folder.lake]["Spark through Intarsia"] = lambda path, question: ask_spark_through_intarsia(
            spark, path, question
        )
        with steps.step("asking through Intarsia"):
            answers = {lake: _answers(lake, expected[lake], others[lake]) for lake in plain}
    _show(answers, reports)
    print(f"\n{NOTES.format(before='by itself' if keep else 'before any index was added')}\n")
    same = not any(answer.differs for asked in answers.values() for answer in asked)
    print(f"All of it took {duration(time.perf_counter() - started)}. To try next:\n")
    for command in suggestions(folder):
        print(f"  {command}")
    return same


@contextmanager
def _spark(steps: Steps) -> Iterator[Spark]:
    """A session; what Spark and Java have to say goes to a file, and is shown only if they fail."""
    from intarsia.spark.local import local_session

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


def _answers(lake: Lake, expected: list[pa.Table], others: dict[str, Ask]) -> list[Answer]:
    answers = []
    for question, plain in zip(questions(), expected, strict=True):
        found, report = ask_intarsia(lake.path, question)
        tables = {"Intarsia": found, **{name: ask(lake.path, question) for name, ask in others.items()}}
        differs = tuple(name for name, table in tables.items() if not same_rows(plain, table))
        answers.append(Answer(question, plain.num_rows, differs, report))
    return answers


def _show(answers: dict[Lake, list[Answer]], reports: dict[Lake, IndexReport]) -> None:
    for lake, report in reports.items():
        done = f"{report.files_indexed} of {report.files_total} files indexed in {duration(report.seconds)}"
        if report.files_unchanged:
            done += f" ({report.files_unchanged} had it all)"
        added = f"{size(report.bytes_added)} added to {size(report.bytes_before)}"
        print(f"{lake.path}: {lake.title}\n  {done}, {added}")
    print()
    show([answers_table(answers)])


def suggestions(folder: Folder) -> list[str]:
    """Commands to try on the demo's files."""
    july = sorted(glob.glob(os.path.join(folder.lake.path, "month=7", "*.parquet")))
    lake, files = folder.lake.path, folder.files.path
    arguments = [
        ["query", lake, "--where", "dest = 'LEX'", "--columns", "carrier,flight,tailnum,time_hour"],
        ["explain", lake, "--where", "dest = 'ANC' OR tailnum = 'N557AS'", "--columns", "flight"],
        ["inspect", *july[:1]],
        ["verify", files],
        ["detach", lake],
    ]
    return [" ".join([_this_command(), *map(_quoted, words)]) for words in arguments]


def _quoted(word: str) -> str:
    """A word as people write it for a shell."""
    if "'" in word and not set(word) & set('"$`\\!'):
        return f'"{word}"'
    return shlex.quote(word)


def _this_command() -> str:
    """How the command can be called from here."""
    if shutil.which("intarsia"):
        return "intarsia"
    beside = os.path.join(os.path.dirname(sys.executable), "intarsia")
    if os.access(beside, os.X_OK):
        return shlex.quote(os.path.relpath(beside))
    return f"{shlex.quote(os.path.relpath(sys.executable))} -m intarsia"
