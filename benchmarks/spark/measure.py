"""Time queries in one session, in turn: plain on bare files, plain on indexed files, enabled, on one row."""

from __future__ import annotations

import statistics
import time
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

import intarsia.spark as ias
from benchmarks.measure import DisagreementError
from benchmarks.spark.cases import Data, Query

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

BARE, INDEXED, ENABLED = SAME_ROWS = ("plain, bare files", "plain, indexed files", "enabled")

#: The same query in plain Spark on a file with one row. Its time is the cost of any query in Spark, which
#: compiles code for new values. Skipping cannot reduce it.
ONE_ROW = "plain, one row"
MODES = (*SAME_ROWS, ONE_ROW)

_SWITCH = "spark.intarsia.enabled"

#: Vectored reads are missing in Hadoop's statistics, so runs that count bytes turn them off.
_VECTORED = "parquet.hadoop.vectored.io.enabled"

#: Runs of each query in each mode before the timed ones; the first one counts bytes.
_WARM_UPS = 2


@dataclass
class Runs:
    """The runs of one query in one mode.

    Attributes:
        ms: Milliseconds of each timed run.
        cpu_ms: CPU time of the JVM, compilers included, and of this process, of each timed run.
        bytes_read: Bytes that Spark and the planner read in one run.
        scan_rows: Rows that the scan returned in that run, before Spark's filter.
    """

    ms: list[float] = field(default_factory=list)
    cpu_ms: list[float] = field(default_factory=list)
    bytes_read: int = 0
    scan_rows: int = 0

    @property
    def median_ms(self) -> float:
        return statistics.median(self.ms)

    @property
    def median_cpu_ms(self) -> float:
        return statistics.median(self.cpu_ms)


@dataclass(frozen=True)
class Measured:
    """One query on one table, with its runs in each mode."""

    data: Data
    query: Query
    runs: dict[str, Runs]

    def ratio(self, mode: str, of: Callable[[Runs], float] = lambda runs: runs.median_ms) -> float:
        """Return a figure relative to that of plain Spark on bare files."""
        return of(self.runs[mode]) / of(self.runs[BARE])


class Bench:
    """Runs queries in an enabled session and measures them.

    Args:
        spark: The session.
        scratch: Folder for files with one row.
        repetitions: Timed runs of each query in each mode.
        show_progress: Is passed the name of each query.
    """

    def __init__(
        self,
        spark: SparkSession,
        scratch: Path,
        repetitions: int,
        show_progress: Callable[[str], None] = lambda _: None,
    ) -> None:
        self._spark = spark
        self._scratch = scratch
        self._repetitions = repetitions
        self._show_progress = show_progress
        jvm: Any = spark.sparkContext._jvm
        registry = jvm.org.apache.spark.metrics.source.JVMCPUSource().metricRegistry()
        self._jvm_cpu = registry.getGauges().get("jvmCpuTime")
        self._file_systems = jvm.org.apache.hadoop.fs.FileSystem
        self._random = np.random.default_rng(1)

    def measure(self, data: Sequence[Data]) -> Iterator[Measured]:
        """Yield the figures of each query.

        Raises:
            DisagreementError: If a query returns different rows in two modes.
        """
        for one in data:
            reader = self._spark.read.format(one.format)
            views = {BARE: reader.load(one.bare), INDEXED: reader.load(one.indexed)}
            views[ENABLED] = views[INDEXED]
            views[ONE_ROW] = reader.load(self._one_row(one, views[BARE]))
            for query in one.queries:
                self._show_progress(f"{one.name}: {query.name}")
                yield Measured(one, query, self._runs(views, one, query))

    def _one_row(self, data: Data, bare: DataFrame) -> str:
        """Write one row to a table, and return its path."""
        path = data.one_row or str(self._scratch / f"{data.name}.parquet")
        row = bare.limit(1).coalesce(1).write
        if data.format == "iceberg":
            row.format(data.format).mode("overwrite").saveAsTable(path)
        else:
            row.format(data.format).mode("overwrite").save(path)
        return path

    def _runs(self, views: dict[str, DataFrame], data: Data, query: Query) -> dict[str, Runs]:
        runs = {mode: Runs() for mode in MODES}
        for repetition in range(-_WARM_UPS, self._repetitions):
            where = query.where(self._random)
            shift = repetition % len(MODES)  # the first mode changes from run to run
            answers = {}
            for mode in MODES[shift:] + MODES[:shift]:
                self._spark.conf.set(_SWITCH, str(mode == ENABLED).lower())
                frame = views[mode].where(where) if where else views[mode]
                frame = frame.selectExpr(*data.columns)
                if repetition == -_WARM_UPS:
                    answers[mode] = self._count(frame, runs[mode], where, mode)
                else:
                    answers[mode] = self._time(frame, runs[mode], is_timed=repetition >= 0)
            if not _agree([answers[mode] for mode in SAME_ROWS]):
                raise DisagreementError(f"{data.name}, {where!r}: {answers}")
        return runs

    def _time(self, frame: DataFrame, runs: Runs, *, is_timed: bool) -> tuple[Any, ...]:
        cpu, started = self._cpu_ms(), time.perf_counter()
        (row,) = frame.collect()
        elapsed = (time.perf_counter() - started) * 1000
        if is_timed:
            runs.ms.append(elapsed)
            runs.cpu_ms.append(self._cpu_ms() - cpu)
        return tuple(row)

    def _count(self, frame: DataFrame, runs: Runs, where: str, mode: str) -> tuple[Any, ...]:
        self._spark.conf.set(_VECTORED, "false")
        before = self._bytes_read()
        (row,) = frame.collect()
        runs.bytes_read = self._bytes_read() - before
        self._spark.conf.unset(_VECTORED)
        runs.scan_rows = _scan_rows(frame._jdf.queryExecution().executedPlan())
        if mode == ENABLED and where:
            runs.bytes_read += sum(
                skip.report["bytes"]["index"] for skip in ias.last_skips(self._spark) if skip.report
            )
        return tuple(row)

    def _cpu_ms(self) -> float:
        return float(self._jvm_cpu.getValue()) / 1e6 + time.process_time() * 1000

    def _bytes_read(self) -> int:
        statistics_of = self._file_systems.getAllStatistics()
        return sum(statistics_of.get(ordinal).getBytesRead() for ordinal in range(statistics_of.size()))


def _scan_rows(plan: Any) -> int:
    """Return the rows that the scans of an executed plan returned."""
    name = plan.getClass().getSimpleName()
    if name == "AdaptiveSparkPlanExec":
        return _scan_rows(plan.executedPlan())
    if name.endswith("QueryStageExec"):
        return _scan_rows(plan.plan())
    if name in ("FileSourceScanExec", "SkippingScan", "BatchScanExec"):
        return int(plan.metrics().apply("numOutputRows").value())
    children = plan.children()
    return sum(_scan_rows(children.apply(ordinal)) for ordinal in range(children.size()))


def _agree(answers: Sequence[tuple[Any, ...]]) -> bool:
    """Return whether results are equal; sums of floats depend on the order of the rows."""
    return all(
        one == other or (isinstance(one, float) and abs(one - other) <= 1e-9 * abs(one))
        for answer in answers
        for one, other in zip(answer, answers[0], strict=True)
    )
