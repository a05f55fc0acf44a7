"""Time jobs that write files, each beside the job of plain Spark that does the same without indexes."""

from __future__ import annotations

import contextlib
import shutil
import statistics
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING

import psutil

import intarsia as ia
import intarsia.spark as ias
from benchmarks.lake import make_plain_lake
from benchmarks.lineitem import make_files
from intarsia.spark.optimize import TARGET_FILE_SIZE

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

#: Rounds before the timed ones: Spark compiles what it runs.
_WARM_UPS = 1

_KEY = "l_partkey"


@dataclass
class Job:
    """One job and its runs.

    Attributes:
        name: The name in the table.
        run: Runs the job once.
        prepare: Is called before each run, and is not timed.
        than: The job with which it is compared; None for those of plain Spark.
        aim: The maximum CPU time relative to that job; None if there is no target.
        num_bytes: Size of the files that it reads.
        wall_s: Seconds of each timed run.
        cpu_s: CPU seconds of this process and of the processes below it, of each timed run.
    """

    name: str
    run: Callable[[], object]
    prepare: Callable[[], object]
    num_bytes: int
    than: Job | None = None
    aim: float | None = None
    wall_s: list[float] = field(default_factory=list)
    cpu_s: list[float] = field(default_factory=list)

    @property
    def median_cpu_s(self) -> float:
        return statistics.median(self.cpu_s)

    @property
    def mb_per_cpu_s(self) -> float:
        """Megabytes of the files that it reads, per second of one core."""
        return self.num_bytes / 1e6 / self.median_cpu_s

    @property
    def ratio(self) -> float | None:
        """CPU time relative to the other job."""
        return None if self.than is None else self.median_cpu_s / self.than.median_cpu_s


def measure_jobs(
    spark: SparkSession,
    folder: Path,
    files: int,
    scale: float,
    repetitions: int,
    show_progress: Callable[[str], None] = lambda _: None,
) -> Sequence[Job]:
    """Run each job once in each round, and return them with their figures.

    Args:
        spark: The session.
        folder: Folder for the files.
        files: Files of the lake that is indexed, 10,000 rows each.
        scale: TPC-H's scale factor for lineitem, which is written and sorted.
        repetitions: Timed rounds.
        show_progress: Is passed the name of each job.

    Raises:
        MissingProgramError: If tpchgen-cli is not installed.
    """
    target = folder / "jobs"
    jobs = _jobs(spark, folder, target, files, scale)
    try:
        for turn in range(-_WARM_UPS, repetitions):
            for job in jobs:
                show_progress(f"job: {job.name}")
                job.prepare()
                before, started = _cpu_seconds(), time.perf_counter()
                job.run()
                if turn >= 0:
                    job.wall_s.append(time.perf_counter() - started)
                    job.cpu_s.append(_cpu_seconds_since(before))
        return jobs
    finally:
        _remove(target)


def _jobs(spark: SparkSession, folder: Path, target: Path, files: int, scale: float) -> Sequence[Job]:
    lake = make_plain_lake(folder, files)
    source = make_files(folder, scale)[0]
    rows = spark.read.parquet(source.path)
    num_parts = max(1, -(-source.size_bytes // TARGET_FILE_SIZE))

    def remove() -> None:
        _remove(target)

    def copy_lake() -> None:
        remove()
        shutil.copytree(lake, target)

    def write_indexed() -> None:
        ias.enable_writes(spark, [ia.PageIndex(), ia.Bloom(_KEY)])
        try:
            rows.write.parquet(str(target))
        finally:
            ias.disable_writes(spark)

    write = Job("write", lambda: rows.write.parquet(str(target)), remove, source.size_bytes)
    indexed_write = Job(
        f"write with PageIndex and Bloom({_KEY})",
        write_indexed,
        remove,
        source.size_bytes,
        than=write,
        aim=1.05,
    )
    ranges = rows.repartitionByRange(num_parts, _KEY).sortWithinPartitions(_KEY)
    sort = Job(
        f"sort by {_KEY} and write with zstd",
        lambda: ranges.write.option("compression", "zstd").parquet(str(target)),
        remove,
        source.size_bytes,
    )
    optimize = Job(
        f"ias.optimize(sort_by={_KEY})",
        lambda: ias.optimize(spark, source.path, target, sort_by=_KEY, progress=False),
        remove,
        source.size_bytes,
        than=sort,
        aim=1.2,
    )
    index = Job(
        f"ias.index of {files:,} files, PageIndex and Bloom(user)",
        lambda: ias.index(spark, target, [ia.PageIndex(), ia.Bloom("user")], progress=False),
        copy_lake,
        sum(path.stat().st_size for path in lake.rglob("*.parquet")),
    )
    return write, indexed_write, sort, optimize, index


def _remove(folder: Path) -> None:
    if folder.exists():
        shutil.rmtree(folder)


def _cpu_seconds() -> dict[psutil.Process, float]:
    """Return the CPU time of this process and of each process below it."""
    process = psutil.Process()
    found = {}
    for one in [process, *process.children(recursive=True)]:
        with contextlib.suppress(psutil.NoSuchProcess):
            times = one.cpu_times()
            found[one] = times.user + times.system
    return found


def _cpu_seconds_since(before: Mapping[psutil.Process, float]) -> float:
    """Return the CPU time since then of the processes that still run.

    Processes that a job needs outlive it: the JVM, its Python workers and the planner. The time of one that
    ended is not known: it is added to that of a parent only if the parent asks for it.
    """
    return sum(seconds - before.get(process, 0) for process, seconds in _cpu_seconds().items())
