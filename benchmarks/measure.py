"""Time the readers, and check that they return the same results."""

from __future__ import annotations

import contextlib
import gc
import math
import os
import statistics
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field
from functools import partial
from typing import Any

import pyarrow as pa

from benchmarks.data import File
from benchmarks.engines import ENGINES, Intarsia, Opened
from benchmarks.extension import NATIVE, Remote
from benchmarks.least import Least, least_of
from benchmarks.queries import Query


@dataclass
class Timing:
    """Seconds of one reader: cold with a new object for each query, warm with the same object again."""

    cold: list[float] = field(default_factory=list)
    warm: list[float] = field(default_factory=list)

    def median_ms(self) -> tuple[float, float]:
        return statistics.median(self.cold) * 1000, statistics.median(self.warm) * 1000


@dataclass
class Case:
    """One kind of query on one file.

    Attributes:
        name: The name in the tables.
        file: The file or folder.
        queries: One query for each repetition, the same for all readers.
        rows: Number of rows of each result.
        timings: The timings of each reader that supports the query.
        failures: The error of each reader that does not.
        bytes_read: Bytes that Intarsia read for the last query with a new object.
        bytes_index: The part of ``bytes_read`` that was read to decide what to read: page indexes, Bloom
            filters, dictionaries, embedded indexes.
        requests: Requests that Intarsia made for the last query with a new object.
        least: The minimum for the last query; see `benchmarks.least`.
    """

    name: str
    file: File
    queries: Sequence[Query]
    rows: int = 0
    timings: dict[str, Timing] = field(default_factory=dict)
    failures: dict[str, str] = field(default_factory=dict)
    bytes_read: int = 0
    bytes_index: int = 0
    requests: int = 0
    least: Least | None = None

    @property
    def peers(self) -> list[str]:
        """The other readers that support the query."""
        return [engine for engine in self.timings if engine not in ("intarsia", NATIVE)]

    def ratios(self, peers: Sequence[str], own: str = "intarsia") -> tuple[float, float] | None:
        """Return Intarsia's time, cold and warm, relative to the fastest peer; None if all peers failed."""
        best = [self.timings[name].median_ms() for name in peers if name in self.timings]
        if not best or own not in self.timings:
            return None
        cold, warm = self.timings[own].median_ms()
        return cold / min(ms for ms, _ in best), warm / min(ms for _, ms in best)


class DisagreementError(Exception):
    """Two readers returned different results."""


@contextlib.contextmanager
def compiling_modules() -> Iterator[dict[str, str]]:
    """Yield an environment in which modules are compiled once, as installers do.

    The environment of this process may prevent Python from writing compiled modules.
    """
    if not sys.dont_write_bytecode:
        yield dict(os.environ)
        return
    with tempfile.TemporaryDirectory() as compiled:
        environment = {**os.environ, "PYTHONPYCACHEPREFIX": compiled}
        environment.pop("PYTHONDONTWRITEBYTECODE", None)
        yield environment


def import_ms(repetitions: int = 5) -> float:
    """Return the minimum CPU time of ``from intarsia import open`` after pyarrow.parquet was imported."""
    program = (
        "import time, numpy, pyarrow.parquet; start = time.process_time(); from intarsia import open;"
        "print(time.process_time() - start)"
    )
    command = [sys.executable, "-c", program]
    with compiling_modules() as environment:
        run = partial(subprocess.run, command, capture_output=True, check=True, text=True, env=environment)
        times = [float(run().stdout) for _ in range(1 + repetitions)]
    return min(times) * 1000


def measure(cases: Sequence[Case], engines: Sequence[str], progress: Callable[[str], None]) -> None:
    """Run every query with each reader in turn, so that other load on the machine affects all readers."""
    for case in cases:
        progress(f"{case.name}, {case.file.name}")
        # warm up imports, threads and the page cache
        able = [engine for engine in engines if _supports(engine, case)]
        case.timings = {engine: Timing() for engine in able}
        # the garbage collections between timed runs then skip the imported modules, which would take 70 ms
        # and evict the processor's caches
        gc.collect()
        gc.freeze()
        for turn, query in enumerate(case.queries):
            first = turn % len(able)
            _take_turns(case, query, able[first:] + able[:first])
        gc.unfreeze()
        case.least = least_of(case.file.path, case.queries[-1])


def _supports(engine: str, case: Case) -> bool:
    try:
        ENGINES[engine](case.file.path).run(case.queries[0])
    except Exception as error:
        if engine == "intarsia":
            raise
        case.failures[engine] = f"{type(error).__name__}: {error}".splitlines()[0]
        return False
    return True


def _take_turns(case: Case, query: Query, engines: list[str]) -> None:
    expected: Any = None
    for name in engines:
        timing = case.timings[name]
        gc.collect()
        started = time.perf_counter()
        opened = ENGINES[name](case.file.path)
        answer = opened.run(query)
        timing.cold.append(_seconds_since(started, opened))
        if isinstance(opened, Intarsia):
            report = opened.report
            case.bytes_read, case.bytes_index = report.bytes_read, report.bytes_index
            case.requests = report.requests
        found = _comparable(opened, query, answer)
        del answer
        if expected is None:
            expected = found
            case.rows = found.num_rows if isinstance(found, pa.Table) else 1
        elif not same_result(expected, found):
            raise DisagreementError(
                f"{case.file.path}: {name} and {engines[0]} return different results for {query}"
            )
        del found
        gc.collect()
        started = time.perf_counter()
        answer = opened.run(query)
        timing.warm.append(_seconds_since(started, opened))
        del opened, answer


def _seconds_since(started: float, opened: Opened) -> float:
    """Return the time of a query; the process with the extension measures it itself."""
    return opened.seconds if isinstance(opened, Remote) else time.perf_counter() - started


def _comparable(opened: Opened, query: Query, answer: Any) -> Any:
    if query.total is not None:
        return answer
    rows = opened.to_arrow(answer)
    # of rows with equal values, readers may return different ones
    return rows if query.top is None else rows.select([query.top])


def same_result(one: Any, other: Any) -> bool:
    """Return whether two results have the same rows, in any types and any order, or the same aggregate."""
    if not isinstance(one, pa.Table):
        return math.isclose(one, other, rel_tol=1e-9)
    if one.column_names != other.column_names or one.num_rows != other.num_rows:
        return False
    one = one.cast(pa.schema([(field.name, _sortable(field.type)) for field in one.schema]))
    other = other.cast(one.schema)
    if one.equals(other):
        return True
    order = [(field.name, "ascending") for field in one.schema if not pa.types.is_nested(field.type)]
    return one.sort_by(order).equals(other.sort_by(order))


def _sortable(data_type: pa.DataType) -> pa.DataType:
    return pa.string() if pa.types.is_string_view(data_type) else data_type
