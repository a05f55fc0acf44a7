"""Run an action on each file of a lake in a Spark job. Bad files are reported; the others are processed."""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping, Sequence
from itertools import accumulate
from typing import TYPE_CHECKING, Any, TypeAlias

from intarsia.embed.report import Progress
from intarsia.errors import IntarsiaError
from intarsia.lake.each_file import FileFailure
from intarsia.spark.job import run_tasks
from intarsia.spark.tasks import tasks_of

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

#: Processes a file on an executor, and returns an object for JSON.
Act: TypeAlias = Callable[[str], Any]

#: Tasks in the first part of a job that stops after too many failures; each part has twice as many.
_FIRST_TASKS = 16


def run_on_files(
    spark: SparkSession,
    sizes: Mapping[str, int],
    work: Callable[[str], str],
    show: Callable[[int], None],
    is_failure: Callable[[str], bool] = lambda _: False,
    max_failures: int | None = None,
) -> list[str]:
    """Run ``work`` on each file, several small files in a task.

    Args:
        spark: The session.
        sizes: The size of each file in bytes.
        work: Runs on the executors, possibly more than once per file, because Spark retries tasks.
        show: Called with the number of files that are done.
        is_failure: Whether a result is a failure.
        max_failures: Stop when more files have failed. The tasks then run in parts, which double in size,
            because the results of tasks arrive together.

    Returns:
        The results in undefined order; incomplete if too many files have failed.
    """
    tasks = tasks_of(sizes)
    results: list[str] = []
    files_done, start = 0, 0
    step = len(tasks) if max_failures is None else _FIRST_TASKS
    while start < len(tasks):
        part = tasks[start : start + step]
        done_after = list(accumulate(map(len, part), initial=files_done))
        results += run_tasks(spark, part, work, lambda done, _, edges=done_after: show(edges[done]))  # type: ignore[misc]
        files_done, start, step = done_after[-1], start + len(part), step * 2
        if max_failures is not None and sum(map(is_failure, results)) > max_failures:
            break
    return results


def act_on_files(
    spark: SparkSession, sizes: Mapping[str, int], act: Act, show: Progress, label: str
) -> tuple[dict[str, Any], list[FileFailure]]:
    """Run an action on each file, whose result is an object for JSON.

    Args:
        spark: The session.
        sizes: The size of each file in bytes.
        act: The action.
        show: Called with the number of files that are done.
        label: The label of the progress.

    Returns:
        The results by path, and the files that failed, both ordered by path.
    """

    def work(path: str) -> str:
        try:
            return json.dumps({"path": path, "result": act(path)})
        except Exception as error:  # noqa: BLE001  one bad file must not stop the others
            failure = FileFailure(path, error)
            return json.dumps({"path": path, "error": failure.reason, "code": failure.code})

    show(0, len(sizes), label)
    # by path, because Spark may return two results of a task that ran twice
    found = {
        outcome["path"]: outcome
        for outcome in map(
            json.loads, run_on_files(spark, sizes, work, lambda done: show(done, len(sizes), label))
        )
    }
    return (
        {path: found[path]["result"] for path in sorted(found) if "result" in found[path]},
        _failures([found[path] for path in sorted(found) if "error" in found[path]]),
    )


def _failures(outcomes: Sequence[Mapping[str, str]]) -> list[FileFailure]:
    """Restore the failures, whose errors were raised by the executor's Python."""
    return [
        FileFailure(found["path"], IntarsiaError(found["error"], reason=found["code"], path=found["path"]))
        for found in outcomes
    ]
