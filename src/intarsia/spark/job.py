"""Run a Spark job with one task per unit of work, with progress, and cancelled together with its caller.

It uses no RDD, so it works on Spark Connect. It is **one** action, because every further action would run the
tasks again. It does not use ``toLocalIterator``, which runs at most two tasks at a time on any cluster.
"""

from __future__ import annotations

import contextlib
import pickle
import re
import sys
import threading
import uuid
from collections.abc import Callable, Iterator, Mapping, Sequence
from concurrent.futures import Future
from itertools import accumulate, chain
from operator import itemgetter
from typing import TYPE_CHECKING, Any, Final, TypeAlias, TypeVar

import pyarrow as pa

from intarsia.embed.report import Progress, no_progress
from intarsia.errors import IntarsiaError, WriteError
from intarsia.indexes.proof import split_batches
from intarsia.lake.data_file import FileFailure
from intarsia.spark.sessions import is_connect, map_tasks
from intarsia.storage import current_options, offered_options

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

#: Called on the driver with the tasks done and the total number of tasks.
TaskProgress: TypeAlias = Callable[[int, int], None]

_POLL_SECONDS = 0.2

#: Spark's error for a file that is damaged, or is no longer there.
_UNREADABLE: Final = re.compile(r"\[FAILED_READ_FILE\..*")


@contextlib.contextmanager
def named_unreadable_files() -> Iterator[None]:
    """Raise an error of one sentence if Spark cannot read a file within the block, not a stack trace of Java.

    Raises:
        WriteError: If it cannot.
    """
    try:
        yield
    except IntarsiaError:
        raise
    except Exception as error:
        found = _UNREADABLE.search(str(error))  # such errors have several types
        if found is None:
            raise
        raise WriteError(
            f"Spark cannot read a file: {found[0].rstrip('.')}; if another job replaces or removes files at "
            "the same time, run this one again",
            reason="unreadable-file",
        ) from error


def run_tasks(
    spark: SparkSession,
    tasks: Sequence[Sequence[Any]],
    work: Callable[[Any], Any],
    progress: TaskProgress,
) -> list[Any]:
    """Run ``work`` on every item, with one task for each inner sequence.

    Args:
        spark: The session.
        tasks: The items of each task.
        work: Runs on the executors, possibly more than once per item, because Spark retries tasks.
        progress: Called from time to time in the caller's thread.

    Returns:
        The results of ``work`` in undefined order.

    Raises:
        IntarsiaError: If the executors' Python lacks this package.
    """
    if not tasks:
        return []
    total, options = len(tasks), current_options()

    def run(items: Sequence[Any]) -> Iterator[pa.RecordBatch]:
        for item in items:
            with offered_options(options):
                outcome = work(item)
            yield pickled(outcome)

    frame = map_tasks(spark, tasks, run, OUTCOME)
    rows = collect_rows(spark, frame, lambda done, _: progress(min(done, total), total))
    progress(total, total)
    return [unpickled(row[0]) for row in rows]


#: The schema of rows in which tasks return objects.
OUTCOME: Final = "outcome binary"


def pickled(*outcomes: object) -> pa.RecordBatch:
    """Return objects as rows of `OUTCOME`, on an executor."""
    return pa.record_batch([pa.array(list(map(pickle.dumps, outcomes)), pa.binary())], names=["outcome"])


def unpickled(outcome: bytes) -> Any:
    """Restore an object, which a task of this driver made."""
    return pickle.loads(outcome)  # noqa: S301


def collect_rows(spark: SparkSession, frame: DataFrame, progress: TaskProgress) -> list[Any]:
    """Collect the rows of a frame in one action, with progress. It is cancelled together with its caller.

    Args:
        spark: The session.
        frame: The frame. Functions that it runs in Python import this package on the executors.
        progress: Called from time to time in the caller's thread, with the tasks done and the tasks of the
            stages that are known so far.

    Raises:
        IntarsiaError: If the executors' Python lacks this package.
    """
    watch = _ConnectWatch(spark) if is_connect(spark) else _ClassicWatch(spark)
    try:
        return _collect(spark, frame, watch, progress)
    except Exception as error:
        if re.search(r"No module named 'intarsia[.']", str(error)):
            raise IntarsiaError(
                "Spark's executors run a Python without intarsia, or with another version; install it there, "
                "or set PYSPARK_PYTHON to a Python that has it before the session starts",
                reason="missing-on-executors",
            ) from error
        raise


