"""A Spark job with one task for each piece of work, watched while it runs, stopped with whoever started it.

No RDD, so it works on Spark Connect too. It runs as **one** action, since every further action would run the
tasks again, and not as ``toLocalIterator``, which has at most two tasks in flight, however large the cluster.
"""

from __future__ import annotations

import contextlib
import threading
import uuid
from collections.abc import Callable, Iterator, Sequence
from typing import TYPE_CHECKING, Any, TypeAlias

import pyarrow as pa

from intarsia.errors import IntarsiaError

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

#: Does one piece of work, on an executor; what it returns comes back to the driver.
Work: TypeAlias = Callable[[str], str]

#: Called on the driver with tasks done and tasks in all.
TaskProgress: TypeAlias = Callable[[int, int], None]

_POLL_SECONDS = 0.2


def is_connect(spark: SparkSession) -> bool:
    """Whether a session is one of Spark Connect, which has no JVM to reach into."""
    return type(spark).__module__.startswith("pyspark.sql.connect")


def run_tasks(
    spark: SparkSession, tasks: Sequence[Sequence[str]], work: Work, progress: TaskProgress
) -> list[str]:
    """Run ``work`` on every item, each inner sequence in a task of its own.

    Args:
        spark: The session.
        tasks: The items of each task.
        work: Runs on the executors, perhaps more than once for an item: Spark retries tasks.
        progress: Called now and then, in the caller's thread.

    Returns:
        What ``work`` returned, in no certain order.

    Raises:
        IntarsiaError: If the executors' Python lacks this package.
    """
    if not tasks:
        return []
    frozen = tuple(tuple(items) for items in tasks)

    # A closure, so that Spark sends it whole; all that it calls is found in the executors' own packages.
    def run(batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        for batch in batches:
            for ordinal in batch.column(0).to_pylist():
                for item in frozen[ordinal]:
                    yield pa.record_batch([pa.array([work(item)], pa.string())], names=["outcome"])

    # As many rows as partitions: range puts exactly one into each.
    frame = spark.range(0, len(frozen), 1, len(frozen)).mapInArrow(run, "outcome string")
    watch = _ConnectWatch(spark) if is_connect(spark) else _ClassicWatch(spark)
    try:
        rows = _collect(spark, frame, watch, lambda done: progress(min(done, len(frozen)), len(frozen)))
    except Exception as error:
        if "No module named 'intarsia'" in str(error):
            raise IntarsiaError(
                "Spark's executors run a Python that lacks intarsia: install it there, or set PYSPARK_PYTHON "
                "to a Python that has it, before the session starts (for a local session: sys.executable)"
            ) from error
        raise
    progress(len(frozen), len(frozen))
    return [row[0] for row in rows]


def _collect(spark: SparkSession, frame: Any, watch: Any, tell: Callable[[int], None]) -> list[Any]:
    """Collect in another thread, so that this one can tell how far it is, and hears Ctrl-C at once."""
    from pyspark import InheritableThread

    rows: list[Any] = []
    failures: list[BaseException] = []

    def collect() -> None:
        try:
            with watch.mark():
                rows.extend(frame.collect())
        except BaseException as error:  # noqa: BLE001  raised again below, where somebody waits for it
            failures.append(error)

    thread = InheritableThread(target=collect, session=spark, daemon=True)
    thread.start()
    last = 0
    try:
        while thread.is_alive():
            thread.join(_POLL_SECONDS)
            done = watch.tasks_done()
            if done > last:
                last = done
                tell(done)
    except BaseException:  # Ctrl-C, or a callback that failed: nobody waits for the rest
        watch.cancel()
        thread.join()
        raise
    if failures:
        raise failures[0]
    return rows


class _ClassicWatch:
    """A job of a classic session, found again by its tag."""

    def __init__(self, spark: SparkSession) -> None:
        self._context = spark.sparkContext
        self._tag = f"intarsia-{uuid.uuid4()}"

    @contextlib.contextmanager
    def mark(self) -> Iterator[None]:
        """Jobs that this thread starts inside the block carry the tag."""
        self._context.addJobTag(self._tag)
        try:
            yield
        finally:
            self._context.removeJobTag(self._tag)

    def cancel(self) -> None:
        self._context.cancelJobsWithTag(self._tag)

    def tasks_done(self) -> int:
        tracker = self._context.statusTracker()
        try:
            jobs = [
                tracker.getJobInfo(job)
                for job in self._context._jsc.sc().statusTracker().getJobIdsForTag(self._tag)
            ]
            stages = [tracker.getStageInfo(stage) for job in jobs if job for stage in job.stageIds]
        except Exception:  # noqa: BLE001  the JVM is not ours; how far it is may stay unknown
            return 0
        return sum(stage.numCompletedTasks for stage in stages if stage)


class _ConnectWatch:
    """An operation of a Connect session."""

    def __init__(self, spark: SparkSession) -> None:
        self._spark = spark
        self._tag = f"intarsia-{uuid.uuid4()}"
        self._thread: threading.Thread | None = None
        self._done = 0

    @contextlib.contextmanager
    def mark(self) -> Iterator[None]:
        """Operations that this thread starts inside the block carry the tag."""
        self._thread = threading.current_thread()
        self._spark.addTag(self._tag)
        self._spark.registerProgressHandler(self._hear)
        try:
            yield
        finally:
            self._spark.removeProgressHandler(self._hear)
            self._spark.removeTag(self._tag)

    def cancel(self) -> None:
        self._spark.interruptTag(self._tag)

    def tasks_done(self) -> int:
        return self._done

    def _hear(self, stages: Any, **_: Any) -> None:
        # Handlers hear of every operation of the session; ours runs in the thread that marked it.
        if threading.current_thread() is self._thread:
            self._done = sum(stage.num_completed_tasks for stage in stages or ())