def _collect(spark: SparkSession, frame: Any, watch: Any, report: TaskProgress) -> list[Any]:
    """Collect in another thread, so that this one can report progress and react to Ctrl-C at once."""
    from pyspark import InheritableThread

    outcome: Future[list[Any]] = Future()

    def collect() -> None:
        try:
            with watch.mark():
                outcome.set_result(frame.collect())
        except BaseException as error:  # noqa: BLE001  raised below, in the waiting thread
            outcome.set_exception(error)

    thread = InheritableThread(target=collect, session=spark, daemon=True)
    thread.start()
    last = 0
    try:
        while thread.is_alive():
            thread.join(_POLL_SECONDS)
            done, total = watch.tasks()
            if done > last:
                last = done
                report(done, total)
    except BaseException:  # Ctrl-C, or an error of the callback
        watch.cancel()
        thread.join()
        raise
    return outcome.result()


class _ClassicWatch:
    """A job of a classic session, identified by its tag."""

    def __init__(self, spark: SparkSession) -> None:
        self._context = spark.sparkContext
        self._tag = f"intarsia-{uuid.uuid4()}"

    @contextlib.contextmanager
    def mark(self) -> Iterator[None]:
        """Tag the jobs that this thread starts inside the block."""
        self._context.addJobTag(self._tag)
        try:
            yield
        finally:
            self._context.removeJobTag(self._tag)

    def cancel(self) -> None:
        self._context.cancelJobsWithTag(self._tag)

    def tasks(self) -> tuple[int, int]:
        """Return the number of tasks done, and of all tasks of the stages that have been submitted."""
        tracker = self._context.statusTracker()
        try:
            jobs = [
                tracker.getJobInfo(job)
                for job in self._context._jsc.sc().statusTracker().getJobIdsForTag(self._tag)
            ]
            stages = [tracker.getStageInfo(stage) for job in jobs if job for stage in job.stageIds]
        except Exception:  # noqa: BLE001  progress is optional
            return 0, 0
        known = [stage for stage in stages if stage]
        return sum(stage.numCompletedTasks for stage in known), sum(stage.numTasks for stage in known)


class _ConnectWatch:
    """An operation of a Connect session, identified by its tag."""

    def __init__(self, spark: SparkSession) -> None:
        self._spark = spark
        self._tag = f"intarsia-{uuid.uuid4()}"
        self._thread: threading.Thread | None = None
        self._tasks = (0, 0)

    @contextlib.contextmanager
    def mark(self) -> Iterator[None]:
        """Tag the operations that this thread starts inside the block."""
        self._thread = threading.current_thread()
        self._spark.addTag(self._tag)
        self._spark.registerProgressHandler(self._on_stages)
        try:
            yield
        finally:
            self._spark.removeProgressHandler(self._on_stages)
            self._spark.removeTag(self._tag)

    def cancel(self) -> None:
        self._spark.interruptTag(self._tag)

    def tasks(self) -> tuple[int, int]:
        """Return the number of tasks done, and of all tasks of the stages that have been submitted."""
        return self._tasks

    def _on_stages(self, stages: Any, **_: Any) -> None:
        # handlers are called for every operation of the session; this operation runs in the thread that
        # tagged it
        if threading.current_thread() is self._thread:
            known = stages or ()
            done = sum(stage.num_completed_tasks for stage in known)
            self._tasks = (done, sum(stage.num_tasks for stage in known))


#: Files are added to a task up to this size. Starting a task takes 10 to 60 ms.
TASK_BYTES = 16 << 20

#: Opening a file takes as long as indexing this many bytes.
OPEN_BYTES = 256 << 10

#: A job has at least this many tasks, if there are enough files, to use all cores of a machine.
MIN_TASKS = 32

#: A job has at most this many tasks: Spark is slow to start tens of thousands.
MAX_TASKS = 10_000


def tasks_of(sizes: Mapping[str, int]) -> list[list[str]]:
    """Divide files among tasks: one task for each large file, several small files in a task.

    Args:
        sizes: The size of each file in bytes; 0 if unknown.

    Returns:
        The paths of each task, in the order of ``sizes``.

    Example:
        >>> tasks_of({"a": 1 << 30, "b": 1 << 30})
        [['a'], ['b']]
        >>> tasks = tasks_of({f"{n}": 300_000 for n in range(1_000)})
        >>> len(tasks), max(map(len, tasks))
        (35, 29)
    """
    weights = {path: (size or TASK_BYTES) + OPEN_BYTES for path, size in sizes.items()}
    total = sum(weights.values())
    limit = max(min(TASK_BYTES, total / MIN_TASKS), total / MAX_TASKS)
    return [[path for path, _ in group] for group in split_batches(weights.items(), itemgetter(1), limit)]


_Result = TypeVar("_Result")

#: Tasks in the first part of a job that stops after too many failures; each part has twice as many.
_FIRST_TASKS = 16


def run_on_files(
    spark: SparkSession,
    sizes: Mapping[str, int],
    work: Callable[[str], Any],
    show: Callable[[int], None],
    *,
    in_parts: bool = False,
) -> Iterator[list[Any]]:
    """Run ``work`` on each file, several small files in a task.

    Args:
        spark: The session.
        sizes: The size of each file in bytes.
        work: Runs on the executors, possibly more than once per file, because Spark retries tasks.
        show: Called with the number of files that are done.
        in_parts: Whether the tasks run in parts, which double in size, so that the caller can stop between
            them, because the results of tasks arrive together.

    Yields:
        The results of each part in undefined order.
    """
    tasks = tasks_of(sizes)
    files_done, start = 0, 0
    step = _FIRST_TASKS if in_parts else len(tasks)
    while start < len(tasks):
        part = tasks[start : start + step]
        done_after = list(accumulate(map(len, part), initial=files_done))
        yield run_tasks(spark, part, work, lambda done, _, edges=done_after: show(edges[done]))  # type: ignore[misc]
        files_done, start, step = done_after[-1], start + len(part), step * 2


def act_on_files(
    spark: SparkSession, sizes: Mapping[str, int], act: Callable[[str], _Result], show: Progress, label: str
) -> tuple[dict[str, _Result], list[FileFailure]]:
    """Run an action on each file.

    Args:
        spark: The session.
        sizes: The size of each file in bytes.
        act: The action, whose result can be pickled.
        show: Called with the number of files that are done.
        label: The label of the progress.

    Returns:
        The results by path, and the files that failed, both ordered by path.
    """

    def work(path: str) -> tuple[str, _Result | FileFailure]:
        try:
            return path, act(path)
        except Exception as error:  # noqa: BLE001  one bad file must not stop the others
            failure = FileFailure(path, error)  # errors of other packages may not be on the driver
            return path, FileFailure(path, IntarsiaError(failure.reason, reason=failure.code, path=path))

    show(0, len(sizes), label)
    parts = run_on_files(spark, sizes, work, lambda done: show(done, len(sizes), label))
    # by path, because Spark may return two results of a task that ran twice
    found: dict[str, Any] = dict(sorted(chain(*parts), key=itemgetter(0)))
    failed = [outcome for outcome in found.values() if isinstance(outcome, FileFailure)]
    done = {path: outcome for path, outcome in found.items() if not isinstance(outcome, FileFailure)}
    return done, failed


def reporter(progress: Progress | bool, unit: str) -> Progress:
    """Return the function that a job calls with its progress.

    Args:
        progress: The caller's function; True to print a line on stderr if it is a terminal.
        unit: The plural noun of the units that are counted.
    """
    if callable(progress):
        return progress
    if not progress or not sys.stderr.isatty():
        return no_progress

    def print_line(done: int, total: int, label: str) -> None:
        """Overwrite one line, and end it when all is done."""
        sys.stderr.write(f"\r{label}: {done} of {total} {unit}" + ("\n" if done == total > 0 else ""))
        sys.stderr.flush()

    return print_line
